//! Errors of the session folder.

use std::borrow::Cow;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use rustix::fs::{Access, access};
use rustix::io::Errno;

use crate::foreign;

/// Reason why a session could not be created, opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process is writing the session.
    #[error("{folder}: {holder} is writing this session: {}", holder_advice(*is_other_user))]
    InUse {
        /// The session.
        folder: PathBuf,
        /// The process that writes it, as far as the lock's file says.
        holder: String,
        /// Whether that process belongs to another user, whose conductor answers nobody else.
        is_other_user: bool,
    },
    /// The folder is not a session.
    #[error("{folder}: not a session (session.toml is missing); check the path")]
    NotASession {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder is a copy of a session elsewhere.
    #[error("{folder}: a copy of {origin}, where the session is written: use that address instead")]
    Copy {
        /// The folder.
        folder: PathBuf,
        /// The session's address.
        origin: String,
    },
    /// The path of the folder is not UTF-8.
    #[error("the path of a session must be UTF-8, and {folder:?} is not: rename the folder, or choose another one")]
    NotUtf8 {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder holds a session already.
    #[error("{folder}: already a session; open it, or choose another folder")]
    Exists {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder holds other files.
    #[error("{folder}: not empty (it holds {found:?}) and not a session; choose an empty or a new folder")]
    NotEmpty {
        /// The folder.
        folder: PathBuf,
        /// The name of one of them.
        found: String,
    },
    /// A file or a line is of a newer version.
    #[error("{place}: {what} version {found} is newer than {known}, the newest supported; update multicard")]
    Newer {
        /// The file, or file and line.
        place: String,
        /// `session` or `protocol`.
        what: &'static str,
        /// Its version.
        found: u64,
        /// The newest supported version.
        known: u32,
    },
    /// `session.toml` is malformed.
    #[error("{file}: {reason}; correct it or take it from a backup")]
    Malformed {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A run's id is not a valid folder name.
    #[error("run id {run:?}: must be a plain folder name of letters, digits, `-`, `_` and `.`")]
    RunId {
        /// The id.
        run: String,
    },
    /// A file operation failed.
    #[error("{doing} {path}: {source}; {}", io_advice(.source, .path))]
    Io {
        /// The operation, such as `writing`.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The index failed; the logs are complete.
    #[error("index {path}: {source}; {}", index_advice(.source, .path))]
    Index {
        /// The index file.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// There is no index to read, and it cannot be built because another process is writing the session or building the index.
    #[error(
        "{path}: the index is missing or has another version, and another process is writing the session or building its index: wait for \
             it, or end it with `multicard stop`"
    )]
    NoIndex {
        /// Path of the index.
        path: PathBuf,
    },
    /// The writer thread has ended.
    #[error("{folder}: the writer thread has ended; close the session and open it again: its logs are complete")]
    WriterGone {
        /// The session.
        folder: PathBuf,
    },
}

/// The operation of [`StoreError::Io`] where a log is written.
pub(super) const WRITING: &str = "writing";
/// The operation of [`StoreError::Io`] where a lock is taken.
pub(super) const LOCKING: &str = "locking";

impl StoreError {
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }

    pub(super) fn index(path: &Path) -> impl FnOnce(rusqlite::Error) -> Self {
        move |source| Self::Index { path: path.to_owned(), source }
    }

    /// Whether a log that was being written is gone: deleted, replaced or moved away. Unlike space on a full disk, it may never come back.
    pub fn is_log_gone(&self) -> bool {
        matches!(self, Self::Io { doing: WRITING, source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Whether a file system refused a lock because it has none.
    pub(super) fn is_without_locks(&self) -> bool {
        let Self::Io { doing: LOCKING, source, .. } = self else { return false };
        let errno = source.raw_os_error().map(Errno::from_raw_os_error);
        matches!(errno, Some(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS))
    }

    /// Whether the index file is damaged or not an SQLite file, so that it has to be rebuilt.
    pub(super) fn is_corrupt_index(&self) -> bool {
        let Self::Index { source, .. } = self else { return false };
        matches!(source.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
    }
}

fn holder_advice(is_other_user: bool) -> &'static str {
    if is_other_user {
        "only read the session for now, or act as that user"
    } else {
        "attach to it (`multicard attach`), end it (`multicard stop`), or only read the session for now"
    }
}

fn io_advice(error: &io::Error, path: &Path) -> Cow<'static, str> {
    if let Some(advice) = foreign::advice(error) {
        return advice.into();
    }
    match error.kind() {
        io::ErrorKind::PermissionDenied => rights_advice(path),
        io::ErrorKind::ReadOnlyFilesystem => GRANT_ACCESS.into(),
        io::ErrorKind::NotFound => "check the path".into(),
        _ => "check the path and the disk, or choose another folder with --session".into(),
    }
}

const GRANT_ACCESS: &str = "grant write access, or choose another folder with --session";

/// The advice about a path that this process may not use: whose file or folder forbids it, and what to do.
fn rights_advice(path: &Path) -> Cow<'static, str> {
    let forbids = |place: &Path, about: &Metadata| {
        let enter = if about.is_dir() { Access::EXEC_OK } else { Access::empty() };
        let wanted = Access::READ_OK | Access::WRITE_OK | enter;
        matches!(access(place, wanted), Err(Errno::ACCESS | Errno::PERM))
    };
    // A file may be missing or hidden in a folder that this process may not enter: then a folder above it forbids its use.
    let places = path.ancestors().filter_map(|place| Some((place, place.symlink_metadata().ok()?)));
    let Some((place, about)) = places.take(2).find(|(place, about)| forbids(place, about)) else {
        return GRANT_ACCESS.into();
    };
    let name = if place == path { "it".to_owned() } else { place.display().to_string() };
    let (owner, user) = (about.uid(), rustix::process::geteuid().as_raw());
    if owner == user {
        return format!(
            "{name} is yours: make it readable and writable (`chmod u+rwX`), or choose another folder with --session"
        )
        .into();
    }
    let owner = if owner == 0 { "root".to_owned() } else { format!("the user with id {owner}") };
    format!(
        "{name} belongs to {owner}: ask for access to it, make it yours as root (`chown {user}`), or choose another folder with --session"
    )
    .into()
}

const FULL_DISK: &str = "the disk is full: free some space and continue; the index is then updated from the logs";

/// Whether a file of SQLite's cannot grow by the limit of this process.
fn is_limited(path: &Path) -> bool {
    // As much as SQLite adds at once: a page, and the shared-memory file's part.
    const GROWTH_BYTES: u64 = 64 << 10;
    let beside = |ending: &str| PathBuf::from(format!("{}{ending}", path.display()));
    let sizes = ["", "-wal", "-shm"].map(|ending| beside(ending).metadata().map_or(0, |about| about.len()));
    let most_bytes = foreign::most_file_bytes().unwrap_or(u64::MAX);
    sizes.into_iter().any(|bytes| bytes + GROWTH_BYTES > most_bytes)
}

fn index_advice(error: &rusqlite::Error, path: &Path) -> Cow<'static, str> {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => FULL_DISK.into(),
        // For the shared-memory file, SQLite reports only that reading or writing failed.
        Some(ErrorCode::SystemIoFailure) if foreign::has_no_room(path.parent().unwrap_or(path)) => FULL_DISK.into(),
        Some(ErrorCode::SystemIoFailure) if is_limited(path) => foreign::LONG_FILE.into(),
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            // SQLite does not say why it cannot open a file.
            foreign::no_more_files().map_or_else(|| rights_advice(path), Cow::from)
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another program has locked the index; close it, and the index is then updated from the logs".into()
        }
        _ => "rebuild it with `multicard session rebuild`; the logs are complete".into(),
    }
}
