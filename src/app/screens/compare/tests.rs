//! Tests of the Compare screen by accessible names: its controls, and what it shows of the runs of one session.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use eframe::egui::accesskit::{Role, Toggled};
use eframe::egui::{Context, Event, Modifiers, MouseWheelSource, MouseWheelUnit, PointerButton, Pos2, TouchPhase};
use egui_kittest::Harness;
use egui_kittest::kittest::{NodeT as _, Queryable};

use super::*;
use crate::analysis::{self, Level, MetricUnit, RunState, fixture, summarise_run};
use crate::app::desk::OpenSession;
use crate::app::engine::Engine;
use crate::app::{Records, Settings, Window as State, theme};
use crate::conduct::Order;
use crate::figure::{Place, SPEEDUP, preset};
use crate::plan;
use crate::protocol::{self, Evidence};
use crate::store::{Reader, RunRecord};

mod baseline;
mod brought_workload;
mod charts;
mod many;
#[path = "../../../../tests/bench/many_runs.rs"]
mod many_runs;
mod metrics;
mod missing;
mod own_measures;
mod shown_table;
mod studies;

fn records(folder: &str, runs: Vec<RunRecord>) -> Arc<Records> {
    let summaries = runs.iter().filter(|run| run.state.is_final()).map(summarise_run).collect();
    Arc::new(Records { folder: PathBuf::from(folder), runs: runs.into(), summaries, ..Records::default() }.folded())
}

/// fp32 and fp16 on 1 and 2 GPUs, two repeats each; the last run failed.
fn small() -> Vec<RunRecord> {
    let cells = [("fp32", 1, 0.4), ("fp32", 2, 0.2), ("fp16", 1, 0.1), ("fp16", 2, 0.05)];
    let run = |(precision, gpus, step_time_s): (&str, i64, f64), repeat: u32| {
        let cell = fixture::cell(precision, gpus, "ddp-ds");
        fixture::run(&cell, repeat, step_time_s * (1.0 + 0.1 * f64::from(repeat - 1)))
    };
    let mut runs: Vec<RunRecord> = cells.into_iter().flat_map(|cell| [run(cell, 1), run(cell, 2)]).collect();
    let last = runs.last_mut().unwrap();
    last.state = RunState::Failed;
    last.reason = Some("out of memory".to_owned());
    runs
}

fn state_of(records: Arc<Records>) -> State {
    let mut state = State::new(Settings::default());
    state.desk.session = Some(OpenSession { folder: records.folder.clone(), read_only: None });
    state.desk.records = records;
    state.desk.screen = ScreenName::COMPARE;
    state.own_mut::<CompareScreen>().stale = true;
    settle(&mut state);
    state
}

/// Until the work on a thread is done and taken over.
fn settle(state: &mut State) {
    let context = Context::default();
    while state.own::<CompareScreen>().is_updating() {
        state.poll(&context);
        std::thread::yield_now();
    }
}

fn send(state: &mut State, command: CompareCommand) -> Vec<Request> {
    state.execute(Command::from(command), &Context::default());
    let requests = state.desk.take_requests();
    settle(state);
    requests
}

/// Changes what is shown, as a control does.
fn change(state: &mut State, change: impl FnOnce(&mut Study)) {
    let mut study = state.own::<CompareScreen>().study.clone();
    change(&mut study);
    send(state, CompareCommand::Edit(Box::new(study), None));
}

/// The study that the only command puts in place.
fn edited(commands: &[CompareCommand]) -> &Study {
    let [command] = commands else { panic!("{commands:?}") };
    command.edited().unwrap()
}

fn rows(state: &State) -> Vec<Vec<String>> {
    let picture = state.own::<CompareScreen>().picture.as_ref().unwrap();
    state.own::<CompareScreen>().order.iter().map(|row| picture.texts.texts[*row].clone()).collect()
}

/// The texts of one column from the top.
fn column(state: &State, name: &str) -> Vec<String> {
    let picture = state.own::<CompareScreen>().picture.as_ref().unwrap();
    let named = picture.texts.named(&picture.comparison.table);
    let place = named.iter().position(|(key, _)| key == name).unwrap();
    rows(state).into_iter().map(|row| row[place].clone()).collect()
}

fn bars(state: &State) -> usize {
    let charts = &state.own::<CompareScreen>().picture.as_ref().unwrap().comparison.charts;
    charts.iter().flat_map(|chart| chart.series()).map(|series| series.points.len()).sum()
}

fn key(cell: &str) -> CellKey {
    CellKey { cell: cell.to_owned(), ..CellKey::default() }
}

/// A window whose session is conducted by a process of its own.
struct Conducted {
    folder: tempfile::TempDir,
    engine: Engine,
    state: State,
}

impl Conducted {
    fn open() -> Self {
        let mut state = State::new(Settings::default());
        state.desk.screen = ScreenName::COMPARE;
        let mut conducted = Self { folder: tempfile::tempdir().unwrap(), engine: Engine::start(|| ()), state };
        conducted.engine.ask(Request::NewSession(conducted.session()));
        conducted.until("the session is open", |state| state.desk.session.is_some());
        conducted
    }

    fn session(&self) -> PathBuf {
        self.folder.path().join("session")
    }

    fn until(&mut self, what: &str, met: impl Fn(&State) -> bool) {
        let start = Instant::now();
        while !met(&self.state) {
            // Without a worker nothing can be launched: the problem says what to build.
            assert!(self.state.desk.problems.is_empty(), "{what}: {:?}", self.state.desk.problems);
            assert!(start.elapsed() < Duration::from_secs(60), "{what}");
            self.engine.events().into_iter().for_each(|event| self.state.take(event));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn send(&mut self, command: CompareCommand) {
        send(&mut self.state, command).into_iter().for_each(|request| self.engine.ask(request));
    }

    /// Launches a plan whose runs do not start.
    fn launch(&self, name: &str, text: &str) {
        self.engine.ask(Request::Order(Order::Pause(true)));
        let plan = Box::new(plan::Plan::parse(text, name).unwrap());
        self.engine.ask(Request::Launch { plan, only_missing: false });
    }

    /// Cancels all runs; returns a reader of what the session keeps, and its folder.
    fn end(mut self) -> (Reader, tempfile::TempDir) {
        self.engine.ask(Request::Order(Order::CancelAll));
        self.until("nothing runs", |state| !state.desk.queue.rows.is_empty() && !state.desk.queue.is_active());
        let session = self.session();
        drop(self.engine);
        (Reader::open(&session).unwrap(), self.folder)
    }
}

struct Screened {
    state: State,
    commands: Vec<Command>,
}

fn harness(state: State, size: [f32; 2]) -> Harness<'static, Screened> {
    paced(state, size, 0.25)
}

/// With the time from frame to frame. A frame that is drawn twice takes twice as long here.
fn paced(state: State, size: [f32; 2], step_s: f32) -> Harness<'static, Screened> {
    let mut fresh = true;
    let draw = move |ui: &mut Ui, screened: &mut Screened| {
        if std::mem::take(&mut fresh) {
            theme::install(ui.ctx());
            screened.state.desk.settings.apply(ui.ctx());
            // Fonts are there from the next frame on.
            ui.ctx().request_discard("fonts");
            return;
        }
        eframe::egui::CentralPanel::default()
            .show(ui, |ui| State::draw::<CompareScreen>(ui, &screened.state, &mut screened.commands));
    };
    let screened = Screened { state, commands: Vec::new() };
    let harness = Harness::builder().with_max_steps(24).with_size(size).with_step_dt(step_s);
    let mut harness = harness.build_ui_state(draw, screened);
    harness.run();
    harness
}

/// What was asked for by clicks since the last time.
fn asked(harness: &mut Harness<'_, Screened>) -> Vec<CompareCommand> {
    harness.run();
    let commands = std::mem::take(&mut harness.state_mut().commands);
    let compare = |command: Command| command.of_screen().cloned();
    commands.into_iter().filter_map(compare).collect()
}

/// All texts that are painted.
fn painted(harness: &Harness<'_, Screened>) -> Vec<String> {
    let texts = harness.output().shapes.iter().filter_map(|clipped| match &clipped.shape {
        eframe::egui::Shape::Text(text) => Some(text.galley.text().to_owned()),
        _ => None,
    });
    texts.collect()
}

#[test]
fn bars_on_a_logarithmic_axis_are_selected_as_others_are() {
    let mut harness = harness(state_of(records("s", small())), [1280.0, 800.0]);
    harness.get_by_role_and_label(Role::CheckBox, "Log").click();
    let commands = asked(&mut harness);
    assert!(edited(&commands).log);
    let state = &mut harness.state_mut().state;
    send(state, commands[0].clone());
    let picture = state.own::<CompareScreen>().picture.as_ref().unwrap();
    assert_eq!(picture.comparison.charts[0].y.scale, crate::figure::Scale::Log);
    harness.run();
    harness.get_by_label("Bar fp32 · 2 GPUs: Training time 4.20 s").click();
    assert_eq!(asked(&mut harness), [CompareCommand::Select(Some(key("fp32-2-ddp-ds")))]);
}

#[test]
fn unticking_a_level_leaves_its_rows_and_bars_out() {
    let mut harness = harness(state_of(records("s", small())), [1280.0, 800.0]);
    assert_eq!((rows(&harness.state().state).len(), bars(&harness.state().state)), (4, 4));
    harness.get_by_role_and_label(Role::CheckBox, "Show fp16").click();
    let commands = asked(&mut harness);
    assert_eq!(edited(&commands).hidden, [("precision".into(), Level::text("fp16"))]);
    let state = &mut harness.state_mut().state;
    send(state, commands[0].clone());
    assert_eq!((rows(state).len(), bars(state)), (2, 2));
    harness.run();
    assert!(harness.query_by_label_contains("Cell fp16").is_none());
    harness.get_by_label("2 of 4 cells");
    harness.get_by_label("Show all").click();
    let commands = asked(&mut harness);
    send(&mut harness.state_mut().state, commands[0].clone());
    assert_eq!(rows(&harness.state().state).len(), 4);
}

/// Sends what clicks asked for.
fn obey(harness: &mut Harness<'_, Screened>) {
    for command in asked(harness) {
        send(&mut harness.state_mut().state, command);
    }
    harness.run();
}

#[test]
fn a_factor_is_held_at_one_level_where_its_levels_are_listed_and_let_go_there() {
    let mut harness = harness(state_of(records("s", small())), [1280.0, 800.0]);
    harness.get_by_label("GPUs: all levels").click();
    harness.run();
    harness.get_by_label("GPUs: show only 2").click();
    obey(&mut harness);
    assert_eq!(rows(&harness.state().state).len(), 2);
    harness.get_by_label("GPUs: held at 2");
    harness.get_by_label("2 of 4 cells");
    assert!(harness.query_by_label("Show 1 GPU").is_none());
    send(&mut harness.state_mut().state, CompareCommand::Undo);
    assert_eq!(rows(&harness.state().state).len(), 4);
    send(&mut harness.state_mut().state, CompareCommand::Redo);
    harness.run();
    harness.get_by_label("Show all").click();
    obey(&mut harness);
    harness.get_by_label("GPUs: all levels");
}

#[test]
fn levels_get_another_order_and_another_colour_in_their_menu_and_figures_have_them_too() {
    let mut harness = harness(state_of(records("s", small())), [1280.0, 800.0]);
    harness.get_by_label("Precision: all levels").click();
    harness.run();
    harness.get_by_label("Move fp16 up").click();
    obey(&mut harness);
    assert_eq!(column(&harness.state().state, "precision"), ["fp16", "fp16", "fp32", "fp32"]);
    harness.get_by_label("Colour of fp16: vermillion").click();
    obey(&mut harness);
    let state = &mut harness.state_mut().state;
    assert_eq!(state.own::<CompareScreen>().study.colours, [("precision".into(), Level::text("fp16"), 5)]);
    assert_eq!((state.desk.looks.order.len(), state.desk.looks.colours.len()), (1, 1));
    harness.get_by_label("Default order and colours").click();
    obey(&mut harness);
    let state = &harness.state().state;
    assert!(
        state.own::<CompareScreen>().study.order.is_empty() && state.own::<CompareScreen>().study.colours.is_empty()
    );
    assert_eq!(state.desk.looks, Looks::default());
}

#[test]
fn a_click_on_a_loss_line_selects_its_cell_and_a_second_one_unselects_it() {
    let mut state = state_of(records("s", small()));
    send(&mut state, CompareCommand::Form(Form::Loss));
    change(&mut state, |study| study.measure = Some("train_loss".into()));
    let mut harness = harness(state, [1280.0, 800.0]);
    let click = |harness: &mut Harness<'_, Screened>, at: Pos2| {
        let button = |pressed| Event::PointerButton {
            pos: at,
            button: PointerButton::Primary,
            pressed,
            modifiers: Modifiers::NONE,
        };
        harness.event(Event::PointerMoved(at));
        harness.run();
        for pressed in [true, false] {
            harness.event(button(pressed));
            harness.run();
        }
        asked(harness)
    };
    // Somewhere along this line on screen, a curve is crossed.
    let places = (0..60).map(|step| Pos2::new(700.0, 160.0 + 5.0 * step as f32));
    let hit = places.into_iter().find_map(|at| match click(&mut harness, at).as_slice() {
        [CompareCommand::Select(Some(cell))] => Some((at, cell.clone())),
        _ => None,
    });
    let (at, cell) = hit.unwrap();
    send(&mut harness.state_mut().state, CompareCommand::Select(Some(cell)));
    harness.run();
    assert_eq!(click(&mut harness, at), [CompareCommand::Select(None)]);
}

#[test]
fn words_narrow_the_cells_and_words_that_none_has_leave_none() {
    let mut state = state_of(records("s", small()));
    change(&mut state, |study| study.filter = "FP16 2".to_owned());
    assert_eq!(column(&state, "precision"), ["fp16"]);
    change(&mut state, |study| study.filter = "fp8".to_owned());
    assert_eq!((rows(&state).len(), bars(&state)), (0, 0));
    let harness = harness(state, [1280.0, 800.0]);
    harness.get_by_label_contains("No cell matches the filter");
    harness.get_by_label("Show all");
}

#[test]
fn another_measure_has_other_values_and_units() {
    let mut state = state_of(records("s", small()));
    assert_eq!(column(&state, "training_time_s")[0], "8.40");
    change(&mut state, |study| study.measure = Some("peak_allocated_bytes".into()));
    assert_eq!(column(&state, "peak_allocated_bytes")[0], "3.00");
    let chart = &state.own::<CompareScreen>().picture.as_ref().unwrap().comparison.charts[0];
    assert_eq!(chart.y.title(), "Peak allocated (GB)");
    change(&mut state, |study| study.measure = Some(SPEEDUP.into()));
    assert_eq!(column(&state, SPEEDUP)[0], "1.00");
    harness(state, [1280.0, 800.0]).get_by_role_and_label(Role::Button, "Sort by Speed-up by throughput (×)");
}

#[test]
fn ratios_are_over_the_baseline_and_it_is_one_over_itself() {
    let mut state = state_of(records("s", small()));
    assert_eq!(column(&state, "ratio")[..1], ["1.00"]);
    send(&mut state, CompareCommand::Baseline(Some("fp16-1-ddp-ds".to_owned())));
    let ratios = column(&state, "ratio");
    assert_eq!((ratios[0].as_str(), ratios[2].as_str()), ("0.250", "1.00"));
    send(&mut state, CompareCommand::NextBaseline);
    let baseline = state.own::<CompareScreen>().picture.as_ref().unwrap().comparison.baseline.clone().unwrap();
    assert_eq!((baseline.0, baseline.1.as_str()), (Some(key("fp16-2-ddp-ds")), "fp16 · 2 GPUs"));
    send(&mut state, CompareCommand::NextBaseline);
    assert_eq!(state.own::<CompareScreen>().study.baseline.as_deref(), Some("fp32-1-ddp-ds"));
    send(&mut state, CompareCommand::Baseline(Some("gone".to_owned())));
    assert_eq!(column(&state, "ratio"), ["–"; 4]);
    let notes = &state.own::<CompareScreen>().picture.as_ref().unwrap().comparison.table.notes;
    assert!(notes.iter().any(|note| note.contains("choose another")), "{notes:?}");
}

#[test]
fn runs_that_did_not_finish_are_counted_and_in_no_value() {
    let state = state_of(records("s", small()));
    let last = rows(&state).pop().unwrap();
    assert!(last.contains(&"1.00".to_owned()), "{last:?}");
    assert!(last.contains(&"1 failed".to_owned()), "{last:?}");
    let harness = harness(state, [1600.0, 800.0]);
    harness.get_by_label("1 unfinished run excluded");
    harness.get_by_label("7 finished runs");
}

#[test]
fn a_factor_that_is_not_in_effect_is_named_and_one_that_is_counts() {
    let mut runs = small();
    let evidence = |factor: &str, in_effect: bool| {
        let [factor, asked, seen] = [factor, "on", "seen"].map(str::to_owned);
        Arc::new(Evidence { factor, asked, seen, in_effect })
    };
    runs[0].ranks[0].evidence = vec![evidence("pin_memory", true), evidence("layout", true)];
    runs[1].ranks[0].evidence = vec![evidence("pin_memory", false), evidence("layout", true)];
    runs[2].ranks[0].evidence = vec![evidence("layout", true)];
    let state = state_of(records("s", runs));
    assert_eq!(column(&state, "proof"), ["✗ pin_memory", "✓ 1 in effect", "", ""]);
}

#[test]
fn every_form_of_chart_is_drawn_of_one_run_of_many_and_of_none() {
    let many = Arc::new(Records { summaries: many_runs::many_runs(3).into(), ..Records::default() });
    let one = records("", vec![fixture::finished()]);
    let failed = records("", small().split_off(7));
    for (name, records) in [("many", many), ("one", one), ("failed", failed)] {
        let mut state = state_of(records);
        for &form in Form::ALL {
            send(&mut state, CompareCommand::Form(form));
            let kinds: [fn(&mut Study, Place); 3] = [
                |study, place| study.rows = place,
                |study, place| study.columns = place,
                |study, place| study.colour = place,
            ];
            let places = [Place::Nothing, Place::Setting("gpus".into()), Place::Setting("absent".into())];
            // The others are arranged as bars, or not at all.
            let is_arranged = matches!(form, Form::Bars | Form::Loss | Form::Scaling | Form::Memory);
            for place in places.into_iter().filter(|_| is_arranged) {
                kinds.iter().for_each(|set| change(&mut state, |study| set(study, place.clone())));
            }
            kinds.iter().for_each(|set| change(&mut state, |study| set(study, Place::Auto)));
            let mut drawn = harness(state, [1280.0, 800.0]);
            if name != "failed" {
                drawn.get_by_role_and_label(Role::Tab, &format!("Chart {}", form.name()));
            }
            state = std::mem::take(&mut drawn.state_mut().state);
        }
    }
}

#[test]
fn a_study_chosen_from_the_menu_sets_all_that_is_shown() {
    let mut harness = harness(state_of(records("s", small())), [1280.0, 800.0]);
    harness.get_by_label("Study").click();
    harness.run();
    harness.get_by_label("Speed-up by throughput").click();
    let commands = asked(&mut harness);
    let study = preset("speedup").unwrap();
    assert_eq!(commands, [CompareCommand::Study(Box::new(study.clone()))]);
    let state = &mut harness.state_mut().state;
    send(state, commands[0].clone());
    assert_eq!(state.own::<CompareScreen>().study, study);
    assert_eq!(column(state, "speedup")[0], "1.00");
    assert_eq!(state.own::<CompareScreen>().picture.as_ref().unwrap().comparison.table.columns.len(), 6);
}

#[test]
fn a_baseline_stays_while_the_filter_hides_it_and_that_is_said() {
    let mut state = state_of(records("s", small()));
    let before = column(&state, "ratio")[2].clone();
    change(&mut state, |study| study.filter = "fp16".to_owned());
    assert_eq!(column(&state, "ratio")[0], before);
    let harness = harness(state, [1280.0, 800.0]);
    harness.get_by_label_contains("Ratios are over precision = fp32, gpus = 1, which is not shown here.");
}

#[test]
fn the_automatic_baseline_stays_when_runs_arrive_and_measure_and_form_change() {
    let mut late: Vec<RunRecord> = small();
    let early: Vec<RunRecord> = late.drain(..2).collect();
    let mut state = state_of(records("/a", late.clone()));
    let baseline = |state: &State| {
        let comparison = &state.own::<CompareScreen>().picture.as_ref().unwrap().comparison;
        comparison.baseline.as_ref().and_then(|(cell, _)| Some(cell.as_ref()?.cell.clone())).unwrap()
    };
    assert_eq!(baseline(&state), "fp32-2-ddp-ds");
    state.desk.records = records("/a", early.into_iter().chain(late).collect());
    state.own_mut::<CompareScreen>().stale = true;
    settle(&mut state);
    assert_eq!(baseline(&state), "fp32-2-ddp-ds", "the first row is another one now");
    change(&mut state, |study| study.measure = Some("accuracy".into()));
    send(&mut state, CompareCommand::Form(Form::Memory));
    assert_eq!(baseline(&state), "fp32-2-ddp-ds");
    send(&mut state, CompareCommand::Baseline(None));
    assert_eq!(baseline(&state), "fp32-1-ddp-ds", "until its user asks for the first row");
}

#[test]
fn changes_of_what_is_shown_are_undone_and_redone_and_typing_is_one_change() {
    let mut state = state_of(records("/a", small()));
    let first = state.own::<CompareScreen>().study.clone();
    change(&mut state, |study| study.measure = Some("accuracy".into()));
    for text in ["f", "fp", "fp16"] {
        let study = Study { filter: text.to_owned(), ..state.own::<CompareScreen>().study.clone() };
        send(&mut state, CompareCommand::Edit(Box::new(study), Some("filter")));
    }
    assert_eq!(rows(&state).len(), 2);
    send(&mut state, CompareCommand::Undo);
    assert_eq!(
        (state.own::<CompareScreen>().study.filter.as_str(), rows(&state).len()),
        ("", 4),
        "typing is one change"
    );
    assert_eq!(state.own::<CompareScreen>().study.measure.as_deref(), Some("accuracy"));
    send(&mut state, CompareCommand::Undo);
    assert_eq!(state.own::<CompareScreen>().study, first);
    send(&mut state, CompareCommand::Undo);
    assert_eq!(state.own::<CompareScreen>().study, first, "there is nothing before");
    send(&mut state, CompareCommand::Redo);
    send(&mut state, CompareCommand::Redo);
    assert_eq!((state.own::<CompareScreen>().study.filter.as_str(), rows(&state).len()), ("fp16", 2));
    send(&mut state, CompareCommand::Undo);
    change(&mut state, |study| study.log = true);
    send(&mut state, CompareCommand::Redo);
    assert_eq!(
        (state.own::<CompareScreen>().study.filter.as_str(), state.own::<CompareScreen>().study.log),
        ("", true),
        "another way was taken"
    );
}

#[test]
fn losses_are_drawn_on_a_logarithmic_axis_by_the_screen_itself() {
    let mut state = state_of(records("s", small()));
    send(&mut state, CompareCommand::Form(Form::Loss));
    change(&mut state, |study| study.measure = Some("train_loss".into()));
    change(&mut state, |study| study.log = true);
    let picture = state.own::<CompareScreen>().picture.as_ref().unwrap();
    assert_eq!(picture.comparison.charts[0].y.scale, crate::figure::Scale::Log);
    let harness = harness(state, [1280.0, 800.0]);
    let labels = harness.output().shapes.iter().filter_map(|clipped| match &clipped.shape {
        eframe::egui::Shape::Text(text) => text.galley.text().parse::<f64>().ok(),
        _ => None,
    });
    let labels: Vec<f64> = labels.collect();
    assert!(labels.contains(&1.0) && labels.iter().all(|label| *label >= 0.0), "values, not logarithms: {labels:?}");
}

#[test]
fn a_baseline_that_its_list_has_no_room_for_is_named_below_and_a_long_session_leaves_the_rest_its_place() {
    let long = "a-precision-of-somebody-s-own-with-a-name-that-no-list-has-room-for";
    let mut runs = small();
    for run in &mut runs {
        let levels = run.levels.iter().map(|(key, level)| match &**key {
            "precision" => (key.clone(), Level::text(&format!("{long}-{level}"))),
            _ => (key.clone(), level.clone()),
        });
        run.levels = plan::Levels::new(levels.collect::<Vec<_>>());
    }
    let folder = format!("/sessions/{}", "night-of-the-long-session-names-".repeat(4));
    let harness = harness(state_of(records(&folder, runs)), [872.0, 650.0]);
    harness.get_by_label(&format!("Baseline: {long}-fp16 · 1 GPU"));
    let open = harness.get_by_label("open").rect();
    assert!(open.right() <= 216.0, "{open:?}");
    assert!(harness.get_by_label("Filter cells").rect().right() <= 216.0);
}

#[test]
fn words_are_those_of_the_field() {
    let mut state = state_of(records("s", small()));
    let names: Vec<&str> =
        state.desk.records.summaries[0].measures.iter().map(|measure| measure.name.as_str()).collect();
    for name in ["Throughput (distinct images)", "Loader start-up per epoch", "Peak allocated"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let help = |key: &str| plan::image::spec().factor(key).unwrap().help.to_string();
    assert!(help("gpus").starts_with("One rank per GPU (dp: threads of one process)"), "{}", help("gpus"));
    assert_eq!(help("batch_size"), "Images per GPU per step.");
    assert_eq!(MetricUnit::OfReport.name(), "% of report");
    let headings = |state: &State| -> Vec<String> {
        let table = &state.own::<CompareScreen>().picture.as_ref().unwrap().comparison.table;
        table.columns.iter().map(|column| column.name.clone()).collect()
    };
    assert!(headings(&state).contains(&"Speed-up by training time".to_owned()));
    change(&mut state, |study| study.measure = Some("peak_allocated_bytes".into()));
    assert!(headings(&state).contains(&"Ratio vs baseline".to_owned()), "more memory is no speed-up");
    send(&mut state, CompareCommand::Form(Form::Memory));
    let memory = &state.own::<CompareScreen>().picture.as_ref().unwrap().comparison.charts[0];
    assert!(memory.title.contains("per device"), "CPUs have it, too: {}", memory.title);
    change(&mut state, |study| study.filter = "gpus=1".to_owned());
    send(&mut state, CompareCommand::Form(Form::Scaling));
    let notes = &state.own::<CompareScreen>().picture.as_ref().unwrap().comparison.charts[0].notes;
    assert!(notes.contains(&"Scaling needs at least two GPU counts per configuration.".to_owned()), "{notes:?}");
}

#[test]
fn losses_and_accuracy_are_side_by_side_in_a_small_window() {
    let mut state = state_of(records("s", small()));
    send(&mut state, CompareCommand::Form(Form::Loss));
    // What is left beside the rail of a window 1000 points wide.
    let harness = harness(state, [872.0, 640.0]);
    let axes = harness.output().shapes.iter().filter_map(|clipped| match &clipped.shape {
        eframe::egui::Shape::Text(text) if text.galley.text() == "Epoch" => {
            Some(text.visual_bounding_rect().center().x)
        }
        _ => None,
    });
    let axes: Vec<f32> = axes.collect();
    let [first, second, third] = axes[..] else { panic!("{axes:?}") };
    assert!(third + (second - first) / 2.0 <= 872.0, "{axes:?}");
}
