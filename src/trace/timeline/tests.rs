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
    let [whole, cut] = [kept, cut].map(|file| Timeline::open(&file, &mut go).unwrap().split(&mut go).unwrap().binding);
    let caveat = "Parts of the recording are missing. ";
    assert!(cut.sentence.starts_with(caveat) && cut.sentence.len() > caveat.len(), "{}", cut.sentence);
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

/// Two ranks, each with a GPU, that launch these numbers of all-reduces, one in each millisecond.
fn reductions(numbers: [i64; 2]) -> Timeline {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.events");
    for (rank, number) in (0..).zip(numbers) {
        let head = Head { schema_version: "built-in 1".to_owned(), ..Head::default() };
        let mut writer = EventsWriter::append(&file, rank, head).unwrap();
        let process = 100 + i64::from(rank);
        writer.process(process, format!("rank {rank}"));
        let call_lane = writer.lane(&Lane { kind: Kind::Call, process, gpu: None, track: 1 });
        let kernel_lane = writer.lane(&Lane { kind: Kind::Kernel, process, gpu: Some(i64::from(rank)), track: 7 });
        let launch = writer.name("cudaLaunchKernelExC").unwrap();
        let reduce = writer.name("ncclDevKernel_AllReduce_Sum_f32_RING_LL").unwrap();
        for place in 1..=number {
            // The second rank is later by a tenth of a millisecond.
            let at = 1_000_000 * place + 100_000 * i64::from(rank);
            let row = |start, end, name, what| Row { start, end, name, correlation: place, extras: extras(what) };
            writer.push(call_lane, row(at, at + 5_000, launch, What::Call)).unwrap();
            let work = row(at + 20_000, 1_000_000 * place + 500_000, reduce, What::Kernel { graph_node: 0 });
            writer.push(kernel_lane, work).unwrap();
        }
        writer.finish().unwrap();
    }
    Timeline::open(&file, &mut go).unwrap()
}

/// The events of the row of a rank whose name begins like this.
fn found(timeline: &Timeline, rank: &str, name: &str) -> Vec<Found> {
    let is_it = |row: &TimelineRow| row.group.starts_with(rank) && row.name.starts_with(name);
    let row = timeline.rows().iter().position(is_it).unwrap();
    let items = timeline.items(row, (i64::MIN, i64::MAX)).unwrap();
    items.into_iter().map(|item| Found { row, item }).collect()
}

#[test]
fn a_launch_leads_to_its_collective_and_on_to_the_same_collective_of_the_other_rank() {
    let timeline = reductions([5, 5]);
    let [calls, own, others] = [("rank 0", "CUDA calls"), ("rank 0", "NCCL"), ("rank 1", "NCCL")]
        .map(|(rank, name)| found(&timeline, rank, name));
    assert_eq!(own.len(), 5);
    let of_call = timeline.flow(&calls[2]).unwrap();
    let expected = Flow { call: None, launched: vec![own[2]], peers: vec![others[2]], has_unknown_peers: false };
    assert_eq!(of_call, expected);
    let of_kernel = timeline.flow(&own[2]).unwrap();
    assert_eq!(of_kernel, Flow { call: Some(calls[2]), launched: Vec::new(), ..expected });
    assert_eq!(timeline.flow(&others[4]).unwrap().peers, [own[4]]);
    // If a rank recorded fewer of them, nobody knows which one it lacks.
    let uneven = reductions([5, 4]);
    let flow = uneven.flow(&found(&uneven, "rank 0", "NCCL")[1]).unwrap();
    assert!(flow.peers.is_empty() && flow.has_unknown_peers && flow.call.is_some(), "{flow:?}");
}

#[test]
fn collectives_of_hosts_lead_to_each_other_and_waits_for_them_and_other_ranges_to_nothing() {
    let timeline = buckets_on_hosts();
    let [own, others] = ["rank 0", "rank 1"].map(|rank| found(&timeline, rank, "collectives"));
    assert_eq!(own.len(), 60);
    for place in [0, 1, 31] {
        assert_eq!(timeline.flow(&own[place]).unwrap(), Flow { peers: vec![others[place]], ..Flow::default() });
    }
    for (row, items) in items(&timeline).into_iter().enumerate() {
        for item in items.into_iter().filter(|_| timeline.rows()[row].kind == Kind::Range) {
            assert!(!timeline.has_flow(&Found { row, item }), "{}", timeline.name(item.label));
        }
    }
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
fn communication_is_hidden_by_other_kernels_waits_for_the_slowest_or_is_exposed() {
    let overlapped = made_on_gpu(|fixture, start| {
        fixture.kernel(start, start + 600_000, 3).kernel(start + 400_000, start + 900_000, 4)
    });
    let [collective] = &overlapped.collectives[..] else { panic!("{:?}", overlapped.collectives) };
    assert_eq!((collective.name.as_str(), collective.calls), ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 30));
    let ms = |collective: &Collective| {
        [collective.total_ns, collective.hidden_ns, collective.waiting_ns.unwrap(), collective.exposed_ns]
            .map(|ns| ns / 1_000_000)
    };
    assert_eq!(ms(collective), [15, 6, 0, 9]);
    let quick: &[(&str, i64)] = &[("forward", 200_000), ("all_reduce", 460_000)];
    let slow: &[(&str, i64)] = &[("forward", 600_000), ("all_reduce", 60_000)];
    let waiting = made(&[quick, quick, slow], 50, &[0]);
    let [collective] = &waiting.collectives[..] else { panic!("{:?}", waiting.collectives) };
    assert_eq!((collective.name.as_str(), collective.calls, ms(collective)), ("all_reduce", 150, [49, 0, 40, 9]));
    let twice: &[(&str, i64)] = &[("forward", 600_000), ("all_reduce", 30_000), ("all_reduce 2", 30_000)];
    let uneven = made(&[quick, twice], 10, &[0]);
    assert!(uneven.collectives.iter().all(|collective| collective.waiting_ns.is_none()), "{:?}", uneven.collectives);
}

/// A range, or a collective with its bytes, and its times in microseconds.
type Made = (&'static str, Option<u64>, (i64, i64));

/// Steps of 1 ms of ranks without GPUs: by rank, ranges of its main thread and collectives of another one.
fn on_hosts(ranks: &[&[Made]]) -> Timeline {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.events");
    for (rank, events) in (0..).zip(ranks) {
        let mut recorder = Recorder::as_process(&file, rank, i64::from(rank) + 100).unwrap();
        for step in 1..=20 {
            for (name, bytes, (start, end)) in *events {
                let span = (1_000_000 * step + 1000 * start, 1_000_000 * step + 1000 * end);
                match bytes {
                    Some(bytes) => recorder.collective(name, *bytes, 2, span).unwrap(),
                    None => recorder.range(name, 1, span).unwrap(),
                }
            }
            recorder.range("step", 1, (1_000_000 * step, 1_000_000 * (step + 1))).unwrap();
        }
        recorder.finish(1).unwrap();
    }
    Timeline::open(&file, &mut go).unwrap()
}

/// The second bucket of the first rank waits for that of the second; the first one is hidden, and a small one follows.
fn buckets_on_hosts() -> Timeline {
    let with_ready = |ready: i64| {
        [
            ("forward", None, (0, 300)),
            ("backward", None, (300, 800)),
            ("gloo:all_reduce", Some(2000), (400, 500)),
            ("gloo:all_reduce", Some(1000), (ready, 770)),
            // The thread takes a moment from one to the next.
            ("gloo:all_reduce", Some(4), (775, 790)),
            ("wait for ranks", None, (ready, 800)),
            ("all_reduce", None, (800, 801)),
            ("optimizer", None, (801, 1000)),
        ]
    };
    on_hosts(&[&with_ready(600), &with_ready(700)])
}

#[test]
fn the_largest_part_of_computing_is_called_most_of_it_only_above_half_of_it() {
    let sentence = |timeline: Timeline| timeline.split(&mut go).unwrap().binding.sentence;
    let below = sentence(buckets_on_hosts());
    assert!(below.contains(", the largest part of it ") && below.contains(" of the step). "), "{below}");
    let events: &[Made] =
        &[("forward", None, (0, 100)), ("backward", None, (100, 900)), ("optimizer", None, (900, 1000))];
    let above = sentence(on_hosts(&[events, events]));
    assert!(above.contains(", most of it ") && above.contains("(80 % of the step). "), "{above}");
}

#[test]
fn collectives_of_hosts_are_told_apart_by_size_and_hidden_while_their_rank_computes() {
    let timeline = buckets_on_hosts();
    assert!(timeline.rows().iter().any(|row| row.name == "collectives · thread 2"));
    let split = timeline.split(&mut go).unwrap();
    let parts_of = |step: &StepSplit| {
        [Part::Straggler, Part::Communication, Part::Forward, Part::Backward]
            .map(|part| step.parts[part as usize] / 1000)
    };
    assert_eq!(parts_of(&split.steps[5]), [100, 100, 300, 300]);
    assert_eq!(parts_of(&split.steps[25]), [0, 100, 300, 400]);
    let us = |collective: &Collective| {
        [collective.total_ns, collective.hidden_ns, collective.waiting_ns.unwrap(), collective.exposed_ns]
            .map(|ns| ns / 1000 / (collective.calls / 2))
    };
    let [second, first, last] = &split.collectives[..] else { panic!("{:?}", split.collectives) };
    assert_eq!((second.name.as_str(), second.bytes, us(second)), ("gloo:all_reduce", Some(1000), [240, 0, 100, 140]));
    assert_eq!((last.bytes, us(last)), (Some(4), [30, 0, 0, 30]));
    assert_eq!((first.name.as_str(), first.bytes, us(first)), ("gloo:all_reduce", Some(2000), [200, 200, 0, 0]));
    let sentence = &split.binding.sentence;
    assert!(sentence.starts_with("Limited by computing") && !sentence.contains("does not distinguish"), "{sentence}");
    let waits: &[Made] = &[
        ("forward", None, (0, 200)),
        ("backward", None, (200, 900)),
        ("gloo:all_reduce", Some(1000), (300, 900)),
        ("wait for ranks", None, (300, 900)),
        ("optimizer", None, (900, 1000)),
    ];
    let bound = on_hosts(&[waits, waits]).split(&mut go).unwrap().binding;
    assert_eq!(bound.part, Some(Part::Communication), "{}", bound.sentence);
    assert!(bound.sentence.contains("60 % [60 %, 60 %]"), "{}", bound.sentence);
}

#[test]
fn launches_over_nccl_whose_kernels_were_not_recorded_are_no_communication_of_hosts() {
    let launches: &[Made] = &[
        ("forward", None, (0, 200)),
        ("backward", None, (200, 900)),
        ("ncclAllReduce", Some(1000), (300, 900)),
        ("optimizer", None, (900, 1000)),
    ];
    let split = on_hosts(&[launches, launches]).split(&mut go).unwrap();
    assert!(split.collectives.is_empty() && split.part(Part::Communication).is_none(), "{:?}", split.collectives);
}

#[test]
fn the_critical_path_of_hosts_goes_through_the_collective_that_was_waited_for_to_the_rank_that_began_it_last() {
    let (path, parts) = path(&buckets_on_hosts());
    let us: Vec<(Part, u64)> = parts.into_iter().map(|(part, ns)| (part, ns / 1000)).collect();
    let expected = [
        (Part::Optimizer, 199),
        (Part::Communication, 90),
        (Part::Synchronisation, 10),
        (Part::Forward, 300),
        (Part::Backward, 400),
        (Part::Step, 1),
    ];
    assert_eq!(us, expected);
    let through: Vec<(Part, i64)> = path.segments.iter().map(|segment| (segment.part, segment.process)).collect();
    assert_eq!(through[..2], [(Part::Forward, 101), (Part::Backward, 101)]);
    assert!(through[2..].iter().all(|(_, process)| *process == 100), "{through:?}");
}

#[test]
fn parts_over_repeats_have_the_median_of_the_runs_and_their_interval() {
    let run = |load: i64| made(&[&[("load", load), ("forward", 1_000 - load)]], 20, &[0]);
    let runs = [run(600), run(800), run(700)];
    let data = |splits: &[&Split]| over_repeats(splits).into_iter().find(|part| part.part == Part::Data).unwrap();
    let data_part = data(&[&runs[0], &runs[1], &runs[2]]);
    let rounded =
        [data_part.share, data_part.interval.0, data_part.interval.1].map(|share| (share * 1e6).round() / 1e6);
    assert_eq!((rounded, data_part.median_s), ([0.7, 0.6, 0.8], 7e-7));
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
fn tiny_kernels_with_gaps_between_them_bind_a_run_by_launches() {
    let split = made_on_gpu(|fixture, start| {
        (0..20).fold(fixture, |fixture, kernel| {
            let at = start + kernel * 50_000;
            fixture.call(at, at + 5_000, 1).kernel(at + 6_000, at + 20_000, 3)
        })
    });
    assert_eq!(split.binding.part, Some(Part::Launch), "{}", split.binding.sentence);
    assert!(split.binding.sentence.contains("72 %"), "{}", split.binding.sentence);
}

#[test]
fn copies_that_nothing_hides_bind_a_run_by_data_movement_and_a_long_idle_time_is_not_explained() {
    let copies = made_on_gpu(|fixture, start| {
        fixture.call(start, start + 600_000, 1).upload(start, start + 600_000).kernel(
            start + 600_000,
            start + 950_000,
            3,
        )
    });
    assert_eq!(copies.binding.part, Some(Part::Copy), "{}", copies.binding.sentence);
    let idle = made_on_gpu(|fixture, start| fixture.kernel(start, start + 300_000, 3));
    assert_eq!(idle.binding.part, None, "{}", idle.binding.sentence);
    assert!(idle.binding.sentence.starts_with("Nothing in the recording explains 70 %"), "{}", idle.binding.sentence);
    let busy = made_on_gpu(|fixture, start| fixture.kernel(start, start + 990_000, 3));
    assert_eq!(busy.binding.part, Some(Part::Matrix), "{}", busy.binding.sentence);
}

#[test]
fn exposed_collectives_and_waits_of_the_host_bind_a_run() {
    let collectives = made_on_gpu(|fixture, start| {
        fixture.kernel(start, start + 300_000, 3).kernel(start + 300_000, start + 950_000, 4)
    });
    assert_eq!(collectives.binding.part, Some(Part::Communication), "{}", collectives.binding.sentence);
    assert!(collectives.binding.sentence.contains("65 % [65 %, 65 %]"), "{}", collectives.binding.sentence);
    let hidden = made_on_gpu(|fixture, start| {
        fixture.kernel(start, start + 900_000, 3).kernel(start + 100_000, start + 950_000, 4)
    });
    assert_eq!(hidden.binding.part, Some(Part::Matrix), "{}", hidden.binding.sentence);
    let waits = made_on_gpu(|fixture, start| {
        fixture.kernel(start, start + 300_000, 3).call(start + 310_000, start + 950_000, 2)
    });
    assert_eq!(waits.binding.part, Some(Part::Synchronisation), "{}", waits.binding.sentence);
    assert!(waits.binding.sentence.contains("64 %"), "{}", waits.binding.sentence);
}

#[test]
fn a_slow_loader_binds_a_run() {
    let split = made(&[&[("load", 700), ("forward", 100), ("backward", 150), ("optimizer", 50)]], 40, &[0]);
    assert_eq!(split.binding.part, Some(Part::Data), "{}", split.binding.sentence);
    assert!(split.binding.sentence.contains("70 % [70 %, 70 %]"), "{}", split.binding.sentence);
    let forward = split.part(Part::Forward).unwrap();
    assert!((forward.share - 0.1).abs() < 1e-9);
}

#[test]
fn warm_up_is_no_result_and_few_steps_are_not_judged() {
    let load: (&str, i64) = ("load", 700);
    let few = made(&[&[load, ("forward", 300)]], 5, &[0]);
    assert_eq!(few.binding.part, None, "{}", few.binding.sentence);
    assert!(few.binding.sentence.contains("4 come after the warm-up, and 6 are needed"), "{}", few.binding.sentence);
    let warm_up = made(&[&[load, ("phase: warm-up", 300)]], 40, &[0]);
    assert_eq!((warm_up.binding.part, warm_up.parts.len()), (None, 0), "{}", warm_up.binding.sentence);
    assert!(warm_up.binding.sentence.contains("0 come after the warm-up"), "{}", warm_up.binding.sentence);
}

#[test]
fn a_delayed_rank_binds_a_run_and_is_named() {
    let quick: &[(&str, i64)] =
        &[("load", 10), ("forward", 100), ("backward", 100), ("all_reduce", 460), ("optimizer", 30)];
    let slow: &[(&str, i64)] =
        &[("load", 10), ("forward", 350), ("backward", 250), ("all_reduce", 60), ("optimizer", 30)];
    let split = made(&[quick, quick, slow], 40, &[0]);
    assert_eq!(split.binding.part, Some(Part::Straggler), "{}", split.binding.sentence);
    assert!(split.binding.sentence.contains("rank 2 is last in 40 of 40"), "{}", split.binding.sentence);
}

#[test]
fn computing_binds_a_run_that_waits_for_nothing_and_what_is_even_is_left_undecided() {
    let split = made(&[&[("load", 20), ("forward", 300), ("backward", 600), ("optimizer", 80)]], 30, &[0]);
    assert_eq!(split.binding.part, Some(Part::Backward), "{}", split.binding.sentence);
    assert!(split.binding.sentence.contains("memory or arithmetic"), "{}", split.binding.sentence);
    let rank: &[(&str, i64)] = &[("load", 20), ("forward", 300), ("backward", 600), ("optimizer", 80)];
    let ranks = made(&[rank, rank], 30, &[0]);
    assert!(ranks.binding.sentence.contains("includes their communication"), "{}", ranks.binding.sentence);
    let even: &[(&str, i64)] = &[("load", 240), ("forward", 100), ("backward", 150), ("all_reduce", 240)];
    let split = made(&[even], 30, &[270]);
    assert_eq!(split.binding.part, None, "{}", split.binding.sentence);
}

#[test]
fn collectives_of_gpus_have_the_size_that_their_rank_told_while_it_launched_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.events");
    let mut rank = Recorder::as_process(&file, 0, 100).unwrap();
    let mut tracer =
        EventsWriter::append(&file, 1, Head { schema_version: "built-in 1".to_owned(), ..Head::default() }).unwrap();
    tracer.process(100, "rank 0".to_owned());
    let lane = |kind, gpu, track| Lane { kind, process: 100, gpu, track };
    let (calls, kernels) = (tracer.lane(&lane(Kind::Call, None, 1)), tracer.lane(&lane(Kind::Kernel, Some(0), 7)));
    let (launch, reduce) =
        (tracer.name("cudaLaunchKernelExC").unwrap(), tracer.name("ncclDevKernel_AllReduce_Sum_f32_RING_LL").unwrap());
    for step in 0..10 {
        let at = 1_000_000 * (step + 1);
        // Two buckets, one that was launched outside of any collective, as a graph's are, and one during two collectives at once.
        for (place, bytes) in [(0, &[2000][..]), (1, &[1000]), (2, &[]), (3, &[10, 20])] {
            let called = at + 100_000 * place;
            for (more, bytes) in (0..).zip(bytes) {
                rank.collective("nccl:all_reduce", *bytes, 1, (called + 1000 * more, called + 20_000)).unwrap();
            }
            let correlation = 10 * step + place + 1;
            let row = |start, end, name, what| Row { start, end, name, correlation, extras: extras(what) };
            tracer.push(calls, row(called + 5_000, called + 9_000, launch, What::Call)).unwrap();
            // The GPU is far behind its host.
            let begun = at + 400_000 + 100_000 * place;
            tracer.push(kernels, row(begun, begun + 50_000, reduce, What::Kernel { graph_node: 0 })).unwrap();
        }
        rank.range("step", 1, (at, at + 1_000_000)).unwrap();
    }
    rank.finish(1).unwrap();
    tracer.finish().unwrap();
    let split = Timeline::open(&file, &mut go).unwrap().split(&mut go).unwrap();
    let mut seen: Vec<_> = split
        .collectives
        .iter()
        .map(|collective| (collective.bytes, collective.calls, collective.total_ns, collective.exposed_ns))
        .collect();
    seen.sort_unstable();
    let numbers_of = |bytes, calls: u64| (bytes, calls, 50_000 * calls, 50_000 * calls);
    assert_eq!(seen, [numbers_of(None, 20), numbers_of(Some(1000), 10), numbers_of(Some(2000), 10)]);
    assert!(
        split.collectives.iter().all(|numbers_of| numbers_of.name == "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
        "{:?}",
        split.collectives
    );
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
