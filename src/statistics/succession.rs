//! Whether successive values of sequences are more alike than in random order, by von Neumann's ratio of their ranks.

use std::f64::consts::TAU;

use super::correlation::ranks;

/// Shorter sequences are not judged.
const SHORTEST: usize = 4;

/// How alike the successive values of a sequence are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Succession {
    /// 2 minus von Neumann's ratio of the ranks: the sum of the squared differences of successive ranks, divided by the sum of the squared
    /// distances of all ranks from their mean. 0 is the mean over all orders of the values, and 2 the limit.
    pub likeness: f64,
    /// The variance of the likeness over all orders of the values.
    pub variance: f64,
}

impl Succession {
    /// The succession of a sequence of values. Ranks do not depend on units and logarithms, and outliers hardly change them (R. Bartels, *J.
    /// Am. Stat. Assoc.* 77, 1982). The variance is exact, also with equal values: it is the mean of products of two squared differences,
    /// which have both values in common, one value, or none.
    ///
    /// `None` with fewer than four values, and if all are equal.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.len() < SHORTEST {
            return None;
        }
        let n = values.len() as f64;
        let middle = (n + 1.0) / 2.0;
        let ranks: Vec<f64> = ranks(values).into_iter().map(|rank| rank - middle).collect();
        let squares: f64 = ranks.iter().map(|rank| rank.powi(2)).sum();
        if squares == 0.0 {
            return None;
        }
        let fourth_powers: f64 = ranks.iter().map(|rank| rank.powi(4)).sum();
        let differences: f64 = ranks.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
        // Of all pairs of values, in units of the squares.
        let (fourth, pairs, triples) = (fourth_powers / squares.powi(2), n * (n - 1.0), n * (n - 1.0) * (n - 2.0));
        let of_pairs = 2.0 * n * fourth + 6.0;
        let with_both = of_pairs / pairs;
        let with_one = (n * n * fourth + 3.0 * n - of_pairs) / triples;
        let with_none = (4.0 * n * n - 2.0 * of_pairs - 4.0 * triples * with_one) / (triples * (n - 3.0));
        let mean_square = (n - 1.0) * with_both + 2.0 * (n - 2.0) * with_one + (n - 2.0) * (n - 3.0) * with_none;
        let variance = mean_square - 4.0;
        (variance > 0.0).then(|| Self { likeness: 2.0 - differences / squares, variance })
    }
}

/// The probability, or slightly more, that the successive values of sequences in random order are at least as alike as those of these
/// sequences together. Each sequence counts with the inverse of its variance. `independent` is the share of the sequences that are
/// independent of the others: 1 if all are.
pub fn alike_by_chance(successions: &[Succession], independent: f64) -> f64 {
    let weight: f64 = successions.iter().map(|one| one.variance.recip()).sum();
    let sum: f64 = successions.iter().map(|one| one.likeness / one.variance).sum();
    let deviations = sum / weight.sqrt() * independent.sqrt();
    // A bound of the tail of the normal distribution, which is close from two deviations on. Below one, it says nothing; nor without sequences.
    if deviations > 1.0 { (-deviations.powi(2) / 2.0).exp() / (deviations * TAU.sqrt()) } else { 1.0 }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// All orders of these values.
    fn orders(values: &[f64]) -> Vec<Vec<f64>> {
        if values.len() < 2 {
            return vec![values.to_vec()];
        }
        let first = |place: usize| {
            let mut rest = values.to_vec();
            let value = rest.remove(place);
            orders(&rest).into_iter().map(move |rest| [vec![value], rest].concat())
        };
        (0..values.len()).flat_map(first).collect()
    }

    #[test]
    fn the_mean_and_the_variance_of_the_likeness_are_those_of_all_orders() {
        let cases: [&[f64]; 3] =
            [&[1.0, 2.0, 3.0, 4.0], &[5.0, 1.0, 7.0, 30.0, 2.0, 4.0], &[1.0, 1.0, 1.0, 2.0, 2.0, 9.0]];
        for values in cases {
            let all: Vec<Succession> = orders(values).iter().map(|order| Succession::of(order).unwrap()).collect();
            let mean = |value: &dyn Fn(&Succession) -> f64| all.iter().map(value).sum::<f64>() / all.len() as f64;
            assert!(mean(&|one| one.likeness).abs() < 1e-12, "{values:?}");
            let variance = mean(&|one| one.likeness.powi(2));
            assert!(all.iter().all(|one| (one.variance - variance).abs() < 1e-12), "{values:?}: {variance}");
        }
    }

    #[test]
    fn short_and_constant_sequences_show_nothing() {
        let cases: [&[f64]; 3] = [&[], &[1.0, 2.0, 3.0], &[2.0; 9]];
        for values in cases {
            assert_eq!(Succession::of(values), None);
        }
        assert_eq!(alike_by_chance(&[], 1.0), 1.0);
    }

    #[test]
    fn slow_waves_are_more_alike_than_by_chance_and_alternating_values_are_not() {
        let wave = |period: f64| (0..40).map(|place| (f64::from(place) * TAU / period).sin()).collect::<Vec<f64>>();
        let [slow, fast] = [16.0, 2.3].map(|period| Succession::of(&wave(period)).unwrap());
        assert!(alike_by_chance(&[slow], 1.0) < 1e-6 && alike_by_chance(&[slow; 4], 0.5) < 1e-12);
        assert_eq!(alike_by_chance(&[fast], 1.0), 1.0);
        assert_eq!(alike_by_chance(&[slow, fast], 0.0), 1.0, "no sequence is independent of the other");
    }
}
