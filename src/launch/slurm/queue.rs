//! The jobs of this user in Slurm's queue: asked for at most once in an interval, whoever wants to know.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use super::jobs::{self, FORMAT, JobId, Listed};
use super::tools;

/// The jobs of this user in Slurm's queue, according to Slurm's last answer.
pub(super) struct Queue {
    pub(super) interval: Duration,
    pub(super) last: Mutex<Option<Asked>>,
    /// Why Slurm did not answer, if it did not.
    problem: Mutex<Option<String>>,
    /// Why Slurm has not taken the next job, although it was sent.
    obstacle: Mutex<Option<String>>,
}

pub(super) struct Asked {
    pub(super) at: Instant,
    pub(super) jobs: Option<HashMap<JobId, Listed>>,
}

/// A job in the queue.
pub(super) enum Found {
    /// The queue has been unknown since the given time, or was seen already.
    Unknown,
    /// The job was listed when Slurm was asked at this time.
    Listed(Listed, Instant),
    /// Slurm has forgotten it, or never had it.
    Gone,
}

impl Queue {
    /// A queue that is not known yet. `interval` is the shortest time between two questions about it.
    pub fn new(interval: Duration) -> Self {
        Self { interval, last: Mutex::default(), problem: Mutex::default(), obstacle: Mutex::default() }
    }

    /// The job that `choose` picks among those that were listed after `since`, in another list than the one that was `seen`. If the last list
    /// is old, Slurm is asked, by one thread at a time.
    pub fn find(
        &self,
        since: Instant,
        seen: Option<Instant>,
        choose: impl FnOnce(&HashMap<JobId, Listed>) -> Option<&Listed>,
    ) -> Found {
        let mut last = match self.last.try_lock() {
            Ok(last) => last,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Found::Unknown,
        };
        if last.as_ref().is_none_or(|last| last.at.elapsed() >= self.interval) {
            let at = Instant::now();
            let user = rustix::process::getuid().as_raw().to_string();
            let listed = tools::ask("squeue", &["--noheader", "--states=all", "--user", &user, "--format", FORMAT]);
            set(&self.problem, listed.as_ref().err().map(ToString::to_string));
            *last = Some(Asked { at, jobs: listed.ok().map(|text| jobs::read(&text)) });
        }
        match last.as_ref() {
            Some(Asked { at, jobs: Some(jobs) }) if *at >= since && seen != Some(*at) => {
                choose(jobs).map_or(Found::Gone, |job| Found::Listed(job.clone(), *at))
            }
            _ => Found::Unknown,
        }
    }

    pub fn set_obstacle(&self, obstacle: Option<String>) {
        set(&self.obstacle, obstacle);
    }

    /// The text for a run whose job is unknown, because Slurm has not answered: what it waits for.
    pub fn wait(&self) -> String {
        let known = |text: &Mutex<Option<String>>| text.lock().unwrap_or_else(PoisonError::into_inner).clone();
        known(&self.obstacle)
            .or_else(|| known(&self.problem))
            .map_or_else(|| "it is being sent to Slurm".to_owned(), |problem| format!("{problem}; it is asked again"))
    }
}

fn set(text: &Mutex<Option<String>>, new: Option<String>) {
    *text.lock().unwrap_or_else(PoisonError::into_inner) = new;
}
