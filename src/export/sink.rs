//! The target of rows: typed columns, values, and CSV. The first columns of a run are the same in all of its rows.

use std::io::{BufWriter, Write};

use super::ExportError;
use crate::plan::Key;
use crate::text_table::csv_text;

/// The type of a column's values; any value may be unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Integer,
    Number,
    Flag,
}

/// One column.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Column {
    pub name: Key,
    pub kind: Kind,
}

/// One value of a row; it has its column's type or is unknown.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Unknown,
    Text(&'a str),
    Integer(i64),
    Number(f64),
    Flag(bool),
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for Value<'_> {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Value<'_> {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<u32> for Value<'_> {
    fn from(count: u32) -> Self {
        Self::Integer(count.into())
    }
}

impl From<u64> for Value<'_> {
    fn from(count: u64) -> Self {
        i64::try_from(count).map_or(Self::Unknown, Self::Integer)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Unknown, Into::into)
    }
}

/// A file that is being written.
pub(super) trait Sink {
    /// Begins a run: the values of its first columns.
    fn begin(&mut self, head: &[Value]) -> Result<(), ExportError>;

    /// Writes one row of the run: the values of the other columns.
    fn row(&mut self, rest: &[Value]) -> Result<(), ExportError>;

    /// Completes the file.
    fn finish(self: Box<Self>) -> Result<(), ExportError>;
}

/// CSV.
pub(super) struct Csv<W: Write> {
    to: BufWriter<W>,
    head: String,
    line: String,
}

impl<W: Write> Csv<W> {
    pub fn new(to: W, columns: &[Column]) -> Result<Self, ExportError> {
        let mut to = BufWriter::with_capacity(1 << 18, to);
        let names: Vec<String> = columns.iter().map(|column| csv_text(&column.name)).collect();
        writeln!(to, "{}", names.join(","))?;
        Ok(Self { to, head: String::new(), line: String::new() })
    }
}

fn push(line: &mut String, value: &Value) {
    use std::fmt::Write as _;
    // Writing to a string cannot fail.
    let _ = match value {
        Value::Unknown => Ok(()),
        Value::Text(text) => write!(line, "{}", csv_text(text)),
        Value::Integer(count) => write!(line, "{count}"),
        Value::Number(number) => write!(line, "{number:?}"),
        Value::Flag(flag) => write!(line, "{flag}"),
    };
}

impl<W: Write> Sink for Csv<W> {
    fn begin(&mut self, head: &[Value]) -> Result<(), ExportError> {
        self.head.clear();
        for value in head {
            push(&mut self.head, value);
            self.head.push(',');
        }
        Ok(())
    }

    fn row(&mut self, rest: &[Value]) -> Result<(), ExportError> {
        self.line.clear();
        self.line.push_str(&self.head);
        for (place, value) in rest.iter().enumerate() {
            if place > 0 {
                self.line.push(',');
            }
            push(&mut self.line, value);
        }
        self.line.push('\n');
        Ok(self.to.write_all(self.line.as_bytes())?)
    }

    fn finish(mut self: Box<Self>) -> Result<(), ExportError> {
        Ok(self.to.flush()?)
    }
}
