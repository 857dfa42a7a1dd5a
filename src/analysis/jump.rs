//! Finds a jump within a session: from one run on, all runs are slower or faster, whatever their cell.

use std::collections::BTreeMap;

use super::{Cell, Measure, RunState, RunSummary};
use crate::statistics::student_t_above;

/// With fewer runs, a jump cannot be shown.
const LEAST_RUNS: usize = 6;
/// A smaller jump is not reported, even if it is certain.
const LEAST_CHANGE: f64 = 0.01;
/// Each side of a jump must have this number of runs, and this share of all runs.
const LEAST_SIDE: usize = 3;
const SIDE_SHARE: usize = 10;
/// The highest probability that a session without a jump appears to have one.
const CHANCE: f64 = 0.002;

/// A jump of a measure within a session, in the order in which its runs were started.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionJump {
    /// The number of runs behind it.
    pub runs: usize,
    /// The number of runs before the jump.
    pub before: usize,
    /// The id of the first run after the jump.
    pub first_after: String,
    /// The mean after the jump over the mean before it, minus 1.
    pub change: f64,
}

/// A run with its place in the order in which runs were started.
struct InOrder<'a> {
    run: &'a RunSummary,
    order: f64,
    cell: usize,
    /// The logarithm of its value, minus the mean of its cell.
    log: f64,
}

/// A least-squares fit of one slope, with a separate mean for each cell.
#[derive(Clone, Copy)]
struct Fit {
    slope: f64,
    /// The slope over its standard error.
    t: f64,
}

impl Fit {
    /// The fit from three sums: the squares of the explaining variable, its products with the logarithms, and the squares of the
    /// logarithms. The means of each cell were subtracted from both.
    fn of(xx: f64, xy: f64, yy: f64, freedom: f64) -> Option<Self> {
        let slope = xy / xx;
        let error = ((yy - slope * xy).max(0.0) / freedom / xx).sqrt();
        (xx > 1e-9 && slope.is_finite()).then(|| Self { slope, t: slope.abs() / error.max(f64::MIN_POSITIVE) })
    }
}

/// Finds the jump of a measure within a session: the split of its runs that explains most, with a separate mean for each cell. `None` for
/// few runs, if the jump is small or may be chance, and if a straight drift explains more. Cells with one run are left out.
///
/// Each split is tested by Student's t at [`CHANCE`] divided by the number of splits.
pub fn session_jump(cells: &[Cell], measure: &Measure) -> Option<SessionJump> {
    let runs = in_order(cells, measure);
    let n = runs.len();
    let mut sizes: BTreeMap<usize, f64> = BTreeMap::new();
    runs.iter().for_each(|run| *sizes.entry(run.cell).or_default() += 1.0);
    let freedom = n as f64 - sizes.len() as f64 - 1.0;
    if n < LEAST_RUNS || freedom < 1.0 {
        return None;
    }
    let yy: f64 = runs.iter().map(|run| run.log.powi(2)).sum();
    let side = LEAST_SIDE.max(n / SIDE_SHARE);
    let mut after: BTreeMap<usize, f64> = BTreeMap::new();
    let (mut xx, mut xy, mut splits) = (0.0, 0.0, 0);
    let mut best: Option<(Fit, usize)> = None;
    // The split moves from the end: in each round, one more run is after the jump.
    for place in (side..n).rev() {
        let run = &runs[place];
        let (size, after) = (sizes[&run.cell], after.entry(run.cell).or_default());
        let squares = |after: f64| after * (size - after) / size;
        xx += squares(*after + 1.0) - squares(*after);
        *after += 1.0;
        xy += run.log;
        if n - place < side {
            continue;
        }
        let Some(fit) = Fit::of(xx, xy, yy, freedom) else { continue };
        splits += 1;
        if best.is_none_or(|(best, _)| best.t < fit.t) {
            best = Some((fit, place));
        }
    }
    let (fit, before) = best?;
    let change = fit.slope.exp_m1();
    let is_certain = student_t_above(fit.t, freedom) < CHANCE / 2.0 / f64::from(splits);
    let drifts = drift(&runs, &sizes, yy, freedom).is_some_and(|drift| drift.t > fit.t);
    (is_certain && change.abs() >= LEAST_CHANGE && !drifts).then(|| SessionJump {
        runs: n,
        before,
        first_after: runs[before].run.run.clone(),
        change,
    })
}

/// The finished runs of cells with two or more, in the order of their starts.
fn in_order<'a>(cells: &[Cell<'a>], measure: &Measure) -> Vec<InOrder<'a>> {
    let mut runs = Vec::new();
    for (place, cell) in cells.iter().enumerate() {
        let finished = cell.runs.iter().copied().filter(|run| run.state == RunState::Finished);
        let log = |run: &'a RunSummary| {
            let log = run.value_alone(measure).filter(|value| *value > 0.0)?.ln();
            Some(InOrder { run, order: run.value("run_order")?, cell: place, log })
        };
        let mut of_cell: Vec<InOrder> = finished.filter_map(log).collect();
        let mean = of_cell.iter().map(|one| one.log).sum::<f64>() / of_cell.len() as f64;
        of_cell.iter_mut().for_each(|one| one.log -= mean);
        if of_cell.len() > 1 {
            runs.append(&mut of_cell);
        }
    }
    runs.sort_by(|a, b| a.order.total_cmp(&b.order));
    runs
}

/// The straight drift over the order of runs.
fn drift(runs: &[InOrder], sizes: &BTreeMap<usize, f64>, yy: f64, freedom: f64) -> Option<Fit> {
    let mut sums: BTreeMap<usize, f64> = BTreeMap::new();
    for (place, one) in runs.iter().enumerate() {
        *sums.entry(one.cell).or_default() += place as f64;
    }
    let (mut xx, mut xy) = (0.0, 0.0);
    for (place, one) in runs.iter().enumerate() {
        let x = place as f64 - sums[&one.cell] / sizes[&one.cell];
        (xx, xy) = (xx + x * x, xy + x * one.log);
    }
    Fit::of(xx, xy, yy, freedom)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::{cells, fixture, measure, session_drift, summarise_run};

    /// Runs of cells of different speed, repeat by repeat, with 1 % of noise; `change` says by how much longer the n-th takes.
    fn session(noise: &mut fixture::Noise, repeats: u32, change: impl Fn(u32) -> f64) -> Vec<RunSummary> {
        let names = ["fp64", "fp32", "fp16", "bf16"];
        let one = names.map(|name| summarise_run(&fixture::run(&fixture::cell(name, 1, "single"), 1, 1.0)));
        let runs = (0..4 * repeats).map(|place| {
            let cell = (place % 4) as usize;
            let order = f64::from(place + 1);
            let time_s = 0.01 * (cell + 1) as f64 * (1.0 + change(place)) * (0.01 * noise.normal()).exp();
            let mut run = RunSummary { run: format!("r{order}"), repeat: 1 + place / 4, ..one[cell].clone() };
            run.values.extend([("run_order".into(), order), ("step_time_s".into(), time_s)]);
            run
        });
        runs.collect()
    }

    fn jump(runs: &[RunSummary]) -> Option<SessionJump> {
        session_jump(&cells(runs), measure("step_time_s").unwrap())
    }

    /// The share in percent of sessions in which a jump is found.
    fn found(seed: u64, repeats: u32, sessions: u32, change: impl Fn(u32) -> f64) -> f64 {
        let mut noise = fixture::Noise::new(seed);
        let found = (0..sessions).filter(|_| jump(&session(&mut noise, repeats, &change)).is_some()).count();
        100.0 * found as f64 / f64::from(sessions)
    }

    #[test]
    fn a_jump_half_way_is_found_with_its_place_and_its_size() {
        let runs = session(&mut fixture::Noise::new(3), 3, |place| if place >= 6 { 0.08 } else { 0.0 });
        let jump = jump(&runs).unwrap();
        assert_eq!((jump.runs, jump.before, jump.first_after.as_str()), (12, 6, "r7"));
        assert!((jump.change - 0.08).abs() < 0.02, "{jump:?}");
        assert_eq!(
            session_drift(&cells(&runs), measure("step_time_s").unwrap()),
            None,
            "of so few runs no drift shows"
        );
    }

    #[test]
    fn jumps_of_twelve_runs_are_found_mostly_and_chance_makes_none() {
        // The shares that the method's documentation names.
        let jumps = |by: f64| move |place: u32| if place >= 6 { by } else { 0.0 };
        let (five, ten) = (found(4, 3, 300, jumps(0.05)), found(5, 3, 300, jumps(0.10)));
        assert!(five >= 75.0 && ten >= 99.0, "{five} {ten}");
        let chance = [2, 3, 6].map(|repeats| found(6, repeats, 2_000, |_| 0.0));
        assert!(chance.iter().all(|share| *share <= 0.4), "{chance:?}");
    }

    #[test]
    fn a_straight_drift_is_no_jump() {
        let share = found(7, 10, 100, |place| 0.05 * f64::from(place) / 40.0);
        assert!(share <= 5.0, "{share}");
    }

    #[test]
    fn few_runs_and_equal_ones_have_no_jump() {
        let mut noise = fixture::Noise::new(8);
        let runs = session(&mut noise, 2, |_| 0.0);
        assert_eq!(jump(&runs[..4]), None);
        assert_eq!(jump(&[]), None);
        let mut equal = runs;
        for run in &mut equal {
            run.values.insert("step_time_s".into(), 0.5);
        }
        assert_eq!(jump(&equal), None);
    }
}
