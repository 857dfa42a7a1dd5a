//! The charts of the Compare screen, with their notes.

use eframe::egui::text::LayoutJob;
use eframe::egui::{FontId, Label, Role, Ui, WidgetInfo};

use super::marks::Marks;
use super::picture::Picture;
use super::{CompareCommand, CompareScreen, lines};
use crate::app::canvas::{Asked, Selected};
use crate::app::command::Command;
use crate::app::look;
use crate::app::theme::{BODY, palette};
use crate::app::widgets::{muted, text_width};
use crate::figure::{Chart, Geometry};

/// Notes of charts that are longer than this number of lines share the greatest number of lines; what is cut off is in tooltips.
const MOST_LINES_OF_NOTE: f32 = 2.0;
const MOST_LINES_OF_NOTES: usize = 4;
/// If the space is lower than this, notes have half the number of lines.
const LOW: f32 = 220.0;

/// Draws a text that shares the lines of notes with others; what does not fit is shown by a tooltip.
fn cut_note_ui(ui: &mut Ui, text: &str, sharing: usize) {
    let font = FontId::proportional(BODY);
    let mut job = LayoutJob::simple(text.to_owned(), font, palette(ui.visuals()).muted, ui.available_width());
    let most = if ui.available_height() < LOW { MOST_LINES_OF_NOTES / 2 } else { MOST_LINES_OF_NOTES };
    job.wrap.max_rows = (most / sharing).max(1);
    let galley = ui.painter().layout_job(job);
    let is_cut = galley.elided;
    let response = ui.add(Label::new(galley));
    if is_cut {
        response.widget_info(|| WidgetInfo::labeled(Role::Label, true, text));
        response.on_hover_text(text);
    }
}

/// Draws the charts below their notes and, for plots, below their legend.
pub fn charts_ui(ui: &mut Ui, compare: &CompareScreen, picture: &Picture, commands: &mut Vec<Command>) {
    let charts = &picture.comparison.charts;
    // Charts that can be panned and zoomed are drawn as plots, without the notes that the canvas draws itself.
    let is_plot = charts.iter().all(|chart| chart.geometry == Geometry::Lines);
    if is_plot {
        look::legend_ui(ui, charts);
    }
    let mut notes: Vec<&str> = charts.iter().flat_map(|chart| &chart.notes).map(String::as_str).collect();
    if is_plot {
        let intervals = charts.iter().map(|chart| chart.intervals.as_str()).filter(|text| !text.is_empty());
        notes.extend(intervals);
        notes.extend(charts.iter().flat_map(|chart| &chart.cautions).map(String::as_str));
    }
    notes.dedup();
    // A note with many cells' names would take the room of the charts.
    let (long, short): (Vec<&str>, Vec<&str>) =
        notes.into_iter().partition(|note| text_width(ui, note) > MOST_LINES_OF_NOTE * ui.available_width());
    if !short.is_empty() {
        cut_note_ui(ui, &short.join(" "), 1);
    }
    for note in &long {
        cut_note_ui(ui, note, long.len());
    }
    if charts.iter().all(Chart::is_empty) {
        if charts.iter().all(|chart| chart.notes.is_empty()) {
            ui.label(muted(ui, "No finished run of these cells has these values."));
        }
    } else if is_plot {
        lines::lines_ui(ui, compare, charts, commands);
    } else {
        let selected = Selected { cell: compare.selected.as_ref(), effect: compare.effect.as_deref() };
        let asked = picture.canvas.ui(ui, charts, selected, &Marks(picture));
        commands.extend(asked.map(|asked| match asked {
            Asked::Select(cell) => CompareCommand::Select(cell).into(),
            Asked::Open(cell) => CompareCommand::Open(cell).into(),
            Asked::Effect(effect) => CompareCommand::Effect(effect).into(),
        }));
    }
}
