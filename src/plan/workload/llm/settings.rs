//! The levels of one `llm` cell as types.

use super::super::typed::{binding, count, levels, number, switch};
use crate::plan::{Binding, Levels, OptimizerImpl};

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
    /// What the rows are.
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
        /// Made rows of `row_tokens` tokens each.
        Uniform = "uniform",
    }
}
levels! {
    /// The words around a row.
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
        /// As TorchTune's builder of the data set does: for alpaca-cleaned alone, and never for preference pairs.
        Own = "own",
        /// Labels of prompts are masked.
        Off = "off",
        /// Prompts are learned too.
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
        /// Frozen weights in half precision, what is trained in fp32, dynamic loss scaling.
        Fp16 = "fp16",
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
    /// How a model is spread over ranks.
    Sharding = "sharding" {
        /// Parameters, gradients and optimizer state are cut over the ranks.
        Fsdp = "fsdp",
        /// Each rank has the whole model.
        Ddp = "ddp",
    }
}
levels! {
    /// What FSDP gathers at a time.
    FsdpWrap = "fsdp_wrap" {
        /// A block of the model.
        Block = "block",
        /// A block, with embedding and output layer apart.
        MemoryEfficient = "memory_efficient",
    }
}
levels! {
    /// Who computes the parts of a layer.
    Kernels = "kernels" {
        /// libtorch's operations, one for each step of the formulas.
        Plain = "plain",
        /// Several steps in one kernel.
        Fused = "fused",
    }
}

impl DataSet {
    /// The template that fits its columns; none for `file`, whose plan names it.
    pub fn own_template(self) -> Option<Template> {
        match self {
            Self::AlpacaCleaned => Some(Template::Instruct),
            Self::Grammar => Some(Template::Grammar),
            Self::Samsum => Some(Template::Summarize),
            Self::Slimorca => Some(Template::Chat),
            Self::File | Self::Uniform => None,
        }
    }

    /// Rows as published.
    ///
    /// Sources: 2505.22905 section 4; C4_200M's paper for `grammar`.
    pub fn published_rows(self) -> Option<u64> {
        match self {
            Self::AlpacaCleaned => Some(51_760),
            Self::Grammar => Some(185_000_000),
            Self::Samsum => Some(16_369),
            Self::Slimorca => Some(363_491),
            Self::File | Self::Uniform => None,
        }
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
    /// The projections that have them.
    pub targets: LoraTargets,
}

/// The levels of an `llm` cell, typed.
#[derive(Clone, Debug, PartialEq)]
pub struct LlmSettings {
    /// What is trained, and how.
    pub technique: Technique,
    /// The network.
    pub model: Model,
    /// What the rows are.
    pub data_set: DataSet,
    /// The words around a row: never [`Template::Own`] but for a set without one.
    pub template: Template,
    /// Prompts count in the loss.
    pub train_on_input: bool,
    /// The types of weights and arithmetic.
    pub precision: Precision,
    /// Whether fp32 matrix products may use TF32.
    pub tf32: Tf32,
    /// Rows a rank and micro-batch.
    pub batch_size: usize,
    /// The tokens at which rows are cut; none where they keep their length.
    pub max_tokens: Option<usize>,
    /// Micro-batches of a step.
    pub gradient_accumulation: usize,
    /// Blocks keep their input alone, and are computed again in the backward pass.
    pub activation_checkpointing: bool,
    /// How the optimizer's update is computed.
    pub optimizer_impl: OptimizerImpl,
    /// The adapters, for techniques that have some.
    pub lora: Option<Lora>,
    /// The strength of the reference in the loss of preference pairs.
    pub dpo_beta: f64,
    /// Inputs of a linear layer that share a scale of its 4-bit weights.
    pub qat_group: usize,
    /// How the model is spread over ranks.
    pub sharding: Sharding,
    /// What FSDP gathers at a time.
    pub fsdp_wrap: FsdpWrap,
    /// Rows come in another order in each epoch.
    pub shuffle: bool,
    /// Several short rows fill one of `max_tokens`.
    pub packed: bool,
    /// Batches are staged in page-locked memory and copied without blocking.
    pub pin_memory: bool,
    /// Ranks.
    pub gpus: usize,
    /// Binding to NUMA nodes.
    pub numa: Binding,
    /// Who computes the parts of a layer.
    pub kernels: Kernels,
    /// The whole step is captured and replayed, once for each length.
    pub cuda_graph: bool,
    /// Only algorithms that give the same bits each time.
    pub deterministic: bool,
    /// The optimizer's highest learning rate.
    pub learning_rate: f64,
    /// Steps in which the learning rate rises from 0.
    pub warmup_steps: usize,
    /// Passes over the rows.
    pub epochs: usize,
    /// Steps between two checkpoints; none where nothing is kept.
    pub save_every: Option<usize>,
    /// Rows that are trained on, from the start of the set; none for all.
    pub rows: Option<usize>,
    /// Rows after those, on which the loss is evaluated after each epoch.
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
            (said, _) => said,
        };
        let train_on_input = match TrainOnInput::read(levels)? {
            TrainOnInput::Own => match data_set {
                DataSet::AlpacaCleaned => technique != Technique::Dpo,
                other => other == DataSet::Uniform,
            },
            said => said == TrainOnInput::On,
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
            lora: Some(lora).filter(|_| !matches!(technique, Technique::Qat | Technique::Full)),
            dpo_beta: number(levels, "dpo_beta")?,
            qat_group: count("qat_group")?,
            sharding: Sharding::read(levels)?,
            fsdp_wrap: FsdpWrap::read(levels)?,
            shuffle: switch("shuffle")?,
            packed: switch("packed")?,
            pin_memory: switch("pin_memory")?,
            gpus: count("gpus")?,
            numa: binding(levels)?,
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

    /// Ranks hold parts of the model.
    pub fn sharded(&self) -> bool {
        self.gpus > 1 && self.sharding == Sharding::Fsdp
    }

    /// Rows of a sample: a chosen one and a rejected one where preferences are learned.
    pub fn rows_per_sample(&self) -> usize {
        if self.technique == Technique::Dpo { 2 } else { 1 }
    }

    /// Samples of a step, over all ranks and micro-batches: rows, packs of them, or pairs.
    pub fn step_rows(&self) -> usize {
        self.batch_size.saturating_mul(self.gpus).saturating_mul(self.gradient_accumulation)
    }

    /// Steps of a rank over all epochs with so many samples. As in TorchTune, ranks take equal shares, the last ones again
    /// from the start; micro-batches that are not full, and steps that lack some, are dropped.
    pub fn steps(&self, samples: u64) -> u64 {
        self.steps_per_epoch(samples) * self.epochs as u64
    }

    /// Steps of a rank in one epoch.
    pub fn steps_per_epoch(&self, samples: u64) -> u64 {
        let share = samples.div_ceil(self.gpus.max(1) as u64);
        share / self.batch_size.max(1) as u64 / self.gradient_accumulation.max(1) as u64
    }
}
