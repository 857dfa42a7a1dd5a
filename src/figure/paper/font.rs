//! The typefaces of figures: the widths of letters and their outlines.

use std::ops::Range;
use std::sync::OnceLock;

use harfrust::{Direction, Feature, FontRef, ShapeOptions, ShaperData, Tag, UnicodeBuffer};
use skrifa::instance::{LocationRef, Size};
use skrifa::outline::{DrawSettings, OutlinePen};
use skrifa::{GlyphId, MetadataProvider};
use strum::VariantArray;

use super::path::Segment;
use crate::figure::style::Family;

/// A typeface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, VariantArray)]
pub enum Face {
    /// Inter.
    Sans,
    /// Inter, semibold.
    SansStrong,
    /// Source Serif 4.
    Serif,
    /// Source Serif 4, semibold.
    SerifStrong,
}

/// One letter of a line.
#[derive(Clone, Debug, PartialEq)]
pub struct Glyph {
    /// Its number in the typeface.
    pub id: u16,
    /// The distance to the next letter, as a multiple of the type size.
    pub advance: f64,
    /// The bytes of the text that it shows.
    pub range: Range<usize>,
}

struct Loaded {
    font: FontRef<'static>,
    shaper: ShaperData,
    units: f64,
    ascent: f64,
    descent: f64,
    capital: f64,
}

static SANS: OnceLock<Option<Loaded>> = OnceLock::new();
static SANS_STRONG: OnceLock<Option<Loaded>> = OnceLock::new();
static SERIF: OnceLock<Option<Loaded>> = OnceLock::new();
static SERIF_STRONG: OnceLock<Option<Loaded>> = OnceLock::new();

impl Face {
    /// All faces.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// The face of a family.
    pub fn of(family: Family, strong: bool) -> Self {
        match (family, strong) {
            (Family::Sans, false) => Self::Sans,
            (Family::Sans, true) => Self::SansStrong,
            (Family::Serif, false) => Self::Serif,
            (Family::Serif, true) => Self::SerifStrong,
        }
    }

    /// The family's name, and its weight.
    pub fn name(self) -> (&'static str, u16) {
        match self {
            Self::Sans => ("Inter", 400),
            Self::SansStrong => ("Inter", 600),
            Self::Serif => ("Source Serif 4", 400),
            Self::SerifStrong => ("Source Serif 4", 600),
        }
    }

    /// The file.
    pub fn bytes(self) -> &'static [u8] {
        match self {
            Self::Sans => include_bytes!("../../../assets/fonts/Inter-Regular.otf"),
            Self::SansStrong => include_bytes!("../../../assets/fonts/Inter-SemiBold.otf"),
            Self::Serif => include_bytes!("../../../assets/fonts/SourceSerif4-Regular.ttf"),
            Self::SerifStrong => include_bytes!("../../../assets/fonts/SourceSerif4-SemiBold.ttf"),
        }
    }

    fn loaded(self) -> Option<&'static Loaded> {
        let place = match self {
            Self::Sans => &SANS,
            Self::SansStrong => &SANS_STRONG,
            Self::Serif => &SERIF,
            Self::SerifStrong => &SERIF_STRONG,
        };
        let load = || {
            let font = FontRef::new(self.bytes()).ok()?;
            let metrics = font.metrics(Size::unscaled(), LocationRef::default());
            let units = f64::from(metrics.units_per_em);
            let capital = metrics.cap_height.map_or(0.7, |height| f64::from(height) / units);
            Some(Loaded {
                shaper: ShaperData::new(&font),
                units,
                // The height that letters in figures need; the typeface's own line spacing is greater.
                ascent: capital + 0.06,
                descent: 0.22,
                capital,
                font,
            })
        };
        place.get_or_init(load).as_ref()
    }

    /// The distance from the baseline to the top of letters, as a multiple of the type size.
    pub fn ascent(self) -> f64 {
        self.loaded().map_or(0.8, |loaded| loaded.ascent)
    }

    /// The distance from the baseline to the lowest part of letters, as a multiple of the type size.
    pub fn descent(self) -> f64 {
        self.loaded().map_or(0.2, |loaded| loaded.descent)
    }

    /// The height of capitals and digits, as a multiple of the type size.
    pub fn capital(self) -> f64 {
        self.loaded().map_or(0.7, |loaded| loaded.capital)
    }

    /// The text in characters that the face has: narrow spaces become plain ones, and missing characters become question marks.
    pub fn settable(self, text: &str) -> String {
        let Some(loaded) = self.loaded() else { return text.to_owned() };
        let characters = loaded.font.charmap();
        let has = |character: char| characters.map(character).is_some();
        let instead = |character: char| match character {
            _ if character.is_control() => ' ',
            _ if has(character) => character,
            '\u{202f}' if has('\u{2009}') => '\u{2009}',
            '\u{202f}' | '\u{2009}' | '\u{a0}' => ' ',
            '→' => '›',
            _ => '?',
        };
        text.chars().map(instead).collect()
    }

    /// The letters of a text with their positions, with kerning and without ligatures.
    pub fn set(self, text: &str) -> Vec<Glyph> {
        let Some(loaded) = self.loaded() else { return Vec::new() };
        let mut buffer = UnicodeBuffer::new();
        buffer.push_str(text);
        buffer.set_direction(Direction::LeftToRight);
        buffer.guess_segment_properties();
        let plain = [Feature::new(Tag::new(b"liga"), 0, ..), Feature::new(Tag::new(b"clig"), 0, ..)];
        let shaper = loaded.shaper.shaper(&loaded.font).build();
        let set = shaper.shape(buffer, ShapeOptions::new().features(&plain));
        let starts: Vec<usize> = set.glyph_infos().iter().map(|info| info.cluster as usize).collect();
        let glyphs = set.glyph_infos().iter().zip(set.glyph_positions()).enumerate();
        let glyph = |(index, (info, position)): (usize, (&harfrust::GlyphInfo, &harfrust::GlyphPosition))| Glyph {
            id: u16::try_from(info.glyph_id).unwrap_or(0),
            advance: f64::from(position.x_advance) / loaded.units,
            range: starts[index]..starts.get(index + 1).copied().unwrap_or(text.len()).max(starts[index]),
        };
        glyphs.map(glyph).collect()
    }

    /// The length of a text, as a multiple of the type size.
    pub fn measure(self, text: &str) -> f64 {
        self.set(&self.settable(text)).iter().map(|glyph| glyph.advance).sum()
    }

    /// The outline of a letter at this type size. The start of its baseline is at 0, and y increases downwards.
    pub fn outline(self, id: u16, size: f64) -> Vec<Segment> {
        let mut pen = Pen::default();
        if let Some(loaded) = self.loaded()
            && let Some(glyph) = loaded.font.outline_glyphs().get(GlyphId::new(u32::from(id)))
        {
            // A letter that cannot be drawn is left out. All letters of these files can be drawn.
            let _ = glyph.draw(DrawSettings::unhinted(Size::new(size as f32), LocationRef::default()), &mut pen);
        }
        pen.segments
    }
}

#[derive(Default)]
struct Pen {
    segments: Vec<Segment>,
    at: (f64, f64),
}

impl Pen {
    fn go(&mut self, x: f32, y: f32) -> (f64, f64) {
        self.at = (f64::from(x), -f64::from(y));
        self.at
    }
}

impl OutlinePen for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.go(x, y);
        self.segments.push(Segment::Move(x, y));
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.go(x, y);
        self.segments.push(Segment::Line(x, y));
    }

    fn quad_to(&mut self, cx: f32, cy: f32, x: f32, y: f32) {
        let ((sx, sy), (cx, cy)) = (self.at, (f64::from(cx), -f64::from(cy)));
        let (x, y) = self.go(x, y);
        let third = |end: f64, control: f64| end + 2.0 / 3.0 * (control - end);
        self.segments.push(Segment::Cubic([third(sx, cx), third(sy, cy), third(x, cx), third(y, cy), x, y]));
    }

    fn curve_to(&mut self, ax: f32, ay: f32, bx: f32, by: f32, x: f32, y: f32) {
        let [ax, ay, bx, by] = [ax, -ay, bx, -by].map(f64::from);
        let (x, y) = self.go(x, y);
        self.segments.push(Segment::Cubic([ax, ay, bx, by, x, y]));
    }

    fn close(&mut self) {
        self.segments.push(Segment::Close);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_face_loads_measures_and_draws() {
        for &face in Face::ALL {
            assert!(face.measure("Epoch time (s)") > 4.0, "{face:?}");
            assert!(face.measure("AV") < face.measure("A") + face.measure("V"), "{face:?} has no kerning");
            let glyph = &face.set("g")[0];
            assert!(face.outline(glyph.id, 10.0).len() > 4, "{face:?}");
        }
    }

    #[test]
    fn what_a_face_lacks_is_replaced_and_text_keeps_its_length_in_letters() {
        for &face in Face::ALL {
            let text = face.settable("14\u{202f}981 → 漢\n×−µ");
            assert!(face.set(&text).iter().all(|glyph| glyph.id != 0), "{face:?}: {text}");
        }
    }
}
