//! A measure over two factors: a field of colours, one panel for each combination of the others.

use super::arrange::{name_of, place_of};
use super::bars::scaled;
use super::{Scene, shown_measure};
use crate::analysis::{Setting, varying};
use crate::figure::chart::{Axis, Chart, Geometry, Look, Panel, Point, Role, Series};

/// The chosen measure: the first setting that differs stands on rows, the last on columns.
pub(super) fn map(scene: &Scene) -> Chart {
    let metric = scene.study.shown_measure();
    let (name, unit, factor) = shown_measure(scene, metric);
    let mut settings: Vec<Setting> = varying(scene.cells);
    let across = settings.pop();
    let down = if settings.is_empty() { None } else { Some(settings.remove(0)) };
    let axis = |setting: Option<&Setting>| {
        setting.map_or(Axis::new("", ""), |setting| Axis::new(&*setting.name, &*setting.unit))
    };
    let mut chart = Chart {
        title: Axis::new(name, unit).title(),
        geometry: Geometry::Heat,
        intervals: String::new(),
        x: axis(across.as_ref()),
        y: axis(down.as_ref()),
        panels: Vec::new(),
        notes: Vec::new(),
    };
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
        let panel = match chart.panels.iter().position(|panel| panel.title == title) {
            Some(place) => place,
            None => {
                chart.panels.push(Panel { title, series: Vec::new() });
                chart.panels.len() - 1
            }
        };
        let series = &mut chart.panels[panel].series;
        let place = series.iter().position(|series| series.name == down).unwrap_or_else(|| {
            let (name, look) = (down.clone(), Look::Place(0));
            series.push(Series { name, look, variant: 0, role: Role::Measured, points: Vec::new() });
            series.len() - 1
        });
        let value = scaled(value, factor);
        series[place].points.push(Point { x, value, ratio: None, cell: Some(cell.key()) });
    }
    chart
}
