#![allow(clippy::unwrap_used)]

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::import::read_bytes;

/// What recurs without chance in a file with the columns `algo`, which is the cell, and of measures.
fn looked(header: &str, rows: &[String]) -> Recurring {
    let text = format!("algo,{header}\n{}\n", rows.join("\n"));
    let table = read_bytes(text.as_bytes()).unwrap();
    let is_of = |row: &usize, cell: &str| table.rows[*row].fields[0].text() == cell;
    let cells = ["a", "b"].map(|cell| (0..rows.len()).filter(|row| is_of(row, cell)).collect::<Vec<_>>());
    let unit = |name: &str| match name {
        "rate" => "tokens/s",
        "memory" | "checkpoint" => "B",
        "energy_j" => "J",
        _ if name.starts_with("time") => "s",
        _ => "",
    };
    let measures: Vec<(usize, &str)> = (1..).zip(header.split(',').map(unit)).collect();
    recurring(&table, &cells, &measures)
}

/// The number of rows that recur, or in which a value does.
fn found(header: &str, rows: &[String]) -> usize {
    let Recurring { rows, values } = looked(header, rows);
    std::iter::once(&rows).chain(values.values()).flat_map(ByCell::values).map(Vec::len).sum()
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

/// One of these texts.
fn one_of(random: &mut ChaCha8Rng, texts: &[&str]) -> String {
    texts[random.next_u32() as usize % texts.len()].to_owned()
}

/// Makes a value of an independent run.
type Make = fn(&mut ChaCha8Rng) -> String;

/// Readings on ticks that are no decimals, or divided by such ticks.
const ON_TICKS: [(&str, Make); 6] = [
    ("accuracy", |random| format!("{}", f64::from(560 + random.next_u32() % 20) / 600.0)),
    ("rate", |random| format!("{:.4}", 4096.0 / (50.0 + 2.5 * noise(random)).round())),
    ("time_of_32_bits", |random| format!("{}", f64::from((1000.0 + 0.01 + 0.0005 * noise(random)) as f32) - 1000.0)),
    ("time_of_24_mhz", |random| format!("{}", (20e-6 * (1.0 + 0.05 * noise(random)) * 24e6) as u64 * 125 / 3)),
    ("energy_j", |random| format!("{:.3}", 0.397 * (630.0 + 10.0 * noise(random)).round())),
    ("time_of_3_digits", |random| {
        let time = 100.0 + 2.0 * noise(random);
        if time < 99.95 { format!("{time:.1}") } else { format!("{time:.0}") }
    }),
];

/// What independent runs have in common: settings, counts, states, limits.
const IN_COMMON: [(&str, Make); 16] = [
    ("checkpoint", |random| one_of(random, &["548118077", "548118461", "548119101", "549000001"])),
    ("memory", |random| one_of(random, &["10240", "10242", "10250", "10264", "10300"])),
    ("memory", |random| one_of(random, &["10.1234", "10.2345", "10.5551", "11.0021"])),
    ("learning_rate", |random| one_of(random, &["0.1", "0.01", "0.001"])),
    ("learning_rate", |random| one_of(random, &["3e-4", "1e-4", "1e-3", "5e-5"])),
    ("id", |random| one_of(random, &["1412", "1377", "1290", "2011"])),
    ("epochs", |random| one_of(random, &["10", "20", "50", "100"])),
    ("loss", |random| format!("{:.4}", 2.3 + 0.005 * noise(random))),
    ("loss", |_| "2.123456".to_owned()),
    ("loss", |random| one_of(random, &["2.123456", "2.125511"])),
    ("clock_mhz", |random| format!("{:.1}", f64::from(1410 - 15 * (random.next_u32() % 5)))),
    ("temperature", |random| format!("{}", 55 + random.next_u32() % 6)),
    ("temperature", |random| format!("{:.1}", f64::from(98 + random.next_u32() % 11) * 5.0 / 9.0)),
    ("energy_j", |random| format!("{:.1}", 10.0 * (123.0 + 2.5 * noise(random)).round())),
    ("time_to_load", |random| {
        if random.next_u32() % 10 < 3 { "60.0000".to_owned() } else { format!("{:.4}", 40.0 + 8.0 * noise(random)) }
    }),
    ("time_of_waiting", |random| {
        if random.next_u32() % 2 == 0 { "0.000000".to_owned() } else { format!("{:.6}", 0.01 + 0.002 * noise(random)) }
    }),
];

#[test]
fn readings_on_ticks_that_are_no_decimals_recur_by_chance() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    for (name, make) in ON_TICKS {
        let mut file = |_: u32| found(name, &of_two_cells(20, || make(&mut random))) > 0;
        let marked = (0..30).filter(|place| file(*place)).count();
        assert!(marked <= 1, "{name}: {marked} of 30 files");
    }
}

#[test]
fn values_that_independent_runs_have_in_common_are_not_marked_beside_a_noisy_time() {
    let mut random = ChaCha8Rng::seed_from_u64(8);
    for (name, make) in IN_COMMON.into_iter().chain(ON_TICKS) {
        let header = format!("{name},time_s");
        let mut row = || format!("{},{:.6}", make(&mut random), 1.0 + 0.01 * noise(&mut random));
        let mut file = |_: u32| found(&header, &of_two_cells(20, &mut row)) > 0;
        let marked = (0..20).filter(|place| file(*place)).count();
        assert!(marked <= 1, "{name}: {marked} of 20 files");
    }
}

#[test]
fn values_of_one_run_beside_samples_of_another_measure_are_marked_and_the_samples_are_not() {
    let mut random = ChaCha8Rng::seed_from_u64(9);
    let (mut missed, mut with_memory) = (0, 0);
    for (runs, samples) in [(3, 4), (5, 4), (10, 2)] {
        for decimals in [4, 6] {
            for _ in 0..50 {
                let of_runs = of_two_cells(runs, || {
                    let time_s = 1.0 + 0.05 * noise(&mut random);
                    format!("{time_s:.decimals$},{:.4},{}", 64.0 / time_s, 10_240 + random.next_u32() % 100)
                });
                let mut sampled = |run: &String| format!("{run},{:.5}", 1.0 + 0.1 * noise(&mut random));
                let rows: Vec<String> =
                    of_runs.iter().flat_map(|run| [run; 4].into_iter().take(samples)).map(&mut sampled).collect();
                let Recurring { rows, values } = looked("time_s,rate,memory,loss", &rows);
                let is_marked = |place: usize| values.get(&place).is_some_and(|found| found.len() == 2);
                missed += usize::from(!rows.is_empty() || !is_marked(1) || !is_marked(2));
                with_memory += usize::from(is_marked(3));
                assert!(!values.contains_key(&4), "each loss is of its own");
            }
        }
    }
    assert!(missed <= 9 && with_memory >= 270, "{missed} of 300 files are missed, {with_memory} have the memory");
}

#[test]
fn the_time_of_a_single_run_beside_samples_of_another_measure_is_marked() {
    let mut random = ChaCha8Rng::seed_from_u64(10);
    let mut missed = 0;
    for (runs, samples) in [(1, 4), (1, 2), (2, 3)] {
        for _ in 0..50 {
            let of_runs = of_two_cells(runs, || format!("{:.6}", 1.0 + 0.05 * noise(&mut random)));
            let mut sampled = |run: &String| format!("{run},10.2345,7,{:.4}", 10.5 + 0.2 * noise(&mut random));
            let rows: Vec<String> =
                of_runs.iter().flat_map(|run| [run; 4].into_iter().take(samples)).map(&mut sampled).collect();
            // The peak of memory and the count are equal in all rows, as in independent runs.
            let Recurring { rows, values } = looked("time_s,memory,retries,loss", &rows);
            missed += usize::from(values.get(&1).is_none_or(|found| found.len() != 2));
            assert!(rows.is_empty() && !values.contains_key(&4), "{rows:?} {values:?}");
        }
    }
    assert!(missed <= 9, "{missed} of 150 files are missed");
}

#[test]
fn what_is_equal_in_all_rows_is_marked_only_if_it_spreads_and_has_four_digits() {
    let marked = |header: &str, value: &str| {
        let row = |place: u32| format!("{},{value},0.{:06}", ["a", "b"][place as usize % 2], place * place * 104_729);
        looked(&format!("{header},error"), &(1..9).map(row).collect::<Vec<_>>()).values.contains_key(&1)
    };
    for (header, value) in [("time_s", "0.00123456"), ("time_ms", "1234"), ("rate", "5128.3"), ("energy_j", "1050.25")]
    {
        assert!(marked(header, value), "{header} {value}");
    }
    for (header, value) in
        [("time_s", "60.0000"), ("time_s", "0"), ("memory", "10.1234"), ("loss", "2.123456"), ("retries", "1234")]
    {
        assert!(!marked(header, value), "{header} {value}");
    }
}

#[test]
fn a_measure_is_marked_in_the_cells_in_which_its_values_recur() {
    let time = |cell: &str, run: u32| format!("{cell},1.0{:05}", (run * run * 7919 + run * 331) % 99_991);
    let loss = |row: u32| format!("0.{:06}", row * row * 104_729 % 999_983);
    let rows: Vec<String> = (0..10)
        .map(|row| format!("{},{}", time("a", row / 2), loss(row)))
        .chain((0..10).map(|row| format!("{},{}", time("b", 20 + row), loss(20 + row))))
        .collect();
    let Recurring { rows, values } = looked("time_s,loss", &rows);
    assert!(rows.is_empty(), "{rows:?}");
    assert_eq!(values, BTreeMap::from([(1, ByCell::from([(0, vec![1, 3, 5, 7, 9])]))]));
}
