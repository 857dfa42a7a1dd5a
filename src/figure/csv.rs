//! A table as CSV (RFC 4180 with plain newlines): full precision, one column for each part of a value.

use super::study::is_verdict;
use super::{CellValue, Table};
use crate::analysis::Level;
use crate::foreign;
use crate::plan::number_text;

/// Text as a field of a CSV file. A spreadsheet would compute a text that begins with `=`, `+`, `-` or `@`: an apostrophe before it
/// keeps it text.
pub fn csv_text(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = foreign::printable(text);
    quote(&if is_formula { format!("'{text}") } else { text.into_owned() })
}

fn csv_level(level: &Level) -> String {
    level.as_text().map_or_else(|| level.to_string(), csv_text)
}

/// Writes the cell's id, data set and every factor, then the counts and measures, then the marks.
pub(super) fn render(table: &Table) -> String {
    let mut factors: Vec<&str> = Vec::new();
    for (key, _) in table.rows.iter().flat_map(|row| row.levels.iter()) {
        if !factors.contains(&&**key) {
            factors.push(key);
        }
    }
    let is_level = |key: &str| ["cell", "data"].contains(&key) || factors.contains(&key);
    // Effects and claims are of no one cell.
    let of_cells = table.rows.iter().any(|row| !row.cell.is_empty());
    let mut head: Vec<String> = if of_cells { vec!["cell".to_owned(), "data".to_owned()] } else { Vec::new() };
    head.extend(factors.iter().map(ToString::to_string));
    for column in table.columns.iter().filter(|column| !is_level(&column.key)) {
        if column.is_measure {
            head.extend(["median", "low", "high", "n", "method"].map(|part| format!("{}_{part}", column.key)));
        } else {
            head.push(column.key.to_string());
            if is_verdict(&column.key) {
                let parts = ["p", "p_holm", "detectable", "equal_within"];
                head.extend(parts.map(|part| format!("{}_{part}", column.key)));
            }
        }
    }
    if of_cells {
        head.push("marks".to_owned());
    }
    let mut text = line(&head.iter().map(|name| csv_text(name)).collect::<Vec<_>>());
    for row in &table.rows {
        let mut fields = if of_cells { vec![csv_text(&row.cell), csv_text(&row.data)] } else { Vec::new() };
        fields.extend(factors.iter().map(|key| row.levels.get(key).map_or(String::new(), csv_level)));
        for (column, value) in table.columns.iter().zip(&row.values).filter(|pair| !is_level(&pair.0.key)) {
            match value {
                CellValue::Level(level) => fields.push(csv_level(level)),
                CellValue::Count(count) => fields.push(count.to_string()),
                CellValue::Text(text) => fields.push(csv_text(text)),
                CellValue::Verdict(judged) => {
                    let number = |number: Option<f64>| number.map_or(String::new(), number_text);
                    fields.push(judged.verdict.name().to_owned());
                    fields.extend([judged.p, judged.p_holm, judged.detectable, Some(judged.equal_within)].map(number));
                }
                CellValue::Measure(value) => {
                    let end = |end: Option<f64>| end.map_or(String::new(), number_text);
                    fields.push(number_text(value.median));
                    fields.push(end(value.interval.map(|interval| interval.low)));
                    fields.push(end(value.interval.map(|interval| interval.high)));
                    fields.push(value.n.to_string());
                    fields.push(value.method.name().to_owned());
                }
                CellValue::Missing => {
                    let parts = if column.is_measure || is_verdict(&column.key) { 5 } else { 1 };
                    fields.extend(std::iter::repeat_n(String::new(), parts));
                }
            }
        }
        if of_cells {
            fields.push(csv_text(&row.marks.join("; ")));
        }
        text += &line(&fields);
    }
    text
}

fn line(fields: &[String]) -> String {
    fields.join(",") + "\n"
}

fn quote(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::csv_text;

    #[test]
    fn escapes_of_terminals_are_written_out() {
        assert_eq!(csv_text("\u{1b}[31mred\u{202e}"), "\\u001b[31mred\\u202e");
    }

    #[test]
    fn text_that_a_spreadsheet_would_compute_stays_text() {
        let written = ["fp16", "=1+2", "+1", "-fast", "@sum", "a,b", "=\"x\"", ""].map(csv_text);
        assert_eq!(written, ["fp16", "'=1+2", "'+1", "'-fast", "'@sum", "\"a,b\"", "\"'=\"\"x\"\"\"", ""]);
    }
}
