//! Recordings for ui.perfetto.dev and chrome://tracing: the JSON array format of
//! <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use super::TraceError;
use super::event::{Event, Kind, Name, What, nameless, printed};
use super::fold::{copy_label, family_name, memory_name, synchronisation_name};
use super::live::{Change, follow};
use super::progress::{Progress, Watch};
use super::source::{Detail, Names, Reading, Source};
use super::window::{Limits, Window};
use crate::foreign;

/// Writes each event of a source that starts within a window to a file, which must not exist yet. GPUs and processes become Perfetto's
/// processes, streams and threads become its threads.
pub(super) fn write(
    source: &impl Source,
    window: &Window,
    written: &Path,
    tell: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(), TraceError> {
    let failed = |source| TraceError::Io { file: written.to_owned(), source };
    let file = foreign::Output::new(written).map_err(failed)?;
    let to = &mut BufWriter::new(file.writer().map_err(failed)?);
    let head = source.head()?;
    let mut units = 0;
    for kind in Kind::TIMED {
        units += source.units(kind)?;
    }
    // The events are read twice: for names, and for writing.
    let watch = &mut Watch::new(tell, 2 * units);
    let (mut wanted, mut first): (HashSet<i64>, Option<i64>) = (HashSet::new(), None);
    for kind in Kind::TIMED {
        type Seen = (HashSet<i64>, Option<i64>);
        let each = |seen: &mut Seen, event: &Event<'_>| {
            if matches!(kind, Kind::Kernel | Kind::Call | Kind::Range) {
                seen.0.insert(event.name.id());
            }
            if !matches!(event.what, What::Domain { .. }) {
                seen.1 = Some(seen.1.map_or(event.span.0, |first| first.min(event.span.0)));
            }
            Ok(())
        };
        for (ids, start) in source.scan(kind, source.for_sums(), watch, each)? {
            wanted.extend(ids);
            first = first.into_iter().chain(start).min();
        }
    }
    let names = source.names(&wanted)?;
    let begin = match head.covered {
        Some((start, _)) => start,
        None if window.is_whole() => first.unwrap_or(0),
        None => source.first_start()?,
    };
    let limits = window.limits(begin)?;
    let (rows, places) = (HashMap::new(), HashMap::new());
    let output = Output { to, names, begin, limits, rows, places, changes: Vec::new(), failed: None };
    let output = Mutex::new(output);
    let begun = output.lock().unwrap_or_else(PoisonError::into_inner).to.write_all(b"[\n");
    begun.map_err(failed)?;
    let reading = Reading { detail: Detail::Whole, threads: 1 };
    let scanned = Kind::TIMED.into_iter().try_for_each(|kind| {
        let each = |(): &mut (), event: &Event<'_>| {
            output.lock().unwrap_or_else(PoisonError::into_inner).event(source, kind, event)
        };
        source.scan(kind, reading, watch, each).map(drop)
    });
    let mut output = output.into_inner().unwrap_or_else(PoisonError::into_inner);
    match output.failed.take() {
        Some(problem) => return Err(failed(problem)),
        None => scanned?,
    }
    output.live(source).map_err(failed)?;
    let to = output.to;
    let warnings = [head.warnings, source.losses(), head.notes].concat();
    let about = json!({
        "name": "recording", "ph": "M", "pid": 0,
        "args": { "schema": head.schema_version, "begin_ns": begin, "warnings": warnings },
    });
    writeln!(to, "{about}\n]").and_then(|()| to.flush()).map_err(failed)?;
    file.keep().map_err(failed)
}

/// One kind of memory of a process, on a GPU or in the host.
type Memory = (i64, Option<i64>, Option<i64>);

/// A row in Perfetto: a stream of a GPU, or a thread.
type Row = (i64, Option<i64>, i64, bool);

struct Output<'a> {
    to: &'a mut BufWriter<File>,
    names: Names,
    begin: i64,
    limits: Limits,
    rows: HashMap<Row, (usize, usize)>,
    /// Numbers of GPUs, and of processes.
    places: HashMap<(Option<i64>, i64), usize>,
    /// Allocations and releases of memory.
    changes: Vec<Change<Memory>>,
    failed: Option<io::Error>,
}

impl Output<'_> {
    fn event(&mut self, source: &impl Source, kind: Kind, event: &Event<'_>) -> Result<(), String> {
        if let What::Allocation { memory, .. } = event.what {
            let gpu = event.what.is_on_gpu().then(|| source.gpu(event.process, event.device));
            let place = (event.process, gpu, memory);
            self.changes.extend(Change::new(event.span.0, event.correlation, event.process, event.what, place)?);
            return Ok(());
        }
        if matches!(event.what, What::Domain { .. }) || !self.limits.holds(event.span.0) {
            return Ok(());
        }
        self.write(source, kind, event).map_err(|error| {
            let message = error.to_string();
            self.failed = Some(error);
            message
        })
    }

    fn write(&mut self, source: &impl Source, kind: Kind, event: &Event<'_>) -> io::Result<()> {
        let gpu = event.what.is_on_gpu().then(|| source.gpu(event.process, event.device));
        let (pid, tid) = self.row((event.process, gpu, event.track, kind == Kind::Synchronisation), source)?;
        let name = match event.name {
            Name::Text(text) => text.to_owned(),
            Name::Id(id) => self.names.texts.get(&id).cloned().unwrap_or_else(|| nameless(id)),
        };
        let (name, category, arguments) = match event.what {
            What::Kernel { graph_node } => {
                let family = family_name(&name);
                let arguments = if graph_node == 0 { json!({}) } else { json!({ "graph_node": graph_node }) };
                (name, family, arguments)
            }
            What::Copy { bytes, kind, .. } => (copy_label(kind), "copy".to_owned(), json!({ "bytes": bytes })),
            What::Memset { bytes, .. } => ("[CUDA memset]".to_owned(), "memset".to_owned(), json!({ "bytes": bytes })),
            What::Graph => ("CUDA graph".to_owned(), "graph".to_owned(), json!({})),
            What::Call => (printed(&name).to_owned(), "call".to_owned(), json!({})),
            What::Synchronisation { kind } => {
                (synchronisation_name(kind).to_owned(), "synchronisation".to_owned(), json!({}))
            }
            What::Range { .. } | What::Domain { .. } => (name, "range".to_owned(), json!({})),
            // Allocations are drawn as the live amount instead.
            What::Allocation { .. } => return Ok(()),
            What::Collective { bytes, .. } => (name, "communication".to_owned(), json!({ "bytes": bytes })),
        };
        let mut arguments = arguments;
        if let (Value::Object(arguments), true) = (&mut arguments, event.correlation != 0) {
            arguments.insert("correlation".to_owned(), event.correlation.into());
        }
        let (start, end) = event.span;
        let line = json!({
            "name": name, "cat": category, "ph": "X", "pid": pid, "tid": tid,
            "ts": micros(start.saturating_sub(self.begin)), "dur": micros(end - start), "args": arguments,
        });
        writeln!(self.to, "{line},")
    }

    /// Writes the live part of the memory that was allocated since the recording began, as counters.
    fn live(&mut self, source: &impl Source) -> io::Result<()> {
        let (mut steps, mut before) = (Vec::new(), BTreeMap::new());
        let limits = self.limits;
        follow(std::mem::take(&mut self.changes), |effect| {
            for (memory, bytes) in effect.live {
                if limits.holds(effect.at) {
                    steps.push((effect.at, memory, bytes));
                } else if effect.at < limits.from {
                    before.insert(memory, bytes);
                }
            }
        });
        let at_begin = before.into_iter().map(|(memory, bytes)| (limits.from, memory, bytes));
        for (at, (process, gpu, memory), bytes) in at_begin.chain(steps) {
            let pid = self.place(process, gpu, source)?;
            let name = format!("CUDA {} memory of {}", memory_name(memory), source.process_name(process));
            let ts = micros(at.saturating_sub(self.begin));
            let line = json!({ "name": name, "ph": "C", "pid": pid, "ts": ts, "args": { "bytes": bytes as f64 } });
            writeln!(self.to, "{line},")?;
        }
        Ok(())
    }

    /// The number of a GPU, or of a process; a new one is introduced by its name.
    fn place(&mut self, process: i64, gpu: Option<i64>, source: &impl Source) -> io::Result<usize> {
        let next = self.places.len() + 1;
        let pid = *self.places.entry(if gpu.is_some() { (gpu, 0) } else { (None, process) }).or_insert(next);
        if pid == next {
            let name = gpu.map_or_else(|| source.process_name(process), |gpu| format!("GPU {gpu}"));
            self.named("process_name", pid, None, &name)?;
        }
        Ok(pid)
    }

    /// The numbers of a row; a new one is introduced by its name.
    fn row(&mut self, row: Row, source: &impl Source) -> io::Result<(usize, usize)> {
        if let Some(numbers) = self.rows.get(&row) {
            return Ok(*numbers);
        }
        let (process, gpu, track, is_synchronisation) = row;
        let process_name = source.process_name(process);
        let pid = self.place(process, gpu, source)?;
        let tid = self.rows.len() + 1;
        let name = match gpu {
            Some(_) => format!("stream {track} of {process_name}"),
            None if is_synchronisation => format!("waits for stream {track}"),
            None => format!("thread {track}"),
        };
        self.named("thread_name", pid, Some(tid), &name)?;
        self.rows.insert(row, (pid, tid));
        Ok((pid, tid))
    }

    fn named(&mut self, what: &str, pid: usize, tid: Option<usize>, name: &str) -> io::Result<()> {
        let line = json!({ "name": what, "ph": "M", "pid": pid, "tid": tid.unwrap_or(0), "args": { "name": name } });
        writeln!(self.to, "{line},")
    }
}

fn micros(ns: i64) -> f64 {
    ns as f64 / 1000.0
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;
    use crate::trace::tests::{Fixture, PROCESS, golden_report};
    use crate::trace::{Recorder, export_perfetto, import, now_ns};

    fn exported(file: &Path, window: &Window) -> Vec<Value> {
        let written = file.with_extension("json");
        export_perfetto(file, window, &written, &mut |_| ControlFlow::Continue(())).unwrap();
        let text = fs::read_to_string(&written).unwrap();
        fs::remove_file(written).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_real_report_is_exported_event_by_event() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("report.sqlite");
        fs::write(&file, golden_report("ddp2_100_pin")).unwrap();
        for window in [Window::default(), Window { from_s: Some(9.6), to_s: Some(9.8) }] {
            let trace = import(&file, &window, &mut |_| ControlFlow::Continue(())).unwrap();
            let lines = exported(&file, &window);
            let total = |category: &str| {
                let events = lines.iter().filter(|line| line["cat"] == category);
                events.fold((0, 0.0), |sum, line| (sum.0 + 1, sum.1 + line["dur"].as_f64().unwrap()))
            };
            let calls = trace.api.iter().fold((0, 0.0), |sum, entry| {
                (sum.0 + entry.statistics.calls, sum.1 + entry.statistics.total_ns as f64 / 1000.0)
            });
            let (count, micros) = total("call");
            assert!(count > 0 && count == calls.0 && (micros - calls.1).abs() < 1e-3 * calls.1.max(1.0));
            for family in trace.families.iter().filter(|family| !["copy"].contains(&family.family.as_str())) {
                assert_eq!(total(&family.family).0, family.calls, "{}", family.family);
            }
            let copies: u64 = trace.memcpy.iter().map(|copy| copy.bytes).sum();
            let bytes = lines.iter().filter(|line| line["name"].as_str().unwrap().starts_with("[CUDA memcpy"));
            assert_eq!(bytes.map(|line| line["args"]["bytes"].as_u64().unwrap()).sum::<u64>(), copies);
            let named = |what: &str| {
                let names = lines.iter().filter(|line| line["name"] == what);
                names.map(|line| line["args"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
            };
            assert!(["GPU 0", "GPU 1"].iter().all(|gpu| named("process_name").contains(&(*gpu).to_owned())));
            assert!(named("thread_name").iter().any(|name| name.starts_with("stream ")));
        }
    }

    #[test]
    fn memory_is_a_counter_that_begins_with_what_was_live_when_the_window_does() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("report.sqlite");
        let rows = [(10, 0, 100, 1000), (20, 0, 200, 500), (30, 1, 100, 1000), (40, 1, 999, 7)];
        let rows = rows.map(|(at, operation, address, bytes)| {
            format!("({at}000, {PROCESS}, 0, {address}, {bytes}, 2, {operation})")
        });
        let table = "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start, globalPid, deviceId, address, bytes, memKind, memoryOperationType);";
        let insert = format!("INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES {}", rows.join(", "));
        let report = Fixture::new().sql(table).sql(&insert).call(5_000, 9_000, 5).kernel(20_000, 60_000, 3);
        fs::write(&file, report.bytes()).unwrap();
        let counters = |window: &Window| -> Vec<(f64, f64)> {
            let lines = exported(&file, window);
            let counters: Vec<&Value> = lines.iter().filter(|line| line["ph"] == "C").collect();
            assert!(counters.iter().all(|line| line["name"] == "CUDA device memory of process 7"), "{counters:?}");
            let gpu = lines.iter().find(|line| line["args"]["name"] == "GPU 0").unwrap();
            assert!(counters.iter().all(|line| line["pid"] == gpu["pid"]));
            counters
                .iter()
                .map(|line| (line["ts"].as_f64().unwrap(), line["args"]["bytes"].as_f64().unwrap()))
                .collect()
        };
        assert_eq!(counters(&Window::default()), [(5.0, 1000.0), (15.0, 1500.0), (25.0, 500.0)]);
        let late = Window { from_s: Some(18e-6), to_s: None };
        assert_eq!(counters(&late), [(18.0, 1500.0), (25.0, 500.0)]);
    }

    #[test]
    fn what_ranks_recorded_stands_under_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("trace.events");
        let begin = now_ns();
        for rank in [0, 1] {
            let mut recorder = Recorder::append(&file, rank, None).unwrap();
            recorder.range("step", 7, (begin, begin + 60)).unwrap();
            recorder.finish(7).unwrap();
        }
        let lines = exported(&file, &Window::default());
        // Both ranks are this process here: the first one names it.
        assert!(lines.iter().any(|line| line["name"] == "process_name" && line["args"]["name"] == "rank 0"));
        let steps = lines.iter().filter(|line| line["name"] == "step" && line["dur"] == 0.06 && line["ts"] == 0.0);
        assert_eq!(steps.count(), 2);
    }
}
