//! What people do to a queue while it changes: controls keep their places, moves and undos, closing.

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
fn a_note_is_written_once_when_its_field_is_left() {
    let mut harness = window(state(vec![failed(1)], Vec::new()), State::draw::<RunsScreen>);
    let context = harness.ctx.clone();
    let select = RunsCommand::Select(Some("0001-cell-1".to_owned()));
    harness.state_mut().state.execute(select.into(), &context);
    harness.run();
    harness.get_by_label("Note on the run").focus();
    harness.run();
    harness.get_by_label("Note on the run").type_text("fan was off");
    harness.run();
    let orders = |harness: &Harness<'_, Window>| -> Vec<Request> {
        let requests = harness.state().requests.iter();
        requests.filter(|request| matches!(request, Request::Order(_))).cloned().collect()
    };
    assert_eq!(orders(&harness), []);
    harness.get_by_label("Retry this run").focus();
    harness.run();
    let note = Order::Note(Some("0001-cell-1".to_owned()), "fan was off".to_owned());
    assert_eq!(orders(&harness), [Request::Order(note)]);
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
    assert!(state.desk.notice.as_ref().is_none_or(|(_, notice)| !notice.text.contains("undone")));
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
        "The action “1 run taken out of the queue and 1 stopped” was undone in part. Run 1 had started and stays cancelled."
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
    assert!(sees(&harness, "Run 2 (fp16 · repeat 2) was taken out of the queue."));
    click(&mut harness, "Undo");
    assert!(asked(&harness, &Request::Order(Order::Revive(second()))));
    assert!(
        sees(&harness, "The action “Run 2 (fp16 · repeat 2) was taken out of the queue” was undone.")
            && harness.query_by_label("Undo").is_none()
    );
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
fn a_run_that_started_while_it_was_cancelled_offers_no_undo() {
    let records = |second| vec![record(1, "fp32", RunState::Finished), record(2, "fp16", second)];
    let state = state(records(RunState::Queued), vec![row(2, RunState::Queued, 0)]);
    let mut harness = window(state, shell_ui);
    click(&mut harness, "Cancel run 2");
    assert!(harness.query_by_label("Undo").is_some());
    let ended = Records { folder: folder(), runs: records(RunState::Cancelled).into(), ..Records::default() }.folded();
    harness.state_mut().state.take(UiEvent::Records(Arc::new(ended)));
    harness.state_mut().state.take(UiEvent::Queue(Arc::new(queue(vec![]))));
    harness.run();
    assert!(sees(&harness, "Run 2 (fp16 · repeat 2) had started and was cancelled."));
    assert!(harness.query_by_label("Undo").is_none());
    let context = harness.ctx.clone();
    harness.state_mut().state.execute(Command::Undo, &context);
    assert!(
        !harness.state_mut().state.desk.take_requests().contains(&Request::Order(Order::Revive("0002-cell-2".into())))
    );
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
