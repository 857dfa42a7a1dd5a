//! The session menu in the bar: the open session, opening and creating others.

mod browser;
mod mapping;
mod transfer;

use std::path::PathBuf;

use eframe::egui::{Align, Button, Context, Id, Key, Layout, Popup, RichText, ScrollArea, Ui};
use poll_promise::Promise;

use super::command::{Command, SessionsCommand};
use super::desk::Desk;
use super::engine::Request;
use super::sample;
use super::task::{absolute, choose_session, on_thread, taken, typed_path};
use super::theme::{GRID, palette};
use super::widgets::{cut_to, lasting_menu, muted, named_text, select_at_focus, strong, text_field};
use crate::remote::host_of_copy;
use crate::session::default_sessions_folder;
pub use browser::browser_ui;
pub use mapping::{MappingDialog, mapping_ui};

/// The share of the window's width that the open session's name may take in the bar.
const MOST_OF_BAR: f32 = 0.3;

/// The height of the bar and of the menu's frame, in points.
const BELOW_BAR: f32 = 64.0;

/// The names of the menu's fields.
const NEW_FIELD: &str = "Name of the new session";
const OPEN_FIELD: &str = "Path of the session";
pub(super) const EXPORT_FIELD: &str = "Path of the archive to write";
const IMPORT_FIELD: &str = "Path of the archive or the results to read";

/// The actions of the menu on the text that is typed into its fields.
pub(super) const MENU_FIELDS: [(&str, &str); 4] = [
    ("New session …", NEW_FIELD),
    ("Open a session …", OPEN_FIELD),
    ("Export session …", EXPORT_FIELD),
    ("Import session …", IMPORT_FIELD),
];

/// The session menu and the browser of all sessions.
#[derive(Default)]
pub struct Sessions {
    /// Recent sessions that are missing.
    pub missing: Vec<PathBuf>,
    /// The folder of a session whose conductor has ended, until another session is requested.
    pub orphaned: Option<PathBuf>,
    dialog: Option<Promise<Option<PathBuf>>>,
    looking: Option<Promise<Vec<PathBuf>>>,
    transfer: Option<transfer::Transfer>,
    /// Outcome of the last transfer, and whether it succeeded.
    transferred: Option<(String, bool)>,
    /// The dialog about results of another program.
    pub mapping: Option<MappingDialog>,
    /// The browser of all sessions.
    pub browser: browser::Browser,
}

impl Sessions {
    /// Whether an export or import is in progress.
    pub fn is_transferring(&self) -> bool {
        self.transfer.is_some()
    }

    /// Executes a command on sessions.
    pub fn execute(&mut self, command: SessionsCommand, desk: &mut Desk, context: &Context) {
        match command {
            SessionsCommand::New(name) => match new_folder(&name) {
                Ok(folder) => desk.open_session(Request::NewSession(folder)),
                Err(message) => desk.problem(desk.screen, message),
            },
            SessionsCommand::Open(folder) => desk.open_session(Request::OpenExisting(absolute(&folder))),
            SessionsCommand::OpenSample => desk.ask(Request::OpenSample),
            SessionsCommand::CloseSample => {
                desk.settings.sample_closed = true;
                desk.settings.save();
                desk.ask(Request::CloseSample);
            }
            SessionsCommand::TryAgain => {
                if let Some(session) = &desk.session {
                    desk.open_session(Request::OpenExisting(session.folder.clone()));
                }
            }
            SessionsCommand::Menu(field) => {
                context.data_mut(|data| data.insert_temp(wanted_id(), field));
            }
            SessionsCommand::Choose => {
                self.dialog.get_or_insert_with(|| choose_session(context, "Open a session: choose its folder"));
            }
            SessionsCommand::CheckRecent => {
                let recent = desk.settings.recent.clone();
                self.looking.get_or_insert_with(|| {
                    on_thread("recent-sessions", context, move || {
                        recent.into_iter().filter(|folder| !folder.join("session.toml").exists()).collect()
                    })
                });
            }
            SessionsCommand::Import(file) if !transfer::is_archive(&file) => {
                self.mapping = Some(MappingDialog::of(file, context));
            }
            SessionsCommand::MapColumn(place, role) => {
                if let Some(dialog) = &mut self.mapping {
                    dialog.set(place, &role, context);
                }
            }
            SessionsCommand::DeclareRuns(rows_are_runs) => {
                if let Some(dialog) = &mut self.mapping {
                    dialog.declare_runs(rows_are_runs, context);
                }
            }
            SessionsCommand::CloseMapping => self.mapping = None,
            SessionsCommand::Export(_)
            | SessionsCommand::Import(_)
            | SessionsCommand::TakeMapping
            | SessionsCommand::StopTransfer => {
                self.execute_transfer(command, desk, context);
            }
            other => self.browser.execute(other, &desk.settings, context),
        }
    }

    /// Takes over the results of background work.
    pub fn poll(&mut self, desk: &mut Desk, context: &Context) {
        self.poll_transfer(desk);
        if self.mapping.as_mut().is_some_and(|dialog| dialog.poll(context)) {
            self.execute_transfer(SessionsCommand::TakeMapping, desk, context);
        }
        self.browser.poll(&mut desk.settings, context);
        let restored = self.browser.restored(&mut desk.settings);
        for message in restored.into_iter().chain(self.browser.unseen_failure()) {
            desk.problem(desk.screen, message);
        }
        if let Some(folder) = self.orphaned.take() {
            desk.ask(Request::Reattach(folder));
        }
        // Without a folder it was cancelled, or the system has no dialog; the path field works without one.
        if let Some(folder) = taken(&mut self.dialog).flatten() {
            desk.open_session(Request::OpenExisting(folder));
        }
        if let Some(missing) = taken(&mut self.looking) {
            self.missing = missing;
        }
    }
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

/// The title in the bar.
fn title(desk: &Desk) -> String {
    if let Some(folder) = &desk.opening {
        return format!("opening {} …", folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy());
    }
    match &desk.session {
        Some(session) if session.is_sample() => session.name(),
        Some(session) if session.read_only.is_some() => format!("{} (read-only)", session.name()),
        Some(session) => session.name(),
        None => "no session yet".to_owned(),
    }
}

/// Draws the session's name with its menu.
pub fn session_menu_ui(ui: &mut Ui, sessions: &Sessions, desk: &Desk, commands: &mut Vec<Command>) {
    let title = title(desk);
    let shown = cut_to(ui, &title, MOST_OF_BAR * ui.ctx().content_rect().width());
    let menu = lasting_menu(ui, Button::new(format!("{shown} ⏷")), |ui| {
        // With many recent sessions, the menu is higher than a small window.
        let room = ui.ctx().content_rect().height() - BELOW_BAR;
        let scroll = ScrollArea::vertical().max_height(room).min_scrolled_height(room);
        scroll.show(ui, |ui| menu_ui(ui, sessions, desk, commands));
    });
    let response = menu.response;
    if menu.inner.is_some() {
        // The field has the focus now, or is not in the menu.
        ui.data_mut(|data| data.remove::<&'static str>(wanted_id()));
    } else if ui.data(|data| data.get_temp::<&'static str>(wanted_id())).is_some() {
        Popup::open_id(ui.ctx(), Popup::default_response_id(&response));
        ui.ctx().request_repaint();
    }
    let name = format!("Session: {title}");
    response.widget_info(|| eframe::egui::WidgetInfo::labeled(eframe::egui::Role::Button, true, &name));
    if response.clicked() {
        commands.push(Command::Sessions(SessionsCommand::CheckRecent));
    }
    if shown != title {
        response.on_hover_text(title);
    }
}

/// Draws the open session's name, its location, and why it cannot be changed.
fn heading_ui(ui: &mut Ui, desk: &Desk) {
    let Some(session) = &desk.session else { return };
    ui.label(strong(session.name()));
    let path = session.place();
    ui.horizontal_wrapped(|ui| {
        ui.label(muted(ui, &path));
        if ui.small_button("Copy path").clicked() {
            ui.ctx().copy_text(path.clone());
        }
    });
    if let Some(reason) = &session.read_only {
        // The sample is read-only by design, which needs no warning.
        let text = RichText::new(reason);
        let text = if session.is_sample() { text } else { text.color(palette(ui.visuals()).warning) };
        // Without this, the menu would justify the lines.
        ui.with_layout(Layout::top_down(Align::Min), |ui| ui.label(text));
    }
    ui.separator();
}

fn menu_ui(ui: &mut Ui, sessions: &Sessions, desk: &Desk, commands: &mut Vec<Command>) {
    ui.set_width(420.0);
    let mut send = |ui: &Ui, command: SessionsCommand| {
        // The menu shows the progress and the result of a transfer.
        let stays = match &command {
            SessionsCommand::Export(_) | SessionsCommand::StopTransfer => true,
            // For a file that is not an archive, a dialog takes the menu's place.
            SessionsCommand::Import(file) => transfer::is_archive(file),
            _ => false,
        };
        if !stays {
            ui.close();
        }
        commands.push(Command::Sessions(command));
    };
    heading_ui(ui, desk);
    if ui.button("All sessions …").on_hover_text("Search, note, rename, archive and delete sessions (Ctrl L)").clicked()
    {
        send(ui, SessionsCommand::Browse(true));
    }
    ui.add_space(GRID);
    ui.label(strong("New session"));
    ui.horizontal(|ui| {
        let name = field(ui, "new-session", NEW_FIELD, "a name, such as h100-study");
        let wanted = !name.text.trim().is_empty();
        if (ui.add_enabled(wanted, Button::new("Create")).clicked() || name.entered) && wanted {
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
        let path = field(ui, "session-path", OPEN_FIELD, "its folder, or ssh://host/path");
        let folder = typed_path(&path.text);
        let pressed = ui.add_enabled(folder.is_some(), Button::new("Open")).clicked() || path.entered;
        if let (true, Some(folder)) = (pressed, folder) {
            send(ui, SessionsCommand::Open(folder));
            ui.data_mut(|data| data.remove::<String>(Id::unique("session-path")));
        }
        if ui.button("Choose …").clicked() {
            send(ui, SessionsCommand::Choose);
        }
    });
    if !desk.session.as_ref().is_some_and(|session| session.is_sample())
        && ui.button("Open the sample session").on_hover_text(sample::ABOUT).clicked()
    {
        send(ui, SessionsCommand::OpenSample);
    }
    ui.add_space(GRID);
    transfer::transfer_ui(ui, sessions, desk, &mut send);
    let others = desk.settings.recent.iter();
    let open = desk.session.as_ref().map(|session| &session.folder);
    let others: Vec<_> = others.filter(|folder| Some(*folder) != open).collect();
    if others.is_empty() {
        return;
    }
    ui.add_space(GRID);
    ui.label(strong("Recent sessions"));
    for folder in others {
        let missing = sessions.missing.contains(folder);
        let name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy();
        let host = host_of_copy(folder).map_or(String::new(), |host| format!(" on {host}"));
        let place = folder.parent().unwrap_or(folder).display();
        let note = if missing { " (missing)" } else { "" };
        let button = Button::new(format!("{name}{host}{note}")).frame(false);
        let response = ui.add_enabled(!missing, button).on_hover_text(format!("in {place}"));
        if response.on_disabled_hover_text(format!("{} does not exist", folder.display())).clicked() {
            send(ui, SessionsCommand::Open(folder.clone()));
        }
    }
}

/// The id under which egui stores the name of the field that gets the focus once the menu is drawn.
fn wanted_id() -> Id {
    Id::unique("field wanted in the session menu")
}

/// Content of a text field of the menu.
struct Typed {
    text: String,
    /// Whether Enter was pressed.
    entered: bool,
}

/// A text field that keeps its text in egui's memory. Typing replaces the text that it has when it gets the focus.
fn field(ui: &mut Ui, id: &str, name: &str, hint: &str) -> Typed {
    let memory = Id::unique(id);
    let mut text: String = ui.data(|data| data.get_temp(memory)).unwrap_or_default();
    let response = ui.add(text_field(&mut text, hint, 230.0));
    if ui.data(|data| data.get_temp::<&'static str>(wanted_id())).is_some_and(|wanted| wanted == name) {
        ui.data_mut(|data| data.remove::<&'static str>(wanted_id()));
        response.request_focus();
    }
    response.widget_info(|| named_text(name, &text));
    select_at_focus(ui, &response, &text);
    let entered = response.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter));
    ui.data_mut(|data| data.insert_temp(memory, text.clone()));
    Typed { text, entered }
}

/// Draws warnings about the open session, with what to do.
pub fn session_notes_ui(ui: &mut Ui, desk: &Desk, commands: &mut Vec<Command>) {
    let Some(session) = &desk.session else { return };
    let palette = palette(ui.visuals());
    if desk.is_gone {
        let message = format!(
            "{} is missing: restore the folder or open another session. The screen shows what was read before; active runs can be \
                 cancelled, but new runs may not be recorded.",
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
