//! Sends jobs to Slurm, in the order of their runs. Runs that follow each other and ask for the same become tasks of one array, as far as Slurm's
//! limits allow.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::group::At;
use super::jobs::{JobId, new_comment};
use super::queue::Queue;
use super::record::Record;
use super::script;
use super::tools::{self, SlurmError};

/// Capacity of the channel to the thread that submits: more than a session's jobs at a site.
const SCRIPTS_IN_FLIGHT: usize = 16_384;

/// Runs that are started together come one after the other within this time.
const TOGETHER: Duration = Duration::from_millis(200);

/// How long the first run of an array waits for others.
const LONGEST: Duration = Duration::from_secs(2);

/// The most tasks of an array, also where Slurm allows more: Slurm takes scripts of up to 4 MB, which name the folder of each run.
const MOST_TASKS: usize = 1000;

/// The batch script of an array, in the folder of its first run.
const ARRAY_FILE: &str = "array.sbatch";

/// Takes the scripts that are to be submitted, in their order.
#[derive(Clone)]
pub(super) struct Submitter(SyncSender<Submission>);

impl Submitter {
    /// Starts the thread that submits. It ends once nobody has its submitter any more.
    pub fn start(queue: Arc<Queue>) -> Self {
        let (scripts, waiting) = sync_channel(SCRIPTS_IN_FLIGHT);
        // If the thread cannot be started, each run reports that.
        let _ = thread::Builder::new().name("sbatch".to_owned()).spawn(move || submit_all(&waiting, &queue));
        Self(scripts)
    }

    /// Submits the script of a job, after all scripts that came before it. `run` describes the job if it may be a task of an array.
    pub fn submit(&self, script: PathBuf, run: Option<OfRun>) -> At {
        let (answer, answered) = sync_channel(1);
        let is_dropped = Arc::<AtomicBool>::default();
        // If the thread has ended, the receiver of the answer notices.
        let _ = self.0.send(Submission { script, run, is_dropped: Arc::clone(&is_dropped), answer });
        At::Queue { answered, is_dropped }
    }
}

/// The jobs of a part of the runs, in their order, or why Slurm took none.
type Sent = Result<Vec<JobId>, SlurmError>;

/// The job of a single run.
pub(super) struct OfRun {
    /// Its comment.
    pub comment: String,
    /// The options of `sbatch` that it has in common with other runs that ask for the same.
    pub options: String,
}

/// A script on its way to Slurm.
struct Submission {
    script: PathBuf,
    run: Option<OfRun>,
    /// Set if it is no longer wanted.
    is_dropped: Arc<AtomicBool>,
    /// Takes the id of its job, or why Slurm refused it.
    answer: SyncSender<Result<JobId, SlurmError>>,
}

impl Submission {
    /// The folder of its run, or of its allocation.
    fn folder(&self) -> &Path {
        self.script.parent().unwrap_or(&self.script)
    }

    /// The options of `sbatch`, which runs that ask for the same resources have in common; `None` if its job is not a task of an array.
    fn options(&self) -> Option<&str> {
        self.run.as_ref().map(|run| run.options.as_str())
    }
}

/// Submits scripts until all senders are gone.
fn submit_all(waiting: &Receiver<Submission>, queue: &Queue) {
    let (mut next, mut most) = (None, None);
    while let Some(first) = next.take().or_else(|| waiting.recv().ok()) {
        let (mut together, begun) = (vec![first], Instant::now());
        while next.is_none()
            && together[0].run.is_some()
            && begun.elapsed() < LONGEST
            && let Ok(one) = waiting.recv_timeout(TOGETHER)
        {
            most = most.or_else(tools::most_tasks);
            if one.options() == together[0].options() && together.len() < most.unwrap_or(1).min(MOST_TASKS) {
                together.push(one);
            } else {
                next = Some(one);
            }
        }
        send(together, queue, &mut submit);
    }
}

/// Sends runs that ask for the same resources. If Slurm does not accept all of them, half of them are sent, then half of these, and so on,
/// so that Slurm gets as many as its limits allow. If Slurm accepts no run now, the runs are sent again later.
fn send(together: Vec<Submission>, queue: &Queue, submit: &mut dyn FnMut(&[Submission]) -> Sent) {
    let mut parts = vec![together];
    while let Some(mut part) = parts.pop() {
        part.retain(|one| !one.is_dropped.load(Ordering::Relaxed));
        if part.is_empty() {
            continue;
        }
        match submit(&part) {
            // A process that does not wait for the ids finds the jobs by their comments.
            Ok(ids) => part.iter().zip(ids).for_each(|(one, id)| drop(one.answer.send(Ok(id)))),
            Err(SlurmError::Refused(_) | SlurmError::Full(_)) if part.len() > 1 => {
                let rest = part.split_off(part.len() / 2);
                parts.extend([rest, part]);
            }
            Err(error @ (SlurmError::Silent(_) | SlurmError::Full(_))) => {
                queue.set_obstacle(Some(error.to_string()));
                thread::sleep(queue.interval);
                parts.push(part);
            }
            Err(error) => part.iter().for_each(|one| drop(one.answer.send(Err(error.clone())))),
        }
    }
    queue.set_obstacle(None);
}

/// Submits the script of a job, or an array if there are several.
fn submit(part: &[Submission]) -> Sent {
    match part {
        [only] => {
            // It may have been a task of an array that Slurm did not take. If the record cannot be written, it is written again with the id.
            if let Some(OfRun { comment, .. }) = &only.run
                && Record::read(only.folder()).is_some_and(|record| record.task.is_some())
            {
                let _ = Record { comment: comment.clone(), ..Record::default() }.write(only.folder());
            }
            Ok(vec![JobId { id: tools::submit(&only.script)?, task: None }])
        }
        tasks => {
            // Each task is sent alone if this fails.
            let script = array(tasks).map_err(SlurmError::Refused)?;
            let id = tools::submit(&script)?;
            Ok((0..).zip(tasks).map(|(task, _)| JobId { id, task: Some(task) }).collect())
        }
    }
}

/// Writes the script of an array, and writes the array's comment into the records of its runs. By this comment, the runs are found even if
/// this process ends before it knows the array's id. Returns the script's path.
fn array(tasks: &[Submission]) -> Result<PathBuf, String> {
    let comment = new_comment();
    let folders: Vec<&Path> = tasks.iter().map(Submission::folder).collect();
    let text = script::of_array(tasks[0].options().unwrap_or_default(), &comment, &folders)?;
    let path = folders[0].join(ARRAY_FILE);
    let written = script::write(&path, &text).and_then(|()| {
        let record = |task| Record { comment: comment.clone(), task: Some(task), ..Record::default() };
        (0..).zip(&folders).try_for_each(|(task, folder)| record(task).write(folder))
    });
    written.map_err(|error| error.to_string())?;
    Ok(path)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Runs without folders, and the receivers of their answers.
    fn runs(count: usize) -> (Vec<Submission>, Vec<Receiver<Result<JobId, SlurmError>>>) {
        let run = |number: usize| {
            let (answer, answered) = sync_channel(1);
            let run = Some(OfRun { comment: String::new(), options: String::new() });
            (Submission { script: number.to_string().into(), run, is_dropped: Arc::default(), answer }, answered)
        };
        (0..count).map(run).unzip()
    }

    #[test]
    fn slurm_gets_as_many_runs_as_its_limit_allows_and_the_rest_once_there_is_room() {
        let (together, answers) = runs(7);
        let queue = Queue::new(Duration::from_millis(1));
        let (mut room, mut sent, mut refusals) = (5, Vec::new(), 0);
        send(together, &queue, &mut |part: &[Submission]| {
            if part.len() > room {
                refusals += 1;
                // A job ends from time to time.
                room += usize::from(part.len() == 1);
                return Err(SlurmError::Full("AssocMaxSubmitJobLimit".to_owned()));
            }
            room -= part.len();
            let first = sent.len() as u64;
            sent.extend(part.iter().map(|one| one.script.display().to_string()));
            Ok((0..part.len() as u64).map(|at| JobId { id: first + at, task: None }).collect())
        });
        assert_eq!(sent, ["0", "1", "2", "3", "4", "5", "6"], "in their order");
        let ids: Vec<u64> = answers.iter().map(|answer| answer.try_recv().unwrap().unwrap().id).collect();
        assert_eq!(ids, [0, 1, 2, 3, 4, 5, 6]);
        assert!(refusals >= 2, "{refusals}");
    }

    #[test]
    fn of_runs_that_are_refused_together_only_those_that_slurm_refuses_alone_fail() {
        let (together, answers) = runs(5);
        together[1].is_dropped.store(true, Ordering::Relaxed);
        let queue = Queue::new(Duration::from_millis(1));
        send(together, &queue, &mut |part: &[Submission]| {
            if part.iter().any(|one| one.script == Path::new("3")) {
                return Err(SlurmError::Refused("no".to_owned()));
            }
            Ok((0..).zip(part).map(|(task, _)| JobId { id: 9, task: Some(task) }).collect())
        });
        let outcomes: Vec<_> =
            answers.iter().map(|answer| answer.try_recv().ok().map(|answer| answer.is_ok())).collect();
        assert_eq!(outcomes, [Some(true), None, Some(true), Some(false), Some(true)]);
    }
}
