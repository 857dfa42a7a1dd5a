//! A measure over the number of GPUs, or of nodes, next to the values of perfect scaling.

use std::collections::HashMap;

use super::arrange::along_scaling;
use super::bars::scaled;
use super::curves::Lines;
use super::{Scene, shown_measure};
use crate::analysis::{Cell, Level, Method, Scaling, Value, measure_of};
use crate::figure::chart::{Axis, Chart, Geometry, Look, Point, Role, Series};
use crate::figure::ratio::over_baseline;
use crate::figure::study::SPEEDUP;
use crate::plan::NODES;

/// Maximum number of lines with an ideal of their own.
const IDEAL_LINES: usize = 8;

/// How a measure would change on more GPUs with perfect scaling; `None` if this is not defined.
fn ideal_of(scene: &Scene, metric: &str) -> Option<Scaling> {
    let scaling = match metric {
        SPEEDUP => Scaling::Linear,
        key => measure_of(scene.cells, key).map_or(Scaling::None, |measure| measure.scaling),
    };
    Some(scaling).filter(|scaling| *scaling != Scaling::None)
}

/// The value on `more` times the number of GPUs, divided by the value before.
fn factor(ideal: Scaling, more: f64) -> f64 {
    match ideal {
        Scaling::Linear => more,
        Scaling::Inverse => more.recip(),
        Scaling::Constant | Scaling::None => 1.0,
    }
}

/// The measure, and its efficiency if it has one.
pub(super) fn scaling(scene: &Scene) -> Vec<Chart> {
    let metric = scene.study.shown_measure();
    let along = along_scaling(scene.cells);
    let what = if along[0] == NODES { "nodes" } else { "GPUs" };
    let (name, unit, factor) = shown_measure(scene, metric);
    let mut lines = Lines::default();
    let mut cells: Vec<(f64, usize, &Cell)> =
        scene.cells.iter().enumerate().filter_map(|(row, cell)| Some((count(cell, along[0])?, row, cell))).collect();
    cells.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    for (x, row, cell) in &cells {
        let value = scene.value(*row, metric).map(|value| scaled(value, factor));
        let point = value.map(|value| Point { x: *x, across: None, value, ratio: None, cell: Some(cell.key()) });
        lines.add(scene, cell, &along, point.into_iter().collect());
    }
    let mut notes: Vec<String> = lines.note().into_iter().collect();
    let most = lines.panels.iter().flat_map(|panel| &panel.series).map(|series| series.points.len()).max();
    let scales = most.is_some_and(|most| most > 1);
    if !scales {
        let counts = if what == "GPUs" { "GPU counts" } else { "numbers of nodes" };
        notes.push(format!("Scaling needs at least two {counts} per configuration."));
    }
    let ideal = ideal_of(scene, metric);
    let efficiency = ideal.filter(|_| scales).map(|ideal| efficiency(scene, ideal, &cells, &along, what));
    if let Some(ideal) = ideal {
        if lines.panels.iter().any(|panel| panel.series.len() > IDEAL_LINES) {
            notes.push(format!("Ideals are drawn for up to {IDEAL_LINES} lines."));
        }
        lines.panels.iter_mut().for_each(|panel| add_ideal(&mut panel.series, ideal));
        if lines.panels.iter().flat_map(|panel| &panel.series).any(|series| series.role == Role::Ideal) {
            notes.push(format!("Dotted lines: ideal, from the fewest {what} of each line."));
        }
    } else {
        notes.push(format!("{name} has no ideal to compare with."));
    }
    let title = format!("{name} over {what}");
    let axes = Chart::new(title, Geometry::Scaling, Axis::new(axis_name(what), ""), Axis::new(name, unit));
    let chart = Chart { panels: lines.panels, notes, ..axes };
    std::iter::once(chart).chain(efficiency).collect()
}

fn count(cell: &Cell, axis: &str) -> Option<f64> {
    cell.level(axis)?.as_number().filter(|count| count.is_finite() && *count > 0.0)
}

fn axis_name(what: &str) -> &str {
    if what == "nodes" { "Nodes" } else { "GPUs" }
}

/// The efficiency: the speed-up over the run with the fewest GPUs or nodes, divided by the ratio of the numbers of GPUs
/// or nodes.
fn efficiency(scene: &Scene, ideal: Scaling, cells: &[(f64, usize, &Cell)], along: &[&str], what: &str) -> Chart {
    let mut lines = Lines::default();
    let measure_key = scene.study.own_measure();
    // The cells with the fewest GPUs or nodes come first.
    let mut bases: HashMap<Vec<Option<Level>>, (f64, &Cell)> = HashMap::new();
    for (x, _, cell) in cells {
        let (fewest, base) = *bases.entry(besides(scene, cell, along)).or_insert((*x, *cell));
        let lost = if ideal == Scaling::Constant { 1.0 } else { fewest / x };
        let value =
            over_baseline(cell, Some(base), measure_key, scene.intervals).map(|ratio| scaled(ratio, 100.0 * lost));
        let point = value.map(|value| Point { x: *x, across: None, value, ratio: None, cell: Some(cell.key()) });
        lines.add(scene, cell, along, point.into_iter().collect());
    }
    let (low, high) = cells.iter().fold((f64::MAX, 0.0_f64), |(low, high), cell| (low.min(cell.0), high.max(cell.0)));
    for panel in &mut lines.panels {
        panel.series.push(ideal_series("100 %", Look::Grey, vec![(low, 100.0), (high, 100.0)]));
    }
    let (x, y) = (Axis::new(axis_name(what), ""), Axis::new("Efficiency", "%"));
    Chart {
        panels: lines.panels,
        notes: vec![format!(
            "Efficiency is the speed-up over the fewest {what} of each line, divided by the ratio of the numbers of {what}. Dotted: 100 %."
        )],
        ..Chart::new("Parallel efficiency", Geometry::Scaling, x, y)
    }
}

/// A cell's levels of the settings that are not along the axis.
fn besides(scene: &Scene, cell: &Cell, along: &[&str]) -> Vec<Option<Level>> {
    let arrangement = scene.arrangement;
    let settings = arrangement.columns.iter().chain(&arrangement.colour).chain(&arrangement.rest);
    settings.filter(|setting| !along.contains(&&*setting.key)).map(|setting| cell.level(&setting.key)).collect()
}

fn add_ideal(series: &mut Vec<Series>, ideal: Scaling) {
    if series.len() > IDEAL_LINES {
        return;
    }
    let ideal_line = |series: &Series| {
        let (first, last) = (series.points.first()?, series.points.last()?);
        // Enough points for a curve.
        let at = |share: f64| first.x + share * (last.x - first.x);
        let points = (0..=24).map(|index| at(f64::from(index) / 24.0));
        let points = points.map(|x| (x, first.value.median * factor(ideal, x / first.x))).collect();
        (last.x > first.x).then(|| ideal_series("ideal", series.look.clone(), points))
    };
    let ideals: Vec<Series> = series.iter().filter_map(ideal_line).collect();
    series.extend(ideals);
}

fn ideal_series(name: &str, look: Look, points: Vec<(f64, f64)>) -> Series {
    let value = |median: f64| Value { median, interval: None, n: 0, method: Method::One };
    let points =
        points.into_iter().map(|(x, y)| Point { x, across: None, value: value(y), ratio: None, cell: None }).collect();
    Series { role: Role::Ideal, points, ..Series::measured(name, look) }
}
