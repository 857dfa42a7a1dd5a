//! Reader of complete lines appended to a file that may not exist yet.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

/// Maximum length of a line; longer ones are not log lines and are split.
const LINE_LIMIT: usize = 1 << 20;

/// Bytes per read.
const CHUNK: usize = 1 << 16;

/// Reader of a growing file.
pub(super) struct Tail {
    path: PathBuf,
    file: Option<File>,
    partial: Vec<u8>,
    line: u64,
}

impl Tail {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, file: None, partial: Vec::new(), line: 0 }
    }

    /// The file's name and the number of the last line returned, such as `rank-0.jsonl:12`.
    pub(super) fn place(&self) -> String {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        format!("{}:{}", name.to_string_lossy(), self.line)
    }

    /// Reads once and passes each complete line to `take`, with its position; returns whether anything was read.
    pub(super) fn read(&mut self, mut take: impl FnMut(String, &str)) -> io::Result<bool> {
        if self.file.is_none() {
            match File::open(&self.path) {
                Ok(file) => self.file = Some(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        let Some(file) = &mut self.file else { return Ok(false) };
        let mut chunk = [0; CHUNK];
        let count = match file.read(&mut chunk) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error),
        };
        let mut rest = &chunk[..count];
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.partial.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            self.hand_out(&mut take);
        }
        self.partial.extend_from_slice(rest);
        if self.partial.len() > LINE_LIMIT {
            self.hand_out(&mut take);
        }
        Ok(count > 0)
    }

    /// Passes the rest after the last line break to `take`, once nothing more will come.
    pub(super) fn finish(&mut self, mut take: impl FnMut(String, &str)) {
        if !self.partial.is_empty() {
            self.hand_out(&mut take);
        }
    }

    fn hand_out(&mut self, take: &mut impl FnMut(String, &str)) {
        self.line += 1;
        let place = self.place();
        let line = String::from_utf8_lossy(&self.partial);
        if !line.trim().is_empty() {
            take(place, line.trim());
        }
        self.partial.clear();
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
    fn an_endless_line_is_handed_out_in_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, vec![b'x'; 3 * LINE_LIMIT]).unwrap();
        let pieces = lines(&mut Tail::new(path));
        assert!(pieces.len() >= 2 && pieces.iter().all(|(_, line)| line.len() <= LINE_LIMIT + CHUNK));
    }
}
