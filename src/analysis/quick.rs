//! Decides when a quick run has warmed up, and when it has enough steady steps.
//!
//! The end of the warm-up is found by MSER-5 (K. P. White, An effective truncation heuristic for bias reduction in simulation output,
//! *Simulation* 69(6), 1997): steps are averaged in batches of five, and the batches before the `d`th are dropped, where `d` minimises
//! the squared standard error of the remaining means. As long as that drops half of the batches or more, step times are still changing.
//!
//! Steady steps are enough when the 95 % interval of their mean ([`batch_means`], which allows for their correlation) is narrow enough. As
//! long as the steps are worth fewer than 50 independent ones, their correlation cannot be estimated well, and a run that ended at the
//! first interval that looks narrow enough would too often end by chance. As long as this is so, the mean counts as known only to five
//! standard deviations of single steps.

use super::batch_means;
use super::steadiness::lag_one;

/// The number of steps in a batch of MSER-5.
const BATCH: usize = 5;
/// With fewer batches, nothing is decided.
const LEAST_BATCHES: usize = 8;
/// The least number of batches that are kept.
const LEAST_KEPT: usize = 4;
/// The number of independent steps that steady steps must be worth. With it, the intervals at which runs end cover the mean in 95 % of
/// cases (see `multicard help method`); without it, in 91 % at a correlation of 0.9 and in 80 % at 0.99.
const LEAST_INDEPENDENT: f64 = 50.0;
/// If steps are worth fewer, their mean is taken to be known to this number of standard deviations of single steps.
const SPREADS_OF_FEW: f64 = 5.0;
/// The largest correlation that is taken into account.
const MOST_CORRELATION: f64 = 0.999;

/// Whether the end of the warm-up is reached after steps with these durations, so that further steps are steady.
pub fn has_warmed_up(durations_s: &[f64]) -> bool {
    let means: Vec<f64> =
        durations_s.chunks_exact(BATCH).map(|batch| batch.iter().sum::<f64>() / BATCH as f64).collect();
    let error = |left_out: &usize| {
        let rest = &means[*left_out..];
        let count = rest.len() as f64;
        let mean = rest.iter().sum::<f64>() / count;
        rest.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count * count)
    };
    let best = (0..=means.len().saturating_sub(LEAST_KEPT)).min_by(|a, b| error(a).total_cmp(&error(b)));
    means.len() >= LEAST_BATCHES && best.is_some_and(|best| 2 * best < means.len())
}

/// Half the width of the 95 % interval of the mean of steady steps, as a share of the mean; `None` if there are too few steps.
pub fn relative_half_width(durations_s: &[f64]) -> Option<f64> {
    let means = batch_means(durations_s)?;
    let interval = means.interval?;
    let half_s = (interval.high - interval.low) / 2.0;
    let is_enough = independent_steps(durations_s) >= LEAST_INDEPENDENT;
    let half_s = if is_enough { half_s } else { half_s.max(SPREADS_OF_FEW * standard_deviation(durations_s)) };
    let share = half_s / means.mean_s;
    share.is_finite().then_some(share)
}

fn standard_deviation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
}

/// The number of independent steps that would give the mean equally well, computed from the correlation of neighbours (without its bias: M. G. Kendall,
/// *Biometrika* 41, 1954).
fn independent_steps(durations_s: &[f64]) -> f64 {
    let count = durations_s.len() as f64;
    let correlation =
        lag_one(durations_s).map_or(0.0, |rho| (rho + (1.0 + 4.0 * rho) / count).clamp(0.0, MOST_CORRELATION));
    count * (1.0 - correlation) / (1.0 + correlation)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::fixture::Noise;
    use rand::{Rng, SeedableRng};

    /// Step times around 1 with noise of this share, after so many that are `slow` times as long.
    fn steps(count: usize, noise: f64, slow: (usize, f64), seed: u64) -> Vec<f64> {
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        let mut next = || 1.0 + noise * (f64::from(random.next_u32()) / f64::from(u32::MAX) - 0.5);
        (0..count).map(|step| next() * if step < slow.0 { slow.1 } else { 1.0 }).collect()
    }

    #[test]
    fn a_few_slow_steps_at_the_start_are_over_soon() {
        let over =
            |seed: &u64| [40, 48, 56, 64].iter().any(|count| has_warmed_up(&steps(*count, 0.1, (3, 300.0), *seed)));
        let found = (0..200).filter(over).count();
        assert!(found > 170, "{found} of 200");
    }

    #[test]
    fn steps_that_still_change_are_no_steady_ones() {
        // Each step is 1 % shorter than the one before.
        let shrinking: Vec<f64> = (0..60).map(|step| 0.99_f64.powi(step)).collect();
        assert!(!has_warmed_up(&shrinking));
        for seed in 0..50 {
            assert!(!has_warmed_up(&steps(60, 0.1, (40, 1.5), seed)), "two thirds are slow: {seed}");
        }
        assert!(!has_warmed_up(&steps(20, 0.0, (3, 300.0), 1)), "too few");
    }

    /// The steady steps at the end of a run that looks after each eighth more, as quick runs do, and ends a block after it knows the mean
    /// to ± `precision`.
    fn course(noise: &mut Noise, correlation: f64, spread: f64, precision: f64) -> Vec<f64> {
        let innovation = (1.0 - correlation * correlation).sqrt();
        let mut last = noise.normal();
        let (mut steps, mut made, mut ends) = (Vec::new(), 60, false);
        loop {
            let block = 8.max(made / 8);
            for _ in 0..block {
                last = correlation * last + innovation * noise.normal();
                steps.push(1.0 + spread * last);
            }
            made += block;
            if ends || made > 90_000 {
                return steps;
            }
            ends = relative_half_width(&steps).is_some_and(|width| width <= precision);
        }
    }

    #[test]
    fn runs_that_end_once_their_mean_is_known_know_it_in_95_percent_of_cases() {
        for (correlation, spread) in [(0.0, 0.03), (0.5, 0.03), (0.9, 0.03), (0.97, 0.03)] {
            let mut noise = Noise::new(21);
            let (mut within, mut covered) = (0, 0);
            for _ in 0..600 {
                let means = batch_means(&course(&mut noise, correlation, spread, 0.01)).unwrap();
                let ends = means.interval.unwrap();
                within += u32::from((means.mean_s - 1.0).abs() <= 0.01);
                covered += u32::from(ends.low <= 1.0 && 1.0 <= ends.high);
            }
            let percent = |count: u32| f64::from(count) / 6.0;
            assert!(percent(within) >= 95.0, "{correlation}: ±1 % holds in {} %", percent(within));
            // Two standard errors below 95 %; without the least number of independent steps, 91 % and less from 0.9 on.
            assert!(percent(covered) >= 93.2, "{correlation}: intervals hold in {} %", percent(covered));
        }
    }

    #[test]
    fn steps_that_hang_together_are_worth_fewer() {
        let mut noise = Noise::new(22);
        let worth = |correlation, noise: &mut Noise| independent_steps(&noise.correlated(10_000, correlation));
        assert!((worth(0.0, &mut noise) - 10_000.0).abs() < 600.0);
        assert!((worth(0.9, &mut noise) - 526.0).abs() < 60.0);
        assert_eq!(independent_steps(&[0.5; 70]), 70.0);
        // Two hundred of them are worth ten.
        let steps: Vec<f64> = noise.correlated(200, 0.9).iter().map(|x| 1.0 + 1e-6 * x).collect();
        let width = relative_half_width(&steps).unwrap();
        assert!((3e-6..7e-6).contains(&width), "five standard deviations: {width}");
    }

    #[test]
    fn more_steps_narrow_the_interval() {
        let width = |count| relative_half_width(&steps(count, 0.2, (0, 1.0), 7)).unwrap();
        assert!(width(4_000) < width(200) / 2.0);
        assert_eq!(relative_half_width(&[1.0; 10]), None);
        assert_eq!(relative_half_width(&[1.0; 200]), Some(0.0));
    }

    #[test]
    fn a_few_steps_count_for_less_because_their_correlation_is_underestimated() {
        // Neighbours are not correlated, so that the bias alone, 1/4, counts: 4 × (1 − 0.25) / (1 + 0.25).
        assert!((independent_steps(&[2.0, 1.0, 0.0, 1.0]) - 2.4).abs() < 1e-12);
        // Neighbours that are correlated by ρ have a bias of (1 + 4 ρ) / n.
        let steps = [1.0, 2.0, 3.0, 4.0, 3.0, 2.0, 1.0, 2.0];
        let rho = lag_one(&steps).unwrap();
        assert!((0.2..0.6).contains(&rho), "{rho}");
        let unbiased = rho + (1.0 + 4.0 * rho) / 8.0;
        assert!((independent_steps(&steps) - 8.0 * (1.0 - unbiased) / (1.0 + unbiased)).abs() < 1e-12);
    }
}
