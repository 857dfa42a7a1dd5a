//! Exports of the nsys of several years. All fixtures here are synthetic: written after the differences between the
//! versions, not recorded.

use super::fixture::Fixture;
use crate::trace::Trace;

/// 2021: version in EXPORT_META_DATA, no graph nodes, no kinds of memory for memsets, NVTX text in place, no
/// ANALYSIS_DETAILS, no TARGET_INFO_GPU.
fn of_2021() -> Fixture {
    Fixture::empty().sql(
        "CREATE TABLE EXPORT_META_DATA (name TEXT, value TEXT);
         INSERT INTO EXPORT_META_DATA VALUES ('EXPORT_SCHEMA_VERSION', '2.4.1');
         CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
         CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER,
            correlationId INTEGER, nameId INTEGER, returnValue INTEGER, callchainId INTEGER);
         CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,
            streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER);
         CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,
            streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER,
            srcKind INTEGER, dstKind INTEGER);
         CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER, end INTEGER, deviceId INTEGER, globalPid INTEGER,
            value INTEGER, bytes INTEGER);
         CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER);",
    )
}

/// 2026, a minor version ahead: new columns in the middle, names of ranges by id, new tables.
fn of_2026() -> Fixture {
    Fixture::empty().sql(
        "CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
         INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION_MAJOR', '3'), ('EXPORT_SCHEMA_VERSION_MINOR', '31'),
            ('EXPORT_SCHEMA_VERSION_MICRO', '2'), ('EXPORT_PRODUCT_VERSION', '2026.4.1');
         CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
         CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (eventClass INTEGER, hint BLOB, start INTEGER, nameId INTEGER,
            globalTid INTEGER, end INTEGER);
         CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (cluster TEXT, start INTEGER, deviceId INTEGER, end INTEGER,
            graphNodeId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER, mangledName INTEGER);
         CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, newKind INTEGER, deviceId INTEGER,
            globalPid INTEGER, copyKind INTEGER, bytes INTEGER, dstKind INTEGER, srcKind INTEGER, srcDeviceId INTEGER,
            dstDeviceId INTEGER, copyCount INTEGER);
         CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER, end INTEGER, deviceId INTEGER, globalPid INTEGER,
            memKind INTEGER, bytes INTEGER, value INTEGER);
         CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, rangeId INTEGER, textId INTEGER,
            domainId INTEGER, globalTid INTEGER);
         CREATE TABLE SOMETHING_NEW (x);",
    )
}

/// The same events in any schema.
fn filled(fixture: Fixture, range: &str) -> Fixture {
    fixture.sql(&format!(
        "INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (3, 'gemm_f32f32'), (9, 'step');
         INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, nameId) VALUES (10, 30, 117440515, 1), (40, 50, 117440515, 1);
         INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, globalPid, demangledName, shortName)
            VALUES (35, 95, 0, 117440512, 3, 3), (90, 120, 0, 117440512, 3, 3);
         INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY (start, end, deviceId, globalPid, bytes, copyKind, srcKind, dstKind)
            VALUES (20, 30, 0, 117440512, 64, 1, 1, 2);
         INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET (start, end, deviceId, globalPid, bytes, value) VALUES (31, 33, 0, 117440512, 8, 0);
         INSERT INTO NVTX_EVENTS (start, end, eventType, {range}, globalTid) VALUES (5, 125, 59, {}, 117440515);",
        if range == "text" { "'step'" } else { "9" }
    ))
}

#[track_caller]
fn check(trace: &Trace) {
    let totals = |name: &str| {
        let entry = trace.api.iter().chain(&trace.kernels).find(|entry| entry.name == name).unwrap();
        (entry.statistics.calls, entry.statistics.total_ns)
    };
    assert_eq!(totals("cudaLaunchKernel"), (2, 30));
    assert_eq!(totals("gemm_f32f32"), (2, 90));
    let copy = &trace.memcpy[0];
    assert_eq!((copy.kind.as_str(), copy.src.as_str(), copy.bytes), ("host_to_device", "pinned", 64));
    assert_eq!((trace.memset[0].count, trace.memset[0].bytes), (1, 8));
    assert_eq!((trace.nvtx[0].name.as_str(), trace.nvtx[0].statistics.total_ns), ("step", 120));
    assert_eq!((trace.per_gpu[0].busy_ns, trace.per_gpu[0].idle_ns), (97, 3));
    assert_eq!(trace.proof.strategy.seen, "single");
}

#[test]
fn exports_of_2021_and_2026_give_the_same_sums() {
    let old = filled(of_2021(), "text").import().unwrap();
    check(&old);
    assert_eq!(old.schema_version, "2.4.1");
    assert!(old.warnings.is_empty(), "{:?}", old.warnings);
    assert_eq!((old.begin_ns, old.wall_ns), (10, 110), "without ANALYSIS_DETAILS from the first event to the last");
    let new = filled(of_2026(), "textId").import().unwrap();
    check(&new);
    assert_eq!(new.schema_version, "3.31.2");
    assert_eq!(new.product_version.as_deref(), Some("2026.4.1"));
}

#[test]
fn an_unknown_minor_version_is_read_with_a_warning() {
    let trace = filled(of_2026(), "textId").import().unwrap();
    assert!(trace.warnings[0].contains("schema 3.31.2 is newer than 3.22"), "{:?}", trace.warnings);
}

#[test]
fn an_unknown_major_version_is_refused_by_name() {
    for version in ["1.9.0", "4.0.0", "17.2.1"] {
        let fixture = Fixture::new()
            .sql(&format!("UPDATE META_DATA_EXPORT SET value = '{version}' WHERE name = 'EXPORT_SCHEMA_VERSION'"));
        let message = fixture.refusal();
        assert!(message.contains(&format!("schema version {version} is not supported (2.x and 3.x are)")), "{message}");
    }
}

#[test]
fn a_version_that_is_none_is_refused() {
    for (sql, expected) in [
        ("DELETE FROM META_DATA_EXPORT", "META_DATA_EXPORT contains no EXPORT_SCHEMA_VERSION"),
        ("UPDATE META_DATA_EXPORT SET value = 'new'", "schema version \"new\" is not of the form"),
        ("UPDATE META_DATA_EXPORT SET value = NULL", "contains no EXPORT_SCHEMA_VERSION"),
    ] {
        let message = Fixture::new().sql(sql).refusal();
        assert!(message.contains(expected), "{sql}: {message}");
    }
}

#[test]
fn missing_tables_are_survived_and_said() {
    let trace = Fixture::new()
        .sql("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL; DROP TABLE NVTX_EVENTS; DROP TABLE TARGET_INFO_GPU;")
        .call(5, 9, 1)
        .import()
        .unwrap();
    assert_eq!(trace.api[0].statistics.total_ns, 4);
    assert!(trace.kernels.is_empty() && trace.per_gpu.is_empty());
    assert!(trace.warnings.iter().any(|warning| warning.contains("no kernels")), "{:?}", trace.warnings);
}

#[test]
fn a_column_that_a_sum_needs_is_asked_for_by_name() {
    let message = Fixture::new().sql("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN demangledName").refusal();
    assert!(message.contains("table CUPTI_ACTIVITY_KIND_KERNEL has no column demangledName"), "{message}");
}
