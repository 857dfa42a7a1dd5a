//! The window's state, and how commands and events change it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use eframe::egui::{Context, ViewportCommand};

use super::compare::CompareState;
use super::engine::{Records, Request, UiEvent};
use super::figures::{ENDINGS, FiguresState};
use super::live::LiveState;
use super::node::NodeState;
use super::plan::PlanState;
use super::runs::RunsState;
use super::sessions::SessionsState;
use super::timeline::TimelineState;
use super::{Command, Screen, Settings, sample};
use crate::conduct::{Order, QueueView};
use crate::plan::Node;
use crate::remote;
use crate::store::origin;

/// Interval of samples of the machine while nobody touches the window and nothing runs.
pub(super) const SAMPLES_AT_REST: Duration = Duration::from_secs(20);

/// An error or warning shown on a screen.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// Identifies the message.
    pub number: u64,
    /// The screen of the action.
    pub screen: Screen,
    /// What was tried, what was found and what to do.
    pub message: String,
    /// The command that failed, by its name; none if it was something else.
    tried: Option<String>,
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

/// Whether the window is about to close.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Closing {
    /// It stays open.
    #[default]
    No,
    /// Runs are active and the question is shown.
    Asked,
    /// It closes once the runs have ended.
    WhenEnded,
    /// The plan has unsaved edits and the question is shown.
    PlanAsked,
    /// It closes once the plan is saved.
    WhenSaved,
    /// It closes now.
    Now,
}

/// Everything the window shows.
#[derive(Default)]
pub struct State {
    /// Settings kept between starts.
    pub settings: Settings,
    /// The current screen.
    pub screen: Screen,
    /// This machine; `None` while it is being read.
    pub node: Option<Arc<Node>>,
    /// The open session.
    pub session: Option<OpenSession>,
    /// The state of the queue.
    pub queue: Arc<QueueView>,
    /// All runs of the open session.
    pub records: Arc<Records>,
    /// The report being imported: its name and the fraction done, from 0 to 1.
    pub importing: Option<(String, f64)>,
    /// Whether the command palette is open.
    pub command_palette: bool,
    /// Whether the list of keys is open.
    pub help: bool,
    /// Messages, oldest first.
    pub problems: Vec<Problem>,
    /// Opening and creating sessions.
    pub sessions: SessionsState,
    /// Whether the window is about to close.
    pub closing: Closing,
    /// The Plan screen.
    pub plan: PlanState,
    /// The Runs screen.
    pub runs: RunsState,
    /// The Live screen.
    pub live: LiveState,
    /// The Compare screen.
    pub compare: CompareState,
    /// The Timeline screen.
    pub timeline: TimelineState,
    /// The Figures screen.
    pub figures: FiguresState,
    /// The export of data.
    pub data: super::data_export::DataState,
    /// The Node screen.
    pub machine: NodeState,
    next_problem: u64,
    /// The command that is being executed.
    trying: Option<String>,
    /// The interval at which the machine is sampled.
    watched: Option<Duration>,
}

impl State {
    /// The state of a new window.
    pub fn new(settings: Settings) -> Self {
        Self { plan: PlanState::default(), settings, ..Self::default() }
    }

    /// The window's title, by which windows of several sessions are told apart.
    pub fn window_title(&self) -> String {
        let name = super::NAME;
        self.session.as_ref().map_or_else(|| name.to_owned(), |session| format!("{} – {name}", session.name()))
    }

    /// Shows a message on a screen.
    pub fn problem(&mut self, screen: Screen, message: String) {
        // A repeated message would only hide others.
        self.problems.retain(|problem| problem.message != message || problem.screen != screen);
        let tried = self.trying.clone();
        self.problems.push(Problem { number: self.next_problem, screen, message, tried });
        self.next_problem += 1;
    }

    /// Whether a session is being opened, or its records have not been read yet: nothing is known of its runs.
    pub fn is_reading_session(&self) -> bool {
        let is_unread = |session: &OpenSession| self.records.folder != session.folder;
        self.sessions.opening.is_some() || self.session.as_ref().is_some_and(is_unread)
    }

    /// Executes a command. What an earlier one of its kind could not do is no longer shown.
    pub fn execute(&mut self, command: Command, context: &Context, requests: &mut Vec<Request>) {
        let kind = command.kind();
        self.problems.retain(|problem| problem.tried.as_ref() != Some(&kind));
        self.trying = Some(kind);
        self.perform(command, context, requests);
        self.trying = None;
    }

    fn perform(&mut self, command: Command, context: &Context, requests: &mut Vec<Request>) {
        match command {
            Command::Show(screen) => self.show(screen),
            Command::Theme(theme) => {
                self.settings.theme = theme;
                self.settings.apply(context);
            }
            Command::Zoom(steps) => {
                self.settings.zoom(steps);
                self.settings.apply(context);
            }
            Command::Columns(table, columns) => {
                self.settings.columns.insert(table, columns);
                self.settings.save();
            }
            Command::Palette(open) => self.command_palette = open,
            Command::CopyCommand => self.copy_command(context),
            Command::Quit => context.send_viewport_cmd(ViewportCommand::Close),
            Command::Help(open) => self.help = open,
            Command::OpenSession(folder) => self.open_session(Request::OpenSession(folder), requests),
            Command::Sessions(command) => self.execute_sessions(command, context, requests),
            Command::Close(command) => self.execute_close(command, context, requests),
            Command::Dismiss(number) => self.problems.retain(|problem| problem.number != number),
            Command::Attach(file, run) => self.attach(file, run, requests),
            Command::CancelImports => requests.push(Request::Order(Order::CancelImports)),
            Command::Dropped(paths) => self.dropped(paths, context, requests),
            Command::Plan(command) => self.execute_plan(command, context, requests),
            Command::Runs(command) => self.execute_runs(command, context, requests),
            Command::Live(command) => self.execute_live(command, context, requests),
            Command::Compare(command) => self.execute_compare(command, context, requests),
            Command::Timeline(command) => self.execute_timeline(command, context, requests),
            Command::Figures(command) => self.execute_figures(command, context, requests),
            Command::Data(command) => self.execute_data(command, context),
            Command::Node(command) => self.execute_node(command, context, requests),
        }
    }

    /// Takes over an event of the engine.
    pub fn take(&mut self, event: UiEvent) {
        match event {
            UiEvent::Node(node) => {
                self.node = Some(node);
                self.plan.node_changed();
                self.machine.node_changed();
            }
            UiEvent::Session { folder, read_only } => self.take_session(OpenSession { folder, read_only }),
            UiEvent::SampleClosed => {
                if self.session.take_if(|session| session.is_sample()).is_some() {
                    self.records = Arc::default();
                    self.runs.session_changed();
                    self.compare.session_changed();
                    self.figures.records_changed();
                    self.live.session_changed();
                }
            }
            UiEvent::NotOpened { folder, reason } => self.not_opened(&folder, reason),
            UiEvent::ConductorEnded(folder) => {
                self.importing = None;
                self.machine.order_answered();
                self.sessions.orphaned = Some(folder);
            }
            UiEvent::Access(read_only) => {
                self.machine.order_answered();
                if read_only.is_some() {
                    self.queue = Arc::default();
                    self.runs.queue_changed(&self.queue);
                }
                if let Some(session) = &mut self.session {
                    session.read_only = read_only;
                }
            }
            UiEvent::SessionGone(gone) => self.sessions.gone = gone,
            UiEvent::Queue(queue) => {
                self.queue = queue;
                self.runs.queue_changed(&self.queue);
            }
            UiEvent::Records(records) => self.take_records(records),
            UiEvent::Live(batch) => self.live.take(batch),
            UiEvent::Places(places) => self.machine.places = Some(*places),
            UiEvent::NodeSample(sample) => self.machine.take_sample(*sample, self.has_few_samples()),
            UiEvent::Importing(importing) => self.importing = importing,
            UiEvent::Launched { queued, kept, invalid } => self.launched(queued, kept, invalid),
            UiEvent::Done(screen) => {
                self.machine.order_answered();
                self.problems.retain(|problem| problem.screen != screen || problem.tried.is_some());
            }
            UiEvent::Problem { screen, message } => {
                // It may have been a launch, which can now be tried again.
                self.plan.launch_answered();
                self.machine.order_answered();
                self.problem(screen, message);
            }
            UiEvent::Page(page) => self.runs.take_page(*page),
            UiEvent::Curves(curves) => self.live.take_curves(*curves),
        }
    }

    /// Takes over the results of background work.
    pub fn poll(&mut self, context: &Context, requests: &mut Vec<Request>) {
        self.poll_sessions(context, requests);
        self.poll_closing(context);
        self.poll_plan(context, requests);
        self.poll_runs(requests);
        self.poll_live(context, requests);
        self.poll_compare(context, requests);
        self.poll_timeline(context);
        self.poll_figures(context, requests);
        self.poll_data();
        self.poll_node(context, requests);
    }

    /// Asks for samples of the machine where the screen shows them. Each causes a frame, so that there are few while nobody touches the
    /// window and nothing runs.
    pub fn watch_node(&mut self, is_at_rest: bool, requests: &mut Vec<Request>) {
        let often = match self.screen {
            Screen::Node => Some(Duration::from_secs(1)),
            Screen::Plan => Some(Duration::from_secs(5)),
            _ => None,
        };
        let is_at_rest = is_at_rest && !self.queue.is_running();
        let wanted = often.map(|often| if is_at_rest { SAMPLES_AT_REST } else { often });
        if std::mem::replace(&mut self.watched, wanted) != wanted {
            requests.push(Request::WatchNode(wanted));
        }
        if wanted.is_none() {
            // An old sample says nothing of the time when it is looked at again.
            self.machine.sample = None;
        }
    }

    /// Whether samples are so few that the latest may say little of now.
    pub(super) fn has_few_samples(&self) -> bool {
        self.watched == Some(SAMPLES_AT_REST)
    }

    fn show(&mut self, screen: Screen) {
        if screen == Screen::Figures {
            // Sessions may have been added or removed on the Compare screen.
            self.figures.records_changed();
        }
        self.screen = screen;
    }

    fn take_session(&mut self, session: OpenSession) {
        let is_sample = session.is_sample();
        if !is_sample {
            self.settings.opened(&session.folder);
        }
        let is_first = self.session.is_none();
        let is_opened_again = self.session.as_ref().is_some_and(|before| before.folder == session.folder);
        self.session = Some(session);
        self.queue = Arc::default();
        // It may be on another machine.
        self.machine.places = None;
        self.machine.order_answered();
        self.sessions.opened();
        if is_opened_again {
            // It was opened again, to be read only or to be written: its records and curves hold until they have been read anew.
            self.live.session_opened_again();
            self.runs.records_changed(&self.records, &self.queue);
            return;
        }
        if !is_first {
            // They told of another session.
            self.problems.clear();
        }
        // The sample's plan and cells are no concern of the plan that is edited.
        self.plan.session_changed(!is_sample);
        self.records = Arc::default();
        self.compare.session_changed();
        self.figures.records_changed();
        self.live.session_changed();
        self.runs.session_changed();
    }

    fn take_records(&mut self, records: Arc<Records>) {
        // Records of another session belong to the comparison, or are no longer needed.
        if self.session.as_ref().is_some_and(|session| session.folder == records.folder) {
            let before = std::mem::replace(&mut self.records, records);
            self.runs.records_changed(&self.records, &self.queue);
            if !self.session.as_ref().is_some_and(OpenSession::is_sample) {
                self.plan.records_changed(&self.records);
            }
            self.compare.records_changed();
            self.figures.records_changed();
            self.live.records_changed(&self.records);
            free(before);
        } else {
            self.compare.take_other(records);
            self.figures.records_changed();
        }
    }

    /// Imports a profiler report into the open session.
    pub(super) fn attach(&mut self, file: PathBuf, run: Option<String>, requests: &mut Vec<Request>) {
        let refusal = match &self.session {
            None => Some("a report needs a session and none is open: open or create one first".to_owned()),
            Some(session) => session.read_only.clone(),
        };
        match refusal {
            Some(refusal) => self.problem(self.screen, format!("{}: {refusal}", file.display())),
            None => requests.push(Request::Order(Order::Attach(file, run))),
        }
    }

    fn launched(&mut self, queued: usize, kept: usize, invalid: usize) {
        self.plan.launch_answered();
        // What kept earlier launches back is obsolete.
        self.problems.retain(|problem| problem.screen != Screen::Plan);
        self.runs.launched(queued, kept, invalid);
        self.screen = Screen::Runs;
    }

    /// Opens dropped plans, sessions, figures and reports; rejects anything else with what is accepted.
    fn dropped(&mut self, paths: Vec<PathBuf>, context: &Context, requests: &mut Vec<Request>) {
        for path in paths {
            let session = if path.is_dir() { Some(path.clone()) } else { path.parent().map(PathBuf::from) };
            let session = session.filter(|folder| folder.join("session.toml").exists());
            let session = session.filter(|_| !is_report(&path) && !is_recording(&path));
            let is_figure = path
                .extension()
                .is_some_and(|extension| ENDINGS.iter().any(|known| extension.eq_ignore_ascii_case(known)));
            let is_plan = path.extension().is_some_and(|extension| extension == "toml");
            match session {
                _ if is_figure => self.execute_figures(super::FiguresCommand::Open(path), context, requests),
                Some(folder) if !is_plan || path.ends_with("session.toml") => {
                    self.open_session(Request::OpenExisting(folder), requests);
                }
                _ if is_recording(&path) || self.screen == Screen::Timeline && is_report(&path) => {
                    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
                    self.execute_timeline(super::TimelineCommand::Open(path, name), context, requests);
                }
                _ if is_report(&path) => self.attach(path, None, requests),
                _ if is_plan => self.execute_plan(super::PlanCommand::OpenFile(path), context, requests),
                _ => {
                    let message = format!(
                        "{}: not a plan (.toml), session (a folder with session.toml), profiler report (.nsys-rep, .sqlite), \
                         built-in trace (.events) or figure (.svg, .pdf, .png): drop one of these",
                        path.display()
                    );
                    self.problem(self.screen, message);
                }
            }
        }
    }
}

/// Frees records on a thread of their own: ten thousand runs take longer than a frame. Without a thread they are freed here.
fn free(records: Arc<Records>) {
    let _ = std::thread::Builder::new().name("free".to_owned()).spawn(move || drop(records));
}

/// Whether a path looks like a profiler report.
fn is_recording(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "events")
}

fn is_report(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    let is_index = path.file_name().is_some_and(|name| name == "session.sqlite");
    !is_index && ending.is_some_and(|ending| ["nsys-rep", "qdrep", "sqlite"].contains(&ending))
}
