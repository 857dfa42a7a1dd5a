//! The levels of one `image` cell as types.

use super::super::nodes::Nodes;
use super::super::typed::{binding, count, levels, number, switch};
use crate::plan::{
    Binding, CUDA_GRAPH_WARM_UP_STEPS, GPUS, GpuChoice, Hint, Kernels, Levels, NumberFormat, OptimizerImpl,
    Parallelism, Passes, Shape, TensorLayout,
};

levels! {
    /// The arithmetic of training.
    Precision = "precision" {
        /// Single precision throughout.
        Fp32 = "fp32",
        /// Double precision throughout.
        Fp64 = "fp64",
        /// Mixed: autocast to half, weights in fp32, dynamic loss scaling.
        Fp16 = "fp16",
        /// Mixed: autocast to bfloat16, weights in fp32.
        Bf16 = "bf16",
    }
}
levels! {
    /// Whether fp32 arithmetic may use TF32 tensor cores.
    Tf32 = "tf32" {
        /// Strict fp32.
        Off = "off",
        /// cuDNN's convolutions only: PyTorch's own default.
        Conv = "conv",
        /// Convolutions and matrix products.
        All = "all",
    }
}
levels! {
    /// The type in which images travel to the GPU.
    WireDtype = "wire_dtype" {
        /// The run's precision, as the papers did.
        Run = "run",
        /// Single precision.
        Fp32 = "fp32",
        /// Bytes; normalised on the device.
        Uint8 = "uint8",
    }
}
levels! {
    /// How cuDNN's algorithms are chosen.
    CudnnBenchmark = "cudnn_benchmark" {
        /// Each run tries them and keeps the fastest.
        On = "on",
        /// cuDNN's first proposal.
        Off = "off",
        /// The algorithms that an earlier run found; where there are none, they are tried and stored.
        Kept = "kept",
    }
}
levels! {
    /// The memory format of images and weights.
    Layout = "layout" {
        /// Contiguous.
        Nchw = "nchw",
        /// Channels last.
        Nhwc = "nhwc",
    }
}
levels! {
    /// What prepares batches.
    Loader = "loader" {
        /// Threads on the CPU, as PyTorch's DataLoader does with processes.
        Host = "host",
        /// NVIDIA DALI.
        Dali = "dali",
        /// The bytes live on the GPU and are prepared there.
        Device = "device",
    }
}
levels! {
    /// Which images (2505.22905 section 4.1).
    Scenario = "scenario" {
        /// 28×28 digits, upsampled.
        A = "a",
        /// 300×300 colour files.
        B = "b",
    }
}
levels! {
    /// How the work is spread over ranks (2503.15252 section 3.2).
    Strategy = "strategy" {
        /// DDP with DistributedSampler: each rank loads its own share.
        DdpDs = "ddp-ds",
        /// One rank, no communication.
        Single = "single",
        /// DataParallel: one process with one thread for each GPU.
        Dp = "dp",
        /// DDP without distribution: every rank processes everything.
        Ddp = "ddp",
        /// DDP round-robin: every rank receives everything and processes its share.
        DdpRr = "ddp-rr",
        /// FSDP: parameters, gradients and momentum are sharded over the ranks, and each rank loads its own share of the data.
        Fsdp = "fsdp",
    }
}
levels! {
    /// How gradients change weights.
    UpdateRule = "optimizer" {
        /// Gradient descent with momentum 0.9.
        Sgd = "sgd",
        /// Adam (arXiv 1412.6980), with betas of 0.9 and 0.999.
        Adam = "adam",
        /// Adam with decoupled weight decay (arXiv 1711.05101) of 0.01.
        Adamw = "adamw",
    }
}
levels! {
    /// Copies of the data set in memory.
    DataCopy = "data_copy" {
        /// One copy for each rank.
        PerRank = "per_rank",
        /// One copy for each node.
        Shared = "shared",
    }
}

impl Precision {
    /// The format of the numbers that convolutions and matrix products multiply.
    pub(super) fn number_format(self) -> NumberFormat {
        match self {
            Self::Fp32 => NumberFormat::Fp32,
            Self::Fp64 => NumberFormat::Fp64,
            Self::Fp16 => NumberFormat::Fp16,
            Self::Bf16 => NumberFormat::Bf16,
        }
    }
}

impl Tf32 {
    /// How it changes products in fp32.
    pub(super) fn lowers(self) -> Option<Hint> {
        match self {
            Self::Off => None,
            Self::Conv | Self::All => Some(Hint::Lowers(NumberFormat::Fp32, NumberFormat::Tf32)),
        }
    }
}

impl Layout {
    /// The order of the dimensions of images and weights.
    pub(super) fn order(self) -> TensorLayout {
        match self {
            Self::Nchw => TensorLayout::Nchw,
            Self::Nhwc => TensorLayout::Nhwc,
        }
    }
}

impl Strategy {
    /// How processes and GPUs share the work.
    pub(super) fn parallelism(self) -> Parallelism {
        match self {
            Self::Single => Parallelism::Single,
            Self::Dp => Parallelism::Dp,
            Self::DdpDs | Self::Ddp | Self::DdpRr => Parallelism::Ddp,
            Self::Fsdp => Parallelism::Sharded,
        }
    }
}

/// How batch normalisation behaves over ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchNorm {
    /// Whether rank 0's running statistics are sent to all ranks before each forward pass.
    pub broadcast_buffers: bool,
    /// Whether statistics are computed over all ranks.
    pub synchronised: bool,
}

/// The levels of an `image` cell, typed.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageSettings {
    /// The arithmetic of training.
    pub precision: Precision,
    /// Whether fp32 arithmetic may use TF32.
    pub tf32: Tf32,
    /// The type in which images travel to the GPU.
    pub wire_dtype: WireDtype,
    /// Whether batches are staged in page-locked memory and copied without blocking.
    pub pin_memory: bool,
    /// The memory format of images and weights.
    pub layout: Layout,
    /// The passes of a step: training or inference.
    pub passes: Passes,
    /// The kernels that compute a training step.
    pub kernels: Kernels,
    /// What prepares batches.
    pub loader: Loader,
    /// Loader threads per rank.
    pub loader_workers: usize,
    /// Whether the loader's threads are kept between epochs.
    pub persistent_workers: bool,
    /// Which images.
    pub scenario: Scenario,
    /// How the work is spread over ranks.
    pub strategy: Strategy,
    /// The number of ranks on all nodes together.
    pub gpus: usize,
    /// How the ranks are spread over nodes.
    pub nodes: Nodes,
    /// How the ranks' GPUs are chosen among the node's.
    pub gpu_choice: GpuChoice,
    /// Binding to NUMA nodes.
    pub numa: Binding,
    /// Copies of the data set in memory.
    pub data_copy: DataCopy,
    /// How batch normalisation behaves over ranks.
    pub batch_norm: BatchNorm,
    /// Whether the whole step is captured and replayed.
    pub cuda_graph: bool,
    /// How gradients change weights.
    pub optimizer: UpdateRule,
    /// How the optimizer's update is computed.
    pub optimizer_impl: OptimizerImpl,
    /// How cuDNN's algorithms are chosen.
    pub cudnn_benchmark: CudnnBenchmark,
    /// Whether only algorithms with bitwise reproducible results are used.
    pub deterministic: bool,
    /// Width and height of the images that the model sees, in pixels.
    pub image_size: i64,
    /// Images per rank and step.
    pub batch_size: usize,
    /// Passes over the training set.
    pub epochs: usize,
    /// The optimizer's learning rate.
    pub learning_rate: f64,
    /// MobileNetV2's width multiplier.
    pub width_multiplier: f64,
    /// Training images used, from the start of the set.
    pub train_images: usize,
    /// Test images used, from the start of the set.
    pub test_images: usize,
}

impl ImageSettings {
    /// The processes of a run and its number of steps.
    pub fn shape(&self) -> Shape {
        let gpus = u32::try_from(self.gpus).unwrap_or(u32::MAX);
        // All GPUs are used by the threads of one process.
        let (processes, devices_per_process) = if self.strategy == Strategy::Dp { (1, gpus) } else { (gpus, 1) };
        Shape {
            processes,
            devices_per_process,
            binding: self.numa,
            gpu_choice: self.gpu_choice,
            steps: self.steps(),
            units_per_step: self.batch_size.saturating_mul(self.gpus) as u64,
            warm_up_steps: if self.cuda_graph { CUDA_GRAPH_WARM_UP_STEPS } else { 0 },
            cuda_graph: self.cuda_graph,
            own_program: false,
            ranks_per_node: 0,
            rank_nodes: self.nodes.count,
        }
    }

    /// The number of ranks on each node.
    pub(super) fn gpus_of_node(&self) -> usize {
        self.nodes.share(self.gpus)
    }

    /// Steps of a rank over all epochs; incomplete batches are dropped.
    pub fn steps(&self) -> u64 {
        // Under `ddp` each rank trains on the whole set.
        let shares = if self.strategy == Strategy::Ddp { 1 } else { self.gpus.max(1) };
        (self.train_images / self.batch_size.max(1).saturating_mul(shares)) as u64 * self.epochs as u64
    }

    /// Reads a cell's levels; the error names the factor that is missing or wrong.
    pub fn from_levels(levels: &Levels) -> Result<Self, String> {
        let switch = |key: &str| switch(levels, key);
        let count = |key: &str| count(levels, key);
        let number = |key: &str| number(levels, key);
        Ok(Self {
            precision: Precision::read(levels)?,
            tf32: Tf32::read(levels)?,
            wire_dtype: WireDtype::read(levels)?,
            pin_memory: switch("pin_memory")?,
            layout: Layout::read(levels)?,
            passes: Passes::read(levels)?,
            kernels: Kernels::read(levels)?,
            loader: Loader::read(levels)?,
            loader_workers: count("loader_workers")?,
            persistent_workers: switch("persistent_workers")?,
            scenario: Scenario::read(levels)?,
            strategy: Strategy::read(levels)?,
            gpus: count(GPUS)?,
            nodes: Nodes::read(levels)?,
            gpu_choice: GpuChoice::read(levels)?,
            numa: binding(levels)?,
            data_copy: DataCopy::read(levels)?,
            batch_norm: BatchNorm {
                broadcast_buffers: switch("broadcast_buffers")?,
                synchronised: switch("sync_batch_norm")?,
            },
            cuda_graph: switch("cuda_graph")?,
            optimizer: UpdateRule::read(levels)?,
            optimizer_impl: OptimizerImpl::read(levels)?,
            cudnn_benchmark: CudnnBenchmark::read(levels)?,
            deterministic: switch("deterministic")?,
            image_size: count("image_size")? as i64,
            batch_size: count("batch_size")?,
            epochs: count("epochs")?,
            learning_rate: number("learning_rate")?,
            width_multiplier: number("width_multiplier")?,
            train_images: count("train_images")?,
            test_images: count("test_images")?,
        })
    }
}
