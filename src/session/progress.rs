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
}

impl Progress {
    pub(super) fn queued(&mut self, estimate_s: f64) {
        self.queued += 1;
        self.waiting_estimate_s += estimate_s;
    }

    pub(super) fn started(&mut self, run: &str, estimate_s: f64, now_s: f64) {
        self.waiting_estimate_s = (self.waiting_estimate_s - estimate_s).max(0.0);
        let progress = RunProgress { started_time_s: now_s, estimate_s, ..RunProgress::default() };
        self.running.insert(run.to_owned(), progress);
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
        if let Some(progress) = self.running.remove(run) {
            self.ended_estimate_s += progress.estimate_s;
            self.ended_duration_s += now_s - progress.started_time_s;
        }
    }

    /// Time until the queue is empty, in seconds: the plan's estimate, corrected by the durations of the ended runs and
    /// the progress of the running ones.
    pub fn remaining_s(&self, now_s: f64) -> f64 {
        let correction = if self.ended_estimate_s > 0.0 { self.ended_duration_s / self.ended_estimate_s } else { 1.0 };
        let running: f64 = self.running.values().map(|run| run.remaining_s(correction, now_s)).sum();
        running + correction * self.waiting_estimate_s
    }
}

impl RunProgress {
    fn remaining_s(&self, correction: f64, now_s: f64) -> f64 {
        let elapsed_s = now_s - self.started_time_s;
        let by_estimate = (self.estimate_s * correction - elapsed_s).max(0.0);
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
