//! CSV: the first line has the names of columns. Commas, semicolons or tabs separate values.

use csv::{ReaderBuilder, StringRecord};

use super::Problem;
use super::table::{Field, ForeignTable, MOST_COLUMNS, MOST_PROBLEMS, MOST_ROWS, Row, too_wide};
use crate::analysis::counted;

/// The rows of a text in CSV, whose lines end in `\n`.
pub(super) fn read(text: &str) -> Result<ForeignTable, Vec<Problem>> {
    let delimiter = delimiter(text.trim_start().lines().next().unwrap_or_default());
    let mut reader =
        ReaderBuilder::new().delimiter(delimiter).flexible(true).has_headers(false).from_reader(text.as_bytes());
    let mut record = StringRecord::new();
    let mut columns: Vec<String> = Vec::new();
    let (mut rows, mut problems) = (Vec::new(), Vec::new());
    // The line of the last record, and whether it spans several.
    let (mut last_line, mut is_long) = (0, false);
    loop {
        let more = reader.read_record(&mut record).map_err(|error| vec![Problem::of_file(error.to_string())])?;
        if !more || rows.len() > MOST_ROWS || problems.len() == MOST_PROBLEMS {
            break;
        }
        let line = record.position().map_or(0, |position| {
            // The record's position is that of the blank lines before it.
            let before = text.as_bytes().iter().skip(position.byte() as usize).take_while(|byte| **byte == b'\n');
            position.line() + before.count() as u64
        });
        is_long = record.iter().any(|field| field.contains('\n'));
        last_line = line;
        if columns.is_empty() {
            columns = record.iter().map(|name| name.trim().to_owned()).collect();
            if columns.len() > MOST_COLUMNS {
                return Err(vec![too_wide()]);
            }
            continue;
        }
        if record.len() != columns.len() {
            let (values, names) = (counted(record.len(), "value"), counted(columns.len(), "name"));
            let what = format!("it has {values}, and the first line has {names}");
            problems.push(Problem::at(format!("line {line}"), "", what));
            continue;
        }
        rows.push(Row { place: format!("line {line}"), fields: record.iter().map(Field::of_text).collect() });
    }
    if is_long && has_open_quote(text) {
        // An open quote has taken in the rest of the file.
        problems = vec![Problem::at(format!("line {last_line}"), "", "a quote is opened and not closed")];
    }
    if problems.is_empty() { Ok(ForeignTable { format: "CSV", columns, rows }) } else { Err(problems) }
}

/// The sign that separates the names in the first line: the most frequent of the usual ones.
fn delimiter(line: &str) -> u8 {
    let count = |sign: u8| line.bytes().filter(|byte| *byte == sign).count();
    // Of equally frequent signs, the first one counts.
    [b',', b';', b'\t'].into_iter().rev().max_by_key(|sign| count(*sign)).unwrap_or(b',')
}

/// Whether the text has an odd number of quotes. One of them is then not closed, because quotes within quotes are
/// doubled.
fn has_open_quote(text: &str) -> bool {
    text.bytes().filter(|byte| *byte == b'"').count() % 2 == 1
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_one_value_is_told_in_the_singular() {
        let problems = read("a,b\n1\n1,2,3\n").unwrap_err();
        let texts: Vec<String> = problems.iter().map(|problem| problem.what.clone()).collect();
        let expected =
            ["it has 1 value, and the first line has 2 names", "it has 3 values, and the first line has 2 names"];
        assert_eq!(texts, expected);
        let places = |text| read(text).unwrap_err().iter().map(|problem| problem.place.clone()).collect::<Vec<_>>();
        assert_eq!(places("\na,b\n1,2\n\n\n1\n1,2\n\n1\n"), ["line 6", "line 9"], "blank lines count");
    }
}
