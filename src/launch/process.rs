//! A run's process group: whether it lives, how it ended, and signals to all of it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use procfs_core::process::Stat;
use procfs_core::{FromRead, Uptime};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use super::supervisor::GROUP_COMMAND;
use crate::protocol::Exit;

/// The job's file in the run's folder.
pub(super) const JOB_FILE: &str = "job.json";

/// How long processes that were killed may take to be gone.
const KILL_LIMIT: Duration = Duration::from_secs(2);

/// Whether the very process that started at `process_start` (clock ticks since boot) still lives.
pub fn is_alive(pid: u32, process_start: u64) -> bool {
    stat(pid).is_some_and(|stat| stat.starttime == process_start && lives(&stat))
}

/// The process that supervises the ranks of the run in this folder, where one lives: its id, and when it started in clock
/// ticks since boot. `recorded` is what is known of it. It is told by its command line: a workbench finds it that never saw
/// it start, and takes no other process for it, nor the group of the run that this one is a copy of.
pub fn find_group(folder: &Path, recorded: Option<(u32, u64)>) -> Option<(u32, u64)> {
    let own = folder.canonicalize().ok()?;
    let moved = |(pid, start): &(u32, u64)| is_alive(*pid, *start) && run_folder(*pid).is_some_and(|at| !at.exists());
    let here = |pid: &u32| run_folder(*pid).and_then(|at| at.canonicalize().ok()).is_some_and(|at| at == own);
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pid = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find(here);
    let found = pid.and_then(|pid| stat(pid).filter(lives).map(|stat| (pid, stat.starttime)));
    found.or(recorded.filter(moved))
}

/// The run's folder that a group was started for.
fn run_folder(pid: u32) -> Option<PathBuf> {
    let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = words.split(|byte| *byte == 0).skip_while(|word| *word != GROUP_COMMAND.as_bytes());
    let job = Path::new(OsStr::from_bytes(words.nth(1)?));
    job.ends_with(JOB_FILE).then(|| job.parent().map(Path::to_owned))?
}

/// When a process started, in clock ticks since boot.
pub(super) fn process_start(pid: u32) -> Option<u64> {
    stat(pid).map(|stat| stat.starttime)
}

/// How long ago a moment was that is given in clock ticks since boot.
pub(super) fn age(process_start: u64) -> Option<Duration> {
    let uptime = Uptime::from_file("/proc/uptime").ok()?;
    let start_s = process_start as f64 / rustix::param::clock_ticks_per_second() as f64;
    Duration::try_from_secs_f64((uptime.uptime - start_s).max(0.0)).ok()
}

fn stat(pid: u32) -> Option<Stat> {
    Stat::from_file(format!("/proc/{pid}/stat")).ok()
}

/// It runs, or could: what has ended and waits for its parent to notice does not.
fn lives(stat: &Stat) -> bool {
    !matches!(stat.state, 'Z' | 'X')
}

/// How a group's leader ended, as far as it can be known.
pub(super) type LeaderExit = Option<Exit>;

/// A process group, by its leader.
pub(super) enum Group {
    /// Started by this process.
    Child(Child),
    /// Found running: its exit status belongs to somebody else.
    Found {
        /// Its leader.
        pid: u32,
        /// When that started, in clock ticks since boot.
        start: u64,
        /// It has been seen alive, so that its id was not another group's since.
        seen: bool,
    },
}

impl Group {
    pub(super) fn pid(&self) -> u32 {
        match self {
            Self::Child(child) => child.id(),
            Self::Found { pid, .. } => *pid,
        }
    }

    /// Whether the leader has ended, and how. Whatever it left behind is killed, and gone when this returns.
    pub(super) fn ended(&mut self) -> Option<LeaderExit> {
        let Some(group) = pid_of(self.pid()) else { return Some(None) };
        match self {
            Self::Child(child) => {
                // The leader is left unreaped while its group is killed: until then nobody else gets its id.
                let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
                if let Ok(None) = rustix::process::waitid(WaitId::Pid(group), options) {
                    return None;
                }
                let _ = rustix::process::kill_process_group(group, Signal::KILL);
                let exit = child.wait().ok().map(Exit::from);
                wait_until_gone(group);
                Some(exit)
            }
            Self::Found { pid, start, seen } => {
                if is_alive(*pid, *start) {
                    *seen = true;
                    return None;
                }
                // A group without its leader keeps its id from being used again; an id in use means that it is gone.
                if *seen && stat(*pid).is_none_or(|stat| stat.starttime == *start) {
                    let _ = rustix::process::kill_process_group(group, Signal::KILL);
                    wait_until_gone(group);
                }
                Some(None)
            }
        }
    }

    /// Sends a signal to every process of the group.
    pub(super) fn signal(&self, signal: Signal) {
        let found_dead = match self {
            Self::Child(_) => false,
            Self::Found { pid, start, .. } => !is_alive(*pid, *start),
        };
        if let (Some(group), false) = (pid_of(self.pid()), found_dead) {
            // An error means that nobody is left, which the next look finds out.
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }
}

/// Kills a group whose leader is a child that nobody has waited for.
pub(super) fn kill_group(pid: u32) {
    if let Some(group) = pid_of(pid) {
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
}

/// Sends a signal to the group that a process is in, where the process still lives and that group is not `own`. Says whether
/// there is such a group.
pub(super) fn signal_group_of(pid: u32, own: u32, signal: Option<Signal>) -> bool {
    let group = stat(pid).filter(lives).and_then(|stat| u32::try_from(stat.pgrp).ok());
    let group = group.filter(|group| *group != own).and_then(pid_of);
    if let (Some(group), Some(signal)) = (group, signal) {
        // An error means that nobody is left.
        let _ = rustix::process::kill_process_group(group, signal);
    }
    group.is_some()
}

fn pid_of(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// Killed processes write nothing more once they are gone, so that the logs read after this are complete.
fn wait_until_gone(group: Pid) {
    let deadline = Instant::now() + KILL_LIMIT;
    while has_living(group) && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a process of the group lives. Asked only when a group has been killed: it looks at every process of the machine.
fn has_living(group: Pid) -> bool {
    let member = |pid: u32| stat(pid).is_some_and(|stat| stat.pgrp == group.as_raw_pid() && lives(&stat));
    let pids = || fs::read_dir("/proc").into_iter().flatten().flatten();
    rustix::process::test_kill_process_group(group).is_ok()
        && pids().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).any(member)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_is_told_from_another_with_its_id_and_from_a_dead_one() {
        let mut child = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
        let start = process_start(child.id()).unwrap();
        assert!(is_alive(child.id(), start));
        assert!(!is_alive(child.id(), start + 1));
        assert!(age(start).unwrap() < Duration::from_secs(600));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_alive(child.id(), start));
    }

    #[test]
    fn this_process_started_before_now() {
        assert!(is_alive(std::process::id(), process_start(std::process::id()).unwrap()));
    }
}
