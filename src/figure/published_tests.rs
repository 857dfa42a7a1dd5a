//! Published beside measured: what is missing, what deviates, and the papers' own columns and order.
#![allow(clippy::unwrap_used)]

use crate::analysis::{RunSummary, Source, fixture};
use crate::figure::{CellValue, Table, figure, preset, table};
use crate::papers::artefact;
use crate::plan::{Data, Level, Mode, Plan};

/// The plan of a table with other levels of one of its factors.
fn plan_with(id: &str, key: &str, levels: &[Level]) -> Plan {
    let mut plan = artefact(id).unwrap().plan().unwrap().clone();
    let factor = plan.first.factors.iter_mut().find(|(known, _)| *known == *key).unwrap();
    factor.1 = levels.to_vec();
    plan
}

/// The table's cells on one GPU, with an image size that differs from the paper's.
fn on_digits(mode: Mode) -> Vec<RunSummary> {
    let mut plan = plan_with("2503.15252/table-2", "gpus", &[Level::Integer(1)]);
    plan.first.set_data(Data::of_set("digits"));
    fixture::runs_of(&Plan { mode, ..plan })
}

fn table_of(runs: &[RunSummary], id: &str) -> Table {
    table(&[Source { session: "", runs, reports: &[] }], &preset(id).unwrap())
}

fn place(table: &Table, key: &str) -> usize {
    table.columns.iter().position(|column| column.key == *key).unwrap_or_else(|| panic!("{key}"))
}

fn median(table: &Table, row: usize, key: &str) -> Option<f64> {
    let value = &table.rows[row].values[place(table, key)];
    if let CellValue::Measure(value) = value { Some(value.median) } else { None }
}

const QUICK: Mode = Mode::Quick { step_precision: Mode::STEP_PRECISION };

#[test]
fn cells_that_are_here_with_other_settings_are_not_called_missing() {
    let table = table_of(&on_digits(QUICK), "2503.15252/table-2");
    let lead = table.lead.join("\n");
    assert!(table.lead[0].starts_with("9 of the 12 cells of 2503.15252 Table 2 are missing"), "{lead}");
    assert!(
        table.lead[1].starts_with("3 of the 12 cells of 2503.15252 Table 2 are here with other settings"),
        "{lead}"
    );
    assert!(lead.contains("data = digits rather than mnist"), "{lead}");
    assert!(table.lead.iter().all(|note| table.notes.contains(note)), "{lead}");
    // If all cells have full runs, the note is empty.
    let mut plan = artefact("2503.15252/table-2").unwrap().plan().unwrap().clone();
    plan.first.set_data(Data::of_set("digits"));
    let all = table_of(&fixture::runs_of(&plan), "2503.15252/table-2");
    assert!(all.lead[0].starts_with("all 12 cells of 2503.15252 Table 2 are here with other"), "{:?}", all.lead);
    assert!(!all.lead.iter().any(|note| note.contains("missing")), "{:?}", all.lead);
}

#[test]
fn rows_stand_in_the_order_of_the_papers_levels() {
    let table = table_of(&on_digits(QUICK), "2503.15252/table-2");
    let column = place(&table, "precision");
    let levels: Vec<_> = table.rows.iter().map(|row| row.values[column].clone()).collect();
    assert_eq!(levels, ["fp64", "fp32", "fp16"].map(|level| CellValue::Level(Level::text(level))));
    assert_eq!(median(&table, 1, "published_training_time_s"), Some(3721.0));
    assert_eq!(table.columns[place(&table, "published_training_time_s")].name, "Total time, published");
}

#[test]
fn accuracy_of_quick_rows_is_that_of_full_runs_and_says_so() {
    let mut runs = on_digits(QUICK);
    for run in &mut runs {
        run.values.remove("accuracy");
    }
    let quick = table_of(&runs, "2503.15252/table-2");
    assert_eq!(median(&quick, 0, "accuracy"), None);
    let says = |table: &Table, what: &str| table.notes.iter().any(|note| note.contains(what));
    assert!(says(&quick, "multicard run --preset 2503.15252/table-2/accuracy"), "{:?}", quick.notes);
    let full = on_digits(Mode::Full).into_iter().filter(|run| run.repeat == 1);
    runs.extend(full.map(|run| RunSummary {
        cell: format!("{}-full", run.cell),
        run: format!("{}-full", run.run),
        ..run
    }));
    let both = table_of(&runs, "2503.15252/table-2");
    assert_eq!(both.rows.len(), 3, "rows of full runs are left out");
    assert!(median(&both, 0, "accuracy").is_some());
    assert!(says(&both, "Accuracy of quick rows comes from full runs of the same cells"), "{:?}", both.notes);
    assert!(!says(&both, "table-2/accuracy"), "{:?}", both.notes);
}

#[test]
fn table_5_has_the_papers_mean_iteration_and_its_relative_improvement() {
    let plan = plan_with("2503.15252/table-5", "gpus", &[Level::Integer(1)]);
    let table = table_of(&fixture::runs_of(&plan), "2503.15252/table-5");
    let column = place(&table, "pin_memory");
    let pinned = table.rows.iter().position(|row| row.values[column] == CellValue::Level(Level::text("on"))).unwrap();
    let saved = median(&table, pinned, "time_saved_over_pageable").unwrap();
    assert!((saved - 0.18).abs() < 1e-6, "{saved}");
    assert_eq!(median(&table, pinned, "published_time_saved_over_pageable"), Some(0.0004));
    assert_eq!(median(&table, pinned, "published_mean_step_time_s"), Some(0.77));
    assert!(!table.columns.iter().any(|column| column.key == "published_step_time_s"), "a median is not theirs");
    let [mean, median] = ["mean_step_time_s", "step_time_s"].map(|key| median(&table, pinned, key).unwrap());
    assert!(mean > median, "steps of the fixture are skewed: {mean} {median}");
    assert!(
        table.notes.iter().any(|note| note.contains("as the papers define their iteration time")),
        "{:?}",
        table.notes
    );
    assert!(table.lead.iter().any(|note| note.starts_with("data = stand-in: ")), "{:?}", table.lead);
}

#[test]
fn the_file_of_a_figure_of_generated_rows_says_that_they_compare_no_data_sets() {
    let id = "2505.22905/fig-10";
    let runs = fixture::runs_of(&plan_with(id, "gpus", &[Level::Integer(1)]));
    let drawn = figure(&[Source { session: "", runs: &runs, reports: &[] }], &preset(id).unwrap()).unwrap();
    let says = |note: &String| note.starts_with("data = stand-in: ") && note.contains("comparisons of data sets");
    assert!(drawn.notes().iter().any(says), "{:?}", drawn.notes());
}
