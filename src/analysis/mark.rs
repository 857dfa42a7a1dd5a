//! What a reader must know of a run beside its numbers.

use std::fmt;

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
    /// Telemetry was silent for so long, in seconds: peaks, energy and throttling may be missed.
    TelemetryHole(f64),
    /// Each of its epochs holds warm-up steps, and so does `epoch_time_s`.
    IncludesWarmUp,
    /// All of its steps are warm-up: it has no step time and no throughput.
    NoSteadySteps,
    /// A measure was not a finite number and is left out: its key.
    NotFinite(&'static str),
    /// A profiler recorded it, which costs time.
    Traced,
    /// It was to be traced and there is no trace: why.
    NoTrace(String),
    /// A rank warned of something.
    Warned(String),
}

impl Mark {
    /// The few words that stand beside a row.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Failed(_) => "not finished",
            Self::Throttled(_) => "throttled",
            Self::Shared => "shared GPU",
            Self::SharedNode(_) => "shared node",
            Self::FactorNotInEffect { .. } => "factor not in effect",
            Self::SkippedUpdates(_) => "skipped updates",
            Self::TelemetryHole(_) => "telemetry hole",
            Self::IncludesWarmUp => "includes warm-up",
            Self::NoSteadySteps => "no steady steps",
            Self::NotFinite(_) => "not finite",
            Self::Traced => "traced",
            Self::NoTrace(_) => "no trace",
            Self::Warned(_) => "warning",
        }
    }
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
            Self::TelemetryHole(hole_s) => write!(f, "no telemetry for {hole_s:.1} s"),
            Self::IncludesWarmUp => write!(f, "epoch time includes warm-up steps"),
            Self::NoSteadySteps => write!(f, "all steps are warm-up, none counts"),
            Self::NotFinite(key) => write!(f, "{key} is not a finite number and is left out"),
            Self::Traced => write!(f, "a profiler recorded it, which costs time"),
            Self::NoTrace(reason) => write!(f, "{reason}"),
            Self::Warned(message) => write!(f, "{message}"),
        }
    }
}
