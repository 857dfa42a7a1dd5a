#![allow(clippy::unwrap_used)]

use super::*;
use crate::plan::fixture::{cpu_node, gpu_node};
use crate::plan::{Data, Estimate, Level, Matrix, Node, Plan, expand};

fn level(text: &str) -> Level {
    let number = || text.parse().ok().map(Level::Number);
    text.parse().ok().map(Level::Integer).or_else(number).unwrap_or_else(|| Level::text(text))
}

fn plan(settings: &[(&str, &str)]) -> Plan {
    let mut plan = Plan::new("small", spec());
    for (key, text) in settings {
        let (_, ticked) = plan.first.factors.iter_mut().find(|(known, _)| known == key).unwrap();
        *ticked = vec![level(text)];
    }
    plan
}

/// The reason against the plan's only cell; empty if it is valid.
fn reason_of(plan: &Plan, node: &Node) -> String {
    let Matrix { invalid, .. } = expand(plan, node);
    invalid.into_iter().next().map(|cell| cell.reason).unwrap_or_default()
}

fn refused(settings: &[(&str, &str)], node: &Node) -> String {
    reason_of(&plan(settings), node)
}

fn peak_gib(settings: &[(&str, &str)]) -> f64 {
    let cell = expand(&plan(settings), &gpu_node(2)).cells.remove(0);
    // The allocator does not count CUDA's context.
    (cell.estimate.peak_bytes as f64 - 0.6e9) / f64::from(1 << 30)
}

#[test]
fn defaults_are_the_papers_and_can_run_with_a_gpu() {
    let cell = expand(&Plan::new("p", spec()), &gpu_node(1)).cells.remove(0);
    assert_eq!((cell.shape.steps, cell.shape.processes), (250, 1));
    // 59,330 tokens in 500 rows, two rows per step.
    assert_eq!(cell.shape.units_per_step, 237);
    let settings = LlmSettings::from_levels(&cell.levels).unwrap();
    let lora = Lora { rank: 8, alpha: 16.0, targets: LoraTargets::QvoMlp };
    assert_eq!((settings.technique, settings.lora), (Technique::Lora, Some(lora)));
    assert_eq!((settings.template, settings.train_on_input), (Template::Instruct, true));
    assert_eq!((settings.learning_rate, settings.warmup_steps, settings.max_tokens), (3e-4, 100, None));
}

#[test]
fn no_measure_has_the_key_of_a_factor() {
    let spec = spec();
    for measure in &spec.measures {
        assert!(spec.factors.iter().all(|factor| factor.key != measure.key), "{}", measure.key);
    }
}

#[test]
fn peaks_agree_with_torchtunes_on_an_h100_within_a_tenth() {
    for (precision, row_tokens, measured) in
        [("bf16", "120", 16.9), ("bf16", "512", 22.1), ("fp32", "120", 33.2), ("fp32", "512", 42.3)]
    {
        let found = peak_gib(&[("precision", precision), ("data_set", "uniform"), ("row_tokens", row_tokens)]);
        assert!((found / measured - 1.0).abs() < 0.1, "{precision} {row_tokens}: {found} of {measured} GiB");
    }
}

#[test]
fn qlora_fits_where_lora_does_not_and_its_peaks_are_below_torchtunes() {
    for (precision, row_tokens, measured) in [("bf16", "120", 7.8), ("bf16", "512", 12.4), ("fp32", "120", 11.4)] {
        let levels = [("precision", precision), ("data_set", "uniform"), ("row_tokens", row_tokens)];
        let found = peak_gib(&[&[("technique", "qlora")][..], &levels].concat());
        assert!(
            (0.75 * measured..1.05 * measured).contains(&found),
            "{precision} {row_tokens}: {found} of {measured} GiB"
        );
    }
    let estimate_of = |technique: &'static str| {
        let mut plan = plan(&[("technique", technique), ("precision", "bf16")]);
        plan.limits.memory_limit_gb = Some(16.0);
        reason_of(&plan, &gpu_node(1))
    };
    assert_eq!(estimate_of("qlora"), "");
    let reason = estimate_of("lora");
    assert!(reason.contains(" of 16 GB (weights 16, ") && reason.contains("technique = qlora"), "{reason}");
    let reason = refused(&[("technique", "qlora"), ("gpus", "2")], &gpu_node(2));
    assert!(reason.contains("trains on one GPU") && reason.contains("gpus = 1"), "{reason}");
}

#[test]
fn each_technique_is_refused_below_its_estimate_with_numbers_by_kind() {
    for (technique, limit, kind) in
        [("qlora", 6.0, "weights 5.7"), ("dpo", 16.0, "activations"), ("qat", 60.0, "optimizer 32")]
    {
        let mut plan = plan(&[("technique", technique), ("precision", "bf16"), ("data_set", "uniform")]);
        plan.limits.memory_limit_gb = Some(limit);
        let reason = reason_of(&plan, &gpu_node(1));
        assert!(reason.starts_with("does not fit: ") && reason.contains(kind), "{technique}: {reason}");
    }
}

#[test]
fn preferences_of_all_weights_take_a_second_copy_of_them_that_is_not_sharded() {
    let peak_of = |technique| peak_gib(&[("technique", technique), ("model", "llama3.2-1b"), ("precision", "bf16")]);
    let weights = 2.0 * ModelConfig::llama3_2_1b().parameters() as f64 / f64::from(1 << 30);
    // Pairs keep the activations of twice as many rows.
    assert!(peak_of("dpo-full") - peak_of("full") > weights, "{} {}", peak_of("dpo-full"), peak_of("full"));
    let model = [("technique", "dpo-full"), ("model", "llama3.2-1b"), ("gpus", "2")];
    let reason = refused(&model, &gpu_node(2));
    assert!(reason.contains("does not shard that copy") && reason.contains("sharding = ddp"), "{reason}");
    assert_eq!(refused(&[&model[..], &[("sharding", "ddp")]].concat(), &gpu_node(2)), "");
}

#[test]
fn inference_is_estimated_below_training_in_time_and_memory() {
    let peak_of = |passes| {
        let levels = [("passes", passes), ("technique", "full"), ("model", "llama3.2-1b"), ("rows", "5000")];
        expand(&plan(&levels), &gpu_node(1)).cells.remove(0).estimate
    };
    let (infers, trains) = (peak_of("inference"), peak_of("training"));
    assert!(infers.peak_bytes < trains.peak_bytes / 3, "{infers:?} {trains:?}");
    let steps_s = |estimate: Estimate| estimate.duration_s - estimate.start_s;
    assert!(steps_s(infers) < 0.4 * steps_s(trains), "{infers:?} {trains:?}");
}

#[test]
fn checkpoints_keep_a_row_of_numbers_for_each_block_and_everything_of_one_block() {
    let activations = |checkpointing| {
        let levels = [("precision", "bf16"), ("data_set", "uniform"), ("row_tokens", "120")];
        let levels = [&levels[..], &[("activation_checkpointing", checkpointing)]].concat();
        let cell = expand(&plan(&levels), &gpu_node(1)).cells.remove(0);
        cell.estimate.memory_kinds().find(|(kind, _)| *kind == "activations").unwrap().1
    };
    // Two rows of 120 tokens, each of 4096 numbers of 2 bytes in each of 32 blocks.
    assert_eq!(activations("on"), 2 * 120 * 32 * 4096 * 2 + activations("off") / 32);
}

/// The estimated time of a step on the first of so many GPUs, in seconds.
fn step_s(settings: &[(&str, &str)]) -> f64 {
    let gpus = settings.iter().find(|(key, _)| *key == "gpus").map_or(1, |(_, gpus)| gpus.parse().unwrap());
    let cell = expand(&plan(settings), &gpu_node(gpus)).cells.remove(0);
    (cell.estimate.duration_s - cell.estimate.start_s) / cell.shape.steps as f64
}

#[test]
fn a_step_takes_the_operations_of_its_technique_and_checkpoints_one_forward_pass_more() {
    // Long enough that arithmetic takes longer than launches.
    let step_s_with = |more: &[(&'static str, &'static str)]| {
        let levels = [("model", "llama3.2-1b"), ("precision", "fp32"), ("data_set", "uniform"), ("row_tokens", "512")];
        step_s(&[&levels[..], &[("technique", "full")], more].concat())
    };
    // Operations per parameter and token: 2 forward, twice that backward.
    let full = step_s_with(&[]);
    let expected_s = 6.0 * 2.0 * 512.0 * ModelConfig::llama3_2_1b().parameters() as f64 / 44e12;
    assert!((full / expected_s - 1.0).abs() < 1e-9, "{full} instead of {expected_s}");
    for (more, operations) in [
        (&[("passes", "inference")][..], 2.0),
        (&[("activation_checkpointing", "on")], 8.0),
        (&[("activation_checkpointing", "on"), ("passes", "inference")], 2.0),
    ] {
        let found = 6.0 * step_s_with(more) / full;
        assert!((found - operations).abs() < 1e-9, "{more:?}: {found}");
    }
}

#[test]
fn a_sharded_step_lasts_at_least_as_long_as_gathering_its_weights_twice() {
    let levels = [("technique", "full"), ("precision", "bf16"), ("data_set", "uniform"), ("row_tokens", "16")];
    let step_s = step_s(&[&levels[..], &[("gpus", "8")]].concat());
    // Seven of eight parts come from others, at 300 GB/s.
    let expected_s = 2.0 * 7.0 / 8.0 * 16_060_522_496.0 / 300e9;
    assert!((step_s / expected_s - 1.0).abs() < 1e-9, "{step_s} instead of {expected_s}");
}

#[test]
fn policy_and_reference_share_short_passes_of_fused_kernels_with_adapters_that_are_whole_on_each_gpu() {
    let settings_of = |changed: &[(&str, &str)]| {
        let usual = [("technique", "dpo"), ("kernels", "fused"), ("data_set", "uniform")];
        let cell = expand(&plan(&[&usual[..], changed].concat()), &gpu_node(2)).cells.remove(0);
        LlmSettings::from_levels(&cell.levels).unwrap()
    };
    let joined = settings_of(&[]);
    assert_eq!([1, 640, 641].map(|tokens| joined.joins_reference(tokens)), [true, true, false]);
    assert!(settings_of(&[("gpus", "2"), ("sharding", "ddp")]).joins_reference(480));
    for apart in [
        &[("kernels", "plain")][..],
        &[("technique", "lora")],
        &[("technique", "dpo-full"), ("model", "llama3.2-1b")],
        &[("activation_checkpointing", "on")],
        &[("gpus", "2"), ("sharding", "fsdp")],
    ] {
        assert!(!settings_of(apart).joins_reference(480), "{apart:?}");
    }
    // Twice as many rows of logits at a time, in bf16: 480 of each side, which are fewer than 1024.
    let peak_of = |technique: &'static str| {
        let levels = [("kernels", "fused"), ("precision", "bf16"), ("data_set", "uniform"), ("row_tokens", "120")];
        let rows = if technique == "dpo" { "2" } else { "4" };
        peak_gib(&[&levels[..], &[("technique", technique), ("batch_size", rows)]].concat())
    };
    let more = (peak_of("dpo") - peak_of("lora")) * f64::from(1 << 30);
    assert!((more - 480.0 * 2.0 * 128_256.0).abs() < 1e3, "{more}");
}

#[test]
fn peaks_of_dpo_agree_with_torchtunes_on_an_h100_within_a_tenth() {
    for (precision, measured) in [("bf16", 19.0), ("fp32", 36.4)] {
        let found = peak_gib(&[("technique", "dpo"), ("precision", precision), ("data_set", "uniform")]);
        assert!((found / measured - 1.0).abs() < 0.1, "{precision}: {found} of {measured} GiB");
    }
}

#[test]
fn peaks_agree_with_an_h100_within_a_tenth_and_with_fused_kernels_within_a_twenty_fifth() {
    // tests/records/2026-11-22-h100-llama-lora.md
    for (settings, measured) in [
        (&[("precision", "bf16"), ("row_tokens", "120")][..], 15.95),
        (&[("precision", "bf16"), ("row_tokens", "512")], 18.73),
        (&[("precision", "fp32"), ("row_tokens", "120")], 32.10),
        (&[("precision", "fp32"), ("row_tokens", "512")], 38.45),
        (&[("precision", "fp16"), ("row_tokens", "120")], 16.11),
        (&[("precision", "bf16"), ("row_tokens", "512"), ("activation_checkpointing", "on")], 15.60),
        (&[("technique", "full"), ("model", "llama3.2-1b"), ("precision", "bf16"), ("row_tokens", "120")], 9.77),
    ] {
        let found = peak_gib(&[settings, &[("data_set", "uniform"), ("kernels", "fused")]].concat());
        assert!((found / measured - 1.0).abs() < 0.04, "{settings:?}: {found} of {measured} GiB");
    }
    // The same model with plain kernels.
    for (settings, measured) in [
        (&[("precision", "bf16"), ("row_tokens", "120")][..], 16.76),
        (&[("technique", "full"), ("model", "llama3.2-1b"), ("precision", "bf16"), ("row_tokens", "120")], 9.80),
    ] {
        let found = peak_gib(&[settings, &[("data_set", "uniform")]].concat());
        assert!((found / measured - 1.0).abs() < 0.1, "{settings:?}: {found} of {measured} GiB");
    }
}

#[test]
fn peaks_of_sharded_ranks_agree_with_two_h200s_within_a_twelfth() {
    // tests/records/2026-11-22-h200x2-fsdp-copies.md
    for (settings, measured) in [
        (&[("precision", "bf16")][..], 11.13),
        (&[("precision", "fp32")], 22.51),
        (&[("precision", "fp32"), ("fsdp_wrap", "memory_efficient")], 19.83),
        (&[("precision", "fp32"), ("technique", "dpo")], 24.92),
        (&[("precision", "fp32"), ("technique", "full")], 65.57),
        (&[("precision", "fp32"), ("technique", "qat")], 65.57),
    ] {
        let found = peak_gib(&[settings, &[("data_set", "uniform"), ("kernels", "fused"), ("gpus", "2")]].concat());
        assert!((found / measured - 1.0).abs() < 1.0 / 12.0, "{settings:?}: {found} of {measured} GiB");
    }
    // QAT on one of them.
    let found = peak_gib(&[("precision", "fp32"), ("technique", "qat"), ("data_set", "uniform"), ("kernels", "fused")]);
    assert!((found / 119.7 - 1.0).abs() < 0.04, "{found}");
}

#[test]
fn pairs_count_as_samples_and_prompts_are_not_learned_unless_asked() {
    let cell = expand(&plan(&[("technique", "dpo"), ("data_set", "uniform")]), &gpu_node(1)).cells.remove(0);
    assert_eq!((cell.shape.steps, cell.shape.units_per_step), (250, 2 * 2 * 120));
    let cell = expand(&plan(&[("technique", "dpo")]), &gpu_node(1)).cells.remove(0);
    let settings = LlmSettings::from_levels(&cell.levels).unwrap();
    assert_eq!((settings.train_on_input, settings.dpo_beta), (false, 0.1));
    // Rejected answers are those of the next rows, so all prompts and all answers come twice.
    assert!(cell.shape.units_per_step.abs_diff(2 * 237) <= 1, "{}", cell.shape.units_per_step);
}

#[test]
fn what_cannot_fit_is_off_with_numbers_by_kind() {
    let full = [("technique", "full"), ("precision", "fp32")];
    let mut plan = plan(&full);
    plan.limits.memory_limit_gb = Some(94.0);
    let reason = reason_of(&plan, &gpu_node(1));
    assert!(reason.starts_with("does not fit: ") && reason.contains(" of 94 GB (weights 32, "), "{reason}");
    assert!(reason.contains("optimizer 64") && reason.contains("precision = bf16, technique = lora"), "{reason}");
}

#[test]
fn quantisation_aware_training_fits_two_of_the_papers_cards_and_not_one() {
    let problem_of = |gpus: &str, limit| {
        let levels = [("technique", "qat"), ("precision", "fp32"), ("data_set", "uniform"), ("kernels", "fused")];
        let mut plan = plan(&[&levels[..], &[("gpus", gpus)]].concat());
        plan.limits.memory_limit_gb = Some(limit);
        reason_of(&plan, &gpu_node(4))
    };
    let reason = problem_of("1", 94.0);
    assert!(reason.contains(" of 94 GB (weights 32, ") && reason.contains("more GPUs"), "{reason}");
    assert_eq!(problem_of("2", 94.0), "");
    assert_eq!(problem_of("4", 94.0), "");
}

#[test]
fn cells_that_make_no_sense_are_refused_with_the_reason() {
    let cases: &[(&[(&str, &str)], &str)] = &[
        (&[("data_set", "file")], "use data.set = files"),
        (&[("template", "summarize")], "other columns than alpaca-cleaned"),
        (&[("packed", "on")], "set max_tokens"),
        (&[("max_tokens", "9000"), ("packed", "on")], "context of 8192"),
        (&[("data_set", "uniform"), ("row_tokens", "9000")], "lower row_tokens"),
        (&[("data_set", "uniform"), ("rows", "0")], "give a number of rows"),
        (&[("data_set", "samsum"), ("rows", "20000")], "use 16369 or fewer"),
        (&[("rows", "1")], "do not fill a step of 2"),
        (&[("rows", "20"), ("cuda_graph", "on")], "from step 13 on, but the run has only 10"),
        (&[("model", "config")], "needs data.config"),
        (&[("precision", "fp16"), ("cuda_graph", "on"), ("optimizer_impl", "loop")], "cannot capture"),
        (&[("technique", "dpo"), ("packed", "on"), ("max_tokens", "512")], "compares pairs of them: use packed = off"),
        (&[("technique", "qat"), ("model", "tiny")], "those of tiny are 128 and 384: lower qat_group"),
        (&[("technique", "dpo"), ("rows", "1")], "1 pairs do not fill a step of 2"),
    ];
    for (settings, part) in cases {
        let reason = refused(settings, &gpu_node(1));
        assert!(reason.contains(part), "{settings:?}: {reason}");
    }
    for (key, text) in [("kernels", "fused"), ("pin_memory", "on"), ("cuda_graph", "on"), ("precision", "fp16")] {
        let reason = refused(&[("model", "tiny"), (key, text)], &cpu_node());
        assert!(
            reason.contains("needs an NVIDIA GPU (the driver is missing; see `multicard doctor`): use "),
            "{key}: {reason}"
        );
    }
    assert_eq!(refused(&[("model", "tiny")], &cpu_node()), "");
}

#[test]
fn fp8_is_for_frozen_weights_of_whole_models_that_it_can_multiply() {
    let fp8 = |more: &[(&'static str, &'static str)], node: &Node| {
        refused(&[&[("model", "llama3.2-1b"), ("precision", "fp8")][..], more].concat(), node)
    };
    let node = gpu_node(2);
    for (more, part) in [
        (
            &[("technique", "qlora")][..],
            "technique = qlora stores them in NF4: use technique = lora or precision = bf16",
        ),
        (&[("technique", "full")], "technique = full trains them: use technique = lora"),
        (&[("technique", "qat")], "technique = qat trains them: use technique = lora"),
        (&[("technique", "dpo-full")], "technique = dpo-full trains them: use technique = dpo"),
        (&[("gpus", "2")], "use sharding = ddp, gpus = 1 or precision = bf16"),
    ] {
        let reason = fp8(more, &node);
        assert!(reason.starts_with("precision = fp8 stores ") && reason.contains(part), "{more:?}: {reason}");
    }
    for more in [
        &[("technique", "lora")][..],
        &[("technique", "dpo"), ("kernels", "fused"), ("cuda_graph", "on")],
        &[("gpus", "2"), ("sharding", "ddp")],
        &[("passes", "inference")],
    ] {
        assert_eq!(fp8(more, &node), "", "{more:?}");
    }
    assert_eq!(
        refused(&[("model", "tiny"), ("precision", "fp8")], &cpu_node()),
        "",
        "CPUs multiply the same numbers in fp32"
    );
}

#[test]
fn fp8_needs_matrices_of_whole_sixteens() {
    let folder = tempfile::tempdir().unwrap();
    let reason_with = |ffn: usize| {
        let config = serde_json::json!({
            "model_type": "llama", "hidden_act": "silu", "attention_bias": false, "mlp_bias": false, "vocab_size": 96,
            "hidden_size": 128, "intermediate_size": ffn, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 4, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
            "tie_word_embeddings": false,
        });
        let path = folder.path().join("config.json");
        std::fs::write(&path, config.to_string()).unwrap();
        let mut plan =
            plan(&[("model", "config"), ("precision", "fp8"), ("data_set", "uniform"), ("row_tokens", "24")]);
        plan.first.data = Data::of_set("stand-in").with_path("config", &path.display().to_string());
        reason_of(&plan, &gpu_node(1))
    };
    assert_eq!(reason_with(256), "");
    let reason = reason_with(248);
    assert!(
        reason.contains("multiplies 16 numbers at a time, and gate of") && reason.contains("248 by 128"),
        "{reason}"
    );
}

#[test]
fn fp8_needs_gpus_that_multiply_it() {
    let reason_on = |compute_capability| {
        let mut node = gpu_node(2);
        node.gpus[1].compute_capability = compute_capability;
        node.gpus[1].name = "NVIDIA A100".to_owned();
        refused(&[("precision", "fp8")], &node)
    };
    let reason = reason_on(Some((8, 0)));
    assert!(reason.contains("needs GPUs of compute capability 8.9 or higher, and NVIDIA A100 has 8.0"), "{reason}");
    for can in [Some((8, 9)), Some((9, 0)), Some((12, 0)), None] {
        assert_eq!(reason_on(can), "", "{can:?}");
    }
}

#[test]
fn weights_in_fp8_take_the_memory_of_bf16_and_their_products_less_time() {
    let estimate_of = |precision| {
        let levels = [("precision", precision), ("data_set", "uniform"), ("row_tokens", "2048"), ("kernels", "plain")];
        expand(&plan(&levels), &gpu_node(1)).cells.remove(0).estimate
    };
    let [bf16, fp8] = ["bf16", "fp8"].map(estimate_of);
    let weights = |estimate: &Estimate| estimate.memory_kinds().find(|(kind, _)| *kind == "weights").unwrap().1;
    // Each matrix twice in one byte. A scale of four bytes for each row and each column of the four matrices of 32 blocks.
    let sides = (4096 + 6144) + (4096 + 4096) + (4096 + 2 * 14_336) + (14_336 + 4096);
    assert_eq!(weights(&fp8) - weights(&bf16), 32 * 4 * sides);
    assert!(fp8.peak_bytes > bf16.peak_bytes && fp8.peak_bytes < bf16.peak_bytes + 1_000_000_000, "{fp8:?} {bf16:?}");
    let steps_s = |estimate: &Estimate| estimate.duration_s - estimate.start_s;
    assert!(steps_s(&fp8) < 0.9 * steps_s(&bf16), "{fp8:?} {bf16:?}");
}

#[test]
fn sharded_cells_that_make_no_sense_are_refused_with_the_reason() {
    let cases: &[(&[(&str, &str)], &str)] = &[
        (&[("gpus", "2"), ("cuda_graph", "on")], "use cuda_graph = off or sharding = ddp"),
        (&[("gpus", "2"), ("model", "llama3.2-1b"), ("fsdp_wrap", "memory_efficient")], "use fsdp_wrap = block"),
        (&[("gpus", "4")], "has 2 usable GPUs, not 4"),
    ];
    for (settings, part) in cases {
        let reason = refused(settings, &gpu_node(2));
        assert!(reason.contains(part), "{settings:?}: {reason}");
    }
    assert_eq!(refused(&[("gpus", "2"), ("cuda_graph", "on"), ("sharding", "ddp")], &gpu_node(2)), "");
    assert_eq!(refused(&[("model", "tiny"), ("gpus", "2")], &cpu_node()), "");
    let copies = [("model", "tiny"), ("gpus", "2"), ("fsdp_gather", "copies")];
    assert_eq!(refused(&copies, &gpu_node(2)), "");
    assert!(refused(&copies, &cpu_node()).contains("use fsdp_gather = collectives"));
}

#[test]
fn a_sharded_rank_holds_its_share_and_the_units_in_use() {
    let kinds = |settings: &[(&str, &str)]| {
        let cell = expand(&plan(settings), &gpu_node(4)).cells.remove(0);
        let kinds: Vec<_> = cell.estimate.memory_kinds().collect();
        let bytes_of = |name: &str| kinds.iter().find(|(known, _)| *known == name).map_or(0, |(_, bytes)| *bytes);
        ["weights", "gathered", "optimizer"].map(bytes_of)
    };
    let fp32 =
        |gpus, more: &[(&'static str, &'static str)]| kinds(&[&[("technique", "full"), ("gpus", gpus)], more].concat());
    let alone = fp32("1", &[("precision", "bf16")]);
    let two = fp32("2", &[("precision", "bf16")]);
    assert_eq!((two[0], two[2], alone[1]), (alone[0] / 2, alone[2] / 2, 0));
    // Two blocks, embedding and output layer.
    let (block, table) = (218_112_000 * 2, 128_256 * 4096 * 2);
    assert_eq!(two[1], 2 * block + 2 * table);
    assert_eq!(kinds(&[("gpus", "2"), ("precision", "bf16"), ("fsdp_wrap", "memory_efficient")])[1], block + table);
    assert_eq!(kinds(&[("gpus", "2"), ("precision", "bf16"), ("sharding", "ddp")])[0], alone[0]);
}

#[test]
fn files_need_a_tokenizer_and_a_file_needs_its_template() {
    let mut plan = plan(&[]);
    plan.first.data = Data::of_set("files");
    assert!(reason_of(&plan, &gpu_node(1)).contains("name data.tokenizer"));
    plan.first.data = Data::of_set("files").with_path("tokenizer", "tokenizer.json");
    assert_eq!(reason_of(&plan, &gpu_node(1)), "");
    let (_, ticked) = plan.first.factors.iter_mut().find(|(key, _)| *key == "data_set").unwrap();
    *ticked = vec![Level::text("file")];
    assert!(reason_of(&plan, &gpu_node(1)).contains("needs data.file"));
    plan.first.data = plan.first.data.with_path("file", "rows.jsonl");
    assert!(reason_of(&plan, &gpu_node(1)).contains("no template of its own"));
}

#[test]
fn files_of_samsum_have_the_rows_of_its_training_split_and_stand_ins_all() {
    let reason = |rows: &str, data: Data| {
        let mut plan = plan(&[("data_set", "samsum"), ("rows", rows)]);
        plan.first.data = data;
        reason_of(&plan, &gpu_node(1))
    };
    let files = || Data::of_set("files").with_path("tokenizer", "tokenizer.json");
    assert_eq!(reason("16000", files()), "samsum does not have 16000 rows to train on: use 14732 or fewer");
    assert_eq!(reason("14732", files()), "");
    assert_eq!(reason("16000", Data::of_set("stand-in")), "");
}

#[test]
fn levels_without_meaning_are_no_part_of_a_cell() {
    let mut plan = plan(&[("technique", "full"), ("precision", "bf16")]);
    for (key, levels) in
        [("lora_rank", ["8", "16"]), ("tf32", ["off", "all"]), ("fsdp_wrap", ["block", "memory_efficient"])]
    {
        let (_, ticked) = plan.first.factors.iter_mut().find(|(known, _)| *known == key).unwrap();
        *ticked = levels.iter().map(|text| level(text)).collect();
    }
    let matrix = expand(&plan, &gpu_node(1));
    assert_eq!((matrix.cells.len(), matrix.merged.combinations), (1, 7));
}

#[test]
fn a_plan_may_name_the_data_set_beside_its_rows() {
    let text = "version = 1\nworkload = \"llm\"\n[data]\nset = \"samsum\"\nrows = 20\n";
    let plan = Plan::parse(text, "p.toml").unwrap();
    assert_eq!((plan.first.levels("data_set"), &*plan.first.data.set), (&[Level::text("samsum")][..], "stand-in"));
    let twice = Plan::parse(&plan.to_toml(), "p.toml").unwrap();
    assert_eq!(twice.first, plan.first);
    let error = Plan::parse(&text.replace("samsum", "samsun"), "p.toml").unwrap_err().to_string();
    assert!(error.contains("unknown \"samsun\""), "{error}");
}

#[test]
fn memory_is_told_by_kind() {
    let cell = expand(&plan(&[("precision", "bf16")]), &gpu_node(1)).cells.remove(0);
    let kinds: Vec<_> = cell.estimate.memory_kinds().collect();
    assert_eq!(kinds[0], ("weights", 16_060_522_496));
    assert_eq!(kinds[1], ("adapters", 2 * 19_660_800));
    let sum: u64 = kinds.iter().map(|(_, bytes)| bytes).sum();
    assert!((cell.estimate.peak_bytes - sum).abs_diff(600_000_000) < 100, "{kinds:?}");
}

#[test]
fn fused_kernels_take_spare_columns_behind_the_rows_of_adapted_matrices() {
    let weights_of = |settings: &[(&'static str, &'static str)]| {
        let levels = [&[("precision", "bf16")], settings].concat();
        let cell = expand(&plan(&levels), &gpu_node(2)).cells.remove(0);
        let weights = cell.estimate.memory_kinds().find(|(name, _)| *name == "weights").map(|(_, bytes)| bytes);
        weights.unwrap()
    };
    let spare = |settings: &[(&'static str, &'static str)]| {
        weights_of(&[&[("kernels", "fused")], settings].concat()) - weights_of(settings)
    };
    // 64 numbers in each row: q, k and v; output; gate and up; down.
    let (qkv, others) = (4096 + 2 * 1024, 4096 + 2 * 14_336 + 4096);
    assert_eq!(spare(&[]), 32 * 64 * (qkv + others) * 2);
    assert_eq!(spare(&[("lora_targets", "qv")]), 32 * 64 * qkv * 2);
    // The three adapters of q, k and v need more columns.
    assert_eq!(spare(&[("lora_targets", "qkvo"), ("lora_rank", "32")]), 32 * 64 * 4096 * 2);
    for none in [("technique", "full"), ("technique", "qlora"), ("gpus", "2"), ("lora_rank", "128")] {
        assert_eq!(spare(&[none]), 0, "{none:?}");
    }
}

#[test]
fn all_tokens_of_the_rows_are_held_in_the_hosts_memory() {
    let host_bytes =
        |set| expand(&plan(&[("data_set", set), ("rows", "500")]), &gpu_node(1)).cells.remove(0).estimate.host_bytes;
    // Five bytes a token.
    let more = host_bytes("samsum") - host_bytes("alpaca-cleaned");
    assert!(more.abs_diff(5 * (83_544 - 59_330)) <= 1, "{more}");
}
