//! Style of figures: width, type size, typeface and palette.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::plan::number_text;

/// Points per millimetre.
pub const PT_PER_MM: f64 = 72.0 / 25.4;

/// Typeface: sans serif or serif.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Inter.
    #[default]
    Sans,
    /// Source Serif 4.
    Serif,
}

/// The width of a figure: the width of a venue's column or page, or any other width. In files it is a name, or a number of millimetres.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "WidthText", into = "WidthText")]
pub enum Width {
    /// One of two columns: 85 mm.
    #[default]
    Column,
    /// The whole page: 178 mm.
    Page,
    /// The width of a venue: its index in [`VENUES`].
    Venue(u8),
    /// Any other width, in tenths of a millimetre.
    Tenths(u16),
}

/// Widths of text in venues: names and millimetres, after the templates that they publish (IEEEtran, acmart sigconf, llncs, elsarticle,
/// neurips, beamer with 16:9).
pub const VENUES: [(&str, f64); 11] = [
    ("ieee-column", 88.9),
    ("ieee-page", 181.9),
    ("acm-column", 84.7),
    ("acm-page", 177.8),
    ("lncs", 122.0),
    ("elsevier-column", 90.0),
    ("elsevier-middle", 140.0),
    ("elsevier-page", 190.0),
    ("neurips", 139.7),
    ("icml-column", 82.6),
    ("slide", 140.0),
];

/// A width in the form of files.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum WidthText {
    Name(String),
    Mm(f64),
}

impl TryFrom<WidthText> for Width {
    type Error = String;

    fn try_from(text: WidthText) -> Result<Self, String> {
        match text {
            WidthText::Name(name) => name.parse(),
            WidthText::Mm(mm) => Self::of_mm(mm),
        }
    }
}

impl From<Width> for WidthText {
    fn from(width: Width) -> Self {
        match width {
            Width::Tenths(tenths) => Self::Mm(f64::from(tenths) / 10.0),
            named => Self::Name(named.to_string()),
        }
    }
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column => f.write_str("column"),
            Self::Page => f.write_str("page"),
            Self::Venue(place) => f.write_str(VENUES[usize::from(*place) % VENUES.len()].0),
            Self::Tenths(_) => write!(f, "{}mm", self.mm()),
        }
    }
}

impl FromStr for Width {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(known) = Self::named().find(|known| known.to_string() == text) {
            return Ok(known);
        }
        match text.strip_suffix("mm").unwrap_or(text).trim().parse() {
            Ok(mm) => Self::of_mm(mm),
            Err(_) => {
                let names: Vec<String> = Self::named().map(|known| known.to_string()).collect();
                Err(format!("{text:?} is not a width: use {}, or millimetres such as 90mm", names.join(", ")))
            }
        }
    }
}

impl Width {
    /// The smallest and the greatest width of a figure, in millimetres.
    pub const LIMITS_MM: (f64, f64) = (30.0, 500.0);

    /// The widths that have names.
    pub fn named() -> impl Iterator<Item = Self> {
        let venues = (0..).zip(VENUES).map(|(place, _)| Self::Venue(place));
        [Self::Column, Self::Page].into_iter().chain(venues)
    }

    /// A width in millimetres.
    ///
    /// # Errors
    /// No figure can have this width.
    pub fn of_mm(mm: f64) -> Result<Self, String> {
        let (least, most) = Self::LIMITS_MM;
        if (least..=most).contains(&mm) {
            Ok(Self::Tenths((10.0 * mm).round() as u16))
        } else {
            Err(format!("a figure is from {least} to {most} mm wide, not {mm}"))
        }
    }

    /// The width in millimetres.
    pub fn mm(self) -> f64 {
        match self {
            Self::Column => 85.0,
            Self::Page => 178.0,
            Self::Venue(place) => VENUES[usize::from(place) % VENUES.len()].1,
            Self::Tenths(tenths) => f64::from(tenths) / 10.0,
        }
    }

    /// The width in points.
    pub fn pt(self) -> f64 {
        self.mm() * PT_PER_MM
    }

    /// Whether more than two panels can be next to each other.
    pub(super) fn is_wide(self) -> bool {
        self.mm() > 130.0
    }
}

/// Palette of a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Palette {
    /// The colours of levels, distinguishable with any common colour vision.
    #[default]
    Colour,
    /// Greys; markers, hatches and dashes distinguish levels.
    Grey,
}

/// Style of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Style {
    /// Its width.
    pub width: Width,
    /// Its typeface.
    pub font: Family,
    /// Its palette.
    pub palette: Palette,
    /// Its type size in points, from [`Style::LEAST_PT`] to [`Style::MOST_PT`].
    pub size_pt: f64,
}

impl Default for Style {
    fn default() -> Self {
        Self { width: Width::Column, font: Family::Sans, palette: Palette::Colour, size_pt: 8.0 }
    }
}

impl Style {
    /// Smallest type size that is legible in print. There is a warning for smaller text.
    pub const LEGIBLE_PT: f64 = 6.0;
    /// Smallest type size.
    pub const LEAST_PT: f64 = 4.0;
    /// Largest type size, which slides have.
    pub const MOST_PT: f64 = 20.0;

    /// Replaces a type size outside its limits by the usual one; returns what is wrong with it.
    pub fn refuse_size(&mut self) -> Option<String> {
        let found = self.size_pt;
        if (Self::LEAST_PT..=Self::MOST_PT).contains(&found) {
            return None;
        }
        self.size_pt = Self::default().size_pt;
        let (least, most) = (Self::LEAST_PT, Self::MOST_PT);
        Some(format!("{} is not from {least} to {most} points", number_text(found)))
    }

    /// The type size within its limits.
    pub fn size(&self) -> f64 {
        if self.size_pt.is_finite() { self.size_pt.clamp(Self::LEAST_PT, Self::MOST_PT) } else { 8.0 }
    }
}
