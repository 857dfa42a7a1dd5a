//! The steps that were logged last, of which more may be reported.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use super::Logged;

/// The most steps that are kept: as many as a program may make while the lines of a source wait in a buffer for a minute or two.
pub(super) const MOST_KEPT: usize = 1 << 15;

/// The steps that were logged last, by their numbers.
#[derive(Default)]
pub(super) struct Recent {
    steps: BTreeMap<u64, Logged>,
    /// Steps with numbers up to this one are not kept any more.
    forgotten: u64,
}

impl Recent {
    pub fn get(&self, number: u64) -> Option<&Logged> {
        self.steps.get(&number)
    }

    pub fn get_mut(&mut self, number: u64) -> Option<&mut Logged> {
        self.steps.get_mut(&number)
    }

    /// The first step with a larger number.
    pub fn after(&self, number: u64) -> Option<&Logged> {
        self.steps.range((Excluded(number), Unbounded)).next().map(|(_, logged)| logged)
    }

    /// The step during which it was this time: the one after the newest step that had ended.
    pub fn during(&self, at_s: f64) -> Option<&Logged> {
        let (before, _) = self.steps.iter().rev().find(|(_, logged)| logged.step.at_s <= at_s)?;
        self.after(*before)
    }

    /// Keeps a step, in place of one with the same number.
    pub fn keep(&mut self, logged: Logged) {
        self.steps.insert(logged.number, logged);
        if self.steps.len() > MOST_KEPT
            && let Some((number, _)) = self.steps.pop_first()
        {
            self.forgotten = self.forgotten.max(number);
        }
    }

    /// The number of kept steps.
    pub fn count(&self) -> usize {
        self.steps.len()
    }

    /// Whether a kept step has a duration.
    pub fn has_timed(&self) -> bool {
        self.steps.values().any(|logged| logged.is_timed)
    }

    /// Whether a step with this number may have been logged and is not kept any more.
    pub fn may_be_forgotten(&self, number: u64) -> bool {
        number <= self.forgotten
    }

    /// Drops this step and all later ones, which the program repeats.
    pub fn drop_from(&mut self, number: u64) {
        self.steps.retain(|kept, _| *kept < number);
        self.forgotten = self.forgotten.min(number.saturating_sub(1));
    }
}
