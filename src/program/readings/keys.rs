//! The keys of a run's readings: which readings are kept, and under which key.

use std::collections::HashSet;

use crate::analysis::is_measured_here;
use crate::plan::Key;

/// The most different keys of readings in a run.
pub(super) const MOST_KEYS: usize = 1_000;
/// The key of the training's loss.
pub(super) const TRAINING_LOSS: &str = "train_loss";

/// The keys that a program has reported.
#[derive(Default)]
pub(super) struct Keys(HashSet<Key>);

/// Why readings of a key are left out.
pub(super) struct Refused {
    /// The kind of the message, which is given once.
    pub kind: Key,
    pub message: String,
}

impl Keys {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, key: &str) -> bool {
        self.0.contains(key)
    }

    /// Adds the key of a reading.
    ///
    /// # Errors
    /// The reading is left out: multicard measures this key itself, or the program has too many keys.
    pub fn add(&mut self, key: &Key) -> Result<(), Refused> {
        if self.contains(key) {
            return Ok(());
        }
        if let Some(message) = refusal(key) {
            return Err(Refused { kind: key.clone(), message });
        }
        if self.0.len() == MOST_KEYS {
            let message =
                format!("the program has more than {MOST_KEYS} different readings: from {key} on, they are left out");
            return Err(Refused { kind: "keys".into(), message });
        }
        self.0.insert(key.clone());
        Ok(())
    }

    /// The key under which a reading of the training is kept. Its `loss` is the training's loss, unless the program reports that, too.
    pub fn of_training(&self, key: Key) -> Key {
        if key == "loss" && !self.contains(TRAINING_LOSS) { TRAINING_LOSS.into() } else { key }
    }
}

/// Why readings of this key are left out; `None` if they are kept.
pub(super) fn refusal(key: &str) -> Option<String> {
    let message = || {
        format!(
            "the program reported {key}, which multicard measures itself: its values are left out; report them under another key"
        )
    };
    is_measured_here(key).then(message)
}
