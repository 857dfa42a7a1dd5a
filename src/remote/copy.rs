//! The copy of a session on this machine: writes its files as they arrive.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

use super::feed::{LOG_ENDING, MOST_FILE_BYTES, SESSION, has_place};
use crate::foreign;
use crate::store::index_path;

/// The error if data from a node do not fit into a copy. Another connection may have restarted the same copy; then they fit next time.
fn refused(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// The folder that a session is copied into. Several connections may write the same copy, since they write the same bytes at the same
/// positions.
pub(super) struct Copy {
    folder: PathBuf,
}

impl Copy {
    /// A copy in this folder, which only the user may enter.
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Writes bytes of a file. Whatever a node sends, files stay within the copy's folder, and a file is never longer than the bytes that
    /// were sent for it.
    pub(super) fn write(&self, path: &str, offset: u64, new: bool, bytes: &[u8]) -> io::Result<()> {
        if !has_place(path) {
            return Err(refused(format!("{path:?} is not a file of a session")));
        }
        let file = self.folder.join(path);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        if path == SESSION {
            // Readers must find all of it or nothing.
            let arriving = self.folder.join(format!(".{SESSION}-{}", std::process::id()));
            fs::write(&arriving, bytes)?;
            return fs::rename(&arriving, &file);
        }
        if !path.ends_with(LOG_ENDING) && offset.saturating_add(bytes.len() as u64) > MOST_FILE_BYTES {
            return Err(refused(format!("{path:?} is longer than any file that a node sends")));
        }
        let file = foreign::open_ours_with(&file, File::options().create(true).truncate(false).write(true))?;
        if new {
            file.set_len(0)?;
        }
        // Bytes after a gap have no valid position, since logs only grow at their end.
        if offset > file.metadata()?.len() {
            return Err(refused(format!("{path:?} has a gap before byte {offset}")));
        }
        file.write_all_at(bytes, offset)
    }

    /// Deletes the copied files.
    pub(super) fn reset(&self) -> io::Result<()> {
        let remove = |path: PathBuf| match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        let index = index_path(&self.folder);
        let beside = |ending: &str| PathBuf::from(format!("{}{ending}", index.display()));
        // The file that makes the folder a session is deleted first.
        remove(self.folder.join(SESSION))?;
        remove(self.folder.join(super::feed::JOURNAL))?;
        [index.clone(), beside("-wal"), beside("-shm")].into_iter().try_for_each(remove)?;
        match fs::remove_dir_all(self.folder.join("runs")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}
