#![doc = include_str!("slurm/slurm.md")]

mod allocation;
mod cluster;
mod group;
mod jobs;
mod queue;
mod record;
mod script;
mod sites;
mod steward;
mod submit;
mod tools;

use std::fs;
use std::sync::Arc;
use std::time::Duration;

pub use cluster::{Nodes, delay, nodes, site_node, unlimited_node};
pub use jobs::lasting_reason;
pub use record::may_be_at_a_site;
pub use sites::{add_site, site, sites, sites_file};
pub use steward::{ALLOCATION_COMMAND, keep_allocation};
pub use tools::SlurmError;

use super::error::LaunchError;
use super::place::{Group, Lead, Place};
use crate::foreign;
use crate::protocol::Job;
use allocation::Allocations;
use group::{At, JobGroup};
use jobs::{COMMENT, new_comment};
use queue::Queue;
use record::Record;
use script::Ask;
use submit::{OfRun, Submitter};

/// The batch script's name in the run's folder.
const SCRIPT_FILE: &str = "job.sbatch";

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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::launch::place::{End, Standing};
    use crate::plan::{Data, Levels, RunState, Shape};
    use crate::protocol::GROUP_LOG;

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
}
