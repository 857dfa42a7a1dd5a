//! What can go wrong with an archive of a session, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use crate::store::StoreError;

/// Why a session was not exported or imported. Nothing half-made is left then.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The folder is no session, or the archive holds none.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Something is where the archive or the session should be.
    #[error("{path}: something is there already and is not overwritten; choose another name or move it away")]
    Exists {
        /// Where.
        path: PathBuf,
    },
    /// An archive's name does not end in `.zip`.
    #[error("{path}: an archive is a ZIP file; give it a name that ends in .zip")]
    Name {
        /// The name.
        path: PathBuf,
    },
    /// The session holds something that is neither a file nor a folder.
    #[error("{path}: a link or a special file, which an archive does not keep; put the file itself there")]
    Special {
        /// What.
        path: PathBuf,
    },
    /// Another import into the same folder is under way.
    #[error("{path}: another multicard is importing a session there; wait for it, or choose another folder")]
    InUse {
        /// Into what.
        path: PathBuf,
    },
    /// The archive cannot be understood.
    #[error("{archive}: {reason}; take the archive from where it was made once more")]
    Damaged {
        /// The archive.
        archive: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// An archive of a newer multicard.
    #[error("{archive}: archive version {found} is newer than {known}, the newest known here; update multicard")]
    Newer {
        /// The archive.
        archive: PathBuf,
        /// Its version.
        found: u64,
        /// The newest known here.
        known: u32,
    },
    /// There is not enough room.
    #[error(
        "{path}: the session takes {needed_bytes} bytes and {free_bytes} are free; free some, or choose another disk"
    )]
    NoRoom {
        /// Where to.
        path: PathBuf,
        /// What it takes.
        needed_bytes: u64,
        /// What is free.
        free_bytes: u64,
    },
    /// The file system refused.
    #[error("{doing} {path}: {source}; check the path, the disk's space and the permissions")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// Whoever asked for it wants it no longer.
    #[error("stopped; nothing was left behind")]
    Cancelled,
}

impl ArchiveError {
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }

    pub(super) fn damaged(archive: &Path, reason: impl Into<String>) -> Self {
        Self::Damaged { archive: archive.to_owned(), reason: reason.into() }
    }

    /// What the ZIP reader said.
    pub(super) fn zip(archive: &Path, error: zip::result::ZipError) -> Self {
        match error {
            zip::result::ZipError::Io(source) if source.raw_os_error().is_some() => {
                Self::io("reading", archive)(source)
            }
            other => Self::damaged(archive, format!("not a whole ZIP archive ({other})")),
        }
    }
}
