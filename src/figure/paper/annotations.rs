//! What an author adds to the data of a panel: shaded regions below it; lines, brackets and words above it.

use super::letter::{Anchor, Line};
use super::look::{FAINT, INK};
use super::marks::{Field, each_slot, sound};
use super::path::Area;
use super::scene::{Scene, Stroke};
use crate::figure::chart::{AdditionKind, Chart, Geometry, Panel};

/// The gap between a bracket and what is below it, and the length of its ends.
const BRACKET: (f64, f64) = (4.0, 2.5);

/// Whether the x axis stands on the left: rows of what went on when have their names on the y axis.
fn is_turned(field: &Field, chart: &Chart) -> bool {
    field.is_across() && chart.geometry != Geometry::Gantt
}

/// What an author adds to the data of a panel: those of all panels, and its own.
fn of_panel(chart: &Chart, place: usize) -> impl Iterator<Item = (&str, AdditionKind)> {
    let own = chart.additions.iter().filter(move |addition| addition.panel.is_none_or(|panel| panel == place));
    own.map(|addition| (addition.text.as_str(), addition.kind))
}

/// Along an axis: the place on the page, and whether the axis is the lower one.
fn along(field: &Field, chart: &Chart, is_x: bool, value: f64) -> (f64, bool) {
    let is_lower = is_x != is_turned(field, chart);
    let place = if is_lower {
        field.area.left + field.bottom.shown_place(value) * field.area.width
    } else {
        field.area.bottom() - field.left.shown_place(value) * field.area.height
    };
    (place, is_lower)
}

/// Draws what lies below the data.
pub(super) fn below(scene: &mut Scene, field: &Field, chart: &Chart) {
    for (text, kind) in of_panel(chart, field.place[1]) {
        let AdditionKind::Region { is_x, low, high } = kind else { continue };
        let ((low, is_lower), (high, _)) = (along(field, chart, is_x, low), along(field, chart, is_x, high));
        let area = if is_lower {
            Area::between((low, field.area.top), (high, field.area.bottom()))
        } else {
            Area::between((field.area.left, low), (field.area.right(), high))
        };
        scene.rectangle(&area, Some((FAINT, 0.6)), None);
        say_on(scene, field, text, (area.left + 2.0, area.top), Anchor::Start, true);
    }
}

/// Draws what lies above the data.
pub(super) fn above(scene: &mut Scene, field: &Field, chart: &Chart, panel: &Panel) {
    let mut taken: Vec<Area> = Vec::new();
    for (text, kind) in of_panel(chart, field.place[1]) {
        match kind {
            AdditionKind::Line { is_x, at } => {
                let (at, is_lower) = along(field, chart, is_x, at);
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
                let (x, y) = if is_turned(field, chart) {
                    (along(field, chart, false, y).0, field.row(x))
                } else {
                    (along(field, chart, true, x).0, along(field, chart, false, y).0)
                };
                let top = y - field.kind.typist.leading(field.kind.small) / 2.0;
                say(scene, field, text, (x, top), Anchor::Middle);
            }
            AdditionKind::Bracket { from, to } => bracket(scene, field, (chart, panel), (from, to), text, &mut taken),
            AdditionKind::Region { .. } => {}
        }
    }
}

/// Sets words below a place, within the data's width.
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
    // Lines of the grid and marks of the data do not run through it.
    let behind = Area { left: left - 1.0, top, width: wide + 2.0, height: typist.leading(size) };
    if !is_shaded {
        scene.rectangle(&behind, Some(([0xff; 3], 0.85)), None);
    }
    typist.set_in_data(scene, &line, size, (left, top + typist.ascent(size)), (Anchor::Start, INK));
}

/// Draws a bracket above two points and all between them, and above brackets that were drawn before.
fn bracket(
    scene: &mut Scene,
    field: &Field,
    (chart, panel): (&Chart, &Panel),
    (from, to): ((usize, f64), (usize, f64)),
    text: &str,
    taken: &mut Vec<Area>,
) {
    // Each point by its series and place: where it stands, and the top of its mark.
    let mut points: Vec<(usize, f64, f64, f64)> = Vec::new();
    let top = |value: &crate::analysis::Value| field.y(value.interval.map_or(value.median, |ends| ends.high));
    let place_of = |series: *const crate::figure::Series| {
        panel.series.iter().position(|known| std::ptr::eq(known, series)).unwrap_or(0)
    };
    if matches!(chart.geometry, Geometry::Bars | Geometry::Strip) {
        each_slot(field, chart, panel, |series, place, x, _| {
            let here = sound(series).filter(|point| point.x as usize == place);
            points.extend(here.map(|point| (place_of(series), point.x, x, top(&point.value))));
        });
    } else {
        for (nth, series) in panel.series.iter().enumerate() {
            points.extend(sound(series).map(|point| (nth, point.x, field.x(point.x), top(&point.value))));
        }
    }
    let found = |(series, x): (usize, f64)| points.iter().find(|point| point.0 == series && point.1 == x);
    let (Some(from), Some(to)) = (found(from), found(to)) else { return };
    let (left, right) = (from.2.min(to.2), from.2.max(to.2));
    let (typist, size) = (field.kind.typist, field.kind.small);
    let wide = typist.width(&Line::plain(text), size).max(right - left);
    let reach = ((left + right - wide) / 2.0, (left + right + wide) / 2.0);
    let tops = points.iter().filter(|point| (left - 0.1..=right + 0.1).contains(&point.2)).map(|point| point.3);
    let others = taken.iter().filter(|area| area.left < reach.1 && area.right() > reach.0).map(|area| area.top);
    let y = tops.chain(others).fold(field.area.bottom(), f64::min) - BRACKET.0;
    let y = y.max(field.area.top + typist.leading(size));
    let ends = [(left, y + BRACKET.1), (left, y), (right, y), (right, y + BRACKET.1)];
    scene.line(&ends, Stroke::new(INK, 0.7));
    let words = y - typist.leading(size);
    say(scene, field, text, ((left + right) / 2.0, words), Anchor::Middle);
    taken.push(Area { left: reach.0, top: words, width: wide, height: y - words });
}
