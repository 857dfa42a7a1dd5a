//! Whether runs are recorded by a profiler, and which part of them.

use serde::{Deserialize, Serialize};

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
}

impl Tracing {
    /// The names used in plans, the default first.
    pub const NAMES: &'static [&'static str] = &["off", "nsys"];

    /// The name used in plans.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Nsys(_) => "nsys",
        }
    }

    /// The part that is recorded, where runs are traced.
    pub fn capture(self) -> Option<Capture> {
        match self {
            Self::Off => None,
            Self::Nsys(capture) => Some(capture),
        }
    }
}
