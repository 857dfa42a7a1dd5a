//! What the supervisor of a run's ranks says about their processes.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use serde::{Deserialize, Serialize};

/// How the name of a folder begins into which a profiler's report is exported, in the run's folder.
pub const EXPORT_FOLDER: &str = ".multicard-export-";
/// The name of the supervisor's log in the run's folder.
pub const GROUP_LOG: &str = "group.jsonl";

/// The variable that tells a rank the folder where it meets the others: only its user can enter it. Ranks exchange addresses there
/// and leave marks.
pub const MEETING_VARIABLE: &str = "MULTICARD_MEETING";

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It returned this code; 0 is well.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl Exit {
    /// Whether it ended well.
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            // A status of a process that has ended is one of both; this one would be of a stopped process.
            (None, None) => Self::Code(-1),
        }
    }
}

/// Something that happened to a rank's process, or to the supervisor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum GroupEvent {
    /// A rank's process was started.
    RankStarted {
        /// The rank.
        rank: u32,
        /// Its process id.
        pid: u32,
    },
    /// A rank's process could not be started.
    RankNotStarted {
        /// The rank.
        rank: u32,
        /// What the system said.
        reason: String,
    },
    /// A rank's process ended.
    RankExited {
        /// The rank.
        rank: u32,
        /// Its process id.
        pid: u32,
        /// How.
        exit: Exit,
        /// The supervisor had told it to end, so its end is nobody's fault.
        told_to: bool,
    },
    /// A signal told the supervisor to end the run.
    Interrupted {
        /// The signal's number.
        signal: i32,
    },
}

/// One line of the supervisor's log, `group.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupLine {
    /// When, in seconds since the Unix epoch.
    pub time_s: f64,
    /// What.
    #[serde(flatten)]
    pub event: GroupEvent,
}
