//! Charts: every form is pointed at, clicked, reached by keys and read, and drawn anew only when something changes.

use eframe::egui::{Key, Vec2};

use super::*;
use crate::app::Theme;

/// Forms whose marks stand for cells, with the beginning of their marks' names.
const FORMS: [(Form, &str); 7] = [
    (Form::Bars, "Bar "),
    (Form::Scaling, "Point "),
    (Form::Memory, "Bar "),
    (Form::Repeats, "Point "),
    (Form::Map, "Field "),
    (Form::Parts, "Part "),
    (Form::Pareto, "Point "),
];

fn many() -> Arc<Records> {
    Arc::new(Records { summaries: many_runs::many_runs(3).into(), ..Records::default() })
}

/// 64 bars below each other.
fn in_one_panel() -> State {
    let mut state = state_of(many());
    change(&mut state, |study| study.columns = Place::Nothing);
    state
}

fn shown(form: Form) -> Harness<'static, Screened> {
    let mut state = state_of(records("s", small()));
    send(&mut state, CompareCommand::Form(form));
    harness(state, [1280.0, 800.0])
}

/// The accessible names of marks.
fn names(harness: &Harness<'_, Screened>, kind: &str) -> Vec<String> {
    let marks = harness.query_all_by(|node| node.label().is_some_and(|label| label.starts_with(kind)));
    marks.filter_map(|mark| mark.accesskit_node().label()).collect()
}

#[test]
fn forms_that_choose_their_axis_themselves_leave_no_choice_of_a_logarithmic_one() {
    for (form, can_choose) in
        [(Form::Bars, true), (Form::Effects, false), (Form::Tornado, false), (Form::Interactions, false)]
    {
        let mut harness = shown(form);
        let log = harness.get_by_role_and_label(Role::CheckBox, "Log");
        assert_eq!(!log.accesskit_node().is_disabled(), can_choose, "{form:?}");
        log.click();
        assert_eq!(asked(&mut harness).len(), usize::from(can_choose), "{form:?}");
    }
}

#[test]
fn in_every_form_a_click_on_a_mark_selects_its_cell_and_a_second_one_unselects_it() {
    for (form, kind) in FORMS {
        let mut harness = shown(form);
        let names = names(&harness, kind);
        let name = names.first().unwrap_or_else(|| panic!("{form:?} has no marks"));
        harness.get_all_by_label(name).next().unwrap().click();
        let commands = asked(&mut harness);
        let [CompareCommand::Select(Some(cell))] = commands.as_slice() else { panic!("{form:?}: {commands:?}") };
        assert!(name.contains("fp32") == cell.cell.starts_with("fp32"), "{name}: {cell:?}");
        send(&mut harness.state_mut().state, commands[0].clone());
        harness.run();
        let selected = harness.get_all_by_label(name).next().unwrap();
        assert_eq!(selected.accesskit_node().toggled(), Some(Toggled::True), "{form:?}");
        selected.click();
        assert_eq!(asked(&mut harness), [CompareCommand::Select(None)], "{form:?}");
    }
}

#[test]
fn a_mark_that_is_pointed_at_says_its_value_its_interval_and_its_verdict() {
    for (form, kind) in FORMS {
        let mut harness = shown(form);
        let name = names(&harness, kind).remove(0);
        harness.get_all_by_label(&name).next().unwrap().hover();
        harness.run_steps(4);
        let cell = if name.contains("fp32") { "fp32" } else { "fp16" };
        assert!(harness.query_all_by_label_contains("repeat").count() > 0, "{form:?}: how many repeats");
        assert!(painted(&harness).iter().any(|text| text.starts_with(cell)), "{form:?}: {cell}");
    }
    let mut harness = shown(Form::Bars);
    harness.get_by_label("Bar fp16 · 2 GPUs: Training time 1.00 s").hover();
    harness.run_steps(4);
    let verdict = column(&harness.state().state, "verdict").pop().unwrap();
    let seen = painted(&harness).into_iter().filter(|text| *text == verdict).count();
    assert!(seen >= 2, "in the table and in the tooltip: {verdict:?}");
}

#[test]
fn a_click_on_an_effect_selects_its_row_of_the_table_and_a_click_on_the_row_its_mark() {
    for (form, mark, row) in [
        (Form::Effects, "Point fp16 over fp32", "Effect: fp16 is "),
        (Form::Tornado, "Bar fp16 × 2 GPUs", "Effect: with 2 GPUs"),
        (Form::Interactions, "Point fp16", "Effect: with 2 GPUs"),
    ] {
        let mut harness = shown(form);
        let toggled = |harness: &Harness<'_, Screened>, name: &str| -> Vec<String> {
            let is = |label: String| label.starts_with(name);
            let nodes = harness.query_all_by(|node| node.label().is_some_and(is));
            let on = nodes.filter(|node| node.accesskit_node().toggled() == Some(Toggled::True));
            on.filter_map(|node| node.accesskit_node().label()).collect()
        };
        // Of the points of two levels, the second one is on two GPUs.
        let marks = harness.query_all_by(|node| node.label().is_some_and(|label| label.starts_with(mark)));
        marks.last().unwrap_or_else(|| panic!("{form:?} has no {mark}")).click();
        let commands = asked(&mut harness);
        let [CompareCommand::Effect(Some(_))] = commands.as_slice() else { panic!("{form:?}: {commands:?}") };
        send(&mut harness.state_mut().state, commands[0].clone());
        harness.run();
        assert_eq!((toggled(&harness, mark).len(), toggled(&harness, row).len()), (1, 1), "{form:?}");
        let chosen = toggled(&harness, row).remove(0);
        harness.get_by_label(&chosen).click();
        assert_eq!(asked(&mut harness), [CompareCommand::Effect(None)], "{form:?}");
    }
}

#[test]
fn marks_are_reached_by_tab_and_chosen_by_enter_and_those_out_of_sight_scroll_into_it() {
    let mut harness = harness(in_one_panel(), [1280.0, 800.0]);
    let names = names(&harness, "Bar ");
    assert!(names.len() >= 60, "{}", names.len());
    let last = names.last().unwrap();
    let table = harness.get_by_label("64 cells").rect().top();
    assert!(harness.get_by_label(last).rect().top() > table, "it lies below what is in sight");
    harness.get_by_label(&names[names.len() - 2]).focus();
    harness.run();
    harness.key_press(Key::Tab);
    harness.run();
    let node = harness.get_by_label(last);
    assert!(node.accesskit_node().is_focused(), "{last} is not reached by Tab");
    assert!(node.rect().bottom() < table, "{:?}", node.rect());
    harness.key_press(Key::Enter);
    let commands = asked(&mut harness);
    assert!(matches!(commands.as_slice(), [CompareCommand::Select(Some(_))]), "{commands:?}");
}

#[test]
fn the_axis_stays_in_sight_while_bars_scroll() {
    let mut harness = harness(in_one_panel(), [1280.0, 800.0]);
    let axis = |harness: &Harness<'_, Screened>| {
        let places = harness.output().shapes.iter().filter_map(|clipped| match &clipped.shape {
            eframe::egui::Shape::Text(text) if text.galley.text() == "Training time (s)" => {
                Some(text.visual_bounding_rect().top()).filter(|top| *top > 150.0)
            }
            _ => None,
        });
        places.fold(f32::INFINITY, f32::min)
    };
    let (before, table) = (axis(&harness), harness.get_by_label("64 cells").rect().top());
    assert!(before < table, "{before} {table}");
    let first = names(&harness, "Bar ").remove(0);
    let top = harness.get_by_label(&first).rect().top();
    harness.get_by_label(&first).hover();
    harness.event(Event::MouseWheel {
        unit: MouseWheelUnit::Point,
        delta: [0.0, -200.0].into(),
        phase: TouchPhase::Move,
        source: MouseWheelSource::Unknown,
        modifiers: Modifiers::NONE,
    });
    harness.run_steps(30);
    assert!(harness.get_by_label(&first).rect().top() < top - 100.0);
    assert_eq!(axis(&harness), before);
}

#[test]
fn charts_that_go_on_below_the_edge_of_the_smallest_window_have_a_scroll_bar_beside_them() {
    for form in [Form::Bars, Form::Loss] {
        let mut state = state_of(records("s", shown_table::many_rows()));
        send(&mut state, CompareCommand::Form(form));
        change(&mut state, |study| study.columns = Place::Nothing);
        let harness = harness(state, [880.0, 640.0]);
        let table = harness.get_by_label("16 cells").rect().top();
        let bars = theme::painted_bars(&harness.output().shapes);
        // Left of the charts are the controls.
        assert!(bars.iter().any(|bar| bar.left() > 400.0 && bar.bottom() < table), "{form:?}: {bars:?}");
    }
}

#[test]
fn bars_use_the_height_there_is() {
    let height = |window: f32| {
        let harness = harness(state_of(many()), [1280.0, window]);
        let bar = names(&harness, "Bar ").remove(0);
        harness.get_by_label(&bar).rect().height()
    };
    let (low, high) = (height(640.0), height(1440.0));
    assert!(high > low + 4.0, "{low} {high}");
}

#[test]
fn a_chart_is_laid_out_once_and_again_only_for_another_room_or_theme() {
    let mut harness = shown(Form::Bars);
    let layouts = |harness: &Harness<'_, Screened>| {
        harness.state().state.own::<CompareScreen>().picture.as_ref().unwrap().canvas.layouts()
    };
    let first = layouts(&harness);
    harness.get_by_label("Bar fp32 · 2 GPUs: Training time 4.20 s").hover();
    harness.run_steps(20);
    assert_eq!(layouts(&harness), first, "a pointer that moves changes no layout");
    harness.set_size(Vec2::new(1100.0, 800.0));
    harness.run();
    let wider = layouts(&harness);
    assert!(wider > first);
    harness.ctx.set_theme(eframe::egui::Theme::Light);
    harness.run();
    harness.ctx.set_theme(eframe::egui::Theme::Dark);
    harness.run();
    assert!(layouts(&harness) > wider);
}

#[test]
fn a_long_note_wraps_in_a_small_window() {
    let mut state = state_of(records("s", small()));
    send(&mut state, CompareCommand::Form(Form::Effects));
    let harness = harness(state, [872.0, 640.0]);
    let rows = harness.output().shapes.iter().filter_map(|clipped| match &clipped.shape {
        eframe::egui::Shape::Text(text) if text.galley.text().starts_with("An effect compares") => {
            Some(text.galley.rows.len())
        }
        _ => None,
    });
    let rows: Vec<usize> = rows.collect();
    assert!(rows.iter().any(|rows| *rows > 1), "{rows:?}");
}

#[test]
fn swatches_stand_only_where_a_colour_is_a_level_of_the_setting_that_is_shown_by_colour() {
    let coloured = |form: Form| {
        let mut state = state_of(records("s", small()));
        send(&mut state, CompareCommand::Form(form));
        state.own::<CompareScreen>().picture.as_ref().unwrap().coloured(form).map(str::to_owned)
    };
    assert!(coloured(Form::Bars).is_some());
    for form in [Form::Effects, Form::Tornado, Form::Pareto, Form::Parts] {
        assert_eq!(coloured(form), None, "{form:?}");
    }
}

#[test]
fn a_levels_colour_is_called_as_the_theme_shows_it() {
    for (theme, name) in [(Theme::Light, "black"), (Theme::Dark, "white (black on paper)")] {
        let mut state = state_of(records("s", small()));
        state.desk.settings.theme = theme;
        let mut harness = harness(state, [1280.0, 800.0]);
        harness.get_by_label("Precision: all levels").click();
        harness.run();
        harness.get_by_label(&format!("Colour of fp16: {name}"));
    }
}

#[test]
fn a_note_of_many_names_takes_two_lines_and_leaves_the_charts_their_room() {
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
    assert!(note.height() < 40.0, "{note:?}");
}
