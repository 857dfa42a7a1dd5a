//! NF4 with double quantisation (arXiv 2305.14314), as torchao 0.7 makes it: 4-bit codes of 16 levels, an 8-bit scale for each block of
//! 64 numbers, and a factor for each 256 scales, of what is left of them less their mean.

use tch::{Kind, TchError, Tensor};

use crate::shim;
use crate::shim::llama::Nf4;

/// Numbers that share a scale.
pub const BLOCK: i64 = 64;
/// Scales that share a factor.
pub const SCALE_BLOCK: i64 = 256;

/// Quantiles of the normal distribution, to four digits as torchao has them.
const LEVELS: [f32; 16] = [
    -1.0, -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911, 0.0, 0.0796, 0.1609, 0.2461, 0.3379, 0.4407, 0.5626,
    0.723, 1.0,
];
/// Blocks whose codes are sought at a time: what lies between is as large as they are in their own type.
const AT_ONCE: i64 = 1 << 18;

/// Quantises a matrix `[out, in]`, in whose type and on whose device all arithmetic is. Its numbers make whole blocks.
///
/// A block of zeros alone, of which torchao makes no numbers, stays zero; and the last block of scales may be shorter.
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
        let found = nearest(&blocks.f_narrow(0, first, rows)?.f_div(&divisor)?, &levels)?.f_view([-1, 2])?;
        let both = found.f_select(1, 0)?.f_mul_scalar(16)?.f_add(&found.f_select(1, 1)?)?;
        shim::copy(&codes.f_narrow(0, first * BLOCK / 2, rows * BLOCK / 2)?, &both, false)?;
    }
    Ok(Nf4 { codes, scales, factors, mean: mean.f_reshape([1])?, levels, out: weight.size()[0] })
}

/// The level that is nearest to each number, the lower one of two, as differences rounded to the numbers' type have it.
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

/// Gives a quantised matrix other numbers: those of `weight`, which may be of another type and on another device.
pub fn replace(place: &Nf4, weight: &Tensor) -> Result<(), TchError> {
    let made = quantise(&weight.f_to_device(place.mean.device())?.f_to_kind(place.mean.kind())?)?;
    for (to, from) in [
        (&place.codes, made.codes),
        (&place.scales, made.scales),
        (&place.factors, made.factors),
        (&place.mean, made.mean),
    ] {
        shim::copy(to, &from, false)?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "nf4_tests.rs"]
mod tests;
