//! Why a session on another machine cannot be reached.

use std::io;

use thiserror::Error;

/// Why there is no connection to a node.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RemoteError {
    /// The ssh program was not found.
    #[error("cannot start {command}: install OpenSSH's client, or set MULTICARD_SSH to an ssh program")]
    NoSsh {
        /// The command.
        command: String,
    },
    /// No machine has this name.
    #[error("{place}: no such host: {message}: check the name in the address and in ~/.ssh/config")]
    UnknownHost {
        /// `user@host`.
        place: String,
        /// The message of ssh.
        message: String,
    },
    /// The node does not let the user in.
    #[error(
        "{place} refuses the login: {message}: make `ssh {place}` work without a password first (a key in its authorized_keys, or in \
         your agent)"
    )]
    Refused {
        /// `user@host`.
        place: String,
        /// The message of ssh.
        message: String,
    },
    /// The node's key is not the known one.
    #[error(
        "{place}: its host key is unknown or has changed: {message}: run `ssh {place}` in a terminal and check its message"
    )]
    HostKey {
        /// `user@host`.
        place: String,
        /// The message of ssh.
        message: String,
    },
    /// The node has no multicard where ssh looks for it.
    #[error(
        "{place}: {program} is not installed there, or not on the PATH of commands over ssh: {message}: install it, or name it in the \
         address: …?multicard=/path/to/multicard"
    )]
    NoProgram {
        /// `user@host`.
        place: String,
        /// The program.
        program: String,
        /// The message of the shell.
        message: String,
    },
    /// The multicard on the node is another version.
    #[error("{place} has multicard {theirs}, but this is {}: install the same version on both", env!("CARGO_PKG_VERSION"))]
    OtherVersion {
        /// `user@host`.
        place: String,
        /// The version there.
        theirs: String,
    },
    /// There is no session at the path.
    #[error("{address}: no session there (session.toml is missing); check the path")]
    NoSession {
        /// The address.
        address: String,
    },
    /// The copy of the session cannot be written here.
    #[error("cannot keep the copy of the session in {folder}: {reason}")]
    Copy {
        /// Its folder.
        folder: String,
        /// The system's error.
        reason: String,
    },
    /// The connection broke, or could not be made.
    #[error("no connection to {place}: {message}")]
    Broken {
        /// `user@host`.
        place: String,
        /// The last message of ssh, or of the relay.
        message: String,
    },
}

impl RemoteError {
    /// Whether the problem may go away by itself, so that another attempt makes sense.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Broken { .. })
    }

    pub(super) fn broken(place: &str, why: &io::Error) -> Self {
        let reason = if why.kind() == io::ErrorKind::UnexpectedEof { "it broke".to_owned() } else { why.to_string() };
        Self::Broken { place: place.to_owned(), message: reason }
    }
}
