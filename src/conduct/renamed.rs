//! The conductor of a session whose folder, or a folder above it, was renamed. Its socket is named after the old path, so that clients of
//! the new path do not reach it; its process is found by the folder, which every conductor has open.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Pid;

use super::ConductError;
use super::socket::{SOCKET_ENDING, socket_path};
use crate::processes::{self, Process, inode};

/// The command that conducts a session, and ends its active runs with itself.
const HOST: &str = "run";
/// All commands that conduct a session.
const COMMANDS: [&str; 2] = ["conduct", HOST];
/// The session's journal, which its conductor has open.
const JOURNAL: &str = "journal.jsonl";
/// Time between the request to end and the kill: `multicard run` ends its runs first.
const GRACE: Duration = Duration::from_secs(10);

/// Ends the process of this machine that conducts a session under an earlier path, and returns it; `None` if there is none. The session's
/// next conductor takes over the runs that go on. A conductor whose session was renamed cannot be given orders instead, since it cannot
/// record what it does.
///
/// # Errors
/// With `keeps_runs`, the process is a `multicard run`, whose active runs would end with it. It goes on.
pub fn end_conductor_of_renamed(session: &Path, keeps_runs: bool) -> Result<Option<Process>, ConductError> {
    if keeps_runs && let Some(host) = conductors(session, &[HOST]).first() {
        return Err(ConductError::EndsRuns { session: session.to_owned(), process: host.pid });
    }
    let (found, left) = processes::end(|| conductors(session, &COMMANDS), GRACE, || ());
    Ok(found.into_iter().find(|process| !left.contains(process)))
}

/// The present folder of the session that a process conducts, if it is not this folder; `None` also if it cannot be found.
pub(super) fn moved_to(process: Pid, folder: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(format!("/proc/{}/fd", process.as_raw_nonzero())).ok()?;
    // The link of a file that is open for writing has this permission (proc_pid_fd(5)). The process may also read journals of other sessions.
    let is_written = |file: &Path| file.symlink_metadata().is_ok_and(|about| about.mode() & 0o200 != 0);
    let journal_folder = |file: PathBuf| {
        // A journal that was deleted is at no path, and the paths of a container are others.
        let path = fs::read_link(&file).ok().filter(|path| path.ends_with(JOURNAL) && is_written(&file))?;
        let is_there = inode(&path).is_ok_and(|found| inode(&file).is_ok_and(|open| open == found));
        path.parent().filter(|_| is_there).map(Path::to_owned)
    };
    let folders: Vec<PathBuf> = files.flatten().filter_map(|file| journal_folder(file.path())).collect();
    let is_here = |found: &PathBuf| inode(folder).is_ok_and(|own| inode(found).is_ok_and(|found| found == own));
    if folders.iter().any(is_here) { None } else { folders.into_iter().next() }
}

/// The processes that conduct the session in this folder by one of these commands of multicard, and were started for another path.
fn conductors(session: &Path, commands: &[&str]) -> Vec<Process> {
    let own_name = processes::own_name();
    let others = processes::living().into_iter().filter(|process| process.pid != std::process::id());
    let conducts = |pid: u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let command = line.split(|byte| *byte == 0).nth(1).unwrap_or_default();
        commands.iter().any(|one| one.as_bytes() == command)
            && has_open(pid, session)
            && listens_elsewhere(pid, session)
    };
    others.filter(|process| process.name == own_name && conducts(process.pid)).collect()
}

/// Whether a conductor listens, but not where clients of this path look for it. The command line does not tell that: it may name a relative
/// path, and the folder in which the process was started may have been renamed, too.
fn listens_elsewhere(pid: u32, session: &Path) -> bool {
    let Ok(socket) = socket_path(session) else { return false };
    let sockets = sockets(pid);
    !sockets.is_empty() && sockets.iter().all(|name| Some(&**name) != socket.file_name())
}

/// The names of the files of a process's sockets that are named like those of conductors.
fn sockets(pid: u32) -> Vec<OsString> {
    let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let open: Vec<PathBuf> = links.filter_map(|link| fs::read_link(link.path()).ok()).collect();
    // The process may have a network of its own, which other processes do not list.
    let listed = fs::read(format!("/proc/{pid}/net/unix")).unwrap_or_default();
    let listed = String::from_utf8_lossy(&listed);
    // Each line ends with the socket's number and the path that it was given (proc_net_unix(5)).
    let bound = listed.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(6);
        Some((words.next()?, Path::new(words.next()?)))
    });
    let named = bound.filter(|(_, path)| path.extension().is_some_and(|ending| ending == SOCKET_ENDING));
    let own = named.filter(|(number, _)| open.contains(&PathBuf::from(format!("socket:[{number}]"))));
    own.filter_map(|(_, path)| path.file_name().map(OsString::from)).collect()
}

/// Whether a process has a folder open.
fn has_open(pid: u32, folder: &Path) -> bool {
    let Ok(wanted) = inode(folder) else { return false };
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.map(|file| file.path()).any(|file| inode(&file).is_ok_and(|found| found == wanted))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs::File;
    use std::io::Read as _;
    use std::os::unix::net::UnixListener;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_conductor_listens_elsewhere_only_once_the_path_of_its_session_is_another_one() {
        let home = tempfile::tempdir().unwrap();
        let [before, after] = ["before", "after"].map(|name| home.path().join(name).join("session"));
        fs::create_dir_all(&before).unwrap();
        let socket = home.path().join(socket_path(&before).unwrap().file_name().unwrap());
        let _listening = UnixListener::bind(&socket).unwrap();
        let own = std::process::id();
        assert!(!listens_elsewhere(own, &before));
        fs::rename(home.path().join("before"), home.path().join("after")).unwrap();
        assert!(listens_elsewhere(own, &after));
        // A process that has no socket may have been started for any path.
        let mut deaf = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
        let is_elsewhere = listens_elsewhere(deaf.id(), &after);
        deaf.kill().unwrap();
        deaf.wait().unwrap();
        assert!(!is_elsewhere);
    }

    #[test]
    fn a_process_conducts_the_session_whose_journal_it_writes_and_not_one_that_it_reads() {
        let home = tempfile::tempdir().unwrap();
        let [own, other] = ["own", "other"].map(|name| home.path().join(name));
        fs::create_dir(&own).unwrap();
        fs::create_dir(&other).unwrap();
        let journal = own.join(JOURNAL);
        fs::write(&journal, "").unwrap();
        // A process of its own, because other tests have journals open, too.
        let holds = |redirection: &str, journal: &Path| {
            let script = format!("exec 3{redirection}\"$1\"; echo; exec sleep 600");
            let mut process = Command::new("sh");
            process.args(["-c", &script, "sh"]).arg(journal).stdin(Stdio::null()).stdout(Stdio::piped());
            let mut process = process.spawn().unwrap();
            process.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
            let found = moved_to(Pid::from_child(&process), &other);
            process.kill().unwrap();
            process.wait().unwrap();
            found
        };
        assert_eq!(holds(">>", &journal), Some(own.canonicalize().unwrap()));
        assert_eq!(holds("<", &journal), None);
    }

    #[test]
    fn a_process_that_has_a_folder_open_is_found_by_the_folders_new_name_and_not_by_another_at_the_old_one() {
        let home = tempfile::tempdir().unwrap();
        let [old, new] = ["old", "new"].map(|name| home.path().join(name));
        fs::create_dir(&old).unwrap();
        let _open = File::open(&old).unwrap();
        fs::rename(&old, &new).unwrap();
        fs::create_dir(&old).unwrap();
        assert!(has_open(std::process::id(), &new));
        assert!(!has_open(std::process::id(), &old));
    }
}
