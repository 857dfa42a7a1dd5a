//! Draws the browser of sessions: the list, and next to it the details of the chosen session.

use eframe::egui::{
    Align, Button, Context, Frame, Id, Key, Label, Layout, Margin, Modal, Role, ScrollArea, TextEdit, Ui, WidgetInfo,
};

use super::{Browser, Deleted, name_id, note_id};
use crate::app::asking::ask_ui;
use crate::app::command::{Command, SessionsCommand};
use crate::app::desk::Desk;
use crate::app::sessions::field;
use crate::app::theme::{GRID, palette};
use crate::app::widgets::{
    filter_field, focus_left, is_dismissed, main_button, muted, named, named_text, opens, strong,
};
use crate::plan::counted;
use crate::remote::host_of_copy;
use crate::store::{SessionHeading, tags};

/// Size of the browser, if the window has the room.
const SIZE: [f32; 2] = [940.0, 560.0];
/// The share of the list in the width; details of the chosen session are next to it.
const LIST_SHARE: f32 = 0.56;
/// Height of a session in the list: name, contents and place below each other.
const ROW: f32 = 60.0;

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
    let typed = session_commands.iter().find_map(|command| match command {
        SessionsCommand::Search(text) => Some(text.as_str()),
        _ => None,
    });
    let entered = if pressed(Key::Enter) { browser.entered(typed, focused.is_some()) } else { None };
    let entered = entered.filter(|heading| !is_open(desk, heading));
    if let Some(heading) = entered {
        session_commands.extend([SessionsCommand::Browse(false), SessionsCommand::Open(heading.folder.clone())]);
    } else if let Some(heading) = browser.next(pressed(Key::ArrowDown), pressed(Key::ArrowUp)) {
        session_commands.push(SessionsCommand::Pick(heading.folder.clone()));
    } else if is_dismissed(&modal) {
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
pub(super) fn held_text(heading: &SessionHeading) -> String {
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
    // A note that is being written delays the action, which is no reason to refuse it.
    let free = !is_open && !browser.is_moving();
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

/// Draws the note, which is written when its field is left.
fn note_ui(ui: &mut Ui, heading: &SessionHeading, commands: &mut Vec<SessionsCommand>) {
    ui.label(strong("Note"));
    let id = note_id(&heading.folder);
    let mut text: String = ui.data(|data| data.get_temp(id)).unwrap_or_else(|| heading.note.clone());
    let hint = "What this session is about; words with # are tags";
    let edit = ui.add(TextEdit::multiline(&mut text).hint_text(hint).desired_rows(3).desired_width(f32::INFINITY));
    edit.widget_info(|| named_text("Note on the session", &text));
    let is_left = focus_left(ui.ctx(), id, edit.has_focus());
    ui.horizontal_wrapped(|ui| {
        let differs = text.trim() != heading.note.trim();
        let is_pressed = ui.add_enabled(differs, Button::new("Save note")).clicked();
        if differs && (is_pressed || is_left) {
            // Before a button that took the focus: archiving adds its tag to this note.
            commands.insert(0, SessionsCommand::Note(heading.folder.clone(), text.trim().to_owned()));
        }
        tags(&text).for_each(|tag| drop(ui.label(muted(ui, format!("#{tag}")))));
    });
    // A space at the end is kept while the user types: a word may follow.
    let is_written = text == heading.note || (text.trim() == heading.note.trim() && !edit.has_focus());
    ui.data_mut(|data| match is_written {
        true => data.remove::<String>(id),
        false => drop(data.insert_temp(id, text)),
    });
}
