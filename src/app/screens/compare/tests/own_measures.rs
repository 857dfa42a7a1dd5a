//! User-defined measures: typed, checked, saved, shown for runs that are there already, and deleted.

use super::many::later;
use super::*;
use crate::plan::OwnMeasure;

fn type_into(harness: &mut Harness<'_, Screened>, field: &str, text: &str) {
    harness.get_by_label(field).focus();
    harness.run();
    harness.get_by_label(field).type_text(text);
    harness.run();
}

/// A session with this list of measures.
fn with_own(folder: &str, runs: Vec<RunRecord>, own: &[OwnMeasure]) -> Arc<Records> {
    let own_measures: Arc<[OwnMeasure]> = own.into();
    let runs = runs.into_iter().map(|run| RunRecord { own_measures: Arc::clone(&own_measures), ..run }).collect();
    Arc::new(Records { own_measures, ..Arc::unwrap_or_clone(records(folder, runs)) })
}

#[test]
fn a_formula_is_checked_as_it_is_typed_and_can_be_saved_once_it_is_right() {
    let mut harness = harness(state_of(records("s", small())), [1280.0, 800.0]);
    harness.get_by_label("Own measures").click();
    harness.run();
    type_into(&mut harness, "Key of the measure", "per_gpu");
    type_into(&mut harness, "Formula of the measure", "thruput");
    harness.get_by_label("character 1: unknown measure \"thruput\"; did you mean \"throughput\"?");
    assert!(harness.get_by_label("Save measure").accesskit_node().is_disabled());
    type_into(&mut harness, "Formula of the measure", " + 1");
    type_into(&mut harness, "Formula of the measure", "");
    harness.get_by_label("Formula of the measure").focus();
    harness.key_press_modifiers(Modifiers::COMMAND, eframe::egui::Key::A);
    harness.run();
    harness.get_by_label("Formula of the measure").type_text("throughput / gpus");
    harness.run();
    harness.get_by_label("Unit: images/s");
    harness.get_by_label("Save measure").click();
    let commands = asked(&mut harness);
    let expected = OwnMeasure::new("per_gpu", "throughput / gpus");
    assert_eq!(commands, [CompareCommand::SaveMeasure(Box::new(expected.clone()))]);
    let requests = send(&mut harness.state_mut().state, commands[0].clone());
    assert_eq!(requests, [Request::Order(Order::SaveMeasure(expected))]);
}

#[test]
fn enter_in_the_formula_saves_the_measure() {
    let mut harness = harness(state_of(records("s", small())), [1280.0, 800.0]);
    harness.get_by_label("Own measures").click();
    harness.run();
    type_into(&mut harness, "Key of the measure", "per_gpu");
    type_into(&mut harness, "Formula of the measure", "throughput / gpus");
    harness.key_press(eframe::egui::Key::Enter);
    let commands = asked(&mut harness);
    assert_eq!(commands, [CompareCommand::SaveMeasure(Box::new(OwnMeasure::new("per_gpu", "throughput / gpus")))]);
}

#[test]
fn names_for_a_formula_are_found_by_a_search_and_inserted_by_a_click() {
    let mut harness = harness(state_of(records("s", small())), [1280.0, 800.0]);
    harness.get_by_label("Own measures").click();
    harness.run();
    type_into(&mut harness, "Key of the measure", "per_gpu");
    harness.get_by_label("Insert throughput");
    type_into(&mut harness, "Search names for the formula", "throughp");
    assert!(harness.query_by_label("Insert gpus").is_none());
    harness.get_by_label("Insert throughput").click();
    harness.run();
    // The focus is in the formula, behind the name.
    harness.get_by_label("Formula of the measure").type_text(" /");
    harness.run();
    harness.get_by_label("Search names for the formula").focus();
    harness.key_press_modifiers(Modifiers::COMMAND, eframe::egui::Key::A);
    harness.run();
    harness.get_by_label("Search names for the formula").type_text("gpus");
    harness.run();
    harness.get_by_label("Insert gpus").click();
    harness.run();
    harness.get_by_label("Unit: images/s");
    harness.get_by_label("Save measure").click();
    let expected = OwnMeasure::new("per_gpu", "throughput / gpus");
    assert_eq!(asked(&mut harness), [CompareCommand::SaveMeasure(Box::new(expected))]);
}

#[test]
fn a_measure_of_ones_own_is_edited_and_deleted_unless_another_one_needs_it() {
    let own = [OwnMeasure::new("rate", "throughput / 2"), OwnMeasure::new("per_watt", "rate / power_w")];
    let mut harness = harness(state_of(with_own("s", small(), &own)), [1280.0, 800.0]);
    let state = &mut harness.state_mut().state;
    change(state, |study| study.measures = vec!["throughput".into(), "rate".into()]);
    let halves: Vec<_> = column(state, "rate").iter().map(|text| text.starts_with("1280")).collect();
    assert!(halves.contains(&true), "{:?}", column(state, "rate"));
    harness.run();
    harness.get_by_label("Own measures").click();
    harness.run();
    harness.get_by_label("Edit measure rate").click();
    harness.run();
    harness.get_by_label("Unit: images/s");
    let state = &mut harness.state_mut().state;
    assert!(send(state, CompareCommand::DeleteMeasure("rate".into())).is_empty());
    assert!(state.desk.problems.iter().any(|problem| problem.message.contains("per_watt is computed from it")));
    let requests = send(state, CompareCommand::DeleteMeasure("per_watt".into()));
    assert_eq!(requests, [Request::Order(Order::DeleteMeasure("per_watt".into()))]);
}

#[test]
fn a_measure_of_the_open_session_has_values_in_a_compared_one_and_none_where_the_formulas_differ() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
    for path in [&a, &b] {
        std::fs::create_dir_all(path).unwrap();
        std::fs::write(path.join("session.toml"), "").unwrap();
    }
    let own = |formula: &str| [OwnMeasure::new("own", formula)];
    let mut state = state_of(with_own(&a.display().to_string(), small(), &own("2 * step_time_s")));
    send(&mut state, CompareCommand::Add(b.clone()));
    let read = |state: &mut State, own: &[OwnMeasure]| {
        let records = with_own(&b.display().to_string(), later(small()), own);
        state.take(crate::app::engine::UiEvent::Records(records));
        settle(state);
    };
    read(&mut state, &[]);
    change(&mut state, |study| study.measure = Some("own".into()));
    let with_value = |state: &State| {
        let values = column(state, "own");
        assert_eq!(values.len(), 8, "{values:?}");
        values.iter().filter(|text| text.contains(|letter: char| letter.is_ascii_digit())).count()
    };
    let comparison = |state: &State| state.own::<CompareScreen>().picture.as_ref().unwrap().comparison.clone();
    assert_eq!((with_value(&state), comparison(&state).has_ratios), (8, true));

    read(&mut state, &own("step_time_s / 3"));
    assert_eq!((with_value(&state), comparison(&state).has_ratios), (0, false));
    let why = comparison(&state).missing[0].clone();
    assert!(why.starts_with("own: one session computes it as 2 * step_time_s, another as step_time_s / 3"), "{why}");
    assert!(comparison(&state).table.notes.contains(&why), "a copied table says it, too");
    harness(state, [1280.0, 800.0]).get_by_label(&format!("⚠ {why}"));
}

#[test]
fn own_measures_go_through_the_conductor_to_the_journal_and_a_plans_come_with_its_launch() {
    let mut conducted = Conducted::open();
    let keys =
        |state: &State| state.desk.records.own_measures.iter().map(|own| own.key.to_string()).collect::<Vec<_>>();
    for (key, formula) in [("first", "throughput / 2"), ("second", "first / power_w")] {
        conducted.send(CompareCommand::SaveMeasure(Box::new(OwnMeasure::new(key, formula))));
        conducted.until("it is saved", |state| keys(state).last().is_some_and(|last| last == key));
    }
    conducted.send(CompareCommand::DeleteMeasure("second".into()));
    conducted.until("one is deleted", |state| keys(state) == ["first"]);
    let text = "version = 1\n[measures]\nfirst = \"throughput\"\nthird = \"throughput / gpus\"\n";
    conducted.launch("with measures", text);
    conducted.until("the plan's measure is there", |state| keys(state) == ["first", "third"]);
    let (reader, _folder) = conducted.end();
    let kept = reader.own_measures().unwrap();
    assert_eq!(kept[0].formula, "throughput / 2", "one that was saved before is not replaced");
    let runs = reader.runs().unwrap();
    assert!(runs.iter().all(|run| run.own_measures == kept));
}

#[test]
fn whether_high_values_of_a_measure_are_good_is_chosen_in_its_menu_which_stays_open() {
    let mut harness = harness(state_of(records("s", small())), [1280.0, 800.0]);
    harness.get_by_label("Own measures").click();
    harness.run();
    type_into(&mut harness, "Key of the measure", "per_gpu");
    type_into(&mut harness, "Formula of the measure", "throughput / gpus");
    for better in ["lower", "higher"] {
        harness.get_by_label(&format!("Better: {better}")).click();
        harness.run();
    }
    harness.get_by_label("Save measure").click();
    let expected = OwnMeasure { better: analysis::Better::Higher, ..OwnMeasure::new("per_gpu", "throughput / gpus") };
    assert_eq!(asked(&mut harness), [CompareCommand::SaveMeasure(Box::new(expected))]);
}
