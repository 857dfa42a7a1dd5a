//! Metrics of profilers' reports. Calls of the host, kernels and copies run at the same time, so their times must not be added: bars are
//! next to each other. Only shares of the shown metrics add up to a whole.

use super::Scene;
use super::arrange::name_of;
use crate::analysis::{Cell, Key, MetricUnit, RunSummary, TRACE_METRICS, of_window, summarise, varying};
use crate::figure::chart::{Axis, Chart, Geometry, Look, Panel, Point, Series};
use crate::figure::number::{capitalised, from_to, significant};
use crate::figure::ratio::finished;
use crate::figure::study::{Form, Study};

/// The chosen metrics of each cell with a report and, if the study asks for it, their shares of their sum in a second chart.
pub(super) fn charts(scene: &Scene) -> Vec<Chart> {
    let shares = scene.study.shares.then(|| metrics(scene, MetricUnit::OfShown));
    [metrics(scene, scene.study.metric_unit)].into_iter().chain(shares).collect()
}

/// The chosen metrics in a unit. The look of a metric does not depend on the other chosen metrics.
fn metrics(scene: &Scene, metric_unit: MetricUnit) -> Chart {
    let study = scene.study;
    let (name, unit) = match metric_unit {
        MetricUnit::Seconds => ("Time in metrics", "s"),
        MetricUnit::OfReport => ("Share of the report's list", "%"),
        MetricUnit::OfShown => ("Share of the shown metrics", "%"),
        MetricUnit::OfWall => ("Share of the recorded time", "%"),
        MetricUnit::Of720 => ("Time in metrics, scaled to 720 s", "s"),
    };
    let settings = varying(scene.cells);
    let chosen = TRACE_METRICS.iter().enumerate().filter(|(_, kind)| study.metrics.iter().any(|key| key == kind.key));
    let series = chosen.map(|(place, kind)| {
        let point = |(row, cell): (usize, &Cell)| {
            let values: Vec<f64> =
                finished(cell).filter_map(|run| value(run, kind.key, metric_unit, &study.metrics)).collect();
            let value = summarise(&values)?;
            Some(Point { x: row as f64, across: None, value, ratio: None, cell: Some(cell.key()) })
        };
        let points = scene.cells.iter().enumerate().filter_map(point).collect();
        Series { points, ..Series::measured(kind.name, Look::Place(place)) }
    });
    let panels = vec![Panel { title: String::new(), series: series.collect() }];
    let geometry = if metric_unit == MetricUnit::OfShown { Geometry::Stacked } else { Geometry::Bars };
    let mut chart = Chart { panels, ..Chart::new(name, geometry, Axis::new("", ""), Axis::new(name, unit)) };
    chart.x.categories = scene.cells.iter().map(|cell| name_of(cell, &settings)).collect();
    if scene.cells.is_empty() {
        chart.notes.extend(scene.table.notes.first().map(|why| capitalised(why) + "."));
    } else if study.metrics.is_empty() {
        chart.notes.push("No metric is chosen.".to_owned());
    } else if scene.cells.iter().any(|cell| finished(cell).count() > 1) {
        chart.notes.push("Each bar or part is the median over repeats.".to_owned());
    }
    let overlap = match metric_unit {
        MetricUnit::OfReport => {
            "Calls, kernels and copies are separate lists: shares from two lists must not be added."
        }
        MetricUnit::Seconds | MetricUnit::OfWall | MetricUnit::Of720 => {
            "Calls of the host, kernels and copies run at the same time: their times must not be added."
        }
        MetricUnit::OfShown => {
            "Shares of the sum of calls, kernels and copies, as in the papers, although these run at the same time."
        }
    };
    chart.notes.push(overlap.to_owned());
    if metric_unit == study.metric_unit {
        chart.notes.extend(scaled_note(study, scene.cells).map(|note| capitalised(&note) + "."));
    }
    chart.notes.extend(windows_note(scene.cells));
    // A copy from pageable memory takes as long as the call that waits for it.
    let counts_twice =
        ["host_to_device", "cuda_memcpy_async"].iter().all(|key| study.metrics.iter().any(|one| one == key));
    if counts_twice {
        let note = "A copy to a GPU counts as CUDA memcpy Host-to-Device, and its call again as cudaMemcpyAsync.";
        chart.notes.push(note.to_owned());
    }
    chart
}

/// Why no cell has metrics, if the study shows metrics and none has.
pub(super) fn no_metrics(study: &Study, all: &[Cell]) -> Option<String> {
    if study.form != Form::Metrics || all.iter().any(|cell| study.admits(cell)) {
        return None;
    }
    let shows_ranges = "has no work of GPUs; `multicard trace FILE` shows its ranges";
    Some(match all.iter().flat_map(|cell| &cell.runs).filter(|run| run.trace_summary().is_some()).count() {
        0 => "no run here has a profiler's report: launch a plan with tracing on, or attach a report".to_owned(),
        1 => format!("no metrics: the only recording {shows_ranges}"),
        recordings => format!("no metrics: each of the {recordings} recordings {shows_ranges}"),
    })
}

/// The note on the recordings whose times are scaled to the papers' window.
pub(super) fn scaled_note(study: &Study, cells: &[Cell]) -> Option<String> {
    if study.form != Form::Metrics || study.metric_unit != MetricUnit::Of720 {
        return None;
    }
    let covered = cells.iter().flat_map(finished).filter_map(|run| Some(run.trace_summary()?.wall_s));
    let (low, high) = covered.fold((f64::INFINITY, 0.0_f64), |(low, high), wall_s| (low.min(wall_s), high.max(wall_s)));
    let from = if significant(low) == significant(high) { significant(low) } else { from_to(low, high) };
    (high > 0.0)
        .then(|| format!("scaled from recordings of {from} s to 720 s, which the papers record with their start"))
}

/// The note on runs that were recorded in windows: their sums cover only a part of the run.
pub(super) fn windows_note(cells: &[Cell]) -> Option<String> {
    let summaries = cells.iter().flat_map(finished).filter_map(RunSummary::trace_summary);
    let shares: Vec<f64> = summaries.filter_map(|trace| Some(trace.wall_s / trace.span_s?)).collect();
    let (first, rest) = shares.split_first()?;
    let (low, high) = rest.iter().fold((*first, *first), |(low, high), share| (low.min(*share), high.max(*share)));
    let percent = |share: f64| significant(100.0 * share);
    let share = if percent(low) == percent(high) { percent(low) } else { from_to(100.0 * low, 100.0 * high) };
    let runs = if rest.is_empty() { "1 run was".to_owned() } else { format!("{} runs were", shares.len()) };
    Some(format!(
        "{runs} recorded in windows, {share} % of the time from the first to the last: seconds and counts are of these windows."
    ))
}

fn value(run: &RunSummary, key: &str, unit: MetricUnit, shown: &[Key]) -> Option<f64> {
    let metric = run.trace_metric(key)?;
    Some(match unit {
        MetricUnit::Seconds => metric.seconds,
        MetricUnit::OfReport => metric.percent_of_report,
        MetricUnit::OfWall => metric.percent_of_wall,
        MetricUnit::Of720 => of_window(metric.seconds, run.trace_summary()?)?,
        MetricUnit::OfShown => {
            let all: f64 = shown.iter().filter_map(|key| run.trace_metric(key)).map(|metric| metric.seconds).sum();
            if all > 0.0 { 100.0 * metric.seconds / all } else { 0.0 }
        }
    })
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
