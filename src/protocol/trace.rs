//! Summaries of profiler reports.

use std::ffi::CStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Evidence, TraceLists};

/// Name of the NVTX range around the part of a run that a profiler records.
pub const CAPTURE_RANGE: &CStr = c"capture";

/// File in a run's folder in which its ranks record themselves.
pub const EVENTS_FILE: &str = "trace.events";

/// The environment variable that tells the tracer's library which CUDA calls to record, and its value for no calls.
pub const CALLS_VARIABLE: (&str, &str) = ("MULTICARD_TRACE_CALLS", "none");

/// Metric of a profiler report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceMetricKind {
    /// Stable key, for programs.
    pub key: &'static str,
    /// Name as the papers print it.
    pub name: &'static str,
    /// The meaning of the metric, and how to read it.
    pub help: &'static str,
    /// The [`TracePattern`](super::TracePattern) of the entries whose time it sums up. A call is also listed under its name for
    /// per-thread default streams; NCCL's kernels have other names in old and new versions.
    pub pattern: &'static str,
}

/// The seven metrics of the papers in their order, then three more collectives.
pub const TRACE_METRICS: [TraceMetricKind; 10] = [
    TraceMetricKind {
        key: "host_to_device",
        pattern: r"copy:^\[CUDA memcpy Host-to-Device\]$",
        name: "CUDA memcpy Host-to-Device",
        help: "Time of copies from the CPU's memory to the GPU's. Shows the cost of moving data: pinned memory, fewer or \
        smaller copies, and copies that overlap with computation reduce it.",
    },
    TraceMetricKind {
        key: "cuda_launch_kernel",
        pattern: "api:^cudaLaunchKernel(_ptsz)?$",
        name: "cudaLaunchKernel",
        help: "Time the host takes to launch kernels. Shows the cost of starting work on the GPU; many small kernels \
        make it large.",
    },
    TraceMetricKind {
        key: "cuda_stream_synchronize",
        pattern: "api:^cudaStreamSynchronize(_ptsz)?$",
        name: "cudaStreamSynchronize",
        help: "Time the host waits until all work of a stream is done. A large share means that the CPU waits for a busy \
        GPU, which can be a sign of good use of the GPU.",
    },
    TraceMetricKind {
        key: "nccl_all_gather",
        pattern: "nccl:^nccl(Dev|SymkDev)?Kernel_AllGather([^0-9A-Za-z]|$)",
        name: "ncclDevKernel_AllGather",
        help: "Time of NCCL's all-gather, in which each GPU collects a part from every other. Shows the cost of \
        communication between GPUs, including waiting for slower ones.",
    },
    TraceMetricKind {
        key: "cuda_event_synchronize",
        pattern: "api:^cudaEventSynchronize(_ptsz)?$",
        name: "cudaEventSynchronize",
        help: "Time the host waits for the work before an event, to use its results.",
    },
    TraceMetricKind {
        key: "cuda_event_destroy",
        pattern: "api:^cudaEventDestroy(_ptsz)?$",
        name: "cudaEventDestroy",
        help: "Time to release unused events.",
    },
    TraceMetricKind {
        key: "cuda_memcpy_async",
        pattern: "api:^cudaMemcpyAsync(_ptsz)?$",
        name: "cudaMemcpyAsync",
        help: "Time the host spends issuing asynchronous copies. From pageable memory the call waits until the data are \
        staged; from pinned memory it returns at once and the GPU fetches the data itself.",
    },
    TraceMetricKind {
        key: "nccl_broadcast",
        pattern: "nccl:^nccl(Dev|SymkDev)?Kernel_Broadcast([^0-9A-Za-z]|$)",
        name: "ncclDevKernel_Broadcast",
        help: "Time of NCCL's broadcast from one GPU to all others: weights at the start, buffers in each step.",
    },
    TraceMetricKind {
        key: "nccl_all_reduce",
        pattern: "nccl:^nccl(Dev|SymkDev)?Kernel_AllReduce([^0-9A-Za-z]|$)",
        name: "ncclDevKernel_AllReduce",
        help: "Time of NCCL's all-reduce, which sums gradients over all GPUs, including waiting for slower ones.",
    },
    TraceMetricKind {
        key: "nccl_reduce_scatter",
        pattern: "nccl:^nccl(Dev|SymkDev)?Kernel_ReduceScatter([^0-9A-Za-z]|$)",
        name: "ncclDevKernel_ReduceScatter",
        help: "Time of NCCL's reduce-scatter, which sums gradients and leaves each GPU one part, for sharded training.",
    },
];

/// Value of one metric in a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceMetric {
    /// `host_to_device`, `cuda_launch_kernel`, …
    pub key: String,
    /// Number of calls.
    pub calls: u64,
    /// Duration, summed over GPUs and threads.
    pub seconds: f64,
    /// `Time (%)` in the nsys report that lists it.
    pub percent_of_report: f64,
    /// Share of the time of all metrics.
    pub percent_of_shown: f64,
    /// Share of the time the report covers, divided by the number of GPUs.
    pub percent_of_wall: f64,
}

/// Named ranges that the ranks of a run recorded themselves, such as the parts of steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceRange {
    /// Its name.
    pub name: String,
    /// Number of ranges.
    pub calls: u64,
    /// Duration, summed over ranks and threads.
    pub seconds: f64,
    /// Median duration in seconds.
    pub median_s: f64,
}

/// Bytes that copies moved, summed over GPUs. NCCL moves data with kernels, which are not copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedBytes {
    /// Bytes copied from the host's memory to a GPU's memory.
    pub host_to_device: u64,
    /// Bytes copied within the memory of GPUs.
    pub device_to_device: u64,
    /// Bytes copied from a GPU's memory to the host's memory.
    pub device_to_host: u64,
}

/// The name of the recorder of PyTorch's traces, which is also the beginning of their schema version.
pub const PYTORCH_PROFILER: &str = "PyTorch profiler";
/// The beginning of the schema version of recordings that ranks make themselves.
pub const BUILT_IN_TRACER: &str = "built-in";

/// Summary of a report. The report belongs to a run, or is a standalone report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceSummary {
    /// File name.
    pub file: String,
    /// Version of the export schema, such as `3.20.3`.
    pub schema_version: String,
    /// Version of the Nsight Systems that exported it.
    pub product_version: Option<String>,
    /// Duration that it covers.
    pub wall_s: f64,
    /// For a recording in several windows, the time from the start of the first window to the end of the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span_s: Option<f64>,
    /// Number of GPUs that worked.
    pub gpus: u32,
    /// The values of the metrics that the papers print, and those of NCCL's other collectives.
    pub metrics: Vec<TraceMetric>,
    /// Bytes of copies; `None` for reports that were imported by versions without this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied: Option<CopiedBytes>,
    /// The ranges that its ranks recorded themselves, the longest first; empty for a profiler's report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<TraceRange>,
    /// Everything that it contains by name; `None` for reports that were imported by versions without this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lists: Option<Arc<TraceLists>>,
    /// Evidence about the run's factors; empty for a standalone report.
    pub evidence: Vec<Evidence>,
    /// Caveats for readers.
    pub warnings: Vec<String>,
}

impl TraceSummary {
    /// The name and version of the recorder, such as `PyTorch profiler, torch 2.11.0`.
    pub fn recorder(&self) -> String {
        recorder(&self.schema_version, self.product_version.as_deref())
    }
}

/// The name of the recorder of a report, derived from the version of its schema and from the product that wrote it.
pub fn recorder(schema_version: &str, product_version: Option<&str>) -> String {
    match product_version {
        Some(version) if schema_version.starts_with(PYTORCH_PROFILER) => format!("{PYTORCH_PROFILER}, torch {version}"),
        // PyTorch itself does not write its version.
        None if schema_version.starts_with(PYTORCH_PROFILER) => format!("{PYTORCH_PROFILER}, unknown version of torch"),
        None if schema_version.starts_with(BUILT_IN_TRACER) => "the ranks themselves".to_owned(),
        version => format!("nsys {}", version.unwrap_or("unknown version")),
    }
}

/// Outcome of importing a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceOutcome {
    /// It was imported.
    Imported(Box<TraceSummary>),
    /// The recording is missing or could not be imported. The text says what happened and what to do.
    Failed(String),
}

/// How the reason of [`TraceOutcome::Failed`] begins if no process of the run opened the built-in tracer.
pub const NOTHING_RECORDED: &str = "nothing was recorded";

impl TraceOutcome {
    /// Whether no process of the run opened the tracer, so that recording did not slow the run down.
    pub fn recorded_nothing(&self) -> bool {
        matches!(self, Self::Failed(reason) if reason.starts_with(NOTHING_RECORDED))
    }
}
