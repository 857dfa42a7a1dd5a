//! A chart as a value: axes, panels, series, points. The window and files draw it.

use std::collections::BTreeSet;

use super::sign::OwnLook;
use crate::analysis::{CellKey, Interval, Level, Method, Value};

/// How a chart's points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Geometry {
    /// Grouped bars from 0. A point's `x` is the index of its group among the categories of the x axis.
    Bars,
    /// Lines through points, with a band from the low to the high end of their intervals.
    Lines,
    /// Points joined by lines, with bars for intervals. Series of [`Role::Ideal`] show the ideal values.
    Scaling,
    /// Bars stacked on top of each other, one stack per group. Series are its parts, in the order from the bottom.
    Stacked,
    /// Stacked bars, as shares of the total.
    Percent,
    /// The repeats themselves: several points at the same category `x`. With [`BOX_REPEATS`] or more repeats, a box surrounds the middle
    /// half of them.
    Strip,
    /// Activities over time, in rows, which are the categories of the y axis. The points of a series are the activities in the row
    /// `variant`. The interval of a point is the activity's start and end, in the unit of the x axis.
    Gantt,
    /// A field of colours. A series is the row with its name among the categories of the y axis; a point's `x` is the index of its column
    /// among those of the x axis. The titles of chart and panels name the measure.
    Heat,
    /// A dot with its interval in each row. A point's `x` is the index of its row among the categories of the x axis, from the top.
    Effects,
    /// Rows as in [`Geometry::Effects`], with a bar from 1 to the value.
    Tornado,
    /// Points joined by lines over the categories of the x axis, with bars for intervals.
    Profile,
    /// Points at any position, with bars for the intervals of both axes. Series of [`Role::Ideal`] are the front or the roofs that they are
    /// compared with.
    Scatter,
}

impl Geometry {
    /// Whether it draws areas, which can be hatched.
    pub fn has_areas(self) -> bool {
        matches!(self, Self::Bars | Self::Stacked | Self::Percent | Self::Gantt)
    }

    /// Whether it draws the intervals of values.
    pub(super) fn has_intervals(self) -> bool {
        matches!(
            self,
            Self::Bars | Self::Lines | Self::Scaling | Self::Effects | Self::Tornado | Self::Profile | Self::Scatter
        )
    }

    /// Whether it draws points that are joined by lines, which can be dashed.
    pub fn has_lines(self) -> bool {
        !self.has_areas() && !matches!(self, Self::Strip | Self::Scatter)
    }
}

/// With this number of repeats or more, a box summarises them.
pub const BOX_REPEATS: usize = 5;

/// How values are mapped to positions on an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Equal distances are equal differences.
    #[default]
    Linear,
    /// Equal distances are equal ratios.
    Log,
}

/// One axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// What it shows.
    pub name: String,
    /// The unit of its values; empty for plain numbers and categories.
    pub unit: String,
    /// How values are mapped to positions.
    pub scale: Scale,
    /// The names of its places, if it is not an axis of numbers.
    pub categories: Vec<String>,
    /// The ends that an author sets, in the unit shown on the axis.
    pub limits: (Option<f64>, Option<f64>),
    /// The ticks that an author sets, in the unit shown on the axis.
    pub ticks: Vec<f64>,
    /// The approximate number of ticks that an author sets.
    pub tick_count: Option<usize>,
    /// Whether its numbers are shown in `unit` and not in a multiple of it.
    pub keeps_unit: bool,
    /// Whether it covers only its values and need not begin at 0.
    pub is_free: bool,
    /// The range of values that it covers in place of the chart's own range, if several panels share the axis.
    pub reach: Option<(f64, f64)>,
}

impl Axis {
    /// An axis of numbers.
    pub fn new(name: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { name: name.into(), unit: unit.into(), ..Self::default() }
    }

    /// Its name with its unit: `Epoch time (s)`.
    pub fn title(&self) -> String {
        if self.unit.is_empty() { self.name.clone() } else { format!("{} ({})", self.name, self.unit) }
    }
}

/// The key that decides the colour and the second sign of a series.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Look {
    /// A level, and its index among the levels of its factor, which gives it the same look everywhere; see [`super::level_index`].
    Level(Level, usize),
    /// The index of a series that is not a level's.
    Place(usize),
    /// Grey, for series that are off, published or extrapolated.
    Grey,
    /// The look that an author set, and the look that it replaces.
    Own(Box<Look>, OwnLook),
}

/// The origin of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It was measured.
    Measured,
    /// It shows what the measured series would be with perfect scaling, or what it is compared with.
    Ideal,
    /// It contains values that a paper prints for the measured series of the same name. Its marks are hollow.
    Published,
}

/// The legend's name for values that papers print.
pub const PUBLISHED: &str = "published";

/// One point.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The position on the x axis.
    pub x: f64,
    /// The interval of that position, if it is a measured one and not drawn as a line.
    pub across: Option<Interval>,
    /// The value, in the unit of the y axis.
    pub value: Value,
    /// The value divided by the value of the baseline.
    pub ratio: Option<Value>,
    /// The cell that it belongs to.
    pub cell: Option<CellKey>,
}

/// Points that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its colour and second sign.
    pub look: Look,
    /// The index among series of the same colour, by which their signs differ.
    pub variant: usize,
    /// The origin of its values.
    pub role: Role,
    /// Its points by x.
    pub points: Vec<Point>,
}

impl Series {
    /// A measured series without points.
    pub fn measured(name: impl Into<String>, look: Look) -> Self {
        Self { name: name.into(), look, variant: 0, role: Role::Measured, points: Vec::new() }
    }
}

/// One of several small charts with the same axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Its title, which distinguishes it from other panels; empty if there is only one.
    pub title: String,
    /// Its series.
    pub series: Vec<Series>,
}

/// An annotation of a chart: its own, or one that an author adds.
#[derive(Clone, Debug, PartialEq)]
pub struct Addition {
    /// The index of its panel; `None` for all panels.
    pub panel: Option<usize>,
    /// Its text; may be empty.
    pub text: String,
    /// Its kind and position.
    pub kind: AdditionKind,
    /// Its index in the author's annotations of the figure; `None` if it belongs to the chart itself.
    pub nth: Option<usize>,
}

/// A kind of annotation with its positions. A chart's own ones are in the units of its points, an author's in the units
/// shown on the axes, which may be multiples of these.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AdditionKind {
    /// Text.
    Text {
        /// The position along x: a number, or the index of a category.
        x: f64,
        /// The position along y.
        y: f64,
    },
    /// A bracket over two points. Each is given by the index of its series in the panel and its x.
    Bracket {
        /// The first point.
        from: (usize, f64),
        /// The second point.
        to: (usize, f64),
    },
    /// A line across the data.
    Line {
        /// Whether it is at a value of the x axis; otherwise at a value of the y axis.
        is_x: bool,
        /// The value.
        at: f64,
    },
    /// A shaded region.
    Region {
        /// Whether it covers a range of the x axis; otherwise a range of the y axis.
        is_x: bool,
        /// The lower end.
        low: f64,
        /// The upper end.
        high: f64,
    },
}

impl AdditionKind {
    /// The addition with its positions along one axis multiplied by `factor`: along the y axis if `along_y` is set, otherwise along x.
    pub(super) fn scaled(self, along_y: bool, factor: f64) -> Self {
        match self {
            Self::Text { x, y } if along_y => Self::Text { x, y: y * factor },
            Self::Text { x, y } => Self::Text { x: x * factor, y },
            Self::Bracket { from, to } if !along_y => {
                Self::Bracket { from: (from.0, from.1 * factor), to: (to.0, to.1 * factor) }
            }
            Self::Line { is_x, at } if is_x != along_y => Self::Line { is_x, at: at * factor },
            Self::Region { is_x, low, high } if is_x != along_y => {
                Self::Region { is_x, low: low * factor, high: high * factor }
            }
            other => other,
        }
    }
}

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// What it shows, in a few words.
    pub title: String,
    /// How its points are drawn.
    pub geometry: Geometry,
    /// The x axis: groups, epochs or GPUs, for example.
    pub x: Axis,
    /// The y axis, which usually shows the measure.
    pub y: Axis,
    /// One or more panels next to each other.
    pub panels: Vec<Panel>,
    /// Its annotations: its own, and an author's.
    pub additions: Vec<Addition>,
    /// The meaning of error bars or bands, in a few words, and how many values have none because they were measured once; empty if there is
    /// nothing to say.
    pub intervals: String,
    /// What a reader must know before comparing its values, one sentence each. It is in the picture, which is often shown without notes.
    pub cautions: Vec<String>,
    /// Notes for the reader, one sentence each.
    pub notes: Vec<String>,
    /// The reason why the values are not drawn, and what to do, as a part of a sentence. It is set if the chart has too many marks to tell
    /// them apart.
    pub crowded: Option<String>,
}

impl Panel {
    /// The series with this name. If there is none, it is added with a look that may depend on the number of series.
    pub(super) fn series_of(&mut self, name: String, look: impl FnOnce(usize) -> Look) -> &mut Series {
        let known = self.series.iter().position(|series| series.name == name);
        let place = known.unwrap_or(self.series.len());
        if known.is_none() {
            self.series.push(Series::measured(name, look(place)));
        }
        &mut self.series[place]
    }
}

/// The panel with this title. If there is none, it is added without series.
pub(super) fn panel_of(panels: &mut Vec<Panel>, title: String) -> &mut Panel {
    let known = panels.iter().position(|panel| panel.title == title);
    let place = known.unwrap_or(panels.len());
    if known.is_none() {
        panels.push(Panel { title, series: Vec::new() });
    }
    &mut panels[place]
}

impl Chart {
    /// A chart without panels.
    pub fn new(title: impl Into<String>, geometry: Geometry, x: Axis, y: Axis) -> Self {
        let (panels, additions, intervals) = (Vec::new(), Vec::new(), String::new());
        let (cautions, notes) = (Vec::new(), Vec::new());
        Self { title: title.into(), geometry, x, y, panels, additions, intervals, cautions, notes, crowded: None }
    }

    /// All series of all panels.
    pub fn series(&self) -> impl Iterator<Item = &Series> {
        self.panels.iter().flat_map(|panel| &panel.series)
    }

    /// The measured series that the legend lists: each name once, only series with points, in the order that they have in every panel.
    pub fn legend(&self) -> Vec<&Series> {
        let mut legend: Vec<&Series> = Vec::new();
        for panel in &self.panels {
            let drawn = |series: &&Series| series.role == Role::Measured && !series.points.is_empty();
            // A name that earlier panels lack is placed before the name that follows it in this panel.
            let mut place = legend.len();
            for series in panel.series.iter().filter(drawn).rev() {
                match legend.iter().position(|known| known.name == series.name) {
                    Some(known) => place = known,
                    None => legend.insert(place, series),
                }
            }
        }
        legend
    }

    /// Whether it also shows published values.
    pub fn has_published(&self) -> bool {
        self.series().any(|series| series.role == Role::Published)
    }

    /// The methods of the intervals that it draws, with their numbers of repeats; empty if it draws no intervals.
    pub(super) fn methods(&self) -> BTreeSet<(Method, usize)> {
        let points = self.series().filter(|_| self.geometry.has_intervals()).flat_map(|series| &series.points);
        points.filter(|point| point.value.interval.is_some()).map(|point| (point.value.method, point.value.n)).collect()
    }

    /// The numbers of repeats of its measured values, if it draws the intervals of values that have one.
    pub(super) fn repeats(&self) -> Vec<usize> {
        let measured = self.series().filter(|series| self.geometry.has_intervals() && series.role == Role::Measured);
        measured.flat_map(|series| &series.points).map(|point| point.value.n).collect()
    }

    /// Whether it has an axis of values. Fields of colours have none, and charts of activity have names on the y axis.
    pub fn has_values(&self) -> bool {
        !matches!(self.geometry, Geometry::Heat | Geometry::Gantt)
    }

    /// Whether its values can be on a logarithmic axis: a logarithm of shares would be meaningless.
    pub fn can_be_log(&self) -> bool {
        self.has_values() && !matches!(self.geometry, Geometry::Percent | Geometry::Stacked) && self.y.unit != "%"
    }

    /// Whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.series().all(|series| series.points.is_empty())
    }

    /// The smallest value below 0, including ends of intervals; 0 if there is none.
    pub fn least(&self) -> f64 {
        let points = self.series().flat_map(|series| &series.points);
        points.map(|point| point.value.interval.map_or(point.value.median, |ends| ends.low)).fold(0.0, f64::min)
    }

    /// The greatest value, including ends of intervals; 0 if there is none.
    pub fn greatest(&self) -> f64 {
        let points = self.series().flat_map(|series| &series.points);
        points.map(|point| point.value.interval.map_or(point.value.median, |ends| ends.high)).fold(0.0, f64::max)
    }
}
