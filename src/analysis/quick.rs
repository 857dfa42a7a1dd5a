//! When a quick run has warmed up, and when its steady steps are enough.
//!
//! The warm-up is found by MSER-5 (K. P. White, An effective truncation heuristic for bias reduction in simulation output,
//! *Simulation* 69(6), 1997): of the means of batches of five steps those from the `d`th on are kept for which their squared standard
//! error is least. While that leaves out half of the batches or more, step times are still changing.
//!
//! Steady steps are enough when the 95 % interval of their mean ([`batch_means`], which counts their correlation) is narrow enough.

use super::batch_means;

/// Steps of a batch, by which MSER-5 goes.
const BATCH: usize = 5;
/// Below so many batches nothing is said.
const LEAST_BATCHES: usize = 8;
/// So many batches are kept at least.
const LEAST_KEPT: usize = 4;

/// Whether steps of these durations, in the order they were made, have settled: from here on they are steady.
pub fn has_warmed_up(durations_s: &[f64]) -> bool {
    let means: Vec<f64> =
        durations_s.chunks_exact(BATCH).map(|batch| batch.iter().sum::<f64>() / BATCH as f64).collect();
    let error = |left_out: &usize| {
        let kept = &means[*left_out..];
        let count = kept.len() as f64;
        let mean = kept.iter().sum::<f64>() / count;
        kept.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count * count)
    };
    let best = (0..=means.len().saturating_sub(LEAST_KEPT)).min_by(|a, b| error(a).total_cmp(&error(b)));
    means.len() >= LEAST_BATCHES && best.is_some_and(|best| 2 * best < means.len())
}

/// Half the width of the 95 % interval of the mean of steady steps, as a share of it; none where they are too few.
pub fn relative_half_width(durations_s: &[f64]) -> Option<f64> {
    let means = batch_means(durations_s)?;
    let interval = means.interval?;
    let share = (interval.high - interval.low) / 2.0 / means.mean_s;
    share.is_finite().then_some(share)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
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

    #[test]
    fn more_steps_narrow_the_interval() {
        let width = |count| relative_half_width(&steps(count, 0.2, (0, 1.0), 7)).unwrap();
        assert!(width(4_000) < width(200) / 2.0);
        assert_eq!(relative_half_width(&[1.0; 10]), None);
        assert_eq!(relative_half_width(&[1.0; 200]), Some(0.0));
    }
}
