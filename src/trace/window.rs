//! A part of a report's time.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::TraceError;

/// A part of a report, in seconds from its start. An event belongs to the window in which it starts:
/// adjacent windows partition its counts and totals. Busy and idle times are cut at the window's ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Start, inclusive; by default the start of the report.
    pub from_s: Option<f64>,
    /// End, exclusive; by default the end of the report.
    pub to_s: Option<f64>,
}

impl Window {
    /// Whether it covers the whole report.
    pub fn is_whole(&self) -> bool {
        self.from_s.is_none() && self.to_s.is_none()
    }

    /// Its limits on the report's clock; the report begins at `begin_ns`.
    pub(super) fn limits(&self, begin_ns: i64) -> Result<Limits, TraceError> {
        let from_s = self.from_s.unwrap_or(0.0);
        let to_s = self.to_s.unwrap_or(f64::INFINITY);
        if !(from_s >= 0.0 && from_s < to_s) {
            return Err(TraceError::Window { from_s, to_s });
        }
        // The cast saturates: an end beyond the clock's range means the end.
        let at = |seconds: f64| begin_ns.saturating_add((seconds * 1e9).round() as i64);
        Ok(Limits { from: self.from_s.map_or(i64::MIN, at), to: self.to_s.map_or(i64::MAX, at) })
    }
}

/// `from 3 s`, `until 2.5 s`, `from 3 s to 4 s`.
impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.from_s, self.to_s) {
            (Some(from_s), Some(to_s)) => write!(f, "from {from_s} s to {to_s} s"),
            (Some(from_s), None) => write!(f, "from {from_s} s"),
            (None, Some(to_s)) => write!(f, "until {to_s} s"),
            (None, None) => f.write_str("at all"),
        }
    }
}

/// A window on the report's clock: `from` inclusive, `to` exclusive, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub from: i64,
    pub to: i64,
}

impl Limits {
    pub fn holds(self, start: i64) -> bool {
        self.from <= start && start < self.to
    }

    /// Intersection with a time span; `None` if empty.
    pub fn clip(self, (start, end): (i64, i64)) -> Option<(i64, i64)> {
        let clipped = (start.max(self.from), end.min(self.to));
        (clipped.0 < clipped.1).then_some(clipped)
    }
}

/// Sorts spans, and joins spans that overlap or touch.
pub(super) fn unite(spans: &mut Vec<(i64, i64)>) {
    spans.sort_unstable();
    let mut joined: Vec<(i64, i64)> = Vec::with_capacity(spans.len());
    for span in spans.drain(..) {
        match joined.last_mut() {
            Some(last) if last.1 >= span.0 => last.1 = last.1.max(span.1),
            _ => joined.push(span),
        }
    }
    *spans = joined;
}

/// The times between spans, which [`unite`] has sorted. Between windows, nothing was recorded.
pub(super) fn between(spans: &[(i64, i64)]) -> impl Iterator<Item = (i64, i64)> {
    spans.windows(2).map(|pair| (pair[0].1, pair[1].0))
}

/// The parts of a span that are outside of `spans`, which [`unite`] has sorted.
pub(super) fn outside(spans: &[(i64, i64)], (from, to): (i64, i64)) -> Vec<(i64, i64)> {
    let mut outside = Vec::with_capacity(spans.len() + 1);
    let mut at = from;
    for (start, end) in spans.iter().chain([&(to, to)]) {
        outside.extend((at < *start).then_some((at, (*start).min(to))));
        at = at.max(*end);
    }
    outside.retain(|(start, end)| start < end);
    outside
}

/// The total length of spans, in nanoseconds.
pub(super) fn length_ns(spans: &[(i64, i64)]) -> u64 {
    spans.iter().fold(0, |sum: u64, (start, end)| sum.saturating_add(end.abs_diff(*start)))
}

/// The note on a recording in several windows; `None` for one window.
pub(super) fn in_windows(windows: &[(i64, i64)]) -> Option<String> {
    let ([(begin, _), .., (_, end)], seconds) = (windows, |ns: u64| ns as f64 / 1e9) else { return None };
    Some(format!(
        "recorded in {} windows: sums are of the {:.3} s in them, not of all {:.3} s; for memory, only changes within windows were recorded",
        windows.len(),
        seconds(length_ns(windows)),
        seconds(end.abs_diff(*begin))
    ))
}

/// The smallest span that contains two time spans.
pub(super) fn union(a: Option<(i64, i64)>, b: Option<(i64, i64)>) -> Option<(i64, i64)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    }
}
