//! The time of training: steady steps extrapolated to all epochs of the plan. The start, the warm-up, the start of the loader in each epoch
//! and evaluation are not included.

use super::covered::{covered, weighed, weighted_mean};
use super::{Interval, batch_means, relative_half_width};
use crate::plan::RunState;
use crate::store::{RankRecord, RunRecord};

/// The reading for the number of steps of a rank in all epochs of its plan.
pub(super) const PLANNED_STEPS: &str = "planned_steps";

/// The key of the training time.
pub(super) const TRAINING_TIME: &str = "training_time_s";

/// The time of a run's training: the mean of its slowest rank's steady steps times `planned_steps`. The time of a step weighs as many steps
/// as passed since the step that was logged before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrainingTime {
    /// The time, in seconds.
    pub time_s: f64,
    /// Its 95 % interval, from the steps of only this run; `None` below 100 steps, and if steps weigh differently.
    pub interval: Option<Interval>,
    /// Half the width of the interval of the mean step, as a share of the mean, allowing for autocorrelation; `None` below 100 steps.
    pub step_precision: Option<f64>,
    /// Steps that were made. Those before the first step of a program that continues from a checkpoint do not count.
    pub steps: u64,
    /// The number of steady steps that it is based on.
    pub steady_steps: usize,
    /// The number of steps in all epochs of the plan.
    pub planned_steps: f64,
}

impl TrainingTime {
    /// `None` for a run that did not finish, has no steady steps, or has steps that are not finite.
    pub(super) fn of(record: &RunRecord, slowest: Option<&RankRecord>) -> Option<Self> {
        let rank = slowest.filter(|_| record.state == RunState::Finished)?;
        // The first step of an epoch includes the start of the loader, whose share would differ in a short run.
        let mut epoch = None;
        let (mut within, mut opening) = (Vec::new(), Vec::new());
        for (step, covered) in weighed(rank) {
            let opens = epoch.replace(step.epoch) != Some(step.epoch);
            match (step.counts(), opens) {
                (false, _) => {}
                (true, true) => opening.push((step.duration_s - step.load_wait_s.max(0.0), covered)),
                (true, false) => within.push((step.duration_s, covered)),
            }
        }
        let steady = if within.is_empty() { opening } else { within };
        let mean_s = weighted_mean(steady.iter().copied())?;
        let (steady, weights): (Vec<f64>, Vec<u64>) = steady.into_iter().unzip();
        let weigh_alike = weights.windows(2).all(|pair| pair[0] == pair[1]);
        let interval = batch_means(&steady)?.interval.filter(|_| weigh_alike);
        let steps: u64 = covered(&rank.steps).sum();
        let planned_steps = rank.last_reading(PLANNED_STEPS).unwrap_or(steps as f64);
        let in_all = |step_s: f64| planned_steps * step_s;
        Some(Self {
            time_s: in_all(mean_s),
            interval: interval.map(|ends| Interval { low: in_all(ends.low), high: in_all(ends.high) }),
            step_precision: relative_half_width(&steady),
            steps,
            steady_steps: steady.len(),
            planned_steps,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::{fixture, summarise_run};

    fn training(record: &RunRecord) -> Option<TrainingTime> {
        summarise_run(record).training
    }

    #[test]
    fn training_time_is_the_mean_steady_step_times_all_steps_and_leaves_trials_out() {
        // Two epochs of ten steps. The first four steps took ten times as long. The first step of the second epoch is left out.
        let mut record = fixture::run(&fixture::cell("fp32", 1, "single"), 1, 0.016);
        record.ranks[0].steps[10].duration_s = 3.0;
        let found = training(&record).unwrap();
        assert_eq!((found.steady_steps, found.planned_steps), (15, 20.0));
        assert!((found.time_s - 20.0 * 0.016).abs() < 1e-12, "{found:?}");
        assert_eq!(summarise_run(&record).value("training_time_s"), Some(found.time_s));
    }

    #[test]
    fn a_run_of_few_steps_is_extrapolated_to_those_that_its_rank_says_were_planned() {
        let mut record = fixture::run(&fixture::cell("fp32", 1, "single"), 1, 0.016);
        record.ranks[0].readings.push(fixture::reading_record(PLANNED_STEPS, 12_500.0, None));
        let found = training(&record).unwrap();
        assert!((found.time_s - 12_500.0 * 0.016).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn steps_weigh_as_many_as_passed_since_the_line_before() {
        // Steps 5 to 10 take 16 ms each. From then on, each tenth step is logged, and a step takes 2 ms.
        let record = fixture::logging_each_tenth(fixture::run(&fixture::cell("fp32", 1, "single"), 1, 0.016));
        let found = training(&record).unwrap();
        let mean_s = (6.0 * 0.016 + 100.0 * 0.002) / 106.0;
        assert!((found.time_s - 110.0 * mean_s).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn steps_before_the_first_line_of_a_program_that_continues_are_none_of_the_run() {
        let mut record = fixture::run(&fixture::cell("fp32", 1, "single"), 1, 0.016);
        record.ranks[0].steps.iter_mut().for_each(|step| step.step += 990);
        let found = training(&record).unwrap();
        assert_eq!((found.steps, found.planned_steps), (20, 20.0));
        assert!((found.time_s - 20.0 * 0.016).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn a_run_that_did_not_finish_or_has_no_steady_step_has_no_training_time() {
        let mut record = fixture::finished();
        record.state = RunState::Cancelled;
        assert_eq!(training(&record), None);
        let mut record = fixture::finished();
        record.ranks.iter_mut().flat_map(|rank| &mut rank.steps).for_each(|step| step.warm_up = true);
        assert_eq!(training(&record), None);
    }

    #[test]
    fn epochs_of_one_step_count_their_steps_without_the_wait_that_opens_them() {
        let mut record = fixture::run(&fixture::cell("fp32", 1, "single"), 1, 0.016);
        for step in &mut record.ranks[0].steps {
            step.epoch = step.step as u32;
        }
        let found = training(&record).unwrap();
        // Each step takes 12 ms after a wait of 4 ms.
        assert_eq!(found.steady_steps, 16);
        assert!((found.time_s - 20.0 * 0.012).abs() < 1e-9, "{found:?}");
    }
}
