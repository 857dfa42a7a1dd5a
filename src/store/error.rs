//! What can go wrong with a session folder, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// Why a session could not be made, opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another writer has the session.
    #[error("{folder}: another multicard is writing this session; close it, or open the session for reading only")]
    InUse {
        /// The session.
        folder: PathBuf,
    },
    /// There is no session.
    #[error("{folder}: no session is here (session.toml is missing); check the path")]
    NotASession {
        /// What was opened.
        folder: PathBuf,
    },
    /// There is a session already.
    #[error("{folder}: a session is here already; open it, or choose another folder")]
    Exists {
        /// What should have become one.
        folder: PathBuf,
    },
    /// The folder holds something else.
    #[error("{folder}: not empty (it holds {found:?}) and not a session; choose an empty or a new folder")]
    NotEmpty {
        /// What should have become a session.
        folder: PathBuf,
        /// The name of something in it.
        found: String,
    },
    /// A file or a line of a newer multicard.
    #[error("{place}: {what} version {found} is newer than {known}, the newest known here; update multicard")]
    Newer {
        /// The file, or file and line.
        place: String,
        /// `session` or `protocol`.
        what: &'static str,
        /// Its version.
        found: u64,
        /// The newest known here.
        known: u32,
    },
    /// session.toml cannot be understood.
    #[error("{file}: {reason}; correct it or take it from a backup")]
    Malformed {
        /// Which file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A run's id that cannot be a folder's name.
    #[error("run id {run:?}: must be a plain folder name of letters, digits, `-`, `_` and `.`")]
    RunId {
        /// The id.
        run: String,
    },
    /// The file system refused.
    #[error("{doing} {path}: {source}; {}", io_advice(.source))]
    Io {
        /// What was tried, such as `writing`.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// The index failed. The logs hold everything all the same.
    #[error("index {path}: {source}; {}", index_advice(.source, .path))]
    Index {
        /// The index.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// There is no index to read, and none can be made because a writer has the session.
    #[error(
        "{path}: the index is missing or of another version while the session is in use; close the other multicard"
    )]
    NoIndex {
        /// Where it should be.
        path: PathBuf,
    },
    /// The writer thread is gone.
    #[error("{folder}: the writer thread has ended; close the session and open it again, its logs are complete")]
    WriterGone {
        /// The session.
        folder: PathBuf,
    },
}

impl StoreError {
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }

    pub(super) fn index(path: &Path) -> impl FnOnce(rusqlite::Error) -> Self {
        move |source| Self::Index { path: path.to_owned(), source }
    }

    /// Whether the index's file is damaged or no SQLite file at all, so that only making it anew helps.
    pub(super) fn is_corrupt_index(&self) -> bool {
        let Self::Index { source, .. } = self else { return false };
        matches!(source.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
    }
}

fn io_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free space on that disk and go on",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "allow writing there, or choose another folder with --session"
        }
        io::ErrorKind::NotFound => "check the path",
        _ => "check the path and the disk, or choose another folder with --session",
    }
}

const FULL_DISK: &str = "there is no room left: free space on that disk and go on, the index then catches up";

/// Whether the file system that a file is on has less room than SQLite wants for its smallest files.
fn has_no_room(path: &Path) -> bool {
    let folder = path.parent().unwrap_or(path);
    rustix::fs::statvfs(folder).is_ok_and(|found| found.f_bavail.saturating_mul(found.f_frsize) < 1 << 20)
}

fn index_advice(error: &rusqlite::Error, path: &Path) -> &'static str {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => FULL_DISK,
        // Of the file that readers and the writer share, SQLite only says that reading or writing failed.
        Some(ErrorCode::SystemIoFailure) if has_no_room(path) => FULL_DISK,
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            "allow writing there, or choose another folder with --session"
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another program holds the index, close it; the index then catches up"
        }
        _ => "make it anew with `multicard session rebuild`, the logs hold everything",
    }
}
