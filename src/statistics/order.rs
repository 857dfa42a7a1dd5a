//! Medians, and intervals of medians from order statistics.
//!
//! T. P. Hettmansperger and S. J. Sheather, Confidence intervals based on interpolated order statistics, *Statistics & Probability Letters*
//! 4, 1986. Nothing is drawn at random, and the only assumption is that the distribution is continuous.

use super::distribution::fewer_heads;

/// The coverage of intervals.
pub const CONFIDENCE: f64 = 0.95;
/// The least number of values whose range covers the median in more than [`CONFIDENCE`] of cases.
pub const INTERVAL_REPEATS: usize = 6;

/// An interval, both ends included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The median of sorted values; `NaN` without values.
pub fn median_of_sorted(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[middle],
        _ => sorted[middle - 1].midpoint(sorted[middle]),
    }
}

/// The median of values in any order; `NaN` without values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    median_of_sorted(&sorted)
}

/// The share of cases in which the interval from the `depth`-th lowest to the `depth`-th highest value covers the median of `n` values.
fn coverage_at(depth: usize, n: usize) -> f64 {
    1.0 - 2.0 * fewer_heads(depth, n)
}

/// The share of cases in which the range of `n` values covers the median: 93.75 % for 5.
pub fn coverage_of_range(n: usize) -> f64 {
    1.0 - 0.5_f64.powi(i32::try_from(n).unwrap_or(i32::MAX) - 1)
}

/// The 95 % interval of the median of sorted values; `None` for fewer than [`INTERVAL_REPEATS`]. `between(a, b, share)` interpolates
/// between two values.
pub fn median_interval(sorted: &[f64], between: fn(f64, f64, f64) -> f64) -> Option<Interval> {
    let n = sorted.len();
    if n < INTERVAL_REPEATS {
        return None;
    }
    // The depth is less than √n × 1.96 / 2 below the median: slightly more is a safe start.
    let mut depth = ((n as f64 / 2.0 - 1.3 * (n as f64).sqrt()) as usize).max(1);
    let mut outer = coverage_at(depth, n);
    let mut inner = coverage_at(depth + 1, n);
    while inner >= CONFIDENCE {
        depth += 1;
        (outer, inner) = (inner, coverage_at(depth + 1, n));
    }
    let weight = (outer - CONFIDENCE) / (outer - inner);
    let (d, n_) = (depth as f64, n as f64);
    let share = (n_ - d) * weight / (d + (n_ - 2.0 * d) * weight);
    let low = between(sorted[depth - 1], sorted[depth], share);
    let high = between(sorted[n - depth], sorted[n - depth - 1], share);
    Some(Interval { low, high })
}

/// Interpolates linearly between `a` and `b`; exact if they are equal.
pub fn linear(a: f64, b: f64, share: f64) -> f64 {
    if a == b { a } else { a * (1.0 - share) + b * share }
}

/// Interpolates on the logarithms of values above 0.
pub fn geometric(a: f64, b: f64, share: f64) -> f64 {
    if a == b { a } else { (a.ln() * (1.0 - share) + b.ln() * share).exp() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::statistics::fixture::oracle;

    #[test]
    fn intervals_agree_with_those_made_from_scipys_binomial() {
        for case in oracle().medians {
            let mut sorted = case.sample.clone();
            sorted.sort_by(f64::total_cmp);
            let seen = median_interval(&sorted, linear).unwrap();
            let spread = sorted[sorted.len() - 1] - sorted[0];
            for (seen, expected) in [(seen.low, case.low), (seen.high, case.high)] {
                assert!((seen - expected).abs() <= 1e-12 * spread, "{:?}: {seen} for {expected}", case.sample);
            }
            // scipy.stats.quantile_test gives whole order statistics, which cover at least as often.
            let (low, high) = case.whole;
            assert!(low <= seen.low && seen.high <= high, "{:?}", case.sample);
        }
    }

    #[test]
    fn the_range_of_five_covers_the_median_in_93_75_percent() {
        assert_eq!([2, 3, 4, 5].map(coverage_of_range), [0.5, 0.75, 0.875, 0.9375]);
        assert_eq!(coverage_of_range(2_000_000), 1.0);
        assert_eq!(median_interval(&[1.0, 2.0, 3.0, 4.0, 5.0], linear), None);
    }

    #[test]
    fn thousands_of_values_have_an_interval_of_the_normal_approximations_width() {
        let sorted: Vec<f64> = (0..10_000).map(f64::from).collect();
        let Interval { low, high } = median_interval(&sorted, linear).unwrap();
        assert!((low - (4_999.5 - 98.0)).abs() < 1.0 && (high - (4_999.5 + 98.0)).abs() < 1.0, "{low} {high}");
    }
}
