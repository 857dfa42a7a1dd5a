//! What is missing and is queued from here: runs of a paper, repeats that would decide, cells without a finished run.

use super::*;
use crate::app::PlanScreen;
use crate::app::engine::SessionPlan;
use crate::papers::artefact;

#[test]
fn an_empty_session_says_what_to_do_next() {
    let mut harness = harness(state_of(records("s", Vec::new())), [1280.0, 800.0]);
    let heading = harness.get_by_label("Nothing to compare yet").rect();
    let (left, right) = (harness.get_by_label("Add a session").rect(), harness.get_by_label("Attach a report").rect());
    let middle = (left.left() + right.right()) / 2.0;
    assert!((middle - heading.center().x).abs() < 2.0, "{left:?} {right:?} below {heading:?}");
    harness.get_by_label("Show Plan").click();
    harness.run();
    assert_eq!(harness.state().commands, [Command::Show(ScreenName::PLAN)]);
}

#[test]
fn a_papers_table_stands_beside_its_published_values_and_queues_the_runs_that_are_missing() {
    let table = preset("2503.15252/table-2").unwrap();
    let plan = artefact(&table.name).unwrap().plan().unwrap();
    // The three cells of one GPU, and one more that trained a single epoch.
    let asked = plan::asked_cells(plan);
    let is_there = |cell: &&plan::AskedCell| cell.levels.get("gpus") == Some(&Level::Integer(1));
    let mut runs: Vec<RunRecord> =
        asked.iter().filter(is_there).map(|cell| fixture::run_of(cell, plan, 1, 0.2)).collect();
    let mut short = fixture::run_of(&asked[1], plan, 1, 0.2);
    let other = short.levels.iter().map(|(key, level)| match &**key {
        "epochs" => (key.clone(), Level::Integer(1)),
        _ => (key.clone(), level.clone()),
    });
    short.levels = plan::Levels::new(other.collect::<Vec<_>>());
    runs.push(short);
    let mut state = state_of(records("/s/study", runs));
    send(&mut state, CompareCommand::Study(Box::new(table)));
    assert_eq!(column(&state, "published_training_time_s"), ["3721", "6266", "3339", "2477"]);
    let ratios = column(&state, "training_time_s_over_published");
    // A ratio of one epoch to twenty would say nothing.
    assert_eq!(ratios.iter().filter(|ratio| *ratio == "–").count(), 1, "{ratios:?}");
    let mut window = harness(state, [1280.0, 800.0]);
    window.get_by_label_contains("3 of 12 cells measured");
    window.get_by_label_contains("cells deviate from the paper's");
    window.get_by_label_contains("Training time is not compared with the paper's if the work is different: epochs = 1");
    // A hollow mark stands in each bar's row, and a legend says what it is.
    window.get_by_label_contains("published 3721");
    assert!(painted(&window).contains(&"published".to_owned()));
    window.get_by_label("Queue 9 missing cells").click();
    window.run();
    assert_eq!(window.state().commands, [Command::from(CompareCommand::QueueMissing)]);
    let sent = send(&mut window.state_mut().state, CompareCommand::QueueMissing);
    let [Request::Launch { plan: queued, only_missing: true }] = sent.as_slice() else { panic!("{sent:?}") };
    let queued = plan::asked_cells(queued);
    assert!(queued.len() == 9 && queued.iter().all(|cell| !is_there(&cell)), "{queued:?}");
}

#[test]
fn undecided_cells_come_with_a_button_that_queues_the_repeats_that_would_decide() {
    let text = "version = 1\nname = \"made up\"\nrepeats = 6\n[factors]\nprecision = [\"fp32\", \"bf16\"]\n";
    let launched = plan::Plan::parse(text, "p.toml").unwrap();
    let cells = plan::asked_cells(&launched);
    let mut runs = Vec::new();
    // The time of bf16 varies by 2 % around nearly that of fp32.
    for (repeat, noise) in (1..).zip([0.02, -0.02, 0.021, -0.019, 0.018, -0.022]) {
        runs.push(fixture::run_of(&cells[0], &launched, repeat, 0.1));
        runs.push(fixture::run_of(&cells[1], &launched, repeat, 0.1 * (1.01 + noise)));
    }
    let plans = vec![SessionPlan { name: "made up".to_owned(), toml: text.to_owned(), folder: None }];
    let records = Records { plans, ..Arc::unwrap_or_clone(records("/s/study", runs)) };
    let mut window = harness(state_of(Arc::new(records)), [1280.0, 800.0]);
    let state = &window.state().state;
    let in_palette = ("Queue more repeats of the undecided cells".to_owned(), CompareCommand::QueueRepeats.into());
    assert!(state.own::<CompareScreen>().palette(&state.desk).contains(&in_palette));
    window.get_by_label_contains("1 undecided").click();
    assert_eq!(asked(&mut window), [CompareCommand::QueueRepeats]);
    let sent = send(&mut window.state_mut().state, CompareCommand::QueueRepeats);
    let [Request::Launch { plan: queued, only_missing: true }] = sent.as_slice() else { panic!("{sent:?}") };
    assert_eq!((plan::asked_cells(queued).len(), queued.repeats > 6), (2, true), "{}", queued.repeats);
}

#[test]
fn the_button_for_more_repeats_says_how_many_of_the_runs_repeat_unfinished_ones() {
    let text = "version = 1\nname = \"made up\"\nrepeats = 8\n[factors]\nprecision = [\"fp32\", \"bf16\"]\n";
    let launched = plan::Plan::parse(text, "p.toml").unwrap();
    let cells = plan::asked_cells(&launched);
    let button_with = |failed: &[(usize, u32)]| {
        let mut runs = Vec::new();
        for (repeat, noise) in (1..).zip([0.02, -0.02, 0.021, -0.019, 0.018, -0.022, 0.02, -0.018]) {
            for (cell, step_time_s) in [0.1, 0.1 * (1.012 + noise)].into_iter().enumerate() {
                let run = fixture::run_of(&cells[cell], &launched, repeat, step_time_s);
                let reason = failed.contains(&(cell, repeat)).then(|| "out of memory".to_owned());
                let state = if reason.is_some() { RunState::Failed } else { RunState::Finished };
                runs.push(RunRecord { state, reason, ..run });
            }
        }
        let plans = vec![SessionPlan { name: "made up".to_owned(), toml: text.to_owned(), folder: None }];
        let records = Records { plans, ..Arc::unwrap_or_clone(records("/s/study", runs)) };
        let window = harness(state_of(Arc::new(records)), [1600.0, 800.0]);
        window.get_by_label_contains("1 undecided").accesskit_node().label().unwrap_or_default()
    };
    let none = button_with(&[]);
    assert!(!none.contains("unfinished"), "{none}");
    let one = button_with(&[(1, 3)]);
    assert!(one.contains("; this repeats 1 unfinished run"), "{one}");
    let both = button_with(&[(0, 2), (1, 3)]);
    assert!(both.contains("; this repeats 2 unfinished runs"), "{both}");
}

#[test]
fn a_cell_without_a_finished_run_comes_with_a_button_that_queues_it_again() {
    let text = "version = 1\nname = \"made up\"\nrepeats = 2\n[factors]\nprecision = [\"fp32\", \"bf16\"]\n";
    let launched = plan::Plan::parse(text, "p.toml").unwrap();
    let cells = plan::asked_cells(&launched);
    let mut runs = Vec::new();
    for repeat in 1..=2 {
        runs.push(fixture::run_of(&cells[0], &launched, repeat, 0.1));
        let failed = fixture::run_of(&cells[1], &launched, repeat, 0.1);
        runs.push(RunRecord { state: RunState::Failed, reason: Some("out of memory".to_owned()), ..failed });
    }
    let plans = vec![SessionPlan { name: "made up".to_owned(), toml: text.to_owned(), folder: None }];
    let records = Records { plans, ..Arc::unwrap_or_clone(records("/s/study", runs)) };
    let mut window = harness(state_of(Arc::new(records)), [1280.0, 800.0]);
    window.get_by_label("Queue 1 cell without a value").click();
    assert_eq!(asked(&mut window), [CompareCommand::QueueLacking]);
    let sent = send(&mut window.state_mut().state, CompareCommand::QueueLacking);
    let [Request::Launch { plan: queued, only_missing: true }] = sent.as_slice() else { panic!("{sent:?}") };
    let queued = plan::asked_cells(queued);
    assert_eq!(queued.iter().map(|cell| &cell.levels).collect::<Vec<_>>(), [&cells[1].levels]);
}

#[test]
fn a_plan_of_full_runs_stands_beside_quick_cells_until_they_have_full_runs() {
    let mut runs: Vec<RunRecord> = small().into_iter().filter(|run| run.state == RunState::Finished).collect();
    let quick = plan::Mode::Quick { step_precision: 0.01 };
    runs.iter_mut().filter(|run| run.cell.starts_with("fp16")).for_each(|run| run.mode = quick);
    let state = state_of(records("/s/study", runs.clone()));
    let mut window = harness(state, [1280.0, 800.0]);
    window.get_by_label("Plan full runs of 2 quick cells").click();
    window.run();
    assert_eq!(window.state().commands, [Command::from(CompareCommand::PlanFullRuns)]);
    send(&mut window.state_mut().state, CompareCommand::PlanFullRuns);
    let state = &window.state().state;
    let (full, cells) = (state.own::<PlanScreen>().plan(), plan::asked_cells(state.own::<PlanScreen>().plan()));
    assert_eq!((state.desk.screen, full.mode, full.repeats), (ScreenName::PLAN, plan::Mode::Full, 2));
    let levels: Vec<_> = cells.iter().map(|cell| cell.levels.get("gpus").unwrap().to_string()).collect();
    assert_eq!(levels, ["1", "2"]);
    assert!(cells.iter().all(|cell| cell.levels.get("precision") == Some(&Level::text("fp16"))));
    // One of the two has gone all the way since.
    let mut done = runs.iter().find(|run| run.cell.starts_with("fp16-1")).unwrap().clone();
    (done.mode, done.cell, done.run) = (plan::Mode::Full, "full".to_owned(), "full".to_owned());
    runs.push(done);
    harness(state_of(records("/s/study", runs)), [1280.0, 800.0]).get_by_label("Plan full runs of 1 quick cell");
}

#[test]
fn the_papers_claims_are_judged_by_the_shown_runs() {
    let mut state = state_of(records("/s/study", small()));
    send(&mut state, CompareCommand::Claims(true));
    let window = harness(state, [1280.0, 800.0]);
    window.get_by_label_contains("43 claims of both papers");
    // fp32 on 2 GPUs is no comparison of any claim; fp16 over fp32 is, of losses.
    assert!(window.get_all_by_label_contains("claimed 0.900 to 1.10").count() > 0);
    window.get_by_label_contains("Ranges from the papers are widened here by 8 %");
    assert!(window.get_all_by_label_contains(", 2 repeats)").count() > 0);
    assert!(window.get_all_by_label_contains("untested").count() > 1);
}

#[test]
fn runs_that_test_no_claim_are_said_in_one_sentence() {
    let runs = small().into_iter().filter(|run| run.cell.starts_with("fp32-1")).collect();
    let mut state = state_of(records("/s/study", runs));
    send(&mut state, CompareCommand::Claims(true));
    let window = harness(state, [1280.0, 800.0]);
    window.get_by_label_contains("These runs test no claim of the papers.");
    assert!(window.query_by_label_contains("43 claims of both papers").is_none());
}
