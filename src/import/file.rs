//! Reads a file as a table.

use std::path::Path;

use super::table::ForeignTable;
use super::{Problem, csv_rows, json_rows};
use crate::foreign;

/// Longest file.
const MOST_BYTES: u64 = 64 << 20;

/// Reads a file of CSV, JSON lines or hyperfine's JSON. Its content decides which it is.
///
/// # Errors
/// What is wrong with it, with places.
pub fn read(path: &Path) -> Result<ForeignTable, Vec<Problem>> {
    let bytes = foreign::read(path, MOST_BYTES).map_err(|error| vec![Problem::of_file(error.to_string())])?;
    read_bytes(&bytes)
}

/// Reads the content of such a file.
///
/// # Errors
/// What is wrong with it, with places.
pub fn read_bytes(bytes: &[u8]) -> Result<ForeignTable, Vec<Problem>> {
    let text = text(bytes).map_err(|problem| vec![problem])?;
    if text.trim().is_empty() {
        return Err(vec![Problem::of_file("it is empty")]);
    }
    let table = match text.trim_start().chars().next() {
        Some('{' | '[') => json_rows::read(&text)?,
        _ => csv_rows::read(&text)?,
    };
    table.checked()
}

/// The text of a file with one kind of line break, without a mark of its encoding.
fn text(bytes: &[u8]) -> Result<String, Problem> {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(Problem::of_file("it is in UTF-16: save it in UTF-8"));
    }
    let bytes = bytes.strip_prefix(&[0xef, 0xbb, 0xbf]).unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        Problem::at(format!("line {line}"), "", "it has bytes that are not UTF-8: save it in UTF-8")
    })?;
    Ok(text.replace("\r\n", "\n").replace('\r', "\n"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn problems(bytes: &[u8]) -> Vec<String> {
        read_bytes(bytes).unwrap_err().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn marks_of_encoding_line_breaks_and_quotes_of_csv_are_understood() {
        let text = b"\xef\xbb\xbfname,time_s\r\n\"a, b\",1.5\r\"say \"\"hi\"\"\",2e-3\n\n";
        let table = read_bytes(text).unwrap();
        assert_eq!(
            (table.format, table.columns.as_slice()),
            ("CSV", ["name".to_owned(), "time_s".to_owned()].as_slice())
        );
        let texts: Vec<(&str, &str, Option<f64>)> =
            table.rows.iter().map(|row| (row.place.as_str(), row.fields[0].text(), row.fields[1].number())).collect();
        assert_eq!(texts, [("line 2", "a, b", Some(1.5)), ("line 3", "say \"hi\"", Some(0.002))]);
        let semicolons = read_bytes(b"a;b\n1;2\n").unwrap();
        assert_eq!(semicolons.columns, ["a", "b"]);
    }

    #[test]
    fn what_is_wrong_with_a_file_is_named_with_its_line() {
        assert_eq!(problems(b""), ["it is empty"]);
        assert_eq!(problems(b"a,b\n"), ["it has no rows of values"]);
        assert_eq!(problems(b"\xff\xfea\0"), ["it is in UTF-16: save it in UTF-8"]);
        assert_eq!(problems(b"a\nx\n\xe4\n"), ["line 3: it has bytes that are not UTF-8: save it in UTF-8"]);
        assert_eq!(problems(b"a,b\n1,2\n1,2,3\n"), ["line 3: it has 3 values, and the first line has 2 names"]);
        assert_eq!(problems(b"a,a\n1,2\n"), ["column \"a\": two columns have this name: rename one"]);
        assert_eq!(problems(b"a,\n1,2\n"), ["column 2 has no name in the first line: give it one"]);
        assert_eq!(problems(b"a,b\n1,\"2\n3,4\n"), ["line 2: a quote is opened and not closed"]);
        // The names of this file's columns are all the same, and are not compared.
        let wide = format!("{}\n1\n", "a,".repeat(300));
        assert_eq!(problems(wide.as_bytes()), ["it has more than 256 columns: leave out those that are not needed"]);
        let long = format!("a\n{}\n", "x".repeat(5000));
        assert!(problems(long.as_bytes())[0].starts_with("line 2: a value is longer than 4096 bytes"));
    }
}
