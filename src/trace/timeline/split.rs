//! Where the time of each step of each rank went, and what binds a run.
//!
//! The time of a step lasts from the end of the step before to its own end, as [`crate::protocol`] counts it; the first one of an epoch begins
//! with the epoch. Each nanosecond belongs to one part, the first of this order that was going on: kernels by family, data movement;
//! waiting for the slowest rank, communication (as far as nothing hides them); waiting for data; waiting of the host for a GPU; launching (the
//! GPU has nothing to do while the host calls CUDA, or for less than 200 µs between two kernels or copies); idle. Without records of GPUs the ranges of the ranks say it: waiting for data,
//! waiting for the slowest rank, communication, forward, backward, optimizer, the rest of the step, idle.
//!
//! A rank waits for the slowest from the start of its n-th collective until the last rank has started its n-th. Kernels are counted
//! by time, not by the step that launched them: a GPU that lags behind its host shows its work a little later.

use std::collections::BTreeMap;

use strum::{EnumCount, EnumIter, IntoEnumIterator as _, IntoStaticStr};

use super::{Class, Mark, MarkKind, Timeline, TimelineRow};
use crate::statistics::{INTERVAL_REPEATS, Interval, linear, median_interval, median_of_sorted};
use crate::trace::TraceError;
use crate::trace::event::Kind;

/// Share of a step's time from which a part can be what binds a run.
const BINDS: f64 = 0.25;
/// Steps at the beginning that are left out where no phases say which are warm-up: a tenth, at least one, if there are enough.
const LEAST_STEPS: usize = 3;
/// Steps from which the extremes are a 95 % interval of their median; a judgement on fewer would have none.
const JUDGED_STEPS: usize = INTERVAL_REPEATS;
/// Share of collectives in which a rank is last, from which it is named.
const ALWAYS_LAST: f64 = 0.8;

/// A part of a step's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EnumIter, EnumCount, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Part {
    /// Kernels of convolutions.
    Convolution,
    /// Kernels of matrix products.
    Matrix,
    /// Kernels of normalisations.
    Normalisation,
    /// Elementwise kernels.
    Elementwise,
    /// Kernels, or the range, of the optimizer.
    Optimizer,
    /// Other kernels, and CUDA graphs recorded as a whole.
    Kernels,
    /// Kernels that only move data, memsets, and copies that no kernel hides.
    Copy,
    /// The rank's collective has begun, another rank's has not.
    Straggler,
    /// Collectives that no kernel hides.
    Communication,
    /// The loader has no batch ready.
    Data,
    /// The host waits for its GPU, which does nothing.
    Synchronisation,
    /// The GPU has nothing to do while the host calls CUDA, or for a short time between kernels: work comes in too slowly.
    Launch,
    /// Forward pass, where the host computes.
    Forward,
    /// Backward pass, where the host computes.
    Backward,
    /// The rest of the step, where the host computes.
    Step,
    /// Nothing of all that.
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

    fn of(class: Class) -> Self {
        match class {
            Class::Convolution => Self::Convolution,
            Class::Matrix => Self::Matrix,
            Class::Normalisation => Self::Normalisation,
            Class::Elementwise => Self::Elementwise,
            Class::Optimizer => Self::Optimizer,
            Class::Copy => Self::Copy,
            Class::Communication => Self::Communication,
            Class::Load => Self::Data,
            Class::Wait => Self::Synchronisation,
            Class::Call => Self::Launch,
            Class::Other | Class::Range => Self::Kernels,
        }
    }
}

/// The split of one step of one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepSplit {
    /// The process.
    pub process: i64,
    /// Its place among the rank's steps, from 1.
    pub step: usize,
    /// Start and end in nanoseconds on the recording's clock.
    pub span: (i64, i64),
    /// Nanoseconds by part; their sum is the length of the span.
    pub parts: [u64; Part::COUNT],
    /// Whether it is left out of medians: warm-up.
    pub warm_up: bool,
}

impl StepSplit {
    /// The share of a part, from 0 to 1.
    pub fn share(&self, part: Part) -> f64 {
        self.parts[part as usize] as f64 / self.span.1.abs_diff(self.span.0).max(1) as f64
    }
}

/// A time in which no GPU of a rank does anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Start and end in nanoseconds.
    pub span: (i64, i64),
    /// What the rank did meanwhile for the longest time.
    pub cause: Part,
    /// The process.
    pub process: i64,
}

/// What binds a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Binding {
    /// What it is; none if nothing stands out.
    pub part: Option<Part>,
    /// A sentence with the numbers.
    pub sentence: String,
}

/// The split of all steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    /// By rank and start.
    pub steps: Vec<StepSplit>,
    /// Whether the recording has steps; without them it is one.
    pub has_steps: bool,
    /// The longest idle times of GPUs, the longest first.
    pub gaps: Vec<Stretch>,
    /// What binds the run.
    pub binding: Binding,
    /// The parts that took any time.
    pub parts: Vec<PartTime>,
}

/// A part over all steps that are no warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PartTime {
    /// The part.
    pub part: Part,
    /// Its median time in a step, in seconds, over steps and ranks.
    pub median_s: f64,
    /// The median over steps of its share of the ranks' time, from 0 to 1.
    pub share: f64,
    /// An interval of that median from order statistics: of 95 % from six steps on, the extremes of fewer.
    pub interval: (f64, f64),
}

/// Idle times that are kept.
const MOST_GAPS: usize = 200;
/// Shorter ones are normal between kernels.
const SHORTEST_GAP_NS: u64 = 50_000;
/// Shorter idle times between kernels are those of a host that launches too slowly; longer ones may have other causes.
const LAUNCH_GAP_NS: u64 = 200_000;

type Spans = Vec<(i64, i64)>;

/// What one process did.
#[derive(Default)]
struct Process {
    layers: BTreeMap<Part, Spans>,
    /// Starts and ends of collectives in order.
    collectives: Spans,
    warm_up: Spans,
    has_gpu: bool,
    name: String,
    extent: Option<(i64, i64)>,
}

impl Split {
    /// What is known of a part; none if it took no time.
    pub fn part(&self, part: Part) -> Option<&PartTime> {
        self.parts.iter().find(|known| known.part == part)
    }

    /// The steps of the first rank.
    pub fn first_rank(&self) -> &[StepSplit] {
        let first = self.steps.first().map(|step| step.process);
        let of = self.steps.iter().take_while(|step| Some(step.process) == first).count();
        &self.steps[..of]
    }

    /// The median over steps that are no warm-up of a part's share of the ranks' time, with a 95 % interval of the median from order statistics; none without steps.
    fn median_share(&self, part: Part) -> Option<(f64, (f64, f64))> {
        // Ranks of a step depend on each other: steps are the sample, and ranks are averaged.
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

    /// The median time of a part in a step, in seconds, over steps that are no warm-up.
    fn median_s(&self, part: Part) -> Option<f64> {
        let counted = self.steps.iter().filter(|step| !step.warm_up);
        let mut times_s: Vec<f64> = counted.map(|step| step.parts[part as usize] as f64 / 1e9).collect();
        times_s.sort_by(f64::total_cmp);
        (!times_s.is_empty()).then(|| median_of_sorted(&times_s))
    }
}

pub(super) fn split(timeline: &Timeline) -> Result<Split, TraceError> {
    let mut processes: BTreeMap<i64, Process> = BTreeMap::new();
    for row in &timeline.rows {
        let process = processes.entry(row.process).or_default();
        process.name.clone_from(&row.group);
        process.has_gpu |= row.is_on_gpu();
        read(timeline, row, process)?;
    }
    for process in processes.values_mut() {
        for spans in process.layers.values_mut().chain([&mut process.warm_up]) {
            unite(spans);
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
        let windows = windows(&timeline.marks, *id);
        has_steps |= !windows.is_empty();
        let windows = if windows.is_empty() { process.extent.into_iter().collect() } else { windows };
        let count = windows.len();
        for (place, span) in windows.into_iter().enumerate() {
            let in_phase = process.warm_up.iter().any(|warm_up| warm_up.0 < span.1 && span.0 < warm_up.1);
            let first = count >= LEAST_STEPS && process.warm_up.is_empty() && place < (count / 10).max(1);
            steps.push(StepSplit {
                process: *id,
                step: place + 1,
                span,
                parts: process.parts(span),
                warm_up: in_phase || first,
            });
        }
    }
    let gaps = gaps(&processes);
    let binding = Binding { part: None, sentence: String::new() };
    let mut split = Split { steps, has_steps, gaps, binding, parts: Vec::new() };
    split.parts = Part::iter()
        .filter_map(|part| {
            let (share, interval) = split.median_share(part)?;
            let median_s = split.median_s(part)?;
            (interval.1 > 0.0).then_some(PartTime { part, median_s, share, interval })
        })
        .collect();
    split.binding = self::binding(&split, &processes);
    Ok(split)
}

/// Adds the events of a row to the layers of its process.
fn read(timeline: &Timeline, row: &TimelineRow, process: &mut Process) -> Result<(), TraceError> {
    timeline.file.in_order(row.lane, (i64::MIN, i64::MAX), |event| {
        let Some(item) = row.item(event) else { return true };
        let name = timeline.name(item.label);
        let class = timeline.class(item.label);
        if name.starts_with("phase: ") {
            // Before the first step that counts.
            if ["phase: start", "phase: load", "phase: warm-up"].contains(&name) {
                process.warm_up.push(item.span);
            }
            return true;
        }
        let part = match (row.kind, class) {
            (Kind::Range, Class::Load) => Part::Data,
            (Kind::Range, Class::Communication) if !timeline.has_gpus => Part::Communication,
            (Kind::Range, _) if timeline.has_gpus => return true,
            (Kind::Range, _) => match name {
                "forward" => Part::Forward,
                "backward" => Part::Backward,
                "optimizer" => Part::Optimizer,
                name if super::is_step(name) => Part::Step,
                _ => return true,
            },
            (_, class) => Part::of(class),
        };
        if part == Part::Communication {
            process.collectives.push(item.span);
        }
        let extent = process.extent.get_or_insert(item.span);
        *extent = (extent.0.min(item.span.0), extent.1.max(item.span.1));
        let spans = process.layers.entry(part).or_default();
        match spans.last_mut() {
            // Side by side: one span.
            Some(last) if last.1 >= item.span.0 && last.0 <= item.span.0 => last.1 = last.1.max(item.span.1),
            _ => spans.push(item.span),
        }
        true
    })
}

/// Sorts spans and joins those that touch.
fn unite(spans: &mut Spans) {
    spans.sort_unstable();
    let mut joined: Spans = Vec::with_capacity(spans.len());
    for span in spans.drain(..) {
        match joined.last_mut() {
            Some(last) if last.1 >= span.0 => last.1 = last.1.max(span.1),
            _ => joined.push(span),
        }
    }
    *spans = joined;
}

/// Takes from each collective of each rank the time until the last rank has begun it.
fn wait_for_slowest(processes: &mut BTreeMap<i64, Process>) {
    let counts: Vec<usize> = processes.values().map(|process| process.collectives.len()).filter(|n| *n > 0).collect();
    // The n-th of one rank is the n-th of the other only where all have as many.
    if counts.len() < 2 || counts.iter().any(|count| *count != counts[0]) {
        return;
    }
    let latest: Vec<i64> = (0..counts[0])
        .map(|n| {
            processes.values().filter_map(|process| process.collectives.get(n)).map(|span| span.0).max().unwrap_or(0)
        })
        .collect();
    for process in processes.values_mut().filter(|process| !process.collectives.is_empty()) {
        let mut waits: Spans =
            process.collectives.iter().zip(&latest).map(|(span, last)| (span.0, span.1.min(*last))).collect();
        waits.retain(|wait| wait.0 < wait.1);
        unite(&mut waits);
        process.layers.insert(Part::Straggler, waits);
    }
}

/// The times of a process's steps.
fn windows(marks: &[Mark], process: i64) -> Spans {
    let of = |kind| marks.iter().filter(move |mark| mark.process == process && mark.kind == kind).map(|mark| mark.span);
    let epochs: Vec<i64> = of(MarkKind::Epoch).map(|span| span.0).collect();
    let mut windows: Spans = Vec::new();
    let mut before: Option<i64> = None;
    for (start, end) in of(MarkKind::Step) {
        // A step within another is part of it.
        if before.is_some_and(|before| end <= before) {
            continue;
        }
        let epoch = epochs[..epochs.partition_point(|epoch| *epoch <= start)].last().copied();
        let begin = before.into_iter().chain(epoch).max().unwrap_or(start).min(start);
        windows.push((begin, end));
        before = Some(end);
    }
    windows
}

/// Parts in which a GPU works.
const OF_GPU: [Part; 8] = [
    Part::Convolution,
    Part::Matrix,
    Part::Normalisation,
    Part::Elementwise,
    Part::Optimizer,
    Part::Kernels,
    Part::Copy,
    Part::Communication,
];

impl Process {
    /// When its GPUs did anything.
    fn busy(&self) -> Spans {
        let mut busy: Spans = OF_GPU.iter().filter_map(|part| self.layers.get(part)).flatten().copied().collect();
        unite(&mut busy);
        busy
    }

    /// Divides a span among the parts.
    fn parts(&self, span: (i64, i64)) -> [u64; Part::COUNT] {
        let mut parts = [0; Part::COUNT];
        let mut left: Spans = vec![span];
        // The order of the parts is that of their precedence.
        for part in Part::iter() {
            if let Some(spans) = self.layers.get(&part) {
                parts[part as usize] = take(&mut left, spans);
            }
        }
        parts[Part::Idle as usize] += left.iter().map(|(start, end)| end.abs_diff(*start)).sum::<u64>();
        parts
    }
}

/// Takes from what is left what a layer covers; returns how much that is.
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

/// The longest times in which a rank's GPU has nothing to do.
fn gaps(processes: &BTreeMap<i64, Process>) -> Vec<Stretch> {
    let mut gaps = Vec::new();
    for (id, process) in processes.iter().filter(|(_, process)| process.has_gpu) {
        for pair in process.busy().windows(2) {
            let span = (pair[0].1, pair[1].0);
            if span.1.abs_diff(span.0) < SHORTEST_GAP_NS {
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

/// Parts that are named together.
const COMPUTE: [Part; 8] = [
    Part::Convolution,
    Part::Matrix,
    Part::Normalisation,
    Part::Elementwise,
    Part::Optimizer,
    Part::Kernels,
    Part::Forward,
    Part::Backward,
];

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// The sentence that says what binds the run.
fn binding(split: &Split, processes: &BTreeMap<i64, Process>) -> Binding {
    let none = |sentence: String| Binding { part: None, sentence };
    let counted: std::collections::BTreeSet<usize> =
        split.steps.iter().filter(|step| !step.warm_up).map(|step| step.step).collect();
    let counted = counted.len();
    if split.steps.is_empty() {
        return none("Nothing was recorded.".to_owned());
    }
    // Start-up would pass for what binds the steps.
    if !split.has_steps {
        let said =
            "What binds its steps cannot be said: it names none. Ranges called step, iteration or ProfilerStep would.";
        return none(said.to_owned());
    }
    if counted < JUDGED_STEPS {
        return none(format!(
            "What binds its steps cannot be said: {counted} come after the warm-up, and {JUDGED_STEPS} are needed."
        ));
    }
    let (of, over) = ("a step", format!(" (median of {counted} steps)"));
    let compute: f64 = COMPUTE.iter().filter_map(|part| split.part(*part)).map(|of| of.share).sum();
    let mut others: Vec<(Part, f64, (f64, f64))> = Part::iter()
        .filter(|part| !COMPUTE.contains(part))
        .map(|part| split.part(part).map_or((part, 0.0, (0.0, 0.0)), |of| (part, of.share, of.interval)))
        .collect();
    others.sort_by(|a, b| b.1.total_cmp(&a.1));
    let Some(&(part, share, (low, high))) = others.first() else { return none(String::new()) };
    let second = others.get(1).map_or(0.0, |(_, _, (_, high))| *high);
    let interval = format!(" [{}, {}]", percent(low), percent(high));
    if share >= BINDS && low > second && low > 0.5 * BINDS {
        let sentence = match part {
            Part::Data => {
                format!("Bound by the loader: {}{interval} of {of} is waiting for data{over}.", percent(share))
            }
            Part::Launch => format!(
                "Bound by launches: in {}{interval} of {of} the GPU has nothing to do because work comes in too slowly{over}.",
                percent(share)
            ),
            Part::Copy => format!(
                "Bound by data movement: {}{interval} of {of} is copies that nothing hides{over}.",
                percent(share)
            ),
            Part::Straggler => format!(
                "Bound by the slowest rank: {}{interval} of {of} is waiting for it{over}.{}",
                percent(share),
                slowest(processes)
            ),
            Part::Communication => format!(
                "Bound by communication: {}{interval} of {of} is collectives that nothing hides{over}.",
                percent(share)
            ),
            Part::Synchronisation => format!(
                "Bound by the host's waits: in {}{interval} of {of} the host waits while its GPU has nothing to do{over}.",
                percent(share)
            ),
            _ => format!(
                "Nothing recorded explains {}{interval} of {of}{over}: neither kernels, copies, loader nor calls of CUDA.",
                percent(share)
            ),
        };
        let part = (!matches!(part, Part::Idle | Part::Step)).then_some(part);
        return Binding { part, sentence };
    }
    if compute >= 0.6 {
        let most = COMPUTE.iter().filter_map(|part| Some((*part, split.part(*part)?.share)));
        let (most, of_most) = most.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((Part::Kernels, 0.0));
        let sentence = format!(
            "Bound by computing: {} of {of}{over}, most of it {} ({}). Whether memory or arithmetic limits it, this recording cannot say.",
            percent(compute),
            most.name(),
            percent(of_most)
        );
        return Binding { part: Some(most), sentence };
    }
    let named: Vec<String> =
        others.iter().take(2).map(|(part, share, _)| format!("{} {}", part.name(), percent(*share))).collect();
    none(format!("Nothing stands out: computing {} of {of}{over}, {}.", percent(compute), named.join(", ")))
}

/// Which rank is last, if it is nearly always the same one.
fn slowest(processes: &BTreeMap<i64, Process>) -> String {
    let of: Vec<&Process> = processes.values().filter(|process| !process.collectives.is_empty()).collect();
    let count = of.first().map_or(0, |process| process.collectives.len());
    let mut last: BTreeMap<usize, usize> = BTreeMap::new();
    for n in 0..count {
        let slowest =
            of.iter().enumerate().filter_map(|(place, process)| Some((process.collectives.get(n)?.0, place))).max();
        *last.entry(slowest.map_or(0, |(_, place)| place)).or_default() += 1;
    }
    match last.into_iter().max_by_key(|(_, times)| *times) {
        Some((place, times)) if times as f64 >= ALWAYS_LAST * count as f64 => {
            format!(" {} is last in {times} of {count} collectives.", of[place].name)
        }
        _ => " It is not always the same one.".to_owned(),
    }
}
