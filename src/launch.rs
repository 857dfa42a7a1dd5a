//! Runs on this machine: which worker, which rank where, which run next, and the processes themselves.
//!
//! [`find_worker`] finds the program that trains, [`place`] gives each rank its GPUs, CPUs and memory, [`Queue`] says which run is
//! next, and [`Launcher`] starts it, follows it to its end and says what happens as [`Update`]s.
//!
//! # Who starts whom
//!
//! ```text
//! workbench: Launcher ──▶ [nsys ──▶] supervisor: multicard group JOB ──▶ one process a rank: multicard rank ⇒ worker rank JOB R
//!      ▲  follows                       │                                   │
//!      └── group.jsonl, rank-R.jsonl ◀──┴───────────────────────────────────┘
//! ```
//!
//! The launcher writes `job.json` into the run's folder and starts the supervisor as the leader of a process group; a traced run's
//! supervisor is a child of nsys, so that nsys records the ranks. The supervisor ([`lead`]) makes the folder where the ranks meet
//! ([`Rendezvous`]), and starts each rank bound to its CPUs. A rank begins as `multicard rank`, which ties its life to the supervisor's and
//! becomes the rank's program ([`become_rank`]). From then on processes talk through files alone: ranks append to their logs, the
//! supervisor to `group.jsonl`, and whoever follows the run reads both. So a workbench can end or be killed, and another one that opens
//! the session finds the group ([`find_group`]) and follows it from the beginning of its logs ([`Launcher::follow`]).
//!
//! # How each death is seen
//!
//! | what ends | who sees it | what follows |
//! |---|---|---|
//! | a rank, by itself or by a signal | the supervisor, which waits for it | `group.jsonl` says how; the other ranks get SIGTERM, after 5 s SIGKILL |
//! | a rank that hangs or is stopped | the other ranks, whose collective times out after 20 s | they say who does not answer, and end |
//! | a single rank that hangs | the follower, by the silence of its log | the group gets SIGTERM, after 6 s SIGKILL |
//! | the supervisor | the kernel | it kills the ranks; the follower kills what is left of the process group |
//! | nsys | the follower | ranks that outlive it are followed to their end; what they measured counts |
//! | the workbench | nobody | the group goes on; the next workbench follows it |
//!
//! The follower gathers all of it as `outcome::Facts`, which say what became of the run and name the rank that failed first.

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

pub use follower::{LauncherOptions, Update};
pub use launcher::{LaunchError, Launcher};
pub use placement::{place, place_beside};
pub use process::{find_group, is_alive};
pub use queue::{Queue, QueueError};
pub use rendezvous::{Alone, MeetingFolder, Rendezvous};
pub use supervisor::{GROUP_COMMAND, JOB_WORD, RANK_COMMAND, RANK_WORD, become_rank, lead};
pub use worker::{WorkerCommand, find_worker};
