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
    Some(format!(
        "does not fit into the host's memory: {shortage}, of which {copies} of {set:.1} GB of images: use \
         data_copy = shared, data.decode = each_epoch, fewer images or fewer GPUs"
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
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::plan::fixture::{cpu_node, gpu_node, small_plan};
    use crate::plan::{DataSet, Decode, Level, Node, Plan, expand};

    fn plan(settings: &[(&'static str, &str)]) -> Plan {
        let level = |text: &str| text.parse().map_or_else(|_| Level::text(text), Level::Integer);
        small_plan(&settings.iter().map(|(key, text)| (*key, vec![level(text)])).collect::<Vec<_>>())
    }

    /// The reason against the plan's one cell; empty where it is valid.
    fn reason(plan: &Plan, node: &Node) -> String {
        let matrix = expand(plan, node);
        assert_eq!(matrix.cells.len() + matrix.invalid.len(), 1);
        matrix.invalid.first().map(|cell| cell.reason.clone()).unwrap_or_default()
    }

    #[track_caller]
    fn refused(settings: &[(&'static str, &str)], node: &Node, part: &str) {
        let reason = reason(&plan(settings), node);
        assert!(reason.contains(part), "{settings:?} should be refused with {part:?}, found {reason:?}");
    }

    #[track_caller]
    fn accepted(settings: &[(&'static str, &str)], node: &Node) {
        assert_eq!(reason(&plan(settings), node), "", "{settings:?}");
    }

    #[test]
    fn defaults_are_valid_with_and_without_gpus() {
        accepted(&[], &cpu_node());
        accepted(&[], &gpu_node(1));
    }

    /// A plan over image files.
    fn files(decode: Decode, settings: &[(&'static str, &str)]) -> Plan {
        let data = DataSet::Folder { folder: "photos".into(), decode, corrupt: Default::default() };
        Plan { data, ..plan(&[settings, &[("scenario", "b"), ("image_size", "300")]].concat()) }
    }

    #[test]
    fn image_files_and_scenario_b_belong_together() {
        refused(&[("scenario", "b")], &gpu_node(1), "digits has none: use data.set = folder");
        let digits = Plan { data: DataSet::files("photos"), ..plan(&[]) };
        assert!(reason(&digits, &gpu_node(1)).contains("use scenario = b"));
        for loader in ["host", "dali", "device"] {
            assert_eq!(reason(&files(Decode::Once, &[("loader", loader)]), &gpu_node(1)), "");
        }
        assert_eq!(reason(&files(Decode::EachEpoch, &[("loader", "dali")]), &gpu_node(1)), "");
        let device = files(Decode::EachEpoch, &[("loader", "device")]);
        assert!(reason(&device, &gpu_node(1)).contains("use data.decode = once"));
        let shared = files(Decode::EachEpoch, &[("data_copy", "shared")]);
        assert!(reason(&shared, &gpu_node(1)).contains("no effect where files are decoded in each epoch"));
    }

    #[test]
    fn sets_that_do_not_fit_into_the_hosts_memory_are_refused_with_numbers() {
        let mut node = gpu_node(4);
        node.memory_bytes = 64_000_000_000;
        let reason_of = |decode, settings: &[_]| reason(&files(decode, &[&[("gpus", "4")], settings].concat()), &node);
        let found = reason_of(Decode::Once, &[]);
        // 70,000 images of 300 × 300 × 3 bytes, a copy a rank, beside the processes and their batches.
        assert!(found.contains("of 64 GB, of which 4 copies of 18.9 GB of images"), "{found}");
        assert_eq!(reason_of(Decode::Once, &[("data_copy", "shared")]), "");
        assert_eq!(reason_of(Decode::EachEpoch, &[]), "");
        let found = reason_of(Decode::Once, &[("data_copy", "shared"), ("image_size", "700")]);
        assert!(found.contains("of which one copy of 102.9 GB"), "{found}");
    }

    #[test]
    fn dali_is_refused_where_it_is_not_installed_and_where_a_level_has_no_effect_on_it() {
        accepted(&[("loader", "dali"), ("persistent_workers", "on")], &cpu_node());
        refused(&[("loader", "dali"), ("pin_memory", "on")], &gpu_node(1), "no effect on loader = dali");
        refused(&[("loader", "dali"), ("wire_dtype", "uint8")], &gpu_node(1), "no effect on loader = dali");
        let mut node = cpu_node();
        if let Ok(worker) = &mut node.worker {
            worker.dali = Err("nothing in /cache: run `make dali`".to_owned());
        }
        refused(&[("loader", "dali")], &node, "needs NVIDIA DALI: nothing in /cache: run `make dali`");
    }

    #[test]
    fn every_binding_runs_with_and_without_gpus_and_on_machines_of_one_node() {
        for numa in ["off", "local", "interleave", "first-node"] {
            accepted(&[("numa", numa)], &cpu_node());
            accepted(&[("numa", numa), ("gpus", "2")], &gpu_node(2));
        }
    }

    #[test]
    fn cuda_only_levels_are_refused_on_cpus_with_the_reason_why_there_is_no_cuda() {
        for setting in [("precision", "fp16"), ("pin_memory", "on"), ("tf32", "conv"), ("cuda_graph", "on")] {
            refused(&[setting], &cpu_node(), "needs CUDA (the driver is missing)");
            accepted(&[setting], &gpu_node(1));
        }
        let mut without_worker = gpu_node(1);
        without_worker.worker = Err("the worker is missing".to_owned());
        refused(&[("precision", "fp16")], &without_worker, "the worker is missing");
    }

    #[test]
    fn the_cpu_can_do_bf16_fp64_and_both_layouts() {
        for precision in ["fp32", "fp64", "bf16"] {
            accepted(&[("precision", precision), ("layout", "nhwc")], &cpu_node());
        }
    }

    #[test]
    fn pixels_that_live_on_the_device_run_everywhere_and_do_not_travel() {
        for strategy in ["dp", "ddp", "ddp-rr", "ddp-ds"] {
            for node in [cpu_node(), gpu_node(2)] {
                accepted(&[("loader", "device"), ("strategy", strategy), ("gpus", "2")], &node);
            }
        }
        for (setting, part) in [
            (("pin_memory", "on"), "pin_memory = on has no effect on loader = device, whose pixels do not travel"),
            (("wire_dtype", "uint8"), "wire_dtype = uint8 has no effect on loader = device"),
            (("persistent_workers", "on"), "loader = device, which has no threads: use persistent_workers = off"),
        ] {
            refused(&[("loader", "device"), setting], &gpu_node(1), part);
        }
    }

    #[test]
    fn what_a_graph_cannot_capture_is_refused_with_its_reason() {
        let graph = |settings: &[(&'static str, &'static str)]| [&[("cuda_graph", "on")], settings].concat();
        for precision in ["fp32", "fp64", "fp16", "bf16"] {
            accepted(&graph(&[("precision", precision)]), &gpu_node(1));
        }
        for optimizer in ["foreach", "loop"] {
            accepted(&graph(&[("optimizer_impl", optimizer)]), &gpu_node(1));
            let settings = graph(&[("optimizer_impl", optimizer), ("precision", "fp16")]);
            refused(&settings, &gpu_node(1), "asks the host at each step whether gradients overflowed");
        }
        for strategy in ["ddp", "ddp-rr", "ddp-ds"] {
            accepted(&graph(&[("strategy", strategy), ("gpus", "2")]), &gpu_node(2));
        }
        refused(&graph(&[("strategy", "dp"), ("gpus", "2")]), &gpu_node(2), "strategy = dp computes on several");
        accepted(&graph(&[("strategy", "dp")]), &gpu_node(2));
        refused(&graph(&[("train_images", "768")]), &gpu_node(1), "from the 13th on, and there are 12");
        accepted(&graph(&[("train_images", "832")]), &gpu_node(1));
        accepted(&graph(&[("train_images", "768"), ("epochs", "2")]), &gpu_node(1));
    }

    #[test]
    fn single_has_one_rank() {
        refused(&[("strategy", "single"), ("gpus", "2")], &gpu_node(2), "strategy = single uses one GPU");
        accepted(&[("strategy", "single")], &gpu_node(2));
    }

    #[test]
    fn every_strategy_runs_over_several_devices() {
        for strategy in ["dp", "ddp", "ddp-rr", "ddp-ds"] {
            accepted(&[("strategy", strategy), ("gpus", "2")], &gpu_node(2));
            accepted(&[("strategy", strategy), ("gpus", "2")], &cpu_node());
        }
    }

    #[test]
    fn sync_batch_norm_is_for_ranks() {
        accepted(&[("sync_batch_norm", "on"), ("gpus", "2")], &gpu_node(2));
        for strategy in ["single", "dp"] {
            refused(&[("sync_batch_norm", "on"), ("strategy", strategy)], &gpu_node(2), "has no effect on strategy");
        }
    }

    #[test]
    fn deterministic_replicas_share_no_generator() {
        let settings = [("strategy", "dp"), ("gpus", "2"), ("deterministic", "on")];
        refused(&settings, &cpu_node(), "share one generator");
        accepted(&settings, &gpu_node(2));
    }

    #[test]
    fn tf32_without_fp32_is_refused() {
        refused(&[("tf32", "all"), ("precision", "bf16")], &gpu_node(1), "tf32 = all has no effect on bf16");
    }

    #[test]
    fn deterministic_runs_are_valid_beside_the_default_benchmark() {
        accepted(&[("deterministic", "on")], &gpu_node(1));
        accepted(&[("wire_dtype", "fp32")], &gpu_node(1));
    }

    #[test]
    fn more_ranks_than_devices_are_refused() {
        refused(&[("gpus", "3")], &gpu_node(2), "2 usable GPUs, not 3");
        refused(&[("gpus", "5")], &cpu_node(), "4 CPUs for 5 CPU ranks");
    }

    #[test]
    fn gpus_in_mig_mode_are_not_used() {
        let mut node = gpu_node(1);
        node.gpus[0].mig = true;
        refused(&[], &node, "MIG GPUs cannot be used");
    }

    #[test]
    fn a_set_smaller_than_a_batch_or_larger_than_the_data_is_refused() {
        refused(&[("train_images", "63")], &cpu_node(), "63 training images do not fill a batch of 64");
        accepted(&[("train_images", "64")], &cpu_node());
        let two = |strategy| [("train_images", "64"), ("gpus", "2"), ("strategy", strategy)];
        refused(&two("ddp-ds"), &cpu_node(), "64 training images do not fill a batch of 128");
        accepted(&two("ddp"), &cpu_node());
        refused(&[("train_images", "60001")], &cpu_node(), "use 60000 or fewer");
        refused(&[("test_images", "10001")], &cpu_node(), "use 10000 or fewer");
    }

    #[test]
    fn what_does_not_fit_says_how_much_of_how_much() {
        let big = [("precision", "fp64"), ("image_size", "500"), ("batch_size", "256")];
        let reason_of_gpu = reason(&plan(&big), &gpu_node(1));
        assert!(reason_of_gpu.starts_with("does not fit: ") && reason_of_gpu.contains(" of 141 GB"), "{reason_of_gpu}");
        let mut limited = plan(&[("image_size", "224")]);
        limited.limits.memory_limit_gb = Some(3.5);
        assert!(reason(&limited, &gpu_node(1)).contains(" of 3.5 GB"));
        limited.limits.memory_limit_gb = Some(94.0);
        assert_eq!(reason(&limited, &gpu_node(1)), "");
        let mut small = cpu_node();
        small.memory_bytes = 400_000_000;
        refused(&[], &small, "of 0.4 GB");
    }
}
