#![allow(clippy::unwrap_used)]

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::import::read_bytes;

/// The number of rows that recur without chance in a file with the columns `algo`, which is the cell, and of measures.
fn found(header: &str, rows: &[String]) -> usize {
    let text = format!("algo,{header}\n{}\n", rows.join("\n"));
    let table = read_bytes(text.as_bytes()).unwrap();
    let is_of = |row: &usize, cell: &str| table.rows[*row].fields[0].text() == cell;
    let cells = ["a", "b"].map(|cell| (0..rows.len()).filter(|row| is_of(row, cell)).collect::<Vec<_>>());
    let measures: Vec<usize> = (1..table.columns.len()).collect();
    recurring(&table, &cells, &measures).iter().map(Vec::len).sum()
}

/// Nearly normal noise with a standard deviation of 1.
fn noise(random: &mut ChaCha8Rng) -> f64 {
    (0..12).map(|_| f64::from(random.next_u32()) / 4_294_967_296.0).sum::<f64>() - 6.0
}

/// `count` rows of each of two equal cells.
fn of_two_cells(count: usize, mut values: impl FnMut() -> String) -> Vec<String> {
    (0..count).flat_map(|_| ["a", "b"]).map(|cell| format!("{cell},{}", values())).collect()
}

#[test]
fn copies_recur_in_files_without_a_difference_wherever_they_are_put() {
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let mut missed = 0;
    for count in [2, 3, 5, 10] {
        for _ in 0..50 {
            let rows = of_two_cells(count, || format!("{:.5}", 1.0 + 0.05 * noise(&mut random)));
            assert_eq!(found("time_s", &rows), 0);
            let adjacent: Vec<String> = rows.iter().flat_map(|row| std::iter::repeat_n(row.clone(), 3)).collect();
            missed += usize::from(found("time_s", &adjacent) != 4 * count);
            missed += usize::from(found("time_s", &[rows.clone(), rows].concat()) != 2 * count);
        }
    }
    // Two of a cell's first values may be almost the same.
    assert!(missed < 8, "{missed} of 400 files");
}

#[test]
fn independent_rows_of_few_digits_recur_by_chance() {
    let mut random = ChaCha8Rng::seed_from_u64(6);
    for (spread, count) in [(0.7, 20), (2.0, 10), (10.0, 30), (50.0, 100)] {
        for _ in 0..50 {
            let whole = of_two_cells(count, || format!("{:.0}", 1000.0 + spread * noise(&mut random)));
            assert_eq!(found("time_ms", &whole), 0, "{whole:?}");
            // A rate has the digits of its time.
            let derived = of_two_cells(count, || {
                let time_ms = (1000.0 + spread * noise(&mut random)).round();
                format!("{time_ms},{:.6}", 64_000.0 / time_ms)
            });
            assert_eq!(found("time_ms,rate", &derived), 0, "{derived:?}");
            // One run in ten is slow.
            let tailed = of_two_cells(count, || {
                let slow = if random.next_u32() % 10 == 0 { f64::from(random.next_u32() % 400) } else { 0.0 };
                format!("{:.0}", 1000.0 + 2.0 * noise(&mut random) + slow)
            });
            assert_eq!(found("time_ms", &tailed), 0, "{tailed:?}");
            let ticks = of_two_cells(count, || format!("{}", f64::from(1 + random.next_u32() % 3) / 64.0));
            assert_eq!(found("time_s", &ticks), 0, "{ticks:?}");
        }
    }
    assert_eq!(found("time_ms", &of_two_cells(20, || "1".to_owned())), 0, "a clock that shows nothing");
}

#[test]
fn a_cell_whose_rows_are_all_equal_shows_no_spread() {
    for value in ["1.234", "1234", "123"] {
        let rows: Vec<String> = ["a", "b"].iter().map(|cell| format!("{cell},{value}")).collect();
        assert_eq!(found("time_ms", &rows), 0, "one row a cell");
        assert_eq!(found("time_ms", &[rows.clone(), rows].concat()), 2, "{value}");
    }
    assert_eq!(found("time_ms", &["a,12", "a,12", "b,13", "b,13"].map(str::to_owned)), 0, "a coarse clock");
}

#[test]
fn a_program_without_randomness_cannot_be_told_from_copies() {
    let rows = vec![["a,0.00123456,3".to_owned(), "b,0.00234567,4".to_owned()]; 5].concat();
    assert_eq!(found("time_s,retries", &rows), 8);
    let of_two_ticks = vec![["a,15.625", "a,31.25", "b,31.25"].map(str::to_owned); 10].concat();
    assert_eq!(found("time_ms", &of_two_ticks), 27, "two values show no tick");
}

#[test]
fn a_row_recurs_only_if_all_its_measures_do() {
    let row = |place: usize| format!("{},{:.6},1073741824", ["a", "b"][place % 2], 1.0 + 0.001_234 * place as f64);
    assert_eq!(found("time_s,memory", &(0..20).map(row).collect::<Vec<_>>()), 0);
}
