//! The table that explains the difference between the steps of two groups of recordings.

use super::table::{CellValue, Column, Row, Table};
use crate::analysis::{Method, Value, WorkChange, WorkDifference, counted};

/// The most parts that a table for readers shows; the rest is one row.
const MOST_PARTS: usize = 25;

/// The comparison as a table: the step first, then its parts, the largest difference first. `all` parts, or those that matter most and the
/// sum of the rest. `title` says what is compared.
pub fn work_table(found: &WorkDifference, title: &str, all: bool) -> Table {
    let ms = |key: &str, name: &str| Column {
        shown_unit: "ms".to_owned(),
        shown_factor: 1e3,
        is_measure: true,
        ..Column::plain(key, name, "s")
    };
    let share = Column {
        shown_unit: "%".to_owned(),
        shown_factor: 100.0,
        is_measure: true,
        ..Column::plain("share", "Explains", "")
    };
    let calls = |key: &str, name: &str| Column { is_measure: true, ..Column::plain(key, name, "") };
    let columns = vec![
        Column::plain("part", "Part of a step", ""),
        calls("calls_before", "Calls, before"),
        calls("calls_after", "Calls, after"),
        ms("before", "Before"),
        ms("after", "After"),
        ms("difference", "After − before"),
        share,
        Column::plain("verdict", "Verdict", ""),
    ];
    let runs = found.recordings.0 + found.recordings.1;
    let shown = if all { found.parts.len() } else { found.parts.len().min(MOST_PARTS) };
    let parts = std::iter::once(&found.step).chain(&found.parts[..shown]);
    let mut rows: Vec<Row> = parts.map(|part| row(part, runs)).collect();
    rows.extend(rest(&found.parts[shown..], runs));
    let notes = vec![
        format!(
            "{title}: {} before, {} after; means over recordings, for each step and rank; all parts together are the step's difference",
            counted(found.recordings.0, "recording"),
            counted(found.recordings.1, "recording")
        ),
        "intervals: 95 % by Welch's t; verdicts: 5 % for all parts together, by Holm's correction".to_owned(),
        "steps of recorded runs: recording makes steps longer, by the same amount on both sides if both were recorded in the same way"
            .to_owned(),
    ];
    Table { study: "diff-kernels".to_owned(), columns, rows, lead: notes.clone(), notes }
}

fn row(part: &WorkChange, runs: usize) -> Row {
    let calls = |calls: Option<f64>| calls.map_or(CellValue::Missing, |calls| number(calls, runs));
    let values = vec![
        CellValue::Text(part.name.clone()),
        calls(part.calls.map(|calls| calls.0)),
        calls(part.calls.map(|calls| calls.1)),
        number(part.means_s.0, runs),
        number(part.means_s.1, runs),
        CellValue::Measure(part.difference_s),
        part.share.map_or(CellValue::Missing, |share| number(share, runs)),
        CellValue::Text(part.verdict.name().to_owned()),
    ];
    Row::of_no_cell(runs, values)
}

/// The sum of the parts that are not shown.
fn rest(parts: &[WorkChange], runs: usize) -> Option<Row> {
    if parts.is_empty() {
        return None;
    }
    let sum = |value: &dyn Fn(&WorkChange) -> f64| number(parts.iter().map(value).sum(), runs);
    let values = vec![
        CellValue::Text(format!("({})", counted(parts.len(), "further part"))),
        CellValue::Missing,
        CellValue::Missing,
        sum(&|part| part.means_s.0),
        sum(&|part| part.means_s.1),
        sum(&|part| part.difference_s.median),
        sum(&|part| part.share.unwrap_or_default()),
        CellValue::Missing,
    ];
    Some(Row::of_no_cell(runs, values))
}

fn number(value: f64, n: usize) -> CellValue {
    CellValue::Measure(Value { median: value, interval: None, n, method: Method::One })
}
