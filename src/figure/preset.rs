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
    /// Which runs it is of.
    pub(super) runs: Runs,
}

/// Which runs a table is of: tracing costs time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Runs {
    /// Those that no profiler recorded.
    Plain,
    /// All.
    All,
    /// Those with a profiler's report, and reports that stand alone.
    WithTrace,
}

impl Preset {
    /// The same, with runs that a profiler recorded among the others.
    pub fn with_traced(self) -> Self {
        Self { runs: if self.runs == Runs::Plain { Runs::All } else { self.runs }, ..self }
    }
}

/// All presets.
pub const PRESETS: &[Preset] = &[
    Preset {
        id: "times",
        help: "step, epoch and total time, throughput and speed-up, with accuracy and loss as a check",
        measures: &["step_time_s", "epoch_time_s", "total_time_s", "images_per_s", "speedup", "accuracy", "train_loss"],
        by_epoch: false,
        runs: Runs::Plain,
    },
    Preset {
        id: "loss",
        help: "training loss, test loss and accuracy after each epoch",
        measures: &["train_loss", "test_loss", "accuracy"],
        by_epoch: true,
        runs: Runs::Plain,
    },
    Preset {
        id: "memory",
        help: "peak GPU memory: in tensors, reserved, active, and on the device",
        measures: &["peak_allocated_bytes", "peak_reserved_bytes", "peak_active_bytes", "peak_device_bytes"],
        by_epoch: false,
        runs: Runs::Plain,
    },
    Preset {
        id: "metrics",
        help: "time of the papers' CUDA and NCCL metrics in traced runs and reports",
        measures: &[
            "host_to_device_s",
            "cuda_launch_kernel_s",
            "cuda_stream_synchronize_s",
            "nccl_all_gather_s",
            "cuda_event_synchronize_s",
            "cuda_event_destroy_s",
            "cuda_memcpy_async_s",
            "nccl_broadcast_s",
            "nccl_all_reduce_s",
            "nccl_reduce_scatter_s",
        ],
        by_epoch: false,
        runs: Runs::WithTrace,
    },
    Preset {
        id: "metrics-percent-of-report",
        help: "the same as Time (%) of the list of nsys that holds each",
        measures: &[
            "host_to_device_percent_of_report",
            "cuda_launch_kernel_percent_of_report",
            "cuda_stream_synchronize_percent_of_report",
            "nccl_all_gather_percent_of_report",
            "cuda_event_synchronize_percent_of_report",
            "cuda_event_destroy_percent_of_report",
            "cuda_memcpy_async_percent_of_report",
            "nccl_broadcast_percent_of_report",
            "nccl_all_reduce_percent_of_report",
            "nccl_reduce_scatter_percent_of_report",
        ],
        by_epoch: false,
        runs: Runs::WithTrace,
    },
    Preset {
        id: "metrics-percent-of-wall",
        help: "the same as share of the recorded time, divided by the GPUs",
        measures: &[
            "host_to_device_percent_of_wall",
            "cuda_launch_kernel_percent_of_wall",
            "cuda_stream_synchronize_percent_of_wall",
            "nccl_all_gather_percent_of_wall",
            "cuda_event_synchronize_percent_of_wall",
            "cuda_event_destroy_percent_of_wall",
            "cuda_memcpy_async_percent_of_wall",
            "nccl_broadcast_percent_of_wall",
            "nccl_all_reduce_percent_of_wall",
            "nccl_reduce_scatter_percent_of_wall",
        ],
        by_epoch: false,
        runs: Runs::WithTrace,
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
        let expected = "unknown preset \"memroy\": did you mean \"memory\"? there are times, loss, memory";
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
