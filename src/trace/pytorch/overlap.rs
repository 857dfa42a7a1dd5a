//! Events that overlap although they should not: events of one stream, and events of one thread that do not lie within each other.

use std::collections::HashMap;

use crate::trace::event::Kind;
use crate::trace::file::Lane;

/// Watches events in the order of the file. An event that begins before its predecessor is not judged.
#[derive(Default)]
pub(super) struct Overlaps {
    /// For each lane the start of its last event, and the ends of those that contain it.
    lanes: HashMap<Lane, (i64, Vec<i64>)>,
    count: u64,
    first: Option<i64>,
}

impl Overlaps {
    pub fn see(&mut self, lane: &Lane, (start, end): (i64, i64)) {
        let is_judged = lane.gpu.is_some() || matches!(lane.kind, Kind::Range | Kind::Call);
        // An event without a duration is a mark.
        if !is_judged || start == end {
            return;
        }
        let (last_start, ends) = match self.lanes.get_mut(lane) {
            Some(known) => known,
            None => self.lanes.entry(lane.clone()).or_insert((i64::MIN, Vec::new())),
        };
        if start < *last_start {
            return;
        }
        *last_start = start;
        while ends.last().is_some_and(|end| *end <= start) {
            ends.pop();
        }
        let overlaps = ends.last().is_some_and(|outer| lane.gpu.is_some() || *outer < end);
        if overlaps {
            self.count += 1;
            self.first.get_or_insert(start);
        }
        ends.push(end);
    }

    /// The note on overlapping events, given the recording's start.
    pub fn note(&self, begin: i64) -> Option<String> {
        let first_s = self.first?.saturating_sub(begin) as f64 * 1e-9;
        let (events, at) = match self.count {
            1 => ("1 event overlaps others of its stream, or of its thread".to_owned(), "at"),
            count => (format!("{count} events overlap others of their stream, or of their thread"), "the first at"),
        };
        Some(format!(
            "{events} without lying within them, {at} {first_s:.6} s: sums count each in full, busy time counts them once"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_a_stream_may_not_overlap_and_those_of_a_thread_may_only_be_nested() {
        let mut overlaps = Overlaps::default();
        let thread = |kind| Lane { kind, process: 1, gpu: None, track: 7 };
        let stream = Lane { gpu: Some(0), ..thread(Kind::Kernel) };
        for span in [(0, 100), (0, 50), (10, 20), (20, 50), (60, 100), (5, 5), (100, 110)] {
            overlaps.see(&thread(Kind::Range), span);
            overlaps.see(&thread(Kind::Collective), (0, 10));
        }
        for span in [(0, 10), (10, 20), (30, 40), (20, 35)] {
            overlaps.see(&stream, span);
        }
        assert_eq!(overlaps.note(0), None);
        overlaps.see(&thread(Kind::Range), (105, 120));
        overlaps.see(&stream, (2_000_000, 2_000_010));
        overlaps.see(&stream, (2_000_009, 2_000_020));
        let note = overlaps.note(0).unwrap_or_default();
        assert!(note.starts_with("2 events overlap") && note.contains("the first at 0.000000 s"), "{note}");
    }
}
