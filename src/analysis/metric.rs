//! Metrics of profilers' reports as measures: each in seconds and as shares, which are named.

use super::measure::{Measure, plain};
use crate::protocol::TRACE_METRICS;

/// In what metrics are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MetricUnit {
    /// Seconds, summed over GPUs and threads.
    #[default]
    Seconds,
    /// `Time (%)` of the nsys report that lists the metric.
    OfReport,
    /// Share of the metrics that are shown.
    OfShown,
    /// Share of the time the report covers, divided by the GPUs.
    OfWall,
}

impl MetricUnit {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Seconds, Self::OfReport, Self::OfShown, Self::OfWall];

    /// The name in files and on screen.
    pub fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::OfReport => "percent_of_report",
            Self::OfShown => "percent_of_shown",
            Self::OfWall => "percent_of_wall",
        }
    }

    /// What it means.
    pub fn help(self) -> &'static str {
        match self {
            Self::Seconds => "Seconds, summed over GPUs and threads.",
            Self::OfReport => {
                "Time (%) of the list of nsys that holds the metric: calls, kernels or memory operations."
            }
            Self::OfShown => "Share of the metrics that are shown, which make 100 % together.",
            Self::OfWall => "Share of the time the report covers, divided by the GPUs.",
        }
    }
}

/// Four measures of each metric, in the order of [`TRACE_METRICS`] and [`MetricUnit::ALL`].
macro_rules! measures {
    ($($key:literal $name:literal,)+) => {
        &[$(
            plain(concat!($key, "_s"), $name, "s", |run| run.trace_metric($key).map(|metric| metric.seconds)),
            plain(concat!($key, "_percent_of_report"), $name, "% of report", |run| {
                run.trace_metric($key).map(|metric| metric.percent_of_report)
            }),
            plain(concat!($key, "_percent_of_shown"), $name, "% of shown", |run| {
                run.trace_metric($key).map(|metric| metric.percent_of_shown)
            }),
            plain(concat!($key, "_percent_of_wall"), $name, "% of wall", |run| {
                run.trace_metric($key).map(|metric| metric.percent_of_wall)
            }),
        )+]
    };
}

pub(super) const METRIC_MEASURES: &[Measure] = measures! {
    "host_to_device" "CUDA memcpy Host-to-Device",
    "cuda_launch_kernel" "cudaLaunchKernel",
    "cuda_stream_synchronize" "cudaStreamSynchronize",
    "nccl_all_gather" "ncclDevKernel_AllGather",
    "cuda_event_synchronize" "cudaEventSynchronize",
    "cuda_event_destroy" "cudaEventDestroy",
    "cuda_memcpy_async" "cudaMemcpyAsync",
    "nccl_broadcast" "ncclDevKernel_Broadcast",
    "nccl_all_reduce" "ncclDevKernel_AllReduce",
    "nccl_reduce_scatter" "ncclDevKernel_ReduceScatter",
};

/// The measure of a metric; none of a key that no metric has.
pub fn metric_measure(key: &str, unit: MetricUnit) -> Option<&'static Measure> {
    let place = TRACE_METRICS.iter().position(|kind| kind.key == key)?;
    METRIC_MEASURES.get(place * MetricUnit::ALL.len() + unit as usize)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_a_measure_in_every_unit_under_its_own_name() {
        assert_eq!(METRIC_MEASURES.len(), TRACE_METRICS.len() * MetricUnit::ALL.len());
        for kind in &TRACE_METRICS {
            for unit in MetricUnit::ALL {
                let measure = metric_measure(kind.key, unit).unwrap();
                let ending = if unit == MetricUnit::Seconds { "s" } else { unit.name() };
                assert_eq!((measure.key, measure.name), (format!("{}_{ending}", kind.key).as_str(), kind.name));
            }
        }
    }
}
