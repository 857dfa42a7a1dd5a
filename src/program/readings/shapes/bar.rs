//! Progress bars in a program's output: steps of the training, evaluations, and bars around them.

use super::super::ahead::Ended;
use super::super::bars::{Bar, GUESS, description};
use super::super::drawn::Drawn;
use super::super::fields::Fields;
use super::super::sentence::Read;
use super::super::{Found, NamedPhase};
use super::Shapes;

impl Shapes {
    /// A bar is a step if it contains a loss and is not the bar of an evaluation. A bar without a loss may be the bar of a download, unless
    /// losses stand beside it.
    pub(super) fn bar(&mut self, drawn: &Drawn<'_>, at_s: f64, fields: &mut Fields, found: &mut Vec<Found>) -> Read {
        match self.bars.kind(drawn.before, drawn.steps, drawn.loss.is_some()) {
            Bar::Outer => {
                // Its loss is a mean of the steps inside. Its other values are those of the run.
                let mut around = Fields::default();
                drawn.take(&mut around).ok()?;
                around.values(at_s, found);
                None
            }
            Bar::Guessed if self.bars.must_tell_guess() => {
                found.push(Found::Warning(GUESS.to_owned()));
                self.bar_of_evaluation(drawn, fields, found)
            }
            Bar::Guessed | Bar::Evaluation => self.bar_of_evaluation(drawn, fields, found),
            Bar::Training => {
                self.bar_of_training(drawn, at_s, found);
                None
            }
        }
    }

    /// The time of an evaluation is not time of a step. An evaluation begins with an empty bar: Hugging Face's Trainer prints the full bar once
    /// more when it is over.
    fn bar_of_evaluation(&mut self, drawn: &Drawn<'_>, fields: &mut Fields, found: &mut Vec<Found>) -> Read {
        let is_under_way = Some(drawn.step) != drawn.steps || drawn.loss.is_some();
        // A step of the training ends an evaluation, so that the steps before this one are handed over first.
        if is_under_way && !self.bars.is_evaluating() {
            self.settle_before_evaluation(found);
        }
        let begins = is_under_way && self.bars.evaluates();
        begins.then(|| fields.text("phase", "evaluate"))
    }

    fn bar_of_training(&mut self, drawn: &Drawn<'_>, at_s: f64, found: &mut Vec<Found>) {
        let Drawn { step, steps, loss, epoch, .. } = *drawn;
        let is_again = self.bars.may_be_first(steps) && self.bars.draw(step) && Some(step) != steps;
        if is_again {
            self.drawn_again = Some(step);
        }
        if is_again && loss.is_some() && drawn.is_of_lightning() {
            return self.bar_after_evaluation(drawn, at_s, found);
        }
        // Lightning's bar begins again with the values of the epoch before, and shows none before its first step.
        let values = loss.filter(|_| step > 0 || !drawn.is_of_lightning()).unwrap_or_default();
        let bar = self.ahead.bar(steps);
        let begins = step == 0 && !bar.has_counted_nothing();
        let ended = bar.draw((step, steps), values, at_s);
        let is_over = ended.is_empty() || step == 0;
        self.hand_over_ended(ended, found, |ended, is_newest| {
            let mut fields = Fields::default();
            fields.text("loss", &ended.values).ok()?;
            (fields.step.steps, fields.step.epoch) = (steps, epoch.filter(|_| step > 0));
            if is_newest && ended.values == values {
                drawn.take(&mut fields).ok()?;
            }
            Some(fields)
        });
        if step == 0 && drawn.is_new && (loss.is_none() || begins) {
            self.empty_bar(drawn, at_s, found);
        }
        self.bars_have_loss |= loss.is_some() && step > 0;
        if is_over && (loss.is_none() || step == 0) {
            self.bar_without_step(drawn, at_s, found);
        }
    }

    /// Hands over steps that a bar has shown the end of, with the fields that `fields_of` gives a step; it is told which step is the newest one.
    pub(super) fn hand_over_ended(
        &mut self,
        ended: Vec<Ended>,
        found: &mut Vec<Found>,
        fields_of: impl Fn(&Ended, bool) -> Option<Fields>,
    ) {
        let newest = ended.last().map(|ended| ended.step);
        for ended in ended {
            let Some(mut fields) = fields_of(&ended, Some(ended.step) == newest) else { continue };
            fields.step.step = Some(ended.step);
            // Lightning draws the number that its bar showed last, although steps may have been made before the evaluation since. A bar that
            // shows each step has no such steps.
            let drawn_again = self.drawn_again.take_if(|drawn_again| *drawn_again != ended.step);
            let skips = drawn_again.is_some_and(|drawn_again| ended.step != drawn_again.saturating_add(1));
            fields.step.is_untimed = skips || ended.is_untimed;
            if self.bars.trains() {
                fields.phase = NamedPhase::of("train");
            }
            self.hand_over(fields, ended.at_s, found);
        }
    }

    /// Takes a bar that has just begun: an epoch may begin with it.
    fn empty_bar(&mut self, drawn: &Drawn<'_>, at_s: f64, found: &mut Vec<Found>) {
        if self.bars.is_first(drawn.steps) {
            // These are steps of the bar before.
            self.settle(at_s, found);
        }
        if self.newest.is_some_and(|newest| self.bars.begins_again(drawn.before, drawn.steps, newest)) {
            self.drawn_again = None;
            found.push(Found::Begins { at_s });
        }
    }

    /// Takes a bar that is drawn again after an evaluation. Its loss may be that of a step that the bar did not show. The loss of the evaluation
    /// is among the other values.
    fn bar_after_evaluation(&mut self, drawn: &Drawn<'_>, at_s: f64, found: &mut Vec<Found>) {
        let mut values = Fields::default();
        let are_read = drawn.take(&mut values).is_ok();
        (values.step.step, values.step.epoch) = (Some(drawn.step).filter(|step| *step > 0), drawn.epoch);
        if are_read && !values.is_step() {
            values.values(at_s, found);
        }
        self.bars.trains();
        found.extend(NamedPhase::of("train").map(|phase| Found::Phase { phase, at_s }));
    }

    /// Takes a bar that shows no step with a loss.
    fn bar_without_step(&mut self, drawn: &Drawn<'_>, at_s: f64, found: &mut Vec<Found>) {
        let Drawn { step, steps, .. } = *drawn;
        // If steps were made since the newest reported one, the time of the next one began before the evaluation.
        let follows = step == 0 || self.newest == Some(step);
        let goes_on = follows && self.bars.is_first(steps) && self.bars.trains();
        found.extend(NamedPhase::of("train").filter(|_| goes_on).map(|phase| Found::Phase { phase, at_s }));
        if !self.bars_have_loss {
            let reports = self.beside.show((step, steps), !description(drawn.before).is_empty(), at_s);
            if self.beside.counts() {
                self.bars.has_loss_beside(self.beside.steps());
            }
            self.hand_over_all(reports, found);
        }
    }
}
