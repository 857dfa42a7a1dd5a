//! Several sessions on Compare: added, refused, told apart, each with its own study; and a history follows a measure over them.

use super::*;
use crate::analysis::{Key, Level, Levels};
use crate::figure::{AdditionKind, Along, Form};
use crate::protocol::{Environment, IMPORTED_FROM};

/// A session of one day. From the ninth day on, fp32 is slower.
fn night(folder: &Path, day: u32) -> Arc<Records> {
    let mut environment = Environment::default();
    environment.set("hostname", Some("gpu1"));
    environment.set("worker_build", Some(if day < 9 { "aaaaaaaaaaaa11" } else { "bbbbbbbbbbbb22" }));
    let environment = Arc::new(environment);
    let run = |repeat: u32| {
        let noise = 1.0 + 0.002 * f64::from((day * 7 + repeat * 5) % 11);
        let mut run =
            fixture::run(&fixture::cell("fp32", 1, "single"), repeat, noise * if day < 9 { 0.1 } else { 0.12 });
        run.started_time_s = Some(86_400.0 * f64::from(day));
        run.environment = Some(Arc::clone(&environment));
        run
    };
    records(&folder.join(format!("night-{day:02}")).display().to_string(), (1..=3).map(run).collect())
}

fn nights(folder: &Path, count: u32) -> State {
    let path = |day: u32| folder.join(format!("night-{day:02}"));
    for day in 0..count {
        std::fs::create_dir_all(path(day)).unwrap();
        std::fs::write(path(day).join("session.toml"), "").unwrap();
    }
    let mut state = state_of(night(folder, 0));
    for day in 1..count {
        send(&mut state, CompareCommand::Add(path(day)));
        state.take(crate::app::engine::UiEvent::Records(night(folder, day)));
        settle(&mut state);
    }
    state
}

#[test]
fn sessions_are_listed_with_machine_commit_and_date_and_filtered_by_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut state = nights(folder.path(), 3);
    assert_eq!(column(&state, "date"), ["1970-01-01", "1970-01-02", "1970-01-03"]);
    change(&mut state, |study| study.filter = "date>=1970-01-02".to_owned());
    assert_eq!(column(&state, "session"), ["night-01", "night-02"]);
    let line = state.command_line().unwrap();
    let place = |day: u32| folder.path().join(format!("night-{day:02}")).display().to_string();
    assert!(line.starts_with(&format!("multicard table {} {} {} --form bars", place(0), place(1), place(2))), "{line}");
    let harness = harness(state, [1280.0, 800.0]);
    harness.get_by_label("gpu1 · aaaaaaaaaaaa · 1970-01-03");
    harness.get_by_role_and_label(Role::CheckBox, "Show 1970-01-03");
}

#[test]
fn a_history_is_drawn_with_its_change_and_can_follow_commits() {
    let folder = tempfile::tempdir().unwrap();
    let mut state = nights(folder.path(), 16);
    change(&mut state, |study| {
        study.form = Form::History;
        study.measure = Some("step_time_s".into());
    });
    let charts = |state: &State| state.own::<CompareScreen>().picture.as_ref().unwrap().comparison.charts.clone();
    let chart = &charts(&state)[0];
    assert_eq!(chart.x.categories.len(), 16);
    assert!(chart.additions.iter().any(|one| matches!(one.kind, AdditionKind::Region { .. })));
    assert_eq!(column(&state, "change").iter().filter(|text| text.starts_with("1.2")).count(), 1);
    let harness = harness(state, [1280.0, 800.0]);
    harness.get_by_role_and_label(Role::ComboBox, "Along");
    assert!(harness.query_by_role_and_label(Role::ComboBox, "Baseline").is_none(), "a history has none");
    let mut state = std::mem::take(&mut { harness }.state_mut().state);
    change(&mut state, |study| study.along = Along::Commits);
    assert_eq!(charts(&state)[0].x.categories[0], "aaaaaaaaaaaa 1970-01-01");
}

/// A session of results that were imported from one file, one a day.
fn imported(folder: &str, days: u32) -> Arc<Records> {
    let result = |day: u32| {
        let mut environment = Environment::default();
        environment.set(IMPORTED_FROM, Some(format!("nightly.csv (CSV), day {day}")));
        let mut run = fixture::run(&fixture::cell("fp32", 1, "single"), 1, 0.1);
        run.run = format!("c1-r1-{day}");
        run.started_time_s = Some(86_400.0 * f64::from(day));
        run.environment = Some(Arc::new(environment));
        run
    };
    records(folder, (1..=days).map(result).collect())
}

/// A window in which a session was opened whose records are not read yet.
fn opened(folder: &str) -> State {
    let mut state = State::new(Settings::default());
    state.desk.screen = ScreenName::COMPARE;
    state.take(crate::app::engine::UiEvent::Session { folder: folder.into(), read_only: None });
    state
}

#[test]
fn the_shown_table_can_be_saved_as_a_file() {
    let mut harness = harness(state_of(records("s", small())), [1280.0, 800.0]);
    harness.get_by_label("Copy as").click();
    harness.run();
    harness.get_by_label("Save table …").click();
    assert_eq!(asked(&mut harness), [CompareCommand::SaveTable]);
    let state = &harness.state().state;
    let table = state.own::<CompareScreen>().shown_table(&state.desk).unwrap();
    assert_eq!(table.rows.len(), 4);
}

#[test]
fn imported_results_of_many_days_open_as_a_history_and_few_as_bars() {
    let shown = |days: u32| {
        let mut state = opened("imported");
        state.take(crate::app::engine::UiEvent::Records(imported("imported", days)));
        settle(&mut state);
        state.own::<CompareScreen>().study.clone()
    };
    let history = shown(9);
    assert_eq!((history.form, history.name.as_str(), history.along), (Form::History, "history", Along::Dates));
    assert_eq!(shown(5), Study::default());
}

#[test]
fn what_the_user_has_chosen_before_the_results_are_read_stays() {
    let mut state = opened("imported");
    change(&mut state, |study| study.log = true);
    state.take(crate::app::engine::UiEvent::Records(imported("imported", 9)));
    settle(&mut state);
    assert_eq!(state.own::<CompareScreen>().study, Study { log: true, ..Study::default() });
}

#[test]
fn bars_of_many_sessions_lead_to_their_history() {
    let folder = tempfile::tempdir().unwrap();
    let mut harness = harness(nights(folder.path(), 9), [1280.0, 800.0]);
    harness.get_by_label("Show the history").click();
    assert_eq!(asked(&mut harness), [CompareCommand::Form(Form::History)]);
    send(&mut harness.state_mut().state, CompareCommand::Form(Form::History));
    harness.run();
    assert!(harness.query_by_label("Show the history").is_none());
}

#[test]
fn the_baseline_that_was_found_divides_as_before_once_another_thing_changes() {
    let run = |precision: &str, commit: u32| {
        let mut environment = Environment::default();
        environment.set("program_git", Some(format!("c{commit}")));
        let at_first_s = if precision == "fp16" { 0.2 } else { 0.4 };
        let mut run = fixture::run(&fixture::cell(precision, 1, "single"), commit, at_first_s / f64::from(commit));
        run.started_time_s = Some(86_400.0 * f64::from(commit));
        run.environment = Some(Arc::new(environment));
        run
    };
    let runs = ["fp32", "fp16"].into_iter().flat_map(|precision| [run(precision, 1), run(precision, 2)]);
    let mut state = state_of(records("s", runs.collect()));
    let ratios = column(&state, "ratio");
    assert_eq!(ratios.iter().filter(|ratio| ratio.starts_with("2.00")).count(), 2, "{ratios:?}");
    change(&mut state, |study| study.log = true);
    assert_eq!(column(&state, "ratio"), ratios, "each precision is still divided within its commit");
}

#[test]
fn a_list_of_very_many_levels_ends_and_names_the_filter() {
    let run = |batch_size: i64| {
        let mut run = fixture::run(&fixture::cell("fp32", 1, "single"), 1, 0.1);
        let level = |(key, level): (&Key, &Level)| match &**key {
            "batch_size" => (key.clone(), Level::Integer(batch_size)),
            _ => (key.clone(), level.clone()),
        };
        run.levels = Levels::new(run.levels.iter().map(level).collect());
        (run.cell, run.run) = (format!("cell{batch_size}"), format!("{batch_size:04}-cell-1"));
        run
    };
    let listed = |count: i64| {
        let harness = harness(state_of(records("s", (1..=count).map(run).collect())), [1280.0, 800.0]);
        let left_out = harness.query_by_label_contains("more: use the filter").is_some();
        (harness.query_all_by_label_contains("Show ").count(), left_out)
    };
    let ((all, is_cut), (first, is_told)) = (listed(60), listed(90));
    assert!(all >= 60 && !is_cut, "{all}");
    assert_eq!((first, is_told), (all, true));
}

/// The same an hour later, as another session has them.
pub(super) fn later(runs: Vec<RunRecord>) -> Vec<RunRecord> {
    let after = |time_s: Option<f64>| time_s.map(|time_s| time_s + 3600.0);
    let later = |run: RunRecord| RunRecord {
        started_time_s: after(run.started_time_s),
        ended_time_s: after(run.ended_time_s),
        ..run
    };
    runs.into_iter().map(later).collect()
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
fn the_second_half_of_a_double_click_removes_no_second_session() {
    let folder = tempfile::tempdir().unwrap();
    let mut harness = paced(nights(folder.path(), 4), [1280.0, 800.0], 0.05);
    let pos = harness.get_by_label("Remove session night-01").rect().center();
    harness.hover_at(pos);
    harness.step();
    let click = |harness: &mut Harness<'_, Screened>| {
        for pressed in [true, false] {
            let (button, modifiers) = (PointerButton::Primary, Modifiers::NONE);
            harness.event(Event::PointerButton { pos, button, pressed, modifiers });
            harness.step();
        }
        let commands = std::mem::take(&mut harness.state_mut().commands);
        let asked: Vec<CompareCommand> =
            commands.into_iter().filter_map(|command| command.of_screen().cloned()).collect();
        asked.into_iter().for_each(|command| drop(send(&mut harness.state_mut().state, command)));
        harness.step();
        harness.state().state.desk.sources().len()
    };
    assert_eq!(click(&mut harness), 3);
    assert_eq!(click(&mut harness), 3, "the next session has just come under the pointer");
    harness.run_steps(20);
    assert_eq!(click(&mut harness), 2, "it has been there for a second");
}

#[test]
fn a_long_name_of_a_session_that_is_being_read_leaves_the_button_that_stops_it_in_sight() {
    let folder = tempfile::tempdir().unwrap();
    let long = folder.path().join("night-of-the-long-session-names-".repeat(4));
    std::fs::create_dir_all(&long).unwrap();
    std::fs::write(long.join("session.toml"), "").unwrap();
    let mut state = nights(folder.path(), 1);
    send(&mut state, CompareCommand::Add(long.clone()));
    // What a window of 1000 × 700 leaves beside the list of screens.
    let harness = harness(state, [872.0, 640.0]);
    let stop = harness.get_by_label(&format!("Stop reading {}", long.display())).rect();
    assert!(stop.right() <= 216.0, "{stop:?}");
}
