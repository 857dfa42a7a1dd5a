//! Reads a job and rejects settings that this worker does not support; the error names the setting.

use std::path::{Path, PathBuf};

use multicard::plan::{Shape, counted};
use multicard::protocol::{Job, PROTOCOL_VERSION, RankPlace};
use serde::Deserialize;
use thiserror::Error;

use crate::workloads::{self, Work};

/// The reasons for which a job is rejected.
#[derive(Debug, Error)]
pub enum JobError {
    /// The file cannot be read.
    #[error("reading {path} failed: {source}")]
    Read {
        /// The job's file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The file is not a job.
    #[error("{path}: {source}")]
    Syntax {
        /// The job's file.
        path: PathBuf,
        /// Where in the file, and why.
        source: serde_json::Error,
    },
    /// The job has another protocol version.
    #[error(
        "{path} is of protocol version {found}, this worker speaks {PROTOCOL_VERSION}: \
         use the worker that came with the workbench"
    )]
    Version {
        /// The job's file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// Its parts contradict each other.
    #[error("{path}: {message}")]
    Wrong {
        /// The job's file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
}

/// Reads and checks a job, and finds its workload.
pub fn read(path: &Path) -> Result<(Job, Work), JobError> {
    let text = std::fs::read_to_string(path).map_err(|source| JobError::Read { path: path.into(), source })?;
    let syntax = |source| JobError::Syntax { path: path.into(), source };
    // Check the version first, because this version may not know the fields of another one.
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let Version { version: found } = serde_json::from_str(&text).map_err(syntax)?;
    if found != PROTOCOL_VERSION {
        return Err(JobError::Version { path: path.into(), found });
    }
    let job: Job = serde_json::from_str(&text).map_err(syntax)?;
    let work = check(&job).map_err(|message| JobError::Wrong { path: path.into(), message })?;
    Ok((job, work))
}

/// The place of a rank.
pub fn place(job: &Job, rank: u32) -> Option<&RankPlace> {
    job.ranks.iter().find(|place| place.rank == rank)
}

fn check(job: &Job) -> Result<Work, String> {
    let Shape { processes, devices_per_process, .. } = job.shape;
    if processes as usize != job.ranks.len() {
        let (processes, ranks) = (counted(processes, "process"), counted(job.ranks.len(), "rank"));
        return Err(format!("its shape has {processes}, but there are places for {ranks}"));
    }
    let uneven =
        |place: &&RankPlace| place.gpu_uuid.is_some() && place.gpu_uuids().count() != devices_per_process as usize;
    if let Some(place) = job.ranks.iter().find(uneven) {
        let gpus = counted(place.gpu_uuids().count(), "GPU");
        return Err(format!("rank {} has a place on {gpus}, and computes on {devices_per_process}", place.rank));
    }
    if let Some(missing) = (0..processes).find(|&rank| place(job, rank).is_none()) {
        return Err(format!("rank {missing} of {processes} has no place"));
    }
    workloads::find(job)
}

#[cfg(test)]
#[path = "job_tests.rs"]
mod tests;
