//! Programs as workloads: the runner of a run whose plan has a `[command]`, and what it reads from the program.
//!
//! A run of a program has one rank: `multicard program JOB`, which [`run`]s it. The launcher, the follower and the store see a rank
//! that logs protocol events, as the worker's do.
//!
//! ```text
//! supervisor ──▶ runner: multicard program JOB ──▶ the program ──▶ whatever it starts
//!                  │    ▲                              │
//!  rank-0.jsonl ◀──┘    └── output, readings' files ◀──┘
//! ```
//!
//! # Nothing is left running
//!
//! The program leads a process group of its own. The runner is a child subreaper: what the program starts stays below the runner, also
//! what leaves the group and loses its parent. The runner ends all of it when the program has ended, and when it is told to end: SIGTERM,
//! and SIGKILL after a grace. If the runner is killed, the kernel kills the program, and the supervisor and the follower end what carries
//! the run's marker ([`crate::processes`]).

mod facts;
mod keep;
pub mod readings;
mod runner;
mod watch;
mod words;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use facts::{Facts, facts};
pub use runner::run;

/// The file of a run's [`Record`] in its folder.
pub const RECORD_FILE: &str = "program.json";

/// What a run's program was: its command line as it was executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The program and its arguments.
    pub command_line: Vec<String>,
    /// The file that was executed.
    pub executable: PathBuf,
    /// The folder that it ran in.
    pub folder: PathBuf,
    /// The variables that the plan or multicard set. Those that were inherited are not kept: they may hold secrets.
    pub environment: Vec<(String, String)>,
}
