//! The environment in which runs were made: the machine, the driver, the builds and the program's own files.
//!
//! The repeats of a cell should all measure the same thing. A session that is resumed after an upgrade, on another machine or with an
//! edited program contains runs in different environments under one cell's id, and a median over all of them would describe none of them.
//! Such a cell is split into parts by the facts that differ within it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::{Key, RunState, RunSummary};
use crate::protocol::{IMPORTED_FROM, fact_name};

/// The keys of the facts that make runs incomparable if they differ.
const FACTS: [&str; 15] = [
    "hostname",
    "cpu_model",
    "gpus",
    "gpu_power_limit_w",
    "driver",
    "libtorch",
    "cudnn",
    "nccl",
    "worker_build",
    "program_git",
    "program_files",
    "program_container",
    "program_python",
    "program_packages",
    IMPORTED_FROM,
];
/// Begins the keys of the facts about a program: its files, its commit, its container, its Python and packages.
const OF_PROGRAM: &str = "program_";
/// Longer values are shown as a number in the order of their first use: `Python packages, 2nd`.
const MOST_SHOWN: usize = 24;
/// The number of digits shown of a commit.
const COMMIT_DIGITS: usize = 12;

/// The keys of the facts by which cells are split; pooling over them can be requested.
pub fn splitting_facts() -> &'static [&'static str] {
    &FACTS
}

/// The keys of the facts by which cells are split and that say nothing about a program, such as the machine's name.
pub(super) fn facts_besides_program() -> Vec<Key> {
    FACTS.into_iter().filter(|key| !key.starts_with(OF_PROGRAM)).map(Key::from).collect()
}

/// A fact of a finished run; unfinished runs contribute to no value.
fn value<'a>(run: &'a RunSummary, key: &str) -> Option<&'a str> {
    let value = run.environment.as_ref().filter(|_| run.state == RunState::Finished)?.get(key)?;
    // The number of changed files is ignored: results that a run writes are among them, and the digest of the program's files detects
    // edits.
    Some(if key == "program_git" { value.split(',').next().unwrap_or(value) } else { value })
}

fn values<'a>(runs: &[&'a RunSummary], key: &str) -> BTreeSet<&'a str> {
    runs.iter().filter_map(|run| value(run, key)).collect()
}

/// The values of a fact, each with its place, from 1, in the order of their first use.
fn places<'a>(runs: &[&'a RunSummary], key: &str) -> HashMap<&'a str, usize> {
    let mut places = HashMap::new();
    for value in runs.iter().filter_map(|run| value(run, key)) {
        let next = places.len() + 1;
        places.entry(value).or_insert(next);
    }
    places
}

/// The keys of the facts in which finished runs differ.
pub(super) fn differing(runs: &[&RunSummary]) -> Vec<&'static str> {
    FACTS.into_iter().filter(|key| values(runs, key).len() > 1).collect()
}

/// The facts that differ within cells, each with the places of its values in the order of their first use.
pub(super) struct Split<'a> {
    facts: Vec<(&'static str, HashMap<&'a str, usize>)>,
}

impl<'a> Split<'a> {
    /// The facts that differ among the runs of a cell, from the runs of each cell. `None` if only `pooled` facts differ within cells.
    pub(super) fn of(cells: &[&[&'a RunSummary]], pooled: &[Key]) -> Option<Self> {
        let is_pooled = |key: &str| pooled.iter().any(|pooled| **pooled == *key);
        let differs = |key: &&str| cells.iter().any(|runs| values(runs, key).len() > 1);
        let mut facts: Vec<&str> = FACTS.into_iter().filter(|key| !is_pooled(key)).filter(differs).collect();
        // What the results of a day were imported from says no more than their commit, if each day has its own.
        let besides: Vec<&str> = facts.iter().copied().filter(|key| *key != IMPORTED_FROM).collect();
        if !besides.is_empty() && is_told_by(cells, IMPORTED_FROM, &besides) {
            facts = besides;
        }
        let mut all: Vec<&RunSummary> = cells.iter().flat_map(|runs| runs.iter().copied()).collect();
        all.sort_by(|a, b| a.started_s.unwrap_or_default().total_cmp(&b.started_s.unwrap_or_default()));
        let facts: Vec<_> = facts.into_iter().map(|key| (key, places(&all, key))).collect();
        (!facts.is_empty()).then_some(Self { facts })
    }

    /// The runs of a cell grouped by environment, in the order of first use. Runs that did not finish belong to the last group. A cell with
    /// a single environment is one part, which is named as well, so that each part finds partners made in the same environment.
    pub(super) fn parts(&self, runs: &[&'a RunSummary]) -> Vec<(Arc<str>, Vec<&'a RunSummary>)> {
        let mut runs = runs.to_vec();
        runs.sort_by(|a, b| a.started_s.unwrap_or(f64::MAX).total_cmp(&b.started_s.unwrap_or(f64::MAX)));
        let (finished, others): (Vec<&RunSummary>, Vec<&RunSummary>) =
            runs.into_iter().partition(|run| run.state == RunState::Finished);
        let mut parts: Vec<(Arc<str>, Vec<&RunSummary>)> = Vec::new();
        let mut known: HashMap<Arc<str>, usize> = HashMap::new();
        for run in finished {
            let made_with: Arc<str> = facts_text(run, &self.facts).into();
            let place = *known.entry(Arc::clone(&made_with)).or_insert(parts.len());
            match parts.get_mut(place) {
                Some((_, part)) => part.push(run),
                None => parts.push((made_with, vec![run])),
            }
        }
        match parts.last_mut() {
            Some((_, last)) => last.extend(others),
            None => parts.push((Arc::default(), others)),
        }
        parts
    }
}

/// Whether the runs of a cell that are alike in other facts are alike in this one as well, in all cells.
fn is_told_by(cells: &[&[&RunSummary]], key: &str, others: &[&str]) -> bool {
    cells.iter().all(|runs| {
        let mut known: HashMap<Vec<Option<&str>>, Option<&str>> = HashMap::new();
        runs.iter().filter(|run| run.state == RunState::Finished).all(|run| {
            let (own, others) = (value(run, key), others.iter().map(|other| value(run, other)).collect());
            *known.entry(others).or_insert(own) == own
        })
    })
}

/// `driver 570.86, Program's files 2nd`.
fn facts_text(run: &RunSummary, facts: &[(&str, HashMap<&str, usize>)]) -> String {
    let fact = |(key, places): &(&str, HashMap<&str, usize>)| match value(run, key) {
        None => format!("{} not known", fact_name(key)),
        Some(value) => format!("{} {}", fact_name(key), short(value, places)),
    };
    facts.iter().map(fact).collect::<Vec<_>>().join(", ")
}

fn is_commit(value: &str) -> bool {
    value.len() == 40 && value.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_numbered(value: &str) -> bool {
    value.len() > MOST_SHOWN && !is_commit(value)
}

/// Whether values of a fact are shown as numbers in the order of their first use.
pub(super) fn has_numbers(runs: &[&RunSummary], key: &str) -> bool {
    values(runs, key).into_iter().any(is_numbered)
}

fn short(value: &str, places: &HashMap<&str, usize>) -> String {
    if is_commit(value) {
        return value[..COMMIT_DIGITS].to_owned();
    }
    if !is_numbered(value) {
        return value.to_owned();
    }
    ordinal(places.get(value).copied().unwrap_or(1))
}

/// A place in an order: `2nd`.
pub(super) fn ordinal(place: usize) -> String {
    let ending = match (place % 100, place % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{place}{ending}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::{
        Comparison, Environment, Source, cells, cells_pooling, fixture, split_note, summarise_run, varying,
    };

    /// Six repeats of two cells: the last three were made on another machine, after an upgrade of its driver.
    fn runs() -> Vec<RunSummary> {
        let run = |(precision, repeat): (&str, u32)| {
            let mut record = fixture::run(&fixture::cell(precision, 1, "single"), repeat, 0.1);
            record.started_time_s = Some(1_000.0 * f64::from(repeat));
            let mut environment = Environment::default();
            environment.set("hostname", Some(if repeat > 3 { "gpu2" } else { "gpu1" }));
            environment.set("driver", Some(if repeat > 3 { "580" } else { "570" }));
            environment.set("kernel", Some(format!("6.{repeat}")));
            let commit = "0123456789abcdef0123456789abcdef01234567";
            environment.set("program_git", Some(format!("{commit}, {repeat} files changed")));
            record.environment = Some(Arc::new(environment));
            summarise_run(&record)
        };
        ["fp32", "fp16"]
            .into_iter()
            .flat_map(|precision| (1..=6).map(move |repeat| (precision, repeat)))
            .map(run)
            .collect()
    }

    #[test]
    fn long_values_are_told_by_their_place() {
        let value = "x".repeat(MOST_SHOWN + 1);
        let places = |place: usize| short(&value, &HashMap::from([(value.as_str(), place)]));
        let ordinals = [1, 2, 3, 4, 11, 12, 13, 21, 22, 101, 111].map(places).join(" ");
        assert_eq!(ordinals, "1st 2nd 3rd 4th 11th 12th 13th 21st 22nd 101st 111th");
    }

    #[test]
    fn repeats_that_were_not_made_alike_are_cells_of_their_own() {
        let runs = runs();
        let split = cells(&runs);
        let values: Vec<(&str, &str, usize)> =
            split.iter().map(|cell| (cell.id, &*cell.made_with, cell.runs.len())).collect();
        let (old, new) = ("Machine gpu1, NVIDIA driver 570", "Machine gpu2, NVIDIA driver 580");
        let expected = [
            ("fp32-1-single", old, 3),
            ("fp32-1-single", new, 3),
            ("fp16-1-single", old, 3),
            ("fp16-1-single", new, 3),
        ];
        assert_eq!(values, expected);
        let varies: Vec<String> = varying(&split).iter().map(|setting| setting.key.to_string()).collect();
        assert_eq!(varies, ["precision", "made_with"]);
        assert!(split[0].is_like(&split[2], &["precision"]) && !split[0].is_like(&split[3], &["precision"]));
        let note = split_note(&split).unwrap();
        assert!(note.starts_with("repeats of 2 cells") && note.contains("--pool hostname,driver"), "{note}");
        assert!(!note.contains("1st"), "all values are short enough to be shown: {note}");
        // The two halves of one cell were measured one after the other.
        let between = Comparison::between(&split[1], &split[0], "step_time_s", true);
        let reason = between.reason.unwrap().to_string();
        assert!(
            reason.ends_with("they differ in Machine, Linux kernel, NVIDIA driver, Program's git commit"),
            "{reason}"
        );
    }

    #[test]
    fn long_values_are_numbered_in_the_order_of_their_first_use() {
        let mut runs = runs();
        for run in &mut runs {
            let mut environment = Environment::default();
            environment
                .set("program_files", Some(format!("sha256 {}", if run.repeat > 3 { "a" } else { "b" }.repeat(32))));
            run.environment = Some(Arc::new(environment));
        }
        // The runs as they are read, with later runs first.
        runs.reverse();
        let mut names: Vec<(u32, String)> =
            cells(&runs).iter().map(|cell| (cell.runs[0].repeat.min(4), cell.made_with.to_string())).collect();
        names.sort();
        names.dedup();
        let name = |number: &str| format!("{} {number}", fact_name("program_files"));
        assert_eq!(names, [(1, name("1st")), (4, name("2nd"))]);
        let note = split_note(&cells(&runs)).unwrap();
        let expected = "; 1st, 2nd and so on number the versions of Program's files in the order of their first use";
        assert!(note.ends_with(expected), "{note}");
    }

    #[test]
    fn what_results_were_imported_from_is_not_told_where_their_commit_tells_them_apart() {
        let names = |commit: &dyn Fn(u32) -> u32| {
            let mut runs = runs();
            for run in &mut runs {
                let mut environment = Environment::default();
                environment.set("program_git", Some(format!("c{}", commit(run.repeat))));
                environment.set(IMPORTED_FROM, Some(format!("n.csv (CSV), {}", run.repeat)));
                run.environment = Some(Arc::new(environment));
            }
            let names: Vec<String> = cells(&runs)[..2].iter().map(|cell| cell.made_with.to_string()).collect();
            names.join("; ")
        };
        let commit = fact_name("program_git");
        assert_eq!(names(&|day| day), format!("{commit} c1; {commit} c2"));
        // Where two days have one commit, the import tells the days apart.
        let days = names(&|day| day / 4);
        assert!(days.starts_with(&format!("{commit} c0, Imported from n.csv (CSV), 1; ")), "{days}");
    }

    #[test]
    fn repeats_are_pooled_over_facts_that_are_asked_for() {
        let runs = runs();
        let sources = [Source { session: "", runs: &runs, reports: &[] }];
        let pooled =
            |keys: &[&str]| cells_pooling(&sources, &keys.iter().map(|key| (*key).into()).collect::<Vec<Key>>());
        assert_eq!(pooled(&["hostname", "driver"]).len(), 2);
        let by_driver = pooled(&["hostname"]);
        assert_eq!((by_driver.len(), &*by_driver[1].made_with), (4, "NVIDIA driver 580"));
        assert!(split_note(&pooled(&["hostname", "driver"])).is_none());
    }

    #[test]
    fn runs_that_did_not_finish_stand_with_the_last_and_what_is_not_recorded_splits_nothing() {
        let mut runs = runs();
        runs.truncate(6);
        runs[0].state = RunState::Failed;
        runs[5].environment = None;
        let split = cells(&runs);
        let counts: Vec<(usize, &str)> = split.iter().map(|cell| (cell.runs.len(), &*cell.made_with)).collect();
        assert_eq!(counts[0], (2, "Machine gpu1, NVIDIA driver 570"));
        assert_eq!(counts[1].0, 2);
        assert_eq!(counts[2], (2, "Machine not known, NVIDIA driver not known"));
        for run in &mut runs[3..] {
            run.environment = None;
        }
        assert_eq!(cells(&runs).len(), 1);
    }
}
