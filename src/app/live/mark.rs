//! How runs are told apart: a colour and a marker of the one palette, the same everywhere on the screen.

use eframe::egui::{Color32, Painter, Rect, Stroke, Visuals, pos2};
use egui_plot::MarkerShape;

use crate::app::compare::look as palette;
use crate::figure::{COLOURS, Look};

/// The places of the palette in the order in which runs take them: yellow, which is weak on white, comes last.
const PLACES: [usize; COLOURS.len()] = [0, 1, 2, 4, 5, 6, 7, 3];

/// The look of a slot. When colours come round again they have other markers.
fn look(slot: usize) -> Look {
    Look::Place(PLACES[slot % PLACES.len()] + slot / PLACES.len() * PLACES.len())
}

/// The colour of a slot. `part` is which of how many GPUs or ranks: later ones are paler.
pub fn colour(visuals: &Visuals, slot: usize, part: (usize, usize)) -> Color32 {
    let share = 0.65 * part.0 as f32 / part.1.max(1) as f32;
    palette::colour(&look(slot), visuals.dark_mode).lerp_to_gamma(visuals.extreme_bg_color, share)
}

/// The marker of a slot.
pub fn marker(slot: usize) -> MarkerShape {
    palette::marker_shape(palette::sign(&look(slot)).marker)
}

/// Draws a piece of line with its marker, as in a legend.
pub fn swatch(painter: &Painter, rect: Rect, visuals: &Visuals, slot: usize) {
    let centre = rect.center();
    let stroke = Stroke::new(1.5, colour(visuals, slot, (0, 1)));
    painter.line_segment([pos2(rect.left(), centre.y), pos2(rect.right(), centre.y)], stroke);
    palette::paint_marker(painter, centre, 4.0, &look(slot), visuals.dark_mode);
}
