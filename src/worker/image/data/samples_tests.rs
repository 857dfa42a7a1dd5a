//! Colour files through every loader: the same order and pixels for one seed, and nothing left behind however an epoch ends.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use multicard::dataset::{FileFormat, ImageSet, decode, enlarge, list_files, make_files};
use multicard::plan::image::{ImageSettings, Layout, Loader as Level, Precision, WireDtype};
use tch::{Device, Kind, Tensor};

use super::super::loader::{Batch, Loader};
use super::super::staging::no_fence;
use super::super::{PIXEL_DEVIATION, PIXEL_MEAN};
use super::*;
use crate::image::testing::{difference, settings};
use crate::order::{Deal, Mode, Shard};

const SIZE: i64 = 310;

fn make(folder: &Path) -> ImageFiles {
    let part = |count: usize| Images {
        rows: 28,
        columns: 28,
        pixels: (0..count * 784).map(|index| (index * index * 31 + index / 784 * 7) as u8).collect(),
        labels: (0..count).map(|index| (index * 7 % 10) as u8).collect(),
    };
    let set = ImageSet { train: part(24), test: part(10) };
    make_files(&set, folder, 24, FileFormat::Png, &mut |_, _| ControlFlow::Continue(())).unwrap();
    list_files(folder).unwrap().train
}

/// Decoded and enlarged, as a run does it before its first epoch.
fn decoded(files: &ImageFiles) -> Samples {
    let size = SIZE as usize;
    let mut pixels = vec![0; files.len() * size * size * 3];
    for (path, slot) in files.paths.iter().zip(pixels.chunks_exact_mut(size * size * 3)) {
        let picture = decode(path).unwrap();
        enlarge(&picture.pixels, [picture.rows, picture.columns], size, slot);
    }
    let content = Content::Bytes { shape: [size, size, 3], pixels: Pixels::Own(pixels) };
    Samples { labels: files.labels.clone(), content }
}

fn small() -> ImageSettings {
    ImageSettings { image_size: SIZE, batch_size: 5, loader_workers: 2, ..settings() }
}

fn loader(samples: &Arc<Samples>, settings: &ImageSettings, level: Level, mode: Mode, rank: usize) -> Loader {
    let settings = ImageSettings { loader: level, ..settings.clone() };
    let shard = Shard { rank, world_size: 2, deal: Deal::Repeated };
    Loader::new(Arc::clone(samples), &settings, Device::Cpu, 5, mode, shard, no_fence).unwrap()
}

fn all(loader: &mut Loader, epoch: u32) -> Vec<Batch> {
    let mut epoch = loader.epoch(epoch);
    std::iter::from_fn(|| epoch.next().unwrap()).collect()
}

/// Loaders that are there: DALI may not be installed.
fn levels() -> Vec<(Level, bool)> {
    let mut levels = vec![(Level::Host, true), (Level::Host, false), (Level::Device, true)];
    match crate::image::dali::folder() {
        Ok(_) => levels.extend([(Level::Dali, true), (Level::Dali, false)]),
        Err(reason) => eprintln!("without dali: {reason}"),
    }
    levels
}

#[test]
fn all_loaders_give_one_order_and_one_set_of_pixels_for_one_seed() {
    let folder = tempfile::tempdir().unwrap();
    let files = make(&folder.path().join("set"));
    let held = Arc::new(decoded(&files));
    let streamed = Arc::new(Samples::from(files));
    for (layout, mode) in [(Layout::Nchw, Mode::Train), (Layout::Nhwc, Mode::Train), (Layout::Nhwc, Mode::Evaluate)] {
        let settings = ImageSettings { layout, ..small() };
        let expected = all(&mut loader(&held, &settings, Level::Host, mode, 1), 3);
        assert!(expected.len() >= 3);
        // The reference itself: bytes of the set, normalised.
        let Content::Bytes { pixels, .. } = &held.content else { panic!("not in memory") };
        let len = (3 * SIZE * SIZE) as usize;
        let first = &pixels[expected[0].indices[0] as usize * len..][..len];
        let first = (Tensor::from_slice(first).view([SIZE, SIZE, 3]).permute([2, 0, 1]).to_kind(Kind::Double) / 255.0
            - PIXEL_MEAN)
            / PIXEL_DEVIATION;
        assert!(difference(&expected[0].images().get(0), &first) < 1e-5);
        for (level, in_memory) in levels() {
            let samples = if in_memory { &held } else { &streamed };
            let found = all(&mut loader(samples, &settings, level, mode, 1), 3);
            assert_eq!(found.len(), expected.len());
            // DALI may round an enlarged pixel to the neighbouring byte where it decodes itself.
            let tolerance = if level == Level::Dali && !in_memory { 1.0 / 255.0 / PIXEL_DEVIATION } else { 0.0 } + 1e-5;
            for (found, expected) in found.iter().zip(&expected) {
                assert_eq!((&found.indices, found.labels()), (&expected.indices, expected.labels()), "{level:?}");
                assert_eq!(found.images().stride(), expected.images().stride(), "{level:?} {layout:?}");
                let off = difference(found.images(), expected.images());
                assert!(off <= tolerance, "{level:?} in memory {in_memory} {layout:?}: {off}");
            }
        }
    }
}

#[test]
fn bytes_and_half_precision_travel_as_asked() {
    let folder = tempfile::tempdir().unwrap();
    let held = Arc::new(decoded(&make(&folder.path().join("set"))));
    let expected = all(&mut loader(&held, &small(), Level::Host, Mode::Evaluate, 0), 1).remove(0);
    for (precision, wire_dtype, bytes, tolerance) in [
        (Precision::Fp32, WireDtype::Uint8, 1, 1e-6),
        (Precision::Fp16, WireDtype::Run, 2, 2e-3),
        (Precision::Fp64, WireDtype::Run, 8, 1e-6),
    ] {
        let settings = ImageSettings { precision, wire_dtype, ..small() };
        let found = all(&mut loader(&held, &settings, Level::Host, Mode::Evaluate, 0), 1).remove(0);
        assert_eq!(found.bytes, 5 * (3 * SIZE as u64 * SIZE as u64 * bytes + 8));
        assert!(difference(found.images(), expected.images()) <= tolerance, "{precision:?} {wire_dtype:?}");
    }
}

/// Threads of this process that load for a rank, and its open files below a folder. The kernel lists a thread for a moment after it
/// was joined: what is left is what does not go.
fn left(rank: usize, folder: &Path) -> (usize, usize) {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let found = listed(rank, folder);
        if found == (0, 0) || Instant::now() > until {
            return found;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn listed(rank: usize, folder: &Path) -> (usize, usize) {
    let names = fs::read_dir("/proc/self/task").unwrap().filter_map(|task| {
        // A thread may end while it is looked at.
        fs::read_to_string(task.ok()?.path().join("comm")).ok()
    });
    let threads = names.filter(|name| name.starts_with(&format!("loader-{rank}-"))).count();
    let open = fs::read_dir("/proc/self/fd").unwrap().filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    (threads, open.filter(|path| path.starts_with(folder)).count())
}

#[test]
fn exhausting_breaking_off_and_failing_leave_no_thread_file_or_memory_behind() {
    let folder = tempfile::tempdir().unwrap();
    let files = make(&folder.path().join("set"));
    let mut broken = files.clone();
    broken.paths[13] = folder.path().join("set/absent.png");
    let held = decoded(&files);
    let (held, streamed, broken) = (Arc::new(held), Arc::new(Samples::from(files)), Arc::new(Samples::from(broken)));
    for (number, (level, in_memory)) in levels().into_iter().enumerate() {
        for persistent_workers in [false, true] {
            // Loaders that have nothing to keep have nothing to persist.
            let settings = ImageSettings { persistent_workers, ..small() };
            let rank = 500 + 2 * number + usize::from(persistent_workers);
            let samples = if in_memory { &held } else { &streamed };
            let start = |samples| {
                let shard = Shard { rank, world_size: 1000, deal: Deal::Repeated };
                let settings = ImageSettings { loader: level, ..settings.clone() };
                Loader::new(Arc::clone(samples), &settings, Device::Cpu, 5, Mode::Train, shard, no_fence).unwrap()
            };
            let mut exhausted = start(samples);
            all(&mut exhausted, 1);
            if !persistent_workers {
                assert_eq!(left(rank, folder.path()), (0, 0), "{level:?} after an epoch");
            }
            drop(exhausted);
            let mut cancelled = start(samples);
            cancelled.epoch(1).next().unwrap().unwrap();
            assert_eq!(left(rank, folder.path()), (0, 0), "{level:?} broken off");
            drop(cancelled);
            if !in_memory {
                let mut failing = start(&broken);
                let mut epoch = failing.epoch(1);
                let error = loop {
                    match epoch.next() {
                        Ok(batch) => assert!(batch.is_some(), "the epoch ended well"),
                        Err(error) => break error,
                    }
                };
                assert!(error.contains("set/absent.png"), "{error}");
                drop(epoch);
                drop(failing);
            }
            assert_eq!(left(rank, folder.path()), (0, 0), "{level:?} at the end");
            assert_eq!([&held, &streamed, &broken].map(Arc::strong_count), [1, 1, 1], "{level:?}");
        }
    }
}
