//! Sessions that have runs in common: one session is then a copy of the other, and its runs are not additional observations.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Display;

use super::limit::{BYTES_SHARE, FLOP_SHARE};
use super::resolution::resolution;
use super::{Measures, RunSummary};
use crate::plan::Key;
use crate::protocol::IMPORTED_FROM;

/// If at least this number of runs of an imported session agree with runs of another session, this cannot be chance.
const LEAST_RUNS: usize = 3;

/// The greatest chance with which a run of another session may have a run's values, if the values are to show that both are one run.
const CHANCE: f64 = 0.02;

/// The name of a session, and its runs.
pub type Named<'a> = (&'a dyn Display, &'a [RunSummary]);

/// Why two sessions, each given with its name, cannot both be counted; `None` if each has runs of its own.
pub fn refused_copy(one: Named<'_>, other: Named<'_>) -> Option<String> {
    let mut to_do = "give only one of the two".to_owned();
    let found = match shared_run(one.1, other.1) {
        Some(run) => {
            format!("both contain the run {run}: one is a copy of the other, or both are copies of a third session")
        }
        None => {
            let Some(left_out) = one_import(one.1, other.1) else {
                let count = runs_in_both(one.1, other.1)?;
                return Some(format!(
                    "{} and {} were imported with {count} runs that have exactly the same values in both: one file contains rows of the \
                     other. The same runs are no further observations: {to_do}, or import only the rows that are new",
                    one.0, other.0
                ));
            };
            let keys: Vec<&str> = left_out.iter().map(|key| &***key).collect();
            let measures = if keys.is_empty() {
                String::new()
            } else {
                to_do += ", or import the file once with all columns";
                format!(" of the measures that both have (one import left out {})", keys.join(", "))
            };
            format!(
                "were imported with exactly the same values{measures} in the same order: they are copies of one file"
            )
        }
    };
    Some(format!("{} and {} {found}. The same runs are no further observations: {to_do}", one.0, other.0))
}

/// If two sessions were imported from copies of one file, whatever the copies are called: the measures that only one of the imports took
/// from it. Run by run, all facts agree, and all values of the measures that both have. A few values, or values that are all the same, may
/// agree by chance.
fn one_import<'r>(one: &'r [RunSummary], other: &'r [RunSummary]) -> Option<BTreeSet<&'r Key>> {
    let [one, other] =
        [one, other].map(|runs| -> Vec<&'r RunSummary> { runs.iter().filter(|run| !run.values.is_empty()).collect() });
    if one.len() < LEAST_RUNS || one.len() != other.len() || !one.iter().zip(&other).all(|(a, b)| is_same_import(a, b))
    {
        return None;
    }
    let [own, others] = [&one, &other]
        .map(|runs| -> BTreeSet<&'r Key> { runs.iter().flat_map(|&run| recorded(run).into_keys()).collect() });
    let values = |run: &'r RunSummary| -> BTreeMap<&'r Key, u64> {
        recorded(run).into_iter().filter(|(key, _)| own.contains(key) && others.contains(key)).collect()
    };
    let agree = one.iter().zip(&other).all(|(&one, &other)| values(one) == values(other))
        && one.windows(2).any(|runs| values(runs[0]) != values(runs[1]));
    agree.then(|| own.symmetric_difference(&others).copied().collect())
}

/// Whether two records of imported runs may be of one run: they differ at most in the name of the file and in values.
fn is_same_import(one: &RunSummary, other: &RunSummary) -> bool {
    let start = |run: &RunSummary| run.started_s.map(f64::to_bits);
    one.is_imported()
        && other.is_imported()
        && (one.identity, one.repeat, start(one)) == (other.identity, other.repeat, start(other))
        && facts(one) == facts(other)
}

/// The facts of a run, without the name of its file.
fn facts(run: &RunSummary) -> BTreeMap<String, String> {
    let all = run.environment.iter().flat_map(|environment| environment.facts());
    all.filter(|fact| fact.0 != IMPORTED_FROM).map(|fact| (fact.0.to_owned(), fact.2.to_owned())).collect()
}

/// The runs of a cell in each of two sessions.
type InBoth<'r> = [Vec<&'r RunSummary>; 2];

/// How many runs two imported sessions have in common, whatever their order and the names of their files: a file has grown since its first
/// import, or its rows were sorted. `None` if these are few, or at most half of the runs of each session.
fn runs_in_both(one: &[RunSummary], other: &[RunSummary]) -> Option<usize> {
    let mut cells: BTreeMap<_, InBoth<'_>> = BTreeMap::new();
    let mut counts: [usize; 2] = [0; 2];
    for (side, runs) in [one, other].into_iter().enumerate() {
        for run in runs.iter().filter(|run| run.is_imported() && !run.values.is_empty()) {
            cells.entry((run.identity, facts(run))).or_default()[side].push(run);
            counts[side] += 1;
        }
    }
    let shared: usize = cells.values().map(runs_of_cell_in_both).sum();
    (shared >= LEAST_RUNS && 2 * shared > counts[0].min(counts[1])).then_some(shared)
}

/// How many runs of a cell are in both sessions; 0 if their values may agree by chance.
fn runs_of_cell_in_both(runs: &InBoth<'_>) -> usize {
    let [own, others] = [&runs[0], &runs[1]].map(|runs| runs.iter().map(|run| recorded(run)).collect::<Vec<_>>());
    let all: BTreeSet<&Key> = own.iter().flat_map(|values| values.keys().copied()).collect();
    let keys: Vec<&Key> = all.into_iter().filter(|key| others.iter().any(|values| values.contains_key(*key))).collect();
    if runs[0].is_empty() || may_agree_by_chance(&keys, runs) {
        return 0;
    }
    // Values that were converted from another unit may differ in their last digits.
    let text = |bits: Option<&u64>| bits.map_or_else(String::new, |bits| format!("{:.11e}", f64::from_bits(*bits)));
    // Values that a session has several times may recur by chance.
    let once = |side: usize, all: &[BTreeMap<&Key, u64>]| {
        let mut counts: BTreeMap<(Option<u64>, Vec<String>), usize> = BTreeMap::new();
        for (run, values) in runs[side].iter().zip(all) {
            let texts = keys.iter().map(|key| text(values.get(*key))).collect();
            *counts.entry((run.started_s.map(f64::to_bits), texts)).or_default() += 1;
        }
        counts.into_iter().filter(|(_, count)| *count == 1).map(|(texts, _)| texts).collect::<BTreeSet<_>>()
    };
    once(0, &own).intersection(&once(1, &others)).count()
}

/// Whether a run of one session may have the values of a run of the other by chance, since the values lie on a coarse grid. Times and rates
/// decide, if there are some: a rate that was computed from a coarse time has many digits, but the time shows it.
fn may_agree_by_chance(keys: &[&Key], runs: &InBoth<'_>) -> bool {
    let all = || runs.iter().flatten();
    let is_of_speed = |key: &&Key| all().any(|run| run.measures.find(key).is_some_and(|measure| measure.on_speed));
    let has_speed = keys.iter().any(is_of_speed);
    let most_runs = runs[0].len().max(runs[1].len()) as f64;
    let chance = |key: &&Key| {
        let values: Vec<f64> = all().filter_map(|run| run.values.get(*key).copied()).collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let spread = values.iter().copied().fold(0.0, f64::max) - least;
        // Values that are all the same tell nothing, and the grid is known of values above 0 only.
        (least > 0.0 && spread > 0.0).then(|| resolution(&values).unwrap_or(0.0) * most_runs / spread)
    };
    let judged = keys.iter().filter(|key| !has_speed || is_of_speed(key));
    let chances: Vec<f64> = judged.filter_map(chance).collect();
    chances.is_empty() || chances.iter().any(|chance| *chance > CHANCE)
}

/// The id of a run that two sessions have in common.
///
/// A run that was measured is recognised by its id, the moment of its start and its values. A run that was imported often has only a day and
/// few values, which may agree by chance: imported sessions are copies if one has all runs of the other, from a file of the same name.
fn shared_run<'r>(one: &'r [RunSummary], other: &[RunSummary]) -> Option<&'r str> {
    let others: HashMap<&str, &RunSummary> = other.iter().map(|run| (run.run.as_str(), run)).collect();
    let is_shared = |run: &&RunSummary| others.get(run.run.as_str()).is_some_and(|other| is_same(run, other));
    let shared: Vec<&RunSummary> = one.iter().filter(is_shared).collect();
    let with_values = |runs: &[RunSummary]| runs.iter().filter(|run| !run.values.is_empty()).count();
    let measured = shared.iter().find(|run| !run.is_imported());
    let imported = shared.first().filter(|_| shared.len() >= with_values(one).min(with_values(other)));
    measured.or(imported).map(|run| run.run.as_str())
}

/// Whether two records with the same id are records of one run.
fn is_same(one: &RunSummary, other: &RunSummary) -> bool {
    let start = |run: &RunSummary| run.started_s.map(f64::to_bits);
    let is_of_one_moment = match (one.is_imported(), other.is_imported()) {
        (true, true) => one.environment == other.environment,
        // An archive may have left out facts of the environment.
        (false, false) => one.started_s.is_some(),
        _ => false,
    };
    if !is_of_one_moment || start(one) != start(other) || one.identity != other.identity {
        return false;
    }
    let values = recorded(one);
    !values.is_empty() && values == recorded(other)
}

/// The recorded values of a run. Measures that can change after the run are left out: user-defined measures, and shares of rates that may
/// be measured again.
fn recorded(run: &RunSummary) -> BTreeMap<&Key, u64> {
    let base = Measures::of_workload(&run.workload);
    let is_own = |key: &Key| base.find(key).is_none() && run.measures.find(key).is_some();
    let kept = run.values.iter().filter(|(key, _)| ![FLOP_SHARE, BYTES_SHARE].contains(&&***key) && !is_own(key));
    kept.map(|(key, value)| (key, value.to_bits())).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::analysis::{fixture, summarise_run};
    use crate::plan::OwnMeasure;
    use crate::protocol::Environment;
    use crate::store::RunRecord;

    fn session(started_s: f64, step_times_s: &[f64]) -> Vec<RunSummary> {
        let cell = fixture::cell("fp32", 2, "ddp-ds");
        let run = |(repeat, step_time_s): (u32, &f64)| {
            let run = fixture::run(&cell, repeat, *step_time_s);
            let started_time_s = Some(started_s + f64::from(repeat));
            summarise_run(&RunRecord { run: format!("r{repeat}"), started_time_s, ..run })
        };
        (1..).zip(step_times_s).map(run).collect()
    }

    fn imported(runs: Vec<RunSummary>, file: &str) -> Vec<RunSummary> {
        let mut environment = Environment::default();
        environment.set(IMPORTED_FROM, Some(file));
        let environment = Arc::new(environment);
        let import =
            |run: RunSummary| RunSummary { environment: Some(Arc::clone(&environment)), started_s: None, ..run };
        runs.into_iter().map(import).collect()
    }

    #[test]
    fn sessions_that_have_one_run_in_common_are_copies_and_others_are_not() {
        let whole = session(1000.0, &[0.1, 0.2, 0.3]);
        let part = session(1000.0, &[0.1]);
        let message = refused_copy((&"part", &part), (&"whole", &whole)).unwrap();
        assert!(message.starts_with("part and whole both contain the run r1: one is a copy"), "{message}");
        for other in [session(1000.5, &[0.1, 0.2, 0.3]), session(1000.0, &[0.11, 0.21, 0.31]), Vec::new()] {
            assert_eq!(refused_copy((&"other", &other), (&"whole", &whole)), None);
        }
    }

    #[test]
    fn a_copy_with_further_measures_of_ones_own_is_still_a_copy() {
        let whole = session(1000.0, &[0.1, 0.2]);
        let mut copy = whole.clone();
        copy.iter_mut().for_each(|run| run.set_own(&[OwnMeasure::new("twice", "2 * step_time_s")]));
        assert!(copy[0].value("twice").is_some());
        assert!(refused_copy((&"copy", &copy), (&"whole", &whole)).is_some());
    }

    #[test]
    fn imported_sessions_are_copies_only_if_all_runs_and_their_file_agree() {
        let imported_from = |times_s: &[f64], file: &str| imported(session(1000.0, times_s), file);
        let night = imported_from(&[0.1, 0.2], "night.csv");
        assert!(refused_copy((&"a", &night), (&"b", &imported_from(&[0.1, 0.2], "night.csv"))).is_some());
        assert_eq!(
            refused_copy((&"a", &night), (&"b", &imported_from(&[0.1, 0.25], "night.csv"))),
            None,
            "one agrees by chance"
        );
        assert_eq!(refused_copy((&"a", &night), (&"b", &imported_from(&[0.1, 0.2], "next.csv"))), None);
    }

    #[test]
    fn an_import_of_the_same_file_with_one_more_column_is_the_same_session() {
        let narrow = |times_s: &[f64]| imported(session(1000.0, times_s), "r.csv");
        let wide = |mut runs: Vec<RunSummary>| {
            for (run, bytes) in runs.iter_mut().zip([1e9, 2e9, 3e9]) {
                run.values.insert(Key::from("further_bytes"), bytes);
            }
            runs
        };
        let (first, second) = (narrow(&[0.1, 0.2, 0.3]), wide(narrow(&[0.1, 0.2, 0.3])));
        for (one, other) in [(&first, &second), (&second, &first)] {
            let message = refused_copy((&"first", one), (&"second", other)).unwrap();
            assert!(message.contains("the measures that both have (one import left out further_bytes)"), "{message}");
            assert!(message.ends_with("or import the file once with all columns"), "{message}");
        }
        assert_eq!(refused_copy((&"first", &first), (&"second", &wide(narrow(&[0.1, 0.2, 0.31])))), None);
        // With a coarse clock, what both have is all the same.
        let mut even = first;
        let values = even[0].values.clone();
        even.iter_mut().for_each(|run| run.values.clone_from(&values));
        assert_eq!(refused_copy((&"first", &even), (&"second", &wide(even.clone()))), None);
    }

    #[test]
    fn an_import_of_a_file_that_has_grown_or_was_sorted_has_the_runs_of_the_first_one() {
        let times_s = |from: u32, count: u32| -> Vec<f64> {
            (from..from + count).map(|place| 0.1 + 1e-6 * f64::from(place * 7_919 % 10_007)).collect()
        };
        let rows_of = |times_s: &[f64], file: &str| {
            let mut runs = imported(session(1000.0, times_s), file);
            for (run, time_s) in runs.iter_mut().zip(times_s) {
                run.values = BTreeMap::from([("step_time_s", *time_s), ("images_per_s", 64.0 / time_s)])
                    .into_iter()
                    .map(|(key, value)| (Key::from(key), value))
                    .collect();
            }
            runs
        };
        let first = rows_of(&times_s(1, 6), "night1.csv");
        let grown = rows_of(&times_s(1, 8), "night2.csv");
        let message = refused_copy((&"a1", &first), (&"a2", &grown)).unwrap();
        assert!(
            message.starts_with("a1 and a2 were imported with 6 runs that have exactly the same values in both"),
            "{message}"
        );
        assert!(message.ends_with("give only one of the two, or import only the rows that are new"), "{message}");
        let mut sorted = times_s(1, 6);
        sorted.reverse();
        assert!(refused_copy((&"a1", &first), (&"a2", &rows_of(&sorted, "sorted.csv"))).is_some());
        // Half of the runs may be those of a common base, and other nights have other values.
        assert_eq!(refused_copy((&"a1", &first), (&"a2", &rows_of(&times_s(4, 6), "half.csv"))), None);
        assert_eq!(refused_copy((&"a1", &first), (&"a2", &rows_of(&times_s(20, 8), "night2.csv"))), None);
        // Whole milliseconds recur by chance, and with them the rates that were computed from them.
        let coarse = [0.101, 0.102, 0.103, 0.104, 0.105];
        assert_eq!(refused_copy((&"a1", &rows_of(&coarse[..4], "a.csv")), (&"a2", &rows_of(&coarse, "b.csv"))), None);
    }

    #[test]
    fn one_file_that_was_imported_under_two_names_is_one_session() {
        let imported_from = |times_s: &[f64], file: &str| imported(session(1000.0, times_s), file);
        let first = imported_from(&[0.1, 0.2, 0.3], "r.csv");
        let mut second = imported_from(&[0.1, 0.2, 0.3], "r2.csv");
        let message = refused_copy((&"rx", &first), (&"rx2", &second)).unwrap();
        assert!(message.starts_with("rx and rx2 were imported with exactly the same values"), "{message}");
        let other = imported_from(&[0.1, 0.2, 0.31], "r2.csv");
        assert_eq!(refused_copy((&"rx", &first), (&"rx2", &other)), None);
        let measured = session(2000.0, &[0.1, 0.2, 0.3]);
        assert_eq!(refused_copy((&"rx", &first), (&"here", &measured)), None);
        let even = |file: &str| -> Vec<RunSummary> {
            let one = imported_from(&[0.1], file).remove(0);
            (1..=3).map(|repeat| RunSummary { run: format!("r{repeat}"), repeat, ..one.clone() }).collect()
        };
        assert_eq!(refused_copy((&"a", &even("a.csv")), (&"b", &even("b.csv"))), None, "a coarse clock");
        // The same numbers from another machine are further observations.
        for run in &mut second {
            let mut environment = Environment::default();
            environment.set(IMPORTED_FROM, Some("r2.csv"));
            environment.set("hostname", Some("elsewhere"));
            run.environment = Some(Arc::new(environment));
        }
        assert_eq!(refused_copy((&"rx", &first), (&"rx2", &second)), None);
    }
}
