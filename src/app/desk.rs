//! What the screens share: the machine, the open session with its queue and records, messages, and what is asked of the engine and of
//! other screens. It knows no screen.

mod compared;
pub(super) mod export;
mod history;
mod runs;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::command::ScreenName;
use super::engine::{Records, Request};
use super::sample;
use super::settings::Settings;
use crate::analysis::{Key, Level, counted};
use crate::conduct::{Order, QueueView};
use crate::plan::{Node, Plan};
use crate::protocol::Sample;
use crate::remote;
use crate::store::origin;
use crate::telemetry::signs_of_use;
pub use compared::{Compared, Source};
pub use export::DataExport;
pub use history::{Deed, History, Inverse};
pub use runs::{Row, Runs};

/// Interval of samples of the machine while nobody touches the window and nothing runs.
pub(super) const SAMPLES_AT_REST: Duration = Duration::from_secs(20);
/// Least number, and least share, of CPUs kept busy by others that make a machine busy.
const BUSY_CPUS: f64 = 0.5;
const BUSY_SHARE: f64 = 0.1;

/// An error or warning shown on a screen.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// Identifies the message.
    pub number: u64,
    /// The screen of the action.
    pub screen: ScreenName,
    /// What was tried, what was found and what to do.
    pub message: String,
    /// The command that failed, by its name; none if it was something else.
    tried: Option<String>,
}

/// Something that was done, said for a while over whichever screen is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// What was done.
    pub text: String,
    /// Whether it is what [`Desk::undo`] would undo.
    pub can_undo: bool,
}

/// The open session.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenSession {
    /// Its folder.
    pub folder: PathBuf,
    /// Why it is read-only, as a line that says so; none if it can be written.
    pub read_only: Option<String>,
}

impl OpenSession {
    /// Whether it is the sample session, into which nothing is launched.
    pub fn is_sample(&self) -> bool {
        sample::is_sample(&self.folder)
    }

    /// The machine that it is on, if that is another one.
    pub fn host(&self) -> Option<&str> {
        remote::host_of_copy(&self.folder)
    }

    /// Where it is, as arguments of commands name it.
    pub fn place(&self) -> String {
        let origin = self.host().and_then(|_| origin(&self.folder));
        origin.unwrap_or_else(|| self.folder.display().to_string())
    }

    /// The session's name: that of its folder, and the machine that it is on if that is another one.
    pub fn name(&self) -> String {
        if self.is_sample() {
            return sample::NAME.to_owned();
        }
        let name = self.folder.file_name().unwrap_or(self.folder.as_os_str()).to_string_lossy();
        self.host().map_or_else(|| name.clone().into_owned(), |host| format!("{name} on {host}"))
    }
}

/// What happened, which the desk knows by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// The machine was read.
    Node,
    /// A sample of the machine was taken.
    Sample,
    /// Another session was opened, or the sample was closed: nothing of the former one holds.
    Session,
    /// The open session was opened once more, to be read only or to be written: what is known of it holds until it was read again.
    SessionAgain,
    /// The records of the open session were read.
    Records,
    /// The queue, or what is known of it, changed.
    Queue,
    /// The compared sessions changed, or their records.
    Compared,
    /// The Compare screen shows levels in another order or other colours.
    Looks,
    /// The runs of a plan were queued.
    Launched,
    /// The conductor executed an order, or can execute none any longer.
    Answered,
    /// Something that was asked of the engine failed.
    Failed,
}

/// What one screen asks of another, which is shown.
#[derive(Clone, Debug, PartialEq)]
pub enum Intent {
    /// Only to be shown.
    Look,
    /// Open this file.
    Open(PathBuf),
    /// Edit this plan.
    Edit(Box<Plan>),
    /// Save what is edited.
    Save,
}

/// Which cells the Compare screen shows, and order and colours of levels there; figures without their own take them over.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Looks {
    /// Settings whose levels have an order of their own.
    pub order: Vec<(Key, Vec<Level>)>,
    /// Levels with a colour of their own, by its place in the palette.
    pub colours: Vec<(Key, Level, u8)>,
    /// The filter of cells.
    pub filter: String,
    /// Levels whose cells are left out.
    pub hidden: Vec<(Key, Level)>,
    /// Factors that are held at a level.
    pub held: Vec<(Key, Level)>,
}

/// What the screens share.
#[derive(Default)]
pub struct Desk {
    /// Settings kept between starts.
    pub settings: Settings,
    /// The current screen.
    pub screen: ScreenName,
    /// The machine that runs happen on; `None` while it is being read.
    pub node: Option<Arc<Node>>,
    /// The latest sample of the whole machine, while the screen shows some of it.
    pub sample: Option<Sample>,
    /// Whether it was taken while the window rests, when samples are few.
    pub sample_is_of_rest: bool,
    /// The interval at which the machine is sampled.
    pub(super) watched: Option<Duration>,
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
    /// All runs of the open session, as they were recorded.
    pub records: Arc<Records>,
    /// All runs of the open session, as recorded and as queued.
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
    /// What was done last, and its number; none once it was dismissed.
    pub notice: Option<(u64, Notice)>,
    /// What was done to the session and can be undone.
    pub history: History,
    next_notice: u64,
    next_problem: u64,
    /// The command that is being executed.
    trying: Option<String>,
    requests: Vec<Request>,
    /// What waits until programs of an archive are allowed.
    pub(super) asked: Vec<Request>,
    sent: VecDeque<Sent>,
}

/// What is on its way to screens.
pub(super) enum Sent {
    /// To one of them.
    Asked(ScreenName, Intent),
    /// To all of them.
    Told(News),
}

impl Desk {
    /// An empty desk that shows this screen.
    pub(super) fn new(settings: Settings, screen: ScreenName) -> Self {
        Self { settings, screen, ..Self::default() }
    }

    /// Asks something of the engine. What may start programs of an archive waits until their user allows them.
    pub fn ask(&mut self, request: Request) {
        if self.has_to_ask(&request) { self.asked.push(request) } else { self.send(request) }
    }

    pub(super) fn send(&mut self, request: Request) {
        self.requests.push(request);
    }

    /// Asks something of the session's conductor.
    pub fn order(&mut self, order: Order) {
        self.ask(Request::Order(order));
    }

    /// What was asked of the engine since the last call.
    pub fn take_requests(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.requests)
    }

    /// Shows another screen, and asks something of it.
    pub fn goto(&mut self, screen: ScreenName, intent: Intent) {
        self.screen = screen;
        self.sent.push_back(Sent::Asked(screen, intent));
    }

    /// Tells all screens what happened.
    pub fn tell(&mut self, news: News) {
        self.sent.push_back(Sent::Told(news));
    }

    /// What is next on its way to screens.
    pub(super) fn next_sent(&mut self) -> Option<Sent> {
        self.sent.pop_front()
    }

    /// Another session was opened, or none is open: nothing is known of its runs.
    pub(super) fn forget_runs(&mut self) {
        (self.records, self.runs) = (Arc::default(), Runs::default());
        self.asked.clear();
        (self.history, self.notice) = (History::default(), None);
    }

    /// Shows a message on a screen.
    pub fn problem(&mut self, screen: ScreenName, message: String) {
        // A repeated message would only hide others.
        self.problems.retain(|problem| problem.message != message || problem.screen != screen);
        let tried = self.trying.clone();
        self.problems.push(Problem { number: self.next_problem, screen, message, tried });
        self.next_problem += 1;
    }

    /// Says what was done.
    pub fn say(&mut self, notice: Notice) {
        self.notice = Some((self.next_notice, notice));
        self.next_notice += 1;
    }

    /// Says that this text is in the clipboard now.
    pub fn copied(&mut self, text: &str) {
        let mut lines = text.lines();
        let first: String = lines.next().unwrap_or_default().chars().take(60).collect();
        let more = lines.count();
        let more = if more > 0 { format!(" … and {}", counted(more, "line")) } else { String::new() };
        self.say(Notice { text: format!("Copied: {first}{more}"), can_undo: false });
    }

    /// A command is executed: what an earlier one of its kind could not do is no longer shown.
    pub(super) fn begin(&mut self, kind: String) {
        self.problems.retain(|problem| problem.tried.as_ref() != Some(&kind));
        self.trying = Some(kind);
    }

    /// The command was executed.
    pub(super) fn end(&mut self) {
        self.trying = None;
    }

    /// An order of a screen succeeded: what kept earlier ones back is obsolete.
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
        // The request may come from any screen.
        self.problem(self.screen, format!("{reason}{stays}"));
    }

    /// Whether a session is being opened, or its records have not been read yet: nothing is known of its runs.
    pub fn is_reading_session(&self) -> bool {
        let is_unread = |session: &OpenSession| self.records.folder != session.folder;
        self.opening.is_some() || self.session.as_ref().is_some_and(is_unread)
    }

    /// Why the open session is read-only; none if its runs can be changed.
    pub fn locked(&self) -> Option<&str> {
        self.session.as_ref().and_then(|session| session.read_only.as_deref())
    }

    /// Imports a profiler report into the open session.
    pub fn attach(&mut self, file: PathBuf, run: Option<String>) {
        let refusal = match &self.session {
            None => Some("a report needs a session and none is open: open or create one first".to_owned()),
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
            // The first sample at another interval: rates come with the next one.
            return;
        }
        self.sample_is_of_rest = self.has_few_samples();
        self.sample = Some(sample);
    }

    /// Asks for samples of the machine at this interval, or for none.
    pub(super) fn watch_node(&mut self, wanted: Option<Duration>) {
        if std::mem::replace(&mut self.watched, wanted) != wanted {
            self.ask(Request::WatchNode(wanted));
        }
        if wanted.is_none() {
            // An old sample says nothing of the time when it is looked at again.
            self.sample = None;
        }
    }

    /// Whether samples are so few that the latest may say little of now.
    pub fn has_few_samples(&self) -> bool {
        self.watched == Some(SAMPLES_AT_REST)
    }

    /// Whether the session itself uses the machine.
    pub fn uses_machine(&self) -> bool {
        self.queue.is_running() || self.queue.is_measuring()
    }

    /// What other programs use of the machine; none while the session itself uses it, or nothing is known.
    pub fn use_by_others(&self) -> Option<String> {
        let (node, sample) = (self.node.as_ref()?, self.sample.as_ref()?);
        if self.uses_machine() {
            return None;
        }
        let cpus = f64::from(node.cpus);
        let busy = sample.host.cpus_busy.filter(|busy| *busy >= BUSY_CPUS.max(BUSY_SHARE * cpus));
        let busy = busy.map(|busy| format!("{busy:.1} of {} CPUs are busy", node.cpus));
        let gpus = sample.gpus.iter().filter_map(|gpu| {
            let signs = signs_of_use(gpu)?;
            let index = node.gpus.iter().find(|known| known.uuid == gpu.uuid)?.index;
            Some(format!("GPU {index} is in use ({signs})"))
        });
        let signs: Vec<String> = busy.into_iter().chain(gpus).collect();
        (!signs.is_empty()).then(|| format!("other programs use this machine: {}", signs.join(", ")))
    }
}
