//! Process groups of this machine: finds a group, checks whether it is alive, and sends it signals.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use procfs_core::process::Stat;
use procfs_core::{FromRead, Uptime};
use rustix::process::{Pid, Signal};

use crate::processes::{self, Process};

/// Subcommand of `multicard` that leads the ranks of a job: `group JOB PROGRAM…`.
pub const GROUP_COMMAND: &str = "group";

/// Name of the job file in the run's folder.
pub(super) const JOB_FILE: &str = "job.json";

/// Time that killed processes have to disappear.
const KILL_LIMIT: Duration = Duration::from_secs(2);

/// Whether the process that started at `process_start` (clock ticks since boot) is still alive.
pub fn is_alive(pid: u32, process_start: u64) -> bool {
    stat(pid).is_some_and(|stat| stat.starttime == process_start && lives(&stat))
}

/// Finds the live supervisor of the run in this folder: its process id, and its start in clock ticks since boot. `recorded`
/// are the known values. It is identified by its command line, so that it is also found by a workbench that did not start it,
/// and is not confused with other processes or with the group of a run whose folder was copied.
pub fn find_group(folder: &Path, recorded: Option<(u32, u64)>) -> Option<(u32, u64)> {
    let own = folder.canonicalize().ok()?;
    let moved = |(pid, start): &(u32, u64)| is_alive(*pid, *start) && run_folder(*pid).is_some_and(|at| !at.exists());
    let here = |pid: &u32| run_folder(*pid).and_then(|at| at.canonicalize().ok()).is_some_and(|at| at == own);
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(here);
    let all: Vec<Stat> = pids.filter_map(|pid| stat(pid).filter(lives)).collect();
    // A process that the supervisor starts has the supervisor's command line until it executes another program. Such a child has a higher
    // process id, except if process ids started again from the lowest.
    let leader = all.iter().find(|one| all.iter().all(|other| other.pid != one.ppid));
    leader.map(|leader| (leader.pid.unsigned_abs(), leader.starttime)).or(recorded.filter(moved))
}

/// Folder of the run that a supervisor was started for.
fn run_folder(pid: u32) -> Option<PathBuf> {
    let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = words.split(|byte| *byte == 0).skip_while(|word| *word != GROUP_COMMAND.as_bytes());
    let job = Path::new(OsStr::from_bytes(words.nth(1)?));
    job.ends_with(JOB_FILE).then(|| job.parent().map(Path::to_owned))?
}

/// Start of a process, in clock ticks since boot.
pub(super) fn process_start(pid: u32) -> Option<u64> {
    stat(pid).map(|stat| stat.starttime)
}

/// Time since a moment that is given in clock ticks since boot.
pub(super) fn age(process_start: u64) -> Option<Duration> {
    let uptime = Uptime::from_file("/proc/uptime").ok()?;
    let start_s = process_start as f64 / rustix::param::clock_ticks_per_second() as f64;
    Duration::try_from_secs_f64((uptime.uptime - start_s).max(0.0)).ok()
}

pub(super) fn stat(pid: u32) -> Option<Stat> {
    Stat::from_file(format!("/proc/{pid}/stat")).ok()
}

/// Whether a process is alive; zombies are not.
fn lives(stat: &Stat) -> bool {
    !matches!(stat.state, 'Z' | 'X')
}

/// Kills a group whose leader is an unreaped child.
pub(super) fn kill_group(pid: u32) {
    if let Some(group) = pid_of(pid) {
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
}

/// Sends a signal to the group of a process, if the process is alive and the group is not `own`; returns whether there is such
/// a group.
pub(super) fn signal_group_of(pid: u32, own: u32, signal: Option<Signal>) -> bool {
    let group = stat(pid).filter(lives).and_then(|stat| u32::try_from(stat.pgrp).ok());
    let group = group.filter(|group| *group != own).and_then(pid_of);
    if let (Some(group), Some(signal)) = (group, signal) {
        // An error means that no process is left.
        let _ = rustix::process::kill_process_group(group, signal);
    }
    group.is_some()
}

/// Kills all remaining processes of a run's program, wherever they are; returns those that cannot be killed.
pub(super) fn end_program(marker: &str) -> Vec<Process> {
    processes::end(|| processes::marked(marker), Duration::ZERO, || ()).1
}

pub(super) fn pid_of(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// Waits until killed processes are gone, so that logs read after this are complete.
pub(super) fn wait_until_gone(group: Pid) {
    let deadline = Instant::now() + KILL_LIMIT;
    while has_living(group) && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a process of the group is alive. It checks every process of the machine, so it is called only after a kill.
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
