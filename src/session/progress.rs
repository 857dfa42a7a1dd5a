//! Progress of the queue and its remaining time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::protocol::{Event, EventLine};

/// The basis of an estimate of the remaining time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Estimate {
    /// The plan's estimates, and runs of the same cells.
    #[default]
    Estimated,
    /// The estimate uses, for some runs, the mean of runs of other cells.
    Guessed,
    /// The estimate is too low: the durations of some runs are unknown and count as 0, or a run waits at its site for
    /// an unknown time.
    AtLeast,
}

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
    cell: String,
    started_time_s: f64,
    estimate_s: f64,
    /// Whether it waits at its site.
    waits: bool,
    /// When its latest step ended.
    stepped_time_s: f64,
    /// Its first step after the warm-up, and when it ended.
    first_steady: Option<(u64, f64)>,
    /// The durations of its steps after the warm-up.
    steady: Took,
}

/// The number of steps after the warm-up from which on a run's own pace is more accurate than the plan's estimate.
const STEPS_OF_PACE: usize = 3;

/// A sum of durations, in seconds, and their number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Took {
    sum_s: f64,
    count: usize,
}

impl Took {
    fn add(&mut self, took_s: f64) {
        self.sum_s += took_s;
        self.count += 1;
    }

    /// The mean, in seconds; `None` without durations.
    fn mean_s(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_s / self.count as f64)
    }
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
    /// The number of waiting runs without an estimate, such as runs of programs, by cell.
    waiting_unknown: BTreeMap<String, usize>,
    /// The durations of ended runs without an estimate, by cell.
    ended_unknown: BTreeMap<String, Took>,
}

impl Progress {
    pub(super) fn queued(&mut self, cell: &str, estimate_s: f64) {
        self.queued += 1;
        self.waits(cell, estimate_s, true);
    }

    /// A queued run was removed from the queue.
    pub(super) fn withdrawn(&mut self, cell: &str, estimate_s: f64) {
        self.queued = self.queued.saturating_sub(1);
        self.waits(cell, estimate_s, false);
    }

    fn waits(&mut self, cell: &str, estimate_s: f64, more: bool) {
        if estimate_s > 0.0 {
            let change_s = if more { estimate_s } else { -estimate_s };
            self.waiting_estimate_s = (self.waiting_estimate_s + change_s).max(0.0);
        } else if more {
            *self.waiting_unknown.entry(cell.to_owned()).or_default() += 1;
        } else if let Some(count) = self.waiting_unknown.get_mut(cell) {
            *count -= 1;
            if *count == 0 {
                self.waiting_unknown.remove(cell);
            }
        }
    }

    pub(super) fn started(&mut self, run: &str, cell: &str, estimate_s: f64, now_s: f64) {
        self.waits(cell, estimate_s, false);
        let cell = cell.to_owned();
        let progress = RunProgress { cell, started_time_s: now_s, estimate_s, ..RunProgress::default() };
        self.running.insert(run.to_owned(), progress);
    }

    /// A run waits at its site, or no longer does.
    pub(super) fn waits_at_site(&mut self, run: &str, waits: bool) {
        if let Some(progress) = self.running.get_mut(run) {
            progress.waits = waits;
        }
    }

    /// A run that waited at its site has started.
    pub(super) fn restarted(&mut self, run: &str, now_s: f64) {
        if let Some(progress) = self.running.get_mut(run) {
            (progress.started_time_s, progress.waits) = (now_s, false);
        }
    }

    pub(super) fn event(&mut self, line: &EventLine, now_s: f64) {
        let Some(progress) = self.running.get_mut(&line.run) else { return };
        // Ranks run in lockstep: rank 0 stands for all.
        if line.rank > 0 {
            return;
        }
        match &line.event {
            Event::Step { step, steps, epoch, loss, duration_s, warm_up, traced, .. } => {
                (progress.step, progress.steps, progress.epoch) = (*step, *steps, *epoch);
                progress.loss = Some(*loss);
                progress.stepped_time_s = now_s;
                if !warm_up && !traced {
                    progress.first_steady.get_or_insert((*step, now_s));
                    progress.steady.add(*duration_s);
                }
            }
            Event::StepsWithdrawn => {
                (progress.step, progress.steps, progress.epoch, progress.loss) = (0, 0, 0, None);
                (progress.first_steady, progress.steady) = (None, Took::default());
            }
            _ => {}
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
            self.ended_unknown.entry(progress.cell).or_default().add(took_s);
        }
    }

    /// Time until the queue is empty, in seconds, and what this estimate is based on: the plan's estimate, corrected by
    /// the durations of the ended runs and by the progress of the active runs. Runs without an estimate are expected to
    /// take as long as the earlier runs of their cell; without earlier runs of the cell, as long as the mean of all
    /// runs. Active runs run at the same time, and as many queued runs at once as are active now. If a run waits at its
    /// site, it is unknown how long, so the estimate is a lower bound.
    pub fn remaining(&self, now_s: f64) -> (f64, Estimate) {
        let (mut estimate_s, mut duration_s) = (self.ended_estimate_s, self.ended_duration_s);
        let mut by_cell = self.ended_unknown.clone();
        for run in self.running.values() {
            // A run whose steps stand still takes at least as long as it has run.
            let Some(whole_s) = run.whole_s().map(|whole_s| whole_s.max(now_s - run.started_time_s)) else { continue };
            if run.estimate_s > 0.0 {
                estimate_s += run.estimate_s;
                duration_s += whole_s;
            } else {
                by_cell.entry(run.cell.clone()).or_default().add(whole_s);
            }
        }
        let correction = if estimate_s > 0.0 { duration_s / estimate_s } else { 1.0 };
        let mut all = Took::default();
        for took in by_cell.values() {
            all = Took { sum_s: all.sum_s + took.sum_s, count: all.count + took.count };
        }
        let mut is = Estimate::Estimated;
        let mut usual_s = |cell: &str| {
            if let Some(mean_s) = by_cell.get(cell).and_then(|took| took.mean_s()) {
                return mean_s;
            }
            is = if all.count > 0 { Estimate::Guessed } else { Estimate::AtLeast };
            all.mean_s().unwrap_or(0.0)
        };
        let mut waiting_s = correction * self.waiting_estimate_s;
        for (cell, count) in &self.waiting_unknown {
            waiting_s += usual_s(cell) * *count as f64;
        }
        let mut active_s = 0.0_f64;
        for run in self.running.values() {
            let elapsed_s = if run.waits { 0.0 } else { now_s - run.started_time_s };
            active_s = active_s.max(match run.whole_s() {
                Some(whole_s) => whole_s - elapsed_s,
                None if run.estimate_s > 0.0 => run.estimate_s * correction - elapsed_s,
                None => usual_s(&run.cell) - elapsed_s,
            });
        }
        if self.running.values().any(|run| run.waits) {
            is = Estimate::AtLeast;
        }
        (active_s + waiting_s / self.running.len().max(1) as f64, is)
    }
}

impl RunProgress {
    /// How long it takes from its start to its end by its own pace, in seconds: what it took up to its latest step, and the usual time of
    /// each step that is left. Start and warm-up, which are slow, thus count once. `None` until a few steps after the warm-up are done: the
    /// plan's estimate is more accurate before.
    pub fn whole_s(&self) -> Option<f64> {
        let left = self.steps.saturating_sub(self.step) as f64;
        self.pace_s().map(|pace_s| self.stepped_time_s - self.started_time_s + left * pace_s)
    }

    /// The mean time of a step after the warm-up, in seconds, including pauses between steps, such as evaluation. Steps may be reported
    /// many at a time, so it is never shorter than their mean duration.
    fn pace_s(&self) -> Option<f64> {
        let duration_s = self.steady.mean_s().filter(|_| self.steady.count >= STEPS_OF_PACE)?;
        let (first, first_time_s) = self.first_steady?;
        let later = self.step.saturating_sub(first).max(1) as f64;
        Some(duration_s.max((self.stepped_time_s - first_time_s) / later))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remaining_s(progress: &Progress, now_s: f64) -> f64 {
        progress.remaining(now_s).0
    }

    /// A step of this duration ends.
    fn step(
        progress: &mut Progress,
        run: &str,
        (step, steps): (u64, u64),
        (duration_s, now_s): (f64, f64),
        warm_up: bool,
    ) {
        let event = Event::Step {
            epoch: 1,
            step,
            steps,
            duration_s,
            load_wait_s: 0.0,
            loss: 1.0,
            units: 8,
            warm_up,
            traced: false,
        };
        progress.event(&EventLine { run: run.into(), rank: 0, time_s: now_s, event }, now_s);
    }

    /// All steps up to one of them end one after the other; each takes as long as the others.
    fn stepped(progress: &mut Progress, run: &str, (last, steps): (u64, u64), (start_s, duration_s): (f64, f64)) {
        for at in 1..=last {
            step(progress, run, (at, steps), (duration_s, start_s + duration_s * at as f64), false);
        }
    }

    #[test]
    fn runs_of_cells_that_have_not_run_are_guessed_until_their_cell_has_run() {
        let mut progress = Progress::default();
        (0..2).for_each(|_| progress.queued("long", 0.0));
        assert_eq!(progress.remaining(0.0), (0.0, Estimate::AtLeast), "nothing is known");
        progress.queued("short", 0.0);
        progress.started("a", "short", 0.0, 0.0);
        progress.ended("a", 2.0);
        assert_eq!(progress.remaining(2.0), (4.0, Estimate::Guessed), "by the mean of other cells");
        progress.started("b", "long", 0.0, 2.0);
        stepped(&mut progress, "b", (8, 16), (2.0, 1.875));
        assert_eq!(progress.remaining(17.0), (45.0, Estimate::Estimated), "the other repeat takes as long");
        progress.ended("b", 32.0);
        assert_eq!(progress.remaining(32.0), (30.0, Estimate::Estimated));
    }

    #[test]
    fn steps_that_were_withdrawn_are_no_progress() {
        let mut progress = Progress::default();
        progress.queued("c", 10.0);
        progress.started("a", "c", 10.0, 0.0);
        stepped(&mut progress, "a", (10, 100), (0.0, 10.0));
        let event = Event::StepsWithdrawn;
        progress.event(&EventLine { run: "a".into(), rank: 0, time_s: 100.0, event }, 100.0);
        let run = &progress.running["a"];
        assert_eq!((run.step, run.steps, run.whole_s()), (0, 0, None));
    }

    #[test]
    fn the_pace_of_the_first_run_corrects_the_estimate_of_those_that_wait() {
        let mut progress = Progress::default();
        (0..12).for_each(|_| progress.queued("c", 10.0));
        progress.started("a", "c", 10.0, 0.0);
        stepped(&mut progress, "a", (10, 100), (0.0, 10.0));
        // It is at a tenth after 100 s: each takes 1,000 s.
        assert_eq!(remaining_s(&progress, 100.0), 900.0 + 11.0 * 1000.0);
    }

    #[test]
    fn remaining_time_is_the_estimate_corrected_by_what_runs_took() {
        let mut progress = Progress::default();
        for _ in 0..4 {
            progress.queued("c", 10.0);
        }
        assert_eq!(remaining_s(&progress, 0.0), 40.0);
        progress.started("a", "c", 10.0, 0.0);
        progress.ended("a", 20.0);
        // Runs take twice as long as estimated; three are left.
        assert_eq!(remaining_s(&progress, 20.0), 60.0);
        assert_eq!(progress.ended, 1);
    }

    #[test]
    fn a_run_taken_out_of_the_queue_takes_its_time_along_and_brings_it_back() {
        let mut progress = Progress::default();
        progress.queued("c", 10.0);
        progress.queued("c", 30.0);
        progress.withdrawn("c", 30.0);
        assert_eq!((progress.queued, progress.ended, remaining_s(&progress, 0.0)), (1, 0, 10.0));
        progress.queued("c", 30.0);
        assert_eq!((progress.queued, remaining_s(&progress, 0.0)), (2, 40.0));
    }

    #[test]
    fn runs_without_an_estimate_are_expected_to_take_what_those_before_them_took() {
        let mut progress = Progress::default();
        (0..3).for_each(|_| progress.queued("c", 0.0));
        assert_eq!(remaining_s(&progress, 0.0), 0.0, "nothing is known yet");
        progress.started("a", "c", 0.0, 0.0);
        progress.ended("a", 40.0);
        assert_eq!(remaining_s(&progress, 40.0), 80.0);
        progress.started("b", "c", 0.0, 40.0);
        assert_eq!(remaining_s(&progress, 50.0), 70.0);
    }

    #[test]
    fn runs_that_wait_at_their_site_take_their_whole_time_and_nobody_knows_from_when_on() {
        let mut progress = Progress::default();
        for run in ["a", "b"] {
            progress.queued("c", 100.0);
            progress.started(run, "c", 100.0, 0.0);
            progress.waits_at_site(run, true);
        }
        assert_eq!(
            progress.remaining(5000.0),
            (100.0, Estimate::AtLeast),
            "they run beside each other once they start"
        );
        progress.waits_at_site("a", false);
        progress.restarted("a", 5000.0);
        assert_eq!(progress.remaining(5040.0), (100.0, Estimate::AtLeast), "the other one still waits");
        progress.restarted("b", 5040.0);
        assert_eq!(progress.remaining(5060.0), (80.0, Estimate::Estimated));
    }

    #[test]
    fn queued_runs_run_beside_each_other_where_active_ones_do() {
        let mut progress = Progress::default();
        (0..6).for_each(|_| progress.queued("c", 100.0));
        progress.started("a", "c", 100.0, 0.0);
        progress.started("b", "c", 100.0, 0.0);
        assert_eq!(remaining_s(&progress, 30.0), 70.0 + 400.0 / 2.0);
    }

    #[test]
    fn remaining_time_of_a_running_run_follows_its_own_pace() {
        let mut progress = Progress::default();
        progress.queued("c", 1000.0);
        progress.started("a", "c", 1000.0, 0.0);
        stepped(&mut progress, "a", (8, 16), (0.0, 0.5));
        assert_eq!(remaining_s(&progress, 4.0), 4.0);
        assert_eq!(remaining_s(&progress, 6.0), 2.0, "it comes closer between steps");
    }

    #[test]
    fn a_slow_start_and_warm_up_count_once_and_are_not_taken_for_the_pace() {
        let mut progress = Progress::default();
        (0..2).for_each(|_| progress.queued("c", 64.0));
        progress.started("a", "c", 64.0, 0.0);
        // The start takes 20 s; each of two steps of warm-up takes 10 s, each other step 1 s.
        step(&mut progress, "a", (1, 18), (10.0, 30.0), true);
        step(&mut progress, "a", (2, 18), (10.0, 40.0), true);
        (3..=4).for_each(|at| step(&mut progress, "a", (at, 18), (1.0, 38.0 + at as f64), false));
        assert_eq!(remaining_s(&progress, 42.0), 64.0 - 42.0 + 64.0, "two steps do not show the pace");
        step(&mut progress, "a", (5, 18), (1.0, 43.0), false);
        assert_eq!(remaining_s(&progress, 43.0), 13.0 + 56.0, "each run takes 56 s");
    }

    #[test]
    fn pauses_between_steps_belong_to_the_pace_and_steps_reported_together_take_their_own_durations() {
        let mut progress = Progress::default();
        for run in ["a", "b"] {
            progress.queued("c", 0.0);
            progress.started(run, "c", 0.0, 0.0);
        }
        // Three seconds pass from step to step, of which a step takes one.
        (1..=5).for_each(|at| step(&mut progress, "a", (at, 9), (1.0, 3.0 * at as f64), false));
        assert_eq!(progress.running["a"].whole_s(), Some(27.0));
        (1..=5).for_each(|at| step(&mut progress, "b", (at, 9), (1.0, 5.0), false));
        assert_eq!(progress.running["b"].whole_s(), Some(9.0));
    }
}
