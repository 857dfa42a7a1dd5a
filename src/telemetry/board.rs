//! What callers want sampled: the board that they change and the telemetry thread reads.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What to read for one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watch {
    /// The run; its samples are delivered under this name.
    pub run: String,
    /// Its GPUs. Of one that NVML does not know every value is `None`.
    pub gpu_uuids: Vec<String>,
    /// Its ranks, each with its process id.
    pub ranks: Vec<(u32, u32)>,
    /// The `time_s` of the last sample of an earlier sampling of this run: what lies between is marked as a hole.
    /// It counts where the run is not being sampled already.
    pub samples_after: Option<f64>,
}

/// One watched run, as the caller wants it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The revision at which the run was first watched: a run watched anew starts afresh.
    pub birth: u64,
    pub revision: u64,
    pub watch: Watch,
}

/// What callers want; the thread takes it over between ticks.
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
