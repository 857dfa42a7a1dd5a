//! The table as a value: columns with units, rows of cells, notes.

use std::collections::HashMap;

use super::notes::notes;
use super::sibling::Against;
use super::study::{FRONT, RATE, RATIO, SPEEDUP, Study, VERDICT, names_cell};
use crate::analysis::{
    Cell, CellKey, Interval, Intervals, Judgement, Key, Level, Levels, Measure, Method, RunState, RunSummary, Setting,
    Value, judge, log_ratios, measure_of,
};

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
    Verdict(Judgement),
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
    /// The cell's name.
    pub fn key(&self) -> CellKey {
        CellKey { session: self.session.clone(), cell: self.cell.clone() }
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
        let kept: Vec<bool> =
            (0..self.columns.len()).map(|column| !self.columns[column].is_measure || holds(column)).collect();
        let empty: Vec<&str> = self
            .columns
            .iter()
            .zip(&kept)
            .filter(|(_, kept)| !**kept)
            .map(|(column, _)| column.name.as_str())
            .collect();
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

/// The cell that speed-ups and ratios are over.
pub(super) struct Baseline<'a> {
    pub(super) cell: Option<&'a Cell<'a>>,
    /// All cells of the study, in which each finds its siblings.
    pub(super) among: &'a [Cell<'a>],
    /// What was asked for, where no cell matches it.
    pub(super) unknown: Option<String>,
    /// The filter leaves the cell out.
    pub(super) is_hidden: bool,
    /// The measure whose ratio the column `ratio` shows.
    pub(super) ratio_of: Key,
}

impl<'a> Baseline<'a> {
    /// The cell that the study names, shown or not. Where it names none: the first of the shown cells that has all
    /// measures of which the study shows ratios, or else the first that has one of them.
    pub(super) fn find(study: &Study, all: &'a [Cell<'a>], shown: &[Cell]) -> Self {
        let ratio_of = study.ratio_of();
        let is_shown = |cell: &Cell| shown.iter().any(|shown| shown.key() == cell.key());
        let cell = match &study.baseline {
            Some(asked) => {
                // An id stands before levels, and of several cells with these levels a shown one before others.
                let by_id = || all.iter().find(|cell| cell.id == asked.as_str());
                let named = || all.iter().filter(|cell| names_cell(asked, cell));
                by_id().or_else(|| named().find(|cell| is_shown(cell))).or_else(|| named().next())
            }
            None => {
                let has = |cell: &Cell, key: &str| !by_repeat(cell, key).is_empty();
                let speedup = study.table_measures().iter().any(|key| key == SPEEDUP);
                let whole = shown.iter().find(|cell| has(cell, &ratio_of) && (!speedup || has(cell, RATE)));
                let first = whole.or_else(|| shown.iter().find(|cell| has(cell, &ratio_of)));
                let first = first.or_else(|| shown.iter().find(|cell| speedup && has(cell, RATE)));
                first.and_then(|first| all.iter().find(|cell| cell.key() == first.key()))
            }
        };
        let unknown = study.baseline.clone().filter(|_| cell.is_none());
        Self { cell, among: all, unknown, is_hidden: cell.is_some_and(|cell| !is_shown(cell)), ratio_of }
    }
}

/// Joins the runs of cells into rows, with columns for these settings. Only finished runs enter values; the others are
/// named in the notes, and their cells have a row all the same.
pub(super) fn table_of(study: &Study, settings: &[Setting], cells: &[Cell], baseline: &Baseline) -> Table {
    let columns = columns(study, settings, cells);
    let verdicts = if columns.iter().any(|column| column.key == VERDICT) {
        verdicts(study, cells, baseline)
    } else {
        HashMap::new()
    };
    let value = |column: &Column, cell: &Cell, epoch: Option<u32>| match &*column.key {
        VERDICT => verdicts.get(&cell.key()).map_or(CellValue::Missing, |judged| CellValue::Verdict(*judged)),
        key => cell_value(key, cell, epoch, baseline, Intervals::ByCount),
    };
    let row = |cell: &Cell, epoch: Option<u32>| Row {
        session: cell.session.to_owned(),
        cell: cell.id.to_owned(),
        data: cell.data.to_owned(),
        levels: cell.levels.clone(),
        runs: finished(cell).count(),
        values: columns.iter().map(|column| value(column, cell, epoch)).collect(),
        marks: marks(cell),
    };
    let rows = cells.iter().flat_map(|cell| {
        let epochs = if study.by_epoch { epochs(cell) } else { Vec::new() };
        let epochs = if epochs.is_empty() { vec![None] } else { epochs };
        epochs.into_iter().map(|epoch| row(cell, epoch)).collect::<Vec<_>>()
    });
    let rows: Vec<Row> = rows.collect();
    let notes = notes(cells, &columns, &rows, baseline);
    Table { study: study.name.clone(), columns, rows, notes }
}

/// What repeats say of each cell's ratio to the baseline; all of them are one family.
fn verdicts(study: &Study, cells: &[Cell], baseline: &Baseline) -> HashMap<CellKey, Judgement> {
    let Some(base) = baseline.cell else { return HashMap::new() };
    let ratio = study.table_measures().into_iter().find(|key| [SPEEDUP, RATIO].contains(&&**key));
    let key = if ratio.as_deref() == Some(SPEEDUP) { RATE.into() } else { baseline.ratio_of.clone() };
    let others = cells.iter().filter(|cell| cell.key() != base.key() && !by_repeat(cell, &key).is_empty());
    let others: Vec<&Cell> = others.collect();
    let judged = judge_cells(&others, base, &key, study.equal_within);
    others.iter().map(|cell| cell.key()).zip(judged).collect()
}

/// What repeats say of cells' ratios to another one in a measure, as one family.
pub(super) fn judge_cells(cells: &[&Cell], base: &Cell, key: &str, equal_within: f64) -> Vec<Judgement> {
    let measure = base.measure(key);
    let is_time = measure.is_some_and(Measure::is_time);
    let of_base = by_repeat(base, key);
    let logs = |cell: &&Cell| {
        let own = by_repeat(cell, key);
        if is_time { log_ratios(&of_base, &own) } else { log_ratios(&own, &of_base) }
    };
    let family: Vec<Vec<f64>> = cells.iter().map(logs).collect();
    judge(&family, measure.is_some_and(Measure::is_speed), equal_within)
}

fn columns(study: &Study, varying: &[Setting], cells: &[Cell]) -> Vec<Column> {
    let plain = Column::plain;
    let mut columns: Vec<Column> =
        varying.iter().map(|setting| plain(&setting.key, &setting.name, &setting.unit)).collect();
    if study.by_epoch {
        columns.push(plain("epoch", "Epoch", ""));
    }
    columns.push(plain("runs", "Runs", ""));
    columns.extend(study.table_measures().iter().map(|key| match (measure_of(cells, key), Against::find(key)) {
        (Some(measure), _) => Column {
            shown_unit: measure.shown_unit.clone(),
            shown_factor: measure.shown_factor,
            is_measure: true,
            ..plain(&measure.key, &measure.name, &measure.unit)
        },
        (None, Some(against)) => {
            let percent = Column { shown_unit: "%".into(), shown_factor: 100.0, ..plain(key, against.name, "×") };
            Column { is_measure: true, ..percent }
        }
        (None, None) if key == VERDICT => plain(key, "Verdict", ""),
        (None, None) if key == FRONT => plain(key, "Pareto front", ""),
        (None, None) if key == RATIO => {
            let of_speed = measure_of(cells, &study.ratio_of()).is_some_and(Measure::is_speed);
            let name = if of_speed { "Speed-up vs baseline" } else { "Ratio vs baseline" };
            Column { is_measure: true, ..plain(key, name, "×") }
        }
        (None, None) => Column { is_measure: true, ..plain(key, "Speed-up", "×") },
    }));
    columns
}

/// The finished runs of a cell: those whose numbers count.
pub(super) fn finished<'a>(cell: &'a Cell<'a>) -> impl Iterator<Item = &'a RunSummary> {
    cell.runs.iter().copied().filter(|run| run.state == RunState::Finished)
}

fn epochs(cell: &Cell) -> Vec<Option<u32>> {
    let mut epochs: Vec<u32> = finished(cell).flat_map(|run| &run.epochs).map(|epoch| epoch.epoch).collect();
    epochs.sort_unstable();
    epochs.dedup();
    epochs.into_iter().map(Some).collect()
}

pub(super) fn cell_value(
    key: &str,
    cell: &Cell,
    epoch: Option<u32>,
    baseline: &Baseline,
    intervals: Intervals,
) -> CellValue {
    let measure = cell.measure(key);
    let of_epoch = epoch.filter(|_| measure.is_some_and(Measure::is_of_epochs));
    let value = match (key, of_epoch) {
        ("runs", _) => return CellValue::Count(finished(cell).count() as u64),
        ("epoch", _) => return epoch.map_or(CellValue::Missing, |epoch| CellValue::Count(u64::from(epoch))),
        (SPEEDUP, _) => over_baseline(cell, baseline.cell, RATE, intervals),
        (RATIO, _) => over_baseline(cell, baseline.cell, &baseline.ratio_of, intervals),
        (_, Some(epoch)) => {
            let values = finished(cell).filter_map(|run| run.epochs.iter().find(|one| one.epoch == epoch));
            intervals.of(&values.filter_map(|one| one.value(key)).collect::<Vec<_>>())
        }
        _ => match (measure, Against::find(key)) {
            (Some(measure), _) => {
                let values = finished(cell).filter_map(|run| measure.of_run_alone(run));
                intervals.of(&values.collect::<Vec<_>>())
            }
            (None, Some(against)) => against.value(cell, baseline.among),
            (None, None) => return cell.level(key).map_or(CellValue::Missing, CellValue::Level),
        },
    };
    value.map_or(CellValue::Missing, CellValue::Measure)
}

/// A measure of a cell's finished runs, each with its repeat.
pub(super) fn by_repeat(cell: &Cell, key: &str) -> Vec<(u32, f64)> {
    let Some(measure) = cell.measure(key) else { return Vec::new() };
    finished(cell).filter_map(|run| Some((run.repeat, measure.of_run_alone(run)?))).collect()
}

/// A measure over the baseline's, for times the other way round, so that twice as fast is 2. Over distinct images a
/// second it is the speed-up: right for any batch size and any number of GPUs.
pub(super) fn over_baseline(cell: &Cell, baseline: Option<&Cell>, key: &str, intervals: Intervals) -> Option<Value> {
    let baseline = baseline?;
    let own = by_repeat(cell, key);
    if baseline.id == cell.id && baseline.session == cell.session {
        // Over itself it is 1 by definition: an interval would only show its own spread.
        return (!own.is_empty()).then_some(Value { median: 1.0, interval: None, n: own.len(), method: Method::One });
    }
    let base = by_repeat(baseline, key);
    if cell.measure(key).is_some_and(Measure::is_time) {
        intervals.of_ratio(&base, &own)
    } else {
        intervals.of_ratio(&own, &base)
    }
}

/// A value in another unit.
pub(super) fn scaled(value: Value, factor: f64) -> Value {
    let interval = value.interval.map(|ends| Interval {
        low: (ends.low * factor).min(ends.high * factor),
        high: (ends.low * factor).max(ends.high * factor),
    });
    Value { median: value.median * factor, interval, ..value }
}

/// The labels of a row's runs, each once, and how many of them did not finish.
fn marks(cell: &Cell) -> Vec<String> {
    let mut marks: Vec<String> = Vec::new();
    for mark in finished(cell).flat_map(|run| &run.marks) {
        if marks.iter().all(|known| known != mark.label()) {
            marks.push(mark.label().to_owned());
        }
    }
    let mut states: Vec<RunState> = cell.runs.iter().map(|run| run.state).collect();
    states.retain(|state| *state != RunState::Finished);
    states.sort_unstable();
    for same in states.chunk_by(|a, b| a == b) {
        marks.push(format!("{} {}", same.len(), same[0].name()));
    }
    marks
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
