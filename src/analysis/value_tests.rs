#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;

#[test]
fn the_method_follows_the_number_of_repeats() {
    let methods: Vec<_> = (1..=7)
        .map(|n| summarise(&[3.0, 1.0, 2.0, 5.0, 4.0, 7.0, 6.0][..n], 1).unwrap())
        .map(|value| (value.n, value.method, value.interval.is_some()))
        .collect();
    assert_eq!(methods[0], (1, Method::One, false));
    assert!(methods[1..5].iter().all(|value| value.1 == Method::Range && value.2));
    assert!(methods[5..].iter().all(|value| value.1 == Method::Bca && value.2));
    let two = summarise(&[4.0, 1.0], 1).unwrap();
    assert_eq!((two.median, two.interval), (2.5, Some(Interval { low: 1.0, high: 4.0 })));
}

#[test]
fn nothing_and_values_that_are_not_finite_are_refused() {
    assert_eq!(summarise(&[], 1), None);
    assert_eq!(summarise(&[1.0, f64::NAN], 1), None);
    assert_eq!(summarise(&[1.0, f64::INFINITY], 1), None);
}

#[test]
fn equal_repeats_have_an_interval_of_no_width() {
    let value = summarise(&[0.1; 9], 1).unwrap();
    assert_eq!((value.median, value.interval), (0.1, Some(Interval { low: 0.1, high: 0.1 })));
}

#[test]
fn a_ratio_of_few_repeats_spans_the_ratios_of_its_pairs() {
    let value = ratio(&[(1, 2.0), (2, 9.0)], &[(2, 3.0), (1, 1.0)], 1).unwrap();
    assert_eq!((value.median, value.n, value.method), (2.75, 2, Method::Range));
    assert_eq!(value.interval, Some(Interval { low: 2.0, high: 3.0 }));
}

#[test]
fn a_ratio_without_two_pairs_has_no_interval() {
    let value = ratio(&[(1, 4.0), (2, 4.0)], &[(2, 2.0)], 1).unwrap();
    assert_eq!((value.median, value.interval, value.method), (2.0, None, Method::One));
    assert_eq!(ratio(&[(1, 4.0)], &[(1, 0.0)], 1), None);
    assert_eq!(ratio(&[(1, 4.0)], &[], 1), None);
    assert_eq!(ratio(&[(1, f64::MAX)], &[(1, f64::MIN_POSITIVE)], 1), None);
}

#[test]
fn a_ratio_of_many_repeats_is_bootstrapped_over_both_sides() {
    let side =
        |factor: f64| -> Vec<(u32, f64)> { (1..=8).map(|k| (k, factor * (1.0 + f64::from(k) / 100.0))).collect() };
    let value = ratio(&side(3.0), &side(1.0), 1).unwrap();
    let interval = value.interval.unwrap();
    assert_eq!((value.method, value.n), (Method::Bca, 8));
    assert!((value.median - 3.0).abs() < 1e-12);
    assert!(2.8 < interval.low && interval.low < 2.99 && 3.01 < interval.high && interval.high < 3.2, "{interval:?}");
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
    fn any_finite_repeats_have_a_finite_interval_that_holds_the_median(
        values in prop::collection::vec(finite(), 1..14), seed: u64,
    ) {
        let value = summarise(&values, seed).unwrap();
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
        prop_assert_eq!(summarise(&values, 7), summarise(&shuffled, 7));
    }

    #[test]
    fn a_change_of_unit_changes_median_and_interval_alike(
        values in prop::collection::vec(0.001_f64..1000.0, 1..14), power in -20_i32..20,
    ) {
        // Powers of two scale without rounding.
        let factor = f64::from(power).exp2();
        let scaled: Vec<f64> = values.iter().map(|value| value * factor).collect();
        let (before, after) = (summarise(&values, 7).unwrap(), summarise(&scaled, 7).unwrap());
        prop_assert_eq!(before.median * factor, after.median);
        let scale = |interval: Interval| Interval { low: interval.low * factor, high: interval.high * factor };
        prop_assert_eq!(before.interval.map(scale), after.interval);
    }

    #[test]
    fn a_ratio_always_lies_in_its_interval(
        over in prop::collection::vec((1_u32..9, 0.001_f64..1000.0), 1..9),
        base in prop::collection::vec((1_u32..9, 0.001_f64..1000.0), 1..9),
    ) {
        let value = ratio(&over, &base, 7).unwrap();
        if let Some(Interval { low, high }) = value.interval {
            prop_assert!(low <= value.median && value.median <= high);
        }
    }
}
