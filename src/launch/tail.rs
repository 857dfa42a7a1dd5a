//! Reader of complete lines appended to a file that may not exist yet.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::foreign::{self, Line, Lines};

/// Bytes per read.
const CHUNK: u64 = 1 << 16;

/// Reader of a growing file.
pub(super) struct Tail {
    path: PathBuf,
    lines: Option<Lines<Counted>>,
}

impl Tail {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, lines: None }
    }

    /// The file's name and the number of the last line returned, such as `rank-0.jsonl:12`.
    pub(super) fn place(&self) -> String {
        let number = self.lines.as_ref().map_or(0, Lines::number);
        format!("{}:{number}", self.name())
    }

    /// The file's name.
    pub(super) fn name(&self) -> String {
        self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy().into_owned()
    }

    /// Reads about a chunk and passes each complete line to `take`, with its position; returns whether anything was read. A line that is
    /// too long for a log is passed without its text.
    pub(super) fn read(&mut self, mut take: impl FnMut(String, &str)) -> io::Result<bool> {
        if self.lines.is_none() {
            match foreign::open_ours(&self.path) {
                Ok(file) => self.lines = Some(Lines::new(Counted { file: BufReader::new(file), bytes: 0 })),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        let name = self.name();
        let Some(lines) = &mut self.lines else { return Ok(false) };
        let before = lines.reader().bytes;
        while lines.reader().bytes - before < CHUNK {
            let number = lines.number() + 1;
            let Some(line) = lines.read()? else { break };
            hand_out(&name, number, &line, &mut take);
        }
        Ok(lines.reader().bytes > before)
    }

    /// Passes the incomplete last line to `take`, once nothing more will be written.
    pub(super) fn finish(&mut self, mut take: impl FnMut(String, &str)) {
        let name = self.name();
        let Some(lines) = &mut self.lines else { return };
        let number = lines.number() + 1;
        if let Some(line) = lines.rest() {
            hand_out(&name, number, &line, &mut take);
        }
    }

    /// Whether the file still has its name and everything that was read.
    pub(super) fn is_kept(&self) -> bool {
        let Some(lines) = &self.lines else { return true };
        let Counted { file, bytes } = lines.reader();
        let current = fs::symlink_metadata(&self.path);
        let ours = file.get_ref().metadata();
        ours.is_ok_and(|ours| {
            current.is_ok_and(|current| {
                (current.ino(), current.dev()) == (ours.ino(), ours.dev()) && current.len() >= *bytes
            })
        })
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

/// A file whose bytes are counted as they are read.
struct Counted {
    file: BufReader<File>,
    bytes: u64,
}

impl Read for Counted {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(to)?;
        self.bytes += count as u64;
        Ok(count)
    }
}

impl BufRead for Counted {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.file.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.bytes += count as u64;
        self.file.consume(count);
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
}
