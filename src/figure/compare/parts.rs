//! What the time of a step goes to: waiting for data, and all else; in seconds and in percent.

use super::Scene;
use super::arrange::name_of;
use crate::analysis::{Method, Value, summarise, varying};
use crate::figure::chart::{Axis, Chart, Geometry, Look, Panel, Point, Role, Series};
use crate::figure::table::by_repeat;

/// Two charts of the same parts.
pub(super) fn parts(scene: &Scene) -> Vec<Chart> {
    let settings = varying(scene.cells);
    let mut categories = Vec::new();
    let mut series: Vec<Series> = ["Wait for data", "All else"]
        .into_iter()
        .zip([1, 4])
        .map(|(name, place)| Series {
            name: name.to_owned(),
            look: Look::Place(place),
            variant: 0,
            role: Role::Measured,
            points: Vec::new(),
        })
        .collect();
    for cell in scene.cells {
        let median = |key: &str| {
            let values: Vec<f64> = by_repeat(cell, key).into_iter().map(|(_, value)| value).collect();
            summarise(&values)
        };
        let Some((step, wait)) = median("step_time_s").zip(median("load_wait_s")) else { continue };
        let x = categories.len() as f64;
        categories.push(if settings.is_empty() { String::new() } else { name_of(cell, &settings) });
        // The mean wait may be longer than the median step.
        let wait_s = wait.median.min(step.median);
        for (series, median) in series.iter_mut().zip([wait_s, step.median - wait_s]) {
            let value = Value { median, interval: None, n: step.n, method: Method::One };
            series.points.push(Point { x, value, ratio: None, cell: Some(cell.key()) });
        }
    }
    let chart = |geometry: Geometry, y: Axis| Chart {
        title: "Parts of a step".to_owned(),
        geometry,
        x: Axis { categories: categories.clone(), ..Axis::default() },
        y,
        panels: vec![Panel { title: String::new(), series: series.clone() }],
        notes: vec![
            "The wait for data is the mean over steps and ranks, the step the median of the slowest rank.".to_owned(),
        ],
    };
    vec![
        chart(Geometry::Stacked, Axis::new("Step time", "s")),
        chart(Geometry::Percent, Axis::new("Share of step", "%")),
    ]
}
