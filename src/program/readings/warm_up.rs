//! Which steps of a run are its warm-up.

use super::logged::Logged;
use crate::analysis::has_warmed_up;
use crate::plan::WarmUp;

/// The end of the warm-up is looked for whenever this number of further steps has ended, and later whenever a fixed share of all steps has.
const BLOCK: usize = 8;
const BLOCK_SHARE: usize = 8;
/// The search for the end of the warm-up is given up after this number of steps.
const LATEST_WARM_UP: usize = 20_000;

/// The warm-up of a run so far. One that is to be found ends according to [`has_warmed_up`].
pub(super) struct WarmUpSearch {
    warm_up: WarmUp,
    /// Durations of the steps by which the end of the warm-up is judged, and how many of them there must be for the next judgement.
    durations_s: Vec<f64>,
    judge_at: usize,
    has_settled: bool,
}

impl WarmUpSearch {
    pub fn new(warm_up: WarmUp) -> Self {
        Self { warm_up, durations_s: Vec::new(), judge_at: BLOCK, has_settled: false }
    }

    /// The warm-up that the plan asks for.
    pub fn asked(&self) -> WarmUp {
        self.warm_up
    }

    /// Whether the end of the warm-up is looked for and was not found yet.
    pub fn is_unfinished(&self) -> bool {
        self.warm_up == WarmUp::Found && !self.has_settled
    }

    /// Whether the step of this number is part of the warm-up, in a run whose first step has the number `first`.
    pub fn contains(&self, number: u64, first: u64) -> bool {
        match self.warm_up {
            WarmUp::Steps(steps) => number < first.saturating_add(steps),
            WarmUp::Found => !self.has_settled,
        }
    }

    /// Judges whether step times have settled, after every block of steps.
    pub fn judge(&mut self, logged: &Logged) {
        if !self.is_unfinished() {
            return;
        }
        self.durations_s.push(logged.duration_s);
        if self.durations_s.len() < self.judge_at {
            return;
        }
        self.judge_at += BLOCK.max(self.durations_s.len() / BLOCK_SHARE);
        // Short runs need some steady steps, too.
        let is_half = logged.step.steps.is_some_and(|steps| logged.number >= steps / 2);
        self.has_settled = is_half || self.durations_s.len() >= LATEST_WARM_UP || has_warmed_up(&self.durations_s);
        if self.has_settled {
            self.durations_s = Vec::new();
        }
    }
}
