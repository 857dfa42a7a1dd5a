//! Steps of training and evaluation with a task's module, arithmetic and optimizer, spread over devices.

use std::rc::Rc;

use multicard::plan::Passes;
use tch::{Device, TchError, Tensor};

use crate::checkpoint::Checkpoint;
use crate::graph::{Replays, StepGraph};
use crate::module::{Module, byte_count};
use crate::parallel::{self, Cutting, Peers, Strategy};
use crate::precision::Arithmetic;
use crate::shim::{LossScale, NvtxRange};
use crate::task::{Forward, NoUpdates, Optimizer, Readings, Task};
use crate::work::Work;

/// Makes training and evaluation steps.
pub struct Trainer<T: Task> {
    // Dropped first, because it uses all the others.
    graph: Option<StepGraph<T::Inputs>>,
    device: Device,
    task: T,
    arithmetic: Arithmetic,
    module: T::Module,
    optimizer: Box<dyn Optimizer>,
    strategy: Box<dyn Strategy<T::Module>>,
    /// Number of bytes that an update reads and writes.
    update_bytes: f64,
}

impl<T: Task> Trainer<T> {
    /// Builds the module with the seed's weights, spread over this rank's `devices` and its peers. All ranks get the same weights
    /// and then different random numbers.
    pub fn new(
        task: T,
        devices: &[Device],
        peers: Option<&Rc<Peers>>,
        seed: u64,
        cuda_graph: bool,
    ) -> Result<Self, TchError> {
        let device = devices.first().copied().unwrap_or(Device::Cpu);
        let rank = peers.map_or(0, |peers| peers.rank);
        let graph = cuda_graph.then(|| StepGraph::new(device)).transpose()?;
        let arithmetic = task.arithmetic(device)?;
        tch::manual_seed(seed as i64);
        let mut cutting = peers.zip(task.wrap()).map(|(peers, wrap)| Cutting::new(peers, wrap, task.gather()));
        let mut cut_unit = |unit: &[Tensor]| cutting.as_mut().map_or(Ok(()), |cutting| cutting.cut(unit));
        let module = task.module(device, arithmetic.weights(), &mut cut_unit)?;
        tch::manual_seed(seed.wrapping_add(1 + u64::from(rank)) as i64);
        let strategy = parallel::strategy(&task, &module, &arithmetic, devices, peers, cutting)?;
        let parameters = strategy.parameters(&module)?;
        let (optimizer, passes): (Box<dyn Optimizer>, u64) = match task.passes() {
            Passes::Inference => (Box::new(NoUpdates), 0),
            Passes::Training => {
                let optimizer = task.optimizer(&parameters)?;
                // Reads gradients; reads and writes parameters and what it keeps for each.
                let passes = 1 + 2 * (1 + u64::from(optimizer.kept()));
                (optimizer, passes)
            }
        };
        let update_bytes = (passes * parameters.iter().map(byte_count).sum::<u64>()) as f64;
        Ok(Self { graph, device, task, arithmetic, module, optimizer, strategy, update_bytes })
    }

    /// The task.
    pub fn task(&self) -> &T {
        &self.task
    }

    /// The strategy.
    pub fn strategy(&self) -> &dyn Strategy<T::Module> {
        &*self.strategy
    }

    /// The module on the first device.
    pub fn module(&self) -> &T::Module {
        &self.module
    }

    /// The tensors that the optimizer updates: the trained parameters, or this rank's parts of them.
    pub fn parameters(&self) -> Result<Vec<Tensor>, TchError> {
        self.strategy.parameters(&self.module)
    }

    /// Brings all trained parameters to rank 0, after the last step.
    pub fn finish(&mut self) -> Result<(), TchError> {
        self.strategy.finish()
    }

    /// The arithmetic.
    pub fn arithmetic(&self) -> &Arithmetic {
        &self.arithmetic
    }

    /// The optimizer.
    pub fn optimizer(&self) -> &dyn Optimizer {
        &*self.optimizer
    }

    /// The keys of the measures of each step besides the loss.
    pub fn measures(&self) -> Vec<&'static str> {
        [self.task.measures(), self.optimizer.measures()].concat()
    }

    /// All state that training changes, by name. Overwriting these tensors resumes a run.
    pub fn state(&self) -> Result<Vec<(String, Tensor)>, TchError> {
        let scale = self.arithmetic.scale().map_or_else(|| Ok(Vec::new()), LossScale::state)?;
        let parameters = self.parameters()?.iter().map(Tensor::f_detach).collect::<Result<_, _>>()?;
        let (buffers, optimizer) = (self.module.buffers(), self.optimizer.state()?);
        let kinds = [("parameter", parameters), ("buffer", buffers), ("optimizer", optimizer), ("scale", scale)];
        let named = |(kind, tensors): (&'static str, Vec<Tensor>)| {
            tensors.into_iter().enumerate().map(move |(index, tensor)| (format!("{kind}.{index}"), tensor))
        };
        Ok(kinds.into_iter().flat_map(named).collect())
    }

    /// Resumes from a checkpoint, as this rank.
    pub fn resume(&mut self, checkpoint: &Checkpoint, rank: u32) -> Result<(), TchError> {
        checkpoint.restore(self.strategy.is_sharded().then_some(rank), &self.state()?)?;
        self.optimizer.resume(checkpoint.step);
        Ok(())
    }

    /// Bytes held between steps, by kind.
    pub fn held(&self) -> Vec<(&'static str, u64)> {
        let bytes = |tensors: &[Tensor]| tensors.iter().map(byte_count).sum::<u64>();
        // What cannot be read now counts with the rest.
        let trained = self.parameters().unwrap_or_default();
        let all = self.strategy.parameter_bytes(&self.module).unwrap_or_default() + self.module.reference_bytes();
        let gradients: Vec<_> = trained.iter().map(Tensor::grad).filter(Tensor::defined).collect();
        let optimizer = self.optimizer.state().unwrap_or_default();
        let [trained, gradients, optimizer] = [trained, gradients, optimizer].map(|tensors| bytes(&tensors));
        vec![
            ("frozen weights", all.saturating_sub(trained)),
            ("trained weights", trained),
            ("gradients", gradients),
            ("optimizer", optimizer),
        ]
    }

    /// The model's work in a step with these inputs: its passes, and the traffic of the update.
    pub fn work(&self, inputs: &T::Inputs) -> Work {
        let passes = self.task.work(&self.module, inputs, self.arithmetic.products());
        passes + Work { flop: 0.0, bytes: self.update_bytes }
    }

    /// Replays of the step's CUDA graph; 0 without a graph.
    pub fn replays(&self) -> Replays {
        self.graph.as_ref().map(StepGraph::replays).unwrap_or_default()
    }

    /// Makes a step: forward pass, backward pass and update, or only the forward pass. Returns the loss before the update and the
    /// [measures](Self::measures) as one tensor on the device. The next replay of a graph overwrites it.
    pub fn step(&mut self, inputs: &T::Inputs) -> Result<Tensor, TchError> {
        self.optimizer.begin()?;
        let Some(mut graph) = self.graph.take() else { return self.eager_step(inputs) };
        let seen = graph.step(inputs, |inputs| self.eager_step(inputs));
        self.graph = Some(graph);
        seen
    }

    fn eager_step(&mut self, inputs: &T::Inputs) -> Result<Tensor, TchError> {
        if self.task.passes() == Passes::Inference {
            let loss = |trainer: &mut Self, part: &T::Inputs, share: Option<&Tensor>| trainer.loss(part, share, false);
            return tch::no_grad(|| self.each_part(inputs, loss));
        }
        self.optimizer.zero()?;
        let counted = self.task.counted(inputs)?;
        let weight = counted.map_or(Ok(None), |counted| self.strategy.weight(&counted))?;
        let seen = self.each_part(inputs, |trainer, part, share| trainer.gradients(part, share, weight.as_ref()))?;
        {
            let _range = NvtxRange::new(c"all_reduce");
            self.strategy.after_backward()?;
        }
        {
            let _range = NvtxRange::new(c"optimizer");
            self.optimizer.step(self.arithmetic.scale())?;
        }
        let measured = self.optimizer.measured(&|norm| self.strategy.norm(norm))?;
        if measured.is_empty() {
            return Ok(seen);
        }
        Tensor::f_cat(&[seen.f_reshape([-1])?, Tensor::f_stack(&measured, 0)?], 0)
    }

    /// Runs the passes of each micro-batch, with its share of the loss, or the passes of the whole batch if it is not split. Returns the
    /// sum of their results.
    fn each_part(
        &mut self,
        inputs: &T::Inputs,
        mut passes: impl FnMut(&mut Self, &T::Inputs, Option<&Tensor>) -> Result<Tensor, TchError>,
    ) -> Result<Tensor, TchError> {
        let mut losses = Vec::new();
        for (part, share) in &self.task.parts(inputs)? {
            losses.push(passes(self, part, Some(share))?);
        }
        if losses.is_empty() {
            return passes(self, inputs, None);
        }
        Tensor::f_stack(&losses, 0)?.f_sum_dim_intlist(0, false, losses[0].kind())
    }

    /// The loss and measures of a batch or micro-batch, multiplied by `share`.
    fn loss(&mut self, inputs: &T::Inputs, share: Option<&Tensor>, train: bool) -> Result<Tensor, TchError> {
        let _range = NvtxRange::new(c"forward");
        times(&self.pass(train, |task, forward| task.loss(forward, inputs))?, share)
    }

    /// Adds the gradients of a batch or micro-batch, multiplied by `share` and `weight`. Returns the loss and measures multiplied by
    /// `share`.
    fn gradients(
        &mut self,
        inputs: &T::Inputs,
        share: Option<&Tensor>,
        weight: Option<&Tensor>,
    ) -> Result<Tensor, TchError> {
        let seen = self.loss(inputs, share, true)?;
        let loss = if seen.dim() == 0 { seen.shallow_clone() } else { seen.f_get(0)? };
        let weighed = times(&loss, weight)?;
        let _range = NvtxRange::new(c"backward");
        self.strategy.before_backward()?;
        match self.arithmetic.scale() {
            None => weighed.f_backward()?,
            Some(scale) => scale.apply(&weighed)?.f_backward()?,
        }
        seen.f_detach()
    }

    /// Starts an evaluation with empty sums.
    pub fn totals(&mut self) -> Result<T::Totals, TchError> {
        self.strategy.before_evaluation(&self.module)?;
        self.task.totals(self.device)
    }

    /// Evaluates a batch, with running statistics and without dropout.
    pub fn evaluate(&mut self, inputs: &T::Inputs, totals: &mut T::Totals) -> Result<(), TchError> {
        tch::no_grad(|| self.pass(false, |task, forward| task.evaluate(forward, inputs, totals)))
    }

    /// Whether the evaluation has another pass; `has_batch` tells if this rank has a batch for it.
    pub fn goes_on(&self, has_batch: bool) -> Result<bool, TchError> {
        self.strategy.goes_on(has_batch)
    }

    /// Takes part in the evaluation of other ranks' batches.
    pub fn evaluate_nothing(&mut self) -> Result<(), TchError> {
        let passes = self.task.evaluation_passes();
        tch::no_grad(|| (0..passes).try_for_each(|_| self.strategy.pass_without_batch()))
    }

    /// The score from all ranks' totals. Waits for the device and the other ranks.
    pub fn score(&self, totals: &T::Totals) -> Result<Readings, TchError> {
        self.task.score(totals, &|tensor| self.strategy.sum(tensor))
    }

    fn pass<R>(
        &mut self,
        train: bool,
        work: impl FnOnce(&T, &mut Forward<T::Module>) -> Result<R, TchError>,
    ) -> Result<R, TchError> {
        self.strategy.before_forward(&self.module, train)?;
        let (module, strategy, arithmetic) = (&self.module, &mut *self.strategy, &self.arithmetic);
        work(&self.task, &mut Forward { module, strategy, arithmetic, train })
    }
}

/// The loss, multiplied by the factor if there is one.
fn times(loss: &Tensor, factor: Option<&Tensor>) -> Result<Tensor, TchError> {
    factor.map_or_else(|| Ok(loss.shallow_clone()), |factor| loss.f_mul(factor))
}

#[cfg(test)]
#[path = "trainer_tests.rs"]
mod tests;
