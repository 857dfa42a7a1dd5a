//! The numbers of steps and epochs: a program may count them from 0 or 1, and steps over the run or over each epoch.

use std::cmp::Ordering;

/// Converts a program's step numbers (from 0 or 1, over the run or over each epoch) into numbers over the run, from 1.
#[derive(Default)]
pub(super) struct Steps {
    from_zero: bool,
    /// The number of steps in earlier epochs.
    before: u64,
    /// The newest number in the program's count (from 1), and the last number of that count.
    newest: Option<(u64, Option<u64>)>,
}

impl Steps {
    /// The number over the run for a step that belongs to the newest epoch.
    pub fn number_of(&self, number: u64) -> u64 {
        number.saturating_add(u64::from(self.from_zero)).saturating_add(self.before)
    }

    /// The number over the run for a reported step number; `epoch` compares the epoch of the step with the epoch of the newest one. A number
    /// that does not advance belongs to a new count if its epoch is later. A smaller number does so, too, if the count had come to its end.
    pub fn next(&mut self, number: u64, mut end: Option<u64>, epoch: Ordering) -> u64 {
        self.from_zero |= number == 0 && self.newest.is_none();
        let number = number.saturating_add(u64::from(self.from_zero)).max(1);
        if let Some((newest, newest_end)) = self.newest
            && number <= newest
        {
            if epoch.is_gt() || number < newest && newest_end == Some(newest) {
                self.before = self.before.saturating_add(newest_end.unwrap_or(newest).max(newest));
            } else if number == newest {
                end = end.or(newest_end);
            }
        }
        self.newest = Some((number, end));
        number.saturating_add(self.before)
    }

    /// The number over the run for a step that was reported without a number.
    pub fn following(&mut self) -> u64 {
        let (newest, end) = self.newest.unwrap_or_default();
        let number = newest.saturating_add(1);
        self.newest = Some((number, end));
        number.saturating_add(self.before)
    }
}

/// Converts a program's epochs (from 0 or 1, or fractions) into epochs from 1.
#[derive(Default)]
pub(super) struct Epochs {
    from_zero: bool,
    in_fractions: bool,
}

impl Epochs {
    /// The number of an epoch as the program counts.
    pub fn number_of(&mut self, number: f64) -> u32 {
        self.in_fractions |= number.fract() != 0.0;
        self.from_zero |= number == 0.0;
        if self.in_fractions {
            number.ceil().max(1.0) as u32
        } else {
            (number as u32).saturating_add(self.from_zero.into())
        }
    }
}
