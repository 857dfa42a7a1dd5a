//! The conductor of a session whose folder was renamed. Its socket is named after the old path, so that clients of the new path do not
//! reach it; its process is found by the folder, which every conductor has open.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use crate::processes::{self, Process};

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

/// Whether a process of multicard conducts the session in this folder, whatever the folder's name was before.
fn conducts(pid: u32, session: &Path) -> bool {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command = words.split(|byte| *byte == 0).nth(1).unwrap_or_default();
    COMMANDS.iter().any(|one| one.as_bytes() == command) && has_open(pid, session)
}

/// Whether a process has a folder open.
fn has_open(pid: u32, folder: &Path) -> bool {
    let inode = |path: &Path| path.metadata().ok().map(|about| (about.dev(), about.ino()));
    let Some(wanted) = inode(folder) else { return false };
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.map(|file| file.path()).any(|file| inode(&file) == Some(wanted))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs::File;

    use super::*;

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
