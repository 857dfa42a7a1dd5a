//! Reads events files: first the headers of their blocks, later the rows that are requested.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use super::block::{Content, HEADER_BYTES, Header, MARK, NoHeader, checksum, decode, decode_tiles};
use super::{Entry, Lane, Row, VERSION, event};
use crate::plan::counted;
use crate::trace::TraceError;
use crate::trace::event::{Event, Kind, nameless};
use crate::trace::progress::Watch;
use crate::trace::source::parts::in_parts;
use crate::trace::source::{Head, Names, Reading, Source, Storage};
use crate::trace::tile::Tile;
use crate::trace::window::{union, unite};

/// Maximum number of threads.
const MOST_THREADS: usize = 16;
/// Bytes that are read at a time in the search for the next block.
const STRIDE: usize = 1 << 16;
/// The most losses that are reported one by one.
const MOST_LOSSES: usize = 5;

/// A block of rows.
pub(super) struct Block {
    /// The position of its content in the file.
    offset: u64,
    pub writer: u16,
    pub lane: u32,
    pub count: u32,
    pub span: (i64, i64),
    bytes: u32,
    checksum: u32,
}

pub(super) struct KnownLane {
    pub lane: Lane,
    /// The smallest id among the lanes of its kind, process and GPU, which determines its position among ranks.
    order: i64,
}

/// An open events file.
pub(in crate::trace) struct EventsFile<'a> {
    pub(super) file: PathBuf,
    storage: Storage<'a>,
    size: u64,
    head: Head,
    /// Writers, with the process whose raw file they appended.
    writers: BTreeMap<u16, Option<i64>>,
    pub(super) blocks: Vec<Block>,
    /// Blocks of tiles, in the order of the file.
    pub(super) tiles: Vec<Block>,
    pub(super) lanes: HashMap<(u16, u32), KnownLane>,
    processes: HashMap<i64, String>,
    /// Texts of names, and whether they replace missing names.
    pub(super) names: HashMap<i64, (String, bool)>,
    /// The damaged parts that were skipped, by position, so that a part that is read twice is reported once.
    losses: Mutex<BTreeMap<u64, String>>,
}

/// An id that is unique among the names of all writers.
pub(super) fn name_id(writer: u16, name: u32) -> i64 {
    i64::from(writer) << 32 | i64::from(name)
}

impl<'a> EventsFile<'a> {
    /// Whether a file is an events file, judged by its first bytes.
    pub fn is_one(file: &Path) -> io::Result<bool> {
        let mut head = Vec::new();
        File::open(file)?.take(MARK.len() as u64).read_to_end(&mut head)?;
        Ok(Self::are(&head))
    }

    /// Whether bytes start like an events file.
    pub fn are(bytes: &[u8]) -> bool {
        bytes.starts_with(&MARK)
    }

    /// Opens a file and reads its headers and entries.
    pub fn open(file: &Path) -> Result<Self, TraceError> {
        let io = |source| TraceError::Io { file: file.to_owned(), source };
        let opened = File::open(file).map_err(io)?;
        let size = opened.metadata().map_err(io)?.len();
        Self::with(file, Storage::File(opened), size)
    }

    /// Opens a file in memory; `file` is its name in messages.
    pub fn from_bytes(file: &Path, bytes: &'a [u8]) -> Result<Self, TraceError> {
        Self::with(file, Storage::Bytes(bytes), bytes.len() as u64)
    }

    fn with(file: &Path, storage: Storage<'a>, size: u64) -> Result<Self, TraceError> {
        let mut new = Self {
            file: file.to_owned(),
            storage,
            size,
            head: Head::default(),
            writers: BTreeMap::new(),
            blocks: Vec::new(),
            tiles: Vec::new(),
            lanes: HashMap::new(),
            processes: HashMap::new(),
            names: HashMap::new(),
            losses: Mutex::default(),
        };
        new.index()?;
        Ok(new)
    }

    /// The processes whose raw files were appended.
    pub fn raw_processes(&self) -> BTreeSet<i64> {
        self.writers.values().flatten().copied().collect()
    }

    /// The smallest number that no writer has.
    pub fn next_writer(&self) -> u16 {
        let of_blocks = self.blocks.iter().map(|block| block.writer);
        self.writers.keys().copied().chain(of_blocks).max().map_or(0, |last| last.saturating_add(1))
    }

    fn io(&self, source: io::Error) -> TraceError {
        TraceError::Io { file: self.file.clone(), source }
    }

    fn lost(&self, at: u64, what: String) {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner).insert(at, what);
    }

    /// Reads a part of the file.
    fn read(&self, at: u64, length: usize) -> Result<Vec<u8>, TraceError> {
        let mut bytes = Vec::new();
        self.storage.bytes(at, length, &mut bytes).map(<[u8]>::to_vec).map_err(|error| self.io(error))
    }

    /// Finds all blocks and reads the blocks of entries.
    fn index(&mut self) -> Result<(), TraceError> {
        let mut entries: Vec<(u16, Entry)> = Vec::new();
        let mut later = None;
        let mut at = 0;
        // The position of the previous block's content, and whether that block is valid.
        let mut before: Option<Block> = None;
        // Contents that are read again to find out whether a block is valid. Unless a file is malicious, this happens once at most.
        let mut checked = 0;
        while at < self.size {
            let header = match self.header(at)? {
                Ok(header) => header,
                Err(error) => {
                    if let NoHeader::Version(version) = error {
                        later.get_or_insert(version);
                    }
                    // If the previous block gives a wrong size, it may contain other blocks.
                    let from = match before.take() {
                        Some(block) if checked <= self.size && !self.is_whole(&block)? => {
                            checked += u64::from(block.bytes);
                            block.offset
                        }
                        _ => at + 1,
                    };
                    let next = self.next_mark(from)?;
                    let bytes = counted(next - from, "byte");
                    self.lost(from, format!("no block of events is in {bytes} from byte {from} on"));
                    at = next;
                    continue;
                }
            };
            let (offset, bytes) = (at + HEADER_BYTES as u64, header.bytes);
            let (lane, count, span) = match header.content {
                Content::Rows { lane, count, start, end } | Content::Tiles { lane, count, start, end } => {
                    (lane, count, (start, end))
                }
                Content::Entries => (0, 0, (0, 0)),
            };
            let writer = header.writer;
            let block = Block { offset, writer, lane, count, span, bytes, checksum: header.checksum };
            if offset + u64::from(bytes) > self.size {
                let missing = offset + u64::from(bytes) - self.size;
                self.lost(
                    at,
                    format!("it is cut off at byte {}: its last block lacks {}", self.size, counted(missing, "byte")),
                );
                at = self.next_mark(offset)?;
                continue;
            }
            if count > 0 {
                before = Some(Block { ..block });
                let is_tiles = matches!(header.content, Content::Tiles { .. });
                if is_tiles { &mut self.tiles } else { &mut self.blocks }.push(block);
            } else {
                let text = self.read(offset, bytes as usize)?;
                if checksum(&text) == block.checksum {
                    self.take_entries(at, writer, &text, &mut entries);
                } else {
                    self.lost(at, format!("the names in the block at byte {at} are damaged"));
                }
                before = Some(block);
            }
            at = offset + u64::from(bytes);
        }
        if let (Some(version), true) = (later, self.blocks.is_empty() && entries.is_empty()) {
            return Err(TraceError::Schema {
                file: self.file.clone(),
                found: format!("events of version {version}, but this program knows version {VERSION}"),
                advice: "open it with the multicard that wrote it, or a later one",
            });
        }
        self.take_head(&entries);
        self.take_lanes(entries);
        Ok(())
    }

    fn header(&self, at: u64) -> Result<Result<Header, NoHeader>, TraceError> {
        if self.size - at < HEADER_BYTES as u64 {
            return Ok(Err(NoHeader::Damaged));
        }
        let bytes = self.read(at, HEADER_BYTES)?;
        Ok(bytes.first_chunk().map_or(Err(NoHeader::Damaged), Header::of))
    }

    fn is_whole(&self, block: &Block) -> Result<bool, TraceError> {
        Ok(checksum(&self.read(block.offset, block.bytes as usize)?) == block.checksum)
    }

    /// The position of the next mark, or the end.
    fn next_mark(&self, from: u64) -> Result<u64, TraceError> {
        let mut at = from;
        while at < self.size {
            let length = usize::try_from(self.size - at).unwrap_or(usize::MAX).min(STRIDE);
            let bytes = self.read(at, length)?;
            if let Some(place) = bytes.windows(MARK.len()).position(|window| window == MARK) {
                return Ok(at + place as u64);
            }
            if length < MARK.len() {
                break;
            }
            // A mark may begin in the last bytes.
            at += (length - MARK.len() + 1) as u64;
        }
        Ok(self.size)
    }

    fn take_entries(&self, at: u64, writer: u16, text: &[u8], entries: &mut Vec<(u16, Entry)>) {
        let Ok(values) = serde_json::from_slice::<Vec<serde_json::Value>>(text) else {
            return self.lost(at, format!("the names in the block at byte {at} cannot be read"));
        };
        for value in values {
            match serde_json::from_value(value) {
                Ok(entry) => entries.push((writer, entry)),
                Err(_) => self.lost(at, format!("an entry in the block at byte {at} is unknown to this version")),
            }
        }
    }

    /// Combines the facts of all writers.
    fn take_head(&mut self, entries: &[(u16, Entry)]) {
        let mut unfinished: BTreeMap<u16, bool> = BTreeMap::new();
        for (writer, entry) in entries {
            match entry {
                Entry::Head(head) => {
                    *self.writers.entry(*writer).or_default() = head.raw_of;
                    unfinished.entry(*writer).or_insert(true);
                    if self.head.schema_version.is_empty() {
                        self.head.schema_version.clone_from(&head.schema_version);
                        self.head.product_version.clone_from(&head.product_version);
                        self.head.without_cuda = head.without_cuda;
                    }
                    self.head.without_cuda &= head.without_cuda;
                    self.head.epoch_ns = self.head.epoch_ns.or(head.epoch_ns);
                    self.head.covered = union(self.head.covered, head.covered);
                    self.head.windows.extend(&head.windows);
                    self.head.without_calls |= head.without_calls;
                    self.head.has_losses |= head.has_losses;
                    for gpu in &head.gpus {
                        if self.head.gpus.iter().all(|known| known.index != gpu.index) {
                            self.head.gpus.push(gpu.clone());
                        }
                    }
                    for (known, texts) in
                        [(&mut self.head.warnings, &head.warnings), (&mut self.head.notes, &head.notes)]
                    {
                        for text in texts {
                            if !known.contains(text) {
                                known.push(text.clone());
                            }
                        }
                    }
                }
                Entry::End => {
                    unfinished.insert(*writer, false);
                }
                Entry::Lane(..) | Entry::Process(..) | Entry::Name(..) | Entry::Nameless(..) => {}
            }
        }
        unite(&mut self.head.windows);
        for block in &self.blocks {
            unfinished.entry(block.writer).or_insert(true);
        }
        let cut: Vec<u16> = unfinished.iter().filter(|(_, is)| **is).map(|(writer, _)| *writer).collect();
        if !cut.is_empty() || unfinished.is_empty() {
            let writers = cut.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
            let writers = if writers.is_empty() { String::new() } else { format!(" of writer {writers}") };
            self.lost(
                self.size,
                format!("the end{writers} is missing: the recording was interrupted or the file was cut off; all complete parts were read"),
            );
        }
    }

    fn take_lanes(&mut self, entries: Vec<(u16, Entry)>) {
        let mut firsts: HashMap<(Kind, i64, Option<i64>), i64> = HashMap::new();
        for (writer, entry) in entries {
            match entry {
                Entry::Lane(id, lane) => {
                    let order = name_id(writer, id);
                    let first = firsts.entry((lane.kind, lane.process, lane.gpu)).or_insert(order);
                    *first = order.min(*first);
                    self.lanes.entry((writer, id)).or_insert(KnownLane { lane, order });
                }
                Entry::Process(process, name) => {
                    self.processes.entry(process).or_insert(name);
                }
                Entry::Name(id, text) => {
                    self.names.entry(name_id(writer, id)).or_insert((text, false));
                }
                Entry::Nameless(id, text) => {
                    self.names.entry(name_id(writer, id)).or_insert((text, true));
                }
                Entry::Head(_) | Entry::End => {}
            }
        }
        for KnownLane { lane, order } in self.lanes.values_mut() {
            *order = firsts.get(&(lane.kind, lane.process, lane.gpu)).copied().unwrap_or(*order);
        }
        let lanes = &self.lanes;
        let (known, unknown): (Vec<Block>, Vec<Block>) = std::mem::take(&mut self.blocks)
            .into_iter()
            .partition(|block| lanes.contains_key(&(block.writer, block.lane)));
        self.blocks = known;
        if let Some(first) = unknown.first() {
            let events: u64 = unknown.iter().map(|block| u64::from(block.count)).sum();
            self.lost(first.offset, format!("lanes that are missing had {}", counted(events, "event")));
        }
    }

    fn lane(&self, block: &Block) -> Option<&KnownLane> {
        self.lanes.get(&(block.writer, block.lane))
    }

    fn blocks(&self, kind: Kind) -> Vec<(&Block, &KnownLane)> {
        let is_wanted = |recorded: Kind| {
            recorded == kind || kind == Kind::Range && matches!(recorded, Kind::Collective | Kind::Domain)
        };
        let known = self.blocks.iter().filter_map(|block| Some((block, self.lane(block)?)));
        known.filter(|(_, known)| is_wanted(known.lane.kind)).collect()
    }

    /// The rows of a block; `None` if it is damaged.
    pub(super) fn decoded(&self, block: &Block, kind: Kind) -> Result<Vec<Row>, TraceError> {
        let bytes = self.read(block.offset, block.bytes as usize)?;
        let whole = if checksum(&bytes) == block.checksum {
            decode(kind, block.count as usize, &bytes).and_then(|rows| {
                // Blocks are merged by their spans: rows outside their block's span would be out of order.
                let within = rows.iter().all(|row| block.span.0 <= row.start && row.end <= block.span.1);
                if within { Ok(rows) } else { Err("they lie outside the block's span".to_owned()) }
            })
        } else {
            Err("its checksum does not match".to_owned())
        };
        Ok(whole.unwrap_or_else(|why| {
            let events = counted(block.count, "event");
            self.lost(block.offset, format!("damage at byte {}, where {events} were: {why}", block.offset));
            Vec::new()
        }))
    }

    /// The tiles of a block with their shelves; `None` if it is damaged.
    pub(super) fn decoded_tiles(&self, block: &Block) -> Result<Option<Vec<(u8, Tile)>>, TraceError> {
        let bytes = self.read(block.offset, block.bytes as usize)?;
        Ok((checksum(&bytes) == block.checksum).then(|| decode_tiles(block.count as usize, &bytes)).flatten())
    }

    /// Passes on the events of a block; a damaged block has none.
    fn rows(
        &self,
        block: &Block,
        known: &KnownLane,
        each: impl FnMut(&Event<'_>) -> Result<(), String>,
    ) -> Result<(), TraceError> {
        let rows = self.decoded(block, known.lane.kind)?;
        let mut events = rows.iter().map(|row| event(&known.lane, row, name_id(block.writer, row.name), known.order));
        let mut each = each;
        events.try_for_each(|event| each(&event)).map_err(|problem| TraceError::Damaged {
            file: self.file.clone(),
            place: format!("the block at byte {}", block.offset),
            problem,
        })
    }
}

impl Source for EventsFile<'_> {
    fn head(&self) -> Result<Head, TraceError> {
        Ok(self.head.clone())
    }

    fn threads(&self) -> usize {
        // The number of CPUs is read from system files, which takes longer than reading a small recording.
        static THREADS: OnceLock<usize> = OnceLock::new();
        *THREADS.get_or_init(|| thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS))
    }

    fn units(&self, kind: Kind) -> Result<usize, TraceError> {
        Ok(self.blocks(kind).len())
    }

    fn scan<T: Default + Send>(
        &self,
        kind: Kind,
        // Blocks contain all details, whatever is requested.
        reading: Reading,
        watch: &mut Watch<'_>,
        each: impl Fn(&mut T, &Event<'_>) -> Result<(), String> + Sync,
    ) -> Result<Vec<T>, TraceError> {
        let blocks = self.blocks(kind);
        if blocks.is_empty() {
            return Ok(Vec::new());
        }
        in_parts(
            (blocks.len(), blocks.len()),
            reading.threads,
            watch,
            || (),
            |(), sums, part| {
                let (block, known) = blocks[part];
                self.rows(block, known, |event| each(sums, event))?;
                Ok(1)
            },
        )
    }

    fn first_start(&self) -> Result<i64, TraceError> {
        let blocks = self.blocks.iter().filter_map(|block| Some((block, self.lane(block)?.lane.kind)));
        let without_cuda = self.head.without_cuda;
        let timed = blocks.filter(|(_, kind)| match kind {
            Kind::Synchronisation | Kind::Allocation | Kind::Domain => false,
            Kind::Range | Kind::Collective => without_cuda,
            _ => true,
        });
        Ok(timed.map(|(block, _)| block.span.0).min().unwrap_or(0))
    }

    fn gpu(&self, _process: i64, device: i64) -> i64 {
        // Events already contain the machine's index.
        device
    }

    fn process_name(&self, process: i64) -> String {
        self.processes.get(&process).cloned().unwrap_or_else(|| format!("process {process}"))
    }

    fn meanings<M>(&self, meaning: impl Fn(&str) -> Option<M>) -> Result<HashMap<i64, M>, TraceError> {
        Ok(self.names.iter().filter_map(|(id, (text, _))| Some((*id, meaning(text)?))).collect())
    }

    fn names(&self, wanted: &HashSet<i64>) -> Result<Names, TraceError> {
        let mut names = Names::default();
        for id in wanted {
            let known = self.names.get(id);
            if known.is_none_or(|(_, stands_in)| *stands_in) {
                names.missing.insert(*id);
            }
            names.texts.insert(*id, known.map_or_else(|| nameless(*id), |(text, _)| text.clone()));
        }
        Ok(names)
    }

    fn losses(&self) -> Vec<String> {
        let losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        let mut reported: Vec<String> = losses.values().take(MOST_LOSSES).cloned().collect();
        if losses.len() > MOST_LOSSES {
            reported.push(format!("damage at {} of the file", counted(losses.len() - MOST_LOSSES, "more place")));
        }
        reported
    }

    fn damaged(&self, kinds: &[Kind], problem: String) -> TraceError {
        let kinds: Vec<&str> = kinds.iter().map(|kind| (*kind).into()).collect();
        TraceError::Damaged { file: self.file.clone(), place: format!("events of {}", kinds.join(", ")), problem }
    }
}
