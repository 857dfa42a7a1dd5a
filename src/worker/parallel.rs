//! How the work of a step is spread over devices: a strategy is a value whose hooks the trainer calls around each pass.
//!
//! [`Single`] is one module; [`Ranks`] is one module a process, with averaged gradients (DistributedDataParallel);
//! [`Replicas`] is one process with a module and a thread a device (DataParallel). Which part of the data a rank sees is the
//! task's own business.

mod peers;
mod ranks;
mod replicas;

use std::rc::Rc;

use tch::{Device, TchError, Tensor};

pub use peers::{Peers, watch};

use crate::module::{Module, Pass};
use crate::precision::Arithmetic;
use crate::task::Task;
use ranks::Ranks;
use replicas::Replicas;

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
/// there are other ranks.
///
/// A strategy over one device is the same as none: it forms no group and communicates nothing.
pub fn strategy<T: Task>(
    task: &T,
    module: &T::Module,
    arithmetic: &Arithmetic,
    devices: &[Device],
    peers: Option<&Rc<Peers>>,
) -> Result<Box<dyn Strategy<T::Module>>, TchError> {
    Ok(match peers {
        Some(peers) => Box::new(Ranks::new(peers, module)?),
        None if devices.len() > 1 => {
            let build = |device| task.module(device, arithmetic.weights());
            Box::new(Replicas::new(module, arithmetic.mixed(), devices, build)?)
        }
        None => Box::new(Single),
    })
}

#[cfg(test)]
#[path = "parallel_tests.rs"]
mod tests;
