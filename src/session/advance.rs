//! A turn of a session: the next runs start, and what arrived from runs, samplers and imports is recorded.

use std::fs;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::{Duration, Instant};

use super::{Notice, Session, SessionError, ended, tracing};
use crate::foreign;
use crate::launch::{LaunchError, Launcher, Update};
use crate::plan::{RunState, Tracer};
use crate::protocol::{RankPlace, Sample, now_s};
use crate::store::Decision;
use crate::telemetry::Watch;

/// The least free space on the session's disk for a run to start: many times the logs of a short run.
const RUN_BYTES: u64 = 8 << 20;
/// The fewest files that the session's disk must have room for when a run starts: several times the files of a run.
const RUN_FILES: u64 = 64;
/// Time until a run that could not be started on a full disk is tried again. A disk may have space that this user may not use.
const SPACE_PATIENCE: Duration = Duration::from_secs(5);

/// A start that a full disk prevented.
pub(super) struct WithoutSpace {
    run: String,
    /// What could not be written.
    reason: String,
    at: Instant,
}

impl WithoutSpace {
    fn error(&self) -> SessionError {
        SessionError::FullDisk { run: self.run.clone(), reason: self.reason.clone() }
    }
}

impl Session {
    /// Waits up to `patience` for updates, records them and starts the next runs.
    ///
    /// # Errors
    /// Something cannot be recorded, or there is no space for a further run. Nothing is lost: the next call tries again.
    pub fn advance(&mut self, patience: Duration) -> Result<Vec<Notice>, SessionError> {
        let mut notices = std::mem::take(&mut self.untold);
        match self.advance_with(patience, &mut notices) {
            Ok(()) => Ok(notices),
            Err(error) => {
                self.untold = notices;
                Err(error)
            }
        }
    }

    fn advance_with(&mut self, patience: Duration, notices: &mut Vec<Notice>) -> Result<(), SessionError> {
        self.record_pending()?;
        self.advance_searches()?;
        // Messages of active runs are recorded even if no further run can start.
        let started = self.start_next(notices);
        match self.updates.recv_timeout(patience) {
            Ok(update) => self.take(update, notices)?,
            Err(RecvTimeoutError::Timeout) => {}
            // Without a launcher, no update can arrive.
            Err(RecvTimeoutError::Disconnected) => thread::sleep(patience),
        }
        while let Ok(update) = self.updates.try_recv() {
            self.take(update, notices)?;
        }
        while let Ok((run, sample)) = self.samples.try_recv() {
            self.take_sample(run, Box::new(sample), notices)?;
        }
        self.take_import(notices)?;
        self.take_measured();
        started?;
        if self.unrecorded.is_empty() {
            self.advance_searches()?;
        }
        self.start_next(notices)
    }

    /// Drives the session until nothing is left to do, passing each notice to `show`.
    pub fn run_to_end(&mut self, mut show: impl FnMut(&Notice)) -> Result<(), SessionError> {
        while !self.is_idle() {
            for notice in self.advance(Duration::from_millis(100))? {
                show(&notice);
            }
        }
        self.store.flush()?;
        Ok(())
    }

    fn start_next(&mut self, notices: &mut Vec<Notice>) -> Result<(), SessionError> {
        let has_worker = self.launcher.as_ref().is_some_and(Launcher::has_worker);
        let is_program = |session: &Self| {
            let next = session.queue.peek().and_then(|run| session.jobs.get(run));
            next.is_some_and(|queued| queued.job.program.is_some())
        };
        // An import by nsys would disturb a run, and a run would disturb a measurement.
        while self.unrecorded.is_empty()
            && (has_worker || is_program(self))
            && self.import.is_none()
            && !self.is_measuring()
            && self.has_room()?
        {
            self.check_space()?;
            let beside = self.queue.active().map(str::to_owned).collect();
            let Some(run) = self.queue.peek().map(str::to_owned) else { break };
            let Some(mut queued) = self.jobs.get(&run).cloned() else {
                return Err(SessionError::UnknownRun { run });
            };
            // A run at a site is placed once it starts, on a node that its scheduler chooses.
            if queued.job.site.is_none() {
                if let Some(program) = &mut queued.job.program {
                    program.device = self.device(&queued.job.ranks);
                }
                let placed = self.placed(&run, &queued, beside);
                self.store.decide(placed)?;
            }
            let Some(launcher) = &self.launcher else { break };
            let is_here = queued.job.site.is_none();
            let failed = |error: LaunchError| (error.to_string(), is_here && error.is_full_disk());
            let started = match queued.job.trace.filter(|_| queued.job.tracer() == Tracer::Nsys) {
                None => launcher.start(queued.job.clone()).map_err(failed),
                Some(capture) => {
                    let profiler = tracing::profiler(&self.node, &queued.job, capture);
                    let profiler = profiler.map_err(|reason| (reason, false));
                    profiler.and_then(|profiler| launcher.start_under(queued.job.clone(), profiler).map_err(failed))
                }
            };
            if let Err((reason, true)) = started {
                // With a job in its folder, the next conductor would take it for a run that was started.
                let _ = fs::remove_file(self.store.run_folder(&run).join("job.json"));
                let waiting = WithoutSpace { run, reason, at: Instant::now() };
                return Err(self.without_space.insert(waiting).error());
            }
            self.queue.next();
            self.progress.started(&run, &queued.origin.cell, queued.estimate_s, now_s());
            if let Err((reason, _)) = started {
                let reason = Some(reason);
                self.queue.set(&run, RunState::Failed)?;
                self.progress.ended(&run, now_s());
                self.record(ended(&run, RunState::Failed, reason.clone(), None));
                self.note_for_search(&run);
                notices.push(Notice::State { run, state: RunState::Failed, reason });
            } else if queued.job.site.is_none() {
                self.durations.start(&run);
            }
        }
        Ok(())
    }

    /// Records what a run reports and passes it on as a notice.
    pub(super) fn take(&mut self, update: Update, notices: &mut Vec<Notice>) -> Result<(), SessionError> {
        match update {
            Update::Started { run, pid, process_start } => {
                // The start of a reattached run is already in the journal.
                if !self.reattached.remove(&run) {
                    if let Some(placed) = self.placed_at_site(&run) {
                        self.record(placed);
                        self.progress.restarted(&run, now_s());
                        self.durations.start(&run);
                    }
                    self.record(Decision::RunStarted { run: run.clone(), pid, process_start });
                }
                self.watch(&run, None);
            }
            Update::Waits { run, reason } => {
                self.progress.waits_at_site(&run, reason.is_some());
                match &reason {
                    Some(reason) => self.waits.insert(run.clone(), reason.clone()),
                    None => self.waits.remove(&run),
                };
                notices.push(Notice::Waits { run, reason });
            }
            Update::RankUp { run, rank, pid } => self.watch(&run, Some((rank, pid))),
            Update::Event(line) => {
                self.durations.event(&line);
                self.progress.event(&line, now_s());
                self.store.event(line.clone())?;
                notices.push(Notice::Event(line));
            }
            Update::Sample { run, sample } => {
                if self.is_new_at_site(&run, &sample)? {
                    self.take_sample(run, sample, notices)?;
                }
            }
            Update::Noise { run, file_line } => notices.push(Notice::Noise { run, message: file_line }),
            Update::State { run, state, reason, again } => {
                self.queue.set(&run, state)?;
                if state.is_final() {
                    self.sampler.unwatch(&run);
                    self.watched_ranks.remove(&run);
                    let is_program = self.jobs.get(&run).is_some_and(|queued| queued.job.program.is_some());
                    let duration_s = self.durations.end(&run, is_program);
                    self.progress.ended(&run, now_s());
                    self.record(ended(&run, state, reason.clone(), duration_s));
                    self.forget_samples_at_site(&run);
                    self.note_for_search(&run);
                    self.import_own_trace(&run)?;
                    if again {
                        self.start_again(&run)?;
                    }
                }
                notices.push(Notice::State { run, state, reason });
            }
        }
        Ok(())
    }

    /// Records a sample.
    fn take_sample(&self, run: String, sample: Box<Sample>, notices: &mut Vec<Notice>) -> Result<(), SessionError> {
        self.store.sample(&run, (*sample).clone())?;
        notices.push(Notice::Sample { run, sample });
        Ok(())
    }

    /// Checks that the session's disk has space for the logs of a run.
    fn check_space(&self) -> Result<(), SessionError> {
        let folder = || self.folder().to_owned();
        let free_bytes = foreign::free_bytes(self.folder()).unwrap_or(u64::MAX);
        if free_bytes < RUN_BYTES {
            return Err(SessionError::NoSpace { folder: folder(), free_bytes, needed_bytes: RUN_BYTES });
        }
        let free_files = foreign::free_files(self.folder()).unwrap_or(u64::MAX);
        if free_files < RUN_FILES {
            return Err(SessionError::NoFiles { folder: folder(), free_files, needed_files: RUN_FILES });
        }
        match &self.without_space {
            Some(last) if last.at.elapsed() < SPACE_PATIENCE => Err(last.error()),
            _ => Ok(()),
        }
    }

    /// Tells the sampler which processes and GPUs belong to a run.
    fn watch(&mut self, run: &str, rank: Option<(u32, u32)>) {
        // Processes at a site are not on this machine.
        let Some(queued) = self.jobs.get(run).filter(|queued| queued.job.site.is_none()) else { return };
        let ranks = self.watched_ranks.entry(run.to_owned()).or_default();
        ranks.extend(rank);
        let gpu_uuids = queued.job.ranks.iter().flat_map(RankPlace::gpu_uuids).map(str::to_owned).collect();
        let trees = queued.job.program.is_some();
        self.sampler.watch(Watch { run: run.to_owned(), gpu_uuids, ranks: ranks.clone(), trees, samples_after: None });
    }
}
