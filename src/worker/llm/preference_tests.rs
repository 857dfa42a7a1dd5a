//! Compares a step of DPO with TorchTune 0.5 (`tests/golden/llm-techniques/make.py`).
#![allow(clippy::unwrap_used)]

use multicard::plan::llm::{Lora, LoraTargets};

use super::*;
use crate::llm::block::Options;
use crate::llm::testing::Golden;
use crate::module::{Module as _, Pass};

const LORA: Lora = Lora { rank: 4, alpha: 8.0, targets: LoraTargets::QvoMlp };

#[test]
fn loss_rewards_and_gradients_are_torchtunes_plain_fused_and_checkpointed() {
    let golden = Golden::techniques();
    // TorchTune puts all rejected rows after all chosen ones.
    let order = Tensor::from_slice(&[0_i64, 2, 1, 3]);
    let batch: Vec<Tensor> = golden.batch().iter().map(|rows| rows.index_select(0, &order)).collect();
    for (fused, checkpointing) in [(false, false), (true, false), (false, true), (true, true)] {
        let llama = golden.with_adapters(Options { lora: Some(LORA), fused, checkpointing, ..Options::default() });
        let reference = tch::no_grad(|| llama.as_reference(|| llama.forward(&batch, &Pass::default()))).unwrap();
        let policy = llama.forward(&batch, &Pass { train: true, ..Pass::default() }).unwrap();
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
fn a_model_that_is_its_own_reference_has_the_loss_of_a_coin() {
    let losses = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0]).view([4, 1]);
    let seen = Vec::<f32>::try_from(preferences(&losses, &losses, 0.1).unwrap()).unwrap();
    assert_eq!(seen, [2.0_f32.ln(), 0.0, 0.0, 0.0, 0.0]);
}
