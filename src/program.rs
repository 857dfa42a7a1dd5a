//! Programs as workloads: the runner of a run whose plan has a `[command]`, and the readings of the program.
//!
//! A run of a program has one rank: `multicard program JOB`, which [`run`]s it. The launcher, the follower and the store see a rank
//! that logs protocol events, like the worker's ranks.
//!
//! ```text
//! supervisor ──▶ runner: multicard program JOB ──▶ the program ──▶ whatever it starts
//!                  │    ▲                              │
//!  rank-0.jsonl ◀──┘    └── output, readings' files ◀──┘
//! ```
//!
//! # Nothing is left running
//!
//! The program leads a process group of its own. The runner is a child subreaper: all processes that the program starts stay
//! descendants of the runner, even if they leave the group and lose their parent. The runner ends all of them when the program has
//! ended, and when it is told to end: SIGTERM, then SIGKILL after a grace period. If the runner is killed, the kernel kills the
//! program, and the supervisor and the follower end all processes with the run's marker ([`crate::processes`]).

mod absent;
mod exits;
mod facts;
mod keep;
mod log;
mod ranks;
pub mod readings;
mod runner;
mod set_up;
mod shared_files;
mod watch;
mod words;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use absent::missing_program;
pub use facts::{Facts, FilesNow, PROGRAM_FILES, facts};
pub use runner::run;

/// The file of a run's [`Record`] in its folder.
pub const RECORD_FILE: &str = "program.json";

/// The program of a run, as it was executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The program and its arguments.
    pub command_line: Vec<String>,
    /// The file that was executed.
    pub executable: PathBuf,
    /// The folder that it ran in.
    pub folder: PathBuf,
    /// The environment variables that the plan or multicard set. Inherited variables are left out, since they may contain secrets.
    pub environment: Vec<(String, String)>,
}
