//! What launches queue for programs, how long runs are expected to take, and trials.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::plan::expand;

/// A plan of a program, with more tables before its command.
fn program(repeats: u32, tables: &str) -> Plan {
    let command = "[command]\nname = \"nothing\"\nrun = [\"true\"]\n";
    Plan::parse(&format!("version = 1\nrepeats = {repeats}\n{tables}{command}"), "nothing.toml").unwrap()
}

#[test]
fn each_run_of_a_program_is_queued_with_its_command_and_repeat_and_a_run_of_the_worker_without() {
    let scene = Scene::new(WELL);
    let mut session = scene.open();
    session.pause_queue();
    session.add_plan(&program(2, ""), false).unwrap();
    session.add_plan(&plan(1, ""), false).unwrap();
    let queued = session.jobs.values().map(|queued| {
        let program = queued.job.program.as_ref()?;
        Some((program.command.run.join(" "), program.repeat))
    });
    let expected = [Some(("true".to_owned(), 1)), Some(("true".to_owned(), 2)), None];
    assert_eq!(queued.collect::<Vec<_>>(), expected);
}

#[test]
fn repeats_of_one_launch_have_the_same_numbers_in_all_cells_whatever_each_cell_ran_before() {
    let scene = Scene::new(WELL);
    let mut session = scene.open();
    session.pause_queue();
    let sizes = |sizes: &str| {
        let text = format!("version = 1\nrepeats = 2\n[factors]\nbatch_size = [{sizes}]\n");
        Plan::parse(&text, "small.toml").unwrap()
    };
    session.add_plan(&sizes("32"), false).unwrap();
    session.add_plan(&sizes("32, 64"), false).unwrap();
    let mut repeats: Vec<u32> = session.jobs.values().map(|queued| queued.origin.repeat).collect();
    repeats.sort_unstable();
    assert_eq!(repeats, [1, 2, 3, 3, 4, 4]);
}

#[test]
fn a_program_is_expected_to_take_as_long_as_its_last_run_and_a_cell_of_the_worker_as_long_as_estimated() {
    let scene = Scene::new("started 0; finished 0");
    let mut session = scene.open();
    let (of_program, of_worker) = (program(1, ""), plan(1, ""));
    let expected_s = |session: &Session, plan: &Plan| session.prepared(plan).unwrap().jobs[0].estimate_s;
    assert_eq!(expected_s(&session, &of_program), 0.0, "nothing is known before its first run");
    session.add_plan(&of_program, false).unwrap();
    session.add_plan(&of_worker, false).unwrap();
    to_end(&mut session);
    let took_s = kept(&session)[0].launched_s().unwrap();
    assert!(took_s > 0.0);
    assert_eq!(expected_s(&session, &of_program), took_s);
    let estimated_s = expand(&of_worker, &scene.machine.node).cells[0].estimate.duration_s;
    assert!(estimated_s > 0.0);
    assert_eq!(expected_s(&session, &of_worker), estimated_s);
}

#[test]
fn node_hours_are_those_of_the_estimates_or_at_most_those_of_the_time_limits() {
    let hours = |plan: &Plan| node_hours(plan, &expand(plan, &fixture::cpu_node()));
    let site = "[where]\nsite = \"lab\"\n";
    // 3 runs of half an hour.
    let limited = program(3, &format!("{site}[limits]\nrun_time_s = 1800\n"));
    assert_eq!(hours(&limited), Some((1.5, true)));
    assert_eq!(hours(&program(3, site)), None, "no run has an estimate or a limit");
    let here = plan(2, "run_time_s = 1800");
    assert_eq!(hours(&here), None, "they run on this machine");
    let of_worker = Plan { site: Some("lab".to_owned()), ..here };
    let estimated_s = expand(&of_worker, &fixture::cpu_node()).cells[0].estimate.duration_s;
    assert!(estimated_s > 0.0);
    assert_eq!(hours(&of_worker), Some((estimated_s * 2.0 / 3600.0, false)));
}

#[test]
fn a_trial_goes_on_until_its_run_ends_by_itself_and_starts_nothing_once_it_is_stopped() {
    let scene = Scene::new(WELL);
    let tried = |is_stopped: bool| {
        let trial = try_once(&plan(2, ""), 600.0, scene.machine.clone(), &AtomicBool::new(is_stopped)).unwrap();
        (trial.end, trial.steps)
    };
    assert_eq!(tried(false), (Some("It ended by itself.".to_owned()), 3));
    assert_eq!(tried(true), (None, 0));
}
