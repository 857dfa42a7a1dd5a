//! The number of repeats that are needed to know a session's cells precisely enough: estimated before the launch, and decided while they
//! run.

use std::collections::BTreeMap;

use super::{AlikeRuns, INTERVAL_REPEATS, RunSummary, alike_runs, counted, spread, summarise};
use crate::plan::{Key, MAX_REPEATS, Plan};
use crate::statistics::median;

/// The measure whose precision decides the number of repeats.
pub const UNTIL_MEASURE: &str = "training_time_s";

/// The standard error of the median of normal values over that of their mean: √(π / 2).
const MEDIAN_OVER_MEAN: f64 = 1.253_314_137_315_500_3;
/// The 97.5 % and the 80 % quantile of the standard normal distribution.
const NORMAL_975: f64 = 1.959_963_984_540_054;
const NORMAL_80: f64 = 0.841_621_233_572_914_3;
/// With n repeats, half the width of a median's interval is larger than its limit for many repeats by a factor 1 + x / n^¼, because the
/// ends are order statistics, which vary themselves. With the first x, half of all cells stay below this factor; with the second x, four of
/// five cells. Both are from simulations of normal repeats, for n from 6 to 1000.
const IN_HALF: f64 = 0.45;
const IN_FOUR_OF_FIVE: f64 = 1.2;
/// The most repeats that are considered.
const MOST_REPEATS: u32 = 10_000;

/// The number of repeats after which the 95 % interval of a cell's median is within ± `precision` (a share: 0.01 for 1 %) in four of five
/// cells whose repeats have this `spread` (see [`spread`]); at least [`INTERVAL_REPEATS`]. `None` if no reasonable number of repeats is
/// enough.
pub fn repeats_for(spread: f64, precision: f64) -> Option<u32> {
    repeats_reaching(spread, precision, IN_FOUR_OF_FIVE)
}

/// The number of repeats of [`repeats_for`], for a share of cells that `excess` determines: 1.96 · 1.2533 · spread / √n · (1 + excess /
/// n^¼) ≤ ln(1 + precision).
fn repeats_reaching(spread: f64, precision: f64, excess: f64) -> Option<u32> {
    let half = precision.ln_1p();
    if !(spread.is_finite() && spread >= 0.0 && half > 0.0) {
        return None;
    }
    let reaches = |n: u32| {
        let n = f64::from(n);
        NORMAL_975 * MEDIAN_OVER_MEAN * spread / n.sqrt() * (1.0 + excess / n.powf(0.25)) <= half
    };
    let least = INTERVAL_REPEATS as u32;
    if reaches(least) {
        return Some(least);
    }
    // More repeats never make it less precise.
    let (mut too_few, mut enough) = (least, MOST_REPEATS);
    if !reaches(enough) {
        return None;
    }
    while enough - too_few > 1 {
        let middle = too_few.midpoint(enough);
        if reaches(middle) { enough = middle } else { too_few = middle }
    }
    Some(enough)
}

/// The value that chi-square over its degrees of freedom exceeds with a given probability; the argument is the normal quantile of the
/// complement (E. B. Wilson and M. M. Hilferty, The distribution of chi-square, *PNAS* 17(12), 1931).
fn chi_square_share(normal_quantile: f64, freedom: f64) -> f64 {
    let ninth = 2.0 / (9.0 * freedom);
    (1.0 - ninth + normal_quantile * ninth.sqrt()).powi(3)
}

/// The precision of repeats: half the width of the 95 % interval of their median, as a share of the median. `None` for fewer than
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

/// The total number of repeats that a cell with these repeats should have next to be known to ± `precision`; `None` once it is. At most
/// twice the present number, because the spread of a few repeats is uncertain.
pub fn next_repeats(repeats: &[f64], precision: f64) -> Option<u32> {
    if relative_precision(repeats).is_some_and(|found| found <= precision) {
        return None;
    }
    let repeats_made = repeats.len() as u32;
    let needed = spread(repeats).and_then(|spread| repeats_reaching(spread, precision, IN_HALF)).unwrap_or(u32::MAX);
    let least = repeats_made + 1;
    Some(if repeats_made < INTERVAL_REPEATS as u32 {
        INTERVAL_REPEATS as u32
    } else {
        needed.clamp(least, 2 * repeats_made)
    })
}

/// The training times of a cell's runs that count, in seconds, without runs that shared the machine.
pub fn training_times(cell: &AlikeRuns) -> Vec<f64> {
    cell.runs.iter().copied().filter_map(training_time_s).collect()
}

fn training_time_s(run: &RunSummary) -> Option<f64> {
    run.value_alone(run.measures.find(UNTIL_MEASURE)?)
}

/// Whether a cell has finished runs and none of those that count has a training time, as for a program that reports no steps: more repeats
/// would have none either.
pub fn are_without_time(cell: &AlikeRuns) -> bool {
    !cell.runs.is_empty() && cell.runs.iter().all(|run| run.value(UNTIL_MEASURE).is_none())
}

/// The spread of repeats in a session's cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpreadSeen {
    /// The usual spread of a cell's training times, as a share: the median over cells, each corrected for the bias of few repeats.
    pub spread: f64,
    /// The number of cells behind it, which have two finished repeats or more.
    pub cells: usize,
    /// The number of their repeats beyond the first of each cell: if it is small, the true spread may be higher.
    pub freedom: usize,
}

impl SpreadSeen {
    /// The spread for each workload, by its key, because workloads differ in steadiness. Of each cell, the runs that count are used (see
    /// [`alike_runs`]), without those that shared their CPUs. A workload without a cell that has two such repeats is missing.
    pub fn by_workload(runs: &[RunSummary]) -> BTreeMap<Key, Self> {
        let mut workloads: BTreeMap<Key, Vec<Vec<f64>>> = BTreeMap::new();
        for cell in alike_runs(runs).values() {
            let Some(first) = cell.runs.first() else { continue };
            let alone = cell.runs.iter().copied().filter(|run| !run.was_contended());
            workloads.entry(first.workload.key.clone()).or_default().push(alone.filter_map(training_time_s).collect());
        }
        workloads.into_iter().filter_map(|(key, cells)| Some((key, Self::of_cells(cells.into_iter())?))).collect()
    }

    /// The spread from the repeats of cells.
    fn of_cells(cells: impl Iterator<Item = Vec<f64>>) -> Option<Self> {
        let (mut spreads, mut freedom) = (Vec::new(), 0);
        for repeats in cells {
            let Some(spread) = spread(&repeats) else { continue };
            // The estimate from two repeats is too low in more than half of cells.
            spreads.push(spread / chi_square_share(0.0, (repeats.len() - 1) as f64).sqrt());
            freedom += repeats.len() - 1;
        }
        (!spreads.is_empty()).then(|| Self { spread: median(&spreads), cells: spreads.len(), freedom })
    }

    /// The spread for a plan's workloads; for several, the largest one.
    pub fn of_plan(seen: &BTreeMap<Key, Self>, plan: &Plan) -> Option<Self> {
        let of_blocks = plan.blocks().filter_map(|block| seen.get(&block.spec.key).copied());
        of_blocks.max_by(|a, b| a.spread.total_cmp(&b.spread))
    }

    /// The number of repeats until the median is known to ± `precision` in four of five cells with this spread. The true spread is assumed
    /// to be so high that only one session in five exceeds it.
    pub fn repeats_for(&self, precision: f64) -> Option<u32> {
        let freedom = self.freedom.max(1) as f64;
        let higher = chi_square_share(0.0, freedom) / chi_square_share(-NORMAL_80, freedom);
        repeats_for(self.spread * higher.sqrt(), precision)
    }
}

/// `About 52 repeats give training times to ±1 % (with a chance of 4 in 5), judging by the spread of 2 % in the 4 cells measured so far`.
pub fn repeats_remark(seen: &SpreadSeen, precision: f64) -> String {
    let percent = |share: f64| (share * 1e4).round() / 1e2;
    let precision_text = percent(precision);
    let needed = match seen.repeats_for(precision) {
        Some(repeats) if repeats <= MAX_REPEATS => {
            format!("About {repeats} repeats give training times to ±{precision_text} % (with a chance of 4 in 5)")
        }
        _ => format!(
            "Training times to ±{precision_text} % need more than the {MAX_REPEATS} repeats that a plan may have"
        ),
    };
    let cells = if seen.cells == 1 { "cell".to_owned() } else { counted(seen.cells, "cell") };
    format!("{needed}, judging by the spread of {} % in the {cells} measured so far", percent(seen.spread))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::analysis::{Environment, Mark, RunState, fixture, summarise_run};

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
    fn as_many_repeats_as_are_said_reach_the_precision_in_four_of_five_cells() {
        assert_eq!(repeats_for(0.0, 0.01), Some(6));
        assert_eq!(repeats_for(10.0, 0.0001), None);
        assert_eq!((repeats_for(f64::NAN, 0.01), repeats_for(0.1, 0.0)), (None, None));
        let mut noise = fixture::Noise::new(5);
        let mut cell =
            |repeats: u32, spread: f64| -> Vec<f64> { (0..repeats).map(|_| (spread * noise.normal()).exp()).collect() };
        for spread in [0.004, 0.01, 0.02, 0.05] {
            let needed = repeats_for(spread, 0.01).unwrap();
            let reach = |_: &u32| relative_precision(&cell(needed, spread)).is_some_and(|found| found <= 0.01);
            let reached = (0..400).filter(reach).count();
            assert!((312..400).contains(&reached) || needed == 6, "{needed} repeats at {spread}: {reached} of 400");
        }
        // The spread is seen in four cells with two repeats, and in one cell with four.
        for (cells, repeats) in [(4, 2), (1, 4), (6, 3)] {
            let reach = |_: &u32| {
                let seen =
                    SpreadSeen::of_cells((0..cells).map(|_| cell(repeats, 0.02)).collect::<Vec<_>>().into_iter());
                let needed = seen.unwrap().repeats_for(0.01).unwrap().min(3_000);
                relative_precision(&cell(needed, 0.02)).unwrap() <= 0.01
            };
            let reached = (0..300).filter(reach).count();
            assert!(reached >= 240, "{cells} cells of {repeats} repeats: {reached} of 300");
        }
    }

    #[test]
    fn cells_to_which_repeats_are_added_until_they_are_known_are_known_as_well_as_is_said() {
        let mut noise = fixture::Noise::new(6);
        for spread in [0.008, 0.02] {
            let (mut within, mut held) = (0, 0);
            for _ in 0..600 {
                let mut repeats: Vec<f64> = Vec::new();
                let mut wanted = 6;
                while (repeats.len() as u32) < wanted {
                    repeats.push((spread * noise.normal()).exp());
                    if repeats.len() as u32 == wanted {
                        wanted = next_repeats(&repeats, 0.01).unwrap_or(wanted);
                    }
                }
                let off = (median(&repeats) - 1.0).abs();
                within += u32::from(off <= 0.01);
                held += u32::from(off <= relative_precision(&repeats).unwrap());
            }
            let percent = |count: u32| f64::from(count) / 6.0;
            assert!(
                percent(within) >= 95.0 && percent(held) >= 94.0,
                "{spread}: {} {}",
                percent(within),
                percent(held)
            );
        }
    }

    #[test]
    fn the_spread_seen_tells_how_many_repeats_a_precision_takes() {
        let run = |repeat: u32, slower: f64| {
            summarise_run(&fixture::run(&fixture::cell("fp32", 1, "single"), repeat, 0.01 * slower))
        };
        let runs = [run(1, 1.0), run(2, 1.02), run(3, 0.98), run(4, 1.01)];
        let image = runs[0].workload.key.clone();
        let seen = SpreadSeen::by_workload(&runs)[&image];
        assert!((seen.cells, seen.freedom) == (1, 3) && (0.01..0.03).contains(&seen.spread), "{seen:?}");
        assert!(seen.repeats_for(0.005) > seen.repeats_for(0.05));
        let remark = repeats_remark(&seen, 0.01);
        let is_whole = remark
            .contains(" repeats give training times to ±1 % (with a chance of 4 in 5), judging by the spread of ");
        assert!(is_whole && remark.ends_with(" % in the cell measured so far"), "{remark}");
        assert!(SpreadSeen::by_workload(&runs[..1]).is_empty());
        let wild = SpreadSeen { spread: 3.0, cells: 1, freedom: 1 };
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
        assert_eq!(alike_runs(&runs).values().map(|cell| training_times(cell).len()).collect::<Vec<_>>(), [4]);
    }

    #[test]
    fn finished_runs_are_without_a_training_time_if_none_of_them_has_one() {
        let run = |repeat: u32| summarise_run(&fixture::run(&fixture::cell("fp32", 1, "single"), repeat, 0.01));
        let mut runs = [run(1), run(2)];
        let are_without = |runs: &[RunSummary]| alike_runs(runs).values().any(are_without_time);
        assert!(!are_without(&runs));
        runs[0].values.remove(UNTIL_MEASURE);
        assert!(!are_without(&runs), "one has a time");
        runs[1].values.remove(UNTIL_MEASURE);
        assert!(are_without(&runs));
        runs[1].state = RunState::Failed;
        assert!(are_without(&runs));
        runs[0].state = RunState::Failed;
        assert!(!are_without(&runs), "more repeats may finish");
        assert!(!are_without_time(&AlikeRuns::default()));
    }

    #[test]
    fn the_spread_seen_is_that_of_the_program_as_it_is_now() {
        let run = |repeat: u32| {
            let mut record = fixture::run(&fixture::cell("fp32", 1, "single"), repeat, 0.01);
            record.started_time_s = Some(1_000.0 * f64::from(repeat));
            let mut environment = Environment::default();
            environment.set("program_files", Some(if repeat > 3 { "new" } else { "old" }));
            record.environment = Some(Arc::new(environment));
            summarise_run(&record)
        };
        let mut runs: Vec<RunSummary> = (1..=6).map(run).collect();
        runs[..3].iter_mut().for_each(|run| *run.values.get_mut(UNTIL_MEASURE).unwrap() *= 3.0);
        let seen = SpreadSeen::by_workload(&runs)[&runs[0].workload.key];
        assert!(seen.cells == 1 && seen.freedom == 2 && seen.spread < 0.01, "{seen:?}");
    }
}
