//! Sheets: charts that the screen does not draw itself, shown as they are set on paper.

use eframe::egui::{
    Color32, ColorImage, Image, Rect, Role, ScrollArea, Sense, Stroke, StrokeKind, TextureHandle, Ui, Vec2, WidgetInfo,
};

use crate::app::theme::{GRID, palette};
use crate::app::widgets::muted;
use crate::figure::paper::{Style, Width, lay_out, rasterise};
use crate::figure::{Chart, Geometry, Scale};

/// Pixels of a sheet per point of paper, and the least and greatest scale on screen.
const RESOLUTION: f64 = 2.0;
const SCALES: [f32; 2] = [1.0, 2.0];

/// The paper of the dark theme: its panels' fill.
const DARK_PAPER: [u8; 3] = [0x17, 0x1a, 0x1f];

/// Charts on paper of page width.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// Its pixels.
    pub image: ColorImage,
    /// Its width and height in points of paper.
    size: Vec2,
    /// The colour of its paper.
    paper: Color32,
}

impl Sheet {
    /// Sets charts if the screen does not draw them itself. The sides of the image are at most `most` pixels long, the limit of
    /// the graphics card. In the dark theme, the paper is dark.
    pub fn of(charts: &[Chart], most: usize, dark: bool) -> Option<Result<Self, String>> {
        use Geometry::{Bars, Lines, Scaling, Stacked};
        // Bars of the screen's own drawing have linear axes and no values below 0.
        let is_drawn = match charts {
            [chart] if matches!(chart.geometry, Bars | Stacked) => {
                chart.y.scale == Scale::Linear && chart.least() >= 0.0
            }
            all => all.iter().all(|chart| matches!(chart.geometry, Lines | Scaling)),
        };
        (!is_drawn).then(|| {
            let scene = lay_out(charts, &Style { width: Width::Page, size_pt: 10.0, ..Style::default() });
            let scene = if dark { scene.on_dark(DARK_PAPER) } else { scene };
            let resolution = ((most as f64 - 1.0) / scene.width.max(scene.height)).min(RESOLUTION);
            let pixels = rasterise(&scene, resolution).map_err(|error| error.to_string())?;
            let image = [pixels.width as usize, pixels.height as usize];
            let image = ColorImage::from_rgba_unmultiplied(image, &pixels.rgba);
            let [red, green, blue] = if dark { DARK_PAPER } else { [0xff; 3] };
            let size = Vec2::new(scene.width as f32, scene.height as f32);
            Ok(Self { image, size, paper: Color32::from_rgb(red, green, blue) })
        })
    }
}

/// Draws a sheet.
pub fn sheet_ui(ui: &mut Ui, charts: &[Chart], sheet: &Result<Sheet, String>, texture: Option<&TextureHandle>) {
    let (sheet, texture) = match (sheet, texture) {
        _ if charts.iter().all(Chart::is_empty) => {
            ui.label(muted(ui, "No finished run of these cells has these values."));
            return;
        }
        (Err(message), _) => {
            ui.colored_label(palette(ui.visuals()).bad, message);
            return;
        }
        (Ok(_), None) => return,
        (Ok(sheet), Some(texture)) => (sheet, texture),
    };
    ScrollArea::vertical().id_salt("compare-sheet").auto_shrink([false, false]).show(ui, |ui| {
        let around = Vec2::splat(4.0 * GRID);
        let room = ui.available_size() - around;
        let scale = (room.x / sheet.size.x).min(room.y / sheet.size.y).clamp(SCALES[0], SCALES[1]);
        let size = sheet.size * scale;
        let (place, _) = ui.allocate_exact_size(Vec2::new(ui.available_width(), size.y + around.y), Sense::hover());
        let paper = Rect::from_center_size(place.center(), size + around);
        let line = Stroke::new(1.0, palette(ui.visuals()).line);
        ui.painter().rect(paper, 0.0, sheet.paper, line, StrokeKind::Inside);
        let image = ui.put(Rect::from_center_size(place.center(), size), Image::new((texture.id(), size)));
        let titles: Vec<&str> = charts.iter().map(|chart| chart.title.as_str()).collect();
        image.widget_info(|| WidgetInfo::labeled(Role::Image, true, format!("Chart: {}", titles.join(", "))));
    });
}
