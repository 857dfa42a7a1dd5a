//! The steps that a progress bar shows. A loop may set the loss of a step before it counts the step: tqdm's `set_postfix` draws the bar at once,
//! still with the number of an earlier step. tqdm draws a bar that counts ten times a second at most.
//!
//! Such a loop shows its first loss in a bar that has counted no step. Then the losses that were set since the count before are those of the steps
//! up to the next count, if there are as many of them.

/// Bars that are drawn closer together show the same step. A loss that a bar shows so soon after it was made is none of a step.
const LEAST_STEP_S: f64 = 0.002;
/// A loop that sets losses after it counts sets them at once: within this share of the time since it set the loss before.
const AT_ONCE: f64 = 0.05;

/// The end of a step that a bar shows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ended {
    /// The number of the step, as the bar counts.
    pub step: u64,
    /// The values that were shown of it, as they were printed.
    pub values: String,
    /// When it ended.
    pub at_s: f64,
}

/// Values that were set since the bar counted.
struct Set {
    values: String,
    at_s: f64,
}

/// The bar of the training that is drawn, and whether it shows losses ahead of its count.
#[derive(Default)]
pub(super) struct Ahead {
    /// Whether bars are those of a log, whose times say nothing.
    is_log: bool,
    is_ahead: bool,
    /// When the bar began.
    begun_s: f64,
    /// The number in the bar, and when it was drawn first with this number; `None` until there is a bar.
    counted: Option<(u64, f64)>,
    /// The number of all steps, if the bar shows one.
    steps: Option<u64>,
    /// The values that the bar shows, and when it was drawn last.
    values: String,
    drawn_s: f64,
    /// What was set since the bar counted.
    set: Vec<Set>,
    /// By how much the first count followed the values before it.
    first_gap_s: Option<f64>,
}

impl Ahead {
    /// Bars of a log.
    pub fn of_log() -> Self {
        Self { is_log: true, ..Self::default() }
    }

    /// Takes a bar of the training that has counted some of all steps and shows these values; they are empty if it shows none. Returns the steps
    /// that are known with it. If the bar begins, these are steps of the bar before.
    pub fn draw(&mut self, (count, steps): (u64, Option<u64>), values: &str, at_s: f64) -> Vec<Ended> {
        if self.counted.is_none_or(|(before, _)| count < before) {
            let rest = self.rest();
            *self = Self { is_log: self.is_log, begun_s: at_s, drawn_s: at_s, steps, ..Self::default() };
            self.counted = Some((0, at_s));
            values.clone_into(&mut self.values);
            return if count == 0 { rest } else { self.count(count, at_s) };
        }
        let is_new = self.values != values && !values.is_empty();
        let is_later = !self.is_log && at_s - self.drawn_s >= LEAST_STEP_S;
        values.clone_into(&mut self.values);
        self.drawn_s = at_s;
        if self.counted.is_some_and(|(before, _)| count != before) {
            return self.count(count, at_s);
        }
        self.is_ahead |= count == 0 && is_new && (self.is_log || at_s - self.begun_s >= LEAST_STEP_S);
        self.is_ahead &= !self.is_set_behind_count(at_s);
        if !self.is_ahead {
            return self.shown(count, at_s);
        }
        if is_new || is_later {
            self.set.push(Set { values: values.to_owned(), at_s });
        }
        Vec::new()
    }

    /// The last steps of a bar that was removed before it counted them.
    pub fn rest(&mut self) -> Vec<Ended> {
        let set = std::mem::take(&mut self.set);
        let Some(((before, _), steps)) = self.counted.zip(self.steps) else { return Vec::new() };
        if set.len() as u64 == steps.saturating_sub(before) { ended(before, set, 0.0) } else { Vec::new() }
    }

    /// Takes a bar whose count has changed.
    fn count(&mut self, count: u64, at_s: f64) -> Vec<Ended> {
        let (before, _) = self.counted.replace((count, at_s)).unwrap_or_default();
        let set = std::mem::take(&mut self.set);
        let Some(newest) = set.last().filter(|_| self.is_ahead) else { return self.shown(count, at_s) };
        let gap_s = at_s - newest.at_s;
        self.first_gap_s = self.first_gap_s.or(Some(gap_s));
        if set.len() as u64 == count - before { ended(before, set, gap_s) } else { self.shown(count, at_s) }
    }

    /// Whether a loss that is set now shows that this loop counts before it sets: the loss in front of the first count was none of a step.
    fn is_set_behind_count(&self, at_s: f64) -> bool {
        let Some((gap_s, (_, counted_s))) = self.first_gap_s.zip(self.counted) else { return false };
        !self.is_log && self.set.is_empty() && gap_s >= LEAST_STEP_S && at_s - counted_s < AT_ONCE * gap_s
    }

    /// The step that the bar has counted, with the values that it shows.
    fn shown(&self, step: u64, at_s: f64) -> Vec<Ended> {
        let has_step = step > 0 && !self.values.is_empty();
        has_step.then(|| Ended { step, values: self.values.clone(), at_s }).into_iter().collect()
    }
}

/// The steps after this one, given what was set of them: each was counted this long after that.
fn ended(before: u64, set: Vec<Set>, gap_s: f64) -> Vec<Ended> {
    let of_step = |(step, Set { values, at_s })| Ended { step, values, at_s: at_s + gap_s };
    (before + 1..).zip(set).map(of_step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The steps that bars of five steps show, each with its loss and its time. A bar has its number, its loss and its time.
    fn ended_of(mut ahead: Ahead, bars: &[(u64, &str, f64)]) -> Vec<(u64, String, f64)> {
        let of_bar = |(count, loss, at_s): &(u64, &str, f64)| ahead.draw((*count, Some(5)), loss, *at_s);
        let mut ended: Vec<Ended> = bars.iter().flat_map(of_bar).collect();
        ended.extend(ahead.rest());
        ended.into_iter().map(|Ended { step, values, at_s }| (step, values, (at_s * 1e6).round() / 1e6)).collect()
    }

    #[track_caller]
    fn check(bars: &[(u64, &str, f64)], expected: &[(u64, &str, f64)]) {
        let expected: Vec<_> = expected.iter().map(|(step, loss, at_s)| (*step, (*loss).to_owned(), *at_s)).collect();
        assert_eq!(ended_of(Ahead::default(), bars), expected);
    }

    #[test]
    fn losses_that_are_shown_before_their_steps_are_counted_are_those_of_the_next_steps() {
        let bars = [(0, "", 0.0), (0, "3.1", 0.2), (1, "3.1", 0.2), (1, "2.9", 0.4), (2, "2.9", 0.4)];
        check(&bars, &[(1, "3.1", 0.2), (2, "2.9", 0.4)]);
        // Something else is done between both.
        let bars = [(0, "", 0.0), (0, "3.1", 0.2), (1, "3.1", 0.21), (1, "2.9", 0.41), (2, "2.9", 0.42)];
        check(&bars, &[(1, "3.1", 0.21), (2, "2.9", 0.42)]);
        // Of short steps, the bar counts only some.
        let bars = [(0, "", 0.0), (0, "3.1", 0.04), (0, "2.9", 0.08), (0, "2.9", 0.12), (3, "2.9", 0.12)];
        check(&bars, &[(1, "3.1", 0.04), (2, "2.9", 0.08), (3, "2.9", 0.12)]);
        // The bar is removed before it has counted its last steps, and another one begins.
        let bars = [(0, "", 0.0), (0, "3.1", 0.2), (3, "2.9", 0.5), (3, "2.8", 0.7), (3, "2.7", 0.8), (0, "", 0.9)];
        check(&bars, &[(3, "2.9", 0.5), (4, "2.8", 0.7), (5, "2.7", 0.8)]);
    }

    #[test]
    fn if_not_each_step_shows_its_loss_the_counted_steps_are_those_that_have_ended() {
        // The loss of each third step is set.
        let bars = [(0, "", 0.0), (0, "3.1", 0.2), (1, "3.1", 0.2), (2, "3.1", 0.4), (3, "3.1", 0.6), (3, "2.9", 0.8)];
        check(&bars, &[(1, "3.1", 0.2), (2, "3.1", 0.4), (3, "3.1", 0.6)]);
        // A step accumulates the gradients of two batches, each with its loss.
        let bars = [(0, "", 0.0), (0, "3.1", 0.2), (0, "3.0", 0.4), (1, "3.0", 0.4), (1, "2.9", 0.6), (1, "2.8", 0.8)];
        check(&[&bars[..], &[(2, "2.8", 0.8)]].concat(), &[(1, "3.0", 0.4), (2, "2.8", 0.8)]);
        // A line above the bar has it drawn again.
        let bars = [(0, "", 0.0), (0, "3.1", 0.2), (1, "3.1", 0.2), (1, "3.1", 0.3), (1, "2.9", 0.4), (2, "2.9", 0.4)];
        check(&bars, &[(1, "3.1", 0.2), (2, "2.9", 0.4)]);
    }

    #[test]
    fn losses_that_are_shown_once_their_steps_are_counted_are_those_of_the_steps() {
        let bars = [(0, "", 0.0), (1, "", 0.2), (1, "3.1", 0.2), (2, "3.1", 0.4), (2, "2.9", 0.4)];
        check(&bars, &[(1, "3.1", 0.2), (2, "3.1", 0.4), (2, "2.9", 0.4)]);
        // The bar was made with the loss of the epoch before, or begins again with it, or had one before the training.
        let steps = [(1, "2.5", 1.0), (1, "2.4", 1.0), (2, "2.4", 2.0), (2, "2.3", 2.0)];
        for (begun, replaced) in [
            (&[(0, "2.5", 0.0)][..], "2.5"),
            (&[(0, "", 0.0), (0, "2.5", 0.0001)], "2.5"),
            (&[(0, "", 0.0), (0, "2.5", 0.3)], "2.5"),
        ] {
            let bars = [begun, &steps].concat();
            let expected = [(1, replaced, 1.0), (1, "2.4", 1.0), (2, "2.4", 2.0), (2, "2.3", 2.0)];
            check(&bars, &expected);
        }
    }

    #[test]
    fn each_bar_shows_by_itself_whether_its_losses_are_ahead() {
        let ahead = [(0, "2.5", 1.0), (0, "3.1", 1.2), (1, "3.1", 1.2)];
        let behind = [(0, "3.1", 2.0), (1, "3.1", 2.2), (1, "2.9", 2.2)];
        check(&[&ahead[..], &behind].concat(), &[(1, "3.1", 1.2), (1, "3.1", 2.2), (1, "2.9", 2.2)]);
        check(&[&behind[..], &ahead].concat(), &[(1, "3.1", 2.2), (1, "2.9", 2.2), (1, "3.1", 1.2)]);
    }

    #[test]
    fn bars_of_a_log_give_the_losses_of_a_run() {
        let bars = [(0, "", 0.0), (0, "3.1", 0.0), (1, "3.1", 0.0), (1, "2.9", 0.0), (2, "2.9", 0.0)];
        let expected = [(1, "3.1".to_owned(), 0.0), (2, "2.9".to_owned(), 0.0)];
        assert_eq!(ended_of(Ahead::of_log(), &bars), expected);
    }
}
