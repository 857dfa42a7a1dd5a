//! Folds: turn events into sums, statistics, busy and idle time, gaps with their causes, metrics and evidence. They work the same for every
//! source.

mod allocation;
mod distribution;
mod family;
mod gap;
mod gpu;
mod host;
mod in_steps;
mod metric;
mod operation;
mod proof;
mod timeline;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use distribution::{Distribution, percent};
use family::{Family, family};
use gap::{Gaps, Longest, Marker};
use gpu::GpuWork;
use host::{Calls, Ranges, by_text, entries};
use in_steps::{Spans, work_of_steps};
use metric::metrics;
use proof::proof;
use timeline::{Pause, Sweep};

use super::TraceError;
use super::division::{Division, StepsFrom, divide};
use super::event::{Kind, nameless};
use super::progress::Watch;
use super::source::{Head, Source};
use super::value::{
    Entry, FORMAT_VERSION, FamilyTime, GpuInfo, GpuTime, MemoryOperation, NvtxRange, REPORTED_STEPS, STEPS_BY_LINES,
    Trace,
};
use super::window::{Limits, Window, in_windows, length_ns, outside, union, unite};
use crate::plan::counted;
use crate::protocol::STEPS_BY_RANGES;

pub(super) use host::synchronisation_name;
pub(super) use operation::{label as copy_label, memory_name};

/// Whether a range or a call with this name waits for data.
pub(super) fn is_load(name: &str) -> bool {
    Marker::of(name) == Some(Marker::Load)
}

/// Whether a range with this name is a step: `step`, `step 7`, `ProfilerStep#7`, `iteration 7`.
pub(super) fn is_step(name: &str) -> bool {
    let name = name.strip_prefix("Profiler").unwrap_or(name);
    let rest = ["step", "Step", "iteration"].iter().find_map(|word| name.strip_prefix(word));
    rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_alphabetic()))
}

/// Whether a range with this name is an epoch.
pub(super) fn is_epoch(name: &str) -> bool {
    Marker::of(name) == Some(Marker::Epoch)
}

/// The purpose of a kernel, judged by its name.
pub(super) fn family_name(kernel: &str) -> String {
    family(kernel).name()
}

/// The role of a string when events are read.
enum Meaning {
    Nccl,
    Marker(Marker),
}

/// The strings of a source that have a role, by their ids.
struct Meanings(HashMap<i64, Meaning>);

impl Meanings {
    fn read(source: &impl Source) -> Result<Self, TraceError> {
        let meanings = source.meanings(|text| match Marker::of(text) {
            Some(marker) => Some(Meaning::Marker(marker)),
            None => text.starts_with("nccl").then_some(Meaning::Nccl),
        });
        Ok(Self(meanings?))
    }

    fn is_nccl(&self, id: i64) -> bool {
        matches!(self.0.get(&id), Some(Meaning::Nccl))
    }

    fn marker(&self, id: i64) -> Option<Marker> {
        match self.0.get(&id) {
            Some(Meaning::Marker(marker)) => Some(*marker),
            _ => None,
        }
    }
}

/// Folds all events of a source within a window.
pub(super) fn summarise(
    source: &impl Source,
    window: &Window,
    steps_from: &StepsFrom,
    tell: &mut dyn FnMut(super::Progress) -> std::ops::ControlFlow<()>,
) -> Result<Trace, TraceError> {
    let head = source.head()?;
    let units = Kind::TIMED.into_iter().map(|kind| source.units(kind)).sum::<Result<_, _>>()?;
    let watch = &mut Watch::new(tell, units);
    let covered = head.covered;
    let begin = begin_of(source, covered, window)?;
    let limits = window.limits(begin)?;
    let meanings = Meanings::read(source)?;

    let mut work = GpuWork::read(source, watch, limits, |_| true, |id| meanings.is_nccl(id))?;
    let mut gaps = Gaps::default();
    let windows = windows_of(&head, limits);
    let per_gpu = per_gpu(&mut work, limits, windows.as_deref(), &mut gaps);
    let calls = Calls::read(source, watch, limits, &mut gaps)?;
    let sync = host::synchronisations(source, watch, limits)?;
    let allocations = allocation::allocations(source, watch, limits)?;
    let ranges = Ranges::read(source, watch, limits, |id| meanings.marker(id), &mut gaps)?;

    let names = source.names(&shown(&work, &calls, &ranges, &gaps))?;
    let name = |id: i64| names.texts.get(&id).cloned().unwrap_or_else(|| nameless(id));

    let unseen = unseen(windows.is_none() && !allocations.is_empty(), covered, ranges.extent);
    let ranges_extent = head.without_cuda.then_some(ranges.extent).flatten();
    let extent = covered.or_else(|| union(work.extent, calls.extent)).or(ranges_extent);
    let too_much = |kind| source.damaged(&[kind], "the sum of times is beyond 64 bits".to_owned());
    let api = calls.entries(name).ok_or_else(|| too_much(Kind::Call))?;
    let kernels = kernels(&work, name).ok_or_else(|| too_much(Kind::Kernel))?;
    let memory = work.operations.by_kind().ok_or_else(|| too_much(Kind::Copy))?;
    let ranks = ranks(&work, &ranges);
    let nvtx = ranges.entries(name).ok_or_else(|| too_much(Kind::Range))?;
    let families = families(&kernels, &memory);

    let begin = if covered.is_none() && window.is_whole() { extent.map_or(0, |(start, _)| start) } else { begin };
    let steps = steps(source, (&nvtx, &head.notes), (steps_from, begin, limits), tell)?;
    let of_steps = work_of_steps(source, &steps, |id| meanings.is_nccl(id), name, tell)?;
    let within = extent.and_then(|extent| limits.clip(extent));
    let whole_ns = within.map(|(start, end)| end.abs_diff(start));
    let wall_ns = windows.as_deref().map_or(whole_ns.unwrap_or_default(), length_ns);
    let gpus = work.gpus();
    let metrics = metrics(|list| head.records(list), &api, &kernels, &memory, wall_ns, gpus.len());
    let outside = (within.is_none() && !window.is_whole()).then(|| nothing_within(window, begin, covered));
    let missing = not_recorded(&work, names.missing.len());
    let warnings = head.warnings.into_iter().chain(outside).chain(missing).chain(source.losses()).collect();
    let proof = proof(&work, &api, &kernels, name);
    Ok(Trace {
        format_version: FORMAT_VERSION,
        schema_version: head.schema_version,
        product_version: head.product_version,
        begin_ns: begin,
        wall_ns,
        span_ns: whole_ns.filter(|_| windows.is_some()),
        window: *window,
        gpus: gpus.into_iter().map(|index| gpu(index, &head.gpus)).collect(),
        ranks,
        steps: steps.count,
        steps_by: steps.by,
        of_steps: of_steps.map(Box::new),
        memcpy: work.operations.memcpy(),
        memset: work.operations.memset_rows(),
        transfers: work.operations.transfers(),
        gaps: gaps.explain(begin, &work.ranks, name),
        per_gpu,
        api,
        kernels,
        memory,
        allocations,
        sync,
        nvtx,
        families,
        metrics,
        proof,
        warnings,
        notes: head.notes.into_iter().chain(windows.as_deref().and_then(in_windows)).chain(unseen).collect(),
    })
}

/// The number of processes that used a GPU; if none did, of those with ranges.
fn ranks(work: &GpuWork, ranges: &Ranges) -> usize {
    let of_gpus: BTreeSet<i64> = work.ranks.iter().map(|rank| rank.process).collect();
    if of_gpus.is_empty() { ranges.processes.len() } else { of_gpus.len() }
}

/// A GPU by its index; other facts about it are missing if the recording does not contain them.
fn gpu(index: i64, known: &[GpuInfo]) -> GpuInfo {
    let unknown = GpuInfo { index, name: None, memory_bytes: None, sm_count: None };
    known.iter().find(|gpu| gpu.index == index).cloned().unwrap_or(unknown)
}

/// The warning about a window in which nothing was recorded.
fn nothing_within(window: &Window, begin: i64, covered: Option<(i64, i64)>) -> String {
    let end = covered.map(|(_, end)| format!(": the recording ends after {:.3} s", end.abs_diff(begin) as f64 / 1e9));
    format!("nothing was recorded {window}{}", end.unwrap_or_default())
}

/// Warnings about data that is missing from a recording, judged by the events that were read.
fn not_recorded(work: &GpuWork, missing_names: usize) -> impl Iterator<Item = String> {
    let names = (missing_names > 0).then(|| {
        format!(
            "the report lacks {}; the times of these events are listed without names",
            counted(missing_names, "name")
        )
    });
    let graphs = (work.graph_traces > 0 && work.graph_kernels == 0)
        .then(|| "kernels within CUDA graphs were not recorded: record with --cuda-graph-trace=node".to_owned());
    names.into_iter().chain(graphs)
}

/// Busy and idle time of each GPU between the first and the last activity of any GPU within the limits. For a recording
/// in several windows: between the first and the last activity in each window.
fn per_gpu(work: &mut GpuWork, limits: Limits, windows: Option<&[(i64, i64)]>, gaps: &mut Gaps) -> Vec<GpuTime> {
    let Some((from, to)) = work.extent.and_then(|extent| limits.clip(extent)) else { return Vec::new() };
    let holes = windows.map_or_else(Vec::new, |windows| outside(windows, (from, to)));
    let mut swept: Vec<(i64, Sweep)> = Vec::new();
    let (mut shortened, mut around) = (Vec::new(), Vec::new());
    for (gpu, timeline) in std::mem::take(&mut work.timelines) {
        let (mut longest, mut crossing) = (Longest::default(), Vec::new());
        let sweep = timeline.sweep(from, to, |pause| match pause.holds_any(&holes) {
            true => crossing.push(pause),
            false => longest.add(pause),
        });
        swept.push((gpu, sweep));
        shortened.push((gpu, longest));
        around.push(crossing);
    }
    let holes = unrecorded(&holes, &around);
    for ((gpu, mut longest), crossing) in shortened.into_iter().zip(around) {
        crossing.into_iter().flat_map(|pause| pause.without(&holes)).for_each(|pause| longest.add(pause));
        gaps.add(gpu, longest, &work.ranks);
    }
    let all_ns = to.abs_diff(from).saturating_sub(length_ns(&holes));
    let mean = swept.iter().map(|(_, sweep)| sweep.other_ns as f64).sum::<f64>() / swept.len().max(1) as f64;
    swept
        .into_iter()
        .map(|(gpu, sweep)| GpuTime {
            gpu,
            busy_ns: sweep.busy_ns,
            idle_ns: all_ns.saturating_sub(sweep.busy_ns),
            comm_ns: sweep.comm_ns,
            overlap_ns: sweep.overlap_ns(),
            imbalance: if mean > 0.0 { sweep.other_ns as f64 / mean - 1.0 } else { 0.0 },
        })
        .collect()
}

/// For each hole, the time from the last activity of any GPU before it to the first one after it. `around` are the
/// pauses of each GPU that contain holes, in order.
fn unrecorded(holes: &[(i64, i64)], around: &[Vec<Pause>]) -> Vec<(i64, i64)> {
    let mut all: Vec<(i64, i64)> = Vec::with_capacity(holes.len());
    for hole in holes {
        let holding = around.iter().filter_map(|pauses| {
            let pause = pauses.get(pauses.partition_point(|pause| pause.end < hole.1))?;
            pause.holds(*hole).then_some(pause)
        });
        let apart = holding.map(|pause| (pause.start, pause.end)).reduce(|a, b| (a.0.max(b.0), a.1.min(b.1)));
        all.extend(apart);
    }
    unite(&mut all);
    all
}

/// The note on the memory in a recording that begins some time after its program.
const UNSEEN: &str = "memory that the program allocated before the recording is not counted";
/// A recording that begins within this time of the program's start misses no memory that matters.
const MOMENT_NS: u64 = 100_000_000;

/// The ids of the names that are shown.
fn shown(work: &GpuWork, calls: &Calls, ranges: &Ranges, gaps: &Gaps) -> HashSet<i64> {
    let kernels = work.kernels.keys().map(|(_, id)| *id);
    kernels.chain(calls.names()).chain(ranges.names()).chain(gaps.names()).collect()
}

/// The note, if the recording of memory begins when the program has been running for a while. The ranks' phases tell
/// when the program began.
fn unseen(has_memory: bool, covered: Option<(i64, i64)>, ranges: Option<(i64, i64)>) -> Option<String> {
    let (covered, ranges) = (covered?, ranges?);
    let is_late = ranges.0 < covered.0 && covered.0.abs_diff(ranges.0) > MOMENT_NS;
    (has_memory && is_late).then(|| UNSEEN.to_owned())
}

/// The start of a recording. If the recording does not state it, the start is the first event if only a part of the recording is asked for,
/// and 0 otherwise.
fn begin_of(source: &impl Source, covered: Option<(i64, i64)>, window: &Window) -> Result<i64, TraceError> {
    match covered {
        Some((start, _)) => Ok(start),
        None if window.is_whole() => Ok(0),
        None => source.first_start(),
    }
}

/// The parts within the limits of the windows in which everything was recorded. `None` unless the recording has several
/// windows.
fn windows_of(head: &Head, limits: Limits) -> Option<Vec<(i64, i64)>> {
    (head.windows.len() > 1).then(|| head.windows.iter().filter_map(|window| limits.clip(*window)).collect())
}

/// The steps of a recording.
#[derive(Default)]
struct Steps {
    count: u64,
    /// What marks them, in words.
    by: Option<String>,
    /// How many steps begin, those that do not count among them.
    begun: u64,
    /// The steps that count, if work of GPUs begins them.
    spans: Spans,
}

/// The steps. Ranges mark them if there are such ranges and nothing else is requested; otherwise an event that recurs marks them.
fn steps(
    source: &impl Source,
    (ranges, notes): (&[NvtxRange], &[String]),
    (from, begin, limits): (&StepsFrom, i64, Limits),
    tell: &mut dyn FnMut(super::Progress) -> std::ops::ControlFlow<()>,
) -> Result<Steps, TraceError> {
    let (marked, by) = steps_of_ranges(ranges, notes);
    if *from == StepsFrom::Found && marked > 0 {
        return Ok(Steps { count: marked, by: Some(by), begun: marked, ..Steps::default() });
    }
    let Some(Division { by, steps, beginnings }) = divide(source, from, begin, tell)? else {
        return Ok(Steps::default());
    };
    let (mut count, mut spans) = (0, Spans::new());
    for (process, span) in steps.into_iter().filter(|(_, span)| limits.holds(span.0)) {
        count += 1;
        if !beginnings.is_empty() {
            spans.entry(process).or_default().push(span);
        }
    }
    let begun = beginnings.into_iter().filter(|start| limits.holds(*start)).count() as u64;
    Ok(Steps { count, by: (count > 0).then_some(by), begun: begun.max(count), spans })
}

/// The number of ranges that mark steps, for the most frequent word for a step, and what marks the steps, in words.
fn steps_of_ranges(ranges: &[NvtxRange], notes: &[String]) -> (u64, String) {
    let mut by_word: BTreeMap<&str, u64> = BTreeMap::new();
    for range in ranges.iter().filter(|range| is_step(&range.name)) {
        let word = range.name.trim_end_matches(|letter: char| !letter.is_ascii_alphabetic());
        *by_word.entry(word).or_default() += range.statistics.calls;
    }
    let (word, steps) = by_word.into_iter().max_by_key(|(_, steps)| *steps).unwrap_or_default();
    match notes.iter().find(|note| *note == REPORTED_STEPS) {
        Some(_) => (steps, STEPS_BY_LINES.to_owned()),
        None => (steps, format!("{STEPS_BY_RANGES} named {word}")),
    }
}

/// Kernels of all ranks by name; like nsys, joined by text.
fn kernels(work: &GpuWork, name: impl Fn(i64) -> String) -> Option<Vec<Entry>> {
    let mut by_id: HashMap<i64, Distribution> = HashMap::new();
    for ((_, id), times) in &work.kernels {
        by_id.entry(*id).or_default().merge(times.clone());
    }
    let mut kernels = entries(by_text(by_id, &name).into_iter())?;
    let mut begun: Vec<(i64, String)> = work.begun.iter().map(|(id, start)| (*start, name(*id))).collect();
    begun.sort_unstable();
    let mut places: HashMap<String, u32> = HashMap::new();
    for (_, kernel) in begun {
        let place = places.len() as u32;
        places.entry(kernel).or_insert(place);
    }
    kernels.iter_mut().for_each(|kernel| kernel.place = places.get(&kernel.name).copied());
    Some(kernels)
}

fn families(kernels: &[Entry], memory: &[MemoryOperation]) -> Vec<FamilyTime> {
    let mut sums: HashMap<Family, (u64, u64)> = HashMap::new();
    let copies = memory.iter().map(|operation| (Family::DataMovement, operation.statistics));
    for (family, statistics) in kernels.iter().map(|entry| (family(&entry.name), entry.statistics)).chain(copies) {
        let (calls, total_ns) = sums.entry(family).or_default();
        *calls += statistics.calls;
        *total_ns = total_ns.saturating_add(statistics.total_ns);
    }
    let whole: f64 = sums.values().map(|(_, total_ns)| *total_ns as f64).sum();
    let mut all: Vec<FamilyTime> = sums
        .into_iter()
        .map(|(family, (calls, total_ns))| FamilyTime {
            family: family.name(),
            calls,
            total_ns,
            percent: percent(total_ns as f64, whole),
        })
        .collect();
    all.sort_by(|a, b| (b.total_ns, &a.family).cmp(&(a.total_ns, &b.family)));
    all
}
