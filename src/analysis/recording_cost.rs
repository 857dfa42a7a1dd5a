//! The cost of recording a part of a run's steps, measured within the run. Comparing whole runs with and without a tracer is less precise:
//! if the host is the bottleneck, runs differ by more than a tracer costs.

use crate::statistics::median;

/// The least number of steps of either kind.
const LEAST_STEPS: usize = 10;

/// By what share the recorded steps, from `first` to `last`, took longer than an equal number of steps before them, or as many as there
/// are: the ratio of the medians, minus 1. `steps` are steady ones with their durations, in order. `None` if there are fewer than ten of
/// either.
///
/// The first step of the window is left out, since its time includes waiting for the recorder. Steps after the window are left out as well,
/// because a recorder still has work to do after its end (steps under Nsight Systems stay slow for a while).
pub fn recording_cost(steps: &[(u64, f64)], first: u64, last: u64) -> Option<f64> {
    let durations_s = |is_counted: &dyn Fn(u64) -> bool| -> Vec<f64> {
        steps.iter().filter(|(step, _)| is_counted(*step)).map(|(_, duration_s)| *duration_s).collect()
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
