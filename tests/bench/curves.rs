//! What the Live screen costs with 8 runs of 1 million steps: making their curves ready (on a background thread in the
//! window), and drawing one frame (on the window's own).

use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

use eframe::egui::{Context, Pos2, RawInput, Rect, vec2};
use multicard::analysis::{Places, Pyramid, View};
use multicard::app::{
    Command, Curves, LiveCommand, LiveScreen, LiveStep, RunCurves, Screen as _, Settings, UiEvent, Window as State,
};
use multicard::store::StepRecord;

const RUNS: u64 = 8;
const STEPS: u64 = 1_000_000;
const TIMES: usize = 40;
/// A plot is so many pixels wide on a large screen.
const COLUMNS: usize = 2000;

fn main() {
    let start = Instant::now();
    let curves: Vec<Curves> = (0..RUNS).map(|run| Curves::build((1..=STEPS).map(|n| step(run, n)), [])).collect();
    println!("making the curves of 8 × 1 M steps ready: {:.0} ms", ms(start));

    let values: Vec<f64> = (1..=STEPS).map(|n| step(0, n).step.loss).collect();
    let xs: Places = (1..=STEPS).map(|n| n as f64 * 0.01).collect();
    let start = Instant::now();
    let pyramids: Vec<Pyramid> = (0..RUNS).map(|_| values.iter().copied().collect()).collect();
    println!("of that, building 8 pyramids of 1 M values: {:.0} ms", ms(start));
    for (name, from, to) in [("all", 0.0, 1e4), ("a tenth", 3e3, 4e3), ("a thousandth", 5e3, 5.01e3)] {
        let times = many(|| {
            for pyramid in &pyramids {
                black_box(pyramid.pieces(&xs, View { from, to, columns: COLUMNS }));
            }
        });
        println!("points of 8 curves of 1 M for {COLUMNS} columns, {name} in view: {times}");
    }

    let (mut state, context) = (State::new(Settings::default()), Context::default());
    let folder = PathBuf::from("/bench");
    state.take(UiEvent::Session { folder: folder.clone(), read_only: None });
    for (run, curves) in curves.into_iter().enumerate() {
        let run = format!("run {run}");
        state.execute(Command::from(LiveCommand::Choose(run.clone(), true)), &context);
        state.poll(&context);
        state.take(UiEvent::Curves(Box::new(RunCurves { folder: folder.clone(), run, curves })));
    }
    println!("drawing loss and step time of 8 runs of 1 M steps in 2560 × 1440, one frame:");
    frames(&mut state, &context, "plain");
    state.execute(Command::from(LiveCommand::View(3e3, 4e3)), &context);
    frames(&mut state, &context, "a tenth in view");
    state.execute(Command::from(LiveCommand::Reset), &context);
    state.execute(Command::from(LiveCommand::Smoothing(0.9)), &context);
    let start = Instant::now();
    let mut frames_meanwhile = 0;
    while !state.screen::<LiveScreen>().expect("the screen that is measured").is_settled() {
        state.poll(&context);
        std::thread::yield_now();
        frames_meanwhile += 1;
    }
    println!("  smoothing all of them in the background: {:.0} ms, {frames_meanwhile} polls meanwhile", ms(start));
    frames(&mut state, &context, "smoothed, raw behind");
}

fn frames(state: &mut State, context: &Context, name: &str) {
    let input =
        || RawInput { screen_rect: Some(Rect::from_min_size(Pos2::ZERO, vec2(2560.0, 1440.0))), ..RawInput::default() };
    let mut own_ms = Vec::new();
    let mut outputs = Vec::new();
    for _ in 0..TIMES {
        let mut commands = Vec::new();
        let mut output = context.run_ui(input(), |ui| {
            let start = Instant::now();
            state.screen::<LiveScreen>().expect("the screen that is measured").ui(&state.desk, ui, &mut commands);
            own_ms.push(ms(start));
        });
        output.textures_delta.clear();
        outputs.push(output);
    }
    let output = outputs.pop().expect("frames were drawn");
    let (shapes, pixels) = (output.shapes, output.pixels_per_point);
    let tessellated = many(|| {
        black_box(context.tessellate(shapes.clone(), pixels));
    });
    println!("  {name}: the screen's code with egui_plot {}; tessellating {tessellated}", median(own_ms));
}

fn step(run: u64, number: u64) -> LiveStep {
    // Noise that needs no generator.
    let noise = (number.wrapping_mul(2_654_435_761).wrapping_add(run * 97) % 1000) as f64 / 1000.0;
    let step = StepRecord {
        step: number,
        time_s: 1e9 + number as f64 * 0.01,
        epoch: 1 + (number / 250_000) as u32,
        duration_s: 0.01 + 0.002 * noise,
        load_wait_s: 0.0,
        loss: 2.0 / (1.0 + number as f64 * 1e-5) + 0.3 * noise + 0.05 * run as f64,
        units: 64,
        warm_up: number < 1000,
        traced: false,
    };
    LiveStep { rank: 0, step }
}

fn ms(start: Instant) -> f64 {
    1e3 * start.elapsed().as_secs_f64()
}

fn many(mut work: impl FnMut()) -> String {
    let time = |_| {
        let start = Instant::now();
        work();
        ms(start)
    };
    median((0..TIMES).map(time).collect())
}

fn median(mut times_ms: Vec<f64>) -> String {
    times_ms.sort_by(f64::total_cmp);
    format!("{:.2} ms (median of {TIMES}; most {:.2})", times_ms[times_ms.len() / 2], times_ms[times_ms.len() - 1])
}
