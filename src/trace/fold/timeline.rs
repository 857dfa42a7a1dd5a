//! Busy and idle time of one GPU. Intervals may come in any order; they are compressed to a few bytes each and swept once in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// Intervals sorted at a time.
const RUN: usize = 1 << 15;

/// The kind of work in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Work {
    /// Kernels, memsets and copies within a GPU.
    Compute = 0,
    /// NCCL's kernels and copies between GPUs.
    Communication = 1,
    /// Copies from the host: a gap before one is a wait for data.
    HostToDevice = 2,
    /// Other copies to and from the host.
    Copy = 3,
}

impl Work {
    fn from_bits(bits: u64) -> Self {
        match bits & 3 {
            0 => Self::Compute,
            1 => Self::Communication,
            2 => Self::HostToDevice,
            _ => Self::Copy,
        }
    }
}

/// Start, end, and kind of work.
type Interval = (i64, i64, Work);

/// The intervals of one GPU.
#[derive(Default)]
pub(super) struct Timeline {
    pending: Vec<Interval>,
    /// Sorted by start; each interval as two varints: distance from the previous start, and length with kind.
    runs: Vec<Vec<u8>>,
}

/// Result of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sweep {
    /// Length of the union of all intervals.
    pub busy_ns: u64,
    /// Length of the union of communication.
    pub comm_ns: u64,
    /// Length of the union of all other work.
    pub other_ns: u64,
}

impl Sweep {
    /// Time in which communication and something else ran: |A ∩ B| = |A| + |B| − |A ∪ B|.
    pub fn overlap_ns(&self) -> u64 {
        (self.comm_ns + self.other_ns).saturating_sub(self.busy_ns)
    }
}

/// A pause between two intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pause {
    pub start: i64,
    pub end: i64,
    /// The work that ended it; `None` at the end of the range.
    pub next: Option<Work>,
}

impl Pause {
    /// Whether it covers the whole span.
    pub fn holds(&self, span: (i64, i64)) -> bool {
        self.start <= span.0 && span.1 <= self.end
    }

    /// Whether it covers any of these spans as a whole. The spans are in order and do not overlap.
    pub fn holds_any(&self, spans: &[(i64, i64)]) -> bool {
        spans.get(spans.partition_point(|span| span.0 < self.start)).is_some_and(|span| self.holds(*span))
    }

    /// The parts of it that are outside of these spans. The spans are in order and do not overlap.
    pub fn without(self, spans: &[(i64, i64)]) -> Vec<Self> {
        let mut left = Vec::new();
        let mut at = self.start;
        let first = spans.partition_point(|span| span.1 <= self.start);
        for span in spans[first..].iter().take_while(|span| span.0 < self.end) {
            left.push(Self { start: at, end: span.0.max(at), next: None });
            at = at.max(span.1);
        }
        left.push(Self { start: at, ..self });
        left.retain(|pause| pause.start < pause.end);
        left
    }
}

impl Timeline {
    /// Adds an interval; empty ones are ignored.
    pub fn push(&mut self, (start, end): (i64, i64), work: Work) {
        if start < end {
            self.pending.push((start, end, work));
            if self.pending.len() >= RUN {
                self.settle();
            }
        }
    }

    /// Adds all intervals of another timeline.
    pub fn merge(&mut self, mut other: Self) {
        other.pending.into_iter().for_each(|(start, end, work)| self.push((start, end), work));
        self.runs.append(&mut other.runs);
    }

    fn settle(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        self.pending.sort_unstable();
        let mut run = Vec::with_capacity(self.pending.len() * 6);
        let mut before = 0;
        for &(start, end, work) in &self.pending {
            let biased = bias(start);
            write(&mut run, u128::from(biased.wrapping_sub(before)));
            write(&mut run, u128::from(end.abs_diff(start)) << 2 | work as u128);
            before = biased;
        }
        run.shrink_to_fit();
        self.runs.push(run);
        self.pending.clear();
    }

    /// Visits all intervals within `from..to` in order of time and reports each gap, including the first and the last.
    pub fn sweep(mut self, from: i64, to: i64, mut pause: impl FnMut(Pause)) -> Sweep {
        self.settle();
        self.pending = Vec::new();
        let mut readers: Vec<Reader<'_>> = self.runs.iter().map(|run| Reader { bytes: run, before: 0 }).collect();
        let mut heap: BinaryHeap<Reverse<(Interval, usize)>> = readers
            .iter_mut()
            .enumerate()
            .filter_map(|(index, reader)| reader.next().map(|interval| Reverse((interval, index))))
            .collect();
        let mut found = Sweep::default();
        // End of each union so far.
        let (mut all, mut comm, mut other) = (from, from, from);
        while let Some(mut top) = heap.peek_mut() {
            let ((start, end, work), index) = top.0;
            match readers[index].next() {
                Some(next) => top.0 = (next, index),
                None => drop(PeekMut::pop(top)),
            }
            let (start, end) = (start.max(from), end.min(to));
            if start >= end {
                continue;
            }
            if start > all {
                pause(Pause { start: all, end: start, next: Some(work) });
            }
            found.busy_ns += extend(&mut all, start, end);
            if work == Work::Communication {
                found.comm_ns += extend(&mut comm, start, end);
            } else {
                found.other_ns += extend(&mut other, start, end);
            }
        }
        if all < to {
            pause(Pause { start: all, end: to, next: None });
        }
        found
    }
}

/// Extends a union that ends at `reach` by an interval that starts no earlier than the previous ones; returns the added length.
fn extend(reach: &mut i64, start: i64, end: i64) -> u64 {
    let fresh = start.max(*reach);
    *reach = end.max(*reach);
    u64::try_from(end - fresh).unwrap_or(0)
}

/// Maps times to unsigned numbers of the same order.
fn bias(time: i64) -> u64 {
    (time as u64) ^ (1 << 63)
}

/// Seven bits per byte, the lowest first.
fn write(bytes: &mut Vec<u8>, mut value: u128) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

struct Reader<'a> {
    bytes: &'a [u8],
    before: u64,
}

impl Reader<'_> {
    fn number(&mut self) -> Option<u128> {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (&byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            value |= u128::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        Some(value)
    }

    fn next(&mut self) -> Option<Interval> {
        let step = self.number()?;
        let length = self.number()?;
        self.before = self.before.wrapping_add(step as u64);
        let start = (self.before ^ (1 << 63)) as i64;
        Some((start, start.saturating_add((length >> 2) as i64), Work::from_bits(length as u64)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn work(bits: u64) -> Work {
        Work::from_bits(bits)
    }

    /// Reference result by marking every nanosecond.
    fn marked(intervals: &[(i64, i64, Work)], from: i64, to: i64) -> (Sweep, u64) {
        let mut found = Sweep::default();
        let mut both = 0;
        for time in from..to {
            let here = |wanted: bool| {
                intervals
                    .iter()
                    .any(|&(start, end, work)| start <= time && time < end && (work == Work::Communication) == wanted)
            };
            let (comm, other) = (here(true), here(false));
            found.busy_ns += u64::from(comm || other);
            found.comm_ns += u64::from(comm);
            found.other_ns += u64::from(other);
            both += u64::from(comm && other);
        }
        (found, both)
    }

    proptest! {
        #[test]
        fn unions_and_overlap_are_those_of_marked_nanoseconds(
            intervals in prop::collection::vec((-80i64..80, 0i64..40, 0u64..4), 0..40),
            from in -100i64..100,
            length in 1i64..150,
            settle_after in 0usize..40,
        ) {
            let mut timeline = Timeline::default();
            let mut all = Vec::new();
            for (index, (start, length, bits)) in intervals.into_iter().enumerate() {
                timeline.push((start, start + length), work(bits));
                all.push((start, start + length, work(bits)));
                if index == settle_after {
                    timeline.settle();
                }
            }
            let to = from + length;
            let mut idle = 0;
            let mut last = from;
            let found = timeline.sweep(from, to, |pause| {
                assert!(pause.start >= last && pause.start < pause.end);
                last = pause.end;
                idle += pause.end.abs_diff(pause.start);
            });
            let (expected, both) = marked(&all, from, to);
            prop_assert_eq!(found, expected);
            prop_assert_eq!(found.overlap_ns(), both);
            prop_assert_eq!(idle + found.busy_ns, length as u64);
        }
    }

    #[test]
    fn times_at_the_ends_of_the_clock_survive_packing() {
        let mut timeline = Timeline::default();
        let far = i64::MAX / 2;
        timeline.push((-far, -far + 5), Work::Compute);
        timeline.push((far - 7, far), Work::Communication);
        let found = timeline.sweep(-far, far, |_| {});
        assert_eq!((found.busy_ns, found.comm_ns, found.other_ns), (12, 7, 5));
    }
}
