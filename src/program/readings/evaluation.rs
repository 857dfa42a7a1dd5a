//! The mean loss of each evaluation whose losses the program reports in a phase.

use super::keys::Keys;
use crate::protocol::Event;

/// The losses of the current evaluation.
#[derive(Default)]
pub(super) struct Evaluation {
    mean: Option<Mean>,
    has_losses: bool,
}

/// The losses of one key and one epoch.
struct Mean {
    key: &'static str,
    epoch: u32,
    /// The sum of the losses, each multiplied by its weight.
    sum: f64,
    weight: f64,
    /// When the last loss was reported.
    at_s: f64,
}

impl Evaluation {
    /// Whether there was a loss in any evaluation.
    pub fn has_losses(&self) -> bool {
        self.has_losses
    }

    /// The epoch of the current evaluation; `None` if it has no loss.
    pub fn epoch(&self) -> Option<u32> {
        self.mean.as_ref().map(|mean| mean.epoch)
    }

    /// Adds a loss with its weight in the mean. The key and the epoch are those of the losses since the last [`Self::end`].
    pub fn add(&mut self, key: &'static str, epoch: u32, loss: f64, weight: f64, at_s: f64) {
        let mean = self.mean.get_or_insert(Mean { key, epoch, sum: 0.0, weight: 0.0, at_s });
        (mean.sum, mean.weight, mean.at_s) = (mean.sum + loss * weight, mean.weight + weight, at_s);
        self.has_losses = true;
    }

    /// Ends the evaluation with a reading of its loss and its time, if there was a loss and `reported`, the keys that the program reports
    /// itself, are others.
    pub fn end(&mut self, reported: &Keys) -> Option<(f64, Event)> {
        let mean = self.mean.take().filter(|mean| mean.weight > 0.0 && !reported.contains(mean.key))?;
        let (key, value) = (mean.key.into(), mean.sum / mean.weight);
        Some((mean.at_s, Event::Reading { key, value, epoch: Some(mean.epoch), step: None }))
    }
}
