//! The registry of factors: every knob that a plan may turn, its levels, and what it is good for.
//!
//! The order here is the order of columns, cards and identities everywhere.

use super::Workload;
use super::image::{DataCopy, Layout, Loader, Numa, OptimizerImpl, Precision, Scenario, Strategy, Tf32, WireDtype};
use super::level::Level;

/// Which values a factor takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Domain {
    /// Named levels, the default first.
    Names(&'static [&'static str]),
    /// Whole numbers from `min` to `max`.
    Integer {
        /// The least.
        min: i64,
        /// The greatest.
        max: i64,
        /// The level of a plan that does not say.
        default: i64,
    },
    /// Real numbers from `min` to `max`.
    Number {
        /// The least.
        min: f64,
        /// The greatest.
        max: f64,
        /// The level of a plan that does not say.
        default: f64,
    },
}

/// One knob.
#[derive(Clone, Copy, Debug)]
pub struct Factor {
    /// The key in plans.
    pub key: &'static str,
    /// The name on screen.
    pub name: &'static str,
    /// The unit of its values; empty for named levels and counts.
    pub unit: &'static str,
    /// Which values it takes.
    pub domain: Domain,
    /// One line: what it changes and what to expect.
    pub help: &'static str,
    /// What the papers found, with the place; empty where they say nothing.
    pub finding: &'static str,
}

impl Factor {
    /// The level of a plan that does not say.
    pub fn default_level(&self) -> Level {
        match self.domain {
            Domain::Names(names) => Level::text(names[0]),
            Domain::Integer { default, .. } => Level::Integer(default),
            Domain::Number { default, .. } => Level::Number(default),
        }
    }
}

const OFF_ON: Domain = Domain::Names(&["off", "on"]);
const ON_OFF: Domain = Domain::Names(&["on", "off"]);

const fn count(min: i64, max: i64, default: i64) -> Domain {
    Domain::Integer { min, max, default }
}

/// The factors of the `image` workload.
pub const IMAGE: &[Factor] = &[
    Factor {
        key: Precision::KEY,
        name: "Precision",
        unit: "",
        domain: Domain::Names(Precision::NAMES),
        help: "The arithmetic of training. fp16 and bf16 are mixed: autocast, weights stay in fp32.",
        finding: "Against fp64, fp32 is 54-68 % and fp16 110-152 % faster at equal accuracy (2503.15252 Table 2).",
    },
    Factor {
        key: Tf32::KEY,
        name: "TF32",
        unit: "",
        domain: Domain::Names(Tf32::NAMES),
        help: "Whether fp32 may use tensor cores with 10-bit mantissas: nowhere, in convolutions, everywhere.",
        finding: "The papers' FP32 was most likely `conv`, PyTorch's own default.",
    },
    Factor {
        key: WireDtype::KEY,
        name: "Wire type",
        unit: "",
        domain: Domain::Names(WireDtype::NAMES),
        help: "The type in which images travel to the GPU; `run` is the run's precision.",
        finding: "Host-to-device copies took 226 s in FP64, 104 s in FP32, 50 s in FP16 (2503.15252 section 3.4).",
    },
    Factor {
        key: "pin_memory",
        name: "pin_memory",
        unit: "",
        domain: OFF_ON,
        help: "Batches are staged in page-locked memory and copied without blocking the host.",
        finding: "16-30 % faster, less with more GPUs (2503.15252 Table 3).",
    },
    Factor {
        key: Layout::KEY,
        name: "Layout",
        unit: "",
        domain: Domain::Names(Layout::NAMES),
        help: "The memory format of images and weights; tensor cores want nhwc (channels last).",
        finding: "nhwc brings PyTorch's DataLoader close to DALI on 1 and 2 GPUs (2505.22905 Fig. 9).",
    },
    Factor {
        key: Loader::KEY,
        name: "Loader",
        unit: "",
        domain: Domain::Names(Loader::NAMES),
        help: "Who prepares batches: threads on the CPU, NVIDIA DALI (`make dali`), or the GPU from bytes that live there.",
        finding: "DALI shows no pauses between epochs on 3-4 GPUs, the DataLoader does (2505.22905 Fig. 6-8).",
    },
    Factor {
        key: "loader_workers",
        name: "Loader workers",
        unit: "threads",
        domain: count(1, 256, 8),
        help: "Loader threads a rank. More than the rank's share of CPUs does not help.",
        finding: "",
    },
    Factor {
        key: "persistent_workers",
        name: "Persistent workers",
        unit: "",
        domain: OFF_ON,
        help: "The loader's threads live over epochs, or are started anew for each.",
        finding: "Restarted loaders pause before each epoch on 3-4 GPUs (2505.22905 Fig. 7).",
    },
    Factor {
        key: Scenario::KEY,
        name: "Scenario",
        unit: "",
        domain: Domain::Names(Scenario::NAMES),
        help: "a: 28×28 digits, upsampled for each batch. b: 300×300 colour files, normalised only.",
        finding: "b moves the cost from arithmetic on the CPU to memory traffic (2505.22905 section 3).",
    },
    Factor {
        key: Strategy::KEY,
        name: "Strategy",
        unit: "",
        domain: Domain::Names(Strategy::NAMES),
        help: "How the work is spread over GPUs. ddp-ds: each rank loads and processes its own share.",
        finding: "ddp-ds scales with the GPUs, ddp and ddp-rr do not (2503.15252 Fig. 1).",
    },
    Factor {
        key: "gpus",
        name: "GPUs",
        unit: "",
        domain: count(1, 64, 1),
        help: "Ranks, one a GPU, or threads of one rank under dp; on a machine without GPUs, on CPUs.",
        finding: "4 GPUs bring 3.23× in FP64 and 2.70× in FP16 (2503.15252 Table 2).",
    },
    Factor {
        key: Numa::KEY,
        name: "NUMA",
        unit: "",
        domain: Domain::Names(Numa::NAMES),
        help: "Binding of ranks and their memory to NUMA nodes: off as the system pleases, local next to the rank's GPU (CPU ranks \
               spread over the nodes), interleave with memory spread and CPUs free, first-node with all on the first. On a \
               machine of one node it is done and proven, and has no effect.",
        finding: "Memory of the second socket's ranks on the first is suspected behind the pauses on 3-4 GPUs (2505.22905).",
    },
    Factor {
        key: DataCopy::KEY,
        name: "Data copy",
        unit: "",
        domain: Domain::Names(DataCopy::NAMES),
        help: "One copy of the data set in memory for each rank, or one for the node.",
        finding: "",
    },
    Factor {
        key: "broadcast_buffers",
        name: "Broadcast buffers",
        unit: "",
        domain: ON_OFF,
        help: "Rank 0's batch-norm statistics are sent to all ranks before each forward pass.",
        finding: "",
    },
    Factor {
        key: "sync_batch_norm",
        name: "Synchronised batch norm",
        unit: "",
        domain: OFF_ON,
        help: "Batch statistics are computed over all ranks: closer to one big batch, more communication.",
        finding: "",
    },
    Factor {
        key: "cuda_graph",
        name: "CUDA graph",
        unit: "",
        domain: OFF_ON,
        help: "The whole step is captured once and replayed from step 12 on: removes launch costs, which bind small images.",
        finding: "",
    },
    Factor {
        key: OptimizerImpl::KEY,
        name: "Optimizer",
        unit: "",
        domain: Domain::Names(OptimizerImpl::NAMES),
        help: "SGD's update as one kernel for all parameters, a few, or several for each parameter.",
        finding: "",
    },
    Factor {
        key: "cudnn_benchmark",
        name: "cuDNN benchmark",
        unit: "",
        domain: ON_OFF,
        help: "cuDNN tries its algorithms in the first steps and keeps the fastest.",
        finding: "",
    },
    Factor {
        key: "deterministic",
        name: "Deterministic",
        unit: "",
        domain: OFF_ON,
        help: "Only algorithms that give the same bits each time; slower. Turns cuDNN's benchmark off.",
        finding: "",
    },
    Factor {
        key: "image_size",
        name: "Image size",
        unit: "px",
        domain: count(28, 2048, 100),
        help: "Width and height of the images the model sees. Work grows with its square.",
        finding: "More GPUs pay only where images are large enough (2503.15252 Fig. 2).",
    },
    Factor {
        key: "batch_size",
        name: "Batch size",
        unit: "images per GPU",
        domain: count(1, 65_536, 64),
        help: "Images a GPU and step.",
        finding: "",
    },
    Factor {
        key: "epochs",
        name: "Epochs",
        unit: "",
        domain: count(1, 100_000, 1),
        help: "Passes over the training set.",
        finding: "98-99 % accuracy within 20 epochs (2505.22905 section 3).",
    },
    Factor {
        key: "learning_rate",
        name: "Learning rate",
        unit: "",
        domain: Domain::Number { min: 0.0, max: 100.0, default: 0.01 },
        help: "SGD's step size; momentum is 0.9.",
        finding: "",
    },
    Factor {
        key: "width_multiplier",
        name: "Width multiplier",
        unit: "×",
        domain: Domain::Number { min: 0.1, max: 4.0, default: 1.0 },
        help: "Scales MobileNetV2's channels.",
        finding: "",
    },
    Factor {
        key: "train_images",
        name: "Training images",
        unit: "",
        domain: count(1, 100_000_000, 60_000),
        help: "Images used for training, from the start of the set.",
        finding: "",
    },
    Factor {
        key: "test_images",
        name: "Test images",
        unit: "",
        domain: count(1, 100_000_000, 10_000),
        help: "Images used for the test, from the start of the set.",
        finding: "",
    },
];

/// The factors of a workload, in registry order.
pub fn factors(workload: Workload) -> &'static [Factor] {
    match workload {
        Workload::Image => IMAGE,
        // Not there yet: plans of these workloads are refused with a message that says so.
        Workload::Llm | Workload::Command => &[],
    }
}

/// A factor by its key.
pub fn factor(workload: Workload, key: &str) -> Option<&'static Factor> {
    factors(workload).iter().find(|factor| factor.key == key)
}

/// The registry's own copy of a key, whatever the workload.
pub(super) fn static_key(key: &str) -> Option<&'static str> {
    Workload::ALL.into_iter().find_map(|workload| factor(workload, key)).map(|factor| factor.key)
}
