//! Writes rows as Parquet: one row group after the other, every column optional. The first columns of a run are stored once with their
//! number of rows.

use std::io::Write;
use std::sync::Arc;

use ::parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use ::parquet::schema::types::Type;

use super::ExportError;
use super::sink::{Column, Kind, Sink, Value};

/// Rows of a row group, which is held in memory.
const GROUP_ROWS: usize = 1 << 17;
/// The number of repeated values that are written at a time.
const PIECE: usize = 1 << 12;

/// Values of one column in the open row group, each with its number of rows.
enum Values {
    Text(Vec<(Option<ByteArray>, usize)>),
    Integer(Vec<(Option<i64>, usize)>),
    Number(Vec<(Option<f64>, usize)>),
    Flag(Vec<(Option<bool>, usize)>),
}

impl Values {
    fn new(kind: Kind) -> Self {
        match kind {
            Kind::Text => Self::Text(Vec::new()),
            Kind::Integer => Self::Integer(Vec::new()),
            Kind::Number => Self::Number(Vec::new()),
            Kind::Flag => Self::Flag(Vec::new()),
        }
    }

    fn add(&mut self, value: &Value, rows: usize) {
        match (self, value) {
            (Self::Text(all), Value::Text(text)) => {
                let same = |last: &(Option<ByteArray>, usize)| {
                    last.0.as_ref().is_some_and(|last| last.data() == text.as_bytes())
                };
                match all.last_mut().filter(|last| same(last)) {
                    Some(last) => last.1 += rows,
                    None => all.push((Some(ByteArray::from(*text)), rows)),
                }
            }
            (Self::Text(all), _) => all.push((None, rows)),
            (Self::Integer(all), Value::Integer(count)) => all.push((Some(*count), rows)),
            (Self::Integer(all), _) => all.push((None, rows)),
            (Self::Number(all), Value::Number(number)) => all.push((Some(*number), rows)),
            (Self::Number(all), Value::Integer(count)) => all.push((Some(*count as f64), rows)),
            (Self::Number(all), _) => all.push((None, rows)),
            (Self::Flag(all), Value::Flag(flag)) => all.push((Some(*flag), rows)),
            (Self::Flag(all), _) => all.push((None, rows)),
        }
    }

    /// Writes all values and clears them.
    fn write(&mut self, to: &mut SerializedColumnWriter<'_>) -> Result<(), ExportError> {
        match self {
            Self::Text(all) => write_all::<ByteArrayType>(all, to),
            Self::Integer(all) => write_all::<Int64Type>(all, to),
            Self::Number(all) => write_all::<DoubleType>(all, to),
            Self::Flag(all) => write_all::<BoolType>(all, to),
        }
    }
}

fn write_all<T: DataType>(
    all: &mut Vec<(Option<T::T>, usize)>,
    to: &mut SerializedColumnWriter<'_>,
) -> Result<(), ExportError> {
    let (mut values, mut known) = (Vec::with_capacity(PIECE), Vec::with_capacity(PIECE));
    let mut flush = |values: &mut Vec<T::T>, known: &mut Vec<i16>| -> Result<(), ExportError> {
        to.typed::<T>().write_batch(values, Some(known), None)?;
        values.clear();
        known.clear();
        Ok(())
    };
    for (value, rows) in all.drain(..) {
        for _ in 0..rows {
            known.push(i16::from(value.is_some()));
            values.extend(value.clone());
            if known.len() == PIECE {
                flush(&mut values, &mut known)?;
            }
        }
    }
    if !known.is_empty() {
        flush(&mut values, &mut known)?;
    }
    Ok(())
}

/// A Parquet file.
pub(super) struct Parquet<W: Write + Send> {
    to: SerializedFileWriter<W>,
    /// The first columns of the run, and the number of its rows that are not yet added to the columns.
    head: Vec<Owned>,
    head_rows: usize,
    columns: Vec<Values>,
    rows: usize,
}

/// A value that is kept longer than its row.
enum Owned {
    Text(String),
    Other(Value<'static>),
}

impl<W: Write + Send> Parquet<W> {
    pub fn new(to: W, columns: &[Column]) -> Result<Self, ExportError> {
        let field = |column: &Column| {
            let (physical, logical) = match column.kind {
                Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
                Kind::Integer => (Physical::INT64, None),
                Kind::Number => (Physical::DOUBLE, None),
                Kind::Flag => (Physical::BOOLEAN, None),
            };
            let builder = Type::primitive_type_builder(&column.name, physical).with_repetition(Repetition::OPTIONAL);
            builder.with_logical_type(logical).build().map(Arc::new)
        };
        let fields = columns.iter().map(field).collect::<Result<Vec<_>, _>>()?;
        let schema = Type::group_type_builder("multicard").with_fields(fields).build()?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(format!("multicard {}", env!("CARGO_PKG_VERSION")));
        let to = SerializedFileWriter::new(to, Arc::new(schema), Arc::new(properties.build()))?;
        let columns = columns.iter().map(|column| Values::new(column.kind)).collect();
        Ok(Self { to, head: Vec::new(), head_rows: 0, columns, rows: 0 })
    }

    /// Adds the rows so far to the run's first columns.
    fn settle(&mut self) {
        if self.head_rows > 0 {
            for (column, value) in self.columns.iter_mut().zip(&self.head) {
                match value {
                    Owned::Text(text) => column.add(&Value::Text(text), self.head_rows),
                    Owned::Other(value) => column.add(value, self.head_rows),
                }
            }
        }
        self.head_rows = 0;
    }

    fn write_group(&mut self) -> Result<(), ExportError> {
        self.settle();
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.to.next_row_group()?;
        for values in &mut self.columns {
            if let Some(mut column) = group.next_column()? {
                values.write(&mut column)?;
                column.close()?;
            }
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }
}

impl<W: Write + Send> Sink for Parquet<W> {
    fn begin(&mut self, head: &[Value]) -> Result<(), ExportError> {
        self.settle();
        let owned = |value: &Value| match value {
            Value::Text(text) => Owned::Text((*text).to_owned()),
            Value::Integer(count) => Owned::Other(Value::Integer(*count)),
            Value::Number(number) => Owned::Other(Value::Number(*number)),
            Value::Flag(flag) => Owned::Other(Value::Flag(*flag)),
            Value::Unknown => Owned::Other(Value::Unknown),
        };
        self.head = head.iter().map(owned).collect();
        Ok(())
    }

    fn row(&mut self, rest: &[Value]) -> Result<(), ExportError> {
        for (column, value) in self.columns[self.head.len()..].iter_mut().zip(rest) {
            column.add(value, 1);
        }
        self.rows += 1;
        self.head_rows += 1;
        if self.rows == GROUP_ROWS { self.write_group() } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> Result<(), ExportError> {
        self.write_group()?;
        self.to.close()?;
        Ok(())
    }
}
