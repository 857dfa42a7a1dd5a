//! Whatever part of a table a thread reads, the report says the same.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use super::fixture::Fixture;
use crate::trace::TraceError;
use crate::trace::event::{Event, Kind};
use crate::trace::progress::Watch;
use crate::trace::source::nsys::NsysReport;
use crate::trace::source::{Reading, Source};

/// A report with so many calls that they are several parts.
fn many() -> Fixture {
    Fixture::new().sql(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
         INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, nameId) SELECT i * 10, i * 10 + i % 7, 0, i % 5 FROM n;
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
         INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, globalPid, demangledName)
         SELECT i * 10, i * 10 + i % 9, i % 3, (9 - i / 20000) << 24, 3 + i % 2 FROM n;
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000)
         INSERT INTO NVTX_EVENTS SELECT i * 10, i * 10 + 5, iif(i % 100 = 0, 75, 59), 'range ' || (i % 50 + i / 10000), 0, NULL, i % 4 FROM n;",
    )
}

fn calls_by_name(bytes: &[u8], threads: usize) -> Result<BTreeMap<i64, (u64, i64)>, TraceError> {
    let report = NsysReport::from_bytes(Path::new("r"), bytes)?;
    let mut tell = |_| ControlFlow::Continue(());
    let mut watch = Watch::new(&mut tell, report.units(Kind::Call)?);
    let each = |sums: &mut BTreeMap<i64, (u64, i64)>, event: &Event<'_>| {
        let sum = sums.entry(event.name.id()).or_default();
        *sum = (sum.0 + 1, sum.1 + event.span.1 - event.span.0);
        Ok(())
    };
    let mut all: BTreeMap<i64, (u64, i64)> = BTreeMap::new();
    for (name, (count, total)) in
        report.scan(Kind::Call, Reading { threads, ..report.for_sums() }, &mut watch, each)?.into_iter().flatten()
    {
        let sum = all.entry(name).or_default();
        *sum = (sum.0 + count, sum.1 + total);
    }
    Ok(all)
}

#[test]
fn every_row_is_read_by_one_thread_and_by_one_alone() {
    let bytes = many().bytes();
    let alone = calls_by_name(&bytes, 1).unwrap();
    assert_eq!(alone.values().map(|(count, _)| count).sum::<u64>(), 60_000);
    for threads in [2, 3, 8, 16] {
        assert_eq!(calls_by_name(&bytes, threads).unwrap(), alone, "{threads} threads");
    }
}

#[test]
fn the_first_damaged_row_is_named_whichever_thread_finds_one() {
    let damage = "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET end = 1 WHERE rowid IN (21000, 40000, 59000)";
    let bytes = many().sql(damage).bytes();
    for threads in [1, 2, 8] {
        let message = calls_by_name(&bytes, threads).unwrap_err().to_string();
        assert!(message.contains("row 21000, start: it ends at 1 ns"), "{threads} threads: {message}");
    }
}

#[test]
fn a_report_reads_the_same_each_time() {
    let bytes = many().bytes();
    let import = || crate::trace::import_bytes(Path::new("r"), &bytes, &crate::trace::Window::default()).unwrap();
    let first = import();
    let processes: Vec<usize> = first.proof.strategy.ranks.iter().map(|rank| rank.process).collect();
    assert_eq!(processes.iter().max(), Some(&3), "{processes:?}");
    assert_eq!(first.nvtx.iter().map(|range| range.statistics.calls).sum::<u64>(), 29_700);
    for _ in 0..8 {
        assert_eq!(import(), first);
    }
}
