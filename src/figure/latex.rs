//! A table as LaTeX for papers: booktabs rules, siunitx numbers.

use super::number::significant;
use super::{CellValue, Column, Row, Table};

/// Writes a `tabular` and its notes as small paragraphs; a first comment names the packages.
pub(super) fn render(table: &Table) -> String {
    let marks = table.rows.iter().any(|row| !row.marks.is_empty());
    let mut head: Vec<String> = table.columns.iter().map(heading).collect();
    let mut align: String = (0..head.len()).map(|index| if table.is_text(index) { 'l' } else { 'r' }).collect();
    if marks {
        head.push("Marks".to_owned());
        align.push('l');
    }
    let mut text = String::from("% \\usepackage{booktabs, siunitx}\n");
    text += &format!("\\begin{{tabular}}{{{align}}}\n\\toprule\n{} \\\\\n\\midrule\n", head.join(" & "));
    for row in &table.rows {
        let mut cells: Vec<String> = table.columns.iter().zip(&row.values).map(|pair| cell(row, pair)).collect();
        if marks {
            cells.push(escape(&row.marks.join(", ")));
        }
        text += &format!("{} \\\\\n", cells.join(" & "));
    }
    text += "\\bottomrule\n\\end{tabular}\n";
    for note in &table.notes {
        text += &format!("\\par{{\\footnotesize {}\\par}}\n", escape(note));
    }
    text
}

fn heading(column: &Column) -> String {
    let unit = match column.shown_unit.as_str() {
        "" => return escape(&column.name),
        "s" => "\\unit{\\second}".to_owned(),
        "images/s" => "images\\,\\unit{\\per\\second}".to_owned(),
        "GB" => "\\unit{\\giga\\byte}".to_owned(),
        "J" => "\\unit{\\joule}".to_owned(),
        other => escape(other),
    };
    // The unit below the name: a table of many measures then fits on a page.
    format!("\\shortstack[r]{{{}\\\\({unit})}}", escape(&column.name))
}

fn cell(row: &Row, (column, value): (&Column, &CellValue)) -> String {
    let value = match value {
        CellValue::Level(level) => return escape(&level.to_string()),
        CellValue::Count(count) => return format!("\\num{{{count}}}"),
        CellValue::Text(text) => return escape(text),
        CellValue::Verdict(judged) => return escape(&judged.to_string()),
        CellValue::Missing => return "--".to_owned(),
        CellValue::Measure(value) => value,
    };
    let shown = |value: f64| format!("\\num{{{}}}", significant(value * column.shown_factor));
    let mut text = shown(value.median);
    if let Some(interval) = value.interval {
        text += &format!(" [{}, {}]", shown(interval.low), shown(interval.high));
    }
    if let Some(n) = row.other_n(value) {
        text += &format!(" ($n = {n}$)");
    }
    text
}

/// Takes the meaning from characters that LaTeX would act on, and keeps everything on one line.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '%' | '_' | '&' | '#' | '$' | '{' | '}' => escaped.extend(['\\', character]),
            '\\' => escaped += "\\textbackslash{}",
            '~' => escaped += "\\textasciitilde{}",
            '^' => escaped += "\\textasciicircum{}",
            '<' => escaped += "\\textless{}",
            '>' => escaped += "\\textgreater{}",
            '×' => escaped += "$\\times$",
            '\n' | '\r' => escaped.push(' '),
            _ => escaped.push(character),
        }
    }
    escaped
}
