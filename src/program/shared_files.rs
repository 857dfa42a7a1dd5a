//! Which files of readings other runs of the session read at the same time. A run takes all that is new in such a file for its own.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::set_up::digest;

/// Folder in a session with the registers of files that are outside of the runs' folders.
const FOLDER: &str = "readers";

/// The files outside of a run's folder from which its readings are read, as long as the run reads them; an error for a file that it could
/// not enter.
#[derive(Default)]
pub(super) struct SharedFiles(Vec<io::Result<Entry>>);

/// A run's entry in the register of a file.
struct Entry {
    file: PathBuf,
    /// The register, to which each run appends a byte when it begins to read the file.
    register: PathBuf,
    /// Its length in bytes before this run's own entry.
    before: u64,
    /// Whether another run was reading the file when this one began.
    was_read: bool,
    /// Locked as long as this run reads the file; runs share the lock.
    _reading: File,
}

impl SharedFiles {
    /// Enters a run as a reader of these files. Files in its own folder are left out.
    pub fn enter(session: &Path, run_folder: &Path, files: BTreeSet<PathBuf>) -> Self {
        let own = run_folder.canonicalize().unwrap_or_else(|_| run_folder.to_owned());
        let outside = files.into_iter().filter(|file| !real(file).starts_with(&own));
        Self(outside.map(|file| Entry::new(session, file)).collect())
    }

    /// A warning about each file that another run has read since this one began, or was reading then.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        self.0.iter().filter_map(|entry| match entry {
            Ok(entry) => entry.is_shared().then(|| {
                format!(
                    "another run read {} at the same time: this run may have taken readings of that run for its own: give each run a \
                     file of its own, in {{run_folder}}",
                    entry.file.display()
                )
            }),
            Err(error) => Some(format!(
                "cannot tell whether another run read the same file of readings at the same time: {error}: check the session's disk"
            )),
        })
    }
}

impl Entry {
    fn new(session: &Path, file: PathBuf) -> io::Result<Self> {
        let folder = session.join(FOLDER);
        fs::create_dir_all(&folder)?;
        let register = folder.join(digest(real(&file).as_os_str().as_encoded_bytes()));
        // Network file systems give a lock that is not shared only to writers, and one that is shared only to readers.
        let mut reading = File::options().read(true).append(true).create(true).open(&register)?;
        // In this order, each of two runs learns of the other: a run whose lock this one does not find makes its entry later.
        let before = reading.metadata()?.len();
        let was_read = match reading.try_lock() {
            Ok(()) => false,
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Error(error)) => return Err(error),
        };
        if !was_read {
            reading.unlock()?;
        }
        reading.lock_shared()?;
        reading.write_all(b"\n")?;
        Ok(Self { file, register, before, was_read, _reading: reading })
    }

    fn is_shared(&self) -> bool {
        // Network file systems tell the length as others see it when a file is opened.
        let now = || File::open(&self.register).and_then(|register| register.metadata()).map(|about| about.len());
        self.was_read || now().is_ok_and(|now| now > self.before + 1)
    }
}

/// The path of a file, which need not exist yet, without symbolic links before its name.
fn real(file: &Path) -> PathBuf {
    let folder = file.parent().and_then(|folder| folder.canonicalize().ok());
    folder.zip(file.file_name()).map_or_else(|| file.to_owned(), |(folder, name)| folder.join(name))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn enter(session: &Path, run: &str, file: &str) -> SharedFiles {
        let files = BTreeSet::from([session.join(file)]);
        SharedFiles::enter(session, &session.join("runs").join(run), files)
    }

    fn is_shared(files: &SharedFiles) -> bool {
        files.warnings().any(|warning| warning.starts_with("another run read "))
    }

    #[test]
    fn runs_that_read_a_file_at_the_same_time_learn_of_each_other_and_others_do_not() {
        let session = tempfile::tempdir().unwrap();
        let session = session.path();
        let first = enter(session, "1", "results.jsonl");
        assert!(!is_shared(&first));
        let second = enter(session, "2", "results.jsonl");
        drop(enter(session, "3", "other.jsonl"));
        assert!(is_shared(&first) && is_shared(&second));
        // The second one learns of it even if the first one has ended.
        drop(first);
        assert!(is_shared(&second));
        drop(second);
        let third = enter(session, "3", "results.jsonl");
        assert!(!is_shared(&third), "the others have ended");
    }

    #[test]
    fn a_file_is_known_by_whatever_path_and_one_in_the_runs_own_folder_is_left_out() {
        let session = tempfile::tempdir().unwrap();
        let session = session.path();
        fs::create_dir_all(session.join("runs/1")).unwrap();
        let first = enter(session, "1", "results.jsonl");
        let second = enter(session, "2", "runs/../results.jsonl");
        assert!(is_shared(&first) && is_shared(&second));
        let own = enter(session, "1", "runs/1/results.jsonl");
        let other = enter(session, "2", "runs/1/results.jsonl");
        assert!(!is_shared(&own) && !is_shared(&other));
        let above = ["1", "2"].map(|run| enter(session, run, "runs/1/../all.jsonl"));
        assert!(above.iter().all(is_shared));
    }

    #[test]
    fn a_register_that_cannot_be_written_is_warned_of() {
        let session = tempfile::tempdir().unwrap();
        fs::write(session.path().join(FOLDER), "").unwrap();
        let unknown: Vec<String> = enter(session.path(), "1", "results.jsonl").warnings().collect();
        assert!(unknown.len() == 1 && unknown[0].starts_with("cannot tell whether another run read"), "{unknown:?}");
    }
}
