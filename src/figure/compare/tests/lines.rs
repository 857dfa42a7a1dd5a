//! Lines: scaling, losses and accuracy over time, and how many of them can be told apart.

use super::*;
use crate::figure::Over;

#[test]
fn scaling_has_ideals_from_the_fewest_gpus_and_an_efficiency() {
    let runs = four();
    let scaling = compared(&runs, &Study { form: Form::Scaling, ..Study::default() });
    let [time, efficiency] = scaling.charts.as_slice() else { panic!("{} charts", scaling.charts.len()) };
    let ideal = time.series().find(|series| series.role == Role::Ideal).unwrap();
    let (first, last) = (&ideal.points[0], ideal.points.last().unwrap());
    assert!((first.value.median / last.value.median - 2.0).abs() < 1e-9);
    let series_of = |name: &str| {
        let series = efficiency.series().find(|series| series.name == name).unwrap();
        series.points.iter().map(|point| point.value.median.round()).collect::<Vec<_>>()
    };
    assert_eq!((series_of("fp32"), series_of("fp16")), (vec![100.0, 80.0], vec![100.0, 100.0]));
    let loss = Study { form: Form::Scaling, measure: Some("train_loss".into()), ..Study::default() };
    let loss = compare(&[Source { session: "", runs: &runs, reports: &[] }], &loss);
    assert_eq!(loss.charts.len(), 1);
    assert!(loss.charts[0].notes[0].contains("no ideal"));
}

#[test]
fn scaling_has_one_line_where_nodes_follow_from_gpus_and_one_a_spread_where_they_do_not() {
    let spread = |(gpus, nodes): &(i64, i64), repeat: u32| {
        let mut record = fixture::run(&fixture::cell("fp32", *gpus, "ddp-ds"), repeat, 0.4 / *gpus as f64);
        let own = record.levels.iter().filter(|(key, _)| **key != *"nodes");
        let own = own.map(|(key, level)| (key.clone(), level.clone()));
        record.levels = Levels::new(own.chain([("nodes".into(), Level::Integer(*nodes))]).collect::<Vec<_>>());
        record.cell += &format!("-{nodes}");
        summarise_run(&record)
    };
    let lines = |counts: &[(i64, i64)]| -> Vec<usize> {
        let runs: Vec<_> = counts.iter().flat_map(|count| [spread(count, 1), spread(count, 2)]).collect();
        let scaling = compared(&runs, &Study { form: Form::Scaling, ..Study::default() });
        let measured = scaling.charts[0].series().filter(|series| series.role != Role::Ideal);
        measured.map(|series| series.points.len()).collect()
    };
    assert_eq!(lines(&[(1, 1), (2, 2), (4, 4)]), [3]);
    assert_eq!(lines(&[(1, 1), (2, 1), (2, 2), (4, 2)]), [2, 2]);
}

#[test]
fn losses_are_drawn_over_epochs_steps_or_the_time_spent_training() {
    let runs = runs(&[("fp32", 1, 0.4)]);
    let chart = |place: usize, over: Over| -> Vec<(f64, f64)> {
        let comparison = compared(&runs, &Study { form: Form::Loss, over, ..Study::default() });
        let points = comparison.charts[place].series().flat_map(|series| series.points.clone());
        points.map(|point| (point.x, point.value.median)).collect()
    };
    let x = |place: usize, over: Over| -> Vec<f64> { chart(place, over).iter().map(|point| point.0).collect() };
    // Tests, and means over epochs, have one value per epoch.
    assert_eq!(x(0, Over::Epochs), [1.0, 2.0]);
    assert_eq!(x(1, Over::Steps), [10.0, 20.0]);
    assert_eq!(x(1, Over::Time), [46.0 * 0.4, 46.0 * 0.4 + 10.0 * 0.4]);
    // The training loss is known for each of the 20 steps.
    assert_eq!(chart(0, Over::Steps), (1..=20).map(|n| (f64::from(n), 2.0 / f64::from(n))).collect::<Vec<_>>());
    let by_time = x(0, Over::Time);
    assert_eq!(by_time.len(), 20);
    assert!((by_time[19] - 56.0 * 0.4).abs() < 1e-9);
}

#[test]
fn one_epoch_makes_no_line_so_that_losses_are_drawn_over_steps_and_other_values_are_said() {
    let mut runs = runs(&[("fp32", 1, 0.4), ("fp16", 1, 0.1)]);
    runs.iter_mut().for_each(|run| run.epochs.retain(|epoch| epoch.epoch == 1));
    let comparison = compared(&runs, &Study { form: Form::Loss, ..Study::default() });
    let [train, test, ..] = comparison.charts.as_slice() else { panic!("{:?}", comparison.charts) };
    assert!(train.series().all(|series| series.points.len() == 20), "{train:?}");
    assert!(train.notes.contains(&"There is one epoch: training loss is drawn over steps.".to_owned()), "{train:?}");
    assert!(test.is_empty());
    let note = test.notes.last().unwrap();
    assert!(note.starts_with("Test loss after the only epoch, which makes no line: fp32 "), "{note}");
    assert!(note.contains("fp16 "), "{note}");
}

#[test]
fn many_lines_are_cut_to_what_can_be_told_apart_and_it_is_said() {
    let cells: Vec<(&str, i64, f64)> =
        ["fp32", "fp16"].into_iter().flat_map(|name| (1..=12).map(move |gpus| (name, gpus, 0.1))).collect();
    let comparison = compared(&runs(&cells), &Study { form: Form::Loss, ..Study::default() });
    let chart = &comparison.charts[0];
    assert_eq!(
        (chart.legend().len(), chart.notes[0].as_str()),
        (16, "16 of 24 lines are drawn: filter to see the others.")
    );
    let count_of = |name: &str| chart.series().filter(|series| series.name.starts_with(name)).count();
    assert_eq!((count_of("fp32"), count_of("fp16")), (8, 8));
}

#[test]
fn of_too_many_lines_the_foremost_cell_is_drawn() {
    let runs: Vec<RunSummary> =
        (1..=40).map(|gpus| summarise_run(&fixture::run(&fixture::cell("fp32", gpus, "single"), 1, 0.1))).collect();
    let study = Study { form: Form::Loss, ..Study::default() };
    let draws = |comparison: &Comparison, key: &CellKey| {
        let mut points = comparison.charts[0].series().flat_map(|series| &series.points);
        points.any(|point| point.cell.as_ref() == Some(key))
    };
    let plain = compared(&runs, &study);
    let last = plain.cells.last().unwrap().0.clone();
    assert!(!draws(&plain, &last), "{} lines are drawn", plain.charts[0].series().count());
    let chosen = compare_with(&[Source { session: "", runs: &runs, reports: &[] }], &study, Some(&last));
    assert!(draws(&chosen, &last));
}

#[test]
fn a_level_has_one_colour_whichever_runs_are_shown_and_in_whichever_form() {
    let mut traced = four();
    traced.iter_mut().for_each(|run| run.recording = Recording::Traced);
    let (second, third) = (four(), four());
    let sources = [("a", &traced), ("b", &second), ("c", &third)];
    let sources = sources.map(|(session, runs)| Source { session, runs: runs.as_slice(), reports: &[] });
    let colour = |form: Form, runs: Runs| {
        let [rows, colour] = ["precision", "session"].map(|key| Place::Setting(key.into()));
        let charts = compare(&sources, &Study { form, runs, rows, colour, ..Study::default() }).charts;
        let third = charts.iter().flat_map(Chart::series).find(|series| series.name.starts_with('c'));
        third.unwrap().look.colour()
    };
    let all = colour(Form::Bars, Runs::All);
    assert_eq!(all, crate::figure::COLOURS[2]);
    assert_eq!([colour(Form::Bars, Runs::Plain), colour(Form::Interactions, Runs::Plain)], [all, all]);
}
