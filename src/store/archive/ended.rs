//! Writes sessions of runs that ended elsewhere. A session is written in a folder beside its destination, which is
//! renamed once it is complete.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;

use super::import::beside;
use super::{ArchiveError, ArchiveProgress};
use crate::plan::Node;
use crate::protocol::EventLine;
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
/// everything is on disk. `node` is recorded as the session's machine.
///
/// # Errors
/// It exists or cannot be written. Then nothing is left of it.
pub fn create_ended(
    session: &Path,
    node: &Node,
    plan: &(f64, Decision),
    runs: &[EndedRun],
    progress: ArchiveProgress<'_>,
) -> Result<(), ArchiveError> {
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
        for (done, run) in runs.iter().enumerate() {
            if progress(done as u64, runs.len() as u64).is_break() {
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
                fs::write(own.join("rank-0.jsonl"), text)?;
                LogSum::of_run(&own)
            };
            let logs = log().map_err(of_run)?;
            for (time_s, decision) in run.decisions.iter().cloned() {
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
