//! One execution of a cell.

use serde::{Deserialize, Serialize};

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Waiting for its turn.
    Queued,
    /// Its processes are being started.
    Starting,
    /// Its ranks are up.
    Running,
    /// All ranks did what they were told.
    Finished,
    /// A rank failed, died, hung or could not be understood.
    Failed,
    /// The user ended it.
    Cancelled,
    /// It took longer than the plan allows.
    TimedOut,
    /// The workbench that launched it died, and the run with it.
    Interrupted,
}

impl RunState {
    /// Whether nothing more will happen to the run.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Queued | Self::Starting | Self::Running)
    }

    /// The name in tables and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed out",
            Self::Interrupted => "interrupted",
        }
    }
}
