#![allow(clippy::unwrap_used)]

use super::*;
use crate::analysis::{Mark, RunState, RunSummary, Source, fixture, summarise_run};
use crate::figure::preset;

fn table(name: &str, runs: &[RunSummary]) -> Table {
    crate::figure::table(&[Source { session: "", runs, reports: &[] }], &preset(name).unwrap())
}

/// Three cells: one with 6 repeats, one with 2 repeats and one of them throttled, one that failed.
fn runs() -> Vec<RunSummary> {
    let run = |precision: &str, gpus: i64, repeat: u32, step_time_s: f64| {
        summarise_run(&fixture::run(&fixture::cell(precision, gpus, "ddp-ds"), repeat, step_time_s))
    };
    let mut runs: Vec<RunSummary> =
        [16.0, 16.2, 15.9, 16.4, 17.5, 16.1].iter().zip(1..).map(|(ms, k)| run("fp32", 1, k, ms / 1e3)).collect();
    runs.extend([run("fp16", 4, 1, 0.004), run("fp16", 4, 2, 0.0042), run("fp64", 1, 1, 0.05)]);
    runs[7].marks.push(Mark::Throttled(vec!["sw_power_cap".to_owned()]));
    runs[7].values.retain(|key, _| *key != "test_loss" && *key != "accuracy");
    runs[8].state = RunState::Failed;
    runs[8].marks.push(Mark::Failed("failed: out of memory: 100 % of 80 GB & a|b #1\nlower batch_size".to_owned()));
    runs
}

/// Compares with `tests/golden/NAME`; set `UPDATE_GOLDEN` to write the file again.
fn compare(name: &str, text: &str) {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&path).unwrap(), "{name} differs");
}

#[test]
fn every_preset_is_written_in_every_format_as_the_golden_files_show() {
    let extensions = [(Format::Markdown, "md"), (Format::Csv, "csv"), (Format::Latex, "tex"), (Format::Json, "json")];
    for id in ["times", "loss", "memory"] {
        let table = table(id, &runs());
        for (format, extension) in extensions {
            compare(&format!("{id}.{extension}"), &render(&table, format));
        }
    }
}

#[test]
fn a_column_of_times_has_the_unit_of_its_values_for_readers_and_seconds_for_programs() {
    let table = table("times", &runs());
    let units: Vec<(&str, &str)> = table.columns.iter().map(|column| (&*column.key, &*column.shown_unit)).collect();
    assert!(units.contains(&("step_time_s", "ms")) && units.contains(&("total_time_s", "s")), "{units:?}");
    assert!(render(&table, Format::Markdown).contains("| fp32 | 1 | 6 | 16.1 [15.9, 17.1] |"));
    let json: serde_json::Value = serde_json::from_str(&render(&table, Format::Json)).unwrap();
    assert!(json["rows"][0]["step_time_s"]["median"].as_f64().unwrap() < 0.02);
    let long = self::table("times", &[summarise_run(&fixture::run(&fixture::cell("fp32", 1, "single"), 1, 0.6))]);
    assert!(long.columns.iter().any(|column| column.key == "step_time_s" && column.shown_unit == "s"));
}

#[test]
fn json_keeps_full_precision_and_its_promised_form() {
    let text = render(&table("times", &runs()), Format::Json);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["preset"], "times");
    assert_eq!(json["columns"][3]["unit"], "s");
    let row = &json["rows"][2];
    assert_eq!(row["levels"]["precision"], "fp16");
    assert_eq!(row["step_time_s"]["median"].as_f64(), Some(0.004_f64.midpoint(0.0042)));
    assert_eq!(row["step_time_s"]["method"], "range");
    assert_eq!(json["rows"][1]["step_time_s"], serde_json::Value::Null);
}

#[test]
fn every_line_of_csv_has_as_many_fields_as_its_head() {
    for id in ["times", "loss", "memory"] {
        let text = render(&table(id, &runs()), Format::Csv);
        let counts: Vec<usize> = text.lines().map(|line| line.split(',').count()).collect();
        assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
    }
}

#[test]
fn a_table_without_rows_is_its_notes_alone_for_readers() {
    let empty = table("times", &[]);
    assert_eq!(render(&empty, Format::Markdown), "- no runs\n");
    let csv = render(&empty, Format::Csv);
    assert!(csv.lines().count() == 1 && csv.contains("step_time_s"), "a file of rows keeps its head: {csv}");
}

#[test]
fn text_of_users_cannot_break_a_table() {
    let table = table("times", &runs());
    let markdown = render(&table, Format::Markdown);
    assert!(markdown.contains(r"a\|b #1 lower batch_size"), "{markdown}");
    let latex = render(&table, Format::Latex);
    assert!(latex.contains(r"100 \% of 80 GB \& a|b \#1 lower batch\_size"), "{latex}");
}
