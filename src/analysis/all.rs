//! Summaries of many runs, on several threads: reading their steps takes most of the time.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{RunSummary, summarise_run};
use crate::store::{Reader, StoreError};

/// Up to this number of runs, everything is summarised on the calling thread.
const FEW_RUNS: usize = 20;
/// The most threads that summarise runs.
const MOST_THREADS: usize = 8;

/// Summarises runs by their ids, with one record in memory for each thread. `take` receives results from time to time, in any order, and an
/// error that it returns ends the work.
///
/// # Errors
/// The index cannot be read. The inner error comes from `take`.
pub fn summarise_runs<E>(
    reader: &Reader,
    runs: &[String],
    mut take: impl FnMut(Vec<RunSummary>) -> Result<(), E>,
) -> Result<Result<(), E>, StoreError> {
    let next = AtomicUsize::new(0);
    let ready = Mutex::new(Vec::new());
    // Summarises one more run; false if none is left.
    let summarise_next = |reader: &Reader| -> bool {
        let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) else { return false };
        let summary = reader.run(run).map(|record| record.as_ref().map(summarise_run));
        ready.lock().unwrap_or_else(PoisonError::into_inner).push(summary);
        true
    };
    let mut taken = || -> Result<Result<(), E>, StoreError> {
        let ready = std::mem::take(&mut *ready.lock().unwrap_or_else(PoisonError::into_inner));
        let summaries: Vec<Option<RunSummary>> = ready.into_iter().collect::<Result<_, _>>()?;
        Ok(take(summaries.into_iter().flatten().collect()))
    };
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
    let helpers = if runs.len() > FEW_RUNS { cpus.min(MOST_THREADS) - 1 } else { 0 };
    std::thread::scope(|scope| {
        // With fewer helper threads it only takes longer.
        for reader in (0..helpers).filter_map(|_| reader.another().ok()) {
            let summarise_next = &summarise_next;
            let help = move || while summarise_next(&reader) {};
            let _ = std::thread::Builder::new().name("summarise".to_owned()).spawn_scoped(scope, help);
        }
        while summarise_next(reader) {
            let sent = taken();
            if !matches!(sent, Ok(Ok(()))) {
                // The rest is no longer needed.
                next.store(runs.len(), Ordering::Relaxed);
                return sent;
            }
        }
        Ok(Ok(()))
    })
    .and_then(|sent| if sent.is_err() { Ok(sent) } else { taken() })
}
