//! One execution of a cell.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

/// State of a run, in the order of a run's life.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "lowercase")]
pub enum RunState {
    /// Waiting for its turn.
    Queued,
    /// Its processes are being started.
    Starting,
    /// Its ranks are up.
    Running,
    /// All ranks completed their job.
    Finished,
    /// A rank failed, died or hung, or logged nothing that could be read.
    Failed,
    /// The user cancelled it.
    Cancelled,
    /// It exceeded the plan's time limit.
    #[strum(serialize = "timed out")]
    TimedOut,
    /// It ended while no process followed it, before its ranks had finished.
    Interrupted,
}

impl RunState {
    /// Whether the run has ended.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Queued | Self::Starting | Self::Running)
    }

    /// Whether the run is starting or running.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Starting | Self::Running)
    }

    /// The name in tables and messages.
    pub fn name(self) -> &'static str {
        self.into()
    }
}
