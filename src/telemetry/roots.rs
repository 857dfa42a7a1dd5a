//! Where the kernel's files are: `/proc`, `/sys` and `/etc`, or a folder that stands for them.

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
    /// The same folders below another one.
    pub fn below(folder: &Path) -> Self {
        Self { proc: folder.join("proc"), sys: folder.join("sys"), etc: folder.join("etc") }
    }
}

/// The text of a small kernel file; `None` where it cannot be read. A process may name itself in any bytes, so what is
/// not UTF-8 is replaced.
pub(super) fn read_text(path: &Path) -> Option<String> {
    fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Writes a file of a stand-in for the kernel's, with its folders.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}
