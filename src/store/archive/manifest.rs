//! The manifest of an archive: what is in it, and which names are let in.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::ArchiveError;

/// The version of archives that is written here, and the newest that is read.
pub(super) const ARCHIVE_VERSION: u32 = 1;
/// The manifest's own name.
pub(super) const MANIFEST: &str = "manifest.json";
/// A manifest of millions of files is shorter.
pub(super) const MANIFEST_LIMIT_BYTES: u64 = 1 << 28;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub version: u32,
    /// What wrote it, such as `multicard 0.1.0`.
    pub program: String,
    /// RFC 3339, UTC.
    pub created: String,
    pub files: Vec<FileEntry>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct FileEntry {
    /// In the session folder, with `/` between names.
    pub path: String,
    pub bytes: u64,
    /// In hexadecimal digits.
    pub sha256: String,
}

impl Manifest {
    /// Reads a manifest and checks all that can be checked without the files.
    pub(super) fn parse(text: &[u8], archive: &Path) -> Result<Self, ArchiveError> {
        #[derive(Deserialize)]
        struct Said {
            version: u64,
        }
        let damaged = |reason: String| ArchiveError::damaged(archive, format!("{MANIFEST}: {reason}"));
        // The version first: the rest of a newer manifest may look different.
        let said: Said = serde_json::from_slice(text).map_err(|error| damaged(error.to_string()))?;
        if said.version > u64::from(ARCHIVE_VERSION) {
            let archive = archive.to_owned();
            return Err(ArchiveError::Newer { archive, found: said.version, known: ARCHIVE_VERSION });
        }
        let manifest: Self = serde_json::from_slice(text).map_err(|error| damaged(error.to_string()))?;
        let mut seen = BTreeSet::new();
        for file in &manifest.files {
            if let Some(why) = refused(&file.path) {
                return Err(damaged(format!("the name {:?} {why}", file.path)));
            }
            if !seen.insert(file.path.as_str()) {
                return Err(damaged(format!("{:?} stands twice in it", file.path)));
            }
        }
        let inside = |path: &&&str| path.match_indices('/').any(|(at, _)| seen.contains(&path[..at]));
        if let Some(path) = seen.iter().find(inside) {
            return Err(damaged(format!("{path:?} lies in what is itself a file")));
        }
        if !seen.contains("session.toml") {
            return Err(damaged("it holds no session.toml, so no session".to_owned()));
        }
        Ok(manifest)
    }
}

/// Why a name is not let in; none where it is.
pub(super) fn refused(path: &str) -> Option<&'static str> {
    let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    if path.len() > 4096 {
        return Some("is too long");
    }
    if path.starts_with('/') || !path.split('/').all(plain) || path.contains(['\\', '\0', ':']) {
        return Some("leads out of the session's folder or is no plain path");
    }
    if path == MANIFEST || is_left_out(path) {
        return Some("is none of a session's logs");
    }
    None
}

/// What an archive of a session does not hold: its index, its lock, what is being written.
pub(super) fn is_left_out(path: &str) -> bool {
    path.starts_with("session.sqlite")
        || path == "session.lock"
        || path == "session.toml.new"
        || path.ends_with(".json.tmp")
}
