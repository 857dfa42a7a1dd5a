//! Sessions as arguments of commands, here or on another machine.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use super::follow::TICK;
use super::say;
use crate::conduct::{Client, ConductError};
use crate::plan::Node;
use crate::remote::{Address, Line, LineNews, Prompts, Reached, RemoteError};

/// What is known here of the launch that a command sends to another machine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LaunchState {
    /// It was not sent, so nothing was queued.
    Unsent,
    /// It was sent, or is being sent, and was not answered: its runs may be queued.
    Unanswered,
    /// Its runs are queued.
    Answered,
}

/// A session on another machine, with a connection to it.
pub(super) struct Far {
    line: Line,
    news: Receiver<LineNews>,
    reached: Reached,
    /// The number of the connection that is known to be up.
    number: u64,
    launch: LaunchState,
}

impl Far {
    /// The session that an argument names; `None` if it is on this machine. The local copy is brought up to date, if it exists.
    pub fn of(argument: &Path) -> Result<Option<Self>, Box<dyn Error>> {
        Address::of(argument)?.map(Self::open).transpose()
    }

    fn open(address: Address) -> Result<Self, Box<dyn Error>> {
        let (line, news, reached) = Line::reach(address, Prompts::Terminal, say)?;
        let number = line.number();
        Ok(Self { line, news, reached, number, launch: LaunchState::Unsent })
    }

    /// The folder of the local copy.
    pub fn folder(&self) -> &Path {
        self.line.copy()
    }

    pub fn address(&self) -> &Address {
        self.line.address()
    }

    /// The home folder on the other machine, where relative paths start.
    pub fn home(&self) -> &Path {
        &self.reached.home
    }

    /// A client of the session's conductor, which is started if there is none; see [`Line::client_or_start`].
    pub fn client_or_start(&self, live: bool) -> Result<Client, ConductError> {
        self.line.client_or_start(live)
    }

    /// The other machine's hardware.
    pub fn node(&self) -> Result<Node, Box<dyn Error>> {
        self.line.look();
        loop {
            match self.news.recv()? {
                LineNews::Node(node) => return Ok(*node),
                LineNews::Lost(error, _) | LineNews::Failed(error) => return Err(error.into()),
                LineNews::Problem(message) => say(message),
                LineNews::Ready(_) | LineNews::Places(_) | LineNews::Sample(_) => {}
            }
        }
    }

    /// Notes how far the launch of this command has come.
    pub fn note_launch(&mut self, launch: LaunchState) {
        self.launch = launch;
    }

    /// The message for a connection that broke while runs were launched or followed: `the connection to node broke; the runs queued there go
    /// on: …`.
    pub fn broke(&self) -> String {
        let address = self.address();
        let then = match self.launch {
            LaunchState::Unsent => " before the plan was sent: nothing was queued there; repeat the command".to_owned(),
            LaunchState::Unanswered => format!(
                " before the launch was answered: it is not known whether the runs are queued there. Repeat the command with --resume, which \
                 queues nothing twice, or look: multicard attach {address}"
            ),
            LaunchState::Answered => format!("; the runs queued there go on: multicard attach {address}"),
        };
        format!("the connection to {} broke{then}", address.host())
    }

    /// Whether the connection broke since it was last known to be up.
    pub fn was_cut(&self) -> bool {
        self.line.number() != self.number
    }

    /// Waits for the next connection; false if it was interrupted.
    pub fn wait(&mut self, interrupted: &AtomicBool) -> Result<bool, RemoteError> {
        while !interrupted.load(Ordering::Relaxed) {
            match self.news.recv_timeout(TICK) {
                Ok(LineNews::Ready(_)) => {
                    self.number = self.line.number();
                    say(format_args!("reached {} again", self.address().host()));
                    return Ok(true);
                }
                Ok(LineNews::Lost(error, delay)) => say(format_args!("{}", lost(&error, delay))),
                Ok(LineNews::Failed(error)) => return Err(error),
                Ok(LineNews::Problem(message)) => say(message),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(false),
            }
        }
        Ok(false)
    }
}

fn lost(error: &RemoteError, delay: std::time::Duration) -> String {
    format!("{error}; trying again in {} s", delay.as_secs())
}

/// Copies a session from another machine, or brings the copy up to date, and returns its folder; `None` for a session on this machine.
fn copied(argument: &Path) -> Result<Option<PathBuf>, Box<dyn Error>> {
    let Some(address) = Address::parse(argument)? else { return Ok(None) };
    let name = address.to_string();
    match Far::open(address.clone()) {
        Ok(far) if far.reached.exists => Ok(Some(far.folder().to_owned())),
        Ok(_) => Err(RemoteError::NoSession { address: name }.into()),
        Err(error) => {
            let copy = address.copy_folder().ok().filter(|copy| copy.join("session.toml").exists());
            let copy = copy
                .map_or(String::new(), |copy| format!("; what was copied earlier can be read in {}", copy.display()));
            Err(format!("{error}{copy}").into())
        }
    }
}

/// Resolves a session argument to a folder to read: a path, a name in the default folder, or the address of a session on another machine,
/// which is copied. A name that exists in the working folder is a path.
pub(super) fn session_folder(argument: &PathBuf) -> Result<PathBuf, Box<dyn Error>> {
    if let Some(copy) = copied(argument)? {
        return Ok(copy);
    }
    let is_path = argument.exists() || argument.components().count() > 1;
    let folder = if is_path { argument.clone() } else { crate::session::default_sessions_folder()?.join(argument) };
    // Where nobody can tell, as in a folder that may not be entered, opening it says why.
    if !matches!(folder.join("session.toml").try_exists(), Ok(false)) {
        return Ok(folder);
    }
    if folder.exists() {
        return Err(format!("{} is not a session (it contains no session.toml)", folder.display()).into());
    }
    let missing = if is_path {
        format!("{} does not exist", folder.display())
    } else {
        let here = std::path::absolute(argument)?;
        format!("neither {} nor {} exists: give the path of the session's folder", here.display(), folder.display())
    };
    Err(format!("{missing}; `multicard session list` lists the sessions of this folder and of the default folder")
        .into())
}

/// Refuses the address of a session on another machine, for commands that must be typed on that machine.
pub(super) fn only_here(argument: &Path, arguments: &str) -> Result<(), Box<dyn Error>> {
    match Address::parse(argument)? {
        Some(address) => {
            let remote_command = address.session_command(&format!("{} {arguments}", address.program()));
            Err(format!("{address} is on another machine; type this there: {remote_command}").into())
        }
        None => Ok(()),
    }
}

/// The session that a command acts on.
pub(super) enum Place {
    Here(PathBuf),
    There(Box<Far>),
}

impl Place {
    /// The existing session that an argument names.
    pub fn of(argument: &PathBuf) -> Result<Self, Box<dyn Error>> {
        match Far::of(argument)? {
            Some(far) if far.reached.exists => Ok(Self::There(Box::new(far))),
            Some(far) => Err(RemoteError::NoSession { address: far.address().to_string() }.into()),
            None => Ok(Self::Here(session_folder(argument)?)),
        }
    }

    /// The folder to read.
    pub fn folder(&self) -> &Path {
        match self {
            Self::Here(folder) => folder,
            Self::There(far) => far.folder(),
        }
    }

    /// The session's name, as arguments write it.
    pub fn name(&self) -> String {
        match self {
            Self::Here(folder) => folder.display().to_string(),
            Self::There(far) => far.address().to_string(),
        }
    }

    /// A client of the session's conductor; `None` if no conductor runs.
    pub fn connect(&self, live: bool) -> Result<Option<Client>, ConductError> {
        match self {
            Self::Here(folder) => Client::connect(folder, live),
            Self::There(far) => far.line.client(live),
        }
    }

    /// A client of the session's conductor, which is started if none runs.
    pub fn connect_or_start(&self, live: bool) -> Result<Client, ConductError> {
        match self {
            Self::Here(folder) => Client::connect_or_start(folder, live),
            Self::There(far) => far.client_or_start(live),
        }
    }
}
