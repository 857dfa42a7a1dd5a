//! What the next conductor needs of a queue and no journal says: the order that its user gave it, and the folders that plans were
//! launched from. It lies in `queue.json` of the session's folder; without it, runs stand as they were queued.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::foreign;

const FILE: &str = "queue.json";
/// Longest file that is read: 100,000 runs take 4 MB.
const MOST_BYTES: u64 = 64 << 20;

/// The order of a queue, and the folders of its plans.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct KeptQueue {
    /// The runs that were queued when the order was last changed.
    pub(super) order: Vec<String>,
    /// By a plan's id, the working directory that it was launched from: relative paths in it are relative to that.
    pub(super) folders: BTreeMap<String, PathBuf>,
}

impl KeptQueue {
    /// What lies in a session's folder; nothing where there is none or it cannot be read.
    pub(super) fn read(session: &Path) -> Self {
        let bytes = foreign::read_ours(&session.join(FILE), MOST_BYTES).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    /// Writes it whole.
    ///
    /// # Errors
    /// It cannot be written; what was there stays.
    pub(super) fn write(&self, session: &Path) -> io::Result<()> {
        let file = session.join(FILE);
        let unfinished = file.with_extension("json.tmp");
        let mut to = foreign::open_ours_with(&unfinished, File::options().write(true).create(true).truncate(true))?;
        to.write_all(&serde_json::to_vec(self)?)?;
        to.sync_all()?;
        std::fs::rename(&unfinished, &file)
    }
}
