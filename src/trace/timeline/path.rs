//! The critical path of a step: the chain of work that its end waited for, followed back to its beginning.
//!
//! From the end of the step on its rank's thread the path goes back in time. On the host it lasts until the host had waited for a GPU; there
//! it goes on with what that GPU finished last. Work on a GPU began when the work before it had ended, or when the host launched it, whichever
//! came last: the path goes on there. A collective goes on with the rank that began it last. Ranks without GPUs wait for collectives, which
//! a thread of theirs carries out, as others do for a GPU. Every nanosecond of the step is in one segment.

use std::collections::HashMap;

use strum::{EnumCount, IntoEnumIterator as _};

use super::split::{LAUNCH_GAP_NS, Part, part_of};
use super::{Kind, StepSplit, Timeline, TraceError};

/// A collective that a thread begins sooner than this after another one had waited for it, in nanoseconds.
const QUEUE_GAP_NS: u64 = 50_000;

/// A stretch of a critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Start and end in nanoseconds on the recording's clock.
    pub span: (i64, i64),
    /// What was waited for.
    pub part: Part,
    /// The process that did it.
    pub process: i64,
}

/// The critical path of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CriticalPath {
    /// Its segments in order of time, neighbours of one part and process joined. Together they are as long as the step.
    pub segments: Vec<Segment>,
    /// Nanoseconds by part.
    pub parts: [u64; Part::COUNT],
}

impl CriticalPath {
    /// What a part is called on a path: what the host did beside its calls is its own code.
    pub fn name(part: Part) -> &'static str {
        match part {
            Part::Step | Part::Idle => "host code",
            part => part.name(),
        }
    }
}

/// Work on a GPU, or a collective that a thread carries out.
struct Work {
    span: (i64, i64),
    part: Part,
    correlation: i64,
}

/// What a process did around a step.
#[derive(Default)]
struct Process {
    /// By end.
    work: Vec<Work>,
    /// Starts of calls by correlation.
    calls: HashMap<i64, i64>,
    /// Calls in which the host may have waited for a GPU, or times in which it waited for collectives, by start.
    waits: Vec<(i64, i64)>,
    /// Other times of the host.
    host: Vec<(Part, (i64, i64))>,
    /// Collectives on GPUs, or on the host, by start.
    collectives: Vec<(i64, i64)>,
    /// Whether its work are collectives on the host.
    on_host: bool,
}

impl Process {
    /// The work that had ended last by a time, if it did not end before `from`.
    fn ended_by(&self, at: i64, from: i64) -> Option<usize> {
        let ended = self.work.partition_point(|work| work.span.1 <= at);
        let place = (0..ended).rev().find(|place| self.work[*place].span.0 < at)?;
        (self.work[place].span.1 >= from).then_some(place)
    }
}

pub(super) fn critical_path(timeline: &Timeline, step: &StepSplit) -> Result<CriticalPath, TraceError> {
    let (begin, end) = step.span;
    // Work of the step before may be what the first kernels waited for; calls lie before their work.
    let around = (begin.saturating_sub(end.saturating_sub(begin)), end);
    let mut processes: HashMap<i64, Process> = HashMap::new();
    for (place, row) in timeline.rows.iter().enumerate() {
        let process = processes.entry(row.process).or_default();
        for item in timeline.items(place, around)? {
            if item.span.0 > item.span.1 || timeline.name(item.label).starts_with("phase: ") {
                continue;
            }
            let Some(part) = part_of(timeline, row.kind, item.label) else { continue };
            let waits = timeline.has_collectives && row.kind == Kind::Range && part == Part::Communication;
            if part == Part::Communication && !waits {
                process.collectives.push(item.span);
            }
            match row.kind {
                _ if waits => {
                    process.waits.push(item.span);
                    process.host.push((part, item.span));
                }
                _ if row.is_on_gpu() || row.kind == Kind::Collective => {
                    process.on_host |= row.kind == Kind::Collective;
                    process.work.push(Work { span: item.span, part, correlation: item.correlation });
                }
                Kind::Synchronisation => process.waits.push(item.span),
                Kind::Call => {
                    process.calls.insert(item.correlation, item.span.0);
                    process.host.push((part, item.span));
                    if part == Part::Synchronisation || may_block(timeline.name(item.label), item.span) {
                        process.waits.push(item.span);
                    }
                }
                _ => process.host.push((part, item.span)),
            }
        }
    }
    for process in processes.values_mut() {
        process.work.sort_by_key(|work| (work.span.1, work.span.0));
        process.waits.sort_unstable();
        process.collectives.sort_unstable();
    }
    let mut walk = Walk { processes: &processes, begin, segments: Vec::new() };
    let mut now = Some(At::Host(step.process, end));
    // Each turn goes back in time.
    while let Some(at) = now {
        now = match at {
            At::Host(process, at) => walk.on_host(process, at),
            At::Gpu(process, place) => walk.on_gpu(process, place),
        };
    }
    Ok(walk.path())
}

/// Whether a call may have waited for a GPU: copies and launches do where a queue is full or memory is pageable.
fn may_block(name: &str, span: (i64, i64)) -> bool {
    span.1.abs_diff(span.0) >= LAUNCH_GAP_NS && (name.contains("Launch") || name.contains("Memcpy"))
}

struct Walk<'a> {
    processes: &'a HashMap<i64, Process>,
    begin: i64,
    /// From the end to the beginning.
    segments: Vec<Segment>,
}

/// Where a path goes on.
enum At {
    Host(i64, i64),
    Gpu(i64, usize),
}

impl Walk<'_> {
    /// Adds what the host did until it had last waited for its GPU.
    fn on_host(&mut self, id: i64, at: i64) -> Option<At> {
        let process = self.processes.get(&id).filter(|_| at > self.begin)?;
        let before = process.waits.partition_point(|wait| wait.0 < at);
        for wait in process.waits[..before].iter().rev() {
            if wait.1 <= self.begin {
                break;
            }
            // What ended during the wait is what ended it.
            let until = wait.1.min(at);
            let Some(place) = process.ended_by(until, wait.0) else { continue };
            self.add_host(id, (until, at));
            self.add((process.work[place].span.1, until), Part::Synchronisation, id);
            return Some(At::Gpu(id, place));
        }
        // Without GPUs, a collective on the host ends when the last rank has come.
        if process.work.is_empty()
            && let Some((other, start)) = self.last_rank(id, at)
        {
            self.add_host(id, (start, at));
            return Some(At::Host(other, start));
        }
        self.add_host(id, (self.begin, at));
        None
    }

    /// Adds work on a GPU, and finds what it waited for.
    fn on_gpu(&mut self, id: i64, place: usize) -> Option<At> {
        let process = self.processes.get(&id)?;
        let work = &process.work[place];
        if work.span.1 <= self.begin {
            return None;
        }
        if work.part == Part::Communication
            && let Some((other, begun)) = self.started_last(id, work.span)
        {
            self.add((begun, work.span.1), work.part, id);
            let its = self.processes.get(&other)?.work.iter().find(|its| its.span.0 == begun);
            return self.before(other, begun, its.map_or(0, |its| its.correlation));
        }
        self.add(work.span, work.part, id);
        self.before(id, work.span.0, work.correlation)
    }

    /// Where the path goes on before work that starts at a time.
    fn before(&mut self, id: i64, start: i64, correlation: i64) -> Option<At> {
        let process = self.processes.get(&id)?;
        let earlier = process.ended_by(start, i64::MIN);
        if process.on_host {
            // One after the other; the host had only now asked for one that the one before did not hold up.
            let queue = earlier.filter(|place| start.abs_diff(process.work[*place].span.1) < QUEUE_GAP_NS);
            let Some(place) = queue else { return Some(At::Host(id, start)) };
            self.add((process.work[place].span.1, start), Part::Communication, id);
            return Some(At::Gpu(id, place));
        }
        let launched = process.calls.get(&correlation).copied().filter(|call| correlation != 0 && *call <= start);
        match (earlier, launched) {
            // The GPU had nothing left when the host began to launch.
            (Some(place), Some(call)) if process.work[place].span.1 < call => {
                self.add((call, start), Part::Launch, id);
                Some(At::Host(id, call))
            }
            (Some(place), _) => {
                self.add((process.work[place].span.1, start), Part::Launch, id);
                Some(At::Gpu(id, place))
            }
            (None, Some(call)) => {
                self.add((call, start), Part::Launch, id);
                Some(At::Host(id, call))
            }
            (None, None) => {
                self.add((self.begin, start), Part::Idle, id);
                None
            }
        }
    }

    /// The rank that began the same collective last, and when, if it is another one: the n-th of each rank in the step.
    fn started_last(&self, id: i64, span: (i64, i64)) -> Option<(i64, i64)> {
        let of = |process: &Process| -> Vec<(i64, i64)> {
            process.collectives.iter().copied().filter(|collective| collective.1 > self.begin).collect()
        };
        let own = of(self.processes.get(&id)?);
        let place = own.iter().position(|known| *known == span)?;
        let ranks: Vec<(i64, Vec<(i64, i64)>)> = (self.processes.iter())
            .map(|(id, process)| (*id, of(process)))
            .filter(|(_, collectives)| !collectives.is_empty())
            .collect();
        if ranks.len() < 2 || ranks.iter().any(|(_, collectives)| collectives.len() != own.len()) {
            return None;
        }
        let (other, begun) = ranks.iter().map(|(id, collectives)| (*id, collectives[place].0)).max_by_key(|of| of.1)?;
        (other != id && begun > span.0 && begun < span.1).then_some((other, begun))
    }

    /// The rank for which the last of the collectives before a time had waited, and until when.
    fn last_rank(&self, id: i64, at: i64) -> Option<(i64, i64)> {
        let ended = self.processes.get(&id)?.collectives.iter().filter(|span| span.1 <= at && span.1 > self.begin);
        ended.filter_map(|span| self.started_last(id, *span)).max_by_key(|of| of.1)
    }

    /// Adds a time of the host, divided among what it did.
    fn add_host(&mut self, id: i64, span: (i64, i64)) {
        let span = (span.0.max(self.begin), span.1);
        let Some(process) = self.processes.get(&id) else { return };
        let mut cuts: Vec<i64> = vec![span.0, span.1];
        let inside = |of: &(i64, i64)| of.0 < span.1 && span.0 < of.1;
        let host: Vec<(Part, (i64, i64))> = process.host.iter().copied().filter(|(_, of)| inside(of)).collect();
        for (_, of) in &host {
            cuts.extend([of.0, of.1].into_iter().filter(|at| span.0 < *at && *at < span.1));
        }
        cuts.sort_unstable();
        cuts.dedup();
        for pair in cuts.windows(2).rev() {
            let here = host.iter().filter(|(_, of)| of.0 <= pair[0] && pair[1] <= of.1);
            let part = here.map(|(part, _)| *part).min().unwrap_or(Part::Step);
            self.add((pair[0], pair[1]), part, id);
        }
    }

    fn add(&mut self, span: (i64, i64), part: Part, process: i64) {
        let span = (span.0.max(self.begin), span.1);
        if span.0 >= span.1 {
            return;
        }
        match self.segments.last_mut() {
            Some(last) if (last.part, last.process) == (part, process) && last.span.0 == span.1 => last.span.0 = span.0,
            _ => self.segments.push(Segment { span, part, process }),
        }
    }

    fn path(mut self) -> CriticalPath {
        self.segments.reverse();
        let mut parts = [0; Part::COUNT];
        for part in Part::iter() {
            let of = self.segments.iter().filter(|segment| segment.part == part);
            parts[part as usize] = of.map(|segment| segment.span.1.abs_diff(segment.span.0)).sum();
        }
        CriticalPath { segments: self.segments, parts }
    }
}
