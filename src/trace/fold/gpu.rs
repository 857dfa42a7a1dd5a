//! Work on the GPUs: kernels, copies, memsets and whole graphs, by rank.

use std::collections::{BTreeMap, HashSet};

use super::distribution::{Distribution, join};
use super::operation::{MemoryCopy, Operations};
use super::timeline::{Timeline, Work};
use crate::trace::TraceError;
use crate::trace::event::{Event, Kind, Rank, What};
use crate::trace::ids::ById;
use crate::trace::progress::Watch;
use crate::trace::source::Source;
use crate::trace::window::{Limits, union};

/// Upper bound of processes times GPUs.
const MOST_RANKS: usize = 4096;

/// All wanted work of the GPUs in a report, within a window.
#[derive(Default)]
pub(super) struct GpuWork {
    /// The ranks, in the order of kinds, and within a kind in the order of first events.
    pub ranks: Vec<Rank>,
    /// The times of kernels, by rank and name id.
    pub kernels: ById<(Rank, i64), Distribution>,
    /// The earliest start of the kernels of each name, by name id.
    pub begun: ById<i64, i64>,
    pub operations: Operations,
    pub timelines: BTreeMap<i64, Timeline>,
    /// Kernels that ran as a node of a graph.
    pub graph_kernels: u64,
    /// Graphs recorded as a whole.
    pub graph_traces: u64,
    /// The time from the first to the last activity of any GPU, regardless of the window.
    pub extent: Option<(i64, i64)>,
    /// For each rank, the order of its first event of the kind being read.
    firsts: ById<Rank, i64>,
    /// The rank of each process and device.
    by_device: ById<(i64, i64), Rank>,
}

impl GpuWork {
    /// Reads the wanted work of all four kinds. `nccl` holds the name ids of NCCL's kernels.
    pub fn read(
        source: &impl Source,
        watch: &mut Watch<'_>,
        limits: Limits,
        is_wanted: impl Fn(&Event<'_>) -> bool + Sync,
        nccl: impl Fn(i64) -> bool + Sync,
    ) -> Result<Self, TraceError> {
        let mut all = Self::default();
        all.fold(source, Kind::Kernel, watch, &is_wanted, |work, event, rank| {
            let (What::Kernel { graph_node }, name) = (event.what, event.name.id()) else { return };
            let kind = if nccl(name) { Work::Communication } else { Work::Compute };
            work.active(event.span, rank, kind, limits);
            if limits.holds(event.span.0) {
                work.kernels.entry((rank, name)).or_default().push(event.span.1.abs_diff(event.span.0));
                work.begin(name, event.span.0);
                work.graph_kernels += u64::from(graph_node != 0);
            }
        })?;
        all.fold(source, Kind::Copy, watch, &is_wanted, |work, event, rank| {
            let What::Copy { bytes, kind, src, dst, src_device, dst_device } = event.what else { return };
            let other = |device: Option<i64>| device.map_or(rank.gpu, |device| source.gpu(rank.process, device));
            let (src_gpu, dst_gpu) = (other(src_device), other(dst_device));
            let copy = MemoryCopy { rank, kind, src, dst, src_gpu, dst_gpu };
            work.active(event.span, rank, copy.work(), limits);
            if limits.holds(event.span.0) {
                work.operations.copy(copy, bytes, event.span.1.abs_diff(event.span.0));
            }
        })?;
        all.fold(source, Kind::Memset, watch, &is_wanted, |work, event, rank| {
            let What::Memset { bytes, memory } = event.what else { return };
            work.active(event.span, rank, Work::Compute, limits);
            if limits.holds(event.span.0) {
                work.operations.memset(rank, memory, bytes, event.span.1.abs_diff(event.span.0));
            }
        })?;
        all.fold(source, Kind::Graph, watch, &is_wanted, |work, event, rank| {
            work.active(event.span, rank, Work::Compute, limits);
            work.graph_traces += u64::from(limits.holds(event.span.0));
        })?;
        if all.operations.overflowed() {
            let problem = "the sum of bytes or times is beyond 64 bits".to_owned();
            return Err(source.damaged(&[Kind::Copy, Kind::Memset], problem));
        }
        Ok(all)
    }

    /// Reads the wanted events of a kind and merges the results of the threads.
    fn fold<S: Source>(
        &mut self,
        source: &S,
        kind: Kind,
        watch: &mut Watch<'_>,
        is_wanted: &(impl Fn(&Event<'_>) -> bool + Sync),
        each: impl Fn(&mut Self, &Event<'_>, Rank) + Sync,
    ) -> Result<(), TraceError> {
        let parts = source.scan(kind, source.for_sums(), watch, |work: &mut Self, event| {
            if !is_wanted(event) {
                return Ok(());
            }
            let rank = work.place(event, source)?;
            each(work, event, rank);
            Ok(())
        })?;
        self.join(parts).map_err(|problem| source.damaged(&[kind], problem))
    }

    /// Merges the results of several threads for one kind.
    fn join(&mut self, parts: Vec<Self>) -> Result<(), String> {
        let mut fresh: Vec<(i64, Rank)> = Vec::new();
        for part in parts {
            fresh.extend(part.firsts.into_iter().map(|(rank, order)| (order, rank)));
            join(&mut self.kernels, part.kernels);
            part.begun.into_iter().for_each(|(name, start)| self.begin(name, start));
            self.operations.merge(part.operations);
            for (gpu, timeline) in part.timelines {
                self.timelines.entry(gpu).or_default().merge(timeline);
            }
            self.graph_kernels += part.graph_kernels;
            self.graph_traces += part.graph_traces;
            self.extent = union(self.extent, part.extent);
        }
        fresh.sort_unstable_by_key(|(order, _)| *order);
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

    /// The rank of an event.
    fn place(&mut self, event: &Event<'_>, source: &impl Source) -> Result<Rank, String> {
        let device = (event.process, event.device);
        if let Some(rank) = self.by_device.get(&device) {
            return Ok(*rank);
        }
        let rank = Rank { process: event.process, gpu: source.gpu(event.process, event.device) };
        self.by_device.insert(device, rank);
        self.firsts.entry(rank).or_insert(event.order);
        if self.firsts.len() > MOST_RANKS { Err(too_many_ranks()) } else { Ok(rank) }
    }

    fn begin(&mut self, kernel: i64, start: i64) {
        let first = self.begun.entry(kernel).or_insert(start);
        *first = start.min(*first);
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
