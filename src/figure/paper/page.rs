//! The page on which charts are laid out: paper of a style, or a part of a screen.

use super::side::Side;
use crate::figure::style::{Family, PT_PER_MM, Palette, Style, Width};

/// Margin of a page in points, so that no line is cut.
pub(super) const MARGIN: f64 = 1.5;

/// Distances in points that a panel of a composed figure must keep, so that its data is aligned with the data of other panels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Inset {
    /// Minimum distance of its data from its left edge.
    pub left: f64,
    /// Minimum distance of its data from its right edge.
    pub right: f64,
    /// The height in points by which its data is higher than usual.
    pub stretch: f64,
    /// Whether its axis of values has no name, because another panel names it.
    pub hides_values: bool,
}

/// The page on which charts are laid out.
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
    /// Maximum number of panels next to each other.
    pub(super) columns: usize,
    /// Maximum height of data next to an axis of numbers: with fewer than three panels next to each other, and with more.
    pub(super) heights: (f64, f64),
    /// The visible height on a screen, in points; `None` on paper.
    pub(super) sight: Option<f64>,
    /// The distances to keep as a panel of a composed figure; `None` for any other figure.
    pub(super) part: Option<Inset>,
}

impl Page {
    /// Paper of a style. It is as high as the charts.
    pub fn paper(style: &Style) -> Self {
        let (columns, high) = if style.width.is_wide() { (4, 165.0) } else { (2, 132.0) };
        let (width, size) = (style.width.pt(), style.size());
        let (family, palette) = (style.font, style.palette);
        Self { width, size, family, palette, columns, heights: (high, 132.0), sight: None, part: None }
    }

    /// A part of a screen. Bars are horizontal, with values at their ends. Charts use the visible height; a figure that needs more height
    /// is higher and scrolls.
    pub fn screen(width: f64, height: f64, size: f64) -> Self {
        // With a smaller width, axes would leave no room for data.
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

    /// Whether the axis of values to the left of panels in this column has a name.
    pub(super) fn names_values(&self, left: &Side, column: usize) -> bool {
        let hides = self.part.is_some_and(|part| part.hides_values);
        !(hides && column == 0 && matches!(left, Side::Numbers(_)))
    }

    /// Whether it is on a screen.
    pub(super) fn is_screen(&self) -> bool {
        self.sight.is_some()
    }
}
