//! A measure over repeats: its median, with an interval if there are enough repeats.

use std::collections::BTreeMap;

use strum::IntoStaticStr;

use super::contrast::{Contrast, Sample};
use crate::statistics::{
    CONFIDENCE, INTERVAL_REPEATS, Interval, coverage_of_range, geometric, linear, median, median_interval,
    median_of_sorted,
};

/// How an interval was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Method {
    /// There is no interval: one repeat, or a value that is fixed by definition.
    One,
    /// The range from the lowest to the highest repeat. It contains the true median in 1 − 2^(1−n) of cases.
    Range,
    /// A 95 % interval of the median of 6 or more repeats, from order statistics.
    OrderStatistics,
    /// A 95 % interval of a ratio by Student's t between sessions; `n` counts sessions.
    BetweenSessions,
    /// A 95 % interval of a difference of means by Welch's t; `n` counts the values of both groups.
    Means,
    /// A ratio of repeats that form no pairs, without an interval.
    Unpaired,
    /// Geometric means of cells whose repeats form no pairs, or their ratio, with a 95 % interval by Welch's t on logarithms; `n` is the
    /// smallest number of repeats of a cell.
    GeometricMeans,
}

impl Method {
    /// The name in files.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A measure over repeats, with the method and the number of repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// The median of the repeats.
    pub median: f64,
    /// The interval, which always contains the median.
    pub interval: Option<Interval>,
    /// The number of repeats; for a ratio, the number of pairs.
    pub n: usize,
    /// How the interval was computed.
    pub method: Method,
}

impl Value {
    /// The share of cases in which such an interval covers the true median; `None` without an interval.
    pub fn coverage(&self) -> Option<f64> {
        self.interval?;
        match self.method {
            Method::One | Method::Unpaired => None,
            Method::Range => Some(coverage_of_range(self.n)),
            Method::OrderStatistics | Method::BetweenSessions | Method::Means | Method::GeometricMeans => {
                Some(CONFIDENCE)
            }
        }
    }
}

/// Which intervals are shown. All intervals of a picture are of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Intervals {
    /// With [`INTERVAL_REPEATS`] repeats or more, the 95 % interval of the median; with fewer, the range from the lowest to the highest
    /// repeat.
    #[default]
    ByCount,
    /// The range from the lowest to the highest repeat, for any number of repeats.
    Range,
}

impl Intervals {
    /// The median of repeats and its interval, which do not depend on the order of `values`.
    ///
    /// `None` without values, and if a value is not finite: leaving this value out would make a diverged repeat look like a good one.
    pub fn of(self, values: &[f64]) -> Option<Value> {
        let sorted = sorted(values.iter().copied())?;
        Some(self.of_sorted(&sorted, median_of_sorted(&sorted), linear))
    }

    /// The ratio `over / base` of two measures; each value comes with the number of its repeat.
    ///
    /// Values with the same repeat number are paired: such repeats share a seed and are close in time, so that common influences cancel.
    /// The ratio is the median of the pairs' ratios on the scale of logarithms; repeats without a partner do not count. Without any pair,
    /// it is the ratio of medians and has no interval. `None` if a side has no value, or one that is not finite or not above 0.
    pub fn of_ratio(self, over: &[(u32, f64)], base: &[(u32, f64)]) -> Option<Value> {
        let pairs = are_sound(over, base).then(|| pairs(over, base))?;
        if pairs.is_empty() {
            let median = median_by(over) / median_by(base);
            return finite(Value { median, interval: None, n: 0, method: Method::Unpaired });
        }
        self.of_ratios(pairs.iter().map(|(over, base)| over / base))
    }

    /// The ratio `over / base` for repeats that form no pairs, because their numbers only count the rows of a file. It is the ratio of the
    /// geometric means, with the interval of Welch's t if each side has two values or more.
    pub fn of_unpaired_ratio(self, over: &[(u32, f64)], base: &[(u32, f64)]) -> Option<Value> {
        let logs = |values: &[(u32, f64)]| values.iter().map(|(_, value)| value.ln()).collect();
        let groups = are_sound(over, base).then(|| Sample::Groups(vec![(1.0, logs(over)), (-1.0, logs(base))]))?;
        self.of_sample(&groups)
    }

    /// The ratio from a sample of logarithms: the median of the ratios of pairs, or the ratio of the geometric means of groups. `None`
    /// without pairs or groups.
    pub(super) fn of_sample(self, logs: &Sample) -> Option<Value> {
        let groups = match logs {
            Sample::Pairs(logs) => return self.of_ratios(logs.iter().map(|log| log.exp())),
            Sample::Groups(groups) if groups.is_empty() => return None,
            Sample::Groups(groups) => groups,
        };
        if let Some(contrast) = Contrast::of_sample(logs) {
            let (median, interval) = (contrast.mean.exp(), Some(contrast.interval_of_ratio()));
            return finite(Value { median, interval, n: logs.count(), method: Method::GeometricMeans });
        }
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let median = groups.iter().map(|(weight, values)| weight * mean(values)).sum::<f64>().exp();
        finite(Value { median, interval: None, n: 0, method: Method::Unpaired })
    }

    /// The median of ratios on the scale of logarithms, with its interval.
    pub(super) fn of_ratios(self, ratios: impl Iterator<Item = f64>) -> Option<Value> {
        let sorted = sorted(ratios).filter(|ratios| ratios[0] > 0.0)?;
        let middle = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[middle] } else { geometric(sorted[middle - 1], sorted[middle], 0.5) };
        finite(self.of_sorted(&sorted, median, geometric))
    }

    fn of_sorted(self, sorted: &[f64], median: f64, between: fn(f64, f64, f64) -> f64) -> Value {
        let n = sorted.len();
        let (method, interval) = match n {
            1 => (Method::One, None),
            _ if self == Self::Range || n < INTERVAL_REPEATS => {
                (Method::Range, Some(Interval { low: sorted[0], high: sorted[n - 1] }))
            }
            _ => (Method::OrderStatistics, median_interval(sorted, between)),
        };
        // Rounding can put an end of the interval on the wrong side of the median by one last bit.
        let interval = interval.map(|ends| Interval { low: ends.low.min(median), high: ends.high.max(median) });
        Value { median, interval, n, method }
    }
}

/// The median of repeats with its interval. The number of repeats decides how the interval is computed; see [`Intervals::of`].
pub fn summarise(values: &[f64]) -> Option<Value> {
    Intervals::ByCount.of(values)
}

/// The median of repeats and their range, for any number of repeats, as for bands of curves.
pub fn range(values: &[f64]) -> Option<Value> {
    Intervals::Range.of(values)
}

/// The ratio `over / base`, from repeats that are paired by their numbers. The number of pairs decides how its interval is computed; see
/// [`Intervals::of_ratio`].
pub fn ratio(over: &[(u32, f64)], base: &[(u32, f64)]) -> Option<Value> {
    Intervals::ByCount.of_ratio(over, base)
}

/// Pairs of values with the same repeat number; each value is used once.
pub(super) fn pairs(over: &[(u32, f64)], base: &[(u32, f64)]) -> Vec<(f64, f64)> {
    let mut rest = base.to_vec();
    let partner = |(repeat, value): &(u32, f64)| {
        let place = rest.iter().position(|(other, _)| other == repeat)?;
        Some((*value, rest.swap_remove(place).1))
    };
    over.iter().filter_map(partner).collect()
}

/// For each repeat that all groups have, the mean of the groups' values.
pub(super) fn complete_blocks(groups: &[&Vec<(u32, f64)>]) -> Vec<(u32, f64)> {
    let mut repeats: BTreeMap<u32, (f64, usize)> = BTreeMap::new();
    for (repeat, value) in groups.iter().copied().flatten() {
        let (sum, count) = repeats.entry(*repeat).or_default();
        (*sum, *count) = (*sum + value, *count + 1);
    }
    repeats.retain(|_, (_, count)| *count == groups.len());
    repeats.into_iter().map(|(repeat, (sum, count))| (repeat, sum / count as f64)).collect()
}

/// Whether two sides have a ratio: each has values, all above 0.
fn are_sound(over: &[(u32, f64)], base: &[(u32, f64)]) -> bool {
    [over, base].into_iter().all(|side| !side.is_empty() && have_logs(side))
}

/// Whether values have logarithms: all are above 0 and finite.
pub(super) fn have_logs(values: &[(u32, f64)]) -> bool {
    values.iter().all(|(_, value)| *value > 0.0 && value.is_finite())
}

fn median_by(values: &[(u32, f64)]) -> f64 {
    median(&values.iter().map(|(_, value)| *value).collect::<Vec<_>>())
}

fn sorted(values: impl Iterator<Item = f64>) -> Option<Vec<f64>> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    (!values.is_empty() && values.iter().all(|value| value.is_finite())).then_some(values)
}

/// The value if it is finite: a ratio may overflow even though its parts are finite.
fn finite(value: Value) -> Option<Value> {
    let ends = value.interval.is_none_or(|interval| interval.low.is_finite() && interval.high.is_finite());
    (value.median.is_finite() && ends).then_some(value)
}

#[cfg(test)]
#[path = "value_tests.rs"]
mod tests;
