//! The form of a plan's own program.

use eframe::egui::{Event, MouseWheelSource, MouseWheelUnit, TouchPhase};

use super::*;

fn own() -> Window {
    let mut window = window_of(Some(cpu_node()));
    click(&mut window, "Workload Own program");
    window
}

fn run(window: &Window) -> String {
    window.state().state.own::<PlanScreen>().texts().unwrap().run
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
    assert_eq!(ticked(&window, "batch"), ["32", "64", "128"], "only the removal is undone");
}

#[test]
fn where_a_relative_folder_begins_is_said_in_one_line_also_if_the_path_is_long() {
    let mut window = own();
    window.set_size([1280.0, 800.0].into());
    let line = |window: &mut Window, base: &str| {
        change(window, None, |plan| plan.set_folder(Some(base)));
        window.get_by_label(&format!("A relative path begins at {base}")).rect()
    };
    let short = line(&mut window, "/plans");
    let long = line(&mut window, &format!("/home{}/plans", "/a-folder-with-a-long-name".repeat(9)));
    assert!(long.height() <= short.height() + 0.5 && long.max.x <= 1280.0, "{long:?}, and {short:?} of a short path");
    assert!(long.width() > short.width());
}

#[test]
fn a_complete_new_line_is_added_when_the_focus_leaves_it_and_an_incomplete_one_stays() {
    let mut window = own();
    type_into(&mut window, "Levels of a new factor", "32, 64");
    window.get_by_label("Command").focus();
    settle(&mut window);
    assert_eq!(window.get_by_label("Levels of a new factor").value().as_deref(), Some("32, 64"), "it has no name");
    type_into(&mut window, "Name of a new factor", "batch");
    assert!(ticked(&window, "batch").is_empty());
    window.get_by_label("Levels of a new factor").focus();
    settle(&mut window);
    assert!(ticked(&window, "batch").is_empty(), "the focus is in the line");
    window.get_by_label("Command").focus();
    settle(&mut window);
    assert_eq!(ticked(&window, "batch"), ["32", "64"]);
    assert_eq!(window.get_by_label("Levels of a new factor").value().as_deref(), Some(""));
}

#[test]
fn what_a_new_line_lacks_is_named_and_nothing_is_saved_until_it_is_complete_or_empty() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    for (field, text, lack) in [
        ("Name of a new factor", "batch", "The new factor has no levels"),
        ("Levels of a new factor", "32, 64", "The new factor has no name"),
        ("Unit of a new measure", "GB/s", "The new measure has no key"),
    ] {
        let mut window = own();
        click(&mut window, "Measures");
        type_into(&mut window, field, text);
        assert!(says(&window, lack), "{lack}");
        execute(&mut window, PlanCommand::SaveFile { path: path.clone(), replace: false });
        assert!(!path.exists() && messages(&window).contains(lack), "{}", messages(&window));
        window.get_by_label(field).focus();
        window.run();
        window.key_press_modifiers(Modifiers::COMMAND, Key::A);
        press(&mut window, Key::Delete);
        assert!(!says(&window, lack));
        assert_eq!(window.state().state.own::<PlanScreen>().form_error(), None, "the line is empty");
    }
}

#[test]
fn a_line_of_a_program_does_not_hold_back_a_plan_without_one() {
    let mut window = own();
    type_into(&mut window, "Name of a new factor", "batch");
    change(&mut window, None, |plan| *plan = Plan::new("other", image::spec()));
    assert_eq!(window.state().state.own::<PlanScreen>().form_error(), None);
}

#[test]
fn after_the_add_button_the_focus_is_in_the_line_for_the_next_factor() {
    let mut window = own();
    type_into(&mut window, "Name of a new factor", "batch");
    type_into(&mut window, "Levels of a new factor", "32, 64");
    tab_to(&mut window, "Add factor");
    for _ in 0..2 {
        press(&mut window, Key::Enter);
        assert!(window.get_by_label("Name of a new factor").is_focused());
        assert_eq!(ticked(&window, "batch"), ["32", "64"], "a second Enter removes nothing");
    }
}

#[test]
fn undo_takes_back_one_field_or_one_factor_of_the_program_at_a_time() {
    let mut window = own();
    let begun = run(&window);
    type_into(&mut window, "Command", " --fast");
    for (name, levels) in [("batch", "32, 64"), ("lr", "0.1, 0.2")] {
        type_into(&mut window, "Name of a new factor", name);
        type_into(&mut window, "Levels of a new factor", levels);
        click(&mut window, "Add factor");
    }
    type_into(&mut window, "Levels of batch", ", 128");
    type_into(&mut window, "Levels of lr", ", 0.3");
    execute(&mut window, PlanCommand::Undo);
    assert_eq!((ticked(&window, "batch").len(), ticked(&window, "lr").len()), (3, 2));
    execute(&mut window, PlanCommand::Undo);
    assert_eq!((ticked(&window, "batch").len(), ticked(&window, "lr").len()), (2, 2));
    execute(&mut window, PlanCommand::Undo);
    assert_eq!((ticked(&window, "batch").len(), ticked(&window, "lr").len()), (2, 0));
    execute(&mut window, PlanCommand::Undo);
    assert_eq!((ticked(&window, "batch").len(), run(&window)), (0, format!("{begun} --fast")));
    execute(&mut window, PlanCommand::Undo);
    assert_eq!(run(&window), begun, "the letters of one field are one edit");
}

#[test]
fn undo_takes_back_one_step_of_a_command_whose_factors_are_added_after_it_was_typed() {
    let mut window = own();
    let begun = run(&window);
    for text in [" --batch={batch}", " --mode={mode}"] {
        type_into(&mut window, "Command", text);
    }
    let command = run(&window);
    for levels in ["a, b", "32, 64"] {
        type_into(&mut window, "Levels of a new factor", levels);
        click(&mut window, "Add factor");
    }
    assert_eq!((ticked(&window, "batch").len(), ticked(&window, "mode").len()), (2, 2));
    let factors = |window: &Window| {
        let texts = window.state().state.own::<PlanScreen>().texts().unwrap();
        texts.factors.into_iter().map(|factor| factor.key).filter(|key| key != "gpus").collect::<Vec<_>>()
    };
    execute(&mut window, PlanCommand::Undo);
    // The text that was typed last stands before the other: {mode} is the first placeholder without a factor.
    assert_eq!((factors(&window), run(&window)), (vec!["mode".to_owned()], command.clone()));
    assert!(says(&window, "unknown placeholder {batch}"));
    execute(&mut window, PlanCommand::Undo);
    assert_eq!((factors(&window), run(&window)), (vec![], command.clone()));
    execute(&mut window, PlanCommand::Undo);
    assert_eq!(run(&window), begun, "typing in one field is one step until the focus leaves it");
    execute(&mut window, PlanCommand::Redo);
    assert_eq!(run(&window), command);
    type_into(&mut window, "Command", " --slow");
    // The focus leaves the field and comes back.
    window.get_by_label("Name of a new factor").focus();
    settle(&mut window);
    type_into(&mut window, "Command", " --fast");
    execute(&mut window, PlanCommand::Undo);
    assert!(run(&window).contains("--slow") && !run(&window).contains("--fast"), "{}", run(&window));
}

#[test]
fn what_is_wrong_is_shown_and_launches_nothing_until_it_is_right() {
    let mut window = own();
    type_into(&mut window, "Command", " --lr={lr}");
    assert!(says(&window, "unknown placeholder {lr}"));
    assert!(run(&window).contains("{lr}"), "the text stays");
    execute(&mut window, PlanCommand::Launch);
    assert!(window.state().requests.is_empty());
    assert!(messages(&window).contains("Nothing was launched. Add the factor lr first."), "{}", messages(&window));
    type_into(&mut window, "Levels of a new factor", "0.1, 0.01");
    click(&mut window, "Add factor");
    assert!(!says(&window, "unknown placeholder {lr}"));
    assert_eq!(ticked(&window, "lr").len(), 2);
    execute(&mut window, PlanCommand::Launch);
    assert!(matches!(window.state().requests[..], [Request::Launch { .. }]), "no worker is needed");
}

#[test]
fn a_placeholder_becomes_the_name_of_the_next_factor_and_no_field_moves_while_it_is_typed() {
    let mut window = own();
    let levels = |window: &Window| window.get_by_label("Levels of a new factor").rect();
    let before = levels(&window);
    type_into(&mut window, "Command", " {lr}");
    assert!(says(&window, "unknown placeholder {lr}"));
    assert_eq!(levels(&window), before);
    assert_eq!(window.get_by_label("Name of a new factor").value().as_deref(), Some("lr"));
    type_into(&mut window, "Levels of a new factor", "8, 16, 24");
    click(&mut window, "Add factor");
    assert_eq!(ticked(&window, "lr"), ["8", "16", "24"]);
    assert_eq!(window.get_by_label("Name of a new factor").value().as_deref(), Some(""));
    // A name that somebody types stays.
    type_into(&mut window, "Name of a new factor", "mine");
    type_into(&mut window, "Command", " {other}");
    assert_eq!(window.get_by_label("Name of a new factor").value().as_deref(), Some("mine"));
}

#[test]
fn enter_in_a_field_of_a_factor_keeps_the_focus_in_the_list() {
    let mut window = own();
    let enter = |window: &mut Window| {
        window.key_press(Key::Enter);
        settle(window);
    };
    type_into(&mut window, "Name of a new factor", "batch");
    type_into(&mut window, "Levels of a new factor", "32, 64");
    enter(&mut window);
    assert_eq!(ticked(&window, "batch"), ["32", "64"]);
    assert!(window.get_by_label("Name of a new factor").is_focused());
    type_into(&mut window, "Levels of batch", ", 128");
    enter(&mut window);
    assert!(window.get_by_label("Levels of batch").is_focused());
}

#[test]
fn where_the_next_factor_has_a_name_its_levels_are_typed_at_once() {
    let mut window = own();
    type_into(&mut window, "Command", " {batch} {mode}");
    type_into(&mut window, "Levels of a new factor", "16, 32");
    window.key_press(Key::Enter);
    settle(&mut window);
    assert_eq!(window.get_by_label("Name of a new factor").value().as_deref(), Some("mode"));
    assert!(window.get_by_label("Levels of a new factor").is_focused());
    window.get_by_label("Levels of a new factor").type_text("a, b");
    settle(&mut window);
    window.key_press(Key::Enter);
    settle(&mut window);
    // A plan with a placeholder without a factor is not read.
    assert_eq!(ticked(&window, "batch"), ["16", "32"]);
    assert_eq!(ticked(&window, "mode"), ["a", "b"]);
}

#[test]
fn what_is_wrong_with_a_command_is_said_once() {
    let mut window = own();
    type_into(&mut window, "Command", " --lr={lr}");
    assert_eq!(window.query_all_by_label_contains("unknown placeholder {lr}").count(), 1);
    assert!(says(&window, "Add the factor lr first."));
}

#[test]
fn typing_replaces_a_suggested_name_of_a_factor() {
    let name = |window: &Window| window.get_by_label("Name of a new factor").value();
    let mut by_key = own();
    type_into(&mut by_key, "Command", " {lr}");
    assert_eq!(name(&by_key).as_deref(), Some("lr"));
    type_into(&mut by_key, "Name of a new factor", "rate");
    assert_eq!(name(&by_key).as_deref(), Some("rate"));
    let mut by_pointer = own();
    type_into(&mut by_pointer, "Command", " {lr}");
    click(&mut by_pointer, "Name of a new factor");
    by_pointer.get_by_label("Name of a new factor").type_text("rate");
    settle(&mut by_pointer);
    assert_eq!(name(&by_pointer).as_deref(), Some("rate"));
}

#[test]
fn another_plan_is_not_opened_over_text_that_is_in_no_plan_without_a_question() {
    let mut window = own();
    type_into(&mut window, "Command", " --lr={lr}");
    execute(&mut window, PlanCommand::Start("quickstart"));
    assert!(run(&window).contains("{lr}"), "the text stays until the answer");
    click(&mut window, "Stay");
    assert!(run(&window).contains("{lr}") && !says(&window, "and lose the changes"));
    execute(&mut window, PlanCommand::Start("quickstart"));
    click(&mut window, "Open quickstart and lose the changes");
    assert_eq!(window.state().state.own::<PlanScreen>().plan().name, "quickstart");
}

#[test]
fn levels_that_look_like_numbers_and_variables_with_line_breaks_stay_while_another_field_is_edited() {
    let mut window = window_of(Some(cpu_node()));
    let text = "version = 1\n[command]\nrun = [\"echo\", \"{v}\", \"{c}\"]\nenv = { MOTD = \"a\\nB=b\" }\n\
                [factors]\nv = [\"1.9\", \"1.10\"]\nc = [\"a,b\", \"c\"]\n";
    let plan = Plan::parse(text, "p.toml").unwrap();
    execute(&mut window, PlanCommand::Begin(Box::new(plan.clone())));
    assert_eq!(window.get_by_label("Levels of v").value().as_deref(), Some("\"1.9\", \"1.10\""));
    type_into(&mut window, "Command", " x");
    let edited = window.state().state.own::<PlanScreen>().plan().clone();
    assert_eq!(run(&window), "echo {v} {c} x");
    assert_eq!(edited.first.factors, plan.first.factors);
    let variables = |plan: &Plan| plan.first.spec.command.as_ref().unwrap().env.clone();
    assert_eq!(variables(&edited), variables(&plan));
}

#[test]
fn patterns_become_readings_of_the_plan() {
    let mut window = own();
    click(&mut window, "Readings");
    type_into(&mut window, "Patterns for the output", r"loss (?<loss>\S+)");
    let plan = window.state().state.own::<PlanScreen>().plan().clone();
    assert_eq!(plan.first.spec.command.as_ref().unwrap().readings.patterns, [r"loss (?<loss>\S+)"]);
    assert!(plan.to_toml().contains("patterns = "), "{}", plan.to_toml());
}

#[test]
fn a_block_with_a_program_is_named_like_its_workload() {
    let window = own();
    assert!(window.query_by_label("Block 1: Own program").is_some());
}

#[test]
fn time_and_memory_of_a_program_are_not_guessed() {
    let window = own();
    assert!(says(&window, "3 runs · 1 cell × 3"));
    assert!(!says(&window, "about 0 s") && !says(&window, "peak 0 B"));
}

#[test]
fn everything_that_a_plan_says_of_a_program_can_be_typed() {
    let mut window = own();
    for part in ["Measures", "Readings", "Set-up, variables and limit", "Constraints"] {
        click(&mut window, part);
    }
    type_into(&mut window, "Name of a new factor", "batch");
    type_into(&mut window, "Levels of a new factor", "32, 64");
    click(&mut window, "Add factor");
    click(&mut window, "Names, units and help of factors");
    type_into(&mut window, "Unit of batch", "rows");
    type_into(&mut window, "Key of a new measure", "rate");
    type_into(&mut window, "Unit of a new measure", "rows/s");
    click(&mut window, "Add measure");
    click(&mut window, "Better higher rate");
    type_into(&mut window, "Name of rate", "Rate");
    click(&mut window, "depends on the speed of the machine");
    type_into(&mut window, "What the program's names mean", "train/loss = loss");
    click(&mut window, "warm-up ends when step times have settled");
    type_into(&mut window, "Set-up, before runs", "make all");
    type_into(&mut window, "Variables", "ALGO=ring");
    type_into(&mut window, "Time limit of the program", "90");
    type_into(&mut window, "Unit of the program", "rows");
    type_into(&mut window, "Step of the program", "pass");
    type_into(&mut window, "Folder of the program", "work");
    type_into(&mut window, "Cells of a new constraint", "batch > 32");
    type_into(&mut window, "Reason of a new constraint", "too large");
    click(&mut window, "Add constraint");
    let written = window.state().state.own::<PlanScreen>().plan().to_toml();
    let expected = r#"
[command]
run = ["python3", "train.py", "--seed={seed}", "--batch={batch}"]
folder = "work"
setup = ["make", "all"]
time_limit_s = 90.0
unit = "rows"
step = "pass"

[command.env]
ALGO = "ring"

[command.factor.batch]
unit = "rows"

[command.readings]
names = { "train/loss" = "loss" }
warm_up = "found"

[command.measures.rate]
name = "Rate"
unit = "rows/s"
better = "higher"
on_speed = true
"#;
    assert!(written.contains(expected), "{written}");
    assert!(written.contains("exclude = \"batch>32\"\nreason = \"too large\""), "{written}");
    click(&mut window, "Remove rate");
    click(&mut window, "Remove constraint 1");
    let written = window.state().state.own::<PlanScreen>().plan().to_toml();
    assert!(!written.contains("rate") && !written.contains("exclude"), "{written}");
}

#[test]
fn a_program_of_the_cpu_asks_for_no_gpu() {
    let mut window = own();
    click(&mut window, "uses no GPU");
    assert_eq!(ticked(&window, "gpus"), ["0"]);
    assert!(says(&window, "3 runs · 1 cell × 3"), "it runs here");
    click(&mut window, "uses no GPU");
    assert!(ticked(&window, "gpus").is_empty());
}

#[test]
fn wrong_text_of_the_form_is_not_lost_by_closing_without_a_question() {
    let mut window = own();
    let plan = Arc::clone(window.state().state.own::<PlanScreen>().document.plan());
    let file = FileText { path: "own.toml".into(), text: "".into() };
    window.state_mut().state.own_mut::<PlanScreen>().document.saved(plan, &file);
    let has_edits = |window: &Window| {
        let state = &window.state().state;
        state.unsaved().is_some()
    };
    assert!(!has_edits(&window));
    type_into(&mut window, "Command", " --lr={lr}");
    assert!(has_edits(&window), "it is in no plan yet");
    let context = window.state().context.clone();
    window.state_mut().state.close_requested(&context);
    assert_eq!(window.state().state.closing, crate::app::closing::Closing::EditsAsked);
    let state = &mut window.state_mut().state;
    state.execute(Command::Close(crate::app::CloseCommand::Stay), &context);
    assert!(run(&window).ends_with("{lr}"));
}

#[test]
fn nothing_is_launched_where_nothing_is_missing() {
    let mut window = own();
    let plan = window.state().state.own::<PlanScreen>().plan().clone();
    let held = crate::plan::asked_cells(&plan).into_iter().map(|cell| {
        let identity = cell.identity;
        (identity, HeldCell { cell: "a".to_owned(), repeats: vec![1, 2, 3], ..HeldCell::default() })
    });
    window.state_mut().state.own_mut::<PlanScreen>().held = Arc::new(held.collect());
    execute(&mut window, PlanCommand::OnlyMissing(true));
    execute(&mut window, PlanCommand::Launch);
    assert!(window.state().requests.is_empty());
    assert!(messages(&window).contains("Nothing was launched. Nothing is missing"), "{}", messages(&window));
    execute(&mut window, PlanCommand::OnlyMissing(false));
    execute(&mut window, PlanCommand::Launch);
    assert!(matches!(window.state().requests[..], [Request::Launch { only_missing: false, .. }]));
}

#[test]
fn the_matrix_shows_the_levels_of_a_factor_that_is_called_trace() {
    let mut window = window_of(Some(cpu_node()));
    let text = "version = 1\n[command]\nrun = [\"./x\", \"{trace}\"]\n[factors]\ntrace = [\"thin\", \"thick\"]\n";
    execute(&mut window, PlanCommand::Begin(Box::new(Plan::parse(text, "p.toml").unwrap())));
    for level in ["thin", "thick"] {
        assert!(window.query_all_by_label(level).next().is_some(), "{level}");
    }
}

#[test]
fn a_trial_is_refused_while_a_run_could_be_disturbed_and_not_while_all_wait_in_a_paused_queue() {
    let mut window = own();
    let refused = |window: &mut Window, event: UiEvent| {
        window.state_mut().state.take(event);
        settle(window);
        says(window, "which a trial would disturb")
    };
    assert!(refused(&mut window, queue(RunState::Running, true)), "one is active");
    assert!(refused(&mut window, queue(RunState::Queued, false)), "one may start at any time");
    assert!(!refused(&mut window, queue(RunState::Queued, true)), "nothing runs");
}

/// Tries the first cell, until the trial is over.
fn try_once(window: &mut Window) {
    // It is drawn after the trial, because its spinner would be drawn for ever.
    window.state_mut().commands.push(PlanCommand::TryOnce.into());
    window.state_mut().settle();
    let start = Instant::now();
    while window.state().state.own::<PlanScreen>().program.is_trying() {
        assert!(start.elapsed() < Duration::from_secs(60), "the trial does not end");
        std::thread::sleep(Duration::from_millis(5));
        window.state_mut().settle();
    }
    settle(window);
}

#[test]
fn what_came_of_a_trial_is_shown_until_the_patterns_of_its_readings_change() {
    let mut window = own();
    click(&mut window, "Readings");
    try_once(&mut window);
    assert!(!says(&window, "changed since it was tried"));
    type_into(&mut window, "Patterns for the output", r"loss (?<loss>\S+)");
    assert!(says(&window, "The program has changed since it was tried."));
}

#[test]
fn what_came_of_a_trial_is_shown_until_the_program_changes() {
    let mut window = own();
    try_once(&mut window);
    assert!(!says(&window, "changed since it was tried"));
    type_into(&mut window, "Command", " --again");
    assert!(says(&window, "The program has changed since it was tried."));
}

#[test]
fn what_came_of_a_trial_is_brought_into_view_once_and_the_focus_stays_where_it_was() {
    const HEIGHT: f32 = 400.0;
    let mut window = window_of(Some(cpu_node()));
    let text = "version = 1\nname = \"mine\"\n[command]\nrun = [\"sh\", \"-c\", \"yes words | head -n 40; exit {n}\"]\n\
                [factors]\nn = [0]\ngpus = [0]\n";
    execute(&mut window, PlanCommand::Begin(Box::new(Plan::parse(text, "p.toml").unwrap())));
    window.set_size([890.0, HEIGHT].into());
    settle(&mut window);
    window.get_by_label("Name").focus();
    settle(&mut window);
    let button = |window: &Window| window.get_by_label("Try once").rect();
    assert!(button(&window).top() > HEIGHT, "it lies below what is in sight");
    let focused = window.ctx.memory(|memory| memory.focused());
    assert!(focused.is_some());
    try_once(&mut window);
    // The outcome, whatever it is, stands below the button.
    assert!(button(&window).bottom() < HEIGHT - 12.0, "{:?}", button(&window));
    assert_eq!(window.ctx.memory(|memory| memory.focused()), focused);
    // Whoever scrolls away from it stays there.
    window.event(Event::PointerMoved([14.0, 200.0].into()));
    window.event(Event::MouseWheel {
        unit: MouseWheelUnit::Point,
        delta: [0.0, 2000.0].into(),
        phase: TouchPhase::Move,
        source: MouseWheelSource::Unknown,
        modifiers: Modifiers::NONE,
    });
    window.run_steps(30);
    settle(&mut window);
    assert!(button(&window).top() > HEIGHT, "{:?}", button(&window));
}
