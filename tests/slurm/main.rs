//! Runs through a real Slurm, end to end. What holds wherever runs are executed is tested on this machine and at a site; the rest is what
//! Slurm does to jobs: it lets them wait, preempts them, cancels them and loses nodes.
#![allow(clippy::unwrap_used)]

mod allocation;
mod arrays;
mod cluster;
#[path = "../executable/mod.rs"]
mod executable;
mod nightly;
mod nodes;
mod refusals;
mod scene;
#[path = "../seeded/mod.rs"]
mod seeded;
mod sites;
#[cfg(feature = "torch")]
mod workers;

use std::fs;
use std::path::Path;
use std::process::Stdio;

use multicard::plan::RunState;
use multicard::session::open_reader;

use scene::{Attached, Scene, WAITS, at_each_place};
use seeded::{PATIENCE, copy, succeed, text, wait};

#[test]
fn a_program_runs_to_its_end_and_its_readings_and_its_environment_are_kept() {
    at_each_place(|scene| {
        scene.plan(2, "echo score: 4.5", "");
        let stderr = text(&scene.run().stderr);
        assert_eq!(scene.states(), [RunState::Finished; 2], "{stderr}");
        let record = &scene.records()[0];
        let reader = open_reader(&scene.session()).unwrap();
        let whole = reader.run(&record.run).unwrap().unwrap();
        let scores: Vec<f64> = (whole.ranks[0].readings.iter())
            .filter(|reading| reading.key == "score")
            .map(|reading| reading.value)
            .collect();
        assert_eq!(scores, [4.5]);
        let environment = whole.environment.unwrap();
        assert!(environment.get("hostname").is_some() && environment.get("cpu_model").is_some(), "{environment:?}");
        assert!(record.started_time_s >= Some(record.queued_time_s) && record.ended_time_s >= record.started_time_s);
    });
}

#[test]
fn a_program_that_fails_says_why() {
    at_each_place(|scene| {
        scene.plan(1, "echo no such file >&2; exit 7", "");
        scene.run();
        assert_eq!(scene.states(), [RunState::Failed]);
        let reason = scene.reason(0);
        assert!(reason.contains("exited with code 7") && reason.contains("no such file"), "{reason}");
    });
}

#[test]
fn a_run_that_is_cancelled_ends_with_its_processes() {
    at_each_place(|scene| {
        scene.plan(2, "echo $$ > pid; sleep 600", "");
        scene.start();
        wait("the program has written its process id", || scene.path("pid").exists());
        succeed(&mut scene.multicard(&["stop", "session"]));
        assert_eq!(scene.states(), [RunState::Cancelled; 2]);
        let pid = fs::read_to_string(scene.path("pid")).unwrap();
        wait("the program is gone", || !Path::new(&format!("/proc/{}", pid.trim())).exists());
        let ended = |state: &String| !["PENDING", "RUNNING", "COMPLETING"].contains(&state.as_str());
        wait("no job is left", || scene.job_states().iter().all(ended));
    });
}

#[test]
fn a_run_over_its_plans_time_is_timed_out() {
    at_each_place(|scene| {
        scene.plan(1, "sleep 600", "run_time_s = 1");
        scene.run();
        assert_eq!(scene.states(), [RunState::TimedOut]);
        assert!(scene.reason(0).contains("run_time_s = 1"), "{}", scene.reason(0));
    });
}

#[test]
fn the_runs_of_a_killed_conductor_go_on_and_the_next_one_finds_them() {
    at_each_place(|scene| {
        scene.plan(1, &format!("{WAITS}; echo score: 1"), "");
        scene.start();
        scene.kill_conductor();
        let state = scene.states()[0];
        assert!(!state.is_final(), "a run that goes on is not read as interrupted: {state:?}");
        let attached = scene.follow();
        wait("another one conducts", || scene.conductors().len() == 1);
        scene.open_gate();
        let stderr = attached.output();
        assert_eq!(scene.states(), [RunState::Finished], "{stderr}");
    });
}

#[test]
fn a_run_that_ended_while_nobody_conducted_is_what_its_logs_say() {
    at_each_place(|scene| {
        scene.plan(1, WAITS, "");
        scene.start();
        scene.kill_conductor();
        scene.open_gate();
        let log = scene.runs()[0].join("rank-0.jsonl");
        wait("the program ends", || fs::read_to_string(&log).unwrap().contains("\"finished\""));
        scene.attach();
        assert_eq!(scene.states(), [RunState::Finished]);
    });
}

#[test]
fn a_copy_of_a_session_leaves_the_job_of_the_original_alone_and_runs_its_run_again() {
    let Some(scene) = Scene::started("lab", 1, WAITS) else { return };
    let job = scene.job();
    wait("the conductor knows that it runs", || scene.records()[0].started_time_s.is_some());
    scene.kill_conductor();
    let copied = scene.path("copy");
    copy(&scene.session(), &copied);
    let runs = || open_reader(&copied).and_then(|reader| reader.runs()).unwrap_or_default();
    assert_eq!(runs().iter().map(|run| run.state).collect::<Vec<_>>(), [RunState::Interrupted]);
    let mut attached = scene.multicard(&["attach", "copy"]);
    let attached = Attached(attached.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    wait("the copy starts its run again", || runs().get(1).is_some_and(|run| run.started_time_s.is_some()));
    assert_eq!(scene.job_states(), ["RUNNING"]);
    succeed(&mut scene.multicard(&["stop", "copy"]));
    attached.output();
    let states: Vec<RunState> = runs().iter().map(|run| run.state).collect();
    assert_eq!(states, [RunState::Interrupted, RunState::Cancelled]);
    let reason = runs()[0].reason.clone().unwrap_or_default();
    assert!(
        reason.contains(&format!("Slurm job {job} belongs to the session of which this one is a copy")),
        "{reason}"
    );
    assert_eq!(scene.job_states(), ["RUNNING"]);
    scene.open_gate();
    scene.attach();
    assert_eq!(scene.states(), [RunState::Finished]);
}

#[test]
fn a_run_of_an_archive_that_was_at_a_site_does_not_start_again_before_its_program_is_allowed() {
    let Some(scene) = Scene::started("lab", 1, WAITS) else { return };
    wait("the conductor knows that it runs", || scene.records()[0].started_time_s.is_some());
    scene.kill_conductor();
    succeed(&mut scene.multicard(&["session", "export", "session", "--out", "a.zip"]));
    succeed(&mut scene.multicard(&["session", "import", "a.zip", "--session", "imported"]));
    let mut attached = scene.multicard(&["attach", "imported"]);
    let mut attached = Attached(attached.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    wait("nothing is left to run", || attached.0.try_wait().unwrap().is_some());
    let runs = open_reader(&scene.path("imported")).and_then(|reader| reader.runs()).unwrap();
    assert_eq!(runs.iter().map(|run| run.state).collect::<Vec<_>>(), [RunState::Interrupted]);
    assert_eq!(scene.job_states(), ["RUNNING"]);
}

#[test]
fn the_prologue_is_executed_and_the_program_gets_the_cpus_of_its_job() {
    let Some(scene) = Scene::at("low") else { return };
    let sites = fs::read_to_string(scene.path("config/multicard/sites.toml")).unwrap();
    let sites = sites.replacen("partition = \"low\"", "partition = \"low\"\nprologue = [\"export EXTRA=.25\"]", 1);
    fs::write(scene.path("config/multicard/sites.toml"), sites).unwrap();
    scene.plan(1, "echo score: $SRUN_CPUS_PER_TASK$EXTRA", "");
    scene.run();
    let reader = open_reader(&scene.session()).unwrap();
    let whole = reader.run(&scene.records()[0].run).unwrap().unwrap();
    let score = whole.ranks[0].readings.iter().find(|reading| reading.key == "score").unwrap();
    assert_eq!(score.value.to_string(), "4.25");
}

#[test]
fn a_held_job_says_how_it_is_released_and_then_runs() {
    let Some(scene) = Scene::launched("held", 1, "true") else { return };
    wait("the job is held", || scene.job_states() == ["PENDING"]);
    let job = scene.job();
    let mut attached = scene.follow();
    let lines = attached.lines();
    while !lines.recv_timeout(PATIENCE).expect("the reason is told").contains(&format!("`scontrol release {job}`")) {}
    scene.cluster.ask("scontrol", &["release", &job]);
    assert!(attached.0.wait().unwrap().success());
    assert_eq!(scene.states(), [RunState::Finished]);
}

#[test]
fn a_job_that_depends_on_another_one_says_so_and_runs_after_it() {
    let Some(scene) = Scene::at("after") else { return };
    let held = ["--parsable", "--hold", "--partition=debug", "--output=/dev/null", "--wrap=true"];
    let first = scene.cluster.ask("sbatch", &held);
    let first = first.trim();
    let site = format!("[after]\npartition = \"debug\"\noptions = [\"--dependency=afterany:{first}\"]\n");
    fs::write(scene.path("config/multicard/sites.toml"), site).unwrap();
    scene.plan(1, "true", "");
    scene.detach();
    let mut attached = scene.follow();
    let lines = attached.lines();
    let words = "the job that it depends on has not ended (Dependency)";
    while !lines.recv_timeout(PATIENCE).expect("the reason is told").contains(words) {}
    scene.cluster.ask("scancel", &[first]);
    assert!(attached.0.wait().unwrap().success());
    assert_eq!(scene.states(), [RunState::Finished]);
}

#[test]
fn a_job_that_waits_is_cancelled_without_having_started() {
    let Some(scene) = Scene::launched("held", 1, "true") else { return };
    wait("the job is held", || scene.job_states() == ["PENDING"]);
    succeed(&mut scene.multicard(&["stop", "session"]));
    assert_eq!((scene.states(), scene.job_states()), (vec![RunState::Cancelled], vec!["CANCELLED".to_owned()]));
    assert_eq!(scene.records()[0].started_time_s, None);
}

#[test]
fn a_job_that_somebody_else_cancels_is_a_cancelled_run_that_says_so() {
    let Some(scene) = Scene::started("lab", 1, "sleep 600") else { return };
    scene.cluster.ask("scancel", &[&scene.job()]);
    scene.until_ended(1);
    assert_eq!(scene.states(), [RunState::Cancelled]);
    assert!(scene.reason(0).contains("not by multicard"), "{}", scene.reason(0));
}

#[test]
fn a_preempted_run_is_started_again_as_a_run_of_its_own_and_only_that_counts() {
    let Some(scene) = Scene::started("low", 1, &format!("trap \"echo told > told; exit 143\" TERM; {WAITS}")) else {
        return;
    };
    scene.cluster.ask("sbatch", &["--partition=high", "--cpus-per-task=4", "--output=/dev/null", "--wrap", "sleep 1"]);
    wait("the run is queued again", || scene.states().len() == 2);
    assert_eq!(scene.states()[0], RunState::Interrupted);
    assert!(scene.reason(0).contains("preemption"), "{}", scene.reason(0));
    wait("the program was asked to end before it was killed", || scene.path("told").exists());
    scene.open_gate();
    scene.until_ended(2);
    assert_eq!(scene.states(), [RunState::Interrupted, RunState::Finished]);
    let records = scene.records();
    assert_eq!((&records[0].cell, records[0].repeat), (&records[1].cell, records[1].repeat));
}

#[test]
fn a_job_that_an_administrator_requeues_is_an_interrupted_run_and_only_the_next_start_counts() {
    let Some(scene) = Scene::started("lab", 1, &format!("echo started >> starts; {WAITS}")) else { return };
    let job = scene.job();
    wait("the program is under way", || scene.path("starts").exists());
    wait("the conductor knows that it runs", || scene.records()[0].started_time_s.is_some());
    scene.cluster.ask("scontrol", &["update", &format!("JobId={job}"), "Requeue=1"]);
    scene.cluster.ask("scontrol", &["requeue", &job]);
    wait("the run is queued again", || scene.states().len() == 2);
    assert_eq!(scene.states()[0], RunState::Interrupted);
    assert!(scene.reason(0).contains("requeue"), "{}", scene.reason(0));
    scene.open_gate();
    scene.until_ended(2);
    assert_eq!(scene.states(), [RunState::Interrupted, RunState::Finished]);
    assert_eq!(fs::read_to_string(scene.path("starts")).unwrap().lines().count(), 2, "the first job started once");
    wait("the first job is gone", || scene.job_states().iter().any(|state| state == "CANCELLED"));
}

#[test]
fn a_run_whose_node_fails_is_interrupted_and_is_not_started_more_often_than_the_site_allows() {
    let Some(scene) = Scene::started("last", 1, "sleep 600") else { return };
    scene.cluster.ask("scontrol", &["update", "nodename=n3", "state=down", "reason=test"]);
    scene.until_ended(1);
    scene.cluster.ask("scontrol", &["update", "nodename=n3", "state=idle"]);
    assert_eq!(scene.states(), [RunState::Interrupted]);
    assert!(scene.reason(0).contains("node n3 of Slurm job"), "{}", scene.reason(0));
    wait("its conductor has nothing left to do", || scene.conductors().is_empty());
    assert_eq!(scene.states().len(), 1);
}

#[test]
fn a_job_whose_id_was_not_written_down_is_found_by_its_comment() {
    let Some(scene) = Scene::started("lab", 1, WAITS) else { return };
    let job = scene.job();
    scene.kill_conductor();
    let record = scene.runs()[0].join("slurm.json");
    let text = fs::read_to_string(&record).unwrap().replace(&format!(",\"job\":{job}"), ",\"job\":null");
    fs::write(&record, text).unwrap();
    assert!(scene.own_jobs().is_empty(), "the record names no job");
    let attached = scene.follow();
    wait("the job is found", || scene.own_jobs() == [job.as_str()]);
    scene.open_gate();
    attached.output();
    assert_eq!(scene.states(), [RunState::Finished]);
}
