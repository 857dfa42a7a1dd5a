//! Reduces a typeface to the letters that a file needs, with the tables that browsers require.

use std::collections::BTreeSet;

use harfrust::FontRef;
use skrifa::MetadataProvider;
use skrifa::raw::TableProvider;
use skrifa::raw::types::Tag;
use subsetter::GlyphRemapper;

use super::font::Face;

/// A font file with only these letters; `None` if the face cannot be reduced.
pub(super) fn subset(face: Face, letters: &BTreeSet<char>) -> Option<Vec<u8>> {
    let whole = FontRef::new(face.bytes()).ok()?;
    let characters = whole.charmap();
    let mut remapper = GlyphRemapper::new();
    let mut pairs: Vec<(u32, u16)> = Vec::new();
    for letter in letters {
        if let Some(glyph) = characters.map(*letter) {
            pairs.push((u32::from(*letter), remapper.remap(u16::try_from(glyph.to_u32()).ok()?)));
        }
    }
    let cut = subsetter::subset(face.bytes(), 0, &remapper).ok()?;
    let font = FontRef::new(&cut).ok()?;
    let mut tables: Vec<([u8; 4], Vec<u8>)> = Vec::new();
    for record in font.table_directory().table_records() {
        let data = font.table_data(record.tag())?;
        tables.push((record.tag().to_be_bytes(), data.as_bytes().to_vec()));
    }
    tables.retain(|(tag, _)| ![*b"cmap", *b"OS/2", *b"post"].contains(tag));
    tables.push((*b"cmap", character_map(&pairs)));
    tables.push((*b"OS/2", whole.data_for_tag(Tag::new(b"OS/2"))?.as_bytes().to_vec()));
    // Version 3 has no names of glyphs.
    let mut post = vec![0; 32];
    post[..4].copy_from_slice(&[0, 3, 0, 0]);
    tables.push((*b"post", post));
    tables.sort_by_key(|(tag, _)| *tag);
    Some(file(&cut[..4], &tables))
}

/// The table that maps characters to glyphs, in format 12; the pairs must be ordered by character.
fn character_map(pairs: &[(u32, u16)]) -> Vec<u8> {
    let count = pairs.len() as u32;
    let mut table = vec![0, 0, 0, 1, 0, 3, 0, 10, 0, 0, 0, 12];
    table.extend([0, 12, 0, 0]);
    for number in [16 + 12 * count, 0, count] {
        table.extend(number.to_be_bytes());
    }
    for (character, glyph) in pairs {
        for number in [*character, *character, u32::from(*glyph)] {
            table.extend(number.to_be_bytes());
        }
    }
    table
}

fn file(version: &[u8], tables: &[([u8; 4], Vec<u8>)]) -> Vec<u8> {
    let count = tables.len() as u16;
    let power = count.checked_ilog2().unwrap_or(0) as u16;
    let range = 16 << power;
    let mut head = version.to_vec();
    for number in [count, range, power, count * 16 - range] {
        head.extend(number.to_be_bytes());
    }
    let mut body: Vec<u8> = Vec::new();
    let start = 12 + 16 * tables.len();
    for (tag, data) in tables {
        head.extend(tag);
        for number in [checksum(data), (start + body.len()) as u32, data.len() as u32] {
            head.extend(number.to_be_bytes());
        }
        body.extend(data);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    head.extend(body);
    head
}

fn checksum(data: &[u8]) -> u32 {
    let word = |bytes: &[u8]| {
        let mut whole = [0; 4];
        whole[..bytes.len()].copy_from_slice(bytes);
        u32::from_be_bytes(whole)
    };
    data.chunks(4).map(word).fold(0, u32::wrapping_add)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use skrifa::instance::{LocationRef, Size};

    use super::*;

    #[test]
    fn a_cut_face_holds_its_letters_in_their_widths_and_little_else() {
        for &face in Face::ALL {
            let letters: BTreeSet<char> = "Epoch time (s)".chars().collect();
            let bytes = subset(face, &letters).unwrap();
            assert!(bytes.len() < 12_000, "{face:?}: {} bytes", bytes.len());
            let (cut, whole) = (FontRef::new(&bytes).unwrap(), FontRef::new(face.bytes()).unwrap());
            let width = |font: &FontRef, letter: char| {
                let glyph = font.charmap().map(letter)?;
                font.glyph_metrics(Size::unscaled(), LocationRef::default()).advance_width(glyph)
            };
            for letter in letters {
                assert!(width(&cut, letter).is_some(), "{face:?} lost {letter}");
                assert_eq!(width(&cut, letter), width(&whole, letter), "{face:?} {letter}");
            }
            assert_eq!(width(&cut, 'X'), None);
        }
    }
}
