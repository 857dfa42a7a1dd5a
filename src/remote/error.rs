//! Why a session on another machine cannot be reached.

use std::io;

use thiserror::Error;

/// Why a line to a node is not there.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RemoteError {
    /// The ssh program was not found.
    #[error("cannot start {command}: install OpenSSH's client, or name it in MULTICARD_SSH")]
    NoSsh {
        /// The command.
        command: String,
    },
    /// No machine has this name.
    #[error("{place}: no such host: {said}: check the name in the address and in ~/.ssh/config")]
    UnknownHost {
        /// `user@host`.
        place: String,
        /// What ssh says.
        said: String,
    },
    /// The node does not let the user in.
    #[error(
        "{place} refuses the login: {said}: make `ssh {place}` work without a password first (a key in its authorized_keys, or in \
         your agent)"
    )]
    Refused {
        /// `user@host`.
        place: String,
        /// What ssh says.
        said: String,
    },
    /// The node's key is not the known one.
    #[error(
        "{place}: its host key is unknown or has changed: {said}: run `ssh {place}` in a terminal and check what it says"
    )]
    HostKey {
        /// `user@host`.
        place: String,
        /// What ssh says.
        said: String,
    },
    /// The node has no multicard where ssh looks for it.
    #[error(
        "{place}: {program} is not installed there, or not on the PATH of commands over ssh: {said}: install it, or name it in the \
         address: …?multicard=/path/to/multicard"
    )]
    NoProgram {
        /// `user@host`.
        place: String,
        /// The program.
        program: String,
        /// What the shell says.
        said: String,
    },
    /// The multicard on the node is another version.
    #[error("{place} has multicard {theirs}, and this is {}: install the same version on both", env!("CARGO_PKG_VERSION"))]
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
    /// The line broke, or did not come about.
    #[error("no line to {place}: {said}")]
    Broken {
        /// `user@host`.
        place: String,
        /// What ssh says, or the relay.
        said: String,
    },
}

impl RemoteError {
    /// Whether trying again may help.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Broken { .. })
    }

    pub(super) fn broken(place: &str, why: &io::Error) -> Self {
        let said = if why.kind() == io::ErrorKind::UnexpectedEof { "it broke".to_owned() } else { why.to_string() };
        Self::Broken { place: place.to_owned(), said }
    }
}
