//! Ticks of axes: round numbers within a range, and their labels.

use super::number::{grouped, significant, without_zeros};

/// Maximum number of ticks on an axis.
const MOST: f64 = 400.0;

/// The smallest of 1, 2, 5, 10, 20, … that is at least `least`.
pub fn round_up(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|digit| digit * power).find(|step| *step >= least).unwrap_or(10.0 * power)
}

/// Multiples of `step` from `low` to `high`; empty if the step is not positive or there are more than [`MOST`].
pub fn multiples(step: f64, low: f64, high: f64) -> Vec<f64> {
    // The tolerance keeps a tick at the end of the range despite rounding errors.
    let (first, last) = ((low / step - 1e-6).ceil(), (high / step + 1e-6).floor());
    if !(step > 0.0 && first.is_finite() && last.is_finite() && last - first < MOST) {
        return Vec::new();
    }
    let count = (last - first).max(-1.0) as i32 + 1;
    // Adding 0 turns -0 into 0.
    (0..count).map(|index| (first + f64::from(index)) * step + 0.0).collect()
}

/// Round numbers for the ticks of an axis from 0 to `greatest`: about `count`, including 0.
pub fn ticks(greatest: f64, count: usize) -> Vec<f64> {
    ticks_between(0.0, greatest.max(0.0), count)
}

/// Round numbers within a range: about `count`; only the lower end if there is none.
pub fn ticks_between(low: f64, high: f64, count: usize) -> Vec<f64> {
    if !(low.is_finite() && high.is_finite() && high > low) {
        return vec![if low.is_finite() { low } else { 0.0 }];
    }
    multiples(round_up(0.999 * (high - low) / count.max(1) as f64), low, high)
}

/// The number of decimals that multiples of a step need.
pub fn decimals(step: f64) -> usize {
    (-step.log10() - 1e-9).ceil().clamp(0.0, 15.0) as usize
}

/// The label of a tick: three significant digits, without zeros at the end.
pub fn tick_text(value: f64) -> String {
    grouped(&without_zeros(&significant(value)).replace('-', "\u{2212}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_start_at_zero() {
        assert_eq!(ticks(186.0, 4), [0.0, 50.0, 100.0, 150.0]);
        assert_eq!(ticks(1.0, 5).len(), 6);
        assert_eq!(ticks_between(-3.0, 12.0, 4), [0.0, 5.0, 10.0]);
        for odd in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(ticks(odd, 4), [0.0]);
        }
        assert!(ticks(f64::MIN_POSITIVE, 4).len() <= 64);
    }

    #[test]
    fn labels_of_ticks_lose_zeros_of_decimals_and_no_others() {
        let texts = [0.25, 1.0, 1200.0, 14_000.0, -0.5, 2.0e-10, 1.5e20].map(tick_text);
        let expected = ["0.25", "1", "1200", "14\u{202f}000", "\u{2212}0.5", "2.00e\u{2212}10", "1.50e20"];
        assert_eq!(texts, expected);
    }
}
