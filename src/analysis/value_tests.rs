#![allow(clippy::unwrap_used)]

use super::*;
use crate::analysis::fixture::Noise;
use proptest::prelude::*;

#[test]
fn the_method_follows_the_number_of_repeats_and_its_coverage_is_known() {
    let values = [3.0, 1.0, 2.0, 5.0, 4.0, 7.0, 6.0];
    let values_of_n: Vec<_> = (1..=7).map(|n| summarise(&values[..n]).unwrap()).collect();
    let methods: Vec<_> = values_of_n.iter().map(|value| (value.n, value.method)).collect();
    assert_eq!(methods[0], (1, Method::One));
    assert!(methods[1..5].iter().all(|value| value.1 == Method::Range));
    assert!(methods[5..].iter().all(|value| value.1 == Method::OrderStatistics));
    let coverages: Vec<_> = values_of_n.iter().map(Value::coverage).collect();
    assert_eq!(coverages, [None, Some(0.5), Some(0.75), Some(0.875), Some(0.9375), Some(0.95), Some(0.95)]);
    let two = summarise(&[4.0, 1.0]).unwrap();
    assert_eq!((two.median, two.interval), (2.5, Some(Interval { low: 1.0, high: 4.0 })));
    let eight = range(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]).unwrap();
    assert_eq!((eight.interval, eight.coverage()), (Some(Interval { low: 1.0, high: 8.0 }), Some(0.9921875)));
}

#[test]
fn nothing_and_values_that_are_not_finite_are_refused() {
    assert_eq!(summarise(&[]), None);
    assert_eq!(summarise(&[1.0, f64::NAN]), None);
    assert_eq!(summarise(&[1.0, f64::INFINITY]), None);
}

#[test]
fn equal_repeats_have_an_interval_of_no_width() {
    let value = summarise(&[0.1; 9]).unwrap();
    assert_eq!((value.median, value.interval), (0.1, Some(Interval { low: 0.1, high: 0.1 })));
}

#[test]
fn a_ratio_is_the_geometric_median_of_its_pairs_and_few_span_them() {
    let value = ratio(&[(1, 2.0), (2, 9.0)], &[(2, 3.0), (1, 1.0)]).unwrap();
    assert!((value.median - 6.0_f64.sqrt()).abs() < 1e-12);
    assert_eq!((value.n, value.method), (2, Method::Range));
    assert_eq!(value.interval, Some(Interval { low: 2.0, high: 3.0 }));
    // The other way round it is the reciprocal.
    let other = ratio(&[(2, 3.0), (1, 1.0)], &[(1, 2.0), (2, 9.0)]).unwrap();
    assert!((other.median * value.median - 1.0).abs() < 1e-12);
}

#[test]
fn a_ratio_of_one_pair_has_no_interval_and_one_without_pairs_says_so() {
    let value = ratio(&[(1, 4.0), (2, 4.0)], &[(2, 2.0)]).unwrap();
    assert_eq!((value.median, value.interval, value.method, value.n), (2.0, None, Method::One, 1));
    let value = ratio(&[(1, 4.0), (2, 8.0)], &[(3, 2.0)]).unwrap();
    assert_eq!((value.median, value.interval, value.method, value.n), (3.0, None, Method::Unpaired, 0));
    assert_eq!(ratio(&[(1, 4.0)], &[(1, 0.0)]), None);
    assert_eq!(ratio(&[(1, 4.0)], &[]), None);
    assert_eq!(ratio(&[(1, f64::MAX)], &[(1, f64::MIN_POSITIVE)]), None);
}

#[test]
fn a_ratio_of_repeats_that_form_no_pairs_is_that_of_geometric_means_with_welchs_interval() {
    // Logarithms: means 1.5 and 0.5, variances of the means 0.25 each, 2 degrees of freedom; t(0.975, 2) = 4.302653.
    let value = |logs: [f64; 2]| [(1, logs[0].exp()), (2, logs[1].exp())];
    let found = Intervals::ByCount.of_unpaired_ratio(&value([1.0, 2.0]), &value([0.0, 1.0])).unwrap();
    let Interval { low, high } = found.interval.unwrap();
    let half = 4.302_653 * 0.5_f64.sqrt();
    assert!((found.median.ln() - 1.0).abs() < 1e-9 && (found.n, found.method) == (2, Method::GeometricMeans));
    assert!((low.ln() - (1.0 - half)).abs() < 1e-5 && (high.ln() - (1.0 + half)).abs() < 1e-5, "{low} {high}");
    let single = Intervals::ByCount.of_unpaired_ratio(&[(1, 4.0)], &[(1, 1.0), (2, 4.0)]).unwrap();
    assert_eq!((single.interval, single.method), (None, Method::Unpaired));
    assert!((single.median - 2.0).abs() < 1e-12);
    assert_eq!(Intervals::ByCount.of_unpaired_ratio(&[(1, 4.0)], &[(1, 0.0)]), None);
}

#[test]
fn what_a_repeat_has_in_common_cancels_however_many_repeats_there_are() {
    // The machine became 8 % slower from repeat to repeat, the cells differ by half a percent and a hundredth of noise.
    let mut noise = Noise::new(9);
    let mut side = |factor: f64| -> Vec<(u32, f64)> {
        let mut value = |repeat: u32| factor * (0.08 * f64::from(repeat) + 0.0001 * noise.normal()).exp();
        (1..=9).map(|repeat| (repeat, value(repeat))).collect()
    };
    let (over, base) = (side(1.005), side(1.0));
    for n in [5, 6, 9] {
        let Interval { low, high } = ratio(&over[..n], &base[..n]).unwrap().interval.unwrap();
        assert!(1.004 < low && high < 1.006, "{n} repeats: {low} to {high}");
    }
}

#[test]
fn a_skewed_median_of_seven_is_covered_as_often_as_is_said() {
    // The bootstrap's interval of 0.1 covered 88 %.
    let mut noise = Noise::new(7);
    let covers = |_: &u32| {
        let repeats: Vec<f64> = (0..7).map(|_| noise.normal().exp()).collect();
        let Interval { low, high } = summarise(&repeats).unwrap().interval.unwrap();
        low <= 1.0 && 1.0 <= high
    };
    let covered = (0..4_000).filter(covers).count() as f64 / 40.0;
    assert!((94.0..96.5).contains(&covered), "{covered} %");
}

fn finite() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>().prop_filter("finite", |value| value.is_finite()),
        -100.0..100.0,
        Just(0.0),
        Just(f64::MAX),
        Just(f64::MIN_POSITIVE),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_finite_repeats_have_a_finite_interval_that_holds_the_median(values in prop::collection::vec(finite(), 1..14)) {
        let value = summarise(&values).unwrap();
        prop_assert!(value.median.is_finite());
        prop_assert_eq!(value.interval.is_none(), values.len() == 1);
        if let Some(Interval { low, high }) = value.interval {
            prop_assert!(low.is_finite() && high.is_finite() && low <= value.median && value.median <= high);
        }
    }

    #[test]
    fn the_order_of_repeats_changes_nothing(
        (values, shuffled) in prop::collection::vec(finite(), 1..14)
            .prop_flat_map(|values| (Just(values.clone()), Just(values).prop_shuffle())),
    ) {
        prop_assert_eq!(summarise(&values), summarise(&shuffled));
    }

    #[test]
    fn a_change_of_unit_changes_median_and_interval_alike(
        values in prop::collection::vec(0.001_f64..1000.0, 1..14), power in -20_i32..20,
    ) {
        // Powers of two scale without rounding.
        let factor = f64::from(power).exp2();
        let scaled: Vec<f64> = values.iter().map(|value| value * factor).collect();
        let (before, after) = (summarise(&values).unwrap(), summarise(&scaled).unwrap());
        prop_assert_eq!(before.median * factor, after.median);
        let scale = |interval: Interval| Interval { low: interval.low * factor, high: interval.high * factor };
        prop_assert_eq!(before.interval.map(scale), after.interval);
    }

    #[test]
    fn a_ratio_always_lies_in_its_interval(
        over in prop::collection::vec((1_u32..9, 0.001_f64..1000.0), 1..9),
        base in prop::collection::vec((1_u32..9, 0.001_f64..1000.0), 1..9),
    ) {
        let value = ratio(&over, &base).unwrap();
        if let Some(Interval { low, high }) = value.interval {
            prop_assert!(low <= value.median && value.median <= high);
        }
    }
}
