//! Files of readings that several runs read at the same time.

use std::fs;

use super::seeded::text;
use super::{Scene, warnings};

/// Writes its score into a file once the other run has begun, too.
const SCORE: &str = r#"touch "begun-$1"
for i in $(seq 3000); do [ -e begun-1 ] && [ -e begun-2 ] && break; sleep 0.01; done
echo "{\"score\": $1}" >> "$2"
"#;

const PLAN: &str = r#"
[limits]
exclusive = false
[command]
run = ["sh", "score.sh", "{level}", "{file}"]
folder = "{programs}"
[command.readings]
files = ["{file}"]
[factors]
level = [1, 2]
gpus = 0
"#;

#[test]
fn runs_side_by_side_that_read_one_file_are_warned_of_before_and_marked_after() {
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() < 2) {
        println!("skipped: runs do not run side by side on one CPU");
        return;
    }
    for (file, is_shared) in [("results.jsonl", true), ("{run_folder}/results.jsonl", false)] {
        let scene = Scene::new();
        fs::write(scene.programs().join("score.sh"), SCORE).unwrap();
        let output = scene.run(&PLAN.replace("{file}", file), &[]);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        assert_eq!(stderr.contains("warning: runs side by side read the same file"), is_shared, "{stderr}");
        for run in scene.runs() {
            let warned = warnings(&run);
            let is_warned = warned.contains("another run read ") && warned.contains("results.jsonl at the same time");
            assert_eq!(is_warned, is_shared, "{file}: {warned}");
        }
        let notes = scene.table(&["--notes"]).to_string();
        assert_eq!(notes.contains("shared file"), is_shared, "{notes}");
    }
}
