//! How many repeats it takes to know the cells of a session well enough: before they are launched, and while they run.

use std::collections::BTreeMap;

use super::{INTERVAL_REPEATS, RunSummary, counted, repeats_for, spread, summarise, usual_spread};
use crate::plan::{Identity, Key, MAX_REPEATS, Plan, RunState};

/// The measure that repeats are made for.
pub const UNTIL_MEASURE: &str = "training_time_s";

/// How well repeats are known: half the width of the 95 % interval of their median, as a share of it. None of fewer than
/// [`INTERVAL_REPEATS`], which have no such interval.
pub fn relative_precision(repeats: &[f64]) -> Option<f64> {
    if repeats.len() < INTERVAL_REPEATS {
        return None;
    }
    let value = summarise(repeats)?;
    let ends = value.interval?;
    let half = (ends.high - value.median).max(value.median - ends.low) / value.median;
    half.is_finite().then_some(half)
}

/// How many repeats a cell with these should have next, so that it is known to ± `precision`; none once it is. At most twice as many
/// as there are: a spread of few repeats tells little.
pub fn next_repeats(repeats: &[f64], precision: f64) -> Option<u32> {
    if relative_precision(repeats).is_some_and(|found| found <= precision) {
        return None;
    }
    let made = repeats.len() as u32;
    let needed = spread(repeats).and_then(|spread| repeats_for(spread, precision)).unwrap_or(u32::MAX);
    let least = made + 1;
    Some(if made < INTERVAL_REPEATS as u32 { INTERVAL_REPEATS as u32 } else { needed.clamp(least, 2 * made) })
}

/// The training times of a cell's finished runs, of those that were alone.
pub fn repeats_of(runs: &[RunSummary], cell: &Identity) -> Vec<f64> {
    let of_cell = runs.iter().filter(|run| run.identity.as_ref() == Some(cell) && run.state == RunState::Finished);
    of_cell.filter_map(|run| run.value_alone(run.measures.find(UNTIL_MEASURE)?)).collect()
}

/// What the cells of a session tell of how far repeats spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpreadSeen {
    /// The usual spread of a cell's training times, as a share.
    pub spread: f64,
    /// Cells with two finished repeats or more, which it is seen in.
    pub cells: usize,
}

impl SpreadSeen {
    /// By the keys of workloads: one says nothing of how steady another is, and runs that shared their CPUs nothing of those that do not.
    /// None of a workload of which no cell has two finished repeats.
    pub fn by_workload(runs: &[RunSummary]) -> BTreeMap<Key, Self> {
        let mut workloads: BTreeMap<Key, BTreeMap<Identity, Vec<f64>>> = BTreeMap::new();
        for run in runs.iter().filter(|run| run.state == RunState::Finished && !run.was_contended()) {
            let time = run.measures.find(UNTIL_MEASURE).and_then(|measure| run.value_alone(measure));
            if let Some((cell, time)) = run.identity.zip(time) {
                workloads.entry(run.workload.key.clone()).or_default().entry(cell).or_default().push(time);
            }
        }
        let seen = |cells: BTreeMap<Identity, Vec<f64>>| {
            let spreads: Vec<f64> = cells.values().filter_map(|repeats| spread(repeats)).collect();
            Some(Self { spread: usual_spread(&spreads)?, cells: spreads.len() })
        };
        workloads.into_iter().filter_map(|(key, cells)| Some((key, seen(cells)?))).collect()
    }

    /// That of a plan's workloads; of several, the one that spreads most.
    pub fn of_plan(seen: &BTreeMap<Key, Self>, plan: &Plan) -> Option<Self> {
        let of_blocks = plan.blocks().filter_map(|block| seen.get(&block.spec.key).copied());
        of_blocks.max_by(|a, b| a.spread.total_cmp(&b.spread))
    }

    /// Repeats of a cell until its median is known to ± `precision`.
    pub fn repeats_for(&self, precision: f64) -> Option<u32> {
        repeats_for(self.spread, precision)
    }
}

/// `Training times to ±1 % take about 12 repeats, by the spread of 2.0 % seen in 4 cells`.
pub fn repeats_remark(seen: &SpreadSeen, precision: f64) -> String {
    let percent = |share: f64| (share * 1e4).round() / 1e2;
    let takes = match seen.repeats_for(precision) {
        Some(repeats) if repeats <= MAX_REPEATS => format!("take about {repeats} repeats"),
        _ => format!("take more than the {MAX_REPEATS} repeats that a plan may have"),
    };
    let cells = counted(seen.cells, "cell");
    format!(
        "Training times to ±{} % {takes}, by the spread of {} % seen in {cells}",
        percent(precision),
        percent(seen.spread)
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::analysis::{Mark, fixture, summarise_run};

    #[test]
    fn repeats_go_on_from_the_least_with_an_interval_until_it_is_narrow_enough() {
        assert_eq!(next_repeats(&[1.0], 0.01), Some(6));
        let even = [1.0, 1.001, 0.999, 1.002, 0.998, 1.0];
        assert_eq!(next_repeats(&even, 0.01), None);
        assert!(next_repeats(&even, 0.0001).unwrap() > 6);
        let uneven = [1.0, 1.5, 0.7, 1.2, 0.9, 1.1];
        assert_eq!(next_repeats(&uneven, 0.01), Some(12), "at most twice as many at a time");
        assert!(relative_precision(&uneven).unwrap() > 0.1 && relative_precision(&uneven[..5]).is_none());
    }

    #[test]
    fn the_spread_seen_tells_how_many_repeats_a_precision_takes() {
        let run = |repeat: u32, slower: f64| {
            summarise_run(&fixture::run(&fixture::cell("fp32", 1, "single"), repeat, 0.01 * slower))
        };
        let runs = [run(1, 1.0), run(2, 1.02), run(3, 0.98), run(4, 1.01)];
        let image = runs[0].workload.key.clone();
        let seen = SpreadSeen::by_workload(&runs)[&image];
        assert!(seen.cells == 1 && (0.01..0.03).contains(&seen.spread), "{seen:?}");
        assert!(seen.repeats_for(0.005) > seen.repeats_for(0.05));
        assert!(
            repeats_remark(&seen, 0.01).starts_with("Training times to ±1 % take about "),
            "{}",
            repeats_remark(&seen, 0.01)
        );
        assert!(SpreadSeen::by_workload(&runs[..1]).is_empty());
        let wild = SpreadSeen { spread: 3.0, cells: 1 };
        assert!(
            repeats_remark(&wild, 0.01).contains("more than the 1000 repeats that a plan may have"),
            "no advice that a plan refuses"
        );
        let plan = Plan::new("my", Arc::clone(&runs[0].workload));
        let all = [(image, seen), ("llm".into(), wild)].into();
        assert_eq!(SpreadSeen::of_plan(&all, &plan), Some(seen), "of its own workload");
        assert_eq!(SpreadSeen::of_plan(&[("llm".into(), wild)].into(), &plan), None);
        let mut runs = runs;
        let contended = Mark::Contended { others: 2.0, stolen: 0.0, busy: 2.0, cpus: 2 };
        runs[1..].iter_mut().for_each(|run| run.marks.push(contended.clone()));
        assert!(SpreadSeen::by_workload(&runs).is_empty());
        assert_eq!(repeats_of(&runs, runs[0].identity.as_ref().unwrap()).len(), 4);
    }
}
