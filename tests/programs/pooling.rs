//! What repeats are pooled over, what work is checked by, and the A/A copy: with programs whose true speed and work are known.

use super::*;

/// Steps of a few milliseconds, twice as fast where `{speed}` is 2, by a module of the program's own.
const TRAIN: &str = r#"
import sys, time, model
speed = int(sys.argv[1])
for step in range(1, 13):
    start = time.perf_counter()
    time.sleep(0.02 / speed)
    print(f"step {step} loss {1 / step:.4f} time {1e3 * (time.perf_counter() - start):.3f} ms", flush=True)
print(f"bits {model.bits(speed):.3f}", flush=True)
"#;

const PLAN: &str = r#"
repeats = 3
aa = true
[check]
bits = "2 %"
[measure]
warm_up_steps = 2
[command]
run = ["python3", "train.py", "{speed}"]
folder = "{programs}"
[command.readings]
patterns = ['^step (?<step>\d+) loss (?<loss>\S+) time (?<duration_ms>\S+) ms', '^bits (?<bits>\S+)']
[factors]
speed = [1, 2]
"#;

#[test]
fn an_edited_program_a_check_of_the_plans_own_and_an_aa_copy_are_told_in_tables() {
    if python_with("sys").is_none() {
        println!("skipped: there is no python3");
        return;
    }
    let scene = Scene::new();
    let write = |name: &str, text: &str| fs::write(scene.programs().join(name), text).unwrap();
    write("train.py", TRAIN);
    write("model.py", "def bits(speed): return 2.0 + speed // 2\n");
    let output = scene.run(PLAN, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(scene.runs().len(), 9);
    let table = scene.table(&["--measure", "step_time_s"]);
    let rows = |table: &Value| table["rows"].as_array().unwrap().clone();
    let notes = |table: &Value| table["notes"].to_string();
    assert_eq!(rows(&table).len(), 2, "the copy stands in no row: {table}");
    let verdict = &rows(&table)[1]["verdict"];
    assert_eq!(verdict["check_words"], "bits differs: 3.000 against 2.000", "{verdict}");
    assert!(notes(&table).contains("A/A: a copy over the cell that it copies, by step time"), "{table}");
    // The same cells of a program whose module was edited are other cells.
    write("model.py", "def bits(speed): return 2.0\n");
    let output = scene.run(PLAN, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = scene.table(&["--measure", "step_time_s"]);
    assert_eq!(rows(&table).len(), 4, "{table}");
    assert!(notes(&table).contains("--pool program_files"), "{table}");
    let checks: Vec<String> = rows(&table).iter().map(|row| row["verdict"]["check_words"].to_string()).collect();
    assert!(checks[2].contains("differs") && !checks[3].contains("differs"), "{checks:?}");
    let pooled = scene.table(&["--measure", "step_time_s", "--pool", "program_files"]);
    assert_eq!(rows(&pooled).len(), 2, "{pooled}");
}
