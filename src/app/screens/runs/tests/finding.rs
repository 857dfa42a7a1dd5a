//! Runs are found in the list: the filter, the order, the columns, and what has no room.

use super::*;
use crate::app::command::DataCommand;
use crate::app::desk::export::data_menu_ui;
use crate::app::listing::Listing;
use crate::export::Format;
use crate::plan::{Level, Levels};
use crate::store::import_session;

#[test]
fn the_filter_narrows_by_typing_and_by_chips() {
    let records = vec![failed(1), record(2, "fp16", RunState::Finished), record(3, "fp32", RunState::Finished)];
    let mut harness = window(state(records, Vec::new()), State::draw::<RunsScreen>);
    let listed = |harness: &Harness<'_, Window>| {
        let all =
            harness.query_all_by_label_contains("Run ").filter(|node| node.accesskit_node().role() == Role::Button);
        all.count()
    };
    assert_eq!(listed(&harness), 3);
    let top = |name: &str| harness.get_by_label(name).rect().top();
    // Less than half a point is no difference that is drawn.
    assert!((top("Only failed") - top("Columns")).abs() < 0.5, "chips stand in line with the buttons beside them");
    let controls = ["Filter runs", "Clear filter", "Columns", "Export data", "Only failed"];
    let places = |harness: &Harness<'_, Window>| controls.map(|name| harness.get_by_label(name).rect());
    let before = places(&harness);
    harness.get_by_label("Filter runs").focus();
    harness.run();
    harness.get_by_label("Filter runs").type_text("precision=fp16");
    harness.run();
    assert_eq!(listed(&harness), 2);
    click(&mut harness, "Only failed");
    assert_eq!(harness.state().state.own::<RunsScreen>().filter_text, "precision=fp16 state=failed");
    // A button under the pointer is drawn larger.
    harness.remove_cursor();
    harness.run();
    assert_eq!(places(&harness), before, "nothing moved when the filter began");
    assert_eq!(listed(&harness), 1);
    harness.get_by_label_contains("Run 1: fp16");
    click(&mut harness, "Clear filter");
    assert_eq!(listed(&harness), 3);
}

#[test]
fn runs_are_filtered_by_state_levels_repeat_number_and_words() {
    let row = Row::of(&Listing::of(&[failed(7)]).entries[0]);
    for (text, admitted) in [
        ("", true),
        ("state=failed", true),
        ("STATE=Failed fp16", true),
        ("state=failed state=finished", true),
        ("state=timed-out", false),
        ("precision=fp1", false),
        ("precision=", true),
        ("run=7 repeat=7", true),
        ("run>=7", true),
        ("run>=8", false),
        ("nothing=here", false),
        ("memory", true),
        ("not memory or gpus>64", false),
        ("\u{0}ß 名", false),
    ] {
        assert_eq!(Filter::typed(text).unwrap().admits(&row), admitted, "{text:?}");
    }
}

#[test]
fn a_filter_that_names_a_level_exactly_lists_no_run_of_another_level() {
    let versions = ["2.1", "2.10", "2.2"];
    let records = (1..).zip(versions).map(|(number, version)| RunRecord {
        levels: Levels::new(vec![("version", Level::text(version))]),
        ..record(number, "fp32", RunState::Finished)
    });
    let mut state = state(records.collect(), Vec::new());
    let mut listed = |filter: &str| {
        state.execute(Command::from(RunsCommand::Filter(filter.to_owned())), &Context::default());
        state.own::<RunsScreen>().shown.len()
    };
    assert_eq!([listed("version=2.10"), listed("version=2.1"), listed("version=2.100"), listed("")], [1, 1, 0, 3]);
}

#[test]
fn a_filter_that_orders_names_says_which_names_and_hides_nothing() {
    let records = (1..).zip(["2.9", "2.10"]).map(|(number, version)| RunRecord {
        levels: Levels::new(vec![("version", Level::text(version))]),
        ..record(number, "fp32", RunState::Finished)
    });
    let mut harness = window(state(records.collect(), Vec::new()), State::draw::<RunsScreen>);
    harness.get_by_label("Filter runs").focus();
    harness.run();
    harness.get_by_label("Filter runs").type_text("version>=2.10");
    harness.run();
    harness.get_by_label_contains(
        "Filter: version>=2.10: levels of version that are no numbers have no order (2.10, 2.9)",
    );
    assert_eq!(harness.state().state.own::<RunsScreen>().shown.len(), 2);
}

#[test]
fn what_is_wrong_with_a_filter_is_said_below_it_with_its_place_and_hides_nothing() {
    let records = vec![failed(1), record(2, "fp16", RunState::Finished)];
    let mut harness = window(state(records, Vec::new()), State::draw::<RunsScreen>);
    harness.get_by_label("Filter runs").focus();
    harness.run();
    harness.get_by_label("Filter runs").type_text("fp16 gpus>many");
    harness.run();
    harness.get_by_label_contains("Filter: character 11: gpus> with \"many\": give a number");
    assert_eq!(harness.state().state.own::<RunsScreen>().shown.len(), 2);
}

#[test]
fn a_filter_by_a_key_that_no_run_has_names_the_nearest_and_moves_nothing() {
    let records = vec![failed(1), record(2, "fp16", RunState::Finished)];
    let mut harness = window(state(records, Vec::new()), State::draw::<RunsScreen>);
    let before = harness.get_by_label("Columns").rect();
    harness.get_by_label("Filter runs").focus();
    harness.run();
    harness.get_by_label("Filter runs").type_text("batch=16");
    harness.run();
    harness.get_by_label_contains("nothing here has batch; did you mean \"batch_size\"?");
    assert_eq!(harness.get_by_label("Columns").rect().top(), before.top());
}

#[test]
fn active_runs_come_first_then_queued_ones_then_the_latest_ended() {
    let mut records = vec![failed(1), record(2, "fp32", RunState::Finished)];
    records.extend((3..6).map(|number| record(number, "fp32", RunState::Queued)));
    // The queue was reordered: 5 before 4.
    let rows = vec![row(3, RunState::Running, 1), row(5, RunState::Queued, 0), row(4, RunState::Queued, 0)];
    let state = state(records, rows);
    let order: Vec<_> =
        state.own::<RunsScreen>().shown.iter().map(|index| state.desk.runs.rows[*index].number.as_str()).collect();
    assert_eq!(order, ["3", "5", "4", "2", "1"]);
}

#[test]
fn columns_of_the_list_are_hidden_and_moved_and_stay_so_in_the_next_window() {
    let records = vec![record(1, "fp32", RunState::Finished), record(2, "fp16", RunState::Queued)];
    let mut harness = window(state(records, Vec::new()), State::draw::<RunsScreen>);
    assert!(sees(&harness, "Repeat"));
    click(&mut harness, "Columns");
    click(&mut harness, "Column Repeat");
    click(&mut harness, "Move column Precision up");
    click(&mut harness, "Move column Precision up");
    harness.key_press(Key::Escape);
    harness.run();
    let settings = harness.state().state.desk.settings.clone();
    assert!(harness.query_by_label("Repeat").is_none());
    let left = |harness: &Harness<'_, Window>, name: &str| harness.get_by_label(name).rect().left();
    assert!(left(&harness, "Precision") < left(&harness, "Progress"), "before the column of actions and of progress");
    let text = toml::to_string(&settings).unwrap();
    assert_eq!(toml::from_str::<Settings>(&text).unwrap(), settings, "{text}");
}

#[test]
fn shown_runs_are_exported_as_a_long_table_with_the_command_that_does_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let session = folder.path().join("study");
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/sessions/gpu.zip");
    import_session(&golden, &session, &mut |_, _| std::ops::ControlFlow::Continue(())).unwrap();
    let mut state = State::new(Settings::default());
    state.desk.session = Some(OpenSession { folder: session, read_only: None });
    state.desk.screen = ScreenName::RUNS;
    let context = Context::default();
    let send = |state: &mut State, command: DataCommand| {
        state.execute(Command::Data(command), &context);
        while state.desk.export.is_busy() {
            state.poll(&Context::default());
            std::thread::yield_now();
        }
    };
    state.execute(Command::from(RunsCommand::Filter("state=finished".to_owned())), &context);
    let file = folder.path().join("runs.csv");
    send(&mut state, DataCommand::Path(file.display().to_string()));
    send(&mut state, DataCommand::Export("state=finished".to_owned()));
    let rows = std::fs::read_to_string(&file).unwrap();
    assert!(rows.lines().count() > 1 && rows.contains("finished"), "{rows}");
    assert!(rows.lines().skip(1).all(|row| row.contains("finished")), "only the runs that are shown");
    let command = state.desk.export_command("state=finished").unwrap();
    assert!(command.contains("--what runs --filter state=finished --output"), "{command}");
    send(&mut state, DataCommand::Format(Format::Parquet));
    send(&mut state, DataCommand::Export("state=finished".to_owned()));
    assert!(std::fs::read(folder.path().join("runs.parquet")).unwrap().starts_with(b"PAR1"));
    send(&mut state, DataCommand::Path("/nowhere/at/all.csv".to_owned()));
    send(&mut state, DataCommand::Export("state=finished".to_owned()));
    let mut harness =
        window(state, |ui, state, commands| data_menu_ui(ui, &state.desk, "state=finished", false, commands));
    click(&mut harness, "Export data");
    assert!(sees(&harness, "writing /nowhere/at/all.csv"));
}

#[test]
fn five_hundred_runs_draw_only_the_visible_lines() {
    let records = (1..=500).map(|number| record(number, "fp32", RunState::Finished)).collect();
    let harness = window(state(records, Vec::new()), State::draw::<RunsScreen>);
    let drawn = harness.query_all_by_label_contains(": , finished").count();
    assert!((10..60).contains(&drawn), "{drawn}");
}

#[test]
fn numbers_of_runs_are_whole_however_long() {
    let harness =
        window(state(vec![record(12_345, "fp32", RunState::Finished)], Vec::new()), State::draw::<RunsScreen>);
    let numbers: Vec<_> = harness.query_all_by_label("12345").map(|number| number.rect()).collect();
    assert!(!numbers.is_empty() && numbers.iter().all(|number| number.left() >= 0.0), "{numbers:?}");
}

#[test]
fn names_that_a_column_has_no_room_for_show_in_what_they_differ() {
    let papers = "2503.15252, 2505.22905 and what else was printed of it, ".repeat(3);
    let records = [(1, "Table 2: precision"), (2, "Table 3: pin_memory")].map(|(number, table)| {
        let mut record = record(number, "fp32", RunState::Finished);
        record.plan = format!("{papers}{table}");
        record
    });
    let harness = window(state(records.to_vec(), Vec::new()), State::draw::<RunsScreen>);
    harness.get_by_label("… 2: precision");
    harness.get_by_label("… 3: pin_memory");
}
