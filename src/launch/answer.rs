//! Runs programs that answer on their pipes and must end within a time limit.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use super::process;
use crate::protocol::Exit;

/// Runs a program in a process group of its own. Returns how it ended, and the first 1 MiB of its stdout and its stderr; `None` if it did
/// not end in time and was killed.
///
/// # Errors
///
/// It cannot be started.
pub(super) fn finish(mut command: Command, limit: Duration) -> io::Result<Option<(Exit, String, String)>> {
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let deadline = Instant::now() + limit;
    let stdout = collect("answer-stdout", child.stdout.take());
    let stderr = collect("answer-stderr", child.stderr.take());
    let Some(exit) = exit_before(&mut child, deadline) else { return Ok(None) };
    Ok(Some((exit, received(&stdout, deadline), received(&stderr, deadline))))
}

/// How a program ended that leads a process group; `None` if it did not end in time and was killed with its group.
pub(super) fn exit_before(child: &mut Child, deadline: Instant) -> Option<Exit> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(Exit::from(status)),
            Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(5)),
            Ok(None) | Err(_) => {
                process::kill_group(child.id());
                let _ = child.wait();
                return None;
            }
        }
    }
}

/// Reads at most 1 MiB from a pipe on a thread, so that a full pipe never blocks the process.
pub(super) fn collect(name: &str, pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let read = move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            let _ = pipe.take(1 << 20).read_to_end(&mut bytes);
        }
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    };
    // If the thread cannot be started, the output is empty.
    let _ = thread::Builder::new().name(name.into()).spawn(read);
    receiver
}

/// The text that was read from a pipe until it was closed or the deadline passed.
pub(super) fn received(pipe: &Receiver<String>, deadline: Instant) -> String {
    let left = deadline.saturating_duration_since(Instant::now());
    pipe.recv_timeout(left.max(Duration::from_millis(100))).unwrap_or_default()
}
