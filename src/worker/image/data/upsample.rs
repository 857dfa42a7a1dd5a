//! Turns an image of bytes into what the model receives: an upsampled, normalised image with three equal channels.
//!
//! Bilinear upsampling is linear, and its weights separate into rows and columns. So the few bytes are normalised first and widened row by
//! row. Each output row is then a blend of two wide rows, written in the type and layout in which it is copied to the device. These are
//! loops over contiguous values, which the compiler turns into vector instructions.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use multicard::dataset::{Axis, Real, nearest_byte};
use tch::Kind;

use super::{PIXEL_DEVIATION, PIXEL_MEAN};

/// Number of channels of an image that the model receives.
pub const CHANNELS: usize = 3;

/// The type in which pixels are copied to the device.
pub trait Pixel: Copy + Default + Send + 'static {
    /// Its name in libtorch. (tch's own `Element` takes bf16 for fp16.)
    const KIND: Kind;
    /// The type in which pixels are computed.
    type Real: Real;
    /// The value of a byte: normalised, unless the device normalises.
    fn value(byte: u8) -> f64 {
        (f64::from(byte) / 255.0 - PIXEL_MEAN) / PIXEL_DEVIATION
    }
    /// Rounds a row.
    fn convert(from: &[Self::Real], to: &mut [Self]);
    /// Writes `(1 - weight) * upper + weight * lower`, rounded; `scratch` is as long as the rows.
    fn blend(
        upper: &[Self::Real],
        lower: &[Self::Real],
        weight: Self::Real,
        scratch: &mut [Self::Real],
        to: &mut [Self],
    ) {
        blend(upper, lower, weight, scratch);
        Self::convert(scratch, to);
    }
}

fn blend<R: Real>(upper: &[R], lower: &[R], weight: R, to: &mut [R]) {
    let rest = R::of(1.0) - weight;
    for ((to, &upper), &lower) in to.iter_mut().zip(upper).zip(lower) {
        *to = rest * upper + weight * lower;
    }
}

impl Pixel for f64 {
    const KIND: Kind = Kind::Double;
    type Real = f64;
    fn convert(from: &[f64], to: &mut [Self]) {
        to.copy_from_slice(from);
    }
    fn blend(upper: &[f64], lower: &[f64], weight: f64, _: &mut [f64], to: &mut [Self]) {
        blend(upper, lower, weight, to);
    }
}

impl Pixel for f32 {
    const KIND: Kind = Kind::Float;
    type Real = f32;
    fn convert(from: &[f32], to: &mut [Self]) {
        to.copy_from_slice(from);
    }
    fn blend(upper: &[f32], lower: &[f32], weight: f32, _: &mut [f32], to: &mut [Self]) {
        blend(upper, lower, weight, to);
    }
}

impl Pixel for f16 {
    const KIND: Kind = Kind::Half;
    type Real = f32;
    fn convert(from: &[f32], to: &mut [Self]) {
        to.convert_from_f32_slice(from);
    }
}

impl Pixel for bf16 {
    const KIND: Kind = Kind::BFloat16;
    type Real = f32;
    fn convert(from: &[f32], to: &mut [Self]) {
        to.convert_from_f32_slice(from);
    }
}

impl Pixel for u8 {
    const KIND: Kind = Kind::Uint8;
    type Real = f32;
    fn value(byte: u8) -> f64 {
        f64::from(byte)
    }
    fn convert(from: &[f32], to: &mut [Self]) {
        for (to, &from) in to.iter_mut().zip(from) {
            *to = nearest_byte(from);
        }
    }
}

/// The value of each possible byte.
pub fn values<P: Pixel>() -> Vec<P> {
    let exact: Vec<_> = (0..=u8::MAX).map(|byte| P::Real::of(P::value(byte))).collect();
    let mut values = vec![P::default(); exact.len()];
    P::convert(&exact, &mut values);
    values
}

/// Upsamples images of one size to another; holds the weights and the scratch space of one thread.
pub struct Upsampler<P: Pixel> {
    columns_in: usize,
    rows: Axis<P::Real>,
    columns: Axis<P::Real>,
    values: Vec<P::Real>,
    channels_last: bool,
    size: usize,
    /// The input rows at output width; with channels last, each value three times.
    wide: Vec<P::Real>,
    /// A row of the same width, as scratch space.
    scratch: Vec<P::Real>,
}

impl<P: Pixel> Upsampler<P> {
    /// Creates an upsampler from `rows`×`columns` to `size`×`size`, all at least 1.
    pub fn new(rows: usize, columns: usize, size: usize, channels_last: bool) -> Self {
        let width = if channels_last { CHANNELS * size } else { size };
        Self {
            columns_in: columns,
            rows: Axis::new(rows, size),
            columns: Axis::new(columns, size),
            values: (0..=u8::MAX).map(|byte| P::Real::of(P::value(byte))).collect(),
            channels_last,
            size,
            wide: vec![P::Real::default(); rows * width],
            scratch: vec![P::Real::default(); width],
        }
    }

    /// Upsamples one image, row by row in `bytes`, into `output`: `[3, size, size]`, or `[size, size, 3]` with channels last.
    pub fn upsample(&mut self, bytes: &[u8], output: &mut [P]) {
        let Self { size, channels_last, .. } = *self;
        let width = self.scratch.len();
        for (bytes, wide) in bytes.chunks_exact(self.columns_in).zip(self.wide.chunks_exact_mut(width)) {
            let axis = self.columns.low.iter().zip(&self.columns.high).zip(&self.columns.weight);
            let values = axis.map(|((&low, &high), &weight)| {
                let (low, high) = (self.values[usize::from(bytes[low])], self.values[usize::from(bytes[high])]);
                (P::Real::of(1.0) - weight) * low + weight * high
            });
            if channels_last {
                let pixels = wide.as_chunks_mut::<CHANNELS>().0;
                pixels.iter_mut().zip(values).for_each(|(pixel, value)| *pixel = [value; CHANNELS]);
            } else {
                wide.iter_mut().zip(values).for_each(|(wide, value)| *wide = value);
            }
        }
        // With channels last, one plane holds all channels; otherwise the first channel is copied to the others.
        let (plane, others) = output.split_at_mut(width * size);
        for (y, row) in plane.chunks_exact_mut(width).enumerate() {
            let upper = &self.wide[self.rows.low[y] * width..][..width];
            let lower = &self.wide[self.rows.high[y] * width..][..width];
            P::blend(upper, lower, self.rows.weight[y], &mut self.scratch, row);
            for other in others.chunks_exact_mut(width * size) {
                other[y * width..][..width].copy_from_slice(row);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tch::Tensor;

    use super::*;
    use crate::image::testing::difference;

    fn bytes(rows: usize, columns: usize) -> Vec<u8> {
        (0..rows * columns).map(|index| (index * index * 31 + index * 7) as u8).collect()
    }

    /// What PyTorch makes of the same bytes: `[3, size, size]`.
    fn expected(bytes: &[u8], rows: i64, columns: i64, size: i64, kind: Kind) -> Tensor {
        let image = Tensor::from_slice(bytes).to_kind(kind).view([1, 1, rows, columns]) / 255.0;
        let image = image.upsample_bilinear2d([size, size], false, None, None);
        ((image - PIXEL_MEAN) / PIXEL_DEVIATION).repeat([1, 3, 1, 1]).squeeze_dim(0)
    }

    fn upsampled<P: Pixel>(
        bytes: &[u8],
        [rows, columns, size]: [usize; 3],
        channels_last: bool,
        value: fn(P) -> f64,
    ) -> Tensor {
        let mut upsampler = Upsampler::<P>::new(rows, columns, size, channels_last);
        let mut output = vec![P::default(); CHANNELS * size * size];
        upsampler.upsample(bytes, &mut output);
        let side = size as i64;
        let tensor = Tensor::from_slice(&output.into_iter().map(value).collect::<Vec<_>>());
        if channels_last { tensor.view([side, side, 3]).permute([2, 0, 1]) } else { tensor.view([3, side, side]) }
    }

    #[test]
    fn pixels_equal_pytorchs() {
        for shape in [[28, 28, 28], [28, 28, 100], [28, 28, 300], [28, 28, 20], [5, 9, 31], [1, 1, 3]] {
            let bytes = bytes(shape[0], shape[1]);
            let [rows, columns, size] = shape.map(|count| count as i64);
            let expect = |kind| expected(&bytes, rows, columns, size, kind);
            for channels_last in [false, true] {
                let single = upsampled::<f32>(&bytes, shape, channels_last, f64::from);
                assert!(difference(&single, &expect(Kind::Float)) < 1e-5, "{shape:?}");
                let double = upsampled::<f64>(&bytes, shape, channels_last, f64::from);
                assert!(difference(&double, &expect(Kind::Double)) < 1e-12, "{shape:?}");
            }
        }
    }

    #[test]
    fn narrow_types_round_what_fp32_gives() {
        let (bytes, shape) = (bytes(28, 28), [28, 28, 100]);
        let single = upsampled::<f32>(&bytes, shape, false, f64::from);
        let half = upsampled::<f16>(&bytes, shape, false, f64::from);
        assert_eq!(difference(&half, &single.to_kind(Kind::Float).to_kind(Kind::Half)), 0.0);
        let brain = upsampled::<bf16>(&bytes, shape, true, f64::from);
        assert_eq!(difference(&brain, &single.to_kind(Kind::Float).to_kind(Kind::BFloat16)), 0.0);
        let normalised = (upsampled::<u8>(&bytes, shape, false, f64::from) / 255.0 - PIXEL_MEAN) / PIXEL_DEVIATION;
        assert!(difference(&normalised, &single) < 0.5001 / 255.0 / PIXEL_DEVIATION);
    }
}
