//! Metrics of traced runs and reports on the Compare screen, and how reports get there.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::sync::Arc;

use eframe::egui::{CentralPanel, Context, Ui};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable;

use crate::analysis::{MetricUnit, TRACE_METRICS, fixture, summarise_report, summarise_run};
use crate::app::compare::{CompareCommand, compare_ui};
use crate::app::engine::Records;
use crate::app::state::OpenSession;
use crate::app::{Command, Report, Request, Screen, Settings, State, theme};
use crate::figure::Kind;

/// One plain run, two traced repeats of it whose pinning did not take effect, and a report from elsewhere.
fn records() -> Arc<Records> {
    let plain = fixture::run(&fixture::cell("fp16", 1, "single"), 1, 0.01);
    let runs = vec![plain, fixture::traced(1, 1.0), fixture::traced(2, 2.0)];
    let summaries = runs.iter().map(summarise_run).collect();
    let reports = vec![summarise_report("elsewhere", fixture::trace(4.0, 4.0))];
    Arc::new(Records { folder: PathBuf::from("/sessions/study"), runs, summaries, reports, pending: 0 })
}

fn state() -> State {
    let mut state = State::new(Settings::default());
    state.session = Some(OpenSession { folder: PathBuf::from("/sessions/study"), read_only: None });
    state.records = records();
    state.screen = Screen::Compare;
    state.compare.records_changed();
    settle(&mut state);
    state
}

fn settle(state: &mut State) {
    while state.is_comparing() {
        state.poll_compare(&Context::default(), &mut Vec::new());
        std::thread::yield_now();
    }
}

fn execute(state: &mut State, command: Command) -> Vec<Request> {
    let mut requests = Vec::new();
    state.execute(command, &Context::default(), &mut requests);
    settle(state);
    requests
}

struct Screened {
    state: State,
    commands: Vec<Command>,
}

fn harness(state: State) -> Harness<'static, Screened> {
    let mut fresh = true;
    let draw = move |ui: &mut Ui, screened: &mut Screened| {
        if std::mem::take(&mut fresh) {
            theme::install(ui.ctx());
            screened.state.settings.apply(ui.ctx());
            // Fonts are there from the next frame on.
            ui.ctx().request_discard("fonts");
            return;
        }
        CentralPanel::default().show(ui, |ui| compare_ui(ui, &screened.state, &mut screened.commands));
    };
    let screened = Screened { state, commands: Vec::new() };
    let mut harness = Harness::builder().with_size([1280.0, 800.0]).build_ui_state(draw, screened);
    harness.run();
    harness
}

#[test]
fn traced_runs_and_reports_are_left_out_of_bars_until_asked_and_compared_as_metrics() {
    let mut state = state();
    let cells = |state: &State| state.compare.picture.as_ref().unwrap().comparison.cells.len();
    assert_eq!(cells(&state), 1);
    execute(&mut state, Command::Compare(CompareCommand::Traced(true)));
    assert_eq!(cells(&state), 2);
    execute(&mut state, Command::Compare(CompareCommand::Kind(Kind::Metrics)));
    assert_eq!(cells(&state), 2);
    let mut harness = harness(state);
    harness.get_by_label_contains("elsewhere: CUDA memcpy Host-to-Device 4.00 s");
    harness.get_by_label_contains("Marks of");
    harness.get_by_label("In percent_of_shown").click();
    harness.run();
    let asked = std::mem::take(&mut harness.state_mut().commands);
    assert_eq!(asked, [Command::Compare(CompareCommand::MetricUnit(MetricUnit::OfShown))]);
}

#[test]
fn a_metric_that_is_not_chosen_is_in_no_bar() {
    let mut state = state();
    execute(&mut state, Command::Compare(CompareCommand::Kind(Kind::Metrics)));
    let series = |state: &State| state.compare.picture.as_ref().unwrap().comparison.charts[0].series().count();
    let before = series(&state);
    let key = TRACE_METRICS[0].key;
    execute(&mut state, Command::Compare(CompareCommand::ShowMetric(key, false)));
    assert_eq!(series(&state), before - 1);
}

#[test]
fn a_report_dropped_on_the_window_is_attached_where_a_session_can_be_written() {
    let mut state = state();
    let report = PathBuf::from("/elsewhere/run.nsys-rep");
    let drop = || Command::Dropped(vec![report.clone()]);
    assert_eq!(execute(&mut state, drop()), [Request::Attach(report.clone(), None)]);
    state.session.as_mut().unwrap().read_only = Some("another workbench writes it".to_owned());
    assert_eq!(execute(&mut state, drop()), []);
    assert!(state.problems.last().unwrap().message.contains("another workbench writes it"));
    state.session = None;
    assert_eq!(execute(&mut state, drop()), []);
    assert!(state.problems.last().unwrap().message.contains("none is open"));
}

#[test]
fn an_import_shows_how_far_it_is_and_can_be_cancelled() {
    let mut state = state();
    state.take(Report::Importing(Some(("elsewhere".to_owned(), 0.4))));
    let mut harness = harness(state);
    harness.get_by_label("Cancel import").click();
    harness.run();
    assert_eq!(harness.state().commands, [Command::CancelImports]);
}
