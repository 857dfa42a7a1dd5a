//! The versions of a program that the repeats of a cell were made with, and the repeats that count now: finished runs whose program is that
//! of the newest one. Statistics over the repeats of a cell use these only: after an edit of a program, its earlier repeats say nothing about
//! the program as it is.
//!
//! Unlike in tables, repeats on other machines count. If each node of a cluster began to count anew, repeats that are added until a time is
//! known would be made that many times over.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::made_with::{Split, facts_besides_program};
use super::{RunState, RunSummary};
use crate::plan::Identity;

/// Finished runs of a cell.
#[derive(Clone, Debug, Default)]
pub struct AlikeRuns<'r> {
    /// Those that were made with the same program as the newest one.
    pub runs: Vec<&'r RunSummary>,
    /// The number of the others.
    pub others: u32,
}

/// The finished runs of each cell. Programs are told apart by their own files, commit, container, Python and packages. Their command and
/// set-up are parts of the cell's identity.
pub fn alike_runs(runs: &[RunSummary]) -> BTreeMap<Identity, AlikeRuns<'_>> {
    let cells = finished_runs(runs);
    let split = split_by_program(cells.values());
    let alike = cells.into_iter().map(|(cell, all)| {
        let count = all.len();
        let runs = split.as_ref().and_then(|split| newest_part(split, &all)).unwrap_or(all);
        (cell, AlikeRuns { others: (count - runs.len()) as u32, runs })
    });
    alike.collect()
}

/// For each of several sessions, given by their runs: the version of its program that each finished run was made with, in words, by the run's
/// id. Only runs of cells that their session made with several versions have one. Programs are told apart as in [`alike_runs`]; the same
/// words mean the same version in all of these sessions.
pub fn program_versions<'r>(sessions: &[&'r [RunSummary]]) -> Vec<HashMap<&'r str, Arc<str>>> {
    let sessions: Vec<BTreeMap<Identity, Vec<&RunSummary>>> = sessions.iter().map(|runs| finished_runs(runs)).collect();
    let Some(split) = split_by_program(sessions.iter().flat_map(BTreeMap::values)) else {
        return vec![HashMap::new(); sessions.len()];
    };
    let mut versions = Vec::with_capacity(sessions.len());
    for cells in &sessions {
        let mut of_runs: HashMap<&str, Arc<str>> = HashMap::new();
        for parts in cells.values().map(|runs| split.parts(runs)).filter(|parts| parts.len() > 1) {
            for (version, runs) in parts {
                of_runs.extend(runs.into_iter().map(|run| (run.run.as_str(), Arc::clone(&version))));
            }
        }
        versions.push(of_runs);
    }
    versions
}

/// The finished runs of each cell.
fn finished_runs(runs: &[RunSummary]) -> BTreeMap<Identity, Vec<&RunSummary>> {
    let mut cells: BTreeMap<Identity, Vec<&RunSummary>> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.state == RunState::Finished) {
        if let Some(cell) = run.identity {
            cells.entry(cell).or_default().push(run);
        }
    }
    cells
}

/// The facts about programs that differ within cells, from the runs of each cell.
fn split_by_program<'c, 'r: 'c>(cells: impl Iterator<Item = &'c Vec<&'r RunSummary>>) -> Option<Split<'r>> {
    let cells: Vec<&[&RunSummary]> = cells.map(Vec::as_slice).collect();
    Split::of(&cells, &facts_besides_program())
}

/// The runs that were made with the program of the newest one.
fn newest_part<'r>(split: &Split<'r>, runs: &[&'r RunSummary]) -> Option<Vec<&'r RunSummary>> {
    let started_s = |run: &RunSummary| run.started_s.unwrap_or(f64::MAX);
    let newest = runs.iter().copied().max_by(|a, b| started_s(a).total_cmp(&started_s(b)))?;
    let mut parts = split.parts(runs).into_iter().map(|(_, part)| part);
    parts.find(|part| part.iter().any(|run| std::ptr::eq(*run, newest)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::{Environment, cells, fixture, summarise_run};

    /// A run of a program with these files.
    fn run(repeat: u32, files: &str) -> RunSummary {
        run_on("gpu1", repeat, files)
    }

    fn run_on(machine: &str, repeat: u32, files: &str) -> RunSummary {
        let mut record = fixture::run(&fixture::cell("fp32", 1, "single"), repeat, 0.01);
        record.started_time_s = Some(1_000.0 * f64::from(repeat));
        let mut environment = Environment::default();
        environment.set("hostname", Some(machine));
        environment.set("program_files", Some(files));
        record.environment = Some(Arc::new(environment));
        summarise_run(&record)
    }

    /// The repeats that count, and the number of the others.
    fn counting(runs: &[RunSummary]) -> (Vec<u32>, u32) {
        let alike = alike_runs(runs);
        let cell = &alike[runs[0].identity.as_ref().unwrap()];
        (cell.runs.iter().map(|run| run.repeat).collect(), cell.others)
    }

    #[test]
    fn only_repeats_of_the_newest_finished_runs_program_count_as_one_row_of_the_table_holds_them() {
        let mut runs = vec![run(1, "old"), run(2, "old"), run(3, "new"), run(4, "new")];
        assert_eq!(counting(&runs), (vec![3, 4], 2));
        assert_eq!(cells(&runs).iter().map(|cell| cell.runs.len()).collect::<Vec<_>>(), [2, 2]);
        runs.push(run(5, "old"));
        assert_eq!(counting(&runs), (vec![1, 2, 5], 2), "the edit was taken back");
        runs[4].state = RunState::Failed;
        assert_eq!(counting(&runs), (vec![3, 4], 2), "a run that failed has no result");
    }

    #[test]
    fn repeats_on_all_machines_of_a_cluster_count_if_their_program_is_the_same() {
        let run =
            |repeat: u32| run_on(["gpu1", "gpu2"][repeat as usize % 2], repeat, if repeat > 2 { "new" } else { "old" });
        let runs: Vec<RunSummary> = (1..=6).map(run).collect();
        assert_eq!(counting(&runs), (vec![3, 4, 5, 6], 2));
    }

    #[test]
    fn repeats_of_one_program_all_count_and_times_that_are_not_known_are_later_than_others() {
        let mut runs = vec![run(1, "same"), run(2, "same")];
        assert_eq!(counting(&runs), (vec![1, 2], 0));
        runs.extend([run(3, "other"), run(4, "same")]);
        runs.iter_mut().for_each(|run| run.started_s = None);
        assert_eq!(counting(&runs), (vec![1, 2, 4], 1));
    }

    #[test]
    fn versions_are_told_for_cells_that_a_session_made_with_several_and_their_words_mean_the_same_in_all_sessions() {
        let files = |letter: &str| format!("sha256 {}", letter.repeat(64));
        let [old, new, newest] = ["a", "b", "c"].map(files);
        let edited = [run(1, &old), run(2, &new), run_on("gpu2", 3, &new)];
        let edited_again = [run(4, &new), run(5, &newest)];
        let kept = [run(6, &newest)];
        let versions = program_versions(&[&edited, &edited_again, &kept]);
        let words = |session: usize, runs: &[RunSummary]| -> Vec<Option<String>> {
            runs.iter().map(|run| versions[session].get(run.run.as_str()).map(ToString::to_string)).collect()
        };
        let version = |place: &str| Some(format!("Program's files {place}"));
        assert_eq!(words(0, &edited), [version("1st"), version("2nd"), version("2nd")]);
        assert_eq!(words(1, &edited_again), [version("2nd"), version("3rd")]);
        assert_eq!(words(2, &kept), [None], "it has one version only");
        assert!(program_versions(&[&kept, &[]]).iter().all(HashMap::is_empty));
    }
}
