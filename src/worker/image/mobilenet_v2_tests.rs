//! MobileNetV2 against torchvision: the numbers of `tests/oracles/mobilenet_v2.py`, which uses the same formulas.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use multicard::plan::OptimizerImpl;
use serde::Deserialize;
use tch::Reduction;

use super::*;
use crate::image::testing;
use crate::module::parameter_count;
use crate::shim::Sgd;
use crate::testing::generator;

const IMAGES: usize = 4;
const SIZE: usize = 40;

#[derive(Deserialize)]
struct Oracle {
    width: f64,
    parameters: u64,
    tensors: usize,
    first_names: Vec<String>,
    logits: Vec<Vec<f64>>,
    losses: Vec<f64>,
    gradient_norms: BTreeMap<String, f64>,
}

fn oracles() -> BTreeMap<String, Oracle> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/oracles/mobilenet_v2.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn noise(count: usize, place: usize) -> Tensor {
    let value = |index: usize| {
        let h = (index + 7919 * place + 1) as u32;
        let h = h.wrapping_mul(2_654_435_761);
        let h = (h ^ (h >> 15)).wrapping_mul(2_246_822_519);
        let h = (h ^ (h >> 13)).wrapping_mul(3_266_489_917);
        f64::from(h ^ (h >> 16)) / 2f64.powi(31) - 1.0
    };
    Tensor::from_slice(&(0..count).map(value).collect::<Vec<_>>())
}

/// The model with the formulas' weights, and its variables by name.
fn filled(width: f64, kind: Kind, channels_last: bool) -> (MobileNetV2, BTreeMap<String, Tensor>) {
    let model = MobileNetV2::new(10, width, Device::Cpu, kind, channels_last).unwrap();
    let variables: BTreeMap<_, _> = model.variables.variables().into_iter().collect();
    for (place, (name, variable)) in variables.iter().enumerate() {
        let values = noise(variable.numel(), place);
        let one_dimension = variable.dim() == 1;
        let values = if name.ends_with("running_var") {
            values * 0.5 + 1.0
        } else if name.ends_with("running_mean") {
            values * 0.1
        } else if one_dimension && name.ends_with("weight") {
            values * 0.2 + 1.0
        } else if one_dimension {
            values * 0.1
        } else {
            values * (6.0 / (variable.numel() as i64 / variable.size()[0]) as f64).sqrt()
        };
        shim::copy(variable, &values.reshape(variable.size()), false).unwrap();
    }
    (model, variables)
}

fn images(kind: Kind, channels_last: bool) -> Tensor {
    let images = noise(IMAGES * 3 * SIZE * SIZE, 1000).reshape([IMAGES as i64, 3, SIZE as i64, SIZE as i64]);
    if channels_last { testing::channels_last(&images.to_kind(kind)) } else { images.to_kind(kind) }
}

fn near(found: f64, wanted: f64, relative: f64, what: &str) {
    let error = (found - wanted).abs() / wanted.abs().max(1e-3);
    assert!(error <= relative, "{what}: {found} instead of {wanted}, off by {error:e}");
}

/// Three steps of SGD without dropout: losses, and norms of the first step's gradients.
fn train(width: f64, kind: Kind, channels_last: bool) -> (Vec<f64>, BTreeMap<String, f64>) {
    let (model, variables) = filled(width, kind, channels_last);
    let labels = Tensor::from_slice(&(0..IMAGES as i64).map(|index| index * 3 % 10).collect::<Vec<_>>());
    let mut sgd = Sgd::new(&model.parameters(), 0.0005, 0.9, OptimizerImpl::Fused).unwrap();
    let (mut losses, mut norms) = (Vec::new(), BTreeMap::new());
    for step in 0..3 {
        sgd.0.zero().unwrap();
        let pooled = model.features(&images(kind, channels_last), Norm::Batch, &Pass::default()).unwrap();
        let logits = model.classify(&pooled).unwrap();
        let loss = logits.cross_entropy_loss::<Tensor>(&labels, None, Reduction::Mean, -100, 0.0);
        loss.backward();
        if step == 0 {
            let trained = variables.iter().filter(|(_, variable)| variable.requires_grad());
            norms = trained.map(|(name, v)| (name.clone(), v.grad().norm().double_value(&[]))).collect();
        }
        sgd.0.step(None).unwrap();
        losses.push(loss.double_value(&[]));
    }
    assert_eq!(sgd.0.relaid(), 0);
    (losses, norms)
}

#[test]
fn names_and_parameters_are_torchvisions() {
    let _generator = generator();
    for oracle in oracles().values() {
        let (model, variables) = filled(oracle.width, Kind::Float, false);
        assert_eq!(parameter_count(&model), oracle.parameters);
        let names: Vec<_> = variables.into_keys().collect();
        assert_eq!(names.len(), oracle.tensors);
        assert_eq!([&names[..4], &names[names.len() - 4..]].concat(), oracle.first_names);
    }
}

#[test]
fn logits_are_torchvisions() {
    let _generator = generator();
    for oracle in oracles().values() {
        for (kind, channels_last, relative) in [
            (Kind::Double, false, 1e-9),
            (Kind::Double, true, 1e-9),
            (Kind::Float, false, 1e-4),
            (Kind::Float, true, 1e-4),
        ] {
            let (model, _) = filled(oracle.width, kind, channels_last);
            let logits = tch::no_grad(|| model.forward(&images(kind, channels_last), &Pass::default())).unwrap();
            let scale = logits.abs().max().double_value(&[]);
            for (image, wanted) in oracle.logits.iter().enumerate() {
                for (class, &wanted) in wanted.iter().enumerate() {
                    let found = logits.double_value(&[image as i64, class as i64]);
                    // Relative to the largest logit: a logit near 0 is a difference of large numbers.
                    near(
                        found + 2.0 * scale,
                        wanted + 2.0 * scale,
                        relative,
                        &format!("{kind:?} logit {image}, {class}"),
                    );
                }
            }
        }
    }
}

#[test]
fn losses_and_gradients_of_training_are_torchvisions() {
    let _generator = generator();
    for oracle in oracles().values() {
        for (kind, channels_last, relative) in [
            (Kind::Double, false, 1e-9),
            (Kind::Double, true, 1e-9),
            (Kind::Float, false, 1e-2),
            (Kind::Float, true, 1e-2),
        ] {
            let (losses, norms) = train(oracle.width, kind, channels_last);
            // Normalisation over few values makes rounding grow: in fp32 the third step has hardly a digit in common.
            let comparable = if kind == Kind::Double { 3 } else { 2 };
            for (step, (&found, &wanted)) in losses.iter().zip(&oracle.losses).take(comparable).enumerate() {
                let relative = if step == 0 { relative / 100.0 } else { relative };
                near(found, wanted, relative, &format!("{kind:?} loss of step {step}"));
            }
            for (name, &wanted) in &oracle.gradient_norms {
                near(norms[name], wanted, relative, &format!("{kind:?} gradient of {name}"));
            }
        }
    }
}

#[test]
fn initial_weights_have_torchvisions_spread() {
    let _generator = generator();
    tch::manual_seed(3);
    let model = MobileNetV2::new(10, 1.0, Device::Cpu, Kind::Float, false).unwrap();
    let variables = model.variables.variables();
    let spread = |name: &str| variables[name].std(false).double_value(&[]);
    near(spread("features.18.0.weight"), (2.0f64 / 1280.0).sqrt(), 0.01, "a pointwise convolution");
    near(spread("features.17.conv.1.0.weight"), (2.0f64 / (960.0 * 9.0)).sqrt(), 0.03, "a depthwise convolution");
    near(spread("classifier.1.weight"), 0.01, 0.02, "the classifier");
    assert_eq!(variables["features.0.1.weight"].min().double_value(&[]), 1.0);
    assert_eq!(variables["classifier.1.bias"].abs().max().double_value(&[]), 0.0);
}

#[test]
fn a_seed_gives_the_same_weights_in_every_layout() {
    let _generator = generator();
    let weights = |channels_last| {
        tch::manual_seed(5);
        let model = MobileNetV2::new(10, 0.35, Device::Cpu, Kind::Float, channels_last).unwrap();
        assert_eq!(shim::is_channels_last(model.first_weight()).unwrap(), channels_last);
        model.first_weight().contiguous()
    };
    assert_eq!(weights(false), weights(true));
}

#[test]
fn units_hold_every_parameter_once_in_the_order_of_the_variables() {
    let model = MobileNetV2::new(10, 0.35, Device::Cpu, Kind::Float, false).unwrap();
    // Stem, 17 blocks, tail, classifier.
    assert_eq!(model.units().len(), 20);
    let pointers = |tensors: Vec<Tensor>| tensors.iter().map(Tensor::data_ptr).collect::<Vec<_>>();
    assert_eq!(pointers(model.parameters()), pointers(model.variables.trainable_variables()));
}
