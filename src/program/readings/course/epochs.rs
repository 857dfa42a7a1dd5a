//! The epochs of a run: which steps belong to them, and their mean losses.

use std::cmp::Ordering;

use super::super::keys::TRAINING_LOSS;
use super::{Course, Event, FoundStep, Logged, NamedPhase};

/// Steps that take this many times as long as those before are more steps.
const MOST_LONGER: f64 = 1.1;

impl Course {
    /// Takes an epoch that is named without a step. A program names each epoch once it is over, such as with its accuracy, or before its steps.
    /// The name of the current epoch ends it, unless steps of the epoch follow that name.
    pub(super) fn named_epoch(&mut self, name: f64, events: &mut Vec<(f64, Event)>) {
        let epoch = self.epochs.number_of(name);
        let newest = self.newest().copied();
        match newest.map_or(Ordering::Greater, |newest| epoch.cmp(&newest.epoch)) {
            // Part of an epoch does not end it.
            Ordering::Equal if self.names_follow && name.fract() == 0.0 => self.epoch = Some(epoch.saturating_add(1)),
            Ordering::Equal | Ordering::Greater => self.epoch = Some(epoch),
            // If it is named again after the next step, it had not ended.
            Ordering::Less => {
                if let Some(newest) = newest.filter(|newest| newest.step.epoch.is_none()) {
                    self.names_follow = false;
                    let epoch = FoundStep { epoch: Some(name), ..FoundStep::default() };
                    self.more_of(0, newest.number, epoch, events);
                }
            }
        }
    }

    /// Takes the beginning of an epoch, whose steps are counted anew: the time since the newest step is none of a step.
    pub(super) fn epoch_begins(&mut self, at_s: f64, now_s: f64, events: &mut Vec<(f64, Event)>) {
        let Some(newest) = self.newest().copied().filter(|newest| at_s >= newest.step.at_s) else { return };
        self.epoch = self.epoch.max(Some(newest.epoch.saturating_add(1)));
        // If the line of the newest step was read together with this one, when that step ended is unknown.
        if at_s > newest.step.at_s || self.waiting.is_empty() {
            self.pause(true, at_s, now_s, events);
            self.begins = true;
        }
    }

    /// Whether the program may have made more steps since the newest one than the number of this step says (`advance`): after the last step that it
    /// reported of an epoch of unknown length, if the steps took longer than those before; and between the newest step and an evaluation that
    /// did not name its step, if there are more steps since. `skipped` says whether the program reports only some of its steps, as far as that
    /// was known.
    pub(super) fn may_hide_steps(&self, step: &FoundStep, advance: u64, skipped: bool) -> bool {
        let Some(newest) = self.newest() else { return false };
        let took_longer =
            newest.is_timed && step.at_s - self.since_s > MOST_LONGER * newest.duration_s * advance as f64;
        let is_after_epoch = step.is_guessed && skipped && !self.begins && self.steps.follows_unknown_end();
        is_after_epoch && took_longer || !skipped && advance > 1 && self.evaluated_first.is_assumed()
    }

    /// The number of steps whose time a new step has: all since the newest step (`advance`), or those since its epoch began, if that was
    /// reported.
    pub(super) fn advance_of(&mut self, source: usize, step: &FoundStep, advance: u64) -> u64 {
        if !std::mem::take(&mut self.begins) {
            return advance;
        }
        // The line of a step that was read together with that of the beginning does not tell the time of the step.
        self.times_step &= step.at_s > self.since_s;
        advance.min(self.steps.in_count(source))
    }

    /// Whether the program trains and has reported no loss of a step, so that a loss without a step is the newest one of the training.
    pub(super) fn trains_without_losses(&self) -> bool {
        let has_loss = self.losses.has_any() || self.newest().is_some_and(|newest| newest.step.loss.is_some());
        !has_loss && self.named.is_none_or(NamedPhase::is_training)
    }

    /// Adds the loss of a step, if it has one, to the losses of its epoch, once nothing more is reported of the step. The epoch of the steps
    /// before ends if the step is of another one. The mean is weighted by units if the program reports them.
    pub(super) fn add_loss(&mut self, logged: &Logged, events: &mut Vec<(f64, Event)>) {
        let end_s = self.end_s(&logged.step);
        let before = self.completed.replace((logged.epoch, end_s));
        if let Some((epoch, ended_s)) = before.filter(|(epoch, _)| *epoch != logged.epoch) {
            self.end_epoch(epoch, ended_s, events);
        }
        self.keep_loss(logged);
    }

    /// Adds the loss of a step, if it has one, to the losses of its epoch.
    fn keep_loss(&mut self, logged: &Logged) {
        let Some(loss) = logged.step.loss else { return };
        if logged.step.is_mean_loss {
            self.losses.add_mean(logged.epoch, logged.number, loss);
        } else {
            self.losses.add(logged.epoch, logged.number, loss, logged.step.units.unwrap_or(1.0));
        }
    }

    /// Adds the loss of a step that was followed by others. The mean loss of its epoch is given again once losses of another epoch come.
    pub(super) fn add_late_loss(&mut self, logged: &Logged, events: &mut Vec<(f64, Event)>) {
        if self.last == Some(logged.number) || logged.step.loss.is_none() {
            return;
        }
        self.keep_loss(logged);
        let before = self.late_epoch.replace(logged.epoch);
        if let Some(epoch) = before.filter(|epoch| *epoch != logged.epoch) {
            let at_s = self.end_s(&logged.step);
            self.end_epoch(epoch, at_s, events);
        }
    }

    /// Ends an epoch with a reading of its loss, if there was a loss and the program reports none itself.
    pub(super) fn end_epoch(&mut self, epoch: u32, at_s: f64, events: &mut Vec<(f64, Event)>) {
        let loss = self.losses.mean(epoch).filter(|_| !self.keys.contains(TRAINING_LOSS));
        let reading = |value| Event::Reading { key: TRAINING_LOSS.into(), value, epoch: Some(epoch), step: None };
        events.extend(loss.map(|loss| (at_s, reading(loss))));
    }
}
