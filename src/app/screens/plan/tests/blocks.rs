//! Plans of several blocks.

use super::*;

/// The levels of `precision` of each block.
fn precisions(window: &Window) -> Vec<String> {
    let plan = window.state().state.own::<PlanScreen>().document.plan();
    let levels_of = |block: &crate::plan::Block| {
        block.levels("precision").iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    plan.blocks().map(levels_of).collect()
}

#[test]
fn each_block_is_chosen_and_edited_and_the_others_stay() {
    let mut window = window_of(Some(gpu_node(4)));
    change(&mut window, None, |plan| *plan = Plan::new("blocks", image::spec()));
    click(&mut window, "Add a block");
    click(&mut window, "Precision fp64");
    assert_eq!(precisions(&window), ["fp32", "fp32 fp64"]);
    let name = image::spec().name.clone();
    click(&mut window, &format!("Block 1: {name}"));
    click(&mut window, "Precision bf16");
    assert_eq!(precisions(&window), ["fp32 bf16", "fp32 fp64"]);
    click(&mut window, &format!("Block 2: {name}"));
    click(&mut window, "Copy this block");
    assert_eq!(precisions(&window), ["fp32 bf16", "fp32 fp64", "fp32 fp64"]);
    click(&mut window, "Precision fp32");
    assert_eq!(precisions(&window), ["fp32 bf16", "fp32 fp64", "fp64"]);
    click(&mut window, "Remove this block");
    assert_eq!(precisions(&window), ["fp32 bf16", "fp32 fp64"]);
    execute(&mut window, PlanCommand::Undo);
    assert_eq!(precisions(&window).len(), 3);
    execute(&mut window, PlanCommand::Launch);
    let plan = Plan::clone(window.state().state.own::<PlanScreen>().document.plan());
    let [Request::Launch { plan: launched, .. }] = &window.state().requests[..] else {
        panic!("{:?}", window.state().requests)
    };
    assert_eq!(**launched, plan, "blocks are launched in their order");
}

#[test]
fn a_block_may_have_a_program_of_its_own_and_its_wrong_text_launches_nothing_while_another_one_is_shown() {
    let mut window = window_of(Some(gpu_node(4)));
    change(&mut window, None, |plan| *plan = Plan::new("blocks", image::spec()));
    click(&mut window, "Add a block");
    click(&mut window, "Workload Own program");
    type_into(&mut window, "Name of a new factor", "batch");
    type_into(&mut window, "Levels of a new factor", "32, 64");
    click(&mut window, "Add factor");
    let plan = window.state().state.own::<PlanScreen>().document.plan().clone();
    assert!(plan.first.spec.command.is_none() && plan.further[0].levels("batch").len() == 2);
    type_into(&mut window, "Command", " --lr={lr}");
    execute(&mut window, PlanCommand::Block(0));
    assert!(window.query_by_label("Command").is_none());
    execute(&mut window, PlanCommand::Launch);
    assert!(window.state().requests.is_empty());
    assert!(messages(&window).contains("unknown placeholder {lr}"), "{}", messages(&window));
    execute(&mut window, PlanCommand::Block(1));
    assert!(says(&window, "unknown placeholder {lr}"));
}

#[test]
fn an_incomplete_line_for_a_new_factor_stays_in_its_block_which_is_named_where_it_holds_back_the_plan() {
    let mut window = window_of(Some(gpu_node(4)));
    change(&mut window, None, |plan| *plan = Plan::new("blocks", image::spec()));
    click(&mut window, "Workload Own program");
    type_into(&mut window, "Levels of a new factor", "32");
    click(&mut window, "Copy this block");
    let levels = |window: &Window| window.get_by_label("Levels of a new factor").value().unwrap_or_default();
    type_into(&mut window, "Command", " --n={n}");
    assert_eq!(levels(&window), "", "the line of block 1 is not that of block 2");
    type_into(&mut window, "Levels of a new factor", "1, 2");
    click(&mut window, "Add factor");
    assert_eq!(ticked(&window, "n"), ["1", "2"]);
    execute(&mut window, PlanCommand::Launch);
    assert!(window.state().requests.is_empty());
    assert!(messages(&window).contains("The new factor of block 1 has no name"), "{}", messages(&window));
    execute(&mut window, PlanCommand::Block(0));
    assert_eq!(levels(&window), "32");
}

#[test]
fn an_incomplete_line_is_in_its_block_again_where_adding_and_removing_blocks_is_undone() {
    let mut window = window_of(Some(gpu_node(4)));
    change(&mut window, None, |plan| *plan = Plan::new("blocks", image::spec()));
    click(&mut window, "Workload Own program");
    click(&mut window, "Copy this block");
    type_into(&mut window, "Levels of a new factor", "32");
    let levels = |window: &mut Window, block: usize| {
        execute(window, PlanCommand::Block(block));
        window.get_by_label("Levels of a new factor").value().unwrap_or_default()
    };
    execute(&mut window, PlanCommand::Block(0));
    execute(&mut window, PlanCommand::AddBlock);
    assert_eq!([levels(&mut window, 1), levels(&mut window, 2)], ["", "32"]);
    execute(&mut window, PlanCommand::Undo);
    assert_eq!([levels(&mut window, 0), levels(&mut window, 1)], ["", "32"]);
    execute(&mut window, PlanCommand::RemoveBlock);
    assert_eq!(levels(&mut window, 0), "");
    execute(&mut window, PlanCommand::Undo);
    assert_eq!([levels(&mut window, 0), levels(&mut window, 1)], ["", "32"]);
}

#[test]
fn a_program_of_two_blocks_is_edited_in_one_which_then_has_its_own_and_undo_joins_them_again() {
    let mut window = window_of(Some(gpu_node(4)));
    change(&mut window, None, |plan| *plan = Plan::new("blocks", image::spec()));
    click(&mut window, "Workload Own program");
    click(&mut window, "Copy this block");
    let keys = |window: &Window| {
        let plan = window.state().state.own::<PlanScreen>().document.plan();
        plan.blocks().map(|block| block.spec.key.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(keys(&window), ["command", "command"]);
    assert!(says(&window, "A change gives this block a program of its own"));
    type_into(&mut window, "Command", " --fast");
    assert_eq!(keys(&window), ["command", "command-2"], "{}", messages(&window));
    assert!(says(&window, "This block's program is called command-2. Other blocks run command."));
    let runs = |window: &Window| {
        let plan = window.state().state.own::<PlanScreen>().document.plan();
        let run = |block: &crate::plan::Block| block.spec.command.as_ref().unwrap().run.join(" ");
        plan.blocks().map(run).collect::<Vec<_>>()
    };
    assert!(!runs(&window)[0].contains("--fast") && runs(&window)[1].contains("--fast"), "{:?}", runs(&window));
    execute(&mut window, PlanCommand::Undo);
    assert_eq!(keys(&window), ["command", "command"]);
    assert_eq!(runs(&window)[0], runs(&window)[1]);
}
