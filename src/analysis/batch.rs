//! The mean of correlated times within one run, by batch means.
//!
//! Neighbouring steps are correlated, so that the standard error of independent values would be too small. The means
//! of a few long batches are nearly independent. Sources: A. M. Law, Simulation Modeling and Analysis, 5th edition,
//! 2015, section 9.5.3; 10 to 30 batches suffice (B. Schmeiser, Batch size effects in the analysis of simulation
//! output, Operations Research 30(3), 1982).

use super::Interval;

/// How many batches.
const BATCHES: usize = 20;
/// Steps that a batch must have at least.
const BATCH_STEPS: usize = 5;
/// The 97.5 % quantile of Student's t with `BATCHES - 1` degrees of freedom.
const STUDENT_T: f64 = 2.093_024_054_408_263;

/// The mean step time of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchMeans {
    /// The mean of all steps, in seconds.
    pub mean_s: f64,
    /// Its 95 % interval; none below 100 steps.
    pub interval: Option<Interval>,
    /// How many batches the interval rests on; 0 without one.
    pub batches: usize,
    /// How many steps.
    pub n: usize,
    /// Correlation of neighbouring batch means: far from 0, the batches are too short and the interval too narrow.
    pub lag_one: Option<f64>,
}

/// The mean of step times in the order they were measured, in seconds; `None` without steps, or where one is not finite.
///
/// The interval leaves out the few first steps that fill no batch; the mean does not.
pub fn batch_means(step_times_s: &[f64]) -> Option<BatchMeans> {
    let n = step_times_s.len();
    let mean_s = mean(step_times_s);
    if n == 0 || !mean_s.is_finite() {
        return None;
    }
    if n < BATCHES * BATCH_STEPS {
        return Some(BatchMeans { mean_s, interval: None, batches: 0, n, lag_one: None });
    }
    let length = n / BATCHES;
    let means: Vec<f64> = step_times_s[n - BATCHES * length..].chunks_exact(length).map(mean).collect();
    let middle = mean(&means);
    let squares: f64 = means.iter().map(|value| (value - middle).powi(2)).sum();
    let products: f64 = means.windows(2).map(|pair| (pair[0] - middle) * (pair[1] - middle)).sum();
    let half_width = STUDENT_T * (squares / (BATCHES - 1) as f64 / BATCHES as f64).sqrt();
    let lag_one = (squares > 0.0).then(|| products / squares);
    let interval = Interval { low: mean_s - half_width, high: mean_s + half_width };
    Some(BatchMeans { mean_s, interval: Some(interval), batches: BATCHES, n, lag_one })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};

    /// An autoregressive series with mean 1: value = 0.9 × the one before + noise.
    fn correlated(steps: usize, seed: u64) -> Vec<f64> {
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        let mut deviation = 0.0;
        let mut next = || {
            deviation = 0.9 * deviation + (f64::from(random.next_u32()) / f64::from(u32::MAX) - 0.5) * 0.01;
            1.0 + deviation
        };
        (0..steps).map(|_| next()).collect()
    }

    #[test]
    fn the_interval_covers_the_true_mean_of_correlated_steps_about_95_times_in_100() {
        let covered = (0..400).filter(|seed| {
            let interval = batch_means(&correlated(4_000, *seed)).unwrap().interval.unwrap();
            interval.low <= 1.0 && 1.0 <= interval.high
        });
        let covered = covered.count();
        assert!((365..=396).contains(&covered), "{covered} of 400");
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
        assert_eq!(equal.lag_one, None);
    }

    #[test]
    fn no_step_and_a_step_without_end_are_refused() {
        assert_eq!(batch_means(&[]), None);
        assert_eq!(batch_means(&[1.0, f64::NAN]), None);
    }
}
