#![allow(clippy::unwrap_used)]

use crate::plan::fixture::{cpu_node, gpu_node, small_plan};
use crate::plan::image::{DataSet, Decode};
use crate::plan::{Level, Node, Plan, expand};

fn plan(settings: &[(&'static str, &str)]) -> Plan {
    let level = |text: &str| text.parse().map_or_else(|_| Level::text(text), Level::Integer);
    small_plan(&settings.iter().map(|(key, text)| (*key, vec![level(text)])).collect::<Vec<_>>())
}

/// The reason against the plan's one cell; empty where it is valid.
fn reason(plan: &Plan, node: &Node) -> String {
    let matrix = expand(plan, node);
    assert_eq!(matrix.cells.len() + matrix.invalid.len(), 1);
    matrix.invalid.first().map(|cell| cell.reason.clone()).unwrap_or_default()
}

/// What is said of the level without meaning in the plan's one cell, which runs with that factor at its default.
#[track_caller]
fn idle(plan: &Plan, node: &Node) -> String {
    let matrix = expand(plan, node);
    let [cell] = &matrix.cells[..] else { panic!("one cell runs, found {matrix:?}") };
    let [idle] = &matrix.merged.idle[..] else { panic!("one level has no meaning, found {matrix:?}") };
    assert_eq!(cell.levels.get(&idle.factor), Some(&plan.first.spec.factor(&idle.factor).unwrap().default));
    idle.to_string()
}

#[track_caller]
fn refused(settings: &[(&'static str, &str)], node: &Node, part: &str) {
    let reason = reason(&plan(settings), node);
    assert!(reason.contains(part), "{settings:?} should be refused with {part:?}, found {reason:?}");
}

#[track_caller]
fn accepted(settings: &[(&'static str, &str)], node: &Node) {
    assert_eq!(reason(&plan(settings), node), "", "{settings:?}");
}

#[test]
fn defaults_are_valid_with_and_without_gpus() {
    accepted(&[], &cpu_node());
    accepted(&[], &gpu_node(1));
}

/// A plan over image files.
fn files(decode: Decode, settings: &[(&'static str, &str)]) -> Plan {
    let mut plan = plan(&[settings, &[("scenario", "b"), ("image_size", "300")]].concat());
    plan.first.data = DataSet::Folder { folder: "photos".into(), decode, corrupt: Default::default() }.into();
    plan
}

#[test]
fn image_files_and_scenario_b_belong_together() {
    refused(&[("scenario", "b")], &gpu_node(1), "digits has none: use data.set = folder");
    let mut bytes = plan(&[]);
    bytes.first.data = DataSet::files("photos").into();
    assert!(reason(&bytes, &gpu_node(1)).contains("use scenario = b"));
    for loader in ["host", "dali", "device"] {
        assert_eq!(reason(&files(Decode::Once, &[("loader", loader)]), &gpu_node(1)), "");
    }
    assert_eq!(reason(&files(Decode::EachEpoch, &[("loader", "dali")]), &gpu_node(1)), "");
    let device = files(Decode::EachEpoch, &[("loader", "device")]);
    assert!(reason(&device, &gpu_node(1)).contains("use data.decode = once"));
    let shared = files(Decode::EachEpoch, &[("data_copy", "shared")]);
    assert_eq!(idle(&shared, &gpu_node(1)), "data_copy has no effect under data.decode = each_epoch");
}

#[test]
fn sets_that_do_not_fit_into_the_hosts_memory_are_refused_with_numbers() {
    let mut node = gpu_node(4);
    node.memory_bytes = 64_000_000_000;
    let reason_of = |decode, settings: &[_]| reason(&files(decode, &[&[("gpus", "4")], settings].concat()), &node);
    let found = reason_of(Decode::Once, &[]);
    // 70,000 images of 300 × 300 × 3 bytes, a copy a rank, beside the processes and their batches.
    assert!(found.contains("of 64 GB, including 4 copies of 18.9 GB of images"), "{found}");
    assert!(found.contains("use data_copy = shared, data.decode = each_epoch"), "{found}");
    assert_eq!(reason_of(Decode::Once, &[("data_copy", "shared")]), "");
    assert_eq!(reason_of(Decode::EachEpoch, &[]), "");
    let found = reason_of(Decode::Once, &[("data_copy", "shared"), ("image_size", "700")]);
    assert!(found.contains("including one copy of 102.9 GB"), "{found}");
    assert!(!found.contains("data_copy = shared"), "it is shared already: {found}");
    node.memory_bytes = 8_000_000_000;
    let found = reason(&files(Decode::Once, &[("gpus", "4"), ("image_size", "64")]), &node);
    assert!(
        found.contains("4 copies of 0.9 GB of images") && found.contains("fewer images"),
        "all copies count: {found}"
    );
}

#[test]
fn dali_is_refused_where_it_is_not_installed_and_stages_pixels_its_own_way() {
    accepted(&[("loader", "dali"), ("persistent_workers", "on")], &cpu_node());
    for (key, level) in [("pin_memory", "on"), ("wire_dtype", "uint8")] {
        let found = idle(&plan(&[("loader", "dali"), (key, level)]), &gpu_node(1));
        assert_eq!(found, format!("{key} has no effect under loader = dali"));
    }
    let mut node = cpu_node();
    if let Ok(worker) = &mut node.worker {
        worker.dali = Err("nothing in /cache: run `make dali`".to_owned());
    }
    refused(&[("loader", "dali")], &node, "needs NVIDIA DALI: nothing in /cache: run `make dali`");
}

#[test]
fn every_binding_runs_with_and_without_gpus_and_on_machines_of_one_node() {
    for numa in ["off", "local", "interleave", "first-node"] {
        accepted(&[("numa", numa)], &cpu_node());
        accepted(&[("numa", numa), ("gpus", "2")], &gpu_node(2));
    }
}

#[test]
fn cuda_only_levels_are_refused_on_cpus_with_the_reason_why_there_is_no_cuda() {
    for setting in [("precision", "fp16"), ("pin_memory", "on"), ("tf32", "conv"), ("cuda_graph", "on")] {
        refused(&[setting], &cpu_node(), "needs an NVIDIA GPU (the driver is missing; see `multicard doctor`): use ");
        accepted(&[setting], &gpu_node(1));
    }
    let mut without_worker = gpu_node(1);
    without_worker.worker = Err("the worker is missing".to_owned());
    refused(&[("precision", "fp16")], &without_worker, "fp16 needs CUDA (the worker is missing): use");
    let mut long = cpu_node();
    long.no_gpu_reason =
        Some("no NVIDIA driver found (libnvidia-ml.so.1 cannot be opened): install the driver".to_owned());
    refused(
        &[("precision", "fp16")],
        &long,
        "fp16 needs an NVIDIA GPU (no NVIDIA driver found; see `multicard doctor`)",
    );
}

#[test]
fn the_cpu_can_do_bf16_fp64_and_both_layouts() {
    for precision in ["fp32", "fp64", "bf16"] {
        accepted(&[("precision", precision), ("layout", "nhwc")], &cpu_node());
    }
}

#[test]
fn pixels_that_live_on_the_device_run_everywhere_and_do_not_travel() {
    for strategy in ["dp", "ddp", "ddp-rr", "ddp-ds"] {
        for node in [cpu_node(), gpu_node(2)] {
            accepted(&[("loader", "device"), ("strategy", strategy), ("gpus", "2")], &node);
        }
    }
    for (key, level) in [("pin_memory", "on"), ("wire_dtype", "uint8"), ("persistent_workers", "on")] {
        let found = idle(&plan(&[("loader", "device"), (key, level)]), &gpu_node(1));
        assert_eq!(found, format!("{key} has no effect under loader = device"));
    }
}

#[test]
fn what_a_graph_cannot_capture_is_refused_with_its_reason() {
    let graph = |settings: &[(&'static str, &'static str)]| [&[("cuda_graph", "on")], settings].concat();
    for precision in ["fp32", "fp64", "fp16", "bf16"] {
        accepted(&graph(&[("precision", precision)]), &gpu_node(1));
    }
    for optimizer in ["foreach", "loop"] {
        accepted(&graph(&[("optimizer_impl", optimizer)]), &gpu_node(1));
        let settings = graph(&[("optimizer_impl", optimizer), ("precision", "fp16")]);
        refused(&settings, &gpu_node(1), "asks the host at each step whether gradients overflowed");
    }
    for strategy in ["ddp", "ddp-rr", "ddp-ds"] {
        accepted(&graph(&[("strategy", strategy), ("gpus", "2")]), &gpu_node(2));
    }
    refused(&graph(&[("strategy", "dp"), ("gpus", "2")]), &gpu_node(2), "strategy = dp computes on several");
    accepted(&graph(&[("strategy", "dp")]), &gpu_node(2));
    refused(&graph(&[("train_images", "768")]), &gpu_node(1), "from step 13 on, but the run has only 12");
    accepted(&graph(&[("train_images", "832")]), &gpu_node(1));
    accepted(&graph(&[("train_images", "768"), ("epochs", "2")]), &gpu_node(1));
}

#[test]
fn single_has_one_rank() {
    refused(&[("strategy", "single"), ("gpus", "2")], &gpu_node(2), "strategy = single uses one GPU");
    accepted(&[("strategy", "single")], &gpu_node(2));
}

#[test]
fn every_strategy_runs_over_several_devices() {
    for strategy in ["dp", "ddp", "ddp-rr", "ddp-ds"] {
        accepted(&[("strategy", strategy), ("gpus", "2")], &gpu_node(2));
        accepted(&[("strategy", strategy), ("gpus", "2")], &cpu_node());
    }
}

#[test]
fn sync_batch_norm_is_for_ranks() {
    accepted(&[("sync_batch_norm", "on"), ("gpus", "2")], &gpu_node(2));
    for strategy in ["single", "dp"] {
        let found = idle(&plan(&[("sync_batch_norm", "on"), ("strategy", strategy)]), &gpu_node(2));
        assert_eq!(found, format!("sync_batch_norm has no effect under strategy = {strategy}"));
    }
}

#[test]
fn deterministic_replicas_share_no_generator() {
    let settings = [("strategy", "dp"), ("gpus", "2"), ("deterministic", "on")];
    refused(&settings, &cpu_node(), "share one random number generator");
    accepted(&settings, &gpu_node(2));
}

#[test]
fn tf32_is_for_fp32() {
    let found = idle(&plan(&[("tf32", "all"), ("precision", "bf16")]), &gpu_node(1));
    assert_eq!(found, "tf32 has no effect under precision = bf16");
    accepted(&[("tf32", "all")], &gpu_node(1));
}

#[test]
fn deterministic_runs_are_valid_beside_the_default_benchmark() {
    accepted(&[("deterministic", "on")], &gpu_node(1));
    accepted(&[("wire_dtype", "fp32")], &gpu_node(1));
}

#[test]
fn more_ranks_than_devices_are_refused() {
    refused(&[("gpus", "3")], &gpu_node(2), "2 usable GPUs, not 3");
    refused(&[("gpus", "5")], &cpu_node(), "4 CPUs for 5 CPU ranks");
}

#[test]
fn gpus_in_mig_mode_are_not_used() {
    let mut node = gpu_node(1);
    node.gpus[0].mig = true;
    refused(&[], &node, "MIG GPUs cannot be used");
}

#[test]
fn a_set_smaller_than_a_batch_or_larger_than_the_data_is_refused() {
    refused(&[("train_images", "63")], &cpu_node(), "63 training images cannot fill a batch of 64");
    accepted(&[("train_images", "64")], &cpu_node());
    let two = |strategy| [("train_images", "64"), ("gpus", "2"), ("strategy", strategy)];
    refused(&two("ddp-ds"), &cpu_node(), "64 training images cannot fill a batch of 128");
    accepted(&two("ddp"), &cpu_node());
    refused(&[("train_images", "60001")], &cpu_node(), "use 60000 or fewer");
    refused(&[("test_images", "10001")], &cpu_node(), "use 10000 or fewer");
}

#[test]
fn what_does_not_fit_says_how_much_of_how_much() {
    let big = [("precision", "fp64"), ("image_size", "500"), ("batch_size", "256")];
    let reason_of_gpu = reason(&plan(&big), &gpu_node(1));
    assert!(reason_of_gpu.starts_with("does not fit: ") && reason_of_gpu.contains(" of 141 GB"), "{reason_of_gpu}");
    let mut limited = plan(&[("image_size", "224")]);
    limited.limits.memory_limit_gb = Some(3.5);
    assert!(reason(&limited, &gpu_node(1)).contains(" of 3.5 GB"));
    limited.limits.memory_limit_gb = Some(94.0);
    assert_eq!(reason(&limited, &gpu_node(1)), "");
    let mut small = cpu_node();
    small.memory_bytes = 400_000_000;
    refused(&[], &small, "of 0.4 GB");
}

#[test]
fn fused_kernels_need_a_gpu_and_what_they_compute() {
    let fused = |more: &[(&'static str, &'static str)]| [&[("kernels", "fused"), ("layout", "nhwc")], more].concat();
    accepted(&fused(&[]), &gpu_node(1));
    accepted(
        &fused(&[("strategy", "ddp-ds"), ("gpus", "2"), ("precision", "fp16"), ("cuda_graph", "on")]),
        &gpu_node(2),
    );
    refused(&fused(&[]), &cpu_node(), "kernels = fused needs an NVIDIA GPU");
    for (more, part) in [
        (("layout", "nchw"), "use layout = nhwc or kernels = plain"),
        (("precision", "fp64"), "computes in fp32, fp16 and bf16"),
        (("deterministic", "on"), "use deterministic = off"),
        (("width_multiplier", "2"), "widths from 0.375 to 1.6"),
        (("passes", "inference"), "computes training steps: use passes = training"),
    ] {
        refused(
            &[("kernels", "fused"), ("layout", "nhwc")]
                .into_iter()
                .filter(|(key, _)| *key != more.0)
                .chain([more])
                .collect::<Vec<_>>(),
            &gpu_node(1),
            part,
        );
    }
    for strategy in ["dp", "fsdp"] {
        refused(
            &fused(&[("strategy", strategy), ("gpus", "2")]),
            &gpu_node(2),
            "use strategy = ddp-ds or kernels = plain",
        );
    }
    refused(
        &fused(&[("strategy", "ddp-ds"), ("gpus", "2"), ("sync_batch_norm", "on")]),
        &gpu_node(2),
        "use sync_batch_norm = off",
    );
}
