//! The course of a run: from what a program said to steps with durations and warm-up.
//!
//! A step's duration is what the program says it is. Otherwise it is the time since the step before, divided by the steps between,
//! for many programs log every tenth step only. Steps that share a time, because they were read at once, share that duration. A
//! time that holds something else (the program's start, an evaluation, a restart) times no step: such a step is recorded as warm-up.

use std::collections::HashSet;

use super::{Found, FoundStep};
use crate::analysis::has_warmed_up;
use crate::plan::Key;
use crate::protocol::{Event, Phase, check_duration};

/// Different keys of readings that a run may have.
const MOST_KEYS: usize = 1_000;
/// Detection of the warm-up judges at the ends of blocks: so many steps, and later this share of all.
const BLOCK: usize = 8;
const BLOCK_SHARE: usize = 8;
/// Steps that are said together may be read so much later than they ended.
const READ_LATE_S: f64 = 0.5;
/// Detection gives up after so many steps.
const LATEST_WARM_UP: usize = 20_000;

/// Which steps at the start of a run statistics leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmUp {
    /// So many.
    Steps(u64),
    /// Those until step times have settled, by [`has_warmed_up`].
    Found,
}

/// A run so far.
pub struct Course {
    warm_up: WarmUp,
    started_s: f64,
    /// When the last step or phase ended, and whether all time since then is a step's.
    since_s: f64,
    times_step: bool,
    /// The machine's clock was set: times until the first are by the old clock, those from the second on by the new one. The step during
    /// which it was has not ended yet.
    set: Option<(f64, f64)>,
    /// The number of the first step that was said.
    first: Option<u64>,
    /// The last step, as it was logged.
    last: Option<Logged>,
    /// Steps without a duration that share a time; the next one with another time gives them theirs.
    waiting: Vec<Logged>,
    steps: Steps,
    epochs: Epochs,
    /// Durations of the steps by which warm-up is judged, and how many there are when it is judged next.
    durations_s: Vec<f64>,
    judge_at: usize,
    has_settled: bool,
    /// The phase that was logged last.
    phase: Option<Phase>,
    loss: EpochLoss,
    keys: HashSet<Key>,
    /// When the first step that said its duration ended, and the durations of those after it.
    said: Option<(f64, f64)>,
    /// Kinds of warnings that were said.
    warned: HashSet<&'static str>,
}

impl Course {
    /// The course of a program that starts at a time.
    pub fn new(started_s: f64, warm_up: WarmUp) -> Self {
        Self {
            warm_up,
            started_s,
            since_s: started_s,
            times_step: false,
            set: None,
            first: None,
            last: None,
            waiting: Vec::new(),
            steps: Steps::default(),
            epochs: Epochs::default(),
            durations_s: Vec::new(),
            judge_at: BLOCK,
            has_settled: false,
            phase: None,
            loss: EpochLoss::default(),
            keys: HashSet::new(),
            said: None,
            warned: HashSet::new(),
        }
    }

    /// The machine's clock was set by `by_s` between two times that it told: the duration of the step during which it was is not known.
    pub fn clock_set(&mut self, before_s: f64, after_s: f64, by_s: f64) {
        self.set = Some((after_s - by_s, before_s + by_s));
    }

    /// Takes what was found since the last call, and gives the events of the run's log with their times.
    pub fn take(&mut self, found: &mut Vec<Found>, now_s: f64, events: &mut Vec<(f64, Event)>) {
        for found in found.drain(..) {
            match found {
                Found::Step(step) => self.step(step, events),
                Found::Reading { key, value, step, epoch } => {
                    if self.knows(&key, now_s, events) {
                        let step = step.map(|step| self.steps.number_of(step));
                        let epoch = epoch.map(|epoch| self.epochs.number_of(epoch));
                        events.push((now_s, Event::Reading { key, value, epoch, step }));
                    }
                }
                Found::Phase { phase, at_s } => {
                    self.log_waiting(events);
                    self.since_s = at_s;
                    self.times_step = matches!(phase, Phase::WarmUp | Phase::Steady);
                    // Which phase training is in is known once there is a step.
                    self.phase = (!self.times_step).then_some(phase);
                    events.extend(self.phase.map(|phase| (at_s, Event::Phase { phase })));
                }
                Found::Untaken(_) => {}
                Found::Warning(message) => events.push((now_s, Event::Warning { message })),
            }
        }
        self.log_waiting(events);
    }

    /// Gives the last events, once the program has ended.
    pub fn finish(&mut self, now_s: f64, events: &mut Vec<(f64, Event)>) {
        self.log_waiting(events);
        if let Some(last) = self.last.take() {
            self.loss.add(&last);
            events.extend(self.loss.end(now_s, &self.keys));
            let late =
                self.said.filter(|(first_s, said_s)| *said_s > 2.0 * (last.step.at_s - first_s).max(0.0) + READ_LATE_S);
            let life_s = (now_s - self.started_s).max(0.0);
            if let Some((_, said_s)) = late.filter(|(_, said_s)| *said_s > life_s + READ_LATE_S) {
                let message = format!(
                    "{said_s:.1} s of steps were said by a program that ran for {life_s:.1} s: its step times are impossible; say \
                     milliseconds as duration_ms"
                );
                self.warn("late", message, now_s, events);
            } else if let Some((_, said_s)) = late {
                let message = format!(
                    "{said_s:.1} s of steps were said at once, after they had ended: which energy, clocks and load were theirs is not \
                     known; let the program say each step when it ends, or with its time_s"
                );
                self.warn("late", message, now_s, events);
            }
            if self.warm_up == WarmUp::Found && !self.has_settled {
                let message = "the end of the warm-up was not found, so no step counts: step times were still changing, or there \
                               were too few; let the program run longer, or give measure.warm_up_steps";
                self.warn("settled", message.to_owned(), now_s, events);
            }
        }
    }

    /// Whether a reading may have this key: there is a limit to how many keys there are.
    fn knows(&mut self, key: &Key, now_s: f64, events: &mut Vec<(f64, Event)>) -> bool {
        if self.keys.contains(key) {
            return true;
        }
        if self.keys.len() == MOST_KEYS {
            let message =
                format!("the program has more than {MOST_KEYS} different readings: from {key} on, they are left out");
            self.warn("keys", message, now_s, events);
            return false;
        }
        self.keys.insert(key.clone())
    }

    fn warn(&mut self, kind: &'static str, message: String, at_s: f64, events: &mut Vec<(f64, Event)>) {
        if self.warned.insert(kind) {
            events.push((at_s, Event::Warning { message }));
        }
    }

    fn step(&mut self, step: FoundStep, events: &mut Vec<(f64, Event)>) {
        let newest = self.waiting.last().or(self.last.as_ref()).map(|newest| (newest.number, newest.epoch));
        let epoch = step.epoch.map(|epoch| self.epochs.number_of(epoch));
        let number = match step.step {
            Some(said) => self.steps.next(said, step.steps, epoch),
            None => self.steps.following(),
        };
        if step.loss.is_some_and(|loss| !loss.is_finite()) {
            self.warn("loss", format!("the loss of step {number} is not a finite number"), step.at_s, events);
        }
        let mut advance = 1;
        match newest {
            Some((newest, _)) if number == newest => return self.more_of_newest(step, events),
            Some((newest, _)) if number < newest => {
                self.log_waiting(events);
                self.times_step = false;
                let message = format!(
                    "steps went back from {newest} to {number}: the program started again from a checkpoint, or counts each epoch \
                     from the start without saying the epoch; steps that are said again replace the earlier ones"
                );
                self.warn("restart", message, step.at_s, events);
            }
            Some((newest, _)) => advance = number - newest,
            None => self.first = Some(number),
        }
        let shares_time = |waiting: &Logged| waiting.step.at_s == step.at_s && step.duration_s.is_none();
        if self.waiting.last().is_some_and(|waiting| !shares_time(waiting)) {
            self.log_waiting(events);
        }
        let epoch = epoch.or(newest.map(|(_, epoch)| epoch)).unwrap_or(1);
        self.waiting.push(Logged { step, number, epoch, advance, duration_s: 0.0, warm_up: true });
        if step.duration_s.is_some() {
            self.log_waiting(events);
        }
    }

    /// More is said of the newest step: its loss on a line of its own, its units by another file.
    fn more_of_newest(&mut self, more: FoundStep, events: &mut Vec<(f64, Event)>) {
        let is_waiting = !self.waiting.is_empty();
        let Some(newest) = self.waiting.last_mut().or(self.last.as_mut()) else { return };
        let step = &mut newest.step;
        let before = format!("{step:?}");
        (step.loss, step.units) = (more.loss.or(step.loss), more.units.or(step.units));
        (step.wait_s, step.steps) = (more.wait_s.or(step.wait_s), more.steps.or(step.steps));
        (step.duration_s, step.warm_up) = (more.duration_s.or(step.duration_s), more.warm_up.or(step.warm_up));
        // Compared as texts, for NaN differs from itself and need not be logged again.
        if !is_waiting && before != format!("{step:?}") {
            newest.duration_s = step.duration_s.unwrap_or(newest.duration_s);
            newest.warm_up = step.warm_up.unwrap_or(newest.warm_up);
            events.push((newest.step.at_s, newest.event()));
        }
    }

    /// Logs the steps that were waiting for others of their time.
    fn log_waiting(&mut self, events: &mut Vec<(f64, Event)>) {
        let waiting = std::mem::take(&mut self.waiting);
        let Some(newest) = waiting.last() else { return };
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
            self.warn("clock", message, end_s, events);
        }
        for mut logged in waiting {
            let said_s = logged.step.duration_s;
            self.said = match (self.said, said_s) {
                (Some((first_s, sum_s)), Some(said_s)) => Some((first_s, sum_s + said_s)),
                (None, Some(_)) => Some((end_s, 0.0)),
                (said, None) => said,
            };
            let is_timed = said_s.is_some() || each_s.is_some() && self.times_step;
            logged.duration_s = said_s.or(each_s).unwrap_or(0.0);
            logged.warm_up = logged.step.warm_up.unwrap_or_else(|| self.is_warm_up(logged.number)) || !is_timed;
            let phase = if logged.warm_up { Phase::WarmUp } else { Phase::Steady };
            if self.phase != Some(phase) {
                self.phase = Some(phase);
                let began_s = said_s.map_or(self.since_s, |said_s| end_s - said_s);
                events.push((began_s.min(end_s).max(0.0), Event::Phase { phase }));
            }
            if let Some(last) = self.last.take() {
                self.loss.add(&last);
                if last.epoch != logged.epoch {
                    events.extend(self.loss.end(last.step.at_s, &self.keys));
                }
            }
            events.push((end_s, logged.event()));
            if is_timed && logged.step.warm_up != Some(true) {
                self.judge(&logged);
            }
            self.last = Some(logged);
            self.since_s =
                if each_s.is_some() { self.since_s + logged.duration_s * logged.advance as f64 } else { end_s };
        }
        (self.since_s, self.times_step) = (end_s, true);
    }

    fn is_warm_up(&self, number: u64) -> bool {
        match self.warm_up {
            WarmUp::Steps(steps) => number < self.first.unwrap_or(number).saturating_add(steps),
            WarmUp::Found => !self.has_settled,
        }
    }

    /// Judges whether step times have settled, at the end of a block of them.
    fn judge(&mut self, logged: &Logged) {
        if self.warm_up != WarmUp::Found || self.has_settled {
            return;
        }
        self.durations_s.push(logged.duration_s);
        if self.durations_s.len() < self.judge_at {
            return;
        }
        self.judge_at += BLOCK.max(self.durations_s.len() / BLOCK_SHARE);
        // Short runs have steady steps too.
        let is_half = logged.step.steps.is_some_and(|steps| logged.number >= steps / 2);
        self.has_settled = is_half || self.durations_s.len() >= LATEST_WARM_UP || has_warmed_up(&self.durations_s);
        if self.has_settled {
            self.durations_s = Vec::new();
        }
    }
}

/// A step as it is logged.
#[derive(Clone, Copy, Debug)]
struct Logged {
    step: FoundStep,
    /// Counted over the run, from 1.
    number: u64,
    epoch: u32,
    /// Steps since the one that was logged before it.
    advance: u64,
    duration_s: f64,
    warm_up: bool,
}

impl Logged {
    fn event(&self) -> Event {
        let FoundStep { steps, wait_s, loss, units, .. } = self.step;
        Event::Step {
            epoch: self.epoch,
            step: self.number,
            // A count that begins anew with each epoch does not tell the end of the run.
            steps: steps.filter(|steps| *steps >= self.number).unwrap_or(0),
            duration_s: self.duration_s,
            load_wait_s: wait_s.unwrap_or(f64::NAN),
            loss: loss.unwrap_or(f64::NAN),
            units: units.unwrap_or(0.0).round() as u32,
            warm_up: self.warm_up,
        }
    }
}

/// From a program's count of steps, from 0 or 1, over the run or over each epoch, to one over the run from 1.
#[derive(Default)]
struct Steps {
    from_zero: bool,
    /// Steps of the epochs before.
    before: u64,
    /// The newest number in the program's count, from 1, where that count ends, and its epoch.
    newest: Option<(u64, Option<u64>, Option<u32>)>,
}

impl Steps {
    fn number_of(&self, said: u64) -> u64 {
        said.saturating_add(u64::from(self.from_zero)).saturating_add(self.before)
    }

    /// The number of a step that was said.
    fn next(&mut self, said: u64, end: Option<u64>, epoch: Option<u32>) -> u64 {
        self.from_zero |= said == 0 && self.newest.is_none();
        let said = said.saturating_add(u64::from(self.from_zero)).max(1);
        if let Some((newest, newest_end, newest_epoch)) = self.newest
            && said < newest
        {
            let is_next_epoch = epoch > newest_epoch && newest_epoch.is_some();
            if is_next_epoch || newest_end == Some(newest) {
                self.before = self.before.saturating_add(newest_end.unwrap_or(newest).max(newest));
            }
        }
        self.newest = Some((said, end, epoch));
        said.saturating_add(self.before)
    }

    /// The number of a step that was said without one.
    fn following(&mut self) -> u64 {
        let (newest, end, epoch) = self.newest.unwrap_or_default();
        let said = newest.saturating_add(1);
        self.newest = Some((said, end, epoch));
        said.saturating_add(self.before)
    }
}

/// From a program's count of epochs, from 0 or 1 or in fractions, to one from 1.
#[derive(Default)]
struct Epochs {
    from_zero: bool,
    in_fractions: bool,
}

impl Epochs {
    fn number_of(&mut self, said: f64) -> u32 {
        self.in_fractions |= said.fract() != 0.0;
        self.from_zero |= said == 0.0;
        if self.in_fractions {
            said.ceil().max(1.0) as u32
        } else {
            (said as u32).saturating_add(self.from_zero.into())
        }
    }
}

/// The mean loss of an epoch's steps, weighted by their units where the program says them.
#[derive(Default)]
struct EpochLoss {
    epoch: u32,
    sum: f64,
    weight: f64,
}

impl EpochLoss {
    fn add(&mut self, logged: &Logged) {
        self.epoch = logged.epoch;
        if let Some(loss) = logged.step.loss {
            let weight = logged.step.units.unwrap_or(1.0);
            (self.sum, self.weight) = (self.sum + loss * weight, self.weight + weight);
        }
    }

    /// Ends the epoch with its reading, if there was a loss and the program says none.
    fn end(&mut self, at_s: f64, keys: &HashSet<Key>) -> Option<(f64, Event)> {
        let Self { epoch, sum, weight } = std::mem::take(self);
        let is_said = keys.contains("train_loss");
        let reading = Event::Reading { key: "train_loss".into(), value: sum / weight, epoch: Some(epoch), step: None };
        (weight > 0.0 && !is_said).then_some((at_s, reading))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "course_tests.rs"]
mod tests;
