//! Many cells, as a file of other results may have: what their tables and figures cost.

use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::*;
use crate::figure::figure;
use crate::plan::WorkloadSpec;
use crate::plan::command::factor_of_levels;

/// A few cells, and 16 times as many.
const COUNTS: [usize; 2] = [500, 8_000];
/// By how much the CPU time may grow: not by the square of the number of cells.
const MOST_GROWTH: f64 = 2.5 * 16.0;

/// One run in each of so many cells of a workload, whose only factor has a level for each.
fn runs_of(levels: &[Level]) -> Vec<RunSummary> {
    let one = summarise_run(&fixture::run(&fixture::cell("fp32", 1, "single"), 1, 0.01));
    let factors = vec![factor_of_levels(&"size".into(), levels, None)];
    let workload = Arc::new(WorkloadSpec { factors, ..WorkloadSpec::unknown("imported") });
    let run = |(place, level): (usize, &Level)| {
        let mut run = RunSummary {
            run: format!("c{place}-r1"),
            cell: format!("c{place}"),
            identity: None,
            workload: Arc::clone(&workload),
            levels: Levels::new(vec![("size", level.clone())]),
            ..one.clone()
        };
        run.values.insert("step_time_s".into(), 0.01 + 1e-6 * place as f64);
        run
    };
    levels.iter().enumerate().map(run).collect()
}

fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap()
}

/// The CPU time of a figure with its table, in seconds.
fn cost_s(runs: &[RunSummary], study: &Study) -> f64 {
    let before = cpu_time();
    let drawn = figure(&[Source { session: "", runs, reports: &[] }], study).unwrap();
    assert!(!drawn.table.rows.is_empty());
    (cpu_time() - before).as_secs_f64()
}

/// Checks that a figure of many cells costs no more for each of them than one of few.
fn check_growth(study: &Study, runs: impl Fn(usize) -> Vec<RunSummary>) {
    let costs_s = COUNTS.map(|count| cost_s(&runs(count), study));
    assert!(costs_s[1] / costs_s[0] < MOST_GROWTH, "{:?}, {:?}: {costs_s:?} s", study.form, study.baseline);
}

fn of_form(form: Form) -> Study {
    Study { form, measure: Some("step_time_s".into()), ..Study::default() }
}

#[test]
fn a_figure_of_many_cells_costs_no_more_for_each_than_one_of_few() {
    let number = |place: usize| Level::Integer(place as i64);
    let name = |place: usize| Level::text(&format!("size {place}"));
    let levels: [&dyn Fn(usize) -> Level; 2] = [&number, &name];
    let scatter = Study { across: Some("size".into()), ..of_form(Form::Scatter) };
    for (level, study) in
        [(0, of_form(Form::Bars)), (1, of_form(Form::Bars)), (0, scatter), (0, of_form(Form::Effects))]
    {
        check_growth(&study, |count| runs_of(&(0..count).map(levels[level]).collect::<Vec<_>>()));
    }
}

#[test]
fn many_cells_that_each_have_a_baseline_of_their_own_cost_no_more_for_each_than_few() {
    let study = Study { baseline: Some("each side=a".to_owned()), ..of_form(Form::Bars) };
    check_growth(&study, |count| {
        let mut runs = runs_of(&(0..count as i64).map(Level::Integer).collect::<Vec<_>>());
        for (place, run) in (0..).zip(&mut runs) {
            let side = if place % 2 == 0 { "a" } else { "b" };
            run.levels = Levels::new(vec![("size", Level::Integer(place / 2)), ("side", Level::text(side))]);
        }
        runs
    });
}

#[test]
fn points_of_more_colours_than_there_are_have_one_and_a_note_says_so() {
    let drawn = |count: i64| {
        let runs = runs_of(&(1..=count).map(Level::Integer).collect::<Vec<_>>());
        let study = Study {
            form: Form::Scatter,
            measure: Some("step_time_s".into()),
            across: Some("throughput".into()),
            ..Study::default()
        };
        let chart = compared(&runs, &study).charts.remove(0);
        (chart.series().count(), chart.notes.iter().any(|note| note.contains("could not be told apart by colours")))
    };
    assert_eq!(drawn(64), (64, false));
    assert_eq!(drawn(65), (1, true));
}

#[test]
fn the_front_of_many_cells_is_found() {
    // Each has its own place on the front, and one is bettered by all.
    let mut runs = runs_of(&(0..300).map(Level::Integer).collect::<Vec<_>>());
    for (place, run) in runs.iter_mut().enumerate() {
        run.values.insert("peak_device_bytes".into(), if place == 0 { 1e12 } else { 1e9 - place as f64 });
        if place == 0 {
            run.values.insert("step_time_s".into(), 1.0);
        }
    }
    let study = Study { form: Form::Pareto, measure: Some("step_time_s".into()), ..Study::default() };
    let notes = compared(&runs, &study).charts[0].notes.join(" ");
    assert!(notes.contains("Pareto front: 299 of 300 cells"), "{notes}");
}
