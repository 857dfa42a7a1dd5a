//! What ran on the GPUs: kernels, copies, memsets and whole graphs, by rank.

use std::collections::{BTreeMap, HashMap};

use super::TraceError;
use super::distribution::Distribution;
use super::open::Report;
use super::operation::{Copy, Operations};
use super::rows::Column::{Optional, Required};
use super::rows::{Fields, Watch, scan};
use super::timeline::{Timeline, Work};
use super::value::GpuInfo;
use super::window::Limits;

pub(super) const KERNEL: &str = "CUPTI_ACTIVITY_KIND_KERNEL";
pub(super) const MEMCPY: &str = "CUPTI_ACTIVITY_KIND_MEMCPY";
pub(super) const MEMSET: &str = "CUPTI_ACTIVITY_KIND_MEMSET";
/// Graphs that were traced as a whole, their kernels unseen.
pub(super) const GRAPH: &str = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";

/// More processes times GPUs than any report has.
const MOST_RANKS: usize = 4096;

/// A process on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Rank {
    /// nsys' id of the process.
    pub process: i64,
    /// The GPU's index on the machine.
    pub gpu: i64,
}

/// Everything of the GPUs that a report tells, within a window.
#[derive(Default)]
pub(super) struct GpuWork {
    pub ranks: Vec<Rank>,
    /// By rank and by the id of the name.
    pub kernels: HashMap<(usize, i64), Distribution>,
    pub operations: Operations,
    pub timelines: BTreeMap<i64, Timeline>,
    /// Kernels that ran as a node of a graph.
    pub graph_kernels: u64,
    /// Graphs traced as a whole.
    pub graph_traces: u64,
    /// From the first to the last activity of any GPU, whatever the window.
    pub extent: Option<(i64, i64)>,
    ids: HashMap<Rank, usize>,
}

impl GpuWork {
    /// Reads the four tables. `nccl` knows the ids of the names of NCCL's kernels.
    pub fn read(
        report: &Report,
        watch: &mut Watch<'_>,
        limits: Limits,
        devices: &Devices,
        nccl: impl Fn(i64) -> bool,
    ) -> Result<Self, TraceError> {
        let mut work = Self::default();
        let columns = [
            Required("start"),
            Required("end"),
            Required("deviceId"),
            Optional("globalPid"),
            Required("demangledName"),
            Optional("graphNodeId"),
        ];
        scan(report, watch, KERNEL, &columns, |fields| {
            let (span, rank) = work.place(fields, devices)?;
            let name = fields.required(4)?;
            let kind = if nccl(name) { Work::Communication } else { Work::Compute };
            work.active(span, rank, kind, limits);
            if limits.holds(span.0) {
                work.kernels.entry((rank, name)).or_default().push(span.1.abs_diff(span.0));
                work.graph_kernels += u64::from(fields.integer(5)?.is_some_and(|node| node != 0));
            }
            Ok(())
        })?;
        work.read_copies(report, watch, limits, devices)?;
        let columns = [
            Required("start"),
            Required("end"),
            Required("deviceId"),
            Optional("globalPid"),
            Required("bytes"),
            Optional("memKind"),
        ];
        scan(report, watch, MEMSET, &columns, |fields| {
            let (span, rank) = work.place(fields, devices)?;
            work.active(span, rank, Work::Compute, limits);
            if limits.holds(span.0) {
                work.operations.memset(rank, fields.integer(5)?, fields.count(4)?, span.1.abs_diff(span.0));
            }
            Ok(())
        })?;
        let columns = [Required("start"), Required("end"), Required("deviceId"), Optional("globalPid")];
        scan(report, watch, GRAPH, &columns, |fields| {
            let (span, rank) = work.place(fields, devices)?;
            work.active(span, rank, Work::Compute, limits);
            work.graph_traces += u64::from(limits.holds(span.0));
            Ok(())
        })?;
        if work.operations.overflowed() {
            return Err(report.damaged(format!("{MEMCPY}, {MEMSET}"), "the sum of bytes or times is beyond 64 bits"));
        }
        Ok(work)
    }

    fn read_copies(
        &mut self,
        report: &Report,
        watch: &mut Watch<'_>,
        limits: Limits,
        devices: &Devices,
    ) -> Result<(), TraceError> {
        let columns = [
            Required("start"),
            Required("end"),
            Required("deviceId"),
            Optional("globalPid"),
            Required("bytes"),
            Required("copyKind"),
            Optional("srcKind"),
            Optional("dstKind"),
            Optional("srcDeviceId"),
            Optional("dstDeviceId"),
        ];
        scan(report, watch, MEMCPY, &columns, |fields| {
            let (span, rank) = self.place(fields, devices)?;
            let Rank { process, gpu } = self.ranks[rank];
            let other = |column| -> Result<i64, TraceError> {
                Ok(fields.integer(column)?.map_or(gpu, |device| devices.gpu(process, device)))
            };
            let copy = Copy {
                rank,
                kind: fields.required(5)?,
                src: fields.integer(6)?,
                dst: fields.integer(7)?,
                src_gpu: other(8)?,
                dst_gpu: other(9)?,
            };
            self.active(span, rank, copy.work(), limits);
            if limits.holds(span.0) {
                self.operations.copy(copy, fields.count(4)?, span.1.abs_diff(span.0));
            }
            Ok(())
        })
    }

    /// The GPUs that did something, by index.
    pub fn gpus(&self) -> Vec<i64> {
        let mut gpus: Vec<i64> = self.ranks.iter().map(|rank| rank.gpu).collect();
        gpus.sort_unstable();
        gpus.dedup();
        gpus
    }

    /// The time of a row and the rank it belongs to.
    fn place(&mut self, fields: &Fields<'_>, devices: &Devices) -> Result<((i64, i64), usize), TraceError> {
        let span = fields.span()?;
        let process = fields.integer(3)?.unwrap_or(0);
        let rank = Rank { process, gpu: devices.gpu(process, fields.required(2)?) };
        let next = self.ranks.len();
        let id = *self.ids.entry(rank).or_insert(next);
        if id == next {
            if next == MOST_RANKS {
                return Err(fields.damaged(2, format!("more than {MOST_RANKS} processes and GPUs")));
            }
            self.ranks.push(rank);
        }
        Ok((span, id))
    }

    fn active(&mut self, span: (i64, i64), rank: usize, work: Work, limits: Limits) {
        // CUPTI writes 0 to 0 where it could not tell the time.
        if span.0 == span.1 {
            return;
        }
        self.extent = Some(match self.extent {
            Some((first, last)) => (first.min(span.0), last.max(span.1)),
            None => span,
        });
        let timeline = self.timelines.entry(self.ranks[rank].gpu).or_default();
        if let Some(clipped) = limits.clip(span) {
            timeline.push(clipped, work);
        }
    }
}

/// The GPUs of the machine, and how each process numbers them.
#[derive(Default)]
pub(super) struct Devices {
    /// By process id and the number that the process uses.
    numbers: HashMap<(i64, i64), i64>,
    infos: BTreeMap<i64, GpuInfo>,
}

impl Devices {
    pub fn read(report: &Report, watch: &mut Watch<'_>) -> Result<Self, TraceError> {
        let mut devices = Self::default();
        let columns = [Optional("gpuId"), Optional("cudaId"), Optional("pid")];
        scan(report, watch, "TARGET_INFO_CUDA_DEVICE", &columns, |fields| {
            if let (Some(gpu), Some(cuda), Some(process)) = (fields.integer(0)?, fields.integer(1)?, fields.integer(2)?)
            {
                devices.numbers.entry((process, cuda)).or_insert(gpu);
            }
            Ok(())
        })?;
        let columns = [Optional("id"), Optional("name"), Optional("totalMemory"), Optional("smCount")];
        scan(report, watch, "TARGET_INFO_GPU", &columns, |fields| {
            let Some(index) = fields.integer(0)? else { return Ok(()) };
            let whole = |column| -> Result<Option<u64>, TraceError> {
                Ok(fields.integer(column)?.and_then(|value| u64::try_from(value).ok()))
            };
            let name = fields.text(1)?.map(|name| name.chars().take(200).collect());
            let info = GpuInfo { index, name, memory_bytes: whole(2)?, sm_count: whole(3)? };
            devices.infos.entry(index).or_insert(info);
            Ok(())
        })?;
        Ok(devices)
    }

    /// The machine's index of a GPU, by the process (nsys' id) and its number there.
    pub fn gpu(&self, process: i64, device: i64) -> i64 {
        let pid = (process >> 24) & 0xff_ffff;
        self.numbers.get(&(pid, device)).copied().unwrap_or(device)
    }

    /// What is known of a GPU.
    pub fn info(&self, index: i64) -> GpuInfo {
        let unknown = GpuInfo { index, name: None, memory_bytes: None, sm_count: None };
        self.infos.get(&index).cloned().unwrap_or(unknown)
    }
}
