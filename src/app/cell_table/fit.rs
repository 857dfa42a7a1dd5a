//! How a table fits into its room: the widths of its columns, where their texts wrap, and the heights of its rows.

use std::sync::Arc;

use eframe::egui::{Color32, FontId, Galley, Ui};

use super::texts::{Heights, heading, is_level, is_verdict};
use super::{CellTable, Shown};
use crate::app::theme::{BODY, GRID, SMALL};

/// Height of a row of one line.
pub(super) const ROW: f32 = 24.0;
/// Height of each further line.
const LINE: f32 = 16.0;
/// Height of a heading: name above unit.
pub(super) const HEAD: f32 = 40.0;
/// The width at which text wraps, by the width of the table: the verdict fits completely even in the narrowest one.
const WRAPS: [(f32, f32); 4] = [(800.0, 164.0), (1000.0, 200.0), (1500.0, 236.0), (f32::INFINITY, 420.0)];
/// The width of a column beside its text.
const PADDING: f32 = 5.0 * GRID;
/// The width at which text of columns that scroll sideways wraps: there, a wide column costs less than high rows.
const WIDE_WRAP: f32 = 420.0;
/// Room beside the columns and below the rows, for the bars that scroll.
const SCROLL_BARS: f32 = 14.0;
/// The share of the width that fixed columns may take.
const MOST_PINNED: f32 = 0.7;

/// How the displayed columns fit into the room.
pub(super) struct Fit {
    /// The width at which each column's texts wrap.
    pub(super) wraps: Vec<f32>,
    /// The width of each column.
    pub(super) widths: Vec<f32>,
    /// Whether each column got what its longest text needs, from the room that was left.
    pub(super) is_whole: Vec<bool>,
    /// The number of columns that stay visible.
    pub(super) pinned: usize,
    /// The width at which texts of columns that stay visible wrap.
    pub(super) narrow: f32,
}

/// The height of a table that shows this many rows of one line.
pub fn height_of_rows(rows: usize) -> f32 {
    HEAD + rows as f32 * ROW + SCROLL_BARS
}

impl CellTable<'_> {
    /// Fits the columns into the available width. What is left goes to the columns whose texts would wrap, the first ones first.
    pub(super) fn fit(&self, ui: &Ui) -> Fit {
        let room = ui.available_width();
        let narrow = WRAPS.into_iter().find(|(most, _)| room < *most).map_or(f32::INFINITY, |(_, wrap)| wrap);
        let width = |(place, wrap): (&usize, &f32)| self.width(ui, *place, *wrap);
        let mut wraps = vec![narrow; self.places.len()];
        let mut widths: Vec<f32> = self.places.iter().zip(&wraps).map(width).collect();
        let pinned = self.pinned(&widths, room);
        // The verdict is seen without scrolling even where nothing is fixed.
        let first_wide = pinned.max(self.verdict().map_or(0, |verdict| verdict + 1));
        wraps[first_wide..].fill(narrow.max(WIDE_WRAP));
        widths = self.places.iter().zip(&wraps).map(width).collect();
        let mut left = room - SCROLL_BARS - widths.iter().sum::<f32>();
        let mut is_whole = vec![false; self.places.len()];
        for (column, place) in self.places.iter().enumerate().filter(|(_, place)| self.shape(**place).wraps) {
            let whole = self.width(ui, *place, f32::INFINITY);
            let more = whole - widths[column];
            if more > 0.0 && more <= left {
                left -= more;
                (widths[column], wraps[column], is_whole[column]) = (whole, whole - PADDING + 1.0, true);
            }
        }
        Fit { wraps, widths, is_whole, pinned, narrow }
    }

    /// The number of columns that stay visible: those up to the verdict, and the check values and the evidence behind it, as far as enough
    /// room is left for the others; if there is no room for the verdict, the levels in front of it, which name the row.
    fn pinned(&self, widths: &[f32], room: f32) -> usize {
        let shown: Vec<&Shown> = self.shown().collect();
        let Some(verdict) = self.verdict() else { return 0 };
        let checks = shown[verdict + 1..].iter().take_while(|shown| self.texts.is_check(self.table, shown)).count();
        let fits = |count: &usize| widths.iter().take(*count).sum::<f32>() <= MOST_PINNED * room;
        let names_row = |shown: &&&Shown| matches!(shown, Shown::Value(place) if is_level(&self.table.columns[*place]));
        let levels = shown[..verdict].iter().take_while(names_row).count();
        let up_to_verdict = (verdict + 1..=verdict + 1 + checks).rev().find(fits);
        up_to_verdict.or(Some(levels).filter(fits)).unwrap_or(0)
    }

    /// The place of the verdict among the displayed columns.
    fn verdict(&self) -> Option<usize> {
        self.shown().position(|shown| matches!(shown, Shown::Value(place) if is_verdict(&self.table.columns[*place])))
    }

    /// The top of each row, and the bottom of the last one.
    pub(super) fn offsets(&self, ui: &Ui, wraps: &[f32]) -> Vec<f32> {
        let key = (wraps.to_vec(), ui.pixels_per_point(), self.places.to_vec());
        let mut heights = self.texts.heights.borrow_mut();
        if heights.key != key {
            *heights = Heights { key, by_row: self.heights(ui, wraps) };
        }
        let mut offsets = Vec::with_capacity(self.order.len() + 1);
        offsets.push(0.0);
        for row in self.order {
            let height = heights.by_row.get(*row).copied().unwrap_or(ROW);
            offsets.push(offsets.last().copied().unwrap_or_default() + height);
        }
        offsets
    }

    /// The height of each row; wrapped texts make a row higher.
    fn heights(&self, ui: &Ui, wraps: &[f32]) -> Vec<f32> {
        let columns = self.places.iter().copied().zip(wraps.iter().copied());
        let wrapping: Vec<(usize, f32)> = columns.filter(|(place, _)| self.shape(*place).wraps).collect();
        let least = wrapping.iter().map(|(_, wrap)| *wrap).fold(f32::INFINITY, f32::min);
        let height = |row: usize| {
            // No letter is wider than high: a short text is one line, whatever it says.
            let most_chars = self.texts.wrapping_chars.get(row).copied().unwrap_or_default();
            if most_chars as f32 * BODY <= least {
                return ROW;
            }
            let texts = wrapping.iter().map(|(place, wrap)| (self.text(row, *place), *wrap));
            let long = texts.filter(|(text, wrap)| text.contains('\n') || text.chars().count() as f32 * BODY > *wrap);
            let lines = long.map(|(text, wrap)| wrapped(ui, text, Color32::WHITE, wrap).rows.len()).max().unwrap_or(1);
            ROW + LINE * lines.saturating_sub(1) as f32
        };
        (0..self.texts.texts.len()).map(height).collect()
    }

    /// Width of a column's longest text.
    fn width(&self, ui: &Ui, place: usize, wrap: f32) -> f32 {
        let shown = &self.texts.columns[place];
        let shape = self.shape(place);
        let size = if matches!(shown, Shown::Interval(_)) { SMALL } else { BODY };
        let width = |text: &str, size: f32| line_width(ui, text, size);
        let longest = width(self.text(shape.longest, place), size);
        let longest = if shape.wraps { longest.min(wrap) } else { longest };
        let (name, unit) = heading(self.table, shown);
        let head = (width(&name, BODY) + 18.0).max(width(&unit, SMALL));
        let least = if self.is_swatched(shown) { longest + 20.0 } else { longest };
        let most = if shape.wraps { f32::INFINITY } else { 360.0 };
        (least.max(head) + PADDING).clamp(40.0, most).round()
    }
}

/// Text that wraps if it is long.
pub(super) fn wrapped(ui: &Ui, text: &str, colour: Color32, wrap: f32) -> Arc<Galley> {
    ui.painter().layout(unbroken(text), FontId::proportional(BODY), colour, wrap)
}

/// The width of a text on one line.
pub(super) fn line_width(ui: &Ui, text: &str, size: f32) -> f32 {
    ui.painter().layout_no_wrap(text.to_owned(), FontId::proportional(size), Color32::WHITE).size().x
}

/// A text in which no line ends between a number and the unit or the word behind it.
fn unbroken(text: &str) -> String {
    let mut unbroken = String::with_capacity(text.len());
    for word in text.split_inclusive(' ') {
        let bare = word.trim_end_matches(' ');
        let is_number = !bare.is_empty() && bare.chars().all(|letter| letter.is_ascii_digit() || letter == '.');
        unbroken.push_str(bare);
        if bare.len() < word.len() {
            unbroken.push(if is_number { '\u{a0}' } else { ' ' });
        }
    }
    unbroken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_ends_between_a_number_and_its_unit() {
        assert_eq!(unbroken("only differences above 76 % would show"), "only differences above 76\u{a0}% would show");
        assert_eq!(unbroken("drifts, 1 cancelled"), "drifts, 1\u{a0}cancelled");
        assert_eq!(unbroken("fp16 is faster, n = 2"), "fp16 is faster, n = 2");
    }
}
