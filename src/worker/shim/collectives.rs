//! Records collectives in the built-in trace: over gloo with the times in which a rank waits for them, over NCCL when they are launched.
//! Each has its size.

use std::ffi::{CStr, c_char, c_int};

use tch::TchError;

use super::host::done;
use crate::recording;

unsafe extern "C" {
    fn mc_record_collectives(
        begin: extern "C" fn() -> i64,
        end: unsafe extern "C" fn(*const c_char, i64, i64),
        on_host: c_int,
    ) -> c_int;
}

extern "C" fn begin() -> i64 {
    recording::begin().unwrap_or(-1)
}

/// The shim passes a string that lives until the call returns.
unsafe extern "C" fn end(name: *const c_char, bytes: i64, begun: i64) {
    // SAFETY: see above.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    match u64::try_from(bytes) {
        Ok(bytes) => recording::collective(&name, bytes, begun),
        Err(_) => recording::end(&name, begun, false),
    }
}

/// Records collectives from now on, whenever the trace is recording: over gloo if `on_host`, otherwise over NCCL. Call it once in a
/// process, before the first collective.
///
/// # Errors
///
/// libtorch accepts no observer.
pub fn record_collectives(on_host: bool) -> Result<(), TchError> {
    // SAFETY: both functions may be called from any thread at any time.
    done(unsafe { mc_record_collectives(begin, end, c_int::from(on_host)) })
}
