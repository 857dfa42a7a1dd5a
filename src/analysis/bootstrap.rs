//! The BCa bootstrap interval of a statistic of one or more samples.
//!
//! Source: B. Efron and R. J. Tibshirani, An Introduction to the Bootstrap, 1993, chapter 14: bias correction z0 by
//! equation 14.14, acceleration by equation 14.15. Ties count half in z0, as a median's bootstrap distribution has
//! many. Over several samples the jackknife leaves out one value of one sample at a time.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Interval;

/// Probability on each side of a 95 % interval.
const TAIL: f64 = 0.025;

/// The median of sorted values; `NaN` where there are none.
pub(super) fn median_of_sorted(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[middle],
        _ => sorted[middle - 1].midpoint(sorted[middle]),
    }
}

/// The median of values in any order; `NaN` where there are none.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    median_of_sorted(&sorted)
}

/// The 95 % BCa interval of `statistic`, which is handed one sorted slice a sample.
///
/// The samples must be sorted and finite, with at least two values each, so that the order of measuring cannot
/// change the result. The interval always holds the estimate itself.
pub(super) fn bca(samples: &[&[f64]], statistic: impl Fn(&[&[f64]]) -> f64, resamples: usize, seed: u64) -> Interval {
    let estimate = statistic(samples);
    let mut distribution = resample(samples, &statistic, resamples, seed);
    distribution.retain(|value| value.is_finite());
    distribution.sort_by(f64::total_cmp);
    if distribution.is_empty() {
        return Interval { low: estimate, high: estimate };
    }
    let z0 = bias_correction(&distribution, estimate);
    let acceleration = acceleration(samples, &statistic);
    let end = |z: f64| {
        let shifted = z0 + z;
        quantile(&distribution, normal_cdf(z0 + shifted / (1.0 - acceleration * shifted)))
    };
    let z = normal_quantile(TAIL);
    Interval { low: end(z).min(estimate), high: end(-z).max(estimate) }
}

/// The statistic of `resamples` samples drawn with replacement.
fn resample(samples: &[&[f64]], statistic: impl Fn(&[&[f64]]) -> f64, resamples: usize, seed: u64) -> Vec<f64> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut drawn: Vec<Vec<f64>> = samples.iter().map(|sample| sample.to_vec()).collect();
    let mut times: Vec<usize> = Vec::new();
    (0..resamples)
        .map(|_| {
            for (drawn, sample) in drawn.iter_mut().zip(samples) {
                times.clear();
                times.resize(sample.len(), 0);
                for _ in 0..sample.len() {
                    // The high half of a product: its bias is below n / 2^32, and its stream never changes.
                    let index = (u64::from(random.next_u32()) * sample.len() as u64) >> 32;
                    times[index as usize] += 1;
                }
                // A sorted sample whose values are repeated as often as they were drawn need not be sorted.
                drawn.clear();
                for (value, times) in sample.iter().zip(&times) {
                    drawn.extend(std::iter::repeat_n(*value, *times));
                }
            }
            let views: Vec<&[f64]> = drawn.iter().map(Vec::as_slice).collect();
            statistic(&views)
        })
        .collect()
}

/// z0: how far the estimate stands from the middle of its bootstrap distribution, in standard deviations.
fn bias_correction(distribution: &[f64], estimate: f64) -> f64 {
    let below = distribution.partition_point(|value| *value < estimate);
    let not_above = distribution.partition_point(|value| *value <= estimate);
    let count = distribution.len() as f64;
    let share = (below + not_above) as f64 / (2.0 * count);
    // An estimate outside the whole distribution would be infinitely far.
    normal_quantile(share.clamp(0.5 / count, 1.0 - 0.5 / count))
}

/// a: how fast the statistic's standard error changes with it, by the jackknife; 0 where nothing changes.
fn acceleration(samples: &[&[f64]], statistic: impl Fn(&[&[f64]]) -> f64) -> f64 {
    let (mut cubes, mut squares) = (0.0, 0.0);
    let left_out: Vec<Vec<f64>> = (0..samples.len()).map(|which| jackknife(samples, which, &statistic)).collect();
    // Divided by the largest, so that neither squares nor sums can overflow.
    let scale = left_out.iter().flatten().fold(0.0_f64, |scale, value| scale.max(value.abs()));
    if scale == 0.0 || !scale.is_finite() {
        return 0.0;
    }
    for values in left_out {
        let n = values.len() as f64;
        let mean = values.iter().map(|value| value / scale).sum::<f64>() / n;
        for value in values {
            let influence = (n - 1.0) * (mean - value / scale) / n;
            squares += influence.powi(2);
            cubes += influence.powi(3);
        }
    }
    let acceleration = cubes / (6.0 * squares.powf(1.5));
    if acceleration.is_finite() { acceleration } else { 0.0 }
}

/// The statistic with each value of one sample left out.
fn jackknife(samples: &[&[f64]], which: usize, statistic: impl Fn(&[&[f64]]) -> f64) -> Vec<f64> {
    let sample = samples[which];
    let leave_out = |index: usize| {
        let rest = [&sample[..index], &sample[index + 1..]].concat();
        let mut views = samples.to_vec();
        views[which] = &rest;
        statistic(&views)
    };
    (0..sample.len()).map(leave_out).collect()
}

/// The quantile of sorted values, linear between them.
fn quantile(sorted: &[f64], probability: f64) -> f64 {
    let place = probability.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    let share = place.fract();
    if below == above { below } else { below * (1.0 - share) + above * share }
}

/// The standard normal distribution, by the series around 0 (G. Marsaglia, Evaluating the Normal Distribution,
/// Journal of Statistical Software 11(4), 2004); absolute error below 1e-15.
fn normal_cdf(x: f64) -> f64 {
    if x.abs() > 8.0 {
        return if x > 0.0 { 1.0 } else { 0.0 };
    }
    let (mut sum, mut term, mut index) = (x, x, 1.0);
    while term.abs() > f64::EPSILON * sum.abs() / 4.0 {
        index += 2.0;
        term *= x * x / index;
        sum += term;
    }
    let density = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
    0.5 + sum * density
}

/// Its inverse. Asked for a few times an interval, so that bisection is fast enough.
fn normal_quantile(probability: f64) -> f64 {
    let (mut low, mut high) = (-8.0_f64, 8.0_f64);
    while high - low > 1e-14 {
        let middle = low.midpoint(high);
        if middle <= low || middle >= high {
            break;
        }
        if normal_cdf(middle) < probability { low = middle } else { high = middle }
    }
    low.midpoint(high)
}

#[cfg(test)]
#[path = "bootstrap_tests.rs"]
mod tests;
