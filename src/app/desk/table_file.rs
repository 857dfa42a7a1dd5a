//! The table that a screen shows: copied, or saved as a file whose ending says its format.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use eframe::egui::{Context, Id, Modal};
use poll_promise::Promise;

use super::{Desk, Notice};
use crate::app::command::{Command, ScreenName};
use crate::app::task::{NO_FILE_CHOSEN, on_thread};
use crate::app::widgets::{is_dismissed, muted, opens, path_ui, strong};
use crate::figure::{Format, Table, counted, render};
use crate::foreign;

/// The endings of files of tables, with their formats.
const ENDINGS: [(&str, Format); 4] =
    [("csv", Format::Csv), ("md", Format::Markdown), ("tex", Format::Latex), ("json", Format::Json)];

/// A table that is being saved.
pub(super) struct SavingTable {
    screen: ScreenName,
    unsaved: UnsavedTable,
    /// The file, or why it was not written; `None` if the user cancelled the dialog, or the system has none.
    work: Promise<Option<Result<PathBuf, String>>>,
}

/// A table for which no file was chosen in a dialog.
pub(super) struct UnsavedTable {
    table: Arc<Table>,
    /// The path that is suggested.
    path: PathBuf,
    /// The message to the user.
    note: String,
}

/// The id under which the typed path is stored.
fn path_id() -> Id {
    Id::unique("path of the table")
}

impl Desk {
    /// Copies a table to the clipboard.
    pub fn copy_table(&mut self, table: &Table, format: Format, context: &Context) {
        let name = match format {
            Format::Markdown => "Markdown",
            Format::Csv => "CSV",
            Format::Latex => "LaTeX",
            Format::Json => "JSON",
        };
        let rows = counted(table.rows.len(), "row");
        self.say(Notice { text: format!("Copied as {name}: {rows}"), can_undo: false });
        context.copy_text(render(table, format));
    }

    /// Saves a table under the name that the user chooses in the system's dialog, which asks before it replaces a file.
    pub fn save_table(&mut self, table: Table, name: &str, context: &Context) {
        if self.saving_table.is_some() {
            return;
        }
        let (folder, name) = (self.session.as_ref().map(|session| session.folder.clone()), format!("{name}.csv"));
        let path = folder.as_ref().map_or_else(|| PathBuf::from(&name), |folder| folder.join(&name));
        let note = NO_FILE_CHOSEN.to_owned();
        let table = Arc::new(table);
        let unsaved = UnsavedTable { table: Arc::clone(&table), path, note };
        let work = on_thread("table file", context, move || {
            let endings = ENDINGS.map(|(ending, _)| ending);
            let mut dialog = rfd::FileDialog::new().set_title("Save the table").add_filter("tables", &endings);
            if let Some(folder) = folder.filter(|folder| folder.is_dir()) {
                dialog = dialog.set_directory(folder);
            }
            let path = dialog.set_file_name(name).save_file()?;
            Some(save(&path, &table).map(|()| path))
        });
        self.saving_table = Some(SavingTable { screen: self.screen, unsaved, work });
    }

    /// Takes over what came of saving.
    pub fn poll_table(&mut self) {
        let Some(saved) = self.saving_table.take_if(|saving| saving.work.ready().is_some()) else { return };
        match saved.work.block_and_take() {
            Some(Ok(path)) => self.say(Notice { text: format!("Written: {}", path.display()), can_undo: false }),
            Some(Err(message)) => self.problem(saved.screen, message),
            None => self.unsaved_table = Some(saved.unsaved),
        }
    }

    /// Saves the table to a typed path, where no file is replaced; without a path, it stays unsaved.
    pub fn save_typed_table(&mut self, path: Option<PathBuf>, context: &Context) {
        let (Some(mut unsaved), Some(path)) = (self.unsaved_table.take(), path) else { return };
        let saved = if path.exists() {
            Err(format!("{} exists and was not replaced: choose another name", path.display()))
        } else {
            save(&path, &unsaved.table)
        };
        match saved {
            Ok(()) => self.say(Notice { text: format!("Written: {}", path.display()), can_undo: false }),
            Err(note) => {
                context.data_mut(|data| data.insert_temp(path_id(), path.display().to_string()));
                unsaved.note = note;
                self.unsaved_table = Some(unsaved);
            }
        }
    }

    /// Asks for the path of a table for which no file was chosen in a dialog.
    pub fn table_path_ui(&self, context: &Context, commands: &mut Vec<Command>) {
        let Some(unsaved) = &self.unsaved_table else { return };
        if opens(context, path_id()) {
            context.data_mut(|data| data.insert_temp(path_id(), unsaved.path.display().to_string()));
        }
        let modal = Modal::new(Id::unique("save the table")).show(context, |ui| {
            ui.set_width(520.0);
            ui.label(strong("Save the table"));
            ui.label(muted(ui, &unsaved.note));
            let path = path_ui(ui, path_id(), "Path of the table", "Save table", 400.0);
            (path, ui.button("Cancel").clicked())
        });
        let is_closed = is_dismissed(&modal);
        match modal.inner {
            (Some(path), _) => commands.push(Command::SaveTable(Some(path))),
            (None, is_cancelled) if is_cancelled || is_closed => commands.push(Command::SaveTable(None)),
            (None, _) => {}
        }
    }
}

/// Writes a table in the format of its file's ending. What belongs to a session is not replaced.
fn save(path: &Path, table: &Table) -> Result<(), String> {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_lowercase();
    let Some((_, format)) = ENDINGS.iter().find(|(known, _)| *known == ending) else {
        let endings = ENDINGS.map(|(ending, _)| format!(".{ending}")).join(", ");
        return Err(format!("saving {}: the ending says the format: use one of {endings}", path.display()));
    };
    let text = render(table, *format);
    foreign::write(path, text.as_bytes()).map_err(|error| format!("saving {}: {error}", path.display()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use eframe::egui::{Key, Ui};
    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable as _;

    use super::*;
    use crate::analysis::{Source, fixture, summarise_run};
    use crate::app::dressed::{click_beside, dressed};
    use crate::figure::{preset, table};

    /// The table of one run.
    fn table_of_a_run() -> Table {
        let runs = [summarise_run(&fixture::run(&fixture::cell("fp32", 1, "single"), 1, 0.01))];
        table(&[Source { session: "", runs: &runs, reports: &[] }], &preset("times").unwrap())
    }

    /// A window that asks for the path of a table, and suggests this one.
    fn window_that_asks(table: &Arc<Table>, path: &Path) -> Harness<'static, Desk> {
        let unsaved = UnsavedTable { table: Arc::clone(table), path: path.to_owned(), note: String::new() };
        let work = Promise::from_ready(None);
        let saving_table = Some(SavingTable { screen: ScreenName::COMPARE, unsaved, work });
        let desk = Desk { saving_table, ..Desk::default() };
        let draw = |ui: &mut Ui, desk: &mut Desk| {
            let mut commands = Vec::new();
            desk.table_path_ui(ui.ctx(), &mut commands);
            for command in commands {
                let Command::SaveTable(path) = command else { panic!("{command:?}") };
                desk.save_typed_table(path, ui.ctx());
            }
            desk.poll_table();
        };
        let mut window = dressed(Harness::builder().with_size([900.0, 500.0]), desk, draw);
        window.run();
        window
    }

    /// The text in the field of the path, if the window asks for a path.
    fn field(window: &Harness<'_, Desk>) -> Option<String> {
        window.query_by_label("Path of the table").map(|field| field.value().unwrap_or_default())
    }

    #[test]
    fn without_a_dialog_the_path_of_a_table_is_typed_and_no_file_is_replaced() {
        let table = Arc::new(table_of_a_run());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("times.csv");
        std::fs::write(&path, "kept").unwrap();
        let mut window = window_that_asks(&table, &path);
        let suggested = path.display().to_string();
        assert_eq!(field(&window), Some(suggested.clone()));
        window.get_by_label("Save table").click();
        window.run();
        assert!(window.query_by_label_contains("exists and was not replaced").is_some());
        assert_eq!((std::fs::read_to_string(&path).unwrap(), field(&window)), ("kept".to_owned(), Some(suggested)));
        std::fs::remove_file(&path).unwrap();
        window.get_by_label("Save table").click();
        window.run();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), render(&table, Format::Csv));
        assert_eq!(field(&window), None);
    }

    #[test]
    fn a_click_beside_the_question_for_a_path_keeps_what_was_typed_and_escape_closes_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("times.csv");
        let mut window = window_that_asks(&Arc::new(table_of_a_run()), &path);
        window.get_by_label("Path of the table").focus();
        window.run();
        window.get_by_label("Path of the table").type_text("x");
        window.run();
        let typed = field(&window);
        assert_ne!(typed, Some(path.display().to_string()));
        click_beside(&mut window);
        assert_eq!(field(&window), typed);
        window.key_press(Key::Escape);
        window.run();
        assert_eq!(field(&window), None);
    }

    #[test]
    fn a_table_is_saved_in_the_format_of_its_ending_and_replaces_nothing_of_a_session() {
        let table = table_of_a_run();
        let folder = tempfile::tempdir().unwrap();
        for (ending, format) in ENDINGS {
            let path = folder.path().join(format!("times.{ending}"));
            // An earlier table is replaced: the dialog has asked.
            for _ in 0..2 {
                save(&path, &table).unwrap();
            }
            assert_eq!(std::fs::read_to_string(&path).unwrap(), render(&table, format));
        }
        let refused = save(&folder.path().join("times.pdf"), &table).unwrap_err();
        assert!(refused.ends_with("use one of .csv, .md, .tex, .json"), "{refused}");
        let session = folder.path().join("session");
        std::fs::create_dir_all(session.join("runs")).unwrap();
        for file in ["session.toml", "journal.jsonl", "runs/notes.md"] {
            std::fs::write(session.join(file), "kept").unwrap();
        }
        save(&session.join("runs/notes.md"), &table).unwrap_err();
        assert_eq!(std::fs::read_to_string(session.join("runs/notes.md")).unwrap(), "kept");
        save(&session.join("times.md"), &table).unwrap();
    }
}
