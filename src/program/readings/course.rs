//! The course of a run: turns what a program reported into steps with durations and warm-up.
//!
//! A step's duration is the one that the program reports. Otherwise it is the time since the previous reported step, divided by the number
//! of steps in between, since many programs log only every tenth step. Steps with the same time, because they were read together, share
//! that duration. A time that contains something else (the program's start, an evaluation, a restart) gives no duration: such a step is
//! recorded as warm-up.
//!
//! Several sources may report the same steps, each something else of them. Step numbers are compared within a source, and what a source
//! reports of a step is added to what others have reported of it, even if these have come further.

mod epochs;
mod evaluated;
mod more;
mod precedence;
mod recent;
mod withdrawn;

use std::collections::{BTreeMap, HashSet};

use evaluated::EvaluatedFirst;
use precedence::Precedence;
use recent::Recent;

use super::evaluation::Evaluation;
use super::fields::can_wait;
use super::keys::{Keys, Refused, TRAINING_LOSS};
use super::logged::{Logged, stored_units};
use super::losses::Losses;
use super::numbers::{Epochs, Steps};
use super::program_clock::ProgramClock;
use super::warm_up::WarmUpSearch;
use super::{Found, FoundStep, NamedPhase};
use crate::plan::{Key, WarmUp};
use crate::protocol::{Event, Phase, UNSTORED_UNITS, check_duration, loss_not_finite};

/// Steps that are reported together may be read this long after they ended.
const READ_LATE_S: f64 = 0.5;
/// The most steps that are kept until it is known whether the times that the program reports are right.
const MOST_UNSURE: usize = 10_000;

/// The course of a run so far.
pub struct Course {
    warm_up: WarmUpSearch,
    started_s: f64,
    /// When the last step or phase ended, and whether all time since then belongs to a step.
    since_s: f64,
    times_step: bool,
    /// The machine's clock was set during the current step: times up to the first of these two times are from the old clock, times from the
    /// second one on are from the new clock.
    set: Option<(f64, f64)>,
    /// The number of the first reported step.
    first: Option<u64>,
    /// The number of the step that was logged last; `None` after the program went back.
    last: Option<u64>,
    recent: Recent,
    /// Steps without a duration that have the same time; the next step with another time gives them their duration.
    waiting: Vec<Logged>,
    /// `Some` if the loss of an evaluation was reported at the same time as the waiting steps: true if no step can have been made between the
    /// newest of them and the evaluation.
    evaluated_together: Option<bool>,
    evaluated_first: EvaluatedFirst,
    /// Whether steps have no durations because of evaluations.
    hides_times: bool,
    /// Whether the program reports only some of its steps.
    skips_steps: bool,
    steps: Steps,
    precedence: Precedence,
    epochs: Epochs,
    /// The epoch of the next step, unless it is reported with the step: that of the step before, or by a line that names an epoch.
    epoch: Option<u32>,
    /// Whether such lines follow the steps of their epoch.
    names_follow: bool,
    /// Whether the next step is the first one since an epoch began, at the time `since_s`.
    begins: bool,
    /// The phase that was logged last.
    phase: Option<Phase>,
    /// The phase that the program named last, unless a step has ended it since, and whether it ever named the training.
    named: Option<NamedPhase>,
    names_training: bool,
    evaluation: Evaluation,
    losses: Losses,
    /// The epoch of the newest step that is complete (its source has reported a later one), and when that step ended.
    completed: Option<(u32, f64)>,
    /// The epoch of the newest loss that was reported after a later step.
    late_epoch: Option<u32>,
    keys: Keys,
    /// Of each epoch, the newest training loss that the program reports itself, with its time.
    own_losses: BTreeMap<Option<u32>, (f64, Event)>,
    /// The first step with a reported duration, and the sum of the durations of the steps after it.
    reported: Option<(FoundStep, f64)>,
    /// The clock of the times that the program reports, and the steps that were logged with such times before it was known to be right.
    clock: ProgramClock,
    unsure: Vec<Logged>,
    /// The kinds of warnings that were already given, and the keys that were refused.
    warned: HashSet<Key>,
}

impl Course {
    /// The course of a program that starts at this time.
    pub fn new(started_s: f64, warm_up: WarmUp) -> Self {
        Self {
            warm_up: WarmUpSearch::new(warm_up),
            started_s,
            since_s: started_s,
            times_step: false,
            set: None,
            first: None,
            last: None,
            recent: Recent::default(),
            waiting: Vec::new(),
            evaluated_together: None,
            evaluated_first: EvaluatedFirst::default(),
            hides_times: false,
            skips_steps: false,
            steps: Steps::default(),
            precedence: Precedence::default(),
            epochs: Epochs::default(),
            epoch: None,
            names_follow: true,
            begins: false,
            phase: None,
            named: None,
            names_training: false,
            evaluation: Evaluation::default(),
            losses: Losses::default(),
            completed: None,
            late_epoch: None,
            keys: Keys::default(),
            own_losses: BTreeMap::new(),
            reported: None,
            clock: ProgramClock::new(started_s),
            unsure: Vec::new(),
            warned: HashSet::new(),
        }
    }

    /// The machine's clock was set by `by_s` between these two times: the duration of the current step is unknown.
    pub fn clock_set(&mut self, before_s: f64, after_s: f64, by_s: f64) {
        self.set = Some((after_s - by_s, before_s + by_s));
        self.started_s += by_s;
        self.clock.machine_clock_set(by_s);
    }

    /// Processes what the only source of a program found since the last call, as [`Self::take_of_sources`] does.
    pub fn take(&mut self, found: &mut Vec<Found>, now_s: f64, events: &mut Vec<(f64, Event)>) {
        let mut of_source: Vec<(usize, Found)> = found.drain(..).map(|found| (0, found)).collect();
        self.take_of_sources(&mut of_source, now_s, events);
    }

    /// Processes what was found since the last call, each with the number of its source, and adds the events of the run's log with their
    /// times. If several sources report the same field of a step, that with the smallest number counts.
    pub fn take_of_sources(&mut self, found: &mut Vec<(usize, Found)>, now_s: f64, events: &mut Vec<(f64, Event)>) {
        let impossible = self.clock.compare(found.iter().map(|(_, found)| found), now_s);
        events.extend(impossible.map(|message| (now_s, Event::Warning { message })));
        self.log_unsure_again(events);
        self.steps.look_ahead(found);
        for (source, found) in found.drain(..) {
            match found {
                Found::Step(step) => self.step(source, step, events),
                Found::StepsWithdrawn => self.withdraw_steps(now_s, events),
                Found::Reading { key, value, step, epoch } => match self.keys.add(&key) {
                    Ok(()) => {
                        let is_of_training = step.is_none() && self.trains_without_losses();
                        let key = if is_of_training { self.keys.of_training(key) } else { key };
                        let is_own_loss = step.is_none() && key == TRAINING_LOSS;
                        let step = step.map(|step| self.steps.number_of(source, step));
                        let epoch = epoch.map(|epoch| self.epochs.number_of(epoch));
                        let reading = (now_s, Event::Reading { key, value, epoch, step });
                        if is_own_loss {
                            self.own_losses.insert(epoch, reading.clone());
                        }
                        events.push(reading);
                    }
                    Err(Refused { kind, message }) => self.warn(&kind, message, now_s, events),
                },
                Found::Phase { phase, at_s } => self.enter(phase, at_s, Some(now_s), events),
                Found::Evaluated { step, at_s } => self.evaluated(source, step, at_s, now_s, events),
                Found::Begins { at_s } => self.epoch_begins(at_s, now_s, events),
                Found::Epoch(epoch) => self.named_epoch(epoch, events),
                Found::Untaken(_) => {}
                Found::Warning(message) => events.push((now_s, Event::Warning { message })),
            }
        }
        // What is found next may have the same rounded time.
        if !self.newest_waits_in_second() {
            self.log_waiting(events);
        }
    }

    /// Whether there was neither a step nor a reading.
    pub fn is_empty(&self) -> bool {
        self.first.is_none() && self.keys.is_empty() && !self.evaluation.has_losses()
    }

    /// Gives the last events, once the program has ended.
    pub fn finish(&mut self, now_s: f64, events: &mut Vec<(f64, Event)>) {
        self.log_waiting(events);
        self.clock.end();
        self.log_unsure_again(events);
        events.extend(self.evaluation.end(&self.keys));
        if let Some(last) = self.take_last() {
            self.add_loss(&last, events);
            if let Some(epoch) = self.late_epoch.filter(|epoch| *epoch != last.epoch) {
                self.end_epoch(epoch, now_s, events);
            }
            self.end_epoch(last.epoch, now_s, events);
            let since_s = |first: &FoundStep| (self.end_s(&last.step) - self.end_s(first)).max(0.0);
            let late = self.reported.filter(|(first, reported_s)| *reported_s > 2.0 * since_s(first) + READ_LATE_S);
            let life_s = (now_s - self.started_s).max(0.0);
            if let Some((_, reported_s)) = late.filter(|(_, reported_s)| *reported_s > life_s + READ_LATE_S) {
                let message = format!(
                    "the program reported {reported_s:.1} s of steps but ran for only {life_s:.1} s: its step times are impossible; report \
                         milliseconds as duration_ms"
                );
                self.warn("late", message, now_s, events);
            } else if let Some((_, reported_s)) = late {
                let message = format!(
                    "{reported_s:.1} s of steps were reported together, after they had ended, so their energy, clocks and load are unknown; \
                         let the program report each step when it ends, or with its time_s"
                );
                self.warn("late", message, now_s, events);
            }
            self.warn_of_hidden_times(now_s, events);
            if self.warm_up.is_unfinished() {
                let message = "the end of the warm-up was not found, so no step counts: step times were still changing, or there were \
                     too few steps; let the program run longer, or set measure.warm_up_steps";
                self.warn("settled", message.to_owned(), now_s, events);
            }
        }
    }

    /// The time at which a step ended.
    fn end_s(&self, step: &FoundStep) -> f64 {
        self.clock.time_s(step.at_s, step.read_s)
    }

    /// Logs a step, and keeps it as long as its reported time may be wrong.
    fn log(&mut self, logged: Logged, events: &mut Vec<(f64, Event)>) {
        if let Some(units) = logged.step.units.filter(|units| stored_units(*units) == UNSTORED_UNITS) {
            let message = format!(
                "units is {units} in step {}, but must be a whole number below {UNSTORED_UNITS}: such units are left out, and the run has no \
                     units per second; report them in another unit, such as MB in place of GB or bytes",
                logged.number
            );
            let at_s = self.end_s(&logged.step);
            self.warn("units", message, at_s, events);
        }
        let is_unsure = logged.step.read_s.is_some() && self.clock.is_right().is_none();
        if is_unsure && self.unsure.len() < MOST_UNSURE {
            self.unsure.push(logged);
        }
        events.push((self.end_s(&logged.step), logged.event()));
    }

    /// Logs the steps that were kept again, with the times at which their lines were read, once their reported times are known to be wrong.
    fn log_unsure_again(&mut self, events: &mut Vec<(f64, Event)>) {
        if let Some(is_right) = self.clock.is_right() {
            let unsure = std::mem::take(&mut self.unsure).into_iter().filter(|_| !is_right);
            // More may have been reported of a step since.
            let newest = |logged: Logged| self.recent.get(logged.number).copied().unwrap_or(logged);
            events.extend(unsure.map(newest).map(|logged| (self.end_s(&logged.step), logged.event())));
        }
    }

    fn warn(&mut self, kind: &str, message: String, at_s: f64, events: &mut Vec<(f64, Event)>) {
        if self.warned.insert(kind.into()) {
            events.push((at_s, Event::Warning { message }));
        }
    }

    /// The step that was reported last.
    fn newest(&self) -> Option<&Logged> {
        self.waiting.last().or_else(|| self.recent.get(self.last?))
    }

    /// The step that was logged last, which is complete: its source reports a later one, or the program has ended.
    fn take_last(&mut self) -> Option<Logged> {
        let number = self.last.take()?;
        self.recent.get(number).copied()
    }

    /// Begins a phase that the program names, unless it is the current one.
    fn enter(&mut self, phase: NamedPhase, at_s: f64, read_s: Option<f64>, events: &mut Vec<(f64, Event)>) {
        self.names_training |= phase.is_training();
        if self.named.is_some_and(|named| named.is_continued_by(phase)) {
            return;
        }
        self.log_waiting(events);
        events.extend(self.evaluation.end(&self.keys));
        self.named = Some(phase);
        (self.since_s, self.times_step) = (at_s, phase.is_training());
        // The phase of training is known only after a first step.
        self.phase = (!self.times_step).then_some(phase.phase);
        let began_s = self.clock.time_s(at_s, read_s);
        events.extend(self.phase.map(|phase| (began_s, Event::Phase { phase })));
    }

    /// The phase of a step other than the training. A phase that is named together with the step began when the step before ended. The next
    /// step of a program that never names the training ends any other phase, and so does a step that continues the training's numbers.
    fn other_phase(&mut self, step: &FoundStep, events: &mut Vec<(f64, Event)>) -> Option<NamedPhase> {
        match step.phase {
            Some(phase) if !phase.is_training() => {
                self.log_waiting(events);
                self.enter(phase, self.since_s, step.read_s, events);
            }
            None if self.names_training && !self.advances(step) => {}
            // When the training went on is unknown, so the time since the other phase is not time of this step.
            phase => {
                self.names_training |= phase.is_some();
                if self.named.is_some_and(|named| !named.is_training()) {
                    events.extend(self.evaluation.end(&self.keys));
                }
                self.named = phase;
            }
        }
        self.named.filter(|named| !named.is_training())
    }

    /// Whether a step has a later number or epoch than the newest step of the training.
    fn advances(&self, step: &FoundStep) -> bool {
        let Some(Logged { step: newest, .. }) = self.newest() else { return false };
        step.step.zip(newest.step).is_some_and(|(number, newest)| number > newest)
            || step.epoch.zip(newest.epoch).is_some_and(|(epoch, newest)| epoch > newest)
    }

    /// Takes a step of another phase than the training: of such a step only the loss in an evaluation is kept.
    fn step_of_other_phase(&mut self, step: &FoundStep, phase: NamedPhase, events: &mut Vec<(f64, Event)>) {
        let (at_s, newest_epoch) = (self.end_s(step), self.newest().map(|newest| newest.epoch));
        self.since_s = step.at_s;
        if let Some(name) = step.epoch {
            self.named_epoch(name, events);
        }
        let reported_epoch = step.epoch.map(|epoch| self.epochs.number_of(epoch));
        let epoch = reported_epoch.or(newest_epoch).or(self.epoch).unwrap_or(1);
        let loss = step.loss.zip(phase.loss_key());
        if let Some((loss, key)) = loss {
            if self.evaluation.epoch() != Some(epoch) {
                events.extend(self.evaluation.end(&self.keys));
            }
            self.evaluation.add(key, epoch, loss, step.units.unwrap_or(1.0), at_s);
        }
        if loss.is_none() || step.duration_s.is_some() || step.wait_s.is_some() {
            let name = phase.name;
            let step = step.step.map_or_else(|| "a step".to_owned(), |step| format!("step {step}"));
            let message = format!(
                "{step} was reported in the phase {name}, so it does not count as a step of the training: of such steps only the losses of \
                     evaluations are kept; report the phase train before steps of the training"
            );
            self.warn("phase", message, at_s, events);
        }
    }

    fn step(&mut self, source: usize, mut step: FoundStep, events: &mut Vec<(f64, Event)>) {
        let goes_on = step.phase.is_some() && self.named.is_some_and(|named| !named.is_training());
        if !self.is_late_step_of_training(source, &step)
            && let Some(phase) = self.other_phase(&step, events)
        {
            return self.step_of_other_phase(&step, phase, events);
        }
        let reported_epoch = step.epoch.map(|epoch| self.epochs.number_of(epoch));
        let named_epoch = self.epoch.unwrap_or(1);
        let epoch = reported_epoch.unwrap_or(named_epoch);
        let newest = self.newest().copied();
        let (number, back_from) = self.steps.next(source, &step, (epoch, named_epoch), newest.as_ref());
        if step.loss.is_some_and(|loss| !loss.is_finite()) {
            let at_s = self.end_s(&step);
            self.warn("loss", loss_not_finite(number), at_s, events);
        }
        let newest = newest.map(|newest| newest.number);
        let (mut advance, mut skipped) = (1, false);
        if let Some(from) = back_from {
            self.go_back(from, number, &step, events);
        } else if self.known(number).is_some() {
            // With this line the training goes on, and the next step begins.
            if goes_on && newest == Some(number) {
                (self.since_s, self.times_step) = (step.at_s, true);
            }
            return self.more_of(source, number, step, events);
        } else if self.steps.is_behind(source) && newest.is_some_and(|newest| number > newest.saturating_add(1)) {
            // The source is late: the program has gone back since, and repeats this step.
            return;
        } else if newest.is_some_and(|newest| number < newest) {
            return self.log_late(source, number, reported_epoch, step, events);
        } else {
            skipped = std::mem::replace(&mut self.skips_steps, number - newest.unwrap_or(0) > 1);
            advance = newest.map_or(1, |newest| number - newest);
            self.first = self.first.or(Some(number));
        }
        let shares_time = |waiting: &Logged| waiting.step.at_s == step.at_s && step.duration_s.is_none();
        if self.waiting.last().is_some_and(|waiting| !shares_time(waiting)) {
            self.log_all_of_time(events);
        }
        if self.may_hide_steps(&step, advance, skipped) {
            self.log_waiting(events);
            self.times_step = false;
        }
        self.ends_after_evaluation(source, number, &mut step, events);
        let advance = self.advance_of(source, &step, advance);
        self.epoch = reported_epoch.or(self.epoch);
        self.precedence.join(source, &mut FoundStep::default(), &step);
        self.waiting.push(Logged { step, number, epoch, advance, duration_s: 0.0, is_timed: false, warm_up: true });
        if step.duration_s.is_some() {
            self.log_waiting(events);
        }
    }

    /// Goes back to an earlier step: the program repeats this step and those after it.
    fn go_back(&mut self, from: u64, number: u64, step: &FoundStep, events: &mut Vec<(f64, Event)>) {
        self.log_waiting(events);
        self.times_step = false;
        // Notes on several runs join their numbers: "step 5 to 30 was followed by step 1 to 29".
        let message = format!(
            "step numbers went back, as step {from} was followed by step {number}: the program restarted from a checkpoint, or counts steps \
                 from the start of each epoch without reporting the epoch; repeated step numbers replace the earlier ones"
        );
        let at_s = self.end_s(step);
        self.warn("restart", message, at_s, events);
        if let Some(last) = self.take_last() {
            self.add_loss(&last, events);
        }
        self.losses.forget_from(number);
        self.completed = None;
        self.recent.drop_from(number);
    }

    /// Leaves out the waits of steps that waited longer than the time in which they were made.
    fn leave_out_impossible_waits(&mut self, steps: &mut [Logged], most_s: f64, events: &mut Vec<(f64, Event)>) {
        let waits_s: f64 = steps.iter().filter_map(|logged| logged.step.wait_s).sum();
        let Some(newest) = steps.last().filter(|_| !can_wait(waits_s, most_s)) else { return };
        let message = format!(
            "the program reported {waits_s:.3} s of waiting for step {}, which took {most_s:.3} s at most: impossible waits are left out; \
                 let wait_s be the part of the step's duration that was spent waiting for data",
            newest.number
        );
        let at_s = self.end_s(&newest.step);
        self.warn("wait", message, at_s, events);
        steps.iter_mut().for_each(|logged| logged.step.wait_s = None);
    }

    /// Whether the newest step has the rounded time of a second and no duration, so that it shares the duration of this second.
    fn newest_waits_in_second(&self) -> bool {
        self.waiting.last().is_some_and(|waiting| waiting.step.is_rounded && waiting.step.duration_s.is_none())
    }

    /// Logs the steps that waited for other steps with the same time, although more may come.
    fn log_waiting(&mut self, events: &mut Vec<(f64, Event)>) {
        // The steps so far fill only a part of their second.
        self.times_step &= !self.newest_waits_in_second();
        self.log_all_of_time(events);
    }

    /// Logs the steps that waited for other steps with the same time: they are all that have it.
    fn log_all_of_time(&mut self, events: &mut Vec<(f64, Event)>) {
        let mut waiting = std::mem::take(&mut self.waiting);
        let Some(newest) = waiting.last().copied() else { return };
        let (number, end_s) = (newest.number, newest.step.at_s);
        let steps = waiting.iter().fold(0_u64, |steps, waiting| steps.saturating_add(waiting.advance));
        let passed_s = end_s - self.since_s;
        let since_s = self.since_s;
        let is_set = self.set.take_if(|(from_s, to_s)| since_s <= *from_s && end_s >= *to_s).is_some();
        let can_be = !is_set && passed_s > 0.0 && check_duration("duration_s", passed_s).is_ok();
        let each_s = can_be.then(|| passed_s / steps as f64);
        let evaluated = self.evaluated_together.take();
        if evaluated.is_some() && waiting.len() > 1 {
            self.leave_out_times_up_to(&newest, events);
        }
        if self.times_step && each_s.is_none() && !is_set && newest.step.duration_s.is_none() {
            let message = format!(
                "no time passed before step {number}, or the clock was set back: such steps are left out of statistics"
            );
            let at_s = self.end_s(&newest.step);
            self.warn("clock", message, at_s, events);
        }
        let alone_s = newest.step.duration_s.filter(|_| waiting.len() == 1);
        if let Some(most_s) = alone_s.or(each_s.map(|_| passed_s + READ_LATE_S)) {
            self.leave_out_impossible_waits(&mut waiting, most_s, events);
        }
        for mut logged in waiting {
            let reported_s = logged.step.duration_s;
            self.reported = match (self.reported, reported_s) {
                (Some((first, sum_s)), Some(reported_s)) => Some((first, sum_s + reported_s)),
                (None, Some(_)) => Some((logged.step, 0.0)),
                (reported, None) => reported,
            };
            logged.is_timed = reported_s.is_some() || each_s.is_some() && self.times_step;
            logged.duration_s = reported_s.or(each_s).unwrap_or(0.0);
            logged.warm_up = self.warm_up.contains(logged.number, self.first.unwrap_or(logged.number));
            let phase = if logged.is_excluded() { Phase::WarmUp } else { Phase::Steady };
            if self.phase != Some(phase) {
                self.phase = Some(phase);
                let at_s = self.end_s(&logged.step);
                let began_s = reported_s.map_or(self.since_s, |reported_s| end_s - reported_s) + (at_s - end_s);
                events.push((began_s.max(self.started_s).min(at_s).max(0.0), Event::Phase { phase }));
            }
            if let Some(last) = self.take_last() {
                self.add_loss(&last, events);
            }
            self.log(logged, events);
            if logged.is_timed && logged.step.warm_up != Some(true) {
                self.warm_up.judge(&logged);
            }
            self.last = Some(logged.number);
            self.recent.keep(logged);
            self.since_s =
                if each_s.is_some() { self.since_s + logged.duration_s * logged.advance as f64 } else { end_s };
        }
        (self.since_s, self.times_step) = (end_s, evaluated.unwrap_or(true));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "course_tests.rs"]
mod tests;
