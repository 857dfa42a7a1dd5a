//! How many steps each line of a program stands for, because many programs log only some of their steps.

use crate::store::{RankRecord, StepRecord};

/// The number of steps that each logged step stands for: those since the one that was logged before it.
///
/// A program that continues from a checkpoint does not log its first step. Before its first line it is assumed to have made as many steps as
/// between its first and its second line.
pub(super) fn covered(steps: &[StepRecord]) -> impl Iterator<Item = u64> {
    let between = match steps {
        [first, second, ..] => second.step.saturating_sub(first.step),
        _ => u64::MAX,
    };
    let before = steps.first().map_or(0, |first| first.step.saturating_sub(between));
    steps.iter().scan(before, |before, step| {
        let since = step.step.saturating_sub(std::mem::replace(before, step.step));
        Some(since.max(1))
    })
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
