//! Collects evidence for the factors of the image workload while they should be in effect.

use multicard::plan::image::{CudnnBenchmark, ImageSettings, Layout, Loader, Precision, Tf32, UpdateRule, WireDtype};
use multicard::plan::{Kernels, OptimizerImpl, Passes, counted};
use multicard::protocol::Evidence;
use tch::{TchError, Tensor};

use super::{Image, dali};
use crate::image::data::{Batch, Origin};
use crate::proof::{evidence, on_off, passes};
use crate::shim::{self, Flags, KeptPlans, kept_plans};
use crate::trainer::Trainer;

/// Examines a batch of training, the model's outputs for it, and libtorch's switches. Waits for the device.
pub fn gather(trainer: &Trainer<Image>, batch: &Batch) -> Result<Vec<Evidence>, TchError> {
    let settings = &trainer.task().settings;
    let pass = trainer.strategy().pass(false);
    let first = || pass.unit(0, batch.images(), |images| trainer.module().first_convolution(images));
    let convolution = tch::no_grad(|| trainer.arithmetic().forward(first))?;
    let mut evidence_list = vec![
        precision(settings.precision, trainer, &convolution),
        layout(settings.layout, batch.images(), &convolution)?,
        kernels(settings.kernels, trainer),
        wire_dtype(settings, batch),
        pin_memory(settings.pin_memory, batch.origin),
        loader(settings, batch),
        passes(settings.passes, trainer)?,
    ];
    if settings.passes == Passes::Training {
        evidence_list.extend([optimizer(settings, trainer)?, update_rule(settings.optimizer, trainer)]);
    }
    let cuda = batch.images().device().is_cuda();
    evidence_list.extend(switches(settings, Flags::in_effect()?, plans(settings, batch)?, cuda));
    Ok(evidence_list)
}

/// This process's use of cuDNN's kept plans; `None` if plans are not kept.
pub fn plans(settings: &ImageSettings, batch: &Batch) -> Result<Option<KeptPlans>, TchError> {
    (batch.images().device().is_cuda() && super::keeps_plans(settings)).then(kept_plans).transpose()
}

fn precision(asked: Precision, trainer: &Trainer<Image>, convolution: &Tensor) -> Evidence {
    let weight = trainer.module().first_weight().kind();
    let (weights, convolutions) = (trainer.arithmetic().weights(), trainer.arithmetic().products());
    let seen = format!("weights {weight:?}, output of a convolution {:?}", convolution.kind());
    evidence(Precision::KEY, asked.name(), seen, weight == weights && convolution.kind() == convolutions)
}

fn layout(asked: Layout, images: &Tensor, convolution: &Tensor) -> Result<Evidence, TchError> {
    let strides = |tensor: &Tensor| tensor.stride().iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    let seen = format!("batch strides {}; output of a convolution {}", strides(images), strides(convolution));
    let is = |tensor: &Tensor| match asked {
        Layout::Nchw => Ok(tensor.is_contiguous()),
        Layout::Nhwc => shim::is_channels_last(tensor),
    };
    Ok(evidence(Layout::KEY, asked.name(), seen, is(images)? && is(convolution)?))
}

fn kernels(asked: Kernels, trainer: &Trainer<Image>) -> Evidence {
    let kernels = trainer.module().kernels();
    let seen = match kernels {
        Kernels::Plain => "each operation of a layer is libtorch's",
        Kernels::Fused => "a block is one step of autograd, with kernels compiled for this GPU",
    };
    evidence(Kernels::KEY, asked.name(), seen.into(), kernels == asked)
}

fn wire_dtype(settings: &ImageSettings, batch: &Batch) -> Evidence {
    let asked = settings.wire_dtype;
    let labels = batch.count * 8;
    if let Origin::Resident { .. } = batch.origin {
        let seen = format!("{} bytes of indices for {} images, whose pixels do not travel", batch.bytes, batch.count);
        return evidence(WireDtype::KEY, asked.name(), seen, asked == WireDtype::Run);
    }
    if let Origin::Dali { .. } = batch.origin {
        let seen = format!("{} bytes for {} images and their labels, as DALI is fed", batch.bytes, batch.count);
        return evidence(WireDtype::KEY, asked.name(), seen, asked == WireDtype::Run);
    }
    let bytes = match (asked, settings.precision) {
        (WireDtype::Uint8, _) => 1,
        (WireDtype::Run, Precision::Fp16 | Precision::Bf16) => 2,
        (WireDtype::Fp32, _) | (WireDtype::Run, Precision::Fp32) => 4,
        (WireDtype::Run, Precision::Fp64) => 8,
    };
    let values = batch.images().numel();
    let seen = format!("{} bytes for {values} values and {} labels", batch.bytes, batch.count);
    evidence(WireDtype::KEY, asked.name(), seen, batch.bytes as usize == values * bytes + labels)
}

fn pin_memory(asked: bool, origin: Origin) -> Evidence {
    let (seen, pinned) = match origin {
        Origin::Host { pinned: true } => ("batches travel from page-locked memory", true),
        Origin::Host { pinned: false } => ("batches travel from pageable memory", false),
        Origin::Dali { .. } => ("DALI stages bytes its own way", false),
        Origin::Resident { .. } => ("pixels do not travel", false),
    };
    evidence("pin_memory", on_off(asked), seen.into(), asked == pinned)
}

fn loader(settings: &ImageSettings, batch: &Batch) -> Evidence {
    let threads = loader_threads();
    let (seen, in_effect) = match batch.origin {
        Origin::Host { .. } => {
            (format!("{threads} loader threads"), settings.loader == Loader::Host && threads >= settings.loader_workers)
        }
        Origin::Dali { device } => (
            format!("a pipeline of DALI {} on {device:?}", dali::VERSION),
            settings.loader == Loader::Dali && device == batch.images().device(),
        ),
        Origin::Resident { device, bytes } => (
            format!("{bytes} bytes of images and labels live on {device:?}"),
            settings.loader == Loader::Device && device == batch.images().device(),
        ),
    };
    evidence(Loader::KEY, settings.loader.name(), seen, in_effect)
}

/// Number of threads of this process that are named as loaders.
fn loader_threads() -> usize {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return 0 };
    let names = threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
    names.filter(|name| name.starts_with("loader-")).count()
}

fn optimizer(settings: &ImageSettings, trainer: &Trainer<Image>) -> Result<Evidence, TchError> {
    let asked = settings.optimizer_impl;
    let count = trainer.parameters()?.len();
    let (fused, foreach, each) = match settings.optimizer {
        UpdateRule::Sgd => ("_fused_sgd_", 3, 3),
        // Without weight decay, AdamW is Adam.
        UpdateRule::Adam | UpdateRule::Adamw => ("_fused_adamw_", 10, 9),
    };
    let calls = match asked {
        OptimizerImpl::Fused => format!("one call of {fused}"),
        OptimizerImpl::Foreach => format!("{foreach} calls of _foreach_ functions"),
        OptimizerImpl::Loop => format!("{} calls", each * count),
    };
    let relaid = trainer.optimizer().relaid();
    let seen = format!("{calls} for {count} parameters, {relaid} gradients copied into their parameter's strides");
    Ok(evidence(OptimizerImpl::KEY, asked.name(), seen, relaid == 0))
}

/// Evidence on the numbers that an update stores for each weight: the momentum, or the two means of Adam.
fn update_rule(asked: UpdateRule, trainer: &Trainer<Image>) -> Evidence {
    let values_kept = trainer.optimizer().kept();
    let expected = if asked == UpdateRule::Sgd { 1 } else { 2 };
    evidence(
        UpdateRule::KEY,
        asked.name(),
        format!("updates keep {} a weight", counted(values_kept, "number")),
        values_kept == expected,
    )
}

/// The origin of cuDNN's plans, in words.
fn kept(plans: &KeptPlans) -> String {
    let KeptPlans { replayed, found, finding_s, problem } = plans;
    let trials =
        if *found > 0 { format!(", {found} found by trials of {finding_s:.1} s and kept") } else { String::new() };
    let problem = problem.as_ref().map_or_else(String::new, |problem| format!("; they could not be kept: {problem}"));
    format!("{replayed} plans kept by earlier runs{trials}{problem}")
}

/// libtorch's switches, if they have an effect.
fn switches(settings: &ImageSettings, flags: Flags, plans: Option<KeptPlans>, cuda: bool) -> Vec<Evidence> {
    let asked = super::flags(settings);
    let deterministic = on_off(settings.deterministic);
    let seen = format!("deterministic algorithms {}", on_off(flags.deterministic));
    let mut found = vec![evidence("deterministic", deterministic, seen, flags.deterministic == asked.deterministic)];
    if cuda {
        let seen = format!("convolutions {}, matrix products {}", on_off(flags.tf32_conv), on_off(flags.tf32_matmul));
        let in_effect = (flags.tf32_conv, flags.tf32_matmul) == (asked.tf32_conv, asked.tf32_matmul);
        found.push(evidence(Tf32::KEY, settings.tf32.name(), seen, in_effect));
        // Deterministic runs and fused kernels never benchmark algorithms. The factor's help says so, so this is not a failure.
        let reason = match (settings.deterministic, settings.kernels) {
            (true, _) => ", as deterministic = on asks",
            (false, Kernels::Fused) => ", as steps with fused kernels call no cuDNN",
            (false, Kernels::Plain) => "",
        };
        let plans_text = plans.as_ref().map_or_else(String::new, |plans| format!(", {}", kept(plans)));
        let seen = format!("cuDNN's benchmark {}{reason}{plans_text}", on_off(flags.cudnn_benchmark));
        let used = plans.is_none_or(|plans| plans.replayed + plans.found > 0);
        let in_effect = flags.cudnn_benchmark == asked.cudnn_benchmark && used;
        found.push(evidence(CudnnBenchmark::KEY, settings.cudnn_benchmark.name(), seen, in_effect));
    } else if settings.tf32 != Tf32::Off {
        found.push(evidence(Tf32::KEY, settings.tf32.name(), "a CPU, which has no TF32".into(), false));
    }
    found
}
