//! Style of figures: width, type size, typeface and palette.

use serde::{Deserialize, Serialize};

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

/// Width of a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Width {
    /// One of two columns: 85 mm.
    #[default]
    Column,
    /// The whole page: 178 mm.
    Page,
}

impl Width {
    /// In millimetres.
    pub fn mm(self) -> f64 {
        match self {
            Self::Column => 85.0,
            Self::Page => 178.0,
        }
    }

    /// In points.
    pub fn pt(self) -> f64 {
        self.mm() * PT_PER_MM
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
    /// Smallest type size that is legible in print.
    pub const LEAST_PT: f64 = 6.0;
    /// Largest type size: that of the surrounding text.
    pub const MOST_PT: f64 = 10.0;

    /// The type size within its limits.
    pub fn size(&self) -> f64 {
        if self.size_pt.is_finite() { self.size_pt.clamp(Self::LEAST_PT, Self::MOST_PT) } else { 8.0 }
    }
}
