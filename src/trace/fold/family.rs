//! The purpose, number format and layout of a kernel, inferred from its name.

use std::sync::LazyLock;

use regex::Regex;
use strum::VariantArray as _;

use crate::plan::{NumberFormat, TensorLayout};

/// The purpose of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Family {
    Convolution,
    /// Matrix products.
    Matrix,
    /// Attention in one kernel: FlashAttention, CUTLASS's FMHA, cuDNN's SDPA, FlexAttention.
    Attention,
    Normalisation,
    /// Sums, means, maxima, softmax, losses and pooling.
    Reduction,
    Elementwise,
    /// Kernels that gather, scatter, embed or sort.
    Indexing,
    Optimizer,
    /// Kernels that only move data, copies and memsets.
    DataMovement,
    /// NCCL, with the collective in snake case.
    Nccl(String),
    Other,
}

impl Family {
    pub fn name(&self) -> String {
        match self {
            Self::Convolution => "convolution".to_owned(),
            Self::Matrix => "matrix".to_owned(),
            Self::Attention => "attention".to_owned(),
            Self::Normalisation => "normalisation".to_owned(),
            Self::Reduction => "reduction".to_owned(),
            Self::Elementwise => "elementwise".to_owned(),
            Self::Indexing => "indexing".to_owned(),
            Self::Optimizer => "optimizer".to_owned(),
            Self::DataMovement => "copy".to_owned(),
            Self::Nccl(collective) => format!("nccl_{collective}"),
            Self::Other => "other".to_owned(),
        }
    }
}

/// Words for attention. cuDNN's kernels for it are called `…_sdpa_sm90_flash_fprop_…`, like convolutions.
const ATTENTION: &[&str] =
    &["flash_fwd", "flash_bwd", "flashattn", "fmha", "sdpa", "attention", "_attn_fwd", "_attn_bwd"];
/// Words for normalisations.
const NORMALISATION: &[&str] = &[
    "batch_norm",
    "batchnorm",
    "bn_fw",
    "bn_bw",
    "layer_norm",
    "layernorm",
    "rms_norm",
    "rmsnorm",
    "group_norm",
    "groupnorm",
    "instance_norm",
    "gammabeta",
    "rowwisemoments",
    "welford",
];

/// Lower-case words that identify a family. The first family with a word in the name wins. Convolutions are computed by matrix products, so
/// words of convolutions come first; copies can be conversions, so words of copies come before `conv`; products that are split end with a
/// `splitKreduce_kernel`, so words of products come before those of reductions.
const WORDS: &[(Family, &[&str])] = &[
    (Family::Attention, ATTENTION),
    (
        Family::Optimizer,
        &["multi_tensor_apply", "fused_sgd", "fusedsgd", "fused_adam", "fusedadam", "adamw", "adagrad", "rmsprop"],
    ),
    (Family::Normalisation, NORMALISATION),
    (
        Family::DataMovement,
        &[
            "nchwtonhwc",
            "nhwctonchw",
            "catarraybatchedcopy",
            "direct_copy",
            "copy_kernel",
            "transpose",
            "tensortransform",
            "memcpy",
            "convert_",
        ],
    ),
    (
        Family::Convolution,
        &[
            "conv",
            "wgrad",
            "dgrad",
            "fprop",
            "winograd",
            "implicit_gemm",
            "depthwise",
            "fft2d",
            "flip_filter",
            "pointwise_mult_and_sum_complex",
            "precompute_indices",
            "region_transform",
        ],
    ),
    (Family::Matrix, &["gemm", "gemv", "nvjet", "cublas", "splitk", "matmul", "cutlass"]),
    (
        Family::Indexing,
        &[
            "index_elementwise",
            "index_kernel",
            "index_put",
            "indexing_backward",
            "indexselect",
            "indexfunc",
            "gather",
            "scatter",
            "embedding",
            "radixsort",
            "bitonicsort",
            "topk",
        ],
    ),
    (
        Family::Reduction,
        &[
            "reduce_kernel",
            "devicereduce",
            "lpnorm",
            "softmax",
            "nll_loss",
            "crossentropy",
            "cross_entropy",
            "pool",
            "cumsum",
        ],
    ),
    (
        Family::Elementwise,
        &[
            "elementwise",
            // The cells of cuDNN's LSTM and GRU.
            "elemwise",
            "dropout",
            "fillfunctor",
            "scalepackedtensor",
            "scal_kernel",
            "upsample",
            "activation",
            "triu_tril",
        ],
    ),
];

/// The operations in the names of Inductor's pointwise kernels that only move data.
static MOVES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let operations = "to_copy|convert_element_type|clone|copy|unsafe_view|view|reshape|permute|transpose|t|cat|stack|slice|select|\
         slice_scatter|select_scatter|expand|squeeze|unsqueeze|split|split_with_sizes|unbind|constant_pad_nd|contiguous|detach|alias";
    Regex::new(&format!("^(_+({operations}))+(_+[0-9]+)?$")).ok()
});

/// The family of a kernel that PyTorch's Inductor made: `triton_<kind>_fused_<operations>_<number>`. Kinds are `poi` (pointwise), `red` and
/// `per` (reductions: in a loop, and in one piece), `tem` (a template, such as a product), and `for` (a list of tensors, as optimizers
/// update). `None` for other kernels, including those that were written in Triton by hand.
fn inductor(lower: &str) -> Option<Family> {
    let (kind, operations) = lower.strip_prefix("triton_")?.split_once("_fused")?;
    let has = |words: &[&str]| words.iter().any(|word| operations.contains(word));
    Some(match kind {
        _ if has(ATTENTION) && kind == "tem" => Family::Attention,
        "tem" if has(&["conv"]) => Family::Convolution,
        "tem" => Family::Matrix,
        "for" => Family::Optimizer,
        _ if has(NORMALISATION) => Family::Normalisation,
        "red" | "per" => Family::Reduction,
        "poi" if MOVES.as_ref().is_some_and(|moves| moves.is_match(operations)) => Family::DataMovement,
        "poi" if has(&["embedding_dense_backward", "index_put", "scatter_add"]) => Family::Indexing,
        "poi" => Family::Elementwise,
        _ => return None,
    })
}

/// The family of a kernel.
pub(super) fn family(name: &str) -> Family {
    if let Some(collective) = collective(name) {
        return Family::Nccl(collective);
    }
    let lower = name.to_ascii_lowercase();
    if let Some(family) = inductor(&lower) {
        return family;
    }
    let entry = WORDS.iter().find(|(_, words)| words.iter().any(|word| lower.contains(word)));
    entry.map_or(Family::Other, |(family, _)| family.clone())
}

/// The collective of a NCCL kernel in snake case: `all_reduce` for `ncclDevKernel_AllReduce_Sum_f32_RING_LL`.
pub(super) fn collective(name: &str) -> Option<String> {
    let rest = name.strip_prefix("nccl")?;
    let named = rest.split_once("Kernel_").map_or("", |(_, named)| named);
    let word: String = named.chars().take_while(char::is_ascii_alphanumeric).collect();
    if word.is_empty() {
        return Some("other".to_owned());
    }
    let mut snake = String::new();
    for letter in word.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    Some(snake)
}

/// The number format in which a convolution or a matrix product multiplies; `None` if its name does not tell.
pub(super) fn number_format(name: &str) -> Option<NumberFormat> {
    let lower = name.to_ascii_lowercase();
    // cuDNN calls its attention for bf16 `f16`, too.
    if lower.contains("sdpa") {
        return None;
    }
    let is_named = |format: &&NumberFormat| format.words().iter().any(|word| lower.contains(word));
    if let Some(format) = NumberFormat::VARIANTS.iter().find(is_named) {
        return Some(*format);
    }
    // Templates name their type first; further types, for example of scalars, come later.
    match (lower.find("float"), lower.find("double")) {
        (Some(float), Some(double)) if double < float => Some(NumberFormat::Fp64),
        (Some(_), _) => Some(NumberFormat::Fp32),
        (None, Some(_)) => Some(NumberFormat::Fp64),
        (None, None) => None,
    }
}

/// The order of dimensions that a name indicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LayoutMark {
    In(TensorLayout),
    /// Conversion between the two orders.
    Conversion,
}

pub(super) fn layout(name: &str) -> Option<LayoutMark> {
    let lower = name.to_ascii_lowercase();
    if lower.contains("nchwtonhwc") || lower.contains("nhwctonchw") {
        Some(LayoutMark::Conversion)
    } else if lower.contains(TensorLayout::Nhwc.name()) || lower.contains("channels_last") {
        Some(LayoutMark::In(TensorLayout::Nhwc))
    } else if lower.contains(TensorLayout::Nchw.name()) {
        Some(LayoutMark::In(TensorLayout::Nchw))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_real_reports_belong_to_the_family_a_reader_would_say() {
        for (name, expected) in [
            ("void elemWiseRNNcell<float, float, float, (cudnnRNNMode_t)2, (cudnnRNNBiasMode_t)2>(int)", "elementwise"),
            (
                "void tensorTransformGeneric<float, float, float, true, false, false>(cudnnTensorTransformStruct)",
                "copy",
            ),
            ("void at::native::<unnamed>::lpnorm_cleanup<float, (at::native::NormType)1>(float const*)", "reduction"),
            ("sm80_xmma_wgrad_implicit_gemm_indexed_f32f32_f32f32_f32_nhwckrsc_nhwc_tilesize32x32x8", "convolution"),
            ("void at::native::<unnamed>::conv_depthwise2d_forward_kernel<(int)3, float, int>()", "convolution"),
            ("void cudnn::bn_bw_1C11_singleread<float, (int)512>()", "normalisation"),
            ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4>(T1::Params)", "matrix"),
            ("void cudnn::engines_precompiled::nchwToNhwcKernel<float, float, float>()", "copy"),
            (
                "void at::native::<unnamed>::multi_tensor_apply_kernel<at::native::TensorListMetadata<(int)2>>",
                "optimizer",
            ),
            (
                "void at::native::vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctor_add<float>>",
                "elementwise",
            ),
            (
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
                "nccl_all_reduce",
            ),
            ("ncclKernel_ReduceScatter_RING_LL_Sum_float(ncclWorkElem)", "nccl_reduce_scatter"),
            ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096>)", "nccl_send_recv"),
            ("void <unnamed>::softmax_warp_forward<float>()", "reduction"),
            (
                "void cublasLt::splitKreduce_kernel<(int)32, (int)16, int, float>(cublasLt::cublasSplitKParams<T6>)",
                "matrix",
            ),
            (
                "void at::native::<unnamed>::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>(T1 *)",
                "reduction",
            ),
            ("void at::native::reduce_kernel<(int)512, (int)1, at::native::ReduceOp<float>>(T3)", "reduction"),
            ("void at::native::<unnamed>::max_pool_forward_nhwc<float, int>(const T1 *)", "reduction"),
            ("void at::native::<unnamed>::indexSelectLargeIndex<float, long, unsigned int, 2>()", "indexing"),
            ("void at::native::index_elementwise_kernel<(int)128, (int)4>(long, T3)", "indexing"),
            (
                "void at::native::<unnamed>::vectorized_layer_norm_kernel<c10::BFloat16, float, false>()",
                "normalisation",
            ),
            (
                "void at::native::<unnamed>::GammaBetaBackwardCUDAKernelTemplate<c10::BFloat16, float>()",
                "normalisation",
            ),
            ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>()", "attention"),
            (
                "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<64>>()",
                "attention",
            ),
            ("void pytorch_flash::flash_bwd_convert_dq_kernel<Flash_bwd_kernel_traits<64>>()", "attention"),
            ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel::Params)", "attention"),
            (
                "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_64x64x128_4x1x1_kernel0_0",
                "attention",
            ),
            ("cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_128x128x64_1x1x1", "attention"),
            ("nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_NNT", "matrix"),
            ("", "other"),
        ] {
            assert_eq!(family(name).name(), expected, "{name}");
        }
    }

    #[test]
    fn kernels_that_inductor_made_belong_to_the_family_that_their_kind_and_operations_say() {
        for (name, expected) in [
            ("triton_poi_fused_add_gelu_2", "elementwise"),
            ("triton_poi_fused__unsafe_view_gelu_gelu_backward_11", "elementwise"),
            ("triton_poi_fused_convolution_relu_3", "elementwise"),
            ("triton_poi_fused__to_copy_0", "copy"),
            ("triton_poi_fused__unsafe_view_clone_transpose_view_7", "copy"),
            ("triton_poi_fused_convert_element_type_t_4", "copy"),
            ("triton_poi_fused__native_batch_norm_legit_functional_relu_1", "normalisation"),
            ("triton_poi_fused_embedding_dense_backward_1", "indexing"),
            ("triton_poi_fused_tanh_5", "elementwise"),
            ("triton_red_fused__log_softmax__to_copy_nll_loss_forward_6", "reduction"),
            ("triton_per_fused_add_native_layer_norm_native_layer_norm_backward_9", "normalisation"),
            ("triton_red_fused__fused_rms_norm_add_1", "normalisation"),
            ("triton_red_fused_sum_15", "reduction"),
            ("triton_tem_fused_addmm_gelu_3", "matrix"),
            ("triton_tem_fused_mm_t_2", "matrix"),
            ("triton_tem_fused_convolution_1", "convolution"),
            ("triton_tem_fused_flex_attention_0", "attention"),
            ("triton_for_fused_0", "optimizer"),
            ("_layer_norm_fwd_1pass_kernel", "normalisation"),
            ("_attn_fwd", "attention"),
            ("triton_mine_fused_mm", "other"),
        ] {
            assert_eq!(family(name).name(), expected, "{name}");
        }
    }

    #[test]
    fn the_number_format_is_that_of_the_levels() {
        for (name, expected) in [
            ("sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize32x32x64", Some("tf32")),
            ("cutlass_80_tensorop_s1688gemm_64x64_16x6_nn_align1", Some("tf32")),
            ("cutlass_80_simt_sgemm_64x64_8x5_nn_align1", Some("fp32")),
            ("sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckcrs_nhwc", Some("fp16")),
            ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", Some("bf16")),
            ("nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT", Some("bf16")),
            ("nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_NNT", Some("bf16")),
            ("nvjet_sm90_hsh_128x256_64x4_2x1_v_bz_coopA_NNT", Some("fp16")),
            ("nvjet_sm90_qqtst_128x128_128x6_1x2_h_bz_ovscale_TNT", Some("fp8")),
            ("nvjet_qqtst_128x256_128x6_2x1_v_bz_coopA_TNT", Some("fp8")),
            ("sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize128x128x128", Some("fp8")),
            (
                "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_64x64x64_4x1x1_cga1x1x1_kernel0_0",
                None,
            ),
            ("sm80_xmma_gemm_f64f64_f64f64_f64_nt_n", Some("fp64")),
            ("void conv_depthwise2d_forward_kernel<(int)3, double, int>(float)", Some("fp64")),
            ("splitKreduce", None),
        ] {
            assert_eq!(number_format(name).map(NumberFormat::name), expected, "{name}");
        }
    }
}
