//! Trains small models with the real trainer.
#![allow(clippy::unwrap_used)]

use multicard::plan::{CUDA_GRAPH_WARM_UP_STEPS, Level, llm};

use super::testing::{FP8_COSINE, cosine, gradients};
use super::*;
use crate::module::{Module, Pass};
use crate::parallel::Peers;
use crate::shim::cuda;
use crate::testing::generator;

/// A trainer of the model `tiny`, with default levels except `changed`.
fn trainer(device: Device, changed: &[(&str, &str)]) -> Trainer<Llm> {
    let trainer = trainer_beside(None, device, changed);
    // B starts as zero, which would hide A.
    tch::no_grad(|| {
        tch::manual_seed(5);
        for (name, mut tensor) in trainer.module().named_adapters(&Tensor::f_detach).unwrap() {
            if name.contains("lora_B") {
                let noise = Tensor::randn(tensor.size(), (Kind::Float, Device::Cpu)) * 0.05;
                tensor.copy_(&noise);
            }
        }
    });
    trainer
}

/// The same beside other ranks, with adapters in their initial state.
pub fn trainer_beside(peers: Option<&Rc<Peers>>, device: Device, changed: &[(&str, &str)]) -> Trainer<Llm> {
    let level = |text: &str| {
        let number = || text.parse().ok().map(Level::Number);
        text.parse().ok().map(Level::Integer).or_else(number).unwrap_or_else(|| Level::text(text))
    };
    let mut levels = vec![("model", Level::text("tiny")), ("warmup_steps", Level::Integer(0))];
    levels.extend([("learning_rate", Level::Number(0.002))]);
    for (key, text) in changed {
        levels.retain(|(known, _)| known != key);
        levels.push((*key, level(text)));
    }
    let settings = LlmSettings::from_levels(&llm::spec().levels(&levels)).unwrap();
    let cuda_graph = settings.cuda_graph;
    let mut config = ModelConfig::tiny();
    if device.is_cuda() {
        // As in published models. Narrower heads use another rotary kernel.
        config.head_dim = 64;
    }
    let task = Llm { config, checkpoint: None, rows: Arc::default(), steps: Rc::new(Cell::new(1_000_000)), settings };
    Trainer::new(task, &[device], peers, 1, cuda_graph).unwrap()
}

/// Rows that differ from each other, the first with a masked prompt.
pub fn batch(device: Device, rows: i64, length: i64) -> Vec<Tensor> {
    let places = Tensor::arange(rows * length, (Kind::Int64, device)).view([rows, length]);
    let tokens = (&places * &places * 7 + &places * 13).remainder(1000);
    let labels = tokens.copy();
    let _ = labels.narrow(0, 0, 1).narrow(1, 0, 5).fill_(IGNORED_LABEL);
    vec![tokens, labels]
}

/// Loss, learning rate and gradient norm of each step, cycling through the batches.
fn train(trainer: &mut Trainer<Llm>, batches: &[Vec<Tensor>], steps: usize) -> Vec<[f64; 3]> {
    let step = |index: usize| {
        let seen = trainer.step(&batches[index % batches.len()]).unwrap();
        let seen = Vec::<f64>::try_from(&seen.to_kind(Kind::Double)).unwrap();
        [seen[0], seen[seen.len() - 2], seen[seen.len() - 1]]
    };
    (0..steps).map(step).collect()
}

#[test]
fn a_small_model_learns_its_rows_with_adapters_and_with_all_weights() {
    let _generator = generator();
    let batches = [batch(Device::Cpu, 2, 24)];
    for changed in [
        &[("technique", "full")][..],
        &[("learning_rate", "0.02")],
        &[("precision", "bf16"), ("learning_rate", "0.02")],
        &[("precision", "fp8"), ("learning_rate", "0.02")],
        &[("precision", "fp8"), ("learning_rate", "0.02"), ("kernels", "fused")],
        &[("technique", "qlora"), ("learning_rate", "0.02")],
        &[("technique", "qat"), ("qat_group", "32")],
    ] {
        let mut trainer = trainer(Device::Cpu, changed);
        let seen = train(&mut trainer, &batches, 25);
        let (first, last) = (seen[0][0], seen[24][0]);
        assert!((5.0..9.0).contains(&first) && last < 0.95 * first, "{changed:?}: {first} {last}");
        assert!(seen.iter().all(|[_, rate, norm]| *rate > 0.0 && *norm > 0.0), "{seen:?}");
    }
}

/// Loss of a step from the first weights, and its gradients.
fn first_step(device: Device, changed: &[(&str, &str)]) -> (f64, Tensor) {
    let mut trainer = trainer(device, changed);
    let seen = train(&mut trainer, &[batch(device, 2, 24)], 1);
    (seen[0][0], gradients(trainer.module()))
}

#[test]
fn a_step_in_fp8_has_nearly_the_loss_and_the_gradients_of_one_in_bf16() {
    let _generator = generator();
    let (loss, expected) = first_step(Device::Cpu, &[("precision", "bf16")]);
    for changed in [&[("kernels", "plain")][..], &[("kernels", "fused")], &[("activation_checkpointing", "on")]] {
        let (found, in_fp8) = first_step(Device::Cpu, &[changed, &[("precision", "fp8")]].concat());
        assert!(found != loss && (found / loss - 1.0).abs() < 0.02, "{changed:?}: {found} {loss}");
        let cosine = cosine(&in_fp8, &expected);
        assert!(cosine > FP8_COSINE, "{changed:?}: {cosine}");
    }
}

#[test]
fn fp8_is_proven_by_the_matrices_that_are_stored_in_it() {
    let _generator = generator();
    let [fp8, bf16] = ["fp8", "bf16"].map(|precision| trainer(Device::Cpu, &[("precision", precision)]));
    let evidence = proof::precision(Precision::Fp8, &fp8);
    assert!(evidence.in_effect && evidence.seen.contains("28 matrices of blocks in FP8"), "{evidence:?}");
    assert!(proof::precision(Precision::Bf16, &bf16).in_effect);
    assert!(!proof::precision(Precision::Fp8, &bf16).in_effect);
    assert!(!proof::precision(Precision::Bf16, &fp8).in_effect);
}

#[test]
fn what_lives_between_steps_is_known_by_kind() {
    let _generator = generator();
    let mut trainer = trainer(Device::Cpu, &[]);
    let config = ModelConfig::tiny();
    let (weights, adapters) =
        (config.parameters() * 4, trainer.module().parameters().iter().map(Tensor::numel).sum::<usize>() as u64 * 4);
    let begun =
        [("frozen weights", weights), ("trained weights", adapters), ("gradients", 0), ("optimizer", 2 * adapters + 4)];
    assert_eq!(trainer.held(), begun);
    train(&mut trainer, &[batch(Device::Cpu, 2, 24)], 1);
    assert_eq!(trainer.held()[2], ("gradients", adapters));
}

#[test]
fn micro_batches_add_up_to_the_batch() {
    let _generator = generator();
    let batches = [batch(Device::Cpu, 4, 16)];
    let [whole, parts] = ["1", "2"].map(|parts| {
        let mut trainer = trainer(Device::Cpu, &[("gradient_accumulation", parts)]);
        train(&mut trainer, &batches, 3)
    });
    for (whole, parts) in whole.iter().flatten().zip(parts.iter().flatten()) {
        assert!((whole - parts).abs() < 1e-4 * whole.abs(), "{whole} {parts}");
    }
}

#[test]
fn preferences_of_all_weights_are_learned_against_a_frozen_copy_of_the_first_ones() {
    let _generator = generator();
    let batches = [batch(Device::Cpu, 4, 16)];
    let mut trainer = trainer(Device::Cpu, &[("technique", "dpo-full")]);
    let weights = ModelConfig::tiny().parameters() * 4;
    assert_eq!(trainer.held()[..2], [("frozen weights", weights), ("trained weights", weights)]);
    let reference = |trainer: &Trainer<Llm>| {
        let llama = trainer.module();
        tch::no_grad(|| llama.as_reference(|| llama.forward(&batches[0], &Pass::default()))).unwrap()
    };
    let first = reference(&trainer);
    let seen = train(&mut trainer, &batches, 10);
    // The policy starts as its own reference, whose loss is a coin's, and moves away from it.
    assert!((seen[0][0] - 2.0_f64.ln()).abs() < 1e-6 && seen[9][0] < 0.5, "{seen:?}");
    assert_eq!(reference(&trainer), first);
    assert!(crate::proof::passes(Passes::Training, &trainer).unwrap().in_effect);
}

#[test]
fn inference_computes_the_loss_of_a_step_for_each_technique_and_trains_nothing() {
    let _generator = generator();
    let inputs = batch(Device::Cpu, 4, 16);
    for technique in ["lora", "qlora", "dpo", "full", "dpo-full"] {
        for parts in ["1", "2"] {
            let levels = [("technique", technique), ("gradient_accumulation", parts)];
            let mut infers = trainer(Device::Cpu, &[&levels[..], &[("passes", "inference")]].concat());
            let mut trains = trainer(Device::Cpu, &levels);
            let loss = |trainer: &mut Trainer<Llm>| trainer.step(&inputs).unwrap().flatten(0, -1).double_value(&[0]);
            let (first, expected) = (loss(&mut infers), loss(&mut trains));
            assert!((first - expected).abs() < 1e-5, "{technique}: {first} {expected}");
            assert_eq!(loss(&mut infers), first, "{technique}: nothing was trained");
            assert!(crate::proof::passes(Passes::Inference, &infers).unwrap().in_effect);
            assert!(!crate::proof::passes(Passes::Inference, &trains).unwrap().in_effect);
        }
    }
}

#[test]
fn preferences_are_learned_as_a_whole_and_in_micro_batches() {
    let _generator = generator();
    let batches = [batch(Device::Cpu, 8, 16)];
    let [whole, parts] = ["1", "2"].map(|parts| {
        let changed = [("technique", "dpo"), ("gradient_accumulation", parts), ("learning_rate", "0.01")];
        let mut trainer = trainer(Device::Cpu, &changed);
        assert_eq!(trainer.measures()[..4], *PREFERENCE_MEASURES);
        let step = |_| Vec::<f64>::try_from(trainer.step(&batches[0]).unwrap().to_kind(Kind::Double)).unwrap();
        (0..12).map(step).collect::<Vec<_>>()
    });
    for (whole, parts) in whole.iter().flatten().zip(parts.iter().flatten()) {
        assert!((whole - parts).abs() < 1e-3 * whole.abs().max(0.1), "{whole} {parts}");
    }
    let (first, last) = (&whole[0], &whole[11]);
    // Loss, rewards, margin and accuracy; learning rate and gradient norm.
    assert_eq!(first.len(), 7);
    assert!((first[1] - first[2] - first[3]).abs() < 1e-5, "{first:?}");
    assert!(last[0] < 0.8 * first[0] && last[3] > first[3] + 0.3 && last[4] == 1.0, "{first:?} {last:?}");
}

#[test]
fn joint_passes_take_the_steps_of_passes_apart_and_evaluate_alike() {
    let _generator = generator();
    // Micro-batches of 96 tokens, and of more than are joined.
    for (length, is_joint) in [(24, true), (164, false)] {
        let inputs = batch(Device::Cpu, 8, length);
        let [plain, fused] = ["plain", "fused"].map(|kernels| {
            let changed = [("technique", "dpo"), ("kernels", kernels), ("gradient_accumulation", "2")];
            let mut trainer = trainer(Device::Cpu, &changed);
            let settings = &trainer.task().settings;
            let joins = settings.joins_reference(trainer.task().micro_batch(&inputs));
            assert_eq!(joins, is_joint && kernels == "fused", "{kernels} {length}");
            let work = trainer.work(&inputs);
            let step = |_| Vec::<f64>::try_from(trainer.step(&inputs).unwrap().to_kind(Kind::Double)).unwrap();
            let mut seen: Vec<f64> = (0..3).flat_map(step).collect();
            let mut totals = trainer.totals().unwrap();
            trainer.evaluate(&inputs, &mut totals).unwrap();
            seen.push(trainer.score(&totals).unwrap()[0].1);
            (seen, work)
        });
        for (plain, fused) in plain.0.iter().zip(&fused.0) {
            assert!((plain - fused).abs() < 1e-3 * plain.abs().max(0.1), "{length}: {plain} {fused}");
        }
        assert_eq!(plain.1.flop, fused.1.flop);
        assert_eq!(plain.1.bytes > fused.1.bytes, is_joint, "a joint pass reads weights once for both");
    }
}

#[test]
#[ignore = "needs a GPU: make test-gpu"]
fn fused_steps_on_a_gpu_have_the_losses_and_gradients_of_plain_ones_in_every_precision() {
    let _generator = generator();
    cuda::open().unwrap();
    let device = Device::Cuda(0);
    let inputs = batch(device, 4, 70);
    // Relative to a tensor's largest value: rounding of the type, over four blocks.
    for (precision, tolerance) in [("fp32", 2e-4), ("bf16", 0.06), ("fp16", 0.01)] {
        for changed in [
            &[("technique", "lora")][..],
            &[("lora_targets", "qv")],
            &[("technique", "full")],
            &[("lora_rank", "4")],
            &[("lora_rank", "16")],
            &[("lora_targets", "qkvo")],
            &[("lora_targets", "qkvo-mlp"), ("lora_rank", "16")],
            &[("activation_checkpointing", "on"), ("gradient_accumulation", "2")],
            &[("technique", "dpo")],
            &[("technique", "qlora")],
            &[("technique", "qat"), ("qat_group", "64")],
        ] {
            let quantised = changed[0].1 == "qat";
            if precision == "fp16" && (quantised || changed[0].1 == "full") {
                continue;
            }
            // Rounding may move a number to the next 8-bit code, an error of one step of that code.
            let tolerance = if quantised { 2.5 * f64::max(tolerance, 0.01) } else { tolerance };
            let [plain, fused] = ["plain", "fused"].map(|kernels| {
                let changed = [changed, &[("precision", precision), ("kernels", kernels)]].concat();
                let mut trainer = trainer(device, &changed);
                let seen = train(&mut trainer, &[inputs.iter().map(Tensor::shallow_clone).collect()], 1)[0];
                let grads =
                    trainer.module().parameters().iter().map(|p| p.grad().to_kind(Kind::Float)).collect::<Vec<_>>();
                (seen, grads)
            });
            println!("{precision} {changed:?}: {:?} {:?}", plain.0, fused.0);
            assert!((plain.0[0] - fused.0[0]).abs() < tolerance * plain.0[0], "{:?} {:?}", plain.0, fused.0);
            for (index, (plain, fused)) in plain.1.iter().zip(&fused.1).enumerate() {
                let scale = plain.abs().max().double_value(&[]);
                let difference = (plain - fused).abs().max().double_value(&[]);
                assert!(difference <= tolerance * scale, "{precision} {changed:?} {index}: {difference} of {scale}");
            }
        }
    }
}

#[test]
#[ignore = "needs a GPU: make test-gpu"]
fn replays_on_a_gpu_of_joint_passes_have_the_losses_and_gradients_of_eager_ones() {
    let _generator = generator();
    cuda::open().unwrap();
    let device = Device::Cuda(0);
    let batches = [48, 64].map(|length| batch(device, 8, length));
    let [eager, replayed] = ["off", "on"].map(|cuda_graph| {
        let joint = [("technique", "dpo"), ("kernels", "fused"), ("gradient_accumulation", "2")];
        // Without updates, the results of a step depend on its batch alone.
        let changed = [("precision", "bf16"), ("learning_rate", "0.0"), ("cuda_graph", cuda_graph)];
        let mut trainer = trainer(device, &[&joint[..], &changed].concat());
        assert!(trainer.task().settings.joins_reference(trainer.task().micro_batch(&batches[1])));
        (train(&mut trainer, &batches, 30), trainer.replays().steps)
    });
    println!("eager {:.4?}\nreplayed {:.4?}", eager.0, replayed.0);
    assert_eq!((eager.1, replayed.1), (0, 30 - CUDA_GRAPH_WARM_UP_STEPS + 1));
    for (eager, replayed) in eager.0.iter().flatten().zip(replayed.0.iter().flatten()) {
        assert!((eager - replayed).abs() <= 0.05 * eager.abs(), "{eager} {replayed}");
    }
}

#[test]
#[ignore = "needs a GPU: make test-gpu"]
fn steps_in_fp8_on_a_gpu_have_nearly_the_losses_and_gradients_of_bf16_plain_and_fused() {
    let _generator = generator();
    cuda::open().unwrap();
    for kernels in ["plain", "fused"] {
        let [(loss, expected), (found, in_fp8)] = ["bf16", "fp8"]
            .map(|precision| first_step(Device::Cuda(0), &[("precision", precision), ("kernels", kernels)]));
        let cosine = cosine(&in_fp8, &expected);
        println!("{kernels}: {loss} {found}, cosine {cosine}");
        assert!(found != loss && (found / loss - 1.0).abs() < 0.02, "{kernels}: {found} {loss}");
        assert!(cosine > FP8_COSINE, "{kernels}: {cosine}");
    }
}

#[test]
#[ignore = "needs a GPU: make test-gpu"]
fn replays_on_a_gpu_of_several_lengths_train_as_eager_steps_do() {
    let _generator = generator();
    cuda::open().unwrap();
    let device = Device::Cuda(0);
    let batches = [48, 64, 96].map(|length| batch(device, 2, length));
    for kernels in ["plain", "fused"] {
        for precision in ["fp32", "bf16", "fp8"] {
            let [eager, replayed] = ["off", "on"].map(|cuda_graph| {
                let changed = [("kernels", kernels), ("precision", precision), ("cuda_graph", cuda_graph)];
                let mut trainer = trainer(device, &changed);
                let seen = train(&mut trainer, &batches, 30);
                (seen, trainer.replays())
            });
            println!("{kernels} {precision}\n eager {:.4?}\n graph {:.4?}", eager.0, replayed.0);
            assert_eq!((replayed.1.steps, replayed.1.shapes), (30 - CUDA_GRAPH_WARM_UP_STEPS + 1, 3));
            let tolerance = if precision == "fp32" { 5e-3 } else { 0.05 };
            for (eager, replayed) in eager.0.iter().zip(&replayed.0) {
                assert!((eager[0] - replayed[0]).abs() < tolerance * eager[0], "{eager:?} {replayed:?}");
                assert!((eager[1] - replayed[1]).abs() < 1e-9, "learning rates {eager:?} {replayed:?}");
            }
        }
    }
}
