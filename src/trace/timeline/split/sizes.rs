//! Sizes of collectives on GPUs. Kernels do not record them, but the host does while it launches the collective: a call belongs to the
//! collective during which it was made.
//!
//! NCCL performs the collectives between `ncclGroupStart` and `ncclGroupEnd` together: it launches their kernels during the outermost
//! `ncclGroupEnd`, may join several of them into one kernel, and tells nowhere which ones. If a group has a single kernel, its size is the
//! sum of the collectives' sizes; what a rank receives counts only if the rank sends nothing. If a group has as many kernels as collectives,
//! and all of these are equally large, each kernel has that size. Kernels of other groups have no size.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::TELL_EVENTS;
use super::collectives::NoSize;
use crate::trace::TraceError;
use crate::trace::event::Kind;
use crate::trace::file::LaneKey;
use crate::trace::progress::Watch;
use crate::trace::timeline::{Item, Timeline, TimelineRow};

/// NCCL's names of the ranges that begin and end groups, and of the collective in which a rank only receives.
const GROUP_START: &str = "ncclGroupStart";
const GROUP_ENDS: [&str; 2] = ["ncclGroupEnd", "ncclGroupSimulateEnd"];
const RECEIVE: &str = "ncclRecv";

/// Sizes by process and the correlation of the call that launched the collective's kernel.
pub(super) struct Sizes {
    /// Whether hosts recorded collectives.
    are_recorded: bool,
    by_call: HashMap<(i64, i64), Result<u64, NoSize>>,
}

impl Sizes {
    /// The size in bytes of the collective of a process whose kernel has this correlation.
    pub fn of(&self, process: i64, correlation: i64) -> Result<u64, NoSize> {
        let unknown = if self.are_recorded { NoSize::NoLaunch } else { NoSize::NotRecorded };
        self.by_call.get(&(process, correlation)).copied().unwrap_or(Err(unknown))
    }
}

/// A process and one of its threads.
type Thread = (i64, i64);

/// Start and end of a collective on the host, and its size. Collectives that overlap are one without a size.
type Launch = (i64, i64, Result<u64, NoSize>);

/// A range of NCCL on a thread.
struct Mark {
    span: (i64, i64),
    what: What,
}

enum What {
    Start,
    End,
    Collective(Member),
}

/// A collective of a group.
struct Member {
    bytes: u64,
    is_received: bool,
}

/// Collectives that NCCL launches together.
struct Group {
    /// The outermost `ncclGroupEnd`.
    end: (i64, i64),
    members: Vec<Member>,
    /// The correlations of the calls that launched its kernels.
    kernels: Vec<i64>,
}

impl Group {
    /// The size of each of its kernels.
    fn size(&self) -> Result<u64, NoSize> {
        let Some(first) = self.members.first() else { return Err(NoSize::NoLaunch) };
        let is_sent = self.members.iter().any(|member| !member.is_received);
        let counted = self.members.iter().filter(|member| !(is_sent && member.is_received));
        match self.kernels.len() {
            1 => counted.map(|member| member.bytes).try_fold(0, u64::checked_add).ok_or(NoSize::Group),
            count if count == self.members.len() && self.members.iter().all(|member| member.bytes == first.bytes) => {
                Ok(first.bytes)
            }
            _ => Err(NoSize::Group),
        }
    }
}

/// The size of each collective that a host launched.
///
/// # Errors
///
/// If the file cannot be read or the watch is cancelled.
pub(super) fn sizes(timeline: &Timeline, watch: &mut Watch<'_>) -> Result<Sizes, TraceError> {
    let mut sizes = Sizes { are_recorded: timeline.has_collectives, by_call: HashMap::new() };
    if !timeline.has_gpus || !timeline.has_collectives {
        return Ok(sizes);
    }
    let lanes = timeline.file.lanes().into_iter();
    let threads: HashMap<LaneKey, i64> = lanes.map(|(key, lane, _)| (key, lane.track)).collect();
    let thread = |row: &TimelineRow| (row.process, threads.get(&row.lane).copied().unwrap_or_default());
    let mut launched: BTreeMap<i64, Vec<Launch>> = BTreeMap::new();
    let mut marks: BTreeMap<Thread, Vec<Mark>> = BTreeMap::new();
    for row in rows(timeline, Kind::Collective) {
        let launches = launched.entry(row.process).or_default();
        let marks = marks.entry(thread(row)).or_default();
        each_event(timeline, row, watch, |Item { span, label, bytes, .. }| {
            let Some(bytes) = *bytes else { return };
            launches.push((span.0, span.1, Ok(bytes)));
            let is_received = timeline.name(*label) == RECEIVE;
            marks.push(Mark { span: *span, what: What::Collective(Member { bytes, is_received }) });
        })?;
    }
    launched.values_mut().for_each(join_overlapping);
    let mut groups = groups(timeline, marks, thread, watch)?;
    let kernels = if groups.is_empty() { HashSet::new() } else { kernels(timeline, watch)? };
    for row in rows(timeline, Kind::Call) {
        let launches = launched.get(&row.process).map_or(&[][..], Vec::as_slice);
        let mut groups = groups.get_mut(&thread(row));
        if launches.is_empty() && groups.is_none() {
            continue;
        }
        each_event(timeline, row, watch, |Item { span, correlation, .. }| {
            if *correlation == 0 {
                return;
            }
            let key = (row.process, *correlation);
            let launch = launches[..launches.partition_point(|launch| launch.0 <= span.0)].last();
            if let Some((.., size)) = launch.filter(|launch| span.1 <= launch.1) {
                sizes.by_call.insert(key, *size);
            } else if let Some(groups) = groups.as_mut().filter(|_| kernels.contains(&key)) {
                let begun = groups.partition_point(|group| group.end.0 <= span.0);
                let group = groups[..begun].last_mut().filter(|group| span.1 <= group.end.1);
                group.into_iter().for_each(|group| group.kernels.push(*correlation));
            }
        })?;
    }
    for ((process, _), groups) in groups {
        for group in groups {
            let size = group.size();
            sizes.by_call.extend(group.kernels.iter().map(|correlation| ((process, *correlation), size)));
        }
    }
    Ok(sizes)
}

fn rows(timeline: &Timeline, kind: Kind) -> impl Iterator<Item = &TimelineRow> {
    timeline.rows.iter().filter(move |row| row.kind == kind)
}

/// Passes on the events of a row in order.
fn each_event(
    timeline: &Timeline,
    row: &TimelineRow,
    watch: &mut Watch<'_>,
    mut take: impl FnMut(&Item),
) -> Result<(), TraceError> {
    let (mut read, mut watched) = (0, Ok(()));
    timeline.file.in_order(row.lane, (i64::MIN, i64::MAX), |event| {
        read += 1;
        if read % TELL_EVENTS == 0 {
            watched = watch.look(0);
        }
        if let Some(item) = row.item(event) {
            take(&item);
        }
        watched.is_ok()
    })?;
    watched
}

/// Processes and correlations of the kernels that perform collectives.
fn kernels(timeline: &Timeline, watch: &mut Watch<'_>) -> Result<HashSet<(i64, i64)>, TraceError> {
    let mut kernels = HashSet::new();
    for row in rows(timeline, Kind::Kernel).filter(|row| row.communicates()) {
        each_event(timeline, row, watch, |item| {
            kernels.insert((row.process, item.correlation));
        })?;
    }
    Ok(kernels)
}

/// The groups of each thread, in order. `marks` are the collectives of each thread. A recording that lacks parts may lack members of
/// groups, so it has no groups.
fn groups(
    timeline: &Timeline,
    mut marks: BTreeMap<Thread, Vec<Mark>>,
    thread: impl Fn(&TimelineRow) -> Thread,
    watch: &mut Watch<'_>,
) -> Result<BTreeMap<Thread, Vec<Group>>, TraceError> {
    let (starts, ends) = (timeline.named(GROUP_START), GROUP_ENDS.map(|name| timeline.named(name)).concat());
    let has_groups = |row: &&TimelineRow| row.labels.iter().any(|label| starts.contains(label));
    for row in rows(timeline, Kind::Range).filter(has_groups) {
        let marks = marks.entry(thread(row)).or_default();
        each_event(timeline, row, watch, |Item { span, label, .. }| {
            let is = |labels: &[u32], what: What| labels.contains(label).then_some(Mark { span: *span, what });
            marks.extend(is(&starts, What::Start).or_else(|| is(&ends, What::End)));
        })?;
    }
    if timeline.lacks_parts() {
        return Ok(BTreeMap::new());
    }
    let of_threads = marks.into_iter().map(|(thread, marks)| (thread, of_marks(marks, &timeline.holes)));
    Ok(of_threads.filter(|(_, groups)| !groups.is_empty()).collect())
}

/// The groups of one thread. A group that began or ended while nothing was recorded is left out.
fn of_marks(mut marks: Vec<Mark>, holes: &[(i64, i64)]) -> Vec<Group> {
    marks.sort_by_key(|mark| mark.span);
    let (mut groups, mut members): (Vec<Group>, Vec<Member>) = (Vec::new(), Vec::new());
    let (mut depth, mut window) = (0_u32, 0);
    for Mark { span, what } in marks {
        let own_window = holes.partition_point(|hole| hole.1 <= span.0);
        if own_window != window {
            (depth, window) = (0, own_window);
            members.clear();
        }
        match what {
            What::Start => depth += 1,
            What::Collective(member) if depth > 0 => members.push(member),
            What::End if depth == 1 => {
                depth = 0;
                groups.push(Group { end: span, members: std::mem::take(&mut members), kernels: Vec::new() });
            }
            What::End => depth = depth.saturating_sub(1),
            What::Collective(_) => {}
        }
    }
    groups
}

/// Sorts launches, and makes those that overlap one without a size.
fn join_overlapping(launches: &mut Vec<Launch>) {
    launches.sort_unstable();
    let mut joined: Vec<Launch> = Vec::with_capacity(launches.len());
    for launch in launches.drain(..) {
        match joined.last_mut().filter(|last| launch.0 < last.1) {
            Some(last) => (last.1, last.2) = (last.1.max(launch.1), Err(NoSize::Overlapping)),
            None => joined.push(launch),
        }
    }
    *launches = joined;
}
