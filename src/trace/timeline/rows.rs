//! The rows of a timeline: the activity of each stream and thread, by kind, with the labels of its events and their classes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use strum::{EnumIter, IntoStaticStr};

use super::Item;
use super::steps::Steps;
use crate::trace::event::{ALLOCATED, Kind, What, of_allocation_number, printed};
use crate::trace::file::{EventsFile, Lane, LaneKey, Shelved};
use crate::trace::fold::{copy_label, family_name, is_load, memory_name, synchronisation_name};
use crate::trace::tile::{self, Tile};

/// The range in which a rank waits for others.
const WAIT: &str = "wait for ranks";
/// The number of kinds of copy, synchronisation and memory that CUPTI may use.
const COPIES: i64 = 32;

/// The purpose of an event, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EnumIter, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Class {
    /// Kernels of convolutions.
    Convolution,
    /// Kernels of matrix products.
    Matrix,
    /// Kernels of attention.
    Attention,
    /// Kernels of normalisations.
    Normalisation,
    /// Elementwise kernels.
    Elementwise,
    /// Kernels of optimizers.
    Optimizer,
    /// Copies, memsets and kernels that only move data.
    Copy,
    /// Collectives.
    Communication,
    /// Other kernels.
    Other,
    /// Calls of CUDA.
    Call,
    /// Waits of the host for a GPU.
    Wait,
    /// Waits for data.
    Load,
    /// Named ranges.
    Range,
    /// Memory that is allocated or released.
    Memory,
}

impl Class {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Copy => "data movement",
            Self::Call => "CUDA call",
            Self::Wait => "synchronisation",
            Self::Load => "waiting for data",
            Self::Range => "range",
            other => other.into(),
        }
    }

    fn of(kind: Kind, text: &str) -> Self {
        match kind {
            Kind::Kernel => match family_name(text).as_str() {
                "convolution" => Self::Convolution,
                "matrix" => Self::Matrix,
                "attention" => Self::Attention,
                "normalisation" => Self::Normalisation,
                "elementwise" => Self::Elementwise,
                "optimizer" => Self::Optimizer,
                "copy" => Self::Copy,
                family if family.starts_with("nccl") => Self::Communication,
                _ => Self::Other,
            },
            Kind::Copy | Kind::Memset => Self::Copy,
            Kind::Graph => Self::Other,
            Kind::Synchronisation => Self::Wait,
            Kind::Allocation => Self::Memory,
            Kind::Call if text.contains("Synchronize") => Self::Wait,
            Kind::Call => Self::Call,
            Kind::Collective => Self::Communication,
            Kind::Range if text == WAIT => Self::Wait,
            Kind::Range | Kind::Domain if is_load(text) => Self::Load,
            Kind::Range | Kind::Domain if text.starts_with("all_reduce") || text.starts_with("nccl") => {
                Self::Communication
            }
            Kind::Range | Kind::Domain => Self::Range,
        }
    }
}

/// A name with its class.
pub(super) struct Label {
    pub text: String,
    pub class: Class,
}

/// One of the parallel tracks of a row, on which events do not overlap. Its tiles summarise events at several levels of detail.
pub struct Shelf {
    number: u8,
    /// The tiles of each level, the finest level first.
    pub(super) levels: Vec<Vec<Tile>>,
}

/// A row of the timeline: the events of one kind on one stream or thread.
pub struct TimelineRow {
    /// The row's name, such as `kernels · stream 7`.
    pub name: String,
    /// The name of its rank or process.
    pub group: String,
    /// Its shelves; events on the same shelf do not overlap.
    pub shelves: Vec<Shelf>,
    /// Number of events.
    pub events: u64,
    pub(super) process: i64,
    pub(super) kind: Kind,
    pub(super) lane: LaneKey,
    /// Labels by number.
    pub(super) labels: Arc<Vec<u32>>,
    /// For rows of memory: the live part of the memory allocated since the recording began, in bytes.
    pub(super) live: Option<Steps>,
}

impl TimelineRow {
    /// Whether its events are work of a GPU, with sizes and kinds.
    pub fn is_on_gpu(&self) -> bool {
        matches!(self.kind, Kind::Kernel | Kind::Copy | Kind::Memset | Kind::Graph)
    }

    /// Whether its events are kernels that perform collectives.
    pub(super) fn communicates(&self) -> bool {
        self.kind == Kind::Kernel && self.name.starts_with(NCCL)
    }

    /// For rows of memory: the live part of the memory allocated since the recording began, in bytes; `None` for other rows.
    pub fn live(&self) -> Option<&Steps> {
        self.live.as_ref()
    }

    /// An event as an item of this row; `None` if it is on a shelf of another row.
    pub(super) fn item(&self, event: &Shelved) -> Option<Item> {
        let shelf = self.shelves.iter().position(|shelf| shelf.number == event.shelf)? as u8;
        let bytes = match event.what {
            What::Copy { bytes, .. }
            | What::Memset { bytes, .. }
            | What::Allocation { bytes, .. }
            | What::Collective { bytes, .. } => Some(bytes),
            _ => None,
        };
        Some(Item {
            span: event.span,
            busy_ns: event.span.1.abs_diff(event.span.0),
            events: 1,
            label: self.labels.get(event.label as usize).copied().unwrap_or(u32::MAX),
            shelf,
            bytes,
            correlation: event.correlation,
        })
    }
}

#[derive(Default)]
pub(super) struct Labels {
    pub all: Vec<Label>,
    known: HashMap<(Kind, String), u32>,
    /// For each kind and writer, the labels of its numbers.
    numbered: HashMap<(Kind, u16), Arc<Vec<u32>>>,
}

impl Labels {
    fn of(&mut self, kind: Kind, text: String) -> u32 {
        let class = Class::of(kind, &text);
        *self.known.entry((kind, text.clone())).or_insert_with(|| {
            self.all.push(Label { text, class });
            self.all.len() as u32 - 1
        })
    }

    /// The labels of all numbers that events of a kind may have.
    fn numbered(&mut self, file: &EventsFile<'_>, kind: Kind, writer: u16) -> Arc<Vec<u32>> {
        if let Some(known) = self.numbered.get(&(kind, writer)) {
            return Arc::clone(known);
        }
        let texts: Vec<String> = match kind {
            Kind::Copy => (0..COPIES).map(copy_label).collect(),
            Kind::Memset => vec!["[CUDA memset]".to_owned()],
            Kind::Graph => vec!["CUDA graph".to_owned()],
            Kind::Synchronisation => (0..COPIES).map(|kind| format!("wait: {}", synchronisation_name(kind))).collect(),
            Kind::Allocation => (0..COPIES).map(allocation_label).collect(),
            Kind::Call => file.texts(writer).into_iter().map(|text| printed(&text).to_owned()).collect(),
            Kind::Kernel | Kind::Range | Kind::Collective | Kind::Domain => file.texts(writer),
        };
        let all = Arc::new(texts.into_iter().map(|text| self.of(kind, text)).collect::<Vec<u32>>());
        self.numbered.insert((kind, writer), Arc::clone(&all));
        all
    }
}

/// The label for an allocation or a release, given its number.
fn allocation_label(number: i64) -> String {
    let (memory, operation) = of_allocation_number(number);
    let done = if operation == ALLOCATED { "allocated" } else { "released" };
    format!("{} memory {done}", memory_name(memory).replace('_', " "))
}

/// The name of the row for NCCL's kernels.
const NCCL: &str = "NCCL";
/// The name of the row for a GPU's own memory.
const MEMORY: &str = "CUDA memory";

/// The name of the row for a kind of memory. It differs from the row of NVML, which covers the whole GPU.
fn memory_row(kind: i64) -> String {
    match memory_name((kind >= 0).then_some(kind)).as_str() {
        "device" => MEMORY.to_owned(),
        name => format!("{} memory", name.replace('_', " ")),
    }
}

/// The rows of a lane: one row; for kernels one row for those that compute and one for those that communicate.
pub(super) fn rows_of(
    file: &EventsFile<'_>,
    key: LaneKey,
    lane: &Lane,
    tiles: Vec<Vec<Tile>>,
    labels: &mut Labels,
) -> Vec<TimelineRow> {
    let kind = lane.kind;
    let known = labels.numbered(file, kind, key.0);
    let place = match lane.track {
        _ if kind == Kind::Allocation => String::new(),
        // Calls that wait for a device have no stream.
        track if kind == Kind::Synchronisation && track >= i64::from(u32::MAX) => "all streams".to_owned(),
        track if lane.gpu.is_some() || kind == Kind::Synchronisation => format!("stream {track}"),
        track => format!("thread {track}"),
    };
    let named = |name: &str| if place.is_empty() { name.to_owned() } else { format!("{name} · {place}") };
    let memory = memory_row(lane.track);
    type Shelved = Vec<(u8, Vec<Tile>)>;
    let mut names: Vec<(&str, Shelved)> = Vec::new();
    for (shelf, tiles) in (0..).zip(tiles).filter(|(_, tiles): &(u8, Vec<Tile>)| !tiles.is_empty()) {
        let name = match kind {
            Kind::Kernel if shelf == 1 => NCCL,
            Kind::Kernel => "kernels",
            Kind::Copy => "copies",
            Kind::Memset => "memsets",
            Kind::Graph => "graphs",
            Kind::Call => "CUDA calls",
            Kind::Synchronisation => "synchronisation",
            Kind::Allocation => &memory,
            Kind::Range | Kind::Domain => "ranges",
            Kind::Collective => "collectives",
        };
        match names.iter_mut().find(|(known, _)| *known == name) {
            Some((_, shelves)) => shelves.push((shelf, tiles)),
            None => names.push((name, vec![(shelf, tiles)])),
        }
    }
    let rows = names.into_iter().map(|(name, shelves)| {
        let events = shelves.iter().flat_map(|(_, tiles)| tiles).map(|tile| u64::from(tile.events)).sum();
        let shelves = shelves.into_iter();
        let shelves = shelves.map(|(number, tiles)| Shelf { number, levels: tile::levels(tiles) }).collect();
        let (name, process) = (named(name), lane.process);
        TimelineRow {
            name,
            group: String::new(),
            shelves,
            events,
            process,
            kind,
            lane: key,
            labels: Arc::clone(&known),
            live: None,
        }
    });
    rows.collect()
}

/// Names the groups of rows and sorts the rows: ranks by their GPU, the work on GPUs above the host's.
pub(super) fn name_groups(rows: &mut [TimelineRow], lanes: &[(LaneKey, Lane, u64)], name: impl Fn(i64) -> String) {
    let mut gpus: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for (_, lane, _) in lanes {
        let process_gpus = gpus.entry(lane.process).or_default();
        process_gpus.extend(lane.gpu.filter(|gpu| !process_gpus.contains(gpu)));
        process_gpus.sort_unstable();
    }
    rows.sort_by_key(|row| {
        let first = gpus.get(&row.process).and_then(|gpus| gpus.first()).copied().unwrap_or(i64::MAX);
        let kind = match row.kind {
            Kind::Range => 0,
            Kind::Collective => 1,
            Kind::Kernel => 2,
            Kind::Graph => 3,
            Kind::Copy => 4,
            Kind::Memset => 5,
            Kind::Allocation => 6,
            Kind::Call => 7,
            Kind::Synchronisation => 8,
            Kind::Domain => 9,
        };
        // Kernels above NCCL's, memory of GPUs above the host's.
        let is_below = row.communicates() || row.kind == Kind::Allocation && row.name != MEMORY;
        (first, row.lane.0, row.process, kind, is_below, row.lane.1)
    });
    for row in rows {
        let process_gpus = gpus.get(&row.process).map_or(&[][..], Vec::as_slice);
        let gpus: String = process_gpus.iter().map(|gpu| format!(" · GPU {gpu}")).collect();
        row.group = format!("{}{gpus}", name(row.process));
        let lane = lanes.iter().find(|(key, ..)| *key == row.lane).filter(|_| row.kind == Kind::Allocation);
        if let Some(gpu) = lane.and_then(|(_, lane, _)| lane.gpu).filter(|_| process_gpus.len() > 1) {
            row.name += &format!(" · GPU {gpu}");
        }
    }
}
