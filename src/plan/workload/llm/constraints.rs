//! Which combinations of levels can run on a machine, and why others cannot.

use super::super::machine::{memory_per_rank_bytes, no_devices, shortage, usable_gpus, without_cuda};
use super::data::{LlmData, Source};
use super::estimate::Memory;
use super::model::ModelConfig;
use super::settings::{DataSet, FsdpGather, FsdpWrap, LlmSettings, Model, Precision, Technique, Template, Tf32};
use super::stand_in::Lengths;
use crate::plan::{CUDA_GRAPH_WARM_UP_STEPS, Estimate, Kernels, Limits, Node, OptimizerImpl, counted};

/// The compute capability from which on GPUs multiply numbers in FP8.
const FP8_SINCE: (u32, u32) = (8, 9);
/// The length of a row of an FP8 matrix must be a multiple of this number.
const FP8_NUMBERS: usize = 16;

/// A combination of levels, with the data set and machine it would run on.
pub(super) struct Candidate<'a> {
    pub(super) settings: &'a LlmSettings,
    pub(super) data: &'a LlmData,
    pub(super) model: &'a ModelConfig,
    pub(super) rows: &'a Lengths,
    pub(super) memory: &'a Memory,
    pub(super) estimate: &'a Estimate,
    pub(super) limits: &'a Limits,
    pub(super) node: &'a Node,
}

/// Says why a combination is invalid and what to do, as a fragment of a sentence.
type Constraint = fn(&Candidate) -> Option<String>;

/// The constraints in the order in which they are checked: contradictions within the levels, then what the data set lacks, then what the
/// machine lacks.
const CONSTRAINTS: &[Constraint] = &[
    four_bit_weights_are_on_one_gpu,
    weights_in_fp8_are_frozen,
    weights_in_fp8_are_whole,
    references_are_whole,
    ranks_fit_their_nodes,
    rows_come_from_somewhere,
    template_fits,
    files_have_a_tokenizer,
    stand_ins_fit_the_vocabulary,
    rows_are_there,
    packs_have_a_length,
    pairs_are_not_packed,
    matrices_have_whole_blocks,
    layers_have_whole_groups,
    matrices_suit_fp8,
    rows_fit_the_context,
    first_step_is_full,
    tied_ends_are_one_unit,
    steps_can_be_captured,
    cuda_levels_need_cuda,
    devices_exist,
    gpus_multiply_fp8,
    memory_suffices,
    host_memory_suffices,
];

/// The first reason against a combination; `None` if it is valid.
pub(super) fn reason(candidate: &Candidate) -> Option<String> {
    CONSTRAINTS.iter().find_map(|constraint| constraint(candidate))
}

fn four_bit_weights_are_on_one_gpu(candidate: &Candidate) -> Option<String> {
    let LlmSettings { technique, gpus, .. } = *candidate.settings;
    (technique == Technique::Qlora && gpus > 1).then(|| {
        format!(
            "technique = qlora trains on one GPU, since its 4-bit weights cannot be sharded over {gpus}: use gpus = 1 or technique = \
                 lora"
        )
    })
}

fn weights_in_fp8_are_frozen(candidate: &Candidate) -> Option<String> {
    let technique = candidate.settings.technique;
    let (what, remedy) = match technique {
        _ if candidate.settings.precision != Precision::Fp8 => return None,
        Technique::Lora | Technique::Dpo => return None,
        Technique::Qlora => ("stores them in NF4", "lora"),
        Technique::Qat | Technique::Full => ("trains them", "lora"),
        Technique::DpoFull => ("trains them", "dpo"),
    };
    let name = technique.name();
    Some(format!(
        "precision = fp8 stores frozen weights in FP8, but technique = {name} {what}: use technique = {remedy} or precision = bf16"
    ))
}

fn weights_in_fp8_are_whole(candidate: &Candidate) -> Option<String> {
    let settings = candidate.settings;
    (settings.precision == Precision::Fp8 && settings.sharded()).then(|| {
        "precision = fp8 stores each matrix along its rows and along its columns, and sharding = fsdp shards only matrices that are \
         stored once: use sharding = ddp, gpus = 1 or precision = bf16"
            .to_owned()
    })
}

fn references_are_whole(candidate: &Candidate) -> Option<String> {
    let settings = candidate.settings;
    (settings.technique == Technique::DpoFull && settings.sharded()).then(|| {
        "technique = dpo-full compares with a frozen copy of the model, and sharding = fsdp does not shard that copy: use sharding = ddp, \
         gpus = 1 or technique = dpo"
            .to_owned()
    })
}

fn ranks_fit_their_nodes(candidate: &Candidate) -> Option<String> {
    let settings = candidate.settings;
    if settings.nodes.count > 1 && settings.sharded() && settings.fsdp_gather == FsdpGather::Copies {
        return Some(
            "fsdp_gather = copies copies between GPUs of one node: use nodes = 1 or fsdp_gather = collectives"
                .to_owned(),
        );
    }
    settings.nodes.refusal(settings.gpus, candidate.node)
}

fn rows_come_from_somewhere(candidate: &Candidate) -> Option<String> {
    match (candidate.settings.data_set, &candidate.data.source) {
        (DataSet::File, Source::StandIn) => Some(
            "data_set = file reads rows from a file, but data.set = stand-in generates them: use data.set = files"
                .to_owned(),
        ),
        (DataSet::File, Source::Files { file: None, .. }) => {
            Some("data_set = file needs data.file, the path of a JSON, JSON Lines, CSV or Parquet file".to_owned())
        }
        (DataSet::Uniform, Source::Files { .. }) => {
            Some("data_set = uniform is generated and not in any file: use data.set = stand-in".to_owned())
        }
        _ => None,
    }
}

fn template_fits(candidate: &Candidate) -> Option<String> {
    let LlmSettings { data_set, template, .. } = *candidate.settings;
    match (data_set.own_template(), template) {
        // The names that the papers print; their own text describes a question and an answer in a conversation.
        (Some(Template::Chat), Template::Instruct) => None,
        (Some(own), chosen) if own != chosen => {
            let (set, chosen, own) = (data_set.name(), chosen.name(), own.name());
            Some(format!("template = {chosen} needs other columns than {set} has: use template = own or {own}"))
        }
        (None, Template::Own) if data_set == DataSet::File => Some(
            "data_set = file has no template of its own: name the one that fits its columns, such as template = instruct"
                .to_owned(),
        ),
        _ => None,
    }
}

fn files_have_a_tokenizer(candidate: &Candidate) -> Option<String> {
    let files = matches!(candidate.data.source, Source::Files { .. });
    (files && candidate.data.tokenizer().is_none()).then(|| {
        "data.set = files needs a tokenizer: name data.tokenizer, or data.weights if the folder contains one".to_owned()
    })
}

/// Generated tokens cover the whole vocabulary except for a few special tokens.
fn stand_ins_fit_the_vocabulary(candidate: &Candidate) -> Option<String> {
    let is_stand_in = candidate.data.source == Source::StandIn;
    (is_stand_in && candidate.model.vocabulary < 16)
        .then(|| "the model's vocabulary has fewer than 16 tokens".to_owned())
}

fn rows_are_there(candidate: &Candidate) -> Option<String> {
    let LlmSettings { data_set, rows, test_rows, .. } = *candidate.settings;
    let name = data_set.name();
    if data_set == DataSet::Uniform && rows.is_none() {
        return Some("rows = 0 takes all rows, and data_set = uniform has no end: give a number of rows".to_owned());
    }
    if test_rows > 0 && rows.is_none() {
        return Some(
            "test_rows are taken after the training rows, and rows = 0 leaves none: give a number of rows".to_owned(),
        );
    }
    let is_read = matches!(candidate.data.source, Source::Files { .. });
    let (rows_present, part) = match data_set.training_rows().filter(|_| is_read) {
        Some(rows) => (rows, " to train on"),
        None => (data_set.published_rows()?, ""),
    };
    let wanted = rows.unwrap_or(0) as u64 + test_rows as u64;
    (wanted > rows_present).then(|| format!("{name} does not have {wanted} rows{part}: use {rows_present} or fewer"))
}

fn packs_have_a_length(candidate: &Candidate) -> Option<String> {
    let LlmSettings { packed, max_tokens, .. } = *candidate.settings;
    (packed && max_tokens.is_none())
        .then(|| "packed = on fills rows of max_tokens: set max_tokens, such as 2048".to_owned())
}

fn pairs_are_not_packed(candidate: &Candidate) -> Option<String> {
    let LlmSettings { packed, technique, .. } = *candidate.settings;
    (packed && technique.prefers()).then(|| {
        let name = technique.name();
        format!("packed = on mixes rows, and technique = {name} compares pairs of them: use packed = off")
    })
}

/// NF4 has one scale per 64 numbers.
fn matrices_have_whole_blocks(candidate: &Candidate) -> Option<String> {
    let nf4 = candidate.settings.technique == Technique::Qlora;
    let (name, from, out) = candidate.model.projections().into_iter().find(|(_, from, out)| (from * out) % 64 != 0)?;
    nf4.then(|| {
        format!(
            "technique = qlora quantises blocks of 64 numbers, and {name} of {} has {}: use technique = lora",
            candidate.model.name,
            from * out
        )
    })
}

/// torchao does not quantise other layers. If there are only such layers, nothing is quantised.
fn layers_have_whole_groups(candidate: &Candidate) -> Option<String> {
    let (group, model) = (candidate.settings.qat_group, candidate.model);
    let some = model.projections().iter().any(|(_, from, _)| from.is_multiple_of(group));
    (candidate.settings.technique == Technique::Qat && !some).then(|| {
        let (name, dim, ffn) = (&model.name, model.dim, model.ffn);
        format!("technique = qat needs layers whose input sizes are multiples of {group}, and those of {name} are {dim} and {ffn}: lower \
             qat_group")
    })
}

/// Products in FP8 need rows of whole 16 bytes, in both directions.
fn matrices_suit_fp8(candidate: &Candidate) -> Option<String> {
    let mut projections = candidate.model.projections().into_iter();
    let (name, from, out) = projections.find(|(_, from, out)| from % FP8_NUMBERS != 0 || out % FP8_NUMBERS != 0)?;
    (candidate.settings.precision == Precision::Fp8).then(|| {
        format!(
            "precision = fp8 multiplies {FP8_NUMBERS} numbers at a time, and {name} of {} is a matrix of {out} by {from}: use precision \
             = bf16",
            candidate.model.name
        )
    })
}

fn rows_fit_the_context(candidate: &Candidate) -> Option<String> {
    let (model, longest) = (candidate.model, candidate.rows.longest);
    (longest > model.context && !candidate.rows.assumed).then(|| {
        let (name, context) = (&model.name, model.context);
        let remedy = if candidate.settings.data_set == DataSet::Uniform { "row_tokens" } else { "max_tokens" };
        format!("rows of {} do not fit into {name}'s context of {context}: lower {remedy}", counted(longest, "token"))
    })
}

fn first_step_is_full(candidate: &Candidate) -> Option<String> {
    let (settings, samples) = (candidate.settings, candidate.rows.samples?);
    (settings.steps_per_epoch(samples) == 0).then(|| {
        let what = if settings.packed {
            "packs"
        } else if settings.technique.prefers() {
            "pairs"
        } else {
            "rows"
        };
        let step = settings.step_rows();
        format!("{samples} {what} do not fill a step of {step}: use more rows or a smaller batch")
    })
}

fn tied_ends_are_one_unit(candidate: &Candidate) -> Option<String> {
    let (settings, model) = (candidate.settings, candidate.model);
    (settings.sharded() && settings.fsdp_wrap == FsdpWrap::MemoryEfficient && model.tied).then(|| {
        let name = &model.name;
        format!(
            "fsdp_wrap = memory_efficient gathers the embedding and the output layer separately, but in {name} they are one matrix: use \
                 fsdp_wrap = block"
        )
    })
}

fn steps_can_be_captured(candidate: &Candidate) -> Option<String> {
    let settings = candidate.settings;
    if !settings.cuda_graph {
        return None;
    }
    if settings.sharded() {
        return Some(
            "cuda_graph = on captures a step whose tensors stay where they are, and sharding = fsdp gives memory back within a step: \
             use cuda_graph = off or sharding = ddp"
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
    let (steps, warm_up) = (settings.steps(candidate.rows.samples?), CUDA_GRAPH_WARM_UP_STEPS);
    (steps <= warm_up).then(|| {
        format!(
            "cuda_graph = on measures steps from step {} on, but the run has only {}: use more rows or epochs",
            warm_up + 1,
            counted(steps, "step")
        )
    })
}

fn cuda_levels_need_cuda(candidate: &Candidate) -> Option<String> {
    let settings = candidate.settings;
    let one_of = [
        (settings.precision == Precision::Fp16, "fp16", "use bf16 or fp32"),
        (settings.pin_memory, "pin_memory = on", "use pin_memory = off"),
        (settings.tf32 != Tf32::Off && settings.precision == Precision::Fp32, "TF32", "use tf32 = off"),
        (settings.kernels == Kernels::Fused, "kernels = fused", "use kernels = plain"),
        (settings.cuda_graph, "cuda_graph = on", "use cuda_graph = off"),
        (
            settings.sharded() && settings.fsdp_gather == FsdpGather::Copies,
            "fsdp_gather = copies",
            "use fsdp_gather = collectives",
        ),
    ];
    let (_, what, remedy) = one_of.into_iter().find(|(chosen, _, _)| *chosen)?;
    without_cuda(candidate.node, what, remedy)
}

fn devices_exist(candidate: &Candidate) -> Option<String> {
    let (node, settings) = (candidate.node, candidate.settings);
    let of_node = settings.gpus_of_node();
    no_devices(node, of_node).or_else(|| settings.gpu_choice.refusal(node, node.has_cuda(), of_node))
}

fn gpus_multiply_fp8(candidate: &Candidate) -> Option<String> {
    if candidate.settings.precision != Precision::Fp8 || !candidate.node.has_cuda() {
        return None;
    }
    let (gpu, (major, minor)) = usable_gpus(candidate.node)
        .filter_map(|gpu| Some((gpu, gpu.compute_capability?)))
        .find(|(_, capability)| *capability < FP8_SINCE)?;
    let (name, (needed, point)) = (&gpu.name, FP8_SINCE);
    Some(format!(
        "precision = fp8 needs GPUs of compute capability {needed}.{point} or higher, and {name} has {major}.{minor}: use precision = bf16"
    ))
}

fn memory_suffices(candidate: &Candidate) -> Option<String> {
    let settings = candidate.settings;
    let available_bytes = memory_per_rank_bytes(candidate.node, candidate.limits, settings.gpus_of_node());
    let shortage = shortage(candidate.estimate.peak_bytes, available_bytes)?;
    let gb = |bytes: f64| if bytes < 9.95e9 { format!("{:.1}", bytes / 1e9) } else { format!("{:.0}", bytes / 1e9) };
    let kinds = candidate.memory.kinds().into_iter().filter(|(_, bytes)| *bytes >= 5e7);
    let kinds: Vec<String> = kinds.map(|(name, bytes)| format!("{name} {}", gb(bytes))).collect();
    let passing = candidate.memory.activations + candidate.memory.logits;
    let remedies = [
        (settings.precision == Precision::Fp32, "precision = bf16"),
        (settings.lora.is_none(), "technique = lora"),
        (matches!(settings.technique, Technique::Lora), "technique = qlora"),
        (!settings.activation_checkpointing, "activation_checkpointing = on"),
        (passing > 1e9, "a smaller batch or max_tokens"),
        (settings.model != Model::Tiny, "a smaller model"),
        (settings.sharded() || settings.gpus == 1, "more GPUs with sharding = fsdp"),
        (settings.gpus > 1 && !settings.sharded(), "sharding = fsdp"),
    ];
    let remedies: Vec<&str> = remedies.into_iter().filter(|(helps, _)| *helps).map(|(_, remedy)| remedy).collect();
    Some(format!("does not fit: {shortage} ({}): use {}", kinds.join(", "), remedies.join(", ")))
}

fn host_memory_suffices(candidate: &Candidate) -> Option<String> {
    let shortage = shortage(candidate.estimate.host_bytes, candidate.node.memory_bytes)?;
    Some(format!(
        "does not fit into the host's memory: {shortage}, with five bytes for each token of the rows: use fewer rows or GPUs"
    ))
}
