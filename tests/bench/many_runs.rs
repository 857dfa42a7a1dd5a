//! Measures of hundreds of made-up runs: 4 precisions × 2 layouts × 1 to 8 GPUs × pin_memory, some repeats each.

use std::sync::Arc;

use super::analysis::{
    EpochSummary, Key, Level, Levels, LossPoint, Mark, Measures, Mode, Recording, RunState, RunSummary,
};
use super::plan::image;

const PRECISIONS: [(&str, f64); 4] = [("fp32", 1.0), ("fp64", 2.1), ("fp16", 0.55), ("bf16", 0.6)];
const LAYOUTS: [(&str, f64); 2] = [("nchw", 1.0), ("nhwc", 0.7)];
const PINS: [(&str, f64); 2] = [("off", 1.2), ("on", 1.0)];

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
    let peak = 3.2e9 * slower + 1.0e8 * noise;
    let mut values = epochs.last().map(|last| last.values.clone()).unwrap_or_default();
    let of_run = [
        ("step_time_s", epoch_time_s * gpus / 938.0),
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
    ];
    values.extend(of_run.map(|(key, value)| (Key::from(key), value)));
    let mut marks = Vec::new();
    if failed {
        marks.push(Mark::Failed("failed: out of memory".to_owned()));
    } else if hash % 37 == 0 {
        marks.push(Mark::Throttled(vec!["sw_power_cap".to_owned()]));
    }
    RunSummary {
        run: format!("{cell}-{repeat}"),
        cell: cell.to_owned(),
        identity: None,
        workload: image::spec(),
        levels,
        data: "digits".to_owned(),
        device: Some("NVIDIA H100".to_owned()),
        repeat,
        started_s: Some(1.7e9 + 100.0 * f64::from(repeat)),
        launch: "p1".to_owned(),
        state: if failed { RunState::Failed } else { RunState::Finished },
        measures: Arc::clone(Measures::built_in()),
        values,
        step_mean: None,
        step_wait_s: None,
        clock: None,
        told_resolution_s: None,
        training: None,
        limits: None,
        mode: Mode::Full,
        checked: Default::default(),
        activity: Vec::new(),
        epochs,
        losses: (1..=120).map(loss).collect(),
        marks,
        environment: None,
        recording: Recording::default(),
        trace: None,
    }
}
