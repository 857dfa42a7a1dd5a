//! Memory that was allocated and released through CUDA, by kind and GPU.

use std::collections::BTreeMap;

use super::operation::memory_name;
use crate::trace::TraceError;
use crate::trace::event::{Event, Kind, What};
use crate::trace::live::{Change, Effect, follow};
use crate::trace::progress::Watch;
use crate::trace::source::{Detail, Reading, Source};
use crate::trace::value::Allocations;
use crate::trace::window::Limits;

/// The kind of memory, and the GPU if it belongs to one.
type Place = (Option<i64>, Option<i64>);

#[derive(Clone, Copy, Default)]
struct Tally {
    count: u64,
    bytes: u128,
}

impl Tally {
    fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes += u128::from(bytes);
    }
}

#[derive(Default)]
struct Sum {
    allocated: Tally,
    released: Tally,
    /// Releases of memory whose allocation was not recorded.
    unseen: Tally,
    most: u128,
    last: u128,
}

/// Sums for a window; memory allocated before the window counts as live.
pub(super) fn allocations(
    source: &impl Source,
    watch: &mut Watch<'_>,
    limits: Limits,
) -> Result<Vec<Allocations>, TraceError> {
    let each = |changes: &mut Vec<Change<Place>>, event: &Event<'_>| {
        let gpu = event.what.is_on_gpu().then(|| source.gpu(event.process, event.device));
        if let What::Allocation { memory, .. } = event.what {
            changes.extend(Change::new(event.span.0, event.correlation, event.process, event.what, (memory, gpu))?);
        }
        Ok(())
    };
    // Correlations give the order of events at the same time.
    let reading = Reading { detail: Detail::Whole, ..source.for_sums() };
    let changes = source.scan(Kind::Allocation, reading, watch, each)?.concat();
    let mut sums: BTreeMap<Place, Sum> = BTreeMap::new();
    follow(changes, |effect| sum(&mut sums, &effect, limits));
    let all: Option<Vec<Allocations>> = sums
        .into_iter()
        .filter(|(_, sum)| sum.released.count > 0 || sum.most > 0 || sum.allocated.count > 0)
        .map(row)
        .collect();
    let too_much = || source.damaged(&[Kind::Allocation], "the sum of bytes is beyond 64 bits".to_owned());
    let mut all = all.ok_or_else(too_much)?;
    all.sort_by(|a, b| (b.most_bytes, a.gpu, &a.memory).cmp(&(a.most_bytes, b.gpu, &b.memory)));
    Ok(all)
}

fn sum(sums: &mut BTreeMap<Place, Sum>, effect: &Effect<Place>, limits: Limits) {
    if effect.at >= limits.to {
        return;
    }
    let is_within = limits.holds(effect.at);
    if is_within {
        let sum = sums.entry(effect.place).or_default();
        let tally = if effect.is_release { &mut sum.released } else { &mut sum.allocated };
        tally.add(effect.bytes);
        if effect.is_of_unseen {
            sum.unseen.add(effect.bytes);
        }
    }
    for (place, live) in &effect.live {
        let sum = sums.entry(*place).or_default();
        // The memory that is live at the window's start is a lower bound for the maximum.
        sum.most = if is_within { sum.most.max(*live) } else { *live };
        sum.last = *live;
    }
}

/// `None` if a sum exceeds 64 bits.
fn row(((memory, gpu), sum): (Place, Sum)) -> Option<Allocations> {
    let count_and_bytes = |tally: Tally| Some((tally.count, u64::try_from(tally.bytes).ok()?));
    let [allocated, released, unseen] =
        [count_and_bytes(sum.allocated)?, count_and_bytes(sum.released)?, count_and_bytes(sum.unseen)?];
    Some(Allocations {
        memory: memory_name(memory),
        gpu,
        allocated: allocated.0,
        allocated_bytes: allocated.1,
        released: released.0,
        released_bytes: released.1,
        unseen: unseen.0,
        unseen_bytes: unseen.1,
        most_bytes: u64::try_from(sum.most).ok()?,
        last_bytes: u64::try_from(sum.last).ok()?,
    })
}
