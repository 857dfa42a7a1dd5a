//! How far apart the values of a column are, and how many of them recur by chance.
//!
//! - The *step* of a value is that of its last digit, or the tick of which all values are multiples. A rate may be a number divided by
//!   multiples of a tick.
//! - The *gap* of a row is the distance from its value to the nearest other value of the cell, in steps. Values around it are about as
//!   probable as its own, so that another row meets it with a probability of about 1 / gap, and with the median gap of the rows about
//!   n / gap of n rows recur. For values that spread evenly over R steps, the median gap is 0.35 R / n, and n² / 2R rows recur: the
//!   estimate is six times as high, on the side of honest files. Copies do not change gaps, and outliers hardly change a median.
//! - If all rows have one value, the least spread of times and rates, a thousandth of the value, takes the place of the gap.
//!
//! With a gap below 3 steps, chance explains any number of rows.

use super::table::{Field, ForeignTable};
use super::tick::common_tick;
use super::written::{digits, step};
use crate::analysis::resolution;

/// From this gap on, in steps, values hardly recur by chance.
const WIDE: f64 = 3.0;
/// Times and rates spread at least by this share of their value.
const LEAST_SPREAD: f64 = 1e-3;
/// What was computed is as exact as this share of it.
const EXACT: f64 = 1e-12;

/// The values of a column.
pub(super) struct Column {
    /// The value of each row, with the step of its last digit. Of a rate that is a number divided by multiples of a tick, the reciprocals.
    values: Vec<Option<(f64, f64)>>,
    /// By how much their last digits can make the difference of two values wrong.
    error: f64,
    /// The tick of which all values are multiples; 0 if there is none.
    tick: f64,
    /// The finest step as a share of the largest value.
    coarseness: f64,
    /// The most digits of a value, without zeros at the end.
    pub(super) digits: usize,
}

impl Column {
    /// The values of the column at a place.
    pub(super) fn of(table: &ForeignTable, place: usize) -> Self {
        let written = |field: &Field| match field {
            Field::Number(number, text) => Some((*number, step(text), digits(text))),
            _ => None,
        };
        let written: Vec<Option<(f64, f64, usize)>> = table.values(place).map(written).collect();
        let most = written.iter().flatten().map(|(.., digits)| *digits).max().unwrap_or(0);
        // Programs drop zeros at the end: values with fewer digits are not less exact.
        let of_most = written.iter().flatten().filter(|(.., digits)| *digits == most).map(|(_, step, _)| *step);
        let mut error =
            of_most.chain(written.iter().flatten().map(|(value, ..)| EXACT * value.abs())).fold(0.0, f64::max);
        let mut values: Vec<Option<(f64, f64)>> =
            written.iter().map(|written| written.map(|(value, step, _)| (value, step))).collect();
        let numbers =
            |values: &[Option<(f64, f64)>]| values.iter().flatten().map(|(value, _)| *value).collect::<Vec<f64>>();
        let mut tick = common_tick(&numbers(&values), error);
        if tick == 0.0 {
            let inverse = |(value, step): (f64, f64)| (value.recip(), step / (value * value));
            let reciprocals: Vec<Option<(f64, f64)>> = values.iter().map(|value| value.map(inverse)).collect();
            let wrong_by = values.iter().flatten().map(|(value, _)| error / (value * value)).fold(0.0, f64::max);
            match common_tick(&numbers(&reciprocals), wrong_by) {
                0.0 => tick = resolution(&numbers(&values)).unwrap_or(0.0),
                found => (values, error, tick) = (reciprocals, wrong_by, found),
            }
        }
        let largest = values.iter().flatten().map(|(value, _)| value.abs()).fold(0.0, f64::max);
        let finest = values.iter().flatten().map(|(_, step)| *step).fold(f64::INFINITY, f64::min);
        Self { values, error, tick, coarseness: finest.max(tick) / largest, digits: most }
    }

    /// The largest value of these rows, in steps.
    pub(super) fn steps(&self, rows: &[usize]) -> f64 {
        let of_row = |row: &usize| self.values[*row].map(|(value, step)| value.abs() / step.max(self.tick));
        rows.iter().filter_map(of_row).fold(0.0, f64::max)
    }

    /// Whether these rows all have one value.
    pub(super) fn is_constant(&self, rows: &[usize]) -> bool {
        let mut values = rows.iter().filter_map(|row| self.values[*row]).map(|(value, _)| value);
        let first = values.next();
        values.all(|value| Some(value) == first)
    }

    /// How many of the values of these rows recur by chance at most; `None` if chance explains any number.
    pub(super) fn by_chance(&self, rows: &[usize]) -> Option<f64> {
        let mut gaps = self.gaps(rows);
        gaps.sort_by(f64::total_cmp);
        let median = gaps.get(gaps.len().saturating_sub(1) / 2)?;
        (*median >= WIDE).then(|| gaps.len() as f64 / median)
    }

    /// The distance from each value of these rows to the nearest other value, in steps.
    fn gaps(&self, rows: &[usize]) -> Vec<f64> {
        let mut values: Vec<(f64, f64)> = rows.iter().filter_map(|row| self.values[*row]).collect();
        values.sort_by(|one, other| one.0.total_cmp(&other.0));
        let numbers: Vec<f64> = values.iter().map(|(value, _)| *value).collect();
        // Cells may have ticks of their own, such as shares of sets of different sizes.
        let tick = self.tick.max(common_tick(&numbers, self.error));
        let different: Vec<&[(f64, f64)]> = values.chunk_by(|one, other| one.0 == other.0).collect();
        let between: Vec<f64> = different.windows(2).map(|pair| pair[1][0].0 - pair[0][0].0).collect();
        let nearest =
            |place: usize| match (place.checked_sub(1).and_then(|before| between.get(before)), between.get(place)) {
                (Some(before), Some(after)) => f64::min(*before, *after),
                (Some(only), None) | (None, Some(only)) => *only,
                (None, None) => LEAST_SPREAD * different[place][0].0.abs(),
            };
        let of_equal = |place: usize| {
            let nearest = nearest(place);
            different[place].iter().map(move |(_, step)| nearest / step.max(tick))
        };
        (0..different.len()).flat_map(of_equal).collect()
    }

    /// Whether its values are, in each cell, those of a coarser column times a number, or a number divided by them, up to their last digit.
    pub(super) fn is_made_from(&self, other: &Self, cells: &[Vec<usize>]) -> bool {
        let is_law = |ratio: fn(f64, f64) -> f64| {
            // Cells with one value of the other column obey any law.
            let mut is_shown = false;
            let holds = cells.iter().all(|rows| {
                let mut pairs = rows.iter().filter_map(|row| Some((self.values[*row]?, other.values[*row]?.0)));
                let Some(((first, _), other)) = pairs.next() else { return true };
                pairs.all(|((value, step), one)| {
                    is_shown |= one != other;
                    let ratio = ratio(one, other);
                    let expected = first * ratio;
                    (value - expected).abs() <= step * (1.0 + ratio.abs()) + EXACT * expected.abs()
                })
            });
            holds && is_shown
        };
        other.coarseness > self.coarseness && (is_law(|one, first| one / first) || is_law(|one, first| first / one))
    }
}
