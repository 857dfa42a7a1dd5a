//! The history of cells over sessions: the order of sessions by their dates or commits, and the places where a measure's level changes.
//!
//! A session is one observation, however many repeats it has, because its conditions affect all of its repeats: see
//! [`super::SessionComparison`].

use std::collections::{HashMap, HashSet};

use super::circumstances::{fact, short};
use super::environment::machine_differs;
use super::{Cell, RunSummary, SessionComparison, Value, finished};
use crate::plan::{Identity, RunState};
use crate::protocol::{COMMIT_TIME, IMPORTED_FROM, fact_name};
use crate::statistics::{change_points, least_values, median};

/// The key of the commit of a user's program.
const PROGRAM_GIT: &str = "program_git";

/// The keys of the facts that distinguish the occasions of a history; these facts therefore differ in every history.
pub const OCCASION_FACTS: [&str; 3] = [PROGRAM_GIT, COMMIT_TIME, IMPORTED_FROM];

/// The probability that a history in which nothing changed shows a change in any of its tracks.
pub const CHANGE_ERROR: f64 = 0.05;

/// The order of sessions in a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryOrder {
    /// Sessions are ordered by the start of their first runs.
    Dates,
    /// Sessions are ordered by the dates of their commits, which git reported when the runs were made. If the date of any commit is
    /// unknown, they are ordered by the first runs of all commits.
    Commits,
}

/// The occasions of a history in order. An occasion is a session; if its runs were made in different environments, each
/// environment is an occasion of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Occasions {
    /// Their names: dates or commits, with more words where two dates or commits are equal.
    pub labels: Vec<String>,
    /// For each cell the index of its occasion.
    pub of_cells: Vec<usize>,
    /// Whether commits are in the order of their dates. Otherwise they are in the order of their first runs.
    pub has_commit_dates: bool,
}

/// The key of an occasion: the session, and the environment of its runs.
type Key = (String, String);
/// An occasion and its known facts.
type Occasion<'a> = (&'a Key, &'a Known);

/// The known facts about an occasion.
#[derive(Default)]
struct Known {
    started_s: Option<f64>,
    committed_s: Option<f64>,
    commit: Option<String>,
    date: Option<String>,
    minute: Option<String>,
}

impl Occasions {
    /// The occasions of these cells.
    pub fn of(cells: &[Cell], order: HistoryOrder) -> Self {
        let key = |cell: &Cell| -> Key { (cell.session.to_owned(), cell.made_with.to_string()) };
        let mut known: HashMap<Key, Known> = HashMap::new();
        for cell in cells {
            let facts = known.entry(key(cell)).or_default();
            let about = &cell.circumstances;
            if let Some(started_s) = about.started_s.filter(|own| facts.started_s.is_none_or(|first| *own < first)) {
                facts.started_s = Some(started_s);
                (facts.date, facts.minute) = (about.date(), about.minute());
            }
            facts.commit = facts.commit.take().or_else(|| about.commit.as_deref().map(str::to_owned));
            let committed = about.committed.as_deref().and_then(|text| text.parse::<jiff::Timestamp>().ok());
            facts.committed_s = facts.committed_s.or_else(|| Some(committed?.as_second() as f64));
        }
        let has_commit_dates = known.values().all(|facts| facts.commit.is_none() || facts.committed_s.is_some());
        let mut first_of_commit: HashMap<String, f64> = HashMap::new();
        for facts in known.values() {
            let at = facts.committed_s.filter(|_| has_commit_dates).or(facts.started_s).unwrap_or(f64::MAX);
            if let Some(commit) = &facts.commit {
                first_of_commit.entry(commit.clone()).and_modify(|first| *first = first.min(at)).or_insert(at);
            }
        }
        let mut sorted: Vec<Occasion> = known.iter().collect();
        let started = |facts: &Known| facts.started_s.unwrap_or(f64::MAX);
        let place = |facts: &Known| match order {
            HistoryOrder::Dates => started(facts),
            HistoryOrder::Commits => {
                facts.commit.as_ref().and_then(|commit| first_of_commit.get(commit)).copied().unwrap_or(f64::MAX)
            }
        };
        sorted.sort_by(|(key, facts), (other_key, other_facts)| {
            let by_place = place(facts).total_cmp(&place(other_facts));
            by_place.then(started(facts).total_cmp(&started(other_facts))).then_with(|| key.cmp(other_key))
        });
        let labels = labels(&sorted, order);
        let places: HashMap<&Key, usize> = sorted.iter().enumerate().map(|(place, (key, _))| (*key, place)).collect();
        let of_cells = cells.iter().map(|cell| places[&key(cell)]).collect();
        Self { labels, of_cells, has_commit_dates }
    }
}

/// The order of the history of a session's runs, if this history is the view to begin with: all finished runs were
/// imported, and some cell has results of enough sessions or commits to show a change. `None` if neither the
/// dates of all runs nor those of all commits are known, because then any order would mean nothing.
pub fn imported_history(runs: &[RunSummary]) -> Option<HistoryOrder> {
    let done = || runs.iter().filter(|run| run.state == RunState::Finished);
    let mut occasions: HashMap<Option<Identity>, HashSet<[Option<&str>; 2]>> = HashMap::new();
    for run in done() {
        let facts = [fact(run, IMPORTED_FROM), fact(run, PROGRAM_GIT)];
        occasions.entry(run.identity).or_default().insert(facts);
    }
    let most = occasions.values().map(HashSet::len).max()?;
    if most < least_values(CHANGE_ERROR) || !done().all(RunSummary::is_imported) {
        return None;
    }
    match () {
        () if done().all(|run| run.started_s.is_some()) => Some(HistoryOrder::Dates),
        () if done().all(|run| fact(run, COMMIT_TIME).is_some()) => Some(HistoryOrder::Commits),
        () => None,
    }
}

/// The names of occasions in order: the shortest ones that differ from each other.
fn labels(sorted: &[Occasion], order: HistoryOrder) -> Vec<String> {
    let session = |(key, _): &Occasion| match (key.0.as_str(), key.1.as_str()) {
        ("", "") => "this session".to_owned(),
        ("", made_with) => made_with.to_owned(),
        (session, _) => session.to_owned(),
    };
    type Name<'a> = &'a dyn Fn(&Occasion) -> Option<String>;
    let names: [Name; 2] = match order {
        HistoryOrder::Dates => [&|(_, facts)| facts.date.clone(), &|(_, facts)| facts.minute.clone()],
        HistoryOrder::Commits => [&|(_, facts)| facts.commit.clone(), &|(_, facts)| {
            Some(format!("{} {}", facts.commit.as_ref()?, facts.date.as_ref()?))
        }],
    };
    let is_clear = |labels: &Vec<String>| {
        let mut distinct = labels.clone();
        distinct.sort_unstable();
        distinct.dedup();
        distinct.len() == labels.len()
    };
    let named = |name: Name| {
        sorted.iter().map(|occasion| name(occasion).unwrap_or_else(|| session(occasion))).collect::<Vec<_>>()
    };
    let clear = names.into_iter().map(named).find(is_clear);
    clear.unwrap_or_else(|| {
        let with_session = |occasion: &Occasion| match names[1](occasion) {
            Some(name) => format!("{name} {}", session(occasion)),
            None => session(occasion),
        };
        sorted.iter().map(with_session).collect()
    })
}

/// A change of a measure's level in a track: a cell's observations in order.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelChange {
    /// The index of the first observation after the change.
    pub first_after: usize,
    /// The 95 % interval of that index, both ends included.
    pub place: (usize, usize),
    /// The level after the change, up to the next one, divided by the level before it, from the previous one on. The
    /// interval is Student's t between sessions, as in `multicard diff`. `None` if a value is not above 0.
    pub ratio: Option<Value>,
    /// The probability of such a change by chance.
    pub p: f64,
    /// The names of facts about machine and software that changed with it.
    pub with: Vec<String>,
}

/// The changes of a track, and the levels between them. `track` has the cells with their values, in order. `error` is
/// the probability that a track without a change shows one.
pub fn level_changes(track: &[(&Cell, f64)], error: f64) -> (Vec<LevelChange>, Vec<f64>) {
    let values: Vec<f64> = track.iter().map(|(_, value)| *value).collect();
    let points = change_points(&values, error);
    let ends: Vec<usize> =
        std::iter::once(0).chain(points.iter().map(|point| point.first_after)).chain([values.len()]).collect();
    let levels = ends.windows(2).map(|ends| median(&values[ends[0]..ends[1]])).collect();
    let logs: Option<Vec<f64>> = values.iter().map(|value| (*value > 0.0).then(|| value.ln())).collect();
    let change = |(point, ends): (&crate::statistics::ChangePoint, &[usize])| LevelChange {
        first_after: point.first_after,
        place: point.place,
        ratio: logs.as_ref().and_then(|logs| {
            SessionComparison::of_means(&logs[ends[0]..ends[1]], &logs[ends[1]..ends[2]], false).value()
        }),
        p: point.p,
        with: changed_with(track[ends[1] - 1].0, track[ends[1]].0),
    };
    (points.iter().zip(ends.windows(3)).map(change).collect(), levels)
}

/// The names of facts in which the runs of two cells differ, without the file of an import and the time of a commit. The
/// commits themselves are named, since a change is sought between them.
fn changed_with(last: &Cell, first: &Cell) -> Vec<String> {
    let mut names = machine_differs(finished(last), finished(first));
    names.retain(|name| [IMPORTED_FROM, COMMIT_TIME].iter().all(|key| *name != fact_name(key)));
    let commit_of = |cell: &Cell| finished(cell).next().and_then(|run| fact(run, PROGRAM_GIT)).map(short);
    if let (Some(before), Some(after)) = (commit_of(last), commit_of(first)) {
        let commits = names.iter_mut().filter(|name| **name == fact_name(PROGRAM_GIT));
        commits.for_each(|name| *name = format!("{name} ({before} to {after})"));
    }
    names
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::analysis::fixture::Noise;
    use crate::analysis::{Environment, RunSummary, Source, by_repeat, cells_of, fixture, summarise_run};
    use crate::statistics::median;

    const DAY_S: f64 = 86_400.0;

    /// A session of one cell with three repeats on a day, with this commit.
    fn session(day: f64, step_time_s: f64, commit: (&str, Option<&str>)) -> Vec<RunSummary> {
        let mut environment = Environment::default();
        environment.set("hostname", Some("gpu1"));
        environment.set("program_git", Some(commit.0));
        environment.set(COMMIT_TIME, commit.1);
        let environment = Arc::new(environment);
        let run = |repeat: u32| {
            let mut record = fixture::run(&fixture::cell("fp32", 1, "single"), repeat, step_time_s);
            record.started_time_s = Some(DAY_S * day + f64::from(repeat));
            record.environment = Some(Arc::clone(&environment));
            summarise_run(&record)
        };
        (1..=3).map(run).collect()
    }

    #[test]
    fn sessions_are_in_the_order_of_their_dates_or_of_their_commits() {
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
        // The older commit was measured last.
        let all = [
            session(1.0, 0.1, ("bbbb", Some(late))),
            session(2.0, 0.1, ("aaaa", Some(early))),
            session(2.5, 0.1, ("bbbb", Some(late))),
        ];
        let sources: Vec<Source> = ["one", "two", "three"]
            .into_iter()
            .zip(&all)
            .map(|(session, runs)| Source { session, runs, reports: &[] })
            .collect();
        let cells = cells_of(&sources);
        let names = |order| {
            let occasions = Occasions::of(&cells, order);
            let mut named: Vec<(usize, &str)> =
                occasions.of_cells.iter().zip(&cells).map(|(place, cell)| (*place, cell.session)).collect();
            named.sort_unstable();
            (named.into_iter().map(|(_, name)| name).collect::<Vec<_>>(), occasions.labels)
        };
        let (order, labels) = names(HistoryOrder::Dates);
        assert_eq!(order, ["one", "two", "three"]);
        assert_eq!(labels, ["1970-01-02 00:00", "1970-01-03 00:00", "1970-01-03 12:00"], "two are of one day");
        let (order, labels) = names(HistoryOrder::Commits);
        assert_eq!(order, ["two", "one", "three"]);
        assert_eq!(labels, ["aaaa 1970-01-03", "bbbb 1970-01-02", "bbbb 1970-01-03"]);
    }

    #[test]
    fn commits_without_dates_are_in_the_order_of_their_first_runs() {
        let all =
            [session(3.0, 0.1, ("old", None)), session(1.0, 0.1, ("old", None)), session(2.0, 0.1, ("new", None))];
        let names = ["a", "b", "c"];
        let sources: Vec<Source> =
            names.into_iter().zip(&all).map(|(session, runs)| Source { session, runs, reports: &[] }).collect();
        let cells = cells_of(&sources);
        let occasions = Occasions::of(&cells, HistoryOrder::Commits);
        assert!(!occasions.has_commit_dates);
        assert_eq!(occasions.labels, ["old 1970-01-02", "old 1970-01-04", "new 1970-01-03"]);
    }

    #[test]
    fn imported_results_of_many_days_or_commits_begin_with_their_history_if_their_order_is_known() {
        let result = |number: u32, started: bool, committed: bool| {
            let mut environment = Environment::default();
            environment.set(IMPORTED_FROM, Some("nightly.csv (CSV)"));
            environment.set("program_git", Some(format!("c{number}")));
            environment.set(COMMIT_TIME, committed.then(|| format!("2026-01-{:02}T00:00:00Z", number + 1)));
            let mut record = fixture::run(&fixture::cell("fp32", 1, "single"), number + 1, 0.1);
            record.started_time_s = started.then_some(DAY_S * f64::from(number));
            record.environment = Some(Arc::new(environment));
            summarise_run(&record)
        };
        let order = |count: u32, started, committed| {
            let runs: Vec<RunSummary> = (0..count).map(|number| result(number, started, committed)).collect();
            imported_history(&runs)
        };
        assert_eq!(order(8, true, true), Some(HistoryOrder::Dates));
        assert_eq!(order(8, false, true), Some(HistoryOrder::Commits));
        assert_eq!(order(8, false, false), None, "nobody knows the order of the commits");
        assert_eq!(order(7, true, true), None, "a handful of commits can be told apart in bars");
        let of_day = |day: u32| session(f64::from(day), 0.1, (&format!("c{day}"), None));
        let measured: Vec<RunSummary> = (0..8).flat_map(of_day).collect();
        assert_eq!(imported_history(&measured), None, "these runs were made here");
    }

    #[test]
    fn a_change_has_its_place_its_size_and_what_changed_with_it() {
        let mut noise = Noise::new(5);
        let all: Vec<Vec<RunSummary>> = (0..14_u32)
            .map(|day| {
                let step_time_s = if day < 8 { 0.1 } else { 0.12 };
                let commit = if day < 8 { "aaaa" } else { "bbbb" };
                session(f64::from(day), step_time_s * (1.0 + 0.005 * noise.normal()), (commit, None))
            })
            .collect();
        let names: Vec<String> = (0..14).map(|day| format!("s{day:02}")).collect();
        let sources: Vec<Source> =
            names.iter().zip(&all).map(|(session, runs)| Source { session, runs, reports: &[] }).collect();
        let cells = cells_of(&sources);
        let value =
            |cell: &Cell| median(&by_repeat(cell, "step_time_s").iter().map(|(_, value)| *value).collect::<Vec<_>>());
        let track: Vec<(&Cell, f64)> = cells.iter().map(|cell| (cell, value(cell))).collect();
        let (changes, levels) = level_changes(&track, CHANGE_ERROR);
        let [change] = changes.as_slice() else { panic!("{changes:?}") };
        assert_eq!(change.first_after, 8);
        // One place further on, 1 of 7 orders would put the change there by chance.
        let (first, last) = change.place;
        assert!((6..=7).contains(&first) && (9..=10).contains(&last), "{:?}", change.place);
        let ratio = change.ratio.unwrap();
        let ends = ratio.interval.unwrap();
        assert!((ratio.median - 1.2).abs() < 0.01 && ends.low < 1.2 && ends.high > 1.2, "{ratio:?}");
        assert_eq!(change.with, ["Program's git commit (aaaa to bbbb)"]);
        assert!((levels[0] - 0.1).abs() < 0.001 && (levels[1] - 0.12).abs() < 0.001, "{levels:?}");
        assert!(change.p < 0.01);
    }
}
