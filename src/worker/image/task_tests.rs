//! Jobs that do not fit the image workload and are rejected with a reason; fused steps against plain ones.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::Ordering;

use multicard::plan::image::DataSet;
use multicard::plan::{CUDA_GRAPH_WARM_UP_STEPS, Level, Shape};

use super::testing::job;
use super::*;
use crate::shim::{cuda, kept_plans};
use crate::testing::generator;

fn refusal(job: &Job) -> String {
    Image::new(job).err().unwrap()
}

#[test]
fn levels_that_contradict_the_shape_or_mean_nothing_are_refused() {
    let other = Job { shape: Shape::default(), ..job(&[("gpus", Level::Integer(2))], 1) };
    assert!(refusal(&other).contains("its levels come to"));
    assert!(refusal(&job(&[("batch_size", Level::Integer(0))], 1)).contains("batch_size must be at least 1"));
    assert!(refusal(&job(&[("layout", Level::text("chwn"))], 1)).contains("layout = chwn"));
}

#[test]
fn every_strategy_but_single_spreads_over_several_gpus() {
    let two = |strategy: &'static str| [("strategy", Level::text(strategy)), ("gpus", Level::Integer(2))];
    for (strategy, ranks) in [("ddp-ds", 2), ("ddp-rr", 2), ("ddp", 2), ("dp", 1)] {
        assert!(Image::new(&job(&two(strategy), ranks)).is_ok(), "{strategy}");
    }
    assert!(refusal(&job(&two("single"), 2)).contains("strategy = single has one rank, not 2"));
}

#[test]
fn each_update_rule_moves_weights_as_it_is_defined() {
    for implementation in ["fused", "foreach", "loop"] {
        // The first update of Adam is the learning rate against the gradient's sign, whatever its size.
        for (rule, moved) in [("sgd", [0.2, -0.02]), ("adam", [0.1, -0.1]), ("adamw", [0.1 + 0.001, -0.1 + 0.001])] {
            let levels = [
                ("optimizer", Level::text(rule)),
                ("optimizer_impl", Level::text(implementation)),
                ("learning_rate", Level::Number(0.1)),
            ];
            let task = Image::new(&job(&levels, 1)).unwrap();
            let weight = Tensor::from_slice(&[1.0_f64, 1.0]).set_requires_grad(true);
            let mut optimizer = task.optimizer(&[weight.shallow_clone()]).unwrap();
            optimizer.zero().unwrap();
            (&weight * Tensor::from_slice(&[2.0, -0.2])).sum(Kind::Double).backward();
            optimizer.step(None).unwrap();
            let found = Vec::<f64>::try_from(weight.detach()).unwrap();
            for (found, moved) in found.into_iter().zip(moved) {
                assert!((found - (1.0 - moved)).abs() < 1e-6, "{rule} {implementation}: {found}");
            }
        }
    }
}

#[test]
fn a_scenario_needs_its_kind_of_set() {
    let b = [("scenario", Level::text("b"))];
    assert!(refusal(&job(&b, 1)).contains("scenario = b does not fit data.set = digits"));
    let files = Job { data: DataSet::files("photos").into(), ..job(&[], 1) };
    assert!(refusal(&files).contains("scenario = a does not fit data.set = folder"));
    let files = Job { data: DataSet::files("photos").into(), ..job(&b, 1) };
    assert!(Image::new(&files).is_ok());
}

#[test]
fn a_set_with_more_classes_than_digits_gets_as_many_outputs() {
    let folder = tempfile::tempdir().unwrap();
    let levels = [("scenario", Level::text("b")), ("width_multiplier", Level::Number(0.35))];
    for (classes, outputs) in [(3, 10), (12, 12)] {
        for class in 0..classes {
            std::fs::create_dir_all(folder.path().join(format!("train/{class}"))).unwrap();
        }
        let data = DataSet::files(folder.path().display().to_string()).into();
        let task = Image::new(&Job { data, data_folder: folder.path().into(), ..job(&levels, 1) }).unwrap();
        let network = task.module(Device::Cpu, Kind::Float, &mut |_| Ok(())).unwrap();
        let bias = network.parameters().pop().unwrap();
        assert_eq!(bias.size(), [outputs], "{classes} classes");
    }
}

#[test]
fn inference_computes_the_loss_of_an_evaluation_and_leaves_weights_and_statistics_as_they_are() {
    let _generator = generator();
    let settings = ImageSettings { passes: Passes::Inference, ..testing::settings() };
    let mut trainer = Trainer::new(Image::with(settings), &[Device::Cpu], None, 1, false).unwrap();
    let inputs = batch(Device::Cpu);
    let values = |trainer: &Trainer<Image>| {
        let module = trainer.module();
        module.parameters().iter().chain(&module.buffers()).map(Tensor::copy).collect::<Vec<_>>()
    };
    let before = values(&trainer);
    let losses = [0, 1].map(|_| trainer.step(&inputs).unwrap().double_value(&[]));
    assert_eq!(values(&trainer), before);
    let mut totals = trainer.totals().unwrap();
    trainer.evaluate(&inputs, &mut totals).unwrap();
    let (_, evaluated) = trainer.score(&totals).unwrap()[0];
    assert_eq!(losses[0], losses[1]);
    assert!((losses[0] - evaluated).abs() < 1e-5 * evaluated, "{losses:?} {evaluated}");
    assert_eq!(trainer.held()[2..], [("gradients", 0), ("optimizer", 0)]);
    assert!(crate::proof::passes(Passes::Inference, &trainer).unwrap().in_effect);
    // The passes of a step are the forward pass alone.
    let trained = Trainer::new(Image::with(testing::settings()), &[Device::Cpu], None, 1, false).unwrap();
    let [infers, trains] = [&trainer, &trained].map(|trainer| trainer.work(&inputs));
    assert!(trains.flop > 2.8 * infers.flop && trains.flop < 3.0 * infers.flop, "{trains:?} {infers:?}");
}

#[test]
fn only_steps_that_use_cudnn_have_it_try_its_algorithms() {
    let tried = |kernels, deterministic| {
        flags(&ImageSettings { kernels, deterministic, cudnn_benchmark: CudnnBenchmark::On, ..testing::settings() })
            .cudnn_benchmark
    };
    assert!(tried(Kernels::Plain, false));
    assert!(!tried(Kernels::Plain, true));
    assert!(!tried(Kernels::Fused, false));
}

/// A batch of 32 images of 100 px, channels last.
fn batch(device: Device) -> [Tensor; 2] {
    let labels = Tensor::arange(32, (Kind::Int64, device)).remainder(10);
    let columns = Tensor::arange(100, (Kind::Float, device)) * 0.1;
    let rows = columns.unsqueeze(1) + labels.to_kind(Kind::Float).reshape([32, 1, 1, 1]);
    let images = (rows * columns.reshape([1, 1, 1, 100]) * 0.3).sin().expand([32, 3, 100, 100], false);
    [testing::channels_last(&images), labels]
}

/// Losses of `steps` on one batch in which nothing is dropped out, and the trainer afterwards.
fn losses(settings: &ImageSettings, steps: usize) -> (Vec<f64>, Trainer<Image>) {
    let device = Device::Cuda(0);
    // Convolutions take TF32 unless told otherwise, and a fresh network's gradients drown in its rounding.
    flags(settings).set().unwrap();
    frozen::DROPOUT.store(true, Ordering::Relaxed);
    let mut trainer = Trainer::new(Image::with(settings.clone()), &[device], None, 1, settings.cuda_graph).unwrap();
    let inputs = batch(device);
    let losses = (0..steps).map(|_| trainer.step(&inputs).unwrap().double_value(&[])).collect();
    frozen::DROPOUT.store(false, Ordering::Relaxed);
    (losses, trainer)
}

/// The gradients of the first step in which none overflows. Updates before it are skipped, so that they are the first weights'.
fn first_gradients(settings: &ImageSettings) -> Vec<Tensor> {
    let finite = |steps| {
        let (_, trainer) = losses(settings, steps);
        let scale = trainer.arithmetic().scale().map_or(1.0, |scale| scale.read().unwrap().0);
        let grads: Vec<_> = trainer.module().parameters().iter().map(|p| p.grad() / scale).collect();
        grads.iter().all(|grad| grad.norm().double_value(&[]).is_finite()).then_some(grads)
    };
    (1..=17).find_map(finite).expect("no gradient overflows at a loss scale of 1")
}

fn cell(precision: Precision, kernels: Kernels) -> ImageSettings {
    let layout = Layout::Nhwc;
    ImageSettings { precision, kernels, layout, width_multiplier: 1.0, image_size: 100, ..testing::settings() }
}

fn norm(tensor: &Tensor) -> f64 {
    tensor.norm().double_value(&[])
}

/// Over parameters, the median of relative errors of their gradients.
fn median_error(gradients: &[Tensor], reference: &[Tensor]) -> f64 {
    let errors = reference.iter().zip(gradients).map(|(a, b)| norm(&(a - b)) / norm(a).max(1e-3));
    let mut errors: Vec<_> = errors.collect();
    errors.sort_by(f64::total_cmp);
    errors[errors.len() / 2]
}

#[test]
#[ignore = "needs a GPU: make test-gpu"]
fn fused_steps_on_a_gpu_make_the_gradients_of_plain_ones() {
    let _generator = generator();
    cuda::open().unwrap();
    let mut strict: Option<Vec<Tensor>> = None;
    for (precision, tolerance) in [(Precision::Fp32, 1e-4), (Precision::Bf16, 2e-2), (Precision::Fp16, 1e-2)] {
        let [plain, fused] = [Kernels::Plain, Kernels::Fused].map(|kernels| {
            let (losses, trainer) = losses(&cell(precision, kernels), 1);
            (losses[0], first_gradients(&cell(precision, kernels)), trainer.module().buffers())
        });
        println!("{precision:?}: {} {}", plain.0, fused.0);
        assert!((plain.0 - fused.0).abs() < tolerance * plain.0, "{} {}", plain.0, fused.0);
        let strict = strict.get_or_insert_with(|| plain.1.iter().map(Tensor::copy).collect());
        let (of_plain, of_fused) = (median_error(&plain.1, strict), median_error(&fused.1, strict));
        println!("errors of gradients against strict fp32's: plain {of_plain:.2e}, fused {of_fused:.2e}");
        // A fresh network's gradients change sign with half a precision's rounding, with plain kernels as with fused ones.
        let allowed = if precision == Precision::Fp32 { 3e-2 } else { 1.25 * of_plain };
        assert!(of_fused < allowed, "{precision:?}: {of_plain} {of_fused}");
        // The mean of a thousand channels, whose values around 0 were rounded, differs by the sum of their errors.
        for (a, b) in plain.2.iter().zip(&fused.2) {
            let allowed = 0.05 * norm(a) + 1e-4 * (a.numel() as f64).sqrt();
            assert!(norm(&(a - b)) < allowed, "{precision:?}: running statistics {a} {b}");
        }
    }
}

#[test]
#[ignore = "needs a GPU: make test-gpu"]
fn fused_steps_on_a_gpu_train_as_plain_ones_eager_and_replayed() {
    let _generator = generator();
    cuda::open().unwrap();
    for precision in [Precision::Fp32, Precision::Bf16, Precision::Fp16] {
        let plain = losses(&cell(precision, Kernels::Plain), 60).0;
        let eager = losses(&cell(precision, Kernels::Fused), 60).0;
        let (replayed, trainer) = losses(&ImageSettings { cuda_graph: true, ..cell(precision, Kernels::Fused) }, 60);
        assert_eq!(trainer.replays().steps, 60 - CUDA_GRAPH_WARM_UP_STEPS + 1);
        assert_eq!(trainer.optimizer().relaid(), 0);
        for (name, seen) in [("plain", &plain), ("eager", &eager), ("replayed", &replayed)] {
            println!("{precision:?} {name}: {:.3?}", seen.iter().step_by(10).collect::<Vec<_>>());
            assert!(seen[59] < 0.5 * seen[0], "{precision:?} {name}: {seen:?}");
        }
    }
}

#[test]
#[ignore = "needs a GPU: make test-gpu"]
fn kept_plans_on_a_gpu_compute_what_cudnn_computes_without_them() {
    let _generator = generator();
    cuda::open().unwrap();
    let cell = |precision, layout, tf32| ImageSettings { layout, tf32, ..cell(precision, Kernels::Plain) };
    let cells = [
        (cell(Precision::Fp32, Layout::Nhwc, Tf32::Off), 1e-2),
        (cell(Precision::Fp32, Layout::Nchw, Tf32::Conv), 0.0),
        (cell(Precision::Bf16, Layout::Nhwc, Tf32::Off), 0.0),
        (cell(Precision::Fp16, Layout::Nhwc, Tf32::Off), 0.0),
    ];
    let first = |settings: &ImageSettings| (losses(settings, 1).0[0], first_gradients(settings));
    let mut strict: Option<Vec<Tensor>> = None;
    let asked = |settings: &ImageSettings, asked| ImageSettings { cudnn_benchmark: asked, ..settings.clone() };
    // Once plans are kept, this process has no others.
    let without: Vec<_> = cells.iter().map(|(settings, _)| first(&asked(settings, CudnnBenchmark::Off))).collect();
    for ((settings, least), (loss, gradients)) in cells.iter().zip(without) {
        let (of_kept, kept) = first(&asked(settings, CudnnBenchmark::Kept));
        let strict = strict.get_or_insert_with(|| gradients.iter().map(Tensor::copy).collect());
        let [before, after] = [&gradients, &kept].map(|all| median_error(all, strict));
        println!(
            "{settings:?}: losses {loss} {of_kept}, errors of gradients against strict fp32's {before:.2e} {after:.2e}"
        );
        assert!((loss - of_kept).abs() < 1e-2 * loss, "{settings:?}");
        assert!(after < (1.25 * before).max(*least), "{settings:?}");
    }
    let plans = kept_plans().unwrap();
    println!("{plans:?}");
    assert!(plans.replayed + plans.found > 300 && plans.problem.is_none());
}
