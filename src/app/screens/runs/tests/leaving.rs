//! Closing the window: what is asked about runs and edits.

use std::path::Path;

use super::*;
use crate::app::closing::Closing;
use crate::app::{CloseCommand, PlanCommand, PlanScreen, closing};

/// An edit of the plan.
fn seven_repeats(state: &State) -> Command {
    let mut plan = state.own::<PlanScreen>().plan().clone();
    plan.repeats = 7;
    PlanCommand::Edit(Box::new(plan), None).into()
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
    let context = Context::default();
    state.close_requested(&context);
    state.execute(Command::Close(CloseCommand::KeepRunning), &context);
    assert!(state.desk.take_requests().is_empty());
    assert_eq!(state.closing, Closing::Now);
}

#[test]
fn closing_with_unsaved_edits_asks_whether_to_save_them() {
    let context = Context::default();
    let mut state = state(Vec::new(), Vec::new());
    state.close_requested(&context);
    assert_eq!(state.closing, Closing::No, "nothing would be lost: the window closes");
    state.execute(seven_repeats(&state), &context);
    state.close_requested(&context);
    let mut harness = window(state, |ui, state, commands| {
        closing::close_ui(ui, state.closing, &state.desk, &|| state.unsaved(), commands);
    });
    assert!(sees(&harness, "” has changes that are not saved"));
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
    state.poll(&context);
    assert_eq!(state.closing, Closing::No, "without a path nothing is saved, and the window stays");
    state.close_requested(&context);
    state.execute(Command::Close(CloseCommand::DiscardEdits), &context);
    assert_eq!(state.closing, Closing::Now);
}

#[test]
fn edits_that_were_launched_are_kept_by_the_session_and_need_no_question() {
    use crate::app::engine::SessionPlan;
    let context = Context::default();
    let mut state = state(Vec::new(), Vec::new());
    state.execute(seven_repeats(&state), &context);
    let launched =
        SessionPlan { name: "quickstart".to_owned(), toml: state.own::<PlanScreen>().plan().to_toml(), folder: None };
    let records = Records { folder: folder(), plans: vec![launched], ..Records::default() };
    state.take(UiEvent::Records(Arc::new(records)));
    state.close_requested(&context);
    assert_eq!(state.closing, Closing::No);
}

#[test]
fn closing_with_a_paused_queue_says_that_it_stays_paused_moves_nothing_and_escape_keeps_the_window() {
    let records = vec![record(1, "fp32", RunState::Queued), record(2, "fp16", RunState::Queued)];
    let rows = vec![row(1, RunState::Queued, 0), row(2, RunState::Queued, 0)];
    let mut state = state(records, Vec::new());
    state.take(UiEvent::Queue(Arc::new(QueueView { paused: true, ..queue(rows) })));
    let mut harness = window(state, shell_ui);
    let place = |harness: &Harness<'_, Window>| harness.get_by_label("Cancel run 2").rect();
    let before = place(&harness);
    let context = harness.ctx.clone();
    harness.state_mut().state.close_requested(&context);
    harness.run();
    assert!(sees(&harness, "2 runs wait in the queue, which is paused."));
    assert!(sees(&harness, "the queue stays paused") && !sees(&harness, "go on without the window"));
    assert_eq!(place(&harness), before, "the question lies over the screen");
    harness.get_by_label("Leave them queued and close");
    let mut sent = Vec::new();
    let key = eframe::egui::Event::Key {
        key: Key::Escape,
        physical_key: None,
        pressed: true,
        repeat: false,
        modifiers: Modifiers::NONE,
    };
    let input = eframe::egui::RawInput { events: vec![key], ..eframe::egui::RawInput::default() };
    let mut drawn =
        Context::default().run_ui(input, |ui| crate::app::keys::commands(ui.ctx(), &harness.state().state, &mut sent));
    drawn.textures_delta.clear();
    assert_eq!(sent, [Command::Close(CloseCommand::Stay)]);
}

#[test]
fn the_night_test_presses_the_keys_that_keep_runs_and_close_the_window() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/night/run");
    let script = std::fs::read_to_string(script).unwrap();
    let (_, keys) = script.split_once("key ctrl+q ").unwrap();
    let (keys, _) = keys.split_once('\\').unwrap();
    let keys: Vec<&str> = keys.split("key ").skip(1).filter_map(|rest| rest.split(' ').next()).collect();
    assert_eq!(keys, ["shift+Tab", "shift+Tab", "space"]);
    let rows = [row(1, RunState::Running, 1), row(2, RunState::Queued, 1)];
    let mut harness = window(state(Vec::new(), rows.to_vec()), shell_ui);
    harness.set_size(Vec2::new(1280.0, 800.0));
    let context = harness.ctx.clone();
    harness.state_mut().state.close_requested(&context);
    harness.run();
    for _ in 0..2 {
        harness.key_press_modifiers(Modifiers::SHIFT, Key::Tab);
        harness.run();
    }
    assert!(harness.get_by_label("Keep running and close").is_focused());
    harness.key_press(Key::Space);
    harness.run();
    assert_eq!(harness.state().state.closing, Closing::Now);
}
