//! Which parts of a session came with an archive. The file `imported.json` next to the session's logs lists the runs in the archive, so
//! that no such run starts without permission, and records what the user has allowed since. Archives do not contain this file.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::journal::read_journal_line;
use super::{Decision, StoreError, folder};
use crate::foreign::{self, Line, Lines};

/// The file's name.
pub(super) const FILE: &str = "imported.json";
/// Longest file: 100,000 runs take 3 MB.
const MOST_BYTES: u64 = 64 << 20;

/// The runs that came with a session's archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// Their ids.
    pub runs: BTreeSet<String>,
    /// The permission of the user, as a text that the caller chooses; `None` before the user allowed anything.
    #[serde(default)]
    pub allowed: Option<String>,
}

impl Imported {
    /// Reads the file of a session; `None` if the session was not imported.
    ///
    /// # Errors
    /// The file cannot be read: everything in the session may have come with an archive.
    pub fn read(session: &Path) -> Result<Option<Self>, StoreError> {
        let path = session.join(FILE);
        let bytes = match foreign::read_ours(&path, MOST_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            bytes => bytes.map_err(StoreError::io("reading", &path))?,
        };
        let read = serde_json::from_slice(&bytes).map_err(io::Error::from);
        read.map(Some).map_err(StoreError::io("reading", &path))
    }

    /// Records that something is allowed.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn allow(&mut self, what: String, session: &Path) -> Result<(), StoreError> {
        self.allowed = Some(what);
        self.write(session)
    }

    /// The runs in the journal of a folder into which an archive was unpacked.
    pub(super) fn of_journal(session: &Path) -> io::Result<Self> {
        let mut imported = Self::default();
        let file = match foreign::open_ours(&folder::journal(session)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(imported),
            file => file?,
        };
        let mut lines = Lines::new(BufReader::new(file));
        let mut take = |line: &Line<'_>| {
            if let Line::Whole(line) = line
                && let Ok(line) = read_journal_line(line)
                && let Decision::RunQueued { run, .. } = line.decision
            {
                imported.runs.insert(run);
            }
        };
        while let Some(line) = lines.read()? {
            take(&line);
        }
        lines.rest().iter().for_each(take);
        Ok(imported)
    }

    pub(super) fn write(&self, session: &Path) -> Result<(), StoreError> {
        let path = session.join(FILE);
        let unfinished = path.with_extension("json.tmp");
        let write = || {
            let mut file =
                foreign::open_ours_with(&unfinished, File::options().write(true).create(true).truncate(true))?;
            file.write_all(&serde_json::to_vec(self)?)?;
            file.sync_all()?;
            std::fs::rename(&unfinished, &path)
        };
        write().map_err(StoreError::io("writing", &path))
    }
}
