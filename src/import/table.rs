//! A file's values as a table, before anything is known about their meaning.

use super::Problem;
use crate::plan::MeasureUnit;

/// The largest number of rows: each becomes a run with a folder.
pub(super) const MOST_ROWS: usize = 50_000;
/// Most columns.
pub(super) const MOST_COLUMNS: usize = 256;
/// Longest text of a value, in bytes.
pub(super) const MOST_TEXT: usize = 4 << 10;
/// From this number on, a whole number and the next whole number are the same as `f64`.
pub(super) const INEXACT: f64 = 9_007_199_254_740_992.0;
/// The most problems of a file that are named.
pub(super) const MOST_PROBLEMS: usize = 20;

/// A value of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// No value: an empty field, `NA`, or `null`.
    Missing,
    /// A finite number, and how it is written.
    Number(f64, String),
    /// A truth value of JSON.
    Truth(bool),
    /// Anything else.
    Text(String),
}

impl Field {
    /// A value from its text.
    pub(super) fn of_text(text: &str) -> Self {
        let text = text.trim();
        match text.parse::<f64>() {
            _ if text.is_empty() || text == "NA" => Self::Missing,
            // `inf`, `nan` and `1_000` are texts.
            Ok(number) if number.is_finite() && text.bytes().any(|byte| byte.is_ascii_digit()) => {
                Self::Number(number, text.to_owned())
            }
            _ => Self::Text(text.to_owned()),
        }
    }

    /// How it is written.
    pub fn text(&self) -> &str {
        match self {
            Self::Missing => "",
            Self::Truth(true) => "true",
            Self::Truth(false) => "false",
            Self::Number(_, text) | Self::Text(text) => text,
        }
    }

    /// What to do about a text that readers take for a number: `1,5`, `0:01:30`, `12 ms`. `None` for any other value.
    pub(super) fn advice(&self) -> Option<&'static str> {
        let Self::Text(text) = self else { return None };
        let is_of_number = |letter: char| letter.is_ascii_digit() || ['-', '+', '.'].contains(&letter);
        let rest = text.trim_start_matches(is_of_number);
        // A text without a first digit is none, such as `ms`.
        if !text[..text.len() - rest.len()].bytes().any(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let is_joined_by = |sign: char| rest.starts_with(sign) && rest.chars().all(|c| is_of_number(c) || c == sign);
        match () {
            () if is_joined_by(',') => Some("write decimals with a point"),
            () if is_joined_by(':') => Some("write durations as numbers, such as 90 for 1:30 in a column of seconds"),
            () if MeasureUnit::symbol(rest.trim_start()).is_some() => {
                Some("write the number alone, with its unit in the name of the column, such as \"time (ms)\"")
            }
            () => None,
        }
    }

    /// Its number.
    pub fn number(&self) -> Option<f64> {
        if let Self::Number(number, _) = self { Some(*number) } else { None }
    }
}

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its place in the file: `line 7`.
    pub place: String,
    /// One value for each column.
    pub fields: Vec<Field>,
}

/// The values of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignTable {
    /// Which program wrote it, or its format: `hyperfine`, `CSV`, `JSON lines`.
    pub format: &'static str,
    /// The names of its columns, all different.
    pub columns: Vec<String>,
    /// Its rows, at least one.
    pub rows: Vec<Row>,
}

/// The problem of a table with too many columns.
pub(super) fn too_wide() -> Problem {
    Problem::of_file(format!("it has more than {MOST_COLUMNS} columns: leave out those that are not needed"))
}

impl ForeignTable {
    /// The values of a column.
    pub fn values(&self, column: usize) -> impl Iterator<Item = &Field> {
        self.rows.iter().map(move |row| &row.fields[column])
    }

    /// Checks that the table has rows, that its columns have different names, and that nothing is too large.
    pub(super) fn checked(self) -> Result<Self, Vec<Problem>> {
        if self.rows.is_empty() {
            return Err(vec![Problem::of_file("it has no rows of values")]);
        }
        // Every name is compared with every other name, which would take hours for a very wide file.
        if self.columns.len() > MOST_COLUMNS {
            return Err(vec![too_wide()]);
        }
        let mut problems = Vec::new();
        for (place, name) in self.columns.iter().enumerate() {
            if name.is_empty() {
                problems
                    .push(Problem::of_file(format!("column {} has no name in the first line: give it one", place + 1)));
            } else if self.columns[..place].contains(name) {
                problems.push(Problem::at("", name, "two columns have this name: rename one"));
            }
        }
        if self.rows.len() > MOST_ROWS {
            problems.push(Problem::of_file(format!(
                "it has more than {MOST_ROWS} rows, each of which would be a run: split it, or leave out rows"
            )));
        }
        let is_long = |row: &&Row| row.fields.iter().any(|field| field.text().len() > MOST_TEXT);
        if let Some(row) = self.rows.iter().find(is_long) {
            problems.push(Problem::at(
                &row.place,
                "",
                format!("a value is longer than {MOST_TEXT} bytes: shorten it, or check its quotes"),
            ));
        }
        problems.truncate(MOST_PROBLEMS);
        if problems.is_empty() { Ok(self) } else { Err(problems) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_readers_take_for_numbers_come_with_advice() {
        for (text, expected) in [
            ("1,5", "with a point"),
            ("-0,25", "with a point"),
            ("0:01:30.25", "90 for 1:30"),
            ("1:30", "90 for 1:30"),
            ("12ms", "the number alone"),
            ("1.5 GB", "the number alone"),
        ] {
            assert!(Field::of_text(text).advice().is_some_and(|advice| advice.contains(expected)), "{text}");
        }
        for text in ["1.5", "", "ms", "1,a", "2026-11-26 08:30", "v1:2", "12 monkeys", ","] {
            assert_eq!(Field::of_text(text).advice(), None, "{text}");
        }
    }
}
