//! The log of a node's runner: the events of its program, in the form of a rank's events.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::protocol::{Event, EventLine, LogWriter, now_s, rank_log};

/// The runner's log.
pub struct Log {
    file: LogWriter,
    name: String,
    run: String,
    node: u32,
    /// Why no more can be written.
    failure: Option<io::Error>,
}

impl Log {
    /// Opens the log of the node with this number, which counts as a rank, in the folder of a run.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn open(folder: &Path, run: &str, node: u32) -> Result<Self, String> {
        let name = rank_log(node);
        let file = OpenOptions::new().create(true).append(true).open(folder.join(&name));
        let file = file.map_err(|error| format!("cannot write {name} in {}: {error}", folder.display()))?;
        Ok(Self::of_file(file, name, run, node))
    }

    fn of_file(file: File, name: String, run: &str, node: u32) -> Self {
        Self { file: LogWriter::new(file), name, run: run.to_owned(), node, failure: None }
    }

    /// Appends events with their times, in seconds since the Unix epoch. On a full disk they wait for room.
    pub fn write(&mut self, events: &[(f64, Event)]) {
        if self.failure.is_some() {
            return;
        }
        let mut text = String::new();
        for (time_s, event) in events {
            let line = EventLine { run: self.run.clone(), rank: self.node, time_s: *time_s, event: event.clone() };
            if let Ok(line) = serde_json::to_string(&line) {
                text.push_str(&line);
                text.push('\n');
            }
        }
        self.failure = self.file.write_all(text.as_bytes()).and_then(|()| self.file.flush()).err();
    }

    pub fn warn(&mut self, message: String) {
        self.write(&[(now_s(), Event::Warning { message })]);
    }

    pub fn reading(&mut self, key: &str, value: f64) {
        self.write(&[(now_s(), Event::Reading { key: key.into(), value, epoch: None, step: None })]);
    }

    /// Writes the rest. A full disk is waited for until a number in `signal` asks this process to end.
    ///
    /// # Errors
    /// Some events could not be written.
    pub fn finish(mut self, signal: &AtomicUsize) -> Result<(), String> {
        let written = match self.failure {
            Some(error) => Err(error),
            None => self.file.finish(|| signal.load(Ordering::Relaxed) != 0),
        };
        written.map_err(|error| format!("cannot write {}: {error}", self.name))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// What becomes of a log in this file after an event, if the process is told to end then.
    fn finished(file: File) -> Result<(), String> {
        let mut log = Log::of_file(file, "rank-0.jsonl".to_owned(), "run-1", 0);
        log.warn("so".to_owned());
        log.finish(&AtomicUsize::new(15))
    }

    #[test]
    fn events_that_cannot_be_written_are_told_at_the_end() {
        let full = finished(File::options().write(true).open("/dev/full").unwrap()).unwrap_err();
        assert!(full.starts_with("cannot write rank-0.jsonl: No space left on device"), "{full}");
        // A file that is open for reading alone.
        let closed = finished(File::open("/dev/null").unwrap()).unwrap_err();
        assert!(closed.starts_with("cannot write rank-0.jsonl: Bad file descriptor"), "{closed}");
        assert_eq!(finished(tempfile::tempfile().unwrap()), Ok(()));
    }
}
