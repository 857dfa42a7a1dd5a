//! What is on the page: paths and lines of text in points, from the top left corner down. All files are written of it.

use super::font::{Face, Glyph};

/// Points in a millimetre.
pub const PT_PER_MM: f64 = 72.0 / 25.4;

/// A colour as sRGB bytes.
pub type Colour = [u8; 3];

/// An area.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Area {
    /// Its left edge.
    pub left: f64,
    /// Its upper edge.
    pub top: f64,
    /// From left to right.
    pub width: f64,
    /// From top to bottom.
    pub height: f64,
}

impl Area {
    /// An area by its edges, in any order.
    pub fn between((x0, y0): (f64, f64), (x1, y1): (f64, f64)) -> Self {
        Self { left: x0.min(x1), top: y0.min(y1), width: (x1 - x0).abs(), height: (y1 - y0).abs() }
    }

    /// Its right edge.
    pub fn right(&self) -> f64 {
        self.left + self.width
    }

    /// Its lower edge.
    pub fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// Whether both share more than an edge.
    pub fn overlaps(&self, other: &Self) -> bool {
        let slack = 0.01;
        self.left + slack < other.right()
            && other.left + slack < self.right()
            && self.top + slack < other.bottom()
            && other.top + slack < self.bottom()
    }

    /// Whether the other lies within this one.
    pub fn holds(&self, other: &Self) -> bool {
        let slack = 0.01;
        other.left >= self.left - slack
            && other.right() <= self.right() + slack
            && other.top >= self.top - slack
            && other.bottom() <= self.bottom() + slack
    }
}

/// A part of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Segment {
    /// Begins at a point.
    Move(f64, f64),
    /// A line to a point.
    Line(f64, f64),
    /// A cubic curve by its two control points, and its end.
    Cubic([f64; 6]),
    /// A line back to where it began.
    Close,
}

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
}

impl Scene {
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

/// The path around an area.
pub fn rectangle(area: &Area) -> Vec<Segment> {
    vec![
        Segment::Move(area.left, area.top),
        Segment::Line(area.right(), area.top),
        Segment::Line(area.right(), area.bottom()),
        Segment::Line(area.left, area.bottom()),
        Segment::Close,
    ]
}

/// The path through the corners of a polygon.
pub fn polygon(points: &[(f64, f64)]) -> Vec<Segment> {
    let corner =
        |(index, &(x, y)): (usize, &(f64, f64))| if index == 0 { Segment::Move(x, y) } else { Segment::Line(x, y) };
    points.iter().enumerate().map(corner).chain([Segment::Close]).collect()
}

/// A circle of four curves.
pub fn circle((x, y): (f64, f64), radius: f64) -> Vec<Segment> {
    let (r, k) = (radius, radius * 0.552_284_749_8);
    vec![
        Segment::Move(x + r, y),
        Segment::Cubic([x + r, y + k, x + k, y + r, x, y + r]),
        Segment::Cubic([x - k, y + r, x - r, y + k, x - r, y]),
        Segment::Cubic([x - r, y - k, x - k, y - r, x, y - r]),
        Segment::Cubic([x + k, y - r, x + r, y - k, x + r, y]),
        Segment::Close,
    ]
}
