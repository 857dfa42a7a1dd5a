//! Export of the shown figure.

use std::path::{Path, PathBuf};

use eframe::egui::Context;

use super::FiguresScreen;
use super::composing::Asked;
use crate::app::command::ScreenName;
use crate::app::desk::{Desk, Notice, SharedSources, Source, figure_of};
use crate::app::task::{NO_FILE_CHOSEN, on_thread, taken, typed_path};
use crate::figure::paper::{Origin, PaperFormat, Provenance, Scene, encode, panel_letter, read_file, write_file};
use crate::figure::{self, Study, counted};
use crate::store::Reader;

/// Result of an export: the file and whether it replaced an earlier one, or why it was not written.
pub type Exported = Result<(PathBuf, bool), Refusal>;

/// Why a figure was not written.
pub enum Refusal {
    /// A file exists that multicard did not write as a figure.
    Exists(PathBuf),
    /// An error, in words.
    Failed(String),
}

impl From<String> for Refusal {
    fn from(message: String) -> Self {
        Self::Failed(message)
    }
}

impl FiguresScreen {
    /// Suggested path: in the session's folder, named after the study.
    pub(super) fn suggested_path(&self, desk: &Desk) -> PathBuf {
        let is_composed = self.asked_composition(desk).is_some();
        let name = if is_composed { "panels.pdf".to_owned() } else { format!("{}.pdf", self.study.file_name()) };
        match &desk.session {
            Some(session) => session.folder.join("figures").join(name),
            None => PathBuf::from(name),
        }
    }

    /// The path to export to: the typed one, or the suggested one.
    pub(super) fn export_path(&self, desk: &Desk) -> PathBuf {
        typed_path(&self.path).unwrap_or_else(|| self.suggested_path(desk))
    }

    /// Opens the system's dialog.
    pub(super) fn choose_export(&mut self, desk: &Desk, context: &Context) {
        if self.choosing.is_some() {
            return;
        }
        let path = self.export_path(desk);
        self.choosing = Some(on_thread("file dialog", context, move || {
            let mut dialog = rfd::FileDialog::new().add_filter("figures", &["pdf", "svg", "png"]);
            if let Some(folder) = path.parent().filter(|folder| folder.is_dir()) {
                dialog = dialog.set_directory(folder);
            }
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            dialog.set_file_name(name.unwrap_or_default()).save_file()
        }));
    }

    /// Exports the figure with the current settings. Earlier figures are replaced; any other file only with `may_replace`.
    pub(super) fn export(&mut self, may_replace: bool, desk: &Desk, context: &Context) {
        if self.exporting.is_some() || desk.screen != ScreenName::FIGURES {
            return;
        }
        let (path, sources, study, dpi) = (self.export_path(desk), desk.sources(), self.drawn_study(desk), self.dpi);
        let composed = self.asked_composition(desk);
        (self.outcome, self.replaceable) = (None, None);
        self.exporting = Some(on_thread("figure export", context, move || {
            let replaces = path.is_file();
            if !may_replace && replaces && read_file(&path).is_err() {
                return Err(Refusal::Exists(path));
            }
            let written = match composed {
                Some(composed) => export_composed(&path, composed, dpi)?,
                None => export(&path, &sources, &study, dpi)?,
            };
            Ok((written, replaces))
        }));
    }

    /// Writes the methods paragraph of the figure, to be copied.
    pub(super) fn describe(&mut self, desk: &Desk, context: &Context) {
        if self.describing.is_some() {
            return;
        }
        let (sources, study) = (desk.sources(), self.drawn_study(desk));
        self.outcome = None;
        self.describing = Some(on_thread("methods paragraph", context, move || {
            let origins: Vec<Origin> = sources.iter().map(origin).collect::<Result<_, _>>()?;
            let shared = SharedSources::of(&sources, &study).agreed()?;
            Ok(figure::methods(&shared.analysed(), &study, &origins))
        }));
    }

    /// Takes over the results of exports and dialogs. A failure is shown beside the buttons, where it stays. A success is shown as a
    /// notice, which is visible even if the buttons are not.
    pub(super) fn poll_export(&mut self, desk: &mut Desk, context: &Context) {
        let mut tell = |text: String| desk.say(Notice { text, can_undo: false });
        match taken(&mut self.describing) {
            Some(Ok(text)) => {
                let words = counted(text.split_whitespace().count(), "word");
                tell(format!("Copied: methods paragraph, {words}"));
                context.copy_text(text);
            }
            Some(Err(message)) => self.outcome = Some((message, false)),
            None => {}
        }
        match taken(&mut self.choosing) {
            Some(Some(path)) => self.path = path.display().to_string(),
            Some(None) => self.outcome = Some((NO_FILE_CHOSEN.to_owned(), false)),
            None => {}
        }
        match taken(&mut self.exporting) {
            Some(Ok((path, true))) => tell(format!("Replaced: {}", path.display())),
            Some(Ok((path, false))) => tell(format!("Written: {}", path.display())),
            Some(Err(Refusal::Failed(message))) => self.outcome = Some((message, false)),
            Some(Err(Refusal::Exists(path))) => {
                let message =
                    format!("{} exists and is no figure of multicard: press Replace to overwrite it.", path.display());
                (self.outcome, self.replaceable) = (Some((message, false)), Some(path));
            }
            None => {}
        }
    }
}

fn export(path: &Path, sources: &[Source], study: &Study, dpi: u32) -> Result<PathBuf, String> {
    let format = PaperFormat::of(path, dpi).map_err(|error| error.to_string())?;
    let figure = figure_of(sources, study)?;
    if figure.is_empty() {
        return Err("nothing to export: no cell has what this study shows".to_owned());
    }
    let origins: Result<Vec<Origin>, String> = sources.iter().map(origin).collect();
    write(path, &figure.scene(), &figure.provenance(origins?), format)
}

/// Exports a composed figure. A figure with a blank panel is not written; the message says what the panel lacks.
fn export_composed(path: &Path, asked: Asked, dpi: u32) -> Result<PathBuf, String> {
    let format = PaperFormat::of(path, dpi).map_err(|error| error.to_string())?;
    let origins: Result<Vec<Origin>, String> = asked.used()?.iter().map(origin).collect();
    let composed = asked.figure();
    if let Some((nth, reason)) = composed.blank().first() {
        return Err(format!("panel ({}) is not drawn: {reason}", panel_letter(*nth)));
    }
    write(path, &composed.scene(), &composed.provenance(origins?), format)
}

fn write(path: &Path, scene: &Scene, provenance: &Provenance, format: PaperFormat) -> Result<PathBuf, String> {
    let say = |error: &dyn std::fmt::Display| error.to_string();
    let bytes = encode(scene, provenance, format).map_err(|error| say(&error))?;
    if let Some(folder) = path.parent().filter(|folder| folder.ends_with("figures")) {
        // If it cannot be created, writing the file says why.
        let _ = std::fs::create_dir(folder);
    }
    write_file(path, &bytes).map_err(|error| say(&error))?;
    Ok(path.to_owned())
}

fn origin(Source { name, records }: &Source) -> Result<Origin, String> {
    let read = || -> Result<Origin, crate::store::StoreError> {
        let reader = Reader::open(&records.folder)?;
        let own = records.folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = if name.is_empty() { own } else { name.clone() };
        let first = records.runs.iter().map(|run| run.queued_time_s).min_by(f64::total_cmp);
        Ok(Origin::new(name, &reader.node()?, reader.plans()?, first))
    };
    read().map_err(|error| format!("reading the plans of {}: {error}", records.folder.display()))
}
