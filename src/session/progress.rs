//! Progress of the queue and its remaining time.

use std::collections::BTreeMap;

use crate::protocol::{Event, EventLine};

/// Progress of a running run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunProgress {
    /// Steps done.
    pub step: u64,
    /// Total steps.
    pub steps: u64,
    /// Current epoch.
    pub epoch: u32,
    /// Latest loss.
    pub loss: Option<f64>,
    started_time_s: f64,
    estimate_s: f64,
}

/// Progress of the queue.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Runs that ended since the session was opened.
    pub ended: usize,
    /// Runs queued since the session was opened.
    pub queued: usize,
    /// Active runs, by id.
    pub running: BTreeMap<String, RunProgress>,
    waiting_estimate_s: f64,
    ended_estimate_s: f64,
    ended_duration_s: f64,
    /// The number of waiting runs without an estimate, such as runs of programs, and the durations of ended runs without one.
    waiting_unknown: usize,
    ended_unknown: usize,
    ended_unknown_s: f64,
}

impl Progress {
    pub(super) fn queued(&mut self, estimate_s: f64) {
        self.queued += 1;
        self.waits(estimate_s, true);
    }

    /// A queued run was removed from the queue.
    pub(super) fn withdrawn(&mut self, estimate_s: f64) {
        self.queued = self.queued.saturating_sub(1);
        self.waits(estimate_s, false);
    }

    fn waits(&mut self, estimate_s: f64, more: bool) {
        if estimate_s <= 0.0 {
            self.waiting_unknown = if more { self.waiting_unknown + 1 } else { self.waiting_unknown.saturating_sub(1) };
        } else {
            let change_s = if more { estimate_s } else { -estimate_s };
            self.waiting_estimate_s = (self.waiting_estimate_s + change_s).max(0.0);
        }
    }

    pub(super) fn started(&mut self, run: &str, estimate_s: f64, now_s: f64) {
        self.waits(estimate_s, false);
        let progress = RunProgress { started_time_s: now_s, estimate_s, ..RunProgress::default() };
        self.running.insert(run.to_owned(), progress);
    }

    /// A run that waited at its site has started.
    pub(super) fn restarted(&mut self, run: &str, now_s: f64) {
        if let Some(progress) = self.running.get_mut(run) {
            progress.started_time_s = now_s;
        }
    }

    pub(super) fn event(&mut self, line: &EventLine, _now_s: f64) {
        let Some(progress) = self.running.get_mut(&line.run) else { return };
        // Ranks run in lockstep: rank 0 stands for all.
        if let (0, Event::Step { step, steps, epoch, loss, .. }) = (line.rank, &line.event) {
            (progress.step, progress.steps, progress.epoch) = (*step, *steps, *epoch);
            progress.loss = Some(*loss);
        }
    }

    pub(super) fn ended(&mut self, run: &str, now_s: f64) {
        self.ended += 1;
        let Some(progress) = self.running.remove(run) else { return };
        let took_s = now_s - progress.started_time_s;
        if progress.estimate_s > 0.0 {
            self.ended_estimate_s += progress.estimate_s;
            self.ended_duration_s += took_s;
        } else {
            self.ended_unknown += 1;
            self.ended_unknown_s += took_s;
        }
    }

    /// Time until the queue is empty, in seconds: the plan's estimate, corrected by the durations of the ended runs and the progress of the
    /// active ones. Runs without an estimate are expected to take as long as the earlier ones.
    pub fn remaining_s(&self, now_s: f64) -> f64 {
        let correction = if self.ended_estimate_s > 0.0 { self.ended_duration_s / self.ended_estimate_s } else { 1.0 };
        let usual_s = if self.ended_unknown > 0 { self.ended_unknown_s / self.ended_unknown as f64 } else { 0.0 };
        let expected_s = |run: &RunProgress| {
            if run.estimate_s > 0.0 { run.estimate_s * correction } else { usual_s }
        };
        let running: f64 = self.running.values().map(|run| run.remaining_s(expected_s(run), now_s)).sum();
        running + correction * self.waiting_estimate_s + usual_s * self.waiting_unknown as f64
    }
}

impl RunProgress {
    fn remaining_s(&self, expected_s: f64, now_s: f64) -> f64 {
        let elapsed_s = now_s - self.started_time_s;
        let by_estimate = (expected_s - elapsed_s).max(0.0);
        let share = self.step as f64 / self.steps.max(1) as f64;
        // After a few steps, the run's own pace is more accurate than any estimate.
        if share > 0.05 { elapsed_s * (1.0 - share) / share } else { by_estimate }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remaining_time_is_the_estimate_corrected_by_what_runs_took() {
        let mut progress = Progress::default();
        for _ in 0..4 {
            progress.queued(10.0);
        }
        assert_eq!(progress.remaining_s(0.0), 40.0);
        progress.started("a", 10.0, 0.0);
        progress.ended("a", 20.0);
        // Runs take twice as long as estimated; three are left.
        assert_eq!(progress.remaining_s(20.0), 60.0);
        assert_eq!(progress.ended, 1);
    }

    #[test]
    fn a_run_taken_out_of_the_queue_takes_its_time_along_and_brings_it_back() {
        let mut progress = Progress::default();
        progress.queued(10.0);
        progress.queued(30.0);
        progress.withdrawn(30.0);
        assert_eq!((progress.queued, progress.ended, progress.remaining_s(0.0)), (1, 0, 10.0));
        progress.queued(30.0);
        assert_eq!((progress.queued, progress.remaining_s(0.0)), (2, 40.0));
    }

    #[test]
    fn runs_without_an_estimate_are_expected_to_take_what_those_before_them_took() {
        let mut progress = Progress::default();
        (0..3).for_each(|_| progress.queued(0.0));
        assert_eq!(progress.remaining_s(0.0), 0.0, "nothing is known yet");
        progress.started("a", 0.0, 0.0);
        progress.ended("a", 40.0);
        assert_eq!(progress.remaining_s(40.0), 80.0);
        progress.started("b", 0.0, 40.0);
        assert_eq!(progress.remaining_s(50.0), 70.0);
    }

    #[test]
    fn remaining_time_of_a_running_run_follows_its_own_pace() {
        let mut progress = Progress::default();
        progress.queued(1000.0);
        progress.started("a", 1000.0, 0.0);
        let event = Event::Step {
            epoch: 1,
            step: 50,
            steps: 100,
            duration_s: 0.1,
            load_wait_s: 0.0,
            loss: 1.0,
            units: 8,
            warm_up: false,
        };
        progress.event(&EventLine { run: "a".into(), rank: 0, time_s: 5.0, event }, 5.0);
        assert_eq!(progress.remaining_s(5.0), 5.0);
    }
}
