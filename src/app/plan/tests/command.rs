//! The form of a program of one's own.

use super::*;

fn type_into(window: &mut Window, name: &str, text: &str) {
    // A field may have a label of the same name before it.
    window.get_all_by_label(name).last().unwrap().focus();
    window.run();
    window.get_all_by_label(name).last().unwrap().type_text(text);
    settle(window);
}

fn own() -> Window {
    let mut window = window_of(Some(cpu_node()));
    click(&mut window, "Workload Own program");
    window
}

fn says(window: &Window, text: &str) -> bool {
    window.query_all_by_label_contains(text).next().is_some()
}

fn run(window: &Window) -> String {
    window.state().state.plan.texts().unwrap().run
}

#[test]
fn a_factor_is_added_by_its_name_and_its_levels() {
    let mut window = own();
    type_into(&mut window, "Name of a new factor", "batch");
    type_into(&mut window, "Levels of a new factor", "32, 64");
    click(&mut window, "Add factor");
    assert_eq!(ticked(&window, "batch"), ["32", "64"]);
    assert!(run(&window).ends_with(" --batch={batch}"), "{}", run(&window));
    type_into(&mut window, "Levels of batch", ", 128");
    assert_eq!(ticked(&window, "batch"), ["32", "64", "128"]);
    click(&mut window, "Remove batch");
    assert!(ticked(&window, "batch").is_empty() && !run(&window).contains("batch"));
    execute(&mut window, PlanCommand::Undo);
    assert_eq!(ticked(&window, "batch").len(), 0, "all that was typed is one edit");
}

#[test]
fn what_is_wrong_is_shown_and_launches_nothing_until_it_is_right() {
    let mut window = own();
    type_into(&mut window, "Command", " --lr={lr}");
    assert!(says(&window, "nothing is called {lr}"));
    assert!(run(&window).contains("{lr}"), "the text stays");
    execute(&mut window, PlanCommand::Launch);
    assert!(window.state().requests.is_empty());
    assert!(messages(&window).contains("The program is not complete"), "{}", messages(&window));
    type_into(&mut window, "Name of a new factor", "lr");
    type_into(&mut window, "Levels of a new factor", "0.1, 0.01");
    click(&mut window, "Add factor");
    assert!(!says(&window, "nothing is called {lr}"));
    assert_eq!(ticked(&window, "lr").len(), 2);
    execute(&mut window, PlanCommand::Launch);
    assert!(matches!(window.state().requests[..], [Request::Launch { .. }]), "no worker is needed");
}

#[test]
fn patterns_become_readings_of_the_plan() {
    let mut window = own();
    click(&mut window, "Readings and variables");
    type_into(&mut window, "Patterns over the output", r"loss (?<loss>\S+)");
    let plan = window.state().state.plan.plan().clone();
    assert_eq!(plan.first.spec.command.as_ref().unwrap().readings.patterns, [r"loss (?<loss>\S+)"]);
    assert!(plan.to_toml().contains("patterns = "), "{}", plan.to_toml());
}

#[test]
fn time_and_memory_of_a_program_are_not_guessed() {
    let window = own();
    assert!(says(&window, "2 runs · 1 cell × 2"));
    assert!(!says(&window, "about 0 s") && !says(&window, "peak 0 B"));
}
