//! Runs that are not alike because their plans say other things about what is measured: units, good values, and the warm-up.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use super::check::{check_cells, checked_by, judge_checks, merged, paired};
use super::{
    Cell, Comparison, LeftOut, Measure, Measures, RunSummary, SessionComparison, by_repeat, cells, finished, fixture,
    judge_comparisons, judge_sessions, summarise_run,
};
use crate::plan::{Better, Checked, DeclaredMeasure, Margin, OwnMeasure, WarmUp, WorkloadSpec};

/// A run whose plan declares `lat` with a unit.
fn with_unit(cell: &str, repeat: u32, unit: &str, lat: f64) -> RunSummary {
    let mut record = fixture::run(&fixture::cell(cell, 1, "single"), repeat, 0.1);
    let declared = DeclaredMeasure {
        key: "lat".into(),
        name: "lat".into(),
        unit: unit.into(),
        better: Better::Lower,
        ..DeclaredMeasure::default()
    };
    record.workload = Arc::new(WorkloadSpec { measures: vec![declared], ..(*record.workload).clone() });
    record.own_measures = vec![OwnMeasure::new("twice", "lat * 2")].into();
    record.ranks[0].readings.push(fixture::reading_record("lat", lat, None));
    summarise_run(&record)
}

/// The values of a measure in a cell, rounded to a millionth.
fn values(cell: &Cell, key: &str) -> Vec<f64> {
    by_repeat(cell, key).into_iter().map(|(_, value)| (value * 1e6).round() / 1e6).collect()
}

/// The verdict on two cells of a session.
fn verdict(runs: &[RunSummary], key: &str) -> String {
    let cells = cells(runs);
    let compared = Comparison::between(&cells[1], &cells[0], key, true);
    judge_comparisons(&[compared], 0, true, 0.01).remove(0).to_string()
}

/// The verdict on a cell in two sessions before a change and two after it.
fn verdict_between(before: [&[RunSummary]; 2], after: [&[RunSummary]; 2], key: &str) -> String {
    let [before, after] = [before, after].map(|sides| sides.map(|runs| cells(runs).remove(0)));
    let compared = SessionComparison::of(&before.each_ref()[..], &after.each_ref()[..], key, true);
    judge_sessions(&[compared], false, 0.01).remove(0).judgement.to_string()
}

/// Three repeats of a cell that a program times in this unit: 12.5 times `factor`, a little more in each repeat and in the second session.
fn session(cell: &str, unit: &str, factor: f64, nth: u32) -> Vec<RunSummary> {
    let lat = |repeat: u32| factor * (12.5 + 0.0137 * f64::from(repeat) + 0.0019 * f64::from(nth));
    (1..=3).map(|repeat| with_unit(cell, repeat, unit, lat(repeat))).collect()
}

#[test]
fn values_of_one_cell_are_in_the_unit_of_the_first_plan_and_formulas_agree_with_them() {
    let runs =
        [with_unit("fp32", 1, "ms", 12.5), with_unit("fp32", 2, "us", 12_500.0), with_unit("fp32", 3, "s", 0.025)];
    let cells = cells(&runs);
    assert_eq!((cells.len(), &*cells[0].measure("lat").unwrap().unit), (1, "ms"));
    assert_eq!(values(&cells[0], "lat"), [12.5, 12.5, 25.0]);
    assert_eq!(values(&cells[0], "twice"), [0.025, 0.025, 0.05]);
}

#[test]
fn cells_share_the_unit_of_the_first_plan_whichever_of_them_it_ran() {
    let runs = [with_unit("fp64", 1, "us", 12_500.0), with_unit("fp32", 1, "ms", 12.5)];
    let cells = cells(&runs);
    let shown: Vec<(&str, Vec<f64>)> =
        cells.iter().map(|cell| (&*cell.measure("lat").unwrap().unit, values(cell, "lat"))).collect();
    assert_eq!(shown, [("us", vec![12_500.0]), ("us", vec![12_500.0])]);
    assert!(runs.iter().all(|run| run.value("lat") == run.value_alone(run.measures.find("lat").unwrap())));
}

#[test]
fn cells_in_units_of_one_quantity_are_compared_in_one_of_them() {
    let both = |unit: &str, factor: f64| [session("fp32", "ms", 1.0, 0), session("fp16", unit, factor, 1)].concat();
    assert_eq!(verdict(&both("us", 1e3), "lat"), "equal within 1 %");
    assert!(verdict(&both("us", 1.0), "lat").starts_with("faster"), "{}", verdict(&both("us", 1.0), "lat"));
    let compared = |unit: &str, factor: f64| {
        let [first, second] = [0, 1].map(|nth| session("fp32", "ms", 1.0, nth));
        let [third, fourth] = [0, 1].map(|nth| session("fp32", unit, factor, nth));
        verdict_between([&first, &second], [&third, &fourth], "lat")
    };
    assert_eq!(compared("us", 1e3), "equal within 1 %");
    assert!(compared("us", 1.0).starts_with("higher"), "{}", compared("us", 1.0));
}

#[test]
fn units_of_different_quantities_are_refused_with_both_of_them() {
    let runs = [with_unit("fp32", 1, "ms", 12.5), with_unit("fp32", 2, "tokens", 9.0)];
    assert_eq!(values(&cells(&runs)[0], "lat"), [12.5]);
    assert_eq!(values(&cells(&runs)[0], "twice"), [0.025]);
    let reason = "not comparable: the unit of lat is ms in one and tokens in the other";
    let other = || session("fp32", "tokens", 1.0, 0);
    assert_eq!(verdict(&[other(), session("fp16", "tokens", 1.0, 1)].concat(), "lat"), "equal within 1 %");
    assert_eq!(verdict(&[session("fp32", "ms", 1.0, 0), session("fp16", "tokens", 1.0, 0)].concat(), "lat"), reason);
    let ms = [0, 1].map(|nth| session("fp32", "ms", 1.0, nth));
    assert_eq!(verdict_between([&ms[0], &ms[1]], [&other(), &other()], "lat"), reason);
}

/// Three repeats of a cell whose plan declares these values of `lat` to be good.
fn with_better(cell: &str, better: Better, nth: u32) -> Vec<RunSummary> {
    let declare = |mut run: RunSummary| {
        let own = Measure { better, ..run.measures.find("lat").unwrap().clone() };
        run.measures = Arc::new(Measures::clone(&run.measures).with([own]));
        run
    };
    session(cell, "ms", 1.0, nth).into_iter().map(declare).collect()
}

#[test]
fn a_measure_whose_good_values_are_opposite_gives_no_verdict_in_either_direction() {
    use Better::{Higher, Lower, Neither};
    let reason = "not comparable: low values of lat are declared to be good in one and high values in the other";
    let sides = |better| [0, 1].map(|nth| with_better("fp32", better, nth));
    for (before, after) in [(Lower, Higher), (Higher, Lower)] {
        let both = [with_better("fp32", before, 0), with_better("fp16", after, 1)].concat();
        assert_eq!(verdict(&both, "lat"), reason);
        assert_ne!(verdict(&both, "step_time_s"), reason, "by another measure");
        let (before, after) = (sides(before), sides(after));
        assert_eq!(verdict_between([&before[0], &before[1]], [&after[0], &after[1]], "lat"), reason);
    }
    for better in [Higher, Neither] {
        let both = [with_better("fp32", Higher, 0), with_better("fp16", better, 1)].concat();
        assert_eq!(verdict(&both, "lat"), "equal within 1 %", "{better:?} against higher");
    }
}

#[test]
fn a_measure_without_a_unit_is_in_that_of_the_others_and_a_formula_of_it_is_not() {
    let runs = [with_unit("fp32", 1, "", 12.5), with_unit("fp32", 2, "ms", 12.5)];
    let cells = cells(&runs);
    assert_eq!(values(&cells[0], "lat"), [12.5, 12.5]);
    assert_eq!(values(&cells[0], "twice"), [25.0], "a plain number and seconds");
}

#[test]
fn check_values_of_several_pairs_of_cells_and_their_margins_are_compared_in_one_unit() {
    // The cells of each plan differ by 0.2 ms.
    let plan = |unit: &str, per_ms: f64, margin_ms: f64| -> Vec<RunSummary> {
        let run = |(precision, repeat): (&str, u32)| {
            let (more, step) = if precision == "fp16" { (0.2, 0.002) } else { (0.0, 0.001) };
            let lat_ms = 12.5 + more + step * f64::from(repeat);
            let mut run = with_unit(precision, repeat, unit, lat_ms * per_ms);
            run.checked = [Checked { measure: "lat".into(), margin: Margin::Absolute(margin_ms * per_ms) }].into();
            run
        };
        ["fp32", "fp16"]
            .into_iter()
            .flat_map(|precision| (1..=3).map(move |repeat| (precision, repeat)))
            .map(run)
            .collect()
    };
    let checked = |plans: [Vec<RunSummary>; 2]| {
        let pairs = plans.each_ref().map(|runs| {
            let cells = cells(runs);
            check_cells(&cells[1], &cells[0], &paired(&cells[1], &cells[0]), "step_time_s")
        });
        judge_checks(&[&merged(&pairs)])[0].to_string()
    };
    let (in_ms, in_s) = (|margin: f64| plan("ms", 1.0, margin), |margin: f64| plan("s", 1e-3, margin));
    let same = "check values are equal within their margins";
    assert_eq!(checked([in_ms(0.5), in_s(1.0)]), same);
    assert_eq!(checked([in_s(1.0), in_ms(0.5)]), same);
    for plans in [[in_ms(1.0), in_s(0.1)], [in_ms(0.1), in_s(1.0)]] {
        assert_eq!(checked(plans), "lat differs: 12.704 against 12.502 ms");
    }
}

#[test]
fn a_margin_of_a_formula_counts_and_is_named_in_the_unit_that_the_formula_declares() {
    let own = [OwnMeasure { unit: Some("us".to_owned()), ..OwnMeasure::new("slat", "lat * 1") }];
    // The cells differ by 0.448 ms. A run's margin is in the unit of its values, which is s.
    let checked = |margins: [(f64, &str); 2]| {
        let run = |(place, (precision, lat_ms, step), repeat): (usize, (&str, f64, f64), u32)| {
            let mut run = with_unit(precision, repeat, "ms", lat_ms + step * f64::from(repeat));
            run.set_own(&own);
            let (number, unit) = margins[place];
            let margin = Margin::Absolute(number).in_base_units(unit);
            run.checked = [Checked { measure: "slat".into(), margin }].into();
            run
        };
        let sides = [(0, ("fp32", 5.0, 0.001)), (1, ("fp16", 4.55, 0.002))];
        let repeats = sides.into_iter().flat_map(|(place, side)| (1..=3).map(move |repeat| (place, side, repeat)));
        let runs: Vec<RunSummary> = repeats.map(run).collect();
        let cells = cells(&runs);
        let pairs = check_cells(&cells[1], &cells[0], &paired(&cells[1], &cells[0]), "step_time_s");
        (judge_checks(&[&pairs])[0].to_string(), checked_by(&cells))
    };
    let (differs, same) = ("slat differs: 4554.000 against 5002.000 us", "check values are equal within their margins");
    let found = checked([(100.0, "us"); 2]);
    assert_eq!((found.0.as_str(), found.1.as_str()), (differs, "slat (within 100 us)"));
    let found = checked([(500.0, "us"); 2]);
    assert_eq!((found.0.as_str(), found.1.as_str()), (same, "slat (within 500 us)"));
    // Plans that give the margin in other units of time: the tightest one counts.
    let (judged, note) = checked([(500.0, "us"), (0.1, "ms")]);
    assert_eq!(judged, differs);
    assert!(note.starts_with("slat (within 500 us or 100 us: each comparison uses the tightest margin"), "{note}");
}

#[test]
fn the_note_on_checks_gives_margins_with_the_unit_of_the_values_that_it_stands_beside() {
    let note = |measure: &str, unit: &str, margin: Margin| {
        let mut run = with_unit("fp32", 1, unit, 12.5);
        run.checked = [Checked { measure: measure.into(), margin }].into();
        checked_by(&cells(&[run]))
    };
    for (measure, unit, margin, expected) in [
        ("lat", "ms", Margin::Absolute(0.5), "lat (within 0.5 ms)"),
        ("lat", "", Margin::Absolute(0.5), "lat (within 0.5)"),
        ("lat", "ms", Margin::Relative(0.02), "lat (within 2 %)"),
        // 2 % would be a share of the value.
        ("lat", "%", Margin::Absolute(2.0), "lat (within 2 points)"),
        ("accuracy", "ms", Margin::Absolute(0.01), "accuracy (within 1 point)"),
        ("accuracy", "ms", Margin::Absolute(0.005), "accuracy (within 0.5 points)"),
        ("peak_device_bytes", "ms", Margin::Absolute(5e8), "peak_device_bytes (within 0.5 GB)"),
    ] {
        assert_eq!(note(measure, unit, margin), expected);
    }
}

#[test]
fn units_are_converted_within_a_quantity() {
    let factor = |own: &str, other: &str| {
        let [own, other] = [own, other].map(|unit| Measure { unit: unit.to_owned(), ..Measure::new("own") });
        own.factor_to(&other).map(|factor| (factor * 1e6).round() / 1e6)
    };
    for (own, other, expected) in [
        ("ms", "s", Some(0.001)),
        ("h", "min", Some(60.0)),
        ("MiB", "B", Some(1_048_576.0)),
        ("GB/s", "MB/s", Some(1000.0)),
        ("tokens/s", "token/s", Some(1.0)),
        ("%", "1", Some(0.01)),
        ("ms", "MB", None),
        ("tokens/s", "rows/s", None),
        ("points", "%", None),
        ("", "ms", Some(1.0)),
    ] {
        assert_eq!(factor(own, other), expected, "{own} to {other}");
    }
}

/// Three repeats of a cell, from one number on; their plan leaves out the given number of steps. Steps of fp16 take a little longer.
fn with_warm_up(precision: &str, first: u32, steps: u64) -> Vec<RunSummary> {
    let step_s = if precision == "fp16" { 0.1002 } else { 0.1 };
    let run = |repeat: u32| {
        let cell = fixture::cell(precision, 1, "single");
        let mut record = fixture::run(&cell, repeat, step_s * (1.0 + 0.001 * f64::from(repeat)));
        record.warm_up = Some(WarmUp::Steps(steps));
        record.ranks[0].steps.iter_mut().for_each(|step| step.warm_up = step.step <= steps);
        summarise_run(&record)
    };
    (first..first + 3).map(run).collect()
}

#[test]
fn runs_that_leave_out_other_warm_ups_are_not_compared_by_their_steps() {
    let other = "not comparable: their warm-ups differ: 0 and 6 steps";
    let runs = [with_warm_up("fp32", 1, 0), with_warm_up("fp16", 1, 6)].concat();
    for key in ["step_time_s", "training_time_s", "images_per_s", "throughput"] {
        assert_eq!(verdict(&runs, key), other, "{key}");
    }
    for key in ["total_time_s", "train_loss", "peak_allocated_bytes"] {
        assert!(!verdict(&runs, key).contains("warm-ups"), "{key}: {}", verdict(&runs, key));
    }
    let same = [with_warm_up("fp32", 1, 6), with_warm_up("fp16", 1, 6)].concat();
    assert_eq!(verdict(&same, "step_time_s"), "equal within 1 %");
    let sides = |steps: u64| [1, 4].map(|first| with_warm_up("fp32", first, steps));
    let (early, late) = (sides(0), sides(6));
    assert_eq!(verdict_between([&early[0], &early[1]], [&late[0], &late[1]], "step_time_s"), other);
    assert!(!verdict_between([&early[0], &early[1]], [&early[1], &early[0]], "step_time_s").contains("warm-ups"));
}

#[test]
fn repeats_are_compared_with_partners_that_leave_out_as_many_steps() {
    let of_cell = |precision: &str| [with_warm_up(precision, 1, 0), with_warm_up(precision, 4, 6)].concat();
    let runs = [of_cell("fp32"), of_cell("fp16")].concat();
    assert_eq!(verdict(&runs, "step_time_s"), "equal within 1 %");
    let cells = cells(&runs);
    assert_eq!(LeftOut::differing(finished(&cells[0]).filter_map(|run| run.warm_up)), Some([0, 6]));
}

#[test]
fn a_formula_of_steady_steps_is_of_them_too() {
    let mut runs = [with_warm_up("fp32", 1, 0), with_warm_up("fp16", 1, 6)].concat();
    let own = [OwnMeasure::new("steps_per_hour", "1 h / step_time_s"), OwnMeasure::new("half", "total_time_s / 2")];
    runs.iter_mut().for_each(|run| run.set_own(&own));
    assert!(verdict(&runs, "steps_per_hour").contains("warm-ups"));
    assert!(!verdict(&runs, "half").contains("warm-ups"));
}
