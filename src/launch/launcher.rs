//! The launcher: starts, follows and ends the groups of runs, on this machine and at sites.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::foreign;
use crate::protocol::{GROUP_LOG, Job, Site};

use super::error::LaunchError;
use super::follower::{Control, Follower, LauncherOptions, Update};
use super::local::Local;
use super::place::{Group, Lead, Place};
use super::process;
use super::slurm::Slurm;
use super::watched::Watched;
use super::worker::WorkerCommand;

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
    /// The sites that runs were started at or found at.
    sites: Mutex<HashMap<String, Arc<Slurm>>>,
    /// The number of files that the followers of all runs look at.
    watched: Arc<AtomicUsize>,
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
        Self {
            worker: worker.into(),
            updates,
            options,
            runs: Mutex::default(),
            sites: Mutex::default(),
            watched: Arc::default(),
        }
    }

    /// Whether it has a worker to start runs with.
    pub fn has_worker(&self) -> bool {
        self.worker.is_some()
    }

    /// Writes `job.json` into the run's folder and starts the run's group there, or at the job's site.
    ///
    /// # Errors
    /// The folder holds logs or cannot be written, `multicard` is not found or cannot be executed, or the run is already running.
    pub fn start(&self, job: Job) -> Result<(), LaunchError> {
        self.start_by(job, None)
    }

    /// Like [`Launcher::start`], under a profiler: `profiler` is a command that runs the command appended to it and ends with it.
    ///
    /// # Errors
    /// The errors of [`Launcher::start`]; or the job has a site.
    pub fn start_under(&self, job: Job, profiler: Command) -> Result<(), LaunchError> {
        self.start_by(job, Some(profiler))
    }

    fn start_by(&self, job: Job, profiler: Option<Command>) -> Result<(), LaunchError> {
        let lead = Lead { profiler, ..Lead::of(&job, self.worker.as_ref())? };
        let mut runs = self.vacancy(&job)?;
        prepare_folder(&job)?;
        let group = self.place(job.site.as_ref()).start(&job, lead)?;
        self.add(&mut runs, job, group, true)
    }

    /// Where a job of this site is executed.
    fn place(&self, site: Option<&Site>) -> Arc<dyn Place> {
        let Some(site) = site else { return Arc::new(Local) };
        let mut sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        let known = sites.entry(site.name.clone());
        known.or_insert_with(|| Arc::new(Slurm::new(self.options.slurm_interval))).clone()
    }

    /// Follows an existing group from the start of its logs: updates come as if it had just been started. The group may have
    /// ended, and then its logs determine the outcome; process 0 stands for such a group. The group of a job with a site is found by the
    /// record in the run's folder.
    ///
    /// # Errors
    /// The run is already followed.
    pub fn follow(&self, job: Job, pid: u32, process_start: u64) -> Result<(), LaunchError> {
        let mut runs = self.vacancy(&job)?;
        let group = self.place(job.site.as_ref()).find(&job, (pid, process_start));
        self.add(&mut runs, job, group, false)
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
        group: Box<dyn Group>,
        is_started: bool,
    ) -> Result<(), LaunchError> {
        let control = Arc::<Control>::default();
        let run = job.run.clone();
        let ours = group.leader().filter(|_| is_started);
        let watched = Watched::beside(Arc::clone(&self.watched));
        let (updates, options) = (self.updates.clone(), self.options.clone());
        let follower = Follower::new(job, group, updates, Arc::clone(&control), options, watched);
        let thread = thread::Builder::new().name(format!("follow-{run}")).spawn(move || follower.follow());
        let thread = thread.map_err(|error| {
            if let Some((pid, _)) = ours {
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
    // Written under another name and renamed, so that no process reads a partial job.
    let file = foreign::open_ours_with(&unfinished, File::options().write(true).create(true).truncate(true));
    let write = file.and_then(|mut file| file.write_all(&text).and_then(|()| file.sync_all()));
    write.and_then(|()| fs::rename(&unfinished, &path)).map_err(failed(&path))?;
    Ok(path)
}

#[cfg(test)]
#[path = "launcher_tests.rs"]
mod tests;
