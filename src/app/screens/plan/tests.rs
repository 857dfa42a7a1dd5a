//! The Plan screen driven by accessible names, without a display.
#![allow(clippy::unwrap_used)]

mod blocks;
mod command;
mod constraints;
mod design;
mod files;
mod launching;
mod search;
mod totals;

use std::sync::Arc;
use std::time::{Duration, Instant};

use eframe::egui::accesskit::Role;
use eframe::egui::{Context, Key, Modifiers, Ui};
use egui_kittest::Harness;
use egui_kittest::kittest::{NodeT as _, Queryable as _};

use super::*;
use crate::app::command::edit as send_edit;
use crate::app::engine::{Request, SessionPlan, UiEvent};
use crate::app::{Settings, Window as State};
use crate::conduct::{QueueRow, QueueView};
use crate::plan::fixture::{cpu_node, gpu_node};
use crate::plan::{Level, Node, Order, RunState, Tracer, image};

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
fn a_first_window_has_quickstart_ticked_and_can_launch_it() {
    let mut window = window_of(Some(cpu_node()));
    assert_eq!(ticked(&window, "precision"), ["fp32", "fp64"]);
    click(&mut window, "Launch 6 runs");
    let expected = start::first_plan();
    let sent = Request::Launch { plan: Box::new(expected), only_missing: false };
    assert_eq!(window.state().requests, [sent]);
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

/// Why fp16 cannot run on a machine of [`cpu_node`].
const NO_FP16: &str =
    "fp16 needs an NVIDIA GPU (the driver is missing; see `multicard doctor`): use bf16, fp32 or fp64";

#[test]
fn a_level_that_cannot_run_is_disabled_with_its_reason_and_a_click_does_nothing() {
    let mut window = window_of(Some(cpu_node()));
    let name = &format!("Precision fp16, cannot run: {NO_FP16}");
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
    assert!(window.query_by_label(NO_FP16).is_some());
}

#[test]
fn a_level_of_another_machines_plan_can_be_unticked() {
    let mut window = window_of(Some(cpu_node()));
    execute(&mut window, PlanCommand::Start("precision-layout-pin"));
    assert!(ticked(&window, "precision").contains(&"fp16".to_owned()));
    let name = &format!("Precision fp16, cannot run: {NO_FP16}");
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
fn a_number_that_cannot_be_a_limit_is_named_and_changes_nothing() {
    let mut window = window_of(Some(cpu_node()));
    change(&mut window, None, |plan| plan.limits.run_time_s = Some(60.0));
    click(&mut window, "Details");
    let limit = |window: &Window| window.state().state.own::<PlanScreen>().plan().limits.run_time_s;
    for text in ["0", "-3"] {
        type_into(&mut window, "Run-time limit value", text);
        press(&mut window, Key::Enter);
        let named =
            format!("{text} is no limit: type a number from 0.001 to 1000000000, or untick the limit. It stays 60 s.");
        assert!(says(&window, &named), "{text}");
        assert_eq!(limit(&window), Some(60.0), "{text}");
    }
    type_into(&mut window, "Run-time limit value", "0.5");
    assert_eq!(limit(&window), Some(0.5));
    assert!(!says(&window, " is no limit"));
}

#[test]
fn a_number_that_cannot_be_a_limit_is_named_once_its_field_is_left_until_the_plan_changes() {
    let mut window = window_of(Some(cpu_node()));
    change(&mut window, None, |plan| plan.limits.run_time_s = Some(60.0));
    click(&mut window, "Details");
    type_into(&mut window, "Run-time limit value", "0");
    assert!(!says(&window, " is no limit"), "0.5 begins with it");
    press(&mut window, Key::Escape);
    assert!(!says(&window, " is no limit"), "Esc forgets it");
    type_into(&mut window, "Run-time limit value", "0");
    press(&mut window, Key::Enter);
    assert!(says(&window, "0 is no limit"));
    // Another plan may have the same name.
    change(&mut window, None, |plan| plan.seed += 1);
    assert!(!says(&window, " is no limit"));
}

#[test]
fn the_number_of_repeats_is_beside_the_name_however_large_it_is() {
    let mut window = window_of(Some(cpu_node()));
    for width in [800.0, 1000.0, 1230.0, 1400.0] {
        window.set_size([width, 900.0].into());
        for repeats in [3, 100, 1000] {
            change(&mut window, None, |plan| plan.repeats = repeats);
            let rect = |name: &str| window.get_all_by_label(name).last().unwrap().rect();
            let (name, field) = (rect("Name"), rect("Repeats"));
            assert!((name.center().y - field.center().y).abs() < 4.0, "{width} {repeats}: {name:?} {field:?}");
        }
    }
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

/// The queue with one run.
fn queue(state: RunState, paused: bool) -> UiEvent {
    let row = QueueRow::in_state("0001-978cbae2-1", state);
    UiEvent::Queue(Arc::new(QueueView { rows: vec![row], paused, ..QueueView::default() }))
}

/// What a session knows of the plan's first cell: the repeats that finished, and how long the last one took.
fn first_cell(plan: &Plan, repeats: Vec<u32>, last_s: Option<f64>) -> Arc<HashMap<Identity, HeldCell>> {
    let cell = &crate::plan::expand(plan, &cpu_node()).cells[0];
    let held = HeldCell { cell: cell.id.clone(), repeats, last_s, ..HeldCell::default() };
    Arc::new(HashMap::from([(cell.identity, held)]))
}

/// The records of a session that this plan was launched into, and the runs of its first cell.
fn records_of(plan: &Plan, finished: u32) -> UiEvent {
    let held = first_cell(plan, (1..=finished).collect(), None);
    let plans = vec![SessionPlan { name: plan.name.clone(), toml: plan.to_toml(), folder: None }];
    let folder = PathBuf::from("/sessions").join(&plan.name);
    UiEvent::Records(Arc::new(Records { folder, plans, held, ..Records::default() }))
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
fn a_plan_that_a_session_brought_offers_no_undo_until_it_is_edited() {
    let plan = Plan::new("of the session", image::spec());
    let mut window = window_of(Some(cpu_node()));
    open_session(&mut window, records_of(&plan, 5));
    let is_offered = |window: &Window| !window.get_by_label("Undo").accesskit_node().is_disabled();
    assert!(!is_offered(&window));
    execute(&mut window, PlanCommand::Undo);
    assert_eq!(*window.state().state.own::<PlanScreen>().plan(), plan, "it stays");
    change(&mut window, None, |plan| plan.repeats = 6);
    assert!(is_offered(&window));
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
