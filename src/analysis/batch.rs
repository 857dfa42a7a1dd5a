//! The mean of correlated times within one run, by batch means.
//!
//! Neighbouring steps are correlated, so the standard error for independent values would be too small. The means of a few long batches are
//! nearly independent (A. M. Law, *Simulation Modeling and Analysis*, 5th edition, 2015, section 9.5.3; B. Schmeiser, Batch size effects in
//! the analysis of simulation output, *Operations Research* 30(3), 1982). The remaining correlation between batches widens the interval, as
//! in Skart (A. Tafazzoli, J. R. Wilson, E. K. Lada and N. M. Steiger, *INFORMS Journal on Computing* 23(2), 2011).

use crate::statistics::{Interval, student_t_quantile};

/// The number of batches.
pub(super) const BATCHES: usize = 20;
/// The least number of steps in a batch.
const BATCH_STEPS: usize = 5;
/// With 20 batches, a higher correlation cannot be distinguished from a trend.
const MOST_CORRELATION: f64 = 0.85;

/// The mean step time of one run. Its interval does not cover differences between runs, which are larger than the interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchMeans {
    /// The mean of all steps, in seconds.
    pub mean_s: f64,
    /// The standard error of the mean, allowing for the correlation of steps; `None` below 100 steps.
    pub error_s: Option<f64>,
    /// The 95 % interval of the mean; `None` below 100 steps.
    pub interval: Option<Interval>,
    /// The number of batches behind the interval; 0 without an interval.
    pub batches: usize,
    /// The number of steps.
    pub n: usize,
    /// Correlation of neighbouring batch means, which the interval allows for.
    pub lag_one: Option<f64>,
}

/// The mean of step times in the order they were measured, in seconds; `None` without steps, or if one is not finite.
///
/// The interval ignores the first few steps that do not fill a batch; the mean includes them.
pub fn batch_means(step_times_s: &[f64]) -> Option<BatchMeans> {
    let n = step_times_s.len();
    let mean_s = mean(step_times_s);
    if n == 0 || !mean_s.is_finite() {
        return None;
    }
    let Some(means) = means_of_batches(step_times_s) else {
        return Some(BatchMeans { mean_s, error_s: None, interval: None, batches: 0, n, lag_one: None });
    };
    let k = BATCHES as f64;
    let middle = mean(&means);
    let squares: f64 = means.iter().map(|value| (value - middle).powi(2)).sum();
    let products: f64 = means.windows(2).map(|pair| (pair[0] - middle) * (pair[1] - middle)).sum();
    let lag_one = (squares > 0.0).then(|| products / squares);
    // The estimate from few values is too low by (1 + 4ρ) / k (M. G. Kendall, Biometrika 41, 1954).
    let correlation = lag_one.map_or(0.0, |rho| (rho + (1.0 + 4.0 * rho) / k).clamp(0.0, MOST_CORRELATION));
    let inflation = (1.0 + correlation) / (1.0 - correlation);
    let error_s = (squares / (k - inflation).max(1.0) / k * inflation).sqrt();
    let independent = k * (1.0 - correlation.powi(2)) / (1.0 + correlation.powi(2));
    let half_width = student_t_quantile(0.025, (independent - 1.0).max(1.0)) * error_s;
    let interval = Interval { low: mean_s - half_width, high: mean_s + half_width };
    Some(BatchMeans { mean_s, error_s: Some(error_s), interval: Some(interval), batches: BATCHES, n, lag_one })
}

/// The means of [`BATCHES`] batches of equal length; `None` for too few steps.
pub(super) fn means_of_batches(step_times_s: &[f64]) -> Option<Vec<f64>> {
    let n = step_times_s.len();
    let length = n / BATCHES;
    (length >= BATCH_STEPS).then(|| step_times_s[n - BATCHES * length..].chunks_exact(length).map(mean).collect())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::fixture::Noise;

    /// How many of 100 intervals over so many steps of an autoregressive series cover its mean.
    fn covered(steps: usize, correlation: f64) -> f64 {
        let mut noise = Noise::new(steps as u64);
        let covers = |_: &u32| {
            let times: Vec<f64> = noise.correlated(steps, correlation).iter().map(|x| 1.0 + 0.01 * x).collect();
            let interval = batch_means(&times).unwrap().interval.unwrap();
            interval.low <= 1.0 && 1.0 <= interval.high
        };
        (0..400).filter(covers).count() as f64 / 4.0
    }

    #[test]
    fn intervals_of_a_runs_mean_cover_it_however_its_steps_are_correlated() {
        // Without the correlation between batches, 100 steps with a correlation of 0.9 were covered 63 times in 100.
        for (steps, correlation) in [(100, 0.0), (100, 0.5), (100, 0.9), (300, 0.9)] {
            let covered = covered(steps, correlation);
            assert!((91.5..98.0).contains(&covered), "{steps} steps, correlation {correlation}: {covered} %");
        }
    }

    #[test]
    fn few_steps_have_a_mean_and_no_interval() {
        let few = batch_means(&[1.0, 2.0, 6.0]).unwrap();
        assert_eq!((few.mean_s, few.interval, few.n), (3.0, None, 3));
    }

    #[test]
    fn equal_steps_have_an_interval_of_no_width() {
        let equal = batch_means(&[0.5; 200]).unwrap();
        assert_eq!(equal.interval, Some(Interval { low: 0.5, high: 0.5 }));
        assert_eq!((equal.lag_one, equal.error_s), (None, Some(0.0)));
    }

    #[test]
    fn no_step_and_a_step_without_end_are_refused() {
        assert_eq!(batch_means(&[]), None);
        assert_eq!(batch_means(&[1.0, f64::NAN]), None);
    }
}
