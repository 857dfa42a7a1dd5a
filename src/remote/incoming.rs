//! Receives the output of a relay: its greeting, and then frames, some of which build the copy. The node is only trusted with its own
//! session: what it sends is limited in size, stays inside the copy, and is safe to show.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use super::compressed::Decompressed;
use super::copy::Copy;
use super::frame::{self, Down, GREETING, Greeting, VERSION};
use crate::foreign;
use crate::protocol::check_sample;

/// Most bytes that shells on the node may print before the relay's greeting.
const MOST_NOISE_BYTES: u64 = 64 << 10;
/// Capacity of the reader of frames.
const FRAMES_BYTES: usize = 64 << 10;

/// Why a connection ended.
#[derive(Debug)]
pub(super) enum Ended {
    Line(io::Error),
    Copy(io::Error),
    /// The relay has this version of multicard, which uses other frames.
    Version(String),
}

/// Reads the relay's first line, after anything that shells on the node print.
pub(super) fn greeting(output: &mut impl BufRead) -> io::Result<Greeting> {
    let mut noise = 0;
    loop {
        let mut line = Vec::new();
        let read = output.by_ref().take(MOST_NOISE_BYTES).read_until(b'\n', &mut line)? as u64;
        noise += read;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = String::from_utf8_lossy(&line);
        if let Some(greeting) = line.strip_prefix(GREETING) {
            let Greeting { frames, multicard, home } =
                serde_json::from_str(greeting).map_err(|error| unreadable(&error.into()))?;
            return Ok(Greeting { frames, multicard: foreign::message(&multicard).into_owned(), home });
        }
        if noise > MOST_NOISE_BYTES {
            return Err(io::Error::other(
                "the node's shell prints so much that multicard's answer is not found: make its start files print nothing",
            ));
        }
    }
}

/// The error for input that a relay would not send.
fn unreadable(error: &io::Error) -> io::Error {
    let reason = format!(
        "the answer from the node is not what multicard sends ({error}): check whether a start file of its shell, or a program in \
             between, writes into the output of ssh"
    );
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// Receives the frames after the greeting: writes the copy, and passes other frames to `take`.
pub(super) fn receive(compressed: impl BufRead, copy: &Copy, take: &mut dyn FnMut(Down, Vec<u8>)) -> Result<(), Ended> {
    let mut frames = BufReader::with_capacity(FRAMES_BYTES, Decompressed::new(compressed));
    loop {
        let frame = frame::read(&mut frames).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Ended::Line(error),
            _ if error.raw_os_error().is_some() => Ended::Line(error),
            _ => Ended::Line(unreadable(&error)),
        })?;
        let Some((down, body)) = frame else { return Ok(()) };
        match down {
            Down::Reset => copy.reset().map_err(Ended::Copy)?,
            Down::File { path, offset, new } => copy.write(&path, offset, new, &body).map_err(|error| {
                if error.kind() == io::ErrorKind::InvalidData { Ended::Line(error) } else { Ended::Copy(error) }
            })?,
            // The next frame may be valid again.
            Down::Sample(sample) if check_sample(&sample).is_err() => {}
            Down::Problem(message) => take(Down::Problem(foreign::message(&message).into_owned()), body),
            Down::Closed { channel, reason } => {
                let reason = reason.map(|reason| foreign::message(&reason).into_owned());
                take(Down::Closed { channel, reason }, body);
            }
            Down::Synced { .. } | Down::Bytes { .. } | Down::Node(_) | Down::Places(_) | Down::Sample(_) => {
                take(down, body);
            }
        }
    }
}

/// Processes the recorded output of a relay, from its greeting on, into a copy, as a [`Line`](super::Line) does. Returns the number of
/// frames that do not concern the copy, and the texts in them that would be shown.
///
/// # Errors
/// Why a connection would end there.
pub fn replay(mut bytes: &[u8], copy: &Path) -> Result<(usize, Vec<String>), String> {
    let copy = Copy::new(copy).map_err(|error| error.to_string())?;
    let greeting = greeting(&mut bytes).map_err(|error| error.to_string())?;
    if greeting.frames != VERSION {
        return Err(format!("it is multicard {}", greeting.multicard));
    }
    let (mut count, mut shown) = (0, Vec::new());
    let received = receive(bytes, &copy, &mut |down, _| {
        count += 1;
        match down {
            Down::Problem(message) | Down::Closed { reason: Some(message), .. } => shown.push(message),
            _ => {}
        }
    });
    match received {
        Ok(()) => Ok((count, shown)),
        Err(Ended::Line(error) | Ended::Copy(error)) => Err(error.to_string()),
        Err(Ended::Version(theirs)) => Err(theirs),
    }
}
