//! Small cells for the tests of images.
#![allow(clippy::unwrap_used)]

use multicard::plan::{ImageSettings, Level, Levels, image};
use tch::Tensor;

/// Images with the strides of channels last.
pub fn channels_last(images: &Tensor) -> Tensor {
    images.permute([0, 2, 3, 1]).contiguous().permute([0, 3, 1, 2])
}

/// The default levels of all factors, but for those named.
pub fn levels(changed: &[(&str, Level)]) -> Levels {
    image::spec().levels(changed)
}

/// A narrow model on small images.
pub fn settings() -> ImageSettings {
    let small = [("width_multiplier", Level::Number(0.35)), ("image_size", Level::Integer(32))];
    ImageSettings::from_levels(&levels(&small)).unwrap()
}
