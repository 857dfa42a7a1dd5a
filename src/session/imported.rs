//! Runs that stay in the queue until an order names them: runs that an earlier conductor left, and runs that came with an archive. The
//! programs of an archive were written by another person, and run only after the user has seen their command lines.

use std::collections::{BTreeSet, HashMap, HashSet};

use sha2::{Digest as _, Sha256};

use super::{Session, SessionError};
use crate::plan::{Identity, Plan, RunState};
use crate::store::{Imported, RunRecord, number_of};

/// The facts that a session keeps about the archive from which it was imported.
#[derive(Default)]
pub(super) struct FromArchive {
    imported: Imported,
    /// The command lines of its runs with programs, each once.
    programs: Vec<String>,
    /// The programs, by their digests.
    digests: BTreeSet<String>,
}

/// A digest of command lines. Allowing programs names this digest, so that exactly the lines that were shown are allowed.
pub fn digest_of_programs(lines: &[String]) -> String {
    let mut sum = Sha256::new();
    for line in lines {
        sum.update((line.len() as u64).to_le_bytes());
        sum.update(line);
    }
    sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Session {
    /// Reads the programs that came with the session's archive, if the session was imported from one.
    pub(super) fn read_archive_origin(&mut self, runs: &[RunRecord]) -> Result<(), SessionError> {
        let Some(imported) = Imported::read(self.store.folder())? else { return Ok(()) };
        let of_archive = runs.iter().filter(|record| imported.runs.contains(&record.run));
        let (mut lines, mut digests) = (BTreeSet::new(), BTreeSet::new());
        for (record, command) in of_archive.filter_map(|record| Some((record, record.workload.command.as_ref()?))) {
            lines.extend(command.lines(&record.levels));
            digests.insert(command.digest());
        }
        self.from_archive = FromArchive { imported, programs: lines.into_iter().collect(), digests };
        Ok(())
    }

    /// Whether a run came with the session's archive.
    pub(super) fn is_from_archive(&self, run: &str) -> bool {
        self.from_archive.imported.runs.contains(run)
    }

    /// The command lines of programs that came with the session's archive and that the user has not allowed yet. None of their runs starts
    /// before that.
    pub fn asks(&self) -> &[String] {
        let FromArchive { imported, programs, .. } = &self.from_archive;
        let is_allowed = imported.allowed.as_ref().is_some_and(|allowed| *allowed == digest_of_programs(programs));
        if is_allowed { &[] } else { programs }
    }

    /// Allows the programs that came with the archive from now on.
    ///
    /// # Errors
    /// They have another digest, or the permission cannot be stored.
    pub fn allow(&mut self, digest: &str) -> Result<(), SessionError> {
        if digest_of_programs(self.asks()) != digest {
            return Err(SessionError::OtherPrograms);
        }
        Ok(self.from_archive.imported.allow(digest.to_owned(), self.store.folder())?)
    }

    /// Refuses a run that came with the archive and has a program that was not allowed.
    pub(super) fn check_allowed(&self, run: &str) -> Result<(), SessionError> {
        let is_program = || self.jobs.get(run).is_none_or(|queued| queued.job.program.is_some());
        if self.is_from_archive(run) && !self.asks().is_empty() && is_program() {
            return Err(self.not_allowed());
        }
        Ok(())
    }

    /// Refuses a plan with a program that came with the archive and was not allowed, because the plan may have come with the archive, too.
    ///
    /// # Errors
    /// Which programs.
    pub fn check_plan_allowed(&self, plan: &Plan) -> Result<(), SessionError> {
        let of_archive = &self.from_archive.digests;
        let mut programs = plan.blocks().filter_map(|block| block.spec.command.as_ref());
        let is_asked = !self.asks().is_empty() && programs.any(|command| of_archive.contains(&command.digest()));
        if is_asked { Err(self.not_allowed()) } else { Ok(()) }
    }

    pub(super) fn not_allowed(&self) -> SessionError {
        SessionError::NotAllowed { session: self.folder().to_owned(), programs: self.asks().to_vec() }
    }

    /// Starts all queued runs again, including those that an earlier conductor left and those that came with an archive. Runs whose repeats
    /// were queued again since then do not start: they count as interrupted.
    ///
    /// # Errors
    /// One of the runs came with an archive, and the user has not allowed the archive's programs; or the session cannot be read. Then no run
    /// starts.
    pub fn resume_queue(&mut self) -> Result<(), SessionError> {
        let held: Vec<String> = self.queue.held().map(str::to_owned).collect();
        held.iter().try_for_each(|run| self.check_allowed(run))?;
        let replaced = self.replaced(&held)?;
        for run in &held {
            match replaced.get(run) {
                Some(later) => self.end_replaced(run, later)?,
                None => self.queue.release(run)?,
            }
        }
        // The next call of `advance` reports the error.
        let _ = self.record_pending();
        self.go_on_searching();
        self.queue.resume();
        self.kept_queue.paused = false;
        self.keep_queue();
        Ok(())
    }

    /// Those of some waiting runs whose repeats are also those of later runs that have finished or may still finish, each with that run: a
    /// launch does not count the waiting runs of an archive, and queues their repeats again.
    fn replaced(&self, waiting: &[String]) -> Result<HashMap<String, String>, SessionError> {
        if waiting.is_empty() {
            return Ok(HashMap::new());
        }
        self.store.flush()?;
        let mut records = self.store.reader()?.headings()?;
        records.retain(RunRecord::holds_repeat);
        let repeat_of = |record: &RunRecord| (record.identity(), record.repeat);
        // The last run of each repeat stays.
        let last: HashMap<(Identity, u32), &RunRecord> =
            records.iter().map(|record| (repeat_of(record), record)).collect();
        let waiting: HashSet<&str> = waiting.iter().map(String::as_str).collect();
        let replaced = records.iter().filter(|record| waiting.contains(&*record.run)).filter_map(|record| {
            let later = last.get(&repeat_of(record)).filter(|last| last.run != record.run)?;
            Some((record.run.clone(), later.run.clone()))
        });
        Ok(replaced.collect())
    }

    /// Takes a waiting run out of the queue because a later run has its repeat: both would count as repeats.
    fn end_replaced(&mut self, run: &str, later: &str) -> Result<(), SessionError> {
        self.queue.interrupt(run)?;
        let later = number_of(later);
        let reason = format!("not started: run {later} is the same repeat of its cell and was queued later");
        self.withdrawn(run, RunState::Interrupted, Some(reason));
        self.note_for_search(run);
        Ok(())
    }

    /// The runs that wait for an order, by cell and repeat. Runs that came with an archive are left out: only an order that names them
    /// starts them.
    pub(super) fn own_held_runs(&self, runs: &[RunRecord]) -> HashMap<(Identity, u32), String> {
        let held: HashSet<&str> = self.queue.held().collect();
        let own = runs.iter().filter(|record| held.contains(&*record.run) && !self.is_from_archive(&record.run));
        own.map(|record| ((record.identity(), record.repeat), record.run.clone())).collect()
    }
}
