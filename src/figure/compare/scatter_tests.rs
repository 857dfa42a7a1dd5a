#![allow(clippy::unwrap_used)]

use crate::analysis::{RunSummary, Source, fixture, summarise_run};
use crate::figure::chart::{Role, Scale};
use crate::figure::study::{Form, Law, Study};
use crate::figure::{Comparison, compare};

/// Three repeats of cells with these precisions and GPUs, and steps of this duration.
fn runs(cells: &[(&str, i64, f64)]) -> Vec<RunSummary> {
    let run = |(precision, gpus, step_time_s): &(&str, i64, f64), repeat: u32| {
        let noise = 1.0 + 0.001 * f64::from(repeat);
        let cell = fixture::cell(precision, *gpus, "ddp-ds");
        summarise_run(&fixture::run(&cell, repeat, step_time_s * noise))
    };
    cells.iter().flat_map(|cell| (0..3).map(|repeat| run(cell, repeat)).collect::<Vec<_>>()).collect()
}

fn shown(runs: &[RunSummary], study: Study) -> Comparison {
    compare(&[Source { session: "", runs, reports: &[] }], &Study { form: Form::Scatter, ..study })
}

const CELLS: [(&str, i64, f64); 6] =
    [("fp32", 1, 0.4), ("fp32", 2, 0.41), ("fp32", 4, 0.42), ("fp16", 1, 0.1), ("fp16", 2, 0.11), ("fp16", 4, 0.12)];

#[test]
fn each_cell_is_a_point_with_an_interval_on_both_axes_in_the_colour_of_its_level() {
    let runs = runs(&CELLS);
    let study = Study { measure: Some("step_time_s".into()), across: Some("throughput".into()), ..Study::default() };
    let comparison = shown(&runs, study);
    let [chart] = &comparison.charts[..] else { panic!() };
    let names: Vec<&str> = chart.series().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["fp32", "fp16"]);
    let points: Vec<_> = chart.series().flat_map(|series| &series.points).collect();
    assert_eq!(points.len(), CELLS.len());
    for point in points {
        let (x, y) = (point.across.unwrap(), point.value.interval.unwrap());
        assert!(x.low < point.x && point.x < x.high && y.low < point.value.median && point.value.median < y.high);
        assert!(point.cell.is_some());
    }
    let keys: Vec<&str> = comparison.table.columns.iter().map(|column| &*column.key).collect();
    assert!(keys.contains(&"step_time_s") && keys.contains(&"images_per_s"), "{keys:?}");
    assert!(chart.notes[0].starts_with("Rank correlation of medians (Spearman): "), "{:?}", chart.notes);
    assert!(chart.notes[0].contains("] over 6 cells, 95 % interval by Fisher's z."), "{:?}", chart.notes);
}

#[test]
fn a_factor_of_which_all_cells_have_the_same_level_is_no_x_axis() {
    let runs = runs(&[("fp32", 2, 0.4), ("fp16", 2, 0.1)]);
    let comparison = shown(&runs, crate::figure::preset("scatter").unwrap());
    assert_eq!(comparison.missing, ["all cells have the same gpus: another x axis is shown, and no law"]);
    assert_ne!(&*comparison.across, "gpus");
    let places: Vec<f64> =
        comparison.charts[0].series().flat_map(|series| &series.points).map(|point| point.x).collect();
    assert_eq!(places.len(), 2);
}

#[test]
fn a_factor_that_is_a_number_can_be_the_x_axis_and_amdahls_law_is_fitted_to_each_colour() {
    let amdahl = |n: f64| 10.0 * (0.1 + 0.9 / n);
    let cells: Vec<(&str, i64, f64)> = ["fp32", "fp16"]
        .into_iter()
        .flat_map(|precision| [1, 2, 4, 8].map(|gpus| (precision, gpus, amdahl(gpus as f64))))
        .map(|(precision, gpus, time_s)| (precision, gpus, if precision == "fp16" && gpus == 8 { 3.0 } else { time_s }))
        .collect();
    let runs = runs(&cells);
    let study = Study { measure: Some("step_time_s".into()), law: Law::Amdahl, log: true, ..Study::default() };
    let comparison = shown(&runs, study);
    assert_eq!(&*comparison.across, "gpus");
    let [chart] = &comparison.charts[..] else { panic!() };
    assert_eq!((chart.x.name.as_str(), chart.x.scale, chart.y.scale), ("GPUs", Scale::Log, Scale::Log));
    assert_eq!(chart.series().filter(|series| series.role == Role::Ideal).count(), 2);
    let note = |name: &str| chart.notes.iter().find(|note| note.starts_with(name)).unwrap();
    let fp32 = note("fp32: ");
    assert!(fp32.contains(" s on one GPU, serial share 10.0 [") && fp32.contains("; at most 10.0× as fast"), "{fp32}");
    assert!(fp32.ends_with(" It fits all 4 places within their repeats' spread."), "{fp32}");
    let fp16 = note("fp16: ");
    assert!(fp16.contains(" It fails at ") && fp16.contains("8 GPUs ("), "{fp16}");
    assert!(!comparison.table.columns.iter().any(|column| column.is_measure && &*column.key == "gpus"));
}

#[test]
fn a_law_that_is_not_about_the_axes_and_a_missing_measure_are_named() {
    let runs = runs(&CELLS);
    let with = |measure: &str, across: &str, law: Law| {
        let study = Study { measure: Some(measure.into()), across: Some(across.into()), law, ..Study::default() };
        shown(&runs, study)
    };
    let notes = |comparison: &Comparison| comparison.charts[0].notes.join("\n");
    let amdahl = with("step_time_s", "throughput", Law::Amdahl);
    assert!(notes(&amdahl).contains("Amdahl's law is about the number of GPUs"), "{}", notes(&amdahl));
    let alpha_beta = with("step_time_s", "gpus", Law::AlphaBeta);
    let no_unit = "α-β law is about bytes, and GPUs has no unit: choose a measure or factor in bytes as the x axis; if it counts bytes, give it";
    assert!(notes(&alpha_beta).contains(no_unit), "{}", notes(&alpha_beta));
    let of_rate = with("step_time_s", "throughput", Law::AlphaBeta);
    assert!(
        notes(&of_rate).contains("is in images/s: choose a measure or factor in bytes as the x axis."),
        "{}",
        notes(&of_rate)
    );
    let rate = with("throughput", "gpus", Law::Amdahl);
    assert!(notes(&rate).contains("Amdahl's law is about times"), "{}", notes(&rate));
    let unknown = with("step_time_s", "precision", Law::Nothing);
    assert_eq!(unknown.missing, ["precision is neither a measure nor a factor with numbers: another x axis is shown"]);
    let absent = with("step_time_s", "temperature_c", Law::Nothing);
    assert!(absent.charts[0].is_empty());
    assert!(notes(&absent).contains("6 cells without one of the two values."), "{}", notes(&absent));
}
