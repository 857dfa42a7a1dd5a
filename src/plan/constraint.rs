//! Which combinations of levels make sense on a machine, and why not.

use super::estimate::{Estimate, memory_per_rank_bytes, usable_gpus};
use super::{
    CUDA_GRAPH_WARM_UP_STEPS, CudaState, DataCopy, DataSet, Decode, ImageSettings, Loader, Node, OptimizerImpl, Plan,
    Precision, Scenario, Strategy, Tf32, WireDtype,
};

/// A combination of levels, and what it would run on.
pub(super) struct Candidate<'a> {
    pub(super) settings: &'a ImageSettings,
    pub(super) estimate: &'a Estimate,
    pub(super) plan: &'a Plan,
    pub(super) node: &'a Node,
}

/// Says why a combination is invalid and what to do, as a fragment of a sentence.
type Constraint = fn(&Candidate) -> Option<String>;

/// The constraints in the order they are asked: what contradicts itself, what the data set lacks, what the machine lacks.
const CONSTRAINTS: &[Constraint] = &[
    image_files_are_of_scenario_b,
    single_has_one_rank,
    sync_batch_norm_acts_over_ranks,
    tf32_acts_on_fp32_alone,
    nothing_travels_from_a_device_loader,
    dali_brings_pixels_its_own_way,
    files_are_decoded_by_whoever_can,
    steps_can_be_captured,
    data_set_is_large_enough,
    first_batch_is_full,
    fp16_needs_cuda,
    cuda_levels_need_cuda,
    deterministic_replicas_need_cuda,
    dali_is_there,
    gpus_exist,
    cpus_exist,
    memory_suffices,
    host_memory_suffices,
];

/// The first reason against a combination; none where it is valid.
pub(super) fn reason(candidate: &Candidate) -> Option<String> {
    CONSTRAINTS.iter().find_map(|constraint| constraint(candidate))
}

fn image_files_are_of_scenario_b(candidate: &Candidate) -> Option<String> {
    let set = &candidate.plan.data;
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

fn sync_batch_norm_acts_over_ranks(candidate: &Candidate) -> Option<String> {
    let strategy = candidate.settings.strategy;
    (candidate.settings.batch_norm.synchronised && matches!(strategy, Strategy::Single | Strategy::Dp)).then(|| {
        let name = strategy.name();
        format!(
            "sync_batch_norm = on has no effect on strategy = {name}: use sync_batch_norm = off or strategy = ddp-ds"
        )
    })
}

fn tf32_acts_on_fp32_alone(candidate: &Candidate) -> Option<String> {
    let settings = candidate.settings;
    (settings.tf32 != Tf32::Off && settings.precision != Precision::Fp32).then(|| {
        let (tf32, precision) = (settings.tf32.name(), settings.precision.name());
        format!("tf32 = {tf32} has no effect on {precision}: use tf32 = off or precision = fp32")
    })
}

fn nothing_travels_from_a_device_loader(candidate: &Candidate) -> Option<String> {
    let settings = candidate.settings;
    if settings.loader != Loader::Device {
        return None;
    }
    let wire = settings.wire_dtype.name();
    let one_of = [
        (settings.pin_memory, "pin_memory = on".to_owned(), "whose pixels do not travel", "pin_memory = off"),
        (
            settings.wire_dtype != WireDtype::Run,
            format!("wire_dtype = {wire}"),
            "whose pixels do not travel",
            "wire_dtype = run",
        ),
        (
            settings.persistent_workers,
            "persistent_workers = on".to_owned(),
            "which has no threads",
            "persistent_workers = off",
        ),
    ];
    let (_, what, why, remedy) = one_of.into_iter().find(|(chosen, ..)| *chosen)?;
    Some(format!("{what} has no effect on loader = device, {why}: use {remedy} or loader = host"))
}

fn dali_brings_pixels_its_own_way(candidate: &Candidate) -> Option<String> {
    let settings = candidate.settings;
    let one_of = [
        (settings.pin_memory, "pin_memory = on".to_owned(), "pin_memory = off"),
        (
            settings.wire_dtype != WireDtype::Run,
            format!("wire_dtype = {}", settings.wire_dtype.name()),
            "wire_dtype = run",
        ),
    ];
    let (_, what, remedy) = one_of.into_iter().find(|(chosen, ..)| *chosen && settings.loader == Loader::Dali)?;
    Some(format!(
        "{what} has no effect on loader = dali, which stages bytes in its own page-locked memory and normalises on the \
         device: use {remedy} or loader = host"
    ))
}

fn files_are_decoded_by_whoever_can(candidate: &Candidate) -> Option<String> {
    let each_epoch = candidate.plan.data.decode() == Some(Decode::EachEpoch);
    let settings = candidate.settings;
    if each_epoch && settings.loader == Loader::Device {
        return Some(
            "loader = device keeps decoded bytes on the GPU: use data.decode = once, or loader = host or dali"
                .to_owned(),
        );
    }
    (each_epoch && settings.data_copy == DataCopy::Shared).then(|| {
        "data_copy = shared has no effect where files are decoded in each epoch: use data_copy = per_rank or data.decode = once"
            .to_owned()
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
    if settings.precision == Precision::Fp16 && settings.optimizer_impl != OptimizerImpl::Fused {
        let name = settings.optimizer_impl.name();
        return Some(format!(
            "cuda_graph = on with fp16 cannot capture optimizer_impl = {name}, which asks the host at each step whether \
             gradients overflowed: use optimizer_impl = fused or precision = bf16"
        ));
    }
    let (steps, warm_up) = (settings.steps(), CUDA_GRAPH_WARM_UP_STEPS);
    (steps <= warm_up).then(|| {
        format!(
            "cuda_graph = on counts steps from the {}th on, and there are {steps}: use more images or epochs",
            warm_up + 1
        )
    })
}

fn data_set_is_large_enough(candidate: &Candidate) -> Option<String> {
    let (train, test) = candidate.plan.data.images()?;
    let set = candidate.plan.data.name();
    let settings = candidate.settings;
    let wanted = [("train_images", settings.train_images, train), ("test_images", settings.test_images, test)];
    let (key, wanted, there) = wanted.into_iter().find(|(_, wanted, there)| *wanted as u64 > *there)?;
    Some(format!("{set} has no {wanted} images for {key}: use {there} or fewer"))
}

fn first_batch_is_full(candidate: &Candidate) -> Option<String> {
    let settings = candidate.settings;
    // Under `ddp` each rank takes a whole batch of its own from the whole set.
    let shares = if settings.strategy == Strategy::Ddp { 1 } else { settings.gpus };
    let step_images = settings.batch_size.saturating_mul(shares);
    // Batches that are not full are dropped.
    (settings.train_images < step_images).then(|| {
        let images = settings.train_images;
        format!("{images} training images do not fill a batch of {step_images}: use more images or a smaller batch")
    })
}

fn fp16_needs_cuda(candidate: &Candidate) -> Option<String> {
    if candidate.settings.precision != Precision::Fp16 {
        return None;
    }
    Some(format!("fp16 needs CUDA ({}): use bf16, fp32 or fp64", no_cuda(candidate.node)?))
}

fn cuda_levels_need_cuda(candidate: &Candidate) -> Option<String> {
    let settings = candidate.settings;
    let one_of = [
        (settings.pin_memory, "pin_memory = on", "use pin_memory = off"),
        (settings.tf32 != Tf32::Off, "TF32", "use tf32 = off"),
        (settings.cuda_graph, "cuda_graph = on", "use cuda_graph = off"),
    ];
    let (_, what, remedy) = one_of.into_iter().find(|(chosen, _, _)| *chosen)?;
    Some(format!("{what} needs CUDA ({}): {remedy}", no_cuda(candidate.node)?))
}

fn deterministic_replicas_need_cuda(candidate: &Candidate) -> Option<String> {
    let settings = candidate.settings;
    if settings.strategy != Strategy::Dp || !settings.deterministic || settings.gpus < 2 {
        return None;
    }
    let reason = no_cuda(candidate.node)?;
    // Which replica draws first is not determined.
    Some(format!(
        "strategy = dp with deterministic = on needs CUDA ({reason}), for replicas on CPUs share one generator of random numbers: \
         use deterministic = off or strategy = ddp-ds"
    ))
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

fn gpus_exist(candidate: &Candidate) -> Option<String> {
    let (node, wanted) = (candidate.node, candidate.settings.gpus);
    let usable = usable_gpus(node).count();
    if !node.has_cuda() || wanted <= usable {
        return None;
    }
    let split = node.gpus.len() - usable;
    Some(if wanted <= node.gpus.len() {
        format!("MIG GPUs cannot be used, and {split} of {} are in MIG mode: turn MIG off", node.gpus.len())
    } else {
        format!("{} has {usable} usable GPUs, not {wanted}: use fewer", node.hostname)
    })
}

fn cpus_exist(candidate: &Candidate) -> Option<String> {
    let (node, wanted) = (candidate.node, candidate.settings.gpus);
    (!node.has_cuda() && wanted > node.cpus as usize).then(|| {
        format!("{} has no GPUs to use and {} CPUs for {wanted} CPU ranks: use fewer", node.hostname, node.cpus)
    })
}

fn memory_suffices(candidate: &Candidate) -> Option<String> {
    let there = memory_per_rank_bytes(candidate.node, &candidate.plan.limits, candidate.settings.gpus);
    let shortage = shortage(candidate.estimate.peak_bytes, there)?;
    Some(format!("does not fit: {shortage}: use a smaller batch, image or width"))
}

fn host_memory_suffices(candidate: &Candidate) -> Option<String> {
    let Estimate { host_bytes, set_copies, set_bytes, .. } = *candidate.estimate;
    let shortage = shortage(host_bytes, candidate.node.memory_bytes)?;
    let copies = if set_copies == 1 { "one copy".to_owned() } else { format!("{set_copies} copies") };
    let set = set_bytes as f64 / 1e9;
    let remedies = [
        (set_copies > 1, "data_copy = shared"),
        (candidate.plan.data.decode() == Some(Decode::Once), "data.decode = each_epoch"),
        (true, "a smaller batch or image"),
        (set_copies * set_bytes > host_bytes / 10, "fewer images"),
        (candidate.settings.gpus > 1, "fewer GPUs"),
    ];
    let remedies: Vec<&str> = remedies.into_iter().filter(|(helps, _)| *helps).map(|(_, remedy)| remedy).collect();
    Some(format!(
        "does not fit into the host's memory: {shortage}, of which {copies} of {set:.1} GB of images, the rest being \
         processes and their batches: use {}",
        remedies.join(", ")
    ))
}

/// What is needed of what is there, in GB; none where it suffices.
fn shortage(needed: u64, there: u64) -> Option<String> {
    (needed > there).then(|| {
        let (needed, there) = (needed as f64 / 1e9, there as f64 / 1e9);
        // Rounded away from each other, so that 94.2 of 94 does not read 94 of 94.
        let scale = if there < 10.0 { 10.0 } else { 1.0 };
        let (needed, there) = ((needed * scale).ceil() / scale, (there * scale).floor() / scale);
        format!("{needed} of {there} GB")
    })
}

/// Why runs cannot use CUDA here; none where they can.
fn no_cuda(node: &Node) -> Option<String> {
    if node.has_cuda() {
        return None;
    }
    let reason = match &node.worker {
        _ if node.gpus.is_empty() => node.no_gpu_reason.as_deref().unwrap_or("no GPU is found"),
        Err(reason) => reason,
        Ok(worker) => match &worker.cuda {
            CudaState::Unavailable { reason } => reason,
            CudaState::Available => "no GPU is found",
        },
    };
    Some(reason.to_owned())
}

#[cfg(test)]
#[path = "constraint_tests.rs"]
mod tests;
