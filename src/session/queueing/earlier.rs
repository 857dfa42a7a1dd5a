//! Runs that are queued or were: queued again, put back, and taken over from an earlier process.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::{allocation_size, data_folder, queued_job, run_queued};
use crate::analysis::{Setting, level_name};
use crate::launch;
use crate::plan::{Cell, Key, Plan, Request, RunState, WorkloadSpec};
use crate::protocol::{AllocationSize, Job};
use crate::session::kept_queue::KeptQueue;
use crate::session::{Origin, QueuedJob, Session, SessionError, Where, ended};
use crate::store::{Reader, RunRecord, number_of};

/// The digest of a workload's program; `None` if the worker runs it.
fn program_digest(spec: &WorkloadSpec) -> Option<String> {
    spec.command.as_ref().map(|command| command.digest())
}

/// A plan of the session: its id, its name and its text.
type RecordedPlan = (String, String, String);

/// The plans that a run may belong to, the likeliest one first: the plan of its launch, then the last ones with its name. Several launches
/// have the same name if the plan's text was changed between them.
fn plans_of<'p>(plans: &'p [RecordedPlan], record: &'p RunRecord) -> impl Iterator<Item = &'p RecordedPlan> {
    let launched = plans.iter().filter(move |(id, _, _)| *id == record.launch);
    let is_other = move |(id, name, _): &&RecordedPlan| *id != record.launch && *name == record.plan;
    launched.chain(plans.iter().rev().filter(is_other))
}

/// The plan of a recorded run: its id and its text. For a program it must be a plan whose text names that program: whatever the session's
/// record of the workload says, the user can only read the text.
fn earlier_plan(reader: &Reader, record: &RunRecord) -> Result<(String, Plan), SessionError> {
    let run = || record.run.clone();
    let program = program_digest(&record.workload);
    let names_program = |text: &str| {
        let read = Plan::parse(text, &record.plan).ok();
        read.and_then(|plan| program_digest(plan.spec_of(&record.workload.key)?)) == program
    };
    let plans = reader.plans()?;
    let mut own = plans_of(&plans, record).peekable();
    if own.peek().is_none() {
        return Err(SessionError::UnknownRun { run: run() });
    }
    let (plan, _, text) = own
        .find(|(_, _, text)| program.is_none() || names_program(text))
        .ok_or_else(|| SessionError::OtherProgram { run: run() })?;
    let brought = reader.brought_workloads(plan)?;
    let read = Plan::parse_with(text, &record.plan, &brought);
    let read = read.map_err(|error| SessionError::EarlierPlan { run: run(), reason: error.to_string() })?;
    Ok((plan.clone(), read))
}

impl Session {
    /// Queues a run again as a new run with its own folder; the old one keeps its logs.
    pub fn retry(&mut self, run: &str) -> Result<(), SessionError> {
        let queued = self.known_job(run)?;
        self.check_is_only(run, &queued.origin)?;
        if queued.job.program.is_some() && self.is_from_archive(run) && !self.asks().is_empty() {
            return Err(self.not_allowed());
        }
        let folders = self.folders_there();
        self.queue_jobs(vec![queued], &folders)?;
        self.go_on_with_search_of(run);
        Ok(())
    }

    /// Puts a run that was cancelled while it waited back into its place in the queue; it is the same run.
    ///
    /// # Errors
    /// The session does not know the run, it was started, or its repeat was queued again in the meantime.
    pub fn revive(&mut self, run: &str) -> Result<(), SessionError> {
        let queued = self.known_job(run)?;
        self.check_is_only(run, &queued.origin)?;
        if self.recorded_job(run).is_some() {
            return Err(SessionError::Started { run: self.called(run) });
        }
        if self.queue.state(run).is_none() {
            // An earlier conductor cancelled it, so its place is not known any more.
            self.store.decide(run_queued(run, &queued))?;
            return self.push_job(run.to_owned(), queued);
        }
        self.queue.revive(run)?;
        self.go_on_with_search_of(run);
        self.store.decide(run_queued(run, &queued))?;
        self.progress.queued(&queued.origin.cell, queued.estimate_s);
        Ok(())
    }

    /// A run as the window names it: its number, the levels that its plan varies, and its repeat: `17 (fp16 · repeat 2)`.
    fn called(&self, run: &str) -> String {
        let name = || {
            self.store.flush().ok()?;
            let reader = self.store.reader().ok()?;
            let record = reader.run(run).ok()??;
            let (_, plan) = earlier_plan(&reader, &record).ok()?;
            let setting = |key: &Key| Setting::of_factor(&record.workload, key);
            let level = |key: &Key| Some(level_name(&setting(key), record.levels.get(key)?));
            let mut parts: Vec<String> = plan.varied().into_iter().filter_map(level).collect();
            parts.push(format!("repeat {}", record.repeat));
            Some(parts.join(" · "))
        };
        let number = number_of(run);
        name().map_or_else(|| number.to_owned(), |name| format!("{number} ({name})"))
    }

    /// The job of a run of this session.
    fn known_job(&self, run: &str) -> Result<QueuedJob, SessionError> {
        self.jobs.get(run).cloned().map_or_else(|| self.earlier_job(run), Ok)
    }

    /// Checks that no other run of this repeat is waiting or active: a repeat that is queued twice would count as two repeats.
    fn check_is_only(&self, run: &str, origin: &Origin) -> Result<(), SessionError> {
        let is_open = |other: &str| self.queue.state(other).is_some_and(|state| !state.is_final());
        let is_same = |other: &Origin| (&other.cell, other.repeat) == (&origin.cell, origin.repeat);
        match self.jobs.iter().find(|(other, queued)| is_same(&queued.origin) && is_open(other)) {
            Some((other, _)) => Err(SessionError::InQueue { run: self.called(run), other: self.called(other) }),
            None => Ok(()),
        }
    }

    /// The job of a run from an earlier process, rebuilt from the session's records.
    fn earlier_job(&self, run: &str) -> Result<QueuedJob, SessionError> {
        let unknown = || SessionError::UnknownRun { run: run.to_owned() };
        self.store.flush()?;
        let reader = self.store.reader()?;
        let record = reader.run(run)?.ok_or_else(unknown)?;
        let (plan, plan_file) = earlier_plan(&reader, &record)?;
        self.job_of(record, plan, &plan_file)
    }

    /// The job of a recorded run of a plan.
    pub(in crate::session) fn job_of(
        &self,
        record: RunRecord,
        plan: String,
        plan_file: &Plan,
    ) -> Result<QueuedJob, SessionError> {
        let run = record.run.as_str();
        let unrunnable = |reason| SessionError::EarlierCell { run: self.called(run), reason };
        let spec = &*record.workload;
        let Where { site, node } = Where::kept(plan_file, &self.node)?;
        let request =
            Request { spec, levels: &record.levels, data: &record.data, limits: &plan_file.limits, node: &node };
        let (shape, mut estimate) = spec.check_kept(&request).map_err(unrunnable)?;
        estimate.duration_s = record.launched_s().unwrap_or(0.0);
        let placement = self.place_at(&shape, plan_file.limits.exclusive, site.as_ref())?;
        let working_folder = self.recorded_job(run).and_then(|job| job.working_folder);
        let launched_from = || self.kept_queue.folders.get(&plan).cloned();
        let working_folder = working_folder.or_else(launched_from).or_else(|| std::env::current_dir().ok());
        let folders = (data_folder(&record.data)?, working_folder);
        let origin = Origin { plan, cell: record.cell.clone(), repeat: record.repeat };
        let cell = Cell {
            workload: spec.key.clone(),
            identity: record.identity(),
            id: record.cell,
            data: record.data,
            levels: record.levels,
            tracer: record.tracer,
            shape,
            estimate,
        };
        let size = site.as_ref().and_then(|site| allocation_size(plan_file, std::slice::from_ref(&cell), site));
        let mut queued =
            queued_job(plan_file, Some(spec), &cell, origin, record.seed, folders, placement).at(site.as_ref());
        queued.job.allocation = size;
        Ok(queued)
    }

    /// Continues the numbering of runs and takes over the runs that an earlier process left. If a run's group is still active, the run is
    /// followed. If its group is gone, its logs decide its state. A run that never started becomes interrupted; with `restores`, it waits
    /// in the queue instead. Returns the runs as they were before, without the contents of their ranks' logs.
    pub(in crate::session) fn take_up_earlier_runs(&mut self, restores: bool) -> Result<Vec<RunRecord>, SessionError> {
        self.store.flush()?;
        let reader = self.store.reader()?;
        // Numbers are never reused, even if a line of the journal is lost.
        let plans = reader.plans()?;
        let numbers = plans.iter().filter_map(|(plan, _, _)| plan.strip_prefix('p')?.parse().ok());
        self.next_plan = 1 + numbers.max().unwrap_or(0);
        let processes = reader.processes()?;
        let runs = reader.headings()?;
        self.read_archive_origin(&runs)?;
        let known = runs.iter().map(|record| record.run.clone());
        let folders = std::fs::read_dir(self.store.run_folder("")).into_iter().flatten().flatten();
        let folders = folders.filter_map(|entry| entry.file_name().into_string().ok());
        let numbers = known.chain(folders).filter_map(|run| run.split('-').next()?.parse().ok());
        self.next_run = 1 + numbers.max().unwrap_or(0);
        self.kept_queue = KeptQueue::read(self.store.folder());
        let mut earlier_plans = HashMap::new();
        for record in runs.iter().filter(|record| !record.state.is_final()) {
            let run = &record.run;
            if let (Some(job), Some(launcher)) = (self.recorded_job(run), &self.launcher) {
                // The session may have been opened by another path before.
                let job = Job { folder: self.store.run_folder(run), ..job };
                let is_recorded = processes.iter().any(|process| process.run == *run);
                let is_here = job.site.is_none();
                let living = if is_here { launch::find_group(&job.folder) } else { None };
                let (pid, process_start) = living.unwrap_or_default();
                self.queue.adopt(run)?;
                launcher.follow(job.clone(), pid, process_start)?;
                // If a process was killed between starting a group and recording it, the start is recorded here. A run at a site may
                // not have started.
                if is_recorded || is_here && living.is_none() {
                    self.reattached.insert(run.clone());
                }
                self.progress.queued(&record.cell, 0.0);
                self.progress.started(run, &record.cell, 0.0, record.started_time_s.unwrap_or(record.queued_time_s));
                let plan = plans_of(&plans, record).next();
                let plan = plan.map_or_else(|| record.plan.clone(), |(plan, _, _)| plan.clone());
                let origin = Origin { plan, cell: record.cell.clone(), repeat: record.repeat };
                // Whether it may share the machine is unknown, so nothing else starts until it ends.
                if !is_here {
                    self.queue.share(run)?;
                }
                let (links, exclusive) = (String::new(), is_here);
                let queued_job = QueuedJob { job, origin, estimate_s: 0.0, rank_bytes: 0, links, exclusive, starts: 1 };
                self.jobs.insert(run.clone(), queued_job);
            } else {
                let mut reason = "not started: the conductor that ran its queue ended".to_owned();
                if restores && record.state == RunState::Queued {
                    match self.restore(&reader, record, &mut earlier_plans) {
                        Ok(()) => continue,
                        Err(error) => reason = format!("{reason}, and {error}"),
                    }
                }
                self.store.decide(ended(run, RunState::Interrupted, Some(reason), None))?;
            }
        }
        // Whoever opened the session may read the records at once.
        self.store.flush()?;
        // Waiting runs share an allocation; at first each run has the size that it needs itself.
        let size = self.jobs.values().filter_map(|queued| queued.job.allocation).reduce(AllocationSize::or);
        for queued in self.jobs.values_mut() {
            queued.job.allocation = queued.job.allocation.and(size);
        }
        let is_queued = |run: &&String| self.queue.state(run) == Some(RunState::Queued);
        let ordered: Vec<String> = self.kept_queue.order.iter().filter(is_queued).cloned().collect();
        for (position, run) in ordered.iter().enumerate() {
            self.queue.reorder(run, position)?;
        }
        if self.kept_queue.paused && self.queue.held().next().is_some() {
            self.queue.pause();
        } else if self.kept_queue.paused {
            self.kept_queue.paused = false;
            self.keep_queue();
        }
        Ok(runs)
    }

    /// Puts a queued run of an earlier process back into the queue, where it waits for an order that names it.
    fn restore(
        &mut self,
        reader: &Reader,
        record: &RunRecord,
        plans: &mut HashMap<(String, Option<String>), (String, Plan)>,
    ) -> Result<(), SessionError> {
        let (plan, plan_file) = match plans.entry((record.launch.clone(), program_digest(&record.workload))) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(earlier_plan(reader, record)?),
        };
        let queued = self.job_of(record.clone(), plan.clone(), plan_file)?;
        self.push_job(record.run.clone(), queued)?;
        Ok(self.queue.hold(&record.run)?)
    }
}
