//! The threads behind the window: the conductor owns the running session, the librarian reads sessions.
//!
//! All channels are bounded. The window never waits for the threads; they may wait for the window.

mod conductor;
mod librarian;
mod start;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Screen;
use super::live::Curves;
use crate::analysis::RunSummary;
use crate::plan::{Node, Plan, RunState};
use crate::protocol::Sample;
use crate::store::{RunRecord, StepRecord};

/// Capacity of the channel to the window.
const EVENTS_IN_FLIGHT: usize = 256;
/// Capacity of the channel to each thread.
const REQUESTS_IN_FLIGHT: usize = 256;
/// Time that the conductor has to close the session when the window closes.
const CLOSING_LIMIT: Duration = Duration::from_secs(5);

/// A request from the window to its threads.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Open the session in this folder, or create one.
    OpenSession(PathBuf),
    /// Open the existing session in this folder.
    OpenExisting(PathBuf),
    /// Create a session in this folder.
    NewSession(PathBuf),
    /// Check about once a second whether the open session still exists and, if another process writes it, whether it
    /// has changed.
    Follow {
        /// The session's folder.
        folder: PathBuf,
        /// Another process writes it.
        read_only: bool,
    },
    /// Queue the runs of a plan; creates a session if none is open.
    Launch {
        /// The plan.
        plan: Box<Plan>,
        /// Keep repeats that are finished, active or queued already.
        only_missing: bool,
    },
    /// Pause or resume the queue.
    Pause(bool),
    /// Stop a run or remove it from the queue.
    Cancel(String),
    /// Stop all runs.
    CancelAll,
    /// Queue a run again.
    Retry(String),
    /// Move a queued run to this position among the queued ones, from 0.
    Reorder(String, usize),
    /// Import a profiler report: as the trace of a run, or as a standalone report.
    Attach(PathBuf, Option<String>),
    /// Cancel imports.
    CancelImports,
    /// Start or stop sampling the whole machine for the Node screen.
    WatchNode(bool),
    /// Read the machine's hardware and worker again.
    RefreshNode,
    /// Read all runs of a session.
    Read(PathBuf),
    /// Read everything known about one run of the session in a folder.
    Page(PathBuf, String),
    /// Read the curves of one run of the session in a folder.
    Curves(PathBuf, String),
}

/// An event from the threads to the window.
pub enum UiEvent {
    /// This machine was read.
    Node(Arc<Node>),
    /// A session was opened; see [`super::state::OpenSession`].
    Session {
        /// Its folder.
        folder: PathBuf,
        /// Why it is read-only.
        read_only: Option<String>,
    },
    /// A session could not be opened; the one before stays open.
    NotOpened {
        /// Its folder.
        folder: PathBuf,
        /// The reason; `None` if it is open already.
        reason: Option<String>,
    },
    /// The folder of the open session disappeared, or is back.
    SessionGone(bool),
    /// The state of the queue.
    Queue(Arc<QueueView>),
    /// All runs of a session.
    Records(Arc<Records>),
    /// New steps and samples of one run.
    Live(LiveBatch),
    /// A profiler report is being imported: its name and the fraction done, from 0 to 1. `None` once it ended.
    Importing(Option<(String, f64)>),
    /// A sample of the whole machine.
    NodeSample(Box<Sample>),
    /// The runs of a plan were queued.
    Launched {
        /// Runs queued.
        queued: usize,
        /// Runs kept because they exist already.
        kept: usize,
        /// Cells that cannot run here.
        invalid: usize,
    },
    /// A request failed.
    Problem {
        /// The screen it came from.
        screen: Screen,
        /// What was tried, what was found and what to do.
        message: String,
    },
    /// Everything known about one run.
    Page(Box<RunPage>),
    /// All curves of one run.
    Curves(Box<RunCurves>),
}

/// One run of the queue.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueRow {
    /// Its id.
    pub run: String,
    /// Its state.
    pub state: RunState,
    /// Steps done.
    pub step: u64,
    /// Total steps; 0 while unknown.
    pub steps: u64,
    /// Current epoch.
    pub epoch: u32,
    /// Latest loss.
    pub loss: Option<f64>,
}

/// The state of the queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueView {
    /// The runs in the order of the queue.
    pub rows: Vec<QueueRow>,
    /// Whether the queue is paused.
    pub paused: bool,
    /// Runs that ended.
    pub ended: usize,
    /// Runs queued.
    pub queued: usize,
    /// Estimated time until the queue is empty, in seconds from `time_s`.
    pub remaining_s: f64,
    /// Time of this view, in seconds since the Unix epoch.
    pub time_s: f64,
}

impl QueueView {
    /// Whether a run is starting or running.
    pub fn is_running(&self) -> bool {
        self.rows.iter().any(|row| matches!(row.state, RunState::Starting | RunState::Running))
    }

    /// Whether any run is active or queued.
    pub fn is_active(&self) -> bool {
        self.rows.iter().any(|row| !row.state.is_final())
    }
}

/// All runs of a session.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// The session's folder.
    pub folder: PathBuf,
    /// All runs in the order they were queued, without their steps.
    pub runs: Vec<RunRecord>,
    /// Summaries of the ended runs, in the same order.
    pub summaries: Vec<RunSummary>,
    /// Standalone profiler reports.
    pub reports: Vec<RunSummary>,
    /// Ended runs that are not summarised yet.
    pub pending: usize,
}

/// One step of one rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LiveStep {
    /// The rank.
    pub rank: u32,
    /// The step.
    pub step: StepRecord,
}

/// New steps and samples of one run.
#[derive(Clone, Debug, Default)]
pub struct LiveBatch {
    /// The run's id.
    pub run: String,
    /// Steps, in the order they arrived.
    pub steps: Vec<LiveStep>,
    /// Samples, in order of time.
    pub samples: Vec<Sample>,
}

/// Everything known about one run.
#[derive(Clone, Debug)]
pub struct RunPage {
    /// Its record, with steps.
    pub record: RunRecord,
    /// Its summary.
    pub summary: RunSummary,
    /// The end of what its processes wrote to stderr.
    pub log: String,
    /// The last lines of its ranks' event logs.
    pub events: Vec<String>,
    /// The job file of its group.
    pub job: String,
    /// The machine that the session was created on.
    pub node: Option<Node>,
    /// The plan's text.
    pub plan: String,
}

/// All curves of one run.
#[derive(Clone, Debug)]
pub struct RunCurves {
    /// The session's folder.
    pub folder: PathBuf,
    /// The run's id.
    pub run: String,
    /// The curves, ready to draw.
    pub curves: Curves,
}

/// Both threads and their channels.
pub struct Engine {
    conductor: SyncSender<Request>,
    librarian: SyncSender<Request>,
    events: Receiver<UiEvent>,
    own_sender: SyncSender<UiEvent>,
    conducting: Option<JoinHandle<()>>,
}

/// Sends events and wakes the window. Blocks while the channel is full.
#[derive(Clone)]
struct Outbox {
    sender: SyncSender<UiEvent>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

/// The window was closed.
struct WindowClosed;

impl Outbox {
    fn send(&self, event: UiEvent) -> Result<(), WindowClosed> {
        self.sender.send(event).map_err(|_| WindowClosed)?;
        (self.wake)();
        Ok(())
    }

    fn problem(&self, screen: Screen, message: impl Into<String>) -> Result<(), WindowClosed> {
        self.send(UiEvent::Problem { screen, message: message.into() })
    }
}

impl Engine {
    /// Starts both threads; `wake` is called after each event. They end when the engine is dropped.
    pub fn start(wake: impl Fn() + Send + Sync + 'static) -> Self {
        let (sender, events) = sync_channel(EVENTS_IN_FLIGHT);
        let (to_conductor, conductor_requests) = sync_channel(REQUESTS_IN_FLIGHT);
        let (to_librarian, librarian_requests) = sync_channel(REQUESTS_IN_FLIGHT);
        let outbox = Outbox { sender: sender.clone(), wake: Arc::new(wake) };
        let librarian = to_librarian.clone();
        let mut engine = Self { conductor: to_conductor, librarian, events, own_sender: sender, conducting: None };
        let for_librarian = outbox.clone();
        engine.thread("librarian", move || librarian::run(&librarian_requests, &for_librarian));
        let conduct = move || conductor::run(&conductor_requests, &to_librarian, &outbox);
        engine.conducting = engine.thread("conductor", conduct);
        engine
    }

    fn thread(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
        match std::thread::Builder::new().name(name.to_owned()).spawn(work) {
            Ok(thread) => Some(thread),
            Err(error) => {
                let message = format!("cannot start the {name} thread ({error}): close other programs, then restart");
                // The channel is empty, so it has room.
                let _ = self.own_sender.try_send(UiEvent::Problem { screen: Screen::Plan, message });
                None
            }
        }
    }

    /// Sends a request, without waiting.
    pub fn ask(&self, request: Request) {
        let reading = matches!(request, Request::Read(_) | Request::Page(..) | Request::Curves(..));
        let thread = if reading { &self.librarian } else { &self.conductor };
        let message = match thread.try_send(request) {
            Ok(()) => return,
            Err(TrySendError::Full(request)) => format!("too busy for {request:?}: try again in a moment"),
            Err(TrySendError::Disconnected(request)) => {
                format!("the thread for {request:?} has ended: restart multicard; recorded data is safe")
            }
        };
        let _ = self.own_sender.try_send(UiEvent::Problem { screen: Screen::Runs, message });
    }

    /// The events that arrived since the last call.
    pub fn events(&self) -> Vec<UiEvent> {
        self.events.try_iter().collect()
    }
}

/// Lets the conductor close the session: active runs continue, and everything recorded so far is in the index.
impl Drop for Engine {
    fn drop(&mut self) {
        // Closing the channels tells the threads that the window is gone.
        let (nobody, _) = sync_channel(0);
        (self.conductor, self.librarian) = (nobody.clone(), nobody);
        self.events = sync_channel(0).1;
        let deadline = Instant::now() + CLOSING_LIMIT;
        // It may be waiting for a worker that does not answer; nothing is lost then.
        while self.conducting.as_ref().is_some_and(|thread| !thread.is_finished()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
