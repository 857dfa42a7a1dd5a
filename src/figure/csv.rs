//! A table as CSV: all digits, and one column for each part of a value.

use super::study::is_verdict;
use super::{CellValue, Table};
use crate::analysis::{Incomparable, Level, setting_key};
use crate::plan::{factor_name, number_text};
use crate::text_table::{Field, TextTable};

/// The parts of a verdict besides its name.
const VERDICT_PARTS: [&str; 6] = ["p", "p_holm", "detectable", "equal_within", "reason", "check"];

fn level_field(level: &Level) -> Field {
    level.as_text().map_or_else(|| Field::Ready(level.to_string()), Field::from)
}

fn number(number: Option<f64>) -> Field {
    Field::Ready(number.map_or(String::new(), number_text))
}

/// Writes the cell's id, its data set and every factor, then counts and measures, then marks.
pub(super) fn render(table: &Table) -> String {
    let mut factors: Vec<&str> = Vec::new();
    for (key, _) in table.rows.iter().flat_map(|row| row.levels.iter()) {
        if !factors.contains(&&**key) {
            factors.push(key);
        }
    }
    let is_level = |key: &str| ["cell", "data"].contains(&setting_key(key)) || factors.contains(&key);
    // Effects and claims do not belong to a single cell.
    let of_cells = table.rows.iter().any(|row| !row.cell.is_empty());
    let mut head: Vec<String> = if of_cells { vec!["cell".to_owned(), "data".to_owned()] } else { Vec::new() };
    // A factor of a user's program may have the key of a column.
    let named =
        |key: &&str| if of_cells && ["cell", "data"].contains(key) { factor_name(key) } else { (*key).to_owned() };
    head.extend(factors.iter().map(named));
    for column in table.columns.iter().filter(|column| !is_level(&column.key)) {
        if column.is_measure {
            head.extend(["median", "low", "high", "n", "method"].map(|part| format!("{}_{part}", column.key)));
        } else {
            head.push(column.key.to_string());
            if is_verdict(&column.key) {
                head.extend(VERDICT_PARTS.map(|part| format!("{}_{part}", column.key)));
            }
        }
    }
    if of_cells {
        head.push("marks".to_owned());
    }
    let mut text = TextTable::new("", head);
    for row in &table.rows {
        let mut fields: Vec<Field> = Vec::new();
        if of_cells {
            fields.extend([row.cell.as_str().into(), row.data.as_str().into()]);
        }
        fields.extend(factors.iter().map(|key| row.levels.get(key).map_or_else(|| "".into(), level_field)));
        for (column, value) in table.columns.iter().zip(&row.values).filter(|pair| !is_level(&pair.0.key)) {
            match value {
                CellValue::Level(level) => fields.push(level_field(level)),
                CellValue::Count(count) => fields.push((*count).into()),
                CellValue::Text(text) => fields.push(text.as_str().into()),
                CellValue::Verdict(judged) => {
                    fields.push(judged.verdict.name().into());
                    fields.extend([judged.p, judged.p_holm, judged.detectable, Some(judged.equal_within)].map(number));
                    let reason = judged.reason.as_ref().map_or("", Incomparable::name);
                    fields.extend([reason.into(), judged.check.name().into()]);
                }
                CellValue::Measure(value) => {
                    let ends = value.interval.map(|interval| (interval.low, interval.high)).unzip();
                    fields.extend([Some(value.median), ends.0, ends.1].map(number));
                    fields.extend([value.n.into(), value.method.name().into()]);
                }
                CellValue::Missing => {
                    let parts = match column {
                        _ if column.is_measure => 5,
                        _ if is_verdict(&column.key) => 1 + VERDICT_PARTS.len(),
                        _ => 1,
                    };
                    fields.extend(std::iter::repeat_n(Field::from(""), parts));
                }
            }
        }
        if of_cells {
            fields.push(row.marks.join("; ").into());
        }
        text.row(fields);
    }
    text.csv()
}
