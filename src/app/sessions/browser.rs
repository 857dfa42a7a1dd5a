//! The browser of all known sessions: search, notes, renaming, archiving and deleting.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use eframe::egui::{
    Align, Button, Context, Frame, Id, Key, Label, Layout, Margin, Modal, Role, ScrollArea, TextEdit, Ui, WidgetInfo,
};
use poll_promise::Promise;

use super::{field, plain_name};
use crate::app::asking::ask_ui;
use crate::app::command::{Command, SessionsCommand};
use crate::app::desk::Desk;
use crate::app::settings::Settings;
use crate::app::task::{on_thread, taken};
use crate::app::theme::{GRID, palette};
use crate::app::widgets::{filter_field, filter_of_list, main_button, muted, named, named_text, opens, strong};
use crate::conduct::{Client, Order};
use crate::plan::{Filter, Unordered, counted};
use crate::remote::{Address, Line, Prompts, host_of_copy};
use crate::session::{default_sessions_folder, note_session};
use crate::store::{ARCHIVED, SessionHeading, delete_session, origin, put_back, remove_deleted, rename_session, tags};

/// Size of the browser, if the window has the room.
const SIZE: [f32; 2] = [940.0, 560.0];
/// The share of the list in the width; details of the chosen session are next to it.
const LIST_SHARE: f32 = 0.56;
/// Height of a session in the list: name, contents and place below each other.
const ROW: f32 = 60.0;

/// The browser's state.
#[derive(Default)]
pub struct Browser {
    /// Whether it is open.
    pub is_open: bool,
    search: String,
    filter: Filter,
    /// Why the filter hides nothing, if it asks for an order of names.
    unordered: Option<Unordered>,
    /// All sessions, the one that was used last first.
    headings: Arc<Vec<Known>>,
    /// Indexes of the listed ones.
    listed: Vec<usize>,
    picked: Option<PathBuf>,
    reading: Option<Promise<Vec<Known>>>,
    acting: Option<Promise<Result<Done, String>>>,
    /// The session about whose deletion the user is asked.
    asking: Option<PathBuf>,
    /// Sessions that were deleted in this window.
    deleted: Vec<Deleted>,
    /// The present and the previous folder of the session that was renamed last.
    renamed: Option<(PathBuf, PathBuf)>,
    /// The result of the last action, or why it failed.
    outcome: Option<Result<String, String>>,
}

/// A session and the state of its journal when it was read.
#[derive(Clone)]
struct Known {
    heading: Arc<SessionHeading>,
    journal: Option<(u64, SystemTime)>,
}

/// A deleted session, until the window is closed.
struct Deleted {
    at: PathBuf,
    was: PathBuf,
    /// Its place among the recent sessions, from 0, if it was one of them.
    place: Option<usize>,
}

/// The result of an action.
enum Done {
    /// A message about a note that was written.
    Noted(String),
    Deleted {
        at: PathBuf,
        was: PathBuf,
    },
    Renamed {
        from: PathBuf,
        to: PathBuf,
    },
    PutBack(PathBuf),
}

impl Browser {
    /// Removes deleted sessions for good, since the deletion cannot be undone any more.
    pub fn forget_deleted(&mut self) {
        for deleted in self.deleted.drain(..) {
            // What cannot be removed stays hidden.
            let _ = remove_deleted(&deleted.at);
        }
    }

    /// The command that takes back the last deletion or, without one, the last renaming.
    pub fn undo(&self) -> Option<SessionsCommand> {
        if !self.deleted.is_empty() {
            return Some(SessionsCommand::UndoDelete);
        }
        let (now, old) = self.renaming()?;
        Some(SessionsCommand::Rename(now.to_owned(), old))
    }

    /// The session that was renamed last, if it is still there, and the name that it had.
    fn renaming(&self) -> Option<(&Path, String)> {
        let (now, was) = self.renamed.as_ref().filter(|(now, _)| self.heading(now).is_some())?;
        Some((now.as_path(), was.file_name().unwrap_or_default().to_string_lossy().into_owned()))
    }

    fn refresh(&mut self) {
        let archived = self.search.to_lowercase().contains(ARCHIVED);
        let filter = self.filter.clone().among(&self.headings.iter().map(|known| &*known.heading));
        let (filter, unordered) = filter_of_list(filter);
        let fits = |known: &Known| {
            (archived || !known.heading.is_archived()) && (filter.is_empty() || filter.admits(&*known.heading))
        };
        self.listed = (0..self.headings.len()).filter(|index| fits(&self.headings[*index])).collect();
        self.unordered = unordered;
    }

    /// The session at a place of the list, from 0.
    fn listed_heading(&self, place: usize) -> Option<&SessionHeading> {
        self.headings.get(*self.listed.get(place)?).map(|known| &*known.heading)
    }

    /// The place of the chosen session in the list, from 0, if it is listed.
    fn picked_place(&self) -> Option<usize> {
        let picked = self.picked.as_ref()?;
        (0..self.listed.len()).find(|place| self.listed_heading(*place).is_some_and(|known| known.folder == *picked))
    }

    /// The session to which an arrow moves the choice.
    fn next(&self, is_down: bool, is_up: bool) -> Option<&SessionHeading> {
        let last = self.listed.len().checked_sub(1)?;
        let place = match (is_down, is_up, self.picked_place()) {
            (true, _, place) => place.map_or(0, |place| last.min(place + 1)),
            (_, true, Some(place)) => place.saturating_sub(1),
            _ => return None,
        };
        self.listed_heading(place)
    }

    fn heading(&self, folder: &Path) -> Option<&SessionHeading> {
        self.headings.iter().map(|known| &*known.heading).find(|heading| heading.folder == folder)
    }
}

/// Reads the headings of all sessions in the default folder, and of those in `others`. Unchanged sessions are not read again.
fn read(known: &[Known], others: &[PathBuf]) -> Vec<Known> {
    let before: HashMap<&Path, &Known> = known.iter().map(|known| (&*known.heading.folder, known)).collect();
    let mut folders: BTreeSet<PathBuf> = others.iter().cloned().collect();
    let entries = default_sessions_folder().ok().and_then(|folder| std::fs::read_dir(folder).ok());
    let visible = |path: &PathBuf| !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    folders.extend(entries.into_iter().flatten().flatten().map(|entry| entry.path()).filter(visible));
    let mut all: Vec<Known> = folders
        .iter()
        .filter_map(|folder| {
            let about = std::fs::metadata(folder.join("journal.jsonl")).ok()?;
            let journal = about.modified().ok().map(|modified| (about.len(), modified));
            if let Some(known) = before.get(folder.as_path()).filter(|known| known.journal == journal) {
                return Some((*known).clone());
            }
            // Other folders, and sessions of a newer version, are not listed.
            let heading = Arc::new(SessionHeading::read(folder).ok()?);
            Some(Known { heading, journal })
        })
        .collect();
    let time_s = |known: &Known| known.heading.changed_time_s.unwrap_or(0.0);
    all.sort_by(|a, b| time_s(b).total_cmp(&time_s(a)));
    all
}

/// The address of the session that a folder is a copy of; `None` if it is not a copy.
fn elsewhere(folder: &Path) -> Option<Address> {
    Address::parse(Path::new(&origin(folder)?)).ok().flatten()
}

/// Writes a note on a session or on one of its runs, through its conductor if it has one.
fn note(folder: &Path, run: Option<String>, text: String) -> Result<(), String> {
    if let Some(address) = Address::of(folder)? {
        let (line, _news, _) = Line::reach(address, Prompts::Askpass, drop).map_err(|error| error.to_string())?;
        let client = line.client_or_start(false);
        return client.and_then(|client| client.order(Order::Note(run, text))).map_err(|error| error.to_string());
    }
    match Client::connect(folder, false) {
        Ok(Some(client)) => client.order(Order::Note(run, text)).map_err(|error| error.to_string()),
        Ok(None) => note_session(folder, run, text).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// The note with the tag of archived sessions added or removed.
fn archived(note: &str, archive: bool) -> String {
    let tag = format!("#{ARCHIVED}");
    let without: Vec<&str> = note.split(' ').filter(|word| *word != tag).collect();
    let without = without.join(" ").trim().to_owned();
    match (archive, without.is_empty()) {
        (false, _) => without,
        (true, true) => tag,
        (true, false) => format!("{without} {tag}"),
    }
}

impl Browser {
    /// Executes a command of the browser.
    pub(super) fn execute(&mut self, command: SessionsCommand, settings: &Settings, context: &Context) {
        match command {
            SessionsCommand::Browse(open) => {
                (self.is_open, self.outcome, self.asking) = (open, None, None);
                if open {
                    (self.search, self.filter) = (String::new(), Filter::default());
                    self.refresh();
                    self.read_sessions(settings, context);
                }
            }
            SessionsCommand::Search(text) => {
                self.filter = Filter::typed(&text).unwrap_or_default();
                self.search = text;
                self.refresh();
            }
            SessionsCommand::Pick(folder) => self.picked = Some(folder),
            SessionsCommand::Note(folder, text) => {
                self.act(context, move || note(&folder, None, text).map(|()| Done::Noted("Noted.".to_owned())));
            }
            SessionsCommand::Archive(folder, archive) => {
                let text = archived(self.heading(&folder).map_or("", |heading| &heading.note), archive);
                let message =
                    if archive { "Archived: search for “archived” to see it." } else { "No longer archived." };
                self.act(context, move || note(&folder, None, text).map(|()| Done::Noted(message.to_owned())));
            }
            SessionsCommand::Rename(folder, name) => match plain_name(&name) {
                Err(message) => self.outcome = Some(Err(message)),
                Ok(name) => {
                    if let Some(address) = elsewhere(&folder) {
                        let (host, command) = (address.host(), address.renaming(&name));
                        let message = format!(
                            "The session is on {host}: type `{command}` there, and open the session at its new address."
                        );
                        self.outcome = Some(Err(message));
                        return;
                    }
                    self.act(context, move || {
                        let to = rename_session(&folder, &name).map_err(|error| error.to_string())?;
                        Ok(Done::Renamed { from: folder, to })
                    });
                }
            },
            SessionsCommand::Delete(was) => {
                if let Some(address) = elsewhere(&was) {
                    let (host, command, copy) = (address.host(), address.session_command("rm -r"), was.display());
                    let message = format!(
                        "The session is on {host}: type `{command}` there to delete it. Its copy on this machine is in {copy}."
                    );
                    self.outcome = Some(Err(message));
                    return;
                }
                self.asking = Some(was);
            }
            SessionsCommand::AnswerDelete(yes) => {
                if let Some(was) = self.asking.take().filter(|_| yes) {
                    self.act(context, move || {
                        let at = delete_session(&was).map_err(|error| error.to_string())?;
                        Ok(Done::Deleted { at, was })
                    });
                }
            }
            SessionsCommand::UndoDelete => {
                let Some(Deleted { at, was, .. }) = self.deleted.last() else { return };
                let (at, was) = (at.clone(), was.clone());
                self.act(context, move || {
                    put_back(&at, &was).map_err(|error| error.to_string())?;
                    Ok(Done::PutBack(at))
                });
            }
            _ => {}
        }
    }

    fn act(&mut self, context: &Context, work: impl FnOnce() -> Result<Done, String> + Send + 'static) {
        self.acting.get_or_insert_with(|| on_thread("sessions", context, work));
    }

    /// Reads the list of sessions again, because a list that is being read may be older than an action that has just ended.
    fn read_sessions(&mut self, settings: &Settings, context: &Context) {
        let others = settings.recent.clone();
        let known = Arc::clone(&self.headings);
        self.reading = Some(on_thread("all-sessions", context, move || read(&known, &others)));
    }

    /// Takes over the results of background work.
    pub(super) fn poll(&mut self, settings: &mut Settings, context: &Context) {
        if let Some(all) = taken(&mut self.reading) {
            self.headings = Arc::new(all);
            self.refresh();
        }
        if let Some(done) = taken(&mut self.acting) {
            self.outcome = Some(done.map(|done| match done {
                Done::Noted(message) => message,
                Done::Deleted { at, was } => {
                    // A session that takes its place must not show what was typed about this one.
                    context.data_mut(|data| data.remove::<String>(Id::unique(name_id(&was).as_str())));
                    let (message, place) = (format!("Deleted {}.", was.display()), settings.deleted(&was));
                    self.deleted.push(Deleted { at, was, place });
                    message
                }
                Done::Renamed { from, to } => {
                    settings.renamed(&from, &to);
                    let message = format!("Renamed to {}.", to.display());
                    (self.picked, self.renamed) = (Some(to.clone()), Some((to, from)));
                    message
                }
                Done::PutBack(at) => {
                    for back in self.deleted.extract_if(.., |known| known.at == at) {
                        if let Some(place) = back.place {
                            settings.restored(&back.was, place);
                        }
                    }
                    "The session is restored.".to_owned()
                }
            }));
            self.read_sessions(settings, context);
        }
    }
}

/// The name under which the typed new name of a session is stored.
fn name_id(folder: &Path) -> String {
    format!("session-name {}", folder.display())
}

fn filter_id() -> Id {
    Id::unique("sessions-filter")
}

/// Draws the browser.
pub fn browser_ui(context: &Context, browser: &Browser, desk: &Desk, commands: &mut Vec<Command>) {
    let mut session_commands = Vec::new();
    let focused = context.memory(|memory| memory.focused());
    // In other fields, these keys belong to the field.
    let is_free = focused.is_none_or(|focused| focused == filter_id()) && browser.asking.is_none();
    let pressed = |key| is_free && context.input(|input| input.key_pressed(key));
    let room = context.content_rect().size();
    let frame = Frame::popup(&context.global_style()).inner_margin(Margin::same((4.0 * GRID) as i8));
    let modal = Modal::new(Id::unique("sessions")).frame(frame).show(context, |ui| {
        ui.set_width(SIZE[0].min(room.x - 80.0));
        ui.set_height(SIZE[1].min(room.y - 80.0));
        head_ui(ui, browser, &mut session_commands);
        ui.add_space(2.0 * GRID);
        let (width, height) = (ui.available_width(), ui.available_height());
        ui.horizontal_top(|ui| {
            ui.allocate_ui_with_layout([LIST_SHARE * width, height].into(), Layout::top_down(Align::Min), |ui| {
                ui.set_min_size([LIST_SHARE * width, height].into());
                list_ui(ui, browser, desk, &mut session_commands);
            });
            ui.add_space(2.0 * GRID);
            ui.vertical(|ui| {
                ui.set_width(ui.available_width());
                let picked = browser.picked.as_ref().and_then(|folder| browser.heading(folder));
                // A session that was just archived is not listed either, but stays in sight. One that a search left out does not.
                let is_searched_away = browser.listed.is_empty() && !browser.filter.is_empty();
                match picked.filter(|_| !is_searched_away) {
                    Some(heading) => detail_ui(ui, browser, desk, heading, &mut session_commands),
                    // The list says why it is empty.
                    None if browser.listed.is_empty() => {}
                    None => drop(ui.label(muted(
                        ui,
                        "Choose a session to see its contents, write a note on it, rename or delete it.",
                    ))),
                }
            });
        });
    });
    // In the filter, Enter takes the first match if none is chosen.
    let entered = browser.picked_place().or_else(|| focused.map(|_| 0)).filter(|_| pressed(Key::Enter));
    let entered = entered.and_then(|place| browser.listed_heading(place)).filter(|heading| !is_open(desk, heading));
    if let Some(heading) = entered {
        session_commands.extend([SessionsCommand::Browse(false), SessionsCommand::Open(heading.folder.clone())]);
    } else if let Some(heading) = browser.next(pressed(Key::ArrowDown), pressed(Key::ArrowUp)) {
        session_commands.push(SessionsCommand::Pick(heading.folder.clone()));
    } else if modal.should_close() {
        session_commands.push(SessionsCommand::Browse(false));
    }
    session_commands.extend(ask_delete_ui(context, browser).map(SessionsCommand::AnswerDelete));
    commands.extend(session_commands.into_iter().map(Command::Sessions));
}

/// Asks whether to delete a session; says what would be lost.
fn ask_delete_ui(context: &Context, browser: &Browser) -> Option<bool> {
    let folder = browser.asking.as_ref()?;
    let name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy();
    let runs = browser.heading(folder).map_or_else(|| "runs".to_owned(), held_text);
    let loss = format!(
        "It holds {runs}, with their logs and recordings, in {}. Undo restores it until this window is closed; then it is removed for good.",
        folder.display()
    );
    ask_ui(context, "delete a session", &format!("Delete the session {name}?"), &loss, "Delete it", "Keep it")
}

fn head_ui(ui: &mut Ui, browser: &Browser, commands: &mut Vec<SessionsCommand>) {
    ui.horizontal(|ui| {
        ui.heading("Sessions");
        let hint = "Search: h100, tag=paper, precision=fp16, date=2026-11-22 …";
        let width = (ui.available_width() - 200.0).max(160.0);
        let (text, unordered) = (&browser.search, browser.unordered.as_ref());
        let typed = filter_field(ui, filter_id(), ("Search sessions", hint), text, width, &[], unordered);
        commands.extend(typed.map(SessionsCommand::Search));
        // While the dialog is only measured, the field cannot take the focus.
        if opens(ui.ctx(), filter_id()) && !ui.is_sizing_pass() {
            ui.memory_mut(|memory| memory.request_focus(filter_id()));
        }
        let counts = format!("{} of {}", browser.listed.len(), browser.headings.len());
        ui.label(muted(ui, if browser.reading.is_some() { format!("{counts}, reading …") } else { counts }));
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let close = ui.button("×").on_hover_text("Close (Esc)");
            close.widget_info(|| named("Close the sessions"));
            if close.clicked() {
                commands.push(SessionsCommand::Browse(false));
            }
        });
    });
    ui.horizontal_wrapped(|ui| {
        match &browser.outcome {
            Some(Ok(message)) => drop(ui.label(message)),
            Some(Err(reason)) => drop(ui.colored_label(palette(ui.visuals()).bad, format!("⚠ {reason}"))),
            None => {}
        }
        if let Some(Deleted { was, .. }) = browser.deleted.last() {
            let name = was.file_name().unwrap_or_default().to_string_lossy();
            let help = "Ctrl Z. Deleted sessions are removed for good when the window is closed";
            if ui.button(format!("Undo: restore {name}")).on_hover_text(help).clicked() {
                commands.push(SessionsCommand::UndoDelete);
            }
        }
        if let Some((now, old)) = browser.renaming() {
            let new = now.file_name().unwrap_or_default().to_string_lossy();
            if ui.button(format!("Undo: rename {new} to {old}")).clicked() {
                commands.push(SessionsCommand::Rename(now.to_owned(), old));
            }
        }
    });
}

fn list_ui(ui: &mut Ui, browser: &Browser, desk: &Desk, commands: &mut Vec<SessionsCommand>) {
    if browser.listed.is_empty() {
        ui.label(muted(ui, nothing_listed(browser)));
        return;
    }
    ScrollArea::vertical().id_salt("sessions-list").auto_shrink(false).show_rows(
        ui,
        ROW,
        browser.listed.len(),
        |ui, rows| {
            for index in browser.listed.get(rows).unwrap_or_default() {
                let heading = &browser.headings[*index].heading;
                row_ui(ui, browser, desk, heading, commands);
            }
        },
    );
}

/// Why no session is listed.
fn nothing_listed(browser: &Browser) -> &'static str {
    match (browser.reading.is_some(), browser.headings.is_empty()) {
        (true, _) => "Reading the sessions …",
        (false, true) => "No session yet: launching a plan creates one.",
        (false, false) if browser.filter.is_empty() => "All sessions are archived: search for “archived” to see them.",
        (false, false) => "No session matches.",
    }
}

/// `16 finished, 2 failed`.
fn runs_text(heading: &SessionHeading) -> String {
    let states: Vec<String> = heading.runs.iter().map(|(state, count)| format!("{count} {state}")).collect();
    if states.is_empty() { "no runs".to_owned() } else { states.join(", ") }
}

/// `18 runs (16 finished, 2 failed)`.
fn held_text(heading: &SessionHeading) -> String {
    let all: usize = heading.runs.values().sum();
    if all == 0 { runs_text(heading) } else { format!("{} ({})", counted(all, "run"), runs_text(heading)) }
}

fn is_open(desk: &Desk, heading: &SessionHeading) -> bool {
    desk.session.as_ref().is_some_and(|session| session.folder == heading.folder)
}

fn row_ui(ui: &mut Ui, browser: &Browser, desk: &Desk, heading: &SessionHeading, commands: &mut Vec<SessionsCommand>) {
    let chosen = browser.picked.as_ref() == Some(&heading.folder);
    let (rect, response) =
        ui.allocate_exact_size([ui.available_width() - 3.0 * GRID, ROW].into(), eframe::egui::Sense::click());
    response.widget_info(|| WidgetInfo::selected(Role::Button, true, chosen, format!("Session {}", heading.name)));
    let accent = palette(ui.visuals()).accent;
    if chosen || response.hovered() {
        ui.painter().rect_filled(rect, 4.0, accent.gamma_multiply(if chosen { 0.18 } else { 0.08 }));
    }
    let inside = eframe::egui::UiBuilder::new().max_rect(rect.shrink2([2.0 * GRID, 2.0].into()));
    ui.scope_builder(inside, |ui| {
        ui.style_mut().interaction.selectable_labels = false;
        ui.spacing_mut().item_spacing.y = 0.0;
        let open = if is_open(desk, heading) { " · open" } else { "" };
        ui.horizontal(|ui| {
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                ui.label(muted(ui, heading.date()));
                ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                    ui.add(Label::new(strong(format!("{}{open}", heading.name))).truncate());
                });
            });
        });
        let note = if heading.note.is_empty() { String::new() } else { format!(" · {}", heading.note) };
        let text = format!("{} · {}{note}", runs_text(heading), heading.machine());
        ui.add(Label::new(muted(ui, text)).truncate());
        let place = match host_of_copy(&heading.folder) {
            Some(host) => format!("on {host}"),
            None => format!("in {}", heading.folder.parent().unwrap_or(&heading.folder).display()),
        };
        ui.add(Label::new(muted(ui, place).small()).truncate());
    });
    if response.clicked() {
        commands.push(SessionsCommand::Pick(heading.folder.clone()));
    }
    if response.double_clicked() {
        commands.extend([SessionsCommand::Browse(false), SessionsCommand::Open(heading.folder.clone())]);
    }
}

fn detail_ui(
    ui: &mut Ui,
    browser: &Browser,
    desk: &Desk,
    heading: &SessionHeading,
    commands: &mut Vec<SessionsCommand>,
) {
    let is_open = is_open(desk, heading);
    let free = !is_open && browser.acting.is_none();
    let why_not = if is_open { "It is open: open another session first" } else { "Wait for the current action to end" };
    ScrollArea::vertical().id_salt("session-detail").auto_shrink(false).show(ui, |ui| {
        ui.add(Label::new(strong(&heading.name)).wrap());
        ui.add(Label::new(muted(ui, heading.folder.display().to_string()).small()).wrap().selectable(true));
        ui.horizontal_wrapped(|ui| {
            if main_button(ui, !is_open, if is_open { "Open already" } else { "Open" }).clicked() {
                commands.extend([SessionsCommand::Browse(false), SessionsCommand::Open(heading.folder.clone())]);
            }
            let archive = !heading.is_archived();
            if ui.button(if archive { "Archive" } else { "Take out of the archive" }).clicked() {
                commands.push(SessionsCommand::Archive(heading.folder.clone(), archive));
            }
            let delete = ui.add_enabled(free, Button::new("Delete …")).on_disabled_hover_text(why_not);
            let help = "Asks first, and can be undone until the window is closed";
            if delete.on_hover_text(help).clicked() {
                commands.push(SessionsCommand::Delete(heading.folder.clone()));
            }
        });
        ui.add_space(GRID);
        fact_ui(ui, "Plans", &heading.plans.join(", "));
        fact_ui(ui, "Runs", &runs_text(heading));
        fact_ui(ui, "Machine", &heading.whole_machine());
        for (key, levels) in heading.levels.iter().filter(|(_, levels)| levels.len() > 1) {
            let levels: Vec<String> = levels.iter().map(ToString::to_string).collect();
            fact_ui(ui, heading.names.get(key).map_or(&**key, |name| &**name), &levels.join(", "));
        }
        ui.add_space(GRID);
        note_ui(ui, heading, commands);
        ui.add_space(GRID);
        ui.label(strong("Name"));
        ui.horizontal(|ui| {
            let typed = field(ui, &name_id(&heading.folder), "New name of the session", &heading.name);
            let wanted = free && !typed.text.trim().is_empty();
            let button = ui.add_enabled(wanted, Button::new("Rename")).on_disabled_hover_text(why_not);
            if wanted && (button.clicked() || typed.entered) {
                commands.push(SessionsCommand::Rename(heading.folder.clone(), typed.text));
            }
        });
    });
}

fn fact_ui(ui: &mut Ui, name: &str, value: &str) {
    if !value.is_empty() {
        ui.add(Label::new(muted(ui, format!("{name}: {value}"))).wrap());
    }
}

/// Draws the note, which can be edited.
fn note_ui(ui: &mut Ui, heading: &SessionHeading, commands: &mut Vec<SessionsCommand>) {
    ui.label(strong("Note"));
    let id = Id::unique(("session-note", &heading.folder));
    let mut text: String = ui.data(|data| data.get_temp(id)).unwrap_or_else(|| heading.note.clone());
    let hint = "What this session is about; words with # are tags";
    let edit = ui.add(TextEdit::multiline(&mut text).hint_text(hint).desired_rows(3).desired_width(f32::INFINITY));
    edit.widget_info(|| named_text("Note on the session", &text));
    ui.horizontal_wrapped(|ui| {
        if ui.add_enabled(text != heading.note, Button::new("Save note")).clicked() {
            commands.push(SessionsCommand::Note(heading.folder.clone(), text.trim().to_owned()));
        }
        tags(&text).for_each(|tag| drop(ui.label(muted(ui, format!("#{tag}")))));
    });
    ui.data_mut(|data| {
        if text == heading.note {
            data.remove::<String>(id);
        } else {
            data.insert_temp(id, text);
        }
    });
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
