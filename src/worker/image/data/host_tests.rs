//! The loader as the trainer uses it.

#![allow(clippy::unwrap_used)]

use std::fs;

use multicard::dataset::Images;
use multicard::plan::image::{
    BatchNorm, CudnnBenchmark, DataCopy, Loader as Level, Scenario, Strategy, Tf32, UpdateRule,
};
use multicard::plan::{Binding, GpuChoice, Kernels, OptimizerImpl, Passes};

use super::super::loader::{Epoch, Loader, Source};
use super::super::staging::no_fence;
use super::super::{PIXEL_DEVIATION, PIXEL_MEAN};
use super::*;
use crate::order::{Deal, Mode, Shard};

fn settings() -> ImageSettings {
    ImageSettings {
        precision: Precision::Fp32,
        tf32: Tf32::Off,
        wire_dtype: WireDtype::Run,
        pin_memory: false,
        layout: Layout::Nchw,
        passes: Passes::Training,
        kernels: Kernels::Plain,
        loader: Level::Host,
        loader_workers: 2,
        persistent_workers: false,
        scenario: Scenario::A,
        strategy: Strategy::Single,
        gpus: 1,
        gpu_choice: GpuChoice::Nearest,
        numa: Binding::Off,
        nodes: Default::default(),
        data_copy: DataCopy::PerRank,
        batch_norm: BatchNorm { broadcast_buffers: true, synchronised: false },
        cuda_graph: false,
        optimizer: UpdateRule::Sgd,
        optimizer_impl: OptimizerImpl::Fused,
        cudnn_benchmark: CudnnBenchmark::On,
        deterministic: false,
        image_size: 28,
        batch_size: 8,
        epochs: 1,
        learning_rate: 0.01,
        width_multiplier: 1.0,
        train_images: 100,
        test_images: 100,
    }
}

/// Images that can be told apart by their first pixel, which is their index.
fn images(count: usize) -> Arc<Samples> {
    let mut pixels: Vec<u8> = (0..count * 784).map(|index| (index * 7 + index / 784) as u8).collect();
    for index in 0..count {
        pixels[index * 784] = index as u8;
    }
    let labels = (0..count).map(|index| (index % 10) as u8).collect();
    Arc::new(Images { rows: 28, columns: 28, pixels, labels }.into())
}

fn loader(count: usize, settings: &ImageSettings, mode: Mode) -> Loader {
    sharded(count, settings, mode, Shard::ALL)
}

fn sharded(count: usize, settings: &ImageSettings, mode: Mode, shard: Shard) -> Loader {
    Loader::new(images(count), settings, Device::Cpu, 1, mode, shard, no_fence).unwrap()
}

fn host(loader: &Loader) -> &HostSource {
    let Source::Host(host) = &loader.source else { panic!("another loader") };
    host
}

fn all(epoch: &mut Epoch) -> Vec<Batch> {
    std::iter::from_fn(|| epoch.next().unwrap()).collect()
}

/// The indices of the images in a batch of 28 px in fp32 or fp64, by their first pixel.
fn seen(batch: &Batch) -> Vec<i64> {
    let first = batch.images().select(1, 0).select(1, 0).select(1, 0).to_kind(Kind::Double);
    let bytes = (((first * PIXEL_DEVIATION) + PIXEL_MEAN) * 255.0).round().to_kind(Kind::Int64);
    let indices: Vec<i64> = bytes.try_into().unwrap();
    let labels: Vec<i64> = (batch.labels()).try_into().unwrap();
    assert_eq!(labels, indices.iter().map(|index| index % 10).collect::<Vec<_>>(), "labels belong to their images");
    indices
}

fn order(loader: &mut Loader, epoch: u32) -> Vec<i64> {
    all(&mut loader.epoch(epoch)).iter().flat_map(seen).collect()
}

#[test]
fn the_order_is_the_same_for_any_number_of_threads() {
    let orders = [1, 3, 4, 40].map(|loader_workers| {
        let mut loader = loader(200, &ImageSettings { loader_workers, ..settings() }, Mode::Train);
        [order(&mut loader, 0), order(&mut loader, 1)]
    });
    assert!(orders.iter().all(|order| *order == orders[0]));
    let [first, second] = &orders[0];
    assert_ne!(first, second);
    for order in [first, second] {
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..200).collect::<Vec<_>>());
    }
}

#[test]
fn training_drops_the_last_partial_batch_and_evaluation_keeps_it_in_order() {
    let mut train = loader(100, &settings(), Mode::Train);
    assert_eq!((train.batches(), order(&mut train, 0).len()), (12, 96));
    let mut evaluate = loader(100, &settings(), Mode::Evaluate);
    assert_eq!(evaluate.batches(), 13);
    let batches = all(&mut evaluate.epoch(3));
    assert_eq!(batches.iter().map(|batch| batch.count).collect::<Vec<_>>(), [vec![8; 12], vec![4]].concat());
    assert_eq!(batches.iter().flat_map(seen).collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
    assert!(all(&mut loader(7, &settings(), Mode::Train).epoch(0)).is_empty());
    assert!(all(&mut loader(0, &settings(), Mode::Evaluate).epoch(0)).is_empty());
}

#[test]
fn threads_that_persist_give_the_same_epochs() {
    let mut fresh = loader(100, &settings(), Mode::Train);
    let mut kept = loader(100, &ImageSettings { persistent_workers: true, ..settings() }, Mode::Train);
    for epoch in 0..3 {
        assert_eq!(order(&mut fresh, epoch), order(&mut kept, epoch));
        assert!(host(&fresh).crew.is_none() && host(&kept).crew.is_some());
    }
    // Broken off in the middle, the next epoch is whole again.
    kept.epoch(3).next().unwrap();
    assert!(host(&kept).crew.is_none());
    assert_eq!(order(&mut fresh, 4), order(&mut kept, 4));
}

#[test]
fn channels_last_changes_the_strides_and_not_the_values() {
    let settings = ImageSettings { image_size: 40, ..settings() };
    let batch = |layout| {
        let mut loader = loader(20, &ImageSettings { layout, ..settings.clone() }, Mode::Evaluate);
        all(&mut loader.epoch(0)).remove(0)
    };
    let (nchw, nhwc) = (batch(Layout::Nchw), batch(Layout::Nhwc));
    assert_eq!(nchw.images().size(), [8, 3, 40, 40]);
    assert_eq!(nhwc.images().size(), [8, 3, 40, 40]);
    assert_eq!(nchw.images().stride(), [4800, 1600, 40, 1]);
    assert_eq!(nhwc.images().stride(), [4800, 1, 120, 3]);
    assert_eq!(nchw.images(), nhwc.images());
}

#[test]
fn the_wire_type_decides_the_bytes_and_the_precision_the_models_type() {
    use Precision::{Bf16, Fp16, Fp32, Fp64};
    use WireDtype::{Run, Uint8};
    let reference = all(&mut loader(8, &settings(), Mode::Evaluate).epoch(0)).remove(0).images().shallow_clone();
    for (precision, wire_dtype, element_bytes, kind, tolerance) in [
        (Fp64, Run, 8, Kind::Double, 1e-6),
        (Fp32, Run, 4, Kind::Float, 0.0),
        (Fp16, Run, 2, Kind::Float, 2e-3),
        (Bf16, Run, 2, Kind::Float, 1e-2),
        (Fp64, WireDtype::Fp32, 4, Kind::Double, 1e-6),
        (Fp16, WireDtype::Fp32, 4, Kind::Float, 0.0),
        // At 28 px nothing is interpolated, so bytes lose nothing.
        (Fp16, Uint8, 1, Kind::Float, 1e-6),
        (Fp64, Uint8, 1, Kind::Double, 1e-6),
    ] {
        for layout in [Layout::Nchw, Layout::Nhwc] {
            let settings = ImageSettings { precision, wire_dtype, layout, ..settings() };
            let batch = all(&mut loader(8, &settings, Mode::Evaluate).epoch(0)).remove(0);
            assert_eq!(batch.images().kind(), kind, "{precision:?} {wire_dtype:?}");
            assert_eq!(batch.labels().kind(), Kind::Int64);
            assert_eq!(batch.bytes, 8 * (3 * 28 * 28 * element_bytes + 8));
            let stride = if layout == Layout::Nhwc { 1 } else { 784 };
            assert_eq!(batch.images().stride()[1], stride);
            let difference = (batch.images().to_kind(Kind::Double) - reference.to_kind(Kind::Double)).abs().max();
            assert!(difference.double_value(&[]) <= tolerance, "{precision:?} {wire_dtype:?}: {difference:?}");
        }
    }
}

#[test]
fn batches_that_are_kept_are_not_overwritten() {
    let mut loader = loader(200, &ImageSettings { loader_workers: 1, ..settings() }, Mode::Evaluate);
    let mut epoch = loader.epoch(0);
    let first = epoch.next().unwrap().unwrap();
    let copy = first.images().copy();
    all(&mut epoch);
    assert_eq!(*first.images(), copy);
}

#[test]
fn shards_share_the_images() {
    let seen: Vec<_> = (0..3)
        .map(|rank| {
            let shard = Shard { rank, world_size: 3, deal: Deal::Sampled };
            let mut loader = sharded(50, &settings(), Mode::Evaluate, shard);
            let order = order(&mut loader, 0);
            assert_eq!(order.len().div_ceil(8), loader.batches());
            order
        })
        .collect();
    let mut union = seen.concat();
    union.sort_unstable();
    assert_eq!(union, (0..50).collect::<Vec<_>>());
}

#[test]
fn ranks_that_deal_batches_in_turn_receive_all_and_process_their_own() {
    let whole: Vec<_> = {
        let shard = Shard { rank: 0, world_size: 3, deal: Deal::Repeated };
        let mut loader = sharded(60, &settings(), Mode::Train, shard);
        all(&mut loader.epoch(1)).into_iter().map(|batch| batch.indices).collect()
    };
    // Of 60 images in batches of 8, seven are full; three ranks take two each.
    assert_eq!(whole.len(), 7);
    for rank in 0..3 {
        let shard = Shard { rank, world_size: 3, deal: Deal::RoundRobin };
        let mut loader = sharded(60, &settings(), Mode::Train, shard);
        assert_eq!(loader.batches(), 2);
        let own = all(&mut loader.epoch(1));
        assert!(own.iter().all(|batch| batch.received_batches == 3));
        let indices: Vec<_> = own.iter().map(|batch| batch.indices.clone()).collect();
        assert_eq!(indices, [whole[rank].clone(), whole[rank + 3].clone()]);
    }
}

/// Threads of this process that load for `rank`.
fn threads_of(rank: usize) -> usize {
    let names = fs::read_dir("/proc/self/task").unwrap().filter_map(|task| {
        // A thread may end while it is looked at.
        fs::read_to_string(task.ok()?.path().join("comm")).ok()
    });
    names.filter(|name| name.starts_with(&format!("loader-{rank}-"))).count()
}

#[test]
fn dropping_ends_every_thread() {
    for (rank, persistent_workers) in [(71, false), (72, true)] {
        let settings = ImageSettings { loader_workers: 3, persistent_workers, ..settings() };
        let shard = Shard { rank, world_size: 100, deal: Deal::Sampled };
        let mut loader = sharded(100, &settings, Mode::Train, shard);
        drop(loader.epoch(0));
        all(&mut loader.epoch(0));
        assert_eq!(threads_of(rank), if persistent_workers { 3 } else { 0 });
        let mut epoch = loader.epoch(1);
        epoch.next().unwrap();
        drop(epoch);
        drop(loader);
        assert_eq!(threads_of(rank), 0);
    }
}

#[test]
fn a_thread_that_panics_ends_the_epoch_with_its_message() {
    let broken = Images { rows: 28, columns: 28, pixels: vec![0; 50 * 784], labels: vec![0; 100] };
    let mut loader =
        Loader::new(Arc::new(broken.into()), &settings(), Device::Cpu, 1, Mode::Evaluate, Shard::ALL, no_fence)
            .unwrap();
    let mut epoch = loader.epoch(0);
    let error = loop {
        match epoch.next() {
            Ok(batch) => assert!(batch.is_some(), "the epoch ended well"),
            Err(error) => break error,
        }
    };
    assert!(error.starts_with("loader thread 0: panicked: ") && error.contains("out of range"), "{error}");
    assert_eq!(epoch.next().unwrap_err(), error, "an epoch that failed stays failed");
}

#[test]
fn waiting_and_starting_are_measured() {
    let mut loader = loader(100, &ImageSettings { image_size: 200, ..settings() }, Mode::Train);
    let mut epoch = loader.epoch(0);
    assert_eq!(epoch.start_s(), None);
    let first = epoch.next().unwrap().unwrap();
    let start_s = epoch.start_s().unwrap();
    assert!(first.wait_s > 0.0 && start_s >= first.wait_s);
    epoch.next().unwrap();
    assert_eq!(epoch.start_s(), Some(start_s));
}

/// Every way of copying brings the same values.
#[test]
#[ignore = "needs a GPU: make test-gpu"]
fn batches_on_a_gpu_hold_what_the_host_prepared() {
    for (pin_memory, wire_dtype, layout) in [
        (false, WireDtype::Run, Layout::Nchw),
        (true, WireDtype::Run, Layout::Nhwc),
        (true, WireDtype::Uint8, Layout::Nhwc),
        (false, WireDtype::Uint8, Layout::Nchw),
    ] {
        let settings = ImageSettings { pin_memory, wire_dtype, layout, image_size: 100, ..settings() };
        let on = |device| {
            let mut loader = Loader::new(images(200), &settings, device, 1, Mode::Train, Shard::ALL, no_fence).unwrap();
            all(&mut loader.epoch(0))
        };
        for (host, gpu) in on(Device::Cpu).iter().zip(on(Device::Cuda(0))) {
            assert_eq!(gpu.images().device(), Device::Cuda(0));
            assert_eq!(gpu.images().stride(), host.images().stride());
            let difference = (gpu.images().to_device(Device::Cpu) - host.images()).abs().max().double_value(&[]);
            assert!(difference < 1e-6, "{difference}");
            assert_eq!(gpu.labels().to_device(Device::Cpu), *host.labels());
        }
    }
}

/// What the threads alone prepare, their buffers going round as they do for a GPU: through [`Epoch::next`] on the CPU one would
/// time fresh memory for each batch and the conversion to the model's type as well; that rate is printed beside it.
/// `cargo test --release -p multicard-worker --bin multicard-worker -- --ignored --nocapture images_per_second`.
#[test]
#[ignore = "a measurement"]
fn images_per_second() {
    for (image_size, count) in [(100, 8192), (300, 2048)] {
        for layout in [Layout::Nchw, Layout::Nhwc] {
            for (precision, wire_dtype) in [
                (Precision::Fp32, WireDtype::Run),
                (Precision::Fp16, WireDtype::Run),
                (Precision::Bf16, WireDtype::Run),
                (Precision::Fp32, WireDtype::Uint8),
            ] {
                let settings =
                    ImageSettings { image_size, layout, precision, wire_dtype, batch_size: 64, ..settings() };
                let mut loader = loader(count, &settings, Mode::Train);
                let epoch = loader.epoch(0);
                let crew = host(epoch.loader).crew.as_ref().unwrap();
                // The first batches take the memory.
                let warm_up = 2 * PREFETCH;
                let mut begin = Instant::now();
                for batch in 0..epoch.task.batches {
                    let hand = &crew.hands[batch % crew.hands.len()];
                    let slot = hand.ready.recv().unwrap().unwrap();
                    let _ = hand.free.send(slot);
                    if batch + 1 == warm_up {
                        begin = Instant::now();
                    }
                }
                let prepared = ((epoch.task.batches - warm_up) * 64) as f64 / begin.elapsed().as_secs_f64();
                drop(epoch);
                let begin = Instant::now();
                let delivered = all_counted(&mut loader.epoch(0)) as f64 / begin.elapsed().as_secs_f64();
                println!(
                    "{image_size} px {layout:?} {precision:?} {wire_dtype:?}, 2 threads: prepared {prepared:.0} images/s, \
                     delivered on the CPU {delivered:.0} images/s"
                );
            }
        }
    }
}

/// The images of an epoch; they are not kept.
fn all_counted(epoch: &mut Epoch) -> usize {
    std::iter::from_fn(|| epoch.next().unwrap()).map(|batch| batch.count).sum()
}
