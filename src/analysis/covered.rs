//! How many steps each line of a program stands for, because many programs log only some of their steps.

use crate::store::{RankRecord, StepRecord};

/// The number of steps that each logged step stands for: those since the one that was logged before it.
pub(super) fn covered(steps: &[StepRecord]) -> impl Iterator<Item = u64> {
    steps.iter().scan(made_before(steps), |before, step| {
        let since = step.step.saturating_sub(std::mem::replace(before, step.step));
        Some(since.max(1))
    })
}

/// A first line with a number above this many usual distances between lines is that of a program which continues from a checkpoint. Lines of
/// a program may come at uneven distances: at every hundredth step and at the end of each epoch.
const CONTINUED: u64 = 2;

/// The number of steps that a program had made before it began to log: 0, unless it continues from a checkpoint. Such a program is assumed
/// to have made as many steps before its first line as between its first and its second line.
fn made_before(steps: &[StepRecord]) -> u64 {
    let [first, second, ..] = steps else { return 0 };
    let between = second.step.saturating_sub(first.step);
    let is_explained = |distance: u64| first.step <= distance.saturating_mul(CONTINUED);
    if is_explained(between) {
        return 0;
    }
    let distance = |pair: &[StepRecord]| pair[1].step.saturating_sub(pair[0].step);
    let mut distances: Vec<u64> = steps.windows(2).map(distance).filter(|distance| *distance > 0).collect();
    let middle = distances.len() / 2;
    let usual = if distances.is_empty() { 0 } else { *distances.select_nth_unstable(middle).1 };
    if is_explained(usual) { 0 } else { first.step.saturating_sub(between) }
}

/// The logged steps of a rank, each with the number of steps that it stands for. Means, sums and rates over steps weigh it by this number.
pub(super) fn weighed(rank: &RankRecord) -> impl Iterator<Item = (&StepRecord, u64)> {
    rank.steps.iter().zip(covered(&rank.steps))
}

/// The logged steps of a rank whose times count, each with the number of steps that it stands for.
pub(super) fn counted(rank: &RankRecord) -> impl Iterator<Item = (&StepRecord, u64)> {
    weighed(rank).filter(|(step, _)| step.counts())
}

/// The mean of values of logged steps, each weighted by the number of steps that it stands for; `None` without values.
pub(super) fn weighted_mean(values: impl Iterator<Item = (f64, u64)>) -> Option<f64> {
    let (sum, steps) = values
        .fold((0.0, 0.0), |(sum, steps), (value, covered)| (sum + value * covered as f64, steps + covered as f64));
    (steps > 0.0).then(|| sum / steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixture;

    /// What lines with these step numbers stand for.
    fn of_lines(numbers: &[u64]) -> Vec<u64> {
        let steps = fixture::finished().ranks.into_iter().flat_map(|rank| rank.steps);
        let steps: Vec<StepRecord> =
            steps.zip(numbers).map(|(step, number)| StepRecord { step: *number, ..step }).collect();
        covered(&steps).collect()
    }

    #[test]
    fn a_line_stands_for_the_steps_since_the_line_before_and_none_before_a_program_continued() {
        assert_eq!(of_lines(&[1, 2, 3, 10, 20]), [1, 1, 1, 7, 10]);
        assert_eq!(of_lines(&[10, 20, 30]), [10, 10, 10]);
        assert_eq!(of_lines(&[1, 10, 20]), [1, 9, 10]);
        assert_eq!(of_lines(&[991, 992, 993]), [1, 1, 1], "it continued from step 990");
        assert_eq!(of_lines(&[1000, 1010, 1600, 1610]), [10, 10, 590, 10], "it continued from step 990");
        let uneven = "at every hundredth step, and at the end of each epoch of 130 steps";
        assert_eq!(of_lines(&[100, 130, 200, 260, 300]), [100, 30, 70, 60, 40], "{uneven}");
        assert_eq!(of_lines(&[4, 5, 8, 10, 12]), [4, 1, 3, 2, 2]);
        assert_eq!(of_lines(&[20]), [20]);
        assert_eq!(of_lines(&[]), [0; 0]);
    }

    #[test]
    fn values_weigh_as_many_steps_as_they_stand_for() {
        let mean = |values: &[(f64, u64)]| weighted_mean(values.iter().copied());
        assert_eq!(mean(&[(0.5, 1), (0.25, 3)]), Some(0.3125));
        assert_eq!(mean(&[(0.5, 10), (0.25, 10)]), Some(0.375));
        assert_eq!(mean(&[]), None);
    }
}
