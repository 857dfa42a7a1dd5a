//! A measure over two factors: a field of colours, one panel for each combination of the other factors.

use super::arrange::{name_of, place_of};
use super::bars::scaled;
use super::{Scene, shown_measure};
use crate::analysis::{Setting, varying};
use crate::figure::chart::{Axis, Chart, Geometry, Look, Point, panel_of};

/// The chosen measure: the first setting that differs is on rows, the last one on columns.
pub(super) fn map(scene: &Scene) -> Chart {
    let metric = scene.study.shown_measure();
    let (name, unit, factor) = shown_measure(scene, metric);
    let mut settings: Vec<Setting> = varying(scene.cells);
    let across = settings.pop();
    let down = if settings.is_empty() { None } else { Some(settings.remove(0)) };
    let axis = |setting: Option<&Setting>| {
        setting.map_or(Axis::new("", ""), |setting| Axis::new(&*setting.name, &*setting.unit))
    };
    let title = Axis::new(name, unit).title();
    let mut chart = Chart::new(title, Geometry::Heat, axis(across.as_ref()), axis(down.as_ref()));
    for (row, cell) in scene.cells.iter().enumerate() {
        let Some(value) = scene.value(row, metric) else { continue };
        let level = |setting: Option<&Setting>| {
            setting.and_then(|setting| cell.level(&setting.key)).map_or(String::new(), |level| level.to_string())
        };
        let x = place_of(&mut chart.x.categories, level(across.as_ref())) as f64;
        let down = level(down.as_ref());
        place_of(&mut chart.y.categories, down.clone());
        let rest = if settings.is_empty() { String::new() } else { format!(", {}", name_of(cell, &settings)) };
        let title = format!("{}{rest}", chart.title);
        let series = panel_of(&mut chart.panels, title).series_of(down, |_| Look::Place(0));
        let value = scaled(value, factor);
        series.points.push(Point { x, across: None, value, ratio: None, cell: Some(cell.key()) });
    }
    chart
}
