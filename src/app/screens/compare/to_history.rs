//! The way to the history: imported results of many dates or commits open with it, and bars of many sessions lead to it.

use eframe::egui::Ui;

use super::picture::Picture;
use super::{CompareCommand, CompareScreen};
use crate::app::command::Command;
use crate::app::engine::Records;
use crate::app::widgets::muted;
use crate::figure::{Form, Study, opening_study};

impl CompareScreen {
    /// Another session was opened: its runs may choose the first view, unless it was shown before.
    pub(super) fn await_first_view(&mut self) {
        let is_new = self.folder.as_ref().is_some_and(|folder| !self.studies.contains_key(folder));
        self.is_first_view = is_new && self.study == Study::default();
    }

    /// The runs of the open session were read. They choose the first view, unless the user has changed it meanwhile.
    pub(super) fn records_read(&mut self, records: &Records) {
        self.stale = true;
        if !self.is_first_view {
            return;
        }
        let is_unchanged = self.study == Study::default();
        let opening = opening_study(&records.summaries).filter(|_| is_unchanged);
        // Summaries of many runs come in several parts.
        self.is_first_view = is_unchanged && opening.is_none() && records.pending > 0;
        if let Some(study) = opening {
            self.study = study;
        }
    }
}

/// Draws the way from bars of many sessions, commits or dates to their history.
pub fn to_history_ui(ui: &mut Ui, picture: &Picture, commands: &mut Vec<Command>) {
    let Some(count) = picture.comparison.occasions else { return };
    ui.horizontal_wrapped(|ui| {
        let text = format!("{count} sessions, commits or dates: a history puts them in order and seeks changes.");
        ui.label(muted(ui, text));
        if ui.button("Show the history").on_hover_text(Form::History.help()).clicked() {
            commands.push(Command::from(CompareCommand::Form(Form::History)));
        }
    });
}
