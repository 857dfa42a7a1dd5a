//! Writes sessions of runs that ended elsewhere. A session is written in a folder beside its destination, which is
//! renamed once it is complete.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;

use super::import::beside;
use super::{ArchiveError, ArchiveProgress};
use crate::plan::Node;
use crate::protocol::{EventLine, rank_log};
use crate::store::{Decision, JournalLine, LogSum, folder};

/// A run with everything that the session is to record about it.
pub struct EndedRun {
    /// Its id.
    pub run: String,
    /// Decisions up to its end, each with its time in seconds since the Unix epoch.
    pub decisions: Vec<(f64, Decision)>,
    /// The log of its only rank.
    pub events: Vec<EventLine>,
}

/// Creates the session `session`, which must not exist yet, with a plan and runs that have ended. It gets its name once
/// everything is on disk. `node` is recorded as the session's machine. Each run is made when it is written: the events of
/// all runs of a large file would take gigabytes.
///
/// # Errors
/// The session exists already; it is not changed. Or the session cannot be written; the part that was written is deleted.
pub fn create_ended(
    session: &Path,
    node: &Node,
    plan: &(f64, Decision),
    mut runs: impl ExactSizeIterator<Item = EndedRun>,
    progress: ArchiveProgress<'_>,
) -> Result<(), ArchiveError> {
    let count = runs.len() as u64;
    beside(session, 0, &mut |unfinished| {
        folder::write_session_file(unfinished, node)?;
        let path = folder::journal(unfinished);
        let failed = |error| ArchiveError::io("writing", &path)(error);
        let journal = File::create(&path).map_err(failed)?;
        let mut journal = BufWriter::new(journal);
        let mut write = |time_s: f64, decision: Decision, logs: Vec<LogSum>| {
            let line = serde_json::to_string(&JournalLine { time_s, decision, logs }).map_err(std::io::Error::from)?;
            writeln!(journal, "{line}")
        };
        write(plan.0, plan.1.clone(), Vec::new()).map_err(failed)?;
        for (done, run) in (0..).zip(runs.by_ref()) {
            if progress(done, count).is_break() {
                return Err(ArchiveError::Cancelled);
            }
            folder::check_run_id(&run.run)?;
            let own = folder::run(unfinished, &run.run);
            let of_run = ArchiveError::io("writing", &own);
            let log = || -> std::io::Result<Vec<LogSum>> {
                fs::create_dir(&own)?;
                let mut text = Vec::new();
                for event in &run.events {
                    serde_json::to_writer(&mut text, event)?;
                    text.push(b'\n');
                }
                fs::write(own.join(rank_log(0)), text)?;
                LogSum::of_run(&own)
            };
            let logs = log().map_err(of_run)?;
            for (time_s, decision) in run.decisions {
                let is_end = matches!(decision, Decision::RunEnded { .. });
                write(time_s, decision, if is_end { logs.clone() } else { Vec::new() }).map_err(failed)?;
            }
        }
        journal.flush().map_err(failed)?;
        drop(journal);
        // One sync for all files.
        let synced = File::open(unfinished).and_then(|folder| Ok(rustix::fs::syncfs(folder)?));
        synced.map_err(ArchiveError::io("writing", unfinished))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::plan::fixture;

    #[test]
    fn each_run_is_made_when_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let session = folder.path().join("session");
        let made = std::cell::Cell::new(0);
        let run = |nth: u32| {
            made.set(nth);
            EndedRun { run: format!("c1-r{nth}"), decisions: Vec::new(), events: Vec::new() }
        };
        let plan = Decision::PlanAdded {
            plan: "p1".to_owned(),
            name: "made up".to_owned(),
            toml: String::new(),
            workloads: Vec::new(),
        };
        let progress = &mut |done: u64, total: u64| {
            assert_eq!((u64::from(made.get()), total), (done + 1, 3));
            if done == 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let runs = [1, 2, 3].into_iter().map(run);
        let stopped = create_ended(&session, &fixture::cpu_node(), &(0.0, plan), runs, progress);
        assert!(matches!(stopped, Err(ArchiveError::Cancelled)) && made.get() == 2);
    }
}
