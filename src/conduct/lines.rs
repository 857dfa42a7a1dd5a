//! Messages as lines of JSON over a stream.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longest line. A plan has at most 1 MiB; a queue of 100,000 runs some 12 MiB.
const MOST_LINE_BYTES: usize = 64 << 20;

/// Reads lines from a stream.
pub(super) struct Lines {
    stream: BufReader<UnixStream>,
    /// The start of a line whose rest has not arrived yet.
    line: Vec<u8>,
}

impl Lines {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self { stream: BufReader::with_capacity(1 << 16, stream), line: Vec::new() }
    }

    pub(super) fn stream(&self) -> &UnixStream {
        self.stream.get_ref()
    }

    /// The next message; `None` when the stream has ended.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when the stream's timeout is over; the line can be waited for again. Other errors end the stream.
    pub(super) fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let room = MOST_LINE_BYTES.saturating_sub(self.line.len()) as u64;
        self.stream.by_ref().take(room).read_until(b'\n', &mut self.line)?;
        if self.line.pop_if(|byte| *byte == b'\n').is_none() {
            // A line without an end was cut off, and is ignored.
            let is_long = self.line.len() >= MOST_LINE_BYTES;
            return if is_long { Err(io::Error::other("a line that never ends")) } else { Ok(None) };
        }
        let message = serde_json::from_slice(&self.line).map_err(io::Error::from);
        self.line.clear();
        message.map(Some)
    }
}

/// A message as a line.
pub(super) fn line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Writes a message.
pub(super) fn write(mut stream: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    stream.write_all(&line(message)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_line_that_arrives_in_pieces_is_read_once_it_is_whole_and_a_cut_one_never() {
        let (sending_end, receiving_end) = UnixStream::pair().unwrap();
        receiving_end.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let mut lines = Lines::new(receiving_end);
        (&sending_end).write_all(b"[1,").unwrap();
        assert_eq!(lines.next::<Vec<u32>>().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        (&sending_end).write_all(b"2]\n\"no list\"\n[3").unwrap();
        assert_eq!(lines.next::<Vec<u32>>().unwrap(), Some(vec![1, 2]));
        assert!(lines.next::<Vec<u32>>().unwrap_err().to_string().contains("expected a sequence"));
        drop(sending_end);
        assert_eq!(lines.next::<Vec<u32>>().unwrap(), None);
    }
}
