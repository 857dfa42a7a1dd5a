//! Batches for the trainer: scenario a's images of bytes, upsampled by threads of the host (2505.22905 section 3) or on the
//! device itself.

mod device;
mod host;
mod loader;
mod order;
mod schedule;
mod staging;
mod upsample;

use multicard::plan::Precision;
use tch::Kind;

pub use loader::{Batch, Epoch, Loader, Origin};
pub use order::{Deal, Mode, Shard};
pub use staging::CopyFence;

/// Mean of MNIST's pixels, bytes / 255: what the papers' scripts normalise with.
pub const PIXEL_MEAN: f64 = 0.1307;
/// Standard deviation of MNIST's pixels, bytes / 255.
pub const PIXEL_DEVIATION: f64 = 0.3081;

/// The type of a run's activations.
fn run_kind(precision: Precision) -> Kind {
    match precision {
        Precision::Fp32 => Kind::Float,
        Precision::Fp64 => Kind::Double,
        Precision::Fp16 => Kind::Half,
        Precision::Bf16 => Kind::BFloat16,
    }
}
