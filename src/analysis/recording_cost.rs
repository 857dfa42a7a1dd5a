//! What recording a part of a run's steps costs, by the run itself: whole runs, with a tracer and without, differ by more than a tracer
//! costs where the host binds.

use crate::statistics::median;

/// At least so many steps of either kind tell something.
const LEAST_STEPS: usize = 10;

/// How much longer the steps from `first` to `last`, which were recorded, took than as many before them, or what there is of those: the
/// ratio of the medians, less 1. `steps` are steady ones with their durations, in order. None where there are fewer than ten of either.
///
/// The first step of the window does not count: the wait for the recorder is in its time. Nor do those after the window: a recorder that
/// has ended has still work to do (steps under Nsight Systems stay as slow for a while).
pub fn recording_cost(steps: &[(u64, f64)], first: u64, last: u64) -> Option<f64> {
    let durations_s = |of: &dyn Fn(u64) -> bool| -> Vec<f64> {
        steps.iter().filter(|(step, _)| of(*step)).map(|(_, duration_s)| *duration_s).collect()
    };
    let within = durations_s(&|step| first < step && step <= last);
    let before = durations_s(&|step| step < first);
    let before = &before[before.len().saturating_sub(within.len())..];
    (within.len().min(before.len()) >= LEAST_STEPS).then(|| median(&within) / median(before) - 1.0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_recording_costs_is_told_by_the_steps_next_to_the_beginning_of_the_window() {
        // Steps far before it, its first one and those after it say nothing of it.
        let duration_s = |step: u64| match step {
            ..=1 | 101 | 201.. => 9.0,
            102..=200 => 1.2,
            _ => 1.0,
        };
        let cost = |steps: std::ops::RangeInclusive<u64>| {
            recording_cost(&steps.map(|step| (step, duration_s(step))).collect::<Vec<_>>(), 101, 200)
        };
        let found = cost(1..=300).unwrap();
        assert!((found - 0.2).abs() < 1e-9, "{found}");
        assert!(cost(91..=111).is_some());
        for too_few in [92..=111, 91..=110, 101..=300, 21..=100] {
            assert_eq!(cost(too_few.clone()), None, "{too_few:?}");
        }
    }
}
