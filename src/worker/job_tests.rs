//! Jobs that are accepted, and those that are rejected with a reason.
#![allow(clippy::unwrap_used)]

use multicard::plan::Level;

use super::*;
use crate::image::testing::job;

fn read_back(text: &str) -> Result<Job, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("job.json");
    std::fs::write(&path, text).unwrap();
    read(&path).map(|(job, _)| job).map_err(|error| error.to_string())
}

fn refusal(job: &Job) -> String {
    read_back(&serde_json::to_string(job).unwrap()).unwrap_err()
}

#[test]
fn a_job_is_read_back_whole() {
    let wanted = job(&[("epochs", Level::Integer(3))], 1);
    let found = read_back(&serde_json::to_string(&wanted).unwrap()).unwrap();
    assert_eq!(found, wanted);
    assert_eq!(place(&found, 0).map(|place| place.rank), Some(0));
    assert!(place(&found, 1).is_none());
}

#[test]
fn another_version_is_refused_before_its_fields_are_read() {
    let error = read_back(r#"{"version": 99, "novelty": true}"#).unwrap_err();
    assert!(error.contains("protocol version 99") && error.contains(&format!("speaks {PROTOCOL_VERSION}")), "{error}");
}

#[test]
fn what_contradicts_itself_is_refused() {
    let short = job(&[("gpus", Level::Integer(2))], 1);
    let error = refusal(&short);
    assert!(error.contains("2 processes") && error.contains("1 rank"), "{error}");
    let mut lonely = job(&[("gpus", Level::Integer(2)), ("strategy", Level::text("dp"))], 1);
    lonely.ranks[0].gpu_uuid = Some("GPU-a".into());
    assert!(refusal(&lonely).contains("a place on 1 GPU, and computes on 2"));
    let mut twice = job(&[("gpus", Level::Integer(2))], 2);
    twice.ranks[1].rank = 0;
    assert!(refusal(&twice).contains("rank 1 of 2 has no place"));
    // What the workload refuses, too.
    assert!(refusal(&job(&[("batch_size", Level::Integer(0))], 1)).contains("batch_size must be at least 1"));
}

#[test]
fn a_workload_that_this_worker_lacks_is_refused_with_those_that_it_has() {
    let error = refusal(&Job { workload: "chess".into(), ..job(&[], 1) });
    assert!(error.contains("workload chess is not there yet: this worker trains image"), "{error}");
}

#[test]
fn broken_files_are_named_with_their_place() {
    let error = read_back("{\n \"version\": 1,").unwrap_err();
    assert!(error.contains("job.json") && error.contains("line 2"), "{error}");
    let error = read(Path::new("/nowhere/job.json")).err().unwrap().to_string();
    assert!(error.contains("/nowhere/job.json"), "{error}");
}
