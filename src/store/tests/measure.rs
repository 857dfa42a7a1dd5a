//! Costs of recording and reading, in an optimised build: `cargo test --release --lib store:: -- --ignored --nocapture`.

use std::time::Instant;

use super::fixture::*;
use crate::protocol::Phase;
use crate::store::{Reader, rebuild};

#[test]
#[ignore = "measures an optimised build"]
fn two_million_steps_are_recorded_at_200_000_in_a_second() {
    const STEPS: u64 = 500_000;
    const RANKS: u32 = 4;
    let (folder, store) = session_of_r1();
    let lines: Vec<_> = (1..=STEPS).flat_map(|n| (0..RANKS).map(move |r| line("r1", r, n as f64, step(n)))).collect();
    let rows = lines.len() as f64;
    let start = Instant::now();
    for line in lines {
        store.event(line).unwrap();
    }
    store.flush().unwrap();
    let duration_s = start.elapsed().as_secs_f64();
    println!("events: {:.2} µs each, {:.0} rows/s", 1e6 * duration_s / rows, rows / duration_s);

    let start = Instant::now();
    for n in 0..10_000 {
        store.sample("r1", sample(f64::from(n), f64::from(n), &["power"])).unwrap();
    }
    store.flush().unwrap();
    println!("samples: {:.2} µs each", 1e6 * start.elapsed().as_secs_f64() / 10_000.0);

    let start = Instant::now();
    for _ in 0..100 {
        store.decide(queued("r2")).unwrap();
    }
    println!("decisions: {:.0} µs each", 1e6 * start.elapsed().as_secs_f64() / 100.0);
    let start = Instant::now();
    let steps: usize =
        store.reader().unwrap().run("r1").unwrap().unwrap().ranks.iter().map(|rank| rank.steps.len()).sum();
    println!("reading {rows} steps: {:.2} s", start.elapsed().as_secs_f64());
    assert_eq!(rows as usize, steps);
    drop(store);

    for n in 1..=STEPS / 10 {
        log(folder.path(), &line("r1", 9, n as f64, step(n)));
    }
    let start = Instant::now();
    let report = rebuild(folder.path(), &mut |_, _| {}).unwrap();
    println!("rebuilding: {:.2} µs an event", 1e6 * start.elapsed().as_secs_f64() / report.events as f64);
    assert!(rows / duration_s >= 200_000.0);
}

#[test]
#[ignore = "measures an optimised build"]
fn five_hundred_runs_are_read_in_100_ms() {
    let (folder, store) = session();
    for run in (0..500).map(|n| format!("r{n}")) {
        store.decide(queued(&run)).unwrap();
        for rank in 0..4 {
            store.event(line(&run, rank, 0.0, started())).unwrap();
            for epoch in 1..=10 {
                let time_s = f64::from(epoch);
                store.event(line(&run, rank, time_s, phase(Phase::Steady))).unwrap();
                for key in
                    ["epoch_time_s", "train_loss", "units", "received_bytes", "loader_start_s", "skipped_updates"]
                {
                    store.event(line(&run, rank, time_s + 0.5, reading(key, 1.0, Some(epoch)))).unwrap();
                }
                for n in 1..=100 {
                    store.event(line(&run, rank, time_s + 0.5, step(u64::from(epoch) * 100 + n))).unwrap();
                }
                store.event(line(&run, rank, time_s + 0.6, phase(Phase::Evaluate))).unwrap();
                for key in ["evaluation_time_s", "test_loss", "accuracy", "test_units"] {
                    store.event(line(&run, rank, time_s + 0.7, reading(key, 1.0, Some(epoch)))).unwrap();
                }
            }
        }
        store.sample(&run, sample(0.0, 0.0, &["power"])).unwrap();
    }
    store.flush().unwrap();
    let reader = Reader::open(folder.path()).unwrap();
    let times_s: Vec<f64> = (0..5)
        .map(|_| {
            let start = Instant::now();
            assert_eq!(reader.runs().unwrap().len(), 500);
            start.elapsed().as_secs_f64()
        })
        .collect();
    println!("500 runs, 2 million steps: {times_s:.3?} s");
    assert!(times_s.iter().all(|&time_s| time_s < 0.25));
}
