//! The rank correlation of two quantities, with its interval.

use super::{CONFIDENCE, Interval, student_t_quantile};

/// The smallest number of pairs with which a correlation has an interval.
pub const CORRELATED_PAIRS: usize = 5;
/// Degrees of freedom with which Student's t is the normal distribution.
const NORMAL: f64 = 1e7;

/// Spearman's correlation of ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Correlation {
    /// The correlation, from −1 to 1: 1 if both quantities always rise together, −1 if one always falls when the other rises.
    pub rho: f64,
    /// Its 95 % interval; `None` with fewer than [`CORRELATED_PAIRS`] pairs, and for 1 and −1, for which the formula gives no interval.
    pub interval: Option<Interval>,
    /// The number of pairs.
    pub n: usize,
}

/// Spearman's correlation of pairs: Pearson's correlation of their ranks, where equal values share the mean of their ranks. It does not depend
/// on units and logarithms. The interval is Fisher's z with the standard error √((1 + ρ²/2) / (n − 3)) (D. G. Bonett, T. A. Wright, Sample size
/// requirements for estimating Pearson, Kendall and Spearman correlations, *Psychometrika* 65, 2000).
///
/// `None` with fewer than three pairs, if one quantity is the same in all pairs, and if a value is not finite.
pub fn rank_correlation(pairs: &[(f64, f64)]) -> Option<Correlation> {
    let n = pairs.len();
    if n < 3 || pairs.iter().any(|(x, y)| !x.is_finite() || !y.is_finite()) {
        return None;
    }
    let (x, y): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let (x, y) = (ranks(&x), ranks(&y));
    let middle = (n as f64 + 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - middle) * (b - middle)).sum::<f64>();
    let scale = (product(&x, &x) * product(&y, &y)).sqrt();
    if scale == 0.0 {
        return None;
    }
    let rho = (product(&x, &y) / scale).clamp(-1.0, 1.0);
    let has_interval = n >= CORRELATED_PAIRS && rho.abs() < 1.0;
    let interval = has_interval.then(|| {
        let error = ((1.0 + rho * rho / 2.0) / (n as f64 - 3.0)).sqrt();
        let half = student_t_quantile((1.0 - CONFIDENCE) / 2.0, NORMAL) * error;
        Interval { low: (rho.atanh() - half).tanh(), high: (rho.atanh() + half).tanh() }
    });
    Some(Correlation { rho, interval, n })
}

/// The rank of each value, from 1; equal values share the mean of their ranks.
pub fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut before = 0;
    for equal in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let rank = before as f64 + (equal.len() as f64 + 1.0) / 2.0;
        equal.iter().for_each(|place| ranks[*place] = rank);
        before += equal.len();
    }
    ranks
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rand::{RngExt as _, SeedableRng};

    use super::*;

    #[test]
    fn ranks_decide_and_equal_values_share_them() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [3.5, 1.0, 3.5, 2.0]);
        let rising: Vec<(f64, f64)> = (1..8).map(|x| (f64::from(x), f64::from(x).exp())).collect();
        assert_eq!(rank_correlation(&rising), Some(Correlation { rho: 1.0, interval: None, n: 7 }));
        // scipy.stats.spearmanr([1, 2, 3, 4, 5], [5, 6, 7, 8, 7]) gives 0.8207826816681233.
        let tied = [(1.0, 5.0), (2.0, 6.0), (3.0, 7.0), (4.0, 8.0), (5.0, 7.0)];
        assert!((rank_correlation(&tied).unwrap().rho - 0.820_782_681_668_123_3).abs() < 1e-12);
        assert_eq!(rank_correlation(&[(1.0, 2.0), (2.0, 2.0), (3.0, 2.0)]), None);
        assert_eq!(rank_correlation(&[(1.0, 2.0), (2.0, 1.0)]), None);
        assert_eq!(rank_correlation(&[(1.0, 2.0), (2.0, 1.0), (f64::NAN, 3.0)]), None);
    }

    #[test]
    fn the_interval_holds_the_true_correlation_in_95_percent_of_samples() {
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(5);
        let mut normal = move || (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
        for (n, r) in [(6, 0.5_f64), (12, 0.0), (12, 0.8), (30, 0.6)] {
            let (mut holds, mut all) = (0, 0);
            // Of a normal distribution with correlation r, Spearman's is 6/π asin(r/2).
            let truth = 6.0 / std::f64::consts::PI * (r / 2.0).asin();
            for _ in 0..2000 {
                let pairs: Vec<(f64, f64)> = (0..n)
                    .map(|_| {
                        let x = normal();
                        (x, r * x + (1.0 - r * r).sqrt() * normal())
                    })
                    .collect();
                if let Some(interval) = rank_correlation(&pairs).and_then(|seen| seen.interval) {
                    all += 1;
                    holds += usize::from((interval.low..=interval.high).contains(&truth));
                }
            }
            let share = f64::from(holds as u32) / f64::from(all as u32);
            assert!((0.93..=0.995).contains(&share), "{n} pairs, r = {r}: {share}");
        }
    }
}
