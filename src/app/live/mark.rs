//! How runs are told apart: a colour (the order of Okabe and Ito) and a marker, the same everywhere on the screen.

use eframe::egui::epaint::PathShape;
use eframe::egui::{Color32, Painter, Pos2, Rect, Shape, Stroke, Visuals, pos2, vec2};
use egui_plot::MarkerShape;

/// Colours by slot, on white and on black. Yellow and black of the original are darker and lighter where they would
/// vanish.
const COLOURS: [([u8; 3], [u8; 3]); 8] = [
    ([0x00, 0x72, 0xB2], [0x3D, 0x9F, 0xDC]),
    ([0xD5, 0x5E, 0x00], [0xF0, 0x7A, 0x1E]),
    ([0x00, 0x9E, 0x73], [0x1F, 0xB8, 0x8C]),
    ([0xCC, 0x79, 0xA7], [0xDD, 0x93, 0xBC]),
    ([0xE6, 0x9F, 0x00], [0xF0, 0xB0, 0x2A]),
    ([0x56, 0xB4, 0xE9], [0x7C, 0xC8, 0xF4]),
    ([0x9A, 0x8F, 0x00], [0xF0, 0xE4, 0x42]),
    ([0x30, 0x30, 0x30], [0xD0, 0xD0, 0xD0]),
];

const MARKERS: [MarkerShape; 7] = [
    MarkerShape::Circle,
    MarkerShape::Square,
    MarkerShape::Diamond,
    MarkerShape::Up,
    MarkerShape::Down,
    MarkerShape::Cross,
    MarkerShape::Plus,
];

/// The colour of a slot. `part` is which of how many GPUs or ranks: later ones are paler.
pub fn colour(visuals: &Visuals, slot: usize, part: (usize, usize)) -> Color32 {
    let (light, dark) = COLOURS[slot % COLOURS.len()];
    let [r, g, b] = if visuals.dark_mode { dark } else { light };
    let share = 0.65 * part.0 as f32 / part.1.max(1) as f32;
    Color32::from_rgb(r, g, b).lerp_to_gamma(visuals.extreme_bg_color, share)
}

/// The marker of a slot. There are as many as is prime to the colours, so that pairs come back late.
pub fn marker(slot: usize) -> MarkerShape {
    MARKERS[slot % MARKERS.len()]
}

/// Draws a piece of line with its marker, as in a legend.
pub fn swatch(painter: &Painter, rect: Rect, colour: Color32, shape: Option<MarkerShape>) {
    let (centre, stroke) = (rect.center(), Stroke::new(1.5, colour));
    painter.line_segment([pos2(rect.left(), centre.y), pos2(rect.right(), centre.y)], stroke);
    let r = 4.0;
    let at = |x: f32, y: f32| centre + vec2(x, y) * r;
    let filled = |points: Vec<Pos2>| painter.add(Shape::Path(PathShape::convex_polygon(points, colour, Stroke::NONE)));
    match shape {
        None => {}
        Some(MarkerShape::Square) => {
            painter.rect_filled(Rect::from_center_size(centre, vec2(1.7, 1.7) * r), 0, colour);
        }
        Some(MarkerShape::Diamond) => {
            filled(vec![at(0.0, -1.2), at(1.2, 0.0), at(0.0, 1.2), at(-1.2, 0.0)]);
        }
        Some(MarkerShape::Up) => {
            filled(vec![at(0.0, -1.1), at(1.0, 0.8), at(-1.0, 0.8)]);
        }
        Some(MarkerShape::Down) => {
            filled(vec![at(0.0, 1.1), at(1.0, -0.8), at(-1.0, -0.8)]);
        }
        Some(MarkerShape::Cross) => {
            painter.line_segment([at(-0.9, -0.9), at(0.9, 0.9)], stroke);
            painter.line_segment([at(-0.9, 0.9), at(0.9, -0.9)], stroke);
        }
        Some(MarkerShape::Plus) => {
            painter.line_segment([at(0.0, -1.1), at(0.0, 1.1)], stroke);
        }
        Some(_) => {
            painter.circle_filled(centre, r * 0.9, colour);
        }
    }
}
