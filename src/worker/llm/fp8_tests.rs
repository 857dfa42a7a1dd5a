//! Compares FP8 with the definition of its format (`tests/golden/llm-techniques/fp8.py`), and with the same model in wider types.
#![allow(clippy::unwrap_used)]

use multicard::plan::llm::{Lora, LoraTargets};
use serde_json::Value;
use tch::{Device, Kind};

use super::*;
use crate::llm::block::{Options, Quantised};
use crate::llm::testing::{FP8_COSINE, Golden, cosine, differs_by, gradients};
use crate::module::{Module as _, byte_count};
use crate::shim::llama::{self, Adapted, Fp8Rows, Weight};
use crate::testing::generator;

const LORA: Lora = Lora { rank: 4, alpha: 8.0, targets: LoraTargets::QvoMlp };

/// Golden rows: their numbers in fp32, codes and scales.
fn golden() -> [Tensor; 3] {
    let text = include_str!("../../../tests/golden/llm-techniques/fp8.json");
    let rows: Vec<Value> = serde_json::from_str(text).unwrap();
    let numbers_of = |row: &Value| row.as_array().unwrap().iter().map(|one| one.as_f64().unwrap()).collect::<Vec<_>>();
    let all = |key: &str| {
        let each = rows.iter().map(|row| Tensor::from_slice(&numbers_of(&row[key])));
        Tensor::stack(&each.collect::<Vec<_>>(), 0)
    };
    let scales: Vec<f64> = rows.iter().map(|row| row["scale"].as_f64().unwrap()).collect();
    let scales = Tensor::from_slice(&scales).unsqueeze(1);
    [all("numbers").to_kind(Kind::Float), all("codes").to_kind(Kind::Uint8), scales.to_kind(Kind::Float)]
}

fn random(rows: i64, width: i64) -> Tensor {
    Tensor::randn([rows, width], (Kind::Float, Device::Cpu))
}

fn decoded(rows: &Fp8Rows) -> Tensor {
    rows.codes.view_dtype(Kind::Float8e4m3fn).to_kind(Kind::Float) * &rows.scales
}

/// The largest difference of a layer's output and of its input's gradient from the products of the decoded operands, relative to the
/// largest number.
fn products_differ_by(input: &Tensor, matrix: &Tensor) -> [f64; 2] {
    let fp8 = quantise(matrix).unwrap();
    let (rows, columns) = (decoded(&fp8.rows), decoded(&fp8.columns));
    let weight = Weight::Fp8(fp8);
    let layer = Adapted { weight: &weight, group: None, a: None, b: &[], scale: 0.0 };
    let input = input.copy().set_requires_grad(true);
    let output = llama::product(&input, &layer).unwrap();
    let gradient = output.detach().sin();
    (&output * &gradient).sum(Kind::Float).backward();
    let read = |tensor: &Tensor| decoded(&quantise_rows(&tensor.detach()).unwrap());
    let relative = |found: Tensor, expected: Tensor| {
        differs_by(&found.to_kind(Kind::Float), &expected) / expected.abs().max().double_value(&[])
    };
    [
        relative(output.detach(), read(&input).matmul(&rows.transpose(0, 1))),
        relative(input.grad(), read(&gradient).matmul(&columns.transpose(0, 1))),
    ]
}

#[test]
fn codes_and_scales_are_those_of_the_format_in_fp32_and_bf16() {
    let [numbers, codes, scales] = golden();
    for kind in [Kind::Float, Kind::BFloat16] {
        let found = quantise_rows(&numbers.to_kind(kind)).unwrap();
        assert_eq!(found.scales, scales, "{kind:?}");
        assert_eq!(found.codes, codes, "{kind:?}");
    }
}

#[test]
fn a_matrix_is_read_along_rows_and_along_columns_with_a_sixteenth_as_the_largest_error() {
    let _generator = generator();
    let matrix = random(48, 32) * 0.02;
    let Fp8 { rows, columns } = quantise(&matrix).unwrap();
    assert_eq!((rows.codes.size(), columns.codes.size()), (vec![48, 32], vec![32, 48]));
    assert_eq!((rows.scales.size(), columns.scales.size()), (vec![48, 1], vec![32, 1]));
    for (found, scales) in
        [(decoded(&rows), rows.scales), (decoded(&columns).transpose(0, 1), columns.scales.transpose(0, 1))]
    {
        // Half a step: a sixteenth of the number, or 2^-10 of the scale for the smallest numbers.
        let most = matrix.abs() / 16.0 + scales / 1024.0;
        assert!((&found - &matrix).abs().less_equal_tensor(&(most * 1.0001)).all().int64_value(&[]) == 1);
        assert!(differs_by(&found, &matrix) > 0.0);
    }
    let weight = Weight::Fp8(quantise(&matrix).unwrap());
    let layer = Adapted { weight: &weight, group: None, a: None, b: &[], scale: 0.0 };
    assert_eq!(llama::dense(&layer).unwrap(), decoded(&quantise(&matrix).unwrap().rows));
}

#[test]
fn products_multiply_what_both_operands_were_rounded_to() {
    let _generator = generator();
    for (kind, tolerance) in [(Kind::Float, 1e-5), (Kind::BFloat16, 0.005)] {
        let (input, matrix) = (random(7, 32).to_kind(kind), (random(48, 32) * 0.1).to_kind(kind));
        let found = products_differ_by(&input, &matrix);
        assert!(found.iter().all(|difference| *difference < tolerance), "{kind:?}: {found:?}");
    }
}

#[test]
fn a_checkpoint_in_fp8_has_nearly_its_loss_and_gradients_plain_fused_and_checkpointed() {
    let golden = Golden::techniques();
    let results = |options: Options| {
        let llama = golden.with_adapters(options);
        let loss = golden.loss(&llama);
        loss.backward();
        (loss.double_value(&[]), gradients(&llama), llama)
    };
    let (loss, expected, whole) = results(Options { lora: Some(LORA), ..Options::default() });
    assert_eq!(whole.quantised(), Quantised::default());
    for (fused, checkpointing) in [(false, false), (true, false), (false, true), (true, true)] {
        let options = Options { lora: Some(LORA), fp8: true, fused, checkpointing, ..Options::default() };
        let (found, in_fp8, llama) = results(options);
        assert_eq!(llama.quantised(), Quantised { fp8: 14, ..Quantised::default() });
        assert!(found != loss && (found / loss - 1.0).abs() < 0.02, "{options:?}: {found} {loss}");
        let cosine = cosine(&in_fp8, &expected);
        assert!(cosine > FP8_COSINE, "{options:?}: {cosine}");
        // Matrices twice in one byte instead of once in four; scales, norms, embedding and output layer take the rest.
        let bytes = |llama: &crate::llm::Llama| llama.units().iter().flatten().map(byte_count).sum::<u64>();
        assert!(bytes(&llama) < bytes(&whole) * 6 / 10, "{} {}", bytes(&llama), bytes(&whole));
    }
}

#[test]
#[ignore = "needs a GPU: make test-gpu"]
fn rows_quantised_on_a_gpu_have_the_codes_and_scales_of_the_cpu() {
    shim::cuda::open().unwrap();
    llama::use_cuda_kernels().unwrap();
    let _generator = generator();
    let (cpu, gpu) = (Device::Cpu, Device::Cuda(0));
    for kind in [Kind::Float, Kind::BFloat16, Kind::Half] {
        let wide = random(37, 4136).to_kind(kind);
        let mut all = vec![wide.shallow_clone(), wide.narrow(1, 8, 520), wide.narrow(0, 0, 1), wide.zeros_like()];
        if kind != Kind::Half {
            all.push(golden()[0].to_kind(kind));
        }
        for rows in all {
            // A part of each row stays a part of it on the GPU.
            let on_gpu = if rows.is_contiguous() { rows.to_device(gpu) } else { wide.to_device(gpu).narrow(1, 8, 520) };
            let (found, expected) = (quantise_rows(&on_gpu).unwrap(), quantise_rows(&rows).unwrap());
            let shape = rows.size();
            assert_eq!(found.scales.to_device(cpu), expected.scales, "{kind:?} {shape:?}");
            assert_eq!(found.codes.to_device(cpu), expected.codes, "{kind:?} {shape:?}");
        }
    }
}

#[test]
#[ignore = "needs a GPU: make test-gpu"]
fn products_in_fp8_on_a_gpu_are_those_of_what_the_operands_were_rounded_to() {
    shim::cuda::open().unwrap();
    llama::use_cuda_kernels().unwrap();
    let _generator = generator();
    let gpu = |tensor: Tensor| tensor.to_kind(Kind::BFloat16).to_device(Device::Cuda(0));
    for (rows, from, to) in [(1, 512, 384), (7, 512, 384), (240, 4096, 6144), (240, 14336, 4096)] {
        let (input, matrix) = (gpu(random(rows, from)), gpu(random(to, from) * 0.02));
        let found = products_differ_by(&input, &matrix);
        // bf16 rounds results by 2^-9, and sums of outputs have 14 bits.
        assert!(found.iter().all(|difference| *difference < 0.01), "{rows} {from} {to}: {found:?}");
    }
}
