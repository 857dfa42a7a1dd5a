//! A conductor that does not answer: its process, found through the socket, its state according to the kernel, and how to end it.

use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::processes::{self, Doing};

/// A conductor that has sent nothing for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silent {
    session: PathBuf,
    /// Its process, and the process's state; `None` for a conductor on another machine.
    process: Option<(Pid, Option<Doing>)>,
    /// How long it has sent nothing.
    silence: Duration,
}

impl Silent {
    pub(super) fn new(session: &Path, process: Option<Pid>, silence: Duration) -> Self {
        let doing = |process: Pid| (process, processes::doing(process.as_raw_nonzero().get().cast_unsigned()));
        Self { session: session.to_owned(), process: process.map(doing), silence }
    }

    /// Whether its process is stopped and stays silent until it is continued.
    pub fn is_stopped(&self) -> bool {
        matches!(self.process, Some((_, Some(Doing::Stopped | Doing::Traced))))
    }

    /// Its process; `None` for a conductor on another machine.
    pub fn process(&self) -> Option<i32> {
        self.process.map(|(process, _)| process.as_raw_nonzero().get())
    }

    /// Kills its process. Its runs go on, and the session's next conductor takes them over.
    ///
    /// # Errors
    /// It is on another machine, or the system refuses.
    pub fn end(&self) -> io::Result<()> {
        let Some((process, _)) = self.process else {
            return Err(io::Error::other("it is on another machine"));
        };
        Ok(kill_process(process, Signal::KILL)?)
    }
}

impl fmt::Display for Silent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (session, silence_s) = (self.session.display(), self.silence.as_secs());
        write!(f, "{session}: its conductor ")?;
        let Some((process, doing)) = self.process else {
            return write!(f, "has sent nothing for {silence_s} s");
        };
        let process = process.as_raw_nonzero();
        let doing_text = doing.map_or("which has ended", Doing::words);
        write!(f, "(process {process}, {doing_text}) has sent nothing for {silence_s} s: ")?;
        if self.is_stopped() {
            write!(f, "continue it with `kill -CONT {process}`")?;
        } else {
            write!(f, "wait for it")?;
        }
        write!(f, ", or end it and all runs with `multicard stop --now {session}`")
    }
}

/// The process that listens at the other end of a stream. `None` if it is this process, because this process then relays a connection to
/// another machine.
pub(super) fn listener(stream: &UnixStream) -> Option<Pid> {
    let process = rustix::net::sockopt::socket_peercred(stream).ok()?.pid;
    (process != rustix::process::getpid()).then_some(process)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::process::Command;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_silent_conductor_is_told_by_its_process_and_what_that_does() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let process = Pid::from_child(&child);
        let silent = || Silent::new(Path::new("/s"), Some(process), Duration::from_secs(10));
        let start = Instant::now();
        kill_process(process, Signal::STOP).unwrap();
        while !silent().is_stopped() {
            assert!(start.elapsed() < Duration::from_secs(60));
        }
        let number = child.id();
        assert_eq!(
            silent().to_string(),
            format!(
                "/s: its conductor (process {number}, which is stopped) has sent nothing for 10 s: continue it with `kill -CONT {number}`, or end it and all runs with `multicard stop --now /s`"
            )
        );
        silent().end().unwrap();
        child.wait().unwrap();
        assert!(silent().to_string().contains("which has ended"), "{}", silent());
        let far = Silent::new(Path::new("ssh://node/s"), None, Duration::from_secs(60));
        assert_eq!(far.to_string(), "ssh://node/s: its conductor has sent nothing for 60 s");
    }

    #[test]
    fn a_process_that_answers_itself_as_one_that_relays_a_connection_does_is_no_conductor() {
        let (stream, _relayed) = UnixStream::pair().unwrap();
        assert_eq!(listener(&stream), None);
    }
}
