//! The look of a series on paper: its colour or grey, its hatch, its marker and its dash.

use super::path::{Area, Segment, circle, polygon, rectangle};
use super::scene::{Colour, Scene, Stroke};
use crate::figure::chart::Look;
use crate::figure::palette::{Hatch, Marker, Sign, luminance, mix, on_white};
use crate::figure::style::Palette;

/// The colour of text and axes.
pub(super) const INK: Colour = [0x1a; 3];
/// The colour of auxiliary lines, which are not data.
pub(super) const FAINT: Colour = [0xdc; 3];
/// Greys of areas, distinguishable in print; hatches distinguish them, too.
const AREAS: [u8; 8] = [0xc8, 0x8c, 0xe6, 0x64, 0xaa, 0xf2, 0x46, 0x78];
/// Greys of lines.
const LINES: [u8; 4] = [0x1e, 0x6e, 0x46, 0x96];

/// The colours and sign of one series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Paint {
    /// Colour of areas.
    pub fill: Colour,
    /// Colour of the hatch in areas.
    pub hatch: Colour,
    /// Colour of lines and points.
    pub line: Colour,
    /// Its second sign: marker, hatch and dash.
    pub sign: Sign,
}

impl Paint {
    /// The paint of a look; `variant` distinguishes series of one colour.
    pub fn of(look: &Look, variant: usize, palette: Palette) -> Self {
        let (rgb, place) = (look.colour(), look.place());
        let sign = look.sign_of(variant);
        match palette {
            Palette::Colour => {
                // Bright colours have dark hatches, and dark colours have bright ones.
                let toward = if luminance(rgb) > 0.22 { [0; 3] } else { [0xff; 3] };
                Self { fill: rgb, hatch: mix(rgb, toward, 0.55), line: on_white(rgb), sign }
            }
            Palette::Grey => {
                let grey = match look {
                    Look::Own(_, own) => own.colour.map(|colour| (255.0 * luminance(colour).powf(1.0 / 2.2)) as u8),
                    _ => None,
                };
                let grey = grey.unwrap_or(AREAS[place % AREAS.len()]);
                let hatch = if grey > 0x70 { [0x28; 3] } else { [0xf0; 3] };
                Self { fill: [grey; 3], hatch, line: [LINES[(place + variant) % LINES.len()]; 3], sign }
            }
        }
    }

    /// A line in this look.
    pub fn stroke(&self, width: f64) -> Stroke {
        let dash = self.sign.dash.0.iter().map(|length| f64::from(*length) * width).collect();
        Stroke { colour: self.line, width, dash, round: false }
    }
}

/// Draws an area in a look, with its hatch and a thin edge.
pub(super) fn bar(scene: &mut Scene, area: &Area, paint: &Paint) {
    if area.width <= 0.0 || area.height <= 0.0 {
        return;
    }
    scene.rectangle(area, Some((paint.fill, 1.0)), None);
    hatch(scene, area, paint);
    scene.rectangle(area, None, Some(Stroke::new(mix(paint.fill, [0; 3], 0.55), 0.4)));
}

/// Distance between the lines of a hatch, in points.
const STEP: f64 = 3.4;

fn hatch(scene: &mut Scene, area: &Area, paint: &Paint) {
    let kind = paint.sign.hatch;
    let mut segments = Vec::new();
    if matches!(kind, Hatch::Rising | Hatch::Lattice) {
        diagonals(area, true, &mut segments);
    }
    if matches!(kind, Hatch::Falling | Hatch::Lattice) {
        diagonals(area, false, &mut segments);
    }
    let inside = |length: f64| (1..).map(move |index| f64::from(index) * STEP).take_while(move |at| *at < length - 0.3);
    if matches!(kind, Hatch::Horizontal | Hatch::Grid) {
        for y in inside(area.height) {
            let y = area.bottom() - y;
            segments.extend([Segment::Move(area.left, y), Segment::Line(area.right(), y)]);
        }
    }
    if matches!(kind, Hatch::Vertical | Hatch::Grid) {
        for x in inside(area.width) {
            let x = area.left + x;
            segments.extend([Segment::Move(x, area.top), Segment::Line(x, area.bottom())]);
        }
    }
    if kind == Hatch::Dots {
        let mut dots = Vec::new();
        for (row, y) in inside(area.height).enumerate() {
            let shift = if row % 2 == 0 { 0.0 } else { STEP / 2.0 };
            for x in inside(area.width - shift) {
                dots.extend(circle((area.left + x + shift, area.bottom() - y), 0.55));
            }
        }
        scene.path(dots, Some((paint.hatch, 1.0)), None);
    }
    scene.path(segments, None, Some(Stroke::new(paint.hatch, 0.5)));
}

/// Adds lines at 45°, clipped to an area.
fn diagonals(area: &Area, rising: bool, segments: &mut Vec<Segment>) {
    let (width, height) = (area.width, area.height);
    let step = STEP * std::f64::consts::SQRT_2;
    let mut offset = step * 0.5;
    while offset < width + height {
        // The line starts at the lower edge or at the left edge and rises to the right at 45°.
        let (mut from, mut to) =
            ((offset.min(width), (offset - width).max(0.0)), ((offset - height).max(0.0), offset.min(height)));
        if rising {
            from.0 = width - from.0;
            to.0 = width - to.0;
        }
        let at = |(x, y): (f64, f64)| (area.left + x, area.bottom() - y);
        let ((x0, y0), (x1, y1)) = (at(from), at(to));
        segments.extend([Segment::Move(x0, y0), Segment::Line(x1, y1)]);
        offset += step;
    }
}

/// Draws the mark of a published value: a white diamond with an edge.
pub(super) fn hollow(scene: &mut Scene, (x, y): (f64, f64), radius: f64, line: Colour) {
    let corners = [(x + radius, y), (x, y + radius), (x - radius, y), (x, y - radius)];
    scene.path(polygon(&corners), Some(([0xff; 3], 1.0)), Some(Stroke::new(line, 0.8)));
}

/// Draws the marker of a point.
pub(super) fn marker(scene: &mut Scene, centre: (f64, f64), radius: f64, paint: &Paint) {
    let fill = Some((paint.line, 1.0));
    // A thin white edge separates points from the lines through them.
    let edge = Some(Stroke::new([0xff; 3], 0.3));
    let (x, y) = centre;
    let corners = |count: u32, angle: f64| -> Vec<(f64, f64)> {
        let corner = |index: u32| {
            let angle = angle + f64::from(index) * std::f64::consts::TAU / f64::from(count);
            (x + 1.15 * radius * angle.cos(), y + 1.15 * radius * angle.sin())
        };
        (0..count).map(corner).collect()
    };
    let cross = |angles: &[f64]| -> Vec<Segment> {
        let arm = |angle: &f64| {
            let (dx, dy) = (radius * angle.cos(), radius * angle.sin());
            [Segment::Move(x - dx, y - dy), Segment::Line(x + dx, y + dy)]
        };
        angles.iter().flat_map(arm).collect()
    };
    let (quarter, half) = (std::f64::consts::FRAC_PI_4, std::f64::consts::FRAC_PI_2);
    match paint.sign.marker {
        Marker::Circle => scene.path(circle(centre, radius), fill, edge),
        Marker::Square => {
            let side = 0.88 * radius;
            scene.path(rectangle(&Area::between((x - side, y - side), (x + side, y + side))), fill, edge);
        }
        Marker::Diamond => scene.path(polygon(&corners(4, 0.0)), fill, edge),
        Marker::Up => scene.path(polygon(&corners(3, -half)), fill, edge),
        Marker::Down => scene.path(polygon(&corners(3, half)), fill, edge),
        Marker::Cross => scene.path(cross(&[quarter, -quarter]), None, Some(Stroke::new(paint.line, 1.0))),
        Marker::Plus => scene.path(cross(&[0.0, half]), None, Some(Stroke::new(paint.line, 1.0))),
        Marker::Asterisk => {
            scene.path(cross(&[0.0, quarter, half, -quarter]), None, Some(Stroke::new(paint.line, 0.8)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hatches_stay_within_their_bar() {
        for place in 0..8 {
            for (width, height) in [(10.0, 3.0), (3.0, 40.0), (0.5, 0.5), (25.0, 25.0)] {
                let area = Area { left: 5.0, top: 7.0, width, height };
                let mut scene = Scene::default();
                hatch(&mut scene, &area, &Paint::of(&Look::Place(place), 0, Palette::Colour));
                let inside = |x: f64, y: f64| {
                    Area::between((x, y), (x, y)).left >= 4.99 && area.holds(&Area::between((x, y), (x, y)))
                };
                for item in &scene.items {
                    let super::super::scene::Item::Path { segments, .. } = item else { continue };
                    for segment in segments {
                        if let Segment::Move(x, y) | Segment::Line(x, y) = segment {
                            assert!(inside(*x, *y), "{place}: {x}, {y} not in {area:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn series_of_one_colour_have_different_signs() {
        let looks: Vec<Paint> = (0..4).map(|variant| Paint::of(&Look::Place(1), variant, Palette::Colour)).collect();
        assert!(looks.windows(2).all(|two| two[0].line == two[1].line && two[0].sign != two[1].sign));
    }
}
