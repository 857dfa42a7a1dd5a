//! How ranks work together: the store through which they find each other, their process group, and c10d's Reducer.

use std::ffi::{CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use tch::{TchError, Tensor};
use torch_sys::C_tensor;

use super::cuda;
use super::host::{check, check_pointer, done, own};

unsafe extern "C" {
    fn mc_store_open(path: *const c_char, timeout_ms: i64) -> *mut c_void;
    fn mc_store_free(store: *mut c_void);
    fn mc_store_c10d(store: *mut c_void) -> *mut c_void;
    fn mc_group_gloo(
        store: *mut c_void,
        rank: c_int,
        world_size: c_int,
        timeout_ms: i64,
        over_nodes: c_int,
    ) -> *mut c_void;
    fn mc_group_set_timeout(group: *mut c_void, timeout_ms: i64) -> c_int;
    fn mc_group_leave(group: *mut c_void) -> c_int;
    fn mc_group_size(group: *mut c_void) -> c_int;
    fn mc_group_error(group: *mut c_void) -> c_int;
    fn mc_group_reduce(group: *mut c_void, tensor: *const C_tensor, operation: c_int) -> c_int;
    fn mc_group_swap(group: *mut c_void, sent: *const C_tensor, received: *const C_tensor) -> c_int;
    fn mc_group_broadcast(group: *mut c_void, tensors: *const *const C_tensor, count: usize) -> c_int;
    fn mc_reducer_new(
        group: *mut c_void,
        parameters: *const *const C_tensor,
        count: usize,
        bucket_bytes: i64,
        first_bucket_bytes: i64,
    ) -> *mut c_void;
    fn mc_reducer_free(reducer: *mut c_void);
    fn mc_reducer_before_forward(reducer: *mut c_void) -> c_int;
    fn mc_reducer_before_backward(reducer: *mut c_void) -> c_int;
    fn mc_reducer_buckets(reducer: *mut c_void) -> c_int;
    fn mc_sync_batch_norm(
        group: *mut c_void,
        input: *const C_tensor,
        scale: *const C_tensor,
        shift: *const C_tensor,
        running_mean: *const C_tensor,
        running_variance: *const C_tensor,
        momentum: f64,
        epsilon: f64,
    ) -> *mut C_tensor;
    fn mc_copy_all(to: *const *const C_tensor, from: *const *const C_tensor, count: usize) -> c_int;
    fn mc_add_gradients(to: *const *const C_tensor, from: *const *const C_tensor, count: usize) -> c_int;
    fn mc_exit(code: c_int) -> !;
}

pub(super) fn pointers(tensors: &[Tensor]) -> Vec<*const C_tensor> {
    tensors.iter().map(|tensor| tensor.as_ptr()).collect()
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// A FileStore: a file in which ranks publish their addresses.
pub struct Store(*mut c_void);

impl Store {
    /// Opens the store in this file, which the first rank creates. Waiting for a value fails after `timeout`.
    pub fn open(path: &Path, timeout: Duration) -> Result<Self, TchError> {
        let text = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| TchError::Torch(format!("{} cannot be a file's path", path.display())))?;
        // SAFETY: the path lives until the call returns.
        Ok(Self(check_pointer(unsafe { mc_store_open(text.as_ptr(), milliseconds(timeout)) })?))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // SAFETY: created by the shim and freed once. Groups hold references of their own.
        unsafe { mc_store_free(self.0) };
    }
}

/// How [`ProcessGroup::reduce`] combines values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// Adds them.
    Sum,
    /// Takes the smallest.
    Min,
    /// Takes the largest.
    Max,
}

/// The place of the tensors of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// gloo: tensors on the CPU, for ranks on one node.
    Gloo,
    /// gloo: tensors on the CPU, for ranks on several nodes.
    GlooOverNodes,
    /// NCCL: tensors on the GPU with this index.
    Nccl(usize),
}

/// The ranks of a run, as one of them sees them. All ranks must call the same collectives in the same order.
///
/// The group is not freed when it is dropped, only by [`ProcessGroup::leave`], because freeing it when peers are gone may wait for ever.
pub struct ProcessGroup(pub(super) *mut c_void);

impl ProcessGroup {
    /// Joins the other ranks through the store. A collective that takes longer than `timeout` fails.
    pub fn new(
        store: &Store,
        backend: Backend,
        rank: u32,
        world_size: u32,
        timeout: Duration,
    ) -> Result<Self, TchError> {
        let (rank, size, timeout_ms) = (rank as c_int, world_size as c_int, milliseconds(timeout));
        let group = match backend {
            // SAFETY: the store is alive; the group keeps a reference of its own.
            Backend::Gloo | Backend::GlooOverNodes => check_pointer(unsafe {
                mc_group_gloo(store.0, rank, size, timeout_ms, c_int::from(backend == Backend::GlooOverNodes))
            })?,
            // SAFETY: as above; the pointer within the store is read only during the call.
            Backend::Nccl(device) => cuda::group(unsafe { mc_store_c10d(store.0) }, rank, size, device, timeout_ms)?,
        };
        Ok(Self(group))
    }

    /// Sets how long a collective may take from now on. Only over gloo.
    pub fn set_timeout(&self, timeout: Duration) -> Result<(), TchError> {
        // SAFETY: created by the shim and not freed.
        done(unsafe { mc_group_set_timeout(self.0, milliseconds(timeout)) })
    }

    /// Frees the group. All ranks must call it.
    pub fn leave(self) -> Result<(), TchError> {
        // SAFETY: created by the shim, and given up here by its only owner.
        done(unsafe { mc_group_leave(self.0) })
    }

    /// The number of ranks, as c10d reports it.
    pub fn size(&self) -> Result<u32, TchError> {
        // SAFETY: created by the shim and not freed; the same holds below.
        Ok(check(unsafe { mc_group_size(self.0) })?.unsigned_abs())
    }

    /// The error that NCCL's watchdog found, if any.
    pub fn error(&self) -> Result<Option<&'static str>, TchError> {
        // SAFETY: see `size`.
        Ok(match check(unsafe { mc_group_error(self.0) })? {
            0 => None,
            1 => Some("NCCL: a collective timed out"),
            3 => Some("NCCL: another rank's communicator failed"),
            _ => Some("NCCL: a communicator failed"),
        })
    }

    /// Combines the values of all ranks, in place.
    pub fn reduce(&self, tensor: &Tensor, combine: Combine) -> Result<(), TchError> {
        let operation = match combine {
            Combine::Sum => 0,
            Combine::Min => 1,
            Combine::Max => 2,
        };
        // SAFETY: see `size`; the tensor lives until the call returns.
        done(unsafe { mc_group_reduce(self.0, tensor.as_ptr(), operation) })
    }

    /// Sends a number to each rank, in their order, and receives one from each.
    pub fn swap(&self, sent: &Tensor) -> Result<Tensor, TchError> {
        let received = sent.f_zeros_like()?;
        // SAFETY: see `size`; both tensors live until the call returns.
        check(unsafe { mc_group_swap(self.0, sent.as_ptr(), received.as_ptr()) })?;
        Ok(received)
    }

    /// Replaces the values on all ranks with the values of rank 0.
    pub fn broadcast(&self, tensors: &[Tensor]) -> Result<(), TchError> {
        let pointers = pointers(tensors);
        // SAFETY: see `size`; the tensors live until the call returns.
        done(unsafe { mc_group_broadcast(self.0, pointers.as_ptr(), pointers.len()) })
    }

    /// Batch normalisation in training, over the images `[images, channels, height, width]` of all ranks.
    pub fn batch_norm(
        &self,
        input: &Tensor,
        [scale, shift, running_mean, running_variance]: [&Tensor; 4],
        momentum: f64,
        epsilon: f64,
    ) -> Result<Tensor, TchError> {
        let [scale, shift] = [scale.as_ptr(), shift.as_ptr()];
        let [mean, variance] = [running_mean.as_ptr(), running_variance.as_ptr()];
        // SAFETY: see `size`; the tensors live until the call returns. Autograd keeps the group's address until the backward pass of the
        // same step, and the group is freed only after the last one.
        own(unsafe { mc_sync_batch_norm(self.0, input.as_ptr(), scale, shift, mean, variance, momentum, epsilon) })
    }
}

/// Averages gradients over ranks in buckets while the backward pass is running.
pub struct Reducer {
    raw: *mut c_void,
    // The group outlives the reducer.
    _group: Rc<ProcessGroup>,
}

impl Reducer {
    /// Creates a reducer for parameters that are the same on all ranks, which is checked. Gradients become views of the buckets.
    pub fn new(
        group: &Rc<ProcessGroup>,
        parameters: &[Tensor],
        bucket_bytes: i64,
        first_bucket_bytes: i64,
    ) -> Result<Self, TchError> {
        let pointers = pointers(parameters);
        // SAFETY: the group and the tensors are alive; the shim keeps references of its own.
        let raw =
            unsafe { mc_reducer_new(group.0, pointers.as_ptr(), pointers.len(), bucket_bytes, first_bucket_bytes) };
        Ok(Self { raw: check_pointer(raw)?, _group: Rc::clone(group) })
    }

    /// Call it before each forward pass of training. The second call arranges the buckets in the order in which gradients arrived.
    pub fn before_forward(&self) -> Result<(), TchError> {
        // SAFETY: created in `new` and freed only in `drop`; the same holds below.
        done(unsafe { mc_reducer_before_forward(self.raw) })
    }

    /// Call it between a forward pass and its backward pass, which then averages the gradients.
    pub fn before_backward(&self) -> Result<(), TchError> {
        // SAFETY: see `before_forward`.
        done(unsafe { mc_reducer_before_backward(self.raw) })
    }

    /// The number of buckets.
    pub fn buckets(&self) -> Result<u32, TchError> {
        // SAFETY: see `before_forward`.
        Ok(check(unsafe { mc_reducer_buckets(self.raw) })?.unsigned_abs())
    }
}

impl Drop for Reducer {
    fn drop(&mut self) {
        // SAFETY: created in `new` and freed once.
        unsafe { mc_reducer_free(self.raw) };
    }
}

/// Copies the values of one model to another of the same shapes, on any devices. The lists must have the same length.
pub fn copy_all(to: &[Tensor], from: &[Tensor]) -> Result<(), TchError> {
    let (to, from) = (pointers(to), pointers(from));
    // SAFETY: both lists hold as many tensors as the shorter one, and all tensors live until the call returns.
    done(unsafe { mc_copy_all(to.as_ptr(), from.as_ptr(), to.len().min(from.len())) })
}

/// Adds the gradients of the parameters `from` to the gradients of the parameters `to`, and removes them from `from`.
pub fn add_gradients(to: &[Tensor], from: &[Tensor]) -> Result<(), TchError> {
    let (to, from) = (pointers(to), pointers(from));
    // SAFETY: as in `copy_all`.
    done(unsafe { mc_add_gradients(to.as_ptr(), from.as_ptr(), to.len().min(from.len())) })
}

/// Ends the process immediately, for a rank that failed while it has peers: destructors of their group may wait for ever.
pub fn exit_now(code: u8) -> ! {
    // SAFETY: no destructor runs, and nothing relies on one: the log was flushed.
    unsafe { mc_exit(code.into()) }
}
