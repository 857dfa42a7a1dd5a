//! The session of the window: its menu, archives of it, opening another one, and its title.

use eframe::egui::{Event, Modifiers, MouseWheelSource, MouseWheelUnit, TouchPhase};

use super::*;
use crate::app::command::SessionsCommand;
use crate::app::sessions;

fn session_menu(ui: &mut Ui, state: &State, commands: &mut Vec<Command>) {
    sessions::session_menu_ui(ui, &state.sessions, &state.desk, commands);
}

#[test]
fn the_session_menu_opens_recent_ones_and_makes_new_ones() {
    let mut state = State::new(Settings::default());
    let folder = tempfile::tempdir().unwrap();
    let (here, gone) = (folder.path().join("here"), folder.path().join("gone"));
    std::fs::create_dir(&here).unwrap();
    std::fs::write(here.join("session.toml"), "").unwrap();
    state.desk.settings.recent = vec![here.clone(), gone.clone()];
    state.sessions.missing = vec![gone];
    let mut harness = window(state, session_menu);
    click(&mut harness, "Session: no session yet");
    assert!(harness.get_by_label_contains("gone (missing)").accesskit_node().is_disabled());
    click(&mut harness, "here");
    assert!(asked(&harness, &Request::OpenExisting(here)));
    assert!(sees(&harness, "opening here …"));
    let state = &mut harness.state_mut().state;
    for name in ["../else", "", ".hidden", "a/b"] {
        let make = Command::Sessions(SessionsCommand::New(name.into()));
        state.execute(make, &Context::default());
        assert!(
            state.desk.take_requests().is_empty() && state.desk.problems.len() == 1,
            "{name:?}: {:?}",
            state.desk.problems
        );
    }
    state.execute(Command::Sessions(SessionsCommand::New("h100 study".into())), &Context::default());
    assert!(state.desk.problems.is_empty(), "the message about another name is gone");
    assert!(matches!(&state.desk.take_requests()[..], [Request::NewSession(folder)] if folder.ends_with("h100 study")));
}

#[test]
fn the_session_menu_exports_and_imports_archives() {
    let folder = tempfile::tempdir().unwrap();
    let (session, archive) = (folder.path().join("study"), folder.path().join("study.zip"));
    let node = crate::plan::fixture::cpu_node();
    drop(crate::store::Store::create(&session, &node).unwrap());
    let mut state = State::new(Settings::default());
    state.desk.session = Some(OpenSession { folder: session, read_only: None });
    let context = Context::default();
    let mut transfer = |command: SessionsCommand| {
        state.execute(Command::Sessions(command), &context);
        assert!(state.sessions.is_transferring());
        while state.sessions.is_transferring() {
            state.poll(&context);
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        state.desk.problems.last().map(|problem| problem.message.clone())
    };
    assert_eq!(transfer(SessionsCommand::Export(archive.clone())), None);
    assert!(archive.exists());
    let again = transfer(SessionsCommand::Export(archive)).unwrap();
    assert!(again.contains("this file or folder exists already"), "{again}");
    let absent = transfer(SessionsCommand::Import(folder.path().join("absent.zip"))).unwrap();
    assert!(absent.contains("absent.zip"), "{absent}");
    let another = folder.path().join("another");
    let mut harness = window(state, session_menu);
    click(&mut harness, "Session: study");
    harness.get_by_label("Path of the archive to write");
    harness.get_by_label("Path of the archive or the results to read");
    assert!(sees(&harness, "absent.zip"));
    harness.state_mut().state.take(UiEvent::Session { folder: another, read_only: None });
    harness.run();
    assert!(!sees(&harness, "absent.zip"), "it belonged to the session before");
}

#[test]
fn a_session_that_cannot_be_opened_leaves_the_one_before_and_one_that_is_gone_says_so() {
    let mut state = state(vec![failed(1)], Vec::new());
    let other = PathBuf::from("/sessions/other");
    state.execute(Command::OpenSession(other.clone()), &Context::default());
    assert_eq!(state.desk.opening.as_ref(), Some(&other));
    let reason = Some("/sessions/other: session version 9 is newer than 1".to_owned());
    state.take(UiEvent::NotOpened { folder: other, reason });
    assert_eq!(state.desk.opening, None);
    assert!(state.desk.problems[0].message.ends_with("newer than 1; study stays open"));
    state.take(UiEvent::SessionGone(true));
    let harness = window(state, State::draw::<RunsScreen>);
    assert!(sees(&harness, "/sessions/study is missing"));
    assert!(sees(&harness, "out of memory"), "records read before stay");
}

#[test]
fn an_old_message_goes_when_the_same_is_tried_again_an_order_is_done_or_another_session_opened() {
    let mut state = state(Vec::new(), Vec::new());
    let context = Context::default();
    let copy = |state: &mut State| state.execute(Command::CopyCommand, &context);
    state.desk.screen = ScreenName::PLAN;
    copy(&mut state);
    copy(&mut state);
    assert_eq!(state.desk.problems.len(), 1, "{:?}", state.desk.problems);
    state.desk.screen = ScreenName::NODE;
    copy(&mut state);
    assert!(state.desk.problems.is_empty(), "what works now did not work before: {:?}", state.desk.problems);
    let failed = |screen| UiEvent::Problem { screen, message: "failed".to_owned() };
    state.take(failed(ScreenName::RUNS));
    state.take(failed(ScreenName::COMPARE));
    state.take(UiEvent::Done(ScreenName::RUNS));
    assert_eq!(state.desk.problems.iter().map(|problem| problem.screen).collect::<Vec<_>>(), [ScreenName::COMPARE]);
    state.take(UiEvent::Session { folder: "/sessions/other".into(), read_only: None });
    assert!(state.desk.problems.is_empty());
}

#[test]
fn a_session_that_is_opened_again_keeps_what_was_read_of_it() {
    let mut state = state(vec![record(1, "fp32", RunState::Finished)], vec![row(2, RunState::Queued, 0)]);
    assert_eq!(state.desk.runs.rows.len(), 2);
    let read_only = Some("Read-only: its conductor is of another version".to_owned());
    state.take(UiEvent::Session { folder: folder(), read_only: read_only.clone() });
    assert_eq!(
        (state.desk.records.runs.len(), state.desk.runs.rows.len()),
        (1, 1),
        "no moment without its runs, and none of the old queue"
    );
    assert_eq!(state.desk.session.as_ref().unwrap().read_only, read_only);
    state.take(UiEvent::Session { folder: "/sessions/other".into(), read_only: None });
    assert_eq!((state.desk.records.runs.len(), state.desk.runs.rows.len()), (0, 0));
}

#[test]
fn an_export_leaves_the_menu_open_and_says_there_what_came_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let session = folder.path().join("study");
    drop(crate::store::Store::create(&session, &crate::plan::fixture::cpu_node()).unwrap());
    let mut state = State::new(Settings::default());
    state.desk.session = Some(OpenSession { folder: session, read_only: None });
    let mut harness = window(state, session_menu);
    click(&mut harness, "Session: study");
    let mut export = |path: &str| {
        harness.get_by_label("Path of the archive to write").focus();
        harness.run();
        harness.get_by_label("Path of the archive to write").type_text(path);
        harness.run();
        harness.get_by_role_and_label(Role::Button, "Export session").click();
        // The transfer asks for frames as it goes on.
        harness.run_steps(2);
        let context = harness.ctx.clone();
        while harness.state().state.sessions.is_transferring() {
            harness.state_mut().state.poll(&context);
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        harness.run();
        let message = harness
            .query_all_by_label_contains("study.zip")
            .find_map(|message| message.value().or(message.accesskit_node().label()));
        let typed = harness.get_by_label("Path of the archive to write").value();
        (message.unwrap_or_default(), typed)
    };
    let path = folder.path().join("study").display().to_string();
    let (message, typed) = export(&path);
    assert!(message.contains("study.zip written and checked"), "{message}");
    assert_eq!(typed.as_deref(), Some(&*path), "what was typed stays");
    let (message, _) = export("");
    assert!(message.contains("this file or folder exists already"), "{message}");
}

#[test]
fn a_session_that_is_being_read_is_not_called_empty() {
    let mut state = State::new(Settings::default());
    state.desk.session = Some(OpenSession { folder: "/sessions/study".into(), read_only: None });
    let mut harness = window(state, State::draw::<RunsScreen>);
    assert!(sees(&harness, "Reading the session …") && !sees(&harness, "No runs yet"));
    let records = Records { folder: "/sessions/study".into(), ..Records::default() }.folded();
    harness.state_mut().state.take(UiEvent::Records(Arc::new(records)));
    harness.run();
    assert!(sees(&harness, "No runs yet") && !sees(&harness, "Reading the session …"));
}

#[test]
fn the_session_menu_says_what_the_sample_is_as_plain_text() {
    use crate::app::sample;
    use eframe::egui::Shape;
    let mut state = State::new(Settings::default());
    let folder = PathBuf::from("/data/multicard/samples/one-h100");
    state.desk.session = Some(OpenSession { folder, read_only: Some(sample::ABOUT.to_owned()) });
    let mut harness = window(state, session_menu);
    click(&mut harness, &format!("Session: {}", sample::NAME));
    let warning = theme::palette(&harness.ctx.global_style().visuals).warning;
    let shown = harness.output().shapes.iter().filter_map(|clipped| match &clipped.shape {
        Shape::Text(text) if text.galley.text() == sample::ABOUT => Some(text.galley.job.clone()),
        _ => None,
    });
    let shown: Vec<_> = shown.collect();
    let [job] = &shown[..] else { panic!("{shown:?}") };
    assert!(!job.justify && job.sections.iter().all(|part| part.format.color != warning), "{job:?}");
}

#[test]
fn hints_stand_in_the_middle_of_their_fields() {
    use eframe::egui::Shape;
    let mut harness = window(State::new(Settings::default()), session_menu);
    click(&mut harness, "Session: no session yet");
    let field = harness.get_by_label("Name of the new session").rect();
    let hints = harness.output().shapes.iter().filter_map(|clipped| match &clipped.shape {
        Shape::Text(text) if text.galley.text().starts_with("a name, such as") => Some(text.visual_bounding_rect()),
        _ => None,
    });
    let hints: Vec<_> = hints.collect();
    let [hint] = hints[..] else { panic!("{hints:?}") };
    assert!((hint.center().y - field.center().y).abs() <= 2.0, "{hint:?} in {field:?}");
}

#[test]
fn windows_of_two_sessions_have_titles_of_their_own() {
    let mut state = state(Vec::new(), Vec::new());
    let first = state.title();
    state.take(UiEvent::Session { folder: "/sessions/other".into(), read_only: None });
    assert_eq!((first.as_str(), state.title().as_str()), ("study – multicard", "other – multicard"));
    assert_eq!(State::new(Settings::default()).title(), "multicard");
}

#[test]
fn a_long_name_of_a_session_leaves_the_rest_of_the_bar_its_room_in_a_small_window() {
    let name = "night-of-the-long-session-names-".repeat(4);
    let records = vec![record(1, "fp32", RunState::Running), record(2, "fp32", RunState::Queued)];
    let mut state = state(records, vec![row(1, RunState::Running, 5), row(2, RunState::Queued, 0)]);
    state.take(UiEvent::Node(Arc::new(gpu_node(4))));
    state.desk.session = Some(OpenSession { folder: PathBuf::from("/sessions").join(&name), read_only: None });
    let mut harness = window(state, shell_ui);
    harness.set_size([1000.0, 700.0].into());
    harness.run();
    let bar = [
        harness.get_by_label(&format!("Session: {name}")).rect(),
        harness.get_by_label_contains("4× H200 141 GB").rect(),
        harness.get_by_label_contains("0 of 2 runs").rect(),
        harness.get_by_label("Pause the queue").rect(),
        harness.get_by_label("Theme and zoom").rect(),
    ];
    assert!(bar.windows(2).all(|two| two[0].right() <= two[1].left()), "{bar:?}");
    assert!(bar.iter().all(|rect| rect.left() >= 0.0 && rect.right() <= 1000.0), "{bar:?}");
}

#[test]
fn all_recent_sessions_are_within_reach_of_the_wheel_in_a_small_window() {
    let mut state = state(Vec::new(), Vec::new());
    state.desk.settings.recent = (0..10).map(|number| PathBuf::from(format!("/sessions/study-{number}"))).collect();
    let mut harness = window(state, session_menu);
    harness.set_size([1000.0, 700.0].into());
    harness.run();
    harness.get_by_label("Session: study").click();
    harness.run();
    harness.get_by_label("All sessions …").hover();
    harness.event(Event::MouseWheel {
        unit: MouseWheelUnit::Point,
        delta: [0.0, -2000.0].into(),
        phase: TouchPhase::Move,
        source: MouseWheelSource::Unknown,
        modifiers: Modifiers::NONE,
    });
    harness.run_steps(30);
    let last = harness.get_by_label_contains("study-9").rect();
    assert!(last.top() >= 0.0 && last.bottom() <= 700.0, "{last:?}");
}

#[test]
fn a_path_that_is_typed_into_the_session_menu_replaces_the_one_before() {
    let mut harness = window(State::new(Settings::default()), session_menu);
    click(&mut harness, "Session: no session yet");
    let field = "Path of the archive or the results to read";
    for path in ["/first/results.csv", "/second/results.csv"] {
        click(&mut harness, field);
        harness.get_by_label(field).type_text(path);
        harness.run();
        assert_eq!(harness.get_by_label(field).value().as_deref(), Some(path));
        click(&mut harness, "Name of the new session");
    }
}
