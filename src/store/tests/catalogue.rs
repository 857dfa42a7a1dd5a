//! Sessions at a glance, and what is done to them whole.

use std::collections::BTreeMap;
use std::time::Instant;

use super::fixture::*;
use crate::plan::{Filter, Level, RunState, image};
use crate::store::{
    Decision, SessionHeading, Store, StoreError, delete_session, rename_session, restore_deleted, run_notes,
};

fn noted(run: Option<&str>, note: &str) -> Decision {
    Decision::Noted { run: run.map(str::to_owned), note: note.to_owned() }
}

#[test]
fn a_session_is_told_by_its_journal_and_found_by_levels_notes_and_tags() {
    let (folder, store) = session_of_r1();
    store.decide(queued("r2")).unwrap();
    store.decide(ended("r1", RunState::Finished)).unwrap();
    store.decide(noted(None, "first")).unwrap();
    store.decide(noted(None, "after the driver update #Paper, #h100")).unwrap();
    store.decide(noted(Some("r1"), "fan was off")).unwrap();
    let heading = SessionHeading::read(folder.path()).unwrap();
    assert_eq!((heading.runs["finished"], heading.runs["queued"], heading.run_count()), (1, 1, 2));
    assert_eq!(run_notes(folder.path()).unwrap(), BTreeMap::from([("r1".to_owned(), "fan was off".to_owned())]));
    for (filter, found) in [
        ("driver", true),
        ("tag=paper", true),
        ("tag=pap", false),
        ("#h100 state=finished", true),
        ("runs>1 state=queued", true),
        ("state=failed", false),
        ("not tag=archived", true),
    ] {
        assert_eq!(Filter::parse(filter).unwrap().admits(&heading), found, "{filter}");
    }
    assert!(!heading.is_archived());
    store.decide(noted(None, "#archived")).unwrap();
    assert!(SessionHeading::read(folder.path()).unwrap().is_archived());
    drop(store);
    let reopened = Store::open(folder.path()).unwrap();
    assert!(reopened.found().torn.is_empty(), "notes are lines like others");
}

#[test]
fn a_started_run_counts_as_running_only_while_a_process_writes_the_session() {
    let (folder, store) = session_of_r1();
    store.decide(queued("r2")).unwrap();
    store.decide(Decision::RunStarted { run: "r1".to_owned(), pid: 1, process_start: 1 }).unwrap();
    let runs = || SessionHeading::read(folder.path()).unwrap().runs;
    assert_eq!(runs(), BTreeMap::from([("queued", 1), ("running", 1)]));
    drop(store);
    assert_eq!(runs(), BTreeMap::from([("queued", 2)]));
}

#[test]
fn the_levels_of_a_session_stand_in_the_order_of_their_factor_in_whatever_order_runs_were_queued() {
    let (folder, store) = session();
    for (run, precision, batch_size) in
        [("r1", "bf16", 128), ("r2", "fp32", 64), ("r3", "fp64", 1024), ("r4", "of-later", 64)]
    {
        let changed = [("precision", Level::text(precision)), ("batch_size", Level::Integer(batch_size))];
        let Decision::RunQueued { plan, cell, workload, data, repeat, tracer, mode, seed, .. } = queued(run) else {
            panic!("another decision");
        };
        let (run, levels) = (run.to_owned(), image::spec().levels(&changed));
        store
            .decide(Decision::RunQueued { run, plan, cell, workload, levels, data, repeat, tracer, mode, seed })
            .unwrap();
    }
    let heading = SessionHeading::read(folder.path()).unwrap();
    let levels = |key: &str| heading.levels[key].iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(levels("precision"), ["fp32", "fp64", "bf16", "of-later"]);
    assert_eq!(levels("batch_size"), ["64", "128", "1024"]);
    assert_eq!(&*heading.names["precision"], "Precision");
}

#[test]
fn sessions_are_renamed_deleted_and_put_back_unless_somebody_writes_them() {
    let home = tempfile::tempdir().unwrap();
    let (a, b) = (home.path().join("a"), home.path().join("b"));
    let store = Store::create(&a, &node()).unwrap();
    assert!(matches!(rename_session(&a, "b"), Err(StoreError::InUse { .. })));
    assert!(matches!(delete_session(&a), Err(StoreError::InUse { .. })));
    drop(store);
    drop(Store::create(&b, &node()).unwrap());
    assert!(matches!(rename_session(&a, "b"), Err(StoreError::Exists { .. })));
    let c = rename_session(&a, "c").unwrap();
    assert!(c.is_dir() && !a.exists());
    let deleted = delete_session(&c).unwrap();
    assert!(!c.exists());
    deleted.put_back(&c).unwrap();
    drop(deleted);
    assert!(SessionHeading::read(&c).is_ok());
    let deleted = delete_session(&c).unwrap();
    deleted.remove().unwrap();
    assert!(!deleted.folder().exists() && b.is_dir());
}

#[test]
fn sessions_that_a_killed_process_deleted_come_back_and_those_that_another_can_restore_stay_hidden() {
    let home = tempfile::tempdir().unwrap();
    let [killed, taken, pending, removed] = ["killed", "taken", "pending", "removed"].map(|name| {
        let folder = home.path().join(name);
        drop(Store::create(&folder, &node()).unwrap());
        folder
    });
    // After a process was killed, nobody has the lock.
    drop(delete_session(&killed).unwrap());
    drop(delete_session(&taken).unwrap());
    drop(Store::create(&taken, &node()).unwrap());
    let cut_short = delete_session(&removed).unwrap();
    std::fs::remove_file(cut_short.folder().join("session.toml")).unwrap();
    drop(cut_short);
    let of_another = delete_session(&pending).unwrap();
    std::fs::create_dir(home.path().join(".deleted-notes")).unwrap();
    let restored: Vec<_> = restore_deleted(home.path()).into_iter().map(Result::unwrap).collect();
    assert_eq!(restored, [killed, home.path().join("taken-2")]);
    assert!(restored.iter().all(|folder| SessionHeading::read(folder).is_ok()));
    assert!(!pending.exists() && !removed.exists());
    of_another.put_back(&pending).unwrap();
    assert!(restore_deleted(home.path()).is_empty());
}

#[test]
fn five_hundred_sessions_are_searched_in_less_than_fifty_milliseconds() {
    let (folder, store) = session();
    (1..40).for_each(|number| store.decide(queued(&format!("r{number}"))).unwrap());
    store.decide(noted(None, "a note of some words #tagged")).unwrap();
    let all = vec![SessionHeading::read(folder.path()).unwrap(); 500];
    let filter = Filter::parse("tag=tagged precision=fp32 (note or words) not \"another session\"").unwrap();
    let begun = Instant::now();
    let found = all.iter().filter(|heading| filter.admits(*heading)).count();
    let took = begun.elapsed();
    assert_eq!(found, 500);
    assert!(took.as_millis() < 50, "{took:?}");
}
