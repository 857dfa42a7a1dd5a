//! What people do to a queue while it changes: controls keep their places, moves and undos, closing.

use std::path::Path;

use super::*;

#[test]
fn buttons_for_all_runs_and_for_one_keep_their_places_whatever_the_states_of_runs_are() {
    let records = |first| vec![first, record(2, "fp32", RunState::Queued), record(3, "fp32", RunState::Cancelled)];
    let rows = |first| vec![row(1, first, 1), row(2, RunState::Queued, 0)];
    let running = state(records(record(1, "fp16", RunState::Running)), rows(RunState::Running));
    let mut harness = window(running, State::draw::<RunsScreen>);
    let places = |harness: &Harness<'_, Window>, pause: &str| {
        let all = [harness.get_by_label(pause), harness.get_by_label("Cancel all …")];
        let one = harness.get_by_label("Retry run 3").rect().left();
        (all.map(|button| button.rect()), one)
    };
    let before = places(&harness, "⏸ Pause");
    let of_failed = Records { folder: folder(), runs: records(failed(1)).into(), ..Records::default() }.folded();
    harness.state_mut().state.take(UiEvent::Records(Arc::new(of_failed)));
    harness.state_mut().state.take(UiEvent::Queue(Arc::new(queue(rows(RunState::Failed)))));
    harness.run();
    assert!(sees(&harness, "Retry 1 failed"));
    assert_eq!(places(&harness, "⏸ Pause"), before, "a run has failed");
    let paused = QueueView { paused: true, ..queue(rows(RunState::Failed)) };
    harness.state_mut().state.take(UiEvent::Queue(Arc::new(paused)));
    harness.run();
    assert_eq!(places(&harness, "▶ Resume"), before, "the queue is paused");
    harness.state_mut().state.take(UiEvent::Queue(Arc::new(queue(vec![row(1, RunState::Failed, 1)]))));
    let ended = vec![failed(1), record(3, "fp32", RunState::Cancelled)];
    let ended = Records { folder: folder(), runs: ended.into(), ..Records::default() }.folded();
    harness.state_mut().state.take(UiEvent::Records(Arc::new(ended)));
    harness.run();
    assert_eq!(places(&harness, "⏸ Pause"), before, "nothing is queued any more");
}

#[test]
fn a_retried_runs_page_leads_to_its_successor_and_retries_it_no_more() {
    let mut again = record(2, "fp16", RunState::Queued);
    again.repeat = 1;
    let mut harness = window(state(vec![failed(1), again], Vec::new()), State::draw::<RunsScreen>);
    let context = harness.ctx.clone();
    let select = RunsCommand::Select(Some("0001-cell-1".to_owned()));
    harness.state_mut().state.execute(select.into(), &context);
    harness.run();
    assert!(harness.query_by_label("Retry this run").is_none());
    click(&mut harness, "Retried as run 2");
    assert_eq!(harness.state().state.own::<RunsScreen>().selected.as_deref(), Some("0002-cell-2"));
}

#[test]
fn a_move_is_seen_at_once_also_under_the_pointer() {
    let records = (1..4).map(|number| record(number, "fp32", RunState::Queued)).collect();
    let rows = |order: [u32; 3]| order.map(|number| row(number, RunState::Queued, 0)).to_vec();
    let mut harness = window(state(records, rows([1, 2, 3])), State::draw::<RunsScreen>);
    let aim = harness.get_by_label("Cancel run 2").rect().center();
    harness.hover_at(aim);
    harness.run();
    let shown = |harness: &Harness<'_, Window>| -> Vec<String> {
        let (runs, rows) = (harness.state().state.own::<RunsScreen>(), &harness.state().state.desk.runs.rows);
        runs.shown.iter().map(|index| rows[*index].number.clone()).collect()
    };
    let context = harness.ctx.clone();
    let to_top = RunsCommand::Move("0003-cell-3".to_owned(), Move::Top);
    harness.state_mut().state.execute(to_top.into(), &context);
    harness.state_mut().state.take(UiEvent::Queue(Arc::new(queue(rows([3, 1, 2])))));
    harness.run();
    assert_eq!(shown(&harness), ["3", "1", "2"]);
    // What others move waits until nobody aims at a row.
    harness.state_mut().state.take(UiEvent::Queue(Arc::new(queue(rows([2, 3, 1])))));
    harness.run();
    assert_eq!(shown(&harness), ["3", "1", "2"]);
}

#[test]
fn a_move_of_a_run_that_has_started_is_refused_with_one_message() {
    let records = |third| vec![record(2, "fp16", RunState::Queued), record(3, "fp32", third)];
    let rows = |third| vec![row(2, RunState::Queued, 0), row(3, third, 0)];
    let mut state = state(records(RunState::Queued), rows(RunState::Queued));
    let context = Context::default();
    state.execute(RunsCommand::Move("0003-cell-3".to_owned(), Move::Top).into(), &context);
    state.take(UiEvent::Done(ScreenName::RUNS));
    state.desk.take_requests();
    let recorded = Records { folder: folder(), runs: records(RunState::Running).into(), ..Records::default() }.folded();
    state.take(UiEvent::Records(Arc::new(recorded)));
    state.take(UiEvent::Queue(Arc::new(queue(rows(RunState::Running)))));
    state.execute(Command::Undo, &context);
    assert_eq!(state.desk.take_requests(), []);
    let message = &state.desk.problems[0].message;
    assert!(message.contains("cannot be undone: run 3 is running"), "{message}");
    assert!(state.desk.notice.as_ref().is_none_or(|(_, notice)| !notice.text.starts_with("Undone")));
}

#[test]
fn what_the_conductor_refused_is_not_said_to_be_done() {
    let records = vec![record(2, "fp16", RunState::Queued), record(3, "fp32", RunState::Queued)];
    let mut state = state(records, vec![row(2, RunState::Queued, 0), row(3, RunState::Queued, 0)]);
    let context = Context::default();
    state.execute(RunsCommand::Move("0003-cell-3".to_owned(), Move::Top).into(), &context);
    assert!(state.desk.notice.is_some());
    state.take(UiEvent::Problem { screen: ScreenName::RUNS, message: "run 3 is running".to_owned() });
    assert_eq!(state.desk.notice, None);
    state.execute(RunsCommand::Move("0003-cell-3".to_owned(), Move::Top).into(), &context);
    state.take(UiEvent::Done(ScreenName::RUNS));
    state.take(UiEvent::Problem { screen: ScreenName::RUNS, message: "the disk is full".to_owned() });
    assert!(state.desk.notice.is_some(), "it was done");
}

#[test]
fn cancelling_all_says_what_was_stopped_and_its_undo_what_stays() {
    let records = vec![record(1, "fp32", RunState::Running), record(2, "fp16", RunState::Queued)];
    let mut state = state(records, vec![row(1, RunState::Running, 1), row(2, RunState::Queued, 0)]);
    let context = Context::default();
    let notice_text =
        |state: &State| state.desk.notice.as_ref().map_or(String::new(), |(_, notice)| notice.text.clone());
    state.execute(RunsCommand::AnswerCancelAll(true).into(), &context);
    assert_eq!(notice_text(&state), "1 run taken out of the queue and 1 stopped.");
    state.execute(Command::Undo, &context);
    assert_eq!(
        notice_text(&state),
        "Undone in part: 1 run taken out of the queue and 1 stopped. Run 1 had started and stays cancelled."
    );
}

#[test]
fn why_a_run_failed_comes_before_its_marks_and_a_warning_says_what_it_warns_of() {
    let mut run = failed(1);
    run.warnings = vec!["steps were guessed".to_owned()];
    let mut state = State::new(Settings::default());
    state.take(UiEvent::Session { folder: folder(), read_only: None });
    let summaries = vec![summarise_run(&run)];
    let records =
        Records { folder: folder(), runs: vec![run].into(), summaries: summaries.into(), ..Records::default() }
            .folded();
    state.take(UiEvent::Records(Arc::new(records)));
    state.desk.screen = ScreenName::RUNS;
    let harness = window(state, State::draw::<RunsScreen>);
    let note = "⚠ rank 0: CUDA out of memory: tried to allocate 2 GB · warning: steps were guessed";
    assert!(harness.query_by_label(note).is_some(), "{:?}", harness.state().state.desk.runs.rows[0]);
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

#[test]
fn a_run_that_leaves_the_filter_moves_no_row_under_the_pointer() {
    let three = |first| vec![row(1, first, 0), row(2, RunState::Queued, 0), row(3, RunState::Queued, 0)];
    let records = (1..=3).map(|number| record(number, "fp32", RunState::Queued)).collect();
    let mut harness = window(state(records, three(RunState::Queued)), State::draw::<RunsScreen>);
    harness.state_mut().commands.push(RunsCommand::Filter("state=queued".to_owned()).into());
    harness.run();
    let aim = harness.get_by_label("Cancel run 2").rect();
    harness.hover_at(aim.center());
    harness.run();
    harness.state_mut().state.take(UiEvent::Queue(Arc::new(queue(three(RunState::Running)))));
    harness.run();
    assert_eq!(harness.get_by_label("Cancel run 2").rect(), aim, "run 1 still has its row");
    harness.hover_at([5.0, 5.0].into());
    harness.run();
    assert!(harness.query_by_label("Cancel run 1").is_none() && harness.query_by_label("Cancel run 2").is_some());
}

#[test]
fn buttons_for_all_runs_keep_their_places_beside_a_long_text_of_progress() {
    let records = vec![record(1, "fp32", RunState::Running)];
    let mut harness = window(state(records, vec![row(1, RunState::Running, 1)]), State::draw::<RunsScreen>);
    harness.set_size(Vec2::new(560.0, 600.0));
    harness.run();
    let before = harness.get_by_label("Cancel all …").rect();
    let long =
        QueueView { remaining_s: 1e7, queued: 10_000, paused: true, ..queue(vec![row(1, RunState::Running, 2)]) };
    harness.state_mut().state.take(UiEvent::Queue(Arc::new(long)));
    harness.run();
    assert!(sees(&harness, "of 10000 ended"));
    assert_eq!(harness.get_by_label("Cancel all …").rect(), before);
}

#[test]
fn a_press_meant_for_cancel_retries_no_run_that_ended_at_that_moment() {
    let running = vec![record(1, "fp32", RunState::Running)];
    let state = state(running, vec![row(1, RunState::Running, 1)]);
    let mut harness = window_by(0.05, state, State::draw::<RunsScreen>);
    harness.state_mut().commands.push(RunsCommand::Select(Some("0001-cell-1".to_owned())).into());
    harness.run_steps(4);
    let aim = harness.get_by_label("Cancel this run").rect().center();
    harness.hover_at(aim);
    harness.step();
    harness.state_mut().state.take(UiEvent::Queue(Arc::new(queue(vec![row(1, RunState::Failed, 1)]))));
    harness.step();
    for pressed in [true, false] {
        harness.event(eframe::egui::Event::PointerButton {
            pos: aim,
            button: eframe::egui::PointerButton::Primary,
            pressed,
            modifiers: Modifiers::default(),
        });
        harness.step();
    }
    assert!(harness.query_by_label("Retry this run").is_some_and(|button| button.rect().contains(aim)));
    assert!(!asked(&harness, &Request::Order(Order::Retry("0001-cell-1".to_owned()))));
}
