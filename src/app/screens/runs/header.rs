//! The header above the list: progress of the queue, result of a launch, filter, state chips and actions on all runs.

use eframe::egui::{
    Align, Button, Color32, Label, Layout, ProgressBar, RichText, Role, ScrollArea, Stroke, Ui, Vec2, WidgetInfo,
};
use strum::VariantArray;

use super::{RunsCommand, filter_id, list};
use crate::app::command::Command;
use crate::app::deliberate;
use crate::app::desk::export::data_menu_ui;
use crate::app::screens::runs::View;
use crate::app::theme::palette;
use crate::app::widgets::{filter_field, muted, text_width};
use crate::app::words::left_text;
use crate::plan::RunState;
use crate::plan::filter::{holds, toggled};

/// Width that the texts of the button which pauses and resumes need, in points.
const PAUSE_WIDTH: f32 = 92.0;
/// Width of the line around a chip, in points.
const OUTLINE: f32 = 2.0;

/// Draws the header.
pub fn header_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    ui.horizontal(|ui| {
        ui.heading("Runs");
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            all_ui(ui, view, commands);
            // The progress has the room that the buttons leave: its text changes, and a long one must not push them away.
            ui.with_layout(Layout::left_to_right(Align::Center), |ui| progress_ui(ui, view));
        });
    });
    if view.runs.rows.is_empty() {
        return;
    }
    ui.horizontal(|ui| {
        filter_ui(ui, view, commands);
        list::choose_ui(ui, view, commands);
        data_menu_ui(ui, view.desk, &view.own.filter_text, false, commands);
        // Chips appear and disappear with the states of runs: their line always exists, and nothing after them could move.
        ScrollArea::horizontal().id_salt("chips").show(ui, |ui| ui.horizontal(|ui| chips_ui(ui, view, commands)));
    });
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
    let left = left_text(queue).map_or(String::new(), |left| format!(" · {left} left"));
    let paused = if queue.paused { " · paused" } else { "" };
    let waits = if queue.is_measuring() { " · queued ones wait until rates are measured (Node)" } else { "" };
    let text = format!("{} of {} ended{left}{paused}{waits}", queue.ended, queue.queued);
    ui.add(Label::new(muted(ui, text)).truncate()).on_hover_text(
        "The plan's estimate, corrected by the runs so far; for programs, what runs of the same cells took, or the mean of the runs so far",
    );
}

/// Draws the buttons for all runs, from the right. They keep their places whatever the states of runs are: the button that is not always
/// there is the last one on the left, and the button with two texts has room for both.
fn all_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let mut button = |ui: &mut Ui, enabled: bool, text: String, least_width: f32, hover: &str, command: Command| {
        let why_not = view.locked();
        let what = command.kind();
        let button = Button::new(text).min_size(Vec2::new(least_width, 0.0));
        let response = ui.add_enabled(enabled && why_not.is_none(), button).on_hover_text(hover);
        let response =
            response.on_disabled_hover_text(why_not.unwrap_or("No run is in a state in which this is possible"));
        if deliberate::clicked(&response, what) {
            commands.push(command);
        }
    };
    let (active, paused) = (view.queue.is_active(), view.queue.paused);
    let (text, hover) = if paused {
        ("▶ Resume", "Starts queued runs again (Ctrl P)")
    } else {
        ("⏸ Pause", "Starts no further runs; active runs continue (Ctrl P)")
    };
    button(ui, active || paused, text.to_owned(), PAUSE_WIDTH, hover, Command::Pause(!paused));
    button(ui, active, "Cancel all …".to_owned(), 0.0, "Stops all runs; asks first", RunsCommand::CancelAll.into());
    let failed = view.runs.failed.len();
    if failed > 0 {
        let hover = "Queues failed, timed-out and interrupted runs again, each as a new run";
        button(ui, true, format!("Retry {failed} failed"), 0.0, hover, RunsCommand::RetryFailed.into());
    }
}

fn filter_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let text = &view.own.filter_text;
    let hint = "Filter: state=failed precision=fp16 …";
    let (names, keys, unordered) = (("Filter runs", hint), view.filter_keys(), view.own.unordered.as_ref());
    if let Some(text) = filter_field(ui, filter_id(), names, text, 250.0, &keys, unordered) {
        commands.push(Command::from(RunsCommand::Filter(text)));
    }
    // Both are always drawn, with a fixed width, so that the controls after them keep their places.
    let (shown, all) = (view.own.shown.len(), view.runs.rows.len());
    let widest = format!("{all} of {all}").replace(|letter: char| letter.is_ascii_digit(), "0");
    let room = [text_width(ui, &widest) + 2.0, ui.spacing().interact_size.y];
    ui.add_sized(room, Label::new(muted(ui, format!("{shown} of {all}"))));
    let clear = ui.add_enabled(!text.is_empty(), Button::new("Clear filter").small());
    if clear.on_disabled_hover_text("No filter is set").clicked() {
        commands.push(Command::from(RunsCommand::Filter(String::new())));
    }
}

fn chips_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    // The line takes the room of the padding, so that chips are as high as the buttons beside them.
    ui.spacing_mut().button_padding -= Vec2::splat(OUTLINE);
    for (run_state, &count) in RunState::VARIANTS.iter().copied().zip(&view.runs.counts) {
        let pair = format!("state={}", run_state.name().replace(' ', "-"));
        let on = holds(&view.own.filter_text, &pair);
        if count == 0 && !on {
            continue;
        }
        let (symbol, color) = list::sign(ui, run_state);
        let text = RichText::new(format!("{symbol} {count} {}", run_state.name())).color(color);
        // An invisible outline takes the same room, so that nothing moves.
        let outline = Stroke::new(OUTLINE, if on { color } else { Color32::TRANSPARENT });
        let chip = Button::new(text).corner_radius(12).selected(false).stroke(outline);
        let response = ui.add(chip).on_hover_text("Show only these; click again to show all");
        response.widget_info(|| WidgetInfo::selected(Role::CheckBox, true, on, format!("Only {}", run_state.name())));
        if response.clicked() {
            commands.push(Command::from(RunsCommand::Filter(toggled(&view.own.filter_text, &pair))));
        }
    }
}
