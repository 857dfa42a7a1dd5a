//! Where the time of each step of each rank went, and what limits a run.
//!
//! The time of a step lasts from the end of the previous step to its own end, as [`crate::protocol`] counts it; the
//! first step of an epoch begins with the epoch. If several windows were recorded, the first step of a window begins
//! with the window, and does not count. Each nanosecond is assigned to one part: the first one in this order that was
//! active. Kernels by family, data movement; waiting for the slowest rank, communication (as far as nothing overlaps
//! them); waiting for data; waiting of the host for a GPU; launching (the GPU is idle while the host calls CUDA, or for
//! less than 200 µs between two kernels or copies); idle. Without records of GPUs, the ranges of the ranks are used:
//! waiting for data, waiting for the slowest rank, communication, forward, backward, optimizer, the rest of the step,
//! idle. If the ranks also record their collectives, communication is the time in which they wait for them; collectives
//! that run at the same time as computing are hidden.
//!
//! A rank waits for the slowest from the start of its n-th collective until the last rank has started its n-th. Kernels are counted by
//! time, not by the step that launched them: a GPU that lags behind its host shows its work a little later.

mod binding;
mod collectives;
mod sizes;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use strum::{EnumCount, EnumIter, IntoEnumIterator as _, IntoStaticStr};

use super::{Class, MarkKind, Timeline, TimelineRow};
use crate::statistics::{Interval, linear, median_interval, median_of_sorted};
use crate::trace::TraceError;
use crate::trace::event::Kind;
use crate::trace::progress::{Progress, Watch};
use crate::trace::window::unite;

pub use collectives::{Collective, NoSize};
use sizes::Sizes;

/// If no phases mark the warm-up, a tenth of the steps at the beginning is left out, at least one, provided that there are this many steps.
const LEAST_STEPS: usize = 3;

/// A part of a step's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EnumIter, EnumCount, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Part {
    /// Kernels of convolutions.
    Convolution,
    /// Kernels of matrix products.
    Matrix,
    /// Kernels of attention.
    Attention,
    /// Kernels of normalisations.
    Normalisation,
    /// Elementwise kernels.
    Elementwise,
    /// Kernels, or the range, of the optimizer.
    Optimizer,
    /// Other kernels, and CUDA graphs recorded as a whole.
    Kernels,
    /// Kernels that only move data, memsets, and copies that overlap with no kernel.
    Copy,
    /// The rank's collective has begun, but another rank's has not.
    Straggler,
    /// Collectives that overlap with no kernel.
    Communication,
    /// The loader has no batch ready.
    Data,
    /// The host waits for its GPU, which is idle.
    Synchronisation,
    /// The GPU is idle while the host calls CUDA, or for a short time between kernels: work arrives too slowly.
    Launch,
    /// Forward pass, computed by the host.
    Forward,
    /// Backward pass, computed by the host.
    Backward,
    /// The rest of the step, computed by the host.
    Step,
    /// None of these.
    Idle,
}

impl Part {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Optimizer => "optimizer",
            Self::Kernels => "other kernels",
            Self::Copy => "data movement",
            Self::Straggler => "waiting for the slowest rank",
            Self::Communication => "exposed communication",
            Self::Data => "waiting for data",
            Self::Synchronisation => "host synchronisation",
            Self::Launch => "launching",
            Self::Step => "rest of the step",
            other => other.into(),
        }
    }

    fn is_arithmetic(self) -> bool {
        use Part::*;
        matches!(self, Convolution | Matrix | Attention | Normalisation | Elementwise | Optimizer | Kernels)
    }

    /// Whether a GPU works in it.
    fn is_on_gpu(self) -> bool {
        self.is_arithmetic() || matches!(self, Self::Copy | Self::Communication)
    }

    /// Whether it is computing, on a GPU or on the host.
    fn computes(self) -> bool {
        self.is_arithmetic() || matches!(self, Self::Forward | Self::Backward)
    }

    fn of(class: Class) -> Self {
        match class {
            Class::Convolution => Self::Convolution,
            Class::Matrix => Self::Matrix,
            Class::Attention => Self::Attention,
            Class::Normalisation => Self::Normalisation,
            Class::Elementwise => Self::Elementwise,
            Class::Optimizer => Self::Optimizer,
            Class::Copy => Self::Copy,
            Class::Communication => Self::Communication,
            Class::Load => Self::Data,
            Class::Wait => Self::Synchronisation,
            Class::Call => Self::Launch,
            Class::Other | Class::Range | Class::Memory => Self::Kernels,
        }
    }
}

/// The split of one step of one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepSplit {
    /// The process.
    pub process: i64,
    /// Its number among the rank's steps, from 1.
    pub step: usize,
    /// Start and end in nanoseconds on the recording's clock.
    pub span: (i64, i64),
    /// Nanoseconds in each part; their sum is the length of the span.
    pub parts: [u64; Part::COUNT],
    /// Whether it is warm-up and left out of medians.
    pub warm_up: bool,
}

impl StepSplit {
    /// The share of a part, from 0 to 1.
    pub fn share(&self, part: Part) -> f64 {
        self.parts[part as usize] as f64 / self.span.1.abs_diff(self.span.0).max(1) as f64
    }
}

/// A period in which no GPU of a rank works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Start and end in nanoseconds.
    pub span: (i64, i64),
    /// The rank's activity for most of the period.
    pub cause: Part,
    /// The process.
    pub process: i64,
}

/// What limits a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Binding {
    /// The limiting part; `None` if no single part stands out.
    pub part: Option<Part>,
    /// A sentence with the numbers.
    pub sentence: String,
}

/// The split of all steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    /// The steps, sorted by rank and start.
    pub steps: Vec<StepSplit>,
    /// Whether the recording marks steps; if not, it is treated as one step.
    pub has_steps: bool,
    /// The longest idle times of GPUs, the longest first.
    pub gaps: Vec<Stretch>,
    /// What limits the run.
    pub binding: Binding,
    /// The parts that took any time.
    pub parts: Vec<PartTime>,
    /// Communication by collective, the longest first.
    pub collectives: Vec<Collective>,
}

/// A part over all steps after the warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PartTime {
    /// The part.
    pub part: Part,
    /// Its median time in a step, in seconds, over steps and ranks.
    pub median_s: f64,
    /// The median over steps of its share of the ranks' time, from 0 to 1.
    pub share: f64,
    /// An interval of that median from order statistics: 95 % from six steps on, the extremes for fewer.
    pub interval: (f64, f64),
}

/// The most idle times that are kept.
const MOST_GAPS: usize = 200;
/// Shorter idle times are normal between kernels.
const SHORTEST_GAP_NS: u64 = 50_000;
/// Shorter idle times between kernels are attributed to a host that launches too slowly; longer ones may have other causes.
pub(super) const LAUNCH_GAP_NS: u64 = 200_000;

type Spans = Vec<(i64, i64)>;

/// A collective of a rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Began {
    span: (i64, i64),
    label: u32,
    size: Result<u64, NoSize>,
}

/// The activity of one process.
#[derive(Default)]
struct Process {
    layers: BTreeMap<Part, Spans>,
    /// Collectives in order.
    collectives: Vec<Began>,
    /// The times in which the host waits for collectives; `None` if the recording does not contain them.
    waits: Option<Spans>,
    warm_up: Spans,
    has_gpu: bool,
    name: String,
    extent: Option<(i64, i64)>,
}

impl Split {
    /// The result for a part; `None` if it took no time.
    pub fn part(&self, part: Part) -> Option<&PartTime> {
        self.parts.iter().find(|known| known.part == part)
    }

    /// The steps of the first rank.
    pub fn first_rank(&self) -> &[StepSplit] {
        let first = self.steps.first().map(|step| step.process);
        let first_rank_steps = self.steps.iter().take_while(|step| Some(step.process) == first).count();
        &self.steps[..first_rank_steps]
    }

    /// The median over steps after the warm-up of a part's share of the ranks' time, with a 95 % interval of the median from order
    /// statistics; `None` without steps.
    fn median_share(&self, part: Part) -> Option<(f64, (f64, f64))> {
        // Ranks of the same step depend on each other, so the sample consists of steps, and ranks are averaged.
        let mut by_step: BTreeMap<usize, (f64, u32)> = BTreeMap::new();
        for step in self.steps.iter().filter(|step| !step.warm_up) {
            let (sum, ranks) = by_step.entry(step.step).or_default();
            *sum += step.share(part);
            *ranks += 1;
        }
        let mut shares: Vec<f64> = by_step.values().map(|(sum, ranks)| sum / f64::from(*ranks)).collect();
        shares.sort_by(f64::total_cmp);
        let range = (*shares.first()?, *shares.last()?);
        let interval = median_interval(&shares, linear).map_or(range, |Interval { low, high }| (low, high));
        Some((median_of_sorted(&shares), interval))
    }

    /// The median time of a part in a step, in seconds, over steps after the warm-up.
    fn median_s(&self, part: Part) -> Option<f64> {
        let counted = self.steps.iter().filter(|step| !step.warm_up);
        let mut times_s: Vec<f64> = counted.map(|step| step.parts[part as usize] as f64 / 1e9).collect();
        times_s.sort_by(f64::total_cmp);
        (!times_s.is_empty()).then(|| median_of_sorted(&times_s))
    }
}

/// The number of events read between two progress reports.
const TELL_EVENTS: u64 = 1 << 16;

pub(super) fn split(
    timeline: &Timeline,
    tell: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Split, TraceError> {
    let watch = &mut Watch::new(tell, timeline.events() as usize);
    let sizes = sizes::sizes(timeline, watch)?;
    let mut processes: BTreeMap<i64, Process> = BTreeMap::new();
    for row in &timeline.rows {
        let process = processes.entry(row.process).or_default();
        process.name.clone_from(&row.group);
        process.has_gpu |= row.is_on_gpu();
        if timeline.has_collectives && !timeline.has_gpus {
            process.waits.get_or_insert_default();
        }
        read(timeline, row, process, &sizes, watch)?;
    }
    for process in processes.values_mut() {
        for spans in process.layers.values_mut().chain([&mut process.warm_up]).chain(&mut process.waits) {
            unite(spans);
        }
        if let Some(waits) = &process.waits {
            process.layers.insert(Part::Communication, waits.clone());
        }
        process.collectives.sort_unstable();
    }
    wait_for_slowest(&mut processes);
    for process in processes.values_mut().filter(|process| process.has_gpu) {
        let busy = process.busy();
        let between = busy.windows(2).map(|pair| (pair[0].1, pair[1].0));
        let launching = process.layers.entry(Part::Launch).or_default();
        launching.extend(between.filter(|gap| gap.1.abs_diff(gap.0) < LAUNCH_GAP_NS));
        unite(launching);
    }
    let (mut steps, mut has_steps) = (Vec::new(), false);
    for (id, process) in &processes {
        let windows = windows(timeline, *id);
        has_steps |= !windows.is_empty();
        let windows = if windows.is_empty() { process.extent.into_iter().collect() } else { windows };
        let count = windows.len();
        for (place, span) in windows.into_iter().enumerate() {
            let in_phase = process.warm_up.iter().any(|warm_up| warm_up.0 < span.1 && span.0 < warm_up.1);
            let first = count >= LEAST_STEPS && process.warm_up.is_empty() && place < (count / 10).max(1);
            // In the first step of a window, the host has no lead over its GPU.
            let opens = timeline.holes.binary_search_by_key(&span.0, |hole| hole.1).is_ok()
                || place == 0 && !timeline.holes.is_empty();
            steps.push(StepSplit {
                process: *id,
                step: place + 1,
                span,
                parts: process.parts(span),
                warm_up: in_phase || first || opens,
            });
        }
    }
    let gaps = gaps(&processes, &timeline.holes);
    let binding = Binding { part: None, sentence: String::new() };
    let collectives = collectives::collectives(timeline, &processes);
    let mut split = Split { steps, has_steps, gaps, binding, parts: Vec::new(), collectives };
    split.parts = Part::iter()
        .filter_map(|part| {
            let (share, interval) = split.median_share(part)?;
            let median_s = split.median_s(part)?;
            (interval.1 > 0.0).then_some(PartTime { part, median_s, share, interval })
        })
        .collect();
    split.binding = binding::binding(&split, &processes);
    if timeline.lacks_parts() {
        split.binding.sentence.insert_str(0, "Parts of the recording are missing. ");
    }
    Ok(split)
}

/// The parts for repeats of one experiment: the median over the runs of each run's median, with an interval of it as in [`PartTime`], where
/// runs replace steps.
pub fn over_repeats(splits: &[&Split]) -> Vec<PartTime> {
    let all = Part::iter().filter_map(|part| {
        let median_over_steps = |value: fn(&PartTime) -> f64| {
            let mut values: Vec<f64> = splits.iter().map(|split| split.part(part).map_or(0.0, value)).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let (shares, times_s) = (median_over_steps(|time| time.share), median_over_steps(|time| time.median_s));
        let range = (*shares.first()?, *shares.last()?);
        let interval = median_interval(&shares, linear).map_or(range, |Interval { low, high }| (low, high));
        let (median_s, share) = (median_of_sorted(&times_s), median_of_sorted(&shares));
        (interval.1 > 0.0).then_some(PartTime { part, median_s, share, interval })
    });
    all.collect()
}

/// Adds the events of a row to the layers of its process.
fn read(
    timeline: &Timeline,
    row: &TimelineRow,
    process: &mut Process,
    sizes: &Sizes,
    watch: &mut Watch<'_>,
) -> Result<(), TraceError> {
    let (mut read, mut watched) = (0, Ok(()));
    timeline.file.in_order(row.lane, (i64::MIN, i64::MAX), |event| {
        let Some(item) = row.item(event) else { return true };
        read += 1;
        if read % TELL_EVENTS == 0 {
            watched = watch.look(read as usize);
            if watched.is_err() {
                return false;
            }
        }
        let name = timeline.name(item.label);
        if name.starts_with("phase: ") {
            // Before the first step that counts.
            if ["phase: start", "phase: load", "phase: warm-up"].contains(&name) {
                process.warm_up.push(item.span);
            }
            return true;
        }
        let Some(part) = part_of(timeline, row.kind, item.label) else { return true };
        match &mut process.waits {
            Some(waits) if part == Part::Communication && row.kind != Kind::Collective => waits.push(item.span),
            _ if part == Part::Communication => {
                let size = item.bytes.map_or_else(|| sizes.of(row.process, item.correlation), Ok);
                process.collectives.push(Began { span: item.span, label: item.label, size });
            }
            _ => {}
        }
        let extent = process.extent.get_or_insert(item.span);
        *extent = (extent.0.min(item.span.0), extent.1.max(item.span.1));
        let spans = process.layers.entry(part).or_default();
        match spans.last_mut() {
            // Adjacent spans become one.
            Some(last) if last.1 >= item.span.0 && last.0 <= item.span.0 => last.1 = last.1.max(item.span.1),
            _ => spans.push(item.span),
        }
        true
    })?;
    watched?;
    watch.done(row.events as usize)
}

/// The part that an event belongs to, if any.
pub(super) fn part_of(timeline: &Timeline, kind: Kind, label: u32) -> Option<Part> {
    let (name, class) = (timeline.name(label), timeline.class(label));
    Some(match (kind, class) {
        // It takes no time; the call that made it does.
        (Kind::Allocation, _) => return None,
        (Kind::Range, Class::Load) => Part::Data,
        (Kind::Collective | Kind::Range, _) if timeline.has_gpus => return None,
        // This is only the launch by the host: a kernel performs it, and kernels were not recorded.
        (Kind::Collective, _) if name.starts_with("nccl") => return None,
        (Kind::Range, Class::Wait) => Part::Communication,
        // This is a range around some of the collectives, which are more precise.
        (Kind::Range, Class::Communication) if timeline.has_collectives => return None,
        (Kind::Range, Class::Communication) => Part::Communication,
        (Kind::Range, _) => match name {
            "forward" => Part::Forward,
            "backward" => Part::Backward,
            "optimizer" => Part::Optimizer,
            // PyTorch's profiler names it with the optimizer's class.
            name if name.starts_with("Optimizer.step#") => Part::Optimizer,
            name if super::is_step(name) => Part::Step,
            _ => return None,
        },
        (_, class) => Part::of(class),
    })
}

/// When the last rank began each collective; `None` if ranks began different numbers of collectives.
fn latest_starts(processes: &BTreeMap<i64, Process>) -> Option<Vec<i64>> {
    let counts: Vec<usize> = processes.values().map(|process| process.collectives.len()).filter(|n| *n > 0).collect();
    // The n-th collectives of two ranks belong together only if all ranks have the same number.
    if counts.len() < 2 || counts.iter().any(|count| *count != counts[0]) {
        return None;
    }
    let latest = (0..counts[0]).map(|n| {
        processes.values().filter_map(|process| process.collectives.get(n)).map(|began| began.span.0).max().unwrap_or(0)
    });
    Some(latest.collect())
}

/// Splits off from each rank's collectives the time until the last rank has begun the same collective.
fn wait_for_slowest(processes: &mut BTreeMap<i64, Process>) {
    let Some(latest) = latest_starts(processes) else { return };
    for process in processes.values_mut().filter(|process| !process.collectives.is_empty()) {
        let spans = process.collectives.iter().map(|began| began.span);
        let mut early: Spans = spans.zip(&latest).map(|(span, last)| (span.0, span.1.min(*last))).collect();
        early.retain(|wait| wait.0 < wait.1);
        unite(&mut early);
        if let Some(waits) = &process.waits {
            let mut others = early.clone();
            take(&mut others, waits);
            take(&mut early, &others);
        }
        process.layers.insert(Part::Straggler, early);
    }
}

/// The times of a process's steps. No step contains a time that was not recorded.
fn windows(timeline: &Timeline, process: i64) -> Spans {
    let Timeline { marks, holes, has_exact_steps, .. } = timeline;
    let spans_of_kind =
        |kind| marks.iter().filter(move |mark| mark.process == process && mark.kind == kind).map(|mark| mark.span);
    let epochs: Vec<i64> = spans_of_kind(MarkKind::Epoch).map(|span| span.0).collect();
    let mut windows: Spans = Vec::new();
    let mut before: Option<i64> = None;
    for (start, end) in spans_of_kind(MarkKind::Step) {
        // A step within another step is part of it.
        if before.is_some_and(|before| end <= before) {
            continue;
        }
        let epoch = epochs[..epochs.partition_point(|epoch| *epoch <= start)].last().copied();
        let hole = holes[..holes.partition_point(|hole| hole.1 <= start)].last().map(|hole| hole.1);
        let begin = before.into_iter().chain(epoch).chain(hole).max().unwrap_or(start).min(start);
        windows.push((if *has_exact_steps { start } else { begin }, end));
        before = Some(end);
    }
    windows
}

impl Process {
    /// The times in which at least one of its GPUs worked.
    fn busy(&self) -> Spans {
        let mut busy: Spans = Part::iter()
            .filter(|part| part.is_on_gpu())
            .filter_map(|part| self.layers.get(&part))
            .flatten()
            .copied()
            .collect();
        unite(&mut busy);
        busy
    }

    /// Divides a span among the parts.
    fn parts(&self, span: (i64, i64)) -> [u64; Part::COUNT] {
        let mut parts = [0; Part::COUNT];
        let mut left: Spans = vec![span];
        // The order of the parts is their precedence.
        for part in Part::iter() {
            if let Some(spans) = self.layers.get(&part) {
                parts[part as usize] = take(&mut left, spans);
            }
        }
        parts[Part::Idle as usize] += left.iter().map(|(start, end)| end.abs_diff(*start)).sum::<u64>();
        parts
    }
}

/// Removes the time that a layer covers from the remaining time; returns its length.
fn take(left: &mut Spans, layer: &[(i64, i64)]) -> u64 {
    let (mut rest, mut taken) = (Vec::with_capacity(left.len()), 0);
    for &(start, end) in left.iter() {
        let mut at = start;
        let first = layer.partition_point(|span| span.1 <= start);
        for &(from, to) in layer[first..].iter().take_while(|span| span.0 < end) {
            let (from, to) = (from.max(at), to.min(end));
            if from > at {
                rest.push((at, from));
            }
            taken += to.saturating_sub(from).max(0).unsigned_abs();
            at = at.max(to);
        }
        if at < end {
            rest.push((at, end));
        }
    }
    *left = rest;
    taken
}

/// The longest times in which a rank's GPUs are idle, without times that were not recorded.
fn gaps(processes: &BTreeMap<i64, Process>, holes: &[(i64, i64)]) -> Vec<Stretch> {
    let mut gaps = Vec::new();
    for (id, process) in processes.iter().filter(|(_, process)| process.has_gpu) {
        for pair in process.busy().windows(2) {
            let span = (pair[0].1, pair[1].0);
            let next = holes.get(holes.partition_point(|hole| hole.1 <= span.0));
            if span.1.abs_diff(span.0) < SHORTEST_GAP_NS || next.is_some_and(|hole| hole.0 < span.1) {
                continue;
            }
            let parts = process.parts(span);
            let cause = Part::iter().max_by_key(|part| parts[*part as usize]).unwrap_or(Part::Idle);
            gaps.push(Stretch { span, cause, process: *id });
        }
    }
    gaps.sort_by_key(|gap| std::cmp::Reverse(gap.span.1 - gap.span.0));
    gaps.truncate(MOST_GAPS);
    gaps
}
