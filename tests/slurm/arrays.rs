//! Runs that ask for the same are tasks of an array: what Slurm or somebody else does to a task happens to its run alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use multicard::plan::RunState;

use crate::nodes::with_factors;
use crate::seeded::succeed;
use crate::{Scene, WAITS, wait};

/// `MaxArraySize` in `slurm.conf`.
const MOST_TASKS: usize = 20;

impl Scene {
    /// Waits until the ids of the jobs of this many runs are written down, and returns them.
    fn sent(&self, runs: usize) -> Vec<String> {
        wait("all runs were sent", || self.own_jobs().len() == runs);
        self.own_jobs()
    }
}

#[test]
fn runs_that_ask_for_the_same_are_sent_as_few_arrays_within_slurms_limit() {
    let Some(scene) = Scene::at("held") else { return };
    let runs = MOST_TASKS + 4;
    scene.plan(u32::try_from(runs).unwrap(), "true", "");
    scene.detach();
    let mut arrays = BTreeMap::<String, usize>::new();
    for job in scene.sent(runs) {
        *arrays.entry(job.split('_').next().unwrap().to_owned()).or_default() += 1;
    }
    assert!(arrays.len() > 1 && arrays.len() < runs / 2, "{arrays:?}");
    assert!(arrays.values().all(|tasks| *tasks <= MOST_TASKS), "{arrays:?}");
    wait("Slurm lists each task", || scene.job_states() == vec!["PENDING"; runs]);
    succeed(&mut scene.multicard(&["stop", "session"]));
    assert_eq!(scene.states(), vec![RunState::Cancelled; runs]);
    wait("no job is left", || !scene.job_states().contains(&"PENDING".to_owned()));
}

#[test]
fn a_task_that_somebody_cancels_before_it_starts_is_a_cancelled_run_and_the_others_run() {
    let Some(scene) = Scene::launched("held", 3, "true") else { return };
    let jobs = scene.sent(3);
    wait("Slurm lists each task", || scene.job_states() == ["PENDING"; 3]);
    scene.cluster.ask("scancel", &[&jobs[1]]);
    wait("its run has ended", || scene.states()[1].is_final());
    assert_eq!(scene.states()[1], RunState::Cancelled);
    let reason = scene.reason(1);
    assert!(reason.contains(&format!("job {}", jobs[1])) && reason.contains("not multicard"), "{reason}");
    for job in [&jobs[0], &jobs[2]] {
        scene.cluster.ask("scontrol", &["release", job]);
    }
    scene.until_ended(3);
    assert_eq!(scene.states(), [RunState::Finished, RunState::Cancelled, RunState::Finished]);
}

#[test]
fn a_task_over_two_nodes_that_is_cancelled_ends_alone_with_its_processes() {
    let Some(scene) = Scene::at("lab") else { return };
    scene.plan(2, &format!("echo $$ > pid-{{repeat}}-$RANK; {WAITS}"), "");
    with_factors(&scene, "nodes = 2");
    scene.detach();
    let pid = |repeat: u32, rank: u32| {
        let text = fs::read_to_string(scene.path(&format!("pid-{repeat}-{rank}"))).unwrap_or_default();
        text.strip_suffix('\n').map(str::to_owned)
    };
    let all = [(1, 0), (1, 1), (2, 0), (2, 1)];
    wait("all ranks are under way", || all.iter().all(|(repeat, rank)| pid(*repeat, *rank).is_some()));
    // The job of the last task has the number of the array.
    scene.cancel(1);
    wait("the run has ended", || scene.states()[1].is_final());
    for rank in [0, 1] {
        let pid = pid(2, rank).unwrap();
        wait("its ranks are gone", || !Path::new(&format!("/proc/{pid}")).exists());
    }
    scene.open_gate();
    scene.until_ended(2);
    assert_eq!(scene.states(), [RunState::Finished, RunState::Cancelled], "{}", scene.reason(0));
}

#[test]
fn tasks_whose_ids_were_not_written_down_are_found_by_their_comment_and_number() {
    let Some(scene) = Scene::launched("lab", 3, WAITS) else { return };
    let jobs = scene.sent(3);
    scene.await_start(2);
    scene.kill_conductor();
    for folder in scene.runs() {
        let record = folder.join("slurm.json");
        let mut known: serde_json::Value = serde_json::from_str(&fs::read_to_string(&record).unwrap()).unwrap();
        known["job"] = serde_json::Value::Null;
        fs::write(&record, known.to_string()).unwrap();
    }
    assert!(scene.own_jobs().is_empty(), "the records name no job");
    let attached = scene.follow();
    wait("the jobs are found", || scene.own_jobs() == jobs);
    scene.open_gate();
    attached.output();
    assert_eq!(scene.states(), [RunState::Finished; 3]);
}

#[test]
fn a_task_that_an_administrator_requeues_is_started_again_as_a_run_of_its_own_and_the_others_go_on() {
    let Some(scene) = Scene::launched("lab", 2, WAITS) else { return };
    let job = scene.sent(2)[0].clone();
    scene.await_start(1);
    wait("the conductor knows that it runs", || scene.records()[0].started_time_s.is_some());
    scene.cluster.ask("scontrol", &["update", &format!("JobId={job}"), "Requeue=1"]);
    scene.cluster.ask("scontrol", &["requeue", &job]);
    wait("the run is queued again", || scene.states().len() == 3);
    assert!(scene.reason(0).contains("requeue"), "{}", scene.reason(0));
    scene.open_gate();
    scene.until_ended(3);
    assert_eq!(scene.states(), [RunState::Interrupted, RunState::Finished, RunState::Finished]);
}
