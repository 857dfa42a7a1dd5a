//! Frames: a line of JSON, `[message, bytes]`, followed by this number of bytes.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::plan::Node;
use crate::protocol::Sample;
use crate::session::Places;

/// Version of the frames. It is increased with each change to them.
pub(super) const VERSION: u32 = 2;
/// The start of the relay's first line; everything before it was printed by a shell.
pub(super) const GREETING: &str = "multicard-relay ";

/// Longest line. The first line of a connection lists the files of the active runs.
const MOST_LINE_BYTES: u64 = 16 << 20;
/// Most bytes after a line.
pub(super) const MOST_BODY_BYTES: usize = 256 << 10;
/// The number of bytes at the end of a file whose checksum identifies its content.
const END_BYTES: u64 = 4096;

/// The relay's first line, which is not compressed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Greeting {
    /// The relay's version of the frames.
    pub frames: u32,
    /// Its version of multicard.
    pub multicard: String,
    /// The home folder on the node.
    pub home: String,
}

/// A message from this machine to the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Up {
    /// The first frame: what the copy contains.
    Have(Have),
    /// Sent regularly, to show that the connection is alive.
    Beat,
    /// Connect a channel to the conductor. If `start` is set and there is no conductor, start one.
    Open { channel: u32, start: bool },
    /// The bytes of a channel.
    Bytes { channel: u32 },
    /// A channel has ended.
    Close { channel: u32 },
    /// Describe the machine.
    Look,
    /// Read its topology, data sets and disks.
    Places,
    /// Sample the machine at this interval in seconds; `None` stops that.
    Watch(Option<f64>),
}

/// A message from the node to this machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Down {
    /// The copy belongs to another session: delete its files.
    Reset,
    /// Bytes of a file of the session; with `new`, the file starts again from its beginning.
    File { path: String, offset: u64, new: bool },
    /// The copy now has everything that existed when the connection was opened.
    Synced {
        /// Whether there is a session.
        exists: bool,
    },
    /// The bytes of a channel.
    Bytes { channel: u32 },
    /// A channel has ended, or could not be connected for this reason.
    Closed { channel: u32, reason: Option<String> },
    /// The machine.
    Node(Box<Node>),
    /// Its topology, data sets and disks.
    Places(Box<Places>),
    /// A sample of the machine.
    Sample(Box<Sample>),
    /// Something failed.
    Problem(String),
}

/// The contents of a copy: the length of its journal, and the lengths of the files of runs whose end the journal does not record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Have {
    pub journal: Held,
    /// The files, by their paths within the session.
    pub files: BTreeMap<String, Held>,
}

/// The part of a file that a copy has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    pub bytes: u64,
    /// Checksum of the last 4 KiB of this part.
    pub end: String,
}

impl Held {
    /// The first bytes of a file.
    pub(super) fn of(file: &std::fs::File, bytes: u64) -> io::Result<Self> {
        use std::os::unix::fs::FileExt;
        let mut end = vec![0; bytes.min(END_BYTES) as usize];
        let from = bytes - end.len() as u64;
        file.read_exact_at(&mut end, from)?;
        let end = Sha256::digest(&end).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { bytes, end })
    }

    /// Whether a file begins with the bytes that the copy has.
    pub(super) fn is_of(&self, file: &std::fs::File) -> io::Result<bool> {
        Ok(file.metadata()?.len() >= self.bytes && Self::of(file, self.bytes)? == *self)
    }
}

pub(super) fn write(out: &mut impl Write, message: &impl Serialize, body: &[u8]) -> io::Result<()> {
    let mut line = serde_json::to_vec(&(message, body.len()))?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.write_all(body)
}

/// The next frame; `None` at the end.
pub(super) fn read<T: DeserializeOwned>(input: &mut impl BufRead) -> io::Result<Option<(T, Vec<u8>)>> {
    let mut line = Vec::new();
    input.by_ref().take(MOST_LINE_BYTES).read_until(b'\n', &mut line)?;
    if line.last() != Some(&b'\n') {
        return if line.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
    }
    let (message, bytes): (T, usize) = serde_json::from_slice(&line)?;
    if bytes > MOST_BODY_BYTES {
        return Err(io::Error::other(format!("a frame of {bytes} bytes")));
    }
    let mut body = vec![0; bytes];
    input.read_exact(&mut body)?;
    Ok(Some((message, body)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written_and_a_cut_one_is_an_error() {
        let mut stream = Vec::new();
        write(&mut stream, &Up::Bytes { channel: 7 }, b"two\nlines").unwrap();
        write(&mut stream, &Up::Beat, b"").unwrap();
        let mut input = stream.as_slice();
        assert_eq!(read(&mut input).unwrap(), Some((Up::Bytes { channel: 7 }, b"two\nlines".to_vec())));
        assert_eq!(read(&mut input).unwrap(), Some((Up::Beat, Vec::new())));
        assert_eq!(read::<Up>(&mut input).unwrap(), None);
        for cut in 1..stream.len() - 12 {
            assert!(read::<Up>(&mut &stream[..cut]).is_err(), "{cut}");
        }
        assert!(read::<Up>(&mut b"[\"beat\",999999999]\n".as_slice()).is_err());
    }
}
