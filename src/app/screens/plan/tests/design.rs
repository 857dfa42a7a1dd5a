//! The design of a plan: chosen, sized, completed, refused.

use super::*;
use crate::plan::{Added, DesignKind, Interactions, Size};

/// Four factors of two levels each.
fn four_switches(window: &mut Window) {
    let text = "version = 1\nname = \"switches\"\nrepeats = 2\n[factors]\nprecision = [\"fp32\", \"bf16\"]\nlayout = [\"nchw\", \"nhwc\"]\n\
                pin_memory = [\"off\", \"on\"]\nbatch_size = [32, 64]\n";
    execute(window, PlanCommand::Begin(Box::new(Plan::parse(text, "p.toml").unwrap())));
}

fn choose(window: &mut Window, kind: &str) {
    window.get_by_role_and_label(Role::ComboBox, "Design").click();
    settle(window);
    click(window, kind);
}

fn cells(window: &Window) -> usize {
    outlook(&window.state().state).unwrap().matrix.cells.len()
}

fn design(window: &Window) -> crate::plan::Design {
    window.state().state.own::<PlanScreen>().plan().first.design.clone().unwrap()
}

#[test]
fn a_fraction_runs_half_of_the_cells_and_says_what_is_mixed() {
    let mut window = window_of(Some(gpu_node(1)));
    four_switches(&mut window);
    assert_eq!(cells(&window), 16);
    choose(&mut window, "two-level fraction");
    assert_eq!(cells(&window), 8);
    assert!(says(&window, "8 of 16 cells, resolution IV") && says(&window, "3 effects are mixed with others"));
    click(&mut window, "What it does not tell apart");
    assert!(says(&window, "precision × layout: also pin_memory × batch_size"));
    execute(&mut window, PlanCommand::Undo);
    assert_eq!(cells(&window), 16);
    choose(&mut window, "one factor at a time");
    assert_eq!(cells(&window), 5);
    choose(&mut window, "all combinations");
    assert_eq!(cells(&window), 16);
}

#[test]
fn a_design_that_cannot_be_made_launches_nothing_and_says_what_to_do() {
    let mut window = window_of(Some(gpu_node(1)));
    four_switches(&mut window);
    choose(&mut window, "two-level fraction");
    change(&mut window, None, |plan| add(plan, "batch_size", [Level::Integer(128)]));
    assert!(says(&window, "needs two levels of each factor, and batch_size has 3"));
    execute(&mut window, PlanCommand::Launch);
    assert!(window.state().requests.is_empty());
    choose(&mut window, "D-optimal");
    assert_eq!(cells(&window), 8);
    click(&mut window, "Size of the design: runs");
    assert_eq!(design(&window).size, Size::Runs(8));
}

#[test]
fn interactions_are_ticked_and_runs_are_added_to_a_design() {
    let mut window = window_of(Some(gpu_node(1)));
    four_switches(&mut window);
    choose(&mut window, "two-level fraction");
    click(&mut window, "Interactions it must estimate: 0");
    click(&mut window, "Precision × Layout");
    assert_eq!(design(&window).interactions, Interactions::These(vec![("precision".into(), "layout".into())]));
    click(&mut window, "Add runs …");
    click(&mut window, "Fold over Precision");
    assert_eq!(design(&window).added, [Added::FoldOver(Some("precision".into()))]);
    assert_eq!(cells(&window), 16);
    click(&mut window, "Remove addition 1");
    assert_eq!((design(&window).added, cells(&window)), (Vec::new(), 8));
    // The kind changes, and what is asked for stays.
    choose(&mut window, "D-optimal");
    assert_eq!((design(&window).kind, cells(&window)), (DesignKind::DOptimal, 8));
    assert_ne!(design(&window).interactions, Interactions::These(Vec::new()));
}
