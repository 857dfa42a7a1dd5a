//! The folders `/proc`, `/sys` and `/etc`, or stand-ins for tests.

use std::fs;
use std::path::{Path, PathBuf};

/// The folders that telemetry reads.
#[derive(Clone, Debug)]
pub(super) struct Roots {
    pub proc: PathBuf,
    pub sys: PathBuf,
    pub etc: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self::below(Path::new("/"))
    }
}

impl Roots {
    /// The same folders below another root.
    pub fn below(folder: &Path) -> Self {
        Self { proc: folder.join("proc"), sys: folder.join("sys"), etc: folder.join("etc") }
    }
}

/// The text of a small kernel file; `None` if it cannot be read. Invalid UTF-8 is replaced, as process names may contain
/// any bytes.
pub(super) fn read_text(path: &Path) -> Option<String> {
    fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Writes a file below a stand-in root, creating its folders.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}
