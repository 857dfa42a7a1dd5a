//! MobileNetV2 as torchvision 0.26 builds it: the same layers, parameter names and initial distributions.
//!
//! Source: Sandler et al., arXiv 1801.04381, Table 2; `torchvision.models.mobilenet_v2`.

use multicard::plan::Kernels;
use multicard::plan::image::BatchNorm;
use tch::nn::{Init, Path, VarStore};
use tch::{Device, Kind, TchError, Tensor};

use crate::module::{Module, Pass};
use crate::shim::{self, ProcessGroup, mobilenet};
use crate::work::{Counted, Product, Work};

/// Momentum of running statistics, as in torch.nn.BatchNorm2d.
const MOMENTUM: f64 = 0.1;
/// Number added to variances, as in torch.nn.BatchNorm2d.
const EPSILON: f64 = 1e-5;
const DROPOUT: f64 = 0.2;
/// Expansion, channels, repeats and stride of each stage.
const STAGES: [(i64, i64, usize, i64); 7] =
    [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)];

/// Which statistics batch normalisation uses.
#[derive(Clone, Copy)]
enum Norm<'a> {
    /// The running statistics.
    Running,
    /// The statistics of this batch.
    Batch,
    /// The statistics over the batches of all ranks.
    Ranks(&'a ProcessGroup),
}

/// A convolution without bias, batch normalisation and, but for projections, ReLU6.
struct ConvNorm {
    weight: Tensor,
    stride: i64,
    padding: i64,
    groups: i64,
    scale: Tensor,
    shift: Tensor,
    running_mean: Tensor,
    running_variance: Tensor,
    relu6: bool,
}

/// The names under which a [`ConvNorm`] stores its parameters.
struct Names<'a> {
    convolution: Path<'a>,
    norm: Path<'a>,
}

impl ConvNorm {
    /// Creates the layers from `input` to `output` channels, with square kernels of `size`.
    fn new(names: &Names, channels: (i64, i64), size: i64, stride: i64, groups: i64) -> Result<Self, TchError> {
        let (input, output) = channels;
        let fan_out = output * size * size;
        let init = Init::Randn { mean: 0.0, stdev: (2.0 / fan_out as f64).sqrt() };
        Ok(Self {
            weight: names.convolution.f_var("weight", &[output, input / groups, size, size], init)?,
            stride,
            padding: (size - 1) / 2,
            groups,
            scale: names.norm.f_ones("weight", &[output])?,
            shift: names.norm.f_zeros("bias", &[output])?,
            running_mean: names.norm.f_zeros_no_train("running_mean", &[output])?,
            running_variance: names.norm.f_ones_no_train("running_var", &[output])?,
            relu6: true,
        })
    }

    fn without_activation(mut self) -> Self {
        self.relu6 = false;
        self
    }

    fn convolve(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let (stride, padding) = ([self.stride; 2], [self.padding; 2]);
        input.f_conv2d(&self.weight, None::<&Tensor>, stride, padding, [1, 1], self.groups)
    }

    fn forward(&self, input: &Tensor, norm: Norm) -> Result<Tensor, TchError> {
        let mut output = self.normalise(&self.convolve(input)?, norm)?;
        if self.relu6 { output.f_relu6_() } else { Ok(output) }
    }

    /// The parameters that are trained.
    fn parameters(&self) -> [Tensor; 3] {
        [&self.weight, &self.scale, &self.shift].map(Tensor::shallow_clone)
    }

    /// The convolution over `[images, channels, height, width]`, and the shape of its output.
    fn product(&self, input: [i64; 4]) -> (Product, [i64; 4]) {
        let [images, _, height, width] = input;
        let weight = self.weight.size();
        let side = |length: i64| (length + 2 * self.padding - weight[2]) / self.stride + 1;
        let output = [images, weight[0], side(height), side(width)];
        let elements = |shape: &[i64]| shape.iter().product::<i64>();
        let product = Product {
            multiply_adds: elements(&output) * elements(&weight[1..]),
            input: elements(&input),
            weight: elements(&weight),
            output: elements(&output),
            weight_gradient: true,
            input_gradient: true,
        };
        (product, output)
    }

    fn as_fused(&self) -> mobilenet::Layer<'_> {
        mobilenet::Layer {
            parameters: [&self.weight, &self.scale, &self.shift],
            running: [&self.running_mean, &self.running_variance],
        }
    }

    fn normalise(&self, input: &Tensor, norm: Norm) -> Result<Tensor, TchError> {
        let Self { scale, shift, running_mean, running_variance, .. } = self;
        if let Norm::Ranks(group) = norm {
            return group.batch_norm(input, [scale, shift, running_mean, running_variance], MOMENTUM, EPSILON);
        }
        let (mean, variance) = (Some(running_mean), Some(running_variance));
        let train = matches!(norm, Norm::Batch);
        input.f_batch_norm(Some(scale), Some(shift), mean, variance, train, MOMENTUM, EPSILON, true)
    }
}

/// Expansion, depthwise convolution and projection; the result is added to the input if their shapes are equal.
struct InvertedResidual {
    layers: Vec<ConvNorm>,
    residual: bool,
}

impl InvertedResidual {
    fn new(path: &Path, channels: (i64, i64), stride: i64, expansion: i64) -> Result<Self, TchError> {
        let (input, output) = channels;
        let hidden = input * expansion;
        let path = path / "conv";
        let activated = |index: usize| Names { convolution: &path / index / 0, norm: &path / index / 1 };
        let mut layers = Vec::with_capacity(3);
        if expansion != 1 {
            layers.push(ConvNorm::new(&activated(0), (input, hidden), 1, 1, 1)?);
        }
        layers.push(ConvNorm::new(&activated(layers.len()), (hidden, hidden), 3, stride, hidden)?);
        // The projection is not a block of its own: its layers are beside the blocks.
        let projection = Names { convolution: &path / layers.len(), norm: &path / (layers.len() + 1) };
        layers.push(ConvNorm::new(&projection, (hidden, output), 1, 1, 1)?.without_activation());
        Ok(Self { layers, residual: stride == 1 && input == output })
    }

    fn forward(&self, input: &Tensor, norm: Norm) -> Result<Tensor, TchError> {
        let (first, rest) =
            self.layers.split_first().ok_or_else(|| TchError::Torch("a block without layers".into()))?;
        let mut output = first.forward(input, norm)?;
        for layer in rest {
            output = layer.forward(&output, norm)?;
        }
        if self.residual { input.f_add(&output) } else { Ok(output) }
    }
}

/// The network.
pub struct MobileNetV2 {
    #[cfg(test)]
    variables: VarStore,
    /// Running statistics, in the order of their names.
    buffers: Vec<Tensor>,
    batch_norm: BatchNorm,
    kernels: Kernels,
    stem: ConvNorm,
    blocks: Vec<InvertedResidual>,
    tail: ConvNorm,
    classifier_weight: Tensor,
    classifier_bias: Tensor,
}

impl MobileNetV2 {
    /// Creates the network with random weights from torch's generator of the CPU, so that a seed gives the same weights on every device.
    ///
    /// `width_multiplier` scales the channels of all stages. Weights have the type `kind`; with `channels_last` the weights of the
    /// convolutions are laid out that way.
    pub fn new(
        classes: i64,
        width_multiplier: f64,
        device: Device,
        kind: Kind,
        channels_last: bool,
    ) -> Result<Self, TchError> {
        let variables = VarStore::new(Device::Cpu);
        let root = variables.root();
        let features = &root / "features";
        let activated = |index: usize| Names { convolution: &features / index / 0, norm: &features / index / 1 };

        let mut channels = divisible(32.0 * width_multiplier);
        let stem = ConvNorm::new(&activated(0), (3, channels), 3, 2, 1)?;
        let mut blocks = Vec::new();
        for (expansion, output, repeats, stride) in STAGES {
            let output = divisible(output as f64 * width_multiplier);
            for repeat in 0..repeats {
                let path = &features / (blocks.len() + 1);
                let stride = if repeat == 0 { stride } else { 1 };
                blocks.push(InvertedResidual::new(&path, (channels, output), stride, expansion)?);
                channels = output;
            }
        }
        let last = divisible(1280.0 * width_multiplier.max(1.0));
        let tail = ConvNorm::new(&activated(blocks.len() + 1), (channels, last), 1, 1, 1)?;
        let classifier = &root / "classifier" / 1;
        let classifier_weight = classifier.f_var("weight", &[classes, last], Init::Randn { mean: 0.0, stdev: 0.01 })?;
        let classifier_bias = classifier.f_zeros("bias", &[classes])?;

        for variable in variables.variables().values() {
            shim::place(variable, device, kind, channels_last)?;
        }
        let mut buffers: Vec<_> = variables.variables().into_iter().collect();
        buffers.retain(|(_, tensor)| !tensor.requires_grad());
        buffers.sort_by(|a, b| a.0.cmp(&b.0));
        let buffers = buffers.into_iter().map(|(_, tensor)| tensor).collect();
        let batch_norm = BatchNorm { broadcast_buffers: false, synchronised: false };
        Ok(Self {
            #[cfg(test)]
            variables,
            buffers,
            batch_norm,
            kernels: Kernels::Plain,
            stem,
            blocks,
            tail,
            classifier_weight,
            classifier_bias,
        })
    }

    /// This network, with these kernels in its training passes: fused or plain.
    pub fn with_kernels(self, kernels: Kernels) -> Self {
        Self { kernels, ..self }
    }

    /// The kernels of its training passes.
    pub fn kernels(&self) -> Kernels {
        self.kernels
    }

    /// This network, with another behaviour of batch normalisation over ranks.
    pub fn over_ranks(self, batch_norm: BatchNorm) -> Self {
        Self { batch_norm, ..self }
    }

    /// The mean of the last feature maps, `[images, channels]`.
    fn features(&self, images: &Tensor, norm: Norm, pass: &Pass) -> Result<Tensor, TchError> {
        if self.kernels == Kernels::Fused && matches!(norm, Norm::Batch) {
            return self.fused_features(images);
        }
        let mut values = pass.unit(0, images, |images| self.stem.forward(images, norm))?;
        for (index, block) in self.blocks.iter().enumerate() {
            values = pass.unit(1 + index, &values, |values| block.forward(values, norm))?;
        }
        let tail = |values: &Tensor| self.tail.forward(values, norm)?.f_adaptive_avg_pool2d([1, 1])?.f_flatten(1, -1);
        pass.unit(1 + self.blocks.len(), &values, tail)
    }

    /// All convolutions, in order.
    fn layers(&self) -> impl Iterator<Item = &ConvNorm> {
        let blocks = self.blocks.iter().flat_map(|block| &block.layers);
        std::iter::once(&self.stem).chain(blocks).chain(std::iter::once(&self.tail))
    }

    /// The work of a pass over images `[images, 3, height, width]`.
    pub fn work(&self, images: &Tensor, counted: Counted) -> Work {
        let mut shape = [0; 4];
        shape.iter_mut().zip(images.size()).for_each(|(length, of_images)| *length = of_images);
        let mut work = Work::default();
        for (place, layer) in self.layers().enumerate() {
            let (product, output) = layer.product(shape);
            // Nothing before the stem is trained.
            work = work + Product { input_gradient: place > 0, ..product }.work(counted);
            shape = output;
        }
        let classifier = self.classifier_weight.size();
        work + Product::linear(shape[0], classifier[1], classifier[0]).work(counted)
    }

    fn fused_features(&self, images: &Tensor) -> Result<Tensor, TchError> {
        let layers: Vec<_> = self.layers().map(ConvNorm::as_fused).collect();
        let stride = |block: &InvertedResidual| block.layers.iter().map(|layer| layer.stride).product();
        let strides: Vec<i64> = self.blocks.iter().map(stride).collect();
        mobilenet::features(images, &layers, &strides)
    }

    fn classify(&self, features: &Tensor) -> Result<Tensor, TchError> {
        features.f_linear(&self.classifier_weight, Some(&self.classifier_bias))
    }

    /// The output of the first convolution, which shows the type and the layout in effect.
    pub fn first_convolution(&self, images: &Tensor) -> Result<Tensor, TchError> {
        self.stem.convolve(images)
    }

    /// The first convolution's weight.
    pub fn first_weight(&self) -> &Tensor {
        &self.stem.weight
    }
}

impl Module for MobileNetV2 {
    /// Images `[images, 3, height, width]`; the output is their logits `[images, classes]`.
    type Input = Tensor;

    /// The stem, each block, the tail and the classifier.
    fn units(&self) -> Vec<Vec<Tensor>> {
        let layers = |layers: &[ConvNorm]| layers.iter().flat_map(ConvNorm::parameters).collect();
        let mut units = vec![layers(std::slice::from_ref(&self.stem))];
        units.extend(self.blocks.iter().map(|block| layers(&block.layers)));
        units.push(layers(std::slice::from_ref(&self.tail)));
        units.push([&self.classifier_weight, &self.classifier_bias].map(Tensor::shallow_clone).into());
        units
    }

    fn buffers(&self) -> Vec<Tensor> {
        self.buffers.iter().map(Tensor::shallow_clone).collect()
    }

    fn agree(&self, group: &ProcessGroup) -> Result<(), TchError> {
        if self.batch_norm.broadcast_buffers { group.broadcast(&self.buffers) } else { Ok(()) }
    }

    fn forward(&self, images: &Tensor, pass: &Pass) -> Result<Tensor, TchError> {
        let train = pass.train;
        #[cfg(test)]
        let train = train && !frozen::ALL.load(std::sync::atomic::Ordering::Relaxed);
        let group = pass.group.filter(|_| self.batch_norm.synchronised);
        let norm = if train { group.map_or(Norm::Batch, Norm::Ranks) } else { Norm::Running };
        let features = self.features(images, norm, pass)?;
        #[cfg(test)]
        let train = train && !frozen::DROPOUT.load(std::sync::atomic::Ordering::Relaxed);
        pass.unit(2 + self.blocks.len(), &features, |features| self.classify(&features.f_dropout(DROPOUT, train)?))
    }
}

/// The multiple of 8 nearest to a number of channels, but never 10 % below it (torchvision's `_make_divisible`).
fn divisible(channels: f64) -> i64 {
    let rounded = ((channels + 4.0) as i64 / 8 * 8).max(8);
    if (rounded as f64) < 0.9 * channels { rounded + 8 } else { rounded }
}

/// Lets a test compare ways of distributing a batch, which otherwise differ in the statistics of batches and in the values that dropout
/// removes.
#[cfg(test)]
pub mod frozen {
    /// Models of this process train with their running statistics and drop nothing out.
    pub static ALL: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
    /// Models of this process drop nothing out.
    pub static DROPOUT: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
}

#[cfg(test)]
#[path = "mobilenet_v2_tests.rs"]
mod tests;
