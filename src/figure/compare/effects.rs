//! The effect of each level on a measure: a dot with its interval, one row a level.

use super::{Scene, level_name, shown_measure};
use crate::analysis::{self, Cell, Measure, measure_of};
use crate::figure::chart::{Axis, Chart, Geometry, Look, Panel, Point, Role, Scale, Series};
use crate::figure::table::by_repeat;

/// How the chosen measure changes with each level, over cells that are otherwise equal.
pub(super) fn effects(scene: &Scene) -> Chart {
    let metric = scene.study.own_measure();
    let name = shown_measure(scene, metric).0;
    let faster = measure_of(scene.cells, metric).is_some_and(Measure::is_time);
    let values = |cell: &Cell| by_repeat(cell, metric);
    let mut chart = Chart {
        title: format!("Effects on {}", name.to_lowercase()),
        geometry: Geometry::Effects,
        x: Axis::new("Level", ""),
        y: Axis::new(if faster { format!("{name}: times as fast") } else { format!("{name}: ratio") }, "×"),
        panels: vec![Panel { title: String::new(), series: Vec::new() }],
        notes: Vec::new(),
    };
    let mut pairs = Vec::new();
    let mut ends = (1.0_f64, 1.0_f64);
    for effect in analysis::effects(scene.cells, &values, faster) {
        let row = chart.x.categories.len();
        chart.x.categories.push(format!("{} over {}", level_name(&effect.setting, &effect.level), effect.base));
        pairs.push(effect.pairs);
        let interval = effect.value.interval.map_or([effect.value.median; 2], |ends| [ends.low, ends.high]);
        ends = (ends.0.min(interval[0]), ends.1.max(interval[1]));
        let look = match &*effect.setting.key {
            "session" | "data" => Look::Place(row),
            _ => Look::of_level(&effect.setting, effect.level),
        };
        let points = vec![Point { x: row as f64, value: effect.value, ratio: None, cell: None }];
        let name = chart.x.categories[row].clone();
        chart.panels[0].series.push(Series { name, look, variant: 0, role: Role::Measured, points });
    }
    // Twice and half are equally far from 1.
    if ends.0 > 0.0 && ends.1 / ends.0 > 1.5 {
        chart.y.scale = Scale::Log;
    }
    if pairs.is_empty() {
        chart.notes.push(
            "No two cells with finished runs differ in one setting alone: tick two levels of a factor.".to_owned(),
        );
    } else {
        let counts: Vec<String> = pairs.iter().map(ToString::to_string).collect();
        chart.notes.push(format!(
            "Effects are medians over pairs of cells that differ in one level alone ({} pairs from above); intervals are \
             over pairs, for one pair over its repeats.",
            counts.join(", ")
        ));
    }
    chart
}
