//! Blocks: their headers with checksums, and the columns of their rows.

use super::{EXTRAS, Row, VERSION, extras_of};
use crate::trace::event::{Kind, check_span};
use crate::trace::tile::{SHELVES, Tile};

/// The first bytes of each block, and therefore of each file.
pub(super) const MARK: [u8; 4] = *b"\x93MCE";
pub(super) const HEADER_BYTES: usize = 64;
/// Maximum events in a block.
pub(super) const MOST_ROWS: usize = 4096;
/// Maximum tiles in a block.
pub(super) const MOST_TILES: usize = 1 << 16;
/// Maximum size of a block's content.
pub(super) const MOST_BYTES: usize = 16 << 20;

/// The content of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Entries,
    /// Events of one lane.
    Rows {
        lane: u32,
        count: u32,
        start: i64,
        end: i64,
    },
    /// Tiles of all events of one lane so far, or a part of these tiles.
    Tiles {
        lane: u32,
        count: u32,
        start: i64,
        end: i64,
    },
}

/// The header of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub writer: u16,
    pub content: Content,
    /// Size and checksum of the content.
    pub bytes: u32,
    pub checksum: u32,
}

/// Why the bytes at a position are not a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoHeader {
    Damaged,
    /// A valid header, but with this version of the format.
    Version(u8),
}

const ENTRIES: u8 = 1;
const ROWS: u8 = 2;
const TILES: u8 = 3;

/// The checksum of bytes: CRC-32 as in zip and PNG.
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

impl Header {
    /// Numbers are little-endian: mark 4, version 1, content 1, writer 2, lane 4, rows 4, start 8, end 8, bytes 4, checksum 4, zeros 20,
    /// checksum of all before it 4.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        let (kind, lane, count, start, end) = match self.content {
            Content::Entries => (ENTRIES, 0, 0, 0, 0),
            Content::Rows { lane, count, start, end } => (ROWS, lane, count, start, end),
            Content::Tiles { lane, count, start, end } => (TILES, lane, count, start, end),
        };
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            header[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&MARK);
        put(&[VERSION, kind]);
        put(&self.writer.to_le_bytes());
        put(&lane.to_le_bytes());
        put(&count.to_le_bytes());
        put(&start.to_le_bytes());
        put(&end.to_le_bytes());
        put(&self.bytes.to_le_bytes());
        put(&self.checksum.to_le_bytes());
        let sum = checksum(&header[..HEADER_BYTES - 4]);
        header[HEADER_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
        header
    }

    pub fn of(header: &[u8; HEADER_BYTES]) -> Result<Self, NoHeader> {
        let u32_at = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let i64_at = |at: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&header[at..at + 8]);
            i64::from_le_bytes(eight)
        };
        if header[..4] != MARK || u32_at(HEADER_BYTES - 4) != checksum(&header[..HEADER_BYTES - 4]) {
            return Err(NoHeader::Damaged);
        }
        if header[4] != VERSION {
            return Err(NoHeader::Version(header[4]));
        }
        let content = match header[5] {
            ENTRIES => Content::Entries,
            kind @ (ROWS | TILES) => {
                let (lane, count, start, end) = (u32_at(8), u32_at(12), i64_at(16), i64_at(24));
                let most = if kind == ROWS { MOST_ROWS } else { MOST_TILES };
                if count == 0 || count as usize > most || check_span((start, end)).is_err() {
                    return Err(NoHeader::Damaged);
                }
                if kind == ROWS {
                    Content::Rows { lane, count, start, end }
                } else {
                    Content::Tiles { lane, count, start, end }
                }
            }
            _ => return Err(NoHeader::Damaged),
        };
        let (bytes, checksum) = (u32_at(32), u32_at(36));
        if bytes as usize > MOST_BYTES {
            return Err(NoHeader::Damaged);
        }
        Ok(Self { writer: u16::from_le_bytes([header[6], header[7]]), content, bytes, checksum })
    }
}

/// The mark of a column with the same value in all rows, which is written once.
const CONSTANT: u8 = 0;
/// The mark of a column of differences, each from the previous value.
const DIFFERENCES: u8 = 1;

/// Writes rows, which must be sorted by start, as columns: starts, durations, names, correlations, and the values that depend on the kind.
pub(super) fn encode(kind: Kind, rows: &[Row]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(rows.len() * 10);
    let mut before = 0;
    for row in rows {
        write(&mut bytes, zigzag(row.start.wrapping_sub(before)));
        before = row.start;
    }
    let mut column = |value: &dyn Fn(&Row) -> i64| {
        let first = rows.first().map_or(0, value);
        if rows.iter().all(|row| value(row) == first) {
            bytes.push(CONSTANT);
            return write(&mut bytes, zigzag(first));
        }
        bytes.push(DIFFERENCES);
        let mut before = 0;
        for row in rows {
            write(&mut bytes, zigzag(value(row).wrapping_sub(before)));
            before = value(row);
        }
    };
    column(&|row| row.end - row.start);
    column(&|row| i64::from(row.name));
    column(&|row| row.correlation);
    for extra in 0..extras_of(kind) {
        column(&|row| row.extras[extra]);
    }
    bytes
}

/// Reads `count` rows. An error says what is impossible about them.
pub(super) fn decode(kind: Kind, count: usize, bytes: &[u8]) -> Result<Vec<Row>, String> {
    let short = || "its columns end early".to_owned();
    // Each start takes at least one byte, so a few bytes cannot claim to be many rows.
    if count > bytes.len() {
        return Err(short());
    }
    let mut left = bytes;
    let mut rows = Vec::with_capacity(count);
    let mut start: i64 = 0;
    for _ in 0..count {
        start = start.wrapping_add(unzigzag(read(&mut left).ok_or_else(short)?));
        rows.push(Row { start, end: start, name: 0, correlation: 0, extras: [0; EXTRAS] });
    }
    let mut column = |put: &mut dyn FnMut(&mut Row, i64) -> Result<(), String>| {
        let (&how, rest) = left.split_first().ok_or_else(short)?;
        left = rest;
        let mut value: i64 = 0;
        if how == CONSTANT {
            value = unzigzag(read(&mut left).ok_or_else(short)?);
        } else if how != DIFFERENCES {
            return Err("a column is written in an unknown way".to_owned());
        }
        for row in &mut rows {
            if how == DIFFERENCES {
                value = value.wrapping_add(unzigzag(read(&mut left).ok_or_else(short)?));
            }
            put(row, value)?;
        }
        Ok(())
    };
    column(&mut |row, length| {
        row.end = row.start.checked_add(length).ok_or("a duration is beyond 64 bits")?;
        check_span((row.start, row.end))
    })?;
    column(&mut |row, name| {
        row.name = u32::try_from(name).map_err(|_| "a name's id is beyond 32 bits")?;
        Ok(())
    })?;
    column(&mut |row, correlation| {
        row.correlation = correlation;
        Ok(())
    })?;
    for extra in 0..extras_of(kind) {
        column(&mut |row, value| {
            row.extras[extra] = value;
            Ok(())
        })?;
    }
    if left.is_empty() { Ok(rows) } else { Err("its columns go on after the last row".to_owned()) }
}

/// Writes tiles with their shelves, one after the other: shelf, distance from the previous start, length, pauses, events, label, time of
/// other labels.
pub(super) fn encode_tiles(tiles: &[(u8, Tile)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(tiles.len() * 12);
    let mut before: i64 = 0;
    for (shelf, tile) in tiles {
        let length = tile.end.abs_diff(tile.start);
        bytes.push(*shelf);
        write(&mut bytes, zigzag(tile.start.wrapping_sub(before)));
        write(&mut bytes, length);
        write(&mut bytes, length.saturating_sub(tile.busy_ns));
        write(&mut bytes, tile.events.into());
        write(&mut bytes, tile.label.into());
        write(&mut bytes, tile.label_ns);
        before = tile.start;
    }
    bytes
}

/// Reads `count` tiles; `None` if the bytes are not tiles.
pub(super) fn decode_tiles(count: usize, bytes: &[u8]) -> Option<Vec<(u8, Tile)>> {
    // Each takes at least seven bytes.
    if count > bytes.len() / 7 {
        return None;
    }
    let (mut left, mut tiles, mut start) = (bytes, Vec::with_capacity(count), 0_i64);
    for _ in 0..count {
        let (&shelf, rest) = left.split_first()?;
        left = rest;
        start = start.wrapping_add(unzigzag(read(&mut left)?));
        let length = read(&mut left)?;
        let end = start.checked_add(i64::try_from(length).ok()?)?;
        check_span((start, end)).ok()?;
        let busy_ns = length.checked_sub(read(&mut left)?)?;
        let [events, label] = [read(&mut left)?, read(&mut left)?].map(|number| u32::try_from(number).ok());
        let (events, label, label_ns) = (events?, label?, read(&mut left)?);
        if shelf >= SHELVES || events == 0 {
            return None;
        }
        tiles.push((shelf, Tile { start, end, busy_ns, events, label, label_ns }));
    }
    left.is_empty().then_some(tiles)
}

/// Maps numbers of either sign to unsigned numbers, small ones to small ones.
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Writes seven bits per byte, the lowest first.
fn write(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[inline]
fn read(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}
