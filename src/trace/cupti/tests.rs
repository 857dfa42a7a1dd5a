#![allow(clippy::unwrap_used)]

use std::process::Command;

use super::*;
use crate::trace::{Recorder, Timeline, Trace, Window, import, now_ns};

fn go_on(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn header(process: i64, rank: i32) -> Vec<u8> {
    let mut bytes = b"\x93MCT\x02\0\0\0".to_vec();
    bytes.extend(process.to_le_bytes());
    bytes.extend(rank.to_le_bytes());
    bytes.extend(130_000_u32.to_le_bytes());
    bytes.extend([0; 24]);
    bytes
}

#[derive(Default)]
struct Record {
    kind: u8,
    abc: [u8; 3],
    name: u32,
    span: (i64, i64),
    /// Device, track, correlation, more.
    place: [u32; 4],
    bytes: u64,
}

impl Record {
    fn put(&self, file: &mut Vec<u8>) {
        file.push(self.kind);
        file.extend(self.abc);
        file.extend(self.name.to_le_bytes());
        file.extend(self.span.0.to_le_bytes());
        file.extend(self.span.1.to_le_bytes());
        self.place.iter().for_each(|number| file.extend(number.to_le_bytes()));
        file.extend(self.bytes.to_le_bytes());
    }
}

fn text(file: &mut Vec<u8>, kind: u8, name: u32, text: &str) {
    Record { kind, name, bytes: text.len() as u64, ..Record::default() }.put(file);
    file.extend(text.bytes());
}

/// What a process leaves that launched two kernels, copied from another GPU and from pageable memory, waited, and named a range in a
/// domain. Its device 0 is the machine's fourth GPU.
fn raw(process: i64, rank: i32, begin: i64) -> Vec<u8> {
    let mut file = header(process, rank);
    text(&mut file, 12, 0, "cudaGetDevice");
    text(&mut file, 1, 1, "NVIDIA H100");
    Record { kind: 9, name: 1, place: [0, 4, 132, 0], bytes: 80 << 30, ..Record::default() }.put(&mut file);
    text(&mut file, 1, 2, "void conv2d<(int)4>(float*)");
    text(&mut file, 1, 3, "cudaLaunchKernel_v7000");
    text(&mut file, 1, 0x8000_0001, "my domain");
    text(&mut file, 1, 0x8000_0002, "my range");
    let at = |from: i64, to: i64| (begin + from, begin + to);
    for (start, correlation) in [(100, 1), (300, 2)] {
        let call = Record {
            kind: 5,
            name: 3,
            span: at(start - 50, start - 40),
            place: [0, 77, correlation, 0],
            ..Record::default()
        };
        let kernel = Record {
            kind: 2,
            name: 2,
            span: at(start, start + 100),
            place: [0, 7, correlation, 0],
            ..Record::default()
        };
        call.put(&mut file);
        kernel.put(&mut file);
    }
    let host =
        Record { kind: 3, abc: [1, 1, 3], span: at(410, 420), place: [0, 7, 3, 0], bytes: 64, ..Record::default() };
    host.put(&mut file);
    let peer = Record {
        kind: 3,
        abc: [10, 3, 3],
        span: at(430, 440),
        place: [0, 7, 4, 2 << 16 | 1],
        bytes: 8,
        ..Record::default()
    };
    peer.put(&mut file);
    Record { kind: 4, abc: [3, 0, 0], span: at(450, 455), place: [0, 7, 5, 0], bytes: 16, ..Record::default() }
        .put(&mut file);
    Record { kind: 6, abc: [3, 0, 0], span: at(460, 480), place: [0, 7, 6, 0], ..Record::default() }.put(&mut file);
    Record { kind: 8, name: 0x8000_0001, bytes: 1, ..Record::default() }.put(&mut file);
    let range =
        Record { kind: 7, name: 0x8000_0002, span: at(90, 490), place: [0, 77, 0, 0], bytes: 1, ..Record::default() };
    range.put(&mut file);
    text(&mut file, 1, 0x8000_0003, "ncclAllReduce");
    let (name, place) = (0x8000_0003, [0, 77, 0, 1]);
    Record { kind: 16, name, span: at(95, 105), place, bytes: 4096, ..Record::default() }.put(&mut file);
    Record { kind: 10, span: at(0, 500), ..Record::default() }.put(&mut file);
    Record { kind: 13, ..Record::default() }.put(&mut file);
    file
}

fn read(file: &Path) -> Trace {
    import(file, &Window::default(), &mut go_on).unwrap()
}

#[test]
fn what_tracers_and_ranks_left_becomes_one_events_file_on_one_clock() {
    let folder = tempfile::tempdir().unwrap();
    let begin = now_ns();
    let mut ranks = Recorder::append(&folder.path().join(EVENTS_FILE), 0, None).unwrap();
    ranks.range("step", 7, (begin, begin + 500)).unwrap();
    ranks.finish(7).unwrap();
    fs::write(folder.path().join("trace-11-0.cupti"), raw(11, 0, begin)).unwrap();
    fs::write(folder.path().join("trace-12-0.cupti"), raw(12, -1, begin + 1000)).unwrap();
    assert!(has_raw_files(folder.path()));
    gather(folder.path(), &[], &mut go_on).unwrap();
    assert!(!has_raw_files(folder.path()) && fs::read_dir(folder.path()).unwrap().count() == 1);
    let trace = read(&folder.path().join(EVENTS_FILE));
    assert_eq!((trace.begin_ns, trace.wall_ns), (begin, 1500));
    assert_eq!(trace.notes, ["calls that only query are not recorded: cudaGetDevice"], "once of both processes");
    assert_eq!(
        (trace.warnings.len(), trace.summary("trace.events", None).warnings.len()),
        (0, 0),
        "no run is marked for it"
    );
    assert!(left_out("a, b, c, d, e, f").ends_with(": a, b, c, d and 2 more"));
    let [gpu] = &trace.gpus[..] else { panic!("{:?}", trace.gpus) };
    assert_eq!((gpu.index, gpu.name.as_deref(), gpu.sm_count), (3, Some("NVIDIA H100"), Some(132)));
    let entry_of = |name: &str, entries: &[crate::trace::Entry]| {
        entries.iter().find(|entry| entry.name == name).map(|entry| (entry.statistics.calls, entry.statistics.total_ns))
    };
    assert_eq!(entry_of("void conv2d<(int)4>(float*)", &trace.kernels), Some((4, 400)));
    assert_eq!(entry_of("cudaLaunchKernel", &trace.api), Some((4, 40)));
    let copies: Vec<(&str, &str, u64, u64)> =
        trace.memcpy.iter().map(|copy| (&*copy.kind, &*copy.src, copy.count, copy.bytes)).collect();
    assert_eq!(copies, [("host_to_device", "pageable", 2, 128), ("peer_to_peer", "device", 2, 16)]);
    assert_eq!(trace.memset[0].bytes, 32);
    assert_eq!((trace.sync[0].kind.as_str(), trace.sync[0].statistics.total_ns), ("stream", 40));
    let ranges = trace.nvtx.iter().map(|range| (range.domain.as_deref(), range.name.as_str(), range.statistics.calls));
    let ranges: Vec<_> = ranges.filter(|range| ["my range", "ncclAllReduce", "step"].contains(&range.1)).collect();
    let expected = [(Some("my domain"), "my range", 2), (None, "step", 1), (Some("my domain"), "ncclAllReduce", 2)];
    assert_eq!(ranges, expected, "domains of processes are one by name, also of ranges with sizes");
    let metric = trace.metrics.iter().find(|metric| metric.key == "cuda_launch_kernel").unwrap();
    assert_eq!(metric.calls, 4);
    let timeline = Timeline::open(&folder.path().join(EVENTS_FILE), &mut go_on).unwrap();
    let names: Vec<&str> = timeline.rows().iter().map(|row| row.group.as_str()).collect();
    assert!(names.iter().any(|name| name.contains("rank 0")), "{names:?}");
    assert!(names.iter().any(|name| name.contains("process 12")), "{names:?}");
}

#[test]
fn what_limits_a_program_of_which_cupti_lost_records_comes_with_a_caveat() {
    for dropped in [0, 5] {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = raw(11, 0, 1000);
        bytes.truncate(bytes.len() - 48);
        Record { kind: 13, bytes: dropped, ..Record::default() }.put(&mut bytes);
        fs::write(folder.path().join("trace-11-0.cupti"), bytes).unwrap();
        gather(folder.path(), &[], &mut go_on).unwrap();
        let timeline = Timeline::open(&folder.path().join(EVENTS_FILE), &mut go_on).unwrap();
        let sentence = timeline.split(&mut go_on).unwrap().binding.sentence;
        assert_eq!(sentence.starts_with("Parts of the recording are missing. "), dropped > 0, "{sentence}");
        assert_eq!(timeline.warnings().iter().any(|warning| warning.contains("5 records of process 11")), dropped > 0);
    }
}

/// The notes on memory of a rank whose window begins this long after its first phase.
fn notes_on_memory(before_ns: i64) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let begin = now_ns();
    let mut ranks = Recorder::append(&folder.path().join(EVENTS_FILE), 0, None).unwrap();
    ranks.range("phase: start", 7, (begin - before_ns, begin)).unwrap();
    ranks.finish(7).unwrap();
    let mut bytes = raw(11, 0, begin);
    bytes.truncate(bytes.len() - 48);
    allocation(&mut bytes, [3, 1], (begin + 10, 4096), 9, 700);
    Record { kind: 13, ..Record::default() }.put(&mut bytes);
    fs::write(folder.path().join("trace-11-0.cupti"), bytes).unwrap();
    gather(folder.path(), &[], &mut go_on).unwrap();
    let notes = read(&folder.path().join(EVENTS_FILE)).notes;
    notes.into_iter().filter(|note| note.starts_with("memory that the program allocated")).collect()
}

#[test]
fn memory_of_a_recording_that_begins_late_is_said_to_be_what_was_seen() {
    let late = notes_on_memory(2_000_000_000);
    assert!(late.len() == 1 && late[0].ends_with("before the recording is not counted"), "{late:?}");
    assert_eq!(notes_on_memory(1_000), [""; 0], "nothing that matters was allocated before");
}

#[test]
fn gathering_again_after_an_interruption_counts_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace-11-0.cupti");
    fs::write(&file, raw(11, 0, 1000)).unwrap();
    gather(folder.path(), &[], &mut go_on).unwrap();
    // As if it had been interrupted before the raw file was removed.
    fs::write(&file, raw(11, 0, 1000)).unwrap();
    fs::write(folder.path().join("trace-12-0.cupti"), raw(12, 1, 2000)).unwrap();
    gather(folder.path(), &[], &mut go_on).unwrap();
    assert_eq!(read(&folder.path().join(EVENTS_FILE)).kernels[0].statistics.calls, 4);
}

#[test]
fn a_raw_file_that_was_cut_off_anywhere_gives_what_is_before_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace-11-0.cupti");
    let whole = raw(11, 0, 1000);
    let mut before = 0;
    for length in 4..whole.len() {
        fs::write(&file, &whole[..length]).unwrap();
        let trace = read(&file);
        let events = trace.kernels.iter().chain(&trace.api).map(|entry| entry.statistics.calls).sum::<u64>();
        assert!(events >= before, "{length}: {events} after {before}");
        assert!(trace.warnings.iter().any(|warning| warning.contains("is missing")), "{length}: {:?}", trace.warnings);
        before = events;
    }
    assert_eq!(before, 4);
    fs::write(&file, &whole).unwrap();
    assert_eq!(read(&file).warnings, [""; 0]);
}

#[test]
fn times_that_cannot_be_and_unknown_records_are_left_out_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace-11-0.cupti");
    let mut bytes = raw(11, 0, 1000);
    bytes.truncate(bytes.len() - 48);
    Record { kind: 2, name: 2, span: (50, 40), ..Record::default() }.put(&mut bytes);
    Record { kind: 2, name: 99, span: (40, 50), ..Record::default() }.put(&mut bytes);
    Record { kind: 200, ..Record::default() }.put(&mut bytes);
    fs::write(&file, &bytes).unwrap();
    let trace = read(&file);
    let message = trace.warnings.join("\n");
    assert!(
        message.contains("1 event with impossible times") && message.contains("its kind 200 is not known"),
        "{message}"
    );
    assert_eq!(trace.kernels.iter().map(|entry| entry.statistics.calls).sum::<u64>(), 3);
    assert!(message.contains("the report lacks 1 name;"), "{message}");
    bytes[4] = 9;
    fs::write(&file, &bytes).unwrap();
    let refused = import(&file, &Window::default(), &mut go_on).unwrap_err().to_string();
    assert!(refused.contains("version 9"), "{refused}");
}

#[test]
fn a_process_in_which_cuda_could_not_be_recorded_has_no_metrics_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = header(11, -1);
    text(&mut bytes, 11, 0, "there is no driver");
    Record { kind: 13, ..Record::default() }.put(&mut bytes);
    fs::write(folder.path().join("trace-11-0.cupti"), bytes).unwrap();
    gather(folder.path(), &[], &mut go_on).unwrap();
    let trace = read(&folder.path().join(EVENTS_FILE));
    assert_eq!(trace.metrics.len(), 0);
    assert_eq!(trace.warnings, ["CUDA calls and kernels are not recorded: there is no driver"]);
}

/// Memory of a kind (CUPTI's number: 2 pinned, 3 device) that is allocated (1) or released (2) on device 0.
fn allocation(file: &mut Vec<u8>, [kind, operation]: [u8; 2], (at, address): (i64, i64), correlation: u32, bytes: u64) {
    let (abc, place) = ([kind, operation, 0], [0, 0, correlation, 0]);
    Record { kind: 14, abc, span: (at, address), place, bytes, ..Record::default() }.put(file);
}

#[test]
fn what_was_allocated_is_summed_up_and_told_from_what_was_there_before() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = raw(11, 0, 1000);
    bytes.truncate(bytes.len() - 48);
    text(&mut bytes, 1, 4, "cudaMalloc_v3020");
    Record { kind: 5, name: 4, span: (1005, 1015), place: [0, 77, 9, 0], ..Record::default() }.put(&mut bytes);
    allocation(&mut bytes, [3, 1], (1010, 4096), 9, 700);
    allocation(&mut bytes, [3, 1], (1020, 8192), 10, 300);
    allocation(&mut bytes, [2, 1], (1030, 1 << 40), 11, 50);
    // Records of a process come as its buffers are filled, not in order of time.
    allocation(&mut bytes, [3, 2], (1100, 4096), 14, 700);
    allocation(&mut bytes, [3, 2], (1060, 77), 13, 9000);
    allocation(&mut bytes, [3, 1], (1200, 4096), 15, 5);
    Record { kind: 13, ..Record::default() }.put(&mut bytes);
    fs::write(folder.path().join("trace-11-0.cupti"), &bytes).unwrap();
    gather(folder.path(), &[], &mut go_on).unwrap();
    let file = folder.path().join(EVENTS_FILE);
    let trace = read(&file);
    assert_eq!(trace.warnings, [""; 0]);
    let [device, pinned] = &trace.allocations[..] else { panic!("{:?}", trace.allocations) };
    // The device of the process is the machine's fourth GPU.
    assert_eq!((device.memory.as_str(), device.gpu), ("device", Some(3)));
    assert_eq!((device.allocated, device.allocated_bytes, device.released, device.released_bytes), (3, 1005, 2, 9700));
    assert_eq!((device.unseen, device.unseen_bytes, device.most_bytes, device.last_bytes), (1, 9000, 1000, 305));
    assert_eq!(
        (pinned.memory.as_str(), pinned.gpu, pinned.allocated_bytes, pinned.most_bytes),
        ("pinned", None, 50, 50)
    );
    // What does not last is neither work of a GPU nor a time that is covered.
    assert_eq!((trace.gpus.len(), trace.begin_ns, trace.wall_ns), (1, 1000, 500));

    let timeline = Timeline::open(&file, &mut go_on).unwrap();
    let row = |name: &str| timeline.rows().iter().position(|row| row.name == name).unwrap();
    let (device, pinned) = (row("CUDA memory"), row("pinned memory"));
    let live = |row: usize| timeline.rows()[row].live().unwrap();
    let at = [1006, 1010, 1011, 1021, 1061, 1101, 1201, 1490].map(|at| live(device).at(at));
    let expected = [0, 0, 700, 1000, 1000, 300, 305, 305].map(|bytes| Some(f64::from(bytes)));
    assert_eq!((at, live(device).most(), live(pinned).most()), (expected, 1000.0, 50.0));
    let items = timeline.items(device, (1010, 1010)).unwrap();
    assert_eq!((timeline.name(items[0].label), items[0].bytes), ("device memory allocated", Some(700)));
    let call = timeline.launcher(device, &items[0]).unwrap().unwrap();
    assert_eq!(timeline.name(call.item.label), "cudaMalloc");
    let found = timeline.next(&timeline.matching("memory released"), 1070).unwrap().unwrap();
    assert_eq!((found.row, found.item.span.0), (device, 1100));
}

#[test]
fn sizes_and_operations_of_memory_that_cannot_be_are_left_out_and_what_is_not_recorded_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace-11-0.cupti");
    let mut bytes = raw(11, 0, 1000);
    bytes.truncate(bytes.len() - 48);
    for (operation, size) in [(1, 1 << 63), (1, u64::MAX), (0, 5), (7, 5), (1, 0), (2, 40)] {
        allocation(&mut bytes, [3, operation], (1010, 4096), 9, size);
    }
    text(&mut bytes, 15, 0, "what CUDA allocates is not recorded: why");
    Record { kind: 13, ..Record::default() }.put(&mut bytes);
    fs::write(&file, &bytes).unwrap();
    let trace = read(&file);
    let message = trace.warnings.join("\n");
    assert!(
        message.contains("4 events with impossible times or sizes are left out; of the first, it has 9223"),
        "{message}"
    );
    assert!(message.contains("what CUDA allocates is not recorded: why"), "{message}");
    let [device] = &trace.allocations[..] else { panic!("{:?}", trace.allocations) };
    // A size of nothing stays nothing: what is released is what was allocated there.
    assert_eq!((device.allocated, device.released, device.unseen, device.released_bytes), (1, 1, 0, 0));
    assert_eq!((device.most_bytes, device.last_bytes), (0, 0));
}

#[test]
fn raw_files_of_the_first_version_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace-11-0.cupti");
    let mut bytes = raw(11, 0, 1000);
    bytes[4] = 1;
    fs::write(&file, &bytes).unwrap();
    let trace = read(&file);
    assert_eq!((trace.kernels[0].statistics.calls, trace.warnings.len(), trace.allocations.len()), (2, 0, 0));
}

#[test]
fn a_program_that_marks_no_steps_has_those_that_its_lines_told_and_one_that_does_keeps_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let events = folder.path().join(EVENTS_FILE);
    let begin = now_ns();
    let epoch_s = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let of_clock = epoch_s - begin as f64 * 1e-9;
    let step_of = |from: i64, to: i64| ReportedStep {
        start_s: (begin + from) as f64 * 1e-9 + of_clock,
        end_s: (begin + to) as f64 * 1e-9 + of_clock,
    };
    let steps = [step_of(0, 1_000_000), step_of(900_000, 2_000_000), step_of(2_000_000, 2_000_000)];
    let mark = |is_marked: bool| {
        let mut ranks = Recorder::append(&events, 0, None).unwrap();
        ranks.range(if is_marked { "step 1" } else { "forward" }, 7, (begin, begin + 500)).unwrap();
        ranks.finish(7).unwrap();
        fs::write(folder.path().join("trace-11-0.cupti"), raw(11, 0, begin)).unwrap();
        gather(folder.path(), &steps, &mut go_on).unwrap();
        let timeline = Timeline::open(&events, &mut go_on).unwrap();
        let marks: Vec<i64> =
            timeline.marks(crate::trace::MarkKind::Step).map(|mark| mark.span.1 - mark.span.0).collect();
        let is_noted = timeline.warnings().iter().any(|note| note.contains("steps are the program's own"));
        fs::remove_file(&events).unwrap();
        (marks, is_noted, timeline.steps_by().unwrap().to_owned())
    };
    let (marks, is_noted, by) = mark(false);
    assert!(is_noted && marks.len() == 2 && by == "lines of the program's output", "{marks:?} by {by}");
    // The real clock in seconds resolves some hundred nanoseconds.
    assert!(marks.iter().all(|length| (length - 1_000_000).abs() < 2_000), "{marks:?}");
    assert_eq!(mark(true), (vec![500], false, "ranges that name them".to_owned()));
}

/// Three windows of a millisecond, ten milliseconds apart. In each, two kernels of 200 µs with a pause of 300 µs between them.
fn in_windows(process: i64, begin: i64, without_calls: bool) -> Vec<u8> {
    let mut file = header(process, 0);
    text(&mut file, 12, 0, if without_calls { "*" } else { "cudaGetDevice" });
    text(&mut file, 1, 2, "kernel");
    text(&mut file, 1, 3, "step");
    for window in 0..3 {
        let from = begin + window * 10_000_000;
        for (correlation, start) in [100_000, 600_000].into_iter().enumerate() {
            let (span, place) = ((from + start, from + start + 200_000), [0, 7, correlation as u32 + 1, 0]);
            Record { kind: 2, name: 2, span, place, ..Record::default() }.put(&mut file);
        }
        for (start, end) in [(50_000, 550_000), (550_000, 950_000)] {
            let span = (from + start, from + end);
            Record { kind: 7, name: 3, span, place: [0, 77, 0, 0], ..Record::default() }.put(&mut file);
        }
        Record { kind: 10, span: (from, from + 1_000_000), ..Record::default() }.put(&mut file);
    }
    Record { kind: 13, ..Record::default() }.put(&mut file);
    file
}

#[test]
fn what_lies_between_windows_is_neither_recorded_time_nor_idle_nor_part_of_a_step() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("trace-11-0.cupti"), in_windows(11, 1_000_000_000, false)).unwrap();
    gather(folder.path(), &[], &mut go_on).unwrap();
    let file = folder.path().join(EVENTS_FILE);
    let trace = read(&file);
    assert_eq!((trace.wall_ns, trace.span_ns, trace.steps), (3_000_000, Some(21_000_000), 6));
    let [gpu] = &trace.per_gpu[..] else { panic!("{:?}", trace.per_gpu) };
    assert_eq!((gpu.busy_ns, gpu.idle_ns), (1_200_000, 900_000));
    let gaps: Vec<_> = trace.gaps.iter().map(|gap| (gap.start_ns, gap.length_ns)).collect();
    assert_eq!(gaps, [0, 1, 2].map(|window| (window * 10_000_000 + 300_000, 300_000)));
    let note = "recorded in 3 windows: sums are of the 0.003 s in them, not of all 0.021 s";
    assert!(trace.notes.iter().any(|note_text| note_text.starts_with(note)), "{:?}", trace.notes);
    assert_eq!(trace.summary("f", None).span_s, Some(0.021));
    // A part of the recording: the second window and half of the third one.
    let part = Window { from_s: Some(0.005), to_s: Some(0.0205) };
    let trace = import(&file, &part, &mut go_on).unwrap();
    // As in any recording, a GPU is idle from its last work in the part to the part's end.
    assert_eq!((trace.wall_ns, trace.per_gpu[0].busy_ns, trace.per_gpu[0].idle_ns), (1_500_000, 600_000, 500_000));
    let timeline = Timeline::open(&file, &mut go_on).unwrap();
    assert!(timeline.warnings().iter().any(|note_text| note_text.starts_with(note)), "{:?}", timeline.warnings());
    let split = timeline.split(&mut go_on).unwrap();
    let spans: Vec<_> = split.steps.iter().map(|step| (step.span.1 - step.span.0, step.warm_up)).collect();
    // The first step of a window does not count. It begins with the window if there is an unrecorded time before.
    let expected = [(500_000, true), (550_000, true), (550_000, true)].map(|first| [first, (400_000, false)]);
    assert_eq!(spans, expected.concat());
    assert!(split.gaps.iter().all(|gap| gap.span.1 - gap.span.0 == 300_000) && split.gaps.len() == 3);
}

#[test]
fn a_recording_without_calls_has_no_metric_of_calls_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("trace-11-0.cupti"), in_windows(11, 1_000_000_000, true)).unwrap();
    gather(folder.path(), &[], &mut go_on).unwrap();
    let trace = read(&folder.path().join(EVENTS_FILE));
    let has = |key: &str| trace.metrics.iter().any(|metric| metric.key == key);
    assert!(has("nccl_all_reduce") && has("host_to_device") && !has("cuda_launch_kernel"), "{:?}", trace.metrics);
    assert!(trace.notes.iter().any(|note| note == NO_CALLS) && trace.warnings.is_empty(), "{:?}", trace.notes);
}

#[test]
fn ranks_without_a_gpu_tell_their_windows_themselves_and_ranges_around_them_are_whole() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(EVENTS_FILE);
    for rank in 0..2_i64 {
        let mut recorder = Recorder::append(&file, rank as u32, None).unwrap();
        for window in 0..4_i64 {
            let from = window * 1000 + rank;
            recorder.range("step", 7, (from + 10, from + 90)).unwrap();
            recorder.window((from, from + 100)).unwrap();
        }
        recorder.range("epoch 1", 7, (0, 9000)).unwrap();
        recorder.finish(7).unwrap();
    }
    let trace = read(&file);
    // A time is recorded if at least one rank recorded it.
    assert_eq!((trace.begin_ns, trace.wall_ns, trace.span_ns, trace.steps), (0, 4 * 101, Some(3101), 8));
}

#[test]
fn a_lane_passes_every_record_of_a_thread_on_in_order_and_takes_none_while_it_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("lane");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/trace/cupti");
    let compiler = env::var_os("CXX").unwrap_or_else(|| "c++".into());
    let mut compile = Command::new(&compiler);
    compile.args(["-std=c++17", "-O2", "-pthread", "-I"]).arg(&sources).arg(sources.join("tests/lane.cpp"));
    let Ok(compiled) = compile.arg("-o").arg(&program).output() else {
        eprintln!("skipped: there is no C++ compiler ({})", compiler.display());
        return;
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&program).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
}
