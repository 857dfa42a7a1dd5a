//! Rows as they lie in the pages of an SQLite file.

use super::pages::{PageError, Pages, beyond, leaf_cells, u32_at};

/// More columns than are ever read of a table.
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

/// One row: the columns that were asked for, as yet undecoded.
pub(super) struct Record<'a> {
    /// Its id, which also is the value of a column that stands for it.
    pub id: i64,
    payload: &'a [u8],
    /// Of each column its type and where its bytes begin.
    slots: [(u64, usize); MOST_COLUMNS],
}

/// Reads the rows of pages, one page after another.
pub(super) struct Reader<'a> {
    pages: &'a Pages<'a>,
    /// Of each stored column the place in the record, up to the last that is asked for.
    slots: &'a [Option<usize>],
    page: Vec<u8>,
    /// The payload of a row that is longer than its page.
    long: Vec<u8>,
    /// How many pages such rows have had: each page belongs to one row.
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
            let (length, id, here, next) = parts(cell, pages.usable_bytes).ok_or_else(|| beyond(number))?;
            let mut record = Record { id, payload: here, slots: [(0, 0); MOST_COLUMNS] };
            if record.lay_out(slots).ok_or_else(|| beyond(number))? > here.len() as u64 {
                let next = next.ok_or_else(|| beyond(number))?;
                long.clear();
                long.extend_from_slice(here);
                go_on(pages, next, length, long, long_pages)?;
                record.payload = long;
                if record.lay_out(slots).is_none_or(|end| end > length) {
                    return Err(beyond(number).into());
                }
            }
            each(&record)?;
        }
        Ok(())
    }
}

impl Record<'_> {
    /// Finds the columns that are asked for; up to where their bytes, or those of the header, go.
    fn lay_out(&mut self, slots: &[Option<usize>]) -> Option<u64> {
        let (header_bytes, mut at) = varint(self.payload)?;
        let header = match self.payload.get(..usize::try_from(header_bytes).ok()?) {
            Some(header) => header,
            None => return Some(header_bytes),
        };
        let (mut start, mut end) = (header_bytes, header_bytes);
        for slot in slots {
            // Columns that were added later are not in rows from before.
            let Some(rest) = header.get(at..).filter(|rest| !rest.is_empty()) else { break };
            let (kind, length) = varint(rest)?;
            at += length;
            let next = start.checked_add(match kind {
                0 | 8 | 9 => 0,
                1..=4 => kind,
                5 => 6,
                6 | 7 => 8,
                10 | 11 => return None,
                _ => (kind - 12) / 2,
            })?;
            if let Some(slot) = slot {
                self.slots[*slot] = (kind, usize::try_from(start).ok()?);
                end = next;
            }
            start = next;
        }
        Some(end)
    }

    /// A column by its place among those that were asked for.
    pub fn value(&self, slot: usize) -> Value<'_> {
        let (kind, start) = self.slots[slot];
        let bytes = self.payload.get(start..).unwrap_or_default();
        let integer = |length: usize| {
            let bytes = bytes.get(..length)?;
            let sign = if bytes[0] & 0x80 == 0 { 0 } else { -1 };
            Some(Value::Integer(bytes.iter().fold(sign, |value: i64, byte| value << 8 | i64::from(*byte))))
        };
        let value = match kind {
            0 => None,
            1..=4 => integer(kind as usize),
            5 => integer(6),
            6 => integer(8),
            7 => bytes.first_chunk().map(|bytes| f64::from_be_bytes(*bytes)).filter(|x| !x.is_nan()).map(Value::Real),
            8 | 9 => Some(Value::Integer(kind as i64 - 8)),
            _ if kind % 2 == 0 => Some(Value::Blob),
            _ => bytes.get(..(kind as usize - 13) / 2).map(Value::Text),
        };
        value.unwrap_or(Value::Null)
    }
}

/// What a cell holds: the length of its row, its id, what of it is on this page, and the page where it goes on.
fn parts(cell: &[u8], usable_bytes: usize) -> Option<(u64, i64, &[u8], Option<u32>)> {
    let (length, first) = varint(cell)?;
    let (id, second) = varint(&cell[first..])?;
    let rest = &cell[first + second..];
    let most = usable_bytes - 35;
    if length <= most as u64 {
        return Some((length, id as i64, rest.get(..length as usize)?, None));
    }
    let least = (usable_bytes - 12) * 32 / 255 - 23;
    let filled = least + ((length - least as u64) % (usable_bytes as u64 - 4)) as usize;
    let here = if filled <= most { filled } else { least };
    Some((length, id as i64, rest.get(..here)?, Some(u32_at(rest, here)?)))
}

/// Reads on where a row goes on, until it is all there.
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

/// A number of one to nine bytes, and how many they are.
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
