//! Compression of the bytes on a connection. After a flush, all bytes have been written.

use std::io::{self, Write};

use flate2::{Compress, Compression, FlushCompress};

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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{BufRead, BufReader, Read};
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::sync_channel;
    use std::thread;
    use std::time::Duration;

    use flate2::bufread::ZlibDecoder;
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

    #[test]
    fn whatever_was_written_arrives_once_it_was_flushed() {
        let (here, there) = UnixStream::pair().unwrap();
        let (arrived, arrivals) = sync_channel(64);
        let read = move || {
            let mut frames = BufReader::new(ZlibDecoder::new(BufReader::new(there)));
            let mut line = String::new();
            while let Ok(1..) = frames.read_line(&mut line) {
                let mut body = vec![0; line.trim().parse().unwrap()];
                frames.read_exact(&mut body).unwrap();
                arrived.send(body).unwrap();
                line.clear();
            }
        };
        let reader = thread::Builder::new().spawn(read).unwrap();
        let mut out = Compressed::new(Slow(here));
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
