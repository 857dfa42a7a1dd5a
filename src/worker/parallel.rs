//! How the work of a step is spread over devices: a strategy is a value whose hooks the trainer calls around each pass.
//!
//! [`Single`] is one module; [`Ranks`] is one module a process, with averaged gradients (DistributedDataParallel); [`Shards`]
//! is a part of a module a process (fully sharded data parallel); [`Replicas`] is one process with a module and a thread a device (DataParallel). Which part of the data a rank sees is the
//! task's own business.

mod peers;
mod ranks;
mod replicas;
mod shards;

use std::rc::Rc;

use tch::{Device, TchError, Tensor};

pub use peers::{Peers, watch};

use crate::module::{Module, Pass, byte_count};
use crate::precision::Arithmetic;
use crate::task::Task;
use ranks::Ranks;
use replicas::Replicas;
use shards::Shards;
pub use shards::{Cutting, Wrap};

/// How the work is spread. Hooks are called in this order: before each forward pass, the pass itself, and in training before and
/// after its backward pass. What happens around a module's units is [`crate::module::UnitHooks`], which [`Self::pass`] names.
pub trait Strategy<M: Module> {
    /// Before the forward pass of a batch.
    fn before_forward(&mut self, _module: &M, _train: bool) -> Result<(), TchError> {
        Ok(())
    }

    /// The pass that a module on this rank takes.
    fn pass(&self, train: bool) -> Pass<'_> {
        Pass { train, ..Pass::default() }
    }

    /// The module's output for all of the input, on the first device.
    fn forward(
        &mut self,
        module: &M,
        arithmetic: &Arithmetic,
        input: &M::Input,
        train: bool,
    ) -> Result<Tensor, TchError> {
        let pass = self.pass(train);
        arithmetic.forward(|| module.forward(input, &pass))
    }

    /// Between the forward and the backward pass of a step.
    fn before_backward(&mut self) -> Result<(), TchError> {
        Ok(())
    }

    /// After the backward pass: brings the gradients to the first device's module.
    fn after_backward(&mut self) -> Result<(), TchError> {
        Ok(())
    }

    /// Before the first pass of an evaluation.
    fn before_evaluation(&mut self, _module: &M) -> Result<(), TchError> {
        Ok(())
    }

    /// What the loss of this rank is weighed with, where it is a mean over so many units: `counted` over its mean over ranks. None
    /// where there is one rank.
    fn weight(&self, _counted: &Tensor) -> Result<Option<Tensor>, TchError> {
        Ok(None)
    }

    /// What the optimizer updates on this rank.
    fn parameters(&self, module: &M) -> Result<Vec<Tensor>, TchError> {
        Ok(module.parameters())
    }

    /// Bytes of parameters on this rank between steps, frozen ones too.
    fn parameter_bytes(&self, module: &M) -> Result<u64, TchError> {
        Ok(module.units().iter().flatten().map(byte_count).sum())
    }

    /// The 2-norm of the whole model's gradients, of which those on this rank have the norm `norm`.
    fn norm(&self, norm: &Tensor) -> Result<Tensor, TchError> {
        Ok(norm.shallow_clone())
    }

    /// Whether ranks hold parts of the model, and must make passes together, also where one has no batch.
    fn is_sharded(&self) -> bool {
        false
    }

    /// Whether there is a further pass of an evaluation, for a rank that has a batch for it or has none.
    fn goes_on(&self, has_batch: bool) -> Result<bool, TchError> {
        Ok(has_batch)
    }

    /// Takes part in a pass of other ranks' batches.
    fn pass_without_batch(&mut self) -> Result<(), TchError> {
        Ok(())
    }

    /// After the last pass: what was trained is whole on rank 0.
    fn finish(&mut self) -> Result<(), TchError> {
        Ok(())
    }

    /// How the parameters are cut over ranks, and whether that was seen; none where each rank has all of them.
    fn held(&self) -> Result<Option<(String, bool)>, TchError> {
        Ok(None)
    }

    /// Adds a tensor up over all ranks, in place.
    fn sum(&self, _tensor: &Tensor) -> Result<(), TchError> {
        Ok(())
    }

    /// How many modules compute, and how that was seen.
    fn seen(&self) -> Result<(u32, String), TchError>;
}

/// One module.
pub struct Single;

impl<M: Module> Strategy<M> for Single {
    fn seen(&self) -> Result<(u32, String), TchError> {
        Ok((1, "one process with one model, no group".into()))
    }
}

/// The strategy of a task whose module is spread over `devices`, the first of which holds `module`, and beside `peers` where
/// there are other ranks. `cutting` has cut the module, where the task is sharded.
///
/// A strategy over one device is the same as none: it forms no group and communicates nothing.
pub fn strategy<T: Task>(
    task: &T,
    module: &T::Module,
    arithmetic: &Arithmetic,
    devices: &[Device],
    peers: Option<&Rc<Peers>>,
    cutting: Option<Cutting>,
) -> Result<Box<dyn Strategy<T::Module>>, TchError> {
    if let Some(cutting) = cutting {
        let shards: Shards = cutting.done(module)?;
        if let Some(scale) = arithmetic.scale() {
            shards.share_overflows(scale)?;
        }
        return Ok(Box::new(shards));
    }
    Ok(match peers {
        Some(peers) => Box::new(Ranks::new(peers, module)?),
        None if devices.len() > 1 => {
            let build = |device| task.module(device, arithmetic.weights(), &mut |_| Ok(()));
            Box::new(Replicas::new(module, arithmetic.mixed(), devices, build)?)
        }
        None => Box::new(Single),
    })
}

#[cfg(test)]
#[path = "parallel_tests.rs"]
mod tests;
