#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use super::*;
use crate::analysis::{Environment, Mark, Method, RunSummary, Source, Value, fixture, summarise_run};
use crate::figure::preset;
use crate::papers::artefact;
use crate::plan::{Level, asked_cells};

/// The table of a preset with this baseline.
fn of_preset(name: &str, runs: &[RunSummary], baseline: Option<&str>) -> Table {
    let study = Study { baseline: baseline.map(str::to_owned), ..preset(name).unwrap() };
    crate::figure::table(&[Source { session: "", runs, reports: &[] }], &study)
}

fn runs(steps: &[(&str, i64, u32, f64)]) -> Vec<RunSummary> {
    let run = |(precision, gpus, repeat, step_time_s): &(&str, i64, u32, f64)| {
        summarise_run(&fixture::run(&fixture::cell(precision, *gpus, "ddp-ds"), *repeat, *step_time_s))
    };
    steps.iter().map(run).collect()
}

fn value(table: &Table, row: usize, key: &str) -> Option<Value> {
    let column = table.columns.iter().position(|column| column.key == key).unwrap();
    match &table.rows[row].values[column] {
        CellValue::Measure(value) => Some(*value),
        _ => None,
    }
}

#[test]
fn repeats_of_a_cell_are_joined_whatever_their_order() {
    let runs = runs(&[("fp16", 1, 2, 0.03), ("fp32", 1, 1, 0.04), ("fp16", 1, 1, 0.01), ("fp16", 1, 3, 0.02)]);
    let table = of_preset("times", &runs, None);
    assert_eq!(table.rows.len(), 2);
    let step = value(&table, 1, "step_time_s").unwrap();
    assert_eq!((step.median, step.n, step.method), (0.02, 3, Method::Range));
    assert_eq!(value(&table, 0, "step_time_s").unwrap().interval, None);
}

#[test]
fn the_speedup_is_over_the_first_row_unless_another_is_named() {
    let runs = runs(&[("fp32", 1, 1, 0.04), ("fp16", 1, 1, 0.01)]);
    let speedup = |baseline, row| value(&of_preset("times", &runs, baseline), row, "ratio");
    assert_eq!(speedup(None, 0).unwrap().median, 1.0);
    assert!((speedup(None, 1).unwrap().median - 4.0).abs() < 1e-9);
    for baseline in ["fp16-1-ddp-ds", "precision=fp16", "precision = fp16, gpus = 1"] {
        assert!((speedup(Some(baseline), 0).unwrap().median - 0.25).abs() < 1e-9, "{baseline}");
    }
}

#[test]
fn the_papers_efficiency_is_over_the_cell_that_differs_in_one_factor_alone() {
    // A run takes 100 steps in total.
    let steps = [("fp64", 1, 1, 0.08), ("fp32", 1, 1, 0.04), ("fp32", 2, 1, 0.025), ("fp64", 2, 1, 0.04)];
    let table = of_preset("2503.15252/table-2", &runs(&steps), None);
    let ratio = |cell: &str, key| {
        let row = table.rows.iter().position(|row| row.cell == cell).unwrap();
        value(&table, row, key).map(|value| (value.median * 1000.0).round() / 1000.0)
    };
    assert_eq!(ratio("fp64-1-ddp-ds", "speedup_over_1_gpu"), Some(1.0));
    assert_eq!(ratio("fp32-2-ddp-ds", "speedup_over_1_gpu"), Some(1.6));
    assert_eq!(ratio("fp32-2-ddp-ds", "speedup_over_fp64"), Some(1.6));
    assert_eq!(ratio("fp32-1-ddp-ds", "speedup_over_fp64"), Some(2.0));
    let column = table.columns.iter().find(|column| column.key == "speedup_over_1_gpu").unwrap();
    assert_eq!((&*column.name, &*column.shown_unit, column.shown_factor), ("Efficiency compare to 1 GPU", "%", 100.0));
    assert!(
        table.notes.iter().any(|note| note.contains("with precision = fp64, all else being equal")),
        "{:?}",
        table.notes
    );
    // Without a baseline cell there is no ratio.
    let alone = of_preset("2503.15252/table-2", &runs(&[("fp32", 2, 1, 0.025)]), None);
    assert_eq!(value(&alone, 0, "speedup_over_1_gpu"), None);
}

#[test]
fn fp64_is_the_sibling_of_an_fp32_cell_whatever_its_tf32() {
    let plan = artefact("2503.15252/table-2").unwrap().plan().unwrap();
    let times = [("fp64", 0.4), ("fp32", 0.25), ("fp16", 0.16)];
    let of_one_gpu = asked_cells(plan).into_iter().filter(|cell| cell.levels.get("gpus") == Some(&Level::Integer(1)));
    let runs: Vec<RunSummary> = of_one_gpu
        .zip(times)
        .map(|(cell, (_, time_s))| summarise_run(&fixture::run_of(&cell, plan, 1, time_s)))
        .collect();
    let tf32: Vec<String> = runs.iter().map(|run| run.levels.get("tf32").unwrap().to_string()).collect();
    assert_eq!(tf32, ["off", "conv", "off"], "it means nothing but in fp32");
    let table = of_preset("2503.15252/table-2", &runs, None);
    for row in 0..3 {
        let precision = table.rows[row].levels.get("precision").unwrap().to_string();
        let time_s = times.iter().find(|(known, _)| *known == precision).unwrap().1;
        let ratio = value(&table, row, "speedup_over_fp64").unwrap().median;
        assert!((ratio - 0.4 / time_s).abs() < 1e-9, "{precision}: {ratio}");
    }
}

#[test]
fn a_baseline_of_each_holds_each_cell_against_the_one_that_is_alike_in_all_else() {
    let runs = runs(&[("fp32", 1, 1, 0.04), ("fp32", 2, 1, 0.06), ("fp16", 1, 1, 0.01), ("fp16", 2, 1, 0.02)]);
    let study = Study { baseline: Some("each precision=fp32".to_owned()), ..Study::default() };
    let table = crate::figure::table(&[Source { session: "", runs: &runs, reports: &[] }], &study);
    let ratio = |row| (value(&table, row, "ratio").unwrap().median * 10.0).round() / 10.0;
    assert_eq!([0, 1, 2, 3].map(ratio), [1.0, 1.0, 4.0, 3.0]);
    let note = "ratio: training time with precision = fp32, all else equal, over that of the row; above 1 is faster";
    assert!(table.notes.iter().any(|known| known == note), "{:?}", table.notes);
}

#[test]
fn a_baseline_that_matches_no_cell_leaves_speedups_out_and_says_so() {
    let table = of_preset("times", &runs(&[("fp32", 1, 1, 0.04)]), Some("precision=fp8"));
    assert_eq!(value(&table, 0, "ratio"), None);
    assert!(table.notes.iter().any(|note| note.contains("\"precision=fp8\" matches no cell")), "{:?}", table.notes);
}

/// Cells of these precisions at two commits. The second commit is twice as fast, and fp16 twice as fast as fp32.
fn at_two_commits(precisions: &[&str]) -> Vec<RunSummary> {
    let run = |precision: &str, commit: u32| {
        let at_first_s = if precision == "fp16" { 0.02 } else { 0.04 };
        let cell = fixture::cell(precision, 1, "ddp-ds");
        let mut record = fixture::run(&cell, commit, at_first_s / f64::from(commit));
        let mut environment = Environment::default();
        environment.set("program_git", Some(format!("c{commit}")));
        record.environment = Some(Arc::new(environment));
        record.started_time_s = Some(1_000.0 * f64::from(commit));
        summarise_run(&record)
    };
    precisions.iter().flat_map(|precision| [run(precision, 1), run(precision, 2)]).collect()
}

/// The ratios of a table, from the top, and its note on them.
fn ratios(runs: &[RunSummary], baseline: Option<&str>) -> (Vec<f64>, String) {
    let table = of_preset("times", runs, baseline);
    let ratios = (0..table.rows.len()).filter_map(|row| Some(value(&table, row, "ratio")?.median));
    let note = table.notes.iter().find(|note| note.starts_with("ratio:")).unwrap();
    (ratios.map(|ratio| (100.0 * ratio).round() / 100.0).collect(), note.clone())
}

#[test]
fn speedups_of_commits_of_one_cell_are_over_one_of_them_which_the_note_names() {
    let runs = at_two_commits(&["fp32"]);
    let (first, note) = ratios(&runs, None);
    assert_eq!(first, [1.0, 2.0]);
    assert!(note.contains("made_with = Program's git commit c1"), "{note}");
    let (named, note) = ratios(&runs, Some("commit=c2"));
    assert_eq!(named, [0.5, 1.0]);
    assert!(note.contains("made_with = Program's git commit c2"), "{note}");
}

#[test]
fn speedups_of_several_cells_are_within_a_commit_unless_the_baseline_names_one() {
    let runs = at_two_commits(&["fp32", "fp16"]);
    for baseline in [None, Some("precision=fp32"), Some("fp32-1-ddp-ds")] {
        let (within, note) = ratios(&runs, baseline);
        assert_eq!(within, [1.0, 1.0, 2.0, 2.0], "{baseline:?}");
        assert!(note.contains("of precision = fp32, made with the same as the row (made_with) over"), "{note}");
    }
    let (named, note) = ratios(&runs, Some("precision=fp32,commit=c1"));
    assert_eq!(named, [1.0, 2.0, 2.0, 4.0]);
    assert!(!note.contains("as the row (made_with)") && note.contains("c1"), "{note}");
    // fp32 was not measured at the second commit.
    let (partly, note) = ratios(&[&runs[..1], &runs[2..]].concat(), Some("precision=fp32"));
    assert_eq!(partly, [1.0, 2.0, 4.0]);
    assert!(note.contains(", or else with Program's git commit c1 over"), "{note}");
}

#[test]
fn a_measure_of_the_table_that_is_also_drawn_has_one_column() {
    let runs = runs(&[("fp32", 1, 1, 0.04), ("fp16", 1, 1, 0.01)]);
    let measures = vec!["step_time_s".into(), "runs".into()];
    let study = Study { measures, measure: Some("step_time_s".into()), ..preset("times").unwrap() };
    let table = crate::figure::table(&[Source { session: "", runs: &runs, reports: &[] }], &study);
    assert_eq!(table.columns.iter().filter(|column| column.key == "step_time_s").count(), 1);
}

#[test]
fn runs_that_did_not_finish_enter_no_value_and_are_named() {
    let mut runs = runs(&[("fp32", 1, 1, 0.04), ("fp32", 1, 2, 0.02), ("fp16", 1, 1, 0.01)]);
    runs[1].state = RunState::Queued;
    runs[2].state = RunState::TimedOut;
    runs[2].marks.push(Mark::Failed("timed out: after 10 s".to_owned()));
    let table = of_preset("loss", &runs, None);
    assert_eq!(value(&table, 0, "train_loss").unwrap().n, 1);
    assert_eq!(table.rows[0].marks, ["1 queued"]);
    let last = table.rows.last().unwrap();
    assert_eq!((last.cell.as_str(), last.marks.as_slice()), ("fp16-1-ddp-ds", &["1 timed out".to_owned()][..]));
    let expected = "2 runs are not in the values: fp32-1-ddp-ds-r2 queued; fp16-1-ddp-ds-r1 timed out: after 10 s";
    assert_eq!(table.notes.last().unwrap(), expected);
}

#[test]
fn the_loss_table_has_a_row_for_each_cell_and_epoch() {
    let table = of_preset("loss", &runs(&[("fp32", 1, 1, 0.04), ("fp16", 1, 1, 0.01)]), None);
    assert_eq!(table.rows.len(), 4);
    assert_eq!(value(&table, 1, "accuracy").unwrap().median, 0.95);
    assert_eq!(value(&table, 2, "test_loss").unwrap().median, 0.4);
}

#[test]
fn the_tables_of_a_program_have_speedups_and_verdicts_by_the_time_that_it_has() {
    let text = "version = 1\n[command]\nrun = [\"x\", \"{batch_size}\"]\n[factors]\nbatch_size = [8, 16]\n";
    let spec = crate::plan::Plan::parse(text, "own.toml").unwrap().first.spec;
    let run = |batch_size: i64, repeat: u32, step_time_s: f64| {
        let cell = fixture::cell("fp32", 1, "ddp-ds");
        let mut record = fixture::run(&cell, repeat, step_time_s);
        record.workload = spec.clone();
        record.cell = format!("batch-{batch_size}");
        record.levels = crate::plan::Levels::new(vec![("batch_size", Level::Integer(batch_size))]);
        record.ranks[0].readings.clear();
        // It reports no units, so it has no throughput.
        record.ranks[0].steps.iter_mut().for_each(|step| step.units = 0);
        summarise_run(&record)
    };
    let repeats = |batch_size, step_time_s: f64| {
        (1..=6).map(move |repeat: u32| (batch_size, repeat, step_time_s * (1.0 + 0.001 * f64::from(repeat % 3))))
    };
    let runs: Vec<RunSummary> =
        repeats(8, 0.04).chain(repeats(16, 0.02)).map(|(batch, repeat, time_s)| run(batch, repeat, time_s)).collect();
    for measure in [None, Some("step_time_s")] {
        let study =
            Study { measure: measure.map(Into::into).or(preset("times").unwrap().measure), ..preset("times").unwrap() };
        let table = crate::figure::table(&[Source { session: "", runs: &runs, reports: &[] }], &study);
        let ratio = value(&table, 1, "ratio").unwrap().median;
        assert!((ratio - 2.0).abs() < 0.01, "{measure:?}: {ratio}");
        let column = |key: &str| table.columns.iter().position(|column| column.key == key).unwrap();
        let CellValue::Verdict(judged) = &table.rows[1].values[column("verdict")] else { panic!("{measure:?}") };
        assert_eq!(judged.verdict.name(), "faster");
        assert!(
            table.columns[column("ratio")].name.starts_with("Speed-up by "),
            "{:?}",
            table.columns[column("ratio")]
        );
        assert_eq!(table.columns[column("batch_size")].unit, "", "they are no images");
        // Without a throughput, nothing says what a speed-up by throughput is over.
        assert!(!table.notes.iter().any(|note| note.starts_with("speed-up: ")), "{:?}", table.notes);
    }
}

#[test]
fn a_table_of_no_runs_says_so() {
    let table = of_preset("memory", &[], None);
    assert_eq!((table.rows.len(), table.notes), (0, vec!["no runs".to_owned()]));
}

/// One repeat of fp64 and fp16 in nchw at 100 px, with the values of tests/records/2026-11-21-h200-precision-layout-pin.json: one epoch
/// with steps of 12.54 and 8.87 ms. The whole runs took 4.53 and 10.11 s, mostly for cuDNN's trials.
fn short_runs() -> Vec<RunSummary> {
    let short = |precision: &str, step_time_s: f64, epoch_time_s: f64, total_time_s: f64| {
        let mut record = fixture::run(&fixture::cell(precision, 1, "single"), 1, step_time_s);
        record.ended_time_s = record.started_time_s.map(|started| started + total_time_s);
        let rank = &mut record.ranks[0];
        rank.steps.iter_mut().for_each(|step| step.epoch = 1);
        rank.readings.retain(|reading| reading.epoch != Some(2));
        *fixture::reading(rank, "epoch_time_s", 1) = epoch_time_s;
        summarise_run(&record)
    };
    vec![short("fp64", 0.012_538, 3.234, 4.534), short("fp16", 0.008_865, 7.831, 10.110)]
}

#[test]
fn ratios_of_short_runs_are_those_of_their_steady_steps_and_not_of_their_trials() {
    let table = of_preset("2503.15252/table-2", &short_runs(), None);
    let fp16 = table.rows.iter().position(|row| row.cell.starts_with("fp16")).unwrap();
    let speedup = value(&table, fp16, "speedup_over_fp64").unwrap().median;
    // With total times it would be 44.8 %.
    assert!((speedup - 1.414).abs() < 1e-3, "{speedup}");
}

#[test]
fn only_tables_with_epoch_times_say_that_these_include_the_warm_up() {
    let runs = short_runs();
    assert!(runs.iter().all(|run| run.marks.contains(&Mark::IncludesWarmUp)));
    for (measure, says) in [("training_time_s", false), ("epoch_time_s", true)] {
        let study = Study { measures: vec![measure.into()], ..preset("memory").unwrap() };
        let table = crate::figure::table(&[Source { session: "", runs: &runs, reports: &[] }], &study);
        let label = "includes warm-up";
        assert!(table.rows.iter().all(|row| row.shown_marks().contains(&label) == says), "{measure}");
        assert_eq!(table.notes.iter().any(|note| note.starts_with(label)), says, "{measure}: {:?}", table.notes);
    }
}

#[test]
fn the_usual_chart_of_one_epoch_draws_training_time_without_trials() {
    let runs = short_runs();
    let comparison = crate::figure::compare(&[Source { session: "", runs: &runs, reports: &[] }], &Study::default());
    let points: Vec<_> = comparison.charts[0].series().flat_map(|series| series.points.clone()).collect();
    let row_of = |precision: &str| {
        let of_cell = |point: &crate::figure::chart::Point| {
            point.cell.as_ref().is_some_and(|cell| cell.cell.starts_with(precision))
        };
        points.iter().find(|point| of_cell(point)).unwrap().value.median
    };
    let (fp64, fp16) = (row_of("fp64"), row_of("fp16"));
    assert!((fp64 / fp16 - 1.414).abs() < 1e-3, "fp64 {fp64} s, fp16 {fp16} s");
}

#[test]
fn of_many_runs_that_did_not_finish_some_are_named_and_the_others_counted() {
    let mut runs: Vec<RunSummary> = (1..=38).flat_map(|repeat| runs(&[("fp32", 1, repeat, 0.04)])).collect();
    runs[1..].iter_mut().for_each(|run| run.state = RunState::Cancelled);
    let note = of_preset("loss", &runs, None).notes.pop().unwrap();
    assert!(note.starts_with("37 runs are not in the values: fp32-1-ddp-ds-r2 cancelled; "), "{note}");
    assert!(note.ends_with(" and 33 more") && note.len() < 200, "{note}");
}

#[test]
fn training_that_seems_to_take_longer_than_the_run_is_explained() {
    let mut runs = runs(&[("fp32", 1, 1, 0.04), ("fp16", 1, 1, 0.01)]);
    let says = |runs: &[RunSummary]| {
        let notes = of_preset("times", runs, None).notes;
        notes.into_iter().find(|note| note.starts_with("training time is longer than the total time"))
    };
    assert_eq!(says(&runs), None);
    runs[0].values.insert("total_time_s".into(), 0.1);
    let note = says(&runs).unwrap();
    assert!(note.contains(" in 1 row: ") && note.ends_with("the steps before these were shorter"), "{note}");
    runs[0].marks.push(Mark::Quick { steps: 5, planned: 20 });
    assert_eq!(says(&runs), None, "the mark says why");
}

#[test]
fn results_that_were_looked_at_again_say_what_counts_as_a_look() {
    let mut runs = runs(&[("fp32", 1, 1, 0.04), ("fp16", 1, 1, 0.01), ("fp32", 1, 2, 0.041), ("fp16", 1, 2, 0.0101)]);
    let says = |runs: &[RunSummary]| {
        let is_said = |note: &String| note.starts_with("the results count as looked at 2 times (launches that added");
        of_preset("times", runs, None).notes.iter().any(is_said)
    };
    assert!(!says(&runs));
    runs[2..].iter_mut().for_each(|run| run.launch = "p2".to_owned());
    assert!(says(&runs));
}

#[test]
fn imported_step_times_alone_are_not_said_to_be_without_warm_up() {
    let mut runs = at_two_commits(&["fp32", "fp16"]);
    let says = |runs: &[RunSummary]| {
        let table = of_preset("times", runs, None);
        assert!(table.columns.iter().any(|column| &*column.key == "step_time_s"));
        table.notes.iter().any(|note| note.contains("warm-up steps are left out"))
    };
    let import = |run: &mut RunSummary| {
        let mut environment = Environment::default();
        environment.set(crate::analysis::IMPORTED_FROM, Some("other.csv (CSV)"));
        run.environment = Some(Arc::new(environment));
    };
    assert!(says(&runs));
    runs[..2].iter_mut().for_each(import);
    assert!(says(&runs), "it is true of the others");
    runs.iter_mut().for_each(import);
    assert!(!says(&runs));
}

#[test]
fn a_note_on_bytes_stands_only_where_the_table_has_values_in_gb() {
    let has = |table: &Table, part: &str| table.notes.iter().any(|note| note.contains(part));
    let mut alike = runs(&[("fp32", 1, 1, 0.02), ("fp16", 1, 1, 0.01)]);
    let table = of_preset("memory", &alike, None);
    assert!(has(&table, "held: ") && has(&table, "1 GB is 10^9 bytes; peaks are"), "{:?}", table.notes);
    alike.iter_mut().for_each(|run| run.values.retain(|key, _| !key.contains("peak")));
    let without = of_preset("memory", &alike, None);
    assert!(!has(&without, "1 GB is"), "{:?}", without.notes);
}

#[test]
fn a_table_whose_levels_do_not_show_that_fp32_is_computed_in_tf32_has_a_note_of_it() {
    let table = |precision: &str, levels: &[&str], device: &str| {
        let run = |tf32: &&str| {
            let mut record = fixture::run(&fixture::cell(precision, 1, "single"), 1, 0.01);
            record.cell = format!("{precision}-{tf32}");
            record.run = format!("{precision}-{tf32}-r1");
            let changed = [("precision", Level::text(precision)), ("tf32", Level::text(tf32))];
            record.levels = record.workload.levels(&changed);
            RunSummary { device: Some(device.into()), ..summarise_run(&record) }
        };
        of_preset("times", &levels.iter().map(run).collect::<Vec<_>>(), None)
    };
    let note = "fp32 is not strict: with tf32 = conv, GPUs may multiply its numbers in TF32".to_owned();
    let default = table("fp32", &["conv"], "NVIDIA H200");
    assert!(default.notes[..2].contains(&note) && default.lead.contains(&note), "{:?}", default.notes);
    for (precision, levels, device) in [
        ("fp32", ["off"].as_slice(), "NVIDIA H200"),
        ("fp32", &["off", "conv"], "NVIDIA H200"),
        ("fp16", &["conv"], "NVIDIA H200"),
        ("fp32", &["conv"], "cpu"),
    ] {
        let notes = table(precision, levels, device).notes;
        assert!(!notes.contains(&note), "{precision} {levels:?} {device}: {notes:?}");
    }
}
