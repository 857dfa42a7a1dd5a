//! The numbers of steps and epochs: a program may count them from 0 or 1, and steps over the run or over each epoch.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::logged::Logged;
use super::{Found, FoundStep};

/// Converts a program's step numbers (from 0 or 1, over the run or over each epoch) into numbers over the run, from 1. Several sources may
/// report the same steps at different times, so numbers are compared with those of the same source.
#[derive(Default)]
pub(super) struct Steps {
    from_zero: bool,
    /// The number of steps before each count. A program that counts over epochs has a count for each of them.
    before: Vec<u64>,
    sources: BTreeMap<usize, Place>,
    /// The sources in which step numbers become smaller within what was found since the last call of [`Self::look_ahead`].
    decreasing: BTreeSet<usize>,
    /// Whether the newest step began a count, and the number of steps in the count before it is unknown.
    follows_unknown_end: bool,
    /// How often the program went back to an earlier step, and its newest return.
    returns: u32,
    newest_return: Option<Return>,
}

/// A return of the program to an earlier step.
#[derive(Clone, Copy)]
struct Return {
    /// The number over the run of the first step that it repeated.
    to: u64,
    /// When that step ended, as the source reports it that went back first.
    at_s: f64,
}

/// The place of a source among the steps of its program.
#[derive(Clone, Copy, Default)]
struct Place {
    /// Which of the counts the source has come to.
    count: usize,
    /// The newest number in this count (from 1), and the last number of the count.
    in_count: Option<(u64, Option<u64>)>,
    newest: Option<Newest>,
    /// How many of the program's returns to an earlier step the source has come past.
    returns: u32,
}

/// The newest step of a source.
#[derive(Clone, Copy)]
struct Newest {
    /// Its number over the run.
    number: u64,
    /// Its number as the program counts.
    step: Option<u64>,
    epoch: u32,
    /// Whether its epoch was reported with it.
    has_epoch: bool,
}

impl Steps {
    /// The number over the run for a number of a source. If the source has reported no step, the number belongs to the newest count.
    pub fn number_of(&self, source: usize, number: u64) -> u64 {
        let before = match self.sources.get(&source) {
            Some(place) => self.steps_before(place),
            None => self.before.last().copied().unwrap_or(0),
        };
        number.saturating_add(u64::from(self.from_zero)).saturating_add(before)
    }

    /// The newest step that a source has reported.
    pub fn newest_of(&self, source: usize) -> Option<u64> {
        self.sources.get(&source)?.newest.map(|newest| newest.number)
    }

    /// The number of the newest step of a source in its count, from 1.
    pub fn in_count(&self, source: usize) -> u64 {
        self.sources.get(&source).and_then(|place| place.in_count).map_or(1, |(number, _)| number.max(1))
    }

    /// Looks through what was found since the last call, before [`Self::next`] takes its steps.
    pub fn look_ahead(&mut self, found: &[(usize, Found)]) {
        let mut newest: BTreeMap<usize, u64> = BTreeMap::new();
        self.decreasing.clear();
        for (source, found) in found {
            let Found::Step(FoundStep { step: Some(number), .. }) = found else { continue };
            if newest.insert(*source, *number).is_some_and(|before| before > *number) {
                self.decreasing.insert(*source);
            }
        }
    }

    /// The number over the run for a step that a source reports in this epoch, and if the program went back with it, the number of the step
    /// before. If a source goes back where another one has done so, the program went back only once. `named_epoch` is the epoch of steps
    /// without one, and `newest` the newest step of the run.
    pub fn next(
        &mut self,
        source: usize,
        step: &FoundStep,
        (epoch, named_epoch): (u32, u32),
        newest: Option<&Logged>,
    ) -> (u64, Option<u64>) {
        let mut place = self.sources.get(&source).copied().unwrap_or_default();
        // Unless another source has come further, all that is known of the step counts.
        let is_own = |newest: &&Logged| place.newest.is_some_and(|own| own.number == newest.number);
        let before = newest.filter(is_own).map(Newest::of).or(place.newest);
        // An epoch that is reported after its step completes this step, unless a line has named another epoch since the step.
        let completes = |before: &Newest| before.step == step.step && !before.has_epoch && before.epoch == named_epoch;
        let other = before.filter(|before| !completes(before));
        let order = other.map_or(Ordering::Equal, |before| epoch.cmp(&before.epoch));
        let number = match step.step {
            Some(number) => self.advance(&mut place, number, step.steps, order),
            None => self.follow(&mut place, newest.map_or(0, |newest| newest.number)),
        };
        let back_from = before.map(|before| before.number).filter(|before| number < *before);
        let is_new = place.returns == self.returns;
        if back_from.is_some() {
            place.returns += 1;
        } else if self.is_after_return(source, step, number) {
            place.returns = self.returns;
        }
        if place.returns > self.returns {
            self.returns = place.returns;
            self.newest_return = Some(Return { to: number, at_s: step.at_s });
        }
        place.newest = Some(Newest { number, step: step.step, epoch, has_epoch: step.epoch.is_some() });
        self.sources.insert(source, place);
        (number, back_from.filter(|_| is_new))
    }

    /// Whether a source reports a step of this number from after the program's newest return. The time that the program reports for the step
    /// shows it. The time of a line does not, because the line may have waited in a buffer: of such lines only the first one of a source
    /// counts, unless it names a step from before the first repeated one, or the source goes back itself in the lines behind it.
    fn is_after_return(&self, source: usize, step: &FoundStep, number: u64) -> bool {
        let Some(Return { to, at_s }) = self.newest_return else { return false };
        let is_first = !self.sources.contains_key(&source);
        let begins = is_first && number >= to && !self.decreasing.contains(&source);
        step.at_s >= at_s && (step.read_s.is_some() || begins)
    }

    /// Whether the newest step began a count, and the number of steps in the count before it is unknown.
    pub fn follows_unknown_end(&self) -> bool {
        self.follows_unknown_end
    }

    /// Whether a source may still report steps from before the program went back.
    pub fn is_behind(&self, source: usize) -> bool {
        self.sources.get(&source).is_some_and(|place| place.returns < self.returns)
    }

    /// The number over the run for a reported step number; `epoch` compares the epoch of the step with the epoch of the newest one. A number
    /// that does not advance belongs to a new count if its epoch is later. A smaller number does so, too, if the count had come to its end,
    /// or if another source has begun the next count.
    fn advance(&mut self, place: &mut Place, number: u64, mut end: Option<u64>, epoch: Ordering) -> u64 {
        self.from_zero |= number == 0 && self.before.is_empty();
        self.follows_unknown_end = false;
        let number = number.saturating_add(u64::from(self.from_zero)).max(1);
        if let Some((newest, newest_end)) = place.in_count
            && number <= newest
        {
            let has_ended = newest_end == Some(newest) || place.count + 1 < self.before.len();
            if epoch.is_gt() || number < newest && has_ended {
                // Another source may have come further in the count, such as one that reports every step.
                let in_count = self.sources.values().filter(|other| other.count == place.count);
                let ends = in_count.filter_map(|other| other.in_count).chain(place.in_count);
                let (mut last, mut is_known) = (newest, false);
                for (newest, end) in ends {
                    last = last.max(end.unwrap_or(newest)).max(newest);
                    is_known |= end.is_some();
                }
                self.follows_unknown_end = !is_known;
                let before = self.steps_before(place).saturating_add(last);
                place.count += 1;
                // Another source may have begun this count.
                if self.before.len() <= place.count {
                    self.before.push(before);
                }
            } else if number == newest {
                end = end.or(newest_end);
            }
        }
        self.count_from(place, number, end)
    }

    /// The number over the run for a step that was reported without a number: it follows the newest one.
    fn follow(&mut self, place: &mut Place, newest: u64) -> u64 {
        self.follows_unknown_end = false;
        let number = newest.saturating_add(1).saturating_sub(self.steps_before(place));
        let end = place.in_count.and_then(|(_, end)| end);
        self.count_from(place, number, end)
    }

    /// Sets the newest number in the count of a source; returns the number over the run.
    fn count_from(&mut self, place: &mut Place, number: u64, end: Option<u64>) -> u64 {
        if self.before.is_empty() {
            self.before.push(0);
        }
        place.in_count = Some((number, end));
        number.saturating_add(self.steps_before(place))
    }

    fn steps_before(&self, place: &Place) -> u64 {
        self.before.get(place.count).copied().unwrap_or(0)
    }
}

impl Newest {
    fn of(logged: &Logged) -> Self {
        let Logged { step, number, epoch, .. } = *logged;
        Self { number, step: step.step, epoch, has_epoch: step.epoch.is_some() }
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
