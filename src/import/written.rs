//! The steps of the last digits with which a file writes values. Values may have been rounded to them.

use std::collections::BTreeMap;

use super::table::{Field, ForeignTable, Row};

/// Steps of at most this share of every value do not matter.
const FINE: f64 = 1e-7;

/// The step with which the values of a column are written, times the `factor` of their row, for each cell. `cells` names the cell of each
/// row. Cells whose steps are at most [`FINE`] of their values are left out.
pub(super) fn written_steps(
    table: &ForeignTable,
    cells: &[&str],
    column: usize,
    factor: impl Fn(&Row) -> Option<f64>,
) -> BTreeMap<String, f64> {
    // The finest step of each cell, since programs drop zeros at the end, and the cell's least value.
    let mut seen: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (row, cell) in table.rows.iter().zip(cells) {
        let (Field::Number(number, text), Some(factor)) = (&row.fields[column], factor(row)) else { continue };
        let (finest, least) = seen.entry(*cell).or_insert((f64::INFINITY, f64::INFINITY));
        *finest = finest.min(step(text) * factor);
        // A value of 0 has no ratios.
        *least = least.min(if *number == 0.0 { f64::INFINITY } else { number.abs() * factor });
    }
    let coarse = seen.into_iter().filter(|(_, (finest, least))| *finest > FINE * *least);
    coarse.map(|(cell, (finest, _))| (cell.to_owned(), finest)).collect()
}

/// The step of the last digit of a number as it is written: 0.01 for `1.25`.
pub(super) fn step(text: &str) -> f64 {
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    10_f64.powi(exponent.parse::<i32>().unwrap_or(0).saturating_sub(i32::try_from(decimals).unwrap_or(i32::MAX)))
}

/// The number of digits of a number as it is written, without zeros at both ends: 3 for `0.01250`.
pub(super) fn digits(text: &str) -> usize {
    let digits = text.split(['e', 'E']).next().unwrap_or_default().chars().filter(char::is_ascii_digit);
    digits.collect::<String>().trim_matches('0').len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_at_both_ends_of_a_number_are_no_digits_of_it() {
        let expected = [("0.01250", 3), ("-1200", 2), ("3e-14", 1), ("1.05E3", 3), ("0.000", 0), (".5", 1)];
        for (text, count) in expected {
            assert_eq!(digits(text), count, "{text}");
        }
    }

    #[test]
    fn the_last_digit_of_a_number_has_a_step() {
        for (text, expected) in [("12", 1.0), ("1.25", 0.01), ("-3e-2", 0.01), ("1.5E3", 100.0)] {
            assert!((step(text) / expected - 1.0).abs() < 1e-12, "{text}");
        }
        assert_eq!(step("1.5e-2147483648"), 0.0);
    }
}
