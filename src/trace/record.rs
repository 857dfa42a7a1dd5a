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
    /// What it holds, and what the page holds behind it.
    payload: &'a [u8],
    /// Of each column its type and where its bytes begin.
    slots: [(u32, u32); MOST_COLUMNS],
}

/// How many bytes a value of each type takes.
const LENGTHS: [u8; 12] = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0];
/// Types that SQLite keeps for itself.
const RESERVED: std::ops::RangeInclusive<u64> = 10..=11;

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
    /// Finds the columns that are asked for; up to where their bytes, or those of the header, go.
    fn lay_out(&mut self, slots: &[Option<usize>]) -> Option<u64> {
        let (header_bytes, first) = varint(self.payload)?;
        let Some(header) = self.payload.get(first..usize::try_from(header_bytes).ok()?) else {
            return (header_bytes > self.payload.len() as u64).then_some(header_bytes);
        };
        let (mut rest, mut start, mut end) = (header, header_bytes, header_bytes);
        for slot in slots {
            // Columns that were added later are not in rows from before.
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

    /// A column by its place among those that were asked for.
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

/// A signed number of one to eight bytes, the highest first.
#[inline]
fn signed(bytes: &[u8], length: usize) -> i64 {
    let mut eight = [0; 8];
    match bytes.first_chunk() {
        Some(whole) => eight = *whole,
        None => eight.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from),
    }
    i64::from_be_bytes(eight) >> (64 - 8 * length)
}

/// What a page holds of a row.
struct Cell<'a> {
    id: i64,
    /// How many bytes the row has.
    length: u64,
    /// Its first bytes, and what follows them in the page.
    payload: &'a [u8],
    /// How many of its bytes are in the page.
    here: usize,
    /// The page where it goes on.
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
