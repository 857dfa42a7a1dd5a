//! Language models with the real worker: a plan becomes runs whose loss falls, on made rows and on rows of files.
#![cfg(feature = "torch")]
#![allow(clippy::unwrap_used)]

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

mod training;

use training::{alone, run_command, table, text};

const SMALL: &str = r#"
version = 1
name = "small"
workload = "llm"
[measure]
warm_up_steps = 2
[data]
set = "stand-in"
rows = 80
[factors]
model = "tiny"
data_set = "uniform"
row_tokens = 24
technique = ["lora", "full"]
batch_size = 4
epochs = 2
learning_rate = 0.01
warmup_steps = 2
test_rows = 8
"#;

fn events(output: &[u8]) -> Vec<Value> {
    text(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_tiny_model_learns_made_rows_and_tables_show_its_times() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let (mut command, session) = run_command(&folder, SMALL);
    let output = command.args(["--format", "json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let events = events(&output.stdout);
    let steps: Vec<&Value> = events.iter().filter(|event| event["event"] == "step").collect();
    assert_eq!(steps.len(), 2 * 2 * 20);
    assert!(steps.iter().all(|step| step["units"] == 96));
    let evidence: Vec<&Value> = events.iter().filter(|event| event["event"] == "evidence").collect();
    assert!(evidence.iter().all(|seen| seen["in_effect"] == true), "{evidence:?}");
    let rows = evidence.iter().find(|seen| seen["factor"] == "data_set").unwrap();
    assert!(rows["seen"].as_str().unwrap().starts_with("80 rows of 1920 tokens, 1840 of them learned: made"), "{rows}");

    let shown = table(&session, "times", &[]);
    for row in shown["rows"].as_array().unwrap() {
        assert!(row["step_time_s"]["median"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["training_time_s"]["median"].as_f64().unwrap() > 0.0, "{row}");
    }
    let losses: Vec<f64> = events
        .iter()
        .filter(|event| event["event"] == "reading" && event["key"] == "test_loss")
        .map(|event| event["value"].as_f64().unwrap())
        .collect();
    // Nothing known is ln(1024) = 6.93.
    assert!(losses.len() == 4 && losses.iter().all(|loss| *loss < 6.8), "{losses:?}");
}

#[test]
fn rows_of_files_are_trained_on_and_bad_ones_end_the_command_before_a_run() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracles/llm");
    let file = folder.path().join("mine.jsonl");
    std::fs::write(&file, "{\"input\":\"He go\",\"output\":\"He goes\"}\n".repeat(20)).unwrap();
    let plan = SMALL
        .replace("set = \"stand-in\"", "set = \"files\"")
        .replace("rows = 80", &format!("rows = 16\nfile = {file:?}\ntokenizer = {:?}", fixtures.join("tokenizer.json")))
        .replace("data_set = \"uniform\"\nrow_tokens = 24", "data_set = \"file\"\ntemplate = \"grammar\"")
        .replace("test_rows = 8", "test_rows = 4")
        .replace("[\"lora\", \"full\"]", "\"lora\"");
    let (mut command, _) = run_command(&folder, &plan);
    let output = command.args(["--format", "json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("read from"));

    std::fs::write(&file, "{\"input\":\"He go\",\"output\":\"He goes\"}\n{\"input\":7}\n").unwrap();
    let other = TempDir::new().unwrap();
    let (mut command, session) = run_command(&other, &plan);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let told = text(&output.stderr);
    assert!(told.contains("mine.jsonl, row 2 (line 2): the column input is a number, not a text"), "{told}");
    let runs = std::fs::read_dir(session.join("runs")).map_or(0, |runs| runs.count());
    assert_eq!(runs, 0, "nothing was started");
}
