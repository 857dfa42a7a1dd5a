//! Saved studies: from the menu over the conductor to the journal, and back.

use eframe::egui::{Key, Modifiers};

use super::*;
use crate::app::dressed::type_at_once;
use crate::figure::SavedStudy;

fn with_studies(studies: &[(&str, &str)]) -> Arc<Records> {
    let studies = studies.iter().map(|(name, json)| SavedStudy::read(name, json)).collect();
    let records = Arc::unwrap_or_clone(records("s", small()));
    Arc::new(Records { studies, ..records })
}

#[test]
fn what_is_shown_is_saved_under_a_name_with_the_baseline_in_sight() {
    let mut harness = harness(state_of(records("s", small())), [1280.0, 800.0]);
    change(&mut harness.state_mut().state, |study| study.filter = "fp16".to_owned());
    harness.run();
    harness.get_by_label("Study").click();
    harness.run();
    harness.get_by_label("Name of the study").focus();
    harness.run();
    harness.get_by_label("Name of the study").type_text("halves");
    harness.run();
    harness.get_by_label("Save study").click();
    let commands = asked(&mut harness);
    assert_eq!(commands, [CompareCommand::SaveStudy("halves".to_owned())]);
    let state = &mut harness.state_mut().state;
    let requests = send(state, commands[0].clone());
    let [Request::Order(Order::SaveStudy(name, json))] = &requests[..] else { panic!("{requests:?}") };
    let study: Study = serde_json::from_value(json.clone()).unwrap();
    assert_eq!((name.as_str(), study.name.as_str(), study.filter.as_str()), ("halves", "halves", "fp16"));
    assert_eq!(study.baseline.as_deref(), Some("fp32-1-ddp-ds"));
    assert_eq!(state.own::<CompareScreen>().study, study);
}

#[test]
fn a_name_that_is_built_in_is_refused_where_it_is_typed_and_without_a_session_nothing_is_saved() {
    let mut harness = harness(state_of(records("s", small())), [1280.0, 800.0]);
    harness.get_by_label("Study").click();
    harness.run();
    harness.get_by_label("Name of the study").focus();
    harness.run();
    harness.get_by_label("Name of the study").type_text("times");
    harness.run();
    harness.get_by_label("\"times\" is built in: give another name");
    assert!(harness.get_by_label("Save study").accesskit_node().is_disabled());
    let state = &mut harness.state_mut().state;
    assert!(send(state, CompareCommand::SaveStudy("times".to_owned())).is_empty());
    assert!(state.desk.problems.iter().any(|problem| problem.message.contains("built in")));
    state.desk.session.as_mut().unwrap().read_only =
        Some("Read-only: another window is writing this session".to_owned());
    harness.run();
    assert!(harness.get_by_label("Name of the study").accesskit_node().is_disabled());
}

#[test]
fn a_refused_name_is_not_saved_by_an_enter_that_arrives_with_it() {
    let mut harness = harness(state_of(records("s", small())), [1280.0, 800.0]);
    harness.get_by_label("Study").click();
    harness.run();
    harness.get_by_label("Name of the study").focus();
    harness.run();
    type_at_once(&mut harness, "times");
    assert!(!asked(&mut harness).iter().any(|command| matches!(command, CompareCommand::SaveStudy(_))));
    harness.get_by_label("\"times\" is built in: give another name");
}

#[test]
fn a_saved_study_is_chosen_deleted_and_brought_back_and_one_that_cannot_be_read_hides_nothing() {
    let kept = [("halves", "{\"filter\":\"fp16\",\"log\":true}"), ("later", "{\"form\":\"clouds\"}")];
    let mut harness = harness(state_of(with_studies(&kept)), [1280.0, 800.0]);
    harness.get_by_label("Study").click();
    harness.run();
    assert!(harness.get_by_label("⚠ later").accesskit_node().is_disabled());
    harness.get_by_label("halves").click();
    let commands = asked(&mut harness);
    let state = &mut harness.state_mut().state;
    send(state, commands[0].clone());
    assert_eq!((state.own::<CompareScreen>().study.filter.as_str(), rows(state).len()), ("fp16", 2));
    harness.run();
    harness.get_by_label("Study: halves");
    change(&mut harness.state_mut().state, |study| study.filter = String::new());
    harness.run();
    harness.get_by_label("Study: halves (changed)").click();
    harness.run();
    harness.get_by_label("Delete study halves").click();
    let commands = asked(&mut harness);
    assert_eq!(commands, [CompareCommand::DeleteStudy("halves".to_owned())]);
    let state = &mut harness.state_mut().state;
    assert_eq!(send(state, commands[0].clone()), [Request::Order(Order::DeleteStudy("halves".to_owned()))]);
    harness.run();
    let state = &mut harness.state_mut().state;
    state.execute(Command::Undo, &Context::default());
    let requests = state.desk.take_requests();
    let [Request::Order(Order::SaveStudy(name, json))] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!((name.as_str(), json.to_string()), ("halves", kept[0].1.to_owned()));
}

#[test]
fn built_in_studies_stand_under_the_question_that_they_answer_and_are_searched() {
    let mut harness = harness(state_of(records("s", small())), [1280.0, 800.0]);
    harness.get_by_label("Study").click();
    harness.run();
    let top = |label: &str| harness.get_by_label(label).rect().top();
    assert!(top("How fast is it?") < top("Times, throughput and speed-up"));
    assert!(top("Times, throughput and speed-up") < top("Does it scale?"));
    harness.get_by_label("Search studies").focus();
    harness.run();
    harness.get_by_label("Search studies").type_text("gpu scale");
    harness.run();
    assert!(harness.query_by_label("How fast is it?").is_none());
    harness.get_by_label("Scaling over GPUs").click();
    assert!(matches!(&asked(&mut harness)[..], [CompareCommand::Study(study)] if study.name == "scaling"));
}

#[test]
fn the_search_has_the_focus_and_enter_takes_the_first_study_that_it_finds() {
    let mut harness = harness(state_of(records("s", small())), [1280.0, 800.0]);
    let open = |harness: &mut Harness<'_, Screened>| {
        harness.get_by_label("Study").click();
        harness.run();
        let search = harness.get_by_label("Search studies");
        assert!(search.accesskit_node().is_focused());
        assert_eq!(search.value().unwrap_or_default(), "", "the search before is gone");
        search.type_text("gpu scale");
        harness.run();
    };
    open(&mut harness);
    harness.key_press_modifiers(Modifiers::NONE, Key::Escape);
    harness.run();
    assert!(harness.query_by_label("Search studies").is_none());
    open(&mut harness);
    harness.key_press_modifiers(Modifiers::NONE, Key::ArrowDown);
    harness.run();
    assert!(harness.get_by_label("Scaling over GPUs").accesskit_node().is_focused());
    harness.get_by_label("Search studies").focus();
    harness.run();
    harness.key_press_modifiers(Modifiers::NONE, Key::Enter);
    assert!(matches!(&asked(&mut harness)[..], [CompareCommand::Study(study)] if study.name == "scaling"));
    harness.run();
    assert!(harness.query_by_label("Search studies").is_none(), "the menu is closed");
}

#[test]
fn the_menu_is_reached_and_used_by_keys_alone() {
    let mut harness = harness(state_of(with_studies(&[("halves", "{\"filter\":\"fp16\"}")])), [1280.0, 800.0]);
    let press = |harness: &mut Harness<'_, Screened>, key| {
        harness.key_press_modifiers(Modifiers::NONE, key);
        harness.run();
    };
    let tab_to = |harness: &mut Harness<'_, Screened>, label: &str| {
        for _ in 0..200 {
            if harness.query_by_label(label).is_some_and(|node| node.accesskit_node().is_focused()) {
                return;
            }
            press(harness, Key::Tab);
        }
        panic!("{label} is not reached by Tab");
    };
    tab_to(&mut harness, "Study");
    press(&mut harness, Key::Enter);
    tab_to(&mut harness, "Name of the study");
    harness.get_by_label("Name of the study").type_text("by keys");
    harness.run();
    press(&mut harness, Key::Enter);
    assert_eq!(asked(&mut harness), [CompareCommand::SaveStudy("by keys".to_owned())]);
    if harness.query_by_label("halves").is_none() {
        tab_to(&mut harness, "Study");
        press(&mut harness, Key::Enter);
    }
    tab_to(&mut harness, "halves");
    press(&mut harness, Key::Enter);
    assert!(matches!(&asked(&mut harness)[..], [CompareCommand::Study(study)] if study.name == "halves"));
}

#[test]
fn studies_go_through_the_conductor_to_the_journal_and_those_of_a_plan_are_there_once_it_is_launched() {
    let mut conducted = Conducted::open();
    let names = |state: &State| state.desk.records.studies.iter().map(|saved| saved.name.clone()).collect::<Vec<_>>();
    for name in ["first", "second"] {
        conducted.send(CompareCommand::SaveStudy(name.to_owned()));
    }
    conducted.until("both are saved", |state| names(state) == ["first", "second"]);
    conducted.send(CompareCommand::DeleteStudy("first".to_owned()));
    conducted.until("one is deleted", |state| names(state) == ["second"]);
    let text = "version = 1\n[[study]]\nname = \"second\"\nform = \"map\"\n[[study]]\nname = \"third\"\nlog = true\n";
    conducted.launch("with studies", text);
    conducted.until("the plan's study is there", |state| names(state) == ["second", "third"]);
    let kept = conducted.end().0.studies().unwrap();
    let kept: Vec<SavedStudy> = kept.iter().map(|(name, json)| SavedStudy::read(name, json)).collect();
    assert_eq!(kept[0].study.as_ref().unwrap().form, Form::Bars, "one that was saved before is not replaced");
    assert!(kept[1].study.as_ref().unwrap().log);
}
