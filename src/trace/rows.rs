//! Streams rows of a table: columns by name, values checked, progress told, and an end to it whatever the file says.

use std::ops::ControlFlow;

use rusqlite::types::ValueRef;

use super::TraceError;
use super::import::{Progress, Stage};
use super::open::Report;

/// Progress is told, and cancelling noticed, once in so many rows.
const ROWS_BETWEEN_LOOKS: u64 = 1 << 16;

/// A row takes four bytes at the very least, so a file that claims more rows goes round in circles.
const LEAST_BYTES_PER_ROW: u64 = 4;

/// No event of a report lasts longer: a year.
const LONGEST_NS: i64 = 365 * 24 * 3600 * 1_000_000_000;

/// Half of what 64 bits hold, so that differences of times cannot overflow.
const LATEST_NS: i64 = i64::MAX / 2;

/// A column to read.
#[derive(Clone, Copy)]
pub(super) enum Column {
    /// Every schema known has it.
    Required(&'static str),
    /// It came later or goes missing; it reads as NULL then.
    Optional(&'static str),
}

/// Who is told how far an import is, and who may stop it.
pub(super) struct Watch<'a> {
    tell: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
    rows_done: u64,
    rows_total: u64,
}

impl<'a> Watch<'a> {
    pub fn new(tell: &'a mut dyn FnMut(Progress) -> ControlFlow<()>) -> Self {
        Self { tell, rows_done: 0, rows_total: 0 }
    }

    /// Counts on the rows of these tables. Row ids are counted, which costs no reading.
    pub fn expect(&mut self, report: &Report, tables: &[&str]) {
        for table in tables.iter().filter(|table| report.has(table)) {
            let sql = format!("SELECT max(rowid) FROM \"{table}\"");
            let last: Option<i64> = report.connection.query_row(&sql, [], |row| row.get(0)).unwrap_or(None);
            let most = report.size_bytes / LEAST_BYTES_PER_ROW;
            self.rows_total += u64::try_from(last.unwrap_or(0)).unwrap_or(0).min(most);
        }
    }

    /// Tells how far a stage is.
    pub fn tell(&mut self, stage: Stage, fraction: f64) -> Result<(), TraceError> {
        match (self.tell)(Progress { stage, fraction: fraction.clamp(0.0, 1.0) }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(TraceError::Cancelled),
        }
    }

    fn look(&mut self, rows: u64) -> Result<(), TraceError> {
        self.rows_done += rows;
        self.tell(Stage::Reading, self.rows_done as f64 / self.rows_total.max(1) as f64)
    }
}

/// One row: its columns in the order they were asked for.
pub(super) struct Fields<'a> {
    report: &'a Report,
    table: &'a str,
    columns: &'a [Column],
    row: &'a rusqlite::Row<'a>,
    number: u64,
}

impl Fields<'_> {
    /// A whole number, or NULL.
    pub fn integer(&self, column: usize) -> Result<Option<i64>, TraceError> {
        match self.row.get_ref(column).map_err(|error| self.report.sqlite(error))? {
            ValueRef::Integer(value) => Ok(Some(value)),
            ValueRef::Null => Ok(None),
            other => Err(self.damaged(column, format!("holds {}, not a whole number", kind(other)))),
        }
    }

    /// A whole number that must be there.
    pub fn required(&self, column: usize) -> Result<i64, TraceError> {
        self.integer(column)?.ok_or_else(|| self.damaged(column, "holds nothing"))
    }

    /// A count that must be there: not negative.
    pub fn count(&self, column: usize) -> Result<u64, TraceError> {
        let value = self.required(column)?;
        u64::try_from(value).map_err(|_| self.damaged(column, format!("holds {value}, which is negative")))
    }

    /// Text, or NULL. Bytes that are not UTF-8 do not count as text.
    pub fn text(&self, column: usize) -> Result<Option<&str>, TraceError> {
        match self.row.get_ref(column).map_err(|error| self.report.sqlite(error))? {
            ValueRef::Null => Ok(None),
            ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Ok(Some(text)),
                Err(_) => Err(self.damaged(column, "holds text that is not UTF-8")),
            },
            other => Err(self.damaged(column, format!("holds {}, not text", kind(other)))),
        }
    }

    /// Start and end in the first two columns.
    pub fn span(&self) -> Result<(i64, i64), TraceError> {
        let (start, end) = (self.required(0)?, self.required(1)?);
        if start < -LATEST_NS || end > LATEST_NS || start > LATEST_NS || end < -LATEST_NS {
            return Err(self.damaged(0, format!("{start} to {end} ns is no time of a report")));
        }
        if end < start {
            return Err(self.damaged(0, format!("it ends at {end} ns, before it starts at {start} ns")));
        }
        if end - start > LONGEST_NS {
            return Err(self.damaged(0, format!("it lasts {} ns, more than a year", end - start)));
        }
        Ok((start, end))
    }

    pub fn damaged(&self, column: usize, problem: impl Into<String>) -> TraceError {
        let (Column::Required(name) | Column::Optional(name)) = self.columns[column];
        self.report.damaged(format!("{}, row {}, {name}", self.table, self.number), problem)
    }
}

fn kind(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "nothing".to_owned(),
        ValueRef::Integer(_) => "a whole number".to_owned(),
        ValueRef::Real(value) => format!("{value:e}"),
        ValueRef::Text(_) => "text".to_owned(),
        ValueRef::Blob(_) => "bytes".to_owned(),
    }
}

/// Reads a table from its first row to its last. A table that is missing has no rows.
pub(super) fn scan(
    report: &Report,
    watch: &mut Watch<'_>,
    table: &str,
    columns: &[Column],
    mut each: impl FnMut(&Fields<'_>) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    let Some(present) = report.columns(table) else { return Ok(()) };
    let mut selected = Vec::with_capacity(columns.len());
    for column in columns {
        let (Column::Required(name) | Column::Optional(name)) = *column;
        if present.iter().any(|other| other == name) {
            selected.push(format!("\"{name}\""));
        } else if matches!(column, Column::Required(_)) {
            return Err(TraceError::Schema {
                file: report.file.clone(),
                found: format!("table {table} has no column {name}"),
                advice: "this schema is not known here: export the report with another version of nsys",
            });
        } else {
            selected.push("NULL".to_owned());
        }
    }
    // Exports have no indexes. One that is there all the same was made by somebody else and may be wrong.
    let sql = format!("SELECT {} FROM \"{table}\" NOT INDEXED", selected.join(", "));
    let mut statement = report.connection.prepare(&sql).map_err(|error| report.sqlite(error))?;
    let mut rows = statement.query([]).map_err(|error| report.sqlite(error))?;
    let most = report.size_bytes / LEAST_BYTES_PER_ROW;
    let mut number = 0;
    while let Some(row) = rows.next().map_err(|error| report.sqlite(error))? {
        number += 1;
        if number > most {
            return Err(report.damaged(table, format!("claims more rows than {} bytes can hold", report.size_bytes)));
        }
        if number % ROWS_BETWEEN_LOOKS == 0 {
            watch.look(ROWS_BETWEEN_LOOKS)?;
        }
        each(&Fields { report, table, columns, row, number })?;
    }
    watch.look(number % ROWS_BETWEEN_LOOKS)
}
