//! One allocation for many runs: runs are steps of one job in the plan's order, and what has not begun when it ends goes to another one.

use std::fs;
use std::path::Path;

use multicard::plan::RunState;
use multicard::session::open_reader;

use crate::scene::job_of;
use crate::seeded::{succeed, text};
use crate::{Scene, WAITS, wait};

impl Scene {
    /// A plan whose runs share an allocation.
    pub(crate) fn shared_plan(&self, repeats: u32, script: &str, factors: &str) {
        self.plan(repeats, script, "");
        let plan = fs::read_to_string(self.path("plan.toml")).unwrap();
        let plan =
            plan.replacen("[where]\n", "[where]\njobs = \"one-allocation\"\n", 1) + "[factors]\n" + factors + "\n";
        fs::write(self.path("plan.toml"), plan).unwrap();
    }

    /// The ids of Slurm's jobs of the session's allocations, in no order.
    pub(crate) fn allocations(&self) -> Vec<String> {
        let entries = fs::read_dir(self.session().join("allocations")).into_iter().flatten().flatten();
        entries.filter_map(|entry| job_of(&entry.path())).collect()
    }

    /// The number of runs on the lists of its allocations.
    fn listed(&self) -> usize {
        let entries = fs::read_dir(self.session().join("allocations")).into_iter().flatten().flatten();
        let lists = entries.map(|entry| fs::read_to_string(entry.path().join("runs.jsonl")).unwrap_or_default());
        lists.map(|list| list.lines().count()).sum()
    }

    /// Slurm's word for the state of a job.
    fn state_of(&self, job: &str) -> String {
        let all = self.cluster.jobs();
        let state = all.iter().find_map(|line| line.strip_prefix(&format!("{job} ")));
        state.and_then(|rest| rest.split(' ').next()).unwrap_or_default().to_owned()
    }

    fn until_no_allocation_is_left(&self) {
        let is_over = |job: &String| !["PENDING", "RUNNING", "COMPLETING"].contains(&self.state_of(job).as_str());
        wait("no allocation is left", || self.allocations().iter().all(is_over));
    }
}

#[test]
fn runs_are_steps_of_one_job_in_the_plans_order_and_the_job_ends_with_them() {
    let Some(scene) = Scene::at("lab") else { return };
    scene.shared_plan(
        2,
        "echo {gpus} $SLURM_JOB_ID $SLURM_STEP_ID $SLURM_CPUS_PER_TASK >> order; echo score: {gpus}",
        "gpus = [1, 2]",
    );
    let printed = text(&scene.run().stderr);
    assert_eq!(scene.states(), [RunState::Finished; 4], "{printed}");
    let planned: Vec<String> =
        scene.records().iter().map(|record| record.levels.get("gpus").unwrap().to_string()).collect();
    let order = fs::read_to_string(scene.path("order")).unwrap();
    let jobs = scene.allocations();
    assert_eq!(jobs.len(), 1);
    let expected: Vec<String> =
        planned.iter().enumerate().map(|(step, gpus)| format!("{gpus} {} {step} {gpus}", jobs[0])).collect();
    assert_eq!(order.lines().collect::<Vec<_>>(), expected);
    let reader = open_reader(&scene.session()).unwrap();
    for record in scene.records() {
        let whole = reader.run(&record.run).unwrap().unwrap();
        assert!(whole.ranks[0].readings.iter().any(|reading| reading.key == "score"));
        assert!(whole.environment.unwrap().get("hostname").is_some());
    }
    scene.until_no_allocation_is_left();
    assert_eq!(scene.state_of(&jobs[0]), "COMPLETED");
}

#[test]
fn a_run_of_an_allocation_that_is_cancelled_ends_alone() {
    let Some(scene) = Scene::at("lab") else { return };
    let script = format!("echo $$ > pid-{{gpus}}; [ {{gpus}} = 1 ] || {WAITS}; [ {{gpus}} = 2 ] || sleep 600");
    scene.shared_plan(1, &script, "gpus = [1, 2]");
    let plan = fs::read_to_string(scene.path("plan.toml")).unwrap();
    fs::write(scene.path("plan.toml"), plan.replacen("version = 1", "version = 1\norder = \"sequential\"", 1)).unwrap();
    scene.detach();
    wait("the first run is under way", || scene.path("pid-1").exists());
    scene.cancel(0);
    wait("the second run is under way", || scene.path("pid-2").exists());
    let pid = fs::read_to_string(scene.path("pid-1")).unwrap();
    assert!(!Path::new(&format!("/proc/{}", pid.trim())).exists(), "the first program is gone");
    scene.open_gate();
    scene.until_ended(2);
    assert_eq!(scene.states(), [RunState::Cancelled, RunState::Finished]);
    assert_eq!(scene.allocations().len(), 1);
}

#[test]
fn a_session_that_is_stopped_while_its_allocation_waits_leaves_no_job() {
    let Some(scene) = Scene::at("held") else { return };
    scene.shared_plan(3, "true", "gpus = 1");
    scene.detach();
    wait("the allocation is held", || scene.allocations().first().is_some_and(|job| scene.state_of(job) == "PENDING"));
    succeed(&mut scene.multicard(&["stop", "session"]));
    assert_eq!(scene.states(), [RunState::Cancelled; 3]);
    scene.until_no_allocation_is_left();
}

#[test]
fn a_preempted_allocation_is_followed_by_another_one_with_the_rest() {
    let Some(scene) = Scene::at("low") else { return };
    scene.shared_plan(2, &format!("{WAITS}; echo score: 1"), "gpus = 1");
    scene.start();
    scene.cluster.ask("sbatch", &["--partition=high", "--cpus-per-task=4", "--output=/dev/null", "--wrap", "sleep 1"]);
    wait("the first run is queued again", || scene.states().len() == 3);
    assert_eq!(scene.states()[0], RunState::Interrupted);
    assert!(scene.reason(0).contains("preemption"), "{}", scene.reason(0));
    scene.open_gate();
    scene.until_ended(3);
    assert_eq!(scene.states(), [RunState::Interrupted, RunState::Finished, RunState::Finished]);
    assert_eq!(scene.allocations().len(), 2);
}

#[test]
fn an_allocation_goes_on_without_its_conductor_and_the_next_one_finds_its_runs() {
    let Some(scene) = Scene::at("lab") else { return };
    scene.shared_plan(2, &format!("{WAITS}; echo score: 1"), "gpus = 1");
    scene.start();
    wait("both runs are on the list", || scene.listed() == 2);
    // The run can start before the conductor has written down the job that Slurm gave it.
    wait("the conductor knows its job", || scene.allocations().len() == 1);
    let jobs = scene.allocations();
    scene.kill_conductor();
    scene.open_gate();
    wait("the second run has ended without a conductor", || {
        fs::read_to_string(scene.runs()[1].join("group.jsonl")).is_ok_and(|text| text.contains("supervisor_ended"))
    });
    let stderr = scene.attach();
    assert_eq!(scene.states(), [RunState::Finished; 2], "{stderr}");
    assert_eq!(scene.allocations(), jobs);
}

#[test]
fn the_script_of_an_allocation_says_what_it_is_and_asks_for_the_largest_run() {
    let Some(scene) = Scene::at("lab") else { return };
    scene.shared_plan(1, "true", "nodes = [1, 2]\nranks_per_node = [1, 3]");
    let printed = text(&succeed(&mut scene.multicard(&["plan", "plan.toml", "--format", "sbatch"])).stdout);
    for line in
        ["#SBATCH --nodes=2", "#SBATCH --cpus-per-task=3", "# One allocation for many runs, one after the other"]
    {
        assert!(printed.lines().any(|found| found.starts_with(line)), "{line}: {printed}");
    }
    scene.run();
    assert_eq!(scene.states(), [RunState::Finished; 4]);
    assert_eq!(scene.allocations().len(), 1);
}
