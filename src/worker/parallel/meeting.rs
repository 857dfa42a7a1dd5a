//! The folder in which ranks find each other and, when one of them fails, show that they are alive.

use std::fs::{self, File};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use multicard::protocol::FailureKind;

use crate::report::Stop;

/// Live ranks notice a failed collective at about the same time; those still silent after this long are the cause.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Time limit for all ranks to arrive at a meeting; one that talks to a profiler may be this late.
pub const MEETING_TIMEOUT: Duration = Duration::from_secs(120);
/// Interval at which a rank checks who has arrived.
const MEETING_POLL: Duration = Duration::from_millis(2);
/// Interval at which a rank checks for answers.
const POLL: Duration = Duration::from_millis(50);
/// Limit and interval for a folder on a file system that nodes share. Each look asks the file system's server, whose
/// answers may be late.
const SHARED_ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const SHARED_POLL: Duration = Duration::from_millis(50);

/// The folder as one rank sees it. Only the ranks' user can enter it. Marks are empty files, so no rank can stop another from leaving
/// or reading one.
#[derive(Clone)]
pub struct Meeting {
    /// The folder.
    pub folder: PathBuf,
    /// This rank, from 0.
    pub rank: u32,
    /// Number of ranks.
    pub world_size: u32,
    /// Number of nodes over which the ranks are spread, in order.
    pub nodes: u32,
}

impl Meeting {
    /// Whether the folder is on a file system that several nodes share.
    pub fn is_shared(&self) -> bool {
        self.nodes > 1
    }

    /// The number of a rank's node.
    pub fn node_of(&self, rank: u32) -> u32 {
        rank / self.world_size.div_ceil(self.nodes.max(1)).max(1)
    }

    /// Makes the client of a network file system ask its server for the folder's entries. The client does so when a
    /// folder is opened; otherwise it may answer from entries that it read earlier.
    fn refresh(&self) {
        if self.is_shared() {
            // If the folder cannot be opened, later looks find nothing in it.
            let _ = File::open(&self.folder);
        }
    }

    /// Leaves a mark.
    pub fn mark(&self, name: &str) -> Result<(), Stop> {
        let path = self.folder.join(name);
        File::create(&path).map(drop).map_err(|error| {
            Stop::failed(FailureKind::Engine, format!("writing the mark {} failed: {error}", path.display()))
        })
    }

    /// Takes a mark of this rank away. If that fails, one more empty file is left.
    pub fn unmark(&self, name: &str) {
        let _ = fs::remove_file(self.folder.join(name));
    }

    /// Whether a rank has left the mark.
    pub fn has(&self, name: &str) -> bool {
        self.folder.join(name).exists()
    }

    /// Leaves a text, which others see whole or not at all.
    pub fn leave(&self, name: &str, text: &str) -> Result<(), Stop> {
        let (part, whole) = (self.folder.join(format!("{name}.part")), self.folder.join(name));
        fs::write(&part, text)
            .and_then(|()| fs::rename(&part, &whole))
            .map_err(|error| Stop::failed(FailureKind::Engine, format!("writing {} failed: {error}", whole.display())))
    }

    /// The text that a rank has left.
    pub fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.folder.join(name)).ok()
    }

    /// Waits on the host until `look` finds something; `missing` says what does not come.
    pub fn wait<T>(&self, look: impl Fn() -> Option<T>, missing: impl Fn() -> String) -> Result<T, Stop> {
        let begin = Instant::now();
        let poll = if self.is_shared() { SHARED_POLL } else { MEETING_POLL };
        loop {
            self.refresh();
            if let Some(found) = look() {
                return Ok(found);
            }
            if begin.elapsed() > MEETING_TIMEOUT {
                let message = format!("{} within {} s", missing(), MEETING_TIMEOUT.as_secs());
                return Err(self.explain(Stop::failed(FailureKind::Peer, message)));
            }
            thread::sleep(poll);
        }
    }

    /// Leaves this rank's mark, and waits until all ranks have left theirs.
    pub fn gather(&self, mark: impl Fn(u32) -> String) -> Result<(), Stop> {
        self.mark(&mark(self.rank))?;
        let late = || self.late(&mark);
        self.wait(|| late().is_none().then_some(()), || format!("rank {} did not arrive", late().unwrap_or_default()))
    }

    /// The first rank that has not left its mark.
    pub fn late(&self, mark: impl Fn(u32) -> String) -> Option<u32> {
        (0..self.world_size).find(|rank| !self.has(&mark(*rank)))
    }

    /// Adds to a peer failure which ranks caused it.
    pub fn explain(&self, stop: Stop) -> Stop {
        let Stop::Failed { kind: FailureKind::Peer, message } = stop else { return stop };
        let silent = self.silent();
        let who = match &silent[..] {
            [] => "all ranks answer".to_owned(),
            [one] => format!("rank {one} does not answer"),
            several => {
                format!("ranks {} do not answer", several.iter().map(u32::to_string).collect::<Vec<_>>().join(", "))
            }
        };
        Stop::failed(FailureKind::Peer, format!("communication with other ranks failed, {who}: {message}"))
    }

    /// The ranks that do not report the failure as well.
    fn silent(&self) -> Vec<u32> {
        let mark = |rank: u32| format!("answer-{rank}");
        // The folder belongs to the supervisor. If that is gone too, nobody answers.
        let _ = self.mark(&mark(self.rank));
        let begin = Instant::now();
        let limit = if self.is_shared() { SHARED_ANSWER_TIMEOUT } else { ANSWER_TIMEOUT };
        let mut silent: Vec<_> = (0..self.world_size).filter(|rank| *rank != self.rank).collect();
        loop {
            self.refresh();
            silent.retain(|rank| !self.has(&mark(*rank)));
            if silent.is_empty() || begin.elapsed() > limit {
                return silent;
            }
            thread::sleep(POLL);
        }
    }
}
