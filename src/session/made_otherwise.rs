//! Kept runs that were made otherwise than their plan would make them now: with other files of the program, in another folder, from another
//! seed, with other readings, or with another warm-up. None of these is part of a cell's identity, so that such runs count, and whoever resumes
//! the plan is told.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use super::reading::recorded_job;
use crate::plan::command::ReadingsSpec;
use crate::plan::{Command, Levels, Plan, WarmUp, counted};
use crate::program::{Facts, FilesNow, PROGRAM_FILES};
use crate::protocol::{Environment, Job, Program};
use crate::store::{RunRecord, number_of};

/// The most runs that the warning names for each difference.
const NAMED: usize = 8;

/// A warning, in one line, about those of a plan's kept runs that were made otherwise; `None` if there are none. `folder` is the session's.
pub(super) fn made_otherwise<'r>(
    plan: &Plan,
    folder: &Path,
    kept: impl Iterator<Item = &'r RunRecord>,
    known: &mut Facts,
) -> Option<String> {
    let mut other_files = OtherFiles::default();
    let mut different: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for record in kept {
        let seed = plan.seed.wrapping_add(u64::from(record.repeat.saturating_sub(1)));
        let spec = plan.spec_of(&record.workload.key);
        let command = spec.and_then(|spec| spec.command.as_deref());
        let mut add = |how: String| different.entry(how).or_default().push(number_of(&record.run));
        if seed != record.seed && command.is_none_or(|command| uses(command, &record.levels, "seed")) {
            add("from another seed".to_owned());
        }
        let warm_up = spec.map(|spec| WarmUp::of(spec, plan.warm_up_steps));
        if record.warm_up.is_some_and(|before| warm_up.is_some_and(|now| now != before)) {
            add("with another warm-up".to_owned());
        }
        let Some(command) = command else { continue };
        if reads_otherwise(command, record) {
            add("with other patterns, files or names in [command.readings]".to_owned());
        }
        if let Some(other) = other_place(command, record) {
            add(format!("in another folder, {}", other.display()));
        }
        if other_files.has(command, seed, folder, record, known) {
            add("with other files of the program".to_owned());
        }
    }
    let listed =
        different.iter().map(|(how, runs)| format!("{} {how} ({})", counted(runs.len(), "run"), numbers(runs)));
    let listed: Vec<String> = listed.collect();
    (!listed.is_empty()).then(|| {
        format!(
            "some kept runs differ from what the plan would run now: {}; to measure all of them alike, launch the plan in a new session",
            listed.join(", ")
        )
    })
}

/// The numbers of the first few runs.
fn numbers(runs: &[&str]) -> String {
    match runs.len().saturating_sub(NAMED) {
        0 => runs.join(", "),
        more => format!("{} and {more} more", runs[..NAMED].join(", ")),
    }
}

/// Whether another value of a placeholder, such as `seed`, changes what a command runs.
fn uses(command: &Command, levels: &Levels, placeholder: &str) -> bool {
    let with = |value: &str| {
        let built_in = |name: &str| if name == placeholder { value.to_owned() } else { name.to_owned() };
        command.filled(&|name| Some(levels.get(name).map_or_else(|| built_in(name), ToString::to_string)))
    };
    with("1") != with("2")
}

/// Whether the command would now have other sources of readings. How the end of the warm-up is found belongs to the warm-up.
fn reads_otherwise(command: &Command, record: &RunRecord) -> bool {
    let sources = |command: &Command| {
        let ReadingsSpec { patterns, files, names, .. } = &command.readings;
        (patterns.clone(), files.clone(), names.clone())
    };
    record.workload.command.as_deref().is_some_and(|before| sources(before) != sources(command))
}

/// The folder that a run's program ran in, with placeholders, if the command would now run in another one.
fn other_place(command: &Command, record: &RunRecord) -> Option<PathBuf> {
    let place = |command: &Command| {
        let folder = Path::new(command.base.as_deref()?).join(command.folder.as_deref().unwrap_or_default());
        // By whatever path, it is the same folder.
        Some(fs::canonicalize(&folder).unwrap_or(folder))
    };
    let before = place(record.workload.command.as_deref()?)?;
    (place(command)? != before).then_some(before)
}

/// What decides whether the program of a run would now have other files: the run's cell, the environment that it was made in, and the seed and
/// the number of the repeat if the command uses them.
type Question<'r> = (&'r str, &'r Environment, Option<u64>, Option<u32>);

/// Compares the files of programs with those that their runs had. Of the runs with the same answer, the job of one is read.
#[derive(Default)]
struct OtherFiles<'r> {
    files: FilesNow,
    answers: HashMap<Question<'r>, bool>,
}

impl<'r> OtherFiles<'r> {
    /// Whether the program of a run would now have other files than the run had.
    fn has(&mut self, command: &Command, seed: u64, folder: &Path, record: &'r RunRecord, known: &mut Facts) -> bool {
        let Some(environment) = record.environment.as_deref() else { return false };
        let Some(before) = environment.get(PROGRAM_FILES) else { return false };
        let used = |placeholder| uses(command, &record.levels, placeholder);
        let question =
            (&*record.cell, environment, used("seed").then_some(seed), used("repeat").then_some(record.repeat));
        if let Some(answer) = self.answers.get(&question) {
            return *answer;
        }
        let Some(job) = recorded_job(folder, &record.run) else { return false };
        let Some(program) = job.program.clone() else { return false };
        let program = Program { command: command.clone(), ..program };
        // The folder of a run that starts has no files yet.
        let job = Job { folder: folder.join("runs").join("next"), seed, ..job };
        let answer = self.files.differ(known, &job, &program, before);
        self.answers.insert(question, answer);
        answer
    }
}
