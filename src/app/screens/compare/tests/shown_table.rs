//! The table below the charts: its columns, their order, what is copied, its rows and its place in the window.

use eframe::egui::OutputCommand;

use super::*;
use crate::app::columns::{Columns, Listed};
use crate::figure::{Format, render};

#[test]
fn the_status_line_of_a_small_window_overlaps_nothing() {
    let harness = harness(state_of(records("s", small())), [872.0, 650.0]);
    let notes = harness.get_by_label_contains("Notes (").rect();
    for text in ["4 cells", "7 runs", "1 excluded"] {
        let counted = harness.get_by_label(text).rect();
        assert!(!counted.intersects(notes) && counted.right() <= 872.0, "{text}: {counted:?} and {notes:?}");
    }
}

/// 16 cells: two precisions by numbers of GPUs, with one run each.
pub(super) fn many_rows() -> Vec<RunRecord> {
    let cells = (1..=8_i64).flat_map(|gpus| ["fp32", "fp16"].map(|precision| fixture::cell(precision, gpus, "ddp-ds")));
    cells.map(|cell| fixture::run(&cell, 1, 0.1)).collect()
}

#[test]
fn a_low_window_shows_more_than_a_few_rows_of_the_table() {
    let window = harness(state_of(records("s", many_rows())), [872.0, 640.0]);
    let is_whole = |node: &egui_kittest::Node<'_>| node.rect().bottom() <= 640.0 - 8.0;
    let rows = window.query_all_by_role(Role::Row).filter(is_whole).count();
    assert!(rows >= 6, "{rows} rows");
}

#[test]
fn a_table_of_few_rows_leaves_its_room_to_the_charts_in_every_size_of_the_window() {
    let top = |window: &Harness<'_, Screened>, cells: &str| window.get_by_label(cells).rect().top();
    let many = harness(state_of(records("s", many_rows())), [872.0, 640.0]);
    let mut few = harness(state_of(records("s", small())), [872.0, 640.0]);
    assert!(top(&few, "4 cells") > top(&many, "16 cells") + 12.0);
    few.set_size(eframe::egui::Vec2::new(2440.0, 1400.0));
    few.run();
    let large = harness(state_of(records("s", small())), [2440.0, 1400.0]);
    assert!((top(&few, "4 cells") - top(&large, "4 cells")).abs() < 2.0, "the first size of the window is forgotten");
    assert!(top(&large, "4 cells") > 1100.0, "{}", top(&large, "4 cells"));
}

#[test]
fn the_buttons_above_the_table_stay_where_they_are_whatever_form_is_shown() {
    let mut window = harness(state_of(records("s", small())), [1060.0, 760.0]);
    let top = |window: &Harness<'_, Screened>| window.get_by_label("Copy as").rect().top();
    let before = top(&window);
    for form in Form::ALL {
        send(&mut window.state_mut().state, CompareCommand::Form(*form));
        window.run();
        assert!((top(&window) - before).abs() < 1.0, "{form:?}: {} instead of {before}", top(&window));
    }
}

#[test]
fn a_large_window_shows_a_table_of_eight_rows_whole() {
    let runs: Vec<RunRecord> = many_rows()
        .into_iter()
        .filter(|run| run.levels.get("gpus").is_some_and(|gpus| gpus.as_integer() <= Some(4)))
        .collect();
    // What a window of 2560 × 1440 leaves beside the list of screens.
    let window = harness(state_of(records("s", runs)), [2440.0, 1400.0]);
    let names: Vec<String> = (1..=4)
        .flat_map(|gpus| ["fp32", "fp16"].map(|one| format!("{one} · {gpus} GPU{}", if gpus == 1 { "" } else { "s" })))
        .collect();
    for name in names {
        let row = window.get_by_role_and_label(Role::Row, &format!("Cell {name}")).rect();
        assert!(row.bottom() <= 1400.0 - 8.0 && row.height() >= 20.0, "{name}: {row:?}");
    }
}

#[test]
fn the_boundary_between_charts_and_table_stays_where_it_was_moved_in_the_next_window() {
    let mut window = harness(state_of(records("s", many_rows())), [1280.0, 800.0]);
    let top = |window: &Harness<'_, Screened>| window.get_by_label("16 cells").rect().top();
    let before = top(&window);
    let edge = Pos2::new(800.0, before - 8.0);
    let to = edge - eframe::egui::vec2(0.0, 100.0);
    for (place, pressed) in [(edge, Some(true)), (edge - eframe::egui::vec2(0.0, 50.0), None), (to, Some(false))] {
        window.event(Event::PointerMoved(place));
        window.step();
        if let Some(pressed) = pressed {
            let (button, modifiers) = (PointerButton::Primary, Modifiers::NONE);
            window.event(Event::PointerButton { pos: place, button, pressed, modifiers });
        }
        window.step();
    }
    let commands = asked(&mut window);
    let [CompareCommand::TableShare(share)] = commands[..] else { panic!("{commands:?}") };
    let moved = top(&window);
    assert!((before - moved - 100.0).abs() < 12.0, "from {before} to {moved}");
    let mut again = state_of(records("s", many_rows()));
    send(&mut again, CompareCommand::TableShare(share));
    let text = toml::to_string(&again.desk.settings).unwrap();
    again.desk.settings = toml::from_str(&text).unwrap();
    let again = harness(again, [1280.0, 800.0]);
    assert!((top(&again) - moved).abs() < 2.0, "{} instead of {moved}", top(&again));
}

#[test]
fn rows_and_levels_keep_their_factors_order_whatever_ran_first_also_after_show_all() {
    let mut runs = small();
    runs.reverse();
    let mut harness = harness(state_of(records("s", runs)), [1280.0, 800.0]);
    let check = |harness: &Harness<'_, Screened>| {
        let state = &harness.state().state;
        assert_eq!(column(state, "precision"), ["fp32", "fp32", "fp16", "fp16"]);
        assert_eq!(column(state, "gpus"), ["1", "2", "1", "2"]);
        for [first, second] in [["Show fp32", "Show fp16"], ["Show 1 GPU", "Show 2 GPUs"]] {
            let left = |name: &str| harness.get_by_role_and_label(Role::CheckBox, name).rect().left();
            assert!(left(first) < left(second), "{first}, {second}");
        }
    };
    check(&harness);
    harness.get_by_role_and_label(Role::CheckBox, "Show fp32").click();
    obey(&mut harness);
    assert_eq!(column(&harness.state().state, "gpus"), ["1", "2"], "one precision is left, which needs no column");
    harness.get_by_label("Show all").click();
    obey(&mut harness);
    check(&harness);
}

#[test]
fn columns_of_the_table_are_chosen_ordered_and_copied_as_they_are_shown() {
    let mut harness = harness(state_of(records("s", small())), [1280.0, 800.0]);
    harness.get_by_label("Table columns").click();
    harness.run();
    harness.get_by_label("Column GPUs").click();
    harness.run();
    let commands = std::mem::take(&mut harness.state_mut().commands);
    let context = Context::default();
    commands.into_iter().for_each(|command| harness.state_mut().state.execute(command, &context));
    harness.run();
    assert!(harness.query_by_label("Sort by GPUs").is_none());
    let state = &harness.state().state;
    let picture = state.own::<CompareScreen>().picture.as_ref().unwrap();
    let copied = table::copied_table(picture, &state.own::<CompareScreen>().order, &state.desk.settings);
    let keys: Vec<&str> = copied.columns.iter().map(|column| &*column.key).collect();
    assert!(!keys.contains(&"gpus") && keys.contains(&"precision"), "{keys:?}");
    assert!(copied.rows.iter().all(|row| row.values.len() == keys.len()));
    // A measure that the table lacks.
    change(&mut harness.state_mut().state, |study| {
        study.measures = vec!["training_time_s".into(), "epoch_time_s".into()];
    });
    assert_eq!(column(&harness.state().state, "epoch_time_s").len(), 4);
}

#[test]
fn a_column_without_values_is_hidden_and_named_until_the_user_wants_it() {
    let mut state = state_of(records("s", small()));
    change(&mut state, |study| study.measures = vec!["training_time_s".into(), "host_to_device_s".into()]);
    assert_eq!(column(&state, "host_to_device_s"), ["–"; 4]);
    let shown = |state: &State| -> Vec<String> {
        let picture = state.own::<CompareScreen>().picture.as_ref().unwrap();
        let named = picture.texts.named(&picture.comparison.table);
        let columns = table::shown_columns(picture, &state.desk.settings);
        columns.into_iter().map(|column| named[column].0.clone()).collect()
    };
    let is_shown = |state: &State| shown(state).iter().any(|key| key == "host_to_device_s");
    assert!(!is_shown(&state), "{:?}", shown(&state));
    let mut harness = harness(state, [1280.0, 800.0]);
    harness.get_by_label_contains("Notes (").click();
    harness.run();
    harness.get_by_label_contains("no values of: ");
    let mut columns = Columns::default();
    columns.show("host_to_device_s", true, true);
    harness.state_mut().state.desk.settings.columns.insert(Listed::Compare, columns);
    let state = &harness.state().state;
    assert!(is_shown(state), "{:?}", shown(state));
}

#[test]
fn a_column_is_sorted_by_number_both_ways_and_then_not_at_all() {
    let cell = |gpus: i64| fixture::cell("fp32", gpus, "ddp-ds");
    // 10.5, 9.5 and 105 as text would stand in another order.
    let runs =
        vec![fixture::run(&cell(1), 1, 0.525), fixture::run(&cell(2), 1, 0.475), fixture::run(&cell(3), 1, 5.25)];
    let mut harness = harness(state_of(records("s", runs)), [1280.0, 800.0]);
    let mut orders = Vec::new();
    for _ in 0..3 {
        harness.get_by_role_and_label(Role::Button, "Sort by Training time (s)").click();
        let commands = asked(&mut harness);
        assert_eq!(commands, [CompareCommand::Sort("training_time_s".to_owned())]);
        send(&mut harness.state_mut().state, commands[0].clone());
        orders.push(column(&harness.state().state, "training_time_s"));
    }
    assert_eq!(orders[0], ["9.50", "10.5", "105"]);
    assert_eq!(orders[1], ["105", "10.5", "9.50"]);
    assert_eq!(orders[2], ["10.5", "9.50", "105"]);
}

/// Turns the wheel by these points while the pointer is over this text.
fn scroll(harness: &mut Harness<'_, Screened>, over: &str, delta: [f32; 2]) {
    harness.get_by_label(over).hover();
    harness.event(Event::MouseWheel {
        unit: MouseWheelUnit::Point,
        delta: delta.into(),
        phase: TouchPhase::Move,
        source: MouseWheelSource::Unknown,
        modifiers: Modifiers::NONE,
    });
    harness.run_steps(30);
}

#[test]
fn check_values_and_evidence_are_in_sight_beside_the_verdict_and_stay_there_where_there_is_room() {
    let mut runs = small();
    let [factor, asked, seen] = ["pin_memory", "on", "on"].map(str::to_owned);
    runs[0].ranks[0].evidence = vec![Arc::new(Evidence { factor, asked, seen, in_effect: true })];
    // What windows of 1280 × 800 and of 2028 × 1060 leave beside the list of screens.
    for (size, stays, moves) in [
        ([1152.0, 740.0], "Sort by Verdict", "Sort by Training loss"),
        ([1900.0, 1000.0], "Sort by Proof", "Sort by Runs"),
    ] {
        let mut state = state_of(records("s", runs.clone()));
        change(&mut state, |study| {
            let times =
                ["training_time_s", "ratio", "step_time_s", "epoch_time_s", "total_time_s", "evaluation_time_s"];
            let others = ["peak_allocated_bytes", "peak_reserved_bytes", "energy_j", "train_loss", "accuracy"];
            study.measures = times.into_iter().chain(others).map(Key::from).collect();
        });
        let picture = state.own::<CompareScreen>().picture.as_ref().unwrap();
        let named = picture.texts.named(&picture.comparison.table);
        let keys: Vec<&str> = named.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys[4..9], ["verdict", "train_loss", "accuracy", "proof", "runs"], "{keys:?}");
        let mut harness = harness(state, size);
        for heading in ["Sort by Training loss", "Sort by Accuracy (%)", "Sort by Proof"] {
            let heading = harness.get_by_label(heading).rect();
            assert!(heading.right() <= size[0] - 8.0, "{heading:?}");
        }
        let left = |harness: &Harness<'_, Screened>, name: &str| {
            harness.query_by_label(name).map(|heading| heading.rect().left())
        };
        let before = [left(&harness, stays), left(&harness, moves)];
        scroll(&mut harness, moves, [-60.0, 0.0]);
        assert_eq!(left(&harness, stays), before[0], "{size:?}");
        assert_ne!(left(&harness, moves), before[1], "{size:?}");
    }
}

#[test]
fn all_notes_are_within_reach_of_the_wheel_in_a_small_window() {
    let mut state = state_of(records("s", small()));
    let picture = state.own_mut::<CompareScreen>().picture.as_mut().unwrap();
    picture.notes = (0..60).map(|number| format!("note {number}")).collect();
    let mut harness = harness(state, [872.0, 640.0]);
    harness.get_by_label_contains("Notes (").click();
    harness.run();
    scroll(&mut harness, "• note 2", [0.0, -5000.0]);
    let last = harness.get_by_label("• note 59").rect();
    assert!(last.top() >= 0.0 && last.bottom() <= 640.0, "{last:?}");
    harness.get_by_label("• note 59").click();
    harness.run();
    assert!(harness.query_by_label("• note 59").is_some(), "a click into the notes leaves them open");
}

#[test]
fn the_verdict_stands_beside_the_ratio_in_whole_and_both_stay_in_sight_while_the_table_is_scrolled() {
    let state = state_of(records("s", small()));
    let picture = state.own::<CompareScreen>().picture.as_ref().unwrap();
    let named = picture.texts.named(&picture.comparison.table);
    let keys: Vec<&str> = named.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys[..5], ["precision", "gpus", "ratio", "interval of ratio", "verdict"], "{keys:?}");
    let last = column(&state, "verdict").pop().unwrap();
    let mut harness = harness(state, [1280.0, 800.0]);
    let place = |harness: &Harness<'_, Screened>| harness.get_by_label("Sort by Verdict").rect();
    let before = place(&harness);
    let runs = harness.get_by_label("Sort by Runs").rect();
    let words = harness.get_all_by_label(&last).last().unwrap().rect();
    assert!(words.right() < runs.left() && words.left() >= before.left() - 1.0, "{words:?} {before:?}");
    scroll(&mut harness, "Sort by Runs", [-60.0, 0.0]);
    assert_eq!(place(&harness), before);
    assert!(harness.query_by_label("Sort by Runs").is_none_or(|heading| heading.rect().left() < runs.left()));
}

#[test]
fn the_levels_stay_in_sight_where_the_verdict_has_no_room_to_stay() {
    // What a window of 1000 × 700 leaves beside the list of screens.
    let mut harness = harness(state_of(records("s", small())), [880.0, 640.0]);
    let left =
        |harness: &Harness<'_, Screened>, name: &str| harness.query_by_label(name).map(|heading| heading.rect().left());
    let names = ["Sort by Precision", "Sort by GPUs", "Sort by Verdict"];
    let before = names.map(|name| left(&harness, name));
    scroll(&mut harness, "Sort by Verdict", [-60.0, 0.0]);
    let after = names.map(|name| left(&harness, name));
    assert!(before[0].is_some() && before[1].is_some());
    assert_eq!(after[..2], before[..2]);
    assert_ne!(after[2], before[2]);
}

#[test]
fn verdicts_are_whole_in_the_narrowest_window() {
    let state = state_of(records("s", small()));
    let verdicts = column(&state, "verdict");
    assert!(verdicts.iter().any(|text| text.len() > 30), "{verdicts:?}");
    // What a window of 1000 points leaves beside the list of screens.
    let harness = harness(state, [880.0, 1200.0]);
    for text in &verdicts {
        let seen: Vec<_> = harness.query_all_by_label(text).map(|label| label.rect().right()).collect();
        assert!(!seen.is_empty() && seen.iter().all(|right| *right < 880.0), "{text}: {seen:?}");
    }
}

#[test]
fn intervals_stand_only_beside_values_of_several_repeats() {
    let state = state_of(records("s", small()));
    let picture = state.own::<CompareScreen>().picture.as_ref().unwrap();
    let intervals = column(&state, "interval of training_time_s");
    // The second repeat of the last cell failed.
    assert_eq!(intervals, ["[8.00, 8.80]", "[4.00, 4.40]", "[2.00, 2.20]", ""]);
    let points = picture.comparison.charts[0].series().flat_map(|series| &series.points);
    assert_eq!(points.filter(|point| point.value.interval.is_none()).count(), 1);
}

#[test]
fn copying_gives_the_table_as_it_is_shown() {
    let mut state = state_of(records("s", small()));
    send(&mut state, CompareCommand::Sort("precision".to_owned()));
    send(&mut state, CompareCommand::Sort("precision".to_owned()));
    let context = Context::default();
    let mut output = context.run_ui(Default::default(), |ui| {
        state.execute(Command::from(CompareCommand::Copy(Format::Csv)), ui.ctx());
    });
    let copied = output.platform_output.commands.iter().find_map(|command| match command {
        OutputCommand::CopyText(text) => Some(text.clone()),
        _ => None,
    });
    output.textures_delta.clear();
    let copied = copied.unwrap();
    let picture = state.own::<CompareScreen>().picture.as_ref().unwrap();
    assert_eq!(copied.lines().next(), render(&picture.comparison.table, Format::Csv).lines().next());
    let cells: Vec<&str> = copied.lines().skip(1).map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(cells, ["fp16-1-ddp-ds", "fp16-2-ddp-ds", "fp32-1-ddp-ds", "fp32-2-ddp-ds"]);
}

#[test]
fn what_is_copied_is_said() {
    let mut state = state_of(records("s", small()));
    let notice_of =
        |state: &State| state.desk.notice.as_ref().map(|(_, notice)| notice.text.clone()).unwrap_or_default();
    for (format, start) in [(Format::Markdown, "Copied as Markdown: "), (Format::Csv, "Copied as CSV: ")] {
        send(&mut state, CompareCommand::Copy(format));
        let notice = notice_of(&state);
        assert!(notice.starts_with(start) && notice.ends_with(" rows"), "{notice}");
    }
}

#[test]
fn a_chosen_row_is_its_bar_and_the_other_way_round() {
    let mut harness = harness(state_of(records("s", small())), [1280.0, 800.0]);
    harness.get_by_label("Bar fp32 · 2 GPUs: Training time 4.20 s").click();
    let commands = asked(&mut harness);
    assert_eq!(commands, [CompareCommand::Select(Some(key("fp32-2-ddp-ds")))]);
    send(&mut harness.state_mut().state, commands[0].clone());
    harness.run();
    let row = harness.get_by_role_and_label(Role::Row, "Cell fp32 · 2 GPUs");
    assert_eq!(row.accesskit_node().toggled(), Some(Toggled::True));
    harness.get_by_role_and_label(Role::Row, "Cell fp16 · 1 GPU").click();
    assert_eq!(asked(&mut harness), [CompareCommand::Select(Some(key("fp16-1-ddp-ds")))]);
}

#[test]
fn charts_keep_their_room_in_a_window_that_became_smaller() {
    let mut harness = harness(state_of(records("s", small())), [2432.0, 1390.0]);
    let room = |harness: &Harness<'_, Screened>| {
        let status = harness.get_by_label("4 cells").rect().top();
        (status, status - harness.get_by_role_and_label(Role::ComboBox, "Measure").rect().bottom())
    };
    // The table is made as large as it can be.
    let edge = Pos2::new(1000.0, room(&harness).0 - 10.0);
    for (at, pressed) in [(edge, Some(true)), (Pos2::new(1000.0, 200.0), None), (Pos2::new(1000.0, 200.0), Some(false))]
    {
        harness.event(Event::PointerMoved(at));
        if let Some(pressed) = pressed {
            let (button, modifiers) = (PointerButton::Primary, Modifiers::NONE);
            harness.event(Event::PointerButton { pos: at, button, pressed, modifiers });
        }
        harness.run();
    }
    let large = room(&harness);
    harness.set_size([1152.0, 750.0].into());
    harness.run();
    let small = room(&harness);
    assert!(large.1 >= 200.0 && small.1 >= 200.0, "{large:?} {small:?}");
}

#[test]
fn the_numbers_of_a_column_stand_below_each_other_also_where_one_has_fewer_repeats() {
    let mut runs = small();
    // With one repeat of the baseline, the two repeats of the others form one pair.
    runs.retain(|run| run.repeat == 1 || !run.cell.starts_with("fp32-1"));
    runs.iter_mut().for_each(|run| (run.state, run.reason) = (RunState::Finished, None));
    let state = state_of(records("s", runs));
    let texts = column(&state, "ratio");
    let harness = harness(state, [1280.0, 800.0]);
    assert!(texts.iter().any(|text| text.ends_with("(n = 1)")), "{texts:?}");
    let rights: Vec<f32> = texts
        .iter()
        .map(|text| {
            let number = text.split(' ').next().unwrap();
            let shown = if number == "–" { number.to_owned() } else { format!("{number}×") };
            // The chart has the ratio, too, but not as a label.
            let right = |node: egui_kittest::Node<'_>| node.rect().right();
            harness.get_all_by_label(&shown).map(right).next().unwrap()
        })
        .collect();
    assert!(rights.iter().all(|right| (right - rights[0]).abs() < 1.0), "{rights:?}");
}
