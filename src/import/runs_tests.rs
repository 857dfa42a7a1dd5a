#![allow(clippy::unwrap_used)]

use super::*;
use crate::analysis::Measures;
use crate::import::fixture::imported;
use crate::import::read_bytes;
use crate::plan::{Better, DeclaredMeasure};

#[test]
fn rows_become_repeats_of_cells_with_values_in_base_units() {
    let results = imported("kernel,threads,wall (ms)\na,1,1.5\na,1,1.7\nb,2,2\n", &[]).unwrap();
    let runs: Vec<(&str, String, u32, f64)> =
        results.runs.iter().map(|run| (run.run.as_str(), json(&run.levels), run.repeat, run.values[0].1)).collect();
    assert_eq!(results.cells, 2);
    assert_eq!(runs[0], ("c1-r1", r#"{"kernel":"a","threads":1}"#.to_owned(), 1, 0.0015));
    assert_eq!((runs[1].0, runs[1].2, runs[2].0), ("c1-r2", 2, "c2-r1"));
    let declared = &results.spec.measures[0];
    assert_eq!((&*declared.key, &*declared.name, &*declared.unit, declared.on_speed), ("wall_s", "Wall", "s", true));
    assert_eq!(results.having(), BTreeMap::from([("wall_s", 3)]));
}

#[test]
fn factors_keep_the_names_of_settings_that_factors_may_have_and_the_user_is_told_of_other_names() {
    let results =
        imported("mode,trace,data,cell,runs,mode (GB)\nfull,off,a,lstm,b,1.5\nhalf,on,a,gru,b,2.5\n", &[]).unwrap();
    let keys: Vec<&str> = results.spec.factors.iter().map(|factor| &*factor.key).collect();
    assert_eq!(keys, ["mode", "trace", "data", "cell", "runs_"]);
    let told: Vec<String> = results.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "column \"runs\": its factor is called runs_, also in filters: runs is the name of a setting or of a column of tables"
        ]
    );
    assert!(
        imported("a,mode\nx,1.5\n", &[("mode", "measure")]).is_ok_and(|found| found.having().contains_key("mode_"))
    );
    let taken = imported("a,b\nx,1.5\n", &[("b", "measure as mode")]).unwrap_err();
    assert!(taken[0].contains("mode is the name of a setting"), "{taken:?}");
}

#[test]
fn rates_per_other_times_become_rates_per_second() {
    for (name, expected) in [
        ("ops/ms", ("ops", "ops/s", 5125.0)),
        ("rate (req/us)", ("rate", "req/s", 5_125_000.0)),
        ("steps_per_min", ("steps", "steps/s", 5.125 / 60.0)),
        ("tokens_per_s", ("tokens_per_s", "tokens/s", 5.125)),
        ("tok_s", ("tok_per_s", "tok/s", 5.125)),
    ] {
        let results = imported(&format!("v,{name}\na,5.125\na,6.5\n"), &[]).unwrap();
        let declared = &results.spec.measures[0];
        let (key, unit, value) = expected;
        assert_eq!((&*declared.key, &*declared.unit, declared.on_speed), (key, unit, true), "{name}");
        assert!((results.runs[0].values[0].1 / value - 1.0).abs() < 1e-12, "{name}");
    }
}

#[test]
fn amounts_per_energy_keep_their_unit_and_have_a_key_beside_that_of_the_amount() {
    let results = imported("v,GFLOPS,GFLOPS/W,tokens_per_j\na,5.5,5.125,2.5\na,6.5,6.5,3.5\n", &[]).unwrap();
    let of_measure = |measure: &DeclaredMeasure| (measure.key.to_string(), measure.unit.to_string(), measure.better);
    let found: Vec<_> = results.spec.measures.iter().map(of_measure).collect();
    let expected = [
        ("gflops", "", Better::Neither),
        ("gflops_per_w", "GFLOPS/W", Better::Higher),
        ("tokens_per_j", "tokens/J", Better::Higher),
    ];
    assert_eq!(found, expected.map(|(key, unit, better)| (key.to_owned(), unit.to_owned(), better)));
    assert_eq!(results.runs[0].values[1].1, 5.125);
}

#[test]
fn seconds_that_are_not_better_if_low_are_no_times_of_which_half_is_twice_as_fast() {
    let is_time = |text: &str| {
        let results = imported(text, &[]).unwrap();
        let measures = Measures::of_workload(&results.spec);
        let measure = measures.find(&results.runs[0].values[0].0).unwrap();
        (measure.is_time(), measure.is_speed())
    };
    assert_eq!(is_time("a,wall_s\nx,1.5\ny,2.5\n"), (true, true));
    assert_eq!(is_time("a,uptime_s\nx,1.5\ny,2.5\n"), (false, false));
    assert_eq!(is_time("a,errors/s\nx,1.5\ny,2.5\n"), (false, false));
}

#[test]
fn wrong_values_are_named_with_their_lines_and_columns() {
    let text = "kernel,time_s\na,1\na,NaN\nb,oops\n,2\nb,\"1,5\"\nb,-1\nb,\n";
    let expected = [
        "line 3, column \"time_s\": NaN is no number that can be summarised: leave the value or the row out",
        "line 4, column \"time_s\": \"oops\" where a number is expected: correct it, or let the column be a factor or skip",
        "line 5, column \"kernel\": it has no value, and each run needs a level of each factor",
        "line 6, column \"time_s\": \"1,5\" where a number is expected: write decimals with a point",
        "line 7, column \"time_s\": -1 is impossible for time: check the unit of the column",
        "line 8: it has no value of a measure: leave the row out",
    ];
    assert_eq!(imported(text, &[]).unwrap_err(), expected);
}

#[test]
fn decimal_commas_durations_and_units_beside_numbers_are_named_with_what_to_write() {
    let commas = imported("name;time (ms)\na;1,5\nb;1,7\n", &[]).unwrap_err();
    let expected = "line 2, column \"time (ms)\": \"1,5\" where a number is expected: write decimals with a point";
    assert_eq!((commas.len(), commas[0].as_str()), (2, expected));
    let durations = imported("name,time_s\na,0:01:30\n", &[]).unwrap_err();
    assert!(
        durations[0].contains("\"0:01:30\" where a number is expected: write durations as numbers"),
        "{durations:?}"
    );
    let beside = imported("name,took\na,12ms\nb,13ms\n", &[]).unwrap_err();
    let expected = "line 2, column \"took\": no column is a measure, and \"12ms\" is no number: write the number alone";
    assert!(beside.len() == 1 && beside[0].starts_with(expected), "{beside:?}");
    let none = imported("name,took\na,long\n", &[]).unwrap_err();
    assert!(none[0].starts_with("no column is a measure: say which one is"), "{none:?}");
}

#[test]
fn a_mapping_that_does_not_fit_is_refused() {
    let text = "a,b,run\n1,2,1\n1,3,2\n1,4,2\n";
    let none = imported(text, &[("b", "factor")]).unwrap_err();
    assert!(none[0].starts_with("no column is a measure"), "{none:?}");
    let twice = imported("a,b,run\n1,2,1\n1,4,1\n", &[("b", "measure s")]).unwrap_err();
    assert!(twice[0].starts_with("line 3, column \"run\": repeat 1 of this cell is in line 2, too"), "{twice:?}");
    let same = imported("a,b\n1,2\n", &[("a", "measure s as x"), ("b", "measure s as x")]).unwrap_err();
    assert!(same[0].starts_with("two columns have the key x"), "{same:?}");
    let unit = imported("a,b\n1,2\n", &[("b", "measure GB as step_time_s")]).unwrap_err();
    assert!(
        unit[0].starts_with("column \"b\": step_time_s is the measure \"Step time\" (s), and GB is no such unit"),
        "{unit:?}"
    );
    for (role, text) in [("factor as machine", "a,time_s\n1,2\n"), ("measure s as cell", "a,time_s\n1.5,2\n")] {
        let key = role.rsplit(' ').next().unwrap();
        let taken = imported(text, &[("a", role)]).unwrap_err();
        assert_eq!(
            taken,
            [format!(
                "column \"a\": {key} is the name of a setting or of a column of tables: give another key with \"… as KEY\""
            )]
        );
    }
    let when = imported("a,time_s,at\n1,2,2026-11-26\n1,3,soon\n", &[("at", "started")]).unwrap_err();
    assert!(
        when[0].starts_with("line 3, column \"at\": \"soon\" is no time from 1990 to 2099: write 2026-11-26"),
        "{when:?}"
    );
}

#[test]
fn a_log_that_was_appended_to_itself_is_refused_and_marked_if_its_repeats_are_numbered() {
    let row = |place: u32| format!("{},1.{:05}", ["a", "b"][place as usize % 2], place * place * 977 % 10_007);
    let log = |numbered: bool| -> String {
        let last = |place: u32| if numbered { place.to_string() } else { "mine".to_owned() };
        let header = if numbered { "algo,time_s,repeat\n" } else { "algo,time_s,host\n" };
        header.to_owned() + &(0..40).map(|place| format!("{},{}\n", row(place % 20), last(place))).collect::<String>()
    };
    let refused = imported(&log(false), &[]).unwrap_err();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].starts_with("line 22: line 2 to line 21 recur here"), "{refused:?}");
    let marked = imported(&log(true), &[]).unwrap();
    assert_eq!((marked.runs.len(), marked.spec.recurring_cells.len()), (40, 2));
}

#[test]
fn cells_with_rows_that_recur_are_imported_and_named_and_each_day_is_looked_at_alone() {
    let text = "algo,time_s\na,1.001234\na,1.001234\na,1.045678\na,1.045678\nb,1.011111\nb,1.022222\n";
    let results = imported(text, &[]).unwrap();
    assert_eq!(results.spec.recurring_cells.iter().collect::<Vec<_>>(), ["c1"]);
    let expected =
        "line 3: an earlier row of its cell has the same measured values, digit for digit (2 such rows in 1 cell)";
    assert!(results.warnings.len() == 1 && results.warnings[0].to_string().starts_with(expected), "{results:?}");
    let days = "algo,time_s,date\na,1.001234,2026-11-25\na,1.001234,2026-11-26\na,1.045678,2026-11-25\n\
                a,1.045678,2026-11-26\n";
    let results = imported(days, &[]).unwrap();
    assert!(results.warnings.is_empty() && results.spec.recurring_cells.is_empty(), "{results:?}");
}

/// Two cells of five runs, each of which gives its time to two rows with losses of their own.
fn joined() -> String {
    let row = |row: u32| {
        let (cell, run) = (["a", "b"][row as usize / 10], row / 2);
        format!("{cell},1.0{:05},0.{:06}\n", (run * run * 7919 + run * 331) % 99_991, row * row * 104_729 % 999_983)
    };
    format!("algo,time_s,loss\n{}", (0..20).map(row).collect::<String>())
}

#[test]
fn values_of_one_run_in_several_rows_are_noted_for_their_measure_alone() {
    let results = imported(&joined(), &[]).unwrap();
    assert!(results.spec.recurring_cells.is_empty() && results.spec.declared_cells.is_empty());
    let recurring = |place: usize| results.spec.measures[place].recurring_cells.iter().collect::<Vec<_>>();
    assert_eq!(recurring(0), ["c1", "c2"]);
    assert!(recurring(1).is_empty());
    let expected = "line 3, column \"time_s\": an earlier row of its cell has the same value, digit for digit (10 such rows in 2 cells)";
    let warnings: Vec<String> = results.warnings.iter().map(ToString::to_string).collect();
    assert!(warnings.len() == 1 && warnings[0].starts_with(expected), "{warnings:?}");
    assert!(warnings[0].ends_with("if each row is a run of its own, add --rows-are-runs"), "{warnings:?}");
    assert!(results.recurs());
}

#[test]
fn the_drift_of_a_machine_is_noted_for_its_measure_unless_the_cells_take_turns_or_their_repeats_are_numbered() {
    let value = |place: u32| f64::from(place / 2) + f64::from((977 * place * place).wrapping_mul(2_654_435_761) >> 28);
    let row = |place: u32| format!("{},{},{}\n", ["a", "b"][place as usize % 2], value(place), place / 2 + 1);
    let turns: String = (0..60).map(row).collect();
    let blocks: String = (0..60).step_by(2).chain((1..60).step_by(2)).map(row).collect();
    let drifting = imported(&format!("algo,time_s,note\n{blocks}"), &[("note", "skip")]).unwrap();
    assert_eq!(drifting.spec.measures[0].dependent_cells.iter().collect::<Vec<_>>(), ["c1", "c2"]);
    assert!(drifting.recurs() && drifting.warnings.len() == 1, "{:?}", drifting.warnings);
    let sets: &[(&str, &str)] = &[("note", "skip")];
    for (third, rows, sets) in [("repeat", &blocks, &[][..]), ("note", &turns, sets)] {
        let in_rounds = imported(&format!("algo,time_s,{third}\n{rows}"), sets).unwrap();
        assert!(!in_rounds.recurs() && in_rounds.warnings.is_empty(), "{third}: {:?}", in_rounds.warnings);
    }
}

#[test]
fn cells_whose_rows_are_declared_to_be_runs_are_noted_apart_from_those_without_a_verdict() {
    for text in [joined(), "algo,time_s\na,1.001234\na,1.001234\na,1.045678\nb,1.5\n".to_owned()] {
        let table = read_bytes(text.as_bytes()).unwrap();
        let mut mapping = Mapping::deduced(&table);
        mapping.change("rows = \"runs\"").unwrap();
        let Results { spec, warnings, .. } = results(&table, &mapping, "f.csv").unwrap();
        assert!(spec.recurring_cells.is_empty() && spec.measures.iter().all(|one| one.recurring_cells.is_empty()));
        assert!(spec.declared_cells.contains("c1"), "{spec:?}");
        let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        assert!(
            warnings.len() == 1 && warnings[0].contains("each row counts as a run of its own, as you say"),
            "{warnings:?}"
        );
    }
    assert!(!imported("algo,time_s\na,1.5\na,1.6\n", &[]).unwrap().recurs());
}

#[test]
fn repeats_from_zero_and_names_that_look_like_numbers_are_kept_as_they_are_meant() {
    let results = imported("gpu,rep,time_s\n007,0,1\n007,1,2\n", &[]).unwrap();
    assert_eq!(results.runs.iter().map(|run| run.repeat).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(results.runs[0].levels.get("gpu"), Some(&Level::text("007")));
    // Rows of several commits are different runs of one repeat.
    let results = imported("a,rep,commit,time_s\n1,1,abc,1\n1,1,abd,2\n", &[]).unwrap();
    assert_eq!(results.runs.iter().map(|run| run.run.as_str()).collect::<Vec<_>>(), ["c1-r1", "c1-r1-2"]);
}

#[test]
fn rows_without_numbers_of_repeats_are_numbered_in_the_order_of_their_starts() {
    let row = |second: u32| format!("a,{}.5,2026-11-26T08:30:{second:02}Z\n", 9 - second);
    let text = format!("kernel,wall_s,started\n{}{}{}", row(7), row(3), row(5));
    let results = imported(&text, &[]).unwrap();
    let runs: Vec<(&str, u32)> = results.runs.iter().map(|run| (run.run.as_str(), run.repeat)).collect();
    assert_eq!(runs, [("c1-r3", 3), ("c1-r1", 1), ("c1-r2", 2)]);
    // On one day, the order of the rows counts.
    let day = imported("kernel,wall_s,started\na,2.5,2026-11-26\na,1.5,2026-11-26\n", &[]).unwrap();
    assert_eq!(day.runs.iter().map(|run| run.repeat).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn levels_that_are_written_differently_stay_different_although_their_numbers_are_equal() {
    let levels = |text: &str, sets: &[(&str, &str)]| -> Vec<Level> {
        let results = imported(text, sets).unwrap();
        assert_eq!(results.cells, 2, "{text}");
        results.runs.iter().map(|run| run.levels.iter().next().unwrap().1.clone()).collect()
    };
    let versions = [Level::text("2.1"), Level::text("2.10")];
    assert_eq!(levels("version,time_s\n2.1,1\n2.10,2\n", &[("version", "factor")]), versions);
    assert_eq!(
        levels("[{\"version\": \"2.1\", \"time_s\": 1}, {\"version\": \"2.10\", \"time_s\": 2}]", &[]),
        versions
    );
    let of_hyperfine = r#"{"results": [{"command": "a", "times": [1.0], "parameters": {"v": "2.1"}},
        {"command": "b", "times": [2.0], "parameters": {"v": "2.10"}}]}"#;
    assert_eq!(levels(of_hyperfine, &[("command", "skip"), ("v", "factor")]), versions);
    // 2.1 may be in another file, or be missing.
    let alone = levels("v,size,time_s\n2.10,1,1\n2.10,2,2\n", &[("v", "factor"), ("size", "factor")]);
    assert_eq!(alone[0], Level::text("2.10"));
    let later = levels("v,time_s\n2.9,1\n2.10,2\n", &[("v", "factor")]);
    assert_eq!(later, [Level::text("2.9"), Level::text("2.10")]);
    let by_name = levels("torch_version,time_s\n2.11,1\n2,2\n", &[]);
    assert_eq!(by_name, [Level::text("2.11"), Level::text("2")]);
    // These are numbers, which all have as many decimals, or as many as they need.
    assert_eq!(levels("v,time_s\n0.25,1\n0.50,2\n", &[("v", "factor")]), [Level::Number(0.25), Level::Number(0.5)]);
    assert_eq!(levels("v,time_s\n0.25,1\n1.0,2\n", &[("v", "factor")]), [Level::Number(0.25), Level::Number(1.0)]);
    let (first, second) = ("9007199254740992", "9007199254740993");
    let long = levels(&format!("id_of_set,time_s\n{first},1\n{second},2\n"), &[]);
    assert_eq!(long, [Level::text(first), Level::text(second)]);
    assert_eq!(levels("size,time_s\n1.5,1\n2,2\n", &[("size", "factor")]), [Level::Number(1.5), Level::Number(2.0)]);
}

#[test]
fn a_number_of_json_that_is_written_in_two_ways_is_one_level() {
    let text = "[{\"size\": 1e3, \"time_s\": 1}, {\"size\": 1000, \"time_s\": 2}, {\"size\": \"auto\", \"time_s\": 3}]";
    let results = imported(text, &[]).unwrap();
    let levels: Vec<&Level> = results.runs.iter().filter_map(|run| run.levels.get("size")).collect();
    assert_eq!((results.cells, levels), (2, vec![&Level::text("1000"), &Level::text("1000"), &Level::text("auto")]));
}

#[test]
fn truth_values_and_texts_are_one_level_and_a_file_with_both_is_imported_with_a_warning() {
    let text =
        "{\"fused\": true, \"time_s\": 1}\n{\"fused\": \"true\", \"time_s\": 2}\n{\"fused\": false, \"time_s\": 3}\n";
    let results = imported(text, &[]).unwrap();
    assert_eq!(results.cells, 2);
    assert_eq!(results.runs[0].levels.get("fused"), Some(&Level::text("true")));
    let warnings: Vec<String> = results.warnings.iter().map(ToString::to_string).collect();
    assert!(
        warnings.len() == 1 && warnings[0].starts_with("line 2, column \"fused\": \"true\" here and true in line 1"),
        "{warnings:?}"
    );
    let refused = imported("{\"a\": 1, \"time_s\": 1}\n{\"a\": 1, \"time_s\": true}\n", &[]).unwrap_err();
    assert!(refused[0].starts_with("line 2, column \"time_s\": \"true\" where a number is expected"), "{refused:?}");
}

#[test]
fn an_impossible_date_is_named_with_its_line_and_the_others_stay_dates() {
    let text = "kernel,date,time_s\na,2026-11-29,1\na,2026-11-31,2\na,2026-11-30,3\n";
    let wrong = imported(text, &[]).unwrap_err();
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert!(wrong[0].starts_with("line 3, column \"date\": \"2026-11-31\" is no time from 1990 to 2099"), "{wrong:?}");
}

#[test]
fn gigabits_are_converted_to_bytes() {
    let results = imported("kernel,size (Gb)\na,8\nb,16\n", &[]).unwrap();
    assert_eq!(results.runs.iter().map(|run| run.values[0].1).collect::<Vec<_>>(), [1e9, 2e9]);
}

#[test]
fn the_steps_with_which_each_cell_is_written_are_kept_in_the_unit_of_the_measure() {
    let steps = |text: &str| -> Vec<(String, f64)> {
        let results = imported(text, &[]).unwrap();
        results.spec.measures[0].written_steps.clone().unwrap().into_iter().collect()
    };
    let one = |cell: &str, step: f64| (cell.to_owned(), step);
    assert_eq!(steps("v,t (min)\na,1\na,2\nb,1.5\nb,2\n"), [one("c1", 60.0), one("c2", 6.0)]);
    assert_eq!(steps("v,mem (GB)\na,1\nb,2\n"), [one("c1", 1e9), one("c2", 1e9)]);
    assert!(steps("v,mem (B)\na,1\nb,2\n").is_empty(), "bytes are exact where they are written in bytes");
    assert_eq!(steps("v,t (h)\na,1.49981234567\nb,2\nb,2\n"), [one("c2", 3600.0)], "each cell has its own digits");
}

#[test]
fn what_may_count_parts_of_one_run_is_a_repeat_only_if_the_user_says_it() {
    for counter in ["iteration", "Sample", "round", "step"] {
        let text = format!("config,{counter},time_ms\na,0,1.25\na,1,1.375\nb,0,1.5\nb,1,1.625\n");
        let refused = imported(&text, &[]).unwrap_err();
        let expected = format!("column {counter:?}: it may count parts of one run, which are no repeats: add --set ");
        assert!(refused.len() == 1 && refused[0].starts_with(&expected), "{refused:?}");
        let repeats = imported(&text, &[(counter, "repeat")]).unwrap();
        assert_eq!((repeats.cells, repeats.runs[1].repeat), (2, 2));
        assert_eq!(imported(&text, &[(counter, "factor")]).unwrap().cells, 4);
        // A map that was printed says nothing about the column, either.
        let table = read_bytes(text.as_bytes()).unwrap();
        assert!(!Mapping::deduced(&table).toml().contains(counter));
    }
    assert_eq!(imported("sample,time_ms\nx,1.25\ny,1.5\n", &[]).unwrap().cells, 2, "names are a factor");
}
