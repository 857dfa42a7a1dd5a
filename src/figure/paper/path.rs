//! Paths: areas, the segments of outlines, and simple shapes.

/// An area.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Area {
    /// Its left edge.
    pub left: f64,
    /// Its upper edge.
    pub top: f64,
    /// The width, from left to right.
    pub width: f64,
    /// The height, from top to bottom.
    pub height: f64,
}

impl Area {
    /// An area by its edges, in any order.
    pub fn between((x0, y0): (f64, f64), (x1, y1): (f64, f64)) -> Self {
        Self { left: x0.min(x1), top: y0.min(y1), width: (x1 - x0).abs(), height: (y1 - y0).abs() }
    }

    /// The smallest area that contains both.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        let (left, top) = (self.left.min(other.left), self.top.min(other.top));
        Self {
            left,
            top,
            width: self.right().max(other.right()) - left,
            height: self.bottom().max(other.bottom()) - top,
        }
    }

    /// Its right edge.
    pub fn right(&self) -> f64 {
        self.left + self.width
    }

    /// Its lower edge.
    pub fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// Whether the areas overlap by more than an edge.
    pub fn overlaps(&self, other: &Self) -> bool {
        let slack = 0.01;
        self.left + slack < other.right()
            && other.left + slack < self.right()
            && self.top + slack < other.bottom()
            && other.top + slack < self.bottom()
    }

    /// Whether the other area is inside this one.
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
    /// Starts at a point.
    Move(f64, f64),
    /// A line to a point.
    Line(f64, f64),
    /// A cubic curve: its two control points and its end.
    Cubic([f64; 6]),
    /// A line back to the start.
    Close,
}

impl Segment {
    /// This segment, moved to the right and down by these points.
    #[must_use]
    pub fn moved(self, right: f64, down: f64) -> Self {
        match self {
            Self::Move(x, y) => Self::Move(x + right, y + down),
            Self::Line(x, y) => Self::Line(x + right, y + down),
            Self::Cubic([ax, ay, bx, by, x, y]) => {
                Self::Cubic([ax + right, ay + down, bx + right, by + down, x + right, y + down])
            }
            Self::Close => Self::Close,
        }
    }
}

/// The smallest area around a path and the control points of its curves; `None` for a path without points.
pub(super) fn bounds(segments: &[Segment]) -> Option<Area> {
    let points = segments.iter().flat_map(|segment| match segment {
        Segment::Move(x, y) | Segment::Line(x, y) => vec![(*x, *y)],
        Segment::Cubic([x0, y0, x1, y1, x2, y2]) => vec![(*x0, *y0), (*x1, *y1), (*x2, *y2)],
        Segment::Close => Vec::new(),
    });
    points.map(|point| Area::between(point, point)).reduce(|all, point| all.with(&point))
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

/// A circle as four curves.
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
