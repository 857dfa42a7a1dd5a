//! The table as a value: columns with units, rows of cells, notes.

use super::Preset;
use super::notes::{notes, traced_note};
use super::preset::Runs;
use super::sibling::Against;
use crate::analysis::{
    Cell, CellKey, Key, Level, Levels, Measure, Method, Recording, RunState, RunSummary, Setting, Value, cells,
    measure_of, ratio, summarise, varying,
};

/// Seeds the bootstrap, so that the same runs always give the same table.
pub(super) const SEED: u64 = 1;

/// The measure whose ratio is the speed-up.
pub(super) const RATE: &str = "images_per_s";

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

/// What stands in one place of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum CellValue {
    /// The level of a factor.
    Level(Level),
    /// A count: epochs, repeats.
    Count(u64),
    /// A measure over repeats, in the column's `unit`.
    Measure(Value),
    /// Not known.
    Missing,
}

/// One row: a cell, or one epoch of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The cell's session; empty where there is only one.
    pub session: String,
    /// The cell's id.
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
        (value.n != self.runs).then_some(value.n)
    }
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The preset that made it.
    pub preset: &'static str,
    /// Varying factors, counts, measures.
    pub columns: Vec<Column>,
    /// In the order of the factor registry, default levels first.
    pub rows: Vec<Row>,
    /// What all rows share, how values were made, and what is not in them; one sentence each.
    pub notes: Vec<String>,
    /// The baseline that was asked for, where no row matches it; a note says so too.
    pub unmatched_baseline: Option<String>,
}

impl Table {
    /// Whether a column holds names, which stand to the left; numbers stand to the right.
    pub fn is_text(&self, column: usize) -> bool {
        let is_name = |row: &Row| matches!(&row.values[column], CellValue::Level(level) if level.as_text().is_some());
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
    /// All cells of the table, in which each finds its siblings.
    pub(super) among: &'a [Cell<'a>],
    /// What was asked for, where no cell matches it.
    pub(super) unknown: Option<&'a str>,
    /// The measure whose ratio the column `ratio` shows.
    pub(super) ratio_of: &'static str,
}

/// Which columns and rows a table has.
pub(super) struct Shape<'a> {
    pub(super) id: &'static str,
    /// Keys of measures; `speedup` and `ratio` are made of two cells.
    pub(super) measures: &'a [&'static str],
    /// One row a cell and epoch, not one a cell.
    pub(super) by_epoch: bool,
}

impl<'a> Baseline<'a> {
    fn find(cells: &'a [Cell<'a>], asked: Option<&'a str>) -> Self {
        let Some(asked) = asked else {
            let has_rate = |cell: &&Cell| !by_repeat(cell, RATE).is_empty();
            return Self { cell: cells.iter().find(has_rate), among: cells, unknown: None, ratio_of: RATE };
        };
        let by_id = || cells.iter().find(|cell| cell.id == asked);
        let by_levels = || cells.iter().find(|cell| has_levels(cell, asked));
        let cell = by_id().or_else(by_levels);
        Self { cell, among: cells, unknown: cell.is_none().then_some(asked), ratio_of: RATE }
    }
}

/// Whether the cell has levels written as `precision=fp32,gpus=1`.
pub(super) fn has_levels(cell: &Cell, asked: &str) -> bool {
    asked.split(',').all(|pair| {
        let asked = pair.split_once('=').map(|(key, level)| (key.trim(), level.trim()));
        asked.is_some_and(|(key, level)| cell.level(key).is_some_and(|own| own.to_string() == level))
    })
}

/// Joins runs into the rows of a preset.
///
/// Only finished runs enter values; the others are named in the notes, and their cells have a row all the same.
/// `baseline` names the cell that speed-ups are over: its id, or levels as `precision=fp32,gpus=1` (the first row
/// that has them). Without one it is the first row with a throughput; one that matches no cell leaves speed-ups out.
pub fn table(preset: Preset, runs: &[RunSummary], baseline: Option<&str>) -> Table {
    let mut cells = cells(runs);
    let traced = cells.iter().filter(|cell| cell.recording() == Recording::Traced).count();
    cells.retain(|cell| match preset.runs {
        Runs::Plain => cell.recording() == Recording::Plain,
        Runs::All => cell.recording() != Recording::Report,
        Runs::WithTrace => cell.runs.iter().any(|run| run.trace_summary().is_some()),
    });

    let shape = Shape { id: preset.id, measures: preset.measures, by_epoch: preset.by_epoch };
    let mut table = table_of(&shape, &varying(&cells), &cells, &Baseline::find(&cells, baseline));
    if preset.runs == Runs::Plain && traced > 0 {
        table.notes.push(traced_note(traced));
    }
    if preset.runs == Runs::WithTrace {
        table.notes.push("times are summed over GPUs and threads".to_owned());
    }
    table
}

/// The same of cells that were chosen already, with columns for these settings.
pub(super) fn table_of(shape: &Shape, settings: &[Setting], cells: &[Cell], baseline: &Baseline) -> Table {
    let columns = columns(shape, settings, cells);
    let row = |cell: &Cell, epoch: Option<u32>| Row {
        session: cell.session.to_owned(),
        cell: cell.id.to_owned(),
        data: cell.data.to_owned(),
        levels: cell.levels.clone(),
        runs: finished(cell).count(),
        values: columns.iter().map(|column| cell_value(&column.key, cell, epoch, baseline)).collect(),
        marks: marks(cell),
    };
    let rows = cells.iter().flat_map(|cell| {
        let epochs = if shape.by_epoch { epochs(cell) } else { Vec::new() };
        let epochs = if epochs.is_empty() { vec![None] } else { epochs };
        epochs.into_iter().map(|epoch| row(cell, epoch)).collect::<Vec<_>>()
    });
    let rows: Vec<Row> = rows.collect();
    let notes = notes(cells, &columns, &rows, baseline);
    let unmatched_baseline = baseline.unknown.map(str::to_owned);
    Table { preset: shape.id, columns, rows, notes, unmatched_baseline }
}

fn columns(shape: &Shape, varying: &[Setting], cells: &[Cell]) -> Vec<Column> {
    let plain = |key: &str, name: &str, unit: &str| Column {
        key: key.into(),
        name: name.into(),
        unit: unit.into(),
        shown_unit: unit.into(),
        shown_factor: 1.0,
        is_measure: false,
    };
    let mut columns: Vec<Column> =
        varying.iter().map(|setting| plain(&setting.key, &setting.name, &setting.unit)).collect();
    if shape.by_epoch {
        columns.push(plain("epoch", "Epoch", ""));
    }
    columns.push(plain("runs", "Runs", ""));
    columns.extend(shape.measures.iter().map(|key| match (measure_of(cells, key), Against::find(key)) {
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
        (None, None) if *key == "ratio" => Column { is_measure: true, ..plain(key, "Ratio", "×") },
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

fn cell_value(key: &str, cell: &Cell, epoch: Option<u32>, baseline: &Baseline) -> CellValue {
    let measure = cell.measure(key);
    let of_epoch = epoch.filter(|_| measure.is_some_and(Measure::is_of_epochs));
    let value = match (key, of_epoch) {
        ("runs", _) => return CellValue::Count(finished(cell).count() as u64),
        ("epoch", _) => return epoch.map_or(CellValue::Missing, |epoch| CellValue::Count(u64::from(epoch))),
        ("speedup", _) => over_baseline(cell, baseline.cell, RATE),
        ("ratio", _) => over_baseline(cell, baseline.cell, baseline.ratio_of),
        (_, Some(epoch)) => {
            let values = finished(cell).filter_map(|run| run.epochs.iter().find(|one| one.epoch == epoch));
            summarise(&values.filter_map(|one| one.value(key)).collect::<Vec<_>>(), SEED)
        }
        _ => match (measure, Against::find(key)) {
            (Some(measure), _) => {
                let values = finished(cell).filter_map(|run| measure.of_run_alone(run));
                summarise(&values.collect::<Vec<_>>(), SEED)
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
pub(super) fn over_baseline(cell: &Cell, baseline: Option<&Cell>, key: &str) -> Option<Value> {
    let baseline = baseline?;
    let own = by_repeat(cell, key);
    if baseline.id == cell.id && baseline.session == cell.session {
        // Over itself it is 1 by definition: an interval would only show its own spread.
        return (!own.is_empty()).then_some(Value { median: 1.0, interval: None, n: own.len(), method: Method::One });
    }
    let base = by_repeat(baseline, key);
    if cell.measure(key).is_some_and(Measure::is_time) { ratio(&base, &own, SEED) } else { ratio(&own, &base, SEED) }
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
