//! The conductor of a session whose folder was renamed. Its socket is named after the old path, so that clients of the new path do not
//! reach it; its process is found by the folder, which every conductor has open.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use crate::processes::{self, Process, inode};

/// Commands that conduct a session.
const COMMANDS: [&str; 2] = ["conduct", "run"];
/// Time between the request to end and the kill: `multicard run` ends its runs first.
const GRACE: Duration = Duration::from_secs(10);

/// Ends the process of this machine that conducts a session under an earlier path, and returns it; `None` if there is none. The session's
/// next conductor takes over the runs that go on.
pub fn end_conductor_of_renamed(session: &Path) -> Option<Process> {
    let own_name = processes::own_name();
    let find = || -> Vec<Process> {
        let others = processes::living().into_iter().filter(|process| process.pid != std::process::id());
        others.filter(|process| process.name == own_name && conducts(process.pid, session)).collect()
    };
    let (found, left) = processes::end(find, GRACE, || ());
    found.into_iter().find(|process| !left.contains(process))
}

/// Whether a process of multicard conducts the session in this folder, and was started for another path: one that was started for this
/// path can be reached by it, and is not ended here.
fn conducts(pid: u32, session: &Path) -> bool {
    let process = Path::new("/proc").join(pid.to_string());
    let line = fs::read(process.join("cmdline")).unwrap_or_default();
    let words: Vec<&[u8]> = line.split(|byte| *byte == 0).filter(|word| !word.is_empty()).collect();
    let is_session = |path: &Path| inode(path).is_ok_and(|found| inode(session).is_ok_and(|own| own == found));
    let is_named = words.iter().any(|word| is_session(&process.join("cwd").join(OsStr::from_bytes(word))));
    let is_conductor = words.get(1).is_some_and(|command| COMMANDS.iter().any(|one| one.as_bytes() == *command));
    is_conductor && !is_named && has_open(pid, session)
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
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_conductor_is_ended_as_that_of_a_renamed_session_only_if_it_was_started_for_another_path() {
        let home = tempfile::tempdir().unwrap();
        let [old, new] = ["old", "new"].map(|name| home.path().join(name));
        fs::create_dir(&old).unwrap();
        // Its command line is `sh conduct old`, and it has the folder open, as a conductor has.
        fs::write(home.path().join("conduct"), "exec 3< \"$1\"; echo ready; read end").unwrap();
        let mut conductor = Command::new("sh");
        conductor.args(["conduct", "old"]).current_dir(home.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut conductor = conductor.spawn().unwrap();
        BufReader::new(conductor.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
        assert!(has_open(conductor.id(), &old));
        let before = conducts(conductor.id(), &old);
        fs::rename(&old, &new).unwrap();
        let after = conducts(conductor.id(), &new);
        drop(conductor.stdin.take());
        conductor.wait().unwrap();
        assert_eq!((before, after), (false, true));
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
