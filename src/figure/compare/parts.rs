//! How the time of a step on the slowest rank is divided: its host waits for data, and everything else, in seconds and in percent. Both
//! are means over the same steps of the same rank.

use super::Scene;
use super::arrange::name_of;
use crate::analysis::{Method, RunSummary, Value, step_of, summarise, varying};
use crate::figure::chart::{Axis, Chart, Geometry, Look, Panel, Point, Series};
use crate::figure::ratio::finished;

/// The mean wait of a step, and the rest of the step, in seconds.
fn of_run(run: &RunSummary) -> Option<[f64; 2]> {
    let (step_s, wait_s) = (run.value("mean_step_time_s")?, run.step_wait_s?);
    // A host that is ahead of its device may wait during an earlier step, so the wait can exceed the step.
    let wait_s = wait_s.min(step_s);
    Some([wait_s, step_s - wait_s])
}

/// Two charts of the same parts.
pub(super) fn parts(scene: &Scene) -> Vec<Chart> {
    let settings = varying(scene.cells);
    let step = step_of(scene.cells);
    let mut categories = Vec::new();
    let mut series: Vec<Series> = ["Host waits for data", "All else"]
        .into_iter()
        // Orange and blue: two blues would be hard to tell apart.
        .zip([0, 4])
        .map(|(name, place)| Series::measured(name, Look::Place(place)))
        .collect();
    for cell in scene.cells {
        let of_runs: Vec<[f64; 2]> = finished(cell).filter(|run| !run.had_company()).filter_map(of_run).collect();
        let median = |part: usize| summarise(&of_runs.iter().map(|parts| parts[part]).collect::<Vec<_>>());
        let Some(medians) = median(0).zip(median(1)) else { continue };
        let x = categories.len() as f64;
        categories.push(if settings.is_empty() { String::new() } else { name_of(cell, &settings) });
        for (series, part) in series.iter_mut().zip([medians.0, medians.1]) {
            let value = Value { interval: None, method: Method::One, ..part };
            series.points.push(Point { x, across: None, value, ratio: None, cell: Some(cell.key()) });
        }
    }
    let note = "Both parts are means over the steady steps of the slowest rank. While steps are queued ahead, the device may work \
                through its host's wait.";
    let x = Axis { categories, ..Axis::default() };
    let chart = |geometry: Geometry, y: Axis| Chart {
        panels: vec![Panel { title: String::new(), series: series.clone() }],
        notes: vec![note.to_owned()],
        ..Chart::new(format!("Parts of {step} time"), geometry, x.clone(), y)
    };
    vec![
        chart(Geometry::Stacked, Axis::new(format!("Mean {step} time"), "s")),
        chart(Geometry::Percent, Axis::new(format!("Share of {step}"), "%")),
    ]
}
