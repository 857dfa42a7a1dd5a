//! The cost of recording a part of a run's steps, measured within the run. Comparing whole runs with and without a tracer is less precise:
//! if the host is the bottleneck, runs differ by more than a tracer costs.

use std::collections::BTreeMap;

use super::Interval;
use crate::plan::{Capture, WindowRole};
use crate::statistics::{linear, median, median_interval, median_of_sorted};

/// The least number of steps of either kind.
const LEAST_STEPS: usize = 10;
/// The least number of windows with steps on both sides.
const LEAST_PAIRS: usize = 10;

/// A steady step of a run that records some of its steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimedStep {
    /// Its epoch, from 1.
    pub epoch: u32,
    /// Its number in the run, from 1.
    pub step: u64,
    /// Its duration.
    pub duration_s: f64,
}

/// The cost of recording, measured within a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecordingCost {
    /// The share by which recorded steps took longer.
    pub cost: f64,
    /// The number of windows that were compared with the steps on both of their sides, and the 95 % interval of their
    /// median cost, from order statistics. `None` for a run with one window.
    pub pairs: Option<(usize, Interval)>,
}

/// The share by which recorded steps took longer than other steps. `steps` are the steady steps in order. `cut` are the
/// first steps of windows that an epoch's end cut short. `None` if there are too few steps, or if all are recorded.
///
/// With one window ([`Capture::Steps`]), the cost is the median of the recorded steps divided by the median of an equal
/// number of steps before them, or of all steps before them if there are fewer, minus 1. The first step of the window
/// is left out, since its time includes waiting for the recorder. Steps after the window are left out as well, because
/// a recorder still has work to do after its end (steps under Nsight Systems stay slow for a while).
///
/// With several windows ([`Capture::Windows`]), each window gives one cost: the median of its steps without the first, divided by the mean
/// of two medians, minus 1. These two are the median of the steps between the previous window and this window, and the median of the steps
/// between this window and the next one. Steps next to a window and the first step of each epoch are left out. The cost of the run is the
/// median over its windows; with fewer than ten, it has none.
pub fn recording_cost(steps: &[TimedStep], capture: Capture, cut: &[u64]) -> Option<RecordingCost> {
    match capture {
        Capture::Steps { first, last } => {
            of_one_window(steps, first, last).map(|cost| RecordingCost { cost, pairs: None })
        }
        Capture::Windows { recorded, period } => {
            let mut costs = pairs(steps, capture, cut, (recorded, period));
            costs.sort_by(f64::total_cmp);
            let interval = median_interval(&costs, linear).filter(|_| costs.len() >= LEAST_PAIRS)?;
            Some(RecordingCost { cost: median_of_sorted(&costs), pairs: Some((costs.len(), interval)) })
        }
        Capture::Whole | Capture::First { .. } => None,
    }
}

fn of_one_window(steps: &[TimedStep], first: u64, last: u64) -> Option<f64> {
    let durations_s = |is_counted: &dyn Fn(u64) -> bool| -> Vec<f64> {
        steps.iter().filter(|step| is_counted(step.step)).map(|step| step.duration_s).collect()
    };
    let within = durations_s(&|step| first < step && step <= last);
    let before = durations_s(&|step| step < first);
    let before = &before[before.len().saturating_sub(within.len())..];
    (within.len().min(before.len()) >= LEAST_STEPS).then(|| median(&within) / median(before) - 1.0)
}

/// The cost in each window that has steps on both sides.
fn pairs(steps: &[TimedStep], capture: Capture, cut: &[u64], (recorded, period): (u64, u64)) -> Vec<f64> {
    // For each period: the steps of the window at its end, and the steps before the window.
    let (mut within, mut between): (BTreeMap<u64, Vec<f64>>, BTreeMap<u64, Vec<f64>>) = Default::default();
    let mut epoch = None;
    for TimedStep { epoch: own, step, duration_s } in steps {
        if epoch.replace(*own) != Some(*own) {
            continue;
        }
        let number = (step - 1) / period;
        match capture.window(*step) {
            None => between.entry(number).or_default().push(*duration_s),
            Some((first, WindowRole::Within | WindowRole::Last)) if !cut.contains(&first) => {
                within.entry(number).or_default().push(*duration_s);
            }
            Some(_) => {}
        }
    }
    let is_whole =
        |number: u64, durations: &[f64]| durations.len() as u64 == recorded - 1 && between.contains_key(&number);
    let compare = |(number, durations): (&u64, &Vec<f64>)| {
        let sides = [between.get(number)?, between.get(&(number + 1))?].map(|side| median(side));
        let cost = median(durations) / ((sides[0] + sides[1]) / 2.0) - 1.0;
        (is_whole(*number, durations) && cost.is_finite()).then_some(cost)
    };
    within.iter().filter_map(compare).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn timed(steps: impl Iterator<Item = u64>, duration_s: impl Fn(u64) -> f64) -> Vec<TimedStep> {
        steps.map(|step| TimedStep { epoch: 1, step, duration_s: duration_s(step) }).collect()
    }

    #[test]
    fn what_recording_costs_is_told_by_the_steps_next_to_the_beginning_of_the_window() {
        // Steps far before the window, its first step and steps after it do not affect its cost.
        let duration_s = |step: u64| match step {
            ..=1 | 101 | 201.. => 9.0,
            102..=200 => 1.2,
            _ => 1.0,
        };
        let window = Capture::Steps { first: 101, last: 200 };
        let cost = |steps: std::ops::RangeInclusive<u64>| recording_cost(&timed(steps, duration_s), window, &[]);
        let found = cost(1..=300).unwrap();
        assert!((found.cost - 0.2).abs() < 1e-9 && found.pairs.is_none(), "{found:?}");
        assert!(cost(91..=111).is_some());
        for too_few in [92..=111, 91..=110, 101..=300, 21..=100] {
            assert_eq!(cost(too_few.clone()), None, "{too_few:?}");
        }
        assert_eq!(recording_cost(&timed(1..=300, duration_s), Capture::Whole, &[]), None);
    }

    const WINDOWS: Capture = Capture::Windows { recorded: 4, period: 20 };

    /// Steps of a machine that becomes slower all the time, 6 % more where they are recorded, and much more at the edges of windows.
    fn drifting(step: u64) -> f64 {
        let plain = 0.01 * (1.0 + 2e-4 * step as f64);
        match WINDOWS.window(step).map(|(_, role)| role) {
            None => plain,
            Some(WindowRole::Within | WindowRole::Last) => 1.06 * plain,
            Some(WindowRole::Edge | WindowRole::First) => 9.0,
        }
    }

    #[test]
    fn windows_are_compared_with_the_steps_on_both_of_their_sides_so_that_a_drift_is_no_cost() {
        let found = recording_cost(&timed(21..=260, drifting), WINDOWS, &[]).unwrap();
        let (pairs, interval) = found.pairs.unwrap();
        // The last of the twelve windows has no steps after it.
        assert_eq!(pairs, 11);
        assert!((found.cost - 0.06).abs() < 0.002, "{found:?}");
        assert!(interval.low <= found.cost && found.cost <= interval.high && interval.high < 0.063, "{interval:?}");
        assert_eq!(recording_cost(&timed(21..=220, drifting), WINDOWS, &[]), None, "nine pairs are too few");
    }

    #[test]
    fn windows_that_were_cut_and_steps_that_open_an_epoch_do_not_count() {
        let pairs = |steps: &[TimedStep], cut: &[u64]| {
            recording_cost(steps, WINDOWS, cut).and_then(|found| found.pairs).map(|(pairs, _)| pairs)
        };
        let mut steps = timed(1..=400, drifting);
        assert_eq!((pairs(&steps, &[]), pairs(&steps, &[57, 97])), (Some(19), Some(17)));
        // An epoch that begins within a window leaves it one step short; one that begins between windows only leaves out a step.
        steps.iter_mut().filter(|step| step.step >= 199).for_each(|step| step.epoch = 2);
        steps.iter_mut().filter(|step| step.step >= 305).for_each(|step| step.epoch = 3);
        assert_eq!(pairs(&steps, &[]), Some(18));
    }
}
