//! The tables and figures that multicard knows by name.

use thiserror::Error;

use super::compare::column_of;
use super::{Drawing, SPEEDUP};
use crate::analysis::{MetricUnit, TRACE_METRICS};

/// A table and a figure by name: measures, rows, and what is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// The name in plans and on the command line.
    pub id: &'static str,
    /// One line: what it shows.
    pub help: &'static str,
    /// Which charts it draws.
    pub drawing: Drawing,
    /// Keys of its measures in the order of columns; `speedup` is made of two cells.
    pub(super) measures: &'static [&'static str],
    /// One row a cell and epoch, not one a cell.
    pub(super) by_epoch: bool,
    /// Which runs it is of.
    pub(super) runs: Runs,
    /// In what metrics of reports are drawn.
    pub(super) metric_unit: MetricUnit,
    /// The measure that is drawn; empty where its charts draw several.
    pub(super) metric: &'static str,
    /// The setting of groups of bars, where it is not the one that suits.
    pub(super) rows: Option<&'static str>,
    /// The setting that is told by colour, where it is not the one that suits.
    pub(super) colour: Option<&'static str>,
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
    /// The measure that it draws unless another is asked for.
    pub(super) fn usual_metric(self) -> &'static str {
        if self.metric.is_empty() { "epoch_time_s" } else { self.metric }
    }

    /// The same, with runs that a profiler recorded among the others.
    pub fn with_traced(self) -> Self {
        Self { runs: if self.runs == Runs::Plain { Runs::All } else { self.runs }, ..self }
    }

    /// The metrics of reports that it draws: those that its table has.
    pub(super) fn metrics(self) -> Vec<&'static str> {
        let is_drawn = |key: &&str| column_of(key, self.metric_unit).is_some_and(|key| self.measures.contains(&key));
        TRACE_METRICS.iter().map(|kind| kind.key).filter(is_drawn).collect()
    }

    const fn with_trace(self, metric_unit: MetricUnit) -> Self {
        Self { runs: Runs::WithTrace, metric_unit, ..self }
    }

    const fn new(
        id: &'static str,
        help: &'static str,
        drawing: Drawing,
        metric: &'static str,
        measures: &'static [&'static str],
    ) -> Self {
        Self {
            id,
            help,
            drawing,
            measures,
            by_epoch: false,
            runs: Runs::Plain,
            metric_unit: MetricUnit::Seconds,
            metric,
            rows: None,
            colour: None,
        }
    }

    const fn by_epoch(self) -> Self {
        Self { by_epoch: true, ..self }
    }

    const fn rows(self, rows: &'static str) -> Self {
        Self { rows: Some(rows), ..self }
    }

    const fn colour(self, colour: &'static str) -> Self {
        Self { colour: Some(colour), ..self }
    }
}

const LOSSES: &[&str] = &["train_loss", "test_loss", "accuracy"];
const SCALING: &[&str] = &["epoch_time_s", "images_per_s", "speedup"];
const TOTALS: &[&str] = &["total_time_s", "accuracy", "speedup"];
/// The columns of 2503.15252 Tables 2 and 3, which are those of 2505.22905 too.
const TABLE_2: &[&str] = &["total_time_s", "accuracy", "speedup_over_1_gpu", "speedup_over_fp64"];
const TABLE_3: &[&str] = &["total_time_s", "accuracy", "speedup_over_1_gpu", "speedup_over_pageable"];

const METRICS: &[&str] = &[
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
];
const METRICS_OF_REPORT: &[&str] = &[
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
];
const METRICS_OF_WALL: &[&str] = &[
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
];
/// Metrics that the papers draw for sizes, GPUs and pinned memory. Gradients are all-reduced here, which theirs gather.
const METRICS_OF_LOADING: &[&str] = &[
    "host_to_device_s",
    "cuda_launch_kernel_s",
    "cuda_stream_synchronize_s",
    "nccl_all_gather_s",
    "nccl_all_reduce_s",
];
const METRICS_OF_PRECISION: &[&str] =
    &["host_to_device_s", "cuda_memcpy_async_s", "nccl_broadcast_s", "cuda_event_destroy_s"];

const LOADING_PERCENT: &str = "copies to the GPUs, launches, waits for streams, AllGather and AllReduce (with which \
                               multicard's runs sum gradients) in traced runs: their shares of each other";
const LOADING_SECONDS: &str = "copies to the GPUs, launches, waits for streams, AllGather and AllReduce (with which \
                               multicard's runs sum gradients) in traced runs, in seconds";

/// All presets: those for any study first, then figures of papers (by arXiv number) as far as records fill them.
pub const PRESETS: &[Preset] = &[
    Preset::new(
        "times",
        "step, epoch and total time, throughput and speed-up, with accuracy and loss as a check",
        Drawing::Bars,
        "epoch_time_s",
        &["step_time_s", "epoch_time_s", "total_time_s", "images_per_s", "speedup", "accuracy", "train_loss"],
    ),
    Preset::new(
        "loading",
        "throughput, waiting for data in each step, and the start of the loader in each epoch",
        Drawing::Bars,
        "load_wait_s",
        &["images_per_s", "step_time_s", "load_wait_s", "loader_start_s", "epoch_time_s"],
    ),
    Preset::new("loss", "training loss, test loss and accuracy after each epoch", Drawing::Loss, "", LOSSES).by_epoch(),
    Preset::new(
        "memory",
        "peak GPU memory: in tensors, reserved, active, in the warm-up, and on the device",
        Drawing::Memory,
        "",
        &[
            "peak_allocated_bytes",
            "peak_reserved_bytes",
            "peak_active_bytes",
            "warm_up_peak_bytes",
            "peak_device_bytes",
        ],
    ),
    Preset::new(
        "scaling",
        "epoch time over GPUs beside its ideal, and efficiency",
        Drawing::Scaling,
        "epoch_time_s",
        SCALING,
    ),
    Preset::new(
        "speedup",
        "distinct images per second over those of the baseline",
        Drawing::Bars,
        SPEEDUP,
        &["images_per_s", "speedup"],
    ),
    Preset::new(
        "effects",
        "how many times as fast each level is as its factor's first one, all else equal",
        Drawing::Effects,
        "epoch_time_s",
        SCALING,
    ),
    Preset::new(
        "repeats",
        "every repeat of every cell",
        Drawing::Repeats,
        "epoch_time_s",
        &["epoch_time_s", "step_time_s", "total_time_s"],
    ),
    Preset::new("map", "epoch time over two factors as a field of colours", Drawing::Map, "epoch_time_s", SCALING),
    Preset::new(
        "parts",
        "what the time of a step goes to: waiting for data, all else",
        Drawing::Parts,
        "step_time_s",
        &["step_time_s", "load_wait_s"],
    ),
    Preset::new(
        "activity",
        "what each rank of a run did when",
        Drawing::Activity,
        "total_time_s",
        &["total_time_s", "epoch_time_s"],
    ),
    Preset::new(
        "metrics",
        "time of the papers' CUDA and NCCL metrics in traced runs and reports",
        Drawing::Metrics,
        "",
        METRICS,
    )
    .with_trace(MetricUnit::Seconds),
    Preset::new(
        "metrics-percent-of-report",
        "the same as Time (%) of the list of nsys that holds each",
        Drawing::Metrics,
        "",
        METRICS_OF_REPORT,
    )
    .with_trace(MetricUnit::OfReport),
    Preset::new(
        "metrics-percent-of-wall",
        "the same as share of the recorded time, divided by the GPUs",
        Drawing::Metrics,
        "",
        METRICS_OF_WALL,
    )
    .with_trace(MetricUnit::OfWall),
    Preset::new(
        "2503.15252/fig-1",
        "total time over GPUs by distribution strategy, and efficiency",
        Drawing::Scaling,
        "total_time_s",
        TOTALS,
    )
    .colour("strategy"),
    Preset::new(
        "2503.15252/fig-2",
        "total time over GPUs by image size, and efficiency",
        Drawing::Scaling,
        "total_time_s",
        TOTALS,
    )
    .colour("image_size"),
    Preset::new("2503.15252/fig-3", LOADING_PERCENT, Drawing::Metrics, "", METRICS_OF_LOADING)
        .with_trace(MetricUnit::OfShown),
    Preset::new("2503.15252/table-2", "total time by precision and GPUs", Drawing::Bars, "total_time_s", TABLE_2)
        .rows("gpus")
        .colour("precision"),
    Preset::new("2503.15252/table-3", "total time by pin_memory and GPUs", Drawing::Bars, "total_time_s", TABLE_3)
        .rows("gpus")
        .colour("pin_memory"),
    Preset::new("2505.22905/fig-3", LOADING_PERCENT, Drawing::Metrics, "", METRICS_OF_LOADING)
        .with_trace(MetricUnit::OfShown),
    Preset::new("2505.22905/fig-4", LOADING_SECONDS, Drawing::Metrics, "", METRICS_OF_LOADING)
        .with_trace(MetricUnit::Seconds),
    Preset::new("2505.22905/fig-5", "training loss by epoch and precision", Drawing::Loss, "train_loss", LOSSES)
        .by_epoch()
        .colour("precision"),
    Preset::new("2505.22905/fig-6", "total time by loader and GPUs", Drawing::Bars, "total_time_s", TOTALS)
        .rows("gpus")
        .colour("loader"),
    Preset::new("2505.22905/fig-9", "total time by layout and GPUs", Drawing::Bars, "total_time_s", TOTALS)
        .rows("gpus")
        .colour("layout"),
    Preset::new(
        "2505.22905/precision-metrics",
        "the metrics that precision changes most in traced runs (section 4.2.1), in seconds",
        Drawing::Metrics,
        "",
        METRICS_OF_PRECISION,
    )
    .with_trace(MetricUnit::Seconds),
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
    use super::super::sibling::Against;
    use super::*;
    use crate::analysis::measure;

    #[test]
    fn a_misspelt_preset_is_answered_with_the_nearest_and_all_that_exist() {
        let message = preset("memroy").map_err(|error| error.to_string());
        let expected = "unknown preset \"memroy\": did you mean \"memory\"? there are times, loading, loss, memory";
        assert!(message.is_err_and(|message| message.starts_with(expected)));
    }

    #[test]
    fn every_preset_is_found_by_its_id_and_has_known_measures_only() {
        for known in PRESETS {
            assert_eq!(preset(known.id), Ok(*known));
            assert!(known.metric.is_empty() || known.metric == SPEEDUP || measure(known.metric).is_some());
            let known_key = |key: &str| key == "speedup" || measure(key).is_some() || Against::find(key).is_some();
            assert!(known.measures.iter().all(|key| known_key(key)));
        }
    }
}
