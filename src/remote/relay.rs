//! The relay on the node. It connects its standard input and output with a session and the session's conductor.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::compressed::Compressed;
use super::feed::Feed;
use super::frame::{self, Down, GREETING, Greeting, Up, VERSION};
use crate::conduct;
use crate::plan::Node;
use crate::protocol::Sample;
use crate::session::{Machine, Places};
use crate::telemetry::{Sampler, Watch, read_node};

/// Time between two checks of the folder, and shortest time between two batches.
const BATCH_INTERVAL: Duration = Duration::from_millis(200);
/// If the other end has sent nothing for this long, it is gone.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);
/// Most bytes that a writable pipe or socket accepts without blocking.
const WRITE_BYTES: usize = 4 << 10;
/// The most messages that wait to be handled.
const IN_FLIGHT: usize = 64;
/// Most bytes of a channel in one frame.
const PIECE_BYTES: usize = 64 << 10;
/// Capacity of the channel of samples.
const SAMPLES_IN_FLIGHT: usize = 8;

enum Arrived {
    Up(Up, Vec<u8>),
    /// The connection has ended.
    Over,
    Opened(u32, UnixStream),
    Bytes(u32, Vec<u8>),
    Closed(u32, Option<String>),
    Machine(Box<Machine>),
    Places(Box<Places>),
}

/// Relays a session until standard input ends. A path that begins with `~/` is relative to the home folder.
///
/// # Errors
/// The connection broke.
pub fn relay(session: &Path) -> io::Result<()> {
    let home = std::env::home_dir().unwrap_or_else(|| PathBuf::from("/"));
    let folder = session.strip_prefix("~").map_or_else(|_| session.to_owned(), |rest| home.join(rest));
    // Relative paths of plans start from the home folder.
    let folder = std::path::absolute(folder)?;
    let (sender, arrived) = sync_channel(IN_FLIGHT);
    // Without the library's buffer, which would be written at unknown times.
    let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let mut stdout = Patient { out: stdout, patience: SILENCE_LIMIT };
    let multicard = env!("CARGO_PKG_VERSION").to_owned();
    let greeting = Greeting { frames: VERSION, multicard, home: home.display().to_string() };
    writeln!(stdout, "{GREETING}{}", serde_json::to_string(&greeting)?)?;
    stdout.flush()?;
    let for_input = sender.clone();
    thread::Builder::new().name("input".to_owned()).spawn(move || read_input(&for_input))?;
    let mut relay = Relay {
        feed: Feed::new(&folder),
        folder,
        is_fed: false,
        is_synced: false,
        sender,
        channels: BTreeMap::new(),
        outgoing: Vec::new(),
        node: None,
        gpu_uuids: Vec::new(),
        watch: None,
        out: Compressed::new(stdout),
        has_written: false,
        last_problem: None,
    };
    relay.work(&arrived)
}

/// Writes to another process with a time limit: without a network, ssh stops reading, and may notice the loss only after a quarter of an
/// hour.
struct Patient<W> {
    out: W,
    patience: Duration,
}

impl<W: Write + AsFd> Write for Patient<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let patience = Timespec::try_from(self.patience).map_err(io::Error::other)?;
        let mut ready = [PollFd::new(&self.out, PollFlags::OUT)];
        if poll(&mut ready, Some(&patience))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.out.write(&bytes[..bytes.len().min(WRITE_BYTES)])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn read_input(arrived: &SyncSender<Arrived>) {
    let mut input = BufReader::new(io::stdin().lock());
    while let Ok(Some((up, body))) = frame::read(&mut input) {
        if arrived.send(Arrived::Up(up, body)).is_err() {
            return;
        }
    }
    let _ = arrived.send(Arrived::Over);
}

struct Relay<W: Write> {
    folder: PathBuf,
    feed: Feed,
    /// Whether the relay knows what the copy contains.
    is_fed: bool,
    is_synced: bool,
    sender: SyncSender<Arrived>,
    /// Streams to the conductor; `None` while one is being connected.
    channels: BTreeMap<u32, Option<UnixStream>>,
    /// Frames of channels and answers that wait for the next batch.
    outgoing: Vec<(Down, Vec<u8>)>,
    node: Option<Node>,
    gpu_uuids: Vec<String>,
    watch: Option<(Sampler, Receiver<(String, Sample)>)>,
    out: Compressed<W>,
    has_written: bool,
    last_problem: Option<String>,
}

impl<W: Write> Relay<W> {
    fn work(&mut self, arrived: &Receiver<Arrived>) -> io::Result<()> {
        let (mut heard, mut sent) = (Instant::now(), Instant::now());
        while heard.elapsed() < SILENCE_LIMIT {
            match arrived.recv_timeout(BATCH_INTERVAL.saturating_sub(sent.elapsed())) {
                Ok(Arrived::Over) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Ok(Arrived::Up(up, body)) => {
                    heard = Instant::now();
                    self.take(up, &body)?;
                }
                Ok(other) => self.note(other)?,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if sent.elapsed() >= BATCH_INTERVAL {
                self.batch()?;
                sent = Instant::now();
            }
        }
        Ok(())
    }

    fn take(&mut self, up: Up, body: &[u8]) -> io::Result<()> {
        match up {
            Up::Beat => {}
            Up::Have(have) => {
                if !self.feed.resume(&have)? {
                    self.feed = Feed::new(&self.folder);
                    self.send(&Down::Reset, &[])?;
                }
                self.is_fed = true;
            }
            Up::Open { channel, start } => {
                self.channels.insert(channel, None);
                let (folder, sender) = (self.folder.clone(), self.sender.clone());
                let open = move || connect(&folder, channel, start, &sender);
                thread::Builder::new().name(format!("channel-{channel}")).spawn(open)?;
            }
            Up::Bytes { channel } => {
                if let Some(Some(stream)) = self.channels.get_mut(&channel)
                    && stream.write_all(body).is_err()
                {
                    // Its reader reports that it has ended.
                    let _ = stream.shutdown(Shutdown::Both);
                }
            }
            Up::Close { channel } => {
                if let Some(Some(stream)) = self.channels.remove(&channel) {
                    let _ = stream.shutdown(Shutdown::Both);
                }
            }
            Up::Look => {
                let sender = self.sender.clone();
                let look = move || {
                    let _ = sender.send(Arrived::Machine(Box::new(Machine::look())));
                };
                thread::Builder::new().name("machine".to_owned()).spawn(look)?;
            }
            Up::Places => {
                let (sender, folder, node) = (self.sender.clone(), self.folder.clone(), self.node.clone());
                let look = move || {
                    let node = node.unwrap_or_else(read_node);
                    let _ = sender.send(Arrived::Places(Box::new(Places::look(&node, Some(folder)))));
                };
                thread::Builder::new().name("places".to_owned()).spawn(look)?;
            }
            Up::Watch(interval_s) => self.watch(interval_s),
        }
        Ok(())
    }

    fn note(&mut self, arrived: Arrived) -> io::Result<()> {
        match arrived {
            Arrived::Opened(channel, stream) => match self.channels.get_mut(&channel) {
                Some(place) => *place = Some(stream),
                None => stream.shutdown(Shutdown::Both)?,
            },
            Arrived::Bytes(channel, bytes) => self.outgoing.push((Down::Bytes { channel }, bytes)),
            Arrived::Closed(channel, reason) => {
                self.channels.remove(&channel);
                self.outgoing.push((Down::Closed { channel, reason }, Vec::new()));
            }
            Arrived::Machine(machine) => {
                let node: Node = machine.node;
                self.gpu_uuids = node.gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
                self.node = Some(node.clone());
                if let Some((sampler, _)) = &self.watch {
                    sampler.watch(Watch { gpu_uuids: self.gpu_uuids.clone(), ..Watch::default() });
                }
                self.outgoing.push((Down::Node(Box::new(node)), Vec::new()));
            }
            Arrived::Places(places) => self.outgoing.push((Down::Places(places), Vec::new())),
            Arrived::Up(..) | Arrived::Over => {}
        }
        Ok(())
    }

    fn watch(&mut self, interval_s: Option<f64>) {
        self.watch = None;
        let Some(interval) = interval_s.and_then(|s| Duration::try_from_secs_f64(s).ok()) else { return };
        let (sink, samples) = sync_channel(SAMPLES_IN_FLIGHT);
        match Sampler::start(interval, sink) {
            Ok(sampler) => {
                sampler.watch(Watch { gpu_uuids: self.gpu_uuids.clone(), ..Watch::default() });
                self.watch = Some((sampler, samples));
            }
            Err(error) => self.outgoing.push((Down::Problem(error.to_string()), Vec::new())),
        }
    }

    /// Sends what is new in the folder, and then what the conductor sent before this batch began.
    fn batch(&mut self) -> io::Result<()> {
        if !self.is_fed {
            return Ok(());
        }
        let mut written = Ok(());
        let (out, has_written) = (&mut self.out, &mut self.has_written);
        let passed = self.feed.pass(&mut |down, body| {
            *has_written = true;
            // An error of the connection ends the relay; an error of the folder does not.
            frame::write(out, &down, body).map_err(|error| {
                written = Err(error);
                io::ErrorKind::BrokenPipe.into()
            })
        });
        written?;
        match passed {
            Ok(exists) if !self.is_synced => {
                self.is_synced = true;
                self.send(&Down::Synced { exists }, &[])?;
            }
            Ok(_) => self.last_problem = None,
            Err(error) => {
                let message = format!("reading {} on the node: {error}", self.folder.display());
                if self.last_problem.as_ref() != Some(&message) {
                    self.send(&Down::Problem(message.clone()), &[])?;
                    self.last_problem = Some(message);
                }
            }
        }
        for (down, body) in std::mem::take(&mut self.outgoing) {
            self.send(&down, &body)?;
        }
        if let Some((_, samples)) = &self.watch
            && let Some((_, sample)) = samples.try_iter().last()
        {
            self.send(&Down::Sample(Box::new(sample)), &[])?;
        }
        if std::mem::take(&mut self.has_written) {
            self.out.flush()?;
        }
        Ok(())
    }

    fn send(&mut self, down: &Down, body: &[u8]) -> io::Result<()> {
        self.has_written = true;
        frame::write(&mut self.out, down, body)
    }
}

/// Connects a channel to the conductor and reads from it until it ends.
fn connect(session: &Path, channel: u32, start: bool, arrived: &SyncSender<Arrived>) {
    let stream = if start { conduct::stream_or_start(session).map(Some) } else { conduct::stream(session) };
    let stream = stream.map_err(|error| error.to_string());
    let opened = stream.and_then(|stream| {
        let copy = stream.map(|stream| stream.try_clone().map(|copy| (stream, copy))).transpose();
        copy.map_err(|error| format!("connecting to the session's conductor: {error}"))
    });
    let reason = match opened {
        Ok(Some((mut stream, copy))) => {
            let _ = arrived.send(Arrived::Opened(channel, copy));
            let mut bytes = vec![0; PIECE_BYTES];
            while let Ok(read @ 1..) = stream.read(&mut bytes) {
                if arrived.send(Arrived::Bytes(channel, bytes[..read].to_vec())).is_err() {
                    return;
                }
            }
            None
        }
        Ok(None) => None,
        Err(reason) => Some(reason),
    };
    let _ = arrived.send(Arrived::Closed(channel, reason));
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn who_takes_nothing_for_long_is_given_up_and_who_is_slow_is_not() {
        let (sending_end, mut receiving_end) = UnixStream::pair().unwrap();
        let mut out = Patient { out: sending_end, patience: Duration::from_secs(1) };
        let all = vec![7; 4 << 20];
        let mut taken = vec![0; all.len()];
        thread::scope(|scope| {
            let slow = thread::Builder::new().spawn_scoped(scope, || {
                for part in taken.chunks_mut(1 << 20) {
                    thread::sleep(Duration::from_millis(10));
                    receiving_end.read_exact(part).unwrap();
                }
            });
            out.write_all(&all).unwrap();
            slow.unwrap().join().unwrap();
        });
        assert_eq!(taken, all);
        // From here on nobody reads.
        assert_eq!(out.write_all(&all).unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
