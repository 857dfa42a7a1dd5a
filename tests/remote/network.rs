//! A laptop and a node that are two hosts, with a line of 40 ms in either direction that loses packets.

use std::net::TcpStream;

use multicard::launch;
use multicard::plan::image::{self, DataSet};
use multicard::plan::{Data, Levels, Mode, Node, Shape, Tracer};
use multicard::protocol::{Job, RankPlace};
use multicard::store::{Decision, Store};

use super::traffic::{Measured, at_800_steps};
use super::*;

/// Longer than a packet takes to be sent again, shorter than ssh waits for a sign of life.
const HICCUP: Duration = Duration::from_secs(6);

#[test]
fn between_two_hosts_a_hiccup_of_the_line_passes_unnoticed_and_a_cut_is_said_and_mended() {
    let test = "network::between_two_hosts_a_hiccup_of_the_line_passes_unnoticed_and_a_cut_is_said_and_mended";
    let Some(scene) = Scene::on_two_hosts(test) else { return };
    let there_and_back = Instant::now();
    let _ = TcpStream::connect((hosts::NODE, 1));
    assert!(there_and_back.elapsed() > Duration::from_millis(80), "{:?}", there_and_back.elapsed());
    scene.plan("tokens", 3, "until rm token 2> /dev/null; do sleep 0.02; done");
    let address = scene.address();
    let let_one_end = || fs::write(scene.node("token"), "").unwrap();
    scene.detach("tokens.toml");
    scene.await_start();
    let mut watched = scene.start(&["attach", &address]);
    hear(&mut watched, "3 runs under way or queued");
    let conductor = scene.processes("conduct");
    assert_eq!(conductor.len(), 1);

    fs::write(scene.at(hosts::CUT), "").unwrap();
    let_one_end();
    std::thread::sleep(HICCUP);
    fs::remove_file(scene.at(hosts::CUT)).unwrap();
    let message = hear(&mut watched, " finished");
    assert!(!message.contains("no line"), "{message}");

    hosts::turn("down");
    let message_text = hear(&mut watched, "trying again in 2 s");
    assert!(message_text.contains("no connection to node"), "{message}");
    let_one_end();
    wait("the node goes on", || scene.states()[1] == RunState::Finished);
    hosts::turn("up");
    hear(&mut watched, "reached node again");
    hear(&mut watched, "1 run under way or queued");
    assert_eq!(scene.processes("conduct"), conductor);
    let_one_end();
    hear(&mut watched, "nothing is left to run");
    assert!(watched.wait().unwrap().success());

    let shown = text(&succeed(&mut scene.multicard(&["session", "show", &address])).stdout);
    assert!(shown.contains("created on node:"), "{shown}");
    let table = text(&succeed(&mut scene.multicard(&["table", &address])).stdout);
    assert!(table.contains("n = 3") || table.contains("| 3 |"), "{table}");
    assert_eq!(logs(&scene.copy()), logs(&scene.node("session")));
}

/// A rank that says 200 steps a second until the gate is open, with all digits of clocks and losses.
const RANK: &str = r#"
import json, os, random, sys, time
job, rank = json.load(open(sys.argv[1])), int(sys.argv[2])
log = open(os.path.join(job["folder"], f"rank-{rank}.jsonl"), "a")
def say(event, **more):
    line = {"run": job["run"], "rank": rank, "time_s": time.time(), "event": event, **more}
    log.write(json.dumps(line, separators=(",", ":")) + "\n")
    log.flush()
begun = time.time()
say("started", protocol_version=job["version"], pid=os.getpid(), torch_version="none",
    device={"name": "cpu", "gpu_uuid": None}, world_size=len(job["ranks"]), seed=1)
say("phase", phase="steady")
step, due = 0, time.time()
while not os.path.exists("gate"):
    step += 1
    say("step", epoch=1, step=step, steps=1000000, duration_s=0.005 * random.random(), load_wait_s=1e-4 * random.random(),
        loss=2 * random.random(), units=64, warm_up=False)
    due += 0.005
    time.sleep(max(0, due - time.time()))
say("finished", duration_s=time.time() - begun)
"#;

impl Scene {
    /// Starts a run of four ranks on the node, in a session that an earlier conductor seems to have left.
    fn start_four_ranks(&self, levels: Levels, shape: Shape, program: &[&str]) -> Child {
        let node: Node = serde_json::from_value(serde_json::json!({
            "hostname": "node", "system": "Linux", "cpu_model": "CPU", "cpus": 2, "memory_bytes": 1_u64 << 34,
            "numa_nodes": 1, "driver": null, "no_gpu_reason": "no driver", "gpus": [], "nsys": {"Err": "none"},
            "worker": {"Err": "none"},
        }))
        .unwrap();
        let store = Store::create(&self.node("session"), &node).unwrap();
        let (run, data_folder) = ("r1".to_owned(), self.node("digits"));
        let data: Data = DataSet::Mnist { folder: Some(data_folder.clone()) }.into();
        let ranks: Vec<RankPlace> = (0..4).map(|rank| RankPlace::on_cpu(rank, 1)).collect();
        let empty = Job::new(image::KEY.into(), levels.clone(), shape, data.clone());
        let job = Job { run: run.clone(), data_folder, folder: store.run_folder(&run), ranks, ..empty };
        fs::create_dir_all(&job.folder).unwrap();
        let file = job.folder.join("job.json");
        fs::write(&file, serde_json::to_vec(&job).unwrap()).unwrap();
        let (plan, cell, workload) = ("p1".to_owned(), "c1".to_owned(), image::KEY.into());
        let (tracer, mode) = (Tracer::Off, Mode::Full);
        let queued = Decision::RunQueued {
            run: run.clone(),
            plan,
            cell,
            workload,
            levels,
            data,
            repeat: 1,
            tracer,
            mode,
            seed: 1,
        };
        store.decide(queued).unwrap();
        let mut group = self.on_node(env!("CARGO_BIN_EXE_multicard"));
        group.arg("group").arg(&file).args(program).stdout(Stdio::null()).stderr(Stdio::null());
        let child = std::os::unix::process::CommandExt::process_group(&mut group, 0).spawn().unwrap();
        // Found once: `nsenter` has the same words, and a process that becomes another program has none for a moment.
        let mut found = None;
        wait("the group is there", || {
            found = launch::find_group(&job.folder);
            found.is_some()
        });
        let (pid, process_start) = found.unwrap();
        store.decide(Decision::RunStarted { run, pid, process_start }).unwrap();
        child
    }
}

#[test]
fn four_ranks_of_200_steps_a_second_stay_below_100_kilobytes_a_second_between_two_hosts() {
    let test = "network::four_ranks_of_200_steps_a_second_stay_below_100_kilobytes_a_second_between_two_hosts";
    let Some(scene) = Scene::on_two_hosts(test) else { return };
    fs::write(scene.node("rank.py"), RANK).unwrap();
    let shape = Shape { processes: 4, ..Shape::default() };
    let mut group = scene.start_four_ranks(Levels::default(), shape, &["python3", "rank.py", "{job}", "{rank}"]);
    let mut measured = Measured::open(&scene.address(), hosts::bytes_on_the_wire);
    measured.await_steps(400.0);
    let (bytes_per_s, steps_per_s) = measured.count(Duration::from_secs(8));
    eprintln!("four ranks between two hosts: {bytes_per_s:.0} B/s at {steps_per_s:.0} steps/s");
    assert!(at_800_steps(bytes_per_s, steps_per_s) < 100e3, "{bytes_per_s:.0} B/s at {steps_per_s:.0} steps/s");
    scene.open_gate();
    wait("the run has ended", || scene.states() == [RunState::Finished]);
    assert!(group.wait().unwrap().success());
    drop(measured);
    succeed(&mut scene.multicard(&["session", "show", &scene.address()]));
    assert_eq!(logs(&scene.copy()), logs(&scene.node("session")));
}

/// The image workload with four ranks over gloo, which train as fast as the machine lets them.
#[cfg(feature = "torch")]
#[test]
fn four_ranks_that_train_over_gloo_are_followed_between_two_hosts_for_less_than_125_bytes_a_step() {
    use multicard::plan::Level;
    use multicard::plan::image::ImageSettings;

    let test = "network::four_ranks_that_train_over_gloo_are_followed_between_two_hosts_for_less_than_125_bytes_a_step";
    let Some(scene) = Scene::on_two_hosts(test) else { return };
    fs::create_dir(scene.node("digits")).unwrap();
    seeded::make_set(&scene.node("digits"), 400, 25);
    let levels = image::spec().levels(&[
        ("strategy", Level::text("ddp-ds")),
        ("gpus", Level::Integer(4)),
        ("width_multiplier", Level::Number(0.35)),
        ("image_size", Level::Integer(28)),
        ("batch_size", Level::Integer(1)),
        ("loader_workers", Level::Integer(1)),
        ("epochs", Level::Integer(1000)),
        ("train_images", Level::Integer(400)),
        ("test_images", Level::Integer(25)),
    ]);
    let shape = ImageSettings::from_levels(&levels).unwrap().shape();
    let worker = built::worker();
    let mut group = scene.start_four_ranks(levels, shape, &[worker.to_str().unwrap(), "rank", "{job}", "{rank}"]);
    let mut measured = Measured::open(&scene.address(), hosts::bytes_on_the_wire);
    measured.await_steps(1.0);
    let (bytes_per_s, steps_per_s) = measured.count(Duration::from_secs(8));
    eprintln!("four gloo ranks between two hosts: {bytes_per_s:.0} B/s at {steps_per_s:.0} steps/s");
    assert!(at_800_steps(bytes_per_s, steps_per_s) < 100e3, "{bytes_per_s:.0} B/s at {steps_per_s:.0} steps/s");
    kill_process(Pid::from_child(&group), Signal::TERM).unwrap();
    group.wait().unwrap();
    wait("the run has ended", || scene.states().iter().all(|state| state.is_final()));
}
