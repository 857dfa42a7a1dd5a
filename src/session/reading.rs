//! Reading a session that this process does not write.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::SystemTime;

use super::kept_queue::KeptQueue;
use crate::analysis::wrong_measures;
use crate::foreign;
use crate::launch;
use crate::protocol::{Job, TraceLists};
use crate::store::{Reader, StoreError, origin};
use crate::trace::{self, Window};

/// The largest recording that is read for its lists when a session is opened: in less than a second. Larger ones can be imported again by
/// `multicard trace`.
const MOST_BYTES: u64 = 32 << 20;

/// Longest job that is read.
const MOST_JOB_BYTES: u64 = 16 << 20;

/// The most damaged lines and logs that a message names.
const NAMED: usize = 10;

/// Opens a session for reading. Runs that were active when all processes were killed are read as interrupted, if the session belongs to
/// this machine and none of their processes is alive.
///
/// # Errors
/// The folder contains no session, or its session cannot be read.
pub fn open_reader(folder: &Path) -> Result<Reader, StoreError> {
    let mut reader = Reader::open(folder)?;
    // Processes of another machine cannot be seen from here. A copy may come from a machine that has the same name as this one.
    if origin(folder).is_none() && reader.node()?.hostname.as_bytes() == rustix::system::uname().nodename().to_bytes() {
        let runs = folder.join("runs");
        // Runs in a queue that the user has paused wait for the next conductor.
        let is_paused = is_queue_paused(folder);
        let waits = |folder: &Path| is_paused && !folder.join("job.json").exists();
        reader.settle(|run| {
            let folder = runs.join(run);
            launch::find_group(&folder).is_some() || launch::may_be_at_a_site(&folder) || waits(&folder)
        })?;
    }
    Ok(reader.with_lists(lists))
}

/// The lists of names in a run's recording. Each file is read once, and again if it changes.
fn lists(folder: &Path, file: &str) -> Option<Arc<TraceLists>> {
    type Read = HashMap<PathBuf, (SystemTime, Option<Arc<TraceLists>>)>;
    static READ: LazyLock<Mutex<Read>> = LazyLock::new(Mutex::default);
    // The export of a report by nsys is beside it.
    let recording = folder.join(Path::new(file).file_name()?);
    let readable = if recording.extension()? == "nsys-rep" { recording.with_extension("sqlite") } else { recording };
    let about = std::fs::metadata(&readable).ok().filter(|about| about.is_file() && about.len() <= MOST_BYTES)?;
    let changed = about.modified().ok()?;
    let read = || READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, lists)) = read().get(&readable).filter(|(when, _)| *when == changed) {
        return lists.clone();
    }
    let imported = trace::import(&readable, &Window::default(), &mut |_| ControlFlow::Continue(()));
    let lists = imported.ok().map(|trace| Arc::new(trace.lists()));
    read().insert(readable, (changed, lists.clone()));
    lists
}

/// The job that a run of the session in `folder` was started with, if it was.
pub(super) fn recorded_job(folder: &Path, run: &str) -> Option<Job> {
    let bytes = foreign::read_ours(&folder.join("runs").join(run).join("job.json"), MOST_JOB_BYTES).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Whether the user has paused the queue of a session.
pub fn is_queue_paused(folder: &Path) -> bool {
    KeptQueue::read(folder).paused
}

/// The message for a session with incomplete logs, or with user-defined measures that cannot be computed; `None` if all is well.
///
/// # Errors
/// The index cannot be read.
pub fn damage_message(folder: &Path, reader: &Reader) -> Result<Option<String>, StoreError> {
    let damage = reader.damage()?;
    let own = reader.own_measures()?;
    let specs = if own.is_empty() { Vec::new() } else { reader.workloads()? };
    let wrong = wrong_measures(specs.iter().map(|spec| &**spec), &own);
    let damaged = listed("the session is damaged; runs with missing data count as failed:", &damage, "session rebuild");
    let wrong = listed("user-defined measures that cannot be computed are left out:", &wrong, "measure");
    let parts: Vec<String> =
        [damaged, wrong].into_iter().flatten().map(|part| format!("{}: {part}", folder.display())).collect();
    Ok(Some(parts.join("\n")).filter(|message| !message.is_empty()))
}

/// A heading and the first of some lines; `lists_all` is the subcommand that prints the others.
fn listed(heading: &str, lines: &[String], lists_all: &str) -> Option<String> {
    let mut text = heading.to_owned();
    lines.first()?;
    lines.iter().take(NAMED).for_each(|line| text += &format!("\n  {line}"));
    if lines.len() > NAMED {
        text += &format!("\n  … and {} more; `multicard {lists_all}` lists all of them", lines.len() - NAMED);
    }
    Some(text)
}
