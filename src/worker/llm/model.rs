//! Llama: RMSNorm, rotary positions, grouped-query attention, SwiGLU, and low-rank adapters beside its projections.
//!
//! Layout and names follow Hugging Face's transformers (`modeling_llama`), where rotary positions rotate the first half of a head
//! against the second. Projections that share an input form one matrix: q, k and v; gate and up.

use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};

use multicard::plan::llm::{Lora, ModelConfig};
use tch::{Device, Kind, TchError, Tensor};

use super::nf4;
use super::weights::Checkpoint;
use crate::module::{Module, Pass, Tensors};
use crate::shim::llama::{self, Adapted, Weight};

/// Rows of logits that the fused loss computes at a time.
const LOSS_ROWS: i64 = 1024;
/// Number of chunks of logits in the plain loss, as in TorchTune's `CEWithChunkedOutputLoss`.
const LOSS_PARTS: i64 = 8;
/// Label of tokens that the loss ignores.
pub const IGNORED_LABEL: i64 = -100;
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

/// Selects what to take of a parameter: its values or its gradient.
pub type Of<'a> = &'a dyn Fn(&Tensor) -> Result<Tensor, TchError>;

/// How a model is built and run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// Adapters; `None` if all weights are trained.
    pub lora: Option<Lora>,
    /// Whether the blocks' matrices are frozen in NF4.
    pub nf4: bool,
    /// For quantisation-aware training (int8 activations, int4 weights): number of inputs that share a scale.
    pub group: Option<usize>,
    /// Whether kernels fuse several steps of a block.
    pub fused: bool,
    /// Whether blocks keep only their input for the backward pass.
    pub checkpointing: bool,
}

/// A linear layer without bias: one or more projections of the same input, and their adapters.
struct Linear {
    weight: Weight,
    /// Group size of fake quantisation.
    group: Option<i64>,
    /// The projections in order: name in Hugging Face's files, outputs.
    parts: Vec<(&'static str, i64)>,
    adapters: Option<Adapters>,
}

/// The adapters of a layer's projections: `y += scale (x A^T) B^T`.
struct Adapters {
    /// All A, stacked: `[parts * rank, in]`.
    a: Tensor,
    /// For each adapted projection its index, its first output and its B `[out, rank]`.
    b: Vec<(usize, i64, Tensor)>,
    scale: f64,
}

/// Device and type of new weights.
#[derive(Clone, Copy)]
struct Place {
    device: Device,
    weights: Kind,
    options: Options,
}

impl Place {
    /// A weight, trained unless there are adapters.
    fn parameter(
        &self,
        shape: &[i64],
        fill: impl FnOnce(Tensor) -> Result<Tensor, TchError>,
    ) -> Result<Tensor, TchError> {
        let made = fill(Tensor::f_empty(shape, (self.weights, self.device))?)?;
        Ok(made.set_requires_grad(self.options.lora.is_none()))
    }

    fn matrix(&self, out: i64, from: i64) -> Result<Tensor, TchError> {
        // Keeps outputs as large as inputs, whatever the width.
        self.parameter(&[out, from], |mut empty| empty.f_normal_(0.0, 1.0 / (from as f64).sqrt()))
    }

    fn norm(&self, width: i64) -> Result<Tensor, TchError> {
        self.parameter(&[width], |mut empty| empty.f_fill_(1.0))
    }

    fn linear(&self, from: i64, parts: &[(&'static str, i64)]) -> Result<Linear, TchError> {
        let weight = if self.options.nf4 {
            let quantised = |(_, out): &(&str, i64)| tch::no_grad(|| nf4::quantise(&self.matrix(*out, from)?));
            Weight::Nf4(parts.iter().map(quantised).collect::<Result<_, _>>()?)
        } else {
            Weight::Whole(self.matrix(parts.iter().map(|(_, out)| out).sum(), from)?)
        };
        let adapters = self.options.lora.map(|lora| self.adapters(&lora, from, parts)).transpose()?.flatten();
        Ok(Linear { weight, group: self.group(from), parts: parts.to_vec(), adapters })
    }

    /// The group size for a layer with `from` inputs. As in torchao, a layer whose inputs are no multiple of it is not quantised.
    fn group(&self, from: i64) -> Option<i64> {
        self.options.group.map(|group| group as i64).filter(|group| from % group == 0)
    }

    fn adapters(&self, lora: &Lora, from: i64, parts: &[(&'static str, i64)]) -> Result<Option<Adapters>, TchError> {
        // fp16 would lose small updates, so adapters stay in fp32.
        let kind = if self.weights == Kind::Half { Kind::Float } else { self.weights };
        let (rank, mut start, mut b) = (lora.rank as i64, 0, Vec::new());
        for (place, (name, out)) in parts.iter().enumerate() {
            if lora.targets.has(target(name)) {
                let zeros = Tensor::f_zeros([*out, rank], (kind, self.device))?;
                b.push((place, start, zeros.set_requires_grad(true)));
            }
            start += out;
        }
        if b.is_empty() {
            return Ok(None);
        }
        // Initial weights of torch.nn.Linear: uniform within ±1 / sqrt(in).
        let bound = 1.0 / (from as f64).sqrt();
        let a = Tensor::f_empty([rank * b.len() as i64, from], (kind, self.device))?.f_uniform_(-bound, bound)?;
        Ok(Some(Adapters { a: a.set_requires_grad(true), b, scale: lora.alpha / lora.rank as f64 }))
    }
}

/// The name of a projection in `lora_targets`.
fn target(name: &str) -> &str {
    match name {
        "self_attn.q_proj" => "q",
        "self_attn.k_proj" => "k",
        "self_attn.v_proj" => "v",
        "self_attn.o_proj" => "output",
        _ => "mlp",
    }
}

impl Linear {
    fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        let adapters = self.adapters.iter();
        let weights: Vec<&Tensor> = match &self.weight {
            Weight::Whole(weight) => vec![weight],
            Weight::Nf4(parts) => parts.iter().flat_map(|it| [&it.codes, &it.scales, &it.factors, &it.mean]).collect(),
        };
        weights.into_iter().chain(adapters.flat_map(|it| [&it.a].into_iter().chain(it.b.iter().map(|(_, _, b)| b))))
    }

    /// The adapters, if present and enabled.
    fn adapters(&self, adapted: bool) -> Option<&Adapters> {
        self.adapters.as_ref().filter(|_| adapted)
    }

    /// The layer by separate libtorch operations. fp32 adapters of half-precision weights compute in the weights' type.
    fn forward(&self, input: &Tensor, adapted: bool) -> Result<Tensor, TchError> {
        let output = match (&self.weight, self.group) {
            (Weight::Whole(weight), None) => input.f_linear(weight, None::<&Tensor>)?,
            _ => self.with(false, |layer| llama::product(input, layer))?,
        };
        let Some(Adapters { a, b, scale }) = self.adapters(adapted) else { return Ok(output) };
        let low = input.f_linear(&a.f_to_kind(input.kind())?, None::<&Tensor>)?.f_mul_scalar(*scale)?;
        let rank = a.size()[0] / b.len() as i64;
        // Adds to each projection that has an adapter.
        let mut parts = output.f_split_with_sizes(self.parts.iter().map(|(_, out)| *out).collect::<Vec<_>>(), -1)?;
        for (index, (place, _, b)) in b.iter().enumerate() {
            let low = low.f_narrow(-1, index as i64 * rank, rank)?;
            parts[*place] = parts[*place].f_add(&low.f_linear(&b.f_to_kind(input.kind())?, None::<&Tensor>)?)?;
        }
        Tensor::f_cat(&parts, -1)
    }

    fn with<R>(&self, adapted: bool, call: impl FnOnce(&Adapted) -> R) -> R {
        let adapters = self.adapters(adapted);
        let b: Vec<_> = adapters.iter().flat_map(|it| &it.b).map(|(_, at, b)| (*at, b.shallow_clone())).collect();
        let (a, scale) = adapters.map_or((None, 0.0), |adapters| (Some(&adapters.a), adapters.scale));
        call(&Adapted { weight: &self.weight, group: self.group, a, b: &b, scale })
    }

    /// The projections by name, as views of the joint matrix; empty if it is in NF4.
    fn named(&self, of: Of) -> Result<Vec<(&'static str, Tensor)>, TchError> {
        let Weight::Whole(weight) = &self.weight else { return Ok(Vec::new()) };
        let mut start = 0;
        let view = |(name, out): &(&'static str, i64)| {
            let part = of(weight)?.f_narrow(0, start, *out)?;
            start += out;
            Ok((*name, part))
        };
        self.parts.iter().map(view).collect()
    }

    /// The adapters by name: A `[rank, in]` and B `[out, rank]`, as views.
    fn named_adapters(&self, of: Of) -> Result<Vec<(&'static str, [Tensor; 2])>, TchError> {
        let Some(Adapters { a, b, .. }) = &self.adapters else { return Ok(Vec::new()) };
        let rank = a.size()[0] / b.len() as i64;
        let view = |(index, (place, _, b)): (usize, &(usize, i64, Tensor))| {
            let a = of(a)?.f_narrow(0, index as i64 * rank, rank)?;
            Ok((self.parts[*place].0, [a, of(b)?]))
        };
        b.iter().enumerate().map(view).collect()
    }
}

/// Settings common to all blocks.
#[derive(Clone, Copy)]
struct Widths {
    heads: i64,
    kv_heads: i64,
    head_dim: i64,
    epsilon: f64,
    fused: bool,
}

struct Block {
    widths: Widths,
    attention_norm: Tensor,
    qkv: Linear,
    output: Linear,
    ffn_norm: Tensor,
    gate_up: Linear,
    down: Linear,
}

/// The part of a batch that every block needs besides its input.
struct Batch {
    /// Cosines and sines `[context, head_dim / 2]`.
    rotary: [Tensor; 2],
    /// Positions of all tokens, `[batch * tokens]`.
    positions: Tensor,
    /// Attention mask `[batch, 1, tokens, tokens]` of packed rows; `None` for plain causal attention.
    mask: Option<Tensor>,
    /// Whether adapters are enabled.
    adapted: bool,
}

impl Batch {
    fn shallow_clone(&self) -> Self {
        Self {
            rotary: self.rotary.each_ref().map(Tensor::shallow_clone),
            positions: self.positions.shallow_clone(),
            mask: self.mask.as_ref().map(Tensor::shallow_clone),
            adapted: self.adapted,
        }
    }
}

impl Block {
    fn new(config: &ModelConfig, options: &Options, place: &Place) -> Result<Self, TchError> {
        let (dim, ffn, head_dim) = (config.dim as i64, config.ffn as i64, config.head_dim as i64);
        let (queries, keys) = (config.heads as i64 * head_dim, config.kv_heads as i64 * head_dim);
        Ok(Self {
            widths: Widths {
                heads: config.heads as i64,
                kv_heads: config.kv_heads as i64,
                head_dim,
                epsilon: config.norm_eps,
                fused: options.fused,
            },
            attention_norm: place.norm(dim)?,
            qkv: place.linear(
                dim,
                &[("self_attn.q_proj", queries), ("self_attn.k_proj", keys), ("self_attn.v_proj", keys)],
            )?,
            output: place.linear(queries, &[("self_attn.o_proj", dim)])?,
            ffn_norm: place.norm(dim)?,
            gate_up: place.linear(dim, &[("mlp.gate_proj", ffn), ("mlp.up_proj", ffn)])?,
            down: place.linear(ffn, &[("mlp.down_proj", dim)])?,
        })
    }

    fn linears(&self) -> [&Linear; 4] {
        [&self.qkv, &self.output, &self.gate_up, &self.down]
    }

    /// Its parameters, including frozen ones.
    fn tensors(&self) -> Vec<Tensor> {
        let norms = [&self.attention_norm, &self.ffn_norm].into_iter();
        norms.chain(self.linears().into_iter().flat_map(Linear::tensors)).map(Tensor::shallow_clone).collect()
    }

    /// Its weights without adapters, named as those of block `index`.
    fn named(&self, index: usize, of: Of) -> Result<Vec<(String, Tensor)>, TchError> {
        let name = |part: &str| format!("model.layers.{index}.{part}.weight");
        let mut named = vec![
            (name("input_layernorm"), of(&self.attention_norm)?),
            (name("post_attention_layernorm"), of(&self.ffn_norm)?),
        ];
        for linear in self.linears() {
            named.extend(linear.named(of)?.into_iter().map(|(part, tensor)| (name(part), tensor)));
        }
        Ok(named)
    }

    fn forward(&self, input: &Tensor, batch: &Batch) -> Result<Tensor, TchError> {
        let Widths { heads, kv_heads, epsilon, fused, .. } = self.widths;
        let (attention_norm, ffn_norm) = ((&self.attention_norm, epsilon), (&self.ffn_norm, epsilon));
        if fused {
            let [q, k, v, input] = self.qkv.with(batch.adapted, |qkv| {
                let counts = (heads, kv_heads);
                llama::attention_in(input, attention_norm, qkv, &batch.rotary, &batch.positions, counts)
            })?;
            let attended = self.attend([&q, &k, &v], batch)?;
            return self.output.with(batch.adapted, |output| {
                self.gate_up.with(batch.adapted, |gate_up| {
                    self.down.with(batch.adapted, |down| {
                        llama::block_out(&input, &attended, output, ffn_norm, gate_up, down)
                    })
                })
            });
        }
        let qkv = self.qkv.forward(&rms_norm(input, attention_norm)?, batch.adapted)?;
        let qkv = qkv.f_unflatten(-1, [heads + 2 * kv_heads, self.widths.head_dim])?;
        let part = |start, count| qkv.f_narrow(2, start, count);
        let q = turn(&part(0, heads)?, batch)?;
        let k = turn(&part(heads, kv_heads)?, batch)?;
        let attended = self.attend([&q, &k, &part(heads + kv_heads, kv_heads)?], batch)?;
        let middle = input.f_add(&self.output.forward(&attended, batch.adapted)?)?;
        let gate_up = self.gate_up.forward(&rms_norm(&middle, ffn_norm)?, batch.adapted)?.f_chunk(2, -1)?;
        let hidden = gate_up[0].f_silu()?.f_mul(&gate_up[1])?;
        middle.f_add(&self.down.forward(&hidden, batch.adapted)?)
    }

    /// Attention: from queries, keys and values `[batch, tokens, heads, head_dim]` to `[batch, tokens, heads * head_dim]`.
    fn attend(&self, [q, k, v]: [&Tensor; 3], batch: &Batch) -> Result<Tensor, TchError> {
        let Widths { heads, kv_heads, fused, .. } = self.widths;
        // Flash attention supports grouped queries, but neither fp32 nor masks.
        let grouped = fused && q.kind() != Kind::Float && batch.mask.is_none();
        let heads_first = |tensor: &Tensor, repeats: i64| {
            let tensor = tensor.f_transpose(1, 2)?;
            if repeats == 1 { Ok(tensor) } else { tensor.f_repeat_interleave_self_int(repeats, 1, None) }
        };
        let repeats = if grouped { 1 } else { heads / kv_heads };
        let (q, k, v) = (heads_first(q, 1)?, heads_first(k, repeats)?, heads_first(v, repeats)?);
        let mask = batch.mask.as_ref();
        let attended = Tensor::f_scaled_dot_product_attention(&q, &k, &v, mask, 0.0, mask.is_none(), None, grouped)?;
        attended.f_transpose(1, 2)?.f_flatten(2, 3)
    }
}

fn rms_norm(input: &Tensor, (weight, epsilon): (&Tensor, f64)) -> Result<Tensor, TchError> {
    let wide = input.f_to_kind(Kind::Float)?;
    let mean = wide.f_square()?.f_mean_dim(-1, true, Kind::Float)?;
    let normed = wide.f_mul(&mean.f_add_scalar(epsilon)?.f_rsqrt()?)?;
    normed.f_to_kind(input.kind())?.f_mul(weight)
}

/// Rotates heads `[batch, tokens, heads, head_dim]` by their positions, in fp32.
fn turn(heads: &Tensor, batch: &Batch) -> Result<Tensor, TchError> {
    let [cos, sin] = &batch.rotary;
    let size = heads.size();
    let of_positions =
        |table: &Tensor| table.f_index_select(0, &batch.positions)?.f_view([size[0], size[1], 1, size[3] / 2]);
    let (cos, sin) = (of_positions(cos)?, of_positions(sin)?);
    let halves = heads.f_to_kind(Kind::Float)?.f_chunk(2, -1)?;
    let first = halves[0].f_mul(&cos)?.f_sub(&halves[1].f_mul(&sin)?)?;
    let second = halves[1].f_mul(&cos)?.f_add(&halves[0].f_mul(&sin)?)?;
    Tensor::f_cat(&[first, second], -1)?.f_to_kind(heads.kind())
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
    /// Whether adapters are enabled.
    adapted: Cell<bool>,
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
            let adapted = Cell::new(true);
            let output_group = if config.tied { None } else { place.group(dim) };
            Ok(Self { options, embedding, blocks, norm, output, output_group, rotary, epsilon, adapted })
        })
    }

    fn block<R>(&self, index: usize, call: impl FnOnce(&Block) -> R) -> R {
        call(&self.blocks[index].lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Loads and quantises the weights that are kept in NF4, one at a time.
    pub fn load_nf4(&self, checkpoint: &Checkpoint) -> Result<(), TchError> {
        for index in 0..self.blocks.len() {
            self.block(index, |block| {
                for Linear { weight, parts, .. } in block.linears() {
                    let Weight::Nf4(quantised) = weight else { continue };
                    for (place, (name, _)) in quantised.iter().zip(parts) {
                        let name = format!("model.layers.{index}.{name}.weight");
                        nf4::replace(place, &checkpoint.tensor(&name)?)?;
                    }
                }
                Ok::<_, TchError>(())
            })?;
        }
        Ok(())
    }

    /// The number of the blocks' linear layers in NF4, and of fake-quantised layers including the output layer.
    pub fn quantised(&self) -> (usize, usize) {
        let mut counts = (0, usize::from(self.output_group.is_some()));
        for index in 0..self.blocks.len() {
            self.block(index, |block| {
                for Linear { weight, group, parts, .. } in block.linears() {
                    counts.0 += if matches!(weight, Weight::Nf4(_)) { parts.len() } else { 0 };
                    counts.1 += if group.is_some() { parts.len() } else { 0 };
                }
            });
        }
        counts
    }

    /// Runs passes with adapters disabled.
    pub fn without_adapters<R>(&self, passes: impl FnOnce() -> R) -> R {
        self.adapted.set(false);
        let result = passes();
        self.adapted.set(true);
        result
    }

    /// All weights except adapters and those in NF4, by their names in Hugging Face's files, as views. `of` selects values or
    /// gradients.
    pub fn named_weights(&self, of: Of) -> Result<Vec<(String, Tensor)>, TchError> {
        let mut named = vec![(EMBEDDING.to_owned(), of(&self.embedding)?)];
        for index in 0..self.blocks.len() {
            named.extend(self.block(index, |block| block.named(index, of))?);
        }
        named.push((NORM.to_owned(), of(&self.norm)?));
        if let Some(output) = &self.output {
            named.push((OUTPUT.to_owned(), of(output)?));
        }
        Ok(named)
    }

    /// All adapters by their names in PEFT's files, as views. `of` selects values or gradients.
    pub fn named_adapters(&self, of: Of) -> Result<Vec<(String, Tensor)>, TchError> {
        let mut named = Vec::new();
        for index in 0..self.blocks.len() {
            let adapters = self.block(index, |block| {
                block.linears().iter().map(|linear| linear.named_adapters(of)).collect::<Result<Vec<_>, _>>()
            })?;
            for (name, [a, b]) in adapters.into_iter().flatten() {
                let name = |which| format!("base_model.model.model.layers.{index}.{name}.lora_{which}.weight");
                named.extend([(name("A"), a), (name("B"), b)]);
            }
        }
        Ok(named)
    }

    /// The number of adapter tensors: A and B of each adapted projection.
    pub fn adapters(&self) -> usize {
        let of = |linear: &&Linear| linear.adapters.as_ref().map_or(0, |adapters| 2 * adapters.b.len());
        (0..self.blocks.len())
            .map(|index| self.block(index, |block| block.linears().iter().map(of).sum::<usize>()))
            .sum()
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
        Ok(Batch { rotary, positions, mask, adapted: self.adapted.get() })
    }

    /// The output of the last block, `[batch, tokens, dim]`.
    fn hidden(&self, input: &[Tensor], pass: &Pass) -> Result<Tensor, TchError> {
        let batch = self.batch(input)?;
        let embed = |tokens: &Tensor| Tensor::f_embedding(&self.embedding, tokens, -1, false, false);
        let mut hidden = pass.unit(0, &input[0], embed)?;
        for (index, block) in self.blocks.iter().enumerate() {
            let run = |hidden: &Tensor| {
                if !(pass.train && self.options.checkpointing) {
                    return self.block(index, |block| block.forward(hidden, &batch));
                }
                let (block, batch) = (Arc::clone(block), Mutex::new(batch.shallow_clone()));
                llama::checkpoint(hidden, move |hidden| {
                    let batch = batch.lock().unwrap_or_else(PoisonError::into_inner);
                    block.lock().unwrap_or_else(PoisonError::into_inner).forward(hidden, &batch)
                })
            };
            hidden = pass.unit(1 + index, &hidden, run)?;
        }
        Ok(hidden)
    }

    /// Logits, `[batch, tokens, vocabulary]`.
    #[cfg(test)]
    pub fn logits(&self, tokens: &Tensor) -> Result<Tensor, TchError> {
        let hidden = self.hidden(std::slice::from_ref(tokens), &Pass::default())?;
        self.project(&rms_norm(&hidden, (&self.norm, self.epsilon))?)
    }

    /// The cross entropy of each token's label `[batch, tokens]`, in fp32; 0 for ignored labels.
    fn losses(&self, hidden: &Tensor, labels: &Tensor) -> Result<Tensor, TchError> {
        let (size, norm) = (labels.size(), (&self.norm, self.epsilon));
        let (hidden, labels) = (hidden.f_flatten(0, 1)?, labels.f_flatten(0, -1)?);
        if self.options.fused {
            let output = (self.output(), self.output_group);
            return llama::losses(&hidden, norm, output, &labels, LOSS_ROWS)?.f_view(&size[..]);
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
        let hidden = self.hidden(input, pass)?;
        let labels = next(&input[1])?;
        pass.unit(1 + self.blocks.len(), &hidden, |hidden| self.losses(hidden, &labels))
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
