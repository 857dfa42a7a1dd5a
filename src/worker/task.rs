//! What a workload tells the loop: its batches, its module, its loss and score, and what shows its factors in effect.

use std::path::Path;
use std::rc::Rc;

use multicard::protocol::{Evidence, Job, RankPlace};
use tch::{Device, Kind, TchError, Tensor};

use crate::device::RankDevice;
use crate::module::{Module, Tensors};
use crate::parallel::{Peers, Strategy, Wrap};
use crate::precision::Arithmetic;
use crate::report::{Report, Stop};
use crate::shim::{Flags, LossScale, Sgd};
use crate::trainer::Trainer;

/// Keys of measures and what was measured.
pub type Readings = Vec<(&'static str, f64)>;

/// Takes the parameters of a unit that has its values; a strategy may keep a part of them.
pub type Made<'a> = &'a mut dyn FnMut(&[Tensor]) -> Result<(), TchError>;

/// One rank of a run.
#[derive(Clone, Copy)]
pub struct Rank<'a> {
    /// The run.
    pub job: &'a Job,
    /// Where this rank runs.
    pub place: &'a RankPlace,
    /// What it computes on.
    pub device: &'a RankDevice,
    /// The other ranks, where there are some.
    pub peers: Option<&'a Rc<Peers>>,
}

/// A workload's part of a run. [`crate::train`] owns the rest: the order of things, clocks, memory, precision and spreading.
pub trait Task: Sized {
    /// What the device reads in one step. A CUDA graph holds its own set, so shapes never change where there is one.
    type Inputs: Tensors;
    /// The network.
    type Module: Module;
    /// Where batches come from.
    type Data: Data<Batch: Batch<Inputs = Self::Inputs>>;
    /// What evaluation steps add up, on the device.
    type Totals;

    /// From a job; refuses by name what cannot be done. No device is open yet.
    fn new(job: &Job) -> Result<Self, String>;

    /// Passes over the training set.
    fn epochs(&self) -> u32;

    /// The level of the factor that says how the work is spread.
    fn strategy(&self) -> &str;

    /// That factor's key.
    fn strategy_key(&self) -> &'static str {
        "strategy"
    }

    /// libtorch's switches.
    fn flags(&self) -> Flags;

    /// The arithmetic of training.
    fn arithmetic(&self, device: Device) -> Result<Arithmetic, TchError>;

    /// The name of the network, as logs have it.
    fn model(&self) -> &str;

    /// What of the network is gathered at a time where ranks hold parts of it; none where each has all of it.
    fn wrap(&self) -> Option<Wrap> {
        None
    }

    /// Builds the network; its random numbers come from torch's generator of the CPU, so that a seed gives the same weights on
    /// every device. A strategy may ask for more than one. `made` takes each unit's parameters in order, as soon as they have
    /// their values.
    fn module(&self, device: Device, weights: Kind, made: Made) -> Result<Self::Module, TchError>;

    /// The optimizer of these parameters, which lie where they will stay.
    fn optimizer(&self, parameters: &[Tensor]) -> Result<Box<dyn Optimizer>, TchError>;

    /// Reads the data. All ranks come to this point.
    fn data(&self, rank: Rank, report: &mut Report) -> Result<Self::Data, Stop>;

    /// The parts of a batch that go through the module one after the other and end in one update, each with its share of the
    /// loss, a scalar on the device. None where the batch goes as a whole.
    fn parts(&self, _inputs: &Self::Inputs) -> Result<Vec<(Self::Inputs, Tensor)>, TchError> {
        Ok(Vec::new())
    }

    /// What is measured of each step beside the loss: keys of measures.
    fn measures(&self) -> &'static [&'static str] {
        &[]
    }

    /// The loss of a batch, a mean over its units: a scalar from which the backward pass starts. Where a step measures more, a
    /// vector: the loss, then the [measures](Self::measures), means over the same units.
    fn loss(&self, forward: &mut Forward<Self::Module>, inputs: &Self::Inputs) -> Result<Tensor, TchError>;

    /// How many units the loss of these inputs is a mean over, a scalar on the device: ranks then weigh their losses with it, so that
    /// they take the step of one process with all of the batch. None where every rank has as many.
    fn counted(&self, _inputs: &Self::Inputs) -> Result<Option<Tensor>, TchError> {
        Ok(None)
    }

    /// Nothing evaluated yet.
    fn totals(&self, device: Device) -> Result<Self::Totals, TchError>;

    /// Evaluates a batch. Without gradients.
    fn evaluate(
        &self,
        forward: &mut Forward<Self::Module>,
        inputs: &Self::Inputs,
        totals: &mut Self::Totals,
    ) -> Result<(), TchError>;

    /// Forward passes of the module in one [`Self::evaluate`].
    fn evaluation_passes(&self) -> u32 {
        1
    }

    /// What all ranks' totals come to. `sum` adds a tensor up over ranks in place; each rank calls it equally often.
    fn score(&self, totals: &Self::Totals, sum: &dyn Fn(&Tensor) -> Result<(), TchError>)
    -> Result<Readings, TchError>;

    /// Steps between two checkpoints; none where the task's runs keep none.
    fn save_every(&self) -> Option<u64> {
        None
    }

    /// Writes what was trained into a folder, for other programs. Called at the end of runs that keep checkpoints.
    fn export(&self, _module: &Self::Module, _folder: &Path) -> std::io::Result<()> {
        Ok(())
    }

    /// What is seen of the workload's factors in the first step, with its batch. Waits for the device.
    fn proof(&self, trainer: &Trainer<Self>, batch: &<Self::Data as Data>::Batch) -> Result<Vec<Evidence>, TchError>;
}

/// One forward pass as the run's strategy and precision make it.
pub struct Forward<'a, M: Module> {
    pub(super) module: &'a M,
    pub(super) strategy: &'a mut dyn Strategy<M>,
    pub(super) arithmetic: &'a Arithmetic,
    pub(super) train: bool,
}

impl<'a, M: Module> Forward<'a, M> {
    /// The module's output for a whole batch, in the type it computes in.
    pub fn run(&mut self, input: &M::Input) -> Result<Tensor, TchError> {
        self.strategy.forward(self.module, self.arithmetic, input, self.train)
    }

    /// The module itself.
    pub fn module(&self) -> &'a M {
        self.module
    }

    /// The module's output of a pass that no backward pass follows.
    pub fn without_gradients(&mut self, input: &M::Input) -> Result<Tensor, TchError> {
        tch::no_grad(|| self.strategy.forward(self.module, self.arithmetic, input, false))
    }

    /// A tensor in the type of losses: half precision would round the loss itself.
    pub fn for_loss(&self, tensor: &Tensor) -> Result<Tensor, TchError> {
        tensor.f_to_kind(self.arithmetic.losses())
    }
}

/// One batch on its device.
pub trait Batch {
    /// What the device reads.
    type Inputs: Tensors;

    /// What the device reads.
    fn inputs(&self) -> &Self::Inputs;

    /// How many units it holds: images, tokens, or what else the workload counts.
    fn units(&self) -> u32;

    /// How long the host waited for it, in seconds.
    fn wait_s(&self) -> f64;
}

/// Where one rank's batches come from.
pub trait Data {
    /// One batch.
    type Batch: Batch;
    /// One pass over a set.
    type Epoch<'a>: Epoch<Batch = Self::Batch>
    where
        Self: 'a;

    /// Batches that this rank trains on in an epoch, as many as every other rank.
    fn batches(&self) -> usize;

    /// Begins to train: epochs count from 1.
    fn train(&mut self, epoch: u32) -> Self::Epoch<'_>;

    /// Begins to evaluate, after the training of an epoch.
    fn test(&mut self, epoch: u32) -> Self::Epoch<'_>;
}

/// One pass over a set. Dropped before its end, it stops what prepares batches.
pub trait Epoch {
    /// One batch.
    type Batch;

    /// The next batch; none after the last.
    fn next(&mut self) -> Result<Option<Self::Batch>, Stop>;

    /// What was measured in training, up to here.
    fn readings(&self) -> Readings {
        Readings::new()
    }

    /// What was seen of factors in training, when it is over. All ranks come to this point.
    fn proof(self, _peers: Option<&Peers>) -> Result<Vec<Evidence>, TchError>
    where
        Self: Sized,
    {
        Ok(Vec::new())
    }
}

/// The 2-norm of all ranks' gradients from that of this rank's.
pub type Norm<'a> = &'a dyn Fn(&Tensor) -> Result<Tensor, TchError>;

/// Updates parameters from their gradients.
pub trait Optimizer {
    /// Before each step, whether it is replayed or not: what changes from update to update.
    fn begin(&mut self) -> Result<(), TchError> {
        Ok(())
    }

    /// Drops the gradients: the next backward pass writes them instead of adding to them.
    fn zero(&mut self) -> Result<(), TchError>;

    /// One update. With a scale, the gradients are those of the scaled loss, and an overflow skips the update.
    fn step(&mut self, scale: Option<&LossScale>) -> Result<(), TchError>;

    /// Gradients so far that had to be copied into their parameter's strides.
    fn relaid(&self) -> i64;

    /// What it remembers between updates, on the device. A run continues from there when these tensors are overwritten.
    fn state(&self) -> Result<Vec<Tensor>, TchError> {
        Ok(Vec::new())
    }

    /// Continues after this many steps.
    fn resume(&mut self, _step: u64) {}

    /// What is measured of each update: keys of measures.
    fn measures(&self) -> &'static [&'static str] {
        &[]
    }

    /// Those of the last update, scalars of the loss's type on the device. `norm` makes the norm of all gradients from that of
    /// those which the optimizer has.
    fn measured(&self, _norm: Norm) -> Result<Vec<Tensor>, TchError> {
        Ok(Vec::new())
    }
}

impl Optimizer for Sgd {
    fn zero(&mut self) -> Result<(), TchError> {
        self.0.zero()
    }

    fn step(&mut self, scale: Option<&LossScale>) -> Result<(), TchError> {
        self.0.step(scale)
    }

    fn relaid(&self) -> i64 {
        self.0.relaid()
    }
}
