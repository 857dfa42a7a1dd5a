//! Reader of complete lines appended to a file that may not exist yet.

use std::fs::{self, File, Metadata};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::SystemTime;

use crate::foreign::{self, Line, Lines};

/// Bytes per read.
const CHUNK: u64 = 1 << 16;

/// Reader of a growing file.
pub(super) struct Tail {
    path: PathBuf,
    /// The file that it reads, once there is one.
    identity: Option<Identity>,
    lines: Lines<Piece>,
}

/// The identity of a file, which differs from that of a later file with the same name: device, number, and time of birth if the file system
/// knows it.
type Identity = (u64, u64, Option<SystemTime>);

fn identity(about: &Metadata) -> Identity {
    (about.dev(), about.ino(), about.created().ok())
}

impl Tail {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, identity: None, lines: Lines::new(Piece { file: None, bytes: 0 }) }
    }

    /// The file's name and the number of the last line returned, such as `rank-0.jsonl:12`.
    pub(super) fn place(&self) -> String {
        format!("{}:{}", self.name(), self.lines.number())
    }

    /// The file's name.
    pub(super) fn name(&self) -> String {
        self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy().into_owned()
    }

    /// Reads about a chunk and passes each complete line to `take`, with its position; returns whether anything was read. A line that is
    /// too long for a log is passed without its text.
    pub(super) fn read(&mut self, mut take: impl FnMut(String, &str)) -> io::Result<bool> {
        if self.lines.reader().file.is_none() {
            match self.open() {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        let name = self.name();
        let lines = &mut self.lines;
        let before = lines.reader().bytes;
        while lines.reader().bytes - before < CHUNK {
            let number = lines.number() + 1;
            let Some(line) = lines.read()? else { break };
            hand_out(&name, number, &line, &mut take);
        }
        Ok(lines.reader().bytes > before)
    }

    /// Opens the file at the position up to which it was read; returns whether there is anything new. If another file has its name now,
    /// that file is not read.
    fn open(&mut self) -> io::Result<bool> {
        let at = self.lines.reader().bytes;
        if self.identity.is_some() && fs::symlink_metadata(&self.path)?.len() <= at {
            return Ok(false);
        }
        let mut file = foreign::open_ours(&self.path)?;
        let found = identity(&file.metadata()?);
        if *self.identity.get_or_insert(found) != found {
            return Ok(false);
        }
        file.seek(SeekFrom::Start(at))?;
        self.lines.reader_mut().file = Some(BufReader::new(file));
        Ok(true)
    }

    /// Closes the file until more was written into it, because the number of open files of a process is limited.
    pub(super) fn close(&mut self) {
        self.lines.reader_mut().file = None;
    }

    /// Passes the incomplete last line to `take`, once nothing more will be written.
    pub(super) fn finish(&mut self, mut take: impl FnMut(String, &str)) {
        let name = self.name();
        let number = self.lines.number() + 1;
        if let Some(line) = self.lines.rest() {
            hand_out(&name, number, &line, &mut take);
        }
    }

    /// Whether the file still has its name and everything that was read.
    pub(super) fn is_kept(&self) -> bool {
        let Some(known) = self.identity else { return true };
        let current = fs::symlink_metadata(&self.path);
        current.is_ok_and(|current| identity(&current) == known && current.len() >= self.lines.reader().bytes)
    }
}

fn hand_out(name: &str, number: u64, line: &Line<'_>, take: &mut impl FnMut(String, &str)) {
    let place = format!("{name}:{number}");
    match line {
        Line::Whole(line) => {
            let line = String::from_utf8_lossy(line);
            if !line.trim().is_empty() {
                take(place, line.trim());
            }
        }
        Line::TooLong => take(place, "a line that is longer than any log's"),
    }
}

/// The part of a file from a position on, while the file is open.
struct Piece {
    file: Option<BufReader<File>>,
    /// The position: how much was read so far.
    bytes: u64,
}

impl Read for Piece {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(to)?;
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Piece {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match &mut self.file {
            Some(file) => file.fill_buf(),
            None => Ok(&[]),
        }
    }

    fn consume(&mut self, count: usize) {
        self.bytes += count as u64;
        if let Some(file) = &mut self.file {
            file.consume(count);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write;

    use super::*;

    fn lines(tail: &mut Tail) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        while tail.read(|place, line| lines.push((place, line.to_owned()))).unwrap() {}
        lines
    }

    #[test]
    fn a_line_is_handed_out_once_and_only_when_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rank-0.jsonl");
        let mut tail = Tail::new(path.clone());
        assert!(lines(&mut tail).is_empty());
        let mut file = File::create(&path).unwrap();
        file.write_all(b"one\n\ntw").unwrap();
        assert_eq!(lines(&mut tail), [("rank-0.jsonl:1".to_owned(), "one".to_owned())]);
        file.write_all(b"o\nthr").unwrap();
        assert_eq!(lines(&mut tail), [("rank-0.jsonl:3".to_owned(), "two".to_owned())]);
        let mut end = Vec::new();
        tail.finish(|place, line| end.push((place, line.to_owned())));
        assert_eq!(end, [("rank-0.jsonl:4".to_owned(), "thr".to_owned())]);
        tail.finish(|_, _| panic!("handed out twice"));
    }

    #[test]
    fn an_endless_line_is_named_without_its_text_and_the_next_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let line = vec![b'x'; foreign::MOST_LINE_BYTES + 1];
        fs::write(&path, [line.as_slice(), b"\nnext\n"].concat()).unwrap();
        let found = lines(&mut Tail::new(path));
        let places: Vec<_> = found.iter().map(|(place, line)| (place.as_str(), line.as_str())).collect();
        assert_eq!(places, [("log:1", "a line that is longer than any log's"), ("log:2", "next")]);
    }

    #[test]
    fn a_log_that_was_deleted_replaced_or_cut_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut tail = Tail::new(path.clone());
        assert!(tail.is_kept());
        fs::write(&path, "one\ntwo\n").unwrap();
        assert!(lines(&mut tail).len() == 2 && tail.is_kept());
        File::options().write(true).open(&path).unwrap().set_len(4).unwrap();
        assert!(!tail.is_kept());
        fs::remove_file(&path).unwrap();
        assert!(!tail.is_kept());
        fs::write(&path, "one\ntwo\n").unwrap();
        assert!(!tail.is_kept());
    }

    #[test]
    fn a_file_that_was_closed_is_read_on_where_it_was_left_and_another_one_of_its_name_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut tail = Tail::new(path.clone());
        tail.close();
        let mut file = File::create(&path).unwrap();
        file.write_all(b"one\ntw").unwrap();
        assert_eq!(lines(&mut tail).len(), 1);
        tail.close();
        assert!(
            lines(&mut tail).is_empty() && tail.lines.reader().file.is_none(),
            "nothing is new, so it stays closed"
        );
        file.write_all(b"o\n").unwrap();
        assert_eq!(lines(&mut tail), [("log:2".to_owned(), "two".to_owned())]);
        tail.close();
        assert!(tail.is_kept());
        // The first file stays open, so that the second one has another number.
        fs::remove_file(&path).unwrap();
        fs::write(&path, "other\nlines\nthat are more\n").unwrap();
        assert!(lines(&mut tail).is_empty() && !tail.is_kept());
    }
}
