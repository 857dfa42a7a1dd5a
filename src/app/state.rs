//! All that the window shows, and how commands and reports change it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use eframe::egui::Context;

use super::closing::Closing;
use super::compare::CompareState;
use super::engine::{QueueView, Records, Report, Request};
use super::figures::FiguresState;
use super::live::LiveState;
use super::node::NodeState;
use super::plan::PlanState;
use super::runs::RunsState;
use super::sessions::SessionsState;
use super::{Command, Screen, Settings};
use crate::plan::Node;

/// The ends of figures' names.
const FIGURES: [&str; 3] = ["svg", "pdf", "png"];

/// A message where something was asked for and could not be done, or deserves to be known.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// Tells messages apart.
    pub number: u64,
    /// Where the action was taken.
    pub screen: Screen,
    /// What was tried, what was found, what to do.
    pub message: String,
}

/// The session that is open.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenSession {
    /// Its folder.
    pub folder: PathBuf,
    /// Why nothing can be launched in it, where another workbench writes it.
    pub read_only: Option<String>,
}

impl OpenSession {
    /// The name people know it by.
    pub fn name(&self) -> String {
        self.folder.file_name().unwrap_or(self.folder.as_os_str()).to_string_lossy().into_owned()
    }
}

/// All that the window shows.
#[derive(Default)]
pub struct State {
    /// What is kept between windows.
    pub settings: Settings,
    /// The screen that is shown.
    pub screen: Screen,
    /// This machine; none while it is being looked at.
    pub node: Option<Arc<Node>>,
    /// The session that is open.
    pub session: Option<OpenSession>,
    /// Runs of this workbench, where they stand.
    pub queue: Arc<QueueView>,
    /// All runs of the open session.
    pub records: Arc<Records>,
    /// A report that is being imported: its name, and how much of that is done, from 0 to 1.
    pub importing: Option<(String, f64)>,
    /// The palette is open.
    pub palette: bool,
    /// The list of keys is open.
    pub help: bool,
    /// Messages, oldest first.
    pub problems: Vec<Problem>,
    /// Opening and making sessions.
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
    /// The Figures screen.
    pub figures: FiguresState,
    /// The Node screen.
    pub machine: NodeState,
    next_problem: u64,
}

impl State {
    /// The state of a window that was just opened.
    pub fn new(settings: Settings) -> Self {
        Self { plan: PlanState::default(), settings, ..Self::default() }
    }

    /// Says something on a screen.
    pub fn problem(&mut self, screen: Screen, message: String) {
        // The same message twice would only hide others.
        self.problems.retain(|problem| problem.message != message || problem.screen != screen);
        self.problems.push(Problem { number: self.next_problem, screen, message });
        self.next_problem += 1;
    }

    /// Does one thing that was asked for.
    pub fn execute(&mut self, command: Command, context: &Context, requests: &mut Vec<Request>) {
        match command {
            Command::Show(screen) => self.show(screen, requests),
            Command::Theme(theme) => {
                self.settings.theme = theme;
                self.settings.apply(context);
            }
            Command::Zoom(steps) => {
                self.settings.zoom(steps);
                self.settings.apply(context);
            }
            Command::Palette(open) => self.palette = open,
            Command::Help(open) => self.help = open,
            Command::OpenSession(folder) => self.open_session(Request::OpenSession(folder), requests),
            Command::Sessions(command) => self.execute_sessions(command, context, requests),
            Command::Close(command) => self.execute_close(command, context, requests),
            Command::Dismiss(number) => self.problems.retain(|problem| problem.number != number),
            Command::Attach(file, run) => self.attach(file, run, requests),
            Command::CancelImports => requests.push(Request::CancelImports),
            Command::Dropped(paths) => self.dropped(paths, context, requests),
            Command::Plan(command) => self.execute_plan(command, context, requests),
            Command::Runs(command) => self.execute_runs(command, context, requests),
            Command::Live(command) => self.execute_live(command, context, requests),
            Command::Compare(command) => self.execute_compare(command, context, requests),
            Command::Figures(command) => self.execute_figures(command, context, requests),
            Command::Node(command) => self.execute_node(command, context, requests),
        }
    }

    /// Takes over what an engine's thread says.
    pub fn take(&mut self, report: Report) {
        match report {
            Report::Node(node) => {
                self.node = Some(node);
                self.plan.node_changed();
                self.machine.node_changed();
            }
            Report::Session { folder, read_only } => {
                self.settings.opened(&folder);
                self.session = Some(OpenSession { folder, read_only });
                self.queue = Arc::default();
                self.records = Arc::default();
                self.compare.records_changed();
                self.figures.records_changed();
                self.live.session_changed();
                self.sessions.opened();
                self.runs.session_changed();
            }
            Report::NotOpened { folder, reason } => self.not_opened(&folder, reason),
            Report::SessionGone(gone) => self.sessions.gone = gone,
            Report::Queue(queue) => {
                self.queue = queue;
                self.runs.queue_changed(&self.queue);
            }
            Report::Records(records) => self.take_records(records),
            Report::Live(batch) => self.live.take(batch),
            Report::NodeSample(sample) => self.machine.take_sample(*sample),
            Report::Importing(importing) => self.importing = importing,
            Report::Launched { queued, kept, invalid } => self.launched(queued, kept, invalid),
            Report::Problem { screen, message } => {
                // Wherever a launch failed: it may be tried again.
                self.plan.launch_answered();
                self.problem(screen, message);
            }
            Report::Page(page) => self.runs.take_page(*page),
            Report::Curves(curves) => self.live.take_curves(*curves),
        }
    }

    /// Takes over what background work of the screens has done.
    pub fn poll(&mut self, context: &Context, requests: &mut Vec<Request>) {
        self.poll_sessions(context, requests);
        self.poll_closing(context);
        self.poll_plan(context, requests);
        self.poll_runs(requests);
        self.poll_live(context, requests);
        self.poll_compare(context, requests);
        self.poll_figures(context, requests);
        self.poll_node(context, requests);
    }

    fn show(&mut self, screen: Screen, requests: &mut Vec<Request>) {
        if (self.screen == Screen::Node) != (screen == Screen::Node) {
            requests.push(Request::WatchNode(screen == Screen::Node));
        }
        if screen == Screen::Figures {
            // Sessions may have been added or taken away on the Compare screen.
            self.figures.records_changed();
        }
        self.screen = screen;
    }

    fn take_records(&mut self, records: Arc<Records>) {
        // What was read of a session that is no longer open is compared with it, or nobody wants it any more.
        if self.session.as_ref().is_some_and(|session| session.folder == records.folder) {
            self.records = records;
            self.runs.records_changed(&self.records, &self.queue);
            self.compare.records_changed();
            self.figures.records_changed();
            self.live.records_changed(&self.records);
        } else {
            self.compare.take_other(records);
            self.figures.records_changed();
        }
    }

    /// Has a profiler's report imported into the open session.
    pub(super) fn attach(&mut self, file: PathBuf, run: Option<String>, requests: &mut Vec<Request>) {
        let refusal = match &self.session {
            None => Some("a report is kept in a session, and none is open: open or make one first".to_owned()),
            Some(session) => session.read_only.clone(),
        };
        match refusal {
            Some(refusal) => self.problem(self.screen, format!("{}: {refusal}", file.display())),
            None => requests.push(Request::Attach(file, run)),
        }
    }

    fn launched(&mut self, queued: usize, kept: usize, invalid: usize) {
        self.plan.launch_answered();
        self.runs.launched(queued, kept, invalid);
        self.screen = Screen::Runs;
    }

    /// Plans are edited, sessions and figures opened; anything else is refused with what would be taken.
    fn dropped(&mut self, paths: Vec<PathBuf>, context: &Context, requests: &mut Vec<Request>) {
        for path in paths {
            let session = if path.is_dir() { Some(path.clone()) } else { path.parent().map(PathBuf::from) };
            let session = session.filter(|folder| folder.join("session.toml").exists());
            let session = session.filter(|_| !is_report(&path));
            let is_figure = path
                .extension()
                .is_some_and(|extension| FIGURES.iter().any(|known| extension.eq_ignore_ascii_case(known)));
            let is_plan = path.extension().is_some_and(|extension| extension == "toml");
            match session {
                _ if is_figure => self.execute_figures(super::FiguresCommand::Open(path), context, requests),
                Some(folder) if !is_plan || path.ends_with("session.toml") => {
                    self.open_session(Request::OpenExisting(folder), requests);
                }
                _ if is_report(&path) => self.attach(path, None, requests),
                _ if is_plan => self.execute_plan(super::PlanCommand::OpenFile(path), context, requests),
                _ => {
                    let message = format!(
                        "{}: neither a plan (a .toml file), a session (a folder with session.toml), a profiler's report (.nsys-rep, .sqlite) \
                         nor a figure (.svg, .pdf, .png): drop one of these",
                        path.display()
                    );
                    self.problem(self.screen, message);
                }
            }
        }
    }
}

/// Whether a path looks like a profiler's report.
fn is_report(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    let is_index = path.file_name().is_some_and(|name| name == "session.sqlite");
    !is_index && ending.is_some_and(|ending| ["nsys-rep", "qdrep", "sqlite"].contains(&ending))
}
