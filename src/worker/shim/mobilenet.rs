//! MobileNetV2's training step on GPUs, in kernels that normalise and activate values when they read them.

use std::ffi::c_int;

use tch::{Kind, TchError, Tensor};

use super::{cuda, scalar_type};

/// A convolution and its batch normalisation.
pub struct Layer<'a> {
    /// The convolution's weight and the normalisation's scale and shift, in fp32 and channels last.
    pub parameters: [&'a Tensor; 3],
    /// Running mean and variance, which a pass updates.
    pub running: [&'a Tensor; 2],
}

/// Compiles the kernels for activations of this type, on this process's GPU.
pub fn compile(kind: Kind) -> Result<(), TchError> {
    let kind: c_int = scalar_type(kind);
    cuda::mobilenet_compile(kind)
}

/// The mean of the last feature maps, `[images, channels]`, of `images [images, 3, height, width]`, computed with the statistics of this
/// batch, in the type of autocast or of the weights. `layers` are in the order of the forward pass: the stem, which belongs to the first
/// block, three layers for each other block, and the tail. `strides` are the strides of the blocks. Blocks with stride 1 and as many
/// outputs as inputs have residual sums.
pub fn features(images: &Tensor, layers: &[Layer], strides: &[i64]) -> Result<Tensor, TchError> {
    let parameters: Vec<_> = layers.iter().flat_map(|layer| layer.parameters.map(Tensor::as_ptr)).collect();
    let running: Vec<_> = layers.iter().flat_map(|layer| layer.running.map(Tensor::as_ptr)).collect();
    cuda::mobilenet_features(images, &parameters, &running, strides)
}
