//! The threads that work for the window: the conductor owns the session that runs, the librarian reads sessions.
//!
//! Both channels are bounded. The window never waits for either thread; both may wait for the window.

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

/// Reports that may wait for the window.
const REPORTS_IN_FLIGHT: usize = 256;
/// Requests that may wait for a thread.
const REQUESTS_IN_FLIGHT: usize = 256;
/// What the conductor may take to close the session when the window closes.
const CLOSING_LIMIT: Duration = Duration::from_secs(5);

/// What the window asks of its threads.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Open a session, or make one in this folder.
    OpenSession(PathBuf),
    /// Open the session that is in this folder.
    OpenExisting(PathBuf),
    /// Make a session in this folder.
    NewSession(PathBuf),
    /// See about once a second whether the open session is still there and, where another workbench writes it, whether
    /// there is something new.
    Follow {
        /// The session's folder.
        folder: PathBuf,
        /// Another workbench writes it.
        read_only: bool,
    },
    /// Queue the runs of a plan; a session is made where none is open.
    Launch {
        /// What to run.
        plan: Box<Plan>,
        /// Keep the repeats that the session holds as finished.
        only_missing: bool,
    },
    /// Let no further run start, or let them start again.
    Pause(bool),
    /// End a run or take it out of the queue.
    Cancel(String),
    /// End all.
    CancelAll,
    /// Queue a run again that did not finish.
    Retry(String),
    /// Make a queued run the so-many-th of the queued ones, from 0.
    Reorder(String, usize),
    /// Import a profiler's report: as the trace of a run, or as one that stands alone.
    Attach(PathBuf, Option<String>),
    /// End imports.
    CancelImports,
    /// Sample the whole machine while somebody looks, or no longer.
    WatchNode(bool),
    /// Look at the machine anew.
    LookAgain,
    /// Read all runs of a session.
    Read(PathBuf),
    /// Read all that is known of one run of the session in a folder.
    Page(PathBuf, String),
    /// Read the curves of one run of the session in a folder.
    Curves(PathBuf, String),
}

/// What the threads say.
pub enum Report {
    /// This machine.
    Node(Arc<Node>),
    /// A session is open; see [`super::state::OpenSession`].
    Session {
        /// Its folder.
        folder: PathBuf,
        /// Why it can only be read.
        read_only: Option<String>,
    },
    /// A session was not opened; the one before stays.
    NotOpened {
        /// Its folder.
        folder: PathBuf,
        /// Why; none where it is open already.
        reason: Option<String>,
    },
    /// The folder of the open session is gone, or there again.
    SessionGone(bool),
    /// Where the runs of this workbench stand.
    Queue(Arc<QueueView>),
    /// All runs of a session.
    Records(Arc<Records>),
    /// What ranks and telemetry said of one run since the last report.
    Live(LiveBatch),
    /// A report is being imported: its name, and how much of that is done, from 0 to 1. None: no more.
    Importing(Option<(String, f64)>),
    /// The machine as a whole.
    NodeSample(Box<Sample>),
    /// A plan was queued.
    Launched {
        /// Runs that were queued.
        queued: usize,
        /// Runs that were there and finished.
        kept: usize,
        /// Cells that cannot run here.
        invalid: usize,
    },
    /// Something could not be done.
    Problem {
        /// Where it was asked for.
        screen: Screen,
        /// What was tried, what was found, what to do.
        message: String,
    },
    /// All that is known of one run.
    Page(Box<RunPage>),
    /// The curves of one run, from its first moment.
    Curves(Box<RunCurves>),
}

/// One run of this workbench.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueRow {
    /// Its id.
    pub run: String,
    /// Where it stands.
    pub state: RunState,
    /// Steps done.
    pub step: u64,
    /// Steps to do; 0 where that is not known yet.
    pub steps: u64,
    /// The epoch it is in.
    pub epoch: u32,
    /// The latest loss.
    pub loss: Option<f64>,
}

/// Where the runs of this workbench stand.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueView {
    /// The runs in the order of the queue.
    pub rows: Vec<QueueRow>,
    /// No further run starts.
    pub paused: bool,
    /// Runs that ended.
    pub ended: usize,
    /// Runs that were queued.
    pub queued: usize,
    /// Until the queue is empty, in seconds, as estimated at `time_s`.
    pub remaining_s: f64,
    /// When this was true, in seconds since the Unix epoch.
    pub time_s: f64,
}

impl QueueView {
    /// Whether a run is starting or running.
    pub fn is_running(&self) -> bool {
        self.rows.iter().any(|row| matches!(row.state, RunState::Starting | RunState::Running))
    }

    /// Whether anything is running or waits.
    pub fn is_active(&self) -> bool {
        self.rows.iter().any(|row| !row.state.is_final())
    }
}

/// All runs of a session.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// The session's folder.
    pub folder: PathBuf,
    /// All runs in the order they were queued, without steps.
    pub runs: Vec<RunRecord>,
    /// The measures of the runs that have ended, in the same order.
    pub summaries: Vec<RunSummary>,
    /// Profilers' reports that stand alone.
    pub reports: Vec<RunSummary>,
    /// Ended runs whose measures are still being worked out.
    pub pending: usize,
}

/// One step as it arrived.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LiveStep {
    /// Whose.
    pub rank: u32,
    /// The step.
    pub step: StepRecord,
}

/// What ranks and telemetry said of one run since the last report.
#[derive(Clone, Debug, Default)]
pub struct LiveBatch {
    /// Which run.
    pub run: String,
    /// Steps, in the order they arrived.
    pub steps: Vec<LiveStep>,
    /// Samples, in order.
    pub samples: Vec<Sample>,
}

/// All that is known of one run.
#[derive(Clone, Debug)]
pub struct RunPage {
    /// Its record, with steps.
    pub record: RunRecord,
    /// Its measures.
    pub summary: RunSummary,
    /// What its processes wrote to stderr: the end of it.
    pub log: String,
    /// The last lines of its ranks' event logs.
    pub events: Vec<String>,
    /// Its job as it was handed to the group.
    pub job: String,
    /// The machine that the session was made on.
    pub node: Option<Node>,
    /// The plan's text.
    pub plan: String,
}

/// The curves of one run, from its first moment.
#[derive(Clone, Debug)]
pub struct RunCurves {
    /// The session's folder.
    pub folder: PathBuf,
    /// Which run.
    pub run: String,
    /// Ready to be drawn.
    pub curves: Curves,
}

/// Both threads and the channels to and from them.
pub struct Engine {
    conductor: SyncSender<Request>,
    librarian: SyncSender<Request>,
    reports: Receiver<Report>,
    own: SyncSender<Report>,
    conducting: Option<JoinHandle<()>>,
}

/// Sends reports and wakes the window. It waits while the window has too many to take.
#[derive(Clone)]
struct Outbox {
    sender: SyncSender<Report>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

/// The window is gone.
struct WindowClosed;

impl Outbox {
    fn send(&self, report: Report) -> Result<(), WindowClosed> {
        self.sender.send(report).map_err(|_| WindowClosed)?;
        (self.wake)();
        Ok(())
    }

    fn problem(&self, screen: Screen, message: impl Into<String>) -> Result<(), WindowClosed> {
        self.send(Report::Problem { screen, message: message.into() })
    }
}

impl Engine {
    /// Starts both threads; `wake` is called after each report. They end when the engine is dropped.
    pub fn start(wake: impl Fn() + Send + Sync + 'static) -> Self {
        let (sender, reports) = sync_channel(REPORTS_IN_FLIGHT);
        let (to_conductor, conductor_requests) = sync_channel(REQUESTS_IN_FLIGHT);
        let (to_librarian, librarian_requests) = sync_channel(REQUESTS_IN_FLIGHT);
        let outbox = Outbox { sender: sender.clone(), wake: Arc::new(wake) };
        let librarian = to_librarian.clone();
        let mut engine = Self { conductor: to_conductor, librarian, reports, own: sender, conducting: None };
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
                let message =
                    format!("the {name} thread could not be started ({error}): end other programs, then restart");
                // The channel is empty and has room.
                let _ = self.own.try_send(Report::Problem { screen: Screen::Plan, message });
                None
            }
        }
    }

    /// Asks for something, without waiting.
    pub fn ask(&self, request: Request) {
        let reading = matches!(request, Request::Read(_) | Request::Page(..) | Request::Curves(..));
        let thread = if reading { &self.librarian } else { &self.conductor };
        let message = match thread.try_send(request) {
            Ok(()) => return,
            Err(TrySendError::Full(request)) => format!("too busy for {request:?}: try again in a moment"),
            Err(TrySendError::Disconnected(request)) => {
                format!("the thread that does {request:?} has ended: restart multicard; nothing recorded is lost")
            }
        };
        let _ = self.own.try_send(Report::Problem { screen: Screen::Runs, message });
    }

    /// What arrived since the last time.
    pub fn reports(&self) -> Vec<Report> {
        self.reports.try_iter().collect()
    }
}

/// Lets the conductor close the session: runs under way go on, and what they said until now is in the index.
impl Drop for Engine {
    fn drop(&mut self) {
        // Without their other ends the threads know that the window is gone.
        let (nobody, _) = sync_channel(0);
        (self.conductor, self.librarian) = (nobody.clone(), nobody);
        self.reports = sync_channel(0).1;
        let deadline = Instant::now() + CLOSING_LIMIT;
        // It may be waiting for a worker that does not describe itself: nothing is lost then.
        while self.conducting.as_ref().is_some_and(|thread| !thread.is_finished()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
