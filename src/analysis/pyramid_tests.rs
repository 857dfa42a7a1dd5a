#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

/// Ascending places and values with gaps; some places are equal, some far apart.
fn curve() -> impl Strategy<Value = (Vec<f64>, Vec<f64>)> {
    let step = prop_oneof![4 => 0.0..1.0, 1 => Just(0.0), 1 => 0.0..100.0];
    let value = prop_oneof![9 => -10.0..10.0, 1 => Just(f64::NAN)];
    prop::collection::vec((step, value), 1..700).prop_map(|points| {
        let mut at = 0.0;
        let places = points.iter().map(|(step, _)| {
            at += step;
            at
        });
        (places.collect(), points.iter().map(|(_, value)| *value).collect())
    })
}

fn view() -> impl Strategy<Value = View> {
    (-10.0..1000.0, 0.001..2000.0, 1_usize..300).prop_map(|(from, width, columns)| View {
        from,
        to: from + width,
        columns,
    })
}

fn places(xs: &[f64]) -> Places {
    xs.iter().copied().collect()
}

/// How many values a column are so many that whole blocks are drawn.
fn is_dense(xs: &[f64], view: View) -> bool {
    xs.len() / view.columns >= 4 * STRIDE
}

/// Many values a column, in stretches of other density: noise, flat ones, and ones without values, with pauses between.
fn dense_curve() -> impl Strategy<Value = (Vec<f64>, Vec<f64>)> {
    let levels = prop_oneof![4 => Just(1000), 2 => Just(1), 1 => Just(0)];
    let stretch = (1_usize..3000, 0.001..0.1, 0.0..20.0, levels);
    prop::collection::vec(stretch, 1..8).prop_map(|stretches| {
        let (mut at, mut xs, mut values) = (0.0, Vec::new(), Vec::new());
        for (count, step, pause, levels) in stretches {
            for index in 0..count {
                at += step;
                xs.push(at);
                let noise = (index as u32).wrapping_mul(2_654_435_761);
                values.push(noise.checked_rem(levels).map_or(f64::NAN, f64::from));
            }
            at += pause;
        }
        (xs, values)
    })
}

fn same(a: f64, b: f64) -> bool {
    a == b || a.is_nan() && b.is_nan()
}

proptest! {
    #[test]
    fn extremes_of_any_range_are_those_of_its_values(
        values in prop::collection::vec(prop_oneof![9 => -5.0..5.0, 1 => Just(f64::NAN)], 0..2000),
        ends in (0_usize..2000, 0_usize..2000),
    ) {
        let pyramid: Pyramid = values.iter().copied().collect();
        let (from, to) = (ends.0.min(ends.1).min(values.len()), ends.0.max(ends.1).min(values.len()));
        let plain = values[from..to].iter().filter(|value| !value.is_nan());
        let min = plain.clone().copied().reduce(f64::min);
        let max = plain.copied().reduce(f64::max);
        prop_assert_eq!(pyramid.extent(from, to), min.zip(max));
    }

    #[test]
    fn appending_equals_building_from_all(values in prop::collection::vec(-5.0..5.0, 0..1500), at in 0_usize..1500) {
        let at = at.min(values.len());
        let mut grown: Pyramid = values[..at].iter().copied().collect();
        values[at..].iter().for_each(|value| grown.push(*value));
        prop_assert_eq!(&grown, &values.iter().copied().collect::<Pyramid>());
        let blocks: Vec<usize> = grown.levels.iter().map(Vec::len).collect();
        let mut count = values.len();
        for blocks in blocks {
            count = count.div_ceil(BLOCK);
            prop_assert_eq!(blocks, count);
        }
        prop_assert!(count <= BLOCK);
    }

    #[test]
    fn what_is_drawn_is_data_within_its_column((xs, values) in curve(), view in view()) {
        prop_assume!(!is_dense(&xs, view));
        let pyramid: Pyramid = values.iter().copied().collect();
        let width = (view.to - view.from) / view.columns as f64;
        let pieces = pyramid.pieces(&places(&xs), view);
        let column = |x: f64| (x / width).floor();
        for [x, y] in pieces.iter().flatten() {
            // Its place is one of the data, and its value is at that place or in the same column: no false spike.
            let here = |i: usize| xs[i] == *x || column(xs[i]) == column(*x);
            prop_assert!(xs.contains(x));
            prop_assert!((0..xs.len()).any(|i| here(i) && values[i] == *y), "{} {}", x, y);
        }
        let drawn: Vec<f64> = pieces.iter().flatten().map(|point| point[0]).collect();
        prop_assert!(drawn.is_sorted());
        prop_assert!(drawn.len() <= 4 * (view.columns + 2) + 2, "{} points", drawn.len());
    }

    #[test]
    fn no_extreme_of_a_view_is_lost((xs, values) in curve(), view in view()) {
        let pyramid: Pyramid = values.iter().copied().collect();
        let inside = |x: f64| view.from <= x && x <= view.to;
        let data = xs.iter().zip(&values).filter(|(x, y)| inside(**x) && !y.is_nan()).map(|(_, y)| *y);
        let drawn: Vec<f64> =
            pyramid.pieces(&places(&xs), view).into_iter().flatten().filter(|p| inside(p[0])).map(|p| p[1]).collect();
        let extremes = |values: &mut dyn Iterator<Item = f64>| {
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), y| (min.min(y), max.max(y)))
        };
        prop_assert_eq!(extremes(&mut drawn.into_iter()), extremes(&mut data.into_iter()));
    }

    #[test]
    fn of_many_values_a_column_no_extreme_is_lost_and_none_is_made_up(
        (xs, values) in dense_curve(), columns in 1_usize..200, from in -5.0..50.0, share in 0.05..1.2,
    ) {
        let pyramid: Pyramid = values.iter().copied().collect();
        let view = View { from, to: from + share * (xs[xs.len() - 1] + 1.0), columns };
        let width = (view.to - view.from) / columns as f64;
        let pieces = pyramid.pieces(&places(&xs), view);
        let drawn: Vec<[f64; 2]> = pieces.into_iter().flatten().collect();
        prop_assert!(drawn.is_sorted_by(|a, b| a[0] <= b[0]));
        prop_assert!(drawn.len() <= 24 * (columns + 2), "{} points", drawn.len());
        // Each is a value at most a column and a quarter further on than where it is drawn.
        for [x, y] in &drawn {
            let (low, high) = (xs.partition_point(|at| at < x), xs.partition_point(|at| *at <= x + 1.25 * width));
            let before = xs.partition_point(|at| *at < x - width);
            prop_assert!(xs.get(low) == Some(x), "{x} is no place");
            prop_assert!(values[before..high].contains(y), "{y} at {x}");
        }
        // Each value in view lies between extremes that are drawn within a column and a quarter of it.
        for (x, y) in xs.iter().zip(&values).filter(|(x, y)| view.from <= **x && **x <= view.to && !y.is_nan()) {
            let near = drawn.iter().filter(|[at, _]| (at - x).abs() <= 1.25 * width + 1e-9).map(|[_, value]| *value);
            let (min, max) = near.fold((f64::INFINITY, f64::NEG_INFINITY), |all, y| (all.0.min(y), all.1.max(y)));
            prop_assert!(min <= *y && *y <= max, "{y} at {x} is not within {min} to {max}");
        }
    }

    #[test]
    fn a_gap_that_can_be_seen_stays_a_gap((xs, values) in curve(), view in view()) {
        prop_assume!(!is_dense(&xs, view));
        let pyramid: Pyramid = values.iter().copied().collect();
        let width = (view.to - view.from) / view.columns as f64;
        let pieces = pyramid.pieces(&places(&xs), view);
        let column = |x: f64| (x / width).floor();
        for gap in (1..xs.len() - 1).filter(|&i| values[i].is_nan()) {
            let (before, after) = (column(xs[gap - 1]), column(xs[gap + 1]));
            if before == after {
                continue;
            }
            // No piece goes over it: none has a point up to it and one from it on, unless both are in its column.
            let over = |piece: &Vec<[f64; 2]>| {
                let left = piece.iter().any(|p| p[0] <= xs[gap - 1] && column(p[0]) < column(xs[gap + 1]));
                let right = piece.iter().any(|p| p[0] >= xs[gap + 1] && column(p[0]) > column(xs[gap - 1]));
                left && right
            };
            prop_assert!(!pieces.iter().any(over), "over the gap at {}", xs[gap]);
        }
    }

    #[test]
    fn few_points_are_drawn_as_they_are((xs, values) in curve()) {
        // A view so fine that no two places share a column, where places differ.
        let pyramid: Pyramid = values.iter().copied().collect();
        let view = View { from: xs[0], to: xs[xs.len() - 1] + 1.0, columns: 1 << 40 };
        let counts = xs.iter().map(|x| xs.iter().filter(|other| *other == x).count());
        prop_assume!(counts.max().unwrap() <= 4);
        let drawn: Vec<[f64; 2]> = pyramid.pieces(&places(&xs), view).into_iter().flatten().collect();
        let data: Vec<[f64; 2]> =
            xs.iter().zip(&values).filter(|(_, y)| !y.is_nan()).map(|(x, y)| [*x, *y]).collect();
        prop_assert_eq!(drawn, data);
    }
}

#[test]
fn values_that_are_not_finite_are_gaps() {
    let pyramid: Pyramid = [1.0, f64::INFINITY, 2.0, f64::NEG_INFINITY].into_iter().collect();
    assert_eq!(pyramid.extent(0, 4), Some((1.0, 2.0)));
    let pieces = pyramid.pieces(&places(&[0.0, 1.0, 2.0, 3.0]), View { from: 0.0, to: 3.0, columns: 100 });
    assert_eq!(pieces, [[[0.0, 1.0]], [[2.0, 2.0]]]);
    assert!(pyramid.values().iter().zip([1.0, f64::NAN, 2.0, f64::NAN]).all(|(a, b)| same(*a, b)));
}

#[test]
fn views_that_are_none_draw_nothing() {
    let pyramid: Pyramid = [1.0, 2.0].into_iter().collect();
    for (from, to) in [(1.0, 1.0), (2.0, 1.0), (f64::NAN, 1.0), (0.0, f64::INFINITY)] {
        assert_eq!(pyramid.pieces(&places(&[0.0, 1.0]), View { from, to, columns: 10 }), [[[0.0; 2]; 0]; 0]);
    }
    assert_eq!(Pyramid::default().pieces(&places(&[]), View { from: 0.0, to: 1.0, columns: 10 }), [[[0.0; 2]; 0]; 0]);
}
