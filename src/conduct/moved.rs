//! Where a session is now whose conductor listens at the path that the session had before.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

use crate::processes::inode;

/// The session's journal, which its conductor has open.
const JOURNAL: &str = "journal.jsonl";

/// The present folder of the session that a process conducts, if it is not this folder; `None` also if it cannot be found.
pub(super) fn moved_to(process: Pid, folder: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(format!("/proc/{}/fd", process.as_raw_nonzero())).ok()?;
    let journal_folder = |file: PathBuf| {
        // A journal that was deleted is at no path, and the paths of a container are others.
        let path = fs::read_link(&file).ok().filter(|path| path.ends_with(JOURNAL))?;
        let is_there = inode(&path).is_ok_and(|found| inode(&file).is_ok_and(|open| open == found));
        path.parent().filter(|_| is_there).map(Path::to_owned)
    };
    let folders: Vec<PathBuf> = files.flatten().filter_map(|file| journal_folder(file.path())).collect();
    let is_here = |found: &PathBuf| inode(folder).is_ok_and(|own| inode(found).is_ok_and(|found| found == own));
    if folders.iter().any(is_here) { None } else { folders.into_iter().next() }
}
