//! Prepares batches for the trainer: it upsamples the bytes of scenario a and decodes the files of scenario b (2505.22905 section 4.1). The
//! work is done by threads of the host, by NVIDIA DALI, or by the device itself.

mod dali;
mod device;
mod host;
mod loader;
mod mapping;
mod render;
mod samples;
mod schedule;
mod staging;
mod upsample;

use multicard::plan::image::Precision;
use tch::Kind;

pub use crate::order::{Deal, Mode, Shard};
pub use loader::{Batch, Epoch, Loader, Origin};
pub use mapping::Mapping;
pub use samples::{Content, Pixels, Samples};
pub use staging::CopyFence;

/// Mean of MNIST's pixels (bytes / 255), with which the papers' scripts normalise.
pub const PIXEL_MEAN: f64 = 0.1307;
/// Standard deviation of MNIST's pixels (bytes / 255).
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
