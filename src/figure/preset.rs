//! The tables that multicard knows by name.

use thiserror::Error;

/// A table by name: its measures and its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// The name in plans and on the command line.
    pub id: &'static str,
    /// One line: what it shows.
    pub help: &'static str,
    /// Keys of its measures in the order of columns; `speedup` is made of two cells.
    pub(super) measures: &'static [&'static str],
    /// One row a cell and epoch, not one a cell.
    pub(super) by_epoch: bool,
}

/// All presets.
pub const PRESETS: &[Preset] = &[
    Preset {
        id: "times",
        help: "step, epoch and total time, throughput and speed-up, with accuracy and loss as a check",
        measures: &["step_time_s", "epoch_time_s", "total_time_s", "images_per_s", "speedup", "accuracy", "train_loss"],
        by_epoch: false,
    },
    Preset {
        id: "loading",
        help: "throughput, waiting for data in each step, and the start of the loader in each epoch",
        measures: &["images_per_s", "step_time_s", "load_wait_s", "loader_start_s", "epoch_time_s"],
        by_epoch: false,
    },
    Preset {
        id: "loss",
        help: "training loss, test loss and accuracy after each epoch",
        measures: &["train_loss", "test_loss", "accuracy"],
        by_epoch: true,
    },
    Preset {
        id: "memory",
        help: "peak GPU memory: in tensors, reserved, active, and on the device",
        measures: &["peak_allocated_bytes", "peak_reserved_bytes", "peak_active_bytes", "peak_device_bytes"],
        by_epoch: false,
    },
];

/// A name that no preset has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown preset {given:?}: did you mean {nearest:?}? there are {}", known())]
pub struct UnknownPreset {
    /// What was given.
    pub given: String,
    /// The most similar name that exists.
    pub nearest: &'static str,
}

/// A preset by its id.
pub fn preset(id: &str) -> Result<Preset, UnknownPreset> {
    let known = PRESETS.iter().find(|preset| preset.id == id);
    known.copied().ok_or_else(|| UnknownPreset { given: id.to_owned(), nearest: nearest(id) })
}

fn nearest(id: &str) -> &'static str {
    let likeness = |known: &&Preset| strsim::jaro_winkler(known.id, id);
    let nearest = PRESETS.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    nearest.map_or("", |preset| preset.id)
}

fn known() -> String {
    PRESETS.iter().map(|preset| preset.id).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::measure;

    #[test]
    fn a_misspelt_preset_is_answered_with_the_nearest_and_all_that_exist() {
        let message = preset("memroy").map_err(|error| error.to_string());
        let expected = "unknown preset \"memroy\": did you mean \"memory\"? there are times, loading, loss, memory";
        assert_eq!(message, Err(expected.to_owned()));
    }

    #[test]
    fn every_preset_is_found_by_its_id_and_has_known_measures_only() {
        for known in PRESETS {
            assert_eq!(preset(known.id), Ok(*known));
            assert!(known.measures.iter().all(|key| *key == "speedup" || measure(key).is_some()));
        }
    }
}
