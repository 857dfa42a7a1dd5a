//! Draws the data of a panel, for each geometry.

use super::bars::{bars, stacked, strip};
use super::field::{CASING, Field, around, published, sound};
use super::heat::heat;
use super::legend::{LISTED, ideal_stroke};
use super::letter::{Anchor, Line};
use super::look::{INK, Paint, bar, hollow, marker};
use super::path::{Area, polygon};
use super::scene::{Scene, Stroke};
use super::side::AXIS;
use crate::figure::chart::{Chart, Geometry, Panel, Point, Role, Series};

/// Width of lines in points.
pub(super) const LINE: f64 = 1.1;
/// Draws the data of a panel.
pub(super) fn draw(scene: &mut Scene, field: &Field, chart: &Chart, panel: &Panel) {
    match chart.geometry {
        Geometry::Bars => bars(scene, field, chart, panel),
        Geometry::Stacked => stacked(scene, field, chart, panel, false),
        Geometry::Percent => stacked(scene, field, chart, panel, true),
        Geometry::Lines => lines(scene, field, panel, true),
        Geometry::Scaling => lines(scene, field, panel, false),
        Geometry::Strip => strip(scene, field, chart, panel),
        Geometry::Gantt => gantt(scene, field, chart, panel),
        Geometry::Heat => heat(scene, field, chart, panel),
        Geometry::Effects => effects(scene, field, panel, false),
        Geometry::Tornado => effects(scene, field, panel, true),
        Geometry::Profile => lines(scene, field, panel, false),
        Geometry::Scatter => scatter(scene, field, panel),
    }
    let from_zero = matches!(chart.geometry, Geometry::Bars | Geometry::Stacked | Geometry::Percent);
    if from_zero && field.is_across() && field.bottom.shows(0.0) {
        let zero = field.value(0.0);
        scene.line(&[(zero, field.area.top), (zero, field.area.bottom())], Stroke::new(INK, AXIS));
    }
}

fn lines(scene: &mut Scene, field: &Field, panel: &Panel, bands: bool) {
    for series in panel.series.iter().filter(|series| bands && series.role == Role::Measured) {
        let ends: Vec<(f64, f64, f64)> =
            sound(series).filter_map(|point| point.value.interval.map(|ends| (point.x, ends.low, ends.high))).collect();
        let upper = ends.iter().map(|(x, _, high)| (field.x(*x), field.y(*high)));
        let lower = ends.iter().rev().map(|(x, low, _)| (field.x(*x), field.y(*low)));
        if ends.len() > 1 {
            let points: Vec<(f64, f64)> = upper.chain(lower).collect();
            let fill = Some((field.paint(series).line, 0.18));
            scene.part(field.line_of(panel, series), |scene| scene.path(polygon(&points), fill, None));
        }
    }
    // Measured values are drawn on top of ideals.
    let ideal = panel.series.iter().filter(|series| series.role == Role::Ideal);
    for series in ideal.chain(panel.series.iter().filter(|series| series.role == Role::Measured)) {
        scene.part(field.line_of(panel, series), |scene| line(scene, field, panel, series, bands));
    }
}

/// Draws a line with its points.
fn line(scene: &mut Scene, field: &Field, panel: &Panel, series: &Series, bands: bool) {
    let paint = field.paint(series);
    let place = |point: &Point| (field.x(point.x), field.y(point.value.median));
    let all: Vec<&Point> = sound(series).collect();
    // A line is interrupted at points that are beyond an axis.
    let pieces = all.split(|point| !field.holds(point)).map(|piece| piece.iter().map(|point| place(point)));
    let pieces = pieces.map(Iterator::collect::<Vec<(f64, f64)>>);
    if series.role == Role::Ideal {
        return pieces.for_each(|piece| scene.line(&piece, ideal_stroke(&paint)));
    }
    let stroke = Stroke { round: paint.sign.dash.0.is_empty(), ..paint.stroke(field.line) };
    pieces.for_each(|piece| scene.line(&piece, stroke.clone()));
    let shown = || all.iter().copied().filter(|point| field.holds(point));
    if !bands {
        shown().for_each(|point| field.whisker(scene, field.x(point.x), &point.value, 1.8));
    }
    let points: Vec<(f64, f64)> = shown().map(place).collect();
    // Markers are left out if they would overlap.
    let every = (points.len() as f64 * 9.0 / field.area.width).ceil().max(1.0) as usize;
    for point in points.iter().step_by(every) {
        marker(scene, *point, 1.9, &paint);
    }
    for (point, at) in shown().zip(&points) {
        field.mark(scene, (panel, series, point), around(*at, 1.9));
    }
    for point in published(panel, series) {
        hollow(scene, (field.x(point.x), field.y(point.value.median)), 2.3, paint.line);
    }
}

/// Bars in rows that are narrower than this, in points, have no edge.
const NARROW: f64 = 1.2;

fn gantt(scene: &mut Scene, field: &Field, chart: &Chart, panel: &Panel) {
    let half = 0.33 * field.area.height / chart.y.categories.len().max(1) as f64;
    for series in &panel.series {
        let paint = Paint::of(&series.look, 0, field.palette);
        let y = field.row(series.variant as f64);
        for (point, ends) in series.points.iter().filter_map(|point| Some((point, point.value.interval?))) {
            if ends.low.is_finite() && ends.high.is_finite() {
                let area = Area::between((field.x(ends.low), y - half), (field.x(ends.high), y + half));
                // With hundreds of bars next to each other, only their edges would be visible.
                if area.width < NARROW {
                    scene.rectangle(&area, Some((paint.fill, 1.0)), None);
                } else {
                    bar(scene, &area, &paint);
                    field.mark(scene, (panel, series, point), area);
                }
            }
        }
    }
}

/// With more points than this in a panel, each point is a small square without an edge: other signs could not be distinguished, and take
/// longer to draw.
const DENSE: usize = 2000;

/// The distance between the end of an ideal and its name, in points.
const BESIDE: f64 = 2.0;

/// The names of ideals, at the ends of their lines.
struct Names {
    /// The heights at which ideals end.
    ends: Vec<f64>,
    /// The heights between which names are set.
    taken: Vec<(f64, f64)>,
}

impl Names {
    fn new(field: &Field, panel: &Panel) -> Self {
        let ideal = panel.series.iter().filter(|series| series.role == Role::Ideal);
        let ends = ideal.filter_map(|series| Some(field.y(sound(series).last()?.value.median)));
        Self { ends: ends.collect(), taken: Vec::new() }
    }

    /// Sets a name above the end of its line, or below it if another line or name is in the way.
    fn set(&mut self, scene: &mut Scene, field: &Field, name: &str, (x, y): (f64, f64)) {
        let (typist, size) = (field.kind.typist, field.kind.small);
        let name = Line::plain(typist.cut(name, size, field.area.width));
        if name.is_empty() {
            return;
        }
        let height = typist.capital(size);
        let (above, below) = (y - BESIDE, y + BESIDE + height);
        let is_in_area = above - height >= field.area.top;
        let is_free = |base: f64| {
            let (top, bottom) = (base - height - 1.0, base + 1.0);
            let is_line = self.ends.iter().any(|end| (*end - y).abs() > 0.1 && (top..bottom).contains(end));
            !is_line && self.taken.iter().all(|(from, to)| bottom <= *from || *to <= top)
        };
        let is_below = !is_in_area || !is_free(above) && is_free(below) && below < field.area.bottom();
        let base = if is_below { below } else { above };
        self.taken.push((base - height - 1.0, base + 1.0));
        let half = typist.width(&name, size) / 2.0;
        let at = ((x - half).max(field.area.left + half), base);
        typist.set_in_data(scene, &name, size, at, (Anchor::Middle, INK));
    }
}

/// Draws measured points together with a front, with roofs or with fitted laws.
fn scatter(scene: &mut Scene, field: &Field, panel: &Panel) {
    let is_dense = panel.series.iter().map(|series| series.points.len()).sum::<usize>() > DENSE;
    let mut names = Names::new(field, panel);
    let ideal = panel.series.iter().filter(|series| series.role == Role::Ideal);
    for series in ideal.chain(panel.series.iter().filter(|series| series.role == Role::Measured)) {
        let paint = field.paint(series);
        if series.role == Role::Ideal {
            let points: Vec<(f64, f64)> =
                sound(series).map(|point| (field.x(point.x), field.y(point.value.median))).collect();
            scene.line(&points, ideal_stroke(&paint));
            if let Some(end) = points.last().filter(|_| !LISTED.contains(&series.name.as_str())) {
                names.set(scene, field, &series.name, *end);
            }
            continue;
        }
        for point in sound(series).filter(|point| field.holds(point)) {
            let at = (field.x(point.x), field.y(point.value.median));
            if is_dense {
                scene.rectangle(&around(at, 0.9), Some((paint.line, 1.0)), None);
                field.mark(scene, (panel, series, point), around(at, 0.9));
                continue;
            }
            field.whisker_across(scene, point, 1.8);
            field.whisker(scene, at.0, &point.value, 1.8);
            marker(scene, at, 2.2, &paint);
            field.mark(scene, (panel, series, point), around(at, 2.2));
        }
    }
}

fn effects(scene: &mut Scene, field: &Field, panel: &Panel, from_one: bool) {
    let one = field.x(1.0);
    if field.bottom.shows(1.0) {
        scene.line(&[(one, field.area.top), (one, field.area.bottom())], Stroke::new(INK, 0.6));
    }
    for series in &panel.series {
        let paint = field.paint(series);
        for point in sound(series) {
            let y = field.row(point.x);
            let at = field.x(point.value.median);
            if from_one {
                let half = (0.3 * field.area.height / field.rows()).min(4.5);
                let area = Area::between((one.min(at), y - half), (one.max(at), y + half));
                bar(scene, &area, &paint);
                field.mark(scene, (panel, series, point), area);
                field.whisker_in(scene, y, &point.value, 1.8, &CASING);
                field.whisker(scene, y, &point.value, 1.8);
                continue;
            }
            if let Some(ends) = point.value.interval {
                scene.line(&[(field.x(ends.low), y), (field.x(ends.high), y)], Stroke::new(paint.line, 1.2));
            }
            if field.bottom.shows(point.value.median) {
                marker(scene, (at, y), 2.2, &paint);
                field.mark(scene, (panel, series, point), around((at, y), 2.2));
            }
        }
    }
}
