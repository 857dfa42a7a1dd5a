//! Programs that report their steps in several files, and their evaluations between the steps.

use multicard::protocol::Phase;

use super::*;

/// Steps of 20 ms, of which 15 ms are reported as their durations. Losses are in one file, durations and units in another one.
const TWO_FILES: &str = r#"
import json, sys, time
losses, times = open(sys.argv[1] + "/metrics.csv", "w", buffering=1), open(sys.argv[1] + "/timing.jsonl", "w", buffering=1)
losses.write("step,loss\n")
for step in range(1, 61):
    time.sleep(0.02)
    losses.write(f"{step},{3 / step}\n")
    times.write(json.dumps({"step": step, "duration_s": 0.015, "units": 64}) + "\n")
"#;

#[test]
fn losses_of_one_file_and_durations_of_another_one_are_those_of_the_same_steps() {
    let Some(python) = python_with("json") else { return };
    for files in [["metrics.csv", "timing.jsonl"], ["timing.jsonl", "metrics.csv"]] {
        let scene = Scene::new();
        fs::write(scene.programs().join("train.py"), TWO_FILES).unwrap();
        let files = files.map(|name| format!("\"{{run_folder}}/{name}\"")).join(", ");
        scene.finish(&format!(
            "[command]\nrun = [\"{python}\", \"{{programs}}/train.py\", \"{{run_folder}}\"]\n\
             [command.readings]\nfiles = [{files}]\n"
        ));
        let run = &scene.runs()[0];
        let mut steps = BTreeMap::new();
        for event in events(run) {
            if let Event::Step { step, duration_s, loss, units, .. } = event {
                steps.insert(step, (duration_s, loss * step as f64, units));
            }
        }
        assert_eq!(steps.keys().copied().collect::<Vec<_>>(), (1..=60).collect::<Vec<_>>());
        let is_whole = |(duration_s, loss, units): &(f64, f64, u32)| {
            (duration_s - 0.015).abs() < 1e-9 && (loss - 3.0).abs() < 1e-9 && *units == 64
        };
        assert!(steps.values().all(is_whole), "{files}: {steps:?}");
        assert!(!warnings(run).contains("went back"), "{files}: {}", warnings(run));
    }
}

/// Steps of 20 ms, and after each tenth of them an evaluation of a second. The program reports no durations.
const EVALUATIONS: &str = r#"
import json, sys, time
file = open(sys.argv[1], "w", buffering=1)
is_table = sys.argv[1].endswith("csv")
if is_table: file.write("step,loss,val_loss\n")
def write(step, **loss):
    cells = f"{step},{loss.get('loss', '')},{loss.get('val_loss', '')}"
    file.write((cells if is_table else json.dumps({"step": step, **loss})) + "\n")
for step in range(1, 26):
    time.sleep(0.02)
    write(step, loss=3 / step)
    if step % 10 == 0:
        time.sleep(1)
        write(step, val_loss=4 / step)
"#;

#[test]
fn evaluations_between_the_rows_or_lines_of_a_file_are_no_time_of_steps() {
    let Some(python) = python_with("json") else { return };
    for name in ["log.csv", "log.jsonl"] {
        let scene = Scene::new();
        fs::write(scene.programs().join("train.py"), EVALUATIONS).unwrap();
        let file = format!("\"{{run_folder}}/{name}\"");
        scene.finish(&format!(
            "[measure]\nwarm_up_steps = 2\n[command]\nrun = [\"{python}\", \"{{programs}}/train.py\", {file}]\n\
             [command.readings]\nfiles = [{file}]\n"
        ));
        let run = &scene.runs()[0];
        let of_step = |event| match event {
            Event::Step { step, duration_s, warm_up: false, .. } => Some((step, duration_s)),
            _ => None,
        };
        let steps: BTreeMap<u64, f64> = events(run).into_iter().filter_map(of_step).collect();
        // On a busy machine, the row of a step may be noticed together with that of the evaluation before it.
        assert!(steps.len() >= 15 && steps.values().all(|duration_s| *duration_s < 1.0), "{name}: {steps:?}");
        let evaluations = events(run).into_iter().filter(|event| *event == Event::Phase { phase: Phase::Evaluate });
        assert_eq!(evaluations.count(), 2, "{name}");
    }
}

#[test]
fn only_the_steps_that_a_program_reports_itself_are_left_of_a_run_that_began_with_guessed_ones() {
    let scene = Scene::new();
    // The program's own steps come once guessed ones are in the log.
    let program = "for step in 100 200; do echo \"step $step loss 0.5\"; sleep 0.1; done\n\
                   until grep -q '\"event\":\"step\"' \"$1/rank-0.jsonl\"; do sleep 0.1; done\n\
                   for step in 1 2 3; do echo \"{\\\"step\\\": $step, \\\"duration_s\\\": 0.01}\" >> \"$MULTICARD_READINGS\"; done\n";
    fs::write(scene.programs().join("train.sh"), program).unwrap();
    scene.finish("[command]\nrun = [\"sh\", \"{programs}/train.sh\", \"{run_folder}\"]\n");
    let run = &scene.runs()[0];
    assert!(events(run).contains(&Event::StepsWithdrawn));
    let id = run.file_name().unwrap().to_str().unwrap();
    let steps = Reader::open(&scene.session()).unwrap().steps(id, 0).unwrap();
    assert_eq!(steps.iter().map(|step| step.step).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(!warnings(run).contains("guessed"), "{}", warnings(run));
}
