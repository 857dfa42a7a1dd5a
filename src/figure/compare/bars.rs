//! Grouped bars: one measure of each cell, or the peaks of its memory.

use super::arrange::{name_of, place_of};
use super::{Scene, shown_measure};
use crate::analysis::{Cell, RunState, Setting, Value, level_rank};
use crate::figure::chart::{Axis, Chart, Geometry, Look, Panel, Point, panel_of};
pub(super) use crate::figure::ratio::scaled;
use crate::figure::study::{MEMORY, RATIO, SPEEDUP, STEP_COST};

/// Maximum number of cells without a bar that a note names.
const NAMED_CELLS: usize = 4;

/// The chosen measure: rows are groups, columns are panels, colours are bars.
pub(super) fn bars(scene: &Scene) -> Chart {
    let metric = scene.study.shown_measure();
    let mut chart = laid_out(scene, metric);
    let colour = scene.arrangement.colour.as_slice();
    let name_of = |cell: &Cell| if colour.is_empty() { String::new() } else { name_of(cell, colour) };
    for (row, cell) in scene.cells.iter().enumerate() {
        let ratio = if [SPEEDUP, STEP_COST].contains(&metric) { None } else { scene.value(row, RATIO) };
        add(scene, &mut chart, (row, cell), metric, (name_of(cell), scene.look(cell)), ratio);
    }
    // The order must not depend on which cell comes first.
    let order: Vec<String> = in_order_of(scene, colour).into_iter().map(name_of).collect();
    for panel in &mut chart.panels {
        panel.series.sort_by_key(|series| order.iter().position(|name| *name == series.name));
    }
    if metric == STEP_COST && !chart.is_empty() && !has_other_than_baselines(scene) {
        // Next to other cells, a baseline is a bar without height, with a name. Without other cells, the axes would be empty.
        chart.panels.clear();
        chart.x.categories.clear();
        let of_each = scene.baseline.of_each().map_or(String::new(), |levels| format!(" ({levels})"));
        chart.notes.push(format!("There is nothing to compare: every finished cell is its own baseline{of_each}."));
        if of_each.contains("trace = off") {
            chart.notes.push(
                "A plan with trace = [\"off\", \"built-in\"] runs each cell without and with a tracer.".to_owned(),
            );
        }
        return chart;
    }
    finish(scene, chart, &[metric])
}

/// Whether some cell has a cost over another cell.
fn has_other_than_baselines(scene: &Scene) -> bool {
    let is_own = |cell: &Cell| scene.baseline.of(cell).is_some_and(|baseline| baseline.key() == cell.key());
    scene.cells.iter().enumerate().any(|(row, cell)| !is_own(cell) && scene.value(row, STEP_COST).is_some())
}

/// The peaks of memory of each cell, one bar for each kind.
pub(super) fn memory(scene: &Scene) -> Chart {
    let mut chart = laid_out(scene, MEMORY[0]);
    chart.title = "Peak memory per device".to_owned();
    chart.y.name = chart.title.clone();
    for (row, cell) in scene.cells.iter().enumerate() {
        for (place, key) in MEMORY.into_iter().enumerate() {
            let name = shown_measure(scene, key).0;
            add(scene, &mut chart, (row, cell), key, (name, Look::Place(place)), None);
        }
    }
    join_equal(&mut chart);
    finish(scene, chart, &MEMORY)
}

/// Merges the bars of measures that are equal in every cell, as on CPUs, so that one bar replaces several equal bars.
fn join_equal(chart: &mut Chart) {
    let is_near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
    let same = |a: &Point, b: &Point| {
        let ends = |point: &Point| point.value.interval.map_or([point.value.median; 2], |ends| [ends.low, ends.high]);
        let (own, other) = (ends(a), ends(b));
        a.x == b.x && is_near(a.value.median, b.value.median) && is_near(own[0], other[0]) && is_near(own[1], other[1])
    };
    let points = |chart: &Chart, name: &str| -> Vec<Vec<Point>> {
        let points_of =
            |panel: &Panel| panel.series.iter().find(|series| series.name == name).map(|series| series.points.clone());
        chart.panels.iter().map(|panel| points_of(panel).unwrap_or_default()).collect()
    };
    let is_same = |chart: &Chart, a: &str, b: &str| {
        let (a, b) = (points(chart, a), points(chart, b));
        a.iter().flatten().next().is_some()
            && a.iter().zip(&b).all(|(a, b)| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)))
    };
    let mut groups: Vec<Vec<String>> = Vec::new();
    for name in chart.legend().iter().map(|series| series.name.clone()) {
        match groups.iter_mut().find(|group| is_same(chart, &group[0], &name)) {
            Some(group) => group.push(name),
            None => groups.push(vec![name]),
        }
    }
    for group in groups.iter().filter(|group| group.len() > 1) {
        for panel in &mut chart.panels {
            panel.series.retain(|series| !group[1..].contains(&series.name));
            let first = panel.series.iter_mut().filter(|series| series.name == group[0]);
            first.for_each(|series| series.name = group.join(" = "));
        }
        chart.notes.push(format!("{} are equal in every cell: one bar represents them all.", group.join(", ")));
    }
}

/// The cells in the order of their levels of some settings. This order does not change when further cells finish.
fn in_order_of<'a>(scene: &'a Scene<'a>, settings: &[Setting]) -> Vec<&'a Cell<'a>> {
    let mut cells: Vec<&Cell> = scene.cells.iter().collect();
    // A cell without the setting comes last.
    let place = |cell: &&Cell| {
        let ranks = settings.iter().map(|setting| level_rank(setting, cell.level(&setting.key)));
        ranks.map(|rank| (rank.1.is_none(), rank)).collect::<Vec<_>>()
    };
    cells.sort_by_cached_key(place);
    cells
}

/// The settings that make groups of bars.
fn rows(scene: &Scene) -> Vec<Setting> {
    scene.arrangement.rows.iter().chain(&scene.arrangement.rest).cloned().collect()
}

fn group_name(cell: &Cell, rows: &[Setting]) -> String {
    if rows.is_empty() { String::new() } else { name_of(cell, rows) }
}

/// A chart without bars, with groups and panels in the order of their levels.
fn laid_out(scene: &Scene, metric: &str) -> Chart {
    let mut chart = empty(scene, metric);
    let rows = rows(scene);
    for cell in in_order_of(scene, &rows) {
        place_of(&mut chart.x.categories, group_name(cell, &rows));
    }
    for cell in in_order_of(scene, scene.arrangement.columns.as_slice()) {
        panel_of(&mut chart.panels, scene.panel_name(cell));
    }
    chart
}

fn empty(scene: &Scene, metric: &str) -> Chart {
    let (name, unit, _) = shown_measure(scene, metric);
    let rows = scene.arrangement.rows.as_ref().map_or("", |setting| &*setting.name);
    Chart::new(name.clone(), Geometry::Bars, Axis::new(rows, ""), Axis::new(name, unit))
}

fn add(
    scene: &Scene,
    chart: &mut Chart,
    (row, cell): (usize, &Cell),
    metric: &str,
    (name, look): (String, Look),
    ratio: Option<Value>,
) {
    let x = place_of(&mut chart.x.categories, group_name(cell, &rows(scene))) as f64;
    let series = panel_of(&mut chart.panels, scene.panel_name(cell)).series_of(name, |_| look);
    if let Some(value) = scene.value(row, metric) {
        let value = scaled(value, shown_measure(scene, metric).2);
        series.points.push(Point { x, across: None, value, ratio, cell: Some(cell.key()) });
    }
}

/// The chart without groups that have no bars, and with a note that names cells without a bar and says why.
fn finish(scene: &Scene, mut chart: Chart, measures: &[&str]) -> Chart {
    if chart.is_empty() {
        if !chart.panels.is_empty() {
            chart.notes.push(format!("No finished run of these cells reports its {}.", chart.title.to_lowercase()));
        }
        return chart;
    }
    let has_bar = |group: usize| chart.series().flat_map(|series| &series.points).any(|point| point.x == group as f64);
    let kept: Vec<usize> = (0..chart.x.categories.len()).filter(|group| has_bar(*group)).collect();
    chart.x.categories = kept.iter().map(|group| chart.x.categories[*group].clone()).collect();
    let points = chart.panels.iter_mut().flat_map(|panel| &mut panel.series).flat_map(|series| &mut series.points);
    for point in points {
        point.x = kept.iter().position(|group| *group as f64 == point.x).unwrap_or(0) as f64;
    }
    let without =
        scene.cells.iter().enumerate().filter(|(row, _)| measures.iter().all(|key| scene.value(*row, key).is_none()));
    let without: Vec<String> =
        without.map(|(_, cell)| format!("{} ({})", name_of(cell, scene.naming), why(cell))).collect();
    if !without.is_empty() {
        let named = without.iter().take(NAMED_CELLS).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = without.len().saturating_sub(NAMED_CELLS);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        chart.notes.push(format!("Without a bar: {named}{more}."));
    }
    chart
}

/// Why a cell has no value.
fn why(cell: &Cell) -> &'static str {
    let is_finished = cell.runs.iter().any(|run| run.state == RunState::Finished);
    let last = cell.runs.last().filter(|_| !is_finished);
    last.map_or("no value", |run| run.state.name())
}
