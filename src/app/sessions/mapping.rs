//! The dialog about a file with results of another program. It shows what the file's columns mean, and lets the user
//! change that before the file becomes a session.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use eframe::egui::{Button, Context, Frame, Grid, Id, Label, Margin, Modal, ScrollArea, TextEdit, Ui};
use poll_promise::Promise;

use crate::analysis::counted;
use crate::app::command::{Command, SessionsCommand};
use crate::app::task::{on_thread, taken};
use crate::app::theme::{GRID, palette};
use crate::app::widgets::{check_ui, choice, cut_to, is_dismissed, muted, named_text, strong};
use crate::import::{ForeignTable, Mapping, Problem, Results, Role, read, results};

/// The dialog's size, in points.
const SIZE: [f32; 2] = [860.0, 560.0];
/// Width of the lists of roles, and of the fields of units.
const ROLE: f32 = 120.0;
const UNIT: f32 = 150.0;
/// The number of values of a column that are shown.
const SHOWN: usize = 4;

/// A file that was read, with the meaning of its columns and the runs that its rows become.
#[derive(Clone)]
pub(super) struct Read {
    pub(super) table: Arc<ForeignTable>,
    pub(super) mapping: Mapping,
    pub(super) results: Result<Arc<Results>, Vec<Problem>>,
    /// The first values of each column.
    values: Vec<String>,
}

/// A role that was refused.
struct Refused {
    /// What was typed behind the first word of the role.
    details: String,
    reason: String,
}

/// The dialog about a file.
pub struct MappingDialog {
    /// The file.
    pub(super) file: PathBuf,
    reading: Option<Promise<Result<Read, Vec<Problem>>>>,
    /// The result of the last reading, or its errors.
    pub(super) read: Option<Result<Read, Vec<Problem>>>,
    /// The roles that were refused, by the column's place.
    refused: BTreeMap<usize, Refused>,
    /// Whether the user asked for the import while a change was being read: it starts once that is done.
    pub(super) is_import_due: bool,
}

impl MappingDialog {
    /// Reads a file and deduces what its columns mean, on a thread of its own.
    pub(super) fn of(file: PathBuf, context: &Context) -> Self {
        let path = file.clone();
        let reading = on_thread("import-read", context, move || {
            let table = Arc::new(read(&path)?);
            let mapping = Mapping::deduced(&table);
            Ok(Read::of(table, mapping, &path))
        });
        Self { file, reading: Some(reading), read: None, refused: BTreeMap::new(), is_import_due: false }
    }

    /// Whether it waits for the file.
    pub fn is_reading(&self) -> bool {
        self.reading.is_some()
    }

    /// Changes what a column means, and makes the runs again.
    pub(super) fn set(&mut self, place: usize, role: &str, context: &Context) {
        let Some(Ok(read)) = &mut self.read else { return };
        let Some((column, before, _)) = read.mapping.columns.get(place).cloned() else { return };
        match read.mapping.set(&column, role) {
            Ok(()) => {
                self.refused.remove(&place);
                self.read_again(context);
            }
            Err(error) => {
                let details = role.strip_prefix(before.word()).unwrap_or(role).trim().to_owned();
                self.refused.insert(place, Refused { details, reason: error.to_string() });
            }
        }
    }

    /// Declares that each row is a run of its own, or takes that back, and makes the runs again.
    pub(super) fn declare_runs(&mut self, rows_are_runs: bool, context: &Context) {
        let Some(Ok(read)) = &mut self.read else { return };
        read.mapping.rows_are_runs = rows_are_runs;
        self.read_again(context);
    }

    /// Makes the runs again with the changed mapping.
    fn read_again(&mut self, context: &Context) {
        let Some(Ok(read)) = &self.read else { return };
        let (table, mapping, path) = (Arc::clone(&read.table), read.mapping.clone(), self.file.clone());
        self.reading = Some(on_thread("import-read", context, move || Ok(Read::of(table, mapping, &path))));
        self.is_import_due = false;
    }

    /// The runs of the last reading, unless something was wrong.
    fn ready(&self) -> Option<&Arc<Results>> {
        self.read.as_ref()?.as_ref().ok()?.results.as_ref().ok()
    }

    /// Whether there are runs to import, and each column means what the user typed last.
    pub(super) fn can_import(&self) -> bool {
        self.ready().is_some() && self.refused.is_empty()
    }

    /// Why a click on the button that imports would do nothing; `None` if it would import. What was typed after a refusal is no reason: the
    /// click takes the focus from its field, and with that the text is judged.
    fn why_not(&self, context: &Context) -> Option<String> {
        if self.read.is_none() {
            return Some("The file is being read".to_owned());
        }
        if self.ready().is_none() {
            return Some("First correct what is named above".to_owned());
        }
        let is_still_typed = |(place, refused): &(&usize, &Refused)| {
            let typed: Option<(String, String)> = context.data(|data| data.get_temp(details_id(**place)));
            typed.is_none_or(|(text, _)| text.trim() == refused.details)
        };
        self.refused.iter().find(is_still_typed).map(|(_, refused)| refused.reason.clone())
    }

    /// Stores the file if it has been read. Returns whether the import that the user asked for can start. While a button of the pointer
    /// is down, nothing is stored: the button under it would move, and the click would be lost.
    pub(super) fn poll(&mut self, context: &Context) -> bool {
        if context.input(|input| input.pointer.any_down()) {
            return false;
        }
        let Some(read) = taken(&mut self.reading) else { return false };
        self.read = Some(read);
        std::mem::take(&mut self.is_import_due) && self.can_import()
    }
}

impl Read {
    fn of(table: Arc<ForeignTable>, mapping: Mapping, path: &Path) -> Self {
        let results = results(&table, &mapping, &name_of(path)).map(Arc::new);
        let shown = |place: usize| {
            let mut values: Vec<&str> = Vec::new();
            for text in table.values(place).map(|field| field.text()).filter(|text| !text.is_empty()) {
                if values.len() == SHOWN {
                    break;
                }
                if !values.contains(&text) {
                    values.push(text);
                }
            }
            crate::foreign::printable(&values.join(", ")).into_owned()
        };
        let values = (0..table.columns.len()).map(shown).collect();
        Self { table, mapping, results, values }
    }
}

/// The name of a file, with which its runs are marked.
pub(super) fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Draws the dialog.
pub fn mapping_ui(context: &Context, dialog: &MappingDialog, commands: &mut Vec<Command>) {
    let mut asked = Vec::new();
    let room = context.content_rect().size();
    let frame = Frame::popup(&context.global_style()).inner_margin(Margin::same((4.0 * GRID) as i8));
    let modal = Modal::new(Id::unique("mapping")).frame(frame).show(context, |ui| {
        ui.set_width(SIZE[0].min(room.x - 80.0));
        ui.heading(format!("Import {}", name_of(&dialog.file)));
        match &dialog.read {
            None => drop(ui.label(muted(ui, "reading …"))),
            Some(Err(problems)) => problems_ui(ui, problems, room.y),
            Some(Ok(read)) => read_ui(ui, dialog, read, room.y, &mut asked),
        }
        ui.add_space(2.0 * GRID);
        ui.horizontal(|ui| {
            let ready = dialog.ready();
            let name =
                ready.map_or("Import".to_owned(), |ready| format!("Import {}", counted(ready.runs.len(), "run")));
            let why_not = dialog.why_not(ui.ctx());
            let import = ui.add_enabled(why_not.is_none(), Button::new(name));
            let help = "Makes a session of these runs in the default folder, and opens it";
            let help = why_not.as_deref().unwrap_or(help);
            if import.on_hover_text(help).on_disabled_hover_text(help).clicked() {
                asked.push(SessionsCommand::TakeMapping);
            }
            if ui.button("Cancel").on_hover_text("Nothing is written (Esc)").clicked() {
                asked.push(SessionsCommand::CloseMapping);
            }
        });
    });
    if is_dismissed(&modal) {
        asked.push(SessionsCommand::CloseMapping);
    }
    commands.extend(asked.into_iter().map(Command::Sessions));
}

/// Draws the runs that the rows become, and the meaning of each column.
fn read_ui(ui: &mut Ui, dialog: &MappingDialog, read: &Read, height: f32, asked: &mut Vec<SessionsCommand>) {
    let rows = counted(read.table.rows.len(), "row");
    let about = match &read.results {
        Ok(ready) => format!(
            "{rows} of {} become {} of {}. They are marked as imported, and never judged against runs that were measured here.",
            read.table.format,
            counted(ready.runs.len(), "run"),
            counted(ready.cells, "cell")
        ),
        Err(_) => format!(
            "{rows} of {}. What is wrong is named below: change what a column means, or the file.",
            read.table.format
        ),
    };
    ui.label(muted(ui, about));
    ui.add_space(GRID);
    let problems = match &read.results {
        Ok(ready) => &ready.warnings,
        Err(problems) => problems,
    };
    let recurs = read.mapping.rows_are_runs || read.results.as_ref().is_ok_and(|ready| ready.recurs());
    let below = match (problems.is_empty(), recurs) {
        (true, _) => 180.0,
        (false, false) => 320.0,
        (false, true) => 350.0,
    };
    let most = (height - below).clamp(120.0, SIZE[1]);
    // In its first frame, a modal has too little room: without a least height, the buttons would move afterwards.
    let columns = ScrollArea::vertical().id_salt("mapping-columns").max_height(most).min_scrolled_height(most);
    columns.auto_shrink([false, true]).show(ui, |ui| {
        Grid::new("mapping").num_columns(4).spacing([3.0 * GRID, GRID]).striped(true).show(ui, |ui| {
            for title in ["Column", "Is", "Unit and direction", "Values"] {
                ui.label(strong(title));
            }
            ui.end_row();
            for place in 0..read.mapping.columns.len() {
                column_ui(ui, dialog, read, place, asked);
                ui.end_row();
            }
        });
    });
    problems_ui(ui, problems, height);
    if recurs {
        let mut are_runs = read.mapping.rows_are_runs;
        let help = "Runs of programs without randomness have the same values. Verdicts then count each of these rows";
        ui.add_space(GRID);
        if check_ui(ui, &mut are_runs, "Each row is a run of its own").on_hover_text(help).changed() {
            asked.push(SessionsCommand::DeclareRuns(are_runs));
        }
    }
}

fn column_ui(ui: &mut Ui, dialog: &MappingDialog, read: &Read, place: usize, asked: &mut Vec<SessionsCommand>) {
    let (name, role, why) = &read.mapping.columns[place];
    let refused = dialog.refused.get(&place);
    let shown = cut_to(ui, &crate::foreign::printable(name), 180.0);
    ui.label(shown).on_hover_text(why);
    choice(ui, &format!("Meaning of {name}"), role.word(), ROLE, |ui| {
        for word in Role::WORDS {
            if ui.selectable_label(role.word() == word, word).clicked() && role.word() != word {
                asked.push(SessionsCommand::MapColumn(place, word.to_owned()));
            }
        }
    });
    if matches!(role, Role::Factor { .. } | Role::Measure { .. }) {
        details_ui(ui, (name, role), (place, refused.is_some()), asked);
    } else {
        ui.label("");
    }
    match refused {
        Some(refused) => drop(ui.colored_label(palette(ui.visuals()).bad, &refused.reason)),
        None => {
            let values = cut_to(ui, &read.values[place], 240.0);
            ui.add(Label::new(muted(ui, values)).truncate());
        }
    }
}

/// The id under which the text in the field of a column's details is stored, with what its role had when the field was drawn.
fn details_id(place: usize) -> Id {
    Id::unique(format!("mapping {place}"))
}

/// A field for the words after the first word of a role: a unit, `lower` or `higher`, a key. What was refused is replaced by any other text,
/// also by the one before.
fn details_ui(
    ui: &mut Ui,
    (name, role): (&str, &Role),
    (place, is_refused): (usize, bool),
    asked: &mut Vec<SessionsCommand>,
) {
    let whole = role.to_string();
    let now = whole.strip_prefix(role.word()).unwrap_or_default().trim().to_owned();
    // Typed text stays in the field until Enter or a click elsewhere applies it.
    let id = details_id(place);
    let (mut text, was): (String, String) = ui.data(|data| data.get_temp(id)).unwrap_or((now.clone(), now.clone()));
    if was != now {
        // The user chose another role.
        text.clone_from(&now);
    }
    let hint = if matches!(role, Role::Measure { .. }) { "unit lower" } else { "no unit" };
    let field = ui.add(TextEdit::singleline(&mut text).hint_text(hint).desired_width(UNIT));
    field.widget_info(|| named_text(&format!("Unit of {name}"), &text));
    if field.lost_focus() && (text.trim() != now || is_refused) {
        asked.push(SessionsCommand::MapColumn(place, format!("{} {}", role.word(), text.trim())));
    }
    ui.data_mut(|data| data.insert_temp(id, (text, now)));
    field.on_hover_text("A unit such as ms, GB or tokens/s; for a measure also lower or higher, and \"as KEY\"");
}

fn problems_ui(ui: &mut Ui, problems: &[Problem], height: f32) {
    if problems.is_empty() {
        return;
    }
    ui.add_space(GRID);
    ScrollArea::vertical().id_salt("mapping-problems").max_height((height - 360.0).clamp(80.0, 160.0)).show(ui, |ui| {
        for problem in problems {
            let text = problem.to_string();
            let text = format!("⚠ {}", crate::foreign::printable(&text));
            ui.add(Label::new(eframe::egui::RichText::new(text).color(palette(ui.visuals()).bad)).wrap());
        }
    });
}

#[cfg(test)]
#[path = "mapping/tests.rs"]
mod tests;
