//! The table that a screen shows: copied, or saved as a file whose ending says its format.

use std::path::{Path, PathBuf};

use eframe::egui::Context;
use poll_promise::Promise;

use super::{Desk, Notice};
use crate::app::command::ScreenName;
use crate::app::task::on_thread;
use crate::figure::{Format, Table, render};
use crate::foreign;

/// The endings of files of tables, with their formats.
const ENDINGS: [(&str, Format); 4] =
    [("csv", Format::Csv), ("md", Format::Markdown), ("tex", Format::Latex), ("json", Format::Json)];

/// A table that is being saved.
pub(super) struct SavingTable {
    screen: ScreenName,
    /// The file, or why it was not written; `None` if the user cancelled the dialog.
    work: Promise<Option<Result<PathBuf, String>>>,
}

impl Desk {
    /// Copies a table to the clipboard.
    pub fn copy_table(&mut self, table: &Table, format: Format, context: &Context) {
        let text = render(table, format);
        self.copied(&text);
        context.copy_text(text);
    }

    /// Saves a table under the name that the user chooses in the system's dialog, which asks before it replaces a file.
    pub fn save_table(&mut self, table: Table, name: &str, context: &Context) {
        if self.saving_table.is_some() {
            return;
        }
        let (folder, name) = (self.session.as_ref().map(|session| session.folder.clone()), format!("{name}.csv"));
        let work = on_thread("table file", context, move || {
            let endings = ENDINGS.map(|(ending, _)| ending);
            let mut dialog = rfd::FileDialog::new().set_title("Save the table").add_filter("tables", &endings);
            if let Some(folder) = folder.filter(|folder| folder.is_dir()) {
                dialog = dialog.set_directory(folder);
            }
            let path = dialog.set_file_name(name).save_file()?;
            Some(save(&path, &table).map(|()| path))
        });
        self.saving_table = Some(SavingTable { screen: self.screen, work });
    }

    /// Takes over what came of saving.
    pub fn poll_table(&mut self) {
        let Some(saved) = self.saving_table.take_if(|saving| saving.work.ready().is_some()) else { return };
        match saved.work.block_and_take() {
            Some(Ok(path)) => self.say(Notice { text: format!("Written: {}", path.display()), can_undo: false }),
            Some(Err(message)) => self.problem(saved.screen, message),
            None => {}
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
    use super::*;
    use crate::analysis::{Source, fixture, summarise_run};
    use crate::figure::{preset, table};

    #[test]
    fn a_table_is_saved_in_the_format_of_its_ending_and_replaces_nothing_of_a_session() {
        let runs = [summarise_run(&fixture::run(&fixture::cell("fp32", 1, "single"), 1, 0.01))];
        let table = table(&[Source { session: "", runs: &runs, reports: &[] }], &preset("times").unwrap());
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
