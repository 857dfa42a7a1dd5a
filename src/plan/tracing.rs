//! Whether runs are recorded, by whom, and which part of them.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The part of a run that is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capture {
    /// All of it.
    #[default]
    Whole,
    /// From the building of the model on.
    First {
        /// For so long; the step that is under way then is the last one.
        seconds: f64,
    },
    /// Some training steps.
    Steps {
        /// The first, counted over the run from 1.
        first: u64,
        /// The last; that of `first` or a later one.
        last: u64,
    },
}

/// How runs are traced. Tracing costs time, so that traced runs are cells of their own and no table of times holds them
/// unless asked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Tracing {
    /// Not at all.
    #[default]
    Off,
    /// By Nsight Systems.
    Nsys(Capture),
    /// By the ranks themselves, and by the tracer that their processes load.
    BuiltIn(Capture),
}

impl Tracing {
    /// The names used in plans, the default first.
    pub const NAMES: &'static [&'static str] = &["off", "nsys", "built-in"];

    /// The name used in plans.
    pub fn name(self) -> &'static str {
        self.tracer().name()
    }

    /// Who traces.
    pub fn tracer(self) -> Tracer {
        match self {
            Self::Off => Tracer::Off,
            Self::Nsys(_) => Tracer::Nsys,
            Self::BuiltIn(_) => Tracer::BuiltIn,
        }
    }

    /// The part of each run that is recorded.
    pub fn capture(self) -> Option<Capture> {
        match self {
            Self::Nsys(capture) | Self::BuiltIn(capture) => Some(capture),
            Self::Off => None,
        }
    }

    /// Another part of each run by the same tracer.
    pub fn with_capture(self, capture: Capture) -> Self {
        match self {
            Self::Off => Self::Off,
            Self::Nsys(_) => Self::Nsys(capture),
            Self::BuiltIn(_) => Self::BuiltIn(capture),
        }
    }
}

/// Who traces a run. Each takes time of its own, so that runs of the same levels under different tracers are different cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tracer {
    /// Nobody.
    #[default]
    Off,
    /// Nsight Systems.
    Nsys,
    /// Its ranks and the built-in tracer.
    BuiltIn,
}

impl Tracer {
    /// The name used in plans.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Nsys => "nsys",
            Self::BuiltIn => "built-in",
        }
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

/// In logs `false`, `true` for Nsight Systems, which was the only one once, or the name.
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
            Written::Name(name) => Err(de::Error::custom(format!("{name:?} is no tracer that is known here"))),
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
        assert!(serde_json::from_str::<Tracer>("\"perf\"").unwrap_err().to_string().contains("\"perf\" is no tracer"));
    }
}
