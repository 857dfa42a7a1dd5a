//! The interface of workloads for the training loop: batches, module, loss, score, and evidence that factors are in effect.

use std::path::Path;
use std::rc::Rc;

use multicard::plan::Passes;
use multicard::protocol::{Evidence, Job, RankPlace};
use tch::{Device, Kind, TchError, Tensor};

use crate::device::RankDevice;
use crate::module::{Module, Tensors};
use crate::parallel::{Gather, Peers, Strategy, Wrap};
use crate::precision::Arithmetic;
use crate::report::{Report, Stop};
use crate::shim::{AdamW, Flags, LossScale, Sgd};
use crate::trainer::Trainer;
use crate::work::Work;

/// Keys of measures and their values.
pub type Readings = Vec<(&'static str, f64)>;

/// Receives the parameters of a unit once they have their values. A strategy may keep only a part of them.
pub type Made<'a> = &'a mut dyn FnMut(&[Tensor]) -> Result<(), TchError>;

/// One rank of a run.
#[derive(Clone, Copy)]
pub struct Rank<'a> {
    /// The run's job.
    pub job: &'a Job,
    /// This rank's place on the machine.
    pub place: &'a RankPlace,
    /// The device it computes on.
    pub device: &'a RankDevice,
    /// The other ranks, if any.
    pub peers: Option<&'a Rc<Peers>>,
}

/// A workload's part of a run. [`crate::train`] does the rest: control flow, clocks, memory, precision and parallelism.
pub trait Task: Sized {
    /// The tensors that one step reads. A CUDA graph has its own set of them, so their shapes must not change within a graph.
    type Inputs: Tensors;
    /// The network.
    type Module: Module;
    /// The source of batches.
    type Data: Data<Batch: Batch<Inputs = Self::Inputs>>;
    /// Sums over the batches of an evaluation, on the device.
    type Totals;

    /// Creates the task from a job, or says which level it cannot carry out. No device is open yet.
    fn new(job: &Job) -> Result<Self, String>;

    /// Passes over the training set.
    fn epochs(&self) -> u32;

    /// The level of the parallelism factor.
    fn strategy(&self) -> &str;

    /// The key of the parallelism factor.
    fn strategy_key(&self) -> &'static str {
        "strategy"
    }

    /// The passes of a step: training or inference.
    fn passes(&self) -> Passes {
        Passes::Training
    }

    /// libtorch's global switches.
    fn flags(&self) -> Flags;

    /// The arithmetic of training.
    fn arithmetic(&self, device: Device) -> Result<Arithmetic, TchError>;

    /// The name of the network in logs.
    fn model(&self) -> &str;

    /// The parts that are gathered together if the network is sharded over ranks; `None` if each rank has the whole network.
    fn wrap(&self) -> Option<Wrap> {
        None
    }

    /// How a sharded network's parameters are gathered.
    fn gather(&self) -> Gather {
        Gather::Collectives
    }

    /// Builds the network. Random numbers come from torch's CPU generator, so that a seed gives the same weights on every device.
    /// A strategy may build several. `made` receives each unit's parameters in order, as soon as they have their values.
    fn module(&self, device: Device, weights: Kind, made: Made) -> Result<Self::Module, TchError>;

    /// The optimizer of these parameters, which will not move any more.
    fn optimizer(&self, parameters: &[Tensor]) -> Result<Box<dyn Optimizer>, TchError>;

    /// Reads the data. All ranks call it.
    fn data(&self, rank: Rank, report: &mut Report) -> Result<Self::Data, Stop>;

    /// The micro-batches of a batch, which run one after another and end in one update, each with its fraction of the loss, a
    /// scalar on the device. Empty if the batch is not split.
    fn parts(&self, _inputs: &Self::Inputs) -> Result<Vec<(Self::Inputs, Tensor)>, TchError> {
        Ok(Vec::new())
    }

    /// The keys of the measures of each step besides the loss.
    fn measures(&self) -> &'static [&'static str] {
        &[]
    }

    /// The loss of a batch, as a mean over its units: a scalar, where the backward pass starts. With [measures](Self::measures), a
    /// vector of the loss and these, as means over the same units.
    fn loss(&self, forward: &mut Forward<Self::Module>, inputs: &Self::Inputs) -> Result<Tensor, TchError>;

    /// The number of units over which the loss of these inputs is a mean, a scalar on the device. Ranks weight their losses with it,
    /// so that together they make the same step as one process with the whole batch. `None` if all ranks have equally many.
    fn counted(&self, _inputs: &Self::Inputs) -> Result<Option<Tensor>, TchError> {
        Ok(None)
    }

    /// Empty sums.
    fn totals(&self, device: Device) -> Result<Self::Totals, TchError>;

    /// Evaluates a batch, without gradients.
    fn evaluate(
        &self,
        forward: &mut Forward<Self::Module>,
        inputs: &Self::Inputs,
        totals: &mut Self::Totals,
    ) -> Result<(), TchError>;

    /// The model's work in the [passes](Self::passes) of a step with these inputs, whose products compute in `kind`. Only shapes
    /// are looked at. Passes that recompute what a model that has room for it would keep are no work of the model.
    fn work(&self, module: &Self::Module, inputs: &Self::Inputs, kind: Kind) -> Work;

    /// Number of forward passes in one [`Self::evaluate`].
    fn evaluation_passes(&self) -> u32 {
        1
    }

    /// The score from all ranks' totals. `sum` sums a tensor over ranks in place; all ranks must call it equally often.
    fn score(&self, totals: &Self::Totals, sum: &dyn Fn(&Tensor) -> Result<(), TchError>)
    -> Result<Readings, TchError>;

    /// Steps between checkpoints; `None` without checkpoints.
    fn save_every(&self) -> Option<u64> {
        None
    }

    /// Exports the trained parameters to a folder for other programs. Called at the end of runs that keep checkpoints.
    fn export(&self, _module: &Self::Module, _folder: &Path) -> std::io::Result<()> {
        Ok(())
    }

    /// Evidence for the workload's factors, gathered in the first step with its batch. Waits for the device.
    fn proof(&self, trainer: &Trainer<Self>, batch: &<Self::Data as Data>::Batch) -> Result<Vec<Evidence>, TchError>;

    /// Readings of preparations for the steps, such as trials of algorithms. Read after the first step, in which the preparations happen.
    fn preparation(&self, _batch: &<Self::Data as Data>::Batch) -> Result<Readings, TchError> {
        Ok(Vec::new())
    }
}

/// Runs forward passes with the run's strategy and precision.
pub struct Forward<'a, M: Module> {
    pub(super) module: &'a M,
    pub(super) strategy: &'a mut dyn Strategy<M>,
    pub(super) arithmetic: &'a Arithmetic,
    pub(super) train: bool,
}

impl<'a, M: Module> Forward<'a, M> {
    /// The module's output for a whole batch, in the type of its arithmetic.
    pub fn run(&mut self, input: &M::Input) -> Result<Tensor, TchError> {
        self.strategy.forward(self.module, self.arithmetic, input, self.train)
    }

    /// The module.
    pub fn module(&self) -> &'a M {
        self.module
    }

    /// The module's output without recording gradients.
    pub fn without_gradients(&mut self, input: &M::Input) -> Result<Tensor, TchError> {
        tch::no_grad(|| self.strategy.forward(self.module, self.arithmetic, input, false))
    }

    /// Converts a tensor to the type of losses, because half precision would round the loss itself.
    pub fn for_loss(&self, tensor: &Tensor) -> Result<Tensor, TchError> {
        tensor.f_to_kind(self.arithmetic.losses())
    }
}

/// A batch on its device.
pub trait Batch {
    /// The tensors that a step reads.
    type Inputs: Tensors;

    /// The tensors that a step reads.
    fn inputs(&self) -> &Self::Inputs;

    /// Number of units (images, tokens or what else the workload counts).
    fn units(&self) -> u32;

    /// Time the host waited for it, in seconds.
    fn wait_s(&self) -> f64;

    /// Weight of its loss in the mean over an epoch: the number of units over which the loss is a mean.
    fn loss_weight(&self) -> f64 {
        f64::from(self.units())
    }
}

/// The source of one rank's batches.
pub trait Data {
    /// A batch.
    type Batch: Batch;
    /// One pass over a set.
    type Epoch<'a>: Epoch<Batch = Self::Batch>
    where
        Self: 'a;

    /// Number of training batches per epoch, the same for all ranks.
    fn batches(&self) -> usize;

    /// Starts a training epoch, counted from 1.
    fn train(&mut self, epoch: u32) -> Self::Epoch<'_>;

    /// Starts the evaluation after an epoch's training.
    fn test(&mut self, epoch: u32) -> Self::Epoch<'_>;
}

/// One pass over a set. Dropping it stops the preparation of batches.
pub trait Epoch {
    /// A batch.
    type Batch;

    /// The next batch; `None` after the last.
    fn next(&mut self) -> Result<Option<Self::Batch>, Stop>;

    /// Readings of the training so far.
    fn readings(&self) -> Readings {
        Readings::new()
    }

    /// Evidence gathered during training, called at its end. All ranks call it.
    fn proof(self, _peers: Option<&Peers>) -> Result<Vec<Evidence>, TchError>
    where
        Self: Sized,
    {
        Ok(Vec::new())
    }
}

/// Computes the 2-norm of all ranks' gradients from the 2-norm of this rank's gradients.
pub type Norm<'a> = &'a dyn Fn(&Tensor) -> Result<Tensor, TchError>;

/// Updates parameters from their gradients.
pub trait Optimizer {
    /// Called before each step, replayed or not, to set what changes between updates.
    fn begin(&mut self) -> Result<(), TchError> {
        Ok(())
    }

    /// Discards the gradients, so that the next backward pass overwrites them.
    fn zero(&mut self) -> Result<(), TchError>;

    /// Makes one update. With a scale, the gradients are gradients of the scaled loss, and an overflow skips the update.
    fn step(&mut self, scale: Option<&LossScale>) -> Result<(), TchError>;

    /// Number of values that it keeps for each parameter between updates.
    fn kept(&self) -> u32;

    /// Number of gradients so far that had to be copied to their parameter's strides.
    fn relaid(&self) -> i64;

    /// Its state between updates, on the device. Overwriting these tensors resumes a run.
    fn state(&self) -> Result<Vec<Tensor>, TchError> {
        Ok(Vec::new())
    }

    /// Resumes after this many steps.
    fn resume(&mut self, _step: u64) {}

    /// The keys of the measures of each update.
    fn measures(&self) -> &'static [&'static str] {
        &[]
    }

    /// The measures of the last update, scalars of the loss's type on the device. `norm` computes the norm of all gradients from
    /// the norm of those that this optimizer has.
    fn measured(&self, _norm: Norm) -> Result<Vec<Tensor>, TchError> {
        Ok(Vec::new())
    }
}

/// Updates nothing: the optimizer of inference.
pub struct NoUpdates;

impl Optimizer for NoUpdates {
    fn zero(&mut self) -> Result<(), TchError> {
        Ok(())
    }

    fn step(&mut self, _scale: Option<&LossScale>) -> Result<(), TchError> {
        Ok(())
    }

    fn kept(&self) -> u32 {
        0
    }

    fn relaid(&self) -> i64 {
        0
    }
}

/// AdamW at the learning rate with which it was created.
impl Optimizer for AdamW {
    fn zero(&mut self) -> Result<(), TchError> {
        self.0.zero()
    }

    fn step(&mut self, scale: Option<&LossScale>) -> Result<(), TchError> {
        self.0.step(scale)
    }

    fn kept(&self) -> u32 {
        2
    }

    fn relaid(&self) -> i64 {
        self.0.relaid()
    }
}

impl Optimizer for Sgd {
    fn zero(&mut self) -> Result<(), TchError> {
        self.0.zero()
    }

    fn step(&mut self, scale: Option<&LossScale>) -> Result<(), TchError> {
        self.0.step(scale)
    }

    fn kept(&self) -> u32 {
        1
    }

    fn relaid(&self) -> i64 {
        self.0.relaid()
    }
}
