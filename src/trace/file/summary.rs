//! The events of a lane in order of time, and the tiles that sum them up. Tiles are read from the file, or computed from the events if the
//! file has none.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use super::block::{Content, MOST_TILES, encode_tiles};
use super::reader::{Block, EventsFile, name_id};
use super::writer::append_block;
use super::{Lane, Row, what};
use crate::trace::TraceError;
use crate::trace::event::{Kind, What, allocation_number, nameless};
use crate::trace::tile::{SHELVES, Shelves, Tile, Tiler, shelf};

/// A lane, identified by its writer and its id.
pub(in crate::trace) type LaneKey = (u16, u32);

/// An event of a lane, with its shelf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::trace) struct Shelved {
    pub span: (i64, i64),
    pub shelf: u8,
    /// The number of its name, or of the kind of copy, synchronisation or memory.
    pub label: u32,
    pub correlation: i64,
    pub what: What,
}

/// The number that labels an event: copies, synchronisations and allocations have a kind instead of a name.
fn label(what: What, name: u32) -> u32 {
    match what {
        What::Copy { kind, .. } | What::Synchronisation { kind } => u32::try_from(kind).unwrap_or(u32::MAX),
        What::Allocation { memory, operation, .. } => {
            u32::try_from(allocation_number(memory, operation)).unwrap_or(u32::MAX)
        }
        _ => name,
    }
}

/// The next event of an open block: start, end, the index of the block, and the index of the event in it. The earliest is on top.
type Next = Reverse<((i64, Reverse<i64>), usize, usize)>;

impl EventsFile<'_> {
    /// All lanes that have events, with their numbers of events.
    pub fn lanes(&self) -> Vec<(LaneKey, &Lane, u64)> {
        let mut counts: BTreeMap<LaneKey, u64> = BTreeMap::new();
        for block in &self.blocks {
            *counts.entry((block.writer, block.lane)).or_default() += u64::from(block.count);
        }
        counts.into_iter().filter_map(|(key, events)| Some((key, &self.lanes.get(&key)?.lane, events))).collect()
    }

    /// The text of a name, given its number.
    pub fn text(&self, writer: u16, name: u32) -> Option<&str> {
        self.names.get(&name_id(writer, name)).map(|(text, _)| text.as_str())
    }

    /// The texts of a writer's names by number, up to the last known one.
    pub fn texts(&self, writer: u16) -> Vec<String> {
        let first = name_id(writer, 0);
        let writer_ids = self.names.keys().filter(|id| **id >= first && **id <= name_id(writer, u32::MAX));
        // A damaged file may contain arbitrarily large numbers.
        let count = writer_ids.map(|id| id - first + 1).max().unwrap_or(0).min(self.names.len() as i64 * 4 + 16);
        (0..count as u32)
            .map(|number| self.text(writer, number).map_or_else(|| nameless(number.into()), str::to_owned))
            .collect()
    }

    fn communicates(&self, writer: u16, name: u32) -> bool {
        self.text(writer, name).is_some_and(|text| text.starts_with("nccl"))
    }

    /// The blocks of a lane that touch a span, by start.
    fn blocks_of(&self, lane: LaneKey, (from, to): (i64, i64)) -> Vec<&Block> {
        let mut blocks: Vec<&Block> = (self.blocks.iter())
            .filter(|block| (block.writer, block.lane) == lane && block.span.1 >= from && block.span.0 <= to)
            .collect();
        blocks.sort_by_key(|block| block.span.0);
        blocks
    }

    /// Passes on the events in those blocks of a lane that touch a span, in order of start, until `each` stops. Only overlapping blocks are
    /// in memory at the same time.
    pub fn in_order(
        &self,
        lane: LaneKey,
        span: (i64, i64),
        mut each: impl FnMut(&Shelved) -> bool,
    ) -> Result<(), TraceError> {
        let Some(kind) = self.lanes.get(&lane).map(|known| known.lane.kind) else { return Ok(()) };
        let mut communicating: HashMap<u32, bool> = HashMap::new();
        let mut shelves = Shelves::default();
        let mut waiting = self.blocks_of(lane, span).into_iter().peekable();
        let mut open: Vec<Vec<Row>> = Vec::new();
        let mut heap: BinaryHeap<Next> = BinaryHeap::new();
        loop {
            while let Some(block) =
                waiting.next_if(|block| heap.peek().is_none_or(|Reverse(((start, _), ..))| block.span.0 <= *start))
            {
                let mut rows = self.decoded(block, kind)?;
                // Events that contain others come first.
                rows.sort_unstable_by_key(|row| (row.start, Reverse(row.end)));
                if let Some(first) = rows.first() {
                    heap.push(Reverse(((first.start, Reverse(first.end)), open.len(), 0)));
                    open.push(rows);
                }
            }
            let Some(Reverse((_, place, at))) = heap.pop() else { break };
            let row = open[place][at];
            match open[place].get(at + 1) {
                Some(next) => heap.push(Reverse(((next.start, Reverse(next.end)), place, at + 1))),
                None => open[place] = Vec::new(),
            }
            let what = what(kind, row.extras);
            let by_kind = match kind {
                Kind::Kernel => {
                    let name = row.name;
                    shelf(kind, *communicating.entry(name).or_insert_with(|| self.communicates(lane.0, name)))
                }
                _ => shelf(kind, false),
            };
            let span = (row.start, row.end);
            let shelf = by_kind.unwrap_or_else(|| shelves.of(span));
            let label = label(what, row.name);
            if !each(&Shelved { span, shelf, label, correlation: row.correlation, what }) {
                break;
            }
        }
        Ok(())
    }

    /// The finest tiles of a lane for each shelf: those in the file if they cover all of the lane's events.
    pub fn tiles(&self, lane: LaneKey) -> Result<Vec<Vec<Tile>>, TraceError> {
        match self.kept_tiles(lane)? {
            Some(tiles) => Ok(tiles),
            None => self.made_tiles(lane),
        }
    }

    fn kept_tiles(&self, lane: LaneKey) -> Result<Option<Vec<Vec<Tile>>>, TraceError> {
        let mut by_shelf: Vec<Vec<Tile>> = Vec::new();
        let mut events = 0;
        for block in self.tiles.iter().filter(|block| (block.writer, block.lane) == lane) {
            let Some(tiles) = self.decoded_tiles(block)? else { return Ok(None) };
            for (shelf, tile) in tiles {
                put(&mut by_shelf, shelf, tile);
                events += u64::from(tile.events);
            }
        }
        let lane_blocks = self.blocks.iter().filter(|block| (block.writer, block.lane) == lane);
        let all: u64 = lane_blocks.map(|block| u64::from(block.count)).sum();
        let in_order = by_shelf.iter().all(|tiles| tiles.is_sorted_by_key(|tile| tile.start));
        Ok((events == all && in_order).then_some(by_shelf))
    }

    fn made_tiles(&self, lane: LaneKey) -> Result<Vec<Vec<Tile>>, TraceError> {
        let mut by_shelf: Vec<Vec<Tile>> = Vec::new();
        let mut tiler = Tiler::default();
        self.in_order(lane, (i64::MIN, i64::MAX), |event| {
            tiler.push(event.shelf, event.span, event.label, |shelf, tile| put(&mut by_shelf, shelf, tile));
            true
        })?;
        tiler.finish(|shelf, tile| put(&mut by_shelf, shelf, tile));
        Ok(by_shelf)
    }

    /// Appends the tiles of all lanes to the file.
    pub fn keep_tiles(&self) -> Result<(), TraceError> {
        for (lane, ..) in self.lanes() {
            let shelf_tiles: Vec<(u8, Tile)> = (0..SHELVES)
                .zip(self.made_tiles(lane)?)
                .flat_map(|(shelf, tiles)| tiles.into_iter().map(move |tile| (shelf, tile)))
                .collect();
            for part in shelf_tiles.chunks(MOST_TILES) {
                let start = part.iter().map(|(_, tile)| tile.start).min().unwrap_or(0);
                let end = part.iter().map(|(_, tile)| tile.end).max().unwrap_or(0);
                let content = Content::Tiles { lane: lane.1, count: part.len() as u32, start, end };
                append_block(&self.file, lane.0, content, &encode_tiles(part))
                    .map_err(|source| TraceError::Io { file: self.file.clone(), source })?;
            }
        }
        Ok(())
    }
}

fn put(by_shelf: &mut Vec<Vec<Tile>>, shelf: u8, tile: Tile) {
    if by_shelf.len() <= usize::from(shelf) {
        by_shelf.resize(usize::from(shelf) + 1, Vec::new());
    }
    by_shelf[usize::from(shelf)].push(tile);
}
