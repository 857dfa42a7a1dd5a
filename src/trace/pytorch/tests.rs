//! Traces that `tests/golden/torch-profiler/record.py` recorded, against sums of the same JSON that serde_json read; and traces in the form
//! of Kineto's GPU rows that are made here.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;

use crate::trace::{MarkKind, Timeline, Trace, Window, import, import_bytes, keep_events, keep_for_timeline, markdown};

fn go(_: crate::trace::Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/torch-profiler")
}

fn imported(file: &Path) -> Trace {
    import(file, &Window::default(), &mut go).unwrap()
}

fn timeline(file: &Path, cache: &Path) -> Timeline {
    Timeline::open(&keep_for_timeline(file, Ok(cache.to_owned()), &mut go).unwrap(), &mut go).unwrap()
}

/// Recorded traces.
fn recorded() -> Vec<PathBuf> {
    let files = fs::read_dir(golden()).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|file| file.to_string_lossy().ends_with(".json.gz")).collect()
}

fn text_of(file: &Path) -> String {
    let mut text = String::new();
    GzDecoder::new(fs::File::open(file).unwrap()).read_to_string(&mut text).unwrap();
    text
}

/// Number and nanoseconds of a trace's events, by category and name, as serde_json reads them.
fn sums(text: &str) -> BTreeMap<(String, String), (u64, u64)> {
    let trace: Value = serde_json::from_str(text).unwrap();
    let mut sums: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
    for event in trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X") {
        let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
        let sum = sums.entry((text("cat"), text("name"))).or_default();
        *sum = (sum.0 + 1, sum.1 + (event["dur"].as_f64().unwrap() * 1e3).round() as u64);
    }
    sums
}

#[test]
fn recorded_traces_have_the_sums_of_their_json() {
    let files = recorded();
    assert!(files.len() >= 3, "{files:?}");
    for file in files {
        let (sums, trace) = (sums(&text_of(&file)), imported(&file));
        let sums_of = |category: &str| -> BTreeMap<&str, (u64, u64)> {
            let category_sums = sums.iter().filter(|((known, _), _)| known == category);
            category_sums.map(|((_, name), sum)| (name.as_str(), *sum)).collect()
        };
        let mut named: BTreeMap<&str, BTreeMap<&str, (u64, u64)>> = BTreeMap::new();
        for range in &trace.nvtx {
            let category = if range.domain.as_deref() == Some("cpu_op") { "cpu_op" } else { "user_annotation" };
            // A collective's name and size are in the arguments of this operator.
            let is_collective = category == "cpu_op" && range.name.starts_with("nccl:");
            let name = if is_collective { "record_param_comms" } else { &range.name };
            let sum = named.entry(category).or_default().entry(name).or_default();
            *sum = (sum.0 + range.statistics.calls, sum.1 + range.statistics.total_ns);
        }
        for category in ["cpu_op", "user_annotation"] {
            assert_eq!(named.remove(category).unwrap_or_default(), sums_of(category), "{} {category}", file.display());
        }
        let kernels: BTreeMap<&str, (u64, u64)> = (trace.kernels.iter())
            .map(|kernel| (kernel.name.as_str(), (kernel.statistics.calls, kernel.statistics.total_ns)))
            .collect();
        assert_eq!(kernels, sums_of("kernel"), "{}", file.display());
        let total = |categories: &[&str]| {
            categories.iter().flat_map(|category| sums_of(category).into_values()).fold(0, |all, sum| all + sum.1)
        };
        let calls: u64 = trace.api.iter().map(|call| call.statistics.total_ns).sum();
        assert_eq!(calls, total(&["cuda_runtime", "cuda_driver"]), "{}", file.display());
        let memory: u64 = trace.memory.iter().map(|one| one.statistics.total_ns).sum();
        assert_eq!(memory, total(&["gpu_memcpy", "gpu_memset"]), "{}", file.display());
        assert_eq!(trace.warnings, Vec::<String>::new(), "{}", file.display());
    }
}

#[test]
fn kernels_of_recorded_programs_have_families() {
    for file in recorded() {
        let families = imported(&file).families;
        let other = families.iter().find(|family| family.family == "other").map_or(0.0, |family| family.percent);
        assert!(other < 5.0, "{}: {families:?}", file.display());
    }
}

#[test]
fn gpus_are_busy_and_idle_for_as_long_as_holistic_trace_analysis_says() {
    // One line of tests/oracles/holistic.py for each trace.
    let oracle = fs::read_to_string(golden().join("holistic.jsonl")).unwrap();
    let lines: Vec<Value> = oracle.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!lines.is_empty());
    for line in lines {
        let (name, trace) =
            (line["trace"].as_str().unwrap(), imported(&golden().join(line["trace"].as_str().unwrap())));
        let us = |key: &str| line[key].as_f64().unwrap();
        let near = |ns: u64, us: f64| assert!((ns as f64 - 1e3 * us).abs() < 1.0, "{name}: {ns} ns, {us} µs expected");
        let gpu = &trace.per_gpu[0];
        near(gpu.idle_ns, us("idle_time(us)"));
        near(gpu.busy_ns, us("compute_time(us)") + us("non_compute_time(us)"));
        let overlapped = 100.0 * gpu.overlap_ns as f64 / gpu.comm_ns.max(1) as f64;
        if let Some(expected) = line["comp_comm_overlap_pctg"].as_f64().filter(|percent| percent.is_finite()) {
            assert!(
                (overlapped - expected).abs() < 0.01,
                "{name}: {overlapped} % of communication, {expected} % expected"
            );
        }
    }
}

#[test]
fn a_recorded_trace_names_its_source_and_what_it_leaves_out() {
    let trace = imported(&golden().join("cpu-everything.json.gz"));
    let text = markdown(&trace);
    assert!(text.contains("PyTorch profiler, torch 2.11.0+cu130; "), "{text}");
    assert!(text.contains("## Ranges") && text.contains("ProfilerStep#3"), "{text}");
    let left_out = trace.notes.iter().find(|note| note.contains("not imported")).unwrap();
    assert!(left_out.contains("python_function (710)") && left_out.contains("cpu_instant_event (400)"), "{left_out}");
    // The time is that of the profiler's own span.
    assert!(trace.wall_ns > 100_000_000 && trace.metrics.is_empty(), "{}", trace.wall_ns);
    let summary = trace.summary("everything.json.gz", None);
    assert_eq!(summary.recorder(), "PyTorch profiler, torch 2.11.0+cu130");
    assert!(summary.ranges.iter().any(|range| range.name == "backward"), "{:?}", summary.ranges);
}

/// A copy of recorded traces in a folder of their own.
fn folder_of(names: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        fs::copy(golden().join(name), folder.path().join(name)).unwrap();
    }
    folder
}

#[test]
fn ranks_in_a_folder_are_one_recording_with_steps() {
    let folder = folder_of(&["cpu-ddp.rank0.json.gz", "cpu-ddp.rank1.json.gz"]);
    fs::write(folder.path().join("settings.json"), "{\"a\": 1}").unwrap();
    let cache = tempfile::tempdir().unwrap();
    let both = timeline(folder.path(), cache.path());
    let groups: std::collections::BTreeSet<&str> = both.rows().iter().map(|row| row.group.as_str()).collect();
    assert_eq!(groups.into_iter().collect::<Vec<_>>(), ["rank 0", "rank 1"]);
    let split = both.split(&mut go).unwrap();
    assert!(split.has_steps && split.steps.len() == 4, "{:?}", split.steps);
    assert_eq!(both.marks(MarkKind::Step).count(), 2);
    let one = timeline(&folder.path().join("cpu-ddp.rank1.json.gz"), cache.path());
    assert!(
        one.warnings().iter().any(|note| note.contains("2 ranks, of which this recording has 1: 1;")),
        "{:?}",
        one.warnings()
    );
    // Both clocks are the machine's.
    let (all, part) = (both.span(), one.span());
    let (begin, base) = (both.epoch_ns().unwrap(), one.epoch_ns().unwrap());
    assert!(begin + all.0 <= base + part.0 && begin + all.1 >= base + part.1);
    assert!(all.1 - all.0 < 10_000_000_000, "{all:?}");
    assert_eq!(
        both.events(),
        one.events() + timeline(&folder.path().join("cpu-ddp.rank0.json.gz"), cache.path()).events()
    );
}

#[test]
fn a_folder_is_converted_again_when_one_of_its_files_has_changed() {
    let folder = folder_of(&["cpu-ddp.rank0.json.gz", "cpu-ddp.rank1.json.gz"]);
    let cache = tempfile::tempdir().unwrap();
    let kept = |_: &str| keep_for_timeline(folder.path(), Ok(cache.path().to_owned()), &mut go).unwrap();
    let first = kept("first");
    assert_eq!(kept("again"), first);
    fs::remove_file(folder.path().join("cpu-ddp.rank1.json.gz")).unwrap();
    assert_ne!(kept("fewer"), first);
}

/// An event in Kineto's form.
fn event(
    category: &str,
    name: &str,
    (pid, tid): (i64, i64),
    (start, duration): (&str, &str),
    arguments: &str,
) -> String {
    format!(
        "  {{\n    \"ph\": \"X\", \"cat\": \"{category}\", \"name\": \"{name}\", \"pid\": {pid}, \"tid\": {tid},\n    \"ts\": {start}, \"dur\": \
         {duration},\n    \"args\": {{\n      {arguments}\n    }}\n  }}"
    )
}

/// A trace in Kineto's form, made here: a step in which a copy, a kernel, a collective and a wait run on GPU 0.
fn made(rank: u32, pid: i64) -> String {
    let on_gpu = |stream: i64, correlation: i64| {
        format!(
            "\"External id\": 9, \"device\": 0, \"context\": 1, \"stream\": {stream}, \"correlation\": {correlation}"
        )
    };
    let host = |correlation: i64| format!("\"External id\": 9, \"cbid\": 211, \"correlation\": {correlation}");
    let collective = "\"Collective name\": \"allreduce\", \"In msg nelems\": 1000, \"Out msg nelems\": 1000, \"Group size\": 2, \
                      \"dtype\": \"Float\"";
    let all_reduce = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
    let events = [
        event("user_annotation", "ProfilerStep#5", (pid, pid), ("1000.000", "900.000"), "\"External id\": 1"),
        event("cpu_op", "aten::linear", (pid, pid), ("1100.000", "100.250"), "\"Input Dims\": [[2, 3], []], \"Ev Idx\": 1"),
        event("cuda_runtime", "cudaMemcpyAsync", (pid, pid), ("1110.000", "5.000"), &host(11)),
        event("cuda_runtime", "cudaLaunchKernel", (pid, pid), ("1150.000", "5.500"), &host(12)),
        event("cpu_op", "record_param_comms", (pid, pid), ("1300.000", "50.000"), collective),
        event("cuda_driver", "cuLaunchKernelEx", (pid, pid), ("1310.000", "5.000"), &host(13)),
        event("cuda_runtime", "cudaStreamSynchronize", (pid, pid), ("1400.000", "400.000"), &host(14)),
        event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", (0, 7), ("1120.000", "10.000"), &format!("{}, \"bytes\": 4096, \"memory bandwidth (GB/s)\": inf", on_gpu(7, 11))),
        event("gpu_memset", "Memset (Device)", (0, 7), ("1131.000", "1.000"), &format!("{}, \"bytes\": 512", on_gpu(7, 11))),
        event("kernel", "ampere_sgemm_128x64_tn", (0, 7), ("1160.000", "200.125"), &format!("{}, \"grid\": [1, 1, 1], \"graph node id\": 0", on_gpu(7, 12))),
        event("kernel", all_reduce, (0, 20), ("1370.000", "300.000"), &format!("{}, {collective}", on_gpu(20, 13))),
        event("cuda_sync", "Stream Sync", (0, 900_007), ("1400.000", "270.000"), &format!("\"cuda_sync_kind\": \"Stream Sync\", {}", on_gpu(7, 14))),
        event("gpu_user_annotation", "ProfilerStep#5", (0, 7), ("1119.999", "550.003"), "\"External id\": 1"),
        "{\"ph\": \"s\", \"id\": 12, \"pid\": 1, \"tid\": 1, \"ts\": 1150.000, \"cat\": \"ac2g\", \"name\": \"ac2g\"}".to_owned(),
        "{\"name\": \"process_name\", \"ph\": \"M\", \"ts\": 1000.000, \"pid\": 0, \"tid\": 0, \"args\": {\"name\": \"python\"}}".to_owned(),
        event("Trace", "PyTorch Profiler (0)", (0, 0), ("900.000", "1100.000"), "\"Op count\": 0").replace("\"pid\": 0", "\"pid\": \"Spans\""),
    ];
    format!(
        "\n  {{\n    \"schemaVersion\": 1,\n    \"deviceProperties\": [\n    {{\n      \"id\": 0, \"name\": \"NVIDIA H100\", \"totalGlobalMem\": \
         85014806528, \"numSms\": 132\n    }}\n    ],\n    \"distributedInfo\": {{\"backend\": \"nccl\", \"rank\": {rank}, \"world_size\": 2}},\n  \
         \"displayTimeUnit\": \"ms\",\n  \"baseTimeNanoseconds\": {},\n  \"traceEvents\": [\n{}\n  ],\n  \"traceName\": \"a.json\"\n}}",
        // The second rank's clock begins a millisecond later.
        1_790_857_026_000_000_000_i64 + i64::from(rank) * 1_000_000,
        events.join(",\n")
    )
}

fn trace_of(text: &str) -> Trace {
    import_bytes(Path::new("made.json"), text.as_bytes(), &Window::default()).unwrap()
}

#[test]
fn rows_of_a_gpu_are_folded_as_those_of_other_recorders() {
    let trace = trace_of(&made(0, 70));
    assert_eq!(trace.warnings, Vec::<String>::new());
    assert_eq!((trace.wall_ns, trace.gpus.len()), (1_100_000, 1));
    assert_eq!((trace.gpus[0].name.as_deref(), trace.gpus[0].sm_count), (Some("NVIDIA H100"), Some(132)));
    assert!(markdown(&trace).contains("PyTorch profiler, unknown version of torch; 0.001 s"));
    let copy = &trace.memcpy[0];
    assert_eq!(
        (copy.kind.as_str(), copy.src.as_str(), copy.dst.as_str(), copy.bytes),
        ("host_to_device", "pinned", "device", 4096)
    );
    assert_eq!((trace.memset[0].memory.as_str(), trace.memset[0].bytes), ("device", 512));
    assert_eq!((trace.sync[0].kind.as_str(), trace.sync[0].statistics.total_ns), ("stream", 270_000));
    let gpu = &trace.per_gpu[0];
    assert_eq!((gpu.busy_ns, gpu.comm_ns), (10_000 + 1_000 + 200_125 + 300_000, 300_000));
    let metric = |key: &str| trace.metrics.iter().find(|metric| metric.key == key).map(|metric| metric.calls);
    assert_eq!((metric("host_to_device"), metric("cuda_launch_kernel")), (Some(1), Some(1)));
    assert!(trace.notes.iter().any(|note| note.contains("gpu_user_annotation (1)")), "{:?}", trace.notes);
    assert_eq!(trace.summary("a", None).copied.unwrap().host_to_device, 4096);
}

#[test]
fn ranks_with_equal_processes_and_gpus_are_two_and_their_collectives_have_sizes() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("b.pt.trace.json"), made(0, 70)).unwrap();
    let mut packed =
        GzEncoder::new(fs::File::create(folder.path().join("a.pt.trace.json.gz")).unwrap(), Compression::fast());
    packed.write_all(made(1, 70).as_bytes()).unwrap();
    packed.finish().unwrap();
    let trace = imported(folder.path());
    assert_eq!(
        trace.per_gpu.iter().map(|gpu| (gpu.gpu, gpu.comm_ns)).collect::<Vec<_>>(),
        [(0, 300_000), (1, 300_000)]
    );
    for note in ["same process number", "GPU 0 of rank 1 is shown as GPU 1"] {
        assert!(trace.notes.iter().any(|known| known.contains(note)), "{note}: {:?}", trace.notes);
    }
    // From the first rank's span to the end of the second's, a millisecond later.
    assert_eq!(trace.wall_ns, 2_100_000);
    let cache = tempfile::tempdir().unwrap();
    let shown = timeline(folder.path(), cache.path());
    let groups: std::collections::BTreeSet<&str> = shown.rows().iter().map(|row| row.group.as_str()).collect();
    assert_eq!(groups.into_iter().collect::<Vec<_>>(), ["rank 0 · GPU 0", "rank 1 · GPU 1"]);
    let split = shown.split(&mut go).unwrap();
    assert_eq!(split.steps.len(), 2);
    let collective = &split.collectives[0];
    assert_eq!(
        (collective.bytes, collective.calls, collective.total_ns),
        (Some(4000), 2, 600_000),
        "{:?}",
        split.collectives
    );
    let (row, _) = shown.rows().iter().enumerate().find(|(_, row)| row.name == "kernels · stream 7").unwrap();
    let kernel = shown.items(row, (i64::MIN, i64::MAX)).unwrap()[0];
    let launch = shown.launcher(row, &kernel).unwrap().unwrap();
    assert_eq!(shown.name(launch.item.label), "cudaLaunchKernel");
}

#[test]
fn a_trace_and_its_unpacked_copy_in_one_folder_are_refused() {
    let folder = folder_of(&["gpu-conv.json.gz"]);
    fs::write(folder.path().join("gpu-conv.json"), text_of(&golden().join("gpu-conv.json.gz"))).unwrap();
    let kept = folder.path().join("kept.events");
    let error = keep_events(folder.path(), &kept, &mut go).unwrap_err().to_string();
    for part in ["gpu-conv.json and ", "gpu-conv.json.gz are copies", "remove one of them"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(!kept.exists());
}

#[test]
fn an_events_file_of_a_trace_gives_the_same_as_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    let (file, kept) = (folder.path().join("trace.json"), folder.path().join("kept.events"));
    fs::write(&file, made(0, 70)).unwrap();
    keep_events(&file, &kept, &mut go).unwrap();
    let (direct, again) = (imported(&file), imported(&kept));
    assert_eq!(direct, again);
    assert_eq!(direct, trace_of(&made(0, 70)));
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn a_trace_that_is_cut_off_shows_what_comes_before_and_says_so() {
    let whole = made(0, 70);
    let cut = whole.find("ncclDevKernel").unwrap();
    let trace = trace_of(&whole[..cut]);
    assert_eq!(trace.kernels.len(), 1);
    assert!(trace.warnings[0].contains("made.json is cut off at byte"), "{:?}", trace.warnings);
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(whole.as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    let trace = import_bytes(Path::new("made.json.gz"), &packed[..packed.len() * 3 / 4], &Window::default()).unwrap();
    assert!(trace.warnings[0].contains("could not be unpacked to its end"), "{:?}", trace.warnings);
    assert!(trace.warnings[1].contains("is cut off") && !trace.nvtx.is_empty(), "{:?}", trace.warnings);
}

#[test]
fn what_limits_the_steps_of_a_trace_that_lacks_events_comes_with_a_caveat() {
    let whole = made(0, 70);
    let cut = whole[..whole.find("ncclDevKernel").unwrap()].to_owned();
    let impossible = whole.replace("\"ts\": 1160.000, \"dur\": 200.125", "\"ts\": NaN, \"dur\": 200.125");
    for (text, is_whole) in [(whole, true), (cut, false), (impossible, false)] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("trace.json");
        fs::write(&file, text).unwrap();
        let sentence = timeline(&file, &folder.path().join("cache")).split(&mut go).unwrap().binding.sentence;
        assert_eq!(sentence.starts_with("Parts of the recording are missing. "), !is_whole, "{sentence}");
    }
}

#[test]
fn impossible_times_and_missing_ids_are_named_and_the_rest_is_shown() {
    let broken = made(0, 70)
        .replace("\"ts\": 1160.000, \"dur\": 200.125", "\"ts\": NaN, \"dur\": 200.125")
        .replace("\"ts\": 1110.000, \"dur\": 5.000", "\"ts\": 1110.000, \"dur\": -5.000")
        .replace("\"dur\": 10.000", "\"dur\": 1e18")
        .replace("\"device\": 0, \"context\": 1, \"stream\": 20, \"correlation\": 13, ", "")
        .replace("\"pid\": 0, \"tid\": 20", "\"pid\": \"\", \"tid\": \"\"");
    let trace = trace_of(&broken);
    assert!(trace.warnings[0].contains("3 events with impossible times"), "{:?}", trace.warnings);
    assert!(trace.warnings[0].contains("it lasts -5000 ns"), "{:?}", trace.warnings);
    let missing = "events lack ids, for which 0 stands: 1 GPU, 1 stream, 1 correlation";
    assert_eq!(trace.warnings[1], missing);
    assert_eq!((trace.kernels.len(), trace.memory.len(), trace.api.len()), (1, 1, 3));
    assert_eq!(trace.per_gpu[0].comm_ns, 300_000);
}

#[test]
fn an_event_years_from_the_others_is_left_out_and_takes_none_of_them_with_it() {
    let kernel = |start_us: i64| {
        let on_gpu = "\"device\": 0, \"stream\": 7, \"correlation\": 1";
        event("kernel", "gemm", (0, 7), (format!("{start_us}.000").as_str(), "50.000"), on_gpu)
    };
    let folder = tempfile::tempdir().unwrap();
    for place in [0, 25, 50] {
        let mut events: Vec<String> = (0..50).map(|step| kernel(1_700_000_000_000_000 + 100 * step)).collect();
        events.insert(place, kernel(0));
        let text = format!("{{\"deviceProperties\": [], \"traceEvents\": [{}]}}", events.join(","));
        let file = folder.path().join(format!("{place}.json"));
        fs::write(&file, text).unwrap();
        let kept = folder.path().join(format!("{place}.events"));
        keep_events(&file, &kept, &mut go).unwrap();
        for trace in [imported(&file), imported(&kept)] {
            let kernels = &trace.kernels[0].statistics;
            assert_eq!((kernels.calls, kernels.total_ns), (50, 2_500_000), "{place}: {:?}", trace.warnings);
            let warning = "1 event with impossible times or sizes is left out: it is at 0 ns, more than half a year";
            assert!(trace.warnings[0].starts_with(warning), "{place}: {:?}", trace.warnings);
            assert!(trace.wall_ns < 10_000_000, "{place}: {}", trace.wall_ns);
        }
    }
}

#[test]
fn kernels_that_overlap_on_a_stream_count_once_as_busy_time_and_in_full_in_their_sums() {
    let overlapping = made(0, 70).replace("\"ts\": 1370.000", "\"ts\": 1300.000").replace("\"tid\": 20", "\"tid\": 7");
    let trace = trace_of(&overlapping.replace("\"stream\": 20", "\"stream\": 7"));
    let gpu = &trace.per_gpu[0];
    assert_eq!((gpu.busy_ns, gpu.overlap_ns), (10_000 + 1_000 + 440_000, 60_125));
    let note = "1 event overlaps others of its stream, or of its thread without lying within them, at 0.000400 s";
    assert!(trace.notes.iter().any(|known| known.contains(note)), "{:?}", trace.notes);
    assert_eq!(trace.kernels.iter().map(|kernel| kernel.statistics.total_ns).sum::<u64>(), 500_125);
}

#[test]
fn times_before_there_was_a_base_are_those_of_the_real_clock() {
    let old = made(0, 70)
        .replace("  \"baseTimeNanoseconds\": 1790857026000000000,\n", "")
        .replace("\"ts\": 1", "\"ts\": 1690000000001");
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("old.json"), old).unwrap();
    let shown = timeline(&folder.path().join("old.json"), &folder.path().join("cache"));
    assert_eq!(shown.epoch_ns(), Some(0));
    assert_eq!(shown.span().0, 1_690_000_000_001_000_000);
}

#[test]
fn other_json_is_refused_as_what_it_is() {
    for text in [
        "{}",
        "[]",
        "{\"name\": \"a package\", \"version\": 1}",
        "[{\"ph\": \"X\", \"cat\": \"blink\", \"ts\": 1, \"dur\": 2}]",
    ] {
        let error = import_bytes(Path::new("some.json"), text.as_bytes(), &Window::default()).unwrap_err().to_string();
        assert!(error.contains("some.json: JSON without events of PyTorch's profiler"), "{error}");
    }
}
