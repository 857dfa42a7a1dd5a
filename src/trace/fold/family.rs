//! The purpose, number format and layout of a kernel, inferred from its name.

use strum::VariantArray as _;

use crate::plan::{NumberFormat, TensorLayout};

/// The purpose of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Family {
    Convolution,
    /// Matrix products, attention included.
    Matrix,
    Normalisation,
    Elementwise,
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
            Self::Normalisation => "normalisation".to_owned(),
            Self::Elementwise => "elementwise".to_owned(),
            Self::Optimizer => "optimizer".to_owned(),
            Self::DataMovement => "copy".to_owned(),
            Self::Nccl(collective) => format!("nccl_{collective}"),
            Self::Other => "other".to_owned(),
        }
    }
}

/// Lower-case words that identify a family. The first family with a word in the name wins. Convolutions are computed by matrix products, so
/// words of convolutions come first; copies can be conversions, so words of copies come before `conv`.
const WORDS: &[(Family, &[&str])] = &[
    (
        Family::Optimizer,
        &["multi_tensor_apply", "fused_sgd", "fusedsgd", "fused_adam", "fusedadam", "adamw", "adagrad", "rmsprop"],
    ),
    (
        Family::Normalisation,
        &[
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
            "welford",
        ],
    ),
    (
        Family::DataMovement,
        &[
            "nchwtonhwc",
            "nhwctonchw",
            "catarraybatchedcopy",
            "direct_copy",
            "copy_kernel",
            "transpose",
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
    (
        Family::Matrix,
        &["gemm", "gemv", "nvjet", "cublas", "splitk", "matmul", "fmha", "flash_fwd", "flash_bwd", "attention"],
    ),
    (
        Family::Elementwise,
        &["elementwise", "dropout", "fillfunctor", "scalepackedtensor", "scal_kernel", "upsample", "activation"],
    ),
];

/// The family of a kernel.
pub(super) fn family(name: &str) -> Family {
    if let Some(collective) = collective(name) {
        return Family::Nccl(collective);
    }
    let lower = name.to_ascii_lowercase();
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
            ("void <unnamed>::softmax_warp_forward<float>()", "other"),
            ("", "other"),
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
            ("sm80_xmma_gemm_f64f64_f64f64_f64_nt_n", Some("fp64")),
            ("void conv_depthwise2d_forward_kernel<(int)3, double, int>(float)", Some("fp64")),
            ("splitKreduce", None),
        ] {
            assert_eq!(number_format(name).map(NumberFormat::name), expected, "{name}");
        }
    }
}
