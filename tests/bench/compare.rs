//! How long the window's thread needs for the Compare screen with 500 and with 10,000 runs: to take them over, to act on a change of
//! form, and to draw; and how long a thread beside it compares them. It fails where a form of 64 cells takes longer to draw than a
//! window that follows the pointer has time for, and where a form draws nothing, which would measure nothing.

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use eframe::egui::{Context, RawInput, Rect, vec2};
use multicard::app::{
    Command, CompareCommand, CompareScreen, Records, ScreenName, Settings, UiEvent, Window as State, shell_ui,
};
use multicard::figure::{Form, Study};
use multicard::{analysis, plan, protocol};

mod many_runs;

const FRAMES: usize = 60;
/// The most that a frame of 64 cells may take on the window's thread, and how much more for each point where each run has a point.
const MOST_MS: f64 = 2.0;
const MOST_OF_POINT_MS: f64 = 0.001;
/// The cells of the scatter, and the most that its frame may take.
const CELLS: u32 = 10_000;
const MOST_SCATTER_MS: f64 = 5.0;

fn main() {
    let slow: Vec<String> = [8, 160].into_iter().flat_map(compare).collect();
    let scatter_ms = scatter();
    assert!(slow.is_empty(), "frames that take too long: {}", slow.join(", "));
    assert!(scatter_ms <= MOST_SCATTER_MS, "{CELLS} points take {scatter_ms:.2} ms a frame, over {MOST_SCATTER_MS} ms");
}

/// A run in each of many cells, which differ in their batch size and precision.
fn many_cells() -> Vec<analysis::RunSummary> {
    let kinds = many_runs::many_runs(1);
    let cell = |batch_size: u32| {
        let mut run = kinds[batch_size as usize % kinds.len()].clone();
        let levels = run.levels.iter().map(|(key, level)| match &**key {
            "batch_size" => (key.clone(), i64::from(batch_size).into()),
            _ => (key.clone(), level.clone()),
        });
        run.levels = analysis::Levels::new(levels.collect::<Vec<_>>());
        run.cell = format!("cell {batch_size}");
        run.run = format!("{batch_size:05}-a-1");
        run.values.values_mut().for_each(|value| *value *= 1.0 + f64::from(batch_size) / f64::from(CELLS));
        (run.losses, run.epochs, run.trace) = (Vec::new(), Vec::new(), None);
        run
    };
    (1..=CELLS).map(cell).collect()
}

/// The time of a frame of many points, one for each cell: their steps over their memory.
fn scatter() -> f64 {
    let runs = many_cells();
    let context = Context::default();
    multicard::app::install_theme(&context);
    let mut state = State::new(Settings::default());
    let folder = PathBuf::from("cells");
    state.take(UiEvent::Session { folder: folder.clone(), read_only: None });
    state.take(UiEvent::Records(Arc::new(Records { folder, summaries: runs.into(), ..Records::default() })));
    state.execute(Command::Show(ScreenName::COMPARE), &context);
    let study = Study {
        form: Form::Scatter,
        measure: Some("step_time_s".into()),
        across: Some("peak_allocated_bytes".into()),
        ..Study::default()
    };
    let (compared_ms, _) = timed_ms(|| {
        state.execute(Command::from(CompareCommand::Study(Box::new(study))), &context);
        loop {
            state.poll(&context);
            if !state.screen::<CompareScreen>().expect("the screen that is measured").is_updating() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    assert!(state.screen::<CompareScreen>().is_some_and(|compare| !compare.is_blank()), "no points are drawn");
    let mut times_ms: Vec<f64> = (0..FRAMES).map(|_| frame_ms(&context, &state)).skip(10).collect();
    times_ms.sort_by(f64::total_cmp);
    let median_ms = times_ms[times_ms.len() / 2];
    let most_ms = times_ms[times_ms.len() - 1];
    println!(
        "Scatter of {CELLS} cells drawn in {median_ms:.2} ms, {most_ms:.2} at most; compared in {compared_ms:.0} ms"
    );
    median_ms
}

/// All forms over 64 cells with so many repeats. Gives those that took too long.
fn compare(repeats: u32) -> Vec<String> {
    let runs = many_runs::many_runs(repeats);
    let count = runs.len();
    println!("{count} runs");
    let context = Context::default();
    multicard::app::install_theme(&context);
    let mut state = State::new(Settings::default());
    let folder = PathBuf::from("study");
    state.take(UiEvent::Session { folder: folder.clone(), read_only: None });
    let records = UiEvent::Records(Arc::new(Records { folder, summaries: runs.into(), ..Records::default() }));
    let (taken_ms, _) = timed_ms(|| state.take(records));
    let (shown_ms, _) = timed_ms(|| state.execute(Command::Show(ScreenName::COMPARE), &context));
    println!("taken over in {taken_ms:.2} ms, screen changed in {shown_ms:.2} ms");
    let mut slow = Vec::new();
    for &form in Form::ALL {
        let start = Instant::now();
        let command = Command::from(CompareCommand::Form(form));
        let (mut longest_ms, _) = timed_ms(|| state.execute(command, &context));
        loop {
            let (polled_ms, _) = timed_ms(|| state.poll(&context));
            longest_ms = longest_ms.max(polled_ms);
            if !state.screen::<CompareScreen>().expect("the screen that is measured").is_updating() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let is_blank = state.screen::<CompareScreen>().is_none_or(CompareScreen::is_blank);
        assert!(!is_blank, "{} draws nothing of these runs", form.name());
        let compared_ms = start.elapsed().as_secs_f64() * 1e3;
        let mut times_ms: Vec<f64> = (0..FRAMES).map(|_| frame_ms(&context, &state)).skip(10).collect();
        times_ms.sort_by(f64::total_cmp);
        println!(
            "{:12} drawn in {:.2} ms (median of {} frames), {:.2} at most; window's thread else {longest_ms:.2} at most; \
             compared in {compared_ms:.0} ms",
            form.name(),
            times_ms[times_ms.len() / 2],
            times_ms.len(),
            times_ms[times_ms.len() - 1],
        );
        let points = if form == Form::Repeats { count as f64 } else { 0.0 };
        if times_ms[times_ms.len() / 2] > MOST_MS + MOST_OF_POINT_MS * points {
            slow.push(format!("{} of {repeats} repeats", form.name()));
        }
    }
    slow
}

fn timed_ms<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let done = work();
    (start.elapsed().as_secs_f64() * 1e3, done)
}

/// The time of our own drawing, egui's of laying it out, and the time to make triangles of it; painting these is the graphics driver's.
fn frame_ms(context: &Context, state: &State) -> f64 {
    let input = RawInput {
        screen_rect: Some(Rect::from_min_size(Default::default(), vec2(1280.0, 800.0))),
        ..RawInput::default()
    };
    let mut commands = Vec::new();
    let start = Instant::now();
    let mut output = context.run_ui(input, |ui| shell_ui(ui, state, &mut commands));
    output.textures_delta.clear();
    let triangles = context.tessellate(output.shapes, output.pixels_per_point);
    let time_ms = start.elapsed().as_secs_f64() * 1e3;
    black_box(triangles);
    time_ms
}
