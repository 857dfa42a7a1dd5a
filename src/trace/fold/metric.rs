//! The metrics of the papers, and NCCL's other collectives: the first patterns that are looked up in the lists of a recording.

use std::sync::LazyLock;

use super::distribution::percent;
use crate::protocol::{TRACE_METRICS, TraceList, TraceMetricKind, TracePattern};
use crate::trace::value::{Entry, MemoryOperation, Metric, Statistics};

static PATTERNS: LazyLock<Vec<(&TraceMetricKind, TracePattern)>> = LazyLock::new(|| {
    TRACE_METRICS.iter().filter_map(|kind| Some((kind, TracePattern::parse(kind.pattern).ok()?))).collect()
});

/// The metrics of a report of `wall_ns` on `gpus` GPUs. Lists that were not recorded give no metrics.
pub(super) fn metrics(
    is_recorded: impl Fn(TraceList) -> bool,
    api: &[Entry],
    kernels: &[Entry],
    memory: &[MemoryOperation],
    wall_ns: u64,
    gpus: usize,
) -> Vec<Metric> {
    let mut all: Vec<Metric> = PATTERNS
        .iter()
        .filter(|(_, pattern)| is_recorded(pattern.list))
        .map(|(kind, pattern)| {
            let entries: &mut dyn Iterator<Item = (&str, &Statistics, f64)> = match pattern.list {
                TraceList::Copy => &mut memory.iter().map(|one| (one.name.as_str(), &one.statistics, one.percent)),
                TraceList::Api => &mut api.iter().map(|one| (one.name.as_str(), &one.statistics, one.percent)),
                _ => &mut kernels.iter().map(|one| (one.name.as_str(), &one.statistics, one.percent)),
            };
            let picked: Vec<(&Statistics, f64)> = entries
                .filter(|(name, ..)| pattern.picks(name))
                .map(|(_, statistics, percent)| (statistics, percent))
                .collect();
            // From 0.0: an empty sum is -0.0.
            let total_ns = picked.iter().fold(0.0, |sum, (statistics, _)| sum + statistics.total_ns as f64);
            Metric {
                key: kind.key.to_owned(),
                name: kind.name.to_owned(),
                help: kind.help.to_owned(),
                calls: picked.iter().map(|(statistics, _)| statistics.calls).sum(),
                seconds: total_ns * 1e-9,
                percent_of_report: picked.iter().fold(0.0, |sum, (_, percent)| sum + percent),
                percent_of_shown: 0.0,
                percent_of_wall: percent(total_ns / gpus.max(1) as f64, wall_ns as f64),
            }
        })
        .collect();
    let shown: f64 = all.iter().map(|metric| metric.seconds).sum();
    for metric in &mut all {
        metric.percent_of_shown = percent(metric.seconds, shown);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_pick_the_names_of_old_and_new_libraries_and_no_others() {
        let picked = |name: &str| -> Vec<&str> {
            PATTERNS.iter().filter(|(_, pattern)| pattern.picks(name)).map(|(kind, _)| kind.key).collect()
        };
        assert_eq!(PATTERNS.len(), TRACE_METRICS.len(), "each has a pattern that can be read");
        for name in
            ["ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "ncclKernel_AllReduce", "ncclSymkDevKernel_AllReduce_LL"]
        {
            assert_eq!(picked(name), ["nccl_all_reduce"], "{name}");
        }
        for name in ["cudaLaunchKernel", "cudaLaunchKernel_ptsz"] {
            assert_eq!(picked(name), ["cuda_launch_kernel"], "{name}");
        }
        for name in
            ["cudaLaunchKernelExC", "ncclDevKernel_AllReduceV_Sum", "x_ncclDevKernel_AllReduce", "cuLaunchKernel"]
        {
            assert_eq!(picked(name), [""; 0], "{name}");
        }
    }
}
