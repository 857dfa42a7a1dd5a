//! Bilinear resizing: the weights of an axis, and resizing of colour images.

use std::ops::{Add, Mul, Sub};

/// Arithmetic for resizing.
pub trait Real:
    Copy + Default + PartialOrd + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Send + 'static
{
    /// The nearest value.
    fn of(value: f64) -> Self;
    /// Integer part of a non-negative value.
    fn whole(self) -> usize;
    /// Quotient of two counts.
    fn ratio(from: usize, to: usize) -> Self;
}

macro_rules! real {
    ($($real:ty),+) => { $(impl Real for $real {
        fn of(value: f64) -> Self { value as Self }
        fn whole(self) -> usize { self as usize }
        fn ratio(from: usize, to: usize) -> Self { from as Self / to as Self }
    })+ };
}
real!(f32, f64);

/// One axis of bilinear resizing: output `i` is `(1 - weight[i]) * input[low[i]] + weight[i] * input[high[i]]`.
pub struct Axis<R> {
    /// Index of the input before.
    pub low: Vec<usize>,
    /// Index of the input after.
    pub high: Vec<usize>,
    /// Weight of the input after.
    pub weight: Vec<R>,
}

impl<R: Real> Axis<R> {
    /// Weights for resizing `from` to `to` pixels, with the same arithmetic as
    /// `torch.nn.functional.interpolate(mode="bilinear", align_corners=False)`.
    pub fn new(from: usize, to: usize) -> Self {
        let (half, zero, scale) = (R::of(0.5), R::default(), R::ratio(from, to));
        let mut axis = Self { low: Vec::new(), high: Vec::new(), weight: Vec::new() };
        for index in 0..to {
            let source = scale * (R::ratio(index, 1) + half) - half;
            let source = if source < zero { zero } else { source };
            let low = source.whole().min(from - 1);
            axis.low.push(low);
            axis.high.push((low + 1).min(from - 1));
            axis.weight.push(source - R::ratio(low, 1));
        }
        axis
    }
}

/// Rounds a value from 0 to 255 to the nearest byte.
pub fn nearest_byte(value: f32) -> u8 {
    // From 2²³ up, the last bit of an f32 is worth 1, so the addition rounds without a range check.
    (value + 8_388_608.0).to_bits() as u8
}

/// Channels of a colour image.
const COLOURS: usize = 3;

/// Resizes `[rows, columns, 3]` bytes to `[size, size, 3]`, rounded to the nearest byte. All sides are at least 1.
pub fn enlarge(pixels: &[u8], [rows, columns]: [usize; 2], size: usize, output: &mut [u8]) {
    if [rows, columns] == [size, size] {
        output.copy_from_slice(pixels);
        return;
    }
    let (down, across) = (Axis::<f32>::new(rows, size), Axis::<f32>::new(columns, size));
    let mut wide = vec![0.0_f32; rows * size * COLOURS];
    for (input, wide) in pixels.chunks_exact(columns * COLOURS).zip(wide.chunks_exact_mut(size * COLOURS)) {
        let (input, wide) = (input.as_chunks::<COLOURS>().0, wide.as_chunks_mut::<COLOURS>().0);
        let axis = across.low.iter().zip(&across.high).zip(&across.weight);
        for (((&low, &high), &weight), wide) in axis.zip(wide) {
            for channel in 0..COLOURS {
                let (low, high) = (f32::from(input[low][channel]), f32::from(input[high][channel]));
                wide[channel] = (1.0 - weight) * low + weight * high;
            }
        }
    }
    for (y, output) in output.chunks_exact_mut(size * COLOURS).enumerate() {
        let upper = &wide[down.low[y] * size * COLOURS..][..size * COLOURS];
        let lower = &wide[down.high[y] * size * COLOURS..][..size * COLOURS];
        let weight = down.weight[y];
        for ((output, &upper), &lower) in output.iter_mut().zip(upper).zip(lower) {
            *output = nearest_byte((1.0 - weight) * upper + weight * lower);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_of_the_same_size_is_unchanged_and_a_flat_one_stays_flat() {
        let pixels: Vec<u8> = (0..5 * 5 * 3).map(|index| (index * 37) as u8).collect();
        let mut same = vec![0; pixels.len()];
        enlarge(&pixels, [5, 5], 5, &mut same);
        assert_eq!(same, pixels);
        let mut flat = vec![0; 9 * 9 * 3];
        enlarge(&[7; 4 * 2 * 3], [4, 2], 9, &mut flat);
        assert!(flat.iter().all(|&byte| byte == 7));
    }

    #[test]
    fn channels_are_resized_independently() {
        let mut wide = [0; 4 * 4 * 3];
        enlarge(&[0, 100, 200, 40, 100, 0], [1, 2], 4, &mut wide);
        // At a quarter and three quarters between two pixels, and beyond them.
        assert_eq!(wide[..12], [0, 100, 200, 10, 100, 150, 30, 100, 50, 40, 100, 0]);
        assert_eq!(wide[..12], wide[36..]);
    }
}
