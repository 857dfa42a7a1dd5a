//! Recordings are opened, named, waited for, and refused.

use super::*;

#[test]
fn recordings_of_a_session_stay_open_with_its_name_once_another_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let session = folder.path().join("study");
    std::fs::create_dir(&session).unwrap();
    let files = [
        ("of the session", ranges(&session, "a.events", &[(1_000, 2_000), (1_000, 2_000)])),
        ("of its own", ranges(folder.path(), "b.events", &[(1_000, 2_000), (1_000, 2_000)])),
    ];
    let mut state = State::new(Settings::default());
    let open = |state: &mut State, folder: PathBuf| {
        state.take(crate::app::UiEvent::Session { folder, read_only: None });
        state.poll(&Context::default());
    };
    open(&mut state, session.clone());
    for (name, file) in files {
        send(&mut state, TimelineCommand::Open(file, name.to_owned()));
    }
    assert_eq!(state.own::<TimelineScreen>().runs.len(), 2, "{:?}", state.own::<TimelineScreen>().outcome);
    let names = |state: &State| -> Vec<String> {
        state.own::<TimelineScreen>().runs.iter().map(|run| run.name.clone()).collect()
    };
    assert_eq!(names(&state), ["of the session", "of its own"]);
    open(&mut state, folder.path().join("other"));
    assert_eq!(names(&state), ["of the session · study", "of its own"]);
    open(&mut state, folder.path().join("third"));
    assert_eq!(names(&state), ["of the session · study", "of its own"]);
    open(&mut state, session);
    assert_eq!(names(&state), ["of the session", "of its own"]);
}

#[test]
fn a_recording_is_opened_by_a_typed_path_without_a_dialog() {
    let mut harness = harness(State::new(Settings::default()));
    harness.get_by_label("Path of a recording").focus();
    harness.run_steps(2);
    harness.get_by_label("Path of a recording").type_text("/nowhere/a.events");
    harness.run_steps(2);
    harness.get_by_label("Open this file").click();
    harness.run_steps(2);
    let asked = Command::from(TimelineCommand::file("/nowhere/a.events".into()));
    assert!(harness.state().1.contains(&asked), "{:?}", harness.state().1);
}

#[test]
fn recordings_of_runs_are_called_by_their_folders_as_all_files_have_one_name() {
    for (file, name) in [
        ("session/runs/0002-a14a2ad3-1/trace.events", "0002-a14a2ad3-1"),
        ("session/report.nsys-rep", "report.nsys-rep"),
        ("trace.events", "trace.events"),
    ] {
        assert_eq!(TimelineCommand::file(file.into()), TimelineCommand::Open(file.into(), name.to_owned()));
    }
}

#[test]
fn what_cannot_be_opened_is_said_and_the_rest_stays() {
    let folder = tempfile::tempdir().unwrap();
    let file = ranges(folder.path(), "a.events", &[(1_000, 9_000); 5]);
    let bytes = std::fs::read(&file).unwrap();
    let cut = folder.path().join("cut.events");
    std::fs::write(&cut, &bytes[..bytes.len() - 9]).unwrap();
    let wrong = folder.path().join("wrong.sqlite");
    std::fs::write(&wrong, "this is no report").unwrap();
    let mut state = state_of(&[("cut", cut)], folder.path());
    assert!(
        state.own::<TimelineScreen>().runs[0].timeline.warnings().iter().any(|warning| warning.contains("cut off"))
    );
    send(&mut state, TimelineCommand::Open(wrong, "wrong".to_owned()));
    let (message, good) = state.own::<TimelineScreen>().outcome.clone().unwrap();
    assert!(!good && message.contains("wrong.sqlite"), "{message}");
    assert_eq!(state.own::<TimelineScreen>().runs.len(), 1);
    let harness = harness(state);
    assert!(harness.query_by_label_contains("wrong.sqlite").is_some());
}

#[test]
fn an_empty_screen_offers_to_open_a_recording() {
    let mut state = State::new(Settings::default());
    state.desk.screen = ScreenName::TIMELINE;
    let harness = harness(state);
    assert!(harness.query_by_label("Open a recording …").is_some());
    assert!(harness.query_by_label_contains("trace = \"built-in\"").is_some());
}

#[test]
fn a_dialog_that_ends_without_a_file_is_answered_on_screen() {
    let mut state = State::new(Settings::default());
    state.desk.screen = ScreenName::TIMELINE;
    state.own_mut::<TimelineScreen>().choosing = Some(Promise::from_ready(None));
    state.poll(&Context::default());
    let harness = harness(state);
    assert!(harness.query_by_label_contains("If no dialog appeared: multicard timeline FILE").is_some());
}

#[test]
fn work_that_was_cancelled_says_so_and_stops() {
    use crate::trace::{Progress, Stage};
    let context = Context::default();
    let task = Task::start("test", &context, |tell| {
        // Goes on until it is cancelled.
        while tell(Progress { stage: Stage::Reading, fraction: 0.25 }).is_continue() {
            std::thread::yield_now();
        }
        "cancelled"
    });
    while task.done() == 0.0 {
        std::thread::yield_now();
    }
    assert_eq!(task.done(), 0.25);
    task.cancel();
    assert_eq!(task.result(), "cancelled");
}

#[test]
fn the_command_that_shows_the_recordings_is_copied_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let files = [ranges(folder.path(), "a.events", &[(10, 20)]), ranges(folder.path(), "b.events", &[(10, 20)])];
    let mut state = state_of(&[("a", files[0].clone()), ("b", files[1].clone())], folder.path());
    state.desk.screen = ScreenName::TIMELINE;
    let opened: Vec<String> =
        state.own::<TimelineScreen>().runs.iter().map(|run| run.file.display().to_string()).collect();
    let mut harness = harness(state);
    click(&mut harness, "Copy the command that shows these recordings");
    let (message, good) = now(&harness).outcome.clone().unwrap();
    assert_eq!((message, good), (format!("Copied: multicard timeline {} {}", opened[0], opened[1]), true));
}

#[test]
fn the_first_view_of_a_recording_is_its_work_where_phases_last_much_longer() {
    let (_folder, mut harness) = shown(|folder| golden(folder, "ddp2_100_pin"));
    let first = now(&harness).view;
    let run = &now(&harness).runs[0];
    let (start, end) = run.timeline.span_of_work().unwrap();
    assert!(first.0 < start - run.zero && end - run.zero < first.1, "{first:?} {start} {end}");
    assert!(length(first) < (end - start) * 11 / 10, "{first:?} {start} {end}");
    press(&mut harness, eframe::egui::Key::F);
    assert!(length(now(&harness).view) > 2 * length(first), "everything is shown on request");

    let (_folder, mut harness) = shown(|folder| ranges(folder, "a.events", &[(1_000, 9_000); 5]));
    let first = now(&harness).view;
    press(&mut harness, eframe::egui::Key::F);
    assert_eq!(now(&harness).view, first, "without a GPU, everything");
}
