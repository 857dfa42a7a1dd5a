//! The connection to a session on another machine.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::Address;
use super::copy::Copy;
use super::error::RemoteError;
use super::frame::{self, Down, Greeting, Have, Up, VERSION};
use super::incoming::{Ended, greeting, receive};
pub use super::ssh::Prompts;
use super::ssh::Ssh;
use crate::conduct::{Client, ConductError, until_served};
use crate::plan::Node;
use crate::protocol::Sample;
use crate::session::Places;
use crate::store;

/// The first and the longest time between two attempts to connect.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(30);
/// The time after which the user is told that the relay's greeting is late, and the time after which the attempt is given up: ssh servers
/// allow two minutes for a login.
const GREETING_TOLD: Duration = Duration::from_secs(10);
const GREETING_LIMIT: Duration = Duration::from_secs(120);
/// Time between two messages that show that the connection is alive.
const BEAT_INTERVAL: Duration = Duration::from_secs(10);
/// The most news that wait to be read.
const NEWS_IN_FLIGHT: usize = 64;
/// Most bytes of a channel in one frame.
const PIECE_BYTES: usize = 64 << 10;

/// Something that happened on a connection.
#[derive(Debug)]
pub enum LineNews {
    /// The copy has everything that the session had when the connection was opened.
    Ready(Reached),
    /// There is no connection; the next attempt follows after this time.
    Lost(RemoteError, Duration),
    /// The connection failed for a reason that another attempt does not change.
    Failed(RemoteError),
    /// The description of the node's machine.
    Node(Box<Node>),
    /// The topology, data sets and disks of the node's machine.
    Places(Box<Places>),
    /// A telemetry sample of the node's machine.
    Sample(Box<Sample>),
    /// A problem on the node or on this machine that does not end the connection.
    Problem(String),
}

/// A node after a connection was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Whether the session exists.
    pub exists: bool,
    /// The home folder on the node, where the relative paths of plans start.
    pub home: PathBuf,
}

/// A connection that is renewed whenever it breaks, until this value is dropped.
pub struct Line {
    shared: Arc<Shared>,
}

struct Shared {
    address: Address,
    copy: PathBuf,
    prompts: Prompts,
    news: SyncSender<LineNews>,
    state: Mutex<State>,
    changed: Condvar,
    /// The pipe for frames to the node; `None` without a connection. It has a lock of its own, because writing may block on the network.
    input: Mutex<Option<ChildStdin>>,
}

#[derive(Default)]
struct State {
    /// Whether the connection is not needed any more.
    is_over: bool,
    is_up: bool,
    ssh: Option<u32>,
    /// The number of the current connection, which identifies data of earlier ones.
    generation: u64,
    channels: BTreeMap<u32, UnixStream>,
    /// For each channel that could not be connected, the reason.
    refused: BTreeMap<u32, String>,
    next_channel: u32,
    /// Requests that are sent to the node again on every new connection: to describe its machine, and to sample it at this interval in
    /// seconds.
    looks: bool,
    watch_s: Option<f64>,
    received_bytes: u64,
    sent_bytes: u64,
}

impl Line {
    /// Opens the connection on a thread of its own, which sends news.
    ///
    /// # Errors
    /// There is no folder for the copy, or no more threads.
    pub fn open(address: Address, prompts: Prompts, news: SyncSender<LineNews>) -> Result<Self, RemoteError> {
        let failed = |reason: String| RemoteError::Copy { folder: "the user's cache".to_owned(), reason };
        let copy = address.copy_folder().map_err(failed)?;
        let (state, changed, input) = (Mutex::default(), Condvar::new(), Mutex::default());
        let shared = Arc::new(Shared { address, copy, prompts, news, state, changed, input });
        let keeping = Arc::clone(&shared);
        let started = thread::Builder::new().name("line".to_owned()).spawn(move || keeping.keep());
        started.map_err(|error| failed(error.to_string()))?;
        Ok(Self { shared })
    }

    /// Opens the connection and waits until the copy is up to date; `tell` receives problems that do not end it.
    ///
    /// # Errors
    /// There is no connection.
    pub fn reach(
        address: Address,
        prompts: Prompts,
        mut tell: impl FnMut(String),
    ) -> Result<(Self, Receiver<LineNews>, Reached), RemoteError> {
        let place = address.place();
        let (sender, news) = sync_channel(NEWS_IN_FLIGHT);
        let line = Self::open(address, prompts, sender)?;
        loop {
            match news.recv() {
                Ok(LineNews::Ready(reached)) => return Ok((line, news, reached)),
                Ok(LineNews::Lost(error, _) | LineNews::Failed(error)) => return Err(error),
                Ok(LineNews::Problem(message)) => tell(message),
                Ok(LineNews::Node(_) | LineNews::Places(_) | LineNews::Sample(_)) => {}
                Err(_) => return Err(RemoteError::broken(&place, &io::ErrorKind::UnexpectedEof.into())),
            }
        }
    }

    /// The session's address.
    pub fn address(&self) -> &Address {
        &self.shared.address
    }

    /// The folder of the copy.
    pub fn copy(&self) -> &Path {
        &self.shared.copy
    }

    /// Asks for a description of the machine, now and on every later connection.
    pub fn look(&self) {
        self.shared.lock().looks = true;
        self.shared.send(&Up::Look, &[]);
    }

    /// Asks for the machine's topology, data sets and disks.
    pub fn look_at_places(&self) {
        self.shared.send(&Up::Places, &[]);
    }

    /// Asks for telemetry samples of the machine at this interval; `None` stops them.
    pub fn watch(&self, interval: Option<Duration>) {
        let interval_s = interval.map(|interval| interval.as_secs_f64());
        self.shared.lock().watch_s = interval_s;
        self.shared.send(&Up::Watch(interval_s), &[]);
    }

    /// The number of the current or last connection; it grows when a connection ends.
    pub fn number(&self) -> u64 {
        self.shared.lock().generation
    }

    /// Bytes received from ssh and sent to it since the first connection was opened.
    pub fn traffic(&self) -> (u64, u64) {
        let state = self.shared.lock();
        (state.received_bytes, state.sent_bytes)
    }

    /// A client of the session's conductor, which is started if there is none.
    ///
    /// # Errors
    /// The connection is down, the conductor does not start, or its version differs.
    pub fn client_or_start(&self, live: bool) -> Result<Client, ConductError> {
        until_served(|| self.channel(true, live))
    }

    /// A client of the session's conductor; `None` if there is none.
    ///
    /// # Errors
    /// The connection is down, or the conductor's version differs.
    pub fn client(&self, live: bool) -> Result<Option<Client>, ConductError> {
        self.channel(false, live)
    }

    fn channel(&self, start: bool, live: bool) -> Result<Option<Client>, ConductError> {
        let session = PathBuf::from(self.shared.address.to_string());
        let failed =
            |source: io::Error| ConductError::Socket { doing: "opening a channel to", path: session.clone(), source };
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let reading = theirs.try_clone().map_err(failed)?;
        let (channel, generation) = {
            let mut state = self.shared.lock();
            if !state.is_up {
                return Err(ConductError::Refused(format!(
                    "there is no connection to {}",
                    self.shared.address.place()
                )));
            }
            state.next_channel += 1;
            let channel = state.next_channel;
            state.channels.insert(channel, theirs);
            (channel, state.generation)
        };
        self.shared.send(&Up::Open { channel, start }, &[]);
        let shared = Arc::clone(&self.shared);
        let forward = move || shared.forward(channel, generation, reading);
        thread::Builder::new().name(format!("channel-{channel}")).spawn(forward).map_err(failed)?;
        let client = Client::over(&session, ours, live)?;
        match self.shared.lock().refused.remove(&channel) {
            Some(reason) if client.is_none() => Err(ConductError::Refused(reason)),
            _ => Ok(client),
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_over = true;
        // The relay ends when its input ends.
        if let Some(ssh) = state.ssh.and_then(|ssh| Pid::from_raw(ssh.cast_signed())) {
            let _ = kill_process(ssh, Signal::TERM);
        }
        drop(state);
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, news: LineNews) {
        // If the value was dropped, nobody receives the news.
        let _ = self.news.send(news);
    }

    /// Sends a frame, if there is a connection.
    fn send(&self, up: &Up, body: &[u8]) {
        let mut frame = Vec::new();
        if frame::write(&mut frame, up, body).is_err() {
            return;
        }
        let mut input = self.input();
        // If ssh's input has ended, its output ends as well, and the reader of the output notices it.
        if input.as_mut().is_some_and(|input| input.write_all(&frame).is_err()) {
            *input = None;
        }
        drop(input);
        self.lock().sent_bytes += frame.len() as u64;
    }

    fn input(&self) -> MutexGuard<'_, Option<ChildStdin>> {
        self.input.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Renews the connection until it is not needed any more.
    fn keep(&self) {
        let mut delay = FIRST_DELAY;
        loop {
            let was_ready = &mut false;
            let why = self.hold(was_ready);
            if self.lock().is_over {
                return;
            }
            if !why.may_pass() {
                return self.tell(LineNews::Failed(why));
            }
            if *was_ready {
                delay = FIRST_DELAY;
            }
            self.tell(LineNews::Lost(why, delay));
            let mut state = self.lock();
            let until = Instant::now() + delay;
            while !state.is_over && Instant::now() < until {
                let left = until.saturating_duration_since(Instant::now());
                state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            }
            if state.is_over {
                return;
            }
            delay = (delay * 2).min(LONGEST_DELAY);
        }
    }

    /// Keeps one connection until it ends, and returns the reason.
    fn hold(&self, was_ready: &mut bool) -> RemoteError {
        let mut ssh = match Ssh::start(&self.address, self.prompts) {
            Ok(ssh) => ssh,
            Err(error) => return error,
        };
        {
            let mut state = self.lock();
            state.ssh = Some(ssh.child.id());
            if state.is_over {
                let _ = ssh.child.kill();
            }
        }
        let mut was_greeted = false;
        let ended = self.talk(&mut ssh.child, &mut was_greeted, was_ready);
        // After the process is reaped, its id may belong to another one.
        self.lock().ssh = None;
        match ended {
            Ended::Line(error) => ssh.end(was_greeted, &error),
            Ended::Copy(error) => {
                ssh.kill();
                RemoteError::Copy { folder: self.copy.display().to_string(), reason: error.to_string() }
            }
            Ended::Version(theirs) => {
                ssh.kill();
                RemoteError::OtherVersion { place: self.address.place(), theirs }
            }
        }
    }

    /// Communicates with the relay through ssh until one of them ends.
    fn talk(&self, ssh: &mut Child, was_greeted: &mut bool, was_ready: &mut bool) -> Ended {
        let (Some(input), Some(output)) = (ssh.stdin.take(), ssh.stdout.take()) else {
            return Ended::Line(io::ErrorKind::BrokenPipe.into());
        };
        let mut output = BufReader::with_capacity(PIECE_BYTES, Counted { stream: output, shared: self });
        let greeting = match self.await_greeting(ssh.id(), &mut output) {
            Ok(greeting) => greeting,
            Err(error) => return Ended::Line(error),
        };
        *was_greeted = true;
        if greeting.frames != VERSION {
            return Ended::Version(greeting.multicard);
        }
        match self.follow(input, output, &greeting, was_ready) {
            Ok(()) => Ended::Line(io::ErrorKind::UnexpectedEof.into()),
            Err(ended) => ended,
        }
    }

    /// Waits for the relay's greeting. It may take as long as a login with a password, and the user is told about the wait.
    fn await_greeting(&self, ssh: u32, output: &mut BufReader<Counted<'_>>) -> io::Result<Greeting> {
        let (greeted, waits) = sync_channel::<()>(0);
        thread::scope(|scope| {
            let tell = move || {
                let is_over = |limit| waits.recv_timeout(limit) != Err(RecvTimeoutError::Timeout);
                if is_over(GREETING_TOLD) {
                    return false;
                }
                let (place, silence_s) = (self.address.place(), GREETING_TOLD.as_secs());
                self.tell(LineNews::Problem(format!(
                    "{place}: multicard on that machine has sent nothing for {silence_s} s: ssh is still connecting or asks for a \
                         password, or the node is slow; waiting"
                )));
                let is_over = is_over(GREETING_LIMIT - GREETING_TOLD);
                if let (false, Some(ssh)) = (is_over, Pid::from_raw(ssh.cast_signed())) {
                    // The process has not been reaped yet, so its id is still valid.
                    let _ = kill_process(ssh, Signal::KILL);
                }
                !is_over
            };
            let telling = thread::Builder::new().name("greeting".to_owned()).spawn_scoped(scope, tell)?;
            let greeting = greeting(output);
            drop(greeted);
            if telling.join().unwrap_or_default() {
                let reason = format!("multicard on that machine has sent nothing for {} s", GREETING_LIMIT.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
            }
            greeting
        })
    }

    /// Follows a relay after its greeting.
    fn follow(
        &self,
        input: ChildStdin,
        output: BufReader<Counted<'_>>,
        greeting: &Greeting,
        was_ready: &mut bool,
    ) -> Result<(), Ended> {
        let copy = Copy::new(&self.copy).map_err(Ended::Copy)?;
        let origin = store::set_origin(&self.copy, &self.address.to_string());
        origin.map_err(|error| Ended::Copy(io::Error::other(error.to_string())))?;
        let have = Have::of(&self.copy).map_err(Ended::Copy)?;
        *self.input() = Some(input);
        self.send(&Up::Have(have), &[]);
        let (looks, watch_s, generation) = {
            let mut state = self.lock();
            state.is_up = true;
            (state.looks, state.watch_s, state.generation)
        };
        if looks {
            self.send(&Up::Look, &[]);
        }
        self.send(&Up::Watch(watch_s), &[]);
        thread::scope(|scope| {
            let beating = thread::Builder::new().name("beat".to_owned()).spawn_scoped(scope, || self.beat(generation));
            let followed = beating.map_err(Ended::Line).and_then(|_| {
                receive(output, &copy, &mut |down, body| match down {
                    Down::Synced { exists } => {
                        *was_ready = true;
                        let home = PathBuf::from(&greeting.home);
                        self.tell(LineNews::Ready(Reached { exists, home }));
                    }
                    Down::Node(node) => self.tell(LineNews::Node(node)),
                    Down::Places(places) => self.tell(LineNews::Places(places)),
                    Down::Sample(sample) => self.tell(LineNews::Sample(sample)),
                    Down::Problem(message) => self.tell(LineNews::Problem(message)),
                    Down::Bytes { channel } => self.deliver(channel, &body),
                    Down::Closed { channel, reason } => self.close(channel, reason),
                    // These frames concern the copy.
                    Down::Reset | Down::File { .. } => {}
                })
            });
            let mut state = self.lock();
            state.generation += 1;
            state.is_up = false;
            // The readers of these channels are told that they have ended.
            for stream in std::mem::take(&mut state.channels).into_values() {
                let _ = stream.shutdown(Shutdown::Both);
            }
            drop(state);
            self.changed.notify_all();
            *self.input() = None;
            followed
        })
    }

    /// Regularly shows the relay that this machine is alive.
    fn beat(&self, generation: u64) {
        let mut state = self.lock();
        loop {
            let waited = self.changed.wait_timeout(state, BEAT_INTERVAL).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            if state.generation != generation {
                return;
            }
            if waited.1.timed_out() {
                drop(state);
                self.send(&Up::Beat, &[]);
                state = self.lock();
            }
        }
    }

    fn deliver(&self, channel: u32, bytes: &[u8]) {
        let stream = self.lock().channels.get(&channel).and_then(|stream| stream.try_clone().ok());
        // A client that has disconnected is noticed where its messages are read.
        if let Some(mut stream) = stream {
            let _ = stream.write_all(bytes);
        }
    }

    fn close(&self, channel: u32, reason: Option<String>) {
        let mut state = self.lock();
        if let Some(reason) = reason {
            state.refused.insert(channel, reason);
        }
        if let Some(stream) = state.channels.remove(&channel) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Sends what a client writes, until the client disconnects.
    fn forward(&self, channel: u32, generation: u64, mut stream: UnixStream) {
        let mut bytes = vec![0; PIECE_BYTES];
        while let Ok(read @ 1..) = stream.read(&mut bytes) {
            self.send(&Up::Bytes { channel }, &bytes[..read]);
        }
        let mut state = self.lock();
        let was_open = state.generation == generation && state.channels.remove(&channel).is_some();
        drop(state);
        if was_open {
            self.send(&Up::Close { channel }, &[]);
        }
    }
}

/// The output of ssh, whose bytes are counted.
struct Counted<'a> {
    stream: ChildStdout,
    shared: &'a Shared,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer)?;
        self.shared.lock().received_bytes += read as u64;
        Ok(read)
    }
}
