#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use eframe::egui::accesskit::{Role, Toggled};
use eframe::egui::{
    Context, Event, Modifiers, MouseWheelSource, MouseWheelUnit, OutputCommand, PointerButton, Pos2, TouchPhase,
};
use egui_kittest::Harness;
use egui_kittest::kittest::{NodeT as _, Queryable};

use super::*;
use crate::analysis::{self, Level, MetricUnit, RunState, fixture, summarise_run};
use crate::app::columns::{Columns, Listed};
use crate::app::desk::OpenSession;
use crate::app::engine::SessionPlan;
use crate::app::{PlanScreen, Records, Window as State};
use crate::app::{Settings, theme};
use crate::figure::{Format, Place, SPEEDUP, preset, render};
use crate::papers::artefact;
use crate::plan;
use crate::protocol::{self, Evidence};
use crate::store::RunRecord;

mod brought_workload;
mod charts;
mod many;
#[path = "../../../../tests/bench/many_runs.rs"]
mod many_runs;
mod metrics;
mod own_measures;
mod studies;

fn records(folder: &str, runs: Vec<RunRecord>) -> Arc<Records> {
    let summaries = runs.iter().filter(|run| run.state.is_final()).map(summarise_run).collect();
    Arc::new(Records { folder: PathBuf::from(folder), runs: runs.into(), summaries, ..Records::default() }.folded())
}

/// fp32 and fp16 on 1 and 2 GPUs, two repeats each; the last run failed.
fn small() -> Vec<RunRecord> {
    let cells = [("fp32", 1, 0.4), ("fp32", 2, 0.2), ("fp16", 1, 0.1), ("fp16", 2, 0.05)];
    let run = |(precision, gpus, step_time_s): (&str, i64, f64), repeat: u32| {
        let cell = fixture::cell(precision, gpus, "ddp-ds");
        fixture::run(&cell, repeat, step_time_s * (1.0 + 0.1 * f64::from(repeat - 1)))
    };
    let mut runs: Vec<RunRecord> = cells.into_iter().flat_map(|cell| [run(cell, 1), run(cell, 2)]).collect();
    let last = runs.last_mut().unwrap();
    last.state = RunState::Failed;
    last.reason = Some("out of memory".to_owned());
    runs
}

/// The same an hour later, as another session has them.
fn later(runs: Vec<RunRecord>) -> Vec<RunRecord> {
    let after = |time_s: Option<f64>| time_s.map(|time_s| time_s + 3600.0);
    let later = |run: RunRecord| RunRecord {
        started_time_s: after(run.started_time_s),
        ended_time_s: after(run.ended_time_s),
        ..run
    };
    runs.into_iter().map(later).collect()
}

fn state_of(records: Arc<Records>) -> State {
    let mut state = State::new(Settings::default());
    state.desk.session = Some(OpenSession { folder: records.folder.clone(), read_only: None });
    state.desk.records = records;
    state.desk.screen = ScreenName::COMPARE;
    state.own_mut::<CompareScreen>().stale = true;
    settle(&mut state);
    state
}

/// Until the work on a thread is done and taken over.
fn settle(state: &mut State) {
    let context = Context::default();
    while state.own::<CompareScreen>().is_updating() {
        state.poll(&context);
        std::thread::yield_now();
    }
}

fn send(state: &mut State, command: CompareCommand) -> Vec<Request> {
    let mut requests = Vec::new();
    state.execute(Command::from(command), &Context::default());
    requests.extend(state.desk.take_requests());
    settle(state);
    requests
}

/// Changes what is shown, as a control does.
fn change(state: &mut State, change: impl FnOnce(&mut Study)) {
    let mut study = state.own::<CompareScreen>().study.clone();
    change(&mut study);
    send(state, CompareCommand::Edit(Box::new(study), None));
}

/// The study that the only command puts in place.
fn edited(commands: &[CompareCommand]) -> &Study {
    let [command] = commands else { panic!("{commands:?}") };
    command.edited().unwrap()
}

fn rows(state: &State) -> Vec<Vec<String>> {
    let picture = state.own::<CompareScreen>().picture.as_ref().unwrap();
    state.own::<CompareScreen>().order.iter().map(|row| picture.texts.texts[*row].clone()).collect()
}

/// The texts of one column from the top.
fn column(state: &State, name: &str) -> Vec<String> {
    let picture = state.own::<CompareScreen>().picture.as_ref().unwrap();
    let named = picture.texts.named(&picture.comparison.table);
    let place = named.iter().position(|(key, _)| key == name).unwrap();
    rows(state).into_iter().map(|row| row[place].clone()).collect()
}

fn bars(state: &State) -> usize {
    let charts = &state.own::<CompareScreen>().picture.as_ref().unwrap().comparison.charts;
    charts.iter().flat_map(|chart| chart.series()).map(|series| series.points.len()).sum()
}

fn key(cell: &str) -> CellKey {
    CellKey { cell: cell.to_owned(), ..CellKey::default() }
}

struct Screened {
    state: State,
    commands: Vec<Command>,
}

fn harness(state: State, size: [f32; 2]) -> Harness<'static, Screened> {
    let mut fresh = true;
    let draw = move |ui: &mut Ui, screened: &mut Screened| {
        if std::mem::take(&mut fresh) {
            theme::install(ui.ctx());
            screened.state.desk.settings.apply(ui.ctx());
            // Fonts are there from the next frame on.
            ui.ctx().request_discard("fonts");
            return;
        }
        CentralPanel::default()
            .show(ui, |ui| State::draw::<CompareScreen>(ui, &screened.state, &mut screened.commands));
    };
    let screened = Screened { state, commands: Vec::new() };
    let mut harness = Harness::builder().with_max_steps(24).with_size(size).build_ui_state(draw, screened);
    harness.run();
    harness
}

/// What was asked for by clicks since the last time.
fn asked(harness: &mut Harness<'_, Screened>) -> Vec<CompareCommand> {
    harness.run();
    let commands = std::mem::take(&mut harness.state_mut().commands);
    let compare = |command: Command| command.of_screen().cloned();
    commands.into_iter().filter_map(compare).collect()
}

/// All texts that are painted.
fn painted(harness: &Harness<'_, Screened>) -> Vec<String> {
    let texts = harness.output().shapes.iter().filter_map(|clipped| match &clipped.shape {
        eframe::egui::Shape::Text(text) => Some(text.galley.text().to_owned()),
        _ => None,
    });
    texts.collect()
}

#[test]
fn the_status_line_of_a_small_window_overlaps_nothing() {
    let harness = harness(state_of(records("s", small())), [872.0, 650.0]);
    let notes = harness.get_by_label_contains("Notes (").rect();
    for text in ["4 cells", "7 runs", "1 excluded"] {
        let counted = harness.get_by_label(text).rect();
        assert!(!counted.intersects(notes) && counted.right() <= 872.0, "{text}: {counted:?} and {notes:?}");
    }
}

/// Many cells: two precisions by batch sizes.
fn many_rows() -> Vec<RunRecord> {
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
fn bars_on_a_logarithmic_axis_are_selected_as_others_are() {
    let mut harness = harness(state_of(records("s", small())), [1280.0, 800.0]);
    harness.get_by_role_and_label(Role::CheckBox, "Log").click();
    let commands = asked(&mut harness);
    assert!(edited(&commands).log);
    let state = &mut harness.state_mut().state;
    send(state, commands[0].clone());
    let picture = state.own::<CompareScreen>().picture.as_ref().unwrap();
    assert_eq!(picture.comparison.charts[0].y.scale, crate::figure::Scale::Log);
    harness.run();
    harness.get_by_label("Bar fp32 · 2 GPUs: Training time 4.20 s").click();
    assert_eq!(asked(&mut harness), [CompareCommand::Select(Some(key("fp32-2-ddp-ds")))]);
}

#[test]
fn unticking_a_level_leaves_its_rows_and_bars_out() {
    let mut harness = harness(state_of(records("s", small())), [1280.0, 800.0]);
    assert_eq!((rows(&harness.state().state).len(), bars(&harness.state().state)), (4, 4));
    harness.get_by_role_and_label(Role::CheckBox, "Show fp16").click();
    let commands = asked(&mut harness);
    assert_eq!(edited(&commands).hidden, [("precision".into(), Level::text("fp16"))]);
    let state = &mut harness.state_mut().state;
    send(state, commands[0].clone());
    assert_eq!((rows(state).len(), bars(state)), (2, 2));
    harness.run();
    assert!(harness.query_by_label_contains("Cell fp16").is_none());
    harness.get_by_label("2 of 4 cells");
    harness.get_by_label("Show all").click();
    let commands = asked(&mut harness);
    send(&mut harness.state_mut().state, commands[0].clone());
    assert_eq!(rows(&harness.state().state).len(), 4);
}

/// Sends what clicks asked for.
fn obey(harness: &mut Harness<'_, Screened>) {
    for command in asked(harness) {
        send(&mut harness.state_mut().state, command);
    }
    harness.run();
}

#[test]
fn a_factor_is_held_at_one_level_where_its_levels_are_listed_and_let_go_there() {
    let mut harness = harness(state_of(records("s", small())), [1280.0, 800.0]);
    harness.get_by_label("GPUs: all levels").click();
    harness.run();
    harness.get_by_label("GPUs: show only 2").click();
    obey(&mut harness);
    assert_eq!(rows(&harness.state().state).len(), 2);
    harness.get_by_label("GPUs: held at 2");
    harness.get_by_label("2 of 4 cells");
    assert!(harness.query_by_label("Show 1 GPU").is_none());
    send(&mut harness.state_mut().state, CompareCommand::Undo);
    assert_eq!(rows(&harness.state().state).len(), 4);
    send(&mut harness.state_mut().state, CompareCommand::Redo);
    harness.run();
    harness.get_by_label("Show all").click();
    obey(&mut harness);
    harness.get_by_label("GPUs: all levels");
}

#[test]
fn levels_get_another_order_and_another_colour_in_their_menu_and_figures_have_them_too() {
    let mut harness = harness(state_of(records("s", small())), [1280.0, 800.0]);
    harness.get_by_label("Precision: all levels").click();
    harness.run();
    harness.get_by_label("Move fp16 up").click();
    obey(&mut harness);
    assert_eq!(column(&harness.state().state, "precision"), ["fp16", "fp16", "fp32", "fp32"]);
    harness.get_by_label("Colour of fp16: vermillion").click();
    obey(&mut harness);
    let state = &mut harness.state_mut().state;
    assert_eq!(state.own::<CompareScreen>().study.colours, [("precision".into(), Level::text("fp16"), 5)]);
    assert_eq!((state.desk.looks.order.len(), state.desk.looks.colours.len()), (1, 1));
    harness.get_by_label("Default order and colours").click();
    obey(&mut harness);
    let state = &harness.state().state;
    assert!(
        state.own::<CompareScreen>().study.order.is_empty() && state.own::<CompareScreen>().study.colours.is_empty()
    );
    assert_eq!(state.desk.looks, Looks::default());
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
fn a_click_on_a_loss_line_selects_its_cell_and_a_second_one_unselects_it() {
    let mut state = state_of(records("s", small()));
    send(&mut state, CompareCommand::Form(Form::Loss));
    change(&mut state, |study| study.measure = Some("train_loss".into()));
    let mut harness = harness(state, [1280.0, 800.0]);
    let click = |harness: &mut Harness<'_, Screened>, at: Pos2| {
        let button = |pressed| Event::PointerButton {
            pos: at,
            button: PointerButton::Primary,
            pressed,
            modifiers: Modifiers::NONE,
        };
        harness.event(Event::PointerMoved(at));
        harness.run();
        for pressed in [true, false] {
            harness.event(button(pressed));
            harness.run();
        }
        asked(harness)
    };
    // Somewhere along this line on screen, a curve is crossed.
    let places = (0..60).map(|step| Pos2::new(700.0, 160.0 + 5.0 * step as f32));
    let hit = places.into_iter().find_map(|at| match click(&mut harness, at).as_slice() {
        [CompareCommand::Select(Some(cell))] => Some((at, cell.clone())),
        _ => None,
    });
    let (at, cell) = hit.unwrap();
    send(&mut harness.state_mut().state, CompareCommand::Select(Some(cell)));
    harness.run();
    assert_eq!(click(&mut harness, at), [CompareCommand::Select(None)]);
}

#[test]
fn words_narrow_the_cells_and_words_that_none_has_leave_none() {
    let mut state = state_of(records("s", small()));
    change(&mut state, |study| study.filter = "FP16 2".to_owned());
    assert_eq!(column(&state, "precision"), ["fp16"]);
    change(&mut state, |study| study.filter = "fp8".to_owned());
    assert_eq!((rows(&state).len(), bars(&state)), (0, 0));
    let harness = harness(state, [1280.0, 800.0]);
    harness.get_by_label_contains("No cell matches the filter");
    harness.get_by_label("Show all");
}

#[test]
fn another_measure_has_other_values_and_units() {
    let mut state = state_of(records("s", small()));
    assert_eq!(column(&state, "training_time_s")[0], "8.40");
    change(&mut state, |study| study.measure = Some("peak_allocated_bytes".into()));
    assert_eq!(column(&state, "peak_allocated_bytes")[0], "3.00");
    let chart = &state.own::<CompareScreen>().picture.as_ref().unwrap().comparison.charts[0];
    assert_eq!(chart.y.title(), "Peak allocated (GB)");
    change(&mut state, |study| study.measure = Some(SPEEDUP.into()));
    assert_eq!(column(&state, SPEEDUP)[0], "1.00");
    harness(state, [1280.0, 800.0]).get_by_role_and_label(Role::Button, "Sort by Speed-up by throughput (×)");
}

#[test]
fn ratios_are_over_the_baseline_and_it_is_one_over_itself() {
    let mut state = state_of(records("s", small()));
    assert_eq!(column(&state, "ratio")[..1], ["1.00"]);
    send(&mut state, CompareCommand::Baseline(Some("fp16-1-ddp-ds".to_owned())));
    let ratios = column(&state, "ratio");
    assert_eq!((ratios[0].as_str(), ratios[2].as_str()), ("0.250", "1.00"));
    send(&mut state, CompareCommand::NextBaseline);
    let baseline = state.own::<CompareScreen>().picture.as_ref().unwrap().comparison.baseline.clone().unwrap();
    assert_eq!((baseline.0, baseline.1.as_str()), (Some(key("fp16-2-ddp-ds")), "fp16 · 2 GPUs"));
    send(&mut state, CompareCommand::NextBaseline);
    assert_eq!(state.own::<CompareScreen>().study.baseline.as_deref(), Some("fp32-1-ddp-ds"));
    send(&mut state, CompareCommand::Baseline(Some("gone".to_owned())));
    assert_eq!(column(&state, "ratio"), ["–"; 4]);
    let notes = &state.own::<CompareScreen>().picture.as_ref().unwrap().comparison.table.notes;
    assert!(notes.iter().any(|note| note.contains("choose another")), "{notes:?}");
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
    harness.get_by_label("Sort by Runs").hover();
    harness.event(Event::MouseWheel {
        unit: MouseWheelUnit::Point,
        delta: [-60.0, 0.0].into(),
        phase: TouchPhase::Move,
        source: MouseWheelSource::Unknown,
        modifiers: Modifiers::NONE,
    });
    harness.run_steps(30);
    assert_eq!(place(&harness), before);
    assert!(harness.query_by_label("Sort by Runs").is_none_or(|heading| heading.rect().left() < runs.left()));
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
fn runs_that_did_not_finish_are_counted_and_in_no_value() {
    let state = state_of(records("s", small()));
    let last = rows(&state).pop().unwrap();
    assert!(last.contains(&"1.00".to_owned()), "{last:?}");
    assert!(last.contains(&"1 failed".to_owned()), "{last:?}");
    let harness = harness(state, [1600.0, 800.0]);
    harness.get_by_label("1 unfinished run excluded");
    harness.get_by_label("7 finished runs");
}

#[test]
fn two_sessions_stand_side_by_side_and_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).join("study");
    for name in ["a", "b"] {
        std::fs::create_dir_all(path(name)).unwrap();
        std::fs::write(path(name).join("session.toml"), "").unwrap();
    }
    let text = |path: &Path| path.display().to_string();
    let mut state = state_of(records(&text(&path("a")), small()));
    send(&mut state, CompareCommand::Select(Some(key("fp32-1-ddp-ds"))));
    assert_eq!(send(&mut state, CompareCommand::Add(path("b"))), [Request::Read(path("b"))]);
    assert_eq!(send(&mut state, CompareCommand::Add(path("b"))), []);
    state.take(crate::app::engine::UiEvent::Records(records(&text(&path("b")), later(small()))));
    settle(&mut state);
    assert_eq!(rows(&state).len(), 8);
    assert_eq!(column(&state, "session")[..2], ["a/study", "b/study"]);
    assert_eq!(state.own::<CompareScreen>().selected.as_ref().unwrap().session, "a/study");
    let ratios = column(&state, "ratio");
    assert_eq!((ratios[0].as_str(), ratios[1].as_str()), ("1.00", "1.00"));
    let harness = harness(state, [1280.0, 800.0]);
    harness.get_by_role_and_label(Role::CheckBox, "Show b/study");
    harness.get_by_label("Bar b/study · fp16 · 2 GPUs: Training time 1.00 s");
    let mut state = std::mem::take(&mut { harness }.state_mut().state);
    send(&mut state, CompareCommand::Remove(path("b")));
    assert_eq!(rows(&state).len(), 4);
    assert_eq!(state.own::<CompareScreen>().selected, Some(key("fp32-1-ddp-ds")));
}

#[test]
fn a_copy_of_a_shown_session_is_refused_by_name_and_not_compared() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["a", "copy", "later"] {
        std::fs::create_dir_all(path(name)).unwrap();
        std::fs::write(path(name).join("session.toml"), "").unwrap();
    }
    let text = |name: &str| path(name).display().to_string();
    let mut state = state_of(records(&text("a"), small()));
    for (name, runs) in [("copy", small()), ("later", later(small()))] {
        send(&mut state, CompareCommand::Add(path(name)));
        state.take(crate::app::engine::UiEvent::Records(records(&text(name), runs)));
        settle(&mut state);
    }
    assert_eq!(rows(&state).len(), 8, "a and later");
    let [problem] = &state.desk.problems[..] else { panic!("{:?}", state.desk.problems.len()) };
    assert_eq!(problem.screen, ScreenName::COMPARE);
    let expected = format!("{} and {} both contain the run", text("a"), text("copy"));
    assert!(problem.message.starts_with(&expected), "{}", problem.message);
}

#[test]
fn a_session_that_is_added_does_not_change_the_measure_on_screen() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["a", "b"] {
        std::fs::create_dir_all(path(name)).unwrap();
        std::fs::write(path(name).join("session.toml"), "").unwrap();
    }
    let text = |name: &str| path(name).display().to_string();
    // As programs that do not report their training.
    let mut without = Records::clone(&records(&text("a"), small()));
    for run in Arc::make_mut(&mut without.summaries) {
        run.values.remove("training_time_s");
        run.training = None;
    }
    let mut state = state_of(Arc::new(without));
    let shown = |state: &State| state.own::<CompareScreen>().picture.as_ref().unwrap().comparison.measure.clone();
    let before = shown(&state);
    assert!(before != *"training_time_s");
    send(&mut state, CompareCommand::Add(path("b")));
    // Measured an hour later: the same starts would be those of a copy.
    let mut later = Records::clone(&records(&text("b"), small()));
    Arc::make_mut(&mut later.summaries)
        .iter_mut()
        .for_each(|run| run.started_s = Some(run.started_s.unwrap_or(0.0) + 3600.0));
    state.take(crate::app::engine::UiEvent::Records(Arc::new(later)));
    settle(&mut state);
    assert_eq!(rows(&state).len(), 8);
    assert_eq!(shown(&state), before);
}

#[test]
fn each_session_keeps_its_own_study_which_names_its_cells() {
    let mut state = State::new(Settings::default());
    state.desk.screen = ScreenName::COMPARE;
    let open = |state: &mut State, folder: &str| {
        state.take(crate::app::UiEvent::Session { folder: folder.into(), read_only: None });
        state.take(crate::app::UiEvent::Records(records(folder, small())));
        settle(state);
    };
    open(&mut state, "a");
    change(&mut state, |study| {
        study.baseline = Some("fp16-2-ddp-ds".to_owned());
        study.filter = "fp16".to_owned();
    });
    let of_a = state.own::<CompareScreen>().study.clone();
    assert_eq!(state.desk.looks.filter, "fp16");
    open(&mut state, "b");
    assert_eq!(state.own::<CompareScreen>().study, Study::default());
    assert!(state.desk.looks.filter.is_empty(), "figures show what Compare shows");
    assert_eq!(rows(&state).len(), 4);
    open(&mut state, "a");
    assert_eq!(state.own::<CompareScreen>().study, of_a);
}

#[test]
fn a_folder_that_is_no_session_is_refused_where_it_was_asked_for() {
    let mut state = state_of(records("s", small()));
    assert_eq!(send(&mut state, CompareCommand::Add(PathBuf::from("/nowhere"))), []);
    assert_eq!(state.desk.problems[0].screen, ScreenName::COMPARE);
    assert!(state.desk.problems[0].message.contains("no session.toml"));
}

#[test]
fn what_arrives_of_a_session_nobody_asked_for_is_left_alone() {
    let mut state = state_of(records("s", small()));
    state.take(crate::app::UiEvent::Records(records("other", small())));
    settle(&mut state);
    assert_eq!(rows(&state).len(), 4);
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
    let said = |state: &State| state.desk.notice.as_ref().map(|(_, notice)| notice.text.clone()).unwrap_or_default();
    for (format, start) in [(Format::Markdown, "Copied: | Precision"), (Format::Csv, "Copied: cell,data")] {
        send(&mut state, CompareCommand::Copy(format));
        let said = said(&state);
        assert!(said.starts_with(start) && said.contains(" lines"), "{said}");
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
fn a_factor_that_is_not_in_effect_is_named_and_one_that_is_counts() {
    let mut runs = small();
    let evidence = |factor: &str, in_effect: bool| {
        let [factor, asked, seen] = [factor, "on", "seen"].map(str::to_owned);
        Arc::new(Evidence { factor, asked, seen, in_effect })
    };
    runs[0].ranks[0].evidence = vec![evidence("pin_memory", true), evidence("layout", true)];
    runs[1].ranks[0].evidence = vec![evidence("pin_memory", false), evidence("layout", true)];
    runs[2].ranks[0].evidence = vec![evidence("layout", true)];
    let state = state_of(records("s", runs));
    assert_eq!(column(&state, "proof"), ["✗ pin_memory", "✓ 1 in effect", "", ""]);
}

#[test]
fn every_form_of_chart_is_drawn_of_one_run_of_many_and_of_none() {
    let many = Arc::new(Records { summaries: many_runs::many_runs(3).into(), ..Records::default() });
    let one = records("", vec![fixture::finished()]);
    let failed = records("", small().split_off(7));
    for (name, records) in [("many", many), ("one", one), ("failed", failed)] {
        let mut state = state_of(records);
        for &form in Form::ALL {
            send(&mut state, CompareCommand::Form(form));
            let kinds: [fn(&mut Study, Place); 3] = [
                |study, place| study.rows = place,
                |study, place| study.columns = place,
                |study, place| study.colour = place,
            ];
            let places = [Place::Nothing, Place::Setting("gpus".into()), Place::Setting("absent".into())];
            // The others are arranged as bars, or not at all.
            let is_arranged = matches!(form, Form::Bars | Form::Loss | Form::Scaling | Form::Memory);
            for place in places.into_iter().filter(|_| is_arranged) {
                kinds.iter().for_each(|set| change(&mut state, |study| set(study, place.clone())));
            }
            kinds.iter().for_each(|set| change(&mut state, |study| set(study, Place::Auto)));
            let mut drawn = harness(state, [1280.0, 800.0]);
            if name != "failed" {
                drawn.get_by_role_and_label(Role::Tab, &format!("Chart {}", form.name()));
            }
            state = std::mem::take(&mut drawn.state_mut().state);
        }
    }
}

#[test]
fn a_study_chosen_from_the_menu_sets_all_that_is_shown() {
    let mut harness = harness(state_of(records("s", small())), [1280.0, 800.0]);
    harness.get_by_label("Study").click();
    harness.run();
    harness.get_by_label("Speed-up by throughput").click();
    let commands = asked(&mut harness);
    let study = preset("speedup").unwrap();
    assert_eq!(commands, [CompareCommand::Study(Box::new(study.clone()))]);
    let state = &mut harness.state_mut().state;
    send(state, commands[0].clone());
    assert_eq!(state.own::<CompareScreen>().study, study);
    assert_eq!(column(state, "speedup")[0], "1.00");
    assert_eq!(state.own::<CompareScreen>().picture.as_ref().unwrap().comparison.table.columns.len(), 6);
}

#[test]
fn a_baseline_stays_while_the_filter_hides_it_and_that_is_said() {
    let mut state = state_of(records("s", small()));
    let before = column(&state, "ratio")[2].clone();
    change(&mut state, |study| study.filter = "fp16".to_owned());
    assert_eq!(column(&state, "ratio")[0], before);
    let harness = harness(state, [1280.0, 800.0]);
    harness.get_by_label_contains("Ratios are over precision = fp32, gpus = 1, which is not shown here.");
}

#[test]
fn the_automatic_baseline_stays_when_runs_arrive_and_measure_and_form_change() {
    let mut late: Vec<RunRecord> = small();
    let early: Vec<RunRecord> = late.drain(..2).collect();
    let mut state = state_of(records("/a", late.clone()));
    let baseline = |state: &State| {
        let comparison = &state.own::<CompareScreen>().picture.as_ref().unwrap().comparison;
        comparison.baseline.as_ref().and_then(|(cell, _)| Some(cell.as_ref()?.cell.clone())).unwrap()
    };
    assert_eq!(baseline(&state), "fp32-2-ddp-ds");
    state.desk.records = records("/a", early.into_iter().chain(late).collect());
    state.own_mut::<CompareScreen>().stale = true;
    settle(&mut state);
    assert_eq!(baseline(&state), "fp32-2-ddp-ds", "the first row is another one now");
    change(&mut state, |study| study.measure = Some("accuracy".into()));
    send(&mut state, CompareCommand::Form(Form::Memory));
    assert_eq!(baseline(&state), "fp32-2-ddp-ds");
    send(&mut state, CompareCommand::Baseline(None));
    assert_eq!(baseline(&state), "fp32-1-ddp-ds", "until its user asks for the first row");
}

#[test]
fn changes_of_what_is_shown_are_undone_and_redone_and_typing_is_one_change() {
    let mut state = state_of(records("/a", small()));
    let first = state.own::<CompareScreen>().study.clone();
    change(&mut state, |study| study.measure = Some("accuracy".into()));
    for text in ["f", "fp", "fp16"] {
        let study = Study { filter: text.to_owned(), ..state.own::<CompareScreen>().study.clone() };
        send(&mut state, CompareCommand::Edit(Box::new(study), Some("filter")));
    }
    assert_eq!(rows(&state).len(), 2);
    send(&mut state, CompareCommand::Undo);
    assert_eq!(
        (state.own::<CompareScreen>().study.filter.as_str(), rows(&state).len()),
        ("", 4),
        "typing is one change"
    );
    assert_eq!(state.own::<CompareScreen>().study.measure.as_deref(), Some("accuracy"));
    send(&mut state, CompareCommand::Undo);
    assert_eq!(state.own::<CompareScreen>().study, first);
    send(&mut state, CompareCommand::Undo);
    assert_eq!(state.own::<CompareScreen>().study, first, "there is nothing before");
    send(&mut state, CompareCommand::Redo);
    send(&mut state, CompareCommand::Redo);
    assert_eq!((state.own::<CompareScreen>().study.filter.as_str(), rows(&state).len()), ("fp16", 2));
    send(&mut state, CompareCommand::Undo);
    change(&mut state, |study| study.log = true);
    send(&mut state, CompareCommand::Redo);
    assert_eq!(
        (state.own::<CompareScreen>().study.filter.as_str(), state.own::<CompareScreen>().study.log),
        ("", true),
        "another way was taken"
    );
}

#[test]
fn an_empty_session_says_what_to_do_next() {
    let mut harness = harness(state_of(records("s", Vec::new())), [1280.0, 800.0]);
    let heading = harness.get_by_label("Nothing to compare yet").rect();
    let (left, right) = (harness.get_by_label("Add a session").rect(), harness.get_by_label("Attach a report").rect());
    let middle = (left.left() + right.right()) / 2.0;
    assert!((middle - heading.center().x).abs() < 2.0, "{left:?} {right:?} below {heading:?}");
    harness.get_by_label("Show Plan").click();
    harness.run();
    assert_eq!(harness.state().commands, [Command::Show(ScreenName::PLAN)]);
}

#[test]
fn a_papers_table_stands_beside_its_published_values_and_queues_the_runs_that_are_missing() {
    let table = preset("2503.15252/table-2").unwrap();
    let plan = artefact(&table.name).unwrap().plan().unwrap();
    // The three cells of one GPU, and one more that trained a single epoch.
    let asked = plan::asked_cells(plan);
    let is_there = |cell: &&plan::AskedCell| cell.levels.get("gpus") == Some(&Level::Integer(1));
    let mut runs: Vec<RunRecord> =
        asked.iter().filter(is_there).map(|cell| fixture::run_of(cell, plan, 1, 0.2)).collect();
    let mut short = fixture::run_of(&asked[1], plan, 1, 0.2);
    let other = short.levels.iter().map(|(key, level)| match &**key {
        "epochs" => (key.clone(), Level::Integer(1)),
        _ => (key.clone(), level.clone()),
    });
    short.levels = plan::Levels::new(other.collect::<Vec<_>>());
    runs.push(short);
    let mut state = state_of(records("/s/study", runs));
    send(&mut state, CompareCommand::Study(Box::new(table)));
    assert_eq!(column(&state, "published_training_time_s"), ["3721", "6266", "3339", "2477"]);
    let ratios = column(&state, "training_time_s_over_published");
    // A ratio of one epoch to twenty would say nothing.
    assert_eq!(ratios.iter().filter(|ratio| *ratio == "–").count(), 1, "{ratios:?}");
    let mut window = harness(state, [1280.0, 800.0]);
    window.get_by_label_contains("3 of 12 cells measured");
    window.get_by_label_contains("cells deviate from the paper's");
    window.get_by_label_contains("Training time is not compared with the paper's if the work is different: epochs = 1");
    // A hollow mark stands in each bar's row, and a legend says what it is.
    window.get_by_label_contains("published 3721");
    assert!(painted(&window).contains(&"published".to_owned()));
    window.get_by_label("Queue 9 missing cells").click();
    window.run();
    assert_eq!(window.state().commands, [Command::from(CompareCommand::QueueMissing)]);
    let sent = send(&mut window.state_mut().state, CompareCommand::QueueMissing);
    let [Request::Launch { plan: queued, only_missing: true }] = sent.as_slice() else { panic!("{sent:?}") };
    let queued = plan::asked_cells(queued);
    assert!(queued.len() == 9 && queued.iter().all(|cell| !is_there(&cell)), "{queued:?}");
}

#[test]
fn undecided_cells_come_with_a_button_that_queues_the_repeats_that_would_decide() {
    let text = "version = 1\nname = \"made up\"\nrepeats = 6\n[factors]\nprecision = [\"fp32\", \"bf16\"]\n";
    let launched = plan::Plan::parse(text, "p.toml").unwrap();
    let cells = plan::asked_cells(&launched);
    let mut runs = Vec::new();
    // The time of bf16 varies by 2 % around nearly that of fp32.
    for (repeat, noise) in (1..).zip([0.02, -0.02, 0.021, -0.019, 0.018, -0.022]) {
        runs.push(fixture::run_of(&cells[0], &launched, repeat, 0.1));
        runs.push(fixture::run_of(&cells[1], &launched, repeat, 0.1 * (1.01 + noise)));
    }
    let plans = vec![SessionPlan { name: "made up".to_owned(), toml: text.to_owned(), folder: None }];
    let records = Records { plans, ..Arc::unwrap_or_clone(records("/s/study", runs)) };
    let mut window = harness(state_of(Arc::new(records)), [1280.0, 800.0]);
    window.get_by_label_contains("1 undecided: queue ").click();
    assert_eq!(asked(&mut window), [CompareCommand::QueueRepeats]);
    let sent = send(&mut window.state_mut().state, CompareCommand::QueueRepeats);
    let [Request::Launch { plan: queued, only_missing: true }] = sent.as_slice() else { panic!("{sent:?}") };
    assert_eq!((plan::asked_cells(queued).len(), queued.repeats > 6), (2, true), "{}", queued.repeats);
}

#[test]
fn a_cell_without_a_finished_run_comes_with_a_button_that_queues_it_again() {
    let text = "version = 1\nname = \"made up\"\nrepeats = 2\n[factors]\nprecision = [\"fp32\", \"bf16\"]\n";
    let launched = plan::Plan::parse(text, "p.toml").unwrap();
    let cells = plan::asked_cells(&launched);
    let mut runs = Vec::new();
    for repeat in 1..=2 {
        runs.push(fixture::run_of(&cells[0], &launched, repeat, 0.1));
        let failed = fixture::run_of(&cells[1], &launched, repeat, 0.1);
        runs.push(RunRecord { state: RunState::Failed, reason: Some("out of memory".to_owned()), ..failed });
    }
    let plans = vec![SessionPlan { name: "made up".to_owned(), toml: text.to_owned(), folder: None }];
    let records = Records { plans, ..Arc::unwrap_or_clone(records("/s/study", runs)) };
    let mut window = harness(state_of(Arc::new(records)), [1280.0, 800.0]);
    window.get_by_label("Queue 1 cell without a value").click();
    assert_eq!(asked(&mut window), [CompareCommand::QueueLacking]);
    let sent = send(&mut window.state_mut().state, CompareCommand::QueueLacking);
    let [Request::Launch { plan: queued, only_missing: true }] = sent.as_slice() else { panic!("{sent:?}") };
    let queued = plan::asked_cells(queued);
    assert_eq!(queued.iter().map(|cell| &cell.levels).collect::<Vec<_>>(), [&cells[1].levels]);
}

#[test]
fn a_plan_of_full_runs_stands_beside_quick_cells_until_they_have_full_runs() {
    let mut runs: Vec<RunRecord> = small().into_iter().filter(|run| run.state == RunState::Finished).collect();
    let quick = plan::Mode::Quick { step_precision: 0.01 };
    runs.iter_mut().filter(|run| run.cell.starts_with("fp16")).for_each(|run| run.mode = quick);
    let state = state_of(records("/s/study", runs.clone()));
    let mut window = harness(state, [1280.0, 800.0]);
    window.get_by_label("Plan full runs of 2 quick cells").click();
    window.run();
    assert_eq!(window.state().commands, [Command::from(CompareCommand::PlanFullRuns)]);
    send(&mut window.state_mut().state, CompareCommand::PlanFullRuns);
    let state = &window.state().state;
    let (full, cells) = (state.own::<PlanScreen>().plan(), plan::asked_cells(state.own::<PlanScreen>().plan()));
    assert_eq!((state.desk.screen, full.mode, full.repeats), (ScreenName::PLAN, plan::Mode::Full, 2));
    let levels: Vec<_> = cells.iter().map(|cell| cell.levels.get("gpus").unwrap().to_string()).collect();
    assert_eq!(levels, ["1", "2"]);
    assert!(cells.iter().all(|cell| cell.levels.get("precision") == Some(&Level::text("fp16"))));
    // One of the two has gone all the way since.
    let mut done = runs.iter().find(|run| run.cell.starts_with("fp16-1")).unwrap().clone();
    (done.mode, done.cell, done.run) = (plan::Mode::Full, "full".to_owned(), "full".to_owned());
    runs.push(done);
    harness(state_of(records("/s/study", runs)), [1280.0, 800.0]).get_by_label("Plan full runs of 1 quick cell");
}

#[test]
fn the_papers_claims_are_judged_by_the_shown_runs() {
    let mut state = state_of(records("/s/study", small()));
    send(&mut state, CompareCommand::Claims(true));
    let window = harness(state, [1280.0, 800.0]);
    window.get_by_label_contains("43 claims of both papers");
    // fp32 on 2 GPUs is no comparison of any claim; fp16 over fp32 is, of losses.
    assert!(window.get_all_by_label_contains("claimed 0.900 to 1.10").count() > 0);
    window.get_by_label_contains("Ranges that the papers print are 8 % wider here");
    assert!(window.get_all_by_label_contains("(2 repeats)").count() > 0);
    assert!(window.get_all_by_label_contains("untested").count() > 1);
}

#[test]
fn losses_are_drawn_on_a_logarithmic_axis_by_the_screen_itself() {
    let mut state = state_of(records("s", small()));
    send(&mut state, CompareCommand::Form(Form::Loss));
    change(&mut state, |study| study.measure = Some("train_loss".into()));
    change(&mut state, |study| study.log = true);
    let picture = state.own::<CompareScreen>().picture.as_ref().unwrap();
    assert_eq!(picture.comparison.charts[0].y.scale, crate::figure::Scale::Log);
    let harness = harness(state, [1280.0, 800.0]);
    let labels = harness.output().shapes.iter().filter_map(|clipped| match &clipped.shape {
        eframe::egui::Shape::Text(text) => text.galley.text().parse::<f64>().ok(),
        _ => None,
    });
    let labels: Vec<f64> = labels.collect();
    assert!(labels.contains(&1.0) && labels.iter().all(|label| *label >= 0.0), "values, not logarithms: {labels:?}");
}

#[test]
fn a_baseline_that_its_list_has_no_room_for_is_named_below_and_a_long_session_leaves_the_rest_its_place() {
    let long = "a-precision-of-somebody-s-own-with-a-name-that-no-list-has-room-for";
    let mut runs = small();
    for run in &mut runs {
        let levels = run.levels.iter().map(|(key, level)| match &**key {
            "precision" => (key.clone(), Level::text(&format!("{long}-{level}"))),
            _ => (key.clone(), level.clone()),
        });
        run.levels = plan::Levels::new(levels.collect::<Vec<_>>());
    }
    let folder = format!("/sessions/{}", "night-of-the-long-session-names-".repeat(4));
    let harness = harness(state_of(records(&folder, runs)), [872.0, 650.0]);
    harness.get_by_label(&format!("Baseline: {long}-fp16 · 1 GPU"));
    let open = harness.get_by_label("open").rect();
    assert!(open.right() <= 216.0, "{open:?}");
    assert!(harness.get_by_label("Filter cells").rect().right() <= 216.0);
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
fn words_are_those_of_the_field() {
    let mut state = state_of(records("s", small()));
    let names: Vec<&str> =
        state.desk.records.summaries[0].measures.iter().map(|measure| measure.name.as_str()).collect();
    for name in ["Throughput (distinct images)", "Loader start-up per epoch", "Peak allocated"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let help = |key: &str| plan::image::spec().factor(key).unwrap().help.to_string();
    assert!(help("gpus").starts_with("One rank per GPU (dp: threads of one process)"), "{}", help("gpus"));
    assert_eq!(help("batch_size"), "Images per GPU per step.");
    assert_eq!(MetricUnit::OfReport.name(), "% of report");
    let headings = |state: &State| -> Vec<String> {
        let table = &state.own::<CompareScreen>().picture.as_ref().unwrap().comparison.table;
        table.columns.iter().map(|column| column.name.clone()).collect()
    };
    assert!(headings(&state).contains(&"Speed-up by training time".to_owned()));
    change(&mut state, |study| study.measure = Some("peak_allocated_bytes".into()));
    assert!(headings(&state).contains(&"Ratio vs baseline".to_owned()), "more memory is no speed-up");
    send(&mut state, CompareCommand::Form(Form::Memory));
    let memory = &state.own::<CompareScreen>().picture.as_ref().unwrap().comparison.charts[0];
    assert!(memory.title.contains("per device"), "CPUs have it, too: {}", memory.title);
    change(&mut state, |study| study.filter = "gpus=1".to_owned());
    send(&mut state, CompareCommand::Form(Form::Scaling));
    let notes = &state.own::<CompareScreen>().picture.as_ref().unwrap().comparison.charts[0].notes;
    assert!(notes.contains(&"Scaling needs at least two GPU counts per configuration.".to_owned()), "{notes:?}");
}

#[test]
fn a_ratio_of_one_repeat_has_its_sign_behind_the_number() {
    let mut runs = small();
    // One repeat of three is left of the first cell's pairs.
    runs.retain(|run| run.repeat == 1 || run.cell.starts_with("fp32-1"));
    runs.iter_mut().for_each(|run| (run.state, run.reason) = (RunState::Finished, None));
    let state = state_of(records("s", runs));
    let texts = column(&state, "ratio");
    let harness = harness(state, [1280.0, 800.0]);
    for text in texts {
        let shown = crate::app::cell_table::with_times(&text);
        harness.get_all_by_label(&shown).next().unwrap();
        assert!(!shown.ends_with(")×"), "{shown}");
    }
}

#[test]
fn a_note_of_many_names_takes_one_line_and_leaves_the_charts_their_room() {
    let mut runs = small();
    for gpus in 1..=8 {
        let cell = fixture::cell("a-precision-of-somebody-s-own-with-a-long-name", gpus, "ddp-ds");
        let mut failed = fixture::run(&cell, 1, 0.1);
        failed.state = RunState::Failed;
        failed.ranks.iter_mut().for_each(|rank| rank.steps.clear());
        runs.push(failed);
    }
    let harness = harness(state_of(records("s", runs)), [700.0, 650.0]);
    let note = harness.get_by_label_contains("Without a bar: ").rect();
    assert!(note.height() < 24.0, "{note:?}");
}

#[test]
fn losses_and_accuracy_are_side_by_side_in_a_small_window() {
    let mut state = state_of(records("s", small()));
    send(&mut state, CompareCommand::Form(Form::Loss));
    // What is left beside the rail of a window 1000 points wide.
    let harness = harness(state, [872.0, 640.0]);
    let axes = harness.output().shapes.iter().filter_map(|clipped| match &clipped.shape {
        eframe::egui::Shape::Text(text) if text.galley.text() == "Epoch" => {
            Some(text.visual_bounding_rect().center().x)
        }
        _ => None,
    });
    let axes: Vec<f32> = axes.collect();
    let [first, second, third] = axes[..] else { panic!("{axes:?}") };
    assert!(third + (second - first) / 2.0 <= 872.0, "{axes:?}");
}
