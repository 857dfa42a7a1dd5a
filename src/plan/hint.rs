//! Hints: what other rooms need to know about a level without knowing its workload.

use serde::{Deserialize, Serialize};
use strum::VariantArray;

/// The meaning of a level for code that knows no workload: how a recording proves the level, which measured rate limits its runs, how its
/// units are counted.
///
/// A level may have several hints, or none. A recording proves nothing about a level without hints, so runs are never marked because such a
/// level was not in effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hint {
    /// Convolutions and matrix products multiply numbers of this format. The device's measured rate for it limits the run; the names
    /// of kernels prove it.
    Multiplies(NumberFormat),
    /// On GPUs, products that another level computes in the first format may be computed in the second instead.
    Lowers(NumberFormat, NumberFormat),
    /// Tensors have their dimensions in this order; the names of kernels prove it.
    Layout(TensorLayout),
    /// Batches are copied to the GPU from page-locked memory, or, if false, from pageable memory; the copies prove it.
    PinnedCopies(bool),
    /// Batches are on the GPU before the steps: copies in a recording prove nothing about [`Self::PinnedCopies`].
    NoCopies,
    /// Processes and GPUs share the work in this way; the processes that ran kernels, and their collectives, prove it.
    Parallelism(Parallelism),
    /// Steps are replayed as CUDA graphs after this number of steps; launches of graphs prove it.
    GraphsAfter(u64),
    /// Steps are never replayed as CUDA graphs; a recording without launches of graphs proves it.
    NoGraphs,
    /// Every rank processes all units, which count once. Since protocol 2 ranks report this themselves, as `unit_copies`.
    SharedUnits,
}

/// The format of the numbers that a kernel multiplies. A kernel's format is the first one in this list that has a word in the kernel's
/// name: names also contain the types of results, so narrow formats come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, VariantArray)]
#[serde(rename_all = "lowercase")]
pub enum NumberFormat {
    /// Numbers of 8 bits with 4 bits of exponent and 3 of mantissa (e4m3), or 5 and 2 (e5m2).
    Fp8,
    /// Single precision with mantissas of 10 bits, on tensor cores.
    Tf32,
    /// bfloat16.
    Bf16,
    /// Half precision.
    Fp16,
    /// Double precision.
    Fp64,
    /// Single precision.
    Fp32,
}

impl NumberFormat {
    /// Its name in traces, and the key of its measured rate: `fp16`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fp8 => "fp8",
            Self::Tf32 => "tf32",
            Self::Bf16 => "bf16",
            Self::Fp16 => "fp16",
            Self::Fp64 => "fp64",
            Self::Fp32 => "fp32",
        }
    }

    /// The lower-case words in the names of NVIDIA's kernels that multiply such numbers. Those between underscores are of cuBLAS's kernels
    /// `nvjet`, whose names may have the architecture before: `nvjet_tst_…`, `nvjet_sm90_tst_…`.
    pub fn words(self) -> &'static [&'static str] {
        match self {
            Self::Fp8 => &["e4m3", "e5m2", "_qqtst_", "_qqhsh_"],
            // cutlass marks its TF32 kernels by the name of the instruction only.
            Self::Tf32 => &["tf32", "tensorop_s1688gemm", "_sss_"],
            Self::Bf16 => &["bf16", "bfloat16", "_tst_", "_tss_", "_ttt_"],
            Self::Fp16 => &["f16", "fp16", "half", "hgemm", "h884", "h1688", "h16816", "_hsh_", "_hss_", "_hhh_"],
            Self::Fp64 => &["f64", "dgemm", "d884", "_ddd_"],
            Self::Fp32 => &["f32", "sgemm"],
        }
    }

    /// Whether libraries use it only on request, so that a small share of a recording's time proves that it was requested.
    pub fn is_reduced(self) -> bool {
        match self {
            Self::Fp8 | Self::Tf32 | Self::Bf16 | Self::Fp16 => true,
            Self::Fp64 | Self::Fp32 => false,
        }
    }
}

/// The order of an image tensor's dimensions: batch (n), channels (c), height (h), width (w).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TensorLayout {
    /// Channel by channel.
    Nchw,
    /// Pixel by pixel: channels last.
    Nhwc,
}

impl TensorLayout {
    /// Its name in traces, and in the names of kernels.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nchw => "nchw",
            Self::Nhwc => "nhwc",
        }
    }
}

/// How processes and GPUs share the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Parallelism {
    /// One process on one GPU.
    Single,
    /// One process on several GPUs: PyTorch's DataParallel.
    Dp,
    /// One process for each GPU, each with the whole model; gradients are all-reduced: DistributedDataParallel.
    Ddp,
    /// One process for each GPU, each with a part of the model; parameters are gathered, gradients scattered.
    Sharded,
}

impl Parallelism {
    /// Its name in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Dp => "dp",
            Self::Ddp => "ddp",
            Self::Sharded => "sharded",
        }
    }
}
