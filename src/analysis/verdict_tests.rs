#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use super::*;
use crate::analysis::{self, Clock, Contradiction, Doubt, RunSummary, cells, checked_by, fixture, summarise_run};
use crate::plan::{Checked, Command, Margin, WorkloadSpec};
use crate::statistics::fixture::oracle;

#[test]
fn tests_their_correction_and_what_could_be_shown_agree_with_scipy() {
    use Verdict::{Equal, Faster, Slower, Undecided};
    let oracle = oracle();
    let judged = judge(&oracle.family, true, oracle.within);
    for (place, one) in judged.iter().enumerate() {
        let near = |seen: f64, expected: f64| (seen - expected).abs() <= 1e-9 * expected.max(1e-3);
        assert!(near(one.p.unwrap(), oracle.difference[place]), "{place}: {one:?}");
        // The first look may spend 80 % of the error.
        let spent = |p: f64| (p / 0.8).min(1.0);
        assert!(near(one.p_holm.unwrap(), spent(oracle.difference_holm[place])), "{place}: {one:?}");
        let is_equal = spent(oracle.equivalence_holm[place]) < 0.05;
        assert_eq!(one.verdict == Equal, is_equal, "{place}: {one:?}");
    }
    assert_eq!(judged.iter().map(|one| one.verdict).collect::<Vec<_>>(), [Faster, Undecided, Slower, Equal, Faster]);
    let texts: Vec<String> = judged.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "faster",
            "undecided: with the spread of 4 pairs only differences above 10 % would show",
            "slower",
            "equal within 1 %",
            "faster"
        ]
    );
}

#[test]
fn the_interval_of_a_mean_is_students_and_two_values_say_little() {
    // R: t.test(c(1.1, 1.3, 0.9, 1.2))$conf.int
    let Interval { low, high } = mean_interval(&[1.1, 1.3, 0.9, 1.2]).unwrap();
    assert!((low - 0.853_247).abs() < 1e-6 && (high - 1.396_753).abs() < 1e-6, "{low} {high}");
    let Interval { low, high } = mean_interval(&[1.0, 1.02]).unwrap();
    assert!((high - low - 2.0 * 12.706_205 * 0.01).abs() < 1e-6, "{low} {high}");
    assert_eq!(mean_interval(&[1.0]), None);
    assert_eq!(mean_interval(&[2.0, 2.0]), Some(Interval { low: 2.0, high: 2.0 }));
}

#[test]
fn a_difference_that_stands_alone_may_not_stand_in_a_family() {
    let weak = vec![0.028, 0.042, 0.035];
    assert_eq!(judge(std::slice::from_ref(&weak), true, 0.01)[0].verdict, Verdict::Faster);
    let noise = || vec![0.01, -0.02, 0.013];
    let family: Vec<Vec<f64>> = std::iter::once(weak).chain(std::iter::repeat_with(noise).take(9)).collect();
    let judged = judge(&family, true, 0.01);
    assert!(judged.iter().all(|one| one.verdict == Verdict::Undecided), "{judged:?}");
}

#[test]
fn an_undecided_ratio_whose_interval_excludes_1_says_which_limit_its_p_misses() {
    let weak = vec![0.028, 0.042, 0.035];
    let noise = || vec![0.01, -0.02, 0.013];
    let family: Vec<Vec<f64>> = std::iter::once(weak).chain(std::iter::repeat_with(noise).take(9)).collect();
    let judged = judge(&family, true, 0.01);
    assert_eq!((judged[0].verdict, judged[0].lack), (Verdict::Undecided, Some(Lack::LowProbability)), "{judged:?}");
    let p = judged[0].p_holm.unwrap();
    let alone = "undecided: p = 0.013 for this comparison alone, but p";
    let expected = format!("{alone} = {p:.2} corrected for all 10 comparisons, not below 0.05");
    assert!(p > 0.1 && judged[0].to_string() == expected, "{}", judged[0]);
    let family = [Comparison::of_logs(vec![0.028, 0.042, 0.035])];
    let among_many = judge_comparisons(&family, 199, true, 0.01)[0].to_string();
    assert_eq!(among_many, format!("{alone} > 0.99 corrected for all 200 comparisons, not below 0.05"));
    // Repeats on both sides of 1 look like no difference.
    assert_eq!(judged[1].lack, None, "{judged:?}");
    assert!(judged[1].to_string().starts_with("undecided: with the spread of 3 pairs"), "{}", judged[1]);
}

#[test]
fn an_undecided_ratio_with_a_low_p_says_that_its_interval_contains_1() {
    // One repeat of five lies on the other side of 1, so that the range contains 1.
    let judged = &judge(&[vec![0.1, 0.11, 0.105, 0.095, -0.001]], true, 0.01)[0];
    assert!(judged.p_holm.is_some_and(|p| p < 0.05), "{judged:?}");
    assert_eq!((judged.verdict, judged.lack), (Verdict::Undecided, Some(Lack::IntervalWithout1)));
    assert_eq!(judged.to_string(), "undecided: the corrected p is below 0.05, but the interval contains 1");
}

#[test]
fn values_without_spread_are_equal_or_differ_and_too_few_are_undecided() {
    let verdicts = |family: &[Vec<f64>], of_speed| -> Vec<Verdict> {
        judge(family, of_speed, 0.01).into_iter().map(|one| one.verdict).collect()
    };
    let family = [vec![0.0, 0.0], vec![0.5, 0.5], vec![-0.5, -0.5 + 1e-16], vec![0.5], vec![]];
    use Verdict::{Equal, Higher, Lower, Undecided};
    assert_eq!(verdicts(&family, false), [Equal, Higher, Lower, Undecided, Undecided]);
    let judgements = judge(&family, false, 0.01);
    assert_eq!(
        (judgements[3].to_string(), judgements[4].to_string()),
        ("undecided: one pair".into(), "undecided: no pairs".into())
    );
    assert!(judge(&[], true, 0.01).is_empty());
}

#[test]
fn pairs_that_would_not_even_show_a_doubling_are_said_to_be_too_few() {
    let judged = &judge(&[vec![0.9, -0.4]], true, 0.01)[0];
    assert!(judged.detectable.unwrap() > 1.0, "{judged:?}");
    let more = judged.repeats_needed().unwrap();
    assert_eq!(judged.to_string(), format!("undecided: 2 pairs are too few, about {more} more would decide"));
    assert!(judged.grounds().iter().all(|line| !line.contains("would show")), "{:?}", judged.grounds());
}

/// Runs of two cells, `fp32` and `fp16`: step time, start and launch of each repeat.
fn two_cells(fp32: &[(f64, f64, &str)], fp16: &[(f64, f64, &str)]) -> Vec<RunSummary> {
    let run = |precision: &str, repeat: u32, (step_time_s, started_s, launch): (f64, f64, &str)| {
        let mut record = fixture::run(&fixture::cell(precision, 1, "single"), repeat, step_time_s);
        record.started_time_s = Some(started_s);
        record.launch = launch.to_owned();
        summarise_run(&record)
    };
    let runs_of = |precision: &'static str, repeats: &[(f64, f64, &str)]| -> Vec<RunSummary> {
        repeats.iter().zip(1..).map(|(one, repeat)| run(precision, repeat, *one)).collect()
    };
    runs_of("fp32", fp32).into_iter().chain(runs_of("fp16", fp16)).collect()
}

/// The verdict on `fp16` over `fp32` by step time.
fn verdict(runs: &[RunSummary]) -> Judgement {
    let cells = cells(runs);
    let comparison = Comparison::between(&cells[1], &cells[0], "step_time_s", true);
    judge_comparisons(&[comparison], 0, true, 0.01).remove(0)
}

/// Repeats with a little noise, `every_s` seconds apart from `from_s` on.
fn repeats(step_time_s: f64, from_s: f64, every_s: f64) -> Vec<(f64, f64, &'static str)> {
    let noise = [0.001, -0.0012, 0.0004, -0.0002, 0.0009, -0.0011];
    (0..6).map(|place| (step_time_s * (1.0 + noise[place]), from_s + every_s * place as f64, "p1")).collect()
}

#[test]
fn interleaved_cells_are_compared_and_cells_of_two_days_are_not() {
    let day_s = 86_400.0;
    let near = verdict(&two_cells(&repeats(0.1, 0.0, 60.0), &repeats(0.11, 30.0, 60.0)));
    assert_eq!((near.verdict, near.gap_s, near.looks), (Verdict::Slower, Some(30.0), 1), "{near:?}");
    // The machine was 10 % slower on the second day.
    let apart = verdict(&two_cells(&repeats(0.1, 0.0, 60.0), &repeats(0.11, day_s, 60.0)));
    assert_eq!((apart.verdict, apart.n), (Verdict::NotComparable, 0), "{apart:?}");
    assert_eq!(apart.to_string(), "not comparable: their repeats were run 24 h apart");
    let after = verdict(&two_cells(&repeats(0.1, 0.0, 60.0), &repeats(0.11, 600.0, 60.0)));
    assert_eq!(after.to_string(), "not comparable: one was run 5 min after the other");
    let right_after = Incomparable::OneAfterTheOther { gap_s: 0.2, with: Vec::new() };
    assert_eq!(right_after.to_string(), "one was run right after the other");
    assert!(after.grounds()[1].starts_with("Run both cells again in one launch"), "{:?}", after.grounds());
}

#[test]
fn of_a_cell_that_was_resumed_another_day_the_repeats_of_the_first_day_count() {
    let mut resumed = repeats(0.1, 30.0, 60.0);
    for (place, run) in resumed.iter_mut().enumerate().skip(3) {
        *run = (0.11, 86_400.0 + 60.0 * place as f64, "p2");
    }
    let judged = verdict(&two_cells(&repeats(0.1, 0.0, 60.0), &resumed));
    assert_eq!((judged.n, judged.least, judged.looks), (3, 6, 2), "{judged:?}");
    assert!(matches!(judged.verdict, Verdict::Equal | Verdict::Undecided), "{judged:?}");
}

#[test]
fn after_both_cells_ran_again_in_one_launch_only_its_interleaved_repeats_count() {
    let launched = |all: Vec<(f64, f64, &'static str)>, launch: &'static str| {
        all.into_iter().map(move |(time_s, started_s, _)| (time_s, started_s, launch))
    };
    // The machine was 10 % slower when the second cell ran alone.
    let fp32: Vec<_> =
        launched(repeats(0.1, 0.0, 60.0), "p1").chain(launched(repeats(0.1, 1_200.0, 60.0), "p3")).collect();
    let fp16: Vec<_> =
        launched(repeats(0.12, 600.0, 60.0), "p2").chain(launched(repeats(0.11, 1_230.0, 60.0), "p3")).collect();
    let alone = verdict(&two_cells(&fp32[..6], &fp16[..6]));
    assert_eq!(alone.verdict, Verdict::NotComparable, "{alone:?}");
    let again = verdict(&two_cells(&fp32, &fp16));
    assert_eq!((again.verdict, again.n, again.gap_s), (Verdict::Slower, 6, Some(30.0)), "{again:?}");
    assert!(again.grounds().iter().any(|line| line.starts_with("Left out: 6 repeats ")), "{:?}", again.grounds());
}

#[test]
fn long_runs_may_stand_far_apart_as_long_as_repeats_take() {
    // A repeat of all cells takes 16 hours.
    let every_s = 57_600.0;
    let judged = verdict(&two_cells(&repeats(0.1, 0.0, every_s), &repeats(0.11, 50_000.0, every_s)));
    assert_eq!((judged.verdict, judged.n), (Verdict::Slower, 6), "{judged:?}");
}

#[test]
fn nothing_is_decided_while_repeats_are_to_come_and_later_looks_spend_less() {
    let mut runs = two_cells(&repeats(0.1, 0.0, 60.0), &repeats(0.11, 30.0, 60.0));
    for run in runs.iter_mut().filter(|run| run.repeat > 4) {
        run.state = analysis::RunState::Queued;
    }
    let judged = verdict(&runs);
    assert_eq!((judged.verdict, judged.to_string().as_str()), (Verdict::Undecided, "undecided: 2 repeats to come"));
    let p_at = |looks| {
        let comparison = Comparison::of_logs(vec![0.1, 0.11, 0.09]).looked_at(looks);
        judge_comparisons(&[comparison], 0, true, 0.01)[0].p_holm.unwrap()
    };
    assert!((p_at(2) / p_at(1) - 5.0).abs() < 1e-9);
    // All looks together spend no more than there is.
    let all: f64 = (1..50).map(spent_at).sum();
    assert!(all <= 1.0 + 1e-12, "{all}");
}

#[test]
fn a_fast_cell_that_learns_nothing_is_named() {
    let mut runs = two_cells(&repeats(0.1, 0.0, 60.0), &repeats(0.05, 30.0, 60.0));
    for (place, run) in runs.iter_mut().filter(|run| run.cell.starts_with("fp16")).enumerate() {
        run.values.insert("accuracy".into(), 0.1 + 0.0001 * (place % 3) as f64);
        run.values.insert("test_loss".into(), 2.3);
    }
    let judged = verdict(&runs);
    assert_eq!(judged.verdict, Verdict::Faster);
    assert_eq!(judged.to_string(), "faster, but accuracy differs: 10 against 95 %");
    // Equal values are the same; values that spread are not known to be.
    let same = verdict(&two_cells(&repeats(0.1, 0.0, 60.0), &repeats(0.05, 30.0, 60.0)));
    assert_eq!(same.check, Check::Same, "{same:?}");
    let mut runs = two_cells(&repeats(0.1, 0.0, 60.0), &repeats(0.05, 30.0, 60.0));
    for (place, run) in runs.iter_mut().enumerate() {
        run.values.insert("accuracy".into(), 0.9 + 0.02 * (place % 3) as f64 * f64::from(place < 6));
    }
    let unknown = verdict(&runs);
    assert!(matches!(unknown.check, Check::Unknown { needed: Some(7..), .. }), "{:?}", unknown.check);
    assert_eq!(unknown.to_string(), "faster");
}

#[test]
fn a_diverged_loss_and_fewer_steps_are_other_work() {
    let mut runs = two_cells(&repeats(0.1, 0.0, 60.0), &repeats(0.05, 30.0, 60.0));
    for run in runs.iter_mut().filter(|run| run.cell.starts_with("fp16")) {
        run.values.remove("test_loss");
        run.marks.push(analysis::Mark::NotFinite("test_loss".into()));
    }
    let judged = verdict(&runs).to_string();
    assert!(judged.starts_with("faster, but test loss differs: no valid value in 6 repeats against"), "{judged}");
    for run in runs.iter_mut().filter(|run| run.cell.starts_with("fp16")) {
        run.values.remove("accuracy");
        run.marks.push(analysis::Mark::Impossible("accuracy".into()));
    }
    assert_eq!(verdict(&runs).to_string(), "faster, but accuracy differs: no valid value in 6 repeats against 95 %");
    let command = Some(Arc::new(Command::default()));
    let program = Arc::new(WorkloadSpec { command, ..(*runs[0].workload).clone() });
    let by_training = |steps: u64| {
        let mut runs = two_cells(&repeats(0.1, 0.0, 60.0), &repeats(0.05, 30.0, 60.0));
        for run in &mut runs {
            run.workload = Arc::clone(&program);
            let own = if run.cell.starts_with("fp16") { steps } else { 40 };
            run.training = run.training.map(|training| analysis::TrainingTime { steps: own, ..training });
        }
        let cells = cells(&runs);
        let comparison = |key| Comparison::between(&cells[1], &cells[0], key, true);
        ["training_time_s", "step_time_s"]
            .map(|key| judge_comparisons(&[comparison(key)], 0, true, 0.01)[0].to_string())
    };
    assert_eq!(by_training(40), ["faster", "faster"]);
    assert_eq!(by_training(20), ["faster, but number of steps differs: 20 against 40", "faster"]);
}

#[test]
fn work_is_checked_by_what_the_plan_names() {
    let named = |measure: &str, margin| -> Arc<[Checked]> { [Checked { measure: measure.into(), margin }].into() };
    let judged = |checked: &Arc<[Checked]>, value: f64| {
        let mut runs = two_cells(&repeats(0.1, 0.0, 60.0), &repeats(0.05, 30.0, 60.0));
        for (place, run) in runs.iter_mut().enumerate() {
            run.checked = Arc::clone(checked);
            let own = if run.cell.starts_with("fp16") { value } else { 2.0 };
            run.values.insert("val_bits".into(), own + 0.0001 * (place % 3) as f64);
            // What the plan does not name says nothing.
            run.values.insert("accuracy".into(), own / 4.0);
        }
        verdict(&runs)
    };
    let two_percent = named("val_bits", Margin::Relative(0.02));
    assert_eq!(judged(&two_percent, 2.02).check, Check::Same);
    assert_eq!(judged(&two_percent, 3.0).to_string(), "faster, but val_bits differs: 3.000 against 2.000");
    assert_eq!(judged(&named("val_bits", Margin::Absolute(1.5)), 3.0).check, Check::Same);
    assert_eq!(judged(&named("not_told", Margin::Relative(0.1)), 3.0).check, Check::None);
    assert_eq!(judged(&Arc::default(), 3.0).check.name(), "differs");
}

#[test]
fn the_tightest_of_the_margins_that_plans_name_decides_and_the_note_names_all() {
    use Margin::{Absolute, Relative};
    let judged = |base: Margin, own: Margin, q: f64| {
        let mut runs = two_cells(&repeats(0.1, 0.0, 60.0), &repeats(0.05, 30.0, 60.0));
        for (place, run) in runs.iter_mut().enumerate() {
            let is_own = run.cell.starts_with("fp16");
            let margin = if is_own { own } else { base };
            run.checked = [Checked { measure: "q".into(), margin }].into();
            let value = if is_own { q } else { 1.0 };
            run.values.insert("q".into(), value + 0.0001 * (place % 3) as f64);
        }
        (verdict(&runs).check.name(), checked_by(&cells(&runs)))
    };
    let several = |margins: &str| {
        format!("q (within {margins}: each comparison uses the tightest margin of its sessions and workloads)")
    };
    assert_eq!(judged(Relative(0.2), Relative(0.2), 0.9), ("same", "q (within 20 %)".to_owned()));
    assert_eq!(judged(Relative(0.2), Relative(0.01), 0.9), ("differs", several("20 % or 1 %")));
    assert_eq!(judged(Relative(0.01), Relative(0.2), 0.9), ("differs", several("1 % or 20 %")));
    // A share and a number are two conditions.
    let both = judged(Relative(0.2), Absolute(0.05), 0.9);
    assert_eq!(both, ("differs", "q (within 20 %), q (within 0.05)".to_owned()));
}

#[test]
fn check_values_of_different_signs_differ_by_any_relative_margin() {
    let checked: Arc<[Checked]> = [Checked { measure: "q".into(), margin: Margin::Relative(0.02) }].into();
    let judged = |q: f64, base: f64, spread: f64| {
        let mut runs = two_cells(&repeats(0.1, 0.0, 60.0), &repeats(0.05, 30.0, 60.0));
        for (place, run) in runs.iter_mut().enumerate() {
            run.checked = Arc::clone(&checked);
            let own = if run.cell.starts_with("fp16") { q } else { base };
            run.values.insert("q".into(), own + spread * [1.0, -2.0, 0.5, 1.5, -0.5, -1.0, 0.2][place % 7]);
        }
        verdict(&runs)
    };
    assert_eq!(judged(-5.0, 0.503, 0.001).to_string(), "faster, but q differs: -5.000 against 0.503");
    assert_eq!(judged(0.503, -0.503, 0.001).check.name(), "differs");
    assert_eq!(judged(0.503, 0.0, 0.0).to_string(), "faster, but q differs: 0.503 against 0");
    assert_eq!(judged(-5.0, -5.0, 0.001).check, Check::Same, "both are negative");
    assert_eq!(judged(0.0, 0.0, 0.0).check, Check::Same);
    // The signs of noise around 0 are no difference.
    assert_eq!(judged(0.0, 0.0, 1.0).check.name(), "unknown");
}

#[test]
fn values_that_are_not_above_0_have_no_verdict_by_ratios() {
    let judged = |new: f64, old: f64| {
        let mut runs = two_cells(&repeats(0.1, 0.0, 60.0), &repeats(0.1, 30.0, 60.0));
        for (place, run) in runs.iter_mut().enumerate() {
            let own = if run.cell.starts_with("fp16") { new } else { old };
            run.values.insert("train_loss".into(), own + 0.001 * (place % 3) as f64);
        }
        let cells = cells(&runs);
        let comparison = Comparison::between(&cells[1], &cells[0], "train_loss", false);
        judge_comparisons(&[comparison], 0, false, 0.01).remove(0)
    };
    for (new, old) in [(-200.0, -100.0), (1.0, -1.0), (0.0, 1.0)] {
        let judged = judged(new, old);
        assert_eq!((judged.to_string().as_str(), judged.p), ("not comparable: ratios need values above 0", None));
    }
    assert_eq!(judged(200.0, 100.0).verdict, Verdict::Higher);
}

#[test]
fn nothing_is_decided_below_the_resolution_of_a_clock() {
    // 12.4 against 12.6 ms, and 12.05 against 12.95, told in whole milliseconds.
    let coarse = |logs: [f64; 2]| {
        judge_comparisons(&[Comparison::of_logs(logs.to_vec()).rounded(1.0 / 12.0)], 0, true, 0.01).remove(0)
    };
    let differs = coarse([(12.0_f64 / 13.0).ln(); 2]);
    assert_eq!(differs.verdict, Verdict::NotComparable);
    assert!(differs.to_string().contains("the clock is too coarse: it resolves 8.3 %"), "{differs}");
    assert_eq!(coarse([0.0; 2]).verdict, Verdict::NotComparable);
    // Twice as long is seen by any clock.
    assert_eq!(coarse([2.0_f64.ln(), 2.01_f64.ln()]).verdict, Verdict::Faster);
}

#[test]
fn nothing_is_decided_below_the_step_of_values_that_a_program_rounds() {
    let command = Some(Arc::new(Command::default()));
    let judged = |key: &str, new: f64, old: f64, is_program: bool, count: usize| {
        let mut runs = two_cells(&repeats(0.1, 0.0, 60.0)[..count], &repeats(0.1, 30.0, 60.0)[..count]);
        for run in &mut runs {
            if is_program {
                run.workload = Arc::new(WorkloadSpec { command: command.clone(), ..(*run.workload).clone() });
            }
            run.values.insert(key.into(), if run.cell.starts_with("fp16") { new } else { old });
        }
        let cells = cells(&runs);
        let is_time = key.ends_with("_s");
        let comparison = Comparison::between(&cells[1], &cells[0], key, is_time);
        judge_comparisons(&[comparison], 0, is_time, 0.01).remove(0)
    };
    let seconds = "load_from_disk_s";
    let coarse = judged(seconds, 2.0, 1.0, true, 2);
    assert_eq!(coarse.to_string(), "not comparable: the values have too few digits: they resolve 75 %");
    assert_eq!(coarse.p, Some(1.0), "1.5 s can be rounded to both");
    // 1.005 against 1.025 s is a difference of 2 %.
    assert_eq!(judged(seconds, 1.02, 1.01, true, 6).reason.unwrap().name(), "coarse_values");
    // Two pairs without spread say little, and six say more.
    assert_eq!(judged(seconds, 9.0, 1.0, true, 2).verdict, Verdict::NotComparable);
    assert_eq!(judged(seconds, 9.0, 1.0, true, 6).verdict, Verdict::Slower);
    // What multicard measures, counts and bytes are exact.
    assert_eq!(judged(seconds, 2.0, 1.0, false, 2).verdict, Verdict::Slower);
    for exact in ["skipped_updates", "peak_allocated_bytes"] {
        let judged = judged(exact, 2.0, 1.0, true, 2);
        assert_eq!((judged.verdict, judged.p), (Verdict::Higher, Some(0.0)), "{exact}");
    }
}

#[test]
fn a_verdict_stands_only_where_both_clocks_give_it() {
    // Steps of 20 ms on both sides; fp16 tells 2 ms, as it does not wait for the GPU.
    let mut runs = two_cells(&repeats(0.02, 0.0, 60.0), &repeats(0.002, 30.0, 60.0));
    for run in &mut runs {
        let waits = run.cell.starts_with("fp32");
        run.clock = Some(Clock::Confirmed);
        if !waits {
            run.clock = Some(Clock::Unconfirmed(Doubt::FartherApart { told_s: 0.002, apart_s: 0.02 }));
        }
        run.values.insert("clock_ratio".into(), if waits { 1.0 } else { 0.1 });
    }
    let judged = verdict(&runs);
    assert_eq!(judged.verdict, Verdict::NotComparable);
    assert_eq!(judged.to_string(), "not comparable: 10.00× by the program's clock, 1.00× by the arrival of its lines");
    // Faster by the program's clock and slower by the arrival of its lines.
    for run in runs.iter_mut().filter(|run| run.cell.starts_with("fp16")) {
        run.values.insert("clock_ratio".into(), 0.05);
    }
    assert!(verdict(&runs).to_string().contains("10.00× by the program's clock, 0.50× by"), "{}", verdict(&runs));
    // Pauses between the steps of both change nothing.
    for run in &mut runs {
        run.values.insert("clock_ratio".into(), 0.8);
    }
    assert_eq!(verdict(&runs).verdict, Verdict::Faster);
    for run in runs.iter_mut().filter(|run| run.cell.starts_with("fp16")) {
        run.clock = Some(Clock::Impossible(Contradiction::LongerThanPassed { told_s: 9.0, passed_s: 1.0 }));
    }
    assert_eq!(verdict(&runs).to_string(), "not comparable: the program reported impossible times");
}

#[test]
fn what_multicard_times_itself_is_compared_whatever_the_programs_clock_is_like() {
    let mut runs = two_cells(&repeats(0.02, 0.0, 60.0), &repeats(0.01, 30.0, 60.0));
    for run in &mut runs {
        let step_time_s = run.value("step_time_s").unwrap();
        run.values.insert("total_time_s".into(), 1000.0 * step_time_s);
        run.told_resolution_s = Some(0.02);
    }
    let verdict_on = |runs: &[RunSummary], measure: &str| {
        let cells = cells(runs);
        let comparison = Comparison::between(&cells[1], &cells[0], measure, true);
        judge_comparisons(&[comparison], 0, true, 0.01)[0].to_string()
    };
    assert!(verdict_on(&runs, "step_time_s").contains("too coarse"), "{}", verdict_on(&runs, "step_time_s"));
    assert_eq!(verdict_on(&runs, "total_time_s"), "faster");
    for run in &mut runs {
        run.clock = Some(Clock::Impossible(Contradiction::LongerThanPassed { told_s: 9.0, passed_s: 1.0 }));
    }
    assert!(verdict_on(&runs, "step_time_s").contains("impossible times"), "{}", verdict_on(&runs, "step_time_s"));
    assert_eq!(verdict_on(&runs, "total_time_s"), "faster");
}

#[test]
fn comparisons_that_a_filter_hides_belong_to_the_family() {
    let logs = vec![0.010, 0.013, 0.016];
    let alone = judge_comparisons(&[Comparison::of_logs(logs.clone())], 0, true, 0.001);
    let among = judge_comparisons(&[Comparison::of_logs(logs)], 14, true, 0.001);
    assert_eq!((alone[0].verdict, among[0].verdict), (Verdict::Faster, Verdict::Undecided));
    assert_eq!((alone[0].family, among[0].family), (1, 15));
}

#[test]
fn what_would_show_is_shown_in_four_of_five_experiments() {
    let mut noise = fixture::Noise::new(7);
    for (repeats, family) in [(2, 1), (4, 8), (6, 8)] {
        let mut repeat = |shift: f64| -> Vec<f64> { (0..repeats).map(|_| shift + 0.01 * noise.normal()).collect() };
        let shown = (0..600).filter(|_| {
            let first = judge_comparisons(&[Comparison::of_logs(repeat(0.0))], family - 1, true, 0.0);
            let second = Comparison::of_logs(repeat(first[0].detectable.unwrap().ln_1p()));
            judge_comparisons(&[second], family - 1, true, 0.0)[0].p_holm.unwrap() < 0.05
        });
        let share = shown.count() as f64 / 600.0;
        assert!((0.75..0.85).contains(&share), "{repeats} repeats, family of {family}: {share}");
    }
}

#[path = "../../tests/bench/verdict_table.rs"]
mod verdict_table;

#[test]
fn simulated_experiments_of_known_truth_are_judged_falsely_in_six_percent_at_most() {
    for kind in verdict_table::KINDS {
        let seen = verdict_table::outcome(kind, 200, 1);
        // Four standard errors of 5 % over the one point that is allowed.
        assert!(seen.false_differences <= 6.0 + 5.0, "{}: {} %", kind.1, seen.false_differences);
        if kind.0 == verdict_table::Kind::RealDifference {
            assert!(seen.found >= 90.0, "{}: {} %", kind.1, seen.found);
        }
    }
}

#[test]
fn effects_refuse_what_clocks_do_not_confirm_or_cannot_tell() {
    let mut runs = two_cells(&repeats(0.02, 0.0, 60.0), &repeats(0.002, 30.0, 60.0));
    for run in &mut runs {
        let ratio = if run.cell.starts_with("fp32") { 1.0 } else { 0.1 };
        run.values.insert("clock_ratio".into(), ratio);
    }
    let reading = analysis::Reading {
        measure: "step_time_s",
        inverse: true,
        of_speed: true,
        equal_within: 0.01,
        intervals: Intervals::ByCount,
        others: 0,
    };
    let effect = |runs: &[RunSummary]| {
        let cells = cells(runs);
        let values = |cell: &analysis::Cell| analysis::by_repeat(cell, "step_time_s");
        analysis::effects(&cells, &values, reading).computed.remove(0).judgement.to_string()
    };
    assert!(effect(&runs).contains("10.00× by the program's clock, 1.00× by"), "{}", effect(&runs));
    for run in &mut runs {
        run.values.remove("clock_ratio");
        run.clock = Some(Clock::Impossible(Contradiction::LongerThanPassed { told_s: 9.0, passed_s: 1.0 }));
    }
    assert_eq!(effect(&runs), "not comparable: the program reported impossible times");
    for run in &mut runs {
        (run.clock, run.told_resolution_s) = (None, Some(0.02));
    }
    assert!(effect(&runs).contains("the clock is too coarse"), "{}", effect(&runs));
}

#[path = "unpaired_tests.rs"]
mod unpaired;

#[test]
fn ratios_by_two_clocks_have_as_many_digits_as_show_that_they_differ() {
    let text = |reported, arrived| Incomparable::Unconfirmed { reported, arrived }.to_string();
    assert!(text(1.004, 1.0012).starts_with("1.004× ") && text(1.004, 1.0012).ends_with(" (1.001×)"));
    assert!(text(1.5, 1.25).starts_with("1.50× ") && text(1.5, 1.5).ends_with(" (1.50×)"));
}
