//! Compression of the bytes on a connection. After a flush, all bytes have been written, and all of them can be read at the other end.

use std::io::{self, BufRead, Read, Write};

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// Room for compressed bytes that wait to be written.
const ROOM_BYTES: usize = 32 << 10;

/// Compresses what is written, as zlib. `ZlibEncoder` of flate2 is not suitable: if a flush has more to write than its buffer can hold, it
/// keeps the last bytes until something else is written.
pub(super) struct Compressed<W> {
    out: W,
    compress: Compress,
    /// Compressed bytes that are not written yet.
    ready: Vec<u8>,
}

impl<W: Write> Compressed<W> {
    pub(super) fn new(out: W) -> Self {
        let compress = Compress::new(Compression::default(), true);
        Self { out, compress, ready: Vec::with_capacity(ROOM_BYTES) }
    }

    fn write_ready(&mut self) -> io::Result<()> {
        while !self.ready.is_empty() {
            let written = self.out.write(&self.ready)?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.ready.drain(..written);
        }
        Ok(())
    }
}

impl<W: Write> Write for Compressed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let before = self.compress.total_in();
        loop {
            self.write_ready()?;
            self.compress.compress_vec(bytes, &mut self.ready, FlushCompress::None)?;
            let taken = (self.compress.total_in() - before) as usize;
            if taken > 0 || bytes.is_empty() {
                return Ok(taken);
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        loop {
            self.write_ready()?;
            self.compress.compress_vec(&[], &mut self.ready, FlushCompress::Sync)?;
            // If the buffer was filled completely, there may be more.
            if self.ready.len() < self.ready.capacity() {
                break;
            }
        }
        self.write_ready()?;
        self.out.flush()
    }
}

/// Reads what [`Compressed`] wrote. `ZlibDecoder` of flate2 is not suitable: it waits for further compressed bytes while it still holds
/// bytes that it has decompressed, if an earlier reader's buffer was too small for them.
pub(super) struct Decompressed<R> {
    compressed: R,
    decompress: Decompress,
    /// Whether bytes may be held that the last reader had no room for.
    holds: bool,
}

impl<R: BufRead> Decompressed<R> {
    pub(super) fn new(compressed: R) -> Self {
        Self { compressed, decompress: Decompress::new(true), holds: false }
    }
}

impl<R: BufRead> Read for Decompressed<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if room.is_empty() {
            return Ok(0);
        }
        loop {
            let was_held = self.holds;
            let bytes = if was_held { &[] } else { self.compressed.fill_buf()? };
            let is_end = !was_held && bytes.is_empty();
            let (taken, given) = (self.decompress.total_in(), self.decompress.total_out());
            let how = if is_end { FlushDecompress::Finish } else { FlushDecompress::None };
            let status = self.decompress.decompress(bytes, room, how).map_err(io::Error::from)?;
            let given = (self.decompress.total_out() - given) as usize;
            if !was_held {
                self.compressed.consume((self.decompress.total_in() - taken) as usize);
            }
            self.holds = given == room.len();
            if given > 0 || is_end || status == Status::StreamEnd {
                return Ok(given);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fmt::Write as _;
    use std::io::BufReader;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::sync_channel;
    use std::thread;
    use std::time::Duration;

    use rand::{Rng, SeedableRng};

    use super::*;

    /// Takes little at a time, as a line does.
    struct Slow(UnixStream);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(&bytes[..bytes.len().min(4096)])
        }

        fn flush(&mut self) -> io::Result<()> {
            self.0.flush()
        }
    }

    /// Gives bytes in pieces, and fails where a reader of a line would wait for more.
    struct Arrived<'b> {
        bytes: &'b [u8],
        piece: usize,
    }

    impl Read for Arrived<'_> {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            if self.bytes.is_empty() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let room_bytes = room.len().min(self.piece);
            self.bytes.read(&mut room[..room_bytes])
        }
    }

    #[test]
    fn nothing_that_was_flushed_is_kept_back_until_more_arrives() {
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(3);
        for batch in 0..120 {
            // As the dump of a file, which compresses to about half.
            let mut text = String::new();
            while text.len() < 60_000 + 2_000 * batch {
                let words = [0; 4].map(|_: u32| random.next_u32() & 0xffff);
                writeln!(text, "{batch:07o} {words:04x?}").unwrap();
            }
            let mut out = Compressed::new(Vec::new());
            out.write_all(text.as_bytes()).unwrap();
            out.flush().unwrap();
            for piece in [1000, 4096, 65_536] {
                let arrived = Arrived { bytes: &out.out, piece };
                let compressed = BufReader::with_capacity(65_536, arrived);
                let mut read = BufReader::with_capacity(65_536, Decompressed::new(compressed));
                let mut bytes = Vec::new();
                while bytes.len() < text.len()
                    && let Ok(part) = read.fill_buf()
                {
                    bytes.extend_from_slice(part);
                    let length = part.len();
                    read.consume(length);
                }
                let (found, expected) = (bytes.len(), text.len());
                assert!(bytes == text.as_bytes(), "batch {batch} in pieces of {piece}: {found} bytes of {expected}");
            }
        }
    }

    #[test]
    fn whatever_was_written_arrives_once_it_was_flushed() {
        let (sending_end, receiving_end) = UnixStream::pair().unwrap();
        let (arrived, arrivals) = sync_channel(64);
        let read = move || {
            let mut frames = BufReader::new(Decompressed::new(BufReader::new(receiving_end)));
            let mut line = String::new();
            while let Ok(1..) = frames.read_line(&mut line) {
                let mut body = vec![0; line.trim().parse().unwrap()];
                frames.read_exact(&mut body).unwrap();
                arrived.send(body).unwrap();
                line.clear();
            }
        };
        let reader = thread::Builder::new().spawn(read).unwrap();
        let mut out = Compressed::new(Slow(sending_end));
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(7);
        for batch in 0..100 {
            let mut below = |limit: usize| random.next_u32() as usize % limit;
            let sizes: Vec<(usize, usize)> = (0..=below(5)).map(|_| (below(200_000), below(200_000))).collect();
            let body = |(length, noise): (usize, usize)| {
                // Between what compresses to nothing and what does not compress.
                let mut body = vec![b'x'; length];
                random.fill_bytes(&mut body[..noise.min(length)]);
                body
            };
            let bodies: Vec<Vec<u8>> = sizes.into_iter().map(body).collect();
            for body in &bodies {
                writeln!(out, "{}", body.len()).unwrap();
                out.write_all(body).unwrap();
            }
            out.flush().unwrap();
            for body in bodies {
                let arrival = arrivals.recv_timeout(Duration::from_secs(60));
                assert!(arrival.is_ok_and(|arrival| arrival == body), "batch {batch}: something was kept back");
            }
        }
        drop(out);
        let _ = reader.join();
    }
}
