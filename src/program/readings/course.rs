//! The course of a run: turns what a program reported into steps with durations and warm-up.
//!
//! A step's duration is the one that the program reports. Otherwise it is the time since the previous reported step, divided by the number
//! of steps in between, since many programs log only every tenth step. Steps with the same time, because they were read together, share
//! that duration. A time that contains something else (the program's start, an evaluation, a restart) gives no duration: such a step is
//! recorded as warm-up.

use std::cmp::Ordering;
use std::collections::HashSet;

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
use crate::protocol::{Event, Phase, UNSTORED_UNITS, check_duration};

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
    /// The last logged step.
    last: Option<Logged>,
    /// Steps without a duration that have the same time; the next step with another time gives them their duration.
    waiting: Vec<Logged>,
    steps: Steps,
    epochs: Epochs,
    /// The epoch of the next step, unless it is reported with the step: that of the step before, or by a line that names an epoch.
    epoch: Option<u32>,
    /// Whether such lines follow the steps of their epoch.
    names_follow: bool,
    /// The phase that was logged last.
    phase: Option<Phase>,
    /// The phase that the program named last, unless a step has ended it since, and whether it ever named the training.
    named: Option<NamedPhase>,
    names_training: bool,
    evaluation: Evaluation,
    losses: Losses,
    /// The epoch of the newest step of which nothing more is reported, and when that step ended.
    completed: Option<(u32, f64)>,
    keys: Keys,
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
            waiting: Vec::new(),
            steps: Steps::default(),
            epochs: Epochs::default(),
            epoch: None,
            names_follow: true,
            phase: None,
            named: None,
            names_training: false,
            evaluation: Evaluation::default(),
            losses: Losses::default(),
            completed: None,
            keys: Keys::default(),
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

    /// Processes what was found since the last call, and adds the events of the run's log with their times.
    pub fn take(&mut self, found: &mut Vec<Found>, now_s: f64, events: &mut Vec<(f64, Event)>) {
        let impossible = self.clock.compare(found, now_s);
        events.extend(impossible.map(|message| (now_s, Event::Warning { message })));
        self.log_unsure_again(events);
        for found in found.drain(..) {
            match found {
                Found::Step(step) => self.step(step, events),
                Found::Reading { key, value, step, epoch } => match self.keys.add(&key) {
                    Ok(()) => {
                        let is_of_training = step.is_none() && self.trains_without_losses();
                        let key = if is_of_training { self.keys.of_training(key) } else { key };
                        let step = step.map(|step| self.steps.number_of(step));
                        let epoch = epoch.map(|epoch| self.epochs.number_of(epoch));
                        events.push((now_s, Event::Reading { key, value, epoch, step }));
                    }
                    Err(Refused { kind, message }) => self.warn(&kind, message, now_s, events),
                },
                Found::Phase { phase, at_s } => self.enter(phase, at_s, Some(now_s), events),
                Found::Epoch(epoch) => self.named_epoch(epoch, events),
                Found::Untaken(_) => {}
                Found::Warning(message) => events.push((now_s, Event::Warning { message })),
            }
        }
        self.log_waiting(events);
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
        if let Some(last) = self.last.take() {
            self.add_loss(&last, events);
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
            if self.warm_up.is_unfinished() {
                let message = "the end of the warm-up was not found, so no step counts: step times were still changing, or there were \
                     too few steps; let the program run longer, or set measure.warm_up_steps";
                self.warn("settled", message.to_owned(), now_s, events);
            }
        }
    }

    /// Whether the program trains and has reported no loss of a step, so that a loss without a step is the newest one of the training.
    fn trains_without_losses(&self) -> bool {
        let has_loss = self.losses.has_any() || self.newest().is_some_and(|newest| newest.step.loss.is_some());
        !has_loss && self.named.is_none_or(NamedPhase::is_training)
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
            events.extend(unsure.map(|logged| (self.end_s(&logged.step), logged.event())));
        }
    }

    fn warn(&mut self, kind: &str, message: String, at_s: f64, events: &mut Vec<(f64, Event)>) {
        if self.warned.insert(kind.into()) {
            events.push((at_s, Event::Warning { message }));
        }
    }

    /// The step that was reported last.
    fn newest(&self) -> Option<&Logged> {
        self.waiting.last().or(self.last.as_ref())
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

    fn step(&mut self, step: FoundStep, events: &mut Vec<(f64, Event)>) {
        let goes_on = step.phase.is_some() && self.named.is_some_and(|named| !named.is_training());
        if let Some(phase) = self.other_phase(&step, events) {
            return self.step_of_other_phase(&step, phase, events);
        }
        let newest = self.newest().copied();
        let reported_epoch = step.epoch.map(|epoch| self.epochs.number_of(epoch));
        let named_epoch = self.epoch.unwrap_or(1);
        let epoch = reported_epoch.unwrap_or(named_epoch);
        // An epoch that is reported after its step completes this step, unless a line has named another epoch since the step.
        let completes = |newest: &Logged| {
            newest.step.step == step.step && newest.step.epoch.is_none() && newest.epoch == named_epoch
        };
        let other = newest.filter(|newest| !completes(newest));
        let order = other.map_or(Ordering::Equal, |newest| epoch.cmp(&newest.epoch));
        let number = match step.step {
            Some(number) => self.steps.next(number, step.steps, order),
            None => self.steps.following(),
        };
        if step.loss.is_some_and(|loss| !loss.is_finite()) {
            let at_s = self.end_s(&step);
            self.warn("loss", format!("the loss of step {number} is not a finite number"), at_s, events);
        }
        let mut advance = 1;
        match newest {
            Some(Logged { number: newest, .. }) if number == newest => {
                // With this line the training goes on, and the next step begins.
                if goes_on {
                    (self.since_s, self.times_step) = (step.at_s, true);
                }
                return self.more_of_newest(step, events);
            }
            Some(Logged { number: newest, .. }) if number < newest => {
                self.log_waiting(events);
                self.times_step = false;
                // Notes on several runs join their numbers: "step 5 to 30 was followed by step 1 to 29".
                let message = format!(
                    "step numbers went back, as step {newest} was followed by step {number}: the program restarted from a checkpoint, or \
                         counts steps from the start of each epoch without reporting the epoch; repeated step numbers replace the earlier \
                         ones"
                );
                let at_s = self.end_s(&step);
                self.warn("restart", message, at_s, events);
            }
            Some(Logged { number: newest, .. }) => advance = number - newest,
            None => self.first = Some(number),
        }
        let shares_time = |waiting: &Logged| waiting.step.at_s == step.at_s && step.duration_s.is_none();
        if self.waiting.last().is_some_and(|waiting| !shares_time(waiting)) {
            self.log_waiting(events);
        }
        self.epoch = reported_epoch.or(self.epoch);
        self.waiting.push(Logged { step, number, epoch, advance, duration_s: 0.0, warm_up: true });
        if step.duration_s.is_some() {
            self.log_waiting(events);
        }
    }

    /// Takes an epoch that is named without a step. A program names each epoch once it is over, such as with its accuracy, or before its steps.
    /// The name of the current epoch ends it, unless steps of the epoch follow that name.
    fn named_epoch(&mut self, name: f64, events: &mut Vec<(f64, Event)>) {
        let epoch = self.epochs.number_of(name);
        let newest = self.newest().map(|newest| (newest.epoch, newest.step.epoch.is_some()));
        let order = newest.map_or(Ordering::Greater, |(newest, _)| epoch.cmp(&newest));
        let is_reported = newest.is_some_and(|(_, is_reported)| is_reported);
        match order {
            // Part of an epoch does not end it.
            Ordering::Equal if self.names_follow && name.fract() == 0.0 => self.epoch = Some(epoch.saturating_add(1)),
            Ordering::Equal | Ordering::Greater => self.epoch = Some(epoch),
            // It is named again after the next step: it had not ended.
            Ordering::Less if !is_reported => {
                self.names_follow = false;
                self.more_of_newest(FoundStep { epoch: Some(name), ..FoundStep::default() }, events);
            }
            Ordering::Less => {}
        }
    }

    /// Adds further values to the newest step, such as its loss or its epoch from a line of its own, or its units from another file.
    fn more_of_newest(&mut self, more: FoundStep, events: &mut Vec<(f64, Event)>) {
        let is_waiting = !self.waiting.is_empty();
        let Some(newest) = self.waiting.last_mut().or(self.last.as_mut()) else { return };
        let before = format!("{:?}", newest.event());
        let step = &mut newest.step;
        if let (None, Some(epoch)) = (step.epoch, more.epoch) {
            step.epoch = more.epoch;
            newest.epoch = self.epochs.number_of(epoch);
            self.epoch = Some(newest.epoch);
        }
        (step.loss, step.units) = (more.loss.or(step.loss), more.units.or(step.units));
        (step.wait_s, step.steps) = (more.wait_s.or(step.wait_s), more.steps.or(step.steps));
        (step.duration_s, step.warm_up) = (more.duration_s.or(step.duration_s), more.warm_up.or(step.warm_up));
        newest.duration_s = step.duration_s.unwrap_or(newest.duration_s);
        newest.warm_up = step.warm_up.unwrap_or(newest.warm_up);
        // Compared as texts, because NaN differs from itself but need not be logged again.
        if !is_waiting && before != format!("{:?}", newest.event()) {
            let mut logged = [*newest];
            if let Some(duration_s) = logged[0].step.duration_s {
                self.leave_out_impossible_waits(&mut logged, duration_s, events);
                self.last = Some(logged[0]);
            }
            self.log(logged[0], events);
        }
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

    /// Logs the steps that waited for other steps with the same time.
    fn log_waiting(&mut self, events: &mut Vec<(f64, Event)>) {
        let mut waiting = std::mem::take(&mut self.waiting);
        let Some(newest) = waiting.last().copied() else { return };
        let (number, end_s) = (newest.number, newest.step.at_s);
        let steps = waiting.iter().fold(0_u64, |steps, waiting| steps.saturating_add(waiting.advance));
        let passed_s = end_s - self.since_s;
        let since_s = self.since_s;
        let is_set = self.set.take_if(|(from_s, to_s)| since_s <= *from_s && end_s >= *to_s).is_some();
        let can_be = !is_set && passed_s > 0.0 && check_duration("duration_s", passed_s).is_ok();
        let each_s = can_be.then(|| passed_s / steps as f64);
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
            let is_timed = reported_s.is_some() || each_s.is_some() && self.times_step;
            logged.duration_s = reported_s.or(each_s).unwrap_or(0.0);
            let first = self.first.unwrap_or(logged.number);
            let is_warm_up = logged.step.warm_up.unwrap_or_else(|| self.warm_up.contains(logged.number, first));
            logged.warm_up = is_warm_up || !is_timed;
            let phase = if logged.warm_up { Phase::WarmUp } else { Phase::Steady };
            if self.phase != Some(phase) {
                self.phase = Some(phase);
                let at_s = self.end_s(&logged.step);
                let began_s = reported_s.map_or(self.since_s, |reported_s| end_s - reported_s) + (at_s - end_s);
                events.push((began_s.max(self.started_s).min(at_s).max(0.0), Event::Phase { phase }));
            }
            if let Some(last) = self.last.take() {
                self.add_loss(&last, events);
                if logged.number < last.number {
                    self.losses.forget_from(logged.number);
                    self.completed = None;
                }
            }
            self.log(logged, events);
            if is_timed && logged.step.warm_up != Some(true) {
                self.warm_up.judge(&logged);
            }
            self.last = Some(logged);
            self.since_s =
                if each_s.is_some() { self.since_s + logged.duration_s * logged.advance as f64 } else { end_s };
        }
        (self.since_s, self.times_step) = (end_s, true);
    }

    /// Adds the loss of a step, if it has one, to the losses of its epoch, once nothing more is reported of the step. The epoch of the steps
    /// before ends if the step is of another one. The mean is weighted by units if the program reports them.
    fn add_loss(&mut self, logged: &Logged, events: &mut Vec<(f64, Event)>) {
        let end_s = self.end_s(&logged.step);
        let before = self.completed.replace((logged.epoch, end_s));
        if let Some((epoch, ended_s)) = before.filter(|(epoch, _)| *epoch != logged.epoch) {
            self.end_epoch(epoch, ended_s, events);
        }
        if let Some(loss) = logged.step.loss {
            self.losses.add(logged.epoch, logged.number, loss, logged.step.units.unwrap_or(1.0));
        }
    }

    /// Ends an epoch with a reading of its loss, if there was a loss and the program reports none itself.
    fn end_epoch(&mut self, epoch: u32, at_s: f64, events: &mut Vec<(f64, Event)>) {
        let loss = self.losses.end(epoch).filter(|_| !self.keys.contains(TRAINING_LOSS));
        let reading = |value| Event::Reading { key: TRAINING_LOSS.into(), value, epoch: Some(epoch), step: None };
        events.extend(loss.map(|loss| (at_s, reading(loss))));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "course_tests.rs"]
mod tests;
