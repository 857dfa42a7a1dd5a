//! The board: what callers want sampled, read by the telemetry thread.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What to sample for one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watch {
    /// The run's id; its samples are delivered under it.
    pub run: String,
    /// UUIDs of its GPUs. All values of a GPU unknown to NVML are `None`.
    pub gpu_uuids: Vec<String>,
    /// Its ranks with their process ids.
    pub ranks: Vec<(u32, u32)>,
    /// The `time_s` of the last sample from an earlier sampling of this run; the time between is marked as a gap. Ignored
    /// if the run is being sampled already.
    pub samples_after: Option<f64>,
}

/// One watched run.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Revision of the first watch of this run; a run that is watched again starts over.
    pub birth: u64,
    pub revision: u64,
    pub watch: Watch,
}

/// The watched runs; the thread takes them over between ticks.
#[derive(Debug, Default)]
pub(super) struct Board {
    pub watches: BTreeMap<String, Entry>,
    pub revision: u64,
    pub stop: bool,
}

#[derive(Debug, Default)]
pub(super) struct Shared {
    board: Mutex<Board>,
    pub changed: Condvar,
}

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn change(&self, change: impl FnOnce(&mut Board)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }
}
