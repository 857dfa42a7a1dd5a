//! The Plan screen driven by accessible names, without a display.
#![allow(clippy::unwrap_used)]

mod blocks;
mod command;
mod constraints;
mod design;
mod files;
mod search;

use std::sync::Arc;
use std::time::{Duration, Instant};

use eframe::egui::accesskit::Role;
use eframe::egui::{Context, Key, Modifiers, Ui};
use egui_kittest::Harness;
use egui_kittest::kittest::{NodeT as _, Queryable as _};

use super::*;
use crate::analysis::fixture;
use crate::app::command::edit as send_edit;
use crate::app::engine::{Request, SessionPlan, UiEvent};
use crate::app::{Settings, Window as State};
use crate::conduct::{QueueRow, QueueView};
use crate::figure::{duration_text, grouped, significant};
use crate::plan::fixture::{cpu_node, gpu_node};
use crate::plan::{Capture, Node, RunState, Tracer, Tracing};
use crate::plan::{Level, Mode, Order, Remark, image};
use crate::protocol::{Environment, HostSample, IMPORTED_FROM, Sample};
use crate::store::RunRecord;

/// The window with its state and requests.
struct Screened {
    state: State,
    commands: Vec<Command>,
    requests: Vec<Request>,
    context: Context,
    has_fonts: bool,
}

impl Screened {
    fn ui(&mut self, ui: &mut Ui) {
        if !std::mem::replace(&mut self.has_fonts, true) {
            // Fonts are available from the next frame on.
            crate::app::theme::install(ui.ctx());
            ui.request_repaint();
            return;
        }
        self.context = ui.ctx().clone();
        crate::app::keys::commands(ui.ctx(), &self.state, &mut self.commands);
        State::draw::<PlanScreen>(ui, &self.state, &mut self.commands);
    }

    /// Executes what was clicked, and waits for the work it started.
    fn settle(&mut self) {
        for command in std::mem::take(&mut self.commands) {
            self.state.execute(command, &self.context);
            self.requests.extend(self.state.desk.take_requests());
        }
        let start = Instant::now();
        loop {
            self.state.poll(&self.context);
            self.requests.extend(self.state.desk.take_requests());
            let plan = &self.state.own::<PlanScreen>();
            let dialog = plan.question.as_ref().is_some_and(|question| question.dialog.is_some());
            let busy = plan.pending.is_some() || plan.opening.is_some() || plan.saving.is_some() || dialog;
            if !busy {
                return;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "background work does not end");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

type Window = Harness<'static, Screened>;

fn window_of(node: Option<Node>) -> Window {
    let mut state = State::new(Settings::default());
    if let Some(node) = node {
        state.take(UiEvent::Node(Arc::new(node)));
    }
    let screened =
        Screened { state, commands: Vec::new(), requests: Vec::new(), context: Context::default(), has_fonts: false };
    let mut window = Harness::builder()
        .with_size([1600.0, 1400.0])
        .with_max_steps(16)
        .build_ui_state(|ui, screened: &mut Screened| screened.ui(ui), screened);
    settle(&mut window);
    window
}

fn settle(window: &mut Window) {
    window.run();
    window.state_mut().settle();
    window.run();
}

fn click(window: &mut Window, name: &str) {
    window.get_by_label(name).click();
    settle(window);
}

fn execute(window: &mut Window, command: PlanCommand) {
    window.state_mut().commands.push(Command::from(command));
    settle(window);
}

/// Executes an edit of the plan.
fn change(window: &mut Window, kind: Option<EditKind>, change: impl FnOnce(&mut Plan)) {
    let screened = window.state_mut();
    send_edit::<PlanCommand>(&mut screened.commands, screened.state.own::<PlanScreen>().plan(), kind, change);
    settle(window);
}

/// What is known of the plan as it stands.
fn outlook(state: &State) -> Option<&Arc<Outlook>> {
    View { own: state.own(), desk: &state.desk }.outlook()
}

/// Ticks levels of a factor.
fn add(plan: &mut Plan, key: &str, levels: impl IntoIterator<Item = Level>) {
    let spec = Arc::clone(&plan.first.spec);
    *plan = edit::with_levels(plan, spec.factor(key).unwrap(), &levels.into_iter().collect::<Vec<_>>());
}

fn ticked(window: &Window, key: &str) -> Vec<String> {
    window.state().state.own::<PlanScreen>().plan().first.levels(key).iter().map(ToString::to_string).collect()
}

fn type_into(window: &mut Window, name: &str, text: &str) {
    // A field may have a label of the same name before it.
    window.get_all_by_label(name).last().unwrap().focus();
    window.run();
    window.get_all_by_label(name).last().unwrap().type_text(text);
    settle(window);
}

fn says(window: &Window, text: &str) -> bool {
    window.query_all_by_label_contains(text).next().is_some()
}

fn messages(window: &Window) -> String {
    let problems = window.state().state.desk.problems.iter();
    problems.map(|problem| problem.message.clone()).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_sites_of_the_user_are_a_choice_of_the_plan_and_what_a_site_refuses_is_a_warning() {
    let mut window = window_of(Some(gpu_node(1)));
    assert!(window.query_by_label("Where this machine").is_none(), "there is no choice without a site");
    window.state_mut().state.take(UiEvent::Sites(vec!["lab".to_owned()]));
    settle(&mut window);
    let site = |window: &Window| window.state().state.own::<PlanScreen>().plan().site.clone();
    click(&mut window, "Where lab");
    assert_eq!(site(&window).as_deref(), Some("lab"));
    let remarks = outlook(&window.state().state).unwrap().remarks.clone();
    let warns = |remark: &Remark| remark.is_warning && remark.text.contains("there is no site \"lab\"");
    assert!(remarks.iter().any(warns), "{remarks:?}");
    click(&mut window, "Where this machine");
    assert_eq!(site(&window), None);
}

#[test]
fn long_warnings_scroll_in_a_small_window_and_leave_room_for_the_cells() {
    let mut window = window_of(Some(cpu_node()));
    change(&mut window, None, |plan| {
        plan.mode = Mode::Quick { step_precision: 0.05 };
        plan.tracing = Tracing::by(&Tracer::ALL, Capture::Whole);
        plan.limits.exclusive = false;
        plan.limits.run_time_s = Some(1e-3);
    });
    let height = 420.0;
    window.set_size([900.0, height].into());
    window.run();
    assert!(says(&window, "mode = quick: runs end once") && says(&window, "runs share the machine"));
    let heading = window.get_by_label("#").rect();
    assert!(heading.bottom() < height - 60.0, "the cells begin at {heading:?}");
}

#[test]
fn a_first_window_has_quickstart_ticked_and_can_launch_it() {
    let mut window = window_of(Some(cpu_node()));
    assert_eq!(ticked(&window, "precision"), ["fp32", "fp64"]);
    click(&mut window, "Launch 6 runs");
    let expected = start::first_plan();
    let sent = Request::Launch { plan: Box::new(expected), only_missing: false };
    assert_eq!(window.state().requests, [sent]);
}

#[test]
fn a_plan_is_launched_beside_the_sample_session_and_not_into_it() {
    let mut window = window_of(Some(cpu_node()));
    let folder = PathBuf::from("/home/me/.local/share/multicard/samples/one-h100");
    let read_only = Some("Sample".to_owned());
    let state = &mut window.state_mut().state;
    state.take(UiEvent::Session { folder: folder.clone(), read_only });
    let of_sample =
        SessionPlan { name: "table".to_owned(), toml: Plan::new("table", image::spec()).to_toml(), folder: None };
    state.take(UiEvent::Records(Arc::new(Records { folder, plans: vec![of_sample], ..Records::default() })));
    assert!(state.desk.settings.recent.is_empty(), "it is no session of the user");
    assert_eq!(state.title(), "sample: one H100 GPU – multicard");
    settle(&mut window);
    assert_eq!(window.state().state.own::<PlanScreen>().plan().name, "quickstart", "the plan stays");
    assert!(window.query_by_label_contains("into a new session").is_some());
    click(&mut window, "Launch 6 runs");
    assert!(matches!(window.state().requests[..], [Request::Launch { .. }]), "{}", messages(&window));
    window.state_mut().state.take(UiEvent::SampleClosed);
    assert!(window.state().state.desk.session.is_none() && window.state().state.desk.records.plans.is_empty());
}

#[test]
fn a_launch_into_a_session_of_imported_runs_asks_first() {
    let mut window = window_of(Some(cpu_node()));
    let mut environment = Environment::default();
    environment.set(IMPORTED_FROM, Some("other.csv (CSV)"));
    let imported = RunRecord { environment: Some(Arc::new(environment)), ..fixture::finished() };
    let (folder, own) = (PathBuf::from("/sessions/others"), fixture::run(&fixture::cell("fp64", 1, "single"), 1, 0.1));
    let records = |runs: Vec<RunRecord>| {
        UiEvent::Records(Arc::new(Records { folder: folder.clone(), runs: runs.into(), ..Records::default() }.folded()))
    };
    let launches = |window: &Window| {
        window.state().requests.iter().filter(|request| matches!(request, Request::Launch { .. })).count()
    };
    let state = &mut window.state_mut().state;
    state.take(UiEvent::Session { folder: folder.clone(), read_only: None });
    state.take(records(vec![imported.clone()]));
    settle(&mut window);
    assert!(says(&window, "All runs of this session were imported"));
    click(&mut window, "Launch 6 runs");
    assert!(says(&window, "Launch into others?") && launches(&window) == 0);
    click(&mut window, "Stay");
    assert!(!says(&window, "Launch into others?") && launches(&window) == 0);
    click(&mut window, "Launch 6 runs");
    click(&mut window, "Launch into others");
    assert_eq!(launches(&window), 1, "{}", messages(&window));
    window.state_mut().state.take(records(vec![imported, own]));
    settle(&mut window);
    assert!(!says(&window, "All runs of this session were imported"), "it has runs of its own now");
}

#[test]
fn ticking_a_level_changes_the_plan_and_the_count() {
    let mut window = window_of(Some(cpu_node()));
    assert!(window.query_by_label_contains("6 runs · 2 cells × 3").is_some());
    click(&mut window, "Precision bf16");
    assert_eq!(ticked(&window, "precision"), ["fp32", "fp64", "bf16"]);
    assert!(window.query_by_label_contains("9 runs · 3 cells × 3").is_some());
    click(&mut window, "Launch 9 runs");
    let Some(Request::Launch { plan, .. }) = window.state().requests.first() else { panic!("nothing was launched") };
    assert_eq!(plan.first.levels("precision").len(), 3);
}

#[test]
fn a_level_that_cannot_run_is_disabled_with_its_reason_and_a_click_does_nothing() {
    let mut window = window_of(Some(cpu_node()));
    let name = "Precision fp16, cannot run: fp16 needs CUDA (the driver is missing): use bf16, fp32 or fp64";
    assert!(window.get_by_label(name).accesskit_node().is_disabled());
    assert!(!window.get_by_label("Precision bf16").accesskit_node().is_disabled());
    click(&mut window, name);
    assert_eq!(ticked(&window, "precision"), ["fp32", "fp64"]);
}

#[test]
fn gpus_are_chosen_by_a_typed_list_and_those_that_the_node_lacks_are_refused_with_the_reason() {
    let mut window = window_of(Some(gpu_node(4)));
    execute(&mut window, PlanCommand::Begin(Box::new(Plan::new("untitled", image::spec()))));
    click(&mut window, "More factors: all have their defaults");
    let spread = "GPU set spread, cannot run: gpu_set = spread has no effect with one GPU";
    assert!(window.query_by_label_contains(spread).is_some());
    for (typed, ticks) in [("1, 3", vec!["nearest", "1,3"]), ("0,7", vec!["nearest", "1,3", "0,7"])] {
        window.get_by_label("Add to GPU set").focus();
        window.run();
        window.get_by_label("Add to GPU set").type_text(typed);
        window.run();
        window.key_press(Key::Enter);
        settle(&mut window);
        assert_eq!(ticked(&window, "gpu_set"), ticks);
    }
    assert!(window.query_by_label_contains("GPU set 0,7, cannot run: gpu_set = 0,7: large has no GPU 7").is_some());
    assert!(window.query_by_label("1 cell cannot run").is_some());
    let toml = window.state().state.own::<PlanScreen>().plan().to_toml();
    assert!(toml.contains("gpu_set = [\"nearest\", \"1,3\", \"0,7\"]"), "{toml}");
    assert_eq!(&Plan::parse(&toml, "p.toml").unwrap(), window.state().state.own::<PlanScreen>().plan());
}

#[test]
fn with_the_focus_on_it_a_level_that_cannot_run_shows_its_reason_in_the_card() {
    let mut window = window_of(Some(cpu_node()));
    window.get_by_label_contains("Precision fp16, cannot run").focus();
    window.run();
    assert!(window.query_by_label("fp16 needs CUDA (the driver is missing): use bf16, fp32 or fp64").is_some());
}

#[test]
fn a_level_of_another_machines_plan_can_be_unticked() {
    let mut window = window_of(Some(cpu_node()));
    execute(&mut window, PlanCommand::Start("precision-layout-pin"));
    assert!(ticked(&window, "precision").contains(&"fp16".to_owned()));
    let name = "Precision fp16, cannot run: fp16 needs CUDA (the driver is missing): use bf16, fp32 or fp64";
    click(&mut window, name);
    assert!(!ticked(&window, "precision").contains(&"fp16".to_owned()));
}

#[test]
fn the_last_level_stays_ticked() {
    let mut window = window_of(Some(cpu_node()));
    click(&mut window, "Precision fp64");
    assert_eq!(ticked(&window, "precision"), ["fp32"]);
    click(&mut window, "Precision fp32");
    assert_eq!(ticked(&window, "precision"), ["fp32"]);
}

#[test]
fn undo_and_redo_go_through_the_edits() {
    let mut window = window_of(Some(cpu_node()));
    assert!(window.get_by_label("Undo").accesskit_node().is_disabled());
    click(&mut window, "Precision bf16");
    click(&mut window, "Layout nhwc");
    click(&mut window, "Undo");
    click(&mut window, "Undo");
    assert_eq!(*window.state().state.own::<PlanScreen>().plan(), start::first_plan());
    click(&mut window, "Redo");
    assert_eq!((ticked(&window, "precision").len(), ticked(&window, "layout").len()), (3, 1));
}

#[test]
fn numbers_are_typed_checked_and_ticked() {
    let mut window = window_of(Some(cpu_node()));
    let enter = |window: &mut Window, text: &str| {
        let field = window.get_by_label("Add to Batch size");
        field.focus();
        window.run();
        window.get_by_label("Add to Batch size").type_text(text);
        window.run();
        window.key_press(Key::Enter);
        settle(window);
    };
    enter(&mut window, "48, 0");
    assert!(window.query_by_label("0 is not a whole number from 1 to 65536").is_some());
    assert_eq!(ticked(&window, "batch_size"), ["32"]);
    execute(&mut window, PlanCommand::Start("quickstart"));
    // The field kept what was typed, to be corrected: "48, 0" becomes "48, 016".
    enter(&mut window, "16");
    assert_eq!(ticked(&window, "batch_size"), ["16", "32", "48"]);
}

#[test]
fn while_the_machine_is_unknown_nothing_is_launched_and_that_is_said() {
    let mut window = window_of(None);
    assert!(window.query_by_label("Reading this machine …").is_some());
    assert!(window.get_by_label_contains("Launch ").accesskit_node().is_disabled());
    execute(&mut window, PlanCommand::Launch);
    assert!(window.state().requests.is_empty());
    assert!(messages(&window).contains("Reading this machine"));
}

#[test]
fn nothing_is_launched_without_a_worker_in_a_read_only_session_or_with_no_cell() {
    let without_worker = Node { worker: Err("multicard-worker is not installed".to_owned()), ..cpu_node() };
    let mut window = window_of(Some(without_worker));
    execute(&mut window, PlanCommand::Launch);
    assert!(messages(&window).contains("multicard-worker is not installed"));

    let mut window = window_of(Some(cpu_node()));
    let read_only = Some("Read-only: another window is writing this session".to_owned());
    window.state_mut().state.take(UiEvent::Session { folder: "/tmp/none".into(), read_only });
    settle(&mut window);
    assert!(window.get_by_label("Launch 6 runs").accesskit_node().is_disabled());
    execute(&mut window, PlanCommand::Launch);
    assert!(messages(&window).contains("another window is writing"));
    assert!(window.state().requests.is_empty());

    let mut window = window_of(Some(cpu_node()));
    click(&mut window, "Precision fp64");
    change(&mut window, None, |plan| add(plan, "precision", [Level::text("fp16")]));
    click(&mut window, "Precision fp32");
    assert!(window.get_by_label("Launch 0 runs").accesskit_node().is_disabled());
    assert!(window.query_by_label("1 cell cannot run").is_some());
    execute(&mut window, PlanCommand::Launch);
    assert!(window.state().requests.is_empty());
}

#[test]
fn a_second_launch_before_the_answer_is_not_sent_and_after_it_is() {
    let mut window = window_of(Some(cpu_node()));
    execute(&mut window, PlanCommand::Launch);
    execute(&mut window, PlanCommand::Launch);
    assert_eq!(window.state().requests.len(), 1);
    window.state_mut().state.take(UiEvent::Launched { queued: 8, kept: 0, invalid: 0, warnings: Vec::new() });
    execute(&mut window, PlanCommand::Launch);
    assert_eq!(window.state().requests.len(), 2);
}

#[test]
fn a_launch_right_after_an_edit_waits_until_it_is_known_what_the_plan_comes_to() {
    let mut window = window_of(Some(cpu_node()));
    let level = Level::text("bf16");
    let screened = window.state_mut();
    let plan = screened.state.own::<PlanScreen>().plan();
    send_edit::<PlanCommand>(&mut screened.commands, plan, None, |plan| add(plan, "precision", [level]));
    screened.commands.push(Command::from(PlanCommand::Launch));
    settle(&mut window);
    let Some(Request::Launch { plan, .. }) = window.state().requests.first() else { panic!("nothing was launched") };
    assert_eq!(plan.first.levels("precision").len(), 3);
}

#[test]
fn ten_thousand_cells_are_worked_out_beside_the_window_and_only_what_is_seen_is_drawn() {
    let mut window = window_of(Some(gpu_node(8)));
    let numbers = || (33..82).map(Level::Integer);
    let screened = window.state_mut();
    let mut plan = screened.state.own::<PlanScreen>().plan().clone();
    plan.repeats = 1;
    add(&mut plan, "layout", [Level::text("nhwc")]);
    add(&mut plan, "image_size", numbers());
    add(&mut plan, "batch_size", numbers());
    screened.state.execute(PlanCommand::Edit(Box::new(plan), None).into(), &screened.context);
    screened.state.poll(&screened.context);
    assert!(screened.state.own::<PlanScreen>().pending.is_some(), "expanding is left to a thread");
    assert!(outlook(&screened.state).is_none());
    settle(&mut window);
    let outlook = outlook(&window.state().state).unwrap();
    assert_eq!(outlook.matrix.cells.len() + outlook.matrix.invalid.len(), 10_000);
    let drawn = window.query_all_by_label("nchw").count();
    assert!((1..200).contains(&drawn), "{drawn} rows drawn");
}

#[test]
fn many_edits_are_worked_out_one_at_a_time_and_the_last_one_counts() {
    let mut window = window_of(Some(cpu_node()));
    for repeats in 4..40 {
        let mut plan = window.state().state.own::<PlanScreen>().plan().clone();
        plan.repeats = repeats;
        window.state_mut().commands.push(PlanCommand::Edit(Box::new(plan), Some("repeats")).into());
    }
    settle(&mut window);
    assert_eq!(outlook(&window.state().state).unwrap().plan.repeats, 39);
    execute(&mut window, PlanCommand::Undo);
    assert_eq!(window.state().state.own::<PlanScreen>().plan().repeats, 3, "dragging a number is one edit");
}

#[test]
fn what_the_papers_found_is_shown_by_a_click() {
    let mut window = window_of(Some(cpu_node()));
    assert!(window.query_by_label_contains("Published: Against fp64").is_none());
    click(&mut window, "What the papers found about Precision");
    assert!(window.query_by_label_contains("Published: Against fp64").is_some());
}

#[test]
fn every_control_has_a_name_of_its_own() {
    let mut window = window_of(Some(cpu_node()));
    window.get_by_label_contains("More factors: ").click();
    settle(&mut window);
    click(&mut window, "Details");
    change(&mut window, None, |plan| plan.limits.run_time_s = Some(60.0));
    change(&mut window, None, |plan| plan.limits.memory_limit_gb = Some(4.0));
    let roles = [Role::CheckBox, Role::RadioButton, Role::Button, Role::TextInput, Role::SpinButton];
    let mut names = std::collections::BTreeSet::new();
    for control in roles.into_iter().flat_map(|role| window.query_all_by_role(role)) {
        let name = control.accesskit_node().label();
        let name = name.unwrap_or_else(|| panic!("a control without a name: {control:?}"));
        assert!(names.insert(name.clone()), "{name} is the name of two controls");
    }
    assert!(names.len() > 80, "{names:?}");
}

#[test]
fn name_data_set_and_limits_are_edited() {
    let mut window = window_of(Some(cpu_node()));
    window.get_by_label("Name").focus();
    window.run();
    window.get_by_label("Name").type_text(" again");
    window.run();
    window.key_press(Key::Enter);
    settle(&mut window);
    click(&mut window, "Data set mnist");
    click(&mut window, "Details");
    click(&mut window, "Memory limit");
    click(&mut window, "Order of runs sequential");
    let plan = window.state().state.own::<PlanScreen>().plan();
    assert_eq!(
        (plan.name.as_str(), &*plan.first.data.set, plan.order),
        ("quickstart again", "mnist", Order::Sequential)
    );
    assert!(plan.limits.memory_limit_gb.is_some());
    window.get_by_label("Name").focus();
    window.run();
    window.key_press_modifiers(Modifiers::COMMAND, Key::A);
    window.get_by_label("Name").type_text(" ");
    window.run();
    window.key_press(Key::Enter);
    settle(&mut window);
    assert_eq!(window.state().state.own::<PlanScreen>().plan().name, "quickstart again", "a plan has a name");
}

#[test]
fn runs_are_made_quick_by_a_click_and_take_less_time() {
    let mut window = window_of(Some(gpu_node(1)));
    let hours = |window: &Window| window.state().state.own::<PlanScreen>().outlook.as_ref().unwrap().duration_s;
    change(&mut window, None, |plan| add(plan, "epochs", [Level::Integer(20)]));
    let full = hours(&window);
    click(&mut window, "Details");
    click(&mut window, "Runs quick");
    let mode = window.state().state.own::<PlanScreen>().plan().mode;
    assert_eq!(mode, Mode::Quick { step_precision: Mode::STEP_PRECISION });
    assert!(hours(&window) < full, "{} {full}", hours(&window));
    window.get_by_label("Precision of the mean step");
    click(&mut window, "Runs full");
    assert!(window.state().state.own::<PlanScreen>().plan().mode.is_full());
    assert!(window.query_by_label("Precision of the mean step").is_none());
}

#[test]
fn runs_are_traced_by_a_click_in_part_and_programs_only_where_the_tracer_records_them() {
    let mut window = window_of(Some(cpu_node()));
    click(&mut window, "Details");
    assert!(window.query_by_label("Trace steps").is_none());
    let tracing = |window: &Window| window.state().state.own::<PlanScreen>().plan().tracing.clone();
    let steps = Capture::Steps { first: 20, last: 60 };
    click(&mut window, "Trace built-in");
    click(&mut window, "Trace steps");
    assert_eq!(tracing(&window), Tracing::by(&[Tracer::Off, Tracer::BuiltIn], steps));
    click(&mut window, "Trace off");
    assert_eq!(tracing(&window), Tracing::by(&[Tracer::BuiltIn], steps));
    click(&mut window, "Trace built-in");
    assert_eq!(tracing(&window), Tracing::by(&[Tracer::BuiltIn], steps), "the last one stays");
    click(&mut window, "Trace off");
    click(&mut window, "Trace built-in");
    let is_disabled = |window: &Window| window.get_by_label("Trace built-in").accesskit_node().is_disabled();
    assert!(!is_disabled(&window), "phases of ranks are recorded anywhere");
    click(&mut window, "Workload Own program");
    assert!(is_disabled(&window));
    let mut window = window_of(Some(Node { tracer: Ok("libmulticard_cupti.so".into()), ..gpu_node(1) }));
    click(&mut window, "Details");
    click(&mut window, "Workload Own program");
    assert!(!is_disabled(&window));
}

#[test]
fn a_plan_with_several_tracers_shows_how_often_each_cell_runs_and_which_cells_lack_their_profiler() {
    let mut window = window_of(Some(cpu_node()));
    let outlook = |window: &Window| {
        let outlook = window.state().state.own::<PlanScreen>().outlook.as_ref().unwrap();
        (outlook.matrix.cells.len(), outlook.matrix.invalid.len(), outlook.varied.iter().any(|key| *key == "trace"))
    };
    assert_eq!(outlook(&window), (2, 0, false));
    click(&mut window, "Details");
    assert!(window.query_by_label_contains("under each").is_none());
    tab_to(&mut window, "Trace built-in");
    press(&mut window, Key::Space);
    assert_eq!(outlook(&window), (4, 0, true));
    window.get_by_label("each cell 2 times, once under each");
    tab_to(&mut window, "Trace nsys");
    press(&mut window, Key::Space);
    assert_eq!(outlook(&window), (4, 2, true));
    assert!(window.query_by_label_contains("⚠ trace = nsys: it is not on PATH").is_some());
    click(&mut window, "show only these");
    assert!(window.query_all_by_label_contains("install Nsight Systems, or leave nsys out of trace").count() > 0);
}

/// Presses Tab until a control has the focus.
fn tab_to(window: &mut Window, name: &str) {
    for _ in 0..300 {
        if window.query_by_label(name).is_some_and(|control| control.accesskit_node().is_focused()) {
            return;
        }
        window.key_press(Key::Tab);
        window.run();
    }
    panic!("Tab does not reach {name}");
}

fn press(window: &mut Window, key: Key) {
    window.key_press(key);
    settle(window);
}

#[test]
fn with_the_keyboard_alone_a_level_is_ticked_a_number_changed_and_the_plan_launched() {
    let mut window = window_of(Some(cpu_node()));
    tab_to(&mut window, "Precision bf16");
    press(&mut window, Key::Space);
    assert_eq!(ticked(&window, "precision"), ["fp32", "fp64", "bf16"]);
    tab_to(&mut window, "Add to Batch size");
    window.get_by_label("Add to Batch size").type_text("48");
    press(&mut window, Key::Enter);
    assert_eq!(ticked(&window, "batch_size"), ["32", "48"]);
    // The focus continues from there: the number ticked before is a few steps back.
    for _ in 0..20 {
        if window.get_by_label("Batch size 32").accesskit_node().is_focused() {
            break;
        }
        window.key_press_modifiers(Modifiers::SHIFT, Key::Tab);
        window.run();
    }
    press(&mut window, Key::Space);
    assert_eq!(ticked(&window, "batch_size"), ["48"]);
    tab_to(&mut window, "Launch 9 runs");
    press(&mut window, Key::Enter);
    let Some(Request::Launch { plan, .. }) = window.state().requests.first() else { panic!("nothing was launched") };
    assert_eq!(plan.first.levels("batch_size").len(), 1);
}

#[test]
fn what_is_typed_into_a_field_neither_launches_the_plan_nor_changes_the_screen() {
    let mut window = window_of(Some(cpu_node()));
    let has_focus = |window: &Window| window.get_by_label("Add to Batch size").accesskit_node().is_focused();
    tab_to(&mut window, "Add to Batch size");
    window.get_by_label("Add to Batch size").type_text("lots");
    press(&mut window, Key::Enter);
    assert!(window.query_by_label_contains("lots is not a whole number").is_some());
    assert!(has_focus(&window), "the entry is corrected where it was typed");
    for key in [Key::Space, Key::Num2, Key::Num5] {
        press(&mut window, key);
    }
    for _ in 0..4 {
        press(&mut window, Key::Backspace);
    }
    window.get_by_label("Add to Batch size").type_text("48");
    press(&mut window, Key::Enter);
    assert!(has_focus(&window), "the next number can be typed");
    window.get_by_label("Add to Batch size").type_text("56");
    window.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    settle(&mut window);
    assert_eq!(ticked(&window, "batch_size"), ["32", "48", "56"]);
    assert_eq!((window.state().state.desk.screen, window.state().requests.len()), (ScreenName::PLAN, 0));
    window.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    settle(&mut window);
    assert!(matches!(window.state().requests.as_slice(), [Request::Launch { .. }]));
}

#[test]
fn space_launches_nothing() {
    let mut window = window_of(Some(cpu_node()));
    press(&mut window, Key::Space);
    assert_eq!(window.state().requests, []);
}

/// The records of a session that this plan was launched into, and the runs of its first cell.
fn records_of(plan: &Plan, finished: u32) -> UiEvent {
    let cell = &crate::plan::expand(plan, &cpu_node()).cells[0];
    let held = HeldCell { cell: cell.id.clone(), repeats: (1..=finished).collect(), last_s: None };
    let held = Arc::new(HashMap::from([(cell.identity, held)]));
    let plans = vec![SessionPlan { name: plan.name.clone(), toml: plan.to_toml(), folder: None }];
    let folder = PathBuf::from("/sessions").join(&plan.name);
    UiEvent::Records(Arc::new(Records { folder, plans, held, ..Records::default() }))
}

#[test]
fn the_spread_of_repeats_is_taken_as_it_was_computed_where_runs_are_read() {
    let mut window = window_of(Some(cpu_node()));
    let spreads =
        [("image", 0.02), ("llm", 0.3)].map(|(key, spread)| (key.into(), SpreadSeen { spread, cells: 4, freedom: 4 }));
    let spreads = Arc::new(spreads.into());
    let records = Records { folder: PathBuf::from("/sessions/study"), spreads, ..Records::default() };
    open_session(&mut window, UiEvent::Records(Arc::new(records)));
    window.get_by_label_contains("by the spread of 2 % seen in 4 cells");
    click(&mut window, "Workload Own program");
    assert!(window.query_by_label_contains("by the spread of").is_none(), "no cell of it was seen");
}

#[test]
fn the_time_of_a_cell_that_ran_is_what_its_run_took() {
    let mut window = window_of(Some(cpu_node()));
    let plan = window.state().state.own::<PlanScreen>().plan().clone();
    let cell = crate::plan::expand(&plan, &cpu_node()).cells[0].clone();
    let held = HeldCell { cell: cell.id.clone(), repeats: vec![1], last_s: Some(4321.0) };
    let held = Arc::new(HashMap::from([(cell.identity, held)]));
    let records = Records { folder: PathBuf::from("/sessions/study"), held, ..Records::default() };
    open_session(&mut window, UiEvent::Records(Arc::new(records)));
    window.get_by_label(&grouped(&significant(4321.0)));
    let estimated_s: f64 =
        crate::plan::expand(&plan, &cpu_node()).cells[1..].iter().map(|cell| cell.estimate.duration_s).sum();
    let all_s = (4321.0 + estimated_s) * f64::from(plan.repeats);
    assert!(all_s > 5400.0, "told in hours");
    let estimate = format!("about {}", duration_text((all_s / 60.0).round() * 60.0));
    window.get_by_label_contains(&estimate);
}

fn open_session(window: &mut Window, records: UiEvent) {
    let state = &mut window.state_mut().state;
    let UiEvent::Records(read) = &records else { panic!("no records") };
    state.take(UiEvent::Session { folder: read.folder.clone(), read_only: None });
    state.take(records);
    settle(window);
}

#[test]
fn a_reopened_session_brings_its_plan_unless_the_user_edits_one() {
    let mut plan = Plan::new("of the session", image::spec());
    plan.repeats = 5;
    let mut window = window_of(Some(cpu_node()));
    open_session(&mut window, records_of(&plan, 5));
    assert_eq!(*window.state().state.own::<PlanScreen>().plan(), plan);
    assert!(!window.state().state.own::<PlanScreen>().document.is_unsaved());
    // Opening another session shows its plan in turn, until something is edited.
    plan.name = "of another".to_owned();
    open_session(&mut window, records_of(&plan, 5));
    assert_eq!(window.state().state.own::<PlanScreen>().plan().name, "of another");
    change(&mut window, None, |plan| plan.repeats = 6);
    open_session(&mut window, records_of(&Plan::new("a third", image::spec()), 1));
    let shown = window.state().state.own::<PlanScreen>().plan();
    assert_eq!((&*shown.name, shown.repeats), ("of another", 6));
}

#[test]
fn the_launch_button_counts_what_runs_and_says_where() {
    let mut window = window_of(Some(cpu_node()));
    assert!(window.query_by_label("into a new session").is_some());
    let records = records_of(&start::first_plan(), 2);
    open_session(&mut window, records);
    assert!(window.query_by_label_contains("has 2 of these 6 runs: they run again").is_some());
    window.get_by_label("Launch 6 runs");
    click(&mut window, "keep finished repeats");
    assert!(window.query_by_label_contains("into session quickstart, which has 2 of these 6 runs").is_some());
    window.get_by_label("Launch 4 of 6 runs");
}

#[test]
fn a_machine_that_others_keep_busy_is_told_before_runs_are_launched() {
    let mut window = window_of(Some(cpu_node()));
    let sample = |cpus_busy: f64| {
        let host = HostSample { cpus_busy: Some(cpus_busy), ..HostSample::default() };
        UiEvent::NodeSample(Box::new(Sample { host, ..Sample::default() }))
    };
    let says = |window: &Window| window.query_by_label_contains("other programs use this machine").is_some();
    window.state_mut().state.take(sample(0.1));
    settle(&mut window);
    assert!(!says(&window));
    let top = |window: &Window| window.query_all_by_label("time s").next().unwrap().rect().top();
    let top_before = top(&window);
    window.state_mut().state.take(sample(3.0));
    settle(&mut window);
    assert!(says(&window));
    assert_eq!(top(&window), top_before, "the cells below stay where they are");
    // These are its own runs.
    let row = QueueRow {
        run: "0001-a-1".to_owned(),
        state: RunState::Running,
        step: 0,
        steps: 0,
        epoch: 0,
        loss: None,
        waits: None,
    };
    window.state_mut().state.take(UiEvent::Queue(Arc::new(QueueView { rows: vec![row], ..QueueView::default() })));
    settle(&mut window);
    assert!(!says(&window));
    // Those of another session are named even then.
    window.state_mut().state.take(UiEvent::OtherSessions(vec![PathBuf::from("/home/me/sessions/night")]));
    settle(&mut window);
    assert!(window.query_by_label_contains("session night has runs on this machine: runs launched now").is_some());
    window.state_mut().state.take(UiEvent::OtherSessions(Vec::new()));
    settle(&mut window);
    assert!(window.query_by_label_contains("has runs on this machine").is_none());
}

#[test]
fn what_would_not_be_measured_or_be_cut_off_is_told_before_a_launch() {
    let mut window = window_of(Some(cpu_node()));
    assert!(window.query_by_label_contains("no step is measured").is_none());
    change(&mut window, None, |plan| plan.warm_up_steps = 100_000);
    assert!(window.query_by_label_contains("⚠ no step is measured in 2 of 2 cells").is_some());
    change(&mut window, None, |plan| plan.limits.run_time_s = Some(0.001));
    assert!(window.query_by_label_contains("would end 2 of 2 cells before they are done").is_some());
}

#[test]
fn the_plans_menu_offers_those_of_the_session_recent_files_and_all_shipped_ones() {
    let mut window = window_of(Some(cpu_node()));
    let file = PathBuf::from("/home/me/plans/night.toml");
    window.state_mut().state.desk.settings.recent_plans = vec![file.clone()];
    open_session(&mut window, records_of(&Plan::new("of the session", image::spec()), 1));
    let open = |window: &mut Window, menu: &str| {
        click(window, "Plans …");
        window.get_by_label_contains(menu).click();
        window.run();
    };
    open(&mut window, "Start from");
    for start in STARTING_PLANS {
        assert!(window.query_by_label(start.name).is_some(), "{}", start.name);
    }
    window.key_press(Key::Escape);
    settle(&mut window);
    execute(&mut window, PlanCommand::Begin(Box::new(Plan::new("untitled", image::spec()))));
    open(&mut window, "Of this session");
    click(&mut window, "of the session");
    assert_eq!(window.state().state.own::<PlanScreen>().plan().name, "of the session");
    open(&mut window, "Recent files");
    click(&mut window, "night.toml");
    assert!(messages(&window).contains(&file.display().to_string()), "it was opened, and is not there");
}
