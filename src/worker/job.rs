//! Reading a job, and refusing what this worker cannot do, by name.

use std::path::{Path, PathBuf};

use multicard::plan::{DataSet, ImageSettings, Scenario, Strategy, Workload};
use multicard::protocol::{Job, PROTOCOL_VERSION, RankPlace};
use serde::Deserialize;
use thiserror::Error;

/// Why a job is not taken.
#[derive(Debug, Error)]
pub enum JobError {
    /// The file cannot be read.
    #[error("reading {path} failed: {source}")]
    Read {
        /// The job.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is no job.
    #[error("{path}: {source}")]
    Syntax {
        /// The job.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// Another workbench wrote it.
    #[error(
        "{path} is of protocol version {found}, this worker speaks {PROTOCOL_VERSION}: \
         use the worker that came with the workbench"
    )]
    Version {
        /// The job.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// Its parts contradict each other.
    #[error("{path}: {message}")]
    Wrong {
        /// The job.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
}

/// Reads and checks a job.
pub fn read(path: &Path) -> Result<(Job, ImageSettings), JobError> {
    let text = std::fs::read_to_string(path).map_err(|source| JobError::Read { path: path.into(), source })?;
    let syntax = |source| JobError::Syntax { path: path.into(), source };
    // The version first: fields of another version may be unknown here.
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let Version { version: found } = serde_json::from_str(&text).map_err(syntax)?;
    if found != PROTOCOL_VERSION {
        return Err(JobError::Version { path: path.into(), found });
    }
    let job: Job = serde_json::from_str(&text).map_err(syntax)?;
    let settings = check(&job).map_err(|message| JobError::Wrong { path: path.into(), message })?;
    Ok((job, settings))
}

/// The place of a rank.
pub fn place(job: &Job, rank: u32) -> Option<&RankPlace> {
    job.ranks.iter().find(|place| place.rank == rank)
}

fn check(job: &Job) -> Result<ImageSettings, String> {
    if job.workload != Workload::Image {
        return Err(format!("workload {} is not there yet: this worker trains image", job.workload.name()));
    }
    let settings = ImageSettings::from_levels(&job.levels)?;
    // Threads of one process share its place.
    let ranks = if settings.strategy == Strategy::Dp { 1 } else { settings.gpus };
    if ranks != job.ranks.len() {
        return Err(format!("gpus = {}, but there are places for {} ranks", settings.gpus, job.ranks.len()));
    }
    if settings.strategy == Strategy::Single && settings.gpus > 1 {
        return Err(format!("strategy = single has one rank, not {}", settings.gpus));
    }
    let uneven = |place: &&RankPlace| place.gpu_uuid.is_some() && place.gpu_uuids().count() * ranks != settings.gpus;
    if let Some(place) = job.ranks.iter().find(uneven) {
        let found = place.gpu_uuids().count();
        return Err(format!(
            "rank {} has a place on {found} GPUs, gpus = {} over {ranks} ranks",
            place.rank, settings.gpus
        ));
    }
    if let Some(missing) = (0..job.ranks.len() as u32).find(|&rank| place(job, rank).is_none()) {
        return Err(format!("rank {missing} of {} has no place", job.ranks.len()));
    }
    let positive = [
        ("batch_size", settings.batch_size),
        ("epochs", settings.epochs),
        ("image_size", settings.image_size.max(0) as usize),
        ("loader_workers", settings.loader_workers),
        ("train_images", settings.train_images),
        ("test_images", settings.test_images),
    ];
    if let Some((factor, _)) = positive.iter().find(|(_, value)| *value == 0) {
        return Err(format!("{factor} must be at least 1"));
    }
    let files = matches!(job.data, DataSet::Folder { .. });
    if files != (settings.scenario == Scenario::B) {
        return Err(format!("scenario = {} does not fit data.set = {}", settings.scenario.name(), job.data.name()));
    }
    Ok(settings)
}

#[cfg(test)]
#[path = "job_tests.rs"]
mod tests;
