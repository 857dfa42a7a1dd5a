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
    /// The number of repeats of a value, if it differs from the number of its row.
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

/// The form of tables in LaTeX.
const LATEX: Notation = Notation {
    heading: latex_heading,
    number: |value| format!("\\num{{{}}}", significant(value)),
    count: |count| format!("\\num{{{count}}}"),
    n: |n| format!("$n = {n}$"),
    missing: "--",
};

/// Writes a table for a page of HTML, without its notes.
pub fn html(table: &Table) -> String {
    text_table(&table.for_reading(), &PLAIN).html()
}

/// Writes the table, and its notes as a list. Without rows, the notes say why there are none.
fn markdown(table: &Table) -> String {
    let notes: String = table.notes.iter().map(|note| format!("- {}\n", markdown_prose(note))).collect();
    if table.rows.is_empty() {
        return notes;
    }
    format!("{}\n{notes}", text_table(table, &PLAIN).markdown())
}

/// Writes a `tabular`, and its notes as small paragraphs. A comment at the top names the required packages.
fn latex(table: &Table) -> String {
    let notes = table.notes.iter().map(|note| format!("\\par{{\\footnotesize {}\\par}}\n", latex_prose(note)));
    let tabular = text_table(table, &LATEX).latex();
    format!("% \\usepackage{{booktabs, siunitx}}\n{tabular}{}", notes.collect::<String>())
}

/// A table without its notes as one or more tables whose fields are LaTeX. A line of each takes about `characters` characters at most;
/// wider tables are split, and each part begins with the columns of levels and counts.
pub fn latex_parts(table: &Table, characters: usize) -> Vec<TextTable> {
    let table = table.for_reading();
    let read = text_table(&table, &PLAIN);
    let is_key = |column: &&Column| !column.is_measure;
    let keys = table.columns.iter().take_while(is_key).count();
    let width = |column: usize| {
        let heading = heading_lines(&table.columns[column].name).iter().map(|line| line.chars().count()).max();
        read.wrapped_width(column).max(heading.unwrap_or(0)) + BETWEEN
    };
    let key_width: usize = (0..keys).map(width).sum();
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut used = characters;
    for column in keys..table.columns.len() {
        let follows = matches!(parts.last(), Some(part) if !table.columns[column].is_measure && !part.is_empty());
        if !follows && used + width(column) > characters {
            parts.push(Vec::new());
            used = key_width;
        }
        used += width(column);
        if let Some(part) = parts.last_mut() {
            part.push(column);
        }
    }
    let last = parts.len().saturating_sub(1);
    let part = |(place, columns): (usize, Vec<usize>)| {
        let columns: Vec<usize> = (0..keys).chain(columns).collect();
        let mut part = Table { notes: Vec::new(), lead: Vec::new(), ..table.clone() };
        part.columns = columns.iter().map(|column| table.columns[*column].clone()).collect();
        for row in &mut part.rows {
            row.values = columns.iter().map(|column| row.values[*column].clone()).collect();
            if place < last {
                row.marks.clear();
            }
        }
        text_table(&part, &LATEX)
    };
    parts.into_iter().enumerate().map(part).collect()
}

/// Space between two columns, in characters.
const BETWEEN: usize = 2;

/// A heading on one line, or a long one on two.
fn heading_lines(name: &str) -> Vec<&str> {
    const LONG: usize = 14;
    let middle = name.len() / 2;
    let space = name.match_indices(' ').map(|(place, _)| place).min_by_key(|place| place.abs_diff(middle));
    match space {
        Some(space) if name.chars().count() > LONG => vec![&name[..space], &name[space + 1..]],
        _ => vec![name],
    }
}

fn latex_heading(column: &Column) -> Field {
    let mut lines: Vec<String> = heading_lines(&column.name).into_iter().map(latex_text).collect();
    let unit = match column.shown_unit.as_str() {
        "" if lines.len() == 1 => return column.name.as_str().into(),
        "" => String::new(),
        "s" => "\\unit{\\second}".to_owned(),
        "ms" => "\\unit{\\milli\\second}".to_owned(),
        "µs" => "\\unit{\\micro\\second}".to_owned(),
        "h" => "\\unit{\\hour}".to_owned(),
        "images/s" => "images\\,\\unit{\\per\\second}".to_owned(),
        "GB" => "\\unit{\\giga\\byte}".to_owned(),
        "J" => "\\unit{\\joule}".to_owned(),
        other => latex_text(other),
    };
    if !unit.is_empty() {
        lines.push(format!("({unit})"));
    }
    // Names are on two lines with units below them, so that a table of many measures fits on a page.
    Field::Ready(format!("\\shortstack[r]{{{}}}", lines.join("\\\\")))
}

fn text_table(table: &Table, notation: &Notation) -> TextTable {
    let has_marks = table.rows.iter().any(|row| !row.shown_marks().is_empty());
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
        text.row(fields.chain(has_marks.then(|| row.shown_marks().join(", ").into())));
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
