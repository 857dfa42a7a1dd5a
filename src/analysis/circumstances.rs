//! The machine, the date and the git commit of a cell's runs. They distinguish the cells of several sessions.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::RunSummary;
use crate::plan::RunState;
use crate::protocol::COMMIT_TIME;

/// The key of the machine's name as a setting.
pub const MACHINE: &str = "machine";
/// The key of the git commit as a setting.
pub const COMMIT: &str = "commit";
/// The key of the day of the first start, in UTC, as a setting.
pub const DATE: &str = "date";
/// The settings that are facts about a session, with their names.
pub const OF_SESSIONS: [(&str, &str); 3] = [(MACHINE, "Machine"), (COMMIT, "Commit"), (DATE, "Date")];
/// How many digits of a commit are shown.
const COMMIT_DIGITS: usize = 12;

/// The circumstances of a cell's finished runs; of all runs, if none finished.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Circumstances {
    /// The name of the machine; several are separated by commas.
    pub machine: Option<Arc<str>>,
    /// The git commit of the program, or of the worker for a built-in workload, shortened.
    pub commit: Option<Arc<str>>,
    /// The time of the program's commit by git, as RFC 3339 in UTC.
    pub committed: Option<Arc<str>>,
    /// The start of the first run, in seconds since the Unix epoch.
    pub started_s: Option<f64>,
}

impl Circumstances {
    /// The circumstances of these runs.
    pub(super) fn of(runs: &[&RunSummary]) -> Self {
        let has_finished = runs.iter().any(|run| run.state == RunState::Finished);
        let counted = || runs.iter().filter(move |run| !has_finished || run.state == RunState::Finished);
        let each = |value: &dyn Fn(&RunSummary) -> Option<String>| -> Option<Arc<str>> {
            let values: BTreeSet<String> = counted().filter_map(|run| value(run)).collect();
            let values: Vec<String> = values.into_iter().collect();
            (!values.is_empty()).then(|| values.join(", ").into())
        };
        Self {
            machine: each(&|run| fact(run, "hostname").map(str::to_owned)),
            commit: each(&commit),
            committed: each(&|run| fact(run, COMMIT_TIME).map(str::to_owned)),
            started_s: counted().filter_map(|run| run.started_s).min_by(f64::total_cmp),
        }
    }

    /// The circumstances of a session's first finished run, in a few words: `gpu1 · 0123456789ab · 2026-11-26`.
    pub fn of_session(runs: &[RunSummary]) -> String {
        let first = runs.iter().find(|run| run.state == RunState::Finished);
        let Self { machine, commit, started_s, .. } = first.map_or_else(Self::default, |first| Self::of(&[first]));
        let date = Self { started_s, ..Self::default() }.date();
        let parts = [machine.as_deref(), commit.as_deref(), date.as_deref()];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
    }

    /// The day of the first start, in UTC.
    pub fn date(&self) -> Option<String> {
        self.at("%Y-%m-%d")
    }

    /// The minute of the first start, in UTC.
    pub fn minute(&self) -> Option<String> {
        self.at("%Y-%m-%d %H:%M")
    }

    fn at(&self, form: &str) -> Option<String> {
        let time = jiff::Timestamp::from_second(self.started_s? as i64).ok()?;
        Some(time.strftime(form).to_string())
    }
}

/// A fact about the machine and the software of a run.
pub(super) fn fact<'a>(run: &'a RunSummary, key: &str) -> Option<&'a str> {
    run.environment.as_ref()?.get(key)
}

/// The commit of the program that a run measures, or of the worker for a built-in workload.
fn commit(run: &RunSummary) -> Option<String> {
    let of_worker = || fact(run, "worker_build").filter(|_| !run.is_reported());
    fact(run, "program_git").or_else(of_worker).map(short)
}

/// The commit alone, without text that follows it, such as the number of changed files. If files were changed, a `+` is
/// added.
pub(super) fn short(commit: &str) -> String {
    let (hash, rest) = commit.split_once(", ").unwrap_or((commit, ""));
    let (hash, is_changed) = match hash.strip_suffix("-dirty") {
        Some(hash) => (hash, true),
        None => (hash, rest.contains("changed")),
    };
    let hash: String = if hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        hash.chars().take(COMMIT_DIGITS).collect()
    } else {
        hash.to_owned()
    };
    hash + if is_changed { "+" } else { "" }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::{Environment, Setting, Source, cells_of, fixture, session_facts, summarise_run, varying};

    /// A session of two cells that was started at this time, with these facts.
    fn session(started_s: f64, facts: &[(&str, &str)]) -> Vec<RunSummary> {
        let mut environment = Environment::default();
        facts.iter().for_each(|(key, value)| environment.set(key, Some(*value)));
        let environment = Arc::new(environment);
        let run = |precision| {
            let mut record = fixture::run(&fixture::cell(precision, 1, "single"), 1, 0.1);
            record.started_time_s = Some(started_s);
            record.environment = Some(Arc::clone(&environment));
            summarise_run(&record)
        };
        ["fp32", "fp16"].map(run).into()
    }

    #[test]
    fn cells_of_several_sessions_have_the_facts_that_differ_as_settings() {
        let commit = "0123456789abcdef0123456789abcdef01234567, 2 files changed";
        let old = session(0.0, &[("hostname", "gpu1"), ("worker_build", "feedbeef0000111-dirty")]);
        let new = session(90_000.0, &[("hostname", "gpu1"), ("program_git", commit)]);
        let source = |session, runs| Source { session, runs, reports: &[] };
        let cells = cells_of(&[source("a", old.as_slice()), source("b", new.as_slice())]);
        let keys = |settings: Vec<Setting>| settings.iter().map(|one| one.key.to_string()).collect::<Vec<_>>();
        assert_eq!(
            keys(varying(&cells)),
            ["session", "precision"],
            "the machine is the same, the others repeat the session"
        );
        assert_eq!(keys(session_facts(&cells)), ["commit", "date"]);
        let level = |place: usize, key: &str| cells[place].level(key).map(|level| level.to_string());
        assert_eq!(level(0, COMMIT).as_deref(), Some("feedbeef0000+"));
        assert_eq!(level(1, COMMIT).as_deref(), Some("0123456789ab+"));
        assert_eq!((level(0, DATE).as_deref(), level(1, DATE).as_deref()), (Some("1970-01-01"), Some("1970-01-02")));
        assert_eq!(level(1, MACHINE).as_deref(), Some("gpu1"));
        assert_eq!(Circumstances::of_session(&new), "gpu1 · 0123456789ab+ · 1970-01-02");
        // Within one session, `made_with` distinguishes the parts of a cell.
        assert!(session_facts(&cells_of(&[source("", old.as_slice())])).is_empty());
        assert!(cells[0].is_like(&cells[1], &["session"]) && !cells[0].is_like(&cells[1], &["precision"]));
    }
}
