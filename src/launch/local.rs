//! Groups on this machine: process groups that this process started, or that it found.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Signal, WaitId, WaitIdOptions};

use super::error::LaunchError;
use super::place::{End, Group, Lead, Place, Standing};
use super::process::{self, STDERR_FILE, STDOUT_FILE, is_alive, pid_of, stat, wait_until_gone};
use crate::foreign;
use crate::processes::Process;
use crate::protocol::{Exit, Job};

/// This machine.
pub(super) struct Local;

impl Place for Local {
    fn start(&self, job: &Job, lead: Lead) -> Result<Box<dyn Group>, LaunchError> {
        let Lead { supervisor, arguments, environment, profiler } = lead;
        let command = match profiler {
            None => {
                let mut command = Command::new(supervisor);
                command.envs(environment);
                command
            }
            Some(mut profiler) => {
                if !environment.is_empty() {
                    // For the worker only: a profiler has its own libraries.
                    profiler.arg("env").args(environment.iter().map(|(key, value)| format!("{key}={value}")));
                }
                profiler.arg(supervisor);
                profiler
            }
        };
        let child = spawn(command, &arguments, job)?;
        let start = process::process_start(child.id()).unwrap_or(0);
        Ok(Box::new(Processes { leader: Leader::Child(child), start, mark: process::mark(job) }))
    }

    fn find(&self, job: &Job, (pid, start): (u32, u64)) -> Box<dyn Group> {
        Box::new(Processes { leader: Leader::Found { pid, seen: false }, start, mark: process::mark(job) })
    }
}

fn spawn(mut command: Command, arguments: &[OsString], job: &Job) -> Result<Child, LaunchError> {
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
    command.args(arguments).process_group(0);
    command.stdin(Stdio::null()).stdout(file(STDOUT_FILE)?).stderr(file(STDERR_FILE)?);
    command.spawn().map_err(|source| LaunchError::Execute { path: command.get_program().into(), source })
}

/// The leader of a process group.
enum Leader {
    /// Started by this process.
    Child(Child),
    /// Found running; its parent is another process, which gets its exit status.
    Found {
        /// Its process id.
        pid: u32,
        /// Whether it has been seen alive, so that its id has not been reused.
        seen: bool,
    },
}

impl Leader {
    fn pid(&self) -> u32 {
        match self {
            Self::Child(child) => child.id(),
            Self::Found { pid, .. } => *pid,
        }
    }
}

/// A process group.
struct Processes {
    leader: Leader,
    /// Start of the leader, in clock ticks since boot.
    start: u64,
    /// The mark of the processes of its program, if it has one.
    mark: Option<String>,
}

impl Processes {
    /// The exit of the leader, once it has ended, if it is known. The rest of its group is killed before, and has disappeared when this
    /// returns.
    fn ended(&mut self) -> Option<Option<Exit>> {
        let Some(group) = pid_of(self.leader.pid()) else { return Some(None) };
        match &mut self.leader {
            Leader::Child(child) => {
                // The leader stays unreaped while its group is killed, so that its id is not reused.
                let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
                if let Ok(None) = rustix::process::waitid(WaitId::Pid(group), options) {
                    return None;
                }
                let _ = rustix::process::kill_process_group(group, Signal::KILL);
                let exit = child.wait().ok().map(Exit::from);
                wait_until_gone(group);
                Some(exit)
            }
            Leader::Found { pid, seen } => {
                if is_alive(*pid, self.start) {
                    *seen = true;
                    return None;
                }
                // As long as a group has processes, its id is not reused, even without its leader. So if the id was reused, the group is
                // gone.
                if *seen && stat(*pid).is_none_or(|stat| stat.starttime == self.start) {
                    let _ = rustix::process::kill_process_group(group, Signal::KILL);
                    wait_until_gone(group);
                }
                Some(None)
            }
        }
    }
}

impl Group for Processes {
    fn look(&mut self, _supervisor: Option<Exit>) -> Standing {
        self.ended().map_or(Standing::Runs, |exit| Standing::Ended(End { exit, ..End::default() }))
    }

    fn signal(&mut self, signal: Signal) {
        let is_found_dead = match &self.leader {
            Leader::Child(_) => false,
            Leader::Found { pid, .. } => !is_alive(*pid, self.start),
        };
        if let (Some(group), false) = (pid_of(self.leader.pid()), is_found_dead) {
            // An error means that no process is left, which the next check detects.
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }

    fn leader(&self) -> Option<(u32, u64)> {
        Some((self.leader.pid(), self.start))
    }

    fn age(&self) -> Option<Duration> {
        matches!(self.leader, Leader::Found { .. }).then(|| process::age(self.start))?
    }

    fn end_program(&self) -> Vec<Process> {
        self.mark.as_deref().map(process::end_program).unwrap_or_default()
    }

    fn name(&self) -> String {
        format!("process group {}", self.leader.pid())
    }
}
