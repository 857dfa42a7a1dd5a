//! Writes imported runs as a session.

use std::path::Path;

use sha2::{Digest, Sha256};
use thiserror::Error;

use super::{Imported, Mapping, Problem, Results};
use crate::plan::{Data, Key, Mode, Node, RunState, Tracer};
use crate::protocol::{Device, Event, EventLine, PROTOCOL_VERSION, Placement, RankPlace, now_s};
use crate::store::{
    ArchiveError, ArchiveProgress, Decision, EndedRun, IMPORTED_SYSTEM, Reader, UNKNOWN_HOST, create_ended,
};

/// A file that cannot become a session.
#[derive(Debug, Error)]
pub enum ImportError {
    /// What is wrong with the file or with its mapping.
    #[error("{}", lines(file, problems))]
    Problems {
        /// The file.
        file: String,
        /// Each with its place.
        problems: Vec<Problem>,
    },
    /// The session cannot be written.
    #[error(transparent)]
    Write(#[from] ArchiveError),
}

fn lines(file: &str, problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(|problem| format!("{file}: {problem}")).collect();
    lines.join("\n")
}

/// Writes the runs of a file as the session `session`, which must not exist yet. `file` and `format` are the names of
/// the file and of its format.
///
/// # Errors
/// The session exists or cannot be written; then nothing is left of it.
pub fn write_session(
    session: &Path,
    (file, format): (&str, &str),
    mapping: &Mapping,
    results: &Results,
    progress: ArchiveProgress<'_>,
) -> Result<(), ArchiveError> {
    let now_s = now_s();
    let toml = plan_text((file, format), mapping, results);
    let workload = serde_json::to_value(&results.spec).unwrap_or_default();
    let plan = Decision::PlanAdded { plan: "p1".to_owned(), name: file.to_owned(), toml, workloads: vec![workload] };
    let runs = results.runs.iter().map(|run| ended(run, results, now_s));
    create_ended(session, &node(file, results), &(now_s, plan), runs, progress)
}

/// Whether a session was written from the same runs of a file of this name, read in the same way.
pub fn is_written(session: &Path, file: (&str, &str), mapping: &Mapping, results: &Results) -> bool {
    let plans = Reader::open(session).and_then(|reader| reader.plans());
    let text = plan_text(file, mapping, results);
    plans.is_ok_and(|plans| matches!(plans.as_slice(), [(_, _, of_session)] if *of_session == text))
}

/// The text of the session's plan: what columns mean, and the digest of the runs, by which the session is known again.
fn plan_text((file, format): (&str, &str), mapping: &Mapping, results: &Results) -> String {
    let mut digest = Sha256::new();
    for Imported { run, cell, levels, repeat, values, environment, started_s } in &results.runs {
        let content = (run, cell, levels, repeat, values, environment, started_s);
        digest.update(serde_json::to_vec(&content).unwrap_or_default());
    }
    let digest: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("# How multicard read {file} ({format}).\n# SHA-256 of its runs: {digest}\n{}", mapping.toml())
}

/// The machine of the runs: only its name can be known.
fn node(file: &str, results: &Results) -> Node {
    let mut machines: Vec<&str> = results.runs.iter().filter_map(|run| run.environment.get("hostname")).collect();
    machines.sort_unstable();
    machines.dedup();
    let unknown = UNKNOWN_HOST;
    Node {
        hostname: if machines.is_empty() { unknown.to_owned() } else { machines.join(", ") },
        system: format!("{IMPORTED_SYSTEM}{file}"),
        cpu_model: unknown.to_owned(),
        cpus: 0,
        memory_bytes: 0,
        numa_nodes: 0,
        driver: None,
        no_gpu_reason: Some("the runs were imported".to_owned()),
        gpus: Vec::new(),
        nodes: 1,
        worker: Err("the runs were imported".to_owned()),
        nsys: Err("the runs were imported".to_owned()),
        tracer: Err("the runs were imported".to_owned()),
    }
}

/// What the session records about a run.
fn ended(run: &Imported, results: &Results, now_s: f64) -> EndedRun {
    let at_s = run.started_s.unwrap_or(now_s);
    let id = || run.run.clone();
    let queued = Decision::RunQueued {
        run: id(),
        plan: "p1".to_owned(),
        cell: run.cell.clone(),
        workload: results.spec.key.clone(),
        levels: run.levels.clone(),
        data: Data::default(),
        repeat: run.repeat,
        seed: 0,
        tracer: Tracer::Off,
        mode: Mode::Full,
    };
    let placed = Decision::RunPlaced {
        run: id(),
        placement: Placement { ranks: vec![RankPlace::default()], links: String::new() },
        beside: Vec::new(),
        warnings: Vec::new(),
        environment: Some(run.environment.clone()),
    };
    // Without a known start, a run has no `run_started`.
    let started = run.started_s.map(|_| Decision::RunStarted { run: id(), pid: 0, process_start: 0 });
    let end = Decision::RunEnded { run: id(), state: RunState::Finished, reason: None, duration_s: None };
    let decisions = [queued, placed].into_iter().chain(started).chain([end]).map(|decision| (at_s, decision)).collect();
    let first = Event::Started {
        protocol_version: PROTOCOL_VERSION,
        pid: 0,
        torch_version: String::new(),
        device: Device { name: "not known".to_owned(), gpu_uuid: None },
        world_size: 1,
        seed: 0,
    };
    let reading =
        |(key, value): &(Key, f64)| Event::Reading { key: key.clone(), value: *value, epoch: None, step: None };
    let last = Event::Finished { duration_s: 0.0 };
    let events = std::iter::once(first).chain(run.values.iter().map(reading)).chain([last]);
    let line = |event| EventLine { run: id(), rank: 0, time_s: at_s, event };
    EndedRun { run: id(), decisions, events: events.map(line).collect() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::analysis::{RunSummary, cells, summarise_run};
    use crate::import::{read_bytes, results};

    /// The name and the format of the file in these tests.
    const FILE: (&str, &str) = ("bench.csv", "CSV");

    /// Writes a session of all results.
    fn write(session: &Path, mapping: &Mapping, results: &Results) -> Result<(), ArchiveError> {
        write_session(session, FILE, mapping, results, &mut |_, _| ControlFlow::Continue(()))
    }

    fn runs(reader: &Reader) -> Vec<RunSummary> {
        let headings = reader.headings().unwrap();
        headings.iter().map(|run| summarise_run(&reader.run(&run.run).unwrap().unwrap())).collect()
    }

    /// A folder with a `session` made from a file's text, and what was written into it. The map changes what was deduced.
    fn written(text: &str, map: &str) -> (tempfile::TempDir, Mapping, Results) {
        let table = read_bytes(text.as_bytes()).unwrap();
        let mut mapping = Mapping::deduced(&table);
        mapping.change(map).unwrap();
        let results = results(&table, &mapping, FILE.0).unwrap();
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("session"), &mapping, &results).unwrap();
        (folder, mapping, results)
    }

    /// The marks of the runs of a session made from these rows of two measures.
    fn marks(rows: &str, map: &str) -> Vec<Vec<String>> {
        let (folder, ..) = written(&format!("size,time_s,loss\n{rows}"), map);
        let runs = runs(&Reader::open(&folder.path().join("session")).unwrap());
        runs.iter().map(|run| run.marks.iter().map(|mark| mark.label().to_owned()).collect()).collect()
    }

    #[test]
    fn runs_of_rows_that_recur_are_marked_by_what_recurs_and_by_what_the_user_declared() {
        let times = ["1.001234", "1.045678", "1.098761"];
        let copied: String = times.iter().map(|time| format!("1,{time},0.5\n").repeat(2)).collect();
        let joined: String = (0..6).map(|row| format!("1,{},0.5{}\n", times[row / 2], 1013 * row * row)).collect();
        for (rows, map, expected) in [
            (&copied, "", "recurring rows"),
            (&joined, "", "recurring values"),
            (&copied, "rows = \"runs\"", "rows declared as runs"),
            (&joined, "rows = \"runs\"", "rows declared as runs"),
        ] {
            let marks = marks(rows, map);
            assert!(
                marks.len() == 6 && marks.iter().all(|own| *own == ["imported", expected]),
                "{expected}: {marks:?}"
            );
        }
    }

    #[test]
    fn a_file_becomes_a_session_of_finished_runs_that_are_marked() {
        let text = "size,time (ms),memory_mb,commit,date\n10,1.5,100,abc,2026-11-25\n10,1.7,,abc,2026-11-25\n20,3,200,abc,2026-11-26\n";
        let (folder, mapping, results) = written(text, "");
        let session = folder.path().join("session");
        let reader = Reader::open(&session).unwrap();
        assert!(reader.damage().unwrap().is_empty(), "{:?}", reader.damage());
        let runs = runs(&reader);
        assert!(runs.iter().all(|run| run.state == RunState::Finished && run.is_imported()));
        assert_eq!(runs[0].value("time_s"), Some(0.0015));
        assert_eq!((runs[0].value("memory_bytes"), runs[1].value("memory_bytes")), (Some(1e8), None));
        assert_eq!(runs[0].value("total_time_s"), None, "nothing is known but what the file says");
        let marks: Vec<String> = runs[0].marks.iter().map(ToString::to_string).collect();
        assert_eq!(marks, ["imported from bench.csv (CSV), 2026-11-25"]);
        let heading = crate::store::SessionHeading::read(&session).unwrap();
        assert_eq!((heading.machine(), heading.whole_machine()), ("imported".to_owned(), "imported".to_owned()));
        let last: jiff::Timestamp = "2026-11-26T00:00:00Z".parse().unwrap();
        assert_eq!(heading.changed_time_s, Some(last.as_second() as f64), "the time of its last run");
        let cells = cells(&runs);
        let by_cell: Vec<(usize, Option<String>, Option<&str>)> = cells
            .iter()
            .map(|cell| (cell.runs.len(), cell.circumstances.date(), cell.circumstances.commit.as_deref()))
            .collect();
        let day = |day: &str| Some(day.to_owned());
        assert_eq!(by_cell, [(2, day("2026-11-25"), Some("abc")), (1, day("2026-11-26"), Some("abc"))]);
        // It is never written over.
        assert!(matches!(write(&session, &mapping, &results), Err(ArchiveError::Exists { .. })));
        // It is known again, and is not taken for a session of other runs or of a file with another name.
        assert!(is_written(&session, FILE, &mapping, &results));
        assert!(!is_written(&session, ("other.csv", "CSV"), &mapping, &results));
        let changed = read_bytes(text.replace("20,3", "20,4").as_bytes()).unwrap();
        let changed = crate::import::results(&changed, &mapping, FILE.0).unwrap();
        assert!(!is_written(&session, FILE, &mapping, &changed));
        assert!(!is_written(folder.path(), FILE, &mapping, &results));
        let other = folder.path().join("other");
        let stopped = write_session(&other, FILE, &mapping, &results, &mut |_, _| ControlFlow::Break(()));
        assert!(matches!(stopped, Err(ArchiveError::Cancelled)) && !other.exists());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left of what was stopped");
    }
}
