//! Runs that wait for an order that names them: those that a killed conductor left, and those that came with an archive.

use super::*;

/// A run's program that says in a file that it ran.
const THEIRS: &str = "while [ ! -e gate ]; do sleep 0.02; done; echo ran >> theirs";

/// A session that came with an archive: of its three runs, the first ended, and two are queued.
fn imported() -> Scene {
    let scene = Scene::new();
    scene.plan("theirs", 3, THEIRS);
    scene.plan("own", 1, "true");
    scene.lose_conductor("theirs.toml");
    wait("the run that was under way ends", || ran(&scene) == 1);
    succeed(&mut scene.multicard(&["session", "export", "session", "--out", "theirs.zip"]));
    fs::remove_dir_all(scene.session()).unwrap();
    succeed(&mut scene.multicard(&["session", "import", "theirs.zip", "--session", "session"]));
    scene
}

/// How often a program of the archive ran.
fn ran(scene: &Scene) -> usize {
    fs::read_to_string(scene.path("theirs")).unwrap_or_default().lines().count()
}

#[test]
fn nothing_that_came_with_an_archive_starts_beside_an_own_plan_and_its_programs_only_once_they_are_allowed() {
    let scene = imported();
    let attached = scene.multicard(&["attach", "session"]).output().unwrap();
    assert!(text(&attached.stderr).contains("the queue is paused with 2 runs"), "{}", text(&attached.stderr));
    for _ in 0..2 {
        succeed(&mut scene.multicard(&["run", "own.toml", "--session", "session"]));
    }
    let states = scene.states();
    assert_eq!(states[1..], [RunState::Queued, RunState::Queued, RunState::Finished, RunState::Finished]);
    assert_eq!(ran(&scene), 1, "a program of the archive ran");
    let refused = scene.multicard(&["attach", "session", "--resume"]).output().unwrap();
    let message = text(&refused.stderr);
    assert!(message.contains("echo ran >> theirs") && message.contains("--allow-programs"), "{message}");
    assert_eq!((refused.status.code(), ran(&scene)), (Some(2), 1), "{message}");
    succeed(&mut scene.multicard(&["attach", "session", "--resume", "--allow-programs"]));
    assert_eq!(ran(&scene), 3);
    // Once is enough, also for the next conductor.
    wait("the conductor ends", || scene.conductors().is_empty());
    scene.detach("theirs.toml");
    wait("the conductor ends", || scene.conductors().is_empty());
    assert_eq!(ran(&scene), 6);
}

#[test]
fn a_run_whose_plan_says_another_program_than_the_session_is_not_run() {
    let scene = imported();
    let journal = scene.session().join("journal.jsonl");
    let lines = fs::read_to_string(&journal).unwrap();
    let changed = lines.lines().map(|line| {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        if line["decision"] == "plan_added" {
            line["toml"] = line["toml"].as_str().unwrap().replace(THEIRS, "true").into();
        }
        format!("{line}\n")
    });
    let changed: String = changed.collect();
    assert_ne!(changed.matches(THEIRS).count(), lines.matches(THEIRS).count());
    fs::write(&journal, changed).unwrap();
    let attached = scene.multicard(&["attach", "session", "--resume", "--allow-programs"]).output().unwrap();
    wait("the conductor ends", || scene.conductors().is_empty());
    assert_eq!(scene.states()[1..], [RunState::Interrupted; 2], "{}", text(&attached.stderr));
    assert_eq!(ran(&scene), 1);
    let reasons = Reader::open(&scene.session()).unwrap().headings().unwrap();
    let reason = reasons[1].reason.clone().unwrap();
    assert!(reason.contains("names another program"), "{reason}");
}

#[test]
fn a_launch_of_another_plan_leaves_waiting_what_a_killed_conductor_left() {
    let scene = Scene::after_a_killed_conductor();
    scene.plan("others", 1, "true");
    scene.detach("others.toml");
    wait("the other plan's run ends", || scene.states()[3] == RunState::Finished);
    assert_eq!(scene.states()[1..3], [RunState::Queued; 2]);
    succeed(&mut scene.multicard(&["attach", "session", "--resume"]));
    assert_eq!(scene.states(), [RunState::Finished; 4]);
}

#[test]
fn runs_that_a_resumed_plan_keeps_are_followed_and_count_as_they_end() {
    let scene = Scene::new();
    scene.plan("waits", 3, "while [ ! -e gate ]; do sleep 0.02; done; [ -e broken ] && exit 1; echo ran >> theirs");
    scene.lose_conductor("waits.toml");
    wait("the run that was under way ends", || ran(&scene) == 1);
    File::create(scene.path("broken")).unwrap();
    scene.plan("others", 1, "while [ ! -e second-gate ]; do sleep 0.02; done");
    scene.detach("others.toml");
    let resumed = scene.start(&["run", "waits.toml", "--session", "session", "--resume"]);
    let (code, stderr) = ended_after(resumed, "waiting for the runs that an earlier multicard started", |_| {
        File::create(scene.path("second-gate")).unwrap();
    });
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("3 existing runs are kept") && stderr.contains("1 finished, 2 did not finish"), "{stderr}");
    use RunState::{Failed, Finished};
    assert_eq!(scene.states(), [Finished, Failed, Failed, Finished]);
}
