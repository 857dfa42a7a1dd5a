//! How a step is spread over devices: a strategy is a value whose hooks the trainer calls around each pass.
//!
//! [`Single`] is one module. [`Ranks`] is one module per process, with averaged gradients (DistributedDataParallel). [`Shards`] is
//! a part of the module per process (fully sharded data parallel). [`Replicas`] is one process with a module and a thread per
//! device (DataParallel). The task decides which part of the data a rank sees.

mod connect;
mod meeting;
mod network;
mod peers;
mod ranks;
mod replicas;
mod shards;
mod strangers;

use std::rc::Rc;

use tch::{Device, TchError, Tensor};

pub use peers::{Peers, watch};

use crate::module::{Module, Pass, byte_count};
use crate::precision::Arithmetic;
use crate::task::Task;
use ranks::Ranks;
use replicas::Replicas;
use shards::Shards;
pub use shards::{Cutting, Gather, Wrap};

/// How the work is spread. Hooks run before each forward pass and, in training, before and after its backward pass.
/// [`Self::pass`] names the hooks around a module's units ([`crate::module::UnitHooks`]).
pub trait Strategy<M: Module> {
    /// Called before the forward pass of a batch.
    fn before_forward(&mut self, _module: &M, _train: bool) -> Result<(), TchError> {
        Ok(())
    }

    /// The pass of a module on this rank.
    fn pass(&self, train: bool) -> Pass<'_> {
        Pass { train, ..Pass::default() }
    }

    /// The module's output for the whole input, on the first device.
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

    /// Called between the forward and the backward pass of a step.
    fn before_backward(&mut self) -> Result<(), TchError> {
        Ok(())
    }

    /// Called after the backward pass. Brings the gradients to the first device's module.
    fn after_backward(&mut self) -> Result<(), TchError> {
        Ok(())
    }

    /// Called before the first pass of an evaluation.
    fn before_evaluation(&mut self, _module: &M) -> Result<(), TchError> {
        Ok(())
    }

    /// Weight of this rank's loss, a mean over `counted` units: `counted` divided by its mean over ranks. `None` for a single rank.
    fn weight(&self, _counted: &Tensor) -> Result<Option<Tensor>, TchError> {
        Ok(None)
    }

    /// The tensors that the optimizer updates on this rank.
    fn parameters(&self, module: &M) -> Result<Vec<Tensor>, TchError> {
        Ok(module.parameters())
    }

    /// Bytes of parameters on this rank between steps, including frozen ones.
    fn parameter_bytes(&self, module: &M) -> Result<u64, TchError> {
        Ok(module.units().iter().flatten().map(byte_count).sum())
    }

    /// The 2-norm of all gradients; `norm` is the norm of the gradients on this rank.
    fn norm(&self, norm: &Tensor) -> Result<Tensor, TchError> {
        Ok(norm.shallow_clone())
    }

    /// Whether each rank holds a part of the model. All ranks must then make every pass together, even those without a batch.
    fn is_sharded(&self) -> bool {
        false
    }

    /// Whether the evaluation has another pass; `has_batch` tells if this rank has a batch for it.
    fn goes_on(&self, has_batch: bool) -> Result<bool, TchError> {
        Ok(has_batch)
    }

    /// Takes part in a pass for other ranks' batches.
    fn pass_without_batch(&mut self) -> Result<(), TchError> {
        Ok(())
    }

    /// Called after the last pass. Brings all trained parameters to rank 0.
    fn finish(&mut self) -> Result<(), TchError> {
        Ok(())
    }

    /// How parameters are sharded over ranks, and whether that is in effect. `None` if each rank holds all of them.
    fn held(&self) -> Result<Option<(String, bool)>, TchError> {
        Ok(None)
    }

    /// Sums a tensor over all ranks, in place.
    fn sum(&self, _tensor: &Tensor) -> Result<(), TchError> {
        Ok(())
    }

    /// The number of modules that compute, and the evidence for it.
    fn seen(&self) -> Result<(u32, String), TchError>;
}

/// One module.
pub struct Single;

impl<M: Module> Strategy<M> for Single {
    fn seen(&self) -> Result<(u32, String), TchError> {
        Ok((1, "one process with one model, no group".into()))
    }
}

/// The strategy for a module spread over `devices`, the first of which holds `module`, and over `peers`, the other ranks if there
/// are any. For a sharded task, `cutting` holds the module's units.
///
/// On one device every strategy is [`Single`]: no group, no communication.
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
