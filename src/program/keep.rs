//! Keeps a limited part of a program's output.

use std::collections::VecDeque;
use std::io::{self, Write};

/// The number of bytes that are kept from the start of a stream.
pub(super) const FIRST_BYTES: u64 = 8 << 20;
/// The number of bytes that are kept from its end, if the stream is longer.
pub(super) const LAST_BYTES: usize = 256 << 10;
/// The number of bytes at the end that a failure message may use.
const TOLD_BYTES: usize = 4096;
/// The number of lines at the end that a failure message may use.
const TOLD_LINES: usize = 5;

/// A stream of output on its way to the run's log.
pub(super) struct Keep<W> {
    log: W,
    name: &'static str,
    seen: u64,
    last: VecDeque<u8>,
    /// Whether some output could not be written, which is reported once.
    has_lost: bool,
}

impl<W: Write> Keep<W> {
    pub fn new(log: W, name: &'static str) -> Self {
        Self { log, name, seen: 0, last: VecDeque::new(), has_lost: false }
    }

    /// Adds output. When output is left out for the first time, returns the message for the user.
    ///
    /// # Errors
    /// Output could not be written, for the first time.
    pub fn push(&mut self, bytes: &[u8]) -> io::Result<Option<String>> {
        let room = usize::try_from(FIRST_BYTES.saturating_sub(self.seen)).unwrap_or(usize::MAX);
        let (kept, over) = bytes.split_at(room.min(bytes.len()));
        let written = self.log.write_all(kept);
        let was_full = self.seen > FIRST_BYTES;
        self.seen += bytes.len() as u64;
        self.last.extend(&bytes[bytes.len().saturating_sub(LAST_BYTES)..]);
        let surplus = self.last.len().saturating_sub(LAST_BYTES);
        self.last.drain(..surplus);
        self.once(written)?;
        Ok((!over.is_empty() && !was_full).then(|| {
            format!(
                "the program wrote more than {} MB to its {}: the log keeps its start and its last {} kB",
                FIRST_BYTES >> 20,
                self.name,
                LAST_BYTES >> 10
            )
        }))
    }

    /// Whether nothing was printed.
    pub fn is_empty(&self) -> bool {
        self.seen == 0
    }

    /// Writes the kept end of a stream that was too long.
    ///
    /// # Errors
    /// Those of [`Self::push`].
    pub fn finish(&mut self) -> io::Result<()> {
        let written = self.write_end();
        self.once(written)
    }

    /// The first error; later ones count as success.
    fn once(&mut self, written: io::Result<()>) -> io::Result<()> {
        let had_lost = self.has_lost;
        self.has_lost |= written.is_err();
        if had_lost { Ok(()) } else { written }
    }

    fn write_end(&mut self) -> io::Result<()> {
        let over = self.seen.saturating_sub(FIRST_BYTES);
        let tail = usize::try_from(over).unwrap_or(usize::MAX).min(self.last.len());
        let left_out = over - tail as u64;
        if left_out > 0 {
            write!(self.log, "\n[multicard: {left_out} bytes of output are left out here]\n")?;
        }
        let skipped = self.last.len() - tail;
        let tail: Vec<u8> = self.last.iter().skip(skipped).copied().collect();
        self.log.write_all(&tail)?;
        self.log.flush()
    }

    /// The last lines of the stream that are not empty, on one line.
    pub fn last_lines(&self) -> String {
        let bytes: Vec<u8> = self.last.iter().skip(self.last.len().saturating_sub(TOLD_BYTES)).copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let plain = |line: &str| line.chars().filter(|c| !c.is_control()).collect::<String>();
        let lines: Vec<String> = text.lines().map(|line| plain(line).trim().to_owned()).collect();
        let mut last: Vec<&str> = lines.iter().map(String::as_str).filter(|line| !line.is_empty()).collect();
        last.drain(..last.len().saturating_sub(TOLD_LINES));
        last.join(" | ")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn output_that_a_full_disk_refuses_is_told_once_and_still_known_to_a_message() {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut keep = Keep::new(full, "standard output");
        assert!(keep.push(b"loading\n").is_err());
        assert_eq!(keep.push(b"no space\n").unwrap(), None);
        keep.finish().unwrap();
        assert_eq!(keep.last_lines(), "loading | no space");
    }

    #[test]
    fn short_output_is_kept_whole_and_long_output_by_its_start_and_its_end() {
        let mut short = Keep::new(Vec::new(), "standard output");
        assert_eq!(short.push(b"one\n\x1b[31mtwo\x00\n\n").unwrap(), None);
        short.finish().unwrap();
        assert_eq!((short.log.as_slice(), &*short.last_lines()), (&b"one\n\x1b[31mtwo\x00\n\n"[..], "one | [31mtwo"));
        short.push(b"3\n4\n5\n6\n7\n").unwrap();
        assert_eq!(short.last_lines(), "3 | 4 | 5 | 6 | 7", "the last five lines");
        let mut long = Keep::new(Vec::new(), "standard output");
        let line = [b"0123456789abcde".as_slice(), b"\n"].concat();
        let chunk = line.repeat(4096);
        let mut notices = Vec::new();
        for _ in 0..200 {
            notices.extend(long.push(&chunk).unwrap());
        }
        long.push(b"the end\n").unwrap();
        long.finish().unwrap();
        assert_eq!(notices.len(), 1, "it is said once");
        assert!(notices[0].contains("more than 8 MB to its standard output"), "{notices:?}");
        let text = String::from_utf8_lossy(&long.log);
        assert!(long.log.len() < (FIRST_BYTES as usize + LAST_BYTES + 100) && text.ends_with("abcde\nthe end\n"));
        let left_out = 200 * chunk.len() as u64 + 8 - FIRST_BYTES - LAST_BYTES as u64;
        assert!(text.contains(&format!("[multicard: {left_out} bytes of output are left out here]")));
    }
}
