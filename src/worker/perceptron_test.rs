//! A second workload: a two-layer perceptron on the digits, trained over two ranks by the loop that trains images. No other
//! file knows of it.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use multicard::dataset::{self, Images};
use multicard::plan::image::DataSet;
use multicard::plan::{
    CudaState, Estimate, Factor, Level, Levels, Mode, Node, OptimizerImpl, Plan, Request, Shape, USUAL_DATA,
    USUAL_STEP, Unit, Worker, WorkloadSpec, expand,
};
use multicard::protocol::{Event, EventLine, Evidence, Job, MEETING_VARIABLE, PROTOCOL_VERSION, RankPlace, rank_log};
use tch::{Device, Kind, Reduction, TchError, Tensor};

use crate::module::{Module, Pass};
use crate::precision::Arithmetic;
use crate::report::{Report, Stop};
use crate::shim::{Flags, Sgd};
use crate::task::{self, Forward, Made, Optimizer, Rank, Readings, Task};
use crate::train;
use crate::trainer::Trainer;
use crate::work::{Counted, Product, Work};

const PIXELS: i64 = 784;
const CLASSES: i64 = 10;
const IMAGES: i64 = 2000;
const BATCH: i64 = 50;

/// The workload as plans know it.
fn spec() -> Arc<WorkloadSpec> {
    Arc::new(WorkloadSpec {
        key: "perceptron".into(),
        name: "Perceptron".into(),
        unit: Unit { one: "digit".into(), many: "digits".into() },
        step: USUAL_STEP.into(),
        data_name: USUAL_DATA.into(),
        factors: vec![
            Factor::count("ranks", "Ranks", 1..=8, 2),
            Factor::count("hidden", "Hidden units", 1..=4096, 32),
            Factor::count("epochs", "Epochs", 1..=100, 2),
        ],
        main_factors: Vec::new(),
        data_sets: Vec::new(),
        cuts: Vec::new(),
        measures: Vec::new(),
        recurring_cells: Default::default(),
        declared_cells: Default::default(),
        command: None,
        check,
    })
}

fn check(request: &Request) -> Result<(Shape, Estimate), String> {
    let Perceptron { ranks, epochs, .. } = Perceptron::read(request.levels)?;
    if ranks > request.node.cpus {
        return Err(format!("{ranks} ranks need as many CPUs: use at most {}", request.node.cpus));
    }
    let (ranks_of, batch) = (i64::from(ranks), u64::from(ranks) * BATCH as u64);
    let steps = (IMAGES / BATCH / ranks_of) as u64 * u64::from(epochs);
    let shape = Shape { processes: ranks, steps, units_per_step: batch, ..Shape::default() };
    Ok((
        shape,
        Estimate {
            duration_s: 5.0,
            start_s: 2.0,
            peak_bytes: 1 << 28,
            host_bytes: u64::from(ranks) << 28,
            ..Estimate::default()
        },
    ))
}

/// Classification of digits by their pixels.
struct Perceptron {
    ranks: u32,
    hidden: i64,
    epochs: u32,
}

impl Perceptron {
    fn read(levels: &Levels) -> Result<Self, String> {
        let level = |key: &str| {
            let level = levels.get(key).and_then(Level::as_integer);
            level.ok_or_else(|| format!("the level of {key} must be a whole number"))
        };
        Ok(Self { ranks: level("ranks")? as u32, hidden: level("hidden")?, epochs: level("epochs")? as u32 })
    }
}

/// The weight and the bias of each layer.
struct Layers([Tensor; 4]);

impl Module for Layers {
    type Input = Tensor;

    fn units(&self) -> Vec<Vec<Tensor>> {
        self.0.chunks(2).map(|layer| layer.iter().map(Tensor::shallow_clone).collect()).collect()
    }

    fn forward(&self, pixels: &Tensor, pass: &Pass) -> Result<Tensor, TchError> {
        let [weight, bias, last_weight, last_bias] = &self.0;
        let hidden = pass.unit(0, pixels, |pixels| pixels.f_linear(weight, Some(bias))?.f_relu())?;
        pass.unit(1, &hidden, |hidden| hidden.f_linear(last_weight, Some(last_bias)))
    }
}

impl Task for Perceptron {
    type Inputs = [Tensor; 2];
    type Module = Layers;
    type Data = Digits;
    /// The sum of losses, correct images, images.
    type Totals = Tensor;

    fn new(job: &Job) -> Result<Self, String> {
        Self::read(&job.levels)
    }

    fn epochs(&self) -> u32 {
        self.epochs
    }

    fn strategy(&self) -> &str {
        "ddp"
    }

    fn flags(&self) -> Flags {
        Flags { cudnn_benchmark: false, tf32_conv: false, tf32_matmul: false, deterministic: true }
    }

    fn arithmetic(&self, device: Device) -> Result<Arithmetic, TchError> {
        Arithmetic::new(device, Kind::Float, None, false)
    }

    fn model(&self) -> &str {
        "perceptron"
    }

    fn module(&self, device: Device, weights: Kind, made: Made) -> Result<Layers, TchError> {
        let options = (weights, Device::Cpu);
        let random = |to, from| Tensor::f_randn([to, from], options)?.f_mul_scalar((2.0 / from as f64).sqrt());
        let zeros = |count| Tensor::f_zeros([count], options);
        let layers =
            [random(self.hidden, PIXELS)?, zeros(self.hidden)?, random(CLASSES, self.hidden)?, zeros(CLASSES)?];
        let layers = Layers(layers.map(|tensor| tensor.to_device(device).set_requires_grad(true)));
        layers.units().iter().try_for_each(|unit| made(unit))?;
        Ok(layers)
    }

    fn optimizer(&self, parameters: &[Tensor]) -> Result<Box<dyn Optimizer>, TchError> {
        Ok(Box::new(Sgd::new(parameters, 0.02, 0.9, OptimizerImpl::Fused)?))
    }

    fn data(&self, rank: Rank, _report: &mut Report) -> Result<Digits, Stop> {
        let set =
            dataset::load(&DataSet::Digits, &rank.job.data_folder).map_err(|error| Stop::engine(&error.to_string()))?;
        let tensors = |images: &Images| {
            let part = |bytes: &[u8]| Tensor::from_slice(bytes).to_device(rank.device.device);
            let pixels = part(&images.pixels[..(IMAGES * PIXELS) as usize]).reshape([IMAGES, PIXELS]);
            [pixels.to_kind(Kind::Float) / 255.0, part(&images.labels[..IMAGES as usize]).to_kind(Kind::Int64)]
        };
        let (place, ranks) = rank.peers.map_or((0, 1), |peers| (i64::from(peers.rank), i64::from(peers.world_size)));
        Ok(Digits { train: tensors(&set.train), test: tensors(&set.test), place, ranks })
    }

    fn loss(&self, forward: &mut Forward<Layers>, [pixels, labels]: &[Tensor; 2]) -> Result<Tensor, TchError> {
        forward.run(pixels)?.f_cross_entropy_loss(labels, None::<&Tensor>, Reduction::Mean, -100, 0.0)
    }

    fn work(&self, _layers: &Layers, [pixels, _]: &[Tensor; 2], kind: Kind) -> Work {
        let (images, counted) = (pixels.size()[0], Counted { kind, train: true });
        let first = Product { input_gradient: false, ..Product::linear(images, PIXELS, self.hidden) };
        first.work(counted) + Product::linear(images, self.hidden, CLASSES).work(counted)
    }

    fn totals(&self, device: Device) -> Result<Tensor, TchError> {
        Tensor::f_zeros([3], (Kind::Double, device))
    }

    fn evaluate(
        &self,
        forward: &mut Forward<Layers>,
        [pixels, labels]: &[Tensor; 2],
        totals: &mut Tensor,
    ) -> Result<(), TchError> {
        let logits = forward.run(pixels)?;
        let loss = logits.f_cross_entropy_loss(labels, None::<&Tensor>, Reduction::Sum, -100, 0.0)?;
        let correct = logits.f_argmax(1, false)?.f_eq_tensor(labels)?.f_sum(Kind::Double)?;
        *totals += Tensor::f_stack(&[loss.to_kind(Kind::Double), correct, Tensor::from(BATCH as f64)], 0)?;
        Ok(())
    }

    fn score(&self, totals: &Tensor, sum: &dyn Fn(&Tensor) -> Result<(), TchError>) -> Result<Readings, TchError> {
        sum(totals)?;
        let sums = Vec::<f64>::try_from(totals)?;
        Ok(vec![("test_loss", sums[0] / sums[2]), ("accuracy", sums[1] / sums[2]), ("test_units", sums[2])])
    }

    fn proof(&self, _trainer: &Trainer<Self>, batch: &Part) -> Result<Vec<Evidence>, TchError> {
        let seen = format!("a batch of {:?}", batch.0[0].size());
        Ok(vec![Evidence { factor: "batch_size".into(), asked: BATCH.to_string(), seen, in_effect: true }])
    }
}

/// Every rank takes every `ranks`th batch.
struct Digits {
    train: [Tensor; 2],
    test: [Tensor; 2],
    place: i64,
    ranks: i64,
}

struct Part([Tensor; 2]);

struct Parts<'a> {
    set: &'a [Tensor; 2],
    next: i64,
    step: i64,
}

impl task::Batch for Part {
    type Inputs = [Tensor; 2];

    fn inputs(&self) -> &[Tensor; 2] {
        &self.0
    }

    fn units(&self) -> u32 {
        BATCH as u32
    }

    fn wait_s(&self) -> f64 {
        0.0
    }
}

impl task::Data for Digits {
    type Batch = Part;
    type Epoch<'a> = Parts<'a>;

    fn batches(&self) -> usize {
        (IMAGES / BATCH / self.ranks) as usize
    }

    fn train(&mut self, _epoch: u32) -> Parts<'_> {
        Parts { set: &self.train, next: self.place, step: self.ranks }
    }

    fn test(&mut self, _epoch: u32) -> Parts<'_> {
        Parts { set: &self.test, next: self.place, step: self.ranks }
    }
}

impl task::Epoch for Parts<'_> {
    type Batch = Part;

    fn next(&mut self) -> Result<Option<Part>, Stop> {
        let start = self.next * BATCH;
        self.next += self.step;
        let part = || self.set.each_ref().map(|tensor| tensor.narrow(0, start, BATCH));
        Ok((start < IMAGES).then(|| Part(part())))
    }
}

/// Tells a process of the test its rank and folder.
const RANK_VARIABLE: &str = "MULTICARD_TEST_PERCEPTRON";

/// The job of the plan's only cell.
fn job(folder: &Path, mode: Mode) -> Job {
    let worker = Worker {
        path: "multicard-worker".into(),
        version: String::new(),
        protocol_version: PROTOCOL_VERSION,
        torch_version: String::new(),
        cuda: CudaState::Unavailable { reason: "a test".into() },
        dali: Err("a test".into()),
        versions: Default::default(),
    };
    let node = Node {
        hostname: "small".into(),
        system: "Linux".into(),
        cpu_model: "a processor".into(),
        cpus: 2,
        memory_bytes: 8 << 30,
        numa_nodes: 1,
        driver: None,
        no_gpu_reason: Some("a test".into()),
        gpus: Vec::new(),
        nodes: 1,
        worker: Ok(worker),
        nsys: Err("a test".into()),
        tracer: Err("it was not built".to_owned()),
    };
    let mut plan = Plan::new("digits", spec());
    plan.mode = mode;
    plan.first.factors[0].1.push(Level::Integer(4));
    if !mode.is_full() {
        plan.first.factors[2].1 = vec![Level::Integer(100)];
    }
    let matrix = expand(&plan, &node);
    assert_eq!(matrix.invalid[0].reason, "4 ranks need as many CPUs: use at most 2");
    let [cell] = &matrix.cells[..] else { panic!("{matrix:?}") };
    Job {
        run: "run".into(),
        // Beside this program: making them takes a while.
        data_folder: std::env::current_exe().unwrap().with_file_name("digits"),
        warm_up_steps: 2,
        mode,
        folder: folder.into(),
        ranks: (0..cell.shape.processes).map(|rank| RankPlace::on_cpu(rank, 1)).collect(),
        ..Job::new(cell.workload.clone(), cell.levels.clone(), cell.shape, cell.data.clone())
    }
}

#[test]
#[ignore = "another test starts it as a process"]
fn one_rank_of_the_perceptron() {
    crate::testing::end_with_the_test();
    let variable = std::env::var(RANK_VARIABLE).unwrap();
    let mut parts = variable.splitn(3, ' ');
    let mut part = || parts.next().unwrap();
    let (rank, mode, folder) = (part(), part(), part());
    let (rank, job) = (rank.parse::<usize>().unwrap(), job(Path::new(folder), serde_json::from_str(mode).unwrap()));
    let mut report = Report::open(&job, rank as u32).unwrap();
    train::start(Perceptron::new(&job).unwrap(), &job, &job.ranks[rank], &mut report).unwrap();
}

#[test]
fn a_perceptron_learns_the_digits_over_two_ranks_in_the_one_loop() {
    let logs = run_over_two_ranks(Mode::Full);
    for log in &logs {
        let losses = steps(log, |loss, _| loss);
        assert_eq!(losses.len(), 40);
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        assert!(mean(&losses[30..]) < 0.5 * mean(&losses[..10]), "{losses:?}");
        assert_eq!(reading(log, "parameters"), [(784 * 32 + 32 + 32 * 10 + 10) as f64]);
        assert_eq!(reading(log, "test_units"), [IMAGES as f64; 2]);
        // The first layer forward and for its weight, the second one for its input too; said once, for all steps are alike.
        assert_eq!(reading(log, "flop_per_step"), [(2 * BATCH * 32 * (2 * PIXELS + 3 * CLASSES)) as f64]);
        assert!(reading(log, "accuracy")[1] > 0.5, "{:?}", reading(log, "accuracy"));
        let seen: Vec<_> =
            log.iter().filter_map(|event| if let Event::Evidence(seen) = event { Some(seen) } else { None }).collect();
        assert!(seen.iter().all(|evidence| evidence.in_effect), "{seen:?}");
        assert!(seen.iter().any(|evidence| evidence.seen.contains("equal on all 2 ranks")), "{seen:?}");
    }
    assert_ne!(reading(&logs[0], "train_loss"), reading(&logs[1], "train_loss"), "each rank has batches of its own");
    assert_eq!(reading(&logs[0], "test_loss"), reading(&logs[1], "test_loss"));
}

#[test]
fn a_quick_run_ends_at_the_same_step_on_all_ranks_and_tells_no_losses_of_epochs() {
    let logs = run_over_two_ranks(Mode::Quick { step_precision: 0.5 });
    let [first, second] = &logs.each_ref().map(|log| steps(log, |_, warm_up| warm_up));
    assert_eq!(first, second, "the same steps count on all ranks");
    // 100 epochs of 20 steps; some 50 find the warm-up, and 100 are the least that have an interval.
    assert!((140..1_900).contains(&first.len()), "{}", first.len());
    assert!(first[0] && !first[first.len() - 1]);
    for log in &logs {
        assert_eq!(reading(log, "planned_steps"), [2_000.0]);
        for key in ["train_loss", "epoch_time_s", "accuracy", "evaluation_time_s"] {
            assert_eq!(reading(log, key), [0.0; 0], "{key}");
        }
    }
}

/// What two ranks of the perceptron said. Quick runs have 100 epochs.
fn run_over_two_ranks(mode: Mode) -> [Vec<Event>; 2] {
    let folder = tempfile::tempdir().unwrap();
    let start = |rank: u32| {
        let mode = serde_json::to_string(&mode).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "perceptron_test::one_rank_of_the_perceptron", "--ignored"]);
        command.stdout(Stdio::null()).env(MEETING_VARIABLE, folder.path()).env("OMP_NUM_THREADS", "1");
        command.env(RANK_VARIABLE, format!("{rank} {mode} {}", folder.path().display())).spawn().unwrap()
    };
    for mut rank in [start(0), start(1)] {
        assert!(rank.wait().unwrap().success());
    }
    [0, 1].map(|rank| events(&folder.path().join(rank_log(rank))))
}

/// Something of each step, by its loss and whether it is warm-up.
fn steps<T>(log: &[Event], value_of: fn(f64, bool) -> T) -> Vec<T> {
    let step = |event: &Event| match event {
        Event::Step { loss, warm_up, .. } => Some(value_of(*loss, *warm_up)),
        _ => None,
    };
    log.iter().filter_map(step).collect()
}

fn events(path: &PathBuf) -> Vec<Event> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str::<EventLine>(line).unwrap().event).collect()
}

fn reading(log: &[Event], reading_key: &str) -> Vec<f64> {
    let value = |event: &Event| match event {
        Event::Reading { key, value, .. } if *key == reading_key => Some(*value),
        _ => None,
    };
    log.iter().filter_map(value).collect()
}
