//! Where groups are executed: the contract that this machine and a site's scheduler fulfil for the launcher and the follower.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use super::error::LaunchError;
use super::process::{GROUP_COMMAND, JOB_FILE};
use super::supervisor::{JOB_WORD, PROGRAM_COMMAND};
use super::worker::{WorkerCommand, find_supervisor, find_worker};
use crate::plan::RunState;
use crate::processes::Process;
use crate::protocol::{Exit, Job};

/// The supervisor of a job with its command line.
pub(super) struct Lead {
    /// `multicard`.
    pub supervisor: PathBuf,
    /// Its arguments: the job's file, and the command line of a rank.
    pub arguments: Vec<OsString>,
    /// Variables for the ranks.
    pub environment: Vec<(String, String)>,
    /// The command line of a profiler; the supervisor's command line is appended to it.
    pub profiler: Option<Command>,
}

impl Lead {
    /// The supervisor of a job. Its ranks are the worker, or the runner of the job's own program.
    ///
    /// # Errors
    /// `multicard` is not found, the job needs a worker and there is none, or the job's folder has no absolute path.
    pub fn of(job: &Job, worker: Option<&WorkerCommand>) -> Result<Self, LaunchError> {
        let find = |worker: Option<&Path>| find_supervisor(worker).map_err(LaunchError::NoSupervisor);
        let folder = std::path::absolute(&job.folder);
        let folder = folder.map_err(|source| LaunchError::Folder { path: job.folder.clone(), source })?;
        let mut arguments: Vec<OsString> = vec![GROUP_COMMAND.into(), folder.join(JOB_FILE).into()];
        if job.program.is_some() {
            let supervisor = find(worker.map(|worker| &*worker.path))?;
            arguments.extend([supervisor.clone().into(), PROGRAM_COMMAND.into(), JOB_WORD.into()]);
            return Ok(Self { supervisor, arguments, environment: Vec::new(), profiler: None });
        }
        let worker = worker.ok_or_else(|| LaunchError::NoWorker(job.run.clone()))?;
        arguments.extend(worker.rank_program());
        let supervisor = find(Some(&worker.path))?;
        Ok(Self { supervisor, arguments, environment: worker.environment.clone(), profiler: None })
    }

    /// Like [`Lead::of`], for a job without a launcher. Looks for a worker if the job needs one.
    ///
    /// # Errors
    /// Those of [`Lead::of`], or the job needs a worker and none is found.
    pub fn found(job: &Job) -> Result<Self, LaunchError> {
        let worker = job.program.is_none().then(find_worker).transpose().map_err(LaunchError::Site)?;
        Self::of(job, worker.as_ref())
    }

    /// The whole command line, with the variables for the ranks.
    pub fn command(self) -> Vec<OsString> {
        let variables = self.environment.iter().map(|(key, value)| format!("{key}={value}").into());
        let env = (!self.environment.is_empty()).then(|| "env".into());
        env.into_iter().chain(variables).chain([self.supervisor.clone().into()]).chain(self.arguments.clone()).collect()
    }
}

/// Executes groups.
pub(super) trait Place: Send + Sync {
    /// Starts the group of a job, whose file is written.
    ///
    /// # Errors
    /// It cannot be started.
    fn start(&self, job: &Job, lead: Lead) -> Result<Box<dyn Group>, LaunchError>;

    /// The group of a job that an earlier process started. `recorded` identifies its leader if it is a process of this machine.
    fn find(&self, job: &Job, recorded: (u32, u64)) -> Box<dyn Group>;
}

/// The state of a group, as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Standing {
    /// It has not started; the text says what it waits for.
    Waits(String),
    /// It runs.
    Runs,
    /// It has ended.
    Ended(End),
}

/// The end of a group.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct End {
    /// How its leader ended, if that is known.
    pub exit: Option<Exit>,
    /// The run's state and its reason, if something else than its processes ended it.
    pub ending: Option<(RunState, String)>,
    /// Whether the run can be started again without a change, because the run itself did not cause the end.
    pub again: bool,
}

/// The processes of one run.
pub(super) trait Group: Send {
    /// The current state of the group. `supervisor` is the supervisor's exit, if the group's log already contains it. A group counts as
    /// ended once none of its processes is left.
    fn look(&mut self, supervisor: Option<Exit>) -> Standing;

    /// Sends a signal to its processes.
    fn signal(&mut self, signal: Signal);

    /// The process id and the start of its leader, if that is a process of this machine.
    fn leader(&self) -> Option<(u32, u64)> {
        None
    }

    /// The time since the leader's start, for a group that an earlier process started on this machine.
    fn age(&self) -> Option<Duration> {
        None
    }

    /// Kills the processes of its program that are left behind, and returns those that cannot be killed. A scheduler ends the processes of
    /// its jobs itself.
    fn end_program(&self) -> Vec<Process> {
        Vec::new()
    }

    /// Its name in messages.
    fn name(&self) -> String;

    /// The shortest time between two looks at its logs, and the shortest one between the request to end and a kill.
    fn pace(&self) -> Pace {
        Pace::default()
    }
}

/// How fast a group answers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// The shortest time between two looks at its logs.
    pub poll: Duration,
    /// The shortest time between the request to end and a kill.
    pub grace: Duration,
}
