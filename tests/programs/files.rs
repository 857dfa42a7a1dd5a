//! Files that a program writes at the same path in each run.

use super::*;

/// Accuracies and scores of three epochs, the same in each run: the files are written anew (`w`), or get more lines (`a`).
const SEEDED: &str = r#"
import json, sys
mode = sys.argv[1]
with open(mode + ".csv", mode) as file:
    if file.tell() == 0: file.write("epoch,accuracy\n")
    for epoch in 1, 2, 3: file.write(f"{epoch},{epoch / 4}\n")
with open(mode + ".jsonl", mode) as file:
    for epoch in 1, 2, 3: file.write(json.dumps({"epoch": epoch, "score": epoch / 4}) + "\n")
"#;

#[test]
fn each_run_has_what_its_program_wrote_even_if_earlier_runs_wrote_the_same_to_the_same_files() {
    let Some(python) = python_with("json") else { return };
    let scene = Scene::new();
    fs::write(scene.programs().join("train.py"), SEEDED).unwrap();
    scene.finish(&format!(
        "repeats = 3\n[command]\nrun = [\"{python}\", \"train.py\", \"{{mode}}\"]\nfolder = \"{{programs}}\"\n\
         [command.readings]\nfiles = [\"{{mode}}.csv\", \"{{mode}}.jsonl\"]\n[factors]\nmode = [\"w\", \"a\"]\n"
    ));
    let runs = scene.runs();
    assert_eq!(runs.len(), 6);
    for run in &runs {
        for measure in ["accuracy", "score"] {
            let value = |event| match event {
                Event::Reading { key, value, epoch, .. } if key == *measure => Some((epoch, value)),
                _ => None,
            };
            let values: Vec<_> = events(run).into_iter().filter_map(value).collect();
            assert_eq!(values, [(Some(1), 0.25), (Some(2), 0.5), (Some(3), 0.75)], "{measure}");
        }
        let warnings = warnings(run);
        assert!(!warnings.contains("the program wrote"), "{warnings}");
    }
}
