//! Errors of exporting and importing sessions.

use std::io;
use std::path::{Path, PathBuf};

use crate::store::StoreError;

/// Reason why a session was not exported or imported. No partial file or folder is left behind.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The folder or the archive holds no session.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The destination exists already.
    #[error("{path}: this file or folder exists already and is not overwritten; choose another name or move it away")]
    Exists {
        /// The destination.
        path: PathBuf,
    },
    /// An archive's name does not end in `.zip`.
    #[error("{path}: an archive is a ZIP file; give it a name that ends in .zip")]
    Name {
        /// The name.
        path: PathBuf,
    },
    /// The archive would be in the folder of the session that it holds.
    #[error(
        "{path}: this is in the folder of the session itself, {session}, and the next archive would hold this one; choose a place outside \
             that folder"
    )]
    Inside {
        /// The archive.
        path: PathBuf,
        /// The session's folder.
        session: PathBuf,
    },
    /// The session holds an entry that is neither a file nor a folder.
    #[error("{path}: a link or a special file, which cannot be archived; replace it by the file itself")]
    Special {
        /// The entry.
        path: PathBuf,
    },
    /// Another import into the same folder is in progress.
    #[error("{path}: another process is importing a session into this folder; wait for it, or choose another folder")]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// The archive is damaged.
    #[error("{archive}: {reason}; copy the archive again from its origin")]
    Damaged {
        /// The archive.
        archive: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The archive is of a newer version.
    #[error("{archive}: archive version {found} is newer than {known}, the newest supported; update multicard")]
    Newer {
        /// The archive.
        archive: PathBuf,
        /// Its version.
        found: u64,
        /// The newest supported version.
        known: u32,
    },
    /// The disk is too full.
    #[error(
        "{path}: the session needs {needed_bytes} bytes, but only {free_bytes} are free; free some space, or choose another disk"
    )]
    NoRoom {
        /// The destination.
        path: PathBuf,
        /// Bytes that the session takes.
        needed_bytes: u64,
        /// Free bytes.
        free_bytes: u64,
    },
    /// A file operation failed.
    #[error("{doing} {path}: {source}; check the path, the disk's space and the permissions")]
    Io {
        /// The operation, such as `writing`.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The caller cancelled.
    #[error("stopped; nothing was left behind")]
    Cancelled,
}

impl ArchiveError {
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }

    /// Converts an error of creating a file or folder at a path that must not exist yet.
    pub(super) fn placing(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::AlreadyExists => Self::Exists { path: path.to_owned() },
            _ => Self::io("writing", path)(source),
        }
    }

    pub(super) fn damaged(archive: &Path, reason: impl Into<String>) -> Self {
        Self::Damaged { archive: archive.to_owned(), reason: reason.into() }
    }

    /// Converts an error of the ZIP writer.
    pub(super) fn writing(archive: &Path, error: zip::result::ZipError) -> Self {
        Self::io("writing", archive)(match error {
            zip::result::ZipError::Io(source) => source,
            other => io::Error::other(other),
        })
    }

    /// Converts an error of the ZIP reader.
    pub(super) fn zip(archive: &Path, error: zip::result::ZipError) -> Self {
        match error {
            zip::result::ZipError::Io(source) if source.raw_os_error().is_some() => {
                Self::io("reading", archive)(source)
            }
            other => Self::damaged(archive, format!("not a whole ZIP archive ({other})")),
        }
    }
}
