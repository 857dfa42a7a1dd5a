//! MobileNetV2's training step in kernels that normalise and activate where values are read, on GPUs.

use std::ffi::c_int;

use tch::{Kind, TchError, Tensor};

use super::{cuda, scalar_type};

/// A convolution and its batch normalisation.
pub struct Layer<'a> {
    /// The convolution's weight, the normalisation's scale and shift: in fp32, channels last.
    pub parameters: [&'a Tensor; 3],
    /// Running mean and variance, which a pass updates.
    pub running: [&'a Tensor; 2],
}

/// Compiles the kernels for activations of this type, on this process's GPU.
pub fn compile(kind: Kind) -> Result<(), TchError> {
    let kind: c_int = scalar_type(kind);
    cuda::mobilenet_compile(kind)
}

/// The mean of the last feature maps `[images, channels]` of `images [images, 3, height, width]`, with this batch's statistics, in the
/// type of autocast, or of weights. `layers` in the order of the forward pass: the stem, which belongs to the first block, three for
/// each other block, the tail. `strides` of the blocks; those with stride 1 and as many outputs as inputs have residual sums.
pub fn features(images: &Tensor, layers: &[Layer], strides: &[i64]) -> Result<Tensor, TchError> {
    let parameters: Vec<_> = layers.iter().flat_map(|layer| layer.parameters.map(Tensor::as_ptr)).collect();
    let running: Vec<_> = layers.iter().flat_map(|layer| layer.running.map(Tensor::as_ptr)).collect();
    cuda::mobilenet_features(images, &parameters, &running, strides)
}
