//! Where the parts of the screen are: the side, the charts and the table below them.

use eframe::egui::{CentralPanel, Frame, Id, Margin, Panel, Ui};

use super::picture::Picture;
use super::{CompareCommand, View, charts, claims, controls, empty, paper, status, table, to_history};
use crate::app::command::Command;
use crate::app::theme::palette;
use crate::app::widgets::strong;
use crate::figure::{Comparison, capitalised};

/// Least height of the charts above the table.
const LEAST_CHARTS: f32 = 200.0;

/// The table's share of the height, unless the user moved the boundary: usually [`TABLE`]. If charts and table together
/// are lower than [`LOW`], it is [`LOW_TABLE`], so that more than a few rows can be seen.
const TABLE: f32 = 0.42;
const LOW_TABLE: f32 = 0.58;
const LOW: f32 = 560.0;

/// Draws the Compare screen.
pub(super) fn compare_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    let Some(picture) = view.own.picture.as_ref().filter(|picture| picture.comparison.known_cells > 0) else {
        empty::empty_ui(ui, view, commands);
        return;
    };
    let side = Frame::new().inner_margin(Margin { right: 12, ..Margin::ZERO });
    Panel::left("compare-side").frame(side).resizable(false).exact_size(216.0).show_separator_line(false).show(
        ui,
        |ui| {
            ui.take_available_width();
            controls::side_ui(ui, view, picture, commands);
        },
    );
    controls::top_ui(ui, view, picture, commands);
    if view.own.claims {
        return claims::claims_ui(ui, picture, commands);
    }
    paper::paper_ui(ui, view, picture, commands);
    warnings_ui(ui, picture);
    to_history::to_history_ui(ui, picture, commands);
    table_panel_ui(ui, view, picture, commands);
    let charts = Frame::new().inner_margin(Margin { top: 4, bottom: 4, ..Margin::ZERO });
    CentralPanel::default().frame(charts).show(ui, |ui| charts::charts_ui(ui, view.own, picture, commands));
}

/// Draws the table with its status line below the charts. The user can move the boundary between them, and it stays
/// there.
fn table_panel_ui(ui: &mut Ui, view: View<'_>, picture: &Picture, commands: &mut Vec<Command>) {
    let below = Frame::new().inner_margin(Margin { top: 8, ..Margin::ZERO });
    let height = ui.available_height();
    let usual = if height < LOW { LOW_TABLE } else { TABLE };
    let share = view.settings.compare_table.filter(|share| (0.0..1.0).contains(share)).unwrap_or(usual);
    let panel = Panel::bottom("compare-table")
        .frame(below)
        .resizable(true)
        .default_size((height * share).round())
        // A size that was chosen in a larger window must leave room for the charts.
        .size_range(96.0..=(height - LEAST_CHARTS).max(97.0));
    let shown = panel.show(ui, |ui| {
        // Without this, a short table would shrink the panel, also for the next table.
        ui.take_available_height();
        status::status_ui(ui, view, picture, commands);
        table::table_ui(ui, view, picture, commands);
    });
    if ui.input(|input| input.pointer.any_down()) {
        return;
    }
    let (id, now) = (Id::unique("height of the table of Compare"), shown.response.rect.height());
    let before = ui.data(|data| data.get_temp::<f32>(id));
    let is_moved = before.is_some_and(|before| (before - now).abs() > 1.0);
    if is_moved && ui.input(|input| input.pointer.any_released()) {
        commands.push(Command::from(CompareCommand::TableShare(now / height.max(1.0))));
    }
    ui.data_mut(|data| data.insert_temp(id, now));
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
