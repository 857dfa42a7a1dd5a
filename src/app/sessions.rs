//! The session menu in the bar: the open session, opening and creating others.

mod browser;
mod transfer;

use std::path::{Path, PathBuf};

use eframe::egui::{
    Align, Context, Id, Key, Layout, PopupCloseBehavior, RichText, Ui,
    containers::menu::{MenuButton, MenuConfig},
};
use poll_promise::Promise;

use super::theme::{GRID, palette};
use super::widgets::{fields_on_cards, muted, strong, text_field};
use super::{Command, Request, State, sample};
use crate::remote::host_of_copy;
use crate::session::default_sessions_folder;
pub use browser::browser_ui;

/// A command on sessions.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionsCommand {
    /// Create a session of this name in the default folder.
    New(String),
    /// Open the session in this folder.
    Open(PathBuf),
    /// Open the sample session.
    OpenSample,
    /// Close it; new windows do not open it any more.
    CloseSample,
    /// Choose a folder in the system's file dialog.
    Choose,
    /// Check which recent sessions still exist.
    CheckRecent,
    /// Try to open the read-only session for writing.
    TryAgain,
    /// Export the open session to an archive.
    Export(PathBuf),
    /// Import a session from an archive and open it.
    Import(PathBuf),
    /// Cancel the current export or import and remove what it wrote.
    StopTransfer,
    /// Open or close the browser of all sessions.
    Browse(bool),
    /// Search the sessions.
    Search(String),
    /// Show what is known of a session.
    Pick(PathBuf),
    /// Note something of a session.
    Note(PathBuf, String),
    /// Take a session into the archive, or out of it.
    Archive(PathBuf, bool),
    /// Rename a session.
    Rename(PathBuf, String),
    /// Delete a session, until the window is closed with undo.
    Delete(PathBuf),
    /// Put back the session that was deleted last.
    UndoDelete,
}

/// State of the session menu.
#[derive(Default)]
pub struct SessionsState {
    /// The folder being opened.
    pub opening: Option<PathBuf>,
    /// Whether the folder of the open session is missing.
    pub gone: bool,
    /// Recent sessions that are missing.
    pub missing: Vec<PathBuf>,
    /// The folder of a session whose conductor has ended, until another one is asked for.
    pub orphaned: Option<PathBuf>,
    dialog: Option<Promise<Option<PathBuf>>>,
    looking: Option<Promise<Vec<PathBuf>>>,
    transfer: Option<transfer::Transfer>,
    /// Outcome of the last transfer, and whether it succeeded.
    transferred: Option<(String, bool)>,
    /// The browser of all sessions.
    pub browser: browser::Browser,
}

impl SessionsState {
    /// Whether an export or import is in progress.
    pub fn is_transferring(&self) -> bool {
        self.transfer.is_some()
    }

    /// A session was opened.
    pub fn opened(&mut self) {
        self.opening = None;
        self.gone = false;
    }
}

impl State {
    /// Requests a session.
    pub fn open_session(&mut self, request: Request, requests: &mut Vec<Request>) {
        if let Request::OpenSession(folder) | Request::OpenExisting(folder) | Request::NewSession(folder) = &request {
            self.sessions.opening = Some(folder.clone());
        }
        requests.push(request);
    }

    /// A session could not be opened: the previous one stays.
    pub fn not_opened(&mut self, folder: &Path, reason: Option<String>) {
        if self.sessions.opening.as_deref() == Some(folder) {
            self.sessions.opening = None;
        }
        let Some(reason) = reason else { return };
        let stays = self.session.as_ref().map_or(String::new(), |open| format!("; {} stays open", open.name()));
        // The request may come from any screen.
        self.problem(self.screen, format!("{reason}{stays}"));
    }

    /// Executes a command on sessions.
    pub fn execute_sessions(&mut self, command: SessionsCommand, context: &Context, requests: &mut Vec<Request>) {
        match command {
            SessionsCommand::New(name) => match new_folder(&name) {
                Ok(folder) => self.open_session(Request::NewSession(folder), requests),
                Err(message) => self.problem(self.screen, message),
            },
            SessionsCommand::Open(folder) => self.open_session(Request::OpenExisting(folder), requests),
            SessionsCommand::OpenSample => requests.push(Request::OpenSample),
            SessionsCommand::CloseSample => {
                self.settings.sample_closed = true;
                self.settings.save();
                requests.push(Request::CloseSample);
            }
            SessionsCommand::TryAgain => {
                if let Some(session) = &self.session {
                    let folder = session.folder.clone();
                    self.open_session(Request::OpenExisting(folder), requests);
                }
            }
            SessionsCommand::Choose if self.sessions.dialog.is_none() => {
                self.sessions.dialog = Some(choose_session(context, "Open a session: choose its folder"));
            }
            SessionsCommand::CheckRecent if self.sessions.looking.is_none() => {
                let (recent, waker) = (self.settings.recent.clone(), context.clone());
                self.sessions.looking = Some(Promise::spawn_thread("recent-sessions", move || {
                    let missing = recent.into_iter().filter(|folder| !folder.join("session.toml").exists()).collect();
                    waker.request_repaint();
                    missing
                }));
            }
            SessionsCommand::Choose | SessionsCommand::CheckRecent => {}
            SessionsCommand::Export(_) | SessionsCommand::Import(_) | SessionsCommand::StopTransfer => {
                self.execute_transfer(command, context);
            }
            other => self.execute_browser(other, context),
        }
    }

    /// Takes over the results of background work.
    pub fn poll_sessions(&mut self, context: &Context, requests: &mut Vec<Request>) {
        self.poll_transfer(requests);
        self.poll_browser(context, requests);
        requests.extend(self.sessions.orphaned.take().map(Request::Reattach));
        match self.sessions.dialog.take().map(Promise::try_take) {
            Some(Ok(Some(folder))) => self.open_session(Request::OpenExisting(folder), requests),
            // Cancelled, or the system has no dialog; the path field works without one.
            Some(Ok(None)) | None => {}
            Some(Err(waiting)) => self.sessions.dialog = Some(waiting),
        }
        match self.sessions.looking.take().map(Promise::try_take) {
            Some(Ok(missing)) => self.sessions.missing = missing,
            Some(Err(waiting)) => self.sessions.looking = Some(waiting),
            None => {}
        }
    }
}

/// Asks for a session's folder in the system's file dialog; `None` if it is cancelled or missing.
pub fn choose_session(context: &Context, title: &'static str) -> Promise<Option<PathBuf>> {
    let waker = context.clone();
    Promise::spawn_thread("session-dialog", move || {
        let dialog = rfd::FileDialog::new().set_title(title);
        let start = default_sessions_folder().ok().filter(|folder| folder.is_dir());
        let chosen = start.map_or(dialog.clone(), |folder| dialog.set_directory(folder)).pick_folder();
        waker.request_repaint();
        chosen
    })
}

/// The name of a session, if it can be one.
fn plain_name(name: &str) -> Result<String, String> {
    let name = name.trim();
    let plain = name.chars().all(|c| c.is_alphanumeric() || " -_.".contains(c)) && !name.starts_with('.');
    if name.is_empty() || !plain {
        return Err(format!("{name:?} is not a valid session name: use letters, digits, spaces, `-`, `_` and `.`"));
    }
    Ok(name.to_owned())
}

/// Folder of a new session of this name.
fn new_folder(name: &str) -> Result<PathBuf, String> {
    let name = plain_name(name)?;
    let sessions = default_sessions_folder().map_err(|error| error.to_string())?;
    Ok(sessions.join(name))
}

/// A typed path; `~` is the home folder. An address of a session on another machine stays as it is.
pub fn typed_path(text: &str) -> Option<PathBuf> {
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    if text.starts_with("ssh://") {
        return Some(PathBuf::from(text));
    }
    let home = || std::env::var_os("HOME").map(PathBuf::from);
    match text.strip_prefix("~/").zip(home()) {
        Some((rest, home)) => Some(home.join(rest)),
        None => std::path::absolute(text).ok(),
    }
}

/// The title in the bar.
fn title(state: &State) -> String {
    if let Some(folder) = &state.sessions.opening {
        return format!("opening {} …", folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy());
    }
    match &state.session {
        Some(session) if session.is_sample() => session.name(),
        Some(session) if session.read_only.is_some() => format!("{} (read-only)", session.name()),
        Some(session) => session.name(),
        None => "no session yet".to_owned(),
    }
}

/// Draws the session's name with its menu.
pub fn session_menu_ui(ui: &mut Ui, state: &State, commands: &mut Vec<Command>) {
    let config = MenuConfig::new().close_behavior(PopupCloseBehavior::CloseOnClickOutside);
    let title = title(state);
    let (response, _) = MenuButton::new(format!("{title} ⏷")).config(config).ui(ui, |ui| menu_ui(ui, state, commands));
    let name = format!("Session: {title}");
    response.widget_info(|| eframe::egui::WidgetInfo::labeled(eframe::egui::Role::Button, true, &name));
    if response.clicked() {
        commands.push(Command::Sessions(SessionsCommand::CheckRecent));
    }
}

fn menu_ui(ui: &mut Ui, state: &State, commands: &mut Vec<Command>) {
    ui.set_width(420.0);
    fields_on_cards(ui);
    let mut send = |ui: &Ui, command: SessionsCommand| {
        // The menu says how far a transfer is, and what came of it.
        if !matches!(command, SessionsCommand::Export(_) | SessionsCommand::Import(_) | SessionsCommand::StopTransfer) {
            ui.close();
        }
        commands.push(Command::Sessions(command));
    };
    if let Some(session) = &state.session {
        ui.label(strong(session.name()));
        let path = session.place();
        ui.horizontal_wrapped(|ui| {
            ui.label(muted(ui, &path));
            if ui.small_button("Copy path").clicked() {
                ui.ctx().copy_text(path.clone());
            }
        });
        if let Some(reason) = &session.read_only {
            // The sample is read-only by design: nothing to warn of.
            let text = RichText::new(reason);
            let text = if session.is_sample() { text } else { text.color(palette(ui.visuals()).warning) };
            // On its own the menu would justify the lines.
            ui.with_layout(Layout::top_down(Align::Min), |ui| ui.label(text));
        }
        ui.separator();
    }
    if ui.button("All sessions …").on_hover_text("Search, note, rename, archive and delete sessions (Ctrl L)").clicked()
    {
        send(ui, SessionsCommand::Browse(true));
    }
    ui.add_space(GRID);
    ui.label(strong("New session"));
    ui.horizontal(|ui| {
        let name = field(ui, "new-session", "Name of the new session", "a name, such as h100-study");
        let wanted = !name.text.trim().is_empty();
        if (ui.add_enabled(wanted, eframe::egui::Button::new("Create")).clicked() || name.entered) && wanted {
            send(ui, SessionsCommand::New(name.text));
            ui.data_mut(|data| data.remove::<String>(Id::unique("new-session")));
        }
    });
    if let Ok(folder) = default_sessions_folder() {
        ui.label(muted(ui, format!("in {}", folder.display())).small());
    }
    ui.add_space(GRID);
    ui.label(strong("Open a session"));
    ui.horizontal(|ui| {
        let path = field(ui, "session-path", "Path of the session", "its folder, or ssh://host/path");
        let folder = typed_path(&path.text);
        let pressed = ui.add_enabled(folder.is_some(), eframe::egui::Button::new("Open")).clicked() || path.entered;
        if let (true, Some(folder)) = (pressed, folder) {
            send(ui, SessionsCommand::Open(folder));
            ui.data_mut(|data| data.remove::<String>(Id::unique("session-path")));
        }
        if ui.button("Choose …").clicked() {
            send(ui, SessionsCommand::Choose);
        }
    });
    if !state.session.as_ref().is_some_and(|session| session.is_sample())
        && ui.button("Open the sample session").on_hover_text(sample::ABOUT).clicked()
    {
        send(ui, SessionsCommand::OpenSample);
    }
    ui.add_space(GRID);
    transfer::transfer_ui(ui, state, &mut send);
    let others = state.settings.recent.iter();
    let open = state.session.as_ref().map(|session| &session.folder);
    let others: Vec<_> = others.filter(|folder| Some(*folder) != open).collect();
    if others.is_empty() {
        return;
    }
    ui.add_space(GRID);
    ui.label(strong("Recent sessions"));
    for folder in others {
        let missing = state.sessions.missing.contains(folder);
        let name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy();
        let host = host_of_copy(folder).map_or(String::new(), |host| format!(" on {host}"));
        let place = folder.parent().unwrap_or(folder).display();
        let note = if missing { " (missing)" } else { "" };
        let button = eframe::egui::Button::new(format!("{name}{host}{note}")).frame(false);
        let response = ui.add_enabled(!missing, button).on_hover_text(format!("in {place}"));
        if response.on_disabled_hover_text(format!("{} does not exist", folder.display())).clicked() {
            send(ui, SessionsCommand::Open(folder.clone()));
        }
    }
}

/// Content of a text field of the menu.
struct Typed {
    text: String,
    /// Whether Enter was pressed.
    entered: bool,
}

/// A text field that keeps its text in egui's memory.
fn field(ui: &mut Ui, id: &str, name: &str, hint: &str) -> Typed {
    let memory = Id::unique(id);
    let mut text: String = ui.data(|data| data.get_temp(memory)).unwrap_or_default();
    let response = ui.add(text_field(&mut text, hint, 230.0));
    response.widget_info(|| {
        let mut info = eframe::egui::WidgetInfo::labeled(eframe::egui::Role::TextInput, true, name);
        info.current_text_value = Some(text.clone());
        info
    });
    let entered = response.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter));
    ui.data_mut(|data| data.insert_temp(memory, text.clone()));
    Typed { text, entered }
}

/// Draws warnings about the open session, with what to do.
pub fn session_notes_ui(ui: &mut Ui, state: &State, commands: &mut Vec<Command>) {
    let Some(session) = &state.session else { return };
    let palette = palette(ui.visuals());
    if state.sessions.gone {
        let message = format!(
            "{} is missing: restore the folder or open another session. The screen shows what was read before; active \
             runs can be cancelled, new ones may not be recorded.",
            session.folder.display()
        );
        note(ui, ("⚠", palette.bad), &message, |_| {});
    }
    if session.is_sample() {
        note(ui, ("ℹ", palette.accent), sample::ABOUT, |ui| {
            if ui.button("Close the sample").on_hover_text("The session menu opens it again").clicked() {
                commands.push(Command::Sessions(SessionsCommand::CloseSample));
            }
        });
    } else if let Some(reason) = &session.read_only {
        note(ui, ("⚠", palette.warning), reason, |ui| {
            let is_far = session.host().is_some();
            if ui
                .button(if is_far { "Connect" } else { "Open for writing" })
                .on_hover_text("Try again after fixing the cause")
                .clicked()
            {
                commands.push(Command::Sessions(SessionsCommand::TryAgain));
            }
        });
    }
}

fn note(ui: &mut Ui, (sign, color): (&str, eframe::egui::Color32), message: &str, add: impl FnOnce(&mut Ui)) {
    super::widgets::card(ui).stroke(eframe::egui::Stroke::new(1.0, color)).show(ui, |ui| {
        ui.take_available_width();
        ui.horizontal_wrapped(|ui| {
            ui.colored_label(color, sign);
            ui.label(message);
            add(ui);
        });
    });
    ui.add_space(2.0 * GRID);
}
