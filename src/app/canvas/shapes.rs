//! Shapes of egui for the items of a scene: paths as fills and lines, and texts.

use eframe::egui::{Color32, FontFamily, FontId, Painter, Pos2, Rect, Shape, Stroke, epaint::TextShape, vec2};

use crate::app::theme::STRONG;
use crate::figure::paper::{self, Face, Segment};

/// Points of the screen per point of a page: lines, ticks and markers are enlarged in the same ratio as text.
pub(super) const SCALE: f64 = 1.5;
/// The number of straight lines that replace a curve.
const CURVE_LINES: usize = 6;

/// A length on a page in points of the screen.
pub(super) fn on_screen(length: f64) -> f32 {
    (length * SCALE) as f32
}

fn point((x, y): (f64, f64)) -> Pos2 {
    Pos2::new(on_screen(x), on_screen(y))
}

/// An area of a page in points of the screen.
pub(super) fn rect(area: &paper::Area) -> Rect {
    Rect::from_min_max(point((area.left, area.top)), point((area.right(), area.bottom())))
}

fn colour([red, green, blue]: paper::Colour, opacity: f64) -> Color32 {
    Color32::from_rgb(red, green, blue).gamma_multiply(opacity as f32)
}

/// A line of text whose baseline is where the scene has it.
pub(super) fn letters(painter: &Painter, text: &paper::Text, corner: Pos2) -> Shape {
    let family = match text.face {
        Face::SansStrong | Face::SerifStrong => FontFamily::Name(STRONG.into()),
        Face::Sans | Face::Serif => FontFamily::Proportional,
    };
    let ink = colour(text.colour, 1.0);
    let galley = painter.layout_no_wrap(text.text.clone(), FontId::new(on_screen(text.size), family), ink);
    let baseline = galley.rows.first().and_then(|row| Some(row.pos.y + row.glyphs.first()?.pos.y)).unwrap_or(0.0);
    // Letters are hinted for the screen: the difference in length is split between both ends.
    let longer = (galley.size().x - on_screen(text.width())) / 2.0;
    let start = corner + point((text.x, text.y)).to_vec2();
    if text.upwards {
        let place = start + vec2(-baseline, longer);
        return TextShape::new(place, galley, ink).with_angle(-std::f32::consts::FRAC_PI_2).into();
    }
    TextShape::new(start - vec2(longer, baseline), galley, ink).into()
}

/// The shapes of a path: its fill, and its lines.
pub(super) fn path(
    segments: &[Segment],
    fill: Option<(paper::Colour, f64)>,
    stroke: Option<&paper::Stroke>,
    shapes: &mut Vec<Shape>,
) {
    if let (Some((rgb, 1.0)), Some((centre, radius))) = (fill, circle(segments))
        && stroke.is_none_or(|stroke| stroke.dash.is_empty())
    {
        return disc(centre, radius, rgb, stroke, shapes);
    }
    let stroke = stroke.map(|stroke| (Stroke::new(on_screen(stroke.width), colour(stroke.colour, 1.0)), stroke));
    for (points, closed) in lines(segments) {
        if let Some((rgb, opacity)) = fill {
            filled(&points, colour(rgb, opacity), shapes);
        }
        let Some((pen, stroke)) = &stroke else { continue };
        if !stroke.dash.is_empty() {
            let [lengths, gaps] = [0, 1].map(|first| -> Vec<f32> {
                stroke.dash.iter().skip(first).step_by(2).map(|length| on_screen(*length)).collect()
            });
            shapes.extend(Shape::dashed_line_with_offset(&points, *pen, &lengths, &gaps, 0.0));
        } else if let ([from, to], false) = (points.as_slice(), closed) {
            shapes.push(Shape::line_segment([*from, *to], *pen));
        } else if closed {
            shapes.push(Shape::closed_line(points, *pen));
        } else {
            shapes.push(Shape::line(points, *pen));
        }
    }
}

/// Centre and radius of a path that is a circle of four curves.
fn circle(segments: &[Segment]) -> Option<(Pos2, f32)> {
    let [Segment::Move(x, y), curves @ .., Segment::Close] = segments else { return None };
    let first = point((*x, *y));
    let ends: Vec<Pos2> = curves
        .iter()
        .map(|segment| match segment {
            Segment::Cubic([.., x, y]) => Some(point((*x, *y))),
            _ => None,
        })
        .collect::<Option<_>>()?;
    let [a, b, c, last] = ends[..] else { return None };
    let (centre, radius) = (first.lerp(b, 0.5), first.distance(b) / 2.0);
    let is_on = |end: Pos2| (end.distance(centre) - radius).abs() < 1e-2;
    (last.distance(first) < 1e-2 && is_on(a) && is_on(c)).then_some((centre, radius))
}

/// A filled circle with its edge: one disc on another. egui has pictures of discs, so that each takes four corners instead of a hundred, and
/// thousands of points are drawn within a frame.
fn disc(centre: Pos2, radius: f32, rgb: paper::Colour, edge: Option<&paper::Stroke>, shapes: &mut Vec<Shape>) {
    let half = edge.map_or(0.0, |edge| on_screen(edge.width) / 2.0);
    if let Some(edge) = edge {
        shapes.push(Shape::circle_filled(centre, radius + half, colour(edge.colour, 1.0)));
    }
    shapes.push(Shape::circle_filled(centre, radius - half, colour(rgb, 1.0)));
}

/// Fills a shape, which is convex, or a band between two lines that run along each other.
fn filled(points: &[Pos2], fill: Color32, shapes: &mut Vec<Shape>) {
    let half = points.len() / 2;
    let is_band = points.len() > 4
        && points.len().is_multiple_of(2)
        && (0..half).all(|index| (points[index].x - points[points.len() - 1 - index].x).abs() < 1e-3);
    if !is_band {
        shapes.push(Shape::convex_polygon(points.to_vec(), fill, Stroke::NONE));
        return;
    }
    for index in 1..half {
        let last = points.len() - 1;
        let corners = [index - 1, index, last - index, last - index + 1].map(|corner| points[corner]);
        shapes.push(Shape::convex_polygon(corners.to_vec(), fill, Stroke::NONE));
    }
}

/// The lines of a path, each with whether it is closed.
fn lines(segments: &[Segment]) -> Vec<(Vec<Pos2>, bool)> {
    let mut lines: Vec<(Vec<Pos2>, bool)> = Vec::new();
    for segment in segments {
        match (segment, lines.last_mut()) {
            (Segment::Move(x, y), _) => lines.push((vec![point((*x, *y))], false)),
            (Segment::Line(x, y), Some((line, _))) => line.push(point((*x, *y))),
            (Segment::Cubic([ax, ay, bx, by, x, y]), Some((line, _))) => {
                let from = line.last().copied().unwrap_or_default();
                let [a, b, to] = [(*ax, *ay), (*bx, *by), (*x, *y)].map(point);
                line.extend((1..=CURVE_LINES).map(|step| {
                    let t = step as f32 / CURVE_LINES as f32;
                    let u = 1.0 - t;
                    let along = from.to_vec2() * (u * u * u)
                        + a.to_vec2() * (3.0 * u * u * t)
                        + b.to_vec2() * (3.0 * u * t * t)
                        + to.to_vec2() * (t * t * t);
                    along.to_pos2()
                }));
            }
            (Segment::Close, Some((line, closed))) => {
                // A repeated point would have no direction.
                if line.len() > 2 && line.first() == line.last() {
                    line.pop();
                }
                *closed = true;
            }
            (_, None) => {}
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corners(shapes: &[Shape]) -> Vec<&[Pos2]> {
        let corners = shapes.iter().map(|shape| match shape {
            Shape::Path(path) => path.points.as_slice(),
            other => panic!("{other:?}"),
        });
        corners.collect()
    }

    #[test]
    fn a_band_that_bends_is_filled_between_its_lines_and_nowhere_else() {
        // Upper line forth, lower line back: a valley that one convex shape would fill.
        let upper = [(0.0, 0.0), (10.0, 20.0), (20.0, 0.0)];
        let lower = [(20.0, 5.0), (10.0, 25.0), (0.0, 5.0)];
        let points: Vec<Pos2> = upper.into_iter().chain(lower).map(|(x, y)| Pos2::new(x, y)).collect();
        let mut shapes = Vec::new();
        filled(&points, Color32::RED, &mut shapes);
        let corners = corners(&shapes);
        assert_eq!(corners.len(), 2);
        for part in corners {
            let lies = |y: f32| part.iter().any(|corner| corner.y == y);
            assert!(part.len() == 4 && lies(20.0) && lies(25.0), "{part:?}");
            let xs: Vec<f32> = part.iter().map(|corner| corner.x).collect();
            assert!(xs.iter().all(|x| *x <= 10.0) || xs.iter().all(|x| *x >= 10.0), "{xs:?}");
        }
    }

    #[test]
    fn a_circle_is_drawn_as_a_disc_on_the_disc_of_its_edge_and_an_oval_as_a_path() {
        let round = |width: f64| {
            let (k, w) = (0.5523, width);
            let quarters = [
                [w, k, k * w, 1.0, 0.0, 1.0],
                [-k * w, 1.0, -w, k, -w, 0.0],
                [-w, -k, -k * w, -1.0, 0.0, -1.0],
                [k * w, -1.0, w, -k, w, 0.0],
            ];
            let quarters = quarters.map(Segment::Cubic);
            std::iter::once(Segment::Move(w, 0.0)).chain(quarters).chain([Segment::Close]).collect::<Vec<_>>()
        };
        let drawn = |width: f64, opacity: f64| {
            let mut shapes = Vec::new();
            path(&round(width), Some(([9; 3], opacity)), Some(&paper::Stroke::new([0xff; 3], 0.4)), &mut shapes);
            shapes
        };
        let radii: Vec<f32> = drawn(1.0, 1.0)
            .iter()
            .map(|shape| match shape {
                Shape::Circle(disc) => disc.radius,
                other => panic!("{other:?}"),
            })
            .collect();
        assert!((radii[0] - 1.8).abs() < 1e-4 && (radii[1] - 1.2).abs() < 1e-4, "{radii:?}");
        for other in [drawn(2.0, 1.0), drawn(1.0, 0.5)] {
            assert!(other.iter().all(|shape| matches!(shape, Shape::Path(_))), "{other:?}");
        }
    }

    #[test]
    fn paths_keep_their_ends_and_their_gaps() {
        let scale = SCALE as f32;
        let segments = [
            Segment::Move(0.0, 0.0),
            Segment::Line(3.5, 0.0),
            Segment::Move(0.0, 2.0),
            Segment::Cubic([1.0, 2.0, 3.0, 4.0, 4.0, 6.0]),
            Segment::Line(0.0, 2.0),
            Segment::Close,
        ];
        let lines = lines(&segments);
        assert_eq!(lines[0], (vec![Pos2::ZERO, Pos2::new(3.5 * scale, 0.0)], false));
        let (curve, closed) = &lines[1];
        assert!(*closed && curve.len() == 1 + CURVE_LINES, "{curve:?}");
        assert!((curve[CURVE_LINES] - Pos2::new(4.0 * scale, 6.0 * scale)).length() < 1e-4);
        let mut shapes = Vec::new();
        let dashed = paper::Stroke { dash: vec![1.0, 1.0], ..paper::Stroke::new([0; 3], 0.5) };
        path(&segments[..2], None, Some(&dashed), &mut shapes);
        assert_eq!(shapes.len(), 2, "two strokes with a gap between and one behind");
    }
}
