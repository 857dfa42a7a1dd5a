//! Errors of a session.

use thiserror::Error;

use crate::dataset::DatasetError;
use crate::launch::{LaunchError, QueueError};
use crate::plan::counted;
use crate::store::StoreError;
use crate::telemetry::TelemetryError;
use crate::trace::TraceError;

/// Error of a session.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The session folder cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An active run could not be followed.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// An invalid queue operation: a bug.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The sampler did not start.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// The data set is missing or damaged.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// A report cannot be imported.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A thread could not be started.
    #[error("cannot start a thread to import a report: {0}: end other programs")]
    Thread(std::io::Error),
    /// A plan cannot be run at its site.
    #[error("{0}")]
    Site(String),
    /// The question of a plan's search cannot be answered.
    #[error("{0}")]
    Search(String),
    /// The plan asks for a trace and nsys is missing.
    #[error("the plan asks for trace = \"nsys\", but {0}: install Nsight Systems, or remove that line")]
    NoNsys(String),
    /// The folder of a trial cannot be made.
    #[error("cannot make the folder {} for a trial: {error}", folder.display())]
    Scratch {
        /// The folder.
        folder: std::path::PathBuf,
        /// The reason.
        error: std::io::Error,
    },
    /// The session's disk is nearly full.
    #[error(
        "only {:.1} MB are free on the disk of {}, and a run needs at least {:.1} MB to start: free some space and continue",
        *free_bytes as f64 / 1e6, folder.display(), *needed_bytes as f64 / 1e6
    )]
    NoSpace {
        /// The session's folder.
        folder: std::path::PathBuf,
        /// Free space.
        free_bytes: u64,
        /// Space needed.
        needed_bytes: u64,
    },
    /// The session's disk has room for too few further files for a run.
    #[error(
        "only {free_files} more files can be made on the disk of {} (free inodes), and a run needs at least {needed_files} to start: remove \
             some files and continue",
        folder.display()
    )]
    NoFiles {
        /// The session's folder.
        folder: std::path::PathBuf,
        /// How many files can still be made.
        free_files: u64,
        /// How many must be possible.
        needed_files: u64,
    },
    /// A run could not be started, because the disk of its folder is full.
    #[error("run {run} waits for space: {reason}")]
    FullDisk {
        /// The run.
        run: String,
        /// What could not be written.
        reason: String,
    },
    /// A device cannot be measured.
    #[error("cannot measure this machine: {0}")]
    Rates(String),
    /// No worker was found.
    #[error("cannot launch runs: {0}")]
    NoWorker(String),
    /// No cell of the plan can run on this machine.
    #[error("this machine can run none of the plan's {}; the reason for the first: {reason}", counted(*cells, "cell"))]
    NoValidCell {
        /// Number of cells.
        cells: usize,
        /// Why the first cell cannot run.
        reason: String,
    },
    /// A run cannot be placed.
    #[error("cannot place a run: {0}")]
    Placement(String),
    /// The run's program differs from the one that its plan names.
    #[error(
        "run {run}: the text of its plan names another program than the session's record of the workload: one of them was changed. Run \
             the plan's file again (`multicard run`)"
    )]
    OtherProgram {
        /// The run.
        run: String,
    },
    /// Programs that came with an archive were not allowed.
    #[error(
        "this session came with an archive, whose programs run only after you allow them: {}. `multicard attach --resume \
             --allow-programs {}` allows them in this session",
        programs.join("; "), session.display()
    )]
    NotAllowed {
        /// The session.
        session: std::path::PathBuf,
        /// Their command lines.
        programs: Vec<String>,
    },
    /// The allowed programs differ from those that the session has.
    #[error("the programs that came with this session's archive are not the ones that were allowed: review them again")]
    OtherPrograms,
    /// A note is too long.
    #[error("a note of {bytes} bytes is too long: at most {most} bytes are allowed; put a longer text into a file")]
    LongNote {
        /// Its length.
        bytes: usize,
        /// The greatest length.
        most: usize,
    },
    /// The session has no such run.
    #[error("this session has no run {run}")]
    UnknownRun {
        /// The run's id.
        run: String,
    },
    /// The recorded plan of a run cannot be read.
    #[error("cannot retry run {run}: its recorded plan is invalid: {reason}")]
    EarlierPlan {
        /// The run's id.
        run: String,
        /// What is wrong with the plan.
        reason: String,
    },
    /// The cell of a run from an earlier process cannot run here.
    #[error("run {run} cannot be queued again: {reason}")]
    EarlierCell {
        /// The run: its number, levels and repeat.
        run: String,
        /// Why its cell cannot run, and what to do.
        reason: String,
    },
    /// The same repeat of the cell is already in the queue.
    #[error("run {run} is not queued again: run {other} is the same repeat of its cell and has not ended yet")]
    InQueue {
        /// The run: its number, levels and repeat.
        run: String,
        /// The run that waits or runs, in the same form.
        other: String,
    },
    /// A run cannot be put back into its place in the queue.
    #[error("run {run} cannot be put back into the queue, since it has started; Retry queues it again as a new run")]
    Started {
        /// The run: its number, levels and repeat.
        run: String,
    },
    /// There is no home folder.
    #[error("cannot find a folder for sessions: {0}; name one with --session")]
    NoHome(String),
}
