//! The header above the list: progress of the queue, result of a launch, filter, state chips and actions on all runs.

use eframe::egui::{Align, Button, Layout, ProgressBar, RichText, Role, Stroke, Ui, WidgetInfo};
use strum::VariantArray;

use super::{RunsCommand, filter_id, list};
use crate::app::command::Command;
use crate::app::desk::export::data_menu_ui;
use crate::app::screens::runs::View;
use crate::app::theme::palette;
use crate::app::widgets::{filter_error_ui, filter_field, muted, named, strong};
use crate::app::words::runs_text;
use crate::figure::duration_text;
use crate::plan::RunState;
use crate::plan::filter::{holds, toggled};

/// Draws the header.
pub fn header_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    ui.horizontal(|ui| {
        ui.heading("Runs");
        progress_ui(ui, view);
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| all_ui(ui, view, commands));
    });
    launched_ui(ui, view, commands);
    cancelled_ui(ui, view, commands);
    cancel_all_ui(ui, view, commands);
    if view.runs.rows.is_empty() {
        return;
    }
    ui.horizontal_wrapped(|ui| {
        filter_ui(ui, view, commands);
        chips_ui(ui, view, commands);
        list::choose_ui(ui, view, commands);
        data_menu_ui(ui, view.desk, &view.own.filter_text, false, commands);
    });
    filter_error_ui(ui, &view.own.filter_text);
}

fn progress_ui(ui: &mut Ui, view: View<'_>) {
    let queue = &view.queue;
    if !queue.is_active() {
        return;
    }
    let share = queue.ended as f32 / queue.queued.max(1) as f32;
    let palette = palette(ui.visuals());
    if queue.queued > 1 {
        ui.add(ProgressBar::new(share).desired_width(120.0).desired_height(8.0).fill(palette.accent));
    }
    let eta =
        if queue.remaining_s > 0.0 { format!(" · {} left", duration_text(queue.remaining_s)) } else { String::new() };
    let paused = if queue.paused { " · paused" } else { "" };
    let waits = if queue.is_measuring() { " · queued ones wait until rates are measured (Node)" } else { "" };
    let text = format!("{} of {} ended{eta}{paused}{waits}", queue.ended, queue.queued);
    ui.label(muted(ui, text)).on_hover_text("The plan's estimate, corrected by the runs so far");
}

fn all_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let mut button = |ui: &mut Ui, enabled: bool, text: String, hover: &str, command: Command| {
        let why_not = view.locked();
        let response = ui.add_enabled(enabled && why_not.is_none(), Button::new(text)).on_hover_text(hover);
        if response.on_disabled_hover_text(why_not.unwrap_or("No run to apply this to")).clicked() {
            commands.push(command);
        }
    };
    let (active, paused) = (view.queue.is_active(), view.queue.paused);
    let failed = view.runs.failed.len();
    if failed > 0 {
        let hover = "Queues failed, timed-out and interrupted runs again, each as a new run";
        button(ui, true, format!("Retry {failed} failed"), hover, RunsCommand::RetryFailed.into());
    }
    button(ui, active, "Cancel all …".to_owned(), "Stops all runs; asks first", RunsCommand::CancelAll.into());
    let (text, hover) = if paused {
        ("▶ Resume", "Starts queued runs again (Ctrl P)")
    } else {
        ("⏸ Pause", "Starts no further runs; active runs continue (Ctrl P)")
    };
    button(ui, active || paused, text.to_owned(), hover, Command::Pause(!paused));
}

fn launched_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let Some(launched) = view.own.launched else { return };
    let mut parts = vec![format!("{} queued", runs_text(launched.queued))];
    if launched.kept > 0 {
        parts.push(format!("{} kept", launched.kept));
    }
    match launched.invalid {
        0 => {}
        1 => parts.push("1 cell cannot run here".to_owned()),
        invalid => parts.push(format!("{invalid} cells cannot run here")),
    }
    ui.horizontal(|ui| {
        let palette = palette(ui.visuals());
        ui.colored_label(palette.good, "✓");
        ui.label(parts.join(", "));
        if ui.small_button("×").on_hover_text("Dismiss").clicked() {
            commands.push(Command::from(RunsCommand::DismissLaunched));
        }
    });
}

fn cancelled_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let Some((run, was_queued)) = &view.own.cancelled else { return };
    let Some(row) = view.runs.row(run) else { return };
    let (number, levels) = (&row.number, row.cells.join(", "));
    let which = if levels.is_empty() { String::new() } else { format!(" ({levels})") };
    ui.horizontal(|ui| {
        if *was_queued {
            ui.label(format!("Run {number}{which} was taken out of the queue."));
            if ui.small_button("Undo").on_hover_text("Queues it again, at the end").clicked() {
                commands.push(Command::from(RunsCommand::UndoCancel));
            }
        } else {
            ui.label(format!("Run {number}{which} was cancelled."));
        }
        let close = ui.small_button("×").on_hover_text("Dismiss");
        close.widget_info(|| named("Dismiss what was cancelled"));
        if close.clicked() {
            commands.push(Command::from(RunsCommand::DismissCancelled));
        }
    });
}

fn cancel_all_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    if !view.own.asking_cancel_all {
        return;
    }
    let active = view.queue.rows.iter().filter(|row| !row.state.is_final()).count();
    ui.horizontal(|ui| {
        let palette = palette(ui.visuals());
        ui.colored_label(palette.warning, "⚠");
        ui.label(strong(format!("Cancel {}?", runs_text(active))));
        for (text, yes) in [("Yes, cancel", true), ("No", false)] {
            if ui.button(text).clicked() {
                commands.push(Command::from(RunsCommand::AnswerCancelAll(yes)));
            }
        }
    });
}

fn filter_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let text = &view.own.filter_text;
    let hint = "Filter: state=failed precision=fp16 …";
    if let Some(text) = filter_field(ui, filter_id(), "Filter runs", hint, text, 250.0) {
        commands.push(Command::from(RunsCommand::Filter(text)));
    }
    if !view.own.filter_text.is_empty() {
        let (shown, all) = (view.own.shown.len(), view.runs.rows.len());
        ui.label(muted(ui, format!("{shown} of {all}")));
        if ui.small_button("Clear filter").clicked() {
            commands.push(Command::from(RunsCommand::Filter(String::new())));
        }
    }
}

fn chips_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    for (run_state, &count) in RunState::VARIANTS.iter().copied().zip(&view.runs.counts) {
        let pair = format!("state={}", run_state.name().replace(' ', "-"));
        let on = holds(&view.own.filter_text, &pair);
        if count == 0 && !on {
            continue;
        }
        let (symbol, color) = list::sign(ui, run_state);
        let text = RichText::new(format!("{symbol} {count} {}", run_state.name())).color(color);
        let mut chip = Button::new(text).corner_radius(12).selected(false);
        if on {
            chip = chip.stroke(Stroke::new(1.5, color));
        }
        let response = ui.add(chip).on_hover_text("Show only these; click again to show all");
        response.widget_info(|| WidgetInfo::selected(Role::CheckBox, true, on, format!("Only {}", run_state.name())));
        if response.clicked() {
            commands.push(Command::from(RunsCommand::Filter(toggled(&view.own.filter_text, &pair))));
        }
    }
}
