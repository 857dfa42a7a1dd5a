//! Colours and markers that distinguish runs, the same everywhere on the screen.

use eframe::egui::{Color32, Painter, Rect, Stroke, Visuals, pos2};
use egui_plot::MarkerShape;

use crate::app::compare::look as palette;
use crate::figure::{COLOURS, Look};

/// Order in which runs take palette entries: yellow, which is weak on white, comes last.
const PLACES: [usize; COLOURS.len()] = [0, 1, 2, 4, 5, 6, 7, 3];

/// Colour and marker of a slot. When colours repeat, the marker changes.
fn look(slot: usize) -> Look {
    Look::Place(PLACES[slot % PLACES.len()] + slot / PLACES.len() * PLACES.len())
}

/// Colour of a slot. `part` is the index and the number of its GPUs or ranks; later ones are paler.
pub fn colour(visuals: &Visuals, slot: usize, part: (usize, usize)) -> Color32 {
    let share = 0.65 * part.0 as f32 / part.1.max(1) as f32;
    palette::colour(&look(slot), visuals.dark_mode).lerp_to_gamma(visuals.extreme_bg_color, share)
}

/// Marker of a slot.
pub fn marker(slot: usize) -> MarkerShape {
    palette::marker_shape(palette::sign(&look(slot)).marker)
}

/// Draws a line sample with its marker, as in a legend.
pub fn swatch(painter: &Painter, rect: Rect, visuals: &Visuals, slot: usize) {
    let centre = rect.center();
    let stroke = Stroke::new(1.5, colour(visuals, slot, (0, 1)));
    painter.line_segment([pos2(rect.left(), centre.y), pos2(rect.right(), centre.y)], stroke);
    palette::paint_marker(painter, centre, 4.0, &look(slot), visuals.dark_mode);
}
