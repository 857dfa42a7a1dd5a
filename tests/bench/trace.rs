//! How long a report and its events take to import: a real one cut down, and one repeated until it is as large as asked.
//!
//! `MULTICARD_TRACE=FILE` measures that report instead. `MULTICARD_TRACE_COPIES=N` (default 60, about 100 MB) says how
//! often the rows of the cut-down report are repeated, each time later and with durations that differ a little. Where
//! there is an nsys (`MULTICARD_NSYS`, or on PATH), its `nsys stats` is timed on the same files.

use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use multicard::trace::{Window, import, keep_events, nsys_path};
use rusqlite::Connection;

const TIMES: usize = 5;

/// Tables of events, which are repeated.
const EVENTS: [&str; 6] = [
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    "NVTX_EVENTS",
];

fn main() {
    if let Some(file) = std::env::var_os("MULTICARD_TRACE") {
        return measure(Path::new(&file));
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let small = unpacked(folder.path());
    measure(&small);
    let copies = std::env::var("MULTICARD_TRACE_COPIES").map_or(60, |text| text.parse().expect("a number of copies"));
    repeat(&small, copies);
    measure(&small);
}

/// The cut-down report.
fn unpacked(folder: &Path) -> PathBuf {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/trace/ddp2_100_pin.sqlite.gz");
    let mut bytes = Vec::new();
    let packed = std::fs::File::open(packed).expect("the cut-down report");
    flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).expect("a gzip file");
    let file = folder.join("report.sqlite");
    std::fs::write(&file, bytes).expect("room for the report");
    file
}

/// Repeats all events of a report, one repetition after the other.
fn repeat(file: &Path, copies: i64) {
    let report = Connection::open(file).expect("a report");
    report.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN").expect("a writable report");
    for table in EVENTS {
        let columns: Vec<String> = report
            .prepare("SELECT name FROM pragma_table_info(?1)")
            .and_then(|mut list| list.query_map([table], |row| row.get(0))?.collect())
            .expect("columns");
        let jitter = if table == "NVTX_EVENTS" { "0" } else { "abs(random()) % 1000" };
        let values: Vec<String> = columns
            .iter()
            .map(|column| match column.as_str() {
                "start" => "start + ?1 * 4000000000".to_owned(),
                "end" => format!("end + ?1 * 4000000000 + {jitter}"),
                other => format!("\"{other}\""),
            })
            .collect();
        let last: i64 = report
            .query_row(&format!("SELECT coalesce(max(rowid), 0) FROM {table}"), [], |row| row.get(0))
            .expect("rows");
        let sql = format!("INSERT INTO {table} SELECT {} FROM {table} WHERE rowid <= {last}", values.join(", "));
        let mut insert = report.prepare(&sql).expect("an insertion");
        for copy in 1..copies {
            insert.execute([copy]).expect("room for the rows");
        }
    }
    report.execute_batch("COMMIT").expect("room for the report");
}

fn measure(file: &Path) {
    let size = std::fs::metadata(file).expect("a report").len();
    let times = if size > 200_000_000 { 1 } else { TIMES };
    let imports = measure_import(file, times);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let events = folder.path().join("trace.events");
    let begun = Instant::now();
    keep_events(file, &events, &mut |_| ControlFlow::Continue(())).expect("room for the events");
    println!("  its events, written in {:.1} ms:", begun.elapsed().as_secs_f64() * 1e3);
    measure_import(&events, times);
    let Ok(nsys) = nsys_path() else { return println!("  no nsys here to hold it against") };
    let stats = timed(times, || {
        let mut command = Command::new(&nsys);
        command.arg("stats").arg(file).stdout(Stdio::null()).stderr(Stdio::null());
        assert!(command.status().expect("nsys runs").success(), "nsys stats {}", file.display());
    });
    println!("  nsys stats: {}; {:.1} times as long", times_text(&stats), stats[times / 2] / imports[times / 2]);
}

/// Imports a recording several times.
fn measure_import(file: &Path, times: usize) -> Vec<f64> {
    let size = std::fs::metadata(file).expect("a recording").len();
    let mut calls = 0;
    let imports = timed(times, || {
        let trace = import(file, &Window::default(), &mut |_| ControlFlow::Continue(())).expect("a recording");
        calls = trace.api.iter().map(|entry| entry.statistics.calls).sum::<u64>();
    });
    println!("{:.1} MB, {calls} calls: {}", size as f64 / 1e6, times_text(&imports));
    imports
}

/// How long each of several times took, in milliseconds, the shortest first.
fn timed(times: usize, mut work: impl FnMut()) -> Vec<f64> {
    let mut times_ms: Vec<f64> = (0..times)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times_ms.sort_by(f64::total_cmp);
    times_ms
}

fn times_text(times_ms: &[f64]) -> String {
    let (n, last) = (times_ms.len(), times_ms[times_ms.len() - 1]);
    format!("median {:.1} ms, least {:.1}, most {last:.1}, of {n}", times_ms[n / 2], times_ms[0])
}
