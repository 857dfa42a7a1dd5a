//! Timelines of reports and made-up recordings: their rows, what launched what, the parts of a step, the critical path.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use strum::IntoEnumIterator as _;

use super::*;
use crate::trace::event::What;
use crate::trace::file::{EventsWriter, Row, extras};
use crate::trace::source::Head;
use crate::trace::tests::{Fixture, PROCESS, THREAD, golden_report};
use crate::trace::tile::Tile;
use crate::trace::{Recorder, Window, import};

mod binds;
mod collectives;
mod grouped;

fn go(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn golden(folder: &Path, name: &str) -> PathBuf {
    let report = folder.join("report.sqlite");
    fs::write(&report, golden_report(name)).unwrap();
    keep_for_timeline(&report, Ok(folder.join("cache")), &mut go).unwrap()
}

fn items(timeline: &Timeline) -> Vec<Vec<Item>> {
    (0..timeline.rows().len()).map(|row| timeline.items(row, (i64::MIN, i64::MAX)).unwrap()).collect()
}

#[test]
fn a_real_report_is_converted_once_and_its_rows_hold_every_event() {
    let folder = tempfile::tempdir().unwrap();
    let kept = golden(folder.path(), "ddp2_100_pin");
    let changed = fs::metadata(&kept).unwrap().modified().unwrap();
    assert_eq!(golden(folder.path(), "ddp2_100_pin").parent(), kept.parent());
    assert_eq!(fs::metadata(&kept).unwrap().modified().unwrap(), changed);
    let trace = import(&kept, &Window::default(), &mut go).unwrap();
    let timeline = Timeline::open(&kept, &mut go).unwrap();
    let count = |what: &str| -> u64 {
        timeline.rows().iter().filter(|row| row.name.starts_with(what)).map(|row| row.events).sum()
    };
    assert_eq!(count("kernels") + count("NCCL"), trace.kernels.iter().map(|entry| entry.statistics.calls).sum::<u64>());
    assert_eq!(count("CUDA calls"), trace.api.iter().map(|entry| entry.statistics.calls).sum::<u64>());
    let nccl: u64 =
        trace.kernels.iter().filter(|entry| entry.name.starts_with("nccl")).map(|entry| entry.statistics.calls).sum();
    assert!(nccl > 0 && count("NCCL") == nccl);
    for (row, items) in timeline.rows().iter().zip(items(&timeline)) {
        assert_eq!(items.len() as u64, row.events, "{}", row.name);
        assert!(items.is_sorted_by_key(|item| item.span.0));
    }
    let gpus: Vec<bool> = [0, 1].iter().map(|gpu| timeline.rows()[*gpu].group.contains("GPU")).collect();
    assert_eq!(gpus, [true, true]);
}

#[test]
fn tiles_of_the_file_are_those_of_its_events_and_are_made_where_the_file_was_cut() {
    let folder = tempfile::tempdir().unwrap();
    let kept = golden(folder.path(), "single_100");
    let whole = Timeline::open(&kept, &mut go).unwrap();
    let bytes = fs::read(&kept).unwrap();
    let cut = folder.path().join("cut.events");
    // The last block is of tiles.
    fs::write(&cut, &bytes[..bytes.len() - 1]).unwrap();
    let cut = Timeline::open(&cut, &mut go).unwrap();
    assert!(!cut.warnings().is_empty() && whole.warnings().is_empty(), "{:?}", whole.warnings());
    let levels = |timeline: &Timeline| -> Vec<Vec<Vec<Tile>>> {
        timeline.rows().iter().flat_map(|row| row.shelves.iter().map(|shelf| shelf.levels.clone())).collect()
    };
    assert_eq!(levels(&cut), levels(&whole));
}

#[test]
fn what_limits_the_steps_of_a_recording_that_was_cut_comes_with_a_caveat() {
    let folder = tempfile::tempdir().unwrap();
    let kept = golden(folder.path(), "single_100");
    let bytes = fs::read(&kept).unwrap();
    let cut = folder.path().join("cut.events");
    fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let again = folder.path().join("again.events");
    keep_events(&cut, &again, &mut go).unwrap();
    let binding = |file: &PathBuf| Timeline::open(file, &mut go).unwrap().split(&mut go).unwrap().binding;
    let [whole, cut, again] = [kept, cut, again].map(|file| binding(&file));
    let caveat = "Parts of the recording are missing. ";
    assert!(cut.sentence.starts_with(caveat) && cut.sentence.len() > caveat.len(), "{}", cut.sentence);
    assert_eq!(again, cut, "a file that was made of it says so too");
    assert!(!whole.sentence.contains(caveat), "{}", whole.sentence);
}

#[test]
fn the_call_that_launched_a_kernel_is_found_and_names_are_searched() {
    let folder = tempfile::tempdir().unwrap();
    let timeline = Timeline::open(&golden(folder.path(), "single_100"), &mut go).unwrap();
    let row = timeline.rows().iter().position(|row| row.name.starts_with("kernels")).unwrap();
    let kernels = timeline.items(row, (i64::MIN, i64::MAX)).unwrap();
    let kernel = kernels[kernels.len() / 2];
    let launcher = timeline.launcher(row, &kernel).unwrap().unwrap();
    assert!(
        timeline.name(launcher.item.label).starts_with("cudaLaunchKernel"),
        "{}",
        timeline.name(launcher.item.label)
    );
    assert!(launcher.item.span.0 < kernel.span.0 && launcher.item.correlation == kernel.correlation);
    let labels = timeline.matching("MEMCPY HOST-to");
    let mut after = i64::MIN;
    let mut found = 0;
    while let Some(hit) = timeline.next(&labels, after).unwrap() {
        assert!(timeline.name(hit.item.label).contains("Host-to-Device"));
        (after, found) = (hit.item.span.0, found + 1);
    }
    let copies = |timeline: &Timeline| -> usize {
        let drawn_items = items(timeline);
        drawn_items.iter().flatten().filter(|item| timeline.name(item.label).contains("Host-to-Device")).count()
    };
    assert_eq!(found, copies(&timeline));
}

#[test]
fn a_kernel_leads_to_the_call_that_launched_it_and_the_call_back_to_its_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let timeline = Timeline::open(&golden(folder.path(), "single_100"), &mut go).unwrap();
    let row = timeline.rows().iter().position(|row| row.name.starts_with("kernels")).unwrap();
    let kernels = timeline.items(row, (i64::MIN, i64::MAX)).unwrap();
    let kernel = Found { row, item: kernels[kernels.len() / 2] };
    let flow = timeline.flow(&kernel).unwrap();
    let call = timeline.launcher(row, &kernel.item).unwrap();
    assert!(call.is_some() && flow == Flow { call, ..Flow::default() }, "{flow:?}");
    // An event that was drawn from a tile.
    let drawn = Found { row, item: Item { correlation: 0, bytes: None, ..kernel.item } };
    assert_eq!(timeline.flow(&drawn).unwrap(), flow);
    let back = timeline.flow(&call.unwrap()).unwrap();
    assert_eq!(back, Flow { launched: vec![kernel], ..Flow::default() });
}

/// A run of made ranges: what each rank did in each step, one part after the other.
fn made(ranks: &[&[(&str, i64)]], steps: i64, delays: &[i64]) -> Split {
    made_timeline(ranks, steps, delays).split(&mut go).unwrap()
}

fn made_timeline(ranks: &[&[(&str, i64)]], steps: i64, delays: &[i64]) -> Timeline {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.events");
    for (rank, parts) in ranks.iter().enumerate() {
        let mut recorder = Recorder::as_process(&file, rank as u16, rank as i64 + 100).unwrap();
        // All ranks leave a step together, as a collective makes them.
        let length: i64 = ranks.iter().map(|parts| parts.iter().map(|(_, ns)| ns).sum::<i64>()).max().unwrap();
        for step in 0..steps {
            let begin = 1_000_000 + step * (length + delays[0]);
            let mut now = begin;
            let mut start = None;
            for (name, ns) in *parts {
                recorder.range(name, 1, (now, now + ns)).unwrap();
                if *name != "load" {
                    start.get_or_insert(now);
                }
                now += ns;
            }
            recorder.range("step", 1, (start.unwrap(), now)).unwrap();
        }
        recorder.finish(1).unwrap();
    }
    Timeline::open(&file, &mut go).unwrap()
}

#[test]
fn every_nanosecond_of_a_step_belongs_to_one_part() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["single_100", "ddp2_100_pin", "ddp2_100_nopin"] {
        let split = Timeline::open(&golden(folder.path(), name), &mut go).unwrap().split(&mut go).unwrap();
        assert!(!split.steps.is_empty());
        for step in &split.steps {
            assert_eq!(step.parts.iter().sum::<u64>(), step.span.1.abs_diff(step.span.0), "{name} {step:?}");
        }
        assert!(!split.binding.sentence.is_empty());
    }
}

/// The split of a report of one GPU: steps of 1 ms that begin with what `step` makes, given its start.
fn made_on_gpu(step: impl Fn(Fixture, i64) -> Fixture) -> Split {
    timeline_of_gpu(step).split(&mut go).unwrap()
}

fn timeline_of_gpu(step: impl Fn(Fixture, i64) -> Fixture) -> Timeline {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("made.sqlite");
    let mut fixture = Fixture::new();
    for number in 0..30 {
        let start = 1_000_000 + number * 1_000_000;
        fixture = step(fixture, start).range(start, start + 1_000_000, "step");
    }
    fs::write(&report, fixture.bytes()).unwrap();
    let kept = keep_for_timeline(&report, Ok(folder.path().join("cache")), &mut go).unwrap();
    let refused =
        keep_for_timeline(&report, Err("this user has no home folder".to_owned()), &mut go).unwrap_err().to_string();
    assert!(refused.contains("no home folder") && refused.contains("--events"), "{refused}");
    Timeline::open(&kept, &mut go).unwrap()
}

/// A kernel on a stream, and the call that launched it: name 3 is a product, 4 a collective.
fn launched(fixture: Fixture, call: (i64, i64), work: (i64, i64), (stream, name): (i64, i64)) -> Fixture {
    let ((from, to), (start, end)) = (call, work);
    fixture.sql(&format!(
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId, nameId) VALUES ({from}, {to}, {THREAD}, {from}, 1);
         INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId, globalPid, demangledName)
            VALUES ({start}, {end}, 0, {stream}, {from}, {PROCESS}, {name});"
    ))
}

/// The critical path of the tenth step of the first rank, and its parts.
fn path(timeline: &Timeline) -> (CriticalPath, Vec<(Part, u64)>) {
    let split = timeline.split(&mut go).unwrap();
    let step = &split.first_rank()[9];
    let path = timeline.critical_path(step).unwrap();
    let length = step.span.1.abs_diff(step.span.0);
    assert_eq!(path.parts.iter().sum::<u64>(), length);
    let mut at = step.span.0;
    for segment in &path.segments {
        assert_eq!(segment.span.0, at, "{:?}", path.segments);
        at = segment.span.1;
    }
    assert_eq!(at, step.span.1);
    let parts = Part::iter().map(|part| (part, path.parts[part as usize])).filter(|(_, ns)| *ns > 0).collect();
    (path, parts)
}

#[test]
fn the_critical_path_of_work_launched_ahead_is_the_work_and_of_late_launches_the_host() {
    let ahead = timeline_of_gpu(|fixture, start| {
        let fixture = (0..20).fold(fixture, |fixture, kernel| {
            let (call, work) = (start + 5_000 * kernel, start + 10_000 + 49_000 * kernel);
            launched(fixture, (call, call + 4_000), (work, work + 49_000), (7, 3))
        });
        fixture.call(start + 110_000, start + 992_000, 2)
    });
    let (_, parts) = path(&ahead);
    let expected =
        [(Part::Matrix, 980_000), (Part::Synchronisation, 2_000), (Part::Launch, 10_000), (Part::Step, 8_000)];
    assert_eq!(parts, expected);
    let late = timeline_of_gpu(|fixture, start| {
        let fixture = (0..19).fold(fixture, |fixture, kernel| {
            let call = start + 50_000 * kernel;
            launched(fixture, (call, call + 10_000), (call + 12_000, call + 17_000), (7, 3))
        });
        fixture.call(start + 910_000, start + 920_000, 2)
    });
    // Calls took 10 µs of every 50: the rest is the host's own. The last kernel alone was waited for.
    let (_, parts) = path(&late);
    let expected =
        [(Part::Matrix, 5_000), (Part::Synchronisation, 3_000), (Part::Launch, 192_000), (Part::Step, 800_000)];
    assert_eq!(parts, expected);
}

#[test]
fn the_critical_path_goes_through_the_rank_that_others_wait_for() {
    let quick: &[(&str, i64)] = &[("load", 10), ("forward", 200), ("all_reduce", 460), ("optimizer", 30)];
    let slow: &[(&str, i64)] = &[("load", 10), ("forward", 600), ("all_reduce", 60), ("optimizer", 30)];
    let (path, parts) = path(&made_timeline(&[quick, quick, slow], 12, &[0]));
    let expected = [(Part::Optimizer, 30), (Part::Communication, 60), (Part::Data, 10), (Part::Forward, 600)];
    assert_eq!(parts, expected);
    let through: Vec<(Part, i64)> = path.segments.iter().map(|segment| (segment.part, segment.process)).collect();
    let expected = [(Part::Data, 102), (Part::Forward, 102), (Part::Communication, 100), (Part::Optimizer, 100)];
    assert_eq!(through, expected);
}

#[test]
fn adding_up_tells_how_far_it_is_and_can_be_cancelled() {
    let timeline = made_timeline(&[&[("load", 100), ("forward", 900)]], 40, &[0]);
    let mut seen = Vec::new();
    timeline
        .split(&mut |progress| {
            seen.push(progress.fraction);
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(seen.is_sorted() && seen.last() == Some(&1.0), "{seen:?}");
    let cancelled = timeline.split(&mut |_| ControlFlow::Break(()));
    assert!(matches!(cancelled, Err(TraceError::Cancelled)));
}

#[test]
fn rows_of_memory_name_the_gpu_where_a_process_has_several_and_each_process_has_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.events");
    let mut writer = EventsWriter::append(&file, 0, Head::default()).unwrap();
    let mut allocate = |process: i64, gpu: Option<i64>, memory: i64, at: i64, bytes: u64| {
        let lane = writer.lane(&Lane { kind: Kind::Allocation, process, gpu, track: memory });
        let what = What::Allocation { bytes, memory: Some(memory), operation: 1, address: at };
        writer.push(lane, Row { start: at, end: at, name: 0, correlation: 0, extras: extras(what) }).unwrap();
    };
    // Two GPUs of one process, and pinned memory; another process on the second of them.
    allocate(1, None, 1, 10, 5);
    allocate(1, Some(1), 2, 20, 100);
    allocate(1, Some(0), 2, 30, 7);
    allocate(2, Some(1), 2, 40, 3000);
    allocate(1, Some(0), 2, 50, 1);
    writer.finish().unwrap();
    let timeline = Timeline::open(&file, &mut go).unwrap();
    let rows = timeline.rows().iter().map(|row| (row.name.as_str(), row.process, row.live().unwrap().most()));
    let mut rows: Vec<_> = rows.collect();
    let pinned = rows.iter().position(|row| row.0 == "pinned memory").unwrap();
    assert_eq!((pinned, rows.remove(pinned)), (2, ("pinned memory", 1, 5.0)), "below that of GPUs");
    rows.sort_by(|a, b| (a.1, a.0).cmp(&(b.1, b.0)));
    let expected = [("CUDA memory · GPU 0", 1, 8.0), ("CUDA memory · GPU 1", 1, 100.0), ("CUDA memory", 2, 3000.0)];
    assert_eq!(rows, expected);
    // Memory says nothing of where time goes.
    assert!(timeline.split(&mut go).unwrap().steps.is_empty());
}
