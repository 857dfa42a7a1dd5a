//! What stands for the placeholders of a run's command.

use std::net::TcpListener;
use std::path::Path;

use crate::plan::command::Filled;
use crate::protocol::{Job, Program};

/// The command of a run with its placeholders filled; `{port}` is a TCP port that is free now.
///
/// # Errors
/// A placeholder is unknown, or the command names no program.
pub fn filled_command(job: &Job, program: &Program) -> Result<Filled, String> {
    program.command.filled(&|name| value(job, program, name))
}

/// What stands for a placeholder: the level of a factor, or what the run itself is.
pub(super) fn value(job: &Job, program: &Program, name: &str) -> Option<String> {
    if let Some(level) = job.levels.get(name) {
        return Some(level.to_string());
    }
    match name {
        "seed" => Some(job.seed.to_string()),
        "repeat" => Some(program.repeat.to_string()),
        "gpus" => Some(job.shape.devices().to_string()),
        "run_folder" => std::path::absolute(&job.folder).ok().map(|folder| folder.display().to_string()),
        "session_folder" => {
            let folder = std::path::absolute(&job.folder).ok()?;
            Some(session_folder(&folder)?.display().to_string())
        }
        "port" => TcpListener::bind(("127.0.0.1", 0))
            .and_then(|listener| listener.local_addr())
            .ok()
            .map(|address| address.port().to_string()),
        _ => None,
    }
}

/// The session's folder of a run's.
pub(super) fn session_folder(run: &Path) -> Option<&Path> {
    run.parent()?.parent()
}
