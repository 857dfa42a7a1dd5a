//! What a reader must know of a run beside its numbers.

use std::fmt;

use super::Clock;
use crate::plan::{Key, RunState};
use crate::protocol::TraceOutcome;
use crate::store::{LoadRecord, RunRecord};

/// A reason to doubt or to explain a run's numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum Mark {
    /// It did not finish: its state's name, and why.
    Failed(String),
    /// Its GPUs' clocks were held down while its steps counted: NVML's names of the reasons.
    Throttled(Vec<String>),
    /// Another process used one of its GPUs.
    Shared,
    /// Other runs of the session were on the machine at the same time: their ids. Its times are not its own.
    SharedNode(Vec<String>),
    /// A factor's level was read back as something else.
    FactorNotInEffect {
        /// The factor's key.
        factor: String,
        /// The level that was asked for.
        asked: String,
        /// What was seen.
        seen: String,
    },
    /// So many updates were skipped because scaled gradients overflowed.
    SkippedUpdates(u64),
    /// It tried cuDNN's engines for so long, in seconds, to keep the fastest for later runs, whose steps can be faster than its own.
    Tried(f64),
    /// Telemetry was silent for so long, in seconds: peaks, energy and throttling may be missed.
    TelemetryHole(f64),
    /// The machine had too few CPUs for it and for others while its steps counted. CPUs are numbers of whole ones.
    Contended {
        /// CPUs that others kept busy.
        others: f64,
        /// CPUs that a hypervisor gave to other machines.
        stolen: f64,
        /// CPUs that all processes kept busy.
        busy: f64,
        /// CPUs of the machine.
        cpus: u32,
    },
    /// It ended once its steps were known, before its plan's epochs were over.
    Quick {
        /// Its steps.
        steps: u64,
        /// Those of the plan.
        planned: u64,
    },
    /// It was to know its mean step better than its steps did.
    NotPrecise {
        /// Half the width of the mean's 95 % interval, as a share; none where there were too few steady steps to tell.
        found: Option<f64>,
        /// The same as it was asked for.
        asked: f64,
    },
    /// Each of its epochs holds warm-up steps, and so does `epoch_time_s`.
    IncludesWarmUp,
    /// Its steps became slower or faster while it ran.
    Drifts {
        /// The last fifth of steps over the first, less 1.
        change: f64,
        /// By how much the clock of its GPUs changed meanwhile, as a share.
        clock: Option<f64>,
        /// By how much its GPUs became warmer meanwhile.
        warmer_c: Option<f64>,
    },
    /// One of its GPUs ran at a lower clock than the others: its clock over the median of all.
    UnevenClocks(f64),
    /// All of its steps are warm-up: it has no step time and no throughput.
    NoSteadySteps,
    /// A measure was not a finite number and is left out: its key.
    NotFinite(Key),
    /// A measure was said to have a value that it cannot have, such as a negative time or an accuracy above 1, which is left out: its key.
    Impossible(Key),
    /// The machine's clock was set while it ran: what it did when is not known.
    ClockSet,
    /// The times that its program tells cannot be, or could not be confirmed.
    Clock(Clock),
    /// A profiler recorded it, which costs time.
    Traced,
    /// Its data was made in the likeness of a published set, or some of its answers were.
    Synthetic,
    /// It was to be traced and there is no trace: why.
    NoTrace(String),
    /// A rank warned of something.
    Warned(String),
}

impl Mark {
    /// What must be known of a run's record.
    pub(super) fn of_run(record: &RunRecord) -> Vec<Self> {
        let mut marks = Vec::new();
        let mut add = |mark: Self| {
            if !marks.contains(&mark) {
                marks.push(mark);
            }
        };
        if record.state.is_final() && record.state != RunState::Finished {
            let by_rank =
                record.ranks.iter().find_map(|rank| rank.failure.as_ref()).map(|(_, message)| message.as_str());
            let state = record.state.name();
            // A cancelled run has no further reason.
            let reason = record.reason.as_deref().or(by_rank).filter(|reason| *reason != state);
            add(Self::Failed(reason.map_or(state.to_owned(), |reason| format!("{state}: {reason}"))));
        }
        if !record.telemetry.throttle_reasons.is_empty() {
            add(Self::Throttled(record.telemetry.throttle_reasons.clone()));
        }
        if record.telemetry.shared {
            add(Self::Shared);
        }
        marks_of_load(&record.telemetry.load).into_iter().for_each(&mut add);
        if let Some(share) = record.telemetry.load.least_clock_share.filter(|share| *share <= UNEVEN_CLOCK) {
            add(Self::UnevenClocks(share));
        }
        if !record.beside.is_empty() {
            add(Self::SharedNode(record.beside.clone()));
        }
        for evidence in record.evidence().filter(|evidence| !evidence.in_effect) {
            add(Self::FactorNotInEffect {
                factor: evidence.factor.clone(),
                asked: evidence.asked.clone(),
                seen: evidence.seen.clone(),
            });
        }
        // All ranks skip together: the count of the one that skipped most is the run's.
        let skipped =
            record.ranks.iter().map(|rank| rank.readings_of("skipped_updates").map(|one| one.value).sum::<f64>());
        if let Some(skipped) = skipped.max_by(f64::total_cmp).filter(|skipped| *skipped > 0.0) {
            add(Self::SkippedUpdates(skipped as u64));
        }
        let tried = record.ranks.iter().filter_map(|rank| rank.last_reading("cudnn_trials_s"));
        if let Some(tried_s) = tried.max_by(f64::total_cmp) {
            add(Self::Tried(tried_s));
        }
        let lasted = |hole_s: &f64| *hole_s > 0.0 && super::wall_clock::can_have_lasted(record, *hole_s);
        if let Some(hole_s) = record.telemetry.longest_hole_s.filter(lasted) {
            add(Self::TelemetryHole(hole_s));
        }
        for message in record.warnings.iter().chain(record.ranks.iter().flat_map(|rank| &rank.warnings)) {
            add(Self::Warned(message.clone()));
        }
        if super::wall_clock::was_set(record) {
            add(Self::ClockSet);
        }
        if record.tracer.is_on() {
            add(Self::Traced);
        }
        let made = record.ranks.iter().any(|rank| rank.last_reading(MADE_ANSWERS).is_some_and(|share| share > 0.0));
        if made || record.workload.data_set(&record.data.set).is_some_and(|rule| rule.synthetic) {
            add(Self::Synthetic);
        }
        match &record.trace {
            Some(TraceOutcome::Imported(trace)) => {
                trace.warnings.iter().for_each(|warning| add(Self::Warned(format!("{}: {warning}", trace.file))));
            }
            Some(TraceOutcome::Failed(reason)) => add(Self::NoTrace(reason.clone())),
            None => {}
        }
        marks
    }

    /// Whether something befell the run; it did not finish, or was asked to be so, is not meant.
    pub fn is_disturbance(&self) -> bool {
        let asked = matches!(
            self,
            Self::Failed(_) | Self::Quick { .. } | Self::Traced | Self::Synthetic | Self::IncludesWarmUp
        );
        !asked
    }

    /// The few words that stand beside a row.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Failed(_) => "not finished",
            Self::Throttled(_) => "throttled",
            Self::Shared => "shared GPU",
            Self::SharedNode(_) => "shared node",
            Self::FactorNotInEffect { .. } => "factor not in effect",
            Self::SkippedUpdates(_) => "skipped updates",
            Self::Tried(_) => "made trials",
            Self::TelemetryHole(_) => "telemetry hole",
            Self::Contended { .. } => "contended",
            Self::Quick { .. } => "quick",
            Self::NotPrecise { .. } => "imprecise",
            Self::IncludesWarmUp => "includes warm-up",
            Self::Drifts { .. } => "drifts",
            Self::UnevenClocks(_) => "uneven clocks",
            Self::NoSteadySteps => "no steady steps",
            Self::NotFinite(_) => "not finite",
            Self::Impossible(_) => "impossible value",
            Self::ClockSet => "clock set",
            Self::Clock(clock) if clock.is_impossible() => "impossible times",
            Self::Clock(_) => "clock unconfirmed",
            Self::Traced => "traced",
            Self::Synthetic => "synthetic data",
            Self::NoTrace(_) => "no trace",
            Self::Warned(_) => "warning",
        }
    }
}

/// The measure that says which share of preference pairs has a made answer.
const MADE_ANSWERS: &str = "made_answers_share";
/// Others matter that keep so many CPUs busy, or this share of all, where hardly any is idle.
const OTHERS_CPUS: f64 = 0.25;
const OTHERS_SHARE: f64 = 0.05;
/// A GPU whose clock is at most this share of the median of the run's GPUs holds all of them up: ranks go in step, and 3 % is the
/// drift within a run that is marked.
const UNEVEN_CLOCK: f64 = 0.97;
/// From this share on hardly any CPU is idle.
const FULL_SHARE: f64 = 0.9;
/// A hypervisor matters that takes so many CPUs away, or this share of all.
const STOLEN_CPUS: f64 = 0.05;
const STOLEN_SHARE: f64 = 0.01;

/// Whether a run lost CPUs to others. The thresholds stand in the method's documentation.
fn marks_of_load(load: &LoadRecord) -> Option<Mark> {
    let (cpus, busy, others) = (load.cpus?, load.cpus_busy?, load.others_cpus?);
    let (all, stolen) = (f64::from(cpus), load.stolen_cpus.unwrap_or(0.0));
    let by_others = others >= OTHERS_CPUS.max(OTHERS_SHARE * all) && busy + stolen >= FULL_SHARE * all;
    let by_hypervisor = stolen >= STOLEN_CPUS.max(STOLEN_SHARE * all);
    (by_others || by_hypervisor).then_some(Mark::Contended { others, stolen, busy, cpus })
}

impl Mark {
    /// The story of several runs that bear one mark with other numbers, by the range of those; none where each story stands alone.
    pub fn of_several(marks: &[&Self]) -> Option<String> {
        let range = |numbers: Vec<u64>| -> Option<String> {
            let (low, high) = (numbers.iter().min()?, numbers.iter().max()?);
            Some(if low == high { low.to_string() } else { format!("{low} to {high}") })
        };
        let all = |number: fn(&Self) -> Option<u64>| marks.iter().map(|mark| number(mark)).collect::<Option<Vec<_>>>();
        match marks.first()? {
            Self::Quick { .. } => {
                let steps = range(all(|mark| if let Self::Quick { steps, .. } = mark { Some(*steps) } else { None })?)?;
                let planned =
                    range(all(|mark| if let Self::Quick { planned, .. } = mark { Some(*planned) } else { None })?)?;
                Some(quick(&steps, &planned))
            }
            Self::SkippedUpdates(_) => {
                let counts =
                    range(all(|mark| if let Self::SkippedUpdates(count) = mark { Some(*count) } else { None })?)?;
                Some(format!("{counts} updates skipped"))
            }
            Self::SharedNode(_) => Some("ran beside others; their times, rates and energy enter no table".to_owned()),
            _ => None,
        }
    }
}

fn quick(steps: &str, planned: &str) -> String {
    format!(
        "{steps} of {planned} steps, training time extrapolated; accuracy and losses of epochs need a full run (--mode full)"
    )
}

/// The whole story, in one line.
impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(reason) => write!(f, "{reason}"),
            Self::Throttled(reasons) => write!(f, "clocks held down by {}", reasons.join(", ")),
            Self::Shared => write!(f, "another process used one of its GPUs"),
            Self::SharedNode(others) => {
                write!(f, "ran beside {}; its times, rates and energy enter no table", others.join(", "))
            }
            Self::FactorNotInEffect { factor, asked, seen } => {
                write!(f, "{factor} = {asked} not in effect, seen: {seen}")
            }
            Self::SkippedUpdates(1) => write!(f, "1 update skipped"),
            Self::SkippedUpdates(count) => write!(f, "{count} updates skipped"),
            Self::Tried(tried_s) => write!(
                f,
                "tried cuDNN's engines for {tried_s:.1} s: its steps can be slower than those of runs that take kept plans"
            ),
            Self::TelemetryHole(hole_s) => write!(f, "no telemetry for {hole_s:.1} s"),
            Self::Contended { others, stolen, busy, cpus } => write!(
                f,
                "others kept {others:.2} of {cpus} CPUs busy while its steps counted, {busy:.2} were busy in all and {stolen:.2} stolen"
            ),
            Self::Quick { steps, planned } => write!(f, "{}", quick(&steps.to_string(), &planned.to_string())),
            Self::NotPrecise { found: Some(found), asked } => write!(
                f,
                "its steps were over with the mean step known to ±{:.2} %, not to ±{} %",
                found * 100.0,
                (asked * 1e8).round() / 1e6
            ),
            Self::NotPrecise { found: None, .. } => {
                write!(
                    f,
                    "its steps were over before there were enough steady ones to tell how well their mean is known"
                )
            }
            Self::IncludesWarmUp => write!(f, "epoch time includes warm-up steps"),
            Self::Drifts { change, clock, warmer_c } => {
                let became = if *change > 0.0 { "slower" } else { "faster" };
                write!(f, "its steps became {:.0} % {became} while it ran", 100.0 * change.abs())?;
                if let Some(clock) = clock {
                    write!(f, "; GPU clock {:+.1} %", 100.0 * clock)?;
                }
                warmer_c.map_or(Ok(()), |warmer_c| write!(f, "; GPU temperature {warmer_c:+.0} °C"))
            }
            Self::UnevenClocks(share) => write!(
                f,
                "one of its GPUs ran at a clock {:.0} % below the others': steps wait for the slowest",
                100.0 * (1.0 - share)
            ),
            Self::NoSteadySteps => write!(f, "all steps are warm-up, none counts"),
            Self::NotFinite(key) => write!(f, "{key} is not a finite number and is left out"),
            Self::Impossible(key) => {
                write!(
                    f,
                    "{key} was logged with a value that it cannot have, such as a negative time, which is left out"
                )
            }
            Self::ClockSet => write!(f, "the machine's clock was set while it ran: what it did when is not known"),
            Self::Clock(clock) => write!(f, "{clock}"),
            Self::Traced => write!(f, "a profiler recorded it, which costs time"),
            Self::Synthetic => write!(
                f,
                "its data, or its rejected answers, were made here: losses are not those of the published set"
            ),
            Self::NoTrace(reason) => write!(f, "{reason}"),
            Self::Warned(message) => write!(f, "{message}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{fixture, summarise_run};

    fn marks(cpus: u32, busy: f64, others: f64, stolen: f64) -> Vec<&'static str> {
        let mut record = fixture::finished();
        record.telemetry.load = LoadRecord {
            cpus: Some(cpus),
            cpus_busy: Some(busy),
            others_cpus: Some(others),
            stolen_cpus: Some(stolen),
            ..LoadRecord::default()
        };
        summarise_run(&record).marks.iter().map(Mark::label).collect()
    }

    #[test]
    fn a_run_that_lost_cpus_to_others_is_marked_and_one_that_did_not_is_not() {
        assert_eq!(marks(2, 1.99, 1.33, 0.0), ["contended"]);
        assert_eq!(marks(2, 1.99, 0.03, 0.0), [""; 0], "alone it keeps all CPUs busy itself");
        assert_eq!(marks(16, 9.0, 5.0, 0.0), [""; 0], "there are idle CPUs");
        assert_eq!(marks(16, 15.5, 0.5, 0.0), [""; 0], "too little of them");
        // From 5 % of all CPUs on, and from 1 % of what a hypervisor takes.
        for (others, marked) in [(3.1, false), (3.3, true)] {
            assert_eq!(!marks(64, 63.5, others, 0.0).is_empty(), marked, "{others} of 64");
        }
        for (others, marked) in [(0.24, false), (0.26, true)] {
            assert_eq!(!marks(2, 1.99, others, 0.0).is_empty(), marked, "{others} of 2");
        }
        for (stolen, marked) in [(0.63, false), (0.65, true)] {
            assert_eq!(!marks(64, 9.0, 0.0, stolen).is_empty(), marked, "{stolen} of 64 stolen");
        }
        assert_eq!(marks(64, 57.5, 9.0, 0.0), [""; 0], "a tenth of the CPUs is idle");
        assert_eq!(marks(64, 57.7, 9.0, 0.0), ["contended"]);
        assert_eq!(marks(2, 1.2, 0.0, 0.3), ["contended"], "a hypervisor takes time away");
        assert!(summarise_run(&fixture::finished()).marks.is_empty(), "of an earlier version, nothing is known");
        let lost = Mark::Contended { others: 1.33, stolen: 0.0, busy: 1.99, cpus: 2 };
        assert!(lost.to_string().contains("1.33 of 2 CPUs"), "{lost}");
    }
}
