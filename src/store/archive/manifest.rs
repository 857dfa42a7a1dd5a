//! The manifest of an archive, and the names that it may contain.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::ArchiveError;
use crate::store::imported;

/// Version of archives written here, and the newest that can be read.
pub(super) const ARCHIVE_VERSION: u32 = 1;
/// File name of the manifest.
pub(super) const MANIFEST: &str = "manifest.json";
/// Upper bound of a manifest's size: sessions of 50,000 runs take less.
pub(super) const MANIFEST_LIMIT_BYTES: u64 = 1 << 26;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub version: u32,
    /// Program that wrote it, such as `multicard 0.1.0`.
    pub program: String,
    /// Creation time: RFC 3339, UTC.
    pub created: String,
    pub files: Vec<FileEntry>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct FileEntry {
    /// Path within the session folder, separated by `/`.
    pub path: String,
    pub bytes: u64,
    /// SHA-256 in hexadecimal digits.
    pub sha256: String,
}

impl Manifest {
    /// Parses a manifest and checks everything that can be checked without the files.
    pub(super) fn parse(text: &[u8], archive: &Path) -> Result<Self, ArchiveError> {
        #[derive(Deserialize)]
        struct VersionOnly {
            version: u64,
        }
        let damaged = |reason: String| ArchiveError::damaged(archive, format!("{MANIFEST}: {reason}"));
        // The version comes first: the rest of a newer manifest may differ.
        let header: VersionOnly = serde_json::from_slice(text).map_err(|error| damaged(error.to_string()))?;
        if header.version > u64::from(ARCHIVE_VERSION) {
            let archive = archive.to_owned();
            return Err(ArchiveError::Newer { archive, found: header.version, known: ARCHIVE_VERSION });
        }
        let manifest: Self = serde_json::from_slice(text).map_err(|error| damaged(error.to_string()))?;
        let mut seen = BTreeSet::new();
        for file in &manifest.files {
            if let Some(why) = rejection(&file.path) {
                return Err(damaged(format!("the name {:?} {why}", file.path)));
            }
            if !seen.insert(file.path.as_str()) {
                return Err(damaged(format!("{:?} is listed twice", file.path)));
            }
        }
        let inside = |path: &&&str| path.match_indices('/').any(|(at, _)| seen.contains(&path[..at]));
        if let Some(path) = seen.iter().find(inside) {
            return Err(damaged(format!("{path:?} lies inside another entry that is a file")));
        }
        if !seen.contains("session.toml") {
            return Err(damaged("it contains no session.toml, so it is not a session".to_owned()));
        }
        Ok(manifest)
    }
}

/// The reason why a name is rejected; `None` if it is allowed.
pub(super) fn rejection(path: &str) -> Option<&'static str> {
    let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    if path.len() > 4096 {
        return Some("is too long");
    }
    if path.starts_with('/') || !path.split('/').all(plain) || path.contains(['\\', '\0', ':']) {
        return Some("leads out of the session's folder or is not a plain path");
    }
    if path == MANIFEST || is_left_out(path) {
        return Some("is not one of a session's logs");
    }
    None
}

/// Whether archives leave out a path: the index, the lock, unfinished files, and the file that marks a session as imported.
pub(super) fn is_left_out(path: &str) -> bool {
    path.starts_with("session.sqlite")
        || path == "session.lock"
        || path == imported::FILE
        || path == "session.toml.new"
        || path.ends_with(".json.tmp")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_of_a_later_version_is_named_as_such_whatever_it_says_and_an_earlier_one_is_read() {
        let parse = |text: &str| Manifest::parse(text.as_bytes(), Path::new("a.zip"));
        let later = parse(r#"{"version":2,"entries":{}}"#);
        assert!(matches!(later, Err(ArchiveError::Newer { found: 2, known: 1, .. })), "{later:?}");
        let files = r#"[{"path":"session.toml","bytes":1,"sha256":""}]"#;
        for version in [0, 1] {
            let text = format!(r#"{{"version":{version},"program":"p","created":"c","files":{files}}}"#);
            assert!(parse(&text).is_ok_and(|manifest| manifest.files.len() == 1), "{version}");
        }
    }
}
