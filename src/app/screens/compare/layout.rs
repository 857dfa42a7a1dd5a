//! Where the parts of the screen are: the side, the charts and the table below them.

use eframe::egui::{CentralPanel, Frame, Id, Margin, Panel, Ui};

use super::picture::Picture;
use super::{CompareCommand, View, charts, claims, controls, empty, paper, side, status, table, to_history};
use crate::app::cell_table::height_of_rows;
use crate::app::command::Command;
use crate::app::theme::palette;
use crate::app::widgets::strong;
use crate::figure::{Comparison, Form, capitalised};

/// The least and the greatest width of the side, and its share of the width between them.
const SIDE: (f32, f32) = (216.0, 320.0);
const SIDE_SHARE: f32 = 0.13;

/// Least height of the charts above the table, and above a table of few rows.
const LEAST_CHARTS: f32 = 200.0;
const CHARTS_ABOVE_FEW_ROWS: f32 = 260.0;
/// A table that needs at most this multiple of its share shows all of its few rows.
const FEW_ROWS: f32 = 1.3;
/// Least height of the table.
const LEAST_TABLE: f32 = 96.0;
/// Space above the table.
const ABOVE_TABLE: i8 = 8;
/// The usual height of the rows above the charts. The boundary is placed by it instead of by their real height, so that it and the buttons
/// below it stay where they are when another form has more of these rows.
const CONTROLS: f32 = 96.0;

/// The largest share of the height that the table takes, unless the user moved the boundary: usually [`TABLE`]. If charts
/// and table together are lower than [`LOW`], it is [`LOW_TABLE`], so that more than a few rows can be seen.
const TABLE: f32 = 0.42;
const LOW_TABLE: f32 = 0.58;
const LOW: f32 = 560.0;

/// Draws the Compare screen.
pub(super) fn compare_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let Some(picture) = view.own.picture.as_ref().filter(|picture| picture.comparison.known_cells > 0) else {
        empty::empty_ui(ui, view, commands);
        return;
    };
    let side_width = (SIDE_SHARE * ui.available_width()).clamp(SIDE.0, SIDE.1).round();
    let side = Frame::new().inner_margin(Margin { right: 12, ..Margin::ZERO });
    Panel::left("compare-side").frame(side).resizable(false).exact_size(side_width).show_separator_line(false).show(
        ui,
        |ui| {
            ui.take_available_width();
            side::side_ui(ui, view, picture, commands);
        },
    );
    let height = ui.available_height() - CONTROLS;
    controls::top_ui(ui, view, picture, commands);
    if view.own.claims {
        return claims::claims_ui(ui, picture, commands);
    }
    paper::paper_ui(ui, view, picture, commands);
    warnings_ui(ui, picture);
    to_history::to_history_ui(ui, picture, commands);
    table_panel_ui(ui, view, picture, height, commands);
    let charts = Frame::new().inner_margin(Margin { top: 4, bottom: 4, ..Margin::ZERO });
    CentralPanel::default().frame(charts).show(ui, |ui| charts::charts_ui(ui, view.own, picture, commands));
}

/// The height of the table with its status line. `height`: that of charts and table together; `share`: where the user moved
/// the boundary; `needed`: what shows all rows.
fn table_height(height: f32, share: Option<f32>, needed: f32) -> f32 {
    let usual = height * if height < LOW { LOW_TABLE } else { TABLE };
    let wanted = match share.filter(|share| (0.0..1.0).contains(share)) {
        Some(share) => height * share,
        None if needed <= FEW_ROWS * usual => needed.min(height - CHARTS_ABOVE_FEW_ROWS),
        None => usual,
    };
    wanted.round().clamp(LEAST_TABLE, (height - LEAST_CHARTS).max(LEAST_TABLE + 1.0))
}

/// The height of the table with its status line that shows a row for each cell, or for each epoch of a cell. It is the same for all forms,
/// also for those whose tables have other rows.
fn needed_height(ui: &Ui, view: View<'_>, picture: &Picture) -> f32 {
    let spacing = ui.spacing();
    let status = 2.0 * (spacing.interact_size.y + spacing.item_spacing.y);
    let (study, comparison) = (&view.own.study, &picture.comparison);
    let rows = match study.form {
        // It shows recorded cells, which the other forms leave out.
        Form::Metrics => comparison.known_cells.saturating_sub(comparison.traced),
        _ if study.by_epoch => view.own.order.len(),
        _ => comparison.cells.len(),
    };
    f32::from(ABOVE_TABLE) + status + height_of_rows(rows)
}

/// Draws the table with its status line below the charts. The user can move the boundary between them, and it stays
/// there. `height`: that of charts and table together, if the rows above them have their usual height.
fn table_panel_ui(ui: &mut Ui, view: View<'_>, picture: &Picture, height: f32, commands: &mut Vec<Command>) {
    let below = Frame::new().inner_margin(Margin { top: ABOVE_TABLE, ..Margin::ZERO });
    let id = Id::unique("height of the table of Compare");
    let most = (ui.available_height().min(height) - LEAST_CHARTS).max(LEAST_TABLE + 1.0);
    let wanted = table_height(height, view.settings.compare_table, needed_height(ui, view, picture)).min(most);
    let before = ui.data(|data| data.get_temp::<(f32, f32)>(id));
    let is_new = before.is_none_or(|(known, _)| (known - wanted).abs() > 0.5);
    // The panel keeps its size, in which the user may move it, until another one is wanted.
    let range = if is_new { wanted..=wanted } else { LEAST_TABLE..=most };
    let panel = Panel::bottom("compare-table").frame(below).resizable(true).default_size(wanted).size_range(range);
    let shown = panel.show(ui, |ui| {
        // Without this, a short table would shrink the panel, also for the next table.
        ui.take_available_height();
        status::status_ui(ui, view, picture, commands);
        table::table_ui(ui, view, picture, commands);
    });
    if ui.input(|input| input.pointer.any_down()) {
        return;
    }
    let now = shown.response.rect.height();
    let is_moved = !is_new && before.is_some_and(|(_, before)| (before - now).abs() > 1.0);
    if is_moved && ui.input(|input| input.pointer.any_released()) {
        commands.push(Command::from(CompareCommand::TableShare(now / height.max(1.0))));
    }
    ui.data_mut(|data| data.insert_temp(id, (wanted, now)));
}

/// Draws the fastest cell within the limits, and warnings about missing items of the study and about its baseline.
fn warnings_ui(ui: &mut Ui, picture: &Picture) {
    let Comparison { missing, baseline_warning, fastest, .. } = &picture.comparison;
    if let Some(fastest) = fastest {
        ui.label(strong(capitalised(fastest)));
    }
    for line in missing.iter().chain(baseline_warning) {
        ui.colored_label(palette(ui.visuals()).warning, format!("⚠ {line}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_few_rows_takes_their_height_and_a_long_one_its_share() {
        assert_eq!(table_height(1000.0, None, 250.0), 250.0);
        assert_eq!(table_height(1000.0, None, 500.0), 500.0);
        assert_eq!(table_height(1000.0, None, 2000.0), 420.0);
        assert_eq!(table_height(500.0, None, 2000.0), 290.0);
        // The charts above few rows keep more.
        assert_eq!(table_height(500.0, None, 280.0), 240.0);
        assert_eq!(table_height(1000.0, Some(0.3), 2000.0), 300.0);
        assert_eq!(table_height(1000.0, Some(7.0), f32::INFINITY), 420.0, "no share");
        assert_eq!(table_height(50.0, None, 2000.0), 96.0, "hardly any room");
    }
}
