//! Files of a session that appear only when they are complete.

use std::fs;
use std::path::{Path, PathBuf};

use super::TraceError;

/// A file that is being written next to its final path, and is removed unless it is kept.
pub(super) struct Unfinished {
    pub path: PathBuf,
    place: PathBuf,
}

impl Unfinished {
    /// For a file that replaces an existing one, if there is one.
    pub fn replacing(place: &Path) -> Self {
        let mut path = place.as_os_str().to_owned();
        path.push(format!(".{}", std::process::id()));
        let path = PathBuf::from(path);
        // An earlier process with the same id may have left a file.
        let _ = fs::remove_file(&path);
        Self { path, place: place.to_owned() }
    }

    /// Moves the file to its final path.
    pub fn keep(self) -> Result<(), TraceError> {
        fs::rename(&self.path, &self.place).map_err(|source| TraceError::Io { file: self.place.clone(), source })
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After the move, there is no file to remove.
        let _ = fs::remove_file(&self.path);
    }
}
