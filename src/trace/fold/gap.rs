//! Long idle gaps of GPUs, and what the host did during them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::timeline::{Pause, Work};
use crate::trace::event::{Rank, printed};
use crate::trace::ids::ById;
use crate::trace::value::{Gap, HostCall};

/// Minimum length. Shorter gaps are normal between queued kernels.
const SHORTEST_NS: u64 = 100_000;

/// The most gaps that are kept per GPU, the longest first.
const MOST: usize = 1000;

/// An epoch's first gap for data counts as loader start-up if it is this many times as long as the median gap.
const START_UP_RATIO: u64 = 10;
const START_UP_SHORTEST_NS: u64 = 50_000_000;

/// Length, start, end, and the work that ended it.
type Ranked = (u64, i64, i64, Option<Work>);

/// Collects the gaps of one GPU during a sweep.
#[derive(Default)]
pub(super) struct Longest(BinaryHeap<Reverse<Ranked>>);

impl Longest {
    pub fn add(&mut self, pause: Pause) {
        let length = pause.end.abs_diff(pause.start);
        if length >= SHORTEST_NS {
            self.0.push(Reverse((length, pause.start, pause.end, pause.next)));
            if self.0.len() > MOST {
                self.0.pop();
            }
        }
    }
}

const RANGES_LOOKED_AT: usize = 64;

struct Found {
    gpu: i64,
    pause: Pause,
    /// Time in calls, by name id.
    calls: HashMap<i64, u64>,
}

/// Calls during gaps, summed by one thread.
#[derive(Default)]
pub(super) struct Meanwhile {
    /// Time by gap and by name id of the call.
    times: ById<(usize, i64), u64>,
    /// For each list, the first gap that had not ended when the last call began, since calls are in order of time.
    next: Vec<usize>,
}

/// The gaps of one GPU in order of time.
struct Spans {
    /// Index of its first gap among those of all GPUs.
    first: usize,
    spans: Vec<(i64, i64)>,
}

/// The activity of the host that an NVTX range shows, judged by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marker {
    Epoch,
    Load,
}

impl Marker {
    /// Recognises ranges of the worker and of PyTorch's profiler.
    pub fn of(text: &str) -> Option<Self> {
        let begins = |word: &str| {
            text.strip_prefix(word).is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_alphabetic()))
        };
        if begins("epoch") {
            Some(Self::Epoch)
        } else if begins("load") || text.contains("DataLoader") {
            Some(Self::Load)
        } else {
            None
        }
    }
}

/// The gaps of all GPUs with the host's activity during them.
#[derive(Default)]
pub(super) struct Gaps {
    found: Vec<Found>,
    spans: Vec<Spans>,
    /// For each process, the indices of its GPUs' gaps in [`Self::spans`].
    by_process: ById<i64, Vec<usize>>,
    epochs: HashMap<i64, Vec<(i64, i64)>>,
    loads: HashMap<i64, Vec<(i64, i64)>>,
}

impl Gaps {
    /// Adds the gaps of a GPU.
    pub fn add(&mut self, gpu: i64, longest: Longest, ranks: &[Rank]) {
        let mut pauses: Vec<Pause> =
            longest.0.into_iter().map(|Reverse((_, start, end, next))| Pause { start, end, next }).collect();
        pauses.sort_unstable_by_key(|pause| pause.start);
        let spans = pauses.iter().map(|pause| (pause.start, pause.end)).collect();
        self.spans.push(Spans { first: self.found.len(), spans });
        self.found.extend(pauses.into_iter().map(|pause| Found { gpu, pause, calls: HashMap::new() }));
        for rank in ranks.iter().filter(|rank| rank.gpu == gpu) {
            self.by_process.entry(rank.process).or_default().push(self.spans.len() - 1);
        }
    }

    /// Adds a call of a process, given by its name id.
    pub fn call(&self, meanwhile: &mut Meanwhile, process: i64, (start, end): (i64, i64), name: i64) {
        let Some(gpus) = self.by_process.get(&process) else { return };
        meanwhile.next.resize(self.spans.len(), 0);
        for &gpu in gpus {
            let (Spans { first, spans }, next) = (&self.spans[gpu], &mut meanwhile.next[gpu]);
            let is_next = spans[..*next].last().is_none_or(|span| span.1 <= start)
                && spans.get(*next).is_none_or(|span| start < span.1);
            if !is_next {
                *next = spans.partition_point(|span| span.1 <= start);
            }
            for (place, span) in (first + *next..).zip(&spans[*next..]).take_while(|(_, span)| span.0 < end) {
                *meanwhile.times.entry((place, name)).or_default() += end.min(span.1).abs_diff(start.max(span.0));
            }
        }
    }

    /// Merges the calls summed by a thread.
    pub fn take(&mut self, meanwhile: Meanwhile) {
        for ((index, name), total_ns) in meanwhile.times {
            *self.found[index].calls.entry(name).or_default() += total_ns;
        }
    }

    /// Adds an NVTX range of a process that shows something about the host.
    pub fn range(&mut self, process: i64, span: (i64, i64), marker: Marker) {
        let ranges = match marker {
            Marker::Epoch => &mut self.epochs,
            Marker::Load => &mut self.loads,
        };
        ranges.entry(process).or_default().push(span);
    }

    /// Name ids of calls during gaps.
    pub fn names(&self) -> impl Iterator<Item = i64> {
        self.found.iter().flat_map(|found| found.calls.keys().copied())
    }

    /// All gaps with their causes, by start; `begin` is the start of the report.
    pub fn explain(mut self, begin: i64, ranks: &[Rank], name: impl Fn(i64) -> String) -> Vec<Gap> {
        self.epochs.values_mut().chain(self.loads.values_mut()).for_each(|ranges| ranges.sort_unstable());
        let mut gaps: Vec<(Gap, bool)> = Vec::with_capacity(self.found.len());
        for found in &self.found {
            let mut host: Vec<HostCall> = found
                .calls
                .iter()
                .map(|(id, total_ns)| HostCall { name: printed(&name(*id)).to_owned(), total_ns: *total_ns })
                .collect();
            host.sort_by(|a, b| (b.total_ns, &a.name).cmp(&(a.total_ns, &b.name)));
            let (cause, guessed) = match self.marked(found, ranks) {
                Some(cause) => (cause, false),
                None => called(&host, &found.pause),
            };
            host.truncate(3);
            let gap = Gap {
                gpu: found.gpu,
                start_ns: found.pause.start.saturating_sub(begin),
                length_ns: found.pause.end.abs_diff(found.pause.start),
                cause: cause.to_owned(),
                host,
            };
            gaps.push((gap, guessed));
        }
        // Without such ranges, a loader start-up is recognised only by its length.
        let mut lengths: HashMap<i64, Vec<u64>> = HashMap::new();
        for (gap, _) in gaps.iter().filter(|(_, guessed)| *guessed) {
            lengths.entry(gap.gpu).or_default().push(gap.length_ns);
        }
        lengths.values_mut().for_each(|lengths| lengths.sort_unstable());
        for (gap, _) in gaps.iter_mut().filter(|(_, guessed)| *guessed) {
            let median = lengths.get(&gap.gpu).map_or(0, |lengths| lengths[lengths.len() / 2]);
            if gap.length_ns >= START_UP_SHORTEST_NS.max(median.saturating_mul(START_UP_RATIO)) {
                gap.cause = "loader_start_up".to_owned();
            }
        }
        let mut gaps: Vec<Gap> = gaps.into_iter().map(|(gap, _)| gap).collect();
        gaps.sort_by_key(|gap| (gap.start_ns, gap.gpu));
        gaps
    }

    /// The cause of a gap according to NVTX ranges of the GPU's processes.
    fn marked(&self, found: &Found, ranks: &[Rank]) -> Option<&'static str> {
        let Pause { start, end, .. } = found.pause;
        let half = end.abs_diff(start) / 2;
        for rank in ranks.iter().filter(|rank| rank.gpu == found.gpu) {
            let epochs = self.epochs.get(&rank.process).map_or(&[][..], Vec::as_slice);
            let loads = self.loads.get(&rank.process).map_or(&[][..], Vec::as_slice);
            // Ranges that began long before have already ended, so checking the last few that began before the gap is enough.
            let begun = loads.partition_point(|load| load.0 < end);
            let load = loads[begun.saturating_sub(RANGES_LOOKED_AT)..begun]
                .iter()
                .filter(|load| load.1 > start)
                .max_by_key(|load| load.1.min(end).abs_diff(load.0.max(start)));
            if let Some(load) = load.filter(|load| load.1.min(end).abs_diff(load.0.max(start)) >= half) {
                let epoch = epochs.iter().find(|epoch| epoch.0 <= load.0 && load.0 < epoch.1);
                let first = epoch.is_some_and(|epoch| {
                    loads.get(loads.partition_point(|other| other.0 < epoch.0)).is_some_and(|other| other.0 == load.0)
                });
                return Some(if first { "loader_start_up" } else { "load" });
            }
            let middle = start + (end - start) / 2;
            if let (Some(first), Some(last)) = (epochs.first(), epochs.last())
                && first.1 <= middle
                && middle < last.0
                && !epochs.iter().any(|epoch| epoch.0 <= middle && middle < epoch.1)
            {
                return Some("between_epochs");
            }
        }
        None
    }
}

/// The cause of a gap according to calls, and whether "waiting for data" is only a guess.
fn called(host: &[HostCall], pause: &Pause) -> (&'static str, bool) {
    let length = pause.end.abs_diff(pause.start);
    let (mut waiting, mut launching, mut other) = (0u64, 0u64, 0u64);
    for call in host {
        let sum = match call.name.as_str() {
            name if name.contains("Synchronize") => &mut waiting,
            name if ["Launch", "Memcpy", "Memset"].iter().any(|word| name.contains(word)) => &mut launching,
            _ => &mut other,
        };
        *sum = sum.saturating_add(call.total_ns);
    }
    if waiting >= length / 2 {
        ("synchronise", false)
    } else if other >= length / 2 {
        // This is checked before launches: a launch that loads code first counts in both, and loading takes most of the time.
        ("other_call", false)
    } else if launching >= length / 4 {
        ("launch", false)
    } else if pause.next == Some(Work::HostToDevice) {
        ("load", true)
    } else {
        ("host", false)
    }
}
