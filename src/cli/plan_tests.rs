//! What `multicard plan` prints of plans.

use std::sync::Arc;

use super::*;
use crate::analysis::{Environment, fixture, summarise_run};
use crate::plan::{Level, asked_cells, fixture::cpu_node};

fn small() -> Plan {
    let text =
        "version = 1\nname = \"p\"\nworkload = \"image\"\n[data]\nset = \"digits\"\n[factors]\nimage_size = [32, 64]\n";
    Plan::parse(text, "p").unwrap()
}

#[test]
fn times_of_a_session_take_the_place_of_estimates_and_correct_the_others() {
    let plan = small();
    let mut matrix = expand(&plan, &cpu_node());
    let before: Vec<f64> = matrix.cells.iter().map(|cell| cell.estimate.duration_s).collect();
    let asked = &asked_cells(&plan)[0];
    let mut record = fixture::run_of(asked, &plan, 1, 0.1);
    record.ended_time_s = record.started_time_s.map(|started| started + 4.0 * before[0]);
    assert_eq!(learn(&mut matrix, &[]), None);
    let note = learn(&mut matrix, &[summarise_run(&record)]).unwrap();
    let after: Vec<f64> = matrix.cells.iter().map(|cell| cell.estimate.duration_s).collect();
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.02;
    assert!(near(after[0], 4.0 * before[0]) && near(after[1], 4.0 * before[1]), "{before:?} {after:?}");
    assert!(note.starts_with("1 cell took ") && note.contains("are multiplied by"), "{note}");
}

#[test]
fn the_head_of_a_run_is_the_summary_of_its_plan_with_the_levels_that_differ() {
    let plan = Plan { repeats: 3, ..small() };
    let node = cpu_node();
    let matrix = expand(&plan, &node);
    let head_of = |plan: &Plan, matrix: &Matrix| head(plan, matrix, &HashMap::new());
    let lines = head_of(&plan, &matrix);
    assert!(lines[0].starts_with("p: 6 runs: 2 cells × 3 repeats; about "), "{lines:?}");
    let summary = lines[0].strip_prefix("p: ").unwrap();
    assert!(describe(&plan, &matrix, &node).contains(summary), "{lines:?}");
    assert_eq!(lines[1..], ["image_size: 32, 64"]);
    let sizes: Vec<String> = (1..=11).map(|size| (32 * size).to_string()).collect();
    let text = format!("version = 1\nname = \"p\"\n[factors]\nimage_size = [{}]\n", sizes.join(", "));
    let many = Plan::parse(&text, "p").unwrap();
    assert!(head_of(&many, &expand(&many, &node))[1].ends_with(", 256 and 3 more"));
    let single = Plan::parse("version = 1\nname = \"p\"\n", "p").unwrap();
    assert_eq!(head_of(&single, &expand(&single, &node)).len(), 1, "nothing differs");
}

#[test]
fn the_head_of_a_resumed_plan_estimates_what_remains() {
    let plan = Plan { repeats: 3, ..small() };
    let mut matrix = expand(&plan, &cpu_node());
    matrix.cells.iter_mut().for_each(|cell| cell.estimate.duration_s = 20.0);
    let finished = |repeats: [u32; 2]| -> String {
        let finished = matrix.cells.iter().map(|cell| cell.identity).zip(repeats).collect();
        head(&plan, &matrix, &finished).remove(0)
    };
    assert!(finished([0, 0]).contains("6 runs: 2 cells × 3 repeats; about 2 min 0 s"), "{}", finished([0, 0]));
    let remaining = finished([3, 1]);
    assert!(remaining.contains("2 cells × 3 repeats, 2 still to run; about 40"), "{remaining}");
    assert!(finished([3, 2]).contains(", 1 still to run; about 20"), "{}", finished([3, 2]));
}

#[test]
fn the_times_of_a_programs_cells_are_those_of_their_runs_in_the_session() {
    let text =
        "version = 1\nrepeats = 2\n[command]\nrun = [\"true\", \"{size}\"]\n[factors]\nsize = [1, 2]\ngpus = [0]\n";
    let plan = Plan::parse(text, "p").unwrap();
    let mut matrix = expand(&plan, &cpu_node());
    assert!(matrix.cells.len() == 2 && !matrix.cells.iter().any(has_time), "{:?}", matrix.cells);
    let mut record = fixture::run_of(&asked_cells(&plan)[0], &plan, 1, 0.1);
    record.ended_time_s = record.started_time_s.map(|started| started + 7.0);
    let note = learn(&mut matrix, &[summarise_run(&record)]).unwrap();
    let times: Vec<f64> = matrix.cells.iter().map(|cell| cell.estimate.duration_s).collect();
    assert!((times[0] - 7.0).abs() < 0.1 && times[1] == 0.0, "{times:?}");
    assert_eq!(note, "the times of 1 of 2 cells come from their runs in the session");
}

#[test]
fn planning_says_what_a_design_tells_apart_and_what_not() {
    let text = "version = 1\nrepeats = 2\n[factors]\nprecision = [\"fp32\", \"fp64\"]\nlayout = [\"nchw\", \"nhwc\"]\n\
                image_size = [32, 64]\nbatch_size = [16, 32]\n[design]\nkind = \"fraction\"\nruns = 8\n";
    let plan = Plan::parse(text, "p").unwrap();
    let node = cpu_node();
    let matrix = expand(&plan, &node);
    let page = describe(&plan, &matrix, &node);
    assert!(page.contains("\nDesign: two-level fraction: 8 of 16 cells, resolution IV.\n"), "{page}");
    assert!(page.contains("| precision × layout") && page.contains("image_size × batch_size |"), "{page}");
    let json = serde_json::to_value(json(&plan, &matrix, 16)).unwrap();
    assert_eq!(json["designs"][0]["mixed"].as_array().unwrap().len(), 3, "{json}");
    // Three levels make no two-level fraction: nothing runs, and the reason says what to do.
    let wrong = Plan::parse(&text.replace("[16, 32]", "[16, 32, 64]"), "p").unwrap();
    let page = describe(&wrong, &expand(&wrong, &node), &node);
    assert!(page.contains("batch_size has 3: leave out levels, or choose d-optimal"), "{page}");
}

#[test]
fn a_design_that_cannot_be_made_is_an_error_of_the_plan() {
    let text = "version = 1\n[factors]\nprecision = [\"fp32\", \"fp64\"]\nbatch_size = [16, 32, 64]\n\
                [design]\nkind = \"fraction\"\n";
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let arguments = Arguments {
        plan: PlanArgument { plan: Some(file.path().to_owned()), preset: None },
        toml: false,
        session: None,
        changes: Changes::default(),
        format: PlanFormat::Md,
    };
    let error = run(&arguments).unwrap_err().to_string();
    assert!(error.contains("the design cannot be made") && error.contains("batch_size has 3"), "{error}");
}

#[test]
fn another_data_set_stands_in_every_block_and_an_unknown_one_is_refused() {
    let argument = PlanArgument { plan: None, preset: Some("2503.15252/table-2".to_owned()) };
    let with = |data: &str| argument.read(&Changes { data: Some(data.to_owned()), ..Changes::default() });
    let plan = with("digits").unwrap();
    assert!(plan.blocks().all(|block| block.data.set == "digits"));
    let refused = with("cifar").unwrap_err().to_string();
    assert!(
        refused.starts_with("--data cifar: workload image has no such data set; its data sets are digits"),
        "{refused}"
    );
    assert!(with("folder").unwrap_err().to_string().contains("data.folder"));
}

#[test]
fn planning_says_which_files_are_missing_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = small();
    let data = crate::plan::Data::of_set("mnist").with("folder", Level::text(&folder.path().display().to_string()));
    plan.first.set_data(data);
    let missing_files = missing(&plan.first);
    assert_eq!(missing_files.len(), 1, "{missing_files:?}");
    assert!(
        missing_files[0].contains("multicard data fetch mnist") && missing_files[0].contains("--data digits"),
        "{missing_files:?}"
    );
    plan.first.set_data(crate::plan::Data::of_set("digits"));
    assert!(missing(&plan.first).is_empty(), "they are generated");
}

#[test]
fn the_companion_of_a_table_is_a_preset_of_full_runs() {
    let argument = PlanArgument { plan: None, preset: Some("2503.15252/table-2/accuracy".to_owned()) };
    let plan = argument.read(&Changes::default()).unwrap();
    assert!(plan.mode.is_full() && plan.repeats == 1);
}

#[test]
fn the_time_of_a_cell_is_that_of_its_program_as_it_is_now() {
    let plan = small();
    let mut matrix = expand(&plan, &cpu_node());
    let asked = &asked_cells(&plan)[0];
    let run = |repeat: u32, files: &str, took_s: f64| {
        let mut record = fixture::run_of(asked, &plan, repeat, 0.1);
        let started_s = 1_000.0 * f64::from(repeat);
        (record.started_time_s, record.ended_time_s) = (Some(started_s), Some(started_s + took_s));
        let mut environment = Environment::default();
        environment.set("program_files", Some(files));
        record.environment = Some(Arc::new(environment));
        summarise_run(&record)
    };
    learn(&mut matrix, &[run(1, "old", 10.0), run(2, "old", 10.0), run(3, "new", 30.0)]);
    assert!((matrix.cells[0].estimate.duration_s - 30.0).abs() < 0.1, "{}", matrix.cells[0].estimate.duration_s);
}
