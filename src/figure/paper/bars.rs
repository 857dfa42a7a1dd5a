//! Draws what is at the named places of an axis: bars, stacked parts, and every repeat.

use super::field::{CASING, Field, NUMBER_GAP, around, published, sound};
use super::letter::Line;
use super::look::{INK, bar, hollow, marker};
use super::scene::{Colour, Scene, Stroke};
use super::side::{Side, Type};
use crate::analysis::Value;
use crate::figure::chart::{BOX_REPEATS, Chart, Geometry, Panel, Point, Role, Series};
use crate::figure::number::short;
use crate::figure::palette::mix;

/// The share of the room of a place that bars take, and their maximum width in points.
pub(super) const BARS: (f64, f64) = (0.78, 22.0);
/// Minimum thickness of horizontal bars in points.
const LEAST_BAR: f64 = 10.7;
/// The colour of less important text.
const MUTED: Colour = [0x66; 3];

/// The numbers after the bar of a point: its value as the axis shows it, and its ratio to the baseline.
fn numbers_of(point: &Point, axis: &Side) -> Vec<(String, Colour)> {
    let ratio = point.ratio.map(|ratio| (format!("{}×", short(ratio.median)), MUTED));
    std::iter::once((short(axis.shown(point.value.median)), INK)).chain(ratio).collect()
}

/// The room to the right of horizontal bars and points, for their numbers or for half of the last tick's label.
pub(super) fn numbers_room(chart: &Chart, axis: &Side, kind: Type) -> f64 {
    let wide = |numbers: &[(String, Colour)]| -> f64 {
        numbers.iter().map(|(text, _)| kind.typist.width(&Line::plain(text), kind.small) + NUMBER_GAP).sum()
    };
    match chart.geometry {
        Geometry::Bars => {
            let points = chart.series().filter(|series| series.role == Role::Measured).flat_map(sound);
            points.map(|point| wide(&numbers_of(point, axis))).fold(0.0, f64::max)
        }
        Geometry::Stacked => wide(&[(short(axis.shown(greatest_sum(chart))), INK)]),
        Geometry::Percent | Geometry::Strip => 2.0 * kind.small,
        _ => 0.0,
    }
}

/// The smallest and the greatest height of horizontal bars.
pub(super) fn heights_across(chart: &Chart) -> (f64, f64) {
    let (one, widest) = match chart.geometry {
        Geometry::Stacked | Geometry::Percent => (1, 1.4 * BARS.1),
        _ => {
            let slots = chart.panels.iter().flat_map(|panel| slots(chart, panel));
            (slots.map(|slot| slot.len()).max().unwrap_or(1).max(1), BARS.1)
        }
    };
    let bars = (one * chart.x.categories.len()) as f64 / BARS.0;
    (bars * LEAST_BAR, bars * widest)
}

/// The measured series. Published values are drawn on top of them.
fn measured(panel: &Panel) -> impl Iterator<Item = &Series> {
    panel.series.iter().filter(|series| series.role == Role::Measured)
}

/// The series that have a point at each place, in order. If all series of the panel have a point at some place, each series keeps its
/// slot everywhere.
fn slots<'a>(chart: &Chart, panel: &'a Panel) -> Vec<Vec<Option<&'a Series>>> {
    let places = chart.x.categories.len();
    let at = |place: usize| -> Vec<&Series> {
        let here = |series: &&Series| sound(series).any(|point| point.x as usize == place);
        measured(panel).filter(here).collect()
    };
    let full = (0..places).any(|place| at(place).len() == measured(panel).count());
    let slot = |place: usize| match full {
        true => {
            let here = at(place);
            measured(panel).map(|series| here.iter().find(|one| std::ptr::eq(**one, series)).copied()).collect()
        }
        false => at(place).into_iter().map(Some).collect(),
    };
    (0..places).map(slot).collect()
}

/// Calls a function for each series at each place, with the middle and the width of its slot.
pub(super) fn each_slot(field: &Field, chart: &Chart, panel: &Panel, mut call: impl FnMut(&Series, usize, f64, f64)) {
    let slots = slots(chart, panel);
    let most = slots.iter().map(Vec::len).max().unwrap_or(1).max(1);
    let place_width = field.length() / slots.len().max(1) as f64;
    let width = (field.bars.0 * place_width / most as f64).min(field.bars.1);
    for (place, slot) in slots.iter().enumerate() {
        let first = field.middle(place as f64) - width * (slot.len() as f64 - 1.0) / 2.0;
        for (index, series) in slot.iter().enumerate() {
            if let Some(series) = series {
                call(series, place, first + index as f64 * width, width);
            }
        }
    }
}

pub(super) fn bars(scene: &mut Scene, field: &Field, chart: &Chart, panel: &Panel) {
    each_slot(field, chart, panel, |series, place, middle, width| {
        let paint = field.paint(series);
        let printed: Vec<&Point> = published(panel, series).filter(|point| point.x as usize == place).collect();
        for point in sound(series).filter(|point| point.x as usize == place) {
            let half = 0.47 * width;
            let ends = (field.value(0.0), field.value(point.value.median));
            let mut area = field.between((middle - half, middle + half), ends);
            bar(scene, &area, &paint);
            let cap = (0.5 * half).min(2.2);
            field.whisker_in(scene, middle, &point.value, cap, &CASING);
            field.whisker(scene, middle, &point.value, cap);
            if field.is_across() {
                let last = |value: &Value| field.value(value.interval.map_or(value.median, |ends| ends.high));
                let end = printed.iter().map(|point| last(&point.value) + 2.0).fold(last(&point.value), f64::max);
                area = field.numbers(scene, area, end, &numbers_of(point, field.bottom));
            }
            field.mark(scene, (panel, series, point), area);
        }
        for point in printed {
            field.whisker(scene, middle, &point.value, 1.2);
            hollow(scene, field.at(middle, field.value(point.value.median)), 2.1, INK);
        }
    });
}

/// The greatest sum of parts over all places.
pub(super) fn greatest_sum(chart: &Chart) -> f64 {
    let sums = chart.panels.iter().flat_map(|panel| (0..chart.x.categories.len()).map(|place| sum(panel, place)));
    sums.fold(0.0, f64::max)
}

fn sum(panel: &Panel, place: usize) -> f64 {
    let points = panel.series.iter().flat_map(sound).filter(|point| point.x as usize == place);
    points.map(|point| point.value.median.max(0.0)).sum()
}

pub(super) fn stacked(scene: &mut Scene, field: &Field, chart: &Chart, panel: &Panel, percent: bool) {
    let width = (field.bars.0 * field.length() / chart.x.categories.len().max(1) as f64).min(1.4 * field.bars.1);
    for place in 0..chart.x.categories.len() {
        let whole = sum(panel, place);
        let scale = if percent && whole > 0.0 { 100.0 / whole } else { 1.0 };
        let (middle, mut below) = (field.middle(place as f64), 0.0);
        let along = (middle - width / 2.0, middle + width / 2.0);
        for series in &panel.series {
            for point in sound(series).filter(|point| point.x as usize == place) {
                let above = below + scale * point.value.median.max(0.0);
                let area = field.between(along, (field.value(below), field.value(above)));
                bar(scene, &area, &field.paint(series));
                // Parts that are narrower than a line are left out, because they would only cover their neighbours.
                if area.width.min(area.height) >= 0.6 {
                    field.mark(scene, (panel, series, point), area);
                }
                below = above;
            }
        }
        if field.is_across() && !percent {
            let all = field.between(along, (field.value(0.0), field.value(below)));
            field.numbers(scene, all, all.right(), &[(short(field.bottom.shown(below)), INK)]);
        }
    }
}

pub(super) fn strip(scene: &mut Scene, field: &Field, chart: &Chart, panel: &Panel) {
    each_slot(field, chart, panel, |series, place, middle, width| {
        let paint = field.paint(series);
        let here = sound(series).filter(|point| point.x as usize == place && field.holds(point));
        let repeats: Vec<&Point> = here.collect();
        if repeats.is_empty() {
            return;
        }
        let half = (0.36 * width).min(8.0);
        let mut values: Vec<f64> = repeats.iter().map(|point| point.value.median).collect();
        values.sort_by(f64::total_cmp);
        let along = (middle - half, middle + half);
        if values.len() >= BOX_REPEATS {
            let (low, high) = (field.value(quantile(&values, 0.25)), field.value(quantile(&values, 0.75)));
            let (least, most) = (field.value(values[0]), field.value(values[values.len() - 1]));
            scene.line(&[field.at(middle, least), field.at(middle, low)], Stroke::new(INK, 0.6));
            scene.line(&[field.at(middle, high), field.at(middle, most)], Stroke::new(INK, 0.6));
            let edge = Some(Stroke::new(INK, 0.6));
            scene.rectangle(&field.between(along, (low, high)), Some((mix(paint.fill, [0xff; 3], 0.55), 1.0)), edge);
        }
        for (index, point) in repeats.iter().enumerate() {
            // Repeats are drawn next to each other, so that equal values do not hide each other.
            let share = if repeats.len() > 1 { index as f64 / (repeats.len() - 1) as f64 - 0.5 } else { 0.0 };
            let at = field.at(middle + 1.3 * half * share, field.value(point.value.median));
            marker(scene, at, 1.8, &paint);
            field.mark(scene, (panel, series, point), around(at, 1.8));
        }
        let median = field.value(quantile(&values, 0.5));
        scene.line(&[field.at(along.0, median), field.at(along.1, median)], Stroke::new(INK, 1.0));
    });
}

/// A quantile of sorted values, by linear interpolation.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = share * sorted.len().saturating_sub(1) as f64;
    let (below, above) = (at.floor() as usize, at.ceil() as usize);
    match (sorted.get(below), sorted.get(above)) {
        (Some(low), Some(high)) => low + (high - low) * at.fract(),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_values_in_proportion() {
        assert_eq!(quantile(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.25), 2.0);
        assert_eq!(quantile(&[1.0, 2.0], 0.5), 1.5);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }
}
