#![allow(clippy::unwrap_used)]

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use super::*;
use crate::trace::tests::{Fixture, golden_report};
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
        let of = items(timeline);
        of.iter().flatten().filter(|item| timeline.name(item.label).contains("Host-to-Device")).count()
    };
    assert_eq!(found, copies(&timeline));
}

/// A run of made ranges: what each rank did in each step, one part after the other.
fn made(ranks: &[&[(&str, i64)]], steps: i64, delays: &[i64]) -> Split {
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
    Timeline::open(&file, &mut go).unwrap().split().unwrap()
}

#[test]
fn every_nanosecond_of_a_step_belongs_to_one_part() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["single_100", "ddp2_100_pin", "ddp2_100_nopin"] {
        let split = Timeline::open(&golden(folder.path(), name), &mut go).unwrap().split().unwrap();
        assert!(!split.steps.is_empty());
        for step in &split.steps {
            assert_eq!(step.parts.iter().sum::<u64>(), step.span.1.abs_diff(step.span.0), "{name} {step:?}");
        }
        assert!(!split.binding.sentence.is_empty());
    }
}

/// The split of a report of one GPU: steps of 1 ms that begin with what `step` makes, given its start.
fn made_on_gpu(step: impl Fn(Fixture, i64) -> Fixture) -> Split {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("made.sqlite");
    let mut made = Fixture::new();
    for number in 0..30 {
        let start = 1_000_000 + number * 1_000_000;
        made = step(made, start).range(start, start + 1_000_000, "step");
    }
    fs::write(&report, made.bytes()).unwrap();
    let kept = keep_for_timeline(&report, Ok(folder.path().join("cache")), &mut go).unwrap();
    let refused =
        keep_for_timeline(&report, Err("this user has no home folder".to_owned()), &mut go).unwrap_err().to_string();
    assert!(refused.contains("no home folder") && refused.contains("--events"), "{refused}");
    Timeline::open(&kept, &mut go).unwrap().split().unwrap()
}

#[test]
fn tiny_kernels_with_gaps_between_them_bind_a_run_by_launches() {
    let split = made_on_gpu(|made, start| {
        (0..20).fold(made, |made, kernel| {
            let at = start + kernel * 50_000;
            made.call(at, at + 5_000, 1).kernel(at + 6_000, at + 20_000, 3)
        })
    });
    assert_eq!(split.binding.part, Some(Part::Launch), "{}", split.binding.sentence);
    assert!(split.binding.sentence.contains("72 %"), "{}", split.binding.sentence);
}

#[test]
fn copies_that_nothing_hides_bind_a_run_by_data_movement_and_a_long_idle_time_is_not_explained() {
    let copies = made_on_gpu(|made, start| {
        made.call(start, start + 600_000, 1).upload(start, start + 600_000).kernel(start + 600_000, start + 950_000, 3)
    });
    assert_eq!(copies.binding.part, Some(Part::Copy), "{}", copies.binding.sentence);
    let idle = made_on_gpu(|made, start| made.kernel(start, start + 300_000, 3));
    assert_eq!(idle.binding.part, None, "{}", idle.binding.sentence);
    assert!(idle.binding.sentence.starts_with("Nothing recorded explains 70 %"), "{}", idle.binding.sentence);
    let busy = made_on_gpu(|made, start| made.kernel(start, start + 990_000, 3));
    assert_eq!(busy.binding.part, Some(Part::Matrix), "{}", busy.binding.sentence);
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
    let even: &[(&str, i64)] = &[("load", 240), ("forward", 100), ("backward", 150), ("all_reduce", 240)];
    let split = made(&[even], 30, &[270]);
    assert_eq!(split.binding.part, None, "{}", split.binding.sentence);
}
