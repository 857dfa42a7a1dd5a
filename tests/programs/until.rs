//! Repeats of programs that are added until their training time is known.

use std::collections::BTreeSet;

use super::*;

/// A program that reports steps; its first run fails.
const FAILS_ONCE: &str = r#"
repeats = 2
[measure]
warm_up_steps = 0
[command]
run = ["sh", "-c", '''
if [ ! -e {programs}/failed ]; then
  touch {programs}/failed
  exit 1
fi
for step in $(seq 1 20); do
  echo "{{\"step\": $step, \"duration_s\": 0.001}}" >> $MULTICARD_READINGS
done
''']
"#;

#[test]
fn added_repeats_say_how_many_of_their_runs_repeat_unfinished_ones() {
    let scene = Scene::new();
    let output = scene.run(FAILS_ONCE, &["--until", "50%", "--most-repeats", "6"]);
    let stderr = text(&output.stderr);
    assert!(stderr.contains("5 more runs of 1 cell; this repeats 1 unfinished run\n"), "{stderr}");
    assert!(stderr.contains("training time known to ±") && stderr.contains("after 6 repeats"), "{stderr}");
    assert_eq!(scene.runs().len(), 7);
}

#[test]
fn a_program_without_a_training_time_gets_no_more_repeats_and_the_reason_is_said() {
    let scene = Scene::new();
    let output = scene.run("repeats = 2\n[command]\nrun = [\"true\"]\n", &["--until", "5%"]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("no training time is known after 2 repeats, so no repeats are added: "), "{stderr}");
    assert!(stderr.contains("multicard help readings") && !stderr.contains("more run"), "{stderr}");
    assert_eq!(scene.runs().len(), 2);
}

#[test]
fn repeats_of_a_program_before_an_edit_do_not_count() {
    let scene = Scene::new();
    let write = |duration_s: &str| {
        let line = format!(r#"{{\"step\": $step, \"duration_s\": {duration_s}}}"#);
        let text = format!("for step in $(seq 1 20); do echo \"{line}\" >> $MULTICARD_READINGS; done\n");
        fs::write(scene.programs().join("train.sh"), text).unwrap();
    };
    let plan = |repeats: u32| {
        format!(
            "repeats = {repeats}\n[measure]\nwarm_up_steps = 0\n[command]\nrun = [\"sh\", \"{{programs}}/train.sh\"]\n"
        )
    };
    write("0.001");
    scene.finish(&plan(3));
    write("0.003");
    let output = scene.run(&plan(1), &["--until", "10%"]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("5 more runs of 1 cell\n"), "{stderr}");
    let counted = "after 6 repeats; not counted: 3 repeats of another version of the program (its files, commit, ";
    assert!(stderr.contains("training time known to ±0.00 % ") && stderr.contains(counted), "{stderr}");
    assert_eq!(scene.runs().len(), 9);
    let table = scene.table(&["--measure", "training_time_s"]);
    let repeats: Vec<Option<u64>> =
        table["rows"].as_array().unwrap().iter().map(|row| row["training_time_s"]["n"].as_u64()).collect();
    assert_eq!(repeats, [Some(3), Some(6)], "{table}");
}

#[test]
fn events_of_all_added_repeats_are_printed_though_they_come_from_several_launches() {
    let scene = Scene::new();
    let write = |script: &str, duration_s: &str| {
        let line = format!(r#"{{\"step\": $step, \"duration_s\": {duration_s}}}"#);
        let text = format!("for step in $(seq 1 20); do echo \"{line}\" >> $MULTICARD_READINGS; done\n");
        fs::write(scene.programs().join(script), text).unwrap();
    };
    let plan = |repeats: u32, scripts: &str| {
        format!(
            "repeats = {repeats}\n[measure]\nwarm_up_steps = 0\n[command]\n\
             run = [\"sh\", \"{{programs}}/{{script}}\"]\n[factors]\nscript = [{scripts}]\n"
        )
    };
    write("edited.sh", "0.001");
    scene.finish(&plan(3, "\"edited.sh\""));
    let before = scene.runs();
    write("edited.sh", "0.003");
    write("new.sh", "0.001");
    let more = ["--until", "10%", "--most-repeats", "3", "--format", "json"];
    let output = scene.run(&plan(1, "\"edited.sh\", \"new.sh\""), &more);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    // Repeats 5 and 6 of the edited program, and repeats 1 and 2 of the new one, which began with repeat 4.
    assert!(stderr.contains("4 more runs of 2 cells\n"), "{stderr}");
    let shown: BTreeSet<String> = text(&output.stdout)
        .lines()
        .flat_map(|line| read_event_line(line.as_bytes()).unwrap())
        .map(|line| line.run)
        .collect();
    let after: BTreeSet<String> = scene
        .runs()
        .iter()
        .filter(|run| !before.contains(run))
        .map(|run| run.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(after.len(), 6, "{stderr}");
    assert_eq!(shown, after, "{stderr}");
}
