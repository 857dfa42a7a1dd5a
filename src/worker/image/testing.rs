//! Cells and jobs for tests of the image workload.
#![allow(clippy::unwrap_used)]

use multicard::plan::image::ImageSettings;
use multicard::plan::{Data, Level, Levels, Shape, image};
use multicard::protocol::{Job, RankPlace};
use tch::{Kind, Tensor};

/// Images with the strides of channels last.
pub fn channels_last(images: &Tensor) -> Tensor {
    images.permute([0, 2, 3, 1]).contiguous().permute([0, 3, 1, 2])
}

/// The largest difference of two tensors of the same shape.
pub fn difference(a: &Tensor, b: &Tensor) -> f64 {
    assert_eq!(a.size(), b.size());
    (a.to_kind(Kind::Double) - b.to_kind(Kind::Double)).abs().max().double_value(&[])
}

/// The default levels of all factors except the given ones.
pub fn levels(changed: &[(&str, Level)]) -> Levels {
    image::spec().levels(changed)
}

/// A narrow model on small images.
pub fn settings() -> ImageSettings {
    let small = [("width_multiplier", Level::Number(0.35)), ("image_size", Level::Integer(32))];
    ImageSettings::from_levels(&levels(&small)).unwrap()
}

/// A job on the digits with these levels and CPU ranks.
pub fn job(changed: &[(&str, Level)], ranks: u32) -> Job {
    let levels = levels(changed);
    let shape = ImageSettings::from_levels(&levels).map_or_else(|_| Shape::default(), |settings| settings.shape());
    Job {
        run: "run".into(),
        data_folder: "/nowhere".into(),
        folder: "/nowhere".into(),
        ranks: (0..ranks).map(|rank| RankPlace::on_cpu(rank, 1)).collect(),
        ..Job::new(image::KEY.into(), levels, shape, Data::of_set("digits"))
    }
}
