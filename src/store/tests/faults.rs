//! Sessions that are in use, newer, damaged, or on a failing disk.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime};

use super::fixture::*;
use crate::foreign::MOST_LINE_BYTES;
use crate::plan::RunState;
use crate::protocol::{Event, PROTOCOL_VERSION, Phase, Placement, RankPlace};
use crate::store::folder::lock;
use crate::store::index_keeper::open_index;
use crate::store::{Decision, Reader, RebuildReport, RunRecord, Store, StoreError, index_path, rebuild};

#[test]
fn a_second_writer_is_refused_and_may_read() {
    let (folder, store) = session_of_r1();
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
fn a_log_that_is_changed_after_its_run_had_finished_is_named_and_its_run_has_no_numbers() {
    let (folder, store) = session();
    for decision in [plan_added(), queued("r1"), run_started("r1")] {
        store.decide(decision).unwrap();
    }
    for event in [started(), phase(Phase::Steady), step(1), step(2), Event::Finished { duration_s: 1.0 }] {
        let line = line("r1", 0, 9.0, event);
        log(folder.path(), &line);
        store.event(line).unwrap();
    }
    store.decide(ended("r1", RunState::Finished)).unwrap();
    drop(store);
    let state = || Reader::open(folder.path()).unwrap().runs().unwrap()[0].state;
    let damage = || Reader::open(folder.path()).unwrap().damage().unwrap();
    assert_eq!((state(), damage().len()), (RunState::Finished, 0));
    // As long as before, and with the times that it had.
    let path = folder.path().join("runs/r1/rank-0.jsonl");
    let (whole, written) = (fs::read_to_string(&path).unwrap(), fs::metadata(&path).unwrap().modified().unwrap());
    let changed = whole.replace("\"duration_s\":0.2", "\"duration_s\":0.9");
    assert_ne!(changed, whole);
    fs::write(&path, &changed).unwrap();
    File::options().write(true).open(&path).unwrap().set_modified(written).unwrap();
    for _ in 0..2 {
        let found = format!("{:?}", damage());
        assert!(found.contains("rank-0.jsonl") && found.contains("changed after its run had finished"), "{found}");
        assert_eq!(state(), RunState::Failed);
    }
    let report = rebuild(folder.path(), &mut |_, _| {}).unwrap();
    assert!(report.damaged.iter().any(|place| place.contains("changed after its run had finished")), "{report:?}");
    fs::write(&path, &whole).unwrap();
    assert_eq!((state(), damage().len()), (RunState::Finished, 0), "it is as it was");
    fs::write(&path, whole + "{}\n").unwrap();
    assert_eq!(state(), RunState::Failed, "a line more");
}

#[test]
fn links_in_place_of_a_sessions_files_are_refused_by_name_and_not_followed() {
    let (folder, store) = session();
    drop(store);
    let elsewhere = tempfile::tempdir().unwrap();
    let target = elsewhere.path().join("precious");
    for name in ["journal.jsonl", "session.lock", "session.toml"] {
        fs::write(&target, "{}\nno line break").unwrap();
        let path = folder.path().join(name);
        let kept = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        symlink(&target, &path).unwrap();
        let error = Store::open(folder.path()).err().unwrap().to_string();
        assert!(error.contains(name) && error.contains("a link, which is not followed"), "{error}");
        assert_eq!(fs::read_to_string(&target).unwrap(), "{}\nno line break", "{name}");
        fs::remove_file(&path).unwrap();
        fs::write(&path, kept).unwrap();
    }
    let store = Store::open(folder.path()).unwrap();
    fs::create_dir_all(store.run_folder("r1")).unwrap();
    fs::write(&target, "no line break").unwrap();
    symlink(&target, folder.path().join("runs/r1/samples.jsonl")).unwrap();
    store.sample("r1", sample(0.0, 0.0, &[])).unwrap();
    let error = store.flush().unwrap_err().to_string();
    assert!(error.contains("a link, which is not followed"), "{error}");
    assert_eq!(fs::read_to_string(&target).unwrap(), "no line break");
}

#[test]
fn a_full_disk_is_named_with_what_to_do() {
    let full = || io::Error::from_raw_os_error(rustix::io::Errno::NOSPC.raw_os_error());
    let error = StoreError::io("writing", Path::new("journal.jsonl"))(full());
    assert!(error.to_string().contains("free space"), "{error}");
}

/// What becomes of a log.
type Spoil = &'static dyn Fn(&Path);

/// A session with one finished run of two ranks; `is_placed` where the journal has its placement, which version 0.1 did not write.
fn finished_run(is_placed: bool) -> (tempfile::TempDir, Vec<RunRecord>) {
    let (folder, store) = session();
    store.decide(plan_added()).unwrap();
    store.decide(queued("r1")).unwrap();
    let placement = Placement { ranks: vec![RankPlace::on_cpu(0, 1), RankPlace::on_cpu(1, 1)], links: String::new() };
    let placed =
        Decision::RunPlaced { run: "r1".to_owned(), placement, beside: vec![], warnings: vec![], environment: None };
    if is_placed {
        store.decide(placed).unwrap();
    }
    store.decide(run_started("r1")).unwrap();
    for rank in [0, 1] {
        say(&store, "r1", rank, 1.0, started_of(2));
        say(&store, "r1", rank, 2.0, step(1));
        say(&store, "r1", rank, 3.0, Event::Finished { duration_s: 2.0 });
    }
    store.decide(ended("r1", RunState::Finished)).unwrap();
    store.flush().unwrap();
    let before = everything(&store.reader().unwrap());
    assert_eq!((before[0].state, store.reader().unwrap().damage().unwrap()), (RunState::Finished, Vec::new()));
    (folder, before)
}

fn finished_run_of_two_ranks() -> (tempfile::TempDir, Vec<RunRecord>) {
    finished_run(true)
}

/// Opens a session whose run ended long ago: its folder is not listed again until it is changed.
fn settle(folder: &Path) {
    let earlier = SystemTime::now() - Duration::from_secs(10);
    File::open(folder.join("runs/r1")).unwrap().set_modified(earlier).unwrap();
    drop(Reader::open(folder).unwrap());
    let (index, _) = open_index(folder).unwrap();
    assert!(index.folders().unwrap().contains_key("r1"));
}

#[test]
fn folders_that_may_still_change_are_listed_each_time() {
    let (folder, _) = finished_run_of_two_ranks();
    let known = |folder: &Path| open_index(folder).unwrap().0.folders().unwrap();
    assert!(known(folder.path()).is_empty(), "it was changed just now");
    settle(folder.path());
    let store = Store::open(folder.path()).unwrap();
    store.decide(queued("r2")).unwrap();
    store.decide(run_started("r2")).unwrap();
    say(&store, "r2", 0, 1.0, started());
    drop(store);
    File::open(folder.path().join("runs/r2")).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    drop(Reader::open(folder.path()).unwrap());
    assert_eq!(known(folder.path()).into_keys().collect::<Vec<_>>(), ["r1"], "the second run has not ended");
}

#[test]
fn a_finished_run_whose_logs_lack_something_counts_as_failed_and_every_reader_says_what() {
    let spoil: [(Spoil, &str); 7] = [
        (&|log| fs::remove_file(log).unwrap(), "rank-1.jsonl: the end of rank 1 is missing"),
        (&|log| cut(log, 1), "rank-1.jsonl:3: the last line is incomplete"),
        (&|log| cut(log, 40), "rank-1.jsonl:3: the last line is incomplete"),
        (&|log| fs::write(log, "").unwrap(), "rank-1.jsonl: the end of rank 1 is missing"),
        (&|log| fs::write(log, [7; 500]).unwrap(), "rank-1.jsonl:1: the last line is incomplete"),
        (&|log| append_to(log, "{\"run\":\n"), "rank-1.jsonl:4: "),
        (
            &|log| replace(log, "\"duration_s\":0.1", "\"duration_s\":-5"),
            "rank-1.jsonl:2: duration_s = -5e0 is impossible",
        ),
    ];
    let cases = spoil.into_iter().flat_map(|case| [(case, false), (case, true)]);
    for ((spoil, expected), is_settled) in cases {
        let (folder, _) = finished_run_of_two_ranks();
        if is_settled {
            settle(folder.path());
        }
        spoil(&folder.path().join("runs/r1/rank-1.jsonl"));
        for look in ["first", "second"] {
            let reader = Reader::open(folder.path()).unwrap();
            let damage = reader.damage().unwrap();
            assert!(damage.len() == 1 && damage[0].contains(expected), "{look}: {expected}: {damage:?}");
            for record in [reader.runs().unwrap(), reader.headings().unwrap(), everything(&reader)].concat() {
                assert_eq!(record.state, RunState::Failed, "{expected}");
                assert!(record.reason.as_ref().unwrap().contains(expected), "{record:?}");
            }
        }
        rebuild(folder.path(), &mut |_, _| {}).unwrap();
        assert_eq!(Reader::open(folder.path()).unwrap().damage().unwrap().len(), 1, "{expected}");
        let store = Store::open(folder.path()).unwrap();
        assert_eq!(store.reader().unwrap().damage().unwrap().len(), 1, "{expected}");
    }
}

#[test]
fn a_damaged_or_missing_journal_is_named_with_the_runs_that_it_lost() {
    let spoil: [(Spoil, &[&str]); 3] = [
        (
            &|journal| fs::remove_file(journal).unwrap(),
            &["journal.jsonl: it is missing", "the journal does not mention run r1"],
        ),
        (&|journal| fs::write(journal, "").unwrap(), &["the journal does not mention run r1"]),
        (
            &|journal| replace(journal, "run_queued", "run_forgotten"),
            &["journal.jsonl:2: unknown variant", "the journal does not mention run r1"],
        ),
    ];
    for (spoil, expected) in spoil {
        let (folder, _) = finished_run_of_two_ranks();
        spoil(&folder.path().join("journal.jsonl"));
        let damage = Reader::open(folder.path()).unwrap().damage().unwrap();
        assert_eq!(damage.len(), expected.len(), "{damage:?}");
        assert!(damage.iter().zip(expected).all(|(found, expected)| found.contains(expected)), "{damage:?}");
    }
}

#[test]
fn ranks_that_the_run_does_not_have_do_not_count() {
    for is_placed in [true, false] {
        ranks_beyond_do_not_count(is_placed, false);
        ranks_beyond_do_not_count(is_placed, true);
    }
}

fn ranks_beyond_do_not_count(is_placed: bool, is_settled: bool) {
    let (folder, before) = finished_run(is_placed);
    if is_settled {
        settle(folder.path());
    }
    for rank in 2..50 {
        log(folder.path(), &line("r1", rank, 1.0, step(1)));
    }
    for again in [false, true] {
        if again {
            rebuild(folder.path(), &mut |_, _| {}).unwrap();
        }
        let reader = Reader::open(folder.path()).unwrap();
        assert_eq!(everything(&reader), before);
        let damage = reader.damage().unwrap();
        assert!(damage.len() == 48 && damage[0].contains("the run has 2 ranks and no rank 10"), "{damage:?}");
    }
}

#[test]
fn a_log_of_nothing_but_damage_is_named_in_a_few_lines() {
    let (folder, _) = finished_run_of_two_ranks();
    append(folder.path(), "runs/r1/rank-0.jsonl", &"garbage\n".repeat(5_000));
    let report = rebuild(folder.path(), &mut |_, _| {}).unwrap();
    assert_eq!(report.damaged.len(), 21, "{:?}", report.damaged);
    assert!(report.damaged[20].contains("damage in 4980 more lines"), "{:?}", report.damaged[20]);
}

#[test]
fn a_line_of_a_log_that_has_no_end_is_named_and_takes_no_memory() {
    let (folder, _) = finished_run_of_two_ranks();
    let long = format!("{}\n", "x".repeat(MOST_LINE_BYTES + 1));
    append(folder.path(), "journal.jsonl", &long);
    let report = rebuild(folder.path(), &mut |_, _| {}).unwrap();
    assert!(report.runs == 1 && report.damaged.len() == 1, "{:?}", report.damaged);
    assert!(report.damaged[0].contains("the line is longer than any line of a log"), "{:?}", report.damaged);
}

#[test]
fn a_run_of_which_nothing_is_alive_is_read_as_interrupted_where_nobody_writes() {
    let (folder, store) = session();
    for run in ["r1", "r2"] {
        store.decide(queued(run)).unwrap();
    }
    store.decide(run_started("r1")).unwrap();
    store.flush().unwrap();
    let states = |reader: &Reader| -> Vec<RunState> { reader.runs().unwrap().iter().map(|run| run.state).collect() };
    let mut attended = Reader::open(folder.path()).unwrap();
    attended.settle(|_| false).unwrap();
    assert_eq!(states(&attended), [RunState::Starting, RunState::Queued], "a workbench has the session");
    drop(store);
    let mut reader = Reader::open(folder.path()).unwrap();
    reader.settle(|run| run == "r1").unwrap();
    assert_eq!(states(&reader), [RunState::Starting, RunState::Interrupted]);
    reader.settle(|_| false).unwrap();
    assert_eq!(states(&reader), [RunState::Interrupted; 2]);
    assert!(reader.run("r1").unwrap().unwrap().reason.unwrap().contains("its processes are gone"));
}

#[test]
fn readers_that_open_a_session_at_once_all_find_it_up_to_date_and_unattended() {
    let (folder, store) = session_of_r1();
    drop(store);
    for _ in 0..20 {
        fs::remove_file(index_path(folder.path())).unwrap();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut reader = Reader::open(folder.path()).unwrap();
                    reader.settle(|_| false).unwrap();
                    assert_eq!(reader.runs().unwrap()[0].state, RunState::Interrupted);
                });
            }
        });
    }
}

#[test]
fn a_reader_waits_for_the_index_that_a_writer_is_building() {
    let (folder, store) = session_of_r1();
    drop(store);
    fs::remove_file(index_path(folder.path())).unwrap();
    let writer = lock(folder.path()).unwrap();
    thread::scope(|scope| {
        let reader = scope.spawn(|| Reader::open(folder.path()));
        open_index(folder.path()).unwrap();
        assert_eq!(reader.join().unwrap().unwrap().runs().unwrap().len(), 1);
    });
    drop(writer);
}

fn cut(log: &Path, bytes: u64) {
    let file = File::options().write(true).open(log).unwrap();
    file.set_len(file.metadata().unwrap().len() - bytes).unwrap();
}

fn append_to(log: &Path, text: &str) {
    append(log.parent().unwrap(), log.file_name().unwrap().to_str().unwrap(), text);
}

fn replace(log: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(log).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(log, text.replacen(from, to, 1)).unwrap();
}

#[test]
fn an_index_that_failed_is_told_and_catches_up_when_it_can() {
    let (folder, store) = session_of_r1();
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
    let (folder, before) = session_of_a_finished_run();
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
    let (folder, store) = session_of_r1();
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
    let (folder, store) = session_of_r1();
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
    let (folder, store) = session_of_r1();
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
fn a_journal_that_is_gone_is_told_from_a_full_disk() {
    let (folder, store) = session();
    store.decide(queued("r1")).unwrap();
    let journal = folder.path().join("journal.jsonl");
    fs::remove_file(&journal).unwrap();
    assert!(store.decide(queued("r2")).unwrap_err().is_log_gone());
    let full = StoreError::Io { doing: "writing", path: journal, source: io::ErrorKind::StorageFull.into() };
    assert!(!full.is_log_gone());
}

#[test]
fn run_ids_that_lead_out_of_the_session_are_refused() {
    let (_folder, store) = session();
    assert!(matches!(store.decide(queued("../r1")), Err(StoreError::RunId { .. })));
    assert!(matches!(store.sample("../r1", sample(0.0, 0.0, &[])), Err(StoreError::RunId { .. })));
}

#[test]
fn a_session_that_has_not_changed_is_opened_without_reading_its_logs_again() {
    let (folder, _) = finished_run_of_two_ranks();
    drop(Store::open(folder.path()).unwrap());
    assert_eq!(*Store::open(folder.path()).unwrap().found(), RebuildReport::default());
    append(folder.path(), "runs/r1/samples.jsonl", "");
    assert_eq!(
        *Store::open(folder.path()).unwrap().found(),
        RebuildReport::default(),
        "an empty log has nothing to read"
    );
}
