//! What to do about the limits of a process and of its user, by the system's error.

use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// What to do about an error that a limit caused: a full disk, too many files or processes, too long a file.
pub fn advice(error: &io::Error) -> Option<&'static str> {
    match Errno::from_raw_os_error(error.raw_os_error()?) {
        Errno::NOSPC | Errno::DQUOT => Some("free space on that disk and continue"),
        Errno::MFILE => Some("this process may have no more files open: raise its limit (ulimit -n)"),
        Errno::NFILE => Some("the system may have no more files open: end other programs"),
        Errno::AGAIN => {
            Some("this user may start no more processes and threads: end some, or raise the limit (ulimit -u)")
        }
        Errno::FBIG => Some(LONG_FILE),
        _ => None,
    }
}

/// What to do about a process or a thread that could not be started.
pub fn start_advice(error: &io::Error) -> &'static str {
    advice(error).unwrap_or("check that the file exists and is executable")
}

/// What to do about a file that may not grow.
pub const LONG_FILE: &str = "files may not grow any further: raise the limit of their size (ulimit -f)";

/// The most bytes that a file may have that this process writes; none without a limit.
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
        ];
        for (error, words) in limits {
            assert!(advice(&error.into()).unwrap().contains(words), "{error}");
        }
        assert_eq!(advice(&Errno::NOENT.into()), None);
        assert_eq!(advice(&io::Error::other("words")), None, "it has no number");
    }
}
