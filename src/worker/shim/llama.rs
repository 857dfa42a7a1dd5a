//! A Llama block that autograd sees as a few large operations, and activation checkpointing.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use tch::{TchError, Tensor};
use torch_sys::C_tensor;

use super::cuda;
use super::host::{check, own, release, write_error};

/// The shim's `Nf4`.
#[repr(C)]
struct RawNf4 {
    codes: *const C_tensor,
    scales: *const C_tensor,
    factors: *const C_tensor,
    mean: *const C_tensor,
    levels: *const C_tensor,
    out: i64,
}

/// The shim's `Fp8`.
#[repr(C)]
struct RawFp8 {
    codes: *const C_tensor,
    scales: *const C_tensor,
    column_codes: *const C_tensor,
    column_scales: *const C_tensor,
}

/// The shim's `Linear`.
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
    fp8: *const RawFp8,
    group: i64,
    spare: i64,
}

unsafe extern "C" {
    fn mc_llama_kernels(kernels: *mut c_void);
    fn mc_llama_attention_in(
        input: *const C_tensor,
        both: *const C_tensor,
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
        both: *const C_tensor,
        reference: *const C_tensor,
        out: *const RawLinear,
        norm: *const C_tensor,
        epsilon: f64,
        gate_up: *const RawLinear,
        down: *const RawLinear,
        results: *mut *mut C_tensor,
    ) -> c_int;
    fn mc_llama_losses(
        input: *const C_tensor,
        both: *const C_tensor,
        norm: *const C_tensor,
        epsilon: f64,
        weight: *const C_tensor,
        group: i64,
        labels: *const C_tensor,
        chunk: i64,
    ) -> *mut C_tensor;
    fn mc_llama_product(input: *const C_tensor, linear: *const RawLinear) -> *mut C_tensor;
    fn mc_llama_quantise_rows(input: *const C_tensor, results: *mut *mut C_tensor) -> c_int;
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

/// A frozen matrix `[out, in]` in NF4 with double quantisation (arXiv 2305.14314). Factors, mean and levels have the type in which the
/// matrix is read.
pub struct Nf4 {
    /// `[out * in / 2]`: two numbers in each byte, the first one in the upper half.
    pub codes: Tensor,
    /// `[out * in / 64]`, int8.
    pub scales: Tensor,
    /// `[out * in / 64 / 256, rounded up]`: the number that 256 successive scales are multiplied by.
    pub factors: Tensor,
    /// `[1]`: the mean of the scales before they were quantised.
    pub mean: Tensor,
    /// `[16]`: the values of the 16 codes.
    pub levels: Tensor,
    /// Number of rows.
    pub out: i64,
}

/// Rows in FP8 (e4m3): each number is its code's value times the scale of its row.
pub struct Fp8Rows {
    /// `[rows, width]`: the bits of the codes, as bytes.
    pub codes: Tensor,
    /// `[rows, 1]`, fp32.
    pub scales: Tensor,
}

/// A frozen matrix `[out, in]` in FP8, stored twice: tensor cores read FP8 only along the rows that a product sums over.
pub struct Fp8 {
    /// `[out, in]`, with a scale for each output.
    pub rows: Fp8Rows,
    /// `[in, out]`, with a scale for each input: what gradients of the input are computed from.
    pub columns: Fp8Rows,
}

impl Fp8 {
    /// All that it stores.
    pub fn tensors(&self) -> [&Tensor; 4] {
        [&self.rows.codes, &self.rows.scales, &self.columns.codes, &self.columns.scales]
    }
}

/// The matrix of a linear layer, `[out, in]`.
pub enum Weight {
    /// The matrix is stored in the type in which it is read. If its rows are further apart than their width, the columns between them must
    /// be zeros and must not be used for anything else: the fused backward pass writes the adapters' matrices B there.
    Whole(Tensor),
    /// The matrix is stored in 4 bits, each projection separately.
    Nf4(Vec<Nf4>),
    /// The matrix is stored in 8 bits, and products multiply these 8-bit numbers.
    Fp8(Fp8),
}

impl Weight {
    /// How many spare columns lie behind each row.
    fn spare(&self) -> i64 {
        let Self::Whole(weight) = self else { return 0 };
        (weight.stride()[0] - weight.size()[1]).max(0)
    }
}

/// A linear layer whose output columns may hold several projections side by side, and their low-rank adapters.
pub struct Adapted<'a> {
    /// Its matrix.
    pub weight: &'a Weight,
    /// The number of values of a row that share a scale in fake quantisation, in which products read the matrix in 4 bits and their input
    /// in 8 bits; `None` without it.
    pub group: Option<i64>,
    /// The adapters' matrices A, one below the other: `[parts * rank, in]`. None if there are no adapters.
    pub a: Option<&'a Tensor>,
    /// First column and matrix B `[width, rank]` of each part.
    pub b: &'a [(i64, Tensor)],
    /// The factor that scales the adapters' outputs.
    pub scale: f64,
}

impl Adapted<'_> {
    fn with<R>(&self, call: impl FnOnce(&RawLinear) -> R) -> R {
        let b: Vec<*const C_tensor> = self.b.iter().map(|(_, b)| b.as_ptr()).collect();
        let start: Vec<i64> = self.b.iter().map(|(start, _)| *start).collect();
        let a = pointer(self.a);
        let parts = if self.a.is_some() { b.len() } else { 0 };
        let (weight, quantised, fp8) = match self.weight {
            Weight::Whole(weight) => (weight.as_ptr(), &[][..], None),
            Weight::Nf4(parts) => (ptr::null(), &parts[..], None),
            Weight::Fp8(fp8) => (ptr::null(), &[][..], Some(fp8)),
        };
        let fp8 = fp8.map(|fp8| {
            let [codes, scales, column_codes, column_scales] = fp8.tensors().map(Tensor::as_ptr);
            RawFp8 { codes, scales, column_codes, column_scales }
        });
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
            fp8: fp8.as_ref().map_or(ptr::null(), ptr::from_ref),
            group: self.group.unwrap_or(0),
            spare: self.weight.spare(),
        })
    }
}

/// Compiles the kernels for GPUs of this device's kind. Until then, fused steps use libtorch's kernels.
pub fn use_cuda_kernels() -> Result<(), TchError> {
    let kernels = cuda::llama_kernels()?;
    // SAFETY: the kernels were made by the CUDA part of this shim, which is never closed.
    unsafe { mc_llama_kernels(kernels) };
    Ok(())
}

/// Computes RMSNorm of `input [batch, tokens, dim]` and the product for queries, keys and values, rotated by `positions [batch * tokens]`.
/// Returns three tensors `[batch, tokens, heads, head_dim]`, with each head of keys and values repeated `repeats` times. The fourth result
/// is `input`, for the block's other use of it, so that both gradients are added in this operation. `rotary` holds cosines and sines
/// `[context, head_dim / 2]` in fp32.
///
/// In a joint pass of DPO, `both` contains the rows of `input`, which are the policy's, and then as many rows of the reference, whose
/// queries, keys and values are returned as well. `positions` then contains the positions of the policy's rows and of the reference's rows.
/// The reference has no adapters, and autograd follows only `input`.
pub fn attention_in(
    input: &Tensor,
    both: Option<&Tensor>,
    (norm, epsilon): (&Tensor, f64),
    qkv: &Adapted,
    rotary: &[Tensor; 2],
    positions: &Tensor,
    (heads, kv_heads, repeats): (i64, i64, i64),
) -> Result<([Tensor; 4], Option<[Tensor; 3]>), TchError> {
    let mut results = [ptr::null_mut(); 7];
    let status = qkv.with(|qkv| {
        let [cos, sin] = rotary.each_ref().map(Tensor::as_ptr);
        let (input, norm, positions) = (input.as_ptr(), norm.as_ptr(), positions.as_ptr());
        let (both, results) = (pointer(both), results.as_mut_ptr());
        // SAFETY: all tensors live until the call returns; there are variables for the four results and, with `both`, for three more.
        // Autograd keeps references of its own.
        unsafe {
            mc_llama_attention_in(
                input, both, norm, epsilon, qkv, cos, sin, positions, heads, kv_heads, repeats, results,
            )
        }
    });
    check(status)?;
    let [q, k, v, same, reference @ ..] = results;
    let policy = [own(q)?, own(k)?, own(v)?, own(same)?];
    let [q, k, v] = reference;
    let reference = if both.is_some() { Some([own(q)?, own(k)?, own(v)?]) } else { None };
    Ok((policy, reference))
}

/// Adds to `input [batch, tokens, dim]` the projection of attention's output, and to that sum its feed-forward network.
///
/// In a joint pass, `joint` is `both` of [`attention_in`] and the reference's output of attention. The second result is then the first
/// one and the reference's rows, without autograd.
pub fn block_out(
    input: &Tensor,
    attended: &Tensor,
    joint: Option<[&Tensor; 2]>,
    out: &Adapted,
    (norm, epsilon): (&Tensor, f64),
    gate_up: &Adapted,
    down: &Adapted,
) -> Result<(Tensor, Option<Tensor>), TchError> {
    let mut results = [ptr::null_mut(); 2];
    let (input, attended, norm) = (input.as_ptr(), attended.as_ptr(), norm.as_ptr());
    let [both, reference] = joint.map_or([ptr::null(); 2], |tensors| tensors.map(Tensor::as_ptr));
    let places = results.as_mut_ptr();
    let status = out.with(|out| {
        // SAFETY: as in `attention_in`, with two variables for the results.
        let call = |gate_up: &_, down: &_| unsafe {
            mc_llama_block_out(input, attended, both, reference, out, norm, epsilon, gate_up, down, places)
        };
        gate_up.with(|gate_up| down.with(|down| call(gate_up, down)))
    });
    check(status)?;
    let [result, both] = results;
    Ok((own(result)?, joint.map(|_| own(both)).transpose()?))
}

/// A tensor's address; null without a tensor.
fn pointer(tensor: Option<&Tensor>) -> *const C_tensor {
    tensor.map_or(ptr::null(), Tensor::as_ptr)
}

/// Computes RMSNorm of `input [rows, dim]`, the product with `weight [vocabulary, dim]`, and the cross entropy of each row, in fp32: 0 if
/// the label is below 0. At most `chunk` rows of logits exist at a time. `group` as in [`Adapted`]. In a joint pass, `both` is as in
/// [`attention_in`], and there are labels and cross entropies of both; the reference's have no gradient.
pub fn losses(
    input: &Tensor,
    both: Option<&Tensor>,
    (norm, epsilon): (&Tensor, f64),
    (weight, group): (&Tensor, Option<i64>),
    labels: &Tensor,
    chunk: i64,
) -> Result<Tensor, TchError> {
    let (input, norm, weight, labels) = (input.as_ptr(), norm.as_ptr(), weight.as_ptr(), labels.as_ptr());
    let both = pointer(both);
    // SAFETY: as in `attention_in`.
    own(unsafe { mc_llama_losses(input, both, norm, epsilon, weight, group.unwrap_or(0), labels, chunk) })
}

/// `input [.., in]` times the matrix of a layer, without its adapters: `[.., out]`. The matrix is converted to the form that the product
/// reads for this product only, and again in the backward pass.
pub fn product(input: &Tensor, layer: &Adapted) -> Result<Tensor, TchError> {
    // SAFETY: as in `attention_in`.
    own(layer.with(|layer| unsafe { mc_llama_product(input.as_ptr(), layer) }))
}

/// Quantises rows `[rows, width]` to FP8.
pub fn quantise_rows(rows: &Tensor) -> Result<Fp8Rows, TchError> {
    let mut results = [ptr::null_mut(); 2];
    // SAFETY: as in `attention_in`; there are two variables for the results.
    check(unsafe { mc_llama_quantise_rows(rows.as_ptr(), results.as_mut_ptr()) })?;
    let [codes, scales] = results;
    Ok(Fp8Rows { codes: own(codes)?, scales: own(scales)? })
}

/// The matrix of a layer in the form that products read, `[out, in]`; in fp32 if that form is FP8.
#[cfg(test)]
pub fn dense(layer: &Adapted) -> Result<Tensor, TchError> {
    // SAFETY: as in `attention_in`.
    own(layer.with(|layer| unsafe { mc_llama_dense(layer) }))
}

/// Rows `[rows, width]` in the form that products of a fake-quantised layer read: 8-bit integers between the smallest and largest number of
/// the row.
#[cfg(test)]
pub fn fake_quantise(rows: &Tensor) -> Result<Tensor, TchError> {
    // SAFETY: as in `attention_in`.
    own(unsafe { mc_llama_fake_quantise(rows.as_ptr()) })
}

/// Computes `part(input)`. Autograd keeps only the input, and the backward pass computes the part again, on a GPU in a thread of
/// autograd.
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
        // SAFETY: the box made in `checkpoint`, which lives until `release`; the clone takes a reference of its own.
        let output = unsafe {
            let part = &*owner.cast::<F>();
            own(torch_sys::at_shallow_clone(input.cast_mut())).and_then(|input| part(&input))
        };
        match output {
            // SAFETY: as above; the shim takes ownership of the result.
            Ok(tensor) => unsafe { torch_sys::at_shallow_clone(tensor.as_ptr().cast_mut()) },
            Err(error) => {
                // SAFETY: the text has that much room.
                unsafe { write_error(error, text, room) };
                ptr::null_mut()
            }
        }
    }
    let owner = Box::into_raw(Box::new(part)).cast();
    // SAFETY: the input lives until the call returns; the part may be called and dropped by any thread.
    own(unsafe { mc_checkpoint(input.as_ptr(), call::<F>, release::<F>, owner) })
}
