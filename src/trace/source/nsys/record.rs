//! Decodes rows from the pages of an SQLite file.

use super::pages::{PageError, Pages, beyond, leaf_cells, u32_at};

/// Maximum number of columns read of a table.
pub(super) const MOST_COLUMNS: usize = 12;

/// A value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'a [u8]),
    Blob,
}

/// One row with the requested columns, not yet decoded.
pub(super) struct Record<'a> {
    /// Row id, and the value of a column that is its alias.
    pub id: i64,
    /// The payload, followed by the rest of the page.
    payload: &'a [u8],
    /// Type and offset of each column.
    slots: [(u32, u32); MOST_COLUMNS],
}

/// Size in bytes of each fixed-size type.
const LENGTHS: [u8; 12] = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0];
/// Types reserved by SQLite.
const RESERVED: std::ops::RangeInclusive<u64> = 10..=11;

/// Reads the rows of pages, one page after another.
pub(super) struct Reader<'a> {
    pages: &'a Pages<'a>,
    /// For each stored column its position among those requested, up to the last one.
    slots: &'a [Option<usize>],
    page: Vec<u8>,
    /// The payload of a row that overflows its page.
    long: Vec<u8>,
    /// Overflow pages read so far: each belongs to a single row.
    long_pages: u32,
}

impl<'a> Reader<'a> {
    pub fn new(pages: &'a Pages<'a>, slots: &'a [Option<usize>]) -> Self {
        Self { pages, slots, page: Vec::new(), long: Vec::new(), long_pages: 0 }
    }

    /// Reads all rows of a page.
    pub fn rows<E: From<PageError>>(
        &mut self,
        number: u32,
        mut each: impl FnMut(&Record<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { pages, slots, page, long, long_pages } = self;
        let page = pages.page(number, page)?;
        for at in leaf_cells(page, number)? {
            let cell = page.get(at..).ok_or_else(|| beyond(number))?;
            let cell = Cell::of(cell, pages.usable_bytes).ok_or_else(|| beyond(number))?;
            let mut record = Record { id: cell.id, payload: cell.payload, slots: [(0, 0); MOST_COLUMNS] };
            if record.lay_out(slots).ok_or_else(|| beyond(number))? > cell.here as u64 {
                let next = cell.next.ok_or_else(|| beyond(number))?;
                long.clear();
                long.extend_from_slice(&cell.payload[..cell.here]);
                go_on(pages, next, cell.length, long, long_pages)?;
                record.payload = long;
                if record.lay_out(slots).is_none_or(|end| end > cell.length) {
                    return Err(beyond(number).into());
                }
            }
            each(&record)?;
        }
        Ok(())
    }
}

impl Record<'_> {
    /// Finds the requested columns; returns the end of their bytes or of the header.
    fn lay_out(&mut self, slots: &[Option<usize>]) -> Option<u64> {
        let (header_bytes, first) = varint(self.payload)?;
        let Some(header) = self.payload.get(first..usize::try_from(header_bytes).ok()?) else {
            return (header_bytes > self.payload.len() as u64).then_some(header_bytes);
        };
        let (mut rest, mut start, mut end) = (header, header_bytes, header_bytes);
        for slot in slots {
            // Rows written before a column was added do not contain it.
            let Some(&byte) = rest.first() else { break };
            let (kind, length) = if byte < 0x80 { (u64::from(byte), 1) } else { varint(rest)? };
            rest = &rest[length..];
            let next = match LENGTHS.get(kind as usize) {
                Some(_) if RESERVED.contains(&kind) => return None,
                Some(length) => start + u64::from(*length),
                None => start.checked_add((kind - 12) / 2)?,
            };
            if let Some(slot) = slot {
                self.slots[*slot] = (u32::try_from(kind).ok()?, u32::try_from(start).ok()?);
                end = next;
            }
            start = next;
        }
        Some(end)
    }

    /// A column by its position among those requested.
    #[inline]
    pub fn value(&self, slot: usize) -> Value<'_> {
        let (kind, start) = self.slots[slot];
        let bytes = self.payload.get(start as usize..).unwrap_or_default();
        match kind {
            0 => Value::Null,
            1..=6 => Value::Integer(signed(bytes, usize::from(LENGTHS[kind as usize]))),
            7 => match bytes.first_chunk().map(|bytes| f64::from_be_bytes(*bytes)) {
                Some(value) if !value.is_nan() => Value::Real(value),
                _ => Value::Null,
            },
            8 | 9 => Value::Integer(i64::from(kind) - 8),
            _ if kind % 2 == 0 => Value::Blob,
            _ => bytes.get(..(kind as usize - 13) / 2).map_or(Value::Null, Value::Text),
        }
    }
}

/// A big-endian signed number of one to eight bytes.
#[inline]
fn signed(bytes: &[u8], length: usize) -> i64 {
    let mut eight = [0; 8];
    match bytes.first_chunk() {
        Some(whole) => eight = *whole,
        None => eight.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from),
    }
    i64::from_be_bytes(eight) >> (64 - 8 * length)
}

/// The part of a row in its page.
struct Cell<'a> {
    id: i64,
    /// Size of the row in bytes.
    length: u64,
    /// Its first bytes, followed by the rest of the page.
    payload: &'a [u8],
    /// Number of its bytes in the page.
    here: usize,
    /// Its first overflow page.
    next: Option<u32>,
}

impl<'a> Cell<'a> {
    fn of(cell: &'a [u8], usable_bytes: usize) -> Option<Self> {
        let (length, first) = varint(cell)?;
        let (id, second) = varint(&cell[first..])?;
        let (id, payload) = (id as i64, &cell[first + second..]);
        let most = usable_bytes - 35;
        if length <= most as u64 {
            let here = length as usize;
            return (here <= payload.len()).then_some(Self { id, length, payload, here, next: None });
        }
        let least = (usable_bytes - 12) * 32 / 255 - 23;
        let filled = least + ((length - least as u64) % (usable_bytes as u64 - 4)) as usize;
        let here = if filled <= most { filled } else { least };
        Some(Self { id, length, payload, here, next: Some(u32_at(payload, here)?) })
    }
}

/// Reads the overflow pages of a row.
fn go_on(
    pages: &Pages<'_>,
    mut next: u32,
    length: u64,
    long: &mut Vec<u8>,
    long_pages: &mut u32,
) -> Result<(), PageError> {
    let mut buffer = Vec::new();
    while (long.len() as u64) < length {
        *long_pages += 1;
        if *long_pages > pages.count {
            return Err(PageError::Damaged("long rows go round in circles".to_owned()));
        }
        let page = pages.page(next, &mut buffer)?;
        let left = usize::try_from(length - long.len() as u64).unwrap_or(usize::MAX);
        long.extend_from_slice(&page[4..page.len().min(left.saturating_add(4))]);
        next = u32_at(page, 0).unwrap_or(0);
    }
    Ok(())
}

/// A varint of one to nine bytes, and its length.
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (place, byte) in bytes.iter().take(8).enumerate() {
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, place + 1));
        }
    }
    Some((value << 8 | u64::from(*bytes.get(8)?), 9))
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
