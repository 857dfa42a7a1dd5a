//! The tree of this machine's processes, and the end of all processes that belong to a run.
//!
//! A program may start other processes, which may leave its process group and its session, or lose their parents. Two things keep them
//! identifiable: the process that starts the program is a *child subreaper* (prctl(2)), so that orphans become its children; and every
//! process inherits [`MARKER_VARIABLE`], by which they are found if the subreaper itself was killed.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread;
use std::time::{Duration, Instant};

use procfs_core::FromRead;
use procfs_core::process::{Stat, Status};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::foreign;

/// Environment variable that marks the processes of a run. Its value is a [`mark`].
pub const MARKER_VARIABLE: &str = "MULTICARD_RUN_MARKER";

/// Time that killed processes have to disappear.
const KILL_LIMIT: Duration = Duration::from_secs(5);
/// Interval between checks of processes that are to end.
const POLL: Duration = Duration::from_millis(20);

/// A number that holds the last SIGTERM or SIGINT that this process received from now on; 0 before the first.
///
/// # Errors
/// The system refuses a handler.
pub fn signals() -> Result<Arc<AtomicUsize>, String> {
    let signal = Arc::new(AtomicUsize::new(0));
    for number in [SIGTERM, SIGINT] {
        let value = usize::try_from(number).unwrap_or_default();
        signal_hook::flag::register_usize(number, Arc::clone(&signal), value)
            .map_err(|error| format!("cannot catch signal {number}: {error}"))?;
    }
    Ok(signal)
}

/// Whether this process ignores a signal, as one that `nohup` started ignores SIGHUP; false if that is unknown.
pub fn ignores(signal: i32) -> bool {
    Status::from_file("/proc/self/status").is_ok_and(|status| status.sigign & (1 << (signal - 1)) != 0)
}

/// A living process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its parent's id.
    pub parent: u32,
    /// Its start, in clock ticks since boot.
    pub start: u64,
    /// The name of its program, at most the first 15 bytes.
    pub name: String,
    /// Resident memory.
    pub resident_bytes: u64,
    /// CPU time of all of its threads, in clock ticks.
    pub cpu_ticks: u64,
}

/// All living processes; zombies are not.
pub fn living() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| process(entry.file_name().to_str()?.parse().ok()?)).collect()
}

fn process(pid: u32) -> Option<Process> {
    let stat = Stat::from_file(format!("/proc/{pid}/stat")).ok()?;
    let lives = !matches!(stat.state, 'Z' | 'X');
    lives.then(|| Process {
        pid,
        parent: u32::try_from(stat.ppid).unwrap_or_default(),
        start: stat.starttime,
        resident_bytes: stat.rss.saturating_mul(rustix::param::page_size() as u64),
        cpu_ticks: stat.utime.saturating_add(stat.stime),
        name: stat.comm,
    })
}

/// The state of a living process according to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It runs, or waits for something other than a device.
    Lives,
    /// It waits for a device, such as a disk, and cannot be interrupted.
    Device,
    /// It was stopped by a signal, such as Ctrl-Z.
    Stopped,
    /// A debugger has stopped it.
    Traced,
}

impl Doing {
    /// The state as a clause that follows the name of the process.
    pub fn words(self) -> &'static str {
        match self {
            Self::Lives => "which is busy",
            Self::Device => "which waits for a disk or another device",
            Self::Stopped => "which is stopped",
            Self::Traced => "which a debugger holds",
        }
    }
}

/// The state of a process; `None` if it has ended.
pub fn doing(pid: u32) -> Option<Doing> {
    match Stat::from_file(format!("/proc/{pid}/stat")).ok()?.state {
        'Z' | 'X' => None,
        'D' => Some(Doing::Device),
        'T' => Some(Doing::Stopped),
        't' => Some(Doing::Traced),
        _ => Some(Doing::Lives),
    }
}

/// The name of this process, in the form in which [`Process::name`] gives others.
pub fn own_name() -> String {
    process(std::process::id()).map_or(String::new(), |own| own.name)
}

/// The living processes below another, at any depth.
pub fn descendants(root: u32) -> Vec<Process> {
    let mut others = living();
    let mut processes: Vec<Process> = Vec::new();
    let mut parents: HashSet<u32> = [root].into();
    loop {
        let (children, rest): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|process| process.pid != root && parents.contains(&process.parent));
        if children.is_empty() {
            return processes;
        }
        parents = children.iter().map(|child| child.pid).collect();
        processes.extend(children);
        others = rest;
    }
}

/// The mark of the processes of a run: the marker of its job, and the device and the inode of its folder. A copy of a session has the same
/// markers but other folders, so that the copy does not take processes of the original for its own. A session that is renamed keeps both.
///
/// # Errors
/// The folder cannot be accessed.
pub fn mark(marker: &str, folder: &Path) -> io::Result<String> {
    let (device, inode) = inode(folder)?;
    Ok(format!("{marker}@{device}:{inode}"))
}

/// Device and inode of a file or folder, to which links lead, too.
///
/// # Errors
/// It cannot be accessed.
pub fn inode(path: &Path) -> io::Result<(u64, u64)> {
    path.metadata().map(|about| foreign::identity(&about))
}

/// The living processes of this user that carry a run's [`mark`], except for this process.
pub fn marked(mark: &str) -> Vec<Process> {
    let wanted = format!("{MARKER_VARIABLE}={mark}");
    let carries = |process: &Process| {
        // Only the owner may read the environment, and a program may have overwritten it.
        let variables = fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
        variables.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    living().into_iter().filter(|process| process.pid != std::process::id() && carries(process)).collect()
}

/// Sends a signal to a process, if it is still the same process.
pub fn signal(process: &Process, signal: Signal) {
    let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else { return };
    // The handle identifies one process for good, so that a new process with the same id is never signalled.
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    if self::process(process.pid).is_some_and(|now| now.start == process.start) {
        // An error means that it has just ended.
        let _ = pidfd_send_signal(handle, signal);
    }
}

/// Ends all processes that `find` finds: SIGTERM, and SIGKILL after `grace`, until none is left. Returns the processes that existed at
/// first, and those that could not be killed, such as processes that wait in the kernel for a hung device.
pub fn end(
    find: impl Fn() -> Vec<Process>,
    grace: Duration,
    mut meanwhile: impl FnMut(),
) -> (Vec<Process>, Vec<Process>) {
    let first = find();
    if first.is_empty() {
        return (first, Vec::new());
    }
    let started = Instant::now();
    let mut asked: HashSet<(u32, u64)> = HashSet::new();
    loop {
        meanwhile();
        let left = find();
        let since = started.elapsed();
        if left.is_empty() || since > grace + KILL_LIMIT {
            return (first, left);
        }
        for process in &left {
            if since >= grace {
                signal(process, Signal::KILL);
            } else if asked.insert((process.pid, process.start)) {
                signal(process, Signal::TERM);
                // A stopped process handles the signal only after it is continued.
                signal(process, Signal::CONT);
            }
        }
        thread::sleep(POLL);
    }
}

/// Names of processes for a message: `sleep (process 4711), python3 (process 4712)`.
pub fn named(processes: &[Process]) -> String {
    const SHOWN: usize = 5;
    let shown = processes.iter().take(SHOWN).map(|process| format!("{} (process {})", process.name, process.pid));
    let more = processes.len().saturating_sub(SHOWN);
    let more = (more > 0).then(|| format!("{more} more"));
    shown.chain(more).collect::<Vec<_>>().join(", ")
}

/// The file that would be executed for a program's name: the name itself if it contains a slash, else the first match on the search path.
///
/// # Errors
/// There is none, or it is not executable; the message says what to do.
pub fn executable(program: &str, folder: &Path, search: Option<&OsStr>) -> Result<PathBuf, String> {
    use std::os::unix::fs::PermissionsExt;
    let is_executable =
        |path: &Path| fs::metadata(path).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0);
    if program.contains('/') {
        let path = folder.join(program);
        return match fs::metadata(&path) {
            Err(error) => {
                Err(format!("the program {} is not found: {error}: correct `run` or `folder`", path.display()))
            }
            Ok(about) if about.is_dir() => {
                Err(format!("the program {} is a folder: name the program in it", path.display()))
            }
            Ok(_) if is_executable(&path) => Ok(path),
            Ok(_) => Err(format!(
                "the program {} is not executable: make it so with `chmod +x`, or name its interpreter first in `run`",
                path.display()
            )),
        };
    }
    let search = search.unwrap_or(OsStr::from_bytes(b"/usr/local/bin:/usr/bin:/bin"));
    let mut denied = None;
    for candidate in std::env::split_paths(search).map(|path| folder.join(path).join(program)) {
        if is_executable(&candidate) {
            return Ok(candidate);
        }
        if denied.is_none() && candidate.is_file() {
            denied = Some(candidate);
        }
    }
    Err(match denied {
        Some(path) => format!("the program {} is not executable: make it so with `chmod +x`", path.display()),
        None => format!(
            "the program {program:?} is not found in PATH ({}): install it, or write its path",
            search.to_string_lossy()
        ),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn wait_for(condition: impl Fn() -> bool) {
        let start = Instant::now();
        while !condition() {
            assert!(start.elapsed() < Duration::from_secs(30));
            thread::sleep(POLL);
        }
    }

    #[test]
    fn a_tree_is_found_by_its_root_and_by_its_marker_and_ends_though_it_ignores_requests() {
        let marker = format!("test-{:x}", rand::random::<u64>());
        let script = "trap '' TERM; setsid sleep 600 & sleep 600 & while :; do sleep 1; done";
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).stdin(Stdio::null()).env(MARKER_VARIABLE, &marker);
        let mut shell = shell.spawn().unwrap();
        let root = shell.id();
        // A process that has just ended, and that the shell has not waited for yet, has no memory.
        let have_memory = || descendants(root).iter().all(|process| process.pid != root && process.resident_bytes > 0);
        wait_for(|| marked(&marker).len() >= 4 && descendants(root).len() >= 3 && have_memory());
        let (found, left) = end(|| marked(&marker), Duration::from_millis(50), || ());
        let _ = shell.wait();
        assert!(found.len() >= 4 && left.is_empty(), "{found:?} {left:?}");
        assert!(named(&found).contains("sleep (process "), "{}", named(&found));
        wait_for(|| marked(&marker).is_empty());
    }

    #[test]
    fn a_renamed_folder_keeps_the_mark_of_its_processes_and_a_copy_has_another() {
        let home = tempfile::tempdir().unwrap();
        let [run, copy, renamed] = ["run", "copy", "renamed"].map(|name| home.path().join(name));
        fs::create_dir(&run).unwrap();
        fs::create_dir(&copy).unwrap();
        let own = mark("0001-a", &run).unwrap();
        assert_ne!(mark("0001-a", &copy).unwrap(), own);
        fs::rename(&run, &renamed).unwrap();
        assert_eq!(mark("0001-a", &renamed).unwrap(), own);
        mark("0001-a", &run).unwrap_err();
    }

    #[test]
    fn a_program_is_looked_for_as_a_shell_would_and_what_is_wrong_is_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("plain.sh"), "true").unwrap();
        let find = |program: &str| executable(program, folder.path(), Some("/usr/bin:/bin".as_ref()));
        assert!(find("sh").unwrap().ends_with("bin/sh"));
        assert!(find("/bin/sh").is_ok_and(|path| path == Path::new("/bin/sh")));
        for (program, expected) in [
            ("no-such-program", "is not found in PATH"),
            ("./gone", "gone is not found"),
            ("./plain.sh", "is not executable"),
            ("./", "is a folder"),
        ] {
            let found = find(program).unwrap_err();
            assert!(found.contains(expected), "{program}: {found}");
        }
    }
}
