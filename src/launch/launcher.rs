//! The launcher: starts, follows and ends the process groups of runs.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::foreign;
use crate::protocol::{GROUP_LOG, Job};

use super::follower::{Control, Follower, LauncherOptions, STDERR_FILE, STDOUT_FILE, Update};
use super::process::{self, Group};
use super::supervisor::{GROUP_COMMAND, JOB_WORD, PROGRAM_COMMAND};
use super::worker::{WorkerCommand, find_supervisor};

/// Reason why a run was not launched. Nothing was started, and no update follows.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// There is no worker.
    #[error("run {0:?} cannot be started: there is no worker")]
    NoWorker(String),
    /// There is no supervisor for the ranks.
    #[error("{0}")]
    NoSupervisor(String),
    /// The run is already followed.
    #[error("run {0:?} is already running")]
    AlreadyRunning(String),
    /// The job names no rank.
    #[error("run {0:?} has no rank: place at least one")]
    NoRank(String),
    /// The folder holds logs already.
    #[error("{} exists already: give the run another folder", .0.display())]
    HasLog(PathBuf),
    /// The run's folder could not be written.
    #[error("cannot write {}: {source}: check the disk's space and the folder's permissions", path.display())]
    Folder {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The supervisor, or the profiler around it, could not be executed.
    #[error("failed to start {}: {source}: {}", path.display(), foreign::start_advice(source))]
    Execute {
        /// The program.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The thread that follows the run could not be started.
    #[error("cannot start a thread to follow the run: {source}: {}", foreign::start_advice(source))]
    Thread {
        /// The system's error.
        source: io::Error,
    },
}

/// The program that leads a run's ranks, and the ranks' command line.
struct Led<'a> {
    supervisor: PathBuf,
    /// Variables for the ranks.
    environment: &'a [(String, String)],
    program: Vec<OsString>,
}

struct Followed {
    control: Arc<Control>,
    thread: JoinHandle<()>,
}

/// Launches runs and follows each on a thread. Dropping it cancels all runs and waits until they have ended.
pub struct Launcher {
    worker: Option<WorkerCommand>,
    updates: SyncSender<Update>,
    options: LauncherOptions,
    runs: Mutex<HashMap<String, Followed>>,
}

impl Launcher {
    /// Creates a launcher that reports to `updates`. It waits for room there, so the receiver must keep receiving. Without a
    /// worker, it can follow runs but not start any.
    pub fn new(worker: impl Into<Option<WorkerCommand>>, updates: SyncSender<Update>) -> Self {
        Self::with_options(worker, updates, LauncherOptions::default())
    }

    /// Creates a launcher with other time limits.
    pub fn with_options(
        worker: impl Into<Option<WorkerCommand>>,
        updates: SyncSender<Update>,
        options: LauncherOptions,
    ) -> Self {
        Self { worker: worker.into(), updates, options, runs: Mutex::default() }
    }

    /// Whether it has a worker to start runs with.
    pub fn has_worker(&self) -> bool {
        self.worker.is_some()
    }

    /// Writes `job.json` into the run's folder and starts the run's group there.
    ///
    /// # Errors
    /// The folder holds logs or cannot be written, `multicard` is not found or cannot be executed, or the run is already running.
    pub fn start(&self, job: Job) -> Result<(), LaunchError> {
        let Led { supervisor, environment, program } = self.led(&job)?;
        let mut command = Command::new(supervisor);
        command.envs(environment.iter().map(|(key, value)| (key, value)));
        self.start_by(job, command, &program)
    }

    /// Like [`Launcher::start`], under a profiler: `profiler` is a command that runs the command appended to it and ends with it.
    ///
    /// # Errors
    /// Those of [`Launcher::start`].
    pub fn start_under(&self, job: Job, mut profiler: Command) -> Result<(), LaunchError> {
        let Led { supervisor, environment, program } = self.led(&job)?;
        if !environment.is_empty() {
            // For the worker only: a profiler has its own libraries.
            profiler.arg("env").args(environment.iter().map(|(key, value)| format!("{key}={value}")));
        }
        profiler.arg(supervisor);
        self.start_by(job, profiler, &program)
    }

    /// The program that leads the ranks of a job, and the ranks' command line: the worker, or the runner of the job's own program.
    fn led(&self, job: &Job) -> Result<Led<'_>, LaunchError> {
        let find = |worker: Option<&Path>| find_supervisor(worker).map_err(LaunchError::NoSupervisor);
        if job.program.is_some() {
            let supervisor = find(self.worker.as_ref().map(|worker| &*worker.path))?;
            let program = vec![supervisor.clone().into(), PROGRAM_COMMAND.into(), JOB_WORD.into()];
            return Ok(Led { supervisor, environment: &[], program });
        }
        let worker = self.worker.as_ref().ok_or_else(|| LaunchError::NoWorker(job.run.clone()))?;
        let program = worker.rank_program().to_vec();
        Ok(Led { supervisor: find(Some(&worker.path))?, environment: &worker.environment, program })
    }

    /// `command` is `multicard` or ends in it; `program` is the command line of each rank.
    fn start_by(&self, job: Job, mut command: Command, program: &[OsString]) -> Result<(), LaunchError> {
        let mut runs = self.vacancy(&job)?;
        let job_path = prepare_folder(&job)?;
        command.arg(GROUP_COMMAND).arg(job_path).args(program);
        let child = spawn(command, &job)?;
        let start = process::process_start(child.id()).unwrap_or(0);
        self.add(&mut runs, job, Group::Child(child), start)
    }

    /// Follows an existing group from the start of its logs: updates come as if it had just been started. The group may have
    /// ended, and then its logs determine the outcome; process 0 stands for such a group.
    ///
    /// # Errors
    /// The run is already followed.
    pub fn follow(&self, job: Job, pid: u32, process_start: u64) -> Result<(), LaunchError> {
        let mut runs = self.vacancy(&job)?;
        self.add(&mut runs, job, Group::Found { pid, start: process_start, seen: false }, process_start)
    }

    /// Cancels a run: its processes get SIGTERM, and SIGKILL if they do not end. Does nothing to a run that has ended.
    pub fn cancel(&self, run: &str) {
        if let Some(followed) = self.lock().get(run) {
            cancel(followed);
        }
    }

    /// Waits until all runs have ended. They can be cancelled in the meantime.
    pub fn wait_all(&self) {
        while !self.lock().values().all(|followed| followed.thread.is_finished()) {
            thread::sleep(self.options.poll);
        }
        let ended: Vec<_> = self.lock().drain().collect();
        for (_, followed) in ended {
            // A panic was printed where it happened.
            let _ = followed.thread.join();
        }
    }

    /// Stops following: runs continue, and a later launcher can [`follow`](Self::follow) them.
    pub fn leave(self) {
        for followed in self.lock().values() {
            followed.control.leave.store(true, Ordering::Relaxed);
            followed.thread.thread().unpark();
        }
        // This empties the list, so that dropping the launcher cancels nothing.
        self.wait_all();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Followed>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn vacancy(&self, job: &Job) -> Result<MutexGuard<'_, HashMap<String, Followed>>, LaunchError> {
        if job.ranks.is_empty() {
            return Err(LaunchError::NoRank(job.run.clone()));
        }
        let mut runs = self.lock();
        runs.retain(|_, followed| !followed.thread.is_finished());
        if runs.contains_key(&job.run) { Err(LaunchError::AlreadyRunning(job.run.clone())) } else { Ok(runs) }
    }

    fn add(
        &self,
        runs: &mut HashMap<String, Followed>,
        job: Job,
        group: Group,
        process_start: u64,
    ) -> Result<(), LaunchError> {
        let control = Arc::<Control>::default();
        let run = job.run.clone();
        let pid = group.pid();
        let ours = matches!(group, Group::Child(_));
        let follower = Follower::new(job, group, self.updates.clone(), Arc::clone(&control), self.options.clone());
        let thread = thread::Builder::new().name(format!("follow-{run}")).spawn(move || follower.follow(process_start));
        let thread = thread.map_err(|error| {
            if ours {
                process::kill_group(pid);
            }
            LaunchError::Thread { source: error }
        })?;
        runs.insert(run, Followed { control, thread });
        Ok(())
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        for followed in self.lock().values() {
            followed.control.closing.store(true, Ordering::Relaxed);
            cancel(followed);
        }
        self.wait_all();
    }
}

fn spawn(mut command: Command, job: &Job) -> Result<Child, LaunchError> {
    let file = |name: &str| {
        let path = job.folder.join(name);
        // The supervisor reads the file back, and shortens it if it grows without end.
        let mut options = File::options();
        let options = options.read(true).append(true).create(true);
        let opened = foreign::open_ours_with(&path, options).and_then(|file| file.set_len(0).map(|()| file));
        opened.map_err(|source| LaunchError::Folder { path, source })
    };
    if let Some(folder) = &job.working_folder {
        command.current_dir(folder);
    }
    command.process_group(0);
    command.stdin(Stdio::null()).stdout(file(STDOUT_FILE)?).stderr(file(STDERR_FILE)?);
    command.spawn().map_err(|source| LaunchError::Execute { path: command.get_program().into(), source })
}

fn cancel(followed: &Followed) {
    followed.control.cancel.store(true, Ordering::Relaxed);
    followed.thread.thread().unpark();
}

/// Creates the run's folder and writes the job into it; returns the job's path, which does not depend on the current folder.
fn prepare_folder(job: &Job) -> Result<PathBuf, LaunchError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| LaunchError::Folder { path, source }
    };
    let folder = std::path::absolute(&job.folder).map_err(failed(&job.folder))?;
    fs::create_dir_all(&folder).map_err(failed(&folder))?;
    if fs::symlink_metadata(&folder).map_err(failed(&folder))?.is_symlink() {
        return Err(failed(&folder)(io::Error::other("it is a link, which is not followed")));
    }
    for entry in fs::read_dir(&folder).map_err(failed(&folder))? {
        let entry = entry.map_err(failed(&folder))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name == GROUP_LOG || (name.starts_with("rank-") && name.ends_with(".jsonl")) {
            return Err(LaunchError::HasLog(entry.path()));
        }
    }
    let path = folder.join(process::JOB_FILE);
    let unfinished = path.with_extension("json.tmp");
    let text = serde_json::to_vec_pretty(job).map_err(|error| failed(&path)(error.into()))?;
    // Written to another name and renamed, so that nobody reads a partial job.
    let file = foreign::open_ours_with(&unfinished, File::options().write(true).create(true).truncate(true));
    let write = file.and_then(|mut file| file.write_all(&text).and_then(|()| file.sync_all()));
    write.and_then(|()| fs::rename(&unfinished, &path)).map_err(failed(&path))?;
    Ok(path)
}

#[cfg(test)]
#[path = "launcher_tests.rs"]
mod tests;
