//! A table as text.

use std::str::FromStr;

use thiserror::Error;

use super::{Table, csv, json, latex, markdown};

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For reading: three significant digits, intervals in brackets.
    Markdown,
    /// For machines: full precision, every factor a column.
    Csv,
    /// For papers: booktabs and siunitx.
    Latex,
    /// For machines: the form that `multicard table --format json` promises.
    Json,
}

/// A name that no format has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown format {0:?}: use md, csv, latex or json")]
pub struct UnknownFormat(String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        match name {
            "md" => Ok(Self::Markdown),
            "csv" => Ok(Self::Csv),
            "latex" => Ok(Self::Latex),
            "json" => Ok(Self::Json),
            _ => Err(UnknownFormat(name.to_owned())),
        }
    }
}

/// Writes a table; the text ends with a newline.
pub fn render(table: &Table, format: Format) -> String {
    match format {
        Format::Markdown => markdown::render(&table.for_reading()),
        Format::Csv => csv::render(table),
        Format::Latex => latex::render(&table.for_reading()),
        Format::Json => json::render(table),
    }
}

#[cfg(test)]
#[path = "render_tests.rs"]
mod tests;
