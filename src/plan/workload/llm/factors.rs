//! The factors of the `llm` workload, with their levels, help and findings of the papers.

use super::super::nodes;
use super::super::typed::{graphs, pinned};
use super::settings::{
    DataSet, FsdpGather, FsdpWrap, LoraTargets, Model, Precision, Sharding, Technique, Template, Tf32, TrainOnInput,
};
use crate::plan::{Binding, Factor, GPUS, GpuChoice, Hint, Kernels, OptimizerImpl, Passes};

const INFERENCE: &[&str] = &[Passes::Inference.name()];
const OFF_ON: &[&str] = &["off", "on"];
const ON_OFF: &[&str] = &["on", "off"];
const WITHOUT_ADAPTERS: &[&str] = &["qat", "full", "dpo-full"];

/// The factors of the `llm` workload, in the order of columns and cards.
pub(super) fn factors() -> Vec<Factor> {
    let [over_nodes, of_each_node] = nodes::factors();
    vec![
        Factor::named(Technique::KEY, "Technique", Technique::NAMES)
            .help("What is trained: low-rank adapters (lora), adapters over 4-bit weights (qlora), adapters trained from preferences \
                 (dpo), all weights (full), all weights from preferences \
                  (dpo-full), or all weights with simulated 4-bit quantisation (qat).")
            .finding("LoRA's iterations are 30-40 % faster than DPO's; QAT fits on four GPUs only (2505.22905 section 5.4.3)."),
        Factor::named(Passes::KEY, "Passes", Passes::NAMES)
            .help("What a step does. training: forward pass, backward pass and update. inference: the forward pass alone, without gradients."),
        Factor::named(Model::KEY, "Model", Model::NAMES)
            .help("The network. tiny has 1.0 million parameters and trains on a laptop; config reads a config.json.")
            .finding("The papers fine-tune Llama 3 8B (2505.22905 section 5)."),
        Factor::named(DataSet::KEY, "Data set", DataSet::NAMES)
            .help("What the rows are: instructions, corrections, dialogues, conversations, a file of yours, or rows of equal length.")
            .finding("500 rows each: 59,330 tokens of instructions, 83,544 of dialogues, 28,683 of corrections (2505.22905)."),
        Factor::named(Template::KEY, "Template", Template::NAMES)
            .idle_where(DataSet::KEY, &["uniform"])
            .help("The prompt template. own is the template made for the data set; a file needs another one."),
        Factor::named(TrainOnInput::KEY, "Prompts are learned", TrainOnInput::NAMES)
            .idle_where(DataSet::KEY, &["uniform"])
            .help("Whether prompts count in the loss. own follows TorchTune: on for alpaca-cleaned, off for the others and for dpo."),
        Factor::named(Precision::KEY, "Precision", Precision::NAMES)
            .speaks_for_itself()
            .hints(Precision::ALL.iter().map(|level| (level.name(), Hint::Multiplies(level.number_format()))))
            .help("Types of weights and arithmetic. bf16: everything. fp16: frozen weights; trained parameters stay in fp32. fp8: the \
                 blocks' frozen matrices and what they multiply, in e4m3 with a scale for each row, and everything else in bf16. It \
                 saves time and no memory: each matrix is stored twice.")
            .finding("The papers' iterations are in FP32 (2505.22905 section 5)."),
        Factor::named(Tf32::KEY, "TF32", Tf32::NAMES)
            .hints(Tf32::ALL.iter().filter_map(|level| Some((level.name(), level.lowers()?))))
            .idle_where(Precision::KEY, &["bf16", "fp16", "fp8"])
            .help("Whether fp32 matrix products may use tensor cores with 10-bit mantissas."),
        Factor::count("batch_size", "Batch size", 1..=4096, 2)
            .unit("rows per GPU")
            .usual(&[1.0, 2.0, 4.0, 8.0, 16.0])
            .help("Rows (for dpo, pairs of rows) per GPU and micro-batch, padded to the longest of them."),
        Factor::count("gradient_accumulation", "Gradient accumulation", 1..=4096, 1)
            .unit("micro-batches")
            .usual(&[1.0, 2.0, 4.0, 8.0])
            .help("Micro-batches whose gradients are added up for one step. TorchTune's default is 8, the papers' 1."),
        Factor::count("max_tokens", "Longest row", 0..=1_000_000, 0)
            .unit("tokens")
            .usual(&[0.0, 128.0, 512.0, 1024.0, 2048.0])
            .help("Longer rows are truncated and end with the end-of-text token. 0: no limit."),
        Factor::named("packed", "Packing", OFF_ON)
            .help("Packs short rows into one row of max_tokens, where each attends only to itself: no arithmetic is spent on padding."),
        Factor::named("activation_checkpointing", "Activation checkpointing", OFF_ON)
            .idle_where(Passes::KEY, INFERENCE)
            .help("Blocks keep only their input and are recomputed in the backward pass: less memory, a third more work."),
        Factor::named(OptimizerImpl::KEY, "Optimizer", OptimizerImpl::NAMES)
            .idle_where(Passes::KEY, INFERENCE)
            .help("AdamW's update as one kernel for all parameters, a few kernels, or several per parameter."),
        Factor::count("lora_rank", "LoRA rank", 1..=4096, 8)
            .idle_where(Technique::KEY, WITHOUT_ADAPTERS)
            .usual(&[4.0, 8.0, 16.0, 64.0])
            .help("The rank of the adapters."),
        Factor::number("lora_alpha", "LoRA alpha", 0.0..=65_536.0, 16.0)
            .idle_where(Technique::KEY, WITHOUT_ADAPTERS)
            .usual(&[8.0, 16.0, 32.0, 128.0])
            .help("Adapters are scaled by alpha / rank."),
        Factor::named(LoraTargets::KEY, "LoRA targets", LoraTargets::NAMES)
            .idle_where(Technique::KEY, WITHOUT_ADAPTERS)
            .help("The projections with adapters: of queries (q), keys (k), values (v), attention's output (o), and the MLP's three."),
        Factor::number("dpo_beta", "DPO beta", 0.0..=100.0, 0.1)
            .idle_where(Technique::KEY, &["lora", "qlora", "qat", "full"])
            .usual(&[0.05, 0.1, 0.5])
            .help("How strongly DPO keeps the model close to the one without adapters. TorchTune's default is 0.1."),
        Factor::count("qat_group", "QAT group", 2..=65_536, 256)
            .idle_where(Technique::KEY, &["lora", "qlora", "dpo", "full", "dpo-full"])
            .unit("weights")
            .usual(&[32.0, 64.0, 128.0, 256.0])
            .help("The number of weights in a row that share a scale in the simulated 4-bit quantisation. 256 is TorchTune's default: \
                 2505.22905 section 5.4.3 says that settings which it does not name are TorchTune's."),
        Factor::named(Kernels::KEY, "Kernels", Kernels::NAMES)
            .help("plain: separate libtorch operations. fused: kernels that fuse several steps of a layer, on GPUs."),
        Factor::named("cuda_graph", "CUDA graph", OFF_ON)
            .hints(graphs())
            .help("Captures the whole step once per length and replays it: removes launch costs, which limit short rows."),
        Factor::named("pin_memory", "pin_memory", OFF_ON)
            .hints(pinned())
            .help("Stages batches in page-locked memory and copies them without blocking the host."),
        Factor::named("deterministic", "Deterministic", OFF_ON)
            .help("Uses only algorithms with bitwise reproducible results; slower."),
        Factor::count(GPUS, "GPUs", 1..=64, 1)
            .usual(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
            .help("One rank per GPU; on a machine without GPUs, ranks on CPUs.")
            .finding("LoRA in FP32: 0.77 s an iteration on 1 GPU, 0.93 on 2, 0.90 on 3, 0.94 on 4 (2505.22905 Table 5)."),
        over_nodes,
        of_each_node,
        Factor::named(Sharding::KEY, "Sharding", Sharding::NAMES)
            .hints(Sharding::ALL.iter().map(|level| (level.name(), Hint::Parallelism(level.parallelism()))))
            .idle_at(GPUS, 1)
            .help("fsdp: parameters, gradients and optimizer state are sharded over the GPUs. ddp: each GPU has the whole model."),
        Factor::named(FsdpWrap::KEY, "FSDP units", FsdpWrap::NAMES)
            .idle_at(GPUS, 1)
            .idle_where(Sharding::KEY, &["ddp"])
            .help("What is gathered together: blocks, or blocks with embedding and output layer separate."),
        Factor::named(FsdpGather::KEY, "FSDP gathering", FsdpGather::NAMES)
            .idle_at(GPUS, 1)
            .idle_where(Sharding::KEY, &["ddp"])
            .help("How the parameters of other GPUs are gathered. collectives: by NCCL, whose kernels take multiprocessors from the \
                   model's. copies: by the GPUs' copy engines, which do not."),
        Factor::gpu_set(GpuChoice::KEY, "GPU set", GpuChoice::NAMES)
            .help("Which of the node's GPUs a run gets, as for images."),
        Factor::named(Binding::KEY, "NUMA", Binding::NAMES)
            .help("Binding of ranks and their memory to NUMA nodes, as for images."),
        Factor::named("shuffle", "Shuffle", ON_OFF)
            .help("Gives each epoch its own order of rows, determined by the plan's seed."),
        Factor::number("learning_rate", "Learning rate", 0.0..=100.0, 3e-4)
            .idle_where(Passes::KEY, INFERENCE)
            .usual(&[1e-5, 1e-4, 3e-4, 1e-3, 1e-2])
            .help("AdamW's highest step size: reached after warmup_steps, then falling to 0 along a cosine. Weight decay is 0.01."),
        Factor::count("warmup_steps", "Warm-up of the rate", 0..=1_000_000, 100)
            .idle_where(Passes::KEY, INFERENCE)
            .unit("steps")
            .usual(&[0.0, 10.0, 100.0])
            .help("Steps during which the learning rate rises from 0."),
        Factor::count("epochs", "Epochs", 1..=100_000, 1)
            .usual(&[1.0, 2.0, 3.0])
            .help("Passes over the rows."),
        Factor::count("save_every", "Checkpoints", 0..=1_000_000, 0)
            .idle_where(Passes::KEY, INFERENCE)
            .unit("steps apart")
            .usual(&[0.0, 50.0, 500.0])
            .help("Steps between checkpoints, from which an interrupted run resumes; the trained model is kept too. 0: none."),
        Factor::count("rows", "Rows", 0..=1_000_000_000, 500)
            .usual(&[0.0, 100.0, 500.0, 2000.0])
            .help("Number of training rows, from the start of the set; 0: all.")
            .finding("The papers trace subsets of 500 rows (2505.22905 section 5.4.3)."),
        Factor::count("test_rows", "Test rows", 0..=1_000_000, 0)
            .usual(&[0.0, 50.0, 200.0])
            .help("Number of rows, after the training rows, on which the loss is evaluated after each epoch; the papers use none."),
        Factor::count("row_tokens", "Row length", 4..=1_000_000, 120)
            .idle_where(DataSet::KEY, &["alpaca-cleaned", "grammar", "samsum", "slimorca", "file"])
            .unit("tokens")
            .usual(&[120.0, 512.0, 2048.0])
            .help("The length of each row of data_set = uniform."),
    ]
}
