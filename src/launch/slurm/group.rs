//! The job of a run, or of an allocation, from its script to its end: what Slurm and the files of its folder say about it.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::jobs::{self, JobId, Listed};
use super::queue::{Found, Queue};
use super::record::{self, Record};
use super::tools::{self, SlurmError};
use crate::launch::follower::last_lines;
use crate::launch::place::{End, Group, Pace, Standing};
use crate::launch::process::STDERR_FILE;
use crate::plan::RunState;
use crate::protocol::{Exit, GROUP_LOG};

/// How long the logs of a job that has ended are awaited: a client of a network file system may see a file that grew on another machine
/// this much later.
pub(super) const LOGS_LIMIT: Duration = Duration::from_secs(10);

/// The signal by which Slurm says that a node could not open a job's output.
const NO_OUTPUT: i32 = 53;

/// How runs at a site are followed: the files of a shared file system are looked at seldom, and Slurm itself takes 30 s until it kills.
pub(super) const PACE: Pace = Pace { poll: Duration::from_millis(500), grace: Duration::from_secs(90) };

/// How far a run has come at its site.
pub(super) enum At {
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
    pub fn recorded(record: Option<Record>) -> Self {
        let since = Instant::now();
        let Some(record) = record else { return Self::Nowhere };
        match record.job_id() {
            Some(id) => Self::Job { id, since },
            None => Self::Sought { comment: record.comment, task: record.task, since },
        }
    }
}

/// The job of a run, or of an allocation.
pub(super) struct JobGroup {
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
    pub fn new(queue: Arc<Queue>, folder: PathBuf, at: At) -> Self {
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
    use std::collections::HashMap;
    use std::path::Path;

    use super::*;
    use crate::launch::slurm::queue::Asked;

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
