#![allow(clippy::unwrap_used)]

use super::*;
use crate::analysis::{RunSummary, fixture, summarise_run};
use crate::figure::chart::{Look, Role};
use crate::figure::{Format, Over, Place, preset, render};

fn runs(cells: &[(&str, i64, f64)]) -> Vec<RunSummary> {
    let run = |(precision, gpus, step_time_s): &(&str, i64, f64), repeat: u32| {
        summarise_run(&fixture::run(&fixture::cell(precision, *gpus, "ddp-ds"), repeat, *step_time_s))
    };
    cells.iter().flat_map(|cell| [run(cell, 1), run(cell, 2)]).collect()
}

fn four() -> Vec<RunSummary> {
    runs(&[("fp32", 1, 0.4), ("fp32", 2, 0.25), ("fp16", 1, 0.1), ("fp16", 2, 0.05)])
}

fn of(runs: &[RunSummary], study: &Study) -> Comparison {
    compare(&[Source { session: "", runs, reports: &[] }], study)
}

#[test]
fn rows_are_groups_and_colours_bars_and_what_is_left_joins_the_rows() {
    let runs = four();
    let auto = of(&runs, &Study::default());
    assert_eq!(auto.charts[0].x.categories, ["fp32", "fp16"]);
    let names: Vec<&str> = auto.charts[0].legend().iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["1 GPU", "2 GPUs"]);
    let by_columns = of(&runs, &Study { columns: Place::Setting("precision".into()), ..Study::default() });
    let titles: Vec<&str> = by_columns.charts[0].panels.iter().map(|panel| panel.title.as_str()).collect();
    assert_eq!(titles, ["fp32", "fp16"]);
    let plain = Study { rows: Place::Nothing, colour: Place::Nothing, columns: Place::Nothing, ..Study::default() };
    let plain = of(&runs, &plain);
    // No two cells become one bar.
    assert_eq!(plain.charts[0].x.categories, ["fp32 · 1 GPU", "fp32 · 2 GPUs", "fp16 · 1 GPU", "fp16 · 2 GPUs"]);
    assert_eq!(plain.charts[0].series().map(|series| series.points.len()).sum::<usize>(), 4);
}

#[test]
fn a_series_has_the_look_of_its_level_whatever_else_is_shown() {
    let runs = four();
    let study = Study { colour: Place::Setting("precision".into()), ..Study::default() };
    let all = of(&runs, &study);
    let hidden = Study { hidden: vec![("precision".into(), Level::text("fp32"))], ..study };
    let fewer = of(&runs, &hidden);
    let look = Look::Level(Level::text("fp16"), 2);
    assert!(all.charts[0].series().any(|series| series.look == look));
    assert!(fewer.charts[0].series().all(|series| series.look == look));
}

#[test]
fn the_ratio_of_a_time_is_above_one_where_it_is_faster_and_of_memory_where_it_is_more() {
    let mut runs = four();
    let ratio = |runs: &[RunSummary], measure: &str| {
        let comparison = of(runs, &Study { measure: Some(measure.into()), ..Study::default() });
        let points = comparison.charts[0].series().flat_map(|series| series.points.clone());
        let fp16 = points.into_iter().find(|point| point.cell.as_ref().unwrap().cell == "fp16-1-ddp-ds");
        fp16.unwrap().ratio.unwrap().median
    };
    assert!((ratio(&runs, "epoch_time_s") - 4.0).abs() < 1e-9);
    assert!((ratio(&runs, "images_per_s") - 4.0).abs() < 1e-9);
    for run in runs.iter_mut().filter(|run| run.cell.starts_with("fp16")) {
        *run.values.get_mut("peak_allocated_bytes").unwrap() /= 2.0;
    }
    assert!((ratio(&runs, "peak_allocated_bytes") - 0.5).abs() < 1e-6);
}

#[test]
fn scaling_has_ideals_from_the_fewest_gpus_and_an_efficiency() {
    let runs = four();
    let scaling = of(&runs, &Study { form: Form::Scaling, ..Study::default() });
    let [time, efficiency] = scaling.charts.as_slice() else { panic!("{} charts", scaling.charts.len()) };
    let ideal = time.series().find(|series| series.role == Role::Ideal).unwrap();
    let (first, last) = (&ideal.points[0], ideal.points.last().unwrap());
    assert!((first.value.median / last.value.median - 2.0).abs() < 1e-9);
    let of = |name: &str| {
        let series = efficiency.series().find(|series| series.name == name).unwrap();
        series.points.iter().map(|point| point.value.median.round()).collect::<Vec<_>>()
    };
    assert_eq!((of("fp32"), of("fp16")), (vec![100.0, 80.0], vec![100.0, 100.0]));
    let loss = Study { form: Form::Scaling, measure: Some("train_loss".into()), ..Study::default() };
    let loss = compare(&[Source { session: "", runs: &runs, reports: &[] }], &loss);
    assert_eq!(loss.charts.len(), 1);
    assert!(loss.charts[0].notes[0].contains("no ideal"));
}

#[test]
fn losses_are_drawn_over_epochs_steps_or_the_time_spent_training() {
    let runs = runs(&[("fp32", 1, 0.4)]);
    let chart = |place: usize, over: Over| -> Vec<(f64, f64)> {
        let comparison = of(&runs, &Study { form: Form::Loss, over, ..Study::default() });
        let points = comparison.charts[place].series().flat_map(|series| series.points.clone());
        points.map(|point| (point.x, point.value.median)).collect()
    };
    let x = |place: usize, over: Over| -> Vec<f64> { chart(place, over).iter().map(|point| point.0).collect() };
    // Of tests, and of means over epochs, there is one an epoch.
    assert_eq!(x(0, Over::Epochs), [1.0, 2.0]);
    assert_eq!(x(1, Over::Steps), [10.0, 20.0]);
    assert_eq!(x(1, Over::Time), [46.0 * 0.4, 46.0 * 0.4 + 10.0 * 0.4]);
    // The training loss is known at each of the 20 steps.
    assert_eq!(chart(0, Over::Steps), (1..=20).map(|n| (f64::from(n), 2.0 / f64::from(n))).collect::<Vec<_>>());
    let by_time = x(0, Over::Time);
    assert_eq!(by_time.len(), 20);
    assert!((by_time[19] - 56.0 * 0.4).abs() < 1e-9);
}

#[test]
fn many_lines_are_cut_to_what_can_be_told_apart_and_it_is_said() {
    let cells: Vec<(&str, i64, f64)> =
        ["fp32", "fp16"].into_iter().flat_map(|name| (1..=12).map(move |gpus| (name, gpus, 0.1))).collect();
    let comparison = of(&runs(&cells), &Study { form: Form::Loss, ..Study::default() });
    let chart = &comparison.charts[0];
    assert_eq!(
        (chart.legend().len(), chart.notes[0].as_str()),
        (16, "16 of 24 lines are drawn: filter to see the others.")
    );
    let of = |name: &str| chart.series().filter(|series| series.name.starts_with(name)).count();
    assert_eq!((of("fp32"), of("fp16")), (8, 8));
}

#[test]
fn the_same_cell_of_two_sessions_is_two_rows_and_its_session_a_setting() {
    let runs = four();
    let sources =
        [Source { session: "a", runs: &runs, reports: &[] }, Source { session: "b", runs: &runs, reports: &[] }];
    let both = compare(&sources, &Study::default());
    assert_eq!((both.table.rows.len(), &*both.arrangement.colour.unwrap().key), (8, "session"));
    assert_eq!(both.charts[0].legend().len(), 2);
    let json: serde_json::Value = serde_json::from_str(&render(&both.table, Format::Json)).unwrap();
    assert_eq!((&json["rows"][0]["session"], &json["rows"][1]["session"]), (&"a".into(), &"b".into()));
    let one = compare(&sources[..1], &Study::default());
    assert_eq!(one.table.columns[0].key, "precision");
}

#[test]
fn values_are_those_of_the_command_line_s_tables() {
    let runs = four();
    let own = of(&runs, &Study { measure: Some("step_time_s".into()), ..Study::default() });
    let times = table(&[Source { session: "", runs: &runs, reports: &[] }], &preset("times").unwrap());
    let values = |table: &Table, key: &str| {
        let column = table.columns.iter().position(|column| column.key == key).unwrap();
        table.rows.iter().map(|row| row.values[column].clone()).collect::<Vec<_>>()
    };
    for key in ["precision", "gpus", "runs", "step_time_s", "images_per_s", "train_loss", "accuracy"] {
        assert_eq!(values(&own.table, key), values(&times, key), "{key}");
    }
}

#[test]
fn nothing_makes_an_empty_comparison() {
    for form in Form::ALL {
        let nothing = compare(&[], &Study { form, ..Study::default() });
        assert_eq!((nothing.all_cells, nothing.table.rows.len()), (0, 0));
        assert!(nothing.charts.iter().all(Chart::is_empty));
    }
}

#[test]
fn a_filter_chooses_cells_by_words_and_levels_and_one_that_cannot_be_read_hides_none() {
    let runs = four();
    let shown = |filter: &str| of(&runs, &Study { filter: filter.to_owned(), ..Study::default() }).cells.len();
    for (filter, cells) in [
        ("FP16 2", 1),
        ("precision=fp16 gpus>=2", 1),
        ("fp32 or gpus=2", 3),
        ("not fp32", 2),
        ("gpus=", 4),
        ("(", 4),
        (")", 4),
    ] {
        assert_eq!(shown(filter), cells, "{filter:?}");
    }
}

#[test]
fn the_parts_of_a_step_are_of_the_same_steps_of_the_slowest_rank() {
    // The other rank waits 90 ms in each step; the slowest one, whose steps take 100 ms, waits 10 ms in every other.
    let mut record = fixture::run(&fixture::cell("fp32", 2, "ddp-ds"), 1, 0.1);
    for (rank, wait_s) in [(0, 0.01), (1, 0.09)] {
        for step in &mut record.ranks[rank].steps {
            step.load_wait_s = if rank == 1 || step.step % 2 == 0 { wait_s } else { 0.0 };
        }
    }
    let runs = [summarise_run(&record)];
    let parts = of(&runs, &Study { form: Form::Parts, ..Study::default() });
    let of = |name: &str| {
        let series = parts.charts[0].series().find(|series| series.name == name).unwrap();
        series.points[0].value.median
    };
    assert!((of("Host waits for data") - 0.005).abs() < 1e-9, "{}", of("Host waits for data"));
    assert!((of("All else") - 0.095).abs() < 1e-9);
}
