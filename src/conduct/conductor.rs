//! The main loop of a conductor: takes orders, drives the session, sends news to its clients.

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::client::Client;
use super::clients::{self, Arrived, Clients, HOST};
use super::message::{Conducting, Launch, News, Order};
#[cfg(feature = "window")]
use super::notifier::Notifier;
use super::presence::Presence;
use super::queue_view::QueueView;
use super::socket::Listening;
use super::{ConductError, Letter};
use crate::foreign;
use crate::plan::{Identity, RunState};
use crate::processes::inode;
use crate::session::{Added, Notice, Session, Stage};

/// Longest wait in the session before orders are checked.
const PATIENCE: Duration = Duration::from_millis(30);
/// Longest wait for an order while nothing runs.
const IDLE_PATIENCE: Duration = Duration::from_millis(500);
/// Shortest time between two reports of the queue.
const TELL_INTERVAL: Duration = Duration::from_millis(100);
/// Longest time between two reports of the queue while runs are active, so that elapsed times advance.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);
/// Shortest time between two requests to clients to read the records while runs end.
const RECORDS_INTERVAL: Duration = Duration::from_millis(500);
/// The most messages of clients that wait; clients block while it is full.
const LETTERS_IN_FLIGHT: usize = 256;

/// Conducts a session in this process until `stop` is set, or until there has been no client and nothing to do for `linger`. If the
/// session's folder was removed, there is nothing to do. Calls `ready` once clients can connect. Runs that are active at the end go on.
///
/// # Errors
/// Clients cannot connect, or the session cannot be closed.
pub fn serve(
    session: Session,
    linger: Duration,
    stop: &AtomicBool,
    ready: impl FnOnce(),
) -> Result<(), Box<dyn std::error::Error>> {
    let (sender, arrived) = sync_channel(LETTERS_IN_FLIGHT);
    let listening = match listen(session.folder(), sender, Conducting::here(true)) {
        Ok(listening) => listening,
        Err(error) => {
            // Runs that an earlier conductor left go on in any case.
            session.leave()?;
            return Err(error.into());
        }
    };
    ready();
    let mut conductor = Conductor::new(session, arrived);
    conductor.start_notifier();
    conductor.work(|conductor| {
        stop.load(Ordering::Relaxed) || conductor.is_done() && conductor.deserted_since.elapsed() >= linger
    });
    // A client that comes now starts the next conductor, which waits for the session's lock.
    drop(listening);
    conductor.session.leave()?;
    Ok(())
}

/// A conductor on a thread of this process. It ends when its first client, which [`host`] returned, disconnects; runs that are active at
/// that time are ended. Dropping this value waits for the conductor's end.
pub struct Host {
    thread: Option<JoinHandle<()>>,
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A panic was printed where it happened.
            let _ = thread.join();
        }
    }
}

/// Conducts a session on a thread of this process. Returns its first client, and the reason if no others can attach.
///
/// # Errors
/// The system has no more threads or sockets.
pub fn host(session: Session, live: bool) -> Result<(Client, Host, Option<ConductError>), ConductError> {
    let folder = session.folder().to_owned();
    let failed = |source| ConductError::Socket { doing: "conducting", path: folder.clone(), source };
    let (ours, theirs) = UnixStream::pair().map_err(failed)?;
    let (sender, arrived) = sync_channel(LETTERS_IN_FLIGHT);
    let conducting = Conducting::here(false);
    clients::serve(HOST, theirs, sender.clone(), conducting.clone()).map_err(failed)?;
    let (listening, alone) = match listen(&folder, sender, conducting) {
        Ok(listening) => (Some(listening), None),
        Err(error) => (None, Some(error)),
    };
    let conduct = move || {
        let mut conductor = Conductor::new(session, arrived);
        conductor.work(|conductor| conductor.host_left);
        drop(listening);
    };
    let thread = thread::Builder::new().name("conductor".to_owned()).spawn(conduct).map_err(failed)?;
    let host = Host { thread: Some(thread) };
    let client = Client::over(&folder, ours, live)?.ok_or(ConductError::Ended)?;
    Ok((client, host, alone))
}

fn listen(folder: &Path, arrived: SyncSender<Arrived>, conducting: Conducting) -> Result<Listening, ConductError> {
    let listening = Listening::new(folder)?;
    let accepting = listening.acceptor().and_then(|listener| clients::accept(listener, arrived, conducting));
    accepting.map_err(|source| ConductError::Socket {
        doing: "accepting clients of",
        path: folder.to_owned(),
        source,
    })?;
    Ok(listening)
}

struct Conductor {
    session: Session,
    arrived: Receiver<Arrived>,
    clients: Clients,
    /// Since when there has been no client and nothing to do.
    deserted_since: Instant,
    /// Whether the program that this conductor is a part of needs it no longer.
    host_left: bool,
    /// The last reported state of the queue.
    reported: QueueView,
    reported_at: Instant,
    /// Tells the conductors of other sessions that runs are active here.
    presence: Option<Presence>,
    /// Whether something happened since that report.
    is_changed: bool,
    /// Since when the clients' records are out of date.
    stale_since: Option<Instant>,
    /// The last failure that was reported. It is not repeated, since a full disk causes the same failure many times a second.
    last_problem: Option<String>,
    /// The time at which this problem last occurred.
    problem_at: Instant,
    /// Device and inode of the session's folder.
    identity: Option<(u64, u64)>,
    /// The folder itself, even if it is moved; `None` if it cannot be opened.
    folder: Option<File>,
    is_folder_gone: bool,
    /// Whether the queue was already paused when the folder disappeared.
    was_paused: bool,
    folder_checked: Instant,
    /// Only a detached conductor notifies; the user of `run` in the foreground sees the terminal.
    #[cfg(feature = "window")]
    notifier: Option<Notifier>,
    /// The number of runs that ended since the queue was last empty, and how many of these runs did not finish.
    ended: (usize, usize),
}

fn identity(folder: &Path) -> Option<(u64, u64)> {
    folder.join("session.toml").is_file().then(|| inode(folder).ok())?
}

impl Conductor {
    fn new(session: Session, arrived: Receiver<Arrived>) -> Self {
        let now = Instant::now();
        Self {
            identity: identity(session.folder()),
            folder: File::open(session.folder()).ok(),
            reported: QueueView::of(&session),
            session,
            arrived,
            clients: Clients::default(),
            deserted_since: now,
            host_left: false,
            reported_at: now,
            presence: None,
            is_changed: true,
            stale_since: None,
            last_problem: None,
            problem_at: now,
            is_folder_gone: false,
            was_paused: false,
            folder_checked: now,
            #[cfg(feature = "window")]
            notifier: None,
            ended: (0, 0),
        }
    }

    fn is_idle(&self) -> bool {
        self.session.is_idle() && self.stale_since.is_none()
    }

    /// Whether nothing is left to do, or nothing can be done.
    fn is_done(&self) -> bool {
        // The next conductor restores a paused queue.
        let rests = self.session.is_resting() && !self.is_folder_gone;
        self.is_idle() || rests || self.is_folder_gone && self.is_folder_removed()
    }

    fn is_folder_removed(&self) -> bool {
        self.folder.as_ref().is_some_and(foreign::is_removed)
    }

    fn work(&mut self, is_over: impl Fn(&Self) -> bool) {
        while !is_over(self) {
            if self.is_idle() {
                if let Ok(arrived) = self.arrived.recv_timeout(IDLE_PATIENCE) {
                    self.take(arrived);
                }
            } else {
                while !self.host_left
                    && let Ok(arrived) = self.arrived.try_recv()
                {
                    self.take(arrived);
                }
                if !self.host_left {
                    self.advance();
                }
            }
            self.check_folder();
            self.tell(false);
            if !self.clients.is_empty() || !self.is_done() {
                self.deserted_since = Instant::now();
            }
        }
    }

    fn take(&mut self, arrived: Arrived) {
        match arrived {
            Arrived::Joined(number, joined) => {
                self.clients.join(number, joined);
                let queue = News::Queue(self.reported.since(&QueueView::default()));
                self.clients.tell_one(number, &queue);
                let restored = self.session.restored();
                if restored > 0 {
                    let runs = if restored == 1 { "1 run waits".to_owned() } else { format!("{restored} runs wait") };
                    let why = if self.session.is_paused() {
                        "which was paused"
                    } else {
                        "which is paused for them: they came with an archive, or their conductor ended before they started"
                    };
                    let text = format!(
                        "{runs} in the queue, {why}. Resume the queue (Ctrl P, or `multicard attach --resume`), or cancel the runs \
                         (`multicard stop`)"
                    );
                    self.clients.tell_one(number, &News::Problem(text));
                }
                let lasts = self.is_folder_gone || self.problem_at.elapsed() < CLOCK_INTERVAL;
                if let (true, Some(problem)) = (lasts, &self.last_problem) {
                    self.clients.tell_one(number, &News::Problem(problem.clone()));
                }
            }
            Arrived::Left(number) => {
                self.clients.leave(number);
                self.host_left |= number == HOST;
            }
            Arrived::Letter(sender, Letter { number, order }) => {
                let outcome = self.execute(sender, order);
                self.is_changed = true;
                self.stale_since.get_or_insert_with(Instant::now);
                // The queue is sent first, so that the client that launched runs knows them when the answer arrives.
                self.tell(true);
                self.clients.tell_one(sender, &News::Answer { number, outcome });
            }
        }
    }

    fn execute(&mut self, sender: u64, order: Order) -> Result<Option<Added>, String> {
        let session = &mut self.session;
        let done = match order {
            Order::Launch(launch) => return self.launch(&launch).map(Some),
            Order::End => return self.end(sender).map(|()| None),
            Order::Pause(true) => {
                session.pause_until_resumed();
                Ok(())
            }
            Order::Pause(false) => session.resume_queue(),
            Order::Allow(digest) => session.allow(&digest),
            Order::StopSearch(plan) => {
                session.stop_search(&plan);
                Ok(())
            }
            Order::Cancel(run) => session.cancel(&run),
            Order::CancelAll => session.cancel_all(),
            Order::Retry(run) => session.retry(&run),
            Order::Revive(run) => session.revive(&run),
            Order::Reorder(run, position) => session.reorder(&run, position),
            Order::SaveStudy(name, study) => session.save_study(&name, study),
            Order::DeleteStudy(name) => session.delete_study(&name),
            Order::SaveMeasure(measure) => session.save_measure(measure),
            Order::DeleteMeasure(key) => session.delete_measure(key),
            Order::Attach(file, run) => session.attach(&file, run.as_deref()),
            Order::Note(run, note) => session.note(run, note),
            Order::CancelImports => {
                session.cancel_imports();
                Ok(())
            }
            Order::MeasureRates(duration_s) => session.measure_rates(duration_s),
            Order::CancelMeasuring => {
                session.cancel_measuring();
                Ok(())
            }
        };
        done.map(|()| None).map_err(|error| error.to_string())
    }

    /// Ends without a further look at the orders that have arrived, so that no run is queued that would end with this process.
    fn end(&mut self, sender: u64) -> Result<(), String> {
        if sender != HOST {
            return Err("this conductor ends by itself, or with the program that it is a part of".to_owned());
        }
        if !QueueView::of(&self.session).is_idle() {
            return Err("the session's conductor has runs or imports left".to_owned());
        }
        self.host_left = true;
        Ok(())
    }

    fn launch(&mut self, launch: &Launch) -> Result<Added, String> {
        let plan = launch.plan()?;
        if !launch.is_named {
            self.session.check_plan_allowed(&plan).map_err(|error| error.to_string())?;
        }
        // Data sets and the plan's own files are resolved in the client's folder; the runs start there, too.
        if std::env::current_dir().ok().as_ref() != Some(&launch.folder) {
            let failed =
                |error| format!("cannot work in {}, where the plan was launched: {error}", launch.folder.display());
            std::env::set_current_dir(&launch.folder).map_err(failed)?;
        }
        let cells: Option<HashSet<&Identity>> = launch.cells.as_ref().map(|cells| cells.iter().collect());
        let is_wanted = |cell: &Identity| cells.as_ref().is_none_or(|cells| cells.contains(cell));
        self.session.launch_once(&launch.id, |session| {
            session.add_cells(&plan, launch.only_missing, is_wanted).map_err(|error| error.to_string())
        })
    }

    fn advance(&mut self) {
        match self.session.advance(PATIENCE) {
            Ok(notices) => notices.into_iter().for_each(|notice| self.notice(notice)),
            Err(error) => {
                self.is_changed = true;
                self.problem(format!("recording the runs: {error}"));
                thread::sleep(PATIENCE);
            }
        }
        let (now, before) = (self.session.measurement(), self.reported.measurement.as_ref());
        self.is_changed |= now != before;
        if now.map(|now| now.measured) != before.map(|before| before.measured) {
            self.stale_since.get_or_insert_with(Instant::now);
        }
    }

    fn notice(&mut self, notice: Notice) {
        self.is_changed = true;
        if matches!(notice, Notice::State { .. } | Notice::Trace { .. }) {
            self.stale_since.get_or_insert_with(Instant::now);
        }
        let is_live = matches!(notice, Notice::Event(_) | Notice::Sample { .. });
        self.notify(&notice);
        self.clients.tell(&News::Notice(notice), is_live);
    }

    #[cfg(feature = "window")]
    fn start_notifier(&mut self) {
        self.notifier = Notifier::start();
    }

    #[cfg(not(feature = "window"))]
    fn start_notifier(&mut self) {}

    /// Notifies the user when a run fails and when nothing is left to run.
    fn notify(&mut self, notice: &Notice) {
        let Notice::State { run, state, reason } = notice else { return };
        if !state.is_final() {
            return;
        }
        let is_finished = *state == RunState::Finished;
        self.ended.0 += 1;
        self.ended.1 += usize::from(!is_finished);
        let name = self.name();
        if self.session.states().all(|(_, state)| state.is_final()) {
            let (ended, unfinished) = std::mem::take(&mut self.ended);
            self.show(
                format!("{name}: all runs have ended"),
                &format!("{} finished, {unfinished} did not finish", ended - unfinished),
            );
        } else if !is_finished && *state != RunState::Cancelled {
            let reason = reason.as_deref().map_or(String::new(), |reason| format!(": {reason}"));
            self.show(format!("{name}: a run {}", state.name()), &format!("{run}{reason}"));
        }
    }

    /// The session's name.
    fn name(&self) -> String {
        self.session.folder().file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn show(&self, summary: String, body: &str) {
        #[cfg(feature = "window")]
        if let Some(notifier) = &self.notifier {
            notifier.tell(summary, body);
        }
        #[cfg(not(feature = "window"))]
        let _ = (summary, body);
    }

    fn problem(&mut self, message: String) {
        self.problem_at = Instant::now();
        if self.last_problem.as_ref() != Some(&message) {
            self.clients.tell(&News::Problem(message.clone()), false);
            self.last_problem = Some(message);
        }
    }

    /// Sends what is new, at most once in an interval unless `now` is set.
    fn tell(&mut self, now: bool) {
        let since = self.reported_at.elapsed();
        if !now && since < TELL_INTERVAL {
            return;
        }
        // A client that waited for runs to end reads their records once the queue shows the end.
        if self.stale_since.is_some()
            && let Err(error) = self.session.flush()
        {
            self.problem(format!("bringing the index up to date: {error}"));
        }
        if self.is_changed || since >= CLOCK_INTERVAL && self.reported.is_running() {
            let view = QueueView::of(&self.session);
            let ticks = view.is_running() && view.time_s - self.reported.time_s >= CLOCK_INTERVAL.as_secs_f64();
            if !view.shows(&self.reported) || ticks {
                self.clients.tell(&News::Queue(view.since(&self.reported)), false);
                let failed = view.measurement.as_ref().filter(|now| Some(*now) != self.reported.measurement.as_ref());
                if let Some(Stage::Failed(reason)) = failed.map(|failed| &failed.stage) {
                    self.show(format!("{}: measuring rates failed", self.name()), reason);
                }
                self.reported = view;
                self.announce();
            }
            (self.is_changed, self.reported_at) = (false, Instant::now());
        }
        let is_due = |since: Instant| since.elapsed() >= RECORDS_INTERVAL || self.session.is_idle();
        if self.stale_since.is_some_and(is_due) {
            self.stale_since = None;
            self.clients.tell(&News::Records, false);
        }
    }

    /// Tells other conductors whether this session uses the machine, from the first run of the queue to the last one.
    fn announce(&mut self) {
        let uses = self.reported.is_running()
            || self.reported.is_measuring()
            || self.reported.is_active() && !self.reported.paused;
        if !uses {
            self.presence = None;
        } else if self.presence.is_none() {
            self.presence = Presence::of(self.session.folder());
        }
    }

    /// Starts no further run while the session's folder is missing, because its records would be lost.
    fn check_folder(&mut self) {
        if self.folder_checked.elapsed() < CLOCK_INTERVAL {
            return;
        }
        self.folder_checked = Instant::now();
        let is_gone = identity(self.session.folder()) != self.identity;
        if is_gone == self.is_folder_gone {
            return;
        }
        (self.is_folder_gone, self.is_changed) = (is_gone, true);
        if is_gone {
            self.was_paused = self.session.is_paused();
            self.session.pause_queue();
            self.problem(format!(
                "{} was moved, removed or replaced: put the session back, or run `multicard stop` where it is now; until then no \
                 further run starts",
                self.session.folder().display()
            ));
        } else {
            self.last_problem = None;
            if !self.was_paused {
                self.session.go_on();
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::launch::misbehaviour;
    use crate::plan::{NumaNode, Plan, Topology, fixture};
    use crate::session::Machine;

    fn small_plan() -> Plan {
        Plan::parse("version = 1\n", "small.toml").unwrap()
    }

    /// A session with one run in its queue.
    fn with_a_run(folder: &Path) -> Session {
        let worker = misbehaviour::worker(folder, "started 0; step 0 1; finished 0");
        let numa = NumaNode { cpus: 4, usable_cpus: vec![0, 1, 2, 3], ..NumaNode::default() };
        let topology = Topology { numa: vec![numa], ..Topology::default() };
        let machine = Machine { node: fixture::cpu_node(), topology, worker: Some(worker) };
        let mut session = Session::open_or_create(&folder.join("session"), machine).unwrap();
        session.add_plan(&small_plan(), false).unwrap();
        session
    }

    #[test]
    fn a_conductor_ends_when_its_program_orders_it_unless_a_run_is_left_and_takes_no_later_order() {
        let folder = tempfile::tempdir().unwrap();
        let (letters, arrived) = sync_channel(2);
        let mut conductor = Conductor::new(with_a_run(folder.path()), arrived);
        conductor.execute(HOST, Order::End).unwrap_err();
        conductor.execute(HOST, Order::CancelAll).unwrap();
        conductor.execute(HOST + 1, Order::End).unwrap_err();
        assert!(!conductor.host_left);
        letters.send(Arrived::Letter(HOST, Letter { number: 1, order: Order::End })).unwrap();
        let launch = Order::Launch(Box::new(Launch::new(&small_plan(), folder.path(), false)));
        letters.send(Arrived::Letter(HOST + 1, Letter { number: 1, order: launch })).unwrap();
        conductor.work(|conductor| conductor.host_left);
        assert_eq!(conductor.session.states().map(|(_, state)| state).collect::<Vec<_>>(), [RunState::Cancelled]);
    }

    #[test]
    fn a_conductor_with_a_run_in_its_queue_is_not_idle_and_works_until_that_run_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let (_clients, arrived) = sync_channel(1);
        let mut conductor = Conductor::new(with_a_run(folder.path()), arrived);
        assert!(!conductor.is_idle() && !conductor.is_done());
        let begun = Instant::now();
        conductor.work(|conductor| conductor.is_done() || begun.elapsed() > Duration::from_secs(60));
        assert_eq!(conductor.session.states().map(|(_, state)| state).collect::<Vec<_>>(), [RunState::Finished]);
        assert!(conductor.is_idle());
    }
}
