//! Memory that was allocated and released through CUDA, in reports of nsys and in what is kept of them.

use std::fs;
use std::ops::ControlFlow;

use super::fixture::{Fixture, PROCESS};
use crate::trace::{Allocations, Window, csv, import, keep_events, markdown};

/// The table as nsys of schema 3.20 makes it, with the columns that matter.
const TABLE: &str = "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER NOT NULL, globalPid INTEGER NOT NULL,
    deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, address INTEGER NOT NULL, pc INTEGER NOT NULL, bytes INTEGER NOT NULL,
    memKind INTEGER NOT NULL, memoryOperationType INTEGER NOT NULL, name TEXT, correlationId INTEGER, streamId INTEGER);";

/// Kinds of memory and operations as nsys numbers them.
const PINNED: i64 = 1;
const DEVICE: i64 = 2;
const ALLOCATE: i64 = 0;
const RELEASE: i64 = 1;

/// Time, kind of memory, operation, address and bytes of each row.
fn with(rows: &[(i64, i64, i64, i64, i64)]) -> Fixture {
    let values: Vec<String> = rows
        .iter()
        .map(|(at, kind, operation, address, bytes)| {
            format!("({at}, {PROCESS}, 0, 1, {address}, 0, {bytes}, {kind}, {operation}, NULL, {at}, NULL)")
        })
        .collect();
    let insert = format!("INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES {}", values.join(", "));
    Fixture::new().sql(TABLE).sql(&insert).call(5, 9, 5).call(400, 500, 5).kernel(20, 450, 3)
}

fn allocations(memory: &str, gpu: Option<i64>, numbers: [u64; 8]) -> Allocations {
    let [allocated, allocated_bytes, released, released_bytes, unseen, unseen_bytes, most_bytes, last_bytes] = numbers;
    let memory = memory.to_owned();
    Allocations {
        memory,
        gpu,
        allocated,
        allocated_bytes,
        released,
        released_bytes,
        unseen,
        unseen_bytes,
        most_bytes,
        last_bytes,
    }
}

const ROWS: [(i64, i64, i64, i64, i64); 7] = [
    (10, DEVICE, ALLOCATE, 100, 1000),
    (60, DEVICE, RELEASE, 999, 77),
    (30, PINNED, ALLOCATE, 200, 64),
    (40, DEVICE, ALLOCATE, 300, 500),
    (50, DEVICE, RELEASE, 100, 1000),
    (70, DEVICE, ALLOCATE, 100, 8),
    // cudaFree(0)
    (80, DEVICE, RELEASE, 0, 0),
];

#[test]
fn reports_and_what_is_kept_of_them_say_the_same_of_every_window() {
    let folder = tempfile::tempdir().unwrap();
    let (report, kept) = (folder.path().join("r.sqlite"), folder.path().join("r.events"));
    fs::write(&report, with(&ROWS).bytes()).unwrap();
    let tell = &mut |_| ControlFlow::Continue(());
    keep_events(&report, &kept, tell).unwrap();
    let host = allocations("pinned", None, [1, 64, 0, 0, 0, 0, 64, 64]);
    for (from_s, to_s, expected) in [
        (None, None, vec![allocations("device", Some(0), [3, 1508, 2, 1077, 1, 77, 1500, 508]), host.clone()]),
        (
            Some(50e-9),
            None,
            vec![
                // What was live when the window began was never exceeded.
                allocations("device", Some(0), [1, 8, 2, 1077, 1, 77, 1500, 508]),
                allocations("pinned", None, [0, 0, 0, 0, 0, 0, 64, 64]),
            ],
        ),
        (None, Some(35e-9), vec![allocations("device", Some(0), [1, 1000, 0, 0, 0, 0, 1000, 1000]), host]),
        (None, Some(6e-9), vec![]),
    ] {
        // Windows count from the first call, at 5 ns.
        let shifted = |at: Option<f64>| at.map(|at| at - 5e-9);
        let window = Window { from_s: shifted(from_s), to_s: shifted(to_s) };
        let trace = import(&report, &window, tell).unwrap();
        assert_eq!(trace.allocations, expected, "{window:?}");
        assert_eq!(import(&kept, &window, tell).unwrap(), trace, "{window:?}");
    }
}

#[test]
fn tables_say_since_when_and_reports_without_memory_have_none_of_them() {
    let trace = with(&ROWS).import().unwrap();
    let text = markdown(&trace);
    assert!(text.contains("## Memory allocated through CUDA since the recording began"), "{text}");
    assert!(text.contains("| device | 0 | 3 | 1508 | 2 | 1077 | 1 | 77 | 1500 | 508 |"), "{text}");
    assert!(text.contains("| pinned | host | 1 | 64 | 0 | 0 | 0 | 0 | 64 | 64 |"), "{text}");
    let rows = csv(&trace);
    assert!(rows.contains("allocations,device,GPU 0: released of earlier memory,1,0,,,,,,,77\n"), "{rows}");
    let without = Fixture::new().call(5, 9, 5).import().unwrap();
    assert!(!markdown(&without).contains("Memory allocated") && !csv(&without).contains("allocations"));
    assert!(!serde_json::to_string(&without).unwrap().contains("allocations"));
}

#[test]
fn memory_that_cannot_be_is_refused_with_table_row_and_column() {
    let message = |row| with(&[(10, DEVICE, ALLOCATE, 100, 5), row]).refusal();
    for (row, expected) in [
        ((20, DEVICE, ALLOCATE, 7, -5), "row 2, bytes: holds -5, which is negative"),
        ((20, DEVICE, ALLOCATE, 7, i64::MAX), "row 2: it has 9223372036854775807 bytes"),
        ((20, DEVICE, 2, 7, 5), "row 2: it neither allocates nor releases memory"),
        ((i64::MAX, DEVICE, ALLOCATE, 7, 5), "row 2, start: 9223372036854775807 to"),
    ] {
        let message = message(row);
        assert!(
            message.contains("CUDA_GPU_MEMORY_USAGE_EVENTS, ") && message.contains(expected),
            "{expected}: {message}"
        );
    }
}
