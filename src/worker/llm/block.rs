//! A block of Llama: RMSNorm, rotary positions, grouped-query attention, SwiGLU, and low-rank adapters beside its projections.
//!
//! Layout and names follow Hugging Face's transformers (`modeling_llama`), where rotary positions rotate the first half of a head
//! against the second. Projections that share an input form one matrix: q, k and v; gate and up.

use multicard::plan::llm::{Lora, ModelConfig};
use tch::{Device, Kind, TchError, Tensor};

use super::weights::Checkpoint;
use super::{fp8, nf4};
use crate::module::byte_count;
use crate::shim::llama::{self, Adapted, Weight};
use crate::work::{Counted, Product, Sides, Work};

/// Selects what to take of a parameter: its values or its gradient.
pub type Pick<'a> = &'a dyn Fn(&Tensor) -> Result<Tensor, TchError>;

/// How a model is built and run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// Adapters; `None` if all weights are trained.
    pub lora: Option<Lora>,
    /// Whether the blocks' matrices are frozen in NF4.
    pub nf4: bool,
    /// Whether the blocks' matrices are frozen in FP8 and multiplied in it.
    pub fp8: bool,
    /// For quantisation-aware training (int8 activations, int4 weights): number of inputs that share a scale.
    pub group: Option<usize>,
    /// Whether kernels fuse several steps of a block.
    pub fused: bool,
    /// Whether blocks keep only their input for the backward pass.
    pub checkpointing: bool,
    /// Whether parameters are divided among ranks, so that the values of each must lie side by side.
    pub sharded: bool,
}

/// The numbers of linear layers whose weights are quantised, by the kind of quantisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantised {
    /// Stored in NF4.
    pub nf4: usize,
    /// Stored and multiplied in FP8.
    pub fp8: usize,
    /// Fake-quantised.
    pub fake: usize,
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
pub struct Place {
    pub device: Device,
    pub weights: Kind,
    pub options: Options,
}

impl Place {
    /// A weight, trained unless there are adapters.
    fn parameter(
        &self,
        shape: &[i64],
        fill: impl FnOnce(Tensor) -> Result<Tensor, TchError>,
    ) -> Result<Tensor, TchError> {
        let weight = fill(Tensor::f_empty(shape, (self.weights, self.device))?)?;
        Ok(weight.set_requires_grad(self.options.lora.is_none()))
    }

    pub fn matrix(&self, out: i64, from: i64) -> Result<Tensor, TchError> {
        // Keeps outputs as large as inputs, whatever the width.
        self.parameter(&[out, from], |mut empty| empty.f_normal_(0.0, 1.0 / (from as f64).sqrt()))
    }

    pub fn norm(&self, width: i64) -> Result<Tensor, TchError> {
        self.parameter(&[width], |mut empty| empty.f_fill_(1.0))
    }

    fn linear(&self, from: i64, parts: &[(&'static str, i64)]) -> Result<Linear, TchError> {
        let weight = if self.options.nf4 {
            let quantised = |(_, out): &(&str, i64)| tch::no_grad(|| nf4::quantise(&self.matrix(*out, from)?));
            Weight::Nf4(parts.iter().map(quantised).collect::<Result<_, _>>()?)
        } else {
            let matrix = self.matrix(parts.iter().map(|(_, out)| out).sum(), from)?;
            if self.options.fp8 {
                Weight::Fp8(fp8::quantise(&matrix)?)
            } else {
                Weight::Whole(spaced(matrix, self.spare_columns(from, parts))?)
            }
        };
        let adapters = self.options.lora.map(|lora| self.adapters(&lora, from, parts)).transpose()?.flatten();
        Ok(Linear { weight, group: self.group(from), parts: parts.to_vec(), adapters })
    }

    /// How many spare columns the rows of a layer's matrix have. fp32 on a GPU has none, because there they were not measured.
    fn spare_columns(&self, from: i64, parts: &[(&'static str, i64)]) -> i64 {
        let Options { lora: Some(lora), nf4: false, fused: true, sharded: false, .. } = self.options else { return 0 };
        if self.group(from).is_some() || (self.device.is_cuda() && self.weights == Kind::Float) {
            return 0;
        }
        lora.spare_columns(parts.iter().map(|(name, _)| target(name))) as i64
    }

    /// The group size for a layer with `from` inputs. As in torchao, a layer whose inputs are no multiple of it is not quantised.
    pub fn group(&self, from: i64) -> Option<i64> {
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

/// A frozen matrix with columns of zeros behind each row.
fn spaced(matrix: Tensor, spare: i64) -> Result<Tensor, TchError> {
    if spare == 0 {
        return Ok(matrix);
    }
    let (out, from) = matrix.size2()?;
    let mut place = Tensor::f_zeros([out, from + spare], (matrix.kind(), matrix.device()))?.f_narrow(1, 0, from)?;
    place.f_copy_(&matrix)?;
    Ok(place)
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
            Weight::Fp8(fp8) => fp8.tensors().to_vec(),
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

    /// The work over `rows` inputs of a width. `needs_gradient`: whether the input needs one, and afterwards whether the output does.
    fn work(&self, rows: i64, from: i64, sides: Sides, needs_gradient: &mut bool, counted: Counted) -> Work {
        let input_gradient = *needs_gradient;
        let to: i64 = self.parts.iter().map(|(_, out)| out).sum();
        let product = Product { input_gradient, ..Product::linear(rows, from, to) };
        let product = match &self.weight {
            Weight::Whole(weight) => Product { weight_gradient: weight.requires_grad(), ..product },
            Weight::Fp8(_) => Product { weight_gradient: false, ..product },
            // Read in 4 bits; to widen them is no arithmetic of the model.
            Weight::Nf4(parts) => {
                let stored =
                    parts.iter().flat_map(|it| [&it.codes, &it.scales, &it.factors]).map(byte_count).sum::<u64>();
                let weight = stored as i64 / counted.kind.elt_size_in_bytes() as i64;
                Product { weight, weight_gradient: false, ..product }
            }
        };
        let adapters = self.adapters(sides.adapted());
        *needs_gradient |= product.weight_gradient || adapters.is_some();
        let frozen = if matches!(self.weight, Weight::Fp8(_)) {
            fp8::work(&product, rows, sides, counted)
        } else {
            product.work_of(sides, counted)
        };
        let Some(Adapters { a, b, .. }) = adapters else { return frozen };
        let stacked = a.size()[0];
        let down = Product { input_gradient, ..Product::linear(rows, from, stacked) };
        let rank = stacked / b.len() as i64;
        let up = b.iter().map(|(_, _, b)| Product::linear(rows, rank, b.size()[0]).work(counted));
        frozen + down.work(counted) + up.sum()
    }

    fn with<R>(&self, adapted: bool, call: impl FnOnce(&Adapted) -> R) -> R {
        let adapters = self.adapters(adapted);
        let b: Vec<_> = adapters.iter().flat_map(|it| &it.b).map(|(_, at, b)| (*at, b.shallow_clone())).collect();
        let (a, scale) = adapters.map_or((None, 0.0), |adapters| (Some(&adapters.a), adapters.scale));
        call(&Adapted { weight: &self.weight, group: self.group, a, b: &b, scale })
    }

    /// The projections by name, as views of the joint matrix; empty if it is quantised.
    fn named(&self, pick: Pick) -> Result<Vec<(&'static str, Tensor)>, TchError> {
        let Weight::Whole(weight) = &self.weight else { return Ok(Vec::new()) };
        let mut start = 0;
        let view = |(name, out): &(&'static str, i64)| {
            let part = pick(weight)?.f_narrow(0, start, *out)?;
            start += out;
            Ok((*name, part))
        };
        self.parts.iter().map(view).collect()
    }

    /// The adapters by name: A `[rank, in]` and B `[out, rank]`, as views.
    fn named_adapters(&self, pick: Pick) -> Result<Vec<(&'static str, [Tensor; 2])>, TchError> {
        let Some(Adapters { a, b, .. }) = &self.adapters else { return Ok(Vec::new()) };
        let rank = a.size()[0] / b.len() as i64;
        let view = |(index, (place, _, b)): (usize, &(usize, i64, Tensor))| {
            let a = pick(a)?.f_narrow(0, index as i64 * rank, rank)?;
            Ok((self.parts[*place].0, [a, pick(b)?]))
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

/// One of the model's layers.
pub struct Block {
    widths: Widths,
    attention_norm: Tensor,
    qkv: Linear,
    output: Linear,
    ffn_norm: Tensor,
    gate_up: Linear,
    down: Linear,
}

/// The part of a batch that every block needs besides its input.
pub struct Batch {
    /// Cosines and sines `[context, head_dim / 2]`.
    pub rotary: [Tensor; 2],
    /// Positions of all tokens, `[batch * tokens]`; in a joint pass twice, one after the other.
    pub positions: Tensor,
    /// Attention mask `[batch, 1, tokens, tokens]` of packed rows; `None` for plain causal attention.
    pub mask: Option<Tensor>,
    /// Whether adapters are enabled.
    pub adapted: bool,
}

impl Batch {
    pub fn shallow_clone(&self) -> Self {
        Self {
            rotary: self.rotary.each_ref().map(Tensor::shallow_clone),
            positions: self.positions.shallow_clone(),
            mask: self.mask.as_ref().map(Tensor::shallow_clone),
            adapted: self.adapted,
        }
    }
}

impl Block {
    pub fn new(config: &ModelConfig, options: &Options, place: &Place) -> Result<Self, TchError> {
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

    /// The block's parameters, including frozen ones.
    pub fn tensors(&self) -> Vec<Tensor> {
        let norms = [&self.attention_norm, &self.ffn_norm].into_iter();
        norms.chain(self.linears().into_iter().flat_map(Linear::tensors)).map(Tensor::shallow_clone).collect()
    }

    /// The block's weights without adapters, with the names that Hugging Face's files give to the weights of block `index`. `pick` selects
    /// values or gradients.
    pub fn named(&self, index: usize, pick: Pick) -> Result<Vec<(String, Tensor)>, TchError> {
        let name = |part: &str| format!("model.layers.{index}.{part}.weight");
        let mut named = vec![
            (name("input_layernorm"), pick(&self.attention_norm)?),
            (name("post_attention_layernorm"), pick(&self.ffn_norm)?),
        ];
        for linear in self.linears() {
            named.extend(linear.named(pick)?.into_iter().map(|(part, tensor)| (name(part), tensor)));
        }
        Ok(named)
    }

    /// The block's adapters as views, with the names that PEFT's files give to the adapters of block `index`. `pick` selects values or
    /// gradients.
    pub fn named_adapters(&self, index: usize, pick: Pick) -> Result<Vec<(String, Tensor)>, TchError> {
        let mut named = Vec::new();
        for linear in self.linears() {
            for (part, [a, b]) in linear.named_adapters(pick)? {
                let name = |which| format!("base_model.model.model.layers.{index}.{part}.lora_{which}.weight");
                named.extend([(name("A"), a), (name("B"), b)]);
            }
        }
        Ok(named)
    }

    /// Loads and quantises the matrices that are kept in NF4 or FP8, as block `index` of the checkpoint.
    pub fn load_quantised(&self, index: usize, checkpoint: &Checkpoint) -> Result<(), TchError> {
        for Linear { weight, parts, .. } in self.linears() {
            let load = |(part, _): &(&str, i64)| checkpoint.tensor(&format!("model.layers.{index}.{part}.weight"));
            match weight {
                Weight::Whole(_) => {}
                Weight::Nf4(quantised) => {
                    for (place, part) in quantised.iter().zip(parts) {
                        nf4::replace(place, &load(part)?)?;
                    }
                }
                // A column's scale is that of all projections.
                Weight::Fp8(place) => {
                    let parts: Vec<Tensor> = parts.iter().map(load).collect::<Result<_, _>>()?;
                    fp8::replace(place, &Tensor::f_cat(&parts, 0)?)?;
                }
            }
        }
        Ok(())
    }

    /// The number of its projections in each form.
    pub fn quantised(&self) -> Quantised {
        let count = |is: fn(&Linear) -> bool| {
            self.linears().into_iter().filter(|linear| is(linear)).map(|linear| linear.parts.len()).sum()
        };
        Quantised {
            nf4: count(|linear| matches!(linear.weight, Weight::Nf4(_))),
            fp8: count(|linear| matches!(linear.weight, Weight::Fp8(_))),
            fake: count(|linear| linear.group.is_some()),
        }
    }

    /// The number of adapter tensors: A and B of each adapted projection.
    pub fn adapters(&self) -> usize {
        self.linears()
            .into_iter()
            .filter_map(|linear| linear.adapters.as_ref())
            .map(|adapters| 2 * adapters.b.len())
            .sum()
    }

    /// The work over `[rows, tokens]` of each side. `needs_gradient`: whether the input needs one, and afterwards whether the output does.
    ///
    /// Attention counts all pairs of a row's tokens, as is usual, although a causal mask leaves only half of them (arXiv 2204.02311,
    /// appendix B).
    pub fn work(&self, [rows, tokens]: [i64; 2], sides: Sides, needs_gradient: &mut bool, counted: Counted) -> Work {
        let Widths { heads, kv_heads, head_dim, .. } = self.widths;
        let (all, dim, queries) = (rows * tokens, self.attention_norm.size()[0], heads * head_dim);
        let qkv = self.qkv.work(all, dim, sides, needs_gradient, counted);
        // Scores and the mean of values by them. Gradients of queries, keys, values and scores are a product each.
        let backward = if counted.train && *needs_gradient { 2 } else { 0 };
        let passes = 1 + backward + i64::from(sides == Sides::Both);
        let pairs = 2 * rows * heads * tokens * tokens * head_dim * passes;
        let (read, kept) = (all * (queries + 2 * kv_heads * head_dim), all * queries);
        let tensors = (read + kept) * passes;
        let bytes = tensors * counted.kind.elt_size_in_bytes() as i64;
        let attention = Work { flop: 2.0 * pairs as f64, bytes: bytes as f64 };
        let output = self.output.work(all, queries, sides, needs_gradient, counted);
        let gate_up = self.gate_up.work(all, dim, sides, needs_gradient, counted);
        let ffn = self.gate_up.parts.first().map_or(0, |(_, out)| *out);
        qkv + attention + output + gate_up + self.down.work(all, ffn, sides, needs_gradient, counted)
    }

    /// Computes the block's output, which has the shape of its input, `[batch, tokens, dim]`. In a joint pass, which needs fused kernels,
    /// `both` contains the rows of `input` and then the reference's rows, `[2 batch, tokens, dim]`. The second result has the same form.
    /// Autograd follows only the first result, which shares no memory with the reference's rows.
    pub fn forward(
        &self,
        input: &Tensor,
        both: Option<&Tensor>,
        batch: &Batch,
    ) -> Result<(Tensor, Option<Tensor>), TchError> {
        let Widths { heads, kv_heads, epsilon, fused, .. } = self.widths;
        // Flash attention supports grouped queries, but neither fp32 nor masks.
        let grouped = fused && input.kind() != Kind::Float && batch.mask.is_none();
        let (attention_norm, ffn_norm) = ((&self.attention_norm, epsilon), (&self.ffn_norm, epsilon));
        if fused {
            let ([q, k, v, input], reference) = self.qkv.with(batch.adapted, |qkv| {
                let counts = (heads, kv_heads, if grouped { 1 } else { heads / kv_heads });
                llama::attention_in(input, both, attention_norm, qkv, &batch.rotary, &batch.positions, counts)
            })?;
            let attended = attend([&q, &k, &v], grouped, batch)?;
            let reference = reference.map(|heads| attend(heads.each_ref(), grouped, batch)).transpose()?;
            let joint = both.zip(reference.as_ref()).map(|(both, attended)| [both, attended]);
            return self.output.with(batch.adapted, |output| {
                self.gate_up.with(batch.adapted, |gate_up| {
                    self.down.with(batch.adapted, |down| {
                        llama::block_out(&input, &attended, joint, output, ffn_norm, gate_up, down)
                    })
                })
            });
        }
        let qkv = self.qkv.forward(&rms_norm(input, attention_norm)?, batch.adapted)?;
        let qkv = qkv.f_unflatten(-1, [heads + 2 * kv_heads, self.widths.head_dim])?;
        let part = |start, count| qkv.f_narrow(2, start, count);
        let q = turn(&part(0, heads)?, batch)?;
        let k = turn(&part(heads, kv_heads)?, batch)?;
        let attended = attend([&q, &k, &part(heads + kv_heads, kv_heads)?], grouped, batch)?;
        let middle = input.f_add(&self.output.forward(&attended, batch.adapted)?)?;
        let gate_up = self.gate_up.forward(&rms_norm(&middle, ffn_norm)?, batch.adapted)?.f_chunk(2, -1)?;
        let hidden = gate_up[0].f_silu()?.f_mul(&gate_up[1])?;
        Ok((middle.f_add(&self.down.forward(&hidden, batch.adapted)?)?, None))
    }
}

/// Attention: from queries, keys and values `[batch, tokens, heads, head_dim]` to `[batch, tokens, heads * head_dim]`. Keys and values
/// of fewer heads are repeated, or with `grouped` left to the attention kernel.
fn attend([q, k, v]: [&Tensor; 3], grouped: bool, batch: &Batch) -> Result<Tensor, TchError> {
    let heads_first = |tensor: &Tensor, repeats: i64| {
        let tensor = tensor.f_transpose(1, 2)?;
        if repeats == 1 { Ok(tensor) } else { tensor.f_repeat_interleave_self_int(repeats, 1, None) }
    };
    let repeats = if grouped { 1 } else { q.size()[2] / k.size()[2] };
    let (q, k, v) = (heads_first(q, 1)?, heads_first(k, repeats)?, heads_first(v, repeats)?);
    let mask = batch.mask.as_ref();
    let attended = Tensor::f_scaled_dot_product_attention(&q, &k, &v, mask, 0.0, mask.is_none(), None, grouped)?;
    attended.f_transpose(1, 2)?.f_flatten(2, 3)
}

/// RMSNorm in fp32, except for the product with its weight.
pub fn rms_norm(input: &Tensor, (weight, epsilon): (&Tensor, f64)) -> Result<Tensor, TchError> {
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

#[cfg(test)]
#[path = "block_tests.rs"]
mod tests;
