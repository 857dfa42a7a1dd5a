//! The rank's log, which has one event on each line and may be shared with the other ranks of its node, and how a rank gives up.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use multicard::plan::Key;
use multicard::protocol::{Event, EventLine, FailureKind, Job, LogWriter, now_s, rank_log};
use tch::TchError;
use thiserror::Error;

use crate::recording;

/// Exit code of a failed rank; its log gives the reason.
pub const FAILED: u8 = 1;

/// Maximum time that a step stays in memory before it is written.
const FLUSH_INTERVAL: Duration = Duration::from_millis(200);

/// Messages of gloo, NCCL and the c10d store which mean that another rank is gone or does not respond.
const PEER_GONE: &[&str] = &[
    "Timed out waiting",
    "timed out",
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "Connection refused",
    "caused pair closure",
    "Socket closed",
    "communicator failed",
    "communicator was aborted",
    "ncclRemoteError",
    "wait timeout",
    "Wait timeout",
    "Timeout waiting for key",
    "Gloo connectFullMesh failed",
];

/// Why a rank ends early.
#[derive(Debug, Error)]
pub enum Stop {
    /// A failure to be written to the log.
    #[error("{message}")]
    Failed {
        /// Its kind.
        kind: FailureKind,
        /// What was tried, what was found, what to do.
        message: String,
    },
    /// The log itself cannot be written.
    #[error("writing {path} failed: {source}; check the disk, or choose another folder for the session")]
    Log {
        /// The log.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

impl Stop {
    /// A failure with its message.
    pub fn failed(kind: FailureKind, message: impl Into<String>) -> Self {
        Self::Failed { kind, message: message.into() }
    }

    /// A failure of libtorch or another library, classified by its message.
    pub fn engine(text: &str) -> Self {
        // What follows is the C++ stack.
        let lines = text.lines().take_while(|line| !line.starts_with("Exception raised from"));
        let message = lines.take(3).collect::<Vec<_>>().join("\n");
        let says = |parts: &[&str]| parts.iter().any(|part| text.contains(part));
        let kind = if says(&["out of memory", "can't allocate memory"]) {
            FailureKind::OutOfMemory
        } else if says(PEER_GONE) {
            FailureKind::Peer
        } else if says(&["cannot be decoded"]) {
            FailureKind::Input
        } else {
            FailureKind::Engine
        };
        Self::Failed { kind, message }
    }
}

impl From<TchError> for Stop {
    fn from(error: TchError) -> Self {
        match error {
            TchError::Torch(text) => Self::engine(&text),
            other => Self::engine(&other.to_string()),
        }
    }
}

/// Appends events to the log of a rank. A copy appends to the same log, from another thread.
#[derive(Clone)]
pub struct Report(Arc<Mutex<Log>>);

struct Log {
    path: PathBuf,
    file: LogWriter,
    run: String,
    rank: u32,
    flushed: Instant,
}

impl Report {
    /// Opens the log of `rank` in the run's folder.
    pub fn open(job: &Job, rank: u32) -> Result<Self, Stop> {
        let path = job.folder.join(rank_log(job.log_rank(rank)));
        let opened = std::fs::create_dir_all(&job.folder)
            .and_then(|()| OpenOptions::new().create(true).append(true).open(&path))
            .map_err(|source| Stop::Log { path: path.clone(), source })?;
        let file = if job.shared_logs { LogWriter::shared(opened) } else { LogWriter::new(opened) };
        let log = Log { path, file, run: job.run.clone(), rank, flushed: Instant::now() };
        Ok(Self(Arc::new(Mutex::new(log))))
    }

    /// Writes an event. Steps and their readings are written within 200 ms; every other event has been passed to the system when this
    /// returns, unless the disk is full: then events wait for room, and the last one of the rank waits here.
    pub fn event(&mut self, event: Event) -> Result<(), Stop> {
        match &event {
            Event::Phase { phase } => recording::phase(*phase),
            Event::Finished { .. } | Event::Failed { .. } => recording::finish(),
            _ => {}
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).event(event)
    }

    /// Writes a number that the rank measured, for the whole run or for an epoch and step; `key` is the key of a measure.
    pub fn reading(
        &mut self,
        key: impl Into<Key>,
        value: f64,
        epoch: Option<u32>,
        step: Option<u64>,
    ) -> Result<(), Stop> {
        self.event(Event::Reading { key: key.into(), value, epoch, step })
    }

    /// Passes to the system the steps and readings that wait to be written.
    pub fn flush(&mut self) -> Result<(), Stop> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }

    /// Writes why the rank failed.
    pub fn failed(&mut self, stop: &Stop) -> Result<(), Stop> {
        match stop {
            Stop::Failed { kind, message } => self.event(Event::Failed { kind: *kind, message: message.clone() }),
            Stop::Log { .. } => Ok(()),
        }
    }
}

impl Log {
    fn event(&mut self, event: Event) -> Result<(), Stop> {
        let of_step = matches!(event, Event::Step { .. } | Event::Reading { step: Some(_), .. });
        let may_wait = of_step && self.flushed.elapsed() < FLUSH_INTERVAL;
        let is_last = matches!(event, Event::Finished { .. } | Event::Failed { .. });
        let line = EventLine { run: std::mem::take(&mut self.run), rank: self.rank, time_s: now_s(), event };
        let written = serde_json::to_writer(&mut self.file, &line).map_err(io::Error::from);
        self.run = line.run;
        let written = written.and_then(|()| self.file.write_all(b"\n"));
        written.map_err(|source| self.failed(source))?;
        if is_last {
            // A signal that asks the rank to end ends its process.
            return self.file.finish(|| false).map_err(|source| self.failed(source));
        }
        if may_wait { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<(), Stop> {
        self.flushed = Instant::now();
        self.file.flush().map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> Stop {
        Stop::Log { path: self.path.clone(), source }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::Path;
    use std::thread;

    use multicard::plan::{Data, Levels, Shape};
    use multicard::protocol::read_event_line;

    use super::*;

    fn job(folder: &Path) -> Job {
        let shape = Shape { processes: 4, ..Shape::default() };
        let empty = Job::new("any".into(), Levels::default(), shape, Data::default());
        Job { run: "run-1".into(), folder: folder.into(), ..empty }
    }

    /// The text of the log with this number.
    fn log(folder: &Path, number: u32) -> String {
        std::fs::read_to_string(folder.join(rank_log(number))).unwrap()
    }

    #[test]
    fn errors_are_told_apart_and_lose_the_stack() {
        let text = "CUDA out of memory. Tried to allocate 2 GiB\na\nException raised from malloc\nframe #0: c10::Error";
        let Stop::Failed { kind, message } = Stop::from(TchError::Torch(text.into())) else { panic!("not failed") };
        assert_eq!(kind, FailureKind::OutOfMemory);
        assert_eq!(message, "CUDA out of memory. Tried to allocate 2 GiB\na");
        assert_eq!(Stop::engine("1\n2\n3\n4").to_string(), "1\n2\n3");
        for (text, expected) in [
            ("bad shape", FailureKind::Engine),
            ("[gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:2000", FailureKind::Peer),
            ("[unbound_buffer.cc:82] Timed out waiting 20000ms for recv operation to complete", FailureKind::Peer),
            ("NCCL: a collective timed out", FailureKind::Peer),
        ] {
            let Stop::Failed { kind, .. } = Stop::from(TchError::Torch(text.into())) else { panic!("not failed") };
            assert_eq!(kind, expected, "{text}");
        }
    }

    #[test]
    fn an_event_is_in_the_file_at_once_and_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut report = Report::open(&job(folder.path()), 2).unwrap();
        report.event(Event::Warning { message: "so".into() }).unwrap();
        let line: EventLine = serde_json::from_str(&log(folder.path(), 2)).unwrap();
        assert_eq!((line.run.as_str(), line.rank), ("run-1", 2));
        assert_eq!(line.event, Event::Warning { message: "so".into() });
    }

    #[test]
    fn ranks_that_share_a_log_write_whole_lines_into_it_at_the_same_time() {
        let folder = tempfile::tempdir().unwrap();
        let job = Job { shared_logs: true, ..job(folder.path()) };
        thread::scope(|scope| {
            for rank in 0..4 {
                // Each rank opens the file itself, as a process does.
                let mut report = Report::open(&job, rank).unwrap();
                let message = "so ".repeat(1 + 2_000 * rank as usize);
                scope.spawn(move || {
                    for step in 1..=300 {
                        report.event(Event::Warning { message: format!("{step} {message}") }).unwrap();
                    }
                });
            }
        });
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        let mut steps = [0; 4];
        for text in log(folder.path(), 0).lines() {
            let line = read_event_line(text.as_bytes()).unwrap().remove(0);
            let Event::Warning { message } = &line.event else { panic!("{line:?}") };
            let step = &mut steps[line.rank as usize];
            *step += 1;
            assert!(message.starts_with(&format!("{step} so")), "rank {}, step {step}: {message}", line.rank);
        }
        assert_eq!(steps, [300; 4]);
    }

    #[test]
    fn steps_wait_to_be_written_until_they_are_flushed() {
        let folder = tempfile::tempdir().unwrap();
        let mut report = Report::open(&job(folder.path()), 0).unwrap();
        let lines = || log(folder.path(), 0).lines().count();
        report.reading("loss", 2.0, Some(1), Some(1)).unwrap();
        assert_eq!(lines(), 0);
        report.flush().unwrap();
        assert_eq!(lines(), 1);
    }

    #[test]
    fn events_wait_on_a_full_disk_and_a_log_that_cannot_be_written_otherwise_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let mut report = Report::open(&job(folder.path()), 0).unwrap();
        let mut warn_into = |options: &mut OpenOptions, path: &str| {
            report.0.lock().unwrap().file = LogWriter::new(options.open(path).unwrap());
            report.event(Event::Warning { message: "so".into() })
        };
        warn_into(OpenOptions::new().write(true), "/dev/full").unwrap();
        let error = warn_into(OpenOptions::new().read(true), "/dev/null").unwrap_err();
        assert!(matches!(&error, Stop::Log { .. }) && error.to_string().contains("rank-0.jsonl"), "{error}");
    }
}
