//! Jobs that are taken, and those that are refused by name.
#![allow(clippy::unwrap_used)]

use multicard::plan::{DataSet, Level};
use multicard::protocol::JobLimits;

use super::*;
use crate::image::testing::levels;

fn job(changed: &[(&str, Level)], ranks: u32) -> Job {
    Job {
        version: PROTOCOL_VERSION,
        run: "run".into(),
        workload: Workload::Image,
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

fn read_back(text: &str) -> Result<(Job, ImageSettings), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("job.json");
    std::fs::write(&path, text).unwrap();
    read(&path).map_err(|error| error.to_string())
}

fn refusal(job: &Job) -> String {
    read_back(&serde_json::to_string(job).unwrap()).unwrap_err()
}

#[test]
fn a_job_is_read_back_whole() {
    let wanted = job(&[("epochs", Level::Integer(3))], 1);
    let (found, settings) = read_back(&serde_json::to_string(&wanted).unwrap()).unwrap();
    assert_eq!(found, wanted);
    assert_eq!(settings.epochs, 3);
    assert_eq!(place(&found, 0).map(|place| place.rank), Some(0));
    assert!(place(&found, 1).is_none());
}

#[test]
fn another_version_is_refused_before_its_fields_are_read() {
    let error = read_back(r#"{"version": 99, "novelty": true}"#).unwrap_err();
    assert!(error.contains("protocol version 99") && error.contains("speaks 1"), "{error}");
}

#[test]
fn what_contradicts_itself_is_refused() {
    let error = refusal(&job(&[("gpus", Level::Integer(2))], 1));
    assert!(error.contains("gpus = 2") && error.contains("1 ranks"), "{error}");
    let mut twice = job(&[("gpus", Level::Integer(2))], 2);
    twice.ranks[1].rank = 0;
    assert!(refusal(&twice).contains("rank 1 of 2 has no place"));
    assert!(refusal(&job(&[("batch_size", Level::Integer(0))], 1)).contains("batch_size must be at least 1"));
    assert!(refusal(&job(&[("layout", Level::text("chwn"))], 1)).contains("layout = chwn"));
}

#[test]
fn a_strategy_must_fit_its_places() {
    let two = |strategy: &'static str| [("strategy", Level::text(strategy)), ("gpus", Level::Integer(2))];
    for (strategy, ranks) in [("ddp-ds", 2), ("ddp-rr", 2), ("ddp", 2), ("dp", 1)] {
        read_back(&serde_json::to_string(&job(&two(strategy), ranks)).unwrap()).unwrap();
    }
    assert!(refusal(&job(&two("dp"), 2)).contains("places for 2 ranks"));
    assert!(refusal(&job(&two("single"), 2)).contains("strategy = single has one rank, not 2"));
    let mut short = job(&two("dp"), 1);
    short.ranks[0].gpu_uuid = Some("GPU-a".into());
    assert!(refusal(&short).contains("a place on 1 GPUs, gpus = 2"));
    short.ranks[0].more_gpu_uuids = vec!["GPU-b".into()];
    read_back(&serde_json::to_string(&short).unwrap()).unwrap();
}

#[test]
fn a_scenario_needs_its_kind_of_set() {
    let b = [("scenario", Level::text("b"))];
    assert!(refusal(&job(&b, 1)).contains("scenario = b does not fit data.set = digits"));
    let files = Job { data: DataSet::files("photos"), ..job(&[], 1) };
    assert!(refusal(&files).contains("scenario = a does not fit data.set = folder"));
    let files = Job { data: DataSet::files("photos"), ..job(&b, 1) };
    read_back(&serde_json::to_string(&files).unwrap()).unwrap();
}

#[test]
fn broken_files_are_named_with_their_place() {
    let error = read_back("{\n \"version\": 1,").unwrap_err();
    assert!(error.contains("job.json") && error.contains("line 2"), "{error}");
    let error = read(Path::new("/nowhere/job.json")).unwrap_err().to_string();
    assert!(error.contains("/nowhere/job.json"), "{error}");
}
