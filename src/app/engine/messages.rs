//! The messages between the window and its threads: requests and events, with their data.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use crate::analysis::{RunSummary, SpreadSeen};
use crate::app::command::ScreenName;
use crate::app::curves::{Curves, LiveStep};
use crate::app::listing::Listing;
use crate::conduct::{Order, QueueView};
use crate::figure::SavedStudy;
use crate::plan::{Identity, Key, Node, OwnMeasure, Plan, PlanError};
use crate::program;
use crate::protocol::{DeviceRates, Sample};
use crate::session::{Places, SearchReport};
use crate::store::{HeldCell, RunRecord, held_cells};

/// The samples of the machine that the window needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// The time from one sample to the next.
    pub interval: Duration,
    /// Whether the window only says how other programs use the machine. Samples that say the same of it as the one before are left out then.
    pub only_use: bool,
}

/// A request from the window to its threads.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Open the session in this folder, or create one.
    OpenSession(PathBuf),
    /// Open the existing session in this folder.
    OpenExisting(PathBuf),
    /// Create a session in this folder.
    NewSession(PathBuf),
    /// Open the sample session, which is read-only.
    OpenSample,
    /// Close the sample and show no session.
    CloseSample,
    /// Check about once a second whether the open session still exists and, if another process writes it, whether it
    /// has changed.
    Follow {
        /// The session's folder.
        folder: PathBuf,
        /// Whether another process writes it.
        read_only: bool,
    },
    /// Queue the runs of a plan; creates a session if none is open.
    Launch {
        /// The plan.
        plan: Box<Plan>,
        /// Keep repeats that are finished, active or queued already.
        only_missing: bool,
    },
    /// Tell the conductor of the open session.
    Order(Order),
    /// Attach to the next conductor of the session in this folder, because the previous one has ended.
    Reattach(PathBuf),
    /// Sample the whole machine; `None` stops that.
    WatchNode(Option<Sampling>),
    /// Read the machine's hardware and worker again.
    RefreshNode,
    /// Read topology, data sets and disks of the other machine, if its session is open.
    Places,
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
    /// The names of the user's sites were read.
    Sites(Vec<String>),
    /// A session was opened; see [`super::state::OpenSession`].
    Session {
        /// Its folder.
        folder: PathBuf,
        /// Why it is read-only.
        read_only: Option<String>,
    },
    /// The sample session is no longer shown.
    SampleClosed,
    /// A session could not be opened; the previous one stays open.
    NotOpened {
        /// Its folder.
        folder: PathBuf,
        /// The reason; `None` if it is open already.
        reason: Option<String>,
    },
    /// The conductor of the session in this folder has ended.
    ConductorEnded(PathBuf),
    /// Whether the open session can be changed again, or why it is read-only.
    Access(Option<String>),
    /// The folder of the open session disappeared, or came back.
    SessionGone(bool),
    /// The state of the queue.
    Queue(Arc<QueueView>),
    /// All runs of a session.
    Records(Arc<Records>),
    /// New steps and samples of one run.
    Live(LiveBatch),
    /// A profiler report is being imported: its name and the fraction done, from 0 to 1. `None` once it ended.
    Importing(Option<(String, f64)>),
    /// Topology, data sets and disks of another machine.
    Places(Box<Places>),
    /// A sample of the whole machine.
    NodeSample(Box<Sample>),
    /// The folders of other sessions that have runs on this machine now.
    OtherSessions(Vec<PathBuf>),
    /// The runs of a plan were queued.
    Launched {
        /// Runs queued.
        queued: usize,
        /// Runs kept because they exist already.
        kept: usize,
        /// Cells that cannot run here.
        invalid: usize,
        /// Warnings about delays of the runs.
        warnings: Vec<String>,
    },
    /// An order that came from a screen was executed.
    Done(ScreenName),
    /// A request failed.
    Problem {
        /// The screen it came from.
        screen: ScreenName,
        /// What was tried, what was found and what to do.
        message: String,
    },
    /// Everything known about one run.
    Page(Box<RunPage>),
    /// All curves of one run.
    Curves(Box<RunCurves>),
}

/// All runs of a session.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// The session's folder.
    pub folder: PathBuf,
    /// All runs in the order they were queued, without their steps. All copies of the records share them.
    pub runs: Arc<[RunRecord]>,
    /// Summaries of the ended runs, in the same order; shared likewise.
    pub summaries: Arc<[RunSummary]>,
    /// Standalone profiler reports.
    pub reports: Vec<RunSummary>,
    /// Saved studies.
    pub studies: Vec<SavedStudy>,
    /// Plans in the order they were launched.
    pub plans: Vec<SessionPlan>,
    /// The cells of the runs.
    pub held: Arc<HashMap<Identity, HeldCell>>,
    /// The contents of lists of runs.
    pub listing: Arc<Listing>,
    /// The spread of the repeats of the summarised runs, by workload.
    pub spreads: Arc<BTreeMap<Key, SpreadSeen>>,
    /// Ended runs that are not summarised yet.
    pub pending: usize,
    /// The users' notes on runs, by the runs' ids.
    pub notes: Arc<BTreeMap<String, String>>,
    /// The measured rates of the devices of the session's machine.
    pub rates: Vec<Arc<DeviceRates>>,
    /// Its user-defined measures.
    pub own_measures: Arc<[OwnMeasure]>,
    /// Its searches.
    pub searches: Arc<[SearchReport]>,
}

impl Records {
    /// Adds what is computed from the runs and summaries: cells, listing and spread. It takes tens of milliseconds for ten thousand runs,
    /// so it must not run on the window's thread.
    pub fn folded(self) -> Self {
        let (held, listing) = (Arc::new(held_cells(&self.runs)), Arc::new(Listing::of(&self.runs)));
        Self { held, listing, spreads: Arc::new(SpreadSeen::by_workload(&self.summaries)), ..self }
    }

    /// These records, with other summaries of the ended runs.
    pub fn with_summaries(&self, summary: impl FnMut(&RunRecord) -> Option<RunSummary>) -> Self {
        let summaries: Arc<[RunSummary]> = self.ended().filter_map(summary).collect();
        Self { spreads: Arc::new(SpreadSeen::by_workload(&summaries)), summaries, ..self.clone() }
    }

    /// The runs that have ended.
    pub fn ended(&self) -> impl Iterator<Item = &RunRecord> {
        self.runs.iter().filter(|run| run.state.is_final())
    }
}

/// A plan that was launched into a session.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionPlan {
    /// Its name.
    pub name: String,
    /// Its text.
    pub toml: String,
    /// The folder of its file; see [`Plan::folder`].
    pub folder: Option<String>,
}

impl SessionPlan {
    /// The plan that was launched.
    ///
    /// # Errors
    /// The text belongs to a newer version.
    pub fn plan(&self) -> Result<Plan, PlanError> {
        let mut plan = Plan::parse(&self.toml, &self.name)?;
        plan.set_folder(self.folder.as_deref());
        Ok(plan)
    }
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
    /// Whether the steps of earlier batches do not count.
    pub withdraws_steps: bool,
}

/// Everything known about one run.
#[derive(Clone, Debug)]
pub struct RunPage {
    /// Its record, with steps.
    pub record: RunRecord,
    /// Its summary.
    pub summary: RunSummary,
    /// The end of the output of its processes.
    pub log: String,
    /// The last lines of its ranks' event logs.
    pub events: Vec<String>,
    /// The job file of its group.
    pub job: String,
    /// The record of its program, if it ran one.
    pub program: Option<program::Record>,
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

/// Sends events and wakes the window. Blocks while the channel is full.
#[derive(Clone)]
pub(super) struct Outbox {
    sender: SyncSender<UiEvent>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

/// The window was closed.
pub(super) struct WindowClosed;

impl Outbox {
    pub(super) fn new(sender: SyncSender<UiEvent>, wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self { sender, wake: Arc::new(wake) }
    }

    pub(super) fn send(&self, event: UiEvent) -> Result<(), WindowClosed> {
        self.sender.send(event).map_err(|_| WindowClosed)?;
        (self.wake)();
        Ok(())
    }

    pub(super) fn problem(&self, screen: ScreenName, message: impl Into<String>) -> Result<(), WindowClosed> {
        self.send(UiEvent::Problem { screen, message: message.into() })
    }
}
