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

    /// Whether it has processes, or is getting them.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Starting | Self::Running)
    }

    /// All states, in the order of a run's life.
    pub const ALL: [Self; 8] = [
        Self::Queued,
        Self::Starting,
        Self::Running,
        Self::Finished,
        Self::Failed,
        Self::Cancelled,
        Self::TimedOut,
        Self::Interrupted,
    ];

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
