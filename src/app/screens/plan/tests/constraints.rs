//! Constraints of plans of every workload.

use super::*;

fn excluded(window: &Window) -> Vec<(String, String)> {
    let constraints = &window.state().state.own::<PlanScreen>().plan().constraints;
    constraints.iter().map(|one| (one.exclude.to_string(), one.reason.clone())).collect()
}

#[test]
fn constraints_of_a_built_in_workload_are_added_edited_undone_and_removed() {
    let mut window = window_of(Some(gpu_node(4)));
    assert!(window.state().state.own::<PlanScreen>().plan().first.spec.command.is_none());
    click(&mut window, "Constraints");
    type_into(&mut window, "Cells of a new constraint", "precision = fp32");
    type_into(&mut window, "Reason of a new constraint", "is known");
    click(&mut window, "Add constraint");
    assert_eq!(excluded(&window), [("precision=fp32".to_owned(), "is known".to_owned())]);
    let matrix = &outlook(&window.state().state).unwrap().matrix;
    assert!(matrix.invalid.iter().any(|cell| cell.reason == "is known"), "{:?}", matrix.invalid);
    // The text stays as it was typed.
    assert_eq!(window.get_by_label("Cells of constraint 1").value().as_deref(), Some("precision = fp32"));
    type_into(&mut window, "Reason of constraint 1", " already");
    assert_eq!(excluded(&window)[0].1, "is known already");
    execute(&mut window, PlanCommand::Undo);
    assert_eq!(excluded(&window)[0].1, "is known", "what was typed in one field is one step");
    execute(&mut window, PlanCommand::Undo);
    assert!(excluded(&window).is_empty());
    execute(&mut window, PlanCommand::Redo);
    click(&mut window, "Remove constraint 1");
    assert!(excluded(&window).is_empty());
}

#[test]
fn what_is_wrong_with_a_constraint_is_said_below_it_and_launches_nothing_until_it_is_right() {
    let mut window = window_of(Some(gpu_node(4)));
    click(&mut window, "Constraints");
    type_into(&mut window, "Cells of a new constraint", "precison = fp32");
    type_into(&mut window, "Reason of a new constraint", "is known");
    click(&mut window, "Add constraint");
    assert!(says(&window, "Cells: ") && excluded(&window).is_empty());
    let below = window.get_by_label("Cells of a new constraint").rect();
    execute(&mut window, PlanCommand::Launch);
    assert!(window.state().requests.is_empty());
    assert!(messages(&window).contains("Constraint 1 contains an error"), "{}", messages(&window));
    execute(&mut window, PlanCommand::Constraints(vec![("precision = fp32".to_owned(), "is known".to_owned())]));
    assert!(!says(&window, "Cells: ") && excluded(&window).len() == 1);
    assert_eq!(window.get_by_label("Cells of a new constraint").rect(), below, "no field moves");
    execute(&mut window, PlanCommand::Constraints(vec![("precision = fp32".to_owned(), String::new())]));
    assert!(says(&window, "Reason: empty") && excluded(&window)[0].1 == "is known");
}
