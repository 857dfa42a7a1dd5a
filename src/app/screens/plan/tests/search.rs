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
    let repeats = |window: &Window| window.state().state.own::<PlanScreen>().plan().repeats;
    assert_eq!(repeats(&window), 12, "one repeat compares nothing");
    assert!(says(&window, "A cell gets at most 12 repeats, as set at Repeats."));
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
fn the_limits_of_a_plan_are_shown_as_a_text_that_is_read_as_them() {
    let mut window = window_of(Some(gpu_node(1)));
    let limits = r#"'"time and units" < 3', "accuracy >= 98 %", '"wait and see" > 1'"#;
    let search_table = format!("[search]\ngoal = 'min \"time and units\"'\nkeep = [{limits}]\n");
    let text = format!("version = 1\nrepeats = 12\n[factors]\nbatch_size = [32, 64]\n{search_table}");
    let plan = Plan::parse(&text, "p.toml").unwrap();
    execute(&mut window, PlanCommand::Begin(Box::new(plan.clone())));
    assert_eq!(window.state().state.own::<PlanScreen>().search_error(), None);
    let SearchTexts { goal, keep } = window.state().state.own::<PlanScreen>().search_texts().unwrap();
    ask(&mut window, &goal, &format!("{keep} and loss < 2"));
    let limits = search(&window).unwrap().keep;
    assert_eq!((&limits[..3], limits.len()), (&plan.search.unwrap().keep[..], 4));
}

#[test]
fn a_search_that_is_unticked_gives_back_the_repeats_unless_the_user_set_others() {
    let mut window = window_of(Some(gpu_node(1)));
    two_batches(&mut window);
    let repeats = |window: &Window| window.state().state.own::<PlanScreen>().plan().repeats;
    let before = repeats(&window);
    for expected in [12, before, 12] {
        click(&mut window, "Search for the best cell");
        assert_eq!(repeats(&window), expected);
    }
    change(&mut window, None, |plan| plan.repeats = 8);
    click(&mut window, "Search for the best cell");
    assert_eq!((search(&window), repeats(&window)), (None, 8));
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

#[test]
fn a_search_of_a_program_seeks_a_measure_that_it_has_with_repeats_that_tell_cells_apart() {
    let mut window = window_of(Some(gpu_node(1)));
    let text = "version = 1\nname = \"mine\"\nrepeats = 3\n[command]\nrun = [\"sh\", \"-c\", \"exit {n}\"]\n\
                [factors]\nn = [1, 2]\n";
    execute(&mut window, PlanCommand::Begin(Box::new(Plan::parse(text, "p.toml").unwrap())));
    click(&mut window, "Search for the best cell");
    let plan = window.state().state.own::<PlanScreen>().plan().clone();
    assert_eq!(plan.search.as_ref().unwrap().goal.text(), "min program_time_s", "a program may report no throughput");
    assert!(crate::analysis::check_search(&plan, "p.toml").is_ok());
    assert_eq!(plan.repeats, 12, "three repeats hardly tell cells apart");
    execute(&mut window, PlanCommand::Undo);
    assert_eq!((search(&window), window.state().state.own::<PlanScreen>().plan().repeats), (None, 3), "one edit");
    change(&mut window, None, |plan| plan.repeats = 8);
    click(&mut window, "Search for the best cell");
    assert_eq!(window.state().state.own::<PlanScreen>().plan().repeats, 8, "enough repeats stay");
}
