//! Writes a table as text.

use strum::{EnumMessage, VariantArray};

use super::number::{markdown as markdown_number, significant};
use super::{CellValue, Column, Row, Table, csv, json};
use crate::text_table::{Field, TextTable, latex_prose, latex_text, markdown_prose};

/// The format of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, VariantArray)]
pub enum Format {
    /// Markdown, for reading: three significant digits, intervals in brackets.
    #[strum(serialize = "md")]
    Markdown,
    /// CSV with all digits, and separate columns for units and intervals.
    #[strum(serialize = "csv")]
    Csv,
    /// LaTeX with booktabs and siunitx.
    #[strum(serialize = "latex")]
    Latex,
    /// JSON, with all digits.
    #[strum(serialize = "json")]
    Json,
}

/// Writes a table; the text ends with a newline.
pub fn render(table: &Table, format: Format) -> String {
    match format {
        Format::Markdown => markdown(&table.for_reading()),
        Format::Csv => csv::render(table),
        Format::Latex => latex(&table.for_reading()),
        Format::Json => json::render(table),
    }
}

/// How a format for readers writes values that are not text.
struct Notation {
    heading: fn(&Column) -> Field,
    number: fn(f64) -> String,
    count: fn(u64) -> String,
    /// The number of repeats of a value, if it differs from that of its row.
    n: fn(usize) -> String,
    missing: &'static str,
}

/// The form of tables on a screen.
const PLAIN: Notation = Notation {
    heading: |column| match column.shown_unit.as_str() {
        "" => Field::Text(column.name.clone()),
        unit => Field::Text(format!("{} ({unit})", column.name)),
    },
    number: markdown_number,
    count: |count| count.to_string(),
    n: |n| format!("n = {n}"),
    missing: "—",
};

/// Writes a table for a page of HTML, without its notes.
pub fn html(table: &Table) -> String {
    text_table(&table.for_reading(), &PLAIN).html()
}

/// Writes the table, and its notes as a list.
fn markdown(table: &Table) -> String {
    let notes = table.notes.iter().map(|note| format!("- {}\n", markdown_prose(note)));
    format!("{}\n{}", text_table(table, &PLAIN).markdown(), notes.collect::<String>())
}

/// Writes a `tabular`, and its notes as small paragraphs. A comment at the top names the required packages.
fn latex(table: &Table) -> String {
    let notation = Notation {
        heading: latex_heading,
        number: |value| format!("\\num{{{}}}", significant(value)),
        count: |count| format!("\\num{{{count}}}"),
        n: |n| format!("$n = {n}$"),
        missing: "--",
    };
    let notes = table.notes.iter().map(|note| format!("\\par{{\\footnotesize {}\\par}}\n", latex_prose(note)));
    let tabular = text_table(table, &notation).latex();
    format!("% \\usepackage{{booktabs, siunitx}}\n{tabular}{}", notes.collect::<String>())
}

fn latex_heading(column: &Column) -> Field {
    let unit = match column.shown_unit.as_str() {
        "" => return column.name.as_str().into(),
        "s" => "\\unit{\\second}".to_owned(),
        "images/s" => "images\\,\\unit{\\per\\second}".to_owned(),
        "GB" => "\\unit{\\giga\\byte}".to_owned(),
        "J" => "\\unit{\\joule}".to_owned(),
        other => latex_text(other),
    };
    // The unit is below the name, so that a table of many measures fits on a page.
    Field::Ready(format!("\\shortstack[r]{{{}\\\\({unit})}}", latex_text(&column.name)))
}

fn text_table(table: &Table, notation: &Notation) -> TextTable {
    let has_marks = table.rows.iter().any(|row| !row.marks.is_empty());
    let mut sides: String =
        (0..table.columns.len()).map(|column| if table.is_text(column) { 'l' } else { 'r' }).collect();
    let mut head: Vec<Field> = table.columns.iter().map(notation.heading).collect();
    if has_marks {
        sides.push('l');
        head.push("Marks".into());
    }
    let mut text = TextTable::new(sides, head);
    for row in &table.rows {
        let fields = table.columns.iter().zip(&row.values).map(|(column, value)| field(row, column, value, notation));
        text.row(fields.chain(has_marks.then(|| row.marks.join(", ").into())));
    }
    text
}

fn field(row: &Row, column: &Column, value: &CellValue, notation: &Notation) -> Field {
    let value = match value {
        CellValue::Level(level) => return level.to_string().into(),
        CellValue::Text(text) => return text.as_str().into(),
        CellValue::Verdict(judged) => return judged.to_string().into(),
        CellValue::Count(count) => return Field::Ready((notation.count)(*count)),
        CellValue::Missing => return Field::Ready(notation.missing.to_owned()),
        CellValue::Measure(value) => value,
    };
    let shown = |value: f64| (notation.number)(value * column.shown_factor);
    let mut text = shown(value.median);
    if let Some(interval) = value.interval {
        text += &format!(" [{}, {}]", shown(interval.low), shown(interval.high));
    }
    if let Some(n) = row.other_n(value) {
        text += &format!(" ({})", (notation.n)(n));
    }
    Field::Ready(text)
}

#[cfg(test)]
#[path = "render_tests.rs"]
mod tests;
