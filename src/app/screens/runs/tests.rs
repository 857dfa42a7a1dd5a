//! Tests of the Runs screen by accessible names: what it shows of runs, and what can be done with them.

mod changing;
mod finding;
mod leaving;
mod opened_session;
mod searching;

use std::path::PathBuf;
use std::sync::Arc;

use eframe::egui::accesskit::Role;
use eframe::egui::{Context, Vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::{NodeT as _, Queryable as _};

use super::*;
use crate::analysis::{fixture, summarise_run};
use crate::app::desk::OpenSession;
use crate::app::dressed::dressed;
use crate::app::engine::{RunPage, UiEvent};
use crate::app::{Records, Settings, Window as State, shell_ui, theme};
use crate::conduct::{QueueRow, QueueView};
use crate::plan::Node;
use crate::plan::fixture::gpu_node;
use crate::protocol::{Environment, FailureKind, IMPORTED_FROM, Placement, RankPlace};
use crate::store::RunRecord;

fn record(number: u32, precision: &str, state: RunState) -> RunRecord {
    let cell = fixture::cell(precision, 1, "single");
    let mut record = fixture::run(&cell, number, 0.01);
    record.run = format!("{number:04}-cell-{number}");
    record.state = state;
    record.ended_time_s = state.is_final().then_some(2_000.0 + f64::from(number));
    record.started_time_s = (state != RunState::Queued).then_some(1_000.0);
    record
}

fn failed(number: u32) -> RunRecord {
    let mut record = record(number, "fp16", RunState::Failed);
    record.reason = Some("rank 0: CUDA out of memory: tried to allocate 2 GB".to_owned());
    record.ranks[0].failure = Some((FailureKind::OutOfMemory, "out of memory".to_owned()));
    record
}

fn row(number: u32, state: RunState, step: u64) -> QueueRow {
    let run = format!("{number:04}-cell-{number}");
    QueueRow { step, steps: 400, epoch: 1, loss: Some(0.5), ..QueueRow::in_state(&run, state) }
}

fn queue(rows: Vec<QueueRow>) -> QueueView {
    let queued = rows.len();
    QueueView { rows, queued, time_s: 1_030.0, remaining_s: 60.0, ..QueueView::default() }
}

fn folder() -> PathBuf {
    PathBuf::from("/sessions/study")
}

fn state(records: Vec<RunRecord>, rows: Vec<QueueRow>) -> State {
    let mut state = State::new(Settings::default());
    state.take(UiEvent::Session { folder: folder(), read_only: None });
    let records = Records { folder: folder(), runs: records.into(), ..Records::default() }.folded();
    state.take(UiEvent::Records(Arc::new(records)));
    state.take(UiEvent::Queue(Arc::new(queue(rows))));
    state.desk.screen = ScreenName::RUNS;
    state
}

/// A window with a screen in it; what is asked for is done after each frame.
struct Window {
    state: State,
    commands: Vec<Command>,
    requests: Vec<Request>,
}

type Draw = fn(&mut Ui, &State, &mut Vec<Command>);

fn window(state: State, draw: Draw) -> Harness<'static, Window> {
    window_by(0.25, state, draw)
}

/// The same with so many seconds between frames.
fn window_by(step_s: f32, state: State, draw: Draw) -> Harness<'static, Window> {
    let window = Window { state, commands: Vec::new(), requests: Vec::new() };
    let show = move |ui: &mut Ui, window: &mut Window| {
        draw(ui, &window.state, &mut window.commands);
        for command in std::mem::take(&mut window.commands) {
            window.state.execute(command, ui.ctx());
            window.requests.extend(window.state.desk.take_requests());
            ui.ctx().request_repaint();
        }
        window.state.poll(ui.ctx());
        window.requests.extend(window.state.desk.take_requests());
    };
    dressed(Harness::builder().with_size([1400.0, 800.0]).with_step_dt(step_s), window, show)
}

fn click(harness: &mut Harness<'_, Window>, name: &str) {
    harness.get_by_label(name).click();
    harness.run();
}

fn asked(harness: &Harness<'_, Window>, request: &Request) -> bool {
    harness.state().requests.contains(request)
}

fn sees(harness: &Harness<'_, Window>, text: &str) -> bool {
    harness.query_all_by_label_contains(text).next().is_some()
}

#[test]
fn a_running_run_fills_its_bar() {
    let records = vec![record(1, "fp32", RunState::Starting), record(2, "fp16", RunState::Queued)];
    let running = |step| QueueRow { whole_s: Some(40.0), ..row(1, RunState::Running, step) };
    let rows = |step| vec![running(step), row(2, RunState::Queued, 0)];
    let mut harness = window(state(records, rows(100)), State::draw::<RunsScreen>);
    let share =
        |harness: &Harness<'_, Window>| harness.get_by_label("Progress of run 1").accesskit_node().numeric_value();
    assert_eq!(share(&harness), Some(0.25));
    harness.state_mut().state.take(UiEvent::Queue(Arc::new(queue(rows(300)))));
    harness.run();
    assert_eq!(share(&harness), Some(0.75));
    assert!(harness.query_by_label("Progress of run 2").is_none(), "a queued run has no progress");
    // The run takes 40 s, and 30 s have passed.
    assert!(sees(&harness, "30 s") && sees(&harness, "10 s"));
}

#[test]
fn a_run_that_waits_at_its_site_shows_what_it_waits_for_until_it_starts() {
    let records = vec![record(1, "fp32", RunState::Starting)];
    let waits = Some("Slurm job 7 waits: no node is free".to_owned());
    let waiting = QueueRow { waits, ..row(1, RunState::Starting, 0) };
    let mut harness = window(state(records, vec![waiting]), State::draw::<RunsScreen>);
    assert!(sees(&harness, "no node is free") && sees(&harness, ", waiting"));
    harness.state_mut().state.take(UiEvent::Queue(Arc::new(queue(vec![row(1, RunState::Running, 0)]))));
    harness.run();
    assert!(!sees(&harness, "no node is free") && !sees(&harness, ", waiting"));
}

#[test]
fn cancelling_a_run_and_retrying_a_failed_one_send_requests() {
    let records = vec![failed(1), record(2, "fp32", RunState::Queued)];
    let mut harness = window(state(records, vec![row(2, RunState::Queued, 0)]), State::draw::<RunsScreen>);
    click(&mut harness, "Cancel run 2");
    assert!(asked(&harness, &Request::Order(Order::Cancel("0002-cell-2".into()))));
    click(&mut harness, "Retry run 1");
    assert!(asked(&harness, &Request::Order(Order::Retry("0001-cell-1".into()))));
}

#[test]
fn cancelling_all_asks_first() {
    let rows = vec![row(1, RunState::Running, 1), row(2, RunState::Queued, 0)];
    let mut harness = window(state(Vec::new(), rows), State::draw::<RunsScreen>);
    click(&mut harness, "Cancel all …");
    assert!(sees(&harness, "Cancel 2 runs?") && !asked(&harness, &Request::Order(Order::CancelAll)));
    assert!(sees(&harness, "their results are lost"), "what is lost is said");
    harness.key_press(Key::Enter);
    harness.run();
    assert!(!sees(&harness, "Cancel 2 runs?") && !asked(&harness, &Request::Order(Order::CancelAll)));
    click(&mut harness, "Cancel all …");
    click(&mut harness, "Yes, cancel");
    assert!(asked(&harness, &Request::Order(Order::CancelAll)) && !sees(&harness, "Cancel 2 runs?"));
}

#[test]
fn all_that_failed_and_was_not_retried_is_retried_at_once() {
    // Run 2 is the retry of run 1, and finished.
    let mut again = record(2, "fp16", RunState::Finished);
    again.repeat = 1;
    let records =
        vec![failed(1), again, record(3, "fp32", RunState::Interrupted), record(4, "fp32", RunState::Cancelled)];
    let mut harness = window(state(records, Vec::new()), State::draw::<RunsScreen>);
    let entries = {
        let state = &harness.state().state;
        state.own::<RunsScreen>().palette(&state.desk)
    };
    assert_eq!(entries, [("Retry all failed runs".to_owned(), Command::from(RunsCommand::RetryFailed))]);
    click(&mut harness, "Retry 1 failed");
    assert_eq!(harness.state().requests, [Request::Order(Order::Retry("0003-cell-3".into()))]);
}

#[test]
fn a_queued_run_is_moved() {
    let rows = vec![row(1, RunState::Running, 1), row(2, RunState::Queued, 0), row(3, RunState::Queued, 0)];
    let mut state = state(Vec::new(), rows);
    let run = || "0003-cell-3".to_owned();
    for to in [Move::Up, Move::Down, Move::Top] {
        state.execute(Command::from(RunsCommand::Move(run(), to)), &Context::default());
    }
    state.execute(Command::from(RunsCommand::Move("0001-cell-1".into(), Move::Up)), &Context::default());
    let orders = [0, 2, 0].map(|place| Request::Order(Order::Reorder(run(), place)));
    assert_eq!(state.desk.take_requests(), orders, "a running one stays");
}

#[test]
fn a_failed_runs_page_shows_its_reason_and_its_log() {
    let record = failed(1);
    let mut harness = window(state(vec![record.clone()], Vec::new()), State::draw::<RunsScreen>);
    click(&mut harness, "Run 1: , failed");
    assert!(asked(&harness, &Request::Page(folder(), record.run.clone())));
    let page = RunPage {
        summary: summarise_run(&record),
        record,
        log: "first line\nallocator: no block of 2 GB\n".to_owned(),
        events: vec!["{\"event\":\"started\"}".to_owned()],
        job: "{}".to_owned(),
        program: Some(crate::program::Record {
            command_line: ["python3", "train.py", "--name=a b"].map(str::to_owned).to_vec(),
            executable: "/usr/bin/python3".into(),
            folder: "/home/me/project".into(),
            environment: vec![("SEED".to_owned(), "7".to_owned())],
        }),
        node: None,
        plan: String::new(),
    };
    harness.state_mut().state.take(UiEvent::Page(Box::new(page)));
    harness.run();
    assert!(sees(&harness, "Out of memory") && sees(&harness, "smaller batch"));
    assert!(sees(&harness, "tried to allocate 2 GB") && sees(&harness, "Epoch time"));
    assert!(sees(&harness, "python3 train.py '--name=a b'") && sees(&harness, "/home/me/project"));
    click(&mut harness, "Log of the run");
    assert!(sees(&harness, "allocator: no block of 2 GB"));
    click(&mut harness, "Plan of the run");
    assert!(sees(&harness, "does not contain its plan"));
}

#[test]
fn a_page_says_which_gpus_its_run_used_and_what_an_anonymous_archive_left_out() {
    let mut record = record(1, "fp32", RunState::Finished);
    let mut environment = Environment::default();
    environment.set("kernel", Some("text_4"));
    record.environment = Some(Arc::new(environment));
    let node = Node { hostname: "host".to_owned(), system: "text_44".to_owned(), ..gpu_node(4) };
    let rank = |rank: u32, gpu: &str| RankPlace { gpu_uuid: Some(gpu.to_owned()), ..RankPlace::on_cpu(rank, 1) };
    record.placement = Some(Placement { ranks: vec![rank(0, "GPU-0"), rank(1, "GPU-3")], links: "SYS".to_owned() });
    let mut harness = window(state(vec![record.clone()], Vec::new()), State::draw::<RunsScreen>);
    click(&mut harness, "Run 1: , finished");
    let page = RunPage {
        summary: summarise_run(&record),
        record,
        log: String::new(),
        events: Vec::new(),
        job: String::new(),
        program: None,
        node: Some(node),
        plan: String::new(),
    };
    harness.state_mut().state.take(UiEvent::Page(Box::new(page)));
    harness.run();
    assert!(sees(&harness, "0 (NUMA node 0), 3 (NUMA node 1)"));
    let left_out = harness.query_all_by_label("left out: the archive is anonymous").count();
    assert_eq!(left_out, 3, "the kernel, the machine's name and its system");
    assert!(!sees(&harness, "text_"));
}

#[test]
fn a_page_is_read_again_only_when_its_run_has_changed() {
    let mut state = state(vec![record(1, "fp32", RunState::Starting)], vec![row(1, RunState::Running, 1)]);
    let select = Command::from(RunsCommand::Select(Some("0001-cell-1".into())));
    state.execute(select, &Context::default());
    for _ in 0..3 {
        state.poll(&Context::default());
    }
    assert_eq!(state.desk.take_requests().len(), 1);
    state.take(UiEvent::Queue(Arc::new(queue(vec![row(1, RunState::Finished, 0)]))));
    state.poll(&Context::default());
    assert_eq!(state.desk.take_requests().len(), 1);
}

#[test]
fn a_read_only_session_cannot_be_changed_and_says_why() {
    let mut state = state(vec![failed(1)], Vec::new());
    let reason = "the disk is full; make room";
    state.desk.session.as_mut().unwrap().read_only = Some(reason.to_owned());
    let mut harness = window(state, State::draw::<RunsScreen>);
    assert!(sees(&harness, reason));
    assert!(harness.get_by_label("Retry run 1").accesskit_node().is_disabled());
    let retry = Command::from(RunsCommand::Retry("0001-cell-1".into()));
    let state = &mut harness.state_mut().state;
    state.execute(retry, &Context::default());
    assert!(state.desk.take_requests().is_empty() && state.desk.problems[0].message.contains(reason));
    click(&mut harness, "Open for writing");
    assert!(asked(&harness, &Request::OpenExisting(folder())));
}

#[test]
fn a_launch_shows_its_result_and_an_empty_list_leads_to_the_plan() {
    let mut state = state(Vec::new(), Vec::new());
    let warnings = vec!["site lab: 2 of the 2 nodes are drained".to_owned()];
    state.take(UiEvent::Launched { queued: 24, kept: 3, invalid: 2, warnings });
    let mut harness = window(state, shell_ui);
    assert!(sees(
        &harness,
        "24 runs queued, 3 kept, 2 cells cannot run here; ⚠ site lab: 2 of the 2 nodes are drained"
    ));
    assert!(sees(&harness, "No runs yet"));
    click(&mut harness, "Show Plan");
    assert_eq!(harness.state().state.desk.screen, ScreenName::PLAN);
}

#[test]
fn a_retried_run_leads_to_the_new_one() {
    let mut again = failed(2);
    again.state = RunState::Queued;
    again.repeat = 1;
    let mut harness = window(state(vec![failed(1), again], Vec::new()), State::draw::<RunsScreen>);
    assert!(harness.query_by_label("Retry run 1").is_none(), "it was retried");
    click(&mut harness, "Run 1 was retried as run 2");
    assert_eq!(harness.state().state.own::<RunsScreen>().selected.as_deref(), Some("0002-cell-2"));
}

#[test]
fn a_run_that_others_disturbed_says_so_in_the_list() {
    let mut disturbed = record(1, "fp32", RunState::Finished);
    disturbed.telemetry.load = crate::store::LoadRecord {
        cpus: Some(2),
        cpus_busy: Some(1.99),
        others_cpus: Some(1.2),
        stolen_cpus: Some(0.0),
        ..Default::default()
    };
    let runs = vec![disturbed, record(2, "fp16", RunState::Finished)];
    let mut state = State::new(Settings::default());
    state.take(UiEvent::Session { folder: folder(), read_only: None });
    let summaries = runs.iter().map(summarise_run).collect();
    let records = Records { folder: folder(), runs: runs.into(), summaries, ..Records::default() }.folded();
    state.take(UiEvent::Records(Arc::new(records)));
    state.desk.screen = ScreenName::RUNS;
    let harness = window(state, State::draw::<RunsScreen>);
    assert_eq!(harness.query_all_by_label("⚠ contended").count(), 1);
    let row = &harness.state().state.desk.runs.rows[0];
    assert!(row.stories.contains("1.20 of 2 CPUs"), "{}", row.stories);
    assert!(Filter::parse("contended").unwrap().admits(row));
}

#[test]
fn the_loss_of_an_ended_run_has_the_name_and_the_value_that_tables_give_it() {
    let mut ended = fixture::run(&fixture::cell("fp32", 2, "ddp-ds"), 1, 0.01);
    ended.run = "0001-cell-1".to_owned();
    let summary = summarise_run(&ended);
    let of_tables = summary.value("train_loss").unwrap();
    assert!(ended.ranks[0].last_reading("train_loss").is_some_and(|loss| loss < of_tables), "ranks differ");
    let mut state = state(vec![], vec![]);
    let records =
        Records { folder: folder(), runs: vec![ended].into(), summaries: vec![summary].into(), ..Records::default() };
    state.take(UiEvent::Records(Arc::new(records.folded())));
    let harness = window(state, State::draw::<RunsScreen>);
    assert_eq!(harness.state().state.desk.runs.rows[0].loss, Some(of_tables));
    assert!(sees(&harness, "Training loss"));
    assert!(harness.query_by_label("Loss").is_none());
}

#[test]
fn a_large_window_has_the_page_of_a_run_beside_the_list_whose_names_are_whole() {
    let plan = "a plan with a name of many words, as people give them to keep their nights apart";
    let mut other = record(2, "fp16", RunState::Finished);
    other.plan = plan.to_owned();
    let mut harness =
        window(state(vec![record(1, "fp32", RunState::Finished), other], Vec::new()), State::draw::<RunsScreen>);
    harness.set_size(Vec2::new(2440.0, 1360.0));
    harness.run();
    let name = harness.get_by_label(plan).rect();
    assert!(name.width() > 450.0, "{name:?}");
    harness.get_by_label_contains("Run 2: ").click();
    harness.run();
    let (row, tab) = (harness.get_by_label_contains("Run 2: ").rect(), harness.get_by_label("Log of the run").rect());
    assert!(tab.left() > row.right() - 1.0 && tab.left() > 1400.0, "{tab:?} beside {row:?}");
}

#[test]
fn a_cancelled_run_says_so_once() {
    let mut cancelled = record(1, "fp32", RunState::Cancelled);
    cancelled.reason = Some("cancelled".to_owned());
    let mut harness = window(state(vec![cancelled.clone()], Vec::new()), State::draw::<RunsScreen>);
    assert_eq!(harness.state().state.desk.runs.rows[0].reason, None);
    click(&mut harness, "Run 1: , cancelled");
    let page = RunPage {
        summary: summarise_run(&cancelled),
        record: cancelled,
        log: String::new(),
        events: Vec::new(),
        job: String::new(),
        program: None,
        node: None,
        plan: String::new(),
    };
    harness.state_mut().state.take(UiEvent::Page(Box::new(page)));
    harness.run();
    assert!(harness.query_by_label("Cancelled").is_some() && sees(&harness, "Retry queues it again"));
    assert!(harness.query_by_label("cancelled").is_none(), "the heading says it");
}

#[test]
fn the_time_left_of_a_run_is_unknown_until_the_pace_of_its_steps_is() {
    for (whole_s, left_s) in [(None, None), (Some(90.0), Some(60.0)), (Some(20.0), Some(0.0))] {
        let running = QueueRow { whole_s, ..row(1, RunState::Running, 40) };
        let state = state(vec![record(1, "fp32", RunState::Running)], vec![running]);
        assert_eq!(state.desk.runs.rows[0].remaining_s(1_030.0), left_s);
    }
}

#[test]
fn the_time_of_a_short_run_is_shown_and_an_imported_run_has_none() {
    let mut short = record(1, "fp32", RunState::Finished);
    short.ended_time_s = short.started_time_s.map(|started_s| started_s + 0.4);
    let mut imported = short.clone();
    imported.run = "c1-r1".to_owned();
    let mut environment = Environment::default();
    environment.set(IMPORTED_FROM, Some("other.csv (CSV)"));
    imported.environment = Some(Arc::new(environment));
    let state = state(vec![short, imported], Vec::new());
    let times: Vec<_> = state.desk.runs.rows.iter().map(|row| row.elapsed_s(2_000.0).map(list::elapsed_text)).collect();
    assert_eq!(times, [Some("0.4 s".to_owned()), None]);
    let harness = window(state, State::draw::<RunsScreen>);
    assert!(sees(&harness, "0.4 s") && !sees(&harness, "0:00"));
}
