//! Compares several processes that train on one batch together with one process that trains on it alone.
//!
//! Each rank is this test program, started again with an environment variable. Where losses and gradients are compared, batch
//! normalisation is frozen and dropout is off, because both depend on how the batch is split.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;

use multicard::plan::image::{ImageSettings, Layout, Strategy as Level};
use tch::Kind;

use super::*;
use crate::image::testing::{channels_last, settings};
use crate::image::{Image, frozen};
use crate::llm::tests as llm;
use crate::shim::cuda;
use crate::testing::end_with_the_test;
use crate::trainer::Trainer;

/// Tells a process its part: task, rank, world size, and the folder where it meets the others and saves its results.
const PART_VARIABLE: &str = "MULTICARD_TEST_PART";
const STEPS: usize = 4;
const IMAGES: i64 = 12;
/// Rows of a batch: enough for four ranks with two micro-batches each.
const ROWS: i64 = 24;

/// Runs a task on `world_size` ranks and returns each rank's tensors by name.
fn run(task: &str, world_size: u32) -> Vec<Vec<(String, Tensor)>> {
    let folder = tempfile::tempdir().unwrap();
    let children: Vec<_> = (0..world_size).map(|rank| start(task, rank, world_size, folder.path())).collect();
    let finish = |(rank, mut child): (usize, Child)| {
        assert!(child.wait().unwrap().success(), "rank {rank} of {task} failed");
        Tensor::load_multi(found(folder.path(), rank as u32)).unwrap()
    };
    children.into_iter().enumerate().map(finish).collect()
}

fn start(task: &str, rank: u32, world_size: u32, folder: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "parallel::tests::part_of_another_test", "--ignored"]).stdout(Stdio::null());
    let part = format!("{task} {rank} {world_size} {}", folder.display());
    command.env(PART_VARIABLE, part).env("OMP_NUM_THREADS", "1").spawn().unwrap()
}

fn found(folder: &Path, rank: u32) -> PathBuf {
    folder.join(format!("{rank}.pt"))
}

#[test]
#[ignore = "other tests start it as a process"]
fn part_of_another_test() {
    end_with_the_test();
    let part = std::env::var(PART_VARIABLE).unwrap();
    let mut words = part.splitn(4, ' ');
    let task = words.next().unwrap();
    let mut number = || words.next().unwrap().parse::<u32>().unwrap();
    let (rank, world_size) = (number(), number());
    let folder = Path::new(words.next().unwrap());
    let join = || Rc::new(Peers::join_in(folder, rank, world_size, Device::Cpu).unwrap());
    let (peers, found_here) = match task {
        "single" => (None, train(1, None)),
        "replicas" => (None, train(3, None)),
        "ranks" => {
            let peers = join();
            let found = train(1, Some(&peers));
            (Some(peers), found)
        }
        "shards" => {
            let peers = join();
            let found = train_shards(&peers);
            (Some(peers), found)
        }
        "ddp" | "fsdp" => {
            let peers = (world_size > 1).then(join);
            let found = fine_tune(task, Device::Cpu, peers.as_ref());
            (peers, found)
        }
        "ddp-on-gpus" | "fsdp-on-gpus" | "copies-on-gpus" => {
            cuda::open().unwrap();
            cuda::set_device(rank as usize).unwrap();
            let device = Device::Cuda(rank as usize);
            let join = || Rc::new(Peers::join_in(folder, rank, world_size, device).unwrap());
            let peers = (world_size > 1).then(join);
            let found = fine_tune(task.trim_end_matches("-on-gpus"), device, peers.as_ref());
            (peers, found)
        }
        "norm" => {
            let peers = join();
            let found = normalise(Some(&peers));
            (Some(peers), found)
        }
        other => panic!("{other} is no task"),
    };
    Tensor::save_multi(&found_here, found(folder, rank)).unwrap();
    if let Some(peers) = peers {
        peers.leave().unwrap();
    }
}

/// This rank's part of a tensor that covers all images.
fn part(tensor: &Tensor, peers: Option<&Rc<Peers>>) -> Tensor {
    let parts = peers.map_or(1, |peers| i64::from(peers.world_size));
    let length = tensor.size()[0] / parts;
    tensor.narrow(0, peers.map_or(0, |peers| i64::from(peers.rank)) * length, length)
}

/// This rank's images and labels.
fn images(peers: Option<&Rc<Peers>>) -> [Tensor; 2] {
    tch::manual_seed(7);
    let images = part(&Tensor::randn([IMAGES, 3, 32, 32], (Kind::Float, Device::Cpu)), peers);
    [channels_last(&images), part(&Tensor::randint(10, [IMAGES], (Kind::Int64, Device::Cpu)), peers)]
}

/// All tensors, flattened and joined.
fn flat(tensors: &[Tensor]) -> Tensor {
    Tensor::cat(&tensors.iter().map(|tensor| tensor.detach().reshape([-1])).collect::<Vec<_>>(), 0)
}

/// Whether a tensor that has elements has no memory.
fn is_freed(tensor: &Tensor) -> bool {
    // Its pointer is then just an offset from null.
    (tensor.data_ptr() as usize) < tensor.numel() * 8 + (1 << 24)
}

/// The same steps as `train`, on a sharded model. Returns losses and, on rank 0, the weights.
fn train_shards(peers: &Rc<Peers>) -> Vec<(String, Tensor)> {
    frozen::ALL.store(true, Ordering::Relaxed);
    let settings = ImageSettings { layout: Layout::Nhwc, learning_rate: 0.5, strategy: Level::Fsdp, ..settings() };
    let mut trainer = Trainer::new(Image::with(settings), &[Device::Cpu], Some(peers), 1, false).unwrap();
    let batch = images(Some(peers));
    let losses: Vec<_> = (0..STEPS).map(|_| trainer.step(&batch).unwrap()).collect();
    assert!(trainer.module().parameters().iter().all(is_freed), "whole tensors are given back after each step");
    let (seen, in_effect) = trainer.strategy().held().unwrap().unwrap();
    assert!(in_effect, "{seen}");
    trainer.finish().unwrap();
    let mut found = vec![("losses".into(), Tensor::stack(&losses, 0))];
    if peers.rank == 0 {
        found.push(("weights".into(), flat(&trainer.module().parameters())));
    }
    found
}

/// A few steps on one batch. Returns losses, the last gradients and weights.
fn train(devices: usize, peers: Option<&Rc<Peers>>) -> Vec<(String, Tensor)> {
    frozen::ALL.store(true, Ordering::Relaxed);
    // Activations are small without normalisation, so steps must be large.
    let settings = ImageSettings { layout: Layout::Nhwc, learning_rate: 0.5, ..settings() };
    let rank = peers.map_or(0, |peers| peers.rank);
    // Each rank starts with different weights, to be replaced by rank 0's.
    let (task, seed) = (Image::with(settings), 1 + u64::from(rank));
    let mut trainer = Trainer::new(task, &vec![Device::Cpu; devices], peers, seed, false).unwrap();
    let batch = images(peers);
    let losses: Vec<_> = (0..STEPS).map(|_| trainer.step(&batch).unwrap()).collect();
    let parameters = trainer.module().parameters();
    assert_eq!(trainer.optimizer().relaid(), 0);
    vec![
        ("losses".into(), Tensor::stack(&losses, 0)),
        ("gradients".into(), flat(&parameters.iter().map(Tensor::grad).collect::<Vec<_>>())),
        ("weights".into(), flat(&parameters)),
    ]
}

/// Settings of fine-tuning. With each, ranks that share a batch must reproduce the losses of one process.
const TUNED: &[&[(&str, &str)]] = &[
    &[("learning_rate", "0.02"), ("kernels", "fused")],
    &[("learning_rate", "0.02"), ("gradient_accumulation", "2"), ("activation_checkpointing", "on")],
    &[("technique", "full")],
    &[("technique", "full"), ("kernels", "fused"), ("gradient_accumulation", "2")],
    &[("precision", "bf16"), ("learning_rate", "0.02")],
    &[("technique", "dpo"), ("learning_rate", "0.02")],
    &[("technique", "dpo"), ("learning_rate", "0.02"), ("kernels", "fused")],
    &[("technique", "qat"), ("qat_group", "32")],
    &[("technique", "qat"), ("qat_group", "32"), ("kernels", "fused"), ("gradient_accumulation", "2")],
];

/// Steps over this rank's rows of two batches, with each of the settings. Returns losses weighted by tokens or pairs, norms of
/// gradients, the loss of an evaluation with shares of different size, and on rank 0 the trained parameters.
fn fine_tune(sharding: &str, device: Device, peers: Option<&Rc<Peers>>) -> Vec<(String, Tensor)> {
    let mut found = Vec::new();
    for (index, changed) in TUNED.iter().enumerate() {
        let wrap = if index % 2 == 0 { "block" } else { "memory_efficient" };
        let (sharding, gather) = if sharding == "copies" { ("fsdp", "copies") } else { (sharding, "collectives") };
        let spread = [("gpus", "2"), ("sharding", sharding), ("fsdp_wrap", wrap), ("fsdp_gather", gather)];
        let changed = [*changed, &spread].concat();
        let mut trainer = llm::trainer_beside(peers, device, &changed);
        let whole = [llm::batch(device, ROWS, 10), llm::batch(device, ROWS, 14)];
        let mut steps = Vec::new();
        for step in 0..5 {
            let batch: Vec<_> = whole[step % 2].iter().map(|tensor| part(tensor, peers)).collect();
            let seen = trainer.step(&batch).unwrap().to_kind(Kind::Double).to_device(Device::Cpu);
            let tokens = match changed.contains(&("technique", "dpo")) {
                true => Tensor::from(batch[1].size()[0] as f64),
                false => batch[1].narrow(1, 1, batch[1].size()[1] - 1).ge(0).sum(Kind::Double).to_device(Device::Cpu),
            };
            steps.push(Tensor::stack(&[seen.get(0) * &tokens, tokens, seen.get(seen.size()[0] - 1)], 0));
        }
        found.push((format!("steps.{index}"), Tensor::stack(&steps, 0)));
        let mut batches = vec![whole[0].iter().map(|tensor| part(tensor, peers)).collect()];
        if peers.is_none_or(|peers| peers.rank == 0) {
            batches.push(whole[1].iter().map(Tensor::shallow_clone).collect::<Vec<_>>());
        }
        let (mut totals, mut batches) = (trainer.totals().unwrap(), batches.into_iter());
        loop {
            let batch = batches.next();
            if !trainer.goes_on(batch.is_some()).unwrap() {
                break;
            }
            match batch {
                Some(batch) => trainer.evaluate(&batch, &mut totals).unwrap(),
                None => trainer.evaluate_nothing().unwrap(),
            }
        }
        let score = trainer.score(&totals).unwrap();
        found.push((format!("test.{index}"), Tensor::from_slice(&[score[0].1, score[1].1])));
        let held = trainer.strategy().held().unwrap();
        assert_eq!(held.is_some(), peers.is_some() && sharding == "fsdp");
        if let Some((seen, in_effect)) = held {
            assert!(in_effect && trainer.module().parameters().iter().all(is_freed), "{seen}");
        }
        trainer.finish().unwrap();
        if peers.is_none_or(|peers| peers.rank == 0) {
            let trained = flat(&trainer.module().parameters()).to_kind(Kind::Float).to_device(Device::Cpu);
            found.push((format!("trained.{index}"), trained));
        }
    }
    found
}

/// Forward and backward pass of batch normalisation, over ranks or alone.
fn normalise(peers: Option<&Rc<Peers>>) -> Vec<(String, Tensor)> {
    let options = (Kind::Double, Device::Cpu);
    tch::manual_seed(7);
    // Far from zero, where a sum of squares would lose precision.
    let images = Tensor::randn([IMAGES, 5, 4, 3], options) * 3.0 + 50.0;
    let weights = part(&Tensor::randn([IMAGES, 5, 4, 3], options), peers);
    let images = part(&images, peers).copy().set_requires_grad(true);
    let scale = (Tensor::arange(5, options) + 0.5).set_requires_grad(true);
    let shift = Tensor::arange(5, options).set_requires_grad(true);
    let (mean, variance) = (Tensor::zeros([5], options), Tensor::ones([5], options));
    let output = match peers {
        Some(peers) => peers.group().batch_norm(&images, [&scale, &shift, &mean, &variance], 0.1, 1e-5).unwrap(),
        None => images.batch_norm(Some(&scale), Some(&shift), Some(&mean), Some(&variance), true, 0.1, 1e-5, false),
    };
    (&output * weights).sum(Kind::Double).backward();
    vec![
        ("output".into(), output.detach()),
        ("image gradients".into(), images.grad()),
        ("scale gradient".into(), scale.grad()),
        ("shift gradient".into(), shift.grad()),
        ("mean".into(), mean),
        ("variance".into(), variance),
    ]
}

fn get<'a>(found: &'a [(String, Tensor)], name: &str) -> &'a Tensor {
    &found.iter().find(|(other, _)| other == name).unwrap().1
}

/// The largest difference divided by the largest value.
fn difference(a: &Tensor, b: &Tensor) -> f64 {
    (a - b).abs().max().double_value(&[]) / b.abs().max().double_value(&[])
}

#[test]
fn ranks_and_replicas_take_the_steps_of_one_process_with_the_whole_batch() {
    /// Relative to the largest value: sums in a different order, over four steps in fp32.
    const TOLERANCE: f64 = 1e-5;
    let alone = &run("single", 1)[0];
    let losses = get(alone, "losses");
    assert!(losses.get(3).double_value(&[]) < 0.95 * losses.get(0).double_value(&[]), "it must learn: {losses:?}");
    let replicas = &run("replicas", 1)[0];
    for name in ["losses", "gradients", "weights"] {
        let found = difference(get(replicas, name), get(alone, name));
        assert!(found < TOLERANCE, "{name} of replicas differ by {found}");
    }
    for world_size in [2, 3] {
        let ranks = run("ranks", world_size);
        let all: Vec<_> = ranks.iter().map(|rank| get(rank, "losses")).collect();
        let mean = Tensor::stack(&all, 0).mean_dim(0, false, Kind::Float);
        assert!(difference(&mean, losses) < TOLERANCE, "{mean:?} {losses:?}");
        for rank in &ranks {
            for name in ["gradients", "weights"] {
                assert_eq!(get(rank, name), get(&ranks[0], name), "{name} of ranks must be the same bits");
                let found = difference(get(rank, name), get(alone, name));
                assert!(found < TOLERANCE, "{name} of {world_size} ranks differ by {found}");
            }
            let own = get(rank, "losses");
            let found = difference(own, losses);
            assert!(found > 10.0 * TOLERANCE, "a rank has images of its own, yet its losses differ by {found} only");
        }
    }
}

/// Compares ranks that share batches with one process that has them all.
fn fine_tunes_as_one_process(sharding: &str, world_sizes: &[u32]) {
    let alone = &run(sharding, 1)[0];
    for &world_size in world_sizes {
        let ranks = run(sharding, world_size);
        for (index, changed) in TUNED.iter().enumerate() {
            let case = format!("{sharding} over {world_size}, {changed:?}");
            let tensor_of =
                |found: &[(String, Tensor)], what: &str| get(found, &format!("{what}.{index}")).shallow_clone();
            let tolerance = match changed {
                _ if changed.contains(&("precision", "bf16")) => 3e-2,
                // Rounding moves a few numbers to the next 8-bit or 4-bit code.
                _ if changed.contains(&("technique", "qat")) => 5e-3,
                _ => 2e-5,
            };
            let expected = tensor_of(alone, "steps");
            let all: Vec<_> = ranks.iter().map(|rank| tensor_of(rank, "steps")).collect();
            let sums = Tensor::stack(&all, 0).sum_dim_intlist(0, false, Kind::Double);
            let loss = |steps: &Tensor| steps.select(1, 0) / steps.select(1, 1);
            let (found, losses) = (loss(&sums), loss(&expected));
            assert!(difference(&found, &losses) < tolerance, "{case}: {found} {losses}");
            assert!(losses.double_value(&[4]) < 0.99 * losses.double_value(&[0]), "it must learn: {losses}");
            for rank in &ranks {
                // Later steps differ: AdamW's first update is as large for a gradient of mere rounding errors as for any other.
                let [found, norms] =
                    [&tensor_of(rank, "steps"), &expected].map(|steps| steps.select(1, 2).narrow(0, 0, 3));
                assert!(difference(&found, &norms) < 10.0 * tolerance, "{case}: {found} {norms}");
                let (found, test) = (tensor_of(rank, "test"), tensor_of(alone, "test"));
                assert!(difference(&found, &test) < tolerance, "{case}: {found} {test}");
            }
            let (found, trained) = (tensor_of(&ranks[0], "trained"), tensor_of(alone, "trained"));
            let mean = |tensor: Tensor| tensor.abs().mean(Kind::Double).double_value(&[]);
            let found = mean(&found - &trained) / mean(trained);
            assert!(found < 100.0 * tolerance, "{case}: weights differ by {found}");
        }
    }
}

#[test]
fn ranks_fine_tune_with_the_losses_and_gradients_of_one_process() {
    fine_tunes_as_one_process("ddp", &[2, 3]);
}

#[test]
fn shards_fine_tune_with_the_losses_and_gradients_of_one_process() {
    fine_tunes_as_one_process("fsdp", &[2, 3, 4]);
}

#[test]
#[ignore = "needs two GPUs: make test-gpu"]
fn shards_and_ranks_on_two_gpus_fine_tune_with_the_losses_and_gradients_of_one() {
    fine_tunes_as_one_process("ddp-on-gpus", &[2]);
    fine_tunes_as_one_process("fsdp-on-gpus", &[2]);
    fine_tunes_as_one_process("copies-on-gpus", &[2]);
}

#[test]
fn shards_of_an_image_model_take_the_steps_of_one_process() {
    const TOLERANCE: f64 = 1e-5;
    let alone = &run("single", 1)[0];
    for world_size in [2, 3, 4] {
        let ranks = run("shards", world_size);
        let all: Vec<_> = ranks.iter().map(|rank| get(rank, "losses")).collect();
        let mean = Tensor::stack(&all, 0).mean_dim(0, false, Kind::Float);
        for (name, found) in [("losses", &mean), ("weights", get(&ranks[0], "weights"))] {
            let found = difference(found, get(alone, name));
            assert!(found < TOLERANCE, "{name} of {world_size} ranks differ by {found}");
        }
    }
}

#[test]
fn synchronised_batch_norm_is_that_of_the_whole_batch() {
    const TOLERANCE: f64 = 1e-12;
    let alone = normalise(None);
    let ranks = run("norm", 3);
    let tensors_named = |name: &str| ranks.iter().map(|rank| get(rank, name)).collect::<Vec<_>>();
    for name in ["output", "image gradients"] {
        assert!(difference(&Tensor::cat(&tensors_named(name), 0), get(&alone, name)) < TOLERANCE, "{name}");
    }
    // Each rank has its own images' contribution.
    for name in ["scale gradient", "shift gradient"] {
        let sum = Tensor::stack(&tensors_named(name), 0).sum_dim_intlist(0, false, Kind::Double);
        assert!(difference(&sum, get(&alone, name)) < TOLERANCE, "{name}");
    }
    for name in ["mean", "variance"] {
        assert!(tensors_named(name).iter().all(|found| difference(found, get(&alone, name)) < TOLERANCE), "{name}");
    }
}
