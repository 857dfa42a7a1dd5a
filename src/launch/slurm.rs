#![doc = include_str!("slurm/slurm.md")]

mod allocation;
mod cluster;
mod jobs;
mod record;
mod script;
mod sites;
mod steward;
mod submit;
mod tools;

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use rustix::process::Signal;

pub use cluster::{Nodes, delay, nodes, site_node, unlimited_node};
pub use jobs::lasting_reason;
pub use record::may_be_at_a_site;
pub use sites::{add_site, site, sites, sites_file};
pub use steward::{ALLOCATION_COMMAND, keep_allocation};
pub use tools::SlurmError;

use super::error::LaunchError;
use super::follower::last_lines;
use super::place::{End, Group, Lead, Pace, Place, Standing};
use super::process::STDERR_FILE;
use crate::foreign;
use crate::plan::RunState;
use crate::protocol::{Exit, GROUP_LOG, Job};
use allocation::Allocations;
use jobs::{COMMENT, FORMAT, JobId, Listed, new_comment};
use record::Record;
use script::Ask;
use submit::{OfRun, Submitter};

/// The batch script's name in the run's folder.
const SCRIPT_FILE: &str = "job.sbatch";

/// How long the logs of a job that has ended are awaited: a client of a network file system may see a file that grew on another machine
/// this much later.
const LOGS_LIMIT: Duration = Duration::from_secs(10);

/// The signal by which Slurm says that a node could not open a job's output.
const NO_OUTPUT: i32 = 53;

/// How runs at a site are followed: the files of a shared file system are looked at seldom, and Slurm itself takes 30 s until it kills.
const PACE: Pace = Pace { poll: Duration::from_millis(500), grace: Duration::from_secs(90) };

/// A site's Slurm, as far as one session uses it.
pub(super) struct Slurm {
    queue: Arc<Queue>,
    submitter: Submitter,
    allocations: Arc<Allocations>,
}

impl Slurm {
    /// `interval` is the shortest time between two questions about all jobs.
    pub fn new(interval: Duration) -> Self {
        let queue = Arc::new(Queue::new(interval));
        let submitter = Submitter::start(Arc::clone(&queue));
        Self { allocations: Allocations::new(Arc::clone(&queue), submitter.clone()), queue, submitter }
    }

    fn group(&self, job: &Job, at: At) -> Box<dyn Group> {
        Box::new(JobGroup::new(Arc::clone(&self.queue), job.folder.clone(), at))
    }
}

impl Place for Slurm {
    fn start(&self, job: &Job, lead: Lead) -> Result<Box<dyn Group>, LaunchError> {
        if lead.profiler.is_some() {
            return Err(LaunchError::Site(
                "runs at a site are not recorded by nsys: use trace = \"built-in\"".to_owned(),
            ));
        }
        if let Some(size) = job.allocation {
            return self.allocations.start(job, size, lead.command());
        }
        let (comment, command) = (new_comment(), lead.command());
        let ask = Ask::of_run(job, &comment).map_err(LaunchError::Site)?;
        let text = script::text(&ask, &command).map_err(LaunchError::Site)?;
        let options = script::options(&ask).map_err(LaunchError::Site)?;
        let path = std::path::absolute(job.folder.join(SCRIPT_FILE));
        let failed = |source| LaunchError::Folder { path: job.folder.join(SCRIPT_FILE), source };
        let path = path.map_err(failed)?;
        let record = Record { comment: comment.clone(), ..Record::default() };
        // The record is written before the job is submitted, so that the job is found even if this process ends before it knows the job's id.
        script::write(&path, &text).and_then(|()| record.write(&job.folder)).map_err(failed)?;
        Ok(self.group(job, self.submitter.submit(path, Some(OfRun { comment, options }))))
    }

    fn find(&self, job: &Job, _recorded: (u32, u64)) -> Box<dyn Group> {
        match Record::read(&job.folder) {
            Some(record) if !record.is_of(&job.folder) => self.group(job, At::Original(record.job_id())),
            Some(Record { allocation: Some(name), .. }) => self.allocations.find(job, &name),
            record => self.group(job, At::recorded(record)),
        }
    }
}

/// The script that would be sent to the site of a job.
///
/// # Errors
/// The job has no site, it needs a worker and none is found, or a value of its settings cannot be written in a script.
pub fn script(job: &Job) -> Result<String, String> {
    let comment = format!("{COMMENT}RUN");
    if let Some(size) = job.allocation {
        return allocation::sample(job, size, &comment);
    }
    let lead = Lead::found(job).map_err(|error| error.to_string())?;
    script::text(&Ask::of_run(job, &comment)?, &lead.command())
}

/// When Slurm would start a job if it was sent now, in Slurm's words, which name the nodes. Nothing is queued.
///
/// # Errors
/// The job has no site, a value of its settings cannot be written in a script, or Slurm does not answer or would refuse the job.
pub fn expected_start(job: &Job) -> Result<String, String> {
    let comment = format!("{COMMENT}RUN");
    let ask = match job.allocation {
        Some(size) => Ask::of_allocation(job, size, &job.folder, &comment),
        None => Ask::of_run(job, &comment),
    };
    // Slurm judges what the job asks for, and not what it would execute.
    let text = script::text(&ask?, &["true".into()])?;
    let folder =
        foreign::temporary_folder().ok_or("there is no folder for a script: set TMPDIR to one that can be written")?;
    let path = folder.join(format!("{:016x}.sbatch", rand::random::<u64>()));
    fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    let answer = tools::test("sbatch", &["--test-only", &path.to_string_lossy()]);
    let _ = fs::remove_file(&path);
    let answer = answer.map_err(|error| error.to_string())?;
    // `Job 12 to start at 2026-11-25T14:05:00 using 1 processors on nodes n1 in partition debug`; no job gets this number.
    let start = answer.split_once(" to start at ").map(|(_, start)| start.replacen('T', " ", 1));
    Ok(start.unwrap_or(answer))
}

/// The jobs of this user in Slurm's queue, according to Slurm's last answer.
struct Queue {
    interval: Duration,
    last: Mutex<Option<Asked>>,
    /// Why Slurm did not answer, if it did not.
    problem: Mutex<Option<String>>,
    /// Why Slurm has not taken the next job, although it was sent.
    obstacle: Mutex<Option<String>>,
}

struct Asked {
    at: Instant,
    jobs: Option<HashMap<JobId, Listed>>,
}

/// A job in the queue.
enum Found {
    /// The queue has been unknown since the given time, or was seen already.
    Unknown,
    /// The job was listed when Slurm was asked at this time.
    Listed(Listed, Instant),
    /// Slurm has forgotten it, or never had it.
    Gone,
}

impl Queue {
    /// A queue that is not known yet. `interval` is the shortest time between two questions about it.
    fn new(interval: Duration) -> Self {
        Self { interval, last: Mutex::default(), problem: Mutex::default(), obstacle: Mutex::default() }
    }

    /// The job that `choose` picks among those that were listed after `since`, in another list than the one that was `seen`. If the last list
    /// is old, Slurm is asked, by one thread at a time.
    fn find(
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

    fn set_obstacle(&self, obstacle: Option<String>) {
        set(&self.obstacle, obstacle);
    }

    /// The text for a run whose job is unknown, because Slurm has not answered: what it waits for.
    fn wait(&self) -> String {
        let known = |text: &Mutex<Option<String>>| text.lock().unwrap_or_else(PoisonError::into_inner).clone();
        known(&self.obstacle)
            .or_else(|| known(&self.problem))
            .map_or_else(|| "it is being sent to Slurm".to_owned(), |problem| format!("{problem}; it is asked again"))
    }
}

fn set(text: &Mutex<Option<String>>, new: Option<String>) {
    *text.lock().unwrap_or_else(PoisonError::into_inner) = new;
}

/// How far a run has come at its site.
enum At {
    /// Its script waits to be submitted.
    Queue { answered: Receiver<Result<JobId, SlurmError>>, is_dropped: Arc<AtomicBool> },
    /// An earlier process may have submitted it, as the numbered task of an array if there is a number.
    Sought { comment: String, task: Option<u32>, since: Instant },
    /// Slurm has its job since then.
    Job { id: JobId, since: Instant },
    /// It was never sent.
    Nowhere,
    /// The run's folder is a copy, and the job, whose id may be known, belongs to the run in the original.
    Original(Option<JobId>),
}

impl At {
    /// How far the job of a record has come.
    fn recorded(record: Option<Record>) -> Self {
        let since = Instant::now();
        let Some(record) = record else { return Self::Nowhere };
        match record.job_id() {
            Some(id) => Self::Job { id, since },
            None => Self::Sought { comment: record.comment, task: record.task, since },
        }
    }
}

/// The job of a run, or of an allocation.
struct JobGroup {
    queue: Arc<Queue>,
    folder: PathBuf,
    at: At,
    is_asked_to_end: bool,
    /// Its state when it was last known.
    known: Option<Standing>,
    /// When the list was made that showed this state, if only a later list can show another one.
    seen: Option<Instant>,
    /// Since when its supervisor is known to have begun.
    heard_since: Option<Instant>,
    /// Since when Slurm lists the job as ended.
    ended_since: Option<Instant>,
    /// The signal that Slurm did not take, and when it was last sent.
    refused: Option<(Signal, Instant)>,
}

impl JobGroup {
    /// The job whose files are in `folder`.
    fn new(queue: Arc<Queue>, folder: PathBuf, at: At) -> Self {
        let (known, seen, heard_since, ended_since, refused) = (None, None, None, None, None);
        Self { queue, folder, at, is_asked_to_end: false, known, seen, heard_since, ended_since, refused }
    }

    /// The job's id, once Slurm has taken it.
    fn taken(&mut self) -> Result<Option<(JobId, Instant)>, End> {
        let never =
            |reason: String| End { ending: Some((RunState::Interrupted, reason)), again: true, ..End::default() };
        match &self.at {
            At::Job { id, since } => return Ok(Some((*id, *since))),
            At::Nowhere => return Err(never("the conductor ended before it sent the run to Slurm".to_owned())),
            // The logs were copied whole, and say how the run ended.
            At::Original(_) if record::has_ended(&self.folder) => return Err(End::default()),
            At::Original(id) => {
                let job = id.map_or_else(|| "its job in Slurm".to_owned(), |id| format!("Slurm job {id}"));
                return Err(never(format!(
                    "{job} belongs to the session of which this one is a copy, and is left alone"
                )));
            }
            At::Sought { comment, task, since } => {
                let is_it = |job: &&Listed| job.comment == *comment && job.id.task == *task;
                match self.queue.find(*since, None, |jobs| jobs.values().find(is_it)) {
                    Found::Unknown => {}
                    Found::Listed(job, _) => self.submitted(job.id, job.comment),
                    // The job may have ended long ago, as its logs then show, or it was never sent.
                    Found::Gone if self.is_heard() => return Err(End::default()),
                    // The `sbatch` of a process that was killed may still be sending it.
                    Found::Gone if since.elapsed() < self.queue.interval => {}
                    Found::Gone => return Err(never("the conductor ended before Slurm had taken the run".to_owned())),
                }
            }
            At::Queue { answered, .. } => match answered.try_recv() {
                Ok(Ok(id)) => {
                    let comment = Record::read(&self.folder).map(|record| record.comment).unwrap_or_default();
                    self.submitted(id, comment);
                }
                Ok(Err(error)) => {
                    return Err(End { ending: Some((RunState::Failed, error.to_string())), ..End::default() });
                }
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) if self.is_asked_to_end => return Err(End::default()),
                Err(TryRecvError::Disconnected) => {
                    return Err(never("the thread that sends runs to Slurm has ended: retry it".to_owned()));
                }
            },
        }
        let At::Job { id, since } = self.at else { return Ok(None) };
        if self.is_asked_to_end {
            self.send(id, Signal::TERM);
        }
        Ok(Some((id, since)))
    }

    /// Whether its supervisor has written something.
    fn is_heard(&self) -> bool {
        fs::metadata(self.folder.join(GROUP_LOG)).is_ok_and(|about| about.len() > 0)
    }

    /// Whether its supervisor had certainly begun before a time at which Slurm was asked.
    fn had_begun(&mut self, asked_at: Instant) -> bool {
        if self.heard_since.is_none() && self.is_heard() {
            self.heard_since = Some(Instant::now());
        }
        self.heard_since.is_some_and(|since| since < asked_at)
    }

    /// Why a job whose supervisor wrote nothing has ended.
    fn unheard(&self, id: JobId, exit: Exit) -> String {
        let how = match exit {
            Exit::Code(code) => format!("exited with code {code}"),
            Exit::Signal(NO_OUTPUT) => "could not open its output".to_owned(),
            Exit::Signal(signal) => format!("was ended by signal {signal}"),
        };
        let folder = self.folder.display();
        let advice = match last_lines(&self.folder.join(STDERR_FILE)) {
            text if text.is_empty() => format!("check that nodes share {folder} with this machine"),
            text => format!("end of stderr: {text}"),
        };
        format!(
            "Slurm job {id} {how} before multicard started on its node, in the site's prologue or earlier; {advice}"
        )
    }

    /// The end of a job that Slurm does not list any more.
    fn forgotten(&self, id: JobId) -> End {
        // Slurm forgets a task of an array at once if the task is cancelled before it starts. A task that has started has written this file.
        let has_started = self.folder.join(STDERR_FILE).exists();
        // Otherwise the logs say how the run ended.
        End { ending: (id.task.is_some() && !has_started).then(|| jobs::forgotten(id)), ..End::default() }
    }

    fn submitted(&mut self, id: JobId, comment: String) {
        // If the record cannot be written, the job is found by its comment.
        let record = Record::read(&self.folder).unwrap_or_default();
        let _ = Record { comment, job: Some(id.id), task: id.task, ..record }.write(&self.folder);
        self.at = At::Job { id, since: Instant::now() };
    }

    /// Sends a signal to the job. SIGTERM cancels the job; Slurm then kills its remaining processes.
    fn send(&mut self, id: JobId, signal: Signal) {
        let id = id.to_string();
        let sent = if signal == Signal::KILL {
            tools::ask("scancel", &["--signal=KILL", "--full", &id])
        } else {
            tools::ask("scancel", &[&id])
        };
        // A job that has ended cannot be cancelled, and need not be.
        self.refused = matches!(sent, Err(SlurmError::Silent(_))).then(|| (signal, Instant::now()));
    }

    /// Whether the end of a job is reported now. Its logs are read first, but they are only awaited for a limited time.
    fn is_settled(&mut self, end: &End) -> bool {
        let since = *self.ended_since.get_or_insert_with(Instant::now);
        end.ending.is_some() || since.elapsed() >= LOGS_LIMIT
    }
}

impl Group for JobGroup {
    fn look(&mut self, supervisor: Option<Exit>) -> Standing {
        if let Some(exit) = supervisor {
            return Standing::Ended(End { exit: Some(exit), ..End::default() });
        }
        let (id, since) = match self.taken() {
            Ok(Some(taken)) => taken,
            Ok(None) => return Standing::Waits(self.queue.wait()),
            Err(end) => return Standing::Ended(end),
        };
        if let Some((signal, _)) = self.refused.filter(|(_, at)| at.elapsed() >= self.queue.interval) {
            self.send(id, signal);
        }
        let is_due = self.ended_since.is_some_and(|since| since.elapsed() >= LOGS_LIMIT);
        let (standing, asked_at) = match self.queue.find(since, self.seen, |jobs| jobs.get(&id)) {
            Found::Listed(job, at) => (job.standing(|| if is_due { tools::exit_of(id) } else { None }), at),
            Found::Gone => (Standing::Ended(self.forgotten(id)), since),
            Found::Unknown => {
                let known = self.known.clone();
                return known.unwrap_or_else(|| Standing::Waits(format!("Slurm has it as job {id}")));
            }
        };
        let standing = match standing {
            // A supervisor does not start a second time.
            Standing::Waits(_) if self.had_begun(asked_at) => {
                self.send(id, Signal::TERM);
                let reason = format!("Slurm queued job {id} again after it had started (requeue)");
                Standing::Ended(End { ending: Some((RunState::Interrupted, reason)), again: true, ..End::default() })
            }
            Standing::Ended(end) if !self.is_settled(&end) => Standing::Runs,
            Standing::Ended(End { exit: Some(exit), ending: None, .. }) if !self.is_heard() => {
                let ending = Some((RunState::Failed, self.unheard(id, exit)));
                Standing::Ended(End { ending, ..End::default() })
            }
            standing => standing,
        };
        // The supervisor's first line follows the description of its node.
        let is_starting = standing == Standing::Runs && !self.is_heard();
        let standing = if is_starting {
            Standing::Waits(format!("Slurm job {id} has started, and multicard on its node has not yet"))
        } else {
            standing
        };
        self.seen = (!is_starting && self.ended_since.is_none()).then_some(asked_at);
        self.known = Some(standing.clone());
        standing
    }

    fn signal(&mut self, signal: Signal) {
        self.is_asked_to_end = true;
        match &self.at {
            At::Job { id, .. } => {
                let id = *id;
                self.send(id, signal);
            }
            At::Queue { is_dropped, .. } => is_dropped.store(true, Ordering::Relaxed),
            At::Sought { .. } | At::Nowhere | At::Original(_) => {}
        }
    }

    fn name(&self) -> String {
        match &self.at {
            At::Job { id, .. } => format!("Slurm job {id}"),
            _ => "its job".to_owned(),
        }
    }

    fn pace(&self) -> Pace {
        PACE
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::plan::{Data, Levels, Shape};

    /// The group of job 12, or of a task of array 12, which Slurm does not list. Its files are in `folder`.
    fn unlisted(folder: &Path, task: Option<u32>) -> JobGroup {
        let queue = Queue::new(Duration::from_secs(600));
        let at = At::Job { id: JobId { id: 12, task }, since: Instant::now() };
        *queue.last.lock().unwrap() = Some(Asked { at: Instant::now(), jobs: Some(HashMap::new()) });
        JobGroup::new(Arc::new(queue), folder.to_owned(), at)
    }

    #[test]
    fn a_task_that_slurm_does_not_list_was_cancelled_unless_it_has_started() {
        let folder = tempfile::tempdir().unwrap();
        let is_cancelled = |task| {
            let standing = unlisted(folder.path(), task).look(None);
            matches!(standing, Standing::Ended(End { ending: Some((RunState::Cancelled, _)), .. }))
        };
        assert_eq!([None, Some(4)].map(is_cancelled), [false, true]);
        fs::write(folder.path().join(STDERR_FILE), "").unwrap();
        assert!(!is_cancelled(Some(4)), "its logs say how it ended");
    }

    #[test]
    fn a_copy_of_a_run_leaves_the_job_alone_and_is_started_again_unless_its_logs_were_copied_whole() {
        let home = tempfile::tempdir().unwrap();
        let [original, copy] = ["original", "copy"].map(|name| home.path().join(name));
        let sent = [
            Record { comment: "multicard:a".into(), job: Some(12), task: Some(4), ..Record::default() },
            Record { comment: "multicard:a".into(), ..Record::default() },
            Record { allocation: Some("a".into()), ..Record::default() },
        ];
        for (record, words) in
            sent.iter().zip(["Slurm job 12_4 belongs", "its job in Slurm belongs", "its job in Slurm"])
        {
            fs::create_dir(&original).unwrap();
            fs::create_dir(&copy).unwrap();
            record.write(&original).unwrap();
            fs::copy(original.join("slurm.json"), copy.join("slurm.json")).unwrap();
            let (levels, shape, data) = (Levels::default(), Shape::default(), Data::default());
            let job = Job { folder: copy.clone(), ..Job::new("command".into(), levels, shape, data) };
            let mut group = Slurm::new(Duration::from_secs(600)).find(&job, (0, 0));
            let Standing::Ended(End { ending: Some((state, reason)), again: true, .. }) = group.look(None) else {
                panic!("{:?}", group.look(None))
            };
            assert_eq!(state, RunState::Interrupted);
            assert!(reason.starts_with(words) && reason.ends_with("is left alone"), "{reason}");
            fs::write(copy.join(GROUP_LOG), "{\"time_s\":2.0,\"event\":\"supervisor_ended\",\"well\":true}\n").unwrap();
            assert_eq!(group.look(None), Standing::Ended(End::default()));
            fs::remove_dir_all(&original).unwrap();
            fs::remove_dir_all(&copy).unwrap();
        }
    }

    #[test]
    fn a_job_whose_output_its_node_could_not_open_says_so_and_names_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let group = unlisted(folder.path(), None);
        let reason = group.unheard(JobId { id: 12, task: None }, Exit::Signal(NO_OUTPUT));
        assert!(reason.contains("Slurm job 12 could not open its output"), "{reason}");
        assert!(reason.contains(&format!("share {}", folder.path().display())), "{reason}");
    }

    #[test]
    fn a_job_that_waits_had_begun_before_only_if_slurm_was_asked_after_its_supervisor_was_heard() {
        let folder = tempfile::tempdir().unwrap();
        let interval = Duration::from_secs(600);
        let queue = Arc::new(Queue::new(interval));
        let list = |state: &str| {
            let jobs = Some(jobs::read(&format!("12|N/A|{state}|N/A||1|Resources|multicard:x")));
            *queue.last.lock().unwrap() = Some(Asked { at: Instant::now(), jobs });
        };
        let at = At::Job { id: JobId { id: 12, task: None }, since: Instant::now() };
        let mut group = JobGroup::new(Arc::clone(&queue), folder.path().to_owned(), at);
        list("PENDING");
        assert!(matches!(group.look(None), Standing::Waits(_)));
        let asked_at = Instant::now();
        fs::write(folder.path().join(GROUP_LOG), "{}\n").unwrap();
        assert!(!group.had_begun(asked_at), "it may have started since");
        list("RUNNING");
        assert_eq!(group.look(None), Standing::Runs);
        assert!(group.had_begun(Instant::now()), "if it waits now, Slurm has queued it again");
    }

    #[test]
    fn a_job_is_read_from_a_list_of_slurm_once_unless_it_starts() {
        let folder = tempfile::tempdir().unwrap();
        let mut group = unlisted(folder.path(), None);
        let list = |queue: &Queue, at: Instant, state: &str| {
            let jobs = Some(jobs::read(&format!("12|N/A|{state}|N/A||1|Resources|multicard:x")));
            *queue.last.lock().unwrap() = Some(Asked { at, jobs });
        };
        let (queue, first) = (Arc::clone(&group.queue), Instant::now());
        list(&queue, first, "PENDING");
        let waits = group.look(None);
        assert!(matches!(waits, Standing::Waits(_)));
        list(&queue, first, "RUNNING");
        assert_eq!(group.look(None), waits, "this list was read");
        list(&queue, first + Duration::from_millis(1), "RUNNING");
        assert_ne!(group.look(None), waits);
        fs::write(folder.path().join(GROUP_LOG), "{}\n").unwrap();
        assert_eq!(group.look(None), Standing::Runs, "it may have started since the list was made");
    }
}
