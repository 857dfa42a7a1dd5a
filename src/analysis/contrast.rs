//! Tests of a mean over repeats: for a difference, for equality within a margin, and their correction for families and repeated looks.
//!
//! Student's t, and Welch's t for groups of values without partners (B. L. Welch, The generalization of Student's problem, *Biometrika* 34,
//! 1947); equivalence by two one-sided tests (D. J. Schuirmann, *Journal of Pharmacokinetics and Biopharmaceutics* 15(6), 1987);
//! families by S. Holm, A simple sequentially rejective multiple test procedure, *Scandinavian Journal of Statistics* 6(2), 1979.

use crate::statistics::{
    CONFIDENCE, Interval, errors_to_show, least_that_suffices, student_t_above, student_t_quantile,
};

/// The probability of a false verdict of difference in a family, and of a false verdict of equality.
pub(super) const ERROR: f64 = 1.0 - CONFIDENCE;
/// The share of [`ERROR`] that is reserved for later looks: for the tests that are repeated after repeats were added.
const LATER_LOOKS: f64 = 0.2;
/// The power with which repeats must detect a difference for it to count as detectable.
pub(super) const POWER: f64 = 0.8;
/// The most further repeats that are suggested for one comparison.
const MOST_MORE_REPEATS: u32 = 200;

/// Values on a scale on which 0 means no difference.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Sample {
    /// Differences between partners, such as one for each pair of repeats.
    Pairs(Vec<f64>),
    /// Values without partners, in groups with weights: the sum of the groups' means, each multiplied by its weight, is tested.
    Groups(Vec<(f64, Vec<f64>)>),
}

impl Default for Sample {
    fn default() -> Self {
        Self::Pairs(Vec::new())
    }
}

impl Sample {
    /// The number of pairs, or of the values of the smallest group.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Pairs(values) => values.len(),
            Self::Groups(groups) => groups.iter().map(|(_, values)| values.len()).min().unwrap_or(0),
        }
    }

    /// The sums of the values of this sample and of `other`, pair by pair; `None` unless both have the same number of pairs.
    pub(super) fn plus(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Pairs(own), Self::Pairs(others)) if own.len() == others.len() => {
                Some(Self::Pairs(own.iter().zip(others).map(|(own, other)| own + other).collect()))
            }
            _ => None,
        }
    }

    /// A sample of the same kind without values.
    pub(super) fn emptied(&self) -> Self {
        match self {
            Self::Pairs(_) => Self::Pairs(Vec::new()),
            Self::Groups(_) => Self::Groups(Vec::new()),
        }
    }

    /// The values, or their weights, with the other sign.
    pub(super) fn negated(mut self) -> Self {
        match &mut self {
            Self::Pairs(values) => values.iter_mut().for_each(|value| *value = -*value),
            Self::Groups(groups) => groups.iter_mut().for_each(|(weight, _)| *weight = -*weight),
        }
        self
    }
}

/// The mean of values on a scale on which 0 means no difference, with its standard error.
#[derive(Clone, Copy, Default)]
pub(super) struct Contrast {
    pub(super) mean: f64,
    pub(super) error: f64,
    pub(super) freedom: f64,
    /// The standard error over half of `rounding`, if values spread only because they are rounded.
    pub(super) scale: f64,
    /// The amount by which rounding can change the mean.
    pub(super) rounding: f64,
}

impl Contrast {
    pub(super) fn of_sample(sample: &Sample) -> Option<Self> {
        match sample {
            Sample::Pairs(values) => Self::of(values),
            Sample::Groups(groups) => Self::of_groups(groups),
        }
    }

    /// Welch's contrast of groups; `None` if a group has fewer than two values.
    fn of_groups(groups: &[(f64, Vec<f64>)]) -> Option<Self> {
        let part = |(weight, values): &(f64, Vec<f64>)| Some((*weight, Self::of(values)?));
        let parts: Vec<(f64, Self)> = groups.iter().map(part).collect::<Option<_>>()?;
        // The error of the sum and its degrees of freedom, if this is the error of a group's mean.
        let welch = |error: fn(&Self) -> f64| -> (f64, f64) {
            let variance = |(weight, own): &(f64, Self)| (weight * error(own)).powi(2);
            let sum: f64 = parts.iter().map(variance).sum();
            let of_freedom: f64 = parts.iter().map(|part| variance(part).powi(2) / part.1.freedom).sum();
            (sum.sqrt(), if of_freedom > 0.0 { sum.powi(2) / of_freedom } else { 1.0 })
        };
        let (error, of_spread) = welch(|own| own.error);
        // Rounding gives the values of all groups the same spread.
        let (of_equal, freedom) = welch(|own| own.scale);
        let freedom = if error > 0.0 { of_spread } else { freedom };
        // The rounding of a sum is that of a value times the sum of all weights, which is 2 for the difference of two groups.
        let scale = 2.0 * of_equal / parts.iter().map(|(weight, _)| weight.abs()).sum::<f64>();
        let sum: f64 = parts.iter().map(|(weight, own)| weight * own.mean).sum();
        let mean = if sum.abs() < 1e-14 { 0.0 } else { sum };
        (!parts.is_empty()).then_some(Self { mean, error, freedom, scale, rounding: 0.0 })
    }

    /// The 95 % interval of the mean.
    pub(super) fn interval(&self) -> Interval {
        let half = student_t_quantile(ERROR / 2.0, self.freedom) * self.error;
        Interval { low: self.mean - half, high: self.mean + half }
    }

    /// The 95 % interval of a ratio, if the values are logarithms.
    pub(super) fn interval_of_ratio(&self) -> Interval {
        let Interval { low, high } = self.interval();
        Interval { low: low.exp(), high: high.exp() }
    }

    pub(super) fn of(logs: &[f64]) -> Option<Self> {
        let n = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / n;
        let deviation = standard_deviation(logs)?;
        // If values are equal except for rounding, the spread counts as zero instead of the rounding error.
        let error = if deviation < 1e-14 { 0.0 } else { deviation / n.sqrt() };
        let mean = if mean.abs() < 1e-14 { 0.0 } else { mean };
        let scale = 1.0 / n.sqrt();
        mean.is_finite().then_some(Self { mean, error, freedom: n - 1.0, scale, rounding: 0.0 })
    }

    /// This contrast, if rounding can change each value by as much as `rounding`. Values that were rounded to the same number may have
    /// differed, so their standard deviation counts as at least half of `rounding`.
    pub(super) fn rounded(self, rounding: f64) -> Self {
        Self { error: self.error.max(self.scale * rounding / 2.0), rounding, ..self }
    }

    /// The t of a distance from 0; without spread, any distance is infinitely far.
    fn t(&self, distance: f64) -> f64 {
        if self.error > 0.0 || distance == 0.0 {
            distance / self.error.max(f64::MIN_POSITIVE)
        } else {
            distance * f64::INFINITY
        }
    }

    /// The p-value: how probable a mean at least this far from 0 is without a real difference, after a shift by rounding towards 0.
    pub(super) fn difference(&self) -> f64 {
        (2.0 * student_t_above(self.t((self.mean.abs() - self.rounding).max(0.0)), self.freedom)).min(1.0)
    }

    /// The p of two one-sided tests against the hypothesis that the mean lies outside ± margin, after a shift by rounding away from 0.
    pub(super) fn equality(&self, margin: f64) -> f64 {
        student_t_above(self.t(margin - self.mean.abs() - self.rounding), self.freedom)
    }

    /// The p of a test against the hypothesis that the mean lies below −margin, after a shift by rounding towards it.
    pub(super) fn no_worse(&self, margin: f64) -> f64 {
        student_t_above(self.t(self.mean + margin - self.rounding), self.freedom)
    }

    /// The p of a test, on the mean's side, against the hypothesis that the mean lies within ± margin.
    pub(super) fn beyond(&self, margin: f64) -> f64 {
        student_t_above(self.t(self.mean.abs() - margin), self.freedom)
    }

    pub(super) fn detectable(&self, family: usize, looks: u32) -> f64 {
        // Whole numbers are simulated once; Welch's are fractions.
        let freedom = self.freedom.floor().max(1.0);
        (errors_to_show(ERROR * spent_at(looks) / family.max(1) as f64, freedom, POWER) * self.error).exp_m1()
    }

    /// How many more repeats would show this difference, or show that it is within the margin, in about 80 % of cases.
    pub(super) fn repeats_needed(&self, family: usize, looks: u32, margin: f64) -> Option<u32> {
        let repeats_made = self.freedom + 1.0;
        let deviation = self.error * repeats_made.sqrt();
        let far = self.mean.abs();
        let alpha = ERROR * spent_at(looks) / family as f64;
        let suffices = |n: u32| {
            let (n, freedom) = (f64::from(n), f64::from(n) - 1.0);
            let error = deviation / n.sqrt();
            let power = student_t_quantile(1.0 - POWER, freedom);
            (student_t_quantile(alpha / 2.0, freedom) + power) * error <= far
                || (student_t_quantile(alpha, freedom) + power) * error <= margin - far
        };
        let too_few = repeats_made as u32;
        let enough = too_few + MOST_MORE_REPEATS;
        // More repeats never detect less.
        suffices(enough).then(|| least_that_suffices(too_few, enough, suffices) - too_few)
    }
}

/// The share of [`ERROR`] that may be spent at a look. The first look gets most of it, since most sessions have only one look. Each later
/// look gets a fifth of the share of the look before, so that all looks together spend at most 1.
pub(super) fn spent_at(look: u32) -> f64 {
    (1.0 - LATER_LOOKS) * LATER_LOOKS.powi(look.max(1) as i32 - 1)
}

/// Holm's adjusted probabilities, in the order of `p`.
pub(super) fn holm(p: &[f64]) -> Vec<f64> {
    holm_among(p, 0)
}

/// Holm's adjusted probabilities if the family has `others` more comparisons, which are assumed to show nothing.
pub(super) fn holm_among(p: &[f64], others: usize) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![1.0; p.len()];
    let mut greatest = 0.0_f64;
    for (rank, place) in order.into_iter().enumerate() {
        greatest = greatest.max((p.len() + others - rank) as f64 * p[place]).min(1.0);
        adjusted[place] = greatest;
    }
    adjusted
}

/// The sample standard deviation; `None` for fewer than two values.
pub(super) fn standard_deviation(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1 && squares.is_finite()).then(|| (squares / (n - 1.0)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_without_partners_are_tested_by_welchs_t() {
        // Variances of the means: 2 / 2 = 1 and 8 / 2 = 4; the freedom is (1 + 4)² / (1² / 1 + 4² / 1) = 25 / 17.
        let groups = Sample::Groups(vec![(1.0, vec![10.0, 14.0]), (-1.0, vec![0.0, 2.0])]);
        let found = Contrast::of_sample(&groups).map(|one| (one.mean, one.error, one.freedom));
        let is_near = |(mean, error, freedom): (f64, f64, f64)| {
            (mean - 11.0).abs() < 1e-9 && (error - 5_f64.sqrt()).abs() < 1e-9 && (freedom - 25.0 / 17.0).abs() < 1e-9
        };
        assert!(found.is_some_and(is_near), "{found:?}");
        assert_eq!(Contrast::of_sample(&groups.negated()).map(|one| one.mean), Some(-11.0));
        let single = Sample::Groups(vec![(1.0, vec![1.0, 2.0]), (-1.0, vec![1.0])]);
        assert!(Contrast::of_sample(&single).is_none() && single.count() == 1);
    }

    #[test]
    fn the_spread_of_rounded_groups_is_at_least_half_a_step_of_each_value() {
        let rounded = |weights: &[f64], rounding: f64| {
            let groups = weights.iter().map(|weight| (*weight, vec![1.0; 4])).collect();
            Contrast::of_sample(&Sample::Groups(groups)).map(|exact| exact.rounded(rounding))
        };
        let is_near = |found: Option<Contrast>, error: f64, freedom: f64| {
            found.is_some_and(|one| (one.error - error).abs() < 1e-9 && (one.freedom - freedom).abs() < 1e-9)
        };
        // Each value can be wrong by 0.1: √(2 · 0.1² / 4), with 2 · 3 degrees of freedom.
        assert!(is_near(rounded(&[1.0, -1.0], 0.2), 0.005_f64.sqrt(), 6.0));
        assert!(is_near(rounded(&[1.0, -1.0, -1.0, 1.0], 0.4), 0.01_f64.sqrt(), 12.0));
        assert!(is_near(rounded(&[0.5, -0.5, 0.5, -0.5], 0.2), 0.0025_f64.sqrt(), 12.0));
    }

    #[test]
    fn the_repeats_that_are_needed_are_those_of_the_normal_approximation_and_a_few_more() {
        let of_ten = |mean| Contrast { mean, error: 1.0 / 10_f64.sqrt(), freedom: 9.0, ..Contrast::default() };
        let needed = |mean, margin| of_ten(mean).repeats_needed(1, 1, margin);
        // Equality at alpha = 0.04: ((1.7507 + 0.8416) / 0.3)² = 74.7 repeats are needed; there are ten.
        assert!(needed(0.0, 0.3).is_some_and(|more| (65..70).contains(&more)), "{:?}", needed(0.0, 0.3));
        // Difference, 0.02 on each side: ((2.0537 + 0.8416) / 0.3)² = 93.1.
        assert!(needed(0.3, 0.01).is_some_and(|more| (83..89).contains(&more)), "{:?}", needed(0.3, 0.01));
        // ((2.0537 + 0.8416) / 0.15)² = 373, which is more than anybody is advised to make.
        assert_eq!(needed(0.15, 0.01), None);
    }

    #[test]
    fn rounded_values_without_spread_are_neither_surely_different_nor_surely_equal() {
        let near = |contrast: Option<Contrast>, p: &dyn Fn(&Contrast) -> f64, expected: f64| {
            contrast.is_some_and(|contrast| (p(&contrast) - expected).abs() < 1e-9)
        };
        let exact = || Contrast::of(&[0.5; 2]);
        let rounded = |rounding| exact().map(|exact| exact.rounded(rounding));
        assert!(near(exact(), &Contrast::difference, 0.0));
        // Shifted by 0.1 and with a deviation of 0.05, t is 0.4 / (0.05 / √2) = 8 √2; with one degree of freedom, p = 1 − 2 atan(t) / π.
        let expected = 1.0 - 2.0 * (8.0 * 2.0_f64.sqrt()).atan() / std::f64::consts::PI;
        assert!(near(rounded(0.1), &Contrast::difference, expected));
        assert!(near(rounded(0.5), &Contrast::difference, 1.0));
        assert!(near(exact(), &|one| one.equality(0.6), 0.0) && near(rounded(0.1), &|one| one.equality(0.6), 0.5));
    }
}
