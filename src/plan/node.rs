//! What a machine offers: the facts that decide which cells are valid and how long they take.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// One GPU that may be used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    /// The index that CUDA gives the GPU in this process's environment.
    pub index: u32,
    /// The identity that does not depend on the environment: `GPU-…`.
    pub uuid: String,
    /// The product name, such as `NVIDIA H100 80GB HBM3`.
    pub name: String,
    /// The size of its memory, including memory in use.
    pub memory_bytes: u64,
    /// The NUMA node that it is attached to, if the machine reports it.
    pub numa_node: Option<u32>,
    /// MIG mode is on: the GPU as a whole cannot be used.
    pub mig: bool,
    /// Its compute capability, such as 9.0; `None` if it is unknown, as for the GPUs of a site and in sessions of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_capability: Option<(u32, u32)>,
}

/// Whether CUDA can be used from the worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum CudaState {
    /// CUDA can be used.
    Available,
    /// CUDA cannot be used.
    Unavailable {
        /// Why CUDA cannot be used, and what to do.
        reason: String,
    },
}

/// Versions of the worker and of the libraries that it has loaded; `None` for libraries that are not loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// The git commit that the worker was built from, if the build knew it.
    pub build: Option<String>,
    /// The CUDA runtime: `13.0`.
    pub cuda_runtime: Option<String>,
    /// cuDNN: `9.15.1`.
    pub cudnn: Option<String>,
    /// NCCL: `2.28.9`.
    pub nccl: Option<String>,
}

/// The worker binary, as its `describe` command reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worker {
    /// Where it is.
    pub path: PathBuf,
    /// The version of multicard that it was built from.
    pub version: String,
    /// The protocol version that it uses.
    pub protocol_version: u32,
    /// libtorch's version.
    pub torch_version: String,
    /// Whether CUDA is usable, as the worker sees it.
    pub cuda: CudaState,
    /// The folder of NVIDIA DALI's libraries, or why there are none and how to get them.
    #[serde(default = "dali_unknown")]
    pub dali: Result<PathBuf, String>,
    /// Versions of its build and its libraries.
    #[serde(default)]
    pub versions: Versions,
}

/// The value for a worker whose description comes from a version without DALI.
fn dali_unknown() -> Result<PathBuf, String> {
    Err("it was not looked for".to_owned())
}

/// A profiler that can trace runs: the command line of Nsight Systems.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nsys {
    /// Where it is.
    pub path: PathBuf,
    /// The version that it reports.
    pub version: String,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Its name.
    pub hostname: String,
    /// The operating system and kernel.
    pub system: String,
    /// The processor's product name.
    pub cpu_model: String,
    /// CPUs that this process may use: by affinity and by the cgroup's quota.
    pub cpus: u32,
    /// Memory that this process may use: the machine's or the cgroup's limit, whichever is less.
    pub memory_bytes: u64,
    /// The number of the machine's NUMA nodes.
    pub numa_nodes: u32,
    /// The NVIDIA driver's version.
    pub driver: Option<String>,
    /// Why no GPU is listed; `None` if there are GPUs.
    pub no_gpu_reason: Option<String>,
    /// GPUs that this process may use (it obeys `CUDA_VISIBLE_DEVICES`).
    pub gpus: Vec<Gpu>,
    /// Nodes that a run may span: 1 for a machine, and the number of nodes of its partition for the largest node of a site.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub nodes: u32,
    /// The worker, or why there is none and how to get it.
    pub worker: Result<Worker, String>,
    /// Nsight Systems, or the places where it was not found.
    #[serde(default = "not_looked_for")]
    pub nsys: Result<Nsys, String>,
    /// The library with which the built-in tracer records CUDA's activity, or why it cannot record any on this machine.
    #[serde(default = "tracer_unknown")]
    pub tracer: Result<PathBuf, String>,
}

/// The value for a machine that an earlier version described.
fn tracer_unknown() -> Result<PathBuf, String> {
    Err("it was not looked for".to_owned())
}

/// The value for a machine that an earlier version described.
fn not_looked_for() -> Result<Nsys, String> {
    Err("not looked for".to_owned())
}

/// The number of nodes that files leave out.
pub(super) fn one() -> u32 {
    1
}

/// Whether files leave out this number of nodes.
pub(super) fn is_one(nodes: &u32) -> bool {
    *nodes == 1
}

impl Node {
    /// Whether runs use GPUs on this machine: there are GPUs, and the worker can use CUDA.
    pub fn has_cuda(&self) -> bool {
        !self.gpus.is_empty() && self.worker.as_ref().is_ok_and(|worker| worker.cuda == CudaState::Available)
    }
}
