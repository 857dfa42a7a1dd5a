//! Networks as the loop, the optimizer and the strategies see them.

use std::sync::Arc;

use tch::{TchError, Tensor};

use crate::shim::{self, ProcessGroup};

/// A fixed set of tensors that belong together: one, or an array of them.
pub trait Tensors: Sized + Send + 'static {
    /// All of them, in order.
    fn all(&self) -> &[Tensor];

    /// This set with each tensor replaced.
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
    /// The input of a forward pass. The first dimension of each tensor is the batch, which a strategy may split.
    type Input: Tensors;

    /// The parameters of each block in the order of the forward pass, including frozen ones. Every parameter belongs to exactly one
    /// block. [`Self::forward`] must run each block through [`Pass::unit`] with its index in this list.
    fn units(&self) -> Vec<Vec<Tensor>>;

    /// The trained parameters, in the same order on all ranks.
    fn parameters(&self) -> Vec<Tensor> {
        let mut parameters: Vec<_> = self.units().into_iter().flatten().collect();
        parameters.retain(Tensor::requires_grad);
        parameters
    }

    /// Size of frozen weights that belong to no unit, in bytes: each rank holds all of them.
    fn reference_bytes(&self) -> u64 {
        0
    }

    /// State that training passes change, such as running statistics, in the same order on all ranks.
    fn buffers(&self) -> Vec<Tensor> {
        Vec::new()
    }

    /// Synchronises state over ranks. Called before each training pass and before an evaluation.
    fn agree(&self, _group: &ProcessGroup) -> Result<(), TchError> {
        Ok(())
    }

    /// Runs a forward pass.
    fn forward(&self, input: &Self::Input, pass: &Pass) -> Result<Tensor, TchError>;
}

/// Number of trained scalars.
pub fn parameter_count(module: &impl Module) -> u64 {
    module.parameters().iter().map(|parameter| parameter.numel() as u64).sum()
}

/// Size of a tensor's elements, in bytes, with the spare columns behind the rows of a matrix.
pub fn byte_count(tensor: &Tensor) -> u64 {
    let numbers = match (&tensor.size()[..], &tensor.stride()[..]) {
        (&[rows, columns], &[apart, 1]) if apart > columns => (rows * apart) as usize,
        _ => tensor.numel(),
    };
    (numbers * tensor.kind().elt_size_in_bytes()) as u64
}

/// Options of a forward pass, set by the strategy.
#[derive(Clone, Copy, Default)]
pub struct Pass<'a> {
    /// Whether a backward pass follows. If not, running statistics are used and dropout is off.
    pub train: bool,
    /// The ranks that make this pass together, each with its own batch; `None` for a single rank.
    pub group: Option<&'a ProcessGroup>,
    /// Hooks around units.
    pub hooks: Option<&'a Arc<dyn UnitHooks>>,
}

/// Hooks of a strategy around the units of a module, for example to gather parameters from other ranks and free them again.
///
/// Autograd calls the hooks of the backward pass, for GPUs on its own threads.
pub trait UnitHooks: Send + Sync {
    /// Called before the unit's forward pass.
    fn before_forward(&self, unit: usize) -> Result<(), TchError>;

    /// Called after the unit's forward pass.
    fn after_forward(&self, unit: usize) -> Result<(), TchError>;

    /// Called when the gradient of the unit's output is available.
    fn before_backward(&self, unit: usize) -> Result<(), TchError>;

    /// Called when the gradients of the unit's input and parameters are available. Not called if the unit's input needs no gradient,
    /// like the first unit's: its parameters' gradients are available after the backward pass.
    fn after_backward(&self, unit: usize) -> Result<(), TchError>;
}

impl Pass<'_> {
    /// Runs the unit at `index` of [`Module::units`]. Without hooks, just calls `forward`.
    pub fn unit(
        &self,
        index: usize,
        input: &Tensor,
        forward: impl FnOnce(&Tensor) -> Result<Tensor, TchError>,
    ) -> Result<Tensor, TchError> {
        let Some(hooks) = self.hooks else { return forward(input) };
        hooks.before_forward(index)?;
        // An alias, because the tensor itself is the previous unit's output and carries that unit's hooks.
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
