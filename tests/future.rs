//! A session that a later version wrote: what this one does not know is called so, and everything is shown.
#![allow(clippy::unwrap_used)]

use multicard::plan::{Data, Key, Level, Levels, Mode, RunState, Tracer, image};
use multicard::store::{Decision, Store};
use multicard::telemetry::read_node;
use tempfile::TempDir;

mod seeded;

use seeded::{multicard, text};

/// A run of a workload that finished; `changed` are its levels beside the defaults.
fn finished(store: &Store, run: &str, workload: &str, changed: &[(&str, Level)]) {
    let mut levels: Vec<(Key, Level)> = Vec::new();
    if workload == image::KEY {
        let known = image::spec().levels(changed);
        levels.extend(known.iter().map(|(key, level)| (key.clone(), level.clone())));
    }
    let unknown = changed.iter().filter(|(key, _)| levels.iter().all(|(known, _)| known != key));
    let unknown: Vec<_> = unknown.map(|(key, level)| (Key::from(*key), level.clone())).collect();
    levels.extend(unknown);
    let queued = Decision::RunQueued {
        run: run.to_owned(),
        plan: "p1".to_owned(),
        cell: run.to_owned(),
        workload: workload.into(),
        levels: Levels::new(levels),
        data: Data::of_set("digits"),
        repeat: 1,
        seed: 1,
        tracer: Tracer::Off,
        mode: Mode::Full,
    };
    store.decide(queued).unwrap();
    store.decide(Decision::RunStarted { run: run.to_owned(), pid: 1, process_start: 1 }).unwrap();
    let ended = RunState::Finished;
    store
        .decide(Decision::RunEnded { run: run.to_owned(), state: ended, reason: None, duration_s: Some(2.0) })
        .unwrap();
}

fn session() -> TempDir {
    let folder = TempDir::new().unwrap();
    let store = Store::create(&folder.path().join("session"), &read_node()).unwrap();
    let toml = "version = 1\n".to_owned();
    store
        .decide(Decision::PlanAdded { plan: "p1".to_owned(), name: "later".to_owned(), toml, workloads: Vec::new() })
        .unwrap();
    finished(&store, "0001-a", image::KEY, &[]);
    finished(&store, "0002-b", image::KEY, &[("sparsity", Level::text("2:4"))]);
    finished(&store, "0003-c", image::KEY, &[("precision", Level::text("fp4"))]);
    finished(&store, "0004-d", "video", &[("frames", Level::Integer(16))]);
    store.flush().unwrap();
    folder
}

#[test]
fn factors_levels_and_workloads_of_a_later_version_are_shown_as_unknown_and_hide_nothing() {
    let folder = session();
    let session = folder.path().join("session");
    let output = multicard(folder.path(), &["table", session.to_str().unwrap()]);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for part in ["unknown factor sparsity", "2:4", "fp4", "unknown factor frames", "video", "Workload"] {
        assert!(shown.contains(part), "{part} is missing in\n{shown}");
    }
    let rows = shown.lines().filter(|line| line.starts_with('|')).count();
    assert_eq!(rows, 2 + 4, "{shown}");
    let figure = folder.path().join("times.svg");
    let output = multicard(folder.path(), &["figure", session.to_str().unwrap(), "--out", figure.to_str().unwrap()]);
    assert_ne!(output.status.code(), Some(101), "{}", text(&output.stderr));
}

#[test]
fn a_session_of_a_later_version_is_rebuilt_from_its_journal() {
    let folder = session();
    let session = folder.path().join("session");
    for entry in std::fs::read_dir(&session).unwrap().flatten() {
        if entry.file_name().to_string_lossy().starts_with("index") {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    let output = multicard(folder.path(), &["table", session.to_str().unwrap()]);
    let shown = text(&output.stdout);
    assert!(shown.contains("unknown factor sparsity") && shown.contains("video"), "{shown}");
}
