//! The list of measures: what is in it, and how those of plans join it.

use super::*;
use crate::analysis::metric::COPIED;
use crate::analysis::{RunSummary, fixture, summarise_run};
use crate::protocol::TRACE_METRICS;

#[test]
fn a_run_that_had_company_has_losses_and_memory_and_no_times_for_tables() {
    let mut record = fixture::finished();
    let keys_of = |run: &RunSummary| -> Vec<Key> {
        let alone = run.measures.iter().filter(|measure| run.value_alone(measure).is_some());
        alone.map(|measure| measure.key.clone()).collect()
    };
    let alone = summarise_run(&record);
    assert!(["step_time_s", "energy_j"].iter().all(|key| keys_of(&alone).contains(&Key::from(*key))));
    record.beside = vec!["0002-b-1".to_owned()];
    let beside = summarise_run(&record);
    let gone: Vec<_> = keys_of(&alone).into_iter().filter(|key| !keys_of(&beside).contains(key)).collect();
    let speeds = [
        "step_time_s",
        "mean_step_time_s",
        "training_time_s",
        "epoch_time_s",
        "total_time_s",
        "images_per_s",
        "processed_images_per_s",
        "load_wait_s",
        "loader_start_s",
        "energy_j",
        "evaluation_time_s",
    ];
    assert_eq!(gone, speeds);
    assert_eq!(beside.value("step_time_s"), alone.value("step_time_s"), "its own page shows them");
}

#[test]
fn keys_are_unique_and_rates_are_named_after_the_units() {
    let tokens = Measures::of_units("tokens");
    let mut keys: Vec<&Key> = tokens.list.iter().chain(&tokens.metrics).map(|measure| &measure.key).collect();
    let count = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), count);
    let rate = tokens.find("tokens_per_s").unwrap();
    assert_eq!(
        (rate.name.as_str(), rate.unit.as_str(), rate.better),
        ("Throughput (distinct tokens)", "tokens/s", Better::Higher)
    );
    assert!(tokens.find("images_per_s").is_none());
    assert_eq!(tokens.find(THROUGHPUT), Some(rate));
}

#[test]
fn steps_are_called_what_the_workload_calls_them() {
    let name = |spec: &WorkloadSpec, key: &str| {
        Measures::of_workload(spec).find(key).map(|measure| (measure.key.to_string(), measure.name.clone()))
    };
    let entry = |name: &str| Some((STEP_TIME.to_owned(), name.to_owned()));
    let (images, text) = (crate::plan::image::spec(), crate::plan::llm::spec());
    assert_eq!(name(&images, STEP_TIME), entry("Step time"));
    assert_eq!(name(&text, STEP_TIME), entry("Iteration time"));
    assert_eq!(name(&text, "iteration_time_s"), entry("Iteration time"));
    assert_eq!(name(&images, "iteration_time_s"), None);
}

#[test]
fn a_measure_that_a_plan_brings_stands_last_or_takes_the_place_of_a_known_one() {
    let own = Measure { name: "Perplexity".to_owned(), ..Measure::new("perplexity") };
    let loss = Measure { name: "Loss of held-out text".to_owned(), ..measure("test_loss").unwrap().clone() };
    let measures = Measures::of_units("tokens").with([own, loss]);
    assert_eq!(measures.iter().last().unwrap().name, "Perplexity");
    assert_eq!(measures.find("test_loss").unwrap().name, "Loss of held-out text");
    assert_eq!(measures.iter().count(), Measures::built_in().iter().count() + 1);
}

#[test]
fn a_known_measure_of_the_same_unit_keeps_its_possible_values_whatever_a_plan_calls_it() {
    let known = measure("accuracy").unwrap();
    let of_unit = |unit: &str| Measures::of_units("tokens").with([Measure::named("accuracy", "Hits", unit)]);
    let (same, other) = (of_unit(&known.unit), of_unit("points"));
    let hits = same.find("accuracy").unwrap();
    assert_eq!((&*hits.name, hits.possible), ("Hits", known.possible));
    assert!(known.possible != (f64::MIN, f64::MAX) && !hits.is_possible(55.0));
    assert!(other.find("accuracy").unwrap().is_possible(55.0), "points are another measure");
}

#[test]
fn every_metric_is_a_measure_in_every_unit_under_its_own_name() {
    assert_eq!(built_in::metric_measures().len(), TRACE_METRICS.len() * MetricUnit::ALL.len() + COPIED.len());
    for kind in &TRACE_METRICS {
        for &unit in MetricUnit::ALL {
            let measure = metric_measure(kind.key, unit).unwrap();
            assert_eq!((&measure.key, &*measure.name), (&key_in(kind.key, unit), kind.name));
            let shown = if unit == MetricUnit::OfWall { Some("% of wall") } else { None };
            assert!(shown.is_none_or(|shown| shown == measure.unit), "{}", measure.unit);
        }
    }
}
