//! A chart as one value: axes, panels, series, points. The window draws it, and so can paper.

use std::collections::BTreeSet;

use super::sign::OwnLook;
use crate::analysis::{CellKey, Level, Method, Value};

/// The geometry in which a chart's points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Geometry {
    /// Grouped bars from 0: `x` of a point is the place of its group among the x axis's categories.
    Bars,
    /// Lines through points, with a band from the low to the high end of their intervals.
    Lines,
    /// Points joined by lines, with bars for intervals; series of [`Role::Ideal`] are what they are held against.
    Scaling,
    /// Bars on top of each other, one a group: series are its parts, in the order they are stacked.
    Stacked,
    /// The same as shares of the whole.
    Percent,
    /// The repeats themselves over a category, several points at the same `x`; a box around the middle half of them
    /// from [`BOX_REPEATS`] on.
    Strip,
    /// What went on when, in rows: the categories of the y axis. A series is what happened in the row of its `variant`;
    /// the interval of a point is from when to when, in the unit of the x axis.
    Gantt,
    /// A field of colours: a series is the row of its name among the y axis's categories, `x` of a point is its column
    /// among the x axis's. The titles of chart and panels say what the numbers are.
    Heat,
    /// A dot with its interval in each row: `x` of a point is its row among the x axis's categories, from above.
    Effects,
    /// The same as a bar from 1.
    Tornado,
    /// Points joined by lines over the categories of the x axis, with bars for intervals.
    Profile,
    /// Points anywhere, with bars for the intervals of y; series of [`Role::Ideal`] are the front that they are held against.
    Scatter,
}

/// Repeats from which on a box sums them up.
pub const BOX_REPEATS: usize = 5;

/// How values are laid along an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Equal steps are equal differences.
    #[default]
    Linear,
    /// Equal steps are equal ratios.
    Log,
}

/// One axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// What it shows.
    pub name: String,
    /// The unit of its values; empty for plain numbers and categories.
    pub unit: String,
    /// How values are laid along it.
    pub scale: Scale,
    /// The names of its places where it has no numbers.
    pub categories: Vec<String>,
    /// Its ends in the unit that stands on it, where an author gives them.
    pub limits: (Option<f64>, Option<f64>),
    /// Its ticks in the unit that stands on it, where an author gives them.
    pub ticks: Vec<f64>,
    /// About how many ticks it has, where an author says so.
    pub tick_count: Option<usize>,
    /// Numbers are shown in its unit, and in no multiple of it.
    pub keeps_unit: bool,
    /// From where to where values reach that it shows, in place of the chart's own: those of all panels that share it.
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

/// What a series gets its colour and its second sign from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Look {
    /// A level, and its place among those of its factor, which makes it look the same everywhere; see [`super::level_index`].
    Level(Level, usize),
    /// What is no level has the look of its place among its like.
    Place(usize),
    /// Off, published or extrapolated.
    Grey,
    /// What an author gives it in place of another look.
    Own(Box<Look>, OwnLook),
}

/// Whether a series was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It was.
    Measured,
    /// It is what the measured one would be if nothing were lost.
    Ideal,
    /// It is what a paper prints, beside the measured one of its name: hollow marks.
    Published,
}

/// The name of what papers print in legends.
pub const PUBLISHED: &str = "published";

/// One point.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The place along the x axis.
    pub x: f64,
    /// In the unit of the y axis.
    pub value: Value,
    /// The value over that of the baseline.
    pub ratio: Option<Value>,
    /// The cell it is of.
    pub cell: Option<CellKey>,
}

/// Points that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its colour and second sign.
    pub look: Look,
    /// Tells series of one colour apart: its place among them.
    pub variant: usize,
    /// Whether it was measured.
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
    /// What tells it from the others; empty where there is one.
    pub title: String,
    /// What it shows.
    pub series: Vec<Series>,
}

/// What an author adds to the data of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Addition {
    /// The place of its panel; none for all panels.
    pub panel: Option<usize>,
    /// What it says; may be empty.
    pub text: String,
    /// What it is.
    pub kind: AdditionKind,
    /// Its place among all that the author adds to the figure.
    pub nth: usize,
}

/// A kind of addition with its places, in the units that stand on the axes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AdditionKind {
    /// Words.
    Text {
        /// Along x: a number, or the place of a category.
        x: f64,
        /// Along y.
        y: f64,
    },
    /// A bracket over two points, each by the place of its series in the panel and its x.
    Bracket {
        /// The first point.
        from: (usize, f64),
        /// The second point.
        to: (usize, f64),
    },
    /// A line across the data.
    Line {
        /// It stands at a place of the x axis, not of the y axis.
        is_x: bool,
        /// The place.
        at: f64,
    },
    /// A shaded region.
    Region {
        /// It lies along the x axis, not along the y axis.
        is_x: bool,
        /// Where it begins.
        low: f64,
        /// Where it ends.
        high: f64,
    },
}

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// What it shows, in a few words.
    pub title: String,
    /// How its points are drawn.
    pub geometry: Geometry,
    /// Groups, epochs, GPUs.
    pub x: Axis,
    /// The measure.
    pub y: Axis,
    /// One or more, beside each other.
    pub panels: Vec<Panel>,
    /// What an author adds to the data.
    pub additions: Vec<Addition>,
    /// What bars or bands for intervals mean, in a few words; empty where none are drawn.
    pub intervals: String,
    /// What a reader must know, one sentence each.
    pub notes: Vec<String>,
}

impl Panel {
    /// The series of a name; where it is new, it joins the others with a look that may depend on how many there are.
    pub(super) fn series_of(&mut self, name: String, look: impl FnOnce(usize) -> Look) -> &mut Series {
        let known = self.series.iter().position(|series| series.name == name);
        let place = known.unwrap_or(self.series.len());
        if known.is_none() {
            self.series.push(Series::measured(name, look(place)));
        }
        &mut self.series[place]
    }
}

/// The panel of a title; where it is new, it joins the others without series.
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
        let (panels, additions, intervals, notes) = (Vec::new(), Vec::new(), String::new(), Vec::new());
        Self { title: title.into(), geometry, x, y, panels, additions, intervals, notes }
    }

    /// All series of all panels.
    pub fn series(&self) -> impl Iterator<Item = &Series> {
        self.panels.iter().flat_map(|panel| &panel.series)
    }

    /// The measured series of the legend: each name once, in order; none without a point.
    pub fn legend(&self) -> Vec<&Series> {
        let mut legend: Vec<&Series> = Vec::new();
        let drawn = |series: &&Series| series.role == Role::Measured && !series.points.is_empty();
        for series in self.series().filter(drawn) {
            if legend.iter().all(|known| known.name != series.name) {
                legend.push(series);
            }
        }
        legend
    }

    /// Whether it shows what a paper prints, too.
    pub fn has_published(&self) -> bool {
        self.series().any(|series| series.role == Role::Published)
    }

    /// The methods by which the intervals that it draws were made, with their repeats; none of what draws no intervals.
    pub(super) fn methods(&self) -> BTreeSet<(Method, usize)> {
        use Geometry::{Bars, Effects, Lines, Profile, Scaling, Scatter, Tornado};
        let draws = matches!(self.geometry, Bars | Lines | Scaling | Effects | Tornado | Profile | Scatter);
        let points = self.series().filter(|_| draws).flat_map(|series| &series.points);
        points.filter(|point| point.value.interval.is_some()).map(|point| (point.value.method, point.value.n)).collect()
    }

    /// Whether it has an axis of values: fields of colours have none, and rows of what went on when have names there.
    pub fn has_values(&self) -> bool {
        !matches!(self.geometry, Geometry::Heat | Geometry::Gantt)
    }

    /// Whether its values can stand on a logarithmic axis: shares have no logarithm that says anything.
    pub fn can_be_log(&self) -> bool {
        self.has_values() && !matches!(self.geometry, Geometry::Percent | Geometry::Stacked) && self.y.unit != "%"
    }

    /// Whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.series().all(|series| series.points.is_empty())
    }

    /// The least value below 0, ends of intervals included; 0 where there is none.
    pub fn least(&self) -> f64 {
        let points = self.series().flat_map(|series| &series.points);
        points.map(|point| point.value.interval.map_or(point.value.median, |ends| ends.low)).fold(0.0, f64::min)
    }

    /// The greatest value, ends of intervals included; 0 where there is none.
    pub fn greatest(&self) -> f64 {
        let points = self.series().flat_map(|series| &series.points);
        points.map(|point| point.value.interval.map_or(point.value.median, |ends| ends.high)).fold(0.0, f64::max)
    }
}
