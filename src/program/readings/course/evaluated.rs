//! Evaluations whose loss is all that a program reports: which time is theirs, and is not time of a step. What that means depends on whether
//! the steps around them have reported durations, and on whether their lines come together.

use super::{Course, Event, FoundStep, Logged, Phase};

/// An evaluation that is shorter than this is no phase of its own: a program may evaluate after each of millions of steps.
const LEAST_PHASE_S: f64 = 0.1;
/// The lines of an evaluation and of the step after it may arrive closer together by this than they were printed.
const LATE_S: f64 = 0.002;

/// Evaluations that are reported before the next step.
#[derive(Default)]
pub(super) struct EvaluatedFirst {
    /// The number of the next step, if its evaluation was reported.
    next: Option<u64>,
    /// Whether the evaluation of the newest step was reported before that step.
    is_usual: bool,
    /// When the newest evaluation since the newest step ended, with the source that reported it.
    ended: Option<(usize, f64)>,
    /// Whether it was taken to follow the newest step although it did not name its step.
    is_assumed: bool,
}

impl EvaluatedFirst {
    /// Whether an evaluation was taken to follow the newest step although it did not name its step.
    pub(super) fn is_assumed(&self) -> bool {
        self.is_assumed
    }
}

impl Course {
    /// Takes a line with the loss of an evaluation, which ended at this time. `step` is the number of the step in the line, if it has one, as
    /// the program counts.
    pub(super) fn evaluated(
        &mut self,
        source: usize,
        step: Option<u64>,
        at_s: f64,
        now_s: f64,
        events: &mut Vec<(f64, Event)>,
    ) {
        let number = step.map(|step| self.steps.number_of(source, step));
        let is_named = self.named.is_some_and(|named| !named.is_training());
        // A program that names its phases knows which time is that of its steps.
        self.evaluated_first.ended = (!is_named && !self.names_training).then_some((source, at_s));
        let newest = self.newest().copied().filter(|newest| !is_named && newest.step.duration_s.is_none());
        let Some(newest) = newest else { return };
        // If steps were made since the newest reported one, when the evaluation began is unknown, and so is the time of the next step.
        let follows = number.map_or(!self.skips_steps, |number| number == newest.number);
        self.evaluated_first.is_assumed = follows && number.is_none();
        if at_s < newest.step.at_s {
            return self.evaluated_before(at_s, events);
        }
        if number.is_some() && number == newest.number.checked_add(1) {
            self.evaluated_first.next = number;
            // An evaluation in each step is a part of the step.
            if self.evaluated_first.is_usual {
                return;
            }
        }
        if at_s == newest.step.at_s && !self.waiting.is_empty() {
            self.evaluated_together = Some(follows && self.evaluated_together.unwrap_or(true));
            return;
        }
        self.hides_times |= !follows;
        self.pause(follows, at_s, now_s, events);
    }

    /// Takes the end of a time that is none of the training. `follows` says whether it began when the newest step ended.
    pub(super) fn pause(&mut self, follows: bool, at_s: f64, now_s: f64, events: &mut Vec<(f64, Event)>) {
        self.log_waiting(events);
        let began_s = if follows { self.since_s } else { at_s };
        (self.since_s, self.times_step) = (at_s, follows);
        let is_brief = follows && at_s - began_s < LEAST_PHASE_S;
        if !is_brief && self.phase.replace(Phase::Evaluate) != Some(Phase::Evaluate) {
            events.push((self.clock.time_s(began_s, Some(now_s)), Event::Phase { phase: Phase::Evaluate }));
        }
    }

    /// Takes note of a new step: the line of its loss is its end, whether or not its evaluation was reported before that. If the step began
    /// before the end of an evaluation, as its source or a guessed duration says, its own duration is unknown. A duration that is declared is
    /// right: the lines of the evaluation and of the step may have been written together.
    pub(super) fn ends_after_evaluation(
        &mut self,
        source: usize,
        number: u64,
        step: &mut FoundStep,
        events: &mut Vec<(f64, Event)>,
    ) {
        let EvaluatedFirst { next, is_usual, ended, .. } = std::mem::take(&mut self.evaluated_first);
        let is_first = next == Some(number);
        self.evaluated_first.is_usual = is_first;
        let since_s = ended.filter(|(by, _)| step.is_guessed && *by == source).map(|(_, ended_s)| step.at_s - ended_s);
        let began_before =
            since_s.zip(step.duration_s).is_some_and(|(since_s, duration_s)| duration_s > since_s + LATE_S);
        if step.is_untimed || began_before {
            step.duration_s = None;
            (self.times_step, self.hides_times) = (false, true);
        }
        if is_usual && is_first && self.times_step && step.duration_s.is_none() {
            let message = "the program evaluates in each step, before it reports the step, so that the durations of steps contain their \
                 evaluations; to time the steps alone, let the program report duration_s, or the phases train and evaluate";
            let at_s = self.end_s(step);
            self.warn("evaluates", message.to_owned(), at_s, events);
        } else if is_usual && next.is_some_and(|next| next != number) {
            // It was the evaluation of a step that is not reported.
            self.times_step = false;
        }
    }

    /// Leaves out the durations of steps that were reported together with the loss of an evaluation, up to this one.
    pub(super) fn leave_out_times_up_to(&mut self, newest: &Logged, events: &mut Vec<(f64, Event)>) {
        if !self.times_step || newest.step.duration_s.is_some() {
            return;
        }
        self.times_step = false;
        let message = format!(
            "steps up to step {} were reported together with the loss of an evaluation, so their durations are unknown: such steps are left \
                 out of statistics; let the program flush each line, or report duration_s",
            newest.number
        );
        let at_s = self.end_s(&newest.step);
        self.warn("evaluated", message, at_s, events);
    }

    /// Warns if no step of several has a duration, and evaluations are the reason.
    pub(super) fn warn_of_hidden_times(&mut self, now_s: f64, events: &mut Vec<(f64, Event)>) {
        let has_several = self.recent.count() > 1;
        if self.hides_times && has_several && !self.recent.has_timed() {
            let message = "no step has a duration: before each of them, the program also made an evaluation, and it is unknown when that \
                 began; let the program print steps more often than it evaluates, or report duration_s of the step alone, or the phases train \
                 and evaluate";
            self.warn("evaluated", message.to_owned(), now_s, events);
        }
    }

    /// Takes an evaluation that is reported later than a step after it: the time of that step contains the evaluation.
    fn evaluated_before(&mut self, at_s: f64, events: &mut Vec<(f64, Event)>) {
        self.log_waiting(events);
        let during = self.recent.during(at_s).copied();
        if let Some(mut logged) = during.filter(|logged| logged.is_timed && logged.step.duration_s.is_none()) {
            logged.is_timed = false;
            self.hides_times = true;
            self.recent.keep(logged);
            self.log(logged, events);
        }
    }
}
