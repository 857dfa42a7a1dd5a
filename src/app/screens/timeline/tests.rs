//! Tests of the Timeline screen by accessible names: moving in a recording, and what is told of events, steps and memory.
#![allow(clippy::unwrap_used)]

use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::Path;

use eframe::egui::{Event, Modifiers, MouseWheelSource, MouseWheelUnit, TouchPhase, pos2, vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable;
use tempfile::TempDir;

use super::*;
use crate::app::dressed::dressed;
use crate::app::{Settings, Window as State};
use crate::trace::{Recorder, keep_for_timeline};

mod opening;
mod several;

fn go(_: crate::trace::Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// A cut-down real report.
fn golden(folder: &Path, name: &str) -> PathBuf {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/trace/{name}.sqlite.gz"));
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(std::fs::File::open(packed).unwrap()).read_to_end(&mut bytes).unwrap();
    let file = folder.join(format!("{name}.sqlite"));
    std::fs::write(&file, bytes).unwrap();
    file
}

/// A rank with these steps, each a wait for data and two parts.
fn ranges(folder: &Path, name: &str, steps: &[(i64, i64)]) -> PathBuf {
    let file = folder.join(name);
    let mut recorder = Recorder::append(&file, 0, None).unwrap();
    let mut now = 5_000_000;
    for (load, forward) in steps {
        recorder.range("load", 7, (now, now + load)).unwrap();
        let start = now + load;
        recorder.range("forward", 7, (start, start + forward)).unwrap();
        recorder.range("step", 7, (start, start + forward)).unwrap();
        now = start + forward;
    }
    recorder.finish(7).unwrap();
    file
}

/// A state that shows these events files.
fn state_of(files: &[(&str, PathBuf)], folder: &Path) -> State {
    let mut state = State::new(Settings::default());
    for (name, file) in files {
        let events = keep_for_timeline(file, Ok(folder.to_owned()), &mut go).unwrap();
        // As the window opens them, without its cache in the user's folders.
        send(&mut state, TimelineCommand::Open(events, (*name).to_owned()));
    }
    assert_eq!(state.own::<TimelineScreen>().runs.len(), files.len(), "{:?}", state.own::<TimelineScreen>().outcome);
    state
}

fn settle(state: &mut State) {
    let context = Context::default();
    loop {
        state.poll(&context);
        // What was read may ask for more.
        if !state.own::<TimelineScreen>().is_busy() {
            state.poll(&context);
            if !state.own::<TimelineScreen>().is_busy() {
                return;
            }
        }
        std::thread::yield_now();
    }
}

fn send(state: &mut State, command: TimelineCommand) {
    state.execute(Command::from(command), &Context::default());
    settle(state);
}

type Window = Harness<'static, (State, Vec<Command>)>;

fn harness(state: State) -> Window {
    let draw = |ui: &mut Ui, (state, commands): &mut (State, Vec<Command>)| {
        crate::app::keys::commands(ui.ctx(), state, commands);
        State::draw::<TimelineScreen>(ui, state, commands);
    };
    dressed(Harness::builder().with_size([1176.0, 740.0]), (state, Vec::new()), draw)
}

/// A window with one recording, and the folder in which it was written.
fn shown(write: impl FnOnce(&Path) -> PathBuf) -> (TempDir, Window) {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path());
    let harness = harness(state_of(&[("run", file)], folder.path()));
    (folder, harness)
}

/// Executes what was asked for, and draws.
fn answer(harness: &mut Window) {
    harness.run_steps(2);
    let context = harness.ctx.clone();
    let (state, commands) = harness.state_mut();
    for command in std::mem::take(commands) {
        state.execute(command, &context);
    }
    settle(state);
    harness.run_steps(2);
}

fn click(harness: &mut Window, name: &str) {
    harness.get_by_label(name).click();
    answer(harness);
}

fn press(harness: &mut Window, key: eframe::egui::Key) {
    harness.key_press(key);
    answer(harness);
}

fn now(harness: &Window) -> &TimelineScreen {
    harness.state().0.own()
}

fn length(view: (i64, i64)) -> i64 {
    view.1 - view.0
}

#[test]
fn escape_closes_the_list_that_is_open_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let file = ranges(folder.path(), "a.events", &[(1_000, 2_000), (1_000, 2_000)]);
    let mut state = state_of(&[("a", file)], folder.path());
    send(&mut state, TimelineCommand::Mark(Some(1_000)));
    let mut harness = harness(state);
    harness.get_by_label("Align runs at").click();
    harness.run_steps(3);
    assert!(eframe::egui::Popup::is_any_open(&harness.ctx));
    harness.key_press(eframe::egui::Key::Escape);
    harness.run_steps(3);
    assert!(!eframe::egui::Popup::is_any_open(&harness.ctx));
    assert!(harness.state().1.is_empty(), "the mark stays: {:?}", harness.state().1);
}

#[test]
fn the_legend_is_beside_the_tabs_or_below_them_in_windows_of_all_widths() {
    let (_folder, mut harness) = shown(|folder| golden(folder, "single_100"));
    for width in (700..2500).step_by(50) {
        harness.set_size(vec2(width as f32, 740.0));
        harness.run_steps(2);
        for class in ["convolution", "data movement"] {
            let shown: Vec<_> = harness.query_all_by_label(class).map(|label| label.rect()).collect();
            assert!(shown.iter().any(|label| label.left() > 0.0 && label.right() < width as f32), "{width}: {shown:?}");
        }
    }
}

#[test]
fn keys_and_wheel_zoom_and_move_the_view_and_f_shows_all_again() {
    let (_folder, mut harness) = shown(|folder| golden(folder, "single_100"));
    press(&mut harness, eframe::egui::Key::F);
    let whole = now(&harness).view;
    press(&mut harness, eframe::egui::Key::W);
    let closer = now(&harness).view;
    assert!((length(whole) as f64 / length(closer) as f64 - 1.5).abs() < 1e-3);
    press(&mut harness, eframe::egui::Key::D);
    assert!(now(&harness).view.0 > closer.0 && length(now(&harness).view) == length(closer));
    // The time under the pointer stays where it is.
    let at = pos2(700.0, 180.0);
    let under = |view: (i64, i64)| {
        view.0 as f64 + f64::from((at.x - 8.0 - 184.0) / (1160.0 - 184.0 - 12.0)) * length(view) as f64
    };
    let before = now(&harness).view;
    harness.hover_at(at);
    answer(&mut harness);
    let delta = vec2(0.0, 60.0);
    harness.event_modifiers(
        Event::MouseWheel {
            unit: MouseWheelUnit::Point,
            delta,
            phase: TouchPhase::Move,
            source: MouseWheelSource::Unknown,
            modifiers: Modifiers::COMMAND,
        },
        Modifiers::COMMAND,
    );
    for _ in 0..30 {
        answer(&mut harness);
    }
    let after = now(&harness).view;
    assert!(length(after) < length(before), "{before:?} {after:?}");
    assert!((under(after) - under(before)).abs() < length(after) as f64 * 0.02, "{} {}", under(before), under(after));
    press(&mut harness, eframe::egui::Key::S);
    let farther = now(&harness).view;
    assert!(length(farther) > length(after), "{after:?} {farther:?}");
    assert!((under(farther) - under(after)).abs() < length(after) as f64 * 0.02, "the key zooms about it, too");
    press(&mut harness, eframe::egui::Key::F);
    assert_eq!(now(&harness).view, whole);
}

#[test]
fn hovering_tells_name_time_bytes_and_what_launched_an_event() {
    let folder = tempfile::tempdir().unwrap();
    let file = golden(folder.path(), "single_100");
    let mut state = state_of(&[("single", file)], folder.path());
    // A copy from the host, wide enough to be hit.
    send(&mut state, TimelineCommand::Search("memcpy host".to_owned()));
    send(&mut state, TimelineCommand::Find);
    let pick = state.own::<TimelineScreen>().selected.unwrap();
    assert!(pick.event.item.bytes.is_some());
    let mut harness = harness(state);
    harness.run_steps(2);
    // The selected event lies in the middle ninth of the view; its row is found by its name.
    let picked_row = &now(&harness).runs[0].timeline.rows()[pick.event.row];
    let name = format!(
        "{}: {}, {} events",
        picked_row.group,
        picked_row.name,
        crate::figure::grouped(&picked_row.events.to_string())
    );
    let row = harness.get_by_label(&name).rect();
    let at = pos2(8.0 + 184.0 + (1160.0 - 184.0 - 12.0) / 2.0, row.center().y);
    harness.hover_at(at);
    answer(&mut harness);
    answer(&mut harness);
    let hovered = now(&harness).hovered.unwrap();
    assert_eq!(hovered.event.item, pick.event.item);
    let lines = canvas::about(now(&harness), &hovered).join("\n");
    for text in ["[CUDA memcpy Host-to-Device]", " µs long, starts at ", "B/s", "Launched by cudaMemcpyAsync"] {
        assert!(lines.contains(text), "{text}: {lines}");
    }
    assert!(harness.query_all_by_label_contains("Launched by cudaMemcpyAsync").next().is_some());
}

#[test]
fn search_goes_from_event_to_event_and_says_when_there_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let file = golden(folder.path(), "single_100");
    let mut state = state_of(&[("single", file)], folder.path());
    send(&mut state, TimelineCommand::Search("GEMM".to_owned()));
    let mut seen = Vec::new();
    for _ in 0..3 {
        send(&mut state, TimelineCommand::Find);
        let pick = state.own::<TimelineScreen>().selected.unwrap();
        let run = &state.own::<TimelineScreen>().runs[0];
        assert!(run.timeline.name(pick.event.item.label).to_lowercase().contains("gemm"));
        let (start, end) = (pick.event.item.span.0 - run.zero, pick.event.item.span.1 - run.zero);
        assert!(state.own::<TimelineScreen>().view.0 < start && end < state.own::<TimelineScreen>().view.1);
        seen.push(pick.event.item.span.0);
    }
    assert!(seen[0] < seen[1] && seen[1] < seen[2]);
    send(&mut state, TimelineCommand::Search("no such kernel".to_owned()));
    send(&mut state, TimelineCommand::Find);
    assert!(
        state
            .own::<TimelineScreen>()
            .outcome
            .as_ref()
            .unwrap()
            .0
            .contains("No event whose name contains \"no such kernel\"")
    );
}

#[test]
fn keys_alone_reach_rows_events_and_marks() {
    let (_folder, mut harness) = shown(|folder| ranges(folder, "a.events", &[(1_000, 9_000); 5]));
    use eframe::egui::Key;
    press(&mut harness, Key::ArrowDown);
    press(&mut harness, Key::ArrowRight);
    press(&mut harness, Key::M);
    press(&mut harness, Key::ArrowRight);
    press(&mut harness, Key::ArrowRight);
    press(&mut harness, Key::M);
    let state = now(&harness);
    let [Some(a), Some(b)] = state.marks else { panic!("{:?}", state.marks) };
    // From a wait for data to the next one: a step, and what is between.
    assert_eq!(b - a, 10_000);
    assert!(harness.query_by_label_contains("between marks 10.0 µs").is_some());
    press(&mut harness, Key::Enter);
    let state = now(&harness);
    assert!(length(state.view) < 100_000);
    press(&mut harness, Key::Escape);
    assert_eq!(now(&harness).marks, [None; 2]);
}

#[test]
fn the_view_is_written_as_a_figure_with_the_activity_of_each_gpu() {
    let folder = tempfile::tempdir().unwrap();
    let file = golden(folder.path(), "ddp2_100_pin");
    let mut state = state_of(&[("pinned", file)], folder.path());
    let chart = figure::chart(state.own::<TimelineScreen>());
    assert_eq!(chart.y.categories.len(), 2, "{:?}", chart.y.categories);
    let (from, to) = state.own::<TimelineScreen>().view;
    let points = || chart.series().flat_map(|series| &series.points);
    assert!(points().count() > 0);
    for point in points() {
        let interval = point.value.interval.unwrap();
        assert!(
            from as f64 / 1e9 <= interval.low
                && interval.low < interval.high
                && interval.high <= to as f64 / 1e9 + 1e-9
        );
    }
    // Both loaders of a pair are panels of one figure.
    let other = golden(folder.path(), "ddp2_100_nopin");
    let mut pair =
        state_of(&[("pinned", folder.path().join("ddp2_100_pin.sqlite")), ("pageable", other)], folder.path());
    send(&mut pair, TimelineCommand::Align(Anchor::Epoch(1)));
    let chart = figure::chart(pair.own());
    let titles: Vec<&str> = chart.panels.iter().map(|panel| panel.title.as_str()).collect();
    assert_eq!(titles, ["pinned", "pageable"]);
    assert!(chart.panels.iter().all(|panel| !panel.series.is_empty()));
    // What is folded is not in view.
    let group = pair.own::<TimelineScreen>().runs[1].timeline.rows()[0].group.clone();
    send(&mut pair, TimelineCommand::Fold(0, None));
    send(&mut pair, TimelineCommand::Fold(1, Some(group.clone())));
    let chart = figure::chart(pair.own());
    assert_eq!((chart.panels.len(), chart.y.categories.len()), (1, 1), "{:?}", chart.y.categories);
    assert!(chart.panels[0].title == "pageable" && chart.y.categories[0] != group);
    send(&mut state, TimelineCommand::Figure);
    let (message, good) = state.own::<TimelineScreen>().outcome.clone().unwrap();
    assert!(good && message.contains(".activity.pdf"), "{message}");
    let written = PathBuf::from(message.trim_start_matches("Wrote ").trim_end_matches('.'));
    assert!(std::fs::read(written).unwrap().starts_with(b"%PDF"));
}

#[test]
fn the_tables_take_the_room_that_the_rows_do_not_need() {
    let (_folder, mut harness) = shown(|folder| ranges(folder, "a.events", &[(1_000, 9_000); 5]));
    let tables = |harness: &Window| harness.get_by_label("Event").rect().top();
    let unfolded = tables(&harness);
    assert!(unfolded < 400.0, "{unfolded}");
    send(&mut harness.state_mut().0, TimelineCommand::Fold(0, None));
    harness.run_steps(2);
    assert!(tables(&harness) <= unfolded);
}

#[test]
fn the_legend_has_one_order_however_wide_the_window_is() {
    let (_folder, mut harness) = shown(|folder| golden(folder, "single_100"));
    for width in [1176.0, 2400.0] {
        harness.set_size(vec2(width, 740.0));
        harness.run_steps(3);
        let left = |name: &str| harness.get_by_label(name).rect().left();
        assert!(left("waiting for data") < left("data movement"), "{width}");
        assert!(left("data movement") < left("convolution"), "{width}");
    }
}

#[test]
fn a_message_does_not_move_the_rows() {
    let (_folder, mut harness) = shown(|folder| ranges(folder, "a.events", &[(1_000, 9_000); 5]));
    let top = |harness: &Window| harness.get_by_label_contains("Timeline from").rect().top();
    let before = top(&harness);
    let message = "No event has this name. ".repeat(20);
    harness.state_mut().0.own_mut::<TimelineScreen>().outcome = Some((message, false));
    harness.run_steps(2);
    assert!(harness.query_by_label_contains("No event has this name").is_some());
    assert_eq!(top(&harness), before);
}

#[test]
fn communication_and_the_critical_path_of_a_step_are_in_tables() {
    let (_folder, mut harness) = shown(|folder| golden(folder, "ddp2_100_pin"));
    click(&mut harness, "Communication");
    assert!(harness.query_all_by_label_contains("ncclDevKernel_").next().is_some());
    assert!(harness.query_by_label_contains("No size: this recording contains no sizes of collectives").is_some());
    press(&mut harness, eframe::egui::Key::F);
    let before = now(&harness).view;
    let name = harness.query_all_by_label_contains("Show the longest").next().unwrap();
    name.click();
    answer(&mut harness);
    assert!(length(now(&harness).view) < length(before));
    let (_folder, mut harness) = shown(|folder| ranges(folder, "a.events", &[(1_000, 9_000); 8]));
    click(&mut harness, "Critical path");
    answer(&mut harness);
    assert!(harness.query_by_label_contains("forward 90 %, waiting for data 10 %").is_some());
    click(&mut harness, "Show the stretch at 1.00 µs");
    // The stretch of 9 µs lies in the middle half of the view.
    assert!((17_000..19_000).contains(&length(now(&harness).view)), "{:?}", now(&harness).view);
}

#[test]
fn samples_beside_a_recording_are_rows_on_its_clock() {
    let folder = tempfile::tempdir().unwrap();
    let file = ranges(folder.path(), "a.events", &[(100_000_000, 900_000_000); 3]);
    let epoch_ns = Timeline::open(&file, &mut go).unwrap().epoch_ns().unwrap();
    let line = |at_ms: i64, power_w: f64| {
        let time_s = (epoch_ns + at_ms * 1_000_000) as f64 / 1e9;
        let gpu = format!("{{\"uuid\":\"GPU-0\",\"power_w\":{power_w},\"busy\":0.5,\"throttle_reasons\":[]}}");
        format!("{{\"time_s\":{time_s},\"host\":{{\"cpus\":4,\"cpus_busy\":1.5}},\"ranks\":[],\"gpus\":[{gpu}]}}\n")
    };
    let samples: String = (0..20).map(|n| line(5 + 100 * n, 300.0 + n as f64)).collect();
    std::fs::write(folder.path().join("samples.jsonl"), samples).unwrap();
    let state = state_of(&[("run", file)], folder.path());
    let counters = &state.own::<TimelineScreen>().runs[0].counters;
    let names: Vec<&str> = counters.iter().map(|counter| counter.name.as_str()).collect();
    assert_eq!(names, ["GPU 0 activity", "GPU 0 power", "CPUs busy"]);
    // The recording begins 5 ms after its clock's zero, as the first sample does.
    let first = counters[1].steps.points()[0].0;
    assert!((first - 5_000_000).abs() < 2_000_000, "{first}");
    let harness = harness(state);
    assert!(harness.query_by_label("GPU 0 power (319 W)").is_some());
}

/// What the built-in tracer left of a process that allocated 1 GB, then 2 GB, and released 1 GB, and of another one that it released but whose
/// allocation was before.
fn allocations(folder: &Path) -> PathBuf {
    let mut raw = b"\x93MCT\x02\0\0\0".to_vec();
    raw.extend([77_u64, 0, 0, 0, 0].map(u64::to_le_bytes).concat());
    let mut record = |abc: [u8; 4], name: u32, span: (i64, i64), correlation: u32, bytes: u64, text: &[u8]| {
        raw.extend(abc);
        raw.extend(name.to_le_bytes());
        raw.extend([span.0, span.1].map(i64::to_le_bytes).concat());
        raw.extend([0, 7, correlation, 0].map(u32::to_le_bytes).concat());
        raw.extend(bytes.to_le_bytes());
        raw.extend(text);
    };
    record([1, 0, 0, 0], 1, (0, 0), 0, 16, b"cudaMalloc_v3020");
    record([1, 0, 0, 0], 2, (0, 0), 0, 4, b"gemm");
    record([2, 0, 0, 0], 2, (1_000_000, 9_000_000), 3, 0, b"");
    for (at, correlation) in [(2_000_000, 11), (4_000_000, 12)] {
        record([5, 0, 0, 0], 1, (at - 50_000, at + 10_000), correlation, 0, b"");
    }
    let gb = 1_000_000_000;
    record([14, 3, 1, 0], 0, (2_000_000, 4096), 11, gb, b"");
    record([14, 3, 1, 0], 0, (4_000_000, 8192), 12, 2 * gb, b"");
    record([14, 3, 2, 0], 0, (6_000_000, 4096), 13, gb, b"");
    record([14, 3, 2, 0], 0, (7_000_000, 999), 14, 5 * gb, b"");
    record([14, 2, 1, 0], 0, (3_000_000, 1 << 40), 15, 64_000_000, b"");
    record([13, 0, 0, 0], 0, (0, 0), 0, 0, b"");
    std::fs::write(folder.join("trace-77-0.cupti"), raw).unwrap();
    crate::trace::gather(folder, &[], &mut go).unwrap();
    let sample = |at_ms: i64, used: u64| {
        let gpu = format!("{{\"uuid\":\"GPU-0\",\"memory_used_bytes\":{used},\"throttle_reasons\":[]}}");
        let time_s = at_ms as f64 / 1e3;
        format!("{{\"time_s\":{time_s},\"host\":{{\"cpus\":4}},\"ranks\":[],\"gpus\":[{gpu}]}}\n")
    };
    let samples: String = (0..10).map(|at| sample(at, (at as u64 + 1) * gb)).collect();
    std::fs::write(folder.join("samples.jsonl"), samples).unwrap();
    folder.join("trace.events")
}

#[test]
fn memory_that_cuda_allocated_is_a_row_of_steps_beside_that_of_nvml_and_each_step_tells_what_made_it() {
    let (_folder, mut harness) = shown(allocations);
    harness.run_steps(2);
    assert!(harness.query_by_label("GPU 0 NVML memory (10.0 GB)").is_some());
    let text = "of the memory allocated since the recording began, at most";
    let name = format!("rank 0 · GPU 0: CUDA memory, 4 events; {text} 3.00 GB was live");
    assert!(harness.query_by_label_contains(&format!("pinned memory, 1 event; {text} 64.0 MB was live")).is_some());
    let row = harness.get_by_label(&name).rect();
    // All of the row's height is the step's, which is more than that of events.
    let mut hover = |at_ns: i64| {
        let (state, run) = (now(&harness), &now(&harness).runs[0]);
        let share = (at_ns - run.zero - state.view.0) as f64 / length(state.view) as f64;
        let at = pos2(8.0 + 184.0 + (share * f64::from(1160.0 - 184.0 - 12.0_f32)) as f32, row.center().y + 10.0);
        harness.hover_at(at);
        answer(&mut harness);
        answer(&mut harness);
        now(&harness).hovered.map(|pick| canvas::about(now(&harness), &pick).join("\n"))
    };
    let lines = hover(4_000_000).unwrap();
    for text in [
        "device memory allocated\nat 3.00 ms, memory\n2.00 GB\nDone by cudaMalloc, 50.0 µs before",
        "Live afterwards: 3.00 GB of the memory",
    ] {
        assert!(lines.contains(text), "{text}: {lines}");
    }
    let lines = hover(7_000_000).unwrap();
    for text in [
        "device memory released",
        "5.00 GB",
        "Live afterwards: 2.00 GB of the memory",
        "Its allocation was not recorded",
    ] {
        assert!(lines.contains(text), "{text}: {lines}");
    }
    assert_eq!(hover(5_000_000), None);
    // Between steps the value is said where the pointer is, and keys go from step to step.
    harness.get_by_label(&name).click();
    answer(&mut harness);
    press(&mut harness, eframe::egui::Key::ArrowRight);
    press(&mut harness, eframe::egui::Key::ArrowRight);
    assert_eq!(now(&harness).selected.unwrap().event.item.bytes, Some(2_000_000_000));
}

#[test]
fn a_recording_is_divided_into_steps_by_the_selected_event_or_by_two_marks() {
    let folder = tempfile::tempdir().unwrap();
    let file = ranges(folder.path(), "a.events", &[(1_000, 2_000); 8]);
    let mut state = state_of(&[("a", file)], folder.path());
    let steps = |own: &TimelineScreen| {
        let [run] = &own.runs[..] else { panic!("{} runs", own.runs.len()) };
        let split = run.split.as_ref().unwrap().as_ref().unwrap();
        (run.timeline.steps_by().unwrap().to_owned(), split.steps.len(), split.steps[1].span.0 - run.timeline.span().0)
    };
    assert_eq!(steps(state.own()), ("ranges that name them".to_owned(), 8, 3_000));
    send(&mut state, TimelineCommand::Search("forward".to_owned()));
    send(&mut state, TimelineCommand::Find);
    let mut harness = harness(state);
    answer(&mut harness);
    let view = now(&harness).view;
    click(&mut harness, "Steps begin at this event");
    assert_eq!(steps(now(&harness)), ("asked for: the range forward, each".to_owned(), 8, 4_000));
    assert_eq!(now(&harness).view, view, "what is in view stays");
    send(&mut harness.state_mut().0, TimelineCommand::Mark(Some(0)));
    send(&mut harness.state_mut().0, TimelineCommand::Mark(Some(3_000)));
    harness.run_steps(2);
    click(&mut harness, "Marks are a step");
    let by = "marked by hand: each beginning of the range load".to_owned();
    assert_eq!(steps(now(&harness)), (by.clone(), 7, 3_000));
    assert!(now(&harness).runs[0].timeline.warnings().contains(&format!("steps: {by}")));
}
