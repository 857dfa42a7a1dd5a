//! Notes that are typed in the browser of sessions, and actions that wait for them.

use egui_kittest::kittest::NodeT as _;

use super::*;

/// Types a note on a session that is chosen in the list.
fn type_note(window: &mut Harness<'_, State>, name: &str, text: &str) {
    window.get_by_label(&format!("Session {name}")).click();
    settle(window);
    window.get_by_label("Note on the session").focus();
    window.run();
    window.get_by_label("Note on the session").type_text(text);
    window.run();
}

#[test]
fn a_typed_note_is_written_once_when_its_field_is_left_or_the_dialog_closes() {
    let leave: [fn(&mut Harness<'_, State>); 4] = [
        |window| window.get_by_label("Search sessions").focus(),
        |window| window.key_press(Key::Escape),
        |window| window.key_press_modifiers(Modifiers::COMMAND, Key::L),
        |window| window.key_press_modifiers(Modifiers::COMMAND, Key::Q),
    ];
    for leave in leave {
        let home = tempfile::tempdir().unwrap();
        let study = session(home.path(), "noted-study");
        let mut window = window(vec![study.clone()]);
        type_note(&mut window, "noted-study", "fan was off");
        assert_eq!(SessionHeading::read(&study).unwrap().note, "");
        leave(&mut window);
        settle(&mut window);
        assert_eq!(SessionHeading::read(&study).unwrap().note, "fan was off");
        let journal = std::fs::read_to_string(study.join("journal.jsonl")).unwrap();
        assert_eq!(journal.matches("fan was off").count(), 1);
    }
}

#[test]
fn a_session_that_is_archived_while_a_note_is_typed_keeps_the_note() {
    let home = tempfile::tempdir().unwrap();
    let study = session(home.path(), "noted-study");
    let mut window = window(vec![study.clone()]);
    type_note(&mut window, "noted-study", "fan was off");
    window.get_by_label("Archive").click();
    settle(&mut window);
    assert_eq!(SessionHeading::read(&study).unwrap().note, "fan was off #archived");
    send(&mut window, SessionsCommand::Browse(false));
    assert_eq!(SessionHeading::read(&study).unwrap().note, "fan was off #archived");
}

#[test]
fn notes_that_were_typed_last_are_written_before_the_program_ends() {
    let home = tempfile::tempdir().unwrap();
    let folders = ["day-study", "night-study"].map(|name| session(home.path(), name));
    let mut window = window(folders.to_vec());
    let context = window.ctx.clone();
    for folder in &folders {
        let note = SessionsCommand::Note(folder.clone(), "fan was off".to_owned());
        window.state_mut().execute(Command::Sessions(note), &context);
    }
    finish(&mut window, Duration::from_secs(60));
    for folder in &folders {
        assert_eq!(SessionHeading::read(folder).unwrap().note, "fan was off");
    }
}

/// Ends the browser's actions as closing the window does.
fn finish(window: &mut Harness<'_, State>, limit: Duration) {
    let State { sessions, desk, .. } = window.state_mut();
    sessions.browser.finish_within(limit, &mut desk.settings);
    sessions.browser.forget_deleted();
}

/// Gives commands without a frame between them.
fn at_once(window: &mut Harness<'_, State>, commands: impl IntoIterator<Item = SessionsCommand>) {
    let context = window.ctx.clone();
    for command in commands {
        window.state_mut().execute(Command::Sessions(command), &context);
    }
}

#[test]
fn a_note_that_was_typed_and_written_does_not_replace_a_newer_one() {
    let leave: [fn(&mut Harness<'_, State>, &Path, &Path); 2] = [
        |window, _, _| window.get_by_label("Search sessions").focus(),
        |window, study, other| {
            let note = SessionsCommand::Note(study.to_owned(), "fan was off".to_owned());
            at_once(window, [note, SessionsCommand::Pick(other.to_owned())]);
        },
    ];
    for leave in leave {
        let home = tempfile::tempdir().unwrap();
        let [study, other] = ["noted-study", "other-study"].map(|name| session(home.path(), name));
        let mut window = window(vec![study.clone(), other.clone()]);
        type_note(&mut window, "noted-study", "fan was off ");
        leave(&mut window, &study, &other);
        settle(&mut window);
        assert_eq!(SessionHeading::read(&study).unwrap().note, "fan was off");
        note_session(&study, None, "fan was on".to_owned()).unwrap();
        let context = window.ctx.clone();
        let State { sessions, desk, .. } = window.state_mut();
        sessions.browser.read_sessions(&desk.settings, &context);
        settle(&mut window);
        at_once(&mut window, [SessionsCommand::Pick(study.clone()), SessionsCommand::Browse(false)]);
        settle(&mut window);
        assert_eq!(SessionHeading::read(&study).unwrap().note, "fan was on");
    }
}

#[test]
fn a_space_at_the_end_of_a_written_note_can_be_typed() {
    let home = tempfile::tempdir().unwrap();
    let study = session(home.path(), "noted-study");
    note_session(&study, None, "fan".to_owned()).unwrap();
    let mut window = window(vec![study]);
    type_note(&mut window, "noted-study", " ");
    assert_eq!(window.get_by_label("Note on the session").value().map(|text| text.len()), Some("fan ".len()));
}

#[test]
fn a_session_whose_deletion_was_confirmed_is_gone_for_good_if_the_window_is_closed_at_once() {
    let home = tempfile::tempdir().unwrap();
    let study = session(home.path(), "study");
    let mut window = window(vec![study.clone()]);
    at_once(&mut window, [SessionsCommand::Delete(study), SessionsCommand::AnswerDelete(true)]);
    finish(&mut window, Duration::from_secs(60));
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    assert!(window.state().desk.settings.recent.is_empty());
}

#[test]
fn a_window_is_closed_although_a_note_waits_for_a_password() {
    let home = tempfile::tempdir().unwrap();
    let study = session(home.path(), "study");
    let mut window = window(vec![study.clone()]);
    let (password, writing) = Promise::new();
    let note = Note::new(study, "fan was off".to_owned());
    window.state_mut().sessions.browser.acting = Some((Action::Note(note.clone()), writing));
    finish(&mut window, Duration::from_millis(10));
    password.send(Ok(Done::Noted(note)));
}

#[test]
fn what_was_asked_of_other_sessions_is_done_before_the_window_closes_although_a_note_waits() {
    let home = tempfile::tempdir().unwrap();
    let [far, near, deleted] = ["far", "near", "deleted"].map(|name| session(home.path(), name));
    let mut window = window(vec![far.clone(), near.clone(), deleted.clone()]);
    send(&mut window, SessionsCommand::Delete(deleted.clone()));
    send(&mut window, SessionsCommand::AnswerDelete(true));
    settle(&mut window);
    assert!(!deleted.exists());
    let (password, writing) = Promise::new();
    let note = Note::new(far, "fan was off".to_owned());
    window.state_mut().sessions.browser.acting = Some((Action::Note(note.clone()), writing));
    at_once(&mut window, [SessionsCommand::UndoDelete, SessionsCommand::Note(near.clone(), "fan is on".to_owned())]);
    let is_done = {
        let deleted = deleted.clone();
        move || deleted.exists() && SessionHeading::read(&near).unwrap().note == "fan is on"
    };
    let watch = move || {
        let end = Instant::now() + Duration::from_secs(60);
        while !is_done() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        let done = is_done();
        password.send(Ok(Done::Noted(note)));
        done
    };
    let watching = std::thread::Builder::new().name("password".to_owned()).spawn(watch).unwrap();
    finish(&mut window, Duration::from_secs(120));
    assert!(watching.join().unwrap());
    assert!(deleted.exists(), "what was restored is not removed");
}

#[test]
fn what_is_asked_for_while_a_note_is_written_is_done_after_it() {
    let home = tempfile::tempdir().unwrap();
    let study = session(home.path(), "study");
    let mut window = window(vec![study.clone()]);
    send(&mut window, SessionsCommand::Pick(study.clone()));
    let is_free = |window: &Harness<'_, State>| !window.get_by_label("Delete …").accesskit_node().is_disabled();
    let (written, writing) = Promise::new();
    let note = Note::new(study.clone(), "fan was off".to_owned());
    window.state_mut().sessions.browser.acting = Some((Action::Note(note.clone()), writing));
    window.run();
    assert!(is_free(&window), "the button under the pointer stays");
    let again = SessionsCommand::Note(study.clone(), "fan is on".to_owned());
    at_once(&mut window, [SessionsCommand::Rename(study.clone(), "other".to_owned()), again]);
    window.run();
    assert!(study.exists() && !is_free(&window), "the session is about to get another name");
    written.send(Ok(Done::Noted(note)));
    settle(&mut window);
    assert!(!study.exists());
    assert_eq!(SessionHeading::read(&home.path().join("other")).unwrap().note, "fan is on", "it follows its session");
}

#[test]
fn a_note_that_could_not_be_written_is_said_after_the_dialog_is_closed() {
    let home = tempfile::tempdir().unwrap();
    let gone = home.path().join("gone");
    let mut window = window(vec![session(home.path(), "study")]);
    let context = window.ctx.clone();
    for command in [SessionsCommand::Note(gone, "fan was off".to_owned()), SessionsCommand::Browse(false)] {
        window.state_mut().execute(Command::Sessions(command), &context);
    }
    settle(&mut window);
    let problems = &window.state().desk.problems;
    let expected = "The note on the session gone was not written: ";
    assert!(problems.iter().any(|problem| problem.message.starts_with(expected)), "{problems:?}");
}

#[test]
fn archiving_adds_a_tag_to_the_note_and_takes_it_away() {
    assert_eq!(archived("", true), "#archived");
    assert_eq!(archived("night run #h100", true), "night run #h100 #archived");
    assert_eq!(archived("night run #h100 #archived", true), "night run #h100 #archived");
    assert_eq!(archived("night run #archived #h100", false), "night run #h100");
}
