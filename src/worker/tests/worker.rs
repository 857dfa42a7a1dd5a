//! The worker as the workbench starts it.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

use multicard::plan::Worker;
use multicard::protocol::PROTOCOL_VERSION;

fn worker(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_multicard-worker")).args(arguments).output().unwrap()
}

#[test]
fn a_worker_describes_itself_as_one_of_this_workbench_over_the_libtorch_that_it_was_built_for() {
    let output = worker(&["describe"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let described: Worker = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((described.version.as_str(), described.protocol_version), (env!("CARGO_PKG_VERSION"), PROTOCOL_VERSION));
    let wanted = include_str!("../../../.ci/torch-version").trim();
    assert_eq!(described.torch_version.split('+').next(), Some(wanted));
}

#[test]
fn what_is_no_command_or_no_job_is_refused_with_its_name() {
    for (arguments, reason) in [
        (&["sing"][..], "usage: multicard-worker describe"),
        (&["rank", "/nowhere/job.json", "first"], "\"first\" is not a number"),
        (&["rank", "/nowhere/job.json", "0"], "/nowhere/job.json"),
    ] {
        let output = worker(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(reason), "{arguments:?}: {stderr}");
    }
}
