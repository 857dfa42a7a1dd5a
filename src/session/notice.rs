//! The reports of a session to its owner: notices, and the runs that a launch added.

use serde::{Deserialize, Serialize};

use crate::plan::{InvalidCell, RunState};
use crate::protocol::{EventLine, Sample, TraceOutcome};

/// Something that happened in a session, to be shown.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notice {
    /// A run changed state.
    State {
        /// The run's id.
        run: String,
        /// The new state.
        state: RunState,
        /// Why it did not finish.
        reason: Option<String>,
    },
    /// A run waits for its site, or no longer waits.
    Waits {
        /// The run's id.
        run: String,
        /// What it waits for; `None` once it has started or ended.
        reason: Option<String>,
    },
    /// An event reported by a rank.
    Event(EventLine),
    /// A telemetry sample taken during a run.
    Sample {
        /// The run's id.
        run: String,
        /// The sample.
        sample: Box<Sample>,
    },
    /// A report is being imported.
    Importing {
        /// The run's id, or the name of a standalone report.
        name: String,
        /// Fraction done, from 0 to 1.
        fraction: f64,
    },
    /// The import of a report ended.
    Trace {
        /// The run's id, or the name of a standalone report.
        name: String,
        /// The outcome; `None` if it was cancelled.
        outcome: Option<TraceOutcome>,
    },
    /// An unreadable line of a rank's log.
    Noise {
        /// The run's id.
        run: String,
        /// The error, with file and line.
        message: String,
    },
}

/// Result of adding a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Added {
    /// Runs queued.
    pub runs: Vec<String>,
    /// Runs kept because they are finished, active or queued already.
    pub kept: usize,
    /// The kept runs that had not ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<String>,
    /// Cells that cannot run here, with the reason.
    pub invalid: Vec<InvalidCell>,
    /// If the plan is a search: the id of the plan in the session. The search queues further runs by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<String>,
    /// Warnings, one line each: about delays of the runs, such as nodes of their site that are drained, about kept runs that were made
    /// otherwise than the plan would make them now, and about measures that the session keeps instead of the plan's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}
