//! The metrics of the papers, and NCCL's other collectives.

use super::operation::HOST_TO_DEVICE;
use super::value::{Entry, MemoryOperation, Metric};

/// Where a metric's time is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// A kind of copy, by the name that nsys prints.
    Memory(&'static str),
    /// A CUDA call.
    Api(&'static str),
    /// NCCL's kernels of a collective, whatever the algorithm, protocol and type.
    Nccl(&'static str),
}

/// A metric: its key, its name as the papers print it, and what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricKind {
    /// Stable, for programs.
    pub key: &'static str,
    /// As the papers print it.
    pub name: &'static str,
    /// What it means and what to make of it.
    pub help: &'static str,
    source: Source,
}

/// The papers' seven in their order, then three collectives more.
pub const METRICS: [MetricKind; 10] = [
    MetricKind {
        key: "host_to_device",
        name: "CUDA memcpy Host-to-Device",
        help: "Time of copies from the CPU's memory to the GPU's. Shows what moving data costs: pinned memory, fewer or \
               smaller copies, and copies that overlap with computing make it less.",
        source: Source::Memory(HOST_TO_DEVICE),
    },
    MetricKind {
        key: "cuda_launch_kernel",
        name: "cudaLaunchKernel",
        help: "Time the host takes to launch kernels. Shows what it costs to start work on the GPU; many small kernels \
               make it large.",
        source: Source::Api("cudaLaunchKernel"),
    },
    MetricKind {
        key: "cuda_stream_synchronize",
        name: "cudaStreamSynchronize",
        help: "Time the host waits until all work of a stream is done. Much of it says that the GPU is loaded while the \
               CPU waits, which can be a sign of good use of the GPU.",
        source: Source::Api("cudaStreamSynchronize"),
    },
    MetricKind {
        key: "nccl_all_gather",
        name: "ncclDevKernel_AllGather",
        help: "Time of NCCL's all-gather, in which each GPU collects a part from every other. Shows what communication \
               between GPUs costs, waiting for slower GPUs included.",
        source: Source::Nccl("AllGather"),
    },
    MetricKind {
        key: "cuda_event_synchronize",
        name: "cudaEventSynchronize",
        help: "Time the host waits until the work before an event is done, so that it can use the results.",
        source: Source::Api("cudaEventSynchronize"),
    },
    MetricKind {
        key: "cuda_event_destroy",
        name: "cudaEventDestroy",
        help: "Time to release events that are no longer needed.",
        source: Source::Api("cudaEventDestroy"),
    },
    MetricKind {
        key: "cuda_memcpy_async",
        name: "cudaMemcpyAsync",
        help: "Time the host spends in asynchronous copies. From pageable memory the call itself waits for the data to \
               be staged; from pinned memory it returns at once and the GPU fetches the data by itself.",
        source: Source::Api("cudaMemcpyAsync"),
    },
    MetricKind {
        key: "nccl_broadcast",
        name: "ncclDevKernel_Broadcast",
        help: "Time of NCCL's broadcast from one GPU to all others: weights at the start, buffers at each step.",
        source: Source::Nccl("Broadcast"),
    },
    MetricKind {
        key: "nccl_all_reduce",
        name: "ncclDevKernel_AllReduce",
        help: "Time of NCCL's all-reduce, which sums gradients over all GPUs, waiting for slower GPUs included.",
        source: Source::Nccl("AllReduce"),
    },
    MetricKind {
        key: "nccl_reduce_scatter",
        name: "ncclDevKernel_ReduceScatter",
        help: "Time of NCCL's reduce-scatter, which sums gradients and leaves each GPU a part: sharded training.",
        source: Source::Nccl("ReduceScatter"),
    },
];

/// `part` of `whole` in percent; 0 of nothing.
pub(super) fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}

/// The metrics of a report of `wall_ns` on `gpus` GPUs.
pub(super) fn metrics(
    api: &[Entry],
    kernels: &[Entry],
    memory: &[MemoryOperation],
    wall_ns: u64,
    gpus: usize,
) -> Vec<Metric> {
    let mut all: Vec<Metric> = METRICS
        .iter()
        .map(|kind| {
            let parts: Vec<(u64, u64, f64)> = match kind.source {
                Source::Memory(name) => memory
                    .iter()
                    .filter(|operation| operation.name == name)
                    .map(|operation| (operation.statistics.calls, operation.statistics.total_ns, operation.percent))
                    .collect(),
                Source::Api(name) => listed(api, |entry| is_call(entry, name)),
                Source::Nccl(collective) => listed(kernels, |kernel| is_collective(kernel, collective)),
            };
            // From 0.0: the sum of no numbers is -0.0.
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

/// A call, also where a program was built with a default stream for each thread.
fn is_call(entry: &str, name: &str) -> bool {
    entry.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest == "_ptsz")
}

/// Kernels of a collective, under the names of old and new NCCL.
fn is_collective(kernel: &str, collective: &str) -> bool {
    ["ncclDevKernel_", "ncclKernel_", "ncclSymkDevKernel_"]
        .iter()
        .filter_map(|prefix| kernel.strip_prefix(prefix)?.strip_prefix(collective))
        .any(|rest| !rest.starts_with(|next: char| next.is_ascii_alphanumeric()))
}
