//! What can go wrong while conducting.

use thiserror::Error;

use crate::dataset::DatasetError;
use crate::launch::{LaunchError, QueueError};
use crate::store::StoreError;
use crate::telemetry::TelemetryError;
use crate::trace::TraceError;

/// Why a session cannot go on.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The session's folder.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A run that is already there could not be followed.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The queue was asked for something impossible: a bug.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The sampler did not start.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// The data set is absent or wrong.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// A report cannot be imported.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A thread could not be started.
    #[error("cannot start a thread to import a report: {0}: end other programs")]
    Thread(std::io::Error),
    /// There is nothing to trace with.
    #[error("the plan asks for trace = \"nsys\", and {0}: install Nsight Systems, or take that line out")]
    NoNsys(String),
    /// There is nothing to launch with.
    #[error("no run can be launched: {0}")]
    NoWorker(String),
    /// Every cell of the plan is invalid here.
    #[error("none of the plan's {cells} cells can run on this machine; the first: {reason}")]
    NoValidCell {
        /// How many there are.
        cells: usize,
        /// Why the first cannot.
        reason: String,
    },
    /// A run cannot be placed.
    #[error("cannot place a run: {0}")]
    Placement(String),
    /// A run that nobody queued: a bug.
    #[error("run {run} is unknown in this session")]
    UnknownRun {
        /// Which.
        run: String,
    },
    /// The plan of a run that an earlier workbench queued cannot be read.
    #[error("run {run} cannot be queued again: its plan as it is kept: {reason}")]
    EarlierPlan {
        /// Which run.
        run: String,
        /// What is wrong with the plan.
        reason: String,
    },
    /// No home folder.
    #[error("cannot find a place for sessions: {0}; give one with --session")]
    NoHome(String),
}
