//! Draws the data of a panel, for each geometry.

use super::legend::{LISTED, ideal_stroke};
use super::letter::{Anchor, Line};
use super::look::{INK, Paint, bar, hollow, luminance, marker, mix};
use super::path::{Area, Segment, polygon};
use super::scene::{Colour, Mark, Part, Scene, Stroke};
use super::side::{AXIS, Side, Type, runs_across};
use crate::analysis::Value;
use crate::figure::chart::{BOX_REPEATS, Chart, Geometry, Panel, Point, Role, Series};
use crate::figure::number::{short, significant};
use crate::figure::style::Palette;

/// Gap between the data of a heat map and the numbers of its key, in points.
const HEAT_KEY: f64 = 13.0;
/// Colour and width of the border of error bars, so that a hatch does not hide them.
const CASING: (Colour, f64) = ([0xff; 3], 1.6);
/// Width of lines in points.
pub(super) const LINE: f64 = 1.1;
/// The share of the room of a place that bars take, and their maximum width in points.
pub(super) const BARS: (f64, f64) = (0.78, 22.0);
/// Minimum thickness of horizontal bars in points.
const LEAST_BAR: f64 = 10.7;
/// Gap between a bar and its number, and between two numbers.
const NUMBER_GAP: f64 = 4.0;
/// The colour of less important text.
const MUTED: Colour = [0x66; 3];

/// The area in which a panel's data is drawn.
pub(super) struct Field<'a> {
    pub area: Area,
    pub left: &'a Side,
    pub bottom: &'a Side,
    pub palette: Palette,
    pub kind: Type,
    /// The indices of its chart and of its panel.
    pub place: [usize; 2],
    /// The share of the room of a place that bars take, and their maximum width in points.
    pub bars: (f64, f64),
    /// Width of lines in points.
    pub line: f64,
    /// Room to the right of the data in points.
    pub right: f64,
    /// Whether an author sets limits, so that values may be beyond the axes.
    pub is_cut: bool,
}

impl Field<'_> {
    /// Whether a point is within both axes.
    fn holds(&self, point: &Point) -> bool {
        let (names, numbers) = if self.is_across() { (self.left, self.bottom) } else { (self.bottom, self.left) };
        !self.is_cut || names.shows(point.x) && numbers.shows(point.value.median)
    }

    pub(super) fn x(&self, value: f64) -> f64 {
        self.area.left + self.bottom.place(value) * self.area.width
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        self.area.bottom() - self.left.place(value) * self.area.height
    }

    /// The middle of a row, counted from the top.
    pub(super) fn row(&self, row: f64) -> f64 {
        self.area.top + self.left.place(row) * self.area.height
    }

    /// The number of rows.
    fn rows(&self) -> f64 {
        if let Side::Names(names, _) = self.left { names.len().max(1) as f64 } else { 1.0 }
    }

    /// Whether values run from left to right and names from top to bottom.
    pub fn is_across(&self) -> bool {
        runs_across(self.left, self.bottom)
    }

    /// The length of the axis of names.
    fn length(&self) -> f64 {
        if self.is_across() { self.area.height } else { self.area.width }
    }

    /// The middle of a place on the axis of names.
    fn middle(&self, place: f64) -> f64 {
        if self.is_across() { self.row(place) } else { self.x(place) }
    }

    /// The position of a value on the axis of values.
    pub(super) fn value(&self, value: f64) -> f64 {
        if self.is_across() { self.x(value) } else { self.y(value) }
    }

    /// The point at these positions on the axis of names and on the axis of values.
    pub(super) fn at(&self, along: f64, value: f64) -> (f64, f64) {
        if self.is_across() { (value, along) } else { (along, value) }
    }

    /// The area between two positions on the axis of names and two on the axis of values.
    fn between(&self, along: (f64, f64), values: (f64, f64)) -> Area {
        Area::between(self.at(along.0, values.0), self.at(along.1, values.1))
    }

    fn paint(&self, series: &Series) -> Paint {
        Paint::of(&series.look, series.variant, self.palette)
    }

    /// The part of the page that a series' line is.
    fn line_of(&self, panel: &Panel, series: &Series) -> Part {
        let place = panel.series.element_offset(series).unwrap_or_default();
        Part::Line([self.place[0], self.place[1], place])
    }

    /// Draws an interval with caps, at a position on the axis of names.
    fn whisker(&self, scene: &mut Scene, along: f64, value: &Value, cap: f64) {
        self.whisker_in(scene, along, value, cap, &(INK, 0.6));
    }

    /// Draws an interval in this colour and width.
    fn whisker_in(&self, scene: &mut Scene, along: f64, value: &Value, cap: f64, (colour, width): &(Colour, f64)) {
        let Some(ends) = value.interval.filter(|ends| ends.low.is_finite() && ends.high.is_finite()) else { return };
        let (low, high) = (self.value(ends.low), self.value(ends.high));
        let line = |(x, y): (f64, f64)| Segment::Line(x, y);
        let start = |(x, y): (f64, f64)| Segment::Move(x, y);
        let segments = vec![
            start(self.at(along, low)),
            line(self.at(along, high)),
            start(self.at(along - cap, low)),
            line(self.at(along + cap, low)),
            start(self.at(along - cap, high)),
            line(self.at(along + cap, high)),
        ];
        scene.path(segments, None, Some(Stroke::new(*colour, *width)));
    }

    /// Draws the interval of a point's position with caps.
    fn whisker_across(&self, scene: &mut Scene, point: &Point, cap: f64) {
        let Some(ends) = point.across.filter(|ends| ends.low.is_finite() && ends.high.is_finite()) else { return };
        let (low, high, y) = (self.x(ends.low), self.x(ends.high), self.y(point.value.median));
        let line = |x: f64, y: f64| Segment::Line(x, y);
        let segments = vec![
            Segment::Move(low, y),
            line(high, y),
            Segment::Move(low, y - cap),
            line(low, y + cap),
            Segment::Move(high, y - cap),
            line(high, y + cap),
        ];
        scene.path(segments, None, Some(Stroke::new(INK, 0.6)));
    }

    /// Records that an area is the mark of a point of a series of this panel.
    fn mark(&self, scene: &mut Scene, (panel, series, point): (&Panel, &Series, &Point), area: Area) {
        let place = (panel.series.element_offset(series), series.points.element_offset(point));
        if let (Some(series), Some(of_point)) = place {
            let place = [self.place[0], self.place[1], series, of_point];
            scene.marks.push(Mark { area, cell: point.cell.clone(), place });
        }
    }

    /// Draws numbers after the end of a bar, and returns the area of the bar and its numbers.
    fn numbers(&self, scene: &mut Scene, bar: Area, end: f64, numbers: &[(String, Colour)]) -> Area {
        let (typist, size) = (self.kind.typist, self.kind.small);
        let mut x = end.max(bar.right()) + NUMBER_GAP;
        let y = bar.top + bar.height / 2.0 + typist.capital(size) / 2.0;
        for (number, colour) in numbers {
            let line = Line::plain(number);
            typist.set_in_data(scene, &line, size, (x, y), (Anchor::Start, *colour));
            x += typist.width(&line, size) + NUMBER_GAP;
        }
        Area { width: x - NUMBER_GAP - bar.left, ..bar }
    }
}

/// The square of this radius around a point.
fn around((x, y): (f64, f64), radius: f64) -> Area {
    Area::between((x - radius, y - radius), (x + radius, y + radius))
}

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

pub(super) fn sound(series: &Series) -> impl Iterator<Item = &Point> {
    series.points.iter().filter(|point| point.value.median.is_finite() && point.x.is_finite())
}

/// The measured series. Published values are drawn on top of them.
fn measured(panel: &Panel) -> impl Iterator<Item = &Series> {
    panel.series.iter().filter(|series| series.role == Role::Measured)
}

/// The points that a paper prints for a series.
fn published<'a>(panel: &'a Panel, series: &Series) -> impl Iterator<Item = &'a Point> {
    let is_published = |other: &&Series| other.role == Role::Published && other.name == series.name;
    panel.series.iter().find(is_published).into_iter().flat_map(sound)
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

fn bars(scene: &mut Scene, field: &Field, chart: &Chart, panel: &Panel) {
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

fn stacked(scene: &mut Scene, field: &Field, chart: &Chart, panel: &Panel, percent: bool) {
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

fn strip(scene: &mut Scene, field: &Field, chart: &Chart, panel: &Panel) {
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

/// The colour for a position within a heat map's range.
fn shade(share: f64, palette: Palette) -> Colour {
    let stops: [Colour; 4] = match palette {
        // No colour is nearly grey, because a dark page would invert greys.
        Palette::Colour => [[0xdc, 0xea, 0xf6], [0x9c, 0xcb, 0xe8], [0x00, 0x72, 0xb2], [0x00, 0x2f, 0x55]],
        Palette::Grey => [[0xf4; 3], [0xc4; 3], [0x80; 3], [0x38; 3]],
    };
    let at = share.clamp(0.0, 1.0) * 3.0;
    let below = (at.floor() as usize).min(2);
    mix(stops[below], stops[below + 1], at - below as f64)
}

/// The room for the key of a heat map, with numbers of up to six characters.
pub(super) fn heat_key(kind: Type) -> f64 {
    HEAT_KEY + kind.typist.width(&Line::plain("0.0000"), kind.small) + 1.0
}

fn heat(scene: &mut Scene, field: &Field, chart: &Chart, panel: &Panel) {
    let values = chart.series().flat_map(sound).map(|point| point.value.median);
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), one| (low.min(one), high.max(one)));
    let log = low > 0.0 && high / low > 30.0;
    let share = |value: f64| match () {
        () if high <= low => 0.5,
        () if log => (value / low).ln() / (high / low).ln(),
        () => (value - low) / (high - low),
    };
    let Side::Names(rows, _) = field.left else { return };
    let (width, height) =
        (field.area.width / chart.x.categories.len().max(1) as f64, field.area.height / rows.len().max(1) as f64);
    let (typist, size) = (field.kind.typist, field.kind.small);
    let text = |value: f64| significant(value).replace('-', "\u{2212}");
    let fits = |text: &str| typist.width(&Line::plain(text), size) < width - 2.0 && size < height;
    let all_fit = chart.series().flat_map(sound).all(|point| fits(&text(point.value.median)));
    for series in &panel.series {
        let Some(row) = rows.iter().position(|name| *name == series.name) else { continue };
        for point in sound(series) {
            let (x, y) = (field.x(point.x), field.row(row as f64));
            let area = Area { left: x - width / 2.0, top: y - height / 2.0, width, height };
            let colour = shade(share(point.value.median), field.palette);
            scene.rectangle(&area, Some((colour, 1.0)), Some(Stroke::new([0xff; 3], 0.8)));
            field.mark(scene, (panel, series, point), area);
            if all_fit {
                let ink = if luminance(colour) > 0.35 { INK } else { [0xff; 3] };
                let at = (x, y + typist.capital(size) / 2.0);
                typist.set_on_colour(scene, &Line::plain(text(point.value.median)), size, at, ink);
            }
        }
    }
    // The scale of colours, with numbers.
    let (left, steps) = (field.area.right() + 6.0, 24);
    let step = field.area.height / f64::from(steps);
    for index in 0..steps {
        let colour = shade((f64::from(index) + 0.5) / f64::from(steps), field.palette);
        // Each step is a little longer than needed, so that no gap is visible.
        let top = field.area.bottom() - f64::from(index + 1) * step;
        let area = Area { left, top, width: 5.0, height: step + if index == 0 { 0.0 } else { 0.2 } };
        scene.rectangle(&area, Some((colour, 1.0)), None);
    }
    if low.is_finite() && high > low {
        let room = heat_key(field.kind) - HEAT_KEY;
        let label = |value: f64| Line::plain(typist.cut(&text(value), size, room));
        let capital = typist.capital(size);
        let left = field.area.right() + HEAT_KEY;
        typist.set(scene, &label(high), size, (left, field.area.top + capital), Anchor::Start);
        typist.set(scene, &label(low), size, (left, field.area.bottom()), Anchor::Start);
    }
}

/// With more points than this in a panel, each is a small square without an edge: other signs could not be told apart, and take longer.
const DENSE: usize = 2000;

/// Draws measured points together with a front, with roofs or with fitted laws.
fn scatter(scene: &mut Scene, field: &Field, panel: &Panel) {
    let is_dense = panel.series.iter().map(|series| series.points.len()).sum::<usize>() > DENSE;
    let ideal = panel.series.iter().filter(|series| series.role == Role::Ideal);
    for series in ideal.chain(panel.series.iter().filter(|series| series.role == Role::Measured)) {
        let paint = field.paint(series);
        if series.role == Role::Ideal {
            let points: Vec<(f64, f64)> =
                sound(series).map(|point| (field.x(point.x), field.y(point.value.median))).collect();
            scene.line(&points, ideal_stroke(&paint));
            if let Some((x, y)) = points.last().filter(|_| !LISTED.contains(&series.name.as_str())) {
                let (typist, size) = (field.kind.typist, field.kind.small);
                let name = Line::plain(typist.cut(&series.name, size, field.area.width));
                let above = y - 2.0 - typist.capital(size) >= field.area.top;
                let base = if above { y - 2.0 } else { y + 2.0 + typist.capital(size) };
                let half = typist.width(&name, size) / 2.0;
                let at = ((x - half).max(field.area.left + half), base);
                typist.set_in_data(scene, &name, size, at, (Anchor::Middle, INK));
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
