//! The roofline: the model's FLOP rate of each cell over its arithmetic intensity, below the measured limits of the devices (S. Williams
//! et al., Roofline, *Communications of the ACM* 52(4), 2009).

use std::collections::BTreeMap;

use super::curves::Lines;
use super::{Scene, shown_measure};
use crate::analysis::{Cell, DeviceRates, Key, Method, RunSummary, Value, counted};
use crate::figure::chart::{Axis, Chart, Geometry, Look, Point, Role, Scale, Series};
use crate::figure::ratio::{finished, scaled};
use crate::figure::table::Table;

/// The measures of the axes.
const AXES: [&str; 2] = ["intensity", "flop_per_s"];
/// The measure that has a note if it is missing.
const SHARE: &str = "flop_share";
/// The factor by which roofs extend beyond points and ridges.
const ROOM: f64 = 3.0;
/// If the ratio of two roofs is below this number, they have one label.
const NEAR: f64 = 1.5;

/// The measured limits of products of a precision on a device.
#[derive(Clone, Debug, PartialEq)]
struct Roof {
    device: String,
    precision: Key,
    flop_per_s: f64,
    bytes_per_s: f64,
}

/// The chart.
pub(super) fn roofline(scene: &Scene) -> Vec<Chart> {
    let [intensity, rate] = AXES.map(|key| shown_measure(scene, key));
    let mut lines = Lines::default();
    let mut places: Vec<f64> = Vec::new();
    for (row, cell) in scene.cells.iter().enumerate() {
        let Some((x, value)) = scene.value(row, AXES[0]).zip(scene.value(row, AXES[1])) else { continue };
        let x = x.median * intensity.2;
        places.push(x);
        let point = Point { x, across: None, value: scaled(value, rate.2), ratio: None, cell: Some(cell.key()) };
        lines.add(scene, cell, &[], vec![point]);
    }
    let mut notes: Vec<String> = lines.note().into_iter().collect();
    let roofs = roofs(scene.cells);
    places.extend(roofs.iter().map(|roof| roof.flop_per_s / roof.bytes_per_s));
    let ends = places.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), x| (low.min(*x), high.max(*x)));
    for panel in &mut lines.panels {
        panel.series.extend(drawn(&roofs, (ends.0 / ROOM, ends.1 * ROOM), rate.2));
    }
    notes.push(match (lines.panels.is_empty(), roofs.is_empty()) {
        (true, _) => {
            "No finished run reports its FLOP and bytes: the built-in workloads do, and programs can.".to_owned()
        }
        (false, true) => {
            "The devices of these runs were not measured: Measure rates (Node screen) or `multicard node measure --session DIR` gives the \
             roofs."
                .to_owned()
        }
        (false, false) => "Roofs: measured rates of matrix products and of memory, of one device.".to_owned(),
    });
    notes.push(
        "FLOP and bytes are those of the model, counted from the shapes of its products; with caches, less may be moved.".to_owned(),
    );
    let axis = |(name, unit, _): (String, &str, f64)| Axis { scale: Scale::Log, ..Axis::new(name, unit) };
    let axes = Chart::new("Roofline", Geometry::Scatter, axis(intensity), axis(rate));
    vec![Chart { panels: lines.panels, notes, ..axes }]
}

/// Why finished runs have no share of the measured rates; `None` for a table that does not show it.
pub(super) fn missing_shares(table: &Table, cells: &[Cell]) -> Option<String> {
    if !table.columns.iter().any(|column| column.key == SHARE) {
        return None;
    }
    let reason = |run: &RunSummary| match &run.limits {
        _ if run.value(SHARE).is_some() => None,
        _ if run.value(AXES[1]).is_none() => Some("no FLOP reported (`multicard help readings`)"),
        None => {
            Some("device not measured (Measure rates on the Node screen, or `multicard node measure --session DIR`)")
        }
        Some(_) => Some("precision not known, or not measured on the device"),
    };
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in cells.iter().flat_map(|cell| finished(cell)).filter_map(reason) {
        *reasons.entry(reason).or_default() += 1;
    }
    let texts: Vec<String> =
        reasons.iter().map(|(reason, count)| format!("{}: {reason}", counted(*count, "run"))).collect();
    (!texts.is_empty()).then(|| format!("no share of measured rates for {}", texts.join("; ")))
}

/// The roofs of the cells' precisions and devices, the highest first.
fn roofs(cells: &[Cell]) -> Vec<Roof> {
    let mut roofs: Vec<Roof> = Vec::new();
    for limits in cells.iter().flat_map(|cell| finished(cell)).filter_map(|run| run.limits.as_ref()) {
        let Some(roof) = limits.arithmetic.as_ref().and_then(|key| roof(&limits.rates, key)) else { continue };
        let is_same = |other: &Roof| (&other.device, &other.precision) == (&roof.device, &roof.precision);
        if !roofs.iter().any(is_same) {
            roofs.push(roof);
        }
    }
    roofs.sort_by(|a, b| b.flop_per_s.total_cmp(&a.flop_per_s));
    roofs
}

fn roof(rates: &DeviceRates, precision: &Key) -> Option<Roof> {
    let (flop_per_s, bytes_per_s) = (rates.find(precision)?.per_s, rates.memory()?.per_s);
    Some(Roof { device: rates.device.name.clone(), precision: precision.clone(), flop_per_s, bytes_per_s })
}

/// Each roof as a line: it rises with the memory's rate up to the ridge, and is level after it.
fn drawn(roofs: &[Roof], (low, high): (f64, f64), factor: f64) -> Vec<Series> {
    let is_alone = roofs.iter().all(|roof| roof.device == roofs[0].device);
    let name = |roof: &Roof| {
        if is_alone { roof.precision.to_string() } else { format!("{} of {}", roof.precision, roof.device) }
    };
    let point = |x: f64, y: f64| Point {
        x,
        across: None,
        value: Value { median: y * factor, interval: None, n: 0, method: Method::One },
        ratio: None,
        cell: None,
    };
    let mut series: Vec<Series> = Vec::new();
    let mut labelled: Option<(usize, f64)> = None;
    for roof in roofs {
        let ridge = roof.flop_per_s / roof.bytes_per_s;
        let points =
            vec![point(low, low * roof.bytes_per_s), point(ridge, roof.flop_per_s), point(high, roof.flop_per_s)];
        let mut label = name(roof);
        match labelled.filter(|(_, labelled_flop_per_s)| labelled_flop_per_s / roof.flop_per_s < NEAR) {
            Some((place, _)) => {
                let first: &mut Series = &mut series[place];
                first.name = format!("{}, {label}", first.name);
                label = String::new();
            }
            None => labelled = Some((series.len(), roof.flop_per_s)),
        }
        series.push(Series { role: Role::Ideal, points, ..Series::measured(label, Look::Grey) });
    }
    series
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::{RunSummary, Source, fixture, summarise_run};
    use crate::figure::compare::compare;
    use crate::figure::preset;

    #[test]
    fn roofs_bend_at_their_ridge_and_those_near_each_other_share_a_label() {
        let roof = |precision: &str, flop_per_s: f64| Roof {
            device: "a GPU".to_owned(),
            precision: precision.into(),
            flop_per_s,
            bytes_per_s: 1e12,
        };
        let series = drawn(&[roof("bf16", 8e14), roof("fp16", 7.9e14), roof("fp32", 5e13)], (10.0, 2400.0), 1e-12);
        let names: Vec<_> = series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["bf16, fp16", "", "fp32"]);
        let points =
            |series: &Series| series.points.iter().map(|point| (point.x, point.value.median)).collect::<Vec<_>>();
        assert_eq!(points(&series[0]), [(10.0, 10.0), (800.0, 800.0), (2400.0, 800.0)]);
        assert_eq!(points(&series[2]), [(10.0, 10.0), (50.0, 50.0), (2400.0, 50.0)]);
    }

    #[test]
    fn what_was_not_measured_or_said_is_named_with_what_to_do() {
        let mut record = fixture::finished();
        let texts_of = |runs: &[RunSummary]| {
            let compared = compare(&[Source { session: "", runs, reports: &[] }], &preset("roofline").unwrap());
            (compared.charts[0].notes[0].clone(), compared.table.notes.join("\n"))
        };
        let (chart, table) = texts_of(&[summarise_run(&record)]);
        assert!(chart.contains("reports its FLOP") && table.contains("1 run: no FLOP reported"), "{chart} {table}");
        for rank in &mut record.ranks {
            rank.readings
                .extend(["flop_per_step", "bytes_per_step"].map(|key| fixture::reading_record(key, 1e9, None)));
        }
        let (chart, table) = texts_of(&[summarise_run(&record)]);
        assert!(
            chart.contains("Measure rates")
                && chart.contains("multicard node measure")
                && table.contains("1 run: device not measured"),
            "{chart} {table}"
        );
    }
}
