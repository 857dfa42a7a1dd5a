//! Reading a session that this process does not write.

use std::path::Path;

use super::kept_queue::KeptQueue;
use crate::launch;
use crate::store::{Reader, StoreError, origin};

/// The most damaged lines and logs that a message names.
const NAMED: usize = 10;

/// Opens a session for reading. Runs that were active when everything was killed are read as interrupted, if the session belongs to this
/// machine and none of their processes is alive.
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
        reader.settle(|run, process| {
            let folder = runs.join(run);
            launch::find_group(&folder, process).is_some() || launch::may_be_at_a_site(&folder) || waits(&folder)
        })?;
    }
    Ok(reader)
}

/// Whether the user has paused the queue of a session.
pub fn is_queue_paused(folder: &Path) -> bool {
    KeptQueue::read(folder).paused
}

/// The message for a session with incomplete logs; `None` if they are complete.
///
/// # Errors
/// The index cannot be read.
pub fn damage_message(folder: &Path, reader: &Reader) -> Result<Option<String>, StoreError> {
    let damage = reader.damage()?;
    if damage.is_empty() {
        return Ok(None);
    }
    let mut message = format!("{}: the session is damaged; runs with missing data count as failed:", folder.display());
    damage.iter().take(NAMED).for_each(|one| message += &format!("\n  {one}"));
    if damage.len() > NAMED {
        message += &format!("\n  … and {} more; `multicard session rebuild` lists all of them", damage.len() - NAMED);
    }
    Ok(Some(message))
}
