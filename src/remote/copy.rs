//! The copy of a session: its files as they arrive.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

use super::feed::{LOG_ENDING, MOST_FILE_BYTES, SESSION, has_place};
use crate::foreign;
use crate::store::index_path;

/// What a node sent has no place in a copy. Another line to the same copy may have begun it anew; then it fits next time.
fn refused(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// The folder that a session is copied into. Several lines may write the same copy: they write the same bytes at the same places.
pub(super) struct Copy {
    folder: PathBuf,
}

impl Copy {
    /// A copy in this folder, which only the user may enter.
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Writes bytes of a file. Whatever a node sends, files stay in their places, and are no longer than what was sent of them.
    pub(super) fn write(&self, path: &str, offset: u64, new: bool, bytes: &[u8]) -> io::Result<()> {
        if !has_place(path) {
            return Err(refused(format!("{path:?} is no file of a session")));
        }
        let file = self.folder.join(path);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        if path == SESSION {
            // Readers find all of it or none.
            let arriving = self.folder.join(format!(".{SESSION}-{}", std::process::id()));
            fs::write(&arriving, bytes)?;
            return fs::rename(&arriving, &file);
        }
        if !path.ends_with(LOG_ENDING) && offset.saturating_add(bytes.len() as u64) > MOST_FILE_BYTES {
            return Err(refused(format!("{path:?} is longer than a node sends")));
        }
        let file = foreign::open_ours_with(&file, File::options().create(true).truncate(false).write(true))?;
        if new {
            file.set_len(0)?;
        }
        // The place of what follows a hole is nobody's: logs grow at their ends.
        if offset > file.metadata()?.len() {
            return Err(refused(format!("{path:?} has a hole before byte {offset}")));
        }
        file.write_all_at(bytes, offset)
    }

    /// Forgets everything.
    pub(super) fn reset(&self) -> io::Result<()> {
        let remove = |path: PathBuf| match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        let index = index_path(&self.folder);
        let beside = |ending: &str| PathBuf::from(format!("{}{ending}", index.display()));
        // First what makes it a session.
        remove(self.folder.join(SESSION))?;
        remove(self.folder.join(super::feed::JOURNAL))?;
        [index.clone(), beside("-wal"), beside("-shm")].into_iter().try_for_each(remove)?;
        match fs::remove_dir_all(self.folder.join("runs")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}
