//! Figures that join one of several panels: added, moved, removed, undone, of two sessions, exported and opened again.

use super::*;
use crate::app::engine::read_session;
use crate::figure::Share;
use crate::plan::Node;
use crate::store::Store;

fn composition(state: &State) -> &Composition {
    &state.own::<FiguresScreen>().composing.composition
}

fn studies(state: &State) -> Vec<&str> {
    composition(state).panels.iter().map(|panel| panel.study.name.as_str()).collect()
}

/// Opens a session of these runs in place of the open one.
fn open(state: &mut State, folder: &Path, runs: Vec<RunRecord>) {
    let summaries = runs.iter().map(summarise_run).collect();
    let records = Records { folder: folder.to_owned(), runs: runs.into(), summaries, ..Records::default() };
    state.desk.session = Some(OpenSession { folder: folder.to_owned(), read_only: None });
    state.desk.records = Arc::new(records.folded());
}

/// A session on the disk, whose plans can be read.
fn stored(folder: &Path) {
    let node: Node = serde_json::from_value(serde_json::json!({
        "hostname": "node", "system": "Linux", "cpu_model": "CPU", "cpus": 2, "memory_bytes": 1_u64 << 34, "numa_nodes": 1,
        "driver": null, "no_gpu_reason": "no driver", "gpus": [], "nsys": {"Err": "none"}, "worker": {"Err": "none"},
    }))
    .unwrap();
    drop(Store::create(folder, &node).unwrap());
}

/// Clicks what the side has below what is in sight.
fn click_below(harness: &mut Harness<'static, (State, Vec<Command>)>, name: &str) {
    harness.get_by_label(name).scroll_to_me();
    harness.run();
    click(harness, name);
}

#[test]
fn the_shown_figure_joins_the_panels_which_are_moved_removed_and_brought_back_by_undo() {
    let mut harness = harness(state_with(Path::new("/s/study"), small()));
    click_below(&mut harness, "Add this figure as a panel");
    assert!(harness.query_by_label("Figure: Panels").is_some(), "the composed figure is shown");
    send(&mut harness.state_mut().0, FiguresCommand::Study(Box::new(preset("memory").unwrap())));
    assert!(page(&harness.state().0).composed.is_none(), "a figure that changes is shown");
    harness.run();
    click_below(&mut harness, "Add this figure as a panel");
    assert_eq!(studies(&harness.state().0), ["times", "memory"]);
    let shown = words(&harness.state().0);
    assert!(shown.contains(&"(a) ".to_owned()) && shown.contains(&"(b) ".to_owned()), "{shown:?}");

    click_below(&mut harness, "Move panel b up");
    assert_eq!(studies(&harness.state().0), ["memory", "times"]);
    click_below(&mut harness, "Width of panel a");
    assert_eq!(composition(&harness.state().0).panels[0].span, 2);
    click_below(&mut harness, "One legend");
    assert_eq!(composition(&harness.state().0).share, [Share::Legend]);
    click_below(&mut harness, "Remove panel a");
    assert_eq!(studies(&harness.state().0), ["times"]);
    let state = &mut harness.state_mut().0;
    send(state, FiguresCommand::Undo);
    assert_eq!(studies(state), ["memory", "times"]);
    for _ in 0..3 {
        send(state, FiguresCommand::Undo);
    }
    assert_eq!((studies(state), composition(state).share.len()), (vec!["times", "memory"], 0));
    send(state, FiguresCommand::Redo);
    assert_eq!(studies(state), ["memory", "times"]);

    // The figure itself is a click away, and its table stays below.
    harness.run();
    click_below(&mut harness, "Show Figure");
    assert!(harness.query_by_label("Figure: Peak GPU memory").is_some() || page(&harness.state().0).composed.is_none());
}

/// The notice, and the message beside the buttons: an outcome is told once.
fn messages(state: &State) -> (Option<String>, Option<String>) {
    let notice = state.desk.notice.as_ref().map(|(_, notice)| notice.text.clone());
    (notice, state.own::<FiguresScreen>().outcome.as_ref().map(|(message, _)| message.clone()))
}

#[test]
fn panels_of_a_session_stay_when_another_one_is_opened_and_the_export_names_both() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    stored(&first);
    stored(&second);
    let mut state = state_with(&first, small());
    send(&mut state, FiguresCommand::AddPanel);
    open(&mut state, &second, small()[..4].to_vec());
    send(&mut state, FiguresCommand::AddPanel);
    let sessions: Vec<&[String]> = composition(&state).panels.iter().map(|panel| &panel.sessions[..]).collect();
    assert_eq!(sessions, [["first"], ["second"]]);
    assert_eq!(page(&state).composed.as_ref().unwrap().blank(), []);

    let file = folder.path().join("both.svg");
    send(&mut state, FiguresCommand::Path(file.display().to_string()));
    send(&mut state, FiguresCommand::Export);
    assert_eq!(messages(&state), (Some(format!("Written: {}", file.display())), None));
    send(&mut state, FiguresCommand::Export);
    assert_eq!(messages(&state), (Some(format!("Replaced: {}", file.display())), None));
    let written = read_file(&file).unwrap();
    let names: Vec<&str> = written.sessions.iter().map(|origin| origin.session.as_str()).collect();
    assert_eq!(names, ["first", "second"]);
    let own = Composition { style: state.own::<FiguresScreen>().study.style, ..composition(&state).clone() };
    assert_eq!(written.composition, Some(own));
}

/// A session with runs on the disk, beside others.
fn copied(folder: &Path) {
    let seed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/seeds/session");
    assert!(std::process::Command::new("cp").arg("-r").args([&seed, folder]).status().unwrap().success());
}

/// Opens a session of the disk in place of the open one.
fn open_stored(state: &mut State, folder: &Path) {
    let records = Arc::new(read_session(folder).unwrap());
    state.desk.opening = None;
    state.desk.session = Some(OpenSession { folder: folder.to_owned(), read_only: None });
    state.desk.records = records;
    state.desk.tell(News::Records);
    settle(state);
}

fn reasons(state: &State) -> Vec<(usize, String)> {
    page(state).composed.as_ref().unwrap().blank()
}

#[test]
fn a_composed_file_opens_one_session_and_reads_the_others_and_one_that_is_lost_is_named_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    let mut state = state_with(Path::new("/elsewhere/other"), Vec::new());
    for session in [&first, &second] {
        copied(session);
        open_stored(&mut state, session);
        send(&mut state, FiguresCommand::ShowPanels(false));
        send(&mut state, FiguresCommand::AddPanel);
    }
    let file = folder.path().join("both.svg");
    send(&mut state, FiguresCommand::Path(file.display().to_string()));
    send(&mut state, FiguresCommand::Export);
    assert_eq!(messages(&state), (Some(format!("Written: {}", file.display())), None));
    let whole = words(&state);

    let mut state = state_with(Path::new("/elsewhere/other"), small());
    let requests = send(&mut state, FiguresCommand::Open(file.clone()));
    assert!(requests.contains(&Request::OpenExisting(first.clone())), "{requests:?}");
    assert_eq!(reasons(&state), [(0, "session first is being opened".to_owned())]);
    assert!(words(&state).join(" ").contains("session first is being opened"), "it stands in its place");
    open_stored(&mut state, &first);
    assert_eq!((reasons(&state), words(&state)), (Vec::new(), whole.clone()));

    // What was there before comes back, and the file's figure with its sessions, whatever is open.
    send(&mut state, FiguresCommand::Undo);
    assert!(composition(&state).panels.is_empty());
    open(&mut state, Path::new("/elsewhere/other"), small());
    send(&mut state, FiguresCommand::Redo);
    assert_eq!((reasons(&state), words(&state)), (Vec::new(), whole));

    std::fs::remove_dir_all(&second).unwrap();
    let mut state = state_with(Path::new("/elsewhere/other"), small());
    send(&mut state, FiguresCommand::Open(file.clone()));
    open_stored(&mut state, &first);
    let [(1, reason)] = &reasons(&state)[..] else { panic!("{:?}", reasons(&state)) };
    assert!(reason.starts_with("session second is not known here: put its folder beside "), "{reason}");
    assert!(words(&state).join(" ").contains("session second is not known here"), "{:?}", words(&state));
    // A figure that lacks a panel is not written.
    let before = std::fs::read(&file).unwrap();
    send(&mut state, FiguresCommand::Path(file.display().to_string()));
    send(&mut state, FiguresCommand::Export);
    let (message, good) = state.own::<FiguresScreen>().outcome.clone().unwrap();
    assert!(!good && message.contains("session second is not known here"), "{message}");
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[test]
fn a_half_typed_filter_of_the_figure_leaves_the_panels_in_sight() {
    let mut state = state_with(Path::new("/s/study"), small());
    send(&mut state, FiguresCommand::AddPanel);
    let panels = words(&state);
    change(&mut state, |study| study.filter = "fp16 )".to_owned());
    assert!(state.own::<FiguresScreen>().page().unwrap().is_err(), "the figure is shown, which has no cells");
    send(&mut state, FiguresCommand::ShowPanels(true));
    assert_eq!(words(&state), panels);
    send(&mut state, FiguresCommand::AddPanel);
    assert_eq!(composition(&state).panels.len(), 1, "what is not drawn becomes no panel");
    let harness = harness(state);
    harness.get_by_label("Figure: Panels");
    assert!(harness.query_by_label_contains("the filter, character 6").is_some(), "the table says why it is empty");
}

#[test]
fn a_second_session_of_one_name_is_refused_as_a_file_could_not_tell_them_apart() {
    let mut state = state_with(Path::new("/a/study"), small());
    send(&mut state, FiguresCommand::AddPanel);
    open(&mut state, Path::new("/b/study"), small());
    send(&mut state, FiguresCommand::AddPanel);
    assert_eq!(composition(&state).panels.len(), 1);
    let (message, good) = state.own::<FiguresScreen>().outcome.clone().unwrap();
    assert!(!good && message.contains("/a/study and /b/study have the same name"), "{message}");
}

#[test]
fn a_panel_keeps_to_its_session_when_another_one_of_the_same_name_is_opened() {
    let mut state = state_with(Path::new("/a/study"), small());
    send(&mut state, FiguresCommand::AddPanel);
    let before = words(&state);
    open(&mut state, Path::new("/b/study"), small()[..1].to_vec());
    send(&mut state, FiguresCommand::ShowPanels(false));
    assert!(words(&state).len() < before.len(), "the other session has fewer cells");
    send(&mut state, FiguresCommand::ShowPanels(true));
    assert_eq!(words(&state), before);
}

#[test]
fn where_nothing_is_drawn_nothing_becomes_a_panel() {
    let mut state = state_with(Path::new("/a/study"), Vec::new());
    send(&mut state, FiguresCommand::AddPanel);
    assert!(composition(&state).panels.is_empty());
    let (message, good) = state.own::<FiguresScreen>().outcome.clone().unwrap();
    assert!(!good && message.contains("no figure is drawn"), "{message}");
}

#[test]
fn a_composed_figure_is_no_command_and_says_what_it_is_asked_for_by() {
    let mut state = state_with(Path::new("/s/study"), small());
    send(&mut state, FiguresCommand::AddPanel);
    let refused = state.own::<FiguresScreen>().command_line(&state.desk).unwrap_err();
    assert!(refused.contains("multicard help composed"), "{refused}");
    send(&mut state, FiguresCommand::ShowPanels(false));
    assert!(state.own::<FiguresScreen>().command_line(&state.desk).is_ok());
}
