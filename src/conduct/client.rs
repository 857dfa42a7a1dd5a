//! A client of a conductor: finds it or starts it, sends orders, receives news.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::ConductError;
use super::lines::{self, Lines};
use super::message::{Conducting, Hello, Letter, News, Order};
use super::renamed::moved_to;
use super::silent::{Silent, listener};
use super::socket::{SOCKET_ENDING, connect, own_folder, socket_path};
use crate::foreign;
use crate::launch;

/// The option of `multicard conduct` that detaches it from the terminal.
pub const DETACHED_OPTION: &str = "--detached";
/// The line with which a detached conductor announces that clients can connect.
pub const READY: &str = "ready";
/// The line with which it announces that another process holds the session's lock.
pub const LOCKED: &str = "locked";

/// How long to wait for a process that holds a session's lock: it must accept clients or end within this time.
const LOCK_LIMIT: Duration = Duration::from_secs(10);
/// How long an order may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// How long a conductor on this machine may stay silent: its greeting and the state of active runs come at once.
pub const SILENCE_LIMIT: Duration = Duration::from_secs(10);
/// How long a client waits for the first news after the greeting.
const SERVED_LIMIT: Duration = Duration::from_secs(3);
/// How long a conductor on another machine may take for its greeting, since it may have to be started first.
const FAR_LIMIT: Duration = Duration::from_secs(60);
/// Time between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Longest log that is read of a conductor that did not start.
const MOST_LOG_BYTES: u64 = 1 << 20;
/// Ending of the logs of conductors.
const LOG_ENDING: &str = "log";
/// The number of logs that are kept of conductors that have ended.
const LOGS_KEPT: usize = 20;

/// A connection to the conductor of a session.
pub struct Client {
    session: PathBuf,
    /// The conductor's process, if it is another process of this machine.
    process: Option<Pid>,
    conducting: Conducting,
    lines: Lines,
    /// News that arrived while this client waited to be served.
    first: Option<News>,
}

/// The sending half of a connection.
pub struct Orders {
    stream: UnixStream,
}

impl Client {
    /// Connects to the conductor of a session; `None` if there is none. With `live`, the news includes events and samples of runs.
    ///
    /// # Errors
    /// Those of [`stream`]; or the conductor has another version or stays silent.
    pub fn connect(session: &Path, live: bool) -> Result<Option<Self>, ConductError> {
        match stream(session)? {
            Some(stream) => Self::over(session, stream, live),
            None => Ok(None),
        }
    }

    /// Like [`Client::connect`], but starts a conductor process if there is none; that process creates the session if it does not exist.
    ///
    /// # Errors
    /// The errors of [`Client::connect`]; another process writes the session; or the conductor process does not start, or ends again and
    /// again.
    pub fn connect_or_start(session: &Path, live: bool) -> Result<Self, ConductError> {
        until_served(|| Self::over(session, stream_or_start(session)?, live))
    }

    /// A client for a stream to the conductor of a session; `None` if the conductor is about to end.
    ///
    /// # Errors
    /// The conductor belongs to another version, stays silent, or sends something unreadable.
    pub fn over(session: &Path, stream: UnixStream, live: bool) -> Result<Option<Self>, ConductError> {
        use io::ErrorKind::{ConnectionReset, TimedOut, WouldBlock};
        let process = listener(&stream);
        let limit = if process.is_some() { SILENCE_LIMIT } else { FAR_LIMIT };
        // A long plan does not fit into the socket's buffer if the conductor is stopped.
        let limited = stream.set_read_timeout(Some(limit)).and_then(|()| stream.set_write_timeout(Some(FAR_LIMIT)));
        limited.map_err(|error| ConductError::Garbled(error.to_string()))?;
        let mut lines = Lines::new(stream);
        let conducting = match lines.next::<Conducting>() {
            Ok(Some(conducting)) => conducting,
            Ok(None) => return Ok(None),
            Err(error) => match error.kind() {
                ConnectionReset => return Ok(None),
                WouldBlock | TimedOut => return Err(ConductError::Silent(Silent::new(session, process, limit))),
                _ => return Err(ConductError::Garbled(error.to_string())),
            },
        };
        if !conducting.is_ours() {
            return Err(ConductError::OtherVersion { session: session.to_owned(), conducting });
        }
        match lines::write(lines.stream(), &Hello::new(live)) {
            Ok(()) => {
                let session = session.to_owned();
                let served = first_news(&mut lines)?;
                Ok(served.map(|first| Self { session, process, conducting, lines, first }))
            }
            // It is about to end, or has sent the reason why it cannot serve this client.
            Err(_) => match lines.next() {
                Ok(Some(News::Problem(message))) => Err(ConductError::Refused(message)),
                _ => Ok(None),
            },
        }
    }

    /// The conductor's process and version.
    pub fn conducting(&self) -> &Conducting {
        &self.conducting
    }

    /// Describes the conductor, which has sent nothing for a while.
    pub fn silent(&self, silence: Duration) -> Silent {
        Silent::new(&self.session, self.process, silence)
    }

    /// A handle that sends orders while this one waits for news.
    ///
    /// # Errors
    /// The process has too many files open.
    pub fn orders(&self) -> Result<Orders, ConductError> {
        let stream = self.lines.stream().try_clone();
        stream.map(|stream| Orders { stream }).map_err(|error| {
            let advice = foreign::advice(&error).unwrap_or("try again");
            ConductError::Refused(format!("cannot give orders to the session's conductor: {error}: {advice}"))
        })
    }

    /// Gives an order, waits until it is executed, and disconnects.
    ///
    /// # Errors
    /// The conductor refuses it, has ended, or does not answer for a while.
    pub fn order(mut self, order: Order) -> Result<(), ConductError> {
        const NUMBER: u64 = 1;
        let begun = Instant::now();
        self.orders()?.send(NUMBER, order)?;
        while begun.elapsed() < ANSWER_LIMIT {
            match self.next(Some(RETRY_INTERVAL))? {
                Some(News::Answer { number: NUMBER, outcome }) => {
                    return outcome.map(|_| ()).map_err(ConductError::Refused);
                }
                _ => continue,
            }
        }
        Err(ConductError::Silent(self.silent(begun.elapsed())))
    }

    /// The next news; `None` if nothing arrives within `patience`.
    ///
    /// # Errors
    /// The conductor has ended, or sends something unreadable.
    pub fn next(&mut self, patience: Option<Duration>) -> Result<Option<News>, ConductError> {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, Interrupted, TimedOut, WouldBlock};
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        let patience = patience.map(|patience| patience.max(Duration::from_millis(1)));
        self.lines.stream().set_read_timeout(patience).map_err(|_| ConductError::Ended)?;
        match self.lines.next() {
            Ok(Some(news)) => Ok(Some(news)),
            Ok(None) => Err(ConductError::Ended),
            Err(error) => match error.kind() {
                WouldBlock | TimedOut | Interrupted => Ok(None),
                ConnectionReset | BrokenPipe => Err(ConductError::Ended),
                _ => Err(ConductError::Garbled(error.to_string())),
            },
        }
    }
}

/// Repeats `attempt` until it returns a client. A conductor can end before it serves a client; the next attempt then finds or starts
/// another conductor.
///
/// # Errors
/// Those of `attempt`; [`ConductError::Ended`] if no attempt succeeds within [`LOCK_LIMIT`].
pub fn until_served(attempt: impl FnMut() -> Result<Option<Client>, ConductError>) -> Result<Client, ConductError> {
    until_served_within(LOCK_LIMIT, attempt)
}

fn until_served_within(
    limit: Duration,
    mut attempt: impl FnMut() -> Result<Option<Client>, ConductError>,
) -> Result<Client, ConductError> {
    let begun = Instant::now();
    while begun.elapsed() < limit {
        if let Some(client) = attempt()? {
            return Ok(client);
        }
        thread::sleep(RETRY_INTERVAL);
    }
    Err(ConductError::Ended)
}

/// The first news, with which a conductor shows that it serves a client and will take its orders; `None` if the conductor ends before that.
/// A conductor that is busy for longer than [`SERVED_LIMIT`] counts as serving; there are then no news.
fn first_news(lines: &mut Lines) -> Result<Option<Option<News>>, ConductError> {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, Interrupted, TimedOut, WouldBlock};
    lines.stream().set_read_timeout(Some(SERVED_LIMIT)).map_err(|error| ConductError::Garbled(error.to_string()))?;
    match lines.next() {
        Ok(Some(news)) => Ok(Some(Some(news))),
        Ok(None) => Ok(None),
        Err(error) => match error.kind() {
            ConnectionReset | BrokenPipe => Ok(None),
            WouldBlock | TimedOut | Interrupted => Ok(Some(None)),
            _ => Err(ConductError::Garbled(error.to_string())),
        },
    }
}

impl Orders {
    /// Sends an order; its answer has the same number.
    ///
    /// # Errors
    /// The conductor has ended.
    pub fn send(&self, number: u64, order: Order) -> Result<(), ConductError> {
        lines::write(&self.stream, &Letter { number, order }).map_err(|_| ConductError::Ended)
    }

    /// Ends the connection; a thread that waits for its news learns that it has ended.
    pub fn leave(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// A stream to the conductor of the session in this folder; `None` if no process listens. Whoever gives orders to a conductor of this machine
/// begins here, a client on another machine through its relay, so that none reaches the session that was in this folder before.
///
/// # Errors
/// The conductor belongs to another user, the socket fails, or the conductor's session was moved to another folder.
pub fn stream(session: &Path) -> Result<Option<UnixStream>, ConductError> {
    let stream = connect(session)?;
    let Some(process) = stream.as_ref().and_then(listener) else { return Ok(stream) };
    match moved_to(process, session) {
        None => Ok(stream),
        Some(folder) => {
            let (session, process) = (session.to_owned(), process.as_raw_nonzero().get());
            Err(ConductError::Moved { session, process, folder })
        }
    }
}

/// A stream to the conductor of a session, which is started if there is none, for a [`Client`] that may be on another machine.
///
/// # Errors
/// Those of [`Client::connect_or_start`], except for other versions.
pub fn stream_or_start(session: &Path) -> Result<UnixStream, ConductError> {
    let begun = Instant::now();
    loop {
        if let Some(stream) = stream(session)? {
            return Ok(stream);
        }
        // The process that holds the lock may be about to accept clients, or to end.
        if let Started::Locked(reason) = start(session)? {
            if begun.elapsed() > LOCK_LIMIT {
                return Err(ConductError::InUse(reason));
            }
            thread::sleep(RETRY_INTERVAL);
        }
    }
}

/// The result of starting a conductor.
enum Started {
    /// It accepts clients.
    Ready,
    /// Another process holds the lock, as this message says.
    Locked(String),
}

/// Starts the conductor of a session, which outlives this process, and waits until it listens.
fn start(session: &Path) -> Result<Started, ConductError> {
    let failed = |reason: String| ConductError::NotStarted { session: session.to_owned(), reason };
    let program = launch::find_supervisor(None).map_err(failed)?;
    let socket = socket_path(session)?;
    let log = socket.with_extension(LOG_ENDING);
    own_folder(&log)?;
    let open = foreign::open_ours_with(&log, File::options().create(true).append(true));
    let open = open.and_then(|file| file.set_len(0).map(|()| file));
    let errors = open.map_err(|source| ConductError::Socket { doing: "opening", path: log.clone(), source })?;
    remove_old_logs(socket.parent().unwrap_or(&socket));
    let mut command = Command::new(&program);
    command.arg("conduct").arg(DETACHED_OPTION).arg(session);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors).spawn();
    let mut child = child.map_err(|error| failed(format!("{}: {error}", program.display())))?;
    let mut output = String::new();
    if let Some(stdout) = child.stdout.take() {
        // A conductor that ends early prints nothing, or the reason.
        let _ = BufReader::new(stdout).read_line(&mut output);
    }
    if output.trim() == READY {
        // This process is its parent and must collect its exit status.
        let _ = thread::Builder::new().name("reap".to_owned()).spawn(move || child.wait());
        return Ok(Started::Ready);
    }
    // Its log says more, and is complete once the conductor has ended.
    let _ = child.wait();
    let reason = || {
        let text = foreign::read_ours(&log, MOST_LOG_BYTES).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).trim().to_owned();
        let text = text.strip_prefix("multicard: ").unwrap_or(&text).to_owned();
        if text.is_empty() { format!("it ended without a message; see {}", log.display()) } else { text }
    };
    if output.trim() == LOCKED { Ok(Started::Locked(reason())) } else { Err(failed(reason())) }
}

/// Removes the logs of conductors that have ended, except for the newest ones. The log of a conductor that runs has its socket beside it, and
/// that of a conductor that is being started is new.
fn remove_old_logs(folder: &Path) {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let logs = files.filter(|path| path.extension().is_some_and(|ending| ending == LOG_ENDING));
    let ended = logs.filter(|log| !log.with_extension(SOCKET_ENDING).exists());
    let mut ended: Vec<_> = ended.filter_map(|log| Some((log.metadata().ok()?.modified().ok()?, log))).collect();
    ended.sort();
    for (_, log) in ended.iter().rev().skip(LOGS_KEPT) {
        // Another process may have removed it.
        let _ = fs::remove_file(log);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn the_logs_of_the_last_conductors_that_have_ended_are_kept_and_those_of_all_that_run() {
        let folder = tempfile::tempdir().unwrap();
        let at = |number: u64, ending: &str| folder.path().join(format!("{number:02}.{ending}"));
        for number in 0..30 {
            let log = File::create(at(number, "log")).unwrap();
            log.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(number)).unwrap();
        }
        for running in [3, 25] {
            File::create(at(running, "sock")).unwrap();
        }
        remove_old_logs(folder.path());
        let kept: Vec<u64> = (0..30).filter(|number| at(*number, "log").exists()).collect();
        let expected: Vec<u64> = [3].into_iter().chain(9..30).collect();
        assert_eq!(kept, expected);
    }

    #[test]
    fn conductors_that_end_again_and_again_end_the_attempt_at_its_limit() {
        let limit = 2 * RETRY_INTERVAL + RETRY_INTERVAL / 2;
        let (begun, mut attempts) = (Instant::now(), 0);
        let ended = until_served_within(limit, || {
            attempts += 1;
            Ok(None)
        });
        assert!(matches!(ended, Err(ConductError::Ended)));
        assert!(begun.elapsed() >= limit, "it is tried until the limit");
        // A loaded machine may sleep longer: fewer attempts fit, never more.
        assert!((1..=3).contains(&attempts), "{attempts}");
    }

    #[test]
    fn an_error_of_an_attempt_ends_it_at_once() {
        let mut attempts = 0;
        let failed = until_served_within(LOCK_LIMIT, || {
            attempts += 1;
            Err(ConductError::Garbled("no conductor".to_owned()))
        });
        assert!(matches!(failed, Err(ConductError::Garbled(_))));
        assert_eq!(attempts, 1);
    }
}
