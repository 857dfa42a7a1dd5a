//! The window's state: the desk, the screens, and the pages that cover them; and how commands and events change it.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use eframe::egui::{Context, ViewportCommand};

use super::closing::Closing;
use super::command::{Command, ScreenName};
use super::desk::{Desk, Intent, News, Notice, OpenSession, SAMPLES_AT_REST, Sent};
use super::engine::{Records, Request, Sampling, UiEvent};
use super::screen::{Screen, Unsaved};
use super::screens::screens;
use super::sessions::Sessions;
use super::settings::Settings;
use super::task::absolute;
use super::words::runs_text;
use crate::conduct::Order;
use crate::plan::counted;
use crate::trace::is_pytorch_trace;

/// The state behind everything that the window shows.
pub struct Window {
    /// The state that all screens share.
    pub desk: Desk,
    /// The screens, in the order of the rail, which is also that of the keys 1, 2, ….
    pub screens: Vec<Box<dyn Screen>>,
    /// Opening and creating sessions.
    pub sessions: Sessions,
    /// Whether the window is about to close.
    pub closing: Closing,
    /// Whether the command palette is open.
    pub command_palette: bool,
    /// Whether the list of keys is open.
    pub help: bool,
}

impl Default for Window {
    fn default() -> Self {
        Self::new(Settings::default())
    }
}

impl Window {
    /// A new window with the built-in screens.
    pub fn new(settings: Settings) -> Self {
        Self::with_screens(settings, screens())
    }

    /// A new window with these screens; the first one is shown.
    pub fn with_screens(settings: Settings, screens: Vec<Box<dyn Screen>>) -> Self {
        let screen = screens.first().map_or_else(ScreenName::default, |first| first.name());
        Self {
            desk: Desk::new(settings, screen),
            screens,
            sessions: Sessions::default(),
            closing: Closing::default(),
            command_palette: false,
            help: false,
        }
    }

    /// The window's title, which distinguishes windows with different sessions.
    pub fn title(&self) -> String {
        let name = super::NAME;
        self.desk.session.as_ref().map_or_else(|| name.to_owned(), |session| format!("{} – {name}", session.name()))
    }

    /// The screen that is shown.
    pub fn shown(&self) -> Option<&dyn Screen> {
        self.screens.iter().find(|screen| screen.name() == self.desk.screen).map(Box::as_ref)
    }

    /// A screen by its type.
    pub fn screen<S: Screen>(&self) -> Option<&S> {
        self.screens.iter().find_map(|screen| (&**screen as &dyn Any).downcast_ref())
    }

    /// A screen by its type, mutable.
    pub fn screen_mut<S: Screen>(&mut self) -> Option<&mut S> {
        self.screens.iter_mut().find_map(|screen| (&mut **screen as &mut dyn Any).downcast_mut())
    }

    /// Edits that closing the window would lose.
    pub fn unsaved(&self) -> Option<Unsaved> {
        self.screens.iter().find_map(|screen| screen.unsaved(&self.desk))
    }

    /// Executes a command.
    pub fn execute(&mut self, command: Command, context: &Context) {
        self.desk.begin(command.kind());
        self.perform(command, context);
        self.deliver(context);
        self.desk.end();
    }

    fn perform(&mut self, command: Command, context: &Context) {
        let desk = &mut self.desk;
        match command {
            Command::Show(screen) => desk.screen = screen,
            Command::Theme(theme) => {
                desk.settings.theme = theme;
                desk.settings.apply(context);
                desk.settings.save();
            }
            Command::Zoom(steps) => {
                desk.settings.zoom(steps);
                desk.settings.apply(context);
                desk.settings.save();
            }
            Command::Columns(table, columns) => {
                desk.settings.columns.insert(table, columns);
                desk.settings.save();
            }
            Command::Palette(open) => self.command_palette = open,
            Command::CopyCommand => self.copy_command(context),
            Command::Quit => context.send_viewport_cmd(ViewportCommand::Close),
            Command::Help(open) => self.help = open,
            Command::OpenSession(folder) => {
                // The command line's folder may be relative.
                let folder = absolute(&folder);
                let is_far = folder.to_string_lossy().starts_with("ssh://");
                let is_new = !is_far && !folder.join("session.toml").exists();
                desk.creating = is_new.then(|| folder.clone());
                desk.open_session(Request::OpenSession(folder));
            }
            Command::Sessions(command) => self.sessions.execute(command, desk, context),
            Command::Close(command) => {
                let unsaved = self.unsaved();
                self.closing.execute(command, &mut self.desk, unsaved.as_ref(), context);
            }
            Command::Allow(allows) => desk.answer(allows),
            Command::Dismiss(number) => desk.problems.retain(|problem| problem.number != number),
            Command::Undo => desk.undo(),
            Command::Redo => desk.redo(),
            Command::DismissNotice(number) => drop(desk.notice.take_if(|(shown, _)| *shown == number)),
            Command::Pause(pause) => match desk.locked() {
                Some(reason) => desk.problem(desk.screen, reason.to_owned()),
                None => desk.order(Order::Pause(pause)),
            },
            Command::Attach(file, run) => desk.attach(file, run),
            Command::CancelImports => desk.order(Order::CancelImports),
            Command::Dropped(paths) => paths.into_iter().for_each(|path| self.dropped(path)),
            Command::SaveTable(path) => desk.save_typed_table(path, context),
            Command::Data(command) => desk.execute_export(command, context),
            Command::Screen(command) => {
                let name = command.screen();
                if let Some(screen) = self.screens.iter_mut().find(|screen| screen.name() == name) {
                    screen.execute_boxed(command, desk, context);
                }
            }
        }
    }

    /// Delivers messages to screens until there are none left.
    fn deliver(&mut self, context: &Context) {
        while let Some(sent) = self.desk.next_sent() {
            for screen in &mut self.screens {
                match &sent {
                    Sent::News(news) => screen.receive_news(*news, &mut self.desk),
                    Sent::Request(name, intent) if screen.name() == *name => {
                        screen.receive_request(intent.clone(), &mut self.desk, context);
                    }
                    Sent::Request(..) => {}
                }
            }
        }
    }

    /// Sends news to all screens.
    fn tell(&mut self, news: News) {
        self.screens.iter_mut().for_each(|screen| screen.receive_news(news, &mut self.desk));
    }

    /// Takes over an event of the engine.
    pub fn take(&mut self, event: UiEvent) {
        let desk = &mut self.desk;
        let news = match event {
            UiEvent::Node(node) => {
                desk.node = Some(node);
                News::Node
            }
            UiEvent::Sites(sites) => {
                desk.sites = sites;
                return;
            }
            UiEvent::Session { folder, read_only } => return self.take_session(OpenSession { folder, read_only }),
            UiEvent::SampleClosed => {
                if desk.session.take_if(|session| session.is_sample()).is_none() {
                    return;
                }
                desk.forget_runs();
                News::Session
            }
            UiEvent::NotOpened { folder, reason } => return desk.not_opened(&folder, reason),
            UiEvent::ConductorEnded(folder) => {
                desk.importing = None;
                self.sessions.orphaned = Some(folder);
                News::Answered
            }
            UiEvent::Access(read_only) => {
                let is_locked = read_only.is_some();
                if let Some(session) = &mut desk.session {
                    session.read_only = read_only;
                }
                if is_locked {
                    desk.queue = Arc::default();
                    self.tell(News::Queue);
                }
                News::Answered
            }
            UiEvent::SessionGone(gone) => return desk.is_gone = gone,
            UiEvent::Queue(queue) => {
                desk.runs.queue_changed(&queue);
                desk.queue = queue;
                News::Queue
            }
            UiEvent::Records(records) => return self.take_records(records),
            UiEvent::NodeSample(sample) => {
                desk.take_sample(*sample);
                News::Sample
            }
            UiEvent::OtherSessions(folders) => {
                desk.other_sessions = folders;
                News::Sample
            }
            UiEvent::Importing(importing) => return desk.importing = importing,
            UiEvent::Launched { queued, kept, invalid, warnings } => {
                // Messages about earlier failed launches are obsolete.
                desk.problems.retain(|problem| problem.screen != ScreenName::PLAN);
                desk.screen = ScreenName::RUNS;
                let texts = std::iter::once(launched_text(queued, kept, invalid));
                let texts = texts.chain(warnings.into_iter().map(|warning| format!("⚠ {warning}")));
                desk.say(Notice { text: texts.collect::<Vec<_>>().join("; "), can_undo: false });
                News::Launched
            }
            UiEvent::Done(screen) => {
                desk.succeeded(screen);
                desk.answered(false);
                News::Answered
            }
            UiEvent::Problem { screen, message } => {
                desk.problem(screen, message);
                desk.answered(true);
                News::Failed
            }
            own => {
                let offer = |event: UiEvent, screen: &mut Box<dyn Screen>| screen.take(event);
                let _ = self.screens.iter_mut().try_fold(own, offer);
                return;
            }
        };
        self.tell(news);
    }

    fn take_session(&mut self, session: OpenSession) {
        let desk = &mut self.desk;
        if !session.is_sample() {
            desk.settings.opened(&session.folder);
        }
        let before = desk.session.replace(session);
        let is_opened_again =
            before.as_ref().map(|before| &before.folder) == desk.session.as_ref().map(|now| &now.folder);
        desk.queue = Arc::default();
        (desk.opening, desk.is_gone) = (None, false);
        if is_opened_again {
            desk.runs.records_changed(&desk.records, &desk.queue);
            return self.tell(News::SessionAgain);
        }
        if before.is_some() {
            // They belonged to another session.
            desk.problems.clear();
            self.sessions.forget_transfer();
        }
        desk.forget_runs();
        let created =
            desk.creating.take().filter(|folder| desk.session.as_ref().is_some_and(|open| open.folder == *folder));
        if let Some(folder) = created {
            let text = format!("There was no session in {}, so a new one was created.", folder.display());
            desk.say(Notice { text, can_undo: false });
        }
        self.tell(News::Session);
    }

    fn take_records(&mut self, records: Arc<Records>) {
        let desk = &mut self.desk;
        // Records of another session belong to the comparison, or are no longer needed.
        if desk.session.as_ref().is_some_and(|session| session.folder == records.folder) {
            let before = std::mem::replace(&mut desk.records, records);
            desk.runs.records_changed(&desk.records, &desk.queue);
            let has_copies = desk.refuse_copies();
            self.tell(News::Records);
            if has_copies {
                self.tell(News::Compared);
            }
            free(before);
        } else if desk.compared.take(records) {
            desk.refuse_copies();
            self.tell(News::Compared);
        }
    }

    /// Takes over the results of background work.
    pub fn poll(&mut self, context: &Context) {
        self.sessions.poll(&mut self.desk, context);
        if self.closing.waits() {
            let unsaved = self.unsaved();
            self.closing.poll(&self.desk, unsaved.as_ref(), context);
        }
        for screen in &mut self.screens {
            screen.poll(&mut self.desk, context);
        }
        self.deliver(context);
        self.desk.poll_export();
        self.desk.poll_table();
    }

    /// The user closes the window.
    pub fn close_requested(&mut self, context: &Context) {
        let unsaved = self.unsaved();
        self.closing.requested(&self.desk, unsaved.as_ref(), context);
    }

    /// Requests samples of the machine if the screen shows them. Each sample causes a frame, so samples are rare while the window is not
    /// used and nothing runs.
    pub fn watch_node(&mut self, is_at_rest: bool) {
        let needed = self.shown().and_then(Screen::sampling);
        let is_at_rest = is_at_rest && !self.desk.queue.is_running();
        let at_rest = |needed: Sampling| Sampling { interval: SAMPLES_AT_REST, ..needed };
        self.desk.watch_node(if is_at_rest { needed.map(at_rest) } else { needed });
    }

    /// Copies the command that shows the same as the screen, or shows why there is none.
    fn copy_command(&mut self, context: &Context) {
        match self.command_line() {
            Ok(command) => {
                self.desk.copied(&command);
                context.copy_text(command);
            }
            Err(reason) => self.desk.problem(self.desk.screen, format!("Nothing was copied: {reason}")),
        }
    }

    /// The command line that shows the same in a terminal as the screen.
    ///
    /// # Errors
    /// Why there is none.
    pub fn command_line(&self) -> Result<String, String> {
        self.shown().map_or_else(|| Err("no screen is shown".to_owned()), |screen| screen.command_line(&self.desk))
    }

    /// Opens a dropped plan, session, figure, recording or report; for anything else, the message lists what is accepted.
    fn dropped(&mut self, path: PathBuf) {
        let desk = &mut self.desk;
        let has_ending = |endings: &[&str]| {
            let ending = path.extension().and_then(|ending| ending.to_str());
            ending.is_some_and(|ending| endings.iter().any(|known| ending.eq_ignore_ascii_case(known)))
        };
        let is_recording = has_ending(&["events"]);
        let is_report = has_ending(&["nsys-rep", "qdrep", "sqlite"]) && !path.ends_with("session.sqlite")
            || (has_ending(&["json", "gz"]) || path.is_dir() && !path.join("session.toml").exists())
                && is_pytorch_trace(&path);
        let is_plan = has_ending(&["toml"]);
        let session = if path.is_dir() { Some(path.clone()) } else { path.parent().map(Path::to_owned) };
        let session = session.filter(|folder| folder.join("session.toml").exists());
        match session.filter(|_| !is_report && !is_recording) {
            _ if has_ending(&["pdf", "svg", "png"]) => desk.goto(ScreenName::FIGURES, Intent::Open(path)),
            Some(folder) if !is_plan || path.ends_with("session.toml") => {
                desk.open_session(Request::OpenExisting(folder));
            }
            _ if is_recording || is_report && desk.screen == ScreenName::TIMELINE => {
                desk.goto(ScreenName::TIMELINE, Intent::Open(path));
            }
            _ if is_report => desk.attach(path, None),
            _ if is_plan => desk.goto(ScreenName::PLAN, Intent::Open(path)),
            _ => {
                let message = format!(
                    "{}: not a plan (.toml), session (a folder with session.toml), profiler report (.nsys-rep, .sqlite, \
                     or .json and .json.gz of PyTorch's profiler), built-in trace (.events) or figure (.svg, .pdf, .png): drop one of these",
                    path.display()
                );
                desk.problem(desk.screen, message);
            }
        }
    }
}

/// The message about the result of a launch.
fn launched_text(queued: usize, kept: usize, invalid: usize) -> String {
    let mut parts = vec![format!("✓ {} queued", runs_text(queued))];
    if kept > 0 {
        parts.push(format!("{kept} kept"));
    }
    if invalid > 0 {
        parts.push(format!("{} cannot run here", counted(invalid, "cell")));
    }
    parts.join(", ")
}

/// Frees records on a thread of their own, because that takes longer than a frame with ten thousand runs. If no thread can be started, they
/// are freed here.
fn free(records: Arc<Records>) {
    let _ = std::thread::Builder::new().name("free".to_owned()).spawn(move || drop(records));
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
impl Window {
    /// The screen with this type, which must exist.
    pub fn own<S: Screen>(&self) -> &S {
        self.screen().unwrap()
    }

    /// The screen with this type, mutable.
    pub fn own_mut<S: Screen>(&mut self) -> &mut S {
        self.screen_mut().unwrap()
    }

    /// Draws only a screen, without the frame around it.
    pub fn draw<S: Screen>(ui: &mut eframe::egui::Ui, window: &Self, commands: &mut Vec<Command>) {
        window.own::<S>().ui(&window.desk, ui, commands);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::app::{CompareScreen, FiguresScreen};
    use crate::conduct::QueueView;
    use crate::figure::{paper, preset};
    use crate::plan::Level;
    use crate::plan::fixture::cpu_node;
    use crate::session::{Measurement, Stage};

    fn window(screen: ScreenName) -> Window {
        let mut window = Window::default();
        window.desk.session = Some(OpenSession { folder: "/home/me/it's mine".into(), read_only: None });
        window.desk.screen = screen;
        window
    }

    #[test]
    fn a_session_that_was_not_there_is_said_to_be_new_and_one_that_was_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let opened = |name: &str| {
            let mut window = Window::default();
            let session = folder.path().join(name);
            window.execute(Command::OpenSession(session.clone()), &Context::default());
            window.take(UiEvent::Session { folder: session, read_only: None });
            window.desk.notice.as_ref().map(|(_, notice)| notice.text.clone()).unwrap_or_default()
        };
        std::fs::create_dir(folder.path().join("known")).unwrap();
        std::fs::write(folder.path().join("known/session.toml"), "").unwrap();
        assert_eq!(opened("known"), "");
        let notice = opened("absent");
        assert!(
            notice.starts_with("There was no session in ") && notice.ends_with("so a new one was created."),
            "{notice}"
        );
    }

    #[test]
    fn a_session_is_opened_by_its_path_from_the_root_or_by_its_address() {
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        let address = PathBuf::from("ssh://node/sessions/study");
        for (asked, expected) in
            [("S", here.join("S")), ("src/../S", here.join("S")), ("ssh://node/sessions/study", address)]
        {
            let mut window = Window::default();
            window.execute(Command::OpenSession(asked.into()), &Context::default());
            assert_eq!(window.desk.take_requests(), [Request::OpenSession(expected)], "{asked}");
        }
    }

    #[test]
    fn a_table_is_asked_for_with_its_filter_and_what_is_hidden() {
        let mut window = window(ScreenName::COMPARE);
        let study = &mut window.own_mut::<CompareScreen>().study;
        study.filter = "gpus>=2".to_owned();
        study.hidden.push(("precision".into(), Level::text("fp64")));
        let command = window.command_line().unwrap();
        let filter = "'(gpus>=2) and not precision=fp64'";
        assert_eq!(command, format!(r"multicard table '/home/me/it'\''s mine' --form bars --filter {filter}"));
    }

    #[test]
    fn a_figure_names_its_study_style_and_file() {
        let mut window = window(ScreenName::FIGURES);
        let context = Context::default();
        window.own_mut::<FiguresScreen>().study = preset("memory").unwrap();
        window.own_mut::<FiguresScreen>().study.style.width = paper::Width::Page;
        window.execute(crate::app::FiguresCommand::Path("/tmp/a.svg".to_owned()).into(), &context);
        let command = window.command_line().unwrap();
        assert!(command.ends_with("--study memory --width page --out /tmp/a.svg"), "{command}");
    }

    #[test]
    fn the_machine_is_described_and_measured_again_where_its_rates_are_shown() {
        let mut window = window(ScreenName::NODE);
        let command = |window: &Window| window.command_line().unwrap();
        window.desk.node = Some(Arc::new(cpu_node()));
        assert_eq!(command(&window), "multicard node");
        let (stage, left) = (Stage::Waits, Vec::new());
        let measurement = Measurement { time_s: 0.0, duration_s: 1.0, devices: 1, measured: 0, left, stage };
        window.desk.queue = Arc::new(QueueView { measurement: Some(measurement), ..QueueView::default() });
        assert_eq!(command(&window), r"multicard node measure --session '/home/me/it'\''s mine'");
        window.desk.session.as_mut().unwrap().read_only = Some("another program writes it".to_owned());
        assert_eq!(command(&window), "multicard node", "this one cannot be measured for");
    }

    #[test]
    fn a_plan_without_a_file_is_to_be_saved_first() {
        assert!(window(ScreenName::PLAN).command_line().unwrap_err().contains("save it first"));
    }
}
