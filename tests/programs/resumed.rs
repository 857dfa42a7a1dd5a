//! Resumed plans whose kept runs were made otherwise than they would be made now.

use std::fs;

use super::Scene;
use super::seeded::text;

const PLAN: &str = "seed = 1\nrepeats = 2\n[command]\nrun = [\"sh\", \"own.sh\", \"{level}\", \"{seed}\"]\nfolder = \"{programs}\"\n\
                    [factors]\nlevel = [1, 2]\n";

/// The warning about kept runs when a plan is resumed.
fn warning(scene: &Scene, plan: &str) -> Option<String> {
    let output = scene.run(plan, &["--resume"]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("4 existing runs are kept"), "{stderr}");
    stderr.lines().find(|line| line.starts_with("warning: some kept runs differ from what")).map(str::to_owned)
}

#[test]
fn a_resumed_plan_says_how_many_kept_runs_were_made_with_other_files_of_the_program() {
    let scene = Scene::new();
    let write = |program: &str| fs::write(scene.programs().join("own.sh"), program).unwrap();
    write("echo first");
    scene.finish(PLAN);
    assert_eq!(warning(&scene, PLAN), None);
    write("echo second");
    let expected = "warning: some kept runs differ from what the plan would run now: 4 runs with other files of the program (1, 2, 3, 4); \
                    to measure all of them alike, launch the plan in a new session";
    assert_eq!(warning(&scene, PLAN).as_deref(), Some(expected), "nothing is left to do");
    let more = PLAN.replace("repeats = 2", "repeats = 3");
    assert_eq!(warning(&scene, &more).as_deref(), Some(expected), "a repeat of each cell is left to do");
    assert_eq!(scene.runs().len(), 6);
}

#[test]
fn a_resumed_plan_says_how_many_kept_runs_are_from_another_seed_if_the_program_uses_it() {
    let scene = Scene::new();
    fs::write(scene.programs().join("own.sh"), "echo $2").unwrap();
    scene.finish(PLAN);
    let reseeded = |plan: &str| plan.replace("seed = 1", "seed = 7");
    let found = warning(&scene, &reseeded(PLAN)).unwrap_or_default();
    assert!(found.contains(": 4 runs from another seed (1, 2, 3, 4); "), "{found}");
    let scene = Scene::new();
    let unseeded = PLAN.replace(", \"{seed}\"", "");
    fs::write(scene.programs().join("own.sh"), "echo").unwrap();
    scene.finish(&unseeded);
    assert_eq!(warning(&scene, &reseeded(&unseeded)), None);
}

#[test]
fn a_resumed_plan_says_how_many_kept_runs_were_read_by_other_patterns() {
    let scene = Scene::new();
    fs::write(scene.programs().join("own.sh"), "echo score 1.5 2.5").unwrap();
    let read_by =
        |pattern: &str| PLAN.replace("[factors]", &format!("[command.readings]\npatterns = ['{pattern}']\n[factors]"));
    let first = read_by(r"^score (?<score>\S+)");
    scene.finish(&first);
    assert_eq!(warning(&scene, &first), None);
    let found = warning(&scene, &read_by(r"^score \S+ (?<score>\S+)")).unwrap_or_default();
    let expected = ": 4 runs with other patterns, files or names in [command.readings] (1, 2, 3, 4); ";
    assert!(found.contains(expected), "{found}");
}

#[test]
fn a_launch_says_which_measures_of_the_plan_the_session_keeps_in_another_form() {
    let scene = Scene::new();
    fs::write(scene.programs().join("own.sh"), "echo").unwrap();
    let with = |formula: &str| format!("{PLAN}[measures]\nown = \"{formula}\"\n");
    let is_warned =
        |plan: &str| text(&scene.run(plan, &["--resume"]).stderr).contains("the session keeps its own measures");
    scene.finish(&with("total_time_s / 2"));
    assert!(!is_warned(&with("total_time_s / 2")));
    let stderr = text(&scene.run(&with("total_time_s / 3"), &["--resume"]).stderr);
    let expected =
        "which differ from the plan's: own (total_time_s / 2, in the plan total_time_s / 3); to replace one,";
    assert!(stderr.contains(expected), "{stderr}");
    assert!(is_warned(&with("total_time_s / 3")), "nothing is left to do");
}
