//! The attachment thread: attaches to the conductor of the open session, passes orders on, and describes the machine.
//!
//! A second thread follows the conductor's news and updates the window at most ten times a second.

mod node_watch;
mod remote;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::messages::{LiveBatch, Outbox, Request, Sampling, UiEvent, WindowClosed};
use super::start::{Waiting, look_at_machine};
use crate::app::command::ScreenName;
use crate::app::curves::LiveStep;
use crate::app::sample;
use crate::conduct::{Client, ConductError, Launch, News, Order, Orders, QueueView, other_sessions_with_runs};
use crate::plan::{Node, Plan};
use crate::protocol::{Event, EventLine, TraceOutcome};
use crate::remote::Address;
use crate::session::{Machine, Notice, new_session_folder, open_reader};
use crate::store::StepRecord;
use node_watch::{NodeWatch, ShownUse};
use remote::Remote;

/// Shortest time between two updates of the window's curves.
const UPDATE_INTERVAL: Duration = Duration::from_millis(100);
/// A conductor that ends sooner is not replaced automatically, because the next one might end as well.
const SHORTEST_LIFE: Duration = Duration::from_secs(10);
/// Longest wait for a request while the machine is watched.
const WATCHING_PATIENCE: Duration = Duration::from_millis(500);
/// Longest wait for a request while there is a connection to another machine.
const LINE_PATIENCE: Duration = Duration::from_millis(100);

/// Message for a request that a read-only session cannot serve.
const READ_ONLY: &str =
    "the session is read-only: fix the cause shown above, then open it for writing, or open another session";

/// Works until the window is closed; the conductor continues after that.
pub(super) fn run(requests: &Receiver<Request>, librarian: &SyncSender<Request>, outbox: &Outbox) {
    let Ok((machine, waiting)) = look_at_machine(requests, outbox) else { return };
    let mut desk = Desk::new(machine, librarian, outbox);
    desk.shown = waiting.as_ref().and_then(Waiting::shown);
    // For whatever reason it ends, the window is closed then.
    let _ = match waiting {
        Some(waiting) => desk.execute(waiting.request).and_then(|()| desk.work(requests)),
        None => desk.work(requests),
    };
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

struct Desk<'a> {
    machine: Machine,
    attached: Option<Attached>,
    /// A session that is shown before this thread is attached to it.
    shown: Option<PathBuf>,
    /// Whether the window shows a session that it cannot change.
    read_only: bool,
    /// The open session, if it is on another machine.
    remote: Option<Remote>,
    /// A session on another machine that is being opened.
    opening: Option<Remote>,
    /// The samples of the machine that a screen needs.
    watched: Option<Sampling>,
    /// Set while a screen needs samples of this machine.
    node_watch: Option<NodeWatch>,
    /// The machine that the window shows: this one, or that of the open session.
    shown_node: Arc<Node>,
    shown_use: ShownUse,
    /// Other sessions that have runs on this machine, as the window knows them.
    others: Vec<PathBuf>,
    unanswered: Arc<Mutex<Unanswered>>,
    librarian: &'a SyncSender<Request>,
    outbox: &'a Outbox,
}

/// Launches that have not been answered yet, in the order in which they were sent.
#[derive(Default)]
struct Unanswered {
    /// The session's folder.
    folder: PathBuf,
    launches: VecDeque<Launch>,
}

impl Unanswered {
    /// The names of the launched plans; `None` if there are none.
    fn names(&self) -> Option<String> {
        let names: Vec<&str> = self.launches.iter().map(Launch::name).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }
}

/// A connection to a conductor. Dropping it ends the connection and the thread that follows it.
struct Attached {
    folder: PathBuf,
    orders: Orders,
    is_left: Arc<AtomicBool>,
    following: Option<JoinHandle<()>>,
    since: Instant,
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.is_left.store(true, Ordering::Relaxed);
        self.orders.leave();
        if let Some(following) = self.following.take() {
            // A panic was printed where it happened.
            let _ = following.join();
        }
    }
}

impl<'a> Desk<'a> {
    fn new(machine: Machine, librarian: &'a SyncSender<Request>, outbox: &'a Outbox) -> Self {
        Self {
            shown_node: Arc::new(machine.node.clone()),
            machine,
            attached: None,
            shown: None,
            read_only: false,
            remote: None,
            opening: None,
            watched: None,
            node_watch: None,
            shown_use: ShownUse::default(),
            others: Vec::new(),
            unanswered: Arc::default(),
            librarian,
            outbox,
        }
    }

    fn work(&mut self, requests: &Receiver<Request>) -> Result<(), WindowClosed> {
        loop {
            let has_line = self.remote.is_some() || self.opening.is_some();
            if has_line || self.node_watch.is_some() {
                match requests.recv_timeout(if has_line { LINE_PATIENCE } else { WATCHING_PATIENCE }) {
                    Ok(request) => self.execute(request)?,
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return Err(WindowClosed),
                }
            } else {
                let request = requests.recv().map_err(|_| WindowClosed)?;
                self.execute(request)?;
            }
            self.poll_remote()?;
            if let Some(sample) = self.node_watch.as_ref().and_then(NodeWatch::latest) {
                self.show_sample(Box::new(sample))?;
                self.tell_of_others()?;
            }
        }
    }

    /// Tells which other sessions have runs on this machine, if these changed.
    fn tell_of_others(&mut self) -> Result<(), WindowClosed> {
        let own = self.attached.as_ref().map(|attached| &*attached.folder);
        let others = other_sessions_with_runs(own);
        if others == self.others {
            return Ok(());
        }
        self.others.clone_from(&others);
        self.outbox.send(UiEvent::OtherSessions(others))
    }

    fn execute(&mut self, request: Request) -> Result<(), WindowClosed> {
        match request {
            Request::OpenSession(folder) => self.open(folder, Opening::Either),
            Request::OpenExisting(folder) => self.open(folder, Opening::Existing),
            Request::NewSession(folder) => self.open(folder, Opening::New),
            Request::OpenSample => self.open_sample(),
            Request::CloseSample => self.outbox.send(UiEvent::SampleClosed),
            Request::Reattach(folder) => self.reattach(&folder),
            Request::Launch { plan, only_missing } => self.launch(&plan, only_missing),
            Request::Order(order) => self.order(order),
            Request::WatchNode(sampling) => self.watch_node(sampling),
            Request::RefreshNode => self.refresh_node(),
            Request::Places => {
                if let Some(remote) = &self.remote {
                    remote.look_at_places();
                }
                Ok(())
            }
            // The engine sends these to the librarian.
            Request::Read(_) | Request::Page(..) | Request::Curves(..) | Request::Follow { .. } => Ok(()),
        }
    }

    fn order(&mut self, order: Order) -> Result<(), WindowClosed> {
        let screen = match &order {
            Order::Launch(_) => ScreenName::PLAN,
            Order::Attach(..)
            | Order::CancelImports
            | Order::SaveStudy(..)
            | Order::DeleteStudy(_)
            | Order::SaveMeasure(_)
            | Order::DeleteMeasure(_) => ScreenName::COMPARE,
            Order::MeasureRates(_) | Order::CancelMeasuring => ScreenName::NODE,
            _ => ScreenName::RUNS,
        };
        let Some(attached) = &self.attached else {
            let message = if self.read_only { READ_ONLY } else { "no session is open: open or create one first" };
            return self.outbox.problem(screen, message);
        };
        if let Some(refusal) = self.remote.as_ref().and_then(|remote| remote.refusal(&order)) {
            return self.outbox.problem(screen, refusal);
        }
        if let Order::Launch(launch) = &order {
            let mut unanswered = lock(&self.unanswered);
            unanswered.folder.clone_from(&attached.folder);
            unanswered.launches.push_back((**launch).clone());
        }
        // The answer has the number of the screen.
        match attached.orders.send(number_of(screen), order) {
            Ok(()) => Ok(()),
            Err(error) => self.outbox.problem(screen, error.to_string()),
        }
    }

    fn open(&mut self, folder: PathBuf, opening: Opening) -> Result<(), WindowClosed> {
        match Address::of(&folder) {
            Ok(None) => {}
            Ok(Some(address)) => return self.open_remote(folder, address, opening),
            Err(reason) => return self.outbox.send(UiEvent::NotOpened { folder, reason: Some(reason) }),
        }
        let is_open = |attached: &Attached| is_same(&attached.folder, &folder);
        if self.attached.as_ref().is_some_and(is_open) {
            return self.outbox.send(UiEvent::NotOpened { folder, reason: None });
        }
        let known = folder.join("session.toml").exists();
        let refused = match opening {
            Opening::Existing if !known => Some("no session here (session.toml is missing); check the path"),
            Opening::New if known => Some("a session exists here already; open it, or choose another name"),
            _ => None,
        };
        if let Some(why) = refused {
            let reason = Some(format!("{}: {why}", folder.display()));
            return self.outbox.send(UiEvent::NotOpened { folder, reason });
        }
        let is_shown = self.shown.take().is_some_and(|shown| shown == folder);
        let can_be_read = || is_shown || known && open_reader(&folder).is_ok();
        let client = match Client::connect_or_start(&folder, true) {
            Ok(client) => Ok(client),
            Err(error) if can_be_read() => Err(format!("Read-only: {error}")),
            // The previous session stays open.
            Err(error) => {
                let reason = Some(error.to_string());
                return self.outbox.send(UiEvent::NotOpened { folder, reason });
            }
        };
        self.attached = None;
        self.leave_remote()?;
        self.read_only = client.is_err();
        let read_only = client.as_ref().err().cloned();
        if !is_shown || self.read_only {
            self.outbox.send(UiEvent::Session { folder: folder.clone(), read_only })?;
        }
        self.go_on(&folder, client.ok())
    }

    /// Shows the sample session, which has no conductor. Launches go into a new session.
    fn open_sample(&mut self) -> Result<(), WindowClosed> {
        let folder = match sample::folder() {
            Ok(folder) => folder,
            // Nothing has a folder yet, and the request may have come from any screen.
            Err(message) => {
                return self.outbox.send(UiEvent::NotOpened { folder: PathBuf::new(), reason: Some(message) });
            }
        };
        (self.attached, self.read_only) = (None, false);
        self.leave_remote()?;
        let read_only = Some(sample::ABOUT.to_owned());
        self.outbox.send(UiEvent::Session { folder: folder.clone(), read_only })?;
        // No process writes it.
        self.go_on(&folder, None)
    }

    /// Follows the news of a conductor on a thread.
    fn attach(&mut self, folder: &Path, client: Client) -> Result<(), WindowClosed> {
        let is_left = Arc::<AtomicBool>::default();
        let orders = client.orders();
        let follower = Follower {
            client,
            folder: folder.to_owned(),
            is_left: Arc::clone(&is_left),
            librarian: self.librarian.clone(),
            outbox: self.outbox.clone(),
            unanswered: Arc::clone(&self.unanswered),
            queue: QueueView::default(),
            live: BTreeMap::new(),
            updated: Instant::now(),
        };
        let follow = move || {
            // The window is closed.
            let _ = follower.follow();
        };
        let following = std::thread::Builder::new().name("follower".to_owned()).spawn(follow);
        match (orders, following) {
            (Ok(orders), Ok(following)) => {
                let (folder, following) = (folder.to_owned(), Some(following));
                self.attached = Some(Attached { folder, orders, is_left, following, since: Instant::now() });
                Ok(())
            }
            (orders, following) => {
                let reason = orders.err().map(|error| error.to_string());
                let reason = reason.or(following.err().map(|error| error.to_string())).unwrap_or_default();
                self.outbox.problem(ScreenName::RUNS, format!("cannot follow the session: {reason}"))
            }
        }
    }

    /// Attaches to the next conductor of a session after the previous one has ended.
    fn reattach(&mut self, folder: &Path) -> Result<(), WindowClosed> {
        let Some(before) = self.attached.take_if(|attached| attached.folder == folder) else { return Ok(()) };
        let lived = before.since.elapsed();
        drop(before);
        if self.remote.as_ref().is_some_and(Remote::was_cut) {
            // The next connection is used once it exists.
            return Ok(());
        }
        let client = if lived < SHORTEST_LIFE {
            let reason =
                format!("the session's conductor ended after {:.0} s: open it for writing", lived.as_secs_f64());
            Err(reason)
        } else {
            let client = match &mut self.remote {
                Some(remote) => remote.client(),
                None => Client::connect_or_start(folder, true),
            };
            client.map_err(|error| error.to_string())
        };
        self.take_up(folder, client)
    }

    /// Continues the open session with another conductor, or without one.
    fn take_up(&mut self, folder: &Path, client: Result<Client, String>) -> Result<(), WindowClosed> {
        self.attached = None;
        self.read_only = client.is_err();
        let read_only = client.as_ref().err().map(|reason| format!("Read-only: {reason}"));
        self.outbox.send(UiEvent::Access(read_only))?;
        self.go_on(folder, client.ok())
    }

    /// Attaches to the conductor, if there is one, and requests that the session is read.
    fn go_on(&mut self, folder: &Path, client: Option<Client>) -> Result<(), WindowClosed> {
        if let Some(client) = client {
            self.attach(folder, client)?;
            self.send_again(folder)?;
        }
        let follow = Request::Follow { folder: folder.to_owned(), read_only: self.read_only };
        self.librarian.send(follow).map_err(|_| WindowClosed)?;
        self.librarian.send(Request::Read(folder.to_owned())).map_err(|_| WindowClosed)
    }

    /// Sends launches again whose answers were lost with a connection. Launches that were executed are not executed again.
    fn send_again(&mut self, folder: &Path) -> Result<(), WindowClosed> {
        let mut unanswered = lock(&self.unanswered);
        let names = unanswered.names();
        let launches = std::mem::take(&mut unanswered.launches);
        let elsewhere = unanswered.folder.clone();
        drop(unanswered);
        let Some(names) = names else { return Ok(()) };
        if elsewhere != folder {
            let place = elsewhere.display();
            let message = format!(
                "the launch of {names} was not answered: check on the Runs screen of {place} whether its runs are there"
            );
            return self.outbox.problem(ScreenName::PLAN, message);
        }
        launches.into_iter().try_for_each(|launch| self.order(Order::Launch(Box::new(launch))))
    }

    fn launch(&mut self, plan: &Plan, only_missing: bool) -> Result<(), WindowClosed> {
        if self.attached.is_none() && !self.read_only {
            match new_session_folder(&plan.name) {
                Ok(folder) => self.open(folder, Opening::New)?,
                Err(error) => return self.outbox.problem(ScreenName::PLAN, error.to_string()),
            }
            // The reason is already shown.
            if self.attached.is_none() {
                return Ok(());
            }
        }
        if let Some(remote) = &self.remote {
            let launch = remote.launch(plan, only_missing);
            return self.order(Order::Launch(Box::new(launch)));
        }
        match std::env::current_dir() {
            Ok(folder) => self.order(Order::Launch(Box::new(Launch::new(plan, &folder, only_missing)))),
            Err(error) => self
                .outbox
                .problem(ScreenName::PLAN, format!("cannot find the folder that multicard was started in: {error}")),
        }
    }
}

fn lock(unanswered: &Mutex<Unanswered>) -> MutexGuard<'_, Unanswered> {
    unanswered.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The screens that give orders: the number of an order is its screen's index here.
const ORDERING: [ScreenName; 4] = [ScreenName::RUNS, ScreenName::PLAN, ScreenName::COMPARE, ScreenName::NODE];

/// The screen whose order has this number.
fn screen_of(number: u64) -> ScreenName {
    usize::try_from(number).ok().and_then(|place| ORDERING.get(place)).copied().unwrap_or_default()
}

/// The number of a screen's orders.
fn number_of(screen: ScreenName) -> u64 {
    ORDERING.iter().position(|known| *known == screen).unwrap_or_default() as u64
}

/// Whether two paths lead to the same folder.
fn is_same(a: &Path, b: &Path) -> bool {
    a == b || a.canonicalize().ok().is_some_and(|a| b.canonicalize().is_ok_and(|b| a == b))
}

/// Follows a conductor's news.
struct Follower {
    client: Client,
    folder: PathBuf,
    /// Whether the window has left the conductor.
    is_left: Arc<AtomicBool>,
    unanswered: Arc<Mutex<Unanswered>>,
    librarian: SyncSender<Request>,
    outbox: Outbox,
    queue: QueueView,
    live: BTreeMap<String, LiveBatch>,
    updated: Instant,
}

impl Follower {
    fn follow(mut self) -> Result<(), WindowClosed> {
        loop {
            let patience = (!self.live.is_empty()).then(|| UPDATE_INTERVAL.saturating_sub(self.updated.elapsed()));
            match self.client.next(patience) {
                Ok(Some(news)) => self.take(news)?,
                Ok(None) => {}
                Err(_) if self.is_left.load(Ordering::Relaxed) => return Ok(()),
                Err(ConductError::Ended) => return self.outbox.send(UiEvent::ConductorEnded(self.folder)),
                Err(error) => {
                    self.outbox.problem(ScreenName::RUNS, error.to_string())?;
                    return self.outbox.send(UiEvent::ConductorEnded(self.folder));
                }
            }
            if !self.live.is_empty() && self.updated.elapsed() >= UPDATE_INTERVAL {
                self.updated = Instant::now();
                for batch in std::mem::take(&mut self.live).into_values() {
                    self.outbox.send(UiEvent::Live(batch))?;
                }
            }
        }
    }

    fn take(&mut self, news: News) -> Result<(), WindowClosed> {
        if let News::Answer { number, .. } = &news
            && screen_of(*number) == ScreenName::PLAN
        {
            // Answers come in the order of their launches.
            lock(&self.unanswered).launches.pop_front();
        }
        match news {
            News::Queue(change) => {
                self.queue.apply(change);
                self.outbox.send(UiEvent::Queue(Arc::new(self.queue.clone())))
            }
            News::Notice(notice) => self.notice(notice),
            News::Records => self.librarian.send(Request::Read(self.folder.clone())).map_err(|_| WindowClosed),
            News::Answer { number, outcome: Ok(None) } => self.outbox.send(UiEvent::Done(screen_of(number))),
            News::Answer { outcome: Ok(Some(added)), .. } => {
                let (queued, kept, invalid) = (added.runs.len(), added.kept, added.invalid.len());
                self.outbox.send(UiEvent::Launched { queued, kept, invalid, warnings: added.warnings })
            }
            News::Answer { number, outcome: Err(message) } => self.outbox.problem(screen_of(number), message),
            News::Problem(message) => self.outbox.problem(ScreenName::RUNS, message),
        }
    }

    fn notice(&mut self, notice: Notice) -> Result<(), WindowClosed> {
        match notice {
            Notice::State { .. } | Notice::Waits { .. } => Ok(()),
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
                if let Some(TraceOutcome::Failed(reason)) = outcome {
                    self.outbox
                        .problem(ScreenName::COMPARE, format!("cannot import the report of {name}: {reason}"))?;
                }
                self.outbox.send(UiEvent::Importing(None))
            }
            Notice::Noise { message, .. } => {
                self.outbox.problem(ScreenName::RUNS, format!("unreadable line in a log: {message}"))
            }
        }
    }

    fn take_event(&mut self, line: &EventLine) {
        if line.event == Event::StepsWithdrawn {
            let batch = self.batch(&line.run);
            (batch.steps, batch.withdraws_steps) = (Vec::new(), true);
            return;
        }
        let Event::Step { epoch, step, duration_s, load_wait_s, loss, units, warm_up, traced, .. } = line.event else {
            return;
        };
        let time_s = line.time_s;
        let step = StepRecord { step, time_s, epoch, duration_s, load_wait_s, loss, units, warm_up, traced };
        self.batch(&line.run).steps.push(LiveStep { rank: line.rank, step });
    }

    fn batch(&mut self, run: &str) -> &mut LiveBatch {
        let new = || LiveBatch { run: run.to_owned(), ..LiveBatch::default() };
        self.live.entry(run.to_owned()).or_insert_with(new)
    }
}
