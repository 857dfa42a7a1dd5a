//! Rows that recur: rows of a cell whose measured values are the same in all digits. They may be copies of one row, runs of a program
//! without randomness, or readings of a clock whose ticks the digits do not show. A file does not tell which, and none of the three shows
//! how much independent runs spread. Such cells are imported and marked, and get no verdict.
//!
//! Where values have few digits, independent runs recur by chance. How many do is estimated cell by cell:
//!
//! - The *step* is that of the finest last digit of a column's values, or the tick of which all values of the column are multiples.
//! - The *gap* of a row is the distance from its value to the nearest other value of the cell, in steps. Values around it are about as
//!   probable as its own, so that another row meets it with a probability of about 1 / gap, and with the median gap of the rows about
//!   n / gap of n rows recur. For values that spread evenly over R steps, the median gap is 0.35 R / n, and n² / 2R rows recur: the
//!   estimate is six times as high, on the side of honest files. Copies do not change gaps, and outliers hardly change a median.
//! - If all rows have one value, the least spread of times and rates, a thousandth of the value, takes the place of the gap.
//! - Rows recur in all columns at once, so that the widest gap counts. A column that is another, coarser one times a number, or a number
//!   divided by it, has digits of arithmetic, and does not count: a rate that was computed from whole milliseconds.
//!
//! A cell whose rows all have one value of three digits or more in each column shows no spread at all. It is marked whatever the chance.
//!
//! In other cells with a gap below 3 steps, chance is explanation enough. In the rest together, the number of rows that recur by chance is
//! distributed as by Poisson with a mean of at most m, the sum of n / gap, so that r or more recur with a probability of at most
//! e^(r − m) (m / r)^r (Chernoff's bound). Below 1 %, the cells with such rows are marked.

use std::collections::BTreeSet;

use super::table::{Field, ForeignTable};
use super::written::step;
use crate::analysis::resolution;

/// From this gap on, in steps, rows hardly recur by chance.
const WIDE: f64 = 3.0;
/// Times and rates spread at least by this share of their value.
const LEAST_SPREAD: f64 = 1e-3;
/// Values of fewer digits than these are of a coarse clock, which their comparison says.
const FEWEST_STEPS: f64 = 100.0;
/// Rows that recur with a lower probability than this do not recur by chance.
const CHANCE: f64 = 1e-2;

/// The places of rows that recur although chance does not explain it, for each of the cells that have such rows. `cells` are the places of
/// the rows of each cell; `measures` are the places of the columns of measures.
pub(super) fn recurring(table: &ForeignTable, cells: &[Vec<usize>], measures: &[usize]) -> Vec<Vec<usize>> {
    let recurring_in: Vec<Vec<usize>> = cells.iter().map(|rows| repeated(table, rows, measures)).collect();
    if recurring_in.iter().all(Vec::is_empty) {
        return Vec::new();
    }
    let columns: Vec<Column> = measures.iter().map(|place| Column::of(table, *place)).collect();
    let is_own = |one: &&Column| !columns.iter().any(|other| one.is_made_from(other, cells));
    let own: Vec<&Column> = columns.iter().filter(is_own).collect();
    let (mut found, mut frozen, mut by_chance) = (Vec::new(), Vec::new(), 0.0);
    for (rows, recurring) in cells.iter().zip(recurring_in).filter(|(rows, _)| rows.len() > 1) {
        if recurring.len() == rows.len() - 1 && own.iter().any(|column| column.steps(rows) >= FEWEST_STEPS) {
            frozen.push(recurring);
            continue;
        }
        let gap = own.iter().map(|column| column.gap(rows)).fold(0.0, f64::max);
        if gap >= WIDE {
            by_chance += rows.len() as f64 / gap;
            found.push(recurring);
        }
    }
    let count = found.iter().map(Vec::len).sum::<usize>() as f64;
    let is_chance = count <= by_chance || count - by_chance + count * (by_chance / count).ln() >= CHANCE.ln();
    found.retain(|recurring| !is_chance && !recurring.is_empty());
    found.extend(frozen);
    found
}

/// The rows whose measured values are those of an earlier row.
fn repeated(table: &ForeignTable, rows: &[usize], measures: &[usize]) -> Vec<usize> {
    let mut seen: BTreeSet<Vec<Option<u64>>> = BTreeSet::new();
    rows.iter().copied().filter(|row| !seen.insert(measured(table, *row, measures))).collect()
}

/// The bits of the measured values of a row. 0 and −0 are the same value.
pub(super) fn measured(table: &ForeignTable, row: usize, measures: &[usize]) -> Vec<Option<u64>> {
    let bits = |place: &usize| table.rows[row].fields[*place].number().map(|number| (number + 0.0).to_bits());
    measures.iter().map(bits).collect()
}

/// The values of a column.
struct Column {
    /// The value of each row, with the step of its last digit.
    values: Vec<Option<(f64, f64)>>,
    /// The tick of which all values are multiples; 0 if there is none.
    tick: f64,
    /// The finest step as a share of the largest value.
    coarseness: f64,
}

impl Column {
    fn of(table: &ForeignTable, place: usize) -> Self {
        let value = |field: &Field| match field {
            Field::Number(number, text) => Some((*number, step(text))),
            _ => None,
        };
        let values: Vec<Option<(f64, f64)>> = table.values(place).map(value).collect();
        let numbers: Vec<f64> = values.iter().flatten().map(|(value, _)| *value).collect();
        let tick = resolution(&numbers).unwrap_or(0.0);
        let largest = numbers.iter().map(|value| value.abs()).fold(0.0, f64::max);
        let finest = values.iter().flatten().map(|(_, step)| *step).fold(f64::INFINITY, f64::min);
        Self { values, tick, coarseness: finest.max(tick) / largest }
    }

    /// The largest value of these rows, in steps.
    fn steps(&self, rows: &[usize]) -> f64 {
        let of_row = |row: &usize| self.values[*row].map(|(value, step)| value.abs() / step.max(self.tick));
        rows.iter().filter_map(of_row).fold(0.0, f64::max)
    }

    /// The median distance from the values of these rows to the nearest other value, in steps.
    fn gap(&self, rows: &[usize]) -> f64 {
        let (mut values, steps): (Vec<f64>, Vec<f64>) = rows.iter().filter_map(|row| self.values[*row]).unzip();
        let step = steps.into_iter().fold(f64::INFINITY, f64::min).max(self.tick);
        values.sort_by(f64::total_cmp);
        let different: Vec<&[f64]> = values.chunk_by(|one, other| one == other).collect();
        let between = |pair: &[&[f64]]| pair[1][0] - pair[0][0];
        let gaps: Vec<f64> = different.windows(2).map(between).collect();
        let nearest = |place: usize| match (place.checked_sub(1).and_then(|before| gaps.get(before)), gaps.get(place)) {
            (Some(before), Some(after)) => f64::min(*before, *after),
            (Some(only), None) | (None, Some(only)) => *only,
            (None, None) => LEAST_SPREAD * different[place][0].abs(),
        };
        let of_equal = |place: usize| std::iter::repeat_n(nearest(place), different[place].len());
        let mut of_rows: Vec<f64> = (0..different.len()).flat_map(of_equal).collect();
        of_rows.sort_by(f64::total_cmp);
        of_rows.get(of_rows.len().saturating_sub(1) / 2).map_or(0.0, |gap| gap / step)
    }

    /// Whether its values are, in each cell, those of a coarser column times a number, or a number divided by them, up to their last digit.
    fn is_made_from(&self, other: &Self, cells: &[Vec<usize>]) -> bool {
        let pairs = |rows: &[usize]| -> Vec<((f64, f64), f64)> {
            rows.iter().filter_map(|row| Some((self.values[*row]?, other.values[*row]?.0))).collect()
        };
        let is_law = |ratio: fn(f64, f64) -> f64| {
            // Cells with one value of the other column obey any law.
            let mut is_shown = false;
            let holds = cells.iter().map(|rows| pairs(rows)).all(|pairs| {
                let Some(((first, _), other)) = pairs.first().copied() else { return true };
                is_shown |= pairs.iter().any(|(_, one)| *one != other);
                pairs.iter().all(|((value, step), one)| {
                    let ratio = ratio(*one, other);
                    let expected = first * ratio;
                    (value - expected).abs() <= step * (1.0 + ratio.abs()) + 1e-12 * expected.abs()
                })
            });
            holds && is_shown
        };
        other.coarseness > self.coarseness && (is_law(|one, first| one / first) || is_law(|one, first| first / one))
    }
}

#[cfg(test)]
#[path = "recurring_tests.rs"]
mod tests;
