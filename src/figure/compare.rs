//! Cells beside each other: filtered, arranged into a chart, listed in a table, held against a baseline.

mod activity;
mod arrange;
mod bars;
mod curves;
mod effects;
mod map;
mod metrics;
mod parts;
mod repeats;
mod scaling;

pub use arrange::{Arrangement, level_name};

use super::chart::Chart;
use super::drawing::Drawing;
use super::notes::traced_note;
use super::preset::{Preset, Runs};
use super::table::{Baseline, Shape, Table, by_repeat, table_of};
use crate::analysis::{
    Cell, CellKey, Level, Measure, MetricUnit, Recording, RunState, Setting, Source, TRACE_METRICS, cells_of,
    measure_of, metric_measure, varying,
};
use crate::plan::{Facts, Filter};
use arrange::{arrange, name_of};

/// The measure that is made of two cells: distinct images a second over the baseline's.
pub const SPEEDUP: &str = "speedup";
const MEMORY: [&str; 4] = ["peak_allocated_bytes", "peak_active_bytes", "peak_reserved_bytes", "peak_device_bytes"];

/// Which kind of chart is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A measure as grouped bars.
    #[default]
    Bars,
    /// Losses and accuracy by epoch.
    Loss,
    /// A measure over GPUs, beside what it would be if nothing were lost.
    Scaling,
    /// Peaks of GPU memory.
    Memory,
    /// Metrics of profilers' reports, on top of each other.
    Metrics,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Bars, Self::Loss, Self::Scaling, Self::Memory, Self::Metrics];

    /// The name on screen.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bars => "Bars",
            Self::Loss => "Loss",
            Self::Scaling => "Scaling",
            Self::Memory => "Memory",
            Self::Metrics => "Metrics",
        }
    }
}

/// What losses are drawn over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Over {
    /// Epochs.
    #[default]
    Epochs,
    /// Steps, counted over the whole run.
    Steps,
    /// The time spent in training.
    Time,
}

impl Over {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Epochs, Self::Steps, Self::Time];

    /// The name on screen.
    pub fn name(self) -> &'static str {
        match self {
            Self::Epochs => "Epochs",
            Self::Steps => "Steps",
            Self::Time => "Training time",
        }
    }
}

/// What stands on rows, on columns, or is told by colour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// What suits the cells.
    #[default]
    Auto,
    /// Nothing.
    Nothing,
    /// The setting of this key.
    Setting(String),
}

/// What is compared and how it is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// Which cells are shown: see [`crate::plan::filter`]; words match their levels.
    pub filter: String,
    /// Levels whose cells are left out: key and level.
    pub hidden: Vec<(String, Level)>,
    /// Groups of bars.
    pub rows: Place,
    /// Panels beside each other.
    pub columns: Place,
    /// Bars of a group, lines of a panel.
    pub colour: Place,
    /// A measure's key, or [`SPEEDUP`].
    pub metric: &'static str,
    /// The cell that ratios are over; by default the first that has the measure.
    pub baseline: Option<CellKey>,
    /// Which kind of chart.
    pub kind: Kind,
    /// What losses are drawn over.
    pub over: Over,
    /// Runs that a profiler recorded stand among the others.
    pub traced: bool,
    /// The keys of the metrics that are shown.
    pub metrics: Vec<&'static str>,
    /// In what they are shown.
    pub metric_unit: MetricUnit,
}

impl Default for View {
    fn default() -> Self {
        Self {
            filter: String::new(),
            hidden: Vec::new(),
            rows: Place::Auto,
            columns: Place::Auto,
            colour: Place::Auto,
            metric: "epoch_time_s",
            baseline: None,
            kind: Kind::Bars,
            over: Over::Epochs,
            traced: false,
            // The papers' seven.
            metrics: TRACE_METRICS.iter().take(7).map(|kind| kind.key).collect(),
            metric_unit: MetricUnit::Seconds,
        }
    }
}

impl View {
    /// Tracing costs time: traced runs are not held against others unless asked.
    fn admits(&self, cell: &Cell) -> bool {
        match cell.recording() {
            _ if self.kind == Kind::Metrics => cell.runs.iter().any(|run| run.trace_summary().is_some()),
            Recording::Plain => true,
            Recording::Traced => self.traced,
            Recording::Report => false,
        }
    }

    fn shows(&self, cell: &Cell, filter: &Filter, settings: &[Setting]) -> bool {
        let is_hidden = |(key, level): &(String, Level)| cell.level(key).as_ref() == Some(level);
        if self.hidden.iter().any(is_hidden) {
            return false;
        }
        filter.is_empty() || filter.admits(&Named { cell, name: name_of(cell, settings).to_lowercase() })
    }

    /// The measure whose ratio to the baseline is shown.
    fn ratio_of(&self) -> &'static str {
        match self.metric {
            _ if self.kind == Kind::Memory => MEMORY[0],
            _ if self.kind == Kind::Metrics => self.metric_measures().first().copied().unwrap_or(MEMORY[0]),
            SPEEDUP => "images_per_s",
            metric => metric,
        }
    }

    /// The chosen metrics as measures.
    fn metric_measures(&self) -> Vec<&'static str> {
        self.metrics.iter().filter_map(|key| column_of(key, self.metric_unit)).collect()
    }

    /// The table's measures: the chosen one and its ratio first, then the check values.
    fn measures(&self) -> Vec<&'static str> {
        let mut measures = match self.kind {
            Kind::Metrics => return self.metric_measures(),
            Kind::Memory => MEMORY.to_vec(),
            Kind::Bars | Kind::Loss | Kind::Scaling => vec![self.metric],
        };
        if self.metric != SPEEDUP || self.kind == Kind::Memory {
            measures.push("ratio");
        }
        for check in ["images_per_s", MEMORY[0], "train_loss", "accuracy"] {
            if !measures.contains(&check) {
                measures.push(check);
            }
        }
        measures
    }
}

/// A cell with the text that the words of a filter match: its name in lower case.
struct Named<'a> {
    cell: &'a Cell<'a>,
    name: String,
}

impl Facts for Named<'_> {
    fn level(&self, key: &str) -> Option<Level> {
        self.cell.level(key)
    }

    fn mentions(&self, word: &str) -> bool {
        self.name.contains(word)
    }
}

/// The measure of a metric in tables. Shares of what is shown depend on the choice, which no run knows: tables have
/// seconds.
pub(super) fn column_of(metric: &str, unit: MetricUnit) -> Option<&'static str> {
    let unit = if unit == MetricUnit::OfShown { MetricUnit::Seconds } else { unit };
    metric_measure(metric, unit).map(|measure| &*measure.key)
}

/// The levels that a setting has among all cells.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingLevels {
    /// The setting.
    pub setting: Setting,
    /// Its levels in the order of the cells, with how many cells have each.
    pub levels: Vec<(Level, usize)>,
}

/// What a view makes of runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// What can be filtered by and arranged: the settings that differ among all cells.
    pub settings: Vec<SettingLevels>,
    /// What stands where.
    pub arrangement: Arrangement,
    /// The cells that are shown, with their names, in the order of the table's rows.
    pub cells: Vec<(CellKey, String)>,
    /// How many cells there are without the filter.
    pub all_cells: usize,
    /// How many there are with those that this kind of chart is not of.
    pub known_cells: usize,
    /// Traced cells and reports that stand alone, shown or not.
    pub traced: usize,
    /// The cell that ratios are over, and its name.
    pub baseline: Option<(CellKey, String)>,
    /// One row a cell.
    pub table: Table,
    /// One or more, below each other.
    pub charts: Vec<Chart>,
    /// Runs of the shown cells that finished.
    pub finished: usize,
    /// Runs of the shown cells that ended and did not finish: they are in no value.
    pub unfinished: usize,
}

/// Compares the cells of one or more sessions as a view says.
pub fn compare(sources: &[Source], view: &View) -> Comparison {
    let charts = |scene: &Scene| match view.kind {
        Kind::Bars => draw(scene, Drawing::Bars),
        Kind::Memory => draw(scene, Drawing::Memory),
        Kind::Metrics => draw(scene, Drawing::Metrics),
        Kind::Loss => draw(scene, Drawing::Loss),
        Kind::Scaling => draw(scene, Drawing::Scaling),
    };
    compare_as(sources, view, None, &charts)
}

/// The charts of a drawing.
pub(super) fn draw(scene: &Scene, drawing: Drawing) -> Vec<Chart> {
    match drawing {
        Drawing::Bars => vec![bars::bars(scene)],
        Drawing::Memory => vec![bars::memory(scene)],
        Drawing::Metrics => vec![metrics::metrics(scene)],
        Drawing::Loss => curves::by_epoch(scene),
        Drawing::Scaling => scaling::scaling(scene),
        Drawing::Effects => vec![effects::effects(scene)],
        Drawing::Repeats => vec![repeats::repeats(scene)],
        Drawing::Map => vec![map::map(scene)],
        Drawing::Parts => parts::parts(scene),
        Drawing::Activity => vec![activity::activity(scene)],
    }
}

/// The same with other charts, and with the table of a preset.
pub(super) fn compare_as(
    sources: &[Source],
    view: &View,
    preset: Option<&Preset>,
    charts: &dyn Fn(&Scene) -> Vec<Chart>,
) -> Comparison {
    let mut all = cells_of(sources);
    let known_cells = all.len();
    let traced = all.iter().filter(|cell| cell.recording() != Recording::Plain).count();
    let traced_runs = all.iter().filter(|cell| cell.recording() == Recording::Traced).count();
    all.retain(|cell| view.admits(cell));
    let all_settings = varying(&all);
    // One that cannot be read hides nothing: it is said where it was typed.
    let filter = Filter::typed(&view.filter).unwrap_or_default();
    let shown: Vec<Cell> = all.iter().filter(|cell| view.shows(cell, &filter, &all_settings)).cloned().collect();
    let shown_settings = varying(&shown);
    let arrangement = arrange(view, &all_settings, &shown_settings);
    let baseline = baseline(view, &all, &shown);
    let shape = Shape { id: "compare", measures: &view.measures(), by_epoch: false };
    let table = table_of(&shape, &all_settings, &shown, &baseline);
    // One cell that is left is known by what told it from the others.
    let naming = if shown_settings.is_empty() { &all_settings } else { &shown_settings };
    let scene = Scene { cells: &shown, all: &all, table: &table, view, arrangement: &arrangement };
    let charts = charts(&scene);
    let table = match preset {
        None => table,
        Some(preset) => {
            let mut measures = preset.measures.to_vec();
            // One that was asked for is drawn, and belongs to the numbers.
            if view.metric != preset.usual_metric() && !measures.contains(&view.metric) {
                measures.push(view.metric);
            }
            let shape = Shape { id: preset.id, measures: &measures, by_epoch: preset.by_epoch };
            let mut table = table_of(&shape, naming, &shown, &baseline);
            if preset.runs == Runs::Plain && traced_runs > 0 {
                table.notes.push(traced_note(traced_runs));
            }
            table
        }
    };
    let runs = || shown.iter().flat_map(|cell| &cell.runs);
    let done = runs().filter(|run| run.state == RunState::Finished).count();
    Comparison {
        settings: all_settings.iter().map(|setting| setting_levels(&all, setting.clone())).collect(),
        cells: shown.iter().map(|cell| (cell.key(), name_of(cell, naming))).collect(),
        all_cells: all.len(),
        known_cells,
        traced,
        baseline: baseline.cell.map(|cell| (cell.key(), name_of(cell, &all_settings))),
        finished: done,
        unfinished: runs().count() - done,
        arrangement,
        charts,
        table,
    }
}

/// What charts are made from.
pub(super) struct Scene<'a> {
    /// The cells that are shown, one a row of the table.
    cells: &'a [Cell<'a>],
    /// Those that the filter leaves out too: colours of what is no level must not change with it.
    all: &'a [Cell<'a>],
    table: &'a Table,
    view: &'a View,
    arrangement: &'a Arrangement,
}

/// The name of a measure and the unit on screen, and what makes values ones in that unit.
fn shown_measure<'a>(scene: &Scene<'a>, key: &str) -> (String, &'a str, f64) {
    match measure_of(scene.cells, key) {
        Some(Measure { name, shown_unit, shown_factor, .. }) => (name.clone(), shown_unit, *shown_factor),
        None => ("Speed-up".to_owned(), "×", 1.0),
    }
}

fn baseline<'a>(view: &View, all: &'a [Cell<'a>], shown: &[Cell]) -> Baseline<'a> {
    let ratio_of = view.ratio_of();
    if let Some(key) = &view.baseline {
        let cell = all.iter().find(|cell| cell.session == key.session && cell.id == key.cell);
        return Baseline { cell, among: all, unknown: cell.is_none().then_some("gone"), ratio_of };
    }
    let has_value = |cell: &&Cell| !by_repeat(cell, ratio_of).is_empty();
    let first = shown.iter().find(has_value).map(Cell::key);
    Baseline { cell: all.iter().find(|cell| Some(cell.key()) == first), among: all, unknown: None, ratio_of }
}

fn setting_levels(cells: &[Cell], setting: Setting) -> SettingLevels {
    let mut levels: Vec<(Level, usize)> = Vec::new();
    for level in cells.iter().filter_map(|cell| cell.level(&setting.key)) {
        match levels.iter_mut().find(|(known, _)| *known == level) {
            Some((_, count)) => *count += 1,
            None => levels.push((level, 1)),
        }
    }
    SettingLevels { setting, levels }
}

#[cfg(test)]
#[path = "compare/tests.rs"]
mod tests;
