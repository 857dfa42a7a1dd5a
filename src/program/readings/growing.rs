//! A file that another program appends to, or replaces.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::arrivals::Arrivals;
use super::fields::shown;
use super::truncations::Truncations;
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
    /// Whether the open file has replaced another one since the last read.
    is_another: bool,
    /// Bytes that were read or skipped.
    offset: u64,
    /// The first bytes.
    head: Vec<u8>,
    /// The last bytes before the offset.
    tail: Vec<u8>,
    /// What was skipped, unless the file was written anew since.
    earlier: Option<Earlier>,
    /// See [`Self::doubt`].
    doubt: Option<String>,
    /// The times at which its bytes were written, if the file is watched.
    arrivals: Option<Arrivals>,
}

/// What a file contained before the run. If the file begins with it later, the program has either appended to it, or written it again.
struct Earlier {
    bytes: u64,
    last_line: String,
    /// Whether it is more than the names of a table's columns.
    has_records: bool,
    /// Its truncations since, which show that the program wrote the file anew; `None` if they cannot be noted.
    truncations: Option<Truncations>,
}

impl Earlier {
    /// The doubt about a file that begins with this part, which is counted or left out.
    fn doubt(&self, path: &Path, is_counted: bool) -> String {
        let (path, last_line) = (path.display(), shown(&self.last_line));
        if is_counted {
            format!(
                "{path}: the program wrote this file anew, and it still begins with its old content (up to the line {last_line}). All of \
                     it counts as this run's; if the old part is from earlier runs, let the program write to a file in {{run_folder}}"
            )
        } else {
            format!(
                "{path}: this file begins with all that it contained before the run, up to the line {last_line}: that part was left out, \
                     because it is unknown whether the program wrote it again; let the program write to a file in {{run_folder}}"
            )
        }
    }
}

impl Growing {
    /// A file, from its start.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            is_another: false,
            offset: 0,
            head: Vec::new(),
            tail: Vec::new(),
            earlier: None,
            doubt: None,
            arrivals: None,
        }
    }

    /// A file whose present contents are skipped, unless it is written anew. Also returns its first line if there is one; `is_table` says
    /// whether this line has the names of columns.
    pub fn after_now(path: PathBuf, is_table: bool) -> (Self, Option<Vec<u8>>) {
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
        let line = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let records = &start[if is_table { line.len() } else { 0 }..];
        let last_line = growing.tail.trim_ascii_end().rsplit(|byte| matches!(byte, b'\n' | b'\r')).next();
        growing.earlier = (length > 0).then(|| Earlier {
            bytes: length,
            last_line: String::from_utf8_lossy(last_line.unwrap_or_default()).into_owned(),
            has_records: !records.trim_ascii().is_empty(),
            truncations: Truncations::of(file).ok(),
        });
        (growing, (length > 0).then(|| line.to_vec()))
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

    /// A message about content that may belong to this run or to earlier ones: the program wrote the file anew, beginning with all that the
    /// file contained before the run, or it is unknown whether it did so.
    pub fn doubt(&self) -> Option<&str> {
        self.doubt.as_deref()
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
            self.is_another |= self.file.replace((file, foreign::identity(&metadata))).is_some();
        }
        Ok(true)
    }

    /// Whether the file was replaced or written anew since the last read: it is another file, is shorter than the part that was read, has
    /// other bytes at the start or the end of that part, or was truncated since the run began.
    fn was_written_anew(&mut self) -> io::Result<bool> {
        let Some((file, _)) = &self.file else { return Ok(false) };
        let length = file.metadata()?.len();
        let differs = |known: &[u8], at: u64| {
            let mut now = vec![0; known.len()];
            file.read_exact_at(&mut now, at).is_err() || now != known
        };
        let begins_alike = length >= self.offset
            && !differs(&self.head, 0)
            && !differs(&self.tail, self.offset.saturating_sub(self.tail.len() as u64));
        let is_another = std::mem::take(&mut self.is_another);
        let Some(earlier) = &self.earlier else { return Ok(is_another || !begins_alike) };
        // Asked last, so that it covers what was compared.
        let is_truncated = earlier.truncations.as_ref().map(Truncations::happened);
        let is_anew = is_another || !begins_alike || is_truncated == Some(true);
        let goes_on = begins_alike && length > earlier.bytes;
        let is_unknown = goes_on && !is_anew && is_truncated.is_none();
        if goes_on && earlier.has_records && (is_anew || is_unknown) {
            self.doubt = Some(earlier.doubt(&self.path, is_anew));
        }
        if is_anew || is_unknown {
            self.earlier = None;
        }
        Ok(is_anew)
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
        assert!(Growing::after_now(path.clone(), true).1.is_none());
        append(&path, "step,loss\n1,2\n");
        let (mut growing, line) = Growing::after_now(path.clone(), true);
        assert_eq!(line.as_deref(), Some(b"step,loss".as_slice()));
        assert_eq!(read(&mut growing), "");
        append(&path, "2,1\n");
        assert_eq!((read(&mut growing).as_str(), growing.doubt()), ("2,1\n", None));
        let (mut growing, _) = Growing::after_now(path.clone(), true);
        fs::write(&path, "step,loss\n1,7\n2,1\n").unwrap();
        assert_eq!(read(&mut growing), "!step,loss\n1,7\n2,1\n", "it was rewritten at the same size");
    }

    /// A file that an earlier run wrote, of which this run has read nothing yet.
    fn written_before(path: &Path, text: &str, is_table: bool) -> Growing {
        fs::write(path, text).unwrap();
        let (mut growing, _) = Growing::after_now(path.to_owned(), is_table);
        assert_eq!(read(&mut growing), "");
        growing
    }

    #[test]
    fn what_a_program_writes_anew_counts_even_if_an_earlier_run_wrote_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.csv");
        let text = "epoch,accuracy\n1,0.5\n";
        let mut growing = written_before(&path, text, true);
        fs::write(&path, text).unwrap();
        assert_eq!((read(&mut growing), growing.doubt()), (format!("!{text}"), None), "the same bytes");
        fs::write(&path, text).unwrap();
        append(&path, "2,0.75\n");
        assert_eq!((read(&mut growing).as_str(), growing.doubt()), ("2,0.75\n", None), "rows of this run, once more");
        let mut growing = written_before(&path, text, true);
        append(&path, "2,0.75\n");
        assert_eq!(read(&mut growing), "2,0.75\n");
        fs::write(&path, format!("{text}2,0.75\n")).unwrap();
        assert_eq!(read(&mut growing), format!("!{text}2,0.75\n"), "first an append, then the whole file");
        let mut growing = written_before(&path, text, true);
        fs::write(folder.path().join("new"), text).unwrap();
        fs::rename(folder.path().join("new"), &path).unwrap();
        assert_eq!((read(&mut growing), growing.doubt()), (format!("!{text}"), None), "another file");
    }

    #[test]
    fn a_file_that_is_written_anew_and_begins_with_what_an_earlier_run_wrote_counts_and_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.csv");
        for (text, is_table, last) in [("a,b\n1,2\n", true, "1,2"), ("{\"a\":1}\n", false, "{\\\"a\\\":1}")] {
            let mut growing = written_before(&path, text, is_table);
            fs::write(&path, text.repeat(2)).unwrap();
            assert_eq!(read(&mut growing), format!("!{text}{text}"));
            let doubt = growing.doubt().unwrap();
            assert!(doubt.contains(&format!("(up to the line \"{last}\"). All of it counts as this run's")), "{doubt}");
        }
        let mut growing = written_before(&path, "epoch,accuracy\r\n", true);
        fs::write(&path, "epoch,accuracy\r\n1,0.5\r\n").unwrap();
        assert_eq!(read(&mut growing), "!epoch,accuracy\r\n1,0.5\r\n");
        assert_eq!(growing.doubt(), None, "there were no rows before the run");
    }

    #[test]
    fn where_truncations_cannot_be_noted_the_rows_that_may_be_of_an_earlier_run_are_left_out_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.csv");
        let text = "epoch,accuracy\n1,0.5\n";
        let mut growing = written_before(&path, text, true);
        growing.earlier.as_mut().unwrap().truncations = None;
        fs::write(&path, format!("{text}2,0.75\n")).unwrap();
        assert_eq!(read(&mut growing), "2,0.75\n");
        let doubt = growing.doubt().unwrap();
        assert!(doubt.contains("up to the line \"1,0.5\": that part was left out"), "{doubt}");
        assert!(doubt.contains("results.csv") && doubt.ends_with("in {run_folder}"), "{doubt}");
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
