//! Which runs enter which charts and tables once some are traced, and what their metrics come to.
#![allow(clippy::unwrap_used)]

use crate::analysis::{MetricUnit, RunSummary, Source, fixture, summarise_report, summarise_run};
use crate::figure::{self, Form, Geometry, Runs, Series, Study, Table, compare, figure, preset};

fn runs() -> Vec<RunSummary> {
    let plain = summarise_run(&fixture::run(&fixture::cell("fp16", 1, "single"), 1, 0.01));
    vec![plain, summarise_run(&fixture::traced(1, 1.0)), summarise_run(&fixture::traced(2, 2.0))]
}

fn table(study: &Study, runs: &[RunSummary]) -> Table {
    figure::table(&[Source { session: "", runs, reports: &[] }], study)
}

#[test]
fn traced_runs_enter_tables_of_times_only_when_asked_and_then_stand_apart() {
    let times = preset("times").unwrap();
    let plain = table(&times, &runs());
    assert_eq!(plain.rows.len(), 1);
    assert!(plain.notes.iter().any(|note| note.contains("traced cells: 1, left out")), "{:?}", plain.notes);
    let all = table(&times.with_traced(), &runs());
    assert_eq!(all.rows.len(), 2);
    assert_eq!(all.columns[0].key, "trace");
    assert!(all.rows.iter().any(|row| row.marks.contains(&"traced".to_owned())));
}

#[test]
fn where_there_are_no_metrics_the_table_and_the_chart_say_why() {
    let metrics = preset("metrics").unwrap();
    let mut runs = vec![summarise_run(&fixture::finished())];
    let why = "no run here has a profiler's report: launch a plan with tracing on, or attach a report";
    assert_eq!(table(&metrics, &runs).notes, [why]);
    let mut recorded = fixture::traced(1, 1.0);
    fixture::without_metrics(&mut recorded);
    runs.push(summarise_run(&recorded));
    let why = "no metrics: the only recording has no work of GPUs; `multicard trace FILE` shows its ranges";
    assert_eq!(
        (table(&metrics, &runs).notes, table(&metrics, &runs).lead),
        (vec![why.to_owned()], vec![why.to_owned()])
    );
    let shown = compare(&[Source { session: "", runs: &runs, reports: &[] }], &metrics);
    assert!(shown.charts[0].notes[0].starts_with("No metrics: the only recording"), "{:?}", shown.charts[0].notes);
}

#[test]
fn metrics_are_medians_over_repeats_and_a_factor_without_effect_is_marked_with_what_was_seen() {
    let mut runs = runs();
    runs.push(summarise_report("elsewhere", fixture::trace(7.0, 7.0)));
    let metrics = table(&preset("metrics").unwrap(), &runs);
    assert_eq!(metrics.rows.iter().map(|row| row.cell.as_str()).collect::<Vec<_>>(), ["elsewhere", "fp16-nsys"]);
    let json = figure::render(&metrics, figure::Format::Json);
    assert!(json.contains("host_to_device_s") && json.contains("1.5"), "{json}");
    let marked =
        metrics.notes.iter().any(|note| note.contains("pin_memory = on was not in effect") && note.contains("9 from"));
    assert!(marked, "{:?}", metrics.notes);
}

#[test]
fn shares_of_what_is_shown_make_a_hundred_percent_of_the_chosen_metrics() {
    let runs = runs();
    let reports = [summarise_report("elsewhere", fixture::trace(7.0, 7.0))];
    let study = Study { form: Form::Metrics, metric_unit: MetricUnit::OfShown, ..Study::default() };
    let shown = compare(&[Source { session: "", runs: &runs, reports: &reports }], &study);
    let [chart] = shown.charts.as_slice() else { panic!("one chart") };
    assert_eq!((chart.geometry, chart.x.categories.len(), shown.all_cells), (Geometry::Stacked, 2, 2));
    for category in 0..2 {
        let points = chart.series().flat_map(|series| &series.points).filter(|point| point.x == f64::from(category));
        let sum: f64 = points.map(|point| point.value.median).sum();
        assert!((sum - 100.0).abs() < 5.0, "medians of shares add up nearly: {sum}");
    }
    let bars = compare(&[Source { session: "", runs: &runs, reports: &reports }], &Study::default());
    assert_eq!((bars.all_cells, bars.traced), (1, 2));
    let asked = Study { runs: Runs::All, ..Study::default() };
    assert_eq!(compare(&[Source { session: "", runs: &runs, reports: &reports }], &asked).all_cells, 2);
}

#[test]
fn figures_of_papers_draw_the_metrics_of_their_tables_alone_and_shares_of_these() {
    let mut runs = runs();
    runs.push(summarise_report("elsewhere", fixture::trace(7.0, 7.0)));
    let sources = [Source { session: "", runs: &runs, reports: &[] }];
    let drawn = |id: &str| {
        let figure = figure(&sources, &preset(id).unwrap()).unwrap();
        let [chart] = figure.charts.as_slice() else { panic!("one chart") };
        let shares = chart.y.unit == "%";
        let expected = if shares { Geometry::Stacked } else { Geometry::Bars };
        assert_eq!((chart.geometry, chart.x.categories.len()), (expected, 2));
        let names: Vec<String> = chart.series().map(|series| series.name.clone()).collect();
        let of_report = |series: &Series| series.points.iter().find(|point| point.x == 0.0).map(|p| p.value.median);
        (names, chart.y.unit.clone(), chart.series().filter_map(of_report).collect::<Vec<f64>>())
    };
    let loading = [
        "CUDA memcpy Host-to-Device",
        "cudaLaunchKernel",
        "cudaStreamSynchronize",
        "ncclDevKernel_AllGather",
        "ncclDevKernel_AllReduce",
    ];
    for id in ["2505.22905/fig-3", "2503.15252/fig-3"] {
        let (names, unit, values) = drawn(id);
        assert_eq!((names, unit.as_str()), (loading.map(str::to_owned).to_vec(), "%"), "{id}");
        assert_eq!(values, [50.0, 50.0, 0.0, 0.0, 0.0], "{id}");
    }
    let (names, unit, values) = drawn("2505.22905/fig-4");
    assert_eq!((names, unit.as_str()), (loading.map(str::to_owned).to_vec(), "s"));
    assert_eq!(values, [7.0, 7.0, 0.0, 0.0, 0.0]);
    let (names, unit, values) = drawn("2505.22905/precision-metrics");
    let precision = ["CUDA memcpy Host-to-Device", "cudaEventDestroy", "cudaMemcpyAsync", "ncclDevKernel_Broadcast"];
    assert_eq!((names, unit.as_str()), (precision.map(str::to_owned).to_vec(), "s"));
    assert_eq!(values, [7.0, 0.0, 0.0, 0.0]);
}

#[test]
fn figures_of_pinned_memory_have_a_panel_of_seconds_and_one_of_shares() {
    for id in ["2503.15252/fig-6", "2505.22905/fig-12"] {
        let runs = fixture::runs_of(crate::papers::artefact(id).unwrap().plan().unwrap());
        let drawn = figure(&[Source { session: "", runs: &runs, reports: &[] }], &preset(id).unwrap()).unwrap();
        let panels: Vec<_> = drawn.charts.iter().map(|chart| (chart.geometry, chart.y.unit.as_str())).collect();
        assert_eq!(panels, [(Geometry::Bars, "s"), (Geometry::Stacked, "%")], "{id}");
        for chart in &drawn.charts {
            let names: Vec<&str> = chart.series().map(|series| series.name.as_str()).collect();
            assert_eq!(names, ["CUDA memcpy Host-to-Device", "cudaLaunchKernel", "ncclDevKernel_AllGather"], "{id}");
        }
    }
}

#[test]
fn seconds_of_calls_kernels_and_copies_stand_beside_each_other_and_what_counts_twice_is_said() {
    let runs = runs();
    for metric_unit in [MetricUnit::Seconds, MetricUnit::OfWall] {
        let study = Study { form: Form::Metrics, metric_unit, ..Study::default() };
        let shown = compare(&[Source { session: "", runs: &runs, reports: &[] }], &study);
        let chart = &shown.charts[0];
        assert_eq!(chart.geometry, Geometry::Bars, "stacked, overlapping times look like a sum");
        let has_note = |part: &str| chart.notes.iter().any(|note| note.contains(part));
        assert!(has_note("must not be added") && has_note("again as cudaMemcpyAsync"), "{:?}", chart.notes);
    }
}
