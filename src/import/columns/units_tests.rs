#![allow(clippy::unwrap_used)]

use crate::import::fixture::imported;
use crate::import::{Mapping, Results, read_bytes};

fn mapping(text: &str) -> Vec<(String, String, String)> {
    let table = read_bytes(text.as_bytes()).unwrap();
    let columns = Mapping::deduced(&table).columns.into_iter();
    columns.map(|(name, role, why)| (name, role.to_string(), why)).collect()
}

fn role(text: &str, column: &str) -> (String, String) {
    let (_, role, why) = mapping(text).into_iter().find(|(name, ..)| name == column).unwrap();
    (role, why)
}

/// The values of a measure in all runs.
fn values(results: &Results, key: &str) -> Vec<f64> {
    let values = results.runs.iter().flat_map(|run| &run.values);
    values.filter(|(own, _)| own.as_str() == key).map(|(_, value)| *value).collect()
}

fn are_near(values: &[f64], expected: &[f64]) -> bool {
    values.len() == expected.len() && values.iter().zip(expected).all(|(one, other)| (one / other - 1.0).abs() < 1e-12)
}

const GOOGLE_BENCHMARK: &str = "name,real_time,cpu_time,time_unit,items_per_second\n\
                                small,900.5,890.25,ns,1.5\nsmall,901.5,891.5,ns,1.6\nlarge,80.25,79.5,us,1.7\n";

#[test]
fn times_in_the_units_of_another_column_are_converted_row_by_row() {
    let expected = ("unit".to_owned(), "units of real_time, cpu_time".to_owned());
    assert_eq!(role(GOOGLE_BENCHMARK, "time_unit"), expected);
    let results = imported(GOOGLE_BENCHMARK, &[]).unwrap();
    assert!(are_near(&values(&results, "real_time_s"), &[900.5e-9, 901.5e-9, 80.25e-6]), "{results:?}");
    assert!(are_near(&values(&results, "cpu_time_s"), &[890.25e-9, 891.5e-9, 79.5e-6]), "{results:?}");
    assert_eq!((results.cells, results.spec.factors.len()), (2, 1), "the unit is no factor");
    let steps = results.spec.measures[0].written_steps.as_ref().unwrap();
    assert!(are_near(&[steps["c1"], steps["c2"]], &[0.1e-9, 0.01e-6]), "{steps:?}");
    let json =
        r#"[{"name": "a", "real_time": 1.5, "time_unit": "ms"}, {"name": "b", "real_time": 2.5, "time_unit": "s"}]"#;
    assert!(are_near(&values(&imported(json, &[]).unwrap(), "real_time_s"), &[1.5e-3, 2.5]));
}

#[test]
fn a_column_called_unit_has_the_units_of_the_only_measure_without_one() {
    let text = "bench,value,unit,wall (s)\na,1.5,MB,0.5\na,1.6,KiB,0.6\nb,1.7,MB,0.7\n";
    assert_eq!(role(text, "unit"), ("unit".to_owned(), "units of value".to_owned()));
    assert_eq!(role(text, "value").0, "measure lower", "as if the unit were in the name");
    assert!(are_near(&values(&imported(text, &[]).unwrap(), "value_bytes"), &[1.5e6, 1.6 * 1024.0, 1.7e6]));
    let rates = "bench,score,score unit\na,1.5,ops/ms\nb,1.6,ops/min\n";
    let results = imported(rates, &[]).unwrap();
    assert!(are_near(&values(&results, "score"), &[1500.0, 1.6 / 60.0]), "{results:?}");
    assert_eq!(&*results.spec.measures[0].unit, "ops/s");
}

#[test]
fn columns_that_are_called_unit_and_have_no_units_or_one_for_unknown_values_are_factors() {
    for text in [
        "compute_unit,time_s\nGPU,1.5\nCPU,1.6\n",
        "unit,a,b\ns,0.51,0.61\ns,0.52,0.62\n",
        "time_unit,tokens/s\nms,1.5\nms,1.6\n",
    ] {
        let name = text.split(',').next().unwrap();
        assert_eq!(role(text, name).0, "factor", "{text}");
    }
}

#[test]
fn the_user_is_asked_about_units_that_cannot_be_compared_or_belong_to_unknown_values() {
    let quantities = "bench,value,unit\na,1.5,s\nb,1.6,MB\n";
    let measures = "bench,a,b,unit\nx,0.51,0.61,s\ny,0.52,0.62,ms\n";
    for text in [quantities, measures] {
        let asked = imported(text, &[]).unwrap_err();
        assert!(asked.len() == 1 && asked[0].starts_with("column \"unit\": it has different units"), "{asked:?}");
        assert!(asked[0].contains("--set \"unit=unit\"") && asked[0].contains("--set \"unit=factor\""), "{asked:?}");
        assert_eq!(imported(text, &[("unit", "factor")]).unwrap().spec.factors.len(), 2);
        let table = read_bytes(text.as_bytes()).unwrap();
        assert!(!Mapping::deduced(&table).toml().contains("unit ="), "a printed map asks, too");
    }
    let refused = imported(quantities, &[("unit", "unit")]).unwrap_err();
    let expected =
        "line 3, column \"unit\": MB and s are units of different quantities: import their rows from separate files";
    assert_eq!(refused, [expected]);
    let results = imported(measures, &[("unit", "unit")]).unwrap();
    assert!(
        are_near(&values(&results, "a_s"), &[0.51, 0.52e-3]) && are_near(&values(&results, "b_s"), &[0.61, 0.62e-3])
    );
}

#[test]
fn a_unit_that_is_missing_unknown_or_of_no_measure_is_refused() {
    let missing = imported("name,real_time,time_unit\na,1.5,ns\nb,1.6,\n", &[]).unwrap_err();
    let expected = "line 3, column \"real_time\": the row has no unit for 1.6: add the unit, or leave the value out";
    assert_eq!(missing, [expected]);
    let unknown = imported("name,real_time,in\na,1.5,ns\nb,1.6,soon\n", &[("in", "unit")]).unwrap_err();
    assert!(unknown[0].starts_with("line 3, column \"in\": \"soon\" is no known unit"), "{unknown:?}");
    let none = imported(GOOGLE_BENCHMARK, &[("real_time", "measure ns"), ("cpu_time", "skip")]).unwrap_err();
    assert!(none[0].starts_with("column \"time_unit\": it has the units of no column"), "{none:?}");
    let both = imported("a,real_time,u,v\nx,1.5,s,s\ny,1.6,ms,s\n", &[("u", "unit"), ("v", "unit")]).unwrap_err();
    assert!(both[0].starts_with("column \"v\": another column has the units of \"real_time\", too"), "{both:?}");
}

#[test]
fn a_measure_whose_unit_is_said_keeps_it_and_the_map_says_which_column_has_units() {
    let results = imported(GOOGLE_BENCHMARK, &[("real_time", "measure s lower")]).unwrap();
    assert!(are_near(&values(&results, "real_time_s"), &[900.5, 901.5, 80.25]), "{results:?}");
    assert!(are_near(&values(&results, "cpu_time_s"), &[890.25e-9, 891.5e-9, 79.5e-6]), "{results:?}");
    let table = read_bytes(GOOGLE_BENCHMARK.as_bytes()).unwrap();
    let map = Mapping::deduced(&table).toml();
    assert!(map.contains("time_unit = \"unit\""), "{map}");
    let mut again = Mapping::deduced(&table);
    again.change(&map).unwrap();
    assert_eq!(again.toml(), map);
}
