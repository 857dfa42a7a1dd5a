//! How a figure is set: its width, its size of type, its typeface and its colours.

use serde::{Deserialize, Serialize};

use super::font::Family;
use super::scene::PT_PER_MM;

/// The width of a figure.
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

/// The colours of a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Palette {
    /// Those of the levels, told apart by people with any common colour vision.
    #[default]
    Colour,
    /// Greys; markers, hatches and dashes tell levels apart.
    Grey,
}

/// How a figure is set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Style {
    /// How wide it is.
    pub width: Width,
    /// Its typeface.
    pub font: Family,
    /// Its colours.
    pub palette: Palette,
    /// The size of its type in points, from [`Style::LEAST_PT`] to [`Style::MOST_PT`].
    pub size_pt: f64,
}

impl Default for Style {
    fn default() -> Self {
        Self { width: Width::Column, font: Family::Sans, palette: Palette::Colour, size_pt: 8.0 }
    }
}

impl Style {
    /// The smallest type that print carries.
    pub const LEAST_PT: f64 = 6.0;
    /// The largest: that of the text around it.
    pub const MOST_PT: f64 = 10.0;

    /// The size of type within its limits.
    pub fn size(&self) -> f64 {
        if self.size_pt.is_finite() { self.size_pt.clamp(Self::LEAST_PT, Self::MOST_PT) } else { 8.0 }
    }
}
