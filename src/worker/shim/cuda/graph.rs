//! CUDA graphs: work that is recorded once and then launched as a whole.

use std::ffi::c_void;

use tch::TchError;

use super::{Functions, check, functions};
use crate::shim::error_from;

/// Gives the calling thread a stream of its own for all its later work on the current device, because the default stream cannot be
/// captured.
pub fn use_side_stream() -> Result<(), TchError> {
    let functions = functions()?;
    // SAFETY: no arguments.
    check(functions, unsafe { (functions.mcc_use_side_stream)() })?;
    Ok(())
}

/// Work of one stream with fixed shapes and addresses. Its memory is a pool that lives as long as the graph.
pub struct Graph {
    raw: *mut c_void,
    functions: &'static Functions,
    /// Number of kernels that it launches.
    pub kernels: u64,
    /// Number of kernels, copies and fills that it launches.
    pub nodes: u64,
}

impl Graph {
    /// Records the work that `work` queues on the current stream, without running it. `work` must not wait for the device. If `beside` is
    /// given, the graph uses its pool of memory, and replays of the two graphs overwrite each other's tensors.
    pub fn capture<T>(
        beside: Option<&Self>,
        work: impl FnOnce() -> Result<T, TchError>,
    ) -> Result<(Self, T), TchError> {
        let functions = functions()?;
        let beside = beside.map_or(std::ptr::null_mut(), |graph| graph.raw);
        // SAFETY: no graph, or one that lives until the call returns.
        let raw = unsafe { (functions.mcc_graph_begin)(beside) };
        if raw.is_null() {
            return Err(error_from(functions.mcc_last_error));
        }
        let mut graph = Self { raw, functions, kernels: 0, nodes: 0 };
        let result = work();
        let (mut kernels, mut nodes) = (0, 0);
        // SAFETY: the graph was created above and is freed only in `drop`; both variables live until the call returns. A capture is ended
        // even if its work has failed.
        let ended = check(functions, unsafe { (functions.mcc_graph_end)(raw, &mut kernels, &mut nodes) });
        // If `work` failed, its error is the cause.
        let result = result?;
        ended?;
        (graph.kernels, graph.nodes) = (kernels.unsigned_abs(), nodes.unsigned_abs());
        Ok((graph, result))
    }

    /// Launches the recorded work on the current stream.
    pub fn replay(&self) -> Result<(), TchError> {
        // SAFETY: see `capture`.
        check(self.functions, unsafe { (self.functions.mcc_graph_replay)(self.raw) })?;
        Ok(())
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: created in `capture` and freed once.
        unsafe { (self.functions.mcc_graph_free)(self.raw) };
    }
}
