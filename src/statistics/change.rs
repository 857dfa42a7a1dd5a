//! Change points: the places in a series of values at which its level changes.
//!
//! Binary segmentation (A. J. Scott, M. Knott, A cluster analysis method for grouping means in the analysis of variance, *Biometrics* 30, 1974;
//! L. Y. Vostrikova, *Soviet Mathematics Doklady* 24, 1981) with the rank statistic of A. N. Pettitt (A non-parametric approach to the
//! change-point problem, *Applied Statistics* 28, 1979) in its standardised form, tested by permutations (J. Antoch, M. Hušková, Permutation
//! tests in change point analysis, *Statistics & Probability Letters* 53, 2001). The interval of a place is the set of places that a test at
//! 5 % does not reject (K. J. Worsley, Confidence regions and tests for a change-point in a sequence of exponential family random variables,
//! *Biometrika* 73, 1986), here again by permutations.

use std::ops::Range;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::CONFIDENCE;
use super::correlation::ranks;

/// Each side of a change has at least this number of values, because a single value may be an outlier.
const SIDE: usize = 2;
/// The number of permutations of a test at 5 %.
const PERMUTATIONS: usize = 999;
/// The largest number of permutations; a test at a lower level needs more than one at 5 %.
const MOST_PERMUTATIONS: usize = 99_999;
/// The number of permutations of a test of a place.
const OF_PLACE: usize = 999;
/// The search for the ends of an interval stops after this number of rejected places in a row.
const REJECTED: usize = 5;
/// In a longer series, only this number of values at the end is searched.
const MOST_VALUES: usize = 5_000;
/// The seed of permutations. It is fixed, so that the same values always have the same change points.
const SEED: u64 = 0x6368_616e_6765;

/// A change of the level of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangePoint {
    /// The index of the first value after the change.
    pub first_after: usize,
    /// The 95 % interval of that index, both ends included.
    pub place: (usize, usize),
    /// The probability that a series without a change shows one that is at least this clear.
    pub p: f64,
}

/// The least number of values in which a change can be shown at a level. With fewer values, even the clearest order is
/// too probable by chance.
pub fn least_values(level: f64) -> usize {
    let chance = |n: usize| (1..=n / 2).fold(2.0, |chance, k| chance * k as f64 / (n - n / 2 + k) as f64);
    (2 * SIDE..64).find(|n| chance(*n) <= level).unwrap_or(64)
}

/// The change points of a series, in order. No value may be NaN. A series without a change shows one with a probability
/// of at most `level`, whatever the distribution of its values. This requires that the values are exchangeable: they
/// have no trend, and neighbours are not more alike than other values.
pub fn change_points(values: &[f64], level: f64) -> Vec<ChangePoint> {
    let skipped = values.len().saturating_sub(MOST_VALUES);
    let values = &values[skipped..];
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let mut found: Vec<(usize, f64)> = Vec::new();
    let mut open: Vec<Range<usize>> = std::iter::once(0..values.len()).collect();
    while let Some(piece) = open.pop() {
        let Some((split, p)) = Ranked::of(&values[piece.clone()]).and_then(|one| one.split(level, &mut random)) else {
            continue;
        };
        let first_after = piece.start + split;
        found.push((first_after, p));
        open.extend([piece.start..first_after, first_after..piece.end]);
    }
    found.sort_by_key(|(first_after, _)| *first_after);
    let ends: Vec<usize> =
        std::iter::once(0).chain(found.iter().map(|(place, _)| *place)).chain([values.len()]).collect();
    // A change is often clearer between its neighbours than in the longer piece in which it was found. The piece begins where the change
    // before it was located, so that changes stay in order and no two of them become one.
    let mut start = 0;
    let located = found.iter().zip(ends.windows(3)).filter_map(|((_, p), ends)| {
        let piece: Range<usize> = start..ends[2];
        let (best, place) = Ranked::of(&values[piece.clone()])?.located(&mut random);
        start = piece.start + best;
        let at = |place: usize| skipped + piece.start + place;
        Some(ChangePoint { first_after: at(best), place: (at(place.0), at(place.1)), p: *p })
    });
    located.collect()
}

/// A piece of a series by the ranks of its values.
struct Ranked {
    /// The ranks, minus their mean.
    ranks: Vec<f64>,
    /// The sum of their squares.
    squares: f64,
}

impl Ranked {
    /// `None` if no split is possible: too few values, or all the same.
    fn of(values: &[f64]) -> Option<Self> {
        let middle = (values.len() as f64 + 1.0) / 2.0;
        let ranks: Vec<f64> = ranks(values).into_iter().map(|rank| rank - middle).collect();
        let squares: f64 = ranks.iter().map(|rank| rank * rank).sum();
        (values.len() >= 2 * SIDE && squares > 0.0).then_some(Self { ranks, squares })
    }

    /// The greatest standardised sum of ranks before a split, squared, and the place of this split. `ranks` are the
    /// ranks in any order.
    fn greatest(&self, ranks: &[f64]) -> (f64, usize) {
        let n = ranks.len() as f64;
        let scale = self.squares / (n * (n - 1.0));
        let (mut sum, mut best) = (0.0, (-1.0, SIDE));
        for (place, rank) in (1..=ranks.len() - SIDE).zip(ranks) {
            sum += rank;
            let before = place as f64;
            let size = sum * sum / (scale * before * (n - before));
            // Rounding must not decide between equal splits.
            if place >= SIDE && size > best.0 + 1e-9 {
                best = (size, place);
            }
        }
        best
    }

    /// The best split with its p, if p is at most `level`.
    fn split(&self, level: f64, random: &mut ChaCha8Rng) -> Option<(usize, f64)> {
        if self.ranks.len() < least_values(level) {
            return None;
        }
        let (size, place) = self.greatest(&self.ranks);
        let count = ((20.0 / level).ceil() as usize).clamp(PERMUTATIONS, MOST_PERMUTATIONS);
        let shuffle = |ranks: &mut Vec<f64>, random: &mut ChaCha8Rng| ranks.shuffle(random);
        let p = self.chance(size, count, level, shuffle, random)?;
        Some((place, p))
    }

    /// The best split, and the first and the last split that a test does not reject. The test is whether the values
    /// before a split are exchangeable among each other, and the values after it as well.
    fn located(&self, random: &mut ChaCha8Rng) -> (usize, (usize, usize)) {
        let (size, best) = self.greatest(&self.ranks);
        let mut holds = |split: usize| {
            let shuffle = |ranks: &mut Vec<f64>, random: &mut ChaCha8Rng| {
                let (before, after) = ranks.split_at_mut(split);
                before.shuffle(random);
                after.shuffle(random);
            };
            self.chance(size, OF_PLACE, 1.0 - CONFIDENCE, shuffle, random).is_none()
        };
        let mut last = |splits: &mut dyn Iterator<Item = usize>| {
            let (mut last, mut rejected) = (best, 0);
            for split in splits {
                rejected = if holds(split) { 0 } else { rejected + 1 };
                if rejected == 0 {
                    last = split;
                }
                if rejected == REJECTED {
                    break;
                }
            }
            last
        };
        let low = last(&mut (SIDE..best).rev());
        let high = last(&mut (best + 1..=self.ranks.len() - SIDE));
        (best, (low, high))
    }

    /// The share of orders whose greatest split is at least `size`. `count` orders are drawn by `shuffle`; the real
    /// order counts, too. `None` as soon as the share is certain to be above `level`.
    fn chance(
        &self,
        size: f64,
        count: usize,
        level: f64,
        shuffle: impl Fn(&mut Vec<f64>, &mut ChaCha8Rng),
        random: &mut ChaCha8Rng,
    ) -> Option<f64> {
        let mut ranks = self.ranks.clone();
        let mut reached = 1;
        for _ in 0..count {
            shuffle(&mut ranks, random);
            reached += usize::from(self.greatest(&ranks).0 >= size - 1e-9);
            if reached as f64 > level * (count + 1) as f64 {
                return None;
            }
        }
        Some(reached as f64 / (count + 1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt as _;

    use super::*;

    fn normal(random: &mut ChaCha8Rng) -> f64 {
        (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0
    }

    /// `n` values of noise. At each place in `steps`, the level changes by its number.
    fn series(n: usize, steps: &[(usize, f64)], random: &mut ChaCha8Rng) -> Vec<f64> {
        let level = |place: usize| steps.iter().filter(|(from, _)| *from <= place).map(|(_, by)| by).sum::<f64>();
        (0..n).map(|place| normal(random) + level(place)).collect()
    }

    #[test]
    fn fewer_than_eight_values_show_no_change_at_5_percent() {
        // 2 / C(7, 3) = 0.057, 2 / C(8, 4) = 0.029.
        assert_eq!((least_values(0.05), least_values(0.01)), (8, 10));
        assert!(change_points(&[1.0, 1.0, 1.0, 9.0, 9.0, 9.0, 9.0], 0.05).is_empty());
        let steps = [1.0, 1.1, 1.2, 1.3, 9.0, 9.1, 9.2, 9.3];
        let found = change_points(&steps, 0.05);
        assert_eq!(found.iter().map(|one| one.first_after).collect::<Vec<_>>(), [4]);
        // 2 / C(8, 4) = 0.0286.
        assert!((found[0].p - 0.0286).abs() < 0.012, "{found:?}");
        assert_eq!(found, change_points(&steps, 0.05), "the same values have the same change points");
    }

    #[test]
    fn series_without_a_change_rarely_show_one() {
        let mut random = ChaCha8Rng::seed_from_u64(3);
        for (n, level) in [(8, 0.05), (20, 0.05), (30, 0.01)] {
            let cases = 300;
            // A heavy tail: one value in twenty is ten times as far out.
            let heavy = |random: &mut ChaCha8Rng| {
                let far = if random.random::<f64>() < 0.05 { 10.0 } else { 1.0 };
                far * normal(random)
            };
            let found = (0..cases)
                .filter(|_| {
                    let values: Vec<f64> = (0..n).map(|_| heavy(&mut random)).collect();
                    !change_points(&values, level).is_empty()
                })
                .count();
            let share = found as f64 / f64::from(cases);
            // Three standard deviations of a share above the level.
            let most = level + 3.0 * (level * (1.0 - level) / f64::from(cases)).sqrt();
            assert!(share <= most, "{n} values at {level}: {share}");
        }
    }

    #[test]
    fn changes_are_found_at_their_places_and_intervals_hold_them() {
        let mut random = ChaCha8Rng::seed_from_u64(9);
        let (cases, mut found, mut held, mut exact) = (60, 0, 0, 0);
        for _ in 0..cases {
            let values = series(30, &[(18, 2.5)], &mut random);
            if let [one] = change_points(&values, 0.05).as_slice() {
                found += 1;
                held += usize::from((one.place.0..=one.place.1).contains(&18));
                exact += usize::from(one.first_after.abs_diff(18) <= 1);
            }
        }
        assert!(found >= 54, "power: {found} of {cases}");
        assert!(held * 100 >= found * 93, "intervals: {held} of {found}");
        assert!(exact * 100 >= found * 80, "within one place: {exact} of {found}");
    }

    #[test]
    fn several_changes_are_told_apart_and_an_outlier_is_none() {
        let mut random = ChaCha8Rng::seed_from_u64(4);
        let values = series(60, &[(20, 8.0), (40, -5.0)], &mut random);
        let found: Vec<usize> = change_points(&values, 0.05).iter().map(|one| one.first_after).collect();
        assert_eq!(found, [20, 40]);
        let mut calm = series(30, &[], &mut ChaCha8Rng::seed_from_u64(5));
        calm[14] = 1e6;
        assert!(change_points(&calm, 0.05).is_empty());
        assert!(change_points(&[3.0; 40], 0.05).is_empty());
    }

    #[test]
    fn changes_that_are_located_anew_stay_apart_and_in_order() {
        let levels = [(10, 1.5), (2, 1.0), (3, 2.0), (3, 3.0), (2, 4.0), (30, 3.5)];
        let values: Vec<f64> = levels.iter().flat_map(|(count, level)| vec![*level; *count]).collect();
        let found: Vec<usize> = change_points(&values, 0.05).iter().map(|one| one.first_after).collect();
        assert!(found.len() > 1, "{found:?}");
        assert!(found.windows(2).all(|pair| pair[0] + SIDE <= pair[1]), "{found:?}");
    }

    #[test]
    fn a_long_series_is_searched_at_its_end() {
        let values: Vec<f64> =
            (0..6_000).map(|place| f64::from(place % 7) + if place < 5_500 { 0.0 } else { 40.0 }).collect();
        let found = change_points(&values, 0.05);
        assert_eq!(found.first().map(|one| one.first_after), Some(5_500));
    }
}
