//! The colours of levels and their second signs, which are the same on every screen and in every figure.
//!
//! The colours are those of Okabe and Ito (2008), which people with any common colour vision can distinguish. Markers, hatches and dashes
//! distinguish levels in grey prints.

use super::chart::Look;
pub use super::sign::{DashKind, Hatch, Marker, OwnLook};
use crate::analysis::Setting;
use crate::plan::Level;

/// Okabe and Ito's colours as sRGB bytes, in their order, but with black last, because text and axes are black.
pub const COLOURS: [[u8; 3]; 8] = [
    [0xe6, 0x9f, 0x00], // orange
    [0x56, 0xb4, 0xe9], // sky blue
    [0x00, 0x9e, 0x73], // bluish green
    [0xf0, 0xe4, 0x42], // yellow
    [0x00, 0x72, 0xb2], // blue
    [0xd5, 0x5e, 0x00], // vermillion
    [0xcc, 0x79, 0xa7], // reddish purple
    [0x00, 0x00, 0x00], // black
];

/// Their names.
pub const COLOUR_NAMES: [&str; 8] = ["orange", "sky blue", "green", "yellow", "blue", "vermillion", "purple", "black"];

/// The colour of levels that are off, and of published or extrapolated values.
pub const GREY: [u8; 3] = [0x8c, 0x8c, 0x8c];

/// The dash pattern of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dash(
    /// Lengths of strokes and gaps in turn, as multiples of the line's width; empty for a solid line.
    pub &'static [f32],
);

/// The second sign of a level, for readers who cannot see its colour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sign {
    /// The marker of points.
    pub marker: Marker,
    /// The hatch of bars.
    pub hatch: Hatch,
    /// The dash of lines.
    pub dash: Dash,
}

const SIGNS: [Sign; 8] = [
    Sign { marker: Marker::Circle, hatch: Hatch::Plain, dash: Dash(&[]) },
    Sign { marker: Marker::Square, hatch: Hatch::Rising, dash: Dash(&[6.0, 3.0]) },
    Sign { marker: Marker::Up, hatch: Hatch::Falling, dash: Dash(&[1.5, 2.5]) },
    Sign { marker: Marker::Diamond, hatch: Hatch::Lattice, dash: Dash(&[6.0, 2.5, 1.5, 2.5]) },
    Sign { marker: Marker::Down, hatch: Hatch::Horizontal, dash: Dash(&[10.0, 3.0]) },
    Sign { marker: Marker::Cross, hatch: Hatch::Vertical, dash: Dash(&[6.0, 2.5, 1.5, 2.5, 1.5, 2.5]) },
    Sign { marker: Marker::Plus, hatch: Hatch::Grid, dash: Dash(&[3.0, 3.0]) },
    Sign { marker: Marker::Asterisk, hatch: Hatch::Dots, dash: Dash(&[10.0, 2.5, 3.0, 2.5]) },
];

/// The index of a level among all levels of its factor. It decides the level's colour and sign, regardless of which other levels are
/// selected.
///
/// A named level has its index in the registry, and a usual number its index among the usual numbers. Any other number has an index from
/// [`COLOURS`]`.len()` to 63 that depends only on its value. There are 64 different looks, and the first ones are reserved for the levels
/// with a fixed index.
pub fn level_index(setting: &Setting, level: &Level) -> usize {
    setting.place(level).unwrap_or_else(|| {
        let hash = stable_hash(&level.to_string());
        let place = COLOURS.len() + hash % 64;
        if place < 64 { place } else { COLOURS.len() + hash / 64 % (64 - COLOURS.len()) }
    })
}

impl Look {
    /// The look of a level.
    pub fn of_level(setting: &Setting, level: &Level) -> Self {
        // A colour that a user chose is used even if the level means that something is off.
        match setting.colours.iter().find(|(known, _)| known == level) {
            Some((_, place)) => Self::Place(*place),
            None => Self::Level(level.clone(), level_index(setting, level)),
        }
    }

    /// The level that it represents, if it represents a level.
    pub fn level(&self) -> Option<&Level> {
        match self {
            Self::Level(level, _) => Some(level),
            Self::Own(usual, _) => usual.level(),
            Self::Place(_) | Self::Grey => None,
        }
    }

    /// The colour as sRGB bytes on white; grey if the level means that something is off.
    pub fn colour(&self) -> [u8; 3] {
        match self {
            Self::Level(level, _) if level.as_text() == Some("off") => GREY,
            Self::Level(_, place) | Self::Place(place) => COLOURS[place % COLOURS.len()],
            Self::Grey => GREY,
            Self::Own(usual, own) => own.colour.unwrap_or_else(|| usual.colour()),
        }
    }

    /// The second sign. When colours repeat, signs are shifted, so that there are 64 different looks.
    pub fn sign(&self) -> Sign {
        self.sign_of(0)
    }

    /// The second sign of the series with this index among series of the same colour.
    pub fn sign_of(&self, variant: usize) -> Sign {
        match self {
            Self::Own(usual, own) => {
                let Sign { marker, hatch, dash } = usual.sign_of(variant);
                Sign {
                    marker: own.marker.unwrap_or(marker),
                    hatch: own.hatch.unwrap_or(hatch),
                    dash: own.dash.map_or(dash, |kind| SIGNS[kind as usize].dash),
                }
            }
            look => sign_at(look.place() + variant),
        }
    }

    /// The index that decides colour and sign.
    pub(super) fn place(&self) -> usize {
        match self {
            Self::Level(_, place) | Self::Place(place) => *place,
            Self::Grey => 0,
            Self::Own(usual, _) => usual.place(),
        }
    }
}

/// A colour as it is drawn on a dark background: black becomes white.
pub fn on_dark(colour: [u8; 3]) -> [u8; 3] {
    if colour == [0; 3] { [0xff; 3] } else { colour }
}

/// A colour as it is drawn for lines and points on white: bright yellow is darkened, because thin lines of it would not be visible.
pub(super) fn on_white(colour: [u8; 3]) -> [u8; 3] {
    if luminance(colour) > 0.6 { mix(colour, [0; 3], 0.22) } else { colour }
}

/// The perceived brightness, from 0 for black to 1 for white.
pub(super) fn luminance(colour: [u8; 3]) -> f64 {
    let [red, green, blue] = colour.map(|byte| (f64::from(byte) / 255.0).powf(2.2));
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

/// A mixture of two colours.
pub(super) fn mix(from: [u8; 3], to: [u8; 3], share: f64) -> [u8; 3] {
    let byte = |index: usize| {
        let (from, to) = (f64::from(from[index]), f64::from(to[index]));
        (from + (to - from) * share.clamp(0.0, 1.0)).round() as u8
    };
    [byte(0), byte(1), byte(2)]
}

/// The second sign of an index.
fn sign_at(place: usize) -> Sign {
    SIGNS[(place + place / COLOURS.len()) % SIGNS.len()]
}

/// The hash FNV-1a, which is the same in every version and on every machine.
fn stable_hash(text: &str) -> usize {
    let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    // The lower bits are poorly distributed for short texts.
    (hash ^ (hash >> 15)) as usize
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::plan::{Domain, image};

    fn setting(key: &str) -> Setting {
        Setting::of_factor(&image::spec(), &key.into())
    }

    fn place(key: &str, level: &Level) -> usize {
        level_index(&setting(key), level)
    }

    fn colour(key: &str, level: &Level) -> [u8; 3] {
        Look::of_level(&setting(key), level).colour()
    }

    fn sign(key: &str, level: &Level) -> Sign {
        Look::of_level(&setting(key), level).sign()
    }

    #[test]
    fn named_levels_have_their_place_in_the_registry() {
        let place_of = |name| place("precision", &Level::text(name));
        assert_eq!(["fp32", "fp64", "fp16", "bf16"].map(place_of), [0, 1, 2, 3]);
    }

    #[test]
    fn no_two_named_levels_of_a_factor_look_alike_in_colour_or_in_sign() {
        for factor in &image::spec().factors {
            let Domain::Names(names) = &factor.domain else { continue };
            let levels: Vec<Level> = names.iter().map(|name| Level::text(name)).collect();
            let colours: HashSet<_> = levels.iter().map(|level| colour(&factor.key, level)).collect();
            let signs: HashSet<_> = levels.iter().map(|level| sign(&factor.key, level).marker).collect();
            assert_eq!((colours.len(), signs.len()), (names.len(), names.len()), "{}", factor.key);
        }
    }

    #[test]
    fn usual_numbers_are_told_apart_and_a_number_is_the_same_in_any_type() {
        let colours: HashSet<_> = (1..=8).map(|gpus| colour("gpus", &Level::Integer(gpus))).collect();
        assert_eq!(colours.len(), 8);
        assert_eq!(place("image_size", &Level::Integer(224)), place("image_size", &Level::Number(224.0)));
    }

    #[test]
    fn a_number_that_is_not_usual_keeps_its_place() {
        let unusual = place("image_size", &Level::Integer(333));
        assert!(unusual >= COLOURS.len());
        assert_eq!(unusual, place("image_size", &Level::Number(333.0)));
        assert_ne!(unusual, place("image_size", &Level::Integer(334)));
    }

    #[test]
    fn no_number_looks_like_a_usual_one() {
        let setting = setting("image_size");
        for size in 28..=2048 {
            let level = Level::Integer(size);
            let (index, is_usual) = (level_index(&setting, &level), setting.place(&level).is_some());
            assert!(is_usual == (index < COLOURS.len()) && index < 64, "{size} has place {index}");
        }
    }

    #[test]
    fn off_is_grey_and_unknown_factors_have_colours_too() {
        assert_eq!(colour("pin_memory", &Level::text("off")), GREY);
        assert_ne!(colour("pin_memory", &Level::text("on")), GREY);
        assert!(COLOURS.contains(&colour("no such factor", &Level::text("x"))));
    }

    #[test]
    fn signs_differ_where_colours_come_round_again() {
        let pairs: HashSet<_> =
            (0..64).map(|index: usize| (index % 8, (index + index / COLOURS.len()) % SIGNS.len())).collect();
        assert_eq!(pairs.len(), 64);
    }

    #[test]
    fn black_is_white_on_a_dark_ground() {
        assert_eq!(on_dark(COLOURS[7]), [0xff; 3]);
        assert_eq!(on_dark(COLOURS[0]), COLOURS[0]);
    }
}
