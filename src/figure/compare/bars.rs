//! Grouped bars: one measure of each cell, or its peaks of memory.

use super::arrange::{name_of, place_of};
use super::{Scene, shown_measure};
use crate::analysis::{Cell, Setting, Value};
use crate::figure::chart::{Axis, Chart, Geometry, Look, Panel, Point, Role, Series};
pub(super) use crate::figure::ratio::scaled;
use crate::figure::study::{MEMORY, RATIO, SPEEDUP};

/// The chosen measure: rows are groups, columns panels, colours bars.
pub(super) fn bars(scene: &Scene) -> Chart {
    let metric = scene.study.shown_measure();
    let mut chart = empty(scene, metric);
    let colour = scene.arrangement.colour.as_slice();
    for (row, cell) in scene.cells.iter().enumerate() {
        let name = if colour.is_empty() { String::new() } else { name_of(cell, colour) };
        let ratio = if metric == SPEEDUP { None } else { scene.value(row, RATIO) };
        add(scene, &mut chart, (row, cell), metric, (name, scene.look(cell)), ratio);
    }
    finish(chart)
}

/// The peaks of memory of each cell, one bar each.
pub(super) fn memory(scene: &Scene) -> Chart {
    let mut chart = empty(scene, MEMORY[0]);
    chart.title = "Peak memory per device".to_owned();
    chart.y.name = chart.title.clone();
    for (row, cell) in scene.cells.iter().enumerate() {
        for (place, key) in MEMORY.into_iter().enumerate() {
            let name = shown_measure(scene, key).0;
            add(scene, &mut chart, (row, cell), key, (name, Look::Place(place)), None);
        }
    }
    finish(chart)
}

fn empty(scene: &Scene, metric: &str) -> Chart {
    let (name, unit, _) = shown_measure(scene, metric);
    let rows = scene.arrangement.rows.as_ref().map_or("", |setting| &*setting.name);
    Chart {
        title: name.clone(),
        geometry: Geometry::Bars,
        intervals: String::new(),
        x: Axis::new(rows, ""),
        y: Axis::new(name, unit),
        panels: Vec::new(),
        notes: Vec::new(),
    }
}

fn add(
    scene: &Scene,
    chart: &mut Chart,
    (row, cell): (usize, &Cell),
    metric: &str,
    (name, look): (String, Look),
    ratio: Option<Value>,
) {
    let mut settings: Vec<Setting> = scene.arrangement.rows.iter().cloned().collect();
    settings.extend_from_slice(&scene.arrangement.rest);
    let group = if settings.is_empty() { String::new() } else { name_of(cell, &settings) };
    let x = place_of(&mut chart.x.categories, group) as f64;
    let title = scene.panel_name(cell);
    let panel = match chart.panels.iter().position(|panel| panel.title == title) {
        Some(place) => place,
        None => {
            chart.panels.push(Panel { title, series: Vec::new() });
            chart.panels.len() - 1
        }
    };
    let series = &mut chart.panels[panel].series;
    let place = match series.iter().position(|series| series.name == name) {
        Some(place) => place,
        None => {
            series.push(Series { name, look, variant: 0, role: Role::Measured, points: Vec::new() });
            series.len() - 1
        }
    };
    if let Some(value) = scene.value(row, metric) {
        let value = scaled(value, shown_measure(scene, metric).2);
        series[place].points.push(Point { x, value, ratio, cell: Some(cell.key()) });
    }
}

fn finish(mut chart: Chart) -> Chart {
    if chart.is_empty() && !chart.panels.is_empty() {
        chart.notes.push(format!("No finished run of these cells tells its {}.", chart.title.to_lowercase()));
    }
    chart
}
