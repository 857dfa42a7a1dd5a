//! The conductor thread: owns the session, launches and follows runs, updates the window at most ten times a second.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::messages::{LiveBatch, Outbox, QueueRow, QueueView, Request, UiEvent, WindowClosed};
use super::start::{Waiting, look_at_machine};
use crate::app::curves::LiveStep;
use crate::app::screen::Screen;
use crate::plan::Plan;
use crate::protocol::{Event, EventLine, Sample, TraceOutcome};
use crate::session::{Machine, Notice, Session, SessionError, new_session_folder};
use crate::store::{StepRecord, StoreError};
use crate::telemetry::{Sampler, Watch};

/// Longest wait in the session before requests are checked again.
const PATIENCE: Duration = Duration::from_millis(30);
/// Shortest time between two updates of the window.
const UPDATE_INTERVAL: Duration = Duration::from_millis(100);
/// Shortest time between two reads of the records while runs end.
const READ_INTERVAL: Duration = Duration::from_millis(500);

/// Longest time between two updates while runs are active, so that elapsed times advance.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);
/// Sampling interval of the Node screen; each sample causes a frame.
const NODE_INTERVAL: Duration = Duration::from_secs(1);
/// Capacity of the channel of samples for the Node screen.
const NODE_SAMPLES_IN_FLIGHT: usize = 8;

/// Why a session is read-only that another process writes.
const IN_USE: &str = "Read-only: another window or command is writing this session";

/// Message for a request that a read-only session cannot serve.
const READ_ONLY: &str =
    "the session is read-only: fix the cause shown above, then open it for writing, or open another session";

/// Works until the window is gone; active runs continue after that.
pub(super) fn run(requests: &Receiver<Request>, librarian: &SyncSender<Request>, outbox: &Outbox) {
    let Ok((machine, waiting)) = look_at_machine(requests, outbox) else { return };
    let mut conductor = Conductor {
        machine,
        session: None,
        shown: waiting.as_ref().and_then(Waiting::shown),
        read_only: false,
        node_watch: None,
        librarian,
        outbox,
        live: BTreeMap::new(),
        updated: Instant::now(),
        last_queue: QueueView::default(),
        stale_since: None,
        last_error: None,
    };
    // However it ends, the window is gone.
    let _ = match waiting {
        Some(waiting) => conductor.execute(waiting.request).and_then(|()| conductor.work(requests)),
        None => conductor.work(requests),
    };
    if let Some(session) = conductor.session.take() {
        // No window is left to show an error; the logs hold everything.
        let _ = session.leave();
    }
}

/// How to open a folder.
#[derive(Clone, Copy, PartialEq)]
enum Opening {
    /// Open the session in it, or create one.
    Either,
    /// Open the session in it.
    Existing,
    /// Create a session in it.
    New,
}

struct Conductor<'a> {
    machine: Machine,
    session: Option<Session>,
    /// A session that is shown before it is opened.
    shown: Option<PathBuf>,
    /// The window shows a session that another process writes.
    read_only: bool,
    /// Sampler of the whole machine, while the Node screen is shown.
    node_watch: Option<(Sampler, Receiver<(String, Sample)>)>,
    librarian: &'a SyncSender<Request>,
    outbox: &'a Outbox,
    live: BTreeMap<String, LiveBatch>,
    updated: Instant,
    last_queue: QueueView,
    /// Since when the window's records are out of date.
    stale_since: Option<Instant>,
    /// The last error shown, so that it is not repeated.
    last_error: Option<String>,
}

impl Conductor<'_> {
    fn work(&mut self, requests: &Receiver<Request>) -> Result<(), WindowClosed> {
        loop {
            let busy = self.session.as_ref().is_some_and(|session| !session.is_idle());
            if busy || self.stale_since.is_some() {
                loop {
                    match requests.try_recv() {
                        Ok(request) => self.execute(request)?,
                        Err(TryRecvError::Empty) => break,
                        Err(TryRecvError::Disconnected) => return Err(WindowClosed),
                    }
                }
                self.advance()?;
            } else if self.node_watch.is_some() {
                match requests.recv_timeout(NODE_INTERVAL / 2) {
                    Ok(request) => {
                        self.execute(request)?;
                        self.update(true)?;
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return Err(WindowClosed),
                }
            } else {
                // Only a request can cause something now.
                let request = requests.recv().map_err(|_| WindowClosed)?;
                self.execute(request)?;
                self.update(true)?;
            }
            if let Some((_, samples)) = &self.node_watch
                && let Some((_, sample)) = samples.try_iter().last()
            {
                self.outbox.send(UiEvent::NodeSample(Box::new(sample)))?;
            }
        }
    }

    fn advance(&mut self) -> Result<(), WindowClosed> {
        let Some(session) = &mut self.session else { return Ok(()) };
        match session.advance(PATIENCE) {
            Ok(notices) => {
                for notice in notices {
                    self.take(notice)?;
                }
            }
            Err(error) => {
                let message = format!("recording the runs: {error}");
                // A full disk causes the same error many times a second.
                if self.last_error.as_ref() != Some(&message) {
                    self.outbox.problem(Screen::Runs, message.as_str())?;
                    self.last_error = Some(message);
                }
            }
        }
        self.update(false)
    }

    fn take(&mut self, notice: Notice) -> Result<(), WindowClosed> {
        match notice {
            Notice::State { .. } => {
                self.stale_since.get_or_insert_with(Instant::now);
                Ok(())
            }
            Notice::Event(line) => {
                self.take_event(&line);
                Ok(())
            }
            Notice::Sample { run, sample } => {
                self.batch(&run).samples.push(*sample);
                Ok(())
            }
            Notice::Importing { name, fraction } => self.outbox.send(UiEvent::Importing(Some((name, fraction)))),
            Notice::Trace { name, outcome } => {
                self.stale_since.get_or_insert_with(Instant::now);
                if let Some(TraceOutcome::Failed(reason)) = outcome {
                    self.outbox.problem(Screen::Compare, format!("cannot import the report of {name}: {reason}"))?;
                }
                self.outbox.send(UiEvent::Importing(None))
            }
            Notice::Noise { message, .. } => {
                self.outbox.problem(Screen::Runs, format!("unreadable line in a log: {message}"))
            }
        }
    }

    fn take_event(&mut self, line: &EventLine) {
        let Event::Step { epoch, step, duration_s, load_wait_s, loss, units, warm_up, .. } = line.event else {
            return;
        };
        let time_s = line.time_s;
        let step = StepRecord { step, time_s, epoch, duration_s, load_wait_s, loss, units, warm_up };
        self.batch(&line.run).steps.push(LiveStep { rank: line.rank, step });
    }

    fn batch(&mut self, run: &str) -> &mut LiveBatch {
        let new = || LiveBatch { run: run.to_owned(), ..LiveBatch::default() };
        self.live.entry(run.to_owned()).or_insert_with(new)
    }

    /// Sends news to the window, at most once per interval unless `now` is set.
    fn update(&mut self, now: bool) -> Result<(), WindowClosed> {
        if !now && self.updated.elapsed() < UPDATE_INTERVAL {
            return Ok(());
        }
        self.updated = Instant::now();
        let Some(session) = &self.session else { return Ok(()) };
        let view = queue_view(session);
        let same =
            QueueView { time_s: self.last_queue.time_s, remaining_s: self.last_queue.remaining_s, ..view.clone() };
        let ticks = view.is_running() && view.time_s - self.last_queue.time_s >= CLOCK_INTERVAL.as_secs_f64();
        if same != self.last_queue || ticks {
            self.last_queue = view.clone();
            self.outbox.send(UiEvent::Queue(Arc::new(view)))?;
        }
        for batch in std::mem::take(&mut self.live).into_values() {
            self.outbox.send(UiEvent::Live(batch))?;
        }
        let folder = session.folder().to_owned();
        if self.stale_since.is_some_and(|since| since.elapsed() >= READ_INTERVAL || session.is_idle()) {
            self.stale_since = None;
            self.read(folder)?;
        }
        Ok(())
    }

    /// Has the librarian read the session again once the index is up to date.
    fn read(&mut self, folder: PathBuf) -> Result<(), WindowClosed> {
        if let Some(Err(error)) = self.session.as_ref().map(Session::flush) {
            self.outbox.problem(Screen::Runs, format!("bringing the index up to date: {error}"))?;
        }
        self.librarian.send(Request::Read(folder)).map_err(|_| WindowClosed)
    }

    fn execute(&mut self, request: Request) -> Result<(), WindowClosed> {
        let screen = match &request {
            Request::Launch { .. } => Screen::Plan,
            Request::WatchNode(_) | Request::RefreshNode => Screen::Node,
            Request::Attach(..) | Request::CancelImports | Request::SaveStudy(..) | Request::DeleteStudy(_) => {
                Screen::Compare
            }
            _ => Screen::Runs,
        };
        match request {
            Request::OpenSession(folder) => return self.open(folder, Opening::Either),
            Request::OpenExisting(folder) => return self.open(folder, Opening::Existing),
            Request::NewSession(folder) => return self.open(folder, Opening::New),
            Request::Launch { plan, only_missing } => return self.launch(&plan, only_missing),
            Request::WatchNode(on) => return self.watch_node(on),
            Request::RefreshNode => return self.refresh_node(),
            // The engine sends these to the librarian.
            Request::Read(_) | Request::Page(..) | Request::Curves(..) | Request::Follow { .. } => return Ok(()),
            Request::Pause(_)
            | Request::Cancel(_)
            | Request::CancelAll
            | Request::Retry(_)
            | Request::Reorder(..)
            | Request::SaveStudy(..)
            | Request::DeleteStudy(_)
            | Request::Attach(..)
            | Request::CancelImports => {}
        }
        let Some(session) = &mut self.session else {
            let message = if self.read_only { READ_ONLY } else { "no session is open: open or create one first" };
            return self.outbox.problem(screen, message);
        };
        let done = match request {
            Request::Pause(true) => {
                session.pause_queue();
                Ok(())
            }
            Request::Pause(false) => {
                session.resume_queue();
                Ok(())
            }
            Request::Cancel(run) => session.cancel(&run),
            Request::CancelAll => session.cancel_all(),
            Request::Retry(run) => session.retry(&run),
            Request::Reorder(run, position) => session.reorder(&run, position),
            Request::SaveStudy(name, study) => session.save_study(&name, study),
            Request::DeleteStudy(name) => session.delete_study(&name),
            Request::Attach(file, run) => session.attach(&file, run.as_deref()),
            Request::CancelImports => {
                session.cancel_imports();
                Ok(())
            }
            _ => Ok(()),
        };
        self.stale_since.get_or_insert_with(Instant::now);
        match done {
            Ok(()) => self.update(true),
            Err(error) => self.outbox.problem(screen, error.to_string()),
        }
    }

    fn open(&mut self, folder: PathBuf, opening: Opening) -> Result<(), WindowClosed> {
        let is_open = |session: &Session| is_same(session.folder(), &folder);
        if self.session.as_ref().is_some_and(is_open) {
            return self.outbox.send(UiEvent::NotOpened { folder, reason: None });
        }
        let known = folder.join("session.toml").exists();
        let refused = match opening {
            _ if self.session.as_ref().is_some_and(|session| !session.is_idle()) => {
                Some("the open session has active runs; let them end or cancel them first")
            }
            Opening::Existing if !known => Some("no session here (session.toml is missing); check the path"),
            Opening::New if known => Some("a session exists here already; open it, or choose another name"),
            _ => None,
        };
        if let Some(why) = refused {
            let reason = Some(format!("{}: {why}", folder.display()));
            return self.outbox.send(UiEvent::NotOpened { folder, reason });
        }
        let is_shown = self.shown.take().is_some_and(|shown| shown == folder);
        let read_only = match Session::open_or_create(&folder, self.machine.clone()) {
            Ok(session) => {
                self.session = Some(session);
                None
            }
            Err(SessionError::Store(StoreError::InUse { .. })) => {
                self.session = None;
                Some(IN_USE.to_owned())
            }
            // It can still be read.
            Err(error) if is_shown => Some(format!("Read-only: {error}")),
            // The previous session stays open.
            Err(error) => {
                return self.outbox.send(UiEvent::NotOpened { folder, reason: Some(error.to_string()) });
            }
        };
        self.live.clear();
        self.last_queue = QueueView::default();
        self.stale_since = None;
        self.last_error = None;
        self.read_only = read_only.is_some();
        if !is_shown || self.read_only {
            self.outbox.send(UiEvent::Session { folder: folder.clone(), read_only })?;
        }
        self.update(true)?;
        let follow = Request::Follow { folder: folder.clone(), read_only: self.read_only };
        self.librarian.send(follow).map_err(|_| WindowClosed)?;
        self.librarian.send(Request::Read(folder)).map_err(|_| WindowClosed)
    }

    fn launch(&mut self, plan: &Plan, only_missing: bool) -> Result<(), WindowClosed> {
        if self.read_only {
            return self.outbox.problem(Screen::Plan, READ_ONLY);
        }
        if self.session.is_none() {
            match new_session_folder(&plan.name) {
                Ok(folder) => self.open(folder, Opening::New)?,
                Err(error) => return self.outbox.problem(Screen::Plan, error.to_string()),
            }
        }
        // If it could not be opened, the error is shown already.
        let Some(session) = &mut self.session else { return Ok(()) };
        match session.add_plan(plan, only_missing) {
            Ok(added) => {
                let (queued, kept, invalid) = (added.queued, added.kept, added.invalid.len());
                self.outbox.send(UiEvent::Launched { queued, kept, invalid })?;
                self.stale_since = Some(Instant::now());
                self.update(true)
            }
            Err(error) => self.outbox.problem(Screen::Plan, error.to_string()),
        }
    }

    fn watch_node(&mut self, on: bool) -> Result<(), WindowClosed> {
        if !on {
            self.node_watch = None;
            return Ok(());
        }
        let (sink, samples) = sync_channel(NODE_SAMPLES_IN_FLIGHT);
        match Sampler::start(NODE_INTERVAL, sink) {
            Ok(sampler) => {
                let gpu_uuids = self.machine.node.gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
                sampler.watch(Watch { gpu_uuids, ..Watch::default() });
                self.node_watch = Some((sampler, samples));
                Ok(())
            }
            Err(error) => self.outbox.problem(Screen::Node, error.to_string()),
        }
    }

    fn refresh_node(&mut self) -> Result<(), WindowClosed> {
        self.machine = Machine::look();
        if self.node_watch.is_some() {
            self.watch_node(true)?;
        }
        self.outbox.send(UiEvent::Node(Arc::new(self.machine.node.clone())))
    }
}

/// Whether two paths lead to the same folder.
fn is_same(a: &Path, b: &Path) -> bool {
    a == b || a.canonicalize().ok().is_some_and(|a| b.canonicalize().is_ok_and(|b| a == b))
}

fn queue_view(session: &Session) -> QueueView {
    let progress = session.progress();
    let time_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let row = |(run, state): (&str, _)| {
        let at = progress.running.get(run).cloned().unwrap_or_default();
        QueueRow { run: run.to_owned(), state, step: at.step, steps: at.steps, epoch: at.epoch, loss: at.loss }
    };
    QueueView {
        rows: session.states().map(row).collect(),
        paused: session.is_paused(),
        ended: progress.ended,
        queued: progress.queued,
        remaining_s: progress.remaining_s(time_s),
        time_s,
    }
}
