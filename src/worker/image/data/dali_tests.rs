//! DALI on the CPU against the host loader: the same images in the same order, with the same pixels. Where DALI is not there
//! (`make dali`), the tests say so and end.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use multicard::dataset::{FileFormat, ImageSet, Images, list_files, make_files};
use multicard::plan::image::Loader as Level;

use super::super::loader::{Epoch, Loader};
use super::super::staging::no_fence;
use super::*;
use crate::image::testing::{difference, settings};
use crate::order::{Deal, Mode, Shard};

/// Whether DALI is there; says so where it is not.
fn dali_is_there() -> bool {
    let folder = crate::image::dali::folder();
    if let Err(reason) = &folder {
        eprintln!("skipped: {reason}");
    }
    folder.is_ok()
}

fn digits(count: usize) -> Images {
    let pixels = (0..count * 784).map(|index| (index * index * 31 + index / 784 * 7) as u8).collect();
    Images { rows: 28, columns: 28, pixels, labels: (0..count).map(|index| (index % 10) as u8).collect() }
}

fn files(folder: &Path, format: FileFormat) -> Arc<Samples> {
    let set = ImageSet { train: digits(30), test: digits(10) };
    make_files(&set, folder, 20, format, &mut |_, _| ControlFlow::Continue(())).unwrap();
    Arc::new(list_files(folder).unwrap().train.into())
}

fn small() -> ImageSettings {
    ImageSettings { batch_size: 8, loader_workers: 2, ..settings() }
}

fn loader(
    samples: &Arc<Samples>,
    settings: &ImageSettings,
    level: Level,
    device: Device,
    mode: Mode,
    rank: usize,
) -> Loader {
    let settings = ImageSettings { loader: level, ..settings.clone() };
    let shard = Shard { rank, world_size: rank + 1, deal: Deal::Repeated };
    Loader::new(Arc::clone(samples), &settings, device, 5, mode, shard, no_fence).unwrap()
}

fn all(epoch: &mut Epoch) -> Vec<Batch> {
    std::iter::from_fn(|| epoch.next().unwrap()).collect()
}

/// One level of 256, normalised.
const LEVEL: f64 = 1.0 / 255.0 / PIXEL_DEVIATION;

/// Two epochs by the host and by DALI on `device`, whose pixels may differ by `tolerance`.
fn equal(samples: &Arc<Samples>, settings: &ImageSettings, device: Device, mode: Mode, tolerance: f64) {
    let mut host = loader(samples, settings, Level::Host, Device::Cpu, mode, 0);
    let mut dali = loader(samples, settings, Level::Dali, device, mode, 0);
    for epoch in [1, 2] {
        let host = all(&mut host.epoch(epoch));
        let mut epoch = dali.epoch(epoch);
        let dali = all(&mut epoch);
        assert!(!host.is_empty() && host.len() == dali.len());
        assert!(epoch.start_s().unwrap() > 0.0);
        for (host, dali) in host.iter().zip(&dali) {
            assert_eq!((&dali.indices, dali.count), (&host.indices, host.count));
            assert_eq!(dali.labels().to_device(Device::Cpu), *host.labels());
            assert_eq!(dali.images().stride(), host.images().stride());
            assert_eq!(dali.images().kind(), run_kind(settings.precision));
            assert_eq!(dali.origin, Origin::Dali { device });
            let found = difference(&dali.images().to_device(Device::Cpu), host.images());
            assert!(
                found <= tolerance,
                "{:?} {:?} {} px: {found}",
                settings.precision,
                settings.layout,
                settings.image_size
            );
        }
    }
}

/// Upsampled digits: what fp32 arithmetic and one rounding to the type may differ by, for values below 4.
fn digits_equal_on(device: Device) {
    let samples = Arc::new(Samples::from(digits(60)));
    for (precision, tolerance) in
        [(Precision::Fp32, 1e-5), (Precision::Fp64, 1e-5), (Precision::Fp16, 4e-3), (Precision::Bf16, 3.2e-2)]
    {
        for (layout, image_size, persistent_workers) in
            [(Layout::Nchw, 28, false), (Layout::Nhwc, 100, true), (Layout::Nchw, 75, true)]
        {
            let settings = ImageSettings { precision, layout, image_size, persistent_workers, ..small() };
            equal(&samples, &settings, device, Mode::Train, tolerance);
            equal(&samples, &settings, device, Mode::Evaluate, tolerance);
        }
    }
}

/// PNG is exact, and enlarging rounds to the same byte or its neighbour; decoders of JPEG differ by a few levels.
fn files_equal_on(device: Device, jpeg_levels: f64) {
    for (format, levels) in [(FileFormat::Png, 0.0), (FileFormat::Jpeg, jpeg_levels)] {
        let folder = tempfile::tempdir().unwrap();
        let samples = files(&folder.path().join("set"), format);
        for (layout, image_size) in [(Layout::Nchw, 300), (Layout::Nhwc, 300), (Layout::Nhwc, 340)] {
            let settings = ImageSettings { layout, image_size, ..small() };
            let rounding = if image_size == 300 { 0.0 } else { 1.0 };
            equal(&samples, &settings, device, Mode::Train, (levels + rounding) * LEVEL + 1e-5);
        }
    }
}

#[test]
fn upsampled_digits_equal_the_hosts() {
    if dali_is_there() {
        digits_equal_on(Device::Cpu);
    }
}

#[test]
fn decoded_files_equal_the_hosts() {
    if dali_is_there() {
        files_equal_on(Device::Cpu, 4.0);
    }
}

#[test]
#[ignore = "needs a GPU: make test-gpu"]
fn batches_on_a_gpu_equal_the_hosts() {
    shim::cuda::open().unwrap();
    if !dali_is_there() {
        return;
    }
    digits_equal_on(Device::Cuda(0));
    files_equal_on(Device::Cuda(0), 6.0);
}

/// The memory of a batch is DALI's until the batch is dropped, whatever happens to the pipeline meanwhile.
#[test]
fn a_batch_that_is_kept_outlives_its_epoch_and_its_pipeline() {
    if !dali_is_there() {
        return;
    }
    let samples = Arc::new(Samples::from(digits(60)));
    let mut source = loader(&samples, &small(), Level::Dali, Device::Cpu, Mode::Train, 0);
    let mut epoch = source.epoch(1);
    let first = epoch.next().unwrap().unwrap();
    let copy = first.images().copy();
    all(&mut epoch);
    drop(epoch);
    all(&mut source.epoch(2));
    drop(source);
    assert_eq!(*first.images(), copy);
}

/// Names of this process's threads that read files for a rank.
fn readers_of(rank: usize) -> usize {
    let names = fs::read_dir("/proc/self/task").unwrap().filter_map(|task| {
        // A thread may end while it is looked at.
        fs::read_to_string(task.ok()?.path().join("comm")).ok()
    });
    names.filter(|name| name.trim() == format!("loader-{rank}-files")).count()
}

#[test]
fn a_corrupt_file_is_named_and_breaking_off_leaves_no_reader() {
    if !dali_is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let samples = files(&folder.path().join("set"), FileFormat::Png);
    let settings = ImageSettings { image_size: 300, batch_size: 4, ..small() };
    let mut source = loader(&samples, &settings, Level::Dali, Device::Cpu, Mode::Train, 83);
    let mut epoch = source.epoch(1);
    epoch.next().unwrap().unwrap();
    drop(epoch);
    assert_eq!(readers_of(83), 0);

    let Content::Files(paths) = &samples.content else { panic!("no files") };
    fs::write(&paths[9], &fs::read(&paths[9]).unwrap()[..2000]).unwrap();
    let mut epoch = source.epoch(1);
    let error = loop {
        match epoch.next() {
            Ok(batch) => assert!(batch.is_some(), "the epoch ended well"),
            Err(error) => break error,
        }
    };
    assert!(error.contains(&format!("{} cannot be decoded", paths[9].display())), "{error}");
    drop(epoch);
    assert_eq!(readers_of(83), 0);
}
