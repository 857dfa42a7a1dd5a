//! Compares NF4 and QLoRA with torchao 0.7 and TorchTune 0.5 (`tests/golden/llm-techniques/make.py`).
#![allow(clippy::unwrap_used)]

use multicard::plan::llm::{Lora, LoraTargets};
use tch::Device;

use super::*;
use crate::llm::block::{Options, Quantised};
use crate::llm::testing::{Golden, compare, differs_by};
use crate::module::{Module as _, Pass};
use crate::shim::llama::{Adapted, Weight, dense};
use crate::testing::generator;

const LORA: Lora = Lora { rank: 4, alpha: 8.0, targets: LoraTargets::QvoMlp };

fn read(nf4: Vec<Nf4>) -> Tensor {
    dense(&Adapted { weight: &Weight::Nf4(nf4), group: None, a: None, b: &[], scale: 0.0 }).unwrap()
}

#[test]
fn codes_scales_and_round_trip_are_torchaos_in_fp32_and_bf16() {
    let golden = Golden::techniques();
    for kind in ["float32", "bfloat16"] {
        let expected = |name: &str| golden.tensor(&format!("nf4.{kind}.{name}"));
        let found = quantise(expected("weight")).unwrap();
        for (name, found) in [("codes", &found.codes), ("scales", &found.scales)] {
            assert_eq!(found.to_kind(Kind::Int), *expected(name), "{kind} {name}");
        }
        assert_eq!((&found.factors, &found.mean), (expected("factors"), expected("mean")), "{kind}");
        assert_eq!(read(vec![found]), *expected("round_trip"), "{kind}");
    }
}

#[test]
fn projections_one_below_the_other_are_read_as_each_alone_zeros_and_short_blocks_included() {
    let _generator = generator();
    let sizes = [(6, 64), (128, 256), (3, 64)];
    let weights = sizes.map(|(out, from)| Tensor::randn([out, from], (Kind::Float, Device::Cpu)) * 0.02);
    for weight in &weights {
        let alone = read(vec![quantise(weight).unwrap()]);
        // Half the widest gap between levels, 0.30 of a block's largest number, plus the error of the scale.
        let limit = 0.18 * weight.abs().max().double_value(&[]);
        assert!(differs_by(&alone, weight) < limit, "{} {limit}", differs_by(&alone, weight));
    }
    let [first, _, last] = &weights;
    let both = read(vec![quantise(first).unwrap(), quantise(last).unwrap()]);
    for (part, start) in [(first, 0), (last, 6)] {
        assert_eq!(both.narrow(0, start, part.size()[0]), read(vec![quantise(part).unwrap()]));
    }
    let zeros = quantise(&Tensor::zeros([4, 64], (Kind::Float, Device::Cpu))).unwrap();
    assert_eq!(read(vec![zeros]).abs().max().double_value(&[]), 0.0);
}

#[test]
fn a_model_in_nf4_has_torchtunes_loss_and_gradients_plain_fused_and_checkpointed() {
    let golden = Golden::techniques();
    for (fused, checkpointing) in [(false, false), (true, false), (false, true), (true, true)] {
        let llama =
            golden.with_adapters(Options { lora: Some(LORA), nf4: true, fused, checkpointing, ..Options::default() });
        assert_eq!(llama.quantised(), Quantised { nf4: 14, ..Quantised::default() });
        let loss = golden.loss(&llama);
        compare("loss", &loss, golden.tensor("qlora.loss"));
        loss.backward();
        golden.compare_adapter_gradients("qlora", &llama);
        let frozen: i64 = llama
            .units()
            .iter()
            .flatten()
            .filter(|t| !t.requires_grad())
            .map(|t| t.numel() as i64 * t.kind().elt_size_in_bytes() as i64)
            .sum();
        // 330,000 numbers in matrices at 4.127 bits each, plus embedding and output layer in fp32.
        assert!(frozen < 330_000, "{frozen} bytes of frozen weights");
        let _ = llama.forward(&golden.batch(), &Pass::default()).unwrap();
    }
}

#[test]
#[ignore = "needs a GPU: make test-gpu"]
fn matrices_on_a_gpu_are_quantised_and_read_as_on_the_cpu() {
    shim::cuda::open().unwrap();
    shim::llama::use_cuda_kernels().unwrap();
    let _generator = generator();
    let gpu = Device::Cuda(0);
    for kind in [Kind::Float, Kind::BFloat16, Kind::Half] {
        let weight = (Tensor::randn([96, 512], (Kind::Float, Device::Cpu)) * 0.02).to_kind(kind);
        let quantised = quantise(&weight).unwrap();
        let [codes, scales, factors, mean, levels] =
            [&quantised.codes, &quantised.scales, &quantised.factors, &quantised.mean, &quantised.levels]
                .map(|tensor| tensor.to_device(gpu));
        let found = read(vec![Nf4 { codes, scales, factors, mean, levels, out: quantised.out }]).to_device(Device::Cpu);
        assert_eq!(found, read(vec![quantised]), "{kind:?}");
        let on_gpu = quantise(&weight.to_device(gpu)).unwrap();
        // The mean is summed in a different order.
        let (on_gpu, here) = (read(vec![on_gpu]).to_device(Device::Cpu), found);
        assert!(differs_by(&on_gpu, &here) < 0.02 * here.abs().max().double_value(&[]), "{kind:?}");
    }
}
