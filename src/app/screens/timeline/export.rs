//! Files written of recordings: for ui.perfetto.dev, and figures.

use std::path::{Path, PathBuf};

use eframe::egui::Context;

use super::TimelineScreen;
use super::figure;
use crate::app::task::Task;
use crate::foreign::session_of;
use crate::trace::{TraceError, Window, export_perfetto};

impl TimelineScreen {
    /// Writes the view as a figure, named after the first run.
    pub(super) fn export_view(&mut self, context: &Context) {
        let Some(run) = self.runs.first().filter(|_| self.exporting.is_none()) else { return };
        let (file, chart) = (run.file.clone(), figure::chart(self));
        self.exporting = Some(Task::start("timeline figure", context, move |_| {
            let path = free_name(&file, "activity", "pdf");
            figure::write(&chart, &path).map(|()| format!("Wrote {}.", path.display()))
        }));
    }

    /// Writes all events of a run for ui.perfetto.dev.
    pub(super) fn export_recording(&mut self, place: usize, context: &Context) {
        let Some(run) = self.runs.get(place).filter(|_| self.exporting.is_none()) else { return };
        let file = run.file.clone();
        self.exporting = Some(Task::start("perfetto export", context, move |tell| {
            let written = free_name(&file, "perfetto", "json");
            export_perfetto(&file, &Window::default(), &written, tell).map_err(|error| match error {
                TraceError::Cancelled => "Nothing was written for Perfetto: cancelled.".to_owned(),
                error => error.to_string(),
            })?;
            Ok(format!("Wrote {}: open it at ui.perfetto.dev.", written.display()))
        }));
    }
}

/// A free file name for an export of a recording: `report.activity.pdf`, `report.activity-2.pdf`. The file is beside the recording. If the
/// recording belongs to a session, the file is in the session's folder for figures and is named after the run.
fn free_name(recording: &Path, what: &str, ending: &str) -> PathBuf {
    let folder_of_run = recording.parent().unwrap_or(Path::new(""));
    let (folder, name) = match session_of(recording) {
        Some(session) => {
            let figures = session.join("figures");
            // If it cannot be created, writing the file says why.
            let _ = std::fs::create_dir(&figures);
            (figures, folder_of_run.file_name())
        }
        None => (folder_of_run.to_owned(), recording.file_stem()),
    };
    let name = name.unwrap_or_default().to_string_lossy();
    let named = |number: u32| match number {
        1 => folder.join(format!("{name}.{what}.{ending}")),
        number => folder.join(format!("{name}.{what}-{number}.{ending}")),
    };
    (1..).map(named).find(|path| !path.exists()).unwrap_or_else(|| named(1))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_sessions_recordings_are_among_its_figures_and_those_of_others_beside_them() {
        let folder = tempfile::tempdir().unwrap();
        let session = folder.path().canonicalize().unwrap().join("study");
        let run = session.join("runs/0001-cell-1");
        std::fs::create_dir_all(&run).unwrap();
        let recording = run.join("trace.events");
        assert_eq!(free_name(&recording, "activity", "pdf"), run.join("trace.activity.pdf"), "no session yet");
        for file in ["session.toml", "journal.jsonl"] {
            std::fs::write(session.join(file), "").unwrap();
        }
        let first = free_name(&recording, "activity", "pdf");
        assert_eq!(first, session.join("figures/0001-cell-1.activity.pdf"));
        crate::foreign::write(&first, b"%PDF").unwrap();
        assert_eq!(free_name(&recording, "activity", "pdf"), session.join("figures/0001-cell-1.activity-2.pdf"));
        assert_eq!(free_name(&recording, "perfetto", "json"), session.join("figures/0001-cell-1.perfetto.json"));
    }
}
