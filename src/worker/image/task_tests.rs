//! Jobs that fit no training of images, and are refused by name.
#![allow(clippy::unwrap_used)]

use multicard::plan::image::{self, DataSet};
use multicard::plan::{Data, Level, Mode, Shape};
use multicard::protocol::{JobLimits, PROTOCOL_VERSION, RankPlace};

use super::testing::levels;
use super::*;

fn job(changed: &[(&str, Level)], ranks: u32) -> Job {
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
        trace: None,
        limits: JobLimits::default(),
    }
}

fn refusal(job: &Job) -> String {
    Image::new(job).err().unwrap()
}

#[test]
fn levels_that_contradict_the_shape_or_mean_nothing_are_refused() {
    let other = Job { shape: Shape::default(), ..job(&[("gpus", Level::Integer(2))], 1) };
    assert!(refusal(&other).contains("its levels come to"));
    assert!(refusal(&job(&[("batch_size", Level::Integer(0))], 1)).contains("batch_size must be at least 1"));
    assert!(refusal(&job(&[("layout", Level::text("chwn"))], 1)).contains("layout = chwn"));
}

#[test]
fn every_strategy_but_single_spreads_over_several_gpus() {
    let two = |strategy: &'static str| [("strategy", Level::text(strategy)), ("gpus", Level::Integer(2))];
    for (strategy, ranks) in [("ddp-ds", 2), ("ddp-rr", 2), ("ddp", 2), ("dp", 1)] {
        assert!(Image::new(&job(&two(strategy), ranks)).is_ok(), "{strategy}");
    }
    assert!(refusal(&job(&two("single"), 2)).contains("strategy = single has one rank, not 2"));
}

#[test]
fn a_scenario_needs_its_kind_of_set() {
    let b = [("scenario", Level::text("b"))];
    assert!(refusal(&job(&b, 1)).contains("scenario = b does not fit data.set = digits"));
    let files = Job { data: DataSet::files("photos").into(), ..job(&[], 1) };
    assert!(refusal(&files).contains("scenario = a does not fit data.set = folder"));
    let files = Job { data: DataSet::files("photos").into(), ..job(&b, 1) };
    assert!(Image::new(&files).is_ok());
}
