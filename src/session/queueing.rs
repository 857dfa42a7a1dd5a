//! Queueing the runs of a plan.

mod earlier;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::kept_measures::kept_measures;
use super::made_otherwise::made_otherwise;
use super::reading::recorded_job;
use super::{Added, Origin, QueuedJob, Session, SessionError, Where};
use crate::dataset;
use crate::launch;
use crate::plan::{
    Cell, Data, Identity, Limits, Matrix, Node, Plan, PlannedMeasure, Remark, Shape, Tracer, WorkloadSpec, expand,
    order,
};
use crate::protocol::{AllocationSize, CHECKPOINT_FOLDER, Job, JobLimits, Placement, Program, Site};
use crate::store::{Decision, RunRecord, held_cells};

/// The answer to a launch whose conductor ended while it queued the runs.
const HALF_LAUNCHED: &str = "the session's conductor ended while it queued these runs: the Runs screen shows those that it queued; \
     launch the plan again with “keep finished repeats” (`--resume`) to queue the others";

/// The cells of a plan on this machine.
///
/// # Errors
/// No worker was found, every cell is to run under an nsys that is not installed, or no cell can run here.
pub fn runnable(plan: &Plan, node: &Node) -> Result<Matrix, SessionError> {
    if let (true, Err(reason)) = (plan.needs_worker(), &node.worker) {
        return Err(SessionError::NoWorker(reason.clone()));
    }
    if let ([Tracer::Nsys], Err(reason)) = (plan.tracing.tracers(), &node.nsys) {
        return Err(SessionError::NoNsys(reason.clone()));
    }
    let matrix = expand(plan, node);
    match (matrix.cells.as_slice(), matrix.invalid.first()) {
        ([], Some(first)) => {
            Err(SessionError::NoValidCell { cells: matrix.invalid.len(), reason: first.reason.clone() })
        }
        _ => Ok(matrix),
    }
}

/// The folder of a data set's files; empty for workloads that use no data sets.
fn data_folder(data: &Data) -> Result<PathBuf, SessionError> {
    if data.set.is_empty() { Ok(PathBuf::new()) } else { Ok(dataset::data_folder(data)?) }
}

/// The job's description of its program; `None` if the worker runs it.
fn program(spec: &WorkloadSpec, repeat: u32) -> Option<Program> {
    let command = spec.command.as_deref()?.clone();
    Some(Program { command, repeat, marker: String::new(), device: String::new() })
}

/// The time limit of a run: the command's own, if it is shorter than the plan's.
fn run_time_s(limits: &Limits, spec: &WorkloadSpec) -> Option<f64> {
    let own = spec.command.as_ref().and_then(|command| command.time_limit_s);
    own.into_iter().chain(limits.run_time_s).min_by(f64::total_cmp)
}

/// The node-hours of all runs of a plan at a site, and whether they are an upper bound. They come from the estimates of
/// the runs; if a run has none, the time limits of all runs give the upper bound. `None` for runs on this machine, and
/// if a run has neither.
pub fn node_hours(plan: &Plan, matrix: &Matrix) -> Option<(f64, bool)> {
    plan.site.as_ref()?;
    let all = |time_s: &dyn Fn(&Cell) -> Option<f64>| {
        let times = matrix.cells.iter().map(|cell| Some(time_s(cell)? * f64::from(cell.shape.nodes())));
        Some(times.sum::<Option<f64>>()? * f64::from(plan.repeats) / 3600.0)
    };
    let estimated = all(&|cell| Some(cell.estimate.duration_s).filter(|duration_s| *duration_s > 0.0));
    let limit_s = |cell: &Cell| plan.spec_of(&cell.workload).and_then(|spec| run_time_s(&plan.limits, spec));
    estimated.map(|hours| (hours, false)).or_else(|| Some((all(&limit_s)?, true)))
}

/// Reads the data sets whose files are checked before a run occupies a GPU. Each combination of the factors that decide what is read is
/// checked once.
fn check_data(plan: &Plan, cells: &[Cell], folders: &[PathBuf]) -> Result<(), SessionError> {
    let mut read = HashSet::new();
    for (cell, folder) in cells.iter().zip(folders) {
        let rule = plan.spec_of(&cell.workload).and_then(|spec| spec.data_set(&cell.data.set));
        let Some(rule) = rule.filter(|rule| !rule.read_by.is_empty()) else { continue };
        let levels: Vec<_> = rule.read_by.iter().map(|key| cell.levels.get(key).cloned()).collect();
        if read.insert((cell.data.clone(), levels)) {
            dataset::check(&cell.levels, &cell.data, folder)?;
        }
    }
    Ok(())
}

/// The job for a run of a cell, with the folders of its data and of its program. Its id and its own folder are added when it is queued.
fn queued_job(
    plan: &Plan,
    spec: Option<&WorkloadSpec>,
    cell: &Cell,
    origin: Origin,
    seed: u64,
    (data_folder, working_folder): (PathBuf, Option<PathBuf>),
    placement: Placement,
) -> QueuedJob {
    let limits = JobLimits {
        run_time_s: spec.and_then(|spec| run_time_s(&plan.limits, spec)),
        memory_limit_bytes: plan.limits.memory_limit_bytes(),
    };
    let job = Job {
        data_folder,
        seed,
        warm_up_steps: plan.warm_up_steps,
        mode: plan.mode,
        working_folder,
        ranks: placement.ranks,
        limits,
        trace: plan.tracing.capture_by(cell.tracer, &cell.shape, plan.warm_up_steps),
        built_in_trace: cell.tracer.is_built_in(),
        without_calls: cell.tracer.is_without_calls(),
        in_windows: cell.tracer.is_in_windows(),
        program: spec.and_then(|spec| program(spec, origin.repeat)),
        ..Job::new(cell.workload.clone(), cell.levels.clone(), cell.shape, cell.data.clone())
    };
    QueuedJob {
        job,
        origin,
        estimate_s: cell.estimate.duration_s,
        rank_bytes: cell.estimate.peak_bytes,
        links: placement.links,
        exclusive: plan.limits.exclusive,
        starts: 1,
    }
}

/// The job of a cell that is only shown or tested, not queued.
fn trial_job(plan: &Plan, cell: &Cell, working_folder: Option<PathBuf>, placement: Placement) -> QueuedJob {
    let origin = Origin { plan: String::new(), cell: cell.id.clone(), repeat: 1 };
    let in_folders = (PathBuf::new(), working_folder);
    queued_job(plan, plan.spec_of(&cell.workload), cell, origin, plan.seed, in_folders, placement)
}

/// The size of the allocation that the runs of a plan share; `None` if each is a job.
fn allocation_size(plan: &Plan, cells: &[Cell], site: &Site) -> Option<AllocationSize> {
    let sizes = cells.iter().filter(|_| plan.one_allocation).map(|cell| AllocationSize::of(site, &cell.shape));
    sizes.reduce(AllocationSize::or)
}

/// The positions of the cells that ask for most: for most of one node, and for most nodes.
fn largest(cells: &[Cell]) -> Vec<usize> {
    let most = |measure: fn(&Shape) -> (u32, u32)| (0..cells.len()).max_by_key(|at| measure(&cells[*at].shape));
    let of_one = most(|shape| (shape.devices_per_node().max(shape.ranks_per_node), shape.nodes()));
    let of_all = most(|shape| (shape.nodes(), shape.devices_per_node().max(shape.ranks_per_node)));
    let mut both: Vec<usize> = of_all.into_iter().chain(of_one).collect();
    both.dedup();
    both
}

impl Where {
    /// The job of a cell's first run at the site, as if the plan was launched in a session in the working directory. `cells` are those of
    /// the plan, which may share an allocation.
    ///
    /// # Errors
    /// The plan has no site, or the working directory does not exist any more.
    pub fn sample(&self, plan: &Plan, cells: &[Cell], cell: &Cell) -> Result<Job, SessionError> {
        let site = self.site.as_ref();
        let site = site.ok_or_else(|| SessionError::Site("the plan has no site: name one with --site".to_owned()))?;
        let here = std::env::current_dir();
        let here = here.map_err(|error| SessionError::Site(format!("cannot find the working directory: {error}")))?;
        let placement = Self::placement(site, &cell.shape);
        let job = trial_job(plan, cell, Some(here.clone()), placement).at(Some(site)).job;
        let run = format!("0001-{}-1", cell.id);
        let folder = here.join("SESSION").join("runs").join(&run);
        Ok(Job { run, folder, allocation: allocation_size(plan, cells, site), ..job })
    }

    /// When the largest run of a plan would start at the site if it was sent now; a warning if Slurm would not take it, or not yet. `None` on
    /// this machine, and for a plan without cells.
    pub fn start(&self, plan: &Plan, cells: &[Cell]) -> Option<Remark> {
        let site = &self.site.as_ref()?.name;
        let cell = &cells[*largest(cells).first()?];
        let refused = |reason: String| format!("site {site} would not take the largest run: {reason}");
        let start = match self.sample(plan, cells, cell) {
            Err(error) => Err(refused(error.to_string())),
            Ok(job) => launch::expected_start(&job).map_err(|reason| match launch::delay(&job, &reason) {
                Some(delay) => format!("site {site}: {delay}"),
                None => refused(reason),
            }),
        };
        Some(match start {
            Ok(start) => {
                let text = format!("at site {site}, the largest run would start at {start}, if it was sent now");
                Remark { text, is_warning: false }
            }
            Err(text) => Remark { text, is_warning: true },
        })
    }
}

/// The data that a launch of a plan needs.
pub(super) struct Prepared {
    pub(super) matrix: Matrix,
    /// For each cell of the matrix the job of one run, without a plan and a repeat.
    pub(super) jobs: Vec<QueuedJob>,
    /// For each cell the repeats that the session has.
    repeats: Vec<Vec<u32>>,
    /// The session's runs, without those that came with an archive and wait.
    recorded: Vec<RunRecord>,
    /// The runs that an earlier process left, by cell and repeat.
    waiting: HashMap<(Identity, u32), String>,
    /// The runs that have not ended, by cell and repeat.
    open: HashMap<(Identity, u32), String>,
    /// Warnings about delays of the runs, one line each.
    pub(super) warnings: Vec<String>,
    pub(super) working_folder: Option<PathBuf>,
}

impl Prepared {
    /// The lowest number that is above all repeat numbers of all cells.
    pub(super) fn next_repeat(&self) -> u32 {
        1 + self.repeats.iter().flatten().max().copied().unwrap_or(0)
    }
}

impl QueuedJob {
    /// The job of this repeat for a plan of the session.
    pub(super) fn of_repeat(mut self, plan: &str, repeat: u32, seed: u64) -> Self {
        plan.clone_into(&mut self.origin.plan);
        (self.origin.repeat, self.job.seed) = (repeat, seed);
        if let Some(program) = &mut self.job.program {
            program.repeat = repeat;
        }
        self
    }
}

/// The folders of runs by their cell and repeat, which are part of their names.
type RunFolders = HashMap<String, Vec<PathBuf>>;

/// The checkpoint of the latest run of a cell and repeat that ended early.
fn checkpoint_of(origin: &Origin, folders: &RunFolders) -> Option<PathBuf> {
    let same = folders.get(&format!("{}-{}", origin.cell, origin.repeat))?;
    same.iter().map(|run| run.join(CHECKPOINT_FOLDER)).filter(|checkpoint| checkpoint.is_dir()).max()
}

impl Session {
    /// Queues the runs of a plan.
    ///
    /// With `only_missing`, repeats that are finished, active or queued are kept; if an earlier conductor left some of them waiting, these
    /// start. Other waiting runs continue to wait. Without `only_missing`, all repeats run again and are numbered after the existing
    /// repeats of all cells.
    pub fn add_plan(&mut self, plan: &Plan, only_missing: bool) -> Result<Added, SessionError> {
        self.add_cells(plan, only_missing, |_| true)
    }

    /// Like `add_plan`, but only for some of the plan's cells; a search chooses its cells itself.
    pub fn add_cells(
        &mut self,
        plan: &Plan,
        only_missing: bool,
        is_wanted: impl Fn(&Identity) -> bool,
    ) -> Result<Added, SessionError> {
        if plan.search.is_some() {
            return self.add_search(plan, only_missing);
        }
        let Prepared { matrix, jobs, repeats, recorded, waiting, mut open, mut warnings, working_folder } =
            self.prepared(plan)?;
        let decided = self.record_plan(plan, working_folder.as_deref())?;
        let (mut queued_runs, mut kept, mut kept_open) = (Vec::new(), HashSet::new(), Vec::new());
        // Repeats with the same number are compared with each other, so those of one launch have the same numbers in all of its cells.
        let wanted = matrix.cells.iter().zip(&repeats).filter(|(cell, _)| is_wanted(&cell.identity));
        let last_made = wanted.flat_map(|(_, made)| made).max().copied().unwrap_or(0);
        for planned in order(plan, &matrix.cells) {
            let (cell, made) = (&matrix.cells[planned.cell], &repeats[planned.cell]);
            if !is_wanted(&cell.identity) {
                continue;
            }
            let repeat = if only_missing {
                if made.contains(&planned.repeat) {
                    kept.insert((cell.identity, planned.repeat));
                    kept_open.extend(open.remove(&(cell.identity, planned.repeat)));
                    // This launch names the run, so it may start.
                    if let Some(run) = waiting.get(&(cell.identity, planned.repeat)) {
                        self.queue.release(run)?;
                    }
                    continue;
                }
                planned.repeat
            } else {
                planned.repeat + last_made
            };
            // All cells of a repeat start from the same weights and see the data in the same order.
            let seed = plan.seed.wrapping_add(u64::from(repeat) - 1);
            queued_runs.push(jobs[planned.cell].clone().of_repeat(&decided, repeat, seed));
        }
        let runs = self.queue_jobs(queued_runs, &self.folders_there())?;
        let is_kept = |record: &&RunRecord| record.holds_repeat() && kept.contains(&(record.identity(), record.repeat));
        let kept_records = recorded.iter().filter(is_kept);
        warnings.extend(made_otherwise(plan, self.store.folder(), kept_records, &mut self.facts));
        Ok(Added { runs, kept: kept.len(), open: kept_open, invalid: matrix.invalid, search: None, warnings })
    }

    /// Checks everything that a launch of a plan needs, and prepares a job for each of its cells. Nothing is recorded.
    pub(super) fn prepared(&self, plan: &Plan) -> Result<Prepared, SessionError> {
        let Where { site, node } = Where::of(plan, &self.node)?;
        let matrix = runnable(plan, &node)?;
        let folders = matrix.cells.iter().map(|cell| data_folder(&cell.data));
        let folders = folders.collect::<Result<Vec<_>, _>>()?;
        check_data(plan, &matrix.cells, &folders)?;
        let places = self.places(&matrix.cells, plan.limits.exclusive, site.as_ref())?;
        self.store.flush()?;
        self.check_only_place(plan)?;
        let reader = self.store.reader()?;
        let mut recorded = reader.headings()?;
        let waiting = self.own_held_runs(&recorded);
        // A waiting run that came with an archive does not count as a repeat of this plan.
        let held: HashSet<&str> = self.queue.held().collect();
        recorded.retain(|record| !(held.contains(&*record.run) && self.is_from_archive(&record.run)));
        let earlier = held_cells(&recorded);
        let unended = recorded.iter().filter(|record| !record.state.is_final());
        let open = unended.map(|record| ((record.identity(), record.repeat), record.run.clone())).collect();
        let working_folder = std::env::current_dir().ok();
        let ids: HashSet<&str> = earlier.values().map(|before| before.cell.as_str()).collect();
        let size = site.as_ref().and_then(|site| allocation_size(plan, &matrix.cells, site));
        let mut warnings: Vec<String> = kept_measures(plan, &reader.own_measures()?).into_iter().collect();
        if let Some(site) = &site {
            for at in if size.is_some() { vec![0] } else { largest(&matrix.cells) } {
                let mut job = trial_job(plan, &matrix.cells[at], working_folder.clone(), places[at].clone());
                job.job.allocation = size;
                let warning = self.check_taken(site, job)?;
                warnings.extend(warning.filter(|warning| !warnings.contains(warning)));
            }
        }
        let (mut jobs, mut repeats) = (Vec::new(), Vec::new());
        for ((cell, folder), place) in matrix.cells.iter().zip(folders).zip(places) {
            let before = earlier.get(&cell.identity);
            let id = match before {
                Some(before) => before.cell.clone(),
                None if ids.contains(cell.id.as_str()) => cell.identity.digits(8),
                None => cell.id.clone(),
            };
            let origin = Origin { plan: String::new(), cell: id, repeat: 1 };
            let spec = plan.spec_of(&cell.workload);
            let in_folders = (folder, working_folder.clone());
            let mut queued = queued_job(plan, spec, cell, origin, plan.seed, in_folders, place).at(site.as_ref());
            queued.job.allocation = size;
            if queued.estimate_s <= 0.0 {
                // The duration of a program is known only from its earlier runs.
                queued.estimate_s = before.and_then(|before| before.last_s).unwrap_or(0.0);
            }
            jobs.push(queued);
            repeats.push(before.map_or_else(Vec::new, |before| before.repeats.clone()));
        }
        Ok(Prepared { matrix, jobs, repeats, recorded, waiting, open, warnings, working_folder })
    }

    /// Records a plan with its workloads and studies; returns its id within the session.
    pub(super) fn record_plan(&mut self, plan: &Plan, working_folder: Option<&Path>) -> Result<String, SessionError> {
        let id = format!("p{}", self.next_plan);
        self.next_plan += 1;
        let brought = plan.brought_workloads().into_iter();
        self.store.decide(Decision::PlanAdded {
            plan: id.clone(),
            name: plan.name.clone(),
            toml: plan.to_toml(),
            workloads: brought.filter_map(|spec| serde_json::to_value(spec).ok()).collect(),
        })?;
        if let Some(folder) = working_folder {
            self.kept_queue.folders.insert(id.clone(), folder.to_owned());
            self.keep_queue();
        }
        let saved: Vec<String> = self.store.reader()?.studies()?.into_iter().map(|(name, _)| name).collect();
        // A study that was changed after the launch is not replaced.
        for study in plan.studies.iter().filter(|study| !saved.contains(&study.name)) {
            self.save_study(&study.name, study.to_json())?;
        }
        // The same holds for measures.
        let known = self.store.reader()?.own_measures()?;
        for PlannedMeasure { measure, .. } in &plan.measures {
            if known.iter().all(|known| known.key != measure.key) {
                self.save_measure(measure.clone())?;
            }
        }
        Ok(id)
    }

    /// Executes a launch once: if it is sent again because its answer was lost, it gets the same answer.
    ///
    /// # Errors
    /// Those of `add`, or a conductor ended while it executed the launch.
    pub fn launch_once(
        &mut self,
        id: &str,
        add: impl FnOnce(&mut Self) -> Result<Added, String>,
    ) -> Result<Added, String> {
        if let Some(before) = self.kept_queue.launch(id) {
            return before.clone().unwrap_or_else(|| Err(HALF_LAUNCHED.to_owned()));
        }
        self.kept_queue.keep_launch(id, None);
        self.keep_queue();
        let outcome = add(self);
        self.kept_queue.keep_launch(id, Some(outcome.clone()));
        self.keep_queue();
        outcome
    }

    /// Assigns ids and folders to jobs and queues them, all or none; returns their ids.
    pub(super) fn queue_jobs(
        &mut self,
        mut jobs: Vec<QueuedJob>,
        folders: &RunFolders,
    ) -> Result<Vec<String>, SessionError> {
        let (mut runs, mut decisions) = (Vec::with_capacity(jobs.len()), Vec::with_capacity(jobs.len()));
        for queued in &mut jobs {
            let run = format!("{:04}-{}-{}", self.next_run, queued.origin.cell, queued.origin.repeat);
            self.next_run += 1;
            queued.job.resume = checkpoint_of(&queued.origin, folders);
            decisions.push(run_queued(&run, queued));
            runs.push(run);
        }
        if !decisions.is_empty() {
            self.store.decide_all(decisions)?;
        }
        for (run, queued) in runs.iter().zip(jobs) {
            self.push_job(run.clone(), queued)?;
        }
        Ok(runs)
    }

    /// Adds a run that is recorded as queued to the queue.
    fn push_job(&mut self, run: String, mut queued: QueuedJob) -> Result<(), SessionError> {
        queued.job.run.clone_from(&run);
        queued.job.folder = self.store.run_folder(&run);
        if let Some(program) = &mut queued.job.program {
            program.marker = format!("{run}-{:016x}", rand::random::<u64>());
        }
        self.queue.push(run.as_str())?;
        if !queued.exclusive {
            self.queue.share(&run)?;
        }
        self.progress.queued(&queued.origin.cell, queued.estimate_s);
        self.jobs.insert(run, queued);
        Ok(())
    }

    /// The job that a run was started with, if it was.
    pub(super) fn recorded_job(&self, run: &str) -> Option<Job> {
        recorded_job(self.store.folder(), run)
    }

    /// The folders of the session's runs.
    pub(super) fn folders_there(&self) -> RunFolders {
        let mut folders = RunFolders::new();
        for entry in std::fs::read_dir(self.store.run_folder("")).into_iter().flatten().flatten() {
            if let Some((_, origin)) = entry.file_name().to_str().and_then(|run| run.split_once('-')) {
                folders.entry(origin.to_owned()).or_default().push(entry.path());
            }
        }
        folders
    }
}

/// The journal's entry for a queued run.
fn run_queued(run: &str, queued: &QueuedJob) -> Decision {
    Decision::RunQueued {
        run: run.to_owned(),
        plan: queued.origin.plan.clone(),
        cell: queued.origin.cell.clone(),
        workload: queued.job.workload.clone(),
        levels: queued.job.levels.clone(),
        data: queued.job.data.clone(),
        repeat: queued.origin.repeat,
        seed: queued.job.seed,
        tracer: queued.job.tracer(),
        mode: queued.job.mode,
    }
}
