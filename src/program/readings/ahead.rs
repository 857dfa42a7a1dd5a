//! The steps that a progress bar shows. A loop may set the loss of a step before it counts the step: tqdm's `set_postfix` draws the bar at once,
//! still with the number of an earlier step. tqdm draws a bar again when a step is counted, but ten times a second at most.
//!
//! Such a loop shows its first loss in a bar that has counted nothing since it began. From then on, a new loss is that of the step under way. Once the bar shows a
//! larger count, the losses that were set before are those of the steps in between, if there are as many of them.

use std::collections::BTreeMap;

/// Bars that are drawn closer together show the same step. A loss that a bar shows so soon after it was made is none of a step.
const LEAST_STEP_S: f64 = 0.002;
/// A loop that sets losses after it counts sets them at once: within this share of the time since it set the loss before.
const AT_ONCE: f64 = 0.05;
/// The bar that counts a step may follow its loss by this many times as much as others did.
const MOST_LATER: f64 = 1.5;

/// The end of a step that a bar shows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ended {
    /// The number of the step, as the bar counts.
    pub step: u64,
    /// The values that were shown of it, as they were printed.
    pub values: String,
    /// When it ended.
    pub at_s: f64,
    /// Whether it is unknown how many steps were made since the step before.
    pub is_untimed: bool,
}

/// Values that were set since the bar counted.
#[derive(Clone)]
struct Set {
    values: String,
    at_s: f64,
    /// Whether they differ from those before. If not, the bar may only have been drawn again.
    is_new: bool,
}

/// The bar of the training that is drawn, and whether it shows losses ahead of its count.
#[derive(Default)]
pub(super) struct Ahead {
    /// Whether bars are those of a log, whose times say nothing.
    is_log: bool,
    is_ahead: bool,
    /// Whether the bar before showed losses ahead of its count.
    was_ahead: bool,
    /// The number with which the bar began, and when it began.
    begun: (u64, f64),
    /// The number in the bar, and when it was drawn first with this number; `None` until there is a bar.
    counted: Option<(u64, f64)>,
    /// The number of all steps, if the bar shows one.
    steps: Option<u64>,
    /// The values that the bar shows.
    values: String,
    /// What was set since the bar counted, and whether there was not one loss for each step when it counted last.
    set: Vec<Set>,
    misses: bool,
    /// When the bar was drawn last.
    drawn_s: f64,
    /// The step that was taken for the newest one when an evaluation began, until the bar counts again.
    taken: Option<u64>,
    /// The least time by which a count followed the loss before it, in all bars.
    gap_s: Option<f64>,
}

/// The most bars of different numbers of steps that are kept apart.
const MOST_BARS: usize = 8;

/// A program's bars, by their numbers of steps: one may be drawn while another one goes on.
#[derive(Default)]
pub(super) struct AheadBars {
    is_log: bool,
    bars: BTreeMap<Option<u64>, Ahead>,
}

impl AheadBars {
    /// Bars of a log, whose times say nothing.
    pub fn of_log() -> Self {
        Self { is_log: true, ..Self::default() }
    }

    /// The bar with this number of steps.
    pub fn bar(&mut self, steps: Option<u64>) -> &mut Ahead {
        if self.bars.len() >= MOST_BARS && !self.bars.contains_key(&steps) {
            self.bars.clear();
        }
        self.bars.entry(steps).or_insert_with(|| Ahead { is_log: self.is_log, ..Ahead::default() })
    }

    /// See [`Ahead::take`].
    pub fn take(&mut self) -> Vec<Ended> {
        self.bars.values_mut().flat_map(Ahead::take).collect()
    }

    /// See [`Ahead::rest`].
    pub fn rest(&mut self) -> Vec<Ended> {
        self.bars.values_mut().flat_map(Ahead::rest).collect()
    }
}

impl Ahead {
    /// Whether the bar has counted no step.
    pub fn has_counted_nothing(&self) -> bool {
        self.counted.is_some_and(|(counted, _)| counted == 0)
    }

    /// Takes a bar of the training that has counted some of all steps and shows these values; they are empty if it shows none. Returns the steps
    /// that are known with it. If the bar begins, these are steps of the bar before.
    pub fn draw(&mut self, (count, steps): (u64, Option<u64>), values: &str, at_s: f64) -> Vec<Ended> {
        let before = std::mem::replace(&mut self.values, values.to_owned());
        let drawn_s = std::mem::replace(&mut self.drawn_s, at_s);
        let Some((counted, _)) = self.counted.filter(|(counted, _)| *counted <= count && self.steps == steps) else {
            let rest = self.rest();
            let Self { is_log, is_ahead: was_ahead, gap_s, misses, .. } = *self;
            let bar = Self {
                is_log,
                was_ahead,
                gap_s,
                misses,
                begun: (count, at_s),
                drawn_s: at_s,
                steps,
                ..Self::default()
            };
            *self = Self { counted: Some((count, at_s)), values: values.to_owned(), ..bar };
            return if count == 0 { rest } else { self.shown(count, at_s) };
        };
        let is_new = before != values && !values.is_empty();
        let (begun, begun_s) = self.begun;
        // The first loss may be the last one of the bar before, which this bar has shown since it began.
        let is_first = is_new || self.was_ahead && at_s - drawn_s >= LEAST_STEP_S && !values.is_empty();
        self.is_ahead |= count == begun && is_first && (self.is_log || at_s - begun_s >= LEAST_STEP_S);
        self.is_ahead &= count != counted || !self.is_set_behind_count(at_s);
        if !self.is_ahead {
            if count > counted {
                self.counted = Some((count, at_s));
            }
            return self.shown(count, at_s);
        }
        let mut ended = Vec::new();
        // The loss of the next step may be the same.
        let is_later = count == counted && at_s - drawn_s >= LEAST_STEP_S || self.is_later_than_counts(at_s);
        let is_set = is_new || is_later && !self.misses && !self.is_log;
        if count > counted {
            ended = self.count((counted, count), is_set, before, at_s);
        }
        if is_set {
            self.set.push(Set { values: values.to_owned(), at_s, is_new });
        }
        ended
    }

    /// The steps whose losses were set, as far as the bar has not counted them: an evaluation begins.
    pub fn take(&mut self) -> Vec<Ended> {
        let Some((counted, _)) = self.counted.filter(|_| self.is_ahead && !self.set.is_empty()) else {
            return Vec::new();
        };
        self.set.retain(|set| set.is_new);
        let newest = self.taken.unwrap_or(counted);
        let last = newest.saturating_add(self.set.len() as u64);
        let set = self.of_steps(newest, last).filter(|_| self.steps.is_none_or(|steps| last <= steps));
        self.taken = Some(if set.is_some() { last } else { newest });
        self.ended(set.unwrap_or_default(), self.drawn_s)
    }

    /// The last steps of a bar that was removed before it counted them.
    pub fn rest(&mut self) -> Vec<Ended> {
        let Some(((counted, _), steps)) = self.counted.zip(self.steps).filter(|_| self.is_ahead) else {
            return Vec::new();
        };
        let set = self.of_steps(self.taken.unwrap_or(counted), steps).unwrap_or_default();
        self.ended(set, self.drawn_s)
    }

    /// Takes a bar whose count has become larger. `is_set` says whether it was drawn because a loss was set, and `before` are the values that it
    /// showed before.
    fn count(&mut self, (counted, count): (u64, u64), is_set: bool, before: String, at_s: f64) -> Vec<Ended> {
        self.counted = Some((count, at_s));
        let newest_s = self.set.last().map(|set| set.at_s);
        let taken = self.taken.take();
        let set = self.of_steps(taken.unwrap_or(counted), count);
        self.misses = set.is_none();
        if let Some(set) = set {
            let newest = set.last().filter(|(_, newest)| newest.is_new && !is_set);
            if let Some(gap_s) = newest.map(|(_, newest)| at_s - newest.at_s) {
                self.gap_s = Some(self.gap_s.map_or(gap_s, |least_s| least_s.min(gap_s)));
            }
            return self.ended(set, at_s);
        }
        // Not each loss is that of a step, or not each step has a loss.
        let set_s = newest_s.map(|newest_s| newest_s + self.gap_s.unwrap_or(0.0));
        let ended_s = set_s.filter(|_| is_set).unwrap_or(at_s);
        let is_known = taken.is_some_and(|taken| taken >= count) || before.is_empty();
        if is_known {
            Vec::new()
        } else {
            vec![Ended { step: count, values: before, at_s: ended_s, is_untimed: taken.is_some() }]
        }
    }

    /// The steps from one to another with what was set of them, if as many losses were set. What was set is forgotten.
    fn of_steps(&mut self, newest: u64, last: u64) -> Option<Vec<(u64, Set)>> {
        let all = std::mem::take(&mut self.set);
        let is_each = |set: &Vec<Set>| last.checked_sub(newest) == Some(set.len() as u64);
        let new = || all.iter().filter(|set| set.is_new).cloned().collect();
        let set = if is_each(&all) { all } else { Some(new()).filter(is_each)? };
        Some((newest.saturating_add(1)..).zip(set).collect())
    }

    /// The ends of steps that have ended by now.
    fn ended(&self, of_steps: Vec<(u64, Set)>, now_s: f64) -> Vec<Ended> {
        let gap_s = self.gap_s.unwrap_or(0.0);
        let of_step = |(step, set): (u64, Set)| Ended {
            step,
            values: set.values,
            at_s: (set.at_s + gap_s).min(now_s),
            is_untimed: false,
        };
        of_steps.into_iter().map(of_step).collect()
    }

    /// Whether a larger count comes too late after the last loss to be only that: the loss of the next step is the same.
    fn is_later_than_counts(&self, at_s: f64) -> bool {
        let newest_s = self.set.last().map(|set| set.at_s);
        let gap = self.gap_s.zip(newest_s);
        gap.is_some_and(|(gap_s, newest_s)| at_s - newest_s > MOST_LATER * gap_s + LEAST_STEP_S)
    }

    /// Whether a loss that is set now shows that this loop counts before it sets: the loss in front of the first count was none of a step.
    fn is_set_behind_count(&self, at_s: f64) -> bool {
        let Some((gap_s, (_, counted_s))) = self.gap_s.zip(self.counted) else { return false };
        !self.is_log && self.set.is_empty() && gap_s >= LEAST_STEP_S && at_s - counted_s < AT_ONCE * gap_s
    }

    /// The step that the bar has counted, with the values that it shows.
    fn shown(&self, step: u64, at_s: f64) -> Vec<Ended> {
        let has_step = step > 0 && !self.values.is_empty();
        let ended = || Ended { step, values: self.values.clone(), at_s, is_untimed: false };
        has_step.then(ended).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The steps that bars of five steps show, each with its loss and its time. A bar has its number, its loss and its time.
    fn ended_of(mut ahead: Ahead, bars: &[(u64, &str, f64)]) -> Vec<(u64, String, f64)> {
        let of_bar = |(count, loss, at_s): &(u64, &str, f64)| ahead.draw((*count, Some(5)), loss, *at_s);
        let mut ended: Vec<Ended> = bars.iter().flat_map(of_bar).collect();
        ended.extend(ahead.rest());
        ended.into_iter().map(|ended| (ended.step, ended.values, (ended.at_s * 1e6).round() / 1e6)).collect()
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
        // A training that continues begins with the number of its newest step.
        let bars = [(2, "", 0.0), (2, "3.1", 0.2), (3, "3.1", 0.2), (3, "2.9", 0.4), (4, "2.9", 0.4)];
        check(&bars, &[(3, "3.1", 0.2), (4, "2.9", 0.4)]);
        // Something else is done between both.
        let bars = [(0, "", 0.0), (0, "3.1", 0.2), (1, "3.1", 0.21), (1, "2.9", 0.41), (2, "2.9", 0.42)];
        check(&bars, &[(1, "3.1", 0.21), (2, "2.9", 0.42)]);
        // A bar that is iterated does not show each of its short steps.
        let bars = [(0, "", 0.0), (0, "3.1", 0.04), (0, "2.9", 0.08), (0, "2.9", 0.12), (3, "2.9", 0.12)];
        check(&bars, &[(1, "3.1", 0.04), (2, "2.9", 0.08), (3, "2.9", 0.12)]);
        // A bar that is updated counts each when the next loss is set.
        let bars = [(0, "", 0.0), (0, "3.1", 0.04), (1, "2.9", 0.08), (2, "2.8", 0.12), (3, "2.8", 0.12)];
        check(&bars, &[(1, "3.1", 0.04), (2, "2.9", 0.08), (3, "2.8", 0.12)]);
        let same = [(3, "2.7", 0.16), (4, "2.7", 0.2), (5, "2.6", 0.24), (5, "2.6", 0.24)];
        let expected = [(1, "3.1", 0.04), (2, "2.9", 0.08), (3, "2.8", 0.12), (4, "2.7", 0.16), (5, "2.7", 0.2)];
        check(&[&bars[..], &same].concat(), &expected);
        // The bar is removed before it has counted its last steps, and another one begins.
        let bars = [(0, "", 0.0), (0, "3.1", 0.04), (1, "2.9", 0.08), (2, "2.8", 0.12), (3, "2.8", 0.12)];
        let rest = [(3, "2.7", 0.16), (4, "2.6", 0.2), (0, "", 0.3)];
        let expected = [(1, "3.1", 0.04), (2, "2.9", 0.08), (3, "2.8", 0.12), (4, "2.7", 0.16), (5, "2.6", 0.2)];
        check(&[&bars[..], &rest].concat(), &expected);
    }

    #[test]
    fn if_not_each_step_shows_its_loss_the_counted_steps_are_those_that_have_ended() {
        // The loss of each third step is set.
        let bars = [(0, "", 0.0), (0, "3.1", 0.2), (1, "3.1", 0.2), (2, "3.1", 0.4), (3, "3.1", 0.6), (3, "2.9", 0.8)];
        check(&bars, &[(1, "3.1", 0.2), (2, "3.1", 0.4), (3, "3.1", 0.6)]);
        // A step accumulates the gradients of two batches, each with its loss.
        let bars = [(0, "", 0.0), (0, "3.1", 0.2), (0, "3.0", 0.4), (1, "3.0", 0.4), (1, "2.9", 0.6), (1, "2.8", 0.8)];
        check(&[&bars[..], &[(2, "2.8", 0.8)]].concat(), &[(1, "3.0", 0.4), (2, "2.8", 0.8)]);
        // Batches of a short step: the count shows with the next loss.
        let bars =
            [(0, "", 0.0), (0, "3.1", 0.02), (0, "3.0", 0.04), (1, "2.9", 0.06), (1, "2.8", 0.08), (2, "2.8", 0.08)];
        check(&bars, &[(1, "3.0", 0.04), (2, "2.8", 0.08)]);
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
    fn before_an_evaluation_the_losses_that_were_set_are_those_of_steps() {
        let mut ahead = Ahead::default();
        let mut draw = |count, loss, at_s| ahead.draw((count, Some(20)), loss, at_s);
        assert_eq!(draw(0, "", 0.0), []);
        assert_eq!(draw(0, "3.1", 0.04), []);
        assert_eq!(draw(1, "3.0", 0.08).len(), 1);
        let taken = ahead.take();
        assert_eq!(taken.iter().map(|ended| (ended.step, ended.at_s)).collect::<Vec<_>>(), [(2, 0.08)]);
        // A bar that is updated has counted this step; its next one is the third.
        let mut draw = |count, loss, at_s| ahead.draw((count, Some(20)), loss, at_s);
        assert_eq!(draw(2, "2.9", 0.9), []);
        let next = draw(3, "2.8", 0.94);
        assert_eq!((next[0].step, next[0].is_untimed), (3, false));
        // A bar that is iterated had made more steps than it showed.
        assert_eq!(ahead.take()[0].step, 4);
        let mut draw = |count, loss, at_s| ahead.draw((count, Some(20)), loss, at_s);
        let later = draw(8, "2.8", 1.5);
        assert_eq!((later[0].step, later[0].is_untimed), (8, true));
    }

    #[test]
    fn each_bar_shows_by_itself_whether_its_losses_are_ahead() {
        let ahead = [(0, "2.5", 1.0), (0, "3.1", 1.2), (1, "3.1", 1.2)];
        let behind = [(0, "3.1", 2.0), (1, "3.1", 2.2), (1, "2.9", 2.2)];
        check(&[&ahead[..], &behind].concat(), &[(1, "3.1", 1.2), (1, "3.1", 2.2), (1, "2.9", 2.2)]);
        check(&[&behind[..], &ahead].concat(), &[(1, "3.1", 2.2), (1, "2.9", 2.2), (1, "3.1", 1.2)]);
        // The first loss of the second bar is the last one of the first bar.
        let same = [(0, "3.1", 1.3), (0, "3.1", 1.5), (1, "3.1", 1.5), (1, "2.9", 1.7), (2, "2.9", 1.7)];
        check(&[&ahead[..], &same].concat(), &[(1, "3.1", 1.2), (1, "3.1", 1.5), (2, "2.9", 1.7)]);
    }

    #[test]
    fn a_bar_that_is_drawn_while_another_one_goes_on_changes_nothing() {
        let mut bars = AheadBars::default();
        let mut draw = |(count, steps), loss, at_s| bars.bar(Some(steps)).draw((count, Some(steps)), loss, at_s);
        let mut ended = Vec::new();
        for (bar, loss, at_s) in [
            ((0, 30), "", 0.0),
            ((0, 30), "3.1", 0.2),
            ((1, 30), "3.1", 0.2),
            ((0, 5), "", 0.3),
            ((5, 5), "", 0.5),
            ((1, 30), "2.9", 0.7),
            ((2, 30), "2.9", 0.7),
        ] {
            ended.extend(draw(bar, loss, at_s));
        }
        let losses: Vec<_> = ended.iter().map(|ended| (ended.step, ended.values.as_str())).collect();
        assert_eq!(losses, [(1, "3.1"), (2, "2.9")]);
        let most = u64::MAX;
        assert_eq!(bars.bar(Some(most)).draw((most, Some(most)), "3.1", 1.0).len(), 1);
        assert_eq!(bars.take(), []);
    }

    #[test]
    fn bars_of_a_log_give_the_losses_of_a_run() {
        let bars = [(0, "", 0.0), (0, "3.1", 0.0), (1, "3.1", 0.0), (1, "2.9", 0.0), (2, "2.9", 0.0)];
        let expected = [(1, "3.1".to_owned(), 0.0), (2, "2.9".to_owned(), 0.0)];
        assert_eq!(ended_of(Ahead { is_log: true, ..Ahead::default() }, &bars), expected);
    }
}
