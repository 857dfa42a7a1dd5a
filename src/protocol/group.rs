//! The supervisor's log: events of the ranks' processes.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use serde::{Deserialize, Serialize};

/// Prefix of the folder in a run's folder that a profiler's report is exported into.
pub const EXPORT_FOLDER: &str = ".multicard-export-";
/// The name of the supervisor's log in the run's folder.
pub const GROUP_LOG: &str = "group.jsonl";

/// The log of the processes of the ranks on one node; `node` is the node's number in the run.
pub fn node_log(node: u32) -> String {
    format!("node-{node}.jsonl")
}

/// Environment variable that names the ranks' rendezvous folder. Only the user can enter it; ranks exchange addresses and
/// markers there.
pub const MEETING_VARIABLE: &str = "MULTICARD_MEETING";

/// Environment variable that names the first node of a run over several nodes.
pub const MASTER_ADDR: &str = "MASTER_ADDR";
/// Environment variable with a free TCP port of that node.
pub const MASTER_PORT: &str = "MASTER_PORT";

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// Exit code; 0 is success.
    Code(i32),
    /// Number of the signal that ended it.
    Signal(i32),
}

impl Exit {
    /// Whether it ended with code 0.
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            // A process that has ended has a code or a signal; only a stopped one has neither.
            (None, None) => Self::Code(-1),
        }
    }
}

/// Something that happened to a rank's process, or to the supervisor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum GroupEvent {
    /// The supervisor, or the leader of a node's ranks, began to work in a job of a scheduler.
    SupervisorStarted {
        /// The name of its node.
        hostname: String,
    },
    /// The supervisor of a scheduler's job, or the leader of a node's ranks, ends. This is the last line that it
    /// writes.
    SupervisorEnded {
        /// Whether all ranks succeeded.
        well: bool,
    },
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
        /// The system's error.
        reason: String,
    },
    /// A rank's process ended.
    RankExited {
        /// The rank.
        rank: u32,
        /// Its process id.
        pid: u32,
        /// How it ended.
        exit: Exit,
        /// Whether the supervisor had asked the process to end, so that its exit is not a failure.
        told_to: bool,
    },
    /// The command ended that started the ranks of all nodes, Slurm's `srun`.
    StepEnded {
        /// How it ended.
        exit: Exit,
        /// Whether the supervisor had asked the process to end, so that its exit is not a failure.
        told_to: bool,
    },
    /// A signal asked the supervisor to end the run.
    Interrupted {
        /// The signal's number.
        signal: i32,
    },
}

/// One line of the supervisor's log, `group.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupLine {
    /// Seconds since the Unix epoch.
    pub time_s: f64,
    /// The event.
    #[serde(flatten)]
    pub event: GroupEvent,
}
