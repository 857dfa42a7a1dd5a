//! The workload `image`: MobileNetV2 on digits or colour files (2503.15252 section 3).

mod coverage;
pub mod dali;
mod data;
mod fence;
mod mobilenet_v2;
mod proof;
mod set;
#[cfg(test)]
pub mod testing;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use multicard::dataset;
use multicard::plan::image::{
    CudnnBenchmark, DataSet, ImageSettings, Layout, Precision, Scenario, Strategy, Tf32, UpdateRule,
};
use multicard::plan::{Kernels, Passes};
use multicard::protocol::{Event, Evidence, FailureKind, Job};
use tch::{Device, Kind, Reduction, TchError, Tensor};

use crate::module::Module;
use crate::parallel::{Peers, Wrap};
use crate::precision::Arithmetic;
use crate::report::{Report, Stop};
use crate::shim::{AdamW, Flags, Sgd, keep_plans, mobilenet};
use crate::task::{self, Forward, Made, Optimizer, Rank, Readings, Task};
use crate::trainer::Trainer;
use crate::work::{Counted, Work};
use coverage::Coverage;
use data::{Batch, Deal, Epoch, Loader, Mode, Shard};
pub use mobilenet_v2::MobileNetV2;
#[cfg(test)]
pub use mobilenet_v2::frozen;

/// The smallest number of classes of the model: the ten digits. A set of files may have more classes.
const LEAST_CLASSES: usize = 10;
/// SGD momentum.
const MOMENTUM: f64 = 0.9;
/// Weight decay of `torch.optim.AdamW`.
const WEIGHT_DECAY: f64 = 0.01;
/// The label that cross entropy skips; no image has it.
const IGNORED_LABEL: i64 = -100;

/// Classification of images.
pub struct Image {
    settings: ImageSettings,
    /// Number of the model's classes.
    classes: usize,
}

/// The sums of this rank's evaluation steps, on the device.
pub struct Totals {
    loss: Tensor,
    correct: Tensor,
    images: u64,
}

#[cfg(test)]
impl Image {
    /// The task for the settings of a cell, without a job.
    pub fn with(settings: ImageSettings) -> Self {
        Self { settings, classes: LEAST_CLASSES }
    }
}

impl Task for Image {
    /// Images and labels.
    type Inputs = [Tensor; 2];
    type Module = MobileNetV2;
    type Data = Images;
    type Totals = Totals;

    fn new(job: &Job) -> Result<Self, String> {
        let settings = check(job)?;
        // A folder that cannot be read is named when its files are.
        let found = match settings.scenario {
            Scenario::A => 0,
            Scenario::B => dataset::class_count(&job.data_folder).unwrap_or_default(),
        };
        Ok(Self { settings, classes: found.max(LEAST_CLASSES) })
    }

    fn epochs(&self) -> u32 {
        self.settings.epochs as u32
    }

    fn strategy(&self) -> &str {
        self.settings.strategy.name()
    }

    fn passes(&self) -> Passes {
        self.settings.passes
    }

    fn flags(&self) -> Flags {
        flags(&self.settings)
    }

    fn arithmetic(&self, device: Device) -> Result<Arithmetic, TchError> {
        let (weights, mixed) = match self.settings.precision {
            Precision::Fp32 => (Kind::Float, None),
            Precision::Fp64 => (Kind::Double, None),
            Precision::Fp16 => (Kind::Float, Some(Kind::Half)),
            Precision::Bf16 => (Kind::Float, Some(Kind::BFloat16)),
        };
        Arithmetic::new(device, weights, mixed, self.settings.precision == Precision::Fp16)
    }

    fn model(&self) -> &str {
        "mobilenet_v2"
    }

    fn wrap(&self) -> Option<Wrap> {
        (self.settings.strategy == Strategy::Fsdp).then_some(Wrap::Units)
    }

    fn module(&self, device: Device, weights: Kind, made: Made) -> Result<MobileNetV2, TchError> {
        let ImageSettings { width_multiplier, layout, batch_norm, kernels, .. } = self.settings;
        if kernels == Kernels::Fused {
            mobilenet::compile(self.arithmetic(device)?.products())?;
        }
        if device.is_cuda() && keeps_plans(&self.settings) {
            keep_plans(true)?;
        } else if device.is_cuda() && kernels == Kernels::Fused && !self.settings.deterministic {
            // Evaluation also uses cuDNN: without trying algorithms, but with kernels that are compiled at run time. On machines where
            // compiled kernels cannot be kept, that takes 2 s more.
            let _slower = keep_plans(false);
        }
        let network = MobileNetV2::new(self.classes as i64, width_multiplier, device, weights, layout == Layout::Nhwc)?;
        network.units().iter().try_for_each(|unit| made(unit))?;
        Ok(network.over_ranks(batch_norm).with_kernels(kernels))
    }

    fn optimizer(&self, parameters: &[Tensor]) -> Result<Box<dyn Optimizer>, TchError> {
        let ImageSettings { learning_rate, optimizer, optimizer_impl, .. } = self.settings;
        let adam = |decay| AdamW::at_rate(parameters, learning_rate, decay, optimizer_impl);
        Ok(match optimizer {
            UpdateRule::Sgd => Box::new(Sgd::new(parameters, learning_rate, MOMENTUM, optimizer_impl)?),
            UpdateRule::Adam => Box::new(adam(0.0)?),
            UpdateRule::Adamw => Box::new(adam(WEIGHT_DECAY)?),
        })
    }

    fn data(&self, rank: Rank, report: &mut Report) -> Result<Images, Stop> {
        Images::read(&self.settings, rank, report)
    }

    fn loss(&self, forward: &mut Forward<MobileNetV2>, [images, labels]: &[Tensor; 2]) -> Result<Tensor, TchError> {
        cross_entropy(&logits(forward, images)?, labels, Reduction::Mean)
    }

    fn work(&self, module: &MobileNetV2, [images, _]: &[Tensor; 2], kind: Kind) -> Work {
        module.work(images, Counted { kind, train: self.passes() == Passes::Training })
    }

    fn totals(&self, device: Device) -> Result<Totals, TchError> {
        let zero = |kind| Tensor::f_zeros([0i64; 0], (kind, device));
        Ok(Totals { loss: zero(Kind::Double)?, correct: zero(Kind::Int64)?, images: 0 })
    }

    fn evaluate(
        &self,
        forward: &mut Forward<MobileNetV2>,
        [images, labels]: &[Tensor; 2],
        totals: &mut Totals,
    ) -> Result<(), TchError> {
        let logits = logits(forward, images)?;
        let loss = cross_entropy(&logits, labels, Reduction::Sum)?;
        let _ = totals.loss.f_add_(&loss.f_to_kind(Kind::Double)?)?;
        let correct = logits.f_argmax(1, false)?.f_eq_tensor(labels)?.f_sum(Kind::Int64)?;
        let _ = totals.correct.f_add_(&correct)?;
        totals.images += labels.size1()? as u64;
        Ok(())
    }

    fn score(&self, totals: &Totals, sum: &dyn Fn(&Tensor) -> Result<(), TchError>) -> Result<Readings, TchError> {
        let images = Tensor::f_full([0i64; 0], totals.images as f64, (Kind::Double, totals.loss.device()))?;
        // Counts are exact in fp64.
        let sums = Tensor::f_stack(&[totals.loss.shallow_clone(), totals.correct.f_to_kind(Kind::Double)?, images], 0)?;
        sum(&sums)?;
        let sums = Vec::<f64>::try_from(&sums.f_to_device(Device::Cpu)?)?;
        let images = sums[2].max(1.0);
        Ok(vec![("test_loss", sums[0] / images), ("accuracy", sums[1] / images), ("test_units", sums[2])])
    }

    fn proof(&self, trainer: &Trainer<Self>, batch: &Batch) -> Result<Vec<Evidence>, TchError> {
        proof::gather(trainer, batch)
    }

    fn preparation(&self, batch: &Batch) -> Result<Readings, TchError> {
        let tried = proof::plans(&self.settings, batch)?.filter(|plans| plans.finding_s > 0.0);
        Ok(tried.map(|plans| ("cudnn_trials_s", plans.finding_s)).into_iter().collect())
    }
}

fn logits(forward: &mut Forward<MobileNetV2>, images: &Tensor) -> Result<Tensor, TchError> {
    let logits = forward.run(images)?;
    forward.for_loss(&logits)
}

fn cross_entropy(logits: &Tensor, labels: &Tensor, reduction: Reduction) -> Result<Tensor, TchError> {
    logits.f_cross_entropy_loss(labels, None::<&Tensor>, reduction, IGNORED_LABEL, 0.0)
}

/// The libtorch switches of the process that a cell asks for.
fn flags(settings: &ImageSettings) -> Flags {
    Flags {
        cudnn_benchmark: settings.cudnn_benchmark != CudnnBenchmark::Off && tries(settings),
        tf32_conv: settings.tf32 != Tf32::Off,
        tf32_matmul: settings.tf32 == Tf32::All,
        deterministic: settings.deterministic,
    }
}

/// Whether cuDNN may try its algorithms; its choice may then differ from run to run. Fused steps have no algorithms to try, and trials do
/// not pay for runs that only evaluate.
fn tries(settings: &ImageSettings) -> bool {
    !settings.deterministic && settings.kernels == Kernels::Plain
}

/// Whether the plans that cuDNN chose are kept between runs.
fn keeps_plans(settings: &ImageSettings) -> bool {
    settings.cudnn_benchmark == CudnnBenchmark::Kept && tries(settings)
}

/// Reads the settings of a job and checks that they can be combined.
fn check(job: &Job) -> Result<ImageSettings, String> {
    let settings = ImageSettings::from_levels(&job.levels)?;
    if settings.shape() != job.shape {
        return Err(format!("its levels come to {:?}, its shape is {:?}", settings.shape(), job.shape));
    }
    if settings.strategy == Strategy::Single && settings.gpus > 1 {
        return Err(format!("strategy = single has one rank, not {}", settings.gpus));
    }
    let positive = [
        ("batch_size", settings.batch_size),
        ("epochs", settings.epochs),
        ("image_size", settings.image_size.max(0) as usize),
        ("loader_workers", settings.loader_workers),
        ("train_images", settings.train_images),
        ("test_images", settings.test_images),
    ];
    if let Some((factor, _)) = positive.iter().find(|(_, value)| *value == 0) {
        return Err(format!("{factor} must be at least 1"));
    }
    let files = matches!(DataSet::read(&job.data)?, DataSet::Folder { .. });
    if files != (settings.scenario == Scenario::B) {
        return Err(format!("scenario = {} does not fit data.set = {}", settings.scenario.name(), job.data.set));
    }
    Ok(settings)
}

/// The images of a rank, and the loaders that prepare their batches.
pub struct Images {
    settings: ImageSettings,
    train: Loader,
    test: Loader,
}

impl Images {
    fn read(settings: &ImageSettings, rank: Rank, report: &mut Report) -> Result<Self, Stop> {
        let Rank { job, device, peers, .. } = rank;
        let begun = Instant::now();
        let set = set::read(job, settings, peers)?;
        report.reading("load_from_disk_s", begun.elapsed().as_secs_f64(), None, None)?;
        report.reading("set_bytes_in_memory", set.bytes(peers) as f64, None, None)?;
        for message in set.left_out {
            report.event(Event::Warning { message })?;
        }
        report.event(Event::Evidence(set.copies))?;
        let shard = shard(settings, peers);
        report.reading("unit_copies", shard.copies() as f64, None, None)?;
        // Several models in one process are fed by one loader.
        let fed = ImageSettings { batch_size: settings.batch_size * device.devices.len(), ..settings.clone() };
        let loader = |samples, mode| Loader::new(samples, &fed, device.device, job.seed, mode, shard, fence::new);
        let train = loader(Arc::new(set.train), Mode::Train)?;
        let test = loader(Arc::new(set.test), Mode::Evaluate)?;
        if train.batches() == 0 {
            let message = format!(
                "train_images = {} gives {} devices no full batch of {}: lower batch_size or take more images",
                settings.train_images, settings.gpus, settings.batch_size
            );
            return Err(Stop::failed(FailureKind::Input, message));
        }
        Ok(Self { settings: settings.clone(), train, test })
    }
}

/// Which share of the images a rank sees.
fn shard(settings: &ImageSettings, peers: Option<&Rc<Peers>>) -> Shard {
    let (rank, world_size) = peers.map_or((0, 1), |peers| (peers.rank as usize, peers.world_size as usize));
    let deal = match settings.strategy {
        Strategy::Ddp => Deal::Repeated,
        Strategy::DdpRr => Deal::RoundRobin,
        Strategy::DdpDs | Strategy::Single | Strategy::Dp | Strategy::Fsdp => Deal::Sampled,
    };
    Shard { rank, world_size, deal }
}

impl task::Batch for Batch {
    type Inputs = [Tensor; 2];

    fn inputs(&self) -> &[Tensor; 2] {
        &self.inputs
    }

    fn units(&self) -> u32 {
        self.count as u32
    }

    fn wait_s(&self) -> f64 {
        self.wait_s
    }
}

impl task::Data for Images {
    type Batch = Batch;
    type Epoch<'a> = ImageEpoch<'a>;

    fn batches(&self) -> usize {
        self.train.batches()
    }

    fn train(&mut self, epoch: u32) -> ImageEpoch<'_> {
        let coverage = (epoch == 1).then(|| Coverage::new(self.settings.train_images));
        ImageEpoch { settings: &self.settings, batches: self.train.epoch(epoch), bytes: 0, coverage }
    }

    fn test(&mut self, epoch: u32) -> ImageEpoch<'_> {
        ImageEpoch { settings: &self.settings, batches: self.test.epoch(epoch), bytes: 0, coverage: None }
    }
}

/// One pass over the images.
pub struct ImageEpoch<'a> {
    settings: &'a ImageSettings,
    batches: Epoch<'a>,
    /// Number of bytes that were copied to the device.
    bytes: u64,
    /// Which images were processed; only in the first epoch of training.
    coverage: Option<Coverage>,
}

impl task::Epoch for ImageEpoch<'_> {
    type Batch = Batch;

    fn next(&mut self) -> Result<Option<Batch>, Stop> {
        let batch = self.batches.next().map_err(|error| Stop::engine(&error))?;
        if let Some(batch) = &batch {
            self.bytes += batch.bytes * batch.received_batches as u64;
            if let Some(coverage) = &mut self.coverage {
                coverage.see(&batch.indices, batch.count * batch.received_batches);
            }
        }
        Ok(batch)
    }

    fn readings(&self) -> Readings {
        let start_s = self.batches.start_s().unwrap_or_default();
        vec![("received_bytes", self.bytes as f64), ("loader_start_s", start_s)]
    }

    fn proof(self, peers: Option<&Peers>) -> Result<Vec<Evidence>, TchError> {
        self.coverage.map(|coverage| coverage.evidence(self.settings, peers)).into_iter().collect()
    }
}

#[cfg(test)]
#[path = "image/task_tests.rs"]
mod tests;
