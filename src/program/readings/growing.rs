//! A file that another program appends to, or replaces.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::arrivals::Arrivals;
use crate::foreign;

/// The number of bytes at the start of a file by which a rewritten file is recognised.
const HEAD: usize = 256;
/// The number of bytes at the end of the part that was read by which a rewritten file is recognised, too: it may have the same size.
const TAIL: usize = 4096;
/// Most bytes that are read at once.
const CHUNK: usize = 1 << 20;
/// Most bytes that one poll reads, so that a large file does not delay the other sources.
const PER_POLL: usize = 16 << 20;

/// A result of reading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Part<'b> {
    /// The file starts again: it was replaced or rewritten.
    Anew,
    /// Its next bytes, and when they were written, in seconds since the Unix epoch, if the file is watched.
    Bytes(&'b [u8], Option<f64>),
}

/// Reads what was appended to a file since the last read. The file need not exist yet.
pub(super) struct Growing {
    path: PathBuf,
    /// The open file with its device and inode.
    file: Option<(File, (u64, u64))>,
    /// Bytes that were read or skipped.
    offset: u64,
    /// The first bytes.
    head: Vec<u8>,
    /// The last bytes before the offset.
    tail: Vec<u8>,
    /// The times at which its bytes were written, if the file is watched.
    arrivals: Option<Arrivals>,
}

impl Growing {
    /// A file, from its start.
    pub fn new(path: PathBuf) -> Self {
        Self { path, file: None, offset: 0, head: Vec::new(), tail: Vec::new(), arrivals: None }
    }

    /// A file whose present contents are skipped. Also returns its first line, for tables that have their names there, and whether anything
    /// was skipped.
    pub fn after_now(path: PathBuf) -> (Self, Option<Vec<u8>>) {
        let mut growing = Self::new(path);
        let opened = growing.open().ok().filter(|is_open| *is_open).and(growing.file.as_mut());
        let Some((file, _)) = opened else { return (growing, None) };
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        let mut start = vec![0; CHUNK];
        let count = file.read(&mut start).unwrap_or(0);
        start.truncate(count);
        growing.head = start[..count.min(HEAD)].to_vec();
        growing.offset = length;
        let count = length.min(TAIL as u64);
        let mut tail = vec![0; count as usize];
        if file.read_exact_at(&mut tail, length - count).is_ok() {
            growing.tail = tail;
        }
        let line = start.split(|byte| *byte == b'\n').next().unwrap_or_default().to_vec();
        (growing, (length > 0).then_some(line))
    }

    /// Notes from now on when bytes are written, unless that is impossible.
    pub fn watch(&mut self) {
        self.arrivals = Arrivals::of(&self.path).ok();
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file's name, for messages.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy().into_owned()
    }

    /// Passes what is new to `take`: everything if `all`, otherwise a few megabytes at most.
    pub fn read(&mut self, all: bool, mut take: impl FnMut(Part)) -> Result<(), String> {
        let failed = |error: io::Error, path: &Path| format!("cannot read {}: {error}", path.display());
        let exists = self.open().map_err(|error| failed(error, &self.path))?;
        if !exists {
            return Ok(());
        }
        if self.was_written_anew().map_err(|error| failed(error, &self.path))? {
            (self.offset, self.head, self.tail) = (0, Vec::new(), Vec::new());
            if let Some(arrivals) = &self.arrivals {
                arrivals.forget();
            }
            take(Part::Anew);
        }
        let Some((file, _)) = &mut self.file else { return Ok(()) };
        let mut chunk = vec![0; CHUNK];
        let mut read = 0;
        let sought = file.seek(SeekFrom::Start(self.offset));
        sought.map_err(|error| failed(error, &self.path))?;
        while all || read < PER_POLL {
            let count = match file.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(error, &self.path)),
            };
            if self.offset == self.head.len() as u64 {
                self.head.extend(&chunk[..count.min(HEAD - self.head.len())]);
            }
            match &self.arrivals {
                Some(arrivals) => {
                    arrivals.cut(self.offset, &chunk[..count], |piece, at_s| take(Part::Bytes(piece, at_s)));
                }
                None => take(Part::Bytes(&chunk[..count], None)),
            }
            self.tail.extend(&chunk[count.saturating_sub(TAIL)..count]);
            self.tail.drain(..self.tail.len().saturating_sub(TAIL));
            self.offset += count as u64;
            read += count;
        }
        Ok(())
    }

    /// Opens the file at this path, if there is one. Only regular files are read, since a pipe would block.
    fn open(&mut self) -> io::Result<bool> {
        let metadata = match std::fs::metadata(&self.path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(self.file.is_some()),
            Err(error) => return Err(error),
        };
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let identity = foreign::identity(&metadata);
        if self.file.as_ref().is_none_or(|(_, open)| *open != identity) {
            let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
            let file = OpenOptions::new().read(true).custom_flags(flags).open(&self.path)?;
            let metadata = file.metadata()?;
            if !metadata.is_file() {
                return Err(io::Error::other("it is not a regular file"));
            }
            let is_another = self.file.replace((file, foreign::identity(&metadata))).is_some();
            if is_another {
                // No file has this many bytes to skip.
                self.offset = u64::MAX;
            }
        }
        Ok(true)
    }

    /// Whether the file is now shorter than the part that was read, or has other bytes at the start or the end of that part.
    fn was_written_anew(&self) -> io::Result<bool> {
        let Some((file, _)) = &self.file else { return Ok(false) };
        if file.metadata()?.len() < self.offset {
            return Ok(true);
        }
        let differs = |known: &[u8], at: u64| {
            let mut now = vec![0; known.len()];
            file.read_exact_at(&mut now, at).is_err() || now != known
        };
        Ok(differs(&self.head, 0) || differs(&self.tail, self.offset.saturating_sub(self.tail.len() as u64)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    /// What is new: `!` stands for a file that starts again.
    fn read(growing: &mut Growing) -> String {
        let mut text = String::new();
        growing
            .read(true, |part| match part {
                Part::Anew => text.push('!'),
                Part::Bytes(bytes, _) => text.push_str(&String::from_utf8_lossy(bytes)),
            })
            .unwrap();
        text
    }

    fn append(path: &Path, text: &str) {
        OpenOptions::new().append(true).create(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn what_is_appended_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.csv");
        let mut growing = Growing::new(path.clone());
        assert_eq!(read(&mut growing), "");
        for text in ["step,", "loss\n", &"1,2\n".repeat(1000), ""] {
            append(&path, text);
            assert_eq!(read(&mut growing), text);
        }
    }

    #[test]
    fn a_file_that_is_written_anew_is_read_from_its_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.csv");
        let mut growing = Growing::new(path.clone());
        fs::write(&path, "step,loss\n1,2\n").unwrap();
        read(&mut growing);
        fs::write(&path, "step\n").unwrap();
        assert_eq!(read(&mut growing), "!step\n", "it is shorter");
        fs::write(&path, "epoch,step,loss\n1,2,3\n").unwrap();
        assert_eq!(read(&mut growing), "!epoch,step,loss\n1,2,3\n", "it is longer and starts otherwise");
        fs::write(&path, "epoch,step,loss\n1,2,4\n").unwrap();
        assert_eq!(read(&mut growing), "!epoch,step,loss\n1,2,4\n", "it has the same size");
        fs::write(&path, "epoch,step,loss\n1,2,4\n").unwrap();
        assert_eq!(read(&mut growing), "", "it has the same bytes");
        fs::write(&path, format!("{}\n1,2,5\n", "x".repeat(2 * TAIL))).unwrap();
        read(&mut growing);
        fs::write(&path, format!("{}\n1,2,6\n1,2,7\n", "x".repeat(2 * TAIL))).unwrap();
        assert!(read(&mut growing).starts_with("!xxx"), "it is longer, starts alike, and differs before the new part");
        fs::write(folder.path().join("new"), "epoch,step,loss\n1,2,3\n1,3,3\n").unwrap();
        fs::rename(folder.path().join("new"), &path).unwrap();
        assert_eq!(read(&mut growing), "!epoch,step,loss\n1,2,3\n1,3,3\n", "another file has its name");
        fs::remove_file(&path).unwrap();
        assert_eq!(read(&mut growing), "");
    }

    #[test]
    fn what_an_earlier_run_wrote_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.csv");
        assert!(Growing::after_now(path.clone()).1.is_none());
        append(&path, "step,loss\n1,2\n");
        let (mut growing, line) = Growing::after_now(path.clone());
        assert_eq!(line.as_deref(), Some(b"step,loss".as_slice()));
        assert_eq!(read(&mut growing), "");
        append(&path, "2,1\n");
        assert_eq!(read(&mut growing), "2,1\n");
        let (mut growing, _) = Growing::after_now(path.clone());
        fs::write(&path, "step,loss\n1,7\n2,1\n").unwrap();
        assert_eq!(read(&mut growing), "!step,loss\n1,7\n2,1\n", "it was rewritten at the same size");
    }

    #[test]
    fn what_is_not_a_regular_file_is_an_error_and_no_wait() {
        let folder = tempfile::tempdir().unwrap();
        let error = Growing::new(folder.path().to_owned()).read(false, |_| ()).unwrap_err();
        assert!(error.contains("it is not a regular file"), "{error}");
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(Growing::new(pipe).read(false, |_| ()).is_err());
    }
}
