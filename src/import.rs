#![doc = include_str!("import/import.md")]

mod amount;
mod columns;
mod copies;
mod csv_rows;
mod declared;
mod dependence;
mod file;
#[cfg(test)]
mod fixture;
mod json_rows;
mod moment;
mod naming;
mod recurring;
mod role;
mod runs;
mod session;
mod spacing;
mod spelling;
mod table;
mod tick;
mod unique_json;
mod written;

pub use columns::{Mapping, MappingError};
pub use file::{read, read_bytes};
pub use role::Role;
pub use runs::{Imported, Results, results};
pub use session::{ImportError, is_written, write_session};
pub use table::{Field, ForeignTable, Row};

use std::fmt;

/// A problem of a file, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The place in the file: `line 7`, `results[2].times[5]`; empty for the file as a whole.
    pub place: String,
    /// The column; empty if no column is meant.
    pub column: String,
    /// What is wrong, and what to do.
    pub what: String,
}

impl Problem {
    fn of_file(what: impl Into<String>) -> Self {
        Self { place: String::new(), column: String::new(), what: what.into() }
    }

    fn at(place: impl Into<String>, column: &str, what: impl Into<String>) -> Self {
        Self { place: place.into(), column: column.to_owned(), what: what.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = if self.column.is_empty() { String::new() } else { format!("column {:?}", self.column) };
        let places = [self.place.as_str(), column.as_str()];
        let place = places.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
        if place.is_empty() { f.write_str(&self.what) } else { write!(f, "{place}: {}", self.what) }
    }
}
