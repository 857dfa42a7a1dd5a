//! Llama as a whole: embedding, blocks, output layer and loss, and its parameters by their names in files.

use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};

use multicard::dataset::text::IGNORED_LABEL;
use multicard::plan::llm::ModelConfig;
use tch::{Device, Kind, TchError, Tensor};

use super::block::{Batch, Block, Options, Pick, Place, Quantised, rms_norm};
use super::weights::Checkpoint;
use crate::module::{Module, Pass, Tensors, byte_count};
use crate::shim::llama::{self, Adapted, Weight};
use crate::work::{Counted, Product, Sides, Work};

/// Rows of logits that the fused loss computes at a time.
const LOSS_ROWS: i64 = 1024;
/// Number of chunks of logits in the plain loss, as in TorchTune's `CEWithChunkedOutputLoss`.
const LOSS_PARTS: i64 = 8;
/// Names in Hugging Face's files.
const EMBEDDING: &str = "model.embed_tokens.weight";
const NORM: &str = "model.norm.weight";
const OUTPUT: &str = "lm_head.weight";

/// Tokens and labels `[batch, tokens]` and, for packed rows, the position of each token in its own row.
impl Tensors for Vec<Tensor> {
    fn all(&self) -> &[Tensor] {
        self
    }

    fn map_each(&self, change: impl FnMut(&Tensor) -> Result<Tensor, TchError>) -> Result<Self, TchError> {
        self.iter().map(change).collect()
    }
}

/// A newly built unit of the model, with random weights.
pub struct NewUnit {
    /// Its weights without adapters, by their names in Hugging Face's files, as views.
    pub weights: Vec<(String, Tensor)>,
    /// Its parameters.
    pub parameters: Vec<Tensor>,
}

/// A Llama model on one device.
pub struct Llama {
    options: Options,
    embedding: Tensor,
    // Shared with activation checkpoints, whose closures autograd may call in its own thread.
    blocks: Vec<Arc<Mutex<Block>>>,
    norm: Tensor,
    /// The output layer's matrix; `None` if tied to the embedding.
    output: Option<Tensor>,
    /// Group size of the output layer's fake quantisation; `None`, as in TorchTune, if tied to the embedding.
    output_group: Option<i64>,
    rotary: [Tensor; 2],
    epsilon: f64,
    /// Whose rows passes compute.
    sides: Cell<Sides>,
    /// A frozen copy of the weights, if passes as the reference need one.
    reference: Option<Box<Self>>,
}

impl Llama {
    /// Builds a model with random weights on the device. `made` receives each unit before the next one is built.
    pub fn new(
        config: &ModelConfig,
        options: Options,
        device: Device,
        weights: Kind,
        made: &mut dyn FnMut(&NewUnit) -> Result<(), TchError>,
    ) -> Result<Self, TchError> {
        let place = Place { device, weights, options };
        let (dim, vocabulary) = (config.dim as i64, config.vocabulary as i64);
        tch::no_grad(|| {
            let embedding = place.matrix(vocabulary, dim)?;
            let weights = vec![(EMBEDDING.to_owned(), embedding.f_detach()?)];
            made(&NewUnit { weights, parameters: vec![embedding.shallow_clone()] })?;
            let mut blocks = Vec::with_capacity(config.layers);
            for index in 0..config.layers {
                let block = Block::new(config, &options, &place)?;
                made(&NewUnit { weights: block.named(index, &Tensor::f_detach)?, parameters: block.tensors() })?;
                blocks.push(Arc::new(Mutex::new(block)));
            }
            let norm = place.norm(dim)?;
            let output = if config.tied { None } else { Some(place.matrix(vocabulary, dim)?) };
            let ends = || [(NORM, &norm)].into_iter().chain(output.iter().map(|output| (OUTPUT, output)));
            let weights = ends().map(|(name, tensor)| Ok((name.to_owned(), tensor.f_detach()?)));
            made(&NewUnit {
                weights: weights.collect::<Result<_, TchError>>()?,
                parameters: ends().map(|(_, tensor)| tensor.shallow_clone()).collect(),
            })?;
            let (rotary, epsilon) = (rotary(config, device)?, config.norm_eps);
            let sides = Cell::new(Sides::Policy);
            let output_group = if config.tied { None } else { place.group(dim) };
            let reference = None;
            Ok(Self { options, embedding, blocks, norm, output, output_group, rotary, epsilon, sides, reference })
        })
    }

    fn block<R>(&self, index: usize, call: impl FnOnce(&Block) -> R) -> R {
        call(&self.blocks[index].lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Loads and quantises the weights that are kept in NF4 or FP8, one at a time.
    pub fn load_quantised(&self, checkpoint: &Checkpoint) -> Result<(), TchError> {
        for index in 0..self.blocks.len() {
            self.block(index, |block| block.load_quantised(index, checkpoint))?;
        }
        Ok(())
    }

    /// The number of linear layers in each form, the output layer included.
    pub fn quantised(&self) -> Quantised {
        let mut counts = Quantised { fake: usize::from(self.output_group.is_some()), ..Quantised::default() };
        for index in 0..self.blocks.len() {
            let Quantised { nf4, fp8, fake } = self.block(index, Block::quantised);
            counts.nf4 += nf4;
            counts.fp8 += fp8;
            counts.fake += fake;
        }
        counts
    }

    /// Keeps a frozen copy of the present weights, for a model whose weights are all trained.
    pub fn keep_reference(&mut self, config: &ModelConfig, device: Device, weights: Kind) -> Result<(), TchError> {
        let copy = Self::new(config, self.options, device, weights, &mut |_| Ok(()))?;
        let [own, copied] = [&*self, &copy].map(|llama| llama.named_weights(&Tensor::f_detach));
        for ((_, from), (_, mut to)) in own?.into_iter().zip(copied?) {
            to.f_copy_(&from)?;
        }
        for weight in copy.units().into_iter().flatten() {
            let _frozen = weight.set_requires_grad(false);
        }
        self.reference = Some(Box::new(copy));
        Ok(())
    }

    /// Whether it has a frozen copy of its weights.
    pub fn has_reference(&self) -> bool {
        self.reference.is_some()
    }

    /// Runs passes as the model that training started from: with the frozen copy of the weights if there is one, else without adapters.
    pub fn as_reference<R>(&self, passes: impl FnOnce() -> R) -> R {
        self.of_sides(Sides::Reference, passes)
    }

    /// Runs joint passes. A joint pass computes the losses of the policy and then the losses of the model without adapters,
    /// `[2 batch, tokens]`. It needs fused kernels and no activation checkpoints.
    pub fn beside_reference<R>(&self, passes: impl FnOnce() -> R) -> R {
        self.of_sides(Sides::Both, passes)
    }

    fn of_sides<R>(&self, sides: Sides, passes: impl FnOnce() -> R) -> R {
        self.sides.set(sides);
        let result = passes();
        self.sides.set(Sides::Policy);
        result
    }

    /// All weights except adapters and those in NF4 or FP8, by their names in Hugging Face's files, as views. `pick` selects values or
    /// gradients.
    pub fn named_weights(&self, pick: Pick) -> Result<Vec<(String, Tensor)>, TchError> {
        let mut named = vec![(EMBEDDING.to_owned(), pick(&self.embedding)?)];
        for index in 0..self.blocks.len() {
            named.extend(self.block(index, |block| block.named(index, pick))?);
        }
        named.push((NORM.to_owned(), pick(&self.norm)?));
        if let Some(output) = &self.output {
            named.push((OUTPUT.to_owned(), pick(output)?));
        }
        Ok(named)
    }

    /// All adapters by their names in PEFT's files, as views. `pick` selects values or gradients.
    pub fn named_adapters(&self, pick: Pick) -> Result<Vec<(String, Tensor)>, TchError> {
        let mut named = Vec::new();
        for index in 0..self.blocks.len() {
            named.extend(self.block(index, |block| block.named_adapters(index, pick))?);
        }
        Ok(named)
    }

    /// The number of adapter tensors: A and B of each adapted projection.
    pub fn adapters(&self) -> usize {
        (0..self.blocks.len()).map(|index| self.block(index, Block::adapters)).sum()
    }

    /// The types of weights and of trained parameters.
    pub fn kinds(&self) -> (Kind, Kind) {
        (self.embedding.kind(), self.parameters().first().map_or(self.embedding.kind(), Tensor::kind))
    }

    /// Whether blocks run fused kernels.
    pub fn fused(&self) -> bool {
        self.options.fused
    }

    fn output(&self) -> &Tensor {
        self.output.as_ref().unwrap_or(&self.embedding)
    }

    /// Positions, mask and rotary tables for a batch.
    fn batch(&self, input: &[Tensor]) -> Result<Batch, TchError> {
        let size = input[0].size();
        let tokens = Tensor::f_arange(size[1], (Kind::Int64, input[0].device()))?;
        let (positions, mask) = match input.get(2) {
            None => (tokens.f_repeat([size[0]])?, None),
            Some(positions) => {
                let row = positions.f_eq(0)?.f_cumsum(1, Kind::Int64)?;
                let same = row.f_unsqueeze(2)?.f_eq_tensor(&row.f_unsqueeze(1)?)?;
                let before = tokens.f_unsqueeze(1)?.f_ge_tensor(&tokens.f_unsqueeze(0)?)?;
                (positions.f_flatten(0, -1)?, Some(same.f_logical_and(&before)?.f_unsqueeze(1)?))
            }
        };
        let rotary = self.rotary.each_ref().map(Tensor::shallow_clone);
        let positions = if self.is_joint() { positions.f_repeat([2])? } else { positions };
        Ok(Batch { rotary, positions, mask, adapted: self.sides.get().adapted() })
    }

    /// Whether passes compute the rows of policy and reference.
    fn is_joint(&self) -> bool {
        self.sides.get() == Sides::Both
    }

    /// The output of the last block, `[batch, tokens, dim]`. In a joint pass also the output of both sides, without autograd.
    fn hidden(&self, input: &[Tensor], pass: &Pass) -> Result<(Tensor, Option<Tensor>), TchError> {
        let batch = self.batch(input)?;
        let embed = |tokens: &Tensor| Tensor::f_embedding(&self.embedding, tokens, -1, false, false);
        let mut hidden = pass.unit(0, &input[0], embed)?;
        // Both sides start from the same tokens.
        let mut both = if self.is_joint() { Some(hidden.f_repeat([2, 1, 1])?) } else { None };
        for (index, block) in self.blocks.iter().enumerate() {
            let run = |hidden: &Tensor| {
                if !(pass.train && self.options.checkpointing) {
                    let (hidden, joint) = self.block(index, |block| block.forward(hidden, both.as_ref(), &batch))?;
                    both = joint;
                    return Ok(hidden);
                }
                let (block, batch) = (Arc::clone(block), Mutex::new(batch.shallow_clone()));
                llama::checkpoint(hidden, move |hidden| {
                    let batch = batch.lock().unwrap_or_else(PoisonError::into_inner);
                    let block = block.lock().unwrap_or_else(PoisonError::into_inner);
                    block.forward(hidden, None, &batch).map(|(hidden, _)| hidden)
                })
            };
            hidden = pass.unit(1 + index, &hidden, run)?;
        }
        Ok((hidden, both))
    }

    /// The work of a pass over `rows` rows of as many tokens each, padding included; in a joint pass, over as many of each side.
    pub fn work(&self, rows: i64, tokens: i64, counted: Counted) -> Work {
        let sides = self.sides.get();
        // Embeddings are looked up, which is no product.
        let mut needs_gradient = self.embedding.requires_grad();
        let mut work = Work::default();
        for index in 0..self.blocks.len() {
            let shape = [rows, tokens];
            work = work + self.block(index, |block| block.work(shape, sides, &mut needs_gradient, counted));
        }
        let size = self.output().size();
        let output = Product {
            weight_gradient: self.output().requires_grad(),
            input_gradient: needs_gradient,
            ..Product::linear(rows * tokens, size[1], size[0])
        };
        work + output.work_of(sides, counted)
    }

    /// Logits, `[batch, tokens, vocabulary]`.
    #[cfg(test)]
    pub fn logits(&self, tokens: &Tensor) -> Result<Tensor, TchError> {
        let (hidden, _) = self.hidden(std::slice::from_ref(tokens), &Pass::default())?;
        self.project(&rms_norm(&hidden, (&self.norm, self.epsilon))?)
    }

    /// The cross entropy of each token's label `[batch, tokens]`, in fp32; 0 for ignored labels. With `both`, which are the rows of
    /// `hidden` and then the reference's, there are labels and cross entropies of both sides.
    fn losses(&self, hidden: &Tensor, both: Option<&Tensor>, labels: &Tensor) -> Result<Tensor, TchError> {
        let (size, norm) = (labels.size(), (&self.norm, self.epsilon));
        let (hidden, labels) = (hidden.f_flatten(0, 1)?, labels.f_flatten(0, -1)?);
        if self.options.fused {
            let output = (self.output(), self.output_group);
            let both = both.map(|both| both.f_flatten(0, 1)).transpose()?;
            return llama::losses(&hidden, both.as_ref(), norm, output, &labels, LOSS_ROWS)?.f_view(&size[..]);
        }
        let hidden = rms_norm(&hidden, norm)?;
        if self.output_group.is_some() {
            // Chunks would quantise the layer's weights again for each product.
            return self.cross_entropy(&self.project(&hidden)?, &labels)?.f_view(&size[..]);
        }
        let rows = (hidden.size()[0] + LOSS_PARTS - 1) / LOSS_PARTS;
        let parts = hidden.f_split(rows, 0)?.into_iter().zip(labels.f_split(rows, 0)?);
        let losses = parts.map(|(hidden, labels)| self.cross_entropy(&self.project(&hidden)?, &labels));
        Tensor::f_cat(&losses.collect::<Result<Vec<_>, _>>()?, 0)?.f_view(&size[..])
    }

    /// The output layer's product.
    fn project(&self, hidden: &Tensor) -> Result<Tensor, TchError> {
        if self.output_group.is_none() {
            return hidden.f_linear(self.output(), None::<&Tensor>);
        }
        let weight = Weight::Whole(self.output().shallow_clone());
        llama::product(hidden, &Adapted { weight: &weight, group: self.output_group, a: None, b: &[], scale: 0.0 })
    }

    fn cross_entropy(&self, logits: &Tensor, labels: &Tensor) -> Result<Tensor, TchError> {
        let logits = logits.f_to_kind(Kind::Float)?;
        logits.f_cross_entropy_loss(labels, None::<&Tensor>, tch::Reduction::None, IGNORED_LABEL, 0.0)
    }
}

impl Module for Llama {
    type Input = Vec<Tensor>;

    fn reference_bytes(&self) -> u64 {
        self.reference.iter().flat_map(|reference| reference.units()).flatten().map(|weight| byte_count(&weight)).sum()
    }

    fn units(&self) -> Vec<Vec<Tensor>> {
        let mut units = vec![vec![self.embedding.shallow_clone()]];
        for index in 0..self.blocks.len() {
            units.push(self.block(index, Block::tensors));
        }
        units.push([&self.norm].into_iter().chain(&self.output).map(Tensor::shallow_clone).collect());
        units
    }

    /// The cross entropy of predicting each token's successor `[batch, tokens]`, in fp32; 0 for the last token and ignored labels.
    fn forward(&self, input: &Vec<Tensor>, pass: &Pass) -> Result<Tensor, TchError> {
        if let Some(reference) = self.reference.as_deref().filter(|_| !self.sides.get().adapted()) {
            return reference.forward(input, pass);
        }
        let (hidden, both) = self.hidden(input, pass)?;
        let labels = next(&input[1])?;
        let labels = if both.is_some() { labels.f_repeat([2, 1])? } else { labels };
        pass.unit(1 + self.blocks.len(), &hidden, |hidden| self.losses(hidden, both.as_ref(), &labels))
    }
}

/// The label of each token's successor, which the model predicts.
pub fn next(labels: &Tensor) -> Result<Tensor, TchError> {
    let size = labels.size();
    let last = Tensor::f_full([size[0], 1], IGNORED_LABEL, (Kind::Int64, labels.device()))?;
    Tensor::f_cat(&[labels.f_narrow(1, 1, size[1] - 1)?, last], 1)
}

/// Cosines and sines of all positions, `[context, head_dim / 2]` in fp32, with Llama 3.1's scaled frequencies if the model has them
/// (transformers, `_compute_llama3_parameters`).
fn rotary(config: &ModelConfig, device: Device) -> Result<[Tensor; 2], TchError> {
    let half = config.head_dim / 2;
    let frequency = |index: usize| {
        let plain = config.rope_base.powf(-(2.0 * index as f64) / config.head_dim as f64);
        let Some(scaling) = &config.rope_scaling else { return plain };
        let wavelength = std::f64::consts::TAU / plain;
        let ratio = scaling.original_context as f64 / wavelength;
        let (low, high) = (scaling.low_frequency_factor, scaling.high_frequency_factor);
        let smooth = ((ratio - low) / (high - low)).clamp(0.0, 1.0);
        (1.0 - smooth) * plain / scaling.factor + smooth * plain
    };
    let frequencies: Vec<f32> = (0..half).map(|index| frequency(index) as f32).collect();
    let frequencies = Tensor::f_from_slice(&frequencies)?.f_to_device(device)?;
    let positions = Tensor::f_arange(config.context as i64, (Kind::Float, device))?;
    let angles = positions.f_outer(&frequencies)?;
    Ok([angles.f_cos()?, angles.f_sin()?])
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
