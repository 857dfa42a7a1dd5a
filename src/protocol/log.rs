//! Writer of the logs of a run's processes. If the disk is full, lines wait in memory, so that no line is lost and no process has to end.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::thread;
use std::time::Duration;

use crate::foreign;

/// The most that waits for room: several hours of a run that logs ten steps a second.
const MOST_WAITING_BYTES: usize = 64 << 20;
/// Interval between attempts to write to a full disk.
const RETRY: Duration = Duration::from_millis(200);

/// A log that this process appends lines to. `write` keeps them in memory, and never fails; `flush` writes as much as there is room for.
pub struct LogWriter {
    file: File,
    /// Bytes that have not been written yet.
    waiting: Vec<u8>,
    /// Whether other processes append to the file, too.
    is_shared: bool,
}

impl LogWriter {
    /// A log that is open for appending and that no other process writes.
    pub fn new(file: File) -> Self {
        Self { file, waiting: Vec::new(), is_shared: false }
    }

    /// A log that is open for appending and that other processes on this machine append to, too. Whole lines are written by one call,
    /// during which the kernel lets no other process append. After a line that a full disk cut off, other lines may follow, so it is
    /// written again from its start: readers pass its piece over ([`super::event_start`]).
    pub fn shared(file: File) -> Self {
        Self { is_shared: true, ..Self::new(file) }
    }

    /// Writes everything. On a full disk it waits for room until `gives_up` is true.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(&mut self, gives_up: impl Fn() -> bool) -> io::Result<()> {
        wait_for_room(gives_up, || self.write_waiting())
    }

    /// Writes what waits, and keeps what cannot be written: the next attempt goes on in the middle of a line, or at its start if the log is
    /// shared.
    fn write_waiting(&mut self) -> io::Result<()> {
        let mut done = 0;
        let written = loop {
            if done == self.waiting.len() {
                break Ok(());
            }
            match self.file.write(&self.waiting[done..]) {
                Ok(0) => break Err(ErrorKind::WriteZero.into()),
                Ok(bytes) if self.is_shared && bytes < self.waiting.len() => {
                    done = self.waiting[..bytes].iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
                    // Only a full disk takes a part.
                    break Err(ErrorKind::StorageFull.into());
                }
                Ok(bytes) => done += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        self.waiting.drain(..done);
        written
    }
}

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    /// # Errors
    /// The file cannot be written for another reason than a full disk, or too much waits for room.
    fn flush(&mut self) -> io::Result<()> {
        match self.write_waiting() {
            Err(error) if foreign::is_full_disk(&error) && self.waiting.len() <= MOST_WAITING_BYTES => Ok(()),
            written => written,
        }
    }
}

/// Repeats an attempt to write that a full disk refuses, until it succeeds or `gives_up` is true.
///
/// # Errors
/// That of the last attempt.
pub fn wait_for_room<T>(gives_up: impl Fn() -> bool, mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match attempt() {
            Err(error) if foreign::is_full_disk(&error) && !gives_up() => thread::sleep(RETRY),
            done => return done,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::cell::Cell;
    use std::fs;
    use std::io::Read;
    use std::os::fd::OwnedFd;

    use rustix::fs::{OFlags, fcntl_setfl};

    use super::*;

    fn full_disk() -> File {
        File::options().write(true).open("/dev/full").unwrap()
    }

    #[test]
    fn lines_wait_for_room_on_a_full_disk_and_are_then_written_once_in_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = LogWriter::new(full_disk());
        for line in ["one\n", "two\n"] {
            log.write_all(line.as_bytes()).unwrap();
            log.flush().unwrap();
        }
        log.file = File::create(&path).unwrap();
        log.write_all(b"three\n").unwrap();
        log.flush().unwrap();
        log.finish(|| panic!("nothing waits")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\nthree\n");
    }

    #[test]
    fn a_line_of_a_shared_log_that_was_cut_off_is_written_again_from_its_start() {
        // A pipe without a waiting reader takes a part, as a disk does that becomes full.
        let (mut reader, writer) = io::pipe().unwrap();
        fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
        let mut log = LogWriter::shared(File::from(OwnedFd::from(writer)));
        let [first, second] = ["a", "b"].map(|letter| letter.repeat(40_000) + "\n");
        log.write_all((first.clone() + &second).as_bytes()).unwrap();
        log.flush().unwrap();
        let mut part = vec![0; first.len() + second.len()];
        let count = reader.read(&mut part).unwrap();
        let taken = String::from_utf8_lossy(&part[..count]).into_owned();
        assert!(taken.starts_with(&first) && count < part.len(), "a pipe holds 64 KiB: {count}");
        log.finish(|| panic!("there is room")).unwrap();
        drop(log);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        assert!(rest == second, "the whole second line: {} bytes", rest.len());
    }

    #[test]
    fn the_end_of_a_log_waits_until_there_is_room_or_the_process_is_to_end() {
        let attempts = Cell::new(0);
        let once_full = || -> io::Result<u32> {
            attempts.set(attempts.get() + 1);
            if attempts.get() < 2 { Err(ErrorKind::StorageFull.into()) } else { Ok(attempts.get()) }
        };
        assert_eq!(wait_for_room(|| false, once_full).unwrap(), 2);
        let mut log = LogWriter::new(full_disk());
        log.write_all(b"line\n").unwrap();
        assert!(foreign::is_full_disk(&log.finish(|| true).unwrap_err()));
    }

    #[test]
    fn what_is_no_full_disk_and_too_much_that_waits_are_errors() {
        // A file that is open for reading alone cannot be written.
        let mut log = LogWriter::new(File::open("/dev/null").unwrap());
        log.write_all(b"line\n").unwrap();
        assert!(!foreign::is_full_disk(&log.flush().unwrap_err()));
        let mut log = LogWriter::new(full_disk());
        log.write_all(&vec![b'x'; MOST_WAITING_BYTES]).unwrap();
        log.flush().unwrap();
        log.write_all(b"x").unwrap();
        assert!(foreign::is_full_disk(&log.flush().unwrap_err()));
    }
}
