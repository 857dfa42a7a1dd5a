//! NF4 with double quantisation (arXiv 2305.14314), as in torchao 0.7: 4-bit codes of 16 levels, an 8-bit scale per block of 64
//! numbers, and a factor per 256 scales, which are quantised after subtracting their mean.

use tch::{Kind, TchError, Tensor};

use crate::shim;
use crate::shim::llama::Nf4;

/// Numbers per scale.
pub const BLOCK: i64 = 64;
/// Scales per factor.
pub const SCALE_BLOCK: i64 = 256;

/// Quantiles of the normal distribution, to four digits as in torchao.
const LEVELS: [f32; 16] = [
    -1.0, -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911, 0.0, 0.0796, 0.1609, 0.2461, 0.3379, 0.4407, 0.5626,
    0.723, 1.0,
];
/// Blocks quantised at a time, which limits the memory of intermediate results.
const AT_ONCE: i64 = 1 << 18;

/// Quantises a matrix `[out, in]`, computing in its type and on its device. Its size must be a multiple of [`BLOCK`].
///
/// Unlike in torchao, a block of zeros stays zero instead of becoming NaN, and the last block of scales may be shorter.
pub fn quantise(weight: &Tensor) -> Result<Nf4, TchError> {
    let weight = weight.f_detach()?;
    let blocks = weight.f_reshape([-1, BLOCK])?;
    let (count, kind) = (blocks.size()[0], weight.kind());
    let not_zero = |greatest: &Tensor| greatest.f_where_self(&greatest.f_gt(0.0)?, &greatest.f_ones_like()?);
    let greatest = blocks.f_abs()?.f_amax([1], false)?;

    let mean = greatest.f_mean(kind)?;
    let missing = (SCALE_BLOCK - count % SCALE_BLOCK) % SCALE_BLOCK;
    let scales = greatest.f_sub(&mean)?.f_constant_pad_nd([0, missing])?.f_view([-1, SCALE_BLOCK])?;
    let factors = not_zero(&scales.f_abs()?.f_amax([1], false)?)?.f_mul_scalar(2)?.f_reciprocal()?.f_mul_scalar(256)?;
    let scales = scales.f_mul(&factors.f_unsqueeze(1)?)?.f_round()?.f_clamp(-128, 127)?;
    let scales = scales.f_flatten(0, -1)?.f_narrow(0, 0, count)?.f_to_kind(Kind::Int8)?;

    let levels = Tensor::f_from_slice(&LEVELS)?.f_to_kind(kind)?.f_to_device(weight.device())?;
    let codes = Tensor::f_empty([count * BLOCK / 2], (Kind::Uint8, weight.device()))?;
    for first in (0..count).step_by(AT_ONCE as usize) {
        let rows = AT_ONCE.min(count - first);
        let divisor = not_zero(&greatest.f_narrow(0, first, rows)?)?.f_unsqueeze(1)?;
        let nearest_codes = nearest(&blocks.f_narrow(0, first, rows)?.f_div(&divisor)?, &levels)?.f_view([-1, 2])?;
        let both = nearest_codes.f_select(1, 0)?.f_mul_scalar(16)?.f_add(&nearest_codes.f_select(1, 1)?)?;
        shim::copy(&codes.f_narrow(0, first * BLOCK / 2, rows * BLOCK / 2)?, &both, false)?;
    }
    Ok(Nf4 { codes, scales, factors, mean: mean.f_reshape([1])?, levels, out: weight.size()[0] })
}

/// The index of the level nearest to each number, by differences in the numbers' type; the lower level in a tie.
fn nearest(numbers: &Tensor, levels: &Tensor) -> Result<Tensor, TchError> {
    let away = |level: i64| numbers.f_sub(&levels.f_get(level)?)?.f_abs();
    let mut least = away(0)?;
    let mut code = Tensor::f_zeros(numbers.size(), (Kind::Uint8, numbers.device()))?;
    for level in 1..LEVELS.len() as i64 {
        let found = away(level)?;
        let _ = code.f_masked_fill_(&found.f_lt_tensor(&least)?, level)?;
        least = least.f_minimum(&found)?;
    }
    Ok(code)
}

/// Replaces a quantised matrix by the quantised `weight`, which may have another type and device.
pub fn replace(place: &Nf4, weight: &Tensor) -> Result<(), TchError> {
    let quantised = quantise(&weight.f_to_device(place.mean.device())?.f_to_kind(place.mean.kind())?)?;
    for (to, from) in [
        (&place.codes, quantised.codes),
        (&place.scales, quantised.scales),
        (&place.factors, quantised.factors),
        (&place.mean, quantised.mean),
    ] {
        shim::copy(to, &from, false)?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "nf4_tests.rs"]
mod tests;
