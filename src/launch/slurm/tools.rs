//! Slurm's commands: executed with a time limit, with their errors in plain words.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::launch::answer::finish;
use crate::processes;
use crate::protocol::Exit;

/// Time limit of a command: `slurmctld` answers within milliseconds, and within seconds under load.
const LIMIT: Duration = Duration::from_secs(60);

/// Words in the errors of commands that did not reach `slurmctld`, or got no answer. `slurmctld` may answer later.
const UNREACHED: [&str; 5] = [
    "unable to contact slurm controller",
    "connection refused",
    "socket timed out",
    "zero bytes were transmitted",
    "unable to connect to slurm daemon",
];

/// Why a command of Slurm did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlurmError {
    /// The command is not installed.
    Missing(String),
    /// Slurm's controller did not answer: another attempt may succeed.
    Silent(String),
    /// Slurm refused the request.
    Refused(String),
}

impl std::fmt::Display for SlurmError {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing(command) => write!(
                to,
                "there is no Slurm on this machine: {command} is not on PATH: work on a login node of the cluster, or load its module"
            ),
            Self::Silent(text) => write!(to, "Slurm does not answer ({text})"),
            Self::Refused(text) => write!(to, "Slurm refused: {text}"),
        }
    }
}

/// Executes a command of Slurm and returns its output.
pub(super) fn ask(name: &str, arguments: &[&str]) -> Result<String, SlurmError> {
    execute(name, arguments).map(|(stdout, _)| stdout)
}

/// Like [`ask`], for commands that print their answer as a message.
pub(super) fn test(name: &str, arguments: &[&str]) -> Result<String, SlurmError> {
    execute(name, arguments).map(|(_, stderr)| without_prefix(name, &stderr))
}

fn execute(name: &str, arguments: &[&str]) -> Result<(String, String), SlurmError> {
    let missing = || SlurmError::Missing(name.to_owned());
    let search = std::env::var_os("PATH");
    let path = processes::executable(name, Path::new("/"), search.as_deref()).map_err(|_| missing())?;
    let mut command = Command::new(path);
    // Words are searched for in its messages.
    command.args(arguments).env("LC_ALL", "C");
    // The site's settings count, not the shell's.
    for (variable, _) in std::env::vars_os() {
        let is_option =
            variable.to_str().is_some_and(|name| name.starts_with("SBATCH_") || name.starts_with("SQUEUE_"));
        if is_option {
            command.env_remove(variable);
        }
    }
    let finished =
        finish(command, LIMIT).map_err(|error| SlurmError::Refused(format!("cannot start {name}: {error}")))?;
    let Some((exit, stdout, stderr)) = finished else {
        return Err(SlurmError::Silent(format!("{name} took longer than {} s", LIMIT.as_secs())));
    };
    if exit == Exit::Code(0) {
        return Ok((stdout, stderr));
    }
    Err(understood(name, &stderr))
}

/// The first messages of a command, without its name.
fn without_prefix(name: &str, stderr: &str) -> String {
    let message = |line: &str| {
        let line = line.trim();
        let line = line.strip_prefix(name).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(line);
        line.strip_prefix("error: ").unwrap_or(line).to_owned()
    };
    let lines: Vec<String> = stderr.lines().map(message).filter(|line| !line.is_empty()).take(4).collect();
    lines.join("; ")
}

/// The error of a command, by what it printed.
fn understood(name: &str, stderr: &str) -> SlurmError {
    let mut text = without_prefix(name, stderr);
    if text.is_empty() {
        text = format!("{name} failed and printed nothing");
    }
    let lower = text.to_lowercase();
    if UNREACHED.iter().any(|words| lower.contains(words)) {
        SlurmError::Silent(text)
    } else {
        SlurmError::Refused(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_that_is_down_is_told_from_a_request_that_is_refused() {
        let down = understood(
            "sbatch",
            "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)\n",
        );
        assert!(matches!(down, SlurmError::Silent(_)), "{down}");
        let refused = understood(
            "sbatch",
            "sbatch: error: invalid partition specified: gpus\nsbatch: error: Batch job submission failed: Invalid partition name specified\n",
        );
        let text = "invalid partition specified: gpus; Batch job submission failed: Invalid partition name specified";
        assert_eq!(refused, SlurmError::Refused(text.to_owned()));
        assert!(understood("squeue", "").to_string().contains("printed nothing"));
    }
}
