//! Fuzzing of the import of reports: bytes of a small report are changed, or its rows are, and it must be imported or
//! refused, without a panic and in good time, with sums that agree with each other. The same of an events file, whose checksums are
//! made right again most of the time; and of traces of PyTorch's profiler.
//!
//! `cargo test --release --test trace_fuzz -- --ignored --nocapture` with `MULTICARD_FUZZ_S` seconds (default 10) and
//! `MULTICARD_FUZZ_SEED`; it prints how often it imported.
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

mod mutation;

use multicard::trace::{Recorder, Timeline, Trace, Window, csv, gather, import, import_bytes, keep_events, markdown};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rusqlite::Connection;

/// A report as small as SQLite allows: pages of 512 bytes, a few rows a table.
fn small() -> Connection {
    let report = Connection::open_in_memory().unwrap();
    report
        .execute_batch(
            "PRAGMA page_size = 512;
             CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
             INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.20.3');
             CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
             INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (2, 'conv_f16'), (3, 'ncclDevKernel_AllReduce_x');
             CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, nameId);
             INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 9, 16777217, 1), (200000, 500000, 16777217, 1);
             CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, globalPid, demangledName, graphNodeId);
             INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5, 50, 0, 16777216, 2, NULL), (40, 90, 0, 16777216, 3, NULL),
                (600000, 600010, 1, 16777216, 2, 4);
             CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start, end, deviceId, globalPid, bytes, copyKind, srcKind, dstKind);
             INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (100, 120, 0, 16777216, 64, 1, 1, 2), (500000, 500001, 0, 16777216, 8, 10, 2, 2);
             CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start, end, deviceId, globalPid, bytes, memKind);
             INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (130, 140, 0, 16777216, 64, 2);
             CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start, end, syncType);
             INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (7, 11, 3);
             CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start, globalPid, deviceId, address, bytes, memKind, memoryOperationType);
             INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (2, 16777216, 0, 4096, 64, 2, 0), (3, 16777216, 0, 8192, 8, 1, 0),
                (8, 16777216, 0, 4096, 64, 2, 1);
             CREATE TABLE NVTX_EVENTS (start, end, eventType, text, textId, domainId, globalTid);
             INSERT INTO NVTX_EVENTS VALUES (0, 300000, 59, 'epoch 0', NULL, 0, 16777217), (90, 400000, 59, 'load', NULL, 0, 16777217),
                (1, 2, 60, NULL, 1, 3, 16777217), (1, NULL, 75, 'domain', NULL, 3, 16777217);
             CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId, cudaId, pid);
             INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (5, 0, 1);",
        )
        .unwrap();
    report
}

/// Tables whose rows are changed, with their columns.
const COLUMNS: &[(&str, &[&str])] = &[
    ("CUPTI_ACTIVITY_KIND_RUNTIME", &["start", "end", "globalTid", "nameId"]),
    ("CUPTI_ACTIVITY_KIND_KERNEL", &["start", "end", "deviceId", "globalPid", "demangledName", "graphNodeId"]),
    (
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        &["start", "end", "deviceId", "globalPid", "bytes", "copyKind", "srcKind", "dstKind"],
    ),
    ("CUPTI_ACTIVITY_KIND_MEMSET", &["start", "end", "deviceId", "globalPid", "bytes", "memKind"]),
    ("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", &["start", "end", "syncType"]),
    (
        "CUDA_GPU_MEMORY_USAGE_EVENTS",
        &["start", "globalPid", "deviceId", "address", "bytes", "memKind", "memoryOperationType"],
    ),
    ("NVTX_EVENTS", &["start", "end", "eventType", "text", "textId", "domainId", "globalTid"]),
    ("TARGET_INFO_CUDA_DEVICE", &["gpuId", "cudaId", "pid"]),
    ("StringIds", &["value"]),
    ("META_DATA_EXPORT", &["name", "value"]),
];

/// Values that programs stumble over.
const VALUES: &[&str] = &[
    "NULL",
    "0",
    "1",
    "-1",
    "2",
    "59",
    "75",
    "16777216",
    "4294967295",
    "1000000000000000000",
    "9223372036854775807",
    "-9223372036854775808",
    "4611686018427387903",
    "-4611686018427387903",
    "31536000000000000",
    "1.5",
    "1e308",
    "''",
    "'3.20.3'",
    "'9.9.9'",
    "'load'",
    "'epoch'",
    "'nccl'",
    "x'00ff'",
    "x''",
    "CAST(x'c3a900' AS TEXT)",
    "CAST(x'c3' AS TEXT)",
];

/// Changes bytes: single ones, short runs, numbers of pages, lengths of cells; sometimes the end is cut off.
fn broken(whole: &[u8], random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    for _ in 0..random.random_range(1..6) {
        if random.random_range(0..6) > 0 {
            mutation::overwrite(&mut bytes, random);
            continue;
        }
        // The heads of pages say what they are and where their cells lie.
        let at = random.random_range(0..bytes.len());
        let page = at / 512 * 512 + if at < 512 { 100 } else { 0 };
        bytes[page + random.random_range(0..12)] = random.random();
    }
    if random.random_range(0..40) == 0 {
        bytes.truncate(random.random_range(0..bytes.len()));
    }
    bytes
}

/// Changes values of rows, keeping the file whole.
fn changed(report: &mut Connection, random: &mut ChaCha8Rng) -> Vec<u8> {
    for _ in 0..random.random_range(1..4) {
        let (table, columns) = COLUMNS[random.random_range(0..COLUMNS.len())];
        let column = columns[random.random_range(0..columns.len())];
        let value = VALUES[random.random_range(0..VALUES.len())];
        let row = random.random_range(1..4);
        report.execute_batch(&format!("UPDATE {table} SET {column} = {value} WHERE rowid = {row}")).unwrap();
    }
    report.serialize("main").unwrap().to_vec()
}

/// What holds of every trace, whatever its file.
fn check(trace: &Trace) {
    let kernels: u128 = trace.kernels.iter().map(|entry| u128::from(entry.statistics.total_ns)).sum();
    let memory: u128 = trace.memory.iter().map(|one| u128::from(one.statistics.total_ns)).sum();
    let families: u128 = trace.families.iter().map(|family| u128::from(family.total_ns)).sum();
    assert_eq!(families, kernels + memory);
    let copies: u64 = trace.memcpy.iter().map(|copy| copy.count).sum();
    assert_eq!(copies, trace.transfers.iter().map(|transfer| transfer.count).sum::<u64>());
    for entry in trace.api.iter().chain(&trace.kernels) {
        let statistics = &entry.statistics;
        assert!(statistics.min_ns as f64 <= statistics.med_ns && statistics.med_ns <= statistics.max_ns as f64);
        assert!((0.0..=100.000_001).contains(&entry.percent) && statistics.std_ns >= 0.0);
    }
    for kind in &trace.allocations {
        assert!(
            kind.last_bytes <= kind.most_bytes
                && kind.unseen <= kind.released
                && kind.unseen_bytes <= kind.released_bytes
        );
    }
    for gpu in &trace.per_gpu {
        assert!(gpu.comm_ns <= gpu.busy_ns && gpu.overlap_ns <= gpu.comm_ns && gpu.imbalance >= -1.0);
    }
}

/// Imports what `next` makes, given the number of the execution, for as long as asked; how many were imported, and how many of them were
/// accepted.
fn fuzz(time: Duration, seed: u64, mut next: impl FnMut(u64, &mut ChaCha8Rng) -> Vec<u8>) -> (u64, u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let windows =
        [Window::default(), Window { from_s: Some(4e-8), to_s: Some(3e-4) }, Window { from_s: Some(1e9), to_s: None }];
    let start = Instant::now();
    let (mut executions, mut accepted) = (0, 0);
    while start.elapsed() < time {
        for _ in 0..1000 {
            let bytes = next(executions, &mut random);
            let window = &windows[random.random_range(0..10usize).saturating_sub(7)];
            let began = mutation::cpu_time();
            let imported = import_bytes(Path::new("fuzzed"), &bytes, window);
            executions += 1;
            if let Ok(trace) = imported {
                accepted += 1;
                check(&trace);
                if executions % 16 == 0 {
                    assert!(!markdown(&trace).is_empty() && !csv(&trace).is_empty());
                    serde_json::to_string(&trace).unwrap();
                }
            }
            let took = mutation::cpu_time().saturating_sub(began);
            assert!(took < Duration::from_secs(5), "execution {executions} of seed {seed} took too long");
        }
    }
    (executions, accepted)
}

/// The events of the small report.
fn events() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let (report, events) = (folder.path().join("small.sqlite"), folder.path().join("small.events"));
    std::fs::write(&report, small().serialize("main").unwrap().to_vec()).unwrap();
    keep_events(&report, &events, &mut |_| ControlFlow::Continue(())).unwrap();
    std::fs::read(events).unwrap()
}

/// What a rank without GPUs records.
fn recorded() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let events = folder.path().join("recorded.events");
    for rank in 0..2 {
        let mut recorder = Recorder::append(&events, rank, None).unwrap();
        for step in 1..9 {
            let at = |from: i64, to: i64| (1000 * step + from, 1000 * step + to);
            for (name, span) in [("forward", at(0, 300)), ("backward", at(300, 800)), ("wait for ranks", at(700, 800))]
            {
                recorder.range(name, 1, span).unwrap();
            }
            recorder.collective("gloo:all_reduce", 4000, 2, at(400, 500)).unwrap();
            recorder.collective("gloo:all_reduce", 2000, 2, at(700 - 50 * i64::from(rank), 790)).unwrap();
            recorder.range("step", 1, at(0, 1000)).unwrap();
        }
        recorder.finish(1).unwrap();
    }
    std::fs::read(events).unwrap()
}

/// What the tracer records of a rank that launches collectives alone and in groups.
fn grouped() -> Vec<u8> {
    let mut raw = b"\x93MCT\x02\0\0\0".to_vec();
    raw.extend([77_u64, 0, 0, 0, 0].map(u64::to_le_bytes).concat());
    let mut record = |kind: u8, name: u32, span: (i64, i64), [track, correlation]: [u32; 2], bytes: u64| {
        raw.extend([kind, 0, 0, 0]);
        raw.extend(name.to_le_bytes());
        raw.extend([span.0, span.1].map(i64::to_le_bytes).concat());
        raw.extend([0, track, correlation, 0].map(u32::to_le_bytes).concat());
        raw.extend(bytes.to_le_bytes());
    };
    let names = ["ncclGroupStart", "ncclGroupEnd", "ncclAllReduce", "ncclRecv", "cudaLaunchKernel", "ncclDevKernel_x"];
    let mut correlation = 0;
    for step in 1..9_i64 {
        let at = |from: i64| 100_000 * step + from;
        // The kinds of records are ranges (7) and collectives (16); the last number says how many kernels are launched.
        for (place, (kind, name, bytes, launched)) in
            (0..).zip([(16, 3, 64, 1), (7, 1, 0, 0), (16, 3, 8, 0), (16, 4, 8, 0), (7, 2, 0, 1 + step % 2)])
        {
            let begin = at(10_000 * place);
            record(kind, name, (begin, begin + 9_000), [1, 0], bytes);
            for nth in 1..=launched {
                correlation += 1;
                record(5, 5, (begin + 1_000 * nth, begin + 1_000 * nth + 500), [1, correlation], 0);
                record(2, 6, (begin + 2_000 * nth, begin + 2_000 * nth + 900), [7, correlation], 0);
            }
        }
    }
    for (name, text) in (1_u32..).zip(names) {
        raw.extend([1, 0, 0, 0]);
        raw.extend(name.to_le_bytes());
        raw.extend([0; 32]);
        raw.extend((text.len() as u64).to_le_bytes());
        raw.extend(text.bytes());
    }
    raw.extend([13, 0, 0, 0]);
    raw.extend([0; 44]);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("trace-77-0.cupti"), raw).unwrap();
    gather(folder.path(), &[], &mut |_| ControlFlow::Continue(())).unwrap();
    std::fs::read(folder.path().join("trace.events")).unwrap()
}

/// Size of a block's header, and where its content's size is.
const HEADER: usize = 64;
const SIZE: usize = 32;

/// Changes bytes of an events file; sometimes its end is cut off, or a part of it stands twice.
fn broken_events(whole: &[u8], random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    for _ in 0..random.random_range(1..5) {
        mutation::overwrite(&mut bytes, random);
    }
    // Where blocks begin in the whole file. Most checksums are made right again, so that what they guard is read.
    let mut at = 0;
    while at + HEADER <= whole.len() {
        let size = u32::from_le_bytes(whole[at + SIZE..at + SIZE + 4].try_into().unwrap()) as usize;
        let end = at + HEADER + size;
        if random.random_range(0..8) > 0 && end <= bytes.len() {
            if random.random_range(0..4) > 0 {
                bytes[at..at + 6].copy_from_slice(&whole[at..at + 6]);
                bytes[at + SIZE..at + SIZE + 4].copy_from_slice(&whole[at + SIZE..at + SIZE + 4]);
            }
            let content = crc32fast::hash(&bytes[at + HEADER..end]).to_le_bytes();
            bytes[at + SIZE + 4..at + SIZE + 8].copy_from_slice(&content);
            let header = crc32fast::hash(&bytes[at..at + HEADER - 4]).to_le_bytes();
            bytes[at + HEADER - 4..at + HEADER].copy_from_slice(&header);
        }
        at = end;
    }
    match random.random_range(0..20) {
        0 => bytes.truncate(random.random_range(0..bytes.len())),
        1 => bytes.extend_from_within(random.random_range(0..whole.len())..),
        _ => {}
    }
    bytes
}

/// Time and seed that were asked for.
fn asked() -> (Duration, u64) {
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    (Duration::from_secs(number("MULTICARD_FUZZ_S", 10)), number("MULTICARD_FUZZ_SEED", 1))
}

#[test]
#[ignore = "runs as long as asked: MULTICARD_FUZZ_S, default 10"]
fn changed_reports_are_imported_or_refused() {
    let (time, seed) = asked();
    let whole = small().serialize("main").unwrap().to_vec();
    let mut rows = small();
    let (executions, accepted) = fuzz(time, seed, |execution, random| {
        // Values of rows pile up for a while, so that several that matter meet; then the report is fresh again.
        if execution % 1000 == 0 {
            rows = small();
        }
        match execution % 4 {
            0 if execution % 64 == 0 => changed(&mut small(), random),
            0 => changed(&mut rows, random),
            _ => broken(&whole, random),
        }
    });
    println!("{executions} executions, {accepted} accepted, seed {seed}");
    assert!(accepted > 0 && accepted < executions);
}

/// A trace of PyTorch's profiler with an event of each category that is imported, and one that is not.
const PYTORCH: &str = r#"
  {
    "schemaVersion": 1,
    "deviceProperties": [ { "id": 0, "name": "a GPU", "totalGlobalMem": 85014806528, "numSms": 132 } ],
    "distributedInfo": {"backend": "nccl", "rank": 1, "world_size": 2},
    "torch_version": "2.11.0",
  "baseTimeNanoseconds": 1790857026000000000,
  "traceEvents": [
  { "ph": "X", "cat": "user_annotation", "name": "epoch 0", "pid": 70, "tid": 70, "ts": 1000.000, "dur": 900.000, "args": { "External id": 1 } },
  { "ph": "X", "cat": "user_annotation", "name": "load", "pid": 70, "tid": 70, "ts": 1500, "dur": 300 },
  { "ph": "X", "cat": "cpu_op", "name": "a\u00e9\"b", "pid": 70, "tid": 71, "ts": 1100.001, "dur": 1e2, "args": { "Input Dims": [[2, 3], []] } },
  { "ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 70, "tid": 70, "ts": 1150.0, "dur": 50.0,
    "args": { "Collective name": "allreduce", "In msg nelems": 1000, "dtype": "Float" } },
  { "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 70, "tid": 70, "ts": 1160.5, "dur": 5.5, "args": { "correlation": 12 } },
  { "ph": "X", "cat": "kernel", "name": "conv_f16", "pid": 0, "tid": 7, "ts": 1170.5, "dur": 200.25,
    "args": { "device": 0, "stream": 7, "correlation": 12, "grid": [1, 1, 1], "graph node id": 4 } },
  { "ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_x", "pid": 1, "tid": 20, "ts": 1300, "dur": 20 },
  { "ph": "X", "cat": "gpu_memcpy", "name": "Memcpy PtoP (Device -> Device)", "pid": 0, "tid": 7, "ts": 1600, "dur": 1,
    "args": { "fromDevice": 0, "inDevice": 0, "toDevice": 1, "stream": 7, "correlation": 13, "bytes": 64, "memory bandwidth (GB/s)": inf } },
  { "ph": "X", "cat": "gpu_memset", "name": "Memset (Device)", "pid": 0, "tid": 7, "ts": 1700, "dur": 1, "args": { "bytes": 8 } },
  { "ph": "X", "cat": "cuda_sync", "name": "Context Sync", "pid": 0, "tid": 7, "ts": 1710, "dur": 9, "args": { "stream": -1 } },
  { "ph": "X", "cat": "python_function", "name": "a.py(1): b", "pid": 70, "tid": 70, "ts": 1000, "dur": 1 },
  { "ph": "s", "id": 12, "pid": 70, "tid": 70, "ts": 1160.5, "cat": "ac2g", "name": "ac2g" },
  { "ph": "X", "cat": "Trace", "ts": 900.0, "dur": 1100.5, "pid": "Spans", "tid": "PyTorch Profiler", "name": "PyTorch Profiler (0)" }
  ],
  "traceName": "a.json"
}"#;

/// Words that traces of PyTorch's profiler have, and that readers of JSON stumble over.
const PYTORCH_WORDS: &[&str] = &[
    "\"traceEvents\": [",
    "\"ph\": \"X\"",
    "\"cat\": \"kernel\"",
    "\"cat\": \"gpu_memcpy\"",
    "\"ts\": ",
    "\"dur\": ",
    "\"args\": {",
    "\"pid\": 0",
    "NaN",
    "-Infinity",
    "1e308",
    "-1",
    "0.0000001",
    "4611686018427387",
    "9223372036854775807",
    "18446744073709551615",
    "null",
    "\\ud83d",
    "\\",
    "\"",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "},\n{",
];

#[test]
#[ignore = "runs as long as asked: MULTICARD_FUZZ_S, default 10"]
fn changed_traces_of_pytorchs_profiler_are_imported_or_refused() {
    use std::io::Write as _;
    let (time, seed) = asked();
    let packed = |text: &[u8]| {
        let mut packing = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packing.write_all(text).unwrap();
        packing.finish().unwrap()
    };
    let whole_packed = packed(PYTORCH.as_bytes());
    let (executions, accepted) = fuzz(time, seed, |execution, random| {
        let mut text = PYTORCH.as_bytes().to_vec();
        for _ in 0..random.random_range(1..5) {
            mutation::edit(&mut text, PYTORCH.as_bytes(), PYTORCH_WORDS, random);
        }
        match execution % 16 {
            0 => packed(&text),
            1 => {
                let mut bytes = whole_packed.clone();
                mutation::overwrite(&mut bytes, random);
                bytes
            }
            2 => {
                text.truncate(random.random_range(0..=text.len()));
                text
            }
            _ => text,
        }
    });
    println!("{executions} executions, {accepted} accepted, seed {seed}");
    assert!(accepted > 0 && accepted < executions);
}

#[test]
#[ignore = "runs as long as asked: MULTICARD_FUZZ_S, default 10"]
fn changed_events_are_imported_or_refused() {
    let (time, seed) = asked();
    let whole = [events(), recorded(), grouped()];
    let (executions, accepted) = fuzz(time, seed, |n, random| broken_events(&whole[n as usize % 3], random));
    println!("{executions} executions, {accepted} accepted, seed {seed}");
    assert!(accepted > 0 && accepted < executions);
}

#[test]
#[ignore = "runs as long as asked: MULTICARD_FUZZ_S, default 10"]
fn changed_events_are_drawn_or_refused() {
    let (time, seed) = asked();
    let whole = [events(), recorded(), grouped()];
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let folder = tempfile::tempdir_in(if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "." }).unwrap();
    let file = folder.path().join("fuzzed.events");
    let start = Instant::now();
    let (mut executions, mut accepted) = (0_u64, 0_u64);
    while start.elapsed() < time {
        std::fs::write(&file, broken_events(&whole[executions as usize % 3], &mut random)).unwrap();
        executions += 1;
        let began = mutation::cpu_time();
        // Damage costs the block that it is in, so that nearly all open.
        if let Ok(timeline) = Timeline::open(&file, &mut |_| ControlFlow::Continue(())) {
            accepted += 1;
            check_timeline(&timeline);
        }
        let took = mutation::cpu_time().saturating_sub(began);
        assert!(took < Duration::from_secs(5), "execution {executions} of seed {seed} took too long");
    }
    println!("{executions} executions, {accepted} accepted, seed {seed}");
    assert!(accepted > 0);
}

/// What the tracer leaves of a process: each kind of record, with texts.
fn raw() -> Vec<u8> {
    let mut file = b"\x93MCT\x02\0\0\0".to_vec();
    file.extend([77_u64, u64::MAX, 0, 0, 0].map(u64::to_le_bytes).concat());
    let mut record = |kind: u8, name: u32, text: &[u8]| {
        let start = 1000 * i64::from(kind);
        // What is allocated has a kind of memory and an operation.
        file.extend(if kind == 14 { [kind, 3, name as u8, 0] } else { [kind, 1, 2, 3] });
        file.extend(name.to_le_bytes());
        file.extend([start, start + 500].map(i64::to_le_bytes).concat());
        file.extend([0, 7, u32::from(kind), 0].map(u32::to_le_bytes).concat());
        file.extend((text.len() as u64).to_le_bytes());
        file.extend(text);
    };
    for (name, text) in
        [(1, &b"a GPU"[..]), (2, b"ncclDevKernel_AllReduce_x"), (3, b"cudaLaunchKernel_v7000"), (4, b"load")]
    {
        record(1, name, text);
    }
    record(9, 1, b"");
    for (kind, name) in
        [(2, 2), (3, 0), (4, 0), (5, 3), (6, 0), (7, 4), (8, 4), (16, 4), (14, 1), (14, 2), (2, 2), (10, 0)]
    {
        record(kind, name, b"");
    }
    record(15, 0, b"a note");
    record(11, 0, b"a problem");
    record(12, 0, b"cudaGetDevice");
    record(13, 0, b"");
    file
}

#[test]
#[ignore = "runs as long as asked: MULTICARD_FUZZ_S, default 10"]
fn changed_raw_files_of_the_tracer_are_gathered_or_refused() {
    let (time, seed) = asked();
    let whole = raw();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let folder = tempfile::tempdir_in(if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "." }).unwrap();
    let (file, events) = (folder.path().join("trace-77-0.cupti"), folder.path().join("trace.events"));
    let start = Instant::now();
    let (mut executions, mut accepted) = (0_u64, 0_u64);
    while start.elapsed() < time {
        let mut bytes = whole.clone();
        for _ in 0..random.random_range(1..5) {
            mutation::overwrite(&mut bytes, &mut random);
        }
        match random.random_range(0..20) {
            0 => bytes.truncate(random.random_range(0..bytes.len())),
            1 => bytes.extend_from_within(random.random_range(0..whole.len())..),
            _ => {}
        }
        std::fs::write(&file, bytes).unwrap();
        executions += 1;
        let began = mutation::cpu_time();
        let mut go_on = |_| ControlFlow::Continue(());
        if gather(folder.path(), &[], &mut go_on).is_ok() {
            accepted += 1;
            let trace = import(&events, &Window::default(), &mut go_on).unwrap();
            check(&trace);
            std::fs::remove_file(&events).unwrap();
        }
        let took = mutation::cpu_time().saturating_sub(began);
        assert!(took < Duration::from_secs(5), "execution {executions} of seed {seed} took too long");
    }
    println!("{executions} executions, {accepted} accepted, seed {seed}");
    assert!(accepted > 0 && accepted < executions);
}

/// What holds of every timeline, whatever its file.
fn check_timeline(timeline: &Timeline) {
    let (from, to) = timeline.span();
    assert!(from <= to);
    for (row, timeline_row) in timeline.rows().iter().enumerate() {
        for shelf in 0..timeline_row.shelves.len() {
            let (items, _) = timeline.drawn(row, shelf, (from, to), 100);
            items.for_each(|item| assert!(item.span.0 <= item.span.1 && item.events > 0));
        }
        if let Some(live) = timeline_row.live() {
            assert!(
                live.points().is_sorted_by_key(|point| point.0) && live.points().iter().all(|point| point.1 >= 0.0)
            );
            assert!(live.within((from, to), 100).all(|(since, at, value)| since <= at && value <= live.most()));
        }
        let items = timeline.items(row, (i64::MIN, i64::MAX)).unwrap();
        assert!(items.is_sorted_by_key(|item| item.span.0));
        if let Some(item) = items.last() {
            timeline.launcher(row, item).unwrap();
        }
    }
    timeline.next(&timeline.matching("a"), i64::MIN).unwrap();
    let split = timeline.split(&mut |_| ControlFlow::Continue(())).unwrap();
    for step in &split.steps {
        assert_eq!(step.parts.iter().sum::<u64>(), step.span.1.abs_diff(step.span.0));
        let path = timeline.critical_path(step).unwrap();
        assert_eq!(path.parts.iter().sum::<u64>(), step.span.1.abs_diff(step.span.0));
    }
    for collective in &split.collectives {
        assert_eq!(collective.bytes.is_none(), collective.no_size.is_some());
        assert_eq!(
            collective.hidden_ns + collective.waiting_ns.unwrap_or(0) + collective.exposed_ns,
            collective.total_ns
        );
    }
    for part in &split.parts {
        assert!((0.0..=1.000_001).contains(&part.share) && part.interval.0 <= part.interval.1);
    }
}
