//! The preview of the figure as it will be on paper, and its table.

use eframe::egui::{
    Align, Color32, Image, Layout, Rect, Role, ScrollArea, Sense, Stroke, StrokeKind, TextEdit, TextStyle, Ui, Vec2,
    WidgetInfo,
};

use super::drawn::Drawn;
use super::{FiguresCommand, FiguresScreen};
use crate::app::command::{Command, ScreenName};
use crate::app::screens::figures::View;
use crate::app::theme::{GRID, palette};
use crate::app::widgets::{main_button, muted, named, strong};
use crate::figure::Format;
use crate::figure::paper::{PT_PER_MM, Scene};

/// Greatest scale: points of the screen per point of paper.
const LARGEST: f32 = 3.0;

/// Draws the preview.
pub fn preview_ui(ui: &mut Ui, figures: &FiguresScreen, commands: &mut Vec<Command>) {
    let drawn = match &figures.drawn {
        None => {
            ui.centered_and_justified(|ui| ui.label(muted(ui, "Setting the figure …")));
            return;
        }
        Some(Err(message)) => {
            let colour = palette(ui.visuals()).bad;
            ui.colored_label(colour, format!("⚠ {message}"));
            return;
        }
        Some(Ok(drawn)) => drawn,
    };
    ui.horizontal(|ui| {
        ui.label(strong(&drawn.figure.title));
        ui.label(muted(ui, measures(&drawn.scene)));
        let (shown, all) = (drawn.figure.cells.len(), drawn.figure.all_cells);
        let cells = if shown == all { format!("{all} cells") } else { format!("{shown} of {all} cells") };
        ui.label(muted(ui, cells));
        if figures.stale || figures.work.is_some() {
            ui.label(muted(ui, "updating …"));
        }
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let notes = drawn.figure.notes();
            ui.menu_button(format!("Notes ({})", notes.len()), |ui| {
                ui.set_max_width(520.0);
                notes.iter().for_each(|note| drop(ui.label(format!("• {note}"))));
            });
        });
    });
    ui.add_space(GRID);
    if drawn.is_empty() {
        nothing_ui(ui, drawn);
        return;
    }
    let Some(texture) = &figures.texture else { return };
    let room = ui.available_size() - Vec2::splat(24.0);
    let paper = Vec2::new(drawn.scene.width as f32, drawn.scene.height as f32);
    let scale = (room.x / paper.x).min(room.y / paper.y).clamp(0.2, LARGEST);
    // In quarters, so that resizing does not redraw the figure at each pixel.
    let resolution = f64::from((scale * ui.ctx().pixels_per_point() * 4.0).ceil() / 4.0);
    if (resolution - figures.resolution).abs() > 1e-9 {
        commands.push(Command::from(FiguresCommand::Resolution(resolution)));
    }
    let size = paper * scale;
    let (place, _) = ui.allocate_exact_size(ui.available_size(), Sense::hover());
    let sheet = Rect::from_center_size(place.center(), size + Vec2::splat(4.0 * GRID));
    let line = Stroke::new(1.0, palette(ui.visuals()).line);
    ui.painter().rect(sheet, 0.0, Color32::WHITE, line, StrokeKind::Outside);
    let picture = Image::new((texture.id(), size)).sense(Sense::hover());
    let picture = ui.put(Rect::from_center_size(place.center(), size), picture);
    picture.widget_info(|| WidgetInfo::labeled(Role::Image, true, format!("Figure: {}", drawn.figure.title)));
}

/// Size on paper.
fn measures(scene: &Scene) -> String {
    format!("{:.0} × {:.0} mm", scene.width / PT_PER_MM, scene.height / PT_PER_MM)
}

/// Draws why the figure is empty.
fn nothing_ui(ui: &mut Ui, drawn: &Drawn) {
    ui.vertical_centered(|ui| {
        ui.add_space((ui.available_height() / 3.0 - 20.0).max(8.0));
        ui.heading("Nothing to draw");
        let of_charts = drawn.figure.charts.iter().flat_map(|chart| &chart.notes);
        for note in of_charts {
            ui.label(muted(ui, note));
        }
        if drawn.figure.cells.is_empty() {
            let reason = match drawn.figure.all_cells {
                0 => "No run suits this study; metrics of traced runs are in the presets of metrics.",
                _ => "No cell matches the filter.",
            };
            ui.label(muted(ui, reason));
        }
    });
}

/// Draws the table in the chosen format.
pub fn table_ui(ui: &mut Ui, figures: &FiguresScreen, commands: &mut Vec<Command>) {
    ui.horizontal(|ui| {
        ui.label(strong("Table"));
        for (name, format) in [("Markdown", Format::Markdown), ("CSV", Format::Csv), ("LaTeX", Format::Latex)] {
            let tab = ui.selectable_label(figures.table == format, name);
            tab.widget_info(|| {
                WidgetInfo::selected(Role::Tab, true, figures.table == format, format!("Table as {name}"))
            });
            if tab.clicked() {
                commands.push(Command::from(FiguresCommand::Table(format)));
            }
        }
        let copy = ui.button("Copy").on_hover_text("Copy the table as it is shown");
        copy.widget_info(|| named("Copy the table"));
        if copy.clicked() {
            commands.push(Command::from(FiguresCommand::Copy));
        }
    });
    ui.add_space(GRID);
    let Some(Ok(drawn)) = &figures.drawn else { return };
    ScrollArea::both().id_salt("figures-table").auto_shrink([false, false]).show(ui, |ui| {
        let mut text = drawn.table(figures.table);
        let edit = TextEdit::multiline(&mut text)
            .font(TextStyle::Monospace)
            .desired_width(f32::INFINITY)
            .frame(eframe::egui::Frame::NONE);
        let field = ui.add(edit);
        field.widget_info(|| {
            let mut info = WidgetInfo::labeled(Role::MultilineTextInput, true, "Table of the figure");
            info.current_text_value = Some(text.to_owned());
            info
        });
    });
}

/// Draws what to do while there is nothing to draw.
pub fn empty_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    ui.vertical_centered(|ui| {
        ui.add_space((ui.available_height() / 3.0 - 40.0).max(8.0));
        if let Some((message, good)) = &view.own.said {
            let palette = palette(ui.visuals());
            ui.colored_label(if *good { palette.good } else { palette.bad }, message);
            ui.add_space(2.0 * GRID);
        }
        ui.heading("No figures yet");
        ui.label(muted(ui, "Figures show finished runs: launch a plan, or open a session that has some."));
        ui.add_space(2.0 * GRID);
        if main_button(ui, true, "Show Plan").clicked() {
            commands.push(Command::Show(ScreenName::PLAN));
        }
    });
}
