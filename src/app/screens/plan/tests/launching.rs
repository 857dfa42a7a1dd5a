//! Launches: what allows them, what they ask and warn of first, and what the button counts.

use super::*;
use crate::analysis::fixture;
use crate::plan::Remark;
use crate::protocol::{Environment, HostSample, IMPORTED_FROM, Sample};
use crate::store::RunRecord;

#[test]
fn the_sites_of_the_user_are_a_choice_of_the_plan_and_what_a_site_refuses_is_a_warning() {
    let mut window = window_of(Some(gpu_node(1)));
    assert!(window.query_by_label("Where this machine").is_none(), "there is no choice without a site");
    window.state_mut().state.take(UiEvent::Sites(vec!["lab".to_owned()]));
    settle(&mut window);
    let site = |window: &Window| window.state().state.own::<PlanScreen>().plan().site.clone();
    click(&mut window, "Where lab");
    assert_eq!(site(&window).as_deref(), Some("lab"));
    assert!(says(&window, "node-hours"), "the cost at a site");
    let remarks = outlook(&window.state().state).unwrap().remarks.clone();
    let warns = |remark: &Remark| remark.is_warning && remark.text.contains("there is no site \"lab\"");
    assert!(remarks.iter().any(warns), "{remarks:?}");
    click(&mut window, "Where this machine");
    assert_eq!(site(&window), None);
    assert!(!says(&window, "node-hours"));
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
    let end = window.ctx.content_rect().right();
    for note in window.query_all_by_label_contains("fp16 needs an NVIDIA GPU") {
        assert!(note.rect().right() <= end, "the reason is wrapped, not cut off: {:?}", note.rect());
    }
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
    assert_eq!((window.state().state.desk.screen, window.state().requests.len()), (ScreenName::PLAN, 0));
}

#[test]
fn ctrl_enter_in_a_field_launches_the_plan_with_the_typed_text_unless_that_is_wrong() {
    let mut window = window_of(Some(cpu_node()));
    let launch = |window: &mut Window, text: &str| {
        tab_to(window, "Add to Batch size");
        window.get_by_label("Add to Batch size").type_text(text);
        window.run();
        window.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
        settle(window);
        settle(window);
    };
    launch(&mut window, "lots");
    assert_eq!(window.state().requests.len(), 0);
    let shown = messages(&window);
    assert!(shown.contains("Nothing was launched. Batch size: lots is not a whole number"), "{shown}");
    for _ in 0..4 {
        tab_to(&mut window, "Add to Batch size");
        press(&mut window, Key::Backspace);
    }
    launch(&mut window, "56");
    assert_eq!(ticked(&window, "batch_size"), ["32", "56"]);
    let [Request::Launch { plan, .. }] = window.state().requests.as_slice() else {
        panic!("launched once: {:?}", window.state().requests)
    };
    assert_eq!(plan.first.levels("batch_size").len(), 2);
}

#[test]
fn space_launches_nothing() {
    let mut window = window_of(Some(cpu_node()));
    press(&mut window, Key::Space);
    assert_eq!(window.state().requests, []);
}

#[test]
fn the_launch_button_counts_what_runs_and_says_where() {
    let mut window = window_of(Some(cpu_node()));
    assert!(window.query_by_label("into a new session").is_some());
    let records = records_of(&start::first_plan(), 2);
    open_session(&mut window, records);
    assert!(window.query_by_label_contains("has 2 of these 6 runs. All run again, as further repeats").is_some());
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
    window.state_mut().state.take(queue(RunState::Running, false));
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
    assert!(window.query_by_label_contains("would end 2 of 2 cells too early").is_some());
}
