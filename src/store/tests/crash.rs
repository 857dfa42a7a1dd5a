//! States after a power failure: logs shorter than the index expects, and partial files.

use std::fs;
use std::path::Path;

use super::fixture::*;
use crate::plan::RunState;
use crate::store::{Reader, Store, index_path, rebuild};

fn cut(folder: &Path, path: &str, lines: usize) {
    let path = folder.join(path);
    let text = fs::read_to_string(&path).unwrap();
    let kept: String = text.split_inclusive('\n').take(lines).collect();
    fs::write(path, kept).unwrap();
}

/// The index as found, and as rebuilt.
fn found_and_remade(folder: &Path) -> [Vec<crate::store::RunRecord>; 2] {
    let found = everything(&Reader::open(folder).unwrap());
    rebuild(folder, &mut |_, _| {}).unwrap();
    [found, everything(&Reader::open(folder).unwrap())]
}

#[test]
fn what_a_log_lost_is_lost_by_the_index_too() {
    let (folder, store) = session_of_r1();
    store.decide(run_started("r1")).unwrap();
    for number in 1..=5 {
        say(&store, "r1", 0, number as f64, step(number));
        store.sample("r1", sample(number as f64, number as f64, &[])).unwrap();
    }
    store.flush().unwrap();
    drop(store);
    cut(folder.path(), "runs/r1/rank-0.jsonl", 2);
    let [found, remade] = found_and_remade(folder.path());
    assert_eq!(found[0].ranks[0].steps.len(), 2);
    assert_eq!(found, remade);
    cut(folder.path(), "runs/r1/samples.jsonl", 3);
    let [found, remade] = found_and_remade(folder.path());
    assert_eq!(found[0].telemetry.samples, 3);
    assert_eq!(found, remade);
}

#[test]
fn a_log_of_a_run_under_way_that_kept_its_length_and_lost_what_stood_in_it_is_read_again() {
    let (folder, store) = session_of_r1();
    for number in 1..=3 {
        store.sample("r1", sample(number as f64, 0.0, &[])).unwrap();
    }
    store.flush().unwrap();
    drop(store);
    let path = folder.path().join("runs/r1/samples.jsonl");
    let mut bytes = fs::read(&path).unwrap();
    let half = bytes.len() / 2;
    bytes[half..].fill(0);
    fs::write(&path, bytes).unwrap();
    let [found, remade] = found_and_remade(folder.path());
    assert_eq!(found[0].telemetry.samples, 1);
    assert_eq!(found, remade);
}

#[test]
fn logs_of_a_run_under_way_that_lost_everything_leave_nothing_in_the_index() {
    let (folder, store) = session_of_r1();
    store.decide(run_started("r1")).unwrap();
    for rank in 0..2 {
        say(&store, "r1", rank, 1.0, step(1));
    }
    store.sample("r1", sample(1.0, 1.0, &[])).unwrap();
    store.flush().unwrap();
    drop(store);
    // The machine stopped before anything was synced: one log is empty, the others are missing.
    let run = folder.path().join("runs/r1");
    fs::write(run.join("rank-0.jsonl"), "").unwrap();
    for name in ["rank-1.jsonl", "samples.jsonl"] {
        let _ = fs::remove_file(run.join(name));
    }
    let [found, remade] = found_and_remade(folder.path());
    assert!(found[0].ranks.is_empty() && found[0].telemetry.samples == 0, "{:?}", found[0]);
    assert_eq!(found, remade);
}

#[test]
fn a_journal_that_lost_its_last_decision_is_followed_by_the_index() {
    let (folder, store) = session_of_r1();
    store.decide(queued("r2")).unwrap();
    store.flush().unwrap();
    drop(store);
    cut(folder.path(), "journal.jsonl", 1);
    let store = Store::open(folder.path()).unwrap();
    let runs = store.reader().unwrap().runs().unwrap();
    assert_eq!(runs.iter().map(|record| record.run.as_str()).collect::<Vec<_>>(), ["r1"]);
}

#[test]
fn a_creation_that_was_cut_off_anywhere_is_taken_up() {
    for created in [&["session.lock"][..], &["session.lock", "runs/"], &["session.lock", "runs/", "session.toml.new"]] {
        let folder = tempfile::tempdir().unwrap();
        for name in created {
            match name.strip_suffix('/') {
                Some(name) => fs::create_dir(folder.path().join(name)).unwrap(),
                None => fs::write(folder.path().join(name), "half").unwrap(),
            }
        }
        Store::create(folder.path(), &node()).unwrap();
    }
    // With a session.toml the folder is a session, whatever else is missing.
    let (folder, store) = session();
    drop(store);
    fs::remove_file(folder.path().join("journal.jsonl")).unwrap();
    fs::remove_dir(folder.path().join("runs")).unwrap();
    Store::open(folder.path()).unwrap().decide(queued("r1")).unwrap();
}

#[test]
fn a_rebuild_that_was_cut_off_before_its_end_is_made_again() {
    let (folder, before) = session_of_a_finished_run();
    let index = index_path(folder.path());
    let new = index.with_extension("sqlite.new");
    fs::copy(&index, &new).unwrap();
    // The old index was removed, and the new one not yet renamed.
    fs::remove_file(&index).unwrap();
    assert_eq!(everything(&Reader::open(folder.path()).unwrap()), before);
    assert!(!new.exists());
}

#[test]
fn the_duration_that_was_measured_says_when_a_run_ended_whatever_the_clock_says() {
    let (folder, store) = session_of_r1();
    store.decide(run_started("r1")).unwrap();
    let ended = crate::store::Decision::RunEnded {
        run: "r1".to_owned(),
        state: RunState::Finished,
        reason: None,
        duration_s: Some(1234.5),
    };
    store.decide(ended).unwrap();
    store.flush().unwrap();
    let record = store.reader().unwrap().runs().unwrap().remove(0);
    assert!((record.ended_time_s.unwrap() - record.started_time_s.unwrap() - 1234.5).abs() < 1e-3);
    drop((store, folder));
}
