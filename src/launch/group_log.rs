//! The log of a process that starts others, such as the supervisor of a run's ranks: what happened to them, one event per line.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use crate::foreign;
use crate::protocol::{GroupEvent, GroupLine, LogWriter, now_s};

/// The log of a group of processes.
pub(super) struct GroupLog {
    file: LogWriter,
    name: String,
    /// Whether an earlier process has written it.
    pub has_lines: bool,
}

impl GroupLog {
    /// Opens the log of this name in a folder.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn open(folder: &Path, name: &str) -> Result<Self, String> {
        let file = foreign::open_ours_with(&folder.join(name), OpenOptions::new().create(true).append(true));
        let file = file.map_err(|error| format!("cannot write {name} in {}: {error}", folder.display()))?;
        let has_lines = file.metadata().is_ok_and(|about| about.len() > 0);
        Ok(Self { file: LogWriter::new(file), name: name.to_owned(), has_lines })
    }

    /// Logs that something happened now.
    pub fn note(&mut self, event: GroupEvent) {
        let line = serde_json::to_string(&GroupLine { time_s: now_s(), event }).map_err(io::Error::from);
        let written = line.and_then(|line| self.file.write_all(format!("{line}\n").as_bytes()));
        let written = written.and_then(|()| self.file.flush());
        self.tell_failure(written);
    }

    /// Waits until everything is written or `gives_up` is true.
    pub fn finish(&mut self, gives_up: impl Fn() -> bool) {
        let written = self.file.finish(gives_up);
        self.tell_failure(written);
    }

    fn tell_failure(&self, written: io::Result<()>) {
        if let Err(error) = written {
            foreign::say(format_args!("multicard: cannot write {}: {error}", self.name));
        }
    }
}
