//! What is said of cells: verdicts, error bars, outliers, the fastest within limits, the front, and what learns something else.

use super::*;
use crate::figure::Limits;

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
fn error_bars_mean_one_thing_in_a_picture_and_it_says_which() {
    let cells = [("fp32", 1, 0.4), ("fp16", 1, 0.1)];
    let mut runs = repeated(&cells, 8);
    let note = |runs: &[RunSummary]| compared(runs, &Study::default()).charts[0].intervals.clone();
    assert_eq!(note(&runs), "Error bars: 95 % intervals of the median (n = 8).");
    runs.truncate(11);
    let mixed = compared(&runs, &Study::default());
    let methods: Vec<_> =
        mixed.charts[0].series().flat_map(|series| &series.points).map(|point| point.value.method).collect();
    assert_eq!(methods, [Method::Range; 2]);
    let expected = "Error bars: range of repeats (n = 3 to 8), which holds the true median in 75 to 99.22 % of cases.";
    assert_eq!(mixed.charts[0].intervals, expected);
    // The table keeps the narrower interval and names its method.
    assert!(mixed.table.notes.iter().any(|note| note.contains("of 8 repeats, by order statistics")));
    let once = repeated(&cells, 1);
    assert_eq!(note(&once), "No error bars: n = 1, and a single repeat has no interval.");
    let more = [once, repeated(&[("bf16", 1, 0.1), ("fp64", 1, 0.8)], 3)].concat();
    let some = "Error bars: range of repeats (n = 3), which holds the true median in 75 % of cases. 2 of 4 values have n = 1 and no \
                interval.";
    assert_eq!(note(&more), some);
    // It stands below the picture on paper, too.
    let drawn = crate::figure::figure(&[Source { session: "", runs: &more, reports: &[] }], &Study::default()).unwrap();
    assert!(drawn.notes().iter().any(|note| note == some), "{:?}", drawn.notes());
}

#[test]
fn verdicts_are_of_the_whole_table_and_the_baseline_has_none() {
    let runs = repeated(&[("fp32", 1, 0.4), ("fp32", 2, 0.3995), ("fp16", 1, 0.1), ("bf16", 1, 0.1)], 4);
    let table = compared(&runs, &Study::default()).table;
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
    let csv = render(&compared(&runs, &wide).table, Format::Csv);
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
        compared(&runs, &Study { limits, measure: Some("epoch_time_s".into()), ..Study::default() }).fastest
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
    let pareto = compared(&runs, &preset("pareto").unwrap());
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
    let note = &pareto.charts[0].notes[0];
    assert!(
        note.starts_with("Pareto front: 3 of 4 cells.") && note.contains("training time, peak on the device, energy"),
        "{note}"
    );
}

#[test]
fn outliers_are_named_with_their_marks_and_stay_in_the_values() {
    let mut runs = repeated(&[("fp32", 1, 0.4), ("fp16", 1, 0.1)], 6);
    runs[5].values.insert("epoch_time_s".into(), 12.0);
    runs[5].marks.push(crate::analysis::Mark::Throttled(vec!["sw_power_cap".to_owned()]));
    let table = compared(&runs, &Study { measure: Some("epoch_time_s".into()), ..Study::default() }).table;
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
fn a_table_of_values_that_are_not_above_0_says_why_it_has_no_verdicts() {
    let mut runs = repeated(&[("fp32", 1, 0.4), ("fp16", 1, 0.1)], 3);
    for run in &mut runs {
        run.values.insert("train_loss".into(), -100.0 - f64::from(run.repeat));
    }
    let notes = compared(&runs, &Study { measure: Some("train_loss".into()), ..Study::default() }).table.notes;
    assert!(notes.contains(&"verdicts: none, because ratios need values above 0".to_owned()), "{notes:?}");
    let why = "not comparable in 1 row: ratios need values above 0; compare a formula";
    assert!(notes.iter().any(|note| note.starts_with(why)), "{notes:?}");
}
