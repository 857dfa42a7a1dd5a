//! Export of the shown figure.

use std::path::{Path, PathBuf};

use eframe::egui::Context;

use super::drawn::{Source, named};
use crate::app::plan::{on_thread, typed_path};
use crate::app::{Screen, State};
use crate::figure::paper::{Origin, PaperFormat, encode, write_file};
use crate::figure::{self, Study};
use crate::store::Reader;

/// Result of an export: the file, or the error.
pub type Exported = Result<PathBuf, String>;

impl State {
    /// Suggested path: in the session's folder, named after the study.
    pub fn suggested_figure(&self) -> PathBuf {
        let name = format!("{}.pdf", self.figures.study.file_name());
        match &self.session {
            Some(session) => session.folder.join("figures").join(name),
            None => PathBuf::from(name),
        }
    }

    pub(in crate::app) fn figure_path(&self) -> PathBuf {
        typed_path(&self.figures.path).unwrap_or_else(|| self.suggested_figure())
    }

    /// Opens the system's dialog.
    pub(super) fn choose_export(&mut self, context: &Context) {
        if self.figures.choosing.is_some() {
            return;
        }
        let path = self.figure_path();
        self.figures.choosing = Some(on_thread("file dialog", context, move || {
            let mut dialog = rfd::FileDialog::new().add_filter("figures", &["pdf", "svg", "png"]);
            if let Some(folder) = path.parent().filter(|folder| folder.is_dir()) {
                dialog = dialog.set_directory(folder);
            }
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            dialog.set_file_name(name.unwrap_or_default()).save_file()
        }));
    }

    /// Exports the figure with the current settings.
    pub(super) fn export_figure(&mut self, context: &Context) {
        if self.figures.exporting.is_some() || self.screen != Screen::Figures {
            return;
        }
        let (path, sources, study, dpi) =
            (self.figure_path(), self.figure_sources(), self.figure_study(), self.figures.dpi);
        self.figures.said = None;
        self.figures.exporting =
            Some(on_thread("figure export", context, move || export(&path, &sources, &study, dpi)));
    }

    /// Writes the methods paragraph of the figure, to be copied.
    pub(super) fn describe_figure(&mut self, context: &Context) {
        if self.figures.describing.is_some() {
            return;
        }
        let (sources, study) = (self.figure_sources(), self.figure_study());
        self.figures.said = None;
        self.figures.describing = Some(on_thread("methods paragraph", context, move || {
            let origins: Vec<Origin> = sources.iter().map(origin).collect::<Result<_, _>>()?;
            Ok(figure::methods(&named(&sources), &study, &origins))
        }));
    }

    /// Takes over the results of exports and dialogs.
    pub(super) fn poll_export(&mut self, context: &Context) {
        if let Some(describing) = self.figures.describing.take() {
            match describing.try_take() {
                Ok(Ok(text)) => {
                    let words = text.split_whitespace().count();
                    self.figures.said = Some((format!("Copied: methods paragraph, {words} words"), true));
                    context.copy_text(text);
                }
                Ok(Err(message)) => self.figures.said = Some((message, false)),
                Err(describing) => self.figures.describing = Some(describing),
            }
        }
        if let Some(choosing) = self.figures.choosing.take() {
            match choosing.try_take() {
                Ok(Some(path)) => self.figures.path = path.display().to_string(),
                Ok(None) => {}
                Err(choosing) => self.figures.choosing = Some(choosing),
            }
        }
        if let Some(exporting) = self.figures.exporting.take() {
            match exporting.try_take() {
                Ok(Ok(path)) => self.figures.said = Some((format!("Written: {}", path.display()), true)),
                Ok(Err(message)) => self.figures.said = Some((message, false)),
                Err(exporting) => self.figures.exporting = Some(exporting),
            }
        }
    }
}

fn export(path: &Path, sources: &[Source], study: &Study, dpi: u32) -> Exported {
    let say = |error: &dyn std::fmt::Display| error.to_string();
    let format = PaperFormat::of(path, dpi).map_err(|error| say(&error))?;
    let figure = figure::figure(&named(sources), study).map_err(|error| say(&error))?;
    if figure.charts.iter().all(figure::Chart::is_empty) {
        return Err("nothing to export: no cell has what this study shows".to_owned());
    }
    let origins: Result<Vec<Origin>, String> = sources.iter().map(origin).collect();
    let bytes = encode(&figure.scene(), &figure.provenance(origins?), format).map_err(|error| say(&error))?;
    if let Some(folder) = path.parent().filter(|folder| folder.ends_with("figures")) {
        // If it cannot be created, writing the file says why.
        let _ = std::fs::create_dir(folder);
    }
    write_file(path, &bytes).map_err(|error| say(&error))?;
    Ok(path.to_owned())
}

fn origin((name, records): &Source) -> Result<Origin, String> {
    let read = || -> Result<Origin, crate::store::StoreError> {
        let reader = Reader::open(&records.folder)?;
        let own = records.folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = if name.is_empty() { own } else { name.clone() };
        let first = records.runs.iter().map(|run| run.queued_time_s).min_by(f64::total_cmp);
        Ok(Origin::new(name, &reader.node()?, reader.plans()?, first))
    };
    read().map_err(|error| format!("reading the plans of {}: {error}", records.folder.display()))
}
