//! What is kept of a profiler's report.

use std::ffi::CStr;

use serde::{Deserialize, Serialize};

use super::Evidence;

/// The NVTX range that a rank opens for the part of the run that a profiler is to record.
pub const CAPTURE_RANGE: &CStr = c"capture";

/// A metric: its key, its name as the papers print it, and what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceMetricKind {
    /// Stable, for programs.
    pub key: &'static str,
    /// As the papers print it.
    pub name: &'static str,
    /// What it means and what to make of it.
    pub help: &'static str,
    /// Where its time is found in a report.
    pub source: TraceSource,
}

/// Where a metric's time is found in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceSource {
    /// A kind of copy, by the name that nsys prints.
    Memory(&'static str),
    /// A CUDA call.
    Api(&'static str),
    /// NCCL's kernels of a collective, whatever the algorithm, protocol and type.
    Nccl(&'static str),
}

/// The papers' seven in their order, then three collectives more.
pub const TRACE_METRICS: [TraceMetricKind; 10] = [
    TraceMetricKind {
        key: "host_to_device",
        source: TraceSource::Memory("[CUDA memcpy Host-to-Device]"),
        name: "CUDA memcpy Host-to-Device",
        help: "Time of copies from the CPU's memory to the GPU's. Shows what moving data costs: pinned memory, fewer or \
               smaller copies, and copies that overlap with computing make it less.",
    },
    TraceMetricKind {
        key: "cuda_launch_kernel",
        source: TraceSource::Api("cudaLaunchKernel"),
        name: "cudaLaunchKernel",
        help: "Time the host takes to launch kernels. Shows what it costs to start work on the GPU; many small kernels \
               make it large.",
    },
    TraceMetricKind {
        key: "cuda_stream_synchronize",
        source: TraceSource::Api("cudaStreamSynchronize"),
        name: "cudaStreamSynchronize",
        help: "Time the host waits until all work of a stream is done. Much of it says that the GPU is loaded while the \
               CPU waits, which can be a sign of good use of the GPU.",
    },
    TraceMetricKind {
        key: "nccl_all_gather",
        source: TraceSource::Nccl("AllGather"),
        name: "ncclDevKernel_AllGather",
        help: "Time of NCCL's all-gather, in which each GPU collects a part from every other. Shows what communication \
               between GPUs costs, waiting for slower GPUs included.",
    },
    TraceMetricKind {
        key: "cuda_event_synchronize",
        source: TraceSource::Api("cudaEventSynchronize"),
        name: "cudaEventSynchronize",
        help: "Time the host waits until the work before an event is done, so that it can use the results.",
    },
    TraceMetricKind {
        key: "cuda_event_destroy",
        source: TraceSource::Api("cudaEventDestroy"),
        name: "cudaEventDestroy",
        help: "Time to release events that are no longer needed.",
    },
    TraceMetricKind {
        key: "cuda_memcpy_async",
        source: TraceSource::Api("cudaMemcpyAsync"),
        name: "cudaMemcpyAsync",
        help: "Time the host spends in asynchronous copies. From pageable memory the call itself waits for the data to \
               be staged; from pinned memory it returns at once and the GPU fetches the data by itself.",
    },
    TraceMetricKind {
        key: "nccl_broadcast",
        source: TraceSource::Nccl("Broadcast"),
        name: "ncclDevKernel_Broadcast",
        help: "Time of NCCL's broadcast from one GPU to all others: weights at the start, buffers at each step.",
    },
    TraceMetricKind {
        key: "nccl_all_reduce",
        source: TraceSource::Nccl("AllReduce"),
        name: "ncclDevKernel_AllReduce",
        help: "Time of NCCL's all-reduce, which sums gradients over all GPUs, waiting for slower GPUs included.",
    },
    TraceMetricKind {
        key: "nccl_reduce_scatter",
        source: TraceSource::Nccl("ReduceScatter"),
        name: "ncclDevKernel_ReduceScatter",
        help: "Time of NCCL's reduce-scatter, which sums gradients and leaves each GPU a part: sharded training.",
    },
];

/// One metric of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceMetric {
    /// `host_to_device`, `cuda_launch_kernel`, …
    pub key: String,
    /// How often.
    pub calls: u64,
    /// How long, summed over GPUs and threads.
    pub seconds: f64,
    /// `Time (%)` of the nsys report that lists it.
    pub percent_of_report: f64,
    /// Share of all metrics.
    pub percent_of_shown: f64,
    /// Share of the time the report covers, divided by the GPUs.
    pub percent_of_wall: f64,
}

/// What is kept of a report: of a run, or of one that stands alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceSummary {
    /// The file's name.
    pub file: String,
    /// The schema of the export, such as `3.20.3`.
    pub schema_version: String,
    /// The Nsight Systems that exported it.
    pub product_version: Option<String>,
    /// How much time it covers.
    pub wall_s: f64,
    /// GPUs that worked.
    pub gpus: u32,
    /// The papers' metrics, and NCCL's other collectives.
    pub metrics: Vec<TraceMetric>,
    /// What it shows of its run's factors; nothing for a report that stands alone.
    pub evidence: Vec<Evidence>,
    /// What a reader should know of it.
    pub warnings: Vec<String>,
}

/// What came of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceOutcome {
    /// It was imported.
    Imported(Box<TraceSummary>),
    /// There is none, or it could not be imported: what happened and what to do.
    Failed(String),
}
