//! The pages of an SQLite file that hold a table's rows, after <https://sqlite.org/fileformat2.html>.
//!
//! Stepping through rows with SQLite and fetching values one by one took more than half of an import.

use std::io;

use crate::trace::source::Storage;

/// Maximum depth of a b-tree in SQLite.
const MOST_LEVELS: usize = 20;
const INTERIOR: u8 = 0x05;
const LEAF: u8 = 0x0d;

/// Why a page could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum PageError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Damaged(String),
}

/// The pages of a file, by their numbers from 1.
pub(super) struct Pages<'a> {
    pub source: Storage<'a>,
    page_bytes: usize,
    /// Without the bytes reserved for extensions at the end of each page.
    pub usable_bytes: usize,
    pub count: u32,
}

impl<'a> Pages<'a> {
    /// `header`: the first hundred bytes of the file.
    pub fn new(source: Storage<'a>, header: &[u8; 100], size_bytes: u64) -> Result<Self, PageError> {
        let page_bytes = page_bytes(header);
        let usable_bytes = page_bytes.saturating_sub(usize::from(header[20]));
        if !(512..=65_536).contains(&page_bytes) || !page_bytes.is_power_of_two() || usable_bytes < 480 {
            return Err(PageError::Damaged(format!("its header speaks of pages of {page_bytes} bytes")));
        }
        let count = u32::try_from(size_bytes / page_bytes as u64).unwrap_or(u32::MAX);
        Ok(Self { source, page_bytes, usable_bytes, count })
    }

    /// A page without its reserved bytes. `buffer` holds it if the file is not in memory.
    pub fn page<'b>(&'b self, number: u32, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], PageError> {
        if number < 1 || number > self.count {
            return Err(PageError::Damaged(format!("it speaks of page {number} of {}", self.count)));
        }
        let start = (number as usize - 1) * self.page_bytes;
        Ok(self.source.bytes(start as u64, self.usable_bytes, buffer)?)
    }

    /// The leaf pages of the table rooted at `root`, in order of row ids.
    pub fn leaves(&self, root: u32) -> Result<Vec<u32>, PageError> {
        let mut buffer = Vec::new();
        let mut level = vec![root];
        for _ in 0..MOST_LEVELS {
            if self.page(level[0], &mut buffer)?.first() == Some(&LEAF) {
                let mut sorted = level.clone();
                sorted.sort_unstable();
                if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
                    return Err(PageError::Damaged("a page stands in it twice".to_owned()));
                }
                return Ok(level);
            }
            let mut below = Vec::new();
            for number in level {
                let page = self.page(number, &mut buffer)?;
                for cell in cells(page, INTERIOR, number)? {
                    below.push(u32_at(page, cell).ok_or_else(|| beyond(number))?);
                }
                below.push(u32_at(page, 8).ok_or_else(|| beyond(number))?);
                if below.len() > self.count as usize {
                    return Err(PageError::Damaged("it goes round in circles".to_owned()));
                }
            }
            level = below;
        }
        Err(PageError::Damaged("it goes round in circles".to_owned()))
    }
}

/// The page size in a file's header.
pub(super) fn page_bytes(header: &[u8; 100]) -> usize {
    match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        bytes => usize::from(bytes),
    }
}

/// Offsets of the cells of a leaf page.
pub(super) fn leaf_cells(page: &[u8], number: u32) -> Result<impl Iterator<Item = usize>, PageError> {
    cells(page, LEAF, number)
}

fn cells(page: &[u8], kind: u8, number: u32) -> Result<impl Iterator<Item = usize>, PageError> {
    if page[0] != kind {
        return Err(PageError::Damaged(format!("page {number} is none of a table, or of another kind than expected")));
    }
    let start = if kind == INTERIOR { 12 } else { 8 };
    let count = usize::from(u16::from_be_bytes([page[3], page[4]]));
    let pointers = page.get(start..start + 2 * count).ok_or_else(|| beyond(number))?;
    Ok(pointers.chunks_exact(2).map(|pointer| usize::from(u16::from_be_bytes([pointer[0], pointer[1]]))))
}

/// A big-endian number of four bytes.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

pub(super) fn beyond(number: u32) -> PageError {
    PageError::Damaged(format!("what page {number} holds goes beyond its end"))
}
