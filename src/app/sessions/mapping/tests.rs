//! Tests of the dialog about results of other programs.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use eframe::egui::{Modifiers, Pos2};
use egui_kittest::Harness;
use egui_kittest::kittest::{NodeT as _, Queryable as _};

use super::*;
use crate::app::dressed::{click_beside, dressed, press};
use crate::app::{Settings, Window as State};

fn window(size: [f32; 2]) -> Harness<'static, State> {
    let draw = |ui: &mut Ui, state: &mut State| {
        let mut commands = Vec::new();
        if let Some(dialog) = &state.sessions.mapping {
            mapping_ui(ui.ctx(), dialog, &mut commands);
        }
        for command in commands {
            state.execute(command, ui.ctx());
        }
        state.poll(&ui.ctx().clone());
    };
    dressed(Harness::builder().with_size(size), State::new(Settings::default()), draw)
}

/// Imports a file with this content, and waits until it was read.
fn import(window: &mut Harness<'_, State>, folder: &Path, content: &str) {
    import_as(window, folder.join("bench.csv"), content);
}

/// A name of a file that is too long for the folder of a session that is being written: its import ends without a session.
fn long_name() -> String {
    format!("{}.csv", "x".repeat(250))
}

fn import_as(window: &mut Harness<'_, State>, file: PathBuf, content: &str) {
    std::fs::write(&file, content).unwrap();
    let context = window.ctx.clone();
    window.state_mut().execute(Command::Sessions(SessionsCommand::Import(file)), &context);
    settle(window);
}

fn settle(window: &mut Harness<'_, State>) {
    let begun = Instant::now();
    loop {
        window.run();
        let dialog = window.state().sessions.mapping.as_ref();
        if dialog.is_none_or(|dialog| !dialog.is_reading()) {
            window.run();
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "the file is not read");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn roles(window: &Harness<'_, State>) -> Vec<String> {
    let dialog = window.state().sessions.mapping.as_ref().unwrap();
    let Some(Ok(read)) = &dialog.read else { panic!("nothing was read") };
    read.mapping.columns.iter().map(|(_, role, _)| role.to_string()).collect()
}

#[test]
fn a_file_of_results_is_shown_with_what_its_columns_mean_which_can_be_changed() {
    let folder = tempfile::tempdir().unwrap();
    let mut window = window([1000.0, 700.0]);
    import(&mut window, folder.path(), "kernel,time (ms),note\na,1.5,x\na,1.6,y\nb,2.5,x\n");
    assert_eq!(roles(&window), ["factor", "measure ms lower", "skip"]);
    assert!(window.query_by_label("Import 3 runs").is_some());
    window.get_by_label("Meaning of note").click();
    window.run();
    window.get_by_label("factor").click();
    settle(&mut window);
    assert_eq!(roles(&window)[2], "factor");
    window.get_by_label("Unit of time (ms)").focus();
    window.run();
    window.get_by_label("Unit of time (ms)").type_text(" as step_time_s");
    window.key_press(eframe::egui::Key::Tab);
    settle(&mut window);
    assert_eq!(roles(&window)[1], "measure ms lower as step_time_s");
    window.get_by_label("Cancel").click();
    window.run();
    assert!(window.state().sessions.mapping.is_none());
}

#[test]
fn wrong_values_are_named_and_cannot_be_imported() {
    let folder = tempfile::tempdir().unwrap();
    let mut window = window([1000.0, 700.0]);
    import(&mut window, folder.path(), "kernel,time_s\na,1.5\nb,NaN\n");
    let named = "⚠ line 3, column \"time_s\": NaN is no number that can be summarised: leave the value or the row out";
    assert!(window.query_by_label(named).is_some());
    let button = window.get_by_label("Import").accesskit_node();
    assert_eq!(
        (button.is_disabled(), button.description()),
        (true, Some("First correct what is named above".to_owned()))
    );
    window.key_press(eframe::egui::Key::Escape);
    window.run();
    assert!(window.state().sessions.mapping.is_none());
    import(&mut window, folder.path(), "");
    assert!(window.query_by_label("⚠ it is empty").is_some());
}

#[test]
fn rows_that_recur_can_be_declared_runs_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let mut window = window([1000.0, 700.0]);
    import(&mut window, folder.path(), "kernel,time_s\na,1.5\na,1.6\n");
    assert!(window.query_by_label("Each row is a run of its own").is_none());
    import(&mut window, folder.path(), "kernel,time_s\na,1.234567\na,1.234567\nb,1.345678\nb,1.345678\n");
    let declared = |window: &Harness<'_, State>| {
        let dialog = window.state().sessions.mapping.as_ref().unwrap();
        let Some(Ok(read)) = &dialog.read else { panic!("nothing was read") };
        let spec = &read.results.as_ref().unwrap().spec;
        (spec.recurring_cells.len(), spec.declared_cells.len())
    };
    assert_eq!(declared(&window), (2, 0));
    for expected in [(0, 2), (2, 0)] {
        window.get_by_label("Each row is a run of its own").click();
        settle(&mut window);
        assert_eq!(declared(&window), expected);
    }
}

#[test]
fn a_file_is_not_imported_before_a_change_of_its_mapping_was_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut window = window([1000.0, 700.0]);
    import_as(&mut window, folder.path().join(long_name()), "kernel,time (ms),note\na,1.5,x\nb,2.5,x\n");
    let context = window.ctx.clone();
    // A change and the button in one frame.
    for command in [SessionsCommand::MapColumn(2, "factor".to_owned()), SessionsCommand::TakeMapping] {
        window.state_mut().execute(Command::Sessions(command), &context);
    }
    let sessions = &window.state().sessions;
    assert!(sessions.mapping.is_some() && !sessions.is_transferring());
    assert_eq!(roles(&window)[2], "factor");
    settle(&mut window);
    assert!(window.state().sessions.mapping.is_none(), "it follows by itself");
}

#[test]
fn one_click_on_import_takes_over_what_is_being_typed_and_imports() {
    let folder = tempfile::tempdir().unwrap();
    let mut window = window([1000.0, 700.0]);
    import_as(&mut window, folder.path().join(long_name()), "kernel,time (ms)\na,1.5\na,1.6\n");
    let type_key = |window: &mut Harness<'_, State>, key: &str| {
        window.get_by_label("Unit of time (ms)").focus();
        window.run();
        window.key_press_modifiers(Modifiers::COMMAND, eframe::egui::Key::A);
        window.run();
        window.get_by_label("Unit of time (ms)").type_text(&format!("ms lower as {key}"));
        window.run();
    };
    let place = window.get_by_label("Import 2 runs").rect().center();
    // What was typed and refused is not left out: nothing is imported.
    type_key(&mut window, "Step");
    press(&mut window, place, true);
    press(&mut window, place, false);
    settle(&mut window);
    // The tooltip of the button under the pointer says it, too.
    assert!(window.query_all_by_label_contains("cannot be a key").count() > 0);
    type_key(&mut window, "step_time_s");
    press(&mut window, place, true);
    press(&mut window, place, false);
    settle(&mut window);
    assert!(window.state().sessions.mapping.is_none());
}

#[test]
fn after_a_refused_role_the_import_is_disabled_with_the_reason_until_another_text_is_typed() {
    let folder = tempfile::tempdir().unwrap();
    let mut window = window([1000.0, 700.0]);
    import(&mut window, folder.path(), "kernel,time (ms),note\na,1.5,x\na,1.6,y\n");
    let refusal = |window: &Harness<'_, State>| {
        let button = window.get_by_label("Import 2 runs");
        let button = button.accesskit_node();
        button.is_disabled().then(|| button.description().unwrap_or_default())
    };
    let type_behind = |window: &mut Harness<'_, State>, text: &str| {
        window.get_by_label("Unit of time (ms)").focus();
        window.run();
        window.get_by_label("Unit of time (ms)").type_text(text);
        window.run();
    };
    let map = |window: &mut Harness<'_, State>, place: usize, role: &str| {
        let context = window.ctx.clone();
        let change = SessionsCommand::MapColumn(place, role.to_owned());
        window.state_mut().execute(Command::Sessions(change), &context);
        settle(window);
    };
    type_behind(&mut window, " as Step");
    assert_eq!(refusal(&window), None);
    window.key_press(eframe::egui::Key::Tab);
    settle(&mut window);
    assert!(refusal(&window).unwrap().contains("\"Step\" cannot be a key"));
    // Another column's role does not make up for it.
    map(&mut window, 2, "factor");
    assert!(refusal(&window).unwrap().contains("\"Step\" cannot be a key"));
    // A click judges the new text.
    type_behind(&mut window, "s");
    assert_eq!(refusal(&window), None);
    window.key_press(eframe::egui::Key::Tab);
    settle(&mut window);
    assert!(refusal(&window).unwrap().contains("\"Steps\" cannot be a key"));
    map(&mut window, 1, "measure ms lower as step_time_s");
    assert_eq!(refusal(&window), None);
}

#[test]
fn nothing_moves_in_the_dialog_while_a_button_of_the_pointer_is_down() {
    let folder = tempfile::tempdir().unwrap();
    let mut window = window([1000.0, 700.0]);
    import(&mut window, folder.path(), "kernel,time (ms)\na,1.5\na,1.6\n");
    press(&mut window, Pos2::new(5.0, 5.0), true);
    let context = window.ctx.clone();
    let change = SessionsCommand::MapColumn(1, "measure ms lower as step_time_s".to_owned());
    window.state_mut().execute(Command::Sessions(change), &context);
    let is_read = |window: &Harness<'_, State>| {
        let dialog = window.state().sessions.mapping.as_ref().unwrap();
        dialog.reading.as_ref().map(|reading| reading.ready().is_some())
    };
    let begun = Instant::now();
    while is_read(&window) == Some(false) {
        assert!(begun.elapsed() < Duration::from_secs(60), "the change is not read");
        std::thread::sleep(Duration::from_millis(5));
    }
    window.step();
    assert_eq!(is_read(&window), Some(true));
    press(&mut window, Pos2::new(5.0, 5.0), false);
    settle(&mut window);
    assert_eq!((is_read(&window), &*roles(&window)[1]), (None, "measure ms lower as step_time_s"));
}

#[test]
fn a_click_beside_the_dialog_keeps_what_was_chosen_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut window = window([1000.0, 700.0]);
    import(&mut window, folder.path(), "kernel,time_s\na,1.5\nb,2.5\n");
    click_beside(&mut window);
    assert!(window.state().sessions.mapping.is_some());
    window.key_press(eframe::egui::Key::Escape);
    window.run();
    assert!(window.state().sessions.mapping.is_none());
}
