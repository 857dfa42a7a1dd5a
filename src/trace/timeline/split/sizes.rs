//! Sizes of collectives on GPUs. Kernels do not record them, but the host does while it launches the collective.

use std::collections::{BTreeMap, HashMap};

use crate::trace::TraceError;
use crate::trace::event::Kind;
use crate::trace::progress::Watch;
use crate::trace::timeline::Timeline;
use crate::trace::timeline::split::TELL_EVENTS;

/// Sizes in bytes, by process and the correlation of the call that launched the collective's kernel.
pub(super) type Sizes = HashMap<(i64, i64), u64>;

/// The size of each collective that a host launched: a call belongs to the collective during which it was made. If two collectives of a
/// process overlap, neither gets a size. Empty for recordings without collectives of hosts or without GPUs.
///
/// # Errors
///
/// If the file cannot be read or the watch is cancelled.
pub(super) fn sizes(timeline: &Timeline, watch: &mut Watch<'_>) -> Result<Sizes, TraceError> {
    let mut sizes = Sizes::new();
    if !timeline.has_gpus || !timeline.has_collectives {
        return Ok(sizes);
    }
    let rows = |kind: Kind| timeline.rows.iter().filter(move |row| row.kind == kind);
    let mut launched: BTreeMap<i64, Vec<(i64, i64, u64)>> = BTreeMap::new();
    for row in rows(Kind::Collective) {
        let process_launches = launched.entry(row.process).or_default();
        timeline.file.in_order(row.lane, (i64::MIN, i64::MAX), |event| {
            process_launches.extend(row.item(event).and_then(|item| Some((item.span.0, item.span.1, item.bytes?))));
            true
        })?;
    }
    launched.values_mut().for_each(leave_overlapping_out);
    for row in rows(Kind::Call) {
        let Some(launches) = launched.get(&row.process) else { continue };
        let (mut read, mut told) = (0, Ok(()));
        timeline.file.in_order(row.lane, (i64::MIN, i64::MAX), |event| {
            read += 1;
            if read % TELL_EVENTS == 0 {
                told = watch.look(0);
            }
            if let Some(item) = row.item(event)
                && let Some((_, end, bytes)) =
                    launches[..launches.partition_point(|known| known.0 <= item.span.0)].last()
                && item.span.1 <= *end
                && item.correlation != 0
            {
                sizes.insert((row.process, item.correlation), *bytes);
            }
            told.is_ok()
        })?;
        told?;
    }
    Ok(sizes)
}

fn leave_overlapping_out(spans: &mut Vec<(i64, i64, u64)>) {
    spans.sort_unstable();
    let mut until = i64::MIN;
    let mut begins_within = Vec::with_capacity(spans.len() + 1);
    for (start, end, _) in &*spans {
        begins_within.push(*start < until);
        until = until.max(*end);
    }
    begins_within.push(false);
    let mut place = 0;
    spans.retain(|_| {
        place += 1;
        !begins_within[place - 1] && !begins_within[place]
    });
}
