//! Comparisons: rows, groups, colours, ratios, filters, notes.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::analysis::{Levels, RunSummary, fixture, summarise_run};
use crate::figure::chart::{Look, Role};
use crate::figure::study::MEMORY;
use crate::figure::{CellValue, Format, Place, Series, preset, render};

mod effects;
mod lines;
mod many;
mod verdicts;

fn runs(cells: &[(&str, i64, f64)]) -> Vec<RunSummary> {
    let run = |(precision, gpus, step_time_s): &(&str, i64, f64), repeat: u32| {
        summarise_run(&fixture::run(&fixture::cell(precision, *gpus, "ddp-ds"), repeat, *step_time_s))
    };
    cells.iter().flat_map(|cell| [run(cell, 1), run(cell, 2)]).collect()
}

fn four() -> Vec<RunSummary> {
    runs(&[("fp32", 1, 0.4), ("fp32", 2, 0.25), ("fp16", 1, 0.1), ("fp16", 2, 0.05)])
}

fn compared(runs: &[RunSummary], study: &Study) -> Comparison {
    compare(&[Source { session: "", runs, reports: &[] }], study)
}

/// Six repeats of cells, given as precision, whether it is the A/A copy, step time in seconds, and accuracy.
fn checked_runs(cells: &[(&str, bool, f64, f64)]) -> Vec<RunSummary> {
    let run = |(precision, is_copy, step_time_s, accuracy): &(&str, bool, f64, f64), repeat: u32| {
        let noise = [0.0, 0.002, -0.002, 0.001, -0.001, 0.0015][repeat as usize - 1];
        let mut record = fixture::run(&fixture::cell(precision, 1, "single"), repeat, step_time_s * (1.0 + noise));
        if *is_copy {
            let own = record.levels.iter().map(|(key, level)| (key.clone(), level.clone()));
            let copy = [(AA_COPY.into(), Level::text("copy"))];
            record.levels = Levels::new(own.chain(copy).collect::<Vec<_>>());
            record.cell += "-copy";
        }
        let mut run = summarise_run(&record);
        run.values.insert("accuracy".into(), accuracy + noise / 10.0);
        run
    };
    cells.iter().flat_map(|cell| (1..=6).map(|repeat| run(cell, repeat)).collect::<Vec<_>>()).collect()
}

#[test]
fn facts_that_part_repeats_are_offered_also_while_they_are_pooled() {
    let mut runs = checked_runs(&[("fp32", false, 0.1, 0.98), ("fp16", false, 0.05, 0.98)]);
    for run in &mut runs {
        let mut environment = crate::analysis::Environment::default();
        environment.set("hostname", Some(if run.repeat > 3 { "gpu2" } else { "gpu1" }));
        run.environment = Some(environment.into());
    }
    let shown = |pool: &[&str]| {
        let study = Study { pool: pool.iter().map(|key| (*key).into()).collect(), ..Study::default() };
        let shown = compared(&runs, &study);
        assert_eq!(shown.made_with, [("hostname".into(), "Machine".to_owned())]);
        (shown.cells.len(), shown.settings.iter().any(|one| one.setting.key == "made_with"))
    };
    assert_eq!(shown(&[]), (4, true));
    assert_eq!(shown(&["hostname"]), (2, false));
    let pooled = |key: &str, form: Form| {
        let missing = compared(&runs, &Study { pool: vec![key.into()], form, ..Study::default() }).missing;
        missing.into_iter().filter(|line| line.starts_with("pool")).collect::<Vec<_>>()
    };
    assert!(pooled("hostname", Form::Bars).is_empty());
    let line = "pool = driver: the repeats of no cell differ in it, so it joins nothing";
    assert_eq!(pooled("driver", Form::Bars), [line]);
    // A history joins the sessions of several machines, in which each cell may have one.
    assert!(pooled("hostname", Form::History).is_empty());
}

#[test]
fn rows_are_groups_and_colours_bars_and_what_is_left_joins_the_rows() {
    let runs = four();
    let auto = compared(&runs, &Study::default());
    assert_eq!(auto.charts[0].x.categories, ["fp32", "fp16"]);
    let names: Vec<&str> = auto.charts[0].legend().iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["1 GPU", "2 GPUs"]);
    let by_columns = compared(&runs, &Study { columns: Place::Setting("precision".into()), ..Study::default() });
    let titles: Vec<&str> = by_columns.charts[0].panels.iter().map(|panel| panel.title.as_str()).collect();
    assert_eq!(titles, ["fp32", "fp16"]);
    let plain = Study { rows: Place::Nothing, colour: Place::Nothing, columns: Place::Nothing, ..Study::default() };
    let plain = compared(&runs, &plain);
    // Each cell has a bar of its own.
    assert_eq!(plain.charts[0].x.categories, ["fp32 · 1 GPU", "fp32 · 2 GPUs", "fp16 · 1 GPU", "fp16 · 2 GPUs"]);
    assert_eq!(plain.charts[0].series().map(|series| series.points.len()).sum::<usize>(), 4);
}

#[test]
fn a_series_has_the_look_of_its_level_whatever_else_is_shown() {
    let runs = four();
    let study = Study { colour: Place::Setting("precision".into()), ..Study::default() };
    let all = compared(&runs, &study);
    let hidden = Study { hidden: vec![("precision".into(), Level::text("fp32"))], ..study };
    let fewer = compared(&runs, &hidden);
    let look = Look::Level(Level::text("fp16"), 2);
    assert!(all.charts[0].series().any(|series| series.look == look));
    assert!(fewer.charts[0].series().all(|series| series.look == look));
}

#[test]
fn hiding_the_level_of_the_baseline_turns_no_chart_round() {
    let runs = four();
    let all = compared(&runs, &Study::default());
    let hidden = Study { hidden: vec![("gpus".into(), Level::Integer(1))], ..Study::default() };
    let fewer = compared(&runs, &hidden);
    assert_eq!(fewer.cells.len(), 2);
    assert_eq!(fewer.arrangement, all.arrangement);
    let names: Vec<&str> = fewer.charts[0].legend().iter().map(|series| series.name.as_str()).collect();
    assert_eq!(
        (fewer.charts[0].x.categories.as_slice(), names),
        (&["fp32".to_owned(), "fp16".to_owned()][..], vec!["2 GPUs"])
    );
}

#[test]
fn the_usual_table_has_the_speed_up_of_the_screen_by_the_same_measure_over_the_same_cell() {
    let mut runs = four();
    for lacks_throughput in [false, true] {
        if lacks_throughput {
            for run in &mut runs[..2] {
                run.values.remove("images_per_s");
            }
        }
        let sources = [Source { session: "", runs: &runs, reports: &[] }];
        let tables = [compared(&runs, &Study::default()).table, table(&sources, &preset("times").unwrap())];
        for (key, name) in [("ratio", "Speed-up by training time"), ("verdict", "Verdict")] {
            let [on_screen, usual] = tables.each_ref().map(|table| {
                let place = table.columns.iter().position(|column| column.key == *key).unwrap();
                assert_eq!(table.columns[place].name, name);
                table.rows.iter().map(|row| row.values[place].clone()).collect::<Vec<_>>()
            });
            // Numbers that are unknown are not equal to themselves.
            assert_eq!(format!("{on_screen:?}"), format!("{usual:?}"), "{key}, {lacks_throughput}");
            let is_one = matches!(&usual[0], CellValue::Measure(value) if value.median == 1.0);
            assert!(is_one || key == "verdict", "the first cell is the baseline: {usual:?}");
        }
    }
}

#[test]
fn a_filter_names_the_key_or_the_level_that_was_meant() {
    let missing = |filter: &str| compared(&four(), &Study { filter: filter.to_owned(), ..Study::default() }).missing;
    assert_eq!(missing("batch=16"), ["filter: no cell has batch; did you mean \"batch_size\"?"]);
    assert_eq!(missing("precision=fp31"), ["filter: no cell has precision = fp31; did you mean \"fp32\"?"]);
    assert!(missing("precision=fp32 or gpus=2").is_empty());
    let ordered = compared(&four(), &Study { filter: "precision>16 gpus=2".to_owned(), ..Study::default() });
    assert!(ordered.missing[0].starts_with("filter: precision>16: levels of precision that are no numbers"));
    assert_eq!((ordered.missing.len(), ordered.cells.len()), (1, 4), "a figure of an earlier version opens");
}

#[test]
fn a_session_of_recorded_runs_alone_shows_their_values_marked() {
    let mut runs = four();
    runs.iter_mut().for_each(|run| run.recording = Recording::BuiltIn);
    let shown = compared(&runs, &Study::default());
    assert_eq!(shown.cells.len(), 4);
    assert!(shown.missing.iter().any(|line| line.contains("every run was recorded")), "{:?}", shown.missing);
    runs[0].trace = Some(fixture::nothing_recorded());
    let shown = compared(&runs, &Study::default());
    let note = format!("nothing was recorded of 1 of {} runs: the mark", runs.len());
    assert!(shown.missing.iter().any(|line| line.contains(&note)), "{:?}", shown.missing);
}

#[test]
fn a_factor_that_is_held_leaves_the_cells_of_its_level_and_is_told_with_what_is_the_same() {
    let runs = four();
    let mut study = Study::default();
    study.hold("gpus".into(), Some(Level::Integer(2)));
    let held = compared(&runs, &study);
    assert_eq!((held.cells.len(), held.all_cells), (2, 4));
    assert_eq!(held.charts[0].x.categories, ["fp32", "fp16"]);
    let settings: Vec<&str> = held.settings.iter().map(|levels| &*levels.setting.key).collect();
    assert!(settings.contains(&"gpus"), "it can be changed: {settings:?}");
    study.hold("gpus".into(), Some(Level::Integer(7)));
    let gone = compared(&runs, &study);
    assert_eq!(gone.cells.len(), 4);
    assert!(gone.missing.iter().any(|line| line.contains("held at gpus = 7: no cell has it")), "{:?}", gone.missing);
    study.hold("gpus".into(), None);
    assert_eq!(study, Study::default());
}

#[test]
fn levels_have_the_order_and_the_colours_that_a_study_gives_them_and_without_it_the_usual_ones() {
    let runs = four();
    let usual = compared(&runs, &Study::default());
    let mut study = Study::default();
    study.put_in_order("precision".into(), vec![Level::text("fp16")]);
    study.paint("gpus".into(), Level::Integer(2), Some(5));
    let own = compared(&runs, &study);
    assert_eq!(own.charts[0].x.categories, ["fp16", "fp32"]);
    let first = |comparison: &Comparison| comparison.table.rows[0].cell.clone();
    assert_eq!((first(&usual).as_str(), first(&own).as_str()), ("fp32-1-ddp-ds", "fp16-1-ddp-ds"));
    let colour = |comparison: &Comparison, name: &str| {
        let series = comparison.charts[0].legend().into_iter().find(|series| series.name == name);
        series.unwrap().look.colour()
    };
    assert_eq!(colour(&own, "2 GPUs"), crate::figure::COLOURS[5]);
    assert_eq!(colour(&own, "1 GPU"), colour(&usual, "1 GPU"));
    // The text of a study without them is the same as in versions that did not have them.
    let text = serde_json::to_string(&Study::default()).unwrap();
    assert!(!text.contains("held") && !text.contains("order") && !text.contains("colours"), "{text}");
    let again: Study = serde_json::from_str(&serde_json::to_string(&study).unwrap()).unwrap();
    assert_eq!(again, study);
}

#[test]
fn the_ratio_of_a_time_is_above_one_where_it_is_faster_and_of_memory_where_it_is_more() {
    let mut runs = four();
    let ratio = |runs: &[RunSummary], measure: &str| {
        let comparison = compared(runs, &Study { measure: Some(measure.into()), ..Study::default() });
        let points = comparison.charts[0].series().flat_map(|series| series.points.clone());
        let fp16 = points.into_iter().find(|point| point.cell.as_ref().unwrap().cell == "fp16-1-ddp-ds");
        fp16.unwrap().ratio.unwrap().median
    };
    assert!((ratio(&runs, "epoch_time_s") - 4.0).abs() < 1e-9);
    assert!((ratio(&runs, "images_per_s") - 4.0).abs() < 1e-9);
    for run in runs.iter_mut().filter(|run| run.cell.starts_with("fp16")) {
        *run.values.get_mut("peak_allocated_bytes").unwrap() /= 2.0;
    }
    assert!((ratio(&runs, "peak_allocated_bytes") - 0.5).abs() < 1e-6);
}

#[test]
fn memory_that_is_the_same_by_every_measure_is_one_bar_and_a_sentence() {
    let mut runs = four();
    let bars = |runs: &[RunSummary]| {
        let chart = compared(runs, &Study { form: Form::Memory, ..Study::default() }).charts.remove(0);
        let names: Vec<String> = chart.legend().iter().map(|series| series.name.clone()).collect();
        (names, chart.notes)
    };
    let (apart, notes) = bars(&runs);
    assert!(apart.len() > 1 && !notes.iter().any(|note| note.contains("one bar")), "{apart:?}");
    for run in &mut runs {
        let first = run.values.get(MEMORY[0]).copied().unwrap();
        for key in MEMORY.iter().filter(|key| run.values.contains_key(**key)).collect::<Vec<_>>() {
            run.values.insert((*key).into(), first);
        }
    }
    let (joined, notes) = bars(&runs);
    assert_eq!(joined, [apart.join(" = ")]);
    assert!(notes.contains(&format!("{} are equal in every cell: one bar represents them all.", apart.join(", "))));
}

#[test]
fn the_same_cell_of_two_sessions_is_two_rows_and_its_session_a_setting() {
    let runs = four();
    let sources =
        [Source { session: "a", runs: &runs, reports: &[] }, Source { session: "b", runs: &runs, reports: &[] }];
    let both = compare(&sources, &Study::default());
    assert_eq!((both.table.rows.len(), &*both.arrangement.colour.unwrap().key), (8, "session"));
    assert_eq!(both.charts[0].legend().len(), 2);
    let json: serde_json::Value = serde_json::from_str(&render(&both.table, Format::Json)).unwrap();
    assert_eq!((&json["rows"][0]["session"], &json["rows"][1]["session"]), (&"a".into(), &"b".into()));
    let one = compare(&sources[..1], &Study::default());
    assert_eq!(one.table.columns[0].key, "precision");
}

#[test]
fn values_are_those_of_the_command_line_s_tables() {
    let runs = four();
    let own = compared(&runs, &Study { measure: Some("step_time_s".into()), ..Study::default() });
    let times = table(&[Source { session: "", runs: &runs, reports: &[] }], &preset("times").unwrap());
    let values = |table: &Table, key: &str| {
        let column = table.columns.iter().position(|column| column.key == key).unwrap();
        table.rows.iter().map(|row| row.values[column].clone()).collect::<Vec<_>>()
    };
    for key in ["precision", "gpus", "runs", "step_time_s", "images_per_s", "train_loss", "accuracy"] {
        assert_eq!(values(&own.table, key), values(&times, key), "{key}");
    }
}

#[test]
fn nothing_makes_an_empty_comparison() {
    for &form in Form::ALL {
        let nothing = compare(&[], &Study { form, ..Study::default() });
        assert_eq!((nothing.all_cells, nothing.table.rows.len()), (0, 0));
        assert!(nothing.charts.iter().all(Chart::is_empty));
    }
}

#[test]
fn a_filter_chooses_cells_by_words_and_levels_and_one_that_cannot_be_read_hides_none() {
    let runs = four();
    let shown = |filter: &str| compared(&runs, &Study { filter: filter.to_owned(), ..Study::default() }).cells.len();
    for (filter, cells) in [
        ("FP16 2", 1),
        ("precision=fp16 gpus>=2", 1),
        ("fp32 or gpus=2", 3),
        ("not fp32", 2),
        ("gpus=", 4),
        ("(", 4),
        (")", 4),
    ] {
        assert_eq!(shown(filter), cells, "{filter:?}");
    }
}

#[test]
fn the_parts_of_a_step_are_of_the_same_steps_of_the_slowest_rank() {
    // The other rank waits 90 ms in each step. The slowest rank, whose steps take 100 ms, waits 10 ms in every second step.
    let mut record = fixture::run(&fixture::cell("fp32", 2, "ddp-ds"), 1, 0.1);
    for (rank, wait_s) in [(0, 0.01), (1, 0.09)] {
        for step in &mut record.ranks[rank].steps {
            step.load_wait_s = if rank == 1 || step.step % 2 == 0 { wait_s } else { 0.0 };
        }
    }
    let runs = [summarise_run(&record)];
    let parts = compared(&runs, &Study { form: Form::Parts, ..Study::default() });
    assert_eq!(parts.charts[0].y.name, "Mean step time", "\"Step time\" is a median");
    let series_of = |name: &str| {
        let series = parts.charts[0].series().find(|series| series.name == name).unwrap();
        series.points[0].value.median
    };
    assert!((series_of("Host waits for data") - 0.005).abs() < 1e-9, "{}", series_of("Host waits for data"));
    assert!((series_of("All else") - 0.095).abs() < 1e-9);
    let colours: Vec<[u8; 3]> = parts.charts[0].series().map(|series| series.look.colour()).collect();
    let is_blue = |[red, green, blue]: &[u8; 3]| blue > red && blue > green;
    assert_eq!(colours.iter().filter(|colour| is_blue(colour)).count(), 1, "{colours:?}");
}

/// The first six cells of `runs`, with a different spread of repeats for each.
fn repeated(cells: &[(&str, i64, f64)], repeats: u32) -> Vec<RunSummary> {
    let run = |(precision, gpus, step_time_s): &(&str, i64, f64), repeat: u32| {
        let noise = 1.0 + 0.01 * f64::from((repeat * 7 + *gpus as u32 * 3 + precision.len() as u32) % 5);
        summarise_run(&fixture::run(&fixture::cell(precision, *gpus, "ddp-ds"), repeat, step_time_s * noise))
    };
    cells.iter().flat_map(|cell| (1..=repeats).map(move |repeat| run(cell, repeat))).collect()
}

#[test]
fn a_study_that_names_no_measure_shows_one_that_the_cells_have() {
    let plan = "version = 1\n[command]\nrun = [\"x\"]\n[command.measures.never]\nbetter = \"lower\"\n\
                [command.measures.bandwidth]\nunit = \"GB/s\"\nbetter = \"higher\"\n";
    let spec = crate::plan::Plan::parse(plan, "own.toml").unwrap().first.spec;
    let run = |keys: &[&str], has_steps: bool| {
        let mut record = fixture::run(&fixture::cell("fp32", 1, "ddp-ds"), 1, 0.1);
        record.workload = spec.clone();
        let rank = &mut record.ranks[0];
        let template = rank.readings[0].clone();
        let reading = |key: &&str| {
            let mut reading = template.clone();
            (reading.key, reading.epoch, reading.step) = ((*key).into(), None, None);
            reading
        };
        rank.readings = keys.iter().map(reading).collect();
        if !has_steps {
            rank.steps.clear();
        }
        vec![summarise_run(&record)]
    };
    let shown = |runs: &[RunSummary]| {
        let comparison = compared(runs, &Study::default());
        let drawn = comparison.charts[0].series().any(|series| !series.points.is_empty());
        (comparison.measure.to_string(), drawn)
    };
    let shows = |measure: &str| (measure.to_owned(), true);
    assert_eq!(shown(&four()), shows("training_time_s"));
    assert_eq!(shown(&run(&["bandwidth", "program_time_s"], false)), shows("bandwidth"), "the first with a value");
    assert_eq!(shown(&run(&["program_time_s"], false)), shows("program_time_s"));
    assert_eq!(shown(&run(&[], false)), shows("total_time_s"));
    let with_steps = run(&["bandwidth", "program_time_s"], true);
    assert!(["training_time_s", "step_time_s"].contains(&shown(&with_steps).0.as_str()));
    let asked = compared(&with_steps, &Study { measure: Some("bandwidth".into()), ..Study::default() });
    assert_eq!(&*asked.measure, "bandwidth");
}

/// fp32 and fp16 on 1 and 2 GPUs; the first cell did not finish.
fn without_the_first() -> Vec<RunSummary> {
    let mut runs = four();
    runs.retain(|run| run.cell != "fp32-1-ddp-ds");
    runs
}

#[test]
fn levels_keep_the_factors_order_whatever_arrives_first() {
    let auto = compared(&without_the_first(), &Study::default());
    let names: Vec<&str> = auto.charts[0].legend().iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["1 GPU", "2 GPUs"], "the first cell that is there is of two");
    let study =
        Study { rows: Place::Setting("gpus".into()), colour: Place::Setting("precision".into()), ..Study::default() };
    let turned = compared(&without_the_first(), &study);
    assert_eq!(turned.charts[0].x.categories, ["1 GPU", "2 GPUs"]);
    let columns = Study { columns: Place::Setting("gpus".into()), ..Study::default() };
    let columns = compared(&without_the_first(), &columns);
    let titles: Vec<&str> = columns.charts[0].panels.iter().map(|panel| panel.title.as_str()).collect();
    assert_eq!(titles, ["1 GPU", "2 GPUs"]);
}

#[test]
fn cells_without_a_value_have_no_empty_bar_and_are_named_with_their_reason() {
    let mut runs = four();
    let step = |state: RunState| {
        let mut record = fixture::run(&fixture::cell("fp64", 1, "ddp-ds"), 1, 1.0);
        record.state = state;
        record.ranks.iter_mut().for_each(|rank| rank.steps.clear());
        summarise_run(&record)
    };
    runs.push(step(RunState::TimedOut));
    let bars = compared(&runs, &Study::default());
    assert_eq!(bars.charts[0].x.categories, ["fp32", "fp16"], "no room is left for what is not there");
    let points: Vec<f64> = bars.charts[0].series().flat_map(|series| &series.points).map(|point| point.x).collect();
    assert!(points.iter().all(|x| [0.0, 1.0].contains(x)), "{points:?}");
    let note = "Without a bar: fp64 · 1 GPU (timed out).";
    assert!(bars.charts[0].notes.iter().any(|known| known == note), "{:?}", bars.charts[0].notes);
    assert!(bars.charts[0].legend().iter().all(|series| !series.points.is_empty()));
}

#[test]
fn cells_of_a_program_stand_in_the_groups_of_the_built_in_ones_though_they_have_no_data_set() {
    let mut runs = runs(&[("fp32", 1, 0.2), ("fp16", 1, 0.1)]);
    let mut of_program = runs.clone();
    for run in &mut of_program {
        run.workload =
            std::sync::Arc::new(crate::plan::WorkloadSpec { key: "script".into(), ..(*run.workload).clone() });
        run.data = String::new();
        run.cell = format!("{}-of-script", run.cell);
        run.identity = None;
    }
    runs.extend(of_program);
    let study = Study {
        rows: Place::Setting("precision".into()),
        colour: Place::Setting("workload".into()),
        measure: Some("step_time_s".into()),
        baseline: Some("each workload=script".to_owned()),
        ..Study::default()
    };
    let comparison = compared(&runs, &study);
    assert_eq!(comparison.charts[0].x.categories, ["fp32", "fp16"]);
    assert_eq!(comparison.charts[0].series().count(), 2);
    assert_eq!(comparison.baseline, Some((None, "workload = script".to_owned())));
    let points = comparison.charts[0].series().flat_map(|series| &series.points);
    let ratios: Vec<f64> = points.map(|point| point.ratio.unwrap().median).collect();
    assert_eq!(ratios, [1.0; 4]);
}

#[test]
fn what_recording_costs_is_how_much_longer_steps_are_than_those_of_the_same_cell_without_it() {
    let mut all = runs(&[("fp32", 1, 0.2), ("fp16", 1, 0.1)]);
    let recorded = [(Recording::BuiltIn, 1.1), (Recording::Traced, 1.25)].map(|(recording, cost)| {
        runs(&[("fp32", 1, 0.2 * cost), ("fp16", 1, 0.1 * cost)]).into_iter().map(move |run| RunSummary {
            recording,
            cell: format!("{}-{recording:?}", run.cell),
            identity: None,
            ..run
        })
    });
    all.extend(recorded.into_iter().flatten());
    let comparison = compared(&all, &preset("trace-cost").unwrap());
    assert_eq!(comparison.baseline, Some((None, "trace = off".to_owned())));
    let percent =
        |series: &Series| series.points.iter().map(|point| (point.value.median * 10.0).round() / 10.0).collect();
    let seen: Vec<(&str, Vec<f64>)> =
        comparison.charts[0].series().map(|series| (&*series.name, percent(series))).collect();
    let expected = [("Trace off", 0.0), ("Trace built-in", 10.0), ("Trace nsys", 25.0)];
    assert_eq!(seen, expected.map(|(name, cost)| (name, vec![cost; 2])));
    assert_eq!((&*comparison.charts[0].y.name, &*comparison.charts[0].y.unit), ("Cost in step time", "%"));
    let table = &comparison.table;
    let cost = table.columns.iter().position(|column| column.key == "step_cost").unwrap();
    let costs = table.rows.iter().map(|row| match &row.values[cost] {
        CellValue::Measure(value) => (value.median * 100.0).round() / 100.0,
        other => panic!("{other:?}"),
    });
    assert_eq!(costs.collect::<Vec<_>>(), [0.0, 0.0, 0.1, 0.1, 0.25, 0.25], "untraced, built-in, nsys");
    assert!(
        table.notes.iter().any(|note| note.starts_with("cost: step time over that with trace = off")),
        "{:?}",
        table.notes
    );
    all.retain(|run| run.recording != Recording::Traced);
    let one = compared(&all, &preset("trace-cost").unwrap());
    let names: Vec<&str> = one.charts[0].series().map(|series| &*series.name).collect();
    assert_eq!(names, ["Trace off", "Trace built-in"], "one tracer is named too");
    all.retain(|run| run.recording == Recording::Plain);
    let none = compared(&all, &preset("trace-cost").unwrap());
    assert!(none.charts[0].is_empty());
    let notes = [
        "There is nothing to compare: every finished cell is its own baseline (trace = off).",
        "A plan with trace = [\"off\", \"built-in\"] runs each cell without and with a tracer.",
    ];
    assert_eq!(none.charts[0].notes, notes);
}

#[test]
fn of_too_many_activities_those_left_out_are_named() {
    let runs: Vec<RunSummary> =
        (1..=12).map(|gpus| summarise_run(&fixture::run(&fixture::cell("fp32", gpus, "single"), 1, 0.1))).collect();
    let activity = compared(&runs, &Study { form: Form::Activity, ..Study::default() });
    assert_eq!(activity.charts[0].panels.len(), 8);
    let drawing_note = "8 of 12 cells are drawn, without 9 GPUs; 10 GPUs; 11 GPUs; 12 GPUs: filter to see these.";
    assert!(activity.charts[0].notes.iter().any(|note| note == drawing_note), "{:?}", activity.charts[0].notes);
}
