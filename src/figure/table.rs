//! A table as a value: columns with units, rows of cells, notes.

use super::number::unit_of_times;
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
    /// The factor that converts values in `unit` to `shown_unit`.
    pub shown_factor: f64,
    /// Whether its values are measures over repeats; otherwise they are levels, counts or words.
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

    /// If its values are measured times: the unit with which times up to this one are short, and the factor from seconds to it.
    pub(super) fn unit_of_times(&self, greatest_s: f64) -> Option<(&'static str, f64)> {
        if self.is_measure && self.unit == "s" && self.shown_unit == "s" { unit_of_times(greatest_s) } else { None }
    }

    /// Whether it shows the measure of the column before it, and therefore in the same unit: as a paper prints it, or after a change.
    fn continues(&self) -> bool {
        self.key.starts_with("published_") || &*self.key == "after"
    }
}

/// A value in a table.
#[derive(Clone, Debug, PartialEq)]
pub enum CellValue {
    /// The level of a factor.
    Level(Level),
    /// A count: epochs, repeats.
    Count(u64),
    /// Words that are not a level.
    Text(String),
    /// A measure over repeats, in the column's `unit`.
    Measure(Value),
    /// The verdict on a ratio.
    Verdict(Box<Judgement>),
    /// The value is not known.
    Missing,
}

/// A row: a cell, an epoch of a cell, or an effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The cell's session; empty if there is only one.
    pub session: String,
    /// The cell's id; empty for an effect.
    pub cell: String,
    /// The environment in which its runs were made; empty if it is the same within each cell.
    pub made_with: String,
    /// The cell's data set, in words.
    pub data: String,
    /// The level of every factor, including levels that all rows share.
    pub levels: Levels,
    /// How many finished runs it summarises.
    pub runs: usize,
    /// One for each column.
    pub values: Vec<CellValue>,
    /// What a reader must know about the row's runs, in a few words each.
    pub marks: Vec<String>,
    /// The marks that concern a measure that the table does not show. Texts leave them out, files for programs do not.
    pub hidden_marks: Vec<String>,
}

impl Row {
    /// A row that does not belong to a single cell: an effect, or a claim.
    pub(super) fn of_no_cell(runs: usize, values: Vec<CellValue>) -> Self {
        let (session, cell, made_with, data) = Default::default();
        Self {
            session,
            cell,
            made_with,
            data,
            levels: Levels::default(),
            runs,
            values,
            marks: Vec::new(),
            hidden_marks: Vec::new(),
        }
    }

    /// The marks that concern what the table shows.
    pub fn shown_marks(&self) -> Vec<&str> {
        self.marks.iter().filter(|mark| !self.hidden_marks.contains(mark)).map(String::as_str).collect()
    }

    /// The cell's name.
    pub fn key(&self) -> CellKey {
        CellKey { session: self.session.clone(), cell: self.cell.clone(), made_with: self.made_with.clone() }
    }

    /// The number of repeats of a value, if it differs from the number of the row's finished runs.
    pub fn other_n(&self, value: &Value) -> Option<usize> {
        // The number of repeats of a published value is unknown, so it is 0.
        (value.n != self.runs && value.n > 0).then_some(value.n)
    }
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The name of its study.
    pub study: String,
    /// Varied factors, counts, measures.
    pub columns: Vec<Column>,
    /// The rows, in the order of the factor registry, default levels first.
    pub rows: Vec<Row>,
    /// Notes on the levels that all rows share, on how values were computed, and on runs that are not included; one sentence each.
    pub notes: Vec<String>,
    /// The notes that change how a row is read, the most important first: what is missing or differs from the paper, and what its values
    /// and marks mean.
    pub lead: Vec<String>,
}

impl Table {
    /// Whether a column contains names, which are aligned left; numbers are aligned right.
    pub fn is_text(&self, column: usize) -> bool {
        let is_name = |row: &Row| match &row.values[column] {
            CellValue::Level(level) => level.as_text().is_some(),
            CellValue::Verdict(_) | CellValue::Text(_) => true,
            CellValue::Count(_) | CellValue::Measure(_) | CellValue::Missing => false,
        };
        self.rows.iter().any(is_name)
    }

    /// Gives each column of times the unit with which its values are short, by the rule of axes: step times of 16 ms are not 0.0160 s.
    /// Files for programs keep seconds.
    pub(super) fn shorten_times(&mut self) {
        let mut place = 0;
        while place < self.columns.len() {
            let more = self.columns[place + 1..].iter().take_while(|column| column.continues()).count();
            let same = place..place + 1 + more;
            let greatest = same.clone().map(|column| self.greatest(column)).fold(0.0, f64::max);
            for column in &mut self.columns[same.clone()] {
                if let Some((unit, factor)) = column.unit_of_times(greatest) {
                    (column.shown_unit, column.shown_factor) = (unit.to_owned(), factor);
                }
            }
            place = same.end;
        }
    }

    /// The greatest value of a column of measures, in the column's `unit`, including ends of intervals; 0 if there is none.
    fn greatest(&self, column: usize) -> f64 {
        let ends = |row: &Row| match &row.values[column] {
            CellValue::Measure(value) => value.interval.map_or(value.median, |ends| ends.high.max(value.median)),
            _ => 0.0,
        };
        self.rows.iter().map(ends).fold(0.0, f64::max)
    }

    /// The columns without any value. If no measure has a value, no column is among them: the table would have nothing left to say.
    pub fn without_values(&self) -> Vec<usize> {
        let holds = |column: usize| self.rows.iter().any(|row| row.values[column] != CellValue::Missing);
        let (held, empty): (Vec<usize>, Vec<usize>) = (0..self.columns.len()).partition(|place| holds(*place));
        if held.iter().any(|place| self.columns[*place].is_measure) { empty } else { Vec::new() }
    }

    /// The note that names columns without values; `None` without such columns.
    pub fn note_without_values(&self, columns: &[usize]) -> Option<String> {
        let names: Vec<&str> = columns.iter().map(|place| self.columns[*place].name.as_str()).collect();
        (!names.is_empty()).then(|| format!("no values of: {}", names.join(", ")))
    }

    /// The table without columns that have no values, which a note names. Files for programs keep these columns.
    pub(super) fn for_reading(&self) -> Self {
        let mut table = self.clone();
        let empty = self.without_values();
        table.notes.extend(self.note_without_values(&empty));
        let kept: Vec<bool> = (0..self.columns.len()).map(|place| !empty.contains(&place)).collect();
        keep(&mut table.columns, &kept);
        table.rows.iter_mut().for_each(|row| keep(&mut row.values, &kept));
        table
    }
}

fn keep<T>(items: &mut Vec<T>, kept: &[bool]) {
    let mut kept = kept.iter();
    items.retain(|_| kept.next().is_some_and(|kept| *kept));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: Vec<Vec<CellValue>>) -> Table {
        let measure = |key: &str| Column { is_measure: true, ..Column::plain(key, key, "") };
        Table {
            study: String::new(),
            columns: vec![
                Column::plain("runs", "Runs", ""),
                measure("ratio"),
                Column::plain("verdict", "Verdict", ""),
                measure("loss"),
            ],
            rows: rows.into_iter().map(|values| Row::of_no_cell(1, values)).collect(),
            notes: Vec::new(),
            lead: Vec::new(),
        }
    }

    #[test]
    fn columns_without_any_value_are_left_out_for_readers_and_named_once() {
        let one = Value { median: 1.0, interval: None, n: 1, method: crate::analysis::Method::One };
        let row = |ratio| vec![CellValue::Count(1), ratio, CellValue::Missing, CellValue::Missing];
        let read = table(vec![row(CellValue::Missing), row(CellValue::Measure(one))]).for_reading();
        let names: Vec<&str> = read.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["Runs", "ratio"]);
        assert!(read.rows.iter().all(|row| row.values.len() == 2));
        assert_eq!(read.notes, ["no values of: Verdict, loss"]);
        // Without any measured value, the columns say what there would be.
        let nothing = table(vec![row(CellValue::Missing)]).for_reading();
        assert_eq!((nothing.columns.len(), nothing.notes.len()), (4, 0));
    }
}
