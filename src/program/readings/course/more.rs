//! What is reported of a step later: by another line of its source, or by another source, whose lines may be late. If several sources report
//! the same value of a step, one of them counts.

use super::recent::MOST_KEPT;
use super::{Course, Event, FoundStep, Logged};

/// The first source, in the order of a program's sources, that has reported each field of a step. Its values count.
#[derive(Default)]
pub(super) struct Precedence {
    loss: Option<usize>,
    units: Option<usize>,
    duration_s: Option<usize>,
    wait_s: Option<usize>,
    steps: Option<usize>,
    warm_up: Option<usize>,
}

impl Precedence {
    /// Adds what a source reports of a step. A value that the step has is replaced by a value of the same source, and by one of an earlier
    /// source.
    pub fn join(&mut self, source: usize, step: &mut FoundStep, more: &FoundStep) {
        let Self { loss, units, duration_s, wait_s, steps, warm_up } = self;
        join(source, loss, &mut step.loss, more.loss);
        step.is_mean_loss |= more.is_mean_loss;
        join(source, units, &mut step.units, more.units);
        join(source, duration_s, &mut step.duration_s, more.duration_s);
        join(source, wait_s, &mut step.wait_s, more.wait_s);
        join(source, steps, &mut step.steps, more.steps);
        join(source, warm_up, &mut step.warm_up, more.warm_up);
    }
}

/// Joins a field, given the first source that has reported it.
fn join<T>(source: usize, first: &mut Option<usize>, field: &mut Option<T>, more: Option<T>) {
    if more.is_none() {
        return;
    }
    let earliest = first.map_or(source, |first| first.min(source));
    *first = Some(earliest);
    if field.is_none() || source == earliest {
        *field = more;
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_replaced_by_its_own_source_and_by_an_earlier_one_but_not_by_a_later_one() {
        let loss = |loss: f64| FoundStep { loss: Some(loss), ..FoundStep::default() };
        let (mut precedence, mut step) = (Precedence::default(), FoundStep::default());
        let mut joined = |source: usize, more: FoundStep| {
            precedence.join(source, &mut step, &more);
            (step.loss, step.units)
        };
        assert_eq!(joined(1, loss(4.0)), (Some(4.0), None));
        assert_eq!(joined(1, loss(3.0)), (Some(3.0), None));
        let with_units = FoundStep { units: Some(64.0), ..loss(9.0) };
        assert_eq!(joined(2, with_units), (Some(3.0), Some(64.0)));
        assert_eq!(joined(0, loss(2.0)), (Some(2.0), Some(64.0)));
        assert_eq!(joined(1, loss(7.0)), (Some(2.0), Some(64.0)), "the source that comes first reports losses");
        let mut next = FoundStep::default();
        precedence.join(1, &mut next, &loss(7.0));
        assert_eq!(next.loss, Some(7.0), "of this step, the source that comes first reports none");
    }
}
