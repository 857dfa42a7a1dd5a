//! Sharded parameters: each rank keeps only a part of them.

use std::ffi::{c_int, c_void};
use std::ptr;

use tch::{TchError, Tensor};
use torch_sys::C_tensor;

use super::c10d::{ProcessGroup, pointers};
use super::host::{check, check_pointer, done, own};

unsafe extern "C" {
    fn mc_unit_new(
        group: *mut c_void,
        parameters: *const *const C_tensor,
        count: usize,
        by_copies: c_int,
    ) -> *mut c_void;
    fn mc_unit_free(unit: *mut c_void);
    fn mc_unit_gather(unit: *mut c_void) -> c_int;
    fn mc_unit_wait(unit: *mut c_void) -> c_int;
    fn mc_unit_release(unit: *mut c_void) -> c_int;
    fn mc_unit_has_gradients(unit: *mut c_void) -> c_int;
    fn mc_unit_reduce(unit: *mut c_void) -> c_int;
    fn mc_unit_settle(unit: *mut c_void) -> c_int;
    fn mc_unit_parts(unit: *mut c_void, parts: *mut *mut C_tensor, room: usize) -> c_int;
    fn mc_unit_bytes(unit: *mut c_void, held: *mut i64, whole: *mut i64) -> c_int;
    fn mc_unit_finish(unit: *mut c_void, keep: c_int) -> c_int;
}

/// The parameters of a unit, cut over ranks. All ranks must call its collectives in the same order.
///
/// Parameters of the same type that are all trained or all frozen are stored one after the other in a flat tensor, padded to equal parts.
/// The parameters themselves stay leaves of autograd; between uses their memory is freed.
pub struct ShardedUnit(*mut c_void);

// SAFETY: libtorch's tensors and groups may be used from any thread, by one at a time.
unsafe impl Send for ShardedUnit {}

impl ShardedUnit {
    /// Keeps this rank's part of parameters that are the same on all ranks. The group must outlive the unit.
    ///
    /// With `by_copies`, the GPU's copy engines gather the parameters from the other ranks' memory. The ranks must then run a collective
    /// between an update of the parts and the next gather.
    pub fn new(group: &ProcessGroup, parameters: &[Tensor], by_copies: bool) -> Result<Self, TchError> {
        let pointers = pointers(parameters);
        // SAFETY: the group and the tensors live until the call returns; the shim keeps references of its own.
        let unit = unsafe { mc_unit_new(group.0, pointers.as_ptr(), pointers.len(), by_copies.into()) };
        Ok(Self(check_pointer(unit)?))
    }

    /// Begins to gather the whole parameters, concurrently with the work already queued on the device. Returns whether there was anything
    /// to gather.
    pub fn gather(&self) -> Result<bool, TchError> {
        // SAFETY: created in `new` and freed only in `drop`; the same holds below.
        Ok(check(unsafe { mc_unit_gather(self.0) })? == 1)
    }

    /// Makes work that is queued from now on wait for the whole parameters.
    pub fn wait(&self) -> Result<(), TchError> {
        // SAFETY: see `gather`.
        done(unsafe { mc_unit_wait(self.0) })
    }

    /// Frees the memory of the whole parameters.
    pub fn release(&self) -> Result<(), TchError> {
        // SAFETY: see `gather`.
        done(unsafe { mc_unit_release(self.0) })
    }

    /// Whether whole parameters have gradients that were not reduced yet.
    pub fn has_gradients(&self) -> Result<bool, TchError> {
        // SAFETY: see `gather`.
        Ok(check(unsafe { mc_unit_has_gradients(self.0) })? == 1)
    }

    /// Begins to average the gradients of the whole parameters over ranks, and takes the gradients away. Returns whether any parameter is
    /// trained.
    pub fn reduce(&self) -> Result<bool, TchError> {
        // SAFETY: see `gather`.
        Ok(check(unsafe { mc_unit_reduce(self.0) })? == 1)
    }

    /// Adds the averages to the gradients of this rank's parts, if some are being reduced.
    pub fn settle(&self) -> Result<(), TchError> {
        // SAFETY: see `gather`.
        done(unsafe { mc_unit_settle(self.0) })
    }

    /// This rank's parts of the trained parameters: flat tensors with gradients.
    pub fn parts(&self) -> Result<Vec<Tensor>, TchError> {
        // SAFETY: see `gather`; there are as many variables as passed, which live until the call returns.
        let count = check(unsafe { mc_unit_parts(self.0, ptr::null_mut(), 0) })?.unsigned_abs() as usize;
        let mut parts = vec![ptr::null_mut(); count];
        // SAFETY: as above.
        check(unsafe { mc_unit_parts(self.0, parts.as_mut_ptr(), count) })?;
        parts.into_iter().map(own).collect()
    }

    /// Bytes of this rank's parts, padding included, and of the whole parameters.
    pub fn bytes(&self) -> Result<(u64, u64), TchError> {
        let (mut held, mut whole) = (0, 0);
        // SAFETY: see `gather`; both variables live until the call returns.
        check(unsafe { mc_unit_bytes(self.0, &mut held, &mut whole) })?;
        Ok((held.unsigned_abs(), whole.unsigned_abs()))
    }

    /// Leaves the whole trained parameters on the host, on ranks that `keep` them. They can then be read but not trained any more.
    pub fn finish(&self, keep: bool) -> Result<(), TchError> {
        // SAFETY: see `gather`.
        done(unsafe { mc_unit_finish(self.0, keep.into()) })
    }
}

impl Drop for ShardedUnit {
    fn drop(&mut self) {
        // SAFETY: created in `new` and freed once.
        unsafe { mc_unit_free(self.0) };
    }
}
