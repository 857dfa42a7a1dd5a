//! An imported recording as a value.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::window::Window;
use crate::plan::{Hint, Levels, WorkloadSpec};
use crate::protocol::{
    CopiedBytes, Evidence, FURTHER, MOST_ENTRIES, TraceEntry, TraceLists, TraceMetric, TraceRange, TraceSummary,
};

/// The schema version of built-in traces, before their number.
pub(super) const BUILT_IN: &str = crate::protocol::BUILT_IN_TRACER;
/// The schema version of traces of PyTorch's profiler, before their number.
pub(super) const PYTORCH: &str = crate::protocol::PYTORCH_PROFILER;

/// The note on a recording whose steps were marked by the lines of output of its program.
pub(super) const REPORTED_STEPS: &str = "steps are the program's own: each ends when its line of output arrives";

/// What marks these steps, in words.
pub(super) const STEPS_BY_LINES: &str = "lines of the program's output";

/// Maximum number of ranges in a summary.
const MOST_RANGES: usize = 30;

/// Version of the JSON form of [`Trace`].
pub const FORMAT_VERSION: u32 = 1;

/// A report of a program on one or more GPUs. Lists are sorted by total time, the longest first, unless
/// stated otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// [`FORMAT_VERSION`].
    pub format_version: u32,
    /// The schema of the export, such as `3.20.3`.
    pub schema_version: String,
    /// The Nsight Systems that exported it.
    pub product_version: Option<String>,
    /// Start of the report on its own clock.
    pub begin_ns: i64,
    /// Time covered by the report or its window.
    pub wall_ns: u64,
    /// For a recording in several windows: the time from the start of the first window to the end of the last one.
    /// `wall_ns` is the time within windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span_ns: Option<u64>,
    /// The part of the report that was read.
    pub window: Window,
    /// GPUs with any activity, by index.
    pub gpus: Vec<GpuInfo>,
    /// Number of processes that used a GPU; if none did, of those with ranges. 0 in files of earlier versions.
    #[serde(default)]
    pub ranks: usize,
    /// The number of steps, summed over these processes. Ranges mark them, or else an event that recurs. If steps of
    /// several kinds of names are marked (`step 7` within `iteration 3`), the most frequent ones count. 0 if none are
    /// marked, and in files of earlier versions.
    #[serde(default)]
    pub steps: u64,
    /// What marks these steps, in words; `None` without steps, and in files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps_by: Option<String>,
    /// The work of GPUs within these steps, if a kernel or a collective that recurs marks them; `None` otherwise, and in files of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_steps: Option<Box<WorkOfSteps>>,
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
    /// Memory allocated and released through CUDA, by kind and GPU, those with the most live memory first; empty if it was not recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allocations: Vec<Allocations>,
    /// Synchronisations by type.
    pub sync: Vec<Synchronisation>,
    /// NVTX ranges by name, including those that ranks recorded themselves.
    pub nvtx: Vec<NvtxRange>,
    /// GPU time by purpose. The sum covers all kernels, copies and memsets.
    pub families: Vec<FamilyTime>,
    /// Each GPU's time, by index.
    pub per_gpu: Vec<GpuTime>,
    /// Long idle gaps of each GPU, by start.
    pub gaps: Vec<Gap>,
    /// The metrics of the papers, and NCCL's other collectives; empty for a recording without CUDA activity.
    pub metrics: Vec<Metric>,
    /// Copies by source and destination.
    pub transfers: Vec<Transfer>,
    /// Evidence about a run's factors.
    pub proof: Proof,
    /// Warnings: unknown schema, missing tables.
    pub warnings: Vec<String>,
    /// Notes on what the recording does not contain by design. They cause no mark.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The work of GPUs that begins within the steps that count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkOfSteps {
    /// How many steps begin, those that do not count among them, summed over processes.
    pub begun: u64,
    /// Time in which any of the work ran, summed over GPUs.
    pub busy_ns: u64,
    /// Time of the steps in which nothing ran, summed over GPUs.
    pub idle_ns: u64,
    /// Kernels.
    pub kernels: Vec<Entry>,
    /// Copies and memsets by kind.
    pub memory: Vec<MemoryOperation>,
    /// GPU time by purpose.
    pub families: Vec<FamilyTime>,
}

/// A GPU of the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuInfo {
    /// Index on the machine if the report has it, else the device ordinal in the process.
    pub index: i64,
    /// Product name.
    pub name: Option<String>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Number of streaming multiprocessors.
    pub sm_count: Option<u64>,
}

/// Statistics of repeated durations, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// Count.
    pub calls: u64,
    /// Sum.
    pub total_ns: u64,
    /// Mean.
    pub avg_ns: f64,
    /// Median; for an even count the mean of the middle two.
    pub med_ns: f64,
    /// Minimum.
    pub min_ns: u64,
    /// Maximum.
    pub max_ns: u64,
    /// Sample standard deviation (n − 1); 0 for a single value.
    pub std_ns: f64,
}

/// Durations under a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name as `nsys stats` prints it.
    pub name: String,
    /// Durations.
    #[serde(flatten)]
    pub statistics: Statistics,
    /// Share of its list's total in percent: `Time (%)` of nsys.
    pub percent: f64,
    /// Of a kernel: its place in the order in which the names of kernels begin for the first time, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<u32>,
}

/// A kind of memory operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryOperation {
    /// Its name as `nsys stats` prints it, such as `[CUDA memcpy Host-to-Device]`.
    pub name: String,
    /// Durations.
    #[serde(flatten)]
    pub statistics: Statistics,
    /// Share of the time of all memory operations in percent: `Time (%)` of nsys.
    pub percent: f64,
    /// Total bytes.
    pub bytes: u64,
    /// Mean bytes.
    pub avg_bytes: f64,
    /// Median bytes.
    pub med_bytes: f64,
    /// Minimum bytes.
    pub min_bytes: u64,
    /// Maximum bytes.
    pub max_bytes: u64,
    /// Standard deviation of the bytes.
    pub std_bytes: f64,
}

/// Copies of one kind between two kinds of memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Memcpy {
    /// `host_to_device`, `device_to_host`, `device_to_device`, `peer_to_peer`, `host_to_host`, …
    pub kind: String,
    /// Source memory: `pageable`, `pinned`, `device`, `managed`, …
    pub src: String,
    /// Destination memory.
    pub dst: String,
    /// Count.
    pub count: u64,
    /// Bytes.
    pub bytes: u64,
    /// Time.
    pub total_ns: u64,
}

/// Memsets of one kind of memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Memset {
    /// Destination memory.
    pub memory: String,
    /// Count.
    pub count: u64,
    /// Bytes.
    pub bytes: u64,
    /// Time.
    pub total_ns: u64,
}

/// One kind of memory that was allocated and released through CUDA. Memory that was allocated before the recording began is noticed only
/// when it is released.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Allocations {
    /// `device`, `pinned`, `managed`, …
    pub memory: String,
    /// Index of the GPU; `None` for memory of the host.
    pub gpu: Option<i64>,
    /// Allocations.
    pub allocated: u64,
    /// Bytes of these allocations.
    pub allocated_bytes: u64,
    /// Releases.
    pub released: u64,
    /// Bytes of these releases.
    pub released_bytes: u64,
    /// The number of releases whose allocation was not recorded, because it happened before.
    pub unseen: u64,
    /// Bytes of these.
    pub unseen_bytes: u64,
    /// The highest live amount among the recorded allocations.
    pub most_bytes: u64,
    /// The live amount at the end among the recorded allocations.
    pub last_bytes: u64,
}

/// Synchronisations of one type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Synchronisation {
    /// `event`, `stream_wait_event`, `stream`, `context`, `unknown`.
    pub kind: String,
    /// Durations.
    #[serde(flatten)]
    pub statistics: Statistics,
}

/// NVTX ranges of one name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NvtxRange {
    /// The domain's name; `None` for the default domain.
    pub domain: Option<String>,
    /// The text of the range.
    pub name: String,
    /// Durations.
    #[serde(flatten)]
    pub statistics: Statistics,
}

/// GPU time of one family of work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FamilyTime {
    /// `convolution`, `matrix`, `attention`, `normalisation`, `reduction`, `elementwise`, `indexing`, `optimizer`, `copy`,
    /// `nccl_all_reduce`, …, `other`.
    pub family: String,
    /// Number of kernels, copies and memsets.
    pub calls: u64,
    /// Time.
    pub total_ns: u64,
    /// Share of all families in percent.
    pub percent: f64,
}

/// One GPU's time between the first and the last activity of any GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuTime {
    /// GPU index.
    pub gpu: i64,
    /// Time in which at least one kernel, copy or memset ran.
    pub busy_ns: u64,
    /// Time in which nothing ran.
    pub idle_ns: u64,
    /// Time in which an NCCL kernel or a copy between GPUs ran.
    pub comm_ns: u64,
    /// Part of `comm_ns` in which other work ran too.
    pub overlap_ns: u64,
    /// Deviation of its time outside communication from the mean over GPUs, as a fraction of that mean.
    pub imbalance: f64,
}

/// A gap in which nothing ran on a GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gap {
    /// GPU index.
    pub gpu: i64,
    /// Start, from the start of the report.
    pub start_ns: i64,
    /// Time.
    pub length_ns: u64,
    /// What the host did during the gap: `load`, `loader_start_up`, `between_epochs`, `synchronise`, `launch`,
    /// `other_call` (other CUDA calls), `host` (no CUDA call: host code, or waiting).
    pub cause: String,
    /// The CUDA calls in which the GPU's processes spent the most time, at most three.
    pub host: Vec<HostCall>,
}

/// A CUDA call during a gap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostCall {
    /// The call.
    pub name: String,
    /// Time within the gap, summed over threads.
    pub total_ns: u64,
}

/// A metric of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// `host_to_device`, `cuda_launch_kernel`, …
    pub key: String,
    /// Name as the papers print it.
    pub name: String,
    /// Meaning.
    pub help: String,
    /// Count.
    pub calls: u64,
    /// Time, summed over GPUs and threads.
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
    /// Count.
    pub count: u64,
    /// Bytes.
    pub bytes: u64,
    /// Time.
    pub total_ns: u64,
    /// Bytes per second while copying; `None` if no time passed.
    pub bytes_per_s: Option<f64>,
}

/// Evidence about factors in a report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// The proof of pinned memory: the kind of memory that copies to the GPUs read.
    pub pin_memory: PinProof,
    /// The proof of the memory layout, from the names of kernels.
    pub layout: LayoutProof,
    /// The proof of the precision, from the names of kernels for convolutions and matrix products.
    pub precision: PrecisionProof,
    /// The proof of the strategy, from processes, GPUs and collectives.
    pub strategy: StrategyProof,
    /// The proof of CUDA graphs, from launches of graphs.
    pub graphs: GraphProof,
}

/// Host-to-device copies by source memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PinProof {
    /// Copies from pageable memory.
    pub pageable_count: u64,
    /// Bytes of these.
    pub pageable_bytes: u64,
    /// Copies from pinned memory.
    pub pinned_count: u64,
    /// Bytes of these.
    pub pinned_bytes: u64,
    /// `pinned` or `pageable`, whichever has more bytes; `none` without copies.
    pub seen: String,
}

/// Kernels by the order of dimensions in their names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LayoutProof {
    /// Time of kernels for NCHW.
    pub nchw_ns: u64,
    /// Time of kernels for NHWC.
    pub nhwc_ns: u64,
    /// Kernels that convert between the two: libraries run them if a tensor is not in the layout they need.
    pub conversions: u64,
    /// `nchw`, `nhwc`, or `unknown`.
    pub seen: String,
}

/// Convolutions and matrix products by the precision in which they multiply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PrecisionProof {
    /// Time by precision: `fp64`, `fp32`, `tf32`, `fp16`, `bf16`, `fp8`.
    pub by_precision_ns: BTreeMap<String, u64>,
    /// The reduced precision (tf32, fp16, bf16, fp8) with the most time, if that is at least 5 % of the total: libraries reduce precision
    /// only on request, and lack such kernels for some shapes. FP8 comes before the others, because a model in FP8 has some products in a
    /// wider type. Otherwise the precision with the most time, or `unknown`.
    pub seen: String,
}

/// Work of each process on each GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StrategyProof {
    /// Processes that used a GPU.
    pub processes: usize,
    /// GPUs that were used.
    pub gpus: usize,
    /// The proofs of ranks, sorted by process and GPU.
    pub ranks: Vec<RankProof>,
    /// `single`, `dp` (one process, several GPUs), `ddp` (one process per GPU, gradients all-reduced), `sharded` (gathered
    /// and scattered), `independent` (one process per GPU, no collectives), `none`.
    pub seen: String,
}

/// Work of one process on one GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankProof {
    /// Process index, from 0.
    pub process: usize,
    /// GPU index.
    pub gpu: i64,
    /// Its kernels.
    pub kernels: u64,
    /// Host-to-device copies.
    pub host_to_device_bytes: u64,
    /// NCCL's kernels by collective.
    pub collectives: BTreeMap<String, u64>,
}

/// CUDA graphs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GraphProof {
    /// Launches of graphs.
    pub launches: u64,
    /// Kernels seen within graphs; `None` unless recorded with `--cuda-graph-trace=node`.
    pub kernels: u64,
    /// Whether graphs were launched: `on`, `off`.
    pub seen: String,
}

/// A list of a summary, the longest first. Names beyond [`MOST_ENTRIES`] are summed up.
fn listed(all: impl Iterator<Item = TraceEntry>) -> Vec<TraceEntry> {
    let mut entries: Vec<TraceEntry> = all.collect();
    if entries.len() > MOST_ENTRIES {
        let (calls, seconds) = (entries.drain(MOST_ENTRIES..))
            .fold((0, 0.0), |(calls, seconds), entry| (calls + entry.calls, seconds + entry.seconds));
        entries.push(TraceEntry { name: FURTHER.to_owned(), calls, seconds, place: None });
    }
    entries
}

fn entry(name: &str, calls: u64, total_ns: u64) -> TraceEntry {
    TraceEntry { name: name.to_owned(), calls, seconds: total_ns as f64 * 1e-9, place: None }
}

fn timed(name: &str, times: &Statistics) -> TraceEntry {
    entry(name, times.calls, times.total_ns)
}

impl Trace {
    /// Evidence about a run's factors. If the window ends before a graph can be captured, there is no evidence about graphs.
    fn evidence(&self, spec: &WorkloadSpec, levels: &Levels) -> Vec<Evidence> {
        let steps = self.nvtx.iter().find(|range| range.name == "step").map_or(0, |range| range.statistics.calls);
        let processes = self.proof.strategy.processes.max(1) as u64;
        let awaits_capture = |evidence: &Evidence| {
            let mut hints =
                levels.get(&evidence.factor).into_iter().flat_map(|level| spec.hints(&evidence.factor, level));
            hints.any(|hint| matches!(hint, Hint::GraphsAfter(warm_up) if (1..=warm_up * processes).contains(&steps)))
        };
        let mut evidence = self.proof.evidence(spec, levels);
        evidence.retain(|evidence| evidence.in_effect || !awaits_capture(evidence));
        evidence
    }

    /// Whether ranks recorded themselves.
    pub(super) fn is_built_in(&self) -> bool {
        self.schema_version.starts_with(BUILT_IN)
    }

    /// Everything that it contains by name.
    pub fn lists(&self) -> TraceLists {
        let seconds = |ns: u64| ns as f64 * 1e-9;
        let sum = |ns: fn(&GpuTime) -> u64| self.per_gpu.iter().map(|gpu| seconds(ns(gpu))).sum();
        let kernel = |entry: &Entry| TraceEntry { place: entry.place, ..timed(&entry.name, &entry.statistics) };
        let work = |kernels: &[Entry], memory: &[MemoryOperation], families: &[FamilyTime]| TraceLists {
            ranks: u32::try_from(self.ranks).unwrap_or(u32::MAX),
            steps: self.steps,
            kernels: listed(kernels.iter().map(kernel)),
            copies: listed(memory.iter().map(|entry| timed(&entry.name, &entry.statistics))),
            families: listed(families.iter().map(|family| entry(&family.family, family.calls, family.total_ns))),
            ..TraceLists::default()
        };
        let in_steps = self.of_steps.as_deref().map(|of_steps| TraceLists {
            gpu_busy_s: seconds(of_steps.busy_ns),
            gpu_idle_s: seconds(of_steps.idle_ns),
            ..work(&of_steps.kernels, &of_steps.memory, &of_steps.families)
        });
        TraceLists {
            steps_by: self.steps_by.clone(),
            gpu_busy_s: sum(|gpu| gpu.busy_ns),
            gpu_idle_s: sum(|gpu| gpu.idle_ns),
            calls: listed(self.api.iter().map(|entry| timed(&entry.name, &entry.statistics))),
            ranges: listed(self.nvtx.iter().map(|entry| timed(&entry.name, &entry.statistics))),
            begun_steps: self.of_steps.as_ref().map_or(0, |of_steps| of_steps.begun),
            in_steps: in_steps.map(Box::new),
            ..work(&self.kernels, &self.memory, &self.families)
        }
    }

    /// Whether PyTorch's profiler recorded it.
    pub(super) fn is_pytorch(&self) -> bool {
        self.schema_version.starts_with(PYTORCH)
    }

    /// The summary that a session stores. `planned` are the workload and the levels of its run, if it has one.
    pub fn summary(&self, file: &str, planned: Option<(&WorkloadSpec, &Levels)>) -> TraceSummary {
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
        let range = |range: &NvtxRange| TraceRange {
            name: range.name.clone(),
            calls: range.statistics.calls,
            seconds: range.statistics.total_ns as f64 * 1e-9,
            median_s: range.statistics.med_ns * 1e-9,
        };
        // Of a trace of the CPU alone, ranges are all that there is.
        let has_ranges = self.is_built_in() || self.is_pytorch() && self.metrics.is_empty();
        let ranges = self.nvtx.iter().take(if has_ranges { MOST_RANGES } else { 0 });
        let copied = CopiedBytes {
            host_to_device: bytes("[CUDA memcpy Host-to-Device]"),
            device_to_device: bytes("[CUDA memcpy Device-to-Device]"),
            device_to_host: bytes("[CUDA memcpy Device-to-Host]"),
        };
        TraceSummary {
            // Without CUDA activity, there are no copies whose bytes could be missing.
            copied: (!self.metrics.is_empty()).then_some(copied),
            file: file.to_owned(),
            schema_version: self.schema_version.clone(),
            product_version: self.product_version.clone(),
            wall_s: self.wall_ns as f64 * 1e-9,
            span_s: self.span_ns.map(|ns| ns as f64 * 1e-9),
            gpus: u32::try_from(self.gpus.len()).unwrap_or(u32::MAX),
            metrics: self.metrics.iter().map(metric).collect(),
            ranges: ranges.map(range).collect(),
            lists: Some(Arc::new(self.lists())),
            evidence: planned.map_or_else(Vec::new, |(spec, levels)| self.evidence(spec, levels)),
            warnings: self.warnings.clone(),
        }
    }
}
