//! A table as JSON: the format of `multicard table --format json`, which stays stable.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::{CellValue, Row, Table};
use crate::analysis::{Judgement, setting_key};

/// Writes the table; numbers are in the columns' units with full precision.
pub(super) fn render(table: &Table) -> String {
    let columns = table.columns.iter().map(|column| JsonColumn { key: &column.key, unit: &column.unit }).collect();
    let rows = table.rows.iter().map(|row| JsonRow { table, row }).collect();
    let whole = JsonTable { preset: &table.study, columns, rows, notes: &table.notes };
    // Keys are text and numbers are finite, so writing cannot fail.
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
    /// The key and the sentence of the reason why the cells cannot be compared.
    reason: Option<(&'a str, String)>,
    p: Option<f64>,
    p_holm: Option<f64>,
    detectable: Option<f64>,
    equal_within: f64,
    n: usize,
    least_n: usize,
    to_come: usize,
    family: usize,
    looks: u32,
    gap_s: Option<f64>,
    check: &'a str,
    check_words: String,
    repeats_needed: Option<u32>,
}

impl<'a> From<&'a Judgement> for JsonVerdict<'a> {
    fn from(judged: &'a Judgement) -> Self {
        Self {
            verdict: judged.verdict.name(),
            reason: judged.reason.as_ref().map(|reason| (reason.name(), reason.to_string())),
            p: judged.p,
            p_holm: judged.p_holm,
            detectable: judged.detectable,
            equal_within: judged.equal_within,
            n: judged.n,
            least_n: judged.least,
            to_come: judged.to_come,
            family: judged.family,
            looks: judged.looks,
            gap_s: judged.gap_s,
            check: judged.check.name(),
            check_words: judged.check.to_string(),
            repeats_needed: judged.repeats_needed(),
        }
    }
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
        // An effect does not belong to a single cell.
        if !row.cell.is_empty() {
            map.serialize_entry("cell", &row.cell)?;
            map.serialize_entry("data", &row.data)?;
            map.serialize_entry("levels", &row.levels)?;
        }
        let is_told =
            |key: &str| ["session", "cell", "data"].contains(&setting_key(key)) || row.levels.get(key).is_some();
        for (column, value) in table.columns.iter().zip(&row.values) {
            match value {
                // Levels of factors are written together, including those that all rows share.
                CellValue::Level(_) if is_told(&column.key) => {}
                CellValue::Level(level) => map.serialize_entry(&column.key, level)?,
                CellValue::Text(text) => map.serialize_entry(&column.key, text)?,
                CellValue::Verdict(judged) => map.serialize_entry(&column.key, &JsonVerdict::from(judged.as_ref()))?,
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
