//! Cells and jobs for tests of the image workload.
#![allow(clippy::unwrap_used)]

use multicard::plan::image::ImageSettings;
use multicard::plan::{Data, Level, Levels, Mode, Shape, image};
use multicard::protocol::{Job, JobLimits, PROTOCOL_VERSION, RankPlace};
use tch::Tensor;

/// Images with the strides of channels last.
pub fn channels_last(images: &Tensor) -> Tensor {
    images.permute([0, 2, 3, 1]).contiguous().permute([0, 3, 1, 2])
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
        version: PROTOCOL_VERSION,
        run: "run".into(),
        workload: image::KEY.into(),
        levels,
        shape,
        data: Data::of_set("digits"),
        data_folder: "/nowhere".into(),
        seed: 1,
        warm_up_steps: 0,
        mode: Mode::Full,
        folder: "/nowhere".into(),
        ranks: (0..ranks).map(|rank| RankPlace::on_cpu(rank, 1)).collect(),
        working_folder: None,
        resume: None,
        trace: None,
        built_in_trace: false,
        program: None,
        limits: JobLimits::default(),
    }
}
