//! Turns an image of the set into the pixels that are copied to the device: digits of scenario a are upsampled, colour images of scenario b
//! are normalised.

use multicard::dataset::{decode, enlarge};

use super::samples::{Content, Samples};
use super::upsample::{CHANNELS, Pixel, Upsampler};

/// Renders the images of one set; holds the weights and the scratch space of one thread.
pub struct Renderer<P: Pixel> {
    size: usize,
    way: Way<P>,
}

enum Way<P: Pixel> {
    /// For images with one channel, whose size changes.
    Upsample(Upsampler<P>),
    /// For images with three channels that already have the right size.
    Normalise(Normaliser<P>),
}

impl<P: Pixel> Renderer<P> {
    /// Creates a renderer for images of `size`×`size` pixels.
    pub fn new(samples: &Samples, size: usize, channels_last: bool) -> Self {
        let way = match samples.content {
            Content::Bytes { shape: [rows, columns, 1], .. } => {
                Way::Upsample(Upsampler::new(rows, columns, size, channels_last))
            }
            _ => Way::Normalise(Normaliser::new(size, channels_last)),
        };
        Self { size, way }
    }

    /// Number of elements that an image fills.
    pub fn output_len(&self) -> usize {
        CHANNELS * self.size * self.size
    }

    /// Renders an image into `[3, size, size]`, or `[size, size, 3]` with channels last.
    pub fn render(&mut self, samples: &Samples, index: usize, output: &mut [P]) -> Result<(), String> {
        match &samples.content {
            Content::Bytes { shape, pixels } => {
                let len = shape.iter().product::<usize>();
                let bytes = &pixels[index * len..(index + 1) * len];
                match &mut self.way {
                    Way::Upsample(upsampler) => upsampler.upsample(bytes, output),
                    Way::Normalise(normaliser) => normaliser.normalise(bytes, output),
                }
            }
            Content::Files(paths) => {
                let picture = decode(&paths[index]).map_err(|error| error.to_string())?;
                let Way::Normalise(normaliser) = &mut self.way else { return Ok(()) };
                if [picture.rows, picture.columns] == [self.size; 2] {
                    normaliser.normalise(&picture.pixels, output);
                } else {
                    let mut sized = std::mem::take(&mut normaliser.sized);
                    sized.resize(CHANNELS * self.size * self.size, 0);
                    enlarge(&picture.pixels, [picture.rows, picture.columns], self.size, &mut sized);
                    normaliser.normalise(&sized, output);
                    normaliser.sized = sized;
                }
            }
        }
        Ok(())
    }
}

/// Normalises colour images given as bytes.
struct Normaliser<P> {
    /// The normalised value of each byte.
    values: Vec<P>,
    channels_last: bool,
    plane: usize,
    /// A decoded image at its new size.
    sized: Vec<u8>,
}

impl<P: Pixel> Normaliser<P> {
    fn new(size: usize, channels_last: bool) -> Self {
        Self { values: super::upsample::values(), channels_last, plane: size * size, sized: Vec::new() }
    }

    /// Normalises an image laid out as `[size, size, 3]`.
    fn normalise(&self, bytes: &[u8], output: &mut [P]) {
        let value = |byte: u8| self.values[usize::from(byte)];
        if self.channels_last {
            for (output, &byte) in output.iter_mut().zip(bytes) {
                *output = value(byte);
            }
            return;
        }
        let bytes = bytes.as_chunks::<CHANNELS>().0;
        for (channel, plane) in output.chunks_exact_mut(self.plane).enumerate() {
            for (output, pixel) in plane.iter_mut().zip(bytes) {
                *output = value(pixel[channel]);
            }
        }
    }
}
