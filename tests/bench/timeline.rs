//! What the Timeline screen costs with millions of events: converting them once, opening them, and drawing a frame.
//!
//! `MULTICARD_TIMELINE_EVENTS=N` (default 5 million) says how many events there are, in 8 ranks with nested ranges; and as
//! many allocations and releases of memory, in a tracer's raw file.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use eframe::egui::{Context, Pos2, RawInput, Rect, vec2};
use multicard::app::{Command, Screen as _, Settings, TimelineCommand, TimelineScreen, Window as State};
use multicard::trace::{Recorder, Timeline, keep_events};

const RANKS: u32 = 8;
const TIMES: usize = 40;
/// Ranges within a step.
const PARTS: i64 = 20;

fn main() {
    let events = std::env::var("MULTICARD_TIMELINE_EVENTS").map_or(5_000_000, |text| text.parse().expect("a number"));
    measure("ranges", events, record);
    measure("allocations and releases", events, record_memory);
}

fn measure(what: &str, events: i64, record: impl Fn(&Path, i64)) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (recorded, kept) = (folder.path().join("recorded"), folder.path().join("kept.events"));
    record(&recorded, events);
    let begun = Instant::now();
    keep_events(&recorded, &kept, &mut |_| ControlFlow::Continue(())).expect("room for the events");
    println!("{events} {what}: kept with tiles in {:.0} ms (once)", ms(begun));
    let mb = |file: &Path| std::fs::metadata(file).map_or(0.0, |about| about.len() as f64 / 1e6);
    println!("  {:.1} MB as recorded, {:.1} MB as kept", mb(&recorded), mb(&kept));
    drop(std::fs::remove_file(&recorded));
    let before = resident_mb();
    let begun = Instant::now();
    let timeline = Timeline::open(&kept, &mut |_| ControlFlow::Continue(())).expect("events");
    println!("  opened in {:.0} ms, {:.0} MB more than before", ms(begun), resident_mb() - before);
    drop(black_box(timeline));

    let (mut state, context) = (State::new(Settings::default()), Context::default());
    let open = TimelineCommand::Open(kept, "events".to_owned());
    state.execute(Command::from(open), &context);
    settle(&mut state, &context);
    println!("  drawing in 2560 × 1440, one frame:");
    let (from, to) = state.screen::<TimelineScreen>().expect("the screen that is measured").view;
    for (name, part) in [("all", 1.0), ("a tenth", 0.1), ("a hundredth", 1e-2), ("a ten-thousandth", 1e-4)] {
        let half = ((to - from) as f64 * part / 2.0) as i64;
        let middle = from + (to - from) / 2;
        let view = TimelineCommand::View(middle - half, middle + half);
        state.execute(Command::from(view), &context);
        settle(&mut state, &context);
        frames(&state, &context, name);
    }
}

/// A raw file of a tracer (its format: src/trace/cupti/raw.rs): blocks of memory on one GPU, each released 64 allocations later.
fn record_memory(file: &Path, events: i64) {
    const ALLOCATION: u8 = 14;
    const ON_DEVICE: u8 = 3;
    const LIVE: i64 = 64;
    let mut file = BufWriter::new(File::create(file).expect("a writable folder"));
    let mut put =
        |parts: &[&[u8]]| parts.iter().try_for_each(|part| file.write_all(part)).expect("room for the events");
    put(&[b"\x93MCT\x02\0\0\0", &1_i64.to_le_bytes(), &(-1_i32).to_le_bytes(), &[0; 28]]);
    for event in 0..events {
        // Each allocation is followed by the release of the one that was made 64 before it.
        let (block, operation) = if event % 2 == 0 { (event / 2, 1_u8) } else { (event / 2 - LIVE, 2_u8) };
        let (time, address, bytes) = (1000 + event * 1000, (block.max(0) + 1) << 21, (block.max(0) % 32 + 1) << 16);
        put(&[
            &[ALLOCATION, ON_DEVICE, operation, 0, 0, 0, 0, 0],
            &time.to_le_bytes(),
            &address.to_le_bytes(),
            &[0; 16],
            &bytes.to_le_bytes(),
        ]);
    }
}

/// Steps of ranks with the parts that a worker records.
fn record(file: &Path, events: i64) {
    let names: Vec<String> = (0..PARTS).map(|part| format!("layer {part}")).collect();
    let steps = events / i64::from(RANKS) / (PARTS + 4);
    for rank in 0..RANKS {
        let mut recorder = Recorder::append(file, rank, None).expect("a writable folder");
        for step in 0..steps {
            let start = step * 1_000_000;
            let noise = step.wrapping_mul(2_654_435_761).wrapping_add(i64::from(rank) * 97) % 1000;
            let mut range = |name: &str, from: i64, to: i64| {
                recorder.range(name, 1, (start + from, start + to)).expect("room for the events");
            };
            range("load", 0, 50_000 + noise * 10);
            range("step", 60_000, 990_000);
            range("forward", 61_000, 400_000);
            range("backward", 401_000, 900_000 - noise);
            for (part, name) in (0..).zip(&names) {
                range(name, 401_000 + part * 20_000, 401_000 + part * 20_000 + 15_000 + noise);
            }
        }
        recorder.finish(1).expect("room for the events");
    }
}

fn settle(state: &mut State, context: &Context) {
    // The screen reads what it shows only while it is the one.
    loop {
        state.poll(context);
        if !state.screen::<TimelineScreen>().expect("the screen that is measured").is_busy() {
            break;
        }
        std::thread::yield_now();
    }
}

fn frames(state: &State, context: &Context, name: &str) {
    let input =
        || RawInput { screen_rect: Some(Rect::from_min_size(Pos2::ZERO, vec2(2560.0, 1440.0))), ..RawInput::default() };
    let (mut own_ms, mut last) = (Vec::new(), None);
    for _ in 0..TIMES {
        let mut commands = Vec::new();
        let mut output = context.run_ui(input(), |ui| {
            let start = Instant::now();
            state.screen::<TimelineScreen>().expect("the screen that is measured").ui(&state.desk, ui, &mut commands);
            own_ms.push(ms(start));
        });
        output.textures_delta.clear();
        // As the window does, so that frames reuse their memory.
        last = Some(output);
    }
    let output = last.expect("frames were drawn");
    let begun = Instant::now();
    black_box(context.tessellate(output.shapes, output.pixels_per_point));
    let tessellated = ms(begun);
    own_ms.sort_by(f64::total_cmp);
    let (median, most) = (own_ms[TIMES / 2], own_ms[own_ms.len() - 1]);
    println!(
        "    {name}: the screen's code {median:.2} ms (median of {TIMES}; most {most:.2}); tessellating {tessellated:.2} ms"
    );
}

/// Memory of this process in RAM.
fn resident_mb() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0.0);
    pages * rustix::param::page_size() as f64 / 1e6
}

fn ms(start: Instant) -> f64 {
    1e3 * start.elapsed().as_secs_f64()
}
