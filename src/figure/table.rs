//! The table as a value: columns with units, rows of cells, notes.

use crate::analysis::{CellKey, Judgement, Key, Level, Levels, Value};

/// One column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The key in files.
    pub key: Key,
    /// The name on paper and on screen.
    pub name: String,
    /// The unit of its values; empty for a plain number.
    pub unit: String,
    /// The unit on paper and on screen.
    pub shown_unit: String,
    /// Times this, a value in `unit` is one in `shown_unit`.
    pub shown_factor: f64,
    /// Its values are measures over repeats; else they are levels and counts.
    pub is_measure: bool,
}

impl Column {
    /// A column of levels, counts or words.
    pub(super) fn plain(key: &str, name: &str, unit: &str) -> Self {
        Self {
            key: key.into(),
            name: name.into(),
            unit: unit.into(),
            shown_unit: unit.into(),
            shown_factor: 1.0,
            is_measure: false,
        }
    }
}

/// What stands in one place of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum CellValue {
    /// The level of a factor.
    Level(Level),
    /// A count: epochs, repeats.
    Count(u64),
    /// Words that are no level.
    Text(String),
    /// A measure over repeats, in the column's `unit`.
    Measure(Value),
    /// What the repeats say of a ratio.
    Verdict(Box<Judgement>),
    /// Not known.
    Missing,
}

/// One row: a cell, one epoch of it, or an effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The cell's session; empty where there is only one.
    pub session: String,
    /// The cell's id; empty for an effect.
    pub cell: String,
    /// What its runs were made with; empty where that differs within no cell.
    pub made_with: String,
    /// The cell's data set, in words.
    pub data: String,
    /// The level of every factor, those that all rows share too.
    pub levels: Levels,
    /// How many finished runs it joins.
    pub runs: usize,
    /// One for each column.
    pub values: Vec<CellValue>,
    /// What a reader must know of the row's runs, in a few words each.
    pub marks: Vec<String>,
}

impl Row {
    /// A row of no one cell: an effect, or a claim.
    pub(super) fn of_no_cell(runs: usize, values: Vec<CellValue>) -> Self {
        let (session, cell, made_with, data) = Default::default();
        Self { session, cell, made_with, data, levels: Levels::default(), runs, values, marks: Vec::new() }
    }

    /// The cell's name.
    pub fn key(&self) -> CellKey {
        CellKey { session: self.session.clone(), cell: self.cell.clone(), made_with: self.made_with.clone() }
    }

    /// The count of a value, where it is not that of the row's finished runs.
    pub fn other_n(&self, value: &Value) -> Option<usize> {
        // Nobody says of how many repeats a published value is.
        (value.n != self.runs && value.n > 0).then_some(value.n)
    }
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The name of the study that it is of.
    pub study: String,
    /// Varying factors, counts, measures.
    pub columns: Vec<Column>,
    /// In the order of the factor registry, default levels first.
    pub rows: Vec<Row>,
    /// What all rows share, how values were made, and what is not in them; one sentence each.
    pub notes: Vec<String>,
    /// Those of them that change how a row is read, the weightiest first: what is missing or deviates, what its values and marks are.
    pub lead: Vec<String>,
}

impl Table {
    /// Whether a column holds names, which stand to the left; numbers stand to the right.
    pub fn is_text(&self, column: usize) -> bool {
        let is_name = |row: &Row| match &row.values[column] {
            CellValue::Level(level) => level.as_text().is_some(),
            CellValue::Verdict(_) | CellValue::Text(_) => true,
            CellValue::Count(_) | CellValue::Measure(_) | CellValue::Missing => false,
        };
        self.rows.iter().any(is_name)
    }

    /// The same without columns that hold no value, which a note names. Files for programs keep them.
    pub(super) fn for_reading(&self) -> Self {
        let holds = |column: usize| self.rows.iter().any(|row| row.values[column] != CellValue::Missing);
        let mut kept: Vec<bool> = Vec::with_capacity(self.columns.len());
        for (place, column) in self.columns.iter().enumerate() {
            // Verdicts go with the ratio before them.
            let goes_with = !column.is_measure && !holds(place) && kept.last() == Some(&false);
            kept.push(if column.is_measure { holds(place) } else { !goes_with });
        }
        let is_empty = |(column, kept): &(&Column, &bool)| column.is_measure && !**kept;
        let empty = self.columns.iter().zip(&kept).filter(is_empty);
        let empty: Vec<&str> = empty.map(|(column, _)| column.name.as_str()).collect();
        let mut table = self.clone();
        let measures = self.columns.iter().filter(|column| column.is_measure).count();
        if empty.is_empty() || empty.len() == measures {
            return table;
        }
        table.notes.push(format!("no values of: {}", empty.join(", ")));
        keep(&mut table.columns, &kept);
        table.rows.iter_mut().for_each(|row| keep(&mut row.values, &kept));
        table
    }
}

fn keep<T>(items: &mut Vec<T>, kept: &[bool]) {
    let mut kept = kept.iter();
    items.retain(|_| kept.next().is_some_and(|kept| *kept));
}
