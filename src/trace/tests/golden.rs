//! Real reports, cut down by tests/oracles/trace_cut.py, against sums that the script computed without this code; and
//! whole reports against what nsys printed.

use std::collections::BTreeMap;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::trace::render::tenths;
use crate::trace::{Entry, Statistics, Trace, Window, import, import_bytes};

const REPORTS: [&str; 3] = ["single_100", "ddp2_100_pin", "ddp2_100_nopin"];

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/trace").join(name)
}

/// A cut-down report and its oracle.
pub fn report(name: &str) -> (Vec<u8>, Value) {
    let mut bytes = Vec::new();
    let packed = std::fs::File::open(golden(&format!("{name}.sqlite.gz"))).unwrap();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    let oracle = std::fs::read_to_string(golden(&format!("{name}.json"))).unwrap();
    (bytes, serde_json::from_str(&oracle).unwrap())
}

pub fn imported(name: &str, window: &Window) -> Trace {
    import_bytes(Path::new(name), &report(name).0, window).unwrap()
}

#[track_caller]
fn same(found: &Statistics, expected: &Value, what: &str) {
    let whole = |key: &str| expected[key].as_u64().unwrap();
    assert_eq!(found.calls, whole("calls"), "{what}");
    assert_eq!(found.total_ns, whole("total_ns"), "{what}");
    assert_eq!((found.min_ns, found.max_ns), (whole("min_ns"), whole("max_ns")), "{what}");
    assert_eq!(found.med_ns, expected["med_ns"].as_f64().unwrap(), "{what}");
    for (found, key) in [(found.avg_ns, "avg_ns"), (found.std_ns, "std_ns")] {
        let expected = expected[key].as_f64().unwrap();
        assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{what} {key}: {found}, {expected} expected");
    }
}

fn sorted(entries: &[Entry]) -> BTreeMap<(&str, u64, u64), &Statistics> {
    let key = |entry: &Entry| (entry.statistics.total_ns, entry.statistics.calls);
    entries.iter().map(|entry| ((entry.name.as_str(), key(entry).0, key(entry).1), &entry.statistics)).collect()
}

#[test]
fn calls_kernels_and_ranges_of_real_reports_are_those_of_the_oracle() {
    for name in REPORTS {
        let (trace, oracle) = (imported(name, &Window::default()), report(name).1);
        assert!(trace.warnings.is_empty(), "{name}: {:?}", trace.warnings);
        for (list, entries) in [("api", &trace.api), ("kernels", &trace.kernels)] {
            let expected = oracle[list].as_array().unwrap();
            assert_eq!(entries.len(), expected.len(), "{name} {list}");
            let found = sorted(entries);
            for one in expected {
                let key =
                    (one["name"].as_str().unwrap(), one["total_ns"].as_u64().unwrap(), one["calls"].as_u64().unwrap());
                same(found[&key], one, &format!("{name} {list} {}", key.0));
            }
            let percent: f64 = entries.iter().map(|entry| entry.percent).sum();
            assert!((percent - 100.0).abs() < 1e-9, "{name} {list}: {percent} %");
        }
        let ranges = oracle["nvtx"].as_object().unwrap();
        assert_eq!(trace.nvtx.len(), ranges.len(), "{name}");
        for range in &trace.nvtx {
            same(&range.statistics, &ranges[&range.name], &format!("{name} {}", range.name));
        }
        let kinds = oracle["sync"].as_object().unwrap();
        assert_eq!(trace.sync.len(), kinds.len(), "{name}");
        for sync in &trace.sync {
            same(&sync.statistics, &kinds[&sync.kind], &format!("{name} {}", sync.kind));
        }
    }
}

#[test]
fn copies_of_real_reports_are_those_of_the_oracle() {
    let keys = BTreeMap::from([
        ("[CUDA memcpy Host-to-Device]", "copy 1"),
        ("[CUDA memcpy Device-to-Host]", "copy 2"),
        ("[CUDA memcpy Device-to-Device]", "copy 8"),
        ("[CUDA memset]", "memset"),
    ]);
    for name in REPORTS {
        let (trace, oracle) = (imported(name, &Window::default()), report(name).1);
        assert_eq!(trace.memory.len(), oracle["memory_times"].as_object().unwrap().len(), "{name}");
        for operation in &trace.memory {
            let key = keys[operation.name.as_str()];
            same(&operation.statistics, &oracle["memory_times"][key], &format!("{name} {key}"));
            let sizes = Statistics {
                calls: operation.statistics.calls,
                total_ns: operation.bytes,
                avg_ns: operation.avg_bytes,
                med_ns: operation.med_bytes,
                min_ns: operation.min_bytes,
                max_ns: operation.max_bytes,
                std_ns: operation.std_bytes,
            };
            same(&sizes, &oracle["memory_sizes"][key], &format!("{name} {key} bytes"));
        }
        let expected = oracle["memcpy"].as_object().unwrap();
        assert_eq!(trace.memcpy.len(), expected.len(), "{name}");
        for copy in &trace.memcpy {
            let row = &expected[&format!("{} {} {}", copy.kind, copy.src, copy.dst)];
            let found = [copy.count, copy.bytes, copy.total_ns];
            assert_eq!(found.map(Value::from).as_slice(), row.as_array().unwrap().as_slice(), "{name} {}", copy.kind);
        }
        let sum = |value_of: fn(&crate::trace::Memcpy) -> u64| trace.memcpy.iter().map(value_of).sum::<u64>();
        assert_eq!(sum(|copy| copy.bytes), trace.transfers.iter().map(|transfer| transfer.bytes).sum::<u64>());
        assert_eq!(sum(|copy| copy.count), trace.transfers.iter().map(|transfer| transfer.count).sum::<u64>());
    }
}

#[test]
fn busy_idle_and_overlapped_time_of_real_reports_are_those_of_the_oracle() {
    for name in REPORTS {
        let (trace, oracle) = (imported(name, &Window::default()), report(name).1);
        let expected = oracle["per_gpu"].as_object().unwrap();
        assert_eq!(trace.per_gpu.len(), expected.len(), "{name}");
        assert_eq!(trace.gpus.len(), expected.len(), "{name}");
        for gpu in &trace.per_gpu {
            let row = &expected[&gpu.gpu.to_string()];
            assert_eq!(Value::from(gpu.busy_ns), row["busy_ns"], "{name}");
            assert_eq!(Value::from(gpu.idle_ns), row["idle_ns"], "{name}");
            assert_eq!(Value::from(gpu.comm_ns), row["comm_ns"], "{name}");
            assert_eq!(Value::from(gpu.overlap_ns), row["overlap_ns"], "{name}");
        }
        let imbalance: f64 = trace.per_gpu.iter().map(|gpu| gpu.imbalance).sum();
        assert!(imbalance.abs() < 1e-9, "{name}: deviations from a mean sum to {imbalance}");
        let families: u64 = trace.families.iter().map(|family| family.total_ns).sum();
        let kernels: u64 = trace.kernels.iter().map(|entry| entry.statistics.total_ns).sum();
        let memory: u64 = trace.memory.iter().map(|operation| operation.statistics.total_ns).sum();
        assert_eq!(families, kernels + memory, "{name}");
    }
}

#[test]
fn real_reports_prove_what_their_runs_did() {
    let pinned = imported("ddp2_100_pin", &Window::default()).proof;
    let pageable = imported("ddp2_100_nopin", &Window::default()).proof;
    let single = imported("single_100", &Window::default()).proof;
    assert_eq!((pinned.pin_memory.seen.as_str(), pageable.pin_memory.seen.as_str()), ("pinned", "pageable"));
    assert_eq!([&pinned, &pageable, &single].map(|proof| proof.strategy.seen.as_str()), ["ddp", "ddp", "single"]);
    assert_eq!((pinned.strategy.processes, pinned.strategy.gpus), (2, 2));
    assert_eq!((pinned.precision.seen.as_str(), single.precision.seen.as_str()), ("fp32", "tf32"));
    assert_eq!([&pinned, &pageable, &single].map(|proof| proof.layout.seen.as_str()), ["nchw"; 3]);
    assert_eq!(single.graphs.seen, "off");
}

#[test]
fn a_trace_survives_json() {
    let trace = imported("single_100", &Window::default());
    let text = serde_json::to_string(&trace).unwrap();
    assert_eq!(serde_json::from_str::<Trace>(&text).unwrap(), trace);
    let value: Value = serde_json::from_str(&text).unwrap();
    for key in ["schema_version", "gpus", "api", "kernels", "memcpy", "memset", "sync", "nvtx", "families", "per_gpu"] {
        assert!(!value[key].is_null(), "{key}");
    }
    for key in ["name", "calls", "total_ns", "avg_ns", "med_ns", "min_ns", "max_ns", "std_ns"] {
        assert!(!value["api"][0][key].is_null() && !value["kernels"][0][key].is_null(), "{key}");
    }
}

#[test]
fn metrics_are_the_papers_seven_and_three_collectives() {
    let trace = imported("ddp2_100_pin", &Window::default());
    let names: Vec<&str> = trace.metrics.iter().map(|metric| metric.name.as_str()).collect();
    assert_eq!(names[..2], ["CUDA memcpy Host-to-Device", "cudaLaunchKernel"]);
    assert_eq!(names.len(), 10);
    let launch = trace.api.iter().find(|entry| entry.name == "cudaLaunchKernel").unwrap();
    assert_eq!(trace.metrics[1].calls, launch.statistics.calls);
    assert_eq!(trace.metrics[1].percent_of_report, launch.percent);
    let wall = 100.0 * trace.metrics[1].seconds / (trace.wall_ns as f64 * 1e-9) / 2.0;
    assert!((trace.metrics[1].percent_of_wall - wall).abs() < 1e-9);
    let shown: f64 = trace.metrics.iter().map(|metric| metric.percent_of_shown).sum();
    assert!((shown - 100.0).abs() < 1e-9);
    let all_reduce = trace.metrics.iter().find(|metric| metric.key == "nccl_all_reduce").unwrap();
    let kernels: u64 = (trace.kernels.iter())
        .filter(|entry| entry.name.starts_with("ncclDevKernel_AllReduce"))
        .map(|entry| entry.statistics.total_ns)
        .sum();
    assert!(kernels > 0 && (all_reduce.seconds - kernels as f64 * 1e-9).abs() < 1e-12);
}

#[test]
#[ignore = "needs the whole reports that the fixtures were cut from: MULTICARD_REPORTS=FOLDER"]
fn whole_reports_print_what_nsys_printed() {
    let folder = PathBuf::from(std::env::var_os("MULTICARD_REPORTS").unwrap());
    for name in ["ddp2_100_pin", "ddp2_100_nopin"] {
        let file = folder.join(format!("{name}.sqlite"));
        let trace = import(&file, &Window::default(), &mut |_| ControlFlow::Continue(())).unwrap();
        let json = std::fs::read_to_string(golden(&format!("{name}.stats.json"))).unwrap();
        let expected_rows: BTreeMap<String, Vec<Vec<String>>> = serde_json::from_str(&json).unwrap();
        for (report, entries) in [("cuda_api_sum", &trace.api), ("cuda_gpu_kern_sum", &trace.kernels)] {
            let found = entries.iter().map(|entry| printed(&entry.statistics, entry.percent, &entry.name));
            same_rows(found, &expected_rows[report], &format!("{name} {report}"));
        }
        let memory = trace.memory.iter();
        let times = memory.clone().map(|one| printed(&one.statistics, one.percent, &one.name));
        same_rows(times, &expected_rows["cuda_gpu_mem_time_sum"], name);
        let sizes = memory.map(|one| {
            let megabytes = |bytes: f64| format!("{:.3}", bytes / 1e6);
            vec![
                megabytes(one.bytes as f64),
                one.statistics.calls.to_string(),
                megabytes(one.avg_bytes),
                megabytes(one.med_bytes),
                megabytes(one.min_bytes as f64),
                megabytes(one.max_bytes as f64),
                megabytes(one.std_bytes),
                one.name.clone(),
            ]
        });
        same_rows(sizes, &expected_rows["cuda_gpu_mem_size_sum"], name);
    }
}

/// A row as nsys prints it.
fn printed(statistics: &Statistics, percent: f64, name: &str) -> Vec<String> {
    vec![
        tenths(percent),
        statistics.total_ns.to_string(),
        statistics.calls.to_string(),
        tenths(statistics.avg_ns),
        tenths(statistics.med_ns),
        statistics.min_ns.to_string(),
        statistics.max_ns.to_string(),
        tenths(statistics.std_ns),
        name.to_owned(),
    ]
}

#[track_caller]
fn same_rows(found: impl Iterator<Item = Vec<String>>, expected: &[Vec<String>], what: &str) {
    let (found, expected) = (unordered(found), unordered(expected.iter().cloned()));
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected, "{what}");
    }
}

fn unordered(rows: impl Iterator<Item = Vec<String>>) -> Vec<Vec<String>> {
    let mut rows: Vec<_> = rows.collect();
    rows.sort_unstable();
    rows
}
