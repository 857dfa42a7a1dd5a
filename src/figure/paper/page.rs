//! What charts are laid out on: paper of a style, or a part of a screen.

use crate::figure::style::{Family, Palette, Style};

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
}

impl Page {
    /// Paper of a style: as high as the charts are.
    pub fn paper(style: &Style) -> Self {
        let (columns, high) = if style.width.is_wide() { (4, 165.0) } else { (2, 132.0) };
        let (width, size) = (style.width.pt(), style.size());
        let (family, palette) = (style.font, style.palette);
        Self { width, size, family, palette, columns, heights: (high, 132.0), sight: None }
    }

    /// A part of a screen. Bars run across it with their values at their ends, and charts use the height in sight; what needs more
    /// is higher, and scrolls.
    pub fn screen(width: f64, height: f64, size: f64) -> Self {
        // Narrower, axes leave no room for data.
        let width = width.max(160.0);
        let (family, palette) = (Family::Sans, Palette::Colour);
        Self { width, size, family, palette, columns: 8, heights: (f64::INFINITY, f64::INFINITY), sight: Some(height) }
    }

    /// Whether it is on a screen.
    pub(super) fn is_screen(&self) -> bool {
        self.sight.is_some()
    }
}
