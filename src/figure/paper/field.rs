//! The area in which the data of a panel is drawn: the positions of values in it, and the marks that every geometry has.

use super::letter::{Anchor, Line};
use super::look::{INK, Paint};
use super::path::{Area, Segment};
use super::scene::{Colour, Mark, Part, Scene, Stroke};
use super::side::{Side, Type, runs_across};
use crate::analysis::Value;
use crate::figure::chart::{Panel, Point, Role, Series};
use crate::figure::style::Palette;

/// Colour and width of the border of error bars, so that a hatch does not hide them.
pub(super) const CASING: (Colour, f64) = ([0xff; 3], 1.6);
/// Gap between a bar and its number, and between two numbers.
pub(super) const NUMBER_GAP: f64 = 4.0;

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
    pub fn holds(&self, point: &Point) -> bool {
        let (names, numbers) = if self.is_across() { (self.left, self.bottom) } else { (self.bottom, self.left) };
        !self.is_cut || names.shows(point.x) && numbers.shows(point.value.median)
    }

    pub fn x(&self, value: f64) -> f64 {
        self.area.left + self.bottom.place(value) * self.area.width
    }

    pub fn y(&self, value: f64) -> f64 {
        self.area.bottom() - self.left.place(value) * self.area.height
    }

    /// The middle of a row, counted from the top.
    pub fn row(&self, row: f64) -> f64 {
        self.area.top + self.left.place(row) * self.area.height
    }

    /// The number of rows.
    pub fn rows(&self) -> f64 {
        if let Side::Names(names, _) = self.left { names.len().max(1) as f64 } else { 1.0 }
    }

    /// Whether values run from left to right and names from top to bottom.
    pub fn is_across(&self) -> bool {
        runs_across(self.left, self.bottom)
    }

    /// The length of the axis of names.
    pub fn length(&self) -> f64 {
        if self.is_across() { self.area.height } else { self.area.width }
    }

    /// The middle of a place on the axis of names.
    pub fn middle(&self, place: f64) -> f64 {
        if self.is_across() { self.row(place) } else { self.x(place) }
    }

    /// The position of a value on the axis of values.
    pub fn value(&self, value: f64) -> f64 {
        if self.is_across() { self.x(value) } else { self.y(value) }
    }

    /// The point at these positions on the axis of names and on the axis of values.
    pub fn at(&self, along: f64, value: f64) -> (f64, f64) {
        if self.is_across() { (value, along) } else { (along, value) }
    }

    /// The area between two positions on the axis of names and two on the axis of values.
    pub fn between(&self, along: (f64, f64), values: (f64, f64)) -> Area {
        Area::between(self.at(along.0, values.0), self.at(along.1, values.1))
    }

    pub fn paint(&self, series: &Series) -> Paint {
        Paint::of(&series.look, series.variant, self.palette)
    }

    /// The part of the page that a series' line is.
    pub fn line_of(&self, panel: &Panel, series: &Series) -> Part {
        let place = panel.series.element_offset(series).unwrap_or_default();
        Part::Line([self.place[0], self.place[1], place])
    }

    /// Draws an interval with caps, at a position on the axis of names.
    pub fn whisker(&self, scene: &mut Scene, along: f64, value: &Value, cap: f64) {
        self.whisker_in(scene, along, value, cap, &(INK, 0.6));
    }

    /// Draws an interval in this colour and width.
    pub fn whisker_in(&self, scene: &mut Scene, along: f64, value: &Value, cap: f64, (colour, width): &(Colour, f64)) {
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
    pub fn whisker_across(&self, scene: &mut Scene, point: &Point, cap: f64) {
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
    pub fn mark(&self, scene: &mut Scene, (panel, series, point): (&Panel, &Series, &Point), area: Area) {
        let place = (panel.series.element_offset(series), series.points.element_offset(point));
        if let (Some(series), Some(of_point)) = place {
            let place = [self.place[0], self.place[1], series, of_point];
            scene.marks.push(Mark { area, cell: point.cell.clone(), place });
        }
    }

    /// Draws numbers after the end of a bar, and returns the area of the bar and its numbers.
    pub fn numbers(&self, scene: &mut Scene, bar: Area, end: f64, numbers: &[(String, Colour)]) -> Area {
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
pub(super) fn around((x, y): (f64, f64), radius: f64) -> Area {
    Area::between((x - radius, y - radius), (x + radius, y + radius))
}

/// The points of a series that can be drawn.
pub(super) fn sound(series: &Series) -> impl Iterator<Item = &Point> {
    series.points.iter().filter(|point| point.value.median.is_finite() && point.x.is_finite())
}

/// The points that a paper prints for a series.
pub(super) fn published<'a>(panel: &'a Panel, series: &Series) -> impl Iterator<Item = &'a Point> {
    let is_published = |other: &&Series| other.role == Role::Published && other.name == series.name;
    panel.series.iter().find(is_published).into_iter().flat_map(sound)
}
