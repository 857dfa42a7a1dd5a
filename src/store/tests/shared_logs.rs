//! Logs that the ranks of a node share: here ranks 0 and 1 write `rank-0.jsonl`, ranks 2 and 3 write `rank-2.jsonl`.

use std::fs;

use tempfile::TempDir;

use super::fixture::*;
use crate::plan::RunState;
use crate::protocol::{Event, EventLine, Placement, RankPlace, rank_log};
use crate::store::{Decision, Reader, RunRecord, Store, rebuild};

/// The path of a rank's log in the session.
fn log_of(rank: u32) -> String {
    format!("runs/r1/{}", rank_log(rank - rank % 2))
}

fn text(line: &EventLine) -> String {
    serde_json::to_string(line).unwrap() + "\n"
}

fn finished(rank: u32) -> EventLine {
    line("r1", rank, 3.0, Event::Finished { duration_s: 2.0 })
}

/// A rank logs an event.
fn tell(store: &Store, line: EventLine) {
    append(store.folder(), &log_of(line.rank), &text(&line));
    store.event(line).unwrap();
}

/// A session with a finished run of four ranks. `before_the_end` was written into the second log before the ranks finished.
fn finished_run(before_the_end: &str) -> (TempDir, RunRecord) {
    let (folder, store) = session_of_r1();
    let ranks = (0..4).map(|rank| RankPlace::on_cpu(rank, 1)).collect();
    let placement = Placement { ranks, links: String::new() };
    let run = "r1".to_owned();
    store.decide(Decision::RunPlaced { run, placement, beside: vec![], warnings: vec![], environment: None }).unwrap();
    store.decide(run_started("r1")).unwrap();
    (0..4).for_each(|rank| tell(&store, line("r1", rank, 1.0, started_of(4))));
    (0..4).for_each(|rank| tell(&store, line("r1", rank, 2.0, step(u64::from(rank) + 1))));
    append(folder.path(), &log_of(2), before_the_end);
    (0..4).for_each(|rank| tell(&store, finished(rank)));
    store.decide(ended("r1", RunState::Finished)).unwrap();
    store.flush().unwrap();
    let record = everything(&store.reader().unwrap()).remove(0);
    (folder, record)
}

fn steps(record: &RunRecord) -> Vec<Vec<u64>> {
    record.ranks.iter().map(|rank| rank.steps.iter().map(|step| step.step).collect()).collect()
}

#[test]
fn each_rank_has_the_events_that_name_it_in_the_index_and_in_a_rebuilt_one() {
    let (folder, record) = finished_run("");
    assert_eq!((record.state, steps(&record)), (RunState::Finished, vec![vec![1], vec![2], vec![3], vec![4]]));
    let report = rebuild(folder.path(), &mut |_, _| {}).unwrap();
    assert_eq!((report.events, report.damaged), (12, Vec::new()));
    assert_eq!(everything(&Reader::open(folder.path()).unwrap()), [record]);
}

#[test]
fn a_piece_of_a_line_does_no_harm_if_the_line_is_written_again_and_is_named_otherwise() {
    let (_, expected) = finished_run("");
    let last = text(&finished(3));
    for pieces in [&last[..3], &last[..40], last.trim_end(), &[&last[..30], &last[..50]].concat()] {
        let (folder, record) = finished_run(pieces);
        assert_eq!((record.state, &record.ranks), (RunState::Finished, &expected.ranks), "{pieces}");
        let report = rebuild(folder.path(), &mut |_, _| {}).unwrap();
        assert_eq!((report.events, report.damaged), (12, Vec::new()), "{pieces}");
    }
    // Rank 3 was killed while it wrote a line; rank 2 wrote on.
    let (folder, record) = finished_run("{\"run\":\"r1\",\"rank\":3,\"time_s\":2.5,\"ev");
    assert_eq!((record.state, &record.ranks), (RunState::Failed, &expected.ranks));
    let damage = Reader::open(folder.path()).unwrap().damage().unwrap();
    assert_eq!(damage, ["runs/r1/rank-2.jsonl:5: it begins with a piece of a line that was not written again"]);
}

#[test]
fn a_line_of_a_rank_that_has_another_log_is_left_out_and_named() {
    let (folder, record) = finished_run(&text(&line("r1", 1, 2.5, step(9))));
    assert_eq!((record.state, steps(&record)), (RunState::Failed, vec![vec![1], vec![2], vec![3], vec![4]]));
    rebuild(folder.path(), &mut |_, _| {}).unwrap();
    let reader = Reader::open(folder.path()).unwrap();
    assert_eq!(reader.damage().unwrap(), ["runs/r1/rank-2.jsonl:5: it belongs to run \"r1\", rank 1"]);
    assert_eq!(everything(&reader), [record]);
}

#[test]
fn a_missing_log_is_named_once_and_the_ranks_of_the_other_one_keep_their_events() {
    for is_deleted in [true, false] {
        let (folder, _) = finished_run("");
        let log = folder.path().join(log_of(2));
        if is_deleted {
            fs::remove_file(log).unwrap();
        } else {
            fs::write(log, "").unwrap();
        }
        let reader = Reader::open(folder.path()).unwrap();
        let damage = reader.damage().unwrap();
        assert!(damage.len() == 1 && damage[0].contains("rank-2.jsonl: the end of rank 2 is missing"), "{damage:?}");
        let record = everything(&reader).remove(0);
        assert_eq!((record.state, steps(&record)), (RunState::Failed, vec![vec![1], vec![2]]));
    }
}

#[test]
fn a_log_that_has_grown_is_read_again_without_the_logs_of_other_ranks() {
    let (folder, _) = finished_run("");
    append(folder.path(), &log_of(0), &text(&line("r1", 1, 4.0, step(9))));
    let reader = Reader::open(folder.path()).unwrap();
    let record = everything(&reader).remove(0);
    assert_eq!(steps(&record), [vec![1], vec![2, 9], vec![3], vec![4]]);
    let damage = reader.damage().unwrap();
    assert!(damage.len() == 1 && damage[0].contains("rank-0.jsonl: it was changed after its run"), "{damage:?}");
}
