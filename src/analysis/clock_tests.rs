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
    assert_eq!(in_milliseconds.marks.iter().map(Mark::label).collect::<Vec<_>>(), ["impossible times"]);
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
fn a_program_that_prints_each_tenth_step_may_tell_the_time_of_one_or_of_ten() {
    for told_s in [0.02, 0.2] {
        let mut record = run(100, 30.0, |step| (told_s, 1, 1.0 + 0.2 * step as f64));
        record.ranks[0].steps.iter_mut().for_each(|step| step.step *= 10);
        assert_eq!(summarise_run(&record).clock, Some(Clock::Confirmed), "{told_s}");
    }
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
