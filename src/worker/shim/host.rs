//! The part of the shim that needs only libtorch_cpu.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr;

use tch::{Device, Kind, TchError, Tensor};
use torch_sys::C_tensor;

use super::{cuda_index, error_from, scalar_type};

unsafe extern "C" {
    fn mc_last_error() -> *const c_char;
    fn mc_torch_version() -> *const c_char;
    fn mc_stamp() -> *const c_char;
    fn mc_place(tensor: *const C_tensor, cuda_index: c_int, scalar_type: c_int, channels_last: c_int) -> c_int;
    fn mc_is_channels_last(tensor: *const C_tensor) -> c_int;
    fn mc_pinned_empty(shape: *const i64, dimensions: usize, scalar_type: c_int) -> *mut C_tensor;
    fn mc_adopt(
        data: *mut c_void,
        shape: *const i64,
        dimensions: usize,
        scalar_type: c_int,
        cuda_index: c_int,
        release: unsafe extern "C" fn(*mut c_void),
        owner: *mut c_void,
    ) -> *mut C_tensor;
    fn mc_is_pinned(tensor: *const C_tensor) -> c_int;
    fn mc_copy(to: *const C_tensor, from: *const C_tensor, non_blocking: c_int) -> c_int;
    fn mc_on_gradient(
        tensor: *const C_tensor,
        call: unsafe extern "C" fn(*mut c_void, *mut c_char, usize) -> c_int,
        release: unsafe extern "C" fn(*mut c_void),
        owner: *mut c_void,
    ) -> c_int;
    fn mc_autocast_enter(cuda: c_int, scalar_type: c_int) -> c_int;
    fn mc_autocast_leave(cuda: c_int) -> c_int;
    fn mc_set_flags(benchmark: c_int, tf32_conv: c_int, tf32_matmul: c_int, deterministic: c_int) -> c_int;
    fn mc_flags() -> c_int;
    fn mc_set_threads(compute: c_int, interop: c_int) -> c_int;
}

pub(super) fn check(status: c_int) -> Result<c_int, TchError> {
    if status < 0 { Err(error_from(mc_last_error)) } else { Ok(status) }
}

/// Checks the status of a call as [`check`] does, for calls that return nothing else.
pub(super) fn done(status: c_int) -> Result<(), TchError> {
    check(status).map(drop)
}

pub(super) fn check_pointer(pointer: *mut c_void) -> Result<*mut c_void, TchError> {
    if pointer.is_null() { Err(error_from(mc_last_error)) } else { Ok(pointer) }
}

pub(super) fn own(pointer: *mut C_tensor) -> Result<Tensor, TchError> {
    if pointer.is_null() {
        return Err(error_from(mc_last_error));
    }
    // SAFETY: the shim returns a tensor made with `new`, which nothing else owns.
    Ok(unsafe { Tensor::from_ptr(pointer) })
}

/// The digest of the sources, which both parts of the shim must have in common.
pub(super) fn stamp() -> &'static CStr {
    // SAFETY: a string literal of the shim.
    unsafe { CStr::from_ptr(mc_stamp()) }
}

/// The version of libtorch that the worker was built against.
pub fn torch_version() -> String {
    // SAFETY: a string literal of the shim.
    unsafe { CStr::from_ptr(mc_torch_version()) }.to_string_lossy().into_owned()
}

/// Replaces the storage of a parameter or buffer by one with another device, type and memory format; the tensor stays the same leaf of
/// autograd.
pub fn place(tensor: &Tensor, device: Device, kind: Kind, channels_last: bool) -> Result<(), TchError> {
    // SAFETY: the tensor lives until the call returns.
    done(unsafe { mc_place(tensor.as_ptr(), cuda_index(device), scalar_type(kind), channels_last.into()) })
}

/// Whether the tensor lies in memory as channels last.
pub fn is_channels_last(tensor: &Tensor) -> Result<bool, TchError> {
    // SAFETY: the tensor lives until the call returns.
    Ok(check(unsafe { mc_is_channels_last(tensor.as_ptr()) })? == 1)
}

/// Allocates page-locked memory on the host, without filling it. Needs CUDA. (tch's own `pin_memory` copies, and warns each time.)
pub fn pinned_empty(shape: &[i64], kind: Kind) -> Result<Tensor, TchError> {
    // SAFETY: the shape lives until the call returns.
    own(unsafe { mc_pinned_empty(shape.as_ptr(), shape.len(), scalar_type(kind)) })
}

/// Whether the tensor lies in page-locked memory.
pub fn is_pinned(tensor: &Tensor) -> Result<bool, TchError> {
    // SAFETY: the tensor lives until the call returns.
    Ok(check(unsafe { mc_is_pinned(tensor.as_ptr()) })? == 1)
}

/// Drops the box whose pointer was passed to the shim. The shim calls it once, when it no longer needs the box.
pub(super) unsafe extern "C" fn release<T>(owner: *mut c_void) {
    // SAFETY: the pointer was made by `Box::into_raw` of a box of `T` and is returned once.
    drop(unsafe { Box::from_raw(owner.cast::<T>()) });
}

/// A tensor over memory that `owner` owns: contiguous elements of `kind` on `device`. The owner is dropped when libtorch no longer needs
/// the memory, by whichever thread this happens on.
///
/// # Safety
/// `data` must hold as many elements of `kind` on `device` as `shape` says, for as long as the owner lives.
pub unsafe fn adopt<T: Send + 'static>(
    data: *mut c_void,
    shape: &[i64],
    kind: Kind,
    device: Device,
    owner: Box<T>,
) -> Result<Tensor, TchError> {
    let owner = Box::into_raw(owner).cast();
    let (kind, device) = (scalar_type(kind), cuda_index(device));
    // SAFETY: as the caller promises; the shape lives until the call returns.
    own(unsafe { mc_adopt(data, shape.as_ptr(), shape.len(), kind, device, release::<T>, owner) })
}

/// Copies values, without blocking if both sides allow it.
pub fn copy(to: &Tensor, from: &Tensor, non_blocking: bool) -> Result<(), TchError> {
    // SAFETY: both live until the call returns; libtorch keeps their storage alive until a copy on the device has finished.
    done(unsafe { mc_copy(to.as_ptr(), from.as_ptr(), non_blocking.into()) })
}

/// Writes as much of an error's text as there is room for, and leaves the terminating zero in place.
///
/// # Safety
/// `text` must have room for `room` bytes, all zero.
pub(super) unsafe fn write_error(error: TchError, text: *mut c_char, room: usize) {
    let error = match error {
        TchError::Torch(text) => text,
        other => other.to_string(),
    };
    let message = error.as_bytes();
    let length = message.len().min(room.saturating_sub(1));
    // SAFETY: as the caller promises.
    unsafe { ptr::copy_nonoverlapping(message.as_ptr(), text.cast(), length) };
}

/// Calls `hook` in a backward pass when the tensor's gradient is complete, before the backward pass continues to the operation that made
/// the tensor. The hook is never called if the tensor needs no gradient. An error ends the backward pass. On a GPU, a thread of autograd
/// calls the hook.
pub fn on_gradient<F>(tensor: &Tensor, hook: F) -> Result<(), TchError>
where
    F: Fn() -> Result<(), TchError> + Send + Sync + 'static,
{
    unsafe extern "C" fn call<F: Fn() -> Result<(), TchError>>(
        owner: *mut c_void,
        text: *mut c_char,
        room: usize,
    ) -> c_int {
        // SAFETY: the box made in `on_gradient`, which lives until `release`.
        let Err(error) = (unsafe { &*owner.cast::<F>() })() else { return 0 };
        // SAFETY: the text has that much room.
        unsafe { write_error(error, text, room) };
        -1
    }
    let owner = Box::into_raw(Box::new(hook)).cast();
    // SAFETY: the tensor lives until the call returns; the hook may be called and dropped by any thread.
    done(unsafe { mc_on_gradient(tensor.as_ptr(), call::<F>, release::<F>, owner) })
}

/// Sets the number of threads for arithmetic on the CPU. Call it once in a process, before any arithmetic.
pub fn set_threads(compute: u32, interop: u32) -> Result<(), TchError> {
    // SAFETY: plain values.
    done(unsafe { mc_set_threads(compute as c_int, interop as c_int) })
}

/// Mixed precision for the operations of this thread, for as long as the value lives.
pub struct Autocast {
    cuda: bool,
    // The state belongs to the thread that entered it.
    thread: PhantomData<*const ()>,
}

impl Autocast {
    /// Enters autocast to `kind` on the device.
    pub fn enter(device: Device, kind: Kind) -> Result<Self, TchError> {
        let cuda = device.is_cuda();
        // SAFETY: plain values.
        check(unsafe { mc_autocast_enter(cuda.into(), scalar_type(kind)) })?;
        Ok(Self { cuda, thread: PhantomData })
    }
}

impl Drop for Autocast {
    fn drop(&mut self) {
        // SAFETY: plain values; the shim lets no exception pass.
        unsafe { mc_autocast_leave(self.cuda.into()) };
    }
}

/// libtorch's switches for the whole process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags {
    /// Whether cuDNN tries its algorithms.
    pub cudnn_benchmark: bool,
    /// Whether cuDNN's convolutions use TF32.
    pub tf32_conv: bool,
    /// Whether matrix products use TF32.
    pub tf32_matmul: bool,
    /// Whether only algorithms are used that give the same bits each time.
    pub deterministic: bool,
}

impl Flags {
    /// Sets the switches. Call it before the device is first used, because cuBLAS reads the size of its workspace only then.
    pub fn set(self) -> Result<(), TchError> {
        let Self { cudnn_benchmark, tf32_conv, tf32_matmul, deterministic } = self;
        let (conv, matmul) = (tf32_conv.into(), tf32_matmul.into());
        // SAFETY: plain values. The function sets an environment variable: ranks call it before they start a thread.
        done(unsafe { mc_set_flags(cudnn_benchmark.into(), conv, matmul, deterministic.into()) })
    }

    /// The switches in effect.
    pub fn in_effect() -> Result<Self, TchError> {
        // SAFETY: no arguments.
        let bits = check(unsafe { mc_flags() })?;
        let bit = |value: c_int| bits & value != 0;
        Ok(Self { cudnn_benchmark: bit(1), tf32_conv: bit(2), tf32_matmul: bit(4), deterministic: bit(8) })
    }
}
