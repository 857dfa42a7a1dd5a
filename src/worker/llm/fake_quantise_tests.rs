//! Compares quantisation-aware training with torchao 0.7 and TorchTune 0.5 (`tests/golden/llm-techniques/make.py`).
#![allow(clippy::unwrap_used)]

use tch::{Device, Kind, Tensor};

use super::block::{Options, Quantised};
use super::testing::{Golden, compare, differs_by};
use crate::shim::llama::{self, Adapted, Weight};
use crate::testing::generator;

const GROUP: i64 = 32;

#[test]
fn activations_weights_and_straight_through_gradients_are_torchaos_in_fp32_and_bf16() {
    let golden = Golden::techniques();
    for kind in ["float32", "bfloat16"] {
        let golden_tensor = |name: &str| golden.tensor(&format!("fake.{kind}.{name}"));
        assert_eq!(
            llama::fake_quantise(golden_tensor("tokens")).unwrap(),
            *golden_tensor("tokens.quantised"),
            "{kind}"
        );
        let trained = |name: &str| golden_tensor(name).copy().set_requires_grad(true);
        let (tokens, matrix) = (trained("tokens"), trained("weight"));
        let weight = Weight::Whole(matrix.shallow_clone());
        let layer = Adapted { weight: &weight, group: Some(GROUP), a: None, b: &[], scale: 0.0 };
        assert_eq!(llama::dense(&layer).unwrap(), *golden_tensor("weight.quantised"), "{kind}");
        let output = llama::product(&tokens, &layer).unwrap();
        output.square().sum(output.kind()).backward();
        for (name, found) in
            [("output", &output), ("tokens.gradient", &tokens.grad()), ("weight.gradient", &matrix.grad())]
        {
            let (found, expected) = (found.to_kind(Kind::Float), golden_tensor(name).to_kind(Kind::Float));
            let (difference, scale) = (differs_by(&found, &expected), expected.abs().max().double_value(&[]));
            let rounding = if kind == "float32" { 1e-5 } else { 0.02 };
            assert!(difference <= rounding * scale, "{kind} {name}: {difference} of {scale}");
        }
    }
}

#[test]
fn a_quantised_model_has_torchtunes_loss_and_gradients_plain_fused_and_checkpointed() {
    let golden = Golden::techniques();
    for (fused, checkpointing) in [(false, false), (true, false), (false, true), (true, true)] {
        let llama = golden.llama(Options { group: Some(GROUP as usize), fused, checkpointing, ..Options::default() });
        assert_eq!(llama.quantised(), Quantised { fake: 15, ..Quantised::default() }, "the output layer too");
        let loss = golden.loss(&llama);
        compare("loss", &loss, golden.tensor("qat.loss"));
        loss.backward();
        for (name, found) in llama.named_weights(&|tensor| Ok(tensor.grad())).unwrap() {
            let norm = found.norm().reshape([1]);
            // Rounding may move a code, which changes the number by a whole step of its scale.
            let (found_norm, expected) = (norm.double_value(&[0]), golden.number(&format!("qat.norm.{name}")));
            assert!((found_norm - expected).abs() < 0.01 * expected, "{name}: {found_norm} {expected}");
            let Some(expected) = golden.find(&format!("qat.gradient.{name}")) else { continue };
            let found: Tensor = found.narrow(0, 0, expected.size()[0]);
            let (difference, scale) = (differs_by(&found, expected), expected.abs().max().double_value(&[]));
            assert!(difference < 0.02 * scale, "{name}: {difference} of {scale}");
        }
    }
}

#[test]
fn layers_that_make_no_whole_groups_train_as_they_are() {
    let golden = Golden::techniques();
    let llama = golden.llama(Options { group: Some(256), ..Options::default() });
    // Only the down projections have 256 inputs.
    assert_eq!(llama.quantised().fake, 2);
}

#[test]
#[ignore = "needs a GPU: make test-gpu"]
fn fake_quantisation_on_a_gpu_gives_the_numbers_of_the_cpu() {
    crate::shim::cuda::open().unwrap();
    llama::use_cuda_kernels().unwrap();
    let _generator = generator();
    let (cpu, gpu) = (Device::Cpu, Device::Cuda(0));
    for kind in [Kind::Float, Kind::BFloat16, Kind::Half] {
        let rows = (Tensor::randn([37, 512], (Kind::Float, cpu)) + 0.3).to_kind(kind);
        let found = llama::fake_quantise(&rows.to_device(gpu)).unwrap().to_device(cpu);
        assert_eq!(found, llama::fake_quantise(&rows).unwrap(), "{kind:?} tokens");
        for group in [32, 256, 512] {
            let dense = |weight: Tensor| {
                let weight = Weight::Whole(weight);
                llama::dense(&Adapted { weight: &weight, group: Some(group), a: None, b: &[], scale: 0.0 }).unwrap()
            };
            assert_eq!(dense(rows.to_device(gpu)).to_device(cpu), dense(rows.shallow_clone()), "{kind:?} {group}");
        }
    }
}
