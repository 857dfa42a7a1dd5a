//! A Llama block in few steps of autograd, and activation checkpointing.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use tch::{TchError, Tensor};
use torch_sys::C_tensor;

use super::cuda;
use super::host::{check, own, release, write_error};

/// `Nf4` of the shim.
#[repr(C)]
struct RawNf4 {
    codes: *const C_tensor,
    scales: *const C_tensor,
    factors: *const C_tensor,
    mean: *const C_tensor,
    levels: *const C_tensor,
    out: i64,
}

/// `Linear` of the shim.
#[repr(C)]
struct RawLinear {
    weight: *const C_tensor,
    a: *const C_tensor,
    b: *const *const C_tensor,
    start: *const i64,
    parts: usize,
    scale: f64,
    nf4: *const RawNf4,
    nf4_parts: usize,
    group: i64,
}

unsafe extern "C" {
    fn mc_llama_kernels(kernels: *mut c_void);
    fn mc_llama_attention_in(
        input: *const C_tensor,
        norm: *const C_tensor,
        epsilon: f64,
        qkv: *const RawLinear,
        cos: *const C_tensor,
        sin: *const C_tensor,
        positions: *const C_tensor,
        heads: i64,
        kv_heads: i64,
        repeats: i64,
        results: *mut *mut C_tensor,
    ) -> c_int;
    fn mc_llama_block_out(
        input: *const C_tensor,
        attended: *const C_tensor,
        out: *const RawLinear,
        norm: *const C_tensor,
        epsilon: f64,
        gate_up: *const RawLinear,
        down: *const RawLinear,
    ) -> *mut C_tensor;
    fn mc_llama_losses(
        input: *const C_tensor,
        norm: *const C_tensor,
        epsilon: f64,
        weight: *const C_tensor,
        group: i64,
        labels: *const C_tensor,
        chunk: i64,
    ) -> *mut C_tensor;
    fn mc_llama_product(input: *const C_tensor, linear: *const RawLinear) -> *mut C_tensor;
    #[cfg(test)]
    fn mc_llama_dense(linear: *const RawLinear) -> *mut C_tensor;
    #[cfg(test)]
    fn mc_llama_fake_quantise(input: *const C_tensor) -> *mut C_tensor;
    fn mc_checkpoint(
        input: *const C_tensor,
        call: unsafe extern "C" fn(*mut c_void, *const C_tensor, *mut c_char, usize) -> *mut C_tensor,
        release: unsafe extern "C" fn(*mut c_void),
        owner: *mut c_void,
    ) -> *mut C_tensor;
}

/// A frozen matrix `[out, in]` in NF4 with double quantisation (arXiv 2305.14314). Factors, mean and levels are of the type that it is
/// read in.
pub struct Nf4 {
    /// `[out * in / 2]`, two numbers a byte, the first in its upper half.
    pub codes: Tensor,
    /// `[out * in / 64]`, int8.
    pub scales: Tensor,
    /// One factor for each 256 scales.
    pub factors: Tensor,
    /// `[1]`, of the scales before they were quantised.
    pub mean: Tensor,
    /// `[16]`.
    pub levels: Tensor,
    /// Rows.
    pub out: i64,
}

/// The matrix of a linear layer, `[out, in]`.
pub enum Weight {
    /// As it is read.
    Whole(Tensor),
    /// In 4 bits, each projection for itself.
    Nf4(Vec<Nf4>),
}

/// A linear layer whose output columns may be several projections side by side, and their low-rank adapters.
pub struct Adapted<'a> {
    /// Its matrix.
    pub weight: &'a Weight,
    /// Numbers of a row that share a scale, where products read the matrix in 4 bits and their input in 8: fake quantisation.
    pub group: Option<i64>,
    /// The adapters' matrices A, one below the other: `[parts * rank, in]`. None where there are no adapters.
    pub a: Option<&'a Tensor>,
    /// First column and matrix B of each part: `[its width, rank]`.
    pub b: &'a [(i64, Tensor)],
    /// What adapters are scaled by.
    pub scale: f64,
}

impl Adapted<'_> {
    fn with<R>(&self, call: impl FnOnce(&RawLinear) -> R) -> R {
        let b: Vec<*const C_tensor> = self.b.iter().map(|(_, b)| b.as_ptr()).collect();
        let start: Vec<i64> = self.b.iter().map(|(start, _)| *start).collect();
        let a = self.a.map_or(ptr::null(), |a| a.as_ptr());
        let parts = if self.a.is_some() { b.len() } else { 0 };
        let (weight, quantised) = match self.weight {
            Weight::Whole(weight) => (weight.as_ptr(), &[][..]),
            Weight::Nf4(parts) => (ptr::null(), &parts[..]),
        };
        let raw = |part: &Nf4| RawNf4 {
            codes: part.codes.as_ptr(),
            scales: part.scales.as_ptr(),
            factors: part.factors.as_ptr(),
            mean: part.mean.as_ptr(),
            levels: part.levels.as_ptr(),
            out: part.out,
        };
        let nf4: Vec<RawNf4> = quantised.iter().map(raw).collect();
        call(&RawLinear {
            weight,
            a,
            b: b.as_ptr(),
            start: start.as_ptr(),
            parts,
            scale: self.scale,
            nf4: nf4.as_ptr(),
            nf4_parts: nf4.len(),
            group: self.group.unwrap_or(0),
        })
    }
}

/// Compiles the kernels of GPUs of this device's kind; until then fused steps use libtorch's.
pub fn use_cuda_kernels() -> Result<(), TchError> {
    let kernels = cuda::llama_kernels()?;
    // SAFETY: made by the CUDA part of this shim, which is never closed.
    unsafe { mc_llama_kernels(kernels) };
    Ok(())
}

/// RMSNorm of `input [batch, tokens, dim]`, the product for queries, keys and values, turned by `positions [batch * tokens]`:
/// three tensors `[batch, tokens, heads, head_dim]`, keys and values with each head `repeats` times. The fourth result is `input` for
/// what else uses it, whose gradient then joins this step's. `rotary` are cosines and sines `[context, head_dim / 2]` in fp32.
pub fn attention_in(
    input: &Tensor,
    (norm, epsilon): (&Tensor, f64),
    qkv: &Adapted,
    rotary: &[Tensor; 2],
    positions: &Tensor,
    (heads, kv_heads, repeats): (i64, i64, i64),
) -> Result<[Tensor; 4], TchError> {
    let mut results = [ptr::null_mut(); 4];
    let status = qkv.with(|qkv| {
        let [cos, sin] = rotary.each_ref().map(Tensor::as_ptr);
        let (input, norm, positions) = (input.as_ptr(), norm.as_ptr(), positions.as_ptr());
        let results = results.as_mut_ptr();
        // SAFETY: all tensors live through the call; four places for results. Autograd keeps references of its own.
        unsafe {
            mc_llama_attention_in(input, norm, epsilon, qkv, cos, sin, positions, heads, kv_heads, repeats, results)
        }
    });
    check(status)?;
    let [q, k, v, same] = results;
    Ok([own(q)?, own(k)?, own(v)?, own(same)?])
}

/// `input [batch, tokens, dim]` plus the projection of what attention gave, and the feed-forward network of that, added to it.
pub fn block_out(
    input: &Tensor,
    attended: &Tensor,
    out: &Adapted,
    (norm, epsilon): (&Tensor, f64),
    gate_up: &Adapted,
    down: &Adapted,
) -> Result<Tensor, TchError> {
    let (input, attended, norm) = (input.as_ptr(), attended.as_ptr(), norm.as_ptr());
    own(out.with(|out| {
        // SAFETY: as in `attention_in`.
        let call =
            |gate_up: &_, down: &_| unsafe { mc_llama_block_out(input, attended, out, norm, epsilon, gate_up, down) };
        gate_up.with(|gate_up| down.with(|down| call(gate_up, down)))
    }))
}

/// RMSNorm of `input [rows, dim]`, the product with `weight [vocabulary, dim]` and the cross entropy of each row, in fp32: 0 where
/// its label is below 0. `chunk` rows of logits are there at a time. `group` as in [`Adapted`].
pub fn losses(
    input: &Tensor,
    (norm, epsilon): (&Tensor, f64),
    (weight, group): (&Tensor, Option<i64>),
    labels: &Tensor,
    chunk: i64,
) -> Result<Tensor, TchError> {
    let (input, norm, weight, labels) = (input.as_ptr(), norm.as_ptr(), weight.as_ptr(), labels.as_ptr());
    // SAFETY: as in `attention_in`.
    own(unsafe { mc_llama_losses(input, norm, epsilon, weight, group.unwrap_or(0), labels, chunk) })
}

/// `input [.., in]` times the matrix of a layer, without its adapters: `[.., out]`. What the product reads is made for it alone, and
/// again in the backward pass.
pub fn product(input: &Tensor, layer: &Adapted) -> Result<Tensor, TchError> {
    // SAFETY: as in `attention_in`.
    own(layer.with(|layer| unsafe { mc_llama_product(input.as_ptr(), layer) }))
}

/// The matrix of a layer as products read it, `[out, in]`.
#[cfg(test)]
pub fn dense(layer: &Adapted) -> Result<Tensor, TchError> {
    // SAFETY: as in `attention_in`.
    own(layer.with(|layer| unsafe { mc_llama_dense(layer) }))
}

/// Rows `[rows, width]` as products of a fake-quantised layer read them: 8-bit integers between a row's least and greatest number.
#[cfg(test)]
pub fn fake_quantise(rows: &Tensor) -> Result<Tensor, TchError> {
    // SAFETY: as in `attention_in`.
    own(unsafe { mc_llama_fake_quantise(rows.as_ptr()) })
}

/// `part(input)`, of which autograd keeps the input alone: the backward pass computes it again, in a thread of autograd's on a GPU.
pub fn checkpoint<F>(input: &Tensor, part: F) -> Result<Tensor, TchError>
where
    F: Fn(&Tensor) -> Result<Tensor, TchError> + Send + Sync + 'static,
{
    unsafe extern "C" fn call<F: Fn(&Tensor) -> Result<Tensor, TchError>>(
        owner: *mut c_void,
        input: *const C_tensor,
        text: *mut c_char,
        room: usize,
    ) -> *mut C_tensor {
        // SAFETY: the box of `checkpoint`, which lives until `release`; the clone takes a reference of its own.
        let made = unsafe {
            let part = &*owner.cast::<F>();
            own(torch_sys::at_shallow_clone(input.cast_mut())).and_then(|input| part(&input))
        };
        match made {
            // SAFETY: as above; the shim takes what it is given.
            Ok(tensor) => unsafe { torch_sys::at_shallow_clone(tensor.as_ptr().cast_mut()) },
            Err(error) => {
                // SAFETY: there is that much room.
                unsafe { write_error(error, text, room) };
                ptr::null_mut()
            }
        }
    }
    let owner = Box::into_raw(Box::new(part)).cast();
    // SAFETY: the input lives through the call; the part may be called and dropped by any thread.
    own(unsafe { mc_checkpoint(input.as_ptr(), call::<F>, release::<F>, owner) })
}
