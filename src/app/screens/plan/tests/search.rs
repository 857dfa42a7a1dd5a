//! The search of a plan: switched on, asked, refused.

use super::*;
use crate::app::screens::plan::search::SearchTexts;

fn search(window: &Window) -> Option<crate::plan::Search> {
    window.state().state.own::<PlanScreen>().plan().search.clone()
}

fn ask(window: &mut Window, goal: &str, keep: &str) {
    execute(window, PlanCommand::Search(SearchTexts { goal: goal.to_owned(), keep: keep.to_owned() }));
}

fn two_batches(window: &mut Window) {
    let text = "version = 1\nname = \"batches\"\n[factors]\nbatch_size = [32, 64]\n";
    execute(window, PlanCommand::Begin(Box::new(Plan::parse(text, "p.toml").unwrap())));
}

#[test]
fn a_search_is_ticked_asked_with_a_budget_and_launched_as_the_plan_says() {
    let mut window = window_of(Some(gpu_node(1)));
    two_batches(&mut window);
    click(&mut window, "Search for the best cell");
    assert_eq!(search(&window).unwrap().goal.text(), "max throughput");
    assert_eq!(window.state().state.own::<PlanScreen>().plan().repeats, 12, "one repeat compares nothing");
    ask(&mut window, "min step_time_s", "peak_allocated_bytes < 24 GB and accuracy >= 98 %");
    let asked = search(&window).unwrap();
    assert_eq!((asked.goal.text().as_str(), asked.keep.len()), ("min step_time_s", 2));
    click(&mut window, "at most runs");
    assert_eq!(search(&window).unwrap().runs, Some(100));
    let plan = window.state().state.own::<PlanScreen>().plan().clone();
    assert_eq!(Plan::parse(&plan.to_toml(), "p.toml").unwrap(), plan);
    execute(&mut window, PlanCommand::Launch);
    assert!(matches!(&window.state().requests[..], [Request::Launch { plan: sent, .. }] if sent.search == plan.search));
    click(&mut window, "Search for the best cell");
    assert_eq!(search(&window), None);
}

#[test]
fn what_is_wrong_with_a_question_is_said_below_it_and_launches_nothing() {
    let mut window = window_of(Some(gpu_node(1)));
    two_batches(&mut window);
    click(&mut window, "Search for the best cell");
    ask(&mut window, "max throughput", "peak_allocated_bytes = 3");
    assert!(says(&window, "The search contains an error: \"peak_allocated_bytes = 3\" has no sign"));
    execute(&mut window, PlanCommand::Launch);
    assert!(window.state().requests.is_empty() && search(&window).unwrap().keep.is_empty());
    ask(&mut window, "max speed", "");
    assert!(says(&window, "there is no measure \"speed\""));
    execute(&mut window, PlanCommand::Launch);
    assert!(window.state().requests.is_empty());
    ask(&mut window, "max throughput", "");
    change(&mut window, None, |plan| plan.repeats = 1);
    assert!(says(&window, "a search compares repeats"));
    execute(&mut window, PlanCommand::Launch);
    assert!(window.state().requests.is_empty());
}
