//! The status line above the table: included and excluded runs, notes, and copying.

use eframe::egui::{Align, Button, Layout, Role, Ui, WidgetInfo};

use super::CompareCommand;
use super::picture::Picture;
use super::table::shown_columns;
use crate::analysis::counted;
use crate::app::cell_table::copy_ui;
use crate::app::columns::{self, Listed};
use crate::app::command::{Command, edit};
use crate::app::deliberate;
use crate::app::desk::export::data_menu_ui;
use crate::app::screens::compare::View;
use crate::app::theme::{DISABLED_TEXT, GRID, palette};
use crate::app::widgets::{check_ui, muted, notes_menu_ui, strong};
use crate::app::words::runs_text;
use crate::figure::{duration_text, filter_of};

/// Below this width, notes and copying have their own line.
const ONE_LINE: f32 = 820.0;

/// Widths of the buttons that plan full runs, queue more repeats, and queue cells without a value.
const BUTTONS: [f32; 3] = [240.0, 290.0, 240.0];
/// How much wider the button for more repeats is if it also repeats unfinished runs.
const UNFINISHED: f32 = 260.0;

/// Draws the status line.
pub fn status_ui(ui: &mut Ui, view: View<'_>, picture: &Picture, commands: &mut Vec<Command>) {
    let repeats = picture.more_repeats.as_ref();
    let is_longer = repeats.is_some_and(|step| step.repeated > 0);
    let buttons = [picture.full_runs.is_some(), repeats.is_some(), picture.lacking.is_some()];
    let for_buttons: f32 = buttons.iter().zip(BUTTONS).filter(|(is_there, _)| **is_there).map(|(_, width)| width).sum();
    let for_unfinished = if is_longer { UNFINISHED } else { 0.0 };
    let is_narrow = ui.available_width() < ONE_LINE + for_buttons + for_unfinished;
    ui.horizontal(|ui| {
        counts_ui(ui, view, picture, is_narrow);
        if !is_narrow {
            next_ui(ui, view, picture, commands);
        }
        notes_ui(ui, view, picture, commands);
    });
    // In a narrow window, the next actions and the waiting runs have a line of their own.
    if is_narrow && (buttons.contains(&true) || picture.waiting > 0 || picture.pending > 0) {
        ui.horizontal_wrapped(|ui| next_ui(ui, view, picture, commands));
    }
    ui.add_space(GRID);
}

/// Draws which runs are included and which are excluded, in few words if there is little room.
fn counts_ui(ui: &mut Ui, view: View<'_>, picture: &Picture, is_narrow: bool) {
    let comparison = &picture.comparison;
    let (shown, all) = (comparison.cells.len(), comparison.all_cells);
    let cells = if shown == all { counted(all, "cell") } else { format!("{shown} of {}", counted(all, "cell")) };
    ui.label(strong(cells));
    let finished = counted(comparison.finished, "finished run");
    let text = if is_narrow { runs_text(comparison.finished) } else { finished.clone() };
    ui.label(muted(ui, text)).on_hover_text(finished);
    if comparison.unfinished > 0 {
        let colour = palette(ui.visuals()).warning;
        let whole = format!("{} excluded", counted(comparison.unfinished, "unfinished run"));
        let text = if is_narrow { format!("{} excluded", comparison.unfinished) } else { whole.clone() };
        let help = format!("{whole}. Marks and notes list these runs with the reasons");
        ui.colored_label(colour, text).on_hover_text(help);
    }
    if view.own.is_updating() {
        ui.label(muted(ui, "updating …"));
    }
}

/// Draws the next actions and the waiting runs.
fn next_ui(ui: &mut Ui, view: View<'_>, picture: &Picture, commands: &mut Vec<Command>) {
    if let Some((_, cells)) = &picture.full_runs {
        let text = format!("Plan full runs of {}", counted(cells, "quick cell"));
        let help = "Quick runs give no accuracy and no losses of epochs. Opens a plan with full runs of these cells.";
        if ui.button(text).on_hover_text(help).clicked() {
            commands.push(Command::from(CompareCommand::PlanFullRuns));
        }
    }
    next_step_ui(ui, view, picture, commands);
    if picture.waiting > 0 {
        ui.label(muted(ui, waiting_text(picture.waiting, view.own.study.shows_all())));
    }
    if picture.pending > 0 {
        let text = format!("computing the measures of {}", runs_text(picture.pending));
        ui.label(muted(ui, text));
    }
}

/// Says how many runs have not ended. They are those of all cells, also of cells that the filter hides.
fn waiting_text(waiting: usize, shows_all: bool) -> String {
    format!("{waiting} still to run{}", if shows_all { "" } else { ", of all cells" })
}

/// Draws the suggested runs: more repeats, and cells without a value. While runs are waiting, nothing is suggested.
fn next_step_ui(ui: &mut Ui, view: View<'_>, picture: &Picture, commands: &mut Vec<Command>) {
    if picture.waiting > 0 || picture.pending > 0 {
        return;
    }
    let mut button = |ui: &mut Ui, text: String, help: &str, command: CompareCommand| {
        // What is missing is worth reading where it cannot be queued, too.
        let usual = std::mem::replace(&mut ui.visuals_mut().disabled_alpha, DISABLED_TEXT);
        let button = ui.add_enabled(view.locked().is_none(), Button::new(text)).on_hover_text(help);
        ui.visuals_mut().disabled_alpha = usual;
        let button = button.on_disabled_hover_text(view.locked().unwrap_or_default());
        if deliberate::clicked(&button, help) {
            commands.push(Command::from(command));
        }
    };
    if let Some(step) = &picture.more_repeats {
        let time = if step.duration_s > 0.0 { format!(" ({})", duration_text(step.duration_s)) } else { String::new() };
        let text = step.repeats_text() + &time;
        let help = "Queues more repeats of the undecided cells and of the baseline. Their number follows from the spread of the existing \
             repeats. Repeats of these cells that did not finish run again, too.";
        button(ui, text, help, CompareCommand::QueueRepeats);
    }
    if let Some(step) = &picture.lacking {
        let text = format!("Queue {} without a value", counted(step.count, "cell"));
        button(
            ui,
            text,
            "No run of these cells has finished: queues their repeats again",
            CompareCommand::QueueLacking,
        );
    }
}

/// Draws the notes and the copy menu, from the right.
fn notes_ui(ui: &mut Ui, view: View<'_>, picture: &Picture, commands: &mut Vec<Command>) {
    ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
        copy_ui(ui, |format| CompareCommand::Copy(format).into(), CompareCommand::SaveTable.into(), commands);
        let hidden = hidden_note(view, picture);
        notes_menu_ui(ui, "Notes", &picture.notes.iter().chain(&hidden).collect::<Vec<_>>());
        columns_ui(ui, view, picture, commands);
        let others = view.sources().len() > 1;
        data_menu_ui(ui, view.desk, &filter_of(&view.own.study), others, commands);
    });
}

/// The note that names the columns that are hidden because they hold no values.
fn hidden_note(view: View<'_>, picture: &Picture) -> Option<String> {
    let shown = shown_columns(picture, &view.settings);
    let hidden = picture.empty_columns().into_iter().filter(|column| !shown.contains(column));
    let places: Vec<usize> = hidden.filter_map(|column| picture.texts.value(column)).collect();
    picture.comparison.table.note_without_values(&places)
}

/// Draws the menu of the table's columns, in which measures that the table lacks can be added.
fn columns_ui(ui: &mut Ui, view: View<'_>, picture: &Picture, commands: &mut Vec<Command>) {
    let comparison = &picture.comparison;
    let named = picture.texts.named(&comparison.table);
    let columns: Vec<&str> = comparison.table.columns.iter().map(|column| &*column.key).collect();
    let own = &view.own.study.measures;
    let mut added = None;
    let (now, empty) = (view.settings.columns_of(Listed::Compare), picture.empty_columns());
    let asked = columns::columns_ui(ui, "Table columns", &now, &named, &empty, |ui| {
        if comparison.table.columns.iter().all(|column| !column.is_measure) {
            return;
        }
        ui.separator();
        ui.label(muted(ui, "More measures"));
        for (key, name) in &comparison.measures {
            let mut is_added = own.contains(key);
            if !is_added && columns.contains(&&**key) {
                continue;
            }
            let check = check_ui(ui, &mut is_added, name.clone());
            check.widget_info(|| WidgetInfo::selected(Role::CheckBox, true, is_added, format!("Measure {name}")));
            if check.changed() {
                added = Some((key.clone(), is_added));
            }
        }
    });
    commands.extend(asked.map(|columns| Command::Columns(Listed::Compare, columns)));
    if let Some((key, add)) = added {
        if add {
            // What the user adds is shown, whether it has values or not.
            let mut chosen = now;
            chosen.show(&key, true, true);
            commands.push(Command::Columns(Listed::Compare, chosen));
        }
        let columns = comparison.table.columns.iter().filter(|column| column.is_measure);
        edit::<CompareCommand>(commands, &view.own.study, None, |study| {
            if study.measures.is_empty() {
                study.measures = columns.map(|column| column.key.clone()).collect();
            }
            study.measures.retain(|known| *known != key);
            study.measures.extend(add.then_some(key));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_have_not_ended_are_said_to_be_those_of_all_cells_under_a_filter() {
        assert_eq!(waiting_text(6, true), "6 still to run");
        assert_eq!(waiting_text(6, false), "6 still to run, of all cells");
    }
}
