//! Set-ups of programs: which run executes one, and which runs use what it made.

use std::fs;
use std::process::Command;

use super::seeded::text;
use super::{Scene, reading};

#[test]
fn a_set_up_that_stays_the_same_is_run_once_a_session_and_its_failure_fails_the_run() {
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
    each_of_six_runs_used_its_own_set_up(&scene, ["level 1, built 1\n", "level 2, built 2\n"]);
}

/// Checks that each run of six printed one of these lines, and that a set-up was made wherever the line changes: a run that follows a run with
/// the same levels needs none.
#[track_caller]
fn each_of_six_runs_used_its_own_set_up(scene: &Scene, lines: [&str; 2]) {
    let outputs = scene.runs().into_iter().map(|run| fs::read_to_string(run.join("group.out")).unwrap());
    let outputs: Vec<String> = outputs.collect();
    assert_eq!(outputs.len(), 6);
    assert!(outputs.iter().all(|output| lines.contains(&output.as_str())), "{outputs:?}");
    let changes = outputs.windows(2).filter(|two| two[0] != two[1]).count();
    let count = fs::read_to_string(scene.programs().join("count")).unwrap();
    assert_eq!(count.lines().count(), 1 + changes, "{outputs:?}");
}

#[test]
fn a_set_up_that_builds_outside_of_a_folder_with_placeholders_is_run_again_after_that_of_another_folder() {
    let scene = Scene::new();
    for level in ["1", "2"] {
        fs::create_dir(scene.programs().join(level)).unwrap();
    }
    let plan = r#"
repeats = 3
[command]
run = ["sh", "-c", "echo $(basename $(pwd)), built $(cat ../built)"]
setup = ["sh", "-c", "basename $(pwd) > ../built; echo set up >> ../count"]
folder = "{programs}/{level}"
[factors]
level = [1, 2]
"#;
    scene.finish(plan);
    each_of_six_runs_used_its_own_set_up(&scene, ["1, built 1\n", "2, built 2\n"]);
}

/// A command that says what it measured, after a set-up that builds what it is named after.
fn builder(name: &str, folder: &str) -> String {
    format!(
        "name = \"{name}\"\nsetup = [\"sh\", \"-c\", \"echo {name} > built; echo set up >> count\"]\n\
         run = [\"sh\", \"-c\", \"echo {name} measured $(cat built)\"]\nfolder = \"{folder}\"\n"
    )
}

#[test]
fn each_of_two_programs_in_one_folder_measures_what_its_own_set_up_made() {
    let scene = Scene::new();
    // The same folder by another path.
    let (one, other) = (builder("one", "{programs}"), builder("other", "{programs}/../programs"));
    scene.finish(&format!("repeats = 3\n[command]\n{one}[[block]]\n[block.command]\n{other}"));
    let outputs = scene.runs().into_iter().map(|run| fs::read_to_string(run.join("group.out")).unwrap());
    let outputs: Vec<String> = outputs.collect();
    assert_eq!(outputs.len(), 6);
    let is_own = |output: &String| output == "one measured one\n" || output == "other measured other\n";
    assert!(outputs.iter().all(is_own), "{outputs:?}");
}

#[test]
fn programs_with_the_same_set_up_in_one_folder_share_it_and_other_folders_have_their_own() {
    let scene = Scene::new();
    fs::create_dir(scene.programs().join("apart")).unwrap();
    let command = |name: &str, folder: &str| builder("one", folder).replacen("\"one\"", &format!("\"{name}\""), 1);
    let blocks = [("first", "{programs}"), ("second", "{programs}"), ("third", "{programs}/apart")]
        .map(|(name, folder)| command(name, folder));
    let [first, second, third] = blocks;
    scene.finish(&format!(
        "repeats = 2\n[command]\n{first}[[block]]\n[block.command]\n{second}[[block]]\n[block.command]\n{third}"
    ));
    let counts = ["count", "apart/count"].map(|file| fs::read_to_string(scene.programs().join(file)).unwrap());
    assert_eq!(counts, ["set up\n", "set up\n"]);
}

#[test]
fn a_set_up_is_run_again_after_the_plan_had_another_one_in_the_meantime() {
    let scene = Scene::new();
    let plan = |level: &str, repeats: u32| {
        format!(
            "repeats = {repeats}\n[command]\nsetup = [\"sh\", \"-c\", \"echo {level} > built\"]\nrun = [\"cat\", \"built\"]\n\
             folder = \"{{programs}}\""
        )
    };
    scene.finish(&plan("O2", 1));
    scene.finish(&plan("O3", 1));
    let resumed = scene.run(&plan("O2", 2), &["--resume"]);
    assert_eq!(resumed.status.code(), Some(0), "{}", text(&resumed.stderr));
    let outputs = scene.runs().into_iter().map(|run| fs::read_to_string(run.join("group.out")).unwrap());
    assert_eq!(outputs.collect::<Vec<_>>(), ["O2\n", "O3\n", "O2\n"]);
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

#[test]
fn the_cpu_time_of_a_run_is_without_that_of_its_set_up() {
    let scene = Scene::new();
    let plan = r#"
[command]
run = ["true"]
setup = ["python3", "-c", "import time\nwhile time.process_time() < 1.5: pass"]
"#;
    scene.finish(plan);
    let cpu_s = reading(&scene.runs()[0], "cpu_time_s").unwrap();
    assert!(cpu_s < 1.0, "{cpu_s} s");
}
