//! Steps on the CPU: every precision and layout learns, and the same seed gives the same bits.
#![allow(clippy::unwrap_used)]

use multicard::plan::OptimizerImpl;
use multicard::plan::image::{ImageSettings, Layout, Precision};
use tch::Kind;

use super::*;
use crate::image::Image;
use crate::image::testing::{channels_last, settings};
use crate::testing::generator;

/// Images whose class is where a bright bar is.
fn learnable(count: i64, size: i64, settings: &ImageSettings) -> [Tensor; 2] {
    let labels = Tensor::arange(count, (Kind::Int64, Device::Cpu)).remainder(10);
    let rows = Tensor::arange(size, (Kind::Float, Device::Cpu)) * (10.0 / size as f64);
    let bars = rows.floor().unsqueeze(0).eq_tensor(&labels.unsqueeze(1)).to_kind(Kind::Float);
    let images = bars.unsqueeze(1).unsqueeze(3).expand([count, 3, size, size], false) * 2.0 - 0.5;
    let kind = if settings.precision == Precision::Fp64 { Kind::Double } else { Kind::Float };
    let images = images.to_kind(kind);
    [if settings.layout == Layout::Nhwc { channels_last(&images) } else { images.contiguous() }, labels]
}

fn trainer(settings: &ImageSettings, seed: u64) -> Trainer<Image> {
    Trainer::new(Image::with(settings.clone()), &[Device::Cpu], None, seed, false).unwrap()
}

fn losses(settings: &ImageSettings, steps: usize) -> Vec<f64> {
    let _generator = generator();
    let mut trainer = trainer(settings, 1);
    let batch = learnable(20, 32, settings);
    (0..steps).map(|_| trainer.step(&batch).unwrap().double_value(&[])).collect()
}

fn learns(losses: &[f64]) -> bool {
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    losses.iter().all(|loss| loss.is_finite()) && mean(&losses[losses.len() - 3..]) < 0.7 * mean(&losses[..3])
}

#[test]
fn every_precision_and_layout_learns() {
    for (precision, layout) in [
        (Precision::Fp32, Layout::Nchw),
        (Precision::Fp32, Layout::Nhwc),
        (Precision::Fp64, Layout::Nhwc),
        (Precision::Bf16, Layout::Nhwc),
        (Precision::Fp16, Layout::Nchw),
    ] {
        let settings = ImageSettings { precision, layout, ..settings() };
        let losses = losses(&settings, 16);
        assert!(learns(&losses), "{precision:?} {layout:?}: {losses:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bits() {
    let settings = ImageSettings { deterministic: true, ..settings() };
    Image::with(settings.clone()).flags().set().unwrap();
    let bits = || losses(&settings, 6).into_iter().map(f64::to_bits).collect::<Vec<_>>();
    let first = bits();
    assert_eq!(first, bits());
    let _generator = generator();
    let other = trainer(&settings, 2);
    let same = trainer(&settings, 1);
    assert_ne!(other.module().first_weight(), same.module().first_weight());
}

#[test]
fn every_optimizer_takes_the_same_steps() {
    let losses_with = |optimizer_impl| losses(&ImageSettings { optimizer_impl, ..settings() }, 4);
    let fused = losses_with(OptimizerImpl::Fused);
    for other in [losses_with(OptimizerImpl::Foreach), losses_with(OptimizerImpl::Loop)] {
        assert!(fused.iter().zip(&other).all(|(a, b)| (a - b).abs() < 1e-3 * a), "{fused:?} {other:?}");
    }
}

#[test]
fn an_overflow_skips_the_update_and_halves_the_scale() {
    let _generator = generator();
    for optimizer_impl in [OptimizerImpl::Fused, OptimizerImpl::Foreach, OptimizerImpl::Loop] {
        let settings = ImageSettings { precision: Precision::Fp16, optimizer_impl, ..settings() };
        let mut trainer = trainer(&settings, 1);
        let [images, labels] = learnable(10, 32, &settings);
        let before = trainer.module().first_weight().copy();
        let _ = trainer.step(&[&images * f64::INFINITY, labels]).unwrap();
        assert_eq!(trainer.arithmetic().skipped().unwrap(), (1, true));
        assert_eq!(trainer.arithmetic().scale().unwrap().read().unwrap(), (32768.0, 1));
        assert_eq!(&before, trainer.module().first_weight(), "{optimizer_impl:?}");
    }
}

#[test]
fn mixed_precision_computes_convolutions_in_its_type() {
    let _generator = generator();
    for precision in [Precision::Bf16, Precision::Fp16, Precision::Fp32, Precision::Fp64] {
        let settings = ImageSettings { precision, ..settings() };
        let trainer = trainer(&settings, 1);
        let [images, _] = learnable(2, 32, &settings);
        let arithmetic = trainer.arithmetic();
        let output = tch::no_grad(|| arithmetic.forward(|| trainer.module().first_convolution(&images))).unwrap();
        assert_eq!(output.kind(), arithmetic.products());
        let outside = trainer.module().first_convolution(&images).unwrap();
        assert_eq!(outside.kind(), arithmetic.weights(), "autocast must end with the pass");
    }
}

#[test]
fn evaluation_counts_every_image_and_changes_nothing() {
    let _generator = generator();
    let settings = settings();
    let mut trainer = trainer(&settings, 1);
    let [images, labels] = learnable(7, 32, &settings);
    let mut score = |parts: &[(i64, i64)]| {
        let mut totals = trainer.totals().unwrap();
        for &(start, length) in parts {
            let part = [images.narrow(0, start, length), labels.narrow(0, start, length)];
            trainer.evaluate(&part, &mut totals).unwrap();
        }
        let score = trainer.score(&totals).unwrap();
        ["test_loss", "accuracy", "test_units"].map(|key| score.iter().find(|(other, _)| *other == key).unwrap().1)
    };
    let ([loss, accuracy, images], split) = (score(&[(0, 7)]), score(&[(0, 4), (4, 3)]));
    assert_eq!((images, split[2]), (7.0, 7.0));
    assert_eq!(accuracy, split[1]);
    assert!((loss - split[0]).abs() < 1e-5, "{loss} {split:?}");
}

#[test]
fn an_error_of_libtorch_is_told_and_not_thrown() {
    let _generator = generator();
    let mut trainer = trainer(&settings(), 1);
    let [images, _] = learnable(4, 32, &settings());
    let error = trainer.step(&[images, Tensor::from_slice(&[1i64, 2])]).unwrap_err().to_string();
    assert!(error.contains("batch"), "{error}");
}
