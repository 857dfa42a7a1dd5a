//! Verdicts on rows of files that form no pairs.

use std::collections::BTreeSet;

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::*;

/// Runs of two cells from a file that numbers no repeats: the times of its rows.
fn rows(fp32: &[f64], fp16: &[f64]) -> Vec<RunSummary> {
    let [fp32, fp16] = [fp32, fp16].map(|times| times.iter().map(|time_s| (*time_s, 0.0, "p1")).collect::<Vec<_>>());
    let mut runs = two_cells(&fp32, &fp16);
    runs.iter_mut().for_each(|run| run.counts_rows = true);
    runs
}

#[test]
fn rows_that_were_sorted_by_their_values_give_no_false_verdicts() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    // Nearly normal.
    let mut noise = || (0..12).map(|_| f64::from(random.next_u32()) / 4_294_967_296.0).sum::<f64>() - 6.0;
    let mut runs = rows(&[1.0; 10], &[1.0; 10]);
    let mut false_verdicts = 0;
    for _ in 0..400 {
        for cell in runs.chunks_mut(10) {
            let mut times: Vec<f64> = (0..10).map(|_| 1.0 + 0.05 * noise()).collect();
            times.sort_by(f64::total_cmp);
            for (run, time_s) in cell.iter_mut().zip(times) {
                run.values.insert("step_time_s".into(), time_s);
            }
        }
        false_verdicts += usize::from(verdict(&runs).verdict.is_difference());
    }
    // 4 % are expected. Paired by their places, more than 30 % of such rows differ.
    assert!(false_verdicts < 30, "{false_verdicts} of 400");
}

#[test]
fn rows_that_form_no_pairs_all_count_and_numbers_in_the_order_of_starts_make_pairs() {
    let times = [1.0, 1.02, 1.05, 1.09];
    let shifted = |factor: f64| times.map(|time_s| time_s * factor);
    let judged = verdict(&rows(&times, &shifted(1.02)));
    assert_eq!((judged.verdict, judged.n, judged.counts), (Verdict::Undecided, 4, REPEAT), "{judged:?}");
    assert!(judged.to_string().starts_with("undecided: with the spread of 4 repeats only"), "{judged}");
    assert_eq!(judged.repeats_needed(), None);
    let judged = verdict(&rows(&times, &[shifted(0.5), shifted(0.51)].concat()));
    assert_eq!((judged.verdict, judged.n), (Verdict::Faster, 4), "{judged:?}");
    assert_eq!(verdict(&rows(&[1.0], &times)).to_string(), "undecided: one repeat is too few");
    let mut started = rows(&times, &shifted(1.02));
    for run in &mut started {
        run.started_s = Some(60.0 * f64::from(run.repeat));
    }
    let judged = verdict(&started);
    assert_eq!((judged.verdict, judged.n, judged.counts), (Verdict::Slower, 4, PAIR), "{judged:?}");
}

#[test]
fn the_work_of_rows_that_form_no_pairs_is_checked_without_pairs() {
    let times = [1.0, 1.02, 1.05, 1.09];
    let checked = |counts_rows: bool| {
        let mut runs = rows(&times, &times.map(|time_s| time_s / 2.0));
        for run in &mut runs {
            run.counts_rows = counts_rows;
            let shift = if run.cell.starts_with("fp16") { 0.011 } else { 0.0 };
            run.values.insert("accuracy".into(), 0.9 + 0.01 * f64::from(run.repeat) + shift);
            run.values.retain(|key, _| !key.ends_with("_loss"));
        }
        verdict(&runs).check
    };
    assert_eq!(checked(false).name(), "differs");
    assert!(matches!(checked(true), Check::Unknown { needed: Some(5..), .. }), "{:?}", checked(true));
}

/// The verdict on rows in which a program gave these values of a measure.
fn verdict_on(key: &str, fp16: &[f64], fp32: &[f64]) -> Judgement {
    let mut runs = rows(&vec![1.0; fp32.len()], &vec![1.0; fp16.len()]);
    let command = Some(Arc::new(Command::default()));
    for (run, value) in runs.iter_mut().zip(fp32.iter().chain(fp16)) {
        run.workload = Arc::new(WorkloadSpec { command: command.clone(), ..(*run.workload).clone() });
        run.values.insert(key.into(), *value);
    }
    let cells = cells(&runs);
    let is_time = key.ends_with("_s");
    judge_comparisons(&[Comparison::between(&cells[1], &cells[0], key, is_time)], 0, is_time, 0.01).remove(0)
}

#[test]
fn rows_of_rounded_values_have_no_verdict_below_their_step() {
    let judged =
        |fp16: f64, fp32: f64, count: usize| verdict_on("load_from_disk_s", &vec![fp16; count], &vec![fp32; count]);
    let coarse = judged(2.0, 1.0, 2);
    assert_eq!(coarse.to_string(), "not comparable: the values have too few digits: they resolve 75 %");
    assert!(coarse.p.is_some_and(|p| p > 0.99), "1.5 s can be rounded to both: {coarse:?}");
    assert_eq!(judged(1.02, 1.01, 6).reason.unwrap().name(), "coarse_values");
    // Two rows without spread say little, and six say more.
    assert_eq!(judged(3.0, 1.0, 2).verdict, Verdict::NotComparable);
    assert_eq!(judged(9.0, 1.0, 6).verdict, Verdict::Slower);
    assert_eq!(judged(1.012_345_678, 1.0, 6).verdict, Verdict::Slower, "no step is known of so many digits");
}

#[test]
fn cells_of_different_sessions_of_one_file_are_not_comparable() {
    let mut runs = rows(&[1.001_234, 1.012_345, 1.023_456, 1.031_234], &[2.001_234, 2.012_345, 2.023_456, 2.034_567]);
    let mut judged = |session: &dyn Fn(usize) -> &'static str| {
        for (place, run) in runs.iter_mut().enumerate() {
            let mut environment = analysis::Environment::default();
            environment.set(analysis::IMPORTED_FROM, Some(format!("nights.csv (CSV){}", session(place))));
            run.environment = Some(Arc::new(environment));
        }
        verdict(&runs)
    };
    assert_eq!(judged(&|_| ", n1").verdict, Verdict::Slower);
    let apart = judged(&|place| if place < 4 { ", n1" } else { ", n2" });
    assert!(apart.to_string().starts_with("not comparable: measured in different sessions"), "{apart}");
    assert_eq!(apart.reason.unwrap().name(), "sessions");
    assert_eq!(judged(&|_| "").verdict, Verdict::Slower, "no column names sessions");
}

#[test]
fn cells_whose_rows_recur_have_no_verdict() {
    let mut runs = rows(&[1.0, 1.0, 1.02, 1.02], &[2.0, 2.01, 2.02, 2.03]);
    assert_eq!(verdict(&runs).verdict, Verdict::Slower);
    runs[0].marks.push(analysis::Mark::Recurring);
    let judged = verdict(&runs);
    assert_eq!(judged.to_string(), "not comparable: rows of the file recur with all their digits");
    assert_eq!(judged.reason.unwrap().name(), "recurring_rows");
}

/// Notes the cells of these runs in a measure.
fn note_cells(runs: &mut [RunSummary], key: &str, note: fn(&mut analysis::Measure, Arc<BTreeSet<String>>)) {
    for run in runs {
        let mut measure = run.measures.find(key).unwrap().clone();
        note(&mut measure, Arc::new(BTreeSet::from([run.cell.clone()])));
        run.measures = Arc::new(analysis::Measures::clone(&run.measures).with([measure]));
    }
}

/// Notes that values of a measure recur in the cells of these runs.
fn let_recur(runs: &mut [RunSummary], key: &str) {
    note_cells(runs, key, |measure, cells| measure.recurring_cells = cells);
}

#[test]
fn measures_whose_successive_values_depend_on_each_other_have_no_verdict() {
    let mut runs = rows(&[1.0, 1.01, 1.02, 1.02], &[2.0, 2.01, 2.02, 2.03]);
    note_cells(&mut runs[..1], "step_time_s", |measure, cells| measure.dependent_cells = cells);
    let judged = verdict(&runs);
    let expected = "not comparable: successive values of this measure depend on each other in the file";
    assert_eq!((judged.to_string().as_str(), judged.reason.unwrap().name()), (expected, "dependent_values"));
}

#[test]
fn measures_whose_values_recur_have_no_verdict_and_others_keep_theirs() {
    let mut runs = rows(&[1.0, 1.0, 1.02, 1.02], &[2.0, 2.01, 2.02, 2.03]);
    let_recur(&mut runs[..1], "train_loss");
    assert_eq!(verdict(&runs).verdict, Verdict::Slower);
    let_recur(&mut runs[..1], "step_time_s");
    let judged = verdict(&runs);
    let expected = "not comparable: values of this measure recur in the file with all their digits";
    assert_eq!((judged.to_string().as_str(), judged.reason.unwrap().name()), (expected, "recurring_values"));
}

#[test]
fn check_values_that_recur_count_once() {
    let checked = |recur: bool| {
        let mut runs = rows(&[1.0; 10], &[0.5; 10]);
        for (place, run) in runs.iter_mut().enumerate() {
            let shift = if place < 10 { 0.0 } else { 0.03 };
            run.values.insert("accuracy".into(), 0.9 + shift + 0.02 * (place % 2) as f64);
            run.values.retain(|key, _| !key.ends_with("_loss"));
        }
        if recur {
            let_recur(&mut runs, "accuracy");
        }
        verdict(&runs).check.name()
    };
    assert_eq!((checked(false), checked(true)), ("differs", "unknown"));
}

#[test]
fn rows_with_values_that_are_not_above_0_have_no_verdict_by_ratios() {
    for (fp16, fp32) in [([-200.0, -201.0], [-100.0, -101.0]), ([1.0, 2.0], [-1.0, 2.0]), ([0.0, 0.1], [1.0, 2.0])] {
        let judged = verdict_on("train_loss", &fp16, &fp32);
        assert_eq!((judged.to_string().as_str(), judged.p), ("not comparable: ratios need values above 0", None));
        assert_eq!((judged.counts, judged.least), (REPEAT, 2));
    }
}

#[test]
fn check_values_of_rows_need_neither_logarithms_nor_valid_values() {
    let checked: Arc<[Checked]> = [Checked { measure: "q".into(), margin: Margin::Relative(0.02) }].into();
    let judged = |q: f64, base: f64, spread: f64, lost: [usize; 2]| {
        let times = [1.0, 1.02, 1.05, 1.09, 1.0, 1.03];
        let mut runs = rows(&times, &times.map(|time_s| time_s / 2.0));
        for (place, run) in runs.iter_mut().enumerate() {
            run.checked = Arc::clone(&checked);
            let (own, lost) = if run.cell.starts_with("fp16") { (q, lost[0]) } else { (base, lost[1]) };
            if place % 6 < lost {
                run.marks.push(analysis::Mark::Impossible("q".into()));
            } else {
                run.values.insert("q".into(), own + spread * [1.0, -2.0, 0.5, 1.5, -0.5, -1.0, 0.2][place % 7]);
            }
        }
        verdict(&runs)
    };
    let on = |q: f64, base: f64, spread: f64| judged(q, base, spread, [0, 0]);
    assert_eq!(on(-5.0, 0.503, 0.001).to_string(), "faster, but q differs: -5.000 against 0.503");
    assert_eq!(on(0.503, -0.503, 0.001).check.name(), "differs");
    assert_eq!(on(0.503, 0.0, 0.0).to_string(), "faster, but q differs: 0.503 against 0");
    assert_eq!(on(-5.0, -5.0, 0.001).check, Check::Same, "both are negative");
    assert_eq!(on(0.0, 0.0, 0.0).check, Check::Same);
    assert_eq!(on(0.0, 0.0, 1.0).check.name(), "unknown");
    let lost = |lost: [usize; 2]| judged(0.503, 0.503, 0.0, lost);
    assert_eq!(lost([6, 0]).to_string(), "faster, but q differs: no valid value in 6 repeats against 0.503");
    assert_eq!(lost([0, 1]).to_string(), "faster, but q differs: 0.503 against no valid value in 1 repeat");
    assert_eq!([lost([1, 2]).check, lost([6, 6]).check, lost([6, 1]).check], [Check::Same, Check::None, Check::None]);
}
