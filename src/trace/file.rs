//! Events files: the events of a run in one compact file, to which several writers may append at the same time.
//!
//! A file is a sequence of blocks. Each block has a header of 64 bytes with its sizes and checksums, and belongs to one writer: a rank, or
//! the conversion of a report. A block of entries contains facts, lanes and names as JSON; a block of events contains up to 4096 events of
//! one lane in columns, sorted by start. Ids of lanes and names are only valid for their writer.
//!
//! If a reader does not know a kind of event, it skips the lanes of that kind and reports that, so new kinds need no new version of the
//! format.
//!
//! A block of tiles sums up all events of a lane, for drawing; if tiles are missing or do not cover the lane, they are computed from its
//! events.
//!
//! A block is appended by a single write. A file that was cut off, or whose writer was killed, is read up to that point; a damaged block is
//! skipped, and the next one is found by its mark. Everything that is skipped is reported.

mod block;
mod keep;
mod reader;
mod summary;
mod writer;

use serde::{Deserialize, Serialize};

pub(super) use keep::keep;
pub(super) use reader::EventsFile;
pub(super) use summary::{LaneKey, Shelved};
pub(super) use writer::EventsWriter;

use super::event::{Event, Kind, Name, What};
use super::source::Head;

/// Version of the format.
pub(super) const VERSION: u8 = 1;

/// The number of values that depend on the kind of event.
const EXTRAS: usize = 6;

/// Stands for an unknown number.
const NONE: i64 = i64::MIN;

/// A row of events that belong together.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Lane {
    pub kind: Kind,
    /// The process.
    pub process: i64,
    /// The GPU's index on the machine; `None` for events on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<i64>,
    /// The stream of a GPU, the thread, or the kind of memory that was allocated (-1 if unknown).
    pub track: i64,
}

/// An entry in a block of entries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Entry {
    /// Facts about the recording, once for each writer.
    Head(Head),
    /// A lane and its id.
    Lane(u32, Lane),
    /// The name of a process.
    Process(i64, String),
    /// A name and its id.
    Name(u32, String),
    /// An id that has no name in the converted report, with the text that replaces it.
    Nameless(u32, String),
    /// The writer finished.
    End,
}

/// An event in a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub start: i64,
    pub end: i64,
    pub name: u32,
    pub correlation: i64,
    pub extras: [i64; EXTRAS],
}

/// The values of an event that depend on its kind, as a row stores them.
pub(super) fn extras(what: What) -> [i64; EXTRAS] {
    let or_none = |value: Option<i64>| value.unwrap_or(NONE);
    match what {
        What::Kernel { graph_node } => [graph_node, 0, 0, 0, 0, 0],
        What::Copy { bytes, kind, src, dst, src_device, dst_device } => {
            [bytes as i64, kind, or_none(src), or_none(dst), or_none(src_device), or_none(dst_device)]
        }
        What::Memset { bytes, memory } => [bytes as i64, or_none(memory), 0, 0, 0, 0],
        What::Graph | What::Call => [0; EXTRAS],
        What::Synchronisation { kind } => [kind, 0, 0, 0, 0, 0],
        What::Allocation { bytes, memory, operation, address } => {
            [bytes as i64, or_none(memory), operation, address, 0, 0]
        }
        What::Range { domain } | What::Domain { domain } => [domain, 0, 0, 0, 0, 0],
        What::Collective { bytes, domain } => [bytes as i64, domain, 0, 0, 0, 0],
    }
}

/// The number of these values that events of a kind use.
fn extras_of(kind: Kind) -> usize {
    match kind {
        Kind::Graph | Kind::Call => 0,
        Kind::Kernel | Kind::Synchronisation | Kind::Range | Kind::Domain => 1,
        Kind::Memset | Kind::Collective => 2,
        Kind::Allocation => 4,
        Kind::Copy => 6,
    }
}

/// The inverse of [`extras`].
fn what(kind: Kind, extras: [i64; EXTRAS]) -> What {
    let known = |value: i64| (value != NONE).then_some(value);
    match kind {
        Kind::Kernel => What::Kernel { graph_node: extras[0] },
        Kind::Copy => What::Copy {
            bytes: extras[0] as u64,
            kind: extras[1],
            src: known(extras[2]),
            dst: known(extras[3]),
            src_device: known(extras[4]),
            dst_device: known(extras[5]),
        },
        Kind::Memset => What::Memset { bytes: extras[0] as u64, memory: known(extras[1]) },
        Kind::Graph => What::Graph,
        Kind::Call => What::Call,
        Kind::Synchronisation => What::Synchronisation { kind: extras[0] },
        Kind::Allocation => What::Allocation {
            bytes: extras[0] as u64,
            memory: known(extras[1]),
            operation: extras[2],
            address: extras[3],
        },
        Kind::Range => What::Range { domain: extras[0] },
        Kind::Collective => What::Collective { bytes: extras[0] as u64, domain: extras[1] },
        Kind::Domain => What::Domain { domain: extras[0] },
    }
}

/// A row as an event; `name` is its id in the file, `order` is the position of its lane.
fn event(lane: &Lane, row: &Row, name: i64, order: i64) -> Event<'static> {
    Event {
        span: (row.start, row.end),
        process: lane.process,
        device: lane.gpu.unwrap_or(0),
        track: lane.track,
        name: Name::Id(name),
        correlation: row.correlation,
        order,
        what: what(lane.kind, row.extras),
    }
}

#[cfg(test)]
#[path = "file/tests.rs"]
mod tests;
