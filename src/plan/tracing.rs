//! Whether runs are recorded, by which tracer, and which part of them.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The part of a run that is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capture {
    /// The whole run.
    #[default]
    Whole,
    /// From the building of the model on.
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
}

/// Which tracers record the runs of a plan, and which part of each run. Tracing costs time, so traced runs belong to cells of their own,
/// which tables of times leave out unless asked. With several tracers, each combination of levels becomes one cell for each tracer;
/// comparing these cells shows what tracing costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Tracing {
    /// At least one, each once, in the order of [`Tracer::ALL`].
    tracers: Vec<Tracer>,
    /// The whole run if no tracer is on.
    capture: Capture,
}

impl Default for Tracing {
    fn default() -> Self {
        Self::by(&[], Capture::Whole)
    }
}

impl Tracing {
    /// Tracing by these tracers, in any order; off if there are none. `capture` is the part of each run that is recorded.
    pub fn by(tracers: &[Tracer], capture: Capture) -> Self {
        let mut known: Vec<Tracer> = Tracer::ALL.into_iter().filter(|tracer| tracers.contains(tracer)).collect();
        if known.is_empty() {
            known.push(Tracer::Off);
        }
        let is_traced = known.iter().any(|tracer| tracer.is_on());
        Self { tracers: known, capture: if is_traced { capture } else { Capture::Whole } }
    }

    /// The tracers: at least one, each once, in the order of [`Tracer::ALL`].
    pub fn tracers(&self) -> &[Tracer] {
        &self.tracers
    }

    /// Whether this tracer is used.
    pub fn has(&self, tracer: Tracer) -> bool {
        self.tracers.contains(&tracer)
    }

    /// Whether no tracer is on.
    pub fn is_off(&self) -> bool {
        self.tracers == [Tracer::Off]
    }

    /// The part of each traced run that is recorded; `None` if no tracer is on.
    pub fn capture(&self) -> Option<Capture> {
        (!self.is_off()).then_some(self.capture)
    }

    /// The part of a run that this tracer records.
    pub fn capture_by(&self, tracer: Tracer) -> Option<Capture> {
        tracer.is_on().then_some(self.capture)
    }

    /// The same tracers with another part of each run.
    pub fn with_capture(&self, capture: Capture) -> Self {
        Self::by(&self.tracers, capture)
    }

    /// Adds this tracer, or removes it if it is used; the last tracer is not removed.
    pub fn toggled(&self, tracer: Tracer) -> Self {
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
}

impl Tracer {
    /// The key of plans, tables and filters.
    pub const KEY: &'static str = "trace";
    /// The level that earlier versions used for runs that Nsight Systems traced, and for reports.
    pub const EARLIER_NSYS: &'static str = "on";
    /// All tracers in the order in which they are shown; off comes first.
    pub const ALL: [Self; 3] = [Self::Off, Self::BuiltIn, Self::Nsys];
    /// Their names, in the same order.
    pub const NAMES: [&'static str; 3] = [Self::Off.name(), Self::BuiltIn.name(), Self::Nsys.name()];

    /// The name used in plans, tables and figures.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::BuiltIn => "built-in",
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

    /// Whether the run is not traced.
    pub fn is_off(&self) -> bool {
        *self == Self::Off
    }
}

/// In logs: `false`, `true` for Nsight Systems (once the only tracer), or the name.
impl Serialize for Tracer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_bool(false),
            Self::Nsys => serializer.serialize_bool(true),
            Self::BuiltIn => serializer.serialize_str(self.name()),
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
            Written::Name(name) if name == Self::BuiltIn.name() => Ok(Self::BuiltIn),
            Written::Name(name) => Err(de::Error::custom(format!("{name:?} is not a known tracer"))),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn tracers_are_written_so_that_earlier_logs_read_as_they_did() {
        for (tracer, text) in [(Tracer::Off, "false"), (Tracer::Nsys, "true"), (Tracer::BuiltIn, "\"built-in\"")] {
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
        assert_eq!((both.capture_by(Tracer::Off), both.capture_by(Tracer::Nsys)), (None, Some(steps)));
        let nsys = both.toggled(Tracer::Off);
        assert_eq!((nsys.tracers(), nsys.toggled(Tracer::Nsys)), (&[Tracer::Nsys][..], nsys.clone()));
        assert_eq!(nsys.toggled(Tracer::Off), both);
        // What nobody traces has no part that is recorded.
        assert_eq!(both.toggled(Tracer::Nsys), Tracing::default());
    }
}
