//! Stacked bars: one per cell, with its parts from left to right and the sum at its end.

use eframe::egui::{
    Align2, Color32, FontId, Pos2, Rect, Role, ScrollArea, Sense, Stroke, StrokeKind, Ui, WidgetInfo, vec2,
};

use super::picture::Picture;
use super::{CompareCommand, CompareScreen};
use crate::app::command::Command;
use crate::app::look;
use crate::app::theme::{BODY, GRID, SMALL, palette};
use crate::app::value_text;
use crate::figure::{Chart, Point, Series, precise};

const BAR: f32 = 20.0;
const ROW: f32 = 30.0;
const HEAD: f32 = 20.0;
/// Room for the sum to the right of the longest bar.
const NUMBERS: f32 = 84.0;

/// Draws the chart; a click on a part selects its cell.
pub fn stacked_ui(ui: &mut Ui, compare: &CompareScreen, picture: &Picture, chart: &Chart, commands: &mut Vec<Command>) {
    let rows = chart.x.categories.len();
    let text = ui.visuals().text_color();
    let palette = palette(ui.visuals());
    let width_of = |ui: &Ui, name: &str| {
        ui.painter().layout_no_wrap(name.to_owned(), FontId::proportional(BODY), Color32::WHITE).size().x
    };
    let names = chart.x.categories.iter().map(|name| width_of(ui, name)).fold(60.0, f32::max).min(320.0) + 3.0 * GRID;
    let parts = |row: usize| {
        let of = move |series| bar_of(series, row).map(|point| (series, point));
        chart.series().filter_map(of).collect::<Vec<(&Series, &Point)>>()
    };
    let sum = |row: usize| parts(row).iter().map(|(_, point)| point.value.median).sum::<f64>();
    let greatest = (0..rows).map(sum).fold(0.0, f64::max);
    ScrollArea::vertical().id_salt("stacked").auto_shrink([false, false]).show_viewport(ui, |ui, viewport| {
        ui.set_min_size(vec2(ui.available_width(), HEAD + rows as f32 * ROW));
        let origin = ui.max_rect().min;
        let left = origin.x + names;
        let unit =
            if greatest > 0.0 { (ui.max_rect().right() - left - NUMBERS).max(40.0) / greatest as f32 } else { 0.0 };
        let title = Pos2::new(left, origin.y);
        ui.painter().text(title, Align2::LEFT_TOP, chart.y.title(), FontId::proportional(SMALL), palette.muted);
        for (row, name) in chart.x.categories.iter().enumerate() {
            let top = HEAD + row as f32 * ROW;
            if top + ROW < viewport.top() || top > viewport.bottom() {
                continue;
            }
            let top = origin.y + top;
            let middle = top + BAR / 2.0;
            let space = Rect::from_min_max(Pos2::new(origin.x, top), Pos2::new(left - GRID, top + ROW));
            let painter = ui.painter().with_clip_rect(space.intersect(ui.clip_rect()));
            let at = Pos2::new(space.right() - GRID, middle);
            painter.text(at, Align2::RIGHT_CENTER, name, FontId::proportional(BODY), text);
            let mut x = left;
            for (series, point) in parts(row) {
                let bar = Rect::from_min_size(Pos2::new(x, top), vec2(point.value.median as f32 * unit, BAR));
                x = bar.right();
                // Parts narrower than a pixel would only blur their neighbours.
                if bar.width() >= 1.0 {
                    look::paint_bar(ui.painter(), bar, &series.look, ui.visuals().dark_mode);
                    part_ui(ui, compare, chart, (name, series, point), bar, commands);
                }
            }
            let at = Pos2::new(x + 1.5 * GRID, middle);
            let total = format!("{} {}", value_text::number(sum(row)), chart.y.unit);
            ui.painter().text(at, Align2::LEFT_CENTER, total, FontId::proportional(SMALL), text);
            let cell = parts(row).first().and_then(|(_, point)| point.cell.clone());
            if cell.is_some() && compare.selected == cell {
                let whole = Rect::from_min_max(Pos2::new(left, top), Pos2::new(x, top + BAR));
                let stroke = Stroke::new(1.5, palette.accent);
                ui.painter().rect_stroke(whole.expand(1.5), 2.0, stroke, StrokeKind::Outside);
            }
            let story =
                parts(row).first().and_then(|(_, point)| point.cell.as_ref()).and_then(|key| story(picture, key));
            if let Some(story) = story {
                let at = Pos2::new(ui.max_rect().right() - GRID, middle);
                let mark =
                    ui.painter().text(at, Align2::RIGHT_CENTER, "⚠", FontId::proportional(BODY), palette.warning);
                let response = ui.interact(mark, ui.scope_id().with(("mark", row)), Sense::hover());
                response.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("Marks of {name}")));
                response.on_hover_text(story);
            }
        }
    });
}

fn bar_of(series: &Series, row: usize) -> Option<&Point> {
    series.points.iter().find(|point| point.x == row as f64)
}

fn part_ui(
    ui: &mut Ui,
    compare: &CompareScreen,
    chart: &Chart,
    (name, series, point): (&str, &Series, &Point),
    bar: Rect,
    commands: &mut Vec<Command>,
) {
    let chosen = point.cell.is_some() && compare.selected == point.cell;
    let id = ui.scope_id().with((&series.name, point.x as usize));
    let response = ui.interact(bar, id, Sense::click());
    let value = format!("{} {}", value_text::number(point.value.median), chart.y.unit);
    response.widget_info(|| {
        WidgetInfo::selected(Role::Button, true, chosen, format!("Part {name}: {} {value}", series.name))
    });
    if response.clicked() {
        commands.push(Command::from(CompareCommand::Select(point.cell.clone().filter(|_| !chosen))));
    }
    response.on_hover_ui(|ui| {
        ui.set_max_width(360.0);
        ui.strong(name);
        ui.label(format!("{}: {} {}", series.name, precise(point.value.median), chart.y.unit));
        ui.label(value_text::origin(&point.value, 1.0, &chart.y.unit));
        let kind = crate::analysis::TRACE_METRICS.iter().find(|kind| kind.name == series.name);
        if let Some(kind) = kind {
            ui.label(kind.help);
        }
    });
}

/// Caveats about a cell.
fn story(picture: &Picture, key: &crate::analysis::CellKey) -> Option<String> {
    let row = picture.comparison.table.rows.iter().position(|row| row.key() == *key)?;
    let stories = picture.texts.beside.stories.get(row)?;
    let worth = stories.iter().filter(|story| !story.starts_with("traced:"));
    let lines: Vec<&str> = worth.map(String::as_str).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}
