//! Whether runs are recorded, by which tracer, and which part of them.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::shape::Shape;

/// The key of `[measure]` that says whether the built-in tracer records calls of CUDA.
pub(super) const TRACE_CALLS: &str = "trace_calls";
/// The key of `[measure]` that says how many steps of a period are recorded.
pub(super) const TRACE_WINDOWS: &str = "trace_windows";

/// The part of a run that is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capture {
    /// The whole run.
    Whole,
    /// The first seconds, from the building of the model on.
    First {
        /// How long; the step that is running at the end is the last one.
        seconds: f64,
    },
    /// A range of training steps.
    Steps {
        /// The first, counted over the run from 1.
        first: u64,
        /// The last step, which is `first` or a later one.
        last: u64,
    },
    /// The last steps of every period. Only the built-in tracer can record these.
    Windows {
        /// Recorded steps at the end of each period: at least 2.
        recorded: u64,
        /// All steps of a period: at least [`Self::LEAST_REST`] more than the recorded ones.
        period: u64,
    },
}

impl Capture {
    /// The windows that the Plan screen offers first: 4 of every 20 steps. The first step of a window is slower because
    /// recording begins, so 3 recorded steps are usual ones. Of the 16 other steps, 14 are not next to a window, so
    /// that times come from most of the run. Sixteen steps are few enough that both sides of a window have the same
    /// speed even on a machine that drifts.
    pub const USUAL: Self = Self::Windows { recorded: 4, period: 20 };
    /// The least number of steps between two windows: one next to each window, and two that count.
    pub const LEAST_REST: u64 = 4;
    /// A run must have this many periods of steady steps to be recorded in windows; shorter ones are recorded as a whole.
    const LEAST_PERIODS: u64 = 2;

    /// The window in which a step is, or to which it is next: the window's first step, and the role of this step. Steps
    /// are counted over the run from 1. `None` for all other steps, and if the run is not recorded in windows.
    pub fn window(self, step: u64) -> Option<(u64, WindowRole)> {
        let Self::Windows { recorded, period } = self else { return None };
        let place = step.checked_sub(1)?.checked_rem(period)?;
        let begin = step - place;
        let first = begin + period.checked_sub(recorded)?;
        match () {
            () if place == 0 => Some((begin.checked_sub(recorded)?, WindowRole::Edge)).filter(|(first, _)| *first > 0),
            () if step + 1 == first => Some((first, WindowRole::Edge)),
            () if step < first => None,
            () if step == first => Some((first, WindowRole::First)),
            () if place + 1 == period => Some((first, WindowRole::Last)),
            () => Some((first, WindowRole::Within)),
        }
    }
}

/// The role of a step in or next to a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowRole {
    /// It is directly before or after the window. Switching the tracer on or off may have changed its time.
    Edge,
    /// The first step of the window.
    First,
    /// A later step of the window.
    Within,
    /// The last step of the window.
    Last,
}

/// Which tracers record the runs of a plan, and which part of each run. Tracing costs time, so traced runs belong to cells of their own,
/// which tables of times leave out unless asked. With several tracers, each combination of levels becomes one cell for each tracer;
/// comparing these cells shows what tracing costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Tracing {
    /// At least one of [`Tracer::KINDS`], each once, in that order.
    tracers: Vec<Tracer>,
    /// [`Capture::USUAL`] if no tracer is on.
    capture: Capture,
}

impl Default for Tracing {
    fn default() -> Self {
        Self::by(&[], Capture::USUAL)
    }
}

impl Tracing {
    /// Tracing by these tracers, in any order; off if there are none. `capture` is the part of each run that is
    /// recorded. Without the built-in tracer, windows become the whole run.
    pub fn by(tracers: &[Tracer], capture: Capture) -> Self {
        let is_asked = |kind: &Tracer| tracers.iter().any(|tracer| tracer.kind() == *kind);
        let mut known: Vec<Tracer> = Tracer::KINDS.into_iter().filter(is_asked).collect();
        if known.is_empty() {
            known.push(Tracer::Off);
        }
        let in_windows = matches!(capture, Capture::Windows { .. });
        let capture = match () {
            () if known == [Tracer::Off] => Capture::USUAL,
            () if in_windows && !known.iter().copied().any(Tracer::is_built_in) => Capture::Whole,
            () => capture,
        };
        Self { tracers: known, capture }
    }

    /// The tracers, without the part of a run that they record: at least one of [`Tracer::KINDS`], each once, in that
    /// order.
    pub fn tracers(&self) -> &[Tracer] {
        &self.tracers
    }

    /// The tracers of cells, in the same order. A program of the user's own is never recorded in windows.
    pub fn of_cells(&self, own_program: bool) -> impl Iterator<Item = Tracer> {
        let in_windows = matches!(self.capture, Capture::Windows { .. }) && !own_program;
        self.tracers.iter().map(move |tracer| if in_windows { tracer.in_windows() } else { *tracer })
    }

    /// Whether this tracer is used.
    pub fn has(&self, tracer: Tracer) -> bool {
        self.tracers.contains(&tracer.kind())
    }

    /// Whether the built-in tracer is used, whether it records CUDA calls or not.
    pub fn has_built_in(&self) -> bool {
        self.tracers.iter().any(|tracer| tracer.is_built_in())
    }

    /// Whether no tracer is on.
    pub fn is_off(&self) -> bool {
        self.tracers == [Tracer::Off]
    }

    /// The part of each traced run that is recorded; `None` if no tracer is on.
    pub fn capture(&self) -> Option<Capture> {
        (!self.is_off()).then_some(self.capture)
    }

    /// The part of a run that this tracer records. Windows need three things: the built-in tracer, the worker, which
    /// knows its steps, and at least two periods of steady steps. Without one of these, the whole run is recorded.
    pub fn capture_by(&self, tracer: Tracer, shape: &Shape, warm_up_steps: u64) -> Option<Capture> {
        let steady = shape.steps.saturating_sub(warm_up_steps.max(shape.warm_up_steps));
        let capture = match self.capture {
            Capture::Windows { period, .. }
                if !tracer.is_built_in()
                    || shape.own_program
                    || steady < period.saturating_mul(Capture::LEAST_PERIODS) =>
            {
                Capture::Whole
            }
            capture => capture,
        };
        tracer.is_on().then_some(capture)
    }

    /// The same tracers with another part of each run.
    pub fn with_capture(&self, capture: Capture) -> Self {
        Self::by(&self.tracers, capture)
    }

    /// Adds this tracer, or removes it if it is used; the last tracer is not removed.
    pub fn toggled(&self, tracer: Tracer) -> Self {
        let tracer = tracer.kind();
        let others: Vec<Tracer> = self.tracers.iter().copied().filter(|known| *known != tracer).collect();
        match (self.has(tracer), others.is_empty()) {
            (true, true) => self.clone(),
            (true, false) => Self::by(&others, self.capture),
            (false, _) => Self::by(&[others, vec![tracer]].concat(), self.capture),
        }
    }
}

/// Which tracer records a run. Each costs a different amount of time, so runs with the same levels under different tracers belong to
/// different cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tracer {
    /// No tracer.
    #[default]
    Off,
    /// The run's ranks and the built-in tracer.
    BuiltIn,
    /// Nsight Systems.
    Nsys,
    /// The built-in tracer without CUDA calls, which costs less.
    BuiltInWithoutCalls,
    /// The built-in tracer in windows. The times of its runs come from the steps outside the windows.
    InWindows,
    /// The built-in tracer in windows, without calls of CUDA.
    InWindowsWithoutCalls,
}

impl Tracer {
    /// The key of plans, tables and filters.
    pub const KEY: &'static str = "trace";
    /// The level that earlier versions used for runs that Nsight Systems traced, and for reports.
    pub const EARLIER_NSYS: &'static str = "on";
    /// All tracers in the order in which they are shown; off comes first. The place of one decides its colour.
    pub const ALL: [Self; 6] =
        [Self::Off, Self::BuiltIn, Self::Nsys, Self::BuiltInWithoutCalls, Self::InWindows, Self::InWindowsWithoutCalls];
    /// Their names, in the same order.
    pub const NAMES: [&'static str; 6] = {
        let [off, built_in, nsys, without_calls, in_windows, in_windows_without_calls] = Self::ALL;
        [
            off.name(),
            built_in.name(),
            nsys.name(),
            without_calls.name(),
            in_windows.name(),
            in_windows_without_calls.name(),
        ]
    };
    /// The tracers between which a plan chooses. It chooses the recorded part of a run separately.
    pub const KINDS: [Self; 4] = [Self::Off, Self::BuiltIn, Self::Nsys, Self::BuiltInWithoutCalls];
    /// The names of tracers in plans. A key of its own says whether the built-in one records calls.
    pub const PLANNED: [&'static str; 3] = [Self::Off.name(), Self::BuiltIn.name(), Self::Nsys.name()];

    /// The name used in plans, tables and figures.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::BuiltIn => "built-in",
            Self::BuiltInWithoutCalls => "built-in without calls",
            Self::InWindows => "built-in in windows",
            Self::InWindowsWithoutCalls => "built-in in windows without calls",
            Self::Nsys => "nsys",
        }
    }

    /// The tracer of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tracer| tracer.name() == name)
    }

    /// Whether the run is traced.
    pub fn is_on(self) -> bool {
        self != Self::Off
    }

    /// Whether the run's ranks record themselves, with or without calls of CUDA.
    pub fn is_built_in(self) -> bool {
        !matches!(self, Self::Off | Self::Nsys)
    }

    /// Whether the run's ranks record themselves in windows, unless the run is too short for them.
    pub fn is_in_windows(self) -> bool {
        matches!(self, Self::InWindows | Self::InWindowsWithoutCalls)
    }

    /// Whether the run's ranks record themselves without calls of CUDA.
    pub fn is_without_calls(self) -> bool {
        matches!(self, Self::BuiltInWithoutCalls | Self::InWindowsWithoutCalls)
    }

    /// The built-in tracer in windows, if this is a built-in tracer; otherwise this tracer.
    pub fn in_windows(self) -> Self {
        match self {
            Self::BuiltIn => Self::InWindows,
            Self::BuiltInWithoutCalls => Self::InWindowsWithoutCalls,
            other => other,
        }
    }

    /// The tracer that plans name for it, one of [`Self::PLANNED`].
    pub(super) fn planned(self) -> Self {
        if self.is_built_in() { Self::BuiltIn } else { self }
    }

    /// Its kind, one of [`Self::KINDS`].
    pub fn kind(self) -> Self {
        match self {
            Self::InWindows => Self::BuiltIn,
            Self::InWindowsWithoutCalls => Self::BuiltInWithoutCalls,
            other => other,
        }
    }
}

/// The tracer as logs write it: `false` for no tracer, `true` for Nsight Systems (once the only tracer), or the tracer's name.
impl Serialize for Tracer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_bool(false),
            Self::Nsys => serializer.serialize_bool(true),
            built_in => serializer.serialize_str(built_in.name()),
        }
    }
}

impl<'de> Deserialize<'de> for Tracer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Flag(bool),
            Name(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Flag(false) => Ok(Self::Off),
            Written::Flag(true) => Ok(Self::Nsys),
            Written::Name(name) => Self::of_name(&name)
                .filter(|tracer| tracer.is_built_in())
                .ok_or_else(|| de::Error::custom(format!("{name:?} is not a known tracer"))),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn tracers_are_written_so_that_earlier_logs_read_as_they_did() {
        for (tracer, text) in [
            (Tracer::Off, "false"),
            (Tracer::Nsys, "true"),
            (Tracer::BuiltIn, "\"built-in\""),
            (Tracer::BuiltInWithoutCalls, "\"built-in without calls\""),
            (Tracer::InWindows, "\"built-in in windows\""),
            (Tracer::InWindowsWithoutCalls, "\"built-in in windows without calls\""),
        ] {
            assert_eq!(serde_json::to_string(&tracer).unwrap(), text);
            assert_eq!(serde_json::from_str::<Tracer>(text).unwrap(), tracer);
        }
        assert!(
            serde_json::from_str::<Tracer>("\"perf\"")
                .unwrap_err()
                .to_string()
                .contains("\"perf\" is not a known tracer")
        );
    }

    #[test]
    fn tracers_stand_each_once_in_one_order_and_the_last_one_stays() {
        let steps = Capture::Steps { first: 1, last: 2 };
        let both = Tracing::by(&[Tracer::Nsys, Tracer::Off, Tracer::Nsys], steps);
        assert_eq!(both.tracers(), [Tracer::Off, Tracer::Nsys]);
        let part = |tracer| both.capture_by(tracer, &Shape::default(), 0);
        assert_eq!((part(Tracer::Off), part(Tracer::Nsys)), (None, Some(steps)));
        let nsys = both.toggled(Tracer::Off);
        assert_eq!((nsys.tracers(), nsys.toggled(Tracer::Nsys)), (&[Tracer::Nsys][..], nsys.clone()));
        assert_eq!(nsys.toggled(Tracer::Off), both);
        // What nobody traces has no part that is recorded.
        assert_eq!(both.toggled(Tracer::Nsys), Tracing::default());
    }

    #[test]
    fn windows_are_for_the_built_in_tracer_in_runs_of_the_worker_that_are_long_enough() {
        let steps = |steps: u64| Shape { steps, ..Shape::default() };
        let tracing = Tracing::by(&[Tracer::BuiltIn, Tracer::Nsys], Capture::USUAL);
        let part = |tracer, shape: Shape| tracing.capture_by(tracer, &shape, 10).unwrap();
        for tracer in [Tracer::BuiltIn, Tracer::BuiltInWithoutCalls] {
            assert_eq!(part(tracer, steps(50)), Capture::USUAL);
            assert_eq!(part(tracer, steps(49)), Capture::Whole, "less than two periods are steady");
            assert_eq!(part(tracer, Shape { own_program: true, ..steps(500) }), Capture::Whole);
        }
        assert_eq!(part(Tracer::Nsys, steps(500)), Capture::Whole);
        // Nsight Systems alone records no windows. If a plan without a tracer gets one, this one records the usual
        // part.
        assert_eq!(Tracing::by(&[Tracer::Nsys], Capture::USUAL), Tracing::by(&[Tracer::Nsys], Capture::Whole));
        assert_eq!(Tracing::default().toggled(Tracer::BuiltIn).capture(), Some(Capture::USUAL));
    }

    #[test]
    fn a_window_ends_each_period_and_the_steps_on_both_of_its_sides_are_its_edges() {
        use WindowRole::{Edge, First, Last, Within};
        let windows: Vec<_> = (1..=21).map(|step| Capture::USUAL.window(step)).collect();
        assert!(windows[..15].iter().all(Option::is_none), "{windows:?}");
        let of_first = [Edge, First, Within, Within, Last, Edge].map(|role| Some((17, role)));
        assert_eq!(windows[15..], of_first);
        let least = Capture::Windows { recorded: 2, period: 6 };
        let seen: Vec<_> = (6..=13).map(|step| least.window(step)).collect();
        assert_eq!(seen[..2], [Some((5, Last)), Some((5, Edge))]);
        assert_eq!(seen[2..], [None, None, Some((11, Edge)), Some((11, First)), Some((11, Last)), Some((11, Edge))]);
        assert_eq!(Capture::Whole.window(17), None);
    }
}
