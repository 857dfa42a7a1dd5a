//! Files that are no reports, or broken ones: a clear message, never wrong sums.

use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::fixture::{Fixture, PROCESS};
use super::golden::report;
use crate::trace::{TraceError, Window, csv, import};

/// What an import of a file with these bytes says.
fn refusal_of(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run 1?#%.sqlite");
    std::fs::write(&file, bytes).unwrap();
    imported(&file).unwrap_err().to_string()
}

fn imported(file: &Path) -> Result<crate::trace::Trace, TraceError> {
    import(file, &Window::default(), &mut |_| ControlFlow::Continue(()))
}

#[test]
fn files_of_something_else_are_named_as_what_they_are() {
    let noise: Vec<u8> = (0u32..4096).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8 | 0x80).collect();
    for (bytes, expected) in [
        (&b""[..], "an empty file"),
        (b"start,end,name\n1,2,x\n", "a text file"),
        ("günstig ".repeat(20).as_bytes(), "a text file"),
        (b"SQLite form", "cut off within its first bytes"),
        (b"SQLite format 3\0", "cut off within its first bytes"),
        (b"\xfd7zXZ\0\0\0", "compressed with xz"),
        (b"\x1f\x8b\x08", "compressed with gzip"),
        (&noise, "not an SQLite file, or an encrypted one"),
    ] {
        let message = refusal_of(bytes);
        assert!(message.contains(expected), "{expected}: {message}");
        assert!(message.contains("run 1?#%.sqlite") && message.contains("nsys export --type sqlite"), "{message}");
    }
}

#[test]
fn folders_and_missing_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    assert!(imported(folder.path()).unwrap_err().to_string().contains("a folder"));
    let missing = imported(&folder.path().join("none.sqlite")).unwrap_err().to_string();
    assert!(missing.contains("none.sqlite") && missing.contains("check the path"), "{missing}");
}

#[test]
fn databases_of_something_else_are_refused_with_their_tables() {
    let message = Fixture::empty().sql("CREATE TABLE bookmarks (x); CREATE TABLE history (y)").refusal();
    assert!(message.contains("not a report: an SQLite file with 2 tables (bookmarks, history)"), "{message}");
    let message_text = Fixture::empty().sql("PRAGMA user_version = 1").refusal();
    assert!(message_text.contains("no table at all"), "{message}");
}

#[test]
fn a_report_cut_off_anywhere_is_refused() {
    let (bytes, _) = report("single_100");
    for part in [1, 3, 5, 8, 15] {
        let message = refusal_of(&bytes[..bytes.len() * part / 16]);
        assert!(message.contains("cut off: its header declares"), "{message}");
    }
    let message = refusal_of(&bytes[..bytes.len() - 1]);
    assert!(message.contains("cut off"), "{message}");
}

#[test]
fn a_report_with_a_page_of_noise_is_refused_or_has_the_same_sums() {
    let (bytes, _) = report("single_100");
    let whole = crate::trace::import_bytes(Path::new("r"), &bytes, &Window::default()).unwrap();
    let mut refused = 0;
    for page in 1..bytes.len() / 4096 {
        let mut broken = bytes.clone();
        broken[page * 4096..page * 4096 + 64].fill(0xff);
        match crate::trace::import_bytes(Path::new("r"), &broken, &Window::default()) {
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty());
            }
            // Pages of tables that are not read do not matter.
            Ok(trace) => {
                assert_eq!((trace.api, trace.kernels), (whole.api.clone(), whole.kernels.clone()), "page {page}");
            }
        }
    }
    assert!(refused > 100, "{refused} pages refused");
}

#[test]
fn rows_with_ids_far_apart_and_columns_called_rowid_are_all_summed_up() {
    let call = |id: i64| {
        format!(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME (rowid, start, end, globalTid, nameId) VALUES ({id}, 10, 13, 0, 1);"
        )
    };
    let ids = [i64::MIN, -1, 0, 7, 8192, 1 << 40, i64::MAX];
    let trace = Fixture::new().sql(&ids.map(call).concat()).import().unwrap();
    assert_eq!((trace.api[0].statistics.calls, trace.api[0].statistics.total_ns), (7, 21));
    let shadowed = "DROP TABLE CUPTI_ACTIVITY_KIND_RUNTIME;
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, nameId, RowID);
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (10, 13, 0, 1, NULL), (20, 23, 0, 1, 'x'), (30, 33, 0, 1, 5);";
    let trace = Fixture::new().sql(shadowed).import().unwrap();
    assert_eq!((trace.api[0].statistics.calls, trace.api[0].statistics.total_ns), (3, 9));
    let all = shadowed
        .replace("RowID)", "rowid, _rowid_, oid)")
        .replace("(10, 13, 0, 1, NULL), (20, 23, 0, 1, 'x'), (30, 33, 0, 1, 5)", "(1, 2, 0, 1, 0, 0, 0)");
    let message = Fixture::new().sql(&all).refusal();
    assert!(message.contains("CUPTI_ACTIVITY_KIND_RUNTIME: its columns take every name"), "{message}");
}

#[test]
fn a_page_that_stands_twice_in_a_table_is_refused() {
    let rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, nameId) SELECT i, i + 1, 0, 1 FROM n";
    let mut bytes = Fixture::new().sql(rows).bytes();
    // The root of the table, an interior page (5) with pointers to its leaves; the second one is led to the first leaf.
    let connection = {
        let mut connection = rusqlite::Connection::open_in_memory().unwrap();
        connection.deserialize_read_exact("main", &bytes[..], bytes.len(), true).unwrap();
        connection
    };
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'CUPTI_ACTIVITY_KIND_RUNTIME'";
    let root: u32 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    let page = (root as usize - 1) * 4096;
    assert_eq!(bytes[page], 5);
    let cell = |number: usize| {
        page + usize::from(u16::from_be_bytes([bytes[page + 12 + 2 * number], bytes[page + 13 + 2 * number]]))
    };
    let (first, second) = (cell(0), cell(1));
    bytes.copy_within(first..first + 4, second);
    let message = crate::trace::import_bytes(Path::new("r"), &bytes, &Window::default()).unwrap_err().to_string();
    assert!(message.contains("CUPTI_ACTIVITY_KIND_RUNTIME: row 1 comes after row"), "{message}");
}

#[test]
fn a_report_that_is_still_being_written_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("r.sqlite");
    std::fs::write(&file, report("single_100").0).unwrap();
    std::fs::write(folder.path().join("r.sqlite-journal"), b"hot").unwrap();
    let message = imported(&file).unwrap_err().to_string();
    assert!(message.contains("still being written"), "{message}");
}

#[test]
fn read_only_reports_in_read_only_folders_open_and_nothing_is_left_beside_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("r.sqlite");
    std::fs::write(&file, report("single_100").0).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o400)).unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o500)).unwrap();
    assert!(!imported(&file).unwrap().api.is_empty());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o700)).unwrap();
}

#[test]
fn values_that_cannot_be_are_refused_with_table_row_and_column() {
    let kernel = |start: &str, end: &str, device: &str, name: &str| {
        format!(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, globalPid, demangledName)
                VALUES ({start}, {end}, {device}, {PROCESS}, {name})"
        )
    };
    for (sql, expected) in [
        (kernel("5", "3", "0", "3"), "row 2, start: it ends at 3 ns, before it starts at 5 ns"),
        (
            kernel("0", "1000000000000000000", "0", "3"),
            "row 2, start: it lasts 1000000000000000000 ns, more than a year",
        ),
        (kernel("0", "9223372036854775807", "0", "3"), "is not a time in a report"),
        (kernel("-9223372036854775808", "0", "0", "3"), "is not a time in a report"),
        (kernel("'soon'", "3", "0", "3"), "row 2, start: holds text, not a whole number"),
        (kernel("1.5", "3", "0", "3"), "row 2, start: holds 1.5e0, not a whole number"),
        (kernel("1", "x'00ff'", "0", "3"), "row 2, end: holds bytes, not a whole number"),
        (kernel("1", "3", "'first'", "3"), "row 2, deviceId: holds text"),
        (kernel("1", "3", "0", "'gemm'"), "row 2, demangledName: holds text"),
    ] {
        let message = Fixture::new().kernel(1, 2, 3).sql(&sql).refusal();
        assert!(
            message.contains("CUPTI_ACTIVITY_KIND_KERNEL, row 2") && message.contains(expected),
            "{expected}: {message}"
        );
    }
    let copy = "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1, 2, 0, 0, -5, 1, 0, 2, NULL, NULL)";
    let message_text = Fixture::new().sql(copy).refusal();
    assert!(
        message_text.contains("CUPTI_ACTIVITY_KIND_MEMCPY, row 1, bytes: holds -5, which is negative"),
        "{message_text}"
    );
}

#[test]
fn nothing_where_a_number_must_be_is_refused() {
    let tables = "DROP TABLE CUPTI_ACTIVITY_KIND_RUNTIME;
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, nameId);
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, NULL, 0, 1);";
    let message = Fixture::new().sql(tables).refusal();
    assert!(message.contains("CUPTI_ACTIVITY_KIND_RUNTIME, row 1, end: holds nothing"), "{message}");
}

#[test]
fn times_of_1e18_are_times_as_long_as_durations_are_sane() {
    let epoch = 1_700_000_000_000_000_000;
    let trace = Fixture::new().kernel(epoch, epoch + 100, 3).kernel(epoch + 150, epoch + 170, 3).import().unwrap();
    assert_eq!(trace.kernels[0].statistics.total_ns, 120);
    assert_eq!((trace.per_gpu[0].busy_ns, trace.per_gpu[0].idle_ns), (120, 50));
}

#[test]
fn sums_beyond_64_bits_are_refused() {
    let year = 365_i64 * 24 * 3600 * 1_000_000_000;
    let rows = format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 700)
         INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, nameId) SELECT 0, {year}, 0, 1 FROM n"
    );
    let message = Fixture::new().sql(&rows).refusal();
    assert!(message.contains("beyond 64 bits"), "{message}");
    let copies = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3)
        INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY SELECT i, i + 1, 0, 0, 9223372036854775807, 1, 0, 2, NULL, NULL FROM n";
    let message_text = Fixture::new().sql(copies).refusal();
    assert!(message_text.contains("beyond 64 bits"), "{message}");
}

#[test]
fn an_id_with_two_names_is_refused_and_one_without_a_name_keeps_its_times() {
    let twice = "DROP TABLE StringIds; CREATE TABLE StringIds (id INTEGER, value TEXT);
        INSERT INTO StringIds VALUES (3, 'gemm'), (3, 'gemv'), (8, 'unused'), (8, 'twice')";
    let message = Fixture::new().sql(twice).kernel(1, 2, 3).refusal();
    assert!(message.contains("StringIds, row 2, id: 3 occurs twice, for \"gemm\" and for \"gemv\""), "{message}");
    let trace = Fixture::new().kernel(1, 5, 77).import().unwrap();
    assert_eq!((trace.kernels[0].name.as_str(), trace.kernels[0].statistics.total_ns), ("(name 77 is missing)", 4));
    assert!(trace.warnings[0].contains("the report lacks 1 name;"), "{:?}", trace.warnings);
}

#[test]
fn a_name_of_a_megabyte_is_cut_and_its_times_stay() {
    let long = "é".repeat(1 << 19);
    let fixture = Fixture::new().sql(&format!("INSERT INTO StringIds VALUES (50, '{long}')"));
    let trace = fixture.kernel(1, 5, 50).range(2, 9, &long).range(3, 9, &long).import().unwrap();
    assert_eq!(trace.kernels[0].statistics.total_ns, 4);
    assert!(trace.kernels[0].name.len() < 70_000 && trace.kernels[0].name.starts_with("éé"));
    let calls: u64 = trace.nvtx.iter().map(|range| range.statistics.calls).sum();
    assert_eq!(calls, 2);
}

#[test]
fn ten_thousand_names_of_ranges_are_kept_and_the_rest_summed_up() {
    let rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10500)
        INSERT INTO NVTX_EVENTS SELECT i, i + 2, 59, 'step ' || i, 0, NULL, 0 FROM n";
    let trace = Fixture::new().sql(rows).import().unwrap();
    assert_eq!(trace.nvtx.len(), 10_001);
    assert_eq!(trace.nvtx.iter().map(|range| range.statistics.calls).sum::<u64>(), 10_500);
}

#[test]
fn views_and_generated_columns_of_strangers_are_not_run() {
    let endless = "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL;
        CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
        SELECT i AS start, i AS end, 0 AS deviceId, 0 AS globalPid, 3 AS demangledName FROM n";
    let trace = Fixture::new().sql(endless).import().unwrap();
    assert!(trace.kernels.is_empty());
    let generated = "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL;
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, deviceId, globalPid, demangledName, end AS (start + 5));";
    let message = Fixture::new().sql(generated).refusal();
    assert!(message.contains("has no column end"), "{message}");
}

#[test]
fn a_stop_is_heeded_and_progress_goes_up_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("r.sqlite");
    std::fs::write(&file, report("single_100").0).unwrap();
    let stopped = import(&file, &Window::default(), &mut |_| ControlFlow::Break(()));
    assert!(matches!(stopped, Err(TraceError::Cancelled)));
    let mut notices = Vec::new();
    import(&file, &Window::default(), &mut |progress| {
        notices.push(progress.fraction);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(notices.is_sorted() && *notices.last().unwrap() > 0.99, "{notices:?}");
}

#[test]
fn names_that_a_spreadsheet_would_compute_stay_text_in_csv() {
    let fixture = Fixture::new().sql("INSERT INTO StringIds VALUES (9, '=1+2')").kernel(100, 200, 9);
    let trace = fixture.range(0, 50, "+1").range(60, 80, "-b").range(90, 95, "@sum(a1)").import().unwrap();
    let names: Vec<String> = csv(&trace).lines().filter_map(|line| Some(line.split(',').nth(1)?.to_owned())).collect();
    for name in ["'=1+2", "'+1", "'-b", "'@sum(a1)"] {
        assert!(names.iter().any(|other| other == name), "{name}: {names:?}");
    }
}
