//! What charts are laid out on: paper of a style, or a part of a screen.

use super::side::Side;
use crate::figure::style::{Family, PT_PER_MM, Palette, Style, Width};

/// What a panel of a composed figure keeps to, in points, so that its data aligns with that of other panels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Inset {
    /// The least distance of its data from its left edge.
    pub left: f64,
    /// The least distance of its data from its right edge.
    pub right: f64,
    /// How much higher than usual its data is.
    pub stretch: f64,
    /// Another panel names its axis of values.
    pub hides_values: bool,
}

/// What charts are laid out on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Page {
    /// Its width in points.
    pub(super) width: f64,
    /// Its type size in points.
    pub(super) size: f64,
    /// Its typeface.
    pub(super) family: Family,
    /// Its palette.
    pub(super) palette: Palette,
    /// Most panels side by side.
    pub(super) columns: usize,
    /// Greatest height of data beside an axis of numbers, with fewer than three panels side by side and with more.
    pub(super) heights: (f64, f64),
    /// The height in sight on a screen, in points; none on paper.
    pub(super) sight: Option<f64>,
    /// What it keeps to as a panel of a composed figure; none of what stands alone.
    pub(super) part: Option<Inset>,
}

impl Page {
    /// Paper of a style: as high as the charts are.
    pub fn paper(style: &Style) -> Self {
        let (columns, high) = if style.width.is_wide() { (4, 165.0) } else { (2, 132.0) };
        let (width, size) = (style.width.pt(), style.size());
        let (family, palette) = (style.font, style.palette);
        Self { width, size, family, palette, columns, heights: (high, 132.0), sight: None, part: None }
    }

    /// A part of a screen. Bars run across it with their values at their ends, and charts use the height in sight; what needs more
    /// is higher, and scrolls.
    pub fn screen(width: f64, height: f64, size: f64) -> Self {
        // Narrower, axes leave no room for data.
        let width = width.max(160.0);
        let (family, palette) = (Family::Sans, Palette::Colour);
        let (heights, sight) = ((f64::INFINITY, f64::INFINITY), Some(height));
        Self { width, size, family, palette, columns: 8, heights, sight, part: None }
    }

    /// A panel of a composed figure of a style.
    pub(super) fn part(style: &Style, width: f64, part: Inset) -> Self {
        let style = Style { width: Width::of_mm(width / PT_PER_MM).unwrap_or_default(), ..*style };
        Self { width, part: Some(part), ..Self::paper(&style) }
    }

    /// Whether the axis of values to the left of panels in this column is named.
    pub(super) fn names_values(&self, left: &Side, column: usize) -> bool {
        let hides = self.part.is_some_and(|part| part.hides_values);
        !(hides && column == 0 && matches!(left, Side::Numbers(_)))
    }

    /// Whether it is on a screen.
    pub(super) fn is_screen(&self) -> bool {
        self.sight.is_some()
    }
}
