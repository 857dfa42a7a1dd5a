//! Files of a session that appear when they are whole.

use std::fs;
use std::path::{Path, PathBuf};

use super::TraceError;

/// A file that is being written beside its place, and is removed unless it is kept.
pub(super) struct Unfinished {
    pub path: PathBuf,
    place: PathBuf,
}

impl Unfinished {
    /// For a file that takes the place of another one, if there is one.
    pub fn replacing(place: &Path) -> Self {
        let mut path = place.as_os_str().to_owned();
        path.push(format!(".{}", std::process::id()));
        let path = PathBuf::from(path);
        // An earlier process with the same id may have left one.
        let _ = fs::remove_file(&path);
        Self { path, place: place.to_owned() }
    }

    /// Moves the file to its place.
    pub fn keep(self) -> Result<(), TraceError> {
        fs::rename(&self.path, &self.place).map_err(|source| TraceError::Io { file: self.place.clone(), source })
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After it was moved there is none.
        let _ = fs::remove_file(&self.path);
    }
}
