//! The contents of a table of cells: its columns, a text for each place, and the order of its rows.

use std::cell::RefCell;
use std::cmp::Ordering;

use crate::app::columns::Named;
use crate::app::value_text;
use crate::figure::{CellValue, Column, Row, SettingLevels, Table};
use crate::plan::{Key, Level};
use crate::store::shown_text;

/// Evidence on one factor from the finished runs of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Proof {
    /// The factor's key.
    pub factor: String,
    /// The requested level.
    pub asked: String,
    /// The level that was observed.
    pub seen: String,
    /// Whether the level was in effect in all runs and ranks.
    pub in_effect: bool,
}

impl Proof {
    /// The evidence in one line. A level that an anonymous archive left out is not named.
    pub fn line(&self) -> String {
        let sign = if self.in_effect { "✓" } else { "✗" };
        let level = if shown_text(&self.asked) == self.asked { format!(" = {}", self.asked) } else { String::new() };
        format!("{sign} {}{level}: {}", self.factor, shown_text(&self.seen))
    }
}

/// Content of a column of the table.
#[derive(Clone, Debug, PartialEq)]
pub enum Shown {
    /// The column with this index.
    Value(usize),
    /// The intervals of the column with this index.
    Interval(usize),
    /// Caveats.
    Marks,
    /// Evidence on factors.
    Proof,
}

/// Information about a table's rows that is in no column of values.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// Evidence by row; empty if the table does not show evidence.
    pub proofs: Vec<Vec<Proof>>,
    /// The full texts of the marks, by row. For a row without such texts, the marks are shown instead.
    pub stories: Vec<Vec<String>>,
    /// For each row whether its runs are quick.
    pub quick: Vec<bool>,
    /// The keys of the measures whose columns stand beside the verdict, because the work of cells is checked by them.
    pub checks: Vec<Key>,
}

/// The contents of a table of cells.
#[derive(Clone, Debug)]
pub struct CellTexts {
    /// The columns.
    pub columns: Vec<Shown>,
    /// Texts by row and column.
    pub texts: Vec<Vec<String>>,
    /// The columns without any value, if other columns have values.
    pub empty: Vec<usize>,
    /// The properties of each column's texts, so that a frame need not read all rows.
    pub shapes: Vec<ColumnShape>,
    /// For each row the number of characters of its longest text that may wrap.
    pub wrapping_chars: Vec<usize>,
    /// Information about the rows that is in no column of values.
    pub beside: Beside,
    /// The heights of the rows when they were last drawn.
    pub(super) heights: RefCell<Heights>,
}

/// The heights of all rows, and the values on which they depend besides the texts.
#[derive(Clone, Debug, Default)]
pub(super) struct Heights {
    /// The widths at which the columns' texts wrap, the pixels of a point, and the columns that are displayed.
    pub key: (Vec<f32>, f32, Vec<usize>),
    /// The height of each row, in the table's order.
    pub by_row: Vec<f32>,
}

/// Properties of a column's texts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ColumnShape {
    /// Whether texts may wrap.
    pub wraps: bool,
    /// Whether texts are aligned to the right, as numbers are.
    pub is_right: bool,
    /// The row of the text with the most characters.
    pub longest: usize,
    /// The row with the longest number of repeats behind its value, if there is one.
    pub longest_n: Option<usize>,
}

/// A table's order: a column's key, and whether it is descending.
pub type Sort = Option<(String, bool)>;

/// The next order after a click on a heading: ascending, then descending, then the table's own order.
pub fn next_sort(now: &Sort, column: String) -> Sort {
    match now {
        Some((known, false)) if *known == column => Some((column, true)),
        Some((known, true)) if *known == column => None,
        _ => Some((column, false)),
    }
}

impl CellTexts {
    /// The texts of a table. `has_interval` says which columns have a column of intervals beside them, if they have intervals.
    pub fn new(table: &Table, beside: Beside, has_interval: impl Fn(&Column) -> bool) -> Self {
        let columns = columns(table, &beside, has_interval);
        let text = |place: usize, row: &Row| {
            let proofs = beside.proofs.get(place).map_or(&[] as &[Proof], Vec::as_slice);
            columns.iter().map(|shown| text(&table.columns, row, proofs, shown)).collect()
        };
        let texts: Vec<Vec<String>> = table.rows.iter().enumerate().map(|(place, row)| text(place, row)).collect();
        let shapes: Vec<ColumnShape> =
            columns.iter().enumerate().map(|(place, shown)| shape(table, &texts, place, shown)).collect();
        let without_values = table.without_values();
        let is_empty = |shown: &Shown| matches!(shown, Shown::Value(place) if without_values.contains(place));
        let empty = (0..columns.len()).filter(|column| is_empty(&columns[*column])).collect();
        let wrapping_chars = texts.iter().map(|row| wrapping_chars(row, &shapes)).collect();
        Self { columns, texts, empty, shapes, wrapping_chars, beside, heights: RefCell::default() }
    }

    /// The columns by the names under which they are chosen and kept: the value's key, with the kind of information about the value.
    pub fn named(&self, table: &Table) -> Vec<Named> {
        let named = |shown: &Shown| match shown {
            Shown::Interval(place) => {
                let column = &table.columns[*place];
                (format!("interval of {}", column.key), format!("Interval of {}", column.name))
            }
            shown => (sort_key(table, shown).unwrap_or_default().to_owned(), column_name(table, shown)),
        };
        self.columns.iter().map(named).collect()
    }

    /// The rows sorted by a column, or in the table's order without one. Missing values always come last.
    pub fn order(&self, table: &Table, settings: &[SettingLevels], sort: &Sort) -> Vec<usize> {
        let mut order: Vec<usize> = (0..table.rows.len()).collect();
        let Some((key, descending)) = sort else { return order };
        let Some(shown) = self.columns.iter().find(|shown| sort_key(table, shown) == Some(key)) else { return order };
        order.sort_by(|a, b| {
            let (a, b) = (self.rank(table, settings, *a, shown), self.rank(table, settings, *b, shown));
            match (a, b) {
                (Some(a), Some(b)) if *descending => b.total_cmp(&a),
                (Some(a), Some(b)) => a.total_cmp(&b),
                (a, b) => b.is_some().cmp(&a.is_some()).then(Ordering::Equal),
            }
        });
        order
    }

    /// Sort key of a row.
    fn rank(&self, table: &Table, settings: &[SettingLevels], row: usize, shown: &Shown) -> Option<f64> {
        match shown {
            Shown::Value(column) | Shown::Interval(column) => match &table.rows[row].values[*column] {
                CellValue::Measure(value) => Some(value.median),
                CellValue::Count(count) => Some(*count as f64),
                CellValue::Level(level) => level_place(settings, &table.columns[*column].key, level),
                CellValue::Verdict(judged) => judged.p_holm,
                CellValue::Text(_) | CellValue::Missing => None,
            },
            Shown::Marks => Some(table.rows[row].marks.len() as f64),
            Shown::Proof => {
                let proofs = self.beside.proofs.get(row)?;
                Some(proofs.iter().filter(|proof| !proof.in_effect).count() as f64)
            }
        }
    }

    /// Whether a column shows whether cells did the same work: a check value, its interval, or evidence on factors.
    pub(super) fn is_check(&self, table: &Table, shown: &Shown) -> bool {
        match shown {
            Shown::Value(place) | Shown::Interval(place) => self.beside.checks.contains(&table.columns[*place].key),
            Shown::Proof => true,
            Shown::Marks => false,
        }
    }

    /// The column of the table whose values a column holds; `None` for columns that are not values.
    pub fn value(&self, column: usize) -> Option<usize> {
        match self.columns.get(column) {
            Some(Shown::Value(place)) => Some(*place),
            _ => None,
        }
    }

    /// The table with only its displayed columns, and with its rows in the displayed order.
    pub fn shown_table(&self, table: &Table, order: &[usize], columns: &[usize]) -> Table {
        let places: Vec<usize> = columns.iter().filter_map(|column| self.value(*column)).collect();
        let row =
            |row: &Row| Row { values: places.iter().map(|place| row.values[*place].clone()).collect(), ..row.clone() };
        Table {
            columns: places.iter().map(|place| table.columns[*place].clone()).collect(),
            rows: order.iter().filter_map(|place| table.rows.get(*place)).map(row).collect(),
            ..table.clone()
        }
    }
}

/// The key by which a column is sorted; `None` for intervals.
pub fn sort_key<'t>(table: &'t Table, shown: &Shown) -> Option<&'t str> {
    match shown {
        Shown::Value(column) => Some(&table.columns[*column].key),
        Shown::Interval(_) => None,
        Shown::Marks => Some("marks"),
        Shown::Proof => Some("proof"),
    }
}

/// The heading of a column, and the text below the heading: its unit.
pub(super) fn heading(table: &Table, shown: &Shown) -> (String, String) {
    match shown {
        Shown::Value(place) => {
            let column = &table.columns[*place];
            match column.name.split_once(" by ") {
                // The measure of a speed-up is written next to its unit: in the heading it would be the widest text of the column.
                Some((name, measure)) if column.is_measure => {
                    (name.to_owned(), format!("{} by {measure}", column.shown_unit))
                }
                _ => (column.name.clone(), column.shown_unit.clone()),
            }
        }
        Shown::Interval(_) => ("Interval".to_owned(), String::new()),
        Shown::Marks => ("Marks".to_owned(), String::new()),
        Shown::Proof => ("Proof".to_owned(), String::new()),
    }
}

/// The name of a column, with its unit.
pub(super) fn column_name(table: &Table, shown: &Shown) -> String {
    let (name, unit) = match shown {
        Shown::Value(place) => (table.columns[*place].name.clone(), table.columns[*place].shown_unit.clone()),
        shown => heading(table, shown),
    };
    if unit.is_empty() { name } else { format!("{name} ({unit})") }
}

/// Sort key of a level: numbers by value, names in the order of their registry.
fn level_place(settings: &[SettingLevels], key: &str, level: &Level) -> Option<f64> {
    let place = || {
        let settings = settings.iter().find(|levels| levels.setting.key == key)?;
        settings.levels.iter().position(|(known, _)| known == level).map(|place| place as f64)
    };
    level.as_number().or_else(place)
}

/// Levels, then what has to stay in sight: the ratio with its verdict, the values by which the work of cells is checked, and evidence on
/// factors; then all else. Intervals are beside their values, and marks are last, if there are any.
fn columns(table: &Table, beside: &Beside, has_interval: impl Fn(&Column) -> bool) -> Vec<Shown> {
    let is_there = |column: usize| {
        let has_interval =
            |row: &Row| matches!(&row.values[column], CellValue::Measure(value) if value.interval.is_some());
        table.rows.iter().any(has_interval)
    };
    let mut places: Vec<usize> = (0..table.columns.len()).collect();
    let levels = table.columns.iter().take_while(|column| is_level(column)).count();
    let mut in_sight = places.len();
    if let Some(verdict) = table.columns.iter().position(is_verdict).filter(|verdict| *verdict > levels) {
        // The ratio comes before its verdict.
        places[levels..=verdict].rotate_right(2);
        let is_check = |place: &usize| beside.checks.contains(&table.columns[*place].key);
        places[levels + 2..].sort_by_key(|place| !is_check(place));
        in_sight = levels + 2 + places[levels + 2..].iter().filter(|place| is_check(place)).count();
    }
    let mut columns = Vec::new();
    for (index, place) in places.iter().enumerate() {
        if index == in_sight && has_proofs(beside) {
            columns.push(Shown::Proof);
        }
        columns.push(Shown::Value(*place));
        if has_interval(&table.columns[*place]) && is_there(*place) {
            columns.push(Shown::Interval(*place));
        }
    }
    if table.rows.iter().any(|row| !row.marks.is_empty()) {
        columns.push(Shown::Marks);
    }
    if in_sight >= places.len() && has_proofs(beside) {
        columns.push(Shown::Proof);
    }
    columns
}

fn has_proofs(beside: &Beside) -> bool {
    beside.proofs.iter().any(|proofs| !proofs.is_empty())
}

/// Whether a column in front of all measures tells what a row is of.
pub(super) fn is_level(column: &Column) -> bool {
    !column.is_measure && *column.key != *"runs" && !is_verdict(column)
}

/// Whether a column holds what the repeats say of the ratio before it.
pub(super) fn is_verdict(column: &Column) -> bool {
    *column.key == *"verdict"
}

fn shape(table: &Table, texts: &[Vec<String>], place: usize, shown: &Shown) -> ColumnShape {
    let words = |value: &CellValue| matches!(value, CellValue::Text(_) | CellValue::Verdict(_));
    let wraps = match shown {
        Shown::Value(value) => table.rows.iter().any(|row| words(&row.values[*value])),
        Shown::Marks | Shown::Proof => true,
        Shown::Interval(_) => false,
    };
    let is_right = matches!(shown, Shown::Value(value) if !table.is_text(*value));
    let longest = (0..texts.len()).max_by_key(|row| texts[*row][place].chars().count()).unwrap_or(0);
    let counted = (0..texts.len()).filter(|row| is_right && !value_and_n(&texts[*row][place]).1.is_empty());
    let longest_n = counted.max_by_key(|row| value_and_n(&texts[*row][place]).1.len());
    ColumnShape { wraps, is_right, longest, longest_n }
}

/// A text in two parts: its value, and the number of repeats behind it, `(n = 2)`; empty if there is none.
pub(super) fn value_and_n(text: &str) -> (&str, &str) {
    text.find(" (n = ").map_or((text, ""), |place| (&text[..place], &text[place + 1..]))
}

/// The characters of the longest text of a row that may wrap. A text of several lines is longer than all others.
fn wrapping_chars(row: &[String], shapes: &[ColumnShape]) -> usize {
    let wrapping = row.iter().zip(shapes).filter(|(_, shape)| shape.wraps);
    let chars = wrapping.map(|(text, _)| if text.contains('\n') { usize::MAX } else { text.chars().count() });
    chars.max().unwrap_or(0)
}

fn text(columns: &[Column], row: &Row, proofs: &[Proof], shown: &Shown) -> String {
    match shown {
        Shown::Value(place) => match &row.values[*place] {
            CellValue::Level(level) => level.to_string(),
            CellValue::Count(count) => count.to_string(),
            CellValue::Text(text) => text.clone(),
            CellValue::Verdict(judged) => judged.to_string(),
            CellValue::Missing => "–".to_owned(),
            CellValue::Measure(value) => {
                let n = row.other_n(value).map_or(String::new(), |n| format!(" (n = {n})"));
                format!("{}{n}", value_text::number(value.median * columns[*place].shown_factor))
            }
        },
        Shown::Interval(place) => match &row.values[*place] {
            CellValue::Measure(value) => value_text::interval(value, columns[*place].shown_factor),
            _ => String::new(),
        },
        Shown::Marks => row.marks.join(", "),
        Shown::Proof => {
            let lost = proofs.iter().filter(|proof| !proof.in_effect);
            let lost: Vec<String> = lost.map(|proof| format!("✗ {}", proof.factor)).collect();
            match (lost.len(), proofs.len()) {
                (0, 0) => String::new(),
                (0, count) => format!("✓ {count} in effect"),
                _ => lost.join(" "),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_that_an_anonymous_archive_left_out_is_not_shown_as_placeholders() {
        let line = |asked: &str, seen: &str| {
            let [factor, asked, seen] = ["gpus", asked, seen].map(str::to_owned);
            Proof { factor, asked, seen, in_effect: true }.line()
        };
        assert_eq!(line("0", "1 rank on GPU 0"), "✓ gpus = 0: 1 rank on GPU 0");
        assert_eq!(line("0", "text_47"), "✓ gpus = 0: left out: the archive is anonymous");
        assert_eq!(line("text_24", "text_60"), "✓ gpus: left out: the archive is anonymous");
    }
}
