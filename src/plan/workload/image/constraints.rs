//! Which combinations of levels can run on a machine, and why others cannot.

use super::super::machine::{memory_per_rank_bytes, no_devices, shortage, without_cuda};
use super::estimate::Costs;
use super::{DataCopy, DataSet, Decode, ImageSettings, Layout, Loader, Precision, Scenario, Strategy, Tf32};
use crate::plan::{CUDA_GRAPH_WARM_UP_STEPS, Kernels, Limits, Node, OptimizerImpl, Passes, counted};

/// A combination of levels, with the data set and machine it would run on.
pub(super) struct Candidate<'a> {
    pub(super) settings: &'a ImageSettings,
    pub(super) data: &'a DataSet,
    pub(super) costs: &'a Costs,
    pub(super) limits: &'a Limits,
    pub(super) node: &'a Node,
}

/// Says why a combination is invalid and what to do, as a fragment of a sentence.
type Constraint = fn(&Candidate) -> Option<String>;

/// The constraints in the order in which they are checked: contradictions within the levels, then what the data set lacks, then what the
/// machine lacks.
const CONSTRAINTS: &[Constraint] = &[
    image_files_are_of_scenario_b,
    single_has_one_rank,
    ranks_fit_their_nodes,
    device_loaders_hold_decoded_bytes,
    steps_can_be_captured,
    steps_can_be_fused,
    data_set_is_large_enough,
    first_batch_is_full,
    fp16_needs_cuda,
    cuda_levels_need_cuda,
    deterministic_replicas_need_cuda,
    dali_is_there,
    devices_exist,
    memory_suffices,
    host_memory_suffices,
];

/// The first reason against a combination; `None` if it is valid.
pub(super) fn reason(candidate: &Candidate) -> Option<String> {
    CONSTRAINTS.iter().find_map(|constraint| constraint(candidate))
}

fn image_files_are_of_scenario_b(candidate: &Candidate) -> Option<String> {
    let set = candidate.data;
    match (candidate.settings.scenario, set) {
        (Scenario::B, DataSet::Digits | DataSet::Mnist { .. }) => Some(format!(
            "scenario = b reads image files, {} has none: use data.set = folder or scenario = a",
            set.name()
        )),
        (Scenario::A, DataSet::Folder { .. }) => {
            Some("scenario = a upsamples digits or mnist, not image files: use scenario = b or another data.set".into())
        }
        _ => None,
    }
}

fn single_has_one_rank(candidate: &Candidate) -> Option<String> {
    let ranks = candidate.settings.gpus;
    (candidate.settings.strategy == Strategy::Single && ranks > 1)
        .then(|| format!("strategy = single uses one GPU, not {ranks}: use gpus = 1 or strategy = ddp-ds"))
}

fn ranks_fit_their_nodes(candidate: &Candidate) -> Option<String> {
    let settings = candidate.settings;
    if settings.nodes.count > 1 && settings.strategy == Strategy::Dp {
        return Some("strategy = dp is one process, on one node: use nodes = 1 or strategy = ddp-ds".to_owned());
    }
    if settings.nodes.count > 1 && settings.data_copy == DataCopy::Shared {
        return Some("data_copy = shared is memory of one node: use nodes = 1 or data_copy = per_rank".to_owned());
    }
    settings.nodes.refusal(settings.gpus, candidate.node)
}

fn device_loaders_hold_decoded_bytes(candidate: &Candidate) -> Option<String> {
    let each_epoch = candidate.data.decode() == Some(Decode::EachEpoch);
    (each_epoch && candidate.settings.loader == Loader::Device).then(|| {
        "loader = device keeps decoded bytes on the GPU: use data.decode = once, or loader = host or dali".to_owned()
    })
}

fn steps_can_be_captured(candidate: &Candidate) -> Option<String> {
    let settings = candidate.settings;
    if !settings.cuda_graph {
        return None;
    }
    if settings.strategy == Strategy::Dp && settings.gpus > 1 {
        return Some(
            "cuda_graph = on captures the work of one GPU, and strategy = dp computes on several from one process: \
             use cuda_graph = off or strategy = ddp-ds"
                .to_owned(),
        );
    }
    if settings.strategy == Strategy::Fsdp && settings.gpus > 1 {
        return Some(
            "cuda_graph = on captures a step whose tensors stay where they are, and strategy = fsdp gives memory back within a step: \
             use cuda_graph = off or strategy = ddp-ds"
                .to_owned(),
        );
    }
    if settings.precision == Precision::Fp16 && settings.optimizer_impl != OptimizerImpl::Fused {
        let name = settings.optimizer_impl.name();
        return Some(format!(
            "cuda_graph = on with fp16 cannot capture optimizer_impl = {name}, which asks the host at each step whether gradients \
                 overflowed: use optimizer_impl = fused or precision = bf16"
        ));
    }
    let (steps, warm_up) = (settings.steps(), CUDA_GRAPH_WARM_UP_STEPS);
    (steps <= warm_up).then(|| {
        format!(
            "cuda_graph = on measures steps from step {} on, but the run has only {}: use more images or epochs",
            warm_up + 1,
            counted(steps, "step")
        )
    })
}

/// The widths for which the fused kernels are made: the first block has no residual sum, and the inputs of the last layers fit into a
/// kernel.
const FUSED_WIDTHS: std::ops::RangeInclusive<f64> = 0.375..=1.6;

fn steps_can_be_fused(candidate: &Candidate) -> Option<String> {
    let settings = candidate.settings;
    if settings.kernels != Kernels::Fused {
        return None;
    }
    let one_of = [
        (settings.precision == Precision::Fp64, "computes in fp32, fp16 and bf16", "another precision"),
        (settings.passes == Passes::Inference, "computes training steps", "passes = training"),
        (settings.layout == Layout::Nchw, "reads images channels last", "layout = nhwc"),
        (settings.deterministic, "adds up in no fixed order", "deterministic = off"),
        (
            settings.batch_norm.synchronised,
            "normalises by the statistics of each rank's own batch",
            "sync_batch_norm = off",
        ),
        (settings.strategy == Strategy::Dp, "computes on one GPU a process", "strategy = ddp-ds"),
        (settings.strategy == Strategy::Fsdp, "holds all of the model on each GPU", "strategy = ddp-ds"),
        (
            !FUSED_WIDTHS.contains(&settings.width_multiplier),
            "is for widths from 0.375 to 1.6",
            "such a width_multiplier",
        ),
    ];
    let (_, what, remedy) = one_of.into_iter().find(|(chosen, _, _)| *chosen)?;
    Some(format!("kernels = fused {what}: use {remedy} or kernels = plain"))
}

fn data_set_is_large_enough(candidate: &Candidate) -> Option<String> {
    let (train, test) = candidate.data.images()?;
    let set = candidate.data.name();
    let settings = candidate.settings;
    let wanted = [("train_images", settings.train_images, train), ("test_images", settings.test_images, test)];
    let (key, wanted, available) = wanted.into_iter().find(|(_, wanted, available)| *wanted as u64 > *available)?;
    Some(format!("{set} does not have {} for {key}: use {available} or fewer", counted(wanted, "image")))
}

fn first_batch_is_full(candidate: &Candidate) -> Option<String> {
    let settings = candidate.settings;
    // Under `ddp` each rank takes full batches from the whole set.
    let shares = if settings.strategy == Strategy::Ddp { 1 } else { settings.gpus };
    let step_images = settings.batch_size.saturating_mul(shares);
    // Batches that are not full are dropped.
    (settings.train_images < step_images).then(|| {
        let images = counted(settings.train_images, "training image");
        format!("{images} cannot fill a batch of {step_images}: use more images or a smaller batch")
    })
}

fn fp16_needs_cuda(candidate: &Candidate) -> Option<String> {
    if candidate.settings.precision != Precision::Fp16 {
        return None;
    }
    without_cuda(candidate.node, "fp16", "use bf16, fp32 or fp64")
}

fn cuda_levels_need_cuda(candidate: &Candidate) -> Option<String> {
    let settings = candidate.settings;
    let one_of = [
        (settings.pin_memory, "pin_memory = on", "use pin_memory = off"),
        (settings.tf32 != Tf32::Off, "TF32", "use tf32 = off"),
        (settings.cuda_graph, "cuda_graph = on", "use cuda_graph = off"),
        (settings.kernels == Kernels::Fused, "kernels = fused", "use kernels = plain"),
    ];
    let (_, what, remedy) = one_of.into_iter().find(|(chosen, _, _)| *chosen)?;
    without_cuda(candidate.node, what, remedy)
}

fn deterministic_replicas_need_cuda(candidate: &Candidate) -> Option<String> {
    let settings = candidate.settings;
    if settings.strategy != Strategy::Dp || !settings.deterministic || settings.gpus < 2 {
        return None;
    }
    // It is not determined which replica draws its numbers first.
    let remedy =
        "use deterministic = off or strategy = ddp-ds, since replicas on CPUs share one random number generator";
    without_cuda(candidate.node, "strategy = dp with deterministic = on", remedy)
}

fn dali_is_there(candidate: &Candidate) -> Option<String> {
    let worker = candidate.node.worker.as_ref();
    let reason = match (candidate.settings.loader, worker) {
        (Loader::Dali, Ok(worker)) => worker.dali.as_ref().err()?,
        (Loader::Dali, Err(reason)) => reason,
        _ => return None,
    };
    Some(format!("loader = dali needs NVIDIA DALI: {reason}; or use loader = host or device"))
}

fn devices_exist(candidate: &Candidate) -> Option<String> {
    let (node, settings) = (candidate.node, candidate.settings);
    let of_node = settings.gpus_of_node();
    no_devices(node, of_node).or_else(|| settings.gpu_choice.refusal(node, node.has_cuda(), of_node))
}

fn memory_suffices(candidate: &Candidate) -> Option<String> {
    let available_bytes = memory_per_rank_bytes(candidate.node, candidate.limits, candidate.settings.gpus_of_node());
    let shortage = shortage(candidate.costs.estimate.peak_bytes, available_bytes)?;
    Some(format!("does not fit: {shortage}: use a smaller batch, image or width"))
}

fn host_memory_suffices(candidate: &Candidate) -> Option<String> {
    let Costs { set_copies, set_bytes, .. } = *candidate.costs;
    let host_bytes = candidate.costs.estimate.host_bytes;
    let shortage = shortage(host_bytes, candidate.node.memory_bytes)?;
    let copies = if set_copies == 1 { "one copy".to_owned() } else { format!("{set_copies} copies") };
    let set = set_bytes as f64 / 1e9;
    let remedies = [
        (set_copies > 1, "data_copy = shared"),
        (candidate.data.decode() == Some(Decode::Once), "data.decode = each_epoch"),
        (true, "a smaller batch or image"),
        (set_copies * set_bytes > host_bytes / 10, "fewer images"),
        (candidate.settings.gpus > 1, "fewer GPUs"),
    ];
    let remedies: Vec<&str> = remedies.into_iter().filter(|(helps, _)| *helps).map(|(_, remedy)| remedy).collect();
    Some(format!(
        "does not fit into the host's memory: {shortage}, including {copies} of {set:.1} GB of images; the rest is processes and their \
             batches: use {}",
        remedies.join(", ")
    ))
}

#[cfg(test)]
#[path = "constraints_tests.rs"]
mod tests;
