//! Functions that tch lacks, from the C++ shim over libtorch. The worker's unsafe code is here, and in the modules of images that use raw
//! memory or DALI.
//!
//! `host` needs only libtorch_cpu and is linked. `cuda` is a shared library that is opened at run time, so that one worker serves machines
//! with and without GPUs. No function of the shim throws: each keeps its error's text for the calling thread and returns a bad value, which
//! becomes a [`TchError`] here.
#![allow(unsafe_code)]

mod c10d;
mod collectives;
mod convolution;
pub mod cuda;
mod cupti;
mod host;
pub mod llama;
mod mapped;
pub mod mobilenet;
mod numa;
mod optimizer;
mod profiler;
mod shards;
mod versions;

pub use c10d::{Backend, Combine, ProcessGroup, Reducer, Store, add_gradients, copy_all, exit_now};
pub use collectives::record_collectives;
pub use convolution::{KeptPlans, keep_plans, kept_plans};
pub use cupti::Tracer;
pub use host::{
    Autocast, Flags, adopt, copy, is_channels_last, is_pinned, on_gradient, pinned_empty, place, set_threads,
    torch_version,
};
pub use mapped::Mapped;
pub use numa::ThreadPolicy;
pub use optimizer::{AdamW, LossScale, Sgd};
pub use profiler::{NvtxRange, Recording};
pub use shards::ShardedUnit;
pub use versions::versions;

use std::ffi::{CStr, c_char, c_int};

use tch::{Device, Kind, TchError};

/// The error text that a shim library keeps for the calling thread.
fn error_from(text: unsafe extern "C" fn() -> *const c_char) -> TchError {
    // SAFETY: the function returns the thread's own string, which lives and stays unchanged until the next shim call of this thread.
    let text = unsafe { CStr::from_ptr(text()) };
    TchError::Torch(text.to_string_lossy().into_owned())
}

/// The device index that the shim expects: below 0 is the CPU.
fn cuda_index(device: Device) -> c_int {
    match device {
        Device::Cuda(index) => index as c_int,
        _ => -1,
    }
}

/// libtorch's number of a type.
fn scalar_type(kind: Kind) -> c_int {
    kind as c_int
}
