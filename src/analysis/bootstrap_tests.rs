#![allow(clippy::unwrap_used)]

use super::*;
use serde::Deserialize;

/// What `tests/oracles/bca.py` wrote.
#[derive(Deserialize)]
struct Oracle {
    normal: Vec<(f64, f64)>,
    samples: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    statistic: String,
    sample: Vec<f64>,
    acceleration: f64,
    low: f64,
    high: f64,
}

fn oracle() -> Oracle {
    serde_json::from_str(include_str!("../../tests/golden/bca.json")).unwrap()
}

fn statistic(name: &str) -> fn(&[&[f64]]) -> f64 {
    match name {
        "median" => |samples| median_of_sorted(samples[0]),
        "mean" => |samples| samples[0].iter().sum::<f64>() / samples[0].len() as f64,
        other => panic!("{other}"),
    }
}

#[test]
fn the_normal_distribution_and_its_inverse_agree_with_scipy() {
    for (x, probability) in oracle().normal {
        assert!((normal_cdf(x) - probability).abs() < 2e-15, "cdf({x})");
        // The inverse of a rounded probability near 1 is only as exact as that rounding.
        assert!((normal_quantile(probability) - x).abs() < 1e-9, "quantile({probability})");
    }
    assert_eq!((normal_cdf(-1e9), normal_cdf(1e9)), (0.0, 1.0));
}

#[test]
fn the_acceleration_agrees_with_the_oracle() {
    for case in oracle().samples {
        let seen = acceleration(&[&case.sample], statistic(&case.statistic));
        assert!((seen - case.acceleration).abs() < 1e-12, "{:?}: {seen}", case.sample);
    }
}

#[test]
fn intervals_agree_with_scipy_within_the_noise_of_resampling() {
    for case in oracle().samples {
        let interval = bca(&[&case.sample], statistic(&case.statistic), 50_000, 1);
        let spread = case.sample[case.sample.len() - 1] - case.sample[0];
        for (seen, expected) in [(interval.low, case.low), (interval.high, case.high)] {
            let off = (seen - expected).abs() / spread;
            assert!(off < 0.01, "{} of {:?}: {seen} for {expected}", case.statistic, case.sample);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_interval_and_another_seed_another() {
    let sample: Vec<f64> = (0..9_i32).map(|k| f64::from(k).powi(2)).collect();
    let mean = statistic("mean");
    let with = |seed| bca(&[&sample], mean, 500, seed);
    assert_eq!(with(1), with(1));
    assert_ne!(with(1), with(2));
}
