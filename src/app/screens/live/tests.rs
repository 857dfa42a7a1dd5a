#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::sync::Arc;

use eframe::egui::Context;
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable;

use super::*;
use crate::analysis::fixture;
use crate::app::Settings;
use crate::app::curves::{Curves, Kind, LiveStep, XAxis};
use crate::app::engine::UiEvent;
use crate::app::{LiveBatch, Records, RunCurves, Window as State};
use crate::conduct::{QueueRow, QueueView};
use crate::plan::RunState;
use crate::protocol::{Environment, GpuSample, HostSample, IMPORTED_FROM, Sample};
use crate::store::{RunRecord, StepRecord};

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
    let folder = PathBuf::from("/session");
    let mut state = State::new(Settings::default());
    state.take(UiEvent::Session { folder: folder.clone(), read_only: None });
    let records = Records { folder, runs: vec![fixture::finished()].into(), ..Records::default() }.folded();
    state.take(UiEvent::Records(Arc::new(records)));
    state
}

fn batch(steps: Vec<LiveStep>, samples: Vec<Sample>) -> UiEvent {
    UiEvent::Live(LiveBatch { run: RUN.to_owned(), steps, samples })
}

fn running(state: &mut State) {
    let row = QueueRow {
        run: RUN.to_owned(),
        state: RunState::Running,
        step: 10,
        steps: 20,
        epoch: 1,
        loss: None,
        waits: None,
    };
    state.take(UiEvent::Queue(Arc::new(QueueView { rows: vec![row], ..QueueView::default() })));
}

fn execute(state: &mut State, command: LiveCommand) -> Vec<Request> {
    let (context, mut requests) = (Context::default(), Vec::new());
    state.execute(Command::from(command), &context);
    requests.extend(state.desk.take_requests());
    state.poll(&context);
    requests.extend(state.desk.take_requests());
    requests
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
fn choosing_a_finished_run_asks_for_its_curves_and_draws_them() {
    let mut screen = screen(state());
    screen.get_by_label("Tick runs in the list to see their curves, or launch a plan.");
    screen.get_by_label(&format!("Draw run {RUN}")).click();
    screen.run();
    let folder = PathBuf::from("/session");
    assert_eq!(screen.state().requests, [Request::Curves(folder.clone(), RUN.to_owned())]);
    screen.get_by_label("Reading the recorded curves …");
    let curves = Curves::build((1..=20).map(|n| step(0, n)), [sample(1_003.0, &[])]);
    screen.state_mut().state.take(UiEvent::Curves(Box::new(RunCurves { folder, run: RUN.to_owned(), curves })));
    screen.run();
    screen.get_by_label("Loss over time");
    screen.get_by_label("Step time over time");
    assert!(screen.query_by_label("GPU memory over time").is_none(), "empty panels are not drawn");
    screen.get_by_label_contains("GPU memory, Power, GPU busy, Temperature: these runs use no GPU");
    screen.get_by_label("0.0500");
    // The second time the curves are there already.
    execute(&mut screen.state_mut().state, LiveCommand::Choose(RUN.to_owned(), false));
    assert_eq!(execute(&mut screen.state_mut().state, LiveCommand::Choose(RUN.to_owned(), true)), []);
}

#[test]
fn ticked_runs_without_curves_say_so_once_they_were_read() {
    let imported = |is_imported: bool| {
        let mut environment = Environment::default();
        environment.set(IMPORTED_FROM, is_imported.then_some("other.csv (CSV)"));
        let run = RunRecord { environment: Some(Arc::new(environment)), ..fixture::finished() };
        let mut state = state();
        let folder = PathBuf::from("/session");
        let records = Records { folder: folder.clone(), runs: vec![run].into(), ..Records::default() }.folded();
        state.take(UiEvent::Records(Arc::new(records)));
        execute(&mut state, LiveCommand::Choose(RUN.to_owned(), true));
        let curves = Curves::default();
        state.take(UiEvent::Curves(Box::new(RunCurves { folder, run: RUN.to_owned(), curves })));
        state
    };
    for (is_imported, text) in [
        (true, "Imported runs have no curves. The Compare screen shows their results."),
        (false, "The ticked runs have no curves: no step and no sample of them was recorded."),
    ] {
        let screen = screen(imported(is_imported));
        screen.get_by_label(text);
        assert!(screen.query_by_label("Reading the recorded curves …").is_none(), "nothing is read any more");
    }
}

#[test]
fn a_session_that_is_opened_again_keeps_what_is_drawn_and_reads_it_anew() {
    let mut state = state();
    execute(&mut state, LiveCommand::Choose(RUN.to_owned(), true));
    let folder = PathBuf::from("/session");
    let read = |steps: u64| {
        let curves = Curves::build((1..=steps).map(|n| step(0, n)), []);
        UiEvent::Curves(Box::new(RunCurves { folder: PathBuf::from("/session"), run: RUN.to_owned(), curves }))
    };
    let steps =
        |state: &State| state.own::<LiveScreen>().shelf.curves(RUN).map(|curves| curves.steps().unwrap().steps.len());
    state.take(read(5));
    let live = state.own_mut::<LiveScreen>();
    (live.filter, live.view) = ("fp32".to_owned(), Some((1.0, 2.0)));
    state.take(UiEvent::Session { folder: folder.clone(), read_only: Some("its conductor has ended".to_owned()) });
    assert_eq!((&*state.own::<LiveScreen>().filter, state.own::<LiveScreen>().view), ("fp32", Some((1.0, 2.0))));
    assert_eq!(
        (state.own::<LiveScreen>().shelf.chosen().count(), steps(&state)),
        (1, Some(5)),
        "no moment without curves"
    );
    let (context, mut requests) = (Context::default(), Vec::new());
    state.poll(&context);
    requests.extend(state.desk.take_requests());
    assert_eq!(requests, [Request::Curves(folder, RUN.to_owned())], "steps may have been missed");
    state.take(read(9));
    assert_eq!(steps(&state), Some(9));
    state.take(UiEvent::Session { folder: "/other".into(), read_only: None });
    assert_eq!(
        (
            state.own::<LiveScreen>().shelf.chosen().count(),
            &*state.own::<LiveScreen>().filter,
            state.own::<LiveScreen>().view
        ),
        (0, "", None)
    );
}

#[test]
fn the_latest_finished_runs_are_shown_beside_one_that_starts_until_they_are_unticked() {
    let mut idle = state();
    idle.desk.screen = ScreenName::LIVE;
    let mut requests = Vec::new();
    idle.poll(&Context::default());
    requests.extend(idle.desk.take_requests());
    assert_eq!(requests, [Request::Curves(PathBuf::from("/session"), RUN.to_owned())]);
    let drawn =
        |state: &State| state.own::<LiveScreen>().shelf.chosen().map(|chosen| chosen.run.clone()).collect::<Vec<_>>();
    assert_eq!(drawn(&idle), [RUN]);
    let started = LiveBatch { run: "0002-new".to_owned(), steps: vec![step(0, 1)], samples: Vec::new() };
    idle.take(UiEvent::Live(started));
    assert_eq!(drawn(&idle), [RUN, "0002-new"]);
    // The same is drawn where the window is opened while the run goes on.
    let mut later = state();
    later.take(UiEvent::Live(LiveBatch { run: "0002-new".to_owned(), steps: vec![step(0, 1)], samples: Vec::new() }));
    later.desk.screen = ScreenName::LIVE;
    later.poll(&Context::default());
    let looks = |state: &State| {
        let mut looks: Vec<(String, usize)> =
            state.own::<LiveScreen>().shelf.chosen().map(|chosen| (chosen.run.clone(), chosen.slot)).collect();
        looks.sort();
        looks
    };
    assert_eq!(looks(&later), looks(&idle));
    let mut hidden = state();
    hidden.desk.screen = ScreenName::LIVE;
    execute(&mut hidden, LiveCommand::FocusFilter);
    assert_eq!(drawn(&hidden), [RUN]);
    execute(&mut hidden, LiveCommand::Choose(RUN.to_owned(), false));
    assert_eq!(drawn(&hidden), [""; 0], "what was unticked does not come back");
}

#[test]
fn curves_of_another_session_are_not_taken() {
    let mut state = state();
    execute(&mut state, LiveCommand::Choose(RUN.to_owned(), true));
    let curves = Curves::build([step(0, 1)], []);
    let run = RUN.to_owned();
    state.take(UiEvent::Curves(Box::new(RunCurves { folder: "/other".into(), run, curves })));
    assert!(state.own::<LiveScreen>().shelf.curves(RUN).is_none());
}

#[test]
fn a_running_run_is_drawn_automatically() {
    let mut state = state();
    running(&mut state);
    state.take(batch((1..=5).map(|n| step(0, n)).collect(), vec![sample(1_002.0, &[(5_000_000_000, 60.0)])]));
    let mut screen = screen(state);
    screen.get_by_label("GPU memory over time");
    screen.get_by_label("0.200");
    screen.get_by_label_contains("● 50 %");
    screen.state_mut().state.take(batch(vec![step(0, 8)], vec![]));
    screen.run();
    screen.get_by_label("0.125");
    // A hidden run stays hidden.
    screen.get_by_label(&format!("Draw run {RUN}")).click();
    screen.run();
    screen.state_mut().state.take(batch(vec![step(0, 9)], vec![]));
    screen.run();
    screen.get_by_label("No run is ticked");
}

#[test]
fn a_reattached_run_is_read_from_its_beginning() {
    // Samples may come before the first step that is seen.
    for samples in [vec![], vec![sample(1_012.5, &[])]] {
        is_read_from_its_beginning(samples);
    }
}

fn is_read_from_its_beginning(samples: Vec<Sample>) {
    let mut state = state();
    running(&mut state);
    let (context, mut requests) = (Context::default(), Vec::new());
    if !samples.is_empty() {
        state.take(batch(vec![], samples));
        state.poll(&context);
        requests.extend(state.desk.take_requests());
    }
    state.take(batch(vec![step(0, 11)], vec![]));
    state.poll(&context);
    requests.extend(state.desk.take_requests());
    let folder = PathBuf::from("/session");
    assert_eq!(requests, [Request::Curves(folder.clone(), RUN.to_owned())]);
    state.take(batch(vec![step(0, 12)], vec![]));
    let curves = Curves::build((1..=11).map(|n| step(0, n)), []);
    state.take(UiEvent::Curves(Box::new(RunCurves { folder, run: RUN.to_owned(), curves })));
    let steps = &state.own::<LiveScreen>().shelf.curves(RUN).unwrap().steps().unwrap().steps;
    assert_eq!(**steps, (1..=12).map(f64::from).collect::<Vec<_>>(), "each once");
}

#[test]
fn smoothing_is_labelled_and_keeps_the_raw_curve() {
    let mut state = state();
    running(&mut state);
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
    let mut state = state();
    running(&mut state);
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

/// The newest value of a panel's curves.
fn newest(state: &State, kind: Kind) -> Vec<f64> {
    let scene = scene_of(state);
    let panels = scene.panels();
    let (_, curves) = panels.iter().find(|(of, _)| *of == kind).unwrap();
    curves.iter().map(|curve| curve.at(&scene, None).map_or(f64::NAN, |[_, y]| y)).collect()
}

#[test]
fn gpus_and_ranks_are_drawn_together_or_separately() {
    let mut state = state();
    running(&mut state);
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
fn the_newest_values_of_a_run_that_has_ended_are_those_from_while_its_steps_ran() {
    let mut state = state();
    running(&mut state);
    let samples = vec![sample(1_004.0, &[(3_000_000_000, 60.0)]), sample(1_007.0, &[(0, 40.0)])];
    // Its last step ends at 1,005 s; the last sample was taken after it had freed its memory.
    state.take(batch((1..=3).map(|n| step(0, n)).collect(), samples));
    assert_eq!(newest(&state, Kind::Memory), [0.0], "while it is active, the newest value is the newest");
    state.take(UiEvent::Queue(Arc::new(QueueView::default())));
    assert_eq!((newest(&state, Kind::Memory), newest(&state, Kind::Temperature)), (vec![3e9], vec![60.0]));
    let unsampled = vec![sample(1_007.0, &[(0, 40.0)])];
    let mut state = self::state();
    running(&mut state);
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
    let mut state = state();
    running(&mut state);
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
    let mut state = state();
    running(&mut state);
    state.take(batch((1..=1_000_000).map(|n| step(0, n)).collect(), vec![]));
    let scene = scene_of(&state);
    let panels = scene.panels();
    for (_, curves) in panels.iter().filter(|(_, curves)| !curves.is_empty()) {
        let points: usize = curves[0].pieces(&Context::default(), &scene, 1000, false).iter().map(Vec::len).sum();
        assert!((500..=4 * 1002).contains(&points), "{points}");
    }
}

#[test]
fn the_logarithm_of_a_loss_that_has_none_is_a_gap() {
    let mut state = state();
    running(&mut state);
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
    let mut state = state();
    running(&mut state);
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
    let mut state = state();
    running(&mut state);
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
fn panels_can_be_hidden_and_runs_filtered() {
    let mut state = state();
    running(&mut state);
    state.take(batch(vec![step(0, 1)], vec![]));
    let mut screen = screen(state);
    screen.get_by_label("Panel Loss").click();
    screen.run();
    assert!(screen.query_by_label("Loss over time").is_none());
    execute(&mut screen.state_mut().state, LiveCommand::Filter("no such run".to_owned()));
    screen.run();
    screen.get_by_label("No run matches.");
    execute(&mut screen.state_mut().state, LiveCommand::Filter("RUNNING".to_owned()));
    screen.run();
    screen.get_by_label(&format!("Draw run {RUN}"));
    execute(&mut screen.state_mut().state, LiveCommand::Filter("state=finished".to_owned()));
    screen.run();
    screen.get_by_label("No run matches.");
    execute(&mut screen.state_mut().state, LiveCommand::Filter("state=running or )".to_owned()));
    screen.run();
    screen.get_by_label_contains("Filter: character 18: \")\"");
    screen.get_by_label(&format!("Draw run {RUN}"));
    execute(&mut screen.state_mut().state, LiveCommand::Filter("precisio=fp32".to_owned()));
    screen.run();
    screen.get_by_label_contains("nothing here has precisio; did you mean \"precision\"?");
}

#[test]
fn a_bounded_number_of_runs_is_kept_and_the_chosen_ones_longest() {
    let mut state = state();
    for n in 0..40 {
        let run = format!("r{n}");
        if n == 3 {
            execute(&mut state, LiveCommand::Choose(run.clone(), true));
        }
        state.take(UiEvent::Live(LiveBatch { run, steps: vec![step(0, 1)], samples: vec![] }));
    }
    let kept: Vec<usize> =
        (0..40).filter(|n| state.own::<LiveScreen>().shelf.curves(&format!("r{n}")).is_some()).collect();
    assert_eq!(kept.len(), store::KEPT_RUNS);
    assert!(kept.contains(&3) && kept.contains(&39) && !kept.contains(&4), "{kept:?}");
    let chosen = state.own::<LiveScreen>().shelf.chosen().count();
    assert!(chosen <= 6, "automatically shown runs are bounded: {chosen}");
}

#[test]
fn no_frame_is_asked_for_when_nothing_changed() {
    let mut state = state();
    running(&mut state);
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

/// Runs of five factors that differ in many ways, all drawn or listed.
fn runs_of_many_factors() -> State {
    use crate::plan::{Key, Level, Levels};
    let mut state = State::new(Settings::default());
    let run = |place: usize| {
        let mut run = fixture::finished();
        run.run = format!("r{place}");
        let level = |(key, level): (&Key, &Level)| {
            let changed = match &**key {
                "precision" => Level::text(["fp32", "fp64", "fp16"][place % 3]),
                "pin_memory" => Level::text(["off", "on"][place % 2]),
                "layout" => Level::text(["nchw", "nhwc"][place / 2 % 2]),
                "gpus" => Level::Integer([1, 2, 4][place / 3 % 3]),
                "batch_size" => Level::Integer([64, 128][place / 6 % 2]),
                _ => level.clone(),
            };
            (key.clone(), changed)
        };
        run.levels = Levels::new(run.levels.iter().map(level).collect());
        if place == 2 {
            run.state = RunState::Interrupted;
        }
        run
    };
    let folder = PathBuf::from("/session");
    state.take(UiEvent::Session { folder: folder.clone(), read_only: None });
    let runs: Vec<_> = (0..12).map(run).collect();
    let ids: Vec<String> = runs.iter().map(|run| run.run.clone()).collect();
    state.take(UiEvent::Records(Arc::new(
        Records { folder: folder.clone(), runs: runs.into(), ..Records::default() }.folded(),
    )));
    for run in ids.into_iter().take(4) {
        execute(&mut state, LiveCommand::Choose(run.clone(), true));
        let curves = Curves::build((1..=20).map(|n| step(0, n)), [sample(1_003.0, &[(1, 1.0)])]);
        state.take(UiEvent::Curves(Box::new(RunCurves { folder: folder.clone(), run, curves })));
    }
    state
}

/// Texts drawn in the last frame that were cut off.
fn cut_off(screen: &Harness<'_, Shown>) -> Vec<String> {
    use eframe::egui::Shape;
    let texts = screen.output().shapes.iter().filter_map(|clipped| match &clipped.shape {
        Shape::Text(text) if text.galley.elided => Some(text.galley.text().to_owned()),
        _ => None,
    });
    texts.collect()
}

#[test]
fn names_and_headings_are_whole_in_windows_of_usual_sizes() {
    // What is left beside the rail of windows 1000, 1280 and 2560 points wide.
    for size in [[872.0, 640.0], [1152.0, 740.0], [2432.0, 1380.0]] {
        let mut screen = screen(runs_of_many_factors());
        screen.set_size(size.into());
        screen.run_steps(3);
        screen.get_by_label_contains("interrupted");
        assert_eq!(cut_off(&screen), Vec::<String>::new(), "{size:?}");
    }
}

#[test]
fn a_repeat_is_named_where_there_are_others() {
    let state = runs_of_many_factors();
    assert!(state.desk.runs.rows.iter().all(|row| !row.name.contains('#')), "{:?}", state.desk.runs.rows[0].name);
}

#[test]
fn steps_closer_than_a_pixel_are_lines_and_no_areas() {
    use eframe::egui::Shape;
    let mut state = state();
    running(&mut state);
    state.take(batch((1..=2000).map(|n| step(0, n)).collect(), vec![sample(1_002.0, &[])]));
    let mut screen = screen(state);
    screen.run_steps(3);
    let is_area = |shape: &Shape| matches!(shape, Shape::Band(_));
    assert!(!screen.output().shapes.iter().any(|clipped| is_area(&clipped.shape)));
    let is_long = |shape: &Shape| matches!(shape, Shape::Path(path) if path.points.len() > 200);
    assert!(screen.output().shapes.iter().any(|clipped| is_long(&clipped.shape)), "the curve is drawn");
}
