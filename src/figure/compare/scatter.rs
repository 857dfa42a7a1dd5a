//! Two measures against each other, or a measure over a factor that is a number: one point a cell, their correlation, and a fitted law.

use std::collections::{HashMap, HashSet};

use super::{Scene, shown_measure};
use crate::analysis::{
    Cell, Interval, LawFit, Level, Method, TimeAt, TimeLaw, Value, by_repeat, counted, level_name, measure_of,
    rank_correlation,
};
use crate::figure::chart::{Axis, Chart, Geometry, Look, Panel, Point, Role, Scale, Series, panel_of};
use crate::figure::number::significant;
use crate::figure::ratio::scaled;
use crate::figure::study::{Law, is_measured, is_number};
use crate::plan::{GPUS, MeasureUnit};

/// With more points than this, a chart has no bars for intervals: they would hide the points. The table has the intervals.
const MOST_WITH_BARS: usize = 400;
/// The most series whose fits are described and drawn.
const MOST_FITS: usize = 8;
/// With more colours than this, all points have the same colour, because there are no more different looks.
const MOST_COLOURS: usize = 64;
/// The advice for a factor that counts bytes but has no unit.
const UNIT_OF_FACTOR: &str = "; if it counts bytes, give it its unit: `unit = \"B\"` in the plan's [command.factor.KEY], or `multicard import \
                              --set \"COLUMN=factor B\"`";
/// The name of a line that is the only one.
const NAMES: [&str; 2] = ["Amdahl's law", "α-β law"];

/// The measure or factor on the x axis.
struct Across {
    key: String,
    name: String,
    unit: String,
    /// The factor from the values' own unit to the unit of the axis.
    factor: f64,
    /// The values' own unit.
    own_unit: String,
    is_measure: bool,
}

impl Across {
    fn of(scene: &Scene) -> Self {
        let key = scene.study.shown_across().to_owned();
        if is_measured(scene.cells, &key) || !is_number(scene.cells, &key) {
            let (name, unit, factor) = shown_measure(scene, &key);
            let own_unit = measure_of(scene.cells, &key).map_or(String::new(), |measure| measure.unit.clone());
            return Self { name, unit: unit.to_owned(), factor, own_unit, is_measure: true, key };
        }
        let setting = scene.arrangement.across.as_ref();
        let name = setting.map_or_else(|| key.clone(), |setting| setting.name.to_string());
        let unit = setting.map_or(String::new(), |setting| setting.unit.to_string());
        Self { name, own_unit: unit.clone(), unit, factor: 1.0, is_measure: false, key }
    }

    /// The value of a shown cell, given by its index.
    fn value(&self, scene: &Scene, row: usize) -> Option<Value> {
        if self.is_measure {
            return scene.value(row, &self.key);
        }
        let median = scene.cells[row].level(&self.key)?.as_number()?;
        Some(Value { median, interval: None, n: 1, method: Method::One })
    }

    /// The value of each repeat of a cell.
    fn by_repeat(&self, cell: &Cell, repeats: &[(u32, f64)]) -> Vec<(u32, f64)> {
        match cell.level(&self.key).and_then(|level| Level::as_number(&level)).filter(|_| !self.is_measure) {
            Some(level) => repeats.iter().map(|(repeat, _)| (*repeat, level)).collect(),
            None => by_repeat(cell, &self.key),
        }
    }
}

/// The chart.
pub(super) fn scatter(scene: &Scene) -> Vec<Chart> {
    let across = Across::of(scene);
    let key = scene.study.shown_measure();
    let (name, unit, factor) = shown_measure(scene, key);
    let axis = |name: &str, unit: &str| Axis { is_free: true, ..Axis::new(name, unit) };
    let over = if across.is_measure { across.name.to_lowercase() } else { across.name.clone() };
    let title = format!("{name} over {over}");
    let mut chart = Chart::new(title, Geometry::Scatter, axis(&across.name, &across.unit), axis(&name, unit));
    let (mut pairs, mut lacking) = (Vec::new(), 0_usize);
    let mut groups: Vec<Group> = Vec::new();
    let mut places: HashMap<(String, Option<Level>), usize> = HashMap::new();
    for (row, cell) in scene.cells.iter().enumerate() {
        let (Some(x), Some(y)) = (across.value(scene, row), scene.value(row, key)) else {
            lacking += 1;
            continue;
        };
        pairs.push((x.median, y.median));
        let x = scaled(x, across.factor);
        let point =
            Point { x: x.median, across: x.interval, value: scaled(y, factor), ratio: None, cell: Some(cell.key()) };
        let colour = scene.arrangement.colour.as_ref();
        let (panel, level) = (scene.panel_name(cell), colour.and_then(|setting| cell.level(&setting.key)));
        let place = *places.entry((panel.clone(), level.clone())).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.add(row, point),
            None => {
                let name = colour.zip(level).map(|(setting, level)| level_name(setting, &level)).unwrap_or_default();
                groups.push(Group { panel, name, look: scene.look(cell), rows: vec![row], points: vec![point] });
            }
        }
    }
    if scene.study.log && pairs.iter().all(|(x, _)| *x > 0.0) {
        chart.x.scale = Scale::Log;
    }
    if pairs.len() > MOST_WITH_BARS {
        let bars = groups.iter_mut().flat_map(|group| &mut group.points);
        bars.for_each(|point| (point.across, point.value.interval) = (None, None));
        chart.notes.push("With so many points, intervals are in the table only.".to_owned());
    }
    chart.notes.insert(0, correlation_note(&pairs));
    if lacking > 0 {
        chart.notes.push(format!("{} without one of the two values.", counted(lacking, "cell")));
    }
    let fits = fit(scene, &across, &groups, &mut chart.notes);
    add_points(scene, &mut chart, groups);
    let to_base = MeasureUnit::parse(&across.own_unit).factor / across.factor;
    add_lines(&mut chart.panels, &fits, (to_base, factor));
    vec![chart]
}

/// The cells of one colour in one panel.
struct Group {
    panel: String,
    name: String,
    look: Look,
    /// The indices of its cells.
    rows: Vec<usize>,
    points: Vec<Point>,
}

impl Group {
    fn add(&mut self, row: usize, point: Point) {
        self.rows.push(row);
        self.points.push(point);
    }

    /// Its name with its panel's.
    fn whole_name(&self) -> String {
        [&self.panel, &self.name].into_iter().filter(|name| !name.is_empty()).cloned().collect::<Vec<_>>().join(" · ")
    }
}

/// Draws the points of each group in the group's colour. If there are too many groups to distinguish them, all points have one colour.
fn add_points(scene: &Scene, chart: &mut Chart, groups: Vec<Group>) {
    let colours = groups.iter().map(|group| group.name.as_str()).collect::<HashSet<&str>>().len();
    let is_one = colours > MOST_COLOURS;
    if let Some(setting) = scene.arrangement.colour.as_ref().filter(|_| is_one) {
        let name = &setting.name;
        chart
            .notes
            .push(format!("{colours} levels of {name} could not be told apart by colours: all points have one."));
    }
    for Group { panel, name, look, points, .. } in groups {
        let (name, look) = if is_one { (String::new(), Look::Place(4)) } else { (name, look) };
        panel_of(&mut chart.panels, panel).series_of(name, |_| look).points.extend(points);
    }
}

/// The note on the correlation, with its interval and its number of cells.
fn correlation_note(pairs: &[(f64, f64)]) -> String {
    let n = counted(pairs.len(), "cell");
    match rank_correlation(pairs) {
        None if pairs.len() < 3 => format!("{n}: a correlation needs three or more."),
        None => format!("No correlation: one of the two values is the same in all of {n}."),
        Some(known) => {
            let ends = known.interval.map_or(String::new(), |Interval { low, high }| format!(" [{low:.2}, {high:.2}]"));
            let method =
                if known.interval.is_some() { ", 95 % interval by Fisher's z" } else { "; too few for an interval" };
            let method = if known.rho.abs() == 1.0 { "; the order is the same in both" } else { method };
            let method = if known.rho == -1.0 { "; the order of one is the reverse of the other" } else { method };
            format!("Rank correlation of medians (Spearman): {:.2}{ends} over {n}{method}.", known.rho)
        }
    }
}

/// A fitted law with the panel and look of its series.
struct Fitted {
    panel: String,
    look: Look,
    fit: LawFit,
    ends: (f64, f64),
}

/// Fits the study's law to each group, and describes the fits.
fn fit(scene: &Scene, across: &Across, groups: &[Group], notes: &mut Vec<String>) -> Vec<Fitted> {
    let law = match scene.study.law {
        Law::Nothing => return Vec::new(),
        Law::Amdahl => TimeLaw::Amdahl,
        Law::AlphaBeta => TimeLaw::AlphaBeta,
    };
    if let Some(reason) = refused(scene, across, law) {
        notes.push(reason);
        return Vec::new();
    }
    let key = scene.study.own_measure();
    let to_base = MeasureUnit::parse(&across.own_unit).factor;
    let mut fits = Vec::new();
    for group in groups.iter().take(MOST_FITS) {
        let times = |row: &usize| -> Vec<TimeAt> {
            let cell = &scene.cells[*row];
            let times = by_repeat(cell, key);
            let places = across.by_repeat(cell, &times);
            let at = |(repeat, time_s): &(u32, f64)| {
                let (_, x) = places.iter().find(|(other, _)| other == repeat)?;
                Some((*repeat, x * to_base, *time_s))
            };
            times.iter().filter_map(at).collect()
        };
        let cells: Vec<Vec<TimeAt>> = group.rows.iter().map(times).collect();
        let is_paired = group.rows.iter().all(|row| scene.cells[*row].pairs_with(&scene.cells[group.rows[0]]));
        let name = group.whole_name();
        let name = if name.is_empty() { NAMES[law as usize].to_owned() } else { name };
        match LawFit::of(law, (&cells, is_paired), scene.study.equal_within, scene.intervals) {
            Ok(fit) => {
                notes.push(described(&name, &fit));
                let places = || group.points.iter().map(|point| point.x);
                let ends = (places().fold(f64::MAX, f64::min), places().fold(0.0, f64::max));
                fits.push(Fitted { panel: group.panel.clone(), look: group.look.clone(), fit, ends });
            }
            Err(reason) => notes.push(format!("{name}: no fit: {reason}.")),
        }
    }
    if groups.len() > MOST_FITS {
        notes.push(format!("{MOST_FITS} of {} colours are fitted: filter to see the others.", groups.len()));
    }
    fits
}

/// Why a law cannot be about the axes.
fn refused(scene: &Scene, across: &Across, law: TimeLaw) -> Option<String> {
    let name = NAMES[law as usize];
    let is_time = measure_of(scene.cells, scene.study.own_measure()).is_some_and(|measure| measure.is_time());
    if !is_time {
        return Some(format!("{name} is about times: choose a measure in seconds."));
    }
    let unit = MeasureUnit::parse(&across.own_unit);
    match law {
        TimeLaw::Amdahl if across.key != GPUS => {
            Some(format!("{name} is about the number of GPUs: choose it as the x axis (gpus)."))
        }
        TimeLaw::AlphaBeta if !unit.is_like(&MeasureUnit::parse("B")) => {
            let (own_unit, unit_of_factor) = match across.own_unit.as_str() {
                "" if across.is_measure => ("has no unit".to_owned(), ""),
                "" => ("has no unit".to_owned(), UNIT_OF_FACTOR),
                unit => (format!("is in {unit}"), ""),
            };
            let across = &across.name;
            Some(format!(
                "{name} is about bytes, and {across} {own_unit}: choose a measure or factor in bytes as the x axis{unit_of_factor}."
            ))
        }
        _ => None,
    }
}

/// A fit in words: its parameters, and where it fails.
fn described(name: &str, fit: &LawFit) -> String {
    let [first, second] = &fit.parameters;
    let value = |value: &Value, factor: f64| {
        let value = scaled(*value, factor);
        let ends = value.interval.map(|ends| format!(" [{}, {}]", significant(ends.low), significant(ends.high)));
        format!("{}{}", significant(value.median), ends.unwrap_or_default())
    };
    let n = match first.interval {
        Some(_) => format!(" (intervals over {})", counted(first.n, "repeat")),
        None if first.method == Method::Unpaired => " (repeats form no pairs, so no intervals)".to_owned(),
        None => " (one repeat, so no intervals)".to_owned(),
    };
    let is_odd = match fit.law {
        TimeLaw::Amdahl => second.median < 0.0 || second.median > 1.0,
        TimeLaw::AlphaBeta => first.median < 0.0 || second.median <= 0.0,
    };
    let parameters = match fit.law {
        TimeLaw::Amdahl => {
            let most =
                (second.median > 0.0).then(|| format!("; at most {}× as fast", significant(second.median.recip())));
            let time = value(first, 1.0);
            format!("{time} s on one GPU, serial share {} %{}", value(second, 100.0), most.unwrap_or_default())
        }
        TimeLaw::AlphaBeta => format!("α = {} µs, β = {} GB/s", value(first, 1e6), value(second, 1e-9)),
    };
    let place = |x: f64| match fit.law {
        TimeLaw::Amdahl if x == 1.0 => "1 GPU".to_owned(),
        TimeLaw::Amdahl => format!("{x} GPUs"),
        TimeLaw::AlphaBeta => format!("{} MB", significant(x * 1e-6)),
    };
    let misses: Vec<String> = fit
        .misses
        .iter()
        .map(|miss| {
            let side = if miss.over > 0.0 { "above" } else { "below" };
            let (over, spread) = (significant(100.0 * miss.over.abs()), significant(100.0 * miss.spread));
            format!("{} ({over} % {side} the law, repeats within ±{spread} %)", place(miss.x))
        })
        .collect();
    let verdict = match misses.as_slice() {
        _ if is_odd => " These parameters are impossible, so the law does not hold here.".to_owned(),
        [] if fit.places == 2 => " Any two places fit: a third would test the law.".to_owned(),
        [] if fit.untold > 0 => " More repeats would show whether it fits.".to_owned(),
        [] => format!(" It fits all {} places within their repeats' spread.", fit.places),
        _ => format!(" It fails at {}.", misses.join(", ")),
    };
    format!("{name}: {parameters}{n}.{verdict}")
}

/// Draws each fit as a line.
fn add_lines(panels: &mut Vec<Panel>, fits: &[Fitted], (to_base, factor): (f64, f64)) {
    let is_alone = fits.len() == 1;
    for Fitted { panel, look, fit, ends: (low, high) } in fits {
        let point = |step: u32| {
            // Equal steps of the logarithm: places are often powers of two.
            let x = low * (high / low).powf(f64::from(step) / 32.0);
            let median = fit.at(x * to_base) * factor;
            let value = Value { median, interval: None, n: 0, method: Method::One };
            Point { x, across: None, value, ratio: None, cell: None }
        };
        let name = if is_alone { NAMES[fit.law as usize] } else { "" };
        let line =
            Series { role: Role::Ideal, points: (0..=32).map(point).collect(), ..Series::measured(name, look.clone()) };
        panel_of(panels, panel.clone()).series.push(line);
    }
}

#[cfg(test)]
#[path = "scatter_tests.rs"]
mod tests;
