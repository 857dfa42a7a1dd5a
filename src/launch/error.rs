//! Errors of launches.

use std::io;
use std::path::PathBuf;

use crate::foreign;

/// Reason why a run was not launched. Nothing was started, and no update follows.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// There is no worker.
    #[error("run {0:?} cannot be started: there is no worker")]
    NoWorker(String),
    /// There is no supervisor for the ranks.
    #[error("{0}")]
    NoSupervisor(String),
    /// The run is already followed.
    #[error("run {0:?} is already running")]
    AlreadyRunning(String),
    /// The job names no rank.
    #[error("run {0:?} has no rank: place at least one")]
    NoRank(String),
    /// The folder holds logs already.
    #[error("{} exists already: give the run another folder", .0.display())]
    HasLog(PathBuf),
    /// It cannot be sent to its site.
    #[error("{0}")]
    Site(String),
    /// The run's folder could not be written.
    #[error("cannot write {}: {source}: check the disk's space and the folder's permissions", path.display())]
    Folder {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The supervisor, or the profiler around it, could not be executed.
    #[error("failed to start {}: {source}: {}", path.display(), foreign::start_advice(source))]
    Execute {
        /// The program.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The thread that follows the run could not be started.
    #[error("cannot start a thread to follow the run: {source}: {}", foreign::start_advice(source))]
    Thread {
        /// The system's error.
        source: io::Error,
    },
}

impl LaunchError {
    /// Whether the disk of the run's folder is full. The same run can be started once there is space.
    pub fn is_full_disk(&self) -> bool {
        matches!(self, Self::Folder { source, .. } if foreign::is_full_disk(source))
    }
}
