//! The user's ssh as a process, and the meaning of its end.

use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::Address;
use super::error::RemoteError;
use crate::foreign;

/// The environment variable with the ssh command and its options, as words of a shell: `ssh -F config`.
const COMMAND_VARIABLE: &str = "MULTICARD_SSH";
/// Exit code of the shell that starts ssh, if ssh was not found.
const NO_SSH: i32 = 254;
/// Most bytes of ssh's messages that are kept.
const MOST_SAID_BYTES: usize = 16 << 10;
/// How long ssh may take to end once its output has ended, and how long its last messages may take to arrive then.
const END_LIMIT: Duration = Duration::from_secs(3);
/// Interval between checks of an ssh that is to end.
const POLL: Duration = Duration::from_millis(20);

/// The way in which ssh may ask for passwords.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prompts {
    /// ssh asks at the terminal.
    Terminal,
    /// ssh asks with the program that `SSH_ASKPASS` names, and does not ask if there is none.
    Askpass,
}

/// A running ssh.
pub(super) struct Ssh {
    pub child: Child,
    place: String,
    program: String,
    stderr_bytes: Arc<Mutex<Vec<u8>>>,
    listener: Option<thread::JoinHandle<()>>,
}

fn ssh_command() -> String {
    std::env::var(COMMAND_VARIABLE)
        .ok()
        .filter(|command| !command.trim().is_empty())
        .unwrap_or_else(|| "ssh".to_owned())
}

impl Ssh {
    /// Starts the relay of a session over ssh, with pipes to its input and output.
    pub(super) fn start(address: &Address, prompts: Prompts) -> Result<Self, RemoteError> {
        let command = ssh_command();
        let no_ssh = || RemoteError::NoSsh { command: command.clone() };
        let first = command.split_whitespace().next().unwrap_or_default();
        // An interrupt is meant for the runs or for following them, and is sent over this connection, so ssh must survive it.
        let script =
            format!("trap '' INT; command -v \"$1\" >/dev/null 2>&1 || exit {NO_SSH}; shift; exec {command} \"$@\"");
        let mut ssh = Command::new("sh");
        ssh.args(["-c", &script, "multicard", first, "-T", "-e", "none"]);
        // A dead connection is noticed after 15 seconds. Settings that the user's configuration has for logins are switched off: other
        // commands, forwarded ports (which a second connection could not have), and the agent and the display, which the node must not get.
        for option in [
            "ConnectTimeout=10",
            "ServerAliveInterval=5",
            "ServerAliveCountMax=3",
            "RemoteCommand=none",
            "ClearAllForwardings=yes",
            "ForwardAgent=no",
            "ForwardX11=no",
        ] {
            ssh.args(["-o", option]);
        }
        match prompts {
            Prompts::Terminal => {}
            Prompts::Askpass if std::env::var_os("SSH_ASKPASS").is_some() => {
                ssh.env("SSH_ASKPASS_REQUIRE", "force");
            }
            Prompts::Askpass => {
                ssh.args(["-o", "BatchMode=yes"]);
            }
        }
        if let Some(port) = address.port() {
            ssh.args(["-p", &port.to_string()]);
        }
        ssh.args(["--", &address.place(), &address.command()]);
        let started = ssh.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = started.map_err(|_| no_ssh())?;
        Ok(Self::listening(child, address.place(), address.program().to_owned()))
    }

    /// A started ssh, whose messages are read all the time, so that it never waits for a reader.
    fn listening(mut child: Child, place: String, program: String) -> Self {
        let stderr_bytes = Arc::<Mutex<Vec<u8>>>::default();
        let listener = child.stderr.take().and_then(|stderr| {
            let stderr_bytes = Arc::clone(&stderr_bytes);
            thread::Builder::new().name("ssh-stderr".to_owned()).spawn(move || listen(stderr, &stderr_bytes)).ok()
        });
        Self { child, place, program, stderr_bytes, listener }
    }

    /// Kills ssh.
    pub(super) fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Ends ssh, and returns why there is no connection: ssh's own message if it ended by itself.
    pub(super) fn end(mut self, was_greeted: bool, found: &io::Error) -> RemoteError {
        // Its output has ended, so ssh ends, too, unless the output did not come from the relay.
        drop(self.child.stdin.take());
        let is_ended_here = found.kind() != io::ErrorKind::UnexpectedEof;
        let is_awaited = !was_greeted && !is_ended_here;
        let is_stuck = is_awaited && !within(END_LIMIT, || !matches!(self.child.try_wait(), Ok(None)));
        if !is_awaited || is_stuck {
            let _ = self.child.kill();
        }
        let status = self.child.wait();
        // A process that ssh started may keep ssh's stderr open.
        if let Some(listener) = self.listener.take()
            && within(END_LIMIT, || listener.is_finished())
        {
            let _ = listener.join();
        }
        let stderr_bytes = self.stderr_bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let stderr_text = String::from_utf8_lossy(&stderr_bytes);
        match status {
            // Neither its exit code nor its earlier messages are the reason.
            _ if is_ended_here => RemoteError::broken(&self.place, found),
            _ if is_stuck => {
                let last = last_line(&stderr_text).map_or(String::new(), |line| format!("; its last message: {line}"));
                let message = format!("ssh closed its output, and had not ended {} s later{last}", END_LIMIT.as_secs());
                RemoteError::Broken { place: self.place.clone(), message }
            }
            Ok(status) if !was_greeted => self.meaning(status, &stderr_text, found),
            _ => match last_line(&stderr_text) {
                Some(message) => RemoteError::Broken { place: self.place.clone(), message },
                None => RemoteError::broken(&self.place, found),
            },
        }
    }

    /// The meaning of the end of an ssh that never reached the relay.
    fn meaning(&self, status: ExitStatus, stderr_text: &str, found: &io::Error) -> RemoteError {
        const SSH_FAILED: i32 = 255;
        let place = self.place.clone();
        let has = |words: &str| stderr_text.contains(words);
        let last = last_line(stderr_text).unwrap_or_else(|| match (status.code(), status.signal()) {
            (Some(code), _) => format!("ssh ended with exit code {code}"),
            (None, Some(signal)) => format!("ssh was ended by signal {signal}"),
            (None, None) => found.to_string(),
        });
        match status.code() {
            Some(NO_SSH) if stderr_text.is_empty() => RemoteError::NoSsh { command: ssh_command() },
            Some(SSH_FAILED) if has("Could not resolve hostname") => RemoteError::UnknownHost { place, message: last },
            Some(SSH_FAILED) if has("Host key verification failed") || has("host key") => {
                RemoteError::HostKey { place, message: last }
            }
            Some(SSH_FAILED) if has("Permission denied") || has("Too many authentication failures") => {
                RemoteError::Refused { place, message: last }
            }
            Some(126 | 127) => RemoteError::NoProgram { place, program: self.program.clone(), message: last },
            Some(2) if has("unrecognized subcommand") => {
                RemoteError::OtherVersion { place, theirs: "of an earlier version, without `relay`".to_owned() }
            }
            _ => RemoteError::Broken { place, message: last },
        }
    }
}

/// Waits until a condition holds, but no longer than `limit`; returns whether it holds.
fn within(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while !holds() {
        if begun.elapsed() >= limit {
            return false;
        }
        thread::sleep(POLL);
    }
    true
}

fn listen(mut stderr: ChildStderr, stderr_bytes: &Mutex<Vec<u8>>) {
    let mut bytes = [0; 4096];
    while let Ok(read @ 1..) = stderr.read(&mut bytes) {
        let mut kept_bytes = stderr_bytes.lock().unwrap_or_else(PoisonError::into_inner);
        kept_bytes.extend_from_slice(&bytes[..read]);
        // The last message is the relevant one.
        let excess = kept_bytes.len().saturating_sub(MOST_SAID_BYTES);
        kept_bytes.drain(..excess);
    }
}

fn last_line(stderr_text: &str) -> Option<String> {
    let line = stderr_text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(foreign::message(line.trim_end_matches('.')).into_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The end of the connection through a script in place of ssh that closes its output.
    fn end_of(script: &str) -> String {
        let mut ssh = Command::new("sh");
        ssh.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut ssh = Ssh::listening(ssh.spawn().unwrap(), "node".to_owned(), "multicard".to_owned());
        let mut output = Vec::new();
        ssh.child.stdout.take().unwrap().read_to_end(&mut output).unwrap();
        ssh.end(false, &io::ErrorKind::UnexpectedEof.into()).to_string()
    }

    #[test]
    fn an_ssh_that_closes_its_output_is_ended_though_it_stays_and_though_it_floods_its_messages() {
        let stuck = "no connection to node: ssh closed its output, and had not ended 3 s later";
        assert_eq!(end_of("exec >&-; exec sleep 1000"), stuck);
        // The kill may cut off its last line.
        let flooding = end_of("exec >&-; exec yes busy >&2");
        assert!(flooding.starts_with(&format!("{stuck}; its last message: b")), "{flooding}");
    }

    #[test]
    fn messages_of_an_ssh_that_ended_are_reported_though_a_process_of_it_keeps_its_stderr_open() {
        let end = end_of("sleep 10 >&- & echo no route >&2; exit 255");
        assert_eq!(end, "no connection to node: no route");
    }
}
