//! Allocations that many runs share: one job of Slurm whose steward, on the job's first node, executes the runs of a list one after the other.
//! Conductor and steward communicate by files: the list, a request to end in a run's folder, and a record of each step there.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::SCRIPT_FILE;
use super::group::{At, JobGroup, LOGS_LIMIT, PACE};
use super::jobs::new_comment;
use super::queue::Queue;
use super::record::{self, Record};
use super::script::{self as batch, Ask};
use super::steward::{self, ALLOCATION_COMMAND, Line, StepRecord};
use super::submit::Submitter;
use crate::launch::error::LaunchError;
use crate::launch::follower::LauncherOptions;
use crate::launch::place::{End, Group, Lead, Pace, Standing};
use crate::launch::worker::find_supervisor;
use crate::plan::RunState;
use crate::protocol::{AllocationSize, Exit, GROUP_LOG, Job};

/// Folder in a session with a folder for each allocation.
const ALLOCATIONS_FOLDER: &str = "allocations";

/// A steward without work ends after this many times the time between two questions to Slurm, and not before the least time: its conductor
/// sends the next run within seconds.
const IDLE_INTERVALS: u32 = 3;
const LEAST_IDLE: Duration = Duration::from_secs(3);

/// How long a state that Slurm reported for an allocation is used again, because all of its runs ask for the state.
const FRESH: Duration = Duration::from_millis(300);

/// The allocations of a session at a site.
pub(super) struct Allocations {
    queue: Arc<Queue>,
    submitter: Submitter,
    known: Mutex<Vec<Arc<Allocation>>>,
}

/// One allocation.
struct Allocation {
    name: String,
    folder: PathBuf,
    size: AllocationSize,
    group: Mutex<JobGroup>,
    standing: Mutex<Option<(Instant, Standing)>>,
    /// Runs that this conductor follows there and that have not ended.
    open_runs: AtomicUsize,
}

impl Allocation {
    /// Its state.
    fn standing(&self) -> Standing {
        let mut known = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, standing)) = &*known
            && (at.elapsed() < FRESH || matches!(standing, Standing::Ended(_)))
        {
            return standing.clone();
        }
        let ended_well = record::has_ended_well(&self.folder).then_some(Exit::Code(0));
        let standing = self.group().look(ended_well);
        *known = Some((Instant::now(), standing.clone()));
        standing
    }

    fn group(&self) -> MutexGuard<'_, JobGroup> {
        self.group.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a run may be added to its list.
    fn takes(&self, size: &AllocationSize) -> bool {
        // Slurm is not asked again: should the allocation have ended meanwhile, the run goes to another one.
        let known = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = matches!(*known, Some((_, Standing::Ended(_)))) || record::has_ended_well(&self.folder);
        self.size.fits(size) && !is_over && !self.folder.join(steward::CLOSE_FILE).exists()
    }

    fn name(&self) -> String {
        self.group().name()
    }

    /// Notes that a run has ended. If it was the last run of a job that Slurm has not started yet, the job is cancelled.
    fn has_one_less(&self) {
        let is_last = self.open_runs.fetch_sub(1, Ordering::Relaxed) == 1;
        if is_last && matches!(self.standing(), Standing::Waits(_)) {
            self.close();
            self.group().signal(Signal::TERM);
        }
    }

    /// Tells its steward to end after the last run of the list.
    fn close(&self) {
        // If this fails, the steward ends a little later.
        let _ = File::create(self.folder.join(steward::CLOSE_FILE));
    }
}

impl Allocations {
    pub fn new(queue: Arc<Queue>, submitter: Submitter) -> Arc<Self> {
        Arc::new(Self { queue, submitter, known: Mutex::default() })
    }

    /// Adds a run to the list of an allocation with room for it, or of a new allocation. `command` starts the run's
    /// supervisor.
    pub fn start(
        self: &Arc<Self>,
        job: &Job,
        size: AllocationSize,
        command: Vec<OsString>,
    ) -> Result<Box<dyn Group>, LaunchError> {
        let allocation = self.join(job, size, command)?;
        Ok(Box::new(SharedRun::new(self, job, allocation)))
    }

    /// The group of a run that an earlier conductor added to the list of the named allocation.
    pub fn find(self: &Arc<Self>, job: &Job, name: &str) -> Box<dyn Group> {
        let folder = allocations_folder(job).join(name);
        let mut known = self.known();
        let known_one = known.iter().find(|allocation| allocation.name == name).cloned();
        let allocation = known_one.unwrap_or_else(|| {
            let record = Record::read(&folder);
            let size = record.as_ref().and_then(|record| record.size).unwrap_or_default();
            let allocation = Arc::new(self.allocation(name.to_owned(), folder, size, At::recorded(record)));
            known.push(Arc::clone(&allocation));
            allocation
        });
        drop(known);
        allocation.open_runs.fetch_add(1, Ordering::Relaxed);
        Box::new(SharedRun::new(self, job, allocation))
    }

    fn known(&self) -> MutexGuard<'_, Vec<Arc<Allocation>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn allocation(&self, name: String, folder: PathBuf, size: AllocationSize, at: At) -> Allocation {
        let group = JobGroup::new(Arc::clone(&self.queue), folder.clone(), at);
        Allocation {
            name,
            folder,
            size,
            group: Mutex::new(group),
            standing: Mutex::default(),
            open_runs: AtomicUsize::new(0),
        }
    }

    fn join(&self, job: &Job, size: AllocationSize, command: Vec<OsString>) -> Result<Arc<Allocation>, LaunchError> {
        let line = Line::of(job, command)?;
        let mut known = self.known();
        let fitting = known.iter().find(|allocation| allocation.takes(&size)).cloned();
        let allocation = match fitting {
            Some(fitting) => fitting,
            None => {
                let new = Arc::new(self.submit(job, size)?);
                known.push(Arc::clone(&new));
                new
            }
        };
        let failed = |source| LaunchError::Folder { path: job.folder.clone(), source };
        let record = Record { allocation: Some(allocation.name.clone()), ..Record::default() };
        record.write(&job.folder).and_then(|()| line.append(&allocation.folder)).map_err(failed)?;
        allocation.open_runs.fetch_add(1, Ordering::Relaxed);
        Ok(allocation)
    }

    /// Sends the job of a new allocation to Slurm.
    fn submit(&self, job: &Job, size: AllocationSize) -> Result<Allocation, LaunchError> {
        let name = format!("{:016x}", rand::random::<u64>());
        let folder = std::path::absolute(allocations_folder(job).join(&name));
        let failed = |source| LaunchError::Folder { path: job.folder.clone(), source };
        let folder = folder.map_err(failed)?;
        let comment = new_comment();
        let text =
            script(job, size, &folder, &comment, self.queue.interval * IDLE_INTERVALS).map_err(LaunchError::Site)?;
        let path = folder.join(SCRIPT_FILE);
        let record = Record { comment, size: Some(size), ..Record::default() };
        let written = fs::create_dir_all(&folder)
            .and_then(|()| batch::write(&path, &text))
            // Written before the job is submitted: the job can then be found even if this process ends before it knows the job's id.
            .and_then(|()| record.write(&folder));
        written.map_err(|source| LaunchError::Folder { path: path.clone(), source })?;
        Ok(self.allocation(name, folder, size, self.submitter.submit(path, None)))
    }
}

/// The script of an allocation for the run and others, as it would be sent.
pub(super) fn sample(job: &Job, size: AllocationSize, comment: &str) -> Result<String, String> {
    let idle = LauncherOptions::default().slurm_interval * IDLE_INTERVALS;
    script(job, size, &allocations_folder(job).join("ALLOCATION"), comment, idle)
}

/// The script of an allocation whose files are in `folder`. Without work for `idle`, it ends.
fn script(job: &Job, size: AllocationSize, folder: &Path, comment: &str, idle: Duration) -> Result<String, String> {
    let idle = idle.max(LEAST_IDLE);
    let supervisor = find_supervisor(None)?;
    let command = [
        supervisor.into(),
        ALLOCATION_COMMAND.into(),
        folder.into(),
        "--idle".into(),
        idle.as_secs().to_string().into(),
    ];
    batch::text(&Ask::of_allocation(job, size, folder, comment)?, &command)
}

/// Whether the supervisor in this folder, or an allocation's steward, has begun to work.
fn is_heard(folder: &Path) -> bool {
    fs::metadata(folder.join(GROUP_LOG)).is_ok_and(|about| about.len() > 0)
}

fn allocations_folder(job: &Job) -> PathBuf {
    let session = job.folder.parent().and_then(Path::parent).unwrap_or(&job.folder);
    session.join(ALLOCATIONS_FOLDER)
}

impl Drop for Allocations {
    fn drop(&mut self) {
        for allocation in self.known().iter().filter(|allocation| allocation.open_runs.load(Ordering::Relaxed) == 0) {
            allocation.close();
        }
    }
}

/// A run in an allocation.
struct SharedRun {
    allocations: Arc<Allocations>,
    allocation: Arc<Allocation>,
    job: Job,
    is_asked_to_end: bool,
    has_ended: bool,
    /// When it became known that the allocation had ended.
    over_since: Option<Instant>,
}

impl SharedRun {
    fn new(allocations: &Arc<Allocations>, job: &Job, allocation: Arc<Allocation>) -> Self {
        let allocations = Arc::clone(allocations);
        Self { allocations, allocation, job: job.clone(), is_asked_to_end: false, has_ended: false, over_since: None }
    }

    fn standing(&mut self, supervisor: Option<Exit>) -> Standing {
        let step = StepRecord::read(&self.job.folder);
        let exit = match step {
            Some(StepRecord { is_interrupted: true, .. }) => None,
            Some(StepRecord { exit: Some(exit), .. }) => supervisor.or(Some(exit)),
            // A run that failed may have failed because its allocation ended: the steward's record says so.
            _ => supervisor.filter(|exit| exit.is_success()),
        };
        if let Some(exit) = exit {
            return Standing::Ended(End { exit: Some(exit), ..End::default() });
        }
        match self.allocation.standing() {
            Standing::Ended(end) if step.is_some() => self.interrupted(end),
            Standing::Ended(_) | Standing::Waits(_) if self.is_asked_to_end => Standing::Ended(End::default()),
            Standing::Ended(end) => self.moved(end),
            // The supervisor's first line follows the description of its node.
            Standing::Runs if step.is_some() && !is_heard(&self.job.folder) => {
                Standing::Waits(format!("its step in {} begins", self.allocation.name()))
            }
            Standing::Runs if step.is_none() => {
                Standing::Waits(format!("{} has started; the run waits in it for earlier runs", self.allocation.name()))
            }
            other => other,
        }
    }

    /// The end of a run that had begun when its allocation ended.
    fn interrupted(&mut self, end: End) -> Standing {
        // The run's logs come first.
        if self.over_since.get_or_insert_with(Instant::now).elapsed() < LOGS_LIMIT && end.ending.is_none() {
            return Standing::Runs;
        }
        let name = self.allocation.name();
        let ending = match end.ending {
            // The run's own time limit was not reached.
            Some((RunState::TimedOut | RunState::Interrupted, reason)) => (RunState::Interrupted, reason),
            Some(other) => other,
            None => (RunState::Interrupted, format!("its allocation, {name}, ended")),
        };
        let again = ending.0 == RunState::Interrupted;
        Standing::Ended(End { exit: None, ending: Some(ending), again })
    }

    /// Handles a run whose allocation ended before the run began: the run goes to another allocation, unless that would end in the same
    /// way.
    fn moved(&mut self, end: End) -> Standing {
        let is_repeatable = match &end.ending {
            Some((state, _)) => matches!(state, RunState::TimedOut | RunState::Interrupted),
            None => end.exit.is_none_or(Exit::is_success),
        };
        if !(is_repeatable && (end.again || is_heard(&self.allocation.folder))) {
            let name = self.allocation.name();
            let reason = format!("its allocation, {name}, ended before the run began");
            let ending = end.ending.or(Some((RunState::Failed, reason)));
            return Standing::Ended(End { exit: None, ending, again: false });
        }
        let size = self.job.allocation.unwrap_or_default();
        let joined = Lead::found(&self.job).and_then(|lead| self.allocations.join(&self.job, size, lead.command()));
        match joined {
            Ok(next) => {
                self.allocation.has_one_less();
                self.allocation = next;
                Standing::Waits("its allocation ended, and the run goes to another allocation".to_owned())
            }
            Err(error) => {
                let ending = Some((RunState::Failed, error.to_string()));
                Standing::Ended(End { exit: None, ending, again: false })
            }
        }
    }
}

impl Group for SharedRun {
    fn look(&mut self, supervisor: Option<Exit>) -> Standing {
        let standing = self.standing(supervisor);
        if matches!(standing, Standing::Ended(_)) && !std::mem::replace(&mut self.has_ended, true) {
            self.allocation.has_one_less();
        }
        standing
    }

    fn signal(&mut self, signal: Signal) {
        self.is_asked_to_end = true;
        // If they cannot be written, the run goes on, and the follower asks to kill it later.
        let _ = StepRecord::cancelled().claim(&self.job.folder);
        let _ = steward::ask_to_end(&self.job.folder, signal == Signal::KILL);
    }

    fn name(&self) -> String {
        format!("its step in {}", self.allocation.name())
    }

    fn pace(&self) -> Pace {
        PACE
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::launch::slurm::jobs::JobId;
    use crate::plan::{Data, Levels, Shape};

    /// A run that has begun in an allocation of this state, and the run's folder.
    fn begun(session: &Path, standing: Standing) -> (SharedRun, PathBuf) {
        let folder = session.join("runs/0001-a-1");
        fs::create_dir_all(&folder).unwrap();
        let job = Job {
            run: "0001-a-1".into(),
            folder: folder.clone(),
            ..Job::new("command".into(), Levels::default(), Shape::default(), Data::default())
        };
        let queue = Arc::new(Queue::new(Duration::from_secs(10)));
        let allocations = Allocations::new(Arc::clone(&queue), Submitter::start(queue));
        let at = At::Job { id: JobId { id: 12, task: None }, since: Instant::now() };
        let own = session.join(ALLOCATIONS_FOLDER).join("a");
        let allocation = allocations.allocation("a".to_owned(), own, AllocationSize::default(), at);
        *allocation.standing.lock().unwrap() = Some((Instant::now(), standing));
        allocation.open_runs.store(1, Ordering::Relaxed);
        assert!(StepRecord::default().claim(&folder).unwrap(), "its step has begun");
        (SharedRun::new(&allocations, &job, Arc::new(allocation)), folder)
    }

    #[test]
    fn a_run_under_way_when_the_time_of_its_allocation_is_over_is_interrupted_with_slurms_reason_and_goes_on() {
        let session = tempfile::tempdir().unwrap();
        let reason = "Slurm ended job 12 at its time limit: raise `time` of the site";
        let end = End { ending: Some((RunState::TimedOut, reason.to_owned())), ..End::default() };
        let (mut run, _) = begun(session.path(), Standing::Ended(end));
        let ending = Some((RunState::Interrupted, reason.to_owned()));
        assert_eq!(run.look(None), Standing::Ended(End { exit: None, ending, again: true }));
    }

    #[test]
    fn a_run_whose_step_was_refused_is_interrupted_and_goes_on_although_its_supervisor_failed() {
        let session = tempfile::tempdir().unwrap();
        let over = End { exit: Some(Exit::Code(0)), ..End::default() };
        let (mut run, folder) = begun(session.path(), Standing::Ended(over));
        let failed = Some(Exit::Code(1));
        assert_eq!(run.look(failed), Standing::Runs, "the steward's record says how its step ended");
        StepRecord { exit: failed, is_interrupted: true }.write(&folder).unwrap();
        run.over_since = Instant::now().checked_sub(LOGS_LIMIT);
        let Standing::Ended(End { exit: None, ending: Some((state, reason)), again: true }) = run.look(failed) else {
            panic!("{:?}", run.look(failed))
        };
        assert_eq!((state, &*reason), (RunState::Interrupted, "its allocation, Slurm job 12, ended"));

        let (mut run, folder) = begun(&session.path().join("other"), Standing::Runs);
        StepRecord { exit: failed, is_interrupted: false }.write(&folder).unwrap();
        assert_eq!(run.look(failed), Standing::Ended(End { exit: failed, ..End::default() }), "it failed by itself");
    }
}
