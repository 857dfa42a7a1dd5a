//! Compares a step of DPO with TorchTune 0.5 (`tests/golden/llm-techniques/make.py`).
#![allow(clippy::unwrap_used)]

use multicard::plan::llm::{Lora, LoraTargets};

use super::*;
use crate::llm::block::Options;
use crate::llm::testing::{Golden, compare};
use crate::module::{Module as _, Pass};
use crate::shim::cuda;
use crate::testing::generator;

const LORA: Lora = Lora { rank: 4, alpha: 8.0, targets: LoraTargets::QvoMlp };
const TRAINING: Pass = Pass { train: true, group: None, hooks: None };

/// The golden pairs. TorchTune puts all rejected rows after all chosen ones.
fn pairs(golden: &Golden) -> Vec<Tensor> {
    let order = Tensor::from_slice(&[0_i64, 2, 1, 3]);
    golden.batch().iter().map(|rows| rows.index_select(0, &order)).collect()
}

/// The losses of policy and reference by a pass of each.
fn apart(llama: &Llama, pairs: &Vec<Tensor>) -> [Tensor; 2] {
    let reference = tch::no_grad(|| llama.as_reference(|| llama.forward(pairs, &Pass::default()))).unwrap();
    [llama.forward(pairs, &TRAINING).unwrap(), reference]
}

/// The same by a joint pass.
fn joint(llama: &Llama, pairs: &Vec<Tensor>) -> [Tensor; 2] {
    let losses = llama.beside_reference(|| llama.forward(pairs, &TRAINING)).unwrap();
    each_side(&losses, &pairs[0]).unwrap()
}

#[test]
fn loss_rewards_and_gradients_are_torchtunes_plain_fused_checkpointed_and_in_a_joint_pass() {
    let golden = Golden::techniques();
    let batch = pairs(&golden);
    for (fused, checkpointing, is_joint) in
        [(false, false, false), (true, false, false), (false, true, false), (true, true, false), (true, false, true)]
    {
        let llama = golden.with_adapters(Options { lora: Some(LORA), fused, checkpointing, ..Options::default() });
        let [policy, reference] = if is_joint { joint(&llama, &batch) } else { apart(&llama, &batch) };
        let seen = preferences(&policy, &reference, 0.1).unwrap();
        for (place, name) in ["loss", "chosen", "rejected", "margin", "accuracy"].into_iter().enumerate() {
            let (found, expected) = (seen.double_value(&[place as i64]), golden.number(&format!("dpo.{name}")));
            assert!((found - expected).abs() < 2e-5, "{name}: {found} {expected}");
        }
        seen.get(0).backward();
        golden.compare_adapter_gradients("dpo", &llama);
    }
}

#[test]
fn a_joint_pass_has_the_losses_and_gradients_of_two_passes_and_its_reference_has_none() {
    let golden = Golden::techniques();
    let batch = pairs(&golden);
    for (targets, nf4) in [(LoraTargets::QvoMlp, false), (LoraTargets::Qv, false), (LoraTargets::QvoMlp, true)] {
        let lora = Some(Lora { targets, ..LORA });
        let model = || {
            let llama = golden.llama(Options { lora, nf4, fused: true, ..Options::default() });
            // B starts as zero, with which the policy is its own reference.
            tch::no_grad(|| {
                for (place, (_, mut tensor)) in llama.named_adapters(&Tensor::f_detach).unwrap().into_iter().enumerate()
                {
                    let count = tensor.numel() as i64;
                    let values = (Tensor::arange(count, (Kind::Float, Device::Cpu)) + place as f64).sin() * 0.2;
                    tensor.copy_(&values.view(&tensor.size()[..]));
                }
            });
            llama
        };
        let models = [model(), model()];
        let losses = [apart(&models[0], &batch), joint(&models[1], &batch)];
        for (side, (found, expected)) in losses[1].iter().zip(&losses[0]).enumerate() {
            compare(&format!("losses of side {side}"), found, expected);
        }
        let [policy, reference] = &losses[1];
        assert!((policy - reference).abs().max().double_value(&[]) > 1e-3, "the adapters change the policy");
        assert!(policy.requires_grad() && !reference.requires_grad());
        for [policy, reference] in &losses {
            preferences(policy, reference, 0.1).unwrap().get(0).backward();
        }
        let gradients = models.each_ref().map(|llama| llama.named_adapters(&|tensor| Ok(tensor.grad())).unwrap());
        for ((name, expected), (_, found)) in gradients[0].iter().zip(&gradients[1]) {
            assert!(expected.abs().max().double_value(&[]) > 0.0, "{name}");
            compare(name, found, expected);
        }
        let mut frozen = models[1].units().into_iter().flatten().filter(|tensor| !tensor.requires_grad());
        assert!(frozen.all(|tensor| !tensor.grad().defined()), "frozen weights have no gradients");
    }
}

#[test]
#[ignore = "needs a GPU: make test-gpu"]
fn a_joint_pass_on_a_gpu_keeps_as_much_for_the_backward_pass_as_one_of_the_policy() {
    let _generator = generator();
    cuda::open().unwrap();
    shim::llama::use_cuda_kernels().unwrap();
    let device = Device::Cuda(0);
    let config = ModelConfig { layers: 16, head_dim: 64, ..ModelConfig::tiny() };
    let options = Options { lora: Some(Lora { rank: 8, ..LORA }), fused: true, ..Options::default() };
    let llama = Llama::new(&config, options, device, Kind::BFloat16, &mut |_| Ok(())).unwrap();
    let inputs = tests::batch(device, 4, 128);
    let allocated = || {
        // New peaks start at what is allocated now.
        cuda::memory_peaks(0, true).unwrap();
        cuda::memory_peaks(0, false).unwrap().allocated_bytes as f64
    };
    let kept = |pass: &dyn Fn() -> Tensor| {
        let before = allocated();
        let losses = pass();
        let kept = allocated() - before;
        drop(losses);
        kept
    };
    let policy = || llama.forward(&inputs, &TRAINING).unwrap();
    let joint = || llama.beside_reference(policy);
    // In the first passes, products choose algorithms and get memory to work in.
    for _ in 0..8 {
        kept(&policy);
        kept(&joint);
    }
    let (alone, beside) = (kept(&policy), kept(&joint));
    // The rest are numbers per row: the norms' factors, and the inputs of B.
    assert!(alone > 0.0 && beside < 1.1 * alone, "{alone} {beside}");
}

#[test]
fn losses_of_one_side_are_not_taken_for_those_of_two() {
    let tokens = Tensor::zeros([4, 6], (Kind::Int64, Device::Cpu));
    let losses = |rows| each_side(&Tensor::zeros([rows, 6], (Kind::Float, Device::Cpu)), &tokens);
    assert!(losses(8).is_ok() && losses(4).is_err());
}

#[test]
fn a_model_that_is_its_own_reference_has_the_loss_of_a_coin() {
    let losses = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0]).view([4, 1]);
    let seen = Vec::<f32>::try_from(preferences(&losses, &losses, 0.1).unwrap()).unwrap();
    assert_eq!(seen, [2.0_f32.ln(), 0.0, 0.0, 0.0, 0.0]);
}
