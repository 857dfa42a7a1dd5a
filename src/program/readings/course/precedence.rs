//! Which source counts if several report the same value of a step.

use super::FoundStep;

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
