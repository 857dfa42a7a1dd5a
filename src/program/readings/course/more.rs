//! What is reported of a step later: by another line of its source, or by another source, whose lines may be late.

use super::recent::MOST_KEPT;
use super::{Course, Event, FoundStep, Logged};

impl Course {
    /// A step that more may be reported of.
    pub(super) fn known(&self, number: u64) -> Option<&Logged> {
        match self.waiting.binary_search_by_key(&number, |waiting| waiting.number) {
            Ok(place) => self.waiting.get(place),
            Err(_) => self.recent.get(number),
        }
    }

    /// Whether a step without a phase is a step of the training, whatever the phase is now: its source comes to it later than another one.
    pub(super) fn is_late_step_of_training(&self, source: usize, step: &FoundStep) -> bool {
        let evaluates = self.named.is_some_and(|named| !named.is_training());
        let Some(number) = step.step.filter(|_| evaluates && step.phase.is_none()) else { return false };
        let number = self.steps.number_of(source, number);
        // Without a step of the training before it, only its time tells it from a step of the evaluation.
        let newest = self.steps.newest_of(source);
        newest.map_or(step.at_s < self.since_s, |newest| newest < number) && self.known(number).is_some()
    }

    /// Adds further values to a known step, such as its loss or its epoch from a line of its own, or its units from another source.
    pub(super) fn more_of(&mut self, source: usize, number: u64, more: FoundStep, events: &mut Vec<(f64, Event)>) {
        let is_newest = self.newest().is_some_and(|newest| newest.number == number);
        let place = self.waiting.binary_search_by_key(&number, |waiting| waiting.number).ok();
        let known = match place {
            Some(place) => self.waiting.get_mut(place),
            None => self.recent.get_mut(number),
        };
        let Some(known) = known else { return };
        let before = format!("{:?}", known.event());
        if let (None, Some(epoch)) = (known.step.epoch, more.epoch) {
            known.step.epoch = more.epoch;
            known.epoch = self.epochs.number_of(epoch);
            self.epoch = if is_newest { Some(known.epoch) } else { self.epoch.max(Some(known.epoch)) };
        }
        self.precedence.join(source, &mut known.step, &more);
        known.duration_s = known.step.duration_s.unwrap_or(known.duration_s);
        known.is_timed |= known.step.duration_s.is_some();
        let mut logged = [*known];
        // Compared as texts, because NaN differs from itself but need not be logged again.
        if place.is_none() && before != format!("{:?}", logged[0].event()) {
            if let Some(duration_s) = logged[0].step.duration_s {
                self.leave_out_impossible_waits(&mut logged, duration_s, events);
                self.recent.keep(logged[0]);
            }
            self.log(logged[0], events);
            self.add_late_loss(&logged[0], events);
        }
    }

    /// Logs a step that no source had reported when another source reported a later one.
    pub(super) fn log_late(
        &mut self,
        source: usize,
        number: u64,
        epoch: Option<u32>,
        step: FoundStep,
        events: &mut Vec<(f64, Event)>,
    ) {
        self.log_waiting(events);
        if self.recent.may_be_forgotten(number) {
            let message = format!(
                "step {number} was reported more than {MOST_KEPT} steps later than by another source: what is reported so late is left out; \
                     let the program write its lines when a step ends"
            );
            let at_s = self.end_s(&step);
            return self.warn("forgotten", message, at_s, events);
        }
        let Some(next) = self.recent.after(number) else { return };
        let (epoch, warm_up) = (epoch.unwrap_or(next.epoch), next.warm_up);
        let (duration_s, is_timed) = (step.duration_s.unwrap_or(0.0), step.duration_s.is_some());
        let mut logged = [Logged { step, number, epoch, advance: 1, duration_s, is_timed, warm_up }];
        if is_timed {
            self.leave_out_impossible_waits(&mut logged, duration_s, events);
        }
        self.precedence.join(source, &mut FoundStep::default(), &step);
        self.first = self.first.min(Some(number));
        self.recent.keep(logged[0]);
        self.log(logged[0], events);
        self.add_late_loss(&logged[0], events);
    }
}
