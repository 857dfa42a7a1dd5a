//! Plan files: opening, saving, and their errors.

use std::path::PathBuf;

use super::*;
use crate::app::dressed::type_at_once;

/// A window that has opened the file `mine.toml` with this text; its folder and its path.
fn opened(text: &str) -> (tempfile::TempDir, PathBuf, Window) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    std::fs::write(&path, text).unwrap();
    let mut window = window_of(Some(cpu_node()));
    execute(&mut window, PlanCommand::OpenFile(path.clone()));
    (folder, path, window)
}

#[test]
fn a_broken_plan_is_told_with_file_line_key_and_the_nearest_name_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("broken.toml");
    std::fs::write(&path, "version = 1\nrepeat = 3\n[factors]\nprecision = [\"fp32\", \"pf16\"]\n").unwrap();
    let mut window = window_of(Some(cpu_node()));
    execute(&mut window, PlanCommand::OpenFile(path));
    let shown_messages = messages(&window);
    for part in [
        "broken.toml:2: repeat: unknown key; did you mean \"repeats\"?".to_owned(),
        "broken.toml:4: factors.precision: unknown level \"pf16\"; did you mean \"fp16\"?".to_owned(),
    ] {
        assert!(shown_messages.contains(&part), "{shown_messages}");
    }
    assert_eq!(*window.state().state.own::<PlanScreen>().plan(), start::first_plan());
    execute(&mut window, PlanCommand::OpenFile(folder.path().join("absent.toml")));
    assert!(messages(&window).contains("absent.toml"));
}

#[test]
fn a_plan_that_is_saved_and_opened_again_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let mut window = window_of(Some(cpu_node()));
    click(&mut window, "Precision bf16");
    change(&mut window, None, |plan| plan.limits.run_time_s = Some(12.5));
    assert!(window.query_by_label("no file yet · unsaved changes").is_some());
    execute(&mut window, PlanCommand::SaveFile { path: path.clone(), replace: false });
    assert!(window.query_by_label("mine.toml").is_some());
    let saved = window.state().state.own::<PlanScreen>().plan().clone();
    execute(&mut window, PlanCommand::Begin(Box::new(Plan::new("untitled", image::spec()))));
    assert_ne!(*window.state().state.own::<PlanScreen>().plan(), saved);
    window.state_mut().commands.push(Command::Dropped(vec![path]));
    settle(&mut window);
    assert_eq!(*window.state().state.own::<PlanScreen>().plan(), saved);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no unfinished file stays");
}

#[test]
fn a_save_keeps_what_the_window_does_not_edit_comments_and_further_blocks() {
    let block = "\n# More of it.\n[[block]]\n[block.factors]\nprecision = [\"fp64\", \"bf16\"]\n";
    let (_folder, path, mut window) = opened(&format!("version = 1 # mine\n[factors]\nprecision = \"fp32\"\n{block}"));
    assert!(window.query_by_label_contains("Block 2: ").is_some());
    assert!(window.query_by_label_contains("3 runs · 3 cells × 1").is_some());
    click(&mut window, "Layout nhwc");
    execute(&mut window, PlanCommand::Save);
    let text = std::fs::read_to_string(&path).unwrap();
    let factors = "[factors]\nprecision = \"fp32\"\nlayout = [\"nchw\", \"nhwc\"]\n";
    assert_eq!(text, format!("version = 1 # mine\n{factors}{block}"));
}

#[test]
fn ctrl_s_in_a_field_saves_the_plan_with_the_typed_text() {
    let (_folder, path, mut window) = opened("version = 1\nname = \"slow\"\n");
    type_into(&mut window, "Name", "er");
    window.key_press_modifiers(Modifiers::COMMAND, Key::S);
    settle(&mut window);
    settle(&mut window);
    assert_eq!(Plan::read(&path).unwrap().name, "slower");
    assert!(window.query_by_label("mine.toml").is_some(), "nothing is unsaved");
}

#[test]
fn a_plan_whose_form_contains_an_error_is_not_saved_and_stays_unsaved() {
    let before = "version = 1\n[command]\nrun = [\"echo\", \"{n}\"]\n[factors]\nn = [1, 2]\n";
    let (folder, path, mut window) = opened(before);
    assert!(window.query_by_label("mine.toml").is_some());
    type_into(&mut window, "Levels of n", ", 2");
    assert!(says(&window, "2 is listed twice"));
    assert!(window.query_by_label("mine.toml · unsaved changes").is_some());
    let other = folder.path().join("other.toml");
    let elsewhere = PlanCommand::SaveFile { path: other.clone(), replace: true };
    for command in [PlanCommand::SaveAs, elsewhere, PlanCommand::Save] {
        window.state_mut().state.desk.problems.clear();
        execute(&mut window, command);
        let refusal = window.state().state.unsaved().unwrap().refusal.unwrap();
        assert!(refusal.contains("contains an error, so the plan cannot be saved"), "{refusal}");
        assert!(messages(&window).starts_with(&format!("Nothing was saved. {refusal}")), "{}", messages(&window));
        assert!(window.query_by_label("Path of the plan").is_none(), "no path is asked for");
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), before);
    assert!(!other.exists() && window.query_by_label("mine.toml · unsaved changes").is_some());
    // One of the two 2 becomes 20.
    type_into(&mut window, "Levels of n", "0");
    execute(&mut window, PlanCommand::Save);
    assert_eq!(Plan::read(&path).unwrap().first.levels("n").len(), 3);
    assert!(window.query_by_label("mine.toml").is_some() && messages(&window).is_empty(), "{}", messages(&window));
}

#[test]
fn a_wrong_constraint_is_not_left_out_of_a_saved_plan() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let mut window = window_of(Some(cpu_node()));
    execute(&mut window, PlanCommand::Constraints(vec![("gpus >".to_owned(), "is wrong".to_owned())]));
    execute(&mut window, PlanCommand::SaveFile { path: path.clone(), replace: false });
    assert!(!path.exists());
    assert!(messages(&window).contains("Constraint 1 contains an error"), "{}", messages(&window));
}

#[test]
fn another_file_is_replaced_only_when_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.toml");
    std::fs::write(&path, "mine").unwrap();
    let mut window = window_of(Some(cpu_node()));
    execute(&mut window, PlanCommand::SaveFile { path: path.clone(), replace: false });
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    assert!(messages(&window).contains("exists and was not replaced"));
    execute(&mut window, PlanCommand::SaveFile { path: path.clone(), replace: true });
    assert!(Plan::read(&path).is_ok());
}

#[test]
fn a_file_that_another_program_changed_is_replaced_only_if_the_user_says_so() {
    let theirs = "version = 1\nname = \"slow\"\nrepeats = 7\n";
    for (answer, in_file, on_screen) in [
        ("Cancel", ("slow", 7), ("slower", 2)),
        ("Read it again", ("slow", 7), ("slow", 7)),
        ("Replace the file", ("slower", 2), ("slower", 2)),
    ] {
        let (_folder, path, mut window) = opened("version = 1\nname = \"slow\"\nrepeats = 2\n");
        change(&mut window, None, |plan| plan.name = "slower".to_owned());
        std::fs::write(&path, theirs).unwrap();
        window.state_mut().state.desk.screen = ScreenName::RUNS;
        execute(&mut window, PlanCommand::Save);
        assert_eq!(window.state().state.desk.screen, ScreenName::PLAN, "the question is there");
        assert!(window.get_by_label("Cancel").is_focused());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), theirs, "nothing is written before the answer");
        assert!(window.state().state.unsaved().unwrap().is_saving, "a window that closes waits for the answer");
        click(&mut window, answer);
        assert!(window.query_by_label("Replace the file").is_none(), "the question is answered");
        let (read, shown) = (Plan::read(&path).unwrap(), window.state().state.own::<PlanScreen>().plan());
        assert_eq!((read.name.as_str(), read.repeats), in_file, "{answer}");
        assert_eq!((shown.name.as_str(), shown.repeats), on_screen, "{answer}");
        execute(&mut window, PlanCommand::Save);
        let is_asked_again = window.query_by_label("Replace the file").is_some();
        assert_eq!(is_asked_again, answer == "Cancel", "{answer}");
    }
}

#[test]
fn files_that_only_the_window_changed_and_removed_ones_are_saved_without_a_question() {
    let (_folder, path, mut window) = opened("version = 1\nrepeats = 2\n");
    for repeats in [3, 4, 5] {
        change(&mut window, None, |plan| plan.repeats = repeats);
        execute(&mut window, PlanCommand::Save);
        assert_eq!(Plan::read(&path).unwrap().repeats, repeats);
    }
    std::fs::remove_file(&path).unwrap();
    change(&mut window, None, |plan| plan.repeats = 6);
    execute(&mut window, PlanCommand::Save);
    assert_eq!(Plan::read(&path).unwrap().repeats, 6);
    // What is on screen after undo differs from a file that was read again.
    std::fs::write(&path, "version = 1\nrepeats = 7\n").unwrap();
    execute(&mut window, PlanCommand::OpenFile(path.clone()));
    execute(&mut window, PlanCommand::Undo);
    assert!(window.query_by_label("mine.toml · unsaved changes").is_some());
    execute(&mut window, PlanCommand::Save);
    assert_eq!(Plan::read(&path).unwrap().repeats, 6);
}

#[test]
fn a_folder_that_cannot_be_written_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("no such folder").join("plan.toml");
    let mut window = window_of(Some(cpu_node()));
    execute(&mut window, PlanCommand::SaveFile { path, replace: false });
    assert!(messages(&window).contains("cannot save the plan to"), "{}", messages(&window));
}

#[test]
fn a_path_is_asked_for_in_a_field_and_where_no_file_is_chosen_that_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("typed.toml");
    std::fs::write(&path, "version = 1\nname = \"typed\"\n").unwrap();
    let mut window = window_of(Some(cpu_node()));
    let question = |number: u64, suggestion: String| Question {
        number,
        purpose: Purpose::Open,
        suggestion,
        dialog: None,
        note: None,
        replace: None,
    };
    window.state_mut().state.own_mut::<PlanScreen>().question = Some(question(1, path.display().to_string()));
    settle(&mut window);
    click(&mut window, "Open this file");
    assert_eq!(window.state().state.own::<PlanScreen>().plan().name, "typed");
    assert!(window.query_by_label("Path of the plan").is_none(), "the question is answered");

    let nowhere = path.with_file_name("nowhere.toml");
    window.state_mut().state.own_mut::<PlanScreen>().question = Some(question(3, nowhere.display().to_string()));
    settle(&mut window);
    press(&mut window, Key::Enter);
    settle(&mut window);
    assert!(window.get_by_label("Path of the plan").is_focused(), "the path that was wrong can be typed again at once");

    let mut unanswered = question(2, String::new());
    unanswered.dialog = Some(Promise::from_ready(None));
    window.state_mut().state.own_mut::<PlanScreen>().question = Some(unanswered);
    settle(&mut window);
    assert!(window.query_by_label_contains("If no dialog appeared, type the path here").is_some());
    window.set_size([900.0, 640.0].into());
    window.run();
    let note = window.get_by_label_contains("If no dialog appeared").rect();
    assert!(note.right() < window.get_by_label("Matrix").rect().left(), "{note:?}");
    assert!(window.get_by_label("Open this file").accesskit_node().is_disabled());
    click(&mut window, "Close");
    assert!(window.query_by_label("Path of the plan").is_none());
}

#[test]
fn enter_opens_or_saves_the_path_with_letters_of_the_same_frame() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let mut window = window_of(Some(cpu_node()));
    for (number, purpose) in [(1, Purpose::Save), (2, Purpose::Open)] {
        let suggestion = path.with_extension("").display().to_string();
        let question = Question { number, purpose, suggestion, dialog: None, note: None, replace: None };
        window.state_mut().state.own_mut::<PlanScreen>().question = Some(question);
        settle(&mut window);
        type_at_once(&mut window, ".toml");
        settle(&mut window);
        assert!(window.query_by_label("Path of the plan").is_none(), "{number}");
        assert!(Plan::read(&path).is_ok() && window.query_by_label("mine.toml").is_some(), "{number}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_message_about_a_file_that_could_not_be_read_goes_when_one_is_opened_or_saved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let absent = folder.path().join("absent.toml");
    let mut window = window_of(Some(cpu_node()));
    let succeed = [PlanCommand::SaveFile { path: path.clone(), replace: false }, PlanCommand::OpenFile(path)];
    for command in succeed {
        execute(&mut window, PlanCommand::OpenFile(absent.clone()));
        assert!(messages(&window).contains("cannot read the plan"), "{}", messages(&window));
        execute(&mut window, command);
        assert_eq!(messages(&window), "");
    }
}
