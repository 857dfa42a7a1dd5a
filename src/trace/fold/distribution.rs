//! All values of a quantity in little memory: each distinct value is stored once, with its count.

use std::hash::Hash;

use crate::trace::ids::ById;
use crate::trace::value::Statistics;

/// Minimum size of the buffer that collects values before they are sorted into the counts.
const BUFFER: usize = 1024;

/// A multiset of integers with exact median and deviation; its memory grows with the number of distinct values.
#[derive(Clone, Debug, Default)]
pub(super) struct Distribution {
    /// Distinct values in ascending order, with how often each was pushed.
    counts: Vec<(u64, u64)>,
    pending: Vec<u64>,
}

impl Distribution {
    #[inline]
    pub fn push(&mut self, value: u64) {
        self.pending.push(value);
        // With a buffer as large as the counts, the total cost is that of sorting.
        if self.pending.len() >= BUFFER.max(self.counts.len()) {
            self.settle();
        }
    }

    pub fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.pending.is_empty()
    }

    /// Number of values.
    pub fn len(&self) -> u64 {
        self.pending.len() as u64 + self.counts.iter().map(|(_, count)| count).sum::<u64>()
    }

    /// Adds all values of another distribution.
    pub fn merge(&mut self, other: Self) {
        self.settle();
        let mut other = other;
        other.settle();
        self.counts = merged(&self.counts, other.counts.into_iter());
    }

    fn settle(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        self.pending.sort_unstable();
        let fresh = self.pending.chunk_by(|a, b| a == b).map(|equal| (equal[0], equal.len() as u64));
        self.counts = merged(&self.counts, fresh);
        self.pending.clear();
        self.pending.shrink_to(BUFFER);
    }

    /// Count, sum, mean, median, minimum, maximum and deviation; `None` without values or if the sum exceeds 64 bits.
    pub fn statistics(&mut self) -> Option<Statistics> {
        self.settle();
        let (min, max) = (self.counts.first()?.0, self.counts.last()?.0);
        let calls: u64 = self.counts.iter().map(|(_, count)| count).sum();
        let total: u128 = self.counts.iter().map(|&(value, count)| u128::from(value) * u128::from(count)).sum();
        let avg = total as f64 / calls as f64;
        let squares: f64 = self.counts.iter().map(|&(value, count)| (value as f64 - avg).powi(2) * count as f64).sum();
        Some(Statistics {
            calls,
            total_ns: u64::try_from(total).ok()?,
            avg_ns: avg,
            med_ns: (self.nth((calls - 1) / 2) as f64 + self.nth(calls / 2) as f64) / 2.0,
            min_ns: min,
            max_ns: max,
            std_ns: if calls > 1 { (squares / (calls - 1) as f64).sqrt() } else { 0.0 },
        })
    }

    /// The value at an index in ascending order.
    fn nth(&self, index: u64) -> u64 {
        let mut before = 0;
        for &(value, count) in &self.counts {
            before += count;
            if index < before {
                return value;
            }
        }
        0
    }
}

/// Merges two ascending lists of counts.
fn merged(old: &[(u64, u64)], fresh: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut all = Vec::with_capacity(old.len() + fresh.size_hint().0);
    let mut old = old.iter().copied().peekable();
    for (value, count) in fresh {
        while let Some(before) = old.next_if(|&(other, _)| other < value) {
            all.push(before);
        }
        let same = old.next_if(|&(other, _)| other == value).map_or(0, |(_, count)| count);
        all.push((value, count + same));
    }
    all.extend(old);
    all
}

/// Merges distributions by key.
pub(super) fn join<K: Eq + Hash>(all: &mut ById<K, Distribution>, part: ById<K, Distribution>) {
    part.into_iter().for_each(|(key, values)| all.entry(key).or_default().merge(values));
}

/// `part` of `whole` in percent; 0 if `whole` is 0.
pub(super) fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn statistics_are_those_of_the_sorted_values(
            values in prop::collection::vec(0u64..5000, 1..6000),
            split in 0usize..6000,
        ) {
            let split = split.min(values.len());
            let mut distribution = Distribution::default();
            let mut rest = Distribution::default();
            values[..split].iter().for_each(|value| distribution.push(*value));
            values[split..].iter().for_each(|value| rest.push(*value));
            distribution.merge(rest);
            let found = distribution.statistics().unwrap();
            let mut sorted = values;
            sorted.sort_unstable();
            let n = sorted.len();
            prop_assert_eq!(found.calls, n as u64);
            prop_assert_eq!(found.total_ns, sorted.iter().sum::<u64>());
            prop_assert_eq!((found.min_ns, found.max_ns), (sorted[0], sorted[n - 1]));
            prop_assert_eq!(found.med_ns, (sorted[(n - 1) / 2] + sorted[n / 2]) as f64 / 2.0);
            let mean = sorted.iter().sum::<u64>() as f64 / n as f64;
            let squares: f64 = sorted.iter().map(|value| (*value as f64 - mean).powi(2)).sum();
            let std = if n > 1 { (squares / (n - 1) as f64).sqrt() } else { 0.0 };
            prop_assert!((found.std_ns - std).abs() < 1e-6 * (1.0 + std));
        }
    }

    #[test]
    fn a_sum_beyond_64_bits_is_no_statistic() {
        let mut distribution = Distribution::default();
        distribution.push(u64::MAX);
        assert_eq!(distribution.statistics().unwrap().total_ns, u64::MAX);
        distribution.push(1);
        assert!(distribution.statistics().is_none());
    }
}
