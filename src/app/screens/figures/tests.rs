#![allow(clippy::unwrap_used)]

mod composing;

use std::path::Path;
use std::sync::Arc;

use eframe::egui::Context;
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable;

use super::*;
use crate::analysis::{fixture, summarise_run};
use crate::app::desk::OpenSession;
use crate::app::dressed::dressed;
use crate::app::engine::Records;
use crate::app::{Request, Settings, Window as State};
use crate::figure::paper::{NodeFacts, Origin, PaperFormat, PlanText, encode, read_file, write_file};
use crate::figure::render;
use crate::store::RunRecord;

fn small() -> Vec<RunRecord> {
    let cells = [("fp32", 1, 0.4), ("fp32", 2, 0.2), ("fp16", 1, 0.1), ("fp16", 2, 0.05)];
    let run = |(precision, gpus, step_time_s): (&str, i64, f64), repeat: u32| {
        fixture::run(&fixture::cell(precision, gpus, "ddp-ds"), repeat, step_time_s * (1.0 + 0.1 * f64::from(repeat)))
    };
    cells.into_iter().flat_map(|cell| [run(cell, 1), run(cell, 2)]).collect()
}

fn state_with(folder: &Path, runs: Vec<RunRecord>) -> State {
    let mut state = State::new(Settings::default());
    let summaries = runs.iter().map(summarise_run).collect();
    let records =
        Arc::new(Records { folder: folder.to_owned(), runs: runs.into(), summaries, ..Records::default() }.folded());
    state.desk.session = Some(OpenSession { folder: folder.to_owned(), read_only: None });
    state.desk.records = records;
    state.desk.screen = ScreenName::FIGURES;
    settle(&mut state);
    state
}

/// Until the work on threads is done and taken over.
fn settle(state: &mut State) -> Vec<Request> {
    let context = Context::default();
    let mut requests = Vec::new();
    loop {
        state.poll(&context);
        requests.extend(state.desk.take_requests());
        if !state.own::<FiguresScreen>().is_busy() {
            return requests;
        }
        std::thread::yield_now();
    }
}

/// Changes what is shown, as a control does.
fn change(state: &mut State, change: impl FnOnce(&mut Study)) {
    let mut study = state.own::<FiguresScreen>().study.clone();
    change(&mut study);
    send(state, FiguresCommand::Edit(Box::new(study), None));
}

fn send(state: &mut State, command: FiguresCommand) -> Vec<Request> {
    let mut requests = Vec::new();
    state.execute(Command::from(command), &Context::default());
    requests.extend(state.desk.take_requests());
    requests.extend(settle(state));
    requests
}

fn harness(state: State) -> Harness<'static, (State, Vec<Command>)> {
    let draw = |ui: &mut Ui, (state, commands): &mut (State, Vec<Command>)| {
        State::draw::<FiguresScreen>(ui, state, commands);
    };
    dressed(Harness::builder().with_size([1176.0, 740.0]), (state, Vec::new()), draw)
}

/// Clicks what has a name, and executes what that asks for.
fn click(harness: &mut Harness<'static, (State, Vec<Command>)>, name: &str) {
    harness.get_by_label(name).click();
    harness.run();
    execute(harness);
    harness.run();
}

/// Executes what the last frames asked for.
fn execute(harness: &mut Harness<'static, (State, Vec<Command>)>) {
    let context = harness.ctx.clone();
    let (state, commands) = harness.state_mut();
    for command in std::mem::take(commands) {
        state.execute(command, &context);
    }
    settle(state);
}

fn page(state: &State) -> &Page {
    state.own::<FiguresScreen>().page().unwrap().as_ref().unwrap()
}

fn figure(state: &State) -> &Figure {
    state.own::<FiguresScreen>().figure().unwrap()
}

/// The texts of a column of the table from the top, by the column's name with its unit.
fn column(state: &State, name: &str) -> Vec<String> {
    let figures = state.own::<FiguresScreen>();
    let texts = &figures.drawn.as_ref().unwrap().figure.as_ref().unwrap().texts;
    let named = texts.named(&figure(state).table);
    let place = named.iter().position(|(_, known)| known == name).unwrap_or_else(|| panic!("{name}: {named:?}"));
    figures.order.iter().map(|row| texts.texts[*row][place].clone()).collect()
}

#[test]
fn the_picture_is_that_of_the_file_and_its_table_stands_below() {
    let harness = harness(state_with(Path::new("/s/study"), small()));
    assert!(harness.query_by_label("Figure: Training time").is_some());
    harness.get_by_label("Cell fp32 · 1 GPU");
    let state = &harness.state().0;
    let scene = &page(state).scene;
    let image = &page(state).image;
    assert!((image.size[0] as f64 - scene.width * state.own::<FiguresScreen>().resolution).abs() < 1.0);
}

#[test]
fn the_table_has_units_and_intervals_and_is_sorted_and_copied_as_it_is_shown() {
    let mut harness = harness(state_with(Path::new("/s/study"), small()));
    let times = "Training time (s)";
    assert_eq!(column(&harness.state().0, times), ["9.20", "4.60", "2.30", "1.15"]);
    assert!(column(&harness.state().0, "Interval of Training time").iter().all(|text| text.starts_with('[')));
    click(&mut harness, "Sort by Training time (s)");
    assert_eq!(column(&harness.state().0, times), ["1.15", "2.30", "4.60", "9.20"]);
    harness.get_by_label("Copy as").click();
    harness.run();
    harness.get_by_label("Copy as CSV").click();
    harness.run();
    assert_eq!(harness.state().1, [Command::from(FiguresCommand::Copy(Format::Csv))]);
    let copied = render(&harness.state().0.own::<FiguresScreen>().shown_table().unwrap(), Format::Csv);
    assert!(copied.starts_with("cell,data,"), "{copied}");
    let first: Vec<&str> = copied.lines().nth(1).unwrap().split(',').collect();
    assert!(first.contains(&"fp16") && first.contains(&"2"), "{copied}");
}

#[test]
fn style_and_cells_are_chosen_by_clicks_and_the_picture_follows() {
    let mut harness = harness(state_with(Path::new("/s/study"), small()));
    let before = page(&harness.state().0).scene.clone();
    for name in ["Width 178 mm", "Typeface Serif", "Palette Grey"] {
        click(&mut harness, name);
    }
    let after = page(&harness.state().0).scene.clone();
    assert!(after.width > 2.0 * before.width && after.items != before.items);
    click(&mut harness, "Show fp16");
    assert_eq!(figure(&harness.state().0).cells.len(), 2);
    assert_eq!(figure(&harness.state().0).all_cells, 4);
    click(&mut harness, "Show all");
    assert_eq!(figure(&harness.state().0).cells.len(), 4);
}

#[test]
fn cells_that_compare_leaves_out_are_left_out_of_figures_that_choose_none_themselves() {
    let mut state = state_with(Path::new("/s/study"), small());
    let study = Study { hidden: vec![("gpus".into(), crate::plan::Level::Integer(1))], ..Study::default() };
    state.execute(Command::from(crate::app::CompareCommand::Edit(Box::new(study), None)), &Context::default());
    settle(&mut state);
    assert_eq!(figure(&state).cells.len(), 2);
    let mut harness = harness(state);
    harness.get_by_label("As on Compare: without gpus = 1");
    harness.get_by_label("Filter cells").focus();
    harness.run();
    harness.get_by_label("Filter cells").type_text("fp16");
    harness.run();
    execute(&mut harness);
    assert_eq!(figure(&harness.state().0).cells.len(), 2, "fp16 on one GPU too");
}

#[test]
fn a_figure_with_the_cells_of_compare_has_the_baseline_that_compare_keeps_while_its_filter_hides_it() {
    let mut state = state_with(Path::new("/s/study"), small());
    let context = Context::default();
    let compare = |state: &mut State, study: Study| {
        state.desk.screen = ScreenName::COMPARE;
        state.execute(Command::from(crate::app::CompareCommand::Edit(Box::new(study), None)), &context);
        while state.own::<crate::app::CompareScreen>().is_updating() {
            state.poll(&context);
            std::thread::yield_now();
        }
        state.desk.screen = ScreenName::FIGURES;
        settle(state);
        figure(state).study.baseline.clone()
    };
    assert_eq!(compare(&mut state, Study { log: true, ..Study::default() }), None);
    let filtered = Study { filter: "fp16".to_owned(), ..Study::default() };
    assert_eq!(compare(&mut state, filtered).as_deref(), Some("fp32-1-ddp-ds"));
    let line = state.own::<FiguresScreen>().command_line(&state.desk).unwrap();
    assert!(line.contains("--filter fp16 --baseline fp32-1-ddp-ds"), "{line}");
    let mut harness = harness(state);
    harness.get_by_label("As on Compare: fp16, the baseline");
    assert_eq!(compare(&mut harness.state_mut().0, Study::default()), None, "it is the first shown cell again");
}

#[test]
fn every_preset_is_drawn_or_says_why_not() {
    let mut state = state_with(Path::new("/s/study"), small());
    for preset in crate::figure::presets() {
        send(&mut state, FiguresCommand::Study(Box::new(preset.clone())));
        assert!(!page(&state).is_empty || !figure(&state).notes().is_empty(), "{}", preset.name);
    }
    let harness = harness(state);
    assert!(harness.query_by_label("Preset").is_some());
}

#[test]
fn a_dialog_that_gives_no_file_is_answered_with_the_field_for_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let mut state = state_with(folder.path(), small());
    state.own_mut::<FiguresScreen>().choosing = Some(Promise::from_ready(None));
    settle(&mut state);
    let (message, _) = state.own::<FiguresScreen>().outcome.clone().unwrap();
    assert!(message.contains("type the path here"), "{message}");
}

#[test]
fn what_cannot_be_drawn_or_written_is_said_where_it_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut state = state_with(folder.path(), small());
    send(&mut state, FiguresCommand::Path("figure.gif".to_owned()));
    send(&mut state, FiguresCommand::Export);
    let (message, good) = state.own::<FiguresScreen>().outcome.clone().unwrap();
    assert!(!good && message.contains(".svg, .pdf or .png"), "{message}");
    // The folder holds no session whose plans could be told.
    send(&mut state, FiguresCommand::Path(folder.path().join("a.svg").display().to_string()));
    send(&mut state, FiguresCommand::Export);
    let (message, good) = state.own::<FiguresScreen>().outcome.clone().unwrap();
    assert!(!good && message.contains("reading the plans"), "{message}");
    send(&mut state, FiguresCommand::CopyMethods);
    let (message, good) = state.own::<FiguresScreen>().outcome.clone().unwrap();
    assert!(!good && message.contains("reading the plans"), "{message}");
    change(&mut state, |study| study.filter = "fp16 )".to_owned());
    assert!(state.own::<FiguresScreen>().page().unwrap().as_ref().unwrap_err().contains("the filter, character 6"));
    let harness = harness(state);
    assert!(harness.query_by_label_contains("Filter: character 6").is_some());
    assert!(harness.query_by_label_contains("reading the plans").is_some());
}

#[test]
fn what_was_said_of_a_figure_of_another_session_goes_with_it_and_runs_that_are_being_read_are_not_missing() {
    let mut state = state_with(Path::new("/sessions/study"), small());
    state.own_mut::<FiguresScreen>().outcome = Some(("Written: /sessions/study/figures/times.pdf".to_owned(), true));
    state.take(crate::app::UiEvent::Session { folder: "/sessions/other".into(), read_only: None });
    settle(&mut state);
    assert_eq!(state.own::<FiguresScreen>().outcome, None);
    let harness = harness(state);
    assert!(harness.query_by_label("Reading the runs …").is_some());
    assert!(harness.query_by_label("No figures yet").is_none());
}

#[test]
fn a_figure_s_file_brings_back_what_it_shows_and_opens_its_session() {
    let folder = tempfile::tempdir().unwrap();
    let session = folder.path().join("study");
    std::fs::create_dir_all(session.join("figures")).unwrap();
    std::fs::write(session.join("session.toml"), "version = 1\n").unwrap();
    let mut state = state_with(Path::new("/elsewhere/other"), small());
    send(&mut state, FiguresCommand::Study(Box::new(preset("scaling").unwrap())));
    change(&mut state, |study| study.filter = "fp16".to_owned());
    let origin = Origin {
        session: "study".to_owned(),
        date: "2026-11-21T08:08:39Z".to_owned(),
        node: NodeFacts::default(),
        plans: vec![PlanText::default()],
    };
    let file = session.join("figures/scaling.svg");
    let bytes = encode(&page(&state).scene, &figure(&state).provenance(vec![origin]), PaperFormat::Svg).unwrap();
    write_file(&file, &bytes).unwrap();
    assert_eq!(read_file(&file).unwrap().study, state.own::<FiguresScreen>().study);

    let mut state = state_with(Path::new("/elsewhere/other"), small());
    state.desk.screen = ScreenName::PLAN;
    let mut requests = Vec::new();
    state.execute(Command::Dropped(vec![file.clone()]), &Context::default());
    requests.extend(state.desk.take_requests());
    assert_eq!(state.desk.screen, ScreenName::FIGURES);
    requests.extend(settle(&mut state));
    assert_eq!(
        (state.own::<FiguresScreen>().study.name.as_str(), state.own::<FiguresScreen>().study.filter.as_str()),
        ("scaling", "fp16")
    );
    assert!(requests.contains(&Request::OpenExisting(session.clone())), "{requests:?}");
    let name = |state: &State| state.own::<FiguresScreen>().study.name.clone();
    send(&mut state, FiguresCommand::Undo);
    assert_eq!((&*name(&state), &*state.own::<FiguresScreen>().study.filter), ("times", ""));
    send(&mut state, FiguresCommand::Redo);
    assert_eq!(name(&state), "scaling");

    let lost = folder.path().join("lost.svg");
    std::fs::copy(&file, &lost).unwrap();
    std::fs::remove_dir_all(&session).unwrap();
    send(&mut state, FiguresCommand::Open(lost));
    let (message, good) = state.own::<FiguresScreen>().outcome.clone().unwrap();
    assert!(!good && message.contains("session study, which is not known here"), "{message}");
    let foreign = folder.path().join("foreign.png");
    std::fs::write(&foreign, b"\x89PNG\r\n\x1a\n").unwrap();
    send(&mut state, FiguresCommand::Open(foreign));
    assert!(state.own::<FiguresScreen>().outcome.clone().unwrap().0.contains("cut short or damaged"));
}

#[test]
fn without_finished_runs_the_next_step_is_offered() {
    let state = state_with(Path::new("/s/study"), Vec::new());
    let mut harness = harness(state);
    harness.get_by_label("Show Plan").click();
    harness.run();
    assert!(harness.state().1.contains(&Command::Show(ScreenName::PLAN)));
}

#[test]
fn the_format_of_a_figure_is_chosen_beside_its_path() {
    let mut harness = harness(state_with(Path::new("/sessions/study"), small()));
    assert!(
        harness
            .state()
            .0
            .own::<FiguresScreen>()
            .export_path(&harness.state().0.desk)
            .to_str()
            .unwrap()
            .ends_with(".pdf")
    );
    harness.get_by_label("Format SVG").click();
    harness.run();
    let commands = std::mem::take(&mut harness.state_mut().1);
    let path = commands.iter().find_map(|command| match command.of_screen() {
        Some(FiguresCommand::Path(path)) => Some(&**path),
        _ => None,
    });
    assert_eq!(path, Some("/sessions/study/figures/times.svg"));
}

/// Draws until nothing moves, and executes what was asked for.
fn act(harness: &mut Harness<'static, (State, Vec<Command>)>) {
    // The window executes what a frame asks for before the next one.
    for _ in 0..6 {
        harness.step();
        execute(harness);
    }
    harness.run();
}

/// Types over what is selected in the field that has the focus, and ends with a key.
fn type_and(harness: &mut Harness<'static, (State, Vec<Command>)>, text: &str, key: Key) {
    harness.event(eframe::egui::Event::Text(text.to_owned()));
    harness.run();
    harness.key_press(key);
    act(harness);
}

fn words(state: &State) -> Vec<String> {
    page(state).scene.texts().map(|text| text.text.clone()).collect()
}

#[test]
fn a_part_that_is_clicked_opens_its_editor_where_enter_keeps_what_is_typed_and_esc_leaves_it() {
    let mut harness = harness(state_with(Path::new("/s/study"), small()));
    let parts = [
        ("Name of the y axis: Training time (s)", "Time to the end", "Time to the end (s)"),
        ("Legend entry 1 GPU", "alone", "alone"),
        ("fp16 on the x axis", "half", "half"),
    ];
    for (part, typed, shown) in parts {
        let before = words(&harness.state().0);
        harness.get_by_label(part).click();
        act(&mut harness);
        harness.get_by_label(&format!("Edit {part}"));
        type_and(&mut harness, "left as it was", Key::Escape);
        assert_eq!(words(&harness.state().0), before, "{part}");
        assert!(harness.query_by_label(&format!("Edit {part}")).is_none(), "{part}");
        // The keys come back to the part: Enter opens it once more.
        harness.key_press(Key::Enter);
        act(&mut harness);
        type_and(&mut harness, typed, Key::Enter);
        let after = words(&harness.state().0);
        assert!(after.iter().any(|word| word == shown), "{part}: {after:?}");
        assert!(harness.state().0.own::<FiguresScreen>().open.is_none(), "{part}");
        send(&mut harness.state_mut().0, FiguresCommand::Undo);
        assert_eq!(words(&harness.state().0), before, "{part} is one step of the history");
        harness.run();
    }
}

#[test]
fn what_is_said_of_the_axis_of_a_measure_is_forgotten_with_it_and_its_unit_is_named_once() {
    let mut harness = harness(state_with(Path::new("/s/study"), small()));
    harness.get_by_label("Name of the y axis: Training time (s)").click();
    act(&mut harness);
    type_and(&mut harness, "Time to train (s)", Key::Enter);
    assert!(words(&harness.state().0).contains(&"Time to train (s)".to_owned()));
    change(&mut harness.state_mut().0, |study| study.show_measure(Some("peak_allocated_bytes".into())));
    let words = words(&harness.state().0);
    assert!(!words.iter().any(|word| word.contains("Time to train")), "{words:?}");
}

#[test]
fn a_level_of_bars_is_offered_no_marker_and_one_of_lines_no_hatch() {
    for (study, offered, lacking) in [("times", "Hatch", "Marker"), ("scaling", "Marker", "Hatch")] {
        let mut state = state_with(Path::new("/s/study"), small());
        send(&mut state, FiguresCommand::Study(Box::new(preset(study).unwrap())));
        let mut harness = harness(state);
        let legend = if study == "times" { "Legend entry 1 GPU" } else { "Legend entry fp16" };
        harness.get_by_label(legend).click();
        act(&mut harness);
        let level = if study == "times" { "1 GPU" } else { "fp16" };
        let row = |kind: &str| format!("{kind} of {level}: as usual");
        assert!(harness.query_by_label(&row(offered)).is_some(), "{study}");
        assert!(harness.query_by_label(&row(lacking)).is_none(), "{study}");
    }
}

#[test]
fn a_file_that_is_no_figure_is_replaced_only_by_a_button_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let thesis = folder.path().join("thesis.pdf");
    std::fs::write(&thesis, "mine").unwrap();
    let mut state = state_with(Path::new("/s/study"), small());
    send(&mut state, FiguresCommand::Path(thesis.display().to_string()));
    for _ in 0..2 {
        send(&mut state, FiguresCommand::Export);
        let (message, good) = state.own::<FiguresScreen>().outcome.clone().unwrap();
        assert!(!good && message.contains("is no figure of multicard: press Replace"), "{message}");
    }
    let mut harness = harness(state);
    harness.get_by_label("Replace").click();
    act(&mut harness);
    let (message, _) = harness.state().0.own::<FiguresScreen>().outcome.clone().unwrap();
    assert!(message.contains("reading the plans"), "the folder holds no session, so nothing is written: {message}");
    assert_eq!(std::fs::read_to_string(&thesis).unwrap(), "mine");
    assert!(harness.query_by_label("Replace").is_none());
}

#[test]
fn all_controls_of_the_side_are_in_its_width() {
    let harness = harness(state_with(Path::new("/s/study"), small()));
    let table = harness.get_by_label("Table").rect().left();
    for last in ["Hatch, marker, dash of fp16", "Legend: right", "Unit of the y axis: min"] {
        let Some(node) = harness.query_by_label(last) else { continue };
        assert!(node.rect().right() < table - 12.0, "{last}: {} beside {table}", node.rect().right());
    }
    harness.get_by_label("Hatch, marker, dash of fp16");
}

#[test]
fn a_long_title_leaves_the_facts_and_the_notes_beside_it_their_room() {
    let mut state = state_with(Path::new("/s/study"), small());
    let drawn = state.own_mut::<FiguresScreen>().drawn.as_mut().unwrap();
    drawn.page.as_mut().unwrap().title = "Time of a kernel with a long name ".repeat(8);
    let harness = harness(state);
    let (cells, notes) = (harness.get_by_label("4 cells").rect(), harness.get_by_label_contains("Notes (").rect());
    assert!(cells.right() <= notes.left() && notes.right() <= 1176.0, "{cells:?} {notes:?}");
}

#[test]
fn numbers_of_an_axis_are_refused_where_they_are_typed_and_a_click_elsewhere_keeps_them() {
    let mut harness = harness(state_with(Path::new("/s/study"), small()));
    let part = "Numbers of the y axis: Training time (s)";
    harness.get_by_label(part).click();
    act(&mut harness);
    type_and(&mut harness, "1,5", Key::Enter);
    assert!(harness.query_by_label(&format!("Edit {part}")).is_some());
    harness.get_by_label_contains("is not a number");
    harness.key_press_modifiers(Modifiers::COMMAND, Key::A);
    harness.run();
    harness.event(eframe::egui::Event::Text("0.5".to_owned()));
    harness.run();
    let place = eframe::egui::Pos2::new(1100.0, 40.0);
    harness.event(eframe::egui::Event::PointerMoved(place));
    for pressed in [true, false] {
        let button = eframe::egui::PointerButton::Primary;
        harness.event(eframe::egui::Event::PointerButton { pos: place, button, pressed, modifiers: Modifiers::NONE });
        harness.run();
    }
    act(&mut harness);
    let study = &harness.state().0.own::<FiguresScreen>().study;
    assert_eq!(study.overrides.axis(crate::figure::AxisName::Y, Nth(1)).low, Some(0.5));
    assert!(harness.query_by_label(&format!("Edit {part}")).is_none());
}

#[test]
fn two_bars_clicked_with_shift_get_a_bracket_with_the_verdict_and_the_side_names_two_cells() {
    let mut harness = harness(state_with(Path::new("/s/study"), small()));
    for name in ["Mark fp32 · 1 GPU: ", "Mark fp16 · 1 GPU: "] {
        harness.get_by_label_contains(name).click_modifiers(Modifiers::SHIFT);
        act(&mut harness);
    }
    let study = harness.state().0.own::<FiguresScreen>().study.clone();
    let [bracket] = study.overrides.annotations.as_slice() else { panic!("{study:?}") };
    assert_eq!((bracket.from.as_str(), bracket.to.as_str()), ("precision=fp32,gpus=1", "precision=fp16,gpus=1"));
    let shown_words = words(&harness.state().0);
    assert!(shown_words.iter().any(|word| word.contains("4.00×, ")), "{shown_words:?}");
    send(&mut harness.state_mut().0, FiguresCommand::Undo);
    assert!(harness.state().0.own::<FiguresScreen>().study.overrides.annotations.is_empty());
    let cells: Vec<CellKey> = figure(&harness.state().0).cells.iter().map(|(key, _)| key.clone()).collect();
    for cell in [&cells[0], &cells[0], &cells[1], &cells[2]] {
        send(&mut harness.state_mut().0, FiguresCommand::Pick(cell.clone(), None));
    }
    let study = &harness.state().0.own::<FiguresScreen>().study;
    assert_eq!(study.overrides.annotations.len(), 1, "the same cell twice sets none");
    assert!(figure(&harness.state().0).missing.is_empty(), "{:?}", figure(&harness.state().0).missing);
}

#[test]
fn every_preset_has_parts_that_can_be_pointed_at_on_its_page() {
    let mut state = state_with(Path::new("/s/study"), small());
    for preset in crate::figure::presets() {
        send(&mut state, FiguresCommand::Study(Box::new(preset.clone())));
        let (page, chart) = (page(&state), &figure(&state).charts[0]);
        let parts: Vec<_> = page.scene.pointed(1000).collect();
        for (part, area) in &parts {
            let is_on_page = area.left >= -0.1 && area.right() <= page.scene.width + 0.1;
            assert!(is_on_page && area.width + area.height > 0.0, "{}: {part:?} {area:?}", preset.name);
        }
        if !page.is_empty && !chart.y.name.is_empty() && chart.has_values() {
            let y = crate::figure::AxisName::Y;
            let has_name = parts.iter().any(|(part, _)| *part == Part::AxisName(0, y));
            assert!(has_name, "{}", preset.name);
        }
    }
}

#[test]
fn what_is_said_of_levels_stays_from_figure_to_figure() {
    let mut state = state_with(Path::new("/s/study"), small());
    change(&mut state, |study| {
        study.overrides.level_mut("precision=fp16").label = Some("half".to_owned());
        study.overrides.level_mut("precision=fp16").hatch = Some(crate::figure::Hatch::Dots);
        study.overrides.title = Some("Of this figure alone".to_owned());
        study.order = vec![("precision".into(), vec![crate::plan::Level::text("fp16")])];
    });
    send(&mut state, FiguresCommand::Study(Box::new(preset("scaling").unwrap())));
    let study = &state.own::<FiguresScreen>().study;
    assert!(words(&state).contains(&"half".to_owned()) && study.overrides.title.is_none());
    assert_eq!((study.overrides.levels.len(), study.order.len()), (1, 1));
    send(&mut state, FiguresCommand::Study(Box::new(preset("loss").unwrap())));
    assert!(figure(&state).missing.is_empty(), "{:?}", figure(&state).missing);
}

#[test]
fn a_change_of_the_figure_is_drawn_undone_and_copied_as_a_command() {
    let folder = tempfile::tempdir().unwrap();
    let mut state = state_with(folder.path(), small());
    change(&mut state, |study| study.overrides.title = Some("A title".to_owned()));
    settle(&mut state);
    assert!(words(&state).contains(&"A title".to_owned()));
    let line = state.own::<FiguresScreen>().command_line(&state.desk).unwrap();
    assert!(line.contains("--title 'A title'"), "{line}");
    send(&mut state, FiguresCommand::Undo);
    settle(&mut state);
    assert!(!words(&state).contains(&"A title".to_owned()));
    send(&mut state, FiguresCommand::Redo);
    settle(&mut state);
    assert!(words(&state).contains(&"A title".to_owned()));
}

#[test]
fn the_menu_of_a_level_stays_open_while_its_colour_is_typed_and_moves_with_the_level() {
    let mut harness = harness(state_with(Path::new("/s/study"), small()));
    // All controls of the side are in sight.
    harness.set_size([1176.0, 2400.0].into());
    harness.run();
    click(&mut harness, "Hatch, marker, dash of fp16");
    click(&mut harness, "Own colour of fp16");
    harness.get_by_label("Own colour of fp16").type_text("#123456");
    harness.run();
    execute(&mut harness);
    let study = harness.state().0.own::<FiguresScreen>().study.clone();
    assert_eq!(study.overrides.levels[0].colour.as_deref(), Some("#123456"));
    harness.run();
    // The one in the menu is below the one in the level's line.
    let buttons = harness.get_all_by_label("Move fp16 earlier");
    buttons.max_by(|a, b| a.rect().top().total_cmp(&b.rect().top())).unwrap().click();
    act(&mut harness);
    assert!(!harness.state().0.own::<FiguresScreen>().study.order.is_empty());
    assert!(harness.query_by_label("Own colour of fp16").is_some());
}
