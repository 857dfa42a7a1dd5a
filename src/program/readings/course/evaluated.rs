//! Evaluations whose loss is all that a program reports: their time is not time of a step, unless the program reports the durations of
//! its steps.

use super::{Course, Event, Phase};

/// An evaluation that is shorter than this is no phase of its own: a program may evaluate after each of millions of steps.
const LEAST_PHASE_S: f64 = 0.1;

impl Course {
    /// Takes a line with the loss of an evaluation, which ended at this time. `number` is that of the step in the line, if it has one.
    pub(super) fn evaluated(&mut self, number: Option<u64>, at_s: f64, now_s: f64, events: &mut Vec<(f64, Event)>) {
        let is_named = self.named.is_some_and(|named| !named.is_training());
        let newest = self.newest().copied().filter(|newest| !is_named && newest.step.duration_s.is_none());
        let Some(newest) = newest else { return };
        // If steps were made since the newest reported one, when the evaluation began is unknown, and so is the time of the next step.
        let follows = number.map_or(!self.skips_steps, |number| number == newest.number);
        if at_s < newest.step.at_s {
            return self.evaluated_before(at_s, events);
        }
        if at_s == newest.step.at_s && !self.waiting.is_empty() {
            self.evaluated_together = Some(follows && self.evaluated_together.unwrap_or(true));
            return;
        }
        self.log_waiting(events);
        let began_s = if follows { self.since_s } else { at_s };
        (self.since_s, self.times_step) = (at_s, follows);
        let is_brief = follows && at_s - began_s < LEAST_PHASE_S;
        if !is_brief && self.phase.replace(Phase::Evaluate) != Some(Phase::Evaluate) {
            events.push((self.clock.time_s(began_s, Some(now_s)), Event::Phase { phase: Phase::Evaluate }));
        }
    }

    /// Takes an evaluation that is reported later than a step after it: the time of that step contains the evaluation.
    fn evaluated_before(&mut self, at_s: f64, events: &mut Vec<(f64, Event)>) {
        self.log_waiting(events);
        let during = self.recent.during(at_s).copied();
        if let Some(mut logged) = during.filter(|logged| logged.is_timed && logged.step.duration_s.is_none()) {
            logged.is_timed = false;
            self.recent.keep(logged);
            self.log(logged, events);
        }
    }
}
