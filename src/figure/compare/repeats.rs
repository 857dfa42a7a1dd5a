//! Every repeat of every cell, to show how much values spread.

use super::bars::{self, scaled};
use super::{Scene, shown_measure};
use crate::analysis::{Method, Value};
use crate::figure::chart::{BOX_REPEATS, Chart, Geometry, Point};
use crate::figure::ratio::by_repeat;
use crate::figure::study::{SPEEDUP, STEP_COST};

/// The chosen measure of each finished run, arranged like bars.
pub(super) fn repeats(scene: &Scene) -> Chart {
    let metric = scene.study.own_measure();
    let factor = shown_measure(scene, metric).2;
    let mut chart = bars::bars(scene);
    chart.geometry = Geometry::Strip;
    chart.title = format!("{} of repeats", shown_measure(scene, metric).0);
    for series in chart.panels.iter_mut().flat_map(|panel| &mut panel.series) {
        let points = series.points.iter().flat_map(|point| {
            let cell = scene.cells.iter().find(|cell| Some(cell.key()) == point.cell);
            let values = cell.map_or(Vec::new(), |cell| by_repeat(cell, metric));
            values.into_iter().map(|(_, median)| {
                let value = scaled(Value { median, interval: None, n: 1, method: Method::One }, factor);
                Point { value, ratio: None, ..point.clone() }
            })
        });
        series.points = points.collect();
    }
    if [SPEEDUP, STEP_COST].contains(&scene.study.shown_measure()) {
        (chart.y.name, chart.y.unit) = (shown_measure(scene, metric).0, shown_measure(scene, metric).1.to_owned());
    }
    chart.notes.push(format!(
        "Each point is a repeat, the line is their median; from {BOX_REPEATS} repeats on, a box contains the middle half and \
         lines reach to the least and the greatest."
    ));
    chart
}
