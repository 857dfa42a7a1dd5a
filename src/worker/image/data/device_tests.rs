//! The device loader against the host's: the same images in the same order, with the same pixels.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use multicard::dataset::Images;
use multicard::plan::image::Loader as Level;

use super::super::loader::Loader;
use super::super::staging::no_fence;
use super::*;
use crate::image::testing::{difference, settings};
use crate::order::{Deal, Mode, Shard};

fn images(count: usize) -> Arc<Samples> {
    let pixels = (0..count * 784).map(|index| (index * index * 31 + index / 784 * 7) as u8).collect();
    let labels = (0..count).map(|index| (index % 10) as u8).collect();
    Arc::new(Images { rows: 28, columns: 28, pixels, labels }.into())
}

fn batches(settings: &ImageSettings, device: Device, mode: Mode, shard: Shard, epoch: u32) -> Vec<Batch> {
    let mut loader = Loader::new(images(60), settings, device, 5, mode, shard, no_fence).unwrap();
    let mut epoch = loader.epoch(epoch);
    std::iter::from_fn(|| epoch.next().unwrap()).collect()
}

fn small() -> ImageSettings {
    ImageSettings { batch_size: 8, loader_workers: 2, ..settings() }
}

/// The batches of both loaders, the host's first.
fn both(settings: &ImageSettings, device: Device, mode: Mode, shard: Shard, epoch: u32) -> [Vec<Batch>; 2] {
    [Level::Host, Level::Device].map(|loader| {
        let settings = ImageSettings { loader, ..settings.clone() };
        batches(&settings, device, mode, shard, epoch)
    })
}

fn pixels_equal_the_hosts_on(device: Device) {
    // What one rounding to the type may differ by, for values below 4.
    let precisions = [
        (Precision::Fp32, Kind::Float, 1e-5),
        (Precision::Fp64, Kind::Double, 1e-12),
        (Precision::Fp16, Kind::Half, 2e-3),
        (Precision::Bf16, Kind::BFloat16, 1.6e-2),
    ];
    for (precision, kind, tolerance) in precisions {
        for (layout, image_size) in [(Layout::Nchw, 28), (Layout::Nhwc, 28), (Layout::Nchw, 75), (Layout::Nhwc, 100)] {
            let settings = ImageSettings { precision, layout, image_size, ..small() };
            let [host, resident] = both(&settings, device, Mode::Evaluate, Shard::ALL, 1);
            for (host, resident) in host.iter().zip(&resident) {
                assert_eq!(resident.images().kind(), kind, "the run's type");
                assert_eq!(resident.images().device(), device);
                assert_eq!(resident.images().stride(), host.images().stride(), "{layout:?}");
                let found = difference(resident.images(), host.images());
                assert!(found <= tolerance, "{precision:?} {layout:?} {image_size} px: {found}");
                assert_eq!(resident.labels(), host.labels());
            }
        }
    }
}

#[test]
fn pixels_equal_the_hosts() {
    pixels_equal_the_hosts_on(Device::Cpu);
}

#[test]
#[ignore = "needs a GPU: make test-gpu"]
fn pixels_on_a_gpu_equal_the_hosts() {
    crate::shim::cuda::open().unwrap();
    pixels_equal_the_hosts_on(Device::Cuda(0));
}

#[test]
fn every_deal_gives_the_hosts_order() {
    for mode in [Mode::Train, Mode::Evaluate] {
        for deal in [Deal::Sampled, Deal::Repeated, Deal::RoundRobin] {
            for rank in 0..3 {
                let shard = Shard { rank, world_size: 3, deal };
                let [host, resident] = both(&small(), Device::Cpu, mode, shard, 2);
                let order = |batches: &[Batch]| -> Vec<(Vec<u32>, usize)> {
                    batches.iter().map(|batch| (batch.indices.clone(), batch.received_batches)).collect()
                };
                assert!(!host.is_empty());
                assert_eq!(order(&host), order(&resident), "{mode:?} {deal:?} {rank}");
                for (host, resident) in host.iter().zip(&resident) {
                    assert_eq!(host.labels(), resident.labels());
                    assert!(difference(host.images(), resident.images()) < 1e-5, "pixels belong to their indices");
                }
            }
        }
    }
}

#[test]
fn epochs_are_shuffled_anew_and_come_back_with_the_seed() {
    let settings = ImageSettings { loader: Level::Device, ..small() };
    let order = |epoch| -> Vec<u32> {
        let batches = batches(&settings, Device::Cpu, Mode::Train, Shard::ALL, epoch);
        batches.into_iter().flat_map(|batch| batch.indices).collect()
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
    assert_eq!(order(1).len(), 56, "a last batch that is not full is left out");
}

#[test]
fn only_indices_travel_and_the_set_stays() {
    let settings = ImageSettings { loader: Level::Device, ..small() };
    let mut loader = Loader::new(images(60), &settings, Device::Cpu, 5, Mode::Evaluate, Shard::ALL, no_fence).unwrap();
    let mut epoch = loader.epoch(1);
    let all: Vec<_> = std::iter::from_fn(|| epoch.next().unwrap()).collect();
    assert_eq!(all.iter().map(|batch| batch.bytes).collect::<Vec<_>>(), [[64; 7].as_slice(), &[32]].concat());
    let origin = Origin::Resident { device: Device::Cpu, bytes: 60 * (784 + 8) };
    assert!(all.iter().all(|batch| batch.origin == origin && batch.wait_s > 0.0));
    assert!(epoch.start_s().unwrap() >= all[0].wait_s);
}
