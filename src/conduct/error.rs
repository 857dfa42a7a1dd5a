//! Errors of conductors and their clients.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::message::{Conducting, MESSAGES_VERSION};
use super::silent::Silent;

/// Why a session cannot be conducted, or its conductor not reached.
#[derive(Debug, Error)]
pub enum ConductError {
    /// There is no folder for the socket.
    #[error("no folder for the conductor's socket: {0}")]
    NoPlace(String),
    /// The socket or its folder failed.
    #[error("{doing} {}: {source}: {}", path.display(), remedy(source))]
    Socket {
        /// The operation, such as `listening on`.
        doing: &'static str,
        /// The socket or the folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another user conducts the session.
    #[error("{}: the conductor belongs to the user with id {user}: act as that user, or only read what is finished", session.display())]
    OtherUser {
        /// The session.
        session: PathBuf,
        /// The user's id.
        user: u32,
    },
    /// The conductor has another version.
    #[error(
        "{}: conducted by multicard {} (process {}) with messages of version {}, but this is {} with messages of version \
             {MESSAGES_VERSION}: use that version, or wait until its runs have ended; what is finished can be read",
        session.display(), conducting.multicard, conducting.process, conducting.messages, env!("CARGO_PKG_VERSION")
    )]
    OtherVersion {
        /// The session.
        session: PathBuf,
        /// The conductor's process and version.
        conducting: Conducting,
    },
    /// The session was moved, and its conductor still holds the earlier path.
    #[error(
        "{}: process {process} still conducts the session that was here and is now {}: move it back, end its runs with `multicard stop {}`, \
             or choose another folder",
        session.display(), folder.display(), folder.display()
    )]
    Moved {
        /// The earlier path.
        session: PathBuf,
        /// The conductor's process.
        process: i32,
        /// The session's present folder.
        folder: PathBuf,
    },
    /// Another process holds the session's lock but is not a conductor.
    #[error("{0}")]
    InUse(String),
    /// The session's folder was renamed while `multicard run` conducts it, whose end would end the active runs.
    #[error(
        "{}: only active runs were to go on, but the session's folder was renamed, and `multicard run` (process {process}) conducts it \
             under the old name: give the folder its old name and repeat the command with that name, or end all runs with \
             `multicard stop {}`",
        session.display(), session.display()
    )]
    EndsRuns {
        /// The session.
        session: PathBuf,
        /// The process of `multicard run`.
        process: u32,
    },
    /// The conductor's process did not start.
    #[error("cannot start the conductor of {}: {reason}", session.display())]
    NotStarted {
        /// The session.
        session: PathBuf,
        /// The conductor's log, or the system's error.
        reason: String,
    },
    /// The conductor refuses an order, or cannot execute it.
    #[error("{0}")]
    Refused(String),
    /// The conductor does not answer.
    #[error("{0}")]
    Silent(Silent),
    /// The conductor has ended.
    #[error("the session's conductor has ended: nothing recorded is lost; attach again")]
    Ended,
    /// A line that is not a known message.
    #[error("unreadable message from the session's conductor: {0}")]
    Garbled(String),
}

/// The advice about a socket that cannot be opened or its folder.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => "set XDG_STATE_HOME to a folder that can be written",
        _ => "check the folder, which must be accessible to its owner only",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_only_home_folder_is_told_from_one_that_others_may_enter() {
        let text = |kind: io::ErrorKind| {
            let path = "/home/a/.local/state/multicard/conductors".into();
            ConductError::Socket { doing: "creating", path, source: kind.into() }.to_string()
        };
        let read_only = text(io::ErrorKind::ReadOnlyFilesystem);
        assert!(read_only.contains("conductors") && read_only.contains("set XDG_STATE_HOME"), "{read_only}");
        assert!(text(io::ErrorKind::PermissionDenied).contains("its owner only"));
    }
}
