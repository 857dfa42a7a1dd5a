//! An author's changes to a figure: names, units, limits and ticks of axes, names and looks of levels, legend, sizes, annotations. Only
//! differences from the defaults are stored. The numbers remain those of the session.

mod annotation;
mod unit;

pub use annotation::{Annotation, AnnotationKind, AxisName};
pub use unit::units_of;

use serde::{Deserialize, Serialize};
use strum::{EnumMessage, VariantArray};

use super::chart::{Axis, Chart, Geometry, Look, Role, Scale, Series};
use super::number::counted;
use super::palette::{COLOUR_NAMES, COLOURS, DashKind, GREY, Hatch, Marker, OwnLook};
use crate::plan::{is_default, suggestion};
pub use annotation::{Judge, Judged};

/// The position of the legend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, VariantArray, EnumMessage)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum LegendPlace {
    /// Above the panels.
    #[default]
    Above,
    /// Below the panels.
    Below,
    /// Right of the panels.
    Right,
    /// Nowhere.
    Off,
}

/// Changes to one axis of one chart of a figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AxisOverride {
    /// Which axis. `y` is the axis of values, even if it is drawn below the data.
    pub axis: AxisName,
    /// The number of the chart in the figure, from 1.
    #[serde(skip_serializing_if = "is_default")]
    pub chart: Nth,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The unit that values are converted to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Its lower end, in the unit shown on the axis.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Its upper end, in the unit shown on the axis.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Its ticks, in the unit shown on the axis.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ticks: Vec<f64>,
    /// The approximate number of ticks, from 2 to 20, if `ticks` does not list them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tick_count: Option<usize>,
    /// Whether it is logarithmic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<bool>,
}

/// The number of a chart or a panel, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nth(pub usize);

impl Default for Nth {
    fn default() -> Self {
        Self(1)
    }
}

/// Changes to the name and look of a level, or of a series with another name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LevelOverride {
    /// The level: `bf16`, `4 GPUs` or `precision=bf16`; or the name of a series.
    pub level: String,
    /// Its name in the figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Its colour: a name among [`COLOUR_NAMES`], `grey`, or `#rrggbb`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub colour: Option<String>,
    /// The hatch of its bars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hatch: Option<Hatch>,
    /// The shape of its points.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marker: Option<Marker>,
    /// The dash of its lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dash: Option<DashKind>,
}

/// All changes to a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Overrides {
    /// A title above the figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The height of the whole figure in millimetres.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub height_mm: Option<f64>,
    /// Changes to axes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<AxisOverride>,
    /// Changes to levels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<LevelOverride>,
    /// Text, brackets, lines and regions that are added to charts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub annotations: Vec<Annotation>,
    /// The position of the legend.
    #[serde(skip_serializing_if = "is_default")]
    pub legend: LegendPlace,
    /// Maximum number of legend entries next to each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub legend_columns: Option<usize>,
    /// Share of the room of each group that its bars take, from 0.1 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bar_width: Option<f64>,
    /// The width of lines in points, from 0.3 to 4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line_width: Option<f64>,
    /// Whether the line below the figure that explains error bars is drawn.
    #[serde(skip_serializing_if = "is_on")]
    pub caption: bool,
    /// Whether error bars and bands are drawn.
    #[serde(skip_serializing_if = "is_on")]
    pub error_bars: bool,
    /// Whether values that papers print are drawn next to the measured ones.
    #[serde(skip_serializing_if = "is_on")]
    pub published: bool,
}

impl Default for Overrides {
    fn default() -> Self {
        Self {
            title: None,
            height_mm: None,
            axes: Vec::new(),
            levels: Vec::new(),
            annotations: Vec::new(),
            legend: LegendPlace::Above,
            legend_columns: None,
            bar_width: None,
            line_width: None,
            caption: true,
            error_bars: true,
            published: true,
        }
    }
}

fn is_on(value: &bool) -> bool {
    *value
}

impl Overrides {
    /// Allowed heights of figures in millimetres.
    pub const HEIGHTS_MM: (f64, f64) = (20.0, 300.0);
    /// Allowed shares of room that bars take.
    pub const BARS: (f64, f64) = (0.1, 1.0);
    /// Allowed widths of lines in points.
    pub const LINES_PT: (f64, f64) = (0.3, 4.0);
    /// Allowed numbers of columns of a legend.
    pub const LEGEND_COLUMNS: (usize, usize) = (1, 255);
    /// Allowed numbers of ticks.
    pub const TICKS: (usize, usize) = (2, 20);

    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The changes to an axis of a chart, as a mutable entry. If nothing is changed in it, [`Overrides::tidy`] removes it.
    pub fn axis_mut(&mut self, axis: AxisName, chart: Nth) -> &mut AxisOverride {
        let known = self.axes.iter().position(|change| change.axis == axis && change.chart == chart);
        let place = known.unwrap_or(self.axes.len());
        if known.is_none() {
            self.axes.push(AxisOverride { axis, chart, ..AxisOverride::default() });
        }
        &mut self.axes[place]
    }

    /// The changes to an axis of a chart.
    pub fn axis(&self, axis: AxisName, chart: Nth) -> AxisOverride {
        let known = self.axes.iter().find(|change| change.axis == axis && change.chart == chart);
        known.cloned().unwrap_or_default()
    }

    /// Removes the changes to axes of values: names, units, ends and ticks for one measure are wrong for another measure.
    pub(super) fn forget_values(&mut self) {
        for axis in self.axes.iter_mut().filter(|change| change.axis == AxisName::Y) {
            *axis = AxisOverride { axis: axis.axis, chart: axis.chart, log: axis.log, ..AxisOverride::default() };
        }
        self.tidy();
    }

    /// The changes to a level, as a mutable entry.
    pub fn level_mut(&mut self, level: &str) -> &mut LevelOverride {
        let known = self.levels.iter().position(|change| change.level == level);
        let place = known.unwrap_or(self.levels.len());
        if known.is_none() {
            self.levels.push(LevelOverride { level: level.to_owned(), ..LevelOverride::default() });
        }
        &mut self.levels[place]
    }

    /// Removes entries that change nothing.
    pub fn tidy(&mut self) {
        self.axes.retain(|change| {
            *change != AxisOverride { axis: change.axis, chart: change.chart, ..AxisOverride::default() }
        });
        self.levels
            .retain(|change| *change != LevelOverride { level: change.level.clone(), ..LevelOverride::default() });
    }

    /// A value, if it is within its limits.
    fn within(value: Option<f64>, (least, most): (f64, f64)) -> Option<f64> {
        value.filter(|value| (least..=most).contains(value))
    }

    /// The requested height in points.
    pub(super) fn height_pt(&self) -> Option<f64> {
        Self::within(self.height_mm, Self::HEIGHTS_MM).map(|mm| mm * super::style::PT_PER_MM)
    }

    /// The requested share of room that bars take.
    pub(super) fn bar_share(&self) -> Option<f64> {
        Self::within(self.bar_width, Self::BARS)
    }

    /// The requested width of lines in points.
    pub(super) fn line_pt(&self) -> Option<f64> {
        Self::within(self.line_width, Self::LINES_PT)
    }

    /// The requested number of columns of the legend.
    pub(super) fn most_legend_columns(&self) -> Option<usize> {
        let (least, most) = Self::LEGEND_COLUMNS;
        self.legend_columns.filter(|columns| (least..=most).contains(columns))
    }

    /// One line for each value that is outside its limits; the default is used instead.
    fn out_of_limits(&self) -> Vec<String> {
        let numbers = [
            ("height_mm", self.height_mm, Self::HEIGHTS_MM),
            ("bar_width", self.bar_width, Self::BARS),
            ("line_width", self.line_width, Self::LINES_PT),
        ];
        let wrong = numbers.into_iter().filter_map(|(name, value, limits)| {
            let value = value.filter(|_| Self::within(value, limits).is_none())?;
            Some(format!("{name} = {value} must be from {} to {}: the default is used", limits.0, limits.1))
        });
        let columns = self.legend_columns.filter(|_| self.most_legend_columns().is_none());
        let (least, most) = Self::LEGEND_COLUMNS;
        let columns = columns
            .map(|columns| format!("legend_columns = {columns} must be from {least} to {most}: the default is used"));
        wrong.chain(columns).collect()
    }

    /// Changes the charts. `judge` finds the cells of brackets and judges them. Returns one line for each change that is not possible;
    /// all other changes are made.
    pub(super) fn apply(&self, charts: &mut [Chart], levels: &[LevelNames], judge: Judge<'_>) -> Vec<String> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut wrong = self.out_of_limits();
        annotation::add(&self.annotations, charts, judge, &mut wrong);
        for axis in &self.axes {
            let count = charts.len();
            match charts.get_mut(axis.chart.0.wrapping_sub(1)) {
                Some(chart) => wrong.extend(change_axis(chart, axis)),
                None => wrong.push(format!(
                    "axis {}: the figure has {}, not {}",
                    axis.axis,
                    counted(count, "chart"),
                    axis.chart.0
                )),
            }
        }
        let names = Names::new(charts, levels);
        for level in &self.levels {
            wrong.extend(paint(charts, level, &names));
        }
        for level in &self.levels {
            wrong.extend(rename(charts, level, &names));
        }
        for chart in charts.iter_mut() {
            if !self.error_bars && chart.geometry != Geometry::Gantt {
                chart.intervals.clear();
                let points = chart.panels.iter_mut().flat_map(|panel| &mut panel.series);
                points.flat_map(|series| &mut series.points).for_each(|point| point.value.interval = None);
            }
            if !self.published {
                for panel in &mut chart.panels {
                    panel.series.retain(|series| series.role != Role::Published);
                }
            }
        }
        wrong
    }
}

/// Changes an axis of a chart. Returns one line for each change that is not possible.
fn change_axis(chart: &mut Chart, change: &AxisOverride) -> Vec<String> {
    let mut wrong = Vec::new();
    let is_y = change.axis == AxisName::Y;
    let has_numbers = if is_y { chart.has_values() } else { chart.x.categories.is_empty() };
    let can_be_log = chart.can_be_log();
    if let Some(unit) = &change.unit {
        let axis = if is_y { &chart.y } else { &chart.x };
        match unit::factor(&axis.unit, unit) {
            Some(factor) if has_numbers => scale_points(chart, is_y, factor, unit),
            _ => wrong.push(unit::refused(&axis.title(), &axis.unit, unit)),
        }
    }
    let axis: &mut Axis = if is_y { &mut chart.y } else { &mut chart.x };
    if let Some(name) = &change.name {
        axis.name.clone_from(name);
    }
    let asks_numbers = change.low.is_some()
        || change.high.is_some()
        || !change.ticks.is_empty()
        || change.tick_count.is_some()
        || change.log.is_some();
    if asks_numbers && !has_numbers {
        wrong.push(format!(
            "axis {}: it has names instead of numbers: limits, ticks and scale are ignored",
            change.axis
        ));
        return wrong;
    }
    match change.log {
        Some(true) if is_y && !can_be_log => {
            wrong.push(format!("axis {}: shares and parts of a whole cannot have a logarithmic axis", change.axis));
        }
        Some(log) => axis.scale = if log { Scale::Log } else { Scale::Linear },
        None => {}
    }
    let limits = (change.low, change.high);
    let is_finite = |end: Option<f64>| end.is_none_or(f64::is_finite);
    let in_order = limits.0.zip(limits.1).is_none_or(|(low, high)| low < high);
    let has_logarithm = axis.scale == Scale::Linear || [limits.0, limits.1].into_iter().flatten().all(|end| end > 0.0);
    if is_finite(limits.0) && is_finite(limits.1) && in_order && has_logarithm {
        axis.limits = limits;
    } else {
        let end = |end: Option<f64>| end.map_or(String::new(), |end| end.to_string());
        let why = if has_logarithm {
            "the lower end must be below the upper one"
        } else {
            "a logarithmic axis must be above 0"
        };
        wrong.push(format!("axis {}: limits {},{}: {why}", change.axis, end(limits.0), end(limits.1)));
    }
    axis.ticks = change.ticks.iter().copied().filter(|tick| tick.is_finite()).collect();
    let (least, most) = Overrides::TICKS;
    axis.tick_count = change.tick_count.filter(|count| (least..=most).contains(count));
    if let (Some(count), None) = (change.tick_count, axis.tick_count) {
        wrong.push(format!(
            "axis {}: tick_count = {count} must be from {least} to {most}: the default is used",
            change.axis
        ));
    }
    wrong
}

/// Converts the values of one axis.
fn scale_points(chart: &mut Chart, is_y: bool, factor: f64, unit: &str) {
    for point in chart.panels.iter_mut().flat_map(|panel| &mut panel.series).flat_map(|series| &mut series.points) {
        if is_y {
            point.value = super::ratio::scaled(point.value, factor);
        } else {
            point.x *= factor;
        }
    }
    // An author's annotations are in the unit that the axis shows.
    for addition in chart.additions.iter_mut().filter(|addition| addition.nth.is_none()) {
        addition.kind = addition.kind.scaled(is_y, factor);
    }
    let axis = if is_y { &mut chart.y } else { &mut chart.x };
    unit.clone_into(&mut axis.unit);
    axis.keeps_unit = true;
}

/// Separators between the parts of a name.
const BETWEEN: [&str; 3] = [" · ", " × ", " over "];

/// The parts of a name and the separators between them; the flag is true for parts and false for separators.
fn parts(name: &str) -> Vec<(&str, bool)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while let Some((at, sign)) = BETWEEN.iter().filter_map(|sign| Some((rest.find(sign)?, *sign))).min() {
        parts.extend([(&rest[..at], true), (sign, false)]);
        rest = &rest[at + sign.len()..];
    }
    parts.push((rest, true));
    parts
}

/// The names by which a level can be given.
pub(super) struct LevelNames {
    /// A name that is clear without the factor: `4 GPUs`.
    pub(super) name: String,
    /// The level as a plan writes it: `4`.
    pub(super) bare: String,
    /// The level with its factor: `gpus=4`.
    pub(super) with_key: String,
}

/// The names in a figure, and the levels that they belong to.
struct Names<'a> {
    levels: &'a [LevelNames],
    shown: Vec<String>,
}

impl<'a> Names<'a> {
    fn new(charts: &[Chart], levels: &'a [LevelNames]) -> Self {
        let mut shown: Vec<String> = Vec::new();
        for name in charts.iter().flat_map(names) {
            for part in std::iter::once(name).chain(parts(name).into_iter().filter(|part| part.1).map(|part| part.0)) {
                if !part.is_empty() && !shown.iter().any(|known| known == part) {
                    shown.push(part.to_owned());
                }
            }
        }
        Self { levels, shown }
    }

    /// The name of a level in the figure; empty if the figure does not show this level. The error suggests the names that it shows.
    fn of(&self, name: &str) -> Result<Vec<&str>, String> {
        let is = |text: &str| text.eq_ignore_ascii_case(name);
        let is_shown = |name: &&str| self.shown.iter().any(|known| known == name);
        let known = self.levels.iter().filter(|level| is(&level.name) || is(&level.bare) || is(&level.with_key));
        let mut matching: Vec<&str> = known.flat_map(|level| [level.name.as_str(), level.bare.as_str()]).collect();
        let is_level = !matching.is_empty();
        matching.extend(self.shown.iter().map(String::as_str).filter(|name| is(name)));
        matching.retain(is_shown);
        if matching.is_empty() && !is_level {
            Err(format!("no level or series in this figure is called {name:?}{}", suggestion(name, &self.shown)))
        } else {
            Ok(matching)
        }
    }
}

/// The names of a chart's panels, places and series.
fn names(chart: &Chart) -> impl Iterator<Item = &str> {
    let titles = chart.panels.iter().map(|panel| panel.title.as_str());
    let places = chart.x.categories.iter().chain(&chart.y.categories).map(String::as_str);
    titles.chain(places).chain(chart.series().map(|series| series.name.as_str()))
}

/// Renames a level everywhere in the figure.
fn rename(charts: &mut [Chart], change: &LevelOverride, names: &Names<'_>) -> Option<String> {
    let label = change.label.as_ref()?;
    let shown_names = match names.of(&change.level) {
        Ok(shown_names) => shown_names,
        Err(message) => return Some(message),
    };
    let renamed = |name: &mut String| {
        if shown_names.contains(&name.as_str()) {
            name.clone_from(label);
            return;
        }
        let parts = parts(name).into_iter().map(|(part, _)| if shown_names.contains(&part) { label } else { part });
        *name = parts.collect();
    };
    for chart in charts {
        chart.x.categories.iter_mut().chain(&mut chart.y.categories).for_each(renamed);
        for panel in &mut chart.panels {
            renamed(&mut panel.title);
            panel.series.iter_mut().for_each(|series| renamed(&mut series.name));
        }
    }
    None
}

/// The keys for overrides of a name that is pointed at in a figure: one level for each part of the name that is a level or was renamed;
/// otherwise the series with that name.
pub(super) fn keys_of(name: &str, overrides: &Overrides, levels: &[LevelNames]) -> Vec<String> {
    let called = |part: &str| -> Option<String> {
        let renamed = overrides.levels.iter().find(|change| change.label.as_deref() == Some(part));
        let by_name = || levels.iter().find(|level| level.name == part).map(|level| level.with_key.clone());
        // Two factors may have levels with the same bare name.
        let by_level = || {
            let mut bare = levels.iter().filter(|level| level.bare == part);
            bare.next().filter(|_| bare.next().is_none()).map(|level| level.with_key.clone())
        };
        renamed.map(|change| change.level.clone()).or_else(by_name).or_else(by_level)
    };
    if let Some(key) = called(name) {
        return vec![key];
    }
    let mut keys: Vec<String> = Vec::new();
    for key in parts(name).into_iter().filter(|part| part.1).filter_map(|part| called(part.0)) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    if keys.is_empty() { vec![name.to_owned()] } else { keys }
}

/// A colour, given by its name or as `#rrggbb`.
///
/// # Errors
/// The text is neither; the error lists the names.
pub fn colour_of(text: &str) -> Result<[u8; 3], String> {
    if let Some(place) = COLOUR_NAMES.iter().position(|name| name.eq_ignore_ascii_case(text)) {
        return Ok(COLOURS[place]);
    }
    if ["grey", "gray"].contains(&text) {
        return Ok(GREY);
    }
    let hex = text.strip_prefix('#').filter(|hex| hex.len() == 6 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let number = hex.and_then(|hex| u32::from_str_radix(hex, 16).ok());
    let names = COLOUR_NAMES.join(", ");
    number
        .map(|number| [(number >> 16) as u8, (number >> 8) as u8, number as u8])
        .ok_or_else(|| format!("{text:?} is not a colour: use {names}, grey or #rrggbb"))
}

/// Changes the look of a level.
fn paint(charts: &mut [Chart], change: &LevelOverride, names: &Names<'_>) -> Option<String> {
    let LevelOverride { level, colour, hatch, marker, dash, .. } = change;
    if colour.is_none() && hatch.is_none() && marker.is_none() && dash.is_none() {
        return None;
    }
    let colour = match colour.as_deref().map(colour_of).transpose() {
        Ok(colour) => colour,
        Err(message) => return Some(format!("level {level}: {message}")),
    };
    let own = OwnLook { colour, hatch: *hatch, marker: *marker, dash: *dash };
    let shown_names = names.of(level);
    let is_asked = |series: &Series, is_effect: bool| {
        let of_look = matches!(&series.look, Look::Level(known, _) if known.to_string().eq_ignore_ascii_case(level));
        let is_named = |shown_names: &Vec<&str>| {
            let parts = parts(&series.name);
            // An effect takes the look of the level that it changes to. An interaction takes that of neither of its two levels.
            let counts = match is_effect {
                true if series.name.contains(BETWEEN[1]) => 0,
                true => 1,
                false => parts.len(),
            };
            shown_names.contains(&series.name.as_str())
                || parts[..counts].iter().any(|part| shown_names.contains(&part.0))
        };
        of_look || shown_names.as_ref().is_ok_and(is_named)
    };
    let mut has_level = false;
    for chart in charts.iter_mut() {
        let is_effect = matches!(chart.geometry, Geometry::Effects | Geometry::Tornado);
        for series in chart.panels.iter_mut().flat_map(|panel| &mut panel.series) {
            if is_asked(series, is_effect) {
                has_level = true;
                series.look = Look::Own(Box::new(series.look.clone()), own);
            }
        }
    }
    match shown_names {
        _ if has_level => None,
        // The level may occur in other figures, so the change is kept.
        Ok(shown_names) if shown_names.is_empty() => None,
        Err(message) => Some(message),
        Ok(_) => {
            Some(format!("level {level}: this figure draws no bar, line or point that can have this level's look"))
        }
    }
}

#[cfg(test)]
#[path = "overrides/tests.rs"]
mod tests;
