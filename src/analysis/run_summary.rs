//! The summary of one run: its measures, marks and circumstances.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::measure::known_recorded;
use super::metric::metric_values;
use super::own::own_values;
use super::{Activity, Clock, LeftOut, Limits, LossPoint, Mark, Measure, Measures, TrainingTime};
use crate::plan::{
    Checked, Design, Identity, Key, Levels, Mode, OwnMeasure, RunState, Tracer, WorkloadSpec, workload_or_unknown,
};
use crate::protocol::{Environment, IMPORTED_FROM, TraceMetric, TraceOutcome, TraceSummary};

/// One epoch of a run, over its ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct EpochSummary {
    /// The epoch, from 1.
    pub epoch: u32,
    /// Whether it contains a warm-up step.
    pub warm_up: bool,
    /// Its last step, counted over the whole run from 1.
    pub last_step: Option<u64>,
    /// Its measures by key.
    pub values: BTreeMap<Key, f64>,
}

impl EpochSummary {
    /// A measure of the epoch.
    pub fn value(&self, key: &str) -> Option<f64> {
        self.values.get(key).copied()
    }
}

/// Whether and how the run was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Recording {
    /// It was not recorded.
    #[default]
    Plain,
    /// Nsight Systems recorded the run, which costs time.
    Traced,
    /// The run's ranks recorded themselves, which costs time, too.
    BuiltIn,
    /// The run's ranks recorded themselves, without calls of CUDA.
    BuiltInWithoutCalls,
    /// The run's ranks recorded some steps of each period. Its times come from the other steps.
    InWindows,
    /// The run's ranks recorded themselves, without calls of CUDA.
    InWindowsWithoutCalls,
    /// There is only a report, of a run that is not in the session.
    Report,
}

impl Recording {
    /// How a tracer records a run of a session.
    pub(super) fn by(tracer: Tracer) -> Self {
        match tracer {
            Tracer::Off => Self::Plain,
            Tracer::Nsys => Self::Traced,
            Tracer::BuiltIn => Self::BuiltIn,
            Tracer::BuiltInWithoutCalls => Self::BuiltInWithoutCalls,
            Tracer::InWindows => Self::InWindows,
            Tracer::InWindowsWithoutCalls => Self::InWindowsWithoutCalls,
        }
    }

    /// Which tracer recorded the run; `None` for a standalone report, which does not name its tracer.
    pub fn tracer(self) -> Option<Tracer> {
        match self {
            Self::Plain => Some(Tracer::Off),
            Self::BuiltIn => Some(Tracer::BuiltIn),
            Self::BuiltInWithoutCalls => Some(Tracer::BuiltInWithoutCalls),
            Self::InWindows => Some(Tracer::InWindows),
            Self::InWindowsWithoutCalls => Some(Tracer::InWindowsWithoutCalls),
            Self::Traced => Some(Tracer::Nsys),
            Self::Report => None,
        }
    }

    /// Whether a tracer recorded a run of the session.
    pub fn is_traced(self) -> bool {
        self.tracer().is_some_and(Tracer::is_on)
    }

    /// Whether the run's ranks recorded themselves.
    pub fn is_built_in(self) -> bool {
        self.tracer().is_some_and(Tracer::is_built_in)
    }
}

/// The measures of one run. A measure that the run does not have is `None`, never 0.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSummary {
    /// Its id.
    pub run: String,
    /// Its cell's id.
    pub cell: String,
    /// The identity of its cell, independent of the session's id; `None` for a standalone report.
    pub identity: Option<Identity>,
    /// Its workload; for a standalone report, a workload without a key.
    pub workload: Arc<WorkloadSpec>,
    /// The level of every factor.
    pub levels: Levels,
    /// Its data set, in words.
    pub data: String,
    /// The device of its first rank.
    pub device: Option<String>,
    /// Number of the repeat of the cell, from 1.
    pub repeat: u32,
    /// Whether that number only counts the rows of an imported file.
    pub counts_rows: bool,
    /// When its processes were started, in seconds since the Unix epoch; `None` before, and for a standalone report.
    pub started_s: Option<f64>,
    /// The launch in its session that queued it: `p1`, `p2`, …; empty for a standalone report.
    pub launch: String,
    /// Its state.
    pub state: RunState,
    /// The registry of its measures.
    pub measures: Arc<Measures>,
    /// Its measures by key, including readings without an entry in the registry.
    pub values: BTreeMap<Key, f64>,
    /// The user-defined measures that compared sessions define differently, each with the reason: it has no values of these.
    pub disputed: Arc<BTreeMap<Key, String>>,
    /// How long the host of the slowest rank waits for data in a steady step, in seconds: the mean over the steps of `mean_step_time_s`.
    pub step_wait_s: Option<f64>,
    /// Whether the step times that its program reports are correct. `None` for runs of the worker, which measures the times itself; for
    /// programs that report no times, whose steps are timed by the arrival of their lines; and without steps that count.
    pub clock: Option<Clock>,
    /// The resolution of the step times that its program reports, in seconds; see [`resolution`]. `None` for runs of the worker, whose
    /// clocks are fine enough.
    pub told_resolution_s: Option<f64>,
    /// The time that all epochs of the plan would take, from its steady steps.
    pub training: Option<TrainingTime>,
    /// The measured rates of its devices; `None` if they were not measured.
    pub limits: Option<Limits>,
    /// How long it trained.
    pub mode: Mode,
    /// The steps at its start that its measures of steps leave out; `None` if it is unknown what its plan asks for.
    pub warm_up: Option<LeftOut>,
    /// The check measures of its plan, with margins in the units of its values; empty if the plan has none.
    pub checked: Arc<[Checked]>,
    /// The design that chose its plan's cells of this workload; `None` for all combinations.
    pub design: Option<Arc<Design>>,
    /// Its epochs, in order.
    pub epochs: Vec<EpochSummary>,
    /// The phases of its ranks.
    pub activity: Vec<Activity>,
    /// Its training loss by step, thinned.
    pub losses: Vec<LossPoint>,
    /// The marks: what a reader must know about the run.
    pub marks: Vec<Mark>,
    /// The environment it ran in, if it was recorded.
    pub environment: Option<Arc<Environment>>,
    /// Whether and how it was recorded.
    pub recording: Recording,
    /// The result of importing its profiler's report, once known.
    pub trace: Option<TraceOutcome>,
}

impl RunSummary {
    /// A measure of the run, a reading without an entry in the registry, or a measure of its recording by pattern.
    pub fn value(&self, key: &str) -> Option<f64> {
        self.values.get(key).copied().or_else(|| known_recorded(key)?.1.value(self.trace_summary()?).ok())
    }

    /// Readings without an entry in the registry, by key.
    pub fn unregistered(&self) -> impl Iterator<Item = (&Key, f64)> {
        let is_registered = |key: &Key| self.measures.find(key).is_some();
        self.values.iter().filter(move |(key, _)| !is_registered(key)).map(|(key, value)| (key, *value))
    }

    /// The summary of its profiler's report.
    pub fn trace_summary(&self) -> Option<&TraceSummary> {
        match &self.trace {
            Some(TraceOutcome::Imported(trace)) => Some(trace),
            Some(TraceOutcome::Failed(_)) | None => None,
        }
    }

    /// Whether the run should have been recorded, but no process of it opened the tracer, so that recording did not slow it down.
    pub fn recorded_nothing(&self) -> bool {
        self.trace.as_ref().is_some_and(TraceOutcome::recorded_nothing)
    }

    /// A metric of its profiler's report.
    pub fn trace_metric(&self, key: &str) -> Option<&TraceMetric> {
        self.trace_summary()?.metrics.iter().find(|metric| metric.key == key)
    }
}

/// A standalone report as a run that has only metrics.
pub fn summarise_report(name: &str, trace: TraceSummary) -> RunSummary {
    let marks = trace.warnings.iter().map(|warning| Mark::Warned(format!("{}: {warning}", trace.file))).collect();
    RunSummary {
        run: name.to_owned(),
        cell: name.to_owned(),
        identity: None,
        workload: workload_or_unknown(""),
        levels: Levels::default(),
        data: String::new(),
        device: None,
        repeat: 1,
        counts_rows: false,
        started_s: None,
        launch: String::new(),
        state: RunState::Finished,
        measures: Arc::clone(Measures::built_in()),
        values: metric_values(&trace).collect(),
        disputed: Arc::default(),
        step_wait_s: None,
        clock: None,
        told_resolution_s: None,
        training: None,
        limits: None,
        mode: Mode::Full,
        warm_up: None,
        checked: Arc::default(),
        design: None,
        epochs: Vec::new(),
        activity: Vec::new(),
        losses: Vec::new(),
        marks,
        environment: None,
        recording: Recording::Report,
        trace: Some(TraceOutcome::Imported(Box::new(trace))),
    }
}

impl RunSummary {
    /// Computes the user-defined measures again, for another list of them.
    pub fn set_own(&mut self, own: &[OwnMeasure]) {
        let base = Measures::of_workload(&self.workload);
        self.values.retain(|key, _| base.find(key).is_some() || self.measures.find(key).is_none());
        self.marks.retain(|mark| !matches!(mark, Mark::Undefined { .. }));
        compute_own(self, &base, own);
    }

    /// Takes away the values of user-defined measures that compared sessions define differently, each with the reason.
    pub(super) fn dispute(&mut self, disputed: &Arc<BTreeMap<Key, String>>) {
        self.values.retain(|key, _| !disputed.contains_key(key));
        self.marks.retain(|mark| !matches!(mark, Mark::Undefined { measure, .. } if disputed.contains_key(measure)));
        self.disputed = Arc::clone(disputed);
    }

    /// A measure for tables, in the unit of `measure`, which may come from another plan: `None` if it depends on the machine's speed and
    /// other runs were on the machine, and if its unit cannot be converted.
    pub fn value_alone(&self, measure: &Measure) -> Option<f64> {
        let is_alone = !measure.on_speed || !self.had_company();
        Some(self.value(&measure.key).filter(|_| is_alone)? * self.factor_to(measure)?)
    }

    /// Whether it was imported from a file of another program.
    pub fn is_imported(&self) -> bool {
        self.environment.as_ref().is_some_and(|environment| environment.get(IMPORTED_FROM).is_some())
    }

    /// Whether rows of its file and cell recur, although chance does not explain it.
    pub(super) fn is_of_recurring_rows(&self) -> bool {
        self.marks.contains(&Mark::Recurring)
    }

    /// Whether values of a measure do in its cell, or those of a part of the measure's formula, although the rows do not.
    pub(super) fn has_recurring_values(&self, key: &str) -> bool {
        self.measures.find(key).is_some_and(|measure| measure.recurring_cells.contains(&self.cell))
    }

    /// Whether values of a measure, or of a part of its formula, depend on each other in its cell.
    pub(super) fn has_dependent_values(&self, key: &str) -> bool {
        self.measures.find(key).is_some_and(|measure| measure.dependent_cells.contains(&self.cell))
    }

    /// Whether a program of the user's own or a file gave its values.
    pub(super) fn is_reported(&self) -> bool {
        self.workload.command.is_some() || self.is_imported()
    }

    /// Whether other runs of the session were on the machine at the same time, which affects its times.
    pub fn had_company(&self) -> bool {
        self.marks.iter().any(|mark| matches!(mark, Mark::SharedNode(_)))
    }

    /// Whether other programs took CPUs that it needed.
    pub fn was_contended(&self) -> bool {
        self.marks.iter().any(|mark| matches!(mark, Mark::Contended { .. }))
    }
}

/// Adds the user-defined measures to those of a registry.
pub(super) fn compute_own(summary: &mut RunSummary, base: &Arc<Measures>, own: &[OwnMeasure]) {
    summary.measures = own_values(base, &summary.workload, own, &summary.levels, &mut summary.values, |key, reason| {
        summary.marks.push(Mark::Undefined { measure: key.clone(), reason });
    });
}
