//! Runs on this machine and at sites: the worker, the placement of ranks, the queue, and the processes.
//!
//! [`find_worker`] finds the program that trains, [`place`] gives each rank its GPUs, CPUs and memory, [`Queue`] picks the next
//! run, and [`Launcher`] starts it, follows it to its end and reports [`Update`]s.
//!
//! # Which process starts which
//!
//! ```text
//! workbench: Launcher ──▶ [nsys ──▶] supervisor: multicard group JOB ──▶ one process per rank: multicard rank ⇒ worker rank JOB R
//!      ▲  follows                       │                                   │
//!      └── group.jsonl, rank-R.jsonl ◀──┴───────────────────────────────────┘
//! ```
//!
//! The launcher writes `job.json` into the run's folder and starts the supervisor as the leader of a process group; a traced run's
//! supervisor is a child of nsys, so that nsys records the ranks. The supervisor ([`lead`]) creates the folder where the ranks meet
//! ([`Rendezvous`]), and starts each rank bound to its CPUs. A rank starts as `multicard rank`, which ties its lifetime to the
//! supervisor's and becomes the rank's program ([`become_rank`]). From then on processes communicate only through files: ranks
//! append to their logs, the supervisor to `group.jsonl`, and the follower reads both. So a workbench can end or be killed, and
//! another one that opens the session finds the group ([`find_group`]) and follows it from the start of its logs
//! ([`Launcher::follow`]).
//!
//! If a job has a program of its own, its rank is `multicard program JOB`, which starts the program and writes the log for it
//! (`program`). No worker is involved then, and the supervisor and the follower find remaining processes of the program by their
//! marker and end them.
//!
//! Two small traits hide from the launcher and the follower where a group is executed: a `Place` starts groups and finds them again, and a
//! `Group` reports its state. There are two places. `local` is this machine, where a group is a process group. `slurm` is a site, where a
//! group is a job, or a line on the list of a job that several runs share (`multicard help slurm`):
//!
//! ```text
//! sbatch ──▶ [multicard allocation FOLDER, which starts one run after the other ──▶] supervisor, on the job's first node
//!                                   └──▶ srun ──▶ one process per node: multicard program JOB --by-slurm ──▶ the ranks of the node
//!                                                 or, for the worker: multicard ranks JOB WORKER… ──▶ the ranks of the node
//! ```
//!
//! Only a run that is a job on one node has no `srun`. The process that starts the ranks of a node also samples the node, into
//! `samples-N.jsonl`; the follower joins the samples of all nodes.
//!
//! # How failures are detected
//!
//! | failure of | detected by | consequence |
//! |---|---|---|
//! | a rank, by itself or by a signal | the supervisor, which waits for it | `group.jsonl` records it; the other ranks get SIGTERM, after 5 s SIGKILL |
//! | a rank that hangs or is stopped | the other ranks, whose collective times out after 20 s | they name the rank that does not answer, and end |
//! | a single rank that hangs | the follower, by the silence of its log | the group gets SIGTERM, after 6 s SIGKILL |
//! | a rank on another node | its node's runner or leader, which logs it and fails; `srun` | `srun` ends the ranks of all nodes |
//! | the runner or leader of another node | `srun`, whose message names the node | `srun` ends the ranks of all nodes |
//! | the supervisor | the kernel | the kernel kills the ranks; the follower kills the rest of the process group |
//! | nsys | the follower | ranks that survive nsys are followed to their end; their measurements count |
//! | the disk of the run's folder, which is full | the process that logs | its lines wait in memory until there is room; no rank counts as hung |
//! | the run's folder, which is removed | the supervisor, every 2 s | the ranks get SIGTERM, after 5 s SIGKILL, as nobody can follow the run |
//! | the workbench | no process | the group continues; the next workbench follows it |
//!
//! The follower collects all facts in `outcome::Facts`, which determine the outcome of the run and the rank that failed first.

mod answer;
mod clocks;
mod error;
mod follower;
mod gpu_set;
mod group_log;
mod launcher;
mod local;
mod outcome;
mod place;
mod placement;
mod process;
mod queue;
mod rates;
mod rendezvous;
mod run_folder;
mod samples;
mod slurm;
mod step;
mod supervisor;
mod tail;
mod torch;
mod watched;
mod worker;

#[cfg(test)]
pub(crate) mod misbehaviour;

pub use clocks::tell_time;
pub use error::LaunchError;
pub use follower::{LauncherOptions, Update, output};
pub use launcher::Launcher;
pub use placement::{place, place_beside};
pub use process::{GROUP_COMMAND, find_group, is_alive};
pub use queue::{Queue, QueueError};
pub use rates::{Measured, measure_rates};
pub use rendezvous::{Alone, MeetingFolder, Rendezvous, SharedFolder};
pub use samples::remove_node_samples;
pub use slurm::{
    ALLOCATION_COMMAND, Nodes, SlurmError, add_site, delay, expected_start, keep_allocation, lasting_reason,
    may_be_at_a_site, nodes, script, site, site_node, sites, sites_file, unlimited_node,
};
pub use step::{DESCRIBE_COMMAND, RANKS_COMMAND, node_of_step};
pub use supervisor::{JOB_WORD, PROGRAM_COMMAND, RANK_COMMAND, RANK_WORD, become_rank, lead, lead_node};
pub use torch::{FETCHED, TORCH_VERSION, fetched_folder};
pub use worker::{WorkerCommand, find_supervisor, find_worker, worker_file};
