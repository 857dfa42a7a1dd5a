//! Collectives in the built-in trace: over gloo with the times in which a rank waits for them, over NCCL their launches. Each has its size.

use std::ffi::{CStr, c_char, c_int};

use tch::TchError;

use super::host::check;
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

/// The shim gives a string that lives through the call.
unsafe extern "C" fn end(name: *const c_char, bytes: i64, begun: i64) {
    // SAFETY: see above.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    match u64::try_from(bytes) {
        Ok(bytes) => recording::collective(&name, bytes, begun),
        Err(_) => recording::end(&name, begun),
    }
}

/// Records collectives from here on, whenever the trace records: over gloo if they are `on_host`, else over NCCL. Must come before the first
/// one, once in a process.
///
/// # Errors
///
/// If libtorch takes no observer.
pub fn record_collectives(on_host: bool) -> Result<(), TchError> {
    // SAFETY: both functions may be called from any thread at any time.
    check(unsafe { mc_record_collectives(begin, end, c_int::from(on_host)) })?;
    Ok(())
}
