//! Whether this version says of a session what 0.1 said: numbers and structure stay, words may change.

use std::collections::HashMap;

use serde_json::Value;

/// Columns whose values are ratios of two cells.
const RATIOS: [&str; 5] = ["speedup", "ratio", "speedup_over_1_gpu", "speedup_over_fp64", "speedup_over_pageable"];
/// Differences that are shown of one session.
const MOST_SHOWN: usize = 12;

/// Rows in the order of their cells and epochs.
fn by_cell(rows: &Value) -> Value {
    let mut rows = list(rows).to_vec();
    rows.sort_by_key(|row| (row["cell"].to_string(), row["epoch"].as_u64()));
    rows.into()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Whether a chart has the values of one epoch, which no line joins.
fn is_of_one_epoch(chart: &Value) -> bool {
    let points = list(&chart["points"]);
    !points.is_empty() && points.iter().all(|point| point["x"] == "1")
}

/// The same chart with a series for each of those that are joined because they are the same: `Peak allocated = Peak reserved`.
fn parted(chart: &Value) -> Value {
    let mut chart = chart.clone();
    let mut points: Vec<Value> = Vec::new();
    let series = |point: &Value| (point["panel"].to_string(), point["series"].to_string());
    for joined in list(&chart["points"]).chunk_by(|a, b| series(a) == series(b)) {
        for name in joined[0]["series"].as_str().unwrap_or_default().split(" = ") {
            points.extend(joined.iter().cloned().map(|mut point| {
                point["series"] = name.into();
                point
            }));
        }
    }
    if !points.is_empty() {
        chart["points"] = points.into();
    }
    chart
}

/// Two values side by side, with what differs so far.
#[derive(Default)]
pub struct Comparison {
    /// What differs so far, one line each.
    pub differences: Vec<String>,
    /// The word of this version that stands for each of 0.1.
    pub words: HashMap<String, String>,
}

impl Comparison {
    fn exact(&mut self, place: &str, expected: &Value, found: &Value) {
        if expected != found {
            self.differences.push(format!("{place}: {expected} became {found}"));
        }
    }

    /// A word may become another, but two stay two.
    fn word(&mut self, place: &str, expected: &Value, found: &Value) {
        let (Some(before), Some(after)) = (expected.as_str(), found.as_str()) else {
            return self.exact(place, expected, found);
        };
        if before.parse::<f64>().is_ok() {
            return self.exact(place, expected, found);
        }
        let mut known = self.words.iter();
        match known.find(|(other, word)| *other == before || *word == after) {
            None => drop(self.words.insert(before.to_owned(), after.to_owned())),
            Some((other, word)) if (other.as_str(), word.as_str()) == (before, after) => {}
            Some((other, word)) => {
                self.differences
                    .push(format!("{place}: {other:?} became {word:?} elsewhere, {before:?} {after:?} here"));
            }
        }
    }

    /// Lists of the same length, item by item.
    fn each(&mut self, place: &str, expected: &Value, found: &Value, item: fn(&mut Self, &str, &Value, &Value)) {
        let (Some(expected), Some(found)) = (expected.as_array(), found.as_array()) else {
            return self.exact(place, expected, found);
        };
        if expected.len() != found.len() {
            self.differences.push(format!("{place}: {} items became {}", expected.len(), found.len()));
        }
        for (at, (expected, found)) in expected.iter().zip(found).enumerate() {
            item(self, &format!("{place}[{at}]"), expected, found);
        }
    }

    fn table(&mut self, place: &str, expected: &Value, found: &Value) {
        self.exact(&format!("{place}.preset"), &expected["preset"], &found["preset"]);
        if expected["preset"] == "effects" {
            return;
        }
        let (columns, mut rest) = (list(&expected["columns"]), list(&found["columns"]).iter());
        if let Some(lost) = columns.iter().find(|column| !rest.any(|found| found == *column)) {
            self.differences.push(format!("{place}.columns: {lost} is gone"));
        }
        // Rows of a paper's table stand in the order of its levels, where 0.1 had its registry's.
        let is_of_paper = expected["preset"].as_str().is_some_and(|preset| preset.contains('/'));
        let [expected, found] = [&expected["rows"], &found["rows"]].map(|rows| match is_of_paper {
            true => by_cell(rows),
            false => rows.clone(),
        });
        self.each(&format!("{place}.rows"), &expected, &found, Self::row);
    }

    fn row(&mut self, place: &str, expected: &Value, found: &Value) {
        for (key, expected) in expected.as_object().unwrap() {
            let place = format!("{place}.{key}");
            match key.as_str() {
                // A factor that came later may stand among them.
                "levels" => {
                    for (key, level) in expected.as_object().unwrap() {
                        self.exact(&format!("{place}.{key}"), level, &found["levels"][key]);
                    }
                }
                // A mark is a sentence.
                "marks" => self.each(&place, expected, &found[key], |_, _, _, _| {}),
                "data" => self.word(&place, expected, &found[key]),
                // Programs had no verdicts by time then.
                "verdict" if expected.is_null() => {}
                // What corrections leave of a probability, and what would show, are defined anew.
                "verdict" => {
                    for key in ["verdict", "p", "n", "equal_within"] {
                        self.exact(&format!("{place}.{key}"), &expected[key], &found["verdict"][key]);
                    }
                }
                // By total times then, by training times now.
                key if key.starts_with("speedup_over_") => {}
                _ if expected["method"].is_string() => {
                    self.value(&place, expected, &found[key], RATIOS.contains(&key.as_str()));
                }
                _ => self.exact(&place, expected, &found[key]),
            }
        }
    }

    /// A measure over repeats.
    fn value(&mut self, place: &str, expected: &Value, found: &Value, is_ratio: bool) {
        if is_ratio && expected["n"] != 1 {
            return self.exact(place, &found["median"].is_number().into(), &true.into());
        }
        let is_bootstrap = expected["method"] == "bca";
        for key in ["median", "low", "high", "n"] {
            if !is_bootstrap || !["low", "high"].contains(&key) {
                self.exact(&format!("{place}.{key}"), &expected[key], &found[key]);
            }
        }
        let method = if is_bootstrap { "order_statistics".into() } else { expected["method"].clone() };
        self.exact(&format!("{place}.method"), &method, &found["method"]);
    }

    fn chart(&mut self, place: &str, expected: &Value, found: &Value) {
        let y = found["y"].as_str().unwrap_or_default();
        // Means of one rank's same steps now; 0.1 took a mean wait of all ranks from a median step.
        if found["points"][0]["series"] == "Host waits for data" {
            return;
        }
        // A point of each cell then; now it is drawn over steps, or said.
        let is_by_step = ["Step", "Iteration"].iter().any(|step| found["x"] == **step);
        let is_said = found["x"] == "Epoch" && list(&found["points"]).is_empty();
        if is_of_one_epoch(expected) && (is_by_step || is_said) {
            return;
        }
        let found = &parted(found);
        let is_ratio = y.ends_with("(×)") || y.starts_with("Efficiency");
        let point = if is_ratio { |_: &mut Self, _: &str, _: &Value, _: &Value| {} } else { Self::point };
        self.each(&format!("{place}.points"), &expected["points"], &found["points"], point);
    }

    fn point(&mut self, place: &str, expected: &Value, found: &Value) {
        let n = expected["n"].as_u64().unwrap_or(0);
        for (key, expected) in expected.as_object().unwrap() {
            if key == "ratio" && n > 1 || ["low", "high"].contains(&key.as_str()) && n >= 6 {
                continue;
            }
            self.word(&format!("{place}.{key}"), expected, &found[key]);
        }
    }

    /// What a table or a figure holds.
    pub fn whole(&mut self, place: &str, expected: &Value, found: &Value) {
        let was_drawn = list(&expected["drawn"]);
        if found.is_null() && !was_drawn.is_empty() && was_drawn.iter().all(is_of_one_epoch) {
            return;
        }
        if expected.get("table").is_some() != found.get("table").is_some() {
            let shown = |value: &Value| if value.get("table").is_some() { "something" } else { "nothing" };
            self.differences.push(format!("{place}: {} to show became {}", shown(expected), shown(found)));
            return;
        }
        if expected.get("table").is_some() {
            self.table(&format!("{place}: table"), &expected["table"], &found["table"]);
        }
        if expected.get("drawn").is_some() {
            self.exact(&format!("{place}: cells"), &expected["cells"], &found["cells"]);
            self.each(&format!("{place}: drawn"), &expected["drawn"], &found["drawn"], Self::chart);
        }
    }

    /// What differs, where anything does.
    pub fn verdict(&self) -> Option<String> {
        let shown: Vec<&str> = self.differences.iter().take(MOST_SHOWN).map(String::as_str).collect();
        let more = self.differences.len().saturating_sub(MOST_SHOWN);
        let more = if more > 0 { format!("\n… and {more} more") } else { String::new() };
        (!shown.is_empty()).then(|| shown.join("\n") + &more)
    }
}

#[test]
fn a_changed_number_and_a_changed_structure_are_noticed_and_a_changed_word_is_not() {
    let point = |series: &str, value: f64| serde_json::json!({ "series": series, "x": "fp32", "value": value });
    let figure = |points: &[Value], marks: &[&str]| {
        let row =
            serde_json::json!({ "cell": "a", "levels": { "gpus": 1 }, "step_time_s": { "n": 2 }, "marks": marks });
        serde_json::json!({
            "table": { "preset": "times", "columns": [], "rows": [row] },
            "cells": [],
            "drawn": [{ "title": "t", "points": points }],
        })
    };
    let before = figure(&[point("a", 1.0), point("b", 2.0)], &["alone"]);
    let compare = |after: &Value| {
        let mut comparison = Comparison::default();
        comparison.whole("", &before, after);
        comparison.differences.len()
    };
    assert_eq!(compare(&figure(&[point("A", 1.0), point("B", 2.0)], &["by itself"])), 0);
    assert_eq!(compare(&figure(&[point("a", 1.0), point("b", 2.0 + f64::EPSILON * 2.0)], &["alone"])), 1);
    assert_eq!(compare(&figure(&[point("a", 1.0), point("a", 2.0)], &["alone"])), 1);
    assert_eq!(compare(&figure(&[point("a", 1.0)], &["alone"])), 1);
    assert_eq!(compare(&figure(&[point("a", 1.0), point("b", 2.0)], &[])), 1);
    assert_eq!(compare(&Value::Null), 1);
}
