//! Marks: what a reader must know about a run in addition to its numbers.

use std::fmt;

use super::Clock;
use crate::plan::{Key, counted};
use crate::protocol::throttle_words;

/// A reason to doubt or to explain a run's numbers. It belongs to one run; an [`Incomparable`](super::Incomparable) belongs to a comparison
/// of two cells.
#[derive(Clone, Debug, PartialEq)]
pub enum Mark {
    /// It did not finish: the name of its state, and the reason.
    Failed(String),
    /// The clocks of its GPUs were limited during steps that count. The texts are NVML's names of the reasons.
    Throttled(Vec<String>),
    /// Another process used one of its GPUs.
    Shared,
    /// Other runs of the session were on the machine at the same time (their ids), so its times are affected.
    SharedNode(Vec<String>),
    /// Another level of a factor was observed than requested.
    FactorNotInEffect {
        /// The factor's key.
        factor: String,
        /// The requested level.
        requested: String,
        /// The observed level.
        observed: String,
    },
    /// This number of updates was skipped because scaled gradients overflowed.
    SkippedUpdates(u64),
    /// It spent this time, in seconds, on trying cuDNN's engines and kept the fastest for later runs, whose steps can be faster than its
    /// own.
    Tried(f64),
    /// There was no telemetry for this time, in seconds: peaks, energy and throttling may be missed.
    TelemetryHole(f64),
    /// The machine had too few CPUs for it and for other programs while its steps counted, or while a program without steps that count ran. CPUs are counted in whole CPUs.
    Contended {
        /// CPUs that other programs kept busy.
        others: f64,
        /// CPUs that a hypervisor gave to other machines.
        stolen: f64,
        /// CPUs that all processes kept busy.
        busy: f64,
        /// CPUs of the machine.
        cpus: u32,
    },
    /// It ended once its step time was known, before the epochs of its plan were over.
    Quick {
        /// Its steps.
        steps: u64,
        /// The steps of the plan.
        planned: u64,
    },
    /// Its mean step is known less precisely than requested.
    NotPrecise {
        /// Half the width of the mean's 95 % interval, as a share; `None` if there were too few steady steps.
        reached: Option<f64>,
        /// The requested half width.
        requested: f64,
    },
    /// Each of its epochs contains warm-up steps, and so does `epoch_time_s`.
    IncludesWarmUp,
    /// Its steps became slower or faster while it ran.
    Drifts {
        /// The last fifth of steps over the first, minus 1.
        change: f64,
        /// By how much the clock of its GPUs changed in the same time, as a share.
        clock: Option<f64>,
        /// By how many °C the run's GPUs were warmer at the end of the counted steps than at their start.
        warmer_c: Option<f64>,
    },
    /// One of its GPUs ran at a lower clock than the others: its clock over the median of all.
    UnevenClocks(f64),
    /// All of its steps are warm-up, so it has no step time and no throughput.
    NoSteadySteps,
    /// A measure was not a finite number and is left out: its key.
    NotFinite(Key),
    /// A measure had an impossible value, such as a negative time or an accuracy above 1, which is left out: its key.
    Impossible(Key),
    /// Its steps would have taken longer than its process lived if they all took the mean of those that count, so it has no training time.
    TrainingOutlivesProcess,
    /// The formula of a user-defined measure has no value for it.
    Undefined {
        /// The measure's key.
        measure: Key,
        /// The reason: `division by zero: power_w is 0`.
        reason: String,
    },
    /// The machine's clock was set while it ran, so the times of its events are unknown.
    ClockSet,
    /// The step times that its program reports are impossible, or could not be confirmed.
    Clock(Clock),
    /// Each time that its program reports covers all steps since the previous line, and was divided by their number.
    TimesDivided {
        /// The usual number of steps that a time covers.
        steps: f64,
    },
    /// A profiler recorded it, which costs time.
    Traced,
    /// It was imported from this file of another program.
    Imported(String),
    /// Rows of its file and cell recur, although chance does not explain it.
    Recurring,
    /// Rows of its file and cell that differ in other measures have the same values of this one, although chance does not explain it.
    RecurringValues(Key),
    /// Successive values of this measure in its file and cell are more alike than by chance, so that they depend on each other.
    DependentValues(Key),
    /// Rows of its file and cell recur, or their values do or depend on each other, and the user declared that each row is a run of its own.
    DeclaredRuns,
    /// It was recorded in windows. Its times are those of the steps between windows.
    TracedInWindows,
    /// Its data, or some of its answers, were generated to resemble a published set.
    Synthetic,
    /// It should have been traced, but there is no trace: the reason.
    NoTrace(String),
    /// A rank gave a warning.
    Warned(String),
}

impl Mark {
    /// Whether the mark reports a disturbance of the run; marks for runs that did not finish or that are as requested are not disturbances.
    pub fn is_disturbance(&self) -> bool {
        let is_no_disturbance = matches!(
            self,
            Self::Failed(_)
                | Self::Quick { .. }
                | Self::Traced
                | Self::Imported(_)
                | Self::Recurring
                | Self::RecurringValues(_)
                | Self::DependentValues(_)
                | Self::DeclaredRuns
                | Self::TracedInWindows
                | Self::Synthetic
                | Self::IncludesWarmUp
                | Self::Undefined { .. }
        );
        !is_no_disturbance
    }

    /// The key of the only measure that the mark concerns; `None` if it concerns the run.
    pub fn measure(&self) -> Option<&str> {
        match self {
            Self::IncludesWarmUp => Some("epoch_time_s"),
            Self::RecurringValues(key) | Self::DependentValues(key) => Some(key.as_str()),
            _ => None,
        }
    }

    /// The short label in a row.
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
            Self::Impossible(_) | Self::TrainingOutlivesProcess => "impossible value",
            Self::Undefined { .. } => "no value",
            Self::ClockSet => "clock set",
            Self::Clock(clock) if clock.is_impossible() => "impossible times",
            Self::Clock(_) => "clock unconfirmed",
            Self::TimesDivided { .. } => "times divided",
            Self::Traced | Self::TracedInWindows => "traced",
            Self::Imported(_) => "imported",
            Self::Recurring => "recurring rows",
            Self::RecurringValues(_) => "recurring values",
            Self::DependentValues(_) => "dependent values",
            Self::DeclaredRuns => "rows declared as runs",
            Self::Synthetic => "synthetic data",
            Self::NoTrace(_) => "no trace",
            Self::Warned(message) => kind_of_warning(message).unwrap_or("warning"),
        }
    }

    /// One text for several runs with the same mark but different numbers, which gives the range of the numbers; `None` if they cannot be
    /// joined.
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
                Some(format!("{} skipped", counted(counts, "update")))
            }
            Self::SharedNode(_) => {
                Some("ran at the same time as others; its times, rates and energy are left out of tables".to_owned())
            }
            _ => None,
        }
    }
}

/// Words of frequent warnings, and the label of each: "warning" alone says nothing.
const KINDS_OF_WARNINGS: [(&str, &str); 8] = [
    ("was used by other programs when the run started", "GPU was in use"),
    ("steps were guessed from", "guessed steps"),
    ("readings were guessed from", "guessed readings"),
    ("progress bars without a description", "guessed evaluation"),
    ("s of steps were reported together", "late steps"),
    ("the end of the warm-up was not found", "no end of warm-up"),
    ("step numbers went back", "restarted"),
    ("this run may have taken readings of that run", "shared file"),
];

fn kind_of_warning(message: &str) -> Option<&'static str> {
    KINDS_OF_WARNINGS.iter().find(|(words, _)| message.contains(words)).map(|(_, label)| *label)
}

fn quick(steps: &str, planned: &str) -> String {
    format!(
        "{steps} of {}, training time extrapolated; accuracy and losses of epochs need a full run (--mode full)",
        counted(planned, "step")
    )
}

fn divided(steps: f64) -> String {
    format!(
        "each time that it reports covers the steps since its previous line, usually {steps:.0}, as the arrival of its lines shows; it \
             was divided by their number"
    )
}

const OUTLIVES: &str = "training_time_s is left out: the mean of the steps that count, times all steps, is longer than its process lived, so that \
     some step times contain more than a step, such as an evaluation";
const RECURRING: &str = "rows of its cell have the same values, digit for digit: copies, runs without randomness, or readings of a coarse clock";
const DECLARED_RUNS: &str = "rows of its cell have the same values, digit for digit, or successive values that depend on each other, and its import \
     declared that each row is a run of its own";

/// The full text, on one line.
impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(reason) => write!(f, "{reason}"),
            Self::Throttled(reasons) => write!(f, "clocks held down by {}", throttle_words(reasons)),
            Self::Shared => write!(f, "another process used one of its GPUs"),
            Self::SharedNode(others) => {
                write!(
                    f,
                    "ran at the same time as {}; its times, rates and energy are left out of tables",
                    others.join(", ")
                )
            }
            Self::FactorNotInEffect { factor, requested, observed } => {
                write!(f, "{factor} = {requested} was not in effect; seen: {observed}")
            }
            Self::SkippedUpdates(count) => write!(f, "{} skipped", counted(count, "update")),
            Self::Tried(tried_s) => write!(
                f,
                "tried cuDNN's engines for {tried_s:.1} s: its steps can be slower than those of runs that use stored plans"
            ),
            Self::TelemetryHole(hole_s) => write!(f, "no telemetry for {hole_s:.1} s"),
            Self::Contended { others, stolen, busy, cpus } => write!(
                f,
                "other processes kept {others:.2} of {} busy in the time that counts; {busy:.2} were busy in all and \
                     {stolen:.2} were taken by other virtual machines",
                counted(cpus, "CPU")
            ),
            Self::Quick { steps, planned } => write!(f, "{}", quick(&steps.to_string(), &planned.to_string())),
            Self::NotPrecise { reached: Some(reached), requested } => write!(
                f,
                "its steps ended when the mean step was known to ±{:.2} %, not to ±{} %",
                reached * 100.0,
                (requested * 1e8).round() / 1e6
            ),
            Self::NotPrecise { reached: None, .. } => {
                write!(
                    f,
                    "its steps ended before there were enough steady ones to tell how precisely their mean is known"
                )
            }
            Self::IncludesWarmUp => write!(f, "epoch time includes warm-up steps"),
            Self::Drifts { change, clock, warmer_c } => f.write_str(&drift(*change, *clock, *warmer_c)),
            Self::UnevenClocks(share) => write!(
                f,
                "one of its GPUs ran at a clock {:.0} % below that of the others, and steps wait for the slowest",
                100.0 * (1.0 - share)
            ),
            Self::NoSteadySteps => write!(f, "all steps are warm-up, so none counts"),
            Self::NotFinite(key) => write!(f, "{key} is not a finite number and is left out"),
            Self::Impossible(key) => {
                write!(f, "{key} was logged with an impossible value, such as a negative time, which is left out")
            }
            Self::TrainingOutlivesProcess => f.write_str(OUTLIVES),
            Self::Undefined { measure, reason } => write!(f, "{measure} has no value: {reason}"),
            Self::ClockSet => {
                write!(f, "the machine's clock was set while it ran, so the times of its events are unknown")
            }
            Self::Clock(clock) => write!(f, "{clock}"),
            Self::TimesDivided { steps } => f.write_str(&divided(*steps)),
            Self::Traced => write!(f, "recorded by a profiler, which costs time"),
            Self::Imported(file) => write!(f, "imported from {file}"),
            Self::Recurring => f.write_str(RECURRING),
            Self::RecurringValues(key) => f.write_str(&recurring(key)),
            Self::DependentValues(key) => f.write_str(&dependent(key)),
            Self::DeclaredRuns => f.write_str(DECLARED_RUNS),
            Self::TracedInWindows => write!(
                f,
                "recorded in windows: its times are of steps outside them, and sums of its recording are of the steps within"
            ),
            Self::Synthetic => write!(
                f,
                "its data or its rejected answers were generated, so losses are not those of the published data set"
            ),
            Self::NoTrace(reason) => write!(f, "{reason}"),
            Self::Warned(message) => write!(f, "{message}"),
        }
    }
}

/// Why the values of a measure that recur are no values of independent runs.
fn recurring(key: &str) -> String {
    format!(
        "rows of its cell that differ in other measures have the same {key}, digit for digit: rows of one run, or runs without randomness"
    )
}

/// Why successive values of a measure that are alike are no values of independent runs.
fn dependent(key: &str) -> String {
    format!(
        "successive rows of its cell have a {key} that is more alike than by chance: smoothed values, rows of one run, or a drift of the \
         machine"
    )
}

/// How the steps of a run changed while it ran, as shares, with the change of the GPU's clock and temperature.
fn drift(change: f64, clock: Option<f64>, warmer_c: Option<f64>) -> String {
    let became = if change > 0.0 { "slower" } else { "faster" };
    let clock = clock.map_or(String::new(), |clock| format!("; GPU clock {:+.1} %", 100.0 * clock));
    let warmer = warmer_c.map_or(String::new(), |warmer_c| format!("; GPU temperature {warmer_c:+.0} °C"));
    format!("its steps became {:.0} % {became} while it ran{clock}{warmer}", 100.0 * change.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frequent_warning_is_labelled_with_its_kind() {
        let label = |message: &str| Mark::Warned(message.to_owned()).label();
        let in_use = "GPU 0 was used by other programs when the run started: 1 process";
        let labels = ["steps were guessed from stdout; declare it", in_use, "left out: a.png"].map(label);
        assert_eq!(labels, ["guessed steps", "GPU was in use", "warning"]);
    }

    #[test]
    fn the_page_of_the_method_explains_every_mark() {
        let labels =
            include_str!("mark.rs").split("pub fn label(").nth(1).and_then(|rest| rest.split("\n    }").next());
        let labels: Vec<&str> = labels.unwrap_or_default().split('"').skip(1).step_by(2).collect();
        assert!(labels.len() > 20 && labels.contains(&"throttled"), "{labels:?}");
        let labels: Vec<&str> = labels.into_iter().chain(KINDS_OF_WARNINGS.map(|(_, label)| label)).collect();
        let explained = |label: &&str| include_str!("method.md").contains(&format!("\n| `{label}` | "));
        let missing: Vec<_> = labels.into_iter().filter(|label| !explained(label)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
