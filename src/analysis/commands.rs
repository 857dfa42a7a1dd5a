//! Tells cells apart whose commands have one name but do not run the same: plans of one session may run a program with other variables or
//! arguments, in another folder, or after another set-up.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::Key;
use super::made_with::ordinal;
use crate::plan::WorkloadSpec;
use crate::plan::command::differences;

/// For each name that several commands of one session have: their workloads, each with a text that tells its command from the others.
pub struct Commands<'a>(HashMap<&'a Key, Vec<(&'a WorkloadSpec, Arc<str>)>>);

impl<'a> Commands<'a> {
    /// The commands of cells, from their workloads and the names of their sessions. A command that only changed from one session to another
    /// is told by the session.
    pub fn of(cells: impl Iterator<Item = (&'a str, &'a WorkloadSpec)>) -> Self {
        let mut all: HashMap<&Key, Vec<(&WorkloadSpec, BTreeSet<&str>)>> = HashMap::new();
        for (session, workload) in cells.filter(|(_, workload)| workload.command.is_some()) {
            let known = all.entry(&workload.key).or_default();
            match known.iter_mut().find(|(one, _)| one.runs_as(workload)) {
                Some((_, sessions)) => {
                    sessions.insert(session);
                }
                None => known.push((workload, BTreeSet::from([session]))),
            }
        }
        all.retain(|_, known| {
            let sessions: BTreeSet<&str> = known.iter().flat_map(|(_, sessions)| sessions).copied().collect();
            known.iter().map(|(_, sessions)| sessions.len()).sum::<usize>() > sessions.len()
        });
        Self(
            all.into_iter()
                .map(|(key, known)| (key, with_texts(known.into_iter().map(|(workload, _)| workload))))
                .collect(),
        )
    }

    /// What tells the command of a workload from others of its name; empty if no other is in its session.
    pub fn text(&self, workload: &WorkloadSpec) -> Arc<str> {
        let mut known = self.0.get(&workload.key).into_iter().flatten();
        known.find(|(one, _)| one.runs_as(workload)).map_or_else(Arc::default, |(_, text)| Arc::clone(text))
    }
}

/// Workloads that run otherwise, each with a text that no other has: what differs in its command. Commands whose differences such a text
/// leaves out are numbered in the order of their first use.
fn with_texts<'a>(workloads: impl Iterator<Item = &'a WorkloadSpec>) -> Vec<(&'a WorkloadSpec, Arc<str>)> {
    let (workloads, commands): (Vec<_>, Vec<_>) =
        workloads.filter_map(|workload| Some((workload, workload.command.as_deref()?))).unzip();
    workloads.into_iter().zip(numbered(&differences(&commands))).collect()
}

/// These texts in their order; those that are alike are numbered.
fn numbered(texts: &[String]) -> Vec<Arc<str>> {
    // For each text: how often it occurs in all, and how often up to the one that is being numbered.
    let mut counts: HashMap<&str, (usize, usize)> = HashMap::new();
    for text in texts {
        counts.entry(text).or_default().0 += 1;
    }
    let numbered = texts.iter().map(|text| -> Arc<str> {
        let (all, so_far) = counts.entry(text).or_default();
        *so_far += 1;
        match (*all, ordinal(*so_far)) {
            (1, _) => text.as_str().into(),
            (_, nth) if text.is_empty() => nth.into(),
            (_, nth) => format!("{text}, {nth}").into(),
        }
    });
    numbered.collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::{
        Cell, Level, Levels, RunSummary, Source, cells, cells_of, fixture, level_name, summarise_run, varying,
    };
    use crate::plan::Command;
    use crate::store::RunRecord;

    /// A run of a program with a number of threads, which is no factor of its plan.
    fn run(threads: &str, size: i64) -> RunSummary {
        let env = vec![("THREADS".to_owned(), threads.to_owned())];
        run_of(Command { run: vec!["./train".to_owned()], env, ..Command::default() }, size)
    }

    fn run_of(command: Command, size: i64) -> RunSummary {
        let cell = format!("{:?}-{:?}-{size}", command.run, command.env);
        let command = Command { name: "train".into(), ..command };
        let workload = WorkloadSpec { command: Some(Arc::new(command)), ..WorkloadSpec::unknown("train") };
        let levels = Levels::new(vec![("size", Level::Integer(size))]);
        summarise_run(&RunRecord { workload: workload.into(), levels, cell, ..fixture::finished() })
    }

    fn keys(cells: &[Cell]) -> Vec<String> {
        varying(cells).iter().map(|setting| setting.key.to_string()).collect()
    }

    #[test]
    fn cells_of_plans_that_differ_only_in_a_variable_are_told_apart_by_the_variable() {
        let runs = [run("1", 8), run("1", 9), run("4", 8), run("4", 9)];
        let cells = cells(&runs);
        assert_eq!(keys(&cells), ["size", "command"]);
        let setting = varying(&cells).remove(1);
        let names: Vec<String> =
            cells.iter().map(|cell| level_name(&setting, &cell.level("command").unwrap())).collect();
        assert_eq!(names, ["THREADS=1", "THREADS=4", "THREADS=1", "THREADS=4"]);
        assert!(cells[0].is_like(&cells[1], &["command"]) && !cells[0].is_like(&cells[1], &["size"]));
        assert!(!cells[0].is_like(&cells[2], &["command"]) && cells[0].is_like(&cells[2], &["size"]));
    }

    #[test]
    fn commands_whose_texts_are_alike_are_numbered() {
        let run = |script: &str, size: i64| {
            run_of(Command { run: ["sh", "-c", script].map(str::to_owned).into(), ..Command::default() }, size)
        };
        let runs = [run("a && b", 8), run("a  && b", 8), run("c", 8)];
        let mut texts: Vec<String> =
            cells(&runs).iter().map(|cell| cell.level("command").unwrap().to_string()).collect();
        texts.sort();
        assert_eq!(texts, ["'a && b', 1st", "'a && b', 2nd", "c"]);
    }

    #[test]
    fn texts_keep_their_order_and_only_those_that_are_alike_are_numbered() {
        let numbers = |texts: &[&str]| numbered(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
        let texts = numbers(&["b", "a", "", "b", "", "c", "b"]);
        assert_eq!(
            texts.iter().map(|text| &**text).collect::<Vec<_>>(),
            ["b, 1st", "a", "1st", "b, 2nd", "2nd", "c", "b, 3rd"]
        );
        // With a look at all texts for each of them, this test would take an hour.
        let many = numbers(&["same"; 300_000]);
        assert_eq!(&*many[299_999], "same, 300000th");
    }

    #[test]
    fn a_command_that_changed_from_session_to_session_is_told_by_the_session() {
        let (old, new) = ([run("1", 8), run("1", 9)], [run("4", 8), run("4", 9)]);
        let source = |session, runs| Source { session, runs, reports: &[] };
        assert_eq!(keys(&cells_of(&[source("a", old.as_slice()), source("b", new.as_slice())])), ["session", "size"]);
        let both = [run("1", 8), run("4", 8)];
        let cells = cells_of(&[source("a", both.as_slice()), source("b", new.as_slice())]);
        let mut names: Vec<String> =
            cells.iter().map(|cell| format!("{} {}", cell.session, cell.level("command").unwrap())).collect();
        names.sort();
        assert_eq!(names, ["a THREADS=1", "a THREADS=4", "b THREADS=4", "b THREADS=4"]);
    }

    #[test]
    fn a_programs_own_factor_may_be_called_command() {
        let own = |mut run: RunSummary, level: &str| {
            run.levels = Levels::new(vec![("command", Level::text(level))]);
            run
        };
        let runs = [own(run("1", 8), "x"), own(run("4", 8), "y")];
        let cells = cells(&runs);
        assert_eq!(keys(&cells), ["command", "setting_command"]);
        assert_eq!(cells[0].level("command"), Some(Level::text("x")));
        assert_eq!(cells[0].level("setting_command"), Some(Level::text("THREADS=1")));
        assert!(!cells[0].is_like(&cells[1], &["command"]), "their programs differ");
    }
}
