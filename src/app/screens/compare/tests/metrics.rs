//! Metrics of traced runs and reports on the Compare screen, and how reports get there.

use super::*;
use crate::analysis::{MetricUnit, TRACE_METRICS, summarise_report};
use crate::app::UiEvent;
use crate::conduct::Order;
use crate::figure::Runs;
use crate::protocol::{TraceEntry, TraceLists, TraceOutcome};

/// One plain run, two traced repeats of it whose pinning did not take effect, and a report from elsewhere.
fn traced() -> Arc<Records> {
    let plain = fixture::run(&fixture::cell("fp16", 1, "single"), 1, 0.01);
    let runs = vec![plain, fixture::traced(1, 1.0), fixture::traced(2, 2.0)];
    let summaries = runs.iter().map(summarise_run).collect();
    let reports = vec![summarise_report("elsewhere", fixture::trace(4.0, 4.0))];
    Arc::new(
        Records {
            folder: PathBuf::from("/sessions/study"),
            runs: runs.into(),
            summaries,
            reports,
            ..Records::default()
        }
        .folded(),
    )
}

fn state() -> State {
    state_of(traced())
}

fn execute(state: &mut State, command: Command) -> Vec<Request> {
    state.execute(command, &Context::default());
    let requests = state.desk.take_requests();
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
    harness.get_by_label("No run here has a recording with work of GPUs.");
    assert!(harness.query_by_label_contains("No cell matches the filter").is_none());
}

#[test]
fn a_kernel_of_the_recordings_becomes_the_measure_by_its_name_or_by_a_pattern() {
    let entry = |name: &str, seconds: f64| TraceEntry { name: name.to_owned(), calls: 10, seconds, place: None };
    let recorded = |repeat: u32| {
        let mut run = fixture::traced(repeat, 1.0);
        let slower = 1.0 + 0.01 * f64::from(repeat);
        let kernels = vec![entry("ampere_sgemm_64x64_nn", 2.0 * slower), entry("void relu<float>(float *)", 1.0)];
        let lists = TraceLists { ranks: 1, steps: 10, kernels, ..TraceLists::default() };
        let Some(TraceOutcome::Imported(trace)) = &mut run.trace else { panic!("it was traced") };
        trace.lists = Some(Arc::new(lists));
        run
    };
    let plain = fixture::run(&fixture::cell("fp16", 1, "single"), 1, 0.01);
    let mut harness = harness(state_of(records("s", vec![plain, recorded(1), recorded(2)])), [1280.0, 800.0]);
    let open = |harness: &mut Harness<'_, Screened>| {
        harness.get_by_label("Of recordings").click();
        harness.run();
    };
    open(&mut harness);
    harness.get_by_label("void relu<float>(float *)").click();
    let commands = asked(&mut harness);
    assert_eq!(edited(&commands).measure.as_deref(), Some(r"kernel:^void relu<float>\(float \*\)$"));
    open(&mut harness);
    harness.get_by_label("Search names, or a pattern").focus();
    harness.run();
    harness.get_by_label("Search names, or a pattern").type_text("s?gemm");
    harness.run();
    assert!(harness.query_by_label("void relu<float>(float *)").is_none());
    harness.get_by_label("Number").click();
    harness.run();
    harness.get_by_label("kernels with s?gemm: 1 name").click();
    let commands = asked(&mut harness);
    assert_eq!(edited(&commands).measure.as_deref(), Some("kernel.count:s?gemm"));
    // The measure is drawn: the recorded cell alone has it.
    let mut state = harness.into_state().state;
    change(&mut state, |study| study.measure = Some("kernel.per_step:sgemm".into()));
    let comparison = &state.own::<CompareScreen>().picture.as_ref().unwrap().comparison;
    assert!(!comparison.missing.iter().any(|line| line.contains("measure")), "{:?}", comparison.missing);
    assert_eq!(comparison.cells.len(), 1);
    assert_eq!(column(&state, "kernel.per_step:sgemm").len(), 1);
    change(&mut state, |study| study.measure = Some("kernel:cudnn".into()));
    let missing = &state.own::<CompareScreen>().picture.as_ref().unwrap().comparison.missing;
    assert!(missing.iter().any(|line| line.contains("none of its 2 kernels matches")), "{missing:?}");
    change(&mut state, |study| study.measure = Some("kernel:a(b".into()));
    let missing = &state.own::<CompareScreen>().picture.as_ref().unwrap().comparison.missing;
    assert!(missing.iter().any(|line| line.contains("unclosed group, at")), "{missing:?}");
}

#[test]
fn a_report_is_attached_by_its_path_which_is_typed_after_a_click_into_the_field() {
    let mut harness = harness(state(), [1280.0, 800.0]);
    harness.get_by_label("Attach a report").click();
    harness.run();
    harness.get_by_label("Path of a report").click();
    harness.run();
    harness.get_by_label("Path of a report").type_text("/elsewhere/run.sqlite");
    harness.run();
    harness.get_by_label("Attach this report").click();
    harness.run();
    let attached = Command::Attach(PathBuf::from("/elsewhere/run.sqlite"), None);
    assert_eq!(harness.state().commands, [attached]);
}

#[test]
fn the_menu_of_metrics_stays_open_while_metrics_are_ticked() {
    let mut state = state();
    send(&mut state, CompareCommand::Form(Form::Metrics));
    let chosen = |state: &State| state.own::<CompareScreen>().study.metrics.clone();
    let before = chosen(&state);
    let mut harness = harness(state, [1280.0, 800.0]);
    harness.get_by_label(&format!("{} of {} metrics", before.len(), TRACE_METRICS.len())).click();
    harness.run();
    for kind in &TRACE_METRICS[..2] {
        harness.get_by_label(&format!("Metric {}", kind.name)).click();
        obey(&mut harness);
        let is_in = |keys: &[Key]| keys.iter().any(|key| **key == *kind.key);
        assert_ne!(is_in(&before), is_in(&chosen(&harness.state().state)), "{}", kind.name);
    }
}
