//! Measures of hundreds of made-up runs: 4 precisions × 2 layouts × 1 to 8 GPUs × pin_memory, some repeats each.

use std::sync::Arc;

use super::analysis::{
    Activity, DeviceRates, EpochSummary, Key, Level, Levels, Limits, LossPoint, Mark, Measures, Mode, Phase, Recording,
    RunState, RunSummary, TRACE_METRICS,
};
use super::plan::image;
use super::protocol::{Device, Rate, TraceMetric, TraceOutcome, TraceSummary};

const PRECISIONS: [(&str, f64); 4] = [("fp32", 1.0), ("fp64", 2.1), ("fp16", 0.55), ("bf16", 0.6)];
const LAYOUTS: [(&str, f64); 2] = [("nchw", 1.0), ("nhwc", 0.7)];
const PINS: [(&str, f64); 2] = [("off", 1.2), ("on", 1.0)];

/// The phases of a rank: each with its end, as a share of the run.
const PHASES: [(Phase, f64); 4] =
    [(Phase::Start, 0.05), (Phase::WarmUp, 0.1), (Phase::Training, 0.95), (Phase::Test, 1.0)];

/// The measured rates of the device.
fn rates() -> DeviceRates {
    let rate = |(key, per_s): (&str, f64)| Rate {
        key: key.into(),
        per_s,
        low_per_s: 0.99 * per_s,
        high_per_s: 1.01 * per_s,
        samples: 50,
        size: 4096,
    };
    let rates = [("fp64", 3.3e13), ("fp32", 5.1e13), ("fp16", 7.9e14), ("bf16", 7.9e14), ("copy", 2.9e12)];
    DeviceRates {
        device: Device { name: "NVIDIA H100".to_owned(), gpu_uuid: None },
        time_s: None,
        torch_version: "2.11.0".to_owned(),
        threads: None,
        rates: rates.map(rate).into(),
        sm_clock_mhz: None,
        throttle_reasons: Vec::new(),
        others_cpus: None,
    }
}

/// What a recording of a run of `gpus` ranks holds.
fn trace(gpus: f64, time_s: f64) -> TraceSummary {
    let metric = |(place, key): (usize, &'static str)| TraceMetric {
        key: key.to_owned(),
        calls: 1000 * (place as u64 + 1),
        seconds: 0.01 * time_s * (place + 1) as f64,
        percent_of_report: 10.0,
        percent_of_shown: 10.0,
        percent_of_wall: (place + 1) as f64,
    };
    TraceSummary {
        file: "trace.events".to_owned(),
        schema_version: "built-in 1".to_owned(),
        product_version: None,
        wall_s: time_s,
        span_s: None,
        gpus: gpus as u32,
        metrics: TRACE_METRICS.iter().map(|kind| kind.key).enumerate().map(metric).collect(),
        copied: None,
        ranges: Vec::new(),
        lists: None,
        evidence: Vec::new(),
        warnings: Vec::new(),
    }
}

/// The runs of 64 cells; one in 40 did not finish.
pub fn many_runs(repeats: u32) -> Vec<RunSummary> {
    let mut runs = Vec::new();
    for (precision, slower) in PRECISIONS {
        for (layout, by_layout) in LAYOUTS {
            for gpus in [1, 2, 4, 8] {
                for (pin, by_pin) in PINS {
                    for repeat in 1..=repeats {
                        let levels = Levels::new(vec![
                            ("precision", Level::text(precision)),
                            ("pin_memory", Level::text(pin)),
                            ("layout", Level::text(layout)),
                            ("gpus", Level::Integer(gpus)),
                            ("batch_size", Level::Integer(64)),
                        ]);
                        let cell = format!("{precision}-{layout}-{gpus}-{pin}");
                        runs.push(one(&cell, levels, repeat, slower * by_layout * by_pin, gpus as f64));
                    }
                }
            }
        }
    }
    runs
}

/// The measures of a whole run.
fn of_run(epoch_time_s: f64, gpus: f64, (slower, noise): (f64, f64)) -> impl Iterator<Item = (Key, f64)> {
    let peak = 3.2e9 * slower + 1.0e8 * noise;
    let values = [
        ("step_time_s", epoch_time_s * gpus / 938.0),
        ("mean_step_time_s", epoch_time_s * gpus / 938.0),
        ("training_time_s", 12.0 * epoch_time_s),
        ("total_time_s", 12.5 * epoch_time_s),
        ("images_per_s", 60_000.0 / epoch_time_s),
        ("processed_images_per_s", 60_000.0 / epoch_time_s),
        ("load_wait_s", 0.0004 * (1.0 + noise)),
        ("peak_allocated_bytes", peak),
        ("peak_reserved_bytes", 1.2 * peak),
        ("peak_active_bytes", 1.05 * peak),
        ("warm_up_peak_bytes", 1.8 * peak),
        ("peak_device_bytes", 1.2 * peak + 6.0e8),
        ("energy_j", 350.0 * gpus * epoch_time_s),
        ("flop_per_s", 4.0e13 / slower),
        ("intensity", 40.0 + 10.0 * noise),
    ];
    values.into_iter().map(|(key, value)| (Key::from(key), value))
}

fn one(cell: &str, levels: Levels, repeat: u32, slower: f64, gpus: f64) -> RunSummary {
    // Noise that is the same each time: a small hash of cell and repeat, from 0 to 1.
    let hash = cell.bytes().fold(repeat.wrapping_mul(7919), |hash, byte| hash.wrapping_mul(31) ^ u32::from(byte));
    let noise = f64::from(hash.wrapping_mul(2_654_435_761) >> 8) / f64::from(1 << 24);
    let epoch_time_s = 90.0 * slower / gpus.powf(0.86) * (1.0 + 0.06 * noise);
    let failed = hash % 40 == 0;
    let epoch = |epoch: u32| {
        let values = [
            ("epoch_time_s", epoch_time_s),
            ("train_loss", (1.8 + 0.2 * noise) / f64::from(epoch).powf(1.2 / slower.powf(0.2))),
            ("test_loss", (1.9 + 0.3 * noise) / f64::from(epoch)),
            ("accuracy", 1.0 - (0.3 + 0.1 * noise) / f64::from(epoch)),
        ];
        let values = values.map(|(key, value)| (Key::from(key), value)).into();
        EpochSummary { epoch, warm_up: epoch == 1, last_step: Some(938 * u64::from(epoch)), values }
    };
    let loss = |piece: u32| LossPoint {
        step: 94 * u64::from(piece),
        time_s: 0.1 * epoch_time_s * f64::from(piece),
        loss: 2.3 / (1.0 + 0.1 * f64::from(piece) / slower),
    };
    let epochs: Vec<EpochSummary> = (1..=12).map(epoch).collect();
    let mut values = epochs.last().map(|last| last.values.clone()).unwrap_or_default();
    values.extend(of_run(epoch_time_s, gpus, (slower, noise)));
    let mut marks = Vec::new();
    if failed {
        marks.push(Mark::Failed("failed: out of memory".to_owned()));
    } else if hash % 37 == 0 {
        marks.push(Mark::Throttled(vec!["sw_power_cap".to_owned()]));
    }
    let step_time_s = epoch_time_s * gpus / 938.0;
    let (precision, time_s) = (levels.get("precision").and_then(Level::as_text).map(Key::from), 12.5 * epoch_time_s);
    let activity = |rank: u32| {
        let starts_s = [0.0, 0.05, 0.1, 0.95].map(|share| share * time_s);
        let phases = PHASES.into_iter().zip(starts_s);
        phases.map(move |((phase, end), start_s)| Activity { rank, phase, start_s, end_s: end * time_s })
    };
    RunSummary {
        run: format!("{cell}-{repeat}"),
        cell: cell.to_owned(),
        identity: None,
        workload: image::spec(),
        levels,
        data: "digits".to_owned(),
        device: Some("NVIDIA H100".to_owned()),
        repeat,
        counts_rows: false,
        started_s: Some(1.7e9 + 100.0 * f64::from(repeat)),
        launch: "p1".to_owned(),
        state: if failed { RunState::Failed } else { RunState::Finished },
        measures: Arc::clone(Measures::built_in()),
        disputed: Arc::default(),
        values,
        step_wait_s: Some(0.1 * step_time_s * (1.0 + noise)),
        clock: None,
        told_resolution_s: None,
        training: None,
        limits: Some(Limits { rates: Arc::new(rates()), arithmetic: precision }),
        mode: Mode::Full,
        warm_up: None,
        checked: Default::default(),
        design: None,
        activity: (0..gpus as u32).flat_map(activity).collect(),
        epochs,
        losses: (1..=120).map(loss).collect(),
        marks,
        environment: None,
        recording: Recording::default(),
        trace: Some(TraceOutcome::Imported(Box::new(trace(gpus, time_s)))),
    }
}
