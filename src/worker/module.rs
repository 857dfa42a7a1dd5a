//! Networks: what a task trains, as the loop, the optimizer and the strategies see it.

use std::sync::Arc;

use tch::{TchError, Tensor};

use crate::shim::{self, ProcessGroup};

/// A fixed set of tensors that travel together: one, or an array of them.
pub trait Tensors: Sized + Send + 'static {
    /// All of them, in order.
    fn all(&self) -> &[Tensor];

    /// The same set made of other tensors.
    fn map_each(&self, change: impl FnMut(&Tensor) -> Result<Tensor, TchError>) -> Result<Self, TchError>;
}

impl Tensors for Tensor {
    fn all(&self) -> &[Tensor] {
        std::slice::from_ref(self)
    }

    fn map_each(&self, mut change: impl FnMut(&Tensor) -> Result<Tensor, TchError>) -> Result<Self, TchError> {
        change(self)
    }
}

impl<const COUNT: usize> Tensors for [Tensor; COUNT] {
    fn all(&self) -> &[Tensor] {
        self
    }

    fn map_each(&self, mut change: impl FnMut(&Tensor) -> Result<Tensor, TchError>) -> Result<Self, TchError> {
        let mut failure = None;
        let changed = self.each_ref().map(|tensor| match change(tensor) {
            Ok(changed) if failure.is_none() => changed,
            Ok(_) => Tensor::new(),
            Err(error) => {
                failure.get_or_insert(error);
                Tensor::new()
            }
        });
        failure.map_or(Ok(changed), Err)
    }
}

/// A network on one device.
pub trait Module: Send + 'static {
    /// What one forward pass reads. The first dimension of each tensor is the batch, which a strategy may cut.
    type Input: Tensors;

    /// The blocks in the order of the forward pass, each with its parameters, frozen ones too. Every parameter belongs to
    /// exactly one. [`Self::forward`] runs each through [`Pass::unit`], under its place in this list.
    fn units(&self) -> Vec<Vec<Tensor>>;

    /// The parameters that are trained, in the same order on all ranks.
    fn parameters(&self) -> Vec<Tensor> {
        let mut parameters: Vec<_> = self.units().into_iter().flatten().collect();
        parameters.retain(Tensor::requires_grad);
        parameters
    }

    /// State that forward passes of training change, such as running statistics, in the same order on all ranks.
    fn buffers(&self) -> Vec<Tensor> {
        Vec::new()
    }

    /// Brings all ranks to the same state: before each forward pass of training and before an evaluation.
    fn agree(&self, _group: &ProcessGroup) -> Result<(), TchError> {
        Ok(())
    }

    /// One forward pass.
    fn forward(&self, input: &Self::Input, pass: &Pass) -> Result<Tensor, TchError>;
}

/// Numbers that training may change.
pub fn parameter_count(module: &impl Module) -> u64 {
    module.parameters().iter().map(|parameter| parameter.numel() as u64).sum()
}

/// What a tensor's elements take, in bytes.
pub fn byte_count(tensor: &Tensor) -> u64 {
    (tensor.numel() * tensor.kind().elt_size_in_bytes()) as u64
}

/// One forward pass, as a strategy asks for it.
#[derive(Clone, Copy, Default)]
pub struct Pass<'a> {
    /// A backward pass follows; otherwise running statistics are used and nothing is dropped out.
    pub train: bool,
    /// The ranks that take this pass at the same time, each over its own batch; none where there is one.
    pub group: Option<&'a ProcessGroup>,
    /// What happens around units.
    pub hooks: Option<&'a Arc<dyn UnitHooks>>,
}

/// What a strategy does around the units of a module: gathers parameters that lie on other ranks, say, and frees them again.
///
/// The hooks of the backward pass are called by autograd, which has its own threads for GPUs.
pub trait UnitHooks: Send + Sync {
    /// Before the unit's forward pass.
    fn before_forward(&self, unit: usize) -> Result<(), TchError>;

    /// After the unit's forward pass.
    fn after_forward(&self, unit: usize) -> Result<(), TchError>;

    /// The gradient of the unit's output is there.
    fn before_backward(&self, unit: usize) -> Result<(), TchError>;

    /// The gradients of the unit's input and parameters are there. Not called for a unit whose input needs no gradient, as
    /// the first one's: its parameters' gradients are there when the backward pass is over.
    fn after_backward(&self, unit: usize) -> Result<(), TchError>;
}

impl Pass<'_> {
    /// Runs the unit at `index` of [`Module::units`]. Without hooks this is `forward` itself.
    pub fn unit(
        &self,
        index: usize,
        input: &Tensor,
        forward: impl FnOnce(&Tensor) -> Result<Tensor, TchError>,
    ) -> Result<Tensor, TchError> {
        let Some(hooks) = self.hooks else { return forward(input) };
        hooks.before_forward(index)?;
        // An alias: the tensor itself is the output of the unit before, whose own hooks it carries.
        let input = input.f_alias()?;
        let output = forward(&input)?;
        if self.train {
            let (before, after) = (Arc::clone(hooks), Arc::clone(hooks));
            shim::on_gradient(&output, move || before.before_backward(index))?;
            shim::on_gradient(&input, move || after.after_backward(index))?;
        }
        hooks.after_forward(index)?;
        Ok(output)
    }
}

#[cfg(test)]
#[path = "module_tests.rs"]
mod tests;
