//! A study: which cells are shown and compared with which baseline, as which chart and table, in which style.
//!
//! The Compare screen edits a study, presets are built-in studies, a figure's file contains one, sessions and plans store some, and the
//! command line accepts one.

mod form;
mod known;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::overrides::Overrides;
use super::palette::COLOURS;
use super::sibling::Against;
use super::style::Style;
use crate::analysis::{
    Cell, EQUAL_WITHIN, Key, Level, MetricUnit, OCCASION_FACTS, Recording, Setting, THROUGHPUT, TRACE_METRICS,
    metric_measure,
};
use crate::plan::{Tracer, is_default};

pub use form::{Along, Form, Law, Over};
pub(super) use known::{declared, is_measure, is_measured, is_number};
pub use known::{known_measures, recorded_names};

/// The key of a measure that is computed from two cells: throughput divided by the baseline's.
pub const SPEEDUP: &str = "speedup";
/// Its name, which includes throughput because speed-ups of times can be different.
pub(super) const SPEEDUP_NAME: &str = "Speed-up by throughput";
/// The key of a measure that is computed from two cells: how much longer steps are than the baseline's, as a share.
pub(super) const STEP_COST: &str = "step_cost";
/// Its name.
pub(super) const COST_NAME: &str = "Cost in step time";
/// The column of the chosen measure divided by the baseline's.
pub(super) const RATIO: &str = "ratio";
/// The column of verdicts on the previous column.
pub(super) const VERDICT: &str = "verdict";
/// The column that says whether a cell is on the Pareto front.
pub(super) const FRONT: &str = "front";
/// The column with the changes of a measure's level over sessions.
pub(super) const CHANGE: &str = "change";
/// The column with the two sessions between which a change happened.
pub(super) const CHANGE_PLACE: &str = "change_place";
/// The columns of the measures that plans declare for their programs.
pub(super) const DECLARED: &str = "declared";
/// The measure that is shown unless another measure is chosen.
const USUAL_MEASURE: &str = "training_time_s";
/// The most bytes of a name for files: systems allow 255, and endings follow.
const MOST_FILE_NAME_BYTES: usize = 180;
/// The step time. It is the first measure to show for programs that do not report their training.
pub(super) const OF_STEPS: &str = "step_time_s";
/// Peaks of GPU memory, as the chart of them shows them.
pub(super) const MEMORY: [&str; 4] =
    ["peak_allocated_bytes", "peak_active_bytes", "peak_reserved_bytes", "peak_device_bytes"];
/// Measures that are drawn over epochs.
pub(super) const CURVES: [&str; 3] = ["train_loss", "test_loss", "accuracy"];

/// Which runs are shown. Traced runs are usually left out, because tracing costs time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Runs {
    /// Runs that no profiler recorded.
    #[default]
    Plain,
    /// All runs, including those that a profiler recorded.
    All,
    /// Runs with a profiler's report, and separate reports.
    Traced,
}

/// Limits for the search of the fastest cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The maximum GPU memory in use, in bytes.
    pub memory_bytes: Option<f64>,
    /// The minimum accuracy, as a share.
    pub accuracy: Option<f64>,
}

impl Limits {
    /// Whether any limit is set.
    pub fn is_set(&self) -> bool {
        self.memory_bytes.is_some() || self.accuracy.is_some()
    }
}

/// The setting on rows, on columns, or shown by colours: in files `auto`, `nothing` or a setting's key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "Key", into = "Key")]
pub enum Place {
    /// Chosen to suit the cells.
    #[default]
    Auto,
    /// Nothing.
    Nothing,
    /// The setting with this key.
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

/// A study: which cells and measures are shown, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Study {
    /// Its name: the name of a built-in study, or a name that a user gave; empty if it has none.
    pub name: String,
    /// One line that says what it shows; may be empty.
    pub about: String,
    /// The kind of chart.
    pub form: Form,
    /// Which runs are shown.
    pub runs: Runs,
    /// Filter of cells; see [`crate::plan::filter`]. Words match their levels.
    pub filter: String,
    /// Levels whose cells are left out: key and level.
    pub hidden: Vec<(Key, Level)>,
    /// Factors that are fixed at one level, as key and level: cells with other levels are left out. A level that no cell has fixes
    /// nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<(Key, Level)>,
    /// Levels in another than the usual order, by their setting's key. Levels that are not listed come after these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<(Key, Vec<Level>)>,
    /// Colours of levels: a setting's key, its level, and the colour's index in [`super::COLOURS`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub colours: Vec<(Key, Level, u8)>,
    /// Groups of bars.
    pub rows: Place,
    /// Panels next to each other.
    pub columns: Place,
    /// Bars within a group, or lines within a panel.
    pub colour: Place,
    /// The key of the measure that is drawn, [`SPEEDUP`] or `step_cost`; `None` for the form's usual one.
    pub measure: Option<Key>,
    /// In the form `scatter`: the key of the measure, or of the factor that is a number, on the x axis; `None` for a usual one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub across: Option<Key>,
    /// In the form `scatter`: the law that is fitted.
    #[serde(skip_serializing_if = "is_default")]
    pub law: Law,
    /// In the form `history`: the order of sessions.
    #[serde(skip_serializing_if = "is_default")]
    pub along: Along,
    /// Measures of the table in the order of columns. If empty: the chosen measure, its ratio and check values.
    pub measures: Vec<Key>,
    /// Whether the table has one row for each cell and epoch instead of one for each cell.
    pub by_epoch: bool,
    /// The baseline of ratios: a cell's id, or levels such as `precision=fp32,gpus=1`; `None` for the first cell that has the measure.
    /// With `each workload=pytorch`, each cell is compared with the cell that has this level and is equal in all other settings.
    pub baseline: Option<String>,
    /// Ratios that are certainly closer to 1 than this share count as equal.
    pub equal_within: f64,
    /// Facts about what runs were made with, by key: repeats that differ only in these facts are pooled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pool: Vec<Key>,
    /// Limits within which the fastest cell is sought.
    pub limits: Limits,
    /// The horizontal axis of losses.
    pub over: Over,
    /// Keys of the profilers' metrics that are shown.
    pub metrics: Vec<Key>,
    /// The unit in which they are shown.
    pub metric_unit: MetricUnit,
    /// Whether a second chart shows them as shares of their sum.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shares: bool,
    /// Whether the axis of values is logarithmic.
    pub log: bool,
    /// The id of a paper's table or figure whose values are shown next to the measured ones: `2503.15252/table-2`.
    pub paper: Option<Key>,
    /// The style of figures.
    pub style: Style,
    /// An author's changes to its figure.
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
            across: None,
            law: Law::Nothing,
            along: Along::Dates,
            measures: Vec::new(),
            by_epoch: false,
            baseline: None,
            equal_within: EQUAL_WITHIN,
            pool: Vec::new(),
            limits: Limits::default(),
            over: Over::default(),
            // The papers' seven metrics.
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
    /// This study, including runs that a profiler recorded.
    pub fn with_traced(self) -> Self {
        Self { runs: if self.runs == Runs::Plain { Runs::All } else { self.runs }, ..self }
    }

    /// The keys of facts about runs that differ in every study of this form, so that no note says that they do.
    pub(super) fn differing_facts(&self) -> &'static [&'static str] {
        if self.form == Form::History { &OCCASION_FACTS } else { &[] }
    }

    /// The measure that is shown.
    pub fn shown_measure(&self) -> &str {
        self.measure.as_deref().unwrap_or(USUAL_MEASURE)
    }

    /// The key that it names for the x axis of the form `scatter`; `None` in other forms.
    pub fn named_across(&self) -> Option<&Key> {
        self.across.as_ref().filter(|_| self.form == Form::Scatter)
    }

    /// The measures that it names, each once: the drawn one, the one on the x axis, and the columns of its table.
    pub fn named_measures(&self) -> Vec<&Key> {
        let mut named: Vec<&Key> = Vec::new();
        for key in self.measure.iter().chain(self.named_across()).chain(&self.measures) {
            if !named.contains(&key) {
                named.push(key);
            }
        }
        named
    }

    /// The key of the measure or factor on the x axis of the form `scatter`.
    pub(super) fn shown_across(&self) -> &str {
        self.across.as_deref().unwrap_or("peak_device_bytes")
    }

    /// The shown measure; if it is computed from two cells, the measure of single cells that it uses.
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

    /// The chosen metrics as measures in the study's unit. If this unit is the share of the shown metrics, the measures are in seconds: such
    /// a share depends on which metrics are chosen, so it is no measure of a run.
    fn metric_measures(&self) -> Vec<Key> {
        let unit = if self.metric_unit == MetricUnit::OfShown { MetricUnit::Seconds } else { self.metric_unit };
        self.metrics.iter().filter_map(|key| metric_measure(key, unit)).map(|measure| measure.key.clone()).collect()
    }

    /// The table's measures.
    pub(super) fn table_measures(&self) -> Vec<Key> {
        let mut measures: Vec<Key> = match self.form {
            _ if !self.measures.is_empty() => {
                // A measure that was chosen for the chart is also in the table.
                self.measures.iter().chain(&self.measure).cloned().collect()
            }
            Form::Metrics => self.metric_measures(),
            Form::Pareto => {
                let respects = [self.own_measure(), "peak_device_bytes", MEMORY[0], "energy_j", "accuracy", FRONT];
                respects.map(Key::from).to_vec()
            }
            Form::Scatter => {
                let shown = [self.shown_measure(), RATIO, self.shown_across()];
                shown.into_iter().chain(CHECKS).map(Key::from).collect()
            }
            Form::History => {
                [self.own_measure(), CHANGE, CHANGE_PLACE].into_iter().chain(CHECKS).map(Key::from).collect()
            }
            Form::Memory => MEMORY.iter().copied().chain([RATIO]).chain(CHECKS).map(Key::from).collect(),
            _ if self.shown_measure() == SPEEDUP => [SPEEDUP].into_iter().chain(CHECKS).map(Key::from).collect(),
            _ if self.shown_measure() == STEP_COST => {
                [OF_STEPS, STEP_COST].into_iter().chain(CHECKS).map(Key::from).collect()
            }
            _ => [self.shown_measure(), RATIO].into_iter().chain(CHECKS).map(Key::from).collect(),
        };
        // A ratio has its verdict in the next column.
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

    /// Whether a cell's runs are of the kind that the study shows.
    pub(super) fn admits(&self, cell: &Cell) -> bool {
        match (self.form, self.runs) {
            // Recordings by the ranks themselves contain no metrics of CUDA.
            (Form::Metrics, _) | (_, Runs::Traced) => {
                cell.runs.iter().any(|run| run.trace_summary().is_some_and(|trace| !trace.metrics.is_empty()))
            }
            // Other runs have no such measure.
            _ if cell.runs.iter().any(|run| run.measures.is_of_reports(self.shown_measure())) => {
                cell.runs.iter().any(|run| run.trace_summary().is_some())
            }
            (_, Runs::All) => cell.recording() != Recording::Report,
            (_, Runs::Plain) => cell.recording() == Recording::Plain,
        }
    }

    /// A name for files, made from its name: its beginning, if it is long.
    pub fn file_name(&self) -> String {
        let name = if self.name.is_empty() { self.form.key().to_owned() } else { self.name.clone() };
        let plain = |letter: char| if letter.is_alphanumeric() || "-_.".contains(letter) { letter } else { '-' };
        let mut name: String = name.chars().map(plain).collect();
        name.truncate(name.floor_char_boundary(MOST_FILE_NAME_BYTES));
        name
    }

    /// Whether the filter hides no cell.
    pub fn shows_all(&self) -> bool {
        self.hidden.is_empty() && self.held.is_empty() && self.filter.trim().is_empty()
    }

    /// Shows another measure. Changes to the axis of the previous measure do not fit the new measure and are removed.
    pub fn show_measure(&mut self, measure: Option<Key>) {
        if self.measure != measure {
            self.measure = measure;
            self.overrides.forget_values();
        }
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

    /// The level at which a factor is fixed.
    pub fn held_level(&self, key: &str) -> Option<&Level> {
        self.held.iter().find(|(known, _)| *known == key).map(|(_, level)| level)
    }

    /// Fixes a factor at a level, or lets it vary.
    pub fn hold(&mut self, key: Key, level: Option<Level>) {
        self.held.retain(|(known, _)| *known != key);
        self.held.extend(level.map(|level| (key, level)));
    }

    /// Sets the order of a setting's levels; an empty list restores the usual order.
    pub fn put_in_order(&mut self, key: Key, levels: Vec<Level>) {
        self.order.retain(|(known, _)| *known != key);
        if !levels.is_empty() {
            self.order.push((key, levels));
        }
    }

    /// Sets the colour of a level, by its index in [`super::COLOURS`], or restores the usual one.
    pub fn paint(&mut self, key: Key, level: Level, place: Option<u8>) {
        self.colours.retain(|(known, other, _)| (known, other) != (&key, &level));
        self.colours.extend(place.map(|place| (key, level, place)));
    }

    /// A setting with this study's order and colours of levels.
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

    /// The study with the present names of levels whose names differed in earlier versions.
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

    /// Whether the study leaves a cell out because of a fixed factor. `all` are the cells of the study.
    pub(super) fn holds_out(&self, cell: &Cell, all: &[Cell]) -> bool {
        self.held.iter().any(|(key, level)| {
            let has = |cell: &Cell| cell.level(key).as_ref() == Some(level);
            // Cells of a program may lack the factor.
            cell.level(key).is_some() && !has(cell) && all.iter().any(has)
        })
    }
}

/// Values that show whether two cells did the same work.
const CHECKS: [&str; 4] = [THROUGHPUT, MEMORY[0], "train_loss", "accuracy"];

/// The index of the ratio that verdicts judge: the ratio in the shown measure, or else the first ratio.
pub(super) fn judged_ratio(measures: &[Key]) -> Option<usize> {
    let place = |known: &[&str]| measures.iter().position(|key| known.contains(&&**key));
    place(&[RATIO]).or_else(|| place(&[SPEEDUP, STEP_COST]))
}

/// Whether a column with this key contains verdicts.
pub(super) fn is_verdict(key: &str) -> bool {
    key == VERDICT || Against::of_verdict(key).is_some()
}
