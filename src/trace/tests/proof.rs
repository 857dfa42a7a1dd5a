//! What a report says against a plan.

use super::golden::imported;
use crate::plan::{Factor, Hint, Level, Levels, NumberFormat, WorkloadSpec, image};
use crate::protocol::Evidence;
use crate::trace::{NvtxRange, Statistics, Trace, Window};

fn evidence(report: &str, levels: &[(&'static str, &str)]) -> Vec<Evidence> {
    let level = |text: &str| text.parse().map_or_else(|_| Level::text(text), Level::Integer);
    let levels = Levels::new(levels.iter().map(|(key, text)| (*key, level(text))).collect());
    imported(report, &Window::default()).proof.evidence(&image::spec(), &levels)
}

/// The factors that a report says were not in effect.
fn contradicted(report: &str, levels: &[(&'static str, &str)]) -> Vec<String> {
    let all = evidence(report, levels);
    assert_eq!(all.len(), levels.iter().filter(|(key, _)| *key != "tf32" && *key != "loader").count());
    all.into_iter().filter(|one| !one.in_effect).map(|one| one.factor).collect()
}

#[test]
fn a_run_that_did_what_was_planned_is_not_contradicted() {
    let as_run = [
        ("pin_memory", "on"),
        ("layout", "nchw"),
        ("precision", "fp32"),
        ("strategy", "ddp-ds"),
        ("gpus", "2"),
        ("cuda_graph", "off"),
    ];
    assert!(contradicted("ddp2_100_pin", &as_run).is_empty());
    let single =
        [("pin_memory", "off"), ("precision", "fp32"), ("tf32", "conv"), ("strategy", "single"), ("gpus", "1")];
    assert!(contradicted("single_100", &single).is_empty());
}

#[test]
fn factors_that_were_not_in_effect_are_named_with_what_was_seen() {
    let planned = [
        ("pin_memory", "off"),
        ("layout", "nhwc"),
        ("precision", "fp16"),
        ("strategy", "dp"),
        ("gpus", "4"),
        ("cuda_graph", "on"),
    ];
    let factors = ["pin_memory", "layout", "precision", "strategy", "gpus", "cuda_graph"];
    assert_eq!(contradicted("ddp2_100_pin", &planned), factors);
    assert_eq!(contradicted("ddp2_100_nopin", &[("pin_memory", "on")]), ["pin_memory"]);
    assert_eq!(contradicted("single_100", &[("precision", "fp32"), ("tf32", "off")]), ["precision"]);
    let seen = &evidence("ddp2_100_pin", &[("gpus", "4")])[0];
    assert_eq!((seen.asked.as_str(), seen.seen.as_str()), ("4", "2 GPUs worked"));
}

#[test]
fn a_loader_on_the_gpu_says_nothing_of_pinned_memory() {
    assert!(evidence("ddp2_100_nopin", &[("pin_memory", "on"), ("loader", "device")]).is_empty());
}

#[test]
fn where_much_was_copied_from_memory_of_both_kinds_nothing_is_said_of_batches() {
    let mut proof = imported("single_100", &Window::default()).proof;
    let levels = Levels::new(vec![("pin_memory", Level::text("on"))]);
    let mut proof_of = |pinned_bytes, pageable_bytes| {
        (proof.pin_memory.pinned_bytes, proof.pin_memory.pageable_bytes) = (pinned_bytes, pageable_bytes);
        proof.evidence(&image::spec(), &levels).len()
    };
    // A program of few steps: its weights outweigh its batches.
    assert_eq!((proof_of(5_474_304, 9_083_592), proof_of(9_000_000, 2_000_000), proof_of(500, 9_000_000)), (0, 1, 1));
}

#[test]
fn a_window_that_closed_before_a_graph_could_be_captured_does_not_contradict_it() {
    let mut trace = imported("single_100", &Window::default());
    let levels = Levels::new(vec![("cuda_graph", Level::text("on"))]);
    let spec = image::spec();
    let contradicts =
        |trace: &Trace| trace.summary("report", Some((&spec, &levels))).evidence.iter().any(|one| !one.in_effect);
    assert!(contradicts(&trace), "it has no launch of a graph");
    for (calls, expected) in [(8, false), (100, true)] {
        let statistics = Statistics { calls, ..trace.api[0].statistics };
        trace.nvtx = vec![NvtxRange { domain: None, name: "step".to_owned(), statistics }];
        assert_eq!(contradicts(&trace), expected, "{calls} steps");
    }
}

#[test]
fn a_level_is_proven_by_its_hints_whatever_its_workload_calls_it() {
    let proof = imported("single_100", &Window::default()).proof;
    let number = Factor::named("number", "Number", &["single", "half", "quarter"]);
    let hints = [("single", Hint::Multiplies(NumberFormat::Tf32)), ("half", Hint::Multiplies(NumberFormat::Fp16))];
    let solver = WorkloadSpec { factors: vec![number.hints(hints)], ..WorkloadSpec::unknown("solver") };
    let seen = |key: &'static str, level: &str| {
        let evidence = proof.evidence(&solver, &Levels::new(vec![(key, Level::text(level))]));
        evidence.into_iter().map(|one| (one.factor, one.in_effect)).collect::<Vec<_>>()
    };
    assert_eq!(seen("number", "single"), [("number".to_owned(), true)]);
    assert_eq!(seen("number", "half"), [("number".to_owned(), false)]);
    // Nothing is known of its kernels: it is not said that it was not in effect.
    assert_eq!(seen("number", "quarter"), []);
    // A key means the same in every workload.
    assert_eq!(seen("precision", "tf32"), [("precision".to_owned(), true)]);
}
