#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use super::*;
use crate::analysis::fixture::{self, Noise};
use crate::analysis::{Mark, RunSummary, summarise_run};
use crate::plan::{Command, WorkloadSpec};

/// How much slower the clock that sees lines arrive runs than the program's: told times are never exactly those between arrivals.
const SLOWER: f64 = 1.0002;

/// A run of a program of so many steps: `said` gives the told duration, the epoch, and when the line arrived after the start.
fn run(steps: u64, life_s: f64, reported: impl Fn(u64) -> (f64, u32, f64)) -> RunRecord {
    let mut record = fixture::run(&fixture::cell("fp32", 1, "single"), 1, 1.0);
    record.workload =
        Arc::new(WorkloadSpec { command: Some(Arc::new(Command::default())), ..(*record.workload).clone() });
    record.started_time_s = Some(1_000.0);
    let rank = &mut record.ranks[0];
    let step = |step: u64| {
        let (duration_s, epoch, at_s) = reported(step);
        StepRecord { step, time_s: 1_000.0 + SLOWER * at_s, epoch, duration_s, warm_up: step <= 2, ..rank.steps[0] }
    };
    (rank.steps, rank.duration_s) = ((1..=steps).map(step).collect(), Some(life_s));
    record
}

fn summary(steps: u64, life_s: f64, reported: impl Fn(u64) -> (f64, u32, f64)) -> RunSummary {
    summarise_run(&run(steps, life_s, reported))
}

fn ratio(summary: &RunSummary) -> f64 {
    (summary.value("clock_ratio").unwrap() * 1e3).round() / 1e3
}

#[test]
fn lines_that_arrive_as_far_apart_as_they_tell_confirm_the_clock() {
    let noise: Vec<f64> = Noise::new(1).correlated(101, 0.0).iter().map(|x| 0.02 * (1.0 + 0.05 * x)).collect();
    let ends: Vec<f64> = noise
        .iter()
        .scan(1.0, |at_s, duration_s| Some(std::mem::replace(at_s, *at_s + duration_s) + duration_s))
        .collect();
    let reported = summary(100, 4.0, |step| (noise[step as usize], 1, ends[step as usize] + 1e-4 * (step % 5) as f64));
    assert_eq!((reported.clock, ratio(&reported)), (Some(Clock::Confirmed), 1.0), "{:?}", reported.marks);
    assert!(reported.marks.is_empty(), "{:?}", reported.marks);
}

#[test]
fn a_worker_which_measures_its_own_steps_is_not_asked() {
    let summary = summarise_run(&fixture::finished());
    assert_eq!((summary.clock, summary.told_resolution_s, summary.value("clock_ratio")), (None, None, None));
}

#[test]
fn steps_of_a_program_that_tells_no_times_are_timed_by_their_lines_and_need_no_witness() {
    // Few steps: line by line, and three of them read at once.
    let alone = run(6, 1.0, |step| (0.01 * step as f64 * SLOWER, 1, 0.005 * (step * (step + 1)) as f64));
    let batched = run(6, 1.0, |step| if step > 3 { (0.02 * SLOWER, 1, 0.16) } else { (0.05, 1, 0.1) });
    for record in [alone, batched] {
        let summary = summarise_run(&record);
        assert_eq!((summary.clock, summary.value("clock_ratio")), (None, None));
        assert!(summary.marks.is_empty(), "{:?}", summary.marks);
    }
}

#[test]
fn steps_that_all_have_a_line_give_no_training_time_that_is_longer_than_the_process_lived() {
    // The first 90 steps take 1 ms each, the others 100 ms; the program reports these times itself.
    let end_s = |step: u64| if step <= 90 { 0.001 * step as f64 } else { 0.09 + 0.1 * (step - 90) as f64 };
    let mut record = run(100, 1.2, |step| (end_s(step) - end_s(step - 1), 1, end_s(step)));
    record.ranks[0].steps.iter_mut().for_each(|step| step.warm_up = step.step <= 90);
    let reported = summarise_run(&record);
    assert!(reported.clock.is_some_and(|clock| !clock.is_impossible()), "{:?}", reported.clock);
    assert_eq!((reported.training, reported.value("training_time_s")), (None, None));
    assert!(reported.marks.contains(&Mark::TrainingOutlivesProcess), "{:?}", reported.marks);
    assert!((reported.value("step_time_s").unwrap() - 0.1).abs() < 1e-9);
}

#[test]
fn steps_that_are_timed_by_their_lines_give_no_training_time_that_is_longer_than_the_process_lived() {
    // The first 90 steps come within 1 ms each, the others take 100 ms each.
    let end_s = |step: u64| if step <= 90 { 0.001 * step as f64 } else { 0.09 + 0.1 * (step - 90) as f64 };
    let mut record = run(100, 1.2, |step| (SLOWER * (end_s(step) - end_s(step - 1)), 1, end_s(step)));
    record.ranks[0].steps.iter_mut().for_each(|step| step.warm_up = step.step <= 90);
    let reported = summarise_run(&record);
    assert_eq!((reported.clock, reported.value("training_time_s")), (None, None));
    assert!(reported.marks.contains(&Mark::TrainingOutlivesProcess), "{:?}", reported.marks);
    assert!((reported.value("step_time_s").unwrap() - 0.1 * SLOWER).abs() < 1e-9);
}

#[test]
fn steps_told_far_shorter_than_they_arrive_apart_are_not_confirmed() {
    // A step takes 20 ms, but the program reports 2 ms.
    let reported = summary(100, 4.0, |step| (0.002, 1, 1.0 + 0.02 * step as f64));
    let Some(Clock::Unconfirmed(Doubt::FartherApart { told_s, apart_s })) = reported.clock else {
        panic!("{:?}", reported.clock)
    };
    assert!((told_s - 0.002).abs() < 1e-9 && (apart_s - 0.02).abs() < 1e-4 && ratio(&reported) == 0.1);
    assert_eq!(reported.marks, [Mark::Clock(reported.clock.unwrap())]);
    assert!(
        reported.marks[0]
            .to_string()
            .starts_with("the clock could not be confirmed: it reports 0.002 s a step, its lines arrived every 0.02 s"),
        "{}",
        reported.marks[0]
    );
}

#[test]
fn gpus_that_worked_longer_than_steps_are_told_to_last_show_that_these_are_impossible() {
    let mut record = run(100, 4.0, |step| (0.002, 1, 1.0 + 0.02 * step as f64));
    record.telemetry.load.gpus_busy = Some(0.95);
    let reported = summarise_run(&record);
    let Some(Clock::Impossible(Contradiction::ShorterThanBusy { told_s, busy_s })) = reported.clock else {
        panic!("{:?}", reported.clock)
    };
    assert!((told_s - 0.002).abs() < 1e-9 && (busy_s - 0.019).abs() < 1e-4, "{told_s} {busy_s}");
    assert!(reported.marks[0].to_string().contains("does not wait for the GPU"), "{}", reported.marks[0]);
    record.telemetry.load.gpus_busy = Some(0.1);
    assert!(!summarise_run(&record).clock.unwrap().is_impossible(), "it did other things between steps");
    // Honest steps, and a test of 2 s on the GPU after each 25 of them.
    let mut tested = run(100, 12.0, |step| (0.02, 1, 1.0 + 0.02 * step as f64 + 2.0 * ((step - 1) / 25) as f64));
    tested.telemetry.load.gpus_busy = Some(0.97);
    assert_eq!(summarise_run(&tested).clock, Some(Clock::Confirmed), "the test is no step");
}

#[test]
fn more_time_than_has_passed_is_impossible_and_no_sign_of_a_clock_that_was_set() {
    let in_milliseconds = summary(100, 4.0, |step| (20.0, 1, 1.0 + 0.02 * step as f64));
    assert_eq!(
        in_milliseconds.clock,
        Some(Clock::Impossible(Contradiction::LongerThanPassed { told_s: 2_000.0, passed_s: 4.0 }))
    );
    let labels: Vec<_> = in_milliseconds.marks.iter().map(Mark::label).collect();
    assert_eq!(labels, ["impossible times", "impossible value"]);
    assert_eq!(in_milliseconds.value("training_time_s"), None);
    let text = in_milliseconds.marks[0].to_string();
    assert!(
        text.contains("2000 s of steps, but only 4 s passed") && text.contains("milliseconds as seconds?"),
        "{text}"
    );
    assert_eq!(ratio(&in_milliseconds), 500.0, "it tells 2000 s in 4 s");
    // Twice as long as they were, which a start of 60 s would hide.
    let twice = summary(100, 70.0, |step| (0.2, 1, 60.0 + 0.1 * step as f64));
    assert!(twice.clock.unwrap().is_impossible() && (ratio(&twice) - 2.0).abs() < 1e-2, "{:?}", twice.clock);
}

#[test]
fn steps_that_are_told_longer_than_they_arrive_apart_are_not_confirmed_however_short_the_run_is() {
    // A step takes 20 ms, but the program reports 28 ms: over 30 steps that is too little to be impossible.
    let reported = summary(30, 4.0, |step| (0.028, 1, 1.0 + 0.02 * step as f64));
    let Some(Clock::Unconfirmed(Doubt::CloserTogether { told_s, apart_s })) = reported.clock else {
        panic!("{:?}", reported.clock);
    };
    assert!((told_s - 0.028).abs() < 1e-6 && (apart_s - 0.02).abs() < 1e-4, "{told_s} {apart_s}");
    assert!((ratio(&reported) - 1.4).abs() < 1e-6);
    assert!(reported.marks[0].to_string().contains("the times that it reports are too long"), "{}", reported.marks[0]);
}

#[test]
fn pauses_now_and_then_leave_the_clock_confirmed_and_those_of_each_step_do_not() {
    let with_tests = summary(100, 60.0, |step| {
        let epoch = (step - 1) / 25;
        (0.1, epoch as u32 + 1, 1.0 + 0.1 * step as f64 + 5.0 * epoch as f64)
    });
    assert_eq!((with_tests.clock, ratio(&with_tests)), (Some(Clock::Confirmed), 1.0), "between epochs");
    let unsaid = summary(100, 60.0, |step| (0.1, 1, 1.0 + 0.1 * step as f64 + 5.0 * ((step - 1) / 25) as f64));
    assert!(unsaid.clock == Some(Clock::Confirmed) && ratio(&unsaid) < 0.5, "{:?}", unsaid.clock);
    let each = summary(100, 60.0, |step| (0.1, 1, 1.0 + 0.15 * step as f64));
    assert!(matches!(each.clock, Some(Clock::Unconfirmed(Doubt::FartherApart { .. }))), "{:?}", each.clock);
}

#[test]
fn lines_that_a_buffer_held_back_confirm_the_clock_over_long_stretches_only() {
    // 40 lines fill the buffer; the last ones are flushed when the program ends, 3 s after its last step.
    let arrives = |step: u64, steps: u64| {
        let full = step.div_ceil(40) * 40;
        1.0 + 0.02 * full.min(steps) as f64 + if full > steps { 3.0 } else { 0.0 }
    };
    let long = summary(1_010, 30.0, |step| (0.02, 1, arrives(step, 1_010)));
    assert_eq!((long.clock, ratio(&long)), (Some(Clock::Confirmed), 1.0));
    let short = summary(100, 7.0, |step| (0.02, 1, arrives(step, 100)));
    assert_eq!(short.clock, Some(Clock::Unconfirmed(Doubt::Together { steps: 98, arrivals: 3 })));
    assert!(short.marks[0].to_string().contains("98 steps arrived at only 3 times"), "{}", short.marks[0]);
    let few = summary(7, 7.0, |step| (0.02, 1, 1.0 + 0.02 * step as f64));
    assert_eq!(few.clock, Some(Clock::Unconfirmed(Doubt::Together { steps: 5, arrivals: 5 })));
    assert!(few.marks[0].to_string().contains(": only 5 steps count after the warm-up, too few"), "{}", few.marks[0]);
    let batched = summary(2_000, 50.0, |_| (0.02, 1, 45.0));
    assert_eq!(
        (batched.clock, batched.value("clock_ratio")),
        (Some(Clock::Unconfirmed(Doubt::Together { steps: 1_998, arrivals: 1 })), None)
    );
    assert!(!batched.marks.contains(&Mark::ClockSet), "40 s of steps in one moment are no clock that was set");
    let too_slow = summary(1_010, 300.0, |step| (0.002, 1, arrives(step, 1_010)));
    assert!(matches!(too_slow.clock, Some(Clock::Unconfirmed(Doubt::FartherApart { .. }))), "{:?}", too_slow.clock);
}

#[test]
fn steps_that_are_reported_in_several_writes_at_the_end_of_the_run_are_not_impossible() {
    // Each of 8 writes has 125 lines with steps of 1 ms.
    let written =
        |from_s: f64| summary(1_000, 1.2, move |step| (0.001, 1, from_s + 0.0025 * step.div_ceil(125) as f64));
    let at_the_end = written(1.1);
    assert_eq!(at_the_end.clock, Some(Clock::Unconfirmed(Doubt::Together { steps: 998, arrivals: 8 })));
    assert_eq!(at_the_end.value("step_time_s"), Some(0.001));
    assert!(written(0.1).clock.unwrap().is_impossible(), "there was no time for these steps before");
}

/// A run of 1000 steps of 10 ms whose program prints each tenth: `told_s` gives the time in a line by its place, from 1, and `pause_s` what
/// passes in front of it beside the steps.
fn each_tenth(told_s: impl Fn(u64) -> f64, pause_s: impl Fn(u64) -> f64) -> RunRecord {
    let paused_s: Vec<f64> = (0..=100)
        .scan(0.0, |sum_s, line| {
            *sum_s += pause_s(line);
            Some(*sum_s)
        })
        .collect();
    let at_s = |line: u64| 1.0 + 0.1 * line as f64 + paused_s[line as usize];
    let mut record = run(100, at_s(100) + 0.3, |line| (told_s(line), 1, at_s(line)));
    record.ranks[0].steps.iter_mut().for_each(|step| step.step *= 10);
    record
}

#[test]
fn a_time_since_the_last_line_is_divided_by_its_steps_and_a_time_of_one_step_is_not() {
    let one = summarise_run(&each_tenth(|_| 0.01, |_| 0.0));
    assert_eq!((one.clock, ratio(&one)), (Some(Clock::Confirmed), 1.0));
    assert!(one.marks.is_empty(), "{:?}", one.marks);
    let ten = summarise_run(&each_tenth(|line| 0.1 + 1e-4 * (line % 2) as f64, |_| 0.0));
    assert_eq!((ten.clock, ratio(&ten)), (Some(Clock::Confirmed), 1.0));
    assert_eq!(ten.marks, [Mark::TimesDivided { steps: 10.0 }]);
    assert!(ten.marks[0].to_string().contains("since its previous line, usually 10"), "{}", ten.marks[0]);
    for (reported, resolution_s) in [(&one, 0.01), (&ten, 1e-5)] {
        let value = |key: &str| reported.value(key).unwrap();
        assert!((value("step_time_s") - 0.01).abs() < 1e-4, "{}", value("step_time_s"));
        assert!((value("training_time_s") - 10.0).abs() < 0.05, "{}", value("training_time_s"));
        let found_s = reported.told_resolution_s.unwrap();
        assert!((found_s / resolution_s - 1.0).abs() < 1e-6, "{found_s}");
    }
}

#[test]
fn a_time_since_the_last_line_is_divided_in_a_run_of_few_lines_too() {
    let mut record = each_tenth(|_| 0.1, |_| 0.0);
    record.ranks[0].steps.truncate(6);
    record.ranks[0].duration_s = Some(1.7);
    let few = summarise_run(&record);
    assert!(matches!(few.clock, Some(Clock::Unconfirmed(Doubt::Together { .. }))), "{:?}", few.clock);
    assert!((few.value("step_time_s").unwrap() - 0.01).abs() < 1e-9 && few.marks.len() == 2, "{:?}", few.marks);
}

#[test]
fn a_test_in_the_time_of_a_printed_step_leaves_the_times_as_they_are_and_no_training_time() {
    // Each 25th line reports a step with a test of 9 s in it: most of the time passes in tests.
    let test_s = |line: u64| if line.is_multiple_of(25) { 9.0 } else { 0.0 };
    let reported = summarise_run(&each_tenth(|line| 0.01 + test_s(line), test_s));
    assert_eq!((reported.clock, ratio(&reported)), (Some(Clock::Confirmed), 1.0), "{:?}", reported.marks);
    assert_eq!(reported.value("step_time_s"), Some(0.01));
    // Each of these lines would stand for ten tests.
    assert_eq!(reported.value("training_time_s"), None);
    assert_eq!(reported.marks, [Mark::TrainingOutlivesProcess]);
    assert!(reported.marks[0].to_string().contains("is longer than its process lived"), "{}", reported.marks[0]);
}

#[test]
fn times_that_fit_neither_one_step_nor_those_since_the_last_line_are_impossible() {
    // Lines of 10 ms each arrive every 20 ms, all at the end, or as they tell; the program numbers them by billions.
    for arrives_s in [0.02, 0.0, 0.01] {
        let mut record = run(30, 0.63, |line| (0.01, 1, 0.03 + arrives_s * line as f64));
        record.ranks[0].steps.iter_mut().for_each(|step| step.step *= 1_000_000_000);
        let reported = summarise_run(&record);
        let Some(Clock::Impossible(Contradiction::MoreStepsThanTime { steps, told_s, .. })) = reported.clock else {
            panic!("{:?}", reported.clock)
        };
        assert!(steps >= 25e9 && (told_s - 0.01).abs() < 1e-9, "{steps} {told_s}");
        let text = reported.marks[0].to_string();
        assert!(text.contains("0.01 s a step and numbers 2"), "{text}");
        assert_eq!((reported.training, reported.value("training_time_s")), (None, None));
    }
    // Five times what a step took, and half of what passed since the last line.
    let reported = summarise_run(&each_tenth(|_| 0.05, |_| 0.0));
    assert!(reported.clock.unwrap().is_impossible(), "{:?}", reported.clock);
}

#[test]
fn the_resolution_of_told_times_is_seen_and_a_jump_of_the_machines_clock_still_is() {
    let coarse = summary(100, 4.0, |step| (0.012 + 0.001 * (step % 3) as f64, 1, 1.0 + 0.013 * step as f64));
    assert!((coarse.told_resolution_s.unwrap() - 0.001).abs() < 1e-12);
    let set_back =
        summary(100, 4.0, |step| (0.02, 1, 1.0 + 0.02 * step as f64 + if step > 50 { -3_600.0 } else { 0.0 }));
    let set = summary(100, 4.0, |step| (0.02, 1, 1.0 + 0.02 * step as f64 + if step > 50 { 3_600.0 } else { 0.0 }));
    assert!(set_back.marks.contains(&Mark::ClockSet) && set.marks.contains(&Mark::ClockSet));
}

#[test]
fn times_are_told_with_three_digits() {
    assert_eq!([0.002, 0.019_87, 12.34, 2_000.4, 0.0].map(digits), ["0.002", "0.0199", "12.3", "2000", "0"]);
}
