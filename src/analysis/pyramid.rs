//! Draws long curves with few points: keeps the extremes of blocks, and of blocks of blocks, and derives from them what a screen's width
//! can show.
//!
//! If more than four points fall into one column of pixels, only the first, the lowest, the highest and the last of them are drawn (M4 of
//! Jugel and others, 2014): the picture is the same, no extreme is lost, and none is invented. Values that are not numbers are gaps.

use std::ops::Range;

use super::places::{Places, STRIDE};

/// The number of values in a block of the lowest level.
const BLOCK: usize = STRIDE;

/// Levels whose blocks are drawn as a whole, with the number of values in a block: used if a column contains at least four such blocks.
const DRAWN_WHOLE: [(usize, usize); 2] = [(1, BLOCK * BLOCK), (0, BLOCK)];

/// The lowest and the highest of some values; if there are none, the lowest is above the highest.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Extent {
    min: f64,
    max: f64,
}

impl Extent {
    const NONE: Self = Self { min: f64::INFINITY, max: f64::NEG_INFINITY };

    // `f64::min` and `max` ignore NaN.
    fn with(self, value: f64) -> Self {
        Self { min: self.min.min(value), max: self.max.max(value) }
    }

    fn and(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// The values of a curve, and the extremes of their blocks. New values are added at the end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pyramid {
    values: Vec<f64>,
    /// `levels[k][i]` covers the values from `i * BLOCK^(k + 1)` on, as many as a block of that level has.
    levels: Vec<Vec<Extent>>,
}

/// The part of a curve to draw, and the resolution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View {
    /// The left edge.
    pub from: f64,
    /// The right edge.
    pub to: f64,
    /// The number of pixel columns between the edges.
    pub columns: usize,
}

impl Pyramid {
    /// Adds a value at the end. A value that is not finite is a gap.
    pub fn push(&mut self, value: f64) {
        let value = if value.is_finite() { value } else { f64::NAN };
        let index = self.values.len();
        self.values.push(value);
        let mut size = BLOCK;
        for level in 0.. {
            if level == self.levels.len() {
                // A level with a single block saves nothing over the few blocks of the level below.
                if self.values.len() <= size {
                    break;
                }
                self.start_level();
            }
            let Some(blocks) = self.levels.get_mut(level) else { break };
            match blocks.get_mut(index / size) {
                Some(extent) => *extent = extent.with(value),
                None => blocks.push(Extent::NONE.with(value)),
            }
            size = size.saturating_mul(BLOCK);
        }
    }

    /// Starts the next level with its first block.
    fn start_level(&mut self) {
        let first = match self.levels.last() {
            Some(below) => below.iter().take(BLOCK).fold(Extent::NONE, |all, extent| all.and(*extent)),
            None => self.values.iter().take(BLOCK).fold(Extent::NONE, |all, value| all.with(*value)),
        };
        self.levels.push(vec![first]);
    }

    /// The values, gaps as NaN.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Whether there is any value other than gaps.
    pub fn has_values(&self) -> bool {
        self.extent(0, self.values.len()).is_some()
    }

    /// The lowest and the highest of the values from `from` up to but excluding `to`; `None` if all are gaps.
    pub fn extent(&self, from: usize, to: usize) -> Option<(f64, f64)> {
        let extent = self.extent_of(from, to.min(self.values.len()));
        (extent.min <= extent.max).then_some((extent.min, extent.max))
    }

    fn extent_of(&self, mut from: usize, mut to: usize) -> Extent {
        let mut extent = Extent::NONE;
        let plain = |extent: Extent, values: &[f64]| values.iter().fold(extent, |all, value| all.with(*value));
        if to.saturating_sub(from) < 2 * BLOCK || self.levels.is_empty() {
            return plain(extent, self.values.get(from..to).unwrap_or_default());
        }
        // First the incomplete blocks at both ends, then the same one level higher.
        let (first, last) = (from.next_multiple_of(BLOCK), to / BLOCK * BLOCK);
        extent = plain(extent, &self.values[from..first]);
        extent = plain(extent, &self.values[last..to]);
        (from, to) = (first / BLOCK, last / BLOCK);
        for (level, blocks) in self.levels.iter().enumerate() {
            let all = |extent: Extent, blocks: &[Extent]| blocks.iter().fold(extent, |all, block| all.and(*block));
            if to.saturating_sub(from) < 2 * BLOCK || level + 1 == self.levels.len() {
                return all(extent, blocks.get(from..to).unwrap_or_default());
            }
            let (first, last) = (from.next_multiple_of(BLOCK), to / BLOCK * BLOCK);
            extent = all(extent, &blocks[from..first]);
            extent = all(extent, &blocks[last..to]);
            (from, to) = (first / BLOCK, last / BLOCK);
        }
        extent
    }

    /// The pieces of the curve in a view, each without gaps, with about four points per column; `places` are the x positions. A piece that
    /// crosses an edge continues to the next point outside.
    ///
    /// If a column contains many blocks of values, whole blocks are used instead of values: the extremes of a block are drawn in the column
    /// in which it begins, which shifts them by at most a quarter of a column.
    pub fn pieces(&self, places: &Places, view: View) -> Vec<Vec<[f64; 2]>> {
        let length = self.values.len().min(places.len());
        let (xs, width) = (&places[..length], (view.to - view.from) / view.columns.max(1) as f64);
        let mut pieces = Pieces::default();
        // This also rejects edges that are not numbers.
        if length == 0 || !(width > 0.0 && width.is_finite()) {
            return pieces.all;
        }
        let first = xs.partition_point(|&x| x < view.from);
        let end = xs.partition_point(|&x| x <= view.to);
        if let Some(before) = first.checked_sub(1) {
            pieces.point(xs[before], self.values[before]);
        }
        let per_column = (end - first) / view.columns.max(1);
        let whole = DRAWN_WHOLE.into_iter().find(|(_, size)| per_column >= 4 * size);
        let (mut at, mut usual) = (first, 1);
        while at < end {
            let mut until = end;
            if let Some((level, size)) = whole {
                if at.is_multiple_of(size) {
                    at = self.blocks(level, size, places.landmarks(), at..end, width, &mut pieces);
                }
                // Up to where blocks may be used again.
                until = end.min((at + 1).next_multiple_of(size));
            }
            let Some(&x) = xs[..end].get(at) else { break };
            usual = first_from(&xs[at..until], column_end(x, width), usual).max(1);
            self.column(xs, at, at + usual, &mut pieces);
            at += usual;
        }
        if end < length {
            pieces.point(xs[end], self.values[end]);
        }
        pieces.finish()
    }

    /// Draws columns from whole blocks of a level, as far as the blocks are narrow and lie within `range`, which begins with a block;
    /// returns where it stopped.
    fn blocks(
        &self,
        level: usize,
        size: usize,
        landmarks: &[f64],
        range: Range<usize>,
        width: f64,
        pieces: &mut Pieces,
    ) -> usize {
        let Some(extents) = self.levels.get(level) else { return range.start };
        let place = |block: usize| landmarks[block * size / STRIDE];
        // A block ends where the next one begins, so the very last block is left to be drawn from its values.
        let blocks = (range.end / size).min(landmarks.len().saturating_sub(1) * STRIDE / size);
        let is_narrow = |block: usize| block < blocks && place(block + 1) - place(block) <= width / 4.0;
        let mut block = range.start / size;
        while is_narrow(block) {
            let (x, edge) = (place(block), column_end(place(block), width));
            let mut extent = Extent::NONE;
            while is_narrow(block) && place(block) < edge {
                extent = extent.and(extents[block]);
                block += 1;
            }
            if extent.min <= extent.max {
                // Each column gets a point even if the curve is flat: the next part begins here.
                pieces.point(x, extent.min);
                pieces.extremes(x, extent.min, extent.max);
            } else {
                pieces.end();
            }
        }
        block * size
    }

    fn column(&self, xs: &[f64], from: usize, to: usize, pieces: &mut Pieces) {
        if to - from <= 4 {
            (from..to).for_each(|index| pieces.point(xs[index], self.values[index]));
            return;
        }
        let (first, last) = (self.values[from], self.values[to - 1]);
        // A gap at either end may be visible; a gap inside is narrower than a pixel.
        pieces.point(xs[from], first);
        if let Some((min, max)) = self.extent(from, to) {
            pieces.extremes(xs[from], min, max);
        }
        if last.is_nan() || pieces.last() != Some(last) {
            pieces.point(xs[to - 1], last);
        }
    }
}

/// The end of the column that contains a position. Columns are counted from 0, not from the edge, so that a moving curve does not shimmer.
fn column_end(x: f64, width: f64) -> f64 {
    ((x / width).floor() + 1.0) * width
}

/// The first index of `xs` at or beyond `edge`. The search starts at a guess and takes growing steps: a million positions do not fit into a
/// cache, and most columns have about as many points as the previous one.
fn first_from(xs: &[f64], edge: f64, guess: usize) -> usize {
    let guess = guess.min(xs.len());
    let (mut low, mut high, mut step) = (guess, guess, 1);
    while low > 0 && xs[low - 1] >= edge {
        (low, high) = (low.saturating_sub(step), low - 1);
        step *= 2;
    }
    step = 1;
    while high < xs.len() && xs[high] < edge {
        (low, high) = (high + 1, (high + step).min(xs.len()));
        step *= 2;
    }
    low + xs[low..high].partition_point(|&x| x < edge)
}

#[derive(Default)]
struct Pieces {
    all: Vec<Vec<[f64; 2]>>,
    piece: Vec<[f64; 2]>,
}

impl Pieces {
    fn point(&mut self, x: f64, y: f64) {
        if y.is_nan() {
            self.end();
        } else {
            self.piece.push([x, y]);
        }
    }

    /// Both extremes at the same position: at different positions they would be joined by a slope that does not exist.
    fn extremes(&mut self, x: f64, min: f64, max: f64) {
        for extreme in [min, max] {
            if self.last() != Some(extreme) {
                self.point(x, extreme);
            }
        }
    }

    /// The last value of the current piece.
    fn last(&self) -> Option<f64> {
        self.piece.last().map(|point| point[1])
    }

    fn end(&mut self) {
        if !self.piece.is_empty() {
            self.all.push(std::mem::take(&mut self.piece));
        }
    }

    fn finish(mut self) -> Vec<Vec<[f64; 2]>> {
        self.end();
        self.all
    }
}

impl FromIterator<f64> for Pyramid {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut pyramid = Self::default();
        values.into_iter().for_each(|value| pyramid.push(value));
        pyramid
    }
}

#[cfg(test)]
#[path = "pyramid_tests.rs"]
mod tests;
