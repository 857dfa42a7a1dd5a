//! Appends events to a file.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use super::block::{Content, Header, MOST_BYTES, MOST_ROWS, checksum, encode};
use super::{Entry, Lane, Row};
use crate::trace::event::bounded;
use crate::trace::source::Head;

/// Entries of this size are written without waiting for more.
const ENTRIES_BYTES: usize = 1 << 20;

/// One writer of an events file.
pub(in crate::trace) struct EventsWriter<W = File> {
    file: W,
    writer: u16,
    lanes: Vec<(Lane, Vec<Row>)>,
    by_lane: HashMap<Lane, u32>,
    names: u32,
    by_name: HashMap<String, u32>,
    /// Entries that have not been written yet.
    entries: Vec<Entry>,
    entries_bytes: usize,
}

impl EventsWriter {
    /// Opens or creates the file, and appends facts about what this writer will record.
    pub fn append(file: &Path, writer: u16, head: Head) -> io::Result<Self> {
        Self::to(OpenOptions::new().create(true).append(true).open(file)?, writer, head)
    }
}

impl<W: Write> EventsWriter<W> {
    /// Writes to a file that is open, or into memory, beginning with facts about what this writer will record.
    pub fn to(file: W, writer: u16, head: Head) -> io::Result<Self> {
        let mut new = Self {
            file,
            writer,
            lanes: Vec::new(),
            by_lane: HashMap::new(),
            names: 0,
            by_name: HashMap::new(),
            entries: vec![Entry::Head(head)],
            entries_bytes: 0,
        };
        new.write_entries()?;
        Ok(new)
    }

    /// The id of a lane.
    pub fn lane(&mut self, lane: &Lane) -> u32 {
        if let Some(id) = self.by_lane.get(lane) {
            return *id;
        }
        let id = self.lanes.len() as u32;
        self.by_lane.insert(lane.clone(), id);
        self.lanes.push((lane.clone(), Vec::new()));
        self.entries.push(Entry::Lane(id, lane.clone()));
        id
    }

    /// Sets the name of a process.
    pub fn process(&mut self, process: i64, name: String) {
        self.entries.push(Entry::Process(process, name));
    }

    /// The id of a name.
    pub fn name(&mut self, text: &str) -> io::Result<u32> {
        if let Some(id) = self.by_name.get(text) {
            return Ok(*id);
        }
        let id = self.new_name();
        self.by_name.insert(text.to_owned(), id);
        self.define(Entry::Name(id, bounded(text)))?;
        Ok(id)
    }

    /// The id of a name that is defined later.
    pub fn new_name(&mut self) -> u32 {
        let id = self.names;
        self.names += 1;
        id
    }

    /// Defines a name.
    pub fn define(&mut self, name: Entry) -> io::Result<()> {
        if let Entry::Name(_, text) | Entry::Nameless(_, text) = &name {
            // In JSON, a byte takes at most six bytes.
            self.entries_bytes += 6 * text.len() + 32;
        }
        self.entries.push(name);
        if self.entries_bytes >= ENTRIES_BYTES { self.write_entries() } else { Ok(()) }
    }

    /// Adds an event to a lane of this writer.
    pub fn push(&mut self, lane: u32, row: Row) -> io::Result<()> {
        let rows = &mut self.lanes[lane as usize].1;
        rows.push(row);
        if rows.len() < MOST_ROWS {
            return Ok(());
        }
        self.write_entries()?;
        self.write_rows(lane)
    }

    /// Writes everything that was added so far.
    pub fn flush(&mut self) -> io::Result<()> {
        self.write_entries()?;
        (0..self.lanes.len() as u32).try_for_each(|lane| self.write_rows(lane))
    }

    /// Writes everything, and the mark that nothing follows.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.entries.push(Entry::End);
        self.write_entries()?;
        self.file.flush()
    }

    fn write_entries(&mut self) -> io::Result<()> {
        if self.entries.is_empty() {
            return Ok(());
        }
        let text = serde_json::to_vec(&self.entries)?;
        self.entries.clear();
        self.entries_bytes = 0;
        self.write(Content::Entries, &text)
    }

    fn write_rows(&mut self, lane: u32) -> io::Result<()> {
        let (lane_info, rows) = &mut self.lanes[lane as usize];
        let Some(end) = rows.iter().map(|row| row.end).max() else { return Ok(()) };
        rows.sort_unstable_by_key(|row| (row.start, row.end));
        let bytes = encode(lane_info.kind, rows);
        let content = Content::Rows { lane, count: rows.len() as u32, start: rows[0].start, end };
        rows.clear();
        self.write(content, &bytes)
    }

    /// Writes a block with a single write, so that blocks of several writers never mix.
    fn write(&mut self, content: Content, bytes: &[u8]) -> io::Result<()> {
        write_block(&mut self.file, self.writer, content, bytes)
    }
}

/// Appends one block to a file.
pub(super) fn append_block(file: &Path, writer: u16, content: Content, bytes: &[u8]) -> io::Result<()> {
    write_block(&mut OpenOptions::new().append(true).open(file)?, writer, content, bytes)
}

fn write_block(file: &mut impl Write, writer: u16, content: Content, bytes: &[u8]) -> io::Result<()> {
    if bytes.len() > MOST_BYTES {
        return Err(io::Error::other("a block of events is too long"));
    }
    let header = Header { writer, content, bytes: bytes.len() as u32, checksum: checksum(bytes) };
    file.write_all(&[&header.to_bytes()[..], bytes].concat())
}
