//! What the runs of a session know about the set-ups of a folder, or of all folders that a text with placeholders stands for: which one was
//! done last there, and whether runs still use what it made.
//!
//! Commands that run in one folder may have different set-ups, which make the same files, and a set-up with placeholders may differ from
//! cell to cell. Runs whose set-ups differ must not use the same files at the same time: each run keeps a lock until its program has ended,
//! which others of its set-up share, and a run of another set-up waits for it. Runs that come later queue behind the run that waits, because
//! it would otherwise wait as long as runs of the last set-up overlap.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Folder in a session with the state of its set-ups.
const FOLDER: &str = "setup";

/// The state that all runs in one folder share, as one of these runs sees it.
pub(super) struct SetUp {
    /// Locked by the run that begins next, as long as it waits.
    queue: File,
    /// Whether the run has other nodes. It then begins without queuing: the run at the head of the queue may wait for the end of the other
    /// nodes, which wait for this one.
    has_other_nodes: bool,
    /// Locked by the run that compares its set-up with the last one, until it has executed its own.
    turn: File,
    /// Locked while what the last set-up made is used, by any number of runs, or replaced, by one run.
    made: File,
    /// Says which set-up was done last. It is missing while one is executed, and after one that failed.
    done: PathBuf,
    /// The first line of `done`: the set-up that this run shares with others.
    shared: String,
    /// The second line of `done`: the set-up of this run, with the values that only this run has.
    own: String,
}

impl SetUp {
    /// The state of the folder that a program runs in. The other parts are texts of which any change makes another set-up: `shared` is the
    /// set-up and the place where it runs, as runs with the same levels have it, `own` the set-up as this run has it. `nodes` is the number
    /// of the run's nodes.
    ///
    /// # Errors
    /// The session cannot be written.
    pub fn open(session: &Path, program_folder: &Path, shared: &str, own: &str, nodes: u32) -> io::Result<Self> {
        let folder = session.join(FOLDER);
        fs::create_dir_all(&folder)?;
        let name = digest(program_folder.as_os_str().as_encoded_bytes());
        // Network file systems give a lock that is shared only to readers, and one that is not shared only to writers.
        let open = |ending: &str| {
            let path = folder.join(format!("{name}.{ending}"));
            File::options().read(true).write(true).create(true).truncate(false).open(path)
        };
        // The results of a set-up are not moved along with its session.
        let shared = digest(format!("{} {shared}", session.display()));
        let done = folder.join(format!("{name}.last"));
        let (queue, turn, made) = (open("queue")?, open("turn")?, open("made")?);
        Ok(Self { queue, has_other_nodes: nodes > 1, turn, made, done, shared, own: digest(own) })
    }

    /// Tries to begin: it is this run's turn, and no run uses what another set-up made. A run that cannot begin yet keeps its place at the
    /// head of the queue, if it has got there.
    ///
    /// # Errors
    /// Other runs are in the way, or the file system has no locks.
    pub fn try_begin(&self) -> Result<(), TryLockError> {
        // On Linux, locking again what this file has locked changes nothing.
        match self.queue.try_lock() {
            Err(TryLockError::WouldBlock) if self.has_other_nodes => {}
            queued => queued?,
        }
        self.turn.try_lock()?;
        let begun = if self.last().lines().next() == Some(self.shared.as_str()) {
            self.made.try_lock_shared()
        } else {
            self.made.try_lock()
        };
        let left = if begun.is_ok() { &self.queue } else { &self.turn };
        left.unlock().map_err(TryLockError::Error)?;
        begun
    }

    /// Lets other runs begin, after [`Self::try_begin`] has succeeded.
    fn step_back(&self) -> io::Result<()> {
        self.made.unlock()?;
        self.turn.unlock()
    }

    /// Whether the last set-up was that of this run.
    pub fn is_done(&self) -> bool {
        self.last() == self.mark()
    }

    /// Notes that the set-up is about to be executed: until it has succeeded, none counts as done.
    ///
    /// # Errors
    /// The session cannot be written.
    pub fn start(&self) -> io::Result<()> {
        match fs::remove_file(&self.done) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Notes that the set-up has succeeded.
    ///
    /// # Errors
    /// The session cannot be written.
    pub fn finish(&self) -> io::Result<()> {
        fs::write(&self.done, self.mark())
    }

    /// Lets other runs begin. What the set-up made stays as it is until the returned file is closed.
    ///
    /// # Errors
    /// The file system has no locks.
    pub fn into_use(self) -> io::Result<File> {
        // Nobody else can take the lock meanwhile, because it is still this run's turn.
        self.made.unlock()?;
        self.made.lock_shared()?;
        Ok(self.made)
    }

    fn last(&self) -> String {
        fs::read_to_string(&self.done).unwrap_or_default()
    }

    fn mark(&self) -> String {
        format!("{}\n{}\n", self.shared, self.own)
    }
}

/// Tries to begin in all of these states, as [`SetUp::try_begin`] does in each. A run that must wait in one of them is in nobody's way in
/// those before it: another node of a run for whose end it waits may still have to begin there.
///
/// # Errors
/// As for [`SetUp::try_begin`].
pub(super) fn try_begin_all(states: &[SetUp]) -> Result<(), TryLockError> {
    for (place, state) in states.iter().enumerate() {
        if let Err(error) = state.try_begin() {
            states[..place].iter().try_for_each(SetUp::step_back).map_err(TryLockError::Error)?;
            return Err(error);
        }
    }
    Ok(())
}

/// Sixteen digits that stand for a text.
pub(super) fn digest(text: impl AsRef<[u8]>) -> String {
    Sha256::digest(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn begins(set_up: &SetUp) -> bool {
        match set_up.try_begin() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => false,
            Err(TryLockError::Error(error)) => panic!("{error}"),
        }
    }

    fn open(session: &Path, shared: &str, own: &str) -> SetUp {
        SetUp::open(session, Path::new("/programs"), shared, own, 1).unwrap()
    }

    /// The state of all folders that a text with placeholders stands for.
    fn open_written(session: &Path, shared: &str) -> SetUp {
        SetUp::open(session, Path::new("/programs/{level}"), shared, shared, 1).unwrap()
    }

    /// The same as one of two nodes of a run sees it.
    fn open_node(session: &Path, shared: &str, own: &str) -> SetUp {
        SetUp::open(session, Path::new("/programs"), shared, own, 2).unwrap()
    }

    /// The set-up of a run, which it executes unless it is done.
    fn set_up(session: &Path, shared: &str, own: &str) -> (bool, File) {
        executed(open(session, shared, own))
    }

    fn executed(set_up: SetUp) -> (bool, File) {
        assert!(begins(&set_up), "{}", set_up.mark());
        let is_done = set_up.is_done();
        if !is_done {
            set_up.start().unwrap();
            set_up.finish().unwrap();
        }
        (is_done, set_up.into_use().unwrap())
    }

    #[test]
    fn a_set_up_is_done_again_after_another_one_and_after_one_that_did_not_succeed() {
        let session = tempfile::tempdir().unwrap();
        let is_done = |shared: &str| set_up(session.path(), shared, shared).0;
        assert_eq!(["O1", "O1", "O2", "O1", "O1"].map(is_done), [false, true, false, false, true]);
        let failing = open(session.path(), "O2", "O2");
        assert!(begins(&failing));
        failing.start().unwrap();
        drop(failing);
        assert!(!is_done("O1"), "the failed set-up may have replaced a part");
        // Another folder has a state of its own.
        let other = SetUp::open(session.path(), Path::new("/elsewhere"), "O1", "O1", 1).unwrap();
        assert!(begins(&other) && !other.is_done());
        let moved = tempfile::tempdir().unwrap();
        fs::rename(session.path().join(FOLDER), moved.path().join(FOLDER)).unwrap();
        assert!(!set_up(moved.path(), "O1", "O1").0, "what it made was not moved");
    }

    #[test]
    fn a_run_waits_for_those_that_use_what_another_set_up_made_and_not_for_those_of_its_own() {
        let session = tempfile::tempdir().unwrap();
        let (_, first) = set_up(session.path(), "O1", "O1 first");
        let (is_done, second) = set_up(session.path(), "O1", "O1 second");
        assert!(!is_done);
        let other = open(session.path(), "O2", "O2");
        assert!(!begins(&other));
        drop(first);
        assert!(!begins(&other));
        drop(second);
        assert!(begins(&other));
        let late = open(session.path(), "O1", "O1");
        assert!(!begins(&late), "the set-up is being executed");
    }

    #[test]
    fn a_run_that_cannot_begin_in_all_of_its_states_is_in_nobodys_way_in_the_others() {
        let session = tempfile::tempdir().unwrap();
        let (_, used) = set_up(session.path(), "O1", "O1");
        let waiting = [open_written(session.path(), "O2"), open(session.path(), "O2", "O2")];
        assert!(matches!(try_begin_all(&waiting), Err(TryLockError::WouldBlock)));
        let other = open_written(session.path(), "O3");
        assert!(begins(&other));
        drop(used);
        assert!(try_begin_all(&waiting).is_err());
        drop(other);
        assert!(try_begin_all(&waiting).is_ok() && !begins(&open_written(session.path(), "O3")));
    }

    #[test]
    fn runs_that_come_later_queue_behind_one_that_waits_for_the_end_of_those_of_another_set_up() {
        let session = tempfile::tempdir().unwrap();
        let (_, used) = set_up(session.path(), "O1", "O1");
        let other = open(session.path(), "O2", "O2");
        assert!(!begins(&other));
        let late = open(session.path(), "O1", "O1");
        assert!(!begins(&late), "it would use the files for longer");
        drop(used);
        assert!(!begins(&late) && begins(&other));
        // The next one is at the head of the queue.
        assert!(!begins(&late));
        other.finish().unwrap();
        let used = other.into_use().unwrap();
        assert!(!begins(&late) && !begins(&open(session.path(), "O2", "O2")));
        drop(used);
        assert!(begins(&late));
        // A run that is ended while it waits leaves the queue.
        late.finish().unwrap();
        let _used = late.into_use().unwrap();
        let ended = open(session.path(), "O2", "O2");
        assert!(!begins(&ended));
        drop(ended);
        assert!(begins(&open(session.path(), "O1", "O1")));
    }

    #[test]
    fn a_node_of_a_run_begins_even_if_a_run_of_another_set_up_waits_for_the_end_of_its_other_node() {
        let session = tempfile::tempdir().unwrap();
        let (_, first) = executed(open_node(session.path(), "O1", "O1 node 0"));
        let other = open(session.path(), "O2", "O2");
        assert!(!begins(&other));
        let (is_done, second) = executed(open_node(session.path(), "O1", "O1 node 1"));
        assert!(!is_done && !begins(&other));
        drop((first, second));
        // A node waits at the head of the queue like any run.
        let used = executed(other).1;
        let node = open_node(session.path(), "O1", "O1 node 0");
        assert!(!begins(&node) && !begins(&open(session.path(), "O2", "O2")));
        drop(used);
        assert!(begins(&node));
    }
}
