//! Built-in workloads at a site: ranks of the worker on one node and over several, with gloo on CPUs.

#[path = "../training/mod.rs"]
mod training;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use multicard::plan::RunState;
use multicard::session::open_reader;
use multicard::store::RunRecord;
use rustix::process::{Pid, Signal, kill_process};

use crate::seeded::{succeed, text};
use crate::{Scene, executable, wait};
use training::{alone, data_folder, worker};

/// The longest time until the reason names a rank that died.
const NAMED: Duration = Duration::from_secs(30);

/// Tiny images, few steps.
const PLAN: &str = r#"version = 1
name = "digits"
workload = "image"
repeats = 1
PLACE
[measure]
warm_up_steps = 1
[data]
set = "digits"
[factors]
deterministic = "on"
image_size = 28
batch_size = 8
train_images = 64
test_images = 8
loader_workers = 1
"#;

/// A small model, few steps.
const LLM_PLAN: &str = r#"version = 1
name = "tiny"
workload = "llm"
repeats = 1
PLACE
[measure]
warm_up_steps = 1
[data]
set = "stand-in"
[factors]
model = "tiny"
data_set = "uniform"
row_tokens = 24
rows = 8
epochs = 1
"#;

impl Scene {
    fn training_plan(&self, name: &str, factors: &str) {
        self.plan_of(PLAN, name, factors);
    }

    /// Writes a plan with further factors, at the scene's place.
    fn plan_of(&self, plan: &str, name: &str, factors: &str) {
        let place = self.site.map_or(String::new(), |site| format!("[where]\nsite = \"{site}\""));
        fs::write(self.path(name), plan.replace("PLACE", &place) + factors + "\n").unwrap();
    }

    /// The plan is refused with these words before anything is queued.
    fn check_refusal(&self, words: &str) {
        let output = self.with_worker(&["run", "plan.toml", "--session", "session"]).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(words), "{words} in {stderr}");
        assert!(self.runs().is_empty() && self.records().is_empty());
    }

    /// The command line with the real worker.
    fn with_worker(&self, arguments: &[&str]) -> Command {
        let mut command = self.multicard(arguments);
        command.env("MULTICARD_WORKER", worker()).env("MULTICARD_DATA", data_folder());
        command
    }

    fn train(&self, session: &str) -> Vec<RunRecord> {
        let output = self.with_worker(&["run", "plan.toml", "--session", session]).output().unwrap();
        let reader = open_reader(&self.path(session)).unwrap();
        let runs = reader.runs().unwrap();
        let reasons: Vec<_> = runs.iter().map(|run| (run.state, run.reason.clone())).collect();
        assert!(output.status.success(), "{}\n{reasons:?}", text(&output.stderr));
        runs.iter().map(|run| reader.run(&run.run).unwrap().unwrap()).collect()
    }
}

fn level(run: &RunRecord, key: &str) -> String {
    run.levels.get(key).unwrap().to_string()
}

/// The losses of all steps of each rank.
fn losses(run: &RunRecord) -> Vec<Vec<f64>> {
    run.ranks.iter().map(|rank| rank.steps.iter().map(|step| step.loss).collect()).collect()
}

fn reading(run: &RunRecord, rank: usize, key: &str) -> Option<f64> {
    run.ranks[rank].readings.iter().find(|reading| reading.key == key).map(|reading| reading.value)
}

#[test]
fn ranks_over_two_nodes_have_the_losses_of_one_machine_with_as_many_ranks() {
    let Some(mut scene) = Scene::at("lab") else { return };
    let _alone = alone();
    let strategies = "strategy = [\"ddp-ds\", \"fsdp\"]\ngpus = 2\n";
    let one_node = "[[constraint]]\nexclude = \"nodes = 1 and strategy = fsdp\"\nreason = \"one suffices\"\n";
    scene.training_plan("plan.toml", &format!("{strategies}nodes = [1, 2]\n{one_node}"));
    let runs_at_site = scene.train("session");
    scene.site = None;
    scene.training_plan("plan.toml", strategies);
    let runs_here = scene.train("here");
    assert_eq!((runs_at_site.len(), runs_here.len()), (3, 2));
    for run in &runs_at_site {
        let same = runs_here.iter().find(|run_here| level(run_here, "strategy") == level(run, "strategy")).unwrap();
        let (nodes, strategy) = (level(run, "nodes"), level(run, "strategy"));
        assert_eq!(losses(run).iter().map(Vec::len).collect::<Vec<_>>(), [4, 4], "{strategy} on {nodes}");
        assert_eq!(losses(run), losses(same), "{strategy} on {nodes}");
        let not_in_effect: Vec<_> =
            run.ranks.iter().flat_map(|rank| &rank.evidence).filter(|evidence| !evidence.in_effect).collect();
        assert!(not_in_effect.is_empty(), "{strategy} on {nodes}: {not_in_effect:?}");
        let seen = run.ranks[1].evidence.iter().find(|evidence| evidence.factor == "nodes").map(|found| &*found.seen);
        let hostname = run.environment.as_ref().unwrap().get("hostname").unwrap().to_owned();
        if nodes == "2" {
            assert_eq!((seen, hostname.as_str()), (Some("2 ranks on 2 nodes: n1, n2"), "n1, n2"));
            // Both nodes are this machine.
            assert!(reading(run, 1, "clock_offset_s").is_some_and(|offset_s| offset_s.abs() < 1.0));
            assert_eq!(reading(run, 0, "clock_offset_s"), None);
        } else {
            assert_eq!(seen, None);
        }
    }
    for run in 0..runs_at_site.len() {
        let names = scene.files(run);
        assert!(!names.iter().any(|name| name.starts_with("multicard-ranks-")), "where ranks met is gone: {names:?}");
    }
}

#[test]
fn the_ranks_of_a_node_share_one_log_in_which_each_has_its_own_events() {
    let Some(scene) = Scene::at("lab") else { return };
    let _alone = alone();
    scene.training_plan("plan.toml", "gpus = 4\nnodes = 2\n");
    let run = scene.train("session").remove(0);
    let losses = losses(&run);
    assert_eq!(losses.iter().map(Vec::len).collect::<Vec<_>>(), [2; 4]);
    for (rank, own) in losses.iter().enumerate() {
        assert!(!losses[..rank].contains(own), "each rank has batches of its own: {losses:?}");
    }
    assert_eq!(
        scene.files(0),
        [
            "environment.json",
            "group.jsonl",
            "group.out",
            "job.json",
            "job.sbatch",
            "node-0.jsonl",
            "node-1.jsonl",
            "rank-0.jsonl",
            "rank-2.jsonl",
            "slurm.json",
            "stderr.log"
        ]
    );
}

#[test]
#[ignore = "needs two GPUs: make test-gpu"]
fn ranks_on_two_gpus_of_two_nodes_meet_over_the_network_that_nccl_names() {
    let Some(scene) = Scene::at("gpus") else { return };
    let _alone = alone();
    scene.training_plan("plan.toml", "strategy = [\"ddp-ds\", \"fsdp\"]\ngpus = 2\nnodes = 2\nloader = \"device\"\n");
    for run in scene.train("session") {
        let strategy = level(&run, "strategy");
        assert_eq!(losses(&run).iter().map(Vec::len).collect::<Vec<_>>(), [4, 4], "{strategy}");
        let evidence: Vec<_> = run.ranks.iter().flat_map(|rank| &rank.evidence).collect();
        let not_in_effect: Vec<_> = evidence.iter().filter(|evidence| !evidence.in_effect).collect();
        assert!(not_in_effect.is_empty(), "{strategy}: {not_in_effect:?}");
        let seen = |factor: &str| evidence.iter().find(|evidence| evidence.factor == factor).map(|found| &*found.seen);
        println!("{strategy}: {:?}, {:?}", seen("gpus"), seen("nodes"));
        assert_eq!(seen("nodes"), Some("2 ranks on 2 nodes: n1, n2"), "{strategy}");
        assert!(seen("gpus").is_some_and(|seen| seen.contains("Socket") || seen.contains("IB")), "{:?}", seen("gpus"));
    }
}

#[test]
fn ranks_that_do_not_connect_over_the_network_say_which_interface_they_used_and_how_to_choose_another_one() {
    let Some(scene) = Scene::at("unreachable") else { return };
    let _alone = alone();
    scene.training_plan("plan.toml", "gpus = 2\nnodes = 2\n");
    let output = scene.with_worker(&["run", "plan.toml", "--session", "session"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let reason = scene.reason(0);
    assert!(reason.contains("the ranks did not connect over the network interface nowhere0"), "{reason}");
    assert!(reason.contains("set GLOO_SOCKET_IFNAME in the site's prologue. gloo says: "), "{reason}");
}

/// A run on two nodes that trains until somebody ends it, and the processes of its two ranks.
fn endless(scene: &Scene) -> [Pid; 2] {
    scene.training_plan("plan.toml", "gpus = 2\nnodes = 2\nepochs = 100000\n");
    succeed(&mut scene.with_worker(&["run", "plan.toml", "--session", "session", "--detach"]));
    let log = |rank: u32| -> Option<String> {
        let text = fs::read_to_string(scene.runs().first()?.join(format!("rank-{rank}.jsonl"))).ok()?;
        text.contains("\"event\":\"step\"").then_some(text)
    };
    wait("both ranks train", || scene.states() == [RunState::Failed] || (log(0).is_some() && log(1).is_some()));
    [0, 1].map(|rank| {
        let text = log(rank).unwrap_or_else(|| panic!("{}", scene.reason(0)));
        let started: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        Pid::from_raw(started["pid"].as_i64().unwrap() as i32).unwrap()
    })
}

fn is_gone(pid: Pid) -> bool {
    !PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero())).exists()
}

#[test]
fn a_worker_that_is_killed_on_the_second_node_ends_the_run_and_is_named_with_its_node() {
    let Some(scene) = Scene::at("lab") else { return };
    let _alone = alone();
    let pids = endless(&scene);
    let begun = Instant::now();
    kill_process(pids[1], Signal::KILL).unwrap();
    scene.until_ended(1);
    assert!(begun.elapsed() < NAMED, "{:?}", begun.elapsed());
    assert_eq!(scene.states(), [RunState::Failed]);
    assert!(scene.reason(0).starts_with("rank 1 on n2 was killed by SIGKILL"), "{}", scene.reason(0));
    wait("the other rank is gone", || is_gone(pids[0]));
}

#[test]
fn a_node_whose_leader_of_ranks_is_killed_ends_the_run_and_is_named() {
    let Some(scene) = Scene::at("lab") else { return };
    let _alone = alone();
    let pids = endless(&scene);
    let status = fs::read_to_string(format!("/proc/{}/status", pids[1].as_raw_nonzero())).unwrap();
    let leader = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim().parse().unwrap();
    let begun = Instant::now();
    kill_process(Pid::from_raw(leader).unwrap(), Signal::KILL).unwrap();
    scene.until_ended(1);
    assert!(begun.elapsed() < NAMED, "{:?}", begun.elapsed());
    let reason = scene.reason(0);
    assert!(reason.contains("multicard on node 1 (n2) ended before its ranks did"), "{reason}");
    wait("both ranks are gone", || pids.into_iter().all(is_gone));
}

#[test]
fn runs_of_the_worker_share_an_allocation_on_one_node_and_over_two() {
    let Some(scene) = Scene::at("lab") else { return };
    let _alone = alone();
    scene.training_plan("plan.toml", "gpus_per_node = 1\nnodes = [1, 2]\n");
    let plan = fs::read_to_string(scene.path("plan.toml")).unwrap();
    fs::write(scene.path("plan.toml"), plan.replacen("[where]\n", "[where]\njobs = \"one-allocation\"\n", 1)).unwrap();
    let runs = scene.train("session");
    let mut spread: Vec<_> =
        runs.iter().map(|run| (level(run, "nodes"), level(run, "gpus"), run.ranks.len())).collect();
    spread.sort();
    assert_eq!(spread, [("1".to_owned(), "1".to_owned(), 1), ("2".to_owned(), "2".to_owned(), 2)]);
    assert_eq!(scene.allocations().len(), 1);
}

#[test]
fn a_language_model_is_fine_tuned_over_two_nodes_with_the_losses_of_one_node() {
    let Some(scene) = Scene::at("lab") else { return };
    let _alone = alone();
    scene.plan_of(LLM_PLAN, "plan.toml", "gpus = 2\nnodes = [1, 2]\nsharding = [\"ddp\", \"fsdp\"]\nsave_every = 2\n");
    let runs = scene.train("session");
    assert_eq!(runs.len(), 4);
    for sharding in ["ddp", "fsdp"] {
        let on = |nodes: &str| {
            let is_it = |run: &&RunRecord| level(run, "nodes") == nodes && level(run, "sharding") == sharding;
            runs.iter().find(is_it).unwrap()
        };
        let (one, two) = (losses(on("1")), losses(on("2")));
        assert!(one.len() == 2 && one.iter().all(|steps| !steps.is_empty()), "{sharding}: {one:?}");
        assert_eq!(one, two, "{sharding}");
        let evidence: Vec<_> = on("2").ranks.iter().flat_map(|rank| &rank.evidence).collect();
        let not_in_effect: Vec<_> = evidence.iter().filter(|evidence| !evidence.in_effect).collect();
        assert!(not_in_effect.is_empty(), "{sharding}: {not_in_effect:?}");
        let seen = evidence.iter().find(|evidence| evidence.factor == "nodes").map(|found| &*found.seen);
        assert_eq!(seen, Some("2 ranks on 2 nodes: n1, n2"));
    }
    // The first rank writes the adapters, whichever node it is on.
    for folder in scene.runs() {
        assert!(folder.join("model/adapter_model.safetensors").is_file(), "{}", folder.display());
    }
}

#[test]
fn what_cannot_be_fine_tuned_over_nodes_is_refused_before_anything_is_queued() {
    let Some(scene) = Scene::at("lab") else { return };
    for (factors, words) in [
        ("technique = \"qlora\"", "technique = qlora trains on one GPU"),
        ("technique = \"dpo-full\"\nsharding = \"fsdp\"", "sharding = fsdp does not shard that copy"),
        ("sharding = \"fsdp\"\nfsdp_gather = \"copies\"", "fsdp_gather = copies copies between GPUs of one node"),
    ] {
        scene.plan_of(LLM_PLAN, "plan.toml", &format!("gpus = 2\nnodes = 2\n{factors}"));
        scene.check_refusal(words);
    }
}

#[test]
fn what_nodes_do_not_have_is_refused_before_anything_is_queued() {
    let Some(scene) = Scene::at("lab") else { return };
    for (factors, words) in [
        ("gpus = 5", "the largest node of site lab has no usable GPUs and 4 CPUs for 5 CPU ranks"),
        ("gpus = 3\nnodes = 3", "nodes = 3: the partition of the largest node of site lab has 2 nodes"),
        ("gpus = 3\nnodes = 2", "gpus = 3 cannot be divided evenly by nodes = 2"),
        ("gpus = 2\nnodes = 2\nstrategy = \"dp\"", "strategy = dp is one process, on one node"),
        ("gpus = 2\nnodes = 2\ndata_copy = \"shared\"", "data_copy = shared is memory of one node"),
    ] {
        scene.training_plan("plan.toml", factors);
        scene.check_refusal(words);
    }
}

#[test]
fn a_site_is_tried_with_the_worker_that_its_nodes_would_start() {
    let Some(scene) = Scene::at("lab") else { return };
    let stdout = text(&succeed(&mut scene.with_worker(&["site", "lab"])).stdout);
    let version = env!("CARGO_PKG_VERSION");
    assert!(stdout.contains(&format!("✓ Worker: {version} with torch ")), "{stdout}");
    // The node does not have the worker.
    let sites =
        format!("[bare]\npartition = \"debug\"\nprologue = [\"mv {0} {0}.away\"]\n", scene.path("worker").display());
    fs::write(scene.path("config/multicard/sites.toml"), sites).unwrap();
    let script = format!("#!/bin/sh\nexec {} \"$@\"\n", worker().display());
    executable::write(&scene.path("worker"), script);
    let mut command = scene.with_worker(&["site", "bare"]);
    let output = command.env("MULTICARD_WORKER", scene.path("worker")).output().unwrap();
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{stdout}");
    assert!(
        stdout.contains("✓ Run: ") && stdout.contains("✗ Worker: ") && stdout.contains("does not start on the node"),
        "{stdout}"
    );
}
