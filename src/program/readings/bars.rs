//! Which progress bars of a program count steps of its training. A program may have another bar for validation, whose steps have another
//! duration and another loss.
//!
//! The description of a bar, the text in front of its percentage, tells them apart: `val:  10%|█ | 1/10 …`. Of bars without a description,
//! only those with as many steps as the first one are taken for training. A bar around that of the steps, such as one of epochs, is drawn
//! before it. Losses stand in the bars, or in dictionaries beside them.

use std::sync::LazyLock;

use regex::Regex;

use super::phases::{EVALUATING, EVALUATIONS};
use super::sentence::{captures, pattern};

/// Words in descriptions of evaluations, and of training, which takes precedence.
static EVALUATION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let words = [EVALUATIONS, EVALUATING].concat().join("|");
    pattern(&format!("(?i)(?:^|[^a-z])(?:{words})(?:[^a-z]|$)"))
});
static TRAINING: LazyLock<Option<Regex>> = LazyLock::new(|| pattern("(?i)(?:^|[^a-z])train(?:ing)?(?:[^a-z]|$)"));

/// The message about bars that only their number of steps tells apart.
pub(super) const GUESS: &str = "progress bars without a description have different numbers of steps: those with as many steps as the first one \
     were taken for training, the others for evaluations, whose steps are left out; describe the bars (desc=\"train\", desc=\"val\"), or \
     declare the steps in [command.readings]";

/// A bar that is over may not have shown its last step, one in this many of its steps, or as many as it did not show before. If it has not
/// shown more of them, the program went back to an earlier step.
const UNSEEN_SHARE: u64 = 10;

/// The most bars that are kept until the training begins.
const MOST_EARLIER: usize = 8;

/// What a bar counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bar {
    /// Steps of the training; if it has no loss, anything, such as the bytes of a download.
    Training,
    /// Steps of an evaluation, as its description says.
    Evaluation,
    /// Steps of an evaluation, as its number of steps suggests.
    Guessed,
    /// Runs of the training's bar, such as epochs: the steps are those of the bar inside.
    Outer,
}

/// What tells the bars of a program apart.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Counted {
    /// The description up to its first number: that of an epoch changes from bar to bar.
    name: String,
    /// The number of steps; `None` for a bar without a total.
    steps: Option<u64>,
}

/// The progress bars of a program so far.
#[derive(Default)]
pub(super) struct Bars {
    /// The first bar with a loss that was not an evaluation's.
    first: Option<Counted>,
    /// Bars that were drawn before that, the newest ones.
    earlier: Vec<Counted>,
    /// Whether losses stand beside the bars.
    has_losses_beside: bool,
    is_evaluating: bool,
    is_guess_told: bool,
    /// The number in the training's bar when it was drawn last, and its distance to the number before that.
    drawn: Option<u64>,
    distance: u64,
}

impl Bars {
    /// What a bar counts, given the text in front of its count, its number of steps if it has a total, and whether it has a loss.
    pub fn kind(&mut self, before: &str, steps: Option<u64>, has_loss: bool) -> Bar {
        let (description, has_own_loss) = (description(before), has_loss);
        let has_loss = has_own_loss || self.has_losses_beside;
        // Before any loss, `test` may be the name of a file.
        if (has_loss || self.first.is_some()) && says_evaluation(description) {
            return Bar::Evaluation;
        }
        let counted = Counted { name: name_of(description).to_owned(), steps };
        if !has_loss {
            let is_other = self.first.as_ref().is_some_and(|first| first.steps != steps);
            if is_other && description.is_empty() && !self.earlier.contains(&counted) {
                return Bar::Guessed;
            }
            self.note_earlier(counted);
            return Bar::Training;
        }
        let first = self.first.get_or_insert_with(|| counted.clone());
        if has_own_loss && is_around(&counted, first, &self.earlier) {
            return Bar::Outer;
        }
        if description.is_empty() && steps != first.steps { Bar::Guessed } else { Bar::Training }
    }

    /// Notes a bar without a loss, unless the training has begun.
    fn note_earlier(&mut self, bar: Counted) {
        if self.first.is_none() && !self.earlier.contains(&bar) {
            if self.earlier.len() == MOST_EARLIER {
                self.earlier.remove(0);
            }
            self.earlier.push(bar);
        }
    }

    /// Notes that a loss of the training stands beside a bar with this number of steps.
    pub fn has_loss_beside(&mut self, steps: Option<u64>) {
        self.first.get_or_insert(Counted { name: String::new(), steps });
        self.has_losses_beside = true;
    }

    /// Notes that the training has a bar with this number of steps, whose losses stand in a table.
    pub fn is_beside_table(&mut self, steps: Option<u64>) {
        self.first.get_or_insert(Counted { name: String::new(), steps });
    }

    /// Notes that an evaluation goes on; returns whether it begins.
    pub fn evaluates(&mut self) -> bool {
        !std::mem::replace(&mut self.is_evaluating, true)
    }

    /// Whether an evaluation goes on.
    pub fn is_evaluating(&self) -> bool {
        self.is_evaluating
    }

    /// Notes that the training goes on; returns whether an evaluation was before.
    pub fn trains(&mut self) -> bool {
        std::mem::take(&mut self.is_evaluating)
    }

    /// Notes the number in a bar of the training. Returns whether the bar showed this number before an evaluation that goes on.
    pub fn draw(&mut self, step: u64) -> bool {
        let before = self.drawn.replace(step);
        if let Some(distance) = before.and_then(|before| step.checked_sub(before)).filter(|distance| *distance > 0) {
            self.distance = distance;
        }
        self.is_evaluating && before == Some(step)
    }

    /// Whether a bar with this number of steps is that of the training, as far as that is known.
    pub fn may_be_first(&self, steps: Option<u64>) -> bool {
        self.first.is_none() || self.is_first(steps)
    }

    /// Whether a bar with this number of steps is that of the training.
    pub fn is_first(&self, steps: Option<u64>) -> bool {
        self.first.as_ref().is_some_and(|first| first.steps == steps)
    }

    /// Whether an empty bar with this text in front of its count is that of the training, which begins again because it was over with the
    /// newest step. Its description may be set later.
    pub fn begins_again(&self, before: &str, steps: Option<u64>, newest: u64) -> bool {
        let name = name_of(description(before));
        let unseen = |steps: u64| (steps / UNSEEN_SHARE).max(self.distance).max(1);
        let is_over = steps.is_none_or(|steps| steps.saturating_sub(newest) <= unseen(steps));
        let is_of =
            |first: &Counted| first.steps == steps && (name.is_empty() || first.name.is_empty() || name == first.name);
        is_over && self.first.as_ref().is_some_and(is_of)
    }

    /// Whether the message about the guess is due, which is told once.
    pub fn must_tell_guess(&mut self) -> bool {
        !std::mem::replace(&mut self.is_guess_told, true)
    }
}

/// Whether a description or a heading has a word for an evaluation and none for training.
pub(super) fn says_evaluation(text: &str) -> bool {
    captures(&EVALUATION, text).is_some() && captures(&TRAINING, text).is_none()
}

/// The description of a bar, given the text in front of its count: `val:  10%|█    | `.
pub(super) fn description(before: &str) -> &str {
    let text = match before.rsplit_once("%|") {
        Some((text, _)) => text.trim_end_matches(|c: char| c.is_ascii_digit()),
        None => before,
    };
    text.trim_matches(|c: char| !c.is_alphanumeric())
}

/// Whether a bar is drawn around the first bar of the training: it has another description, and was there before. With the same number of
/// steps, it may be the same bar with a new description, unless that was there before, too.
fn is_around(bar: &Counted, first: &Counted, earlier: &[Counted]) -> bool {
    bar.name != first.name && earlier.contains(bar) && (bar.steps != first.steps || earlier.contains(first))
}

/// The description up to its first number, without the name of a loss.
fn name_of(description: &str) -> &str {
    let end = description.find(|c: char| c.is_ascii_digit()).unwrap_or(description.len());
    let name = description[..end].trim_end_matches(|c: char| !c.is_alphanumeric());
    let name = name.strip_suffix("loss").or_else(|| name.strip_suffix("Loss")).unwrap_or(name);
    name.trim_end_matches(|c: char| !c.is_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_of_a_bar_is_the_text_in_front_of_its_percentage() {
        for (before, expected) in [
            ("val:  10%|█▏        | ", "val"),
            ("Epoch 3 [train]: 100%|##########| ", "Epoch 3 [train"),
            (" 15%|#5        | ", ""),
            ("  0%| | ", ""),
            ("", ""),
            ("test ", "test"),
        ] {
            assert_eq!(description(before), expected, "{before}");
        }
    }

    #[test]
    fn words_of_an_evaluation_tell_it_unless_the_bar_is_called_training() {
        for (about, expected) in [
            ("val", Bar::Evaluation),
            ("Epoch 2 (valid)", Bar::Evaluation),
            ("Validating", Bar::Evaluation),
            ("eval_1", Bar::Evaluation),
            ("Validation DataLoader 0", Bar::Evaluation),
            ("dev", Bar::Evaluation),
            ("TEST", Bar::Evaluation),
            ("train", Bar::Training),
            ("train/val", Bar::Training),
            ("Epoch 2", Bar::Training),
            ("values", Bar::Training),
            ("latest", Bar::Training),
        ] {
            assert_eq!(Bars::default().kind(&format!("{about}:  10%|█ | "), Some(10), true), expected, "{about}");
        }
    }

    #[test]
    fn the_first_number_of_steps_is_that_of_the_training_if_bars_have_no_description() {
        let mut bars = Bars::default();
        let mut kind = |before: &str, steps, has_loss| bars.kind(before, Some(steps), has_loss);
        assert_eq!(kind("val test: 50%|█ | ", 2, false), Bar::Training, "the bar of a download");
        assert_eq!(kind(" 50%|█ | ", 20, true), Bar::Training);
        assert_eq!(kind(" 50%|█ | ", 5, true), Bar::Guessed);
        assert_eq!(kind(" 50%|█ | ", 5, false), Bar::Guessed, "an evaluation may show no loss");
        assert_eq!(kind("Saving:  50%|█ | ", 5, false), Bar::Training);
        assert_eq!(kind("Epoch 2: 50%|█ | ", 30, true), Bar::Training);
        assert_eq!(kind(" 50%|█ | ", 20, true), Bar::Training);
        assert_eq!(kind("val: 50%|█ | ", 20, false), Bar::Evaluation);
    }

    #[test]
    fn a_bar_that_was_drawn_before_that_of_the_steps_and_has_another_description_is_around_it() {
        for ((outer, outer_steps), (inner, inner_steps), expected) in [
            (("Epochs", 3), ("Batches", 20), Bar::Outer),
            (("Epochs", 3), ("", 20), Bar::Outer),
            (("", 3), ("Batches", 20), Bar::Outer),
            (("Epochs", 3), ("Batches", 3), Bar::Outer),
            // The descriptions do not tell which of them is an evaluation.
            (("", 3), ("", 20), Bar::Guessed),
            (("Epoch 1", 20), ("Epoch 2", 20), Bar::Training),
        ] {
            let mut bars = Bars::default();
            let mut kind = |name: &str, steps, has_loss| bars.kind(&format!("{name}: 0%| | "), Some(steps), has_loss);
            assert_eq!(kind(outer, outer_steps, false), Bar::Training);
            assert_eq!(kind(inner, inner_steps, false), Bar::Training);
            assert_eq!(kind(inner, inner_steps, true), Bar::Training);
            assert_eq!(kind(outer, outer_steps, true), expected, "{outer} {inner}");
            assert_eq!(kind(inner, inner_steps, true), Bar::Training);
            assert_eq!(kind("Stage 2", 5, true), Bar::Training, "it comes later");
        }
        // The description is set after the bar is drawn.
        let mut bars = Bars::default();
        for (before, has_loss) in [("  0%| | ", false), ("Epoch 1:  5%| | ", true), ("  0%| | ", true)] {
            assert_eq!(bars.kind(before, Some(20), has_loss), Bar::Training);
        }
    }

    #[test]
    fn the_bar_of_the_training_begins_again_once_it_is_over() {
        for (first, again, steps, newest, expected) in [
            (" 50%|█ | ", "  0%| | ", Some(20), 20, true),
            // It was cleared before it showed its last steps.
            (" 50%|█ | ", "  0%| | ", Some(20), 18, true),
            (" 50%|█ | ", "  0%| | ", Some(20), 17, false),
            (" 50%|█ | ", "  0%| | ", Some(3), 2, true),
            (" 50%|█ | ", "  0%| | ", Some(3), 1, false),
            ("Epoch 1: 50%|█ | ", "Epoch 2:  0%| | ", Some(20), 20, true),
            ("loss 0.5: 50%|█ | ", "  0%| | ", Some(20), 20, true),
            ("train loss 0.5: 50%|█ | ", "train:  0%| | ", Some(20), 20, true),
            ("train: 50%|█ | ", "predict:  0%| | ", Some(20), 20, false),
            ("", "", None, 7, true),
        ] {
            let mut bars = Bars::default();
            bars.kind(first, steps, true);
            assert_eq!(bars.begins_again(again, steps, newest), expected, "{first} {again} {steps:?} {newest}");
            assert!(!bars.begins_again(again, Some(5), 5), "another number of steps");
        }
        assert!(!Bars::default().begins_again("  0%| | ", Some(20), 20), "no bar of the training was there");
    }

    #[test]
    fn bars_without_losses_are_told_apart_once_a_loss_stood_beside_one() {
        let mut bars = Bars::default();
        assert_eq!(bars.kind(" 50%|█ | ", Some(5), false), Bar::Training);
        bars.has_loss_beside(Some(60));
        for (before, steps, expected) in [
            (" 50%|█ | ", 5, Bar::Guessed),
            (" 50%|█ | ", 60, Bar::Training),
            ("Loading shards: 50%|█ | ", 2, Bar::Training),
            ("eval: 50%|█ | ", 60, Bar::Evaluation),
        ] {
            assert_eq!(bars.kind(before, Some(steps), false), expected, "{before}");
        }
    }
}
