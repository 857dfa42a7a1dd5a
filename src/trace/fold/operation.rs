//! Copies and memsets: CUPTI's numbers, and sums by kind, memory and place.

use std::collections::HashMap;

use super::distribution::{Distribution, percent};
use super::timeline::Work;
use crate::trace::event::Rank;
use crate::trace::ids::ById;
use crate::trace::value::{Memcpy, MemoryOperation, Memset, Transfer};

/// Kinds of copy: CUPTI's number, name, and nsys' label.
const COPY_KINDS: &[(i64, &str, &str)] = &[
    (0, "unknown", "Unknown"),
    (1, "host_to_device", "Host-to-Device"),
    (2, "device_to_host", "Device-to-Host"),
    (3, "host_to_array", "Host-to-Array"),
    (4, "array_to_host", "Array-to-Host"),
    (5, "array_to_array", "Array-to-Array"),
    (6, "array_to_device", "Array-to-Device"),
    (7, "device_to_array", "Device-to-Array"),
    (8, "device_to_device", "Device-to-Device"),
    (9, "host_to_host", "Host-to-Host"),
    (10, "peer_to_peer", "Peer-to-Peer"),
    (11, "unified_host_to_device", "Unified Host-to-Device"),
    (12, "unified_device_to_host", "Unified Device-to-Host"),
    (13, "unified_device_to_device", "Unified Device-to-Device"),
];

/// Kinds of memory by nsys's number, which is CUPTI's less one.
const MEMORY_KINDS: [&str; 8] =
    ["pageable", "pinned", "device", "array", "managed", "device_static", "managed_static", "unknown"];

fn kind_name(kind: i64) -> String {
    let known = COPY_KINDS.iter().find(|(number, ..)| *number == kind);
    known.map_or_else(|| format!("kind_{kind}"), |(_, name, _)| (*name).to_owned())
}

/// The label of a kind of copy, as nsys lists it.
pub(in crate::trace) fn label(kind: i64) -> String {
    let known = COPY_KINDS.iter().find(|(number, ..)| *number == kind);
    let label = known.map_or_else(|| format!("kind {kind}"), |(.., label)| (*label).to_owned());
    format!("[CUDA memcpy {label}]")
}

/// The name of a kind of memory.
pub(in crate::trace) fn memory_name(kind: Option<i64>) -> String {
    match kind {
        None => "unknown".to_owned(),
        Some(kind) => match usize::try_from(kind).ok().and_then(|index| MEMORY_KINDS.get(index)) {
            Some(name) => (*name).to_owned(),
            None => format!("memory_{kind}"),
        },
    }
}

/// Identifies a group of similar copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct MemoryCopy {
    /// The rank.
    pub rank: Rank,
    pub kind: i64,
    pub src: Option<i64>,
    pub dst: Option<i64>,
    /// The source GPU; for copies between GPUs, the other one.
    pub src_gpu: i64,
    pub dst_gpu: i64,
}

impl MemoryCopy {
    /// The role of this copy in its GPU's timeline.
    pub fn work(&self) -> Work {
        match self.kind {
            10 => Work::Communication,
            8 | 13 if self.src_gpu != self.dst_gpu => Work::Communication,
            1 | 3 | 11 => Work::HostToDevice,
            2 | 4 | 9 | 12 => Work::Copy,
            _ => Work::Compute,
        }
    }

    fn ends(&self) -> (String, String) {
        let gpu = |gpu| format!("gpu {gpu}");
        let host = || "host".to_owned();
        match self.kind {
            1 | 3 | 11 => (host(), gpu(self.dst_gpu)),
            2 | 4 | 12 => (gpu(self.src_gpu), host()),
            9 => (host(), host()),
            _ => (gpu(self.src_gpu), gpu(self.dst_gpu)),
        }
    }
}

/// Count, bytes and time. Sums that overflow are flagged and reported at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub count: u64,
    pub bytes: u64,
    pub total_ns: u64,
    pub overflowed: bool,
}

impl Tally {
    pub fn add(&mut self, other: Self) {
        let (bytes, over) = self.bytes.overflowing_add(other.bytes);
        let (total_ns, over_time) = self.total_ns.overflowing_add(other.total_ns);
        let overflowed = self.overflowed || other.overflowed || over || over_time;
        *self = Self { count: self.count + other.count, bytes, total_ns, overflowed };
    }
}

#[derive(Default)]
struct Kind {
    times: Distribution,
    sizes: Distribution,
}

impl Kind {
    fn merge(&mut self, other: Self) {
        self.times.merge(other.times);
        self.sizes.merge(other.sizes);
    }
}

/// All copies and memsets of a report.
#[derive(Default)]
pub(super) struct Operations {
    pub copies: ById<MemoryCopy, Tally>,
    pub memsets: ById<(Rank, Option<i64>), Tally>,
    copy_kinds: ById<i64, Kind>,
    memset_kind: Kind,
}

impl Operations {
    pub fn copy(&mut self, copy: MemoryCopy, bytes: u64, total_ns: u64) {
        self.copies.entry(copy).or_default().add(Tally { count: 1, bytes, total_ns, overflowed: false });
        let kind = self.copy_kinds.entry(copy.kind).or_default();
        kind.times.push(total_ns);
        kind.sizes.push(bytes);
    }

    pub fn memset(&mut self, rank: Rank, memory: Option<i64>, bytes: u64, total_ns: u64) {
        let tally = Tally { count: 1, bytes, total_ns, overflowed: false };
        self.memsets.entry((rank, memory)).or_default().add(tally);
        self.memset_kind.times.push(total_ns);
        self.memset_kind.sizes.push(bytes);
    }

    /// Merges another sum.
    pub fn merge(&mut self, other: Self) {
        other.copies.into_iter().for_each(|(copy, tally)| self.copies.entry(copy).or_default().add(tally));
        other.memsets.into_iter().for_each(|(key, tally)| self.memsets.entry(key).or_default().add(tally));
        other.copy_kinds.into_iter().for_each(|(kind, values)| self.copy_kinds.entry(kind).or_default().merge(values));
        self.memset_kind.merge(other.memset_kind);
    }

    /// Whether a sum overflowed 64 bits.
    pub fn overflowed(&self) -> bool {
        self.copies.values().chain(self.memsets.values()).any(|tally| tally.overflowed)
    }

    /// Sums by kind, as nsys lists them; `None` if a sum overflowed.
    pub fn by_kind(&mut self) -> Option<Vec<MemoryOperation>> {
        let memset = std::mem::take(&mut self.memset_kind);
        let copies = std::mem::take(&mut self.copy_kinds);
        let named = copies.into_iter().map(|(kind, values)| (label(kind), values));
        let mut all = Vec::new();
        for (name, mut kind) in named.chain([("[CUDA memset]".to_owned(), memset)]) {
            if kind.times.is_empty() {
                continue;
            }
            let (statistics, sizes) = (kind.times.statistics()?, kind.sizes.statistics()?);
            all.push(MemoryOperation {
                name,
                statistics,
                percent: 0.0,
                bytes: sizes.total_ns,
                avg_bytes: sizes.avg_ns,
                med_bytes: sizes.med_ns,
                min_bytes: sizes.min_ns,
                max_bytes: sizes.max_ns,
                std_bytes: sizes.std_ns,
            });
        }
        let total: f64 = all.iter().map(|operation| operation.statistics.total_ns as f64).sum();
        for operation in &mut all {
            operation.percent = percent(operation.statistics.total_ns as f64, total);
        }
        all.sort_by(|a, b| b.statistics.total_ns.cmp(&a.statistics.total_ns).then_with(|| a.name.cmp(&b.name)));
        Some(all)
    }

    pub fn memcpy(&self) -> Vec<Memcpy> {
        let keyed = self.copies.iter().map(|(copy, tally)| ((copy.kind, copy.src, copy.dst), *tally));
        let mut all: Vec<Memcpy> = summed(keyed)
            .into_iter()
            .map(|((kind, src, dst), tally)| Memcpy {
                kind: kind_name(kind),
                src: memory_name(src),
                dst: memory_name(dst),
                count: tally.count,
                bytes: tally.bytes,
                total_ns: tally.total_ns,
            })
            .collect();
        all.sort_by(|a, b| (b.total_ns, &a.kind, &a.src, &a.dst).cmp(&(a.total_ns, &b.kind, &b.src, &b.dst)));
        all
    }

    pub fn memset_rows(&self) -> Vec<Memset> {
        let keyed = self.memsets.iter().map(|((_, memory), tally)| (*memory, *tally));
        let mut all: Vec<Memset> = summed(keyed)
            .into_iter()
            .map(|(memory, tally)| Memset {
                memory: memory_name(memory),
                count: tally.count,
                bytes: tally.bytes,
                total_ns: tally.total_ns,
            })
            .collect();
        all.sort_by(|a, b| (b.total_ns, &a.memory).cmp(&(a.total_ns, &b.memory)));
        all
    }

    pub fn transfers(&self) -> Vec<Transfer> {
        let keyed = self.copies.iter().map(|(copy, tally)| (copy.ends(), *tally));
        let mut all: Vec<Transfer> = summed(keyed)
            .into_iter()
            .map(|((from, to), tally)| Transfer {
                from,
                to,
                count: tally.count,
                bytes: tally.bytes,
                total_ns: tally.total_ns,
                bytes_per_s: (tally.total_ns > 0).then(|| tally.bytes as f64 / (tally.total_ns as f64 * 1e-9)),
            })
            .collect();
        all.sort_by(|a, b| (b.total_ns, &a.from, &a.to).cmp(&(a.total_ns, &b.from, &b.to)));
        all
    }
}

fn summed<K: std::hash::Hash + Eq>(tallies: impl Iterator<Item = (K, Tally)>) -> HashMap<K, Tally> {
    let mut sums: HashMap<K, Tally> = HashMap::new();
    for (key, tally) in tallies {
        sums.entry(key).or_default().add(tally);
    }
    sums
}
