//! Reading a session that this process does not write.

use std::path::Path;

use crate::launch;
use crate::store::{Reader, StoreError, origin};

/// Damaged lines and logs that a message names.
const NAMED: usize = 10;

/// Opens a session for reading. Runs that were under way when everything was killed are read as interrupted, if this machine is the
/// session's and nothing of them is running.
///
/// # Errors
/// The folder holds no session, or its session cannot be read.
pub fn open_reader(folder: &Path) -> Result<Reader, StoreError> {
    let mut reader = Reader::open(folder)?;
    // Processes of another machine cannot be seen from here, and a copy's machine may have the name of this one.
    if origin(folder).is_none() && reader.node()?.hostname.as_bytes() == rustix::system::uname().nodename().to_bytes() {
        let runs = folder.join("runs");
        reader.settle(|run, process| launch::find_group(&runs.join(run), process).is_some())?;
    }
    Ok(reader)
}

/// What is to be said of a session whose logs lack something; none of a whole one.
///
/// # Errors
/// The index cannot be read.
pub fn damage_message(folder: &Path, reader: &Reader) -> Result<Option<String>, StoreError> {
    let damage = reader.damage()?;
    if damage.is_empty() {
        return Ok(None);
    }
    let mut message =
        format!("{}: the session is damaged; runs that lack something count as failed:", folder.display());
    damage.iter().take(NAMED).for_each(|one| message += &format!("\n  {one}"));
    if damage.len() > NAMED {
        message += &format!("\n  … and {} more; `multicard session rebuild` names all", damage.len() - NAMED);
    }
    Ok(Some(message))
}
