//! What to do while there is nothing to compare.

use eframe::egui::{Align, Layout, Ui};

use super::{View, metrics, side};
use crate::app::command::{Command, ScreenName};
use crate::app::theme::GRID;
use crate::app::widgets::{main_button, muted, text_width};
use crate::app::words::runs_text;

/// Draws it, or that the runs are being read.
pub fn empty_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    ui.vertical_centered(|ui| {
        ui.add_space((ui.available_height() / 3.0 - 40.0).max(8.0));
        let waits = view.is_reading_session()
            || view.records.pending > 0
            || view.own.is_updating() && !view.records.summaries.is_empty();
        if waits {
            ui.heading("Reading the runs …");
            if view.records.pending > 0 {
                let text = format!("computing the measures of {}", runs_text(view.records.pending));
                ui.label(muted(ui, text));
            }
            return;
        }
        ui.heading("Nothing to compare yet");
        let running = view.queue.is_active() || view.records.runs.iter().any(|run| !run.state.is_final());
        ui.label(muted(
            ui,
            if running {
                "Runs appear here as they finish."
            } else {
                "Launch a plan: its cells appear here next to each other as their runs finish."
            },
        ));
        ui.add_space(2.0 * GRID);
        let (name, screen) = if running { ("Show Runs", ScreenName::RUNS) } else { ("Show Plan", ScreenName::PLAN) };
        if main_button(ui, true, name).clicked() {
            commands.push(Command::Show(screen));
        }
        ui.add_space(2.0 * GRID);
        // Centred together: the texts, with the space around and between them.
        let texts = text_width(ui, side::ADD_SESSION) + text_width(ui, metrics::ATTACH);
        let width = texts + 4.0 * ui.spacing().button_padding.x + ui.spacing().item_spacing.x;
        ui.allocate_ui_with_layout([width, 0.0].into(), Layout::left_to_right(Align::Center), |ui| {
            side::add_session_ui(ui, view, commands);
            metrics::attach_ui(ui, view, commands);
        });
    });
}
