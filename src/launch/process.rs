//! Process groups of this machine: finds a group, checks whether it is alive, and sends it signals.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use procfs_core::process::Stat;
use procfs_core::{FromRead, Uptime};
use rustix::process::{Pid, Signal};

use crate::processes::{self, Process, inode};
use crate::protocol::Job;

/// Subcommand of `multicard` that leads the ranks of a job: `group JOB PROGRAM…`.
pub const GROUP_COMMAND: &str = "group";

/// Name of the job file in the run's folder.
pub(super) const JOB_FILE: &str = "job.json";
/// The output of a run's processes; ranks write their logs to other files.
pub(super) const STDOUT_FILE: &str = "group.out";
/// Their stderr.
pub(super) const STDERR_FILE: &str = "stderr.log";

/// Time that killed processes have to disappear.
const KILL_LIMIT: Duration = Duration::from_secs(2);

/// Whether the process that started at `process_start` (clock ticks since boot) is still alive.
pub fn is_alive(pid: u32, process_start: u64) -> bool {
    stat(pid).is_some_and(|stat| stat.starttime == process_start && lives(&stat))
}

/// Finds the live supervisor of the run in this folder: its process id, and its start in clock ticks since boot. It is identified by its
/// command line and by the file that it prints to, so that it is also found by a workbench that did not start it, or in a session that was
/// renamed, and is not confused with other processes or with the group of a run whose folder was copied.
pub fn find_group(folder: &Path) -> Option<(u32, u64)> {
    let is_supervisor = |pid: &u32| {
        let words = command_line(*pid);
        let mut words = words.iter().skip_while(|word| *word != GROUP_COMMAND);
        words.nth(1).is_some_and(|job| Path::new(job).ends_with(JOB_FILE)) && is_of(*pid, folder)
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_supervisor);
    let all: Vec<Stat> = pids.filter_map(|pid| stat(pid).filter(lives)).collect();
    // A process that the supervisor starts has the supervisor's command line until it executes another program. Such a child has a higher
    // process id, except if process ids started again from the lowest.
    let leader = all.iter().find(|one| all.iter().all(|other| other.pid != one.ppid));
    leader.map(|leader| (leader.pid.unsigned_abs(), leader.starttime))
}

/// Whether a supervisor or a rank belongs to the run in this folder. The file that it prints to decides, because that file stays the same
/// when the folder is renamed, and a copy of the folder has another. If its output goes elsewhere, as under a profiler, its command line
/// must name the folder's job.
fn is_of(pid: u32, folder: &Path) -> bool {
    let output = Path::new("/proc").join(pid.to_string()).join("fd/1");
    if fs::read_link(&output).is_ok_and(|path| path.ends_with(STDOUT_FILE)) {
        return inode(&output).is_ok_and(|output| inode(&folder.join(STDOUT_FILE)).is_ok_and(|own| own == output));
    }
    let words = command_line(pid);
    let job = words.iter().map(Path::new).find(|word| word.ends_with(JOB_FILE));
    let named = job.and_then(Path::parent).and_then(|named| inode(named).ok());
    named.is_some() && named == inode(folder).ok()
}

/// The words of a process's command line; none if it has ended.
fn command_line(pid: u32) -> Vec<OsString> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).map(|word| OsStr::from_bytes(word).to_owned()).collect()
}

/// The mark of the processes of a job's own program; `None` if it has none, or if its folder cannot be accessed.
pub(super) fn mark(job: &Job) -> Option<String> {
    job.program.as_ref().and_then(|program| processes::mark(&program.marker, &job.folder).ok())
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

/// Sends a signal to the group of a rank of the run in this folder, if the rank is alive and the group is not `own`; returns whether there
/// is such a group.
pub(super) fn signal_group_of(pid: u32, folder: &Path, own: u32, signal: Option<Signal>) -> bool {
    let rank = stat(pid).filter(lives).filter(|_| is_of(pid, folder));
    let group = rank.and_then(|stat| u32::try_from(stat.pgrp).ok());
    let group = group.filter(|group| *group != own).and_then(pid_of);
    if let (Some(group), Some(signal)) = (group, signal) {
        // An error means that no process is left.
        let _ = rustix::process::kill_process_group(group, signal);
    }
    group.is_some()
}

/// Kills all remaining processes that carry the mark of a run's program, wherever they are; returns those that cannot be killed.
pub(super) fn end_program(mark: &str) -> Vec<Process> {
    processes::end(|| processes::marked(mark), Duration::ZERO, || ()).1
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
