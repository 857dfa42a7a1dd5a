//! The methods paragraph says what the records say, and what they lack.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use super::*;
use crate::analysis::{Environment, fixture, summarise_run};
use crate::figure::Runs;
use crate::plan::fixture::cpu_node;

const PLAN: &str =
    "version = 1\nname = \"precision\"\nrepeats = 3\nseed = 7\n[factors]\nprecision = [\"fp32\", \"fp16\"]\n";

fn origin() -> Origin {
    let plans = vec![("p1".to_owned(), "precision".to_owned(), PLAN.to_owned())];
    Origin::new("study".to_owned(), &cpu_node(), plans, Some(1_700_000_000.0))
}

fn runs(environment: Option<Environment>) -> Vec<RunSummary> {
    let environment = environment.map(Arc::new);
    let precisions = ["fp32", "fp16"].into_iter().flat_map(|precision| (1..=3).map(move |repeat| (precision, repeat)));
    let mut runs: Vec<RunSummary> = precisions
        .map(|(precision, repeat)| {
            let time_s = if precision == "fp32" { 0.02 } else { 0.01 } + f64::from(repeat) * 1e-5;
            let mut record = fixture::run(&fixture::cell(precision, 1, "single"), repeat, time_s);
            record.environment.clone_from(&environment);
            // One repeat after the other, in the night of 2023-11-14.
            let place = f64::from(2 * repeat) + if precision == "fp32" { 0.0 } else { 1.0 };
            record.started_time_s = Some(1_700_000_000.0 + 60.0 * place);
            record.ended_time_s = record.started_time_s.map(|started_s| started_s + 50.0);
            summarise_run(&record)
        })
        .collect();
    runs[5].state = RunState::Failed;
    runs
}

fn paragraph_of(runs: &[RunSummary]) -> String {
    methods(&[Source { session: "", runs, reports: &[] }], &Study::default(), &[origin()])
}

#[test]
fn every_sentence_is_from_the_records() {
    let mut environment = Environment::default();
    for (key, value) in [
        ("cpu_model", "EPYC 9554"),
        ("cpus", "16"),
        ("gpus", "1 × NVIDIA H100"),
        ("gpu_power_limit_w", "700"),
        ("driver", "580.65"),
        ("libtorch", "2.11.0"),
        ("multicard_build", "abc123"),
    ] {
        environment.set(key, Some(value));
    }
    let text = paragraph_of(&runs(Some(environment)));
    for part in [
        "2 cells of Images on ",
        "vary in Precision (fp32, fp16)",
        "Runs used 1 × NVIDIA H100; processor EPYC 9554, 16 usable CPUs, GPU power limit 700 W.",
        "NVIDIA driver 580.65, libtorch 2.11.0 (git commit abc123).",
        "Not recorded: CPU governor, GPU ECC, MIG",
        "Each cell has 2 to 3 finished repeats.",
        "Runs were made in one launch, 2023-11-14 22:15 to 22:20 UTC, interleaved: one repeat of all cells, shuffled (seed 7), then the next.",
        "5 runs completed all epochs; warm-up (at least 10 steps) is left out.",
        "which holds the true median in 50 or 75 % of cases",
        "above 1 is faster.",
        "Excluded: 1 failed.",
    ] {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

#[test]
fn libraries_of_cuda_are_not_told_of_runs_without_a_gpu() {
    let mut environment = Environment::default();
    for (key, value) in [("gpus", "none"), ("cuda_runtime", "13.0"), ("libtorch", "2.11.0")] {
        environment.set(key, Some(value));
    }
    let text = paragraph_of(&runs(Some(environment)));
    assert!(text.contains("Runs used no GPU") && text.contains("libtorch 2.11.0") && !text.contains("CUDA"), "{text}");
}

#[test]
fn one_cpu_is_one() {
    assert_eq!(["1", "2", "1 and 16"].map(cpus), ["1 usable CPU", "2 usable CPUs", "1 and 16 usable CPUs"]);
}

#[test]
fn what_is_not_recorded_is_said_to_be_so() {
    let text = paragraph_of(&runs(None));
    assert!(
        text.contains(
            "The environment of the runs (CUDA libraries, kernel, power limit, ECC, governor) was not recorded."
        ),
        "{text}"
    );
    assert!(text.contains("The sessions were created on: no GPU; a processor with 4 usable CPUs"), "{text}");
    let none = methods(&[Source { session: "", runs: &[], reports: &[] }], &Study::default(), &[origin()]);
    assert!(none.starts_with("No run of these cells has finished"), "{none}");
}

#[test]
fn recorded_runs_are_told_by_who_recorded_them() {
    let mut runs = runs(None);
    for (index, recording) in [(0, Recording::Traced), (1, Recording::BuiltIn), (2, Recording::BuiltIn)] {
        runs[index].recording = recording;
    }
    let study = Study { runs: Runs::All, ..Study::default() };
    let paragraph = methods(&[Source { session: "", runs: &runs, reports: &[] }], &study, &[origin()]);
    assert!(paragraph.contains("1 run was recorded by Nsight Systems, which costs time"), "{paragraph}");
    assert!(paragraph.contains("2 runs were recorded by the built-in tracer, which costs time"), "{paragraph}");
}

/// The runs, as if they were of a program that the plan brings.
fn of_program(mut runs: Vec<RunSummary>, clock: Clock) -> Vec<RunSummary> {
    for run in &mut runs {
        let command = Some(Arc::new(crate::plan::Command::default()));
        run.workload = Arc::new(crate::plan::WorkloadSpec { command, ..(*run.workload).clone() });
        run.clock = Some(clock);
    }
    runs
}

#[test]
fn libraries_of_the_worker_are_not_told_of_a_program_which_loads_none_of_them() {
    let mut environment = Environment::default();
    for (key, value) in [("gpus", "none"), ("libtorch", "2.11.0"), ("kernel", "6.8"), ("program_python", "3.12.3")] {
        environment.set(key, Some(value));
    }
    let text = paragraph_of(&of_program(runs(Some(environment)), Clock::Confirmed));
    assert!(!text.contains("libtorch"), "{text}");
    assert!(text.contains("Linux 6.8") && text.contains("The plan's own program: Python 3.12.3."), "{text}");
    assert!(text.contains("5 runs of the plan's own program ended by themselves"), "{text}");
    assert!(!text.contains("all epochs"), "{text}");
    assert!(text.starts_with("2 cells of the plan's own program (Images) were measured"), "{text}");
}

#[test]
fn what_a_program_said_itself_and_whether_its_clock_is_confirmed_is_told() {
    let mut runs = of_program(runs(None), Clock::Confirmed);
    runs[0].clock = Some(Clock::Unconfirmed(crate::analysis::Doubt::Together { steps: 9, arrivals: 1 }));
    runs[1].clock = None;
    let text = paragraph_of(&runs);
    for part in [
        "Step times of 1 run are the times between the program's lines.",
        "Step times of 4 runs are those that the program reported; the arrival times of its lines confirm those of 3; those of 1 could \
         not be confirmed.",
    ] {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

#[test]
fn quick_runs_that_made_all_of_their_steps_are_not_said_to_have_ended_early() {
    let mut runs = runs(None);
    let training = runs[0].training.unwrap();
    for (place, run) in runs.iter_mut().enumerate() {
        run.mode = Mode::Quick { step_precision: 0.01 };
        run.training = Some(crate::analysis::TrainingTime {
            steps: 20,
            planned_steps: if place == 0 { 400.0 } else { 20.0 },
            ..training
        });
        if place > 0 {
            run.marks.push(Mark::NotPrecise { reached: Some(0.36), requested: 0.01 });
        }
    }
    let text = paragraph_of(&runs);
    let part = "known to ±1 %; 1 ended early, and 4 did all their steps without reaching it, the worst to ±36 %; \
                training times of 1 are extrapolated";
    assert!(text.contains(part), "{text}");
}

#[test]
fn a_single_cell_has_no_ratio_to_explain() {
    let text = paragraph_of(&runs(None)[..3]);
    assert!(!text.to_lowercase().contains("speed-up") && !text.contains("above 1 is faster"), "{text}");
    assert!(paragraph_of(&runs(None)).contains("above 1 is faster"), "two cells have a ratio");
}

#[test]
fn a_design_that_chose_the_cells_is_named() {
    let mut runs = runs(None);
    assert!(!paragraph_of(&runs).contains("design ("));
    let design = Arc::new(crate::plan::Design::new(crate::plan::DesignKind::DOptimal));
    runs.iter_mut().for_each(|run| run.design = Some(Arc::clone(&design)));
    assert!(paragraph_of(&runs).contains("cells were chosen by a design (D-optimal)"), "{}", paragraph_of(&runs));
}
