//! The step whose loss a progress bar shows. A loop may show the loss of a step before it counts the step: tqdm's `set_postfix` draws the bar at
//! once, still with the number of the step before.

/// A bar that shows its first loss this long after it was drawn without one shows the loss of a step that it has not counted. A loss that is
/// there sooner was set when the bar was made. Later on, bars that are drawn closer together show the same step.
const LEAST_STEP_S: f64 = 0.002;
/// tqdm draws a bar that counts a step this long after it drew the bar before at least, but each bar whose loss is set.
const LEAST_COUNTED_S: f64 = 0.09;

/// The end of a step that a bar shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    /// The number of the step, as the bar counts.
    pub step: u64,
    /// Whether the loss and the other values are those of the step, and not of an earlier one.
    pub has_values: bool,
}

/// Whether a program's bars show losses ahead of their counts.
#[derive(Default)]
pub(super) struct Ahead {
    is_ahead: bool,
    /// When the bar was drawn without a finished step.
    begun_s: Option<f64>,
    /// The number in the bar when it was drawn last, and the time.
    drawn: (u64, f64),
    /// The values that were shown last, as they were printed.
    values: Option<String>,
    /// The newest step of the bar.
    newest: u64,
}

impl Ahead {
    /// Takes a bar that has counted no step and shows no values.
    pub fn begins(&mut self, at_s: f64) {
        (self.begun_s, self.drawn, self.newest) = (Some(at_s), (0, at_s), 0);
    }

    /// The step whose end a bar shows that has counted this number of steps of all, with these values; `None` if it was shown before.
    pub fn ended(&mut self, (counted, steps): (u64, Option<u64>), values: &str, at_s: f64) -> Option<Ended> {
        let has_values = self.values.as_deref() != Some(values);
        if has_values {
            self.values = Some(values.to_owned());
        }
        if counted == 0 {
            let is_of_step = has_values && self.begun_s.is_some_and(|begun_s| at_s - begun_s >= LEAST_STEP_S);
            if !is_of_step {
                self.begins(at_s);
                return None;
            }
            self.is_ahead = true;
        }
        if !self.is_ahead {
            return Some(Ended { step: counted, has_values: true });
        }
        let (drawn, drawn_s) = std::mem::replace(&mut self.drawn, (counted, at_s));
        let passed_s = at_s - drawn_s;
        // The loss of the next step may be the same.
        let is_set = passed_s >= LEAST_STEP_S && (counted == drawn || passed_s < LEAST_COUNTED_S);
        let is_full = Some(counted) == steps;
        let step = if (has_values || is_set) && !is_full { counted.saturating_add(1) } else { counted };
        if step < self.newest || step == self.newest && !has_values {
            return None;
        }
        self.newest = step;
        Some(Ended { step, has_values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The steps that bars show, each with whether it has values. A bar has its number, its loss and its time; without a loss, it begins.
    fn ended(bars: &[(u64, &str, f64)]) -> Vec<Option<(u64, bool)>> {
        let mut ahead = Ahead::default();
        let one = |(counted, loss, at_s): &(u64, &str, f64)| {
            if loss.is_empty() {
                ahead.begins(*at_s);
                return None;
            }
            ahead.ended((*counted, Some(5)), loss, *at_s).map(|ended| (ended.step, ended.has_values))
        };
        bars.iter().map(one).collect()
    }

    /// A step with its loss.
    fn step(number: u64) -> Option<(u64, bool)> {
        Some((number, true))
    }

    #[test]
    fn a_loss_that_is_shown_before_its_step_is_counted_is_that_of_the_next_step() {
        let first = [(0, "", 0.0), (0, "3.1", 0.2), (1, "3.1", 0.2), (1, "2.9", 0.4), (2, "2.9", 0.4)];
        assert_eq!(ended(&first), [None, step(1), None, step(2), None]);
        // tqdm does not draw the bar again for each of many short steps.
        let short = [(0, "", 0.0), (0, "3.1", 0.02), (1, "2.9", 0.04), (2, "2.8", 0.06), (3, "2.8", 0.06)];
        assert_eq!(ended(&short), [None, step(1), step(2), step(3), None]);
        // The loss of each second step is shown.
        let second = [(0, "", 0.0), (0, "3.1", 0.2), (1, "3.1", 0.2), (2, "3.1", 0.4), (2, "2.8", 0.6)];
        assert_eq!(ended(&second), [None, step(1), None, Some((2, false)), step(3)]);
        // The losses of two steps are the same.
        let same = [(0, "", 0.0), (0, "3.1", 0.2), (1, "3.1", 0.2), (1, "3.1", 0.3), (2, "2.9", 0.4), (3, "2.9", 0.4)];
        assert_eq!(ended(&same), [None, step(1), None, Some((2, false)), step(3), None]);
        let same = [(0, "", 0.0), (0, "3.1", 0.02), (1, "3.1", 0.04), (2, "3.1", 0.06), (3, "3.1", 0.06)];
        assert_eq!(ended(&same), [None, step(1), Some((2, false)), Some((3, false)), None]);
        // A full bar is drawn again.
        let full = [(0, "", 0.0), (0, "3.1", 0.2), (4, "2.9", 1.0), (5, "2.9", 1.0), (5, "2.9", 1.5)];
        assert_eq!(ended(&full), [None, step(1), step(5), None, None]);
        // The next epoch has a bar of its own.
        let next = [(0, "", 0.0), (0, "3.1", 0.2), (1, "3.1", 0.2), (0, "", 0.3), (0, "2.9", 0.5), (1, "2.7", 0.7)];
        assert_eq!(ended(&next), [None, step(1), None, None, step(1), step(2)]);
    }

    #[test]
    fn a_loss_that_is_shown_once_its_step_is_counted_is_that_of_the_step() {
        let counted = [(0, "", 0.0), (1, "3.1", 0.2), (2, "3.1", 0.4), (2, "2.9", 0.4)];
        assert_eq!(ended(&counted), [None, step(1), step(2), step(2)]);
        // The bar was made with the loss of the epoch before, or begins again with it.
        for begun in [&[(0, "2.5", 0.0)][..], &[(0, "", 0.0), (0, "2.5", 0.0001)], &[(7, "2.5", 0.0), (0, "2.5", 0.3)]]
        {
            let bars = [begun, &[(1, "2.4", 1.0), (2, "2.3", 2.0)]].concat();
            assert_eq!(ended(&bars)[begun.len()..], [step(1), step(2)], "{begun:?}");
        }
    }
}
