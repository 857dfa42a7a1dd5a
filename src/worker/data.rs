//! Batches for the trainer: scenario a's images of bytes, upsampled by threads of the host (2505.22905 section 3).

mod host;
mod order;
mod staging;
mod upsample;

pub use host::{Batch, Epoch, HostLoader};
pub use order::{Deal, Mode, Shard};
pub use staging::CopyFence;

/// Mean of MNIST's pixels, bytes / 255: what the papers' scripts normalise with.
pub const PIXEL_MEAN: f64 = 0.1307;
/// Standard deviation of MNIST's pixels, bytes / 255.
pub const PIXEL_DEVIATION: f64 = 0.3081;
