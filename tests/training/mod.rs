//! Plans that the real worker trains through the command line, one after the other, on digits that are made once.
#![allow(dead_code, reason = "each test is a crate of its own and uses what it needs")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

#[path = "../built/mod.rs"]
mod built;

pub use built::worker;

/// Long enough for a slow machine; reaching it is a failure.
const DEADLINE: Duration = Duration::from_secs(600);

/// One data folder for all tests: the digits are made once.
pub fn data_folder() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| TempDir::new().unwrap()).path()
}

/// Runs that train at the same time fight for the CPUs, and all take longer than one after the other.
pub fn alone() -> MutexGuard<'static, ()> {
    static TRAINING: Mutex<()> = Mutex::new(());
    TRAINING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The command line with the real worker.
pub fn multicard(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_multicard"));
    command.args(arguments).env("MULTICARD_WORKER", worker());
    command.env("MULTICARD_DATA", data_folder());
    command
}

/// The command that runs a plan, and the session in the same folder that it makes.
pub fn run_command(folder: &TempDir, plan: &str) -> (Command, PathBuf) {
    let file = folder.path().join("plan.toml");
    fs::write(&file, plan).unwrap();
    let session = folder.path().join("session");
    let command = multicard(&["run", file.to_str().unwrap(), "--session", session.to_str().unwrap()]);
    (command, session)
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a command prints as JSON when it succeeds.
pub fn json(mut command: Command) -> Value {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A table of a session.
pub fn table(session: &Path, preset: &str, more: &[&str]) -> Value {
    let mut command = multicard(&["table", session.to_str().unwrap(), "--preset", preset, "--format", "json"]);
    command.args(more);
    json(command)
}

/// The logs of rank 0 of all runs of a session so far.
pub fn rank_logs(session: &Path) -> Vec<String> {
    let runs = fs::read_dir(session.join("runs")).into_iter().flatten().flatten();
    runs.filter_map(|run| fs::read_to_string(run.path().join("rank-0.jsonl")).ok()).collect()
}

/// Waits for a condition, not for a time.
pub fn wait_for<T>(mut condition: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(start.elapsed() < DEADLINE, "the condition did not come true");
        std::thread::sleep(Duration::from_millis(20));
    }
}
