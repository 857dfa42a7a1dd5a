//! Reader of lines with a limited length, for complete logs and for growing ones.

use std::io::{self, BufRead, Read};

/// Longest line of any log; longer ones are left out. The longest valid lines, plans and metrics of reports, have a hundredth of that.
pub const MOST_LINE_BYTES: usize = 16 << 20;

/// A line that is complete.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// The line without its line break.
    Whole(&'a [u8]),
    /// The line was longer than [`MOST_LINE_BYTES`] and was dropped.
    TooLong,
}

/// Reader of lines, which keeps at most one line in memory.
pub struct Lines<R> {
    reader: R,
    line: Vec<u8>,
    /// Whether the current line has been returned.
    is_done: bool,
    /// Whether the start of the line was dropped.
    is_too_long: bool,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    /// Reads lines from the reader's position.
    pub fn new(reader: R) -> Self {
        Self { reader, line: Vec::new(), is_done: false, is_too_long: false, number: 0 }
    }

    /// The underlying reader.
    pub fn reader(&self) -> &R {
        &self.reader
    }

    /// The underlying reader, so that its position can be changed.
    pub fn reader_mut(&mut self) -> &mut R {
        &mut self.reader
    }

    /// Number of the last line that was read, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The next complete line; `None` at the current end. A growing file may have more lines later.
    ///
    /// # Errors
    /// The reader fails.
    pub fn read(&mut self) -> io::Result<Option<Line<'_>>> {
        if std::mem::take(&mut self.is_done) {
            self.line.clear();
            self.is_too_long = false;
        }
        loop {
            let room = MOST_LINE_BYTES + 1 - self.line.len();
            self.reader.by_ref().take(room as u64).read_until(b'\n', &mut self.line)?;
            if let Some(length) = self.line.len().checked_sub(1).filter(|last| self.line[*last] == b'\n') {
                self.is_done = true;
                self.number += 1;
                return Ok(Some(if self.is_too_long { Line::TooLong } else { Line::Whole(&self.line[..length]) }));
            }
            if self.line.len() <= MOST_LINE_BYTES {
                return Ok(None);
            }
            self.is_too_long = true;
            self.line.clear();
        }
    }

    /// The text after the last line break, once nothing more will be written. It counts as a line.
    pub fn rest(&mut self) -> Option<Line<'_>> {
        let is_line = !self.is_done && (self.is_too_long || !self.line.is_empty());
        is_line.then(|| {
            self.is_done = true;
            self.number += 1;
            if self.is_too_long { Line::TooLong } else { Line::Whole(&self.line) }
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{BufReader, Cursor};

    use super::*;

    #[test]
    fn lines_come_one_by_one_and_what_has_no_end_comes_last() {
        let mut lines = Lines::new(Cursor::new(b"one\n\nthree"));
        assert_eq!(lines.read().unwrap(), Some(Line::Whole(b"one")));
        assert_eq!(lines.read().unwrap(), Some(Line::Whole(b"")));
        assert_eq!(lines.read().unwrap(), None);
        assert_eq!(lines.number(), 2);
        assert_eq!(lines.rest(), Some(Line::Whole(b"three")));
        assert_eq!(lines.rest(), None);
        assert_eq!(lines.number(), 3);
    }

    #[test]
    fn a_line_that_is_too_long_is_dropped_and_takes_no_memory() {
        let endless = io::repeat(b'x').take(20 * MOST_LINE_BYTES as u64);
        let mut lines = Lines::new(BufReader::new(endless.chain(Cursor::new(b"\nnext\n"))));
        assert_eq!(lines.read().unwrap(), Some(Line::TooLong));
        assert!(lines.line.capacity() <= 2 * MOST_LINE_BYTES + 64, "{}", lines.line.capacity());
        assert_eq!(lines.read().unwrap(), Some(Line::Whole(b"next")));
        assert_eq!(lines.read().unwrap(), None);
        assert_eq!(lines.rest(), None);
        let mut longest = Lines::new(Cursor::new([vec![b'x'; MOST_LINE_BYTES], b"\n".to_vec()].concat()));
        assert!(matches!(longest.read().unwrap(), Some(Line::Whole(line)) if line.len() == MOST_LINE_BYTES));
    }
}
