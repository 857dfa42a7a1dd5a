//! A session that is run: plan → queue → groups → events and samples → store.
//!
//! A conductor (`conduct`), trials and tests drive this one object. It is passive: its owner calls
//! [`Session::advance`], which waits briefly, records what arrived, starts the next runs, and returns
//! notices for the owner to show. Everything happens in one order, without locks.

mod advance;
mod at_site;
mod doctor;
mod durations;
mod error;
mod finished;
mod imported;
mod kept;
mod kept_measures;
mod kept_queue;
mod machine;
mod made_otherwise;
mod measurement;
mod names;
mod notice;
mod packing;
mod places;
mod progress;
mod queueing;
mod rates;
mod reading;
mod search_report;
mod searching;
mod site_check;
mod tracing;
mod trial;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};

pub use at_site::Where;
pub use doctor::{Check, Health, examine};
pub use error::SessionError;
pub use finished::all_finished;
pub use imported::digest_of_programs;
pub use kept::note_session;
pub use machine::Machine;
pub use measurement::{MEASURE_S, Measurement, Stage, USUAL_MEASURE_S};
pub use names::{default_sessions_folder, find_session, new_session_folder, short_names};
pub use notice::{Added, Notice};
pub use places::{Disk, Places};
pub use progress::{Estimate, Progress};
pub use queueing::{node_hours, runnable};
pub use rates::{RatesMessage, measure_rates, measured_gpus};
pub use reading::{damage_message, is_queue_paused, open_reader};
pub use search_report::{SearchReport, search_reports};
pub use searching::SearchView;
pub use site_check::examine_site;
pub use tracing::attach_report;
pub use trial::{Trial, try_once};

use crate::launch::{Launcher, LauncherOptions, Queue, Update, WorkerCommand};
use crate::plan::{Node, RunState, Topology};
use crate::program;
use crate::protocol::{Job, Sample};
use crate::store::{Decision, Reader, Store, StoreError};
use crate::telemetry::{self, Sampler};

/// Capacity of the channel from the launcher; its threads block when it is full.
const UPDATES_IN_FLIGHT: usize = 4096;
/// Capacity of the channel from the sampler; when it is full, samples are dropped and the gap is marked.
const SAMPLES_IN_FLIGHT: usize = 1024;

/// A session opened for running.
pub struct Session {
    store: Store,
    node: Node,
    topology: Topology,
    /// The worker that measures the machine.
    worker: Option<WorkerCommand>,
    /// `None` only while the session is being left.
    launcher: Option<Launcher>,
    sampler: Sampler,
    queue: Queue,
    jobs: BTreeMap<String, QueuedJob>,
    progress: Progress,
    watched_ranks: BTreeMap<String, Vec<(u32, u32)>>,
    /// Runs left by an earlier process that are followed and whose start is already in the journal.
    reattached: BTreeSet<String>,
    durations: durations::Durations,
    /// The reasons why runs at sites wait, by run.
    waits: BTreeMap<String, String>,
    /// The times of the last samples of runs at sites, in seconds since the Unix epoch.
    sampled_until_s: BTreeMap<String, f64>,
    next_run: u32,
    next_plan: u32,
    /// Decisions that took effect but could not be written, for example on a full disk. They are written before anything else happens.
    unrecorded: VecDeque<Decision>,
    /// Whether the last attempt to write them found the journal deleted, replaced or moved away.
    is_journal_gone: bool,
    /// The last start that a full disk prevented.
    without_space: Option<advance::WithoutSpace>,
    /// Notices from before an error.
    untold: Vec<Notice>,
    updates: Receiver<Update>,
    samples: Receiver<(String, Sample)>,
    import: Option<tracing::Import>,
    /// Reports waiting for the current import.
    to_import: VecDeque<tracing::ToImport>,
    /// The measurement that is waiting or running, or else the last one.
    measurement: Option<Measurement>,
    /// The running measurement.
    measuring: Option<rates::Measuring>,
    /// Facts about the programs of runs.
    facts: program::Facts,
    /// The programs that came with an archive.
    from_archive: imported::FromArchive,
    /// The facts about the queue that the next conductor needs.
    kept_queue: kept_queue::KeptQueue,
    /// Searches that this process continues or has completed.
    searches: Vec<searching::Searching>,
    /// Whether runs of searches have ended since the last decision of a search.
    is_search_due: bool,
}

/// A run that can be started or retried.
#[derive(Clone)]
struct QueuedJob {
    job: Job,
    origin: Origin,
    estimate_s: f64,
    /// The estimated device memory of a rank.
    rank_bytes: u64,
    /// The interconnects of its GPUs.
    links: String,
    /// Whether it needs the machine to itself.
    exclusive: bool,
    /// How often it was started: more than once if its site ended it.
    starts: u32,
}

/// The plan, cell and repeat of a run.
#[derive(Clone)]
struct Origin {
    plan: String,
    cell: String,
    repeat: u32,
}

impl Session {
    /// Opens the session in `folder`, or creates one there. Queued runs that an earlier process left are recorded as never started.
    pub fn open_or_create(folder: &Path, machine: Machine) -> Result<Self, SessionError> {
        Self::open_with(folder, machine, LauncherOptions::default(), false)
    }

    /// Opens a session as [`Session::open_or_create`] does, and puts queued runs of an earlier process back into the queue, which is then
    /// paused.
    pub fn open_and_restore(folder: &Path, machine: Machine) -> Result<Self, SessionError> {
        Self::open_with(folder, machine, LauncherOptions::default(), true)
    }

    /// Opens a session as [`Session::open_or_create`] does, with a launcher that has other time limits.
    fn open_with(
        folder: &Path,
        machine: Machine,
        options: LauncherOptions,
        restores: bool,
    ) -> Result<Self, SessionError> {
        let Machine { node, topology, worker } = machine;
        let is_session = folder.join("session.toml").exists();
        let store = match if is_session { Store::open(folder) } else { Store::create(folder, &node) } {
            // Another program created it in the meantime.
            Err(StoreError::Exists { .. }) => Store::open(folder)?,
            store => store?,
        };
        let (update_sender, updates) = sync_channel(UPDATES_IN_FLIGHT);
        let (sample_sender, samples) = sync_channel(SAMPLES_IN_FLIGHT);
        let mut session = Self {
            sampler: Sampler::start(telemetry::DEFAULT_INTERVAL, sample_sender)?,
            launcher: Some(Launcher::with_options(worker.clone(), update_sender, options)),
            worker,
            store,
            node,
            topology,
            queue: Queue::default(),
            jobs: BTreeMap::new(),
            progress: Progress::default(),
            watched_ranks: BTreeMap::new(),
            reattached: BTreeSet::new(),
            durations: durations::Durations::default(),
            waits: BTreeMap::new(),
            sampled_until_s: BTreeMap::new(),
            next_run: 1,
            next_plan: 1,
            updates,
            samples,
            import: None,
            to_import: VecDeque::new(),
            measurement: None,
            measuring: None,
            unrecorded: VecDeque::new(),
            is_journal_gone: false,
            without_space: None,
            untold: Vec::new(),
            facts: program::Facts::default(),
            from_archive: imported::FromArchive::default(),
            kept_queue: kept_queue::KeptQueue::default(),
            searches: Vec::new(),
            is_search_due: false,
        };
        let earlier = session.take_up_earlier_runs(restores)?;
        if restores {
            session.take_up_searches()?;
            session.advance_searches()?;
        }
        session.take_up_imports(earlier)?;
        Ok(session)
    }

    /// The session's folder.
    pub fn folder(&self) -> &Path {
        self.store.folder()
    }

    /// The machine that runs the session.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// A reader of the session's records. It never waits for this writer.
    pub fn reader(&self) -> Result<Reader, SessionError> {
        Ok(self.store.reader()?)
    }

    /// Progress of the queue.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Whether nothing runs, nothing can start, no report is being imported, nothing is measured and everything is recorded.
    pub fn is_idle(&self) -> bool {
        let has_import = self.import.is_some() || !self.to_import.is_empty();
        self.queue.is_idle() && self.unrecorded.is_empty() && !self.is_search_due && !has_import && !self.is_measuring()
    }

    /// Names of the report that is being imported and of those that wait for it.
    pub fn importing(&self) -> impl Iterator<Item = &str> {
        self.import.iter().map(tracing::Import::name).chain(self.to_import.iter().map(tracing::ToImport::name))
    }

    /// The runs whose starts or ends cannot be recorded, because the journal was deleted, replaced or moved away.
    pub fn unrecordable(&self) -> impl Iterator<Item = &str> {
        self.unrecorded.iter().filter(move |_| self.is_journal_gone).filter_map(|decision| match decision {
            Decision::RunPlaced { run, .. } | Decision::RunStarted { run, .. } | Decision::RunEnded { run, .. } => {
                Some(run.as_str())
            }
            _ => None,
        })
    }

    /// Starts no further run until [`Session::go_on`] or [`Session::resume_queue`].
    pub fn pause_queue(&mut self) {
        self.queue.pause();
    }

    /// Pauses the queue until the user resumes it: the next conductor keeps it paused.
    pub fn pause_until_resumed(&mut self) {
        self.queue.pause();
        self.kept_queue.paused = true;
        self.keep_queue();
    }

    /// Lets the queue start runs again. Runs that an earlier process left, or that came with an archive, stay queued until an order names
    /// them.
    pub fn go_on(&mut self) {
        self.queue.resume();
    }

    /// The number of runs that an earlier process left, or that came with an archive, and that wait for the user to resume them.
    pub fn restored(&self) -> usize {
        self.queue.held().count()
    }

    /// Whether nothing happens until the queue is resumed: no queued run may start, and no run is active.
    pub fn is_resting(&self) -> bool {
        let has_import = self.import.is_some() || !self.to_import.is_empty();
        let has_work = self.queue.active().next().is_some() || has_import || self.is_measuring();
        self.queue.is_blocked() && !self.queue.is_idle() && !has_work && self.unrecorded.is_empty()
    }

    /// Whether the queue is paused.
    pub fn is_paused(&self) -> bool {
        self.queue.is_paused()
    }

    /// All runs of the queue in order, with their states.
    pub fn states(&self) -> impl Iterator<Item = (&str, RunState)> {
        self.queue.states()
    }

    /// Moves a queued run to `position` among the queued ones, from 0. The next conductor keeps this order.
    pub fn reorder(&mut self, run: &str, position: usize) -> Result<(), SessionError> {
        self.queue.reorder(run, position)?;
        let queued = self.queue.states().filter(|(_, state)| *state == RunState::Queued);
        self.kept_queue.order = queued.map(|(run, _)| run.to_owned()).collect();
        self.keep_queue();
        Ok(())
    }

    /// Writes what the next conductor needs to know about the queue. If that fails, as on a full disk, the next conductor uses the order in
    /// which runs were queued.
    fn keep_queue(&self) {
        let _ = self.kept_queue.write(self.store.folder());
    }

    /// Closes the session and leaves active runs running. The next process that opens it reattaches to them; runs that are still queued are
    /// then recorded as never started.
    pub fn leave(mut self) -> Result<(), SessionError> {
        self.cancel_imports();
        (self.import, self.measuring) = (None, None);
        if let Some(launcher) = self.launcher.take() {
            launcher.leave();
        }
        self.flush()
    }

    /// Stops a run, or removes it from the queue.
    pub fn cancel(&mut self, run: &str) -> Result<(), SessionError> {
        self.stop_search_of(run);
        match self.queue.state(run) {
            Some(RunState::Queued) => {
                self.cancel_queued(run)?;
                // The next call of `advance` reports the error.
                let _ = self.record_pending();
            }
            Some(state) if !state.is_final() => {
                if let Some(launcher) = &self.launcher {
                    launcher.cancel(run);
                }
            }
            Some(_) | None => {}
        }
        Ok(())
    }

    /// Removes a run from the queue. The removal is recorded together with other unwritten decisions.
    fn cancel_queued(&mut self, run: &str) -> Result<(), SessionError> {
        self.queue.cancel(run)?;
        self.withdrawn(run, RunState::Cancelled, None);
        Ok(())
    }

    /// Notes that a run left the queue in this state without a start.
    fn withdrawn(&mut self, run: &str, state: RunState, reason: Option<String>) {
        if let Some(queued) = self.jobs.get(run) {
            self.progress.withdrawn(&queued.origin.cell, queued.estimate_s);
        }
        self.unrecorded.push_back(ended(run, state, reason, None));
    }

    /// Stops all active runs, imports and a measurement, and empties the queue.
    pub fn cancel_all(&mut self) -> Result<(), SessionError> {
        self.cancel_imports();
        self.cancel_measuring();
        self.stop_searches();
        // Queued runs first, so that none starts in place of a stopped one.
        let (waiting, running): (Vec<_>, Vec<_>) = self
            .queue
            .states()
            .filter(|(_, state)| !state.is_final())
            .map(|(run, state)| (run.to_owned(), state))
            .partition(|(_, state)| *state == RunState::Queued);
        for (run, _) in waiting {
            self.cancel_queued(&run)?;
        }
        // The next call of `advance` reports the error.
        let _ = self.record_pending();
        running.iter().try_for_each(|(run, _)| self.cancel(run))
    }

    /// Records a decision that has taken effect. If it cannot be written now, nothing else happens until it is written.
    fn record(&mut self, decision: Decision) {
        self.unrecorded.push_back(decision);
        // The next call of `advance` reports the error.
        let _ = self.record_pending();
    }

    fn record_pending(&mut self) -> Result<(), SessionError> {
        if !self.unrecorded.is_empty() {
            let recorded = self.store.decide_all(self.unrecorded.iter().cloned().collect());
            self.is_journal_gone = recorded.as_ref().is_err_and(StoreError::is_log_gone);
            recorded?;
            self.unrecorded.clear();
        }
        Ok(())
    }

    /// Waits until everything recorded so far is in the index.
    pub fn flush(&self) -> Result<(), SessionError> {
        Ok(self.store.flush()?)
    }
}

fn ended(run: &str, state: RunState, reason: Option<String>, duration_s: Option<f64>) -> Decision {
    Decision::RunEnded { run: run.to_owned(), state, reason, duration_s }
}
