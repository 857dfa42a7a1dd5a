//! Work on the GPUs: kernels, copies, memsets and whole graphs, by rank.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::TraceError;
use super::distribution::{Distribution, join};
use super::ids::ById;
use super::open::NsysExport;
use super::operation::{MemoryCopy, Operations, Rank};
use super::parts::scan_parts;
use super::progress::Watch;
use super::rows::Column::{Optional, Required};
use super::rows::{Column, Fields, scan};
use super::timeline::{Timeline, Work};
use super::value::GpuInfo;
use super::window::{Limits, union};

pub(super) const KERNEL: &str = "CUPTI_ACTIVITY_KIND_KERNEL";
pub(super) const MEMCPY: &str = "CUPTI_ACTIVITY_KIND_MEMCPY";
pub(super) const MEMSET: &str = "CUPTI_ACTIVITY_KIND_MEMSET";
/// Table of graphs traced as a whole, without their kernels.
pub(super) const GRAPH: &str = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";

/// Upper bound of processes times GPUs.
const MOST_RANKS: usize = 4096;

/// Handles a row with its time and its rank.
type Each<'a> = &'a (dyn Fn(&mut GpuWork, &Fields<'_>, (i64, i64), Rank) -> Result<(), TraceError> + Sync);

/// All work of the GPUs in a report, within a window.
#[derive(Default)]
pub(super) struct GpuWork {
    /// In the order of the tables.
    pub ranks: Vec<Rank>,
    /// By rank and name id.
    pub kernels: ById<(Rank, i64), Distribution>,
    pub operations: Operations,
    pub timelines: BTreeMap<i64, Timeline>,
    /// Kernels that ran as a node of a graph.
    pub graph_kernels: u64,
    /// Graphs traced as a whole.
    pub graph_traces: u64,
    /// From the first to the last activity of any GPU, regardless of the window.
    pub extent: Option<(i64, i64)>,
    /// For each rank, its first row in the table being read.
    first_rows: ById<Rank, i64>,
    /// The rank of each process and device.
    by_device: ById<(i64, i64), Rank>,
}

/// Time and place of an event: the first columns of each table.
const PLACE: [Column; 4] = [Required("start"), Required("end"), Required("deviceId"), Optional("globalPid")];

impl GpuWork {
    /// Reads the four tables. `nccl` holds the name ids of NCCL's kernels.
    pub fn read(
        report: &NsysExport<'_>,
        watch: &mut Watch<'_>,
        limits: Limits,
        devices: &Devices,
        nccl: impl Fn(i64) -> bool + Sync,
    ) -> Result<Self, TraceError> {
        let mut all = Self::default();
        let mut read = |table, columns: &[Column], each: Each<'_>| -> Result<(), TraceError> {
            let threads = report.threads;
            let columns = [&PLACE, columns].concat();
            let parts = scan_parts(report, watch, threads, table, &columns, |work: &mut Self, fields| {
                let (span, rank) = work.place(fields, devices)?;
                each(work, fields, span, rank)
            })?;
            all.join(parts).map_err(|problem| report.damaged(table, problem))
        };
        let columns = [Required("demangledName"), Optional("graphNodeId")];
        read(KERNEL, &columns, &|work, fields, span, rank| {
            let name = fields.required(4)?;
            let kind = if nccl(name) { Work::Communication } else { Work::Compute };
            work.active(span, rank, kind, limits);
            if limits.holds(span.0) {
                work.kernels.entry((rank, name)).or_default().push(span.1.abs_diff(span.0));
                work.graph_kernels += u64::from(fields.integer(5)?.is_some_and(|node| node != 0));
            }
            Ok(())
        })?;
        let columns = [
            Required("bytes"),
            Required("copyKind"),
            Optional("srcKind"),
            Optional("dstKind"),
            Optional("srcDeviceId"),
            Optional("dstDeviceId"),
        ];
        read(MEMCPY, &columns, &|work, fields, span, rank| {
            let other = |column| -> Result<i64, TraceError> {
                Ok(fields.integer(column)?.map_or(rank.gpu, |device| devices.gpu(rank.process, device)))
            };
            let copy = MemoryCopy {
                rank,
                kind: fields.required(5)?,
                src: fields.integer(6)?,
                dst: fields.integer(7)?,
                src_gpu: other(8)?,
                dst_gpu: other(9)?,
            };
            work.active(span, rank, copy.work(), limits);
            if limits.holds(span.0) {
                work.operations.copy(copy, fields.count(4)?, span.1.abs_diff(span.0));
            }
            Ok(())
        })?;
        let columns = [Required("bytes"), Optional("memKind")];
        read(MEMSET, &columns, &|work, fields, span, rank| {
            work.active(span, rank, Work::Compute, limits);
            if limits.holds(span.0) {
                work.operations.memset(rank, fields.integer(5)?, fields.count(4)?, span.1.abs_diff(span.0));
            }
            Ok(())
        })?;
        let columns = [Required("start"), Required("end"), Required("deviceId"), Optional("globalPid")];
        read(GRAPH, &columns, &|work, _, span, rank| {
            work.active(span, rank, Work::Compute, limits);
            work.graph_traces += u64::from(limits.holds(span.0));
            Ok(())
        })?;
        if all.operations.overflowed() {
            return Err(report.damaged(format!("{MEMCPY}, {MEMSET}"), "the sum of bytes or times is beyond 64 bits"));
        }
        Ok(all)
    }

    /// Merges what threads read of one table.
    fn join(&mut self, parts: Vec<Self>) -> Result<(), String> {
        let mut fresh: Vec<(i64, Rank)> = Vec::new();
        for part in parts {
            fresh.extend(part.first_rows.into_iter().map(|(rank, row)| (row, rank)));
            join(&mut self.kernels, part.kernels);
            self.operations.merge(part.operations);
            for (gpu, timeline) in part.timelines {
                self.timelines.entry(gpu).or_default().merge(timeline);
            }
            self.graph_kernels += part.graph_kernels;
            self.graph_traces += part.graph_traces;
            self.extent = union(self.extent, part.extent);
        }
        fresh.sort_unstable_by_key(|(row, _)| *row);
        let mut known: HashSet<Rank> = self.ranks.iter().copied().collect();
        self.ranks.extend(fresh.into_iter().map(|(_, rank)| rank).filter(|rank| known.insert(*rank)));
        if self.ranks.len() > MOST_RANKS { Err(too_many_ranks()) } else { Ok(()) }
    }

    /// The GPUs with any activity, by index.
    pub fn gpus(&self) -> Vec<i64> {
        let mut gpus: Vec<i64> = self.ranks.iter().map(|rank| rank.gpu).collect();
        gpus.sort_unstable();
        gpus.dedup();
        gpus
    }

    /// The time and the rank of a row.
    fn place(&mut self, fields: &Fields<'_>, devices: &Devices) -> Result<((i64, i64), Rank), TraceError> {
        let span = fields.span()?;
        let (process, device) = (fields.integer(3)?.unwrap_or(0), fields.required(2)?);
        if let Some(rank) = self.by_device.get(&(process, device)) {
            return Ok((span, *rank));
        }
        let rank = Rank { process, gpu: devices.gpu(process, device) };
        self.by_device.insert((process, device), rank);
        self.first_rows.entry(rank).or_insert(fields.number());
        if self.first_rows.len() > MOST_RANKS {
            return Err(fields.damaged(2, too_many_ranks()));
        }
        Ok((span, rank))
    }

    fn active(&mut self, span: (i64, i64), rank: Rank, work: Work, limits: Limits) {
        // CUPTI writes 0 for start and end when the time is unknown.
        if span.0 == span.1 {
            return;
        }
        self.extent = union(self.extent, Some(span));
        let timeline = self.timelines.entry(rank.gpu).or_default();
        if let Some(clipped) = limits.clip(span) {
            timeline.push(clipped, work);
        }
    }
}

fn too_many_ranks() -> String {
    format!("more than {MOST_RANKS} processes and GPUs")
}

/// The GPUs of the machine and the device ordinals of each process.
#[derive(Default)]
pub(super) struct Devices {
    /// By process id and device ordinal.
    numbers: HashMap<(i64, i64), i64>,
    infos: BTreeMap<i64, GpuInfo>,
}

impl Devices {
    pub fn read(report: &NsysExport<'_>) -> Result<Self, TraceError> {
        let mut devices = Self::default();
        let columns = [Optional("gpuId"), Optional("cudaId"), Optional("pid")];
        scan(report, "TARGET_INFO_CUDA_DEVICE", &columns, |fields| {
            if let (Some(gpu), Some(cuda), Some(process)) = (fields.integer(0)?, fields.integer(1)?, fields.integer(2)?)
            {
                devices.numbers.entry((process, cuda)).or_insert(gpu);
            }
            Ok(())
        })?;
        let columns = [Optional("id"), Optional("name"), Optional("totalMemory"), Optional("smCount")];
        scan(report, "TARGET_INFO_GPU", &columns, |fields| {
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

    /// The machine's index of a GPU, given the process (nsys' id) and its device ordinal.
    pub fn gpu(&self, process: i64, device: i64) -> i64 {
        let pid = (process >> 24) & 0xff_ffff;
        self.numbers.get(&(pid, device)).copied().unwrap_or(device)
    }

    /// The GPU's name, memory and multiprocessors, as far as known.
    pub fn info(&self, index: i64) -> GpuInfo {
        let unknown = GpuInfo { index, name: None, memory_bytes: None, sm_count: None };
        self.infos.get(&index).cloned().unwrap_or(unknown)
    }
}
