//! Files written next to recordings: for ui.perfetto.dev, and figures.

use std::path::{Path, PathBuf};

use eframe::egui::Context;

use super::TimelineScreen;
use super::figure;
use crate::app::task::Task;
use crate::trace::{TraceError, Window, export_perfetto};

impl TimelineScreen {
    /// Writes the view as a figure, next to the file of the first run.
    pub(super) fn export_view(&mut self, context: &Context) {
        let Some(run) = self.runs.first().filter(|_| self.exporting.is_none()) else { return };
        let (file, chart) = (run.file.clone(), figure::chart(self));
        self.exporting = Some(Task::start("timeline figure", context, move |_| {
            let path = free_name(&file, "activity", "pdf");
            figure::write(&chart, &path).map(|()| format!("Wrote {}.", path.display()))
        }));
    }

    /// Writes all events of a run for ui.perfetto.dev, next to its file.
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

/// A free file name next to a file: `report.activity.pdf`, `report.activity-2.pdf`.
fn free_name(file: &Path, what: &str, ending: &str) -> PathBuf {
    let named = |number: u32| match number {
        1 => file.with_extension(format!("{what}.{ending}")),
        number => file.with_extension(format!("{what}-{number}.{ending}")),
    };
    (1..).map(named).find(|path| !path.exists()).unwrap_or_else(|| named(1))
}
