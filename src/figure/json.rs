//! A table as JSON: the form that `multicard table --format json` promises.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::{CellValue, Row, Table};
use crate::analysis::Judgement;

/// Writes the table; numbers are in the columns' units with full precision.
pub(super) fn render(table: &Table) -> String {
    let columns = table.columns.iter().map(|column| JsonColumn { key: &column.key, unit: &column.unit }).collect();
    let rows = table.rows.iter().map(|row| JsonRow { table, row }).collect();
    let whole = JsonTable { preset: &table.study, columns, rows, notes: &table.notes };
    // Keys are text and numbers finite, so that nothing here can fail to be written.
    serde_json::to_string_pretty(&whole).unwrap_or_default() + "\n"
}

#[derive(Serialize)]
struct JsonTable<'a> {
    preset: &'a str,
    columns: Vec<JsonColumn<'a>>,
    rows: Vec<JsonRow<'a>>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct JsonColumn<'a> {
    key: &'a str,
    unit: &'a str,
}

#[derive(Serialize)]
struct JsonValue<'a> {
    median: f64,
    low: Option<f64>,
    high: Option<f64>,
    n: usize,
    method: &'a str,
}

#[derive(Serialize)]
struct JsonVerdict<'a> {
    verdict: &'a str,
    p: Option<f64>,
    p_holm: Option<f64>,
    detectable: Option<f64>,
    equal_within: f64,
    n: usize,
}

struct JsonRow<'a> {
    table: &'a Table,
    row: &'a Row,
}

impl Serialize for JsonRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { table, row } = self;
        let mut map = serializer.serialize_map(None)?;
        if !row.session.is_empty() {
            map.serialize_entry("session", &row.session)?;
        }
        // An effect is of no one cell.
        if !row.cell.is_empty() {
            map.serialize_entry("cell", &row.cell)?;
            map.serialize_entry("data", &row.data)?;
            map.serialize_entry("levels", &row.levels)?;
        }
        let is_told = |key: &str| ["session", "cell", "data"].contains(&key) || row.levels.get(key).is_some();
        for (column, value) in table.columns.iter().zip(&row.values) {
            match value {
                // Levels of factors stand together, those that all rows share too.
                CellValue::Level(_) if is_told(&column.key) => {}
                CellValue::Level(level) => map.serialize_entry(&column.key, level)?,
                CellValue::Text(text) => map.serialize_entry(&column.key, text)?,
                CellValue::Verdict(judged) => {
                    let Judgement { p, p_holm, detectable, equal_within, n, .. } = *judged;
                    let verdict = judged.verdict.name();
                    let judged = JsonVerdict { verdict, p, p_holm, detectable, equal_within, n };
                    map.serialize_entry(&column.key, &judged)?;
                }
                CellValue::Count(count) => map.serialize_entry(&column.key, count)?,
                CellValue::Measure(value) => {
                    let (low, high) = value.interval.map(|interval| (interval.low, interval.high)).unzip();
                    let method = value.method.name();
                    let value = JsonValue { median: value.median, low, high, n: value.n, method };
                    map.serialize_entry(&column.key, &value)?;
                }
                CellValue::Missing => map.serialize_entry(&column.key, &None::<u64>)?,
            }
        }
        if !row.cell.is_empty() {
            map.serialize_entry("marks", &row.marks)?;
        }
        map.end()
    }
}
