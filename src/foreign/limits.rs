//! Advice about the limits of a process and of its user, derived from the system's error.

use std::fs::File;
use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// Advice about an error that a limit caused: a full disk, too many files or processes, a file that is too long.
pub fn advice(error: &io::Error) -> Option<&'static str> {
    match Errno::from_raw_os_error(error.raw_os_error()?) {
        Errno::NOSPC | Errno::DQUOT => Some("free space on that disk and continue"),
        Errno::MFILE => Some("this process has reached its limit of open files: raise it (ulimit -n)"),
        Errno::NFILE => Some("the system has reached its limit of open files: end other programs"),
        Errno::AGAIN => {
            Some("this user has reached the limit of processes and threads: end some, or raise the limit (ulimit -u)")
        }
        Errno::FBIG => Some(LONG_FILE),
        Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS => Some(
            "if its file system has no file locks (NFS without lockd has none), use a folder on another one, such as a local disk",
        ),
        _ => None,
    }
}

/// Whether an error says that a disk is full, or the part of it that this user may use.
pub fn is_full_disk(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Advice if a limit keeps this process from opening as many files as a database and its readers have open at once.
///
/// A failed open is explained after other threads may have closed files, so more files are tried than the failed
/// open needed.
pub fn no_more_files() -> Option<&'static str> {
    const NEEDED: usize = 16;
    let opened: io::Result<Vec<File>> = (0..NEEDED).map(|_| File::open("/")).collect();
    opened.err().and_then(|error| advice(&error))
}

/// Advice about a process or a thread that could not be started.
pub fn start_advice(error: &io::Error) -> &'static str {
    advice(error).unwrap_or("check that the file exists and is executable")
}

/// Advice about a file that must not grow any further.
pub const LONG_FILE: &str = "files have reached the limit of their size: raise it (ulimit -f)";

/// The largest size of a file that this process may write; `None` without a limit.
pub fn most_file_bytes() -> Option<u64> {
    getrlimit(Resource::Fsize).current
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_told_by_its_name() {
        let limits = [
            (Errno::MFILE, "ulimit -n"),
            (Errno::AGAIN, "ulimit -u"),
            (Errno::FBIG, "ulimit -f"),
            (Errno::NOSPC, "free space"),
            (Errno::NOLCK, "no file locks"),
        ];
        for (error, words) in limits {
            assert!(advice(&error.into()).unwrap().contains(words), "{error}");
        }
        assert_eq!(advice(&Errno::NOENT.into()), None);
        let is_full = [Errno::NOSPC, Errno::DQUOT, Errno::FBIG].map(|error| is_full_disk(&error.into()));
        assert_eq!(is_full, [true, true, false]);
        assert_eq!(advice(&io::Error::other("words")), None, "it has no number");
    }
}
