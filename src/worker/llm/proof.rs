//! Evidence that the factors of a language model are in effect.

use multicard::plan::llm::{Precision, Technique, Tf32};
use multicard::plan::{Kernels, OptimizerImpl, Passes};
use multicard::protocol::Evidence;
use tch::{Kind, TchError};

use super::block::Quantised;
use super::data::TextBatch;
use super::{Llm, nf4};
use crate::proof::{evidence, on_off, passes};
use crate::shim::Flags;
use crate::task::Batch as _;
use crate::trainer::Trainer;

/// Inspects the model, the optimizer and libtorch's switches.
pub fn gather(trainer: &Trainer<Llm>, batch: &TextBatch) -> Result<Vec<Evidence>, TchError> {
    let settings = &trainer.task().settings;
    let mut evidence_list = vec![precision(settings.precision, trainer), start(trainer)];

    if settings.passes == Passes::Training {
        evidence_list.push(optimizer(settings.optimizer_impl, trainer)?);
    }
    let parameters = trainer.parameters()?;
    let technique = settings.technique.name();
    let adapters = trainer.module().adapters();
    let mut seen = format!("{adapters} tensors of adapters, {} trained tensors", parameters.len());
    let mut in_effect = (adapters == 0) == settings.lora.is_none();
    if settings.technique.prefers() {
        let rows = batch.inputs()[0].size()[0];
        let reference = match trainer.module().has_reference() {
            true => "a frozen copy of the first weights",
            false if settings.joins_reference(trainer.task().micro_batch(batch.inputs())) => {
                "the model without adapters, in the policy's forward pass"
            }
            false => "the model without adapters, in a forward pass of its own",
        };
        seen += &format!("; {rows} rows a step, in pairs; the reference is {reference}");
        in_effect &= trainer.module().has_reference() == settings.lora.is_none();
        in_effect &= rows == 2 * (settings.batch_size * settings.gradient_accumulation) as i64;
    }
    let Quantised { nf4, fake, .. } = trainer.module().quantised();
    if settings.technique == Technique::Qlora {
        seen += &format!("; {nf4} matrices of blocks in NF4, block {}, scale block {}", nf4::BLOCK, nf4::SCALE_BLOCK);
    }
    if settings.technique == Technique::Qat {
        let group = settings.qat_group;
        seen += &format!("; {fake} linear layers see int8 activations and int4 weights in groups of {group}");
    }
    in_effect &= (nf4 > 0) == (settings.technique == Technique::Qlora);
    in_effect &= (fake > 0) == (settings.technique == Technique::Qat);
    evidence_list.push(evidence("technique", technique, seen, in_effect));

    evidence_list.push(passes(settings.passes, trainer)?);
    let flags = Flags::in_effect()?;
    if batch.inputs()[0].device().is_cuda() {
        if settings.precision == Precision::Fp32 {
            let seen = format!("TF32 in matrix products {}", on_off(flags.tf32_matmul));
            let asked = settings.tf32 == Tf32::All;
            evidence_list.push(evidence(Tf32::KEY, settings.tf32.name(), seen, flags.tf32_matmul == asked));
        }
        let (seen, fused) = match trainer.module().fused() {
            true => ("a block is two steps of autograd, with kernels compiled for this GPU", true),
            false => ("each operation of a block is libtorch's", false),
        };
        let asked = settings.kernels == Kernels::Fused;
        evidence_list.push(evidence(Kernels::KEY, settings.kernels.name(), seen.into(), fused == asked));
    }
    let seen = format!("deterministic algorithms {}", on_off(flags.deterministic));
    let asked = settings.deterministic;
    evidence_list.push(evidence("deterministic", on_off(asked), seen, flags.deterministic == asked));
    Ok(evidence_list)
}

/// The types of weights, and how many matrices are in FP8.
pub fn precision(asked: Precision, trainer: &Trainer<Llm>) -> Evidence {
    let (weights, trained) = trainer.module().kinds();
    let expected = match asked {
        Precision::Fp32 => (Kind::Float, Kind::Float),
        Precision::Bf16 | Precision::Fp8 => (Kind::BFloat16, Kind::BFloat16),
        Precision::Fp16 => (Kind::Half, Kind::Float),
    };
    let mut seen = format!("weights {weights:?}, what is trained {trained:?}");
    let in_fp8 = trainer.module().quantised().fp8;
    if in_fp8 > 0 {
        seen += &format!("; {in_fp8} matrices of blocks in FP8 (e4m3), with a scale for each row");
    }
    let in_effect = (weights, trained) == expected && (in_fp8 > 0) == (asked == Precision::Fp8);
    evidence(Precision::KEY, asked.name(), seen, in_effect)
}

/// Evidence on the number of calls of an update, and on the gradients that it copies first.
fn optimizer(asked: OptimizerImpl, trainer: &Trainer<Llm>) -> Result<Evidence, TchError> {
    let parameters = trainer.parameters()?.len();
    let calls = match asked {
        OptimizerImpl::Fused => "one call of _fused_adamw_".to_owned(),
        OptimizerImpl::Foreach => "ten calls of _foreach_ functions".to_owned(),
        OptimizerImpl::Loop => format!("{} calls", 9 * parameters),
    };
    let relaid = trainer.optimizer().relaid();
    let seen = format!("{calls} for {parameters} parameters, {relaid} gradients copied into their parameter's strides");
    Ok(evidence(OptimizerImpl::KEY, asked.name(), seen, relaid == 0))
}

/// The origin of the initial weights, which determines losses but not times.
fn start(trainer: &Trainer<Llm>) -> Evidence {
    let task = trainer.task();
    let seen = match &task.checkpoint {
        Some(checkpoint) => format!("weights of {}", checkpoint.folder().display()),
        None => "random weights in the model's true shapes: losses say nothing about the model".to_owned(),
    };
    evidence("model", task.settings.model.name(), seen, true)
}
