//! What is known of a report once it is imported.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::window::Window;
use crate::plan::{CUDA_GRAPH_WARM_UP_STEPS, Levels};
use crate::protocol::{CopiedBytes, Evidence, TraceMetric, TraceSummary};

/// The version of [`Trace`] as JSON.
pub const FORMAT_VERSION: u32 = 1;

/// What a report says of a program on one or more GPUs. Lists are sorted by total time, the longest first, if
/// nothing else is said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// [`FORMAT_VERSION`].
    pub format_version: u32,
    /// The schema of the export, such as `3.20.3`.
    pub schema_version: String,
    /// The Nsight Systems that exported it.
    pub product_version: Option<String>,
    /// The report's start on its own clock.
    pub begin_ns: i64,
    /// How much time the report covers, or the window of it.
    pub wall_ns: u64,
    /// The part that was read.
    pub window: Window,
    /// The GPUs that worked, by index.
    pub gpus: Vec<GpuInfo>,
    /// CUDA runtime and driver calls, as `nsys stats -r cuda_api_sum`.
    pub api: Vec<Entry>,
    /// Kernels, as `nsys stats -r cuda_gpu_kern_sum`.
    pub kernels: Vec<Entry>,
    /// Copies and memsets by kind, as `nsys stats -r cuda_gpu_mem_time_sum,cuda_gpu_mem_size_sum`.
    pub memory: Vec<MemoryOperation>,
    /// Copies by kind and by the memory they read and write.
    pub memcpy: Vec<Memcpy>,
    /// Memsets by the memory they write.
    pub memset: Vec<Memset>,
    /// Synchronisations by type.
    pub sync: Vec<Synchronisation>,
    /// NVTX ranges by name.
    pub nvtx: Vec<NvtxRange>,
    /// GPU time by what it was for. Their sum is that of all kernels, copies and memsets.
    pub families: Vec<FamilyTime>,
    /// Each GPU's time, by index.
    pub per_gpu: Vec<GpuTime>,
    /// The long pauses of each GPU, by start.
    pub gaps: Vec<Gap>,
    /// The metrics of the papers, and NCCL's other collectives.
    pub metrics: Vec<Metric>,
    /// What was copied from where to where.
    pub transfers: Vec<Transfer>,
    /// What the report shows of a run's factors.
    pub proof: Proof,
    /// What a reader should know: unknown schema, missing tables.
    pub warnings: Vec<String>,
}

/// A GPU of the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuInfo {
    /// Its index on the machine, as far as the report knows it; else as the process counted it.
    pub index: i64,
    /// Its product name.
    pub name: Option<String>,
    /// Its memory.
    pub memory_bytes: Option<u64>,
    /// Its streaming multiprocessors.
    pub sm_count: Option<u64>,
}

/// Durations of something that happened more than once. All in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// How often.
    pub calls: u64,
    /// Their sum.
    pub total_ns: u64,
    /// Their mean.
    pub avg_ns: f64,
    /// Their median; of an even number the mean of the middle two.
    pub med_ns: f64,
    /// The shortest.
    pub min_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Their standard deviation (of a sample: n − 1); 0 of one.
    pub std_ns: f64,
}

/// Something with a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name as `nsys stats` prints it.
    pub name: String,
    /// Its durations.
    #[serde(flatten)]
    pub statistics: Statistics,
    /// Its share of its list's total, in percent: `Time (%)` of nsys.
    pub percent: f64,
}

/// A kind of memory operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryOperation {
    /// Its name as `nsys stats` prints it, such as `[CUDA memcpy Host-to-Device]`.
    pub name: String,
    /// Its durations.
    #[serde(flatten)]
    pub statistics: Statistics,
    /// Its share of all memory operations' time, in percent: `Time (%)` of nsys.
    pub percent: f64,
    /// All its bytes.
    pub bytes: u64,
    /// Mean bytes.
    pub avg_bytes: f64,
    /// Median bytes.
    pub med_bytes: f64,
    /// The smallest.
    pub min_bytes: u64,
    /// The largest.
    pub max_bytes: u64,
    /// Standard deviation of the bytes.
    pub std_bytes: f64,
}

/// Copies of one kind between two kinds of memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Memcpy {
    /// `host_to_device`, `device_to_host`, `device_to_device`, `peer_to_peer`, `host_to_host`, …
    pub kind: String,
    /// Memory read: `pageable`, `pinned`, `device`, `managed`, …
    pub src: String,
    /// Memory written.
    pub dst: String,
    /// How many.
    pub count: u64,
    /// How much.
    pub bytes: u64,
    /// How long.
    pub total_ns: u64,
}

/// Memsets of one kind of memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Memset {
    /// Memory written.
    pub memory: String,
    /// How many.
    pub count: u64,
    /// How much.
    pub bytes: u64,
    /// How long.
    pub total_ns: u64,
}

/// Synchronisations of one type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Synchronisation {
    /// `event`, `stream_wait_event`, `stream`, `context`, `unknown`.
    pub kind: String,
    /// Their durations.
    #[serde(flatten)]
    pub statistics: Statistics,
}

/// NVTX ranges of one name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NvtxRange {
    /// The domain's name; none for the default domain.
    pub domain: Option<String>,
    /// The text of the range.
    pub name: String,
    /// Their durations.
    #[serde(flatten)]
    pub statistics: Statistics,
}

/// GPU time of one family of work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FamilyTime {
    /// `convolution`, `matrix`, `normalisation`, `elementwise`, `optimizer`, `copy`, `nccl_all_reduce`, …, `other`.
    pub family: String,
    /// How many kernels, copies and memsets.
    pub calls: u64,
    /// How long.
    pub total_ns: u64,
    /// Share of all families, in percent.
    pub percent: f64,
}

/// One GPU's time between the first and the last activity of any GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuTime {
    /// Which GPU.
    pub gpu: i64,
    /// At least one kernel, copy or memset ran.
    pub busy_ns: u64,
    /// Nothing ran.
    pub idle_ns: u64,
    /// A kernel of NCCL or a copy between GPUs ran.
    pub comm_ns: u64,
    /// That part of `comm_ns` in which something else ran too.
    pub overlap_ns: u64,
    /// By how much its time outside communication differs from the mean over GPUs, as a fraction of that mean.
    pub imbalance: f64,
}

/// A pause in which nothing ran on a GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gap {
    /// Which GPU.
    pub gpu: i64,
    /// When, from the report's start.
    pub start_ns: i64,
    /// How long.
    pub length_ns: u64,
    /// What the host did meanwhile: `load`, `loader_start_up`, `between_epochs`, `synchronise`, `launch`,
    /// `other_call` (other CUDA calls), `host` (no CUDA call: code of its own, or waiting).
    pub cause: String,
    /// The CUDA calls that the GPU's processes were in for the longest time, at most three.
    pub host: Vec<HostCall>,
}

/// A CUDA call during a pause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostCall {
    /// The call.
    pub name: String,
    /// For how much of the pause, summed over threads.
    pub total_ns: u64,
}

/// A metric of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// `host_to_device`, `cuda_launch_kernel`, …
    pub key: String,
    /// As the papers print it.
    pub name: String,
    /// What it means.
    pub help: String,
    /// How often.
    pub calls: u64,
    /// How long, summed over GPUs and threads.
    pub seconds: f64,
    /// `Time (%)` of the nsys report that lists it.
    pub percent_of_report: f64,
    /// Share of the metrics shown here.
    pub percent_of_shown: f64,
    /// Share of the time the report covers, divided by the GPUs.
    pub percent_of_wall: f64,
}

/// Copies from one place to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// `host` or `gpu N`.
    pub from: String,
    /// `host` or `gpu N`.
    pub to: String,
    /// How many.
    pub count: u64,
    /// How much.
    pub bytes: u64,
    /// How long.
    pub total_ns: u64,
    /// Bytes a second while copying; none where that took no time.
    pub bytes_per_s: Option<f64>,
}

/// What a report shows of factors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// By the memory that copies to the GPUs read.
    pub pin_memory: PinProof,
    /// By the names of kernels.
    pub layout: LayoutProof,
    /// By the names of convolutions and matrix products.
    pub precision: PrecisionProof,
    /// By processes, GPUs and collectives.
    pub strategy: StrategyProof,
    /// By launches of graphs.
    pub graphs: GraphProof,
}

/// Copies from the host to GPUs by the memory they read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PinProof {
    /// Copies from pageable memory.
    pub pageable_count: u64,
    /// Their bytes.
    pub pageable_bytes: u64,
    /// Copies from pinned memory.
    pub pinned_count: u64,
    /// Their bytes.
    pub pinned_bytes: u64,
    /// `pinned` or `pageable`, by most of the bytes; `none` without copies.
    pub seen: String,
}

/// Kernels by the order of dimensions in their names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LayoutProof {
    /// Time of kernels for NCHW.
    pub nchw_ns: u64,
    /// Time of kernels for NHWC.
    pub nhwc_ns: u64,
    /// Kernels that turn one into the other: libraries do so where a tensor is not in the order they want.
    pub conversions: u64,
    /// `nchw`, `nhwc`, or `unknown`.
    pub seen: String,
}

/// Convolutions and matrix products by the precision in which they multiply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PrecisionProof {
    /// Time by precision: `fp64`, `fp32`, `tf32`, `fp16`, `bf16`.
    pub by_precision_ns: BTreeMap<String, u64>,
    /// Of the lowered precisions (tf32, fp16, bf16) the one with the most time if it has 5 % of all: libraries do not
    /// lower it unasked, and have no such kernels for all shapes. Else the one with the most time, or `unknown`.
    pub seen: String,
}

/// What each process did on each GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StrategyProof {
    /// Processes that used a GPU.
    pub processes: usize,
    /// GPUs that were used.
    pub gpus: usize,
    /// By process and GPU.
    pub ranks: Vec<RankProof>,
    /// `single`, `dp` (one process, several GPUs), `ddp` (a process each, gradients all-reduced), `sharded` (gathered
    /// and scattered), `independent` (a process each, no collectives), `none`.
    pub seen: String,
}

/// What one process did on one GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankProof {
    /// Which process, counted from 0.
    pub process: usize,
    /// Which GPU.
    pub gpu: i64,
    /// Its kernels.
    pub kernels: u64,
    /// What it copied from the host to the GPU.
    pub host_to_device_bytes: u64,
    /// NCCL's kernels by collective.
    pub collectives: BTreeMap<String, u64>,
}

/// CUDA graphs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GraphProof {
    /// Launches of graphs.
    pub launches: u64,
    /// Kernels seen within graphs; none unless recorded with `--cuda-graph-trace=node`.
    pub kernels: u64,
    /// Whether graphs were launched: `on`, `off`.
    pub seen: String,
}

impl Trace {
    /// What it shows of a run's factors. A window that closed before a graph could be captured says nothing of graphs.
    fn evidence(&self, levels: &Levels) -> Vec<Evidence> {
        let mut evidence = self.proof.evidence(levels);
        let steps = self.nvtx.iter().find(|range| range.name == "step").map_or(0, |range| range.statistics.calls);
        let before_capture = 1..=CUDA_GRAPH_WARM_UP_STEPS * self.proof.strategy.processes.max(1) as u64;
        if before_capture.contains(&steps) {
            evidence.retain(|one| one.factor != "cuda_graph" || one.in_effect);
        }
        evidence
    }

    /// What is kept of the report in a session. `levels` are those that its run was planned with, where it has one.
    pub fn summary(&self, file: &str, levels: Option<&Levels>) -> TraceSummary {
        let metric = |metric: &Metric| TraceMetric {
            key: metric.key.clone(),
            calls: metric.calls,
            seconds: metric.seconds,
            percent_of_report: metric.percent_of_report,
            percent_of_shown: metric.percent_of_shown,
            percent_of_wall: metric.percent_of_wall,
        };
        let bytes = |name: &str| {
            let of_kind = self.memory.iter().filter(|operation| operation.name == name);
            of_kind.fold(0, |sum: u64, operation| sum.saturating_add(operation.bytes))
        };
        let copied = CopiedBytes {
            host_to_device: bytes("[CUDA memcpy Host-to-Device]"),
            device_to_device: bytes("[CUDA memcpy Device-to-Device]"),
            device_to_host: bytes("[CUDA memcpy Device-to-Host]"),
        };
        TraceSummary {
            copied: Some(copied),
            file: file.to_owned(),
            schema_version: self.schema_version.clone(),
            product_version: self.product_version.clone(),
            wall_s: self.wall_ns as f64 * 1e-9,
            gpus: u32::try_from(self.gpus.len()).unwrap_or(u32::MAX),
            metrics: self.metrics.iter().map(metric).collect(),
            evidence: levels.map_or_else(Vec::new, |levels| self.evidence(levels)),
            warnings: self.warnings.clone(),
        }
    }
}
