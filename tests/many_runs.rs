//! What the window's thread has to do for sessions of ten thousand runs, counted in allocations, which no other load on the machine
//! changes.
#![cfg(feature = "window")]
#![allow(clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;

use eframe::egui::{Context, RawInput, Rect, vec2};
use multicard::app::{Command, Records, ScreenName, Settings, UiEvent, Window as State, shell_ui};
use multicard::plan::{Key, Level, Levels};
use multicard::store::{Reader, RunRecord};

mod seeded;

/// Counts what a thread asks of the system's allocator.
struct Counting;

thread_local! {
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that ends has no counter any more.
    let _ = ASKED.try_with(|asked| asked.set(asked.get() + 1));
}

#[expect(unsafe_code, reason = "an allocator is unsafe; it passes everything on")]
// SAFETY: the system's allocator does the work, with the same arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count();
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
        unsafe { System.realloc(memory, layout, bytes) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Allocations and releases of this thread while `work` runs.
fn asked(work: impl FnOnce()) -> u64 {
    let before = ASKED.get();
    work();
    ASKED.get() - before
}

/// The records of a session of so many finished runs, 25 cells a repeat.
fn records(count: usize) -> UiEvent {
    let session = seeded::session();
    let runs = Reader::open(session.path()).unwrap().runs().unwrap();
    let seed = runs.last().unwrap();
    let run = |at: usize| {
        let (cell, repeat) = (at % 25, at / 25 + 1);
        let level = |(key, level): (&Key, &Level)| {
            let batch_size = *key == "batch_size";
            (key.clone(), if batch_size { Level::Integer(cell as i64 + 4) } else { level.clone() })
        };
        let levels = Levels::new(seed.levels.iter().map(level).collect());
        RunRecord { run: format!("{at:05}-cell-{repeat}"), repeat: repeat as u32, levels, ..seed.clone() }
    };
    let runs: Vec<RunRecord> = (0..count).map(run).collect();
    let summaries = runs.iter().map(multicard::analysis::summarise_run).collect();
    let records = Records { folder: PathBuf::from("study"), runs: runs.into(), summaries, ..Records::default() };
    UiEvent::Records(Arc::new(records.folded()))
}

#[test]
fn taking_over_ten_thousand_runs_and_listing_them_needs_no_work_by_the_run() {
    let needed = |count: usize| {
        let mut state = State::new(Settings::default());
        state.take(UiEvent::Session { folder: PathBuf::from("study"), read_only: None });
        let (first, second) = (records(count), records(count));
        let first = asked(|| state.take(first));
        // The earlier ones are freed elsewhere.
        let second = asked(|| state.take(second));
        let context = Context::default();
        multicard::app::install_theme(&context);
        state.execute(Command::Show(ScreenName::LIVE), &context);
        let draw = || {
            let screen_rect = Some(Rect::from_min_size(Default::default(), vec2(1280.0, 800.0)));
            let input = RawInput { screen_rect, ..RawInput::default() };
            let mut output = context.run_ui(input, |ui| shell_ui(ui, &state, &mut Vec::new()));
            output.textures_delta.clear();
        };
        // Fonts and layouts are kept from the first frames on.
        (0..3).for_each(|_| draw());
        (first, second, asked(draw))
    };
    let (few, many) = (needed(100), needed(10_000));
    for (few, many) in [(few.0, many.0), (few.1, many.1), (few.2, many.2)] {
        // Lists grow by doubling; nothing is made for each run.
        assert!(many < few + 500, "100 runs: {few} allocations, 10,000 runs: {many}");
    }
}
