//! How runs were made: their launches, the times of these, the order of runs, and the pauses. All of this comes from the starts in the
//! journal, not from plans.

use std::collections::{BTreeMap, BTreeSet};

use super::number::{counted, duration_text};
use super::paper::Origin;
use super::ratio::finished;
use crate::analysis::{Cell, RunSummary};
use crate::plan::{Order, Plan};

/// Up to this number of launches, each is described.
const MOST_TOLD: usize = 6;
/// A pause within a launch is reported if it lasts at least this number of seconds, and this multiple of the launch's longest run.
const PAUSE_S: f64 = 600.0;
const PAUSE_RUNS: f64 = 3.0;
/// The share of runs that may be out of order, because they failed and were repeated later.
const OUT_OF_PLACE: f64 = 0.2;

/// The finished runs of a launch in the order of their starts, each with the index of its cell.
struct Launch<'a> {
    session: &'a str,
    id: &'a str,
    runs: Vec<(&'a RunSummary, usize)>,
    first_s: f64,
    last_s: f64,
}

/// Sentences on the launches of the cells' finished runs.
pub(super) fn launches(cells: &[Cell], origins: &[Origin]) -> Vec<String> {
    let mut by_launch: BTreeMap<(&str, &str), Vec<(&RunSummary, usize)>> = BTreeMap::new();
    for (place, cell) in cells.iter().enumerate() {
        for run in finished(cell) {
            by_launch.entry((cell.session, &run.launch)).or_default().push((run, place));
        }
    }
    let launches: Option<Vec<Launch>> = by_launch.into_iter().map(|(launch, runs)| Launch::new(launch, runs)).collect();
    let Some(mut launches) = launches.filter(|launches| !launches.is_empty()) else {
        return vec!["The start times of some runs were not recorded, so the order of runs is not known".to_owned()];
    };
    launches.sort_by(|a, b| a.first_s.total_cmp(&b.first_s));
    let mut sentences = vec![match launches.as_slice() {
        [one] => {
            let order = one.order(origins).map_or(String::new(), |order| format!(", {order}"));
            format!("Runs were made in one launch, {}{order}", period(one.first_s, one.last_s))
        }
        many if many.len() <= MOST_TOLD => {
            let descriptions: Vec<String> = many.iter().map(|launch| launch.description(origins)).collect();
            format!("Runs were made in {} launches: {}", many.len(), descriptions.join("; "))
        }
        many => {
            let (first_s, last_s) = (many[0].first_s, many.iter().map(|one| one.last_s).fold(0.0, f64::max));
            format!("Runs were made in {} launches, {}", many.len(), period(first_s, last_s))
        }
    }];
    sentences.extend(gaps(&launches));
    sentences.extend(confounded(&launches));
    sentences
}

impl<'a> Launch<'a> {
    /// `None` if the start of a run is not known.
    fn new((session, id): (&'a str, &'a str), mut runs: Vec<(&'a RunSummary, usize)>) -> Option<Self> {
        if runs.iter().any(|(run, _)| run.started_s.is_none()) {
            return None;
        }
        runs.sort_by(|a, b| a.0.started_s.unwrap_or_default().total_cmp(&b.0.started_s.unwrap_or_default()));
        let first_s = runs.first()?.0.started_s?;
        let last_s = runs.iter().map(|(run, _)| ended_s(run)).fold(first_s, f64::max);
        Some(Self { session, id, runs, first_s, last_s })
    }

    fn name(&self) -> String {
        if self.session.is_empty() { self.id.to_owned() } else { format!("{} of {}", self.id, self.session) }
    }

    /// Its description: `p1, 2026-11-23 10:04 to 12:30 UTC (12 runs, interleaved: …)`.
    fn description(&self, origins: &[Origin]) -> String {
        let order = self.order(origins).map_or(String::new(), |order| format!(", {order}"));
        format!("{}, {} ({}{order})", self.name(), period(self.first_s, self.last_s), counted(self.runs.len(), "run"))
    }

    /// The order in which its runs were started; `None` if all belong to one cell.
    fn order(&self, origins: &[Origin]) -> Option<String> {
        let cells: BTreeSet<usize> = self.runs.iter().map(|(_, cell)| *cell).collect();
        let repeats: BTreeSet<u32> = self.runs.iter().map(|(run, _)| run.repeat).collect();
        if cells.len() < 2 {
            return None;
        }
        if self.runs.len() == cells.len() && repeats.len() == 1 {
            return Some("one run of each cell".to_owned());
        }
        let late = |place: usize, repeat: u32| self.runs[..place].iter().any(|(earlier, _)| earlier.repeat > repeat);
        let late = self.runs.iter().enumerate().filter(|(place, (run, _))| late(*place, run.repeat)).count();
        let changes = self.runs.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
        Some(if changes + 1 == cells.len() {
            "sequential: all repeats of a cell, then the next cell".to_owned()
        } else if late as f64 <= OUT_OF_PLACE * self.runs.len() as f64 {
            let shuffled = self.seed(origins).map_or(String::new(), |seed| format!(", shuffled (seed {seed})"));
            let but = match late {
                0 => String::new(),
                late => format!(", except for {} later", counted(late, "run")),
            };
            format!("interleaved: one repeat of all cells{shuffled}, then the next{but}")
        } else {
            "ordered neither by repeats nor by cells".to_owned()
        })
    }

    /// The seed by which its plan shuffles the cells of each repeat.
    fn seed(&self, origins: &[Origin]) -> Option<u64> {
        let is_its = |origin: &&Origin| self.session.is_empty() || origin.session == self.session;
        let text = origins.iter().find(is_its)?.plans.iter().find(|plan| plan.id == self.id)?;
        let plan = Plan::parse(&text.toml, &text.name).ok()?;
        (plan.order == Order::Interleaved).then_some(plan.seed)
    }
}

/// The time at which a run ended, if it is known.
fn ended_s(run: &RunSummary) -> f64 {
    run.started_s.unwrap_or_default() + run.value("total_time_s").unwrap_or_default()
}

/// The time between launches, and the pauses within them.
fn gaps(launches: &[Launch]) -> Vec<String> {
    let mut sentences = Vec::new();
    let between: Vec<String> = launches
        .windows(2)
        .filter(|_| launches.len() <= MOST_TOLD)
        .map(|pair| (&pair[0], &pair[1], pair[1].first_s - pair[0].last_s))
        .filter(|(.., gap_s)| *gap_s >= 1.0)
        .map(|(before, after, gap_s)| {
            format!("{} between {} and {}", duration_text(gap_s), before.name(), after.name())
        })
        .collect();
    if !between.is_empty() {
        sentences.push(format!("None of their runs was active for {}", between.join(", ")));
    }
    for launch in launches {
        let longest_s = launch.runs.iter().filter_map(|(run, _)| run.value("total_time_s")).fold(0.0, f64::max);
        let pause = |pair: &[(&RunSummary, usize)]| pair[1].0.started_s.unwrap_or_default() - ended_s(pair[0].0);
        let pauses = launch.runs.windows(2).map(pause).filter(|gap_s| *gap_s >= PAUSE_S.max(PAUSE_RUNS * longest_s));
        let pauses: Vec<f64> = pauses.collect();
        if let Some(longest_s) = pauses.iter().copied().max_by(f64::total_cmp) {
            let (count, longest) = (counted(pauses.len(), "pause"), duration_text(longest_s));
            sentences.push(format!("Launch {} had {count} of up to {longest} between runs", launch.name()));
        }
    }
    sentences
}

/// A sentence for the case that launches have runs of different cells.
fn confounded(launches: &[Launch]) -> Option<String> {
    let cells = |launch: &Launch| launch.runs.iter().map(|(_, cell)| *cell).collect::<BTreeSet<usize>>();
    let first = cells(launches.first()?);
    launches.iter().any(|launch| cells(launch) != first).then(|| {
        "Launches have runs of different cells: changes between launches cannot be distinguished from differences between these \
         cells"
            .to_owned()
    })
}

/// `2026-11-23 10:04 to 12:30 UTC`.
fn period(first_s: f64, last_s: f64) -> String {
    let at = |time_s: f64, form: &str| {
        let time = jiff::Timestamp::from_second(time_s as i64).ok();
        time.map_or_else(|| "an unknown time".to_owned(), |time| time.strftime(form).to_string())
    };
    let (day, minute) = ("%Y-%m-%d", "%Y-%m-%d %H:%M");
    let is_same_day = at(first_s, day) == at(last_s, day);
    format!("{} to {} UTC", at(first_s, minute), at(last_s, if is_same_day { "%H:%M" } else { minute }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::{cells_of, fixture, summarise_run};

    const DAY: f64 = 1_763_892_000.0;

    /// A run of a cell that a launch started so long after 10:00 UTC of a day.
    fn run(cell: &str, repeat: u32, launch: &str, after_s: f64) -> RunSummary {
        let summary = summarise_run(&fixture::run(&fixture::cell(cell, 1, "single"), repeat, 0.6));
        RunSummary { started_s: Some(DAY + after_s), launch: launch.to_owned(), ..summary }
    }

    fn sentences(runs: &[RunSummary]) -> String {
        launches(&cells_of(&[crate::analysis::Source { session: "", runs, reports: &[] }]), &[]).join(". ")
    }

    #[test]
    fn the_order_is_that_in_which_runs_were_started() {
        let by = |order: [(&str, u32); 6]| {
            let at = |(place, (cell, repeat)): (usize, (&str, u32))| run(cell, repeat, "p1", 60.0 * place as f64);
            sentences(&order.into_iter().enumerate().map(at).collect::<Vec<_>>())
        };
        let interleaved = by([("fp16", 1), ("fp32", 1), ("fp32", 2), ("fp16", 2), ("fp16", 3), ("fp32", 3)]);
        assert_eq!(
            interleaved,
            "Runs were made in one launch, 2025-11-23 10:00 to 10:06 UTC, interleaved: one repeat of all cells, then the next"
        );
        let sequential = by([("fp16", 1), ("fp16", 2), ("fp16", 3), ("fp32", 1), ("fp32", 2), ("fp32", 3)]);
        assert!(sequential.ends_with("sequential: all repeats of a cell, then the next cell"), "{sequential}");
        let made_again = by([("fp16", 1), ("fp32", 2), ("fp16", 2), ("fp16", 3), ("fp32", 3), ("fp32", 1)]);
        assert!(made_again.ends_with("then the next, except for 1 run later"), "{made_again}");
        let mixed = by([("fp16", 3), ("fp32", 1), ("fp16", 1), ("fp32", 3), ("fp16", 2), ("fp32", 2)]);
        assert!(mixed.ends_with("ordered neither by repeats nor by cells"), "{mixed}");
    }

    #[test]
    fn launches_their_gaps_and_cells_that_only_some_of_them_hold_are_told() {
        let day = 86_400.0;
        let runs = [
            run("fp16", 1, "p1", 0.0),
            run("fp16", 2, "p1", 60.0),
            run("fp16", 3, "p1", 7_200.0),
            run("fp32", 1, "p2", day),
            run("fp32", 2, "p2", day + 60.0),
        ];
        let text = sentences(&runs);
        for part in [
            "in 2 launches: p1, 2025-11-23 10:00 to 12:01 UTC (3 runs); p2, 2025-11-24 10:00 to 10:02 UTC (2 runs)",
            "Launch p1 had 1 pause of up to 1 h 58 min between runs",
            " between p1 and p2",
            "Launches have runs of different cells",
        ] {
            assert!(text.contains(part), "{part:?} is not in: {text}");
        }
        let both = [
            run("fp16", 1, "p1", 0.0),
            run("fp32", 1, "p1", 60.0),
            run("fp16", 2, "p2", day),
            run("fp32", 2, "p2", day),
        ];
        assert!(!sentences(&both).contains("different cells"), "{}", sentences(&both));
    }

    #[test]
    fn a_start_that_is_not_recorded_is_said_to_be_so() {
        let runs = [RunSummary { started_s: None, ..run("fp16", 1, "p1", 0.0) }];
        assert!(sentences(&runs).contains("not recorded"), "{}", sentences(&runs));
    }
}
