//! Data that users keep in a session in addition to its runs: studies, measures of their own, and notes.

use std::path::Path;

use super::{Session, SessionError};
use crate::plan::{Key, OwnMeasure};
use crate::store::{Decision, Store};

/// Longest note.
const MOST_NOTE_BYTES: usize = 16 << 10;

impl Session {
    /// Saves a study under a name; one of the same name is replaced.
    pub fn save_study(&self, name: &str, study: serde_json::Value) -> Result<(), SessionError> {
        Ok(self.store.decide(Decision::StudySaved { name: name.to_owned(), study })?)
    }

    /// Deletes the saved study of a name.
    pub fn delete_study(&self, name: &str) -> Result<(), SessionError> {
        Ok(self.store.decide(Decision::StudyDeleted { name: name.to_owned() })?)
    }

    /// Saves a user-defined measure; one of the same key is replaced.
    pub fn save_measure(&self, measure: OwnMeasure) -> Result<(), SessionError> {
        Ok(self.store.decide(Decision::MeasureSaved { measure })?)
    }

    /// Deletes the user-defined measure that has a key.
    pub fn delete_measure(&self, key: Key) -> Result<(), SessionError> {
        Ok(self.store.decide(Decision::MeasureDeleted { key })?)
    }

    /// Writes a note on a run, or on the session if none is named.
    pub fn note(&self, run: Option<String>, note: String) -> Result<(), SessionError> {
        noted(&self.store, run, note)
    }
}

/// Writes a note on a session that has no conductor, or on one of its runs.
pub fn note_session(folder: &Path, run: Option<String>, note: String) -> Result<(), SessionError> {
    noted(&Store::open(folder)?, run, note)
}

fn noted(store: &Store, run: Option<String>, note: String) -> Result<(), SessionError> {
    if note.len() > MOST_NOTE_BYTES {
        return Err(SessionError::LongNote { bytes: note.len(), most: MOST_NOTE_BYTES });
    }
    if let Some(run) = &run {
        store.flush()?;
        let is_known = store.reader()?.headings()?.iter().any(|record| record.run == *run);
        if !is_known {
            return Err(SessionError::UnknownRun { run: run.clone() });
        }
    }
    Ok(store.decide(Decision::Noted { run, note })?)
}
