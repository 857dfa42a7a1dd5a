//! A table as Markdown (GitHub's pipe tables).

use super::number::markdown as number;
use super::{CellValue, Column, Row, Table};
use crate::analysis::Value;

/// Writes the table and its notes as a list.
pub(super) fn render(table: &Table) -> String {
    let marks = table.rows.iter().any(|row| !row.marks.is_empty());
    let mut head: Vec<String> = table.columns.iter().map(heading).collect();
    let mut rule: Vec<&str> = (0..head.len()).map(|index| if table.is_text(index) { "---" } else { "---:" }).collect();
    if marks {
        head.push("Marks".to_owned());
        rule.push("---");
    }
    let mut text = line(&head) + &format!("|{}|\n", rule.join("|"));
    for row in &table.rows {
        let mut cells: Vec<String> = table.columns.iter().zip(&row.values).map(|pair| cell(row, pair)).collect();
        if marks {
            cells.push(escape(&row.marks.join(", ")));
        }
        text += &line(&cells);
    }
    text.push('\n');
    for note in &table.notes {
        text += &format!("- {}\n", escape(note));
    }
    text
}

fn line(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

fn heading(column: &Column) -> String {
    let unit = if column.shown_unit.is_empty() { String::new() } else { format!(" ({})", column.shown_unit) };
    escape(&format!("{}{unit}", column.name))
}

fn cell(row: &Row, (column, value): (&Column, &CellValue)) -> String {
    match value {
        CellValue::Level(level) => escape(&level.to_string()),
        CellValue::Count(count) => count.to_string(),
        CellValue::Text(text) => escape(text),
        CellValue::Verdict(judged) => escape(&judged.to_string()),
        CellValue::Measure(value) => measured(row, column, value),
        CellValue::Missing => "—".to_owned(),
    }
}

fn measured(row: &Row, column: &Column, value: &Value) -> String {
    let shown = |value: f64| number(value * column.shown_factor);
    let mut text = shown(value.median);
    if let Some(interval) = value.interval {
        text += &format!(" [{}, {}]", shown(interval.low), shown(interval.high));
    }
    if let Some(n) = row.other_n(value) {
        text += &format!(" (n = {n})");
    }
    text
}

/// Takes the meaning from characters that would make markup, and keeps everything on one line.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\r' => escaped.push(' '),
            '\\' | '|' | '*' | '`' | '<' | '[' | ']' => escaped.extend(['\\', character]),
            _ => escaped.push(character),
        }
    }
    escaped
}
