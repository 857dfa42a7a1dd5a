//! A measure over repeats: its median, with an interval as far as the repeats allow one.

use super::bootstrap::{bca, median_of_sorted};

/// Repeats from which on the interval is a bootstrap one.
pub const BOOTSTRAP_REPEATS: usize = 6;
/// Resamples of a bootstrap interval.
pub(super) const RESAMPLES: usize = 2_000;

/// How an interval was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Method {
    /// There is none: one repeat, or a value that is fixed by definition.
    One,
    /// From the least to the greatest of 2 to 5 repeats.
    Range,
    /// A 95 % interval of the median of 6 or more repeats, by the BCa bootstrap.
    Bca,
}

impl Method {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Range => "range",
            Self::Bca => "bca",
        }
    }
}

/// From where to where, both ends included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// A measure over repeats. Method and count are part of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// The median of the repeats.
    pub median: f64,
    /// The interval; always holds the median.
    pub interval: Option<Interval>,
    /// How many repeats.
    pub n: usize,
    /// How the interval was made.
    pub method: Method,
}

/// The median of repeats and its interval; the same for any order of `values`.
///
/// `None` where there are no values, and where one of them is not finite: leaving that one out would make a diverged
/// repeat look like a good one.
pub fn summarise(values: &[f64], seed: u64) -> Option<Value> {
    let sorted = sorted(values.iter().copied())?;
    let (median, n) = (median_of_sorted(&sorted), sorted.len());
    let (method, interval) = match n {
        1 => (Method::One, None),
        2..BOOTSTRAP_REPEATS => (Method::Range, Some(Interval { low: sorted[0], high: sorted[n - 1] })),
        _ => (Method::Bca, Some(bca(&[&sorted], |samples| median_of_sorted(samples[0]), RESAMPLES, seed))),
    };
    Some(Value { median, interval, n, method })
}

/// The median of repeats and their range, however many there are: for bands of curves.
pub fn range(values: &[f64]) -> Option<Value> {
    let sorted = sorted(values.iter().copied())?;
    let n = sorted.len();
    let interval = (n > 1).then(|| Interval { low: sorted[0], high: sorted[n - 1] });
    let method = if n > 1 { Method::Range } else { Method::One };
    Some(Value { median: median_of_sorted(&sorted), interval, n, method })
}

/// The ratio of two medians, `over / base`; each value comes with its repeat.
///
/// With 6 repeats or more on both sides the interval is the BCa bootstrap of both. Below that the repeats are paired
/// by their number (they share a seed), only pairs count, and the interval is the range of their ratios, which always
/// holds the ratio of the medians. Fewer than two pairs have no interval. `None` where a side has no value, or one
/// that is not finite or not above 0.
pub fn ratio(over: &[(u32, f64)], base: &[(u32, f64)], seed: u64) -> Option<Value> {
    if over.iter().chain(base).any(|(_, value)| *value <= 0.0) {
        return None;
    }
    let (all_over, all_base) = (sorted(over.iter().map(|pair| pair.1))?, sorted(base.iter().map(|pair| pair.1))?);
    let of_medians = |samples: &[&[f64]]| median_of_sorted(samples[0]) / median_of_sorted(samples[1]);
    let n = all_over.len().min(all_base.len());
    if n >= BOOTSTRAP_REPEATS {
        let samples = [all_over.as_slice(), all_base.as_slice()];
        let interval = bca(&samples, of_medians, RESAMPLES, seed);
        return finite(Value { median: of_medians(&samples), interval: Some(interval), n, method: Method::Bca });
    }
    let pairs = pairs(over, base);
    if pairs.len() < 2 {
        let median = of_medians(&[&all_over, &all_base]);
        return finite(Value { median, interval: None, n: 1, method: Method::One });
    }
    let (over, base) = (sorted(pairs.iter().map(|pair| pair.0))?, sorted(pairs.iter().map(|pair| pair.1))?);
    let median = of_medians(&[&over, &base]);
    let ratios = pairs.iter().map(|(over, base)| over / base);
    // Rounding can put the ratio of the medians a last bit outside.
    let interval = Interval { low: ratios.clone().fold(median, f64::min), high: ratios.fold(median, f64::max) };
    finite(Value { median, interval: Some(interval), n: pairs.len(), method: Method::Range })
}

/// Values of the same repeat, each used once.
fn pairs(over: &[(u32, f64)], base: &[(u32, f64)]) -> Vec<(f64, f64)> {
    let mut rest = base.to_vec();
    let partner = |(repeat, value): &(u32, f64)| {
        let place = rest.iter().position(|(other, _)| other == repeat)?;
        Some((*value, rest.swap_remove(place).1))
    };
    over.iter().filter_map(partner).collect()
}

fn sorted(values: impl Iterator<Item = f64>) -> Option<Vec<f64>> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    (!values.is_empty() && values.iter().all(|value| value.is_finite())).then_some(values)
}

/// A ratio may overflow though its parts are finite.
fn finite(value: Value) -> Option<Value> {
    let ends = value.interval.is_none_or(|interval| interval.low.is_finite() && interval.high.is_finite());
    (value.median.is_finite() && ends).then_some(value)
}

#[cfg(test)]
#[path = "value_tests.rs"]
mod tests;
