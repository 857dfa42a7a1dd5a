//! Draws the annotations of a panel, a chart's own and an author's: shaded regions below the data; lines, brackets and text above it.

use super::bars::each_slot;
use super::clear::clear_place;
use super::field::{Field, sound};
use super::letter::{Anchor, Line};
use super::look::{FAINT, INK};
use super::path::Area;
use super::scene::{Mark, Part, Scene, Stroke};
use super::side::Type;
use crate::figure::chart::{Addition, AdditionKind, Chart, Geometry, Panel, Point};

/// The room that brackets need to the right of horizontal bars and their numbers.
pub(super) fn room_beside(chart: &Chart, kind: Type) -> f64 {
    let brackets = chart.additions.iter().filter(|one| matches!(one.kind, AdditionKind::Bracket { .. }));
    let wide = |one: &Addition| BRACKET.0 + 2.0 + kind.typist.width(&Line::plain(&one.text), kind.small) + BRACKET.0;
    brackets.map(wide).sum()
}

/// The gap between a bracket and the marks below it, and the length of the bracket's ends, in points.
const BRACKET: (f64, f64) = (4.0, 2.5);

/// The gap between two texts above each other, in points.
const TEXT_GAP: f64 = 0.5;

/// Whether the x axis is on the left. In charts of activity, the names on the left belong to the y axis.
fn is_turned(field: &Field, chart: &Chart) -> bool {
    field.is_across() && chart.geometry != Geometry::Gantt
}

/// The annotations of a panel: its own, and those for all panels.
fn of_panel(chart: &Chart, place: usize) -> impl Iterator<Item = &Addition> {
    chart.additions.iter().filter(move |addition| addition.panel.is_none_or(|panel| panel == place))
}

/// The position of a value of an axis on the page, and whether this axis is the lower one. The values of an author's annotations, which
/// have a number `nth`, are in the unit that the axis shows. The values of a chart's own annotations are in the unit of its points.
fn along(field: &Field, chart: &Chart, nth: Option<usize>, is_x: bool, value: f64) -> (f64, bool) {
    let is_lower = is_x != is_turned(field, chart);
    let side = if is_lower { field.bottom } else { field.left };
    let share = if nth.is_some() { side.shown_place(value) } else { side.place(value) };
    let place = if is_lower {
        field.area.left + share * field.area.width
    } else {
        field.area.bottom() - share * field.area.height
    };
    (place, is_lower)
}

/// Draws the annotations that are below the data.
pub(super) fn below(scene: &mut Scene, field: &Field, chart: &Chart) {
    for Addition { text, kind, nth, .. } in of_panel(chart, field.place[1]) {
        let AdditionKind::Region { is_x, low, high } = *kind else { continue };
        let ((low, is_lower), (high, _)) =
            (along(field, chart, *nth, is_x, low), along(field, chart, *nth, is_x, high));
        let area = if is_lower {
            Area::between((low, field.area.top), (high, field.area.bottom()))
        } else {
            Area::between((field.area.left, low), (field.area.right(), high))
        };
        part(scene, *nth, |scene| {
            scene.rectangle(&area, Some((FAINT, 0.6)), None);
            say_on(scene, field, text, (area.left + 2.0, area.top), Anchor::Start, true);
        });
    }
}

/// Draws the annotations that are above the data.
pub(super) fn above(scene: &mut Scene, field: &Field, chart: &Chart, panel: &Panel) {
    let mut taken: Vec<Area> = Vec::new();
    for addition in of_panel(chart, field.place[1]) {
        part(scene, addition.nth, |scene| {
            one_above(scene, field, (chart, panel), addition, &mut taken);
        });
    }
}

/// Draws an annotation: an author's is a part of the page that can be changed.
fn part(scene: &mut Scene, nth: Option<usize>, draw: impl FnOnce(&mut Scene)) {
    match nth {
        Some(nth) => scene.part(Part::Annotation(nth), draw),
        None => draw(scene),
    }
}

/// Draws one annotation; `taken` are the areas of brackets and of the chart's own texts that were already drawn.
fn one_above(
    scene: &mut Scene,
    field: &Field,
    (chart, panel): (&Chart, &Panel),
    Addition { text, kind, nth, .. }: &Addition,
    taken: &mut Vec<Area>,
) {
    match *kind {
        AdditionKind::Line { is_x, at } => {
            let (at, is_lower) = along(field, chart, *nth, is_x, at);
            let stroke = Stroke { dash: vec![4.0, 2.0], ..Stroke::new(INK, 0.7) };
            if is_lower {
                scene.line(&[(at, field.area.top), (at, field.area.bottom())], stroke);
                say(scene, field, text, (at + 2.0, field.area.top), Anchor::Start);
            } else {
                scene.line(&[(field.area.left, at), (field.area.right(), at)], stroke);
                let above = at - field.kind.typist.leading(field.kind.small) - 0.5;
                say(scene, field, text, (field.area.right() - 2.0, above), Anchor::End);
            }
        }
        AdditionKind::Text { x, y } => {
            let is_turned = is_turned(field, chart);
            let (x, y) = if is_turned {
                (along(field, chart, *nth, false, y).0, field.row(x))
            } else {
                (along(field, chart, *nth, true, x).0, along(field, chart, *nth, false, y).0)
            };
            let (typist, size) = (field.kind.typist, field.kind.small);
            let (wide, high) = (typist.width(&Line::plain(text), size), typist.leading(size));
            let top = y - high / 2.0;
            let is_placed = nth.is_none() && !is_turned;
            let clear = is_placed.then(|| clear_place(field, panel, (wide, high), (x, y), taken)).flatten();
            let (x, top) = match clear {
                Some(area) => {
                    taken.push(area);
                    (area.left + area.width / 2.0, area.top)
                }
                None if nth.is_none() => (x, free_top(field, text, (x, top), taken)),
                // An author's text stays where the author puts it.
                None => (x, top),
            };
            say(scene, field, text, (x, top), Anchor::Middle);
        }
        AdditionKind::Bracket { from, to } => bracket(scene, field, (chart, panel), (from, to), text, taken),
        AdditionKind::Region { .. } => {}
    }
}

/// The upper end of a text in the middle of `x`: `top`, or above the texts that it would cover there.
fn free_top(field: &Field, text: &str, (x, mut top): (f64, f64), taken: &mut Vec<Area>) -> f64 {
    let (typist, size) = (field.kind.typist, field.kind.small);
    let (width, height) = (typist.width(&Line::plain(text), size), typist.leading(size));
    let left = x - width / 2.0;
    let is_covered = |area: &&Area, top: f64| {
        area.left < left + width && area.right() > left && area.top < top + height && area.bottom() > top
    };
    while let Some(area) = taken.iter().find(|area| is_covered(area, top)) {
        top = area.top - height - TEXT_GAP;
    }
    taken.push(Area { left, top, width, height });
    top
}

/// Draws text below a position, within the width of the data.
fn say(scene: &mut Scene, field: &Field, text: &str, (x, top): (f64, f64), anchor: Anchor) {
    say_on(scene, field, text, (x, top), anchor, false);
}

fn say_on(scene: &mut Scene, field: &Field, text: &str, (x, top): (f64, f64), anchor: Anchor, is_shaded: bool) {
    if text.is_empty() {
        return;
    }
    let (typist, size) = (field.kind.typist, field.kind.small);
    let line = Line::plain(typist.cut(text, size, field.area.width));
    let wide = typist.width(&line, size);
    let left = match anchor {
        Anchor::Start => x,
        Anchor::Middle => x - wide / 2.0,
        Anchor::End => x - wide,
    };
    let left = left.min(field.area.right() - wide).max(field.area.left);
    let top = top.max(field.area.top);
    // A background keeps lines of the grid and marks away from the text.
    let behind = Area { left: left - 1.0, top, width: wide + 2.0, height: typist.leading(size) };
    if !is_shaded {
        scene.rectangle(&behind, Some(([0xff; 3], 0.85)), None);
    }
    typist.set_in_data(scene, &line, size, (left, top + typist.ascent(size)), (Anchor::Start, INK));
}

/// A point that a bracket may start from or pass: its series and index, its position on the axis of names, half the width of its mark
/// there, and the end of its mark on the axis of values.
struct Standing {
    series: usize,
    x: f64,
    along: f64,
    half: f64,
    end: f64,
}

/// The points of a panel. The numbers of horizontal bars count as parts of their marks.
fn standing(scene: &Scene, field: &Field, chart: &Chart, panel: &Panel) -> Vec<Standing> {
    let is_across = field.is_across();
    let standing = |series: usize, point: &Point, along: f64| {
        let end = field.value(point.value.interval.map_or(point.value.median, |ends| ends.high));
        let place = [field.place[0], field.place[1], series];
        let is_of = |mark: &&Mark| {
            mark.place[..3] == place && panel.series[series].points.get(mark.place[3]).is_some_and(|own| own == point)
        };
        let mark = scene.marks.iter().find(is_of).map(|mark| mark.area);
        let half = mark.map_or(0.0, |area| if is_across { area.height } else { area.width } / 2.0);
        let end = mark.filter(|_| is_across).map_or(end, |area| end.max(area.right()));
        Standing { series, x: point.x, along, half, end }
    };
    let mut points: Vec<Standing> = Vec::new();
    if matches!(chart.geometry, Geometry::Bars | Geometry::Strip) {
        each_slot(field, chart, panel, |series, place, along, _| {
            let nth = panel.series.element_offset(series).unwrap_or_default();
            let here = sound(series).filter(|point| point.x as usize == place);
            points.extend(here.map(|point| standing(nth, point, along)));
        });
    } else {
        for (nth, series) in panel.series.iter().enumerate() {
            let along = |x: f64| if is_across { field.row(x) } else { field.x(x) };
            points.extend(sound(series).map(|point| standing(nth, point, along(point.x))));
        }
    }
    points
}

/// Draws a bracket beyond its two points, all points between them, and earlier brackets: above them, or to their right if bars are
/// horizontal.
fn bracket(
    scene: &mut Scene,
    field: &Field,
    (chart, panel): (&Chart, &Panel),
    (from, to): ((usize, f64), (usize, f64)),
    text: &str,
    taken: &mut Vec<Area>,
) {
    let points = standing(scene, field, chart, panel);
    let point_of = |(series, x): (usize, f64)| points.iter().find(|point| point.series == series && point.x == x);
    let (Some(from), Some(to)) = (point_of(from), point_of(to)) else { return };
    let (first, last) = (from.along.min(to.along), from.along.max(to.along));
    let between =
        points.iter().filter(|point| (first - 0.1..=last + 0.1).contains(&point.along)).map(|point| point.end);
    let (typist, size) = (field.kind.typist, field.kind.small);
    let wide = typist.width(&Line::plain(text), size);
    if field.is_across() {
        let others = taken.iter().filter(|area| area.top < last && area.bottom() > first).map(Area::right);
        let x = between.chain(others).fold(field.area.left, f64::max) + BRACKET.0;
        let x = x.min((field.area.right() + field.right - wide - 2.0).max(field.area.left));
        let ends = [(x - BRACKET.1, first), (x, first), (x, last), (x - BRACKET.1, last)];
        scene.line(&ends, Stroke::new(INK, 0.7));
        let at = (x + 2.0, (first + last) / 2.0 + typist.capital(size) / 2.0);
        typist.set_in_data(scene, &Line::plain(text), size, at, (Anchor::Start, INK));
        taken.push(Area { left: x, top: first, width: 2.0 + wide, height: last - first });
        return;
    }
    // Words wider than the bracket stay clear of the bars beside it.
    let left = ((first + last - wide) / 2.0).min(field.area.right() - wide).max(field.area.left);
    let reach = (left.min(first), (left + wide).max(last));
    let wide = reach.1 - reach.0;
    let others = taken.iter().filter(|area| area.left < reach.1 && area.right() > reach.0).map(|area| area.top);
    let is_below = |point: &&Standing| point.along + point.half > reach.0 && point.along - point.half < reach.1;
    let below = points.iter().filter(is_below).map(|point| point.end);
    let y = below.chain(others).fold(field.area.bottom(), f64::min) - BRACKET.0;
    let y = y.max(field.area.top + typist.leading(size));
    let ends = [(first, y + BRACKET.1), (first, y), (last, y), (last, y + BRACKET.1)];
    scene.line(&ends, Stroke::new(INK, 0.7));
    let words = y - typist.leading(size);
    say(scene, field, text, ((first + last) / 2.0, words), Anchor::Middle);
    taken.push(Area { left: reach.0, top: words, width: wide, height: y - words });
}
