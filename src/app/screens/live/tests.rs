//! Tests of the Live screen: its curves, its axes, and how much is drawn and kept.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::sync::Arc;

use eframe::egui::Context;
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable;

use super::*;
use crate::analysis::fixture;
use crate::app::curves::{Curves, Kind, LiveStep, XAxis};
use crate::app::engine::UiEvent;
use crate::app::{LiveBatch, Records, RunCurves, Settings, Window as State};
use crate::conduct::{QueueRow, QueueView};
use crate::plan::RunState;
use crate::protocol::{GpuSample, HostSample, Sample};
use crate::store::{RunRecord, StepRecord};

mod chosen;

const RUN: &str = "fp32-2-ddp-ds-r1";

fn step(rank: u32, step: u64) -> LiveStep {
    let record = StepRecord {
        step,
        time_s: 1_002.0 + step as f64,
        epoch: if step <= 10 { 1 } else { 2 },
        duration_s: 0.5 * f64::from(rank + 1),
        load_wait_s: 0.0,
        loss: 1.0 / step as f64 + f64::from(rank),
        units: 64,
        warm_up: step <= 3,
        traced: false,
    };
    LiveStep { rank, step: record }
}

fn sample(time_s: f64, gpus: &[(u64, f64)]) -> Sample {
    let gpu = |(index, (memory, temperature_c)): (usize, &(u64, f64))| GpuSample {
        uuid: format!("GPU-{index}"),
        memory_used_bytes: Some(*memory),
        temperature_c: Some(*temperature_c),
        ..GpuSample::default()
    };
    let host = HostSample { cpus_busy: Some(1.5), memory_used_bytes: Some(2_000_000_000), ..HostSample::default() };
    Sample { time_s, host, gpus: gpus.iter().enumerate().map(gpu).collect(), ..Sample::default() }
}

/// A session with one finished run and nothing running.
fn state() -> State {
    state_of(vec![fixture::finished()])
}

/// A session with these runs.
fn state_of(runs: Vec<RunRecord>) -> State {
    let folder = PathBuf::from("/session");
    let mut state = State::new(Settings::default());
    state.take(UiEvent::Session { folder: folder.clone(), read_only: None });
    let records = Records { folder, runs: runs.into(), ..Records::default() }.folded();
    state.take(UiEvent::Records(Arc::new(records)));
    state
}

fn batch(steps: Vec<LiveStep>, samples: Vec<Sample>) -> UiEvent {
    UiEvent::Live(LiveBatch { run: RUN.to_owned(), steps, samples, ..LiveBatch::default() })
}

/// A queue in which this run is half done.
fn running(run: &str) -> UiEvent {
    let row = QueueRow { step: 10, steps: 20, epoch: 1, ..QueueRow::in_state(run, RunState::Running) };
    UiEvent::Queue(Arc::new(QueueView { rows: vec![row], ..QueueView::default() }))
}

fn running_state() -> State {
    let mut state = state();
    state.take(running(RUN));
    state
}

/// The curves that were read of a run of the session.
fn read(run: &str, curves: Curves) -> UiEvent {
    UiEvent::Curves(Box::new(RunCurves { folder: PathBuf::from("/session"), run: run.to_owned(), curves }))
}

fn execute(state: &mut State, command: LiveCommand) -> Vec<Request> {
    let context = Context::default();
    state.execute(Command::from(command), &context);
    state.poll(&context);
    state.desk.take_requests()
}

fn scene_of(state: &State) -> Scene<'_> {
    Scene::new(View { own: state.own(), desk: &state.desk })
}

/// The screen; commands are executed after each frame.
struct Shown {
    state: State,
    requests: Vec<Request>,
    shown: Vec<ScreenName>,
}

fn screen(state: State) -> Harness<'static, Shown> {
    let draw = |ui: &mut Ui, screen: &mut Shown| {
        let mut commands = Vec::new();
        State::draw::<LiveScreen>(ui, &screen.state, &mut commands);
        for command in commands {
            if let Command::Show(shown) = command {
                screen.shown.push(shown);
            }
            screen.state.execute(command, ui.ctx());
            screen.requests.extend(screen.state.desk.take_requests());
        }
        screen.state.poll(&ui.ctx().clone());
        screen.requests.extend(screen.state.desk.take_requests());
    };
    let screen = Shown { state, requests: Vec::new(), shown: Vec::new() };
    Harness::builder().with_max_steps(24).with_size([1200.0, 800.0]).build_ui_state(
        move |ui, screen| {
            crate::app::theme::install(ui.ctx());
            draw(ui, screen);
        },
        screen,
    )
}

#[test]
fn an_empty_screen_leads_to_the_plan() {
    let mut screen = screen(State::new(Settings::default()));
    screen.get_by_label_contains("losses, step times and telemetry of its runs appear here");
    screen.get_by_label("Show Plan").click();
    screen.run();
    assert_eq!(screen.state().shown, [ScreenName::PLAN]);
}

#[test]
fn smoothing_is_labelled_and_keeps_the_raw_curve() {
    let mut state = running_state();
    state.take(batch((1..=50).map(|n| step(0, n)).collect(), vec![]));
    let mut screen = screen(state);
    assert!(screen.query_by_label_contains("smoothed").is_none());
    execute(&mut screen.state_mut().state, LiveCommand::Smoothing(0.9));
    screen.run();
    let labels = screen.query_all_by_label("smoothed 0.90, raw curve behind").count();
    assert_eq!(labels, 2, "loss and step time");
    let scene = scene_of(&screen.state().state);
    let panels = scene.panels();
    let loss = &panels[0].1[0];
    let newest = |smooth| loss.pieces(&Context::default(), &scene, 1000, smooth)[0].last().unwrap()[1];
    assert_eq!(newest(false), 1.0 / 50.0);
    assert!(newest(true) > 1.0 / 45.0, "it lags behind: {}", newest(true));
}

#[test]
fn long_curves_are_smoothed_in_the_background() {
    let mut state = running_state();
    state.take(batch((1..=60_000).map(|n| step(0, n)).collect(), vec![]));
    let context = Context::default();
    state.execute(Command::from(LiveCommand::Smoothing(0.5)), &context);
    state.poll(&context);
    assert!(!state.own::<LiveScreen>().is_settled(), "60,000 steps are not smoothed while a frame waits");
    // What arrives meanwhile is smoothed too.
    state.take(batch(vec![step(0, 60_001)], vec![]));
    while !state.own::<LiveScreen>().is_settled() {
        std::thread::yield_now();
        state.poll(&context);
    }
    let steps = state.own::<LiveScreen>().shelf.curves(RUN).unwrap().steps().unwrap();
    let lengths = steps.columns.iter().map(|column| column.smooth.as_ref().unwrap().values.values().len());
    assert_eq!(lengths.collect::<Vec<_>>(), [60_001, 60_001]);
}

#[test]
fn plots_that_go_on_below_the_edge_of_the_smallest_window_have_a_scroll_bar() {
    let mut state = running_state();
    let samples = [1_002.0, 1_003.0].map(|time_s| sample(time_s, &[(3_000_000_000, 60.0)]));
    state.take(batch((1..=50).map(|n| step(0, n)).collect(), samples.into()));
    let mut screen = screen(state);
    // What is left beside the rail of a window of 1000 × 700.
    screen.set_size([872.0, 640.0].into());
    screen.run_steps(3);
    let bars = crate::app::theme::painted_bars(&screen.output().shapes);
    assert!(bars.iter().any(|bar| bar.height() > 40.0), "{bars:?}");
}

/// The newest value of a panel's curves.
fn newest(state: &State, kind: Kind) -> Vec<f64> {
    let scene = scene_of(state);
    let panels = scene.panels();
    let (_, curves) = panels.iter().find(|(shown, _)| *shown == kind).unwrap();
    curves.iter().map(|curve| curve.at(&scene, None).map_or(f64::NAN, |[_, y]| y)).collect()
}

#[test]
fn gpus_and_ranks_are_drawn_together_or_separately() {
    let mut state = running_state();
    let both = [(3_000_000_000, 60.0), (4_000_000_000, 70.0)];
    let steps = (1..=3).flat_map(|n| [step(0, n), step(1, n)]).chain([step(0, 4)]).collect();
    state.take(batch(steps, vec![sample(1_002.0, &both)]));
    assert_eq!(newest(&state, Kind::Memory), [7e9]);
    assert_eq!(newest(&state, Kind::Temperature), [70.0], "the hottest");
    assert_eq!(newest(&state, Kind::StepTime), [1.0], "the slowest rank");
    assert_eq!(newest(&state, Kind::Loss), [1.0 / 3.0 + 0.5], "of the last step that both ranks did");
    execute(&mut state, LiveCommand::PerGpu(true));
    assert_eq!(newest(&state, Kind::Memory), [3e9, 4e9]);
    assert_eq!(newest(&state, Kind::StepTime), [0.5, 1.0]);
    // A missing value makes the sum unknown, not smaller.
    state.take(batch(vec![], vec![sample(1_003.0, &both[..1])]));
    execute(&mut state, LiveCommand::PerGpu(false));
    assert!(newest(&state, Kind::Memory)[0].is_nan());
}

#[test]
fn a_curve_with_only_warm_up_steps_in_view_is_within_the_axis() {
    let mut state = running_state();
    let slow = |n| {
        let mut slow = step(1, n);
        slow.step.duration_s = 30.0;
        slow
    };
    // Rank 0 is past the warm-up of three steps; rank 1, whose steps are much longer, is not.
    let steps = (1..=9).map(|n| step(0, n)).chain((1..=3).map(slow)).collect();
    state.take(batch(steps, vec![]));
    execute(&mut state, LiveCommand::PerGpu(true));
    let scene = scene_of(&state);
    let panels = scene.panels();
    let (kind, curves) = panels.iter().find(|(kind, _)| *kind == Kind::StepTime).unwrap();
    assert_eq!(curves.len(), 2);
    let axis = scene::YAxis::new(*kind, curves, &scene);
    assert_eq!((axis.steady, axis.is_cut), (Some(30.0), false));
}

#[test]
fn the_newest_values_of_a_run_that_has_ended_are_those_from_while_its_steps_ran() {
    let mut state = running_state();
    let samples = vec![sample(1_004.0, &[(3_000_000_000, 60.0)]), sample(1_007.0, &[(0, 40.0)])];
    // Its last step ends at 1,005 s; the last sample was taken after it had freed its memory.
    state.take(batch((1..=3).map(|n| step(0, n)).collect(), samples));
    assert_eq!(newest(&state, Kind::Memory), [0.0], "while it is active, the newest value is the newest");
    state.take(UiEvent::Queue(Arc::new(QueueView::default())));
    assert_eq!((newest(&state, Kind::Memory), newest(&state, Kind::Temperature)), (vec![3e9], vec![60.0]));
    let unsampled = vec![sample(1_007.0, &[(0, 40.0)])];
    let mut state = running_state();
    state.take(batch((1..=3).map(|n| step(0, n)).collect(), unsampled));
    state.take(UiEvent::Queue(Arc::new(QueueView::default())));
    assert!(newest(&state, Kind::Memory)[0].is_nan(), "nothing was sampled while it ran");
}

#[test]
fn a_rank_that_comes_late_is_joined_from_the_beginning() {
    let steps: Vec<LiveStep> = (1..=5).map(|n| step(0, n)).collect();
    let mut curves = Curves::build(steps, []);
    curves.append((1..=4).map(|n| step(1, n)), []);
    let joined = curves.steps().unwrap();
    assert_eq!(*joined.steps, [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(joined.value(0, 3), 0.25 + 0.5);
    assert_eq!(curves.epochs, []);
    assert_eq!(curves.warm_up.unwrap()[1].1, 3);
}

#[test]
fn a_restarted_run_starts_new_curves() {
    let mut curves = Curves::build((1..=5).map(|n| step(0, n)), []);
    let mut again = step(0, 1);
    curves.append([again], []);
    assert_eq!(curves.steps().unwrap().steps.len(), 5, "a repeated line");
    again.step.time_s += 100.0;
    curves.append([again], []);
    assert_eq!(*curves.steps().unwrap().steps, [1.0]);
}

#[test]
fn a_hole_in_the_samples_is_a_gap() {
    let mut state = running_state();
    let mut samples: Vec<Sample> = (0..20).map(|n| sample(1_000.0 + 0.1 * f64::from(n), &[(1, 1.0)])).collect();
    for n in 0..20 {
        let mut late = sample(1_010.0 + 0.1 * f64::from(n), &[(1, 1.0)]);
        late.hole_s = (n == 0).then_some(8.1);
        samples.push(late);
    }
    state.take(batch(vec![], samples));
    let scene = scene_of(&state);
    let panels = scene.panels();
    let (_, curves) = panels.iter().find(|(kind, _)| *kind == Kind::Memory).unwrap();
    let pieces = curves[0].pieces(&Context::default(), &scene, 1000, false);
    assert_eq!(pieces.len(), 2);
    assert!(pieces[0].last().unwrap()[0] < 2.0 && pieces[1][0][0] >= 9.9);
    assert_eq!(curves[0].at(&scene, Some(6.5)), None, "nothing is known in the hole");
}

#[test]
fn a_million_steps_are_drawn_with_few_points() {
    let mut state = running_state();
    state.take(batch((1..=1_000_000).map(|n| step(0, n)).collect(), vec![]));
    let scene = scene_of(&state);
    let panels = scene.panels();
    for (_, curves) in panels.iter().filter(|(_, curves)| !curves.is_empty()) {
        let points: usize = curves[0].pieces(&Context::default(), &scene, 1000, false).iter().map(Vec::len).sum();
        assert!((500..=4 * 1002).contains(&points), "{points}");
    }
}

#[test]
fn steps_that_a_run_withdraws_leave_its_curves_and_samples_stay() {
    let mut state = running_state();
    state.take(batch((1..=9).map(|n| step(0, n)).collect(), vec![sample(1_000.0, &[(1, 1.0)])]));
    let steps = vec![step(0, 4), step(0, 5)];
    let anew = LiveBatch { run: RUN.to_owned(), steps, withdraws_steps: true, ..LiveBatch::default() };
    state.take(UiEvent::Live(anew));
    execute(&mut state, LiveCommand::XAxis(XAxis::Step));
    let (first, last) = scene_of(&state).all;
    assert!((first - 4.0).abs() < 0.6 && (last - 5.0).abs() < 0.6, "{first} to {last}");
    execute(&mut state, LiveCommand::XAxis(XAxis::Clock));
    assert!((scene_of(&state).all.0 - 1_000.0).abs() < 0.6, "{:?}", scene_of(&state).all);
}

#[test]
fn the_logarithm_of_a_loss_that_has_none_is_a_gap() {
    let mut state = running_state();
    let mut steps: Vec<LiveStep> = (1..=9).map(|n| step(0, n)).collect();
    steps[4].step.loss = 0.0;
    steps[6].step.loss = f64::NAN;
    state.take(batch(steps, vec![]));
    execute(&mut state, LiveCommand::LogLoss(true));
    let mut screen = screen(state);
    screen.run();
    screen.get_by_label("logarithmic");
}

#[test]
fn time_runs_from_each_runs_own_start_or_by_the_clock_or_by_steps() {
    let mut state = running_state();
    state.take(batch((1..=9).map(|n| step(0, n)).collect(), vec![sample(1_000.0, &[(1, 1.0)])]));
    let ends = |state: &State| scene_of(state).all;
    let close = |(a, b): (f64, f64), (c, d): (f64, f64)| (a - c).abs() < 0.6 && (b - d).abs() < 0.6;
    assert!(close(ends(&state), (0.0, 11.0)), "{:?}", ends(&state));
    execute(&mut state, LiveCommand::XAxis(XAxis::Clock));
    assert!(close(ends(&state), (1_000.0, 1_011.0)), "{:?}", ends(&state));
    execute(&mut state, LiveCommand::XAxis(XAxis::Step));
    assert!(close(ends(&state), (1.0, 9.0)), "{:?}", ends(&state));
    let screen = screen(state);
    screen.get_by_label_contains(
        "GPU memory, Power, GPU busy, Temperature, Host CPUs busy, Host memory: recorded by time",
    );
}

#[test]
fn a_zoomed_view_follows_the_newest_values_until_it_is_moved() {
    let mut state = running_state();
    state.take(batch((1..=9).map(|n| step(0, n)).collect(), vec![]));
    execute(&mut state, LiveCommand::View(0.0, 2.0));
    let view = |state: &State| scene_of(state).view;
    let before = view(&state);
    assert!((before.1 - before.0 - 2.0).abs() < 1e-9 && before.1 > 8.0, "{before:?}");
    state.take(batch(vec![step(0, 20)], vec![]));
    assert!((view(&state).1 - before.1 - 11.0).abs() < 1e-9);
    execute(&mut state, LiveCommand::Follow(false));
    assert_eq!(view(&state), (0.0, 2.0));
    execute(&mut state, LiveCommand::View(f64::NAN, 2.0));
    execute(&mut state, LiveCommand::View(2.0, 2.0));
    assert_eq!(view(&state), (0.0, 2.0), "an invalid range is ignored");
    execute(&mut state, LiveCommand::Reset);
    assert_eq!(view(&state), scene_of(&state).all);
}

#[test]
fn no_frame_is_asked_for_when_nothing_changed() {
    let mut state = running_state();
    state.take(batch((1..=50).map(|n| step(0, n)).collect(), vec![sample(1_002.0, &[(1, 1.0)])]));
    execute(&mut state, LiveCommand::Smoothing(0.5));
    let context = Context::default();
    crate::app::theme::install(&context);
    let mut last = None;
    for _ in 0..5 {
        let mut commands = Vec::new();
        let mut output = context.run_ui(Default::default(), |ui| State::draw::<LiveScreen>(ui, &state, &mut commands));
        output.textures_delta.clear();
        state.poll(&context);
        assert_eq!(commands, []);
        last = output.viewport_output.values().next().map(|viewport| viewport.repaint_delay);
    }
    assert_eq!(last, Some(std::time::Duration::MAX));
}

#[test]
fn in_a_small_window_nothing_of_the_smoothing_is_cut_off() {
    let mut screen = screen(state());
    screen.set_size([872.0, 640.0].into());
    screen.run();
    let list = screen.get_by_label("Runs").rect().left();
    let parts: Vec<_> = screen.query_all_by_label("Smoothing").map(|part| part.rect()).collect();
    assert!(parts.len() >= 2, "the slider and its number: {parts:?}");
    assert!(parts.iter().all(|part| part.left() >= 0.0 && part.right() <= list), "{parts:?}, and the list at {list}");
}

#[test]
fn steps_closer_than_a_pixel_are_lines_and_no_areas() {
    use eframe::egui::Shape;
    let mut state = running_state();
    state.take(batch((1..=2000).map(|n| step(0, n)).collect(), vec![sample(1_002.0, &[])]));
    let mut screen = screen(state);
    screen.run_steps(3);
    let is_area = |shape: &Shape| matches!(shape, Shape::Band(_));
    assert!(!screen.output().shapes.iter().any(|clipped| is_area(&clipped.shape)));
    let is_long = |shape: &Shape| matches!(shape, Shape::Path(path) if path.points.len() > 200);
    assert!(screen.output().shapes.iter().any(|clipped| is_long(&clipped.shape)), "the curve is drawn");
}
