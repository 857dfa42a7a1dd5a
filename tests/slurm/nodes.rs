//! Runs over several nodes: what ranks are told, groups that meet over nodes, and what becomes of a rank or a node that dies.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use multicard::plan::RunState;
use multicard::protocol::Sample;
use multicard::session::open_reader;
use rustix::process::{Pid, Signal, kill_process};

use crate::seeded::{succeed, text};
use crate::{Scene, WAITS, at_each_place, wait};

/// The longest time until a rank that died is named.
const NAMED: Duration = Duration::from_secs(30);

/// A data-parallel fit whose ranks meet at `MASTER_ADDR` and add up their gradients over TCP; rank 0 reports the losses. Sums are exact, so that
/// they do not depend on how shards are spread over ranks.
const GROUP: &str = r#"
import json, os, socket, struct
assert ("MULTICARD_READINGS" in os.environ) == (os.environ["RANK"] == "0")
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
at = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
peers = []
if rank == 0:
    server = socket.create_server(("", at[1]))
    peers = [server.accept()[0] for _ in range(world - 1)]
else:
    while True:
        try:
            root = socket.create_connection(at, 5)
            break
        except OSError:
            pass
def summed(value):
    if rank == 0:
        total = value + sum(struct.unpack("d", peer.recv(8, socket.MSG_WAITALL))[0] for peer in peers)
        for peer in peers:
            peer.sendall(struct.pack("d", total))
        return total
    root.sendall(struct.pack("d", value))
    return struct.unpack("d", root.recv(8, socket.MSG_WAITALL))[0]
weight = 0.0
for step in range(1, 5):
    own = range(rank, 8, world)
    loss = summed(sum((shard - weight) ** 2 for shard in own))
    weight += 0.125 * summed(sum(0.5 * (shard - weight) for shard in own))
    if rank == 0:
        with open(os.environ["MULTICARD_READINGS"], "a") as log:
            log.write(json.dumps({"step": step, "loss": loss}) + "\n")
"#;

/// Adds factors to the plan.
pub(crate) fn with_factors(scene: &Scene, factors: &str) {
    let plan = fs::read_to_string(scene.path("plan.toml")).unwrap() + "[factors]\n" + factors + "\n";
    fs::write(scene.path("plan.toml"), plan).unwrap();
}

/// What each rank wrote into its file `said-RANK`.
fn environments(scene: &Scene, ranks: u32) -> Vec<BTreeMap<String, String>> {
    let read = |rank| {
        let text = fs::read_to_string(scene.path(&format!("said-{rank}"))).unwrap_or_default();
        let pair = |line: &str| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        text.lines().filter_map(pair).collect()
    };
    (0..ranks).map(read).collect()
}

#[test]
fn each_rank_is_told_its_number_its_node_and_where_the_first_one_is() {
    let Some(scene) = Scene::at("lab") else { return };
    scene.plan(1, "env > said-$RANK", "");
    with_factors(&scene, "nodes = 2\nranks_per_node = 2");
    let printed = text(&scene.run().stderr);
    assert_eq!(scene.states(), [RunState::Finished], "{printed}");
    let ranks = environments(&scene, 4);
    for (number, environment) in ranks.iter().enumerate() {
        let (rank, local, node) = (number.to_string(), (number % 2).to_string(), (number / 2).to_string());
        for (name, expected) in [
            ("RANK", rank.as_str()),
            ("LOCAL_RANK", &local),
            ("NODE_RANK", &node),
            ("GROUP_RANK", &node),
            ("WORLD_SIZE", "4"),
            ("LOCAL_WORLD_SIZE", "2"),
            ("OMPI_COMM_WORLD_RANK", &rank),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("SLURM_PROCID", &rank),
            ("SLURM_LOCALID", &local),
            ("SLURM_NODEID", &node),
            ("SLURM_NTASKS", "4"),
            ("SLURM_CPUS_PER_TASK", "2"),
        ] {
            assert_eq!(
                environment.get(name).map(String::as_str),
                Some(expected),
                "rank {number}: {name} in {environment:?}"
            );
        }
        assert_eq!(environment["SLURMD_NODENAME"], ["n1", "n2"][number / 2]);
        assert_eq!(
            (&environment["MASTER_ADDR"], &environment["MASTER_PORT"]),
            (&ranks[0]["MASTER_ADDR"], &ranks[0]["MASTER_PORT"])
        );
    }
    let record = &scene.records()[0];
    let whole = open_reader(&scene.session()).unwrap().run(&record.run).unwrap().unwrap();
    assert_eq!(whole.environment.as_ref().unwrap().get("hostname"), Some("n1, n2"));
    assert_eq!(whole.ranks.len(), 2, "a node has one log");
    for node in &whole.ranks {
        assert!(node.readings.iter().any(|reading| reading.key == "cpu_time_s"), "{:?}", node.readings);
    }
    assert_eq!(
        scene.files(0),
        [
            "environment.json",
            "group.jsonl",
            "group.out",
            "job.json",
            "job.sbatch",
            "program.json",
            "rank-0.jsonl",
            "rank-1.jsonl",
            "slurm.json",
            "stderr.log"
        ]
    );
}

/// Ranks that add up their numbers over gloo. Each writes its variables into a file that begins with the first argument.
const TORCH_GROUP: &str = r#"
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
with open(f"{sys.argv[1]}-{dist.get_rank()}", "w") as told:
    told.writelines(f"{name}={value}\n" for name, value in os.environ.items() if "\n" not in value)
if dist.get_rank() == 0:
    print("score:", total.item(), flush=True)
dist.destroy_process_group()
"#;

#[test]
fn a_real_torchrun_meets_over_two_nodes_and_tells_its_ranks_what_multicard_tells_its_own() {
    let has_torch = Command::new("python3").args(["-c", "import torch.distributed.run"]).output();
    if !has_torch.is_ok_and(|output| output.status.success()) {
        println!("skipped: there is no python3 with torch");
        return;
    }
    let names = [
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "LOCAL_WORLD_SIZE",
        "GROUP_RANK",
        "GROUP_WORLD_SIZE",
        "ROLE_RANK",
        "ROLE_NAME",
        "ROLE_WORLD_SIZE",
        "TORCHELASTIC_RESTART_COUNT",
        "TORCHELASTIC_MAX_RESTARTS",
    ];
    let variables_of = |script: &str, factors: &str| {
        let scene = Scene::at("lab")?;
        fs::write(scene.path("group.py"), TORCH_GROUP).unwrap();
        scene.plan(1, script, "");
        with_factors(&scene, factors);
        let printed = text(&scene.run().stderr);
        assert_eq!(scene.states(), [RunState::Finished], "{printed}");
        let whole = open_reader(&scene.session()).unwrap().run(&scene.records()[0].run).unwrap().unwrap();
        let score = whole.ranks[0].readings.iter().find(|reading| reading.key == "score").map(|reading| reading.value);
        assert_eq!(score, Some(10.0), "the numbers of four ranks");
        let ranks = environments(&scene, 4).into_iter();
        Some(ranks.map(|own| names.map(|name| own.get(name).cloned())).collect::<Vec<_>>())
    };
    let torchrun = "exec python3 -m torch.distributed.run --nnodes={nodes} --nproc-per-node=2 --node-rank={node_rank} \
                    --master-addr={master_addr} --master-port={port} group.py said";
    let Some(of_torchrun) = variables_of(torchrun, "nodes = 2") else { return };
    let Some(own) = variables_of("exec python3 group.py said", "nodes = 2\nranks_per_node = 2") else { return };
    assert!(of_torchrun.iter().flatten().all(Option::is_some), "{of_torchrun:?}");
    assert_eq!(of_torchrun, own, "{names:?}");
}

#[test]
fn a_group_over_two_nodes_has_the_losses_of_one_node() {
    let Some(scene) = Scene::at("lab") else { return };
    fs::write(scene.path("group.py"), GROUP).unwrap();
    scene.plan(1, "exec python3 group.py", "");
    with_factors(&scene, "nodes = [1, 2]\nranks_per_node = 2");
    let printed = text(&scene.run().stderr);
    assert_eq!(scene.states(), [RunState::Finished; 2], "{printed}");
    let reader = open_reader(&scene.session()).unwrap();
    let losses: Vec<Vec<f64>> = (scene.records().iter())
        .map(|record| {
            let whole = reader.run(&record.run).unwrap().unwrap();
            whole.ranks[0].steps.iter().map(|step| step.loss).collect()
        })
        .collect();
    assert_eq!(losses[0].len(), 4, "{losses:?}");
    assert_eq!(losses[0], losses[1]);
}

#[test]
fn ranks_of_one_node_meet_wherever_they_are() {
    at_each_place(|scene| {
        fs::write(scene.path("group.py"), GROUP).unwrap();
        scene.plan(1, "exec python3 group.py", "");
        with_factors(scene, "ranks_per_node = 2");
        let printed = text(&scene.run().stderr);
        assert_eq!(scene.states(), [RunState::Finished], "{printed}");
    });
}

#[test]
fn a_rank_that_dies_ends_the_run_and_is_named_with_its_node() {
    let Some(scene) = Scene::at("lab") else { return };
    let script = format!("echo $$ > pid-$RANK; {WAITS}; [ $RANK = 3 ] && kill -9 $$; sleep 600");
    scene.plan(1, &script, "");
    with_factors(&scene, "nodes = 2\nranks_per_node = 2");
    scene.detach();
    let pids = || (0..4).filter_map(|rank| fs::read_to_string(scene.path(&format!("pid-{rank}"))).ok());
    wait("all ranks are under way", || pids().filter(|pid| pid.ends_with('\n')).count() == 4);
    scene.open_gate();
    let begun = Instant::now();
    scene.until_ended(1);
    assert!(begun.elapsed() < NAMED, "{:?}", begun.elapsed());
    assert_eq!(scene.states(), [RunState::Failed]);
    assert!(scene.reason(0).starts_with("rank 3 on n2: sh was killed by SIGKILL"), "{}", scene.reason(0));
    for pid in pids() {
        wait("the other ranks are gone", || !Path::new(&format!("/proc/{}", pid.trim())).exists());
    }
}

#[test]
fn a_node_whose_runner_is_killed_ends_the_run_and_is_named() {
    let Some(scene) = Scene::at("lab") else { return };
    scene.plan(1, "echo $PPID > runner-$NODE_RANK; sleep 600", "");
    with_factors(&scene, "nodes = 2");
    scene.detach();
    let runner = || fs::read_to_string(scene.path("runner-1")).ok().and_then(|text| text.trim().parse().ok());
    wait("both nodes are under way", || runner().is_some() && scene.path("runner-0").exists());
    let begun = Instant::now();
    kill_process(Pid::from_raw(runner().unwrap()).unwrap(), Signal::KILL).unwrap();
    scene.until_ended(1);
    assert!(begun.elapsed() < NAMED, "{:?}", begun.elapsed());
    assert!(scene.reason(0).starts_with("multicard on node 1 (n2) ended before its ranks did"), "{}", scene.reason(0));
}

#[test]
fn a_run_over_nodes_that_is_cancelled_leaves_nothing_on_any() {
    let Some(scene) = Scene::at("lab") else { return };
    scene.plan(1, "echo $$ > pid-$RANK; sleep 600", "");
    with_factors(&scene, "nodes = 2");
    scene.detach();
    let pids = || (0..2).filter_map(|rank| fs::read_to_string(scene.path(&format!("pid-{rank}"))).ok());
    wait("all ranks are under way", || pids().filter(|pid| pid.ends_with('\n')).count() == 2);
    succeed(&mut scene.multicard(&["stop", "session"]));
    assert_eq!(scene.states(), [RunState::Cancelled]);
    for pid in pids() {
        wait("the ranks are gone", || !Path::new(&format!("/proc/{}", pid.trim())).exists());
    }
}

#[test]
fn more_than_there_is_is_refused_before_anything_is_queued() {
    let refused = |scene: &Scene, factors: &str| {
        scene.plan(1, "true", "");
        with_factors(scene, factors);
        let output = scene.run();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        assert!(scene.runs().is_empty() && scene.records().is_empty());
        text(&output.stderr)
    };
    let Some(mut scene) = Scene::at("lab") else { return };
    let stderr = refused(&scene, "nodes = 3");
    assert!(stderr.contains("nodes = 3: the partition of the largest node of site lab has 2 nodes"), "{stderr}");
    let stderr = refused(&scene, "nodes = 2\nranks_per_node = 5");
    assert!(stderr.contains("the largest node of site lab has no GPUs and 4 CPUs for 5 CPU ranks"), "{stderr}");
    let stderr = refused(&scene, "nodes = 2\nranks_per_node = 5\ngpus = 0");
    assert!(stderr.contains("ranks_per_node = 5: the largest node of site lab has 4 CPUs"), "{stderr}");
    let stderr = refused(&scene, "nodes = 2\ngpus = 3");
    assert!(stderr.contains("cannot be divided evenly by nodes = 2"), "{stderr}");
    scene.site = None;
    let stderr = refused(&scene, "nodes = 2");
    assert!(stderr.contains("nodes = 2: the run needs 2 machines") && stderr.contains("--site"), "{stderr}");
}

#[test]
fn a_plan_tells_the_node_hours_that_it_takes_at_most() {
    let Some(scene) = Scene::at("lab") else { return };
    scene.plan(3, "true", "run_time_s = 1800");
    with_factors(&scene, "nodes = [1, 2]");
    let stdout = text(&succeed(&mut scene.multicard(&["plan", "plan.toml"])).stdout);
    assert!(stdout.contains("6 runs: 2 cells × 3 repeats; run time unknown, at most 4.50 node-hours"), "{stdout}");
}

/// The samples that the session has of a run.
fn samples(scene: &Scene, run: usize) -> Vec<Sample> {
    let Some(record) = scene.records().get(run).map(|record| record.run.clone()) else { return Vec::new() };
    open_reader(&scene.session()).unwrap().samples(&record).unwrap()
}

/// The files of single nodes with their samples, which are gone once the session has joined them.
fn sampled_nodes(scene: &Scene) -> usize {
    let names = fs::read_dir(&scene.runs()[0]).unwrap().flatten().map(|entry| entry.file_name());
    names.filter(|name| name.to_string_lossy().starts_with("samples-")).count()
}

#[test]
fn both_nodes_are_sampled_and_their_clocks_are_compared() {
    let Some(scene) = Scene::at("lab") else { return };
    scene.plan(1, WAITS, "");
    with_factors(&scene, "nodes = 2\nranks_per_node = 1");
    scene.detach();
    let ranks = |sample: &Sample| sample.ranks.iter().map(|rank| rank.rank).collect::<Vec<_>>();
    wait("both nodes are sampled", || samples(&scene, 0).iter().filter(|sample| ranks(sample) == [0, 1]).count() > 1);
    assert_eq!(sampled_nodes(&scene), 2);
    scene.open_gate();
    scene.until_ended(1);
    assert_eq!(scene.states(), [RunState::Finished], "{}", scene.reason(0));
    let both: Vec<Sample> = samples(&scene, 0).into_iter().filter(|sample| ranks(sample) == [0, 1]).collect();
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let cpus = stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count() as u32;
    assert_eq!(both[0].host.cpus, Some(2 * cpus), "both nodes are this machine");
    assert!(both[1].ranks.iter().all(|rank| rank.resident_bytes.is_some_and(|bytes| bytes > 0)), "{:?}", both[1]);
    let whole = open_reader(&scene.session()).unwrap().run(&scene.records()[0].run).unwrap().unwrap();
    let reading = |rank: usize, key: &str| {
        whole.ranks[rank].readings.iter().find(|reading| reading.key == key).map(|reading| reading.value)
    };
    let error_s = reading(1, "clock_offset_error_s").unwrap();
    assert!(reading(1, "clock_offset_s").unwrap().abs() <= error_s + 1e-3, "one machine has one clock: {error_s}");
    assert_eq!(reading(0, "clock_offset_s"), None);
    wait("the files of the nodes are gone", || sampled_nodes(&scene) == 0);
}

#[test]
fn samples_go_on_without_a_conductor_and_the_next_one_takes_each_once() {
    let Some(scene) = Scene::launched("lab", 1, WAITS) else { return };
    wait("the run is sampled", || samples(&scene, 0).len() > 1);
    scene.kill_conductor();
    let log = scene.runs()[0].join("samples-0.jsonl");
    let lines = || fs::read_to_string(&log).unwrap_or_default().lines().count();
    let before = samples(&scene, 0).len();
    wait("the node is sampled further", || lines() > before + 1);
    let attached = scene.follow();
    wait("the next conductor has taken the samples", || samples(&scene, 0).len() > before + 1);
    scene.open_gate();
    attached.output();
    assert_eq!(scene.states(), [RunState::Finished]);
    let times: Vec<f64> = samples(&scene, 0).iter().map(|sample| sample.time_s).collect();
    assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
}
