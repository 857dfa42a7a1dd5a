//! Steps that are replayed against steps that are not: they must train the same.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::Ordering;

use multicard::plan::OptimizerImpl;
use multicard::plan::image::{ImageSettings, Layout, Precision};
use tch::Kind;

use super::*;
use crate::image::testing::{channels_last, settings};
use crate::image::{Image, frozen};
use crate::module::Module;
use crate::testing::generator;
use crate::trainer::Trainer;

#[test]
fn a_cpu_has_no_graphs() {
    let error = StepGraph::<Tensor>::new(Device::Cpu).err().unwrap().to_string();
    assert!(error.contains("needs a GPU"), "{error}");
}

/// Losses of steps over three batches in turn, and the trainer afterwards.
fn losses(settings: &ImageSettings, steps: usize, scale_of_last: f64) -> (Vec<f64>, Trainer<Image>) {
    let device = Device::Cuda(0);
    let task = Image::with(settings.clone());
    let mut trainer = Trainer::new(task, &[device], None, 1, settings.cuda_graph).unwrap();
    let kind = if settings.precision == Precision::Fp64 { Kind::Double } else { Kind::Float };
    let mut batches = Vec::new();
    for batch in 0..3 {
        // Each batch has other classes: a batch in another order would have the same loss.
        let labels = Tensor::arange(20, (Kind::Int64, device)).remainder(10 - 3 * batch) + batch;
        let rows = Tensor::arange(32, (Kind::Float, device)) * (10.0 / 32.0);
        let bars = rows.floor().unsqueeze(0).eq_tensor(&labels.unsqueeze(1)).to_kind(kind);
        let images = bars.unsqueeze(1).unsqueeze(3).expand([20, 3, 32, 32], false) * 2.0 - 0.5;
        batches
            .push((if settings.layout == Layout::Nhwc { channels_last(&images) } else { images.contiguous() }, labels));
    }
    let losses = (0..steps).map(|step| {
        let (images, labels): &(Tensor, Tensor) = &batches[step % 3];
        let images = if step + 1 == steps { images * scale_of_last } else { images.shallow_clone() };
        trainer.step(&[images, labels.shallow_clone()]).unwrap().double_value(&[])
    });
    (losses.collect(), trainer)
}

const STEPS: usize = 30;

/// Every precision and optimizer that can be captured, at a learning rate.
fn cells(learning_rate: f64, precisions: &[Precision]) -> Vec<ImageSettings> {
    let mut cells = Vec::new();
    for &precision in precisions {
        for optimizer_impl in [OptimizerImpl::Fused, OptimizerImpl::Foreach, OptimizerImpl::Loop] {
            if precision != Precision::Fp16 || optimizer_impl == OptimizerImpl::Fused {
                let layout = Layout::Nhwc;
                cells.push(ImageSettings { precision, optimizer_impl, layout, learning_rate, ..settings() });
            }
        }
    }
    cells
}

/// The same training without a graph and with one, in which nothing is dropped out.
fn both(eager: &ImageSettings) -> [(Vec<f64>, Trainer<Image>); 2] {
    frozen::DROPOUT.store(true, Ordering::Relaxed);
    let graph = ImageSettings { cuda_graph: true, ..eager.clone() };
    let found = [losses(eager, STEPS, 1.0), losses(&graph, STEPS, 1.0)];
    frozen::DROPOUT.store(false, Ordering::Relaxed);
    found
}

#[test]
#[ignore = "needs a GPU: make test-gpu"]
fn replays_on_a_gpu_see_the_batches_that_eager_steps_see_in_every_precision() {
    let _generator = generator();
    cuda::open().unwrap();
    // Without learning, differences of rounding cannot grow.
    for cell in cells(0.0, &[Precision::Fp64, Precision::Fp32, Precision::Bf16, Precision::Fp16]) {
        let tolerance = match cell.precision {
            Precision::Fp64 => 1e-9,
            Precision::Fp32 => 1e-3,
            Precision::Bf16 | Precision::Fp16 => 0.05,
        };
        let [(eager, _), (replayed, trainer)] = both(&cell);
        println!("{:?} {:?}\n eager {eager:.4?}\n graph {replayed:.4?}", cell.precision, cell.optimizer_impl);
        assert!(eager.iter().zip(&replayed).all(|(a, b)| (a - b).abs() <= tolerance * a), "{cell:?}");
        assert!(replayed[STEPS - 1] != replayed[STEPS - 2], "batches differ");
        assert_eq!(trainer.replays().steps, STEPS as u64 - CUDA_GRAPH_WARM_UP_STEPS + 1);
        assert!(trainer.replays().kernels > 100);
    }
}

#[test]
#[ignore = "needs a GPU: make test-gpu"]
fn replays_on_a_gpu_change_weights_as_eager_steps_do_with_every_optimizer() {
    let _generator = generator();
    cuda::open().unwrap();
    // Steps so small that differences of rounding do not grow: what fp64 still tells apart is the sum of all gradients.
    for cell in cells(1e-9, &[Precision::Fp64]) {
        let start = Trainer::new(Image::with(cell.clone()), &[Device::Cuda(0)], None, 1, false).unwrap();
        let changes = both(&cell).map(|(_, trainer)| {
            tch::no_grad(|| {
                let pairs = trainer.module().parameters().into_iter().zip(start.module().parameters());
                Tensor::cat(&pairs.map(|(after, before)| (after - before).flatten(0, -1)).collect::<Vec<_>>(), 0)
            })
        });
        let norm = |tensor: &Tensor| tensor.norm().double_value(&[]);
        let (whole, difference) = (norm(&changes[0]), norm(&(&changes[0] - &changes[1])));
        println!("{:?}: {whole:e}, differs by {difference:e}", cell.optimizer_impl);
        assert!(whole > 0.0 && difference < 1e-4 * whole, "{:?}", cell.optimizer_impl);
    }
}

#[test]
#[ignore = "needs a GPU: make test-gpu"]
fn replays_on_a_gpu_move_running_statistics_and_drop_out_anew() {
    let _generator = generator();
    cuda::open().unwrap();
    let still = ImageSettings { cuda_graph: true, learning_rate: 0.0, layout: Layout::Nhwc, ..settings() };
    let (losses, trainer) = losses(&still, STEPS, 1.0);
    // Without learning, only what is dropped out tells replays of one batch apart.
    let same_batch: Vec<_> = losses.iter().skip(CUDA_GRAPH_WARM_UP_STEPS as usize).step_by(3).collect();
    println!("{same_batch:?}");
    assert!(same_batch.windows(2).all(|pair| pair[0] != pair[1]), "{same_batch:?}");
    let means = trainer.module().buffers();
    assert!(means.iter().all(|values| values.isfinite().all().int64_value(&[]) == 1));
    let (_, shorter) = self::losses(&still, STEPS - 3, 1.0);
    let moved = means.iter().zip(shorter.module().buffers()).any(|(a, b)| (a - b).abs().max().double_value(&[]) > 1e-6);
    assert!(moved, "running statistics must move with every replay");
}

#[test]
#[ignore = "needs a GPU: make test-gpu"]
fn an_overflow_within_a_replay_on_a_gpu_skips_the_update_and_halves_the_scale() {
    let _generator = generator();
    cuda::open().unwrap();
    let settings = ImageSettings { cuda_graph: true, precision: Precision::Fp16, ..settings() };
    let (losses, trainer) = losses(&settings, STEPS, f64::INFINITY);
    let (scale, skipped) = trainer.arithmetic().scale().unwrap().read().unwrap();
    println!("{losses:.4?} {scale} {skipped}");
    assert!(skipped >= 1);
    assert_eq!(scale, 65536.0 / f64::powi(2.0, skipped as i32));
    assert!(trainer.module().first_weight().isfinite().all().int64_value(&[]) == 1);
}
