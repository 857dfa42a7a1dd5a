//! What is on the page: paths and lines of text in points, from the top left corner down. All files are written of it.

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
    /// Ends and corners are round.
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
    /// Where its baseline begins.
    pub x: f64,
    /// Where its baseline begins.
    pub y: f64,
    /// It runs upwards instead of to the right.
    pub upwards: bool,
    /// What it says.
    pub text: String,
    /// Its face.
    pub face: Face,
    /// Its size in points.
    pub size: f64,
    /// Its colour.
    pub colour: Colour,
    /// Its letters as they are set.
    pub glyphs: Vec<Glyph>,
    /// It is part of the data, such as the number in a field of a heat map.
    pub in_data: bool,
    /// It stands on a colour, which dark paper leaves as it is.
    pub on_colour: bool,
}

impl Text {
    /// How long it is.
    pub fn width(&self) -> f64 {
        self.glyphs.iter().map(|glyph| glyph.advance).sum::<f64>() * self.size
    }

    /// What it covers.
    pub fn area(&self) -> Area {
        let (up, down) = (self.face.ascent() * self.size, self.face.descent() * self.size);
        if self.upwards {
            Area::between((self.x - up, self.y - self.width()), (self.x + down, self.y))
        } else {
            Area::between((self.x, self.y - up), (self.x + self.width(), self.y + down))
        }
    }
}

/// One thing on the page.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A path that is filled, drawn along, or both.
    Path {
        /// Its parts.
        segments: Vec<Segment>,
        /// What it is filled with: colour, and opacity from 0 to 1.
        fill: Option<(Colour, f64)>,
        /// How its line is drawn.
        stroke: Option<Stroke>,
    },
    /// A line of text.
    Text(Text),
}

impl Item {
    /// What it covers, without the width of its line; none of a path without a point.
    fn area(&self) -> Option<Area> {
        match self {
            Self::Text(text) => Some(text.area()),
            Self::Path { segments, .. } => bounds(segments),
        }
    }
}

/// What a part of the page is, for whoever points at it: places are those of the charts that were laid out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The title above everything.
    Title,
    /// A legend.
    Legend,
    /// An entry of a legend, by the name of its series.
    Entry(String),
    /// The title of a panel: the places of its chart and its own.
    Panel(usize, usize),
    /// The name of an axis of a chart.
    AxisName(usize, AxisName),
    /// The numbers of an axis of a chart.
    Ticks(usize, AxisName),
    /// The name of a place on an axis of a chart.
    Place(usize, AxisName, usize),
    /// A line with its points: the places of its chart, panel and its own.
    Line([usize; 3]),
    /// A point, by the place of its mark.
    Point([usize; 4]),
    /// What an author added, by its place among the figure's annotations.
    Annotation(usize),
    /// What is said below everything.
    Caption,
}

impl Part {
    /// The same part where its charts stand behind others.
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

/// A part of the page with what it covers.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    /// What it is.
    pub part: Part,
    /// What it covers.
    pub area: Area,
    /// The places of its items.
    pub items: Range<usize>,
}

/// What stands for a point of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// What it covers, with the text that belongs to it.
    pub area: Area,
    /// The cell that it shows; none if it sums up several.
    pub cell: Option<CellKey>,
    /// The places of its chart, panel, series and point in the charts that were laid out.
    pub place: [usize; 4],
}

impl Mark {
    /// Its point among the charts that were laid out.
    pub fn of<'a>(&self, charts: &'a [Chart]) -> Option<(&'a Chart, &'a Panel, &'a Series, &'a Point)> {
        let [chart, panel, series, point] = self.place;
        let chart = charts.get(chart)?;
        let panel = chart.panels.get(panel)?;
        let series = panel.series.get(series)?;
        Some((chart, panel, series, series.points.get(point)?))
    }
}

/// What black or a grey becomes on dark paper: as light as it was dark. None of colours, which stay.
pub(super) fn on_dark(colour: Colour, paper: Colour) -> Option<Colour> {
    let (least, most) = (colour.iter().min().copied().unwrap_or(0), colour.iter().max().copied().unwrap_or(0));
    let dark = 1.0 - f64::from(most) / 255.0;
    let mixed = paper.map(|part| (f64::from(part) + dark * (236.0 - f64::from(part))).round() as u8);
    (most - least < 24).then_some(mixed)
}

/// A page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scene {
    /// Its width in points.
    pub width: f64,
    /// Its height in points.
    pub height: f64,
    /// From back to front.
    pub items: Vec<Item>,
    /// Where data is drawn: nothing that explains it lies there.
    pub data: Vec<Area>,
    /// What stands for points, in the order of their charts.
    pub marks: Vec<Mark>,
    /// What else can be pointed at, in the order in which it is read; a part that holds others comes before them.
    pub parts: Vec<Placed>,
    /// From where to where it scrolls where it is higher than its window: what lies above and below explains it, and stays in sight.
    pub inner: Option<(f64, f64)>,
}

impl Scene {
    /// The same on dark paper: what is black or grey becomes as light as it was dark; colours stay, and numbers on them.
    #[must_use]
    pub fn on_dark(mut self, paper: Colour) -> Self {
        let other = |colour: &mut Colour| *colour = on_dark(*colour, paper).unwrap_or(*colour);
        for item in &mut self.items {
            match item {
                Item::Path { fill, stroke, .. } => {
                    fill.iter_mut().for_each(|(colour, _)| other(colour));
                    stroke.iter_mut().for_each(|stroke| other(&mut stroke.colour));
                }
                Item::Text(text) if text.on_colour => {}
                Item::Text(text) => other(&mut text.colour),
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
        self.data.extend(other.data.into_iter().map(moved));
        self.marks.extend(other.marks.into_iter().map(|mark| {
            let [chart, rest @ ..] = mark.place;
            Mark { area: moved(mark.area), place: [chart + charts, rest[0], rest[1], rest[2]], ..mark }
        }));
    }

    /// All that can be pointed at, in the order of reading: what explains the data, the points unless they are more than `most`, and
    /// what an author added. Lines are pointed at by their points.
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
