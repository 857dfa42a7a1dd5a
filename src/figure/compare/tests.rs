#![allow(clippy::unwrap_used)]

use super::*;
use crate::analysis::{Levels, RunSummary, fixture, summarise_run};
use crate::figure::chart::{Look, Role};
use crate::figure::study::MEMORY;
use crate::figure::{CellValue, Format, Limits, Over, Place, Series, preset, render};

fn runs(cells: &[(&str, i64, f64)]) -> Vec<RunSummary> {
    let run = |(precision, gpus, step_time_s): &(&str, i64, f64), repeat: u32| {
        summarise_run(&fixture::run(&fixture::cell(precision, *gpus, "ddp-ds"), repeat, *step_time_s))
    };
    cells.iter().flat_map(|cell| [run(cell, 1), run(cell, 2)]).collect()
}

fn four() -> Vec<RunSummary> {
    runs(&[("fp32", 1, 0.4), ("fp32", 2, 0.25), ("fp16", 1, 0.1), ("fp16", 2, 0.05)])
}

fn of(runs: &[RunSummary], study: &Study) -> Comparison {
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
fn effects_that_a_filter_hides_stay_in_the_family() {
    let runs = four();
    let family = |filter: &str| {
        let study =
            Study { filter: filter.to_owned(), measure: Some("step_time_s".into()), ..preset("effects").unwrap() };
        let table = table(&[Source { session: "", runs: &runs, reports: &[] }], &study);
        let place = table.columns.iter().position(|column| column.key == "verdict").unwrap();
        let CellValue::Verdict(judged) = &table.rows[0].values[place] else { panic!("{table:?}") };
        (table.rows.len(), judged.family)
    };
    assert_eq!(family(""), (3, 3));
    assert_eq!(family("gpus = 1"), (1, 3));
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
        let shown = of(&runs, &study);
        assert_eq!(shown.made_with, [("hostname".into(), "Machine".to_owned())]);
        (shown.cells.len(), shown.settings.iter().any(|one| one.setting.key == "made_with"))
    };
    assert_eq!(shown(&[]), (4, true));
    assert_eq!(shown(&["hostname"]), (2, false));
}

#[test]
fn an_aa_copy_stands_in_no_row_and_tells_what_passes_for_a_difference() {
    let study = Study { measure: Some("step_time_s".into()), ..Study::default() };
    let runs = checked_runs(&[("fp32", false, 0.1, 0.98), ("fp16", false, 0.05, 0.98), ("fp32", true, 0.1, 0.98)]);
    let table = table(&[Source { session: "", runs: &runs, reports: &[] }], &study);
    assert_eq!(table.rows.len(), 2);
    let aa = |table: &Table| table.notes.iter().find(|note| note.starts_with("A/A")).unwrap().clone();
    assert!(aa(&table).ends_with("equal within 1 %"), "{}", aa(&table));
    assert!(table.lead.iter().all(|note| !note.starts_with("A/A")));
    let runs = checked_runs(&[("fp32", false, 0.1, 0.98), ("fp16", false, 0.05, 0.98), ("fp32", true, 0.11, 0.98)]);
    let table = super::table(&[Source { session: "", runs: &runs, reports: &[] }], &study);
    assert!(
        aa(&table).contains("slower") && aa(&table).ends_with("trust no difference of this size"),
        "{}",
        aa(&table)
    );
    assert!(table.lead.iter().any(|note| note.starts_with("A/A")));
}

#[test]
fn a_cell_on_the_front_that_learns_something_else_says_so() {
    let notes_of = |accuracy: f64| -> Vec<String> {
        let mut runs = checked_runs(&[("fp32", false, 0.1, 0.98), ("fp16", false, 0.05, accuracy)]);
        for run in &mut runs {
            run.values.insert("peak_device_bytes".into(), 1e9);
        }
        let table = table(&[Source { session: "", runs: &runs, reports: &[] }], &preset("pareto").unwrap());
        let place = table.columns.iter().position(|column| column.key == "front").unwrap();
        let text = |row: &crate::figure::Row| match &row.values[place] {
            CellValue::Text(text) => text.clone(),
            other => panic!("{other:?}"),
        };
        table.rows.iter().map(text).collect()
    };
    assert_eq!(notes_of(0.98), ["bettered", "on the front"]);
    assert_eq!(notes_of(0.10), ["bettered", "on the front, but accuracy differs: 10 against 98 % in fp32"]);
}

#[test]
fn the_fastest_cell_within_limits_says_where_it_learns_something_else() {
    let mut study = Study { measure: Some("step_time_s".into()), ..Study::default() };
    study.limits.memory_bytes = Some(1e12);
    let fastest = |accuracy: f64| {
        let runs = checked_runs(&[("fp32", false, 0.1, 0.98), ("fp16", false, 0.05, accuracy)]);
        compare(&[Source { session: "", runs: &runs, reports: &[] }], &study).fastest.unwrap()
    };
    assert!(!fastest(0.98).contains("differs"), "{}", fastest(0.98));
    assert!(fastest(0.10).contains("; but accuracy differs: 10 against 98 % in fp32"), "{}", fastest(0.10));
}

#[test]
fn rows_are_groups_and_colours_bars_and_what_is_left_joins_the_rows() {
    let runs = four();
    let auto = of(&runs, &Study::default());
    assert_eq!(auto.charts[0].x.categories, ["fp32", "fp16"]);
    let names: Vec<&str> = auto.charts[0].legend().iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["1 GPU", "2 GPUs"]);
    let by_columns = of(&runs, &Study { columns: Place::Setting("precision".into()), ..Study::default() });
    let titles: Vec<&str> = by_columns.charts[0].panels.iter().map(|panel| panel.title.as_str()).collect();
    assert_eq!(titles, ["fp32", "fp16"]);
    let plain = Study { rows: Place::Nothing, colour: Place::Nothing, columns: Place::Nothing, ..Study::default() };
    let plain = of(&runs, &plain);
    // Each cell has a bar of its own.
    assert_eq!(plain.charts[0].x.categories, ["fp32 · 1 GPU", "fp32 · 2 GPUs", "fp16 · 1 GPU", "fp16 · 2 GPUs"]);
    assert_eq!(plain.charts[0].series().map(|series| series.points.len()).sum::<usize>(), 4);
}

#[test]
fn a_series_has_the_look_of_its_level_whatever_else_is_shown() {
    let runs = four();
    let study = Study { colour: Place::Setting("precision".into()), ..Study::default() };
    let all = of(&runs, &study);
    let hidden = Study { hidden: vec![("precision".into(), Level::text("fp32"))], ..study };
    let fewer = of(&runs, &hidden);
    let look = Look::Level(Level::text("fp16"), 2);
    assert!(all.charts[0].series().any(|series| series.look == look));
    assert!(fewer.charts[0].series().all(|series| series.look == look));
}

#[test]
fn hiding_the_level_of_the_baseline_turns_no_chart_round() {
    let runs = four();
    let all = of(&runs, &Study::default());
    let hidden = Study { hidden: vec![("gpus".into(), Level::Integer(1))], ..Study::default() };
    let fewer = of(&runs, &hidden);
    assert_eq!(fewer.cells.len(), 2);
    assert_eq!(fewer.arrangement, all.arrangement);
    let names: Vec<&str> = fewer.charts[0].legend().iter().map(|series| series.name.as_str()).collect();
    assert_eq!(
        (fewer.charts[0].x.categories.as_slice(), names),
        (&["fp32".to_owned(), "fp16".to_owned()][..], vec!["2 GPUs"])
    );
}

#[test]
fn a_filter_names_the_key_or_the_level_that_was_meant() {
    let missing = |filter: &str| of(&four(), &Study { filter: filter.to_owned(), ..Study::default() }).missing;
    assert_eq!(missing("batch=16"), ["filter: no cell has batch; did you mean \"batch_size\"?"]);
    assert_eq!(missing("precision=fp31"), ["filter: no cell has precision = fp31; did you mean \"fp32\"?"]);
    assert!(missing("precision=fp32 or gpus=2").is_empty());
}

#[test]
fn a_session_of_recorded_runs_alone_shows_their_values_marked() {
    let mut runs = four();
    runs.iter_mut().for_each(|run| run.recording = Recording::BuiltIn);
    let shown = of(&runs, &Study::default());
    assert_eq!(shown.cells.len(), 4);
    assert!(shown.missing.iter().any(|line| line.contains("every run was recorded")), "{:?}", shown.missing);
}

#[test]
fn a_factor_that_is_held_leaves_the_cells_of_its_level_and_is_told_with_what_is_the_same() {
    let runs = four();
    let mut study = Study::default();
    study.hold("gpus".into(), Some(Level::Integer(2)));
    let held = of(&runs, &study);
    assert_eq!((held.cells.len(), held.all_cells), (2, 4));
    assert_eq!(held.charts[0].x.categories, ["fp32", "fp16"]);
    let settings: Vec<&str> = held.settings.iter().map(|levels| &*levels.setting.key).collect();
    assert!(settings.contains(&"gpus"), "it can be changed: {settings:?}");
    study.hold("gpus".into(), Some(Level::Integer(7)));
    let gone = of(&runs, &study);
    assert_eq!(gone.cells.len(), 4);
    assert!(gone.missing.iter().any(|line| line.contains("held at gpus = 7: no cell has it")), "{:?}", gone.missing);
    study.hold("gpus".into(), None);
    assert_eq!(study, Study::default());
}

#[test]
fn levels_have_the_order_and_the_colours_that_a_study_gives_them_and_without_it_the_usual_ones() {
    let runs = four();
    let usual = of(&runs, &Study::default());
    let mut study = Study::default();
    study.put_in_order("precision".into(), vec![Level::text("fp16")]);
    study.paint("gpus".into(), Level::Integer(2), Some(5));
    let own = of(&runs, &study);
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
        let comparison = of(runs, &Study { measure: Some(measure.into()), ..Study::default() });
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
fn scaling_has_ideals_from_the_fewest_gpus_and_an_efficiency() {
    let runs = four();
    let scaling = of(&runs, &Study { form: Form::Scaling, ..Study::default() });
    let [time, efficiency] = scaling.charts.as_slice() else { panic!("{} charts", scaling.charts.len()) };
    let ideal = time.series().find(|series| series.role == Role::Ideal).unwrap();
    let (first, last) = (&ideal.points[0], ideal.points.last().unwrap());
    assert!((first.value.median / last.value.median - 2.0).abs() < 1e-9);
    let series_of = |name: &str| {
        let series = efficiency.series().find(|series| series.name == name).unwrap();
        series.points.iter().map(|point| point.value.median.round()).collect::<Vec<_>>()
    };
    assert_eq!((series_of("fp32"), series_of("fp16")), (vec![100.0, 80.0], vec![100.0, 100.0]));
    let loss = Study { form: Form::Scaling, measure: Some("train_loss".into()), ..Study::default() };
    let loss = compare(&[Source { session: "", runs: &runs, reports: &[] }], &loss);
    assert_eq!(loss.charts.len(), 1);
    assert!(loss.charts[0].notes[0].contains("no ideal"));
}

#[test]
fn scaling_has_one_line_where_nodes_follow_from_gpus_and_one_a_spread_where_they_do_not() {
    let spread = |(gpus, nodes): &(i64, i64), repeat: u32| {
        let mut record = fixture::run(&fixture::cell("fp32", *gpus, "ddp-ds"), repeat, 0.4 / *gpus as f64);
        let own = record.levels.iter().filter(|(key, _)| **key != *"nodes");
        let own = own.map(|(key, level)| (key.clone(), level.clone()));
        record.levels = Levels::new(own.chain([("nodes".into(), Level::Integer(*nodes))]).collect::<Vec<_>>());
        record.cell += &format!("-{nodes}");
        summarise_run(&record)
    };
    let lines = |counts: &[(i64, i64)]| -> Vec<usize> {
        let runs: Vec<_> = counts.iter().flat_map(|count| [spread(count, 1), spread(count, 2)]).collect();
        let scaling = of(&runs, &Study { form: Form::Scaling, ..Study::default() });
        let measured = scaling.charts[0].series().filter(|series| series.role != Role::Ideal);
        measured.map(|series| series.points.len()).collect()
    };
    assert_eq!(lines(&[(1, 1), (2, 2), (4, 4)]), [3]);
    assert_eq!(lines(&[(1, 1), (2, 1), (2, 2), (4, 2)]), [2, 2]);
}

#[test]
fn losses_are_drawn_over_epochs_steps_or_the_time_spent_training() {
    let runs = runs(&[("fp32", 1, 0.4)]);
    let chart = |place: usize, over: Over| -> Vec<(f64, f64)> {
        let comparison = of(&runs, &Study { form: Form::Loss, over, ..Study::default() });
        let points = comparison.charts[place].series().flat_map(|series| series.points.clone());
        points.map(|point| (point.x, point.value.median)).collect()
    };
    let x = |place: usize, over: Over| -> Vec<f64> { chart(place, over).iter().map(|point| point.0).collect() };
    // Tests, and means over epochs, have one value per epoch.
    assert_eq!(x(0, Over::Epochs), [1.0, 2.0]);
    assert_eq!(x(1, Over::Steps), [10.0, 20.0]);
    assert_eq!(x(1, Over::Time), [46.0 * 0.4, 46.0 * 0.4 + 10.0 * 0.4]);
    // The training loss is known for each of the 20 steps.
    assert_eq!(chart(0, Over::Steps), (1..=20).map(|n| (f64::from(n), 2.0 / f64::from(n))).collect::<Vec<_>>());
    let by_time = x(0, Over::Time);
    assert_eq!(by_time.len(), 20);
    assert!((by_time[19] - 56.0 * 0.4).abs() < 1e-9);
}

#[test]
fn one_epoch_makes_no_line_so_that_losses_are_drawn_over_steps_and_other_values_are_said() {
    let mut runs = runs(&[("fp32", 1, 0.4), ("fp16", 1, 0.1)]);
    runs.iter_mut().for_each(|run| run.epochs.retain(|epoch| epoch.epoch == 1));
    let comparison = of(&runs, &Study { form: Form::Loss, ..Study::default() });
    let [train, test, ..] = comparison.charts.as_slice() else { panic!("{:?}", comparison.charts) };
    assert!(train.series().all(|series| series.points.len() == 20), "{train:?}");
    assert!(train.notes.contains(&"There is one epoch: training loss is drawn over steps.".to_owned()), "{train:?}");
    assert!(test.is_empty());
    let note = test.notes.last().unwrap();
    assert!(note.starts_with("Test loss after the only epoch, which makes no line: fp32 "), "{note}");
    assert!(note.contains("fp16 "), "{note}");
}

#[test]
fn memory_that_is_the_same_by_every_measure_is_one_bar_and_a_sentence() {
    let mut runs = four();
    let bars = |runs: &[RunSummary]| {
        let chart = of(runs, &Study { form: Form::Memory, ..Study::default() }).charts.remove(0);
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
fn many_lines_are_cut_to_what_can_be_told_apart_and_it_is_said() {
    let cells: Vec<(&str, i64, f64)> =
        ["fp32", "fp16"].into_iter().flat_map(|name| (1..=12).map(move |gpus| (name, gpus, 0.1))).collect();
    let comparison = of(&runs(&cells), &Study { form: Form::Loss, ..Study::default() });
    let chart = &comparison.charts[0];
    assert_eq!(
        (chart.legend().len(), chart.notes[0].as_str()),
        (16, "16 of 24 lines are drawn: filter to see the others.")
    );
    let count_of = |name: &str| chart.series().filter(|series| series.name.starts_with(name)).count();
    assert_eq!((count_of("fp32"), count_of("fp16")), (8, 8));
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
    let own = of(&runs, &Study { measure: Some("step_time_s".into()), ..Study::default() });
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
    let shown = |filter: &str| of(&runs, &Study { filter: filter.to_owned(), ..Study::default() }).cells.len();
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
    let parts = of(&runs, &Study { form: Form::Parts, ..Study::default() });
    let series_of = |name: &str| {
        let series = parts.charts[0].series().find(|series| series.name == name).unwrap();
        series.points[0].value.median
    };
    assert!((series_of("Host waits for data") - 0.005).abs() < 1e-9, "{}", series_of("Host waits for data"));
    assert!((series_of("All else") - 0.095).abs() < 1e-9);
    let colours: Vec<[u8; 3]> = parts.charts[0].series().map(|series| series.look.colour()).collect();
    let is_blue = |[red, green, blue]: &[u8; 3]| blue > red && blue > green;
    assert_eq!(colours.iter().filter(|colour| is_blue(*colour)).count(), 1, "{colours:?}");
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
fn the_table_of_effects_has_effects_as_rows_each_with_its_verdict_and_words() {
    let runs = repeated(&[("fp32", 1, 0.4), ("fp32", 2, 0.25), ("fp16", 1, 0.1), ("fp16", 2, 0.05)], 3);
    let table = table(&[Source { session: "", runs: &runs, reports: &[] }], &preset("effects").unwrap());
    assert_eq!(table.rows.len(), 3, "two main effects and their interaction");
    let csv = render(&table, Format::Csv);
    let head = "effect,change,ratio_median,ratio_low,ratio_high,ratio_n,ratio_method,verdict,verdict_p,verdict_p_holm,\
                verdict_detectable,verdict_equal_within,verdict_reason,verdict_check,groups,words";
    assert_eq!(csv.lines().next(), Some(head));
    let first = csv.lines().nth(1).unwrap();
    assert!(first.starts_with("Precision,fp16 over fp32,4.4") && first.contains(",3,range,faster,"), "{first}");
    assert!(first.contains("fp16 is 4.4") && first.contains(" times as fast as fp32"), "{first}");
    let json: serde_json::Value = serde_json::from_str(&render(&table, Format::Json)).unwrap();
    assert_eq!((&json["rows"][0]["verdict"]["verdict"], json["rows"][0].get("cell")), (&"faster".into(), None));
    assert!(table.notes.iter().any(|note| note.contains("its interval is over repeats")), "{:?}", table.notes);
}

#[test]
fn effects_that_a_design_does_not_tell_apart_are_named_together_in_table_and_figure() {
    let text = "version = 1\nrepeats = 2\n[factors]\nprecision = [\"fp32\", \"fp16\"]\npin_memory = [\"off\", \"on\"]\n\
                layout = [\"nchw\", \"nhwc\"]\n[design]\nkind = \"fraction\"\nruns = 4\n";
    let plan = crate::plan::Plan::parse(text, "p.toml").unwrap();
    let design = plan.first.design.clone().map(std::sync::Arc::new);
    let run = |asked: &crate::plan::AskedCell, repeat: u32| {
        let is_fast = asked.levels.get("precision") == Some(&Level::text("fp16"));
        let step_time_s = if is_fast { 0.005 } else { 0.01 };
        RunSummary { design: design.clone(), ..summarise_run(&fixture::run_of(asked, &plan, repeat, step_time_s)) }
    };
    let asked = crate::plan::asked_cells(&plan);
    let runs: Vec<RunSummary> = asked.iter().flat_map(|asked| [run(asked, 1), run(asked, 2)]).collect();
    let table = table(&[Source { session: "", runs: &runs, reports: &[] }], &preset("effects").unwrap());
    assert_eq!(table.rows.len(), 3, "three main effects, and no interaction alone");
    let texts = |row: usize| -> Vec<String> {
        let text = |value: &CellValue| if let CellValue::Text(text) = value { Some(text.clone()) } else { None };
        table.rows[row].values.iter().filter_map(text).collect()
    };
    let [effect, change, words] = &texts(0)[..] else { panic!("{:?}", texts(0)) };
    assert_eq!(effect, "Precision + pin_memory × Layout");
    assert_eq!(change, "fp16 over fp32 + pin_memory × Layout");
    assert!(
        words.contains("if nothing of this is due to pin_memory × Layout: the design does not tell them apart"),
        "{words}"
    );
    assert!(table.notes.iter().any(|note| note.contains("fitted to the logarithms")), "{:?}", table.notes);
    let tornado = of(&runs, &preset("tornado").unwrap());
    assert!(
        tornado.charts[0].x.categories.iter().all(|name| name.contains(" + ")),
        "{:?}",
        tornado.charts[0].x.categories
    );
}

#[test]
fn a_tornado_ranks_effects_with_interactions_and_interactions_are_lines() {
    let runs = repeated(&[("fp32", 1, 0.4), ("fp32", 2, 0.25), ("fp16", 1, 0.1), ("fp16", 2, 0.05)], 3);
    let tornado = of(&runs, &preset("tornado").unwrap());
    let names = &tornado.charts[0].x.categories;
    assert_eq!(names, &["fp16 over fp32", "2 GPUs over 1", "fp16 × 2 GPUs"]);
    let interactions = of(&runs, &preset("interactions").unwrap());
    let chart = &interactions.charts[0];
    assert_eq!(
        (chart.title.as_str(), &chart.x.categories[..]),
        ("Precision × GPUs", &["fp32".into(), "fp16".into()][..])
    );
    let lines: Vec<(&str, usize)> = chart.series().map(|line| (line.name.as_str(), line.points.len())).collect();
    assert_eq!(lines, [("1 GPU", 2), ("2 GPUs", 2)]);
    let asked = Study {
        rows: Place::Setting("gpus".into()),
        colour: Place::Setting("precision".into()),
        ..preset("interactions").unwrap()
    };
    assert_eq!(of(&runs, &asked).charts[0].title, "GPUs × Precision");
}

#[test]
fn interactions_of_an_incomplete_grid_are_drawn_without_the_level_that_lacks_cells_and_name_it() {
    // The third level has no cell on two GPUs, and two complete pairs of levels remain.
    let times = [("fp32", 1, 0.4), ("fp32", 2, 0.25), ("fp16", 1, 0.1), ("fp16", 2, 0.05), ("bf16", 1, 0.1)];
    let shown = of(&repeated(&times, 3), &preset("interactions").unwrap());
    let chart = &shown.charts[0];
    assert_eq!(chart.x.categories, ["fp32", "fp16"]);
    let lines: Vec<(&str, usize)> = chart.series().map(|line| (line.name.as_str(), line.points.len())).collect();
    assert_eq!(lines, [("1 GPU", 2), ("2 GPUs", 2)]);
    let expected = "Without bf16: cells for some levels of the other factor are missing.";
    assert!(chart.notes.iter().any(|note| note == expected), "{:?}", chart.notes);
}

#[test]
fn without_a_plot_of_interactions_a_note_says_which_cells_are_needed_and_what_to_do() {
    let times = [("fp32", 1, 0.4), ("fp32", 2, 0.25), ("fp16", 1, 0.1)];
    let shown = of(&repeated(&times, 3), &preset("interactions").unwrap());
    assert!(shown.charts[0].is_empty());
    let note = &shown.charts[0].notes[0];
    assert!(note.contains("all four combinations of two levels") && note.contains("Run such cells"), "{note}");
}

#[test]
fn error_bars_mean_one_thing_in_a_picture_and_it_says_which() {
    let cells = [("fp32", 1, 0.4), ("fp16", 1, 0.1)];
    let mut runs = repeated(&cells, 8);
    let note = |runs: &[RunSummary]| of(runs, &Study::default()).charts[0].intervals.clone();
    assert_eq!(note(&runs), "Error bars: 95 % intervals of the median (n = 8).");
    runs.truncate(11);
    let mixed = of(&runs, &Study::default());
    let methods: Vec<_> =
        mixed.charts[0].series().flat_map(|series| &series.points).map(|point| point.value.method).collect();
    assert_eq!(methods, [Method::Range; 2]);
    let expected = "Error bars: range of repeats (n = 3 to 8), which holds the true median in 75 to 99.22 % of cases.";
    assert_eq!(mixed.charts[0].intervals, expected);
    // The table keeps the narrower interval and names its method.
    assert!(mixed.table.notes.iter().any(|note| note.contains("of 8 repeats, by order statistics")));
    assert_eq!(note(&repeated(&cells, 1)), "");
}

#[test]
fn verdicts_are_of_the_whole_table_and_the_baseline_has_none() {
    let runs = repeated(&[("fp32", 1, 0.4), ("fp32", 2, 0.3995), ("fp16", 1, 0.1), ("bf16", 1, 0.1)], 4);
    let table = of(&runs, &Study::default()).table;
    let place = table.columns.iter().position(|column| column.key == "verdict").unwrap();
    assert_eq!(table.columns[place - 1].key, "ratio");
    let texts: Vec<String> =
        table
            .rows
            .iter()
            .map(|row| {
                if let CellValue::Verdict(judged) = &row.values[place] { judged.to_string() } else { "–".to_owned() }
            })
            .collect();
    assert_eq!((texts[0].as_str(), texts[2].as_str(), texts[3].as_str()), ("–", "faster", "faster"), "{texts:?}");
    assert!(texts[1].starts_with("undecided: with "), "{texts:?}");
    assert!(table.notes.iter().any(|note| note.contains("over all 3 comparisons (Holm)")), "{:?}", table.notes);
    let wide = Study { equal_within: 0.2, ..Study::default() };
    let csv = render(&of(&runs, &wide).table, Format::Csv);
    assert!(csv.lines().nth(2).unwrap().contains(",equal,"), "{csv}");
}

#[test]
fn the_fastest_cell_within_limits_is_named_with_those_not_told_apart() {
    let mut runs = repeated(&[("fp32", 1, 0.4), ("fp32", 2, 0.25), ("fp16", 1, 0.1), ("fp16", 2, 0.099)], 3);
    for run in runs.iter_mut().filter(|run| run.cell.starts_with("fp32-1")) {
        run.values.insert("peak_device_bytes".into(), 4e9);
    }
    let sentence_for = |memory_gb: Option<f64>, accuracy: Option<f64>| {
        let limits = Limits { memory_bytes: memory_gb.map(|gb| gb * 1e9), accuracy };
        of(&runs, &Study { limits, measure: Some("epoch_time_s".into()), ..Study::default() }).fastest
    };
    assert_eq!(sentence_for(None, None), None);
    let all = sentence_for(Some(20.0), Some(0.9)).unwrap();
    assert!(all.starts_with("fastest with memory ≤ 20.0 GB, accuracy ≥ 90.0 %: fp16 · "), "{all}");
    assert!(all.contains("; not distinguishable from it: fp16 · "), "{all}");
    let small = sentence_for(Some(5.0), None).unwrap();
    assert_eq!(small, "fastest with memory ≤ 5.00 GB: fp32 · 1 GPU (epoch time 4.12 s); 3 cells outside the limits");
    assert_eq!(
        sentence_for(None, Some(0.99)).as_deref(),
        Some("no cell keeps to accuracy ≥ 99.0 %; 4 cells outside the limits")
    );
}

#[test]
fn the_pareto_front_is_of_time_memory_and_energy() {
    let mut runs = repeated(&[("fp32", 1, 0.4), ("fp32", 2, 0.25), ("fp16", 1, 0.1), ("fp16", 2, 0.3)], 2);
    let set = |runs: &mut Vec<RunSummary>, cell: &str, gb: f64, energy_j: f64| {
        for run in runs.iter_mut().filter(|run| run.cell.starts_with(cell)) {
            run.values.insert("peak_device_bytes".into(), gb * 1e9);
            run.values.insert("energy_j".into(), energy_j);
        }
    };
    set(&mut runs, "fp32-1", 2.0, 100.0);
    set(&mut runs, "fp32-2", 9.0, 50.0);
    set(&mut runs, "fp16-1", 5.0, 200.0);
    set(&mut runs, "fp16-2", 6.0, 300.0);
    let pareto = of(&runs, &preset("pareto").unwrap());
    assert_eq!(
        pareto.charts.iter().map(|chart| chart.x.name.as_str()).collect::<Vec<_>>(),
        ["Peak on the device", "Energy"]
    );
    let place = pareto.table.columns.iter().position(|column| column.key == "front").unwrap();
    let names: Vec<String> = pareto
        .table
        .rows
        .iter()
        .map(|row| if let CellValue::Text(text) = &row.values[place] { text.clone() } else { String::new() })
        .collect();
    // The second cell is on the front because it uses little energy; the third beats the fourth in everything. The losses of these runs
    // depend on the number of GPUs.
    let other_work = "on the front, but training loss differs: 0.250 against 0.275 in fp16 · 2 GPUs";
    assert_eq!(names, [other_work, "on the front", other_work, "bettered"]);
    let front = pareto.charts[0].series().find(|series| series.role == Role::Ideal).unwrap();
    assert_eq!(front.points.iter().map(|point| point.x).collect::<Vec<_>>(), [2.0, 5.0, 5.0]);
    assert!(
        pareto.charts[0].notes[0]
            .starts_with("3 of 4 cells are on the front of training time, peak on the device, energy")
    );
}

#[test]
fn outliers_are_named_with_their_marks_and_stay_in_the_values() {
    let mut runs = repeated(&[("fp32", 1, 0.4), ("fp16", 1, 0.1)], 6);
    runs[5].values.insert("epoch_time_s".into(), 12.0);
    runs[5].marks.push(crate::analysis::Mark::Throttled(vec!["sw_power_cap".to_owned()]));
    let table = of(&runs, &Study { measure: Some("epoch_time_s".into()), ..Study::default() }).table;
    let note = table.notes.iter().find(|note| note.starts_with("outlier")).unwrap();
    assert!(
        note.starts_with(
            "outlier, kept in all values: fp32-1-ddp-ds-r6: epoch time 12.0 s (its cell's median: 4.10 s)"
        ),
        "{note}"
    );
    assert!(note.ends_with("; throttled"), "{note}");
    let column = table.columns.iter().position(|column| column.key == "epoch_time_s").unwrap();
    assert!(matches!(&table.rows[0].values[column], CellValue::Measure(value) if value.n == 6));
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
        let comparison = of(runs, &Study::default());
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
    let asked = of(&with_steps, &Study { measure: Some("bandwidth".into()), ..Study::default() });
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
    let auto = of(&without_the_first(), &Study::default());
    let names: Vec<&str> = auto.charts[0].legend().iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["1 GPU", "2 GPUs"], "the first cell that is there is of two");
    let study =
        Study { rows: Place::Setting("gpus".into()), colour: Place::Setting("precision".into()), ..Study::default() };
    let turned = of(&without_the_first(), &study);
    assert_eq!(turned.charts[0].x.categories, ["1 GPU", "2 GPUs"]);
    let columns = Study { columns: Place::Setting("gpus".into()), ..Study::default() };
    let columns = of(&without_the_first(), &columns);
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
    let bars = of(&runs, &Study::default());
    assert_eq!(bars.charts[0].x.categories, ["fp32", "fp16"], "no room is left for what is not there");
    let points: Vec<f64> = bars.charts[0].series().flat_map(|series| &series.points).map(|point| point.x).collect();
    assert!(points.iter().all(|x| [0.0, 1.0].contains(x)), "{points:?}");
    let note = "Without a bar: fp64 · 1 GPU (timed out).";
    assert!(bars.charts[0].notes.iter().any(|known| known == note), "{:?}", bars.charts[0].notes);
    assert!(bars.charts[0].legend().iter().all(|series| !series.points.is_empty()));
}

#[test]
fn of_too_many_lines_the_foremost_cell_is_drawn() {
    let runs: Vec<RunSummary> =
        (1..=40).map(|gpus| summarise_run(&fixture::run(&fixture::cell("fp32", gpus, "single"), 1, 0.1))).collect();
    let study = Study { form: Form::Loss, ..Study::default() };
    let draws = |comparison: &Comparison, key: &CellKey| {
        let mut points = comparison.charts[0].series().flat_map(|series| &series.points);
        points.any(|point| point.cell.as_ref() == Some(key))
    };
    let plain = of(&runs, &study);
    let last = plain.cells.last().unwrap().0.clone();
    assert!(!draws(&plain, &last), "{} lines are drawn", plain.charts[0].series().count());
    let chosen = compare_with(&[Source { session: "", runs: &runs, reports: &[] }], &study, Some(&last));
    assert!(draws(&chosen, &last));
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
    let comparison = of(&runs, &study);
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
    let comparison = of(&all, &preset("trace-cost").unwrap());
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
    let one = of(&all, &preset("trace-cost").unwrap());
    let names: Vec<&str> = one.charts[0].series().map(|series| &*series.name).collect();
    assert_eq!(names, ["Trace off", "Trace built-in"], "one tracer is named too");
    all.retain(|run| run.recording == Recording::Plain);
    let none = of(&all, &preset("trace-cost").unwrap());
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
    let activity = of(&runs, &Study { form: Form::Activity, ..Study::default() });
    assert_eq!(activity.charts[0].panels.len(), 8);
    let drawing_note = "8 of 12 cells are drawn, without 9 GPUs; 10 GPUs; 11 GPUs; 12 GPUs: filter to see these.";
    assert!(activity.charts[0].notes.iter().any(|note| note == drawing_note), "{:?}", activity.charts[0].notes);
}
