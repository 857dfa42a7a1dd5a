//! The thread that owns the session: launches, follows, and tells the window at most ten times a second.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::{LiveBatch, LiveStep, Outbox, QueueRow, QueueView, Report, Request, WindowClosed};
use crate::app::Screen;
use crate::plan::Plan;
use crate::protocol::{Event, EventLine};
use crate::session::{Machine, Notice, Session, SessionError, default_sessions_folder};
use crate::store::{StepRecord, StoreError};

/// How long the session may wait for something to happen before requests are looked at again.
const PATIENCE: Duration = Duration::from_millis(30);
/// The window is told at most so often.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);
/// Records are read anew at most so often while runs end.
const READ_INTERVAL: Duration = Duration::from_millis(500);

/// Works until the window is gone.
pub(super) fn run(requests: &Receiver<Request>, librarian: &SyncSender<Request>, outbox: &Outbox) {
    let machine = Machine::look();
    let Ok(()) = outbox.send(Report::Node(Arc::new(machine.node.clone()))) else { return };
    let mut conductor = Conductor {
        machine,
        session: None,
        watch_node: false,
        librarian,
        outbox,
        live: BTreeMap::new(),
        told: Instant::now(),
        last_queue: QueueView::default(),
        stale_since: None,
    };
    // Whichever way it ends, the window is gone.
    let _ = conductor.work(requests);
}

struct Conductor<'a> {
    machine: Machine,
    session: Option<Session>,
    watch_node: bool,
    librarian: &'a SyncSender<Request>,
    outbox: &'a Outbox,
    live: BTreeMap<String, LiveBatch>,
    told: Instant,
    last_queue: QueueView,
    /// The records that the window has lack something since then.
    stale_since: Option<Instant>,
}

impl Conductor<'_> {
    fn work(&mut self, requests: &Receiver<Request>) -> Result<(), WindowClosed> {
        loop {
            let busy = self.session.as_ref().is_some_and(|session| !session.is_idle());
            if busy || self.stale_since.is_some() || self.watch_node && self.session.is_some() {
                while let Ok(request) = requests.try_recv() {
                    self.execute(request)?;
                }
                self.advance()?;
            } else {
                // Nothing can happen but a request.
                let request = requests.recv().map_err(|_| WindowClosed)?;
                self.execute(request)?;
                self.tell(true)?;
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
            Err(error) => self.outbox.problem(Screen::Runs, format!("keeping what runs say: {error}"))?,
        }
        self.tell(false)
    }

    fn take(&mut self, notice: Notice) -> Result<(), WindowClosed> {
        match notice {
            Notice::State { state, .. } => {
                if state.is_final() {
                    self.stale_since.get_or_insert_with(Instant::now);
                }
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
            Notice::NodeSample(sample) => self.outbox.send(Report::NodeSample(sample)),
            Notice::Noise { message, .. } => self.outbox.problem(Screen::Runs, format!("unreadable: {message}")),
        }
    }

    fn take_event(&mut self, line: &EventLine) {
        let Event::Step { epoch, step, duration_s, load_wait_s, loss, images, warm_up, .. } = line.event else {
            return;
        };
        let time_s = line.time_s;
        let step = StepRecord { step, time_s, epoch, duration_s, load_wait_s, loss, images, warm_up };
        self.batch(&line.run).steps.push(LiveStep { rank: line.rank, step });
    }

    fn batch(&mut self, run: &str) -> &mut LiveBatch {
        let new = || LiveBatch { run: run.to_owned(), ..LiveBatch::default() };
        self.live.entry(run.to_owned()).or_insert_with(new)
    }

    /// Tells the window what is new, where it is time.
    fn tell(&mut self, now: bool) -> Result<(), WindowClosed> {
        if !now && self.told.elapsed() < REPORT_INTERVAL {
            return Ok(());
        }
        self.told = Instant::now();
        let Some(session) = &self.session else { return Ok(()) };
        let view = queue_view(session);
        let same =
            QueueView { time_s: self.last_queue.time_s, remaining_s: self.last_queue.remaining_s, ..view.clone() };
        if same != self.last_queue {
            self.last_queue = view.clone();
            self.outbox.send(Report::Queue(Arc::new(view)))?;
        }
        for batch in std::mem::take(&mut self.live).into_values() {
            self.outbox.send(Report::Live(batch))?;
        }
        let folder = session.folder().to_owned();
        if self.stale_since.is_some_and(|since| since.elapsed() >= READ_INTERVAL || session.is_idle()) {
            self.stale_since = None;
            self.read(folder)?;
        }
        Ok(())
    }

    /// Has the librarian read the session anew, once all that was said is in the index.
    fn read(&mut self, folder: PathBuf) -> Result<(), WindowClosed> {
        if let Some(Err(error)) = self.session.as_ref().map(Session::flush) {
            self.outbox.problem(Screen::Runs, format!("bringing the index up to date: {error}"))?;
        }
        self.librarian.send(Request::Read(folder)).map_err(|_| WindowClosed)
    }

    fn execute(&mut self, request: Request) -> Result<(), WindowClosed> {
        let screen = match &request {
            Request::Launch { .. } => Screen::Plan,
            Request::WatchNode(_) | Request::LookAgain => Screen::Node,
            _ => Screen::Runs,
        };
        match request {
            Request::OpenSession(folder) => return self.open(folder),
            Request::Launch { plan, only_missing } => return self.launch(&plan, only_missing),
            Request::WatchNode(on) => return self.watch_node(on),
            Request::LookAgain => return self.look_again(),
            // The librarian's; the engine does not send them here.
            Request::Read(_) | Request::Page(..) | Request::Curves(..) => return Ok(()),
            Request::Pause(_) | Request::Cancel(_) | Request::CancelAll | Request::Retry(_) | Request::Reorder(..) => {}
        }
        let Some(session) = &mut self.session else {
            return self
                .outbox
                .problem(screen, "this session is open for reading only: its runs belong to another workbench");
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
            _ => Ok(()),
        };
        self.stale_since.get_or_insert_with(Instant::now);
        match done {
            Ok(()) => self.tell(true),
            Err(error) => self.outbox.problem(screen, error.to_string()),
        }
    }

    fn open(&mut self, folder: PathBuf) -> Result<(), WindowClosed> {
        if self.session.as_ref().is_some_and(|session| session.folder() == folder) {
            return Ok(());
        }
        if self.session.as_ref().is_some_and(|session| !session.is_idle()) {
            let message =
                format!("{}: runs are under way in the open session; end or finish them first", folder.display());
            return self.outbox.problem(Screen::Runs, message);
        }
        self.session = None;
        self.live.clear();
        self.last_queue = QueueView::default();
        match Session::open_or_create(&folder, self.machine.clone()) {
            Ok(session) => {
                session.watch_node(self.watch_node);
                self.session = Some(session);
                self.outbox.send(Report::Session { folder: folder.clone(), read_only: None })?;
            }
            Err(error @ SessionError::Store(StoreError::InUse { .. })) => {
                self.outbox.send(Report::Session { folder: folder.clone(), read_only: Some(error.to_string()) })?;
            }
            Err(error) => return self.outbox.problem(Screen::Runs, format!("opening a session: {error}")),
        }
        self.tell(true)?;
        self.librarian.send(Request::Read(folder)).map_err(|_| WindowClosed)
    }

    fn launch(&mut self, plan: &Plan, only_missing: bool) -> Result<(), WindowClosed> {
        if self.session.is_none() {
            match default_sessions_folder() {
                Ok(sessions) => self.open(new_session_folder(&sessions, &plan.name))?,
                Err(error) => return self.outbox.problem(Screen::Plan, error.to_string()),
            }
        }
        // Where it could not be opened, that was said.
        let Some(session) = &mut self.session else { return Ok(()) };
        match session.add_plan(plan, only_missing) {
            Ok(added) => {
                let (queued, kept, invalid) = (added.queued, added.kept, added.invalid.len());
                self.outbox.send(Report::Launched { queued, kept, invalid })?;
                self.stale_since = Some(Instant::now());
                self.tell(true)
            }
            Err(error) => self.outbox.problem(Screen::Plan, error.to_string()),
        }
    }

    fn watch_node(&mut self, on: bool) -> Result<(), WindowClosed> {
        self.watch_node = on;
        if let Some(session) = &self.session {
            session.watch_node(on);
        }
        Ok(())
    }

    fn look_again(&mut self) -> Result<(), WindowClosed> {
        self.machine = Machine::look();
        self.outbox.send(Report::Node(Arc::new(self.machine.node.clone())))
    }
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

/// A folder that is not there yet, named after the plan and the day.
fn new_session_folder(sessions: &Path, plan: &str) -> PathBuf {
    let plain: String = plan.chars().map(|c| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    sessions.join(format!("{plain}-{}", jiff::Zoned::now().strftime("%Y-%m-%d-%H%M%S")))
}
