//! Runs on this machine: which worker, which rank where, which run next, and the processes themselves.
//!
//! [`find_worker`] finds the program, [`place`] gives each rank its GPUs, CPUs and memory, [`Queue`] says which run is
//! next, and [`Launcher`] starts a run's group, follows its logs and its end, and says all of it as [`Update`]s.

mod follower;
mod gpu_set;
mod launcher;
mod outcome;
mod placement;
mod process;
mod queue;
mod rendezvous;
mod supervisor;
mod tail;
mod worker;

#[cfg(test)]
pub(crate) mod misbehaviour;

pub use launcher::{LaunchError, Launcher, LauncherOptions, Update};
pub use placement::{place, place_beside};
pub use process::{find_group, is_alive};
pub use queue::{Queue, QueueError};
pub use rendezvous::{Alone, MeetingFolder, Rendezvous};
pub use supervisor::{GROUP_COMMAND, JOB_WORD, RANK_COMMAND, RANK_WORD, become_rank, lead};
pub use worker::{WorkerCommand, find_worker};
