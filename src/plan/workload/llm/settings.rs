//! The levels of one `llm` cell as types.

use super::super::nodes::Nodes;
use super::super::typed::{binding, count, levels, number, switch};
use crate::plan::{Binding, GPUS, GpuChoice, Hint, Kernels, Levels, NumberFormat, OptimizerImpl, Parallelism, Passes};

levels! {
    /// What is trained, and how.
    Technique = "technique" {
        /// Low-rank adapters beside frozen weights (arXiv 2106.09685).
        Lora = "lora",
        /// LoRA over frozen weights in NF4 (arXiv 2305.14314).
        Qlora = "qlora",
        /// Direct preference optimisation of LoRA's adapters (arXiv 2305.18290).
        Dpo = "dpo",
        /// Quantisation-aware training of all weights.
        Qat = "qat",
        /// Training of all weights.
        Full = "full",
        /// Direct preference optimisation of all weights.
        DpoFull = "dpo-full",
    }
}
levels! {
    /// The network.
    Model = "model" {
        /// Llama 3 8B.
        Llama3_8b = "llama3-8b",
        /// Llama 3.2 1B.
        Llama3_2_1b = "llama3.2-1b",
        /// Llama 3.2 3B.
        Llama3_2_3b = "llama3.2-3b",
        /// A model of 1.0 million parameters for tests and first steps.
        Tiny = "tiny",
        /// The one that `data.config` describes.
        Config = "config",
    }
}
levels! {
    /// The data set that rows are read from, or whose rows are imitated.
    DataSet = "data_set" {
        /// Instructions with their answers: yahma/alpaca-cleaned.
        AlpacaCleaned = "alpaca-cleaned",
        /// Sentences and their corrections: liweili/c4_200m.
        Grammar = "grammar",
        /// Dialogues and their summaries: Samsung/samsum.
        Samsum = "samsum",
        /// Conversations: Open-Orca/SlimOrca-Dedup.
        Slimorca = "slimorca",
        /// The rows of `data.file`.
        File = "file",
        /// Generated rows of `row_tokens` tokens each.
        Uniform = "uniform",
    }
}
levels! {
    /// The prompt template.
    Template = "template" {
        /// The data set's own.
        Own = "own",
        /// Alpaca's two prompts, with and without an input.
        Instruct = "instruct",
        /// `Correct this to standard English: …`.
        Grammar = "grammar",
        /// `Summarize this dialogue: …`.
        Summarize = "summarize",
        /// The turns of a conversation.
        Chat = "chat",
    }
}
levels! {
    /// Whether prompts count in the loss.
    TrainOnInput = "train_on_input" {
        /// TorchTune's default: only for alpaca-cleaned, and never for preference pairs.
        Own = "own",
        /// Labels of prompts are masked.
        Off = "off",
        /// Prompts count in the loss too.
        On = "on",
    }
}
levels! {
    /// The types of weights and arithmetic.
    Precision = "precision" {
        /// Single precision throughout.
        Fp32 = "fp32",
        /// Weights, adapters and optimizer in bfloat16.
        Bf16 = "bf16",
        /// Frozen weights in half precision, trained parameters in fp32, dynamic loss scaling.
        Fp16 = "fp16",
        /// Like bf16, but the frozen matrices of blocks are stored in FP8, and their products are computed in FP8.
        Fp8 = "fp8",
    }
}
levels! {
    /// Whether fp32 matrix products may use TF32 tensor cores.
    Tf32 = "tf32" {
        /// Strict fp32.
        Off = "off",
        /// TF32.
        All = "all",
    }
}
levels! {
    /// The projections that have adapters.
    LoraTargets = "lora_targets" {
        /// q, v and output projections, and the MLP: the papers'.
        QvoMlp = "qvo-mlp",
        /// q and v projections: LoRA's own choice.
        Qv = "qv",
        /// All projections of attention.
        Qkvo = "qkvo",
        /// All projections of attention, and the MLP.
        QkvoMlp = "qkvo-mlp",
    }
}
levels! {
    /// How the model is spread over ranks.
    Sharding = "sharding" {
        /// Parameters, gradients and optimizer state are sharded over the ranks.
        Fsdp = "fsdp",
        /// Each rank has the whole model.
        Ddp = "ddp",
    }
}
levels! {
    /// What FSDP gathers together.
    FsdpWrap = "fsdp_wrap" {
        /// A block of the model.
        Block = "block",
        /// A block; embedding and output layer separately.
        MemoryEfficient = "memory_efficient",
    }
}
levels! {
    /// How FSDP gathers the parameters of other ranks.
    FsdpGather = "fsdp_gather" {
        /// All-gathers of NCCL, or of gloo on CPUs.
        Collectives = "collectives",
        /// Copies between GPUs by their copy engines.
        Copies = "copies",
    }
}

impl Technique {
    /// Whether it learns from pairs of rows, one preferred to the other.
    pub fn prefers(self) -> bool {
        matches!(self, Self::Dpo | Self::DpoFull)
    }

    /// Whether adapters are trained and all weights are frozen.
    pub fn has_adapters(self) -> bool {
        matches!(self, Self::Lora | Self::Qlora | Self::Dpo)
    }
}

impl Precision {
    /// The format of the numbers that matrix products multiply.
    pub(super) fn number_format(self) -> NumberFormat {
        match self {
            Self::Fp32 => NumberFormat::Fp32,
            Self::Bf16 => NumberFormat::Bf16,
            Self::Fp16 => NumberFormat::Fp16,
            Self::Fp8 => NumberFormat::Fp8,
        }
    }
}

impl Tf32 {
    /// The hint about products in fp32 that GPUs may compute in TF32.
    pub(super) fn lowers(self) -> Option<Hint> {
        match self {
            Self::Off => None,
            Self::All => Some(Hint::Lowers(NumberFormat::Fp32, NumberFormat::Tf32)),
        }
    }
}

impl Sharding {
    /// How processes and GPUs share the work.
    pub(super) fn parallelism(self) -> Parallelism {
        match self {
            Self::Fsdp => Parallelism::Sharded,
            Self::Ddp => Parallelism::Ddp,
        }
    }
}

impl DataSet {
    /// The template that fits its columns; `None` for `file`, whose plan names one.
    pub fn own_template(self) -> Option<Template> {
        match self {
            Self::AlpacaCleaned => Some(Template::Instruct),
            Self::Grammar => Some(Template::Grammar),
            Self::Samsum => Some(Template::Summarize),
            Self::Slimorca => Some(Template::Chat),
            Self::File | Self::Uniform => None,
        }
    }

    /// The published number of rows.
    ///
    /// Sources: 2505.22905 section 5.3; C4_200M's paper for `grammar`.
    pub fn published_rows(self) -> Option<u64> {
        match self {
            Self::AlpacaCleaned => Some(51_760),
            Self::Grammar => Some(185_000_000),
            Self::Samsum => Some(16_369),
            Self::Slimorca => Some(363_491),
            Self::File | Self::Uniform => None,
        }
    }

    /// The number of rows in the training split, the only split that is downloaded, if it is smaller than the published number of rows.
    ///
    /// Source: the data card of Samsung/samsum.
    pub fn training_rows(self) -> Option<u64> {
        (self == Self::Samsum).then_some(14_732)
    }
}

impl LoraTargets {
    /// Whether a projection has an adapter: `q`, `k`, `v`, `output`, or one of the MLP's.
    pub fn has(self, projection: &str) -> bool {
        match projection {
            "q" | "v" => true,
            "k" => matches!(self, Self::Qkvo | Self::QkvoMlp),
            "output" => !matches!(self, Self::Qv),
            _ => matches!(self, Self::QvoMlp | Self::QkvoMlp),
        }
    }
}

/// Low-rank adapters: `y = W x + (alpha / rank) B A x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lora {
    /// The rank of A and B.
    pub rank: usize,
    /// The scale's numerator.
    pub alpha: f64,
    /// The projections that have adapters.
    pub targets: LoraTargets,
}

/// Tokens of a micro-batch up to which a joint pass of DPO is faster than two passes.
///
/// Measured on an H100, the frozen products of a block of Llama 3 8B (bf16) take 253 µs over 240 rows and 343 µs over 480, so that two
/// passes take 506 µs and a joint one 343 µs. Over 480 rows of each side, two passes take 674 µs and a joint pass 586 µs; from 960 rows on,
/// both take the same time. A joint pass copies the data that autograd keeps of the policy's rows. It reads and writes 0.24 MB per row and
/// block, which takes 0.09 µs at the memory's rate. Between the measured points, gain and cost are equal at about this many rows.
const JOINT_TOKENS: usize = 640;

/// Spare columns behind each row of a matrix: 128 bytes in 16 bits, so that all rows are equally aligned.
const SPARE_COLUMNS: usize = 64;

impl Lora {
    /// With fused kernels, the number of spare columns behind each row of a matrix that holds these projections side by side. The backward
    /// pass places the adapters' B there. 0 without adapters, or if B needs more columns.
    pub fn spare_columns<'a>(&self, projections: impl Iterator<Item = &'a str>) -> usize {
        let needed = self.rank * projections.filter(|name| self.targets.has(name)).count();
        if (1..=SPARE_COLUMNS).contains(&needed) { SPARE_COLUMNS } else { 0 }
    }
}

/// The levels of an `llm` cell, typed.
#[derive(Clone, Debug, PartialEq)]
pub struct LlmSettings {
    /// What is trained, and how.
    pub technique: Technique,
    /// The network.
    pub model: Model,
    /// The data set that rows are read from, or whose rows are imitated.
    pub data_set: DataSet,
    /// The prompt template: the data set's own template is resolved to the template itself, so that [`Template::Own`] remains only for a
    /// data set without one.
    pub template: Template,
    /// Whether prompts count in the loss.
    pub train_on_input: bool,
    /// The types of weights and arithmetic.
    pub precision: Precision,
    /// Whether fp32 matrix products may use TF32.
    pub tf32: Tf32,
    /// Samples per rank and micro-batch.
    pub batch_size: usize,
    /// Maximum length of rows in tokens; `None` for no limit.
    pub max_tokens: Option<usize>,
    /// Micro-batches per step.
    pub gradient_accumulation: usize,
    /// Whether blocks keep only their input and are recomputed in the backward pass.
    pub activation_checkpointing: bool,
    /// How the optimizer's update is computed.
    pub optimizer_impl: OptimizerImpl,
    /// The adapters; `None` for techniques without.
    pub lora: Option<Lora>,
    /// The strength of the reference in the loss of preference pairs.
    pub dpo_beta: f64,
    /// Number of inputs of a linear layer that share a scale of its 4-bit weights.
    pub qat_group: usize,
    /// How the model is spread over ranks.
    pub sharding: Sharding,
    /// What FSDP gathers together.
    pub fsdp_wrap: FsdpWrap,
    /// How FSDP gathers the parameters of other ranks.
    pub fsdp_gather: FsdpGather,
    /// Whether each epoch has its own order of rows.
    pub shuffle: bool,
    /// Whether several short rows are packed into one row of `max_tokens`.
    pub packed: bool,
    /// Whether batches are staged in pinned memory and copied asynchronously.
    pub pin_memory: bool,
    /// Ranks.
    pub gpus: usize,
    /// How the ranks are spread over nodes.
    pub nodes: Nodes,
    /// Which of the node's GPUs the ranks get.
    pub gpu_choice: GpuChoice,
    /// Binding to NUMA nodes.
    pub numa: Binding,
    /// The passes of a step: training or inference.
    pub passes: Passes,
    /// The kernels that compute a layer.
    pub kernels: Kernels,
    /// Whether the whole step is captured, once per length, and replayed.
    pub cuda_graph: bool,
    /// Whether only bitwise reproducible algorithms are used.
    pub deterministic: bool,
    /// The optimizer's highest learning rate.
    pub learning_rate: f64,
    /// Steps during which the learning rate rises from 0.
    pub warmup_steps: usize,
    /// Passes over the rows.
    pub epochs: usize,
    /// Steps between checkpoints; `None` without checkpoints.
    pub save_every: Option<usize>,
    /// Number of training rows, from the start of the set; `None` for all.
    pub rows: Option<usize>,
    /// Number of rows, after the training rows, on which each epoch is evaluated.
    pub test_rows: usize,
    /// Tokens of each row of [`DataSet::Uniform`].
    pub row_tokens: usize,
}

impl LlmSettings {
    /// Reads a cell's levels; the error names the factor that is missing or wrong.
    pub fn from_levels(levels: &Levels) -> Result<Self, String> {
        let switch = |key: &str| switch(levels, key);
        let count = |key: &str| count(levels, key);
        let some = |key: &str| Ok::<_, String>(Some(count(key)?).filter(|number| *number > 0));
        let (technique, data_set) = (Technique::read(levels)?, DataSet::read(levels)?);
        let template = match (Template::read(levels)?, data_set.own_template()) {
            (Template::Own, Some(own)) => own,
            (template, _) => template,
        };
        let train_on_input = match TrainOnInput::read(levels)? {
            TrainOnInput::Own => match data_set {
                DataSet::AlpacaCleaned => !technique.prefers(),
                other => other == DataSet::Uniform,
            },
            level => level == TrainOnInput::On,
        };
        let lora = Lora {
            rank: count("lora_rank")?,
            alpha: number(levels, "lora_alpha")?,
            targets: LoraTargets::read(levels)?,
        };
        Ok(Self {
            technique,
            model: Model::read(levels)?,
            data_set,
            template,
            train_on_input,
            precision: Precision::read(levels)?,
            tf32: Tf32::read(levels)?,
            batch_size: count("batch_size")?,
            max_tokens: some("max_tokens")?,
            gradient_accumulation: count("gradient_accumulation")?,
            activation_checkpointing: switch("activation_checkpointing")?,
            optimizer_impl: OptimizerImpl::read(levels)?,
            lora: Some(lora).filter(|_| technique.has_adapters()),
            dpo_beta: number(levels, "dpo_beta")?,
            qat_group: count("qat_group")?,
            sharding: Sharding::read(levels)?,
            fsdp_wrap: FsdpWrap::read(levels)?,
            fsdp_gather: FsdpGather::read(levels)?,
            shuffle: switch("shuffle")?,
            packed: switch("packed")?,
            pin_memory: switch("pin_memory")?,
            gpus: count(GPUS)?,
            nodes: Nodes::read(levels)?,
            gpu_choice: GpuChoice::read(levels)?,
            numa: binding(levels)?,
            passes: Passes::read(levels)?,
            kernels: Kernels::read(levels)?,
            cuda_graph: switch("cuda_graph")?,
            deterministic: switch("deterministic")?,
            learning_rate: number(levels, "learning_rate")?,
            warmup_steps: count("warmup_steps")?,
            epochs: count("epochs")?,
            save_every: some("save_every")?,
            rows: some("rows")?,
            test_rows: count("test_rows")?,
            row_tokens: count("row_tokens")?,
        })
    }

    /// The number of ranks on each node.
    pub(super) fn gpus_of_node(&self) -> usize {
        self.nodes.share(self.gpus)
    }

    /// Whether each rank holds only a part of the model.
    pub fn sharded(&self) -> bool {
        self.gpus > 1 && self.sharding == Sharding::Fsdp
    }

    /// Whether DPO's policy and reference share one forward pass over a micro-batch of this many tokens, padding included: a joint pass,
    /// which reads each frozen weight once for both. Otherwise the reference has a pass of its own before the policy's:
    ///
    /// - with all weights trained, because the reference then has other weights;
    /// - with plain kernels, which are libtorch's operations one after another, as other programs run them;
    /// - with FSDP and with activation checkpointing, which pass one tensor from block to block, that of autograd;
    /// - with more than `JOINT_TOKENS` tokens, because it would gain nothing.
    pub fn joins_reference(&self, tokens: usize) -> bool {
        self.technique.prefers()
            && self.lora.is_some()
            && self.kernels == Kernels::Fused
            && !self.sharded()
            && !self.activation_checkpointing
            && tokens <= JOINT_TOKENS
    }

    /// Rows per sample: 2 for preference pairs.
    pub fn rows_per_sample(&self) -> usize {
        if self.technique.prefers() { 2 } else { 1 }
    }

    /// Samples (rows, packs or pairs) per step, over all ranks and micro-batches.
    pub fn step_rows(&self) -> usize {
        self.batch_size.saturating_mul(self.gpus).saturating_mul(self.gradient_accumulation)
    }

    /// Steps of a rank over all epochs, from the number of samples. As in TorchTune, ranks get equal shares, filled up from the
    /// start of the set; incomplete micro-batches and steps are dropped.
    pub fn steps(&self, samples: u64) -> u64 {
        self.steps_per_epoch(samples) * self.epochs as u64
    }

    /// Steps of a rank in one epoch.
    pub fn steps_per_epoch(&self, samples: u64) -> u64 {
        let share = samples.div_ceil(self.gpus.max(1) as u64);
        share / self.batch_size.max(1) as u64 / self.gradient_accumulation.max(1) as u64
    }
}
