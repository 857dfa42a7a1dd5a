//! The steadiness of a run: how much its steps spread, whether they drift, and how they are correlated.

use super::batch::{BatchMeans, means_of_batches};
use crate::statistics::{median, median_of_sorted};

/// The smallest number of steps with which spread, drift and correlation are meaningful.
const LEAST_STEPS: usize = 20;
/// A smaller drift is not marked, even if it is certain.
const MARKED_DRIFT: f64 = 0.03;
/// Kendall's S of 20 values beyond which a trend is certain: P(|S| ≥ 104) = 0.001 (normal approximation).
const CERTAIN_TREND: i32 = 104;

/// The steadiness of a run's steady steps, in shares.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Steadiness {
    /// Half the range of the middle 68 % of steps, over their median: for normal times this is the standard deviation; a few slow steps do
    /// not affect it.
    pub spread: Option<f64>,
    /// The median of the last fifth over the median of the first fifth, minus 1.
    pub drift: Option<f64>,
    /// The correlation of neighbouring steps.
    pub lag_one: Option<f64>,
    /// The standard error of the mean within the run, over the mean, allowing for the correlation of steps.
    pub error: Option<f64>,
    /// Whether the drift is certain, and large enough to be marked.
    pub drifts: bool,
}

impl Steadiness {
    /// Steadiness of step times in the order they were measured, in seconds.
    pub(super) fn of(times_s: &[f64], means: Option<&BatchMeans>) -> Self {
        let error = means.and_then(|means| Some(means.error_s? / means.mean_s)).filter(|error| error.is_finite());
        if times_s.len() < LEAST_STEPS {
            return Self { error, ..Self::default() };
        }
        let mut sorted = times_s.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| sorted[(share * (sorted.len() - 1) as f64).round() as usize];
        let spread = (at(0.841_345) - at(0.158_655)) / 2.0 / median_of_sorted(&sorted);
        let fifth = times_s.len() / 5;
        let drift = median(&times_s[times_s.len() - fifth..]) / median(&times_s[..fifth]) - 1.0;
        let is_certain = || means_of_batches(times_s).is_some_and(|means| kendall(&means).abs() >= CERTAIN_TREND);
        Self {
            spread: Some(spread).filter(|spread| spread.is_finite()),
            drift: Some(drift).filter(|drift| drift.is_finite()),
            lag_one: lag_one(times_s),
            error,
            drifts: drift.is_finite() && drift.abs() >= MARKED_DRIFT && is_certain(),
        }
    }
}

/// Kendall's S of a series over time: rising pairs minus falling pairs (H. B. Mann, *Econometrica* 13(3), 1945).
pub(super) fn kendall(values: &[f64]) -> i32 {
    let sign = |a: f64, b: f64| i32::from(b > a) - i32::from(b < a);
    (0..values.len())
        .flat_map(|i| (i + 1..values.len()).map(move |j| (i, j)))
        .map(|(i, j)| sign(values[i], values[j]))
        .sum()
}

/// The correlation of neighbouring values; `None` if all are equal.
pub(super) fn lag_one(values: &[f64]) -> Option<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let products: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    Some(products / squares).filter(|correlation| correlation.is_finite())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::batch_means;
    use crate::analysis::fixture::Noise;

    fn steadiness_of(times_s: &[f64]) -> Steadiness {
        Steadiness::of(times_s, batch_means(times_s).as_ref())
    }

    #[test]
    fn spread_and_correlation_are_those_of_the_series() {
        let noise = |correlation| -> Vec<f64> {
            let series = Noise::new(3).correlated(20_000, correlation);
            series.iter().map(|x| 0.02 * (1.0 + 0.01 * x)).collect()
        };
        let plain = steadiness_of(&noise(0.0));
        assert!((plain.spread.unwrap() - 0.01).abs() < 0.0003 && plain.lag_one.unwrap().abs() < 0.03, "{plain:?}");
        assert!((plain.error.unwrap() - 0.01 / 20_000_f64.sqrt()).abs() < 4e-5 && !plain.drifts, "{plain:?}");
        let correlated = steadiness_of(&noise(0.8));
        assert!((correlated.lag_one.unwrap() - 0.8).abs() < 0.03 && correlated.drift.unwrap().abs() < 0.01);
        // Three times as uncertain: √((1 + 0.8) / (1 − 0.8)).
        assert!((2.0..4.5).contains(&(correlated.error.unwrap() / plain.error.unwrap())), "{correlated:?}");
        // One step in fifty that is ten times as long changes nothing but the mean.
        let mut slow = noise(0.0);
        slow.iter_mut().step_by(50).for_each(|time_s| *time_s *= 10.0);
        assert!((steadiness_of(&slow).spread.unwrap() - 0.01).abs() < 0.001);
    }

    #[test]
    fn the_spread_is_a_share_of_the_median_also_of_an_even_number_of_steps() {
        // Ten steps of 1 s and ten of 3 s: half of the range is 1 s, and the median is 2 s.
        let times_s: Vec<f64> = (0..20).map(|step| if step < 10 { 1.0 } else { 3.0 }).collect();
        assert_eq!(steadiness_of(&times_s).spread, Some(0.5));
    }

    #[test]
    fn a_run_that_becomes_slower_drifts_and_a_noisy_one_does_not() {
        let mut noise = Noise::new(4);
        let warming: Vec<f64> = (0..500).map(|step| 1.0 + f64::from(step) * 2e-4 + 0.01 * noise.normal()).collect();
        let steadiness = steadiness_of(&warming);
        assert!(steadiness.drifts && (steadiness.drift.unwrap() - 0.08).abs() < 0.01, "{steadiness:?}");
        // From 3 % on.
        let mut little = Noise::new(5);
        for (rise, marked) in [(0.033, false), (0.042, true)] {
            let rising: Vec<f64> =
                (0..500).map(|step| 1.0 + rise * f64::from(step) / 500.0 + 0.001 * little.normal()).collect();
            assert_eq!(steadiness_of(&rising).drifts, marked, "{:?}", steadiness_of(&rising));
        }
        let drifting = (0..200).filter(|_| {
            let noisy: Vec<f64> = noise.correlated(500, 0.5).iter().map(|x| 1.0 + 0.05 * x).collect();
            steadiness_of(&noisy).drifts
        });
        assert!(drifting.count() <= 1);
    }

    #[test]
    fn few_and_equal_steps_tell_what_they_can() {
        assert_eq!(steadiness_of(&[1.0, 2.0]), Steadiness::default());
        let equal = steadiness_of(&[0.5; 40]);
        assert_eq!((equal.spread, equal.drift, equal.lag_one, equal.drifts), (Some(0.0), Some(0.0), None, false));
    }

    #[test]
    fn equal_values_neither_rise_nor_fall() {
        assert_eq!([&[1.0, 1.0][..], &[1.0, 2.0, 2.0], &[2.0, 1.0, 1.0, 0.0]].map(kendall), [0, 2, -5]);
    }
}
