//! Streams the rows of a table: columns by name, checked values, and guaranteed termination.

use rusqlite::Row;
use rusqlite::types::ValueRef;

use super::open::NsysExport;
use crate::trace::TraceError;
use crate::trace::event::check_span;

/// A column to read.
#[derive(Clone, Copy)]
pub(super) enum Column {
    /// A column that every known schema has.
    Required(&'static str),
    /// A column that some schemas lack; it is then read as NULL.
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
    row: &'a Row<'a>,
    id: i64,
}

impl Fields<'_> {
    /// The row id.
    pub fn number(&self) -> i64 {
        self.id
    }

    /// An integer, or NULL.
    #[inline]
    pub fn integer(&self, column: usize) -> Result<Option<i64>, TraceError> {
        match self.value(column) {
            ValueRef::Integer(value) => Ok(Some(value)),
            ValueRef::Null => Ok(None),
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
            ValueRef::Null => Ok(None),
            ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
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

    /// Start and end of an event at a single time, which is in the first column.
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
        report.damaged(format!("{table}, row {}, {}", self.id, columns[column].name()), problem)
    }

    /// The error for an impossible row.
    pub fn refused(&self, problem: String) -> TraceError {
        let Rows { report, table, .. } = self.rows;
        report.damaged(format!("{table}, row {}", self.id), problem)
    }

    #[inline]
    fn value(&self, column: usize) -> ValueRef<'_> {
        // The row id comes before the columns; a column beyond the last one would be a mistake in this program, not in the file.
        self.row.get_ref(column + 1).unwrap_or(ValueRef::Null)
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

/// Selected columns of a table.
pub(super) struct Rows<'a> {
    report: &'a NsysExport<'a>,
    table: &'a str,
    columns: &'a [Column],
    /// The statement that reads the rows between two row ids in ascending order: the row id, then the columns.
    sql: String,
}

/// Row ids from the first to the last one, both included.
pub(super) type Ids = (i64, i64);

impl<'a> Rows<'a> {
    /// `None` if the table is missing, which reads as empty.
    pub fn of(report: &'a NsysExport<'a>, table: &'a str, columns: &'a [Column]) -> Result<Option<Self>, TraceError> {
        let Some(present) = report.columns(table) else { return Ok(None) };
        let row_id = row_id(report, table)?;
        let mut sql = format!("SELECT {row_id}");
        for column in columns {
            let name = column.name();
            match column {
                _ if present.contains(name) => sql.extend([", \"", name, "\""]),
                Column::Optional(_) => sql.push_str(", NULL"),
                Column::Required(_) => {
                    return Err(TraceError::Schema {
                        file: report.file.clone(),
                        found: format!("table {table} has no column {name}"),
                        advice: "this schema is unknown to this version: export the report with another version of nsys",
                    });
                }
            }
        }
        // An index of the file could omit rows or give them in another order.
        sql.extend([" FROM \"", table, "\" NOT INDEXED WHERE ", row_id, " BETWEEN ?1 AND ?2"]);
        Ok(Some(Self { report, table, columns, sql }))
    }

    /// Reads the rows with these ids in ascending order.
    pub fn read(
        &self,
        (first, last): Ids,
        mut each: impl FnMut(&Fields<'_>) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        let damaged = |error: rusqlite::Error| self.report.damaged(self.table, error.to_string());
        self.report.connected(|connection| {
            let mut statement = connection.prepare_cached(&self.sql).map_err(damaged)?;
            let mut rows = statement.query([first, last]).map_err(damaged)?;
            let mut before = None;
            while let Some(row) = rows.next().map_err(damaged)? {
                let id = row.get(0).map_err(damaged)?;
                // Pages that occur twice in a table, or that form a circle, would give their rows again.
                if before >= Some(id) {
                    return Err(self
                        .report
                        .damaged(self.table, format!("row {id} comes after row {}", before.unwrap_or(id))));
                }
                before = Some(id);
                each(&Fields { rows: self, row, id })?;
            }
            Ok(())
        })
    }
}

/// The smallest and the largest row id of a table; `None` if it has no rows.
pub(super) fn ids(report: &NsysExport<'_>, table: &str) -> Result<Option<Ids>, TraceError> {
    if !report.has(table) {
        return Ok(None);
    }
    // The two values are looked up separately, because a single statement for both would read the whole table.
    let id = row_id(report, table)?;
    let sql = format!("SELECT (SELECT min({id}) FROM \"{table}\"), (SELECT max({id}) FROM \"{table}\")");
    report.connected(|connection| {
        let ends = connection.query_row(&sql, [], |row| Ok((row.get::<_, Option<i64>>(0)?, row.get(1)?)));
        let (first, last) = ends.map_err(|error| report.damaged(table, error.to_string()))?;
        Ok(first.zip(last))
    })
}

/// A name for the row id that no column of the table has.
fn row_id(report: &NsysExport<'_>, table: &str) -> Result<&'static str, TraceError> {
    let taken = |name: &str| {
        report.columns(table).is_some_and(|columns| columns.iter().any(|column| column.eq_ignore_ascii_case(name)))
    };
    let free = ["rowid", "_rowid_", "oid"].into_iter().find(|name| !taken(name));
    free.ok_or_else(|| report.damaged(table, "its columns take every name of SQLite's row id"))
}

/// Reads a whole table on this thread. A missing table reads as empty.
pub(super) fn scan(
    report: &NsysExport<'_>,
    table: &str,
    columns: &[Column],
    each: impl FnMut(&Fields<'_>) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    let Some(rows) = Rows::of(report, table, columns)? else { return Ok(()) };
    rows.read((i64::MIN, i64::MAX), each)
}
