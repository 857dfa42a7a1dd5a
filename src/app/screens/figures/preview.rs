//! The preview of the figure as it will be on paper, and its table.

use eframe::egui::{Align, Color32, Image, Layout, Rect, Role, Sense, Stroke, StrokeKind, Ui, Vec2, WidgetInfo};

use super::drawn::Tabled;
use super::pointing::{Sheet, parts_ui};
use super::{FiguresCommand, FiguresScreen};
use crate::analysis::counted;
use crate::app::cell_table::{Asked, CellTable, copy_ui};
use crate::app::command::{Command, ScreenName};
use crate::app::screens::figures::View;
use crate::app::theme::{GRID, palette};
use crate::app::widgets::{cut_to, main_button, muted, notes_menu_ui, strong, text_width};
use crate::figure::Figure;
use crate::figure::paper::{PT_PER_MM, Scene};

/// Width that a long title leaves for the button that shows the notes, with the space around it.
const NOTES_WIDTH: f32 = 140.0;

/// Greatest scale: points of the screen per point of paper.
const LARGEST: f32 = 3.0;

/// Draws the preview.
pub fn preview_ui(ui: &mut Ui, figures: &FiguresScreen, commands: &mut Vec<Command>) {
    let page = match figures.page() {
        None => {
            ui.centered_and_justified(|ui| ui.label(muted(ui, "Setting the figure …")));
            return;
        }
        Some(Err(message)) => {
            let colour = palette(ui.visuals()).bad;
            ui.colored_label(colour, format!("⚠ {message}"));
            return;
        }
        Some(Ok(page)) => page,
    };
    // Parts of panels are edited in their own figures, and the warnings of the composed figure are those of its panels.
    let figure = figures.figure().filter(|_| page.composed.is_none());
    ui.horizontal(|ui| {
        let cells = figure.map(|figure| {
            let (shown, all) = (figure.cells.len(), figure.all_cells);
            if shown == all { counted(all, "cell") } else { format!("{shown} of {}", counted(all, "cell")) }
        });
        let updating = (figures.stale || figures.work.is_some()).then(|| "updating …".to_owned());
        let facts: Vec<String> = [Some(measures(&page.scene)), cells, updating].into_iter().flatten().collect();
        let taken: f32 = facts.iter().map(|fact| text_width(ui, fact) + ui.spacing().item_spacing.x).sum();
        let title = cut_to(ui, &page.title, ui.available_width() - taken - NOTES_WIDTH);
        ui.label(strong(title)).on_hover_text(&page.title);
        for fact in facts {
            ui.label(muted(ui, fact));
        }
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            notes_menu_ui(ui, "Notes", &page.notes.iter().collect::<Vec<_>>());
        });
    });
    for warning in &page.warnings {
        ui.colored_label(palette(ui.visuals()).bad, format!("⚠ {warning}"));
    }
    for line in figure.iter().flat_map(|figure| &figure.missing) {
        ui.colored_label(palette(ui.visuals()).warning, format!("⚠ {line}"));
    }
    ui.add_space(GRID);
    if let Some(figure) = figure.filter(|_| page.is_empty) {
        nothing_ui(ui, figure);
        return;
    }
    let Some(texture) = &figures.texture else { return };
    let room = ui.available_size() - Vec2::splat(24.0);
    let paper = Vec2::new(page.scene.width as f32, page.scene.height as f32);
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
    picture.widget_info(|| WidgetInfo::labeled(Role::Image, true, format!("Figure: {}", page.title)));
    if let Some(figure) = figure {
        let sheet = Sheet { corner: picture.rect.min, scale };
        parts_ui(ui, figures, (figure, &page.scene), sheet, commands);
    }
}

/// Size on paper.
fn measures(scene: &Scene) -> String {
    format!("{:.0} × {:.0} mm", scene.width / PT_PER_MM, scene.height / PT_PER_MM)
}

/// Draws why the figure is empty.
fn nothing_ui(ui: &mut Ui, figure: &Figure) {
    ui.vertical_centered(|ui| {
        ui.add_space((ui.available_height() / 3.0 - 20.0).max(8.0));
        ui.heading("Nothing to draw");
        for note in figure.charts.iter().flat_map(|chart| &chart.notes) {
            ui.label(muted(ui, note));
        }
        if figure.cells.is_empty() {
            let reason = match figure.all_cells {
                0 => "No run suits this study; metrics of traced runs are in the presets of metrics.",
                _ => "No cell matches the filter.",
            };
            ui.label(muted(ui, reason));
        }
    });
}

/// Draws the table below the preview.
pub fn table_ui(ui: &mut Ui, figures: &FiguresScreen, commands: &mut Vec<Command>) {
    ui.horizontal(|ui| {
        ui.label(strong("Table"));
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            copy_ui(ui, |format| FiguresCommand::Copy(format).into(), FiguresCommand::SaveTable.into(), commands);
        });
    });
    ui.add_space(GRID);
    let Some(drawn) = &figures.drawn else { return };
    let Tabled { figure, texts } = match &drawn.figure {
        Ok(tabled) => tabled,
        Err(message) => {
            // Without a page, the preview says so.
            if drawn.page.is_ok() {
                ui.colored_label(palette(ui.visuals()).bad, format!("⚠ {message}"));
            }
            return;
        }
    };
    if figures.order.is_empty() {
        return;
    }
    let table = CellTable {
        id: "figure",
        table: &figure.table,
        texts,
        places: &(0..texts.columns.len()).collect::<Vec<_>>(),
        order: &figures.order,
        sort: &figures.sort,
        cells: &figure.cells,
        charts: &figure.charts,
        swatched: None,
        baseline: figure.baseline.as_ref(),
        is_choosable: false,
        selected: None,
        effect: None,
    };
    if let Some(Asked::Sort(key)) = table.ui(ui) {
        commands.push(FiguresCommand::Sort(key).into());
    }
}

/// Draws what to do while there is nothing to draw.
pub fn empty_ui(ui: &mut Ui, view: View<'_>, commands: &mut Vec<Command>) {
    ui.vertical_centered(|ui| {
        ui.add_space((ui.available_height() / 3.0 - 40.0).max(8.0));
        if let Some((message, good)) = &view.own.outcome {
            let palette = palette(ui.visuals());
            ui.colored_label(if *good { palette.good } else { palette.bad }, message);
            ui.add_space(2.0 * GRID);
        }
        if view.is_reading_session() || view.records.pending > 0 {
            ui.heading("Reading the runs …");
            return;
        }
        ui.heading("No figures yet");
        ui.label(muted(ui, "Figures show finished runs: launch a plan, or open a session that has some."));
        ui.add_space(2.0 * GRID);
        if main_button(ui, true, "Show Plan").clicked() {
            commands.push(Command::Show(ScreenName::PLAN));
        }
    });
}
