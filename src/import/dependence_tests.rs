#![allow(clippy::unwrap_used)]

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::import::read_bytes;

/// The values of a measure, by cell.
type Values = Vec<Vec<f64>>;

/// The cells that are marked, by the place of the measure from 0. `in_rounds` says that the cells were measured in rounds.
fn looked(measures: &[&[Vec<f64>]], in_rounds: bool, recurring: &Recurring) -> BTreeMap<usize, Vec<usize>> {
    let (mut text, mut cells, mut rounds) = (String::from("algo"), Vec::new(), Vec::new());
    (0..measures.len()).for_each(|place| text += &format!(",m{place}"));
    for (cell, values) in measures[0].iter().enumerate() {
        cells.push((rounds.len()..rounds.len() + values.len()).collect::<Vec<usize>>());
        for row in 0..values.len() {
            text += &format!("\nc{cell}");
            measures.iter().for_each(|values| text += &format!(",{}", values[cell][row]));
            rounds.push(row as u32);
        }
    }
    let table = read_bytes(text.as_bytes()).unwrap();
    let places: Vec<usize> = (1..=measures.len()).collect();
    let found = dependent(&table, &cells, &places, recurring, in_rounds.then_some(&*rounds));
    found.into_iter().map(|(place, found)| (place - 1, found.into_keys().collect())).collect()
}

/// Whether a cell of a file with one measure is marked.
fn is_marked(values: &[Vec<f64>], in_rounds: bool) -> bool {
    !looked(&[values], in_rounds, &Recurring::default()).is_empty()
}

/// A number of independent values from 1 to 2.
fn independent(random: &mut ChaCha8Rng, count: usize) -> Vec<f64> {
    (0..count).map(|_| 1.0 + f64::from(random.next_u32()) / 4_294_967_296.0).collect()
}

/// The rolling means over this number of independent values.
fn rolling(random: &mut ChaCha8Rng, window: usize, count: usize) -> Vec<f64> {
    independent(random, count + window - 1).windows(window).map(|values| values.iter().sum::<f64>()).collect()
}

/// A value rounded to this number of decimals.
fn rounded(value: f64, decimals: i32) -> f64 {
    (value * 10_f64.powi(decimals)).round() / 10_f64.powi(decimals)
}

/// How many of 30 files are marked. `make` makes the values of a cell.
fn marked_of_30(cells: usize, in_rounds: bool, mut make: impl FnMut() -> Vec<f64>) -> usize {
    (0..30).filter(|_| is_marked(&(0..cells).map(|_| make()).collect::<Values>(), in_rounds)).count()
}

#[test]
fn independent_rows_are_hardly_ever_marked() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut marked = 0;
    for (cells, count) in [(2, 10), (4, 5), (4, 40), (12, 7), (12, 20)] {
        for in_rounds in [false, true] {
            marked += marked_of_30(cells, in_rounds, || independent(&mut random, count));
            // Few digits, two modes, a slow first run.
            marked += marked_of_30(cells, in_rounds, || {
                independent(&mut random, count).into_iter().map(|value| rounded(value, 1)).collect()
            });
            marked += marked_of_30(cells, in_rounds, || {
                independent(&mut random, count).into_iter().map(|value| value + 3.0 * value.round()).collect()
            });
            marked += marked_of_30(cells, in_rounds, || {
                let mut values = independent(&mut random, count);
                values[0] += 2.0;
                values
            });
        }
    }
    assert!(marked <= 5, "{marked} of 1,200 files");
}

#[test]
fn rolling_means_are_marked() {
    let mut random = ChaCha8Rng::seed_from_u64(2);
    for window in [3, 5, 10] {
        let marked = marked_of_30(4, false, || rolling(&mut random, window, 20));
        assert!(marked >= 26, "window of {window}: {marked} of 30 files");
        let marked = marked_of_30(12, true, || rolling(&mut random, window, 20));
        assert!(marked >= 26, "window of {window} in rounds: {marked} of 30 files");
    }
}

#[test]
fn rows_of_one_run_are_marked_though_they_have_few_digits_or_were_rounded_differently() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let joined = marked_of_30(2, false, || {
        let of_runs = independent(&mut random, 8).into_iter().map(|value| rounded(value, 2));
        of_runs.flat_map(|value| [value; 4]).collect()
    });
    let copied = marked_of_30(4, false, || {
        independent(&mut random, 6)
            .into_iter()
            .flat_map(|value| [6, 4, 3].map(|digits| rounded(value, digits)))
            .collect()
    });
    assert!(joined >= 26 && copied >= 26, "{joined} and {copied} of 30 files");
}

#[test]
fn rows_in_the_order_of_a_measure_say_nothing() {
    let mut random = ChaCha8Rng::seed_from_u64(4);
    let mut times: Values = (0..6).map(|_| independent(&mut random, 40)).collect();
    times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
    let energies: Values = times
        .iter()
        .map(|times| times.iter().map(|time| 9.0 - time + 0.01 * independent(&mut random, 1)[0]).collect())
        .collect();
    assert!(is_marked(&energies, false), "its own order is not that of its values");
    assert_eq!(looked(&[&times, &energies], false, &Recurring::default()), BTreeMap::new());
    assert!(!is_marked(&[vec![1.5; 40], vec![1.5; 40]], false), "equal values");
}

#[test]
fn a_drift_of_the_machine_is_marked_unless_the_cells_were_measured_in_rounds() {
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let mut drifting = || {
        let values = independent(&mut random, 30).into_iter().enumerate();
        values.map(|(place, value)| value + 0.1 * place as f64).collect::<Vec<f64>>()
    };
    assert_eq!(marked_of_30(4, false, &mut drifting), 30);
    assert_eq!(marked_of_30(4, true, &mut drifting), 0);
}

#[test]
fn a_cell_that_alone_depends_on_its_order_leaves_the_others_unmarked_and_few_rows_are_marked_with_many() {
    let mut random = ChaCha8Rng::seed_from_u64(6);
    let mut values: Values = (0..4).map(|_| independent(&mut random, 30)).collect();
    values[2] = rolling(&mut random, 8, 100);
    let marked = |values: &[Vec<f64>]| looked(&[values], false, &Recurring::default());
    assert_eq!(marked(&values), BTreeMap::from([(0, vec![2])]));
    let mut smooth: Values = (0..12).map(|_| rolling(&mut random, 5, 20)).collect();
    smooth.extend([vec![1.5, 1.25], vec![1.75]]);
    // A cell of one row has no spread.
    assert_eq!(marked(&smooth), BTreeMap::from([(0, (0..13).collect::<Vec<usize>>())]));
}

#[test]
fn cells_in_which_rows_or_values_recur_are_marked_by_what_recurs() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let smooth: Values = (0..3).map(|_| rolling(&mut random, 8, 100)).collect();
    let recurring =
        Recurring { rows: ByCell::from([(0, vec![1])]), values: BTreeMap::from([(1, ByCell::from([(1, vec![101])]))]) };
    assert_eq!(looked(&[&smooth], false, &recurring), BTreeMap::from([(0, vec![2])]));
}
