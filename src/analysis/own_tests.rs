#![allow(clippy::unwrap_used)]

use super::*;
use crate::analysis::{Mark, cells, fixture, summarise, summarise_run};
use crate::plan::{Better, DeclaredMeasure, llm};
use crate::store::RunRecord;

fn list(measures: &[(&str, &str)]) -> Vec<OwnMeasure> {
    measures.iter().map(|(key, formula)| OwnMeasure::new(key, formula)).collect()
}

fn record(repeat: u32, step_time_s: f64) -> RunRecord {
    fixture::run(&fixture::cell("fp32", 2, "ddp-ds"), repeat, step_time_s)
}

fn check_own<'a>(
    specs: impl IntoIterator<Item = &'a WorkloadSpec>,
    own: &[OwnMeasure],
    key: &str,
) -> Result<OwnOutcome, FormulaError> {
    OwnList::of(specs, own).check(key)
}

fn checked(measures: &[(&str, &str)]) -> Result<Measure, String> {
    let (key, _) = measures[0];
    let spec = &record(1, 0.1).workload;
    check_own([&**spec], &list(measures), key).map(|outcome| outcome.measure).map_err(|error| error.to_string())
}

#[test]
fn a_formula_is_computed_for_each_run_and_summarised_like_any_measure() {
    let own: Arc<[OwnMeasure]> = list(&[("per_gpu", "throughput / gpus"), ("twice", "2 * per_gpu")]).into();
    let runs: Vec<_> = [0.1, 0.2, 0.4]
        .into_iter()
        .zip(1..)
        .map(|(step_s, repeat)| summarise_run(&RunRecord { own_measures: Arc::clone(&own), ..record(repeat, step_s) }))
        .collect();
    let rates: Vec<f64> = runs.iter().map(|run| run.value("images_per_s").unwrap()).collect();
    let halves: Vec<f64> = runs.iter().map(|run| run.value("per_gpu").unwrap()).collect();
    assert_eq!(halves, rates.iter().map(|rate| rate / 2.0).collect::<Vec<_>>());
    let cells = cells(&runs);
    let measure = cells[0].measure("twice").unwrap();
    assert_eq!((&*measure.unit, measure.on_speed, &*measure.name), ("images/s", true, "Twice"));
    let twice: Vec<f64> = runs.iter().map(|run| run.value_alone(measure).unwrap()).collect();
    assert_eq!(summarise(&twice), summarise(&rates));
}

#[test]
fn a_formula_is_as_exact_as_its_parts() {
    let is_inexact = |measures: &[(&str, &str)]| checked(measures).unwrap().has_inexact_part;
    assert!(!is_inexact(&[("own", "2 * step_time_s")]) && !is_inexact(&[("own", "peak_allocated_bytes - 2 GB")]));
    assert!(is_inexact(&[("own", "step_time_s / accuracy")]));
    assert!(is_inexact(&[("own", "2 * other"), ("other", "train_loss / 2")]));
}

#[test]
fn a_formula_recurs_and_depends_on_its_order_in_the_cells_in_which_a_part_of_it_does() {
    let declared = |key: &str, cells: &[&str]| DeclaredMeasure {
        key: key.into(),
        name: key.into(),
        recurring_cells: cells.iter().map(|cell| (*cell).to_owned()).collect(),
        dependent_cells: cells.iter().map(|cell| format!("{cell} too")).collect(),
        ..DeclaredMeasure::default()
    };
    let measures = vec![declared("wall", &["c1"]), declared("score", &["c2"]), declared("free", &[])];
    let spec = WorkloadSpec { measures, ..(*record(1, 0.1).workload).clone() };
    let own = list(&[("both", "twice + score"), ("twice", "2 * wall"), ("none", "free / 2")]);
    let of_key = |key: &str| {
        let measure = check_own([&spec], &own, key).unwrap().measure;
        [measure.recurring_cells, measure.dependent_cells].map(|cells| cells.iter().cloned().collect::<Vec<_>>())
    };
    let expected: [[&[&str]; 2]; 3] = [[&["c1", "c2"], &["c1 too", "c2 too"]], [&["c1"], &["c1 too"]], [&[], &[]]];
    assert_eq!(["both", "twice", "none"].map(of_key), expected);
}

#[test]
fn units_follow_from_those_of_the_measures() {
    for (formula, unit) in [
        ("throughput / power_w", "images/J"),
        ("energy_j / training_time_s", "W"),
        ("peak_device_bytes - 2 GB", "B"),
        ("step_time_s / 1 ms", ""),
        ("accuracy * 100", ""),
        ("sqrt(step_time_s * training_time_s)", "s"),
        ("log2(peak_device_bytes / 1 B)", ""),
        ("max(step_time_s, 5 ms, load_wait_s)", "s"),
        ("sm_clock_mhz * 1 s", ""),
        ("1 / step_time_s", "1/s"),
    ] {
        assert_eq!(checked(&[("own", formula)]).unwrap().unit, unit, "{formula}");
    }
    let bytes = checked(&[("own", "peak_device_bytes / 2")]).unwrap();
    assert_eq!((&*bytes.shown_unit, bytes.shown_factor), ("GB", 1e-9));
}

#[test]
fn values_are_in_base_units_whatever_units_the_parts_have() {
    let mut record = record(1, 0.25);
    record.telemetry.load.sm_clock_mhz = Some(1500.0);
    record.own_measures = list(&[("cycles", "sm_clock_mhz * step_time_s"), ("steps", "1 min / step_time_s")]).into();
    let run = summarise_run(&record);
    let step_s = run.value("step_time_s").unwrap();
    assert_eq!(run.value("cycles"), Some(1500.0 * 1e6 * step_s));
    assert_eq!(run.value("steps"), Some(60.0 / step_s));
}

#[test]
fn wrong_formulas_are_named_with_their_parts() {
    for (measures, expected) in [
        (&[("own", "thruput / power_w")][..], "character 1: unknown measure \"thruput\"; did you mean \"throughput\"?"),
        (
            &[("own", "power_w + step_time_s")],
            "character 11: power_w has the unit W, and step_time_s has the unit s: they must have the same unit",
        ),
        (
            &[("own", "1 - (step_time_s - 1 B)")],
            "character 20: step_time_s has the unit s, and 1 B has the unit B: they must have the same unit",
        ),
        (&[("own", "max(accuracy, 1 GB)")], "character 15: accuracy has no unit, and 1 GB has the unit B"),
        (
            &[("own", "log2(step_time_s)")],
            "character 6: log2 needs a number without a unit, and step_time_s has the unit s",
        ),
        (&[("own", "own + 1")], "character 1: a formula cannot need itself: own needs own"),
        (&[("own", "b * 2"), ("b", "c"), ("c", "1 / b")], "character 1: b is needed, and its own formula is wrong"),
        (&[("b", "c"), ("c", "1 / b")], "character 1: a formula cannot need itself: b needs c needs b"),
        (&[("own", "step_time_s / (2 - 2)")], "character 15: division by zero: (2 - 2) is 0"),
        (&[("own", "step_time_s / s")], "character 15: s is a unit, which follows its number: 1 s"),
        (&[("own", "24 Gb - peak_device_bytes")], "character 1: unknown unit \"Gb\""),
        (&[("accuracy", "test_loss")], "character 1: \"accuracy\" is the key of a measure or factor already"),
    ] {
        let error = checked(measures).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn each_measure_of_a_cycle_of_formulas_names_the_cycle() {
    let own = list(&[("c", "1 / b"), ("b", "2 * a"), ("a", "c"), ("outside", "a")]);
    let error = |key: &str| check_own([&*record(1, 0.1).workload], &own, key).unwrap_err().to_string();
    assert_eq!(error("c"), "character 5: a formula cannot need itself: c needs b needs a needs c");
    assert_eq!(error("b"), "character 5: a formula cannot need itself: b needs a needs c needs b");
    assert_eq!(error("a"), "character 1: a formula cannot need itself: a needs c needs b needs a");
    assert_eq!(error("outside"), "character 1: a is needed, and its own formula is wrong");
}

/// Measures that each need the next one.
fn chain(links: usize) -> Vec<OwnMeasure> {
    let link = |number: usize| OwnMeasure::new(&format!("m{number}"), &format!("m{} + 1 s", number + 1));
    (0..links).map(link).chain([OwnMeasure::new(&format!("m{links}"), "step_time_s")]).collect()
}

#[test]
fn a_long_chain_of_measures_is_refused_by_name_and_the_rest_is_computed() {
    // Each link once took several frames of the stack: this many overflowed it.
    let (own, record) = (chain(20_000), record(1, 0.1));
    let list = OwnList::of([&*record.workload], &own);
    let error = list.check("m0").unwrap_err().to_string();
    assert!(error.starts_with("character 1: m0 needs more than 64 other measures in a row"), "{error}");
    assert!(list.check("m19935").is_err() && list.check("m19936").is_ok());
    let run = summarise_run(&RunRecord { own_measures: own.into(), ..record.clone() });
    let step_s = run.value("step_time_s").unwrap();
    assert!((run.value("m19936").unwrap() - step_s - 64.0).abs() < 1e-9);
    assert_eq!(run.value("m0"), None);
    let wrong = wrong_measures([&*record.workload], &chain(65));
    assert!(matches!(&wrong[..], [only] if only.starts_with("m0: character 1: m0 needs more than 64")), "{wrong:?}");
}

#[test]
fn a_cycle_of_very_many_measures_is_named_in_a_short_message() {
    let mut own = chain(5000);
    own[5000].formula = "m0".to_owned();
    let error = check_own([&*record(1, 0.1).workload], &own, "m3").unwrap_err().to_string();
    assert!(error.contains("m3 needs m4 needs") && error.ends_with("needs … needs m3"), "{error}");
}

#[test]
fn a_run_whose_divisor_is_0_has_no_value_and_says_why() {
    let mut record = record(1, 0.1);
    record.own_measures = list(&[("per_wait", "step_time_s / load_wait_s"), ("lacking", "1 / temperature_c")]).into();
    record.ranks.iter_mut().flat_map(|rank| &mut rank.steps).for_each(|step| step.load_wait_s = 0.0);
    let mut run = summarise_run(&record);
    let reason = "division by zero: load_wait_s is 0".to_owned();
    let mark = Mark::Undefined { measure: "per_wait".into(), reason };
    assert!(run.marks.contains(&mark), "{:?}", run.marks);
    assert_eq!((run.value("per_wait"), run.value("lacking")), (None, None));
    assert!(!run.marks.iter().any(|mark| mark.to_string().starts_with("lacking")));
    run.set_own(&list(&[("half", "step_time_s / 2")]));
    assert!(!run.marks.contains(&mark));
    assert_eq!(run.value("half"), run.value("step_time_s").map(|step_s| step_s / 2.0));
    let without = summarise_run(&RunRecord { own_measures: Arc::default(), ..record });
    run.set_own(&[]);
    assert_eq!(run, without);
}

#[test]
fn the_unit_that_is_asked_for_is_shown_and_checked() {
    let own = |unit: &str| {
        let own = OwnMeasure::new("free", "24 GB - peak_device_bytes");
        let own = OwnMeasure { unit: Some(unit.to_owned()), better: Better::Higher, ..own };
        check_own([&*record(1, 0.1).workload], &[own], "free").map(|outcome| outcome.measure)
    };
    let shown = own("MiB").unwrap();
    assert_eq!((&*shown.unit, &*shown.shown_unit, shown.shown_factor), ("B", "MiB", 1.0 / 1_048_576.0));
    assert_eq!(shown.better, Better::Higher);
    let error = own("W").unwrap_err().to_string();
    assert!(error.ends_with("the formula has the unit B, which cannot be shown in W"), "{error}");
}

#[test]
fn a_plans_measures_are_checked_for_the_workloads_that_have_what_they_name() {
    let check = |measures: &str| {
        let text = format!("version = 1\nworkload = \"llm\"\n[measures]\n{measures}\n");
        let plan = Plan::parse(&text, "p.toml").unwrap();
        check_measures(&plan, "p.toml").map_err(|error| error.to_string())
    };
    check("per_joule = \"tokens_per_s / power_w\"").unwrap();
    let error = check("per_joule = \"images_per_s / power_w\"").unwrap_err();
    assert!(
        error.starts_with("p.toml:4: measures.per_joule: character 1: unknown measure \"images_per_s\""),
        "{error}"
    );
    let own = list(&[("per_joule", "images_per_s / power_w")]);
    let specs = [&*record(1, 0.1).workload, &llm::spec()].map(Clone::clone);
    let outcome = check_own(&specs, &own, "per_joule").unwrap();
    assert_eq!((&*outcome.measure.unit, outcome.lacking.len()), ("images/J", 1));
}
