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

/// Why a constraint without a reason is in no plan.
const NO_REASON: &str = "The new constraint has no reason: complete its line, or empty it.";

fn cells_of_new(window: &Window) -> String {
    window.get_by_label("Cells of a new constraint").value().unwrap_or_default()
}

#[test]
fn a_constraint_whose_reason_is_missing_is_named_beside_its_line_and_neither_saved_nor_launched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let save = PlanCommand::SaveFile { path: path.clone(), replace: false };
    let mut window = window_of(Some(gpu_node(4)));
    click(&mut window, "Constraints");
    type_into(&mut window, "Cells of a new constraint", "precision = fp64");
    let below = window.get_by_label("Cells of a new constraint").rect().bottom();
    let is_beside = |top: f32| (0.0..60.0).contains(&(top - below));
    assert!(window.query_all_by_label(NO_REASON).any(|text| is_beside(text.rect().top())));
    execute(&mut window, save.clone());
    assert!(!path.exists());
    assert!(messages(&window).starts_with("Nothing was saved.") && messages(&window).contains(NO_REASON));
    execute(&mut window, PlanCommand::Launch);
    assert!(window.state().requests.is_empty());
    assert!(messages(&window).contains(&format!("Nothing was launched. {NO_REASON}")), "{}", messages(&window));
    assert!(window.state().state.unsaved().unwrap().refusal.is_some(), "a window that closes asks");
    type_into(&mut window, "Reason of a new constraint", "takes too long");
    execute(&mut window, save);
    let saved = Plan::read(&path).unwrap().constraints;
    assert_eq!((saved.len(), saved[0].reason.as_str()), (1, "takes too long"), "a complete line is saved");
    assert_eq!(cells_of_new(&window), "");
}

#[test]
fn a_complete_line_that_esc_left_is_launched_with_the_plan() {
    let mut window = window_of(Some(gpu_node(4)));
    click(&mut window, "Constraints");
    type_into(&mut window, "Cells of a new constraint", "precision = fp64");
    type_into(&mut window, "Reason of a new constraint", "takes too long");
    press(&mut window, Key::Escape);
    assert!(excluded(&window).is_empty());
    assert!(window.state().state.unsaved().is_some_and(|unsaved| unsaved.refusal.is_none()), "it can be saved");
    execute(&mut window, PlanCommand::Launch);
    let Some(Request::Launch { plan, .. }) = window.state().requests.first() else { panic!("nothing was launched") };
    assert_eq!(plan.constraints.len(), 1);
}

#[test]
fn a_line_that_was_begun_belongs_to_its_plan_and_is_asked_about_before_another_one_is_opened() {
    let mut window = window_of(Some(gpu_node(4)));
    click(&mut window, "Constraints");
    type_into(&mut window, "Cells of a new constraint", "precision = fp64");
    let other = PlanCommand::Begin(Box::new(Plan::new("other", image::spec())));
    execute(&mut window, other.clone());
    click(&mut window, "Stay");
    assert_eq!(cells_of_new(&window), "precision = fp64");
    execute(&mut window, other);
    click(&mut window, "Open other and lose the changes");
    assert_eq!(window.state().state.own::<PlanScreen>().plan().name, "other");
    assert_eq!((cells_of_new(&window).as_str(), window.state().state.unsaved()), ("", None));
}

#[test]
fn a_wrong_constraint_is_not_shown_in_the_form_of_another_plan() {
    let mut window = window_of(Some(gpu_node(4)));
    execute(&mut window, PlanCommand::Constraints(vec![("gpus >".to_owned(), "is wrong".to_owned())]));
    execute(&mut window, PlanCommand::Begin(Box::new(Plan::new("other", image::spec()))));
    click(&mut window, "Open other and lose the changes");
    assert_eq!(window.state().state.own::<PlanScreen>().form_error(), None);
}

#[test]
fn the_plan_of_a_session_does_not_replace_one_whose_line_was_begun() {
    let mut window = window_of(Some(cpu_node()));
    click(&mut window, "Constraints");
    type_into(&mut window, "Cells of a new constraint", "precision = fp64");
    open_session(&mut window, records_of(&Plan::new("of the session", image::spec()), 1));
    assert_eq!(cells_of_new(&window), "precision = fp64");
    assert_eq!(window.state().state.own::<PlanScreen>().plan().name, "quickstart");
}
