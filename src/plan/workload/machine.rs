//! Checks of a machine that all workloads share: the devices and memory that the ranks of a cell can use, and what is missing.

use super::NODES;
use crate::plan::{CudaState, Gpu, Limits, Node, counted};

/// GPUs that can run a rank: those without MIG mode.
pub(super) fn usable_gpus(node: &Node) -> impl Iterator<Item = &Gpu> {
    node.gpus.iter().filter(|gpu| !gpu.mig)
}

/// Why a run cannot span this number of nodes. `node` is this machine, or stands for the nodes of a site. `None` if
/// there are enough nodes.
pub(super) fn no_nodes(node: &Node, nodes: u32) -> Option<String> {
    let hostname = &node.hostname;
    if nodes > 1 && node.nodes == 1 {
        return Some(format!(
            "{NODES} = {nodes}: the run needs {nodes} machines, and {hostname} is one: run the plan at a site with that many nodes \
             ([where] or --site, see `multicard help slurm`)"
        ));
    }
    (nodes > node.nodes).then(|| {
        format!("{NODES} = {nodes}: the partition of {hostname} has {}: use fewer", counted(node.nodes, "node"))
    })
}

/// The memory that one rank may use: the smallest usable GPU's memory, or the rank's share of the host's; at most the
/// plan's limit. The memory of a site's GPUs is unknown. `ranks` is the number of ranks on one node.
pub(super) fn memory_per_rank_bytes(node: &Node, limits: &Limits, ranks: usize) -> u64 {
    let device = if node.has_cuda() {
        let known = usable_gpus(node).map(|gpu| gpu.memory_bytes).filter(|bytes| *bytes > 0);
        known.min().unwrap_or(u64::MAX)
    } else {
        node.memory_bytes / ranks.max(1) as u64
    };
    limits.memory_limit_bytes().map_or(device, |limit| limit.min(device))
}

/// Why a node has too few devices for this number of ranks; `None` if it has enough. Devices are GPUs if CUDA can be
/// used, and CPUs otherwise.
pub(super) fn no_devices(node: &Node, ranks: usize) -> Option<String> {
    let hostname = &node.hostname;
    if !node.has_cuda() {
        let cpus = counted(node.cpus, "CPU");
        return (ranks > node.cpus as usize)
            .then(|| format!("{hostname} has no usable GPUs and {cpus} for {ranks} CPU ranks: use fewer"));
    }
    let usable = usable_gpus(node).count();
    let split = node.gpus.len() - usable;
    (ranks > usable).then(|| {
        if ranks <= node.gpus.len() {
            format!("MIG GPUs cannot be used, and {split} of {} are in MIG mode: turn MIG off", node.gpus.len())
        } else {
            format!("{hostname} has {usable} usable GPUs, not {ranks}: use fewer")
        }
    })
}

/// The needed and the available memory in words, in GB; `None` if there is enough.
pub(super) fn shortage(needed: u64, available: u64) -> Option<String> {
    (needed > available).then(|| {
        let (needed, available) = (needed as f64 / 1e9, available as f64 / 1e9);
        // The needed amount is rounded up and the available one down, so that 94.2 of 94 does not read "94 of 94".
        let scale = if available < 10.0 { 10.0 } else { 1.0 };
        let (needed, available) = ((needed * scale).ceil() / scale, (available * scale).floor() / scale);
        format!("{needed} of {available} GB")
    })
}

/// Why a level that needs CUDA cannot run on this machine, and what to use instead; `None` if it can. The text names what is missing in a
/// few words; `multicard doctor` says what to do about it.
pub(super) fn without_cuda(node: &Node, what: &str, remedy: &str) -> Option<String> {
    let why = no_cuda(node)?;
    Some(if node.gpus.is_empty() {
        let found = why.split([':', '(']).next().unwrap_or(&why).trim_end();
        format!("{what} needs an NVIDIA GPU ({found}; see `multicard doctor`): {remedy}")
    } else {
        format!("{what} needs CUDA ({why}): {remedy}")
    })
}

/// Why runs cannot use CUDA on this machine; `None` if they can.
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
