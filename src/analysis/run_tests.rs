#![allow(clippy::unwrap_used)]

use super::*;
use crate::analysis::fixture::{self, cell, finished, run};
use crate::plan::RunState;
use crate::protocol::{Evidence, FailureKind, UNSTORED_UNITS};

#[test]
fn a_wait_and_units_that_nobody_knows_are_not_zero() {
    let mut record = finished();
    for step in record.ranks.iter_mut().flat_map(|rank| &mut rank.steps) {
        (step.load_wait_s, step.units) = (f64::NAN, 0);
    }
    let summary = summarise_run(&record);
    for key in ["load_wait_s", "images_per_s", "processed_images_per_s", "energy_per_unit_j"] {
        assert_eq!(summary.value(key), None, "{key}");
    }
    assert!(summary.value("step_time_s").is_some() && summary.value("training_time_s").is_some());
    assert!(!summary.marks.iter().any(|mark| matches!(mark, Mark::NotFinite(_))), "{:?}", summary.marks);
}

#[test]
fn a_run_with_units_that_could_not_be_stored_has_no_rate() {
    let mut record = finished();
    record.ranks[0].steps.last_mut().unwrap().units = UNSTORED_UNITS;
    record.ranks.truncate(1);
    let summary = summarise_run(&record);
    for key in ["images_per_s", "processed_images_per_s", "energy_per_unit_j"] {
        assert_eq!(summary.value(key), None, "{key}");
    }
    assert!(summary.value("step_time_s").is_some());
}

#[test]
fn a_run_tells_when_it_was_started_and_by_which_launch() {
    let mut record = finished();
    let summary = summarise_run(&record);
    assert_eq!((summary.started_s, summary.launch.as_str()), (Some(1_001.0), "p1"));
    record.started_time_s = None;
    assert_eq!(summarise_run(&record).started_s, None, "it waits in the queue");
}

#[test]
fn warm_up_steps_are_left_out_and_the_slowest_rank_times_the_run() {
    let summary = summarise_run(&finished());
    assert_eq!(summary.value("step_time_s"), Some(0.016));
    // 16 steady steps of 64 images on 2 ranks in 16 × 16 ms.
    let images_per_s = summary.value("images_per_s").unwrap();
    assert!((images_per_s - 8_000.0).abs() < 1e-6, "{images_per_s}");
    // The mean over ranks of 4 ms and of that / 1.125.
    assert!((summary.value("load_wait_s").unwrap() - 0.004 * (1.0 + 1.0 / 1.125) / 2.0).abs() < 1e-12);
}

/// Asserts that a run has these values, up to rounding.
fn assert_near(record: &RunRecord, expected: &[(&str, f64)]) {
    let summary = summarise_run(record);
    for (key, expected) in expected {
        let found = summary.value(key).unwrap();
        assert!((found / expected - 1.0).abs() < 1e-12, "{key}: {found} instead of {expected}");
    }
}

#[test]
fn means_and_rates_weigh_a_logged_step_by_the_steps_that_it_stands_for() {
    // Steps 5 to 10 take 16 ms each. Of the 100 steps after them, ten are logged, and each takes 2 ms.
    let mut record = fixture::logging_each_tenth(run(&cell("fp32", 1, "single"), 1, 0.016));
    record.telemetry.steady_energy_j = Some(106.0 * 64.0);
    let time_s = 6.0 * 0.016 + 100.0 * 0.002;
    let images_per_s = 106.0 * 64.0 / time_s;
    // A quarter of each step is spent waiting.
    let (mean_s, wait_s) = (time_s / 106.0, time_s / 4.0 / 106.0);
    let expected = [
        ("images_per_s", images_per_s),
        ("processed_images_per_s", images_per_s),
        ("mean_step_time_s", mean_s),
        ("load_wait_s", wait_s),
        ("energy_per_unit_j", 1.0),
    ];
    assert_near(&record, &expected);
    let step_wait_s = summarise_run(&record).step_wait_s.unwrap();
    assert!((step_wait_s / wait_s - 1.0).abs() < 1e-12, "{step_wait_s} instead of {wait_s}");
}

#[test]
fn where_each_tenth_step_is_logged_rates_are_those_of_a_step_and_energy_is_divided_by_the_units_of_all_steps() {
    let mut record = run(&cell("fp32", 1, "single"), 1, 0.016);
    record.ranks[0].steps.iter_mut().for_each(|step| step.step *= 10);
    record.telemetry.steady_energy_j = Some(160.0 * 64.0);
    assert_near(&record, &[("images_per_s", 64.0 / 0.016), ("load_wait_s", 0.004), ("energy_per_unit_j", 1.0)]);
}

#[test]
fn ranks_under_ddp_process_the_same_images_which_count_once() {
    let summary = summarise_run(&run(&cell("fp32", 4, "ddp"), 1, 0.016));
    assert!((summary.value("images_per_s").unwrap() - 4_000.0).abs() < 1e-6);
    assert!((summary.value("processed_images_per_s").unwrap() - 16_000.0).abs() < 1e-6);
}

#[test]
fn the_run_says_whether_its_ranks_process_the_same_units() {
    let mut record = run(&cell("fp32", 4, "own"), 1, 0.016);
    assert!((summarise_run(&record).value("images_per_s").unwrap() - 16_000.0).abs() < 1e-6);
    for rank in &mut record.ranks {
        rank.readings.insert(0, fixture::reading_record("unit_copies", 4.0, None));
    }
    assert!((summarise_run(&record).value("images_per_s").unwrap() - 4_000.0).abs() < 1e-6);
}

#[test]
fn an_epoch_with_warm_up_counts_only_where_there_is_no_other() {
    let mut record = finished();
    assert_eq!(summarise_run(&record).value("epoch_time_s"), Some(0.16));
    for rank in &mut record.ranks {
        rank.readings.retain(|reading| reading.epoch != Some(2));
    }
    let summary = summarise_run(&record);
    assert_eq!(summary.value("epoch_time_s"), Some(46.0 * 0.016));
    assert!(summary.marks.contains(&Mark::IncludesWarmUp));
}

#[test]
fn the_values_of_all_runs_share_the_keys_of_their_registry() {
    let summary = summarise_run(&finished());
    let of_epochs = summary.epochs.iter().flat_map(|epoch| epoch.values.keys());
    let mut shared = 0;
    for key in summary.values.keys().chain(of_epochs) {
        if let Some(known) = summary.measures.iter().find(|measure| measure.key == *key) {
            assert!(std::ptr::eq(known.key.as_str(), key.as_str()), "{key}");
            shared += 1;
        }
    }
    assert!(shared > 20, "{shared}");
}

#[test]
fn losses_are_of_the_last_epoch_weighted_by_the_images_of_each_rank() {
    let mut record = finished();
    *fixture::reading(&mut record.ranks[1], "units", 2) = 1_280.0;
    let summary = summarise_run(&record);
    assert!((summary.value("train_loss").unwrap() - (0.25 + 2.0 * 0.3) / 3.0).abs() < 1e-12);
    assert_eq!((summary.value("test_loss"), summary.value("accuracy")), (Some(0.2), Some(0.95)));
}

#[test]
fn epochs_to_98_percent_are_those_up_to_the_first_that_reaches_it() {
    let mut record = finished();
    assert_eq!(summarise_run(&record).value("epochs_to_98_percent"), None, "95 % after two epochs");
    let reach = |record: &mut RunRecord, epoch: u32| {
        for rank in &mut record.ranks {
            *fixture::reading(rank, "accuracy", epoch) = 0.98;
        }
    };
    reach(&mut record, 2);
    assert_eq!(summarise_run(&record).value("epochs_to_98_percent"), Some(2.0));
    reach(&mut record, 1);
    assert_eq!(summarise_run(&record).value("epochs_to_98_percent"), Some(1.0));
}

#[test]
fn peaks_are_the_most_of_a_rank_and_the_total_time_is_the_launchers() {
    let mut record = finished();
    let summary = summarise_run(&record);
    assert_eq!(summary.value("peak_allocated_bytes"), Some(3_000_000_001.0));
    assert!((summary.value("total_time_s").unwrap() - 1.6).abs() < 1e-9);
    record.ended_time_s = Some(0.0);
    assert_eq!(summarise_run(&record).value("total_time_s"), Some(99.0 * 0.016));
}

#[test]
fn a_run_of_warm_up_alone_has_no_step_time_and_says_so() {
    let mut record = finished();
    record.ranks.iter_mut().flat_map(|rank| &mut rank.steps).for_each(|step| step.warm_up = true);
    let summary = summarise_run(&record);
    assert_eq!(
        (summary.value("step_time_s"), summary.value("images_per_s"), summary.value("load_wait_s")),
        (None, None, None)
    );
    assert!(summary.marks.contains(&Mark::NoSteadySteps));
    record.state = RunState::Running;
    assert!(!summarise_run(&record).marks.contains(&Mark::NoSteadySteps), "steady steps may be to come");
}

#[test]
fn a_measure_that_is_not_finite_is_left_out_and_named() {
    let mut record = finished();
    *fixture::reading(&mut record.ranks[0], "train_loss", 2) = f64::NAN;
    record.ranks[0].steps[12].duration_s = f64::INFINITY;
    let summary = summarise_run(&record);
    assert_eq!((summary.value("train_loss"), summary.epochs[1].value("train_loss")), (None, None));
    assert_eq!(summary.value("images_per_s"), None);
    assert!(summary.marks.contains(&Mark::NotFinite("train_loss".into())));
    assert!(summary.marks.contains(&Mark::NotFinite("images_per_s".into())));
    assert_eq!(summary.marks.iter().filter(|mark| **mark == Mark::NotFinite("train_loss".into())).count(), 1);
}

#[test]
fn readings_that_their_measure_cannot_have_enter_nothing_and_are_named() {
    let (mut record, usual) = (finished(), summarise_run(&finished()));
    *fixture::reading(&mut record.ranks[0], "epoch_time_s", 2) = -5.0;
    *fixture::reading(&mut record.ranks[1], "epoch_time_s", 2) = 1e308;
    let summary = summarise_run(&record);
    assert!(summary.marks.contains(&Mark::Impossible("epoch_time_s".into())), "{:?}", summary.marks);
    assert!(
        summary
            .values
            .values()
            .chain(summary.epochs.iter().flat_map(|epoch| epoch.values.values()))
            .all(|value| *value < 1e300 && *value > -1.0)
    );
    assert_eq!(summary.value("train_loss"), usual.value("train_loss"));
}

#[test]
fn shares_and_counts_beyond_their_range_are_left_out_and_named() {
    for (key, value) in [("accuracy", 55.0), ("accuracy", -3.0), ("parameters", -1.0), ("planned_steps", 1e300)] {
        let mut record = finished();
        let mark = Mark::Impossible(key.into());
        assert!(!summarise_run(&record).marks.contains(&mark));
        record.ranks[0].readings.push(fixture::reading_record(key, value, Some(2)));
        let summary = summarise_run(&record);
        assert!(summary.marks.contains(&mark), "{key} = {value}: {:?}", summary.marks);
        assert_eq!(summary.value(key), None, "{key}: an earlier value does not stand for {value}");
        assert!(!summary.marks.contains(&Mark::NotFinite(key.into())), "{:?}", summary.marks);
    }
    let mut whole = finished();
    whole.ranks[0].readings.push(fixture::reading_record("accuracy", 1.0, Some(2)));
    assert_eq!(summarise_run(&whole).value("accuracy"), Some(1.0));
    // An impossible value that a possible one follows is only marked.
    let mut mended = finished();
    *fixture::reading(&mut mended.ranks[0], "accuracy", 1) = 42.0;
    let summary = summarise_run(&mended);
    assert_eq!((summary.value("accuracy"), summary.epochs[0].value("accuracy")), (Some(0.95), None));
    assert!(summary.marks.contains(&Mark::Impossible("accuracy".into())), "{:?}", summary.marks);
}

#[test]
fn a_training_time_that_no_training_takes_is_left_out_and_named() {
    let mut record = finished();
    record.ranks[0].readings.push(fixture::reading_record("planned_steps", 9e15, None));
    record.ranks[1].readings.push(fixture::reading_record("planned_steps", 9e15, None));
    let summary = summarise_run(&record);
    assert_eq!((summary.value("training_time_s"), summary.training), (None, None));
    assert!(summary.marks.contains(&Mark::Impossible("training_time_s".into())), "{:?}", summary.marks);
}

#[test]
fn doubts_become_marks_once_each() {
    let mut record = finished();
    record.telemetry.throttle_reasons = vec!["sw_power_cap".to_owned()];
    record.telemetry.shared = true;
    record.telemetry.longest_hole_s = Some(3.0);
    for rank in &mut record.ranks {
        *fixture::reading(rank, "skipped_updates", 1) = 2.0;
        let tried_s = 14.0 + f64::from(rank.rank);
        rank.readings.push(fixture::reading_record("cudnn_trials_s", tried_s, None));
        for in_effect in [false, true] {
            let (factor, asked, seen) = ("layout".to_owned(), "nhwc".to_owned(), "strides".to_owned());
            rank.evidence.push(Arc::new(Evidence { factor, asked, seen, in_effect }));
        }
    }
    let marks = summarise_run(&record).marks;
    let labels: Vec<_> = marks.iter().map(Mark::label).collect();
    let expected =
        ["throttled", "shared GPU", "factor not in effect", "skipped updates", "made trials", "telemetry hole"];
    assert_eq!(labels, expected);
    assert!(marks.contains(&Mark::Tried(15.0)), "of the rank that took longest: {marks:?}");
}

#[test]
fn a_run_that_did_not_finish_tells_its_reason() {
    let mut record = finished();
    record.state = RunState::Failed;
    record.ranks[1].failure = Some((FailureKind::OutOfMemory, "out of memory".to_owned()));
    assert_eq!(summarise_run(&record).marks, [Mark::Failed("failed: out of memory".to_owned())]);
}

#[test]
fn a_run_without_ranks_has_no_measures() {
    let mut record = finished();
    record.ranks.clear();
    record.started_time_s = None;
    let summary = summarise_run(&record);
    assert_eq!(
        (summary.value("step_time_s"), summary.value("epoch_time_s"), summary.value("total_time_s")),
        (None, None, None)
    );
    assert_eq!((summary.value("accuracy"), summary.value("peak_allocated_bytes")), (None, None));
}
