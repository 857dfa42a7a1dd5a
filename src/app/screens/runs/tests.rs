//! Tests of the Runs screen, the session menu and closing, by accessible names.

mod changing;
mod searching;

use std::path::PathBuf;
use std::sync::Arc;

use eframe::egui::accesskit::Role;
use eframe::egui::{Context, Vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::{NodeT as _, Queryable as _};

use super::*;
use crate::analysis::{fixture, summarise_run};
use crate::app::closing;
use crate::app::closing::Closing;
use crate::app::command::DataCommand;
use crate::app::command::SessionsCommand;
use crate::app::desk::OpenSession;
use crate::app::desk::export::data_menu_ui;
use crate::app::engine::RunPage;
use crate::app::engine::UiEvent;
use crate::app::listing::Listing;
use crate::app::sessions;
use crate::app::{CloseCommand, Settings, shell_ui, theme};
use crate::app::{PlanCommand, PlanScreen, Records, Window as State};
use crate::conduct::{QueueRow, QueueView};
use crate::export::Format;
use crate::plan::fixture::gpu_node;
use crate::protocol::{Environment, FailureKind, IMPORTED_FROM, Placement, RankPlace};
use crate::store::{RunRecord, import_session};

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
    QueueRow { run, state, step, steps: 400, epoch: 1, loss: Some(0.5), waits: None }
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

/// An edit of the plan.
fn seven_repeats(state: &State) -> Command {
    let mut plan = state.own::<PlanScreen>().plan().clone();
    plan.repeats = 7;
    PlanCommand::Edit(Box::new(plan), None).into()
}

/// A window with a screen in it; what is asked for is done after each frame.
struct Window {
    state: State,
    commands: Vec<Command>,
    requests: Vec<Request>,
    dressed: bool,
}

fn session_menu(ui: &mut Ui, state: &State, commands: &mut Vec<Command>) {
    sessions::session_menu_ui(ui, &state.sessions, &state.desk, commands);
}

type Draw = fn(&mut Ui, &State, &mut Vec<Command>);

fn window(state: State, draw: Draw) -> Harness<'static, Window> {
    window_by(0.25, state, draw)
}

/// The same with so many seconds between frames.
fn window_by(step_s: f32, state: State, draw: Draw) -> Harness<'static, Window> {
    let window = Window { state, commands: Vec::new(), requests: Vec::new(), dressed: false };
    let show = move |ui: &mut Ui, window: &mut Window| {
        if !window.dressed {
            theme::install(ui.ctx());
            window.dressed = true;
            // Fonts are available from the next frame on.
            ui.ctx().request_repaint();
            return;
        }
        draw(ui, &window.state, &mut window.commands);
        for command in std::mem::take(&mut window.commands) {
            window.state.execute(command, ui.ctx());
            window.requests.extend(window.state.desk.take_requests());
            ui.ctx().request_repaint();
        }
        window.state.poll(ui.ctx());
        window.requests.extend(window.state.desk.take_requests());
    };
    let builder = Harness::builder().with_max_steps(24).with_size(Vec2::new(1400.0, 800.0)).with_step_dt(step_s);
    let mut harness = builder.build_ui_state(show, window);
    harness.run();
    harness
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
    let rows = |step| vec![row(1, RunState::Running, step), row(2, RunState::Queued, 0)];
    let mut harness = window(state(records, rows(100)), State::draw::<RunsScreen>);
    let share =
        |harness: &Harness<'_, Window>| harness.get_by_label("Progress of run 1").accesskit_node().numeric_value();
    assert_eq!(share(&harness), Some(0.25));
    harness.state_mut().state.take(UiEvent::Queue(Arc::new(queue(rows(300)))));
    harness.run();
    assert_eq!(share(&harness), Some(0.75));
    assert!(harness.query_by_label("Progress of run 2").is_none(), "a queued run has no progress");
    // 30 s for three quarters: 10 s are left.
    assert!(sees(&harness, "0:30") && sees(&harness, "0:10"));
}

#[test]
fn a_run_that_waits_at_its_site_shows_what_it_waits_for_until_it_starts() {
    let records = vec![record(1, "fp32", RunState::Starting)];
    let waits = Some("Slurm job 7 waits: no node is free".to_owned());
    let waiting = QueueRow { waits, ..row(1, RunState::Starting, 0) };
    let mut harness = window(state(records, vec![waiting]), State::draw::<RunsScreen>);
    assert!(sees(&harness, "no node is free"));
    harness.state_mut().state.take(UiEvent::Queue(Arc::new(queue(vec![row(1, RunState::Running, 0)]))));
    harness.run();
    assert!(!sees(&harness, "no node is free"));
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
    click(&mut harness, "Retry 1 failed");
    assert_eq!(harness.state().requests, [Request::Order(Order::Retry("0003-cell-3".into()))]);
}

#[test]
fn the_filter_narrows_by_typing_and_by_chips() {
    let records = vec![failed(1), record(2, "fp16", RunState::Finished), record(3, "fp32", RunState::Finished)];
    let mut harness = window(state(records, Vec::new()), State::draw::<RunsScreen>);
    let listed = |harness: &Harness<'_, Window>| {
        let all =
            harness.query_all_by_label_contains("Run ").filter(|node| node.accesskit_node().role() == Role::Button);
        all.count()
    };
    assert_eq!(listed(&harness), 3);
    let controls = ["Filter runs", "Clear filter", "Columns", "Export data", "Only failed"];
    let places = |harness: &Harness<'_, Window>| controls.map(|name| harness.get_by_label(name).rect());
    let before = places(&harness);
    harness.get_by_label("Filter runs").focus();
    harness.run();
    harness.get_by_label("Filter runs").type_text("precision=fp16");
    harness.run();
    assert_eq!(listed(&harness), 2);
    click(&mut harness, "Only failed");
    assert_eq!(harness.state().state.own::<RunsScreen>().filter_text, "precision=fp16 state=failed");
    // A button under the pointer is drawn larger.
    harness.remove_cursor();
    harness.run();
    assert_eq!(places(&harness), before, "nothing moved when the filter began");
    assert_eq!(listed(&harness), 1);
    harness.get_by_label_contains("Run 1: fp16");
    click(&mut harness, "Clear filter");
    assert_eq!(listed(&harness), 3);
}

#[test]
fn runs_are_filtered_by_state_levels_repeat_number_and_words() {
    let row = Row::of(&Listing::of(&[failed(7)]).entries[0]);
    for (text, admitted) in [
        ("", true),
        ("state=failed", true),
        ("STATE=Failed fp16", true),
        ("state=failed state=finished", true),
        ("state=timed-out", false),
        ("precision=fp1", false),
        ("precision=", true),
        ("run=7 repeat=7", true),
        ("run>=8", false),
        ("nothing=here", false),
        ("memory", true),
        ("not memory or gpus>64", false),
        ("\u{0}ß 名", false),
    ] {
        assert_eq!(Filter::typed(text).unwrap().admits(&row), admitted, "{text:?}");
    }
}

#[test]
fn what_is_wrong_with_a_filter_is_said_below_it_with_its_place_and_hides_nothing() {
    let records = vec![failed(1), record(2, "fp16", RunState::Finished)];
    let mut harness = window(state(records, Vec::new()), State::draw::<RunsScreen>);
    harness.get_by_label("Filter runs").focus();
    harness.run();
    harness.get_by_label("Filter runs").type_text("fp16 gpus>many");
    harness.run();
    harness.get_by_label_contains("Filter: character 11: gpus> with \"many\": give a number");
    assert_eq!(harness.state().state.own::<RunsScreen>().shown.len(), 2);
}

#[test]
fn a_filter_by_a_key_that_no_run_has_names_the_nearest_and_moves_nothing() {
    let records = vec![failed(1), record(2, "fp16", RunState::Finished)];
    let mut harness = window(state(records, Vec::new()), State::draw::<RunsScreen>);
    let before = harness.get_by_label("Columns").rect();
    harness.get_by_label("Filter runs").focus();
    harness.run();
    harness.get_by_label("Filter runs").type_text("batch=16");
    harness.run();
    harness.get_by_label_contains("nothing here has batch; did you mean \"batch_size\"?");
    assert_eq!(harness.get_by_label("Columns").rect().top(), before.top());
}

#[test]
fn active_runs_come_first_then_queued_ones_then_the_latest_ended() {
    let mut records = vec![failed(1), record(2, "fp32", RunState::Finished)];
    records.extend((3..6).map(|number| record(number, "fp32", RunState::Queued)));
    // The queue was reordered: 5 before 4.
    let rows = vec![row(3, RunState::Running, 1), row(5, RunState::Queued, 0), row(4, RunState::Queued, 0)];
    let state = state(records, rows);
    let order: Vec<_> =
        state.own::<RunsScreen>().shown.iter().map(|index| state.desk.runs.rows[*index].number.as_str()).collect();
    assert_eq!(order, ["3", "5", "4", "2", "1"]);
}

#[test]
fn a_queued_run_is_moved() {
    let rows = vec![row(1, RunState::Running, 1), row(2, RunState::Queued, 0), row(3, RunState::Queued, 0)];
    let mut state = state(Vec::new(), rows);
    let (context, mut requests) = (Context::default(), Vec::new());
    let run = || "0003-cell-3".to_owned();
    for to in [Move::Up, Move::Down, Move::Top] {
        state.execute(Command::from(RunsCommand::Move(run(), to)), &context);
        requests.extend(state.desk.take_requests());
    }
    state.execute(Command::from(RunsCommand::Move("0001-cell-1".into(), Move::Up)), &context);
    requests.extend(state.desk.take_requests());
    assert_eq!(requests, [0, 2, 0].map(|place| Request::Order(Order::Reorder(run(), place))), "a running one stays");
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
fn a_page_says_which_gpus_its_run_used() {
    let mut record = record(1, "fp32", RunState::Finished);
    let (node, rank) = (gpu_node(4), |rank: u32, gpu: &str| RankPlace {
        gpu_uuid: Some(gpu.to_owned()),
        ..RankPlace::on_cpu(rank, 1)
    });
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
}

#[test]
fn columns_of_the_list_are_hidden_and_moved_and_stay_so_in_the_next_window() {
    let records = vec![record(1, "fp32", RunState::Finished), record(2, "fp16", RunState::Queued)];
    let mut harness = window(state(records, Vec::new()), State::draw::<RunsScreen>);
    assert!(sees(&harness, "Repeat"));
    click(&mut harness, "Columns");
    click(&mut harness, "Column Repeat");
    click(&mut harness, "Move column Precision up");
    click(&mut harness, "Move column Precision up");
    harness.key_press(Key::Escape);
    harness.run();
    let settings = harness.state().state.desk.settings.clone();
    assert!(harness.query_by_label("Repeat").is_none());
    let left = |harness: &Harness<'_, Window>, name: &str| harness.get_by_label(name).rect().left();
    assert!(left(&harness, "Precision") < left(&harness, "Progress"), "before the column of actions and of progress");
    let text = toml::to_string(&settings).unwrap();
    assert_eq!(toml::from_str::<Settings>(&text).unwrap(), settings, "{text}");
}

#[test]
fn shown_runs_are_exported_as_a_long_table_with_the_command_that_does_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let session = folder.path().join("study");
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/sessions/gpu.zip");
    import_session(&golden, &session, &mut |_, _| std::ops::ControlFlow::Continue(())).unwrap();
    let mut state = State::new(Settings::default());
    state.desk.session = Some(OpenSession { folder: session, read_only: None });
    state.desk.screen = ScreenName::RUNS;
    let context = Context::default();
    let send = |state: &mut State, command: DataCommand| {
        state.execute(Command::Data(command), &context);
        while state.desk.export.is_busy() {
            state.poll(&Context::default());
            std::thread::yield_now();
        }
    };
    state.execute(Command::from(RunsCommand::Filter("state=finished".to_owned())), &context);
    let file = folder.path().join("runs.csv");
    send(&mut state, DataCommand::Path(file.display().to_string()));
    send(&mut state, DataCommand::Export("state=finished".to_owned()));
    let rows = std::fs::read_to_string(&file).unwrap();
    assert!(rows.lines().count() > 1 && rows.contains("finished"), "{rows}");
    assert!(rows.lines().skip(1).all(|row| row.contains("finished")), "only the runs that are shown");
    let command = state.desk.export_command("state=finished").unwrap();
    assert!(command.contains("--what runs --filter state=finished --output"), "{command}");
    send(&mut state, DataCommand::Format(Format::Parquet));
    send(&mut state, DataCommand::Export("state=finished".to_owned()));
    assert!(std::fs::read(folder.path().join("runs.parquet")).unwrap().starts_with(b"PAR1"));
    send(&mut state, DataCommand::Path("/nowhere/at/all.csv".to_owned()));
    send(&mut state, DataCommand::Export("state=finished".to_owned()));
    let mut harness =
        window(state, |ui, state, commands| data_menu_ui(ui, &state.desk, "state=finished", false, commands));
    click(&mut harness, "Export data");
    assert!(sees(&harness, "writing /nowhere/at/all.csv"));
}

#[test]
fn a_page_is_read_again_only_when_its_run_has_changed() {
    let mut state = state(vec![record(1, "fp32", RunState::Starting)], vec![row(1, RunState::Running, 1)]);
    let mut requests = Vec::new();
    let select = Command::from(RunsCommand::Select(Some("0001-cell-1".into())));
    state.execute(select, &Context::default());
    requests.extend(state.desk.take_requests());
    for _ in 0..3 {
        state.poll(&Context::default());
        requests.extend(state.desk.take_requests());
    }
    assert_eq!(requests.len(), 1);
    state.take(UiEvent::Queue(Arc::new(queue(vec![row(1, RunState::Finished, 0)]))));
    state.poll(&Context::default());
    requests.extend(state.desk.take_requests());
    assert_eq!(requests.len(), 2);
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
    let mut requests = Vec::new();
    harness.state_mut().state.execute(retry, &Context::default());
    requests.extend(harness.state_mut().state.desk.take_requests());
    assert!(requests.is_empty() && harness.state().state.desk.problems[0].message.contains(reason));
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
fn five_hundred_runs_draw_only_the_visible_lines() {
    let records = (1..=500).map(|number| record(number, "fp32", RunState::Finished)).collect();
    let harness = window(state(records, Vec::new()), State::draw::<RunsScreen>);
    let drawn = harness.query_all_by_label_contains(": , finished").count();
    assert!((10..60).contains(&drawn), "{drawn}");
}

#[test]
fn the_session_menu_opens_recent_ones_and_makes_new_ones() {
    let mut state = State::new(Settings::default());
    let folder = tempfile::tempdir().unwrap();
    let (here, gone) = (folder.path().join("here"), folder.path().join("gone"));
    std::fs::create_dir(&here).unwrap();
    std::fs::write(here.join("session.toml"), "").unwrap();
    state.desk.settings.recent = vec![here.clone(), gone.clone()];
    state.sessions.missing = vec![gone];
    let mut harness = window(state, session_menu);
    click(&mut harness, "Session: no session yet");
    assert!(harness.get_by_label_contains("gone (missing)").accesskit_node().is_disabled());
    click(&mut harness, "here");
    assert!(asked(&harness, &Request::OpenExisting(here)));
    assert!(sees(&harness, "opening here …"));
    let mut requests = Vec::new();
    let state = &mut harness.state_mut().state;
    for name in ["../else", "", ".hidden", "a/b"] {
        let make = Command::Sessions(SessionsCommand::New(name.into()));
        state.execute(make, &Context::default());
        requests.extend(state.desk.take_requests());
        assert!(requests.is_empty() && state.desk.problems.len() == 1, "{name:?}: {:?}", state.desk.problems);
    }
    state.execute(Command::Sessions(SessionsCommand::New("h100 study".into())), &Context::default());
    requests.extend(state.desk.take_requests());
    assert!(state.desk.problems.is_empty(), "the message about another name is gone");
    assert!(matches!(&requests[..], [Request::NewSession(folder)] if folder.ends_with("h100 study")));
}

#[test]
fn the_session_menu_exports_and_imports_archives() {
    let folder = tempfile::tempdir().unwrap();
    let (session, archive) = (folder.path().join("study"), folder.path().join("study.zip"));
    let node = crate::plan::fixture::cpu_node();
    drop(crate::store::Store::create(&session, &node).unwrap());
    let mut state = State::new(Settings::default());
    state.desk.session = Some(OpenSession { folder: session, read_only: None });
    let context = Context::default();
    let mut transfer = |command: SessionsCommand| {
        let mut requests = Vec::new();
        state.execute(Command::Sessions(command), &context);
        requests.extend(state.desk.take_requests());
        assert!(state.sessions.is_transferring());
        while state.sessions.is_transferring() {
            state.poll(&context);
            requests.extend(state.desk.take_requests());
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        (requests, state.desk.problems.last().map(|problem| problem.message.clone()))
    };
    assert_eq!(transfer(SessionsCommand::Export(archive.clone())).1, None);
    assert!(archive.exists());
    let again = transfer(SessionsCommand::Export(archive)).1.unwrap();
    assert!(again.contains("this file or folder exists already"), "{again}");
    let absent = transfer(SessionsCommand::Import(folder.path().join("absent.zip"))).1.unwrap();
    assert!(absent.contains("absent.zip"), "{absent}");
    let another = folder.path().join("another");
    let mut harness = window(state, session_menu);
    click(&mut harness, "Session: study");
    harness.get_by_label("Path of the archive to write");
    harness.get_by_label("Path of the archive or the results to read");
    assert!(sees(&harness, "absent.zip"));
    harness.state_mut().state.take(UiEvent::Session { folder: another, read_only: None });
    harness.run();
    assert!(!sees(&harness, "absent.zip"), "it belonged to the session before");
}

#[test]
fn a_session_that_cannot_be_opened_leaves_the_one_before_and_one_that_is_gone_says_so() {
    let mut state = state(vec![failed(1)], Vec::new());
    let other = PathBuf::from("/sessions/other");
    state.execute(Command::OpenSession(other.clone()), &Context::default());
    assert_eq!(state.desk.opening.as_ref(), Some(&other));
    let reason = Some("/sessions/other: session version 9 is newer than 1".to_owned());
    state.take(UiEvent::NotOpened { folder: other, reason });
    assert_eq!(state.desk.opening, None);
    assert!(state.desk.problems[0].message.ends_with("newer than 1; study stays open"));
    state.take(UiEvent::SessionGone(true));
    let harness = window(state, State::draw::<RunsScreen>);
    assert!(sees(&harness, "/sessions/study is missing"));
    assert!(sees(&harness, "out of memory"), "records read before stay");
}

#[test]
fn closing_while_runs_are_active_asks_whether_to_keep_them_running() {
    let rows = vec![row(1, RunState::Running, 1), row(2, RunState::Queued, 0)];
    let mut state = state(Vec::new(), rows);
    let context = Context::default();
    state.close_requested(&context);
    assert_eq!(state.closing, Closing::Asked);
    let mut harness = window(state, |ui, state, commands| {
        closing::close_ui(ui, state.closing, &state.desk, &|| state.unsaved(), commands);
    });
    assert!(sees(&harness, "1 run is active and 1 is queued. Stop them or keep them running?"));
    assert!(sees(&harness, "Cancelling stops the active runs, whose results so far are lost"));
    assert!(harness.get_by_label("Don't close").is_focused(), "Enter and Space keep the window");
    click(&mut harness, "Don't close");
    assert_eq!(harness.state().state.closing, Closing::No);
    harness.state_mut().state.close_requested(&context);
    harness.run();
    click(&mut harness, "Cancel runs and close");
    assert!(asked(&harness, &Request::Order(Order::CancelAll)));
    let state = &mut harness.state_mut().state;
    state.poll(&context);
    assert_eq!(state.closing, Closing::WhenEnded, "a run is still ending");
    state.take(UiEvent::Queue(Arc::new(queue(vec![row(1, RunState::Cancelled, 1)]))));
    state.poll(&context);
    assert_eq!(state.closing, Closing::Now);
}

#[test]
fn a_question_that_nobody_answered_goes_with_its_runs_and_the_window_stays() {
    let mut state = state(Vec::new(), vec![row(1, RunState::Running, 1)]);
    let context = Context::default();
    state.close_requested(&context);
    assert_eq!(state.closing, Closing::Asked);
    state.take(UiEvent::Queue(Arc::new(queue(vec![row(1, RunState::Finished, 1)]))));
    state.poll(&context);
    assert_eq!(state.closing, Closing::No);
}

#[test]
fn runs_that_are_kept_running_are_not_cancelled() {
    let mut state = state(Vec::new(), vec![row(1, RunState::Running, 1)]);
    let (context, mut requests) = (Context::default(), Vec::new());
    state.close_requested(&context);
    state.execute(Command::Close(CloseCommand::KeepRunning), &context);
    requests.extend(state.desk.take_requests());
    assert!(requests.is_empty());
    assert_eq!(state.closing, Closing::Now);
}

#[test]
fn rows_keep_their_places_while_the_pointer_aims_at_one() {
    let three = |first, second| vec![row(1, first, 1), row(2, second, 0), row(3, RunState::Queued, 0)];
    let records = vec![
        record(1, "fp32", RunState::Starting),
        record(2, "fp16", RunState::Queued),
        record(3, "fp64", RunState::Queued),
    ];
    let mut harness = window(state(records, three(RunState::Running, RunState::Queued)), State::draw::<RunsScreen>);
    let order = |harness: &Harness<'_, Window>| -> Vec<String> {
        let (runs, rows) = (harness.state().state.own::<RunsScreen>(), &harness.state().state.desk.runs.rows);
        runs.shown.iter().map(|index| rows[*index].number.clone()).collect()
    };
    let aim = harness.get_by_label("Cancel run 2").rect().center();
    harness.hover_at(aim);
    harness.run();
    assert!(harness.state().state.own::<RunsScreen>().pointed_at.is_some());
    let later = queue(three(RunState::Finished, RunState::Running));
    harness.state_mut().state.take(UiEvent::Queue(Arc::new(later)));
    harness.run();
    assert_eq!(order(&harness), ["1", "2", "3"], "the ended run stays above the one that is aimed at");
    harness.hover_at([5.0, 5.0].into());
    harness.run();
    assert_eq!(order(&harness), ["2", "3", "1"]);
}

#[test]
fn cancelling_names_the_run_is_undone_in_place_and_a_run_that_has_started_is_asked_about() {
    let records = vec![record(1, "fp32", RunState::Running), record(2, "fp16", RunState::Queued)];
    let rows = vec![row(1, RunState::Running, 1), row(2, RunState::Queued, 0)];
    let mut harness = window(state(records, rows), shell_ui);
    let second = || "0002-cell-2".to_owned();
    click(&mut harness, "Cancel run 2");
    assert!(asked(&harness, &Request::Order(Order::Cancel(second()))));
    assert!(sees(&harness, "Run 2 (fp16) was taken out of the queue."));
    click(&mut harness, "Undo");
    assert!(asked(&harness, &Request::Order(Order::Revive(second()))));
    assert!(sees(&harness, "Undone: Run 2 (fp16) was taken out") && harness.query_by_label("Undo").is_none());
    let stop = Request::Order(Order::Cancel("0001-cell-1".to_owned()));
    click(&mut harness, "Cancel run 1");
    assert!(sees(&harness, "Stop run 1?") && !asked(&harness, &stop));
    click(&mut harness, "Let it run");
    assert!(!sees(&harness, "Stop run 1?") && !asked(&harness, &stop));
    click(&mut harness, "Cancel run 1");
    click(&mut harness, "Stop run 1");
    assert!(asked(&harness, &stop));
}

#[test]
fn a_cancel_a_retry_and_a_move_are_undone_one_after_the_other_and_done_again() {
    let records = vec![failed(1), record(2, "fp16", RunState::Queued), record(3, "fp32", RunState::Queued)];
    let mut state = state(records, vec![row(2, RunState::Queued, 0), row(3, RunState::Queued, 0)]);
    let context = Context::default();
    let orders = |state: &mut State, command: Command| -> Vec<Order> {
        state.execute(command, &context);
        let order = |request| if let Request::Order(order) = request { Some(order) } else { None };
        state.desk.take_requests().into_iter().filter_map(order).collect()
    };
    let run = |number: u32| format!("{number:04}-cell-{number}");
    orders(&mut state, RunsCommand::Move(run(3), Move::Top).into());
    orders(&mut state, RunsCommand::Retry(run(1)).into());
    orders(&mut state, RunsCommand::Cancel(run(2)).into());
    assert_eq!(orders(&mut state, Command::Undo), [Order::Revive(run(2))]);
    assert!(orders(&mut state, Command::Undo).is_empty(), "the queued run is not known yet");
    assert!(state.desk.problems[0].message.contains("not known yet"), "{:?}", state.desk.problems);
    // It is known: run 4 is the same repeat of the same cell.
    let mut again = record(4, "fp16", RunState::Queued);
    again.repeat = 1;
    let records = vec![failed(1), record(2, "fp16", RunState::Queued), record(3, "fp32", RunState::Queued), again];
    let records = Records { folder: folder(), runs: records.into(), ..Records::default() }.folded();
    state.take(UiEvent::Records(Arc::new(records)));
    assert_eq!(orders(&mut state, RunsCommand::Retry(run(1)).into()), [Order::Retry(run(1))]);
    assert_eq!(orders(&mut state, Command::Undo), [Order::Cancel(run(4))], "not queued a second time");
    assert_eq!(orders(&mut state, Command::Undo), [Order::Reorder(run(3), 1)]);
    assert_eq!(orders(&mut state, Command::Redo), [Order::Reorder(run(3), 0)]);
    assert_eq!(orders(&mut state, Command::Redo), [Order::Retry(run(1))]);
}

#[test]
fn what_is_said_of_a_cancelled_run_or_a_failure_moves_nothing_and_goes_by_itself() {
    let records: Vec<_> = (1..8).map(|number| record(number, "fp32", RunState::Queued)).collect();
    let rows = (1..8).map(|number| row(number, RunState::Queued, 0)).collect();
    let mut harness = window(state(records, rows), shell_ui);
    let place = |harness: &Harness<'_, Window>| harness.get_by_label("Cancel run 5").rect();
    let before = place(&harness);
    click(&mut harness, "Cancel run 3");
    assert!(sees(&harness, "Run 3 was taken out of the queue."));
    assert_eq!(place(&harness), before);
    harness.state_mut().state.desk.problem(ScreenName::RUNS, "the disk is full".to_owned());
    harness.run();
    assert!(sees(&harness, "the disk is full"));
    assert_eq!(place(&harness), before);
    harness.hover_at([5.0, 5.0].into());
    harness.input_mut().time = Some(harness.ctx.input(|input| input.time) + 30.0);
    harness.step();
    harness.input_mut().time = None;
    harness.run_steps(3);
    assert!(!sees(&harness, "was taken out of the queue") && sees(&harness, "the disk is full"));
}

/// The run that an order is about; all of them by another name.
fn object(order: &Order) -> Option<String> {
    match order {
        Order::Cancel(run) | Order::Retry(run) | Order::Revive(run) | Order::Reorder(run, _) => Some(run.clone()),
        Order::CancelAll => Some("all".to_owned()),
        _ => None,
    }
}

/// A queue whose active run ends every now and then, and which obeys.
struct RunningQueue {
    states: Vec<RunState>,
}

impl RunningQueue {
    fn obey(&mut self, orders: &[Order]) {
        for order in orders {
            let number = object(order).and_then(|run| run.split('-').next().and_then(|number| number.parse().ok()));
            let Some(state) = number.and_then(|number: usize| self.states.get_mut(number - 1)) else { continue };
            match order {
                Order::Cancel(_) if !state.is_final() => *state = RunState::Cancelled,
                Order::Revive(_) => *state = RunState::Queued,
                Order::Retry(_) => self.states.push(RunState::Queued),
                _ => {}
            }
        }
    }

    fn advance(&mut self) {
        if let Some(active) = self.states.iter_mut().find(|state| state.is_active()) {
            *active = RunState::Finished;
        }
        if let Some(next) = self.states.iter_mut().find(|state| **state == RunState::Queued) {
            *next = RunState::Running;
        }
    }

    fn events(&self) -> [UiEvent; 2] {
        let numbered = || (1..).zip(self.states.iter().copied());
        let records = numbered().map(|(number, state)| record(number, "fp32", state)).collect();
        let records = Records { folder: folder(), runs: records, ..Records::default() }.folded();
        let rows = numbered().map(|(number, state)| row(number, state, 1)).collect();
        [UiEvent::Records(Arc::new(records)), UiEvent::Queue(Arc::new(queue(rows)))]
    }
}

#[test]
fn a_double_click_anywhere_hits_no_second_object_while_the_queue_runs() {
    let mut queue = RunningQueue { states: vec![RunState::Queued; 60] };
    queue.advance();
    let mut harness = window_by(0.05, state(Vec::new(), Vec::new()), shell_ui);
    let mut seed = 7_u64;
    let mut random = move |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % below
    };
    let mut hits = 0;
    for round in 0..60 {
        queue.events().into_iter().for_each(|event| harness.state_mut().state.take(event));
        // What was under the pointer a second ago is old.
        harness.run_steps(14);
        harness.state_mut().requests.clear();
        let begins = ["Cancel", "Retry", "Undo", "Stop run", "Yes", "No", "Let it", "Dismiss", "⏸", "▶"];
        let is_aim = |label: &str| begins.iter().any(|begin| label.starts_with(begin));
        let nodes =
            harness.query_all_by(|node| node.role() == Role::Button && node.label().is_some_and(|l| is_aim(&l)));
        let aims: Vec<_> =
            nodes.filter(|node| !node.accesskit_node().is_disabled()).map(|node| node.rect().center()).collect();
        let pos = aims[random(aims.len())];
        harness.hover_at(pos);
        harness.step();
        let mut seen = 0;
        let mut orders = Vec::new();
        for half in 0..2 {
            for pressed in [true, false] {
                harness.event(eframe::egui::Event::PointerButton {
                    pos,
                    button: eframe::egui::PointerButton::Primary,
                    pressed,
                    modifiers: Modifiers::default(),
                });
                harness.step();
            }
            let all = &harness.state().requests;
            let new = all[seen..].iter().filter_map(|request| match request {
                Request::Order(order) => Some(order.clone()),
                _ => None,
            });
            let new: Vec<Order> = new.collect();
            seen = all.len();
            queue.obey(&new);
            orders.extend(new);
            if half == 0 {
                // Something happens between the two clicks.
                if random(2) == 0 {
                    queue.advance();
                }
                queue.events().into_iter().for_each(|event| harness.state_mut().state.take(event));
                harness.run_steps(1 + random(3));
            }
        }
        let mut objects: Vec<String> = orders.iter().filter_map(object).collect();
        objects.dedup();
        assert!(objects.len() <= 1 && orders.len() <= 1, "round {round}: {orders:?}");
        hits += orders.len();
        if queue.states.iter().all(|state| state.is_final()) {
            queue.states.extend([RunState::Queued; 30]);
        }
    }
    assert!(hits > 10, "only {hits} clicks did anything");
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
fn closing_with_unsaved_edits_asks_whether_to_save_them() {
    let (context, mut requests) = (Context::default(), Vec::new());
    let mut state = state(Vec::new(), Vec::new());
    state.close_requested(&context);
    assert_eq!(state.closing, Closing::No, "nothing would be lost: the window closes");
    state.execute(seven_repeats(&state), &context);
    requests.extend(state.desk.take_requests());
    state.close_requested(&context);
    let mut harness = window(state, |ui, state, commands| {
        closing::close_ui(ui, state.closing, &state.desk, &|| state.unsaved(), commands);
    });
    assert!(sees(&harness, "has changes that are not saved"));
    click(&mut harness, "Don't close");
    assert_eq!(harness.state().state.closing, Closing::No);
    harness.state_mut().state.close_requested(&context);
    harness.run();
    click(&mut harness, "Save and close");
    assert_eq!(harness.state().state.closing, Closing::WhenSaved);
    let state = &mut harness.state_mut().state;
    state.poll(&context);
    assert_eq!(state.closing, Closing::WhenSaved, "the path of the file is asked for");
    state.execute(Command::from(PlanCommand::CloseQuestion), &context);
    requests.extend(state.desk.take_requests());
    state.poll(&context);
    assert_eq!(state.closing, Closing::No, "without a path nothing is saved, and the window stays");
    state.close_requested(&context);
    state.execute(Command::Close(CloseCommand::DiscardEdits), &context);
    requests.extend(state.desk.take_requests());
    assert_eq!(state.closing, Closing::Now);
}

#[test]
fn edits_that_were_launched_are_kept_by_the_session_and_need_no_question() {
    use crate::app::engine::SessionPlan;
    let (context, mut requests) = (Context::default(), Vec::new());
    let mut state = state(Vec::new(), Vec::new());
    state.execute(seven_repeats(&state), &context);
    requests.extend(state.desk.take_requests());
    let launched =
        SessionPlan { name: "quickstart".to_owned(), toml: state.own::<PlanScreen>().plan().to_toml(), folder: None };
    let records = Records { folder: folder(), plans: vec![launched], ..Records::default() };
    state.take(UiEvent::Records(Arc::new(records)));
    state.close_requested(&context);
    assert_eq!(state.closing, Closing::No);
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
fn an_old_message_goes_when_the_same_is_tried_again_an_order_is_done_or_another_session_opened() {
    let mut state = state(Vec::new(), Vec::new());
    let context = Context::default();
    let copy = |state: &mut State| state.execute(Command::CopyCommand, &context);
    state.desk.screen = ScreenName::PLAN;
    copy(&mut state);
    copy(&mut state);
    assert_eq!(state.desk.problems.len(), 1, "{:?}", state.desk.problems);
    state.desk.screen = ScreenName::NODE;
    copy(&mut state);
    assert!(state.desk.problems.is_empty(), "what works now did not work before: {:?}", state.desk.problems);
    let failed = |screen| UiEvent::Problem { screen, message: "failed".to_owned() };
    state.take(failed(ScreenName::RUNS));
    state.take(failed(ScreenName::COMPARE));
    state.take(UiEvent::Done(ScreenName::RUNS));
    assert_eq!(state.desk.problems.iter().map(|problem| problem.screen).collect::<Vec<_>>(), [ScreenName::COMPARE]);
    state.take(UiEvent::Session { folder: "/sessions/other".into(), read_only: None });
    assert!(state.desk.problems.is_empty());
}

#[test]
fn a_session_that_is_opened_again_keeps_what_was_read_of_it() {
    let mut state = state(vec![record(1, "fp32", RunState::Finished)], vec![row(2, RunState::Queued, 0)]);
    assert_eq!(state.desk.runs.rows.len(), 2);
    let read_only = Some("Read-only: its conductor is of another version".to_owned());
    state.take(UiEvent::Session { folder: folder(), read_only: read_only.clone() });
    assert_eq!(
        (state.desk.records.runs.len(), state.desk.runs.rows.len()),
        (1, 1),
        "no moment without its runs, and none of the old queue"
    );
    assert_eq!(state.desk.session.as_ref().unwrap().read_only, read_only);
    state.take(UiEvent::Session { folder: "/sessions/other".into(), read_only: None });
    assert_eq!((state.desk.records.runs.len(), state.desk.runs.rows.len()), (0, 0));
}

#[test]
fn an_export_leaves_the_menu_open_and_says_there_what_came_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let session = folder.path().join("study");
    drop(crate::store::Store::create(&session, &crate::plan::fixture::cpu_node()).unwrap());
    let mut state = State::new(Settings::default());
    state.desk.session = Some(OpenSession { folder: session, read_only: None });
    let mut harness = window(state, session_menu);
    click(&mut harness, "Session: study");
    let mut export = |path: &str| {
        harness.get_by_label("Path of the archive to write").focus();
        harness.run();
        harness.get_by_label("Path of the archive to write").type_text(path);
        harness.run();
        harness.get_by_role_and_label(Role::Button, "Export session").click();
        // The transfer asks for frames as it goes on.
        harness.run_steps(2);
        let context = harness.ctx.clone();
        while harness.state().state.sessions.is_transferring() {
            harness.state_mut().state.poll(&context);
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        harness.run();
        let message = harness
            .query_all_by_label_contains("study.zip")
            .find_map(|message| message.value().or(message.accesskit_node().label()));
        let typed = harness.get_by_label("Path of the archive to write").value();
        (message.unwrap_or_default(), typed)
    };
    let path = folder.path().join("study").display().to_string();
    let (said, typed) = export(&path);
    assert!(said.contains("study.zip written and checked"), "{said}");
    assert_eq!(typed.as_deref(), Some(&*path), "what was typed stays");
    let (said, _) = export("");
    assert!(said.contains("this file or folder exists already"), "{said}");
}

#[test]
fn a_session_that_is_being_read_is_not_called_empty() {
    let mut state = State::new(Settings::default());
    state.desk.session = Some(OpenSession { folder: "/sessions/study".into(), read_only: None });
    let mut harness = window(state, State::draw::<RunsScreen>);
    assert!(sees(&harness, "Reading the session …") && !sees(&harness, "No runs yet"));
    let records = Records { folder: "/sessions/study".into(), ..Records::default() }.folded();
    harness.state_mut().state.take(UiEvent::Records(Arc::new(records)));
    harness.run();
    assert!(sees(&harness, "No runs yet") && !sees(&harness, "Reading the session …"));
}

#[test]
fn numbers_of_runs_are_whole_however_long() {
    let harness =
        window(state(vec![record(12_345, "fp32", RunState::Finished)], Vec::new()), State::draw::<RunsScreen>);
    let numbers: Vec<_> = harness.query_all_by_label("12345").map(|number| number.rect()).collect();
    assert!(!numbers.is_empty() && numbers.iter().all(|number| number.left() >= 0.0), "{numbers:?}");
}

#[test]
fn the_session_menu_says_what_the_sample_is_as_plain_text() {
    use crate::app::sample;
    use eframe::egui::Shape;
    let mut state = State::new(Settings::default());
    let folder = PathBuf::from("/data/multicard/samples/one-h100");
    state.desk.session = Some(OpenSession { folder, read_only: Some(sample::ABOUT.to_owned()) });
    let mut harness = window(state, session_menu);
    click(&mut harness, &format!("Session: {}", sample::NAME));
    let warning = theme::palette(&harness.ctx.global_style().visuals).warning;
    let shown = harness.output().shapes.iter().filter_map(|clipped| match &clipped.shape {
        Shape::Text(text) if text.galley.text() == sample::ABOUT => Some(text.galley.job.clone()),
        _ => None,
    });
    let shown: Vec<_> = shown.collect();
    let [job] = &shown[..] else { panic!("{shown:?}") };
    assert!(!job.justify && job.sections.iter().all(|part| part.format.color != warning), "{job:?}");
}

#[test]
fn hints_stand_in_the_middle_of_their_fields() {
    use eframe::egui::Shape;
    let mut harness = window(State::new(Settings::default()), session_menu);
    click(&mut harness, "Session: no session yet");
    let field = harness.get_by_label("Name of the new session").rect();
    let hints = harness.output().shapes.iter().filter_map(|clipped| match &clipped.shape {
        Shape::Text(text) if text.galley.text().starts_with("a name, such as") => Some(text.visual_bounding_rect()),
        _ => None,
    });
    let hints: Vec<_> = hints.collect();
    let [hint] = hints[..] else { panic!("{hints:?}") };
    assert!((hint.center().y - field.center().y).abs() <= 2.0, "{hint:?} in {field:?}");
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
fn windows_of_two_sessions_have_titles_of_their_own() {
    let mut state = state(Vec::new(), Vec::new());
    let first = state.title();
    state.take(UiEvent::Session { folder: "/sessions/other".into(), read_only: None });
    assert_eq!((first.as_str(), state.title().as_str()), ("study – multicard", "other – multicard"));
    assert_eq!(State::new(Settings::default()).title(), "multicard");
}

#[test]
fn names_that_a_column_has_no_room_for_show_in_what_they_differ() {
    let papers = "2503.15252, 2505.22905 and what else was printed of it, ".repeat(3);
    let records = [(1, "Table 2: precision"), (2, "Table 3: pin_memory")].map(|(number, of)| {
        let mut record = record(number, "fp32", RunState::Finished);
        record.plan = format!("{papers}{of}");
        record
    });
    let harness = window(state(records.to_vec(), Vec::new()), State::draw::<RunsScreen>);
    harness.get_by_label("… 2: precision");
    harness.get_by_label("… 3: pin_memory");
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
    let times: Vec<_> = state.desk.runs.rows.iter().map(|row| row.elapsed_s(2_000.0).map(list::clock_text)).collect();
    assert_eq!(times, [Some("0.4 s".to_owned()), None]);
    let harness = window(state, State::draw::<RunsScreen>);
    assert!(sees(&harness, "0.4 s") && !sees(&harness, "0:00"));
}
