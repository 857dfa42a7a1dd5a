//! The words by which programs name phases. Folders of event files, progress bars, lines of output and names of readings have the same words
//! for evaluations.

use crate::protocol::Phase;

/// Words for an evaluation.
pub(super) const EVALUATIONS: &[&str] = &["val", "valid", "validation", "eval", "evaluation", "test"];
/// Words that mean an evaluation only where a program names what it does: in a phase, or in front of a progress bar, a step or a loss.
pub(super) const EVALUATING: &[&str] =
    &["validate", "validating", "evaluate", "evaluating", "testing", "dev", "held-out", "holdout"];

/// The words for each phase.
const PHASES: &[(&[&str], Phase)] = &[
    (&["start"], Phase::Start),
    (&["load", "loading"], Phase::Load),
    (&["warm_up", "warmup"], Phase::WarmUp),
    (&["train", "training", "steady"], Phase::Steady),
    (EVALUATIONS, Phase::Evaluate),
    (EVALUATING, Phase::Evaluate),
];

/// Whether the name of a folder or of a tag is that of an evaluation.
pub(super) fn names_evaluation(name: &str) -> bool {
    words(name).any(|word| EVALUATIONS.contains(&word.as_str()))
}

/// Whether the name of a reading is that of a loss in an evaluation: `val_loss`, `validation/loss`.
pub(super) fn names_loss_of_evaluation(name: &str) -> bool {
    let is_evaluation = |word: String| EVALUATIONS.contains(&word.as_str()) || EVALUATING.contains(&word.as_str());
    words(name).any(|word| word == "loss") && words(name).any(is_evaluation)
}

/// The words of a name, in lower case.
fn words(name: &str) -> impl Iterator<Item = String> {
    name.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase)
}

/// A phase as a program names it. If it is [`Phase::WarmUp`] or [`Phase::Steady`], the program trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedPhase {
    /// The phase.
    pub phase: Phase,
    /// The program's word for it, in lower case.
    pub name: &'static str,
}

impl NamedPhase {
    /// The phase of this name; `None` if no phase has it.
    pub fn of(name: &str) -> Option<Self> {
        let word = name.to_lowercase();
        PHASES.iter().find_map(|(words, phase)| {
            let name = words.iter().find(|known| **known == word)?;
            Some(Self { phase: *phase, name })
        })
    }

    /// Whether the program trains.
    pub fn is_training(self) -> bool {
        matches!(self.phase, Phase::WarmUp | Phase::Steady)
    }

    /// Whether the phase goes on if it is followed by the other one.
    pub fn is_continued_by(self, other: Self) -> bool {
        self == other || self.is_training() && other.is_training()
    }

    /// The key of the losses in this phase; `None` if it is not an evaluation.
    pub fn loss_key(self) -> Option<&'static str> {
        let is_validation = self.name.starts_with("val") || self.name == "dev";
        (self.phase == Phase::Evaluate).then_some(if is_validation { "val_loss" } else { "test_loss" })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_word_for_an_evaluation_names_its_phase_and_the_key_of_its_loss() {
        let key = |name: &str| NamedPhase::of(name).unwrap().loss_key();
        for name in EVALUATIONS.iter().chain(EVALUATING) {
            assert_eq!(NamedPhase::of(&name.to_uppercase()).unwrap().phase, Phase::Evaluate, "{name}");
        }
        assert_eq!(["val", "Validation", "dev"].map(key), [Some("val_loss"); 3]);
        assert_eq!(["evaluate", "eval", "test"].map(key), [Some("test_loss"); 3]);
        assert_eq!(["train", "load"].map(key), [None; 2]);
        assert_eq!(NamedPhase::of("lunch"), None);
    }

    #[test]
    fn the_loss_of_an_evaluation_has_a_word_for_it_and_for_the_evaluation() {
        for name in ["val_loss", "eval/loss", "Test Loss", "validation/epoch_loss", "dev-loss", "val/box_loss"] {
            assert!(names_loss_of_evaluation(name), "{name}");
        }
        for name in ["loss", "train/loss", "val_accuracy", "value_loss", "latest_loss", "loss_scale", "val_blossom"] {
            assert!(!names_loss_of_evaluation(name), "{name}");
        }
    }
}
