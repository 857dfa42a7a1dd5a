//! Failures of a rank over NCCL, in eager steps and in replays of a CUDA graph. They need two GPUs: `make test-gpu`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use multicard::launch::{find_worker, place};
use multicard::plan::{Level, Node};
use multicard::protocol::Event;
use multicard::telemetry::{read_node, read_topology};
use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use crate::{ENDLESS, Run, job, make_set};

/// Runs of these tests go beside each other on the GPUs, unless one needs all of their memory.
static GPUS: RwLock<()> = RwLock::new(());

/// Epochs are long, so that harm comes to a step and not to an evaluation.
const GPU_TRAIN_IMAGES: u32 = 32_000;

/// Where rank 1 is when harm comes to it: in eager steps or in replays.
const GRAPHS: [(&str, u64); 2] = [("off", 4), ("on", 40)];

/// Two ranks over NCCL, on the first two GPUs. The worker and its libtorch are those that `MULTICARD_WORKER` and
/// `MULTICARD_TORCH` name.
fn start_on_gpus(
    strategy: &'static str,
    graph: &'static str,
    changed: &[(&'static str, Level)],
    environment: &[(&str, &str)],
) -> Run {
    let mut worker = find_worker().unwrap();
    worker.environment.extend(environment.iter().map(|(key, value)| (key.to_string(), value.to_string())));
    let node = Node { worker: Ok(worker.description.clone()), ..read_node() };
    assert!(node.has_cuda() && node.gpus.len() > 1, "two GPUs are needed: {:?}", node.no_gpu_reason);
    let folder = TempDir::new().unwrap();
    make_set(folder.path(), GPU_TRAIN_IMAGES);
    let mut levels = vec![
        ENDLESS,
        ("cuda_graph", Level::text(graph)),
        ("loader", Level::text("device")),
        ("train_images", Level::Integer(GPU_TRAIN_IMAGES.into())),
    ];
    levels.extend_from_slice(changed);
    let mut job = job(folder.path(), strategy, 2, 2, &levels);
    job.ranks = place(&job.shape, &node, &read_topology(&node)).unwrap().ranks;
    Run::launch(folder, job, worker)
}

/// Waits until rank 1 has come so many steps far, and gives its process.
fn training_on_gpu(run: &Run, steps: u64) -> Pid {
    run.process(1, |log| log.iter().any(|event| matches!(event, Event::Step { step, .. } if *step >= steps)))
}

fn gpus_beside_others() -> RwLockReadGuard<'static, ()> {
    GPUS.read().unwrap_or_else(PoisonError::into_inner)
}

fn killed_on_gpu(strategy: &'static str, (graph, steps): (&'static str, u64)) {
    let _beside = gpus_beside_others();
    let run = start_on_gpus(strategy, graph, &[], &[]);
    let kill = |pid| rustix::process::kill_process(pid, Signal::KILL).unwrap();
    let reason = run.end_after(training_on_gpu(&run, steps), kill);
    assert!(reason.starts_with("rank 1 was killed by SIGKILL"), "{reason}");
}

fn hanging_on_gpu(strategy: &'static str, (graph, steps): (&'static str, u64)) {
    let _beside = gpus_beside_others();
    let run = start_on_gpus(strategy, graph, &[], &[]);
    let pid = training_on_gpu(&run, steps);
    let reason = run.end_after(pid, |pid| rustix::process::kill_process(pid, Signal::STOP).unwrap());
    assert!(reason.contains("rank 1 does not answer"), "{reason}");
}

#[test]
#[ignore = "needs two GPUs: make test-gpu"]
fn a_rank_that_is_killed_in_an_eager_step_on_two_gpus_is_the_reason() {
    killed_on_gpu("ddp-ds", GRAPHS[0]);
}

#[test]
#[ignore = "needs two GPUs: make test-gpu"]
fn a_rank_that_is_killed_in_a_replay_on_two_gpus_is_the_reason() {
    killed_on_gpu("ddp-ds", GRAPHS[1]);
}

#[test]
#[ignore = "needs two GPUs: make test-gpu"]
fn a_rank_that_hangs_in_an_eager_step_on_two_gpus_is_the_reason() {
    hanging_on_gpu("ddp-ds", GRAPHS[0]);
}

#[test]
#[ignore = "needs two GPUs: make test-gpu"]
fn a_rank_that_hangs_in_a_replay_on_two_gpus_is_the_reason() {
    hanging_on_gpu("ddp-ds", GRAPHS[1]);
}

#[test]
#[ignore = "needs two GPUs: make test-gpu"]
fn a_sharded_rank_that_is_killed_on_two_gpus_is_the_reason() {
    killed_on_gpu("fsdp", GRAPHS[0]);
}

#[test]
#[ignore = "needs two GPUs: make test-gpu"]
fn a_sharded_rank_that_hangs_on_two_gpus_is_the_reason() {
    hanging_on_gpu("fsdp", GRAPHS[0]);
}

/// A process that takes all memory of a GPU that is free or becomes free. It ends with this value.
struct Hog(Child);

impl Hog {
    fn start(gpu_uuid: &str) -> Self {
        const TAKE: &str = "
import torch
held, size, told = [], 1 << 30, False
while True:
    try:
        held.append(torch.empty(size, dtype=torch.uint8, device='cuda'))
    except torch.OutOfMemoryError:
        size = max(size // 2, 2 << 20)
        if size == 2 << 20 and not told:
            print('full', flush=True)
            told = True
";
        let mut command = Command::new("python3");
        command.args(["-c", TAKE]).env("CUDA_VISIBLE_DEVICES", gpu_uuid).stdout(Stdio::piped()).stderr(Stdio::null());
        Self(command.spawn().expect("a python3 with torch"))
    }

    fn wait_until_full(&mut self) {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "full\n");
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ran_out(reason: &str) {
    assert!(reason.starts_with("rank 1: ") && reason.contains("out of memory"), "{reason}");
}

#[test]
#[ignore = "needs two GPUs and a python3 with torch: make test-gpu"]
fn a_rank_that_runs_out_of_memory_on_two_gpus_beside_pytorch_is_the_reason() {
    let _alone = GPUS.write().unwrap_or_else(PoisonError::into_inner);
    // Each tensor is taken from the device anew, so that the other process gets hold of its memory in between. Tensors
    // are larger than the blocks of 2 MiB that the driver may keep.
    let large = [("batch_size", Level::Integer(256)), ("image_size", Level::Integer(96))];
    let run = start_on_gpus("ddp-ds", "off", &large, &[("PYTORCH_NO_CUDA_MEMORY_CACHING", "1")]);
    let pid = training_on_gpu(&run, GRAPHS[0].1);
    let Some(Event::Started { device, .. }) = run.log(1).first().cloned() else { panic!("it has started") };
    let mut hog = None;
    ran_out(&run.end_after(pid, |_| {
        let hog = hog.insert(Hog::start(&device.gpu_uuid.unwrap()));
        hog.wait_until_full();
    }));
}

#[test]
#[ignore = "needs two GPUs and a python3 with torch: make test-gpu"]
fn a_rank_without_memory_for_its_graph_on_two_gpus_beside_pytorch_is_the_reason() {
    let _alone = GPUS.write().unwrap_or_else(PoisonError::into_inner);
    let mut hog = Hog::start(&read_node().gpus[1].uuid);
    hog.wait_until_full();
    let run = start_on_gpus("ddp-ds", "on", &[], &[]);
    ran_out(&run.fails_soon());
}
