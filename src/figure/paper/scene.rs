//! A page as paths and lines of text. Positions are in points from the upper left corner. Every file format is written from a scene.

use std::ops::Range;

use super::font::{Face, Glyph};
use super::path::{Area, Segment, bounds, rectangle};
use crate::analysis::CellKey;
use crate::figure::chart::{Chart, Panel, Point, Series};
use crate::figure::overrides::AxisName;

/// A colour as sRGB bytes.
pub type Colour = [u8; 3];

/// How a path's line is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Stroke {
    /// Its colour.
    pub colour: Colour,
    /// Its width in points.
    pub width: f64,
    /// Lengths of strokes and gaps in turn, in points; empty for a solid line.
    pub dash: Vec<f64>,
    /// Whether ends and corners are round.
    pub round: bool,
}

impl Stroke {
    /// A solid line.
    pub fn new(colour: Colour, width: f64) -> Self {
        Self { colour, width, dash: Vec::new(), round: false }
    }
}

/// One line of text in one face and size.
#[derive(Clone, Debug, PartialEq)]
pub struct Text {
    /// The distance of the beginning of its baseline from the left.
    pub x: f64,
    /// The distance of the beginning of its baseline from the top.
    pub y: f64,
    /// Whether it runs upwards instead of to the right.
    pub upwards: bool,
    /// Its text.
    pub text: String,
    /// Its face.
    pub face: Face,
    /// Its size in points.
    pub size: f64,
    /// Its colour.
    pub colour: Colour,
    /// Its letters with their positions.
    pub glyphs: Vec<Glyph>,
    /// Whether it belongs to the data, such as a number in a heat map.
    pub in_data: bool,
    /// Whether it is on a coloured area, which a dark page does not change.
    pub on_colour: bool,
}

impl Text {
    /// Its length in points.
    pub fn width(&self) -> f64 {
        self.glyphs.iter().map(|glyph| glyph.advance).sum::<f64>() * self.size
    }

    /// The area that it covers.
    pub fn area(&self) -> Area {
        let (up, down) = (self.face.ascent() * self.size, self.face.descent() * self.size);
        if self.upwards {
            Area::between((self.x - up, self.y - self.width()), (self.x + down, self.y))
        } else {
            Area::between((self.x, self.y - up), (self.x + self.width(), self.y + down))
        }
    }
}

/// An item on the page.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A path that is filled, stroked, or both.
    Path {
        /// Its parts.
        segments: Vec<Segment>,
        /// The colour and opacity (0 to 1) of its filling.
        fill: Option<(Colour, f64)>,
        /// How its line is drawn.
        stroke: Option<Stroke>,
    },
    /// A line of text.
    Text(Text),
}

impl Item {
    /// The area that it covers, without the width of its stroke; `None` for a path without points.
    fn area(&self) -> Option<Area> {
        match self {
            Self::Text(text) => Some(text.area()),
            Self::Path { segments, .. } => bounds(segments),
        }
    }
}

/// A part of the page that can be pointed at. Numbers are indices into the charts that were laid out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The title of the whole figure.
    Title,
    /// A legend.
    Legend,
    /// An entry of a legend, by the name of its series.
    Entry(String),
    /// The title of a panel: the indices of its chart and of the panel.
    Panel(usize, usize),
    /// The name of an axis of a chart.
    AxisName(usize, AxisName),
    /// The numbers of an axis of a chart.
    Ticks(usize, AxisName),
    /// The name of a place on an axis of a chart.
    Place(usize, AxisName, usize),
    /// A line with its points: the indices of its chart, panel and series.
    Line([usize; 3]),
    /// A point, by the indices of its mark.
    Point([usize; 4]),
    /// An annotation of an author, by its index in the figure's annotations.
    Annotation(usize),
    /// The lines below everything.
    Caption,
}

impl Part {
    /// This part, with its charts numbered after `others` other charts.
    fn of_later_charts(self, others: usize) -> Self {
        match self {
            Self::Panel(chart, panel) => Self::Panel(chart + others, panel),
            Self::AxisName(chart, axis) => Self::AxisName(chart + others, axis),
            Self::Ticks(chart, axis) => Self::Ticks(chart + others, axis),
            Self::Place(chart, axis, place) => Self::Place(chart + others, axis, place),
            Self::Line([chart, panel, series]) => Self::Line([chart + others, panel, series]),
            Self::Point([chart, panel, series, point]) => Self::Point([chart + others, panel, series, point]),
            other @ (Self::Title | Self::Legend | Self::Entry(_) | Self::Annotation(_) | Self::Caption) => other,
        }
    }
}

/// A part of the page and its area.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    /// The part.
    pub part: Part,
    /// The area that it covers.
    pub area: Area,
    /// The range of its items.
    pub items: Range<usize>,
}

/// The mark of a point of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// The area that it covers, including the text that belongs to it.
    pub area: Area,
    /// The cell that it shows; `None` if it summarises several cells.
    pub cell: Option<CellKey>,
    /// The indices of its chart, panel, series and point in the charts that were laid out.
    pub place: [usize; 4],
}

impl Mark {
    /// The point that it shows.
    pub fn of<'a>(&self, charts: &'a [Chart]) -> Option<(&'a Chart, &'a Panel, &'a Series, &'a Point)> {
        let [chart, panel, series, point] = self.place;
        let chart = charts.get(chart)?;
        let panel = chart.panels.get(panel)?;
        let series = panel.series.get(series)?;
        Some((chart, panel, series, series.points.get(point)?))
    }
}

/// The colour that replaces black or a grey on dark paper: as light as the original is dark. `None` for other colours, which do not
/// change.
pub(super) fn on_dark(colour: Colour, paper: Colour) -> Option<Colour> {
    let (least, most) = (colour.iter().min().copied().unwrap_or(0), colour.iter().max().copied().unwrap_or(0));
    let dark = 1.0 - f64::from(most) / 255.0;
    let mixed = paper.map(|part| (f64::from(part) + dark * (236.0 - f64::from(part))).round() as u8);
    (most - least < 24).then_some(mixed)
}

/// The colour on screen of areas that are black on paper. Whole bars of black, or of white on dark paper, would outweigh all other bars.
const SOFT_BLACK: Colour = [0x46; 3];

/// The colour of an area on screen.
fn softened(colour: Colour) -> Colour {
    if colour == [0; 3] { SOFT_BLACK } else { colour }
}

/// A page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scene {
    /// Its width in points.
    pub width: f64,
    /// Its height in points.
    pub height: f64,
    /// The items from back to front.
    pub items: Vec<Item>,
    /// The areas of data. Nothing that explains the data is drawn in them.
    pub data: Vec<Area>,
    /// The marks of points, in the order of their charts.
    pub marks: Vec<Mark>,
    /// The other parts that can be pointed at, in reading order. A part that contains others comes before them.
    pub parts: Vec<Placed>,
    /// The range that scrolls if the page is higher than its window. What is above and below it explains the data and stays in view.
    pub inner: Option<(f64, f64)>,
    /// The number of series that its legends leave out.
    pub left_out: usize,
}

impl Scene {
    /// The page on a dark screen: black and greys become as light as they were dark, and black areas somewhat less light. Other colours do
    /// not change, and numbers on them do not change either.
    #[must_use]
    pub fn on_dark(mut self, paper: Colour) -> Self {
        let other = |colour: &mut Colour| *colour = on_dark(*colour, paper).unwrap_or(*colour);
        for item in &mut self.items {
            match item {
                Item::Path { fill, stroke, .. } => {
                    fill.iter_mut().for_each(|(colour, _)| {
                        *colour = softened(*colour);
                        other(colour);
                    });
                    stroke.iter_mut().for_each(|stroke| other(&mut stroke.colour));
                }
                Item::Text(text) if text.on_colour => {}
                Item::Text(text) => other(&mut text.colour),
            }
        }
        self
    }

    /// The page on a light screen: what hides the paper behind it has the paper's colour, and black areas are dark grey.
    #[must_use]
    pub fn on_light(mut self, paper: Colour) -> Self {
        const WHITE: Colour = [0xff; 3];
        for item in &mut self.items {
            if let Item::Path { fill: Some((colour, _)), .. } = item {
                *colour = if *colour == WHITE { paper } else { softened(*colour) };
            }
        }
        self
    }

    /// Adds the contents of another page, moved to the right and down by these points. `charts` is the number of charts that are on this page already.
    pub fn add(&mut self, other: Self, (right, down): (f64, f64), charts: usize) {
        let moved = |area: Area| Area { left: area.left + right, top: area.top + down, ..area };
        let before = self.items.len();
        self.parts.extend(other.parts.into_iter().map(|Placed { part, area, items }| Placed {
            part: part.of_later_charts(charts),
            area: moved(area),
            items: items.start + before..items.end + before,
        }));
        self.items.extend(other.items.into_iter().map(|item| match item {
            Item::Path { mut segments, fill, stroke } => {
                segments.iter_mut().for_each(|segment| *segment = segment.moved(right, down));
                Item::Path { segments, fill, stroke }
            }
            Item::Text(text) => Item::Text(Text { x: text.x + right, y: text.y + down, ..text }),
        }));
        self.left_out += other.left_out;
        self.data.extend(other.data.into_iter().map(moved));
        self.marks.extend(other.marks.into_iter().map(|mark| {
            let [chart, rest @ ..] = mark.place;
            Mark { area: moved(mark.area), place: [chart + charts, rest[0], rest[1], rest[2]], ..mark }
        }));
    }

    /// Everything that can be pointed at, in reading order: the parts that explain the data, the points unless there are more than
    /// `most`, and annotations. Lines are represented by their points.
    pub fn pointed(&self, most: usize) -> impl Iterator<Item = (Part, Area)> {
        let is_added = |placed: &&Placed| matches!(placed.part, Part::Annotation(_));
        let explains =
            self.parts.iter().filter(move |placed| !is_added(placed) && !matches!(placed.part, Part::Line(_)));
        let with_area = |placed: &Placed| (placed.part.clone(), placed.area);
        let marks = self.marks.iter().filter(move |_| self.marks.len() <= most);
        let points = marks.map(|mark| (Part::Point(mark.place), mark.area));
        explains.map(with_area).chain(points).chain(self.parts.iter().filter(is_added).map(with_area))
    }

    /// Draws a part of the page and records what it covers, unless it draws nothing.
    pub fn part<T>(&mut self, part: Part, draw: impl FnOnce(&mut Self) -> T) -> T {
        let (place, first) = (self.parts.len(), self.items.len());
        let drawn = draw(self);
        let items = first..self.items.len();
        let area = self.items[items.clone()].iter().filter_map(Item::area).reduce(|all, area| all.with(&area));
        self.parts.splice(place..place, area.map(|area| Placed { part, area, items }));
        drawn
    }

    /// Adds a path.
    pub fn path(&mut self, segments: Vec<Segment>, fill: Option<(Colour, f64)>, stroke: Option<Stroke>) {
        if !segments.is_empty() {
            self.items.push(Item::Path { segments, fill, stroke });
        }
    }

    /// Adds a line through points.
    pub fn line(&mut self, points: &[(f64, f64)], stroke: Stroke) {
        if points.len() > 1 {
            let segments = points.iter().enumerate().map(|(index, &(x, y))| match index {
                0 => Segment::Move(x, y),
                _ => Segment::Line(x, y),
            });
            self.path(segments.collect(), None, Some(stroke));
        }
    }

    /// Adds a rectangle.
    pub fn rectangle(&mut self, area: &Area, fill: Option<(Colour, f64)>, stroke: Option<Stroke>) {
        self.path(rectangle(area), fill, stroke);
    }

    /// All lines of text.
    pub fn texts(&self) -> impl Iterator<Item = &Text> {
        self.items.iter().filter_map(|item| match item {
            Item::Text(text) => Some(text),
            Item::Path { .. } => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::COLOURS;

    #[test]
    fn no_bar_on_screen_is_as_black_or_as_white_as_text_and_each_stands_out_from_its_ground() {
        let luminance = crate::figure::palette::luminance;
        let contrast = |one: Colour, other: Colour| {
            let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
            one.max(other) / one.min(other)
        };
        for (dark, ground) in [(false, [0xf6, 0xf7, 0xf9]), (true, [0x17, 0x1a, 0x1f])] {
            let mut scene = Scene::default();
            let area = Area { left: 0.0, top: 0.0, width: 1.0, height: 1.0 };
            scene.rectangle(&area, Some((COLOURS[7], 1.0)), None);
            scene.line(&[(0.0, 0.0), (1.0, 1.0)], Stroke::new(COLOURS[7], 1.0));
            let shown = if dark { scene.on_dark(ground) } else { scene.on_light(ground) };
            let [Item::Path { fill: Some((bar, _)), .. }, Item::Path { stroke: Some(line), .. }] = &shown.items[..]
            else {
                panic!("{:?}", shown.items);
            };
            let (bar, line) = (contrast(*bar, ground), contrast(line.colour, ground));
            assert!(bar > 4.0 && bar < 0.7 * line, "dark {dark}: {bar} and {line}");
        }
    }
}
