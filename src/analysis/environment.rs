//! Differences between the environments of runs: within a session, and between two sessions.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::made_with::{self, splitting_facts};
use super::{Cell, RunState, RunSummary, counted};
use crate::protocol::{Environment, fact_name};

/// The maximum number of values of a fact that a note shows.
const VALUES: usize = 3;

/// A fact that differs between runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Differing {
    /// Its key.
    pub key: String,
    /// Its name.
    pub name: String,
    /// Its values, each with the indexes of the runs that have it; `None` if the fact is unknown.
    pub values: BTreeMap<Option<String>, Vec<usize>>,
}

/// The facts in which environments differ, in the order in which they are shown.
fn differing<'a>(environments: impl Iterator<Item = (usize, &'a Arc<Environment>)>) -> Vec<Differing> {
    // Most runs share equal environments.
    let mut distinct: Vec<(&Arc<Environment>, Vec<usize>)> = Vec::new();
    let mut known: HashMap<&Environment, usize> = HashMap::new();
    for (place, environment) in environments {
        let at = *known.entry(&**environment).or_insert(distinct.len());
        match distinct.get_mut(at) {
            Some((_, places)) => places.push(place),
            None => distinct.push((environment, vec![place])),
        }
    }
    let mut differing: Vec<Differing> = Vec::new();
    let mut keys: Vec<(&str, &str)> = Vec::new();
    for (key, name, _) in distinct.iter().flat_map(|(environment, _)| environment.facts()) {
        if keys.iter().all(|(known, _)| *known != key) {
            keys.push((key, name));
        }
    }
    for (key, name) in keys {
        let mut values: BTreeMap<Option<String>, Vec<usize>> = BTreeMap::new();
        for (environment, places) in &distinct {
            values.entry(environment.get(key).map(str::to_owned)).or_default().extend(places);
        }
        if values.len() > 1 {
            differing.push(Differing { key: key.to_owned(), name: name.to_owned(), values });
        }
    }
    differing
}

/// The names of facts that are known for two groups of runs and have no value in common.
pub(super) fn machine_differs<'a>(
    own: impl Iterator<Item = &'a RunSummary>,
    others: impl Iterator<Item = &'a RunSummary>,
) -> Vec<String> {
    let known = |run: &'a RunSummary| run.environment.as_ref();
    let own: Vec<_> = own.filter_map(known).collect();
    let all = own.iter().copied().chain(others.filter_map(known)).enumerate();
    let is_split = |fact: &Differing| {
        fact.values.iter().all(|(value, places)| {
            value.is_some()
                && (places.iter().all(|place| *place < own.len()) || places.iter().all(|place| *place >= own.len()))
        })
    };
    differing(all).into_iter().filter(is_split).map(|fact| fact.name).collect()
}

/// The runs of each cell that is split into several parts because of different environments, all parts together.
fn wholes<'a>(cells: &[Cell<'a>]) -> Vec<Vec<&'a RunSummary>> {
    let mut parts: BTreeMap<(&str, &str), Vec<&Cell>> = BTreeMap::new();
    for cell in cells {
        parts.entry((cell.session, cell.id)).or_default().push(cell);
    }
    let split = parts.into_values().filter(|parts| parts.len() > 1);
    split.map(|parts| parts.iter().flat_map(|part| part.runs.iter().copied()).collect()).collect()
}

/// The keys of the facts by which cells are split.
pub fn split_by(cells: &[Cell]) -> Vec<&'static str> {
    let differing: Vec<Vec<&str>> = wholes(cells).iter().map(|runs| made_with::differing(runs)).collect();
    splitting_facts().iter().copied().filter(|key| differing.iter().any(|facts| facts.contains(key))).collect()
}

/// Whether a cell has finished runs that differ in a fact of their environments.
pub fn has_differing(cells: &[Cell], key: &str) -> bool {
    cells.iter().any(|cell| made_with::differing(&cell.runs).contains(&key))
}

/// The note about split cells: how many there are, by which facts they are split, and how to pool them.
pub fn split_note(cells: &[Cell]) -> Option<String> {
    let (facts, wholes) = (split_by(cells), wholes(cells));
    let has_numbers = |key: &&&str| wholes.iter().any(|runs| made_with::has_numbers(runs, key));
    let numbered: Vec<&str> = facts.iter().filter(has_numbers).map(|key| fact_name(key)).collect();
    let numbers = match numbered.as_slice() {
        [] => String::new(),
        names => format!(
            "; 1st, 2nd and so on number the versions of {} in the order of their first use",
            names.join(" and of ")
        ),
    };
    (!facts.is_empty()).then(|| {
        format!(
            "repeats of {} were made in different environments: each row holds those made in the same one; `--pool {}` joins them{numbers}",
            counted(wholes.len(), "cell"),
            facts.join(",")
        )
    })
}

/// Finished runs, which enter tables.
fn finished<'a>(cells: &'a [Cell]) -> Vec<&'a RunSummary> {
    cells.iter().flat_map(|cell| cell.runs.iter().copied()).filter(|run| run.state == RunState::Finished).collect()
}

fn shown(value: Option<&String>) -> &str {
    value.map_or("not known", String::as_str)
}

/// The first few values of a fact, joined, and how many there are if that is not all.
fn first_of(values: &[String], joint: &str) -> String {
    match values.get(..VALUES) {
        Some(first) if values.len() > VALUES => format!("{}, … ({} values)", first.join(joint), values.len()),
        _ => values.join(joint),
    }
}

/// Sentences on facts that differ between the finished runs of cells, apart from those with the keys `besides`, and on runs without a
/// recorded environment among others with one.
pub fn environment_notes(cells: &[Cell], besides: &[&str]) -> Vec<String> {
    let runs = finished(cells);
    let recorded = runs.iter().enumerate().filter_map(|(place, run)| Some((place, run.environment.as_ref()?)));
    let mut notes: Vec<String> = differing(recorded.clone())
        .iter()
        .filter(|fact| !besides.contains(&fact.key.as_str()))
        .map(|fact| {
            let value = |(value, places): (&Option<String>, &Vec<usize>)| {
                let mut ids: Vec<&str> = places.iter().map(|place| &*runs[*place].cell).collect();
                ids.sort_unstable();
                ids.dedup();
                let of_cells = match ids.as_slice() {
                    _ if cells.len() == 1 => String::new(),
                    [id] => format!(" (cell {id})"),
                    ids => format!(" ({} cells)", ids.len()),
                };
                format!("{} in {}{of_cells}", shown(value.as_ref()), counted(places.len(), "run"))
            };
            let values: Vec<String> = fact.values.iter().map(value).collect();
            format!("environment: {} differs: {}", fact.name, first_of(&values, ", "))
        })
        .collect();
    let recorded = recorded.count();
    if recorded > 0 && recorded < runs.len() {
        notes.push(format!("environment: not recorded of {}", counted(runs.len() - recorded, "run")));
    }
    notes
}

/// Sentences on differences between the environments of two sessions' finished runs.
pub fn environments_between(before: &[Cell], after: &[Cell]) -> Vec<String> {
    let (before, after) = (finished(before), finished(after));
    let count = |runs: &[&RunSummary]| runs.iter().filter(|run| run.environment.is_some()).count();
    let mut notes = Vec::new();
    for (which, runs) in [("before", &before), ("after", &after)] {
        match (count(runs), runs.len()) {
            (0, _) => notes.push(format!("environment {which}: not recorded")),
            (known, all) if known < all => {
                notes.push(format!("environment {which}: not recorded of {}", counted(all - known, "run")));
            }
            _ => {}
        }
    }
    if count(&before) == 0 || count(&after) == 0 {
        return notes;
    }
    let border = before.len();
    let all = before.iter().chain(&after).enumerate();
    let recorded = all.filter_map(|(place, run)| Some((place, run.environment.as_ref()?)));
    notes.extend(differing(recorded).iter().map(|fact| {
        let side = |is_after: bool| {
            let on_side = |places: &&Vec<usize>| places.iter().any(|place| (*place >= border) == is_after);
            let values = fact.values.iter().filter(|(_, places)| on_side(places));
            first_of(&values.map(|(value, _)| shown(value.as_ref()).to_owned()).collect::<Vec<_>>(), " and ")
        };
        format!("environment: {} differs: {} before, {} after", fact.name, side(false), side(true))
    }));
    notes
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::{Source, cells, cells_pooling, fixture, summarise_run};

    fn runs(drivers: &[(&str, Option<&str>)]) -> Vec<RunSummary> {
        let run = |(place, (precision, driver)): (u32, &(&str, Option<&str>))| {
            let mut record = fixture::run(&fixture::cell(precision, 1, "single"), place, 1.0);
            record.environment = driver.map(|driver| {
                let mut environment = Environment::default();
                environment.set("kernel", Some("6.1"));
                environment.set("driver", Some(driver));
                Arc::new(environment)
            });
            summarise_run(&record)
        };
        (1..).zip(drivers).map(run).collect()
    }

    #[test]
    fn what_differs_between_runs_is_said_with_the_cells() {
        let same = runs(&[("fp32", Some("570")), ("fp16", Some("570"))]);
        assert!(environment_notes(&cells(&same), &[]).is_empty());
        let other = runs(&[("fp32", Some("570")), ("fp32", Some("570")), ("fp16", Some("580")), ("fp16", None)]);
        let expected = [
            "environment: NVIDIA driver differs: 570 in 2 runs (cell fp32-1-single), 580 in 1 run (cell fp16-1-single)",
            "environment: not recorded of 1 run",
        ];
        assert_eq!(environment_notes(&cells(&other), &[]), expected);
        // Old sessions record no environment. The view of environments says so; a note under every table would not help.
        assert!(environment_notes(&cells(&runs(&[("fp32", None)])), &[]).is_empty());
    }

    #[test]
    fn a_note_on_a_fact_with_many_values_shows_the_first_few_and_their_number() {
        let drivers: Vec<String> = (0..45).map(|number| format!("{}", 500 + number)).collect();
        let many: Vec<(&str, Option<&str>)> = drivers.iter().map(|driver| ("fp32", Some(driver.as_str()))).collect();
        let runs = runs(&many);
        let cells = cells_pooling(&[Source { session: "", runs: &runs, reports: &[] }], &["driver".into()]);
        let notes = environment_notes(&cells, &[]);
        let expected =
            "environment: NVIDIA driver differs: 500 in 1 run, 501 in 1 run, 502 in 1 run, … (45 values)".to_owned();
        assert_eq!(notes, [expected]);
        assert!(environment_notes(&cells, &["driver"]).is_empty(), "a fact that the table is about is left out");
    }

    #[test]
    fn two_sessions_say_what_changed_between_them() {
        let (old, new) = (runs(&[("fp32", Some("570"))]), runs(&[("fp32", Some("580")), ("fp32", Some("570"))]));
        let texts = environments_between(&cells(&old), &cells(&new));
        assert_eq!(texts, ["environment: NVIDIA driver differs: 570 before, 570 and 580 after"]);
        let unknown = runs(&[("fp32", None)]);
        assert_eq!(environments_between(&cells(&unknown), &cells(&new)), ["environment before: not recorded"]);
        assert!(environments_between(&cells(&old), &cells(&old)).is_empty());
    }
}
