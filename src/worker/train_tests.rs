//! Whole ranks on the CPU over a small data set: the log they leave, and what ends them.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use multicard::plan::Level;
use multicard::plan::image::{self, DataSet, ImageSettings};
use multicard::protocol::{EventLine, RankPlace, rank_log};

use super::*;
use crate::image::Image;
use crate::image::testing::levels;
use crate::testing::generator;

/// One IDX file: a header of big-endian sizes, then bytes.
fn idx(path: &Path, sizes: &[u32], bytes: impl Iterator<Item = u8>) {
    let mut file = vec![0, 0, 8, sizes.len() as u8];
    sizes.iter().for_each(|size| file.extend(size.to_be_bytes()));
    file.extend(bytes);
    std::fs::write(path, file).unwrap();
}

/// A set in MNIST's form: the class is where the bright rows are.
fn make_set(folder: &Path, train: u32, test: u32) {
    for (part, count) in [("train", train), ("t10k", test)] {
        let pixel = |index: u32| {
            let (image, row) = (index / 784, index % 784 / 28);
            if row * 10 / 28 == image % 10 { 255 } else { 0 }
        };
        idx(&folder.join(format!("{part}-images-idx3-ubyte")), &[count, 28, 28], (0..count * 784).map(pixel));
        idx(&folder.join(format!("{part}-labels-idx1-ubyte")), &[count], (0..count).map(|image| (image % 10) as u8));
    }
}

fn job(folder: &Path, changed: &[(&'static str, Level)]) -> Job {
    make_set(folder, 60, 25);
    let mut all = vec![
        ("width_multiplier", Level::Number(0.35)),
        ("image_size", Level::Integer(32)),
        ("batch_size", Level::Integer(16)),
        ("loader_workers", Level::Integer(2)),
        ("epochs", Level::Integer(2)),
        ("train_images", Level::Integer(60)),
        ("test_images", Level::Integer(25)),
    ];
    all.retain(|(key, _)| changed.iter().all(|(other, _)| key != other));
    all.extend_from_slice(changed);
    let levels = levels(&all);
    let shape = ImageSettings::from_levels(&levels).unwrap().shape();
    Job {
        run: "run".into(),
        data_folder: folder.into(),
        warm_up_steps: 4,
        folder: folder.join("run"),
        ranks: vec![RankPlace::on_cpu(0, 1)],
        ..Job::new(image::KEY.into(), levels, shape, DataSet::Mnist { folder: Some(folder.into()) }.into())
    }
}

fn run_job(job: &Job) -> (Result<(), Stop>, Vec<Event>) {
    let _generator = generator();
    let mut report = Report::open(job, 0).unwrap();
    let device = RankDevice::open(&job.ranks[0], 1, None).unwrap();
    let rank = Rank { job, place: &job.ranks[0], device: &device, peers: None };
    let outcome = run(Image::new(job).unwrap(), rank, &mut report);
    drop(report);
    let text = std::fs::read_to_string(job.folder.join(rank_log(0))).unwrap();
    (outcome, text.lines().map(|line| serde_json::from_str::<EventLine>(line).unwrap().event).collect())
}

fn losses(events: &[Event]) -> Vec<u64> {
    let loss = |event: &Event| match event {
        Event::Step { loss, .. } => Some(loss.to_bits()),
        _ => None,
    };
    events.iter().filter_map(loss).collect()
}

/// The values of a reading with their epochs, in the order they were told.
fn readings(events: &[Event], reading_key: &str) -> Vec<(Option<u32>, f64)> {
    let reading = |event: &Event| match event {
        Event::Reading { key, value, epoch, .. } if *key == reading_key => Some((*epoch, *value)),
        _ => None,
    };
    events.iter().filter_map(reading).collect()
}

#[test]
fn a_rank_tells_every_step_phase_and_epoch() {
    let folder = tempfile::tempdir().unwrap();
    let (outcome, events) = run_job(&job(folder.path(), &[]));
    outcome.unwrap();
    let steps: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Step { epoch, step, steps, units, warm_up, duration_s, .. } => {
                assert!(*duration_s > 0.0);
                Some((*epoch, *step, *steps, *units, *warm_up))
            }
            _ => None,
        })
        .collect();
    let expected = |step: u64| (1 + (step as u32 - 1) / 3, step, 6, 16, step <= 4);
    assert_eq!(steps, (1..=6).map(expected).collect::<Vec<_>>());
    let phases: Vec<_> = events
        .iter()
        .filter_map(|event| if let Event::Phase { phase } = event { Some(*phase) } else { None })
        .collect();
    use Phase::{Evaluate, Load, Start, Steady, WarmUp};
    assert_eq!(phases, [Start, Load, WarmUp, Evaluate, WarmUp, Steady, Evaluate]);
    for (key, value) in [("test_units", 25.0), ("units", 48.0), ("skipped_updates", 0.0)] {
        assert_eq!(readings(&events, key), [(Some(1), value), (Some(2), value)], "{key}");
    }
    for key in ["epoch_time_s", "train_loss", "received_bytes", "loader_start_s", "evaluation_time_s", "test_loss"] {
        let values = readings(&events, key);
        assert!(values.len() == 2 && values.iter().all(|(_, value)| *value > 0.0), "{key}: {values:?}");
    }
    assert_eq!(readings(&events, "accuracy").len(), 2);
    assert_eq!(readings(&events, "unit_copies"), [(None, 1.0)]);
    assert!(matches!(readings(&events, "parameters")[..], [(None, count)] if count > 1e5));
    let seen: Vec<_> =
        events.iter().filter_map(|event| if let Event::Evidence(e) = event { Some(e) } else { None }).collect();
    assert!(seen.len() >= 6 && seen.iter().all(|evidence| evidence.in_effect), "{seen:?}");
}

#[test]
fn the_memory_of_the_warm_up_is_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let (outcome, events) = run_job(&job(folder.path(), &[]));
    outcome.unwrap();
    // Three steps an epoch, four of them warm-up: after the first epoch, before the fifth step, after the second epoch.
    assert_eq!(readings(&events, "warm_up_peak_bytes").len(), 2);
    for key in ["peak_allocated_bytes", "peak_reserved_bytes", "peak_active_bytes"] {
        assert!(matches!(readings(&events, key)[..], [(None, bytes)] if bytes > 1e6), "{key}");
    }
    let last =
        events.iter().rposition(|event| matches!(event, Event::Reading { key, .. } if *key == "warm_up_peak_bytes"));
    let peak =
        events.iter().position(|event| matches!(event, Event::Reading { key, .. } if *key == "peak_active_bytes"));
    assert!(last < peak);
}

#[test]
fn the_same_job_gives_the_same_losses_bit_for_bit() {
    let run_once = |workers: i64| {
        let folder = tempfile::tempdir().unwrap();
        let changed = [("deterministic", Level::text("on")), ("loader_workers", Level::Integer(workers))];
        let (outcome, events) = run_job(&job(folder.path(), &changed));
        outcome.unwrap();
        losses(&events)
    };
    let first = run_once(2);
    assert_eq!(first.len(), 6);
    assert_eq!(first, run_once(2));
    assert_eq!(first, run_once(3), "the number of loader threads must not change the order");
}

#[test]
fn images_that_live_on_the_device_train_as_the_hosts_do() {
    let run_with = |loader: &'static str| {
        let folder = tempfile::tempdir().unwrap();
        // Small steps in fp64: a difference in the last bit of a pixel grows a thousandfold a step at the usual rate.
        let changed = [
            ("loader", Level::text(loader)),
            ("precision", Level::text("fp64")),
            ("learning_rate", Level::Number(1e-5)),
        ];
        let (outcome, events) = run_job(&job(folder.path(), &changed));
        outcome.unwrap();
        events
    };
    let (host, device) = (run_with("host"), run_with("device"));
    let close = |(a, b): (&u64, &u64)| (f64::from_bits(*a) - f64::from_bits(*b)).abs() < 1e-6 * f64::from_bits(*a);
    let (host, found) = (losses(&host), losses(&device));
    assert_eq!(found.len(), 6);
    assert!(host.iter().zip(&found).all(close), "{host:?} {found:?}");
    assert_eq!(found, losses(&run_with("device")), "bit for bit");
    // Indices of three batches of 16.
    assert_eq!(readings(&device, "received_bytes"), [(Some(1), 384.0), (Some(2), 384.0)]);
    let seen: Vec<_> =
        device.iter().filter_map(|event| if let Event::Evidence(e) = event { Some(e) } else { None }).collect();
    assert!(seen.iter().all(|evidence| evidence.in_effect), "{seen:?}");
    let loader = seen.iter().find(|evidence| evidence.factor == "loader").unwrap();
    assert_eq!(loader.seen, "47520 bytes of images and labels live on Cpu");
}

#[test]
fn a_graph_on_a_cpu_is_refused_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let (outcome, _) = run_job(&job(folder.path(), &[("cuda_graph", Level::text("on"))]));
    let Err(stop) = outcome else { panic!("it ran") };
    assert!(stop.to_string().contains("cuda_graph = on needs a GPU"), "{stop}");
}

#[test]
fn a_set_that_is_too_small_is_an_input_error_that_names_the_factor() {
    for (factor, count, words) in
        [("train_images", 61, "has 60"), ("test_images", 26, "has 25"), ("batch_size", 61, "no full batch")]
    {
        let folder = tempfile::tempdir().unwrap();
        let (outcome, _) = run_job(&job(folder.path(), &[(factor, Level::Integer(count))]));
        let Err(Stop::Failed { kind, message }) = outcome else { panic!("it ran") };
        assert_eq!(kind, FailureKind::Input);
        assert!(message.contains(words) && message.contains(factor), "{message}");
    }
}

#[test]
fn losses_that_are_no_numbers_end_a_run_only_in_a_row() {
    let mut losses = Losses { not_finite: 0, limit: 3 };
    for loss in [f64::NAN, f64::INFINITY, 1.0, f64::NAN, f64::NAN] {
        losses.see(loss).unwrap();
    }
    assert!(losses.see(f64::NEG_INFINITY).unwrap_err().contains("3 losses"));
}

#[test]
fn memory_that_ran_out_is_told_by_kind() {
    let held = [("frozen weights", 16_060_000_000), ("trained weights", 0), ("optimizer", 84_000_000)];
    let expected = "At most 20.50 GB were allocated: frozen weights 16.06 GB, optimizer 0.08 GB, activations and work space 4.36 GB";
    assert_eq!(allocated(20_500_000_000, &held), expected);
}
