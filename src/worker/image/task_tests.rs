//! Jobs that fit no training of images, and are refused by name.
#![allow(clippy::unwrap_used)]

use multicard::plan::{DataSet, Level};
use multicard::protocol::{JobLimits, PROTOCOL_VERSION};

use super::testing::levels;
use super::*;

fn job(changed: &[(&str, Level)], ranks: u32) -> Job {
    Job {
        version: PROTOCOL_VERSION,
        run: "run".into(),
        workload: multicard::plan::Workload::Image,
        levels: levels(changed),
        data: DataSet::Digits,
        data_folder: "/nowhere".into(),
        seed: 1,
        warm_up_steps: 0,
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
fn levels_that_contradict_the_places_or_mean_nothing_are_refused() {
    let error = refusal(&job(&[("gpus", Level::Integer(2))], 1));
    assert!(error.contains("gpus = 2") && error.contains("1 ranks"), "{error}");
    assert!(refusal(&job(&[("batch_size", Level::Integer(0))], 1)).contains("batch_size must be at least 1"));
    assert!(refusal(&job(&[("layout", Level::text("chwn"))], 1)).contains("layout = chwn"));
}

#[test]
fn a_strategy_must_fit_its_places() {
    let two = |strategy: &'static str| [("strategy", Level::text(strategy)), ("gpus", Level::Integer(2))];
    for (strategy, ranks) in [("ddp-ds", 2), ("ddp-rr", 2), ("ddp", 2), ("dp", 1)] {
        assert!(Image::new(&job(&two(strategy), ranks)).is_ok(), "{strategy}");
    }
    assert!(refusal(&job(&two("dp"), 2)).contains("places for 2 ranks"));
    assert!(refusal(&job(&two("single"), 2)).contains("strategy = single has one rank, not 2"));
    let mut short = job(&two("dp"), 1);
    short.ranks[0].gpu_uuid = Some("GPU-a".into());
    assert!(refusal(&short).contains("a place on 1 GPUs, gpus = 2"));
    short.ranks[0].more_gpu_uuids = vec!["GPU-b".into()];
    assert!(Image::new(&short).is_ok());
}

#[test]
fn a_scenario_needs_its_kind_of_set() {
    let b = [("scenario", Level::text("b"))];
    assert!(refusal(&job(&b, 1)).contains("scenario = b does not fit data.set = digits"));
    let files = Job { data: DataSet::files("photos"), ..job(&[], 1) };
    assert!(refusal(&files).contains("scenario = a does not fit data.set = folder"));
    let files = Job { data: DataSet::files("photos"), ..job(&b, 1) };
    assert!(Image::new(&files).is_ok());
}
