//! Metrics of traced runs and reports on the Compare screen, and how reports get there.

use super::*;
use crate::analysis::{MetricUnit, TRACE_METRICS, summarise_report};
use crate::app::UiEvent;
use crate::conduct::Order;
use crate::figure::Runs;

/// One plain run, two traced repeats of it whose pinning did not take effect, and a report from elsewhere.
fn traced() -> Arc<Records> {
    let plain = fixture::run(&fixture::cell("fp16", 1, "single"), 1, 0.01);
    let runs = vec![plain, fixture::traced(1, 1.0), fixture::traced(2, 2.0)];
    let summaries = runs.iter().map(summarise_run).collect();
    let reports = vec![summarise_report("elsewhere", fixture::trace(4.0, 4.0))];
    Arc::new(
        Records { folder: PathBuf::from("/sessions/study"), runs, summaries, reports, ..Records::default() }.folded(),
    )
}

fn state() -> State {
    state_of(traced())
}

fn execute(state: &mut State, command: Command) -> Vec<Request> {
    let mut requests = Vec::new();
    state.execute(command, &Context::default());
    requests.extend(state.desk.take_requests());
    settle(state);
    requests
}

#[test]
fn traced_runs_and_reports_are_left_out_of_bars_until_asked_and_compared_as_metrics() {
    let mut state = state();
    let cells = |state: &State| state.own::<CompareScreen>().picture.as_ref().unwrap().comparison.cells.len();
    assert_eq!(cells(&state), 1);
    change(&mut state, |study| study.runs = Runs::All);
    assert_eq!(cells(&state), 2);
    send(&mut state, CompareCommand::Form(Form::Metrics));
    assert_eq!(cells(&state), 2);
    let mut harness = harness(state, [1280.0, 800.0]);
    harness.get_by_label_contains("elsewhere: CUDA memcpy Host-to-Device 4.00 s");
    harness.get_by_label("In % of shown").click();
    let commands = asked(&mut harness);
    assert_eq!(edited(&commands).metric_unit, MetricUnit::OfShown);
    send(&mut harness.state_mut().state, commands[0].clone());
    harness.run();
    harness.get_by_label_contains("elsewhere: CUDA memcpy Host-to-Device");
    let parts = harness.query_all_by_label_contains("Part Cell fp16-nsys");
    let widest = parts.max_by(|a, b| a.rect().width().total_cmp(&b.rect().width()));
    widest.unwrap().hover();
    harness.run_steps(4);
    harness.get_by_label_contains("⚠ ");
}

#[test]
fn a_metric_that_is_not_chosen_is_in_no_bar() {
    let mut state = state();
    send(&mut state, CompareCommand::Form(Form::Metrics));
    let series =
        |state: &State| state.own::<CompareScreen>().picture.as_ref().unwrap().comparison.charts[0].series().count();
    let before = series(&state);
    let key = TRACE_METRICS[0].key;
    change(&mut state, |study| study.metrics.retain(|known| **known != *key));
    assert_eq!(series(&state), before - 1);
}

#[test]
fn a_report_dropped_on_the_window_is_attached_where_a_session_can_be_written() {
    let mut state = state();
    let report = PathBuf::from("/elsewhere/run.nsys-rep");
    let drop = || Command::Dropped(vec![report.clone()]);
    assert_eq!(execute(&mut state, drop()), [Request::Order(Order::Attach(report.clone(), None))]);
    // Traces of PyTorch's profiler are told by what is in them: other JSON is not attached.
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/torch-profiler");
    for (path, is_trace) in
        [("cpu-ddp.rank0.json.gz", true), ("", true), ("cpu-recorded.json", false), ("record.py", false)]
    {
        let path = traces.join(path);
        let attached = Request::Order(Order::Attach(path.clone(), None));
        let expected = if is_trace { vec![attached] } else { Vec::new() };
        assert_eq!(execute(&mut state, Command::Dropped(vec![path])), expected);
    }
    state.desk.session.as_mut().unwrap().read_only =
        Some("Read-only: another window is writing this session".to_owned());
    assert_eq!(execute(&mut state, drop()), []);
    assert!(state.desk.problems.last().unwrap().message.contains("another window is writing"));
    state.desk.session = None;
    assert_eq!(execute(&mut state, drop()), []);
    assert!(state.desk.problems.last().unwrap().message.contains("none is open"));
}

#[test]
fn an_import_shows_how_far_it_is_and_can_be_cancelled() {
    let mut state = state();
    state.take(UiEvent::Importing(Some(("elsewhere".to_owned(), 0.4))));
    let mut harness = harness(state, [1280.0, 800.0]);
    harness.get_by_label("Cancel import").click();
    harness.run();
    assert_eq!(harness.state().commands, [Command::CancelImports]);
}

#[test]
fn where_nothing_was_traced_there_is_no_legend_and_no_filter_is_blamed() {
    let mut state = state_of(records("s", small()));
    send(&mut state, CompareCommand::Form(Form::Metrics));
    let charts = &state.own::<CompareScreen>().picture.as_ref().unwrap().comparison.charts;
    assert!(charts.iter().all(|chart| chart.legend().is_empty()));
    let harness = harness(state, [1280.0, 800.0]);
    harness.get_by_label_contains("launch a plan with tracing on, or attach a report");
    harness.get_by_label("No run here has a profiler's report.");
    assert!(harness.query_by_label_contains("No cell matches the filter").is_none());
}
