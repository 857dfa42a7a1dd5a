//! Compares the model with transformers and PEFT (`tests/golden/llm/make.py`).
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::path::PathBuf;

use multicard::dataset::text::expected_weights;
use multicard::plan::OptimizerImpl;
use multicard::plan::llm::{Lora, LoraTargets};

use super::*;
use crate::llm::weights::Checkpoint;
use crate::shim::AdamW;
use crate::testing::generator;

fn golden_file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/llm").join(name)
}

fn golden() -> HashMap<String, Tensor> {
    Tensor::read_safetensors(golden_file("golden.safetensors")).unwrap().into_iter().collect()
}

const LORA: Lora = Lora { rank: 4, alpha: 8.0, targets: LoraTargets::QvoMlp };

fn options(lora: bool, fused: bool) -> Options {
    Options { lora: lora.then_some(LORA), fused, ..Options::default() }
}

/// A model with the golden weights, and the golden adapters if `options` has adapters.
fn llama(options: Options) -> Llama {
    let _generator = generator();
    let config = ModelConfig::read(&golden_file("config.json")).unwrap();
    let llama = Llama::new(&config, options, Device::Cpu, Kind::Float, &mut |_| Ok(())).unwrap();
    let weights = Checkpoint::open(&golden_file("model.safetensors")).unwrap();
    weights.check(&expected_weights(&config)).unwrap();
    weights.copy_to(&llama.named_weights(&Tensor::f_detach).unwrap()).unwrap();
    llama
}

fn with_adapters(options: Options) -> Llama {
    let llama = llama(options);
    let adapters = Checkpoint::open(&golden_file("adapter_model.safetensors")).unwrap();
    adapters.copy_to(&llama.named_adapters(&Tensor::f_detach).unwrap()).unwrap();
    llama
}

fn differs_by(a: &Tensor, b: &Tensor) -> f64 {
    (a - b).abs().max().double_value(&[])
}

fn batch(golden: &HashMap<String, Tensor>) -> Vec<Tensor> {
    ["tokens", "labels"].map(|name| golden[name].to_kind(Kind::Int64)).into()
}

fn loss(llama: &Llama, batch: &Vec<Tensor>) -> Tensor {
    let losses = llama.forward(batch, &Pass { train: true, ..Pass::default() }).unwrap();
    losses.sum(Kind::Float) / next(&batch[1]).unwrap().ge(0).sum(Kind::Float)
}

#[test]
fn the_same_weights_give_the_logits_of_transformers() {
    let golden = golden();
    for (llama, name) in
        [(llama(options(false, false)), "logits"), (with_adapters(options(true, false)), "lora.logits")]
    {
        let logits = tch::no_grad(|| llama.logits(&golden["tokens"].to_kind(Kind::Int64)).unwrap());
        assert!(differs_by(&logits, &golden[name]) < 2e-5, "{name}: {}", differs_by(&logits, &golden[name]));
    }
}

#[test]
fn new_adapters_leave_the_model_as_it_is() {
    let golden = golden();
    let [base, adapted] = [false, true].map(|lora| loss(&llama(options(lora, false)), &batch(&golden)));
    assert_eq!(differs_by(&base, &adapted), 0.0);
    assert!(differs_by(&base, &golden["full.loss.0"]) < 1e-5);
}

/// All combinations of options that must give the same results.
fn ways(lora: bool) -> [Options; 4] {
    [(false, false), (true, false), (false, true), (true, true)]
        .map(|(fused, checkpointing)| Options { checkpointing, ..options(lora, fused) })
}

#[test]
fn gradients_are_those_of_peft_and_of_transformers_plain_fused_and_checkpointed() {
    let golden = golden();
    for (name, lora) in [("lora", true), ("full", false)] {
        for way in ways(lora) {
            let llama = if lora { with_adapters(way) } else { llama(way) };
            let loss = loss(&llama, &batch(&golden));
            assert!(differs_by(&loss, &golden[&format!("{name}.loss.0")]) < 2e-5, "{way:?}: {loss:?}");
            loss.backward();
            let grad = |tensor: &Tensor| Ok(tensor.grad());
            let named = if lora { llama.named_adapters(&grad) } else { llama.named_weights(&grad) }.unwrap();
            let gradients = golden.keys().filter(|key| key.starts_with(&format!("{name}.gradient."))).count();
            assert_eq!(named.len(), gradients);
            for (parameter, found) in named {
                let expected = &golden[&format!("{name}.gradient.{parameter}")];
                let (difference, scale) = (differs_by(&found, expected), expected.abs().max().double_value(&[]));
                assert!(difference < 1e-5 + 1e-4 * scale, "{way:?} {parameter}: {difference} of {scale}");
            }
            if lora {
                let mut frozen = llama.units().into_iter().flatten().filter(|tensor| !tensor.requires_grad());
                assert!(frozen.all(|tensor| !tensor.grad().defined()), "frozen weights have no gradients");
            }
        }
    }
}

#[test]
fn two_updates_of_adamw_are_those_of_pytorch_in_each_implementation() {
    let golden = golden();
    for implementation in [OptimizerImpl::Fused, OptimizerImpl::Foreach, OptimizerImpl::Loop] {
        let llama = with_adapters(options(true, false));
        let mut adamw = AdamW::new(&llama.parameters(), 0.01, implementation).unwrap();
        adamw.set_learning_rate(0.01).unwrap();
        for step in 0..2 {
            let loss = loss(&llama, &batch(&golden));
            let expected = &golden[&format!("lora.loss.{step}")];
            assert!(differs_by(&loss, expected) < 5e-5, "{implementation:?} step {step}: {loss:?}");
            adamw.0.zero().unwrap();
            loss.backward();
            adamw.0.step(None).unwrap();
            if step == 0 {
                assert!(differs_by(&adamw.gradient_norm().unwrap(), &golden["lora.norm"]) < 1e-4);
            }
        }
        for (parameter, found) in llama.named_adapters(&Tensor::f_detach).unwrap() {
            // AdamW's first update is about one learning rate, whatever the gradient. Near zero, rounding decides its sign.
            let difference = (&found - &golden[&format!("lora.updated.{parameter}")]).abs().mean(Kind::Float);
            assert!(difference.double_value(&[]) < 2e-5, "{implementation:?} {parameter}: {difference:?}");
        }
        assert_eq!(adamw.0.relaid(), 0);
    }
}

#[test]
fn rows_that_share_one_have_the_losses_that_they_have_alone() {
    let llama = with_adapters(options(true, false));
    let golden = golden();
    let tokens = batch(&golden)[0].narrow(0, 0, 1);
    let [first, second] = [tokens.narrow(1, 0, 10), tokens.narrow(1, 10, 14)];
    let alone =
        |tokens: &Tensor| llama.forward(&vec![tokens.shallow_clone(), tokens.shallow_clone()], &Pass::default());
    let positions =
        Tensor::cat(&[10, 14].map(|length| Tensor::arange(length, (Kind::Int64, Device::Cpu))), 0).unsqueeze(0);
    for fused in [false, true] {
        let llama = with_adapters(options(true, fused));
        let packed = vec![tokens.shallow_clone(), tokens.shallow_clone(), positions.shallow_clone()];
        let together = llama.forward(&packed, &Pass::default()).unwrap();
        for (part, start) in [(&first, 0), (&second, 10)] {
            let length = part.size()[1] - 1;
            let (alone, together) = (alone(part).unwrap().narrow(1, 0, length), together.narrow(1, start, length));
            let difference = differs_by(&alone, &together);
            assert!(difference < 1e-4, "fused {fused}, from {start}: {difference}\n{alone}{together}");
        }
    }
}

#[test]
fn a_policy_beside_its_reference_keeps_memory_of_its_own_if_autograd_follows_it() {
    let (golden, llama) = (golden(), with_adapters(options(true, true)));
    let batch = batch(&golden);
    let hidden = || {
        let (policy, both) = llama.beside_reference(|| llama.hidden(&batch, &Pass::default())).unwrap();
        (policy, both.unwrap())
    };
    for ((policy, both), is_recorded) in [hidden(), tch::no_grad(hidden)].into_iter().zip([true, false]) {
        let rows = policy.size()[0];
        assert_eq!(both.size()[0], 2 * rows);
        assert_eq!(differs_by(&policy, &both.narrow(0, 0, rows)), 0.0);
        assert!(differs_by(&policy, &both.narrow(0, rows, rows)) > 1e-3, "the reference has no adapters");
        assert_eq!((policy.requires_grad(), both.requires_grad()), (is_recorded, false));
        assert_eq!(policy.data_ptr() != both.data_ptr(), is_recorded);
    }
}

#[test]
fn every_parameter_belongs_to_one_unit_and_each_unit_is_run_in_turn() {
    use std::sync::Mutex;

    use crate::module::UnitHooks;

    #[derive(Default)]
    struct Seen(Mutex<Vec<(usize, bool)>>);
    impl UnitHooks for Seen {
        fn before_forward(&self, unit: usize) -> Result<(), TchError> {
            self.0.lock().unwrap().push((unit, true));
            Ok(())
        }
        fn after_forward(&self, _unit: usize) -> Result<(), TchError> {
            Ok(())
        }
        fn before_backward(&self, unit: usize) -> Result<(), TchError> {
            self.0.lock().unwrap().push((unit, false));
            Ok(())
        }
        fn after_backward(&self, _unit: usize) -> Result<(), TchError> {
            Ok(())
        }
    }
    let (golden, llama) = (golden(), llama(options(false, true)));
    assert_eq!(llama.units().len(), 4);
    let weights = llama.named_weights(&Tensor::f_detach).unwrap();
    let numbers = |tensors: &[Tensor]| tensors.iter().map(|tensor| tensor.numel()).sum::<usize>();
    let all: Vec<Tensor> = llama.units().into_iter().flatten().collect();
    assert_eq!(numbers(&all), weights.iter().map(|(_, tensor)| tensor.numel()).sum::<usize>());
    let seen = Arc::new(Seen::default());
    let hooks: Arc<dyn UnitHooks> = seen.clone();
    let pass = Pass { train: true, hooks: Some(&hooks), ..Pass::default() };
    llama.forward(&batch(&golden), &pass).unwrap().sum(Kind::Float).backward();
    let order = [(0, true), (1, true), (2, true), (3, true), (3, false), (2, false), (1, false), (0, false)];
    assert_eq!(*seen.0.lock().unwrap(), order);
}
