//! The facts about a queue that the next conductor needs and that are not in the journal: the order that the user gave to the queue,
//! whether it is paused, the folders from which plans were launched, and the answers to launches. It is stored in `queue.json` in the
//! session's folder; without that file, runs have the order in which they were queued.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Added;
use crate::foreign;

const FILE: &str = "queue.json";
/// Longest file that is read: 100,000 runs take 4 MB.
const MOST_BYTES: u64 = 64 << 20;
/// The number of launches that are remembered: a client waits for the answer to one launch before it sends the next.
const MOST_LAUNCHES: usize = 8;

/// A launch that was begun.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct KeptLaunch {
    id: String,
    /// Its answer; `None` while the launch is executed, or if the conductor ended while it executed the launch.
    outcome: Option<Result<Added, String>>,
}

/// The order of a queue, and the folders of its plans.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct KeptQueue {
    /// The runs that were queued when the order was last changed.
    pub(super) order: Vec<String>,
    /// Whether the user has paused the queue. Its runs then wait, even while no conductor runs.
    pub(super) paused: bool,
    /// For each plan's id, the working directory from which the plan was launched; relative paths in the plan are relative to it.
    pub(super) folders: BTreeMap<String, PathBuf>,
    /// The last launches.
    launches: Vec<KeptLaunch>,
}

impl KeptQueue {
    /// Reads the file in a session's folder; empty if there is none or it cannot be read.
    pub(super) fn read(session: &Path) -> Self {
        let bytes = foreign::read_ours(&session.join(FILE), MOST_BYTES).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    /// The answer to the launch with this id, if it was begun.
    pub(super) fn launch(&self, id: &str) -> Option<&Option<Result<Added, String>>> {
        self.launches.iter().find(|launch| launch.id == id).map(|launch| &launch.outcome)
    }

    /// Remembers the answer to a launch, or that it was begun.
    pub(super) fn keep_launch(&mut self, id: &str, outcome: Option<Result<Added, String>>) {
        self.launches.retain(|launch| launch.id != id);
        self.launches.push(KeptLaunch { id: id.to_owned(), outcome });
        let surplus = self.launches.len().saturating_sub(MOST_LAUNCHES);
        self.launches.drain(..surplus);
    }

    /// Writes the file as a whole.
    ///
    /// # Errors
    /// It cannot be written; the old file stays.
    pub(super) fn write(&self, session: &Path) -> io::Result<()> {
        let file = session.join(FILE);
        let unfinished = file.with_extension("json.tmp");
        let mut to = foreign::open_ours_with(&unfinished, File::options().write(true).create(true).truncate(true))?;
        to.write_all(&serde_json::to_vec(self)?)?;
        to.sync_all()?;
        std::fs::rename(&unfinished, &file)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_last_eight_launches_are_remembered_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = KeptQueue::default();
        for launch in 0..20 {
            kept.keep_launch(&launch.to_string(), None);
            // An answer replaces the entry that was made when the launch began.
            kept.keep_launch(&launch.to_string(), Some(Err(format!("answer {launch}"))));
        }
        kept.write(folder.path()).unwrap();
        let read = KeptQueue::read(folder.path());
        assert_eq!(read, kept);
        let known: Vec<u32> = (0..20).filter(|launch| read.launch(&launch.to_string()).is_some()).collect();
        assert_eq!(known, (12..20).collect::<Vec<_>>());
        assert_eq!(read.launches.len(), MOST_LAUNCHES);
    }
}
