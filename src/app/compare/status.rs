//! The status line above the table: included and excluded runs, notes, and copying.

use eframe::egui::{Align, Layout, Ui};

use super::CompareCommand;
use super::picture::Picture;
use crate::app::theme::{GRID, palette};
use crate::app::widgets::{muted, named, strong};
use crate::app::{Command, State};
use crate::figure::Format;
use crate::plan::asked_cells;

/// Width below which notes and copying have a line to themselves.
const ONE_LINE: f32 = 860.0;

/// Width of the button that plans full runs.
const FULL_RUNS: f32 = 240.0;

/// Draws the status line.
pub fn status_ui(ui: &mut Ui, state: &State, picture: &Picture, commands: &mut Vec<Command>) {
    let for_button = if picture.full_runs.is_some() { FULL_RUNS } else { 0.0 };
    let is_narrow = ui.available_width() < ONE_LINE + for_button;
    ui.horizontal(|ui| {
        counts_ui(ui, state, picture, commands);
        if !is_narrow {
            notes_ui(ui, picture, commands);
        }
    });
    if is_narrow {
        ui.horizontal(|ui| notes_ui(ui, picture, commands));
    }
    ui.add_space(GRID);
}

/// Draws which runs are included and which are not.
fn counts_ui(ui: &mut Ui, state: &State, picture: &Picture, commands: &mut Vec<Command>) {
    let comparison = &picture.comparison;
    let (shown, all) = (comparison.cells.len(), comparison.all_cells);
    let cells = if shown == all { format!("{all} cells") } else { format!("{shown} of {all} cells") };
    ui.label(strong(cells));
    let runs = if comparison.finished == 1 { "run" } else { "runs" };
    ui.label(muted(ui, format!("{} finished {runs}", comparison.finished)));
    if comparison.unfinished > 0 {
        let colour = palette(ui.visuals()).warning;
        let runs = if comparison.unfinished == 1 { "run" } else { "runs" };
        let text = format!("{} unfinished {runs} excluded", comparison.unfinished);
        ui.colored_label(colour, text).on_hover_text("Marks and notes list them with their reasons");
    }
    if let Some(full) = &picture.full_runs {
        let count = asked_cells(full).len();
        let text = format!("Plan full runs of {count} quick {}", if count == 1 { "cell" } else { "cells" });
        let help = "Quick runs tell no accuracy and no losses of epochs. Opens a plan of full runs of these cells.";
        if ui.button(text).on_hover_text(help).clicked() {
            commands.push(Command::Compare(CompareCommand::PlanFullRuns));
        }
    }
    if picture.waiting > 0 {
        ui.label(muted(ui, format!("{} still to run", picture.waiting)));
    }
    if picture.pending > 0 {
        let text = format!("computing the measures of {} runs", picture.pending);
        ui.label(muted(ui, text));
    }
    if state.compare.is_updating() {
        ui.label(muted(ui, "updating …"));
    }
}

/// Draws the notes and how to copy the table, from the right.
fn notes_ui(ui: &mut Ui, picture: &Picture, commands: &mut Vec<Command>) {
    ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
        for (name, format) in [("LaTeX", Format::Latex), ("CSV", Format::Csv), ("Markdown", Format::Markdown)] {
            let button = ui.button(name).on_hover_text(format!("Copy the table as {name}"));
            button.widget_info(|| named(&format!("Copy as {name}")));
            if button.clicked() {
                commands.push(Command::Compare(CompareCommand::Copy(format)));
            }
        }
        let command = ui.button("Command").on_hover_text("Copy the command that prints this table");
        command.widget_info(|| named("Copy as command"));
        if command.clicked() {
            commands.push(Command::CopyCommand);
        }
        ui.label(muted(ui, "Copy as"));
        let notes = &picture.comparison.table.notes;
        ui.menu_button(format!("Notes ({})", notes.len()), |ui| {
            ui.set_max_width(520.0);
            for note in notes {
                ui.label(format!("• {note}"));
            }
        });
    });
}
