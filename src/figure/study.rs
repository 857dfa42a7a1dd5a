//! A study: which cells are shown and against what, as which chart and table, and how they are set on paper.
//!
//! The Compare screen edits one, a preset is a built-in one, a figure's file carries one, sessions and plans keep some,
//! and the command line takes one.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use strum::{EnumMessage, IntoStaticStr, VariantArray};

use super::number::capitalised;
use super::overrides::Overrides;
use super::palette::COLOURS;
use super::ratio::by_repeat;
use super::sibling::Against;
use super::style::Style;
use crate::analysis::{
    Cell, EQUAL_WITHIN, Key, Level, Measures, MetricUnit, Recording, Setting, Source, THROUGHPUT, TRACE_METRICS,
    measure_of, metric_measure,
};
use crate::plan::command::{CPU_TIME, PEAK_RESIDENT, PROGRAM_TIME};
use crate::plan::{Filter, Tracer, suggestion};

/// What cells are told apart by beside their factors.
pub const SETTINGS: [&str; 6] = ["session", "trace", "mode", "data", "cell", "workload"];
/// The measure that is made of two cells: throughput over the baseline's.
pub const SPEEDUP: &str = "speedup";
/// Its name, which says what it is of: speed-ups of times and of throughput differ.
pub(super) const SPEEDUP_NAME: &str = "Speed-up by throughput";
/// The measure that is made of two cells: how much longer steps are than the baseline's, as a share.
pub(super) const STEP_COST: &str = "step_cost";
/// Its name.
pub(super) const COST_NAME: &str = "Cost in step time";
/// The column of the chosen measure over the baseline's.
pub(super) const RATIO: &str = "ratio";
/// The column of verdicts on the column before it.
pub(super) const VERDICT: &str = "verdict";
/// The column that says whether a cell is on the Pareto front.
pub(super) const FRONT: &str = "front";
/// The columns of the measures that plans declare of their programs.
pub(super) const DECLARED: &str = "declared";
/// The measure that is shown unless another is asked for.
const USUAL_MEASURE: &str = "training_time_s";
/// What programs have that say nothing of their training: the time of a step before what their plan declares, times of the whole
/// after it.
pub(super) const OF_STEPS: &str = "step_time_s";
const OF_WHOLE: [&str; 2] = [PROGRAM_TIME, "total_time_s"];
/// Peaks of GPU memory, as the chart of them shows them.
pub(super) const MEMORY: [&str; 4] =
    ["peak_allocated_bytes", "peak_active_bytes", "peak_reserved_bytes", "peak_device_bytes"];
/// Measures that are drawn over epochs.
pub(super) const CURVES: [&str; 3] = ["train_loss", "test_loss", "accuracy"];

/// A kind of chart. The line that documents it is also its help.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, VariantArray, IntoStaticStr, EnumMessage,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Form {
    /// A measure as grouped bars.
    #[default]
    Bars,
    /// Losses and accuracy by epoch.
    Loss,
    /// A measure over GPUs beside its ideal, and the efficiency.
    Scaling,
    /// Peaks of GPU memory.
    Memory,
    /// Metrics of profilers' reports.
    Metrics,
    /// The effect of each level on a measure.
    Effects,
    /// Every repeat of every cell.
    Repeats,
    /// A measure over two factors as a field of colours.
    Map,
    /// Parts of a step's time: waiting for data, all else.
    Parts,
    /// What each rank of a run did when.
    Activity,
    /// All effects of levels and interactions of two factors, the largest first.
    Tornado,
    /// How the effect of one factor depends on another: means over all else.
    Interactions,
    /// Cells that no other betters in time, memory and energy at once.
    Pareto,
    /// The model's FLOP rate over its arithmetic intensity, below the measured rates of the devices.
    Roofline,
}

impl Form {
    /// All forms, in the order in which they are offered.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// The name in files and on the command line.
    pub fn key(self) -> &'static str {
        self.into()
    }

    /// The name on screen.
    pub fn name(self) -> String {
        capitalised(self.key())
    }

    /// One line: what it shows.
    pub fn help(self) -> &'static str {
        self.get_documentation().unwrap_or_default().trim_end_matches('.')
    }

    /// Whether it draws a measure that can be chosen.
    pub fn has_measure(self) -> bool {
        !matches!(self, Self::Memory | Self::Metrics | Self::Parts | Self::Activity | Self::Roofline)
    }

    /// Whether it shows effects of levels, not cells: so does its table.
    pub fn is_of_effects(self) -> bool {
        matches!(self, Self::Effects | Self::Tornado | Self::Interactions)
    }
}

/// Which runs are shown: tracing costs time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Runs {
    /// Those that no profiler recorded.
    #[default]
    Plain,
    /// Those that a profiler recorded too.
    All,
    /// Those with a profiler's report, and reports that stand alone.
    Traced,
}

/// The horizontal axis of losses. The line that documents it is also its help.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, VariantArray, EnumMessage)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Over {
    /// Epochs.
    #[strum(message = "Epochs")]
    #[default]
    Epochs,
    /// Steps, counted over the whole run.
    #[strum(message = "Steps")]
    Steps,
    /// Time spent in training.
    #[strum(message = "Training time")]
    Time,
}

impl Over {
    /// All axes.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// The name on screen.
    pub fn name(self) -> &'static str {
        self.get_message().unwrap_or_default()
    }
}

/// Limits within which the fastest cell is sought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The most memory that a GPU may have in use, in bytes.
    pub memory_bytes: Option<f64>,
    /// The least accuracy, as a share.
    pub accuracy: Option<f64>,
}

impl Limits {
    /// Whether there is one.
    pub fn is_set(&self) -> bool {
        self.memory_bytes.is_some() || self.accuracy.is_some()
    }
}

/// What stands on rows, on columns, or is told by colour; in files `auto`, `nothing` or a setting's key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "Key", into = "Key")]
pub enum Place {
    /// What suits the cells.
    #[default]
    Auto,
    /// Nothing.
    Nothing,
    /// The setting of this key.
    Setting(Key),
}

impl From<Key> for Place {
    fn from(key: Key) -> Self {
        match &*key {
            "auto" => Self::Auto,
            "nothing" => Self::Nothing,
            _ => Self::Setting(key),
        }
    }
}

impl From<Place> for Key {
    fn from(place: Place) -> Self {
        match place {
            Place::Auto => "auto".into(),
            Place::Nothing => "nothing".into(),
            Place::Setting(key) => key,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Key::from(self.clone()).fmt(f)
    }
}

/// What is shown of cells, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Study {
    /// Its name: a built-in one's, or what its user calls it; empty for one that nobody named.
    pub name: String,
    /// One line: what it shows; may be empty.
    pub about: String,
    /// The kind of chart.
    pub form: Form,
    /// Selection of runs by whether they were traced.
    pub runs: Runs,
    /// Filter of cells; see [`crate::plan::filter`]. Words match their levels.
    pub filter: String,
    /// Levels whose cells are left out: key and level.
    pub hidden: Vec<(Key, Level)>,
    /// Factors that are held at one level, key and level: cells with another one are left out. One that no cell has holds nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<(Key, Level)>,
    /// Levels in another order than the usual one, by their setting's key; levels that are not named follow.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<(Key, Vec<Level>)>,
    /// Colours of levels: a setting's key, its level, and the colour's place among [`super::COLOURS`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub colours: Vec<(Key, Level, u8)>,
    /// Groups of bars.
    pub rows: Place,
    /// Panels beside each other.
    pub columns: Place,
    /// Bars of a group, lines of a panel.
    pub colour: Place,
    /// The key of the measure that is drawn, [`SPEEDUP`] or `step_cost`; none: the form's usual one.
    pub measure: Option<Key>,
    /// Measures of the table in the order of columns; without any the chosen one, its ratio and check values.
    pub measures: Vec<Key>,
    /// One row of the table for each cell and epoch, not for each cell.
    pub by_epoch: bool,
    /// The cell that ratios are over: its id, or levels as `precision=fp32,gpus=1`; none: the first that has the measure. With
    /// `each workload=pytorch` every cell is held against the one with that level that is alike in all others.
    pub baseline: Option<String>,
    /// Ratios that are surely nearer to 1 than this share count as equal.
    pub equal_within: f64,
    /// Facts of what runs were made with, by their keys: repeats that differ in these alone are joined all the same.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pool: Vec<Key>,
    /// Limits within which the fastest cell is sought.
    pub limits: Limits,
    /// What losses are drawn over.
    pub over: Over,
    /// Keys of the profilers' metrics that are shown.
    pub metrics: Vec<Key>,
    /// What these are shown in.
    pub metric_unit: MetricUnit,
    /// A second chart shows them as shares of each other.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shares: bool,
    /// The axis of values is logarithmic.
    pub log: bool,
    /// The id of the paper's table or figure that it is of, whose numbers stand beside the measured ones: `2503.15252/table-2`.
    pub paper: Option<Key>,
    /// How it is set on paper.
    pub style: Style,
    /// What differs from the defaults in its figure.
    #[serde(skip_serializing_if = "Overrides::is_empty")]
    pub overrides: Overrides,
}

impl Default for Study {
    fn default() -> Self {
        Self {
            name: String::new(),
            about: String::new(),
            form: Form::default(),
            runs: Runs::default(),
            filter: String::new(),
            hidden: Vec::new(),
            held: Vec::new(),
            order: Vec::new(),
            colours: Vec::new(),
            rows: Place::Auto,
            columns: Place::Auto,
            colour: Place::Auto,
            measure: None,
            measures: Vec::new(),
            by_epoch: false,
            baseline: None,
            equal_within: EQUAL_WITHIN,
            pool: Vec::new(),
            limits: Limits::default(),
            over: Over::default(),
            // The papers' seven.
            metrics: TRACE_METRICS.iter().take(7).map(|metric| metric.key.into()).collect(),
            metric_unit: MetricUnit::Seconds,
            shares: false,
            log: false,
            paper: None,
            style: Style::default(),
            overrides: Overrides::default(),
        }
    }
}

impl Study {
    /// The same, with runs that a profiler recorded among the others.
    pub fn with_traced(self) -> Self {
        Self { runs: if self.runs == Runs::Plain { Runs::All } else { self.runs }, ..self }
    }

    /// The measure that is shown.
    pub fn shown_measure(&self) -> &str {
        self.measure.as_deref().unwrap_or(USUAL_MEASURE)
    }

    /// The shown measure, or the one of single cells that it is made of.
    pub(super) fn own_measure(&self) -> &str {
        match self.shown_measure() {
            SPEEDUP => THROUGHPUT,
            STEP_COST => OF_STEPS,
            key => key,
        }
    }

    /// The measure whose ratio to the baseline is shown.
    pub(super) fn ratio_of(&self) -> Key {
        match self.form {
            Form::Memory => MEMORY[0].into(),
            Form::Metrics => self.metric_measures().first().cloned().unwrap_or_else(|| MEMORY[0].into()),
            _ => self.own_measure().into(),
        }
    }

    /// The chosen metrics as measures. Shares of what is shown depend on the choice, which no run knows: tables have
    /// seconds.
    fn metric_measures(&self) -> Vec<Key> {
        let unit = if self.metric_unit == MetricUnit::OfShown { MetricUnit::Seconds } else { self.metric_unit };
        self.metrics.iter().filter_map(|key| metric_measure(key, unit)).map(|measure| measure.key.clone()).collect()
    }

    /// The table's measures.
    pub(super) fn table_measures(&self) -> Vec<Key> {
        let mut measures: Vec<Key> = match self.form {
            _ if !self.measures.is_empty() => {
                // One that was asked for is drawn, and belongs to the numbers.
                self.measures.iter().chain(&self.measure).cloned().collect()
            }
            Form::Metrics => self.metric_measures(),
            Form::Pareto => {
                let respects = [self.own_measure(), "peak_device_bytes", MEMORY[0], "energy_j", "accuracy", FRONT];
                respects.map(Key::from).to_vec()
            }
            Form::Memory => MEMORY.iter().copied().chain([RATIO]).chain(CHECKS).map(Key::from).collect(),
            _ if self.shown_measure() == SPEEDUP => [SPEEDUP].into_iter().chain(CHECKS).map(Key::from).collect(),
            _ if self.shown_measure() == STEP_COST => {
                [OF_STEPS, STEP_COST].into_iter().chain(CHECKS).map(Key::from).collect()
            }
            _ => [self.shown_measure(), RATIO].into_iter().chain(CHECKS).map(Key::from).collect(),
        };
        // A ratio has its verdict beside it.
        if let Some(place) = judged_ratio(&measures).filter(|_| !self.by_epoch) {
            measures.insert(place + 1, VERDICT.into());
        }
        if !self.by_epoch {
            let beside = |key: Key| {
                let verdict = Against::find(&key).map(Against::verdict_key);
                [key].into_iter().chain(verdict)
            };
            measures = measures.into_iter().flat_map(beside).collect();
        }
        let mut seen = Vec::new();
        measures.retain(|key| {
            let new = !seen.contains(key);
            seen.push(key.clone());
            new
        });
        measures
    }

    /// Whether a cell's runs are of the kind that is shown.
    pub(super) fn admits(&self, cell: &Cell) -> bool {
        match (self.form, self.runs) {
            // What ranks recorded themselves has no metrics of CUDA.
            (Form::Metrics, _) | (_, Runs::Traced) => {
                cell.runs.iter().any(|run| run.trace_summary().is_some_and(|trace| !trace.metrics.is_empty()))
            }
            (_, Runs::All) => cell.recording() != Recording::Report,
            (_, Runs::Plain) => cell.recording() == Recording::Plain,
        }
    }

    /// Its name as a file's.
    pub fn file_name(&self) -> String {
        let name = if self.name.is_empty() { self.form.key().to_owned() } else { self.name.clone() };
        let plain = |letter: char| if letter.is_alphanumeric() || "-_.".contains(letter) { letter } else { '-' };
        name.chars().map(plain).collect()
    }

    /// Whether the filter leaves every cell in.
    pub fn shows_all(&self) -> bool {
        self.hidden.is_empty() && self.held.is_empty() && self.filter.trim().is_empty()
    }

    /// Shows all cells.
    pub fn show_all(&mut self) {
        self.hidden.clear();
        self.held.clear();
        self.filter.clear();
    }

    /// Shows or hides the cells with a level of a setting.
    pub fn keep(&mut self, level: (Key, Level), keep: bool) {
        self.hidden.retain(|known| *known != level);
        self.hidden.extend((!keep).then_some(level));
    }

    /// The level that a factor is held at.
    pub fn held_level(&self, key: &str) -> Option<&Level> {
        self.held.iter().find(|(known, _)| *known == key).map(|(_, level)| level)
    }

    /// Holds a factor at a level, or lets it vary.
    pub fn hold(&mut self, key: Key, level: Option<Level>) {
        self.held.retain(|(known, _)| *known != key);
        self.held.extend(level.map(|level| (key, level)));
    }

    /// Puts the levels of a setting in this order; none for the usual one.
    pub fn put_in_order(&mut self, key: Key, levels: Vec<Level>) {
        self.order.retain(|(known, _)| *known != key);
        if !levels.is_empty() {
            self.order.push((key, levels));
        }
    }

    /// Gives a level the colour of this place among [`super::COLOURS`], or the usual one.
    pub fn paint(&mut self, key: Key, level: Level, place: Option<u8>) {
        self.colours.retain(|(known, other, _)| (known, other) != (&key, &level));
        self.colours.extend(place.map(|place| (key, level, place)));
    }

    /// A setting with the order and the colours that this study gives to its levels.
    pub(super) fn own(&self, setting: Setting) -> Setting {
        let order = self.order.iter().find(|(key, _)| *key == setting.key);
        let colours = self.colours.iter().filter(|(key, ..)| *key == setting.key);
        let colours: Vec<_> =
            colours.map(|(_, level, place)| (level.clone(), usize::from(*place) % COLOURS.len())).collect();
        Setting {
            order: order.map_or(Arc::default(), |(_, levels)| levels.as_slice().into()),
            colours: colours.into(),
            ..setting
        }
    }

    /// The study with levels that earlier versions called otherwise as they are called now.
    pub(super) fn with_names_of_now(mut self) -> Self {
        let rename = |key: &Key, level: &mut Level| {
            if *key == Tracer::KEY && level.as_text() == Some(Tracer::EARLIER_NSYS) {
                *level = Level::text(Tracer::Nsys.name());
            }
        };
        self.hidden.iter_mut().chain(&mut self.held).for_each(|(key, level)| rename(key, level));
        self.colours.iter_mut().for_each(|(key, level, _)| rename(key, level));
        self.order.iter_mut().for_each(|(key, levels)| levels.iter_mut().for_each(|level| rename(key, level)));
        self
    }

    /// Whether it leaves a cell out because of a factor that it holds; `all` are those that it is about.
    pub(super) fn holds_out(&self, cell: &Cell, all: &[Cell]) -> bool {
        self.held.iter().any(|(key, level)| {
            let has = |cell: &Cell| cell.level(key).as_ref() == Some(level);
            // A program's cells may lack the factor.
            cell.level(key).is_some() && !has(cell) && all.iter().any(has)
        })
    }

    /// The study without measures and metrics that nobody knows, and what it names that is not there, one line each; the
    /// baseline is told with the numbers.
    pub(super) fn known(&self, cells: &[Cell]) -> (Self, Vec<String>) {
        let mut known = self.clone();
        if cells.is_empty() {
            return (known, Vec::new());
        }
        let mut lines = self.missing(cells);
        if let Some(key) = known.measure.take_if(|key| !is_measure(cells, key)) {
            lines.push(format!("measure {key} is not known: {USUAL_MEASURE} is shown"));
        }
        // Programs that say nothing of their training have no usual measure: theirs is the time of a step, or of the whole.
        if known.measure.as_deref().is_none_or(|key| key == USUAL_MEASURE) && known.form != Form::Loss {
            known.measure = known.opening_measure(cells).or(known.measure);
        }
        for key in known.measures.extract_if(.., |key| !is_column(cells, key)) {
            lines.push(format!("measure {key} is not known: its column is left out"));
        }
        for key in known.metrics.extract_if(.., |key| metric_measure(key, MetricUnit::Seconds).is_none()) {
            lines.push(format!("metric {key} is not known: it is left out"));
        }
        (known, lines)
    }

    /// The measure to show of cells that have no [`USUAL_MEASURE`]; none where they have it, or no value at all.
    fn opening_measure(&self, cells: &[Cell]) -> Option<Key> {
        let has = |key: &Key| cells.iter().any(|cell| self.admits(cell) && !by_repeat(cell, key).is_empty());
        if has(&USUAL_MEASURE.into()) {
            return None;
        }
        std::iter::once(OF_STEPS.into()).chain(declared(cells)).chain(OF_WHOLE.map(Key::from)).find(has)
    }

    /// Factors and levels that it names and no cell has.
    fn missing(&self, cells: &[Cell]) -> Vec<String> {
        // What cells have only beside others is no news where it is lacking.
        let is_there = |key: &str| SETTINGS.contains(&key) || cells.iter().any(|cell| cell.level(key).is_some());
        let keys: BTreeSet<&str> = SETTINGS
            .into_iter()
            .chain(cells.iter().flat_map(|cell| cell.levels.iter().map(|(key, _)| &**key)))
            .collect();
        let keys: Vec<&str> = keys.into_iter().collect();
        let mut lines = Vec::new();
        for (name, place) in [("rows", &self.rows), ("columns", &self.columns), ("colour", &self.colour)] {
            if let Place::Setting(key) = place
                && !is_there(key)
            {
                lines.push(format!("{name} = {key}: no cell has this factor"));
            }
        }
        let filter = Filter::typed(&self.filter).unwrap_or_default();
        let levels = |key: &str| {
            let mut levels: Vec<Level> = cells.iter().filter_map(|cell| cell.level(key)).collect();
            levels.sort();
            levels.dedup();
            levels
        };
        for (key, value) in filter.unmet(levels) {
            let known: Vec<String> = levels(key).iter().map(ToString::to_string).collect();
            if !known.is_empty() && !SETTINGS.contains(&key) {
                lines.push(format!("filter: no cell has {key} = {value}{}", suggestion(value, &known)));
            }
        }
        for key in filter.keys() {
            if !is_there(key) && !is_there(&key.to_lowercase()) && key != "gpu" {
                lines.push(format!("filter: no cell has {key}{}", suggestion(key, &keys)));
            }
        }
        for (key, level) in self.hidden.iter().filter(|(key, _)| *key != "session") {
            if !cells.iter().any(|cell| cell.level(key).as_ref() == Some(level)) {
                lines.push(format!("hidden {key} = {level}: no cell has it"));
            }
        }
        for (key, level) in &self.held {
            if !cells.iter().any(|cell| cell.level(key).as_ref() == Some(level)) {
                lines.push(format!("held at {key} = {level}: no cell has it, so that all levels are shown"));
            }
        }
        lines
    }
}

/// Values that show that two cells did the same work.
const CHECKS: [&str; 4] = [THROUGHPUT, MEMORY[0], "train_loss", "accuracy"];

/// The measures that plans declare of their programs, each once.
pub(super) fn declared(cells: &[Cell]) -> Vec<Key> {
    let own = [PROGRAM_TIME, CPU_TIME, PEAK_RESIDENT];
    let programs = cells.iter().filter(|cell| cell.workload.command.is_some());
    let keys = programs.flat_map(|cell| &cell.workload.measures).map(|measure| &measure.key);
    let mut declared: Vec<Key> = Vec::new();
    for key in keys.filter(|key| !own.contains(&&***key)) {
        if !declared.contains(key) {
            declared.push(key.clone());
        }
    }
    declared
}

/// Whether a measure can be drawn.
fn is_measure(cells: &[Cell], key: &str) -> bool {
    [SPEEDUP, STEP_COST].contains(&key) || measure_of(cells, key).is_some()
}

/// The place of the ratio that verdicts are on: the one by the shown measure, or else the first.
pub(super) fn judged_ratio(measures: &[Key]) -> Option<usize> {
    let place = |known: &[&str]| measures.iter().position(|key| known.contains(&&**key));
    place(&[RATIO]).or_else(|| place(&[SPEEDUP, STEP_COST]))
}

/// Whether a column of this key holds verdicts.
pub(super) fn is_verdict(key: &str) -> bool {
    key == VERDICT || Against::of_verdict(key).is_some()
}

/// Whether a table can have a column of this key.
fn is_column(cells: &[Cell], key: &str) -> bool {
    [RATIO, FRONT, DECLARED].contains(&key) || is_verdict(key) || is_measure(cells, key) || Against::find(key).is_some()
}

/// The measures of these runs that can be drawn: their keys and names, in the order of columns.
pub fn known_measures(sources: &[Source]) -> Vec<(Key, String)> {
    let runs = || sources.iter().flat_map(|source| source.runs);
    let mut registries: Vec<&Arc<Measures>> = Vec::new();
    for run in runs() {
        if !registries.iter().any(|known| Arc::ptr_eq(known, &run.measures)) {
            registries.push(&run.measures);
        }
    }
    if registries.is_empty() {
        registries.push(Measures::built_in());
    }
    let mut measures: Vec<(Key, String)> = Vec::new();
    for measure in registries.into_iter().flat_map(|registry| registry.iter()) {
        if measures.iter().all(|(key, _)| *key != measure.key) {
            measures.push((measure.key.clone(), measure.name.clone()));
        }
    }
    measures.extend([(SPEEDUP, SPEEDUP_NAME), (STEP_COST, COST_NAME)].map(|(key, name)| (key.into(), name.to_owned())));
    measures
}
