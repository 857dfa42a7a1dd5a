//! Jobs that do not fit the image workload, and are rejected with a reason.
#![allow(clippy::unwrap_used)]

use multicard::plan::image::DataSet;
use multicard::plan::{Level, Shape};

use super::testing::job;
use super::*;

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
