//! Estimates of a run's time and of its memory by kind, made before it starts.

use super::super::machine::usable_gpus;
use super::model::ModelConfig;
use super::settings::{FsdpWrap, LlmSettings, Precision, Technique};
use super::stand_in::Lengths;
use crate::plan::{Estimate, Kernels, MemoryKinds, Node, OptimizerImpl, Passes};

/// CUDA's context and libraries on a GPU, which the allocator does not count.
const CUDA_CONTEXT_BYTES: f64 = 0.6e9;
/// libtorch in a process without a GPU.
const PROCESS_BYTES: f64 = 0.4e9;
/// Host memory of a process with CUDA: a guess from what it maps.
const CUDA_PROCESS_BYTES: f64 = 2e9;
/// cuBLAS's workspace, transient gradients of activations and the allocator's rounding, on a GPU.
const WORKSPACE_BYTES: f64 = 0.2e9;

/// Rows of logits that the fused loss computes at a time.
const FUSED_LOGIT_ROWS: f64 = 1024.0;
/// Parts of a batch whose logits the plain loss computes one after another.
const LOGIT_PARTS: f64 = 8.0;
/// Bandwidth at which a rank receives over NVLink: a guess below what NCCL's tests show between two H200s.
const GATHER_BYTES_PER_S: f64 = 300e9;
/// Size of a number in NF4: half a byte plus its share of the block's scale and of the scales' factor.
const NF4_BYTES: f64 = 0.5 + 1.0 / 64.0 + 4.0 / (64.0 * 256.0);

/// Size of a token in host memory: its id, and whether it is masked.
const HELD_BYTES: f64 = 5.0;

/// One rank's peak device memory by kind, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Memory {
    /// Weights of the model without adapters.
    pub(super) weights: f64,
    /// Weights of adapters.
    pub(super) adapters: f64,
    /// For a sharded model, the units that are gathered at the same time.
    pub(super) gathered: f64,
    /// Gradients of trained parameters.
    pub(super) gradients: f64,
    /// AdamW's two moments.
    pub(super) optimizer: f64,
    /// What autograd keeps for the longest micro-batch.
    pub(super) activations: f64,
    /// Logits of the longest micro-batch, in the types of the arithmetic and of the loss.
    pub(super) logits: f64,
    /// Memory of libraries and temporaries of the update.
    pub(super) workspace: f64,
}

impl Memory {
    /// Name and bytes of each kind.
    pub(super) fn kinds(&self) -> [(&'static str, f64); 8] {
        [
            ("weights", self.weights),
            ("adapters", self.adapters),
            ("gathered", self.gathered),
            ("gradients", self.gradients),
            ("optimizer", self.optimizer),
            ("activations", self.activations),
            ("logits", self.logits),
            ("workspace", self.workspace),
        ]
    }

    pub(super) fn sum(&self) -> f64 {
        self.kinds().iter().map(|(_, bytes)| bytes).sum()
    }
}

/// The bytes of one frozen weight, of one trained parameter, and of one number in computations.
fn sizes(precision: Precision) -> (f64, f64, f64) {
    match precision {
        Precision::Fp32 => (4.0, 4.0, 4.0),
        // The matrices in FP8 are counted apart.
        Precision::Bf16 | Precision::Fp8 => (2.0, 2.0, 2.0),
        Precision::Fp16 => (2.0, 4.0, 2.0),
    }
}

/// Estimates one rank's peak memory on its device.
///
/// Weights, gradients and AdamW's two moments take their counts times the size of their types. For each token and block,
/// autograd keeps the inputs of both norms (in fp32), of the projections, of attention and of the three products of the MLP:
/// `2 dim` in fp32 and `2 dim + 4 heads head_dim + 4 ffn` in the type of the arithmetic. With checkpointing, each block keeps
/// `dim`, and one block at a time keeps everything. Logits are kept in the type of the arithmetic and in fp32.
///
/// With `kernels = fused`, autograd keeps inputs and outputs of both norms, queries, keys, values, attention's output, gate and
/// up, all in the type of the arithmetic. Logits are computed for 1024 rows at a time, in that type only. These are rows of both sides
/// where DPO's policy and reference share a pass; autograd keeps nothing of the reference's.
///
/// Frozen matrices have spare columns for the adapters' B.
///
/// In FP8, each matrix of a block is stored twice in one byte, and the largest gradient of a projection's output is narrowed to FP8.
///
/// Under FSDP a rank holds its share of weights, gradients and moments, and two whole units at a time. With `fsdp_wrap = block`,
/// embedding and output layer stay whole as well.
///
/// TorchTune 0.5 on an H100, with Llama 3 8B and LoRA, peaked at 16.9 and 22.1 GiB (bf16, 240 and 1024 tokens) and at 33.2 and
/// 42.3 GiB (fp32). The estimate is within 2 % of these.
pub(super) fn memory(settings: &LlmSettings, model: &ModelConfig, rows: &Lengths) -> Memory {
    let (frozen, trained, arithmetic) = sizes(settings.precision);
    let adapters = settings.lora.map_or(0, |lora| model.adapter_parameters(lora.rank, lora.targets)) as f64;
    let parameters = model.parameters() as f64;
    let (weight, trainable) = if settings.lora.is_some() { (frozen, adapters) } else { (trained, parameters) };
    let matrices: f64 =
        model.projections().iter().map(|(_, from, out)| (from * out) as f64).sum::<f64>() * model.layers as f64;
    let weights = match settings.technique {
        Technique::Qlora => (parameters - matrices) * weight + matrices * NF4_BYTES,
        _ if settings.precision == Precision::Fp8 => (parameters - matrices) * weight + fp8_bytes(model),
        // With the frozen copy that it is compared with.
        Technique::DpoFull => 2.0 * parameters * weight,
        _ => (parameters + spare_numbers(settings, model)) * weight,
    };

    let micro_batch = settings.batch_size * settings.rows_per_sample() * rows.longest;
    let tokens = micro_batch as f64;
    // Fake quantisation keeps the quantised input of the output projection as well as attention's own output.
    let fake =
        if settings.technique == Technique::Qat { (model.heads * model.head_dim) as f64 * arithmetic } else { 0.0 };
    let block = kept_by_block(settings.kernels, model, arithmetic) + fake;
    let (layers, dim) = (model.layers as f64, model.dim as f64);
    let infers = settings.passes == Passes::Inference;
    let bytes_per_token = if infers {
        block
    } else if settings.activation_checkpointing {
        layers * dim * arithmetic + block
    } else {
        layers * block
    };
    let (logits, library) = match settings.kernels {
        Kernels::Plain if infers => (tokens / LOGIT_PARTS * (arithmetic + 4.0), WORKSPACE_BYTES),
        Kernels::Plain => (tokens * (arithmetic + 4.0), WORKSPACE_BYTES),
        Kernels::Fused => {
            let sides = if settings.joins_reference(micro_batch) { 2.0 } else { 1.0 };
            ((sides * tokens).min(FUSED_LOGIT_ROWS) * arithmetic, 0.0)
        }
    };

    let updated = if infers { 0.0 } else { trainable };
    // foreach needs one more copy of the trained parameters.
    let update = if settings.optimizer_impl == OptimizerImpl::Foreach && !infers { trainable * trained } else { 0.0 };
    // Each product first restores its quantised matrix.
    let read = match settings.technique {
        Technique::Qlora => {
            (2 * model.ffn).max(model.heads * model.head_dim + 2 * model.kv_heads * model.head_dim) * model.dim
        }
        Technique::Qat => (2 * model.ffn).max(if model.tied { 0 } else { model.vocabulary }) * model.dim,
        _ => 0,
    };
    // In the backward pass, the gradients of gate and up are in FP8. Without fused kernels, the same numbers in fp32 come before.
    let narrowed = match (settings.precision, settings.kernels) {
        (Precision::Fp8, Kernels::Fused) => tokens * 2.0 * model.ffn as f64,
        (Precision::Fp8, Kernels::Plain) => 5.0 * tokens * 2.0 * model.ffn as f64,
        _ => 0.0,
    };
    let share = if settings.sharded() { 1.0 / settings.gpus as f64 } else { 1.0 };
    Memory {
        weights: weights * share,
        adapters: adapters * trained * share,
        gathered: if settings.sharded() { gathered(settings, model, weight) } else { 0.0 },
        gradients: updated * trained * share,
        optimizer: 2.0 * updated * trained * share,
        activations: tokens * bytes_per_token,
        logits: logits * model.vocabulary as f64,
        workspace: library.min(0.1 * parameters * weight) + update + read as f64 * arithmetic + narrowed,
    }
}

/// The numbers in spare columns of frozen matrices.
fn spare_numbers(settings: &LlmSettings, model: &ModelConfig) -> f64 {
    let Some(lora) = &settings.lora else { return 0.0 };
    if settings.kernels != Kernels::Fused || settings.precision == Precision::Fp32 || settings.sharded() {
        return 0.0;
    }
    let [q, k, v, output, gate, up, down] = model.projections();
    // Projections of the same input form one matrix.
    let matrices = [&[q, k, v][..], &[output], &[gate, up], &[down]];
    let spare = matrices.map(|parts| {
        let rows: usize = parts.iter().map(|(_, _, out)| out).sum();
        rows * lora.spare_columns(parts.iter().map(|(name, ..)| *name))
    });
    (model.layers * spare.iter().sum::<usize>()) as f64
}

/// Bytes of the blocks' matrices in FP8: two bytes for each number, which is stored in two directions, and four for each scale.
fn fp8_bytes(model: &ModelConfig) -> f64 {
    let (queries, keys) = (model.heads * model.head_dim, model.kv_heads * model.head_dim);
    let matrices =
        [(model.dim, queries + 2 * keys), (queries, model.dim), (model.dim, 2 * model.ffn), (model.ffn, model.dim)];
    let bytes = matrices.map(|(from, out)| 2 * from * out + 4 * (from + out)).iter().sum::<usize>();
    (bytes * model.layers) as f64
}

/// Bytes that autograd keeps per token and block.
fn kept_by_block(kernels: Kernels, model: &ModelConfig, arithmetic: f64) -> f64 {
    let (dim, ffn) = (model.dim as f64, model.ffn as f64);
    let (queries, keys) = ((model.heads * model.head_dim) as f64, (model.kv_heads * model.head_dim) as f64);
    match kernels {
        Kernels::Plain => 2.0 * dim * 4.0 + (2.0 * dim + 4.0 * queries + 4.0 * ffn) * arithmetic,
        Kernels::Fused => {
            // Attention in fp32 needs a copy of keys and values for each query head.
            let repeated = if arithmetic == 4.0 && keys < queries { 2.0 * queries } else { 0.0 };
            (4.0 * dim + 2.0 * queries + 2.0 * keys + 2.0 * ffn + repeated) * arithmetic
        }
    }
}

/// Bytes that FSDP gathers, with `weight` bytes per number.
fn gathered(settings: &LlmSettings, model: &ModelConfig, weight: f64) -> f64 {
    let (block, table) = (model.block_parameters() as f64 * weight, (model.vocabulary * model.dim) as f64 * weight);
    // No extra for gradients in flight: when they are the largest, most others do not exist yet or whole units are freed.
    match settings.fsdp_wrap {
        FsdpWrap::Block => 2.0 * block + if model.tied { table } else { 2.0 * table },
        FsdpWrap::MemoryEfficient => block + block.max(table),
    }
}

/// Estimates one run.
///
/// A step multiplies each token by every weight once forward, once backward, and once more for gradients of trained weights: 4 or 6
/// operations per parameter and token; inference is the first of them. DPO multiplies once more, for the reference. GPUs are assumed to
/// reach 600 (FP8, a guess), 400 (half precision), 200 (TF32) and 44 Tflop/s (fp32, as measured on an H100), to gather sharded weights
/// at 300 GB/s at the same time, and to launch the kernels of a block in 2.8 ms without a graph. A CPU core reaches 15 Gflop/s. Files are
/// read at 1 GB/s.
pub(super) fn run(
    settings: &LlmSettings,
    model: &ModelConfig,
    rows: &Lengths,
    memory: &Memory,
    node: &Node,
) -> Estimate {
    let gpu = node.has_cuda() && usable_gpus(node).next().is_some();
    let steps = rows.samples.map_or(0, |samples| settings.steps(samples)) as f64;
    let tokens =
        rows.mean_tokens.unwrap_or(rows.longest as f64) * (settings.batch_size * settings.gradient_accumulation) as f64;
    let infers = settings.passes == Passes::Inference;
    let operations = match settings.technique {
        Technique::Dpo | Technique::DpoFull if infers => 4.0,
        _ if infers => 2.0,
        Technique::Lora | Technique::Qlora => 4.0,
        Technique::Dpo | Technique::Qat | Technique::Full => 6.0,
        Technique::DpoFull => 8.0,
    };
    let again = if settings.activation_checkpointing && !infers { 4.0 / 3.0 } else { 1.0 };
    // Each pass restores quantised matrices: at 2 TB/s on a GPU, at 1 GB/s per core. CPUs do not multiply FP8.
    let is_restored = matches!(settings.technique, Technique::Qlora | Technique::Qat)
        || (settings.precision == Precision::Fp8 && !gpu);
    let restored_bytes = if is_restored { 2.0 * model.parameters() as f64 * sizes(settings.precision).2 } else { 0.0 };
    let work = tokens * operations * again * model.parameters() as f64;
    let micro_batches = settings.gradient_accumulation as f64;
    let weights = memory.weights * if settings.sharded() { settings.gpus as f64 } else { 1.0 };
    let step_s = if gpu {
        let rate = match (settings.precision, settings.tf32) {
            (Precision::Fp32, super::Tf32::Off) => 44e12,
            (Precision::Fp32, super::Tf32::All) => 200e12,
            (Precision::Fp8, _) => 600e12,
            _ => 400e12,
        };
        // The reference's forward pass adds about a third to the launches of a forward and backward pass.
        let reference = if settings.technique.prefers() { 1.0 / 3.0 } else { 0.0 };
        let passes = reference + if infers { 1.0 / 3.0 } else { 1.0 };
        let launch = if settings.cuda_graph { 0.0 } else { 2.8e-3 * model.layers as f64 * micro_batches * passes };
        let sharded = if settings.sharded() { 1.0 - 1.0 / settings.gpus as f64 } else { 0.0 };
        let gatherings = f64::from(u8::from(settings.technique.prefers())) + if infers { 1.0 } else { 2.0 };
        let gathering = micro_batches * gatherings * sharded * weights / GATHER_BYTES_PER_S;
        launch.max(work / rate + restored_bytes * micro_batches / 2e12).max(gathering)
    } else {
        let cores = (f64::from(node.cpus) / settings.gpus_of_node() as f64).max(1.0);
        work / (15e9 * cores)
            + restored_bytes * micro_batches / (1e9 * cores)
            + 2e-3 * model.layers as f64 * micro_batches
    };
    let runtime = if gpu { CUDA_CONTEXT_BYTES } else { PROCESS_BYTES };
    let peak = memory.sum() + runtime;
    let mut kinds = MemoryKinds::default();
    for (kind, (name, bytes)) in kinds.iter_mut().zip(memory.kinds()) {
        *kind = (name, bytes as u64);
    }
    // All tokens stay in memory.
    let samples = rows.samples.unwrap_or(0) as f64;
    let held = samples * rows.mean_tokens.unwrap_or(0.0) * HELD_BYTES;
    let start_s = weights / 1e9 + if gpu { 6.0 } else { 2.0 };
    Estimate {
        duration_s: start_s + steps * step_s,
        start_s,
        peak_bytes: peak as u64,
        host_bytes: (settings.gpus_of_node() as f64 * (if gpu { CUDA_PROCESS_BYTES } else { peak } + held)) as u64,
        kinds,
    }
}
