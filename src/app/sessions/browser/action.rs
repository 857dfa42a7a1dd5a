//! What the browser of sessions changes: notes, names, deletions. Each change may take long and is made on a thread.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::conduct::{Client, Order};
use crate::remote::{Address, Line, Prompts};
use crate::session::note_session;
use crate::store::{DeletedSession, delete_session, rename_session};

/// A change that the user asked for.
#[derive(Clone, PartialEq)]
pub(super) enum Action {
    /// A note on a session is written.
    Note(Note),
    /// A session gets another name.
    Rename(PathBuf, String),
    /// A session is deleted.
    Delete(PathBuf),
    /// A deleted session is restored.
    PutBack {
        deleted: Arc<DeletedSession>,
        /// Where it was.
        was: PathBuf,
    },
}

/// A note on a session, to be written.
#[derive(Clone, PartialEq)]
pub(super) struct Note {
    pub(super) folder: PathBuf,
    pub(super) text: String,
    /// The message once it is written.
    pub(super) message: &'static str,
}

/// A change that was made.
pub(super) enum Done {
    Noted(Note),
    Deleted {
        deleted: DeletedSession,
        was: PathBuf,
    },
    Renamed {
        from: PathBuf,
        to: PathBuf,
    },
    /// It was restored from the folder in which it was hidden.
    PutBack(PathBuf),
}

impl Note {
    pub(super) fn new(folder: PathBuf, text: String) -> Self {
        Self { folder, text, message: "Noted." }
    }

    /// Writes it, through the session's conductor if it has one.
    fn write(&self) -> Result<(), String> {
        let order = || Order::Note(None, self.text.clone());
        if let Some(address) = Address::of(&self.folder)? {
            let (line, _news, _) = Line::reach(address, Prompts::Askpass, drop).map_err(|error| error.to_string())?;
            let client = line.client_or_start(false);
            return client.and_then(|client| client.order(order())).map_err(|error| error.to_string());
        }
        match Client::connect(&self.folder, false) {
            Ok(Some(client)) => client.order(order()).map_err(|error| error.to_string()),
            Ok(None) => note_session(&self.folder, None, self.text.clone()).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Action {
    /// The folder of its session, as the user knows it.
    pub(super) fn session(&self) -> &Path {
        match self {
            Self::Note(note) => &note.folder,
            Self::Rename(folder, _) | Self::Delete(folder) | Self::PutBack { was: folder, .. } => folder,
        }
    }

    /// Follows its session to the folder to which a change has moved it.
    pub(super) fn follow(&mut self, done: &Done) {
        if let (Self::Note(note), Done::Renamed { from, to }) = (self, done)
            && note.folder == *from
        {
            note.folder.clone_from(to);
        }
    }

    /// Makes the change.
    ///
    /// # Errors
    /// Why it was not made, for the user.
    pub(super) fn perform(self) -> Result<Done, String> {
        match self {
            Self::Note(note) => match note.write() {
                Ok(()) => Ok(Done::Noted(note)),
                Err(error) => {
                    let name = note.folder.file_name().unwrap_or(note.folder.as_os_str()).to_string_lossy();
                    Err(format!("The note on the session {name} was not written: {error}"))
                }
            },
            Self::Rename(from, name) => {
                let to = rename_session(&from, &name).map_err(|error| error.to_string())?;
                Ok(Done::Renamed { from, to })
            }
            Self::Delete(was) => {
                let deleted = delete_session(&was).map_err(|error| error.to_string())?;
                Ok(Done::Deleted { deleted, was })
            }
            Self::PutBack { deleted, was } => {
                deleted.put_back(&was).map_err(|error| error.to_string())?;
                Ok(Done::PutBack(deleted.folder().to_owned()))
            }
        }
    }
}
