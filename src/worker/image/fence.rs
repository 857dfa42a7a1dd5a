//! CUDA events, used as the loader's fences.

use crate::image::data::CopyFence;
use crate::shim::cuda::Event;

/// An event whose errors are given as text.
struct CudaFence(Event);

impl CopyFence for CudaFence {
    fn record(&self) -> Result<(), String> {
        self.0.record().map_err(|error| error.to_string())
    }

    fn wait(&self) -> Result<(), String> {
        self.0.wait().map_err(|error| error.to_string())
    }
}

/// A fence on the current device; `None` if CUDA is not in use.
pub fn new() -> Option<Box<dyn CopyFence + Send>> {
    Some(Box::new(CudaFence(Event::untimed().ok()?)))
}
