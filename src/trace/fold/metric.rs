//! The metrics of the papers, and NCCL's other collectives.

use super::distribution::percent;
use crate::protocol::{TRACE_METRICS, TraceSource};
use crate::trace::value::{Entry, MemoryOperation, Metric};

/// The metrics of a report of `wall_ns` on `gpus` GPUs.
pub(super) fn metrics(
    api: &[Entry],
    kernels: &[Entry],
    memory: &[MemoryOperation],
    wall_ns: u64,
    gpus: usize,
) -> Vec<Metric> {
    let mut all: Vec<Metric> = TRACE_METRICS
        .iter()
        .map(|kind| {
            let parts: Vec<(u64, u64, f64)> = match kind.source {
                TraceSource::Memory(name) => memory
                    .iter()
                    .filter(|operation| operation.name == name)
                    .map(|operation| (operation.statistics.calls, operation.statistics.total_ns, operation.percent))
                    .collect(),
                TraceSource::Api(name) => listed(api, |entry| is_call(entry, name)),
                TraceSource::Nccl(collective) => listed(kernels, |kernel| is_collective(kernel, collective)),
            };
            // From 0.0: an empty sum is -0.0.
            let total_ns = parts.iter().fold(0.0, |sum, (_, total_ns, _)| sum + *total_ns as f64);
            Metric {
                key: kind.key.to_owned(),
                name: kind.name.to_owned(),
                help: kind.help.to_owned(),
                calls: parts.iter().map(|(calls, ..)| calls).sum(),
                seconds: total_ns * 1e-9,
                percent_of_report: parts.iter().fold(0.0, |sum, (.., percent)| sum + percent),
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

fn listed(entries: &[Entry], is_meant: impl Fn(&str) -> bool) -> Vec<(u64, u64, f64)> {
    let meant = entries.iter().filter(|entry| is_meant(&entry.name));
    meant.map(|entry| (entry.statistics.calls, entry.statistics.total_ns, entry.percent)).collect()
}

/// Whether an entry is a call, also under its name for per-thread default streams.
fn is_call(entry: &str, name: &str) -> bool {
    entry.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest == "_ptsz")
}

/// Whether a kernel belongs to a collective, under the names of old and new NCCL versions.
fn is_collective(kernel: &str, collective: &str) -> bool {
    ["ncclDevKernel_", "ncclKernel_", "ncclSymkDevKernel_"]
        .iter()
        .filter_map(|prefix| kernel.strip_prefix(prefix)?.strip_prefix(collective))
        .any(|rest| !rest.starts_with(|next: char| next.is_ascii_alphanumeric()))
}
