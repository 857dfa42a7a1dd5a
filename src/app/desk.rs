//! The desk, which all screens share: the machine, the open session with its queue and records, messages, and requests to the engine and to
//! other screens. The desk does not know any screen.

mod compared;
pub(super) mod export;
mod history;
mod runs;
mod table_file;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::command::ScreenName;
use super::engine::{Records, Request, Sampling};
use super::sample;
use super::settings::Settings;
use crate::analysis::{Key, Level, counted};
use crate::conduct::{Order, QueueView};
use crate::figure::Place;
use crate::plan::{Node, Plan};
use crate::protocol::Sample;
use crate::remote;
use crate::store::origin;
use crate::telemetry::use_by_programs;
pub use compared::{Compared, SharedSources, Source, figure_of, with_run_numbers};
pub use export::DataExport;
pub use history::{Deed, History, Inverse};
pub use runs::{Row, Runs};
use table_file::{SavingTable, UnsavedTable};

/// Interval of samples of the machine while the window is not used and nothing runs.
pub(super) const SAMPLES_AT_REST: Duration = Duration::from_secs(20);

/// An error or warning shown on a screen.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// Identifies the message.
    pub number: u64,
    /// The screen of the action.
    pub screen: ScreenName,
    /// What was tried, what was found and what to do.
    pub message: String,
    /// The kind of the command that failed; `None` if something else failed.
    tried: Option<String>,
}

/// The description of a completed action, shown for a while over the current screen.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// The action, in a sentence.
    pub text: String,
    /// Whether it describes the action that [`Desk::undo`] would undo.
    pub can_undo: bool,
}

/// The open session.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenSession {
    /// Its folder.
    pub folder: PathBuf,
    /// Why it is read-only, as a message; `None` if it can be changed.
    pub read_only: Option<String>,
}

impl OpenSession {
    /// Whether it is the sample session, into which nothing is launched.
    pub fn is_sample(&self) -> bool {
        sample::is_sample(&self.folder)
    }

    /// The machine that it is on, if it is not this machine.
    pub fn host(&self) -> Option<&str> {
        remote::host_of_copy(&self.folder)
    }

    /// Its location, in the form that arguments of commands use.
    pub fn place(&self) -> String {
        place_of(&self.folder)
    }

    /// The session's name: the name of its folder, and the name of its machine if it is not this machine.
    pub fn name(&self) -> String {
        if self.is_sample() {
            return sample::NAME.to_owned();
        }
        let name = self.folder.file_name().unwrap_or(self.folder.as_os_str()).to_string_lossy();
        self.host().map_or_else(|| name.clone().into_owned(), |host| format!("{name} on {host}"))
    }
}

/// The location of a session in the form that arguments of commands use: its address, if the folder is the copy of a session elsewhere.
pub fn place_of(folder: &Path) -> String {
    let origin = remote::host_of_copy(folder).and_then(|_| origin(folder));
    origin.unwrap_or_else(|| folder.display().to_string())
}

/// Something that happened; the desk already contains the new state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// The description of the machine was read.
    Node,
    /// A sample of the machine was taken.
    Sample,
    /// Another session was opened, or the sample was closed: all data of the former one are void.
    Session,
    /// The open session was opened again, for reading or for writing: its data stay valid until they are read again.
    SessionAgain,
    /// The records of the open session were read.
    Records,
    /// The queue, or what is known about it, changed.
    Queue,
    /// The compared sessions changed, or their records.
    Compared,
    /// The order or the colours of levels, the shown cells or the baseline on the Compare screen changed.
    Looks,
    /// The runs of a plan were queued.
    Launched,
    /// The conductor executed an order, or cannot execute orders any more.
    Answered,
    /// A request to the engine failed.
    Failed,
}

/// A request from one screen to another, which is then shown.
#[derive(Clone, Debug, PartialEq)]
pub enum Intent {
    /// Show it, nothing more.
    Look,
    /// Open this file.
    Open(PathBuf),
    /// Edit this plan.
    Edit(Box<Plan>),
    /// Save its edits.
    Save,
}

/// Which cells the Compare screen shows with which baseline, and the order and colours of levels there; the Live screen and figures without
/// their own settings use these.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Looks {
    /// The settings whose levels have a custom order.
    pub order: Vec<(Key, Vec<Level>)>,
    /// Levels with a custom colour, given as an index into the palette.
    pub colours: Vec<(Key, Level, u8)>,
    /// The setting that is shown by colours.
    pub colour: Place,
    /// The filter of cells.
    pub filter: String,
    /// Levels whose cells are left out.
    pub hidden: Vec<(Key, Level)>,
    /// Factors with a single level among the shown cells.
    pub held: Vec<(Key, Level)>,
    /// The baseline of ratios, in the form that studies use; `None` for the first shown cell that has the measure.
    pub baseline: Option<String>,
}

impl Looks {
    /// Whether Compare shows all cells.
    pub fn shows_all(&self) -> bool {
        self.hidden.is_empty() && self.held.is_empty() && self.filter.trim().is_empty()
    }
}

/// The state that all screens share.
#[derive(Default)]
pub struct Desk {
    /// The settings of the window, which are kept when the program is started again.
    pub settings: Settings,
    /// The current screen.
    pub screen: ScreenName,
    /// The machine that runs happen on; `None` while it is being read.
    pub node: Option<Arc<Node>>,
    /// The names of the user's sites on this machine.
    pub sites: Vec<String>,
    /// The latest sample of the whole machine, if the screen shows any.
    pub sample: Option<Sample>,
    /// Whether the sample was taken while the window was at rest, when samples are rare.
    pub sample_is_of_rest: bool,
    /// The folders of other sessions that have runs on this machine, as of the latest sample.
    pub(super) other_sessions: Vec<PathBuf>,
    /// The samples of the machine that were asked for.
    pub(super) watched: Option<Sampling>,
    /// The open session.
    pub session: Option<OpenSession>,
    /// Whether the folder of the open session is missing.
    pub is_gone: bool,
    /// The folder of the session that is being opened.
    pub opening: Option<PathBuf>,
    /// The folder of the session that is being opened and was not there before.
    pub creating: Option<PathBuf>,
    /// The state of the queue.
    pub queue: Arc<QueueView>,
    /// All recorded runs of the open session.
    pub records: Arc<Records>,
    /// All runs of the open session, recorded or queued.
    pub runs: Runs,
    /// The sessions compared with the open one.
    pub compared: Compared,
    /// How the Compare screen shows levels.
    pub looks: Looks,
    /// The report being imported: its name and the fraction done, from 0 to 1.
    pub importing: Option<(String, f64)>,
    /// Messages, oldest first.
    pub problems: Vec<Problem>,
    /// The export of data.
    pub export: DataExport,
    /// The table that is being saved.
    saving_table: Option<SavingTable>,
    /// The table for which the user is asked for a path, because no path was chosen in a dialog.
    unsaved_table: Option<UnsavedTable>,
    /// The description of the last action, with its number; `None` once it was dismissed.
    pub notice: Option<(u64, Notice)>,
    /// Actions on the session that can be undone.
    pub history: History,
    /// Whether this window has moved queued runs since the list of runs was last put in order.
    pub has_moved_runs: bool,
    next_notice: u64,
    next_problem: u64,
    /// The command that is being executed.
    trying: Option<String>,
    requests: Vec<Request>,
    /// Requests that wait until programs of an archive are allowed.
    pub(super) waiting_requests: Vec<Request>,
    sent: VecDeque<Sent>,
}

/// A message on its way to screens.
pub(super) enum Sent {
    /// A request to one screen.
    Request(ScreenName, Intent),
    /// News for all screens.
    News(News),
}

impl Desk {
    /// An empty desk that shows this screen.
    pub(super) fn new(settings: Settings, screen: ScreenName) -> Self {
        Self { settings, screen, ..Self::default() }
    }

    /// Sends a request to the engine. Requests that may start programs of an archive wait until the user allows them.
    pub fn ask(&mut self, request: Request) {
        if self.has_to_ask(&request) { self.waiting_requests.push(request) } else { self.send(request) }
    }

    pub(super) fn send(&mut self, request: Request) {
        self.requests.push(request);
    }

    /// Sends an order to the session's conductor.
    pub fn order(&mut self, order: Order) {
        self.has_moved_runs |= matches!(order, Order::Reorder(..));
        self.ask(Request::Order(order));
    }

    /// The requests to the engine since the last call.
    pub fn take_requests(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.requests)
    }

    /// Shows another screen and sends it a request.
    pub fn goto(&mut self, screen: ScreenName, intent: Intent) {
        self.screen = screen;
        self.sent.push_back(Sent::Request(screen, intent));
    }

    /// Sends news to all screens.
    pub fn tell(&mut self, news: News) {
        self.sent.push_back(Sent::News(news));
    }

    /// The next message on its way to screens.
    pub(super) fn next_sent(&mut self) -> Option<Sent> {
        self.sent.pop_front()
    }

    /// Clears all data about runs, because another session or none is open.
    pub(super) fn forget_runs(&mut self) {
        (self.records, self.runs) = (Arc::default(), Runs::default());
        self.waiting_requests.clear();
        (self.history, self.notice) = (History::default(), None);
    }

    /// Shows a message on a screen.
    pub fn problem(&mut self, screen: ScreenName, message: String) {
        // Repeating a message would only hide others.
        self.problems.retain(|problem| problem.message != message || problem.screen != screen);
        let tried = self.trying.clone();
        self.problems.push(Problem { number: self.next_problem, screen, message, tried });
        self.next_problem += 1;
    }

    /// Shows the description of an action.
    pub fn say(&mut self, notice: Notice) {
        self.notice = Some((self.next_notice, notice));
        self.next_notice += 1;
    }

    /// Tells the user that this text was copied to the clipboard.
    pub fn copied(&mut self, text: &str) {
        let mut lines = text.lines();
        let first: String = lines.next().unwrap_or_default().chars().take(60).collect();
        let more = lines.count();
        let more = if more > 0 { format!(" … and {}", counted(more, "line")) } else { String::new() };
        self.say(Notice { text: format!("Copied: {first}{more}"), can_undo: false });
    }

    /// A command begins: messages about failures of earlier commands of its kind are removed.
    pub(super) fn begin(&mut self, kind: String) {
        self.problems.retain(|problem| problem.tried.as_ref() != Some(&kind));
        self.trying = Some(kind);
    }

    /// The command was executed.
    pub(super) fn end(&mut self) {
        self.trying = None;
    }

    /// An order of a screen succeeded: messages about earlier failures are obsolete.
    pub(super) fn succeeded(&mut self, screen: ScreenName) {
        self.problems.retain(|problem| problem.screen != screen || problem.tried.is_some());
    }

    /// Requests a session.
    pub fn open_session(&mut self, request: Request) {
        if let Request::OpenSession(folder) | Request::OpenExisting(folder) | Request::NewSession(folder) = &request {
            self.opening = Some(folder.clone());
        }
        self.ask(request);
    }

    /// A session could not be opened: the previous one stays.
    pub(super) fn not_opened(&mut self, folder: &Path, reason: Option<String>) {
        self.opening.take_if(|opening| opening == folder);
        let Some(reason) = reason else { return };
        let stays = self.session.as_ref().map_or(String::new(), |open| format!("; {} stays open", open.name()));
        // The request may have come from any screen.
        self.problem(self.screen, format!("{reason}{stays}"));
    }

    /// Whether a session is being opened, or its records have not been read yet, so that its runs are unknown.
    pub fn is_reading_session(&self) -> bool {
        let is_unread = |session: &OpenSession| self.records.folder != session.folder;
        self.opening.is_some() || self.session.as_ref().is_some_and(is_unread)
    }

    /// Why the open session is read-only; `None` if its runs can be changed.
    pub fn locked(&self) -> Option<&str> {
        self.session.as_ref().and_then(|session| session.read_only.as_deref())
    }

    /// Imports a profiler report into the open session.
    pub fn attach(&mut self, file: PathBuf, run: Option<String>) {
        let refusal = match &self.session {
            None => Some("a report is attached to a session, and none is open: open or create one first".to_owned()),
            Some(session) => session.read_only.clone(),
        };
        match refusal {
            Some(refusal) => self.problem(self.screen, format!("{}: {refusal}", file.display())),
            None => self.order(Order::Attach(file, run)),
        }
    }

    /// Takes over a sample of the whole machine.
    pub(super) fn take_sample(&mut self, sample: Sample) {
        let has_rates = |sample: &Sample| sample.host.cpus_busy.is_some();
        if self.sample.as_ref().is_some_and(has_rates) && !has_rates(&sample) {
            // The first sample at another interval has no rates yet; they come with the next one.
            return;
        }
        self.sample_is_of_rest = self.has_few_samples();
        self.sample = Some(sample);
    }

    /// Requests these samples of the machine, or none.
    pub(super) fn watch_node(&mut self, wanted: Option<Sampling>) {
        if std::mem::replace(&mut self.watched, wanted) != wanted {
            self.ask(Request::WatchNode(wanted));
        }
        if wanted.is_none() {
            // An old sample would be misleading when it is shown again later.
            self.sample = None;
        }
    }

    /// Whether samples are so rare that the latest one may be out of date.
    pub fn has_few_samples(&self) -> bool {
        self.watched.is_some_and(|watched| watched.interval == SAMPLES_AT_REST)
    }

    /// Whether the session itself uses the machine.
    pub fn uses_machine(&self) -> bool {
        self.queue.is_running() || self.queue.is_measuring()
    }

    /// The use of the machine by other sessions and other programs, in words; `None` if there is none or if it is unknown. What the session
    /// itself uses hides what other programs use.
    pub fn use_by_others(&self) -> Option<String> {
        let name = |folder: &PathBuf| folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy().into_owned();
        let names: Vec<String> = self.other_sessions.iter().map(name).collect();
        let sessions = match &names[..] {
            [] => None,
            [name] => Some(format!("session {name} has runs on this machine")),
            several => Some(format!("sessions {} have runs on this machine", several.join(", "))),
        };
        let used: Vec<String> = sessions.into_iter().chain(self.use_by_programs()).collect();
        (!used.is_empty()).then(|| used.join("; "))
    }

    fn use_by_programs(&self) -> Option<String> {
        let (node, sample) = (self.node.as_ref()?, self.sample.as_ref()?);
        if self.uses_machine() { None } else { use_by_programs(node, sample) }
    }
}
