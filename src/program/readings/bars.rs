//! Which progress bars of a program count steps of its training. A program may have another bar for validation, whose steps have another
//! duration and another loss.
//!
//! The description of a bar, the text in front of its percentage, tells them apart: `val:  10%|█ | 1/10 …`. Of bars without a description,
//! only those with as many steps as the first one are taken for training. Losses stand in the bars, or in dictionaries beside them.

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

/// What a bar counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bar {
    /// Steps of the training; if it has no loss, anything, such as the bytes of a download.
    Training,
    /// Steps of an evaluation, as its description says.
    Evaluation,
    /// Steps of an evaluation, as its number of steps suggests.
    Guessed,
}

/// The progress bars of a program so far.
#[derive(Default)]
pub(super) struct Bars {
    /// The number of steps of the first bar with a loss that was not an evaluation's; the inner one is `None` for a bar without a total.
    first: Option<Option<u64>>,
    /// Whether losses stand beside the bars.
    has_losses_beside: bool,
    is_evaluating: bool,
    is_guess_told: bool,
}

impl Bars {
    /// What a bar counts, given the text in front of its count, its number of steps if it has a total, and whether it has a loss.
    pub fn kind(&mut self, before: &str, steps: Option<u64>, has_loss: bool) -> Bar {
        let (description, has_loss) = (description(before), has_loss || self.has_losses_beside);
        let says = |words: &Option<Regex>| captures(words, description).is_some();
        // Before any loss, `test` may be the name of a file.
        if (has_loss || self.first.is_some()) && says(&EVALUATION) && !says(&TRAINING) {
            return Bar::Evaluation;
        }
        if !has_loss {
            return Bar::Training;
        }
        let first = *self.first.get_or_insert(steps);
        if description.is_empty() && steps != first { Bar::Guessed } else { Bar::Training }
    }

    /// Notes that a loss of the training stands beside a bar with this number of steps.
    pub fn has_loss_beside(&mut self, steps: Option<u64>) {
        self.first.get_or_insert(steps);
        self.has_losses_beside = true;
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

    /// Whether a bar with this number of steps is that of the training.
    pub fn is_first(&self, steps: Option<u64>) -> bool {
        self.first == Some(steps)
    }

    /// Whether the message about the guess is due, which is told once.
    pub fn must_tell_guess(&mut self) -> bool {
        !std::mem::replace(&mut self.is_guess_told, true)
    }
}

/// The description of a bar, given the text in front of its count: `val:  10%|█    | `.
pub(super) fn description(before: &str) -> &str {
    let text = match before.rsplit_once("%|") {
        Some((text, _)) => text.trim_end_matches(|c: char| c.is_ascii_digit()),
        None => before,
    };
    text.trim_matches(|c: char| !c.is_alphanumeric())
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
        assert_eq!(kind(" 50%|█ | ", 5, false), Bar::Training);
        assert_eq!(kind("Epoch 2: 50%|█ | ", 30, true), Bar::Training);
        assert_eq!(kind(" 50%|█ | ", 20, true), Bar::Training);
        assert_eq!(kind("val: 50%|█ | ", 20, false), Bar::Evaluation);
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
