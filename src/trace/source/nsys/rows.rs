//! Streams the rows of a table: columns by name, checked values, and guaranteed termination.

use super::open::NsysExport;
use super::pages::PageError;
use super::record::{MOST_COLUMNS, Reader, Record, Value};
use crate::trace::TraceError;
use crate::trace::event::check_span;

/// A column to read.
#[derive(Clone, Copy)]
pub(super) enum Column {
    /// In every known schema.
    Required(&'static str),
    /// Missing in some schemas; reads as NULL there.
    Optional(&'static str),
}

impl Column {
    fn name(self) -> &'static str {
        let (Self::Required(name) | Self::Optional(name)) = self;
        name
    }
}

/// One row with its columns in the order requested.
pub(super) struct Fields<'a> {
    rows: &'a Rows<'a>,
    record: &'a Record<'a>,
}

impl Fields<'_> {
    /// The row id.
    pub fn number(&self) -> i64 {
        self.record.id
    }

    /// An integer, or NULL.
    #[inline]
    pub fn integer(&self, column: usize) -> Result<Option<i64>, TraceError> {
        match self.value(column) {
            Value::Integer(value) => Ok(Some(value)),
            Value::Null => Ok(None),
            other => Err(self.damaged(column, format!("holds {}, not a whole number", kind(other)))),
        }
    }

    /// An integer; NULL is an error.
    #[inline]
    pub fn required(&self, column: usize) -> Result<i64, TraceError> {
        self.integer(column)?.ok_or_else(|| self.damaged(column, "holds nothing"))
    }

    /// A non-negative integer; NULL is an error.
    #[inline]
    pub fn count(&self, column: usize) -> Result<u64, TraceError> {
        let value = self.required(column)?;
        u64::try_from(value).map_err(|_| self.damaged(column, format!("holds {value}, which is negative")))
    }

    /// Text, or NULL. Bytes that are not UTF-8 do not count as text.
    pub fn text(&self, column: usize) -> Result<Option<&str>, TraceError> {
        match self.value(column) {
            Value::Null => Ok(None),
            Value::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Ok(Some(text)),
                Err(_) => Err(self.damaged(column, "holds text that is not UTF-8")),
            },
            other => Err(self.damaged(column, format!("holds {}, not text", kind(other)))),
        }
    }

    /// Start and end from the first two columns.
    #[inline]
    pub fn span(&self) -> Result<(i64, i64), TraceError> {
        self.checked((self.required(0)?, self.required(1)?))
    }

    /// The same of what happens at one time, which is in the first column.
    pub fn time(&self) -> Result<(i64, i64), TraceError> {
        let time = self.required(0)?;
        self.checked((time, time))
    }

    #[inline]
    fn checked(&self, span: (i64, i64)) -> Result<(i64, i64), TraceError> {
        check_span(span).map_err(|problem| self.damaged(0, problem))?;
        Ok(span)
    }

    pub fn damaged(&self, column: usize, problem: impl Into<String>) -> TraceError {
        let Rows { report, table, columns, .. } = self.rows;
        report.damaged(format!("{table}, row {}, {}", self.record.id, columns[column].name()), problem)
    }

    /// The row as a whole cannot be.
    pub fn refused(&self, problem: String) -> TraceError {
        let Rows { report, table, .. } = self.rows;
        report.damaged(format!("{table}, row {}", self.record.id), problem)
    }

    #[inline]
    fn value(&self, column: usize) -> Value<'_> {
        match self.record.value(column) {
            Value::Null if self.rows.is_id[column] => Value::Integer(self.record.id),
            value => value,
        }
    }
}

fn kind(value: Value<'_>) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Integer(_) => "a whole number".to_owned(),
        Value::Real(value) => format!("{value:e}"),
        Value::Text(_) => "text".to_owned(),
        Value::Blob => "bytes".to_owned(),
    }
}

/// Selected columns of a table.
pub(super) struct Rows<'a> {
    report: &'a NsysExport<'a>,
    table: &'a str,
    columns: &'a [Column],
    /// For each stored column its position among those requested, up to the last one.
    slots: Vec<Option<usize>>,
    is_id: [bool; MOST_COLUMNS],
}

impl<'a> Rows<'a> {
    /// None if the table is missing, which reads as empty.
    pub fn of(report: &'a NsysExport<'a>, table: &'a str, columns: &'a [Column]) -> Result<Option<Self>, TraceError> {
        let Some(present) = report.table(table) else { return Ok(None) };
        let (mut slots, mut is_id) = (Vec::new(), [false; MOST_COLUMNS]);
        for (slot, column) in columns.iter().enumerate() {
            let name = column.name();
            let Some(stored) = present.columns.get(name) else {
                if matches!(column, Column::Optional(_)) {
                    continue;
                }
                return Err(TraceError::Schema {
                    file: report.file.clone(),
                    found: format!("table {table} has no column {name}"),
                    advice: "this schema is not known here: export the report with another version of nsys",
                });
            };
            slots.resize(slots.len().max(stored.place + 1), None);
            slots[stored.place] = Some(slot);
            is_id[slot] = stored.is_id;
        }
        Ok(Some(Self { report, table, columns, slots, is_id }))
    }

    /// Reader of the rows of pages.
    pub fn reader(&self) -> Reader<'_> {
        Reader::new(&self.report.pages, &self.slots)
    }

    /// Reads the rows of a page in order of their ids.
    pub fn read(
        &self,
        reader: &mut Reader<'_>,
        page: u32,
        mut each: impl FnMut(&Fields<'_>) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        reader.rows(page, |record| each(&Fields { rows: self, record }).map_err(RowError::Row)).map_err(|error| {
            match error {
                RowError::Row(error) => error,
                RowError::Page(error) => self.report.page(self.table, error),
            }
        })
    }
}

/// An error of the row handler or of reading.
enum RowError {
    Row(TraceError),
    Page(PageError),
}

impl From<PageError> for RowError {
    fn from(error: PageError) -> Self {
        Self::Page(error)
    }
}

/// Reads a whole table on this thread. A missing table reads as empty.
pub(super) fn scan(
    report: &NsysExport<'_>,
    table: &str,
    columns: &[Column],
    mut each: impl FnMut(&Fields<'_>) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    let Some(rows) = Rows::of(report, table, columns)? else { return Ok(()) };
    let mut reader = rows.reader();
    report.leaves(table)?.into_iter().try_for_each(|page| rows.read(&mut reader, page, &mut each))
}
