//! Set-ups of programs: which run executes one, and which runs use what it made.

use std::fs;
use std::process::Command;

use super::Scene;
use super::seeded::text;

#[test]
fn the_set_up_is_run_once_a_session_and_its_failure_fails_the_run() {
    let scene = Scene::new();
    let plan = "repeats = 3\n[command]\nsetup = [\"sh\", \"-c\", \"echo set up >> count\"]\nrun = [\"cat\", \"count\"]\n\
                folder = \"{programs}\"";
    scene.finish(plan);
    assert_eq!(fs::read_to_string(scene.programs().join("count")).unwrap(), "set up\n");
    // A session that was moved is set up again.
    let moved = scene.folder.path().join("moved");
    fs::rename(scene.session(), &moved).unwrap();
    let mut elsewhere = Command::new(env!("CARGO_BIN_EXE_multicard"));
    elsewhere.arg("run").arg(scene.folder.path().join("plan.toml")).arg("--session").arg(&moved);
    assert_eq!(elsewhere.output().unwrap().status.code(), Some(0));
    assert_eq!(fs::read_to_string(scene.programs().join("count")).unwrap(), "set up\nset up\n");
    let failing = scene.run(&plan.replace("echo set up", "echo no compiler >&2; exit 3; echo"), &[]);
    let stderr = text(&failing.stderr);
    assert!(stderr.contains("setup: sh exited with code 3; end of its output: no compiler"), "{stderr}");
}

#[test]
fn each_run_has_the_set_up_of_its_own_levels_when_repeats_are_interleaved() {
    let scene = Scene::new();
    let plan = r#"
repeats = 3
[command]
run = ["sh", "-c", "echo level {level}, built $(cat built)"]
setup = ["sh", "-c", "echo {level} > built; echo set up >> count"]
folder = "{programs}"
[factors]
level = [1, 2]
"#;
    scene.finish(plan);
    let outputs = scene.runs().into_iter().map(|run| fs::read_to_string(run.join("group.out")).unwrap());
    let outputs: Vec<String> = outputs.collect();
    assert_eq!(outputs.len(), 6);
    let is_own = |output: &String| output == "level 1, built 1\n" || output == "level 2, built 2\n";
    assert!(outputs.iter().all(is_own), "{outputs:?}");
    // Runs that follow a run with the same levels need no set-up.
    let changes = outputs.windows(2).filter(|two| two[0] != two[1]).count();
    let count = fs::read_to_string(scene.programs().join("count")).unwrap();
    assert_eq!(count.lines().count(), 1 + changes, "{outputs:?}");
}

#[test]
fn runs_that_share_the_machine_do_not_replace_what_others_use() {
    let scene = Scene::new();
    let plan = r#"
repeats = 3
[limits]
exclusive = false
[command]
run = ["sh", "-c", "for i in 1 2 3 4 5; do [ \"$(cat built)\" = \"$LEVEL\" ] || exit 1; sleep 0.05; done"]
setup = ["sh", "-c", "echo $LEVEL > $OUT/built && mv $OUT/built built"]
env = { LEVEL = "{level}", OUT = "{run_folder}" }
folder = "{programs}"
[factors]
level = [1, 2]
"#;
    scene.finish(plan);
    assert_eq!(scene.runs().len(), 6);
}
