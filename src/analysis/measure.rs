//! The registry of measures: the name, unit and meaning of each measure, and how its readings become one number for a run.

mod built_in;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::metric::{MetricUnit, key_in};
use super::recorded::{RecordedMeasure, RecordedStatistic};
use crate::plan::{Better, DeclaredMeasure, Key, USUAL_STEP, WorkloadSpec, command, usual_workload};
use crate::protocol::MOST_STEPS;

/// The key that studies use for the distinct units per second, whatever a workload counts: `images_per_s` for images.
pub const THROUGHPUT: &str = "throughput";
/// Longest possible time: 30 years.
const MOST_S: f64 = 1e9;
/// Most possible memory.
const MOST_BYTES: f64 = 1e18;
/// The possible values of a share.
const SHARE: (f64, f64) = (0.0, 1.0);
/// The possible values of a count: larger ones are not exact.
const COUNT: (f64, f64) = (0.0, MOST_STEPS as f64);
/// The key of the number of epochs until a run reaches [`GOAL`].
pub(super) const EPOCHS_TO_GOAL: &str = "epochs_to_98_percent";
/// The accuracy that both papers aim at (2503.15252 section 3.3, 2505.22905 section 4.1): the lower end of their 98-99 %.
pub(super) const GOAL: f64 = 0.98;
/// The key of the share of time in which a kernel ran (NVML).
pub(super) const GPU_BUSY: &str = "gpu_busy";
/// The key of the share of multiprocessor cycles with a warp on them (GPM).
pub(super) const SM_ACTIVITY: &str = "sm_activity";
/// The key of the share of cycles in which tensor cores worked (GPM).
pub(super) const TENSOR_ACTIVITY: &str = "tensor_activity";
/// The key of the share of cycles in which the FP64 pipe worked (GPM).
pub(super) const FP64_ACTIVITY: &str = "fp64_activity";
/// The key of the share of cycles in which the FP32 pipe worked (GPM).
pub(super) const FP32_ACTIVITY: &str = "fp32_activity";
/// The key of the share of cycles in which the FP16 pipe worked, tensor cores apart (GPM).
pub(super) const FP16_ACTIVITY: &str = "fp16_activity";
/// The key of the share of cycles in which the integer pipe worked (GPM).
pub(super) const INT_ACTIVITY: &str = "int_activity";
/// The key of the share of the memory's bandwidth in use (GPM).
pub(super) const DRAM_ACTIVITY: &str = "dram_activity";
/// The key of the bytes received over all NVLinks per second (GPM).
pub(super) const NVLINK_RECEIVE: &str = "nvlink_receive_bytes_per_s";
/// The key of the bytes sent over all NVLinks per second (GPM).
pub(super) const NVLINK_SEND: &str = "nvlink_send_bytes_per_s";
/// The keys of the measures that only GPM provides.
pub(super) const OF_GPM: [&str; 9] = [
    SM_ACTIVITY,
    TENSOR_ACTIVITY,
    FP64_ACTIVITY,
    FP32_ACTIVITY,
    FP16_ACTIVITY,
    INT_ACTIVITY,
    DRAM_ACTIVITY,
    NVLINK_RECEIVE,
    NVLINK_SEND,
];
/// The key of the step time.
const STEP_TIME: &str = "step_time_s";

/// The keys of the measures that multicard measures itself, whatever times a program reports.
const TIMED_HERE: [&str; 5] = ["total_time_s", "energy_j", "steady_energy_j", "energy_per_unit_j", "power_w"];

/// Whether multicard measures this key itself, so that no program may report it.
pub fn is_measured_here(key: &str) -> bool {
    TIMED_HERE.contains(&key) || command::OUTSIDE.contains(&key)
}

/// How the values of ranks become one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OverRanks {
    /// The maximum.
    Max,
    /// The sum.
    Sum,
    /// The mean, weighted by the units that each rank processed; the plain mean if no rank reports units.
    MeanByUnits,
    /// The value of the first rank that has one, since all ranks report the same.
    First,
    /// The value of the rank whose steady steps took longest in total.
    Slowest,
}

/// How the values of a run's epochs or steps become one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OverTime {
    /// The value of the last epoch; without epochs, the last value.
    Last,
    /// The value of the last epoch that has losses: a value, or a step with a loss. Without epochs, the last value.
    LastWithLoss,
    /// The median of all.
    Median,
    /// The median over epochs without warm-up steps; if each epoch has some, over all epochs, which is marked.
    MedianOfSteady,
    /// The maximum.
    Max,
    /// The sum.
    Sum,
}

/// The source of a measure's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Readings of ranks under the measure's key: first over ranks, then over time.
    Readings(OverRanks, OverTime),
    /// Computed from steps, telemetry, the journal or a profiler's report.
    Derived,
}

/// How a measure changes ideally with more GPUs. Batches are per GPU: a step takes the same time, and an epoch has fewer steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scaling {
    /// It grows in proportion to the GPUs.
    Linear,
    /// It shrinks in proportion to the GPUs.
    Inverse,
    /// It stays the same.
    Constant,
    /// There is no ideal value.
    None,
}

/// One measure of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// The key in files.
    pub key: Key,
    /// The name on paper and on screen.
    pub name: String,
    /// The unit in files; empty for a plain number.
    pub unit: String,
    /// The unit on paper and on screen.
    pub shown_unit: String,
    /// The factor from `unit` to `shown_unit`.
    pub shown_factor: f64,
    /// Which values are good.
    pub better: Better,
    /// Whether it depends on the speed of the machine, so that other runs at the same time affect it.
    pub on_speed: bool,
    /// The source of its values.
    pub origin: Origin,
    /// How it changes ideally with more GPUs.
    pub scaling: Scaling,
    /// The smallest and the largest possible value; other values are left out and marked.
    pub possible: (f64, f64),
    /// Whether it is a formula with a part whose values may be rounded.
    pub has_inexact_part: bool,
    /// Whether its values, or those of a part of its formula, are of steady steps only, so that they depend on which steps are warm-up.
    pub is_of_steady_steps: bool,
    /// The steps with which a file writes its values; see [`DeclaredMeasure::written_steps`].
    pub written_steps: Option<Arc<BTreeMap<String, f64>>>,
    /// The cells in which its values, or those of a part of its formula, recur; see [`DeclaredMeasure::recurring_cells`].
    pub recurring_cells: Arc<BTreeSet<String>>,
    /// The cells in which its values, or those of a part of its formula, depend on each other; see [`DeclaredMeasure::dependent_cells`].
    pub dependent_cells: Arc<BTreeSet<String>>,
}

impl Measure {
    /// A measure that has a key but no entry here: its value is the last one of the first rank that reports one.
    pub fn new(key: impl Into<Key>) -> Self {
        let key = key.into();
        Self {
            name: key.to_string(),
            key,
            unit: String::new(),
            shown_unit: String::new(),
            shown_factor: 1.0,
            better: Better::Neither,
            on_speed: false,
            origin: Origin::Readings(OverRanks::First, OverTime::Last),
            scaling: Scaling::None,
            possible: (f64::MIN, f64::MAX),
            has_inexact_part: false,
            is_of_steady_steps: false,
            written_steps: None,
            recurring_cells: Arc::default(),
            dependent_cells: Arc::default(),
        }
    }

    /// Whether a value is possible for it. Values that are not finite are rejected elsewhere, when runs are summarised.
    pub fn is_possible(&self, value: f64) -> bool {
        !value.is_finite() || (self.possible.0..=self.possible.1).contains(&value)
    }

    fn named(key: impl Into<Key>, name: impl Into<String>, unit: &str) -> Self {
        Self { name: name.into(), unit: unit.to_owned(), shown_unit: unit.to_owned(), ..Self::new(key) }
    }

    /// A time in seconds.
    pub(super) fn time(key: impl Into<Key>, name: impl Into<String>) -> Self {
        let possible = (0.0, MOST_S);
        Self { better: Better::Lower, on_speed: true, origin: Origin::Derived, possible, ..Self::named(key, name, "s") }
    }

    /// A plain number.
    fn plain(key: &str, name: &str) -> Self {
        Self::named(key, name, "")
    }

    /// A computed share, shown in percent.
    fn share(key: &str, name: &str) -> Self {
        Self { shown_unit: "%".to_owned(), shown_factor: 100.0, ..Self::derived(key, name, "") }
    }

    fn bytes(key: &str, name: &str) -> Self {
        let (shown_unit, shown_factor, possible) = ("GB".to_owned(), 1e-9, (0.0, MOST_BYTES));
        Self { shown_unit, shown_factor, better: Better::Lower, possible, ..Self::named(key, name, "B") }
    }

    /// A measure that a workload declares: the last value of the first rank that reports one.
    pub(super) fn declared(declared: &DeclaredMeasure) -> Self {
        let DeclaredMeasure { key, name, unit, better, on_speed, written_steps, recurring_cells, dependent_cells } =
            declared;
        let measure = if &**unit == "B" { Self::bytes(key, name) } else { Self::named(&**key, &**name, unit) };
        let written_steps = written_steps.clone().map(Arc::new);
        let measure = Self {
            better: *better,
            on_speed: *on_speed,
            written_steps,
            recurring_cells: Arc::new(recurring_cells.clone()),
            dependent_cells: Arc::new(dependent_cells.clone()),
            ..measure
        };
        // What is measured of every program is measured on each of its nodes.
        match key.as_str() {
            command::PROGRAM_TIME => measure.read(OverRanks::Max, OverTime::Last),
            command::CPU_TIME | command::PEAK_RESIDENT => measure.read(OverRanks::Sum, OverTime::Last),
            _ => measure,
        }
    }

    fn read(self, ranks: OverRanks, time: OverTime) -> Self {
        Self { origin: Origin::Readings(ranks, time), ..self }
    }

    pub(super) fn derived(key: impl Into<Key>, name: impl Into<String>, unit: &str) -> Self {
        Self { origin: Origin::Derived, ..Self::named(key, name, unit) }
    }

    /// A measure of recordings by pattern.
    fn of_recordings(key: &str, recorded: &RecordedMeasure) -> Self {
        use RecordedStatistic::{Count, Mean, Share, Total, Wall};
        let (unit, shown_unit, shown_factor) = match recorded.statistic {
            Total if recorded.per_step => ("s", "ms", 1e3),
            Total => ("s", "s", 1.0),
            Mean => ("s", "µs", 1e6),
            Count => ("", "", 1.0),
            Share | Wall => ("", "%", 100.0),
        };
        Self {
            shown_unit: shown_unit.to_owned(),
            shown_factor,
            on_speed: matches!(recorded.statistic, Total | Mean),
            scaling: if recorded.per_step && recorded.per_rank { Scaling::Constant } else { Scaling::None },
            better: if matches!(recorded.statistic, Share | Wall) { Better::Neither } else { Better::Lower },
            ..Self::derived(key, recorded.name(), unit)
        }
    }

    fn better(self, better: Better) -> Self {
        Self { better, ..self }
    }

    fn scaling(self, scaling: Scaling) -> Self {
        Self { scaling, ..self }
    }

    /// Whether its values are times. Ratios of times are inverted: twice as fast is 2. Seconds do not count as times if more of them are better,
    /// or if nothing says which are better, such as the life of a battery.
    pub fn is_time(&self) -> bool {
        let is_cost = self.better == Better::Lower || self.better == Better::Neither && self.on_speed;
        self.unit == "s" && is_cost
    }

    /// Whether the clock that timed a run's steps, which may be its program's, gives its values.
    pub fn is_told(&self) -> bool {
        self.on_speed && !TIMED_HERE.contains(&&*self.key)
    }

    /// Whether its values have all their digits: counts, bytes, and what multicard computes itself. A program or a file may have rounded
    /// other values.
    pub(super) fn is_exact(&self) -> bool {
        let is_computed = self.origin == Origin::Derived && !self.has_inexact_part;
        is_computed || self.possible == COUNT || ["B", "count"].contains(&&*self.unit)
    }

    /// Whether its ratios (inverted for times) are speeds, so that above 1 means faster.
    pub fn is_speed(&self) -> bool {
        self.is_time() || self.on_speed && self.better == Better::Higher
    }

    /// Whether its value in each epoch describes the run up to that epoch, as for losses and accuracy.
    pub fn is_of_epochs(&self) -> bool {
        matches!(self.origin, Origin::Readings(_, OverTime::Last | OverTime::LastWithLoss))
    }
}

/// The measures of a kind of run, in the order of columns: the built-in ones, and those that come with a plan.
#[derive(Clone, Debug)]
pub struct Measures {
    /// The units that steps process: `images`, `tokens`.
    units: Arc<str>,
    /// The word for a step: `step`, `iteration`.
    step: Arc<str>,
    /// The key of the distinct units per second: `images_per_s`.
    pub(super) distinct_rate: Key,
    /// The key of the units of all ranks per second: `processed_images_per_s`.
    pub(super) processed_rate: Key,
    /// The measures that can be chosen.
    list: Vec<Measure>,
    /// The measures from profilers' reports: metrics in each of their units, bytes of copies.
    metrics: Vec<Measure>,
}

// Most runs share their registry.
impl PartialEq for Measures {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || (&self.list, &self.metrics) == (&other.list, &other.metrics)
    }
}

impl Measures {
    /// The measures of runs whose steps process `units`: `images`, `tokens`.
    pub fn of_units(units: &str) -> Self {
        Self::of_steps(units, USUAL_STEP)
    }

    /// The measures of a workload whose steps are called `step`.
    fn of_steps(units: &str, step: &str) -> Self {
        let [distinct_rate, processed_rate] =
            ["", "processed_"].map(|which| Key::from(format!("{which}{units}_per_s")));
        let list = built_in::list(units, step, [&distinct_rate, &processed_rate]);
        let metrics = built_in::metric_measures();
        Self { units: units.into(), step: step.into(), distinct_rate, processed_rate, list, metrics }
    }

    /// The measures of image runs.
    pub fn built_in() -> &'static Arc<Self> {
        static BUILT_IN: LazyLock<Arc<Measures>> =
            LazyLock::new(|| Arc::new(Measures::of_units(&usual_workload().unit.many)));
        &BUILT_IN
    }

    /// The measures of a workload's runs, including those that the workload declares. Workloads with the same measures get the same
    /// value.
    pub fn of_workload(spec: &WorkloadSpec) -> Arc<Self> {
        type Known = Vec<(Vec<DeclaredMeasure>, Arc<Measures>)>;
        static OTHERS: Mutex<Known> = Mutex::new(Vec::new());
        let (units, step) = (&spec.unit.many, &spec.step);
        let names = |known: &Self| (&known.units, &known.step) == (units, step);
        if names(Self::built_in()) && spec.measures.is_empty() {
            return Arc::clone(Self::built_in());
        }
        let mut others = OTHERS.lock().unwrap_or_else(PoisonError::into_inner);
        let known = others.iter().find(|(declared, known)| names(known) && *declared == spec.measures);
        if let Some((_, measures)) = known {
            return Arc::clone(measures);
        }
        let measures = Arc::new(Self::of_steps(units, step).with(spec.measures.iter().map(Measure::declared)));
        others.push((spec.measures.clone(), Arc::clone(&measures)));
        measures
    }

    /// These measures and further ones; one with a known key replaces that measure.
    pub fn with(mut self, more: impl IntoIterator<Item = Measure>) -> Self {
        for measure in more {
            match self.list.iter_mut().find(|known| known.key == measure.key) {
                // A declaration that only names a built-in measure, such as an accuracy without a unit, keeps the built-in one.
                Some(known) if known.unit == measure.unit => *known = Measure { possible: known.possible, ..measure },
                Some(known) => *known = measure,
                None => self.list.push(measure),
            }
        }
        self
    }

    /// The measures that can be chosen, in the order of columns, without the metrics of profilers' reports.
    pub fn iter(&self) -> std::slice::Iter<'_, Measure> {
        self.list.iter()
    }

    /// Whether this very value is one of its measures, and not one of another registry with the same key.
    pub(super) fn holds(&self, measure: &Measure) -> bool {
        let place = std::ptr::from_ref(measure);
        [&self.list, &self.metrics].iter().any(|measures| measures.as_ptr_range().contains(&place))
    }

    /// Whether a measure comes from a profiler's report.
    pub fn is_of_reports(&self, key: &str) -> bool {
        RecordedMeasure::is_meant(key) || self.metrics.iter().any(|measure| measure.key == *key)
    }

    /// The registry's own key, if it has the key: the values of thousands of runs then share their keys.
    pub(super) fn shared_key(&self, key: Key) -> Key {
        let known = self.list.iter().chain(&self.metrics).find(|measure| measure.key == key);
        known.map_or(key, |measure| measure.key.clone())
    }

    /// A measure by its key, including metrics and measures of recordings by pattern. [`THROUGHPUT`] is the distinct rate, and `iteration_time_s` is the step time if steps are
    /// called iterations.
    pub fn find(&self, key: &str) -> Option<&Measure> {
        let is_step_time = || key.strip_suffix("_time_s") == Some(&*self.step);
        let key = match key {
            THROUGHPUT => &*self.distinct_rate,
            _ if is_step_time() => STEP_TIME,
            _ => key,
        };
        let own = self.list.iter().chain(&self.metrics).find(|measure| measure.key == *key);
        own.or_else(|| known_recorded(key).map(|(measure, _)| measure))
    }
}

/// A measure of recordings, and the parsed form of its key.
type Known = (Measure, RecordedMeasure);

/// The measure of recordings with this key; `None` if the key has another form or is wrong. Each key that was ever asked for is parsed
/// once and kept until the process ends.
pub(super) fn known_recorded(key: &str) -> Option<&'static Known> {
    static KNOWN: LazyLock<Mutex<HashMap<String, &'static Known>>> = LazyLock::new(Mutex::default);
    // Most keys have another form.
    key.contains(':').then_some(())?;
    let mut all = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = all.get(key) {
        return Some(known);
    }
    let recorded = RecordedMeasure::parse(key)?.ok()?;
    let known: &'static Known = Box::leak(Box::new((Measure::of_recordings(key, &recorded), recorded)));
    all.insert(key.to_owned(), known);
    Some(known)
}

/// A text with its first letter in upper case.
pub fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// A built-in measure by its key.
pub fn measure(key: &str) -> Option<&'static Measure> {
    Measures::built_in().find(key)
}

/// The measure of a metric; `None` if no metric has this key.
pub fn metric_measure(key: &str, unit: MetricUnit) -> Option<&'static Measure> {
    measure(&key_in(key, unit))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "measure_tests.rs"]
mod tests;
