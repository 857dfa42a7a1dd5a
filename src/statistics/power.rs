//! The difference that a test would detect with an equal number of new repeats.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::student_t_quantile;

/// The number of simulated experiments for one answer, whose standard error is then about a percent.
const EXPERIMENTS: usize = 20_000;
/// With this number of degrees of freedom or more, a chi-squared value is made from one normal number (E. B. Wilson and M. M. Hilferty, The
/// distribution of chi-square, *PNAS* 17, 1931) instead of one for each degree.
const MANY: usize = 30;

/// The true difference, in standard errors estimated by an experiment with this number of degrees of freedom, that an equal second
/// experiment would detect with this power in a two-sided test at `alpha`.
///
/// Both experiments estimate their spread from a few repeats only. With u and v independent χ²/freedom and z normal, the second one detects
/// q standard errors of the first if q √u + z > t √v, so q is the quantile of (t √v − z) / √u at `power`.
pub fn errors_to_show(alpha: f64, freedom: f64, power: f64) -> f64 {
    static KNOWN: LazyLock<Mutex<HashMap<[u64; 3], f64>>> = LazyLock::new(Mutex::default);
    let key = [alpha, freedom, power].map(f64::to_bits);
    let known = |map: &HashMap<[u64; 3], f64>| map.get(&key).copied();
    if let Some(errors) = known(&KNOWN.lock().unwrap_or_else(PoisonError::into_inner)) {
        return errors;
    }
    let t = student_t_quantile(alpha / 2.0, freedom);
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut needed: Vec<f64> = (0..EXPERIMENTS)
        .map(|_| {
            let (first, second) = (mean_square(&mut random, freedom), mean_square(&mut random, freedom));
            (t * second.sqrt() - normal(&mut random)) / first.sqrt()
        })
        .collect();
    needed.sort_by(f64::total_cmp);
    let errors = needed[((EXPERIMENTS as f64 * power) as usize).min(EXPERIMENTS - 1)];
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).insert(key, errors);
    errors
}

/// The least number above `too_few`, and at most `enough`, that suffices, where each number above one that suffices does so, too.
pub fn least_that_suffices(mut too_few: u32, mut enough: u32, suffices: impl Fn(u32) -> bool) -> u32 {
    while enough - too_few > 1 {
        let middle = too_few.midpoint(enough);
        if suffices(middle) { enough = middle } else { too_few = middle }
    }
    enough
}

/// A χ² value divided by its degrees of freedom.
fn mean_square(random: &mut ChaCha8Rng, freedom: f64) -> f64 {
    let count = freedom.round().max(1.0) as usize;
    if count < MANY {
        return (0..count).map(|_| normal(random).powi(2)).sum::<f64>() / count as f64;
    }
    let ninth = 2.0 / (9.0 * freedom);
    (1.0 - ninth + normal(random) * ninth.sqrt()).max(0.0).powi(3)
}

/// A standard normal number (G. E. P. Box and M. E. Muller).
fn normal(random: &mut ChaCha8Rng) -> f64 {
    let mut uniform = || (f64::from(random.next_u32()) + 0.5) / 4_294_967_296.0;
    let radius = (-2.0 * uniform().ln()).sqrt();
    radius * (2.0 * std::f64::consts::PI * uniform()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_number_is_the_first_of_those_that_suffice() {
        for first in 2..=9 {
            assert_eq!(least_that_suffices(1, 9, |n| n >= first), first);
        }
        assert_eq!(least_that_suffices(1, 9, |_| false), 9);
    }

    #[test]
    fn with_a_spread_that_is_well_known_it_is_the_sum_of_two_quantiles() {
        // 1.96 + 0.84.
        assert!((errors_to_show(0.05, 10_000.0, 0.8) - 2.802).abs() < 0.03);
    }

    #[test]
    fn few_repeats_need_more_than_the_sum_of_their_quantiles() {
        let freedom = 1.0;
        let sum = student_t_quantile(0.025, freedom) + student_t_quantile(0.2, freedom);
        assert!(errors_to_show(0.05, freedom, 0.8) > 2.0 * sum);
    }
}
