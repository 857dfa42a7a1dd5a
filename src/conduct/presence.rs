//! Which sessions of this machine have runs now. While its session has runs, a conductor keeps a locked file beside its socket, so that
//! users of other sessions learn that their runs will be slower.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use super::socket::{own_folder, socket_path};
use crate::foreign;

/// Ending of the files.
const ENDING: &str = "runs";
/// The most bytes of a file that are read. A longer path is not read to its end.
const MOST_BYTES: u64 = 1 << 16;

/// A session that has runs. Its file is locked while this value lives. A file that a killed conductor left behind is not locked, and is
/// ignored.
pub(super) struct Presence {
    path: PathBuf,
    file: File,
}

impl Presence {
    /// Announces that a session has runs. `None` if the file cannot be written; runs do not depend on it.
    pub(super) fn of(session: &Path) -> Option<Self> {
        let path = socket_path(session).ok()?.with_extension(ENDING);
        own_folder(&path).ok()?;
        Self::at(path, session).ok().flatten()
    }

    fn at(path: PathBuf, session: &Path) -> io::Result<Option<Self>> {
        let file = foreign::open_ours_with(&path, File::options().create(true).truncate(false).read(true).write(true))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        file.set_len(0)?;
        let session = session.canonicalize().unwrap_or_else(|_| session.to_owned());
        (&file).write_all(format!("{}\n{}", machine(), session.display()).as_bytes())?;
        Ok(Some(Self { path, file }))
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        let _ = self.file.unlock();
    }
}

/// The folders of this user's other sessions (all except `session`) that have runs on this machine now.
pub fn other_sessions_with_runs(session: Option<&Path>) -> Vec<PathBuf> {
    // The file is compared by its name, because a folder can be written in several ways.
    let own = session.and_then(|session| socket_path(session).ok());
    let any = socket_path(Path::new("/")).ok();
    let Some(folder) = any.as_deref().and_then(Path::parent) else { return Vec::new() };
    present(folder, own.map(|path| path.with_extension(ENDING)).as_deref())
}

fn present(folder: &Path, own: Option<&Path>) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let files = entries.flatten().map(|entry| entry.path());
    let files = files.filter(|path| path.extension().is_some_and(|ending| ending == ENDING) && Some(&**path) != own);
    let mut sessions: Vec<PathBuf> = files.filter_map(|path| of_file(&path)).collect();
    sessions.sort();
    sessions
}

/// The session that a file belongs to, if the session's conductor holds the file's lock.
fn of_file(path: &Path) -> Option<PathBuf> {
    let file = foreign::open_ours(path).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {}
        Ok(()) | Err(TryLockError::Error(_)) => return None,
    }
    let mut text = String::new();
    file.take(MOST_BYTES).read_to_string(&mut text).ok()?;
    // Several machines may share a home folder.
    let (on, session) = text.split_once('\n')?;
    (on == machine()).then(|| PathBuf::from(session))
}

fn machine() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn sessions_with_runs_are_known_to_others_until_they_end_and_what_a_killed_conductor_left_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
        let file = |name: &str| folder.path().join(name).with_extension(ENDING);
        let own = Presence::at(file("a"), &first).unwrap().unwrap();
        let other = Presence::at(file("b"), &second).unwrap().unwrap();
        assert_eq!(present(folder.path(), Some(&file("a"))), std::slice::from_ref(&second));
        assert_eq!(present(folder.path(), None), [first.clone(), second.clone()]);
        assert!(Presence::at(file("b"), &second).unwrap().is_none(), "one conductor says it");
        fs::write(file("killed"), format!("{}\n/somewhere", machine())).unwrap();
        drop(other);
        assert!(present(folder.path(), Some(&file("a"))).is_empty());
        assert_eq!(present(folder.path(), None), [first], "of the killed one nothing is told");
        drop(own);
        assert!(!file("a").exists());
    }

    #[test]
    fn a_session_of_another_machine_that_shares_the_folder_is_not_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a").with_extension(ENDING);
        let presence = Presence::at(path.clone(), Path::new("/far")).unwrap();
        fs::write(&path, "another-machine\n/far").unwrap();
        assert!(present(folder.path(), None).is_empty());
        drop(presence);
    }
}
