//! Frozen matrices in FP8 (e4m3), with a scale for each row, as torchao scales rows: the greatest number of a row becomes 448.

use tch::{TchError, Tensor};

use crate::shim;
use crate::shim::llama::{Fp8, quantise_rows};
use crate::work::{Counted, Product, Sides, Work};

/// Quantises a matrix `[out, in]` on its device, once along its rows and once along its columns.
pub fn quantise(weight: &Tensor) -> Result<Fp8, TchError> {
    let weight = weight.f_detach()?;
    let columns = weight.f_transpose(0, 1)?.f_contiguous()?;
    Ok(Fp8 { rows: quantise_rows(&weight)?, columns: quantise_rows(&columns)? })
}

/// Replaces a quantised matrix by the quantised `weight`, which may have another type and device.
pub fn replace(place: &Fp8, weight: &Tensor) -> Result<(), TchError> {
    let quantised = quantise(&weight.f_to_device(place.rows.codes.device())?)?;
    place.tensors().into_iter().zip(quantised.tensors()).try_for_each(|(to, from)| shim::copy(to, from, false))
}

/// The work of a product of `rows` rows with a matrix in FP8. In each direction the product reads both operands in FP8, with their scales,
/// and writes its result in the type of activations.
pub fn work(product: &Product, rows: i64, sides: Sides, counted: Counted) -> Work {
    let size = counted.kind.elt_size_in_bytes() as i64;
    let narrow = |numbers: i64, scales: i64| (numbers + 4 * scales) / size;
    let (from, to) = (product.input / rows, product.output / rows);
    let forward = Product {
        input: narrow(product.input, rows),
        weight: narrow(product.weight, to),
        input_gradient: false,
        weight_gradient: false,
        ..*product
    };
    let backward = Product {
        input: narrow(product.output, rows),
        weight: narrow(product.weight, from),
        output: product.input,
        ..forward
    };
    let backward = backward.work(counted);
    let forward = forward.work_of(sides, counted);
    if product.input_gradient && counted.train { forward + backward } else { forward }
}

#[cfg(test)]
#[path = "fp8_tests.rs"]
mod tests;
