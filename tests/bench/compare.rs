//! How long the window's thread needs to draw the Compare screen with 500 runs, and a thread beside it to compare them.

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use eframe::egui::{Context, RawInput, Rect, vec2};
use multicard::app::{Command, CompareCommand, Records, Screen, Settings, State, UiEvent, shell_ui};
use multicard::figure::Form;
use multicard::{analysis, plan};

mod many_runs;

const FRAMES: usize = 60;

fn main() {
    let runs = many_runs::many_runs(8);
    println!("{} runs", runs.len());
    let context = Context::default();
    multicard::app::install_theme(&context);
    let mut state = State::new(Settings::default());
    let folder = PathBuf::from("study");
    state.take(UiEvent::Session { folder: folder.clone(), read_only: None });
    state.take(UiEvent::Records(Arc::new(Records { folder, summaries: runs, ..Records::default() })));
    let mut requests = Vec::new();
    state.execute(Command::Show(Screen::Compare), &context, &mut requests);
    for form in Form::ALL {
        let start = Instant::now();
        state.execute(Command::Compare(CompareCommand::Form(form)), &context, &mut requests);
        state.poll(&context, &mut requests);
        while state.is_comparing() {
            std::thread::sleep(Duration::from_millis(1));
            state.poll(&context, &mut requests);
        }
        let compared_ms = start.elapsed().as_secs_f64() * 1e3;
        let mut times_ms: Vec<f64> = (0..FRAMES).map(|_| frame_ms(&context, &state)).skip(10).collect();
        times_ms.sort_by(f64::total_cmp);
        println!(
            "{:8} drawn in {:.2} ms (median of {} frames), {:.2} at most; compared in {compared_ms:.0} ms",
            form.name(),
            times_ms[times_ms.len() / 2],
            times_ms.len(),
            times_ms[times_ms.len() - 1],
        );
    }
}

/// The time of our own drawing, and egui's of laying it out; painting the triangles is the graphics driver's.
fn frame_ms(context: &Context, state: &State) -> f64 {
    let input = RawInput {
        screen_rect: Some(Rect::from_min_size(Default::default(), vec2(1280.0, 800.0))),
        ..RawInput::default()
    };
    let mut commands = Vec::new();
    let start = Instant::now();
    let mut output = context.run_ui(input, |ui| shell_ui(ui, state, &mut commands));
    let time_ms = start.elapsed().as_secs_f64() * 1e3;
    output.textures_delta.clear();
    black_box(output.shapes);
    time_ms
}
