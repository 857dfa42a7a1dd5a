//! Streams rows of a table: columns by name, values checked, and an end to it whatever the file says.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use super::TraceError;
use super::open::Report;

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

impl Column {
    fn name(self) -> &'static str {
        let (Self::Required(name) | Self::Optional(name)) = self;
        name
    }
}

/// One row: its columns in the order they were asked for.
pub(super) struct Fields<'a> {
    rows: &'a Rows<'a>,
    row: &'a Row<'a>,
    /// Which row of the table.
    pub number: i64,
}

impl Fields<'_> {
    /// A whole number, or NULL.
    pub fn integer(&self, column: usize) -> Result<Option<i64>, TraceError> {
        match self.value(column)? {
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
        match self.value(column)? {
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
        let Rows { report, table, columns, .. } = self.rows;
        report.damaged(format!("{table}, row {}, {}", self.number, columns[column].name()), problem)
    }

    fn value(&self, column: usize) -> Result<ValueRef<'_>, TraceError> {
        // Columns that the table lacks are not selected.
        match self.rows.places[column] {
            Some(place) => self.row.get_ref(place).map_err(|error| self.rows.report.sqlite(error)),
            None => Ok(ValueRef::Null),
        }
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

/// Some columns of all rows of a table.
pub(super) struct Rows<'a> {
    report: &'a Report<'a>,
    table: &'a str,
    columns: &'a [Column],
    /// Where each column is in what is selected.
    places: Vec<Option<usize>>,
    selected: Vec<&'static str>,
    has_ids: bool,
}

/// Ids of rows: the first that belongs to a part of a table, and the first that does not any more.
pub(super) struct Part {
    pub from: i64,
    pub to: Option<i64>,
}

/// The ids of the first row that was found from a part's start on, and of the one that ended it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ends {
    pub first: Option<i64>,
    pub beyond: Option<i64>,
}

impl<'a> Rows<'a> {
    /// None where the table is missing: it has no rows then.
    pub fn of(report: &'a Report<'a>, table: &'a str, columns: &'a [Column]) -> Result<Option<Self>, TraceError> {
        let Some(present) = report.columns(table) else { return Ok(None) };
        let (mut places, mut selected) = (Vec::with_capacity(columns.len()), Vec::with_capacity(columns.len()));
        for column in columns {
            let name = column.name();
            let is_present = present.iter().any(|other| other == name);
            if !is_present && matches!(column, Column::Required(_)) {
                return Err(TraceError::Schema {
                    file: report.file.clone(),
                    found: format!("table {table} has no column {name}"),
                    advice: "this schema is not known here: export the report with another version of nsys",
                });
            }
            places.push(is_present.then_some(selected.len()));
            if is_present {
                selected.push(name);
            }
        }
        // A column of this name hides the ids.
        let has_ids = !present.iter().any(|name| name.eq_ignore_ascii_case("rowid"));
        Ok(Some(Self { report, table, columns, places, selected, has_ids }))
    }

    /// The last row's id, by which parts can be made; none where rows have no ids. Costs no reading of rows.
    pub fn last_id(&self) -> Option<i64> {
        last_id(self.report, self.table).filter(|_| self.has_ids)
    }

    fn sql(&self, last: &str) -> String {
        let columns: String = self.selected.iter().map(|name| format!("\"{name}\", ")).collect();
        // Exports have no indexes. One that is there all the same was made by somebody else and may be wrong.
        format!("SELECT {columns}{last} FROM \"{}\" NOT INDEXED", self.table)
    }

    /// Reads all rows, in whatever order they lie.
    pub fn read_all(&self, mut each: impl FnMut(&Fields<'_>) -> Result<(), TraceError>) -> Result<u64, TraceError> {
        let sql = self.sql("NULL");
        let most = most_rows(self.report);
        self.report.on_connection(|connection| {
            let mut statement = connection.prepare(&sql).map_err(|error| self.report.sqlite(error))?;
            let mut rows = statement.query([]).map_err(|error| self.report.sqlite(error))?;
            let mut number = 0;
            while let Some(row) = rows.next().map_err(|error| self.report.sqlite(error))? {
                number += 1;
                if number > most {
                    let problem = format!("claims more rows than {} bytes can hold", self.report.size_bytes);
                    return Err(self.report.damaged(self.table, problem));
                }
                each(&Fields { rows: self, row, number: number as i64 })?;
            }
            Ok(number)
        })
    }

    /// Reads the rows of a part in the order of their ids.
    pub fn read_part(
        &self,
        connection: &Connection,
        part: &Part,
        mut each: impl FnMut(&Fields<'_>) -> Result<(), TraceError>,
    ) -> Result<Ends, TraceError> {
        let sqlite = |error| self.report.sqlite(error);
        let sql = self.sql("rowid") + " WHERE rowid >= ?1";
        let mut statement = connection.prepare_cached(&sql).map_err(sqlite)?;
        let mut rows = statement.query([part.from]).map_err(sqlite)?;
        let mut ends = Ends::default();
        let mut before = None;
        while let Some(row) = rows.next().map_err(sqlite)? {
            let number: i64 = row.get(self.selected.len()).map_err(sqlite)?;
            if before >= Some(number) {
                return Err(self.report.damaged(self.table, format!("row {number} comes after row {before:?}")));
            }
            before = Some(number);
            ends.first.get_or_insert(number);
            if part.to.is_some_and(|to| number >= to) {
                ends.beyond = Some(number);
                break;
            }
            each(&Fields { rows: self, row, number })?;
        }
        Ok(ends)
    }
}

/// More rows than an export has.
pub(super) fn most_rows(report: &Report<'_>) -> u64 {
    report.size_bytes / LEAST_BYTES_PER_ROW
}

/// The id of a table's last row.
pub(super) fn last_id(report: &Report<'_>, table: &str) -> Option<i64> {
    let sql = format!("SELECT max(rowid) FROM \"{table}\"");
    let last = |connection: &Connection| Ok(connection.query_row(&sql, [], |row| row.get(0)).unwrap_or(None));
    report.on_connection(last).unwrap_or(None)
}

/// Reads a table on this thread from its first row to its last. A table that is missing has no rows.
pub(super) fn scan(
    report: &Report<'_>,
    table: &str,
    columns: &[Column],
    each: impl FnMut(&Fields<'_>) -> Result<(), TraceError>,
) -> Result<u64, TraceError> {
    Rows::of(report, table, columns)?.map_or(Ok(0), |rows| rows.read_all(each))
}
