//! One panel on a page with its axes: which axes are on the left and below, and their ranges.

use super::annotations;
use super::axis::{Reach, Ruler, time_unit};
use super::bars::{greatest_sum, numbers_room};
use super::heat::heat_key;
use super::letter::Line;
use super::page::Page;
use super::side::{Side, Type, runs_across};
use crate::figure::chart::{AdditionKind, Axis, Chart, Geometry, Panel, Point, Role, Scale};
use crate::figure::overrides::AxisName;

/// One panel and its axes.
pub(super) struct Spot<'a> {
    pub chart: &'a Chart,
    pub place: usize,
    pub panel: &'a Panel,
    pub panel_place: usize,
    pub left: Side,
    pub bottom: Side,
    /// Room to the right in points, for the key of colours.
    pub right: f64,
}

impl Spot<'_> {
    /// Whether an author sets the ends of an axis.
    pub fn is_cut(&self) -> bool {
        [&self.chart.x, &self.chart.y].iter().any(|axis| axis.limits != (None, None))
    }

    /// Which axes of its chart are on the left and below. If names are on the left, the x axis is on the left, except for rows and
    /// fields.
    pub fn axes(&self) -> (AxisName, AxisName) {
        let is_turned =
            runs_across(&self.left, &self.bottom) && !matches!(self.chart.geometry, Geometry::Gantt | Geometry::Heat);
        if is_turned { (AxisName::X, AxisName::Y) } else { (AxisName::Y, AxisName::X) }
    }

    /// Whether it has horizontal bars or repeats. They are horizontal only on a screen.
    pub fn has_bars_across(&self) -> bool {
        let is_bars =
            matches!(self.chart.geometry, Geometry::Bars | Geometry::Strip | Geometry::Stacked | Geometry::Percent);
        is_bars && matches!(self.left, Side::Names(..))
    }

    /// The axis of names or places, and the axis of values.
    pub fn sides(&self) -> (&Side, &Side) {
        if runs_across(&self.left, &self.bottom) { (&self.left, &self.bottom) } else { (&self.bottom, &self.left) }
    }
}

/// The panels that have something to draw, with their axes on a page.
pub(super) fn spots<'a>(charts: &'a [Chart], page: &Page, kind: Type) -> Vec<Spot<'a>> {
    let mut spots = Vec::new();
    for (place, chart) in charts.iter().enumerate().filter(|(_, chart)| !chart.is_empty()) {
        let panels = chart.panels.iter().enumerate();
        let drawn = panels.filter(|(_, panel)| panel.series.iter().any(|series| !series.points.is_empty()));
        for (panel_place, panel) in drawn {
            let (left, bottom) = sides(chart, page);
            let right = match chart.geometry {
                Geometry::Heat => heat_key(kind),
                _ if page.is_screen() => {
                    let numbers = numbers_room(chart, &bottom, kind);
                    (numbers + annotations::room_beside(chart, kind)).min(0.3 * page.width)
                }
                _ => 0.0,
            };
            spots.push(Spot { chart, place, panel, panel_place, left, bottom, right });
        }
    }
    spots
}

/// The left and the lower axis of a chart.
fn sides(chart: &Chart, page: &Page) -> (Side, Side) {
    let names = |axis: &Axis| Side::Names(within_title(axis), Line::plain(axis.title()));
    // On a screen, the axis can scroll, and a title in its middle would be out of view: the names say what they are of.
    let untitled = |axis: &Axis| Side::Names(axis.categories.clone(), Line::default());
    let (low, high) = chart.y.reach.unwrap_or_else(|| extent(chart));
    let values = || Ruler::new(&chart.y, (low, high), reach(chart, &chart.y), 5);
    match chart.geometry {
        // On a screen, horizontal bars need no rotated names, and any number of them can be scrolled.
        Geometry::Bars | Geometry::Strip | Geometry::Stacked if page.is_screen() => {
            (untitled(&chart.x), Side::Numbers(values()))
        }
        Geometry::Bars | Geometry::Strip | Geometry::Stacked | Geometry::Profile => {
            (Side::Numbers(values()), names(&chart.x))
        }
        Geometry::Scatter => {
            let across = Ruler::new(&chart.x, extent_across(chart), reach(chart, &chart.x), 5);
            (Side::Numbers(values()), Side::Numbers(across))
        }
        Geometry::Percent => {
            let axis = Axis::new(chart.y.name.clone(), "%");
            let values = Side::Numbers(Ruler::new(&axis, (0.0, 100.0), Reach::FromZero, 5));
            if page.is_screen() { (untitled(&chart.x), values) } else { (values, names(&chart.x)) }
        }
        Geometry::Lines | Geometry::Scaling => (Side::Numbers(values()), Side::Numbers(along_lines(chart))),
        Geometry::Gantt => {
            let ends = chart.series().flat_map(|series| &series.points).filter_map(|point| point.value.interval);
            let last = ends.map(|ends| ends.high).filter(|end| end.is_finite()).fold(0.0, f64::max);
            (names(&chart.y), Side::Numbers(Ruler::new(&chart.x, (0.0, last), Reach::FromZero, 6)))
        }
        Geometry::Heat => (names(&chart.y), names(&chart.x)),
        Geometry::Effects | Geometry::Tornado => {
            let (low, high) = span(chart);
            // 1 means no effect, so it is always visible.
            let ends = (low.min(1.0), high.max(1.0));
            (
                names(&Axis { name: String::new(), ..chart.x.clone() }),
                Side::Numbers(Ruler::new(&chart.y, ends, Reach::Enclosing, 5)),
            )
        }
    }
}

/// The names of an axis's places. If each begins with the axis's own name, that name is left out: `pin_memory off` becomes `off`.
fn within_title(axis: &Axis) -> Vec<String> {
    let rest = |name: &String| Some(name.strip_prefix(&axis.name)?.strip_prefix(' ')?.to_owned());
    let short: Option<Vec<String>> = axis.categories.iter().map(rest).collect();
    short.filter(|_| !axis.name.is_empty()).unwrap_or_else(|| axis.categories.clone())
}

/// Which numbers an axis must include besides its values.
fn reach(chart: &Chart, axis: &Axis) -> Reach {
    match chart.geometry {
        Geometry::Lines | Geometry::Strip => Reach::Free,
        _ if axis.is_free => Reach::Free,
        // Means that are compared as ratios need ticks on both sides.
        Geometry::Profile if axis.scale == Scale::Log => Reach::Enclosing,
        Geometry::Profile => Reach::Free,
        Geometry::Scatter if axis.scale == Scale::Log => Reach::Free,
        _ => Reach::FromZero,
    }
}

/// Whether an axis of a chart begins at 0.
pub(super) fn begins_at_zero(chart: &Chart, axis: &Axis) -> bool {
    reach(chart, axis) == Reach::FromZero
}

/// The range of an axis of values: the values, and room for the marks above them.
pub(super) fn extent(chart: &Chart) -> (f64, f64) {
    // The names of roofs are above them.
    let is_roofed = chart.geometry == Geometry::Scatter && !chart.y.is_free && reach(chart, &chart.y) == Reach::Free;
    let (low, high) = span(chart);
    let high = if is_roofed { 2.0 * high } else { high };
    // Brackets and their text are above the marks.
    let brackets = chart.additions.iter().filter(|one| matches!(one.kind, AdditionKind::Bracket { .. })).count() as f64;
    let high = match chart.y.scale {
        _ if brackets == 0.0 => high,
        Scale::Linear => high + 0.14 * brackets * (high - low.min(0.0)),
        Scale::Log => high * (high / low).powf(0.14 * brackets).max(1.0),
    };
    (low, high)
}

/// The range of the x axis of a chart whose points are at any position.
fn extent_across(chart: &Chart) -> (f64, f64) {
    let positive = chart.x.scale == Scale::Log;
    let ends = |point: &Point| {
        let ends = point.across.map_or([point.x; 2], |ends| [ends.low, ends.high]);
        [point.x, ends[0], ends[1]].into_iter().filter(move |x| x.is_finite() && (!positive || *x > 0.0))
    };
    let places = chart.series().flat_map(|series| &series.points).flat_map(ends);
    let least = if reach(chart, &chart.x) == Reach::FromZero { 0.0 } else { f64::INFINITY };
    places.fold((least, f64::NEG_INFINITY), |(low, high): (f64, f64), x| (low.min(x), high.max(x)))
}

/// The axes of a chart that show times: the name of each, the unit of its labels, and the factor from seconds to that unit. Logarithmic
/// axes are labelled in seconds.
pub(in crate::figure) fn time_axes(chart: &Chart) -> Vec<(&str, &'static str, f64)> {
    let values = (&chart.y, chart.y.reach.unwrap_or_else(|| extent(chart)));
    let across = (chart.geometry == Geometry::Scatter).then(|| (&chart.x, extent_across(chart)));
    let unit_of = |(axis, (low, high)): (&'_ Axis, (f64, f64))| match axis.scale {
        Scale::Linear => time_unit(axis, low.abs().max(high.abs())),
        Scale::Log => time_unit(axis, 1.0),
    };
    let axes = [Some(values), across].into_iter().flatten();
    axes.filter_map(|axis| unit_of(axis).map(|(unit, factor)| (axis.0.name.as_str(), unit, factor))).collect()
}

/// The horizontal axis of lines, with whole numbers if all of its points have whole numbers.
fn along_lines(chart: &Chart) -> Ruler {
    let mut places: Vec<f64> = chart
        .series()
        .filter(|series| series.role == Role::Measured)
        .flat_map(|series| series.points.iter().map(|point| point.x))
        .filter(|x| x.is_finite())
        .collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let ends = (places.first().copied().unwrap_or(0.0), places.last().copied().unwrap_or(1.0));
    let whole = if chart.geometry == Geometry::Scaling { Ruler::at(&chart.x, &places) } else { None };
    // On a logarithmic axis of GPUs, the ticks are the numbers of GPUs that were used.
    let has_places = chart.geometry == Geometry::Scaling && chart.x.scale == Scale::Log && places.len() <= 8;
    let is_usual = chart.x.ticks.is_empty() && chart.x.tick_count.is_none();
    let ticks = if has_places && is_usual { places.clone() } else { chart.x.ticks.clone() };
    let axis = Axis { ticks, ..chart.x.clone() };
    let mut along = whole.unwrap_or_else(|| Ruler::new(&axis, ends, Reach::Free, 5));
    // For example, there is no half epoch.
    if chart.x.ticks.is_empty() && places.iter().all(|x| x.fract() == 0.0) {
        along.whole_numbers();
    }
    along
}

/// The range from the smallest to the greatest value, including the ends of intervals.
fn span(chart: &Chart) -> (f64, f64) {
    if chart.geometry == Geometry::Stacked {
        return (0.0, greatest_sum(chart));
    }
    let points = chart.series().flat_map(|series| &series.points);
    let ends = points.flat_map(|point| {
        let interval = point.value.interval.map_or([point.value.median; 2], |ends| [ends.low, ends.high]);
        [point.value.median, interval[0], interval[1]]
    });
    let positive = chart.y.scale == Scale::Log;
    let ends = ends.filter(|end| end.is_finite() && (!positive || *end > 0.0));
    ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), end| (low.min(end), high.max(end)))
}
