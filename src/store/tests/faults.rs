//! Sessions that are in use, newer, damaged, or on a failing disk.

use std::fs;
use std::os::unix::fs::symlink;

use super::fixture::*;
use crate::plan::RunState;
use crate::protocol::{Event, PROTOCOL_VERSION};
use crate::store::{Reader, Store, StoreError, index_path, rebuild};

#[test]
fn a_second_writer_is_refused_and_may_read() {
    let (folder, store) = session();
    store.decide(queued("r1")).unwrap();
    store.flush().unwrap();
    assert!(matches!(Store::open(folder.path()), Err(StoreError::InUse { .. })));
    assert!(matches!(rebuild(folder.path(), &mut |_, _| {}), Err(StoreError::InUse { .. })));
    assert_eq!(Reader::open(folder.path()).unwrap().runs().unwrap().len(), 1);
    drop(store);
    assert!(Store::open(folder.path()).is_ok());
}

#[test]
fn a_newer_session_is_refused_by_name() {
    let (folder, store) = session();
    drop(store);
    fs::write(folder.path().join("session.toml"), "version = 2\nshape = \"unknown\"\n").unwrap();
    for error in [Store::open(folder.path()).err().unwrap(), Reader::open(folder.path()).err().unwrap()] {
        let text = error.to_string();
        assert!(text.contains("session.toml: session version 2 is newer than 1"), "{text}");
    }
}

#[test]
fn what_is_no_session_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(Store::open(folder.path()), Err(StoreError::NotASession { .. })));
    assert!(matches!(Reader::open(&folder.path().join("none")), Err(StoreError::NotASession { .. })));
    fs::write(folder.path().join("thesis.tex"), "").unwrap();
    let error = Store::create(folder.path(), &node()).err().unwrap();
    assert!(error.to_string().contains("thesis.tex"), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing was left there");
    let (folder, _store) = session();
    assert!(matches!(Store::create(folder.path(), &node()), Err(StoreError::Exists { .. })));
    fs::write(folder.path().join("session.toml"), "version = \"one\"").unwrap();
    assert!(matches!(Reader::open(folder.path()), Err(StoreError::Malformed { .. })));
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error_with_advice() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("session")] {
        let error = Store::create(&path, &node()).err().unwrap();
        assert!(matches!(error, StoreError::Io { .. }), "{error}");
        assert!(error.to_string().contains("--session"), "{error}");
    }
}

#[test]
fn a_full_disk_under_the_journal_is_told_at_once() {
    let (folder, store) = session();
    drop(store);
    let journal = folder.path().join("journal.jsonl");
    fs::remove_file(&journal).unwrap();
    symlink("/dev/full", &journal).unwrap();
    let store = Store::open(folder.path()).unwrap();
    let error = store.decide(queued("r1")).unwrap_err();
    assert!(error.to_string().contains("free space"), "{error}");
}

#[test]
fn a_full_disk_under_the_samples_is_told_by_the_next_call() {
    let (folder, store) = session();
    fs::create_dir_all(store.run_folder("r1")).unwrap();
    symlink("/dev/full", folder.path().join("runs/r1/samples.jsonl")).unwrap();
    store.sample("r1", sample(0.0, 0.0, &[])).unwrap();
    let error = store.flush().unwrap_err();
    assert!(error.to_string().contains("free space"), "{error}");
    store.decide(queued("r1")).unwrap();
    store.flush().unwrap();
}

#[test]
fn an_index_that_failed_is_told_and_catches_up_when_it_can() {
    let (folder, store) = session();
    store.decide(queued("r1")).unwrap();
    store.flush().unwrap();
    let other = rusqlite::Connection::open(index_path(folder.path())).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    say(&store, "r1", 0, 0.0, started());
    say(&store, "r1", 0, 1.0, step(1));
    store.sample("r1", sample(0.0, 0.0, &[])).unwrap();
    let error = store.flush().unwrap_err();
    assert!(matches!(error, StoreError::Index { .. }), "{error}");
    other.execute_batch("ROLLBACK").unwrap();
    store.flush().unwrap();
    let run = store.reader().unwrap().run("r1").unwrap().unwrap();
    assert_eq!((run.ranks[0].steps.len(), run.telemetry.samples), (1, 1));
}

#[test]
fn an_index_that_is_missing_damaged_or_of_another_version_is_made_anew() {
    let (folder, store) = session();
    store.decide(queued("r1")).unwrap();
    say(&store, "r1", 0, 1.0, step(1));
    store.decide(ended("r1", RunState::Finished)).unwrap();
    store.flush().unwrap();
    let before = everything(&store.reader().unwrap());
    drop(store);
    let index = index_path(folder.path());
    let spoil: [&dyn Fn(); 4] = [
        &|| fs::remove_file(&index).unwrap(),
        &|| fs::write(&index, "this is no database, and long enough to be read as a header of one".repeat(99)).unwrap(),
        &|| rusqlite::Connection::open(&index).unwrap().pragma_update(None, "user_version", 99).unwrap(),
        &|| {
            let mut bytes = fs::read(&index).unwrap();
            bytes[4096..].fill(0xA5);
            fs::write(&index, bytes).unwrap();
        },
    ];
    for spoil in spoil {
        spoil();
        assert_eq!(everything(&Reader::open(folder.path()).unwrap()), before);
        spoil();
        let store = Store::open(folder.path()).unwrap();
        assert_eq!(everything(&store.reader().unwrap()), before);
    }
}

#[test]
fn torn_last_lines_are_left_out_and_noted() {
    let (folder, store) = session();
    store.decide(queued("r1")).unwrap();
    say(&store, "r1", 0, 1.0, step(1));
    store.sample("r1", sample(0.0, 0.0, &[])).unwrap();
    drop(store);
    for path in ["journal.jsonl", "runs/r1/rank-0.jsonl", "runs/r1/samples.jsonl"] {
        append(folder.path(), path, "{\"time_s\": 1");
    }
    let report = rebuild(folder.path(), &mut |_, _| {}).unwrap();
    assert_eq!((report.runs, report.events, report.samples, report.damaged.len()), (1, 1, 1, 0));
    assert_eq!(report.torn.len(), 3, "{:?}", report.torn);
    assert!(report.torn[1].starts_with("runs/r1/rank-0.jsonl:2: "), "{:?}", report.torn);
    // The store continues with whole logs.
    let store = Store::open(folder.path()).unwrap();
    store.decide(queued("r2")).unwrap();
    store.sample("r1", sample(1.0, 0.0, &[])).unwrap();
    drop(store);
    let report = rebuild(folder.path(), &mut |_, _| {}).unwrap();
    assert_eq!((report.runs, report.samples, report.damaged.len(), report.torn.len()), (2, 2, 0, 1));
}

#[test]
fn garbage_is_named_by_file_and_line_and_the_rest_goes_on() {
    let (folder, store) = session();
    store.decide(queued("r1")).unwrap();
    drop(store);
    let log_path = "runs/r1/rank-0.jsonl";
    log(folder.path(), &line("r1", 0, 1.0, step(1)));
    append(folder.path(), log_path, "\u{0}\u{0}garbage\n\n{\"run\":\"r1\"}\n");
    log(folder.path(), &line("r1", 0, 2.0, step(2)));
    let foreign = serde_json::to_string(&line("r2", 0, 2.0, step(3))).unwrap();
    append(folder.path(), log_path, &(foreign + "\n"));
    append(folder.path(), "journal.jsonl", "[]\n");
    let report = rebuild(folder.path(), &mut |_, _| {}).unwrap();
    assert_eq!((report.runs, report.events), (1, 2));
    let places: Vec<&str> = report.damaged.iter().map(|text| text.split(": ").next().unwrap()).collect();
    let expected = ["journal.jsonl:2", "runs/r1/rank-0.jsonl:2", "runs/r1/rank-0.jsonl:3", "runs/r1/rank-0.jsonl:4"];
    assert_eq!(places, [&expected[..], &["runs/r1/rank-0.jsonl:6"]].concat());
}

#[test]
fn a_newer_protocol_is_refused_by_name() {
    let (folder, store) = session();
    store.decide(queued("r1")).unwrap();
    let Event::Started { pid, torch_version, device, world_size, seed, .. } = started() else { unreachable!() };
    let protocol_version = PROTOCOL_VERSION + 1;
    let newer = Event::Started { protocol_version, pid, torch_version, device, world_size, seed };
    let error = store.event(line("r1", 0, 0.0, newer.clone())).unwrap_err();
    assert!(matches!(error, StoreError::Newer { .. }), "{error}");
    drop(store);
    log(folder.path(), &line("r1", 0, 0.0, newer));
    log(folder.path(), &line("r1", 0, 1.0, step(1)));
    append(folder.path(), "runs/r1/rank-1.jsonl", "{\"protocol_version\":7,\"shape\":\"unknown\"}\n");
    log(folder.path(), &line("r1", 2, 1.0, step(1)));
    let report = rebuild(folder.path(), &mut |_, _| {}).unwrap();
    assert_eq!((report.events, report.damaged.len()), (1, 2), "only rank 2 is known: {:?}", report.damaged);
    assert!(report.damaged[0].starts_with("runs/r1/rank-0.jsonl:1: protocol version 3 is newer"));
    assert!(report.damaged[1].starts_with("runs/r1/rank-1.jsonl:1: protocol version 7 is newer"));
}

#[test]
fn run_ids_that_lead_out_of_the_session_are_refused() {
    let (_folder, store) = session();
    assert!(matches!(store.decide(queued("../r1")), Err(StoreError::RunId { .. })));
    assert!(matches!(store.sample("../r1", sample(0.0, 0.0, &[])), Err(StoreError::RunId { .. })));
}
