//! Tiles: a tile is a group of consecutive events of a lane that are drawn as one because they are narrower than a pixel.
//!
//! The events of a lane are distributed over shelves, so that events on the same shelf do not overlap: ranges and calls by their nesting,
//! kernels by whether they communicate. The finest tiles contain [`EVENTS`] events of one shelf; [`levels`] joins [`FAN`] of them into one
//! tile of the next level, until few are left. For any time span, there is then a level of which a few tiles cover the span.

use super::event::Kind;

/// Maximum number of events in a finest tile.
pub(super) const EVENTS: u32 = 16;
/// The number of tiles that are joined into one tile of the next level.
const FAN: usize = 4;
/// A level with at most this many tiles needs no coarser one.
const FEW: usize = 256;
/// Maximum number of shelves of a lane; events with deeper nesting share the last one.
pub(super) const SHELVES: u8 = 24;

/// Consecutive events of a shelf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    pub start: i64,
    pub end: i64,
    /// Time in which at least one of them is running.
    pub busy_ns: u64,
    pub events: u32,
    /// The label with the most time: the number of a name, or of a kind of copy or synchronisation.
    pub label: u32,
    /// The time of that label.
    pub label_ns: u64,
}

/// A tile of one shelf that is still being filled.
#[derive(Default)]
struct Filling {
    tile: Option<Tile>,
    /// Time by label; a list, since there are few.
    times: Vec<(u32, u64)>,
}

/// Divides the shelves of a lane into tiles. Events must come in order of start.
#[derive(Default)]
pub(super) struct Tiler(Vec<Filling>);

impl Tiler {
    /// Adds an event. If the shelf's current tile is full, passes it to `full`, with its shelf.
    pub fn push(&mut self, shelf: u8, span: (i64, i64), label: u32, mut full: impl FnMut(u8, Tile)) {
        if self.0.len() <= usize::from(shelf) {
            self.0.resize_with(usize::from(shelf) + 1, Filling::default);
        }
        let filling = &mut self.0[usize::from(shelf)];
        if filling.tile.is_some_and(|tile| tile.events >= EVENTS)
            && let Some(tile) = filling.take()
        {
            full(shelf, tile);
        }
        filling.add(span, label);
    }

    /// Passes on the tiles that are not full.
    pub fn finish(self, mut rest: impl FnMut(u8, Tile)) {
        for (shelf, mut filling) in self.0.into_iter().enumerate() {
            if let Some(tile) = filling.take() {
                rest(shelf as u8, tile);
            }
        }
    }
}

impl Filling {
    fn add(&mut self, (start, end): (i64, i64), label: u32) {
        let length = end.abs_diff(start);
        let tile = self.tile.get_or_insert(Tile { start, end: start, busy_ns: 0, events: 0, label, label_ns: 0 });
        tile.busy_ns += end.max(tile.end).abs_diff(start.max(tile.end));
        tile.end = tile.end.max(end);
        tile.events += 1;
        let time = match self.times.iter_mut().find(|(known, _)| *known == label) {
            Some((_, time)) => {
                *time = time.saturating_add(length);
                *time
            }
            None => {
                self.times.push((label, length));
                length
            }
        };
        if time > tile.label_ns {
            (tile.label, tile.label_ns) = (label, time);
        }
    }

    fn take(&mut self) -> Option<Tile> {
        self.times.clear();
        self.tile.take()
    }
}

/// Finds the lowest free shelf, so that nested events are placed below the events that contain them.
#[derive(Default)]
pub(super) struct Shelves(Vec<i64>);

impl Shelves {
    /// The shelf of the next event in order of start.
    pub fn of(&mut self, (start, end): (i64, i64)) -> u8 {
        // The events that contain it are above: it goes below the deepest one that has not ended.
        let depth = self.0.iter().rposition(|reach| *reach > start).map_or(0, |deepest| deepest + 1);
        let depth = depth.min(usize::from(SHELVES) - 1);
        if depth == self.0.len() {
            self.0.push(end);
        }
        self.0[depth] = self.0[depth].max(end);
        depth as u8
    }
}

/// The shelf of an event if its kind decides it: NCCL's kernels are below the others. `None` if nesting decides it.
pub(super) fn shelf(kind: Kind, communicates: bool) -> Option<u8> {
    match kind {
        Kind::Kernel => Some(communicates.into()),
        Kind::Call | Kind::Range | Kind::Collective | Kind::Domain => None,
        Kind::Copy | Kind::Memset | Kind::Graph | Kind::Synchronisation | Kind::Allocation => Some(0),
    }
}

/// All levels including the finest, which comes first.
pub(super) fn levels(finest: Vec<Tile>) -> Vec<Vec<Tile>> {
    let mut levels = vec![finest];
    while let Some(last) = levels.last().filter(|last| last.len() > FEW) {
        let coarser = last.chunks(FAN).filter_map(|tiles| tiles.iter().copied().reduce(joined)).collect();
        levels.push(coarser);
    }
    levels
}

fn joined(a: Tile, b: Tile) -> Tile {
    let (label, label_ns) = match (a.label == b.label, a.label_ns >= b.label_ns) {
        (true, _) => (a.label, a.label_ns.saturating_add(b.label_ns)),
        (false, true) => (a.label, a.label_ns),
        (false, false) => (b.label, b.label_ns),
    };
    let overlap = a.end.saturating_sub(b.start).max(0).unsigned_abs();
    Tile {
        start: a.start.min(b.start),
        end: a.end.max(b.end),
        busy_ns: a.busy_ns.saturating_add(b.busy_ns.saturating_sub(overlap)),
        events: a.events.saturating_add(b.events),
        label,
        label_ns,
    }
}

/// The tiles that touch a span, from the finest level with no more than `most` of them, and the number of that level.
pub(super) fn within(levels: &[Vec<Tile>], (from, to): (i64, i64), most: usize) -> (&[Tile], usize) {
    let mut found: (&[Tile], usize) = (&[], 0);
    for (number, level) in levels.iter().enumerate() {
        let mut first = level.partition_point(|tile| tile.start < from);
        while first > 0 && level[first - 1].end > from {
            first -= 1;
        }
        let last = level.partition_point(|tile| tile.start < to).max(first);
        found = (&level[first..last], number);
        if found.0.len() <= most {
            break;
        }
    }
    found
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tiles(events: &[(i64, i64)]) -> Vec<Vec<Tile>> {
        let mut by_shelf: Vec<Vec<Tile>> = vec![Vec::new(); usize::from(SHELVES)];
        let (mut tiler, mut shelves) = (Tiler::default(), Shelves::default());
        for (place, span) in events.iter().enumerate() {
            tiler.push(shelves.of(*span), *span, (place % 3) as u32, |shelf, tile| {
                by_shelf[usize::from(shelf)].push(tile);
            });
        }
        tiler.finish(|shelf, tile| by_shelf[usize::from(shelf)].push(tile));
        by_shelf
    }

    #[test]
    fn nested_ranges_lie_below_each_other_and_what_follows_rises_again() {
        let mut shelves = Shelves::default();
        let shelf_of_span = [(0, 100), (0, 40), (5, 10), (40, 90), (50, 60), (100, 120)].map(|span| shelves.of(span));
        assert_eq!(shelf_of_span, [0, 1, 2, 1, 2, 0]);
    }

    #[test]
    fn a_tile_has_the_label_of_most_of_its_time() {
        let merged = tiles(&[(0, 10), (10, 90), (90, 95), (95, 100), (100, 110)]);
        assert_eq!(merged[0], [Tile { start: 0, end: 110, busy_ns: 110, events: 5, label: 1, label_ns: 90 }]);
    }

    proptest! {
        #[test]
        fn no_event_and_no_busy_time_is_lost_at_any_level(
            events in prop::collection::vec((0i64..200, 0i64..40), 1..3000),
        ) {
            // One after the other, as on a stream.
            let mut now = 0;
            let events: Vec<(i64, i64)> = events.into_iter().map(|(pause, length)| {
                let start = now + pause;
                now = start + length;
                (start, now)
            }).collect();
            let busy: u64 = events.iter().map(|(start, end)| end.abs_diff(*start)).sum();
            let levels = levels(tiles(&events).swap_remove(0));
            for level in &levels {
                prop_assert_eq!(level.iter().map(|tile| u64::from(tile.events)).sum::<u64>(), events.len() as u64);
                prop_assert_eq!(level.iter().map(|tile| tile.busy_ns).sum::<u64>(), busy);
                prop_assert!(level.is_sorted_by_key(|tile| tile.start));
            }
            let (all, _) = within(&levels, (0, now + 1), 100);
            prop_assert!(all.len() <= 256 && all.iter().map(|tile| u64::from(tile.events)).sum::<u64>() == events.len() as u64);
            let middle = now / 2;
            let (few, level) = within(&levels, (middle, middle + 50), 1000);
            prop_assert_eq!(level, 0);
            prop_assert!(few.iter().all(|tile| tile.end >= middle && tile.start < middle + 50));
        }
    }
}
