//! Slurm's commands: executed with a time limit, with their errors in plain words.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::jobs::JobId;
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

/// Words in the errors of commands that Slurm refuses because there are too many jobs now. The limits are those of accounts and of
/// qualities of service (`AssocMaxSubmitJobLimit`, `QOSMaxSubmitJobPerUserLimit`), and the limit of the whole cluster.
const FULL: [&str; 3] = ["submitjob", "temporarily unable to accept job", "resource temporarily unavailable"];

/// Beginnings of the names of variables that commands of Slurm do not inherit: the site's settings count, not the shell's. If this process is
/// itself in a task of an array, its jobs are not.
const NOT_INHERITED: [&str; 3] = ["SBATCH_", "SQUEUE_", "SLURM_ARRAY_"];

/// Why a command of Slurm did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlurmError {
    /// The command is not installed.
    Missing(String),
    /// Slurm's controller did not answer: another attempt may succeed.
    Silent(String),
    /// The user has as many jobs as a limit allows: another attempt may succeed once some have ended.
    Full(String),
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
            Self::Full(text) => write!(to, "Slurm takes no more jobs of yours now ({text})"),
            Self::Refused(text) => write!(to, "Slurm refused: {text}"),
        }
    }
}

/// Executes a command of Slurm and returns its output.
pub(super) fn ask(name: &str, arguments: &[&str]) -> Result<String, SlurmError> {
    execute(name, arguments).map(|(stdout, _)| stdout)
}

/// Submits a script; returns the id of its job or array.
pub(super) fn submit(script: &Path) -> Result<u64, SlurmError> {
    let text = ask("sbatch", &["--parsable", &script.to_string_lossy()])?;
    // A federation adds the cluster's name: `12;lab`.
    let id = text.trim().split(';').next().and_then(|id| id.parse().ok());
    id.ok_or_else(|| SlurmError::Refused(format!("sbatch printed {:?} and no job id", text.trim())))
}

/// The largest number of tasks of an array; `None` if Slurm does not answer.
pub(super) fn most_tasks() -> Option<usize> {
    most_tasks_in(&ask("scontrol", &["show", "Config"]).ok()?)
}

fn most_tasks_in(configuration: &str) -> Option<usize> {
    // Tasks are numbered from 0, and each number is smaller than this one.
    let value =
        configuration.lines().find_map(|line| line.trim().strip_prefix("MaxArraySize")?.trim().strip_prefix('='));
    value?.trim().parse().ok()
}

/// The time that Slurm leaves a job; `None` if Slurm does not answer.
pub(super) fn time_left(job: &str) -> Option<Duration> {
    time_in(ask("squeue", &["--noheader", "--jobs", job, "--format", "%L"]).ok()?.trim())
}

/// A time in Slurm's form, `[[days-]hours:]minutes:seconds`. Without a limit it is longer than any job takes.
fn time_in(text: &str) -> Option<Duration> {
    const ENDLESS: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
    if text == "UNLIMITED" {
        return Some(ENDLESS);
    }
    let (days, clock) = text.split_once('-').unwrap_or(("0", text));
    let parts: Vec<u64> = clock.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let days: u64 = days.parse().ok()?;
    let (hours, minutes, seconds) = match parts[..] {
        [minutes, seconds] => (0, minutes, seconds),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return None,
    };
    let seconds = days
        .checked_mul(24)?
        .checked_add(hours)?
        .checked_mul(60)?
        .checked_add(minutes)?
        .checked_mul(60)?
        .checked_add(seconds)?;
    Some(Duration::from_secs(seconds).min(ENDLESS))
}

/// How a job ended, as `scontrol` knows it.
pub(super) fn exit_of(id: JobId) -> Option<Exit> {
    let text = ask("scontrol", &["--oneliner", "show", "job", &id.to_string()]).ok()?;
    let word = text.split_whitespace().find_map(|word| word.strip_prefix("ExitCode="))?;
    let (code, signal) = word.split_once(':')?;
    let (code, signal): (i32, i32) = (code.parse().ok()?, signal.parse().ok()?);
    Some(if signal == 0 { Exit::Code(code) } else { Exit::Signal(signal) })
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
    // Words are searched for in its messages, which are to name all tasks of an array.
    command.args(arguments).env("LC_ALL", "C").env("SLURM_BITSTR_LEN", "0");
    for (variable, _) in std::env::vars_os() {
        if variable.to_str().is_some_and(|name| NOT_INHERITED.iter().any(|start| name.starts_with(start))) {
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

/// The error of a command, derived from its output.
fn understood(name: &str, stderr: &str) -> SlurmError {
    let mut text = without_prefix(name, stderr);
    if text.is_empty() {
        text = format!("{name} failed and printed nothing");
    }
    if has(&text, &UNREACHED) {
        SlurmError::Silent(text)
    } else if is_full(&text) {
        SlurmError::Full(text)
    } else {
        SlurmError::Refused(text)
    }
}

/// Whether an error says that the user has as many jobs as a limit allows.
pub(super) fn is_full(text: &str) -> bool {
    has(text, &FULL)
}

fn has(text: &str, known: &[&str]) -> bool {
    let text = text.to_lowercase();
    known.iter().any(|words| text.contains(words))
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

    #[test]
    fn a_limit_on_the_number_of_jobs_is_told_from_limits_that_a_job_exceeds_by_itself() {
        let policy = "Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)";
        let refusal = |limit: &str| understood("sbatch", &format!("sbatch: error: {limit}\nsbatch: error: {policy}\n"));
        for limit in ["AssocMaxSubmitJobLimit", "QOSMaxSubmitJobPerUserLimit", "AssocGrpSubmitJobsLimit"] {
            assert!(matches!(refusal(limit), SlurmError::Full(_)), "{limit}");
        }
        assert!(matches!(refusal("QOSMaxCpuPerUserLimit"), SlurmError::Refused(_)));
    }

    #[test]
    fn the_largest_number_of_an_arrays_tasks_is_read_from_slurms_configuration() {
        let text = "Configuration data as of 2026-11-28T11:11:00\nMailProg                = /usr/bin/mail\nMaxArraySize            = 1001\nMaxDBDMsgs              = 20012\n";
        assert_eq!(most_tasks_in(text), Some(1001));
        assert_eq!(most_tasks_in(""), None);
    }

    #[test]
    fn times_of_slurm_are_read_in_all_their_forms() {
        let read = |text| time_in(text).map(|time| time.as_secs());
        assert_eq!([read("0:00"), read("1:05"), read("2:00:05"), read("1-00:00:01")], [0, 65, 7205, 86401].map(Some));
        assert!(read("UNLIMITED") > Some(365 * 86400));
        assert_eq!([read(""), read("INVALID"), read("5"), read("1:2:3:4")], [None; 4]);
    }
}
