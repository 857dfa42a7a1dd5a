//! Optimizers over fixed lists of parameters, and loss scaling.

use std::ffi::{c_int, c_void};
use std::ptr;

use multicard::plan::OptimizerImpl;
use tch::{Device, TchError, Tensor};
use torch_sys::C_tensor;

use super::c10d::ProcessGroup;
use super::cuda_index;
use super::host::{check, check_pointer, done, own};

unsafe extern "C" {
    fn mc_sgd_new(
        parameters: *const *const C_tensor,
        count: usize,
        implementation: c_int,
        learning_rate: f64,
        momentum: f64,
    ) -> *mut c_void;
    fn mc_adamw_new(
        parameters: *const *const C_tensor,
        count: usize,
        implementation: c_int,
        weight_decay: f64,
        has_norm: c_int,
    ) -> *mut c_void;
    fn mc_optimizer_free(optimizer: *mut c_void);
    fn mc_optimizer_zero(optimizer: *mut c_void) -> c_int;
    fn mc_optimizer_step(optimizer: *mut c_void, scale: *mut c_void) -> c_int;
    fn mc_optimizer_relaid(optimizer: *mut c_void) -> i64;
    fn mc_optimizer_state(optimizer: *mut c_void, state: *mut *mut C_tensor, room: usize) -> i64;
    fn mc_adamw_learning_rate(optimizer: *mut c_void, learning_rate: f64) -> c_int;
    fn mc_adamw_rate(optimizer: *mut c_void) -> *mut C_tensor;
    fn mc_adamw_norm(optimizer: *mut c_void) -> *mut C_tensor;
    fn mc_scale_new(cuda_index: c_int) -> *mut c_void;
    fn mc_scale_share(scale: *mut c_void, group: *mut c_void) -> c_int;
    fn mc_scale_free(scale: *mut c_void);
    fn mc_scale_apply(scale: *mut c_void, loss: *const C_tensor) -> *mut C_tensor;
    fn mc_scale_read(scale: *mut c_void, value: *mut f64, skipped: *mut f64) -> c_int;
    fn mc_scale_state(scale: *mut c_void, state: *mut *mut C_tensor) -> c_int;
}

/// Dynamic loss scaling, as in torch.amp.GradScaler, kept on the device.
pub struct LossScale(*mut c_void);

impl LossScale {
    /// Creates the scale with which a run begins.
    pub fn new(device: Device) -> Result<Self, TchError> {
        // SAFETY: plain values.
        Ok(Self(check_pointer(unsafe { mc_scale_new(cuda_index(device)) })?))
    }

    /// Makes an overflow in the gradients of any rank count on all ranks. The group must outlive the scale.
    pub fn share(&self, group: &ProcessGroup) -> Result<(), TchError> {
        // SAFETY: created by `mc_scale_new` and freed only in `drop`; the group is alive, and the shim keeps a reference.
        done(unsafe { mc_scale_share(self.0, group.0) })
    }

    /// The loss times the scale.
    pub fn apply(&self, loss: &Tensor) -> Result<Tensor, TchError> {
        // SAFETY: created by `mc_scale_new` and freed only in `drop`; the loss lives until the call returns.
        own(unsafe { mc_scale_apply(self.0, loss.as_ptr()) })
    }

    /// The tensors of its state, in the form of an optimizer's state.
    pub fn state(&self) -> Result<Vec<Tensor>, TchError> {
        let mut places = [ptr::null_mut(); 3];
        // SAFETY: as in `apply`, with three variables.
        check(unsafe { mc_scale_state(self.0, places.as_mut_ptr()) })?;
        places.into_iter().map(own).collect()
    }

    /// The scale and the number of updates skipped so far. Waits for the device.
    pub fn read(&self) -> Result<(f64, u64), TchError> {
        let (mut scale, mut skipped) = (0.0, 0.0);
        // SAFETY: as in `apply`; both variables live until the call returns.
        check(unsafe { mc_scale_read(self.0, &mut scale, &mut skipped) })?;
        Ok((scale, skipped as u64))
    }
}

impl Drop for LossScale {
    fn drop(&mut self) {
        // SAFETY: created by `mc_scale_new` and freed once.
        unsafe { mc_scale_free(self.0) };
    }
}

/// An optimizer of the shim. Its parameters must keep the storage that they had when the optimizer was created, because it always updates
/// that storage.
pub struct Updates(*mut c_void);

fn number(implementation: OptimizerImpl) -> c_int {
    match implementation {
        OptimizerImpl::Fused => 0,
        OptimizerImpl::Foreach => 1,
        OptimizerImpl::Loop => 2,
    }
}

impl Updates {
    /// Drops the gradients, so that the next backward pass writes them instead of adding to them.
    pub fn zero(&mut self) -> Result<(), TchError> {
        // SAFETY: created by the shim and freed only in `drop`; the same holds below.
        done(unsafe { mc_optimizer_zero(self.0) })
    }

    /// Makes one update. With a scale, the gradients are gradients of the scaled loss.
    pub fn step(&mut self, scale: Option<&LossScale>) -> Result<(), TchError> {
        let scale = scale.map_or(ptr::null_mut(), |scale| scale.0);
        // SAFETY: see `zero`; the scale is alive.
        done(unsafe { mc_optimizer_step(self.0, scale) })
    }

    /// Number of gradients that had to be copied because their strides differed from the strides of their parameters.
    pub fn relaid(&self) -> i64 {
        // SAFETY: see `zero`.
        unsafe { mc_optimizer_relaid(self.0) }
    }

    /// The tensors that it keeps between updates, on the device. Overwriting them resumes a run.
    pub fn state(&self) -> Result<Vec<Tensor>, TchError> {
        let counted = |room: &mut [*mut C_tensor]| {
            // SAFETY: see `zero`; there are as many variables as passed, which live until the call returns.
            let count = unsafe { mc_optimizer_state(self.0, room.as_mut_ptr(), room.len()) };
            check(if count < 0 { -1 } else { 0 }).map(|_| count as usize)
        };
        let mut places = vec![ptr::null_mut(); counted(&mut [])?];
        counted(&mut places)?;
        places.into_iter().map(own).collect()
    }
}

impl Drop for Updates {
    fn drop(&mut self) {
        // SAFETY: created by the shim and freed once.
        unsafe { mc_optimizer_free(self.0) };
    }
}

/// SGD with momentum.
pub struct Sgd(pub Updates);

impl Sgd {
    /// Creates the optimizer over these parameters, at their present storage.
    pub fn new(
        parameters: &[Tensor],
        learning_rate: f64,
        momentum: f64,
        implementation: OptimizerImpl,
    ) -> Result<Self, TchError> {
        let pointers: Vec<_> = parameters.iter().map(Tensor::as_ptr).collect();
        let number = number(implementation);
        // SAFETY: `pointers` holds this many tensors, which live until the call returns; the shim keeps its own references.
        let sgd = unsafe { mc_sgd_new(pointers.as_ptr().cast(), pointers.len(), number, learning_rate, momentum) };
        Ok(Self(Updates(check_pointer(sgd)?)))
    }
}

/// AdamW whose learning rate is stored on the device.
pub struct AdamW(pub Updates);

impl AdamW {
    /// Creates the optimizer over these parameters, at their present storage; the learning rate is 0 until it is set.
    pub fn new(parameters: &[Tensor], weight_decay: f64, implementation: OptimizerImpl) -> Result<Self, TchError> {
        Self::with_norm(parameters, weight_decay, implementation, true)
    }

    /// Creates the optimizer with one learning rate and without the norm of gradients, which costs kernels of its own. Without weight decay
    /// it is Adam.
    pub fn at_rate(
        parameters: &[Tensor],
        learning_rate: f64,
        weight_decay: f64,
        implementation: OptimizerImpl,
    ) -> Result<Self, TchError> {
        let mut adamw = Self::with_norm(parameters, weight_decay, implementation, false)?;
        adamw.set_learning_rate(learning_rate)?;
        Ok(adamw)
    }

    fn with_norm(
        parameters: &[Tensor],
        weight_decay: f64,
        implementation: OptimizerImpl,
        has_norm: bool,
    ) -> Result<Self, TchError> {
        let pointers: Vec<_> = parameters.iter().map(Tensor::as_ptr).collect();
        let number = number(implementation);
        // SAFETY: as in `Sgd::new`.
        let adamw = unsafe {
            mc_adamw_new(pointers.as_ptr().cast(), pointers.len(), number, weight_decay, c_int::from(has_norm))
        };
        Ok(Self(Updates(check_pointer(adamw)?)))
    }

    /// Sets the learning rate of the device's updates from now on.
    pub fn set_learning_rate(&mut self, learning_rate: f64) -> Result<(), TchError> {
        // SAFETY: created by `mc_adamw_new` and freed only in `drop`.
        done(unsafe { mc_adamw_learning_rate(self.0.0, learning_rate) })
    }

    /// The learning rate in fp32, on the device.
    pub fn learning_rate(&self) -> Result<Tensor, TchError> {
        // SAFETY: as above.
        own(unsafe { mc_adamw_rate(self.0.0) })
    }

    /// The 2-norm of all gradients of the last update, in fp32 on the device; the next replay of a graph overwrites it.
    pub fn gradient_norm(&self) -> Result<Tensor, TchError> {
        // SAFETY: as above.
        own(unsafe { mc_adamw_norm(self.0.0) })
    }
}
