//! The critical path of a step: the chain of work that its end waited for, traced back to its beginning.
//!
//! The path starts at the end of the step on its rank's thread and goes back in time. It stays on the host until the host had waited for a
//! GPU, and continues there with the work that this GPU finished last. Work on a GPU began when the previous work had ended, or when the
//! host launched it, whichever was later: the path continues there. A collective continues with the rank that began it last. Ranks without
//! GPUs wait for collectives, which one of their threads performs, in the same way as others wait for a GPU. Every nanosecond of the step
//! belongs to one segment.

use std::collections::HashMap;

use strum::{EnumCount, IntoEnumIterator as _};

use super::split::{LAUNCH_GAP_NS, Part, part_of};
use super::{Kind, StepSplit, Timeline, TraceError};

/// If a thread begins a collective less than this number of nanoseconds after another collective, it had waited for that other collective.
const QUEUE_GAP_NS: u64 = 50_000;

/// A segment of a critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Start and end in nanoseconds on the recording's clock.
    pub span: (i64, i64),
    /// The part of a step that was waited for.
    pub part: Part,
    /// The process that was waited for.
    pub process: i64,
}

/// The critical path of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CriticalPath {
    /// Its segments in order of time; neighbours with the same part and process are joined. Together they are as long as the step.
    pub segments: Vec<Segment>,
    /// Nanoseconds by part.
    pub parts: [u64; Part::COUNT],
}

impl CriticalPath {
    /// The name of a part on a path: the host's time outside of calls is its own code.
    pub fn name(part: Part) -> &'static str {
        match part {
            Part::Step | Part::Idle => "host code",
            part => part.name(),
        }
    }
}

/// Work on a GPU, or a collective that a thread performs.
struct Work {
    span: (i64, i64),
    part: Part,
    correlation: i64,
}

/// The activity of a process around a step.
#[derive(Default)]
struct Process {
    /// The work of GPUs, sorted by end.
    work: Vec<Work>,
    /// Starts of calls by correlation.
    calls: HashMap<i64, i64>,
    /// Calls in which the host may have waited for a GPU, or times in which it waited for collectives, by start.
    waits: Vec<(i64, i64)>,
    /// Other activity of the host.
    host: Vec<(Part, (i64, i64))>,
    /// Collectives on GPUs, or on the host, by start.
    collectives: Vec<(i64, i64)>,
    /// Whether its work consists of collectives on the host.
    on_host: bool,
}

impl Process {
    /// The work that had ended last at a given time, unless it ended before `from`.
    fn ended_by(&self, at: i64, from: i64) -> Option<usize> {
        let ended = self.work.partition_point(|work| work.span.1 <= at);
        let place = (0..ended).rev().find(|place| self.work[*place].span.0 < at)?;
        (self.work[place].span.1 >= from).then_some(place)
    }
}

pub(super) fn critical_path(timeline: &Timeline, step: &StepSplit) -> Result<CriticalPath, TraceError> {
    let (begin, end) = step.span;
    // The first kernels may have waited for work of the previous step, and calls are before their work.
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
    // Each iteration goes back in time.
    while let Some(at) = now {
        now = match at {
            At::Host(process, at) => walk.on_host(process, at),
            At::Gpu(process, place) => walk.on_gpu(process, place),
        };
    }
    Ok(walk.path())
}

/// Whether a call may have waited for a GPU: copies and launches do if a queue is full or memory is pageable.
fn may_block(name: &str, span: (i64, i64)) -> bool {
    span.1.abs_diff(span.0) >= LAUNCH_GAP_NS && (name.contains("Launch") || name.contains("Memcpy"))
}

struct Walk<'a> {
    processes: &'a HashMap<i64, Process>,
    begin: i64,
    /// The segments of the path, from the end to the beginning.
    segments: Vec<Segment>,
}

/// Where a path continues.
enum At {
    Host(i64, i64),
    Gpu(i64, usize),
}

impl Walk<'_> {
    /// Adds the host's activity since it last waited for its GPU.
    fn on_host(&mut self, id: i64, at: i64) -> Option<At> {
        let process = self.processes.get(&id).filter(|_| at > self.begin)?;
        let before = process.waits.partition_point(|wait| wait.0 < at);
        for wait in process.waits[..before].iter().rev() {
            if wait.1 <= self.begin {
                break;
            }
            // The work that ended during the wait is what the host waited for.
            let until = wait.1.min(at);
            let Some(place) = process.ended_by(until, wait.0) else { continue };
            self.add_host(id, (until, at));
            self.add((process.work[place].span.1, until), Part::Synchronisation, id);
            return Some(At::Gpu(id, place));
        }
        // Without GPUs, a collective on the host ends when the last rank has arrived.
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

    /// Where the path continues before work that starts at a given time.
    fn before(&mut self, id: i64, start: i64, correlation: i64) -> Option<At> {
        let process = self.processes.get(&id)?;
        let earlier = process.ended_by(start, i64::MIN);
        if process.on_host {
            // The collectives ran one after the other, but the host requested this one only now, so the previous one did not delay it.
            let queue = earlier.filter(|place| start.abs_diff(process.work[*place].span.1) < QUEUE_GAP_NS);
            let Some(place) = queue else { return Some(At::Host(id, start)) };
            self.add((process.work[place].span.1, start), Part::Communication, id);
            return Some(At::Gpu(id, place));
        }
        let launched = process.calls.get(&correlation).copied().filter(|call| correlation != 0 && *call <= start);
        match (earlier, launched) {
            // The GPU had no work left when the host began to launch.
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

    /// The other rank that began the same collective last, and when; the n-th collectives of all ranks in the step belong together. `None`
    /// if this rank was the last.
    fn started_last(&self, id: i64, span: (i64, i64)) -> Option<(i64, i64)> {
        let later_collectives = |process: &Process| -> Vec<(i64, i64)> {
            process.collectives.iter().copied().filter(|collective| collective.1 > self.begin).collect()
        };
        let own = later_collectives(self.processes.get(&id)?);
        let place = own.iter().position(|known| *known == span)?;
        let ranks: Vec<(i64, Vec<(i64, i64)>)> = (self.processes.iter())
            .map(|(id, process)| (*id, later_collectives(process)))
            .filter(|(_, collectives)| !collectives.is_empty())
            .collect();
        if ranks.len() < 2 || ranks.iter().any(|(_, collectives)| collectives.len() != own.len()) {
            return None;
        }
        let (other, begun) =
            ranks.iter().map(|(id, collectives)| (*id, collectives[place].0)).max_by_key(|rank| rank.1)?;
        (other != id && begun > span.0 && begun < span.1).then_some((other, begun))
    }

    /// The rank that the last collective before a given time had waited for, and until when.
    fn last_rank(&self, id: i64, at: i64) -> Option<(i64, i64)> {
        let ended = self.processes.get(&id)?.collectives.iter().filter(|span| span.1 <= at && span.1 > self.begin);
        ended.filter_map(|span| self.started_last(id, *span)).max_by_key(|candidate| candidate.1)
    }

    /// Adds a period of the host, divided among its activities.
    fn add_host(&mut self, id: i64, span: (i64, i64)) {
        let span = (span.0.max(self.begin), span.1);
        let Some(process) = self.processes.get(&id) else { return };
        let mut cuts: Vec<i64> = vec![span.0, span.1];
        let inside = |range: &(i64, i64)| range.0 < span.1 && span.0 < range.1;
        let host: Vec<(Part, (i64, i64))> = process.host.iter().copied().filter(|(_, range)| inside(range)).collect();
        for (_, range) in &host {
            cuts.extend([range.0, range.1].into_iter().filter(|at| span.0 < *at && *at < span.1));
        }
        cuts.sort_unstable();
        cuts.dedup();
        for pair in cuts.windows(2).rev() {
            let here = host.iter().filter(|(_, range)| range.0 <= pair[0] && pair[1] <= range.1);
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
            let part_segments = self.segments.iter().filter(|segment| segment.part == part);
            parts[part as usize] = part_segments.map(|segment| segment.span.1.abs_diff(segment.span.0)).sum();
        }
        CriticalPath { segments: self.segments, parts }
    }
}
